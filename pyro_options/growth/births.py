"""Births: how the parameters of a new component are initialized."""

from dataclasses import dataclass
from typing import Protocol

import torch

from pyro_options.errors import check

from .growable import growables
from .resizing import reweight
from .scene import Newborns

#: rows among which :class:`DataBirth` looks for those with the lowest log-likelihood, a random sample if there are more
MOST_ROWS = 8192


class Birth(Protocol):
    """Initializes components that have just been added."""

    def __call__(self, newborns: Newborns) -> None: ...


@dataclass(frozen=True)
class RandomBirth:
    """A new component keeps its random initial values, as in the paper."""

    def __call__(self, newborns):
        return None


@dataclass(frozen=True)
class SplitBirth:
    """A new component starts as a noisy copy of one of the most used ones, in the model and in the guide.

    The two then divide the data of the original, which keeps usage even: a rule that looks at the least used component
    is not blocked by one that covers a single cluster.

    :param noise: factor on the random initial values that are added to the copy
    :param halve: divide the weight of the original between the two, which without noise leaves the likelihood
        unchanged; otherwise a new component takes its weight from the unassigned mass
    """

    noise: float = 0.5
    halve: bool = False

    def __post_init__(self) -> None:
        check(self.noise >= 0, "noise >= 0", self.noise)

    def __call__(self, newborns):
        order = newborns.usage.likelihood.argsort(descending=True).tolist()
        parents = [order[i % len(order)] for i in range(len(newborns.index))]
        for child, parent in zip(newborns.index, parents):
            for layer in growables(newborns.modules):
                layer.inherit(child, parent, self.noise)
        if self.halve:
            reweight(newborns.modules, newborns.split_weights(parents))


@dataclass(frozen=True)
class DataBirth:
    """Fits a new component to the rows with the lowest log-likelihood, by maximizing it over the new parameters alone.

    First to a single row, with almost all the weight on the new component: one that starts close to the average of the
    data would get little responsibility for any row and never specialize. Then to a random half of the ``share`` of
    rows with the lowest log-likelihood (at most ``max_rows``), as part of the mixture with the other components, which
    are held fixed. The rows not used here are left to the rule, which evaluates the birth on them.

    :param share: fraction of the rows to consider, by default 1 / (K + 1)
    :param max_rows: the most rows to fit
    :param seed_steps: Adam steps on the single row
    :param steps: Adam steps on the rows of the second fit
    :param learning_rate: of both
    """

    share: float | None = None
    max_rows: int = 128
    seed_steps: int = 50
    steps: int = 50
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        check(self.share is None or 0 < self.share <= 1, "share in (0, 1]", self.share)
        check(self.steps >= 1 and self.max_rows >= 1, "steps and max_rows >= 1", (self.steps, self.max_rows))
        check(self.seed_steps >= 0, "seed_steps >= 0", self.seed_steps)

    def __call__(self, newborns):
        device = newborns.require_data().device
        seen = torch.arange(len(newborns.data))
        if len(seen) > MOST_ROWS:
            seen = torch.randperm(len(seen))[:MOST_ROWS]
        rows = newborns.data if len(seen) == len(newborns.data) else newborns.data[seen.to(device)]
        explained = newborns.likelihood(rows)(newborns.trial_weights(0.0))
        share = 1 / (1 + newborns.log_weights.shape[-1]) if self.share is None else self.share
        worst = explained.topk(max(2, round(share * len(explained))), largest=False).indices
        worst = seen.to(worst.device)[worst[torch.randperm(len(worst), device=worst.device)]]
        half = worst[: min(self.max_rows, (len(worst) + 1) // 2)]
        newborns.used_rows.update(half.tolist())
        alone = newborns.trial_weights(1 - 1e-3)
        for i, child in enumerate(newborns.index):
            seed = newborns.data[half[i % len(half)].unsqueeze(0)]
            newborns.fit([child], seed, alone, self.seed_steps, self.learning_rate)
        weights = newborns.trial_weights(share)
        newborns.fit(newborns.index, newborns.data[half], weights, self.steps, self.learning_rate)
