"""A handler that sums latent sites out of a model."""

from collections.abc import Callable, Mapping
from typing import Any

from pyro.poutine.messenger import Messenger

from pyro_options.growth.contracts import CollapsibleModel, Marginalizable, fulfills


class CollapseMessenger(Messenger):
    """Removes a latent site from the trace and replaces the distribution of its observed site by the marginal.

    The model receives the latent's distribution, a :class:`~pyro_options.growth.Marginalizable`, as its value.

    :param sites: latent site -> the site that absorbs it, which may be a latent site that is summed out in turn
    """

    def __init__(self, sites: Mapping[str, str]):
        super().__init__()
        self.sites = dict(sites)
        self._latents: dict[str, Any] = {}

    def _pyro_sample(self, msg):
        if msg["name"] in self._latents:
            msg["fn"] = self._latents.pop(msg["name"]).marginalize(msg["fn"])
        if msg["name"] in self.sites:
            fulfills(msg["fn"], Marginalizable, f"the distribution of site {msg['name']!r}")
            self._latents[self.sites[msg["name"]]] = msg["fn"]
            msg["value"], msg["done"], msg["stop"] = msg["fn"], True, True


def collapse(model: Callable, sites: Mapping[str, str] | None = None) -> Callable:
    """``model`` with latent sites summed out.

    :param sites: latent site -> the site that absorbs it; by default all that can be summed out, the model's
        ``latents``

    Example::

        svi = SVI(collapse(model), GrowableGEM(4), ClippedAdam({"lr": 5e-3}), TraceGraph_ELBO())
    """
    if sites is None:
        sites = fulfills(model, CollapsibleModel, "a model to sum all latents out of").latents
    return CollapseMessenger(sites)(model) if sites else model
