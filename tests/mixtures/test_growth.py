"""Training mixtures: gradients, births and merges, and recovery of the number of clusters."""

import copy

import pyro
import pytest
import torch
from pyro.infer import TraceGraph_ELBO
from support.growth_checks import assert_identical, copied_tensors
from support.mixture_parts import COVARIANCES, clusters, gaussians
from torch.testing import assert_close

from pyro_options.growth import DataBirth, EvidenceRule, Scene, grow, permute, prune
from pyro_options.guides import GrowableGEM, MixtureWeights
from pyro_options.handlers import GrowthMessenger
from pyro_options.infer import MixtureConfig, MixtureTrainer
from pyro_options.mixtures import (
    BoundMerge,
    BoundRule,
    CountComponents,
    Folds,
    GaussianComponents,
    SeedBirth,
    cross_fitted,
)
from pyro_options.mixtures.conjugate_moves import SHARES
from pyro_options.mixtures.coordinate_ascent import ascend
from pyro_options.models import DPMixture


@pytest.mark.parametrize("family", [*COVARIANCES, "counts"])
def test_every_parameter_gets_a_gradient_before_and_after_moves(family):
    if family == "counts":
        rows = torch.randint(4, (30, 5)).float()
        components = CountComponents(5, 2)
    else:
        rows, _ = clusters()
        components = gaussians(rows, 2, family).float()
    model, guide = DPMixture(components), MixtureWeights(GrowableGEM(2))
    optimizer = torch.optim.Adam([*model.parameters(), *guide.parameters()], lr=0.01)
    moves = [lambda m: None, grow, lambda m: permute(m, [2, 0, 1]), lambda m: prune(m, [1])]
    for move in moves:
        move([model, guide])
        optimizer.zero_grad()
        with pyro.get_param_store().scope():
            TraceGraph_ELBO().loss_and_grads(model, guide, rows)
        for name, parameter in [*model.named_parameters(), *guide.named_parameters()]:
            assert parameter.grad is not None and parameter.grad.isfinite().all(), name
            if "upper" not in name or family == "full":
                assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("birth", [DataBirth(steps=5), "seed"])
def test_growth_handlers_work_for_mixtures(birth):
    rows, _ = clusters(2, 200)
    model, guide = DPMixture(GaussianComponents(rows, 1)), MixtureWeights(GrowableGEM(1))
    model.components.absorb(rows, torch.ones(len(rows), 1))
    before = model.components.loc.detach().clone()
    birth = SeedBirth(model.components) if birth == "seed" else birth
    growth = GrowthMessenger([model, guide], EvidenceRule(), birth, site="rows")
    with torch.no_grad(), growth:
        model(rows)
    weights = guide.weights.mean_log_weights().detach()
    event = growth.step(None, 1, model, rows, weights)
    assert event.usage.num_points == 200
    assert model.num_components == guide.weights.num_components == 1 + event.num_born
    assert torch.equal(model.components.loc[:1], before)


def test_a_seeded_birth_finds_a_cluster_and_refuses_where_there_is_none():
    rows, labels = clusters(2, 200)
    for data, expected in ((rows, 2), (rows[labels == 0], 1)):
        model, guide = DPMixture(GaussianComponents(data)), MixtureWeights(GrowableGEM(1))
        trainer = MixtureTrainer(model, guide, data)
        for _ in range(5):
            trainer.step()
        trainer.observe_and_grow()
        assert model.num_components == expected


def test_refused_moves_leave_everything_identical():
    """Births and merges move the old components and the prior too."""
    rows, _ = clusters(2, 200)
    model, guide = DPMixture(GaussianComponents(rows)), MixtureWeights(GrowableGEM(1))
    trainer = MixtureTrainer(model, guide, rows)
    trainer.step()
    assert trainer.observe_and_grow().num_born == 1
    for _ in range(3):
        trainer.step()
    before = copied_tensors(model, guide, optimizer=trainer.optimizer)
    event = trainer.observe_and_grow()
    assert [move.kind for move in event.moves] == ["birth"] and not event.moves[0].verdict.accepted
    merge = BoundMerge(model.components, least_overlap=-1.0)
    scene = Scene([model, guide], event.usage, "rows", guide.weights.mean_log_weights().detach(), model, rows)
    assert not any(move.verdict.accepted for move in merge(scene, trainer.optimizer))
    assert_identical(before, copied_tensors(model, guide, optimizer=trainer.optimizer))


def test_two_halves_of_a_cluster_are_merged():
    rows, labels = clusters(2, 200)
    model, guide = DPMixture(GaussianComponents(rows, 3)), MixtureWeights(GrowableGEM(3))
    halves = torch.where((labels == 0) & (torch.rand(200) < 0.5), 2, labels)
    model.components.absorb(rows, torch.nn.functional.one_hot(halves, 3).float())
    guide.weights.assign(torch.tensor([0.25, 0.45, 0.25]).log())
    trainer = MixtureTrainer(model, guide, rows)
    trainer.simplify()
    assert model.num_components == 2
    found = model.labels(rows, guide.weights.mean_log_weights())
    assert all(len(found[labels == k].unique()) == 1 for k in range(2))


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_number_of_clusters_is_recovered_from_one(covariance):
    rows, labels = clusters(4, 200)
    model, guide = DPMixture(GaussianComponents(rows, 1, covariance)), MixtureWeights(GrowableGEM(1))
    history = MixtureTrainer(model, guide, rows, MixtureConfig(every=6, patience=3, final_steps=15)).run()
    found = model.labels(rows, guide.weights.mean_log_weights())
    assert model.num_components == 4 and len(history.growth_steps) == 3
    assert all(len(found[labels == k].unique()) == 1 for k in range(4)) and len(found.unique()) == 4
    assert history.elbo[-1] > history.elbo[0] + 1


def test_kinds_of_counts_are_recovered_from_one():
    topics = torch.tensor([[8, 8, 0.2, 0.2, 0.2], [0.2, 0.2, 0.2, 8, 8], [0.2, 0.2, 16, 0.2, 0.2]])
    rows = torch.poisson(topics.repeat(80, 1))
    model, guide = DPMixture(CountComponents(5)), MixtureWeights(GrowableGEM(1))
    MixtureTrainer(model, guide, rows, MixtureConfig(every=6, patience=3, final_steps=10)).run()
    assert model.num_components == 3


def row_of_gaussians(num_components, num_rows, seed, spacing=3.0):
    """Rows ``(N, 1)`` of Gaussians whose neighbours are ``spacing`` standard deviations apart, and their labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_components, (num_rows,), generator=generator)
    return spacing * labels.unsqueeze(-1) + torch.randn(num_rows, 1, generator=generator), labels


def test_cross_fitted_density_is_that_of_fits_to_the_other_rows():
    rows, labels = clusters(2, 21, dtype=torch.float64)
    components, shares = gaussians(rows, 2), torch.nn.functional.one_hot(labels, 2).double()
    before = copied_tensors(components)
    found = cross_fitted(components, rows, shares, folds=21, steps=1)
    assert_identical(before, copied_tensors(components))
    for left_out in (0, 7, 20):
        rest = torch.arange(21) != left_out
        alone = copy.deepcopy(components)
        alone.absorb(rows[rest], shares[rest])
        alone.learn_prior()
        weights = torch.log(shares[rest].mean(0)) + alone().log_prob(rows[rest].unsqueeze(1))
        weights = torch.softmax(weights, -1).mean(0)  # of the responsibilities after the fit
        expected = torch.logsumexp(weights.log() + alone.predictive().log_prob(rows[left_out].view(1, 1, 2)), -1)
        assert_close(found[left_out], expected.squeeze())


@pytest.mark.parametrize("folds", [None, Folds()])
def test_folds_accept_overlapping_gaussians_that_the_bound_refuses(folds):
    """Two components cover two Gaussians each; the birth proposes one for each of the four."""
    rows, labels = row_of_gaussians(4, 250, seed=0)
    model, guide = DPMixture(GaussianComponents(rows, 2)), MixtureWeights(GrowableGEM(2))
    pairs = torch.nn.functional.one_hot(labels // 2, 2).float()
    ascend(model.components, rows, pairs, 100)

    def birth(newborns):
        newborns.notes[SHARES] = torch.nn.functional.one_hot(labels, 4).float()

    rule = BoundRule(model.components, steps=100, folds=folds, births=2)
    growth = GrowthMessenger([model, guide], rule, birth, site="rows")
    with torch.no_grad(), growth:
        model(rows)
    before = copied_tensors(model, guide)
    event = growth.step(None, 1, model, rows, torch.tensor([0.5, 0.5]).log())
    assert event.num_born == (2 if folds else 0)
    if not folds:
        assert_identical(before, copied_tensors(model, guide))
    else:  # the verdict left the components as the rule had fitted them
        found = model.labels(rows, guide.weights.mean_log_weights())
        assert torch.bincount(4 * labels + found, minlength=16).view(4, 4).amax(1).sum() > 0.8 * len(rows)


def test_two_births_place_old_components_anew():
    """One component in the middle of three clusters: with two more, each has its own after the birth."""
    rows, labels = row_of_gaussians(3, 300, seed=0, spacing=12.0)
    model, guide = DPMixture(GaussianComponents(rows)), MixtureWeights(GrowableGEM(1))
    model.components.absorb(rows, torch.ones(300, 1))
    rule = BoundRule(model.components, births=2)
    growth = GrowthMessenger([model, guide], rule, SeedBirth(model.components), site="rows")
    with torch.no_grad(), growth:
        model(rows)
    event = growth.step(None, 1, model, rows, guide.weights.mean_log_weights().detach())
    assert event.num_born == 2 and model.num_components == 3
    found = model.labels(rows, guide.weights.mean_log_weights())
    assert all(len(found[labels == k].unique()) == 1 for k in range(3)) and len(found.unique()) == 3


def test_one_gaussian_stays_one():
    rows, _ = row_of_gaussians(1, 300, seed=1)
    model, guide = DPMixture(GaussianComponents(rows)), MixtureWeights(GrowableGEM(1))
    trainer = MixtureTrainer(model, guide, rows, MixtureConfig(every=6, final_steps=5))
    trainer.run()
    tried = [move for event in trainer.growth.history for move in event.moves if move.kind == "birth"]
    assert model.num_components == 1 and {len(move.components) for move in tried} == {1, 2}


def test_fewer_than_two_folds_are_refused():
    with pytest.raises(ValueError, match="two folds"):
        Folds(1)
