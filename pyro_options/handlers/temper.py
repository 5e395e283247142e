"""A handler that sets the temperature of relaxed sites."""

from collections.abc import Callable

from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyro_options.errors import check
from pyro_options.growth.contracts import Tempered


class TemperMessenger(Messenger):
    """Sets the temperature of every latent site whose distribution has a ``temperature``.

    The attribute ``temperature`` may be set to a tensor, which is not read: a step then has the same operations
    whatever its value.
    """

    def __init__(self, temperature: float = 1.0):
        super().__init__()
        check(temperature > 0, "temperature > 0", temperature)
        self.temperature: float | Tensor = temperature

    def _pyro_sample(self, msg):
        if not msg["is_observed"] and isinstance(msg["fn"], Tempered):
            msg["fn"].temperature = self.temperature


def temper(guide: Callable, temperature: float) -> Callable:
    """``guide`` with its relaxed sites at ``temperature``."""
    return TemperMessenger(temperature)(guide)
