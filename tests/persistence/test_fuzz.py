"""Damaged files are read as what was written or refused with an exception of the library."""

import io
import json
import struct
import warnings
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from support import small_trainings
from support.episodes import make_episodes

from pyro_options.data import Trajectories, from_npz
from pyro_options.discovery import discover
from pyro_options.errors import FileError, PyroOptionsError
from pyro_options.infer import Trainer
from pyro_options.persistence import Checkpoint
from pyro_options.skills import Skills

DATA = make_episodes(8)


def make_trainer(checkpoint=None):
    settings = {"hidden": (), "check_every": 1}
    return small_trainings.make_trainer(checkpoint=checkpoint, data=DATA, epochs=2, batch_size=4, method=settings)


def content(kind, value):
    """What an object is made of, for comparison."""
    if kind == "checkpoint":
        config, tensors = value
        return json.dumps(config), {name: tensor.tolist() for name, tensor in tensors.items()}
    if kind == "skills":
        parts = {**value.policy.state_dict(), **{f"t.{k}": v for k, v in value.termination.state_dict().items()}}
        parts["weights"] = value.log_weights
        return {name: tensor.tolist() for name, tensor in parts.items()}, json.dumps(value.metadata), value.action_names
    return [t.tolist() for t in (value.stored, value.actions, value.lengths)], value.num_actions, value.packed


def read_checkpoint(path):
    config, tensors = Trainer.FORMAT.read(path)
    trainer = make_trainer()
    trainer.restore(config["state"], tensors)
    return trainer.capture()


READERS = {"checkpoint": read_checkpoint, "skills": Skills.load, "trajectories": Trajectories.load, "npz": from_npz}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """The bytes of a file of each kind."""
    folder = tmp_path_factory.mktemp("originals")
    paths = {kind: folder / f"{kind}.bin" for kind in READERS}  # without an ending, demonstrations are a folder
    make_trainer(paths["checkpoint"]).run()
    discover(DATA, num_options=2, epochs=1, progress=False, device="cpu").save(paths["skills"])
    DATA.save(paths["trajectories"])
    with open(paths["npz"], "wb") as file:
        np.savez(file, states=DATA.states.numpy(), actions=DATA.actions.numpy(), lengths=DATA.lengths.numpy())
    return {kind: path.read_bytes() for kind, path in paths.items()}


def mutate(original, rng):
    """One kind of damage at a random place; small files are hit in the header as often as in the data."""
    data = bytearray(original)
    reach = len(data) if rng.random() < 0.5 else min(len(data), 600)
    i, size = int(rng.integers(reach)), int(rng.integers(1, 64))
    noise = rng.integers(0, 256, size, dtype=np.uint8).tobytes()
    damage = int(rng.integers(8))
    if damage == 0:
        data[i] ^= 1 << int(rng.integers(8))
    elif damage == 1:
        data[i : i + size] = noise[: len(data[i : i + size])]
    elif damage == 2:
        del data[i:]
    elif damage == 3:
        del data[i : i + size]
    elif damage == 4:
        data[i:i] = noise
    elif damage == 5:
        data[i : i + size] = bytes(len(data[i : i + size]))
    elif damage == 6:
        data += data[i : i + size]
    else:
        digits = [k for k in range(reach) if chr(data[k]).isdigit()]
        data[digits[int(rng.integers(len(digits)))] if digits else i] = ord("0") + int(rng.integers(10))
    return bytes(data)


@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_read_as_it_was_or_refused(kind, originals, tmp_path):
    path, rng = tmp_path / "file", np.random.default_rng(0)
    path.write_bytes(originals[kind])
    expected, refused = content(kind, READERS[kind](path)), 0
    for _ in range(125):
        path.write_bytes(mutate(originals[kind], rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = READERS[kind](path)
        except PyroOptionsError as error:
            assert isinstance(error, ValueError) and str(path) in str(error)
            refused += 1
        else:
            assert content(kind, found) == expected
    assert refused > 60  # the damage is real


def member(name, array, stored=None):
    """An npy member with a header that may lie."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return name, buffer.getvalue() if stored is None else stored


def npz(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)


def header(shape, descr="<f4", version=1):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text


BOMBS = {
    "declares a terabyte": header("(1000000, 1000000, 1)"),
    "declares more than memory": header("(4611686018427387904, 4, 1)"),
    "negative": header("(-1, -8, 1)") + bytes(32),
    "a header of a gigabyte": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**30) + bytes(1000),
    "a header that nests": b"\x93NUMPY\x01\x00" + struct.pack("<H", 5000) + b"(" * 5000,
    "an unknown version": b"\x93NUMPY\x07\x00" + bytes(100),
    "objects": header("(1,)", "|O") + b"cos\nsystem\n(S'true'\ntR.",
    "nothing": b"",
}


@pytest.mark.parametrize("kind", BOMBS)
def test_archives_with_false_headers_are_refused_before_memory_is_allocated(kind, tmp_path):
    good = [
        member(f"{name}.npy", value.numpy()) for name, value in (("actions", DATA.actions), ("lengths", DATA.lengths))
    ]
    npz(tmp_path / "bomb.npz", ("states.npy", BOMBS[kind]), *good)
    with pytest.raises(FileError, match="bomb"):
        from_npz(tmp_path / "bomb.npz")


def test_a_zip_bomb_is_refused_by_its_declared_size(tmp_path):
    """16 MB of zeros in 16 kB; with the limit below what it declares nothing is unpacked."""
    states = np.zeros((64, 64, 1024), np.float32)
    np.savez_compressed(tmp_path / "zeros.npz", states=states, actions=np.zeros((64, 64), int), lengths=np.full(64, 64))
    assert (tmp_path / "zeros.npz").stat().st_size < 10**5
    with pytest.raises(FileError, match="at most 1000000 bytes"):
        from_npz(tmp_path / "zeros.npz", max_bytes=10**6)
    assert len(from_npz(tmp_path / "zeros.npz")) == 64


def test_data_larger_than_memory_are_refused(tmp_path, monkeypatch):
    DATA.save(tmp_path / "data.npz")
    monkeypatch.setattr("pyro_options.data.archive._memory", lambda: 100)
    with pytest.raises(FileError, match="at most 100 bytes"):
        Trajectories.load(tmp_path / "data.npz")


def test_archive_members_with_paths_write_no_file(tmp_path):
    npz(tmp_path / "evil.npz", ("../../evil.npy", b"x"), member("states.npy", np.zeros((1, 1, 1))))
    with pytest.raises(FileError, match="'actions'"):
        from_npz(tmp_path / "evil.npz")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.npz"]


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config["state"].update(epoch="many"),
        lambda config: config["state"].update(num_components=10**9),
        lambda config: config["state"].update(num_components=0),
        lambda config: config["state"].update(rates=[]),
        lambda config: config["state"].update(history={"__class__": "os.system"}),
        lambda config: config["state"].update(position="ab"),
        lambda config: config["state"].update(random={"numpy": [700, 0, 0.0], "python": [3, [1, 2], None]}),
        lambda config: config["state"].update(growth={"last": 0}),
        lambda config: config["state"].update(batch=-1),
        lambda config: config.pop("state"),
        lambda config: config.pop("settings"),
        lambda config: config["state"]["history"].update(objective=3),
    ],
)
def test_checkpoints_with_a_right_checksum_and_wrong_content_are_refused(change, originals, tmp_path):
    path = tmp_path / "run"
    path.write_bytes(originals["checkpoint"])
    config, tensors = Trainer.FORMAT.read(path)
    change(config)
    Trainer.FORMAT.write(path, config, tensors)
    with pytest.raises(FileError, match="run: "):
        make_trainer(Checkpoint(path, resume=True))


def test_a_header_that_nests_too_deep_is_refused(tmp_path):
    deep = "[" * 10**5 + "]" * 10**5
    from pyro_options.persistence.storage import checksum

    tensors = {"x": torch.zeros(1)}
    meta = {
        "format": Trainer.FORMAT.name,
        "version": str(Trainer.FORMAT.version),
        "config": deep,
        "checksum": checksum(deep, tensors),
    }
    save_file(tensors, tmp_path / "deep", meta)
    with pytest.raises(FileError, match="RecursionError"):
        Trainer.FORMAT.read(tmp_path / "deep")


def test_files_beyond_the_limit_are_refused(tmp_path, originals):
    (tmp_path / "run").write_bytes(originals["checkpoint"])
    with pytest.raises(FileError, match="at most 100 bytes"):
        Trainer.FORMAT.read(tmp_path / "run", max_bytes=100)
