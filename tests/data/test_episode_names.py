"""Labels of episodes, such as those of sessions: from a column of a table to the tables of segments."""

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_options.data import Trajectories, concatenate, from_dataframe, to_dataframe
from pyro_options.skills import Segmentation, segment_columns

LABELS = ("tue", "mon", "mon b")


def sessions(labels=LABELS):
    owner = np.repeat(np.array(labels, dtype=object), 4)
    values = np.arange(len(owner))
    return from_dataframe(pd.DataFrame({"session": owner, "action": values % 2, "x": 1.0 * values}))


def segmented(data):
    flat, lengths = torch.zeros(data.num_steps, dtype=torch.long), data.lengths
    return Segmentation.from_flat(
        flat, flat.float(), lengths, torch.zeros(len(data)), 1, episode_names=data.episode_names
    )


def test_labels_follow_their_episodes():
    data = sessions()
    assert data.episode_names == LABELS
    assert data[[2, 0]].episode_names == ("mon b", "tue")
    assert data[1].episode_names == ("mon",) and data[1:].episode_names == LABELS[1:]
    assert data[torch.tensor([False, True, True])].episode_names == LABELS[1:]
    first, second = data.split(1 / 3)
    assert {*first.episode_names, *second.episode_names} == set(LABELS)
    for part in (first, second):
        for name, x in zip(part.episode_names, part.states[:, 0, 0].tolist(), strict=True):
            assert x == 4 * LABELS.index(name)
    assert concatenate([second, first]).episode_names == second.episode_names + first.episode_names
    unnamed = first._replace(episode_names=None)
    assert concatenate([second, unnamed]).episode_names is None


@pytest.mark.parametrize("name", ["data.npz", "folder"])
def test_files_keep_labels(tmp_path, name):
    sessions().save(tmp_path / name)
    assert Trajectories.load(tmp_path / name).episode_names == LABELS


def test_tables_have_the_labels_of_the_file():
    data = sessions()
    assert segment_columns(segmented(data))["episode"] == list(LABELS)
    assert list(to_dataframe(data)["episode"][::4]) == list(LABELS)
    assert "episode mon b" in segmented(data)._repr_html_()


def test_whole_numbers_stay_numbers_so_that_tables_can_be_joined():
    assert segment_columns(segmented(sessions([17, 4, 9])))["episode"] == [17, 4, 9]
    assert segment_columns(segmented(sessions(["007", "8", "9"])))["episode"] == ["007", "8", "9"]
    unnamed = Trajectories(torch.zeros(2, 3, 1), torch.zeros(2, 3, dtype=torch.long))
    assert unnamed.episode_names is None and segment_columns(segmented(unnamed))["episode"] == [0, 1]


def test_labels_are_validated():
    with pytest.raises(ValueError, match="one name for each episode"):
        sessions().with_names(episode_names=["a"])
