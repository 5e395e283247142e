"""Folders of mapped demonstrations: equal to those in memory, read as needed, and checked."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pyro_options import discover
from pyro_options.data import Trajectories, open_trajectories, save_episodes
from pyro_options.data.folder import write_folder
from pyro_options.errors import FileError


def make_ram(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    steps = sum(lengths)
    ram = torch.randint(0, 256, (steps, 8), dtype=torch.uint8, generator=generator)
    return Trajectories.from_flat(ram, (ram[:, 0] // 64).long(), lengths, packed=True)


def make_numbers(actions):
    generator = torch.Generator().manual_seed(1)
    return Trajectories(torch.randn(5, 4, 3, generator=generator), actions, [4, 2, 3, 1, 4])


CASES = {
    "packed": make_ram([7] * 20),
    "ragged": make_ram([2] * 60 + [300] * 20),
    "discrete": make_numbers(torch.arange(20).view(5, 4) % 3).with_names(state_names=["a", "b", "c"]),
    "several": make_numbers((torch.arange(40) % 3).view(5, 4, 2)),
    "continuous": make_numbers(torch.linspace(-1, 1, 40).view(5, 4, 2)),
    "pictures": Trajectories(torch.arange(2 * 3 * 16).view(2, 3, 4, 4, 1).to(torch.uint8), torch.zeros(2, 3).long()),
    "no actions": make_numbers(torch.zeros(5, 4).long()).without_actions(),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shard_bytes", [1, 100, 2**28])
def test_a_folder_holds_the_same_demonstrations(name, shard_bytes, tmp_path):
    data = CASES[name]
    write_folder(tmp_path / "demos", data, shard_bytes)
    found = Trajectories.load(tmp_path / "demos")
    assert repr(found) == repr(data) and found.state_names == data.state_names
    assert found.state_steps.mapped and found.state_shape == data.state_shape and torch.equal(found.stored, data.stored)
    assert found.num_actions == data.num_actions and torch.equal(found.lengths, data.lengths)
    if data.actions is not None:
        assert torch.equal(found.actions, data.actions) and found.actions.dtype == data.actions.dtype
    for ours, theirs in zip(found.minibatches(3, torch.Generator()), data.minibatches(3, torch.Generator())):
        assert torch.equal(ours.states, theirs.states) and ours.population == theirs.population


def test_selecting_and_splitting_reads_nothing(tmp_path):
    CASES["packed"].save(tmp_path / "demos")
    data = open_trajectories(tmp_path / "demos")
    train, test = data.split(0.25)
    for part in (train, test, data[3:5], data[torch.tensor([9, 1])], train.to(dtype=torch.float64).alone()):
        kept = part.state_steps.arrays
        assert [one.data_ptr() for one in kept] == [one.data_ptr() for one in data.state_steps.arrays]
    assert len(train) == 15 and len(test) == 5


def test_a_folder_can_be_written_from_a_folder(tmp_path):
    CASES["ragged"].save(tmp_path / "demos")
    Trajectories.load(tmp_path / "demos").split(0.5)[0].save(tmp_path / "half")
    half = CASES["ragged"].split(0.5)[0]
    assert torch.equal(Trajectories.load(tmp_path / "half").stored, half.stored)
    sizes = [sum(path.stat().st_size for path in (tmp_path / name).glob("actions*")) for name in ("demos", "half")]
    assert sizes[0] < 2 * CASES["ragged"].num_steps  # a byte for each of four actions


@pytest.mark.parametrize(
    "lengths",
    [pytest.param([12] * 40, id="padded"), pytest.param([3] * 60 + [200] * 20, id="ragged", marks=pytest.mark.slow)],
)
def test_discovery_is_the_same_to_the_bit(lengths, tmp_path):
    data = make_ram(lengths)
    write_folder(tmp_path / "demos", data, 2000)
    settings = {"held_out": 0.2, "epochs": 2, "num_options": 3, "progress": False}
    memory, mapped = (discover(one, **settings) for one in (data, Trajectories.load(tmp_path / "demos")))
    for ours, theirs in zip(mapped.policy.parameters(), memory.policy.parameters()):
        assert torch.equal(ours, theirs)
    assert mapped.metadata["log_likelihood"] == memory.metadata["log_likelihood"]
    assert mapped.metadata["history"]["objective"] == memory.metadata["history"]["objective"]


def test_episodes_are_written_as_they_come(tmp_path):
    def play():
        for number in range(3):
            yield np.full((number + 3, 2), number, np.float32), np.arange(number + 2) % 2  # a last state more

    save_episodes(tmp_path / "demos", play())
    found = Trajectories.load(tmp_path / "demos")
    assert found.lengths.tolist() == [2, 3, 4] and found.num_actions == 2
    assert found.state_steps.episode(2).tolist() == [[2, 2]] * 4


def test_nothing_is_left_after_an_error(tmp_path):
    def play():
        yield np.zeros((2, 2), np.float32), [0, 1]
        yield np.zeros((2, 3), np.float32), [0, 1]

    with pytest.raises(ValueError, match=r"shapes and types .* at episode 1"):
        save_episodes(tmp_path / "demos", play())
    with pytest.raises(ValueError, match="at least one episode"):
        save_episodes(tmp_path / "demos", [])
    assert not list(tmp_path.iterdir())
    CASES["packed"].save(tmp_path / "demos")
    with pytest.raises(FileError, match=r"a new folder as .*demos but got one that exists"):
        CASES["packed"].save(tmp_path / "demos")


def change_byte(folder):
    path = folder / "states-00000.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def truncate(folder):
    path = folder / "states-00000.npy"
    path.write_bytes(path.read_bytes()[:-3])


def edit(**changes):
    def change(folder):
        index = json.loads((folder / "index.json").read_text())
        (folder / "index.json").write_text(json.dumps(index | changes))

    return change


def climb(folder):
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0]["states"]["file"] = "../states.npy"
    (folder / "index.json").write_text(json.dumps(index))


def change_lengths(folder):
    lengths = np.load(folder / "lengths.npy")
    np.save(folder / "lengths.npy", lengths + 1)


DAMAGES = {
    "byte": (change_byte, "the values of states-00000.npy that were written"),
    "truncated": (truncate, "damaged: write it again"),
    "format": (edit(format="other"), "Expected the format"),
    "no shards": (edit(shards=[]), "damaged: write it again"),
    "actions": (edit(num_actions=2), "in 0, …, 1|actions"),
    "path": (climb, "the name of a file in the folder"),
    "lengths": (change_lengths, "lengths.npy that were written"),
    "no JSON": (lambda folder: (folder / "index.json").write_text("{"), "damaged"),
    "no index": (lambda folder: (folder / "index.json").unlink(), "Expected index.json in the folder"),
    "no array": (lambda folder: (folder / "actions-00000.npy").unlink(), "Expected actions-00000.npy in the folder"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found(name, tmp_path):
    damage, message = DAMAGES[name]
    CASES["packed"].save(tmp_path / "demos")
    damage(tmp_path / "demos")
    with pytest.raises(FileError, match=message):
        Trajectories.load(tmp_path / "demos")


def test_sizes_are_checked_even_without_verification(tmp_path):
    CASES["packed"].save(tmp_path / "demos")
    change_byte(tmp_path / "demos")
    assert len(Trajectories.load(tmp_path / "demos", verify=False)) == 20
    change_lengths(tmp_path / "demos")
    with pytest.raises(FileError, match="shards of whole episodes"):
        Trajectories.load(tmp_path / "demos", verify=False)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for anonymous memory")
def test_memory_does_not_grow_with_the_folder(tmp_path):
    episode = np.zeros((1000, 128), np.uint8), np.zeros(1000, np.uint8)
    save_episodes(tmp_path / "demos", (episode for _ in range(400)), num_actions=2, packed=True)  # 51 MB
    script = (
        "import sys, torch\nfrom pathlib import Path\nfrom pyro_options.data import Trajectories\n"
        "def used():\n"
        "    lines = Path('/proc/self/status').read_text().splitlines()\n"
        "    return next(int(line.split()[1]) for line in lines if line.startswith('RssAnon')) / 1024\n"
        "before = used()\n"
        "data = Trajectories.load(sys.argv[1])\n"
        "train, test = data.split(0.1)\n"
        "peak = max(used() for batch in train.minibatches(2, torch.Generator()) if batch.states.sum() == 0)\n"
        "print(peak - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "demos"], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 45  # a batch of 2000 steps has 8 MB of bits
