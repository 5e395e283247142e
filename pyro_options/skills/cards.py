"""What there is to say about an option: what it does, for how long, where it starts and stops, and what comes next."""

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from .segmentation import Segment, Segmentation

#: what follows the last option of an episode
END = -1

_EXAMPLES = 100  # segments of each option to name at most


@dataclass(frozen=True)
class Card:
    """One option on given demonstrations."""

    option: int
    usage: float  # share of the steps
    actions: Tensor  # (A,) share of each discrete action, or the mean continuous action
    lengths: Tensor  # (segments,) steps of each
    starts: Tensor  # (segments,) the first step of each
    stops: Tensor  # (segments,) the last step of each
    followers: dict[int, float]  # share of its segments after which each option came, ``END`` for none; largest first
    examples: tuple[tuple[int, Segment], ...]  # episode and segment, typical lengths first

    @property
    def median_length(self) -> float:
        """Steps that this option goes on for, in the middle case."""
        return float(self.lengths.double().quantile(0.5))


def _followers(owner: Tensor, episode: Tensor) -> Tensor:
    """The option after each segment, ``END`` after the last one of its episode; all ``(segments,)``."""
    after = torch.full_like(owner, END)
    after[:-1] = torch.where(episode[1:] == episode[:-1], owner[1:], END)
    return after


def _shares(values: Tensor) -> dict[int, float]:
    """How often each value occurs, the most frequent first."""
    return {value: count / len(values) for value, count in Counter(values.tolist()).most_common()}


def make_cards(segmentation: Segmentation, actions: Tensor, example_episodes: int | None = None) -> list[Card]:
    """A card for each option that is ever on, the most used first.

    :param actions: share of each action, or mean action, of each option ``(K, A)``, see :class:`Summary`
    :param example_episodes: take examples from the first so many episodes, by default from all
    """
    owner, lengths = segmentation.segment_lengths()
    episode, start = segmentation.starts.nonzero(as_tuple=True)
    after, usage = _followers(owner, episode), segmentation.usage()
    cards = []
    for option in owner.unique().tolist():
        mine = owner == option
        places = torch.stack([episode[mine], start[mine], start[mine] + lengths[mine]], -1)
        unusual = (lengths[mine] - lengths[mine].double().quantile(0.5)).abs()
        allowed = places[:, 0] < (len(segmentation) if example_episodes is None else example_episodes)
        typical = places[allowed][unusual[allowed].argsort(stable=True)[:_EXAMPLES]].tolist()
        cards.append(
            Card(
                option=option,
                usage=float(usage[option]),
                actions=actions[option],
                lengths=lengths[mine],
                starts=start[mine],
                stops=start[mine] + lengths[mine] - 1,
                followers=_shares(after[mine]),
                examples=tuple((i, Segment(option, a, b)) for i, a, b in typical),
            )
        )
    return sorted(cards, key=lambda card: (-card.usage, card.option))
