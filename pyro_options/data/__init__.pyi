from .bits import pack_bits, unpack_bits
from .collection import Rollouts, collect, rollout
from .concatenation import concatenate
from .dataframes import EPISODE_COLUMNS, LEFT_OUT, STEP_COLUMNS, from_csv, from_dataframe, from_parquet
from .decisions import (
    DECISION_INPUTS,
    DECISION_STATES,
    DECISION_WEIGHTS,
    Decisions,
    decision_inputs,
    simulated_decisions,
)
from .folder import save_episodes
from .integers import Integers, integer_sequences
from .lerobot import from_lerobot
from .minari import from_minari, to_minari
from .npz import from_npz
from .records import from_records
from .robomimic import from_robomimic
from .saved_policies import load_policy
from .sources import open_trajectories
from .stored_episodes import StoredEpisodes
from .synthetic import Synthetic, synthetic_options
from .table_writer import to_dataframe, write_table
from .trajectories import Trajectories

__all__ = [
    "DECISION_INPUTS",
    "DECISION_STATES",
    "DECISION_WEIGHTS",
    "EPISODE_COLUMNS",
    "LEFT_OUT",
    "STEP_COLUMNS",
    "Decisions",
    "Integers",
    "Rollouts",
    "StoredEpisodes",
    "Synthetic",
    "Trajectories",
    "collect",
    "concatenate",
    "decision_inputs",
    "from_csv",
    "from_dataframe",
    "from_lerobot",
    "from_minari",
    "from_npz",
    "from_parquet",
    "from_records",
    "from_robomimic",
    "integer_sequences",
    "load_policy",
    "open_trajectories",
    "pack_bits",
    "rollout",
    "save_episodes",
    "simulated_decisions",
    "synthetic_options",
    "to_dataframe",
    "to_minari",
    "unpack_bits",
    "write_table",
]
