"""Actions of an episode given its path: one component per option, weighted by the options in use."""

import math
from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints

from pyro_options.distributions.log_space import log_mix
from pyro_options.errors import InputError

_FEW = 8  # actions


class OptionActions(TorchDistribution):
    r"""Actions with one component per option.

    .. math:: \log p(a\mid\zeta) = \sum_t \log \sum_k h_{t,k}\,\pi_k(a_t\mid s_t)

    For a discrete path this is :math:`\pi_{h_t}`, for a relaxed one the mixture that the paper's code uses. A subclass
    defines ``component_log_prob(actions)``, :math:`\log\pi_k(a_t\mid s_t)` of shape ``(..., T, K)``, and
    ``given(path)``, the same components under another path.

    :param path: path tensor ``(..., T, K + 1)``; anything else when only the components are asked for
    :param mask: steps in use ``(..., T)``
    """

    arg_constraints: ClassVar[dict] = {}

    def __init__(self, batch_shape, event_shape, path=None, mask=None):
        self.path, self.step_mask = path, mask
        super().__init__(torch.Size(batch_shape), torch.Size(event_shape), validate_args=False)

    def _options(self) -> Tensor:
        if not isinstance(self.path, Tensor):
            raise InputError(
                f"Expected a path tensor but got {self.path!r}. Give the policy a path, or sum it out with "
                "pyro_options.handlers.collapse."
            )
        return self.path[..., 1:]

    def responsibilities(self, value: Tensor) -> Tensor:
        """``(..., T, K)``: the options of the path itself; padded steps hold zeros."""
        h = self._options()
        return h if self.step_mask is None else h * self.step_mask.unsqueeze(-1)

    def log_prob(self, value):
        h = self._options()
        per_step = log_mix(h, self.component_log_prob(value))  # (..., T)
        if self.step_mask is not None:
            per_step = torch.where(self.step_mask, per_step, torch.zeros_like(per_step))
        return per_step.sum(-1)


class CategoricalActions(OptionActions):
    """Discrete actions.

    :param logits: ``(..., T, K, A)``
    """

    support = constraints.independent(constraints.nonnegative_integer, 1)

    def __init__(self, logits, path=None, mask=None):
        self.logits = logits
        super().__init__(logits.shape[:-3], logits.shape[-3:-2], path, mask)

    def given(self, path):
        """The actions given another path."""
        return CategoricalActions(self.logits, path, self.step_mask)

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        mask = None if self.step_mask is None else self.step_mask.expand(shape + self.event_shape)
        return CategoricalActions(self.logits.expand(shape + self.logits.shape[-3:]), self.path, mask)

    def component_log_prob(self, value):
        """log π_k(a_t | s_t), ``(..., T, K)``."""
        logits = self.logits.expand(value.shape + self.logits.shape[-2:])
        chosen = value[..., None, None].expand(logits.shape[:-1] + (1,))
        if logits.shape[-1] <= _FEW:  # a softmax over few numbers costs more than two passes over them
            return logits.gather(-1, chosen).squeeze(-1) - torch.logsumexp(logits, -1)
        return torch.log_softmax(logits, -1).gather(-1, chosen).squeeze(-1)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            probs = (self._options().unsqueeze(-1) * torch.softmax(self.logits, -1)).sum(-2)
            return torch.distributions.Categorical(probs=probs, validate_args=False).sample(sample_shape)


class GaussianActions(OptionActions):
    """Continuous actions with a diagonal Gaussian per option.

    :param mean: ``(..., T, K, A)``
    :param log_scale: broadcastable to ``mean``
    """

    support = constraints.independent(constraints.real, 2)

    def __init__(self, mean, log_scale, path=None, mask=None):
        self.mean_action, self.log_scale = mean, log_scale
        super().__init__(mean.shape[:-3], mean.shape[-3:-2] + mean.shape[-1:], path, mask)

    def given(self, path):
        """The actions given another path."""
        return GaussianActions(self.mean_action, self.log_scale, path, self.step_mask)

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        mask = None if self.step_mask is None else self.step_mask.expand(shape + self.event_shape[:1])
        mean = self.mean_action.expand(shape + self.mean_action.shape[-3:])
        return GaussianActions(mean, self.log_scale, self.path, mask)

    def component_log_prob(self, value):
        """log π_k(a_t | s_t), ``(..., T, K)``."""
        standardized = (value.unsqueeze(-2) - self.mean_action) * torch.exp(-self.log_scale)
        return (-0.5 * standardized**2 - self.log_scale - 0.5 * math.log(2 * math.pi)).sum(-1)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            h = self._options()
            option = torch.distributions.Categorical(probs=h, validate_args=False).sample(sample_shape)
            index = option[..., None, None].expand(option.shape + (1, self.mean_action.shape[-1]))
            mean = self.mean_action.expand(option.shape + self.mean_action.shape[-2:]).gather(-2, index).squeeze(-2)
            log_scale = self.log_scale.expand(option.shape + self.mean_action.shape[-2:]).gather(-2, index).squeeze(-2)
            return mean + torch.exp(log_scale) * torch.randn_like(mean)
