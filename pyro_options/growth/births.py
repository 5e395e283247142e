"""How a new component starts."""

from dataclasses import dataclass
from typing import Protocol

import torch

from pyro_options.errors import check

from .growable import growables
from .resizing import reweight
from .scene import Newborns


class Birth(Protocol):
    """Prepares new components."""

    def __call__(self, newborns: Newborns) -> None: ...


@dataclass(frozen=True)
class RandomBirth:
    """The paper's way: a new component keeps its random initial values."""

    def __call__(self, newborns):
        return None


@dataclass(frozen=True)
class SplitBirth:
    """A new component starts as a noisy copy of one of the most used ones, in the model and in the guide.

    Its data then divide between the two, which keeps usage even: a rule that looks at the least used component is not
    held up by one that won a single cluster.

    :param noise: how much of the random initial values to keep on top of the copy
    :param halve: whether the two share the weight of the one, which without noise leaves the likelihood as it was;
        otherwise a new component takes its weight from the mass that nobody has yet
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
            old = torch.log_softmax(newborns.require_data(), -1)
            family = 1 + torch.bincount(torch.tensor(parents), minlength=len(old)).to(old)
            shared = old - torch.log(family)
            reweight(newborns.modules, torch.cat([shared, shared[parents]]))


@dataclass(frozen=True)
class DataBirth:
    """Fits a new component to the rows of data that the model explains worst.

    First to a single one of them, as if the new component had to explain it alone: a component that starts as a little
    of everything has no data of its own, and never gets any. Then to a random half of the worst-explained ``share`` of
    the rows (at most ``max_rows``), beside the other components, which stay as they are. What is maximized is the exact
    log-likelihood over the parameters of the new component; the other rows are left for a rule to judge it by.

    :param share: fraction of the rows to look at, by default one part in the number of components
    :param max_rows: rows to fit at most
    :param seed_steps: Adam steps on a single row
    :param steps: Adam steps on the many
    :param learning_rate: of those steps
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
        explained = newborns.likelihood(newborns.data)(newborns.trial_weights(0.0))
        share = 1 / (1 + len(newborns.log_weights)) if self.share is None else self.share
        worst = explained.topk(max(2, round(share * len(explained))), largest=False).indices
        worst = worst[torch.randperm(len(worst), device=worst.device)]
        half = worst[: min(self.max_rows, (len(worst) + 1) // 2)]
        newborns.used_rows.update(half.tolist())
        alone = newborns.trial_weights(1 - 1e-3)
        for i, child in enumerate(newborns.index):
            seed = newborns.data[half[i % len(half)].unsqueeze(0)]
            newborns.fit([child], seed, alone, self.seed_steps, self.learning_rate)
        weights = newborns.trial_weights(share)
        newborns.fit(newborns.index, newborns.data[half], weights, self.steps, self.learning_rate)
