"""Sum a latent site out of a model."""

from collections.abc import Callable, Mapping
from typing import Any

from pyro.poutine.messenger import Messenger


class CollapseMessenger(Messenger):
    """Hides a latent site and gives its observed site the marginal likelihood instead.

    The model gets the latent's distribution in place of its value; it must have ``marginalize(likelihood)``.

    :param sites: latent site -> the site that absorbs it
    """

    def __init__(self, sites: Mapping[str, str]):
        super().__init__()
        self.sites = dict(sites)
        self._latents: dict[str, Any] = {}

    def _pyro_sample(self, msg):
        if msg["name"] in self.sites:
            self._latents[self.sites[msg["name"]]] = msg["fn"]
            msg["value"], msg["done"], msg["stop"] = msg["fn"], True, True
        elif msg["name"] in self._latents:
            msg["fn"] = self._latents.pop(msg["name"]).marginalize(msg["fn"])


def collapse(model: Callable, sites: Mapping[str, str] | None = None) -> Callable:
    """``model`` with latent sites summed out, by default the path; what :class:`~pyro_options.guides.Exact` needs.

    Example::

        svi = SVI(collapse(model), Exact(GrowableGEM(4)), ClippedAdam({"lr": 5e-3}), TraceGraph_ELBO())
    """
    sites = {"path": "actions"} if sites is None else sites
    return CollapseMessenger(sites)(model) if sites else model
