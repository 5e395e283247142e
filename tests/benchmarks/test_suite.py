"""The tasks of the public suite are what they say, and its runner runs."""

import importlib
import json

import numpy as np
import pytest
import torch
from support.tiny_runs import BENCHMARKS, load_script
from torch.testing import assert_close

from pyro_options.data import DECISION_WEIGHTS
from pyro_options.skills import boundaries

NAMES = (
    *("waypoints", "waypoints_clipped", "waypoints_position", "pick_and_place", "grid_symbolic", "grid_coordinates"),
    *("babyai", "pixels_hidden_goal", "pendulum", "glm_hmm", "random_actions", "random_continuous", "smooth_policy"),
    *("smooth_discrete", "rare_skill_6", "rare_skill_20", "five_options"),
)


@pytest.fixture
def suite(monkeypatch):
    return load_script(monkeypatch, BENCHMARKS / "suite.py")


def make(suite, name, seed=0, episodes=8):
    if name == "babyai":
        pytest.importorskip("minigrid")
    return suite.TASKS[name](seed, episodes)


def module(name):
    return importlib.import_module(f"suite_tasks.{name}")


def steps(task):
    """States, actions and labels of all steps."""
    data = task.trajectories
    return data.states[data.mask].numpy(), data.actions[data.mask].numpy(), task.labels[data.mask].numpy()


def check_laws(laws, actions, labels, noise, least):
    """The law of the label explains every action, and no other one does where laws differ by more than noise.

    :param laws: action of every sub-task without noise ``(steps, sub-tasks, dimensions)``
    :param least: share of the steps at which laws differ, so that the check is of something
    """
    index = np.arange(len(labels))
    errors = np.linalg.norm(laws - actions[:, None], axis=-1)
    assert errors[index, labels].max() < 6 * noise
    gaps = np.linalg.norm(laws - laws[index, labels][:, None], axis=-1)
    gaps[index, labels] = np.inf
    differ = gaps.min(-1) > 12 * noise
    assert differ.mean() > least and (errors.argmin(-1) == labels)[differ].all()


def test_every_task_is_tested(suite):
    assert set(NAMES) == set(suite.TASKS)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_determines_a_task_and_labels_fit_the_episodes(suite, name):
    task, again, other = (make(suite, name, seed) for seed in (3, 3, 4))
    data = task.trajectories
    for one, same in ((data.states, again.trajectories.states), (data.actions, again.trajectories.actions)):
        assert torch.equal(one, same)
    assert torch.equal(task.labels, again.labels) and task.name == name and len(data) == 8
    assert not torch.equal(data.actions[:, :9], other.trajectories.actions[:, :9])
    assert task.labels.shape == data.mask.shape and torch.equal(task.labels >= 0, data.mask)
    assert task.own_model == (name == "five_options")
    assert task.num_options is not None and len(task.labels[data.mask].unique()) <= task.num_options


@pytest.mark.parametrize("name", ["waypoints", "waypoints_clipped", "rare_skill_6"])
def test_the_label_is_the_way_point_whose_controller_acts(suite, name):
    controller, task = module("waypoints"), make(suite, name)
    states, actions, labels = steps(task)
    laws = controller.command(states[:, None].astype(np.float64), controller.GOALS)  # (steps, goals, 2)
    if task.action_bounds:
        laws = laws.clip(*task.action_bounds)
    check_laws(laws, actions, labels, controller.NOISE, least=0.3 if task.action_bounds else 0.99)


def test_clipped_commands_saturate_and_positions_hide_the_velocity(suite):
    _, actions, _ = steps(make(suite, "waypoints_clipped"))
    assert np.abs(actions).max() == 1 and 0.3 < (np.abs(actions) == 1).mean() < 0.8
    whole, seen = (make(suite, name) for name in ("waypoints", "waypoints_position"))
    assert torch.equal(whole.trajectories.states[..., :2], seen.trajectories.states)
    assert torch.equal(whole.trajectories.actions, seen.trajectories.actions)


@pytest.mark.parametrize("rare", [6, 20])
def test_a_rare_skill_is_in_as_many_episodes_as_its_name_says(suite, rare):
    task = make(suite, f"rare_skill_{rare}", episodes=60)
    assert int((task.labels == task.num_options - 1).any(1).sum()) == rare


def test_the_label_is_the_phase_of_pick_and_place(suite):
    arm, task = module("pick_and_place"), make(suite, "pick_and_place", episodes=4)
    states, actions, labels = steps(task)
    laws = np.array([[arm.law(k, state) for k in range(8)] for state in states.astype(np.float64)])
    check_laws(laws, actions, labels, arm.NOISE, least=0.4)
    assert set(np.unique(actions[:, 3])) == {-1.0, 1.0}
    for row, length in zip(task.labels, task.trajectories.lengths):
        assert row[:length].unique_consecutive().tolist() == list(range(8))
    last = task.trajectories.lengths - 1
    final = task.trajectories.states[torch.arange(len(last)), last]
    assert (final[:, 4:7] - final[:, 7:]).norm(dim=-1).max() < 0.1  # the object lies at the target


def test_the_label_is_the_kind_of_object_that_is_fetched(suite):
    task, bits = make(suite, "grid_coordinates"), make(suite, "grid_symbolic")
    states, actions, labels = steps(task)
    grid = module("grid_world")
    away = states[:, 2:].reshape(len(states), -1, 3)[np.arange(len(labels)), labels]  # x, y, present
    assert (away[:, 2] == 1).all()
    for (x, y, _), action in zip(away, actions):
        assert action in grid.nearer(np.zeros(2), np.array([x, y]))
    for row, length in zip(task.labels, task.trajectories.lengths):
        kinds = row[:length].unique_consecutive()
        assert 3 <= len(kinds) <= 5 and len(kinds.unique()) == len(kinds)
    assert torch.equal(bits.labels, task.labels) and torch.equal(bits.trajectories.actions, task.trajectories.actions)
    planes = steps(bits)[0].reshape(len(states), -1, 10, 10)
    assert planes.shape[1] == 8 and set(np.unique(planes)) == {0.0, 1.0}
    y, x = planes[:, grid.AGENT].reshape(len(states), -1).argmax(-1).__divmod__(10)
    assert (np.stack([x, y], -1) == states[:, :2]).all()
    assert (planes[:, :6].sum((2, 3)) == states[:, 2:].reshape(len(states), -1, 3)[..., 2]).all()


def test_the_label_is_the_sub_goal_of_the_bot(suite):
    task = make(suite, "babyai", episodes=20)
    states, actions, labels = steps(task)
    names = module("babyai").SUBGOALS
    assert set(np.unique(states)) == {0.0, 1.0}
    pickup, drop, toggle = 3, 4, 5
    for subgoal, action in (("Pickup", pickup), ("Drop", drop), ("Open", toggle)):
        assert ((labels == names.index(subgoal)) == (actions == action)).all()
    assert (actions[labels == names.index("GoNextTo")] <= 2).all() and task.num_options == 4


def test_the_label_is_the_hidden_goal_on_pixels(suite):
    pixels, task = module("pixels"), make(suite, "pixels_hidden_goal")
    states, actions, labels = steps(task)
    cells = np.stack(np.divmod(states.argmax(-1), pixels.SIZE)[::-1], -1)
    toward = np.array([action in pixels.nearer(c, pixels.GOALS[k]) for c, action, k in zip(cells, actions, labels)])
    assert 0.93 < toward.mean() < 1  # but for random actions
    mask = task.trajectories.mask
    before = boundaries(task.labels, mask).roll(-1, 1)[mask].numpy()  # the step after which the goal changes
    after = cells[before] + pixels.MOVES[actions[before]]
    assert (after == pixels.GOALS[labels[before]]).all() and before.any()
    assert all((pixels.image(cell) == state).all() for cell, state in zip(cells[:50], states))


def test_the_label_is_the_phase_of_the_pendulum(suite):
    law, task = module("pendulum"), make(suite, "pendulum", episodes=4)
    states, actions, labels = steps(task)
    assert [law.phase(state) for state in states] == labels.tolist()
    expected = np.array([law.torque(k, s) for k, s in zip(labels, states)]).clip(-law.BOUND, law.BOUND)
    assert np.abs(expected - actions[:, 0]).max() < 6 * law.NOISE
    assert (np.abs(actions) == law.BOUND).mean() > 0.1 and (task.labels[:, -1] == law.BALANCE).all()


def test_choices_follow_the_weights_of_their_state(suite):
    task = make(suite, "glm_hmm", episodes=45)
    inputs, choices, labels = steps(task)
    weights = DECISION_WEIGHTS[:, [0, 3, 1, 2]]  # the task has the bias as its second input
    logits = inputs @ weights.T  # (trials, states)
    right = 1 / (1 + np.exp(-logits))
    nats = np.log(np.where(choices[:, None] == 1, right, 1 - right))
    own, p = nats[np.arange(len(labels)), labels], right[np.arange(len(labels)), labels]
    entropy = p * np.log(p) + (1 - p) * np.log1p(-p)
    assert abs(own.mean() - entropy.mean()) < 0.02  # as likely as choices of these weights are
    assert own.mean() > nats.mean(0).max() + 0.1
    stays = (task.labels[:, 1:] == task.labels[:, :-1])[task.trajectories.mask[:, 1:]].float().mean()
    assert abs(float(stays) - 0.97) < 0.01
    data = task.trajectories
    assert torch.equal(data.states[:, 1:, 2][data.mask[:, 1:]], 2.0 * data.actions[:, :-1][data.mask[:, 1:]] - 1)


def test_one_policy_explains_tasks_with_nothing_to_find(suite):
    smooth = module("one_policy")
    states, actions, labels = steps(make(suite, "smooth_policy", episodes=30))
    noise = actions - smooth.smooth_mean(states.astype(np.float64))
    assert abs(noise.std() - smooth.NOISE) < 0.01 and not labels.any()
    states, actions, _ = steps(make(suite, "smooth_discrete", episodes=30))
    chosen = smooth.smooth_probabilities(states.astype(np.float64))
    assert abs((actions == chosen.argmax(-1)).mean() - chosen.max(-1).mean()) < 0.03
    _, actions, _ = steps(make(suite, "random_actions", episodes=30))
    assert np.abs(np.bincount(actions) / len(actions) - 0.25).max() < 0.05
    states, actions, _ = steps(make(suite, "random_continuous", episodes=30))
    assert np.abs(np.corrcoef(states.T, actions.T)[4:, :4]).max() < 0.1


@pytest.mark.parametrize("name", ["waypoints", "waypoints_clipped", "pick_and_place", "grid_coordinates", "glm_hmm"])
def test_a_rescaled_task_can_be_undone(suite, name):
    task = make(suite, name)
    changed = suite.rescaled(task, 5)
    data, moved = task.trajectories, changed.task.trajectories
    assert not torch.equal(data.states, moved.states) and torch.equal(data.lengths, moved.lengths)
    back = changed.states.inverse(moved.states)[data.mask]
    spread = data.states[data.mask].std(0)
    assert ((back - data.states[data.mask]).abs() <= 1e-4 * spread + 1e-6).all()
    assert changed.task.labels is task.labels and changed.task.name == f"{name}_rescaled"
    for column, scale in zip(data.states[data.mask].T, changed.states.scale):
        assert (scale == 1) == (len(column.unique()) <= 2)
    if data.discrete:
        assert torch.equal(data.actions, moved.actions) and not changed.log_determinant.any()


def test_the_determinant_of_other_units_spares_actions_at_a_bound(suite):
    changed = suite.rescaled(make(suite, "waypoints_clipped"), 5)
    task = make(suite, "waypoints_clipped")
    data, moved = task.trajectories, changed.task.trajectories
    inside = data.actions.abs() < 1
    at_bounds = moved.actions[data.mask][~inside[data.mask]]
    assert len(at_bounds.unique()) == 4  # two bounds of two entries, still exactly at them
    expected = (inside.double() @ changed.actions.scale.log()) * data.mask
    assert_close(changed.log_determinant, expected)
    gripper = suite.rescaled(make(suite, "pick_and_place"), 5).actions
    assert gripper.scale[3] == 1 and gripper.shift[3] == 0


def test_what_methods_are_told(suite):
    task = make(suite, "pick_and_place")
    assert suite.settings("options-exact", task) == {} == suite.settings("options", task)
    assert suite.settings("ddo", task)["num_options"] == 8 == suite.settings("compile", task)["num_segments"]
    told = suite.settings("compile-np", task)
    assert "num_options" not in told
    assert told["segment_length"] == pytest.approx(task.trajectories.num_steps / (8 * 8))


def test_a_segmentation_survives_its_text_and_a_removal_its_record(suite):
    options, mask = torch.tensor([[3, 3, 0], [1, 2, 9]]), torch.tensor([[True, True, True], [True, True, False]])
    assert suite.unpack_options(suite.pack_options(options, mask)).tolist() == [3, 3, 0, 1, 2]
    moves = [("birth", True, -9.0), ("prune", True, -0.5), ("merge", True, 0.1), ("merge", False, -3.0)]
    growth = [{"moves": [{"kind": kind, "accepted": taken, "gain": gain} for kind, taken, gain in moves]}]
    assert suite.removal_loss(growth) == 0.5 and suite.removal_loss([]) is None


def test_coverage_counts_intervals_of_ours_that_contain_the_truth(suite):
    def row(true, interval, method="options-exact"):
        return {"true_options": true, "method": method, "options_in_use": {"interval": interval}}

    rows = [row(4, [4, 4]), row(4, [2, 5]), row(4, [5, 7]), row(1, [2, 3]), row(None, [1, 1]), row(4, [4, 4], "ddo")]
    assert suite.coverage(rows) == (2, 4)
    assert suite.coverage([]) == (0, 0)
    assert suite.coverage([row(4, [3, 3]) | {"true_in_use": 3}]) == (1, 1)


def test_a_rare_skill_is_not_among_the_true_options_in_use(suite):
    assert suite.truly_in_use(suite.TASKS["rare_skill_6"](0)) == 3
    assert suite.truly_in_use(suite.TASKS["rare_skill_20"](0)) == 4
    assert suite.truly_in_use(make(suite, "random_actions")) == 1


def test_the_suite_runs(run_script, tmp_path):
    out = tmp_path / "suite.json"
    tiny = ("--tasks", "waypoints", "waypoints_rescaled", "glm_hmm", "--seeds", "0", "--episodes", "6", "--epochs", "1")
    printed = run_script(BENCHMARKS / "suite.py", *tiny, "--methods", "options-exact", "compile", "--out", out)
    rows = {(row["task"], row["method"]): row for row in json.loads(out.read_text())["runs"]}
    assert len(rows) == 6
    assert "waypoints, options-exact, seed 0: adjusted Rand index 1.000 with the rescaled run" in printed
    covered = [row["options_in_use"]["interval"] for key, row in rows.items() if key[1] == "options-exact"]
    truths = [row["true_options"] for key, row in rows.items() if key[1] == "options-exact"]
    count = sum(low <= true <= high for (low, high), true in zip(covered, truths))
    assert f"contains the true number in {count} of 3 runs" in printed
    plain, other = rows["waypoints", "options-exact"], rows["waypoints_rescaled", "options-exact"]
    assert other["segmentation"] == plain["segmentation"] and other["num_options"] == plain["num_options"]
    assert plain["held_out_log_likelihood"] == plain["held_out_in_original_units"]
    assert other["held_out_in_original_units"] == pytest.approx(plain["held_out_log_likelihood"], abs=1e-4)
    assert other["held_out_log_likelihood"] != pytest.approx(plain["held_out_log_likelihood"], abs=0.1)
    assert rows["glm_hmm", "compile"]["num_options"] == 3 == rows["glm_hmm", "compile"]["true_options"]
    for row in rows.values():
        assert 0 <= row["boundary_f1"] <= row["boundary_f1_within_1"] <= 1 and 0 <= row["accuracy"] <= 1
        assert row["warnings"] == [] and row["seconds"] > 0
    before = out.read_bytes()
    run_script(BENCHMARKS / "suite.py", *tiny, "--methods", "options-exact", "compile", "--out", out)
    assert out.read_bytes() == before  # finished runs are not repeated


def test_an_unknown_task_is_refused(suite, tmp_path):
    with pytest.raises(ValueError, match="waypoints"):
        suite.main(suite.Args(tasks=("way_points",), out=tmp_path / "suite.json"))


def test_discovery_starts_more_than_once_on_the_same_data(run_script, tmp_path):
    out = tmp_path / "suite.json"
    tiny = ("--tasks", "five_options", "--seeds", "3", "--episodes", "6", "--epochs", "1", "--methods", "options-exact")
    run_script(BENCHMARKS / "suite.py", *tiny, "--starts", "0", "1", "--out", out)
    rows = {row["name"]: row for row in json.loads(out.read_text())["runs"]}
    first, other = rows["five_options, options-exact, seed 3"], rows["five_options, options-exact, seed 3, start 1"]
    assert first["train_log_likelihood"] != other["train_log_likelihood"] and "start" not in first
    assert len(first["segmentation"]) > 0 and first["true_options"] == other["true_options"] == 5
