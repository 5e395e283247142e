from .bits import pack_bits, unpack_bits
from .collection import Rollouts, collect, rollout
from .decisions import (
    DECISION_INPUTS,
    DECISION_STATES,
    DECISION_WEIGHTS,
    Decisions,
    decision_inputs,
    simulated_decisions,
)
from .integers import Integers, integer_sequences
from .minari import from_minari, to_minari
from .npz import from_npz
from .saved_policies import load_policy
from .stored_episodes import StoredEpisodes
from .synthetic import Synthetic, synthetic_options
from .trajectories import Trajectories

__all__ = [
    "DECISION_INPUTS",
    "DECISION_STATES",
    "DECISION_WEIGHTS",
    "Decisions",
    "Integers",
    "Rollouts",
    "StoredEpisodes",
    "Synthetic",
    "Trajectories",
    "collect",
    "decision_inputs",
    "from_minari",
    "from_npz",
    "integer_sequences",
    "load_policy",
    "pack_bits",
    "rollout",
    "simulated_decisions",
    "synthetic_options",
    "to_minari",
    "unpack_bits",
]
