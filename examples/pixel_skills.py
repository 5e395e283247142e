"""Skills from pixels: where an agent on a small image is heading, which no image shows.

The demonstrator moves over a 12 x 12 image to one of four goals, then to another, and so on. A state is the image of
the agent alone, one byte per pixel; the goal is hidden. ``discover(network="cnn")`` reads the images with a small
convolutional network that all options share, and is not told how many goals there are. Run it with::

    python examples/pixel_skills.py

It prints accuracy and number of options, and writes ``results.json``, ``skills.safetensors`` and ``pixel_skills.png``
to ``--out``: the mean move of each option at every place, and one episode with its segments.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro

from pyro_options import Skills, discover, viz
from pyro_options.data import Trajectories
from pyro_options.experiments import write_results
from pyro_options.skills import Segmentation, label_scores

SIZE = 12
GOALS = np.array([[2, 2], [9, 2], [9, 9], [2, 9]])  # x, y
MOVES = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]])
NAMES = ("up", "down", "left", "right")
SLIP = 0.05  # probability of a random move


@dataclass(frozen=True)
class Args:
    """Find hidden goals in images."""

    num_episodes: int = 150
    num_steps: int = 60
    epochs: int = 40
    restarts: int = 1
    seed: int = 0
    progress: bool = True
    out: Path = Path("out/pixel_skills")
    """folder for results"""


def image(x: int, y: int) -> np.ndarray:
    """The agent as a white pixel with grey neighbours, bytes ``(SIZE, SIZE)``."""
    picture = np.zeros((SIZE + 2, SIZE + 2), np.uint8)
    picture[y + 1, x + 1] = 255
    for dx, dy in MOVES:
        picture[y + 1 + dy, x + 1 + dx] = 128
    return picture[1:-1, 1:-1]


def demonstrate(args: Args) -> tuple[Trajectories, torch.Tensor]:
    """Demonstrations, and the goal of every step ``(N, T)``."""
    rng = np.random.default_rng(args.seed)
    frames = np.zeros((args.num_episodes, args.num_steps, SIZE, SIZE), np.uint8)
    actions, goals = (np.zeros(frames.shape[:2], np.int64) for _ in range(2))
    for n in range(args.num_episodes):
        cell, goal = rng.integers(SIZE, size=2), rng.integers(len(GOALS))
        for t in range(args.num_steps):
            while (cell == GOALS[goal]).all():
                goal = rng.integers(len(GOALS))
            dx, dy = GOALS[goal] - cell
            nearer = [3 if dx > 0 else 2] * bool(dx) + [1 if dy > 0 else 0] * bool(dy)
            frames[n, t], goals[n, t] = image(*cell), goal
            actions[n, t] = rng.integers(len(MOVES)) if rng.random() < SLIP else rng.choice(nearer)
            cell = np.clip(cell + MOVES[actions[n, t]], 0, SIZE - 1)
    return Trajectories(frames, actions, num_actions=len(MOVES)).with_names(action_names=NAMES), torch.tensor(goals)


def draw_moves(axis, skills: Skills, option: int) -> None:
    """The mean move of an option at every place, on its probability of stopping there."""
    places = np.array([[image(x, y) for x in range(SIZE)] for y in range(SIZE)]).reshape(-1, SIZE, SIZE)
    moves = skills.action_probabilities(places, option) @ MOVES
    stop = skills.termination_probability(places, option).reshape(SIZE, SIZE)
    axis.imshow(stop, cmap="Greys", vmin=0, vmax=1)
    x, y = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
    axis.quiver(x, y, moves[:, 0], moves[:, 1], color=viz.PALETTE[option % len(viz.PALETTE)], angles="xy", pivot="mid")
    axis.plot(*GOALS.T, "o", markersize=9, markerfacecolor="none", markeredgecolor="0.3")
    axis.set(title=f"option {option}", xticks=[], yticks=[])


def figure(skills: Skills, found: Segmentation, goals: torch.Tensor, naming: dict[int, int], path: Path) -> None:
    """Moves of the options in use, and one episode: the goals, and the options that were found."""
    count = max(2, min(6, skills.num_options))
    with viz.style():
        fig = viz.plt.figure(figsize=(viz.PAGE, 3.4), layout="constrained")
        grid = fig.add_gridspec(2, count, height_ratios=[4, 1])
        for option in range(min(count, skills.num_options)):
            draw_moves(fig.add_subplot(grid[0, option]), skills, option)
        options = {goal: option for option, goal in naming.items()}
        rows = np.array([[options.get(int(goal), -1) for goal in goals[0]], found.options[0].tolist()])
        colours = viz.plt.matplotlib.colors.ListedColormap(["white", *viz.PALETTE])
        axis = fig.add_subplot(grid[1, :])
        axis.imshow(rows + 1, cmap=colours, vmin=-0.5, vmax=len(viz.PALETTE) + 0.5, aspect="auto", interpolation="none")
        axis.set(yticks=[0, 1], yticklabels=["hidden goal", "option found"], xlabel="step of the first episode")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    """Discovers options in the images, compares them with the goals, and writes the files."""
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    data, goals = demonstrate(args)
    how = {"epochs": args.epochs, "restarts": args.restarts, "seed": args.seed, "progress": args.progress}
    skills = discover(data, network="cnn", trust=False, **how).used()
    found = skills.segment(data)
    scores = label_scores(found.options, goals, data.mask)
    results = {
        "used_options": skills.num_options,
        "accuracy": scores.accuracy,
        "nats_per_step": found.log_likelihood_per_step,
        "seconds": skills.metadata["seconds"],
    }
    print(skills.describe())
    print({name: round(value, 3) for name, value in results.items()})
    skills.save(args.out / "skills.safetensors")
    write_results(args.out / "results.json", results)
    figure(skills, found, goals, scores.naming, args.out / "pixel_skills.png")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
