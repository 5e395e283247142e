"""The one registry of named methods: a model, a guide and a growth handler for given data.

Models and guides know nothing of each other; this is where they are put together.
"""

from .assembly import WIDE, Method, assemble, build, varying_inputs
from .config import (
    BIRTHS,
    GROWTH_DEFAULTS,
    GUIDES,
    METHODS,
    REMOVALS,
    RULES,
    SEGMENT_PRESETS,
    TRAIN_DEFAULTS,
    GrowthDefaults,
    MethodConfig,
    TrainDefaults,
    named_config,
)

__all__ = [
    "BIRTHS",
    "GROWTH_DEFAULTS",
    "GUIDES",
    "METHODS",
    "REMOVALS",
    "RULES",
    "SEGMENT_PRESETS",
    "TRAIN_DEFAULTS",
    "WIDE",
    "GrowthDefaults",
    "Method",
    "MethodConfig",
    "TrainDefaults",
    "assemble",
    "build",
    "named_config",
    "varying_inputs",
]
