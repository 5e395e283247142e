"""Data frames, CSV and Parquet: the arrays and names that are in them, and errors that name the column."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from support.data_files import LENGTHS, random_episodes, step_columns

from pyro_options.data import Trajectories, from_csv, from_dataframe, from_parquet
from pyro_options.errors import FileError, InputError

EPISODES = random_episodes()
MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def assert_read(data, discrete=False):
    expected = Trajectories.from_episodes(EPISODES)
    assert torch.equal(data.states, expected.states) and data.lengths.tolist() == list(LENGTHS)
    assert data.state_names == ("x", "y", "z")
    if discrete:
        assert torch.equal(data.actions[data.mask], (expected.actions[..., 0] > 0).long()[data.mask])
        assert data.num_actions == 2 and data.action_names == ("left", "right")
    else:
        assert torch.equal(data.actions, expected.actions) and data.action_names == ("action_arm", "action_hand")


@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("kind", MAKERS)
def test_frames_give_equal_arrays(kind, discrete):
    assert_read(from_dataframe(MAKERS[kind](step_columns(EPISODES, discrete))), discrete)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_rows_in_any_order_are_ordered_by_the_step(kind):
    columns = step_columns(EPISODES, discrete=True)
    order = np.random.default_rng(0).permutation(sum(LENGTHS))
    columns = {name: values[order] for name, values in columns.items()}
    data = from_dataframe(MAKERS[kind](columns))
    lengths = dict(zip(("run 0", "run 1", "run 2"), LENGTHS))
    assert data.lengths.tolist() == [lengths[name] for name in dict.fromkeys(columns["episode"])]
    first = EPISODES[int(columns["episode"][0][-1])][0]
    assert torch.equal(data.states[0, : len(first)], torch.as_tensor(first))


def test_categories_keep_their_order_and_become_one_hot_states():
    actions = pd.Categorical(["stay", "left", "stay", "left"], categories=["stay", "left", "right"])
    frame = pd.DataFrame({"episode": [0, 0, 1, 1], "action": actions, "x": [1, 2, 3, 4], "mood": list("baba")})
    frame["on"] = [True, False, False, True]
    data = from_dataframe(frame)
    assert data.num_actions == 3 and data.action_names == ("stay", "left", "right")
    assert data.actions.tolist() == [[0, 1], [0, 1]]
    assert data.state_names == ("x", "mood=a", "mood=b", "on")
    assert data.states[0].tolist() == [[1, 0, 1, 1], [2, 1, 0, 0]]
    enum = pl.Series("action", ["stay", "left", "stay", "left"], dtype=pl.Enum(["stay", "left", "right"]))
    frame = pl.DataFrame({"episode": [0, 0, 1, 1], "x": [1.0, 2, 3, 4]}).with_columns(enum)
    assert from_dataframe(frame).action_names == ("stay", "left", "right")


def test_lists_become_entries_and_several_integers_several_actions():
    frame = pl.DataFrame({"who": [1, 1], "state": [[0.5, 1.5], [2.5, 3.5]], "a": [0, 2], "b": [1, 0]})
    data = from_dataframe(frame, episode="who", actions=["a", "b"])
    assert data.state_names == ("state[0]", "state[1]") and data.num_actions == (3, 2)
    assert data.action_names == ("a", "b") and data.states[0, 1].tolist() == [2.5, 3.5]


def test_files_give_equal_arrays(tmp_path):
    frame = pd.DataFrame(step_columns(EPISODES, discrete=True)).astype({name: np.float64 for name in "xyz"})
    frame.to_csv(tmp_path / "steps.csv", index=False)
    data = from_csv(tmp_path / "steps.csv")
    assert_read(data.to(dtype=torch.float32), discrete=True)
    pq.write_table(pa.table(step_columns(EPISODES)), tmp_path / "steps.parquet")
    assert_read(from_parquet(tmp_path / "steps.parquet"))


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (lambda f: f.drop(columns="episode"), {}, "a column 'episode'.*for the episode.*x, y, z.*episode=…"),
        (lambda f: f, {"episode": "trial"}, "'trial' for the episode.*Check the spelling"),
        (lambda f: f.drop(columns="action"), {}, "a column 'action'.*actions=…"),
        (lambda f: f[["episode", "action"]], {}, "columns of the state beside"),
        (lambda f: f.assign(x=[None, *f["x"][1:]]), {}, "every row of the column 'x' but got none in row 0"),
        (lambda f: f.assign(x=pd.Timestamp("2026-01-01")), {}, "numbers or categories in the column 'x'"),
        (lambda f: f.assign(x=np.inf), {}, "NaN or infinity at episode 0"),
        (lambda f: f[:0], {}, "at least one row"),
        (lambda f: f.to_numpy(), {}, "a data frame in memory but got ndarray"),
    ],
)
def test_frames_that_cannot_be_read_are_refused(change, settings, message):
    frame = pd.DataFrame(step_columns(EPISODES, discrete=True))
    with pytest.raises(InputError, match=message):
        from_dataframe(change(frame), **settings)


def test_damaged_files_are_refused_by_name(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(FileError, match=r"a\.parquet: "):
        from_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("episode,action,x\n0,1\n")
    with pytest.raises(FileError, match=r"a\.csv: "):
        from_csv(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError):
        from_csv(tmp_path / "missing.csv")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ImportError, match=r'pip install "pyro-options\[tables\]"'):
        from_dataframe(pd.DataFrame())
