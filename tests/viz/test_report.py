"""The HTML report: its content, and that text in it cannot become code."""

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from support.episodes import BLOCKS, episodes_with_actions
from support.option_models import single_action_skills

from pyro_options.data import Trajectories, pack_bits
from pyro_options.options import CategoricalPolicy, GaussianPolicy, Termination
from pyro_options.skills import Skills
from pyro_options.viz import write_report
from pyro_options.viz.report.page import json_in_script

HOSTILE = "</script><script>document.title='owned'</script><!-- <img src=x onerror=alert(1)> \u2028 & \" ' ${1} \ud800"


class Page(HTMLParser):
    """What a browser would see: text of each script, and every tag with its attributes."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], False
        self.source = path.read_text("utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data

    @property
    def data(self):
        return json.loads(self.scripts[0])


def write(tmp_path, skills, *args, **settings):
    write_report(tmp_path / "report.html", skills, *args, **settings)
    return Page(tmp_path / "report.html")


def test_timelines_and_cards_show_the_segmentation(tmp_path):
    skills, data = single_action_skills(0, 1, 2), episodes_with_actions(*BLOCKS)
    page = write(tmp_path, skills, data).data
    assert [row["options"] for row in page["trajectories"]] == [list(block) for block in BLOCKS]
    assert page["trajectories"][1]["actions"] == [1] * 5
    cards = {card["option"]: card for card in page["cards"]}
    assert cards[0]["usage"] == pytest.approx(9 / 29, abs=1e-4) and cards[0]["actions"] == [1, 0, 0, 0]
    assert cards[0]["lengthQuartiles"][1] == 4.5 and cards[0]["segments"] == 2
    assert dict(map(tuple, cards[0]["followers"])) == {1: 0.5, None: 0.5}
    starts = cards[2]["startSteps"]
    assert starts["width"] == 2 and [i for i, share in enumerate(starts["shares"]) if share] == [0, 5]  # at 0 and 10
    assert [0, 10, 17] in cards[2]["examples"]
    tiles = {label: value for label, value, _ in page["tiles"]}
    assert tiles["options"] == tiles["in use"] == "3"
    assert tiles["log-likelihood, these trajectories"] == f"−{-skills.log_likelihood(data):.4f}"
    for row, expected in zip(page["trajectories"], skills.segment(data).switches):
        np.testing.assert_allclose(row["choices"], expected[: len(row["choices"])], atol=6e-3)


def test_the_overview_shows_how_the_skills_were_made(tmp_path):
    usage = {"likelihood_usage": [1.0], "posterior_usage": [1.0], "num_points": 5}
    moves = [("birth", [1, 2], True), ("prune", [0], False)], [("birth", [3], False), ("merge", [0], True)]
    growth = [
        {
            "time": time,
            "moves": [{"kind": k, "components": c, "accepted": a, "gain": None, "error": None} for k, c, a in row],
        }
        | usage
        for time, row in zip((20, 40), moves)
    ]
    known = {
        "history": {"num_options": [1, 1, 3, 3]},
        "growth": growth,
        "updates": 40,
        "method": {"name": "options-exact"},
    }
    skills = single_action_skills(0, 1, log_likelihood={"train": -0.5, "held_out": -0.625}, **known)
    page = write(tmp_path, skills, figures={"held-out baseline": -1.5}).data
    assert ["log-likelihood, held out", "−0.6250", "nats per step"] in page["tiles"]
    assert ["held-out baseline", "−1.5", ""] in page["tiles"]
    assert ["method.name", "options-exact"] in page["settings"]
    found = [tuple(mark.values()) for mark in page["growth"]["marks"]]
    assert found == [(2, "birth", 2, 3), (4, "refusal", 1, 2), (4, "merge", 1, 2)]


def test_without_trajectories_the_saved_summary_is_shown(tmp_path):
    skills = single_action_skills(0, 1, 2)
    assert write(tmp_path, skills).data["cards"] == []
    skills.summary = skills.summarize(episodes_with_actions(*BLOCKS))
    page = write(tmp_path, skills).data
    assert {card["option"]: card["meanLength"] for card in page["cards"]} == {0: 4.5, 1: 4.5, 2: 5.5}
    assert page["trajectories"] == [] and page["growth"] is None


def test_the_report_explains(tmp_path):
    """What the columns mean, in which states an option starts and stops, and frames of that."""
    rows = [[0] * 4 + [1] * 4 + [0] * 4] * 8
    data = episodes_with_actions(*rows)
    states = data.states.clone()
    states[:, 4, 1], states[:, 8, 1] = 9.0, -9.0
    data = Trajectories(states, data.actions, num_actions=4).with_names(state_names=["x", "height", "y"])
    skills = single_action_skills(0, 1)
    page = write(tmp_path, skills, data, frames=[np.zeros((12, 4, 4, 3), np.uint8)]).data
    terms = dict(page["glossary"])
    assert {"usage", "weight", "mean length", "termination", "actions", "p(new choice)", "nats per step"} <= set(terms)
    card = next(card for card in page["cards"] if card["option"] == 1)
    assert card["starts"][0].startswith("height 9 to 9 (usually") and card["stops"][0].startswith("height -9 to -9")
    assert [0, 4] in card["startFrames"] and [0, 8] in card["stopFrames"]
    other = next(card for card in page["cards"] if card["option"] == 0)
    assert all(step > 0 for _, step in other["startFrames"]) and all(step < 12 for _, step in other["stopFrames"])


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3), (3, 4, 5), (4, 5, 4)])
def test_states_that_are_images_are_the_pictures(shape, tmp_path):
    states = torch.randint(256, (2, 6, *shape), dtype=torch.uint8)
    data = Trajectories(states, torch.tensor([[0, 0, 0, 1, 1, 1]] * 2), num_actions=2)
    size = data.state_dim
    skills = Skills(CategoricalPolicy(size, 2, 2), Termination(size, 2), torch.zeros(2).log_softmax(-1))
    page = write(tmp_path, skills, data).data
    first = Image.open(BytesIO(b64decode(page["trajectories"][0]["images"][0].split(",")[1])))
    assert first.size == (5, 4) and all(card["starts"] == card["stops"] == [] for card in page["cards"])
    expected = states[0, 0].numpy()
    if shape == (3, 4, 5):
        expected = np.moveaxis(expected, 0, -1)
    elif shape == (4, 5, 4):
        expected = expected[..., -1]
    found = np.asarray(first.convert("RGB") if expected.ndim == 3 else first.convert("L"))
    np.testing.assert_array_equal(found, expected)
    assert "images" not in write(tmp_path, skills, Trajectories(data.states, data.actions)).data["trajectories"][0]


def test_two_runs_are_compared(tmp_path):
    data = episodes_with_actions(*BLOCKS)
    skills, other = single_action_skills(0, 1, 2), single_action_skills(2, 0, 1, 3, log_likelihood={"train": -0.5})
    page = write(tmp_path, skills, data, other=other, run_names=("new", HOSTILE))
    found = page.data["comparison"]
    assert found["names"] == ["new", HOSTILE] and found["agreement"] == 1
    assert found["rows"] == [0, 1, 2] and [one["option"] for one in found["columns"]] == [0, 1, 2]
    assert found["overlap"] == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    figures = {label: values for label, *values in found["figures"]}
    assert figures["options"] == ["3", "4"] and figures["log-likelihood, training"] == [None, "−0.5000"]
    assert "log-likelihood, held out" not in figures and len(page.scripts) == 2
    with pytest.raises(ValueError, match="trajectories to compare two runs on"):
        write(tmp_path, skills, other=other)


@pytest.mark.parametrize("metadata", [{"history": 3}, {"growth": [{}], "history": {"num_options": []}, "updates": "x"}])
def test_unexpected_metadata_are_ignored(tmp_path, metadata):
    assert write(tmp_path, single_action_skills(0, **metadata)).data["growth"] is None


def test_hostile_text_stays_text(tmp_path):
    names = (HOSTILE, "b", "c", "d")
    skills = single_action_skills(0, 1, names=names, note=HOSTILE, **{HOSTILE: 1, "log_likelihood": HOSTILE})
    skills.summary = skills.summarize(episodes_with_actions(*BLOCKS[1:2]))
    page = write(
        tmp_path,
        skills,
        episodes_with_actions(*BLOCKS),
        title=HOSTILE,
        figures={HOSTILE: HOSTILE},
        state_names=[HOSTILE] * 3,
    )
    assert len(page.scripts) == 2 and not [tag for tag, _ in page.tags if tag == "img"]
    assert not re.search(r"[<>&\u2028]", page.scripts[0])
    assert page.data["actionNames"][0] == HOSTILE and [HOSTILE, "1"] in page.data["settings"]
    assert page.source.count("</script>") == 2 and page.source.count("<!--") == 0


def test_json_in_a_script_comes_back_as_it_was():
    value = {HOSTILE: [1.5, None, "é"]}
    assert json.loads(json_in_script(value)) == value
    with pytest.raises(ValueError, match="JSON"):
        json_in_script(float("nan"))


def test_the_page_loads_nothing_from_outside(tmp_path):
    frames = [np.zeros((len(block), 4, 6, 3), np.uint8) for block in BLOCKS]
    page = write(tmp_path, single_action_skills(0, 1, 2), episodes_with_actions(*BLOCKS), frames=frames)
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-") and "unsafe" not in policy
    links = [value for _, a in page.tags for key, value in a.items() if key in ("src", "href", "action", "srcset")]
    assert links == ["#trajectories"]
    addresses = set(re.findall(r"https?://[^\s\"']+", page.source))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, which is never loaded
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|WebSocket|import\(", page.source)


def test_frames_are_embedded_once_and_made_smaller(tmp_path):
    plain = np.zeros((18, 40, 400, 3), np.uint8)
    plain[:, :, :, 0] = (np.arange(18) // 9 * 200)[:, None, None]
    noise = np.random.default_rng(0).integers(0, 256, (5, 40, 30, 3), np.uint8)
    page = write(
        tmp_path,
        single_action_skills(0, 1, 2),
        episodes_with_actions(*BLOCKS),
        frames=[plain, noise, None],
        max_frame_width=100,
    ).data
    first, second, third = page["trajectories"]
    assert first["frames"] == [0] * 9 + [1] * 9 and len(first["images"]) == 2
    assert all(uri.startswith("data:image/png;base64,") for uri in first["images"])
    assert all(uri.startswith("data:image/jpeg;base64,") for uri in second["images"]) and "images" not in third
    picture = Image.open(BytesIO(b64decode(first["images"][1].partition(",")[2])))
    assert picture.size == (100, 10) and picture.convert("RGB").getpixel((5, 5)) == (200, 0, 0)


def test_frames_may_come_from_a_function_of_states_and_actions(tmp_path):
    asked = []

    def frames(states, actions):
        asked.append((states.shape, actions.tolist()))
        return None if len(asked) == 2 else np.zeros((len(actions), 3, 3), np.uint8)

    page = write(
        tmp_path,
        single_action_skills(0, 1, 2),
        episodes_with_actions(*BLOCKS),
        frames=frames,
        max_steps=5,
        max_trajectories=2,
    ).data
    assert asked == [((5, 3), [0] * 5), ((5, 3), [1] * 5)]
    assert ["images" in row for row in page["trajectories"]] == [True, False]
    assert page["numTrajectories"] == 3 and page["trajectories"][0]["length"] == 18


@pytest.mark.parametrize("packed", [False, True])
def test_continuous_actions_and_packed_states(tmp_path, packed):
    policy = CategoricalPolicy(16, 2, 3) if packed else GaussianPolicy(16, 2, 3)
    skills = Skills(policy, Termination(16, 2), torch.tensor([0.5, 0.5]).log(), packed=packed)
    bits = torch.randint(0, 2, (4, 6, 16)).float()
    bits[..., 8:] = 1
    actions = torch.randint(3, (4, 6)) if packed else torch.randn(4, 6, 3)
    page = write(tmp_path, skills, Trajectories(pack_bits(bits) if packed else bits, actions, packed=packed)).data
    assert page["discrete"] == packed
    assert page["stateNames"] == (["byte 0"] if packed else [f"state {i}" for i in range(8)])
    assert page["actionNames"][0] == ("action 0" if packed else "dimension 0")


def test_what_cannot_be_shown_is_refused(tmp_path):
    skills, data = single_action_skills(0, 1, 2), episodes_with_actions(*BLOCKS)
    for settings, words in (
        ({"frames": [np.zeros((3, 4, 4, 3), np.uint8)]}, "18 frames for episode 0"),
        ({"frames": [np.zeros((18, 4, 4, 3))]}, "of bytes"),
        ({"state_names": ["a"]}, "3 names of states"),
        ({"max_trajectories": 0}, "trajectories >= 1"),
    ):
        with pytest.raises(ValueError, match=words):
            write_report(tmp_path / "report.html", skills, data, **settings)
    assert not list(tmp_path.iterdir())
