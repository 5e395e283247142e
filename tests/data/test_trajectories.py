"""Trajectories store demonstrations unchanged and refuse inconsistent ones."""

import numpy as np
import pytest
import torch
from support.episodes import (
    assert_same_trajectories,
    make_continuous_episodes,
    make_episodes,
    make_packed_episodes,
)
from torch.testing import assert_close

from pyro_options.data import Trajectories, pack_bits, unpack_bits
from pyro_options.errors import InputError


def make_packed(num_episodes=5, num_steps=4, num_bytes=3):
    generator = torch.Generator().manual_seed(1)
    states = torch.randint(256, (num_episodes, num_steps, num_bytes), generator=generator, dtype=torch.uint8)
    actions = torch.randint(4, (num_episodes, num_steps), generator=generator)
    lengths = torch.randint(1, num_steps + 1, (num_episodes,), generator=generator)
    return Trajectories(states, actions, lengths, num_actions=4, packed=True)


def test_unpacked_bits_equal_those_of_numpy():
    packed = torch.randint(256, (5, 4, 3), dtype=torch.uint8)
    bits = unpack_bits(packed)
    assert bits.dtype == torch.float32
    assert_close(bits.to(torch.uint8).numpy(), np.unpackbits(packed.numpy(), axis=-1))
    assert torch.equal(pack_bits(bits), packed)


def test_packed_states_are_stored_as_bytes_and_read_as_bits():
    data = make_packed()
    assert data.state_dim == 24 and data.states.shape == (5, 4, 24) and data.steps().shape == (5, 4, 28)
    assert data.stored.dtype == torch.uint8 and data[1:3].stored.shape == (2, 4, 3)
    assert data.split(0.4)[0].packed and data.to("cpu", torch.float64).stored.dtype == torch.uint8
    assert (data.states[~data.mask] == 0).all()
    assert "24 packed bits" in repr(data)
    assert torch.equal(data.unpack().states, data.states) and not data.unpack().packed


@pytest.mark.parametrize("data", [make_packed(), make_episodes(5)], ids=["packed", "float"])
def test_minibatches_hold_every_episode_once_unpacked(data):
    batches = list(data.minibatches(2, torch.Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert all(not batch.packed and batch.population == 5 for batch in batches)
    order = torch.randperm(5, generator=torch.Generator().manual_seed(0))
    for name in ("states", "actions", "lengths"):
        assert_close(torch.cat([getattr(batch, name) for batch in batches]), getattr(data, name)[order])


def test_minibatches_go_to_a_device():
    batch = next(make_packed().minibatches(2, device="meta"))
    assert batch.states.device.type == batch.actions.device.type == batch.mask.device.type == "meta"
    assert batch.states.shape == (2, 4, 24)


def test_a_cut_keeps_the_first_steps():
    data = make_packed()
    short = data.cut(2)
    assert short.stored.shape == (5, 2, 3) and short.packed and short.num_actions == 4
    assert torch.equal(short.lengths, data.lengths.clamp(max=2))
    assert torch.equal(short.states, data.states[:, :2]) and torch.equal(short.actions, data.actions[:, :2])
    assert data.cut(None) is data and data.cut(4) is data
    assert data.without_actions().cut(1).actions is None
    with pytest.raises(ValueError, match="num_steps >= 1"):
        data.cut(0)


def test_split_is_by_episode_and_by_seed():
    data = make_episodes(10)
    train, held = data.split(0.3, seed=1)
    rows = {tuple(row.flatten().tolist()) for row in data.states}
    seen = [{tuple(row.flatten().tolist()) for row in part.states} for part in (train, held)]
    assert len(train) == 7 and len(held) == 3 and seen[0] | seen[1] == rows and not seen[0] & seen[1]
    assert torch.equal(data.split(0.3, seed=1)[1].states, held.states)
    assert not torch.equal(data.split(0.3, seed=2)[1].states, held.states)
    with pytest.raises(ValueError, match="both sides of 10"):
        data.split(0.01)


def test_padding_is_cleared_and_small_integers_become_indices():
    states = torch.full((2, 3, 1), float("nan"))
    states[:, :2] = 1.0
    data = Trajectories(states, np.array([[0, 2, 9], [1, 0, 9]], dtype=np.uint8), [2, 2])
    assert data.num_actions == 3 and data.actions.dtype == torch.int64 and data.num_steps == 4
    assert data.states[:, 2].tolist() == [[0.0], [0.0]] and data.actions[:, 2].tolist() == [0, 0]


def test_from_episodes_drops_the_last_state():
    data = Trajectories.from_episodes([(np.ones((3, 2)), np.zeros((2, 1))), (np.ones((4, 2)), np.zeros((4, 1)))])
    assert data.lengths.tolist() == [2, 4] and data.states.shape == (2, 4, 2) and not data.discrete
    assert data.action_dim == 1 and "1 continuous action dimension" in repr(data)


def test_dtypes_can_be_changed():
    data = Trajectories.from_episodes([(np.ones((3, 2)), np.zeros((3, 1)))])
    assert data.states.dtype == torch.float64
    single = data.to(dtype=torch.float32)
    assert single.states.dtype == single.actions.dtype == torch.float32 and single.lengths.dtype == torch.int64


STATES = torch.zeros(2, 3, 4)
ACTIONS = torch.zeros(2, 3, dtype=torch.int64)
NAN = torch.full((2, 3, 1), float("nan"))

BAD = {
    "ragged states": (dict(states=[[[1.0], [2.0]], [[1.0]]]), "numbers as states .*from_episodes"),
    "words": (dict(actions=np.array([["left"]])), "an array of numbers as actions"),
    "flat states": (dict(states=STATES[0]), r"states of shape \(N, T, D\)"),
    "no episode": (dict(states=STATES[:0], actions=ACTIONS[:0]), "at least one episode"),
    "integer states": (dict(states=STATES.long()), "packed=True"),
    "float packed": (dict(packed=True), "type uint8"),
    "NaN": (dict(states=torch.cat([STATES[:1], STATES[1:] * float("nan")])), "states .* at episode 1"),
    "empty episode": (dict(lengths=[3, 0]), "got 0 at episode 1. Drop empty"),
    "long episode": (dict(lengths=[4, 3]), "got 4 at episode 0. Pad"),
    "float lengths": (dict(lengths=[1.0, 2.0]), "integer lengths"),
    "too few lengths": (dict(lengths=[3]), r"lengths of shape \(2,\)"),
    "action range": (dict(actions=ACTIONS + 4), r"\[0, 3\] but got 4 at episode 0. Check num_actions"),
    "negative action": (dict(actions=ACTIONS - 1), "got -1"),
    "too few actions": (dict(actions=ACTIONS[:, :2]), r"actions of shape \(2, 3"),
    "discrete vectors": (dict(actions=ACTIONS[..., None]), "num_actions of each of 1 dimensions but got 4"),
    "discrete matrices": (dict(actions=ACTIONS[..., None, None]), r"integer actions of shape \(N, T\)"),
    "discrete count": (dict(num_actions=(4, 4)), r"one number of actions for actions \(N, T\)"),
    "discrete range": (dict(actions=ACTIONS[..., None] + 2, num_actions=(2,)), r"\[0, 1\] but got 2 at episode 0"),
    "flat continuous": (dict(actions=ACTIONS.float(), num_actions=None), r"shape \(N, T, A\)"),
    "continuous count": (dict(actions=ACTIONS.float()[..., None]), "num_actions=None"),
    "infinite actions": (dict(actions=NAN, num_actions=None), "finite actions"),
}


@pytest.mark.parametrize("change, message", BAD.values(), ids=BAD.keys())
def test_bad_data_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Trajectories(**{"states": STATES, "actions": ACTIONS, "num_actions": 4, **change})


@pytest.mark.parametrize(
    "episodes, message",
    [
        ([], "at least one episode"),
        ([(STATES[0], ACTIONS[0]), (STATES[0, :0], ACTIONS[0, :0])], "none at episode 1"),
        ([(STATES[0], ACTIONS[0, :1])], "3 states and 1 actions at episode 0"),
        ([(STATES[0], ACTIONS[0]), (STATES[0, :, :2], ACTIONS[0])], "states of shape .* at episode 1"),
        ([(STATES[0], ACTIONS[0]), (STATES[0], ACTIONS[0].float())], "actions of shape .* at episode 1"),
    ],
)
def test_bad_episodes_are_refused(episodes, message):
    with pytest.raises(ValueError, match=message):
        Trajectories.from_episodes(episodes)


@pytest.mark.parametrize("index", [2, slice(1, 4), [0, 3], torch.tensor([0, 3]), np.array([1, 2]), torch.arange(7) < 3])
def test_an_index_gives_a_minibatch_that_keeps_its_population(index):
    data = make_episodes(7)
    batch = data[index]
    assert batch.population == 7 and batch.num_actions == data.num_actions and len(batch) < 7
    assert f"minibatch of {len(batch)} out of 7 episodes" in repr(batch)
    assert batch.to(dtype=torch.float64).population == batch.without_actions().cut(2).population == 7
    assert batch.alone().population == len(batch) == batch[:1].population
    assert repr(batch.alone()).startswith(f"Trajectories({len(batch)} episodes")


def test_data_sets_are_their_own_population():
    data = make_episodes(10)
    assert [part.population for part in data.split(0.3)] == [7, 3]
    assert data[[0] * 20].population == 20
    assert all(batch.population == 4 for batch in data[:4].minibatches(2))


def test_steps_put_states_and_one_hot_actions_side_by_side():
    data = make_episodes(4)
    steps = data.steps()
    assert steps.shape == (4, 5, 3 + 4)
    assert torch.equal(steps[..., 3:].argmax(-1)[data.mask], data.actions[data.mask])


def test_repr_shows_shapes():
    text = repr(make_episodes(6))
    assert "6 episodes" in text and "4 discrete actions" in text and "states 3" in text


def test_repr_gives_a_common_length_once():
    assert "(3 episodes of 4 steps," in repr(Trajectories(torch.zeros(3, 4, 2), torch.zeros(3, 4).long()))


@pytest.mark.parametrize("lengths", [None, [4, 2, 3]], ids=["whole", "padded"])
def test_arrays_are_copied_unless_told_otherwise(lengths):
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(3, 4, 2)), rng.integers(0, 3, (3, 4))
    copied = states.copy()
    tensors = torch.tensor(states, requires_grad=True), torch.tensor(actions)
    for given in ((states, actions), tensors):
        data = Trajectories(*given, lengths)
        assert not data.stored.requires_grad
        before = data.stored.clone(), data.actions.clone()
        assert np.array_equal(torch.as_tensor(given[0]).detach().numpy(), copied)
        with torch.no_grad():
            given[0][:], given[1][:] = 7, 0
        assert torch.equal(data.stored, before[0]) and torch.equal(data.actions, before[1])
    shared = torch.zeros(3, 4, 2)
    for data in (Trajectories(shared, actions, copy=False), Trajectories(shared, actions, copy=False)[:2]):
        assert data.stored.data_ptr() == shared.data_ptr()
    garbage = torch.ones(3, 4, 2)
    assert Trajectories(garbage, actions, [4, 2, 3], copy=False).stored.sum() == 18 and garbage.sum() == 24


def test_from_episodes_detaches_tensors():
    states = torch.zeros(4, 2, requires_grad=True)
    assert not Trajectories.from_episodes([(states, [0, 1, 0, 1])]).stored.requires_grad


@pytest.mark.parametrize("change", [lambda x: x[:, ::-1], lambda x: x.astype(x.dtype.newbyteorder(">"))])
def test_arrays_of_any_byte_order_and_stride_are_read(change):
    rng = np.random.default_rng(0)
    states, actions = change(rng.normal(size=(3, 4, 2))), change(rng.integers(0, 3, (3, 4)))
    for data in (Trajectories(states, actions), Trajectories.from_episodes(list(zip(states, actions)))):
        assert np.array_equal(data.states.numpy(), states) and np.array_equal(data.actions.numpy(), actions)


def test_from_episodes_takes_any_iterable():
    data = make_episodes(3)
    pairs = ((data.states[i, :n], data.actions[i, :n]) for i, n in enumerate(data.lengths))
    assert torch.equal(Trajectories.from_episodes(pairs).lengths, data.lengths)


@pytest.mark.parametrize("index", [1, np.int64(1), torch.tensor(1), np.array(1)])
def test_any_kind_of_integer_selects_one_episode(index):
    data = make_episodes(3)
    assert torch.equal(data[index].stored, data.stored[1:2])
    assert len(data[:1][torch.tensor([True])]) == 1


def test_several_integers_a_step(tmp_path):
    """Saved, cut, batched and encoded side by side; the padding is cleared."""
    actions = torch.tensor([[[1, 2], [0, 1], [9, 9]], [[0, 0], [1, 3], [1, 0]]])
    data = Trajectories(torch.randn(2, 3, 4), actions, lengths=[2, 3])
    assert data.num_actions == (2, 4) and data.discrete and data.action_dim == 6
    assert data.actions[0, 2].tolist() == [0, 0] and "2 × 4 discrete actions" in repr(data)
    assert data.encoded_actions()[0, 0].tolist() == [0, 1, 0, 0, 1, 0] and data.steps().shape == (2, 3, 10)
    data.save(tmp_path / "data.npz")
    assert_same_trajectories(data, Trajectories.load(tmp_path / "data.npz"))
    (batch,) = data.cut(2).minibatches(4)
    assert batch.num_actions == (2, 4) and batch.actions.shape == (2, 2, 2)
    episodes = [(data.states[0, :2], data.actions[0, :2]), (data.states[1], data.actions[1])]
    assert_same_trajectories(data, Trajectories.from_episodes(episodes))


def test_known_bounds_stay_with_the_actions(tmp_path):
    data = Trajectories(torch.randn(2, 3, 4), torch.rand(2, 3, 1), action_bounds=[[0.0], [torch.inf]])
    assert data[:1].action_bounds.tolist() == [[0.0], [torch.inf]]
    data.save(tmp_path / "data.npz")
    assert torch.equal(Trajectories.load(tmp_path / "data.npz").action_bounds, data.action_bounds)
    with pytest.raises(ValueError, match=r"action_bounds of shape \(2, 1\) but got \(2, 2\)"):
        Trajectories(data.states, data.actions, action_bounds=torch.zeros(2, 2))
    with pytest.raises(ValueError, match="lower bounds below upper"):
        Trajectories(data.states, data.actions, action_bounds=torch.zeros(2, 1))
    with pytest.raises(ValueError, match="bounds of continuous actions alone"):
        Trajectories(data.states, torch.zeros(2, 3).long(), action_bounds=torch.zeros(2, 1))


def named_episodes():
    return make_episodes(6).with_names(["x", "y", "z"], ["up", "down", "left", "right"])


@pytest.mark.parametrize(
    "derive",
    [
        lambda data: data[2],
        lambda data: data[1:4].alone(),
        lambda data: data.split(0.5)[0],
        lambda data: data.split(0.5)[1],
        lambda data: data.to(dtype=torch.float64),
        lambda data: data.cut(2),
        lambda data: data.without_actions(),
        lambda data: next(data.minibatches(2)),
    ],
)
def test_names_survive(derive):
    data = derive(named_episodes())
    assert data.state_names == ("x", "y", "z") and data.action_names == ("up", "down", "left", "right")


def test_names_of_packed_bytes_become_names_of_bits():
    data = make_packed_episodes(num_bytes=2).with_names(["low", "high"])
    assert data.state_names == ("low", "high")
    assert data.unpack().state_names == tuple(f"{name} bit {b}" for name in ("low", "high") for b in range(7, -1, -1))


def test_names_of_action_dimensions():
    assert make_continuous_episodes().with_names(action_names=["arm", "hand"]).action_names == ("arm", "hand")


@pytest.mark.parametrize("names", ["xyz", ["x", "y"], ["x", "y", 3], 7])
def test_wrong_names_are_refused(names):
    with pytest.raises(InputError, match=r"name .*each entry of a state"):
        make_episodes().with_names(names)
