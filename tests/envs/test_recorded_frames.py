"""Recorded games are replayed from their actions; animations show options."""

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from pyro_options.envs import expert_rollouts, replay_frames
from pyro_options.viz import annotate, option_color, save_gif


@pytest.fixture(scope="module")
def episode():
    data = expert_rollouts("Breakout", 1, 20, seed=3).trajectories
    return data.stored[0].numpy(), data.actions[0].numpy()


def test_a_recorded_episode_is_replayed(episode):
    frames = replay_frames("Breakout", *episode)
    assert len(frames) == 20 and frames[0].shape == (210, 160, 3) and frames[0].dtype == np.uint8
    assert any(not np.array_equal(a, b) for a, b in pairwise(frames))


def test_an_episode_that_cannot_be_replayed_gives_none(episode):
    ram, actions = episode
    other = ram.copy()
    other[-1, 99] ^= 1
    assert replay_frames("Breakout", other, actions) is None
    assert replay_frames("Breakout", ram, actions, max_noops=0) is None  # it started after some frames of doing nothing


def test_states_that_are_not_ram_are_refused(episode):
    ram, actions = episode
    with pytest.raises(ValueError, match="RAM"):
        replay_frames("Breakout", ram[:, :5], actions)
    with pytest.raises(ValueError, match="20 actions"):
        replay_frames("Breakout", ram, actions[:-1])


def color(picture, place):
    return "#{:02X}{:02X}{:02X}".format(*picture.getpixel(place))


def test_a_frame_shows_its_option():
    frame = np.full((50, 80, 3), 7, dtype=np.uint8)
    picture = annotate(frame, [0, 0, 1, 1], time=2, name="option 1: LEFT")
    assert picture.size[0] == 160 and picture.getpixel((10, 10)) == (7, 7, 7)
    assert color(picture, (5, 110)) == option_color(1)
    bottom = picture.size[1] - 2
    assert color(picture, (20, bottom)) == option_color(0) and color(picture, (120, bottom)) == option_color(1)
    other = annotate(frame, [0, 0, 1, 1], time=2, name="something else")
    assert picture.tobytes() != other.tobytes()


def test_a_gif_has_a_frame_per_step(tmp_path):
    rng = np.random.default_rng(0)
    frames = list(rng.integers(0, 256, (4, 20, 30, 3), dtype=np.uint8))
    save_gif(tmp_path / "a.gif", frames, [0, 1, 1, 0], ["a", "b"], milliseconds=50)
    with Image.open(tmp_path / "a.gif") as animation:
        assert animation.n_frames == 4 and animation.info["duration"] == 50 and animation.info["loop"] == 0
    with pytest.raises(ValueError, match="one option for each frame"):
        save_gif(tmp_path / "b.gif", frames, [0], ["a"])
