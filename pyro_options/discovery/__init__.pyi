from .action_families import FAMILIES, looks_one_hot, resolved_families
from .assembly import CHECKS, Method, Plan, assemble, build, make_plan
from .budget import Budget, varying_inputs
from .config import DEFAULT_METHOD, METHODS, PRESETS, MethodConfig, method_config
from .growth import BIRTHS, GROWTH_DEFAULTS, REMOVALS, RULES, Growth
from .hard_search import bic_price, hard_options
from .outcome import found_skills, options_in_use
from .presets import PAPER_GUIDE, Settings, paper_settings, with_preset
from .registry import GUIDES, MODELS, WIDE, GuideEntry, Pieces
from .run import discover

__all__ = [
    "BIRTHS",
    "CHECKS",
    "DEFAULT_METHOD",
    "FAMILIES",
    "GROWTH_DEFAULTS",
    "GUIDES",
    "METHODS",
    "MODELS",
    "PAPER_GUIDE",
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
    "Settings",
    "assemble",
    "bic_price",
    "build",
    "discover",
    "found_skills",
    "hard_options",
    "looks_one_hot",
    "make_plan",
    "method_config",
    "options_in_use",
    "paper_settings",
    "resolved_families",
    "varying_inputs",
    "with_preset",
]
