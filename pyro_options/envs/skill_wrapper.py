"""An environment whose actions include skills."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from pyro_options.data.action_spaces import action_counts, to_space
from pyro_options.data.flat_spaces import flat_box
from pyro_options.errors import InputError, check

from .plain_learners import warn_of_plain_learner


@runtime_checkable
class SkillSet(Protocol):
    """The interface that :class:`SkillWrapper` needs. Sampling uses ``rng``, a numpy generator."""

    num_options: int
    num_actions: int | tuple[int, ...] | None  # a tuple if an action is several integers; None if continuous
    discrete: bool  # whether an action is one integer
    state_dim: int
    max_duration: int | None

    def predict(self, observation, option: int, deterministic: bool = True, rng=None) -> Any:
        """The action of an option in a state ``(state_dim,)``; an integer if discrete, else an array."""

    def terminates(self, observation, option: int, rng=None) -> bool:
        """Whether an option terminates in a state, sampled from its termination probability."""


def flat_observation(env: gym.Env, observation: Any) -> np.ndarray:
    """The observation in the form that demonstrations record: flattened, floating point."""
    flat = np.asarray(spaces.flatten(env.observation_space, observation))
    return flat if np.issubdtype(flat.dtype, np.floating) else flat.astype(np.float32)


class SkillWrapper(gym.Wrapper, RecordConstructorArgs):
    r"""Adds K skills to the n actions of an environment: ``Discrete(n + K)``.

    Actions ``a < n`` are those of the environment. Action ``n + k`` runs skill k: it acts at least once, and continues
    until it terminates, :math:`b_t \sim \psi_k(s_t)`, reaches ``max_duration``, or the episode ends. Such a step of
    duration τ returns the last observation and the reward :math:`\sum_{j<\tau} \gamma^j r_j`. It is a step of a
    semi-Markov decision process, which :class:`~pyro_options.rl.SMDPPPO` and
    :class:`~pyro_options.rl.SMDPReplayBuffer` discount by :math:`\gamma^\tau`.

    With ``imitate`` there is one more action, ``n + K``: it imitates the demonstrator with all options combined
    (:class:`~pyro_options.skills.Imitation`) until the active option terminates. The belief over the active option is
    updated at every step of the episode, whichever action is taken.

    ``info`` is that of the last inner step, with ``duration`` τ, ``discount`` :math:`\gamma^\tau`, ``option`` (-1 for
    an action of the environment), ``num_frames`` (τ · ``frame_skip``) and, with ``record_frames``, ``frames``.

    Make it the outermost wrapper, around frame skips, frame stacks (outside, a stack would hold the ends of skills
    instead of successive frames), time limits (which then count actions of the environment) and Stable-Baselines3's
    ``Monitor``. Inside, ``Monitor`` reports the undiscounted episode return and the length in environment steps;
    outside, it would sum discounted rewards and count decisions.

    The same seed gives the same steps: skills sample from the environment's ``np_random``.

    Example::

        env = SkillWrapper(Monitor(gym.make("pyro_options/Switches-v0")), skills, max_duration=20)

    :param skills: a :class:`SkillSet`; ``None`` for a baseline without skills in the same wrapper
    :param gamma: discount within a skill; use that of the learner
    :param max_duration: end a skill after this many steps; by default ``skills.max_duration``
    :param deterministic: whether a skill takes its most probable action instead of sampling
    :param observe: ``observe(env, observation)`` returns the state for the skills, by default the flattened
        observation; :func:`~pyro_options.envs.ram` for skills on RAM while the agent observes pixels
    :param primitives: whether the environment's own actions are available too. If so, the action space must be Discrete
        (discretize others with an ``ActionWrapper``); if not, it may be MultiDiscrete, or a Box, to whose bounds the
        actions of skills are clipped
    :param frame_skip: frames that an action lasts, only used for ``num_frames``
    :param record_frames: collect the output of ``render()`` after each inner step in ``info["frames"]``
    :param imitate: add imitation as the last action; the skills must have ``imitation()``, as
        :class:`~pyro_options.skills.Skills` do
    """

    def __init__(
        self,
        env: gym.Env,
        skills: SkillSet | None,
        gamma: float = 0.99,
        max_duration: int | None = None,
        deterministic: bool = True,
        observe: Callable[[gym.Env, Any], np.ndarray] | None = None,
        primitives: bool = True,
        frame_skip: int = 1,
        record_frames: bool = False,
        imitate: bool = False,
    ):
        arguments = {name: value for name, value in locals().items() if name not in ("self", "env", "__class__")}
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **arguments)
        gym.Wrapper.__init__(self, env)
        check(0 < gamma <= 1, "gamma in (0, 1]", gamma)
        check(max_duration is None or max_duration >= 1, "max_duration >= 1", max_duration)
        check(frame_skip >= 1, "frame_skip >= 1", frame_skip)
        seen = env.render_mode not in (None, "human")  # render() returns None in these modes
        fix = 'Make the environment with render_mode="rgb_array".'
        check(not record_frames or seen, "a render_mode to record frames", repr(env.render_mode), fix)
        self.skills, self.gamma, self.deterministic = skills, gamma, deterministic
        self.observe = flat_observation if observe is None else observe
        self.frame_skip, self.record_frames = frame_skip, record_frames
        self.num_primitives = self._count_primitives(env.action_space) if primitives else 0
        self._check_skills(env.action_space)
        if skills is not None and observe is None:
            fix = "Pass observe= with what the skills were trained on, or wrap the environment."
            flat_box(env.observation_space, "observations", fix)
        self._learner_unknown = gamma < 1  # whether to look for a learner that discounts wrongly
        self.max_duration = skills.max_duration if max_duration is None and skills is not None else max_duration
        self._imitation: Any = self._whole(skills) if imitate else None
        self.num_options = imitate + (0 if skills is None else skills.num_options)
        self._belief: Any = None  # over the active option, after the previous action
        self.action_space = spaces.Discrete(self.num_primitives + self.num_options)
        self._observation: Any = None

    @staticmethod
    def _count_primitives(space: spaces.Space) -> int:
        fix = "Wrap the environment in an ActionWrapper that makes its actions discrete, or pass primitives=False."
        if not isinstance(space, spaces.Discrete):
            raise InputError(f"Expected Discrete actions to add skills to but got {space}. {fix}")
        return int(space.n)

    def _check_skills(self, space: spaces.Space) -> None:
        if self.skills is None:
            check(self.num_primitives > 0, "skills, or primitives=True", "neither", "The agent could do nothing.")
            return
        check(isinstance(self.skills, SkillSet), "skills with predict and terminates", type(self.skills).__name__)
        discrete = isinstance(space, spaces.Discrete)
        fix = "Wrap the environment in an ActionWrapper with such actions."
        possible = discrete or isinstance(space, spaces.Box | spaces.MultiDiscrete)
        check(possible, "a MultiDiscrete, a Discrete or a Box for skills to act in", space, fix)
        check(self.skills.discrete == discrete, f"skills that act in {space}", f"discrete={self.skills.discrete}")
        counts = action_counts(space)
        check(self.skills.num_actions == counts, f"skills over {counts} actions", self.skills.num_actions)

    @staticmethod
    def _whole(skills: SkillSet | None) -> Any:
        """The imitation policy of the skills."""
        fix = "Pass Skills, or leave imitate out."
        check(hasattr(skills, "imitation"), "skills with imitation() to imitate with", type(skills).__name__, fix)
        return skills.imitation()  # type: ignore[union-attr]

    def _seen(self) -> np.ndarray:
        """The current state for the skills."""
        return self.observe(self.env, self._observation)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Resets the environment."""
        self._belief = None
        self._observation, info = self.env.reset(seed=seed, options=options)
        if self.skills is not None:
            seen = self._seen()
            bits = 8 * np.size(seen) if np.asarray(seen).dtype == np.uint8 else np.size(seen)  # may be packed
            fix = "Pass observe= with what the skills were trained on, ram for instance."
            fits = self.skills.state_dim in (bits, np.size(seen))
            check(fits, f"states of {self.skills.state_dim} numbers for the skills", np.size(seen), fix)
        return self._observation, info

    def step(self, action):
        """Takes one action of the environment, or runs a skill until it ends."""
        check(self._observation is not None, "reset() before step()", "none", "Call reset() first.")
        highest = self.num_primitives + self.num_options - 1
        check(self.action_space.contains(action), f"an action in [0, {highest}]", action)
        option = int(action) - self.num_primitives
        frames: list[Any] = []
        if option < 0:
            reward, terminated, truncated, info = self._act(int(action), frames)
            return self._result(float(reward), terminated, truncated, info, -1, 1, frames)
        return self._run(option, frames)

    def _run(self, option: int, frames: list[Any]):
        """Runs a skill until it ends."""
        rng = self.env.unwrapped.np_random
        total, discount, duration, state = 0.0, 1.0, 0, self._seen()
        while True:
            choice, belief = self._choice(state, option, rng)
            reward, terminated, truncated, info = self._act(choice, frames, belief)
            total += discount * float(reward)
            discount *= self.gamma
            duration += 1
            if terminated or truncated or duration == self.max_duration:
                break
            state = self._seen()
            if self._ends(state, option, rng):
                break
        return self._result(total, terminated, truncated, info, option, duration, frames)

    def _choice(self, state: np.ndarray, option: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """The action of a skill, and the belief after it if the skill is imitation, else ``None``."""
        assert self.skills is not None
        if option == self.skills.num_options:
            return self._imitation.predict(state, self._belief, deterministic=self.deterministic, rng=rng)
        return self.skills.predict(state, option, deterministic=self.deterministic, rng=rng), None

    def _ends(self, state: np.ndarray, option: int, rng: np.random.Generator) -> bool:
        """Whether a skill terminates in this state, sampled from its termination probability."""
        assert self.skills is not None
        if option == self.skills.num_options:
            return bool(rng.random() < self._imitation.switch_probability(state, self._belief))
        return self.skills.terminates(state, option, rng=rng)

    def primitive(self, action: Any) -> Any:
        """The environment's action: with the offset of a discrete space, or clipped to the bounds of a Box."""
        space = self.env.action_space
        if isinstance(space, spaces.Discrete):
            return int(action) + int(space.start)
        if isinstance(space, spaces.MultiDiscrete):
            return to_space(space, action)
        assert isinstance(space, spaces.Box)
        shape = np.shape(action)
        check(shape == space.shape, f"skills whose actions have the shape {space.shape}", shape)
        # Gaussian policies are unbounded; Stable-Baselines3 clips their actions in the same way.
        return np.clip(action, space.low, space.high).astype(space.dtype)

    def _act(self, action: Any, frames: list[Any], belief: Any = None):
        """One inner step; with ``imitate``, it also updates the belief over the active option."""
        if self._imitation is not None:
            self._belief = self._imitation.update(self._seen(), action, self._belief) if belief is None else belief
        self._observation, reward, terminated, truncated, info = self.env.step(self.primitive(action))
        if self.record_frames:
            frames.append(self.env.render())
        return reward, terminated, truncated, info

    def _result(self, reward, terminated, truncated, info, option: int, duration: int, frames: list[Any]):
        if duration > 1 and self._learner_unknown:
            self._learner_unknown = False
            warn_of_plain_learner()
        info = dict(info, option=option, duration=duration, discount=self.gamma**duration)
        info["num_frames"] = duration * self.frame_skip
        if self.record_frames:
            info["frames"] = frames
        return self._observation, reward, terminated, truncated, info
