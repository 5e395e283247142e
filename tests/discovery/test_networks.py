"""Discovery with networks of the user's own: every method, growth, restarts, resumption, files, environments."""

import copy

import numpy as np
import pytest
import torch
from support.images import SHAPE, PixelEnv, image_episodes, make_images, same_options, tiny_network
from support.small_trainings import finished, run_until

from pyro_options import Skills, discover
from pyro_options.data import Trajectories
from pyro_options.discovery import build
from pyro_options.envs import SkillWrapper
from pyro_options.errors import FileError, InputError
from pyro_options.infer import TrainConfig, Trainer, set_seed
from pyro_options.nn import StateNetwork
from pyro_options.persistence import Checkpoint

DATA = image_episodes()
QUICK = {"epochs": 2, "batch_size": 4, "check_every": 2, "progress": False, "device": "cpu"}


def make_trainer(network=tiny_network, method="options-exact", data=DATA, **how):
    """A training that checks growth every three steps."""
    set_seed(0)
    parts = build(method, data, network=network, check_every=3, rule="usage")
    config = TrainConfig(epochs=4, batch_size=4, progress=False, device="cpu")
    return Trainer(parts.model, parts.guide, data, config, parts.growth, **how)


@pytest.mark.parametrize("method", ["options-exact", "options-paper", "options", "options-sticky", "ddo", "bc"])
def test_every_method_of_options_takes_a_network(method):
    more = {"num_options": 2} if method == "ddo" else {}
    more |= {"check_every": None} if method in ("ddo", "bc") else {}
    given = {name: value for name, value in (QUICK | more).items() if value is not None}
    skills = discover(DATA, method, network=tiny_network, **given)
    assert skills.state_shape == SHAPE and np.isfinite(skills.metadata["log_likelihood"]["train"])


def test_continuous_actions_and_the_cnn():
    frames, _, lengths = make_images()
    actions = np.random.default_rng(0).normal(size=(*frames.shape[:2], 2)).astype(np.float32)
    skills = discover(Trajectories(frames, actions, lengths), network="cnn", **QUICK)
    assert skills.predict(frames[0, 0], 0).shape == (2,)


def test_training_grows_and_every_parameter_gets_a_gradient():
    trainer = make_trainer()
    trainer.run()
    assert trainer.model.num_options > 1
    shared = trainer.model.policy.network
    assert isinstance(shared, StateNetwork) and trainer.model.termination.network is shared
    assert all(p.grad is not None and p.grad.isfinite().all() for p in trainer.parameters())


def test_bytes_and_their_floats_give_the_same_options():
    frames, actions, lengths = make_images()
    network = tiny_network(SHAPE)
    floats = Trajectories(frames / np.float32(255), actions, lengths, num_actions=3)
    first, second = (discover(data, network=network, **QUICK) for data in (DATA, floats))
    assert torch.allclose(first.policy.heads.weight, second.policy.heads.weight, atol=1e-5)


def test_training_does_not_touch_the_module_that_was_given():
    network = tiny_network(SHAPE)
    before = copy.deepcopy(network.state_dict())
    skills = discover(DATA, network=network, **QUICK)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not torch.equal(skills.policy.network.network[1].weight, network[1].weight)


def test_a_resumed_training_ends_with_the_same_bits(tmp_path):
    expected = finished(make_trainer())
    run_until(make_trainer(checkpoint=Checkpoint(tmp_path / "run", every_steps=1)), 7)
    resumed = make_trainer(checkpoint=Checkpoint(tmp_path / "run", resume=True))
    assert 0 < resumed.num_steps <= 7 and finished(resumed) == expected


def test_several_starts_need_a_function():
    with pytest.raises(InputError, match="restarts=1 with a module that is there already"):
        discover(DATA, network=tiny_network(SHAPE), restarts=2, **QUICK)
    assert discover(DATA, network=tiny_network, restarts=2, **QUICK).metadata["restarts"] == 2


@pytest.mark.parametrize("network", [tiny_network, tiny_network(SHAPE)], ids=["function", "module"])
def test_a_default_discovery_does_not_search_for_widths(network):
    skills = discover(image_episodes(num_episodes=24), network=network, epochs=10, progress=False)
    made = skills.metadata
    assert [trial["hidden"] for trial in made["capacity"]] == [[]] * 5
    assert made["restarts"] == (4 if network is tiny_network else 1)
    trust = skills.trust
    assert trust.gain is not None and trust.gain_over_larger is None
    assert (trust.agreement is None) == (network is not tiny_network)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hidden": (8,)}, "hidden or a network"),
        ({"hidden": "auto"}, "hidden or a network"),
        ({"method": "compile-np"}, "a network with the models of options"),
        ({"start": "stretches"}, 'start="random" with a network'),
        ({"network": "vgg"}, "a state network but got 'vgg'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        discover(DATA, **{"network": tiny_network} | given, **QUICK)


def test_images_without_a_network_are_read_as_numbers():
    frames, actions, lengths = make_images()
    shaped = discover(DATA, **QUICK)
    flat = discover(Trajectories(frames.reshape(*frames.shape[:2], -1), actions, lengths, num_actions=3), **QUICK)
    assert shaped.state_shape is None and torch.equal(shaped.policy.heads.weight, flat.policy.heads.weight)
    assert torch.equal(shaped.segment(DATA).options, flat.segment(DATA).options)


def test_the_cnn_is_saved_whole(tmp_path):
    skills = discover(DATA, network="cnn", **QUICK)
    skills.save(tmp_path / "skills")
    assert same_options(Skills.load(tmp_path / "skills"), skills, DATA)


def test_a_network_of_ones_own_is_saved_by_its_weights_and_named_at_loading(tmp_path):
    path, skills = tmp_path / "skills", discover(DATA, network=tiny_network, **QUICK)
    skills.save(path)
    with pytest.raises(FileError, match=r"support.images:tiny_network, but got none.*network=…"):
        Skills.load(path)
    for network in (tiny_network, tiny_network(SHAPE), "support.images:tiny_network"):
        assert same_options(Skills.load(path, network=network), skills, DATA)
    with pytest.raises(FileError, match=r"the weights of support.images:tiny_network but got another"):
        Skills.load(path, network="cnn")


def test_skills_on_images_act_with_any_shape_of_observation():
    skills, (frames, _, _) = discover(DATA, network="cnn", num_options=3, **QUICK), make_images()
    one, many = frames[0, 0], frames[0]
    expected = skills.predict(one, 1)
    assert expected == skills.predict(one.ravel(), 1) == skills.predict(one.astype(np.float32), 1)
    assert np.array_equal(skills.predict(many, 1), [skills.predict(frame, 1) for frame in many])
    assert skills.used(0.0).only([0]).predict(one, 0) == skills.predict(one, 0)
    with pytest.raises(InputError, match=r"observations of shape \(6, 5, 2\) or \(n, 6, 5, 2\)"):
        skills.predict(one[:3], 1)


def test_skills_on_images_run_in_an_environment():
    skills = discover(DATA, network="cnn", num_options=3, **QUICK)
    env = SkillWrapper(PixelEnv(), skills, max_duration=5, imitate=True)
    observation, _ = env.reset(seed=0)
    for action in range(3, 7):
        expected = skills.predict(observation, action - 3) if action < 6 else None
        observation, reward, _, _, info = env.step(action)
        assert 1 <= info["duration"] <= 5 and info["option"] == action - 3
        if info["duration"] == 1 and expected is not None:
            assert reward == expected
