"""Several beginnings, of which the best goes on."""

import logging
from collections.abc import Callable

import numpy as np

from pyro_options.errors import check_count

from .trainer import Trainer

logger = logging.getLogger(__name__)


def restart_seed(seed: int, number: int) -> int:
    """The seed of a beginning: the first has the seed itself, each of the others one of its own."""
    return seed if number == 0 else int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def bound(trainer: Trainer) -> float:
    """The ELBO of a training, in nats per episode: the mean over the last quarter of its epochs."""
    elbo = trainer.history.elbo
    last = elbo[-max(1, len(elbo) // 4) :]
    return sum(last) / len(last)


def best_start(start: Callable[[int], Trainer], restarts: int, epochs: int) -> Trainer:
    """Begins to train from several initial values, and returns the training with the best bound, for it to go on.

    A likelihood with latent options has many local optima. Which of them a training will end in shows long before its
    end, so beginnings are short, and only the training data decide::

        trainer = best_start(lambda number: make_trainer(seed=number), restarts=5, epochs=20)
        trainer.run()  # what is left of its epochs

    :param start: ``start(number)`` makes a trainer that has not been run, each with initial values of its own
    :param restarts: beginnings; with one it is not judged, so not run either
    :param epochs: that each is run for
    """
    check_count(restarts, "restarts")
    if restarts == 1:
        return start(0)
    check_count(epochs, "epochs")
    best: Trainer | None = None
    for number in range(restarts):
        trainer = start(number)
        trainer.run(epochs)
        logger.info("beginning %d of %d: %.3f nats per episode", number + 1, restarts, bound(trainer))
        if best is None or bound(trainer) > bound(best):
            best = trainer
    assert best is not None
    return best
