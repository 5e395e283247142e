"""Checkpoints of the training of a growing model."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.optim import Optimizer

from pyro_options.errors import check
from pyro_options.growth.growable import axes_of, growables
from pyro_options.growth.resizing import num_components, set_data
from pyro_options.handlers.growth import GrowthMessenger
from pyro_options.persistence.checkpoint import fingerprint, plain
from pyro_options.persistence.resumable import ResumableLoop
from pyro_options.persistence.serialization import (
    Modules,
    fill,
    load_optimizer,
    module_state,
    optimizer_state,
    parts,
    plan_modules,
    prefixed,
    random_state,
    set_random_state,
)
from pyro_options.persistence.storage import Format

#: settings that a resumed training may change
_FREE = ("epochs", "device", "progress", "on_nonfinite", "check_every", "cuda_graph")


def load_modules(modules: Modules, state: Mapping[str, Tensor], num_saved: int) -> None:
    """Loads saved tensors into modules, resizing them if their number of components differs.

    :param num_saved: number of components in ``state``
    """
    more = num_saved - num_components(modules.values())
    axes = {
        id(getattr(layer, n)): axes_of(layer, n) for layer in growables(modules.values()) for n in layer.component_axes
    }

    def saved_shape(tensor: Tensor) -> list[int]:
        return [size + more * (d in axes.get(id(tensor), ())) for d, size in enumerate(tensor.shape)]

    fill(plan_modules(modules, state, saved_shape), set_data)


class ResumableTraining(ResumableLoop):
    """A :class:`~pyro_options.persistence.ResumableLoop` that trains a model and a guide.

    Its state: parameters, K, growth history, optimizer, step and epoch counters, position in the data, and all random
    states.
    """

    FORMAT = Format("pyro_options.Training", 4, "Checkpoint")
    COUNTS: ClassVar[tuple[str, ...]]  # names of the counters to save, including ``num_steps``

    model: nn.Module
    guide: nn.Module
    config: Any
    optimizer: Optimizer
    growth: GrowthMessenger | None
    history: Any  # a dataclass of numbers and lists of numbers
    settled: bool = False  # whether training has completed
    restored_epochs: int = 0  # epochs that were done when it was resumed

    @property
    def finished(self) -> bool:
        return self.settled

    @property
    @abstractmethod
    def data_sets(self) -> tuple[Any, ...]:
        """The data sets, which must not differ when resuming."""

    def position(self) -> tuple[dict[str, float], dict[str, Tensor]]:
        """Position within an epoch: JSON values, and tensors. Empty if every step uses the full data set."""
        return {}, {}

    def set_position(self, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """The inverse of :meth:`position`."""

    @property
    def _modules(self) -> dict[str, nn.Module]:
        return {"model": self.model, "guide": self.guide}

    def settings(self) -> dict[str, Any]:
        schedule = ("rule", "birth", "removals", "every", "patience", "settle", "max_components", "site")
        growth = self.growth
        return {
            "train": {name: value for name, value in plain(self.config).items() if name not in _FREE},
            "growth": None if growth is None else {name: plain(getattr(growth, name)) for name in schedule},
            "data": [None if data is None else fingerprint(data) for data in self.data_sets],
        }

    def capture(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        modules = self._modules
        numbers, random = random_state()
        position, place = self.position()
        config = {name: getattr(self, name) for name in self.COUNTS} | {
            "settled": self.settled,
            "num_components": num_components(modules.values()),
            "history": asdict(self.history),
            "position": position,
            "growth": None if self.growth is None else self.growth.state_dict(),
            "rates": [float(group["lr"]) for group in self.optimizer.param_groups],
            "random": random,
        }
        tensors = prefixed(
            state=module_state(modules),
            optimizer=optimizer_state(self.optimizer, modules),
            random=numbers,
            data=place,
        )
        return config, tensors

    def restore_parameters(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Restores K, parameters, optimizer and growth handler, but no counters and no random states."""
        modules = self._modules
        K = config["num_components"]
        check(type(K) is int and K >= 1, "num_components >= 1", repr(K))
        load_modules(modules, parts(tensors, "state"), K)
        load_optimizer(self.optimizer, modules, parts(tensors, "optimizer"), config["rates"])
        if self.growth is not None:
            self.growth.load_state_dict(config["growth"])
            self.growth.reset()

    def _saved_history(self, saved: Mapping[str, Any]) -> Any:
        """The saved history; raises if it holds anything but numbers."""
        kind = type(self.history)
        for name, default in asdict(kind()).items():
            fine = isinstance(saved[name], type(default)) and all(
                isinstance(x, int | float) for x in (saved[name] if isinstance(default, list) else [])
            )
            check(fine, f"numbers in the history of {name}", type(saved[name]).__name__)
        return kind(**saved)

    def restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        history = self._saved_history(config["history"])
        for name in self.COUNTS:
            check(type(config[name]) is int and config[name] >= 0, f"{name} to be a count", repr(config[name]))
        self.restore_parameters(config, tensors)
        self.set_position(config["position"], parts(tensors, "data"))
        for name in self.COUNTS:
            setattr(self, name, config[name])
        self.restored_epochs = config.get("epoch", 0)
        self.settled, self.history = bool(config["settled"]), history
        set_random_state(parts(tensors, "random"), config["random"])
