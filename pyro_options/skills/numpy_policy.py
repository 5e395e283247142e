"""Policy and termination heads in numpy: for a single observation, torch's overhead exceeds the computation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from pyro_options.nn.standardized_inputs import StandardizedInputs
from pyro_options.nn.varying_inputs import VaryingInputs
from pyro_options.options.policies import GaussianHeads

Step = Callable[[np.ndarray], np.ndarray]


def layers_of(network: nn.Module) -> list[nn.Module] | None:
    """The layers of a state network if all are supported (``VaryingInputs``, ``Linear``, ``ReLU``), else ``None``."""
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


def _steps(layers: list[nn.Module]) -> list[Step]:
    steps = [_step(layer) for layer in layers]
    if layers and isinstance(layers[0], StandardizedInputs):  # two steps: the selection happens before the conversion
        center, scale = _array(layers[0].center), _array(layers[0].scale)
        kind = _array(layers[0].like).dtype
        steps.insert(1, lambda x: ((x - center) / scale).astype(kind))
    return steps


def _through_torch(network: nn.Module, like: torch.Tensor) -> Step:
    def run(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return _array(network(torch.as_tensor(x, dtype=like.dtype, device=like.device)))

    return run


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax over the last dimension."""
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


class NumpyHeads:
    """Evaluates the heads of a policy or a termination on states ``(state_dim,)`` or ``(n, state_dim)``.

    The output of one option is ``(out,)`` or ``(n, out)``; of all options (``option=None``), ``(K, out)`` or
    ``(n, K, out)``.

    :param module: a policy or a termination: a state network with growable heads
    """

    def __init__(self, module: nn.Module):
        heads, layers = module.heads, layers_of(module.network)
        self.weight, self.bias = _array(heads.weight), _array(heads.bias)  # (K, out, features), (K, out)
        if isinstance(module, GaussianHeads):  # in the units of the actions
            center, unit = _array(module.center), _array(module.unit)
            logits = self.bias.shape[-1] - len(unit)  # behind the means
            center, unit = np.pad(center, (0, logits)), np.pad(unit, (0, logits), constant_values=1.0)
            kind = self.weight.dtype
            self.weight = (self.weight * unit[:, None]).astype(kind)
            self.bias = (self.bias * unit + center).astype(kind)
        steps = [_through_torch(module.network, heads.weight)] if layers is None else _steps(layers)
        # Entries are selected before the conversion to floating point, which is cheaper.
        selects = layers is not None and len(layers) >= 1 and isinstance(layers[0], VaryingInputs)
        self._select = steps.pop(0) if selects else None
        self._exact = selects and isinstance(layers[0], StandardizedInputs)  # type: ignore[index]
        self._steps = steps

    def features(self, states: np.ndarray) -> np.ndarray:
        """The input of the heads."""
        x = states if self._select is None else self._select(states)
        if not self._exact:  # large values lose digits
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
