"""The distribution of actions whose dimensions belong to different families."""

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import one_hot

from .actions import CategoricalActions, GaussianActions, OptionActions
from .families import ActionLayout


class MixedActions(OptionActions):
    r"""Actions whose dimensions are independent given option and state; an :class:`OptionActions` of shape ``(T, A)``.

    .. math:: \pi_k(a_t\mid s_t) = \prod_{d\in G} N(a_{t,d};\, \mu_{t,k,d}, \sigma_{t,k,d}^2)
        \prod_{d\notin G} \mathrm{softmax}(l_{t,k,d})_{a_{t,d}}

    The factor of a categorical dimension is a probability, not a density, so it does not depend on the units of the
    action. An action with none of the values of its family has log-probability minus infinity, but not in padded steps.

    :param layout: the families of the dimensions
    :param gaussian: the distribution of the Gaussian dimensions G, which may be none
    :param choices: the distributions of the categorical dimensions
    :param path: as in :class:`OptionActions`
    :param mask: unpadded steps ``(..., T)``
    """

    support = constraints.independent(constraints.real, 2)

    def __init__(
        self, layout: ActionLayout, gaussian: GaussianActions, choices: list[CategoricalActions], path=None, mask=None
    ):
        self.layout, self.gaussian, self.choices = layout, gaussian, choices
        super().__init__(gaussian.batch_shape, (gaussian.event_shape[0], layout.action_dim), path, mask)

    def given(self, path):
        """The actions given another path."""
        return MixedActions(self.layout, self.gaussian, self.choices, path, self.step_mask)

    def component_log_prob(self, value):
        """log π_k(a_t | s_t), ``(..., T, K)``."""
        like = self.gaussian.mean_action
        index, known = self.layout.indices(value, like)
        total = self.gaussian.component_log_prob(value[..., self.layout.real].to(like.dtype))
        for i, part in enumerate(self.choices):
            total = total + part.component_log_prob(index[..., i])
        inside = known.all(-1)
        if self.step_mask is not None:
            inside = inside | ~self.step_mask
        return torch.where(inside.unsqueeze(-1), total, -torch.inf)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            h = self._acting()
            # one option for all dimensions of a step, even if the path is relaxed
            option = torch.distributions.Categorical(probs=h, validate_args=False).sample(sample_shape)
            chosen = one_hot(option, h.shape[-1]).to(h.dtype)
            path = torch.cat([torch.zeros_like(chosen[..., :1]), chosen], -1)
            real: Tensor = self.gaussian.given(path).sample()
            drawn = [part.given(path).sample() for part in self.choices]
            return self.layout.join(real, torch.stack(drawn, -1) if drawn else option.unsqueeze(-1))
