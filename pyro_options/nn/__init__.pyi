from .backward_lstm import reverse_episodes
from .cnn import CNN
from .networks import mlp, output_size
from .packed_bits import PackedBits
from .remembered_features import RememberFeatures
from .shared_product import ReadsStates, shared_product
from .standardized_inputs import StandardizedInputs
from .state_embedding import StateEmbedding
from .state_network import NETWORKS, NetworkLike, StateNetwork, make_network
from .varying_inputs import VaryingInputs

__all__ = [
    "CNN",
    "NETWORKS",
    "NetworkLike",
    "PackedBits",
    "ReadsStates",
    "RememberFeatures",
    "StandardizedInputs",
    "StateEmbedding",
    "StateNetwork",
    "VaryingInputs",
    "make_network",
    "mlp",
    "output_size",
    "reverse_episodes",
    "shared_product",
]
