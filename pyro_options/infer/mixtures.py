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
from pyro_options.growth import Rule, Snapshot, prune
from pyro_options.growth.conjugate import BoundRule, SeedBirth, refitted_weights
from pyro_options.handlers import GrowthMessenger

from .train import set_seed


@dataclass(frozen=True)
class MixtureConfig:
    """How to train a mixture."""

    every: int = 10  # steps between growth checks
    patience: int = 4  # refused checks in a row after which growth is over
    max_steps: int = 4000
    final_steps: int = 100  # after growth, with a falling learning rate
    learning_rate: float = 0.1  # of the sticks, the concentration and the prior of the components
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
    :param rule: judges births; ``None`` is the :class:`~pyro_options.growth.conjugate.BoundRule`
    :param birth: starts a component; ``None`` is the :class:`~pyro_options.growth.conjugate.SeedBirth`
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
        held = {id(getattr(model.components, name)) for name in model.components.component_axes}
        moving = [p for p in [*model.parameters(), *guide.parameters()] if id(p) not in held]
        self.optimizer = torch.optim.Adam(moving, lr=config.learning_rate)
        self.growth = GrowthMessenger(
            [model, guide],
            BoundRule(model.components) if rule is None else rule,
            SeedBirth(model.components) if birth is None else birth,
            every=config.every,
            max_components=config.max_components,
            site="rows",
        )
        self.elbo, self.history = TraceGraph_ELBO(), MixtureHistory()

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
            self._reweight()
        return event.num_born > 0

    @torch.no_grad()
    def _reweight(self) -> None:
        """Gives components the weights they were judged by; a newborn would starve before its stick has caught up."""
        log_prob = self.model.components().log_prob(self.rows.unsqueeze(-2))
        log_weights = refitted_weights(log_prob, torch.zeros_like(log_prob[0]), steps=30)
        N = torch.tensor(float(len(self.rows)))
        self.guide.weights.assign(log_weights + torch.log(N / (N + 1)).to(log_weights))

    @torch.no_grad()
    def simplify(self) -> int:
        """Drops and merges components where that does not lower the bound; returns how many are gone."""
        before = self.model.num_components
        while self.model.num_components > 1 and any(self._try_remove(*move) for move in self._candidates()):
            pass
        return before - self.model.num_components

    def _candidates(self, most: int = 5) -> list[tuple[int, int | None]]:
        """What could go, and into what: components without a row of their own, pairs whose rows agree most."""
        shares = Mixture(self.guide.weights.mean_log_weights(), self.model.components()).responsibilities(self.rows)
        moves: list[tuple[int, int | None]] = [(k, None) for k, n in enumerate(shares.sum(0).tolist()) if n < 1]
        norm = shares.norm(dim=0).clamp(min=1e-12)
        overlap = torch.triu(shares.T @ shares / norm / norm.unsqueeze(-1), 1).flatten()
        for pair in overlap.topk(min(most, len(overlap))).indices.tolist():
            if overlap[pair] > 1e-3:
                moves.append((pair % len(norm), pair // len(norm)))
        return moves

    def _try_remove(self, gone: int, into: int | None) -> bool:
        """Takes a component away, its rows given to another or left to all, unless the bound would fall."""
        components, log_weights = self.model.components, self.guide.weights.mean_log_weights()
        mixture = Mixture(log_weights, components())
        before = mixture.log_prob(self.rows).sum() - components.divergence().sum()
        undo = Snapshot([self.model, self.guide], self.optimizer)
        if into is not None:
            shares = mixture.responsibilities(self.rows)[:, [gone, into]].sum(-1, keepdim=True)
            components.absorb(self.rows, shares, [into])
            log_weights[into] = torch.logaddexp(log_weights[into], log_weights[gone])
        prune([self.model, self.guide], [gone], self.optimizer)
        rest = log_weights[[k for k in range(len(log_weights)) if k != gone]]
        after = Mixture(rest, components()).log_prob(self.rows).sum() - components.divergence().sum()
        if after < before:
            undo.restore()
        return bool(after >= before)

    def run(self) -> MixtureHistory:
        """Grows until nothing wants to be born, merges what is one, and lets everything settle."""
        start, refused = time.perf_counter(), 0
        while refused < self.config.patience and len(self.history.elbo) < self.config.max_steps:
            for _ in range(self.config.every):
                self.step()
            refused = 0 if self.observe_and_grow() else refused + 1
            if refused:
                self.simplify()
        self.simplify()
        for i in range(self.config.final_steps):
            self.optimizer.param_groups[0]["lr"] = self.config.learning_rate * (1 - i / self.config.final_steps)
            self.step()
        self.simplify()
        self.history.seconds += time.perf_counter() - start
        return self.history
