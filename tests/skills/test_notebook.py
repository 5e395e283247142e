"""What notebooks show, and skills as a collection of options."""

import pickle
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from support.episodes import BLOCKS, episodes_with_actions, make_continuous_episodes, make_packed_episodes
from support.option_models import single_action_skills
from support.skill_sets import make_data, make_skills

from pyro_options.data import Trajectories
from pyro_options.errors import InputError
from pyro_options.skills import Skills, Trust

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"


class Fragment(HTMLParser):
    """The text of a fragment and its tags, each of which is closed."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(source)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


def trained(**metadata):
    skills, data = single_action_skills(0, 1, 2, **metadata), episodes_with_actions(*BLOCKS)
    skills.summary = skills.summarize(data)
    return skills, data


def test_skills_show_a_card_for_each_option():
    trust = Trust(3, agreement=0.1).to_dict()
    skills, _ = trained(trust=trust)
    shown = Fragment(skills.rename({1: HOSTILE})._repr_html_())
    assert "option 0: up" in shown.text and HOSTILE in shown.text and "31.0% of steps" in shown.text
    assert "Warning: Segmentations from different starts" in shown.text
    assert not {"script", "img"} & set(shown.tags)
    assert "weight" in Fragment(make_skills(discrete=False)._repr_html_()).text  # without a summary


def test_demonstrations_and_segmentations_show_timelines():
    skills, data = trained()
    shown = Fragment(data.with_names(action_names=["up", HOSTILE, "left", "right"])._repr_html_())
    assert shown.tags.count("svg") == 3 and shown.tags.count("rect") == 3 + 1 + 2 and "script" not in shown.tags
    assert Fragment(skills.segment(data)._repr_html_()).tags.count("rect") == 6
    for other in (make_continuous_episodes(), make_packed_episodes(), data.without_actions()):
        assert "Trajectories(" in Fragment(other._repr_html_()).text
    several = Trajectories(torch.zeros(2, 3, 2), torch.zeros(2, 3, 2, dtype=torch.long))
    assert "polyline" in Fragment(several._repr_html_()).tags


def test_skills_are_a_collection_of_options():
    skills, data = trained()
    assert len(skills) == 3 and [option.number for option in skills] == [0, 1, 2]
    last, state = skills[-1], data.states[0, 0].numpy()
    assert last.number == 2 and last.predict(state) == skills.predict(state, 2) == 2
    assert last.termination_probability(state) == skills.termination_probability(state, 2)
    assert last.terminates(state, np.random.default_rng(0)) in (True, False)
    np.testing.assert_array_equal(last.action_probabilities(state), skills.action_probabilities(state, 2))
    assert last.usage == pytest.approx(11 / 29) and last.mean_length == 5.5
    assert last.weight == pytest.approx(float(skills.log_weights[2].exp()))
    assert repr(last) == "Option(2, 'option 2: left', 37.9% of steps)" and "5.5 steps" in last._repr_html_()
    assert skills[1:].names == skills[[1, 2]].names and isinstance(skills[1:], Skills)
    with pytest.raises(IndexError):
        skills[3]


def test_names_stay_with_their_options(tmp_path):
    skills, data = trained()
    named = skills.rename({2: "go left"}).rename({np.int64(0): "climb"})
    assert named.names == ["climb", "option 1: down", "go left"] and skills.names[2] == "option 2: left"
    assert named.only([2, 1]).names == ["go left", "option 1: down"]
    assert "2 go left" in named.describe() and "2 go left" in named.describe(data)
    named.save(tmp_path / "skills.safetensors")
    assert Skills.load(tmp_path / "skills.safetensors").names == named.names
    for wrong in ({3: "x"}, {0: ""}, {0: 1}):
        with pytest.raises(InputError):
            skills.rename(wrong)


@pytest.mark.parametrize("kind", ["linear", "varying", "deep"])
def test_skills_are_picklable_after_use(kind):
    skills, data = make_skills(kind), make_data()
    state = data.states[0, 0].numpy()
    expected = skills.predict(state, 1), skills.termination_probability(state, 0)
    again = pickle.loads(pickle.dumps(skills))
    assert (again.predict(state, 1), again.termination_probability(state, 0)) == expected
    torch.testing.assert_close(again.segment(data).options, skills.segment(data).options)
