"""State networks run once for a batch that is given again, with the same results."""

import torch
from pyro import poutine
from support.episodes import make_episodes
from torch import nn
from torch.testing import assert_close

from pyro_options.data import Trajectories
from pyro_options.handlers import collapse
from pyro_options.models import OptionHMM
from pyro_options.nn import RememberFeatures
from pyro_options.options import CategoricalPolicy, Termination


class Counting(nn.Linear):
    """A network that counts its calls."""

    calls = 0

    def forward(self, states):
        self.calls += 1
        return super().forward(states)


def make_model():
    torch.manual_seed(0)
    network = Counting(3, 5)
    return OptionHMM(CategoricalPolicy(3, 2, 4, network=network), Termination(3, 2, network=network)), network


def log_prob(model, batch):
    weights = torch.full((2,), 0.5).log()
    node = poutine.trace(model).get_trace(batch, weights).nodes["actions"]
    return node["fn"].log_prob(node["value"])


def test_results_are_the_same_and_networks_run_once_for_each_batch():
    model, network = make_model()
    one, other = make_episodes(6).batch(torch.arange(3)), make_episodes(6).batch(torch.arange(3, 6))
    expected = [log_prob(collapse(model), batch) for batch in (one, other)]
    network.calls = 0
    remembering = RememberFeatures(collapse(model), model)
    for _ in range(3):
        assert_close(log_prob(remembering, one), expected[0], rtol=0, atol=0)
    assert network.calls == 1
    for _ in range(2):
        assert_close(log_prob(remembering, other), expected[1], rtol=0, atol=0)
    assert network.calls == 2


def test_layers_that_move_are_seen():
    model, _ = make_model()
    batch = make_episodes(6).batch(torch.arange(6))
    remembering = RememberFeatures(collapse(model), model)
    before = log_prob(remembering, batch)
    grads = torch.autograd.grad(before.sum(), model.policy.heads.weight)
    assert bool(grads[0].any())
    with torch.no_grad():
        model.policy.heads.weight.mul_(2)
    assert_close(log_prob(remembering, batch), log_prob(collapse(model), batch), rtol=0, atol=0)


def test_nothing_is_left_behind():
    model, network = make_model()
    states = make_episodes(6).batch(torch.arange(6))
    RememberFeatures(collapse(model), model)(states, torch.full((2,), 0.5).log())
    assert network.__dict__.get("_shared_output") is None


def test_states_that_are_converted_at_every_access_are_left_to_the_model():
    model, network = make_model()
    data = Trajectories(
        torch.randint(0, 9, (4, 5, 3), dtype=torch.uint8), torch.zeros(4, 5, dtype=torch.long), num_actions=4
    )
    assert data.states is not data.states
    network.calls = 0
    RememberFeatures(collapse(model), model)(data, torch.full((2,), 0.5).log())
    assert network.calls == 1
