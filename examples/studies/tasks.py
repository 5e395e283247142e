"""Tasks to compare methods on: demonstrations, and their ground truth if it is known."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_options.data import Trajectories, integer_sequences, synthetic_options
from pyro_options.discovery import PRESETS
from pyro_options.envs import atari_demonstrations, load_atari, message_demonstrations


@dataclass(frozen=True)
class Truth:
    """The ground truth of held-out episodes."""

    options: Tensor  # (N, T)
    best_log_likelihood: float  # of the model that generated them, in nats per step


@dataclass(frozen=True)
class Demonstrations:
    """Episodes for training and for evaluation."""

    train: Trajectories
    held_out: Trajectories
    truth: Truth | None = None


@dataclass(frozen=True)
class Size:
    """Number and length of the episodes."""

    num_episodes: int  # for training
    held_out: int  # for evaluation
    max_steps: int | None = None  # maximum length of an episode, for Breakout


Make = Callable[[int, Size, Path | None], Demonstrations]


@dataclass(frozen=True)
class Task:
    """A task: its demonstrations, and its settings of the methods."""

    title: str
    make: Make  # makes the demonstrations from a seed, a size, and an optional file
    size: Size
    num_options: tuple[int, ...]  # values of a fixed K
    settings: dict[str, Any] = field(default_factory=dict)  # arguments of discover that differ from its defaults
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)  # method -> further arguments


def message(num_messages: int) -> Make:
    """The paper's proof of concept: one option per message, active during the whole episode."""

    def make(seed: int, size: Size, file: Path | None) -> Demonstrations:
        train = message_demonstrations(num_messages, size.num_episodes, seed)
        held = message_demonstrations(num_messages, size.held_out, seed + 10_000)
        said = held.actions.long()  # the expert emits the message at every step, so actions are the true options
        return Demonstrations(train, held, Truth(said, -math.log(num_messages) / said.shape[1]))

    return make


def synthetic(seed: int, size: Size, file: Path | None) -> Demonstrations:
    """Five linear options, episodes of 20 to 80 steps; every seed has other options."""
    known = synthetic_options(5, size.num_episodes + size.held_out, seed=seed)
    data, cut = known.trajectories, size.num_episodes
    with torch.no_grad():
        emission = known.policy(data.states).component_log_prob(data.actions)
        total = float(known.path.log_marginal(emission)[cut:].double().sum())
    held = data[cut:]
    return Demonstrations(data[:cut], held, Truth(known.options[cut:], total / held.num_steps))


def integers(seed: int, size: Size, file: Path | None) -> Demonstrations:
    """CompILE's task: three segments of Poisson length, in each of which one of five integers repeats."""
    known = integer_sequences(size.num_episodes + size.held_out, seed=seed)
    cut = size.num_episodes
    held, starts = known.trajectories[cut:], known.switches[cut:]
    total = float(integers_log_likelihood(starts, held.lengths).sum())
    return Demonstrations(known.trajectories[:cut], held, Truth(known.options[cut:], total / held.num_steps))


def integers_log_likelihood(starts: Tensor, steps: Tensor, mean: float = 3.0, num_symbols: int = 5) -> Tensor:
    """Log-probability of each integer sequence under its generator, given its length, ``(N,)``.

    :param starts: whether a segment begins ``(N, T)``
    :param steps: length of each sequence ``(N,)``
    """
    mask = torch.arange(starts.shape[1]) < steps.unsqueeze(-1)
    lengths = torch.bincount(starts[mask].long().cumsum(0) - 1).view(len(starts), -1)  # (N, segments)
    number = torch.arange(1, int(steps.max()) + 1, dtype=torch.float64)
    pmf = torch.cat([torch.zeros(1), torch.exp(number * math.log(mean) - mean - torch.lgamma(number + 1))])
    pmf = pmf / -math.expm1(-mean)  # Poisson truncated to at least one step
    sums = pmf
    for _ in range(lengths.shape[1] - 1):
        sums = torch.stack([(sums[: n + 1] * pmf[: n + 1].flip(0)).sum() for n in range(len(pmf))])
    symbols = math.log(num_symbols) + (lengths.shape[1] - 1) * math.log(num_symbols - 1)
    return pmf[lengths].log().sum(-1) - sums[steps].log() - symbols


def breakout(seed: int, size: Size, file: Path | None) -> Demonstrations:
    """Breakout's RAM, from a file or the scripted expert; the last episodes are held out with every seed."""
    if file is None:
        data = play(size.num_episodes + size.held_out, size.max_steps)
    else:
        data = load_atari(file)
    data = data.cut(size.max_steps)
    train, held = data[: -size.held_out], data[-size.held_out :]
    chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[: size.num_episodes]
    return Demonstrations(train[chosen], held)


def breakout_cut(num_steps: int) -> Make:
    """Breakout with training episodes cut after ``num_steps``, and whole episodes for evaluation."""

    def make(seed: int, size: Size, file: Path | None) -> Demonstrations:
        whole = breakout(seed, size, file)
        return Demonstrations(whole.train.cut(num_steps), whole.held_out)

    return make


@cache
def play(num_episodes: int, max_steps: int | None) -> Trajectories:
    """Episodes of the scripted expert, recorded once per process."""
    return atari_demonstrations("Breakout", num_episodes, max_steps=max_steps)


#: hidden layers and optimizer settings of the paper's appendix C, but the ``evidence`` rule and fewer epochs
MESSAGE = {"hidden": (16, 16), "rule": "evidence", "batch_size": 128, "learning_rate": 5e-3, "epochs": 100}

#: episode lengths of the paper's tables 1 to 3
LENGTHS = (50, 150, 300, 500, 1000)

#: CompILE needs the number and mean length of segments: the true ones if they are known, else the paper's
SEGMENTS = {
    "message": {"num_segments": 2, "segment_length": 5.0},
    "synthetic": {"num_segments": 10, "segment_length": 10.0}
    | {"lstm_size": 16, "encoder_hidden": (16, 16), "epochs": 40},
    "integers": PRESETS["compile-integers"] | {"epochs": 80, "batch_size": 64, "learning_rate": 1e-2},
    "breakout": PRESETS["compile-atari"],
}


def tuned(name: str, **compile_only: Any) -> dict[str, dict[str, Any]]:
    """Settings for single methods: the segments of CompILE.

    :param compile_only: further settings for CompILE with a given K
    """
    return {"compile": SEGMENTS[name] | compile_only, "compile-np": SEGMENTS[name]}


TASKS = {
    "message-4": Task("messages, n_V = 4", message(4), Size(1000, 200), (4, 8), MESSAGE, tuned("message")),
    "message-8": Task("messages, n_V = 8", message(8), Size(1000, 200), (8, 16), MESSAGE, tuned("message")),
    "synthetic": Task(
        "five known options",
        synthetic,
        Size(200, 40),
        (5, 8),
        {},
        tuned("synthetic", batch_size=10, learning_rate=1e-2),
    ),
    "integers": Task("integer sequences", integers, Size(1000, 200), (5,), {}, tuned("integers")),
    "breakout": Task("Breakout", breakout, Size(64, 32, 300), (8,), {"epochs": 50}, tuned("breakout")),
    **{
        f"breakout-{n}": Task(f"Breakout, {n} steps", breakout_cut(n), Size(100, 20, 1000), (7,), {}, tuned("breakout"))
        for n in LENGTHS
    },
}
