"""PPO over skills in parts: what was stopped and resumed is what was not."""

import os
import signal

import numpy as np
import pytest
import torch
from skill_sets import LinearSkills
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from stopped_runs import Killed

from pyro_options.envs import SkillWrapper, SwitchesEnv, agent_space
from pyro_options.errors import FileError, InputError, Interrupted
from pyro_options.rl import SMDPPPO, CurveCallback, PartwiseLearning
from pyro_options.storage import previous_of

STEPS = 4 * 64


def make_envs():
    skills = LinearSkills(50, 2, 5, termination_logit=0.0)
    return DummyVecEnv([lambda: SkillWrapper(Monitor(SwitchesEnv()), skills, 0.99, observe=agent_space)] * 2)


def make_learner(envs):
    return SMDPPPO("MlpPolicy", envs, n_steps=32, batch_size=32, n_epochs=2, seed=0, device="cpu")


def learning(path, **given):
    return PartwiseLearning(path, make_envs, make_learner, **{"every": 64, "seed": 3} | given)


class Deadly(CurveCallback):
    """Dies after so many decisions."""

    at = 10**9

    def _on_step(self):
        if self.model.num_timesteps > self.at:
            raise Killed
        return True


def parameters(learner):
    return [p.tolist() for p in learner.policy.parameters()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return learning(tmp_path_factory.mktemp("whole") / "agent").run(STEPS)


def test_a_killed_run_ends_with_the_same_bits(whole, tmp_path):
    path = tmp_path / "agent"
    for at in (20, 100, 200):  # in the first part, and twice later

        class Callback(Deadly):
            pass

        Callback.at = at
        with pytest.raises(Killed):
            learning(path, make_callback=Callback).run(STEPS)
    learner, rows = learning(path).run(STEPS)
    assert learner.num_timesteps == STEPS and rows == whole[1]
    assert parameters(learner) == parameters(whole[0])
    assert learner.num_frames == whole[0].num_frames > STEPS
    for ours, theirs in zip(learner.policy.parameters(), whole[0].policy.parameters()):
        states = learner.policy.optimizer.state[ours], whole[0].policy.optimizer.state[theirs]
        assert all(torch.equal(states[0][key], states[1][key]) for key in ("step", "exp_avg", "exp_avg_sq"))


def test_parts_differ_in_their_random_numbers(whole):
    assert len({tuple(sorted(row.items())) for row in whole[1]}) == len(whole[1]) == 4


def test_a_finished_run_is_read_and_a_longer_one_goes_on(whole, tmp_path):
    path = tmp_path / "agent"
    learning(path).run(STEPS)
    before = path.read_bytes()
    learner, rows = learning(path).run(STEPS)
    assert parameters(learner) == parameters(whole[0]) and path.read_bytes() == before
    assert learning(path).run(STEPS + 64)[1][:4] == rows


def test_a_damaged_checkpoint_gives_way_to_the_one_before(whole, tmp_path):
    path = tmp_path / "agent"
    learning(path).run(STEPS)
    assert previous_of(path).exists()
    path.write_bytes(path.read_bytes()[:-50])
    learner, rows = learning(path).run(STEPS)
    assert parameters(learner) == parameters(whole[0]) and rows == whole[1]


def test_another_run_is_refused(tmp_path):
    path = tmp_path / "agent"
    learning(path, about={"gamma": 0.9}).run(64)
    for change, message in (
        ({"about": {"gamma": 0.8}}, r"gamma = 0.9 but got 0.8"),
        ({"about": {"gamma": 0.9}, "seed": 4}, "seed = 3 but got 4"),
        ({"about": {"gamma": 0.9}, "every": 32}, "every = 64 but got 32"),
    ):
        with pytest.raises(FileError, match=message):
            learning(path, **change).run(64)
    with pytest.raises(InputError, match="every >= 1"):
        learning(path, every=0)
    with pytest.raises(InputError, match="a folder"):
        learning(tmp_path / "nowhere" / "agent")


def test_a_callback_may_stop_and_stays_stopped(tmp_path):
    class Enough(CurveCallback):
        def _on_step(self):
            return self.model.num_timesteps < 100

    path = tmp_path / "agent"
    learner, _ = learning(path, make_callback=Enough).run(STEPS)
    assert 100 <= learner.num_timesteps < STEPS
    assert learning(path, make_callback=Enough).run(STEPS)[0].num_timesteps == learner.num_timesteps


def test_ctrl_c_ends_the_part_and_says_how_to_go_on(whole, tmp_path):
    class Nervous(CurveCallback):
        def _on_step(self):
            if self.model.num_timesteps == 80:
                os.kill(os.getpid(), signal.SIGINT)
            return True

    path = tmp_path / "agent"
    with pytest.raises(Interrupted, match=r"Stopped after 128 of 256 decisions.*--resume"):
        learning(path, make_callback=Nervous).run(STEPS)
    assert parameters(learning(path).run(STEPS)[0]) == parameters(whole[0])


def test_without_resume_it_starts_again(whole, tmp_path):
    path = tmp_path / "agent"
    learning(path).run(64)
    learner, rows = learning(path, resume=False).run(64)
    assert rows == whole[1][:1] and learner.num_timesteps == 64
    assert all(np.isfinite(p.detach().numpy()).all() for p in learner.policy.parameters())
