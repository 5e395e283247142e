"""Random input of every kind gives a right answer or an InputError, never an error from deep inside."""

import math
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from support.episodes import make_episodes
from support.option_models import make_model

from pyro_options.data import Trajectories, pack_bits, synthetic_options, unpack_bits
from pyro_options.discovery import METHODS, discover, method_config
from pyro_options.distributions import LogitKumaraswamy, log_stick_breaking
from pyro_options.envs import MessageEnv, SkillWrapper, message_demonstrations
from pyro_options.errors import InputError
from pyro_options.experiments import bootstrap_interval, curve_band, interquartile_mean
from pyro_options.growth import num_components, permute, prune, resize
from pyro_options.infer import Exponential, TrainConfig
from pyro_options.options import OptionPath
from pyro_options.skills import Skills, boundaries, boundary_scores, label_scores

settings.register_profile(
    "suite",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")

NUMBERS = st.one_of(st.integers(-3, 40), st.floats(width=32), st.just(2**40), st.booleans())
DTYPES = st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_])
ANY_ARRAY = DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=4, max_side=4)))


@st.composite
def trajectories(draw, max_actions=4):
    """Legal data of any size, padding full of garbage."""
    N, T, D = (draw(st.integers(1, 4)) for _ in range(3))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    finite = st.floats(-1e3, 1e3, width=32)
    states = draw(arrays.arrays(dtype, (N, T, D), elements=finite))
    lengths = draw(arrays.arrays(np.int64, N, elements=st.integers(1, T)))
    mask = np.arange(T) < lengths[:, None]
    if draw(st.booleans()):
        actions = draw(arrays.arrays(np.int64, (N, T), elements=st.integers(0, max_actions - 1)))
        actions[~mask] = -7
    else:
        actions = draw(arrays.arrays(dtype, (N, T, draw(st.integers(1, 2))), elements=finite))
        actions[~mask] = np.nan
    states[~mask] = np.inf
    return Trajectories(states, actions, lengths)


@given(ANY_ARRAY, st.one_of(st.none(), ANY_ARRAY), st.one_of(st.none(), ANY_ARRAY), st.booleans(), st.none() | NUMBERS)
@settings(max_examples=300)
def test_any_arrays_are_data_or_refused(states, actions, lengths, packed, num_actions):
    try:
        data = Trajectories(states, actions, lengths, num_actions, packed=packed)
    except InputError:
        return
    assert data.states.isfinite().all() and data.states.dim() == 3
    assert data.mask.sum() == data.num_steps >= len(data) >= 1
    assert not data.stored[~data.mask].any()
    if data.actions is not None and data.discrete:
        assert int(data.actions.min()) >= 0 and (data.actions < torch.tensor(data.num_actions)).all()


@pytest.mark.parametrize("bad", [None, "text", [[[1.0], [2.0, 3.0]]], object(), [["a"]], {"states": 1}, [None]])
def test_other_things_than_arrays_are_refused_with_input_error(bad):
    with pytest.raises(InputError, match="states"):
        Trajectories(bad, None)
    with pytest.raises(InputError, match="states"):
        Trajectories.from_episodes([(bad, [0])])


@given(st.lists(st.lists(ANY_ARRAY, min_size=1, max_size=3), max_size=3), st.booleans())
def test_any_episodes_are_data_or_refused(episodes, packed):
    with suppress(InputError):
        data = Trajectories.from_episodes([tuple(one) for one in episodes], packed=packed)
        assert len(data) == len(episodes) and data.lengths.tolist() == [len(one[1]) for one in episodes]


@given(trajectories())
def test_what_is_saved_is_what_is_loaded(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("saved") / "data.npz"
    data.save(path)
    loaded = Trajectories.load(path)
    for ours, theirs in ((data.stored, loaded.stored), (data.actions, loaded.actions), (data.lengths, loaded.lengths)):
        assert torch.equal(ours, theirs) and ours.dtype == theirs.dtype
    assert data.num_actions == loaded.num_actions


@given(trajectories(), NUMBERS, NUMBERS)
def test_batches_and_parts_hold_every_episode_once(data, size, fraction):
    rows = data.stored.flatten(1)
    with suppress(InputError):
        batches = list(data.minibatches(size, torch.Generator().manual_seed(0)))
        assert sum(map(len, batches)) == len(data) and all(batch.population == len(data) for batch in batches)
        drawn = torch.cat([batch.stored.flatten(1) for batch in batches])
        assert sorted(drawn.tolist()) == sorted(rows.tolist())
    with suppress(InputError):
        parts = data.split(fraction)
        assert sum(map(len, parts)) == len(data) and min(map(len, parts)) >= 1


@given(arrays.arrays(np.uint8, arrays.array_shapes(max_dims=3, max_side=4)))
def test_packing_inverts_unpacking(values):
    assert torch.equal(pack_bits(unpack_bits(torch.from_numpy(values))), torch.from_numpy(values))


@given(ANY_ARRAY)
def test_any_bits_are_packed_or_refused(values):
    given = torch.from_numpy(values)
    with suppress(InputError):
        assert torch.equal(unpack_bits(pack_bits(given), torch.float64), given.double())
    with suppress(InputError):
        assert torch.equal(pack_bits(unpack_bits(given)), given)


@pytest.mark.parametrize("value", [2, -1, 0.5, math.nan])
def test_only_zeros_and_ones_are_packed(value):
    with pytest.raises(InputError, match="zeros and ones"):
        pack_bits(torch.tensor([value] + 7 * [1]))


@given(st.dictionaries(st.sampled_from(["epochs", "batch_size", "learning_rate", "clip_norm", "seed"]), NUMBERS))
def test_train_settings_are_usable_or_refused(values):
    with suppress(InputError):
        config = TrainConfig(**values)
        assert type(config.epochs) is int and type(config.batch_size) is int
        assert 0 < config.learning_rate < math.inf and 0 < config.clip_norm < math.inf


METHOD_NUMBERS = (
    "num_options initial_options max_options alpha discount termination_cost check_every patience lstm_size"
)


@given(st.dictionaries(st.sampled_from(METHOD_NUMBERS.split()), NUMBERS), st.sampled_from(sorted(METHODS)))
def test_method_settings_are_usable_or_refused(values, name):
    with suppress(InputError):
        config = method_config(name, **{key: value for key, value in values.items() if key not in METHODS[name]})
        assert config.num_options is None or type(config.num_options) is int
        assert math.isfinite(config.termination_cost) and math.isfinite(config.alpha)


@given(NUMBERS, NUMBERS, NUMBERS, st.integers(0, 10**6))
def test_schedules_are_finite_or_refused(initial, rate, floor, epoch):
    with suppress(InputError):
        assert 0 <= Exponential(initial, rate, floor)(epoch) < math.inf


@given(st.lists(st.floats(width=32), max_size=4), *(arrays.array_shapes(max_dims=4, max_side=3) for _ in range(2)))
def test_paths_of_any_shape_are_right_or_refused(log_weights, logits_shape, emission_shape):
    with suppress(InputError):
        weights = torch.tensor(log_weights, dtype=torch.float32)
        path = OptionPath(weights, torch.zeros(logits_shape))
        marginal = path.log_marginal(torch.zeros(emission_shape))
        assume(bool(weights.isfinite().all()))
        assert marginal.shape == torch.Size(logits_shape[:-2])
        # Every emission is 1: what is left is the mass of the weights at the first step, and at each switch.
        assert (marginal <= torch.logsumexp(weights, 0).clamp(min=0) * logits_shape[-2] + 1e-3).all()


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(-80, 80))
def test_sticks_have_a_finite_density_and_weights_sum_to_one_at_most(a, b, logit):
    assert LogitKumaraswamy(torch.tensor(a), torch.tensor(b)).log_prob(torch.tensor(logit)).isfinite()
    weights = log_stick_breaking(torch.tensor([logit, -logit, 0.0])).exp()
    assert (weights >= 0).all() and float(weights.sum()) <= 1 + 1e-6


@given(st.lists(st.integers(-2, 5), max_size=5), st.integers(-1, 2))
def test_resizing_leaves_a_model_that_runs_or_changes_nothing(index, count):
    model = make_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for change in (
        lambda: resize([model], index, count),
        lambda: prune([model], index),
        lambda: permute([model], index),
    ):
        K = num_components([model])
        try:
            change()
        except InputError:
            assert num_components([model]) == K
        else:
            assert num_components([model]) >= 1
    if num_components([model]) == 3 and all(torch.equal(model.state_dict()[k], v) for k, v in before.items()):
        return
    assert model.policy(torch.zeros(1, 2, 3)).batch_shape[:1] == (1,)


@pytest.fixture(scope="module")
def skills():
    torch.manual_seed(0)
    model = make_model()
    return Skills(model.policy, model.termination, torch.zeros(3).log_softmax(0))


@given(ANY_ARRAY, st.one_of(st.integers(-2, 4), ANY_ARRAY), st.booleans())
@settings(max_examples=200)
def test_skills_act_on_observations_or_refuse_them(skills, observation, option, deterministic):
    for ask in (
        lambda: skills.predict(observation, option, deterministic),
        lambda: skills.action_probabilities(observation, option).argmax(-1),
        lambda: skills.terminates(observation, option),
    ):
        with suppress(InputError):
            answer = np.asarray(ask())
            assert np.isfinite(observation).all() and observation.shape[-1] == 3
            assert answer.shape == observation.shape[:-1] and (answer >= 0).all() and (answer < 4).all()


@given(trajectories(max_actions=6))
def test_skills_give_a_likelihood_or_refuse_the_data(skills, data):
    with suppress(InputError):
        assert skills.log_likelihood(data) < 1e-6 and data.state_dim == 3


@given(NUMBERS, NUMBERS, NUMBERS)
def test_the_skill_wrapper_works_or_refuses_its_settings(gamma, max_duration, frame_skip):
    with suppress(InputError):
        env = SkillWrapper(MessageEnv(3), None, gamma, max_duration, frame_skip=frame_skip)
        env.reset(seed=0)
        assert env.step(0)[4]["duration"] == 1


@given(st.lists(st.floats(-1e6, 1e6), max_size=8), NUMBERS)
def test_bootstrap_intervals_lie_within_the_scores(scores, confidence):
    with suppress(InputError):
        low, high = bootstrap_interval(scores, confidence=confidence, num_resamples=20)
        assert min(scores) - 1e-6 <= low <= high <= max(scores) + 1e-6
        assert low - 1e-6 <= interquartile_mean(scores) + (max(scores) - min(scores)) + 1e-6


@given(st.lists(st.lists(st.floats(0, 10), max_size=4), max_size=3))
def test_curves_of_any_length_are_averaged_or_refused(xs):
    with suppress(InputError):
        band = curve_band([sorted(x) for x in xs], [[1.0] * len(x) for x in xs], 5, num_resamples=5)
        assert np.allclose(band.center, 1.0) and len(band.x) == 5


@given(*(arrays.arrays(np.int64, st.sampled_from([(2, 3), (3, 2), (0, 3)]), elements=st.integers(-1, 3)),) * 2)
def test_segmentations_are_scored_or_refused(ours, truth):
    mask = torch.ones(2, 3, dtype=torch.bool)
    ours, truth = torch.from_numpy(ours), torch.from_numpy(truth)
    with suppress(InputError):
        scores = label_scores(ours, truth, mask)
        assert 0 <= scores.accuracy <= 1 and 0 <= scores.nmi <= 1 + 1e-9 and scores.ari <= 1 + 1e-9
    with suppress(InputError):
        assert 0 <= boundary_scores(boundaries(ours, mask), boundaries(truth, mask), mask).f1 <= 1


def test_huge_labels_do_not_need_huge_tables():
    labels = torch.tensor([[0, 10**12, 10**12]])
    scores = label_scores(labels, torch.tensor([[5, 7, 7]]), torch.ones(1, 3, dtype=torch.bool))
    assert scores.accuracy == 1.0 and scores.naming == {0: 5, 10**12: 7}


@given(*(st.integers(-1, 4) for _ in range(4)), st.none() | st.integers(0, 3))
def test_synthetic_data_are_what_was_asked_or_refused(options, episodes, shortest, longest, num_actions):
    with suppress(InputError):
        found = synthetic_options(options, episodes, lengths=(shortest, longest), num_actions=num_actions)
        assert len(found.trajectories) == episodes and found.options.max() < options
    with suppress(InputError):
        assert len(message_demonstrations(options, episodes, num_steps=longest)) == episodes


@given(trajectories())
@settings(max_examples=12)
def test_any_legal_data_can_be_learned_from(data):
    skills = discover(data, epochs=1, batch_size=2, num_options=2, progress=False, device="cpu")
    assert math.isfinite(skills.metadata["log_likelihood"]["train"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trajectories": None}, "Expected Trajectories"),
        ({"trajectories": make_episodes().without_actions()}, "demonstrations with actions"),
        ({"epochs": 1.5}, "epochs >= 1"),
        ({"batch_size": 0}, "batch_size >= 1"),
        ({"learning_rate": math.nan}, "learning_rate > 0"),
        ({"held_out": math.nan}, "a fraction"),
        ({"held_out": 2.0}, "a fraction"),
        ({"seed": -1}, "seed >= 0"),
        ({"device": "abacus"}, "a device"),
        ({"hidden": (0,)}, "width in hidden"),
        ({"hidden": (2.5,)}, "width in hidden"),
        ({"termination_cost": math.inf}, "termination_cost"),
        ({"num_options": 2.0}, "num_options >= 1"),
        ({"validation": 0.0, "num_options": None}, "validation"),
    ],
)
def test_discover_refuses_bad_settings_with_input_error(change, message):
    with pytest.raises(InputError, match=message):
        discover(**{"trajectories": make_episodes(), "epochs": 1, "num_options": 2, "progress": False} | change)
