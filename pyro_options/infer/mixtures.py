"""Training of mixtures with conjugate components: coordinate ascent for the components, SVI for the rest."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyro
import torch
from pyro import poutine
from pyro.infer import TraceGraph_ELBO
from pyro.nn import PyroModule
from torch import Tensor

from pyro_options.distributions import Mixture, logit_sticks
from pyro_options.errors import check
from pyro_options.growth import EvidenceRule, Newborns, Rule
from pyro_options.handlers import GrowthMessenger

from .train import set_seed


@dataclass(frozen=True)
class SeedBirth:
    """Starts a new component at a row of data and lets it gather the rows that it explains better than the others do.

    Half of the rows are looked at, the others are left for a rule to judge by. Of several seeds, drawn from the rows
    that are explained worst, the one stays whose component raises the bound of the rows looked at most.

    :param components: have ``absorb(rows, responsibilities, index)``
    :param seeds: rows to start from
    :param steps: of coordinate ascent, in which only the new component moves
    :param neighbours: rows that a seed starts with, as multiples of N / (K + 1)
    """

    components: torch.nn.Module
    seeds: int = 8
    steps: int = 8
    neighbours: float = 0.3

    @torch.no_grad()
    def __call__(self, newborns: Newborns) -> None:
        newborns.require_data()
        for new in newborns.index:
            self._start(newborns, new)

    def _start(self, newborns: Newborns, new: int) -> None:
        half = torch.randperm(len(newborns.data))[: (len(newborns.data) + 1) // 2]
        newborns.used_rows.update(half.tolist())
        rows, K = newborns.data[half], newborns.index[0]
        assert newborns.log_weights is not None
        old_weights = torch.log_softmax(newborns.log_weights, -1)
        explained = torch.logsumexp(old_weights + self.components().log_prob(rows.unsqueeze(-2))[:, :K], -1)
        badness = torch.argsort(torch.argsort(explained, descending=True)).double() + 1  # 1 for the best explained
        best = (-torch.inf, None)
        for seed in torch.multinomial(badness, min(self.seeds, len(rows))).tolist():
            gain, share = self._gather(rows, explained, new, seed, K)
            best = max(best, (gain, share), key=lambda pair: pair[0])
        if best[1] is not None:
            self.components.absorb(rows, best[1].unsqueeze(-1), [new])

    def _gather(self, rows: Tensor, explained: Tensor, new: int, seed: int, K: int) -> tuple[float, Tensor]:
        """How much the new component raises the bound of ``rows`` from this seed, and the rows that it takes."""
        spread = rows.std(0).clamp(min=1e-12)
        distance = (((rows - rows[seed]) / spread) ** 2).sum(-1)
        nearest = distance.topk(max(2, int(self.neighbours * len(rows) / (K + 1))), largest=False).indices
        share = torch.zeros_like(explained)
        share[nearest] = 1.0
        gain = -torch.inf
        for _ in range(self.steps):
            self.components.absorb(rows, share.unsqueeze(-1), [new])
            weight = share.mean().clamp(1e-4, 1 - 1e-4)
            log_prob = self.components().log_prob(rows.unsqueeze(-2))[:, new] + torch.log(weight)
            others = explained + torch.log1p(-weight)
            share = torch.sigmoid(log_prob - others)
            gain = float((torch.logaddexp(log_prob, others) - explained).sum() - self.components.divergence()[new])
        return gain, share


@dataclass(frozen=True)
class MixtureConfig:
    """How to train a mixture."""

    every: int = 20  # steps between growth checks
    patience: int = 5  # refused checks in a row after which growth is over
    max_steps: int = 4000
    final_steps: int = 200  # after growth, with a falling learning rate
    learning_rate: float = 0.05  # of the sticks, the concentration and the prior of the components
    max_components: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check(self.every >= 1 and self.patience >= 1, "every and patience >= 1", (self.every, self.patience))
        check(self.learning_rate > 0, "learning_rate > 0", self.learning_rate)


@dataclass
class MixtureHistory:
    """One entry per step."""

    elbo: list[float] = field(default_factory=list)  # nats per row
    num_components: list[int] = field(default_factory=list)
    growth_steps: list[int] = field(default_factory=list)  # steps after which a component was born
    seconds: float = 0.0


class MixtureTrainer:
    """Trains a :class:`~pyro_options.models.DPMixture` on all rows at once, growing it.

    A step lets the components absorb the rows in proportion to their responsibilities, which is the best belief given
    those, and takes one SVI step in everything else.

    :param model: with ``components`` that can ``absorb``
    :param guide: with ``weights``, a :class:`~pyro_options.guides.MixtureWeights`
    :param rule: judges births; ``None`` is the :class:`~pyro_options.growth.EvidenceRule`
    """

    def __init__(
        self,
        model: PyroModule,
        guide: PyroModule,
        rows: Tensor,
        config: MixtureConfig = MixtureConfig(),
        rule: Rule | None = None,
        birth: Callable | None = None,
    ):
        set_seed(config.seed)
        self.model, self.guide, self.rows, self.config = model, guide, rows, config
        held = {id(p) for layer in (model.components,) for p in self._absorbing(layer)}
        moving = [p for p in [*model.parameters(), *guide.parameters()] if id(p) not in held]
        self.optimizer = torch.optim.Adam(moving, lr=config.learning_rate)
        self.growth = GrowthMessenger(
            [model, guide],
            EvidenceRule() if rule is None else rule,
            SeedBirth(model.components) if birth is None else birth,
            config.every,
            config.max_components,
            site="rows",
        )
        self.elbo, self.history = TraceGraph_ELBO(), MixtureHistory()

    @staticmethod
    def _absorbing(components) -> list[Tensor]:
        return [getattr(components, name) for name in components.component_axes]

    @torch.no_grad()
    def absorb(self) -> None:
        """The components' half of a step."""
        log_weights, components = self.guide.weights.mean_log_weights(), self.model.components
        components.absorb(self.rows, Mixture(log_weights, components()).responsibilities(self.rows))

    def step(self) -> float:
        """One step of everything. Returns the ELBO in nats per row."""
        self.absorb()
        self.optimizer.zero_grad(set_to_none=True)
        validate = not self.history.elbo
        with (
            pyro.validation_enabled(validate),
            pyro.get_param_store().scope(),
            poutine.scale(scale=1 / len(self.rows)),
        ):
            elbo = -self.elbo.loss_and_grads(self.model, self.guide, self.rows)
        self.optimizer.step()
        self.history.elbo.append(elbo)
        self.history.num_components.append(self.model.num_components)
        return elbo

    def observe_and_grow(self) -> bool:
        """Whether a component was born."""

        def given_weights(rows, log_weights):
            return poutine.condition(self.model, {"sticks": logit_sticks(log_weights)})(rows)

        with pyro.validation_enabled(False), pyro.get_param_store().scope():
            with torch.no_grad(), self.growth:
                self.model(self.rows)
            weights = self.guide.weights.mean_log_weights().detach()
            now = len(self.history.elbo)
            event = self.growth.step(self.optimizer, now, given_weights, self.rows, weights)
        if event.num_born:
            self.history.growth_steps.append(now)
        return event.num_born > 0

    def run(self) -> MixtureHistory:
        """Grows until nothing wants to be born, then lets everything settle."""
        start, refused = time.perf_counter(), 0
        while refused < self.config.patience and len(self.history.elbo) < self.config.max_steps:
            for _ in range(self.config.every):
                self.step()
            refused = 0 if self.observe_and_grow() else refused + 1
        for i in range(self.config.final_steps):
            self.optimizer.param_groups[0]["lr"] = self.config.learning_rate * (1 - i / self.config.final_steps)
            self.step()
        self.history.seconds += time.perf_counter() - start
        return self.history
