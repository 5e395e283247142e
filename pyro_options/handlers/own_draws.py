"""A handler that lets every process draw the latent variables of its own rows independently."""

from contextlib import ExitStack

from pyro.poutine.messenger import Messenger

from pyro_options.growth.workers import Workers


class OwnDrawsMessenger(Messenger):
    """Sites inside a plate draw from :meth:`~pyro_options.growth.Workers.own_draws`, others from torch's random state.

    Weights are then the same in all processes, and paths of different rows independent.
    """

    def __init__(self, workers: Workers):
        super().__init__()
        self.workers = workers
        self._open = ExitStack()

    def _pyro_sample(self, msg):
        if msg["cond_indep_stack"] and msg["value"] is None:
            self._open.enter_context(self.workers.own_draws())

    def _pyro_post_sample(self, msg):
        self._open.close()

    def __exit__(self, *args):
        self._open.close()  # if drawing raised
        return super().__exit__(*args)
