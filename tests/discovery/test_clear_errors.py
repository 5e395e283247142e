"""What users run into first is told in their words: by an error with the fix, or by a warning."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from support.episodes import make_continuous_episodes, make_episodes
from support.methods import QUICK

from pyro_options.data import Trajectories
from pyro_options.discovery import discover, method_config
from pyro_options.errors import DiscoveryWarning, InputError

FRAME = pd.DataFrame(np.zeros((6, 2)), columns=["x", "y"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 64}, r"hidden as a tuple of widths but got 64\. Pass a tuple of widths such as \(64,\)"),
        ({"hidden": "64"}, "hidden as widths but got '64'"),
        ({"encoder_hidden": 32}, r"encoder_hidden as a tuple of widths but got 32\. Pass a tuple"),
        ({"epochs": 0}, "epochs >= 1"),
        ({"device": "cuda:99"}, r"CUDA devices that torch finds but got 'cuda:99'\. Pass device=\"auto\""),
    ],
)
def test_settings_that_cannot_be_used(settings, message):
    with pytest.raises(InputError, match=message):
        discover(make_episodes(8), **QUICK | settings)


def test_a_list_of_widths_is_a_tuple():
    assert method_config("options-exact", hidden=[64]).hidden == (64,)
    assert method_config("bc-deep", hidden=[64, 64]).hidden == (64, 64)
    with pytest.raises(InputError, match=r"hidden = \(64, 64\), as the method 'bc-deep' has it, but got \[64\]"):
        method_config("bc-deep", hidden=[64])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_without_cuda():
    with pytest.raises(InputError, match="one of 0 CUDA devices that torch finds but got 'cuda'"):
        discover(make_episodes(8), **QUICK | {"device": "cuda"})


@pytest.mark.parametrize(
    "use",
    [
        lambda: Trajectories(FRAME, [[0] * 6]),
        lambda: Trajectories.from_flat(FRAME, [0] * 6, [6]),
        lambda: Trajectories.from_episodes([(FRAME, [0] * 6)]),
        lambda: discover(FRAME),
    ],
)
def test_data_frames_as_states_name_their_reader(use):
    with pytest.raises(InputError, match="Read data frames with from_dataframe"):
        use()


def test_lists_as_trajectories():
    data = make_episodes(8)
    skills = discover(data, num_options=2, **QUICK)
    for use in (
        skills.log_likelihood,
        skills.episode_log_likelihoods,
        skills.segment,
        skills.summarize,
        skills.describe,
    ):
        with pytest.raises(InputError, match=r"Trajectories but got list\. .*concatenate"):
            use([data])


def test_one_hot_actions_are_told():
    data = make_episodes(8)
    encoded = Trajectories(data.states, torch.nn.functional.one_hot(data.actions, 4).double(), data.lengths)
    with pytest.warns(DiscoveryWarning, match=r"Actions are one-hot.*argmax\(-1\)"):
        discover(encoded, num_options=2, **QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DiscoveryWarning)
        discover(make_continuous_episodes(8), num_options=2, **QUICK)


def test_resuming_for_fewer_epochs_than_done(tmp_path):
    given = {"num_options": 2, "checkpoint": tmp_path / "run", **QUICK}
    first = discover(make_episodes(8), **given | {"epochs": 3})
    with pytest.raises(InputError, match=r"epochs >= 3, which are done already, but got 2\. Pass as many or more"):
        discover(make_episodes(8), resume=True, **given | {"epochs": 2})
    again = discover(make_episodes(8), resume=True, **given | {"epochs": 3})
    assert torch.equal(first.log_weights, again.log_weights)
