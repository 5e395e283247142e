"""Every guide with a gradient estimate of its own, judged by the exact marginal while it trains. Run it with::

    python benchmarks/estimators.py
    python benchmarks/estimators.py --problems small breakout --data breakout_expert.npz

The weights of options are uniform and fixed, so that the path is all there is to infer, and log p(actions) is known. At
some points of a training, on a fixed batch: log p, the guide's own objective, KL(q || posterior) of its discrete paths,
and the gradient of its objective over several draws beside the exact gradient of log p with respect to the model. On
the small problem, all paths of which can be enumerated, also beside the exact gradient of the ELBO with respect to the
guide. Bias and variance are relative to the squared norm of the exact gradient; the bias has the noise of the draws
subtracted. Every run is written to ``--out`` as soon as it is done, and finished runs are not repeated.
"""

import itertools
import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyro
import torch
import tyro
from pyro import poutine
from pyro.infer import TraceGraph_ELBO
from torch import Tensor, nn

from pyro_options import viz
from pyro_options.data import Trajectories, synthetic_options
from pyro_options.discovery import GUIDES, build
from pyro_options.envs import load_atari
from pyro_options.experiments import run_grid
from pyro_options.handlers import adapt
from pyro_options.infer import Exponential, TrainConfig, Trainer
from pyro_options.options import AutoregressivePath, StructuredPath
from pyro_options.options.estimators import joint_log_prob

ESTIMATORS = (
    "exact",
    "paper",
    "straight-through",
    "gumbel-rao",
    "stick-the-landing",
    "score-function",
    "leave-one-out",
    "importance-weighted",
    "wake-sleep",
    "relaxed",
    "relaxed-marginal",
)

Problem = Literal["small", "breakout"]


class Size(NamedTuple):
    """How large a problem is, and how it is trained."""

    episodes: int
    steps: int
    num_options: int
    batch: int
    learning_rate: float
    epochs: tuple[int, ...]  # at which is measured
    draws: int  # of each gradient
    lookahead: int  # of the structured guides, which would be exact if it covered an episode


SIZES = {
    "small": Size(48, 6, 3, 16, 1e-2, (0, 5, 15, 40, 100), 32, 1),
    "breakout": Size(60, 50, 4, 12, 5e-3, (0, 4, 12, 30, 80), 16, 4),
}


@dataclass(frozen=True)
class Args:
    """Judge gradient estimates."""

    problems: tuple[Problem, ...] = ("small",)
    data: Path | None = None
    """npz file of Breakout demonstrations with arrays ram, action and length"""
    estimators: tuple[str, ...] = ESTIMATORS
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epochs: tuple[int, ...] | None = None
    """at which is measured, the last one ends the training"""
    draws: int | None = None
    processes: int = 1
    out: Path = Path("benchmarks/results/estimators.json")
    figure: Path | None = Path("benchmarks/results/estimators.png")
    bound_figure: Path | None = Path("benchmarks/results/estimators_bounds.png")


def demonstrations(problem: str, file: Path | None, size: Size, seed: int) -> Trajectories:
    """Known options in short episodes, or the first steps of some Breakout games."""
    if problem == "small":
        return synthetic_options(
            3, size.episodes, (size.steps, size.steps), 3, 4, mean_duration=3, seed=seed
        ).trajectories
    assert file is not None, "Pass --data, a file of Breakout demonstrations."
    games = load_atari(file)
    order = torch.randperm(len(games), generator=torch.Generator().manual_seed(seed))[: size.episodes]
    return games[order].cut(size.steps)


class Judge:
    """Measures a model and a guide on one batch."""

    def __init__(self, trainer: Trainer, batch: Trajectories, draws: int):
        self.trainer, self.batch, self.draws = trainer, batch.alone().unpack(), draws
        self.model, self.guide = trainer.model, trainer.guide

    def log_weights(self) -> Tensor:
        return self.guide.weights.mean_log_weights()

    def evidence(self):
        """The factors of the joint density, with gradients."""
        return self.model.evidence(self.batch, self.log_weights())

    def log_marginal(self) -> Tensor:
        """log p(actions) in nats per step."""
        batch = self.batch
        actions = self.model.policy(batch.states).component_log_prob(batch.actions)
        return self.model.path(self.log_weights(), batch).log_marginal(actions).sum() / batch.num_steps

    def discrete(self):
        """The distribution of discrete paths that the guide stands for; ``None`` for the exact posterior."""
        guide, batch = self.guide, self.batch
        if guide.collapses:
            return None
        if hasattr(guide, "stepwise"):
            with torch.no_grad():
                evidence = self.evidence()
            message = guide.encoder(batch.states, batch.encoded_actions(), batch.mask, evidence)
            return StructuredPath(evidence, message, guide.lookahead)
        steps = (batch.states, batch.encoded_actions())
        context = guide.encoder.context(steps, batch.mask, self.log_weights())
        decoder, K = guide.encoder.decoder(), guide.encoder.num_options
        return AutoregressivePath(decoder, context, K, batch.mask, guide.coupled, guide.infer_first)

    @torch.no_grad()
    def divergence(self) -> float:
        """KL(q || posterior) in nats per step, by draws from q."""
        found = self.discrete()
        if found is None:
            return 0.0
        several = found.expand([8 * self.draws, len(self.batch)])
        paths = several.sample()
        elbo = (joint_log_prob(self.evidence(), paths) - several.log_prob(paths)).sum(-1).mean() / self.batch.num_steps
        return float(self.log_marginal() - elbo)

    def own_gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Objective ``(R,)`` and its gradients by model ``(R, P)`` and guide ``(R, Q)``, over draws."""
        values, by_model, by_guide = [], [], []
        for _ in range(self.draws):
            self.model.zero_grad(set_to_none=True)
            self.guide.zero_grad(set_to_none=True)
            scaled = poutine.scale(scale=1 / self.batch.num_steps)
            with pyro.get_param_store().scope(), scaled:
                guide = self.trainer.temper(self.guide)
                values.append(-TraceGraph_ELBO().loss_and_grads(adapt(self.model, self.guide), guide, self.batch))
            by_model.append(-flat_gradient(self.model))
            by_guide.append(-flat_gradient(encoder_of(self.guide)))
        return torch.tensor(values), torch.stack(by_model), torch.stack(by_guide)

    def exact_gradient(self) -> Tensor:
        """Of log p(actions) by the model."""
        self.model.zero_grad(set_to_none=True)
        self.log_marginal().backward()
        return flat_gradient(self.model)

    def exact_guide_gradient(self) -> Tensor:
        """Of the ELBO by the guide, over all paths."""
        found = self.discrete()
        self.guide.zero_grad(set_to_none=True)
        with torch.no_grad():
            evidence = self.evidence()
        paths = all_paths(*evidence.emission.shape[-2:]).unsqueeze(1)  # (M, 1, T, K + 1)
        shape = [len(paths), len(self.batch)]
        log_q = found.expand(shape).log_prob(paths.expand(*shape, *paths.shape[-2:]))
        log_p = joint_log_prob(evidence, paths)
        ((log_q.exp() * (log_p - log_q)).sum() / self.batch.num_steps).backward()
        return flat_gradient(encoder_of(self.guide))

    def measure(self, enumerated: bool) -> dict[str, Any]:
        """All figures at the present parameters."""
        values, by_model, by_guide = self.own_gradients()
        found = {
            "log_marginal": float(self.log_marginal().detach()),
            "objective": float(values.mean()),
            "objective_error": float(values.std() / len(values) ** 0.5),
            "divergence": self.divergence(),
            "model_gradient": compared(by_model, self.exact_gradient()),
        }
        if enumerated and not self.guide.collapses:
            found["guide_gradient"] = compared(by_guide, self.exact_guide_gradient())
        return found


def encoder_of(guide: nn.Module) -> nn.Module:
    """The part of a guide that infers paths."""
    return getattr(guide, "encoder", guide)


def flat_gradient(module: nn.Module) -> Tensor:
    """The gradients of all parameters in a row; zero for those without."""
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]
    return torch.cat([part.flatten() for part in parts]).clone() if parts else torch.zeros(1)


def compared(draws: Tensor, exact: Tensor) -> dict[str, float]:
    """Bias and variance of draws ``(R, P)`` relative to an exact gradient, and the cosine of their mean with it."""
    mean, norm = draws.mean(0), exact.square().sum().clamp(min=1e-20)
    variance = draws.var(0).sum()
    squared = ((mean - exact).square().sum() - variance / len(draws)).clamp(min=0)
    cosine = torch.nn.functional.cosine_similarity(mean, exact, dim=0)
    return {
        "bias": float((squared / norm).sqrt()),
        "variance": float(variance / norm),
        "cosine": float(cosine),
        "norm": float(norm.sqrt()),
    }


def all_paths(num_steps: int, num_options: int) -> Tensor:
    """Every path that the model allows, ``(M, T, K + 1)``."""
    found = []
    for first in range(num_options):
        for moves in itertools.product(range(num_options + 1), repeat=num_steps - 1):  # K: the option continues
            path, option = torch.zeros(num_steps, num_options + 1), first
            path[0, 0] = 1
            for t, move in enumerate((num_options, *moves)):
                path[t, 0] = float(t == 0 or move < num_options)
                option = move if move < num_options else option
                path[t, 1 + option] = 1
            found.append(path)
    return torch.stack(found)


def run(
    problem: str,
    estimator: str,
    seed: int,
    data: str | None,
    epochs: list[int],
    draws: int,
    *,
    file: Path | None = None,
) -> dict[str, Any]:
    """Trains a guide, and measures it on the way.

    :param data: the name of ``file``, for the record
    """
    size, start = SIZES[problem], time.process_time()
    demos = demonstrations(problem, file, size, seed)
    torch.manual_seed(seed)
    settings: dict[str, Any] = {"num_options": size.num_options, "lookahead": size.lookahead}
    method = build(None, demos, guide=estimator, prior="uniform", **settings)
    own = GUIDES[estimator].temperatures
    cooling = Exponential(1.0, 0.98, floor=0.1) if own is None else Exponential.between(*own, epochs[-1])
    settings = {"batch_size": size.batch, "learning_rate": size.learning_rate, "temperature": cooling}
    config = TrainConfig(epochs=epochs[-1], seed=seed, device="cpu", progress=False, **settings)
    trainer = Trainer(method.model, method.guide, demos, config)
    judge = Judge(trainer, demos[: size.batch], draws)
    curve = []
    for epoch in epochs:
        trainer.run(epoch - trainer.epoch)
        measured = judge.measure(enumerated=problem == "small")
        curve.append({"epoch": epoch, "updates": trainer.num_steps, "seconds": trainer.history.seconds} | measured)
    return {"curve": curve, "seconds": time.process_time() - start}


def drawn_figure(rows: list[dict], path: Path) -> None:
    """Gap, divergence, bias and variance over updates; a row of panels for each problem."""
    panels = {
        "log p − objective": lambda point: point["log_marginal"] - point["objective"],
        "KL(q ‖ posterior)": lambda point: point["divergence"],
        "gradient by the model: bias": lambda point: point["model_gradient"]["bias"],
        "gradient by the model: variance": lambda point: point["model_gradient"]["variance"],
    }
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    names = [name for name in dict.fromkeys(row["estimator"] for row in rows) if name != "exact"]
    colors = viz.plt.get_cmap("tab10").colors
    with viz.style():
        fig, axes = viz.plt.subplots(
            len(problems), 4, figsize=(2 * viz.PAGE, 3.1 * len(problems)), squeeze=False, layout="constrained"
        )
        for number, (line, problem) in enumerate(zip(axes, problems)):
            for axis, (title, value) in zip(line, panels.items()):
                for name, color in zip(names, colors):
                    x, y = curve_of([row for row in rows if row["problem"] == problem], name, value)
                    axis.plot(x, y, label=name, color=color, marker="o", markersize=2.5)
                axis.set_title(title if number == 0 else "")
                axis.set_xlabel("updates")
                axis.set_yscale("symlog", linthresh=0.01)
            line[0].set_ylabel(f"{problem}, nats per step")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=5)
        save(fig, path)


def curve_of(rows: list[dict], name: str, value) -> tuple[list[float], list[float]]:
    """Updates, and the median over seeds of a figure."""
    curves = [row["curve"] for row in rows if row["estimator"] == name]
    points = list(zip(*curves))
    return [point[0]["updates"] for point in points], [
        float(torch.tensor([value(one) for one in point]).median()) for point in points
    ]


def drawn_bounds(rows: list[dict], path: Path) -> None:
    """Each guide's own objective minus log p, with three standard errors: a bound stays below zero."""
    names = ("paper", "relaxed", "relaxed-marginal")
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    with viz.style():
        fig, axes = viz.plt.subplots(1, len(problems), figsize=(viz.PAGE, 3.2), squeeze=False, layout="constrained")
        for axis, problem in zip(axes[0], problems):
            for name, color in zip(names, viz.plt.get_cmap("tab10").colors):
                mine = [row for row in rows if row["problem"] == problem and row["estimator"] == name]
                for number, row in enumerate(mine):
                    x = [point["updates"] for point in row["curve"]]
                    y = [point["objective"] - point["log_marginal"] for point in row["curve"]]
                    error = [3 * point["objective_error"] for point in row["curve"]]
                    label = name if number == 0 else None
                    axis.errorbar(x, y, error, label=label, color=color, linewidth=0.8, elinewidth=0.8)
            axis.axhline(0, color="black", linewidth=0.8)
            axis.set_title(problem)
            axis.set_xlabel("updates")
        axes[0, 0].set_ylabel("objective − log p, nats per step")
        axes[0, 0].legend()
        save(fig, path)


def save(fig, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path)
    viz.plt.close(fig)


def main(args: Args) -> list[dict]:
    grid = {}
    for problem, seed, estimator in product(args.problems, args.seeds, args.estimators):
        size = SIZES[problem]
        settings = {"problem": problem, "estimator": estimator, "seed": seed, "epochs": args.epochs or size.epochs}
        name = None if args.data is None or problem == "small" else args.data.name
        grid[f"{problem}, {estimator}, seed {seed}"] = settings | {"data": name, "draws": args.draws or size.draws}
    rows = run_grid(partial(run, file=args.data), grid, args.out, args.processes)
    if args.figure is not None:
        drawn_figure(rows, args.figure)
    if args.bound_figure is not None:
        drawn_bounds(rows, args.bound_figure)
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
