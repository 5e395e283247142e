"""A straightforward implementation of the paper's model and guide in Pyro: latent sample sites for every time step."""

from collections.abc import Callable

import pyro
import torch
from pyro import distributions as dist
from pyro.infer import SVI, Trace_ELBO
from steps import BITS, Shape
from torch import nn

from pyro_options.data import Trajectories

_EPS = 1e-6


class NaiveOptions(nn.Module):
    """Model and guide with the library's layers: linear heads, an LSTM of 32 units, a decoder with widths 32 and 32."""

    def __init__(self, shape: Shape):
        super().__init__()
        K, A = shape.options, shape.actions
        self.num_options, self.num_actions = K, A
        self.policy, self.termination = nn.Linear(BITS, K * A), nn.Linear(BITS, K)
        self.log_a, self.log_b = nn.Parameter(torch.zeros(K - 1)), nn.Parameter(torch.zeros(K - 1))
        self.lstm = nn.LSTM(BITS + A, 32, batch_first=True)
        self.decoder = nn.Sequential(nn.Linear(32 + K + K + 1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.b_head, self.h_head = nn.Linear(32, 1), nn.Linear(32, K)
        self.temperature = torch.tensor(1.0)

    @staticmethod
    def weights(sticks: torch.Tensor) -> torch.Tensor:
        left = nn.functional.pad(torch.cumprod(1 - sticks, 0), (1, 0), value=1.0)
        return nn.functional.pad(sticks, (0, 1), value=1.0) * left

    def model(self, batch: Trajectories) -> None:
        pyro.module("naive", self)
        K, A = self.num_options, self.num_actions
        with pyro.plate("sticks_plate", K - 1):
            sticks = pyro.sample("sticks", dist.Beta(torch.ones(()), torch.ones(())))
        weights, tau = self.weights(sticks), self.temperature
        psi = torch.sigmoid(self.termination(batch.states))
        pi = torch.softmax(self.policy(batch.states).unflatten(-1, (K, A)), -1)
        h = weights.expand(len(batch), K)
        with pyro.plate("episodes", len(batch)):
            for t in pyro.markov(range(batch.states.shape[1])):
                stop = (h * psi[:, t]).sum(-1).clamp(_EPS, 1 - _EPS)
                b = pyro.sample(f"b_{t}", dist.RelaxedBernoulli(tau, probs=stop)).unsqueeze(-1)
                options = (b * weights + (1 - b) * h).clamp(min=_EPS)
                h = pyro.sample(f"h_{t}", dist.RelaxedOneHotCategorical(tau, probs=options))
                probs = (h.unsqueeze(-1) * pi[:, t]).sum(-2)
                pyro.sample(f"a_{t}", dist.Categorical(probs=probs), obs=batch.actions[:, t])

    def guide(self, batch: Trajectories) -> None:
        pyro.module("naive", self)
        K = self.num_options
        with pyro.plate("sticks_plate", K - 1):
            sticks = pyro.sample("sticks", dist.Kumaraswamy(self.log_a.exp(), self.log_b.exp()))
        weights = self.weights(sticks).expand(len(batch), K)
        hidden = self.lstm(batch.steps().flip(1))[0].flip(1)
        previous = torch.zeros(len(batch), K + 1)
        with pyro.plate("episodes", len(batch)):
            for t in pyro.markov(range(batch.states.shape[1])):
                features = self.decoder(torch.cat([hidden[:, t], weights, previous], -1))
                b = dist.RelaxedBernoulli(self.temperature, logits=self.b_head(features).squeeze(-1))
                h = dist.RelaxedOneHotCategorical(self.temperature, logits=self.h_head(features))
                previous = torch.cat([pyro.sample(f"b_{t}", b).unsqueeze(-1), pyro.sample(f"h_{t}", h)], -1)


def naive_step(shape: Shape, batch: Trajectories) -> Callable[[], float]:
    """One SVI step, with Pyro's cheapest ELBO and without validation."""
    naive = NaiveOptions(shape)
    svi = SVI(naive.model, naive.guide, pyro.optim.Adam({"lr": 1e-6}), Trace_ELBO())

    def step() -> float:
        with pyro.validation_enabled(False):
            return svi.step(batch)

    return step
