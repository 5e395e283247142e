"""Expectation maximization for models that can take a step of it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .contracts import ComponentLikelihood, Maximizable
from .workers import ALONE, Workers


@torch.no_grad()
def em_step(
    model: Any,
    observed: Callable[[Any], tuple[ComponentLikelihood, Any]],
    batches: Iterable[Any],
    components: Sequence[int] | None = None,
    workers: Workers = ALONE,
    scale: float | None = None,
) -> bool:
    """One step of expectation maximization over the parameters that allow it, which never lowers the posterior density.

    :param model: changed if it is a :class:`Maximizable`
    :param observed: distribution and value of the observed site for a batch of rows
    :param batches: of the rows, those of this process
    :param components: those to change; all by default
    :param workers: the processes that share the rows
    :param scale: standard deviation of a Gaussian prior on the weights of heads
    :returns: whether anything could be changed
    """
    if not isinstance(model, Maximizable):
        return False
    sums: tuple[torch.Tensor, ...] | None = None
    for rows in batches:
        found = model.statistics(rows, *observed(rows))
        if found is None:  # in every process that has rows
            break
        sums = found if sums is None else tuple(one + two for one, two in zip(sums, found))
    if workers.agree(sums is None)[0]:  # asked by all, also those without rows, which have no sums to add
        return False
    assert sums is not None
    model.maximize(tuple(workers.sum(one) for one in sums), components, scale)
    return True
