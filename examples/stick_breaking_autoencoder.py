"""A stick-breaking autoencoder, which infers the number of latent dimensions (Nalisnick and Smyth, 2017).

The latent code of an image is a vector of stick-breaking weights, with Kumaraswamy sticks from an encoder. The first
sticks take most of the mass, so dimensions are ordered and the last ones stay unused. Run it with::

    python examples/stick_breaking_autoencoder.py

It prints a table and writes ``results.json`` and ``stick_breaking_autoencoder.png`` to ``--out``. The data are the
digits of scikit-learn, 8 × 8 pixels with values 0 to 16, so the likelihood is Binomial.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import pyro
import torch
import tyro
from pyro import distributions as dist
from pyro.infer import TraceGraph_ELBO
from pyro.nn import PyroModule
from sklearn.datasets import load_digits
from torch import Tensor, nn

from pyro_options import viz
from pyro_options.distributions import LogitKumaraswamy, gem_sticks, log_stick_breaking
from pyro_options.experiments import write_results

LEVELS = 16


class StickBreakingDecoder(PyroModule):
    """The model p: the weights of each image from GEM(α), pixels from a network on the weights."""

    def __init__(self, num_components: int, hidden: int, alpha: float, num_pixels: int = 64):
        super().__init__()
        self.num_components = num_components
        self.register_buffer("alpha", torch.tensor(alpha))
        self.network = nn.Sequential(nn.Linear(num_components, hidden), nn.ReLU(), nn.Linear(hidden, num_pixels))

    def logits(self, sticks: Tensor) -> Tensor:
        weights = log_stick_breaking(sticks, remainder=True).exp()
        return self.network(self.num_components * weights)  # scaled to order 1 for the linear layer

    def forward(self, images: Tensor, population: int) -> None:
        pyro.module("decoder", self)
        with pyro.plate("images", population, subsample=torch.arange(len(images))):
            prior = gem_sticks(self.alpha, self.num_components - 1).expand([len(images)])
            sticks = pyro.sample("sticks", prior)
            pyro.sample("pixels", dist.Binomial(LEVELS, logits=self.logits(sticks)).to_event(1), obs=images)


class StickBreakingEncoder(PyroModule):
    """The guide q: Kumaraswamy sticks from a network on the image."""

    def __init__(self, num_components: int, hidden: int, num_pixels: int = 64):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(num_pixels, hidden), nn.ReLU(), nn.Linear(hidden, 2 * (num_components - 1))
        )

    def sticks(self, images: Tensor) -> LogitKumaraswamy:
        a, b = nn.functional.softplus(self.network(images / LEVELS) + 1).add(1e-3).chunk(2, -1)
        return LogitKumaraswamy(a, b)

    def forward(self, images: Tensor, population: int) -> None:
        pyro.module("encoder", self)
        with pyro.plate("images", population, subsample=torch.arange(len(images))):
            pyro.sample("sticks", self.sticks(images).to_event(1))


@dataclass(frozen=True)
class Args:
    """Train a stick-breaking autoencoder on digits."""

    num_components: int = 30
    """truncation of the weights"""
    alpha: float = 5.0
    """concentration of the prior; higher values use more dimensions"""
    hidden: int = 128
    epochs: int = 100
    batch_size: int = 200
    learning_rate: float = 5e-3
    seed: int = 0
    out: Path = Path("out/stick_breaking_autoencoder")
    """folder for results"""


@torch.no_grad()
def bound(decoder, encoder, images: Tensor, draws: int = 10) -> float:
    """The ELBO in nats per image."""
    losses = [TraceGraph_ELBO().loss(decoder, encoder, images, len(images)) for _ in range(draws)]
    return -sum(losses) / draws / len(images)


def train(args: Args, images: Tensor, held_out: Tensor) -> tuple[PyroModule, PyroModule, dict]:
    torch.manual_seed(args.seed)
    decoder = StickBreakingDecoder(args.num_components, args.hidden, args.alpha)
    encoder = StickBreakingEncoder(args.num_components, args.hidden)
    optimizer = torch.optim.Adam([*decoder.parameters(), *encoder.parameters()], lr=args.learning_rate)
    start, curve = time.perf_counter(), []
    with pyro.get_param_store().scope():
        for _ in range(args.epochs):
            for index in torch.randperm(len(images)).split(args.batch_size):
                optimizer.zero_grad()
                loss = TraceGraph_ELBO().loss_and_grads(decoder, encoder, images[index], len(images))
                nn.utils.clip_grad_norm_([*decoder.parameters(), *encoder.parameters()], 1e4)
                optimizer.step()
            curve.append(-loss / len(images))
        usage = log_stick_breaking(torch.logit(encoder.sticks(held_out).mean_stick), remainder=True).exp().detach()
        results = {
            "elbo_train": bound(decoder, encoder, images),
            "elbo_held_out": bound(decoder, encoder, held_out),
            "used_dimensions": int((usage.mean(0) > 0.01).sum()),
            "num_components": args.num_components,
            "mean_weights": usage.mean(0).tolist(),
            "curve": curve,
            "seconds": time.perf_counter() - start,
        }
    return decoder, encoder, results


@torch.no_grad()
def figure(decoder, encoder, images: Tensor, results: dict, path: Path) -> None:
    sticks = torch.logit(encoder.sticks(images).mean_stick.clamp(1e-6, 1 - 1e-6))
    rebuilt = torch.sigmoid(decoder.logits(sticks))
    drawn = torch.sigmoid(decoder.logits(gem_sticks(decoder.alpha, decoder.num_components - 1).sample((len(images),))))
    with viz.style():
        fig = viz.plt.figure(figsize=(viz.PAGE, 2.5), layout="constrained")
        left, right = fig.subfigures(1, 2, width_ratios=[1.5, 1])
        axes = left.subplots(3, len(images))
        for row, (name, pictures) in zip(
            axes, {"digit": images / LEVELS, "rebuilt": rebuilt, "from prior": drawn}.items()
        ):
            for ax, picture in zip(row, pictures):
                ax.imshow(picture.reshape(8, 8).numpy(), cmap="gray_r", vmin=0, vmax=1)
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set_visible(False)
            row[0].set_ylabel(name)
        ax = right.subplots()
        weights = torch.tensor(results["mean_weights"])
        used = weights > 0.01
        ax.bar(range(len(weights)), weights.numpy(), color=[viz.PALETTE[0] if u else "0.8" for u in used])
        ax.set(xlabel="dimension", ylabel="mean weight, held out", title=f"{int(used.sum())} dimensions in use")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    images = torch.tensor(load_digits().data, dtype=torch.float32)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(args.seed))
    images, held_out = images[order[:1500]], images[order[1500:]]
    decoder, encoder, results = train(args, images, held_out)
    write_results(args.out / "results.json", results)
    figure(decoder, encoder, held_out[:8], results, args.out / "stick_breaking_autoencoder.png")
    for key in ("elbo_train", "elbo_held_out", "used_dimensions", "num_components", "seconds"):
        print(f"{key:<18}{results[key]:.5g}")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
