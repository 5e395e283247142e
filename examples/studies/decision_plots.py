"""Figures of GLM-HMMs in the layout of Ashwood et al. (2022): each function draws on given axes."""

import math

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from pyro_options import viz
from pyro_options.data import Trajectories
from pyro_options.skills import WeightPosterior

from .decisions import WEIGHT_NAMES, Gain, weight_table

TRUTH = "0.2"  # colour of the truth


def draw_weights(ax: Axes, fit: WeightPosterior, titles: list[str], truth: Tensor | None) -> None:
    """Weights of each state with 95 % intervals, and the true ones as crosses.

    :param truth: ``(K, 4)`` in the order of :func:`weight_table`
    """
    mean, error = (part.numpy() for part in weight_table(fit))
    K = len(mean)
    for k, title in enumerate(titles):
        x = np.arange(4) + 0.16 * (k - (K - 1) / 2)
        ax.errorbar(x, mean[k], 1.96 * error[k], fmt="o-", color=viz.option_color(k), label=title, capsize=2, lw=1)
        if truth is not None:
            ax.plot(x, truth[k].numpy(), "x", color=TRUTH, ms=5, zorder=5, label="truth" if k == K - 1 else None)
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xticks(range(4), WEIGHT_NAMES)
    ax.set(ylabel="weight on choosing right", title="Weights, 95 % intervals")
    ax.legend()


def draw_transitions(ax: Axes, matrix: Tensor) -> None:
    """The transition matrix."""
    K = len(matrix)
    ax.imshow(matrix.numpy(), vmin=-0.8, vmax=1, cmap="bone", aspect="equal")
    for j in range(K):
        for k in range(K):
            ax.text(k, j, f"{float(matrix[j, k]):.2f}", ha="center", va="center", color="black" if j == k else "white")
    ax.set(xticks=range(K), yticks=range(K), xlabel="next state", ylabel="state", title="Transitions")
    ax.set_xticklabels(range(1, K + 1))
    ax.set_yticklabels(range(1, K + 1))
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def draw_session(ax: Axes, posterior: Tensor, titles: list[str], truth: Tensor | None) -> None:
    """Posterior probability of each state over the trials of a session; the true state as a strip above.

    :param posterior: ``(T, K)``
    :param truth: ``(T,)``
    """
    for k, title in enumerate(titles):
        ax.plot(posterior[:, k].numpy(), color=viz.option_color(k), label=title)
        if truth is not None:
            here = np.where(truth.numpy() == k, 1.06, np.nan)
            ax.plot(here, color=viz.option_color(k), linewidth=4, solid_capstyle="butt")
    extra = " (strip: truth)" if truth is not None else ""
    ax.set(xlabel="trial", ylabel="p(state)", title=f"One session{extra}", xlim=(0, len(posterior)), ylim=(-0.03, 1.1))


def psychometric(fit: WeightPosterior, k: int, stimulus: Tensor, history: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Probability of choosing right in state k, and its 95 % interval, each ``(points,)``.

    :param history: values of the other inputs, ``(D - 1,)``
    """
    inputs = torch.cat([stimulus.unsqueeze(-1), history.expand(len(stimulus), -1)], -1)
    inputs = torch.cat([inputs, torch.ones(len(stimulus), 1)], -1).double()
    weights = torch.cat([fit.mean.weight[k, 0], fit.mean.bias[k]])
    logits = inputs @ weights
    error = torch.einsum("nd,de,ne->n", inputs, fit.covariance[k, 0], inputs).clamp(min=0).sqrt()
    low, mid, high = (torch.sigmoid(logits + s * 1.96 * error) for s in (-1, 0, 1))
    return mid, low, high


def draw_psychometric(ax: Axes, fit: WeightPosterior, k: int, data: Trajectories, posterior: Tensor, title: str):
    """The psychometric curve of a state, and choices of the trials in it: shares weighted by the posterior.

    :param posterior: probability of each state at each trial, ``(steps, K)``
    """
    states, choices = data.states[data.mask].double(), data.actions[data.mask].double()
    weights = posterior[:, k].double()
    history = (states[:, 1:] * weights.unsqueeze(-1)).sum(0) / weights.sum()
    reach = float(states[:, 0].abs().max())
    grid = torch.linspace(-reach, reach, 101)
    mid, low, high = psychometric(fit, k, grid, history)
    color = viz.option_color(k)
    ax.fill_between(grid.numpy(), low.numpy(), high.numpy(), color=color, alpha=0.25, linewidth=0)
    ax.plot(grid.numpy(), mid.numpy(), color=color)
    stimulus = states[:, 0].contiguous()
    values = stimulus.unique()
    if len(values) > 24:  # many contrasts: bins with equal numbers of trials
        values = stimulus.quantile(torch.linspace(0, 1, 12).double())[1:-1]
    groups = torch.bucketize(stimulus, values)
    for group in groups.unique():
        mine = groups == group
        count = float(weights[mine].sum())
        if count >= 5:
            share = float((choices[mine] * weights[mine]).sum()) / count
            error = math.sqrt(max(share * (1 - share), 1 / (4 * count)) / count)
            ax.errorbar(float(stimulus[mine].mean()), share, 1.96 * error, fmt="o", color=color, ms=3, lw=0.8)
    ax.axhline(0.5, color="0.8", linewidth=0.8, zorder=0)
    ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set(ylim=(-0.03, 1.03), xlabel="stimulus", title=f"{title} ({100 * float(weights.mean()):.0f} %)")


def draw_counts(ax: Axes, gains: dict[int, Gain], found: Gain, num_states: int) -> None:
    """Held-out bits per trial for every K given, and for the K that was found."""
    counts = list(gains)
    means, errors = ([getattr(gain, name) for gain in gains.values()] for name in ("mean", "error"))
    ax.errorbar(counts, means, errors, fmt="o-", color=viz.NEUTRAL, capsize=2, label="K given")
    ax.plot([num_states], [found.mean], "*", color=viz.PALETTE[5], ms=11, label=f"K found: {num_states}")
    ax.set(xlabel="states", ylabel="bits per trial over Bernoulli", title="Held-out sessions", xticks=counts)
    ax.legend(loc="lower right")
