"""The hierarchical Dirichlet process: its prior, its posterior under growth, and the models that use it."""

import itertools
import math

import pyro
import pytest
import torch
from pyro import distributions as dist
from pyro.infer import Trace_ELBO
from support.growth_checks import assert_identical, copied_tensors
from torch import nn
from torch.testing import assert_close

from pyro_options.distributions import HiddenMarkov, Mixture, TopicWords, log_stick_breaking, logit_sticks
from pyro_options.errors import InputError
from pyro_options.growth import (
    Growable,
    Merge,
    Prune,
    Scene,
    Snapshot,
    SplitBirth,
    TrialRule,
    WeightsPosterior,
    grow,
    merge,
    num_components,
    permute,
    prune,
    reweight,
)
from pyro_options.guides import GrowableGEM, GrowableHDP, MixtureWeights
from pyro_options.handlers import GrowthMessenger, ObserveMessenger
from pyro_options.infer import train_growing
from pyro_options.mixtures import CountComponents
from pyro_options.models import HDP, DPRegressions, HDPTopics, InfiniteHMM, LinearExperts


@pytest.mark.parametrize("stickiness", [0.0, 2.5])
def test_rows_are_a_dirichlet_around_beta(stickiness):
    """Its sticks have the density of the Dirichlet over the K weights and the rest, in other coordinates."""
    prior, K = HDP(alpha=3.0, stickiness=stickiness).double(), 3
    sticks, rows = torch.randn(K).double(), torch.randn(K, K).double()
    beta = log_stick_breaking(sticks).exp()
    for j in range(K):
        row = log_stick_breaking(rows[j]).exp()
        jacobian = torch.autograd.functional.jacobian(lambda x: log_stick_breaking(x).exp(), rows[j])
        base = 3.0 * torch.cat([beta, 1 - beta.sum().reshape(1)])
        base[j] += stickiness
        expected = dist.Dirichlet(base).log_prob(torch.cat([row, 1 - row.sum().reshape(1)])) + jacobian.logdet()
        assert_close(prior.row_prior(sticks).log_prob(rows)[j].sum(), expected)


def test_sites_and_shapes_of_the_prior():
    trace = pyro.poutine.trace(HDP(num_rows=5)).get_trace(3)
    assert trace.nodes["row_sticks"]["fn"].event_shape == (5, 3) and trace.nodes["_RETURN"]["value"].shape == (6, 3)
    with pytest.raises(InputError, match="no stickiness with a fixed number of rows"):
        HDP(stickiness=1.0, num_rows=2)


def randomized(weights):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in weights.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    return weights


@pytest.mark.parametrize("num_rows", [None, 2])
def test_moves_keep_the_mean_weights_of_every_vector(num_rows):
    posterior = randomized(GrowableHDP(4, num_rows))
    assert isinstance(posterior, WeightsPosterior)
    fixed, old = (1 if num_rows is None else 3), posterior.mean_log_weights().exp().detach()

    def rows(index):
        return [*range(fixed), *(1 + k for k in index)] if num_rows is None else range(fixed)

    grow([posterior], 2)
    grown = posterior.mean_log_weights().exp().detach()
    assert torch.equal(grown[: len(old), :4], old)
    if num_rows is None:
        assert_close(grown[5:, :4], old[:1].expand(2, 4))
    for move, keep in (
        (lambda: prune([posterior], [1]), [0, 2, 3, 4, 5]),
        (lambda: permute([posterior], [3, 1, 0, 4, 2]), [3, 1, 0, 4, 2]),
    ):
        before = posterior.mean_log_weights().exp().detach()
        move()
        assert_close(posterior.mean_log_weights().exp().detach(), before[[*rows(keep)]][:, keep], rtol=0, atol=1e-5)


def test_merging_adds_columns_and_averages_rows():
    posterior = randomized(GrowableHDP(3))
    old = posterior.mean_log_weights().exp().detach()
    merge([posterior], 0, 2, share=0.25)
    mixed = torch.stack([old[0], 0.25 * old[1] + 0.75 * old[3], old[2]])
    expected = torch.stack([mixed[:, 0] + mixed[:, 2], mixed[:, 1]], -1)
    assert_close(posterior.mean_log_weights().exp().detach(), expected, rtol=0, atol=1e-4)


def test_reweighting_sets_every_vector_and_keeps_the_unassigned_mass():
    posterior = randomized(GrowableHDP(3))
    total = posterior.mean_log_weights().exp().sum(-1)
    wanted = torch.softmax(torch.randn(4, 3), -1)
    reweight([posterior], wanted.log())
    assert_close(posterior.mean_log_weights().exp(), wanted * total.unsqueeze(-1), rtol=0, atol=1e-4)
    reweight([posterior], torch.zeros(3))
    assert_close(posterior.mean_log_weights().exp()[2], (total[2] / 3).expand(3), rtol=0, atol=1e-4)


def test_a_child_inherits_the_row_of_its_parent_and_a_snapshot_undoes_it():
    posterior = randomized(GrowableHDP(3))
    before, undo = copied_tensors(posterior), Snapshot([posterior])
    grow([posterior])
    posterior.inherit(3, 1, 0.5)
    weights = posterior.mean_log_weights()
    assert torch.equal(weights[4, :3], weights[2, :3])
    undo.restore()
    assert_identical(before, copied_tensors(posterior))


def test_every_parameter_of_prior_and_posterior_gets_a_gradient():
    prior, posterior = HDP(stickiness=1.0), GrowableHDP(3)
    grow([posterior])
    Trace_ELBO().loss_and_grads(lambda: prior(4), lambda: posterior())
    for parameter in (*prior.parameters(), *posterior.parameters()):
        assert parameter.grad.isfinite().all() and (parameter.grad != 0).any()


class Groups(Growable, pyro.nn.PyroModule):
    """An HDP mixture of Gaussians: every group of rows has weights of its own over the same components."""

    component_axes = {"centers": 0}

    def __init__(self, num_components, num_groups):
        super().__init__()
        self.centers, self.prior = nn.Parameter(3 * torch.randn(num_components)), HDP(num_rows=num_groups)

    def forward(self, rows, log_weights=None):
        if log_weights is None:
            log_weights = self.prior(self.num_components)
        groups, values = rows[:, 0].long(), rows[:, 1]
        with pyro.plate("rows", len(rows)):
            weights = log_weights[1:][groups]  # (N, K)
            pyro.sample("x", Mixture(weights, dist.Normal(self.centers, 1.0)), obs=values)


def test_an_hdp_over_groups_grows_and_is_pruned():
    """Two groups that share the middle one of three clusters: weights depend on the row, K is right."""
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(400) % 2
    center = torch.tensor([[-5.0, 0.0], [0.0, 5.0]])[group, torch.randint(2, (400,), generator=generator)]
    rows = torch.stack([group.float(), center + torch.randn(400, generator=generator)], -1)
    torch.manual_seed(0)
    model, guide = Groups(6, 2), MixtureWeights(GrowableHDP(6, 2))
    reweight([guide], torch.zeros(6))
    growth = GrowthMessenger(
        [model, guide],
        TrialRule(),
        SplitBirth(halve=True),
        [Prune(), Merge()],
        every=30,
        settle=2,
        length=150,
        site="x",
    )
    train_growing(model, guide, rows[:300], growth, 150, held_out=rows[300:])
    assert num_components([model, guide]) == 3
    assert model.centers.detach().sort().values.tolist() == pytest.approx([-5, 0, 5], abs=0.5)
    weights = torch.softmax(guide.weights.mean_log_weights(), -1)[1:, model.centers.argsort()].detach()
    assert weights[0, 2] < 0.1 and weights[1, 0] < 0.1 and (weights[:, 1] > 0.35).all()


def hidden_markov(log_weights, lengths=(4, 2)):
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    return HiddenMarkov(log_weights, dist.Normal(torch.tensor([-1.0, 0.0, 2.0]).double(), 1.0), mask)


def test_a_hidden_markov_model_equals_enumeration():
    log_weights = (torch.softmax(torch.randn(4, 3).double(), -1) * 0.9).log()
    chain, value = hidden_markov(log_weights), torch.randn(2, 4).double()
    emission = chain.component_log_prob(value)
    for n, T in enumerate((4, 2)):
        joint = {}
        for h in itertools.product(range(3), repeat=T):
            steps = [log_weights[0, h[0]], *(log_weights[1 + i, j] for i, j in itertools.pairwise(h))]
            joint[h] = sum(steps) + sum(emission[n, t, h[t]] for t in range(T))
        total = torch.logsumexp(torch.stack([*joint.values()]), 0)
        assert_close(chain.log_prob(value)[n], total, rtol=0, atol=1e-10)
        assert_close(chain.weighed(value)(log_weights)[n], total, rtol=0, atol=1e-10)
        for t, k in itertools.product(range(T), range(3)):
            here = sum((score - total).exp() for h, score in joint.items() if h[t] == k)
            assert_close(chain.responsibilities(value)[n, t, k], here, rtol=0, atol=1e-10)
        assert tuple(chain.viterbi(value)[n, :T].tolist()) == max(joint, key=joint.get)
    assert (chain.responsibilities(value)[1, 2:] == 0).all()
    assert chain.sample((5,)).shape == (5, 2, 4) and chain.sample_components(value).shape == (2, 4)
    assert chain.expand((2,)).batch_shape == (2,)


def exact_marginal(words, log_weights, log_words, alpha):
    """The likelihood of a short document by summing over the topics of all its words."""
    K, L = len(log_weights), len(words)
    total = []
    for z in itertools.product(range(K), repeat=L):
        counts, base = torch.bincount(torch.tensor(z), minlength=K), alpha * log_weights.exp()
        shares = (torch.lgamma(base + counts) - torch.lgamma(base)).sum() + math.lgamma(alpha) - math.lgamma(alpha + L)
        total.append(shares + sum(log_words[k, word] for k, word in zip(z, words)))
    return torch.logsumexp(torch.stack(total), 0)


def test_the_bound_of_a_document_is_below_its_likelihood_and_near():
    log_weights = torch.tensor([0.5, 0.3, 0.1]).double().log()
    log_words = torch.log_softmax(2 * torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).double(), -1)
    documents = torch.tensor([[0, 1, 2, 3], [0, 0, 0, -1], [2, -1, -1, -1]])
    topics = TopicWords(log_weights, log_words, torch.tensor(2.0).double(), documents >= 0)
    bound = topics.log_prob(documents)
    for n, words in enumerate(documents.tolist()):
        exact = exact_marginal([word for word in words if word >= 0], log_weights, log_words, 2.0)
        assert exact - 1.2 < bound[n] <= exact + 1e-9
    assert_close(topics.weighed(documents)(log_weights), bound)
    assert_close(topics.responsibilities(documents).sum(-1), (documents >= 0).double())
    assert (topics.proportions(documents).sum(-1) < 1).all() and topics.sample((2,)).shape == (2, 3, 4)
    assert (topics.sample()[documents < 0] == -1).all()


def test_the_gradient_of_the_bound_counts_draws_and_absent_topics_stay_absent():
    log_words = torch.log_softmax(torch.randn(3, 4), -1)
    documents = torch.randint(4, (6, 8))
    log_weights = torch.tensor([0.6, 0.3]).log().tolist()
    weights = torch.tensor([*log_weights, -70.0], requires_grad=True)
    topics = TopicWords(weights, log_words, torch.tensor(1.5), documents >= 0)
    (draws,) = torch.autograd.grad(topics.log_prob(documents).sum(), weights)
    assert (draws >= 0).all() and draws[2] < 1e-6
    assert topics.responsibilities(documents)[..., 2].max() < 1e-6


def test_models_run_under_given_weights_and_show_their_components():
    rows = {
        "sequences": (InfiniteHMM(Levels(3)), torch.randn(4, 6), (5, 3)),
        "words": (HDPTopics(CountComponents(7, 3)), torch.randint(7, (4, 5)), (3,)),
        "y": (DPRegressions(LinearExperts(2, 3)), torch.randn(4, 3), (3,)),
    }
    for site, (model, data, _) in rows.items():
        weights = torch.zeros((4, 3) if site == "sequences" else (3,)).sub(math.log(3))
        observer = ObserveMessenger(site)
        with torch.no_grad(), observer:
            model(data)
        usage = observer.usage()
        assert usage.num_components == 3 and float(usage.posterior.sum()) == pytest.approx(1, abs=1e-4)
        scene = Scene([model], usage, site, weights, model, data)
        likelihood = scene.likelihood(data)
        assert likelihood(weights).shape == (4,)
        refitted = likelihood.refit(weights)
        assert refitted.shape == weights.shape and likelihood(refitted).sum() >= likelihood(weights).sum() - 1e-3


class Levels(Growable, nn.Module):
    component_axes = {"loc": 0}

    def __init__(self, K):
        super().__init__()
        self.loc = nn.Parameter(torch.randn(K))

    def forward(self):
        return dist.Normal(self.loc, 1.0)


def test_padding_of_sequences_does_not_matter():
    model, weights = InfiniteHMM(Levels(2)), torch.zeros(3, 2).sub(1)
    padded = torch.tensor([[0.3, -0.2, math.nan], [1.0, 0.5, 0.1]])
    chain, values = model.chain(padded, weights)
    short, some = model.chain(padded[:1, :2], weights)
    assert_close(chain.log_prob(values)[0], short.log_prob(some)[0])


def test_sticks_of_given_weights_condition_the_prior():
    log_weights = torch.tensor([0.5, 0.2, 0.1]).log()
    assert_close(log_stick_breaking(logit_sticks(log_weights)), log_weights)
    assert GrowableGEM(3).mean_log_weights().shape == (3,)
