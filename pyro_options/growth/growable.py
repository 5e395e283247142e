"""Layers with K interchangeable components.

A growable layer names, for each of its parameters, the axis that indexes components, or several of them: both axes of a
K x K matrix of transitions.
:func:`~pyro_options.growth.resize` is the only code that changes shapes: it keeps some components in a given order and
appends fresh ones, inside the *same* ``nn.Parameter`` objects, so optimizers, Pyro's param store and a user's own
references never point at a stale tensor.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pyro_options.errors import check

from .contracts import GrowableLayer, fulfills


def axes_of(layer: "Growable | GrowableLayer", name: str) -> tuple[int, ...]:
    """The axes of a tensor that index components, counted from the first."""
    axes = layer.component_axes[name]
    dim = getattr(layer, name).dim()
    return tuple(axis % dim for axis in ((axes,) if isinstance(axes, int) else axes))


def select(tensor: Tensor, axes: Sequence[int], index: Tensor) -> Tensor:
    """The components ``index``, in that order, along every one of ``axes``."""
    for axis in axes:
        tensor = tensor.index_select(axis, index)
    return tensor


def involved(tensor: Tensor, axes: Sequence[int], index: Tensor) -> Tensor:
    """Which entries of ``tensor`` belong to a component in ``index`` along at least one of ``axes``."""
    mask = torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    for axis in axes:
        mask.index_fill_(axis, index, True)
    return mask


class Growable:
    """Mixin for an ``nn.Module`` with components along axes of some parameters: a :class:`GrowableLayer`."""

    #: parameter or buffer name -> axis that indexes components, or axes
    component_axes: dict[str, int | tuple[int, ...]]

    #: names of tensors without that axis which a move may change; restored when the move is undone
    shared: tuple[str, ...] = ()

    @property
    def num_components(self) -> int:
        """K."""
        name = next(iter(self.component_axes))
        return getattr(self, name).shape[axes_of(self, name)[0]]

    def fresh(self, name: str, count: int) -> Tensor:
        """Initial values of ``count`` new components of tensor ``name``; zeros unless overridden.

        ``count`` along the axis of components. If there are several such axes, ``K + count`` along each: the entries
        between existing components are ignored.
        """
        return getattr(self, name).new_zeros(fresh_shape(self, name, count))

    def rearranged(self, keep: Tensor) -> dict[str, Tensor]:
        """The tensors of the components ``keep``, in that order."""
        return {name: select(getattr(self, name), axes_of(self, name), keep) for name in self.component_axes}

    def inherit(self, child: int, parent: int, noise: float) -> None:
        """Sets the fresh component ``child`` to ``parent`` plus ``noise`` times its own initial value."""
        for name in self.component_axes:
            tensor, axes = getattr(self, name).data, axes_of(self, name)
            source = torch.arange(self.num_components, device=tensor.device)
            source[child] = parent
            own = involved(tensor, axes, torch.tensor([child], device=tensor.device))
            tensor.copy_(torch.where(own, noise * tensor + select(tensor, axes, source), tensor))

    def blend(self, heir: int, other: int, share: float) -> None:
        """Sets the component ``heir`` to ``share * heir + (1 - share) * other``, along every axis of components."""
        for name in self.component_axes:
            tensor = getattr(self, name).data
            for axis in axes_of(self, name):
                tensor.select(axis, heir).lerp_(tensor.select(axis, other), 1 - share)

    def reweight(self, log_weights: Tensor) -> None:
        """Sets new relative weights ``(K,)``; a no-op unless the layer holds weights."""


def fresh_shape(layer: "Growable | GrowableLayer", name: str, count: int) -> list[int]:
    """The shape that ``layer.fresh(name, count)`` must have."""
    tensor, axes = getattr(layer, name), axes_of(layer, name)
    return [size if d not in axes else count + size * (len(axes) > 1) for d, size in enumerate(tensor.shape)]


class Fit:
    """A fit that moves some components of a layer while the others stand still.

    :param index: numbers of those that move
    """

    def __init__(self, index: Tensor):
        self.index = index
        self.known: tuple[Tensor, Tensor] | None = None  # the last inputs of the layer, and its outputs on them


class GrowableHeads(Growable, nn.Module):
    """One linear map per component, ``(..., in) -> (..., K, out)``, computed as a single matrix product."""

    component_axes = {"weight": 0, "bias": 0}

    #: set by :func:`fitting`
    current_fit: Fit | None = None

    def __init__(self, in_features: int, num_components: int, out_features: int):
        super().__init__()
        check(num_components >= 1, "num_components >= 1", num_components, "Start with at least one component.")
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(self._uniform((num_components, out_features, in_features)))
        self.bias = nn.Parameter(self._uniform((num_components, out_features)))

    def _uniform(self, shape: tuple[int, ...]) -> Tensor:
        bound = 1 / math.sqrt(self.in_features)
        return torch.empty(shape).uniform_(-bound, bound)

    def fresh(self, name, count):
        return self._uniform((count, *getattr(self, name).shape[1:]))

    def forward(self, features: Tensor) -> Tensor:
        flat = nn.functional.linear(features, self.weight.flatten(0, 1), self.bias.flatten())
        return flat.unflatten(-1, self.bias.shape)


class ZeroHeads(GrowableHeads):
    """:class:`GrowableHeads` whose weights and biases start at zero, those of new components too."""

    def _uniform(self, shape):
        return torch.zeros(shape)


class GrowableInput(Growable, nn.Module):
    """A linear map without bias from vectors over components, ``(..., K) -> (..., out)``.

    :param random: whether new columns start at random, as the first ones do; by default at zero, so that they change
        nothing at first
    """

    component_axes = {"weight": 1}

    def __init__(self, num_components: int, out_features: int, random: bool = False):
        super().__init__()
        check(num_components >= 1, "num_components >= 1", num_components)
        self.random = random
        self.weight = nn.Parameter(self._uniform((out_features, num_components), num_components))

    def _uniform(self, shape: tuple[int, int], num_components: int) -> Tensor:
        bound = 1 / math.sqrt(num_components)
        return torch.empty(shape).uniform_(-bound, bound)

    def fresh(self, name, count):
        rows, old = self.weight.shape
        return self._uniform((rows, count), old + count) if self.random else super().fresh(name, count)

    def forward(self, components: Tensor) -> Tensor:
        return nn.functional.linear(components, self.weight)


@contextmanager
def fitting(modules: Iterable[nn.Module], index: Sequence[int]) -> Iterator[None]:
    """A context in which only the components ``index`` change, so that the outputs of the others may be kept."""
    layers = [layer for module in modules for layer in module.modules() if isinstance(layer, GrowableHeads)]
    try:
        for layer in layers:
            layer.current_fit = Fit(torch.tensor(list(index), device=layer.weight.device))
        yield
    finally:
        for layer in layers:
            layer.current_fit = None


def growables(modules: Iterable[nn.Module]) -> list[GrowableLayer]:
    """Every growable layer inside ``modules``, each once."""
    found: dict[int, GrowableLayer] = {}
    for module in modules:
        for part in module.modules():
            if hasattr(type(part), "component_axes"):
                found[id(part)] = fulfills(part, GrowableLayer, "a layer with component_axes")
    return list(found.values())
