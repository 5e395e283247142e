"""Skills from a trained model and its guide."""

from functools import singledispatch
from typing import Any

from torch import Tensor

from pyro_options.errors import InputError
from pyro_options.models.option_hmm import OptionHMM
from pyro_options.models.segments import CompILE
from pyro_options.models.state_option_hmm import StateOptionHMM
from pyro_options.models.sticky_option_hmm import StickyOptionHMM

from .skills import Skills


@singledispatch
def skills_at(model: Any, log_weights: Tensor, **given) -> Skills:
    """The skills of a model at given weights. Register an implementation for your own model class::

        @skills_at.register
        def _(model: MyModel, log_weights, **given):
            return Skills(model.policy, model.termination, log_weights, **given)

    :param log_weights: log η, in the shape of the guide's ``weights.mean_log_weights()``
    :param given: other arguments of :class:`Skills`
    """
    fix = "Register a function for it with skills_at.register."
    raise InputError(f"Expected a model whose skills are known but got {type(model).__name__}. {fix}")


@skills_at.register
def _(model: OptionHMM, log_weights, **given):
    return Skills(model.policy, model.termination, log_weights, **given)


@skills_at.register
def _(model: StateOptionHMM, log_weights, **given):
    return Skills(model.policy, model.termination, log_weights, state_weights=model.tilt, **given)


@skills_at.register
def _(model: StickyOptionHMM, log_weights, **given):
    return Skills(model.policy, model.termination, log_weights[0], log_rows=log_weights[1:], **given)


@skills_at.register
def _(model: CompILE, log_weights, **given):
    cap = model.max_duration
    termination = model.segments.termination(model.policy, cap)
    return Skills(model.policy, termination, log_weights, segments=model.segments, max_duration=cap, **given)


def to_skills(model: Any, guide: Any, **given) -> Skills:
    """The skills of a trained model, at the mean weights of its guide.

    They evaluate the model on data: ``to_skills(model, guide).segment(data)`` returns the exact log-likelihood, the
    most probable options and their usage.

    :param model: an :class:`~pyro_options.models.OptionHMM`, a :class:`~pyro_options.models.StateOptionHMM`, a
        :class:`~pyro_options.models.StickyOptionHMM`, a :class:`~pyro_options.models.CompILE`, or a model registered
        with :func:`skills_at`
    :param guide: has ``weights``, the posterior over η
    :param given: other arguments of :class:`Skills`
    """
    return skills_at(model, guide.weights.mean_log_weights(), **given)
