from .backward_lstm import reverse_episodes
from .networks import mlp, output_size
from .shared_product import ReadsStates, shared_product
from .standardized_inputs import StandardizedInputs
from .state_embedding import StateEmbedding
from .varying_inputs import VaryingInputs

__all__ = [
    "ReadsStates",
    "StandardizedInputs",
    "StateEmbedding",
    "VaryingInputs",
    "mlp",
    "output_size",
    "reverse_episodes",
    "shared_product",
]
