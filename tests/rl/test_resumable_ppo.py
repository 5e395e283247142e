"""PPO over skills that is stopped and resumed ends with the same bits as without a break."""

import os
import signal

import numpy as np
import pytest
import torch
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from support.skill_envs import switches_with_skills
from support.skill_sets import LinearSkills
from support.small_trainings import Killed

from pyro_options.envs import SwitchesEnv, agent_space
from pyro_options.errors import FileError, InputError, Interrupted
from pyro_options.persistence.storage import previous_of
from pyro_options.rl import SMDPPPO, CurveCallback, PartwiseLearning

STEPS = 4 * 64


def make_envs():
    skills = LinearSkills(50, 2, 5, termination_logit=0.0)
    return DummyVecEnv([lambda: switches_with_skills(skills, max_steps=20, observe=agent_space)] * 2)


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
def whole_path(tmp_path_factory):
    return tmp_path_factory.mktemp("whole") / "agent"


@pytest.fixture(scope="module")
def whole(whole_path):
    return learning(whole_path).run(STEPS)


def test_a_killed_run_ends_with_the_same_bytes(whole, whole_path, tmp_path):
    path = tmp_path / "agent"
    for at in (20, 100, 200):  # in the first part, and twice later

        class Callback(Deadly):
            pass

        Callback.at = at
        with pytest.raises(Killed):
            learning(path, make_callback=Callback).run(STEPS)
    learner, rows = learning(path).run(STEPS)
    assert path.read_bytes() == whole_path.read_bytes() and learner.ep_info_buffer
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


def test_the_previous_checkpoint_is_used_when_the_last_is_damaged(whole, tmp_path):
    path = tmp_path / "agent"
    learning(path).run(STEPS)
    assert previous_of(path).exists()
    path.write_bytes(path.read_bytes()[:-50])
    learner, rows = learning(path).run(STEPS)
    assert parameters(learner) == parameters(whole[0]) and rows == whole[1]


def test_resuming_with_other_settings_is_refused(tmp_path):
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


@pytest.mark.parametrize("at", [100, 128, 140], ids=["within a part", "with its goal", "beyond its goal"])
def test_a_callback_may_stop_and_stays_stopped(at, tmp_path):
    class Enough(CurveCallback):
        def _on_step(self):
            return self.model.num_timesteps != at  # once: what forgets it would go on

    path, every = tmp_path / "agent", 130 if at == 140 else 64
    learner, _ = learning(path, make_callback=Enough, every=every).run(STEPS)
    assert learner.num_timesteps == at
    assert learning(path, make_callback=Enough, every=every).run(STEPS)[0].num_timesteps == at


def test_a_shorter_run_than_the_saved_one_is_refused(tmp_path):
    path = tmp_path / "agent"
    learning(path).run(128)
    assert learning(path).run(65)[0].num_timesteps == 128  # which ends with the same rollout
    with pytest.raises(FileError, match=r"total_steps > 64, as .* has learned for 128, but got 64"):
        learning(path).run(64)


@pytest.mark.parametrize("name", ["learning_rate", "clip_range", "clip_range_vf"])
def test_schedules_are_refused(name, tmp_path):
    def with_rate(rate):
        return lambda envs: SMDPPPO("MlpPolicy", envs, n_steps=32, batch_size=32, device="cpu", **{name: rate})

    parts = {"make_envs": make_envs, "every": 64}
    with pytest.raises(InputError, match=f"a constant {name} but got one that goes from 0.2 to 0"):
        PartwiseLearning(tmp_path / "a", make_learner=with_rate(lambda left: 0.2 * left), **parts).run(64)
    constant = PartwiseLearning(tmp_path / "b", make_learner=with_rate(lambda left: 1e-3), **parts)
    assert constant.run(64)[0].num_timesteps == 64


def test_vec_normalize_is_refused(tmp_path):
    def normalized():
        return VecNormalize(make_envs(), norm_reward=False)

    with pytest.raises(InputError, match="environments without VecNormalize"):
        PartwiseLearning(tmp_path / "agent", normalized, make_learner).run(64)


def test_texts_from_the_monitor_are_not_saved(tmp_path):
    class Named(SwitchesEnv):
        def step(self, action):
            *result, info = super().step(action)
            return *result, info | {"hall": "great"}

    def make():
        return DummyVecEnv([lambda: Monitor(Named(max_steps=20), info_keywords=("hall",))])

    PartwiseLearning(tmp_path / "agent", make, make_learner, every=64).run(64)
    learner, _ = PartwiseLearning(tmp_path / "agent", make, make_learner, every=64).run(64)
    assert {*learner.ep_info_buffer[0]} == {"r", "l"}


def test_environments_are_closed_whatever_happens(tmp_path):
    made = []

    class Counted(DummyVecEnv):
        def close(self):
            made.remove(self)
            super().close()

    def counted():
        made.append(Counted([lambda: Monitor(SwitchesEnv())]))
        return made[-1]

    class Callback(Deadly):
        at = 80

    def refusing(envs):
        raise Killed

    PartwiseLearning(tmp_path / "a", counted, make_learner, every=64).run(64)
    for make, name in ((make_learner, "b"), (refusing, "c")):
        with pytest.raises(Killed):
            PartwiseLearning(tmp_path / name, counted, make, Callback, every=64).run(STEPS)
    assert made == []


def test_log_interval_turns_logging_on(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def logging(envs):
        return SMDPPPO("MlpPolicy", envs, n_steps=32, batch_size=32, device="cpu", tensorboard_log=str(tmp_path))

    parts = {"make_envs": make_envs, "make_learner": logging, "every": 64}
    PartwiseLearning(tmp_path / "agent", **parts, log_interval=1).run(128)
    events = EventAccumulator(str(tmp_path / "SMDPPPO_0")).Reload()
    assert [event.step for event in events.Scalars("time/frames")] == [64, 128]
    with pytest.raises(InputError, match="log_interval >= 1"):
        PartwiseLearning(tmp_path / "agent", **parts, log_interval=0)


def test_ctrl_c_ends_the_part_and_says_how_to_go_on(whole, tmp_path):
    class Nervous(CurveCallback):
        def _on_step(self):
            if self.model.num_timesteps == 80:
                os.kill(os.getpid(), signal.SIGINT)
            return True

    path = tmp_path / "agent"
    with pytest.raises(Interrupted, match=r"Stopped: 128 of 256 decisions are done.*--resume"):
        learning(path, make_callback=Nervous).run(STEPS)
    assert parameters(learning(path).run(STEPS)[0]) == parameters(whole[0])


def test_ctrl_c_that_ends_processes_of_environments_goes_on_from_the_last_part(whole, tmp_path):
    def close():
        raise EOFError  # as a SubprocVecEnv whose processes are gone

    class Broken(CurveCallback):
        pressed = True

        def _on_step(self):
            if self.model.num_timesteps == 80:
                self.training_env.close = close
                if self.pressed:
                    os.kill(os.getpid(), signal.SIGINT)
                raise BrokenPipeError
            return True

    class Unpressed(Broken):
        pressed = False

    path = tmp_path / "agent"
    with pytest.raises(BrokenPipeError):
        learning(path, make_callback=Unpressed).run(STEPS)
    with pytest.raises(Interrupted, match=r"Stopped: 64 of 256 decisions"):
        learning(path, make_callback=Broken).run(STEPS)
    assert parameters(learning(path).run(STEPS)[0]) == parameters(whole[0])


def test_without_resume_training_starts_again(whole, tmp_path):
    path = tmp_path / "agent"
    learning(path).run(64)
    learner, rows = learning(path, resume=False).run(64)
    assert rows == whole[1][:1] and learner.num_timesteps == 64
    assert all(np.isfinite(p.detach().numpy()).all() for p in learner.policy.parameters())


def test_the_progress_bar_covers_all_parts_and_starts_at_the_resumed_step(whole, tmp_path, capfd):
    learning(tmp_path / "agent").run(STEPS // 2)
    assert capfd.readouterr().err == ""
    learner, rows = learning(tmp_path / "agent", progress=True).run(STEPS - 10)  # the last rollout goes beyond
    bar = capfd.readouterr().err.split("\r")
    assert "128/246" in bar[1] and "246/246" in bar[-1] and f"return={rows[-1]['return']:.2f}" in bar[-1]
    assert rows == whole[1] and parameters(learner) == parameters(whole[0])  # it only looks
