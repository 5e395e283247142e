"""Plots: distinguishable colours, marks of growth, cards of options."""

import itertools

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from support.episodes import BLOCKS, episodes_with_actions
from support.option_models import single_action_skills

from pyro_options import viz
from pyro_options.display import luminance
from pyro_options.growth import GrowthEvent, Move, Usage, Verdict, growth_markers
from pyro_options.skills import Segment, make_cards
from pyro_options.skills.cards import END
from pyro_options.viz import NEUTRAL, PALETTE, ink, option_color

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB
VISION = {
    "all cones": np.eye(3),
    "no green cones": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no red cones": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
}


def oklab(rgb):
    """Ottosson's perceptual coordinates of linear RGB."""
    cones = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
    axes = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    return np.array(axes) @ np.cbrt(np.array(cones) @ np.clip(rgb, 0, 1))


def linear(color):
    rgb = np.array(to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("eyes", VISION)
def test_two_dozen_options_can_be_told_apart(eyes):
    seen = [oklab(np.array(VISION[eyes]) @ linear(color)) for color in PALETTE]
    closest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
    assert len(PALETTE) == 24 and closest > 0.07  # Okabe and Ito's own seven come as close as 0.076


@pytest.mark.parametrize("color", [*PALETTE, NEUTRAL])
def test_text_can_be_read_on_every_colour(color):
    bright, dark = sorted([luminance(color), luminance(ink(color))], reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 4.5  # WCAG AA


def test_every_option_has_its_colour():
    assert option_color(3) == PALETTE[3] and option_color(24 + 3) == PALETTE[3]


def event(time, *moves):
    usage = Usage(torch.ones(1), torch.ones(1), 1)
    return GrowthEvent(time, usage, tuple(Move(kind, parts, Verdict(accepted)) for kind, parts, accepted in moves))


EVENTS = [
    event(20, ("prune", (0,), False), ("birth", (1, 2), True)),
    event(40, ("birth", (3,), False)),
    event(60, ("merge", (0,), True), ("birth", (2, 3), True)),
    event(80, ("prune", (3,), True)),
    event(80, ("prune", (2,), True)),
]
SIZES = [1, 1, 3, 3, 3, 3, 4, 4]  # two epochs between checks of ten updates each


def test_marks_say_what_each_check_did():
    found = [(m.epoch, m.kind, m.count, m.num_components) for m in growth_markers(SIZES, EVENTS, 10)]
    expected = [(2, "birth", 2, 3), (4, "refusal", 1, 3), (6, "birth", 2, 4), (6, "merge", 1, 4)]
    assert found == [*expected, (8, "prune", 1, 3), (8, "prune", 1, 2)]  # the last two follow the last epoch


def test_a_growth_timeline_marks_births_refusals_prunes_and_merges():
    fig, ax = viz.plt.subplots()
    viz.growth_timeline(ax, SIZES, target=2, events=EVENTS, updates_per_epoch=10)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["needed: 2", "born", "birth refused", "pruned", "merged"]
    born, merged = (line.get_xdata() for line in ax.lines if line.get_label() in ("born", "merged"))
    assert list(born) == [2, 6] and list(merged) == [6.2]  # the same check did both
    assert ax.get_xlabel() == "epoch" and ax.lines[0].get_ydata().tolist() == [*SIZES, 2]
    viz.plt.close(fig)


def test_cards_say_what_the_segments_are():
    skills, data = single_action_skills(0, 1, 2), episodes_with_actions(*BLOCKS)
    segmentation = skills.segment(data)
    cards = {card.option: card for card in make_cards(segmentation, skills.summarize(data, segmentation).actions)}
    found = {k: (card.lengths.tolist(), card.starts.tolist(), card.stops.tolist()) for k, card in cards.items()}
    assert found == {0: ([6, 3], [0, 3], [5, 5]), 1: ([4, 5], [6, 0], [9, 4]), 2: ([8, 3], [10, 0], [17, 2])}
    assert [card.followers for card in cards.values()] == [{END: 0.5, 0: 0.5}, {1: 0.5, END: 0.5}, {2: 0.5, END: 0.5}]
    assert list(cards) == [2, 0, 1] and cards[0].examples[0] in {(0, Segment(0, 0, 6)), (2, Segment(0, 3, 6))}
    first = make_cards(segmentation, skills.summarize(data, segmentation).actions, example_episodes=1)
    assert all(episode == 0 for card in first for episode, _ in card.examples)


@pytest.mark.parametrize("pictures", [False, True])
def test_option_cards_are_drawn_on_one_scale(pictures):
    skills, data = single_action_skills(0, 1, 2), episodes_with_actions(*BLOCKS)
    segmentation = skills.segment(data)
    cards = make_cards(segmentation, skills.summarize(data, segmentation).actions)
    frames = {0: np.zeros((18, 6, 8, 3), np.uint8)} if pictures else None
    with viz.style():
        fig = viz.option_cards(cards, skills.names, skills.action_names, frames=frames)
        fig.canvas.draw()
    assert len(fig.subfigs) == 3 and {len(part.axes) for part in fig.subfigs} == {4 if pictures else 3}
    limits = {part.axes[1].get_xlim() for part in fig.subfigs}
    assert len(limits) == 1
    for part in fig.subfigs:
        assert all(ax.get_xlabel() for ax in part.axes)
    viz.plt.close(fig)
    with pytest.raises(ValueError, match="at least one card"):
        viz.option_cards([], [])


def test_a_long_strip_is_numbered_and_a_short_one_has_its_actions():
    for length, expected in ((18, ["0"] * 6 + ["1"] * 4 + ["2"] * 8), (36, ["0", "1", "2"])):
        options = torch.tensor(BLOCKS[0]).repeat_interleave(length // 18).unsqueeze(0)
        fig, ax = viz.plt.subplots()
        viz.segmentation_strip(ax, options, torch.tensor([length]), options)
        assert [text.get_text() for text in ax.texts] == expected
        viz.plt.close(fig)
