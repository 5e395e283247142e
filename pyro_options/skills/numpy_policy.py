"""The heads of one option on one observation, in numpy: torch alone would cost more than the arithmetic."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from pyro_options.nn.varying_inputs import VaryingInputs

Step = Callable[[np.ndarray], np.ndarray]


def layers_of(network: nn.Module) -> list[nn.Module] | None:
    """The layers of a state network if each is one that we know (selection, linear, ReLU), else ``None``."""
    layers = list(network) if isinstance(network, nn.Sequential) else [network]
    return layers if all(isinstance(layer, VaryingInputs | nn.Linear | nn.ReLU) for layer in layers) else None


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _step(layer: nn.Module) -> Step:
    if isinstance(layer, VaryingInputs):
        index = _array(layer.index)
        return lambda x: x.take(index, -1)
    if isinstance(layer, nn.Linear):
        weight = np.ascontiguousarray(_array(layer.weight).T)
        bias: Any = 0.0 if layer.bias is None else _array(layer.bias)
        return lambda x: x @ weight + bias
    return lambda x: np.maximum(x, 0)


def _through_torch(network: nn.Module, like: torch.Tensor) -> Step:
    def run(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return _array(network(torch.as_tensor(x, dtype=like.dtype, device=like.device)))

    return run


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities, along the last dimension."""
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


class NumpyHeads:
    """``(state_dim,)`` or ``(n, state_dim)`` to what the head of an option says, ``(out,)`` or ``(n, out)``.

    Without an option to what all of them say, ``(K, out)`` or ``(n, K, out)``.

    :param module: a policy or a termination: a state network, and growable heads on it
    """

    def __init__(self, module: nn.Module):
        heads, layers = module.heads, layers_of(module.network)
        self.weight, self.bias = _array(heads.weight), _array(heads.bias)  # (K, out, features), (K, out)
        steps = [_through_torch(module.network, heads.weight)] if layers is None else [_step(layer) for layer in layers]
        # Selecting bytes is cheaper than selecting the numbers that they become.
        selects = layers is not None and len(layers) >= 1 and isinstance(layers[0], VaryingInputs)
        self._select = steps.pop(0) if selects else None
        self._steps = steps

    def features(self, states: np.ndarray) -> np.ndarray:
        """What the last layer sees, in numpy."""
        x = states if self._select is None else self._select(states)
        x = x.astype(self.weight.dtype, copy=False)
        for step in self._steps:
            x = step(x)
        return x

    def __call__(self, states: np.ndarray, option: int | np.ndarray | None) -> np.ndarray:
        x = self.features(states)
        if option is None:
            return np.tensordot(x, self.weight, (-1, -1)) + self.bias
        weight, bias = self.weight[option], self.bias[option]
        if x.ndim == 1:
            return weight @ x + bias
        return (x @ weight.T if weight.ndim == 2 else np.einsum("nof,nf->no", weight, x)) + bias
