"""Growth beyond mixtures of rows: the right number of components, and what memory of the last option gains.

- ``found``: K at the end of the examples ``infinite_hmm.py`` (4 states), ``hdp_topics.py`` (5 topics) and
  ``regressions.py`` (4 lines), of five overlapping Poissons, and of six Gaussians in a row, three standard deviations
  apart. For the Poissons, the held-out log-likelihood of maximum likelihood fits with 4, 5 and 6 components shows that
  the data ask for five. For the Gaussians, the adjusted Rand index of 2000 other rows is compared with the best of ten
  starts of scikit-learn's ``BayesianGaussianMixture`` and ``GaussianMixture``, which are told that there are six.
- ``memory``: ``sticky_options.py``, held-out nats of options with transitions against η without memory, on the same
  episodes, with options in a cycle and in no order.

Run it with::

    python benchmarks/growing_models.py

Every run is written to ``--out`` as soon as it is done, and finished runs are not repeated.
"""

import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pyro
import torch
import tyro
from pyro import distributions as dist
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from torch import nn

from pyro_options.distributions import Mixture
from pyro_options.experiments import run_grid
from pyro_options.growth import Growable, Merge, Prune, SplitBirth, TrialRule, reweight
from pyro_options.guides import GrowableGEM, MixtureWeights
from pyro_options.handlers import GrowthMessenger
from pyro_options.infer import MixtureConfig, MixtureTrainer, train_growing
from pyro_options.mixtures import GaussianComponents
from pyro_options.models import GEM, DPMixture

EXAMPLES = Path(__file__).parents[1] / "examples"
RATES = (2.0, 8.0, 18.0, 32.0, 50.0)  # one standard deviation and a half from each other: neighbours overlap
NUM_GAUSSIANS, SPACING = 6, 3.0
EXPECTED = {"infinite_hmm": 4, "hdp_topics": 5, "regressions": 4, "poissons": len(RATES), "gaussians": NUM_GAUSSIANS}


@dataclass(frozen=True)
class Args:
    """Count components, and compare options with and without memory."""

    seeds: tuple[int, ...] = tuple(range(5))
    models: tuple[str, ...] = (*EXPECTED, "sticky_options")
    scale: float = 1.0
    """share of the updates of every training, for a quick run"""
    processes: int = 1
    """runs at a time, each on one thread"""
    out: Path = Path("benchmarks/results/growing_models.json")


class Poissons(Growable, pyro.nn.PyroModule):
    """A mixture of Poissons."""

    component_axes = {"log_rate": 0}

    def __init__(self, num_components: int):
        super().__init__()
        self.log_rate, self.prior = nn.Parameter(2 + torch.randn(num_components)), GEM()

    def fresh(self, name, count):
        return torch.randn(count)

    def forward(self, counts, log_weights=None):
        if log_weights is None:
            log_weights = self.prior(self.num_components)
        with pyro.plate("rows", len(counts)):
            pyro.sample("counts", Mixture(log_weights, dist.Poisson(self.log_rate.exp())), obs=counts)


def best_likelihood(train: torch.Tensor, held_out: torch.Tensor, num_components: int) -> float:
    """Nats per held-out row of the best of ten maximum likelihood fits by expectation maximization."""
    best, found = -torch.inf, torch.tensor(0.0)
    for _ in range(10):
        rates = train[torch.randperm(len(train))[:num_components]].double() + torch.rand(num_components)
        log_weights = torch.zeros(num_components).double()
        for _ in range(500):
            mixture = Mixture(torch.log_softmax(log_weights, -1), dist.Poisson(rates))
            shares = mixture.responsibilities(train)
            log_weights = torch.log(shares.sum(0).clamp(min=1e-9))
            rates = (shares.T @ train.double()) / shares.sum(0).clamp(min=1e-9) + 1e-6
        mixture = Mixture(torch.log_softmax(log_weights, -1), dist.Poisson(rates))
        if float(mixture.log_prob(train).sum()) > best:
            best, found = float(mixture.log_prob(train).sum()), mixture.log_prob(held_out).mean()
    return float(found)


def poissons(seed: int, scale: float) -> dict:
    """K after growth from eight components on 1500 counts, judged by 500 others."""
    torch.manual_seed(seed)
    counts = torch.poisson(torch.tensor(RATES)[torch.randint(len(RATES), (2000,))])
    train, held_out, updates = counts[:1500], counts[1500:], max(1, round(400 * scale))
    model, guide = Poissons(8), MixtureWeights(GrowableGEM(8))
    reweight([guide], torch.zeros(8))
    schedule = {"every": 40, "settle": 3, "length": updates, "site": "counts"}
    birth, removals = SplitBirth(noise=0.3, halve=True), [Prune(), Merge()]
    growth = GrowthMessenger([model, guide], TrialRule(), birth, removals, **schedule)
    train_growing(model, guide, train, growth, updates, held_out=held_out)
    others = torch.poisson(torch.tensor(RATES)[torch.randint(len(RATES), (20_000,))])
    fits = {f"nats_of_{K}": best_likelihood(counts, others, K) for K in (4, 5, 6)} if scale == 1 else {}
    return {"num_components": growth.num_components, "rates": sorted(model.log_rate.exp().tolist())} | fits


def draw_gaussians(rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``(N, 1)`` of Gaussians in a row, and the Gaussian of each."""
    labels = rng.integers(NUM_GAUSSIANS, size=number)
    return SPACING * labels[:, None] + rng.normal(size=(number, 1)), labels


def gaussians(seed: int, scale: float) -> dict:
    """K after growth from one component on 600 rows, and the adjusted Rand index of 2000 others."""
    rng = np.random.default_rng(seed)
    (rows, _), (others, labels) = draw_gaussians(rng, round(600 * scale)), draw_gaussians(rng, 2000)
    train = torch.tensor(rows, dtype=torch.float32)
    torch.manual_seed(seed)
    model, guide = DPMixture(GaussianComponents(train)), MixtureWeights(GrowableGEM(1))
    MixtureTrainer(model, guide, train, MixtureConfig(seed=seed)).run()
    found = model.labels(torch.tensor(others, dtype=torch.float32), guide.weights.mean_log_weights().detach())
    told = {"n_components": NUM_GAUSSIANS, "max_iter": 1000}
    bayesian = [BayesianGaussianMixture(**told, random_state=start).fit(rows) for start in range(10)]
    best = max(bayesian, key=lambda fit: fit.lower_bound_)
    likely = GaussianMixture(**told, n_init=10, random_state=0).fit(rows)
    ari = {"ari": adjusted_rand_score(labels, found), "ari_bayesian": adjusted_rand_score(labels, best.predict(others))}
    ari["ari_likelihood"] = adjusted_rand_score(labels, likely.predict(others))
    return {"num_components": model.num_components, "not_below": ari["ari"] >= ari["ari_bayesian"]} | ari


def run(model: str, seed: int, scale: float) -> dict:
    """One training; the examples run with their defaults, or fewer updates."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    if model in ("poissons", "gaussians"):
        results = (poissons if model == "poissons" else gaussians)(seed, scale)
    else:
        sys.path.insert(0, str(EXAMPLES))
        example = __import__(model)
        length = "epochs" if model == "sticky_options" else "updates"
        updates = max(1, round(getattr(example.Args(), length) * scale))
        with tempfile.TemporaryDirectory() as folder:
            results = example.main(example.Args(seed=seed, out=Path(folder), **{length: updates}))
    found = {"passed": results["num_components"] == EXPECTED[model]} if model in EXPECTED else {}
    return results | found | {"seconds": time.perf_counter() - start}


def main(args: Args) -> list[dict]:
    pairs = product(args.models, args.seeds)
    grid = {f"{model}, seed {seed}": {"model": model, "seed": seed, "scale": args.scale} for model, seed in pairs}
    rows = run_grid(run, grid, args.out, args.processes)
    for model in args.models:
        mine = [row for row in rows if row["model"] == model]
        if model in EXPECTED:
            sizes = [row["num_components"] for row in mine]
            print(f"{model}: {sum(row['passed'] for row in mine)} of {len(mine)} find {EXPECTED[model]}: {sizes}")
            if model == "gaussians":
                for key in ("ari", "ari_bayesian", "ari_likelihood"):
                    print(f"{model}, {key}: {', '.join(f'{row[key]:.3f}' for row in mine)}")
        else:
            for kind in ("a cycle", "no order"):
                gains = [f"{row[kind]['gain_per_step']:.4f} ± {row[kind]['standard_error']:.4f}" for row in mine]
                print(f"{model}, {kind}: gain from memory in held-out nats per step {', '.join(gains)}")
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
