"""Selection of the state entries that vary in the demonstrations."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyro_options.errors import check

from .packed_bits import PackedBits

_ROWS = 16  # episodes to compare at a time


def used_rows(values: Any, mask: Tensor | None, rows: int) -> Iterator[Tensor]:
    """Values of the unpadded steps ``(steps, D)``, in parts.

    :param values: padded ``(N, T, D)``, or an object whose ``chunks()`` iterates over such parts
    :param mask: ``(N, T)`` of padded values
    :param rows: padded episodes in a part
    """
    if not isinstance(values, Tensor):
        yield from values.chunks()
    else:
        assert mask is not None
        for part, used in zip(values.split(rows), mask.split(rows)):
            yield part[used]


class VaryingInputs(nn.Module):
    """Selects the entries of a state that vary in the demonstrations, so that linear layers skip the constant ones.

    On the demonstrations this loses nothing: the effect of a constant entry is in the bias. On a new state in which
    such an entry differs, the difference is ignored; a layer on the whole state would multiply it by a weight that the
    data do not determine.

    :param index: the entries to keep, in increasing order
    :param state_dim: size of a whole state
    """

    index: Tensor

    def __init__(self, index: Tensor, state_dim: int):
        super().__init__()
        check(index.dim() == 1 and len(index) >= 1, "at least one entry to keep", tuple(index.shape))
        check(
            int(index.min()) >= 0 and int(index.max()) < state_dim, f"entries in [0, {state_dim - 1}]", index.tolist()
        )
        self.state_dim, self.out_features = state_dim, len(index)
        self.register_buffer("index", index.clone())

    @classmethod
    def from_states(cls, states: Any, mask: Tensor | None = None) -> "VaryingInputs":
        """Keeps the entries that vary over the unpadded steps, or one entry if none does.

        :param states: ``(N, T, D)``, or an object whose ``chunks()`` iterates over parts ``(steps, D)`` of them
        :param mask: ``(N, T)``, unless there are chunks
        """
        reference = next(used_rows(states, mask, 1))[0]
        varies = torch.zeros(states.shape[-1], dtype=torch.bool, device=states.device)
        for rows in used_rows(states, mask, _ROWS):
            varies |= (rows != reference).any(0)
        index = varies.nonzero().squeeze(-1)
        return cls(index if len(index) else index.new_zeros(1), states.shape[-1])

    @classmethod
    def from_bytes(cls, packed: Any, mask: Tensor | None = None) -> "VaryingInputs":
        """The same for states whose bits are packed into bytes ``(N, T, B)``, without unpacking them."""
        reference = next(used_rows(packed, mask, 1))[0].cpu().numpy()
        differs = np.zeros_like(reference)
        for rows in used_rows(packed, mask, _ROWS):
            differs |= np.bitwise_or.reduce(rows.cpu().numpy() ^ reference, axis=0)
        index = torch.from_numpy(np.unpackbits(differs)).nonzero().squeeze(-1).to(packed.device)
        return cls(index if len(index) else index.new_zeros(1), 8 * packed.shape[-1])

    def forward(self, states: Tensor) -> Tensor:
        """``(..., D) -> (..., len(index))``."""
        if self.out_features == self.state_dim:
            return states
        if isinstance(states, PackedBits):
            return states.pick(self.index)
        plain = states.device.type == "cpu" and states.dtype is not torch.bfloat16  # numpy has no bfloat16
        if plain and not states.requires_grad:  # six times as fast as index_select
            return torch.from_numpy(np.take(states.numpy(), self.index.numpy(), axis=-1))
        return states.index_select(-1, self.index)

    def extra_repr(self) -> str:
        return f"{len(self.index)} of {self.state_dim}"
