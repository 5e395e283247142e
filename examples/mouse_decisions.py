"""Strategies of a mouse: a GLM-HMM of binary choices whose number of states is found.

Decision neuroscience explains choices by a hidden state (engaged, biased to the left, biased to the right) and a
logistic regression in each state on the stimulus, the previous choice and its reward. The number of states is usually
chosen by cross-validation over hundreds of fits. Here a state is an option with a linear policy, and ``discover`` finds
their number. Weights get standard errors from the curvature of the exact marginal likelihood; a full transition matrix
(the transitions of ``sticky-options``) is used if it explains held-out sessions better. Run it with::

    python examples/mouse_decisions.py                       # a simulated animal with weights like those published
    python examples/mouse_decisions.py --data sessions.csv   # columns: session, stimulus, choice, rewarded

It prints the weights and writes ``results.json`` and ``mouse_decisions.png`` to ``--out``.

Reference: Ashwood et al. (2022), Mice alternate between discrete strategies during perceptual decision-making.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import tyro
from studies.decision_plots import draw_counts, draw_psychometric, draw_session, draw_transitions, draw_weights
from studies.decisions import (
    WEIGHT_NAMES,
    Gain,
    bernoulli,
    bits,
    find_states,
    load_sessions,
    memory_gain,
    sorted_states,
    state_titles,
    transition_matrix,
    weight_table,
    with_memory,
)

from pyro_options import viz
from pyro_options.data import Decisions, Trajectories, simulated_decisions
from pyro_options.experiments import write_results
from pyro_options.skills import WeightPosterior, label_scores, laplace, option_posterior


@dataclass(frozen=True)
class Args:
    """Find the strategies of an animal."""

    data: Path | None = None
    """CSV or Parquet file with the columns session, stimulus (signed, positive on the right), choice (left or right, or
    0 or 1) and rewarded (0 or 1); by default an animal is simulated"""
    num_sessions: int = 45
    """of the simulated animal"""
    held_out: float = 0.2
    """share of the sessions to compare numbers of states on"""
    counts: tuple[int, ...] = (1, 2, 3, 4, 5)
    """numbers of states to compare the one that was found with"""
    epochs: int | None = None
    """passes over the data, chosen by the amount of data by default"""
    seed: int = 0
    out: Path = Path("out/mouse_decisions")
    """folder for results"""


def fit_all(args: Args, data: Trajectories) -> tuple[WeightPosterior, dict, dict[int, Gain], Gain]:
    """Finds the states on some sessions, judges on the others, and estimates the weights on all of them."""
    train, held = data.split(args.held_out, args.seed)
    baseline = bernoulli(train, held)

    def gain(skills) -> Gain:
        return bits(skills.episode_log_likelihoods(held), baseline, held.lengths)

    skills = sorted_states(find_states(train, None, args.epochs, args.seed, trust=True))
    print(skills.describe(), end="\n\n")
    found = gain(skills)
    given = {K: gain(find_states(train, K, args.epochs, args.seed, trust=False)) for K in args.counts}
    memory = memory_gain(skills, train, held)
    remembers = memory.mean > 2 * memory.error
    fit = laplace(with_memory(skills) if remembers else skills, data, constant_terminations=True)
    record = {
        "num_states": skills.num_options,
        "options_in_use": skills.metadata["options_in_use"],
        "held_out_bits_per_trial": asdict(found),
        "held_out_bits_per_trial_given_K": {str(K): asdict(one) for K, one in given.items()},
        "gain_of_full_transitions": asdict(memory),
        "full_transitions": remembers,
        "log_likelihood_per_trial": fit.log_likelihood / data.num_steps,
    }
    return fit, record, given, found


def figure(path: Path, fit: WeightPosterior, data: Trajectories, comparison: tuple, truth: Decisions | None) -> None:
    """Weights, transitions, a session, psychometric curves, and the comparison over K."""
    titles, posterior = state_titles(weight_table(fit)[0]), option_posterior(fit.skills, data)
    K = len(titles)
    known = truth is not None and len(truth.weights) == K
    right = truth.weights[:, [0, 3, 1, 2]] if known else None
    with viz.style():
        fig = viz.plt.figure(figsize=(viz.PAGE, 6.6), layout="constrained")
        rows = fig.add_gridspec(3, 1)
        top = rows[0].subgridspec(1, 2, width_ratios=[2, 1])
        draw_weights(fig.add_subplot(top[0]), fit, titles, right)
        draw_transitions(fig.add_subplot(top[1]), transition_matrix(fit.skills))
        middle = rows[1].subgridspec(1, 2, width_ratios=[2, 1])
        length = int(data.lengths[0])
        strip = truth.states[0, :length] if known else None
        draw_session(fig.add_subplot(middle[0]), posterior[:length], titles, strip)
        draw_counts(fig.add_subplot(middle[1]), *comparison, K)
        bottom = rows[2].subgridspec(1, K)
        first = None
        for k, title in enumerate(titles):
            ax = fig.add_subplot(bottom[k], sharey=first)
            draw_psychometric(ax, fit, k, data, posterior, title)
            if first is None:
                first = ax
                ax.set_ylabel("p(right)")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    """Fits, prints the weights and writes the files."""
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    truth = simulated_decisions(args.seed, args.num_sessions) if args.data is None else None
    data = load_sessions(args.data) if truth is None else truth.trajectories
    fit, record, given, found = fit_all(args, data)
    mean, error = weight_table(fit)
    titles = state_titles(mean)
    for title, row, errors in zip(titles, mean.tolist(), error.tolist()):
        parts = [f"{n.replace(chr(10), '')} {w:+.2f} ± {e:.2f}" for n, w, e in zip(WEIGHT_NAMES, row, errors)]
        print(f"{title:<13} {', '.join(parts)}")
    print(f"held out: {found.mean:.3f} ± {found.error:.3f} bits per trial beyond a Bernoulli baseline")
    record |= {"states": titles, "weights": mean.tolist(), "standard_errors": error.tolist()}
    record["transitions"] = transition_matrix(fit.skills).tolist()
    if truth is not None:
        options = fit.skills.segment(data, "posterior").options
        record["accuracy"] = label_scores(options, truth.states, data.mask).accuracy
        print(f"states of {100 * record['accuracy']:.1f} % of the trials are the true ones")
    write_results(args.out / "results.json", record)
    figure(args.out / "mouse_decisions.png", fit, data, (given, found), truth)
    return record


if __name__ == "__main__":
    main(tyro.cli(Args))
