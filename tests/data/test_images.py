"""Images as states: they keep their shape and stay bytes, in memory and in files."""

import numpy as np
import pytest
import torch
from support.images import SHAPE, make_images

from pyro_options.data import Trajectories, concatenate
from pyro_options.errors import InputError

FRAMES, ACTIONS, LENGTHS = make_images()


def flat(values):
    """Values of all steps, one episode after the other."""
    return np.concatenate([one[:length] for one, length in zip(values, LENGTHS)])


def ways():
    """Demonstrations of the same images made in each way."""
    episodes = [(states[:n], actions[:n]) for states, actions, n in zip(FRAMES, ACTIONS, LENGTHS)]
    return {
        "padded": Trajectories(FRAMES, ACTIONS, LENGTHS),
        "episodes": Trajectories.from_episodes(episodes),
        "flat": Trajectories.from_flat(flat(FRAMES), flat(ACTIONS), LENGTHS),
    }


@pytest.mark.parametrize("way", ["padded", "episodes", "flat"])
def test_images_keep_shape_and_type(way, tmp_path):
    data = ways()[way]
    data.save(tmp_path / "data.npz")
    for one in (data, Trajectories.load(tmp_path / "data.npz")):
        assert one.state_shape == SHAPE and one.state_dim == 60 and one.frames
        assert one.state_steps.dtype == one.states.dtype == torch.uint8
        for i, length in enumerate(LENGTHS):
            assert np.array_equal(one.state_steps.episode(i).unflatten(-1, SHAPE), FRAMES[i, :length])
        assert not one.states[~one.mask].any()
    assert "states 6 × 5 × 2 × torch.uint8" in repr(data)


def test_batches_stay_bytes_and_selecting_copies_nothing():
    data = Trajectories(FRAMES, ACTIONS, LENGTHS, copy=False)
    first, second = data.split(0.25, seed=1)
    start, end = FRAMES.ctypes.data, FRAMES.ctypes.data + FRAMES.nbytes
    for part in (first, second, data[3:5], data.cut(2)):
        assert all(start <= array.data_ptr() < end for array in part.state_steps.arrays)
        assert part.state_shape == SHAPE
    for batch in first.minibatches(4):
        assert batch.states.dtype == torch.uint8 and batch.states is batch.states and batch.state_shape == SHAPE


def test_a_mapped_file_of_images_is_not_read(tmp_path):
    np.save(tmp_path / "frames.npy", FRAMES)
    data = Trajectories(np.load(tmp_path / "frames.npy", mmap_mode="r"), ACTIONS, LENGTHS)
    assert data.state_steps.mapped and data.frames
    steps = np.save(tmp_path / "flat.npy", flat(FRAMES)) or np.load(tmp_path / "flat.npy", mmap_mode="r")
    data = Trajectories.from_flat(steps, flat(ACTIONS), LENGTHS)
    assert data.state_steps.mapped and data.state_shape == SHAPE


def test_floating_point_images_and_flat_states():
    data = Trajectories(FRAMES / np.float32(255), ACTIONS, LENGTHS)
    assert data.state_shape == SHAPE and not data.frames and data.states.dtype == torch.float32
    flattened = Trajectories(FRAMES, ACTIONS, LENGTHS).flat_states()
    assert flattened.state_shape is None and flattened.unpack().states.dtype == torch.float32


def test_images_can_be_joined():
    data = Trajectories(FRAMES, ACTIONS, LENGTHS)
    both = concatenate([data, data])
    assert both.state_shape == SHAPE and both.frames and len(both) == 2 * len(data)
    with pytest.raises(InputError, match="state_shape of the first set"):
        concatenate([data, data.flat_states()])


def test_evaluation_batches_of_wide_states_are_small():
    wide = Trajectories(np.zeros((40, 3, 84, 84, 4), np.uint8), np.zeros((40, 3), int), num_actions=2)
    assert wide.rows_together() * 3 * wide.state_dim <= 2**26 < Trajectories(FRAMES, ACTIONS).rows_together() * 10**5


def test_packed_images_are_refused():
    with pytest.raises(InputError, match="packed states with one axis of bytes"):
        Trajectories(FRAMES, ACTIONS, packed=True)
