"""Segments leave as data frames, CSV, LeRobot subtasks and Minari infos, with the option of every step."""

import csv
import json

import minari
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from support.data_files import LENGTHS, random_episodes, write_lerobot

from pyro_options.data import Trajectories, from_lerobot, to_minari
from pyro_options.errors import FileError, InputError
from pyro_options.skills import (
    Segmentation,
    segment_columns,
    segments_to_dataframe,
    write_lerobot_subtasks,
    write_segments,
)

NAMES = ["reach", "lift", "put"]
ROWS = [[0, 0, 1, 1], [2, 2, 2, 0, 0, 0, 0], [1, 1, 1, 1, 2]]


@pytest.fixture
def segmentation():
    flat = torch.tensor([option for row in ROWS for option in row])
    lengths = torch.tensor(LENGTHS)
    return Segmentation.from_flat(flat, torch.zeros(len(flat)), lengths, torch.zeros(len(lengths)), 3)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_data_frame_has_a_row_for_each_segment(backend, segmentation):
    frame = segments_to_dataframe(segmentation, NAMES, backend)
    assert type(frame).__module__.startswith(backend)
    rows = list(zip(*segment_columns(segmentation, NAMES).values()))
    assert rows == [
        (0, 0, 0, 2, 2, "reach"),
        (0, 1, 2, 4, 2, "lift"),
        (1, 2, 0, 3, 3, "put"),
        (1, 0, 3, 7, 4, "reach"),
        (2, 1, 0, 4, 4, "lift"),
        (2, 2, 4, 5, 1, "put"),
    ]
    columns = segment_columns(segmentation, NAMES)
    read = {name: frame[name].to_pylist() if backend == "pyarrow" else list(frame[name]) for name in columns}
    assert read == columns


def test_a_csv_file_has_the_same_rows(segmentation, tmp_path):
    write_segments(tmp_path / "segments.csv", segmentation, ["a, b", "ü", 'c"'])
    with open(tmp_path / "segments.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows][:3] == ["a, b", "ü", 'c"'] and rows[3]["start"] == "3"
    with pytest.raises(InputError, match="a name for each of 3 options"):
        write_segments(tmp_path / "segments.csv", segmentation, ["a"])


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_options_are_the_subtasks_of_a_lerobot_data_set(version, segmentation, tmp_path):
    write_lerobot(tmp_path / "set", random_episodes(), version)
    before = {path: path.read_bytes() for path in (tmp_path / "set").rglob("*") if path.is_file()}
    write_lerobot_subtasks(tmp_path / "set", tmp_path / "copy", segmentation, NAMES)
    frames = pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / "copy" / "data").glob("*/*.parquet"))])
    assert frames["subtask_index"].dtype == "int64"
    assert [frames[frames["episode_index"] == i]["subtask_index"].tolist() for i in range(3)] == ROWS
    info = json.loads((tmp_path / "copy" / "meta" / "info.json").read_text())
    assert info["features"]["subtask_index"] == {"dtype": "int64", "shape": [1], "names": None}
    if version == "v3.0":
        table = pd.read_parquet(tmp_path / "copy" / "meta" / "subtasks.parquet")
        assert [table.iloc[k].name for k in range(3)] == NAMES and table["subtask_index"].tolist() == [0, 1, 2]
    else:
        lines = (tmp_path / "copy" / "meta" / "subtasks.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines][2] == {"subtask_index": 2, "subtask": "put"}
    for path in (tmp_path / "copy" / "data").glob("*/*.parquet"):
        schema = json.loads(pq.read_schema(path).metadata[b"huggingface"])
        assert schema["info"]["features"]["subtask_index"]["dtype"] == "int64"
    assert torch.equal(from_lerobot(tmp_path / "copy").states, from_lerobot(tmp_path / "set").states)
    assert before == {path: path.read_bytes() for path in (tmp_path / "set").rglob("*") if path.is_file()}
    assert (tmp_path / "copy" / "videos" / "observation.images.top" / "chunk-000" / "file-000.mp4").is_file()


def test_segments_of_other_data_are_not_written(segmentation, tmp_path):
    write_lerobot(tmp_path / "set", random_episodes(lengths=(4, 7)))
    with pytest.raises(FileError, match="a segmentation of its 2 episodes"):
        write_lerobot_subtasks(tmp_path / "set", tmp_path / "copy", segmentation)
    assert not (tmp_path / "copy").exists()
    with pytest.raises(FileError, match="does not exist yet"):
        write_lerobot_subtasks(tmp_path / "set", tmp_path, segmentation)
    with pytest.raises(InputError, match="a different name"):
        write_lerobot_subtasks(tmp_path / "set", tmp_path / "copy", segmentation, ["a", "a", "b"])


def test_options_are_infos_of_a_minari_data_set(segmentation, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = Trajectories.from_episodes(random_episodes())
    to_minari(data, "test/options-v0", infos={"option": segmentation.options})
    episodes = minari.load_dataset("test/options-v0").iterate_episodes()
    assert [episode.infos["option"].tolist() for episode in episodes] == ROWS
    with pytest.raises(InputError, match=r"option \(3, 7\)"):
        to_minari(data, "test/other-v0", infos={"option": segmentation.options[:, :3]})
