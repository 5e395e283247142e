"""Chooses the family of each action dimension from the demonstrations and from what is known of the action space."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyro_options.data.steps import Steps
from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check, choice
from pyro_options.options.families import ActionFamily, CategoricalFamily, GaussianFamily

#: names of families, for :func:`resolved_families`
FAMILIES = ("auto", "gaussian", "censored", "categorical")

_FEW = 8  # values up to which a dimension of continuous actions is categorical
_STEPS_PER_VALUE = 10  # and steps for each of them: a handful of steps says nothing
_MIN_SHARE = 0.02  # of the steps at the least or largest value, for a bound that is not known
_MOST = 256  # values of a categorical dimension that is asked for


def checked_families(given: Any) -> Any:
    """The setting ``action_families``: ``None``, a name, or a tuple of names and families; raises for others."""
    if given is None or isinstance(given, str):
        return None if given is None else choice(given, "action_families", FAMILIES)
    check(isinstance(given, Sequence), "action_families as a name, or one for each dimension", repr(given))
    for one in given:
        if not isinstance(one, ActionFamily):
            choice("auto" if one is None else one, "the family of an action dimension", FAMILIES)
    return tuple(given)


@dataclass(frozen=True)
class _Column:
    """One dimension ``d`` of continuous actions."""

    actions: Steps
    d: int
    values: Tensor  # in increasing order; if there are more than _MOST, some of them
    low: Tensor
    high: Tensor
    at_low: int  # steps with the least value
    at_high: int
    num_steps: int

    def parts(self) -> Iterator[Tensor]:
        """Its values at all steps, ``(steps,)`` in parts."""
        for part in self.actions.chunks():
            yield part[:, self.d].cpu()


def _columns(actions: Steps) -> list[_Column]:
    """All dimensions, from two passes over the actions."""
    A, num_steps = actions.shape[-1], int(actions.lengths.sum())
    values = [torch.empty(0, dtype=actions.dtype)] * A
    low, high = torch.full((A,), torch.inf, dtype=actions.dtype), torch.full((A,), -torch.inf, dtype=actions.dtype)
    for part in actions.chunks():
        part = part.cpu()
        low, high = torch.minimum(low, part.amin(0)), torch.maximum(high, part.amax(0))
        for d, seen in enumerate(values):
            if len(seen) <= _MOST:
                values[d] = torch.cat([seen, part[:, d]]).unique()
    at_low, at_high = torch.zeros(A, dtype=torch.long), torch.zeros(A, dtype=torch.long)
    for part in actions.chunks():
        part = part.cpu()
        at_low, at_high = at_low + (part == low).sum(0), at_high + (part == high).sum(0)
    return [
        _Column(actions, d, values[d], low[d], high[d], int(at_low[d]), int(at_high[d]), num_steps) for d in range(A)
    ]


def _few_values(column: _Column) -> Tensor | None:
    """The values of a dimension if they are few."""
    values = column.values
    same = len(values.to(torch.get_default_dtype()).unique()) < len(values)  # for the parameters, of lower precision
    return values if len(values) <= _FEW and column.num_steps >= _STEPS_PER_VALUE * len(values) and not same else None


def _saturation(column: _Column, known: Sequence[float]) -> GaussianFamily:
    """A Gaussian censored at the bounds at which a dimension saturates.

    The least or largest value is a bound if it makes up 2 % of the steps, or if it is the bound of the action space.
    """
    if column.low == column.high:
        return GaussianFamily()
    bounds: list[float | None] = []
    for extreme, count, bound in ((column.low, column.at_low, known[0]), (column.high, column.at_high, known[1])):
        share = count / column.num_steps
        bounds.append(float(extreme) if share >= _MIN_SHARE or float(extreme) == bound else None)
    return GaussianFamily(*bounds)


def _family(column: _Column, asked: Any, censored: bool, known: Sequence[float]) -> ActionFamily:
    """The family of a dimension.

    :param asked: a name or a family
    :param known: bounds of the action space
    """
    d = column.d
    if isinstance(asked, CategoricalFamily):
        dtype = torch.get_default_dtype()
        values = torch.tensor(asked.values, dtype=dtype)
        fix = "Add it to the values, or let them be found with the name 'categorical'."
        for part in column.parts():
            inside = torch.isin(part.to(dtype), values)
            if not bool(inside.all()):
                check(False, f"actions of dimension {d} among {asked.values}", float(part[~inside][0]), fix)
    if isinstance(asked, ActionFamily):
        return asked
    if asked == "gaussian":
        return GaussianFamily()
    if asked == "censored":
        check(bool(column.low < column.high), f"different actions in dimension {d} to find bounds", "a single value")
        return GaussianFamily(float(column.low), float(column.high))
    found = column.values if asked == "categorical" else _few_values(column)
    if found is not None:
        fix = "Make it Gaussian."
        check(len(found) <= _MOST, f"at most {_MOST} values in the categorical dimension {d}", "more", fix)
        return CategoricalFamily(tuple(found.tolist()))
    return _saturation(column, known) if censored else GaussianFamily()


def resolved_families(data: Trajectories, asked: Any = None, censored: bool = True) -> tuple[ActionFamily, ...] | str:
    """The family of each action dimension.

    By default a dimension of continuous actions is categorical if it has at most eight values, each in ten steps on
    average (a gripper at ±1, or a constant). It is a censored Gaussian if it saturates: if its least or largest value
    makes up 2 % of the steps, or is the bound of a known action space. Otherwise it is a Gaussian. Integers are
    categorical. None of this depends on the units of the actions.

    :param asked: a name of :data:`FAMILIES` for every dimension, or a sequence with a name, a
        :class:`~pyro_options.options.GaussianFamily` or a :class:`~pyro_options.options.CategoricalFamily` for each;
        ``auto`` and ``None`` stand for the choice above. ``censored`` has bounds at the least and largest value,
        ``categorical`` the values that occur
    :param censored: whether ``auto`` may find bounds
    :returns: the families, or ``"categorical"`` if an action is one integer
    """
    asked, actions, counts = checked_families(asked), data.given_actions(), data.num_actions
    if data.discrete:
        discrete = asked in (None, "auto", "categorical") or isinstance(asked, tuple)
        check(discrete, "categorical families with integer actions", asked, "Call .float() on the actions first.")
    if isinstance(counts, int):
        check(not isinstance(asked, tuple), "one family of one integer action", asked)
        return "categorical"
    A = actions.shape[-1]
    each = asked if isinstance(asked, tuple) else (asked,) * A
    check(len(each) == A, f"a family for each of {A} action dimensions", len(each))
    if isinstance(counts, tuple):
        found = tuple(CategoricalFamily(tuple(range(n))) for n in counts)
        same = all(one in (None, "auto", "categorical", family) for one, family in zip(each, found))
        check(same, "categorical families over all integers of each dimension", asked)
        return found
    nowhere = torch.tensor([[-torch.inf], [torch.inf]]).expand(2, A)
    bounds = nowhere if data.action_bounds is None else data.action_bounds.cpu().to(actions.dtype)
    columns = zip(_columns(actions), each, bounds.T.tolist())
    return tuple(_family(column, one, censored, known) for column, one, known in columns)


def looks_one_hot(actions: Tensor, mask: Tensor | None = None) -> bool:
    """Whether every action is zero but for a single one: discrete actions that were encoded.

    They are modelled better as integers, ``actions.argmax(-1)``; nothing converts them.

    :param actions: ``(..., A)``, with A of at least 2
    :param mask: unpadded steps ``(...)``
    """
    if actions.shape[-1] < 2:
        return False
    steps = actions.reshape(-1, actions.shape[-1]) if mask is None else actions[mask]
    binary = bool(((steps == 0) | (steps == 1)).all())
    return binary and len(steps) > 0 and bool((steps.sum(-1) == 1).all())
