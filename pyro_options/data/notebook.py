"""What notebooks show of demonstrations: timelines of the actions of the first episodes, and ranges of the states."""

from typing import TYPE_CHECKING

import torch

from pyro_options.display.fragments import facts, panel, series, strip

if TYPE_CHECKING:
    from .stored_episodes import StoredEpisodes

_EPISODES = 6  # shown, at most
_STEPS = 500  # of each
_ENTRIES = 6  # of a state, or of an action


def _action_rows(data: "StoredEpisodes") -> list[str]:
    """A timeline of the actions of each of the first episodes."""
    store = data.given_actions()
    episodes = [store.episode(i)[:_STEPS].cpu() for i in range(min(len(data), _EPISODES))]
    longest = max(map(len, episodes))
    if data.discrete and store.shape == ():
        names = data.action_names

        def title(action: int) -> str:
            return f"action {action}" if names is None else names[action]

        return [strip(f"episode {i}", one.tolist(), title, longest) for i, one in enumerate(episodes)]
    everything = torch.cat([one.flatten() for one in episodes]).float()
    low, high = float(everything.min()), float(everything.max())
    columns = [one.float()[:, :_ENTRIES].T.tolist() for one in episodes]
    return [series(f"episode {i}", one, low, high, longest) for i, one in enumerate(columns)]


def _ranges(data: "StoredEpisodes") -> list[str]:
    """The range of the first entries of a state over the first episodes."""
    seen = torch.cat([data.state_steps.episode(i)[:_STEPS].cpu() for i in range(min(len(data), _EPISODES))]).float()
    kind = "byte" if data.packed else "state"
    names = data.state_names or [f"{kind} {d}" for d in range(seen.shape[-1])]
    lines = [
        f"{names[d]}: {float(seen[:, d].min()):.3g} to {float(seen[:, d].max()):.3g}"
        for d in range(min(seen.shape[-1], _ENTRIES))
    ]
    left = seen.shape[-1] - _ENTRIES
    return lines + ([f"{left} more entries"] if left > 0 else [])


def trajectories_html(data: "StoredEpisodes") -> str:
    """Actions of the first episodes as timelines, then ranges of the states in them unless they are images."""
    rows = [] if data.action_steps is None else _action_rows(data)
    ranges = [] if data.state_shape is not None else _ranges(data)  # of images, single pixels tell little
    return panel(repr(data), *rows, facts(ranges))
