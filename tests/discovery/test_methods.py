"""Methods of model, guide, growth and prior, each by name or as an object; build and discover agree."""

import json
from functools import partial

import pytest
import torch
from pyro.nn import PyroModule
from support.episodes import make_episodes
from support.methods import QUICK, UNTRAINED, required_settings

from pyro_options import discover
from pyro_options.discovery import METHODS, Budget, Growth, MethodConfig, assemble, assembly, build, method_config
from pyro_options.discovery.assembly import make_plan
from pyro_options.errors import InputError
from pyro_options.growth import EvidenceRule, Prune, RandomBirth, SplitBirth, TrialRule, UsageRule
from pyro_options.guides import Exact, GrowableGEM
from pyro_options.handlers import collapse
from pyro_options.models import GEM, OptionHMM, Uniform
from pyro_options.options import CategoricalPolicy, Termination


@pytest.mark.parametrize("name", METHODS)
def test_build_and_discover_have_the_same_settings(name, monkeypatch):
    """Under a budget of five epochs, which neither is told."""
    monkeypatch.setattr(assembly, "Budget", partial(Budget, max_epochs=5, updates_per_input=0))
    data = make_episodes(12)
    built = build(name, data, **required_settings(name))
    made = discover(data, name, progress=False, device="cpu", **required_settings(name)).metadata
    assert len(made["history"]["objective"]) == built.train.epochs == (0 if name in UNTRAINED else 5)
    assert made["method"] == json.loads(json.dumps({"name": name} | built.config.to_dict()))
    same = ("epochs", "batch_size", "learning_rate", "clip_norm", "weights_learning_rate", "entropy_per")
    assert all(made["train"][key] == getattr(built.train, key) for key in same)
    growth = built.growth
    assert (growth is None) == (built.config.num_options is not None)
    assert growth is None or growth.every == built.config.growth.check_every


@pytest.mark.parametrize("epochs", [4, 50])
def test_temperatures_fall_over_the_epochs_there_are(epochs):
    data = make_episodes(12)
    schedule = make_plan(data, method_config("options"), epochs=epochs).train.temperature
    assert (schedule(0), schedule(epochs)) == pytest.approx((0.3, 0.03))
    assert make_plan(data, method_config("options-paper"), epochs=epochs).train.temperature(0) == 1.0
    default = make_plan(data, method_config("options")).train
    assert default.temperature(default.epochs) == pytest.approx(0.03)


def test_repeating_what_the_name_fixes_is_allowed():
    assert method_config("bc", num_options=1).num_options == method_config("bc", num_options=None).num_options == 1
    assert method_config("bc-deep", hidden=[64, 64]).hidden == (64, 64)
    assert method_config("options-exact", hidden=(3,)).hidden == (3,)


@pytest.mark.parametrize(
    "method, config",
    [
        ("bc", {"num_options": 3}),
        ("options-exact", {"guide": "paper"}),
        ("bc-deep", {"hidden": (4,)}),
        ("ddo", {"num_options": 2, "prior": "gem"}),
    ],
)
def test_what_contradicts_the_name_is_refused(method, config):
    name = [*config][-1]
    for call in (lambda: method_config(method, **config), lambda: build(method, make_episodes(), **config)):
        with pytest.raises(InputError, match=rf"Expected {name} = .* '{method}' has it, but got .*Leave {name} out"):
            call()


def test_the_default_growth_rule_depends_on_the_guide():
    exact, relaxed = method_config("options-exact").growth, method_config("options-paper").growth
    assert (exact.rule, exact.initial_options, relaxed.rule, relaxed.initial_options) == ("trial", 16, "evidence", 1)
    assert {method_config(name).growth.rule for name in ("options-straight-through", "compile-np")} == {"evidence"}
    assert method_config("options-exact", max_options=3).growth.initial_options == 3
    assert method_config("options-exact", rule="usage").growth.initial_options == 1
    told = method_config("options-paper", rule="trial", initial_options=2).growth
    assert (told.rule, told.initial_options, told.removals) == (TrialRule(7.0), 2, ("prune", "merge"))


def test_growth_from_few_options_makes_many_and_from_stretches_with_an_amortized_guide():
    data = make_episodes()
    few, several = (build("options", data, initial_options=n) for n in (1, 16))
    assert few.config.growth.birth == "stretches" and several.config.growth.birth == "halve"
    assert (few.growth.rule.rate, several.growth.rule.rate) == (7.0, 1.0)
    given = build("options", data, growth=Growth(TrialRule(2.0), "halve", initial_options=1)).growth
    assert given.rule.rate == 2.0 and isinstance(given.birth, SplitBirth)
    network = build("options", data, initial_options=1, network=torch.nn.Linear(data.state_dim, 3))
    assert network.config.growth.birth == "halve"
    exact = build("options-exact", data, initial_options=1)
    assert (exact.config.growth.birth, exact.growth.rule.rate) == ("halve", 7.0)
    evidence = build("options-paper", data).config.growth
    assert (evidence.initial_options, evidence.birth) == (1, "data")


def test_a_rule_object_has_the_defaults_of_its_name():
    config = method_config("options-paper", growth=Growth(UsageRule(0.25))).growth
    assert (config.birth, config.removals, config.check_every) == ("split", (), 80)
    assert method_config("options-paper", growth=Growth(TrialRule())).growth.judges_after_training

    class Own(EvidenceRule):
        pass

    assert method_config("options-paper", growth=Growth(Own())).growth.check_every == 40


def test_growth_settings_can_be_passed_directly():
    assert method_config("options-paper", rule="usage", check_every=3) == method_config(
        "options-paper", growth=Growth("usage", check_every=3)
    )
    with pytest.raises(InputError, match="both growth and rule"):
        method_config("options-paper", growth=Growth(), rule="usage")


def test_completing_a_config_is_idempotent():
    for name in METHODS:
        config = method_config(name, **required_settings(name))
        assert config.complete() == config


def test_every_part_can_be_an_object():
    data = make_episodes(16)
    growth = Growth(UsageRule(0.1), RandomBirth(), [Prune()], check_every=1, initial_options=2)
    skills = discover(data, guide="exact", growth=growth, prior=GEM(2.0, discount=0.1), **QUICK)
    made = skills.metadata["method"]
    assert made["prior"] == "GEM" and made["growth"]["rule"] == {"type": "UsageRule", "delta": 0.1} | {
        "measure": "likelihood"
    }
    assert made["name"] is None and len(skills.metadata["history"]["growth_epochs"]) >= 1


def test_the_prior_object_decides_what_the_weights_are():
    data = make_episodes()
    assert build(None, data, prior=GEM(), initial_options=3).guide.weights.num_components == 3
    assert build(None, data, prior=Uniform(), num_options=2).config.prior_name == "uniform"
    assert build(None, data, prior=GEM(remainder=True), num_options=2).guide.weights.remainder
    gamma = build(None, data, prior=GEM(alpha_prior=(3.0, 2.0)), guide="exact").guide.weights.concentration
    assert float(gamma.distribution().mean.detach()) == pytest.approx(1.5)


class Own(PyroModule):
    """A guide that lives outside the package."""

    collapses = {"path": "actions"}

    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    def forward(self, episodes):
        self.weights()


@pytest.mark.parametrize("guide", [lambda pieces: Own(pieces.weights), Own(GrowableGEM(3))], ids=["factory", "module"])
def test_a_custom_guide_is_trained(guide):
    skills = discover(make_episodes(16), guide=guide, growth=Growth("usage", check_every=1, initial_options=3), **QUICK)
    assert 3 <= skills.num_options <= 5


def test_a_custom_model_is_trained():
    data = make_episodes(12)
    D = data.state_dim
    model = OptionHMM(CategoricalPolicy(D, 2, 4), Termination(D, 2))
    before = [p.detach().clone() for p in model.parameters()]
    skills = discover(data, model=model, num_options=2, prior="gem", **QUICK)
    assert skills.num_options == 2
    assert any(not torch.equal(p, old) for p, old in zip(model.parameters(), before))
    with pytest.raises(InputError, match="num_options = 2, as the module has, but got 3"):
        build(None, data, model=model, num_options=3)
    with pytest.raises(InputError, match="restarts=1 with a module that is there already"):
        discover(data, model=model, num_options=2, restarts=2, **QUICK)
    with pytest.raises(InputError, match="as many options"):
        build(None, data, model=model, guide=Exact(GrowableGEM(3)))


def test_a_guide_of_another_model_is_refused():
    with pytest.raises(InputError, match=r"a guide of the model 'options' but got 'segments'\. Pass model='segments'"):
        MethodConfig(guide="segments")
    with pytest.raises(InputError, match="a guide of the model 'segments' but got 'exact'"):
        discover(make_episodes(), model="segments")
    with pytest.raises(InputError, match="guide as a name, a module or a function"):
        MethodConfig(guide=3)
    with pytest.raises(InputError, match="GrowableGuide but got Linear without weights, collapses"):
        build(None, make_episodes(), guide=torch.nn.Linear(1, 1))


def test_assembled_parts_fit_each_other():
    data = make_episodes()
    for name in METHODS:
        method = assemble(data, method_config(name, **required_settings(name)))
        trace = collapse(method.model, method.model.latents)
        assert torch.isfinite(trace(data, method.guide.weights.mean_log_weights().detach()).float()).all()
