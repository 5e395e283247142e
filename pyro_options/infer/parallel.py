"""Data-parallel training: processes that torchrun started divide the episodes of every batch.

Every process has the same parameters and reads the same demonstrations. Plain collectives add up gradients and the
statistics of growth; DistributedDataParallel would not do, since growth replaces parameters and with them its hooks.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from pyro_options.errors import LostProcess, check
from pyro_options.growth.workers import ALONE, Workers, zero_filled

logger = logging.getLogger(__name__)

#: how long to wait for a process that is alive but does not answer
TIMEOUT = timedelta(minutes=10)

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # environment variables that it sets


def join_workers() -> Workers:
    """The processes of this run: all that torchrun started, or this one alone.

    Joins torch's process group if it is not initialized yet: gloo on the CPU, NCCL on CUDA, where each process uses the
    device of its local rank.
    """
    if not dist.is_available():
        return ALONE
    if not dist.is_initialized():
        if any(name not in os.environ for name in _TORCHRUN) or int(os.environ["WORLD_SIZE"]) == 1:
            return ALONE
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=TIMEOUT)
        logger.info("process %d of %d", dist.get_rank(), dist.get_world_size())
    return Processes() if dist.get_world_size() > 1 else ALONE


class Processes(Workers):
    """The processes of torch's default process group, see :class:`~pyro_options.growth.Workers`.

    A process that ends, is killed or raises ends the others: their next collective raises
    :class:`~pyro_options.errors.LostProcess`.
    """

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._counter: tuple[int, ...] = ()
        self._draws = 0  # contexts of own draws in this step
        self._share, self._owed = 1.0, 0

    @contextmanager
    def _collective(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise LostProcess(
                f"Expected {self.size} processes but got no answer from another than process {self.rank}: it has "
                "ended, and its own message says why. Resume from the last checkpoint, with any number of processes."
            ) from error

    def sum(self, tensor: Tensor) -> Tensor:
        with self._collective():
            dist.all_reduce(tensor)
        return tensor

    def _everyone(self, value: object) -> list:
        """The values of all processes, by rank."""
        found: list = [None] * self.size
        with self._collective():
            dist.all_gather_object(found, value)
        return found

    def begin(self, counter, share=1.0, owed=0):
        self._counter, self._share, self._owed, self._draws = tuple(counter), share, owed, 0

    def share(self, index):
        own = torch.tensor_split(index, self.size)[self.rank]
        return (own, len(own) / len(index)) if len(own) else (index[:1], 0.0)

    @contextmanager
    def own_draws(self):
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        seed = np.random.SeedSequence((*self._counter, self._draws, self.rank)).generate_state(1, np.uint64)
        self._draws += 1
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(seed[0]))
            yield

    def add(self, tensors):
        given = [one for one in self._everyone(tensors) if one is not None]
        return [torch.stack(parts).sum(0) for parts in zip(*given)]

    def add_gradients(self, parameters):
        gradients = zero_filled(parameters)
        flat = self.sum(torch.cat([one.flatten() for one in gradients]))
        for parameter, part in zip(parameters, flat.split([one.numel() for one in gradients])):
            parameter.grad = part.view_as(parameter)

    def average(self, parameters, numbers):
        if self._owed:  # this process failed before it came to whole(), where the others wait
            self.whole(torch.full((self._owed,), torch.nan, device=parameters[0].device))
        weighted = [self._share * number if self._share else 0.0 for number in numbers]
        about = [*(float(p.grad is not None) for p in parameters), *weighted]
        gradients = [self._share * one if self._share else torch.zeros_like(one) for one in zero_filled(parameters)]
        sizes = [len(about), *(one.numel() for one in gradients)]
        flat = torch.cat([gradients[0].new_tensor(about), *(one.flatten() for one in gradients)])
        summed, *parts = self.sum(flat).split(sizes)  # one collective: their number costs more than their size
        present, found = summed[: len(parameters)].tolist(), summed[len(parameters) :].tolist()
        for parameter, part, count in zip(parameters, parts, present):
            parameter.grad = part.view_as(parameter) if count else None
        return found

    def whole(self, values):
        self._owed = 0
        mine = values.detach() if self._share else torch.zeros_like(values)
        total = self.sum(mine.clone())
        return total + (values - values.detach()) / self._share if self._share else total

    def collect(self, values, index, count):
        return self.sum(values.new_zeros(count).index_copy(0, index, values))

    def agree(self, *flags):
        return tuple(bool(count) for count in self.sum(torch.tensor(flags, dtype=torch.int32)).tolist())

    def check_same(self, what, value, fix):
        found = self._everyone(value())
        check(len(set(map(repr, found))) == 1, f"the same {what} in all processes", found, fix)
