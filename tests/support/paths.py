"""Option paths by brute force: every path of a tiny episode, written from the generative story alone."""

import itertools
from dataclasses import dataclass

import torch
from pyro.distributions.testing.gof import multinomial_goodness_of_fit
from torch import Tensor

P_VALUE = 1e-4  # seeds are fixed: a fit is either above this or wrong


@dataclass(frozen=True)
class Enumeration:
    """All (2K)^T paths of one episode, possible or not."""

    terminations: Tensor  # (P, T)
    options: Tensor  # (P, T)
    prior: Tensor  # (P,) p(b, h)
    joint: Tensor  # (P,) p(b, h, a)

    @property
    def posterior(self) -> Tensor:
        return self.joint / self.joint.sum()

    def values(self, num_options: int) -> Tensor:
        """``(P, T, K + 1)``."""
        hot = torch.eye(num_options, dtype=self.prior.dtype)[self.options]
        return torch.cat([self.terminations.to(hot)[..., None], hot], -1)


def path_probability(weights, psi, b, h) -> float:
    """b_0 = 1; b_t ~ Bernoulli(psi[t][h_{t-1}]); h_t ~ weights[t] if b_t = 1, else h_t = h_{t-1}."""
    probability = weights[0][h[0]] if b[0] == 1 else 0.0
    for t in range(1, len(b)):
        stop = psi[t][h[t - 1]]
        if b[t] == 1:
            probability *= stop * weights[t][h[t]]
        else:
            probability *= (1 - stop) * float(h[t] == h[t - 1])
    return probability


def enumerate_paths(log_weights: Tensor, termination_logits: Tensor, emission: Tensor) -> Enumeration:
    """One episode: ``log_weights`` ``(K,)`` or ``(T, K)``, ``termination_logits`` and ``emission`` ``(T, K)``."""
    T, K = emission.shape
    weights, psi = log_weights.exp().expand(T, K).tolist(), torch.sigmoid(termination_logits).tolist()
    likelihood = emission.exp().tolist()
    terminations, options, prior, joint = [], [], [], []
    for b in itertools.product((0, 1), repeat=T):
        for h in itertools.product(range(K), repeat=T):
            probability = path_probability(weights, psi, b, h)
            terminations.append(b)
            options.append(h)
            prior.append(probability)
            for t in range(T):
                probability *= likelihood[t][h[t]]
            joint.append(probability)
    prior, joint = (torch.tensor(numbers, dtype=emission.dtype) for numbers in (prior, joint))
    return Enumeration(torch.tensor(terminations), torch.tensor(options), prior, joint)


def random_episodes(num_steps, num_options, batch=(), leftover=0.0, dtype=torch.float64) -> tuple[Tensor, ...]:
    """Log weights summing to ``1 - leftover``, termination logits and emission."""
    log_weights = torch.log_softmax(torch.randn(num_options, dtype=dtype), 0)
    log_weights = log_weights + torch.log1p(torch.tensor(-leftover, dtype=dtype))
    shape = (*batch, num_steps, num_options)
    return log_weights, torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)


def mask_of(lengths, num_steps) -> Tensor:
    """Which of ``num_steps`` steps belong to an episode of each length, ``(N, T)``."""
    return torch.arange(num_steps) < torch.tensor(lengths)[:, None]


def path_goodness_of_fit(samples: Tensor, values: Tensor, probs: Tensor) -> float:
    """p-value of discrete paths ``samples (S, T, K + 1)`` under ``probs (P,)`` of all ``values (P, T, K + 1)``.

    A sample that is none of ``values`` fits nothing.
    """
    same = (samples[:, None] == values).all(-1).all(-1)  # (S, P)
    if not same.any(-1).all():
        return 0.0
    return multinomial_goodness_of_fit(probs, same.sum(0).to(probs), total_count=len(samples))
