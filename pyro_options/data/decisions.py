"""Sessions of binary choices as decision neuroscience records them: the inputs of a GLM-HMM, and simulated animals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pyro_options.errors import check, check_count

from .trajectories import Trajectories

#: entries of a state; the bias is that of the policy
DECISION_INPUTS = ("stimulus", "previous choice", "win-stay-lose-switch")

#: states of the simulated animal
DECISION_STATES = ("engaged", "biased left", "biased right")

#: weights on choosing right, of the stimulus, the previous choice, win-stay-lose-switch, and the bias
DECISION_WEIGHTS = np.array([[6.0, 0.2, 0.2, 0.0], [1.5, 0.3, 0.1, -2.5], [1.5, 0.3, 0.1, 2.5]])

_STAY = np.array([0.98, 0.96, 0.97])  # probability of staying in each state
_CONTRASTS = np.array([0.0, 0.0625, 0.125, 0.25, 0.5, 1.0])
_LENGTHS = 180, 220  # trials of a session


@dataclass(frozen=True)
class Decisions:
    """Sessions of a simulated animal with the truth."""

    trajectories: Trajectories  # inputs as states, choices (0 left, 1 right) as actions
    states: Tensor  # (N, T) true state of each trial, -1 in the padding
    weights: Tensor  # (K, 4) on choosing right: of DECISION_INPUTS, then the bias
    transitions: Tensor  # (K, K) from, to


def decision_inputs(stimulus: ArrayLike, choice: ArrayLike, rewarded: ArrayLike) -> np.ndarray:
    """The inputs of a GLM for the choices of one session, ``(T, 3)``: see :data:`DECISION_INPUTS`.

    The previous choice is -1 (left) or 1 (right), and win-stay-lose-switch is the same after a reward and the opposite
    after none. Both are 0 at the first trial of a session.

    >>> decision_inputs([0.5, -1.0, 0.25], [1, 1, 0], [True, False, True]).tolist()
    [[0.5, 0.0, 0.0], [-1.0, 1.0, 1.0], [0.25, 1.0, -1.0]]

    :param stimulus: signed contrast, positive on the right, ``(T,)``
    :param choice: 0 for left, 1 for right, ``(T,)``
    :param rewarded: whether the choice was correct, ``(T,)``
    """
    seen, done, won = (np.asarray(values) for values in (stimulus, choice, rewarded))
    sizes = seen.shape, done.shape, won.shape
    check(seen.ndim == 1 and len(set(sizes)) == 1, "a stimulus, a choice and a reward of every trial", sizes)
    check(bool(np.isin(done, (0, 1)).all()), "choices that are 0 (left) or 1 (right)", np.unique(done)[:5].tolist())
    check(bool(np.isin(won, (0, 1)).all()), "rewards that are 0 or 1", np.unique(won)[:5].tolist())
    inputs = np.zeros((len(seen), len(DECISION_INPUTS)), np.float32)
    inputs[:, 0] = seen
    inputs[1:, 1] = 2 * done[:-1] - 1
    inputs[1:, 2] = inputs[1:, 1] * np.where(won[:-1], 1, -1)
    return inputs


def _session(rng: np.random.Generator, weights: np.ndarray, stay: np.ndarray, leave: Sequence[np.ndarray] | None):
    """Inputs, choices and states of one session."""
    state = int(rng.integers(len(stay)))
    choice, rewarded = int(rng.integers(2)), bool(rng.integers(2))
    inputs, choices, states = [], [], []
    for _ in range(rng.integers(_LENGTHS[0], _LENGTHS[1] + 1)):
        side = int(rng.integers(2))  # where the stimulus is, which a choice must equal
        previous = 2 * choice - 1
        row = np.array([rng.choice(_CONTRASTS) * (2 * side - 1), previous, previous if rewarded else -previous, 1.0])
        choice = int(rng.random() < 1 / (1 + np.exp(-weights[state] @ row)))
        rewarded = choice == side
        inputs.append(row[:-1])
        choices.append(choice)
        states.append(state)
        if rng.random() > stay[state]:
            others = [k for k in range(len(stay)) if k != state]
            state = int(rng.choice(others, p=None if leave is None else leave[state]))
    return np.asarray(inputs, np.float32), np.asarray(choices), np.asarray(states)


def simulated_decisions(
    seed: int = 0, num_sessions: int = 45, weights: ArrayLike | None = None, transitions: ArrayLike | None = None
) -> Decisions:
    """Sessions of about 200 trials of a mouse that is engaged, biased to the left or biased to the right.

    :param weights: of each state on choosing right: :data:`DECISION_INPUTS`, then the bias, ``(K, 4)``; by default
        :data:`DECISION_WEIGHTS`
    :param transitions: probabilities of the next state ``(K, K)``; by default a state is kept with probability 0.96 to
        0.98, and the others are equally probable

    Reference: Ashwood et al. (2022), Mice alternate between discrete strategies during perceptual decision-making.
    """
    check_count(num_sessions, "num_sessions")
    beta = DECISION_WEIGHTS if weights is None else np.asarray(weights, float)
    check(beta.ndim == 2 and beta.shape[1] == 4, "weights of shape (K, 4)", beta.shape)
    K = len(beta)
    check(transitions is not None or len(_STAY) == K, "transitions of the states", None, "Pass transitions.")
    if transitions is None:
        stay, leave = _STAY, None
        matrix = np.where(np.eye(K, dtype=bool), stay[:, None], (1 - stay)[:, None] / (K - 1))
    else:
        matrix = np.asarray(transitions, float)
        valid = matrix.shape == (K, K) and bool((matrix >= 0).all()) and np.allclose(matrix.sum(-1), 1)
        check(valid, f"transitions ({K}, {K}) whose rows sum to 1", matrix.tolist())
        stay = matrix.diagonal()
        others = [np.delete(row, k) for k, row in enumerate(matrix)]
        leave = [row / row.sum() if row.sum() else np.full(K - 1, 1 / (K - 1)) for row in others]
    rng = np.random.default_rng(seed)
    sessions = [_session(rng, beta, stay, leave) for _ in range(num_sessions)]
    data = Trajectories.from_episodes([(inputs, choices) for inputs, choices, _ in sessions], num_actions=2)
    data = data.with_names(DECISION_INPUTS, ("left", "right"))
    labels = pad_sequence([torch.as_tensor(states) for _, _, states in sessions], True, -1)
    return Decisions(data, labels, torch.tensor(beta), torch.tensor(matrix))
