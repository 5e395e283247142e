"""The units of demonstrations: discovery runs on standardized numbers, and skills return to the units of the user."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from pyro_options.data.standardized_steps import StandardizedSteps
from pyro_options.data.trajectories import Trajectories
from pyro_options.nn.standardized_inputs import StandardizedInputs, standardized, units
from pyro_options.nn.varying_inputs import VaryingInputs
from pyro_options.options.families import ActionFamily, ActionLayout, CategoricalFamily, GaussianFamily, bounds_of
from pyro_options.options.policies import GaussianHeads, MixedPolicy
from pyro_options.skills.skills import Skills

from .assembly import Plan
from .budget import action_units
from .config import MethodConfig

#: the first standardized value at least this large is positive: it decides the sign of an entry
_LARGE = 0.5


def _signs(parts: Iterator[Tensor], center: Tensor, scale: Tensor) -> Tensor:
    """1, or -1 for entries whose first standardized value of some size is negative, ``(D,)``."""
    signs = torch.zeros_like(scale)
    for part in parts:
        values = (part.double() - center) / scale
        large = values.abs() >= _LARGE
        first = values.gather(0, large.int().argmax(0, keepdim=True)).squeeze(0)
        signs = torch.where((signs == 0) & large.any(0), first.sign(), signs)
        if bool((signs != 0).all()):
            break
    return torch.where(signs == 0, 1.0, signs)


def _value_units(family: CategoricalFamily) -> tuple[float, float]:
    """The least value, and the smallest distance of two: in these units different values stay different."""
    values = family.values
    return values[0], min((b - a for a, b in pairwise(values)), default=1.0)


@dataclass(frozen=True)
class Units:
    """Center and scale of every entry of states and continuous actions, in double precision.

    Discovery sees standardized numbers alone (:meth:`apply`), which are the same bits after any affine change of an
    entry. So are all that it computes and every decision that it takes; :meth:`restore` puts the units into the skills.
    A negative scale turns an entry around: that of a change with a negative factor.

    :param states: center and scale, each ``(D,)``; ``None`` for packed bits and
        for states that a network of the user's own reads
    :param actions: center and scale, each ``(A,)``; ``None`` for integers
    :param families: of the action dimensions, in the units of the user
    """

    states: tuple[Tensor, Tensor] | None
    actions: tuple[Tensor, Tensor] | None
    families: Any

    @classmethod
    def of(cls, data: Trajectories, families: Any, whole: bool = False) -> "Units":
        """The units of these demonstrations.

        :param families: of the action dimensions, see :func:`~pyro_options.discovery.resolved_families`
        :param whole: whether a network of the user's own reads states as they are
        """
        states = actions = None
        if not data.packed and not whole:
            center, scale = units(data.state_steps)
            states = center, scale * _signs(data.state_steps.chunks(), center, scale)
        if not data.discrete:
            center, scale = action_units(data)
            scale = scale * _signs(data.given_actions().chunks(), center, scale)
            for d, family in enumerate(families):
                if isinstance(family, CategoricalFamily):
                    center[d], scale[d] = _value_units(family)
            actions = center, scale
        return cls(states, actions, families)

    def apply(self, data: Trajectories) -> Trajectories:
        """The same demonstrations in standardized units, without bounds of the action space."""
        dtype, changes = torch.get_default_dtype(), {}
        for name, pair in (("state_steps", self.states), ("action_steps", self.actions)):
            if pair is not None:
                changes[name] = StandardizedSteps(getattr(data, name), *pair, dtype).in_memory()
        return data.with_steps(**changes)

    def of_discovery(
        self, data: Trajectories, test: Trajectories | None, config: MethodConfig
    ) -> tuple[Trajectories, Trajectories | None, MethodConfig]:
        """Demonstrations, those for evaluation and the method, all in standardized units."""
        known = replace(config, standardize=False, action_families=self.standardized_families())
        return self.apply(data), None if test is None else self.apply(test), known

    def plan(self, plan: Plan) -> Plan:
        """A plan of discovery, with the settings that the user sees."""
        return replace(plan, config=replace(plan.config, standardize=True, action_families=self.families))

    def standardized_families(self) -> Any:
        """The families with bounds in standardized units."""
        if self.actions is None:
            return self.families
        dtype = torch.get_default_dtype()
        found: list[ActionFamily] = []
        for family, center, scale in zip(self.families, *(part.cpu() for part in self.actions)):
            if isinstance(family, GaussianFamily):
                ends = torch.cat(bounds_of([family], torch.float64))
                low, high = sorted(standardized(ends, center, scale, dtype).tolist())
                found.append(GaussianFamily(low, high))
            else:
                values = torch.tensor(family.values, dtype=torch.float64)
                found.append(CategoricalFamily(tuple(standardized(values, center, scale, dtype).tolist())))
        return tuple(found)

    def log_determinants(self, data: Trajectories) -> Tensor:
        """Nats that each episode gains in the units of the user, ``(N,)`` in double precision.

        :param data: in standardized units
        """
        if self.actions is None:
            return torch.zeros(len(data), dtype=torch.float64)
        real = [d for d, family in enumerate(self.families) if isinstance(family, GaussianFamily)]
        low, high = bounds_of(self.standardized_families(), torch.get_default_dtype())
        logs = self.actions[1][real].abs().log().cpu()
        inside = (((one[:, real] > low) & (one[:, real] < high)).double() for one in self._episodes(data))
        return torch.stack([-(one @ logs).sum() for one in inside])

    @staticmethod
    def _episodes(data: Trajectories) -> Iterator[Tensor]:
        actions = data.given_actions()
        return (actions.episode(number).cpu() for number in range(len(data)))

    def restore(self, skills: Skills) -> Skills:
        """The same skills in the units of the user; they have no summary."""
        new = copy.copy(skills.only(range(skills.num_options)))
        new.summary = None
        for module in (new.policy, new.termination):
            if self.states is not None:
                self._restore_states(module)
        if self.actions is not None:
            self._restore_actions(new.policy)
        return new

    def _restore_states(self, module: nn.Module) -> None:
        """Puts a layer that standardizes states before the network."""
        assert self.states is not None
        center, scale = (part.to(module.heads.weight.device) for part in self.states)
        network = module.network
        layers = list(network) if isinstance(network, nn.Sequential) else [network]
        selected = VaryingInputs(torch.arange(len(center), device=center.device), len(center))
        if layers and isinstance(layers[0], VaryingInputs):
            selected = layers.pop(0)
        center, scale = center[selected.index], scale[selected.index]
        first = StandardizedInputs.with_units(selected, center, scale.abs())
        module.network = nn.Sequential(first, *layers) if layers else first
        weight = next((layer.weight for layer in layers if isinstance(layer, nn.Linear)), module.heads.weight)
        weight.data = weight.data * scale.sign().to(weight)

    def _restore_actions(self, policy: GaussianHeads) -> None:
        """Sets center, unit and bounds of a policy of standardized actions."""
        assert self.actions is not None
        real = [d for d, family in enumerate(self.families) if isinstance(family, GaussianFamily)]
        center, scale = (part[real].to(policy.center.device) for part in self.actions)
        low, high = (part.to(center) for part in bounds_of(self.families, torch.float64))
        policy.center, policy.unit, policy.low, policy.high = center, scale.abs(), low, high
        heads, count = policy.heads, len(real)
        sign = scale.sign().to(heads.weight)
        heads.weight.data[:, :count] *= sign.unsqueeze(-1)
        heads.bias.data[:, :count] *= sign
        if isinstance(policy, MixedPolicy):
            policy.layout = ActionLayout(self.families, policy.layout.integers)
