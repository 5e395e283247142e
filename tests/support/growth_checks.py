"""Growth one check at a time: what a check sees, a rule that always proposes, and copies to compare with."""

from dataclasses import dataclass

import torch
from pyro import poutine

from pyro_options.growth import Scene, Verdict
from pyro_options.handlers import ObserveMessenger, collapse


@dataclass(frozen=True)
class AlwaysPropose:
    """Proposes births at every check, and keeps or refuses them all."""

    count: int = 1
    keep: bool = True

    def propose(self, usage):
        return self.count

    def accept(self, newborns):
        return Verdict(self.keep)


def observe(handler, model, guide, episodes):
    """Runs the model under weights drawn from the guide, with the handler looking on."""
    with torch.no_grad(), handler:
        trace = poutine.trace(guide).get_trace(episodes)
        poutine.replay(collapse(model, guide.collapses), trace)(episodes)


def observe_and_step(growth, model, guide, episodes, optimizer=None, time=0):
    """One check of growth with all that births, removals and rules may look at."""
    observe(growth, model, guide, episodes)
    weights = guide.weights.mean_log_weights().detach()
    return growth.step(optimizer, time, collapse(model), episodes, weights)


def make_scene(model, guide, episodes, **given):
    """What moves and their judges see of a model, a guide and some episodes."""
    observer = ObserveMessenger("actions")
    observe(observer, model, guide, episodes)
    weights = guide.weights.mean_log_weights().detach()
    return Scene([model, guide], observer.usage(), "actions", weights, collapse(model), episodes, **given)


def copied_tensors(*modules, optimizer=None):
    """Copies of parameters, buffers and moments, to compare bit for bit."""
    tensors = [tensor for module in modules for tensor in module.state_dict().values()]
    for state in optimizer.state.values() if optimizer is not None else ():
        tensors += [value for value in state.values() if torch.is_tensor(value)]
    return [tensor.clone() for tensor in tensors]


def assert_identical(before, after):
    """As many tensors, equal bit for bit."""
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
