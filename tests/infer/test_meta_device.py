"""Models, guides and growth on the meta device, which refuses to mix with the CPU as CUDA does."""

import pyro
import pytest
import torch
from pyro import poutine
from support.episodes import make_episodes
from support.methods import required_settings

from pyro_options.discovery import METHODS, build
from pyro_options.growth import SplitBirth, grow, growables, permute, prune
from pyro_options.guides import weights_guide
from pyro_options.handlers import EntropyMessenger, TemperMessenger, adapt


@pytest.fixture(autouse=True)
def no_validation():
    """Checks of values need values, which the meta device has not."""
    with pyro.validation_enabled(False):
        torch.distributions.Distribution.set_default_validate_args(False)
        yield
        torch.distributions.Distribution.set_default_validate_args(True)


def objective(method, episodes):
    """Log joint and log guide of one trace, with every handler of the training loop."""
    guide = TemperMessenger(0.5)(method.guide)
    model = EntropyMessenger(1.0, "actions")(adapt(method.model, method.guide))
    with pyro.get_param_store().scope():
        guide_trace = poutine.trace(guide).get_trace(episodes)
        model_trace = poutine.trace(poutine.replay(model, guide_trace)).get_trace(episodes)
        return model_trace.log_prob_sum() - guide_trace.log_prob_sum()


@pytest.mark.parametrize("name", METHODS)
def test_model_and_guide_run_on_the_meta_device(name, monkeypatch):
    monkeypatch.setattr(EntropyMessenger, "__exit__", _exit_without_value)
    episodes = make_episodes(6)
    method = build(name, episodes, **required_settings(name))
    method.model.to("meta"), method.guide.to("meta")
    elbo = objective(method, episodes.to("meta"))
    assert elbo.device.type == "meta" and elbo.shape == ()
    elbo.backward()
    parameters = [*method.model.named_parameters(), *method.guide.named_parameters()]
    parameters = [p for name, p in parameters if not name.startswith("baseline")]  # TraceGraph_ELBO alone trains those
    assert all(p.grad.device.type == "meta" for p in parameters)


def _exit_without_value(self, *args):
    """As the real one, but for the number that it logs."""
    super(EntropyMessenger, self).__exit__(*args)
    pyro.factor("usage_entropy", self.weight * self._population * self._entropy)


@pytest.mark.parametrize("name", ["options", "options-exact", "options-point", "compile-np"])
def test_growth_runs_on_the_meta_device(name):
    episodes = make_episodes(6)
    method = build(name, episodes, hidden=(8,), rule="evidence")
    modules = [method.model.to("meta"), method.guide.to("meta")]
    optimizer = torch.optim.Adam([p for m in modules for p in m.parameters()])
    for move in (lambda: grow(modules, 2, optimizer), lambda: permute(modules, [2, 0, 1]), lambda: prune(modules, [1])):
        move()
        log_weights = method.guide.weights.mean_log_weights()
        logits = method.model.policy(episodes.to("meta").states).logits
        assert log_weights.device.type == logits.device.type == "meta"
    assert method.model.num_options == 2
    for layer in growables([method.model]):
        layer.inherit(1, 0, SplitBirth().noise)


@pytest.mark.parametrize("prior", ["gem", "truncated", "uniform"])
def test_weights_run_on_the_meta_device(prior):
    assert weights_guide(prior, 3).to("meta")().device.type == "meta"
