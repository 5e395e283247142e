"""A handler that measures the usage of components."""

import torch
from pyro.poutine.messenger import Messenger

from pyro_options.errors import InputError
from pyro_options.growth.contracts import ComponentLikelihood, fulfills, mask_of
from pyro_options.growth.usage import Usage
from pyro_options.growth.workers import ALONE, Workers


class ObserveMessenger(Messenger):
    """Accumulates :class:`~pyro_options.growth.Usage` at one observed site without changing the model.

    :param site: name of the site; its distribution is a :class:`~pyro_options.growth.ComponentLikelihood`
    """

    def __init__(self, site: str):
        super().__init__()
        self.site = site
        self.workers: Workers = ALONE  # the processes that share the data
        self.reset()

    def reset(self) -> None:
        """Clears the accumulated usage."""
        self._likelihood = self._posterior = self._explained = None
        self._count = 0

    def _pyro_post_sample(self, msg):
        if msg["name"] != self.site:
            return
        fn = fulfills(msg["fn"], ComponentLikelihood, f"the distribution of site {self.site!r}")
        value = msg["value"]
        with torch.no_grad():
            responsibilities, mask = fn.responsibilities(value), mask_of(fn)
            log_prob = fn.component_log_prob(value).expand_as(responsibilities)  # may lack a dimension of particles
            if mask is None:
                mask = torch.ones((), dtype=torch.bool, device=log_prob.device)
            mask = mask.expand(log_prob.shape[:-1])
            log_prob, responsibilities = log_prob[mask], responsibilities[mask]  # (points, K)
            likelihood = torch.bincount(log_prob.argmax(-1), minlength=log_prob.shape[-1])
            posterior = responsibilities.sum(0)
            if self._likelihood is None:
                self._likelihood, self._posterior = torch.zeros_like(likelihood), torch.zeros_like(posterior)
                self._explained = torch.zeros_like(posterior).expand(len(posterior), -1).clone()
            self._likelihood += likelihood
            self._posterior += posterior
            self._explained += responsibilities.T @ log_prob
            self._count += len(log_prob)

    def usage(self) -> Usage:
        """The usage accumulated since the last :meth:`reset`."""
        own = None
        if self._likelihood is not None and self._posterior is not None:
            sums = self._likelihood, self._posterior, self._explained
            own = [*(total.cpu() for total in sums), torch.tensor(self._count)]
        added = self.workers.add(own)
        if not added:
            raise InputError(
                f"Expected data at site {self.site!r} but saw none. Run the model inside this handler first."
            )
        *totals, count = added
        likelihood, posterior, explained = (total / int(count) for total in totals)
        return Usage(likelihood, posterior, int(count), explained)
