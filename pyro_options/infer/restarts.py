"""Random restarts: train briefly from several initializations and continue the best."""

import logging
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from pyro_options.errors import check_count
from pyro_options.growth.contracts import CollapsibleModel
from pyro_options.growth.verdict import total_and_error

from .callbacks import Callback, Phase
from .trainer import Trainer

logger = logging.getLogger(__name__)

#: standard errors of the paired difference by which a training of another kind must be better
CLEAR = 2.0


def restart_seed(seed: int, number: int) -> int:
    """Seed of restart ``number``: ``seed`` itself for the first, derived seeds for the others."""
    return seed if number == 0 else int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def mean_objective(trainer: Trainer) -> float:
    """Mean objective of the last quarter of the epochs, in nats per episode."""
    objective = trainer.history.objective
    last = objective[-max(1, len(objective) // 4) :]
    return sum(last) / len(last)


def exact_log_likelihood(trainer: Trainer) -> float:
    """Log-likelihood of the training data at the mean weights, latents summed out, in nats per episode."""
    return float(trainer.growth_checks.scores(trainer.data).double().mean())


def score(trainer: Trainer) -> float:
    """What restarts are ranked by, in nats per episode: the objective if it is a bound, else the exact likelihood.

    A relaxed objective may be the higher the worse the model is.
    """
    if trainer.history.objective_is_bound or not isinstance(trainer.model, CollapsibleModel):
        return mean_objective(trainer)
    return exact_log_likelihood(trainer)


def _held_out_scores(trainer: Trainer) -> Tensor:
    """Log-likelihoods of held-out episodes before the final phase, which trains on them too, or of those trained on."""
    if trainer.history.judge_scores:
        return torch.tensor(trainer.history.judge_scores, dtype=torch.float64)
    return trainer.growth_checks.scores(trainer.data if trainer.held_out is None else trainer.held_out)


def clearly_better(challenger: Trainer, best: Trainer) -> bool:
    """Whether held-out episodes prefer a training of another kind by more than :data:`CLEAR` standard errors.

    Without held-out episodes, those that were trained on do.
    """
    if not isinstance(best.model, CollapsibleModel):
        return score(challenger) > score(best)
    gain, error = total_and_error(_held_out_scores(challenger) - _held_out_scores(best))
    return gain > (0 if math.isnan(error) else CLEAR * error)


def best_start(
    start: Callable[[int], Trainer],
    restarts: int,
    epochs: int,
    callbacks: Callback = Callback(),
) -> Trainer:
    """Trains several restarts for a few epochs and returns the one with the best :func:`score`, to be continued.

    The likelihood of a model with latent options has many local optima, and the score shows early which one a run is
    heading for. Restarts are therefore short, and compared on the training data alone::

        trainer = best_start(lambda number: make_trainer(seed=number), restarts=5, epochs=20)
        trainer.run()  # the remaining epochs

    :param start: ``start(number)`` returns a new trainer, each with its own initial values
    :param restarts: number of restarts; a single one is returned without training
    :param epochs: epochs to train each restart for
    :param callbacks: told which restart runs
    """
    check_count(restarts, "restarts")
    if restarts == 1:
        return start(0)
    check_count(epochs, "epochs")
    best, highest = None, -float("inf")
    for number in range(restarts):
        trainer = start(number)
        callbacks.on_phase(Phase("restart", number + 1, restarts))
        trainer.run(max(0, epochs - trainer.epoch))
        reached = score(trainer)
        logger.info("restart %d of %d: %.3f nats per episode", number + 1, restarts, reached)
        if best is None or reached > highest:
            best, highest = trainer, reached
    assert best is not None
    return best
