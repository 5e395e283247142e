"""The same seed gives the same numbers on one machine, with the exceptions that docs/reliability.md names."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
import torch
from support import methods
from support.episodes import make_episodes
from support.tiny_runs import same_number_of_threads

from pyro_options.data import synthetic_options
from pyro_options.discovery import discover
from pyro_options.infer import set_seed

QUICK = methods.QUICK | {"check_every": 2}

PROGRAM = """
import hashlib, torch
from pyro_options import discover
from pyro_options.data import synthetic_options
torch.set_num_threads(1)
data = synthetic_options(2, 12, lengths=(5, 9), seed=4).trajectories
how = {"batch_size": 8, "progress": False, "device": "cpu", "check_every": 2, "rule": "usage"}
skills = discover(data, "options-paper", epochs=3, **how)
parts = [*skills.policy.state_dict().values(), *skills.termination.state_dict().values(), skills.log_weights]
print(hashlib.sha256(b"".join(p.numpy().tobytes() for p in parts)).hexdigest(), skills.num_options)
"""


def test_two_processes_agree_to_the_bit_whatever_their_hash_seed(capsys):
    """This process and another one, in which strings have other hashes."""
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = os.environ | {"PYTHONHASHSEED": other, "OMP_NUM_THREADS": "1"}
    code = f"print(hash('options'))\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    their_hash, *theirs = done.stdout.split()
    with same_number_of_threads():
        exec(PROGRAM, {})
    ours = capsys.readouterr().out.split()
    assert int(their_hash) != hash("options")
    assert ours == theirs and int(ours[1]) > 1


def digest(skills):
    parts = [*skills.policy.state_dict().values(), *skills.termination.state_dict().values(), skills.log_weights]
    return hashlib.sha256(b"".join(p.numpy().tobytes() for p in parts)).hexdigest()


@pytest.mark.parametrize("method", ["options-paper", "options-exact"])
def test_earlier_random_numbers_do_not_matter_and_only_times_differ(method):
    data = make_episodes(16)
    first = discover(data, method, seed=5, **QUICK)
    torch.rand(17)  # somebody else draws
    set_seed(99)
    again = discover(data, method, seed=5, **QUICK)
    assert digest(first) == digest(again)
    for skills in (first, again):
        made = json.loads(json.dumps(skills.metadata))
        assert made.pop("seconds") > 0 and made["history"].pop("seconds") > 0
        skills.metadata = made
    assert first.metadata == again.metadata


def test_the_number_of_threads_changes_the_last_digits_only():
    data = synthetic_options(2, 400, lengths=(5, 8), seed=4).trajectories
    likelihoods = []
    for threads in (1, 2):
        with same_number_of_threads():
            torch.set_num_threads(threads)
            likelihoods.append(
                discover(data, num_options=2, **QUICK | {"batch_size": 200}).metadata["log_likelihood"]["train"]
            )
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-3)


def test_draws_without_a_generator_continue_a_stream():
    skills = discover(make_episodes(16), num_options=2, **QUICK)
    observation = torch.zeros(3).numpy()

    def draw(again):
        return [again.predict(observation, 0, deterministic=False) for _ in range(20)]

    copies = [discover(make_episodes(16), num_options=2, **QUICK) for _ in range(2)]
    assert draw(copies[0]) == draw(copies[1])  # a new set of skills starts from the same seed
    assert draw(skills) != draw(skills)  # one set goes on where it was
