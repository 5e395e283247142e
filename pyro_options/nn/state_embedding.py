"""Wide states in a few numbers."""

from torch import Tensor, nn

from pyro_options.errors import check

from .shared_product import ReadsStates
from .varying_inputs import VaryingInputs


class StateEmbedding(ReadsStates, nn.Module):
    """A linear layer that makes a wide state narrow ahead of an encoder.

    :param state_dim: size of a state
    :param units: what is left of it
    :param inputs: picks entries of the state first
    """

    def __init__(self, state_dim: int, units: int, inputs: VaryingInputs | None = None):
        super().__init__()
        check(units >= 1, "units >= 1", units)
        self.state_dim, self.out_features, self.inputs = state_dim, units, inputs
        self.linear = nn.Linear(state_dim if inputs is None else inputs.out_features, units)

    def state_layer(self):
        return self.inputs, self.linear

    def forward(self, states: Tensor) -> Tensor:
        """``(..., state_dim) -> (..., units)``."""
        return self.read(states)
