"""In which states an option starts and stops: the entries of a state that differ most from the usual there."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories

from .segmentation import Segmentation

#: share of the values that a range covers
COVERED = 0.8

#: smallest difference that is mentioned: of means, in standard deviations; of shares of a value
NOTABLE = {"range": 0.5, "share": 0.25}

_ENTRIES = 3  # mentioned per option, at most
_STATES = 500  # starts, stops and steps looked at of each option, at most, evenly spaced
_USUAL = 5000  # looked at of all steps
_NUMBERS = 2**24  # read in all, at most
_FEWEST = 5  # starts or stops for a statement


@dataclass(frozen=True)
class Telling:
    """An entry of a state whose values at the starts, or stops, of an option differ from the usual.

    ``low`` and ``high`` are the ends of the middle 80 % of the values. If the entry has two values, both are the share
    of the larger one, ``value``.
    """

    name: str
    value: float | None
    low: float
    high: float
    usual_low: float
    usual_high: float

    def describe(self) -> str:
        """One phrase."""
        if self.value is not None:
            shares = f"in {100 * self.low:.0f}% (usually {100 * self.usual_low:.0f}%)"
            return f"{self.name} = {self.value:g} {shares}"
        usual = f"{self.usual_low:.3g} to {self.usual_high:.3g}"
        return f"{self.name} {self.low:.3g} to {self.high:.3g} (usually {usual})"


@dataclass(frozen=True)
class Places:
    """Where an option starts, compared with all steps, and stops, compared with the steps at which it is active.

    The first option of an episode starts wherever the episode does, and the last one stops with it: neither counts.
    """

    starts: tuple[Telling, ...] = ()
    stops: tuple[Telling, ...] = ()

    def describe(self) -> list[str]:
        """A line each for starts and stops, if there is anything to tell."""
        named = (("starts where", self.starts), ("stops where", self.stops))
        return [f"{verb} {', '.join(one.describe() for one in found)}" for verb, found in named if found]

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @staticmethod
    def from_dict(given: Mapping[str, Any]) -> "Places":
        """The inverse of :meth:`to_dict`."""
        return Places(*(tuple(Telling(**one) for one in given[name]) for name in ("starts", "stops")))


def entry_names(data: Trajectories, names: Sequence[str] | None = None) -> list[str]:
    """A name for each entry of a state; for each bit if packed, where names are those of the bytes."""
    names = data.state_names if names is None else names
    if not data.packed:
        return [f"state {i}" for i in range(data.state_dim)] if names is None else list(names)
    of_bytes = [f"byte {i}" for i in range(data.state_dim // 8)] if names is None else list(names)
    return [f"{name}, bit {7 - b}" for name in of_bytes for b in range(8)]  # the most significant is first


def _sample(steps: Tensor, most: int) -> Tensor:
    """At most this many of some steps, evenly spaced."""
    if len(steps) <= most:
        return steps
    return steps[torch.linspace(0, len(steps) - 1, most).round().long()]


class _Sampled:
    """States of some steps of all episodes in a row, read in one pass and kept as they are stored.

    :param steps: groups of steps
    """

    def __init__(self, data: Trajectories, steps: Sequence[Tensor]):
        self.data, self.steps = data, torch.cat(list(steps)).unique()
        parts, start = [], 0
        for part in data.state_steps.chunks():
            low, high = torch.searchsorted(self.steps, torch.tensor([start, start + len(part)])).tolist()
            parts.append(part[(self.steps[low:high] - start).to(part.device)].cpu())
            start += len(part)
        self.stored = torch.cat(parts)

    def at(self, steps: Tensor) -> Tensor:
        """The states of one of the groups, ``(n, D)``."""
        return self.data.as_floats(self.stored[torch.searchsorted(self.steps, steps)]).float()


def _telling(found: Tensor, usual: Tensor, names: Sequence[str]) -> tuple[Telling, ...]:
    """The entries in which ``found (n, D)`` differ most from ``usual (m, D)``."""
    if min(len(found), len(usual)) < _FEWEST:
        return ()
    low, high = (torch.stack([found.aminmax(dim=0)[i], usual.aminmax(dim=0)[i]]) for i in (0, 1))
    low, high = low.amin(0), high.amax(0)
    two = ((usual == low) | (usual == high)).all(0) & ((found == low) | (found == high)).all(0)
    shift = (found.mean(0) - usual.mean(0)).abs()
    unit = torch.where(two, NOTABLE["share"] * (high - low), NOTABLE["range"] * usual.std(0)).clamp(min=1e-9)
    effect = shift / unit
    best = [int(d) for d in effect.argsort(descending=True)[:_ENTRIES] if effect[d] >= 1]
    ends = torch.tensor([(1 - COVERED) / 2, (1 + COVERED) / 2])
    told = []
    for d in best:
        if two[d]:
            spans = [float((values[:, d] == high[d]).float().mean()) for values in (found, found, usual, usual)]
        else:
            spans = [*found[:, d].quantile(ends).tolist(), *usual[:, d].quantile(ends).tolist()]
        if spans[:2] != spans[2:]:
            told.append(Telling(names[d], float(high[d]) if two[d] else None, *spans))
    return tuple(told)


def find_places(
    segmentation: Segmentation, trajectories: Trajectories, names: Sequence[str] | None = None
) -> list[Places]:
    """For each option, in which states it starts and stops.

    An option stops in the state in which the next one starts: terminations happen on arrival in a state. Of images
    nothing is said, since a single pixel tells little.

    :param names: of the entries of a state, or of its bytes if packed; by default those of the trajectories
    """
    K = segmentation.num_options
    if trajectories.state_shape is not None:
        return [Places()] * K
    entries, options = entry_names(trajectories, names), segmentation.flat_options
    room = max(1, _NUMBERS // trajectories.state_steps.shape[-1])  # states that are read
    most = max(_FEWEST, min(_STATES, room // (4 * K)))
    starts = segmentation.flat_starts.clone()
    starts[segmentation.places.first] = False
    at = starts.nonzero().flatten()
    groups = [_sample(torch.arange(len(options)), max(_FEWEST, min(_USUAL, room // 4)))]
    for k in range(K):
        chosen = at[options[at] == k], at[options[at - 1] == k], (options == k).nonzero().flatten()
        groups += [_sample(steps, most) for steps in chosen]
    states = _Sampled(trajectories, groups)
    usual, found = states.at(groups[0]), []
    for k in range(K):
        begins, ends, on = (states.at(steps) for steps in groups[1 + 3 * k : 4 + 3 * k])
        found.append(Places(_telling(begins, usual, entries), _telling(ends, on, entries)))
    return found
