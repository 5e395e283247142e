"""Readers of other tools' files and objects give the arrays that are in them."""

import json
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch
from support.data_files import LENGTHS, MOTORS, random_episodes, write_lerobot, write_robomimic
from support.episodes import assert_same_trajectories, make_continuous_episodes, make_episodes, make_packed_episodes

from pyro_options.data import (
    Trajectories,
    concatenate,
    from_lerobot,
    from_records,
    from_robomimic,
    open_trajectories,
)
from pyro_options.errors import FileError, InputError

EPISODES = random_episodes()


def test_flat_arrays_with_ends():
    states = np.concatenate([states for states, _ in EPISODES])
    actions = np.concatenate([actions for _, actions in EPISODES])
    ends = np.zeros(len(states), dtype=bool)
    ends[np.cumsum(LENGTHS) - 1] = True
    expected = Trajectories.from_episodes(EPISODES)
    unfinished = ends.copy()
    unfinished[-1] = False
    for given in ({"ends": ends}, {"lengths": ends}, {"ends": unfinished.astype(float)}, {"lengths": LENGTHS}):
        assert_same_trajectories(Trajectories.from_flat(states, actions, **given), expected)
    assert_same_trajectories(Trajectories.from_flat(states, actions, ends), expected)
    for wrong in ({}, {"ends": ends, "lengths": LENGTHS}):
        with pytest.raises(InputError, match="either lengths or ends"):
            Trajectories.from_flat(states, actions, **wrong)
    with pytest.raises(InputError, match="Pass lengths of episodes as lengths="):
        Trajectories.from_flat(states, actions, ends=LENGTHS)
    with pytest.raises(InputError, match="of 15 steps"):
        Trajectories.from_flat(states, actions, ends=ends[:-1])


@pytest.mark.parametrize(
    "episode",
    [
        lambda s, a: {"observations": np.concatenate([s, s[:1]]), "actions": a, "rewards": np.zeros(len(a))},
        lambda s, a: SimpleNamespace(obs=np.concatenate([s, s[:1]]), acts=a, infos=None, terminal=True),
        lambda s, a: SimpleNamespace(observations=s, actions=a, rewards=np.zeros((len(a), 1)), terminated=True),
        lambda s, a: {"states": torch.as_tensor(s), "actions": a.tolist()},
    ],
    ids=["dicts", "imitation", "d3rlpy", "tensors"],
)
def test_records_give_equal_arrays(episode):
    data = from_records([episode(*pair) for pair in EPISODES])
    assert_same_trajectories(data, Trajectories.from_episodes(EPISODES))


def test_records_of_several_parts_and_their_own_names():
    records = [{"seen": {"pos": s[:, :2], "at": s[:, 2]}, "did": np.arange(len(a))[:, None] % 2} for s, a in EPISODES]
    data = from_records(records, states="seen", actions="did")
    assert data.state_names == ("at", "pos[0]", "pos[1]") and data.num_actions == 2
    assert torch.equal(data.states[0, :4], torch.as_tensor(EPISODES[0][0][:, [2, 0, 1]]))
    with pytest.raises(InputError, match=r"'states' or .* but got seen, did at episode 0.*states=…"):
        from_records(records)
    with pytest.raises(InputError, match="a list of episodes but got dict"):
        from_records(records[0])


def test_robomimic_files_give_equal_arrays(tmp_path):
    write_robomimic(tmp_path / "demo.hdf5", EPISODES, images=True)
    data = from_robomimic(tmp_path / "demo.hdf5")
    expected = Trajectories.from_episodes([(s[:, [1, 2, 0]], a) for s, a in EPISODES])
    assert_same_trajectories(data.to(dtype=torch.float32), expected)
    assert data.state_names == ("object[0]", "object[1]", "robot0_gripper_qpos")
    train = from_robomimic(tmp_path / "demo.hdf5", keys=["robot0_gripper_qpos"], filter_key="train")
    assert torch.equal(train.states, expected.alone()[1:].states[..., 2:].double())
    assert open_trajectories(tmp_path / "demo.hdf5").lengths.tolist() == list(LENGTHS)


def test_demonstrations_are_in_the_order_of_their_numbers(tmp_path):
    episodes = random_episodes(lengths=range(1, 13))
    write_robomimic(tmp_path / "demo.hdf5", episodes)
    assert from_robomimic(tmp_path / "demo.hdf5").lengths.tolist() == list(range(1, 13))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.__delitem__("data"), "a group 'data'"),
        (lambda file: file["data/demo_1"].__delitem__("actions"), "'actions' in every demonstration but got none in d"),
        (lambda file: file["data/demo_1/obs"].__delitem__("object"), "'object' in every demonstration"),
        (lambda file: file["data"].move("demo_2", "demo_x"), None),
    ],
)
def test_damaged_robomimic_files_are_refused_by_name(damage, message, tmp_path):
    path = tmp_path / "demo.hdf5"
    write_robomimic(path, EPISODES)
    with h5py.File(path, "a") as file:
        damage(file)
    if message is None:
        assert len(from_robomimic(path)) == 2
        return
    with pytest.raises(FileError, match=f"demo.hdf5: .*{message}"):
        from_robomimic(path)


def test_what_is_no_hdf5_file_is_refused(tmp_path):
    (tmp_path / "demo.hdf5").write_text("no")
    with pytest.raises(FileError, match=r"demo\.hdf5"):
        from_robomimic(tmp_path / "demo.hdf5")
    with pytest.raises(FileNotFoundError):
        from_robomimic(tmp_path / "other.hdf5")


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
def test_lerobot_data_sets_give_equal_arrays(version, tmp_path):
    write_lerobot(tmp_path / "set", EPISODES, version)
    data, expected = from_lerobot(tmp_path / "set"), Trajectories.from_episodes(EPISODES)
    assert_same_trajectories(data, expected)
    assert data.action_names == tuple(MOTORS) and data.state_names[1] == "observation.state[1]"
    some = from_lerobot(tmp_path / "set", episodes=[2, 0])
    assert torch.equal(some.lengths, expected.lengths[[0, 2]]) and torch.equal(
        some.states, expected[[0, 2]].states[:, :5]
    )
    both = from_lerobot(tmp_path / "set", states=["observation.state", "timestamp"])
    assert both.state_dim == 4 and both.state_names[3] == "timestamp"
    assert torch.equal(open_trajectories(tmp_path / "set").states, data.states)


def test_lerobot_data_sets_that_are_not_whole_are_refused(tmp_path):
    root = tmp_path / "set"
    write_lerobot(root, EPISODES)
    with pytest.raises(InputError, match=r"a feature among observation\.state, action.*'observation\.image'"):
        from_lerobot(root, states="observation.image")
    with pytest.raises(InputError, match="episodes among those"):
        from_lerobot(root, episodes=[9])
    (root / "data" / "chunk-000" / "file-001.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileError, match="set: "):
        from_lerobot(root)
    info = json.loads((root / "meta" / "info.json").read_text())
    (root / "meta" / "info.json").write_text(json.dumps(info | {"codebase_version": "v1.6"}))
    with pytest.raises(FileError, match=r"v2 or v3 but got v1\.6"):
        from_lerobot(root)
    (root / "meta" / "info.json").write_text("{")
    with pytest.raises(FileError, match=r"info\.json: Expected JSON"):
        from_lerobot(root)
    with pytest.raises(FileError, match=r"meta/info\.json"):
        from_lerobot(tmp_path)


def test_frames_that_meta_lists_and_data_lack_are_noticed(tmp_path):
    import pyarrow.parquet as pq

    write_lerobot(tmp_path / "set", EPISODES)
    path = tmp_path / "set" / "data" / "chunk-000" / "file-000.parquet"
    pq.write_table(pq.read_table(path)[:3], path)
    with pytest.raises(FileError, match="4 frames of episode 0, as meta has it, but got 3"):
        from_lerobot(tmp_path / "set")


@pytest.mark.parametrize("make", [make_episodes, make_continuous_episodes, make_packed_episodes])
def test_concatenated_data_are_those_of_all_parts(make):
    data = make(6)
    assert_same_trajectories(concatenate([data[:2].alone(), data[2:3].alone(), data[3:].alone()]), data)
    assert concatenate([data[:2]]).population == 2


def test_concatenation_of_ragged_and_mapped_arrays(tmp_path):
    long = random_episodes(lengths=(3000, 20, 10))
    ragged = Trajectories.from_episodes(long)
    np.save(tmp_path / "s.npy", np.concatenate([s for s, _ in EPISODES]))
    actions = np.concatenate([a for _, a in EPISODES])
    mapped = Trajectories.from_flat(np.load(tmp_path / "s.npy", mmap_mode="r"), actions, LENGTHS)
    both = concatenate([ragged, mapped])
    expected = Trajectories.from_episodes([*long, *EPISODES])
    assert_same_trajectories(both, expected)
    assert both.state_steps.mapped and both.ragged


def test_what_does_not_fit_is_not_concatenated():
    data = make_episodes()
    for other, message in (
        (make_continuous_episodes(), "actions"),
        (make_episodes(state_dim=2), "states"),
        (data.with_names(["x", "y", "z"]), "state_names"),
        ([1], "Trajectories but got list at position 1"),
    ):
        with pytest.raises(InputError, match=message):
            concatenate([data, other])
    with pytest.raises(InputError, match="at least one set"):
        concatenate([])
    assert concatenate([data, make_episodes(num_actions=6)]).num_actions == 6


def test_a_kind_of_file_that_is_not_known_is_refused(tmp_path):
    (tmp_path / "demos.xlsx").write_text("")
    with pytest.raises(FileError, match=r"a known kind of file or a Minari id.*'.*demos.xlsx'.*LeRobot"):
        open_trajectories(tmp_path / "demos.xlsx")
    with pytest.raises(FileError, match=r"a folder with index\.json.*meta/info\.json"):
        open_trajectories(tmp_path)
    make_episodes().save(tmp_path / "demos.npz")
    assert_same_trajectories(open_trajectories(tmp_path / "demos.npz"), make_episodes())
    with pytest.raises(InputError, match=r"settings of .*demos.npz.* among max_bytes.* but got 'episode'"):
        open_trajectories(tmp_path / "demos.npz", episode="x")
