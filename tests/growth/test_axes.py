"""Layers with several axes of components, mixtures whose parts depend on the row, and births that stop in time."""

import pyro
import pytest
import torch
from pyro import distributions as dist
from support.growth_checks import AlwaysPropose, assert_identical, copied_tensors
from torch import nn
from torch.testing import assert_close

from pyro_options.distributions import Mixture
from pyro_options.errors import InputError
from pyro_options.growth import (
    Growable,
    Newborns,
    Scene,
    Usage,
    grow,
    growables,
    merge,
    num_components,
    permute,
    prune,
    resize,
)
from pyro_options.handlers import GrowthMessenger


class Transitions(Growable, nn.Module):
    """K x K logits, and a vector for each pair; new entries are told from old ones by their sign."""

    component_axes = {"logits": (0, 1), "pairs": (-3, -1)}

    def __init__(self, K=3):
        super().__init__()
        self.logits = nn.Parameter(torch.arange(float(K * K)).reshape(K, K))
        self.pairs = nn.Parameter(torch.rand(K, 2, K))

    def fresh(self, name, count):
        return super().fresh(name, count) - 1


def test_every_axis_of_components_grows():
    layer = Transitions()
    before, pairs = layer.logits.detach().clone(), layer.pairs.detach().clone()
    grow([layer], 2)
    assert layer.logits.shape == (5, 5) and layer.pairs.shape == (5, 2, 5) and num_components([layer]) == 5
    assert torch.equal(layer.logits[:3, :3], before) and torch.equal(layer.pairs[:3, :, :3], pairs)
    assert (layer.logits[3:] == -1).all() and (layer.logits[:, 3:] == -1).all()


def test_pruning_permuting_and_resizing_select_rows_and_columns():
    layer = Transitions()
    before = layer.logits.detach().clone()
    permute([layer], [2, 0, 1])
    assert torch.equal(layer.logits, before[[2, 0, 1]][:, [2, 0, 1]])
    prune([layer], [0])
    assert torch.equal(layer.logits, before[:2, :2])
    resize([layer], [1], 2)
    assert layer.logits.shape == (3, 3) and float(layer.logits[0, 0].detach()) == before[1, 1]
    assert (layer.logits.detach().flatten()[1:] == -1).all()


def test_a_child_inherits_rows_and_columns():
    layer = Transitions()
    grow([layer])
    old = layer.logits.detach().clone()
    layer.inherit(3, 1, 0.5)
    expected = old.clone()
    expected[3, :3], expected[:3, 3], expected[3, 3] = old[1, :3] - 0.5, old[:3, 1] - 0.5, old[1, 1] - 0.5
    assert torch.equal(layer.logits, expected)


def test_merging_averages_rows_and_columns():
    layer = Transitions()
    old = layer.logits.detach().clone()
    merge([layer], 0, 2, share=0.25)
    mix = torch.tensor([[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]])
    assert_close(layer.logits.detach(), mix @ old @ mix.T)


def test_moments_follow_every_axis():
    layer = Transitions()
    optimizer = torch.optim.Adam(layer.parameters())
    (layer.logits**2).sum().backward()
    optimizer.step()
    before = {name: value.clone() for name, value in optimizer.state[layer.logits].items()}
    resize([layer], [2, 0], 1, optimizer)
    after = optimizer.state[layer.logits]
    assert torch.equal(after["exp_avg"][:2, :2], before["exp_avg"][[2, 0]][:, [2, 0]])
    assert (after["exp_avg"][2] == 0).all() and (after["exp_avg"][:, 2] == 0).all()
    assert_close(after["exp_avg_sq"][2], before["exp_avg_sq"].mean().expand(3))
    layer.logits.sum().backward()
    optimizer.step()


def test_a_refused_birth_is_undone_along_every_axis():
    layer = Chain()
    optimizer = torch.optim.Adam(layer.parameters())
    before = copied_tensors(layer, optimizer=optimizer)
    growth = GrowthMessenger([layer], AlwaysPropose(keep=False), site="x")
    with growth:
        layer(torch.zeros(4))
    growth.step(optimizer)
    assert_identical(before, copied_tensors(layer, optimizer=optimizer))


def test_fresh_values_of_a_wrong_shape_are_refused():
    class Wrong(Transitions):
        def fresh(self, name, count):
            return torch.zeros(count, 3)

    with pytest.raises(InputError, match=r"Wrong\.fresh\('logits', 1\) of shape \[4, 4\] but got \[1, 3\]"):
        grow([Wrong()])


class Chain(Growable, nn.Module):
    """Gaussians whose weights are the sums of the columns of K x K logits."""

    component_axes = {"logits": (0, 1), "centers": 0}

    def __init__(self):
        super().__init__()
        self.logits, self.centers = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.tensor([-1.0, 1.0]))

    def forward(self, rows, log_weights=None):
        weights = torch.log_softmax(self.logits.sum(0), -1)
        with pyro.plate("rows", len(rows)):
            pyro.sample("x", Mixture(weights, dist.Normal(self.centers, 1.0)), obs=rows)


def test_a_fit_moves_the_rows_and_columns_of_its_components_only():
    chain = Chain()
    grow([chain])
    before = chain.logits.detach().clone()
    usage = Usage(torch.ones(2) / 2, torch.ones(2) / 2, 4)
    newborns = Newborns([chain], usage, "x", torch.zeros(2), chain, torch.randn(8), index=[2])
    newborns.fit([2], torch.randn(8), torch.zeros(3), 3, 0.1)
    moved = chain.logits.detach() != before
    assert not moved[:2, :2].any() and moved[2].all() and moved[:, 2].all()


class WeightVectors(Growable, nn.Module):
    """One weight vector before the first component, and one after each."""

    component_axes = {"rows": (0, 1)}
    row_per_component = True

    def __init__(self, K=2):
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(K, K))


def test_weight_vectors_of_components_come_and_go_with_them():
    layer, usage = WeightVectors(3), Usage(torch.ones(3) / 3, torch.ones(3) / 3, 9)
    weights = torch.log_softmax(torch.arange(12.0).reshape(4, 3).sqrt(), -1)
    scene = Scene([layer], usage, "x", weights, model=lambda rows, weights: None, data=torch.zeros(4))
    assert torch.equal(scene.kept(weights, [1]), weights[[0, 1, 3]][:, [0, 2]])
    assert scene.without([0]).log_weights.shape == (3, 2) and scene.even_weights().shape == (4, 3)
    grow([layer])
    newborns = Newborns([layer], usage, "x", weights, scene.model, scene.data, index=[3])
    trial = newborns.trial_weights(0.2).exp()
    assert_close(trial.sum(-1), torch.ones(5))
    assert_close(trial[:, 3], torch.full((5,), 0.2))
    assert_close(trial[4, :3], 0.8 * weights.exp().mean(0))
    halved = newborns.split_weights([1]).exp()
    assert_close(halved.sum(-1), torch.ones(5))
    assert torch.equal(halved[4], halved[2]) and torch.equal(halved[:, 3], halved[:, 1])
    assert newborns.even_weights().shape == (5, 4)


def test_a_mixture_may_depend_on_the_row():
    x, slopes = torch.linspace(-1, 1, 5), torch.tensor([1.0, -1.0, 3.0])
    log_weights = torch.log_softmax(torch.randn(5, 3), -1)
    rows = torch.randn(5)
    lines = dist.Normal(x.unsqueeze(-1) * slopes, 0.5)
    both = Mixture(log_weights, lines)
    assert both.batch_shape == (5,) and both.sample((7,)).shape == (7, 5)
    each = [Mixture(log_weights[n], dist.Normal(x[n] * slopes, 0.5)).log_prob(rows[n]) for n in range(5)]
    assert_close(both.log_prob(rows), torch.stack(each))
    assert both.weighed(rows) is None
    shared = Mixture(log_weights[0], lines)
    assert_close(shared.weighed(rows)(log_weights[0]), shared.log_prob(rows))
    assert_close(both.responsibilities(rows).sum(-1), torch.ones(5))
    with pytest.raises(InputError, match=r"got \(2,\) and \(5, 3\)"):
        Mixture(torch.zeros(2), lines)


def test_samples_of_a_mixture_follow_the_row():
    centers = torch.tensor([[0.0, 10.0], [100.0, 200.0]])
    log_weights = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()
    drawn = Mixture(log_weights, dist.Normal(centers, 0.1)).sample((40_000,))
    assert_close(drawn.mean(0), (log_weights.exp() * centers).sum(-1), rtol=0.08, atol=0)


@pytest.mark.parametrize(("length", "sizes"), [(None, [3, 4, 5, 6]), (40, [3, 4, 5, 5]), (15, [2, 2, 2, 2])])
def test_births_stop_before_the_end_of_a_training_of_known_length(length, sizes):
    chain = Chain()
    growth = GrowthMessenger([chain], AlwaysPropose(), every=10, settle=1, length=length, site="x")
    found = []
    for time in (10, 20, 30, 40):
        with growth:
            chain(torch.zeros(4))
        growth.step(time=time)
        found.append(num_components(growables([chain])))
    assert found == sizes
