"""Steps that are recorded once and replayed: a CUDA graph of the whole training step.

A graph repeats the same operations on the same memory. So batches are copied into buffers of one shape, the last one of
an epoch padded by copies of an episode whose weight is zero; temperature, entropy weight and learning rates are
tensors; and a step is recorded anew when its operations or the memory of its parameters change: with another K, after
parameters were restored, or on other data.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from pyro_options.data.steps import PaddedSteps, Steps
from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check

if TYPE_CHECKING:
    from .trainer import Trainer

#: steps before a recording, besides the one that Pyro validates: libraries allocate what a recording must find there
WARM_UP = 2


class Graphs(Protocol):
    """How the operations of a device are recorded."""

    def warm_up(self, device: torch.device) -> AbstractContextManager:
        """Where the steps before a recording are taken."""

    def record(self, device: torch.device, launch: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """A function that repeats the operations of ``launch``, and the tensor of its result, which that overwrites.

        Recording itself changes no value.
        """


class CudaGraphs:
    """Recordings by :class:`torch.cuda.CUDAGraph`."""

    @contextmanager
    def warm_up(self, device: torch.device) -> Iterator[None]:
        with torch.cuda.device(device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                yield
            torch.cuda.current_stream().wait_stream(stream)

    def record(self, device: torch.device, launch: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), torch.cuda.graph(graph):
            result = launch()
        return graph.replay, result


#: device type -> how its operations are recorded
GRAPHS: dict[str, Graphs] = {"cuda": CudaGraphs()}


def padded_index(index: Tensor, size: int) -> Tensor:
    """``index`` and copies of its first entry, ``(size,)``."""
    return torch.cat([index, index[:1].expand(size - len(index))])


def padded_weights(count: int, size: int, like: Tensor) -> Tensor:
    """Weights of ``count`` rows that are padded to ``size``, see :class:`~pyro_options.handlers.WeighRowsMessenger`."""
    weights = like.detach().new_zeros(size)
    weights[:count] = size / count
    return weights


def _store(steps: Steps) -> tuple[Tensor, Tensor]:
    assert isinstance(steps, PaddedSteps)  # as minibatches are
    return steps.values, steps.lengths


class StepGraph:
    """Takes steps on batches of one shape, the first ones as usual, all others by replaying a recording."""

    def __init__(self, trainer: "Trainer"):
        self.trainer = trainer
        self.num_recordings = 0  # so far
        self._forget()

    def _forget(self) -> None:
        self._key: Hashable = None
        self._warm = 0  # steps taken since the key has changed
        self._replay: Callable[[], None] | None = None
        self._buffers: list[Tensor] = []
        self._outcome: Tensor | None = None

    def __deepcopy__(self, memo: dict) -> "StepGraph":
        """For a copy of the trainer, which records its own steps."""
        twin = StepGraph.__new__(StepGraph)
        memo[id(self)] = twin
        twin.trainer, twin.num_recordings = memo[id(self.trainer)], 0
        twin._forget()
        return twin

    def check(self) -> None:
        """Raises if the steps of this training cannot be recorded."""
        trainer = self.trainer
        fix = 'Pass device="cuda", or leave cuda_graph out.'
        check(trainer.device.type in GRAPHS, "a CUDA device for cuda_graph", repr(str(trainer.device)), fix)
        alone = trainer.workers.size == 1
        check(alone, "one process for cuda_graph", trainer.workers.size, "Leave cuda_graph out.")
        for data in (trainer.data, trainer.final_data):
            fix = "Leave cuda_graph out: their batches have many shapes."
            check(not data.ragged, "episodes of similar length for cuda_graph", "ragged ones", fix)

    def _tensors(self, batch: Trajectories) -> list[Tensor]:
        """All tensors of a batch, which differ from step to step."""
        weights = self.trainer.row_weights
        assert weights is not None
        return [*_store(batch.state_steps), *_store(batch.given_actions()), weights]

    def _key_of(self, batch: Trajectories) -> Hashable:
        """What a recording depends on, besides the values of tensors."""
        trainer = self.trainer
        groups = trainer.optimizer.param_groups
        state = [part for p in trainer.parameters() for part in trainer.optimizer.state[p].values()]
        places = tuple(x.data_ptr() for x in (*trainer.parameters(), *state))
        shapes = tuple((x.shape, x.dtype) for x in self._tensors(batch))
        settings = tuple((id(group["lr"]), group["weight_decay"]) for group in groups)
        scale = batch.population, batch.dataset_size
        return trainer.model.num_options, places, shapes, settings, scale, trainer.entropy.active

    def _buffered(self, like: Trajectories) -> Trajectories:
        """The batch in the buffers; a new object, since batches remember what was computed from them, their mask."""
        states, lengths, actions, more_lengths, _ = self._buffers
        stores = PaddedSteps(states, lengths), PaddedSteps(actions, more_lengths)
        return like._replace(state_steps=stores[0], action_steps=stores[1])

    def take(self, batch: Trajectories, launch: Callable[[Trajectories], Tensor]) -> Tensor:
        """Takes a step on ``batch``.

        :param launch: launches a step, reads nothing, and returns its outcome
        :returns: the outcome of this step
        """
        key, tensors = self._key_of(batch), self._tensors(batch)
        if key != self._key:
            self._forget()
            self._key, self._buffers = key, [x.clone() for x in tensors]
        torch._foreach_copy_(self._buffers, tensors)
        device = self.trainer.device
        self.trainer.row_weights = self._buffers[-1]
        if self._replay is None:
            if self._warm < WARM_UP:
                self._warm += 1
                with GRAPHS[device.type].warm_up(device):
                    return launch(self._buffered(batch))
            recorded = GRAPHS[device.type].record(device, lambda: launch(self._buffered(batch)))
            self._replay, self._outcome = recorded
            self.num_recordings += 1
        assert self._outcome is not None
        self._replay()
        return self._outcome.clone()
