"""The EM that discovery on mouse decisions is compared with."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from support.tiny_runs import BENCHMARKS, load_script

from pyro_options.data import simulated_decisions
from pyro_options.distributions.markov import ALWAYS
from pyro_options.options import TransitionPath


@pytest.fixture
def em(monkeypatch):
    return load_script(monkeypatch, BENCHMARKS / "glm_hmm_em.py")


@pytest.fixture
def animal(em, monkeypatch):
    truth = simulated_decisions(1, 3)
    return load_script(monkeypatch, BENCHMARKS / "mouse_decisions.py").sessions_of(truth), truth.trajectories


def test_its_likelihood_and_posterior_are_those_of_the_library(em, animal):
    sessions, data = animal
    rng = np.random.default_rng(0)
    fit = em.Fit(rng.normal(size=(3, 4)), rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(3)), 0.0, 0)
    inputs = torch.cat([data.states.double(), torch.ones(*data.mask.shape, 1, dtype=torch.float64)], -1)
    logits = inputs @ torch.tensor(fit.weights).T
    emission = torch.nn.functional.logsigmoid(torch.where(data.actions.unsqueeze(-1) == 1, logits, -logits))
    weights = torch.tensor(np.vstack([fit.first, fit.transitions])).log()
    path = TransitionPath(weights, torch.full_like(emission, ALWAYS), data.mask)
    assert em.log_likelihood(fit, sessions) == pytest.approx(float(path.log_marginal(emission).sum()), rel=1e-9)
    expected = path.posterior(emission).options[data.mask].numpy()
    np.testing.assert_allclose(em.posterior(fit, sessions), expected, atol=1e-9)


def test_every_iteration_gains(em, animal):
    sessions, _ = animal
    scores = [em.fit_em(sessions, 2, np.random.default_rng(0), max_iter=n).log_likelihood for n in range(1, 8)]
    assert all(after > before - 1e-6 for before, after in pairwise(scores))
    held_out = em.sweep(sessions, (1, 2), folds=3, starts=1, seed=0)
    assert set(held_out) == {1, 2} and all(len(folds) == 3 for folds in held_out.values())
    part = sessions.select(np.array([2, 0]))
    assert (
        part.num_steps == part.ends[-1] and (part.choices[: part.ends[0]] == sessions.choices[sessions.ends[1] :]).all()
    )
