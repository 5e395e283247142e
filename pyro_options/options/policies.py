"""Low-level policies and terminations: a shared state network with one linear head per option."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from pyro_options.errors import check
from pyro_options.growth.growable import Growable, GrowableHeads
from pyro_options.nn.networks import mlp, output_size
from pyro_options.nn.shared_product import ReadsStates, shared_product
from pyro_options.nn.standardized_inputs import standardized

from .actions import CategoricalActions, GaussianActions
from .families import ActionFamily, ActionLayout, CategoricalFamily, GaussianFamily, bounds_of
from .mixed_actions import MixedActions


class _OptionHeads(ReadsStates, nn.Module):
    """A state network shared by all options, and a linear head for each.

    :param state_dim: size of a state
    :param num_options: K
    :param out_features: outputs of each head
    :param hidden: widths of the shared network; ``()`` gives each option a single linear layer on the state
    :param network: your own state network instead, mapping ``(..., state_dim)`` to ``(..., features)``
    """

    def __init__(
        self,
        state_dim: int,
        num_options: int,
        out_features: int,
        hidden: Sequence[int] = (),
        network: nn.Module | None = None,
    ):
        super().__init__()
        check(state_dim >= 1, "state_dim >= 1", state_dim)
        check(num_options >= 1, "num_options >= 1", num_options, "Start with at least one option.")
        if network is None:
            network, features = mlp(state_dim, hidden)
        else:
            features = output_size(network, state_dim)
        self.state_dim, self.network = state_dim, network
        self.heads = GrowableHeads(features, num_options, out_features)

    @property
    def num_options(self) -> int:
        return self.heads.num_components

    def state_layer(self):
        network = self.network
        return None if isinstance(network, nn.Sequential) and len(network) == 0 else network, self.heads

    def outputs(self, states: Tensor) -> Tensor:
        """``(..., T, K, out)``."""
        return self.read(states)

    def features(self, states: Tensor) -> Tensor:
        """What the heads read: the output of the shared network."""
        network, _ = self.state_layer()
        return states if network is None else network(states)

    def own_outputs(self, features: Tensor) -> Tensor:
        """The output of each option's head on its own rows: ``(K, B, F)`` to ``(K, B, out)``."""
        return torch.baddbmm(self.heads.bias.unsqueeze(1), features, self.heads.weight.transpose(1, 2))


def rows_of_each(options: Tensor, num_options: int) -> tuple[Tensor, Tensor]:
    """The rows of each option ``(K, B)``, and which of these exist.

    :param options: of each row, ``(S,)``
    """
    counts = torch.bincount(options, minlength=num_options)
    order, most = options.argsort(stable=True), int(counts.max())
    place = torch.arange(most, device=options.device)
    mask = place < counts.unsqueeze(-1)
    first = (counts.cumsum(0) - counts).unsqueeze(-1)
    return order[torch.where(mask, first + place, 0)], mask


class CategoricalPolicy(_OptionHeads):
    """π_k(a | s) over ``num_actions`` discrete actions: states ``(..., T, state_dim)`` to their distribution."""

    def __init__(self, state_dim, num_options, num_actions, hidden=(), network=None):
        check(num_actions >= 1, "num_actions >= 1", num_actions)
        super().__init__(state_dim, num_options, num_actions, hidden, network)
        self.num_actions = num_actions

    @property
    def families(self) -> tuple[ActionFamily, ...]:
        """The family of the one action dimension."""
        return (CategoricalFamily(tuple(range(self.num_actions))),)

    def distribution(self, outputs: Tensor, path=None, mask: Tensor | None = None) -> CategoricalActions:
        """The distribution of actions from the outputs of the heads, ``(..., T, K, num_actions)``."""
        return CategoricalActions(outputs, path, mask)

    def own_log_prob(self, features: Tensor, actions: Tensor) -> Tensor:
        """log π_k(a | s) of rows that each belong to one option: ``(K, B, F)`` and ``(K, B)`` to ``(K, B)``."""
        return self.distribution(self.own_outputs(features).unsqueeze(-2)).component_log_prob(actions).squeeze(-1)

    def forward(self, states: Tensor, path: Tensor | None = None, mask: Tensor | None = None) -> CategoricalActions:
        return self.distribution(self.outputs(states), path, mask)


class LogScale(Growable, nn.Module):
    """A log standard deviation per option and action dimension, independent of the state."""

    component_axes = {"value": 0}

    def __init__(self, num_options: int, action_dim: int):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(num_options, action_dim))

    def forward(self) -> Tensor:
        return self.value


class GaussianHeads(_OptionHeads):
    """Heads whose first outputs are the means of Gaussians: their units, bounds and standard deviations.

    A subclass calls :meth:`_set_gaussian` in its constructor.
    """

    num_actions: int | tuple[int, ...] | None = None  # of discrete actions
    center: Tensor
    unit: Tensor
    low: Tensor
    high: Tensor

    def _set_gaussian(self, size: int, min_log_scale: float, **given: Tensor | None) -> None:
        """Registers ``center``, ``unit``, ``low`` and ``high`` of ``size`` dimensions, ``None`` for the default."""
        self.min_log_scale = min_log_scale
        self.log_scale = LogScale(self.num_options, size)
        defaults = {"center": 0.0, "unit": 1.0, "low": -math.inf, "high": math.inf}
        for name, default in defaults.items():
            value = given.get(name)
            self.register_buffer(name, torch.full((size,), default) if value is None else value.clone())
            shape = tuple(getattr(self, name).shape)
            check(shape == (size,), f"{name} of {size} action dimensions", shape)
        check(bool((self.unit > 0).all()), "units > 0", self.unit.tolist())
        check(bool((self.low < self.high).all()), "low < high", (self.low.tolist(), self.high.tolist()))
        self.saturates = bool((self.low.isfinite() | self.high.isfinite()).any())

    def total_log_scale(self) -> Tensor:
        """Log standard deviations in the units of the actions, ``(K, A)``."""
        return self.standardized_log_scale() + torch.log(self.unit).to(self.heads.weight.dtype)

    def standardized_log_scale(self) -> Tensor:
        """Log standard deviations in multiples of ``unit``, ``(K, A)``."""
        return self.log_scale().clamp(min=self.min_log_scale)

    def gaussian(
        self, outputs: Tensor, path=None, mask: Tensor | None = None, log_scale: Tensor | None = None
    ) -> GaussianActions:
        """The distribution of the Gaussian dimensions from their outputs, ``(..., T, K, A)``.

        :param log_scale: instead of :meth:`total_log_scale`
        """
        bounds = (self.low.to(outputs.dtype), self.high.to(outputs.dtype)) if self.saturates else None
        mean = self.center.to(outputs.dtype) + self.unit.to(outputs.dtype) * outputs
        return GaussianActions(mean, self.total_log_scale() if log_scale is None else log_scale, path, mask, bounds)

    def own_log_prob(self, features: Tensor, actions: Tensor) -> Tensor:
        """log π_k(a | s) of rows that each belong to one option: ``(K, B, F)`` and ``(K, B, A)`` to ``(K, B)``."""
        scale = self.total_log_scale()[:, None, None]
        actions_of = self.distribution(self.own_outputs(features).unsqueeze(-2), log_scale=scale)
        return actions_of.component_log_prob(actions).squeeze(-1)

    def distribution(self, outputs: Tensor, path=None, mask: Tensor | None = None, log_scale: Tensor | None = None):
        """The distribution of actions from the outputs of the heads, ``(..., T, K, out)``.

        :param log_scale: of the Gaussian dimensions, instead of :meth:`total_log_scale`
        """
        raise NotImplementedError

    def standardized_gaussian(self, outputs: Tensor, actions: Tensor) -> tuple[GaussianActions, Tensor, Tensor]:
        """The Gaussian dimensions in multiples of ``unit`` from ``center``, which do not depend on the user's units.

        :param outputs: of these dimensions, ``(..., T, K, A)``
        :param actions: in the user's units, ``(..., T, A)``
        :returns: the distribution, the actions in the same units, and the nats to add to each step for a density in the
            user's units ``(..., T)``
        """
        center, unit, dtype = self.center, self.unit, outputs.dtype
        plain = bool((center == 0).all()) and bool((unit == 1).all())

        def changed(values: Tensor) -> Tensor:
            return values.to(dtype) if plain else standardized(values, center, unit, dtype)

        low, high, values = changed(self.low), changed(self.high), changed(actions)
        inside = (values > low) & (values < high)
        nats = -(inside * torch.log(unit.double())).sum(-1)
        bounds = (low, high) if self.saturates else None
        return GaussianActions(outputs, self.standardized_log_scale(), bounds=bounds), values, nats


class GaussianPolicy(GaussianHeads):
    """π_k(a | s) as a diagonal Gaussian over ``action_dim`` continuous actions.

    :param min_log_scale: lower bound of the log standard deviation in multiples of ``unit``; keeps the density bounded
        if actions are constant
    :param center: the mean is ``center + unit * head(s)``, ``(A,)``; 0 by default
    :param unit: scale of the outputs of the heads, for instance the standard deviation of the actions, ``(A,)``; 1 by
        default. Densities are in the original units of the actions
    :param low: lower bounds at which actions saturate, ``(A,)``; minus infinity, the default, where there is none
    :param high: the same of upper bounds
    """

    def __init__(
        self,
        state_dim,
        num_options,
        action_dim,
        hidden=(),
        network=None,
        min_log_scale: float = -5.0,
        center: Tensor | None = None,
        unit: Tensor | None = None,
        low: Tensor | None = None,
        high: Tensor | None = None,
    ):
        check(action_dim >= 1, "action_dim >= 1", action_dim)
        super().__init__(state_dim, num_options, action_dim, hidden, network)
        self.action_dim = action_dim
        self._set_gaussian(action_dim, min_log_scale, center=center, unit=unit, low=low, high=high)

    @property
    def families(self) -> tuple[ActionFamily, ...]:
        """The family of each action dimension."""
        return tuple(GaussianFamily(*bounds) for bounds in zip(self.low.tolist(), self.high.tolist()))

    def distribution(self, outputs, path=None, mask=None, log_scale=None) -> GaussianActions:
        return self.gaussian(outputs, path, mask, log_scale)

    def standardized_log_prob(self, states: Tensor, actions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """log π_k(a_t | s_t) in standardized units ``(..., T, K)``, and the nats to add to each step in the user's.

        :param actions: in the user's units, ``(..., T, A)``
        :param mask: unpadded steps ``(..., T)``
        """
        gaussian, values, nats = self.standardized_gaussian(self.outputs(states), actions)
        return gaussian.component_log_prob(values), nats * mask

    def forward(self, states: Tensor, path: Tensor | None = None, mask: Tensor | None = None) -> GaussianActions:
        return self.distribution(self.outputs(states), path, mask)


class MixedPolicy(GaussianHeads):
    """π_k(a | s) over actions whose dimensions belong to different families, see :class:`MixedActions`.

    :class:`GaussianPolicy` is the same with Gaussian dimensions alone, and :class:`CategoricalPolicy` with a single
    categorical one; both are faster.

    :param families: a :class:`GaussianFamily` or a :class:`CategoricalFamily` for each dimension of an action
    :param min_log_scale: as in :class:`GaussianPolicy`
    :param center: as in :class:`GaussianPolicy`, of the Gaussian dimensions alone
    :param unit: the same
    :param integers: whether actions are integers, as in a MultiDiscrete space
    """

    def __init__(
        self,
        state_dim,
        num_options,
        families: Sequence[ActionFamily],
        hidden=(),
        network=None,
        min_log_scale: float = -5.0,
        center: Tensor | None = None,
        unit: Tensor | None = None,
        integers: bool = False,
    ):
        layout = ActionLayout(families, integers)
        super().__init__(state_dim, num_options, sum(layout.sizes), hidden, network)
        self.layout, self.action_dim = layout, layout.action_dim
        low, high = bounds_of(families, torch.get_default_dtype() if unit is None else unit.dtype)
        self._set_gaussian(len(layout.real), min_log_scale, center=center, unit=unit, low=low, high=high)

        if integers:
            self.num_actions = tuple(layout.sizes[1:])

    @property
    def families(self) -> tuple[ActionFamily, ...]:
        """The family of each action dimension."""
        return self.layout.families

    def distribution(self, outputs, path=None, mask=None, log_scale=None) -> MixedActions:
        real, *logits = outputs.split(self.layout.sizes, -1)
        gaussian = self.gaussian(real, log_scale=log_scale)
        return MixedActions(self.layout, gaussian, [CategoricalActions(part) for part in logits], path, mask)

    def standardized_log_prob(self, states: Tensor, actions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """As that of :class:`GaussianPolicy`; categorical dimensions have no units."""
        real, *logits = self.outputs(states).split(self.layout.sizes, -1)
        gaussian, values, nats = self.standardized_gaussian(real, actions[..., self.layout.real])
        changed = actions.to(real.dtype, copy=True)
        changed[..., self.layout.real] = values
        whole = MixedActions(self.layout, gaussian, [CategoricalActions(part) for part in logits], mask=mask)
        return whole.component_log_prob(changed), nats * mask

    def forward(self, states: Tensor, path: Tensor | None = None, mask: Tensor | None = None) -> MixedActions:
        return self.distribution(self.outputs(states), path, mask)


#: any of the policies of this module
OptionPolicy = CategoricalPolicy | GaussianPolicy | MixedPolicy


class Termination(_OptionHeads):
    """logit ψ_k(s), where ψ_k(s) is the probability that option k terminates on arrival in state s.

    :param initial_logit: a constant added to every logit, also of options created later
    """

    def __init__(self, state_dim, num_options, hidden=(), network=None, initial_logit: float = 0.0):
        super().__init__(state_dim, num_options, 1, hidden, network)
        self.initial_logit = initial_logit

    def logits(self, outputs: Tensor) -> Tensor:
        """``(..., T, K)`` from the outputs of the heads ``(..., T, K, 1)``."""
        logits = outputs.squeeze(-1)
        return logits + self.initial_logit if self.initial_logit else logits

    def forward(self, states: Tensor) -> Tensor:
        return self.logits(self.outputs(states))


def option_heads(policy: nn.Module, termination: nn.Module, states: Tensor) -> tuple[Callable, Tensor]:
    """Both modules on these states: a function from path and mask to the distribution of actions, and logit ψ.

    The same as calling the two modules, with one matrix product for both if they read the same features.
    """
    with shared_product(states, policy, termination):
        logits = termination(states)
        if not isinstance(policy, _OptionHeads):
            return lambda path=None, mask=None: policy(states, path, mask), logits
        outputs = policy.outputs(states)
        return lambda path=None, mask=None: policy.distribution(outputs, path, mask), logits
