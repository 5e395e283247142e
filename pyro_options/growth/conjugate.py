"""Growth of mixtures whose components hold a conjugate belief: births and their judge work in closed form."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_options.errors import check

from .scene import Newborns
from .usage import Usage
from .verdict import Verdict


def refitted_weights(log_prob: Tensor, log_weights: Tensor, steps: int = 10) -> Tensor:
    """Weights of the components that suit the rows better, by expectation maximization ``(K,)``.

    :param log_prob: ``(N, K)``
    """
    for _ in range(steps):
        log_weights = torch.log(torch.softmax(log_weights + log_prob, -1).mean(0).clamp(min=1e-12))
    return log_weights


@dataclass(frozen=True)
class BoundRule:
    """Keeps a birth that raises the bound on the evidence of all rows.

    The divergence of the new component from its prior is the price of its parameters, so no rows need to be held out.
    All components first adapt for a few steps: what a birth is worth shows when the old component that covered its rows
    has withdrawn to the others.

    :param components: conjugate, with ``absorb`` and a ``divergence``
    :param min_gain: nats that a birth must bring; its stick costs a few
    :param steps: of coordinate ascent before the judgement
    """

    components: torch.nn.Module
    min_gain: float = 5.0
    steps: int = 15

    def propose(self, usage: Usage) -> int:
        """One birth at every check."""
        return 1

    @torch.no_grad()
    def accept(self, newborns: Newborns) -> Verdict:
        """Keeps a birth that raises the bound."""
        newborns.require_data()
        rows, old = newborns.data, newborns.log_weights
        assert old is not None
        log_prob = self.components().log_prob(rows.unsqueeze(-2))  # (N, K + new)
        before = torch.logsumexp(refitted_weights(log_prob[:, : len(old)], old) + log_prob[:, : len(old)], -1).sum()
        before = before - self.components.divergence()[: len(old)].sum()
        weights = refitted_weights(log_prob, newborns.trial_weights(len(newborns.index) / log_prob.shape[1]))
        for _ in range(self.steps):
            shares = torch.softmax(weights + log_prob, -1)
            self.components.absorb(rows, shares)
            log_prob, weights = self.components().log_prob(rows.unsqueeze(-2)), torch.log(shares.mean(0) + 1e-12)
        after = torch.logsumexp(weights + log_prob, -1).sum() - self.components.divergence().sum()
        gain = float(after - before)
        return Verdict(gain > self.min_gain, gain / len(rows), 0.0)


@dataclass(frozen=True)
class SeedBirth:
    """Starts a new component at a row of data and lets it gather the rows that it explains better than the others do.

    Of several seeds, mostly rows that are explained badly, the one stays whose component raises the bound most.

    :param components: have ``absorb(rows, responsibilities, index)``
    :param seeds: rows to start from
    :param steps: of coordinate ascent, in which only the new component moves
    :param neighbours: rows that a seed starts with, as multiples of N / (K + 1)
    """

    components: torch.nn.Module
    seeds: int = 6
    steps: int = 6
    neighbours: float = 0.3

    @torch.no_grad()
    def __call__(self, newborns: Newborns) -> None:
        newborns.require_data()
        assert newborns.log_weights is not None
        rows, K, new = newborns.data, newborns.index[0], newborns.index[0]
        check(len(newborns.index) == 1, "one birth at a time", len(newborns.index))
        old_weights = torch.log_softmax(newborns.log_weights, -1)
        explained = torch.logsumexp(old_weights + self.components().log_prob(rows.unsqueeze(-2))[:, :K], -1)
        badness = torch.argsort(torch.argsort(explained, descending=True)).float() + 1  # 1 for the best explained
        found = []
        for seed in torch.multinomial(badness, min(self.seeds, len(rows))).tolist():
            found.append(self._gather(rows, explained, new, seed))
        _, share = max(found, key=lambda pair: pair[0])
        self.components.absorb(rows, share.unsqueeze(-1), [new])

    def _gather(self, rows: Tensor, explained: Tensor, new: int, seed: int) -> tuple[float, Tensor]:
        """How much the new component raises the bound from this seed, and the rows that it takes."""
        spread = rows.std(0).clamp(min=1e-12)
        distance = (((rows - rows[seed]) / spread) ** 2).sum(-1)
        nearest = distance.topk(max(2, int(self.neighbours * len(rows) / (new + 1))), largest=False).indices
        share = torch.zeros_like(explained)
        share[nearest] = 1.0
        gain = -torch.inf
        for _ in range(self.steps):
            self.components.absorb(rows, share.unsqueeze(-1), [new])
            weight = share.mean().clamp(1e-4, 1 - 1e-4)
            log_prob = self.components().log_prob(rows.unsqueeze(-2))[:, new] + torch.log(weight)
            share = torch.sigmoid(log_prob - explained)  # who is left keeps the weight that it needs
            gain = float((torch.logaddexp(log_prob, explained) - explained).sum() - self.components.divergence()[new])
        return gain, share
