"""Mouse decisions: states and weights that discovery finds, against a sweep of EM over the number of states::

    python benchmarks/mouse_decisions.py
    python benchmarks/mouse_decisions.py --seeds 100 --sweep-seeds --out /tmp/mouse.json

An animal is 45 simulated sessions of about 200 binary choices, from a GLM-HMM with three states (Ashwood et al. 2022).
``discover`` is given linear policies and not K; :func:`~pyro_options.skills.laplace` then gives every weight a standard
error. Beside it EM, told K = 3, from 20 starts (``em``), and for the animals of ``--sweep-seeds`` the sweep that the
field runs: K = 2 to 5, 5 folds, 20 starts each, one after the other (``sweep``). All times are processor seconds of
one thread on the same machine; compilation is excluded from both. The likelihood of one step of a session given all
weights is the same model in both, except that EM has a full transition matrix.
"""

import time
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
import tyro
from glm_hmm_em import Sessions, best_of, fit_em, posterior, sweep

from pyro_options import discover
from pyro_options.data import Decisions, simulated_decisions
from pyro_options.experiments import run_grid
from pyro_options.skills import label_scores, laplace


@dataclass(frozen=True)
class Args:
    """Fit simulated animals."""

    seeds: tuple[int, ...] = tuple(range(10))
    sweep_seeds: tuple[int, ...] = (0,)
    """animals whose K is also chosen by EM and cross-validation"""
    num_sessions: int = 45
    counts: tuple[int, ...] = (2, 3, 4, 5)
    """K of the sweep"""
    folds: int = 5
    starts: int = 20
    """of EM for every K and fold"""
    processes: int = 1
    out: Path = Path("benchmarks/results/mouse_decisions.json")


def sessions_of(truth: Decisions) -> Sessions:
    """The same data for EM, with a column of ones."""
    data = truth.trajectories
    inputs = data.states[data.mask].double().numpy()
    ones = np.ones((len(inputs), 1))
    return Sessions(np.hstack([inputs, ones]), data.actions[data.mask].numpy(), data.lengths.cumsum(0).numpy())


def matched(weights: np.ndarray, true: np.ndarray) -> list[int]:
    """The found state for each true one that makes the weights most alike."""
    orders = permutations(range(len(weights)), len(true))
    return list(min(orders, key=lambda order: np.square(weights[list(order)] - true).sum()))


def accuracy(found: torch.Tensor, truth: Decisions) -> float:
    """Share of the trials whose state is the true one, for the best naming."""
    return label_scores(found, truth.states, truth.trajectories.mask).accuracy


def discovered(truth: Decisions, seed: int) -> dict:
    """Discovery with K open, then intervals."""
    data = truth.trajectories
    start = time.process_time()
    skills = discover(data, hidden=(), weight_scale="auto", seed=seed, device="cpu", progress=False).used()
    middle = time.process_time()
    fit = laplace(skills, data, constant_terminations=True)
    end = time.process_time()
    row = {
        "num_states": skills.num_options,
        "options_in_use": skills.metadata["options_in_use"],
        "accuracy": accuracy(fit.skills.segment(data, "posterior").options, truth),
        "log_likelihood_per_trial": fit.log_likelihood / data.num_steps,
        "discover_seconds": middle - start,
        "laplace_seconds": end - middle,
    }
    true = truth.weights.numpy()
    if skills.num_options < len(true):
        return row
    weights, errors = (
        torch.cat([part.weight[:, 0], part.bias], -1).numpy() for part in (fit.mean, fit.error)
    )  # (K, 4): the three inputs, then the bias
    order = matched(weights, true)
    deviations = (weights[order] - true) / errors[order]
    return row | {
        "weights": weights[order].tolist(),
        "standard_errors": errors[order].tolist(),
        "within_two_errors": int((np.abs(deviations) <= 2).sum()),
        "coefficients": deviations.size,
    }


def run(part: str, seed: int, num_sessions: int, counts: tuple[int, ...], folds: int, starts: int) -> dict:
    """One way to fit one animal."""
    truth = simulated_decisions(seed, num_sessions)
    if part == "discover":
        warm_up = simulated_decisions(seed, 4).trajectories
        small = discover(warm_up, hidden=(), epochs=1, num_options=2, device="cpu", progress=False)
        laplace(small, warm_up, constant_terminations=True)
        return discovered(truth, seed)
    data = sessions_of(truth)
    fit_em(data, 2, np.random.default_rng(0), max_iter=2)
    start = time.process_time()
    if part == "sweep":
        scores = sweep(data, tuple(counts), folds, starts, seed)
        best = max(scores, key=lambda K: np.mean(scores[K]))
        seconds = time.process_time() - start
        return {"num_states": best, "held_out_nats": {str(K): scores[K] for K in scores}, "seconds": seconds}
    fit = best_of(data, 3, starts, np.random.default_rng(seed))
    seconds = time.process_time() - start
    states = torch.full(truth.states.shape, -1)
    states[truth.trajectories.mask] = torch.from_numpy(posterior(fit, data).argmax(-1))
    order = matched(fit.weights, truth.weights.numpy())
    return {
        "weights": fit.weights[order].tolist(),
        "transitions": fit.transitions[np.ix_(order, order)].tolist(),
        "accuracy": accuracy(states, truth),
        "log_likelihood_per_trial": fit.log_likelihood / data.num_steps,
        "seconds": seconds,
    }


def summary(rows: list[dict]) -> list[str]:
    """What the bars ask for."""
    ours = [row for row in rows if row["part"] == "discover"]
    em = {row["seed"]: row for row in rows if row["part"] == "em"}
    inside, all_ = (sum(row.get(key, 0) for row in ours) for key in ("within_two_errors", "coefficients"))
    right = sum(row["num_states"] == 3 for row in ours)
    seconds = [row["discover_seconds"] + row["laplace_seconds"] for row in ours]
    lines = [
        f"K = 3 in {right} of {len(ours)}",
        f"weights within two standard errors: {inside} of {all_} ({100 * inside / max(1, all_):.1f} %)",
        f"processor seconds of one animal: {np.mean(seconds):.1f} (most {max(seconds):.1f})",
    ]
    pairs = [(row, em[row["seed"]]) for row in ours if row["seed"] in em]
    if pairs:
        mine, theirs = (np.mean([pair[i]["accuracy"] for pair in pairs]) for i in (0, 1))
        lines.append(f"accuracy of states: {mine:.3f}, EM told K = 3: {theirs:.3f}")
    for row in rows:
        if row["part"] == "sweep":
            lines.append(f"EM sweep of animal {row['seed']}: K = {row['num_states']} in {row['seconds']:.1f} seconds")
    return lines


def main(args: Args) -> list[dict]:
    settings = {name: getattr(args, name) for name in ("num_sessions", "counts", "folds", "starts")}
    jobs = [(part, seed) for seed in args.seeds for part in ("discover", "em")]
    jobs += [("sweep", seed) for seed in args.sweep_seeds]
    grid = {f"{part}, animal {seed}": {"part": part, "seed": seed} | settings for part, seed in jobs}
    rows = run_grid(run, grid, args.out, args.processes)
    print("\n".join(summary(rows)))
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
