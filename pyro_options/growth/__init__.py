"""Changing the number of components: when (rules), how (births), and the surgery itself (resize)."""

from .births import Birth, DataBirth, Newborns, RandomBirth, SplitBirth
from .resize import grow, num_components, permute, prune, resize
from .rules import Never, Rule, UsageRule

__all__ = [
    "Birth",
    "DataBirth",
    "Never",
    "Newborns",
    "RandomBirth",
    "Rule",
    "SplitBirth",
    "UsageRule",
    "grow",
    "num_components",
    "permute",
    "prune",
    "resize",
]
