"""The posterior over the number of components in use."""

import itertools

import pyro
import pytest
import torch
from pyro import distributions as dist
from pyro import poutine
from support.episodes import make_episodes
from support.option_models import make_model
from torch.distributions import Normal

from pyro_options import viz
from pyro_options.distributions import Mixture, log_stick_breaking
from pyro_options.guides import Exact, GrowableGEM, MixtureWeights, PointGEM, Relaxed
from pyro_options.infer import ComponentCounts, component_counts
from pyro_options.mixtures import GaussianComponents
from pyro_options.models import DPMixture
from pyro_options.options import PathEncoder

ROWS = torch.tensor([-1.0, 0.2, 0.9])


def toy(rows):
    """Two fixed components that overlap."""
    sticks = pyro.sample("sticks", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    with pyro.plate("data", len(rows)):
        components = Normal(torch.tensor([-0.5, 0.5]), torch.ones(2))
        pyro.sample("rows", Mixture(log_stick_breaking(sticks), components), obs=rows)


class Holder:
    weights = PointGEM(2)


def test_counts_follow_the_exact_posterior():
    """Weights known: enumerate the assignments of three rows."""
    trace = poutine.trace(poutine.condition(toy, {"sticks": torch.zeros(2)})).get_trace(ROWS)
    shares = trace.nodes["rows"]["fn"].responsibilities(ROWS).tolist()
    exact = [0.0, 0.0, 0.0]
    for assignment in itertools.product((0, 1), repeat=3):
        probability = 1.0
        for row, k in enumerate(assignment):
            probability *= shares[row][k]
        exact[len(set(assignment))] += probability
    counts = component_counts(toy, Holder, ROWS, num_draws=2000)
    assert counts.num_components == 2
    assert counts.probabilities.tolist() == pytest.approx(exact, abs=4 * (0.25 / 2000) ** 0.5)


def test_min_points_and_min_share_ignore_small_components():
    rows = torch.tensor([-100.0] * 9 + [100.0])
    assert component_counts(toy, Holder, rows, num_draws=3).draws.tolist() == [2, 2, 2]
    assert component_counts(toy, Holder, rows, num_draws=3, min_points=2).draws.tolist() == [1, 1, 1]
    assert component_counts(toy, Holder, rows, num_draws=3, min_share=0.2).draws.tolist() == [1, 1, 1]


@pytest.mark.parametrize("batch_size", [None, 4])
def test_options_are_counted_by_whole_paths(batch_size):
    episodes = make_episodes(6)
    model = make_model()
    relaxed = Relaxed(GrowableGEM(3), PathEncoder(7, 3))
    for guide in (Exact(GrowableGEM(3)), relaxed):
        counts = component_counts(model, guide, episodes, num_draws=20, batch_size=batch_size)
        assert counts.num_components == 3 and counts.draws.min() >= 1 and counts.draws.max() <= 3
        steps = int(episodes.mask.sum())
        assert component_counts(model, guide, episodes, 2, min_points=steps + 1).draws.tolist() == [0, 0]


def test_padded_steps_are_not_in_use():
    """One episode of one step uses one option, however long its padding."""
    one = make_episodes(6)[torch.tensor([0])]
    short = type(one)(one.states, one.actions, torch.tensor([1]), one.num_actions)
    counts = component_counts(make_model(), Exact(GrowableGEM(3)), short, num_draws=30)
    assert counts.draws.tolist() == [1] * 30


def test_a_mixture_with_a_spare_component():
    rows = torch.cat([torch.randn(50, 2), torch.randn(50, 2) + 30])
    model, guide = DPMixture(GaussianComponents(rows, 3)), MixtureWeights(GrowableGEM(3))
    shares = torch.zeros(100, 3)
    shares[:50, 0] = shares[50:, 1] = 1.0
    model.components.absorb(rows, shares)
    with torch.no_grad():
        guide.weights.log_b[2] = 12.0  # hardly any weight
    counts = component_counts(model, guide, rows, num_draws=20, min_points=2)
    assert counts.mode == 2 and counts.interval() == (2, 2)


def test_summaries():
    counts = ComponentCounts(torch.tensor([2, 3, 3, 4]), 5)
    assert counts.mean == 3 and counts.mode == 3 and counts.interval(0.5) == (2, 4)
    assert counts.probabilities.tolist() == [0, 0, 0.25, 0.5, 0.25, 0]


def test_picture_shows_the_distribution():
    fig, ax = viz.plt.subplots()
    viz.component_counts(ax, ComponentCounts(torch.tensor([2, 3, 3, 4]), 5).probabilities, truth=3)
    assert [bar.get_height() for bar in ax.patches] == [0, 0, 0.25, 0.5, 0.25, 0]
    viz.plt.close(fig)


@pytest.mark.parametrize("bad", [{"num_draws": 0}, {"min_points": 0}, {"min_share": 2.0}])
def test_bad_input(bad):
    with pytest.raises(ValueError, match="Expected"):
        component_counts(toy, Holder, ROWS, **bad)
