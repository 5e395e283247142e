"""Several integers a step and bounds of actions, stored flat, give what padded ones give."""

import math

import pytest
import torch
from torch.testing import assert_close

from pyro_options.data import Trajectories
from pyro_options.data.steps import FlatSteps
from pyro_options.discovery import build, discover, resolved_families
from pyro_options.discovery.start import stretches
from pyro_options.discovery.trust import input_warnings, share_at_bounds, state_reveals
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.persistence.checkpoint import fingerprint
from pyro_options.skills import to_skills

LENGTHS = [2000] + [9, 17, 30, 11, 24, 5, 50, 26, 13, 40] * 4
BOUNDS = [[-1.0, -torch.inf, 0.0], [1.0, torch.inf, 9.0]]
KINDS = ["integers", "floats"]


def make_ragged(kind):
    """Integers of 2 × 3 values, or floats that saturate, are Gaussian, and have two values."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(sum(LENGTHS), 3, generator=generator)
    which = (states[:, 0] > 0).long()
    if kind == "integers":
        turn = torch.arange(len(states)) // 10 % 2
        return Trajectories.from_flat(states, torch.stack([which, turn + which], -1), LENGTHS, (2, 4))
    actions = torch.stack([(2 * states[:, 1]).clamp(-1, 1), states[:, 2], 2.0 * which - 1], -1)
    return Trajectories.from_flat(states, actions, LENGTHS, action_bounds=BOUNDS)


def as_padded(data):
    """The same episodes in a padded store, which is never treated as ragged."""
    fields = {name: getattr(data, name) for name in ("actions", "lengths", "num_actions", "action_bounds")}
    return Trajectories(data.stored, **fields, validate=False)


def assert_same(ours, theirs):
    assert ours.num_actions == theirs.num_actions and ours.action_dim == theirs.action_dim
    assert torch.equal(ours.states, theirs.states) and torch.equal(ours.actions, theirs.actions)
    assert torch.equal(ours.encoded_actions(), theirs.encoded_actions())
    assert (ours.action_bounds is None) == (theirs.action_bounds is None)
    assert ours.action_bounds is None or torch.equal(ours.action_bounds, theirs.action_bounds)


@pytest.mark.parametrize("kind", KINDS)
def test_selections_keep_numbers_and_bounds_of_actions(kind, tmp_path):
    data = make_ragged(kind)
    assert data.ragged and data.actions.shape == (41, 2000, 2 if kind == "integers" else 3)
    assert (data.action_bounds is None) == (kind == "integers")
    for change in (
        lambda one: one[1:5],
        lambda one: one[torch.tensor([3, 0, 3])],
        lambda one: one.cut(20),
        lambda one: one.split(0.3, seed=1)[1],
        lambda one: next(one.minibatches(41)) if one is not data else one.batch(torch.arange(41)),
    ):
        assert_same(change(data), change(as_padded(data)))
    data.save(tmp_path / "flat.npz")
    assert_same(Trajectories.load(tmp_path / "flat.npz"), data)
    assert fingerprint(Trajectories.load(tmp_path / "flat.npz")) == fingerprint(data)


def test_bounds_are_part_of_the_fingerprint_only_if_given():
    data = make_ragged("floats")
    free = data._replace(action_bounds=None)
    assert "action_bounds" in data.checksum_fields() and "action_bounds" not in free.checksum_fields()
    assert fingerprint(data) != fingerprint(free)


def test_numbers_of_several_actions_are_found_and_checked():
    data = make_ragged("integers")
    states, actions = torch.cat(list(data.state_chunks())), torch.cat(list(data.action_steps.chunks()))
    assert Trajectories.from_flat(states, actions, LENGTHS).num_actions == (2, 3)
    actions[2010, 1] = 4
    with pytest.raises(ValueError, match=r"actions in \[0, 3\] but got 4 at episode 2"):
        Trajectories.from_flat(states, actions, LENGTHS, (2, 4))
    with pytest.raises(ValueError, match=r"action_bounds of shape \(2, 3\)"):
        Trajectories.from_flat(states, torch.zeros(len(states), 3), LENGTHS, action_bounds=[[0.0], [1.0]])


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_equal_those_of_padded_episodes(kind):
    data = make_ragged(kind)
    padded, families = as_padded(data), resolved_families(data)
    assert families == resolved_families(padded)
    assert share_at_bounds(data, families) == share_at_bounds(padded, families)
    assert input_warnings(data) == input_warnings(padded) == ()
    found = []
    for one in (data, padded):
        torch.manual_seed(0)
        found.append(stretches(one, 5, 8))
    assert all(torch.equal(*pair) for pair in zip(*found))


@pytest.mark.parametrize("kind", KINDS)
def test_skills_see_flat_episodes_like_padded_ones(kind):
    data = make_ragged(kind)
    torch.manual_seed(0)
    method = build("options-exact", data, num_options=3)
    skills = to_skills(method.model, method.guide)
    ours, theirs = skills.segment(data), skills.segment(as_padded(data))
    assert_close(ours.log_likelihood, theirs.log_likelihood, rtol=1e-5, atol=1e-4)
    assert_close(skills.episode_log_likelihoods(data).float(), ours.log_likelihood.float())
    assert_close(skills.summarize(data).actions, skills.summarize(as_padded(data), theirs).actions)
    small = data[1:]  # with the longest episode a padded store looks at fewer episodes
    reveals = [state_reveals(one, skills.segment(one)) for one in (small, as_padded(small.cut(50)))]
    assert reveals[0] == pytest.approx(reveals[1], abs=1e-3)


def test_unknown_values_are_refused_with_their_step():
    data = make_ragged("floats")
    method = build("options-exact", data, num_options=2)
    skills = to_skills(method.model, method.guide)
    actions = torch.cat(list(data.action_steps.chunks()))
    actions[2010, 2] = 0.5
    other = Trajectories.from_flat(torch.cat(list(data.state_chunks())), actions, LENGTHS)
    with pytest.raises(ValueError, match=r"dimension 2 to be one of -1, 1 but got 0\.5 at episode 2, step 1"):
        skills.log_likelihood(other)


def test_the_final_phase_trains_on_batches_of_all_the_data():
    data = make_ragged("integers")
    train, judge = data.split(0.25, seed=0)
    method = build("options-exact", data, num_options=2)
    config = TrainConfig(epochs=2, final_phase=0.5, batch_size=4, device="cpu", progress=False)
    trainer = Trainer(method.model, method.guide, train, config, held_out=judge, final_data=data)
    trainer.run(1)
    before = trainer.num_steps
    assert before == train.num_batches(4)
    trainer.run(1)
    assert trainer.num_steps - before == data.num_batches(4)
    assert len(trainer.history.judge_scores) == len(judge)


@pytest.mark.parametrize("kind", KINDS)
def test_discovery_with_trust_from_flat_episodes_never_pads_the_whole(kind, monkeypatch):
    largest, padded = [], FlatSteps.padded

    def recorded(self, width=None):
        largest.append(len(self) * (self.width if width is None else width))
        return padded(self, width)

    monkeypatch.setattr(FlatSteps, "padded", recorded)
    given = {"num_options": 2, "hidden": (), "weight_scale": None, "epochs": 10, "held_out": 0.2}
    skills = discover(make_ragged(kind), **given, progress=False, device="cpu")
    trust = skills.metadata["trust"]
    assert max(largest) <= 2000
    assert trust["num_options"] == skills.used_options and trust["gain"] is not None
    assert math.isfinite(skills.metadata["log_likelihood"]["train"])
