"""Observe, decide, resize: each on its own, then together."""

import json
from dataclasses import dataclass

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, TraceGraph_ELBO
from support.helpers import make_episodes, make_model
from torch.testing import assert_close

from pyro_options.data import Trajectories
from pyro_options.growth import (
    DataBirth,
    EvidenceRule,
    Never,
    Prune,
    RandomBirth,
    Snapshot,
    SplitBirth,
    Usage,
    UsageRule,
    Verdict,
    grow,
    prune,
)
from pyro_options.guides import Exact, Relaxed, weights_guide
from pyro_options.handlers import GrowthMessenger, collapse
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.options import PathEncoder


def usage(*shares):
    shares = torch.tensor(shares)
    return Usage(likelihood=shares, posterior=shares.flip(0), num_points=100)


@pytest.mark.parametrize(
    ("shares", "delta", "births"),
    [
        ((1.0,), 0.5, 1),
        ((0.5, 0.5), 0.5, 1),
        ((0.76, 0.24), 0.5, 0),  # the known weak spot: 0.24 < 0.5 / 2
        ((0.75, 0.25), 0.5, 1),
        ((0.6, 0.4, 0.0), 0.5, 0),
        ((0.76, 0.24), 0.4, 1),
    ],
)
def test_usage_rule_is_the_papers(shares, delta, births):
    assert UsageRule(delta).propose(usage(*shares)) == births
    assert Never().propose(usage(*shares)) == 0


def test_usage_rule_can_look_at_responsibilities():
    seen = Usage(likelihood=torch.tensor([0.5, 0.5]), posterior=torch.tensor([0.9, 0.1]), num_points=10)
    assert UsageRule(0.5).propose(seen) == 1
    assert UsageRule(0.5, measure="posterior").propose(seen) == 0


@dataclass(frozen=True)
class Always:
    """Proposes births and keeps or refuses them all."""

    count: int = 1
    keep: bool = True

    def propose(self, usage):
        return self.count

    def accept(self, newborns):
        return Verdict(self.keep)


def surroundings(model, guide, episodes):
    """What births and rules may look at."""
    weights = guide.weights.mean_log_weights().detach()
    return {"model": collapse(model), "data": episodes, "log_weights": weights}


def pair(name, num_options=2):
    model = make_model(num_options=num_options)
    weights = weights_guide("gem", num_options)
    guide = Exact(weights) if name == "exact" else Relaxed(weights, PathEncoder(3 + 4, num_options))
    return model, guide


def watch(growth, model, guide, episodes):
    with torch.no_grad(), growth:
        trace = poutine.trace(guide).get_trace(episodes)
        poutine.replay(collapse(model, guide.collapses), trace)(episodes)


@pytest.mark.parametrize("name", ["exact", "relaxed"])
@pytest.mark.parametrize("birth", [RandomBirth(), SplitBirth(), DataBirth(steps=5)])
def test_growing_leaves_the_options_that_exist_as_they_are(name, birth):
    episodes, (model, guide) = make_episodes(20), pair(name)
    states = episodes.states
    before = [model.policy(states).logits, model.termination(states), guide.weights.mean_log_weights()]
    growth = GrowthMessenger([model, guide], Always(2), birth, site="actions")
    watch(growth, model, guide, episodes)
    event = growth.step(**surroundings(model, guide, episodes))
    assert event.num_born == 2 and growth.num_components == 4 and growth.history == [event]
    assert_close(model.policy(states).logits[..., :2, :], before[0], atol=1e-6, rtol=0)
    assert_close(model.termination(states)[..., :2], before[1], atol=1e-6, rtol=0)
    assert_close(guide.weights.mean_log_weights()[:2], before[2], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["exact", "relaxed"])
def test_every_parameter_moves_after_each_growth(name):
    torch.manual_seed(0)
    episodes, (model, guide) = make_episodes(20), pair(name)
    growth = GrowthMessenger([model, guide], Always(), every=1, site="actions")
    trainer = Trainer(model, guide, episodes, TrainConfig(epochs=0, progress=False, batch_size=8), growth)
    for _ in range(3):
        trainer.run(1)  # one epoch, then one birth
        before = [p.detach().clone() for p in trainer.parameters()]
        growth.every = 10**6
        trainer.run(1)
        growth.every = 1
        for old, new in zip(before, trainer.parameters()):
            assert new.grad is not None and new.grad.shape == new.shape and new.grad.isfinite().all()
            moved = (old != new.detach()).flatten(0, -2).any(0) if old.dim() > 1 else old != new.detach()
            assert moved.any()
    assert model.num_options == 5
    held = {id(p) for group in trainer.optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for p in trainer.parameters()}
    for parameter, state in trainer.optimizer.state.items():
        assert id(parameter) in held
        assert state["exp_avg"].shape == parameter.shape == state["exp_avg_sq"].shape


def test_growth_survives_a_graph_that_is_still_alive():
    """Autograd keeps the gradient accumulator of a live graph, in the old shape, and would use it without a word."""
    model, _ = pair("exact")
    episodes = make_episodes()
    alive = model.policy(episodes.states).logits.sum()
    grow([model])
    model.policy(episodes.states).logits.square().sum().backward()
    weight = model.policy.heads.weight
    assert weight.grad.shape == weight.shape and (weight.grad[-1] != 0).any()
    assert alive.requires_grad


def test_growth_under_pyros_own_svi_leaves_no_stale_tensor():
    episodes, (model, guide) = make_episodes(20), pair("relaxed")
    optimizer = pyro.optim.Adam({"lr": 0.01})
    svi = SVI(model, guide, optimizer, TraceGraph_ELBO())
    svi.step(episodes)
    grow([model, guide], 1, optimizer)
    stored = dict(pyro.get_param_store().named_parameters())
    own = {id(p) for p in [*model.parameters(), *guide.parameters()]}
    assert {id(p) for p in stored.values()} == own == {id(p) for p in optimizer.optim_objs}
    before = [p.detach().clone() for p in stored.values()]
    for _ in range(3):
        svi.step(episodes)
    for old, new in zip(before, stored.values()):
        assert old.shape == new.shape and not torch.equal(old, new)


def test_a_split_child_resembles_its_most_used_parent():
    episodes, (model, guide) = make_episodes(20), pair("relaxed", 3)
    growth = GrowthMessenger([model, guide], Always(), SplitBirth(noise=0.0), site="actions")
    watch(growth, model, guide, episodes)
    parent = int(growth.usage().likelihood.argmax())
    growth.step()
    logits = model.policy(episodes.states).logits
    assert_close(logits[..., 3, :], logits[..., parent, :])
    assert_close(guide.encoder.option_head.weight[3], guide.encoder.option_head.weight[parent])


def test_a_data_birth_explains_what_was_explained_worst():
    torch.manual_seed(0)
    episodes, (model, guide) = make_episodes(30), pair("exact")
    growth = GrowthMessenger([model, guide], Always(), DataBirth(share=0.4, steps=100), site="actions")
    watch(growth, model, guide, episodes)
    newborns = []
    growth.birth = lambda given: (newborns.append(given), DataBirth(share=0.4)(given))
    growth.step(**surroundings(model, guide, episodes))
    given = newborns[0]
    fitted = sorted(given.used_rows)
    before = given.likelihood(episodes)(given.trial_weights(0.0))
    assert len(fitted) == 6  # a random half of the worst 12
    assert set(fitted) <= set(before.topk(12, largest=False).indices.tolist())
    after = given.likelihood(episodes[torch.tensor(fitted)])(given.trial_weights(0.4))
    assert after.sum() > before[fitted].sum()


def test_a_data_birth_without_data_is_refused():
    episodes, (model, guide) = make_episodes(), pair("exact")
    growth = GrowthMessenger([model, guide], Always(), DataBirth(), site="actions")
    watch(growth, model, guide, episodes)
    with pytest.raises(ValueError, match="Expected a model, data and weights"):
        growth.step()


def test_growth_stops_at_its_limit_and_needs_to_see_data():
    episodes, (model, guide) = make_episodes(), pair("exact")
    growth = GrowthMessenger([model, guide], Always(5), max_components=3, site="actions")
    watch(growth, model, guide, episodes)
    assert growth.step().num_born == 1 and model.num_options == 3
    with pytest.raises(ValueError, match="saw none"):
        growth.step()


def everything(model, guide, optimizer):
    tensors = [*model.state_dict().values(), *guide.state_dict().values()]
    for state in optimizer.state.values():
        tensors += [v for v in state.values() if isinstance(v, torch.Tensor)]
    return [t.clone() for t in tensors]


@pytest.mark.parametrize("name", ["exact", "relaxed"])
def test_a_refused_birth_leaves_everything_bit_for_bit(name):
    episodes, (model, guide) = make_episodes(20), pair(name)
    growth = GrowthMessenger([model, guide], Always(2, keep=False), DataBirth(steps=3), site="actions")
    trainer = Trainer(model, guide, episodes, TrainConfig(epochs=2, progress=False), None)
    trainer.run()
    before = everything(model, guide, trainer.optimizer)
    watch(growth, model, guide, episodes)
    event = growth.step(trainer.optimizer, **surroundings(model, guide, episodes))
    after = everything(model, guide, trainer.optimizer)
    assert event.num_born == 0 and growth.num_components == 2
    assert len(before) == len(after) and all(torch.equal(a, b) for a, b in zip(before, after))
    trainer.run(1)


def test_a_snapshot_undoes_a_prune():
    model, guide = pair("relaxed", 3)
    before = [t.clone() for t in [*model.state_dict().values(), *guide.state_dict().values()]]
    undo = Snapshot([model, guide])
    prune([model, guide], [0, 2])
    undo.restore()
    after = [*model.state_dict().values(), *guide.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(before, after))


def test_evidence_keeps_a_needed_option_and_refuses_a_useless_one():
    """Two kinds of episodes that one policy cannot explain; a third option has nothing to add."""
    torch.manual_seed(0)
    states = torch.randn(60, 5, 3)
    actions = torch.tensor([[0] * 5, [1] * 5] * 30)
    episodes = Trajectories(states, actions, num_actions=4)
    model, guide = pair("exact", 1)
    growth = GrowthMessenger([model, guide], EvidenceRule(), DataBirth(), [Prune()], every=60, site="actions")
    trainer = Trainer(model, guide, episodes, TrainConfig(60, 10, 0.02, progress=False), growth)
    trainer.run()
    assert model.num_options == 2
    assert [event.num_born for event in growth.history].count(1) == 1
    refused = [move.kind for event in growth.history[1:] for move in event.moves if not move.verdict.accepted]
    assert "birth" in refused and "prune" in refused


def test_a_growth_handler_goes_on_where_another_left_off():
    torch.manual_seed(0)
    episodes, (model, guide) = make_episodes(20), pair("exact")
    growth = GrowthMessenger(
        [model, guide], EvidenceRule(), DataBirth(), [Prune()], every=5, patience=4, site="actions"
    )
    Trainer(model, guide, episodes, TrainConfig(12, 10, progress=False), growth).run()
    state = json.loads(json.dumps(growth.state_dict()))
    other = GrowthMessenger([model, guide], EvidenceRule(), DataBirth(), [Prune()], every=5, patience=4, site="actions")
    other.load_state_dict(state)
    assert len(other.history) == len(growth.history) >= 2 and other.state_dict() == growth.state_dict()
    assert [other.due(time) for time in range(60)] == [growth.due(time) for time in range(60)]
