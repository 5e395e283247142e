"""Packing and unpacking of bits: Atari RAM is stored as 128 bytes, and is 1024 binary inputs to a policy."""

import torch
from torch import Tensor

from pyro_options.errors import check
from pyro_options.nn.packed_bits import unpacked


def unpack_bits(packed: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """``(..., B)`` bytes to ``(..., 8 B)`` zeros and ones, most significant bit first like ``numpy.unpackbits``.

    >>> unpack_bits(torch.tensor([5], dtype=torch.uint8), torch.long).tolist()
    [0, 0, 0, 0, 0, 1, 0, 1]

    :param dtype: of the result, by default torch's default floating-point type
    """
    check(
        packed.dtype == torch.uint8 and packed.dim() >= 1,
        "bytes of type uint8",
        f"{packed.dtype} {tuple(packed.shape)}",
    )
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return unpacked(packed, dtype)


def pack_bits(bits: Tensor) -> Tensor:
    """``(..., 8 B)`` zeros and ones to ``(..., B)`` bytes: the inverse of :func:`unpack_bits`.

    >>> pack_bits(torch.tensor([0, 0, 0, 0, 0, 1, 0, 1])).tolist()
    [5]
    """
    check(bits.shape[-1:] and bits.shape[-1] % 8 == 0, "a multiple of 8 bits", tuple(bits.shape))
    check(bool(((bits == 0) | (bits == 1)).all()), "zeros and ones", "other numbers", "Threshold them first.")
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=bits.device)
    return (bits.to(torch.uint8).unflatten(-1, (-1, 8)) << shifts).sum(-1, dtype=torch.uint8)
