"""Distributions of the actions of an episode given its path, with one component per option."""

import copy
import math
from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor, nn
from torch.distributions import constraints

from pyro_options.distributions.log_space import log_mix
from pyro_options.errors import InputError
from pyro_options.kernels.registry import KERNELS, TrackedFunction

KERNEL = KERNELS["log_choice"]


class OptionActions(TorchDistribution):
    r"""Base of action distributions with one component per option.

    .. math:: \log p(a\mid\zeta) = \sum_t \log \sum_k h_{t,k}\,\pi_k(a_t\mid s_t)

    For a discrete path this is :math:`\pi_{h_t}`, for a relaxed one a mixture, as in the paper's code. A subclass
    defines ``component_log_prob(actions)``, :math:`\log\pi_k(a_t\mid s_t)` of shape ``(..., T, K)``, and
    ``given(path)``, the same components under another path.

    Where the path has a row of zeros, an option not yet created, the density is practically zero; an action is then
    sampled from one of the K options, all equally likely.

    :param path: path tensor ``(..., T, K + 1)``; not needed if only the components are used
    :param mask: unpadded steps ``(..., T)``
    """

    arg_constraints: ClassVar[dict] = {}

    def __init__(self, batch_shape, event_shape, path=None, mask=None):
        self.path, self.step_mask = path, mask
        shape = torch.Size(batch_shape)
        if isinstance(path, Tensor):  # particles may have added dimensions to the path alone
            shape = torch.broadcast_shapes(shape, path.shape[:-2])
        super().__init__(shape, torch.Size(event_shape), validate_args=False)

    def expand(self, batch_shape, _instance=None):
        """The same with another batch shape; the components are not copied, they broadcast."""
        new = copy.copy(self)
        new._batch_shape = torch.Size(batch_shape)
        if self.step_mask is not None:
            new.step_mask = self.step_mask.expand(new._batch_shape + self.step_mask.shape[-1:])
        return new

    def _options(self) -> Tensor:
        if not isinstance(self.path, Tensor):
            raise InputError(
                f"Expected a path tensor but got {self.path!r}. Give the policy a path, or sum it out with "
                "pyro_options.handlers.collapse."
            )
        return self.path[..., 1:]

    def _acting(self) -> Tensor:
        """The options of the path, and all K equally where it has a row of zeros: ``(..., T, K)``, to sample from."""
        h = self._options()
        h = torch.where((h == 0).all(-1, keepdim=True), 1 / h.shape[-1], h)
        return h.expand(self.batch_shape + h.shape[-2:])

    def responsibilities(self, value: Tensor) -> Tensor:
        """``(..., T, K)``: the options of the path, since it is given; zero in padded steps."""
        h = self._options()
        return h if self.step_mask is None else h * self.step_mask.unsqueeze(-1)

    def log_prob(self, value):
        h = self._options()
        per_step = log_mix(h, self.component_log_prob(value))  # (..., T)
        if self.step_mask is not None:
            per_step = torch.where(self.step_mask, per_step, torch.zeros_like(per_step))
        log_prob = per_step.sum(-1)
        return log_prob.expand(torch.broadcast_shapes(log_prob.shape, self.batch_shape))


class _CompiledLogChoice(TrackedFunction):
    """Entries ``chosen (R,)`` of the log-softmax of logits ``(R, K, A)``, as ``(R, K)``."""

    @staticmethod
    def forward(ctx, logits, chosen):
        needed = ctx.needs_input_grad[0]
        log_probs, probs = logits.new_empty(logits.shape[:-1]), logits.new_empty(logits.shape if needed else (0, 0, 0))
        KERNEL.run("forward", logits.numel(), (logits, chosen), (log_probs, probs))
        ctx.save_for_backward(logits, chosen, probs)
        return log_probs

    @staticmethod
    def backward(ctx, grad):
        logits, chosen, probs = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient may follow
            taken = nn.functional.one_hot(chosen, logits.shape[-1]).unsqueeze(-2)
            return grad.unsqueeze(-1) * (taken - torch.softmax(logits, -1)), None
        grad_logits = torch.empty_like(probs)
        KERNEL.run("backward", probs.numel(), (grad, chosen, probs), [grad_logits])
        return grad_logits, None


def _outside(chosen: Tensor, num_actions: int) -> bool:
    """Whether any action is not one of these."""
    return chosen.numel() > 0 and not 0 <= int(chosen.min()) <= int(chosen.max()) < num_actions


def log_choice(logits: Tensor, chosen: Tensor) -> Tensor:
    """The log-probability ``(..., K)`` of ``chosen (...)`` by a softmax of logits ``(..., K, A)``."""
    shape = torch.broadcast_shapes(chosen.shape, logits.shape[:-2])
    logits, chosen = logits.expand(shape + logits.shape[-2:]), chosen.expand(shape)
    if not KERNEL.take(logits) or (chosen.is_cpu and _outside(chosen, logits.shape[-1])):
        index = chosen[..., None, None].expand(logits.shape[:-1] + (1,))
        return torch.log_softmax(logits, -1).gather(-1, index).squeeze(-1)  # which says what is wrong with the actions
    flat = logits.reshape(-1, *logits.shape[-2:])
    return _CompiledLogChoice.apply(flat, chosen.reshape(-1).long()).view(logits.shape[:-1])


class CategoricalActions(OptionActions):
    r"""Discrete actions; an :class:`OptionActions` of event shape ``(T,)``.

    .. math:: \pi_k(a_t\mid s_t) = \mathrm{softmax}(l_{t,k})_{a_t}

    :param logits: :math:`l`, ``(..., T, K, A)``
    :param path: as in :class:`OptionActions`
    :param mask: unpadded steps ``(..., T)``
    """

    support = constraints.independent(constraints.nonnegative_integer, 1)

    def __init__(self, logits, path=None, mask=None):
        self.logits = logits
        super().__init__(logits.shape[:-3], logits.shape[-3:-2], path, mask)

    def given(self, path):
        """The actions given another path."""
        return CategoricalActions(self.logits, path, self.step_mask)

    def component_log_prob(self, value):
        """log π_k(a_t | s_t), ``(..., T, K)``."""
        return log_choice(self.logits, value)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            probs = (self._acting().unsqueeze(-1) * torch.softmax(self.logits, -1)).sum(-2)
            return torch.distributions.Categorical(probs=probs, validate_args=False).sample(sample_shape)


class GaussianActions(OptionActions):
    r"""Continuous actions with a diagonal Gaussian per option; an :class:`OptionActions` of event shape ``(T, A)``.

    .. math:: \pi_k(a_t\mid s_t) = N(a_t;\, \mu_{t,k}, \mathrm{diag}(\sigma_{t,k}^2))

    Where commands saturate the Gaussian is censored: an action at a bound has the probability of the whole tail beyond
    it, :math:`\Phi((l - \mu)/\sigma)` at the lower bound l.

    :param mean: :math:`\mu`, ``(..., T, K, A)``
    :param log_scale: :math:`\log\sigma`, broadcastable to ``mean``
    :param path: as in :class:`OptionActions`
    :param mask: unpadded steps ``(..., T)``
    :param bounds: lower and upper bounds of the actions, each ``(A,)``, infinite where there is none; ``None`` for no
        bounds at all
    """

    support = constraints.independent(constraints.real, 2)

    def __init__(self, mean, log_scale, path=None, mask=None, bounds: tuple[Tensor, Tensor] | None = None):
        self.mean_action, self.log_scale, self.bounds = mean, log_scale, bounds
        super().__init__(mean.shape[:-3], mean.shape[-3:-2] + mean.shape[-1:], path, mask)

    def given(self, path):
        """The actions given another path."""
        return GaussianActions(self.mean_action, self.log_scale, path, self.step_mask, self.bounds)

    def component_log_prob(self, value):
        """log π_k(a_t | s_t), ``(..., T, K)``."""
        value, inverse = value.unsqueeze(-2), torch.exp(-self.log_scale)
        if self.bounds is None:
            standardized = (value - self.mean_action) * inverse
        else:
            low, high = self.bounds
            tail = (value <= low).to(inverse) - (value >= high).to(inverse)  # 1, -1 or 0: which one an action lies in
            standardized = (torch.clamp(value, low, high) - self.mean_action) * inverse
        log_prob = -0.5 * standardized**2 - self.log_scale - 0.5 * math.log(2 * math.pi)
        if self.bounds is not None:
            log_prob = torch.where(tail != 0, torch.special.log_ndtr(tail * standardized), log_prob)
        return log_prob.sum(-1)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            option = torch.distributions.Categorical(probs=self._acting(), validate_args=False).sample(sample_shape)
            index = option[..., None, None].expand(option.shape + (1, self.mean_action.shape[-1]))
            mean = self.mean_action.expand(option.shape + self.mean_action.shape[-2:]).gather(-2, index).squeeze(-2)
            log_scale = self.log_scale.expand(option.shape + self.mean_action.shape[-2:]).gather(-2, index).squeeze(-2)
            drawn = mean + torch.exp(log_scale) * torch.randn_like(mean)
            return drawn if self.bounds is None else torch.maximum(torch.minimum(drawn, self.bounds[1]), self.bounds[0])
