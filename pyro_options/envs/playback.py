"""Runs skills in an environment and keeps the frames, for animations."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from pyro_options.data.flat_spaces import flat_box
from pyro_options.errors import InputError, check, check_count

from .atari import make_atari
from .skill_wrapper import SkillWrapper, flat_observation

if TYPE_CHECKING:
    from pyro_options.skills import Skills


@dataclass
class Playback:
    """One episode: the frame, option and reward of each step."""

    frames: list[np.ndarray] = field(default_factory=list)
    options: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False


def _made(env: gym.Env | str, skills: "Skills") -> gym.Env:
    """An environment that can be drawn; Atari with RAM as observation for skills on packed bytes."""
    if not isinstance(env, str):
        return env
    import pyro_options.envs  # noqa: F401  registers ours

    if skills.packed and "-v" not in env:
        return make_atari(env, render_mode="rgb_array")
    if env.startswith("ALE/"):
        import ale_py

        gym.register_envs(ale_py)
    more: dict[str, Any] = {"obs_type": "ram"} if skills.packed else {}
    try:
        return gym.make(env, render_mode="rgb_array", **more)
    except gym.error.Error as error:
        raise InputError(f"Expected the id of a Gymnasium environment but got {env!r}: {error}") from error


def _bytes(env: gym.Env, observation: Any) -> np.ndarray:
    """RAM as it is."""
    return np.asarray(observation)


def play(
    env: gym.Env | str, skills: "Skills", option: int | None = None, max_steps: int = 300, seed: int = 0
) -> Playback:
    """Plays one episode with skills.

    :param env: made with ``render_mode="rgb_array"``, or the id of one; for skills on RAM, also the name of a game, as
        :func:`~pyro_options.envs.make_atari` takes it
    :param option: let this option alone act, to the end; by default all imitate the demonstrator together
        (:class:`~pyro_options.skills.Imitation`), and the most probable one is recorded
    :param max_steps: end after this many steps
    """
    check_count(max_steps, "max_steps")
    known = option is None or 0 <= option < skills.num_options
    check(known, f"an option in [0, {skills.num_options - 1}]", option)
    observe = _bytes if skills.packed else flat_observation
    wrapped = SkillWrapper(_made(env, skills), skills, primitives=False, observe=observe)
    made = wrapped.env
    fix = 'Make it with render_mode="rgb_array".'
    check(made.render_mode == "rgb_array", "an environment that draws arrays", repr(made.render_mode), fix)
    flat_box(made.observation_space, "observations", "Wrap the environment.")
    try:
        return _episode(wrapped, skills, option, max_steps, seed)
    finally:
        wrapped.close()


def _episode(env: SkillWrapper, skills: "Skills", option: int | None, max_steps: int, seed: int) -> Playback:
    played, imitation, belief, done = Playback(), None if option is not None else skills.imitation(), None, False
    observation, _ = env.reset(seed=seed)
    while not done and len(played.options) < max_steps:
        state = env.observe(env.env, observation)
        if imitation is None:
            assert option is not None
            action, active = skills.predict(state, option), option
        else:
            action, belief = imitation.predict(state, belief)
            active = int(np.argmax(belief))
        played.frames.append(np.asarray(env.env.render()))
        played.options.append(active)
        observation, reward, terminated, truncated, _ = env.env.step(env.primitive(action))
        played.rewards.append(float(reward))
        played.terminated, done = bool(terminated), bool(terminated or truncated)
    return played
