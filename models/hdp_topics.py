"""The topic model of a hierarchical Dirichlet process."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.distributions.topics import TopicWords
from pyro_options.errors import check

from .gem import GEM


class HDPTopics(PyroModule):
    r"""Documents as mixtures of topics, each with proportions around weights β that all documents share.

    .. math:: \beta\sim\mathrm{GEM}(\gamma), \qquad \pi_d\sim\mathrm{DP}(\alpha, \beta), \qquad
        x_{dn}\sim\sum_k \pi_{dk}\,\phi_k

    The proportions and the topics of the words are integrated out by :class:`~pyro_options.distributions.TopicWords`, a
    lower bound; with the factor ``topics``, :math:`-\mathrm{KL}(q(\phi)\Vert p(\phi))`, the whole is a lower bound on
    the evidence. α and γ are learned.

    Sites: ``sticks`` of event shape ``(K,)``, the factor ``topics``, and ``words`` in the plate ``documents``.

    :param components: the topics, :class:`~pyro_options.mixtures.CountComponents`
    :param alpha: initial α
    :param gamma: initial γ

    Reference: Teh et al. (2006).
    """

    #: no latent site is left to sum out
    latents: dict[str, str] = {}

    def __init__(self, components: nn.Module, alpha: float = 1.0, gamma: float = 1.0):
        super().__init__()
        check(alpha > 0, "alpha > 0", alpha)
        self.components, self.high_level = components, GEM(gamma)
        self.log_alpha = nn.Parameter(torch.tensor(float(alpha)).log())

    def words(self, documents: Tensor, log_weights: Tensor) -> TopicWords:
        """The distribution of these documents given log β ``(K,)``."""
        counts = self.components().concentration  # (K, V)
        log_words = torch.digamma(counts) - torch.digamma(counts.sum(-1, keepdim=True))
        return TopicWords(log_weights, log_words, torch.exp(self.log_alpha), documents >= 0)

    def forward(self, documents: Tensor, log_weights: Tensor | None = None, population: int | None = None) -> Tensor:
        """Runs the generative process; with ``log_weights`` given, β is not sampled.

        :param documents: words as integers ``(N, L)``; -1 pads short documents
        :param population: number of documents of which these are a minibatch
        """
        if log_weights is None:
            log_weights = self.high_level(self.components.num_components)  # (K,)
        pyro.factor("topics", -self.components.divergence().sum())
        size = len(documents) if population is None else population
        with pyro.plate("documents", size, subsample=torch.arange(len(documents), device=documents.device)):
            return pyro.sample("words", self.words(documents, log_weights), obs=documents)
