"""Random restarts: train briefly from several initializations and continue the best."""

import logging
from collections.abc import Callable

import numpy as np

from pyro_options.errors import check_count

from .trainer import Trainer

logger = logging.getLogger(__name__)


def restart_seed(seed: int, number: int) -> int:
    """Seed of restart ``number``: ``seed`` itself for the first, derived seeds for the others."""
    return seed if number == 0 else int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def bound(trainer: Trainer) -> float:
    """Mean ELBO of the last quarter of the epochs, in nats per episode."""
    elbo = trainer.history.elbo
    last = elbo[-max(1, len(elbo) // 4) :]
    return sum(last) / len(last)


def best_start(start: Callable[[int], Trainer], restarts: int, epochs: int) -> Trainer:
    """Trains several restarts for a few epochs and returns the one with the best training ELBO, to be continued.

    The likelihood of a model with latent options has many local optima, and the ELBO shows early which one a run is
    heading for. Restarts are therefore short, and compared on the training data alone::

        trainer = best_start(lambda number: make_trainer(seed=number), restarts=5, epochs=20)
        trainer.run()  # the remaining epochs

    :param start: ``start(number)`` returns a new trainer, each with its own initial values
    :param restarts: number of restarts; a single one is returned without training
    :param epochs: epochs to train each restart for
    """
    check_count(restarts, "restarts")
    if restarts == 1:
        return start(0)
    check_count(epochs, "epochs")
    best: Trainer | None = None
    for number in range(restarts):
        trainer = start(number)
        trainer.run(max(0, epochs - trainer.epoch))
        logger.info("restart %d of %d: %.3f nats per episode", number + 1, restarts, bound(trainer))
        if best is None or bound(trainer) > bound(best):
            best = trainer
    assert best is not None
    return best
