"""Trajectories and our models in Pyro's own tools: dependencies, drawings, diagnostics, minibatches by hand."""

import copy
import pickle

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import WeighedPredictive
from pyro.infer.importance import psis_diagnostic
from pyro.infer.inspect import get_dependencies
from support.episodes import make_episodes
from support.option_models import make_guide, make_model
from torch.testing import assert_close

from pyro_options.guides import ScoreFunction, weights_guide
from pyro_options.handlers import collapse
from pyro_options.kernels.registry import KERNELS
from pyro_options.models import GEM, CompILE, OptionHMM, StateOptionHMM
from pyro_options.options import CategoricalPolicy, PathEncoder, Termination


def parts(num_options=3):
    return CategoricalPolicy(3, num_options, 4), Termination(3, num_options)


# name -> model, and which latents each site depends on
RELATIONS = {
    "options": (make_model, {"path": {"sticks"}, "actions": {"path"}}),
    "options, collapsed": (lambda: collapse(make_model()), {"actions": {"sticks"}}),
    "state, collapsed": (lambda: collapse(StateOptionHMM(*parts(), 3)), {"actions": {"sticks"}}),
    "alpha, collapsed": (
        lambda: collapse(OptionHMM(*parts(), GEM(alpha_prior=(1.0, 1.0)))),
        {"sticks": {"alpha"}, "actions": {"sticks"}},
    ),
    "segments": (
        lambda: CompILE(parts()[0], 3, 2.0, "gem"),
        {"skills": {"sticks"}, "actions": {"boundaries", "skills"}},
    ),
    "segments, collapsed": (lambda: collapse(CompILE(parts()[0], 3, 2.0, "gem")), {"actions": {"sticks"}}),
}


@pytest.mark.parametrize("road", ["compiled", "torch"])
@pytest.mark.parametrize("name", RELATIONS)
def test_dependencies_are_found(name, road, monkeypatch):
    """Through the kernels as well: a collapsed model draws an arrow from the sticks to the actions."""
    if road == "torch":
        for kernel in KERNELS.values():
            monkeypatch.setitem(kernel.__dict__, "module", None)
    make, expected = RELATIONS[name]
    found = get_dependencies(make(), (make_episodes(),))["prior_dependencies"]
    assert {site: set(above) - {site} for site, above in found.items() if set(above) - {site}} == expected


@pytest.mark.parametrize("name", RELATIONS)
def test_render_model_draws_the_arrows(name):
    pytest.importorskip("graphviz", reason="the extra [graphviz]")
    make, expected = RELATIONS[name]
    drawing = pyro.render_model(make(), model_args=(make_episodes(),), render_distributions=True).source
    arrows = {tuple(line.split(" -> ")) for line in map(str.strip, drawing.splitlines()) if " -> " in line}
    assert arrows == {(above, site) for site, latents in expected.items() for above in latents}
    assert "episodes" in drawing  # the plate


def test_minibatches_by_hand_have_the_likelihood_of_all_data():
    model = poutine.condition(collapse(make_model()), {"sticks": torch.zeros(3)})
    data = make_episodes(12)

    def log_likelihood(batch):
        trace = poutine.trace(model).get_trace(batch)
        trace.compute_log_prob()
        return trace.nodes["actions"]["log_prob_sum"]

    whole = log_likelihood(data)
    for index in (torch.randperm(12).split(3), [slice(i, i + 3) for i in range(0, 12, 3)]):
        assert_close(torch.stack([log_likelihood(data[part]) for part in index]).mean(), whole)
    parts_alone = [log_likelihood(data[i : i + 3].alone()) for i in range(0, 12, 3)]
    assert_close(torch.stack(parts_alone).sum(), whole)


def paths_drawn():
    return make_model(num_options=2), ScoreFunction(weights_guide("gem", 2), PathEncoder(3 + 4, 2))


def paths_summed_out():
    return collapse(make_model(num_options=2)), make_guide("exact")


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("make", [paths_drawn, paths_summed_out])
def test_weighed_predictive(make, parallel):
    model, guide = make()
    found = WeighedPredictive(model, guide=guide, num_samples=5, parallel=parallel)(make_episodes())
    assert found.log_weights.shape == (5,) and found.log_weights.isfinite().all()


@pytest.mark.parametrize("make", [paths_drawn, paths_summed_out])
def test_the_diagnostic_of_pareto_smoothed_importance_sampling(make):
    """It vectorizes particles far to the left, beyond seven unused dimensions."""
    assert -1 < psis_diagnostic(*make(), make_episodes(3), num_particles=400) < 3


def test_trajectories_are_copied_and_pickled():
    batch = make_episodes(6)[:2]
    for again in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):
        assert torch.equal(again.states, batch.states) and again.population == 6
