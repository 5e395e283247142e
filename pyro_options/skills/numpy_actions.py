"""Actions and their log-probabilities from the outputs of a policy, in numpy."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_options.errors import check
from pyro_options.options.policies import CategoricalPolicy, GaussianHeads, MixedPolicy, OptionPolicy


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-softmax over the last dimension."""
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def _log_ndtr(x: np.ndarray) -> np.ndarray:
    """Log of the standard normal distribution function; torch has the one that does not underflow."""
    return torch.special.log_ndtr(torch.from_numpy(x)).numpy()


def _draw(logits: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """The most probable index, or a random one."""
    return (logits if rng is None else logits + rng.gumbel(size=logits.shape)).argmax(-1)


class CategoricalRule:
    """Actions of a :class:`~pyro_options.options.CategoricalPolicy`."""

    def act(self, outputs: np.ndarray, option: Any, rng: np.random.Generator | None) -> Any:
        """The action for the outputs ``(..., A)`` of an option: the most probable one if ``rng`` is ``None``."""
        action = _draw(outputs, rng)
        return int(action) if outputs.ndim == 1 else action

    def scores(self, outputs: np.ndarray, action: np.ndarray) -> np.ndarray:
        """log π_k(a | s) ``(..., K)`` from the outputs ``(..., K, A)`` of all options."""
        A = outputs.shape[-1]
        fits = action.shape == outputs.shape[:-2] and action.dtype.kind in "iu"
        inside = fits and bool(((action >= 0) & (action < A)).all())
        check(inside, f"integers in [0, {A - 1}] as actions, one for each observation", action)
        return np.take_along_axis(log_softmax(outputs), action[..., None, None], -1)[..., 0]


class GaussianRule:
    """Actions of a :class:`~pyro_options.options.GaussianPolicy`: see :class:`CategoricalRule`."""

    def __init__(self, policy: GaussianHeads):
        self.scale = np.exp(policy.total_log_scale().detach().cpu().numpy())  # (K, A)
        kind = self.scale.dtype
        self.bounds = policy.low.cpu().numpy().astype(kind), policy.high.cpu().numpy().astype(kind)
        self.saturates = policy.saturates

    def act(self, outputs: np.ndarray, option: Any, rng: np.random.Generator | None) -> np.ndarray:
        """``(..., A)``: the mean if ``rng`` is ``None``."""
        if rng is not None:
            noise = rng.standard_normal(outputs.shape, dtype=outputs.dtype)
            outputs = outputs + self.scale[np.asarray(option)] * noise
        return np.clip(outputs, *self.bounds) if self.saturates else outputs

    def scores(self, outputs: np.ndarray, action: np.ndarray) -> np.ndarray:
        """log π_k(a | s) ``(..., K)`` from the outputs ``(..., K, A)`` of all options."""
        shape = outputs.shape[:-2] + outputs.shape[-1:]
        check(action.shape == shape, f"actions of shape {shape}", action.shape)
        scale = self.scale.astype(np.float64)
        scores = -0.5 * ((action[..., None, :] - outputs) / scale) ** 2 - np.log(scale) - 0.5 * math.log(2 * math.pi)
        if self.saturates:
            for bound, sign in zip(self.bounds, (1.0, -1.0)):
                tail = _log_ndtr(sign * (np.where(np.isfinite(bound), bound, 0.0) - outputs) / scale)
                scores = np.where(sign * action[..., None, :] <= sign * bound, tail, scores)
        return scores.sum(-1)


class MixedRule:
    """Actions of a :class:`~pyro_options.options.MixedPolicy`: see :class:`CategoricalRule`."""

    def __init__(self, policy: MixedPolicy):
        self.gaussian, self.layout = GaussianRule(policy), policy.layout
        self.like = policy.log_scale.value.detach().cpu()
        self._values = {d: values.numpy() for d, values in zip(self.layout.values, self.layout.tensors(self.like))}

    def _parts(self, outputs: np.ndarray) -> list[np.ndarray]:
        return np.split(outputs, np.cumsum(self.layout.sizes)[:-1], -1)

    def act(self, outputs: np.ndarray, option: Any, rng: np.random.Generator | None) -> np.ndarray:
        """``(..., A)``: means and most probable values if ``rng`` is ``None``."""
        real, *logits = self._parts(outputs)
        action = np.empty((*outputs.shape[:-1], self.layout.action_dim), outputs.dtype)
        if self.layout.real:
            action[..., self.layout.real] = self.gaussian.act(real, option, rng)
        for (d, values), part in zip(self._values.items(), logits):
            action[..., d] = values[_draw(part, rng)]
        return action.astype(np.int64) if self.layout.integers else action

    def scores(self, outputs: np.ndarray, action: np.ndarray) -> np.ndarray:
        """log π_k(a | s) ``(..., K)`` from the outputs ``(..., K, out)`` of all options."""
        shape = (*outputs.shape[:-2], self.layout.action_dim)
        check(action.shape == shape, f"actions of shape {shape}", action.shape)
        index = known_indices(self.layout, torch.as_tensor(action), self.like).numpy()
        real, *logits = self._parts(outputs)
        total = self.gaussian.scores(real, action[..., self.layout.real].astype(np.float64))
        for i, part in enumerate(logits):
            total = total + np.take_along_axis(log_softmax(part), index[..., i, None, None], -1)[..., 0]
        return total


ActionRule = CategoricalRule | GaussianRule | MixedRule


def action_rule(policy: OptionPolicy) -> ActionRule:
    """How a policy acts."""
    if isinstance(policy, CategoricalPolicy):
        return CategoricalRule()
    return MixedRule(policy) if isinstance(policy, MixedPolicy) else GaussianRule(policy)


def known_indices(layout: Any, actions: Tensor, like: Tensor, place_name: Callable[[int], str] | None = None) -> Tensor:
    """The index of the value of each categorical dimension ``(..., C)``; raises if one has none of its values.

    :param place_name: for actions ``(steps, A)``, what the error calls a step
    """
    index, known = layout.indices(actions, like)
    if not bool(known.all()):
        place = (~known).nonzero()[0].tolist()
        d = list(layout.values)[place[-1]]
        values, got = layout.values[d], actions[tuple(place[:-1])][d]
        where = "" if place_name is None else f" at {place_name(place[0])}"
        listed = ", ".join(f"{value:g}" for value in values)
        fix = "Train on data that have it, or with a Gaussian for this dimension: action_families=…"
        check(False, f"action dimension {d} to be one of {listed}", f"{float(got):g}{where}", fix)
    return index
