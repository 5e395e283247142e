"""Agreement of a segmentation with the ground truth.

Option indices are arbitrary, so scores compare where segments begin (boundaries) or which steps share an option
(labels). Padding is ignored.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pyro_options.errors import check, require


@dataclass(frozen=True)
class BoundaryScores:
    """Agreement on where segments begin. All are 1 if there are no boundaries, neither true nor predicted."""

    precision: float  # share of the predicted boundaries that are correct
    recall: float  # share of the true boundaries that were predicted
    f1: float  # harmonic mean of precision and recall


@dataclass(frozen=True)
class LabelScores:
    """Agreement on which steps share an option."""

    nmi: float  # normalized mutual information, in [0, 1]
    ari: float  # adjusted Rand index: 1 for identical labels, 0 in expectation for random ones
    accuracy: float  # share of steps that agree under the best one-to-one matching of options
    naming: dict[int, int]  # that matching: predicted option -> true option


def _check_mask(mask: Tensor) -> None:
    """Raises unless the mask is boolean: an integer mask would index instead."""
    check(mask.dtype == torch.bool, "a mask of bits", mask.dtype, "Call .bool() on it.")


def boundaries(options: Tensor, mask: Tensor) -> Tensor:
    """True where the option differs from that of the previous step, ``(N, T)``; false at the first step.

    >>> boundaries(torch.tensor([[3, 3, 1]]), torch.ones(1, 3, dtype=torch.bool)).tolist()
    [[False, False, True]]

    :param options: integers ``(N, T)``
    :param mask: steps that are not padding ``(N, T)``
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

    A predicted boundary is correct if it is at most ``tolerance`` steps from a true one; each true boundary is matched
    at most once.

    :param predicted: booleans ``(N, T)``, such as from :func:`boundaries`
    :param true: the same for the true options
    :param mask: steps that are not padding ``(N, T)``
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
    """The one-to-one matching under which most steps agree (Hungarian algorithm)."""
    ours, rows = np.unique(predicted, return_inverse=True)
    theirs, columns = np.unique(true, return_inverse=True)
    counts = np.zeros((len(ours), len(theirs)), dtype=np.int64)
    np.add.at(counts, (rows, columns), 1)
    rows, columns = require("scipy.optimize", "metrics").linear_sum_assignment(counts, maximize=True)
    return {int(ours[row]): int(theirs[column]) for row, column in zip(rows, columns) if counts[row, column]}


def hungarian_accuracy(predicted: Tensor, true: Tensor, mask: Tensor) -> float:
    """Share of steps that agree under the best one-to-one matching of options; steps of unmatched options disagree.

    >>> predicted, true = torch.tensor([[7, 7, 7, 2]]), torch.tensor([[0, 0, 1, 1]])
    >>> hungarian_accuracy(predicted, true, torch.ones(1, 4, dtype=torch.bool))
    0.75

    :param predicted: integers ``(N, T)``
    :param true: true options ``(N, T)``
    :param mask: steps that are not padding ``(N, T)``
    """
    ours, truth = _steps(predicted, mask, "predicted options"), _steps(true, mask, "true options")
    named = _best_naming(ours, truth)
    return float(np.mean([named.get(one, -1) == other for one, other in zip(ours.tolist(), truth.tolist())]))


def adjusted_rand(first: Tensor, second: Tensor) -> float:
    """The adjusted Rand index of two labellings: 1 if they are the same up to names, 0 in expectation by chance."""
    table = torch.zeros(int(first.max()) + 1, int(second.max()) + 1, dtype=torch.float64)
    table.index_put_((first.flatten(), second.flatten()), torch.ones(first.numel(), dtype=torch.float64), True)

    def pairs(counts: Tensor) -> float:
        return float((counts * (counts - 1) / 2).sum())

    both, rows, columns = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    chance = rows * columns / pairs(table.sum().unsqueeze(0))
    highest = (rows + columns) / 2
    return 1.0 if highest == chance else (both - chance) / (highest - chance)


def label_scores(predicted: Tensor, true: Tensor, mask: Tensor) -> LabelScores:
    """Mutual information, Rand index and Hungarian accuracy over all steps. Needs the extra ``metrics``.

    :param predicted: integers ``(N, T)``
    :param true: true options ``(N, T)``
    :param mask: steps that are not padding ``(N, T)``
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
    """Number of true options that are found.

    A true option is found if one skill is active in more than half of its steps, and more than half of that skill's
    steps belong to it.

    :param predicted: integers ``(N, T)``
    :param true: true options ``(N, T)``
    :param mask: steps that are not padding ``(N, T)``
    """
    ours, truth = _steps(predicted, mask, "predicted options"), _steps(true, mask, "true options")
    counts = np.zeros((ours.max() + 1, truth.max() + 1), dtype=np.int64)
    np.add.at(counts, (ours, truth), 1)
    covers, pure = 2 * counts > counts.sum(0), 2 * counts > counts.sum(1, keepdims=True)
    return int((covers & pure).any(0).sum())
