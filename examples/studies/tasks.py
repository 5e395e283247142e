"""Demonstrations to compare methods on, with the truth where there is one."""

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
    """What is known about held-out episodes."""

    options: Tensor  # (N, T)
    best_log_likelihood: float  # nats per step of the model that made them


@dataclass(frozen=True)
class Demonstrations:
    """Episodes to learn from, and others to judge by."""

    train: Trajectories
    held_out: Trajectories
    truth: Truth | None = None


@dataclass(frozen=True)
class Size:
    """How much of a task to use."""

    num_episodes: int  # to learn from
    held_out: int
    max_steps: int | None = None  # of an episode, where it can be cut


Make = Callable[[int, Size, Path | None], Demonstrations]


@dataclass(frozen=True)
class Task:
    """A task: where its demonstrations come from, and what suits it."""

    title: str
    make: Make  # of a seed, a size, and a file if there is one
    size: Size
    num_options: tuple[int, ...]  # fixed K to try
    settings: dict[str, Any] = field(default_factory=dict)  # for discover, where its defaults are not the best
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)  # the same for one method


def message(num_messages: int) -> Make:
    """The paper's proof of concept: one option per message, from the first step to the last."""

    def make(seed: int, size: Size, file: Path | None) -> Demonstrations:
        train = message_demonstrations(num_messages, size.num_episodes, seed)
        held = message_demonstrations(num_messages, size.held_out, seed + 10_000)
        said = held.actions.long()  # the expert says the message at every step
        return Demonstrations(train, held, Truth(said, -math.log(num_messages) / said.shape[1]))

    return make


def synthetic(seed: int, size: Size, file: Path | None) -> Demonstrations:
    """Five linear options, episodes of 20 to 80 steps; every seed has options of its own."""
    known = synthetic_options(5, size.num_episodes + size.held_out, seed=seed)
    data, cut = known.trajectories, size.num_episodes
    with torch.no_grad():
        emission = known.policy(data.states).component_log_prob(data.actions)
        total = float(known.path.log_marginal(emission)[cut:].double().sum())
    held = data[cut:]
    return Demonstrations(data[:cut], held, Truth(known.options[cut:], total / held.num_steps))


def integers(seed: int, size: Size, file: Path | None) -> Demonstrations:
    """CompILE's own task: three segments of Poisson length, in each of which one of five integers repeats."""
    known = integer_sequences(size.num_episodes + size.held_out, seed=seed)
    cut = size.num_episodes
    held, starts = known.trajectories[cut:], known.switches[cut:]
    total = float(integers_log_likelihood(starts, held.lengths).sum())
    return Demonstrations(known.trajectories[:cut], held, Truth(known.options[cut:], total / held.num_steps))


def integers_log_likelihood(starts: Tensor, steps: Tensor, mean: float = 3.0, num_symbols: int = 5) -> Tensor:
    """What the generator of integer sequences gives each, knowing how long it is, ``(N,)``.

    :param starts: bits ``(N, T)``: a segment begins
    :param steps: length of each sequence ``(N,)``
    """
    mask = torch.arange(starts.shape[1]) < steps.unsqueeze(-1)
    lengths = torch.bincount(starts[mask].long().cumsum(0) - 1).view(len(starts), -1)  # (N, segments)
    number = torch.arange(1, int(steps.max()) + 1, dtype=torch.float64)
    pmf = torch.cat([torch.zeros(1), torch.exp(number * math.log(mean) - mean - torch.lgamma(number + 1))])
    pmf = pmf / -math.expm1(-mean)  # a segment has at least one step
    sums = pmf
    for _ in range(lengths.shape[1] - 1):
        sums = torch.stack([(sums[: n + 1] * pmf[: n + 1].flip(0)).sum() for n in range(len(pmf))])
    symbols = math.log(num_symbols) + (lengths.shape[1] - 1) * math.log(num_symbols - 1)
    return pmf[lengths].log().sum(-1) - sums[steps].log() - symbols


def breakout(seed: int, size: Size, file: Path | None) -> Demonstrations:
    """Bits of Breakout's RAM, from a file or the scripted expert; the last episodes are held out, whatever the seed."""
    if file is None:
        data = play(size.num_episodes + size.held_out, size.max_steps)
    else:
        data = load_atari(file)
    data = data.cut(size.max_steps)
    train, held = data[: -size.held_out], data[-size.held_out :]
    chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[: size.num_episodes]
    return Demonstrations(train[chosen], held)


def breakout_cut(num_steps: int) -> Make:
    """Only the first steps of each episode to learn from, whole ones to judge by."""

    def make(seed: int, size: Size, file: Path | None) -> Demonstrations:
        whole = breakout(seed, size, file)
        return Demonstrations(whole.train.cut(num_steps), whole.held_out)

    return make


@cache
def play(num_episodes: int, max_steps: int | None) -> Trajectories:
    """Episodes of the scripted expert, once for all runs of a process."""
    return atari_demonstrations("Breakout", num_episodes, max_steps=max_steps)


#: as in the paper's appendix C, where the message task has hidden layers; growth by the rule that refuses at birth
MESSAGE = {"hidden": (16, 16), "rule": "evidence", "batch_size": 128, "learning_rate": 5e-3, "epochs": 100}

#: of the paper's tables 1 to 3
LENGTHS = (50, 150, 300, 500, 1000)

#: CompILE has to be told how episodes fall into segments: as they do where that is known, else as in the paper
SEGMENTS = {
    "message": {"num_segments": 2, "segment_length": 5.0},
    "synthetic": {"num_segments": 10, "segment_length": 10.0}
    | {"lstm_size": 16, "encoder_hidden": (16, 16), "epochs": 40},
    "integers": PRESETS["compile-integers"] | {"epochs": 80, "batch_size": 64, "learning_rate": 1e-2},
    "breakout": PRESETS["compile-atari"],
}


def tuned(name: str, **compile_only: Any) -> dict[str, dict[str, Any]]:
    """What single methods need: CompILE its segments.

    :param compile_only: for CompILE that is told K
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
