"""Changing the number of components: when (rules), how (births, removals), and the surgery itself (resize)."""

from .births import Birth, DataBirth, RandomBirth, SplitBirth
from .events import GrowthEvent, Move
from .marks import Mark, growth_marks
from .removals import Merge, Prune, Removal
from .resize import grow, merge, num_components, permute, prune, resize, reweight
from .rules import EvidenceRule, Never, Rule, TrialRule, UsageRule
from .scene import Newborns, Scene
from .snapshot import Snapshot
from .usage import Usage
from .verdict import Verdict

__all__ = [
    "Birth",
    "DataBirth",
    "EvidenceRule",
    "GrowthEvent",
    "Mark",
    "Merge",
    "Move",
    "Never",
    "Newborns",
    "Prune",
    "RandomBirth",
    "Removal",
    "Rule",
    "Scene",
    "Snapshot",
    "SplitBirth",
    "TrialRule",
    "Usage",
    "UsageRule",
    "Verdict",
    "grow",
    "growth_marks",
    "merge",
    "num_components",
    "permute",
    "prune",
    "resize",
    "reweight",
]
