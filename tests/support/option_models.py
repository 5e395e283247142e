"""Small models of options, guides for them, and skills whose actions are known."""

import torch

from pyro_options.growth import reweight
from pyro_options.guides import Exact, Relaxed, Structured, weights_guide
from pyro_options.models import OptionHMM
from pyro_options.options import CategoricalPolicy, MessageEncoder, PathEncoder, Termination
from pyro_options.skills import Skills


def make_model(prior="gem", num_options=3, state_dim=3, num_actions=4):
    """Random options for the data of :func:`support.episodes.make_episodes`."""
    return OptionHMM(
        CategoricalPolicy(state_dim, num_options, num_actions, hidden=(8,)), Termination(state_dim, num_options), prior
    )


def make_guide(name, num_options=2, prior="gem", point=False):
    """An ``"exact"`` or ``"paper"`` guide for :func:`make_model`; for others see :func:`structured_guide`."""
    weights = weights_guide(prior, num_options, point)
    return Exact(weights) if name == "exact" else Relaxed(weights, PathEncoder(3 + 4, num_options))


def structured_guide(model, kind=Structured, lookahead=2):
    """A structured guide for a model of :func:`make_model`, whose message is not zero."""
    K = model.num_options
    guide = kind(weights_guide("gem", K), MessageEncoder(3 + 4, K, 6, 5), model.evidence, lookahead)
    torch.nn.init.normal_(guide.encoder.heads.weight)
    return guide


def single_action_options(*actions, termination=-5.0):
    """A model in which each option takes its one action, and a guide with even weights."""
    model = make_model(num_options=len(actions))
    with torch.no_grad():
        model.policy.heads.weight.zero_()
        model.policy.heads.bias.zero_()
        for option, action in enumerate(actions):
            model.policy.heads.bias[option, action] = 6.0
        model.termination.heads.weight.zero_()
        model.termination.heads.bias.fill_(termination)
    guide = Exact(weights_guide("gem", len(actions)))
    reweight([guide], torch.zeros(len(actions)))
    return model, guide


def single_action_skills(*actions, names=("up", "down", "left", "right"), **metadata):
    """Skills of which each takes its one action."""
    model, guide = single_action_options(*actions, termination=-3.0)
    return Skills(
        model.policy, model.termination, guide.weights.mean_log_weights(), action_names=names, metadata=metadata
    )
