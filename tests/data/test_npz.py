"""Files of demonstrations: round trips are exact, and bad files are refused by name."""

import io
import zipfile

import numpy as np
import pytest
import torch
from support.episodes import (
    assert_same_trajectories,
    make_continuous_episodes,
    make_episodes,
    make_packed_episodes,
)

from pyro_options.data import Trajectories, from_npz

KINDS = {
    "discrete": make_episodes,
    "continuous": lambda: make_continuous_episodes(dtype=torch.float64),
    "packed": make_packed_episodes,
    "without actions": lambda: make_episodes().without_actions(),
}


@pytest.fixture
def saved(tmp_path):
    make_episodes().save(tmp_path / "data.npz")
    return tmp_path / "data.npz"


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_exact(kind, tmp_path):
    data = KINDS[kind]()
    data.save(tmp_path / "data.npz")
    again = Trajectories.load(tmp_path / "data.npz")
    assert_same_trajectories(data, again)
    assert again.population == len(data)
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


def test_names_are_saved(tmp_path):
    names = ("größe", "y", "z"), ("up", "down", "left", "right")
    make_episodes().with_names(*names).save(tmp_path / "data.npz")
    again = Trajectories.load(tmp_path / "data.npz")
    assert (again.state_names, again.action_names) == names


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        make_episodes(3).save(saved)
    assert saved.read_bytes() == before and len(list(saved.parent.iterdir())) == 1


def test_dtypes_that_numpy_lacks_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"bfloat16.*convert"):
        make_episodes().to(dtype=torch.bfloat16).save(tmp_path / "data.npz")


@pytest.mark.parametrize("keep", [0, 10, 200, 400, -30])
def test_truncated_files_are_refused(saved, keep):
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"data\.npz: .*write it again"):
        Trajectories.load(saved)


def test_damaged_files_are_refused(saved):
    """One byte anywhere: either the same data or a ValueError with the name of the file, never something else."""
    whole, original = bytearray(saved.read_bytes()), Trajectories.load(saved)
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 0x5A
        saved.write_bytes(damaged)
        try:
            data = Trajectories.load(saved)
        except ValueError as error:
            assert str(error).count(str(saved)) == 1
            assert "write it again" in str(error) or "Expected" in str(error)
        else:
            assert torch.equal(data.stored, original.stored) and torch.equal(data.actions, original.actions)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, x=np.zeros(3))
    with pytest.raises(ValueError, match=r"other\.npz: Expected an array called 'format' but got x"):
        Trajectories.load(path)
    path.write_text("hello")
    with pytest.raises(ValueError, match="not an npz file"):
        Trajectories.load(path)
    with pytest.raises(FileNotFoundError):
        Trajectories.load(tmp_path / "absent.npz")


def rewrite(path, **changes):
    with np.load(path) as arrays:
        np.savez(path, **{**dict(arrays), **changes})


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(format=np.array("pyro_options.Trajectories/9")), "Trajectories/9.*from_npz"),
        (dict(states=np.full((6, 5, 3), np.nan, dtype=np.float32)), "NaN or infinity at episode 0"),
        (dict(actions=np.full((6, 5), 7)), r"\[0, 3\] but got 7 at episode 0"),
        (dict(lengths=np.array([1, 2, 3, 4, 5, 6])), "got 6 at episode 5"),
        (dict(lengths=np.array([1, 2, 0, 4, 5, 5])), "got 0 at episode 2"),
        (dict(actions=np.zeros((6, 4), dtype=np.int64)), "actions of shape"),
        (dict(states=np.zeros((7, 5, 3), dtype=np.float32)), r"lengths of shape \(7,\)"),
        (dict(states=np.full((6, 5, 3), "a")), "data.npz"),
        (dict(packed=np.array(True)), "type uint8"),
    ],
)
def test_contents_are_checked(saved, changes, message):
    rewrite(saved, **changes)
    with pytest.raises(ValueError, match=r"data\.npz: ") as error:
        Trajectories.load(saved)
    assert error.match(message)


def test_pickle_is_refused(tmp_path):
    path = tmp_path / "objects.npz"
    np.savez(path, states=np.array([{}], dtype=object), actions=np.zeros((1, 1), dtype=int))
    with pytest.raises(ValueError, match=r"numbers in 'states'.*pickle"):
        from_npz(path, lengths=None)


def test_declared_sizes_are_checked_before_reading(tmp_path):
    """A header of a few bytes that promises terabytes allocates nothing."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6, 9)})
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("states.npy", header.getvalue() + b"\0" * 16)
        archive.writestr("actions.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"huge\.npz: Expected 36000000000000 bytes in 'states'.* but got 16"):
        from_npz(tmp_path / "huge.npz", lengths=None)


def test_files_larger_than_max_bytes_are_refused(saved):
    with pytest.raises(ValueError, match="at most 100 bytes"):
        Trajectories.load(saved, max_bytes=100)


def test_from_npz_takes_any_names_of_arrays(tmp_path):
    ram = np.random.default_rng(0).integers(256, size=(3, 4, 2), dtype=np.uint8)
    action, length = np.array([[0, 1, 2, 0]] * 3, dtype=np.uint8), np.array([4, 2, 3])
    np.savez_compressed(tmp_path / "expert.npz", ram=ram, action=action, length=length, ret=np.zeros(3))
    names = {"states": "ram", "actions": "action"}
    data = from_npz(tmp_path / "expert.npz", **names, lengths="length", packed=True)
    assert data.packed and data.num_actions == 3 and data.lengths.tolist() == [4, 2, 3]
    assert np.array_equal(data.stored[0].numpy(), ram[0])
    assert from_npz(tmp_path / "expert.npz", **names, lengths=None, packed=True).lengths.tolist() == [4, 4, 4]
    with pytest.raises(ValueError, match=r"expert\.npz: Expected an array called 'lengths' but got action, length"):
        from_npz(tmp_path / "expert.npz", **names, packed=True)


def test_other_byte_orders_are_read(tmp_path):
    np.savez(tmp_path / "big.npz", states=np.arange(6, dtype=">f4").reshape(1, 3, 2), actions=np.zeros((1, 3), ">i8"))
    data = from_npz(tmp_path / "big.npz", lengths=None)
    assert data.states.flatten().tolist() == [0, 1, 2, 3, 4, 5]


def test_a_missing_array_is_refused_with_a_remedy(tmp_path):
    path = tmp_path / "foreign.npz"
    np.savez(path, states=np.zeros((2, 3, 1)), actions=np.zeros((2, 3), dtype=int))
    with pytest.raises(ValueError, match=r"'lengths' but got actions, states\. Pass lengths=None"):
        from_npz(path)
    with pytest.raises(ValueError, match=r"'format' but got .*Read other npz files with from_npz"):
        Trajectories.load(path)
