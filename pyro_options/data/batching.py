"""Which episodes of very different lengths go into one batch."""

import torch
from torch import Tensor

_WASTE = 1.25  # padded steps of a batch that mixes buckets, relative to the lengths of those


def _buckets(lengths: Tensor) -> tuple[Tensor, list[int]]:
    """Bucket of each episode, by increasing length, and the longest episode of the bucket of each in sorted order.

    The lengths in a bucket differ by a factor of at most the square root of two.
    """
    bucket = torch.ceil(2 * torch.log2(lengths.double())).long()
    top = torch.zeros(int(bucket.max()) + 1, dtype=torch.long).scatter_reduce_(0, bucket, lengths, "amax")
    return bucket, top[bucket.sort().values].tolist()


def _sizes(tops: list[int], max_steps: int) -> list[int]:
    """Number of episodes of each batch: one, or as many as have at most ``max_steps`` padded steps and little padding.

    :param tops: (upper bounds of) the lengths of the episodes, in increasing order
    """
    sizes, count, content = [], 0, 0
    for top in tops:
        padded = (count + 1) * top
        if count and (padded > max_steps or padded > _WASTE * (content + top)):
            sizes.append(count)
            count, content = 0, 0
        count, content = count + 1, content + top
    return [*sizes, count]


def bucketed(lengths: Tensor, max_steps: int, generator: torch.Generator | None = None) -> list[Tensor]:
    """Indices of the episodes of each batch, of at most ``max_steps`` padded steps unless it has a single episode.

    Every episode is in one batch. The number of batches and their sizes depend on the lengths alone. The generator
    decides which episodes of similar length share a batch (each of a bucket is equally likely in any place), and in
    which order the batches come; without one, episodes stay in order within their bucket and batches get longer.

    :param lengths: ``(N,)`` on the CPU
    """
    bucket, tops = _buckets(lengths)
    order = torch.arange(len(lengths)) if generator is None else torch.randperm(len(lengths), generator=generator)
    order = order[bucket[order].argsort(stable=True)]
    batches = list(order.split(_sizes(tops, max_steps)))
    if generator is None:
        return batches
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]
