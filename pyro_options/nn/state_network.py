"""State networks of the user's own, on states of any shape."""

import copy
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from pyro_options.errors import InputError, check
from pyro_options.kernels.registry import TrackedFunction

from .cnn import CNN

#: a network for states: a name of :data:`NETWORKS`, an import path ``module:function``, a function of the state shape
#: that makes a module, or a module
NetworkLike: TypeAlias = str | nn.Module | Callable[[tuple[int, ...]], nn.Module]

#: networks that are known by name
NETWORKS: dict[str, Callable[[tuple[int, ...]], nn.Module]] = {"cnn": CNN}

_NUMBERS = 2**19  # numbers of the states that a network sees at a time


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


class _Recomputed(TrackedFunction):
    """A function of states and parameters that keeps its inputs alone, and is computed again in the backward pass.

    As ``torch.utils.checkpoint``, which would import the compiler of torch and a hundred megabytes with it.
    """

    @staticmethod
    def forward(ctx, function, states, *parameters):
        ctx.function, ctx.random = function, _random_state(states.device)
        ctx.save_for_backward(states, *parameters)
        return function(states)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        states, *parameters = ctx.saved_tensors
        cuda = states.device.type == "cuda"
        with torch.random.fork_rng(devices=[states.device] if cuda else []), torch.enable_grad():
            # the same random numbers, for dropout
            torch.cuda.set_rng_state(ctx.random, states.device) if cuda else torch.set_rng_state(ctx.random)
            found = ctx.function(states)
            needed = [p for p in parameters if p.requires_grad]
            gradients = iter(torch.autograd.grad(found, needed, grad, allow_unused=True))
        return None, None, *(next(gradients) if p.requires_grad else None for p in parameters)


class StateNetwork(nn.Module):
    """A network on states of their own shape, behind flat states: ``(..., D)`` to ``(..., features)``.

    The contract of the network: ``(n, *state_shape)`` floating point to ``(n, features)``, each state on its own. Bytes
    are divided by 255. Many states are taken in parts, whose intermediate results are computed again in the backward
    pass: so the memory of an update does not grow with the number of frames in a batch.

    :param network: the network
    :param state_shape: of one state
    :param is_bytes: whether states are numbers from 0 to 255, as bytes or as floating point
    :param name: of what makes the network, for files and messages
    """

    def __init__(self, network: nn.Module, state_shape: Sequence[int], is_bytes: bool, name: str):
        super().__init__()
        self.network, self.state_shape = network, tuple(state_shape)
        self.is_bytes, self.name, self.state_dim = is_bytes, name, math.prod(self.state_shape)
        for part in network.modules():
            fix = "Use LayerNorm or GroupNorm: a state must have the same features in every batch."
            check(not isinstance(part, nn.modules.batchnorm._BatchNorm), "no batch normalization", part, fix)
        self.out_features = self._output_size()

    def _output_size(self) -> int:
        expected = f"a network that maps (n, {', '.join(map(str, self.state_shape))}) to (n, features)"
        fix = "Its input is floating point, with the axes of your states behind the first."
        like = next(self.network.parameters(), torch.empty(0))
        try:
            with torch.no_grad():
                found = self.network(torch.zeros((3, *self.state_shape), dtype=like.dtype, device=like.device))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"Expected {expected} but got {type(error).__name__}: {error}. {fix}") from error
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        check(isinstance(shape, tuple) and len(shape) == 2 and shape[0] == 3, expected, f"an output {shape}", fix)
        return int(found.shape[-1])

    def _features(self, states: Tensor) -> Tensor:
        like = next(self.network.parameters(), None)
        dtype = torch.get_default_dtype() if like is None else like.dtype
        values = states.to(dtype)
        if self.is_bytes:
            values = values / 255
        return self.network(values.unflatten(-1, self.state_shape))

    def forward(self, states: Tensor) -> Tensor:
        """``(..., D) -> (..., features)``."""
        lead, rows = states.shape[:-1], states.reshape(-1, self.state_dim)
        parts = rows.split(max(1, _NUMBERS // self.state_dim))
        if len(parts) == 1:
            return self._features(rows).reshape(*lead, -1)
        parameters = [p for p in self.network.parameters() if p.requires_grad]
        if torch.is_grad_enabled() and parameters:
            found = [_Recomputed.apply(self._features, part, *parameters) for part in parts]
        else:
            found = [self._features(part) for part in parts]
        return torch.cat(found).reshape(*lead, -1)

    def extra_repr(self) -> str:
        return f"{self.name} on {' x '.join(map(str, self.state_shape))}"


def network_name(network: Any) -> str:
    """How a file and a message call what makes a network: a name, or ``module:function``."""
    if isinstance(network, str):
        return network
    made = type(network) if isinstance(network, nn.Module) else network
    return f"{made.__module__}:{getattr(made, '__qualname__', type(made).__qualname__)}"


def check_network(network: Any) -> None:
    """Raises unless ``network`` is a :data:`NetworkLike`."""
    known = isinstance(network, str) and (network in NETWORKS or network.count(":") == 1)
    fix = 'Pass "cnn", a module, a function of the state shape that makes one, or its import path "module:function".'
    check(known or (callable(network) and not isinstance(network, str)), "a state network", repr(network), fix)


def _imported(path: str) -> Any:
    """What an import path ``module:function`` names."""
    module, name = path.split(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        fix = "Is its folder on the Python path?"
        raise InputError(f"Expected a function to import from {path!r} but got {error}. {fix}") from error


def make_network(network: NetworkLike, state_shape: Sequence[int], is_bytes: bool) -> StateNetwork:
    """A new state network; of a module that exists, a copy."""
    check_network(network)
    shape = tuple(state_shape)
    maker = (NETWORKS.get(network) or _imported(network)) if isinstance(network, str) else network
    made = copy.deepcopy(maker) if isinstance(maker, nn.Module) else maker(shape)
    check(isinstance(made, nn.Module), f"{network_name(network)} to make a module", type(made).__name__)
    return StateNetwork(made, shape, is_bytes, network_name(network))
