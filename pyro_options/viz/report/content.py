"""The content of a report as JSON values, which the report's script draws."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.display.palette import ink, option_color
from pyro_options.growth.events import GrowthEvent
from pyro_options.growth.markers import growth_markers
from pyro_options.skills.cards import END, Card, make_cards
from pyro_options.skills.places import Places
from pyro_options.skills.segmentation import Segmentation

from .pictures import Frames, embed, frames_of

if TYPE_CHECKING:
    from pyro_options.skills.skills import Skills

_FRAMES = 3  # pictures of starts, and of stops, per option
_BINS = 12  # maximum per histogram
_SHOWN_ELSEWHERE = ("history", "growth", "trust", "places", "option_names")  # not among the settings
_LONG = 200  # longer values of settings are cut after this many characters


@dataclass(frozen=True)
class Limits:
    """Upper limits that keep the file small, see :func:`~pyro_options.viz.write_report`."""

    trajectories: int
    steps: int
    frame_width: int
    state_values: int


def _rounded(values: Any, digits: int = 4) -> Any:
    """Rounds to ``digits`` significant digits, recursively in lists; NaN and infinity become ``None`` for JSON."""
    if isinstance(values, Tensor | np.ndarray):
        values = values.tolist()
    if isinstance(values, list):
        return [_rounded(value, digits) for value in values]
    if isinstance(values, float):
        return float(f"{values:.{digits}g}") if math.isfinite(values) else None
    return values


def _histogram(values: Tensor, low: float, high: float) -> dict:
    """Histogram of integers from ``low`` to ``high``, as shares."""
    width = max(1, math.ceil((high - low + 1) / _BINS))
    counts = torch.bincount(((values - low) // width).long(), minlength=math.ceil((high - low + 1) / width))
    return {"low": low, "width": width, "shares": _rounded(counts / counts.sum())}


def options(skills: "Skills") -> list[dict]:
    """Name, colours and weight of every option, whether in use or not."""
    weights = skills.log_weights.exp().tolist()
    colors = [option_color(k) for k in range(skills.num_options)]
    return [
        {"name": name, "color": color, "ink": ink(color), "weight": _rounded(weight)}
        for name, color, weight in zip(skills.names, colors, weights)
    ]


def _moments(card: Card, lengths: Tensor, limits: Limits) -> dict:
    """Episode and step of a few starts and stops of an option, to show their frames; ends of episodes aside."""
    starts = [[episode, segment.start] for episode, segment in card.examples if 0 < segment.start < limits.steps]
    ends = [(episode, segment.stop) for episode, segment in card.examples]
    stops = [[episode, step] for episode, step in ends if step < min(int(lengths[episode]), limits.steps)]
    return {"startFrames": starts[:_FRAMES], "stopFrames": stops[:_FRAMES]}


def _card(card: Card, places: Places, segmentation: Segmentation, longest_segment: int, limits: Limits) -> dict:
    longest = int(segmentation.lengths.max())
    shown = [
        [episode, segment.start, segment.stop - 1] for episode, segment in card.examples if segment.stop <= limits.steps
    ]
    return _moments(card, segmentation.lengths, limits) | {
        "option": card.option,
        "usage": _rounded(card.usage),
        "actions": _rounded(card.actions),
        "segments": len(card.lengths),
        "lengthQuartiles": _rounded(card.lengths.double().quantile(torch.tensor([0.25, 0.5, 0.75]).double())),
        "lengths": _histogram(card.lengths, 1, longest_segment),
        "startSteps": _histogram(card.starts, 0, longest - 1),
        "stopSteps": _histogram(card.stops, 0, longest - 1),
        "followers": [[None if k == END else k, _rounded(share)] for k, share in card.followers.items()][:4],
        "examples": shown[:2],
        **_where(places),
    }


def _where(places: Places) -> dict:
    return {name: [one.describe() for one in getattr(places, name)] for name in ("starts", "stops")}


def cards(segmentation: Segmentation, actions: Tensor, places: Sequence[Places], limits: Limits) -> list[dict]:
    """A card for each option in use."""
    made = make_cards(segmentation, actions, limits.trajectories)
    longest_segment = max(int(card.lengths.max()) for card in made)
    return [_card(card, places[card.option], segmentation, longest_segment, limits) for card in made]


def short_cards(skills: "Skills") -> list[dict]:
    """Cards from the summary of the skills alone."""
    if skills.summary is None:
        return []
    places = skills.places or [Places()] * skills.num_options
    return [
        {
            "option": k,
            "usage": _rounded(float(skills.summary.usage[k])),
            "actions": _rounded(skills.summary.actions[k]),
            "meanLength": _rounded(float(skills.summary.mean_length[k])),
            **_where(places[k]),
        }
        for k in skills.summary.usage.argsort(descending=True, stable=True).tolist()
        if skills.summary.usage[k] > 0
    ]


def growth(metadata: Mapping[str, Any]) -> dict | None:
    """K over the epochs and the growth events, or ``None`` if there are none in the metadata."""
    try:
        sizes = [int(size) for size in metadata["history"]["num_options"]]
        events = [GrowthEvent.from_dict(event) for event in metadata["growth"]]
        marks = growth_markers(sizes, events, metadata["updates"] / len(sizes))
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
        return None  # skills that were not made by discover can have any metadata
    return {"sizes": sizes, "marks": [asdict(mark) for mark in marks]} if marks else None


def settings(metadata: Mapping[str, Any]) -> list[list[str]]:
    """Rows of (dotted name, value); what is shown elsewhere is omitted, and long values are cut."""
    rows: list[list[str]] = []

    def visit(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                visit(f"{name}.{key}" if name else str(key), inner)
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            rows.append([name, text if len(text) <= _LONG else text[:_LONG] + "…"])

    visit("", {key: value for key, value in metadata.items() if key not in _SHOWN_ELSEWHERE})
    return rows


def shown_states(data: Trajectories, names: Sequence[str] | None, limits: Limits) -> tuple[list[int], list[str]]:
    """Indices of the first varying entries of a state (bytes if packed), and their names."""
    used = list(data[: limits.trajectories].state_steps.chunks())
    differs = torch.stack([(part != used[0][:1]).any(0) for part in used]).any(0)
    varying = differs.nonzero().flatten().tolist()[: limits.state_values]
    letter = "byte " if data.packed else "state "
    return varying, [f"{letter}{i}" if names is None else names[i] for i in varying]


def trajectory(
    skills: "Skills",
    data: Trajectories,
    segmentation: Segmentation,
    episode: int,
    entries: list[int],
    frames: Frames | None,
    limits: Limits,
) -> dict:
    """The data of one episode: option, action and state of each step, and frames if there are any."""
    length = int(data.lengths[episode])
    steps = min(length, limits.steps)
    chosen, switches = (part[:steps] for part in segmentation.episode(episode))
    states = data.state_steps.episode(episode)[:steps].cpu()
    actions = data.given_actions().episode(episode)[:steps].cpu()
    row: dict[str, Any] = {
        "length": length,
        "nats": _rounded(float(segmentation.log_likelihood[episode]) / length),
        "options": chosen.tolist(),
        "choices": _rounded(switches, 2),
        "actions": _rounded(actions, 4),
        "states": _rounded(states[:, entries], 4),
    }
    if data.episode_names is not None:
        row["name"] = data.episode_names[episode]
    if skills.discrete:
        probabilities = skills.action_probabilities(states.numpy(), chosen.numpy())
        row["certainty"] = _rounded(probabilities[np.arange(steps), actions.numpy()].astype(float), 2)
    pictures = frames_of(frames, data, episode, steps)
    return row if pictures is None else row | embed(pictures, limits.frame_width)
