"""Units do not matter: an affine change of states and actions leaves the model what it is."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from pyro_options import Skills, discover
from pyro_options.data import Trajectories, synthetic_options
from pyro_options.discovery import Budget, build
from pyro_options.discovery.budget import state_inputs
from pyro_options.nn import StandardizedInputs, VaryingInputs
from pyro_options.skills import to_skills

STATE_SCALE = torch.tensor([1000.0, 0.01, 3.0, 1.0, 50.0, 0.2, 7.0, 1.0])
STATE_SHIFT = torch.tensor([0.0, 5.0, -40.0, 0.5, 100.0, 0.0, 1.0, 2.0])
ACTION_SCALE, ACTION_SHIFT = torch.tensor([0.001, 20.0]), torch.tensor([0.0, 3.0])


def original(continuous=True):
    data = synthetic_options(3, 40, (10, 30), num_actions=None if continuous else 4, seed=101).trajectories
    actions = data.actions[..., :2] if continuous else data.actions
    return Trajectories(data.states, actions, data.lengths, data.num_actions)


def rescaled(data):
    """In other units, stored in double precision: float32 would round the data themselves."""
    D = data.state_dim
    states = data.states.double() * STATE_SCALE[:D].double() + STATE_SHIFT[:D].double()
    actions = data.actions
    if not data.discrete:
        actions = data.actions.double() * ACTION_SCALE.double() + ACTION_SHIFT.double()
    return Trajectories(states, actions, data.lengths, data.num_actions)


def built(data, guide):
    torch.manual_seed(0)
    method = build(None, data, guide=guide, num_options=3, start="random")
    return method, to_skills(method.model, method.guide)


@pytest.mark.parametrize("continuous", [True, False], ids=["continuous", "discrete"])
@pytest.mark.parametrize("guide", ["exact", "paper"])
def test_a_change_of_units_changes_nats_by_the_log_determinant_alone(guide, continuous):
    data, other = original(continuous), rescaled(original(continuous))
    (_, ours), (_, theirs) = built(data, guide), built(other, guide)
    log_determinant = float(torch.log(ACTION_SCALE).sum()) if continuous else 0.0
    found, again = ours.segment(data), theirs.segment(other)
    assert again.log_likelihood_per_step == pytest.approx(found.log_likelihood_per_step - log_determinant, abs=1e-4)
    assert torch.equal(found.options, again.options) and torch.equal(found.switches, again.switches)


def test_the_budget_is_the_same():
    configs = [Budget().train_config(one, ()) for one in (original(), rescaled(original()))]
    assert configs[0] == configs[1]


SMALL = synthetic_options(3, 10, (8, 14), num_actions=None, seed=101).trajectories
SHORT = {
    "epochs": 2,
    "held_out": 0.2,
    "initial_options": 4,
    "max_options": 5,
    "check_every": 8,
    "progress": False,
    "device": "cpu",
}
UNITS = st.builds(lambda size, sign: sign * size, st.floats(1e-3, 1e3), st.sampled_from([-1.0, 1.0]))
KINDS = {
    "gaussian": lambda actions: actions[..., :2],
    "clipped": lambda actions: actions[..., :2].clamp(-0.4, 0.9),
    "gripper": lambda actions: torch.cat([actions[..., :1], torch.where(actions[..., 1:2] > 0, 1.0, -1.0)], -1),
}


@cache
def discovered(kind):
    """Skills of a default discovery, cut short, with growth; and the demonstrations."""
    actions = KINDS[kind](SMALL.actions)
    data = Trajectories(SMALL.states, actions, SMALL.lengths)
    return data, discover(data, **SHORT)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate])
@given(choose=st.data())
def test_any_affine_change_gives_the_same_options_and_segmentation(kind, choose):
    data, ours = discovered(kind)
    change = st.tuples(UNITS, st.floats(-1e3, 1e3))
    draw = choose.draw(st.lists(change, min_size=data.state_dim + 2, max_size=data.state_dim + 2))
    if kind == "gripper":  # turned around, its values change places
        draw[-1] = abs(draw[-1][0]), draw[-1][1]
    scale, shift = torch.tensor(draw, dtype=torch.float64).T
    D = data.state_dim
    states, actions = data.states.double() * scale[:D] + shift[:D], data.actions.double() * scale[D:] + shift[D:]
    other = Trajectories(states, actions, data.lengths)
    theirs = discover(other, **SHORT)
    found, again = ours.segment(data), theirs.segment(other)
    assert theirs.num_options == ours.num_options
    assert torch.equal(found.flat_options, again.flat_options)
    assert torch.equal(found.flat_switches, again.flat_switches)
    seen, logs = data.actions[data.mask], torch.log(scale[D:].abs())
    inside = torch.ones_like(seen, dtype=torch.float64)
    if kind == "clipped":  # probabilities have no units
        inside = ((seen > -0.4) & (seen < 0.9)).double()
    elif kind == "gripper":
        inside[:, 1] = 0.0
    nats = float(found.log_likelihood.double().sum() - again.log_likelihood.double().sum())
    assert nats == pytest.approx(float((inside @ logs).sum()), rel=1e-5, abs=1e-2)
    first, last = (one - other for one, other in zip(*(one.metadata["history"]["objective"] for one in (ours, theirs))))
    assert first == pytest.approx(last, rel=1e-5, abs=1e-2)  # the objective is in the units of the user, too
    each = inside * logs  # the episodes trained on are some of all, so that their mean may differ
    assert first == pytest.approx(float(each.sum()) / len(data), abs=1 + 0.2 * float(each.abs().sum()) / len(data))


def test_two_values_become_bits():
    torch.manual_seed(0)
    bits = torch.randint(2, (4, 6, 2)).float()
    changed = bits.double() * torch.tensor([0.3, 200.0]) + torch.tensor([5.0, -100.0])
    actions = torch.zeros(4, 6).long()
    inputs = state_inputs(Trajectories(changed, actions, num_actions=2))
    assert torch.equal(inputs(changed), bits)


def test_bits_stay_bits_and_constants_are_left_out():
    torch.manual_seed(0)
    bits, numbers = torch.randint(2, (5, 8, 2)).float(), 30 + 4 * torch.randn(5, 8, 1)
    states = torch.cat([bits, torch.full((5, 8, 1), 7.0), numbers], -1)
    data = Trajectories(states, torch.zeros(5, 8).long(), num_actions=2)
    inputs = state_inputs(data)
    assert isinstance(inputs, StandardizedInputs) and inputs.index.tolist() == [0, 1, 3]
    seen = inputs(data.states)
    assert torch.equal(seen[..., :2], bits)
    assert_close(seen[..., 2].mean(), torch.zeros(()), atol=1e-5, rtol=0)
    assert_close(seen[..., 2].std(correction=0), torch.ones(()))
    only_bits = state_inputs(Trajectories(bits, torch.zeros(5, 8).long(), num_actions=2))
    assert type(only_bits) is VaryingInputs
    assert state_inputs(data, skip_constant=False, standardize=False) is None


def test_padding_does_not_count():
    states = torch.tensor([[[1.0], [3.0], [0.0]], [[5.0], [7.0], [9.0]]])
    data = Trajectories(states, torch.zeros(2, 3).long(), lengths=[2, 3], num_actions=2)
    inputs = state_inputs(data)
    assert float(inputs.center) == pytest.approx(5.0)
    assert float(inputs.scale) == pytest.approx(np.std([1, 3, 5, 7, 9]))


def test_skills_act_in_the_units_of_the_user(tmp_path):
    """In torch, in numpy and from a file; random actions have the scale of the demonstrations."""
    data = rescaled(original())
    skills = discover(data, num_options=2, epochs=3, progress=False, device="cpu")
    skills.save(tmp_path / "skills.safetensors")
    again = Skills.load(tmp_path / "skills.safetensors")
    states = data.states[0, :5]
    for one in (skills, again):
        mean = one.policy(states[None]).mean_action[0]  # (T, K, A)
        for k in range(2):
            assert_close(torch.tensor(one.predict(states.numpy(), k)), mean[:, k], atol=1e-3, rtol=1e-4)
        assert one.log_likelihood(data) == skills.log_likelihood(data)
    spread = data.actions[data.mask].std(0)
    drawn = np.stack([skills.predict(states[0].numpy(), 0, deterministic=False) for _ in range(300)]).std(0)
    assert (drawn < 3 * spread.numpy()).all() and (drawn > 1e-3 * spread.numpy()).all()


def test_constant_actions_have_a_unit():
    data = original()
    for value in (0.0, -2.5):
        constant = Trajectories(data.states, torch.full_like(data.actions, value), data.lengths)
        skills = discover(constant, num_options=1, epochs=1, progress=False, device="cpu")
        assert np.isfinite(skills.metadata["log_likelihood"]["train"])


def saturated():
    data = original()
    return Trajectories(data.states, data.actions.clamp(-0.4, 0.9), data.lengths)


def test_saturated_actions_are_censored(tmp_path):
    data = saturated()
    skills = discover(data, num_options=2, epochs=3, progress=False, device="cpu")
    assert skills.policy.low.tolist() == pytest.approx([-0.4, -0.4])
    assert skills.policy.high.tolist() == pytest.approx([0.9, 0.9])
    skills.save(tmp_path / "skills.safetensors")
    again = Skills.load(tmp_path / "skills.safetensors")
    assert again.log_likelihood(data) == skills.log_likelihood(data)
    far = 100 * data.states[0, 0].numpy()
    for deterministic in (True, False):
        action = again.predict(far, 0, deterministic)
        assert (action >= again.policy.low.numpy()).all() and (action <= again.policy.high.numpy()).all()
    plain = discover(data, num_options=2, epochs=3, progress=False, device="cpu", censored=False)
    assert not plain.policy.saturates


def test_imitation_of_saturated_actions_has_the_likelihood_of_the_model():
    data = saturated()[:6]
    skills = discover(data, num_options=2, epochs=3, progress=False, device="cpu")
    skills.log_weights -= torch.logsumexp(skills.log_weights, 0)
    imitation, total = skills.imitation(), 0.0
    for i in range(len(data)):
        belief = None
        for t in range(int(data.lengths[i])):
            state, action = data.states[i, t].numpy(), data.actions[i, t].numpy()
            arrived = imitation.options(state, belief)
            total += np.log((arrived * np.exp(imitation._scores(skills.outputs(state), action))).sum())
            belief = imitation.update(state, action, belief)
    assert total / data.num_steps == pytest.approx(skills.log_likelihood(data), abs=1e-4)


def test_actions_that_do_not_saturate_have_no_bounds():
    assert not build(None, original(), num_options=2).model.policy.saturates
