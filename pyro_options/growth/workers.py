"""The processes that share the rows of a training; here, the one process that has them all."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


class Workers:
    """One process that has all rows: every method returns what it is given.

    Training and growth ask this object wherever several processes would differ from one. A subclass, such as
    :class:`~pyro_options.infer.Processes`, divides the rows of each batch and adds up what was computed of them.
    Parameters, optimizer and torch's random state are the same in all processes at all times; random numbers of rows
    come from :meth:`own_draws`.
    """

    rank: int = 0  # of this process
    size: int = 1  # number of processes

    @property
    def writes(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def __deepcopy__(self, memo: dict) -> "Workers":
        return self

    def begin(self, counter: Sequence[int], share: float = 1.0, owed: int = 0) -> None:
        """Starts a step or a growth check.

        :param counter: numbers that no other step has, from which :meth:`own_draws` is seeded
        :param share: of the rows of the batch that this process has
        :param owed: size of the tensor that the step passes to :meth:`whole`, 0 if it does not
        """

    def share(self, index: Tensor) -> tuple[Tensor, float]:
        """The rows of a batch that this process has, at least one, and their share; 0 if another process has them."""
        return index, 1.0

    def own_draws(self) -> AbstractContextManager:
        """Random numbers drawn inside are this process's own, and leave torch's random state as it was."""
        return nullcontext()

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over processes; the tensor may be overwritten."""
        return tensor

    def add(self, tensors: Sequence[Tensor] | None) -> Sequence[Tensor]:
        """Sums over processes of tensors on the CPU; a process that has nothing to add passes ``None``."""
        return () if tensors is None else tensors

    def add_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Replaces gradients by their sum over processes."""

    def average(self, parameters: Sequence[Tensor], numbers: Sequence[float]) -> list[float]:
        """Replaces gradients, and returns numbers, by their average over processes, weighted by their shares."""
        return list(numbers)

    def whole(self, values: Tensor) -> Tensor:
        """A sum over the rows of this process completed to one over all rows of the batch.

        Its gradient is such that :meth:`average` of the gradients is that of a function of the whole sum.
        """
        return values

    def collect(self, values: Tensor, index: Tensor, count: int) -> Tensor:
        """Values of all ``count`` rows in order, from the values of this process's rows ``index``."""
        return values[index.argsort()]

    def agree(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether it is set in any process."""
        return flags

    def check_same(self, what: str, value: Callable[[], object], fix: str) -> None:
        """Raises if a value differs between processes."""


#: the object of every training in a single process
ALONE = Workers()


def zero_filled(parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of parameters, zeros for those that have none."""
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
