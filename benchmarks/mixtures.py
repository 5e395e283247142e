"""Dirichlet-process Gaussian mixtures against scikit-learn's BayesianGaussianMixture.

Ours starts from one component and infers K; scikit-learn's gets a truncation above the true number, and the best of
several starts by its lower bound. Both are evaluated on held-out rows: log-density per row and adjusted Rand index. For
scikit-learn the better of its ``score`` and the plug-in density at its estimates counts. Run it with::

    python benchmarks/mixtures.py --json benchmarks/results/mixtures.json

Finished runs are saved in the file and not repeated; a table is written beside it.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture
from sklearn.model_selection import train_test_split

from pyro_options.experiments import unfinished_results, write_results
from pyro_options.guides import GrowableGEM, MixtureWeights
from pyro_options.infer import MixtureConfig, MixtureTrainer, component_counts
from pyro_options.mixtures import GaussianComponents
from pyro_options.models import DPMixture

REAL = {"iris": datasets.load_iris, "wine": datasets.load_wine, "digits-pca": datasets.load_digits}


@dataclass(frozen=True)
class Args:
    """Compare mixtures with scikit-learn."""

    clusters: tuple[int, ...] = (3, 10, 30)
    """numbers of clusters of the synthetic data sets"""
    real: tuple[str, ...] = ("iris", "wine")
    """among iris, wine and digits-pca"""
    seeds: tuple[int, ...] = tuple(range(10))
    starts: int = 10
    """initializations of scikit-learn"""
    covariance: Literal["full", "diagonal"] = "full"
    """of the components of both"""
    rows_per_cluster: int = 100
    json: Path = Path("benchmarks/results/mixtures.json")


def synthetic(num_clusters: int, rows_per_cluster: int, seed: int):
    """Gaussians in the plane with random covariances and means at least 5 apart: training and held-out rows, labels."""
    rng = np.random.default_rng(seed)
    factors = np.tril(rng.normal(size=(num_clusters, 2, 2))) * 0.4 + 0.6 * np.eye(2)
    means: list[np.ndarray] = []
    while len(means) < num_clusters:
        candidate = rng.uniform(-1, 1, size=2) * 4 * num_clusters**0.5
        if all(np.linalg.norm(candidate - other) > 5 for other in means):
            means.append(candidate)

    def draw(number):
        labels = rng.integers(num_clusters, size=number)
        rows = np.array(means)[labels] + np.einsum("nij,nj->ni", factors[labels], rng.normal(size=(number, 2)))
        return rows, labels

    (rows, labels), (held, held_labels) = draw(rows_per_cluster * num_clusters), draw(2000)
    return rows, held, labels, held_labels


def real(name: str, seed: int):
    """A standardized real data set with a quarter held out; digits as their first 10 principal components."""
    rows, labels = REAL[name](return_X_y=True)
    if name == "digits-pca":
        rows = PCA(10, random_state=0).fit_transform(rows)
    rows = (rows - rows.mean(0)) / rows.std(0)
    return train_test_split(rows, labels, test_size=0.25, random_state=seed, stratify=labels)


def ours(rows, held, held_labels, seed: int, covariance: str) -> dict:
    train, test = (torch.tensor(x, dtype=torch.float32) for x in (rows, held))
    start = time.process_time()
    torch.manual_seed(seed)
    model = DPMixture(GaussianComponents(train, covariance=covariance))
    trainer = MixtureTrainer(model, MixtureWeights(GrowableGEM(1)), train, MixtureConfig(seed=seed))
    trainer.run()
    seconds = time.process_time() - start
    guide, history = trainer.guide, trainer.history
    log_weights = guide.weights.mean_log_weights().detach()
    counts = component_counts(model, guide, train, num_draws=20, min_points=2)
    return {
        "held_out": float(model.predictive_log_prob(test, log_weights).mean()),
        "ari": float(adjusted_rand_score(held_labels, model.labels(test, log_weights))),
        "bound": float(np.mean(history.elbo[-20:])),
        "components": model.num_components,
        "used": counts.mode,
        "births": len(history.growth_steps),
        "steps": len(history.elbo),
        "cpu_seconds": seconds,
    }


def plug_in(fitted, held) -> float:
    parts = zip(fitted.weights_, fitted.means_, fitted.covariances_)
    whole = ((w, m, c if c.ndim == 2 else np.diag(c)) for w, m, c in parts)
    densities = [np.log(w + 1e-300) + multivariate_normal.logpdf(held, m, c) for w, m, c in whole]
    return float(logsumexp(densities, axis=0).mean())


def theirs(rows, held, held_labels, truncation: int, starts: int, covariance: str) -> dict:
    settings = {
        "n_components": truncation,
        "covariance_type": {"full": "full", "diagonal": "diag"}[covariance],
        "weight_concentration_prior_type": "dirichlet_process",
        "max_iter": 1000,
    }
    start = time.process_time()
    fits = [BayesianGaussianMixture(**settings, random_state=s).fit(rows) for s in range(starts)]
    best = max(fits, key=lambda fit: fit.lower_bound_)
    return {
        "held_out": max(float(best.score(held)), plug_in(best, held)),
        "held_out_score": float(best.score(held)),
        "ari": float(adjusted_rand_score(held_labels, best.predict(held))),
        "used": int((np.bincount(best.predict(rows), minlength=truncation) >= 2).sum()),
        "truncation": truncation,
        "cpu_seconds": time.process_time() - start,
    }


def run(task: str, seed: int, args: Args) -> dict:
    if task.isdigit():
        rows, held, _, held_labels = synthetic(int(task), args.rows_per_cluster, seed)
        truncation = int(task) + 10
    else:
        rows, held, _, held_labels = real(task, seed)
        truncation = 20
    result = {"task": task, "seed": seed, "ours": ours(rows, held, held_labels, seed, args.covariance)}
    return result | {"sklearn": theirs(rows, held, held_labels, truncation, args.starts, args.covariance)}


def gaps(runs: list[dict], key: str) -> np.ndarray:
    """Ours minus scikit-learn's, for each seed."""
    return np.array([r["ours"][key] - r["sklearn"][key] for r in runs])


def row(task: str, runs: list[dict]) -> str:
    cells = [task, str(len(runs))]
    for key in ("held_out", "ari"):
        a, b = (np.mean([r[who][key] for r in runs]) for who in ("ours", "sklearn"))
        cells.append(f"{a:.3f}, {b:.3f}")
        behind = gaps(runs, key) < (-0.02 if key == "held_out" else 0)
        cells.append(f"{gaps(runs, key).min():+.3f}, {behind.sum()} of {len(runs)}")
    used = [[r[who]["used"] for r in runs] for who in ("ours", "sklearn")]
    cells.append(", ".join(f"{min(n)} to {max(n)}" for n in used))
    cells.append(", ".join(str(sum(k == int(task) for k in n)) for n in used) if task.isdigit() else "")
    return "| " + " | ".join(cells) + " |"


def table(runs: list[dict]) -> str:
    """Means over seeds, the worst difference, and the number of seeds where ours is worse (density: by > 0.02 nats)."""
    titles = ["data", "seeds", "log-density: ours, sklearn", "worst difference, behind"]
    titles += ["ARI: ours, sklearn", "worst difference, behind", "used: ours, sklearn", "exact number: ours, sklearn"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    tasks = sorted({r["task"] for r in runs}, key=lambda task: (not task.isdigit(), len(task), task))
    return "\n".join([*lines, *(row(task, [r for r in runs if r["task"] == task]) for task in tasks)])


def main(args: Args) -> list[dict]:
    torch.set_num_threads(1)
    runs = unfinished_results(args.json).get("runs", [])
    done = {(r["task"], r["seed"]) for r in runs}
    for seed in args.seeds:
        for task in [*map(str, args.clusters), *args.real]:
            if (task, seed) not in done:
                runs.append(run(task, seed, args))
                write_results(args.json, {"runs": runs})
    args.json.with_suffix(".md").write_text(table(runs) + "\n")
    print(table(runs))
    return runs


if __name__ == "__main__":
    main(tyro.cli(Args))
