"""Modules, optimizers and random states as named tensors and JSON values, and back."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pyro_options.errors import check

Modules = Mapping[str, nn.Module]


def _tensors(modules: Modules) -> dict[str, Tensor]:
    """Parameters and buffers by name, not copied."""
    own = {name: module.state_dict(keep_vars=True) for name, module in modules.items()}
    return {f"{prefix}.{name}": tensor for prefix, tensors in own.items() for name, tensor in tensors.items()}


def _names(modules: Modules) -> dict[int, str]:
    """``id(parameter)`` -> name: optimizer states are keyed by the parameter object."""
    return {id(p): f"{prefix}.{name}" for prefix, m in modules.items() for name, p in m.named_parameters()}


def module_state(modules: Modules) -> dict[str, Tensor]:
    """Copies of parameters and buffers, by name."""
    return {name: tensor.detach().clone() for name, tensor in _tensors(modules).items()}


def plan_modules(
    modules: Modules,
    state: Mapping[str, Tensor],
    saved_shape: Callable[[Tensor], Sequence[int]] = lambda tensor: tensor.shape,
) -> list[tuple[Tensor, Tensor]]:
    """Pairs of (own tensor, saved value) for :func:`fill`; raises if names, shapes or types differ.

    :param saved_shape: the shape that each tensor of the modules must have in ``state``
    """
    own = _tensors(modules)
    missing = sorted(own.keys() ^ state.keys())
    check(not missing, "the parameters of this model and guide", f"others: {', '.join(missing[:3])}")
    plan = []
    for name, tensor in own.items():
        shape = list(saved_shape(tensor))
        value = state[name]
        check(list(value.shape) == shape, f"{name} of shape {tuple(shape)}", tuple(value.shape))
        check(value.dtype == tensor.dtype, f"{name} of type {tensor.dtype}", value.dtype)
        plan.append((tensor, value))
    return plan


@torch.no_grad()
def fill(plan: list[tuple[Tensor, Tensor]], reshape: Callable[[Tensor, Tensor], None] | None = None) -> None:
    """Copies saved values into the existing tensors, see :func:`plan_modules`.

    :param reshape: ``reshape(tensor, value)`` handles values of another shape
    """
    for tensor, value in plan:
        if reshape is None or tensor.shape == value.shape:
            tensor.copy_(value)
            tensor.grad = None
        else:
            reshape(tensor, value.to(tensor.device, copy=True))


def optimizer_state(optimizer: Optimizer, modules: Modules) -> dict[str, Tensor]:
    """Copies of an optimizer's per-parameter state, as ``name/key``."""
    names = _names(modules)
    return {
        f"{names[id(parameter)]}/{key}": torch.as_tensor(value).detach().clone()
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }


def load_optimizer(optimizer: Optimizer, modules: Modules, state: Mapping[str, Tensor], rates: list[float]) -> None:
    """Replaces an optimizer's state by a saved one. Fill the modules first: their shapes are compared.

    :param rates: learning rate of each parameter group
    """
    names = _names(modules)
    parameters = {names[id(p)]: p for group in optimizer.param_groups for p in group["params"]}
    found: dict[str, dict[str, Tensor]] = {}
    for full, value in state.items():
        name, _, key = full.rpartition("/")
        check(name in parameters, "an optimizer of these parameters", f"one that knows {name!r}")
        fits = value.dim() == 0 or value.shape == parameters[name].shape
        check(fits, f"{full} of shape {tuple(parameters[name].shape)}", tuple(value.shape))
        found.setdefault(name, {})[key] = value.to(parameters[name].device, copy=True)
    check(len(rates) == len(optimizer.param_groups), f"{len(optimizer.param_groups)} learning rates", len(rates))
    optimizer.state.clear()
    for name, entries in found.items():
        optimizer.state[parameters[name]] = entries
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = float(rate)


def _accelerators() -> list[tuple[str, Any, int]]:
    """Name, torch module and number of every device besides the CPU: CUDA, and a device registered with torch."""
    names = "cuda", torch._C._get_privateuse1_backend_name()
    modules = [(name, getattr(torch, name)) for name in names if hasattr(torch, name)]
    return [
        (name, module, i) for name, module in modules if module.is_available() for i in range(module.device_count())
    ]


def random_state() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Random states of torch (of the CPU and of all other devices), numpy and Python: tensors, and JSON values."""
    _, keys, position, has_gauss, gauss = np.random.get_state()
    tensors = {"torch": torch.get_rng_state(), "numpy": torch.from_numpy(np.asarray(keys).astype(np.int64))}
    tensors |= {f"{name}{i}": module.get_rng_state(i) for name, module, i in _accelerators()}
    plain = {"numpy": [int(position), int(has_gauss), float(gauss)], "python": list(random.getstate())}
    return tensors, plain


def set_random_state(tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    """The inverse of :func:`random_state`. Devices without a saved state keep their current one."""
    keys = tensors["numpy"].numpy().astype(np.uint32)
    version, words, gauss = plain["python"]
    np.random.set_state(("MT19937", keys, *plain["numpy"]))
    random.setstate((version, tuple(words), gauss))
    torch.set_rng_state(tensors["torch"])
    for name, module, i in _accelerators():
        if f"{name}{i}" in tensors:
            module.set_rng_state(tensors[f"{name}{i}"], i)


def parts(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose name starts with ``prefix:``, without the prefix."""
    return {name.removeprefix(f"{prefix}:"): t for name, t in tensors.items() if name.startswith(f"{prefix}:")}


def prefixed(**groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Merges several mappings, each under its ``prefix:``."""
    return {f"{prefix}:{name}": t for prefix, tensors in groups.items() for name, t in tensors.items()}
