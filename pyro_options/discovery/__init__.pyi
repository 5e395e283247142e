from .action_families import FAMILIES, looks_one_hot, resolved_families
from .assembly import CHECKS, Method, Plan, assemble, build, make_plan
from .budget import Budget, varying_inputs
from .config import DEFAULT_METHOD, METHODS, PRESETS, MethodConfig, method_config
from .growth import BIRTHS, GROWTH_DEFAULTS, REMOVALS, RULES, Growth
from .registry import GUIDES, MODELS, WIDE, GuideEntry, Pieces
from .run import discover, found_skills, options_in_use

__all__ = [
    "BIRTHS",
    "CHECKS",
    "DEFAULT_METHOD",
    "FAMILIES",
    "GROWTH_DEFAULTS",
    "GUIDES",
    "METHODS",
    "MODELS",
    "PRESETS",
    "REMOVALS",
    "RULES",
    "WIDE",
    "Budget",
    "Growth",
    "GuideEntry",
    "Method",
    "MethodConfig",
    "Pieces",
    "Plan",
    "assemble",
    "build",
    "discover",
    "found_skills",
    "looks_one_hot",
    "make_plan",
    "method_config",
    "options_in_use",
    "resolved_families",
    "varying_inputs",
]
