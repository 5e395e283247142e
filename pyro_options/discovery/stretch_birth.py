"""Births from stretches of the demonstrations that the present options explain badly."""

import copy
from dataclasses import dataclass
from typing import Any

import torch

from pyro_options.growth.resizing import copy_components, resize, reweight
from pyro_options.growth.scene import Newborns

from .hard_births import best_candidates
from .hard_paths import Demonstrated, HardModel
from .start import DIVISORS, start_from_stretches, stretch_length


@dataclass(frozen=True)
class StretchBirth:
    """New options come from stretches that one policy explains better than the present options, best gains first.

    Two behaviours that share an option come apart so: a stretch of one of them makes an option that explains it better,
    wherever it occurs. Noisy copies of the option rarely do, since each takes the steps that its noise happens to suit.
    Each candidate is fitted to a stretch and to whatever else it takes over from the best paths through the present
    options. New options together take half of the weight; those for which no candidate gains anything imitate random
    stretches.
    """

    share: float = 0.5

    def __call__(self, newborns: Newborns) -> None:
        newborns.require_data()
        model: Any = newborns.modules[0]
        fresh = copy.deepcopy(model.policy)
        resize([fresh], newborns.index)
        start_from_stretches(fresh, newborns.data)
        copy_components([model.policy], newborns.index, [fresh], range(len(newborns.index)))
        self._replace(model.policy, newborns)
        reweight(newborns.modules, newborns.trial_weights(self.share))

    @torch.no_grad()
    def _replace(self, policy: Any, newborns: Newborns) -> None:
        """Replaces new options by the best candidates."""
        old = copy.deepcopy(policy).double()
        resize([old], range(newborns.index[0]))
        hard = HardModel(old, Demonstrated.some(newborns.data), price=0.0)
        paths = hard.best()
        hard.rate = hard.switch_rate(paths)
        length = stretch_length(newborns.data)
        lengths = sorted({max(2, length // divisor) for divisor in DIVISORS})
        with torch.enable_grad():
            found, chosen = best_candidates(hard, hard.best(), lengths, len(newborns.index))
        copy_components([policy], newborns.index, [found], chosen)
