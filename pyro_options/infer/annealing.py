"""Numbers that change from epoch to epoch, without a change to the operations that read them."""

from torch import Tensor


class Annealed:
    """A number as the operations of a step read it: a float on the CPU, elsewhere a tensor of one place in memory.

    A float would be a constant of a recorded step. The tensor is filled without waiting for the device.

    :param like: a tensor of the device and type
    """

    def __init__(self, like: Tensor):
        self._place = None if like.device.type == "cpu" else like.detach().new_zeros(())

    def __call__(self, value: float) -> float | Tensor:
        """The number after it was set to ``value``."""
        return value if self._place is None else self._place.fill_(value)
