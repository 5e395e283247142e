"""Skills on the Hugging Face Hub: what is uploaded, and that it comes back. Nothing here needs a network."""

import json
import shutil

import huggingface_hub
import pytest
import torch
from support.episodes import BLOCKS, episodes_with_actions
from support.option_models import single_action_skills

from pyro_options.errors import FileError
from pyro_options.skills import Skills, Trust
from pyro_options.skills.hub import FILE, model_card


def make_trained():
    known = {
        "method": {"name": "options-exact"},
        "episodes": {"train": 3, "held_out": 0},
        "log_likelihood": {"train": -0.25},
        "trust": Trust(3, agreement=0.1).to_dict(),
        "state_names": ["x", "y", "z"],
    }
    skills = single_action_skills(0, 1, 2, **known)
    skills.summary = skills.summarize(episodes_with_actions(*BLOCKS))
    return skills.rename({0: "climb"})


def test_a_folder_holds_skills_and_their_card(tmp_path):
    skills = make_trained()
    skills.save_pretrained(tmp_path / "shared")
    assert {path.name for path in (tmp_path / "shared").iterdir()} == {FILE, "README.md", "config.json"}
    again = Skills.from_pretrained(tmp_path / "shared")
    assert again.names == skills.names and again.trust == skills.trust
    assert json.loads((tmp_path / "shared" / "config.json").read_text())["num_options"] == 3
    torch.testing.assert_close(again.policy.heads.weight, skills.policy.heads.weight)
    card = huggingface_hub.ModelCard.load(tmp_path / "shared" / "README.md")
    assert card.data.library_name == "pyro-options" and "pyro-options" in card.data.tags
    for text in ("0 climb", "method: options-exact", "-0.2500 nats per step", "x, y, z", "agree little"):
        assert text in card.text, text


def test_a_card_without_metadata_says_so():
    text = model_card(single_action_skills(0, 1))
    assert "No statistics" in text and "Not measured." in text and "Not recorded." in text


def test_what_is_pushed_is_what_a_folder_holds(tmp_path, monkeypatch):
    """The two requests to the Hub are replaced by a copy into a folder; everything else is the Hub's own code."""
    asked = {}

    def create(self, repo_id, **settings):
        asked.update(settings)
        return huggingface_hub.RepoUrl(f"https://huggingface.co/{repo_id}", endpoint="https://huggingface.co")

    def upload(self, *, repo_id, folder_path, commit_message=None, **settings):
        shutil.copytree(folder_path, tmp_path / "uploaded")
        asked.update(commit_message=commit_message)
        return f"https://huggingface.co/{repo_id}/commit/1"

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", create)
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload)
    skills = make_trained()
    address = skills.push_to_hub("me/walls", private=True, commit_message="first")
    assert address.startswith("https://huggingface.co/me/walls") and asked["private"]
    assert asked["commit_message"] == "first"
    assert 'from_pretrained("me/walls")' in (tmp_path / "uploaded" / "README.md").read_text()
    assert Skills.from_pretrained(tmp_path / "uploaded").names == skills.names


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(FileError, match="a folder with skills"):
        Skills.from_pretrained(tmp_path)
    with pytest.raises(huggingface_hub.errors.LocalEntryNotFoundError):
        Skills.from_pretrained("nobody/nothing", local_files_only=True, cache_dir=tmp_path)
