from .births import Birth, DataBirth, RandomBirth, SplitBirth
from .contracts import (
    Batched,
    CollapsibleModel,
    ComponentLikelihood,
    ComponentSampler,
    EstimatingGuide,
    GrowableGuide,
    GrowableLayer,
    MarginalEstimate,
    Marginalizable,
    Masked,
    Maximizable,
    StepAveraged,
    StepwiseGuide,
    StepwisePosterior,
    Tempered,
    TransitionWeights,
    Weighable,
    WeightsPosterior,
    fulfills,
)
from .events import GrowthEvent, Move
from .growable import Growable, GrowableHeads, GrowableInput, ZeroHeads, growables
from .markers import GrowthMarker, growth_markers
from .removals import Merge, Prune, Removal
from .resizing import grow, merge, num_components, permute, prune, resize, reweight
from .rules import EvidenceRule, Never, Rule, TrialRule, UsageRule
from .scene import Newborns, Scene
from .snapshot import Snapshot
from .usage import Usage
from .verdict import Verdict
from .workers import Workers

__all__ = [
    "Batched",
    "Birth",
    "CollapsibleModel",
    "ComponentLikelihood",
    "ComponentSampler",
    "DataBirth",
    "EstimatingGuide",
    "EvidenceRule",
    "Growable",
    "GrowableGuide",
    "GrowableHeads",
    "GrowableInput",
    "GrowableLayer",
    "GrowthEvent",
    "GrowthMarker",
    "MarginalEstimate",
    "Marginalizable",
    "Masked",
    "Maximizable",
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
    "StepAveraged",
    "StepwiseGuide",
    "StepwisePosterior",
    "Tempered",
    "TransitionWeights",
    "TrialRule",
    "Usage",
    "UsageRule",
    "Verdict",
    "Weighable",
    "WeightsPosterior",
    "Workers",
    "ZeroHeads",
    "fulfills",
    "grow",
    "growables",
    "growth_markers",
    "merge",
    "num_components",
    "permute",
    "prune",
    "resize",
    "reweight",
]
