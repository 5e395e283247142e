"""A linear embedding of wide states."""

from torch import Tensor, nn

from pyro_options.errors import check

from .shared_product import ReadsStates
from .state_network import StateNetwork
from .varying_inputs import VaryingInputs


class StateEmbedding(ReadsStates, nn.Module):
    """A linear layer that reduces wide states before an encoder.

    :param state_dim: size of a state
    :param units: size of the embedding
    :param inputs: selects entries of the state first, or is a network on it
    """

    def __init__(self, state_dim: int, units: int, inputs: VaryingInputs | StateNetwork | None = None):
        super().__init__()
        check(units >= 1, "units >= 1", units)
        self.state_dim, self.out_features, self.inputs = state_dim, units, inputs
        self.linear = nn.Linear(state_dim if inputs is None else inputs.out_features, units)

    def state_layer(self):
        return self.inputs, self.linear

    def forward(self, states: Tensor) -> Tensor:
        """``(..., state_dim) -> (..., units)``."""
        return self.read(states)
