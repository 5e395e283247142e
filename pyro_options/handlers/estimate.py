"""A handler that replaces a latent site and the site that absorbs it by an estimate of their marginal."""

from collections.abc import Callable, Mapping
from typing import Any

from pyro.poutine.messenger import Messenger

from pyro_options.errors import check
from pyro_options.growth.contracts import MarginalEstimate


class EstimateMessenger(Messenger):
    """Scores a latent site and the site that absorbs it by an estimate from several draws of the guide.

    The latent site keeps its value, one of the draws, and scores nothing. The absorbing site has the distribution that
    the guide's :class:`~pyro_options.growth.MarginalEstimate` makes of both. The model must be replayed against a guide
    whose site passes ``infer={"estimate": estimate}``.

    :param sites: latent site -> the site that absorbs it
    """

    def __init__(self, sites: Mapping[str, str]):
        super().__init__()
        self.sites = dict(sites)
        self._priors: dict[str, Any] = {}
        self._estimates: dict[str, tuple[Any, MarginalEstimate]] = {}

    def _pyro_sample(self, msg):
        if msg["name"] in self._estimates:
            prior, estimate = self._estimates.pop(msg["name"])
            msg["fn"] = estimate.absorb(prior, msg["fn"])
        if msg["name"] in self.sites:
            self._priors[msg["name"]] = msg["fn"]
            msg["fn"] = msg["fn"].mask(False)

    def _pyro_post_sample(self, msg):
        name = msg["name"]
        if name in self.sites:
            found = msg["infer"].get("estimate")
            fix = "Replay the model against a guide that passes infer={'estimate': estimate} at this site."
            check(isinstance(found, MarginalEstimate), f"an estimate for site {name!r} from the guide", found, fix)
            self._estimates[self.sites[name]] = self._priors.pop(name), found


def estimate(model: Callable, sites: Mapping[str, str]) -> Callable:
    """``model`` with latent sites estimated by draws of the guide; see :class:`EstimateMessenger`."""
    return EstimateMessenger(sites)(model) if sites else model
