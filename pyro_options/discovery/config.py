"""The settings of a method, named methods, and presets for tasks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torch import nn

from pyro_options.errors import check, check_count, choice
from pyro_options.models.gem import GEM, Uniform
from pyro_options.nn.state_network import check_network
from pyro_options.persistence.checkpoint import plain

from .action_families import checked_families
from .capacity import AUTO
from .growth import GROWTH_FIELDS, Growth
from .registry import GUIDES, MODELS, WEIGHTS, guide_entry

PRIORS = ("gem", "truncated", "uniform")

STARTS = ("random", "stretches", "hard")


@dataclass(frozen=True)
class MethodConfig:
    """Model, guide, growth, prior, and their settings. :meth:`complete` replaces ``None`` by defaults.

    A model or a guide is a name, a module, or a function that makes one from
    :class:`~pyro_options.discovery.Pieces`. The defaults are chosen by measurement and differ from the paper's
    (docs/differences.md lists how).
    """

    model: Any = "options"  # a key of MODELS
    guide: Any = "exact"  # a key of GUIDES
    prior: Any = None  # gem, truncated, uniform (as in DDO) or a module; None is gem if K grows, else truncated
    growth: Growth = field(default_factory=Growth)
    num_options: int | None = None  # fixed K; None grows it
    point: bool = False  # a point estimate of the weights instead of a posterior
    alpha: float = 1.0  # initial concentration; it is learned
    alpha_prior: tuple[float, float] | None = None  # shape and rate of a Gamma prior; α then has a posterior
    discount: float = 0.0  # of a Pitman-Yor prior; 0, as in the paper, is a Dirichlet process
    stickiness: float = 0.0  # sticky options: initial weight of an option in its own row, which is learned; 0 for none
    termination_cost: float = 0.0  # nats per termination; higher values make options longer
    num_segments: int = 7  # CompILE: maximum per episode; the paper has 7 for Atari
    segment_length: float | None = None  # CompILE: Poisson mean; None is mean episode length / num_segments
    max_duration: int | None = None  # CompILE: steps that a skill lasts in an environment; the paper has 15
    hidden: tuple[int, ...] | str = ()  # widths of the shared state network; () is a linear layer per option, or "auto"
    network: Any = None  # instead of hidden: "cnn", a module, a function of the state shape, or "module:function"
    weight_scale: float | str | None = None  # standard deviation of a prior on the weights of options; None, or "auto"
    start: str | None = None  # "random", "stretches" of demonstrations, "hard" (besides restarts, one more training)
    skip_constant: bool = True  # ignore entries of the state that never vary in the data
    standardize: bool = True  # states and continuous actions, so that their units do not matter; not packed bits
    censored: bool = True  # continuous actions that saturate: an action at a bound has the probability of the tail
    action_families: Any = None  # of each action dimension, see resolved_families; None chooses by the data
    embedding: int | None = None  # units between states and LSTM; 0 (the paper's) for none; None is 12 for wide states
    lstm_size: int = 32
    encoder_hidden: tuple[int, ...] = (32, 32)
    lookahead: int = 8  # structured guides: at least as many exact steps ahead, beyond which the message is learned
    coupled: bool = True  # False samples h_t independently of b_t, as the paper's encoder does
    infer_first: bool = False  # infer b_0, which is 1, as the paper's encoder does
    random_columns: bool = False  # of the encoder, for a new option, as in the paper; by default they start at zero
    stick_jitter: float = 0.0  # standard deviation of log a and log b of a new stick; the paper's sticks are random

    def __post_init__(self) -> None:
        for name, known in (("model", MODELS), ("guide", GUIDES), ("prior", PRIORS)):
            value = getattr(self, name)
            if isinstance(value, str):
                choice(value, name, known)
            else:
                fits = value is None if name == "prior" and not isinstance(value, nn.Module) else callable(value)
                check(fits, f"{name} as a name, a module or a function that makes one", repr(value))
        check(isinstance(self.growth, Growth), "growth=Growth(...)", repr(self.growth))
        self._check_capacity()
        self._check_network()
        if self.start is not None:
            choice(self.start, "start", STARTS)
        fix = "Pass a tuple of widths such as (32, 32)."
        widths = self.encoder_hidden
        check(isinstance(widths, Sequence), "encoder_hidden as a tuple of widths", repr(widths), fix)
        object.__setattr__(self, "encoder_hidden", tuple(widths))
        object.__setattr__(self, "action_families", checked_families(self.action_families))
        if self.num_options is not None:
            check_count(self.num_options, "num_options")
        check_count(self.lstm_size, "lstm_size")
        check_count(self.lookahead, "lookahead", 0)
        check(0 <= self.termination_cost < math.inf, "a finite termination_cost >= 0", self.termination_cost)
        check(0 < self.alpha < math.inf, "a finite alpha > 0", self.alpha)
        check(0 <= self.stickiness < math.inf, "a finite stickiness >= 0", self.stickiness)
        check(0 <= self.stick_jitter < math.inf, "a finite stick_jitter >= 0", self.stick_jitter)
        check(self.embedding is None or self.embedding >= 0, "embedding >= 0", self.embedding)
        if self.alpha_prior is not None or self.discount:
            nonparametric = self.prior in (None, "gem") and self.num_options is None and not self.point
            check(nonparametric, "a nonparametric posterior", self.prior or "a fixed K", "Leave K open.")
        self._check_pair()
        if isinstance(self.model, str) and self.model in WEIGHTS:
            given = self.prior, self.alpha_prior, self.discount, self.point
            plain = given[0] in (None, "gem") and given[1:] == (None, 0.0, False)
            check(plain, f"the prior of the model {self.model!r} as it is", given, "Leave prior settings out.")
        if self.prior_name == "uniform":
            fixed = self.num_options is not None
            check(fixed, "num_options with uniform weights", None, "Uniform weights cannot grow.")

    def _check_capacity(self) -> None:
        fix = 'Pass a tuple of widths such as (64,), () for linear policies, or "auto".'
        if isinstance(self.hidden, str):
            check(self.hidden == AUTO, "hidden as widths", repr(self.hidden), fix)
        else:
            check(isinstance(self.hidden, Sequence), "hidden as a tuple of widths", repr(self.hidden), fix)
            object.__setattr__(self, "hidden", tuple(self.hidden))
        scale = self.weight_scale
        known = scale is None or scale == AUTO or (isinstance(scale, int | float) and 0 < scale < math.inf)
        check(known, 'a weight_scale > 0, None or "auto"', repr(scale))

    def _check_network(self) -> None:
        if self.network is None:
            return
        check_network(self.network)
        check(self.hidden == (), "hidden or a network", f"hidden = {self.hidden} and a network", "Leave hidden out.")
        reads = self.model in ("options", "sticky-options") if isinstance(self.model, str) else False
        check(reads, "a network with the models of options", repr(self.model), "Leave network out.")
        check(self.start != "stretches", 'start="random" with a network', repr(self.start), "Leave start out.")

    @property
    def searches(self) -> bool:
        """Whether a setting is left to the search for capacity."""
        return AUTO in (self.hidden, self.weight_scale)

    def _check_pair(self) -> None:
        """Checks that the guide is made for the model."""
        if isinstance(self.model, str):
            known = guide_entry(self.guide).models
            expected = f"a guide of the model {self.model!r}"
            check(self.model in known, expected, repr(self.guide), f"Pass model={known[0]!r}, or another guide.")

    @property
    def prior_name(self) -> str:
        """The kind of the prior over weights: ``gem`` (K may grow), ``truncated`` or ``uniform``."""
        if isinstance(self.prior, str):
            return self.prior
        if isinstance(self.prior, Uniform):
            return "uniform"
        if isinstance(self.model, str) and self.model in WEIGHTS:
            return "gem"
        if self.prior is not None:
            return "truncated" if getattr(self.prior, "remainder", False) else "gem"
        return "gem" if self.num_options is None else "truncated"

    def prior_module(self) -> str | nn.Module:
        """The prior over weights: a name, or a module if ``alpha_prior`` or ``discount`` is set."""
        if isinstance(self.prior, nn.Module):
            return self.prior
        if self.alpha_prior is None and not self.discount:
            return self.prior_name
        return GEM(self.alpha, discount=self.discount, alpha_prior=self.alpha_prior)

    def complete(self) -> "MethodConfig":
        """The same settings with ``None`` replaced by the defaults of the guide and the rule."""
        prior = self.prior_name if self.prior is None else self.prior
        return replace(self, prior=prior, growth=self.growth.complete(guide_entry(self.guide).rule))

    @property
    def may_imitate(self) -> bool:
        """Whether options may start from stretches of demonstrations without being told to, if actions are real."""
        return self.may_be_born_from_stretches and self.guide == "exact" and self.prior_name != "uniform"

    @property
    def may_be_born_from_stretches(self) -> bool:
        """Whether new options can imitate stretches of demonstrations."""
        return self.model == "options" and self.network is None

    def to_dict(self) -> dict[str, Any]:
        """All settings as JSON values; objects become their type and settings."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}


#: named methods: fields of :class:`MethodConfig` that differ from its defaults
METHODS: dict[str, dict[str, Any]] = {
    "options-exact": {"guide": "exact"},
    "options-hard": {"guide": "hard"},
    "options": {"guide": "relaxed"},
    "options-paper": {"guide": "paper"},
    "options-relaxed-marginal": {"guide": "relaxed-marginal"},
    "options-score-function": {"guide": "score-function"},
    "options-straight-through": {"guide": "straight-through"},
    "options-point": {"guide": "relaxed", "point": True},
    "options-sticky": {"model": "sticky-options", "guide": "exact"},
    "ddo": {"guide": "exact", "prior": "uniform"},
    "compile": {"model": "segments", "guide": "segments", "prior": "uniform"},
    "compile-np": {"model": "segments", "guide": "segments"},
    "bc": {"guide": "exact", "prior": "uniform", "num_options": 1},
    "bc-deep": {"guide": "exact", "prior": "uniform", "num_options": 1, "hidden": (64, 64)},
}

#: settings of a task, for ``preset=`` of :func:`build` and :func:`~pyro_options.discover`: ours for the message task,
#: and those of the CompILE baseline for Atari and for integer sequences. For ``paper`` see :func:`paper_settings`
PRESETS: dict[str, dict[str, Any]] = {
    "message": {"hidden": (16, 16), "skip_constant": False, "standardize": False, "rule": "evidence"},
    "compile-atari": {"num_segments": 7, "max_duration": 15, "hidden": ()},
    "compile-integers": {"num_segments": 3, "segment_length": 3.0, "hidden": ()},
}

#: the method of :func:`~pyro_options.discover` if neither a method nor a model, guide or prior is given
DEFAULT_METHOD = "options-exact"


def method_config(method: str | None = None, **config: Any) -> MethodConfig:
    """The complete settings of a method.

    :param method: a key of :data:`METHODS`, whose settings ``config`` must not contradict; ``None`` for a method that
        ``config`` alone describes
    :param config: fields of :class:`MethodConfig`, and of :class:`Growth` as a shorthand for ``growth=Growth(...)``
    """
    fixed = {} if method is None else METHODS[choice(method, "method", METHODS)]
    own = [f.name for f in fields(MethodConfig)]
    for key, given in config.items():
        choice(key, "every setting", [*own, *GROWTH_FIELDS])
        expected = fixed.get(key, given)
        same = key not in fixed or given is None or _same(expected, given)
        check(same, f"{key} = {expected!r}, as the method {method!r} has it,", repr(given), f"Leave {key} out.")
    settings = {key: value for key, value in config.items() if key in own} | fixed
    short: Mapping[str, Any] = {key: value for key, value in config.items() if key in GROWTH_FIELDS}
    if short:
        check("growth" not in config, "growth=Growth(...) or its settings", f"both growth and {', '.join(short)}")
        settings["growth"] = Growth(**short)
    return MethodConfig(**settings).complete()


def _same(expected: Any, given: Any) -> bool:
    if isinstance(given, list):
        given = tuple(given)
    return expected is given or (isinstance(given, type(expected)) and bool(expected == given))
