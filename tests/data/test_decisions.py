"""Sessions of binary choices and simulated animals."""

import numpy as np
import pytest
import torch

from pyro_options.data import DECISION_WEIGHTS, decision_inputs, simulated_decisions
from pyro_options.errors import InputError


def test_inputs_of_a_session_look_one_trial_back():
    found = decision_inputs([0.5, -1.0, 0.25, 0.0], [1, 0, 0, 1], [1, 1, 0, 1])
    assert found[:, 0].tolist() == [0.5, -1.0, 0.25, 0.0]
    assert found[:, 1].tolist() == [0, 1, -1, -1]
    assert found[:, 2].tolist() == [0, 1, -1, 1]  # the last switches after a loss


@pytest.mark.parametrize("choice", [[1, 2], [0.5, 1], [1, 0, 1]])
def test_choices_that_are_not_binary_are_refused(choice):
    with pytest.raises(InputError, match=r"choices that are 0|of every trial"):
        decision_inputs([0.1, 0.2], choice, [1, 1])


def test_simulated_choices_follow_the_weights_and_transitions():
    matrix = np.array([[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.3, 0.0, 0.7]])
    truth = simulated_decisions(1, 60, transitions=matrix)
    data, states = truth.trajectories, truth.states
    assert torch.equal(states >= 0, data.mask)
    both = states[:, 1:] >= 0
    counts = torch.zeros(3, 3).index_put_((states[:, :-1][both], states[:, 1:][both]), torch.ones(()), accumulate=True)
    np.testing.assert_allclose(counts / counts.sum(-1, keepdim=True), matrix, atol=0.03)
    assert counts[0, 2] == 0
    inputs = torch.cat([data.states, torch.ones(*data.mask.shape, 1)], -1)
    logits = (inputs * torch.tensor(DECISION_WEIGHTS)[states].float()).sum(-1)[data.mask]
    choices = data.actions[data.mask].float()
    for low, high in ((-9, -1), (-1, 0), (0, 1), (1, 9)):
        here = (logits > low) & (logits <= high)
        assert float(choices[here].mean()) == pytest.approx(float(torch.sigmoid(logits[here]).mean()), abs=0.03)


def test_impossible_transitions_are_refused():
    with pytest.raises(InputError, match="rows sum to 1"):
        simulated_decisions(0, 2, transitions=np.ones((3, 3)))
    with pytest.raises(InputError, match="Pass transitions"):
        simulated_decisions(0, 2, weights=np.zeros((2, 4)))
