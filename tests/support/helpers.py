"""Small models and data, and brute force over every path of a tiny episode, written from the generative story alone."""

import itertools
from dataclasses import dataclass

import torch
from pyro import poutine
from pyro.distributions.testing.gof import multinomial_goodness_of_fit
from torch import Tensor

from pyro_options.data import Trajectories
from pyro_options.discovery import METHODS
from pyro_options.growth import Scene, reweight
from pyro_options.guides import Exact, weights_guide
from pyro_options.handlers import ObserveMessenger, collapse
from pyro_options.models import OptionHMM
from pyro_options.options import CategoricalPolicy, Termination
from pyro_options.skills import Skills

#: methods that must be told how many options there are, and those with a single one
TOLD, SINGLE = ("ddo", "compile"), ("bc", "bc-deep")
GROWING = [name for name in METHODS if name not in TOLD + SINGLE]

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
    """b_0 = 1; b_t ~ Bernoulli(psi[t][h_{t-1}]); h_t ~ weights if b_t = 1, else h_t = h_{t-1}."""
    probability = weights[h[0]] if b[0] == 1 else 0.0
    for t in range(1, len(b)):
        stop = psi[t][h[t - 1]]
        if b[t] == 1:
            probability *= stop * weights[h[t]]
        else:
            probability *= (1 - stop) * float(h[t] == h[t - 1])
    return probability


def enumerate_paths(log_weights: Tensor, termination_logits: Tensor, emission: Tensor) -> Enumeration:
    """One episode: ``log_weights (K,)``, ``termination_logits`` and ``emission`` ``(T, K)``."""
    weights, psi = log_weights.exp().tolist(), torch.sigmoid(termination_logits).tolist()
    likelihood = emission.exp().tolist()
    T, K = emission.shape
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
    """``(N, T)``."""
    return torch.arange(num_steps) < torch.tensor(lengths)[:, None]


def path_goodness_of_fit(samples: Tensor, values: Tensor, probs: Tensor) -> float:
    """p-value of discrete paths ``samples (S, T, K + 1)`` under ``probs (P,)`` of all ``values (P, T, K + 1)``.

    A sample that is none of ``values`` fits nothing.
    """
    same = (samples[:, None] == values).all(-1).all(-1)  # (S, P)
    if not same.any(-1).all():
        return 0.0
    return multinomial_goodness_of_fit(probs, same.sum(0).to(probs), total_count=len(samples))


def told(name: str) -> dict:
    """What a method must be told besides its name."""
    return {"num_options": 3} if name in TOLD else {}


def make_episodes(num_episodes=6, num_steps=5, state_dim=3, num_actions=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(num_episodes, num_steps, state_dim, generator=generator)
    actions = torch.randint(num_actions, (num_episodes, num_steps), generator=generator)
    lengths = torch.randint(1, num_steps + 1, (num_episodes,), generator=generator)
    return Trajectories(states, actions, lengths, num_actions)


def make_model(prior="gem", num_options=3, state_dim=3, num_actions=4):
    return OptionHMM(
        CategoricalPolicy(state_dim, num_options, num_actions, hidden=(8,)), Termination(state_dim, num_options), prior
    )


def scene(model, guide, episodes, **given):
    """What moves and their judges see of a model, a guide and some episodes."""
    observer = ObserveMessenger("actions")
    with torch.no_grad(), observer:
        trace = poutine.trace(guide).get_trace(episodes)
        poutine.replay(collapse(model, guide.collapses), trace)(episodes)
    weights = guide.weights.mean_log_weights().detach()
    return Scene([model, guide], observer.usage(), "actions", weights, collapse(model), episodes, **given)


def two_kinds(num_episodes=60):
    """Episodes of two kinds, which one option cannot explain."""
    torch.manual_seed(0)
    actions = torch.tensor([[0] * 5, [1] * 5] * (num_episodes // 2))
    return Trajectories(torch.randn(num_episodes, 5, 3), actions, num_actions=4)


def speakers(*says, termination=-5.0):
    """Options that say one action each, and a guide with even weights."""
    model = make_model(num_options=len(says))
    with torch.no_grad():
        model.policy.heads.weight.zero_()
        model.policy.heads.bias.zero_()
        for option, action in enumerate(says):
            model.policy.heads.bias[option, action] = 6.0
        model.termination.heads.weight.zero_()
        model.termination.heads.bias.fill_(termination)
    guide = Exact(weights_guide("gem", len(says)))
    reweight([guide], torch.zeros(len(says)))
    return model, guide


def talking_skills(*says, names=("up", "down", "left", "right"), **metadata):
    """Options that say one action each."""
    model, guide = speakers(*says, termination=-3.0)
    return Skills(
        model.policy, model.termination, guide.weights.mean_log_weights(), action_names=names, metadata=metadata
    )


def talks(*rows):
    """Episodes with these actions."""
    return Trajectories.from_episodes([(torch.randn(len(row), 3), torch.tensor(row)) for row in rows], num_actions=4)


#: what the episodes of a small report say
BLOCKS = ([0] * 6 + [1] * 4 + [2] * 8, [1] * 5, [2] * 3 + [0] * 3)
