"""What a method is made of, and the methods that have a name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torch import nn

from pyro_options.errors import check, check_count, choice
from pyro_options.models.gem import GEM, Uniform
from pyro_options.persistence.checkpoint import plain

from .growth import GROWTH_FIELDS, Growth
from .registry import GUIDES, MODELS, guide_entry

PRIORS = ("gem", "truncated", "uniform")


@dataclass(frozen=True)
class MethodConfig:
    """Model × guide × growth × prior, and their settings. :meth:`complete` fills in what is ``None``.

    A model or a guide is a name, a module, or a function of :class:`~pyro_options.discovery.Pieces` that makes one.
    """

    model: Any = "options"  # a key of MODELS
    guide: Any = "exact"  # a key of GUIDES
    prior: Any = None  # gem, truncated, uniform (as in DDO) or a module; None is gem if K grows, else truncated
    growth: Growth = field(default_factory=Growth)
    num_options: int | None = None  # fixed K; None grows it
    point: bool = False  # a point estimate of the weights instead of a posterior
    alpha: float = 1.0  # initial concentration, which is learned
    alpha_prior: tuple[float, float] | None = None  # shape and rate of a Gamma prior; α then has a posterior
    discount: float = 0.0  # of Pitman-Yor sticks; 0 is the paper's
    termination_cost: float = 0.0  # nats for each termination; more makes options longer
    num_segments: int = 7  # CompILE: at most so many in an episode; 7 is the paper's for Atari
    segment_length: float | None = None  # CompILE: mean of the Poisson lengths; None shares episodes out evenly
    max_duration: int | None = None  # CompILE: steps that its skills last in an environment; 15 is the paper's
    hidden: tuple[int, ...] = ()  # widths of the shared state network; () is a linear layer per option
    skip_constant: bool = True  # leave out entries of a state that never vary in the data
    embedding: int | None = None  # units between states and LSTM; 0 for none, as in the paper; None is 12 if wide
    lstm_size: int = 32
    encoder_hidden: tuple[int, ...] = (32, 32)
    coupled: bool = True  # False draws h_t independently of b_t, as the paper's encoder does

    def __post_init__(self) -> None:
        for name, known in (("model", MODELS), ("guide", GUIDES), ("prior", PRIORS)):
            value = getattr(self, name)
            if isinstance(value, str):
                choice(value, name, known)
            else:
                fits = value is None if name == "prior" and not isinstance(value, nn.Module) else callable(value)
                check(fits, f"{name} as a name, a module or a function that makes one", repr(value))
        check(isinstance(self.growth, Growth), "growth=Growth(...)", repr(self.growth))
        object.__setattr__(self, "hidden", tuple(self.hidden))
        object.__setattr__(self, "encoder_hidden", tuple(self.encoder_hidden))
        if self.num_options is not None:
            check_count(self.num_options, "num_options")
        check_count(self.lstm_size, "lstm_size")
        check(0 <= self.termination_cost < math.inf, "a finite termination_cost >= 0", self.termination_cost)
        check(0 < self.alpha < math.inf, "a finite alpha > 0", self.alpha)
        check(self.embedding is None or self.embedding >= 0, "embedding >= 0", self.embedding)
        if self.alpha_prior is not None or self.discount:
            nonparametric = self.prior in (None, "gem") and self.num_options is None and not self.point
            check(nonparametric, "a nonparametric posterior", self.prior or "a fixed K", "Leave K open.")
        self._check_pair()
        if self.prior_name == "uniform":
            fixed = self.num_options is not None
            check(fixed, "num_options with uniform weights", None, "Uniform weights cannot grow.")

    def _check_pair(self) -> None:
        """A guide must be a posterior of the model."""
        if isinstance(self.model, str):
            known = guide_entry(self.guide).models
            expected = f"a guide of the model {self.model!r}"
            check(self.model in known, expected, repr(self.guide), f"Pass model={known[0]!r}, or another guide.")

    @property
    def prior_name(self) -> str:
        """The kind of the prior: ``gem`` if K may grow under it, ``truncated`` or ``uniform``."""
        if isinstance(self.prior, str):
            return self.prior
        if isinstance(self.prior, Uniform):
            return "uniform"
        if self.prior is not None:
            return "truncated" if getattr(self.prior, "remainder", False) else "gem"
        return "gem" if self.num_options is None else "truncated"

    def prior_module(self) -> str | nn.Module:
        """The prior over weights, by name unless it has settings of its own."""
        if isinstance(self.prior, nn.Module):
            return self.prior
        if self.alpha_prior is None and not self.discount:
            return self.prior_name
        return GEM(self.alpha, discount=self.discount, alpha_prior=self.alpha_prior)

    def complete(self) -> "MethodConfig":
        """The same with the defaults of the guide and of the rule filled in."""
        prior = self.prior_name if self.prior is None else self.prior
        return replace(self, prior=prior, growth=self.growth.complete(guide_entry(self.guide).rule))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, for JSON; objects by their names and settings."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}


#: named methods, as changes to a :class:`MethodConfig`
METHODS: dict[str, dict[str, Any]] = {
    "options": {"guide": "relaxed"},
    "options-exact": {"guide": "exact"},
    "options-score-function": {"guide": "score-function"},
    "options-straight-through": {"guide": "straight-through"},
    "options-point": {"guide": "relaxed", "point": True},
    "ddo": {"guide": "exact", "prior": "uniform"},
    "compile": {"model": "segments", "guide": "segments", "prior": "uniform"},
    "compile-np": {"model": "segments", "guide": "segments"},
    "bc": {"guide": "exact", "prior": "uniform", "num_options": 1},
    "bc-deep": {"guide": "exact", "prior": "uniform", "num_options": 1, "hidden": (64, 64)},
}

#: settings for a task, for a method's name and a :class:`MethodConfig`: CompILE as the paper has it for Atari and for
#: integer sequences, and what the message task is solved with
PRESETS: dict[str, dict[str, Any]] = {
    "message": {"hidden": (16, 16), "skip_constant": False, "rule": "evidence"},
    "compile-atari": {"num_segments": 7, "max_duration": 15, "hidden": ()},
    "compile-integers": {"num_segments": 3, "segment_length": 3.0, "hidden": ()},
}

#: the method of :func:`~pyro_options.discover` if neither a name nor a part of one is given
DEFAULT_METHOD = "options-exact"


def method_config(method: str | None = None, **config: Any) -> MethodConfig:
    """The settings of a method, complete.

    :param method: a key of :data:`METHODS`, none of whose settings ``config`` may change; ``None`` for what the
        settings alone describe
    :param config: fields of :class:`MethodConfig`, and of :class:`Growth` as a shorthand for ``growth=Growth(...)``
    """
    fixed = {} if method is None else METHODS[choice(method, "method", METHODS)]
    own = [f.name for f in fields(MethodConfig)]
    for key, given in config.items():
        choice(key, "every setting", [*own, *GROWTH_FIELDS])
        expected = fixed.get(key, given)
        same = given is None or _same(expected, given)
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
