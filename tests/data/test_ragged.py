"""Ragged demonstrations cost what they hold, and give what padded ones give."""

import ctypes
import gc
import re
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from support.option_models import make_model
from torch.testing import assert_close

from pyro_options.data import Trajectories
from pyro_options.data.batching import bucketed
from pyro_options.data.steps import FlatSteps, PaddedSteps
from pyro_options.discovery import Budget, build, discover, resolved_families
from pyro_options.discovery.budget import state_inputs
from pyro_options.growth import DataBirth, EvidenceRule, Prune
from pyro_options.guides import Exact, weights_guide
from pyro_options.handlers import GrowthMessenger
from pyro_options.infer import TrainConfig, Trainer, component_counts
from pyro_options.persistence.checkpoint import fingerprint
from pyro_options.skills import to_skills

LENGTHS = [2000] + [9, 17, 30, 11, 24, 5, 50, 26, 13, 40] * 4


def make_arrays(lengths=LENGTHS, continuous=False, seed=0):
    """Flat states and actions of two alternating policies."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(sum(lengths), 3, generator=generator)
    chosen = states[:, 0] > 0
    if continuous:
        return states, torch.stack([chosen.float(), states[:, 1]], -1)
    return states, (2 * (torch.arange(len(states)) // 10 % 2) + chosen).long()


def make_ragged(continuous=False):
    return Trajectories.from_flat(*make_arrays(continuous=continuous), LENGTHS)


def as_padded(data):
    """The same episodes in a padded store, which is never treated as ragged."""
    return Trajectories(data.stored, data.actions, data.lengths, data.num_actions, packed=data.packed, validate=False)


def test_flat_episodes_are_read_like_padded_ones():
    states, actions = make_arrays()
    split = list(zip(states.split(LENGTHS), actions.split(LENGTHS)))
    data = Trajectories.from_episodes(split)
    padded = Trajectories(data.stored, data.actions, data.lengths)
    for one in (data, padded, make_ragged()):
        assert one.ragged and isinstance(one.state_steps, FlatSteps) and one.num_actions == 4
        assert one.states.shape == (41, 2000, 3) and int(one.mask.sum()) == one.num_steps == sum(LENGTHS)
        assert not one.stored[~one.mask].any()
        assert_close(one.states[one.mask], states, rtol=0, atol=0)
        assert torch.equal(one.actions[one.mask], actions)
        assert torch.equal(one.state_steps.episode(7), split[7][0])


@pytest.mark.parametrize("continuous", [False, True])
def test_selections_of_flat_episodes_equal_those_of_padded_ones(continuous):
    data = make_ragged(continuous)
    padded = as_padded(data)
    index = torch.tensor([3, 0, 40, 3])
    for change in (
        lambda one: one[index],
        lambda one: one[1:5],
        lambda one: one[[2, 1]],
        lambda one: one.cut(20),
        lambda one: one.split(0.3, seed=1)[1],
        lambda one: one.to(dtype=torch.float64),
        lambda one: one[index].cut(7).to(dtype=torch.float64),
    ):
        ours, theirs = change(data), change(padded)
        assert ours.states.dtype == theirs.states.dtype and len(ours) == len(theirs)
        assert torch.equal(ours.states, theirs.states) and torch.equal(ours.actions, theirs.actions)
        assert torch.equal(ours.mask, theirs.mask) and torch.equal(ours.steps(), theirs.steps())
        assert torch.equal(torch.cat(list(ours.state_steps.chunks(64))), theirs.states[theirs.mask])


def test_flat_files_are_read_back(tmp_path):
    data = make_ragged()
    data.save(tmp_path / "flat.npz")
    with np.load(tmp_path / "flat.npz") as file:
        assert file["states"].shape == (sum(LENGTHS), 3)
    again = Trajectories.load(tmp_path / "flat.npz")
    assert torch.equal(again.states, data.states) and torch.equal(again.actions, data.actions) and again.ragged
    part = data[5:].without_actions()
    part.save(tmp_path / "part.npz")
    assert torch.equal(Trajectories.load(tmp_path / "part.npz").states, part.cut(50).states)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(lengths=[*LENGTHS[:-1], 41]), "states of 2901 steps, the sum of the lengths, but got 2900"),
        (dict(lengths=[*LENGTHS, 0]), "got 0 at episode 41. Drop empty"),
        (dict(actions=torch.zeros(3).long()), "actions of 2900 steps"),
        (dict(actions=make_arrays()[1].index_fill(0, torch.tensor(2010), -1)), "got -1 at episode 2"),
        (dict(states=make_arrays()[0].index_fill(0, torch.tensor(1999), float("nan"))), "finite states .* episode 0"),
        (dict(states=make_arrays()[0].index_fill(0, torch.tensor(2000), float("inf"))), "finite states .* episode 1"),
        (dict(states=torch.zeros(2900)), r"states of shape \(N, T, D\)"),
        (dict(lengths=3), "the length of at least one episode"),
    ],
)
def test_bad_flat_data_are_refused_with_their_episode(change, message):
    states, actions = make_arrays()
    with pytest.raises(ValueError, match=message):
        Trajectories.from_flat(**({"states": states, "actions": actions, "lengths": LENGTHS} | change))


def test_batches_have_similar_lengths_and_every_episode_once():
    lengths = torch.tensor([20000] + [50] * 300 + list(range(40, 140)))
    plans = [bucketed(lengths, 4000, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    for batches in plans:
        assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
        padded = [len(batch) * int(lengths[batch].max()) for batch in batches]
        assert all(size <= 4000 for size, batch in zip(padded, batches) if len(batch) > 1)
        assert sum(padded) <= 1.5 * int(lengths.sum()) and len(batches) <= 2 + int(lengths.sum()) // 2000
    assert all(torch.equal(a, b) for a, b in zip(plans[0], plans[1]))
    assert sorted(map(len, plans[0])) == sorted(map(len, plans[2])) and len(plans[0][0]) != len(plans[2][0])
    first, other = ({frozenset(batch.tolist()) for batch in plan if 1 <= batch[0] <= 300} for plan in plans[1:])
    assert len(first) > 3 and not first & other


def test_neighbours_in_a_batch_are_drawn_anew():
    """Any two episodes of similar length meet about as often as any other two."""
    lengths, generator = torch.tensor([5000] + [50] * 12), torch.Generator().manual_seed(0)
    meetings = torch.zeros(12, 12)
    for _ in range(600):
        for batch in bucketed(lengths, 200, generator):
            hot = torch.zeros(13).index_fill(0, batch, 1.0)[1:]
            meetings += torch.outer(hot, hot)
    apart = meetings[~torch.eye(12, dtype=torch.bool)]
    assert (apart / 600 - 3 / 11).abs().max() < 0.09  # five standard deviations


def loss_of(trainer, batch):
    torch.manual_seed(3)
    trainer.optimizer.zero_grad(set_to_none=True)
    loss = float(trainer._loss_and_grads(batch.unpack()))
    return loss, [p.grad.clone() for p in trainer.parameters()]


@pytest.mark.parametrize("per", ["batch", None], ids=["entropy", "plain"])
def test_unequal_batches_give_the_gradient_of_the_whole(per):
    data = make_ragged()
    model = make_model(num_options=3).double()
    trainer = Trainer(model, Exact(weights_guide("gem", 3)).double(), data, TrainConfig(device="cpu", progress=False))
    batches = list(trainer.data.minibatches(4, torch.Generator().manual_seed(0)))
    assert len({len(batch) for batch in batches}) > 1 and trainer.data.num_batches(4) == len(batches)
    assert max(batch.states.shape[1] for batch in batches[:-1] if len(batch) > 1) <= 50
    whole = as_padded(trainer.data)
    expected, gradient = loss_of(trainer, whole)
    parts = [loss_of(trainer, batch) for batch in batches]
    assert sum(loss for loss, _ in parts) / len(parts) == pytest.approx(expected, rel=1e-9)
    for *given, exact in zip(*(grads for _, grads in parts), gradient):
        assert_close(torch.stack(given).mean(0), exact, rtol=1e-7, atol=1e-9)
    if per:  # the reported ELBO has no bonus, whatever the size of the batch
        plain = [trainer_elbo(trainer, batch) for batch in batches]
        trainer.entropy.weight = 2.0
        assert [trainer_elbo(trainer, batch) for batch in batches] == pytest.approx(plain, rel=1e-9)


def trainer_elbo(trainer, batch):
    torch.manual_seed(3)
    loss = float(trainer._loss_and_grads(batch))
    return -loss - trainer.entropy.bonus * batch.population / batch.dataset_size


def test_the_recorded_elbo_is_that_of_every_episode():
    data = make_ragged()
    model, guide = make_model(num_options=3), Exact(weights_guide("gem", 3))
    config = TrainConfig(epochs=1, batch_size=4, learning_rate=1e-12, weights_learning_rate=1e-12, device="cpu")
    trainer = Trainer(model, guide, data, config)
    exact = [float(to_skills(model, guide).segment(data).log_likelihood.sum()) / len(data)]
    assert trainer.run().elbo == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("continuous", [False, True])
def test_segmentation_and_summary_equal_those_of_padded_episodes(continuous):
    data = make_ragged(continuous)
    made = build("options-exact", data, num_options=3)
    skills = to_skills(made.model, made.guide)
    for method in ("viterbi", "posterior"):
        ours, theirs = skills.segment(data, method), skills.segment(as_padded(data), method)
        assert ours.options.shape == (41, 2000) and torch.equal(ours.options, theirs.options)
        assert_close(ours.switches, theirs.switches)
        assert_close(ours.log_likelihood, theirs.log_likelihood, rtol=1e-5, atol=1e-4)
        assert torch.equal(ours.starts, theirs.starts) and torch.equal(ours.mask, theirs.mask)
        assert ours.segments(3) == theirs.segments(3) and ours.flat_options.shape == (sum(LENGTHS),)
    assert skills.log_likelihood(data) == pytest.approx(skills.log_likelihood(as_padded(data)), rel=1e-5)
    ours, theirs = skills.summarize(data), skills.summarize(as_padded(data))
    for name, value in vars(ours).items():
        assert_close(value, getattr(theirs, name))


@pytest.mark.parametrize("continuous", [False, True])
def test_statistics_equal_those_of_padded_episodes(continuous):
    data = make_ragged(continuous)
    padded = as_padded(data)
    ours, theirs = state_inputs(data), state_inputs(padded)
    assert torch.equal(ours.index, theirs.index)
    assert_close(ours.center, theirs.center) and assert_close(ours.scale, theirs.scale)
    rates = [Budget().train_config(one, ()).learning_rate for one in (data, padded)]
    assert rates[0] == rates[1]
    if continuous:
        assert resolved_families(data) == resolved_families(padded)


def grown(data):
    torch.manual_seed(0)
    model, guide = make_model(num_options=2), Exact(weights_guide("gem", 2, point=True))
    growth = GrowthMessenger([model, guide], EvidenceRule(), DataBirth(steps=10), [Prune()], every=1, site="actions")
    config = TrainConfig(epochs=1, batch_size=64, device="cpu", progress=False)
    trainer = Trainer(model, guide, data, config, growth)
    event = trainer.observe_and_grow()
    return event, list(model.parameters())


def test_growth_equals_that_of_padded_episodes():
    data = make_ragged()
    (ours, parameters), (theirs, expected) = grown(data), grown(as_padded(data))
    assert_close(ours.usage.posterior, theirs.usage.posterior)
    assert [(move.kind, move.verdict.accepted) for move in ours.moves] == [
        (move.kind, move.verdict.accepted) for move in theirs.moves
    ]
    assert any(move.kind == "birth" for move in ours.moves)
    for one, other in zip(parameters, expected):
        assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_counts_equal_those_of_padded_episodes():
    data = make_ragged()
    torch.manual_seed(0)
    model, guide = make_model(num_options=3), Exact(weights_guide("gem", 3))
    draws = [component_counts(model, guide, one, 100, batch_size=8).draws.double() for one in (data, as_padded(data))]
    error = sum(one.var() / len(one) for one in draws) ** 0.5  # random numbers differ: padded steps take some too
    assert draws[0].std() > 0 and abs(draws[0].mean() - draws[1].mean()) < 4 * error


def test_discovery_never_pads_the_whole(monkeypatch):
    """Nothing larger than a batch is padded, and no episode shares one with others ten times as long."""
    data, largest = make_ragged(), []
    padded = FlatSteps.padded

    def recorded(self, width=None):
        largest.append(len(self) * (self.width if width is None else width))
        return padded(self, width)

    monkeypatch.setattr(FlatSteps, "padded", recorded)
    monkeypatch.setattr(Trajectories, "states", property(lambda self: self.as_floats(whole(self))))
    skills = discover(data, epochs=2, held_out=0.2, check_every=4, progress=False, device="cpu")
    assert skills.metadata["growth"] and max(largest) <= 2000 < len(data) * 2000


def whole(data):
    assert isinstance(data.state_steps, PaddedSteps), "the states of a whole data set were padded"
    return data.stored


def make_trainer():
    torch.manual_seed(0)
    model, guide = make_model(num_options=2), Exact(weights_guide("gem", 2))
    return Trainer(model, guide, make_ragged(), TrainConfig(epochs=2, batch_size=4, device="cpu", progress=False))


@pytest.mark.parametrize("num_steps", [1, 4])
def test_a_resumed_training_ends_with_the_same_parameters(num_steps):
    whole = make_trainer()
    whole.run()
    first = make_trainer()
    for _ in islice(first.steps(), num_steps):
        pass
    assert first.num_steps == num_steps and first.batch > 0
    state = first.capture()
    rest = make_trainer()
    rest.restore(*state)
    rest.run()
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), rest.parameters()))
    assert whole.history.elbo == rest.history.elbo and whole.num_steps == rest.num_steps == 2 * rest.data.num_batches(4)


def test_checksums_follow_the_values():
    data = make_ragged()
    other = make_arrays()[0].clone()
    other[-1, -1] += 1
    assert fingerprint(data) == fingerprint(make_ragged()) != fingerprint(data[:-1])
    assert fingerprint(data) != fingerprint(Trajectories.from_flat(other, make_arrays()[1], LENGTHS))


def stored_bytes(data):
    arrays = {array.untyped_storage().data_ptr(): array for array in data.state_steps.arrays}
    return sum(array.untyped_storage().nbytes() for array in arrays.values())


def test_the_store_holds_the_steps_and_nothing_else():
    lengths = [20000] + [50] * 500
    states, actions = torch.zeros(sum(lengths), 4), torch.zeros(sum(lengths)).long()
    data = Trajectories.from_episodes(list(zip(states.split(lengths), actions.split(lengths))))
    assert stored_bytes(data) == states.nbytes
    train, held = data.split(0.2)
    for part in (train, held, train[:100], held.cut(30), data.to(dtype=torch.float32)):
        assert part.state_steps.arrays[0].data_ptr() == data.state_steps.arrays[0].data_ptr()


def test_bytes_stay_bytes_until_a_batch_needs_them():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (sum(LENGTHS), 6), generator=generator, dtype=torch.uint8)
    for packed, size in ((False, 6), (True, 48)):
        data = Trajectories.from_flat(images, make_arrays()[1], LENGTHS, packed=packed)
        assert data.to(dtype=torch.float64).state_steps.dtype == torch.uint8 and data.state_dim == size
        batch = next(data.minibatches(8))
        assert batch.states.dtype == torch.float32 and batch.states.shape[-1] == size
    data = Trajectories(images[:2000].view(20, 100, 6), make_arrays()[1][:2000].view(20, 100))
    assert data.stored.dtype == torch.uint8
    assert torch.equal(data.states, data.stored.float()) and torch.equal(data.unpack().stored, data.states)
    skills = discover(data, epochs=1, num_options=2, progress=False, device="cpu")
    assert skills.state_dim == 6 and skills.segment(data).options.shape == (20, 100)


def anonymous_bytes():
    """Memory of this process that no file backs, without what the allocator keeps after it was freed."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)
    return 1024 * int(re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize("form", ["flat", "episodes", "padded", "cut"])
def test_mapped_files_are_never_copied_whole(tmp_path, form):
    lengths = [20000] + [500] * 200
    if form in ("padded", "cut"):
        lengths = [600] * 200
    steps, size = sum(lengths), 128
    np.lib.format.open_memmap(tmp_path / "states.npy", "w+", np.float64, (steps, size))[:, 0] = np.arange(steps) % 97
    np.lib.format.open_memmap(tmp_path / "actions.npy", "w+", np.int32, (steps,))[:] = np.arange(steps) % 3
    states, actions = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("states", "actions"))
    ends = np.cumsum(lengths)
    before = anonymous_bytes()
    if form == "flat":
        data = Trajectories.from_flat(states, actions, lengths)
    elif form == "episodes":
        data = Trajectories.from_episodes([(states[e - n : e], actions[e - n : e]) for e, n in zip(ends, lengths)])
    else:
        rows = states.reshape(200, 600, size), actions.reshape(200, 600)
        data = Trajectories(*((part[:, :500] for part in rows) if form == "cut" else rows))
    train, held = data.to("cpu", torch.float32).split(0.1)
    for batch in train.minibatches(4, torch.Generator().manual_seed(0)):
        assert batch.states.dtype == torch.float32 and batch.actions.dtype == torch.int64
    assert train.num_steps + held.num_steps == data.num_steps and data.num_actions == 3
    state_inputs(train)
    assert anonymous_bytes() - before < 0.4 * states.nbytes
    inside = range(states.ctypes.data, states.ctypes.data + states.nbytes)
    assert all(array.data_ptr() in inside for array in train.state_steps.arrays)
