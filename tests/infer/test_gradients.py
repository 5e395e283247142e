"""Gradients of ELBOs on collapsed models below a latent that cannot be reparameterized, against enumeration.

The weights of the model depend on a coin z. Everything else being summed out or fixed, an estimate of the gradient
depends on the outcome of z alone: its expectation, a sum over two outcomes, must be the gradient of the ELBO.
"""

import pyro
import pytest
import torch
from pyro import distributions as dist
from pyro import poutine
from pyro.infer import Trace_ELBO, TraceGraph_ELBO
from pyro.nn import PyroModule
from support.episodes import make_episodes
from torch import nn
from torch.testing import assert_close

from pyro_options.growth import Growable
from pyro_options.handlers import collapse
from pyro_options.kernels.registry import KERNELS
from pyro_options.mixtures import CountComponents, GaussianComponents
from pyro_options.models import (
    CompILE,
    DPMixture,
    DPRegressions,
    HDPTopics,
    InfiniteHMM,
    LinearExperts,
    OptionHMM,
    StateOptionHMM,
    StickyOptionHMM,
)
from pyro_options.options import CategoricalPolicy, Termination

K = 3


class CoinPrior(PyroModule):
    """log η(z): which of two sets of weights holds is a coin toss."""

    def __init__(self):
        super().__init__()
        self.log_weights = nn.Parameter(torch.randn(2, K, dtype=torch.float64))

    def forward(self, num_components):
        z = pyro.sample("z", dist.Bernoulli(torch.tensor(0.3, dtype=torch.float64)))
        log_weights = torch.log_softmax(self.log_weights, -1)
        return log_weights[0] * (1 - z) + log_weights[1] * z


class CoinTransitions(CoinPrior):
    """The same of a matrix of transitions below the weights of the first component."""

    num_rows = None

    def __init__(self):
        super().__init__()
        self.log_weights = nn.Parameter(torch.randn(2, 1 + K, K, dtype=torch.float64))


class States(Growable, nn.Module):
    """A Gaussian for each state of a hidden Markov model."""

    component_axes = {"loc": 0}

    def __init__(self):
        super().__init__()
        self.loc = nn.Parameter(torch.randn(K))

    def forward(self):
        return dist.Normal(self.loc, 1.0)


class CoinGuide(PyroModule):
    def __init__(self):
        super().__init__()
        self.logit = nn.Parameter(torch.tensor(0.4, dtype=torch.float64))

    def forward(self, episodes):
        pyro.sample("z", dist.Bernoulli(logits=self.logit))


def topics():
    model = HDPTopics(CountComponents(5, K))
    model.high_level = CoinPrior()
    return model


# name -> model of other data than episodes, and these
OTHERS = {
    "hidden Markov": (lambda: InfiniteHMM(States(), CoinTransitions()), torch.randn(4, 6).double()),
    "mixture": (lambda: DPMixture(GaussianComponents(torch.randn(6, 2), K), CoinPrior()), torch.randn(6, 2).double()),
    "regressions": (lambda: DPRegressions(LinearExperts(1, K), CoinPrior()), torch.randn(6, 2).double()),
    "topics": (topics, torch.randint(5, (4, 6))),
}


def make_model(name, data):
    if name in OTHERS:
        return OTHERS[name][0]()
    policy, D = CategoricalPolicy(data.state_dim, K, data.num_actions), data.state_dim
    if name == "segments":
        return CompILE(policy, 3, 2.0, CoinPrior())
    if name == "sticky-options":
        return StickyOptionHMM(policy, Termination(D, K), CoinTransitions())
    kind = {"options": OptionHMM, "state-options": StateOptionHMM}[name]
    extra = (D,) if name == "state-options" else ()
    return kind(policy, Termination(D, K), *extra, prior=CoinPrior())


def parameters_of(model, guide):
    return [*guide.parameters(), *model.parameters()]


def elbo_gradients(model, guide, data):
    """The ELBO with z summed over its two outcomes, differentiated."""
    total = 0.0
    for outcome in (0.0, 1.0):
        value = torch.tensor(outcome, dtype=torch.float64)
        joint = poutine.trace(poutine.condition(collapse(model), {"z": value})).get_trace(data).log_prob_sum()
        log_q = dist.Bernoulli(logits=guide.logit).log_prob(value)
        total = total + torch.exp(log_q) * (joint - log_q)
    return torch.autograd.grad(total, parameters_of(model, guide), allow_unused=True)


def expected_estimate(elbo, model, guide, data):
    """The expectation of the estimator: its value at each outcome, weighted by the probability of the outcome."""
    by_outcome = {}
    parameters = parameters_of(model, guide)
    for seed in range(40):
        pyro.set_rng_seed(seed)
        outcome = float(poutine.trace(guide).get_trace(data).nodes["z"]["value"])
        if outcome not in by_outcome:
            for parameter in parameters:
                parameter.grad = None
            pyro.set_rng_seed(seed)
            elbo.loss_and_grads(collapse(model), guide, data)
            by_outcome[outcome] = [None if p.grad is None else -p.grad.clone() for p in parameters]
    one = float(torch.sigmoid(guide.logit.detach()))
    assert by_outcome.keys() == {0.0, 1.0}
    pairs = zip(by_outcome[0.0], by_outcome[1.0])
    return [None if a is None else (1 - one) * a + one * b for a, b in pairs]


@pytest.mark.parametrize("road", ["compiled", "torch"])
@pytest.mark.parametrize("elbo", [Trace_ELBO, TraceGraph_ELBO])
@pytest.mark.parametrize("name", ["options", "state-options", "sticky-options", "segments", *OTHERS])
def test_the_expected_gradient_is_that_of_the_elbo(name, elbo, road, monkeypatch):
    if road == "torch":
        for kernel in KERNELS.values():
            monkeypatch.setitem(kernel.__dict__, "module", None)
    torch.manual_seed(0)
    data = OTHERS[name][1] if name in OTHERS else make_episodes(4).to(dtype=torch.float64)
    model, guide = make_model(name, data).double(), CoinGuide()
    expected = elbo_gradients(model, guide, data)
    found = expected_estimate(elbo(), model, guide, data)
    for ours, exact in zip(found, expected, strict=True):
        if exact is not None and exact.abs().max() > 0:
            assert ours is not None
            assert_close(ours, exact, rtol=1e-5, atol=1e-7)
