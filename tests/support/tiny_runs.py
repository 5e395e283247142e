"""Examples and scripts of benchmarks/ as commands, and a tiny budget for every example."""

import subprocess
import sys
from pathlib import Path

import tyro

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TINY = {
    "toy_message.py": ["--epochs", "2", "--num-messages", "2", "--num-episodes", "20", "--check-every", "1"],
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
    "cued_options.py": ["--epochs", "1", "--num-episodes", "10", "--num-cues", "2"],
    "stick_breaking_autoencoder.py": ["--epochs", "1", "--num-components", "5", "--hidden", "8"],
}


def run(name, *arguments):
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def parsed(module, *arguments):
    return tyro.cli(module.Args, args=arguments)
