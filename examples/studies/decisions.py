"""Fits of GLM-HMMs to sessions of binary choices: the number of states found, weights with intervals, comparisons."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pyro_options import Skills, discover
from pyro_options.data import DECISION_INPUTS, DECISION_STATES, Trajectories, decision_inputs, open_trajectories
from pyro_options.errors import check
from pyro_options.skills import WeightPosterior, laplace, policy_weights

#: names of the weights of a state, in the order of :func:`weight_table`
WEIGHT_NAMES = ("stimulus", "bias", "previous choice", "win-stay-\nlose-switch")


def load_sessions(path: Path) -> Trajectories:
    """Sessions from a CSV or Parquet file with a row for each trial, in order.

    Columns: session, stimulus (signed, positive on the right), choice (0 and 1, or the words left and right) and
    rewarded (0 or 1). Leave out trials without a choice.
    """
    raw = open_trajectories(path, episode="session", actions="choice", states=["stimulus", "rewarded"])
    check(len(raw) >= 2 and raw.num_actions == 2, "at least two sessions of binary choices", raw)
    episodes = []
    for i in range(len(raw)):
        stimulus, rewarded = raw.state_steps.episode(i).numpy().T
        choice = raw.given_actions().episode(i).numpy()
        episodes.append((decision_inputs(stimulus, choice, rewarded), choice))
    return Trajectories.from_episodes(episodes, num_actions=2).with_names(DECISION_INPUTS, ("left", "right"))


@dataclass(frozen=True)
class Gain:
    """Held-out bits per trial beyond a baseline, with its standard error by sessions."""

    mean: float
    error: float


def bits(scores: Tensor, baseline: Tensor, lengths: Tensor) -> Gain:
    """The gain of log-likelihoods of sessions ``(N,)`` over others."""
    difference = (scores - baseline) / (lengths.double().mean() * math.log(2))
    return Gain(float(difference.mean()), float(difference.std()) / len(difference) ** 0.5)


def bernoulli(train: Trajectories, held: Trajectories) -> Tensor:
    """Log-likelihoods of held-out sessions if every choice has the probability that it has in training, ``(N,)``."""
    right = train.actions[train.mask].double().mean()
    actions = held.actions.double()
    each = actions * right.log() + (1 - actions) * torch.log1p(-right)
    return (each * held.mask).sum(-1)


def find_states(data: Trajectories, num_states: int | None, epochs: int | None, seed: int, trust: bool) -> Skills:
    """The states in use, as options with linear policies; their number is found if it is not given."""
    settings = {"hidden": (), "weight_scale": "auto", "seed": seed, "device": "cpu", "trust": trust, "progress": False}
    if num_states is not None:
        settings |= {"num_options": num_states, "restarts": 3}
    return discover(data, epochs=epochs, **settings).used()


def with_memory(skills: Skills) -> Skills:
    """The same states with a row of transitions each, all equal at first: the model of ``sticky-options``."""
    rows = skills.log_weights.expand(skills.num_options, -1)
    kept = {"summary": skills.summary, "action_names": skills.action_names, "metadata": skills.metadata}
    return Skills(skills.policy, skills.termination, skills.log_weights, log_rows=rows, **kept)


def memory_gain(skills: Skills, train: Trajectories, held: Trajectories) -> Gain:
    """Held-out gain of a full transition matrix over states that are drawn from the same weights after each state."""
    plain, memory = (laplace(one, train, constant_terminations=True).skills for one in (skills, with_memory(skills)))
    return bits(memory.episode_log_likelihoods(held), plain.episode_log_likelihoods(held), held.lengths)


def transition_matrix(skills: Skills) -> Tensor:
    """Probabilities of the next state ``(K, K)``, of skills whose terminations do not depend on the inputs."""
    termination = skills.termination
    leave = torch.sigmoid(termination.heads.bias[:, 0] + termination.initial_logit).double()
    rows = skills.log_weights.expand(skills.num_options, -1) if skills.log_rows is None else skills.log_rows
    return torch.diag(1 - leave) + leave.unsqueeze(-1) * torch.softmax(rows.double(), -1)


def weight_table(fit: WeightPosterior) -> tuple[Tensor, Tensor]:
    """Weights and standard errors ``(K, 4)``: stimulus, bias, previous choice, win-stay-lose-switch."""
    tables = []
    for part in (fit.mean, fit.error):
        stimulus, *history = part.weight[:, 0].unbind(-1)
        tables.append(torch.stack([stimulus, part.bias[:, 0], *history], -1))
    return tables[0], tables[1]


def sorted_states(skills: Skills) -> Skills:
    """The same states in another order: the most engaged one first, the others from left to right."""
    found = policy_weights(skills)
    stimulus, bias = found.weight[:, 0, DECISION_INPUTS.index("stimulus")], found.bias[:, 0]
    first = int(stimulus.argmax())
    rest = sorted((k for k in range(len(bias)) if k != first), key=lambda k: float(bias[k]))
    return skills.only([first, *rest])


def state_titles(table: Tensor) -> list[str]:
    """What to call the states of a :func:`weight_table`: the usual names if there are three of the usual kind."""
    if len(table) == 3 and float(table[1, 1]) < 0 < float(table[2, 1]):
        return list(DECISION_STATES)
    return [f"state {k + 1}" for k in range(len(table))]
