"""Of several restarts the best continues: by its training ELBO, or by exact likelihood if the objective is no bound."""

import pytest
import torch
from support.episodes import make_episodes
from support.small_trainings import Killed

from pyro_options.discovery import build, discover
from pyro_options.infer import TrainConfig, Trainer, best_start, restart_seed, set_seed
from pyro_options.infer.restarts import CLEAR, clearly_better, exact_log_likelihood, mean_objective, score
from pyro_options.persistence import Checkpoint
from pyro_options.skills import to_skills

DATA = make_episodes(24)
QUICK = {"num_options": 3, "epochs": 10, "batch_size": 8, "progress": False, "device": "cpu"}


def begin(number, made=None, method="ddo"):
    set_seed(number)
    parts = build(method, DATA, num_options=3, hidden=())
    config = TrainConfig(epochs=4, batch_size=8, learning_rate=0.05, progress=False, device="cpu")
    trainer = Trainer(parts.model, parts.guide, DATA, config)
    if made is not None:
        made.append(trainer)
    return trainer


def test_the_start_with_the_best_elbo_continues():
    made = []
    best = best_start(lambda number: begin(number, made), 5, epochs=2)
    bounds = [mean_objective(trainer) for trainer in made]
    assert len(set(bounds)) == 5 and bounds.index(max(bounds)) > 0  # the first would be no choice
    assert best is made[bounds.index(max(bounds))]
    assert best.epoch == 2 and len(best.run().elbo) == 4
    assert mean_objective(best) == best.history.objective[-1]


def test_a_start_of_another_kind_must_be_clearly_better():
    """By held-out episodes, whose paired differences are those of the skills; without any, by those trained on."""
    judge = DATA.split(0.3)[1]
    better, worse = begin(0), begin(0)
    better.run(4)
    for trainer in (better, worse):
        trainer.held_out = judge
    first, second = (to_skills(one.model, one.guide).episode_log_likelihoods(judge) for one in (better, worse))
    gain = first - second
    assert float(gain.sum()) > CLEAR * float(gain.std()) * len(gain) ** 0.5
    assert clearly_better(better, worse) and not clearly_better(worse, better) and not clearly_better(worse, worse)
    with torch.no_grad():  # better on average, but not by more than chance
        better.model.policy.heads.weight.lerp_(worse.model.policy.heads.weight, 0.999)
        better.model.policy.heads.weight.add_(0.05 * torch.randn_like(worse.model.policy.heads.weight))
    noise = [one.growth_checks.scores(judge).double() for one in (better, worse)]
    difference = noise[0] - noise[1]
    within = abs(float(difference.sum())) <= CLEAR * float(difference.std()) * len(difference) ** 0.5
    assert within and not clearly_better(better, worse) and not clearly_better(worse, better)
    for trainer, scores in ((better, [-1.0, -2.0, -3.0]), (worse, [-2.0, -3.1, -4.0])):
        trainer.history.judge_scores = scores  # before the final phase
    assert clearly_better(better, worse) and not clearly_better(worse, better)
    for trainer in (better, worse):
        trainer.held_out, trainer.history.judge_scores = None, []
    assert not clearly_better(worse, worse)


def test_a_relaxed_objective_does_not_rank_starts():
    made = []
    best = best_start(lambda number: begin(number, made, "options-paper"), 5, epochs=2)
    scores = [score(trainer) for trainer in made]
    assert not best.history.objective_is_bound
    assert best is made[scores.index(max(scores))] and scores == [exact_log_likelihood(trainer) for trainer in made]
    made[0].history.objective[:] = [1e6] * 2
    assert score(made[0]) == scores[0]
    skills = to_skills(made[0].model, made[0].guide)
    assert scores[0] / (DATA.num_steps / len(DATA)) == pytest.approx(skills.log_likelihood(DATA), rel=1e-5)
    with pytest.raises(ValueError, match="a guide whose objective is a lower bound"):
        print(best.history.elbo)


def test_a_start_is_judged_by_the_last_quarter_of_its_epochs():
    trainer = begin(0)
    trainer.history.objective[:] = [-100.0] * 6 + [-4.0, -2.0]
    assert mean_objective(trainer) == -3.0


def test_a_single_start_is_not_trained_ahead():
    trainer = best_start(begin, 1, epochs=2)
    assert trainer.epoch == 0
    for restarts, epochs in ((0, 2), (2, 0)):
        with pytest.raises(ValueError, match=">= 1"):
            best_start(begin, restarts, epochs)


def test_every_start_has_a_seed_of_its_own():
    seeds = [restart_seed(seed, number) for seed in (0, 1) for number in range(4)]
    assert seeds[0] == 0 and seeds[4] == 1 and len(set(seeds)) == 8


def test_discover_takes_the_best_and_is_repeatable():
    one, many, again = (discover(DATA, "ddo", restarts=n, **QUICK) for n in (1, 4, 4))
    assert torch.equal(many.policy.heads.weight, again.policy.heads.weight)
    assert len(many.metadata["history"]["objective"]) == 10 and many.metadata["restarts"] == 4
    assert many.metadata["history"]["objective"][1] > one.metadata["history"]["objective"][1]
    with pytest.raises(ValueError, match="restarts >= 1"):
        discover(DATA, restarts=0, **QUICK)


@pytest.mark.parametrize("steps", [4, 15])  # while several begin; while the best goes on
def test_training_with_restarts_resumes_to_the_same_bits(steps, tmp_path, monkeypatch):
    expected = discover(DATA, "ddo", restarts=3, **QUICK)
    take, taken = Trainer.step, []

    def step(trainer, batch):
        if len(taken) == 3 * 6 * (steps > 6) + steps:
            raise Killed
        taken.append(trainer)
        return take(trainer, batch)

    kept = Checkpoint(tmp_path / "run.safetensors", every_steps=1)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Trainer, "step", step)
        discover(DATA, "ddo", restarts=3, checkpoint=kept, **QUICK)
    assert (tmp_path / "run.safetensors").exists() == (steps > 6)
    resumed = discover(DATA, "ddo", restarts=3, checkpoint=kept, resume=True, **QUICK)
    assert torch.equal(resumed.policy.heads.weight, expected.policy.heads.weight)
    assert resumed.metadata["history"]["objective"] == expected.metadata["history"]["objective"]
    with pytest.raises(ValueError, match="about restarts"):
        discover(DATA, "ddo", restarts=2, checkpoint=kept, resume=True, **QUICK)
