"""The search for capacity and shrinkage, and starts from stretches."""

import pytest
import torch
from support.episodes import make_episodes
from support.small_trainings import finished, make_trainer

from pyro_options.data import Trajectories, synthetic_options
from pyro_options.discovery import build, discover
from pyro_options.discovery.capacity import SCALES, WIDTHS, Capacity
from pyro_options.discovery.search import Trial, simplest
from pyro_options.discovery.start import start_from_stretches, stretch_lengths, stretches
from pyro_options.discovery.stretch_birth import StretchBirth
from pyro_options.errors import InputError
from pyro_options.growth import Newborns, Usage, grow
from pyro_options.handlers import collapse
from pyro_options.infer import TrainConfig, Trainer


def trial(scores, hidden=()):
    return Trial(Capacity(hidden, None), None, torch.tensor(scores, dtype=torch.float64), 10, 0.0)


def test_the_simplest_candidate_within_noise_is_taken():
    simple, complex_ = trial([0.0, 0.0, 0.0, 0.0]), trial([0.5, 0.4, 0.6, 0.5], (64,))
    assert simplest([simple, complex_]) is simple  # two nats in all
    better = trial([5.0, 4.0, 6.0, 5.0], (64,))
    assert simplest([simple, better]) is better
    noisy = trial([30.0, -20.0, 25.0, -10.0], (64,))
    assert simplest([simple, noisy]) is simple  # less than its standard error


@pytest.mark.slow
def test_the_search_finds_the_network_that_the_data_ask_for():
    """Actions follow the product of two entries, which no linear policy can express."""
    torch.manual_seed(0)
    states = torch.randn(120, 40, 2)
    data = Trajectories(states, (states[..., 0] * states[..., 1] > 0).long(), num_actions=2)
    told = {"device": "cpu", "progress": False, "epochs": 40, "trust": False, "num_options": 1, "learning_rate": 0.02}
    made = discover(data, **told).metadata
    assert made["method"]["hidden"] in ([64], [64, 64])
    assert len(made["capacity"]) == len(WIDTHS) + len(SCALES)
    linear = synthetic_options(1, 120, (20, 40), num_actions=4, seed=1).trajectories
    del told["learning_rate"], told["epochs"]  # the defaults
    assert discover(linear, **told).metadata["method"]["hidden"] == []


def test_a_searched_training_can_be_interrupted_and_resumed(tmp_path):
    data = make_episodes(24)
    told = {"epochs": 10, "device": "cpu", "progress": False, "trust": False, "seed": 1, "num_options": 2}
    whole = discover(data, **told)
    saved = discover(data, checkpoint=tmp_path / "run", **told)
    again = discover(data, checkpoint=tmp_path / "run", resume=True, **told)
    for other in (saved, again):
        assert torch.equal(whole.log_weights, other.log_weights)
        assert other.metadata["method"] == whole.metadata["method"]


@pytest.mark.parametrize(
    ("given", "message"),
    [({"hidden": "deep"}, "hidden as widths"), ({"hidden": 64}, "tuple of widths"), ({"weight_scale": 0.0}, "> 0")],
)
def test_bad_capacities_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        build("options-exact", make_episodes(), **given)


def test_a_fork_trains_as_its_original_would_and_leaves_it_alone():
    trainer = make_trainer(epochs=4)
    trainer.run(2)
    before = [p.detach().clone() for p in trainer.parameters()]
    rng = torch.get_rng_state()
    twin = trainer.fork()
    first = finished(twin)[0]
    assert all(torch.equal(old, p) for old, p in zip(before, trainer.parameters(), strict=True))
    torch.set_rng_state(rng)
    assert first == finished(trainer)[0]


def test_weight_decay_is_the_gradient_of_the_prior():
    """With a prior, the step of plain gradient descent on one batch is that of the penalized loss."""
    trainer = make_trainer(epochs=1, weight_scale=0.5)
    groups = trainer.optimizer.param_groups
    assert [group.get("weight_decay", 0.0) for group in groups[:2]] == [0.0, 0.0]
    assert groups[2]["weight_decay"] == pytest.approx(1 / (0.25 * len(trainer.data)))
    heads = [trainer.model.policy.heads.weight, trainer.model.termination.heads.weight]
    assert {id(p) for p in groups[2]["params"]} == {id(p) for p in heads}
    trainer.shrink(None)
    assert groups[2]["weight_decay"] == 0 and trainer.config.weight_scale is None


def test_strong_shrinkage_makes_small_weights():
    def size(scale):
        torch.manual_seed(0)
        trainer = make_trainer(epochs=30, method={"num_options": 1, "hidden": ()}, weight_scale=scale)
        trainer.run()
        return float(trainer.model.policy.heads.weight.detach().norm())

    assert size(0.05) < 0.5 * size(None)


def test_the_final_phase_has_all_the_data_and_falling_rates():
    data, judge = make_episodes(24), make_episodes(6, seed=1)
    both = Trajectories(
        torch.cat([data.states, judge.states]),
        torch.cat([data.actions, judge.actions]),
        torch.cat([data.lengths, judge.lengths]),
        4,
    )
    parts = build("options-exact", data, rule="trial", initial_options=2, check_every=3, hidden=())
    config = TrainConfig(epochs=8, batch_size=8, final_phase=0.5, progress=False, device="cpu")
    trainer = Trainer(parts.model, parts.guide, data, config, parts.growth, judge, final_data=both)
    seen = []
    take = trainer.step

    def step(batch):
        seen.append((trainer.epoch, batch.population, trainer.optimizer.param_groups[0]["lr"]))
        return take(batch)

    trainer.step = step
    trainer.run()
    assert {population for epoch, population, _ in seen if epoch < 4} == {24}
    assert {population for epoch, population, _ in seen if epoch >= 4} == {30}
    rates = [rate for epoch, _, rate in seen]
    assert rates[0] == config.learning_rate and 0 < rates[-1] < 0.5 * rates[0]
    assert rates == sorted(rates, reverse=True)
    assert len(trainer.history.judge_scores) == 6
    assert all(event.time <= 12 for event in trainer.growth.history)  # no move after the fourth epoch


def test_stretches_are_consecutive_steps_of_one_episode():
    torch.manual_seed(0)
    lengths = torch.tensor([9, 4, 1])
    steps = torch.arange(9).repeat(3, 1) + 100 * torch.arange(3).unsqueeze(-1)
    data = Trajectories(steps.unsqueeze(-1).float(), steps % 5, lengths, 5)
    states, actions, mask = stretches(data, 50, 4)
    assert states.shape == (50, 4, 1) and set(mask.sum(1).tolist()) <= {1, 4}
    for row, used in zip(states.squeeze(-1), mask):
        kept = row[used]
        assert torch.equal(kept, kept[0] + torch.arange(len(kept)))
        assert int(kept[-1]) % 100 < lengths[int(kept[0]) // 100]
    assert torch.equal(actions[mask], states.squeeze(-1)[mask].long() % 5)


def test_options_start_different_and_like_the_demonstrations():
    truth = synthetic_options(3, 60, (20, 40), num_actions=4, seed=1)
    data = truth.trajectories
    torch.manual_seed(0)
    policy = build("options-exact", data, num_options=6, start="random").model.policy

    def best():
        with torch.no_grad():
            return float(policy(data.states).component_log_prob(data.actions).amax(-1)[data.mask].mean())

    before = best()
    start_from_stretches(policy, data)
    assert best() > before + 0.3


def test_lengths_of_stretches_differ_and_each_is_kept():
    torch.manual_seed(0)
    data = synthetic_options(3, 20, (40, 40), num_actions=4, seed=1).trajectories
    lengths = stretch_lengths(data, 5)
    assert lengths == [10, 5, 2, 10, 5]
    assert stretches(data, 5, lengths)[2].sum(1).tolist() == lengths


def test_births_from_stretches_leave_other_options_alone_and_explain_more():
    data = synthetic_options(4, 60, (20, 40), num_actions=None, seed=1).trajectories
    torch.manual_seed(0)
    method = build("options-exact", data, initial_options=2)
    assert method.config.growth.birth == "stretches"
    trainer = Trainer(method.model, method.guide, data, TrainConfig(epochs=2, progress=False, device="cpu"))
    trainer.run()
    before = [p.detach().clone() for p in method.model.parameters()]

    def best():
        with torch.no_grad():
            return float(method.model.policy(data.states).component_log_prob(data.actions).amax(-1)[data.mask].mean())

    explained = best()
    modules, weights = [method.model, method.guide], method.guide.weights.mean_log_weights().detach()
    grow(modules, 4)
    usage = Usage(torch.ones(2) / 2, torch.ones(2) / 2, 100)
    parts = {"log_weights": weights, "model": collapse(method.model), "data": data, "index": range(2, 6)}
    StretchBirth()(Newborns(modules, usage, "actions", **parts))
    for old, new in zip(before, method.model.parameters()):
        assert torch.equal(old, new[:2]) if new.shape != old.shape else torch.equal(old, new)
    assert method.model.num_options == 6 and best() > explained + 0.3
    assert float(method.guide.weights.mean_log_weights().detach().exp()[2:].sum()) == pytest.approx(0.5, abs=0.05)


def test_a_given_birth_is_kept():
    data = synthetic_options(3, 20, (20, 40), num_actions=None, seed=1).trajectories
    assert build("options-exact", data, birth="halve").config.growth.birth == "halve"
    discrete = synthetic_options(3, 20, (20, 40), num_actions=4, seed=1).trajectories
    assert build("options-exact", discrete).config.growth.birth == "halve"
