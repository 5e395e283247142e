"""Steps that are recorded and replayed: padding, operations that never change, and recordings on a pretend device."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from support import pretend_device
from support.episodes import make_episodes
from support.methods import FIXED_K, SINGLE_OPTION, UNTRAINED

from pyro_options.data import Trajectories
from pyro_options.discovery import METHODS, build, discover
from pyro_options.errors import InputError
from pyro_options.infer import Exponential, TrainConfig, Trainer
from pyro_options.infer.device import RandomState
from pyro_options.infer.step_graph import GRAPHS, WARM_UP

pytest.importorskip("numba")
DEVICE = pretend_device.register()
TRAINED = [name for name in METHODS if name not in UNTRAINED]
#: all that changes from epoch to epoch
ANNEALED = {
    "temperature": Exponential(1.0, 0.7),
    "entropy_weight": Exponential(0.5, 0.8),
    "final_phase": 0.5,
    "even_phase": 0.25,
}


@pytest.fixture
def graphs(monkeypatch):
    """Recordings on the pretend device."""
    found = pretend_device.PretendGraphs()
    monkeypatch.setitem(GRAPHS, DEVICE, found)
    return found


@pytest.fixture
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def same_noise(monkeypatch):
    """Draws for 11 episodes are the first of those for 13."""
    draw = torch.rand

    def first_rows(shape, **kwargs):
        if 11 not in shape:
            return draw(shape, **kwargs)
        axis = shape.index(11)
        return draw((*shape[:axis], 13, *shape[axis + 1 :]), **kwargs).narrow(axis, 0, 11)

    monkeypatch.setattr(torch, "rand", first_rows)


def make_trainer(name="options-exact", grows=False, device=DEVICE, num_episodes=16, **config):
    """By default 12 episodes in batches of 8: the last batch of an epoch has 4."""
    torch.manual_seed(0)
    data, held_out = make_episodes(num_episodes, 5).split(0.25)
    fixed = name not in SINGLE_OPTION and (name in FIXED_K or not grows)
    method = build(name, data, **{"num_options": 3} if fixed else {})
    given = {"epochs": 4, "batch_size": 8, "progress": False, "device": device, "cuda_graph": True} | config
    if method.growth is not None:
        method.growth.every = 8
    return Trainer(method.model, method.guide, data, TrainConfig(**given), method.growth, held_out)


def trained(*args, run=None, **settings):
    """After ``run`` epochs, by default all."""
    trainer = make_trainer(*args, **settings)
    trainer.run(run)
    return trainer


def state(trainer):
    return [p.detach().cpu() for p in trainer.parameters()]


def assert_same(one, other):
    assert one.history.num_options == other.history.num_options
    assert one.history.objective == pytest.approx(other.history.objective, rel=1e-5)
    for a, b in zip(state(one), state(other), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def loss_and_gradients(trainer, batch, weights):
    trainer.row_weights = weights
    trainer.optimizer.zero_grad()
    torch.manual_seed(1)
    loss = trainer._loss_and_grads(batch)
    trainer.row_weights = None
    return loss, torch.tensor(trainer.entropy.bonus), *(p.grad for p in trainer.parameters())


@pytest.mark.parametrize("per", ["batch", "trajectory"])
@pytest.mark.parametrize("name", TRAINED)
def test_a_padded_batch_has_the_loss_and_gradients_of_its_episodes(name, per, double_precision, same_noise):
    sizes = {"num_episodes": 32, "batch_size": 13}
    trainer = make_trainer(name, device="cpu", cuda_graph=False, entropy_per=per, **sizes)
    trainer.entropy.weight = 0.5
    *_, (plain, *_) = trainer.batches(trainer.data)
    *_, (padded, *_) = trainer.batches(trainer.data, padded=True)
    assert (len(plain), len(padded)) == (11, 13)
    weights, trainer.row_weights = trainer.row_weights, None
    expected = loss_and_gradients(trainer, plain, None)
    found = loss_and_gradients(trainer, padded, weights)
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None
        else:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", TRAINED)
def test_a_step_neither_waits_nor_depends_on_what_changes_between_epochs(name, graphs):
    """The same operations in the same order, whatever the temperature, the entropy weight and the rates."""
    trainer = make_trainer(name, **ANNEALED)
    orders = []
    for _ in range(2):
        trainer.run(1)
        (batch, *_), *_ = trainer.batches(trainer.data, padded=True)
        before = torch.get_rng_state()
        with pretend_device.counting() as counts:
            trainer.deferred._launch(batch)
        trainer.row_weights = None
        assert not counts.num_syncs and not counts.num_uploads, (counts.syncs, counts.uploads)
        assert torch.equal(before, torch.get_rng_state())  # a recording could not draw on the CPU
        orders.append(counts.order)
    assert orders[0] == orders[1]


@pytest.mark.parametrize("name", ["options-exact", "options", "options-sticky", "options-paper"])
def test_training_with_recorded_steps_is_training(name, graphs):
    whole = {"num_episodes": 32} if name in ("options", "options-paper") else {}  # padding would draw, too
    recorded, plain = (trained(name, cuda_graph=given, **whole, **ANNEALED) for given in (True, False))
    assert_same(recorded, plain)
    assert recorded.deferred.graph.num_recordings == len(graphs.lengths) == 1


def test_a_training_that_grows_records_once_for_each_number_of_options(graphs):
    recorded, plain = (trained(grows=True, cuda_graph=given, epochs=16) for given in (True, False))
    assert_same(recorded, plain)
    steps = [size for size in recorded.history.num_options for _ in range(2)]  # two in each epoch
    runs = [len(list(run)) for _, run in itertools.groupby(steps)]
    expected = sum(run > 1 + WARM_UP for run in runs)  # the first step of each is validated
    assert expected > 1 and recorded.deferred.graph.num_recordings == len(graphs.lengths) == expected


def test_a_replayed_step_takes_a_handful_of_launches(graphs):
    epochs = []
    for num_episodes in (16, 32):  # two steps and three
        trainer = trained(num_episodes=num_episodes, run=1 + WARM_UP)
        with pretend_device.counting() as counts:
            trainer.run(1)
        assert counts.launches["graph"] == num_episodes // 16 + 1 and counts.num_syncs == 2
        epochs.append(counts.num_launches)
    assert epochs[1] - epochs[0] <= 12


def test_restored_parameters_are_recorded_again(graphs):
    plain = trained(cuda_graph=False, run=3)
    plain.run(3)
    recorded = trained(run=3)
    recorded.restore_parameters(*recorded.capture())
    recorded.run(3)
    assert recorded.deferred.graph.num_recordings == 2
    assert_same(recorded, plain)


def test_a_failed_step_is_skipped_when_it_was_replayed(graphs):
    both = []
    for given in (True, False):
        both.append(trained(cuda_graph=given, on_nonfinite="skip", run=3))
        both[-1].data.state_steps.values[0] = torch.inf
        both[-1].run(2)
    recorded, plain = both
    assert recorded.history.skipped_steps and recorded.history.skipped_steps == plain.history.skipped_steps
    assert_same(recorded, plain)
    recorded.data.state_steps.values[0] = 0.0
    with pretend_device.counting() as counts:
        recorded.run(1)
    assert counts.launches["graph"] == counts.num_syncs == 2  # no step is taken again


def test_a_copy_of_a_training_records_its_own_steps(graphs):
    trainer = trained(run=3)
    before, random = state(trainer), RandomState.of(trainer.device)
    twin = trainer.fork()
    twin.run(3)
    assert all(map(torch.equal, before, state(trainer)))
    random.set(trainer.device)
    trainer.run(3)
    assert twin.deferred.graph.num_recordings == trainer.deferred.graph.num_recordings == 1
    assert_same(twin, trainer)


def test_it_is_refused_where_steps_cannot_be_recorded(graphs):
    with pytest.raises(InputError, match=r"a CUDA device for cuda_graph but got 'cpu'"):
        make_trainer(device="cpu")
    data = Trajectories.from_episodes([(torch.randn(n, 3), torch.arange(n) % 4) for n in [2] * 400 + [900]])
    method = build("options-exact", data, num_options=2)
    with pytest.raises(InputError, match="episodes of similar length for cuda_graph"):
        Trainer(method.model, method.guide, data, TrainConfig(device=DEVICE, cuda_graph=True))


def test_several_processes_are_refused(graphs):
    trainer = make_trainer()
    trainer.workers = SimpleNamespace(size=2)
    with pytest.raises(InputError, match="one process for cuda_graph but got 2"):
        trainer.deferred.graph.check()


def test_discover_passes_it_on(graphs):
    settings = {"num_options": 2, "epochs": 4, "restarts": 1, "batch_size": 8, "progress": False, "trust": False}
    with pytest.raises(InputError, match="a CUDA device for cuda_graph"):
        discover(make_episodes(16), device="cpu", cuda_graph=True, **settings)
    skills = discover(make_episodes(16), device=DEVICE, cuda_graph=True, **settings)
    assert skills.metadata["train"]["cuda_graph"] and len(graphs.lengths) >= 1


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["options-exact", "options", "options-sticky", "options-paper"])
def test_a_cuda_graph_trains_like_plain_steps(name):
    whole = {"num_episodes": 32} if name in ("options", "options-paper") else {}
    recorded, plain = (trained(name, device="cuda", cuda_graph=given, **whole, **ANNEALED) for given in (True, False))
    assert recorded.deferred.graph.num_recordings == 1
    assert recorded.history.objective == pytest.approx(plain.history.objective, rel=1e-3)
