"""CompILE's first task: sequences of integers, cut into segments in each of which one integer repeats."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_options.errors import check

from .trajectories import Trajectories


@dataclass(frozen=True)
class Integers:
    """Demonstrations with their ground truth."""

    trajectories: Trajectories
    options: Tensor  # (N, T) the integer of each step, zero in the padding
    switches: Tensor  # (N, T) whether a segment begins; true at the first step


def integer_sequences(
    num_episodes: int = 1000,
    num_symbols: int = 5,
    num_segments: int = 3,
    mean_length: float = 3.0,
    seed: int = 0,
) -> Integers:
    """Samples sequences such as 2 2 2 0 0 0 0 4: each segment repeats an integer, another one than the segment before.

    The integers are the actions. The state is constant (1), so the action depends on the skill alone.

    :param num_symbols: size of the vocabulary
    :param num_segments: segments in each sequence
    :param mean_length: mean of the Poisson distribution of segment lengths, before zeros are rejected
    :param seed: of lengths and integers
    """
    check(num_episodes >= 1, "num_episodes >= 1", num_episodes)
    check(num_symbols >= 2, "num_symbols >= 2", num_symbols)
    check(num_segments >= 1, "num_segments >= 1", num_segments)
    check(mean_length > 0, "mean_length > 0", mean_length)
    generator = torch.Generator().manual_seed(seed)
    rate = torch.full((num_episodes, num_segments), float(mean_length))
    lengths = torch.poisson(rate, generator)
    while bool((lengths < 1).any()):
        lengths = torch.where(lengths < 1, torch.poisson(rate, generator), lengths)
    lengths = lengths.long()
    steps = torch.randint(1, num_symbols, (num_episodes, num_segments), generator=generator)
    steps[:, 0] = torch.randint(num_symbols, (num_episodes,), generator=generator)
    symbols = torch.cumsum(steps, 1) % num_symbols  # increments of at least 1 make neighbouring segments differ
    total = lengths.sum(1)
    time = torch.arange(int(total.max()))
    ends = torch.cumsum(lengths, 1)
    segment = (time.unsqueeze(-1) >= ends.unsqueeze(1)).sum(-1).clamp(max=num_segments - 1)  # (N, T)
    mask = time < total.unsqueeze(-1)
    options = torch.where(mask, symbols.gather(1, segment), 0)
    switches = torch.ones_like(mask)
    switches[:, 1:] = segment[:, 1:] != segment[:, :-1]
    data = Trajectories(torch.ones(num_episodes, len(time), 1), options, total, num_symbols)
    return Integers(data, options, switches & mask)
