"""Families of distributions of one action dimension, and the columns of a policy's outputs that they take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pyro_options.errors import check, choice


@dataclass(frozen=True)
class GaussianFamily:
    """A real number: a Gaussian, censored at its bounds if there are any.

    :param low: lower bound at which actions saturate, ``None`` for none; an action at or below it has the probability
        of the tail
    :param high: the same of an upper bound
    """

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = getattr(self, name)
            object.__setattr__(self, name, None if bound is None or math.isinf(bound) else float(bound))
        check(self.low is None or self.high is None or self.low < self.high, "low < high", (self.low, self.high))


@dataclass(frozen=True)
class CategoricalFamily:
    """One of a few values, each with a probability, whatever the distances between them.

    An action must be one of the values exactly, after both are converted to the type of the policy's parameters. Others
    have probability zero; :class:`~pyro_options.skills.Skills` refuse them with an error.

    :param values: kept in increasing order
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        values = tuple(sorted({float(value) for value in self.values}))
        check(len(values) >= 1 and all(map(math.isfinite, values)), "one or more finite values", self.values)
        object.__setattr__(self, "values", values)


ActionFamily = GaussianFamily | CategoricalFamily

_TYPES = {kind.__name__: kind for kind in (GaussianFamily, CategoricalFamily)}


def family_to_dict(family: ActionFamily) -> dict[str, Any]:
    """JSON values that :func:`family_from_dict` reads."""
    return {"type": type(family).__name__} | asdict(family)


def family_from_dict(values: Mapping[str, Any]) -> ActionFamily:
    """A family from the values of :func:`family_to_dict`."""
    kind = choice(values["type"], "the family of an action dimension", _TYPES)
    return _TYPES[kind](**{name: value for name, value in values.items() if name != "type"})


def bounds_of(families: Sequence[ActionFamily], dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds of the Gaussian dimensions, infinite where there are none."""
    real = [family for family in families if isinstance(family, GaussianFamily)]
    low = torch.tensor([-math.inf if family.low is None else family.low for family in real], dtype=dtype)
    return low, torch.tensor([math.inf if family.high is None else family.high for family in real], dtype=dtype)


class ActionLayout:
    """How the dimensions of an action share the outputs of a policy.

    First a column for the mean of each Gaussian dimension, then a block for each categorical one, with a logit per
    value.

    :param families: one for each dimension of an action
    :param integers: whether actions are integers, as in a MultiDiscrete space
    """

    def __init__(self, families: Sequence[ActionFamily], integers: bool = False):
        self.families, self.integers = tuple(families), integers
        known = all(isinstance(family, ActionFamily) for family in self.families)
        check(known and len(self.families) >= 1, "a family for each action dimension", families)
        #: Gaussian dimensions
        self.real = [d for d, family in enumerate(self.families) if isinstance(family, GaussianFamily)]
        #: values of the categorical dimensions
        self.values = {d: f.values for d, f in enumerate(self.families) if isinstance(f, CategoricalFamily)}
        whole = not self.real and all(value.is_integer() for values in self.values.values() for value in values)
        check(not integers or whole, "whole numbers in every dimension", self.families)
        self._tensors: dict[Any, list[Tensor]] = {}

    @property
    def action_dim(self) -> int:
        """Dimensions of an action."""
        return len(self.families)

    @property
    def sizes(self) -> list[int]:
        """Widths of the Gaussian columns and of each categorical block."""
        return [len(self.real), *(len(values) for values in self.values.values())]

    def tensors(self, like: Tensor) -> list[Tensor]:
        """The values of each categorical dimension, in the type and on the device of ``like``."""
        key = like.dtype, like.device
        if key not in self._tensors:
            kind = {"dtype": like.dtype, "device": like.device}
            self._tensors[key] = [torch.tensor(values, **kind) for values in self.values.values()]
        return self._tensors[key]

    def indices(self, actions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Which value the categorical dimensions have, ``(..., C)``, and whether each has one of them, ``(..., C)``.

        :param actions: ``(..., A)``
        :param like: actions and values are compared in the type of this tensor
        """
        found, known = [], []
        for d, values in zip(self.values, self.tensors(like)):
            column = actions[..., d].to(like.dtype).contiguous()
            index = torch.searchsorted(values, column).clamp(max=len(values) - 1)
            found.append(index)
            known.append(values[index] == column)
        if not found:
            none = actions.new_empty((*actions.shape[:-1], 0))
            return none.long(), none.bool()
        return torch.stack(found, -1), torch.stack(known, -1)

    def join(self, real: Tensor, index: Tensor) -> Tensor:
        """Actions ``(..., A)`` from their Gaussian dimensions and the indices of the values of the others."""
        actions = real.new_empty((*real.shape[:-1], self.action_dim))
        actions[..., self.real] = real
        for i, (d, values) in enumerate(zip(self.values, self.tensors(real))):
            actions[..., d] = values[index[..., i]]
        return actions.long() if self.integers else actions

    def encode(self, actions: Tensor, like: Tensor) -> Tensor:
        """Gaussian dimensions, and the others one-hot, in the columns of a policy's outputs, ``(..., out)``."""
        index, _ = self.indices(actions, like)
        choices = [one_hot(index[..., i], len(values)) for i, values in enumerate(self.values.values())]
        return torch.cat([part.to(like.dtype) for part in (actions[..., self.real], *choices)], -1)

    def column_names(self, names: Sequence[str] | None = None) -> list[str]:
        """A label for each column of :meth:`encode`.

        :param names: of the dimensions
        """
        names = [f"dimension {d}" for d in range(self.action_dim)] if names is None else names
        choices = [f"{names[d]} = {value:g}" for d, values in self.values.items() for value in values]
        return [names[d] for d in self.real] + choices
