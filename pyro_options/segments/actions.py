"""Distributions of the skills of segments, and of actions given segments and skills."""

import copy
from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import one_hot

from pyro_options.distributions.log_space import log_mix

from .boundaries import segment_masks


class SegmentSkills(TorchDistribution):
    r"""The skills of M segments, drawn independently from the weights.

    .. math:: p(h) = \prod_j \eta^\top h_j

    A value has event shape ``(M, K)``: one-hot, or relaxed.

    :param log_weights: log η, ``(K,)``, with η summing to at most one
    :param num_segments: M
    :param batch_shape: of the episodes
    """

    arg_constraints: ClassVar[dict] = {}
    support = constraints.independent(constraints.real, 2)

    def __init__(self, log_weights: Tensor, num_segments: int, batch_shape=torch.Size()):
        self.log_weights = log_weights
        super().__init__(torch.Size(batch_shape), torch.Size((num_segments, len(log_weights))), validate_args=False)

    def expand(self, batch_shape, _instance=None):
        return SegmentSkills(self.log_weights, self.event_shape[0], batch_shape)

    def log_prob(self, value):
        return log_mix(value, self.log_weights).sum(-1)

    def sample(self, sample_shape=torch.Size()):
        M, K = self.event_shape
        shape = torch.Size(sample_shape) + self.batch_shape + (M,)
        with torch.no_grad():
            drawn = torch.distributions.Categorical(logits=self.log_weights, validate_args=False).sample(shape)
            return one_hot(drawn, K).to(self.log_weights.dtype)

    def rsample(self, sample_shape=torch.Size()):
        """The same as :meth:`sample`: discrete skills carry no gradient."""
        return self.sample(sample_shape)


class SegmentedActions(TorchDistribution):
    r"""Actions of an episode given the boundaries and skills of its segments.

    .. math:: \log p(a\mid b, h) = \sum_t \sum_j m_j(t) \log \sum_k h_{j,k}\,\pi_k(a_t\mid s_t)

    with the masks :math:`m_j(t)` of :func:`segment_masks`. For discrete boundaries and skills the likelihood of a step
    is :math:`\pi_{h_{j(t)}}`.

    :param likelihood: the components, an :class:`~pyro_options.options.OptionActions`
    :param boundaries: ``(..., M - 1, T + 1)``
    :param skills: ``(..., M, K)``
    :param mask: unpadded steps ``(..., T)``
    """

    arg_constraints: ClassVar[dict] = {}

    def __init__(self, likelihood, boundaries, skills, mask: Tensor):
        self.likelihood, self.boundaries, self.skills, self.step_mask = likelihood, boundaries, skills, mask
        super().__init__(likelihood.batch_shape, likelihood.event_shape, validate_args=False)

    @property
    def support(self):
        return self.likelihood.support

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        new = copy.copy(self)
        new.likelihood, new._batch_shape = self.likelihood.expand(shape), shape
        new.step_mask = self.step_mask.expand(shape + self.step_mask.shape[-1:])
        return new

    def component_log_prob(self, value: Tensor) -> Tensor:
        """log π_k(a_t | s_t), ``(..., T, K)``."""
        return self.likelihood.component_log_prob(value)

    def responsibilities(self, value: Tensor) -> Tensor:
        """``(..., T, K)``: the share of each skill in each step; zero in padded steps."""
        return segment_masks(self.boundaries, self.step_mask).transpose(-1, -2) @ self.skills

    def log_prob(self, value):
        per_segment = log_mix(self.skills.unsqueeze(-3), self.component_log_prob(value).unsqueeze(-2))  # (..., T, M)
        masks = segment_masks(self.boundaries, self.step_mask).transpose(-1, -2)
        return torch.where(self.step_mask.unsqueeze(-1), masks * per_segment, masks.new_zeros(())).sum((-1, -2))

    def given(self, path: Tensor) -> TorchDistribution:
        """The same components under a path ``(..., T, K + 1)``."""
        return self.likelihood.given(path)

    def sample(self, sample_shape=torch.Size()):
        options = segment_masks(self.boundaries, self.step_mask).transpose(-1, -2) @ self.skills
        options = torch.where(self.step_mask.unsqueeze(-1), options, 1 / options.shape[-1])
        return self.given(torch.cat([torch.zeros_like(options[..., :1]), options], -1)).sample(sample_shape)
