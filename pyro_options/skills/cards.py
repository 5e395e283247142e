"""Statistics of one option on given demonstrations: actions, segment lengths, start and stop times, successors."""

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from .segmentation import Segment, Segmentation

#: stands for the end of an episode in :attr:`Card.followers`
END = -1

_EXAMPLES = 100  # example segments per option, at most


@dataclass(frozen=True)
class Card:
    """Statistics of one option on given demonstrations."""

    option: int
    usage: float  # share of the steps
    actions: Tensor  # (A,) share of each discrete action, or the mean continuous action
    lengths: Tensor  # (segments,) number of steps
    starts: Tensor  # (segments,) first step
    stops: Tensor  # (segments,) last step
    followers: dict[int, float]  # next option, or ``END`` -> share of the segments that it follows; largest first
    examples: tuple[tuple[int, Segment], ...]  # (episode, segment); lengths closest to the median first

    @property
    def median_length(self) -> float:
        """Median length of a segment, in steps."""
        return float(self.lengths.double().quantile(0.5))


def _followers(owner: Tensor, episode: Tensor) -> Tensor:
    """The option after each segment, ``END`` for the last one of an episode; all ``(segments,)``."""
    after = torch.full_like(owner, END)
    after[:-1] = torch.where(episode[1:] == episode[:-1], owner[1:], END)
    return after


def _shares(values: Tensor) -> dict[int, float]:
    """Relative frequency of each value, the most frequent first."""
    return {value: count / len(values) for value, count in Counter(values.tolist()).most_common()}


def make_cards(segmentation: Segmentation, actions: Tensor, example_episodes: int | None = None) -> list[Card]:
    """A card for each option that occurs in a segmentation, the most used first.

    :param actions: share of each action, or mean action, of each option ``(K, A)``: :attr:`Summary.actions`
    :param example_episodes: take examples from this many first episodes, by default from all
    """
    owner, lengths = segmentation.segment_lengths()
    episode, start = segmentation.segment_starts()
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
