"""Handlers that score a model as its guide needs it: chains averaged over each of their steps."""

from collections.abc import Callable, Mapping
from typing import Any

from pyro.poutine.messenger import Messenger

from pyro_options.errors import check
from pyro_options.growth.contracts import (
    EstimatingGuide,
    GrowableGuide,
    StepAveraged,
    StepwiseGuide,
    StepwisePosterior,
    fulfills,
)

from .collapse import collapse
from .estimate import estimate


class AverageStepsMessenger(Messenger):
    r"""Scores a latent chain and the site that absorbs it by an average over each step given the one before.

    .. math:: \sum_t E_{q(z_t\mid z_{t-1})}[\log p(z_t, x_t\mid z_{t-1})]

    in place of :math:`\sum_t \log p(z_t, x_t\mid z_{t-1})`: only :math:`z_{t-1}` is taken from the guide's draw (a
    Rao-Blackwellized ELBO). The latent site keeps its value, but its score moves to the absorbing site. The model must
    be replayed against a guide whose site passes ``infer={"stepwise": distribution}``.

    :param sites: latent site, a :class:`~pyro_options.growth.StepAveraged` -> the site that absorbs it
    """

    def __init__(self, sites: Mapping[str, str]):
        super().__init__()
        self.sites = dict(sites)
        self._priors: dict[str, Any] = {}
        self._chains: dict[str, tuple[Any, Any]] = {}  # absorbing site -> prior and transitions of its latent site

    def _pyro_sample(self, msg):
        name = msg["name"]
        if name in self._chains:
            prior, transitions = self._chains.pop(name)
            msg["fn"] = prior.average_steps(msg["fn"], transitions)
        if name in self.sites:
            self._priors[name] = fulfills(msg["fn"], StepAveraged, f"the distribution of site {name!r}")
            msg["fn"] = msg["fn"].mask(False)

    def _pyro_post_sample(self, msg):
        name = msg["name"]
        if name in self.sites:
            posterior = msg["infer"].get("stepwise")
            fix = "Replay the model against a guide that passes infer={'stepwise': distribution} at this site."
            check(
                isinstance(posterior, StepwisePosterior), f"the steps of site {name!r} from the guide", posterior, fix
            )
            self._chains[self.sites[name]] = self._priors.pop(name), posterior.transitions(msg["value"])


def average_steps(model: Callable, sites: Mapping[str, str]) -> Callable:
    """``model`` with latent chains averaged over each step; see :class:`AverageStepsMessenger`."""
    return AverageStepsMessenger(sites)(model) if sites else model


def adapt(model: Callable, guide: GrowableGuide) -> Callable:
    """``model`` as ``guide`` needs it: latents that it does not sample summed out, its chains averaged or estimated.

    Example::

        svi = SVI(adapt(model, guide), guide, ClippedAdam({"lr": 5e-3}), TraceGraph_ELBO())
    """
    averaged = guide.stepwise if isinstance(guide, StepwiseGuide) else {}
    estimated = guide.estimates if isinstance(guide, EstimatingGuide) else {}
    return estimate(average_steps(collapse(model, guide.collapses), averaged), estimated)
