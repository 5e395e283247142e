"""States of bits that stay packed into bytes while linear layers read them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pyro_options.kernels.registry import KERNELS, TrackedFunction

KERNEL = KERNELS["bit_product"]

_LEAST_ROWS, _LEAST_BITS = 1024, 512  # from which on building tables pays off, forward and backward


def unpacked(packed: Tensor, dtype: torch.dtype) -> Tensor:
    """``(..., B)`` bytes to ``(..., 8 B)`` zeros and ones, the most significant bit first."""
    values = torch.arange(256, device=packed.device).unsqueeze(-1)
    table = ((values >> torch.arange(7, -1, -1, device=packed.device)) & 1).to(dtype)  # (256, 8): faster than shifting
    return table.index_select(0, packed.flatten().int()).view(*packed.shape[:-1], 8 * packed.shape[-1])


def _visited(bits: Tensor) -> tuple[Tensor, Tensor]:
    """Bytes that hold any of these bits ``(V,)``, filled up to a multiple of eight, and the place of each bit in them.

    :param bits: numbers of bits, in increasing order
    """
    used, place = torch.unique_consecutive(bits // 8, return_inverse=True)
    return torch.nn.functional.pad(used, (0, -len(used) % 8)), 8 * place + bits % 8


class _BitLinear(TrackedFunction):
    """``bits weight^T + bias`` for the ``bits (D,)`` of states ``packed (R, B)``; ``weight (W, D)``, ``bias (W,)``."""

    @staticmethod
    def forward(ctx, packed, bits, weight, bias):
        visited, place = _visited(bits)
        matrix = weight.new_zeros(8 * len(visited), len(weight))  # zero for bits that are not used
        matrix[place] = weight.t()
        out = bias.expand(len(packed), -1).clone()
        KERNEL.run("product", len(packed) * len(visited), (packed, visited, matrix), [out])
        ctx.save_for_backward(packed, visited, place)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        packed, visited, place = ctx.saved_tensors
        by_bit = grad.new_zeros(len(visited) // 4, 32, grad.shape[-1])
        KERNEL.run("gradient", len(packed) * len(visited), (visited.view(-1, 4), packed, grad), [by_bit])
        by_bit = by_bit.flatten(0, 1)
        weight_grad = by_bit if len(by_bit) == len(place) else by_bit[place]
        return None, None, weight_grad.t(), grad.sum(0)


@cache
def _properties() -> frozenset[Callable]:
    """What can be told of a tensor without its values."""
    names = (
        "shape",
        "dtype",
        "device",
        "requires_grad",
        "ndim",
        "is_leaf",
        "layout",
        "grad_fn",
        "is_meta",
        "is_sparse",
    )
    methods = (Tensor.size, Tensor.dim, Tensor.numel, Tensor.is_floating_point, Tensor.__len__)
    return frozenset((*(getattr(Tensor, name).__get__ for name in names), *methods, torch.is_floating_point))


class PackedBits(Tensor):
    """Zeros and ones ``(..., D)`` that are stored as bits of bytes, and unpacked when anything but a linear layer asks.

    A linear layer sums rows of tables instead, see :mod:`pyro_options.kernels.bit_product`: for Atari RAM that takes a
    third of the time of unpacking and a matrix product. All other operations see the unpacked tensor, which is kept.

    :param packed: ``(..., B)`` bytes on the CPU, the most significant bit first
    :param dtype: of the unpacked tensor
    :param bits: the numbers of the bits that are the entries of a state, in increasing order; by default all ``8 B``
    """

    packed: Tensor
    bits: Tensor | None
    _values: Tensor | None

    @staticmethod
    def __new__(cls, packed: Tensor, dtype: torch.dtype, bits: Tensor | None = None):
        width = 8 * packed.shape[-1] if bits is None else len(bits)
        new = Tensor._make_wrapper_subclass(cls, (*packed.shape[:-1], width), dtype=dtype)
        new.packed, new.bits, new._values = packed, bits, None
        return new

    @staticmethod
    def suits(packed: Tensor, dtype: torch.dtype) -> bool:
        """Whether states are worth keeping packed: there are many, and the kernel can be used."""
        enough = packed[..., 0].numel() >= _LEAST_ROWS and 8 * packed.shape[-1] >= _LEAST_BITS
        return enough and packed.device.type == "cpu" and KERNEL.take(torch.empty(0, dtype=dtype))

    def pick(self, bits: Tensor) -> "PackedBits":
        """Some of the entries, as :func:`torch.index_select` of the last dimension."""
        return PackedBits(self.packed, self.dtype, bits if self.bits is None else self.bits[bits])

    def unpack(self) -> Tensor:
        """The plain tensor."""
        if self._values is None:
            values = unpacked(self.packed, self.dtype)
            self._values = values if self.bits is None else values.index_select(-1, self.bits)
        return self._values

    def _linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        written = self._values is not None and self._values._version > 0
        if written or type(weight) is PackedBits or not KERNEL.take(torch.empty(0, dtype=self.dtype), weight):
            return torch.nn.functional.linear(self.unpack(), weight, bias)
        rows = self.packed.reshape(-1, self.packed.shape[-1])
        bits = torch.arange(8 * rows.shape[-1]) if self.bits is None else self.bits
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        return _BitLinear.apply(rows, bits, weight, bias).unflatten(0, self.shape[:-1])

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _properties():
            return super().__torch_function__(func, types, args, kwargs)
        if func is torch.nn.functional.linear and isinstance(args[0], PackedBits):
            return args[0]._linear(*args[1:], **kwargs)
        if func is Tensor.to and _changes_nothing(args[0], *args[1:], *kwargs.values()):
            return args[0]
        return func(*_plain(args), **_plain(kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*_plain(args), **_plain(kwargs or {}))


def _changes_nothing(bits: Any, *given: Any) -> bool:
    """Whether a conversion to these types and devices gives the same tensor."""
    return isinstance(bits, PackedBits) and all(
        one is None or one == bits.dtype or one in ("cpu", torch.device("cpu")) for one in given
    )


def _plain(given: Any) -> Any:
    """The same arguments with unpacked tensors."""
    if isinstance(given, PackedBits):
        return given.unpack()
    if isinstance(given, dict):
        return {name: _plain(one) for name, one in given.items()}
    return type(given)(map(_plain, given)) if type(given) in (list, tuple) else given
