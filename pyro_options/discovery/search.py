"""The search for the capacity of the policies and the shrinkage of their weights, by held-out likelihood."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.verdict import total_and_error
from pyro_options.infer.callbacks import Callback, Phase
from pyro_options.infer.trainer import Trainer
from pyro_options.skills.from_model import to_skills

from .capacity import AUTO, SCALES, WIDTHS, Capacity

logger = logging.getLogger(__name__)

#: share of the epochs for which each width is trained
WIDTH_SHARE = 0.2

#: share of the epochs for which each scale is trained, from where the chosen width is
SCALE_SHARE = 0.05

#: fewest epochs of a training that is searched: shorter trainings show too little, and take the simplest candidate
MIN_EPOCHS = 10

#: nats of all held-out episodes together by which a candidate must be better than a simpler one
TOLERANCE = 3.0


@dataclass(frozen=True)
class Trial:
    """A candidate after its short training."""

    capacity: Capacity
    trainer: Trainer
    scores: Tensor  # log-likelihood of each held-out episode
    steps: int  # in those episodes
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """JSON values; the log-likelihood in nats per step."""
        return {
            "hidden": list(self.capacity.hidden),
            "weight_scale": self.capacity.weight_scale,
            "epochs": self.trainer.epoch,
            "held_out": float(self.scores.sum()) / self.steps,
            "seconds": self.seconds,
        }


def simplest(trials: Sequence[Trial]) -> Trial:
    """The first candidate that is not worse than the best by more than one standard error and a few nats in all.

    :param trials: the simplest first
    """
    best = max(trials, key=lambda one: float(one.scores.sum()))
    for one in trials:
        loss, error = total_and_error(best.scores - one.scores)
        if one is best or loss <= max(TOLERANCE, error):
            return one
    return best


def search(
    begin: Callable[[Capacity], Trainer],
    judge: Trajectories,
    hidden: Any,
    weight_scale: Any,
    callbacks: Callback = Callback(),
) -> tuple[Trial, list[Trial]]:
    """Trains candidates for a few epochs each; returns the simplest good one, to be continued, and all of them.

    First the widths of the state network are compared. Then the chosen training goes on with each prior scale: from the
    same parameters, so that what differs is the effect of the prior and not the optimum that a start leads to. All
    widths are tried: two layers may be what it takes where one is no better than none (a smooth policy).

    :param begin: makes a trainer with given capacity
    :param judge: held-out episodes
    :param hidden: widths, or :data:`AUTO`
    :param weight_scale: prior scale, or :data:`AUTO`
    :param callbacks: told which candidate is trained
    """
    widths = WIDTHS if hidden == AUTO else (tuple(hidden),)
    scales = SCALES if weight_scale == AUTO else ()
    first = None if weight_scale == AUTO else weight_scale
    count = len(widths) + len(scales)
    trials = []
    for number, width in enumerate(widths, 1):
        callbacks.on_phase(Phase("capacity", number, count, f"hidden = {width}"))
        trials.append(_trial(Capacity(width, first), begin(Capacity(width, first)), judge, WIDTH_SHARE))
    chosen, tried = simplest(trials), list(trials)
    if scales:
        trials = []
        for number, scale in enumerate(scales, 1 + len(widths)):
            callbacks.on_phase(Phase("capacity", number, count, f"weight_scale = {scale}"))
            fork = chosen.trainer.fork()
            fork.shrink(scale)
            trials.append(_trial(replace(chosen.capacity, weight_scale=scale), fork, judge, SCALE_SHARE))
        chosen = simplest(trials)
        tried += trials
    logger.info("hidden = %s, weight_scale = %s", chosen.capacity.hidden, chosen.capacity.weight_scale)
    return chosen, tried


def _trial(capacity: Capacity, trainer: Trainer, judge: Trajectories, share: float) -> Trial:
    start = time.perf_counter()
    trainer.run(max(1, round(share * trainer.config.epochs)))
    with torch.no_grad():
        scores = to_skills(trainer.model, trainer.guide, packed=judge.packed).episode_log_likelihoods(judge)
    return Trial(capacity, trainer, scores, judge.num_steps, time.perf_counter() - start)
