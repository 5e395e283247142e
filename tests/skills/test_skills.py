"""Skills in numpy equal the modules they are made of."""

import numpy as np
import pytest
import torch
from support.episodes import make_episodes
from support.paths import enumerate_paths
from support.skill_sets import A, D, K, make_data, make_skills, states

from pyro_options.data import Trajectories, pack_bits
from pyro_options.options import CategoricalPolicy, GaussianPolicy, Termination
from pyro_options.skills import Segmentation, Skills

KINDS = ["linear", "varying", "deep", "custom"]


@pytest.mark.parametrize("kind", KINDS)
def test_discrete_actions_are_those_of_the_policy(kind):
    skills, seen = make_skills(kind), states(9)
    expected = torch.softmax(skills.policy(seen.unsqueeze(0)).logits[0], -1)  # (9, K, A)
    for k in range(K):
        np.testing.assert_allclose(skills.action_probabilities(seen.numpy(), k), expected[:, k], rtol=1e-5)
        assert skills.predict(seen.numpy(), k).tolist() == expected[:, k].argmax(-1).tolist()
        one = skills.predict(seen[4].numpy(), k)
        assert isinstance(one, int) and one == expected[4, k].argmax()
    each = np.arange(9) % K
    chosen = expected[torch.arange(9), torch.from_numpy(each)]
    np.testing.assert_allclose(skills.action_probabilities(seen.numpy(), each), chosen, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_continuous_actions_are_those_of_the_policy(kind):
    skills, seen = make_skills(kind, discrete=False), states(9)
    fn = skills.policy(seen.unsqueeze(0))
    np.testing.assert_allclose(skills.predict(seen.numpy(), 2), fn.mean_action[0, :, 2], rtol=1e-4, atol=1e-6)
    many = np.repeat(seen[:1].numpy(), 20_000, 0)
    drawn = skills.predict(many, 2, deterministic=False, rng=np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(0), fn.mean_action[0, 0, 2], atol=0.1)
    np.testing.assert_allclose(drawn.std(0), fn.log_scale[2].exp(), rtol=0.05)
    assert skills.predict(seen[0].numpy(), 1, deterministic=False).shape == (A,)


@pytest.mark.parametrize("kind", KINDS)
def test_terminations_are_those_of_the_module(kind):
    skills, seen = make_skills(kind), states(9)
    expected = torch.sigmoid(skills.termination(seen))
    np.testing.assert_allclose(skills.termination_probability(seen.numpy(), 1), expected[:, 1], rtol=1e-5)
    assert skills.termination_probability(seen[2].numpy(), 3) == pytest.approx(float(expected[2, 3]), rel=1e-5)
    drawn = skills.terminates(np.repeat(seen[:1].numpy(), 20_000, 0), 0, np.random.default_rng(0))
    assert drawn.dtype == bool and drawn.mean() == pytest.approx(float(expected[0, 0]), abs=0.02)
    assert isinstance(skills.terminates(seen[0].numpy(), 0), bool)


def test_random_actions_follow_the_probabilities_and_the_generator():
    skills, one = make_skills(), states(1)[0].numpy()
    many = np.repeat(one[None], 30_000, 0)
    drawn = skills.predict(many, 1, deterministic=False, rng=np.random.default_rng(0))
    shares = np.bincount(drawn, minlength=A) / len(drawn)
    np.testing.assert_allclose(shares, skills.action_probabilities(one, 1), atol=0.02)
    again = skills.predict(many, 1, deterministic=False, rng=np.random.default_rng(0))
    assert (drawn == again).all()


def test_bytes_and_bits_are_the_same_observation():
    skills, seen = make_skills(packed=True), states(5)
    packed = pack_bits(seen).numpy()
    assert (skills.action_probabilities(packed, 2) == skills.action_probabilities(seen.numpy(), 2)).all()
    assert skills.termination_probability(packed[0], 2) == skills.termination_probability(seen[0].numpy(), 2)


@pytest.mark.parametrize(
    "observation, option, match",
    [
        (np.zeros(D - 1), 0, "Expected observations"),
        (np.zeros((2, 2, D)), 0, "Expected observations"),
        (np.zeros(D // 8, dtype=np.uint8), 0, "Expected observations"),
        (np.zeros(D), K, r"option in \[0, 3\]"),
        (np.zeros(D), -1, r"option in \[0, 3\]"),
        (np.zeros((2, D)), [0, K], r"options in \[0, 3\]"),
        (np.zeros((2, D)), [0, 1, 2], "one option for each"),
        (np.zeros((2, D)), [0.0, 1.0], "one option for each"),
    ],
)
def test_observations_and_options_of_wrong_shape_are_refused(observation, option, match):
    with pytest.raises(ValueError, match=match):
        make_skills().predict(observation, option)


def test_likelihood_and_segments_equal_enumeration():
    skills, data = make_skills(), make_data(num_episodes=3, num_steps=3)
    segmentation = skills.segment(data, "posterior")
    best = skills.segment(data, "viterbi")
    total = 0.0
    for i in range(3):
        T = int(data.lengths[i])
        logits = skills.termination(data.states[i, :T]).double()
        emission = skills.policy(data.states[i : i + 1, :T]).component_log_prob(data.actions[i : i + 1, :T])[0].double()
        every = enumerate_paths(skills.log_weights.double(), logits, emission)
        total += float(every.joint.sum().log())
        assert float(segmentation.log_likelihood[i]) == pytest.approx(float(every.joint.sum().log()), rel=1e-5)
        for t in range(T):
            marginal = torch.stack([every.posterior[every.options[:, t] == k].sum() for k in range(K)])
            assert int(segmentation.options[i, t]) == int(marginal.argmax())
            switch = every.posterior[every.terminations[:, t] == 1].sum()
            assert float(segmentation.switches[i, t]) == pytest.approx(float(switch), abs=1e-5)
        sequences = {}
        for h, p in zip(every.options.tolist(), every.joint.tolist()):
            sequences[tuple(h)] = sequences.get(tuple(h), 0.0) + p
        assert tuple(best.options[i, :T].tolist()) == max(sequences, key=sequences.get)
        assert (segmentation.options[i, T:] == segmentation.options[i, T - 1]).all()
    assert skills.log_likelihood(data) == pytest.approx(total / data.num_steps, rel=1e-5)
    assert segmentation.log_likelihood_per_step == pytest.approx(total / data.num_steps, rel=1e-5)


def test_batches_do_not_change_the_answer():
    skills, data = make_skills(packed=True), make_data(packed=True)
    whole, parts = skills.segment(data), skills.segment(data, batch_size=2)
    assert torch.equal(whole.options, parts.options)
    assert skills.log_likelihood(data, batch_size=3) == pytest.approx(skills.log_likelihood(data), rel=1e-6)


def make_segmentation():
    options = torch.tensor([[0, 0, 1, 1, 0], [2, 2, 2, 2, 2], [1, 0, 0, 0, 0]])
    switches = torch.tensor([[1.0, 0, 1, 0, 1], [1, 0, 1, 0, 0], [1, 1, 0, 0, 0]])
    return Segmentation(options, switches, torch.tensor([5, 4, 2]), torch.tensor([-1.0, -2.0, -3.0]), 4)


def test_segment_lengths_by_hand():
    segmentation = make_segmentation()
    assert segmentation.segments(0) == [(0, 0, 2), (1, 2, 4), (0, 4, 5)]
    assert segmentation.segments(1) == [(2, 0, 4)] and segmentation.segments(2) == [(1, 0, 1), (0, 1, 2)]
    assert segmentation.segments(0)[1].length == 2
    options, lengths = segmentation.segment_lengths()
    assert options.tolist() == [0, 1, 0, 2, 1, 0] and lengths.tolist() == [2, 2, 1, 4, 1, 1]
    assert segmentation.mean_length == pytest.approx(11 / 6) and segmentation.mean_duration == pytest.approx(11 / 7)
    np.testing.assert_allclose(segmentation.usage(), [4 / 11, 3 / 11, 4 / 11, 0])
    assert "3 episodes, 3 of 4 options" in repr(segmentation)


def test_a_summary_counts_what_happened():
    skills, data = make_skills(), make_data()
    segmentation = skills.segment(data)
    summary = skills.summarize(data)
    psi = torch.sigmoid(skills.termination(data.states))
    for k in range(K):
        rates, actions, lengths = [], [], []
        for i in range(len(data)):
            h = segmentation.options[i, : data.lengths[i]].tolist()
            rates += [float(psi[i, t, k]) for t in range(1, len(h)) if h[t - 1] == k]
            actions += [int(data.actions[i, t]) for t in range(len(h)) if h[t] == k]
            lengths += [s.length for s in segmentation.segments(i) if s.option == k]
        assert float(summary.usage[k]) == pytest.approx(len(actions) / data.num_steps)
        assert float(summary.mean_length[k]) == pytest.approx(np.mean(lengths) if lengths else 0)
        assert float(summary.termination_rate[k]) == pytest.approx(np.mean(rates) if rates else 0, rel=1e-5)
        shares = np.bincount(actions, minlength=A) / max(1, len(actions))
        np.testing.assert_allclose(summary.actions[k], shares, rtol=1e-5)


def test_describe_has_a_line_for_each_option():
    skills, data = make_skills(action_names=["left", "right", "jump"]), make_data()
    with pytest.raises(ValueError, match="Pass trajectories"):
        skills.describe()
    table, *_, legend = skills.describe(data).split("\n\n")
    lines = table.splitlines()
    assert all(column in legend for column in ("usage", "weight", "mean length", "termination", "actions"))
    assert len(lines) == 1 + K and lines[0].split()[:3] == ["option", "usage", "weight"]
    assert any(name in "".join(lines) for name in ("left", "right", "jump"))
    assert "mean" in make_skills(discrete=False).describe(make_data(discrete=False))


def with_summary(skills, data):
    return Skills(skills.policy, skills.termination, skills.log_weights, skills.packed, summary=skills.summarize(data))


def test_a_permutation_changes_names_and_nothing_else():
    data = make_data()
    skills = with_summary(make_skills("deep"), data)
    order = [2, 0, 3, 1]
    other = skills.only(order)
    assert other.log_likelihood(data) == pytest.approx(skills.log_likelihood(data), rel=1e-6)
    old, new = skills.segment(data).options, other.segment(data).options
    assert torch.equal(torch.tensor(order)[new], old)
    assert torch.equal(other.summary.usage, skills.summary.usage[order])
    seen = data.states[0, 0].numpy()
    np.testing.assert_allclose(other.action_probabilities(seen, 1), skills.action_probabilities(seen, 0), rtol=1e-6)
    assert other.termination_probability(seen, 2) == pytest.approx(skills.termination_probability(seen, 3))


def test_a_subset_keeps_the_mass_and_leaves_the_original_alone():
    data = make_data()
    skills = with_summary(make_skills(leftover=0.2), data)
    before = skills.log_likelihood(data)
    few = skills.only([3, 0])
    assert few.num_options == 2 and skills.num_options == K and skills.log_likelihood(data) == before
    assert float(few.log_weights.exp().sum()) == pytest.approx(0.8, rel=1e-5)
    ratio = few.log_weights[0] - few.log_weights[1]
    assert float(ratio) == pytest.approx(float(skills.log_weights[3] - skills.log_weights[0]), rel=1e-5)
    for bad in ([], [0, 0], [K]):
        with pytest.raises(ValueError, match="Expected"):
            skills.only(bad)


def test_used_options_come_first():
    data = make_data(num_episodes=30)
    skills = with_summary(make_skills(), data)
    used = skills.used(0.1)
    shares = used.summary.usage.tolist()
    assert shares == sorted(shares, reverse=True) and all(share >= 0.1 for share in shares)
    assert used.num_options == int((skills.summary.usage >= 0.1).sum())
    with pytest.raises(ValueError, match="know their usage"):
        make_skills().used()


@pytest.mark.parametrize(
    "data, match",
    [
        (lambda: make_episodes(), "states of 16 numbers"),
        (lambda: make_data(discrete=False), "discrete actions"),
        (lambda: Trajectories(states(2, 3), torch.full((2, 3), A)), "3 actions"),
        (lambda: make_data().without_actions(), "with actions"),
    ],
)
def test_data_of_another_task_are_refused(data, match):
    with pytest.raises(ValueError, match=match):
        make_skills().log_likelihood(data())


def test_inconsistent_parts_are_refused():
    skills = make_skills()
    with pytest.raises(ValueError, match="as many policies"):
        Skills(skills.policy, Termination(D, K + 1), skills.log_weights)
    with pytest.raises(ValueError, match="one name"):
        Skills(skills.policy, skills.termination, skills.log_weights, action_names=["a"])


def test_skills_keep_a_copy():
    policy, termination = CategoricalPolicy(D, K, A), Termination(D, K)
    skills = Skills(policy, termination, torch.full((K,), -2.0))
    seen = states(1)[0].numpy()
    before = skills.action_probabilities(seen, 0)
    with torch.no_grad():
        policy.heads.weight.fill_(3.0)
    assert (skills.action_probabilities(seen, 0) == before).all()
    assert not any(p.requires_grad for p in skills.policy.parameters()) and policy.heads.weight.requires_grad


def test_long_episodes_in_small_batches_change_nothing(monkeypatch):
    skills, data = make_skills(), make_data()
    whole, summary = skills.segment(data), skills.summarize(data)
    monkeypatch.setattr(Trajectories, "rows_together", lambda self: 2)
    parts, again = skills.segment(data), skills.summarize(data)
    assert torch.equal(whole.options, parts.options)
    torch.testing.assert_close(whole.switches, parts.switches)
    assert skills.log_likelihood(data) == pytest.approx(whole.log_likelihood_per_step, rel=1e-5)
    for name, value in vars(summary).items():
        torch.testing.assert_close(torch.as_tensor(value), torch.as_tensor(getattr(again, name)))


KINDS = ((CategoricalPolicy, 4), (GaussianPolicy, 1))


def test_numbers_that_overflow_are_refused_with_their_episode():
    data = make_episodes(3)
    states, actions = data.states.double(), torch.zeros(3, 5, 1, dtype=torch.float64)
    sets = [Skills(kind(3, K, n), Termination(3, K), torch.zeros(K)) for kind, n in KINDS]
    far = states.index_fill(0, torch.tensor(1), 1e39), actions.index_fill(0, torch.tensor(1), 1e25)
    for skills, large in (
        (sets[0], Trajectories(far[0], data.actions, num_actions=data.num_actions)),
        (sets[1], Trajectories(states, far[1])),
    ):
        for call in (skills.segment, skills.log_likelihood):
            with pytest.raises(ValueError, match="larger ones at episode 1"):
                call(large, batch_size=1)


def test_a_summary_is_as_wide_as_the_skills():
    skills, data = make_skills(), make_data()
    wide = Trajectories(data.stored, data.actions, data.lengths, skills.num_actions + 2, packed=data.packed)
    assert torch.equal(skills.summarize(wide).actions, skills.summarize(data).actions)


def test_a_boolean_option_and_an_empty_selection_are_refused():
    skills, data = make_skills(), make_data()
    with pytest.raises(ValueError, match=r"an option in .* but got True"):
        skills.predict(states(1)[0], True)
    with pytest.raises(ValueError, match=r"covers 1 of the steps but got none\. Pass a smaller"):
        with_summary(skills, data).used(1.0)


def test_observations_that_overflow_are_refused_without_a_warning():
    skills = make_skills("linear")
    skills.policy.heads.weight.fill_(10.0)
    skills.termination.heads.weight.fill_(10.0)
    for ask in (skills.predict, skills.action_probabilities, skills.terminates):
        with pytest.raises(ValueError, match="finite observations"):
            ask(np.full(D, 3e38, np.float32), 1)
