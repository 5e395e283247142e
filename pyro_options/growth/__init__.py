"""Changing the number of components: when (rules), how (births), and the surgery itself (resize)."""

from .births import Birth, DataBirth, RandomBirth, SplitBirth
from .newborns import Newborns
from .resize import grow, num_components, permute, prune, resize
from .rules import EvidenceRule, Never, Rule, UsageRule
from .snapshot import Snapshot
from .usage import Usage

__all__ = [
    "Birth",
    "DataBirth",
    "EvidenceRule",
    "Never",
    "Newborns",
    "RandomBirth",
    "Rule",
    "Snapshot",
    "SplitBirth",
    "Usage",
    "UsageRule",
    "grow",
    "num_components",
    "permute",
    "prune",
    "resize",
]
