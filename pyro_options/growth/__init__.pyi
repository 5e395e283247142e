from .births import Birth, DataBirth, RandomBirth, SplitBirth
from .events import GrowthEvent, Move
from .growable import Growable, GrowableHeads, GrowableInput, growables
from .markers import Mark, growth_marks
from .removals import Merge, Prune, Removal
from .resizing import grow, merge, num_components, permute, prune, resize, reweight
from .rules import EvidenceRule, Never, Rule, TrialRule, UsageRule
from .scene import Newborns, Scene
from .snapshot import Snapshot
from .usage import Usage
from .verdict import Verdict

__all__ = [
    "Birth",
    "DataBirth",
    "EvidenceRule",
    "Growable",
    "GrowableHeads",
    "GrowableInput",
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
    "growables",
    "growth_marks",
    "merge",
    "num_components",
    "permute",
    "prune",
    "resize",
    "reweight",
]
