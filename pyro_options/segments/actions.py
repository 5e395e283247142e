"""Distributions of the skills of segments, and of actions given segments and skills."""

import copy
import math
from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.nn.functional import one_hot

from pyro_options.distributions.log_space import log_mix
from pyro_options.distributions.one_hot_rows import OneHotRows
from pyro_options.distributions.sticks import with_unassigned

from .boundaries import segment_masks


class SegmentSkills(TorchDistribution):
    r"""The skills of M segments, drawn independently from the weights.

    .. math:: p(h) = \prod_j \eta^\top h_j

    A value has event shape ``(M, K)``: one-hot, or relaxed. A row of zeros is a skill not yet created: it has the mass
    that the weights leave.

    :param log_weights: log η, ``(K,)`` or ``(..., K)``, with η summing to at most one
    :param num_segments: M
    :param batch_shape: of the episodes
    """

    arg_constraints: ClassVar[dict] = {}
    support = OneHotRows("skills of segments")

    def __init__(self, log_weights: Tensor, num_segments: int, batch_shape=torch.Size()):
        self.log_weights = log_weights
        shape = torch.broadcast_shapes(batch_shape, log_weights.shape[:-1])
        super().__init__(shape, torch.Size((num_segments, log_weights.shape[-1])), validate_args=False)

    def expand(self, batch_shape, _instance=None):
        new = copy.copy(self)
        new._batch_shape = torch.Size(batch_shape)
        return new

    def normalized(self) -> "SegmentSkills":
        """The distribution with weights that sum to one, to generate data from the K skills only."""
        return SegmentSkills(torch.log_softmax(self.log_weights, -1), self.event_shape[0], self.batch_shape)

    def log_prob(self, value):
        draws = with_unassigned(self.log_weights).unsqueeze(-2)  # (..., 1, K + 1)
        log_prob = log_mix(value, draws[..., :-1])
        return torch.where((value == 0).all(-1), draws[..., -1], log_prob).sum(-1)

    def sample(self, sample_shape=torch.Size()):
        M, K = self.event_shape
        with torch.no_grad():
            draws = with_unassigned(self.log_weights).unsqueeze(-2).expand(self.batch_shape + (M, K + 1))
            drawn = torch.distributions.Categorical(logits=draws, validate_args=False).sample(sample_shape)
            return one_hot(drawn, K + 1)[..., :-1].to(self.log_weights.dtype)

    def rsample(self, sample_shape=torch.Size()):
        """The same as :meth:`sample`: discrete skills carry no gradient."""
        return self.sample(sample_shape)


class SegmentedActions(TorchDistribution):
    r"""Actions of an episode given the boundaries and skills of its segments.

    .. math:: \log p(a\mid b, h) = \sum_t \sum_j m_j(t) \log \sum_k h_{j,k}\,\pi_k(a_t\mid s_t)

    with the masks :math:`m_j(t)` of :func:`segment_masks`. For discrete boundaries and skills the likelihood of a step
    is :math:`\pi_{h_{j(t)}}`. If one of the skills is not yet created, a row of zeros, the density is practically zero;
    its actions are then sampled from one of the K skills, all equally likely.

    :param likelihood: the components, an :class:`~pyro_options.options.OptionActions`
    :param boundaries: ``(..., M - 1, T + 1)``
    :param skills: ``(..., M, K)``
    :param mask: unpadded steps ``(..., T)``
    """

    arg_constraints: ClassVar[dict] = {}

    def __init__(self, likelihood, boundaries, skills, mask: Tensor):
        self.likelihood, self.boundaries, self.skills, self.step_mask = likelihood, boundaries, skills, mask
        shape = likelihood.batch_shape
        if isinstance(skills, Tensor):  # particles may have added dimensions to the latents alone
            shape = torch.broadcast_shapes(shape, skills.shape[:-2])
        super().__init__(shape, likelihood.event_shape, validate_args=False)

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
        log_prob = torch.where(self.step_mask.unsqueeze(-1), masks * per_segment, masks.new_zeros(())).sum((-1, -2))
        unborn = (self.skills == 0).all(-1).sum(-1)  # a skill not yet created, also that of an empty segment
        return log_prob + unborn * math.log(torch.finfo(log_prob.dtype).tiny)

    def given(self, path: Tensor) -> TorchDistribution:
        """The same components under a path ``(..., T, K + 1)``."""
        return self.likelihood.given(path)

    def sample(self, sample_shape=torch.Size()):
        options = segment_masks(self.boundaries, self.step_mask).transpose(-1, -2) @ self.skills
        options = torch.where((options == 0).all(-1, keepdim=True), 1 / options.shape[-1], options)  # padding too
        return self.given(torch.cat([torch.zeros_like(options[..., :1]), options], -1)).sample(sample_shape)
