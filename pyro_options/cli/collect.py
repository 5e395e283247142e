"""``pyro-options collect``: records demonstrations of a policy in an environment."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from pyro_options.errors import InputError, check

from .command import Command, parent_of


@dataclass(frozen=True, kw_only=True)
class Collect(Command):
    """Record demonstrations of a policy in a Gymnasium environment.

    A Stable-Baselines3 zip file contains pickles, and module:function imports code: use only what you trust.
    """

    EXAMPLES = (
        "pyro-options collect pyro_options/Switches-v0 expert --out switches.npz",
        "pyro-options collect Breakout expert --episodes 50 --out breakout.npz",
        "pyro-options collect CartPole-v1 ppo-CartPole-v1.zip --epsilon 0.02 --out cartpole.npz",
        "pyro-options collect CartPole-v1 mypolicies:lean --out cartpole.csv",
    )

    env: Annotated[Positional[str], arg(metavar="ENV")]
    """id of a Gymnasium environment, or the name of an Atari game that has an expert"""
    policy: Annotated[Positional[str], arg(metavar="POLICY")]
    """expert (of our own environments and games), random, a zip file, a hub id, or module:function"""
    out: Path = Path("demonstrations.npz")
    """.npz, .csv or .parquet"""
    episodes: int = 100
    max_steps: int | None = None
    """end an episode after this many"""
    epsilon: float = 0.0
    """probability of a random action instead of the policy's"""
    seed: int = 0

    def run(self) -> dict[str, Any]:
        from .convert import write

        data = self._expert() if self.policy == "expert" else self._collected()
        return {
            "written": write(data, parent_of(self.out)),
            "episodes": len(data),
            "steps": data.num_steps,
            "text": str(data),
        }

    def _expert(self) -> Any:
        from pyro_options import envs

        given: dict[str, Any] = {"seed": self.seed}
        if self.env == "pyro_options/Switches-v0":
            return envs.switches_demonstrations(self.episodes, epsilon=self.epsilon, **given).cut(self.max_steps)
        if self.env == "pyro_options/Message-v0":
            return envs.message_demonstrations(6, self.episodes, **given).cut(self.max_steps)
        known = ["pyro_options/Switches-v0", "pyro_options/Message-v0", *sorted(envs.EXPERTS)]
        check(self.env in envs.EXPERTS, f"an expert of {', '.join(known)}", repr(self.env), "Pass another policy.")
        given |= {} if self.max_steps is None else {"max_steps": self.max_steps}
        given |= {"epsilon": self.epsilon} if self.epsilon else {}
        return envs.atari_demonstrations(self.env, self.episodes, progress=not self.quiet, **given)

    def _collected(self) -> Any:
        import gymnasium as gym

        import pyro_options.envs  # noqa: F401  registers ours
        from pyro_options.data import collect

        try:
            env = gym.make(self.env)
        except gym.error.Error as error:
            raise InputError(f"Expected the id of a Gymnasium environment but got {self.env!r}: {error}") from error
        env.action_space.seed(self.seed)
        policy = (lambda _: env.action_space.sample()) if self.policy == "random" else _policy(self.policy)
        settings: dict[str, Any] = {"max_steps": self.max_steps, "seed": self.seed, "epsilon": self.epsilon}
        return collect(env, policy, self.episodes, progress=not self.quiet, **settings)

    def text(self, result: dict[str, Any]) -> str:
        return f"{result['text']}\nwritten: {result['written']}"


def _policy(text: str) -> Any:
    """A function by ``module:name``, or what ``load_policy`` takes."""
    module, colon, name = text.partition(":")
    if not colon or Path(text).suffix == ".zip":
        return text
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"Expected a policy as module:function but got {text!r}: {error}.") from error
