"""Experts that act by a small network on RAM, and their training."""

import numpy as np
import pytest
import torch
from support.tiny_runs import BENCHMARKS, load_script

from pyro_options.data.collection import rollout
from pyro_options.envs import make_atari
from pyro_options.envs.experts import PolicyExpert
from pyro_options.envs.experts.policy import TRAINED, asset, save_policy

GAME = TRAINED[0]


def play(expert, num_steps=60):
    env = make_atari(GAME)
    return rollout(env, expert, 1, num_steps, seed=3, packed=True).trajectories.actions[0].tolist()


@pytest.mark.parametrize("game", TRAINED)
def test_a_network_is_small_and_says_what_it_is(game):
    about = PolicyExpert(game).about
    assert asset(game).stat().st_size < 500_000
    assert about["game"] == game and about["steps"] >= 100_000 and "torch" in about["origin"]["versions"]


def test_a_network_beats_random_play():
    env, seed = make_atari(GAME, max_steps=200), 1
    expert = rollout(env, PolicyExpert(GAME), 3, seed=seed, packed=True).returns
    random = rollout(env, lambda ram: 0, 3, seed=seed, epsilon=1.0, packed=True).returns
    assert expert.mean() > 1.5 * random.mean()


@pytest.mark.parametrize("deterministic", [True, False])
def test_demonstrations_are_reproducible(deterministic):
    expert = PolicyExpert(GAME, deterministic=deterministic)
    once = play(expert)
    assert play(expert) == once == play(PolicyExpert(GAME, deterministic=deterministic))
    other = play(PolicyExpert(GAME, deterministic=deterministic, seed=1))
    assert (other == once) == deterministic


def network(path, layers=((4, 1024), (3, 4)), game=GAME):
    generator = torch.Generator().manual_seed(0)
    parts = [(torch.randn(shape, generator=generator), torch.randn(shape[0], generator=generator)) for shape in layers]
    save_policy(path, parts, {"game": game, "frame_skip": 4})
    return [(weight.half().float(), bias.half().float()) for weight, bias in parts]


def test_it_is_the_network_of_the_file(tmp_path):
    (first, bias), (last, last_bias) = network(tmp_path / "one.safetensors")
    rams = np.random.default_rng(0).integers(0, 256, (5, 128), np.uint8)
    bits = torch.as_tensor(np.unpackbits(rams, axis=-1)).float()
    expected = torch.tanh(bits @ first.T + bias) @ last.T + last_bias
    expert = PolicyExpert(GAME, path=tmp_path / "one.safetensors")
    torch.testing.assert_close(torch.as_tensor(expert.logits(rams)), expected)
    assert expert.predict(rams)[0].tolist() == expected.argmax(-1).tolist()


def test_sampled_actions_have_the_probabilities_of_the_network(tmp_path):
    network(tmp_path / "one.safetensors")
    expert = PolicyExpert(GAME, deterministic=False, path=tmp_path / "one.safetensors")
    ram = np.full(128, 7, np.uint8)
    chances = torch.softmax(torch.as_tensor(expert.logits(ram[None])[0] / 20), 0).numpy()
    expert.logits = lambda rams: np.log(chances)[None].repeat(len(rams), 0)
    memory, counts = None, np.zeros(3)
    for _ in range(2000):  # the same RAM again and again: the game so far is what differs
        action, memory = expert.predict(ram, memory)
        counts[action] += 1
    assert np.abs(counts / 2000 - chances).max() < 0.04


def test_wrong_networks_are_refused(tmp_path):
    with pytest.raises(ValueError, match=f"game to be one of {TRAINED[0]}.*'Breakout'"):
        PolicyExpert("Breakout")
    with pytest.raises(ValueError, match="frame_skip=4, with which the network was trained, but got 1"):
        PolicyExpert(GAME, frame_skip=1)
    with pytest.raises(ValueError, match=f"a network of Pong but got '?{GAME}"):
        PolicyExpert("Pong", path=asset(GAME))
    with pytest.raises(ValueError, match=r"the format 'pyro_options.PolicyExpert'"):
        PolicyExpert(GAME, path=asset("MontezumaRevenge"))


def test_training_writes_a_network_that_plays(tmp_path, monkeypatch):
    script = load_script(monkeypatch, BENCHMARKS / "train_experts.py")
    small = {"n_steps": 8, "batch_size": 16, "policy_kwargs": {"net_arch": {"pi": [8], "vf": [8]}}}
    monkeypatch.setattr(script, "SETTINGS", script.SETTINGS | small)
    folders = {"out": tmp_path / "out", "work": tmp_path / "work"}
    args = script.Args((GAME,), 64, num_envs=2, checkpoint_every=32, progress=False, **folders)
    assert script.main(args) == script.main(args)  # the second time from the checkpoint
    expert = PolicyExpert(GAME, path=tmp_path / "out" / f"{GAME}.safetensors")
    assert expert.about["steps"] == 64 and expert.about["total_steps"] == 64 and len(play(expert, 5)) == 5
