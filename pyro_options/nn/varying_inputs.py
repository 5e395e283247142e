"""Inputs that never vary cost nothing."""

import numpy as np
import torch
from torch import Tensor, nn

from pyro_options.errors import check

_ROWS = 16  # episodes looked at together


class VaryingInputs(nn.Module):
    """The entries of a state that vary in the demonstrations; the others are left out of every product.

    Nothing is lost on the demonstrations: what a linear layer could learn from a constant entry is in its bias. On a
    state where such an entry does differ it is ignored, as if it still had its constant value, where a layer on the
    whole state would add a weight that no datum has ever moved.

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
    def from_states(cls, states: Tensor, mask: Tensor) -> "VaryingInputs":
        """Keeps what varies over the steps in use; one entry if none does.

        :param states: ``(N, T, D)``
        :param mask: ``(N, T)``
        """
        reference = states[0, 0]
        varies = torch.zeros(states.shape[-1], dtype=torch.bool, device=states.device)
        for rows, used in zip(states.split(_ROWS), mask.split(_ROWS)):
            varies |= ((rows != reference) & used.unsqueeze(-1)).flatten(0, 1).any(0)
        index = varies.nonzero().squeeze(-1)
        return cls(index if len(index) else index.new_zeros(1), states.shape[-1])

    @classmethod
    def from_bytes(cls, packed: Tensor, mask: Tensor) -> "VaryingInputs":
        """The same of states whose bits are packed into bytes ``(N, T, B)``, without unpacking them."""
        reference = packed[0, 0].cpu().numpy()
        differs = np.zeros_like(reference)
        for rows, used in zip(packed.cpu().split(_ROWS), mask.cpu().split(_ROWS)):
            differs |= np.bitwise_or.reduce((rows[used].numpy() ^ reference), axis=0)
        index = torch.from_numpy(np.unpackbits(differs)).nonzero().squeeze(-1).to(packed.device)
        return cls(index if len(index) else index.new_zeros(1), 8 * packed.shape[-1])

    def forward(self, states: Tensor) -> Tensor:
        """``(..., D) -> (..., len(index))``."""
        plain = states.device.type == "cpu" and states.dtype is not torch.bfloat16  # numpy has no such type
        if plain and not states.requires_grad:  # six times as fast as index_select
            return torch.from_numpy(np.take(states.numpy(), self.index.numpy(), axis=-1))
        return states.index_select(-1, self.index)

    def extra_repr(self) -> str:
        return f"{len(self.index)} of {self.state_dim}"
