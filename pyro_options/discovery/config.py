"""What methods are made of, by the names that settings and command lines take."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pyro_options.errors import check, check_count, choice
from pyro_options.growth.births import Birth, DataBirth, RandomBirth, SplitBirth
from pyro_options.growth.removals import Merge, Prune, Removal
from pyro_options.growth.rules import EvidenceRule, Rule, TrialRule, UsageRule
from pyro_options.guides.amortized import Relaxed, ScoreFunction, StraightThrough
from pyro_options.guides.exact import Exact
from pyro_options.guides.segments import RelaxedSegments

#: every guide by the name that a command line takes
GUIDES = {
    "relaxed": Relaxed,
    "exact": Exact,
    "score-function": ScoreFunction,
    "straight-through": StraightThrough,
    "segments": RelaxedSegments,
}

#: when to grow, given δ
RULES: dict[str, Callable[[float], Rule]] = {
    "usage": UsageRule,
    "posterior-usage": lambda delta: UsageRule(delta, measure="posterior"),
    "evidence": lambda delta: EvidenceRule(),
    "trial": lambda delta: TrialRule(),
}

#: how an option starts, given the learning rate of births that are fitted, and the episodes to fit
BIRTHS: dict[str, Callable[[float, int], Birth]] = {
    "random": lambda learning_rate, max_rows: RandomBirth(),
    "split": lambda learning_rate, max_rows: SplitBirth(),
    "halve": lambda learning_rate, max_rows: SplitBirth(halve=True),
    "data": lambda learning_rate, max_rows: DataBirth(learning_rate=learning_rate, max_rows=max_rows),
}

#: how an option goes, given the episodes to fit
REMOVALS: dict[str, Callable[[int], Removal]] = {
    "prune": lambda max_rows: Prune(),
    "merge": lambda max_rows: Merge(fit_rows=max_rows),
}


@dataclass(frozen=True)
class GrowthDefaults:
    """What goes with a rule unless told otherwise; chosen by measurement on the message task, trial on Breakout."""

    birth: str
    removals: tuple[str, ...]
    check_every: int  # optimizer steps between checks
    patience: int  # see GrowthMessenger
    settle: int = 1  # the same
    initial_options: int = 1


#: a rule that refuses can try often; the paper's cannot take back what it gave; one that tries starts with several,
#: since options that are all weak tend to part by what they do, and copies of one that is strong by episode
GROWTH_DEFAULTS = {
    "usage": GrowthDefaults("split", (), 80, 1),
    "posterior-usage": GrowthDefaults("split", (), 80, 1),
    "evidence": GrowthDefaults("data", ("prune",), 40, 8),
    "trial": GrowthDefaults("halve", ("prune", "merge"), 350, 2, settle=3, initial_options=16),
}


@dataclass(frozen=True)
class TrainDefaults:
    """How long a guide takes, the entropy regularizer and the rule that it needs; chosen by measurement."""

    entropy_weight: float = 5.0  # λ_ent
    epochs: int = 100
    max_learning_rate: float = math.inf  # that its encoder bears, where linear policies would take more
    rule: str = "evidence"  # for discovery; where an encoder has to learn first, a trial is over too soon


#: with the path summed out there is no encoder to keep from settling early
TRAIN_DEFAULTS = {name: TrainDefaults() for name in GUIDES} | {
    "exact": TrainDefaults(entropy_weight=0.0, rule="trial"),
    "segments": TrainDefaults(max_learning_rate=2e-2),
}


@dataclass(frozen=True)
class MethodConfig:
    """What a method is made of. The defaults are the paper's for its proof-of-concept task."""

    guide: str = "relaxed"  # relaxed, exact, score-function, straight-through, or segments (CompILE)
    num_options: int | None = None  # fixed K; None grows it from initial_options
    initial_options: int = 0  # 0 is the rule's default
    max_options: int = 100
    uniform: bool = False  # no stick-breaking prior: every option equally likely, as in DDO
    point: bool = False  # a point estimate of the weights instead of a posterior
    alpha: float = 1.0  # initial concentration, which is learned
    alpha_prior: tuple[float, float] | None = None  # shape and rate of a Gamma prior; α then has a posterior
    discount: float = 0.0  # of Pitman-Yor sticks; 0 is the paper's
    termination_cost: float = 0.0  # nats for each termination; more makes options longer
    num_segments: int = 7  # CompILE: at most so many in an episode; 7 is the paper's for Atari
    segment_length: float | None = None  # CompILE: mean of the Poisson lengths; None shares episodes out evenly
    max_duration: int | None = None  # CompILE: steps that its skills last in an environment; 15 is the paper's
    hidden: tuple[int, ...] = (16, 16)  # shared state network; () is a linear layer per option
    skip_constant: bool = False  # leave out entries of a state that never vary in the data
    embedding: int | None = None  # units between states and LSTM; 0 for none, as in the paper; None is 12 if wide
    lstm_size: int = 32
    encoder_hidden: tuple[int, ...] = (32, 32)
    coupled: bool = True  # False draws h_t independently of b_t, as the paper's encoder does
    rule: str = "evidence"  # or trial, usage (the paper's) or posterior-usage
    delta: float = 0.5
    birth: str = ""  # random (the paper's), split, halve or data; "" is the rule's default
    birth_learning_rate: float = 0.1  # of births from data
    removals: tuple[str, ...] | None = None  # prune and merge; None is the rule's default
    check_every: int = 0  # optimizer steps between growth checks; 0 is the rule's default
    patience: int = 0  # how rare checks become that come to nothing; 0 is the rule's default

    def __post_init__(self) -> None:
        choice(self.guide, "guide", GUIDES)
        choice(self.rule, "rule", RULES)
        defaults = GROWTH_DEFAULTS[self.rule]
        for name in ("birth", "check_every", "patience"):
            if not getattr(self, name):
                object.__setattr__(self, name, getattr(defaults, name))
        if self.removals is None:
            object.__setattr__(self, "removals", defaults.removals)
        choice(self.birth, "birth", BIRTHS)
        for name in self.removals or ():
            choice(name, "removal", REMOVALS)
        for name in ("num_options", "max_options", "check_every", "patience", "lstm_size"):
            if name != "num_options" or self.num_options is not None:
                check_count(getattr(self, name), name)
        check_count(self.initial_options, "initial_options", 0)
        if not self.initial_options:
            object.__setattr__(self, "initial_options", min(defaults.initial_options, self.max_options))
        check(0 <= self.termination_cost < math.inf, "a finite termination_cost >= 0", self.termination_cost)
        check(0 < self.alpha < math.inf, "a finite alpha > 0", self.alpha)
        check(0 < self.delta < 1, "delta in (0, 1)", self.delta)
        check(0 < self.birth_learning_rate < math.inf, "birth_learning_rate > 0", self.birth_learning_rate)
        check(self.embedding is None or self.embedding >= 0, "embedding >= 0", self.embedding)
        if self.alpha_prior is not None or self.discount:
            check(self.prior == "gem" and not self.point, "a nonparametric posterior", self.prior, "Leave K open.")
        if self.uniform:
            check(
                self.num_options is not None, "num_options with uniform weights", None, "Uniform weights cannot grow."
            )

    @property
    def prior(self) -> str:
        """The prior over weights: ``gem`` if K grows, else ``truncated`` or ``uniform``."""
        if self.uniform:
            return "uniform"
        return "gem" if self.num_options is None else "truncated"


#: named methods, as changes to a :class:`MethodConfig`
METHODS: dict[str, dict] = {
    "options": {"guide": "relaxed"},
    "options-exact": {"guide": "exact"},
    "options-score-function": {"guide": "score-function"},
    "options-straight-through": {"guide": "straight-through"},
    "options-point": {"guide": "relaxed", "point": True},
    "ddo": {"guide": "exact", "uniform": True},
    "compile": {"guide": "segments", "uniform": True},
    "compile-np": {"guide": "segments"},
    "bc": {"guide": "exact", "uniform": True, "num_options": 1},
    "bc-deep": {"guide": "exact", "uniform": True, "num_options": 1, "hidden": (64, 64)},
}

#: settings of CompILE, for its name and a :class:`MethodConfig`: the paper's for Atari, and for integer sequences
SEGMENT_PRESETS: dict[str, dict] = {
    "atari": {"num_segments": 7, "max_duration": 15, "hidden": ()},
    "integers": {"num_segments": 3, "segment_length": 3.0, "hidden": ()},
}


def named_config(name: str, config: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> MethodConfig:
    """The method called ``name`` with these settings, none of which may differ from what the name says.

    :param defaults: of settings that are in neither
    """
    fixed = METHODS[choice(name, "method", METHODS)]
    for key, given in config.items():
        choice(key, "every setting", [field.name for field in fields(MethodConfig)])
        own = fixed.get(key, given)
        same = given is None or own == (tuple(given) if isinstance(given, list) else given)
        check(same, f"{key} = {own!r}, as the method {name!r} has it,", repr(given), f"Leave {key} out.")
    return MethodConfig(**{**(defaults or {}), **config, **fixed})
