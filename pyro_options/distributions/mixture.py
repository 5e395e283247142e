"""A mixture with the component of each row summed out."""

from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_options.errors import InputError


class Mixture(TorchDistribution):
    r"""A mixture whose weights may sum to less than one: the rest is the mass of components not yet created.

    .. math:: \log p(x) = \log \sum_k \eta_k\,p_k(x)

    Weights and components may depend on the row, as in a mixture of regressions: ``components`` of batch shape
    ``(N, K)`` are N distributions over rows, each a mixture of K.

    :param log_weights: log η, shape ``(K,)`` or ``(..., K)``, with η summing to at most one
    :param components: :math:`p_k`, a distribution of batch shape ``(K,)`` or ``(..., K)``
    """

    arg_constraints: ClassVar[dict] = {}

    def __init__(self, log_weights, components, batch_shape=torch.Size(), validate_args=None):
        if not components.batch_shape or log_weights.shape[-1:] != components.batch_shape[-1:]:
            raise InputError(
                f"Expected log_weights (..., K) and components of batch shape (..., K) but got "
                f"{tuple(log_weights.shape)} and {tuple(components.batch_shape)}."
            )
        own = torch.broadcast_shapes(log_weights.shape[:-1], components.batch_shape[:-1])
        self.log_weights, self.components = log_weights, components
        super().__init__(torch.broadcast_shapes(own, batch_shape), components.event_shape, validate_args=False)

    @property
    def num_components(self) -> int:
        """K."""
        return self.log_weights.shape[-1]

    @property
    def support(self):
        return self.components.support

    def expand(self, batch_shape, _instance=None):
        return Mixture(self.log_weights, self.components, batch_shape)

    def component_log_prob(self, value: Tensor) -> Tensor:
        """``(..., K)`` log p_k(x)."""
        return self.components.log_prob(value.unsqueeze(-1 - len(self.event_shape)))

    def responsibilities(self, value: Tensor) -> Tensor:
        """``(..., K)`` p(component = k | x)."""
        return torch.softmax(self.log_weights + self.component_log_prob(value), -1)

    def log_prob(self, value):
        return torch.logsumexp(self.log_weights + self.component_log_prob(value), -1)

    def weighed(self, value: Tensor):
        """The log-probability of ``value`` as a function of the log weights; everything else is computed once, here.

        ``None`` if the weights depend on the row: what they are under other weights is for the model to say.
        """
        if self.log_weights.dim() > 1:
            return None
        log_prob = self.component_log_prob(value)
        return lambda log_weights: torch.logsumexp(log_weights + log_prob, -1)

    def sample(self, sample_shape=torch.Size()):
        """Rows from the K components, with the weights renormalized to sum to one."""
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)[: len(sample_shape) + len(self.batch_shape)]
            logits = self.log_weights.expand(self.batch_shape + (self.num_components,))
            chosen = torch.distributions.Categorical(logits=logits, validate_args=False).sample(sample_shape)
            if len(self.components.batch_shape) == 1:
                rows = self.components.sample(shape)  # (..., K, event)
            else:
                rows = self.components.expand(self.batch_shape + (self.num_components,)).sample(sample_shape)
            index = chosen.reshape(shape + (1,) * (1 + len(self.event_shape)))
            return rows.gather(len(shape), index.expand(shape + (1,) + self.event_shape)).squeeze(len(shape))
