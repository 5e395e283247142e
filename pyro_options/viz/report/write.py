"""Assembles and writes the report."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyro_options import __version__
from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.persistence.storage import replacing
from pyro_options.skills.glossary import COLUMNS, TERMS
from pyro_options.skills.places import find_places
from pyro_options.skills.segmentation import IN_USE, Segmentation
from pyro_options.skills.skills import Skills

from . import content
from .comparison import compare
from .page import render
from .pictures import Frames, state_pictures


def _text(value: Any, form: str = ".4g") -> str:
    """A formatted float with a typographic minus sign, or ``str(value)`` for anything else."""
    return format(value, form).replace("-", "−") if isinstance(value, float) else str(value)


def _overview(
    skills: Skills, segmentation: Segmentation | None, figures: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """Label, value and unit of each tile of the overview."""
    tiles = [("options", str(skills.num_options), "K")]
    usage = segmentation.usage() if segmentation is not None else getattr(skills.summary, "usage", None)
    if usage is not None:
        tiles.append(("in use", str(int((usage >= IN_USE).sum())), f"at least {IN_USE:.0%} of steps"))
    likelihood = skills.metadata.get("log_likelihood")
    for key, name in (("train", "training"), ("held_out", "held out")):
        value = likelihood.get(key) if isinstance(likelihood, Mapping) else None
        if isinstance(value, int | float):
            tiles.append((f"log-likelihood, {name}", _text(float(value), ".4f"), "nats per step"))
    if segmentation is not None:
        value = _text(segmentation.log_likelihood_per_step, ".4f")
        tiles.append(("log-likelihood, these trajectories", value, "nats per step"))
        tiles.append(("an option lasts", f"{segmentation.mean_length:.1f}", "steps, on average"))
    tiles += [(str(name), _text(value), "") for name, value in figures.items()]
    return tiles


def write_report(
    path: str | os.PathLike,
    skills: Skills,
    trajectories: Trajectories | None = None,
    *,
    frames: Frames | None = None,
    title: str = "Skills",
    figures: Mapping[str, Any] | None = None,
    state_names: Sequence[str] | None = None,
    other: Skills | None = None,
    run_names: tuple[str, str] = ("these skills", "the others"),
    max_trajectories: int = 8,
    max_steps: int = 500,
    max_frame_width: int = 160,
    max_state_values: int = 16,
) -> None:
    """Writes a self-contained HTML report of skills.

    :param path: the file to write, atomically
    :param trajectories: demonstrations to segment; all of them enter the statistics, the first are shown step by step
    :param frames: uint8 images ``(T, height, width, 3)`` of each episode, ``None`` for an episode without; or a
        function that returns them from an episode's states and actions, such as ``partial(replay_frames, "Breakout")``;
        by default the states, if they are images of bytes
    :param title: of the page
    :param figures: name -> further values for the overview, such as the result of a baseline
    :param state_names: names of the entries of a state, or of the bytes if packed; by default those of the trajectories
    :param other: skills of another run to compare with, on the same trajectories
    :param run_names: what to call the two runs
    :param max_trajectories: number of episodes to show step by step
    :param max_steps: number of steps to show of each
    :param max_frame_width: wider images are scaled down to this width in pixels
    :param max_state_values: number of entries of a state to show: the first that vary
    """
    limits = content.Limits(max_trajectories, max_steps, max_frame_width, max_state_values)
    for name, value in vars(limits).items():
        check(value >= 1, f"a cap on {name} >= 1", value)
    segmentation = None if trajectories is None else skills.segment(trajectories)
    shown: list[dict] = []
    names: list[str] = []
    comparison = None
    cards = content.short_cards(skills)
    check(other is None or trajectories is not None, "trajectories to compare two runs on", None)
    if trajectories is not None and segmentation is not None:
        size = trajectories.state_steps.shape[-1]
        state_names = trajectories.state_names if state_names is None else state_names
        check(state_names is None or len(state_names) == size, f"{size} names of states", state_names)
        actions = skills.summarize(trajectories, segmentation).actions
        frames = state_pictures(trajectories) if frames is None else frames
        places = find_places(segmentation, trajectories, state_names)
        cards = content.cards(segmentation, actions, places, limits)
        if other is not None:
            comparison = compare(skills, segmentation, other, trajectories, run_names)
        entries, names = content.shown_states(trajectories, state_names, limits)
        shown = [
            content.trajectory(skills, trajectories, segmentation, i, entries, frames, limits)
            for i in range(min(len(trajectories), max_trajectories))
        ]
    count = "actions" if skills.discrete else "dimensions"
    page = render(
        title,
        {
            "tiles": _overview(skills, segmentation, figures or {}),
            "trust": [] if skills.trust is None else skills.trust.describe().splitlines(),
            "settings": content.settings(skills.metadata),
            "growth": content.growth(skills.metadata),
            "options": content.options(skills),
            "cards": cards,
            "comparison": comparison,
            "glossary": [[name, meaning] for name, meaning in (COLUMNS | TERMS).items()],
            "discrete": skills.discrete,
            "columnNames": skills.action_columns,
            "actionNames": list(skills.action_names or (f"{count[:-1]} {a}" for a in range(skills.action_dim))),
            "stateNames": names,
            "trajectories": shown,
            "numTrajectories": 0 if trajectories is None else len(trajectories),
            "numSteps": 0 if trajectories is None else trajectories.num_steps,
            "version": __version__,
        },
    )
    with replacing(path) as file:
        file.write(page.encode("utf-8", "replace"))
