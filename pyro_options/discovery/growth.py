"""How K grows: rule, birth and removals, by name or as objects, and the defaults that go with each rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from pyro_options.errors import check, check_count, choice
from pyro_options.growth.births import Birth, DataBirth, RandomBirth, SplitBirth
from pyro_options.growth.removals import Merge, Prune, Removal
from pyro_options.growth.rules import EvidenceRule, Rule, TrialRule, UsageRule

#: when to grow, by name
RULES: dict[str, Callable[[], Rule]] = {
    "usage": UsageRule,
    "posterior-usage": lambda: UsageRule(measure="posterior"),
    "evidence": EvidenceRule,
    "trial": TrialRule,
}

#: how an option starts, by name, given the number of episodes to fit at most
BIRTHS: dict[str, Callable[[int], Birth]] = {
    "random": lambda max_rows: RandomBirth(),
    "split": lambda max_rows: SplitBirth(),
    "halve": lambda max_rows: SplitBirth(halve=True),
    "data": lambda max_rows: DataBirth(max_rows=max_rows),
}

#: how an option is removed, by name, given the number of episodes to fit at most
REMOVALS: dict[str, Callable[[int], Removal]] = {
    "prune": lambda max_rows: Prune(),
    "merge": lambda max_rows: Merge(fit_rows=max_rows),
}


@dataclass(frozen=True)
class Growth:
    """How K grows. ``None`` is the default of the rule, and for the rule that of the guide; see :meth:`complete`.

    :param rule: when to grow: a key of :data:`RULES`, or an object such as ``UsageRule(0.25)``
    :param birth: how an option starts: a key of :data:`BIRTHS`, or an object
    :param removals: how options are removed: keys of :data:`REMOVALS`, or objects; ``()`` for not at all
    :param check_every: optimizer steps between growth checks; where the rule has no default, a sixth of the training
    :param patience: how rare checks become that come to nothing, see :class:`~pyro_options.handlers.GrowthMessenger`
    :param settle: checks before the end at which nothing is born any more
    :param initial_options: K to start from
    :param max_options: K never exceeds it
    """

    rule: str | Rule | None = None
    birth: str | Birth | None = None
    removals: Sequence[str | Removal] | None = None
    check_every: int | None = None
    patience: int | None = None
    settle: int | None = None
    initial_options: int | None = None
    max_options: int = 100

    def __post_init__(self) -> None:
        if isinstance(self.rule, str):
            choice(self.rule, "rule", RULES)
        if isinstance(self.birth, str):
            choice(self.birth, "birth", BIRTHS)
        for removal in self.removals or ():
            if isinstance(removal, str):
                choice(removal, "removal", REMOVALS)
        if self.removals is not None:
            object.__setattr__(self, "removals", tuple(self.removals))
        for name in ("check_every", "patience", "initial_options", "max_options"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)
        if self.settle is not None:
            check_count(self.settle, "settle", 0)
        enough = self.initial_options is None or self.initial_options <= self.max_options
        check(enough, f"initial_options <= max_options = {self.max_options}", self.initial_options)

    def complete(self, rule: str) -> "Growth":
        """Every default filled in but that of :attr:`check_every` for a rule that has none.

        :param rule: the rule if none was chosen
        """
        chosen = rule if self.rule is None else self.rule
        defaults = GROWTH_DEFAULTS[chosen] if isinstance(chosen, str) else _defaults_of(chosen)
        missing = {name: value for name, value in vars(defaults).items() if getattr(self, name) is None}
        if "initial_options" in missing:
            missing["initial_options"] = min(missing["initial_options"], self.max_options)
        return replace(self, **missing | {"rule": chosen})

    @property
    def judges_after_training(self) -> bool:
        """Whether births are judged once they have trained, which takes episodes that nothing is trained on."""
        return self.rule == "trial" or isinstance(self.rule, TrialRule)


#: what goes with a rule unless told otherwise, chosen by measurement: on the message task, for ``trial`` on Breakout.
#: A rule that refuses can try often; the paper's cannot take back what it gave; one that tries starts with several
#: options, since options that are all weak tend to part by what they do, and copies of one that is strong by episode
GROWTH_DEFAULTS = {
    "usage": Growth(None, "split", (), 80, 1, 1, 1),
    "posterior-usage": Growth(None, "split", (), 80, 1, 1, 1),
    "evidence": Growth(None, "data", ("prune",), 40, 8, 1, 1),
    "trial": Growth(None, "halve", ("prune", "merge"), None, 2, 3, 16),
}

#: names of the settings of :class:`Growth`
GROWTH_FIELDS = tuple(field.name for field in fields(Growth))


def _defaults_of(rule: Rule) -> Growth:
    """Those of the named rule of the same type; of ``evidence`` for a rule of the user's own."""
    for name, make in RULES.items():
        if type(make()) is type(rule):
            return GROWTH_DEFAULTS[name]
    return GROWTH_DEFAULTS["evidence"]
