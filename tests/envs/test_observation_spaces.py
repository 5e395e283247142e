"""Observations that are no vectors are refused by name: missions of minigrid, graphs, sequences."""

import gymnasium as gym
import minigrid  # noqa: F401  registers its environments
import pytest
from gymnasium import spaces
from support.skill_sets import LinearSkills

from pyro_options.data import collect
from pyro_options.envs import SkillWrapper
from pyro_options.errors import InputError


class Graphs(gym.Env):
    observation_space = spaces.Dict({"seen": spaces.Graph(spaces.Box(0, 1, (2,)), None), "at": spaces.Discrete(3)})
    action_space = spaces.Discrete(2)


@pytest.mark.parametrize(
    ("make", "kind"), [(lambda: gym.make("MiniGrid-Empty-5x5-v0"), "MissionSpace"), (Graphs, "Graph")]
)
def test_observations_that_do_not_flatten(make, kind):
    with pytest.raises(InputError, match=rf"observations that flatten to a Box but got {kind} in .*observe="):
        collect(make(), lambda observation: 0, 1)
    env = make()
    with pytest.raises(InputError, match=rf"flatten to a Box but got {kind} in .*observe="):
        SkillWrapper(env, LinearSkills(4, 2, int(env.action_space.n)))


def test_what_observe_returns_is_recorded_instead():
    env = gym.make("MiniGrid-Empty-5x5-v0")
    data = collect(env, lambda _: 2, 1, max_steps=3, observe=lambda env, seen: seen["image"].reshape(-1))
    assert data.state_dim == 147
