"""Whole trainings on a device that is not the CPU: no stray tensors, few launches, no syncs in a step, resumption."""

import math

import pytest
import torch
from support import pretend_device
from support.episodes import make_episodes
from support.methods import required_settings

from pyro_options.data import Trajectories
from pyro_options.discovery import METHODS, build
from pyro_options.errors import NumericalError
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.persistence import Checkpoint

pytest.importorskip("numba")
DEVICE = pretend_device.register()


def make_trainer(name, num_steps=5, num_episodes=16, checkpoint=None, config=None, **settings):
    torch.manual_seed(0)
    data, held_out = make_episodes(num_episodes, num_steps).split(0.25)
    method = build(name, data, **required_settings(name), **settings)
    given = {"epochs": 2, "batch_size": 6, "progress": False, "device": DEVICE} | (config or {})
    growth = method.growth
    if growth is not None:
        growth.every = 3
    return Trainer(method.model, method.guide, data, TrainConfig(**given), growth, held_out, checkpoint)


def state(trainer):
    return [p.detach().cpu() for p in trainer.parameters()]


def launches_of_a_step(name, num_steps):
    torch.manual_seed(0)
    data = Trajectories(torch.randn(12, num_steps, 3), torch.randint(4, (12, num_steps)), num_actions=4)
    method = build(name, data, num_options=7)
    config = TrainConfig(batch_size=6, progress=False, device=DEVICE)
    trainer = Trainer(method.model, method.guide, data, config)
    trainer.run(1)
    (batch, *_), *_ = trainer.batches(trainer.data)
    with pretend_device.counting() as counts:
        trainer.deferred._launch(batch)
    assert not counts.num_syncs, counts.syncs
    return counts.num_launches


@pytest.mark.parametrize(("name", "most"), [("options-exact", 150), ("options", 250)])
def test_a_step_takes_few_launches_whatever_its_length(name, most):
    assert launches_of_a_step(name, 300) == launches_of_a_step(name, 1000) <= most


def test_an_epoch_waits_for_the_device_twice():
    """Once to read the objectives, once to check the parameters."""
    trainer = make_trainer("options-exact", num_options=3)
    trainer.run(1)  # Pyro validates the first step, which reads values
    with pretend_device.counting() as counts:
        trainer.run(1)
    assert counts.num_syncs == 2, counts.syncs


SIZES = [("trial", None), *(("evidence", K) for K in range(1, 9))]


@pytest.mark.parametrize(
    ("rule", "size"), [one if one[1] in (None, 1, 7) else pytest.param(*one, marks=pytest.mark.slow) for one in SIZES]
)
def test_a_growth_check_takes_few_launches(rule, size):
    settings = {"rule": rule} if size is None else {"rule": rule, "initial_options": size}
    trainer = make_trainer("options-exact", 300, 40, config={"batch_size": 16}, **settings)
    trainer.run(1)
    assert size is None or trainer.model.num_options == size
    with pretend_device.counting() as counts:
        assert trainer.observe_and_grow().moves
    assert counts.num_launches <= 5000


FAST = ("options-exact", "options")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
)
def test_every_method_trains_grows_and_resumes_on_the_device(name, tmp_path):
    whole = make_trainer(name)
    whole.run(1), whole.run()
    assert all(p.device.type == DEVICE for p in whole.parameters())
    path = tmp_path / "checkpoint"
    make_trainer(name, checkpoint=Checkpoint(path, every_steps=1)).run(1)
    resumed = make_trainer(name, checkpoint=Checkpoint(path, resume=True))
    assert resumed.epoch == 1
    resumed.run()
    assert resumed.history.num_options == whole.history.num_options
    assert all(torch.equal(a, b) for a, b in zip(state(whole), state(resumed), strict=True))


def test_results_do_not_depend_on_how_often_values_are_read():
    now = make_trainer("options-paper", config={"check_every": 1})
    now.run()
    later = make_trainer("options-paper", config={"check_every": 5})
    later.run()
    assert now.history.objective == pytest.approx(later.history.objective, rel=1e-6)
    for a, b in zip(state(now), state(later), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)  # norms are summed in other precisions


def spoil(trainer, at_step):
    """Makes the loss of one step infinite, as often as it is taken."""
    compute = trainer._loss_and_grads

    def spoiled(batch):
        loss = compute(batch)
        return loss + math.inf if trainer.num_steps == at_step else loss

    trainer._loss_and_grads = spoiled


@pytest.mark.parametrize("every", [1, 2, 32])
def test_a_failed_step_is_skipped_however_late_it_is_noticed(every):
    trainer = make_trainer("options-exact", config={"check_every": every, "on_nonfinite": "skip"}, num_options=3)
    compute = trainer._loss_and_grads

    def spoiled(batch):
        return compute(batch) + (math.inf if (trainer.epoch, trainer.batch) == (1, 0) else 0.0)

    trainer._loss_and_grads = spoiled
    trainer.run()
    assert trainer.history.skipped_steps == [2]  # two batches an epoch
    assert trainer.num_steps == 3 and all(p.isfinite().all() for p in state(trainer))


@pytest.mark.parametrize("every", [1, 32])
def test_the_debug_checkpoint_has_the_random_state_of_the_device_before_the_failed_step(every, tmp_path):
    path, config = tmp_path / "checkpoint", {"check_every": every}
    failing = make_trainer("options-paper", checkpoint=Checkpoint(path), config=config, num_options=3)
    spoil(failing, at_step=2)
    with pytest.raises(NumericalError, match="step 2"):
        failing.run()
    again = make_trainer(
        "options-paper", checkpoint=Checkpoint(f"{path}.debug", resume=True), config=config, num_options=3
    )
    draw = torch.rand(3, device=DEVICE).cpu()
    clean = make_trainer("options-paper", config=config, num_options=3)
    clean.run(1)
    assert (again.num_steps, again.batch) == (clean.num_steps, clean.batch) == (2, 0)
    assert torch.equal(draw, torch.rand(3, device=DEVICE).cpu())


def test_a_stray_tensor_of_the_cpu_is_noticed():
    there = torch.zeros(3, device=DEVICE)
    with pytest.raises(pretend_device.StrayTensor):
        there + torch.zeros(3)
    assert (there + torch.tensor(1.0)).sum().item() == 3  # numbers may mix, as on CUDA
