"""Find the topics of documents that mix several, and how many there are: a hierarchical Dirichlet process.

The vocabulary is a 5 × 5 grid, every topic is one row or column of it (a bar), and every document has its own
proportions of topics. Unlike ``count_mixture.py``, where a document has one topic, its words come from several. Run
it with::

    python examples/hdp_topics.py
    python examples/hdp_topics.py --num-topics 8

It prints a table and writes ``results.json`` and ``hdp_topics.png`` (topics, true and inferred proportions, K over
training) to ``--out``.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from pyro_options import viz
from pyro_options.experiments import write_results
from pyro_options.growth import Merge, Prune, SplitBirth, TrialRule, reweight
from pyro_options.guides import GrowableGEM, MixtureWeights
from pyro_options.handlers import GrowthMessenger
from pyro_options.infer import train_growing
from pyro_options.mixtures import CountComponents
from pyro_options.models import HDPTopics

SIDE = 5


@dataclass(frozen=True)
class Args:
    """Find the topics of documents."""

    num_topics: int = 5
    """true number of topics, at most 10, unknown to the model"""
    num_documents: int = 300
    """a sixth of them to judge growth by"""
    num_words: int = 40
    """words per document"""
    evenness: float = 0.3
    """of the true proportions, a Dirichlet parameter: small values give documents of few topics"""
    initial_topics: int = 8
    """K at the start"""
    updates: int = 300
    every: int = 25
    """updates between growth checks"""
    seed: int = 0
    out: Path = Path("out/hdp_topics")
    """folder for results"""


def make_model(num_topics: int) -> tuple[HDPTopics, MixtureWeights]:
    """The model and its guide, with equal weights for all topics at the start."""
    model = HDPTopics(CountComponents(SIDE**2, num_topics))
    guide = MixtureWeights(GrowableGEM(num_topics))
    reweight([guide], torch.zeros(num_topics))
    return model, guide


def make_documents(args: Args) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Words ``(N, L)``, the proportions of each document ``(N, K)``, and the topics ``(K, 25)``."""
    bars = torch.zeros(2 * SIDE, SIDE, SIDE)
    for i in range(SIDE):
        bars[2 * i, i], bars[2 * i + 1, :, i] = 1.0, 1.0
    words = 0.95 * bars[: args.num_topics].flatten(1) / SIDE + 0.05 / SIDE**2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(args.seed)
        even = torch.full((args.num_topics,), args.evenness)
        shares = torch.distributions.Dirichlet(even).sample((args.num_documents,))
        return torch.multinomial(shares @ words, args.num_words, replacement=True), shares, words


def matched(found: torch.Tensor, true: torch.Tensor) -> list[int]:
    """The inferred topic nearest to each true one, by total variation."""
    return (found.unsqueeze(0) - true.unsqueeze(1)).abs().sum(-1).argmin(-1).tolist()


def figure(args: Args, growth, sizes: list[int], topics: torch.Tensor, shares: tuple, path: Path) -> None:
    """Words of every topic, true against inferred proportions, and K over training."""
    with viz.style():
        fig = viz.plt.figure(figsize=(viz.PAGE, 2.6), layout="constrained")
        left, middle, right = fig.subfigures(1, 3, width_ratios=[1, 1, 1.3])
        columns = 3
        panels = left.subplots(-(-len(topics) // columns), columns, squeeze=False).flatten()
        for panel in panels:
            panel.set_axis_off()
        for k, (panel, words) in enumerate(zip(panels, topics)):
            panel.imshow(words.unflatten(-1, (SIDE, SIDE)).numpy(), cmap="cividis", vmin=0, vmax=0.2)
            panel.set_title(f"topic {k}", fontsize="small")
        left.suptitle("Words of each topic")
        axis = middle.subplots()
        for k in range(shares[0].shape[-1]):
            axis.scatter(shares[0][:, k], shares[1][:, k], s=4, color=viz.option_color(k), linewidths=0)
        axis.plot([0, 1], [0, 1], color=viz.NEUTRAL, linestyle="--", linewidth=1)
        axis.set(xlabel="true proportion", ylabel="inferred", title="Documents")
        axis = right.subplots()
        viz.growth_timeline(axis, sizes, target=args.num_topics, events=growth.history)
        axis.set(xlabel="update", ylabel="topics K")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    """Trains the model, prints the table and writes the files."""
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    documents, shares, true = make_documents(args)
    cut = len(documents) - len(documents) // 6
    torch.manual_seed(args.seed)
    model, guide = make_model(args.initial_topics)
    schedule = {"every": args.every, "settle": 3, "length": args.updates, "site": "words"}
    growth = GrowthMessenger([model, guide], TrialRule(), SplitBirth(halve=True), [Prune(), Merge()], **schedule)
    train, held_out = documents[:cut], documents[cut:]
    history = train_growing(model, guide, train, growth, args.updates, learning_rate=0.1, held_out=held_out)
    with torch.no_grad():
        topics = model.components.predictive().concentration
        topics = topics / topics.sum(-1, keepdim=True)
        words = model.words(documents, guide.weights.mean_log_weights())
        bound, inferred = words.log_prob(documents)[cut:].mean() / args.num_words, words.proportions(documents)
    nearest = matched(topics, true)
    results = {
        "num_topics": args.num_topics,
        "num_components": growth.num_components,
        "recovered_topics": len({k for k, row in zip(nearest, true) if (topics[k] - row).abs().sum() < 0.4}),
        "error_of_proportions": float((inferred[:, nearest] - shares).abs().mean()),
        "held_out_bound_per_word": float(bound),
    }
    write_results(args.out / "results.json", results)
    order = [*dict.fromkeys(nearest), *(k for k in range(len(topics)) if k not in nearest)]
    shown = shares, inferred[:, nearest]
    figure(args, growth, history.num_components, topics[order], shown, args.out / "hdp_topics.png")
    for key, value in results.items():
        print(f"{key:<26}{value}")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
