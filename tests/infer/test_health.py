"""Non-finite numbers are detected, located and handled; extreme but legal input trains."""

import logging
import math
import time

import pytest
import torch
from support import small_trainings
from support.small_trainings import DATA

from pyro_options.data import Trajectories
from pyro_options.discovery import METHODS, discover
from pyro_options.errors import NumericalError, PyroOptionsError
from pyro_options.infer import TrainConfig
from pyro_options.infer.health import total_norm
from pyro_options.persistence import Checkpoint


def make_trainer(name="options-exact", on_nonfinite="stop", checkpoint=None, epochs=2):
    """Three steps an epoch, with two options."""
    settings = {"hidden": (), "num_options": 2}
    return small_trainings.make_trainer(
        name, checkpoint, epochs=epochs, batch_size=8, method=settings, on_nonfinite=on_nonfinite
    )


def spoil(trainer, at, what):
    """Lets ``what`` happen to the gradients of one step."""
    compute = trainer._loss_and_grads

    def spoiled(batch):
        loss = compute(batch)
        if (trainer.epoch, trainer.batch) == at:
            return what(loss)
        return loss

    trainer._loss_and_grads = spoiled


def bad_gradient(trainer):
    def happen(loss):
        trainer.model.policy.heads.bias.grad[0] = math.inf
        return loss

    return happen


def test_a_bad_parameter_is_named_with_site_step_and_batch():
    trainer = make_trainer()
    with torch.no_grad():
        trainer.model.policy.heads.bias.fill_(math.nan)
    with pytest.raises(NumericalError, match=r"site 'actions', parameter model.policy.heads.bias") as caught:
        trainer.run()
    assert caught.value.where == "site 'actions'" and caught.value.step == 0
    assert isinstance(caught.value, FloatingPointError) and isinstance(caught.value, PyroOptionsError)
    assert "Lower the learning rate" in str(caught.value)


@pytest.mark.parametrize("name", ["options-paper", "options-score-function", "ddo"])
def test_nan_parameters_are_detected_with_every_guide_and_in_later_epochs(name):
    trainer = make_trainer(name)
    trainer.run(1)
    with torch.no_grad():
        trainer.model.termination.heads.weight[0] = math.nan
    with pytest.raises(NumericalError, match=r"step 3 \(epoch 1, batch 0\).*model.termination.heads.weight"):
        trainer.run(1)


def test_a_bad_gradient_of_a_finite_loss_stops_the_run_before_it_does_harm(tmp_path):
    path = tmp_path / "run.safetensors"
    trainer = make_trainer(checkpoint=path)
    spoil(trainer, (1, 1), bad_gradient(trainer))
    with pytest.raises(NumericalError, match=r"gradient inf|norm of its gradient inf") as caught:
        trainer.run()
    assert caught.value.where == "gradient of model.policy.heads.bias"
    assert (caught.value.step, caught.value.epoch, caught.value.batch) == (4, 1, 1)
    assert all(p.isfinite().all() for p in trainer.parameters())
    debug = path.with_name("run.safetensors.debug")
    assert str(debug) in str(caught.value)
    again = make_trainer(checkpoint=Checkpoint(debug, resume=True))
    assert (again.num_steps, again.epoch, again.batch) == (4, 1, 1)
    spoil(again, (1, 1), bad_gradient(again))
    with pytest.raises(NumericalError, match=r"step 4 \(epoch 1, batch 1\)"):
        again.run()


def test_the_debug_checkpoint_repeats_a_first_step_to_the_bit(tmp_path):
    path = tmp_path / "run.safetensors"
    trainer, losses = make_trainer("options-paper", checkpoint=path), []

    def note(loss):
        losses.append(loss)
        return math.nan

    spoil(trainer, (0, 0), note)
    with pytest.raises(NumericalError, match="loss became nan"):
        trainer.run()
    again = make_trainer("options-paper", checkpoint=Checkpoint(f"{path}.debug", resume=True))
    spoil(again, (0, 0), note)
    with pytest.raises(NumericalError):
        again.run()
    assert losses[0] == losses[1]


def test_skip_leaves_out_the_bad_step(caplog):
    trainer = make_trainer(on_nonfinite="skip")
    spoil(trainer, (0, 1), bad_gradient(trainer))
    with caplog.at_level(logging.WARNING):
        history = trainer.run()
    assert history.skipped_steps == [1] and history.restored_steps == []
    assert trainer.num_steps == 5 and "skipped a step" in caplog.text
    assert all(p.isfinite().all() for p in trainer.parameters()) and all(map(math.isfinite, history.objective))


def test_skip_does_not_hide_broken_parameters():
    trainer = make_trainer(on_nonfinite="skip")
    trainer.run(1)
    with torch.no_grad():
        trainer.model.policy.heads.bias.fill_(math.nan)
    with pytest.raises(NumericalError, match=r"parameter model.policy.heads.bias"):
        trainer.run(1)


def test_restore_goes_back_to_the_parameters_of_the_last_epoch(caplog):
    trainer = make_trainer(on_nonfinite="restore", epochs=3)
    seen = {}

    def break_parameters(loss):
        with torch.no_grad():
            trainer.model.policy.heads.bias.fill_(math.nan)
        return math.nan

    remember = trainer.health.remember

    def noting():
        seen[trainer.epoch] = trainer.model.policy.heads.bias.detach().clone()
        remember()

    trainer.health.remember = noting
    spoil(trainer, (1, 2), break_parameters)
    with caplog.at_level(logging.WARNING):
        history = trainer.run()
    assert history.restored_steps == [5] and history.skipped_steps == []
    assert torch.equal(seen[2], seen[1]) and not torch.equal(seen[1], seen[0])
    assert "restored the parameters" in caplog.text and all(p.isfinite().all() for p in trainer.parameters())


@pytest.mark.parametrize("policy", ["skip", "restore"])
def test_an_epoch_without_a_single_good_step_is_an_error(policy):
    trainer = make_trainer(on_nonfinite=policy)
    trainer._loss_and_grads = lambda batch: math.nan
    with pytest.raises(NumericalError, match="No step of an epoch"):
        trainer.run()


def test_parameters_that_an_update_broke_are_never_saved(tmp_path):
    path = tmp_path / "run.safetensors"
    trainer = make_trainer(checkpoint=Checkpoint(path, every_steps=1))
    update = trainer.optimizer.step

    def breaking():
        update()
        if trainer.num_steps == 3:
            with torch.no_grad():
                trainer.guide.weights.log_a.fill_(math.inf)

    trainer.optimizer.step = breaking
    with pytest.raises(NumericalError, match=r"guide\.weights\.log_a"):
        trainer.run()
    resumed = make_trainer(checkpoint=Checkpoint(path, resume=True))
    assert resumed.num_steps == 3 and all(p.isfinite().all() for p in resumed.parameters())


@pytest.mark.parametrize("policy", ["stop", "restore"])
def test_growth_that_breaks_numbers_is_noticed(policy):
    class Poison:
        def __call__(self, newborns):
            with torch.no_grad():
                newborns.modules[0].policy.heads.bias[-1] = math.nan

    trainer = small_trainings.make_trainer(
        epochs=3, batch_size=8, method={"hidden": (), "check_every": 1}, on_nonfinite=policy
    )
    trainer.growth.birth = Poison()
    if policy == "stop":
        with pytest.raises(NumericalError, match=r"Growth failed .*parameter model.policy.heads.bias"):
            trainer.run()
    else:
        assert trainer.run().restored_steps and trainer.model.num_options == 1
        assert not trainer.history.growth_epochs and not any(event.moves for event in trainer.growth.history)
        assert all(p.isfinite().all() for p in trainer.parameters())


def test_an_error_in_the_model_is_reported_as_a_numerical_error():
    trainer = make_trainer()

    def impossible(batch):
        raise ValueError("no such number")

    trainer._loss_and_grads, trainer.temper = impossible, lambda guide: impossible
    with pytest.raises(NumericalError, match="no such number"):
        trainer.run()


def test_other_errors_are_passed_on():
    trainer = make_trainer()

    def fail(batch):
        raise ValueError("something else")

    trainer._loss_and_grads = fail
    with pytest.raises(ValueError, match=r"^something else$"):
        trainer.run()


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="on_nonfinite to be one of restore, skip, stop"):
        TrainConfig(on_nonfinite="hope")


def extreme():
    """Legal, and on the edge."""
    states, zeros = torch.randn(8, 4, 3), torch.zeros(8, 4, dtype=torch.long)
    actions = torch.arange(32).reshape(8, 4) % 3
    return {
        "one-step episodes": Trajectories(states[:, :1], actions[:, :1]),
        "one action": Trajectories(states, zeros),
        "one number a state": Trajectories(states[..., :1], actions),
        "one state": Trajectories(states[:1, :1].expand(8, 4, 3).clone(), actions),
        "one episode": Trajectories(states[:1], actions[:1]),
        "identical episodes": Trajectories(states[:1].expand(8, 4, 3).clone(), actions[:1].expand(8, 4).clone()),
        "all-zero states": Trajectories(torch.zeros(8, 4, 3), actions),
        "unused actions": Trajectories(states, actions, num_actions=50),
        "huge states": Trajectories(states * 1e18, actions),
        "tiny states": Trajectories(states * 1e-30, actions),
        "constant continuous actions": Trajectories(states, torch.zeros(8, 4, 2)),
        "double precision": Trajectories(states.double(), torch.randn(8, 4, 1).double()),
        "half precision": Trajectories(states.half(), actions),
    }


@pytest.mark.parametrize("method", ["options-exact", "options-paper", "bc"])
@pytest.mark.parametrize("kind", extreme())
def test_extreme_but_legal_input_trains(kind, method):
    torch.manual_seed(0)
    data = extreme()[kind]
    skills = discover(data, method, epochs=4, batch_size=3, progress=False, device="cpu")
    assert skills.num_options >= 1 and math.isfinite(skills.metadata["log_likelihood"]["train"])
    assert all(p.isfinite().all() for p in skills.policy.parameters())


@pytest.mark.parametrize("method", [name for name in METHODS if name != "bc"])
def test_every_method_trains_with_a_single_option(method):
    skills = discover(DATA, method, num_options=1, epochs=2, batch_size=8, progress=False, device="cpu")
    assert skills.num_options == 1


def test_the_norm_of_huge_gradients_does_not_overflow():
    huge = [torch.full((3,), 3e25), torch.full((2, 2), -4e30)]
    expected = torch.cat([part.double().flatten() for part in huge]).norm()
    torch.testing.assert_close(total_norm(huge), expected, rtol=1e-6, atol=0)
    assert total_norm([torch.tensor([1.0, torch.inf])]).isinf()
    assert total_norm([torch.tensor([1.0, torch.nan])]).isnan()
    assert total_norm([torch.tensor([3.0]), torch.tensor([4.0])]) == 5


def train_on_one_episode(num_steps):
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(1, num_steps, 2, generator=generator)
    data = Trajectories(states, (states[..., 0] > 0).long())
    return discover(data, epochs=2, num_options=2, progress=False, device="cpu")


def test_an_episode_of_a_hundred_thousand_steps_trains():
    assert math.isfinite(train_on_one_episode(100_000).metadata["log_likelihood"]["train"])


@pytest.mark.benchmark
def test_time_is_in_proportion_to_the_length_of_an_episode():
    seconds = []
    for num_steps in (100, 10_000, 100_000):  # the first compiles
        start = time.process_time()
        train_on_one_episode(num_steps)
        seconds.append(time.process_time() - start)
    assert seconds[2] < 30 * seconds[1]  # what is quadratic takes a hundred times as long
