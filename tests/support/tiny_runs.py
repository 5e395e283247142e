"""Examples and scripts of benchmarks/ on tiny budgets: in this process, as a command, or as a module."""

import importlib
import runpy
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import torch
import tyro

ROOT = Path(__file__).parents[2]
EXAMPLES, BENCHMARKS = ROOT / "examples", ROOT / "benchmarks"

#: seconds that a command may take, which is far more than it needs: the machine may be busy with something else
PATIENCE = 900

TINY = {
    "toy_message.py": ["--epochs", "6", "--num-messages", "2", "--no-progress"],
    "atari_discover.py": [
        *("--epochs", "2", "--num-episodes", "4", "--max-steps", "40", "--held-out", "0.5", "--check-every", "1"),
        *("--gif-steps", "10", "--no-progress", "--device", "cpu"),
    ],
    "option_length.py": [
        *("--epochs", "1", "--num-episodes", "4", "--costs", "0", "3", "--num-options", "2", "--no-progress"),
    ],
    "message_sweep.py": [
        *("--epochs", "1", "--num-messages", "2", "3", "--seeds", "0", "--guides", "exact", "--processes", "1"),
    ],
    "compare.py": [
        *("--tasks", "message-4", "breakout", "--methods", "options-exact", "ddo", "bc", "--num-options", "2"),
        *("--seeds", "0", "--num-episodes", "6", "--held-out", "4", "--epochs", "1", "--processes", "1"),
        "--no-progress",
    ],
    "reproduce.py": ["--preset", "smoke", "--processes", "1", "--no-progress"],
    "switches_ppo.py": ["--seeds", "0", "--max-frames", "1500", "--num-episodes", "40", "--epochs", "2"],
    "atari_ppo.py": [
        *("--seeds", "0", "--arms", "none", "ddo@2", "--games", "Freeway", "--num-episodes", "3"),
        *("--episode-steps", "30", "--epochs", "1", "--checkpoint-every", "1024", "--no-progress"),
    ],
    "dp_mixture.py": ["--num-clusters", "2", "--num-rows", "60", "--patience", "1"],
    "count_mixture.py": ["--num-documents", "40", "--num-words", "20", "--patience", "1"],
    "infinite_hmm.py": [
        *("--num-sequences", "8", "--num-steps", "8", "--initial-states", "3", "--updates", "6", "--every", "3"),
    ],
    "hdp_topics.py": [
        *("--num-documents", "24", "--num-words", "8", "--initial-topics", "3", "--updates", "6", "--every", "3"),
    ],
    "regressions.py": ["--num-rows", "60", "--initial-lines", "3", "--updates", "6", "--every", "3"],
    "sticky_options.py": ["--num-episodes", "12", "--epochs", "1", "--initial-options", "2"],
    "mouse_decisions.py": ["--num-sessions", "6", "--epochs", "1", "--counts", "1", "--held-out", "0.34"],
    "pixel_skills.py": ["--num-episodes", "8", "--num-steps", "12", "--epochs", "1", "--no-progress"],
    "cued_options.py": ["--epochs", "1", "--num-episodes", "10", "--num-cues", "2"],
    "stick_breaking_autoencoder.py": ["--epochs", "1", "--num-components", "5", "--hidden", "8"],
}


@contextmanager
def same_number_of_threads():
    """Scripts choose how many threads torch uses; afterwards there are as many as before."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_in_process(monkeypatch, script, *arguments):
    """What the command ``python script arguments`` does, without the seconds that a new process spends on imports."""
    with monkeypatch.context() as patch, same_number_of_threads():
        patch.syspath_prepend(str(script.parent))
        patch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        runpy.run_path(str(script), run_name="__main__")


def run_command(script, *arguments):
    """The command in a process of its own, where warnings are errors."""
    command = [sys.executable, "-W", "error", str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def load_script(monkeypatch, script):
    """The script as a module, which finds what is beside it as it does when it is run."""
    monkeypatch.syspath_prepend(str(script.parent))
    return importlib.import_module(script.stem)


def parsed(module, *arguments):
    """The arguments of a script, as its command reads them."""
    return tyro.cli(module.Args, args=arguments)
