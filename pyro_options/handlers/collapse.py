"""Sum a latent site out of a model."""

from collections.abc import Callable, Mapping
from typing import Any

from pyro.poutine.messenger import Messenger


class CollapseMessenger(Messenger):
    """Hides a latent site and gives its observed site the marginal likelihood instead.

    The model gets the latent's distribution in place of its value; it must have ``marginalize(likelihood)``.

    :param sites: latent site -> the site that absorbs it, which may be a latent one that is summed out in turn
    """

    def __init__(self, sites: Mapping[str, str]):
        super().__init__()
        self.sites = dict(sites)
        self._latents: dict[str, Any] = {}

    def _pyro_sample(self, msg):
        if msg["name"] in self._latents:
            msg["fn"] = self._latents.pop(msg["name"]).marginalize(msg["fn"])
        if msg["name"] in self.sites:
            self._latents[self.sites[msg["name"]]] = msg["fn"]
            msg["value"], msg["done"], msg["stop"] = msg["fn"], True, True


def collapse(model: Callable, sites: Mapping[str, str] | None = None) -> Callable:
    """``model`` with latent sites summed out, by default all that can be: its ``latents``, or the path.

    What :class:`~pyro_options.guides.Exact` needs.

    Example::

        svi = SVI(collapse(model), Exact(GrowableGEM(4)), ClippedAdam({"lr": 5e-3}), TraceGraph_ELBO())
    """
    sites = getattr(model, "latents", {"path": "actions"}) if sites is None else sites
    return CollapseMessenger(sites)(model) if sites else model
