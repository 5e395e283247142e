"""Guides built on the model's own evidence: a learned backward message, and a bound with one step summed out."""

from collections.abc import Callable

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.options.evidence import PathEvidence
from pyro_options.options.message_encoder import MessageEncoder
from pyro_options.options.structured_path import MarginalStructuredPath, RelaxedStructuredPath, StructuredPath


class _Structured(PyroModule):
    r"""Base of guides with a posterior over the sticks, and over each path by the model's evidence and a message.

    .. math:: q(\eta)\prod_i q(\zeta^{(i)}\mid\eta, \xi^{(i)})

    with :math:`q(\zeta\mid\eta, \xi)` of :class:`~pyro_options.options.StructuredPath`. Sites: those of ``weights``,
    and ``path`` of event shape ``(T, K + 1)`` in the plate ``episodes``.

    :param weights: :math:`q(\eta)`, a :class:`GrowableGEM` for instance
    :param encoder: the message of the steps ahead
    :param evidence: the model's method of that name, see :class:`~pyro_options.options.EvidenceModel`
    :param lookahead: at least as many exact steps of the backward recursion lie between the encoder's message and its
        use, see :func:`~pyro_options.options.path_steps.look_ahead`; the cost does not depend on it
    """

    collapses: dict[str, str] = {}
    #: latent site -> the site that absorbs its steps, for :func:`~pyro_options.handlers.adapt`
    stepwise = {"path": "actions"}

    def __init__(
        self,
        weights: PyroModule,
        encoder: MessageEncoder,
        evidence: Callable[[Trajectories, Tensor], PathEvidence],
        lookahead: int = 8,
    ):
        super().__init__()
        check(callable(evidence), "evidence as a method of the model", evidence, "Pass model.evidence.")
        check(lookahead >= 0, "lookahead >= 0", lookahead)
        self.weights, self.encoder, self.evidence, self.lookahead = weights, encoder, evidence, lookahead

    def path(self, evidence: PathEvidence, message: Tensor) -> StructuredPath:
        """The distribution of the paths of a batch of episodes."""
        raise NotImplementedError

    def forward(self, episodes: Trajectories) -> None:
        log_weights = self.weights()
        with torch.no_grad():
            evidence = self.evidence(episodes, log_weights.detach())
        message = self.encoder(episodes.states, episodes.encoded_actions(), episodes.mask, evidence)
        path = self.path(evidence, message)
        index = torch.arange(len(episodes), device=message.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            pyro.sample("path", path, infer={"stepwise": path})


class Structured(_Structured):
    r"""Gumbel-Softmax paths from a chain with the structure of the exact posterior.

    Where :class:`Relaxed` must learn what the policies already know, this one starts with it: at first its paths are
    the posterior given the next ``lookahead`` steps or more, and the encoder learns what those beyond add. Train it
    with :func:`~pyro_options.handlers.adapt`, which averages model and guide over each step given the one before: for
    discrete paths that is a lower bound of the log marginal, and if the message is exact it equals it for every path.

    :param temperature: of the relaxation, unless :func:`~pyro_options.handlers.temper` sets another
    """

    objective_is_bound = False  # of discrete paths only

    def __init__(self, weights, encoder, evidence, lookahead: int = 8, temperature: float = 1.0):
        super().__init__(weights, encoder, evidence, lookahead)
        self.temperature = temperature

    def path(self, evidence, message):
        return RelaxedStructuredPath(evidence, message, self.lookahead, self.temperature)


class StructuredMarginal(_Structured):
    """The guide of :class:`Structured` without noise: the marginals of its chain in place of a draw.

    The objective is linear in the path, so this is its expectation over discrete paths, a lower bound of the log
    marginal, with its exact gradient.
    """

    def path(self, evidence, message):
        return MarginalStructuredPath(evidence, message, self.lookahead)
