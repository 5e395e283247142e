"""Resizing of all growable layers, in place: the only code that changes the number of components."""

from collections.abc import Iterable, Sequence

import torch
from pyro.optim import PyroOptim
from torch import Tensor, nn
from torch.optim import Optimizer

from pyro_options.errors import check

from .contracts import GrowableLayer
from .growable import axes_of, fresh_shape, growables, select


def optimizers_of(optimizer: Optimizer | PyroOptim | None, parameter: nn.Parameter) -> list[Optimizer]:
    """The torch optimizers that hold a state for ``parameter``; a ``PyroOptim`` has one optimizer per parameter."""
    if optimizer is None:
        return []
    if isinstance(optimizer, PyroOptim):
        if parameter not in optimizer.optim_objs:
            return []
        holder = optimizer.optim_objs[parameter]
        return [getattr(holder, "optimizer", holder)]  # a scheduler wraps its optimizer
    return [optimizer]


def _joined(kept: Tensor, fresh: Tensor, axes: Sequence[int]) -> Tensor:
    """Kept and new components in one tensor, see :meth:`GrowableLayer.fresh`."""
    if len(axes) == 1:
        return torch.cat([kept, fresh], axes[0])
    whole = fresh.clone()
    block = whole
    for axis in axes:
        block = block.narrow(axis, 0, kept.shape[axis])
    block.copy_(kept)
    return whole


def _resize_state(state: dict, old: Tensor, axes: Sequence[int], keep: Tensor, fresh_shape: Sequence[int]) -> None:
    """Resizes an optimizer's state with its parameter: every kept entry keeps its moments.

    First moments of new entries start at zero. Second moments start at the mean of the old ones: all entries share
    Adam's step count, so the bias of a zero would not be corrected, and the first steps of a new component would be
    several times too long.
    """
    for name, value in state.items():
        if not isinstance(value, Tensor) or value.shape != old.shape:
            continue
        fill = value.new_zeros(fresh_shape)
        if name in ("exp_avg_sq", "max_exp_avg_sq", "sum", "square_avg") and value.shape[axes[0]]:
            fill = value.mean(tuple(axes), keepdim=True).expand(fresh_shape)
        state[name] = _joined(select(value, axes, keep), fill, axes)


def set_data(tensor: Tensor, value: Tensor) -> None:
    """Assigns a value of another shape to the same tensor object.

    If the graph of an earlier loss is still alive, so is its ``AccumulateGrad`` node for this tensor, which expects
    gradients of the old shape and which autograd would silently reuse. Changing the dtype in between makes autograd
    create a new node.
    """
    other = torch.float32 if tensor.dtype == torch.float64 else torch.float64
    tensor.data = tensor.data.to(other)
    tensor.data = value
    tensor.grad = None


@torch.no_grad()
def _resize_layer(layer: GrowableLayer, index: Tensor, kept: dict[str, Tensor], num_new: int, optimizer) -> None:
    before = {name: getattr(layer, name).data for name in layer.component_axes}
    for name, value in kept.items():
        set_data(getattr(layer, name), value)
    fresh = {name: layer.fresh(name, num_new) for name in before}  # of all tensors, as long as they have the same K
    for name, old in before.items():
        tensor, axes, shape = getattr(layer, name), axes_of(layer, name), fresh_shape(layer, name, num_new)
        fix = "See pyro_options.growth.GrowableLayer."
        given = list(fresh[name].shape)
        check(given == shape, f"{type(layer).__name__}.fresh({name!r}, {num_new}) of shape {shape}", given, fix)
        for holder in optimizers_of(optimizer, tensor):
            _resize_state(holder.state.get(tensor, {}), old, axes, index, shape)
        set_data(tensor, _joined(kept[name], fresh[name].to(tensor), axes))


def num_components(modules: Iterable[nn.Module]) -> int:
    """The common number of components of every growable layer in ``modules``."""
    counts = {layer.num_components for layer in growables(modules)}
    check(len(counts) > 0, "at least one growable layer", "none", "Build the model from layers of pyro_options.growth.")
    check(len(counts) == 1, "all growable layers to have the same number of components", sorted(counts))
    return counts.pop()


def parameters_per_component(modules: Iterable[nn.Module]) -> int:
    """Numbers that belong to one component, without a network that components share."""
    modules = list(modules)
    layers = growables(modules)
    numbers = sum(getattr(layer, name).numel() for layer in layers for name in layer.component_axes)
    return numbers // num_components(modules)


@torch.no_grad()
def copy_components(
    modules: Iterable[nn.Module], index: Sequence[int], source: Iterable[nn.Module], chosen: Sequence[int]
) -> None:
    """Overwrites the components ``index`` by the ``chosen`` ones of other modules of the same kind."""
    for own, other in zip(growables(modules), growables(source)):
        for name, axis in own.component_axes.items():
            for new, old in zip(index, chosen):
                getattr(own, name).select(axis, new).copy_(getattr(other, name).select(axis, old))


def resize(
    modules: Iterable[nn.Module],
    keep: Sequence[int],
    num_new: int = 0,
    optimizer: Optimizer | PyroOptim | None = None,
) -> None:
    """Keeps the components ``keep``, in that order, and appends ``num_new`` fresh ones.

    Parameters change shape in place: the same ``nn.Parameter`` objects stay in the modules, the optimizer and Pyro's
    param store, and the optimizer's moments are resized with them. Call it between optimizer steps.

    :param modules: usually ``[model, guide]``
    :param optimizer: the torch or Pyro optimizer that trains them
    """
    modules = list(modules)
    K = num_components(modules)
    check(num_new >= 0, "num_new >= 0", num_new)
    check(len(keep) + num_new >= 1, "at least one component to remain", "none")
    check(
        len(set(keep)) == len(keep) and all(0 <= k < K for k in keep), f"distinct indices in [0, {K - 1}]", list(keep)
    )
    plan = []
    with torch.no_grad():
        for layer in growables(modules):  # a layer that raises must do so before any other has changed
            device = getattr(layer, next(iter(layer.component_axes))).device
            index = torch.tensor(keep, dtype=torch.long, device=device)
            plan.append((layer, index, layer.rearranged(index)))
    for layer, index, kept in plan:
        _resize_layer(layer, index, kept, num_new, optimizer)


def grow(modules: Iterable[nn.Module], count: int = 1, optimizer=None) -> None:
    """Appends ``count`` fresh components; the others and their weights do not change."""
    modules = list(modules)
    check(count >= 1, "count >= 1", count)
    resize(modules, range(num_components(modules)), count, optimizer)


def prune(modules: Iterable[nn.Module], index: Iterable[int], optimizer=None) -> None:
    """Removes the components in ``index``; their mass becomes unassigned."""
    modules, gone = list(modules), set(index)
    K = num_components(modules)
    check(all(0 <= k < K for k in gone), f"indices in [0, {K - 1}]", sorted(gone))
    resize(modules, [k for k in range(K) if k not in gone], 0, optimizer)


def merge(modules: Iterable[nn.Module], heir: int, gone: int, share: float = 0.5, optimizer=None) -> None:
    """Merges two components into one, ``share * heir + (1 - share) * gone``, with the mass of both."""
    modules = list(modules)
    K = num_components(modules)
    check(heir != gone and all(0 <= k < K for k in (heir, gone)), f"two components in [0, {K - 1}]", (heir, gone))
    check(0 <= share <= 1, "share in [0, 1]", share)
    for layer in growables(modules):
        layer.blend(heir, gone, share)
    prune(modules, [gone], optimizer)


def permute(modules: Iterable[nn.Module], order: Sequence[int], optimizer=None) -> None:
    """Reorders the components."""
    modules = list(modules)
    K = num_components(modules)
    check(sorted(order) == list(range(K)), f"a permutation of 0..{K - 1}", list(order))
    resize(modules, order, 0, optimizer)


@torch.no_grad()
def reweight(modules: Iterable[nn.Module], log_weights: Tensor) -> None:
    """Sets the relative weights of the components; the unassigned mass does not change.

    :param log_weights: ``(K,)``, or ``(R, K)`` for several weight vectors, normalized here
    """
    modules = list(modules)
    K = num_components(modules)
    check(log_weights.shape[-1] == K, f"{K} weights", log_weights.shape[-1])
    for layer in growables(modules):
        layer.reweight(torch.log_softmax(log_weights, -1))
