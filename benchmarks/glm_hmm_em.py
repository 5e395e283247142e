"""Expectation maximization for a GLM-HMM of binary choices: the oracle that ``mouse_decisions.py`` compares with.

The E-step is a scaled forward-backward pass compiled by numba, the M-step Newton's method on weighted logistic
regressions. Parameters: initial probabilities, a full transition matrix, and weights of each state.
"""

from dataclasses import dataclass

import numba
import numpy as np

#: precision of the Gaussian prior on weights, which keeps separable data finite; standard deviation 10
RIDGE = 1e-2

#: pseudo-counts added to every transition and every initial state
PSEUDO_COUNT = 1e-3


@dataclass(frozen=True)
class Sessions:
    """Inputs, with a column of ones, and choices of all sessions, one after the other."""

    inputs: np.ndarray  # (steps, D)
    choices: np.ndarray  # (steps,) 0 or 1
    ends: np.ndarray  # (sessions,) index after the last step of each

    @property
    def num_steps(self) -> int:
        """Trials of all sessions."""
        return len(self.choices)

    def select(self, index: np.ndarray) -> "Sessions":
        """The sessions at ``index``."""
        starts = np.concatenate([[0], self.ends[:-1]])
        rows = np.concatenate([np.arange(starts[i], self.ends[i]) for i in index])
        return Sessions(self.inputs[rows], self.choices[rows], np.cumsum(self.ends[index] - starts[index]))


@dataclass(frozen=True)
class Fit:
    """Parameters of a GLM-HMM and their log-likelihood on the training sessions."""

    weights: np.ndarray  # (K, D)
    transitions: np.ndarray  # (K, K)
    first: np.ndarray  # (K,)
    log_likelihood: float
    iterations: int


@numba.njit(cache=True)
def _forward_backward(emission, transitions, first, ends, gamma, counts, starts):
    """Posteriors ``gamma (steps, K)``, expected transitions and initial states, in place; the log-likelihood."""
    steps, K = emission.shape
    scale = np.empty(steps)
    alpha = np.empty((steps, K))
    total = 0.0
    counts[:] = 0.0
    starts[:] = 0.0
    begin = 0
    for end in ends:
        for t in range(begin, end):
            norm = 0.0
            for k in range(K):
                value = first[k]
                if t > begin:
                    value = 0.0
                    for j in range(K):
                        value += alpha[t - 1, j] * transitions[j, k]
                alpha[t, k] = value * emission[t, k]
                norm += alpha[t, k]
            scale[t] = norm
            total += np.log(norm)
            for k in range(K):
                alpha[t, k] /= norm
        beta = np.ones(K)
        for t in range(end - 1, begin - 1, -1):
            for k in range(K):
                gamma[t, k] = alpha[t, k] * beta[k]
            if t > begin:
                for k in range(K):
                    beta[k] *= emission[t, k] / scale[t]
                new = np.zeros(K)
                for j in range(K):
                    for k in range(K):
                        part = transitions[j, k] * beta[k]
                        new[j] += part
                        counts[j, k] += alpha[t - 1, j] * part
                beta = new
        for k in range(K):
            starts[k] += gamma[begin, k]
        begin = end
    return total


def _choice_probabilities(weights: np.ndarray, data: Sessions) -> np.ndarray:
    """Probability of each choice in each state, ``(steps, K)``."""
    logits = data.inputs @ weights.T
    signed = np.where(data.choices[:, None] == 1, logits, -logits)
    return np.maximum(0.5 + 0.5 * np.tanh(0.5 * signed), 1e-300)


def _newton(weights: np.ndarray, data: Sessions, gamma: np.ndarray, steps: int) -> np.ndarray:
    """Weighted logistic regressions of all states, by Newton's method from ``weights``."""
    D = weights.shape[1]
    for _ in range(steps):
        right = 0.5 + 0.5 * np.tanh(0.5 * (data.inputs @ weights.T))  # (steps, K)
        slope = ((data.choices[:, None] - right) * gamma).T @ data.inputs - RIDGE * weights
        curvature = np.einsum("tk,td,te->kde", gamma * right * (1 - right), data.inputs, data.inputs, optimize=True)
        weights = weights + np.linalg.solve(curvature + RIDGE * np.eye(D), slope[..., None])[..., 0]
    return weights


def log_likelihood(fit: Fit, data: Sessions) -> float:
    """Of all sessions, in nats."""
    K = len(fit.first)
    buffers = np.empty((data.num_steps, K)), np.empty((K, K)), np.empty(K)
    return _forward_backward(_choice_probabilities(fit.weights, data), fit.transitions, fit.first, data.ends, *buffers)


def posterior(fit: Fit, data: Sessions) -> np.ndarray:
    """Probability of each state at each trial, ``(steps, K)``."""
    K = len(fit.first)
    gamma = np.empty((data.num_steps, K))
    emission = _choice_probabilities(fit.weights, data)
    _forward_backward(emission, fit.transitions, fit.first, data.ends, gamma, np.empty((K, K)), np.empty(K))
    return gamma


def fit_em(
    data: Sessions, num_states: int, rng: np.random.Generator, max_iter: int = 500, tolerance: float = 1e-2
) -> Fit:
    """One run of EM from a random start: a logistic regression of all trials plus noise, and sticky transitions.

    :param tolerance: gain of one iteration, in nats of all trials together, at which EM ends
    """
    K, D = num_states, data.inputs.shape[1]
    one = _newton(np.zeros((1, D)), data, np.ones((data.num_steps, 1)), 8)
    weights = one + rng.normal(0, 1, (K, D))
    transitions = 0.95 * np.eye(K) + 0.05 * rng.dirichlet(np.ones(K), K)
    first = np.full(K, 1 / K)
    gamma, counts, starts = np.empty((data.num_steps, K)), np.empty((K, K)), np.empty(K)
    before, iterations = -np.inf, 0
    while iterations < max_iter:
        emission = _choice_probabilities(weights, data)
        value = _forward_backward(emission, transitions, first, data.ends, gamma, counts, starts)
        if value - before < tolerance:
            break
        before, iterations = value, iterations + 1
        transitions = (counts + PSEUDO_COUNT) / (counts + PSEUDO_COUNT).sum(-1, keepdims=True)
        first = (starts + PSEUDO_COUNT) / (starts + PSEUDO_COUNT).sum()
        weights = _newton(weights, data, gamma, 2)
    return Fit(weights, transitions, first, value, iterations)


def best_of(data: Sessions, num_states: int, starts: int, rng: np.random.Generator) -> Fit:
    """The fit of several starts with the highest training likelihood."""
    return max((fit_em(data, num_states, rng) for _ in range(starts)), key=lambda fit: fit.log_likelihood)


def sweep(data: Sessions, counts: tuple[int, ...], folds: int, starts: int, seed: int) -> dict[int, list[float]]:
    """Held-out log-likelihood in nats per trial of every fold, for every number of states."""
    rng = np.random.default_rng(seed)
    parts = np.array_split(rng.permutation(len(data.ends)), folds)
    found: dict[int, list[float]] = {}
    for K in counts:
        found[K] = []
        for held in parts:
            train = data.select(np.setdiff1d(np.arange(len(data.ends)), held))
            test = data.select(np.sort(held))
            found[K].append(log_likelihood(best_of(train, K, starts, rng), test) / test.num_steps)
    return found
