"""Removals after a trial: what others learn to replace goes, what they cannot replace stays, nothing else changes."""

from dataclasses import replace

import pytest
import torch
from support.growth_checks import assert_identical, copied_tensors

from pyro_options.data import Trajectories
from pyro_options.discovery import build
from pyro_options.growth import Usage, Verdict
from pyro_options.growth.events import GrowthEvent, Move
from pyro_options.infer import TrainConfig, Trainer, set_seed
from pyro_options.infer.trial_removals import candidates, try_removals
from pyro_options.persistence import Checkpoint


def one_policy(num_episodes: int, lag: int) -> Trajectories:
    """Actions that follow the sign of the state, or, for a while, the opposite.

    :param lag: steps after which the opposite begins
    """
    states = torch.randn(num_episodes, 20, 1)
    actions = ((states[..., 0] > 0) == (torch.arange(20) < lag)).long()
    return Trajectories(states, actions, num_actions=2)


def make_trainer(lag: int, weights: list[float], biases: list[float]) -> Trainer:
    """Two options with given logits of the second action, that of the first being zero."""
    set_seed(0)
    data, held_out = one_policy(48, lag), one_policy(8, lag)
    method = build("options-exact", data, initial_options=2, rule="trial", removals=("prune",), check_every=1000)
    config = TrainConfig(epochs=30, batch_size=8, learning_rate=0.1, progress=False, device="cpu")
    trainer = Trainer(method.model, method.guide, data, config, method.growth, held_out=held_out)
    with torch.no_grad():
        heads = method.model.policy.heads
        heads.weight.zero_(), heads.bias.zero_()
        heads.weight[:, 1, 0], heads.bias[:, 1] = torch.tensor(weights), torch.tensor(biases)
    trainer.epoch = 20
    return trainer


def test_an_option_goes_that_the_other_one_learns_to_replace():
    """Each option knows one action; a single policy that knows when to choose which is better than both."""
    trainer = make_trainer(20, [0.0, 0.0], [1.0, -1.0])
    trainer.remove_unneeded()
    assert trainer.model.num_options == 2
    trainer.end_growth()
    assert trainer.model.num_options == 1 == trainer.guide.weights.num_components
    last = [event for event in trainer.growth.history if event.num_removed][-1]
    assert last.moves[-1].verdict.gain >= -3
    assert len(trainer.history.removal_epochs) == 1
    assert float(trainer.growth_checks.scores(trainer.held_out).mean()) > -0.5 * 20
    trainer.run(2)  # the optimizer's state has the shape of the parameters
    assert trainer.epoch == 22


def test_an_option_that_no_other_can_replace_stays_and_nothing_has_changed():
    """The second policy is the opposite of the first. It is used in two steps of twenty."""
    trainer = make_trainer(18, [3.0, -3.0], [0.0, 0.0])
    trainer.remove_unneeded()
    before = copied_tensors(trainer.model, trainer.guide, optimizer=trainer.optimizer)
    tried = len(trainer.growth.history)
    try_removals(trainer)
    assert trainer.model.num_options == 2 and trainer.epoch == 20 and trainer.num_steps == 0
    assert_identical(before, copied_tensors(trainer.model, trainer.guide, optimizer=trainer.optimizer))
    moves = [move for event in trainer.growth.history[tried:] for move in event.moves]
    assert moves and not any(move.verdict.accepted for move in moves) and max(m.verdict.gain for m in moves) < -3


def test_trials_need_held_out_rows_and_a_rule_to_prune_by():
    for name, value in (("held_out", None), ("growth", None)):
        other = make_trainer(20, [0.0, 0.0], [1.0, -1.0])
        setattr(other, name, value)
        try_removals(other)
        assert other.model.num_options == 2


def event(gains: dict[int, float], costs: torch.Tensor) -> GrowthEvent:
    moves = [Move("prune", (component,), Verdict(False, gain)) for component, gain in gains.items()]
    share = torch.full((len(costs),), 1 / len(costs))
    return GrowthEvent(0, Usage(share, share, 100, -costs), tuple(moves))


def test_what_is_tried_first():
    far = torch.full((8, 8), 9.0).fill_diagonal_(0.0)
    far[0, 1] = far[1, 0] = 0.1  # two halves of one
    far[2, 3] = 0.2
    far[4, 5] = 0.3
    assert candidates(event({0: -10.0, 1: -4.0}, far)) == [[0, 2], [1], [0]]  # not 0 and 1: each replaces the other
    assert candidates(event({0: -10.0, 1: -1000.0}, far)) == [[0]]
    assert candidates(event({0: -1000.0}, far)) == candidates(event({}, far)) == []
    few = far[:3, :3]
    assert candidates(event({0: -10.0, 1: -4.0}, few)) == [[1], [0]]


@pytest.mark.parametrize("first", [10, 20])
def test_a_training_with_trials_resumes_where_it_was(tmp_path, first):
    """Growth ends after 21 of 30 epochs."""

    def trained(epochs=None, checkpoint=None):
        trainer = make_trainer(20, [0.0, 0.0], [1.0, -1.0])
        trainer.epoch, trainer.config = 0, replace(trainer.config, final_phase=0.3)
        trainer.save_to(checkpoint)
        trainer.run(epochs)
        return trainer

    whole = trained()
    trained(first, Checkpoint(tmp_path / "run"))
    again = trained(None, Checkpoint(tmp_path / "run", resume=True))
    assert again.epoch == 30 and whole.model.num_options == again.model.num_options == 1
    assert_identical(copied_tensors(whole.model, whole.guide), copied_tensors(again.model, again.guide))
