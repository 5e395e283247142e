"""The one registry of named methods: a model, a guide and a growth handler for given data.

Models and guides know nothing of each other; this is where they are put together.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyro.nn import PyroModule
from torch import nn

from pyro_options.data import Trajectories
from pyro_options.errors import check, choice
from pyro_options.growth import Birth, DataBirth, EvidenceRule, RandomBirth, Rule, SplitBirth, UsageRule
from pyro_options.guides import Exact, Relaxed, ScoreFunction, StraightThrough, weights_guide
from pyro_options.handlers import GrowthMessenger
from pyro_options.models import OptionHMM
from pyro_options.nn import CategoricalPolicy, GaussianPolicy, PathEncoder, Termination, VaryingInputs, mlp

#: every guide by the name that a command line takes
GUIDES = {
    "relaxed": Relaxed,
    "exact": Exact,
    "score-function": ScoreFunction,
    "straight-through": StraightThrough,
}

#: when to grow, given δ
RULES: dict[str, Callable[[float], Rule]] = {
    "usage": UsageRule,
    "posterior-usage": lambda delta: UsageRule(delta, measure="posterior"),
    "evidence": lambda delta: EvidenceRule(),
}

#: how an option starts
BIRTHS: dict[str, Callable[[], Birth]] = {"random": RandomBirth, "split": SplitBirth, "data": DataBirth}


@dataclass(frozen=True)
class GrowthDefaults:
    """How a guide grows unless told otherwise; chosen by measurement on the message task."""

    rule: str = "usage"
    birth: str = "split"
    check_every: int = 10
    entropy_weight: float = 5.0  # λ_ent that goes with it
    epochs: int = 300


#: with the path summed out the evidence is exact and needs no regularizer; encoders do best with the paper's rule
GROWTH_DEFAULTS = {name: GrowthDefaults() for name in GUIDES} | {
    "exact": GrowthDefaults("evidence", "data", check_every=5, entropy_weight=0.0, epochs=100)
}


@dataclass(frozen=True)
class MethodConfig:
    """What a method is made of. The defaults are the paper's for its proof-of-concept task."""

    guide: str = "relaxed"  # relaxed, exact, score-function or straight-through
    num_options: int | None = None  # fixed K; None grows it from initial_options
    initial_options: int = 1
    max_options: int = 100
    uniform: bool = False  # no stick-breaking prior: every option equally likely, as in DDO
    point: bool = False  # a point estimate of the weights instead of a posterior
    alpha: float = 1.0
    termination_cost: float = 0.0  # nats for each termination; more makes options longer
    hidden: tuple[int, ...] = (16, 16)  # shared state network; () is a linear layer per option
    skip_constant: bool = False  # leave out entries of a state that never vary in the data
    lstm_size: int = 32
    encoder_hidden: tuple[int, ...] = (32, 32)
    coupled: bool = True  # False draws h_t independently of b_t, as the paper's encoder does
    rule: str = ""  # usage (the paper's), posterior-usage or evidence; "" is the guide's default
    delta: float = 0.5
    birth: str = ""  # random (the paper's), split or data; "" is the guide's default
    check_every: int = 0  # epochs between growth checks; 0 is the guide's default

    def __post_init__(self) -> None:
        choice(self.guide, "guide", GUIDES)
        defaults = GROWTH_DEFAULTS[self.guide]
        for name in ("rule", "birth", "check_every"):
            if not getattr(self, name):
                object.__setattr__(self, name, getattr(defaults, name))
        choice(self.rule, "rule", RULES)
        choice(self.birth, "birth", BIRTHS)
        check(self.num_options is None or self.num_options >= 1, "num_options >= 1", self.num_options)
        check(self.initial_options >= 1, "initial_options >= 1", self.initial_options)
        check(0 < self.delta < 1, "delta in (0, 1)", self.delta)
        check(self.check_every >= 1, "check_every >= 1", self.check_every)
        if self.uniform:
            check(
                self.num_options is not None, "num_options with uniform weights", None, "Uniform weights cannot grow."
            )

    @property
    def prior(self) -> str:
        if self.uniform:
            return "uniform"
        return "gem" if self.num_options is None else "truncated"


@dataclass(frozen=True)
class Method:
    """A model, a guide, and what grows them (``None`` for a fixed K)."""

    model: OptionHMM
    guide: PyroModule
    growth: GrowthMessenger | None


#: named methods, as changes to a :class:`MethodConfig`
METHODS: dict[str, dict] = {
    "options": {"guide": "relaxed"},
    "options-exact": {"guide": "exact"},
    "options-score-function": {"guide": "score-function"},
    "options-straight-through": {"guide": "straight-through"},
    "options-point": {"guide": "relaxed", "point": True},
    "ddo": {"guide": "exact", "uniform": True},
    "bc": {"guide": "exact", "uniform": True, "num_options": 1},
}


def build(name: str, data: Trajectories, **config) -> Method:
    """The method called ``name``, sized for ``data``.

    :param config: fields of :class:`MethodConfig` that the name leaves open
    """
    choice(name, "method", METHODS)
    return assemble(data, MethodConfig(**config | METHODS[name]))


def assemble(data: Trajectories, config: MethodConfig) -> Method:
    """Model, guide and growth handler of a config, sized for ``data``."""
    check(data.actions is not None, "demonstrations with actions", "none")
    K = config.initial_options if config.num_options is None else config.num_options
    inputs = VaryingInputs.from_states(data.states, data.mask) if config.skip_constant else None
    policy = (CategoricalPolicy if data.discrete else GaussianPolicy)(
        data.state_dim, K, data.action_dim, config.hidden, _network(inputs, config)
    )
    termination = Termination(data.state_dim, K, config.hidden, _network(inputs, config))
    model = OptionHMM(policy, termination, config.prior, config.alpha, config.termination_cost)
    guide = _guide(data, K, config, inputs)
    if config.num_options is not None:
        return Method(model, guide, None)
    rule, birth = RULES[config.rule](config.delta), BIRTHS[config.birth]()
    growth = GrowthMessenger([model, guide], rule, birth, config.check_every, config.max_options)
    return Method(model, guide, growth)


def _network(inputs: VaryingInputs | None, config: MethodConfig) -> nn.Module | None:
    """The state network behind a selection of inputs; ``None`` for what a policy makes itself."""
    if inputs is None or not config.hidden:
        return inputs
    return nn.Sequential(inputs, *mlp(len(inputs.index), config.hidden)[0])


def _guide(data: Trajectories, num_options: int, config: MethodConfig, inputs: VaryingInputs | None) -> PyroModule:
    weights = weights_guide(config.prior, num_options, config.point)
    if config.guide == "exact":
        return Exact(weights)
    step_dim = data.state_dim + data.action_dim
    encoder = PathEncoder(step_dim, num_options, config.lstm_size, config.encoder_hidden, inputs=inputs)
    return GUIDES[config.guide](weights, encoder, coupled=config.coupled)
