"""A mixture with the component of each row summed out."""

from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_options.errors import InputError


class Mixture(TorchDistribution):
    r"""A mixture whose weights may sum to less than one: the rest is the mass of components not yet created.

    .. math:: \log p(x) = \log \sum_k \eta_k\,p_k(x)

    :param log_weights: log η, shape ``(K,)`` or ``(..., K)``, with η summing to at most one
    :param components: :math:`p_k`, a distribution of batch shape ``(K,)``
    """

    arg_constraints: ClassVar[dict] = {}

    def __init__(self, log_weights, components, batch_shape=torch.Size(), validate_args=None):
        K = log_weights.shape[-1]
        if components.batch_shape != (K,):
            raise InputError(
                f"Expected log_weights (..., K) and components of batch shape (K,) but got {tuple(log_weights.shape)} "
                f"and {tuple(components.batch_shape)}."
            )
        self.log_weights, self.components = log_weights, components
        shape = torch.broadcast_shapes(batch_shape, log_weights.shape[:-1])
        super().__init__(shape, components.event_shape, validate_args=False)

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
        """The log-probability of ``value`` as a function of the log weights; everything else is computed once, here."""
        log_prob = self.component_log_prob(value)
        return lambda log_weights: torch.logsumexp(log_weights + log_prob, -1)

    def sample(self, sample_shape=torch.Size()):
        """Rows from the K components, with the weights renormalized to sum to one."""
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)[: len(sample_shape) + len(self.batch_shape)]
            logits = self.log_weights.expand(self.batch_shape + (self.num_components,))
            chosen = torch.distributions.Categorical(logits=logits, validate_args=False).sample(sample_shape)
            rows = self.components.sample(shape)  # (..., K, event)
            index = chosen.reshape(shape + (1,) * (1 + len(self.event_shape)))
            return rows.gather(len(shape), index.expand(shape + (1,) + self.event_shape)).squeeze(len(shape))
