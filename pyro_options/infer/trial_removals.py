"""Removals that are judged after the other components have adapted, when growth is over."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from pyro_options.growth.events import GrowthEvent, Move
from pyro_options.growth.removals import FEWEST_TRAINED, Prune, without
from pyro_options.growth.resizing import parameters_per_component, prune, reweight
from pyro_options.growth.verdict import Verdict

from .callbacks import Callbacks

if TYPE_CHECKING:
    from .trainer import Trainer

#: share of the epochs for which a trial trains
SHARE = 0.1

#: nats of all held-out rows together that a component may be worth before the others adapt, to be tried
MOST_LOST = 60.0

#: at first one component in so many is tried, all of them together
TOGETHER = 4


def try_removals(trainer: "Trainer") -> None:
    """Removes components that the others can replace once they have been trained without them.

    Components that share a behaviour depend on each other: if one is missing, the others explain its rows badly as they
    are, and :class:`~pyro_options.growth.Prune` keeps all of them. So components are removed from a copy of the
    training, which is then trained for a few epochs, as is a second copy that keeps them. The removal is accepted if it
    costs the held-out rows at most the tolerance of :class:`~pyro_options.growth.Prune`, and those trained on no more
    than it allows them; the training then goes on from the first copy. Of many components several are tried together.

    Nothing happens without held-out rows, or without a :class:`~pyro_options.growth.Prune` among the removals.
    """
    growth = trainer.growth
    rules = [] if growth is None else [one for one in growth.removals if isinstance(one, Prune)]
    if rules and trainer.held_out is not None:
        while trainer.model.num_options > 1 and _removed(trainer, rules[0]):
            trainer.remove_unneeded()


def candidates(event: GrowthEvent) -> list[list[int]]:
    """Groups of components to try to do without, in this order, after a check that removed nothing.

    Several together first, if there are many: none of them the one that would replace another of them.
    """
    refused = [move for move in event.moves if move.kind == "prune" and not move.verdict.accepted]
    doubtful = sorted((-move.verdict.gain, move.components[0]) for move in refused if move.verdict.gain > -MOST_LOST)
    if not doubtful:
        return []
    groups: list[list[int]] = []
    if len(doubtful) == len(refused):
        cost, heirs = event.usage.replacement_cost().min(-1)
        together: list[int] = []
        spared: set[int] = set()
        for component in cost.argsort().tolist():
            if component not in spared and int(heirs[component]) not in together:
                together.append(component)
                spared.add(int(heirs[component]))
        size = len(cost) // TOGETHER
        while size > 1:
            groups.append(together[:size])
            size //= 2
    return groups + [[component] for _, component in doubtful]


def _removed(trainer: "Trainer", rule: Prune) -> bool:
    """Tries groups of components until one of them is removed; whether one was."""
    growth = trainer.growth
    assert growth is not None
    last, moves = growth.history[-1], []
    groups = candidates(last)
    if not groups:
        return False
    trainer.callbacks.on_status("trial removals")
    judge = _Judge(trainer, rule)
    for gone in groups:
        twin = _adapted(trainer, gone)
        moves.append(Move("prune", tuple(gone), judge(twin, len(gone))))
        if moves[-1].verdict.accepted:
            _adopt(trainer, twin, gone)
            trainer.history.removal_epochs.append(trainer.epoch)
            break
    event = GrowthEvent(trainer.num_steps, last.usage, tuple(moves))
    growth.history.append(event)
    trainer.callbacks.on_growth(trainer, event)
    trainer.callbacks.on_status("")
    return event.num_removed > 0


class _Judge:
    """Compares trials with a copy of the training that goes on with all components."""

    def __init__(self, trainer: "Trainer", rule: Prune):
        assert trainer.growth is not None and trainer.held_out is not None
        self.rule, self.baseline, self.count = rule, trainer.growth.baseline, len(trainer.data)
        self.held_out = trainer.held_out[: rule.max_rows].alone()
        index = torch.randperm(self.count)[: max(FEWEST_TRAINED, trainer.data.rows_together())]
        self.trained = trainer.data[index.to(trainer.device)].alone()
        self.component_size = parameters_per_component([trainer.model])
        self.control = self._scores(_adapted(trainer, ()))
        self.lost = self.baseline.loss(float(self.control[0].sum()))

    def _scores(self, trainer: "Trainer") -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(trainer.growth_checks.scores(rows).double() for rows in (self.held_out, self.trained))

    def __call__(self, twin: "Trainer", removed: int) -> Verdict:
        (before, trained_before), (after, trained_after) = self.control, self._scores(twin)
        verdict = Verdict.on_loss(before, after, self.rule.tolerance - self.lost)
        loss = float((trained_before - trained_after).sum()) * self.count / len(self.trained)
        if verdict.accepted and loss <= self.rule.tolerance + removed * self.component_size:
            self.baseline.record(verdict.gain)
            return verdict
        return Verdict(False, verdict.gain, verdict.error)


def _adapted(trainer: "Trainer", gone: Sequence[int]) -> "Trainer":
    """A copy of the training without some components, after a few epochs; all copies see the same draws."""
    twin = trainer.fork()
    twin.growth, twin.callbacks = None, Callbacks()
    epochs = max(1, round(SHARE * trainer.config.epochs))
    twin.epoch = max(0, trainer.epoch - epochs)  # so that it does not enter the final phase
    _remove(twin, gone)
    with torch.random.fork_rng([trainer.device] if trainer.device.type == "cuda" else []):
        twin.run(epochs)
    return twin


def _remove(trainer: "Trainer", gone: Sequence[int]) -> None:
    """Removes components; their mass is left to the others."""
    if gone:
        modules = [trainer.model, trainer.guide]
        reweight(modules, without(trainer.guide.weights.mean_log_weights().detach(), gone))
        prune(modules, gone, trainer.optimizer)


@torch.no_grad()
def _adopt(trainer: "Trainer", twin: "Trainer", gone: Sequence[int]) -> None:
    """Gives a training the parameters and the optimizer's state of a copy without some components."""
    _remove(trainer, gone)
    for own, other in zip(trainer.parameters(), twin.parameters()):
        own.copy_(other)
        trainer.optimizer.state[own] = twin.optimizer.state[other]
