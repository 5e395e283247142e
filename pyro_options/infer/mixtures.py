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
from pyro_options.growth import Newborns, Rule, Snapshot, Usage, Verdict, prune
from pyro_options.handlers import GrowthMessenger

from .train import set_seed


def _reweighted(log_prob: Tensor, log_weights: Tensor, steps: int = 10) -> Tensor:
    """Weights of the components that suit the rows better, by expectation maximization ``(K,)``.

    :param log_prob: ``(N, K)``
    """
    for _ in range(steps):
        log_weights = torch.log(torch.softmax(log_weights + log_prob, -1).mean(0).clamp(min=1e-12))
    return log_weights


@dataclass(frozen=True)
class BoundRule:
    """Keeps a birth that raises the bound on the evidence of all rows.

    The divergence of the new component from its prior is the price of its parameters, so no rows need to be held out.
    All components first adapt for a few steps: what a birth is worth shows when the old component that covered its rows
    has withdrawn to the others.

    :param components: conjugate, with ``absorb`` and a ``divergence``
    :param min_gain: nats that a birth must bring; its stick costs a few
    :param steps: of coordinate ascent before the judgement
    """

    components: torch.nn.Module
    min_gain: float = 5.0
    steps: int = 15

    def propose(self, usage: Usage) -> int:
        return 1

    @torch.no_grad()
    def accept(self, newborns: Newborns) -> Verdict:
        newborns.require_data()
        rows, old = newborns.data, newborns.log_weights
        assert old is not None
        log_prob = self.components().log_prob(rows.unsqueeze(-2))  # (N, K + new)
        before = torch.logsumexp(_reweighted(log_prob[:, : len(old)], old) + log_prob[:, : len(old)], -1).sum()
        before = before - self.components.divergence()[: len(old)].sum()
        weights = _reweighted(log_prob, newborns.trial_weights(len(newborns.index) / log_prob.shape[1]))
        for _ in range(self.steps):
            shares = torch.softmax(weights + log_prob, -1)
            self.components.absorb(rows, shares)
            log_prob, weights = self.components().log_prob(rows.unsqueeze(-2)), torch.log(shares.mean(0) + 1e-12)
        after = torch.logsumexp(weights + log_prob, -1).sum() - self.components.divergence().sum()
        gain = float(after - before)
        return Verdict(gain > self.min_gain, gain / len(rows), 0.0)


@dataclass(frozen=True)
class SeedBirth:
    """Starts a new component at a row of data and lets it gather the rows that it explains better than the others do.

    Of several seeds, mostly rows that are explained badly, the one stays whose component raises the bound most.

    :param components: have ``absorb(rows, responsibilities, index)``
    :param seeds: rows to start from
    :param steps: of coordinate ascent, in which only the new component moves
    :param neighbours: rows that a seed starts with, as multiples of N / (K + 1)
    """

    components: torch.nn.Module
    seeds: int = 6
    steps: int = 6
    neighbours: float = 0.3

    @torch.no_grad()
    def __call__(self, newborns: Newborns) -> None:
        newborns.require_data()
        assert newborns.log_weights is not None
        rows, K, new = newborns.data, newborns.index[0], newborns.index[0]
        check(len(newborns.index) == 1, "one birth at a time", len(newborns.index))
        old_weights = torch.log_softmax(newborns.log_weights, -1)
        explained = torch.logsumexp(old_weights + self.components().log_prob(rows.unsqueeze(-2))[:, :K], -1)
        badness = torch.argsort(torch.argsort(explained, descending=True)).float() + 1  # 1 for the best explained
        found = []
        for seed in torch.multinomial(badness, min(self.seeds, len(rows))).tolist():
            found.append(self._gather(rows, explained, new, seed))
        _, share = max(found, key=lambda pair: pair[0])
        self.components.absorb(rows, share.unsqueeze(-1), [new])

    def _gather(self, rows: Tensor, explained: Tensor, new: int, seed: int) -> tuple[float, Tensor]:
        """How much the new component raises the bound from this seed, and the rows that it takes."""
        spread = rows.std(0).clamp(min=1e-12)
        distance = (((rows - rows[seed]) / spread) ** 2).sum(-1)
        nearest = distance.topk(max(2, int(self.neighbours * len(rows) / (new + 1))), largest=False).indices
        share = torch.zeros_like(explained)
        share[nearest] = 1.0
        gain = -torch.inf
        for _ in range(self.steps):
            self.components.absorb(rows, share.unsqueeze(-1), [new])
            weight = share.mean().clamp(1e-4, 1 - 1e-4)
            log_prob = self.components().log_prob(rows.unsqueeze(-2))[:, new] + torch.log(weight)
            share = torch.sigmoid(log_prob - explained)  # who is left keeps the weight that it needs
            gain = float((torch.logaddexp(log_prob, explained) - explained).sum() - self.components.divergence()[new])
        return gain, share


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
    :param rule: judges births; ``None`` is the :class:`BoundRule`
    :param birth: starts a component; ``None`` is the :class:`SeedBirth`
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
        log_weights = _reweighted(log_prob, torch.zeros_like(log_prob[0]), steps=30)
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
