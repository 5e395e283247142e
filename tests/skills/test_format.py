"""Files of skills: round trips are exact, and bad files are refused."""

import json
import struct

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from support.skill_sets import A, K, make_data, make_skills

from pyro_options.skills import Skills


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("kind", ["linear", "varying", "deep"])
def test_round_trip_is_exact(kind, discrete, dtype, tmp_path):
    data = make_data(discrete, packed=True)
    names = ["a", "b", "ü"] if discrete else None
    made = make_skills(kind, discrete, packed=True)
    skills = Skills(
        made.policy.to(dtype),
        made.termination.to(dtype),
        made.log_weights.to(dtype),
        packed=True,
        max_duration=7,
        action_names=names,
        metadata={"seed": 3, "history": [0.1, None, "é"]},
    )
    skills.summary = skills.summarize(data)
    skills.save(tmp_path / "skills.safetensors")
    again = Skills.load(tmp_path / "skills.safetensors")
    for name in ("policy", "termination"):
        old, new = getattr(skills, name).state_dict(), getattr(again, name).state_dict()
        assert all(torch.equal(old[key], new[key]) and old[key].dtype == new[key].dtype for key in old)
        assert set(old) == set(new)
    assert torch.equal(skills.log_weights, again.log_weights) and again.log_weights.dtype == dtype
    assert again.metadata == skills.metadata and again.max_duration == 7 and again.packed
    assert again.action_names == skills.action_names and again.describe() == skills.describe()
    assert again.log_likelihood(data) == skills.log_likelihood(data)
    assert [path.name for path in tmp_path.iterdir()] == ["skills.safetensors"]


def test_a_network_of_unknown_layers_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="known layers"):
        make_skills("custom").save(tmp_path / "skills.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "skills.safetensors"
    make_skills("deep").save(path)
    return path


@pytest.mark.parametrize("keep", [0, 4, 50, 600, -1, -100])
def test_truncated_files_are_refused(saved, keep):
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"skills\.safetensors: .*Expected"):
        Skills.load(saved)


@pytest.mark.parametrize("place", range(0, 3000, 97))
def test_a_changed_byte_is_detected(saved, place):
    content = bytearray(saved.read_bytes())
    place = min(place, len(content) - 1)
    content[place] ^= 0x10
    saved.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"skills\.safetensors: "):
        Skills.load(saved)


def rewrite(path, header=None, **changes):
    """The same file with other tensors or another header, and a checksum that fits."""
    from pyro_options.persistence.storage import checksum

    with safe_open(path, framework="pt") as file:
        meta, tensors = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    for key, value in changes.items():
        key = key.replace("__", ".")
        tensors = {k: v for k, v in tensors.items() if k != key} | ({} if value is None else {key: value})
    meta["config"] = json.dumps(json.loads(meta["config"]) | (header or {}))
    save_file(tensors, path, meta | {"checksum": checksum(meta["config"], tensors)})


@pytest.mark.parametrize(
    "change, match",
    [
        ({"log_weights": torch.zeros(K + 1)}, "as many policies"),
        ({"log_weights": torch.full((K,), float("nan"))}, "finite log weights"),
        ({"policy__weight": torch.zeros(K, A, 5)}, "weight of shape"),
        ({"policy__weight": torch.zeros(K, A)}, "weights of shape"),
        ({"policy__bias": None}, "policy.bias"),
        ({"termination__weight": torch.zeros(K, 2, 6)}, "weight of shape"),
        ({"extra": torch.zeros(1)}, "no other tensors"),
        ({"header": {"networks": {"policy": ["conv"], "termination": []}}}, "layer to be one of"),
        ({"header": {"state_dim": 4}}, "entries in"),
        ({"header": {"state_dim": "many"}}, "many"),
        ({"header": {"max_duration": 0}}, "max_duration"),
    ],
)
def test_files_with_inconsistent_contents_are_refused(saved, change, match):
    rewrite(saved, **change)
    with pytest.raises(ValueError, match=match):
        Skills.load(saved)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(3)}, path)
    with pytest.raises(ValueError, match=r"Expected the format 'pyro_options\.Skills'"):
        Skills.load(path)
    save_file({"weight": torch.zeros(3)}, path, {"format": "pyro_options.Skills", "version": "99"})
    with pytest.raises(ValueError, match="version 2"):
        Skills.load(path)
    torch.save({"a": 1}, path)
    with pytest.raises(ValueError, match=r"Skills\.save wrote"):
        Skills.load(path)
    path.write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(ValueError, match=r"Skills\.save wrote"):
        Skills.load(path)
    with pytest.raises(FileNotFoundError):
        Skills.load(tmp_path / "none.safetensors")
