"""How well a segmentation agrees with the truth, when there is one.

Options have no names, so scores look at where segments begin (boundaries) or at which steps belong together (labels).
Padded steps never count.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pyro_options.errors import check, require


@dataclass(frozen=True)
class BoundaryScores:
    """Agreement on where segments begin. Each is 1 if there is nothing to find and nothing was found."""

    precision: float  # share of the predicted boundaries that are true
    recall: float  # share of the true boundaries that were predicted
    f1: float  # their harmonic mean


@dataclass(frozen=True)
class LabelScores:
    """Agreement on which steps belong together."""

    nmi: float  # normalized mutual information, in [0, 1]
    ari: float  # adjusted Rand index, 0 on average for random labels and 1 for the same
    accuracy: float  # share of steps that agree under the best one-to-one naming of the options
    naming: dict[int, int]  # that naming: predicted option -> true option


def _check_mask(mask: Tensor) -> None:
    """Integers would be taken for indices."""
    check(mask.dtype == torch.bool, "a mask of bits", mask.dtype, "Call .bool() on it.")


def boundaries(options: Tensor, mask: Tensor) -> Tensor:
    """Where another option takes over, ``(N, T)``; the first step of an episode does not count.

    >>> boundaries(torch.tensor([[3, 3, 1]]), torch.ones(1, 3, dtype=torch.bool)).tolist()
    [[False, False, True]]

    :param options: integers ``(N, T)``
    :param mask: steps in use ``(N, T)``
    """
    _check_mask(mask)
    check(options.shape == mask.shape, f"options of shape {tuple(mask.shape)}", tuple(options.shape))
    change = torch.zeros_like(mask, dtype=torch.bool)
    change[:, 1:] = options[:, 1:] != options[:, :-1]
    return change & mask


def _matches(predicted: list[int], true: list[int], tolerance: int) -> int:
    """Size of the largest one-to-one matching of times at most ``tolerance`` apart; both are sorted."""
    count = i = j = 0
    while i < len(predicted) and j < len(true):
        if abs(predicted[i] - true[j]) <= tolerance:
            count, i, j = count + 1, i + 1, j + 1
        elif predicted[i] < true[j]:
            i += 1
        else:
            j += 1
    return count


def boundary_scores(predicted: Tensor, true: Tensor, mask: Tensor, tolerance: int = 1) -> BoundaryScores:
    """Precision, recall and F1 over all boundaries of all episodes.

    A predicted boundary is right if it is at most ``tolerance`` steps from a true one, each of which is used once.

    :param predicted: bits ``(N, T)``, from :func:`boundaries` for instance
    :param true: the same of the truth
    :param mask: steps in use ``(N, T)``
    """
    _check_mask(mask)
    for name, value in (("predicted", predicted), ("true", true)):
        check(value.shape == mask.shape, f"{name} of shape {tuple(mask.shape)}", tuple(value.shape))
        check(value.dtype == torch.bool, f"{name} boundaries as bits", value.dtype, "Call boundaries on options.")
    check(tolerance >= 0, "tolerance >= 0", tolerance)
    predicted, true = (predicted & mask).cpu(), (true & mask).cpu()
    found, existing = int(predicted.sum()), int(true.sum())
    right = 0
    for one, other in zip(predicted, true):
        right += _matches(one.nonzero().flatten().tolist(), other.nonzero().flatten().tolist(), tolerance)
    if found == existing == 0:
        return BoundaryScores(1.0, 1.0, 1.0)
    precision = right / found if found else 0.0
    recall = right / existing if existing else 0.0
    return BoundaryScores(precision, recall, 2 * right / (found + existing))


def _steps(options: Tensor, mask: Tensor, name: str) -> np.ndarray:
    _check_mask(mask)
    check(options.shape == mask.shape, f"{name} of shape {tuple(mask.shape)}", tuple(options.shape))
    check(not options.is_floating_point(), f"{name} as integers", options.dtype)
    steps = options[mask].cpu().numpy()
    check(len(steps) >= 1, "at least one step in use", "none")
    check(steps.min() >= 0, f"{name} >= 0", steps.min())
    return steps


def _best_naming(predicted: np.ndarray, true: np.ndarray) -> dict[int, int]:
    """The one-to-one naming under which most steps agree (the Hungarian method)."""
    ours, rows = np.unique(predicted, return_inverse=True)
    theirs, columns = np.unique(true, return_inverse=True)
    counts = np.zeros((len(ours), len(theirs)), dtype=np.int64)
    np.add.at(counts, (rows, columns), 1)
    rows, columns = require("scipy.optimize", "metrics").linear_sum_assignment(counts, maximize=True)
    return {int(ours[row]): int(theirs[column]) for row, column in zip(rows, columns) if counts[row, column]}


def hungarian_accuracy(predicted: Tensor, true: Tensor, mask: Tensor) -> float:
    """Share of steps that agree under the best one-to-one naming; options without a name agree with nothing.

    >>> predicted, true = torch.tensor([[7, 7, 7, 2]]), torch.tensor([[0, 0, 1, 1]])
    >>> hungarian_accuracy(predicted, true, torch.ones(1, 4, dtype=torch.bool))
    0.75

    :param predicted: integers ``(N, T)``
    :param true: the same of the truth
    :param mask: steps in use ``(N, T)``
    """
    ours, truth = _steps(predicted, mask, "predicted options"), _steps(true, mask, "true options")
    named = _best_naming(ours, truth)
    return float(np.mean([named.get(one, -1) == other for one, other in zip(ours.tolist(), truth.tolist())]))


def label_scores(predicted: Tensor, true: Tensor, mask: Tensor) -> LabelScores:
    """Mutual information, Rand index and Hungarian accuracy over all steps. Needs the extra ``metrics``.

    :param predicted: integers ``(N, T)``
    :param true: the same of the truth
    :param mask: steps in use ``(N, T)``
    """
    cluster = require("sklearn.metrics", "metrics")
    ours, truth = _steps(predicted, mask, "predicted options"), _steps(true, mask, "true options")
    return LabelScores(
        nmi=float(cluster.normalized_mutual_info_score(truth, ours)),
        ari=float(cluster.adjusted_rand_score(truth, ours)),
        accuracy=hungarian_accuracy(predicted, true, mask),
        naming=_best_naming(ours, truth),
    )


def found_options(predicted: Tensor, true: Tensor, mask: Tensor) -> int:
    """How many true options have a skill of their own.

    One that is on in more than half of the option's steps, and more than half of whose own steps are the option's.

    :param predicted: integers ``(N, T)``
    :param true: the same of the truth
    :param mask: steps in use ``(N, T)``
    """
    ours, truth = _steps(predicted, mask, "predicted options"), _steps(true, mask, "true options")
    counts = np.zeros((ours.max() + 1, truth.max() + 1), dtype=np.int64)
    np.add.at(counts, (ours, truth), 1)
    covers, pure = 2 * counts > counts.sum(0), 2 * counts > counts.sum(1, keepdims=True)
    return int((covers & pure).any(0).sum())
