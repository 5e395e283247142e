"""Snapshots of growable layers and their optimizer state, to undo a move bit for bit."""

from collections.abc import Iterable

from pyro.optim import PyroOptim
from torch import Tensor, nn
from torch.optim import Optimizer

from .growable import growables
from .resizing import optimizers_of, set_data


class Snapshot:
    """Copies of the tensors of growable layers, those in ``shared`` included, with gradients and optimizer state.

    :param modules: usually ``[model, guide]``
    :param optimizer: the torch or Pyro optimizer that trains them
    """

    def __init__(self, modules: Iterable[nn.Module], optimizer: Optimizer | PyroOptim | None = None):
        self._values: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self._states: list[tuple[dict, dict]] = []
        for layer in growables(modules):
            for name in (*layer.component_axes, *layer.shared):
                tensor = getattr(layer, name)
                grad = None if tensor.grad is None else tensor.grad.clone()
                self._values.append((tensor, tensor.data.clone(), grad))
                for holder in optimizers_of(optimizer, tensor):
                    state = holder.state.get(tensor, {})
                    copy = {k: v.clone() if isinstance(v, Tensor) else v for k, v in state.items()}
                    self._states.append((state, copy))

    def restore(self) -> None:
        """Restores tensors, gradients and optimizer state; also more than once."""
        for tensor, value, grad in self._values:
            set_data(tensor, value.clone())  # what happens to the tensor next must not change the snapshot
            tensor.grad = None if grad is None else grad.clone()
        for state, copy in self._states:
            state.clear()
            state.update({k: v.clone() if isinstance(v, Tensor) else v for k, v in copy.items()})
