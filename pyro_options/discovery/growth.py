"""Settings of growth: rule, birth and removals, by name or as objects, and the defaults of each rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from pyro_options.errors import check, check_count, choice
from pyro_options.growth.births import Birth, DataBirth, RandomBirth, SplitBirth
from pyro_options.growth.removals import Merge, Prune, Removal
from pyro_options.growth.rules import EvidenceRule, Rule, TrialRule, UsageRule

from .stretch_birth import StretchBirth

#: rules, which decide when to grow, by name
RULES: dict[str, Callable[[], Rule]] = {
    "usage": UsageRule,
    "posterior-usage": lambda: UsageRule(measure="posterior"),
    "evidence": EvidenceRule,
    "trial": TrialRule,
}

#: births, which initialize a new option, by name; the argument is the maximum number of episodes to fit it to
BIRTHS: dict[str, Callable[[int], Birth]] = {
    "random": lambda max_rows: RandomBirth(),
    "split": lambda max_rows: SplitBirth(),
    "halve": lambda max_rows: SplitBirth(halve=True),
    "data": lambda max_rows: DataBirth(max_rows=max_rows),
    "stretches": lambda max_rows: StretchBirth(),
}

#: removals by name; the argument is the maximum number of episodes to fit a merged option to
REMOVALS: dict[str, Callable[[int], Removal]] = {
    "prune": lambda max_rows: Prune(),
    "merge": lambda max_rows: Merge(fit_rows=2 * max_rows),
}


@dataclass(frozen=True)
class Growth:
    """How K grows. ``None`` is the rule's default (for ``rule``, the guide's), see :meth:`complete`.

    :param rule: decides when to grow: a key of :data:`RULES`, or an object such as ``UsageRule(0.25)``
    :param birth: initializes a new option: a key of :data:`BIRTHS`, or an object
    :param removals: remove options: keys of :data:`REMOVALS`, or objects; ``()`` for no removals
    :param check_every: optimizer steps between growth checks; a sixth of the training if the rule has no default
    :param patience: checks without a change double the interval, up to ``patience`` times ``check_every``
    :param settle: no births in the last ``settle`` times ``check_every`` steps of the training
    :param initial_options: initial K
    :param max_options: maximum of K
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
        """The same settings with ``None`` replaced by defaults; :attr:`check_every` stays ``None`` with ``trial``.

        :param rule: the default rule
        """
        chosen = rule if self.rule is None else self.rule
        defaults = GROWTH_DEFAULTS[chosen] if isinstance(chosen, str) else _defaults_of(chosen)
        missing = {name: value for name, value in vars(defaults).items() if getattr(self, name) is None}
        if "initial_options" in missing:
            missing["initial_options"] = min(missing["initial_options"], self.max_options)
        found = replace(self, **missing | {"rule": chosen})
        return replace(found, rule=TrialRule(MANY_BIRTHS)) if chosen == "trial" and found.starts_with_few else found

    @property
    def starts_with_few(self) -> bool:
        """Whether K starts so low, and is doubled so rarely, that births must do what a start with several does."""
        return self.judges_after_training and self.initial_options is not None and self.initial_options < FEW

    @property
    def judges_after_training(self) -> bool:
        """Whether births are judged after training them, on episodes that are not trained on."""
        return self.rule == "trial" or isinstance(self.rule, TrialRule)


#: K below which ``trial`` starts with few options, and the births of each check as a multiple of K from there: a few
#: checks must then find what many initial options would
FEW = 4
MANY_BIRTHS = 7.0

#: defaults of each rule, chosen by measurement on the message task (``trial``: on Breakout). ``evidence`` refuses
#: useless births, so it can check often; the paper's usage rules keep every birth. ``trial`` starts with many options:
#: untrained options tend to specialize on behaviours, copies of a trained one on episodes. Its births are ``stretches``
#: if options start from stretches, and from :data:`FEW` with an amortized guide, else ``halve``
GROWTH_DEFAULTS = {
    "usage": Growth(None, "split", (), 80, 1, 1, 1),
    "posterior-usage": Growth(None, "split", (), 80, 1, 1, 1),
    "evidence": Growth(None, "data", ("prune",), 40, 8, 1, 1),
    "trial": Growth(None, None, ("prune", "merge"), None, 2, 3, 16),
}

#: names of the settings of :class:`Growth`
GROWTH_FIELDS = tuple(field.name for field in fields(Growth))


def _defaults_of(rule: Rule) -> Growth:
    """Defaults of the named rule of the same type; those of ``evidence`` for a user's own rule."""
    for name, make in RULES.items():
        if type(make()) is type(rule):
            return GROWTH_DEFAULTS[name]
    return GROWTH_DEFAULTS["evidence"]
