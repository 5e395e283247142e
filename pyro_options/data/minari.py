"""Reads and writes Minari data sets (the Farama Foundation's format for offline RL)."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from pyro_options.errors import InputError, check, require

from .action_spaces import action_bounds, action_counts, from_zero, to_space
from .concatenation import concatenate
from .flat_spaces import flat_box
from .records import from_records
from .steps import Steps
from .trajectories import Trajectories
from .validation import exact_floats

if TYPE_CHECKING:
    from minari import EpisodeData, MinariDataset


_REPAIR = "Repair that episode, or filter it out with Minari."


def _minari():
    require("h5py", "minari")
    return require("minari", "minari")


def _step(values: Any, t: int) -> Any:
    """Step ``t`` of an array, or of a dict or tuple of arrays."""
    if isinstance(values, dict):
        return {name: _step(value, t) for name, value in values.items()}
    return tuple(_step(value, t) for value in values) if isinstance(values, tuple) else values[t]


def _stack(space: gym.Space, items: list) -> Any:
    """The inverse of :func:`_step`: stacks all steps into an array, or a dict or tuple of arrays."""
    if isinstance(space, spaces.Dict):
        return {name: _stack(part, [item[name] for item in items]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_stack(part, [item[i] for item in items]) for i, part in enumerate(space.spaces))
    return np.stack([np.asarray(item, dtype=space.dtype) for item in items])


def _flatten(space: gym.Space, values: Any, num_steps: int) -> np.ndarray:
    """``(T, D)``, flattened by gymnasium: Discrete becomes one-hot, Dict and Tuple are concatenated."""
    if isinstance(space, spaces.Box):
        return np.asarray(values).reshape(num_steps, -1)
    return np.stack([np.asarray(spaces.flatten(space, _step(values, t))) for t in range(num_steps)])


def _integers(space: gym.Space, actions: Any) -> np.ndarray:
    """``(T,)`` of a Discrete space, ``(T, A)`` of a MultiDiscrete one, counted from zero."""
    values = from_zero(space, np.asarray(actions))
    return values if isinstance(space, spaces.Discrete) else values.reshape(len(values), -1)


def _unflatten(space: gym.Space, flat: np.ndarray, name: str, episode: int) -> Any:
    """``(T, D)`` as values of ``space``; raises if flattening them again would not give the same array."""
    values = _stack(space, [spaces.unflatten(space, row) for row in flat])
    check(
        np.array_equal(_flatten(space, values, len(flat)), flat),
        f"{name} that are values of {space}",
        f"others at episode {episode}",
        "Leave env out to write them as plain numbers.",
    )
    return values


def _check_steps(space: gym.Space, values: Any, num_steps: int, name: str, episode: int) -> None:
    """Raises unless ``values`` are ``num_steps`` values of ``space``; flattening would silently misread others."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
        given = values if isinstance(values, dict) else dict(enumerate(values))
        for key, part in parts.items():
            check(key in given, f"{name} with a part {key!r}", f"none at episode {episode}", _REPAIR)
            _check_steps(part, given[key], num_steps, f"{name} {key!r}", episode)
        return
    shape = np.shape(values) if space.shape is not None else (len(values),)
    expected = (num_steps, *(space.shape or ()))
    check(shape == expected, f"{name} of shape {expected}", f"{shape} at episode {episode}", _REPAIR)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        size = space.n if isinstance(space, spaces.Discrete) else space.nvec
        from_zero = np.asarray(values).astype(np.int64) - getattr(space, "start", 0)
        inside = bool(((from_zero >= 0) & (from_zero < size)).all())
        check(inside, f"{name} that are values of {space}", f"others at episode {episode}", _REPAIR)


def from_minari(
    dataset: "MinariDataset | str | Iterable[EpisodeData] | Sequence[str]",
    packed: bool = False,
    download: bool = False,
    episodes: Iterable[int] | None = None,
) -> Trajectories:
    """Reads a Minari data set, several, or some of its episodes.

    The final observation of each episode, which has no action, is dropped.

    Observations are flattened by gymnasium (Discrete becomes one-hot, Dict and Tuple are concatenated) and keep their
    floating-point type; integers become float32. Actions must be Discrete or MultiDiscrete, or flatten to real numbers.

    :param dataset: a ``MinariDataset`` or its id; a list of ids, whose episodes are put together; or an iterable of
        ``EpisodeData``, such as ``dataset.sample_episodes(10)``, which is read by
        :func:`~pyro_options.data.from_records` since it does not know its spaces
    :param packed: store bytes, such as Atari RAM, and use their bits as states
    :param download: download the data set if it is not on this machine
    :param episodes: indices of the episodes to read, by default all
    """
    if isinstance(dataset, str):
        dataset = _minari().load_dataset(dataset, download=download)
    if not hasattr(dataset, "observation_space"):
        return _several(dataset, packed, download, episodes)
    whole: MinariDataset = dataset
    observed, acted = whole.observation_space, whole.action_space
    for name, space in (("observations", observed), ("actions", acted)):
        fix = "Convert the data set with Minari first."
        flat_box(space, name, fix)
    counts = action_counts(acted)
    if counts is None:
        real = np.issubdtype(spaces.flatten_space(acted).dtype, np.floating)
        expected = "actions that are Discrete or real numbers, or MultiDiscrete,"
        check(real, expected, acted, "Convert the data set with Minari first.")
    try:
        pairs = []
        for i, episode in enumerate(whole.iterate_episodes(episodes)):
            T = len(episode.rewards)
            check(T >= 1, "episodes of at least one step", f"none at episode {i}", "Filter the data set first.")
            _check_steps(observed, episode.observations, T + 1, "observations", i)
            _check_steps(acted, episode.actions, T, "actions", i)
            states = _flatten(observed, episode.observations, T + 1)
            actions = _flatten(acted, episode.actions, T) if counts is None else _integers(acted, episode.actions)
            fix = "Read the data set with Minari and scale them."
            pairs.append((states if packed else exact_floats(states, i, fix), actions))
        return Trajectories.from_episodes(pairs, counts, packed, action_bounds(acted))
    except ValueError as error:
        raise InputError(f"{whole.id}: {error}") from error


def _several(given: Any, packed: bool, download: bool, episodes: Iterable[int] | None) -> Trajectories:
    """The episodes of several data sets by their ids, or an iterable of episodes."""
    check(isinstance(given, Iterable), "a Minari data set, its id, or episodes", type(given).__name__)
    parts = list(given)
    if parts and all(isinstance(one, str) for one in parts):
        return concatenate([from_minari(one, packed, download, episodes) for one in parts])
    check(episodes is None, "episodes=… of a data set", "a list of episodes already")
    return from_records(parts, packed=packed)


def _space(values: Steps) -> spaces.Box:
    """An unbounded Box of the shape and type of one step; bytes are in [0, 255]."""
    dtype = torch.empty(0, dtype=values.dtype).numpy().dtype
    low, high = (0, 255) if dtype == np.uint8 else (-np.inf, np.inf)
    return spaces.Box(low, high, values.shape, dtype.type)


def _action_space(data: Trajectories) -> gym.Space:
    if isinstance(data.num_actions, tuple):
        return spaces.MultiDiscrete(list(data.num_actions))
    if data.num_actions is not None:
        return spaces.Discrete(data.num_actions)
    actions, bounds = data.given_actions(), data.action_bounds
    if bounds is None or not all(bool(((a >= bounds[0]) & (a <= bounds[1])).all()) for a in actions.chunks()):
        return _space(actions)
    low, high = bounds.to(actions.dtype).numpy()
    return spaces.Box(low, high, dtype=low.dtype.type)


def to_minari(
    trajectories: Trajectories,
    dataset_id: str,
    env: gym.Env | str | None = None,
    rewards: torch.Tensor | np.ndarray | None = None,
    infos: Mapping[str, torch.Tensor | np.ndarray] | None = None,
    **metadata,
) -> "MinariDataset":
    """Writes a Minari data set. :func:`from_minari` reads the same trajectories back, bit for bit.

    Trajectories hold neither the final observation nor the reason why an episode ended. So the last state is written
    twice, every episode ends as truncated, and unknown rewards are NaN.

    :param dataset_id: name of the new data set, such as ``breakout/scripted-v0``
    :param env: the environment of the demonstrations; observations and actions are then written as values of its
        spaces, otherwise as plain arrays
    :param rewards: ``(N, T)``, if known
    :param infos: name -> a value ``(N, T)`` for each step, which becomes ``EpisodeData.infos``; segments, for instance:
        ``infos={"option": skills.segment(data).options}``
    :param metadata: passed to Minari, such as ``author`` and ``description``
    """
    minari = _minari()
    from minari.data_collector import EpisodeBuffer

    data = trajectories.to("cpu")
    shape = len(data), data.state_steps.width
    for name, values in ({"rewards": rewards} | dict(infos or {})).items():
        if values is not None:
            check(tuple(values.shape) == shape, f"{name} {shape}", tuple(values.shape))
    if isinstance(env, str):
        env = gym.make(env)
    observed = _space(data.state_steps) if env is None else env.observation_space
    acted = _action_space(data) if env is None else env.action_space
    buffers = [_buffer(data, i, observed, acted, rewards, infos, EpisodeBuffer) for i in range(len(data))]
    with warnings.catch_warnings():  # Minari warns about metadata that are missing, which are optional here
        warnings.filterwarnings("ignore", r".*is set to None|env_spec is None", UserWarning)
        return minari.create_dataset_from_buffers(
            dataset_id,
            buffers,
            env=env,
            observation_space=observed,
            action_space=acted,
            jpeg_encoding=False,
            **metadata,
        )


def _buffer(data: Trajectories, i: int, observed: gym.Space, acted: gym.Space, rewards, infos, buffer_class):
    """Episode ``i`` as a Minari buffer."""
    T = int(data.lengths[i])
    states, actions = data.state_steps.episode(i).numpy(), data.given_actions().episode(i).numpy()
    check(spaces.flatdim(observed) == states.shape[-1], f"states of size {spaces.flatdim(observed)}", states.shape[-1])
    if isinstance(acted, spaces.Discrete):
        check(acted.n == data.num_actions, f"{acted.n} discrete actions", data.num_actions, "Is it that environment?")
        actions = actions + acted.start
    elif isinstance(acted, spaces.MultiDiscrete):
        check(action_counts(acted) == data.num_actions, f"actions of {acted}", data.num_actions)
        actions = to_space(acted, actions)
    else:
        check(not data.discrete, f"an environment with {data.num_actions} discrete actions", acted)
        actions = _unflatten(acted, actions, "actions", i)
    return buffer_class(
        observations=_unflatten(observed, np.concatenate([states, states[-1:]]), "states", i),
        actions=actions,
        rewards=np.full(T, np.nan) if rewards is None else np.asarray(rewards[i][:T], dtype=np.float64),
        terminations=np.zeros(T, dtype=bool),
        truncations=np.arange(T) == T - 1,
        infos={name: np.asarray(values[i][:T]) for name, values in infos.items()} if infos else None,
    )
