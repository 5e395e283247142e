"""Documents with topic proportions of their own, as a lower bound in closed form."""

from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence

from pyro_options.errors import check

_LEAST = 1e-20  # of a parameter of a Dirichlet: the weight of a topic that is switched off


class TopicWords(TorchDistribution):
    r"""The words of a document, each from a topic that is drawn from the document's own proportions.

    .. math:: p(x) = \int \mathrm{Dirichlet}(\pi\mid\alpha\beta)\prod_n\sum_k \pi_k\,\phi_{k,x_n}\,d\pi

    The integral has no closed form. ``log_prob`` is the bound of latent Dirichlet allocation,
    :math:`\sum_n\log\sum_k e^{E_q\log\pi_k}\phi_{k,x_n} - \mathrm{KL}(q\Vert p)`, at a Dirichlet q(π) found by
    coordinate ascent; it is differentiable in β, α and φ. β may sum to less than one: the rest, which no word is drawn
    from, is the mass of topics not yet created.

    :param log_weights: log β, ``(K,)``, or ``(..., 1, K)`` of several particles
    :param log_words: log φ, ``(K, V)``, which need not be normalized: :math:`E\log\phi` gives a bound as well
    :param concentration: α, a scalar tensor
    :param mask: words that are not padding ``(N, L)``
    :param num_updates: steps of coordinate ascent

    Reference: Blei, Ng and Jordan (2003); Teh et al. (2006).
    """

    arg_constraints: ClassVar[dict] = {}
    support = constraints.independent(constraints.integer, 1)

    def __init__(self, log_weights, log_words, concentration, mask: Tensor, num_updates: int = 20, validate_args=None):
        K = log_weights.shape[-1]
        given = tuple(log_weights.shape), tuple(log_words.shape)
        check(len(log_words) == K, "log_weights (..., K) and log_words (K, V)", given)
        self.log_weights, self.log_words, self.concentration = log_weights, log_words, concentration
        self.step_mask, self.num_updates = mask, num_updates
        batch_shape = torch.broadcast_shapes(log_weights.shape[:-1], mask.shape[:-1])
        super().__init__(batch_shape, mask.shape[-1:], validate_args=False)

    def expand(self, batch_shape, _instance=None):
        mask = self.step_mask.expand(torch.Size(batch_shape) + self.step_mask.shape[-1:])
        return TopicWords(self.log_weights, self.log_words, self.concentration, mask, self.num_updates)

    def component_log_prob(self, value: Tensor) -> Tensor:
        """log φ_k of each word, ``(N, L, K)``."""
        return self.log_words.T[value.clamp(min=0)]

    def _prior(self, log_weights: Tensor) -> Tensor:
        """Parameters of the Dirichlet over K topics and the rest, ``(..., K + 1)``."""
        weights = torch.exp(log_weights)
        rest = (1 - weights.sum(-1, keepdim=True)).clamp(min=1e-6)
        return self.concentration * torch.cat([weights, rest], -1).clamp(min=_LEAST)

    def _expected_log(self, posterior: Tensor) -> Tensor:
        """E log π of the K topics, ``(N, 1, K)``."""
        expected = torch.digamma(posterior[..., :-1]) - torch.digamma(posterior.sum(-1, keepdim=True))
        return expected.unsqueeze(-2)

    @torch.no_grad()
    def _posterior(self, prior: Tensor, words: Tensor) -> Tensor:
        """Parameters of q(π) of each document, ``(N, K + 1)``, by coordinate ascent from even proportions."""
        mask = self.step_mask.unsqueeze(-1).to(words)
        counts = (torch.softmax(torch.log(prior[..., None, :-1]).clamp(min=-50) + words, -1) * mask).sum(-2)
        for _ in range(self.num_updates):
            posterior = prior + torch.nn.functional.pad(counts, (0, 1))
            counts = (torch.softmax(self._expected_log(posterior) + words, -1) * mask).sum(-2)
        return prior + torch.nn.functional.pad(counts, (0, 1))

    def _bound(self, log_weights: Tensor, words: Tensor) -> Tensor:
        prior = self._prior(log_weights)
        posterior = self._posterior(prior, words)
        per_word = torch.logsumexp(self._expected_log(posterior) + words, -1)
        kl = kl_divergence(Dirichlet(posterior, validate_args=False), Dirichlet(prior, validate_args=False))
        return (per_word * self.step_mask).sum(-1) - kl

    def log_prob(self, value):
        """The lower bound of each document, ``(N,)``."""
        return self._bound(self.log_weights, self.component_log_prob(value))

    def weighed(self, value: Tensor):
        """The bound as a function of log β; the words are looked up once, here."""
        words = self.component_log_prob(value)
        return lambda log_weights: self._bound(log_weights, words)

    def responsibilities(self, value: Tensor) -> Tensor:
        """q(topic = k) of each word, ``(N, L, K)``; zero in padding."""
        words = self.component_log_prob(value)
        posterior = self._posterior(self._prior(self.log_weights), words)
        return torch.softmax(self._expected_log(posterior) + words, -1) * self.step_mask.unsqueeze(-1)

    def proportions(self, value: Tensor) -> Tensor:
        """E π of each document, ``(N, K)``; the rest belongs to topics not yet created."""
        posterior = self._posterior(self._prior(self.log_weights), self.component_log_prob(value))
        return (posterior / posterior.sum(-1, keepdim=True))[..., :-1]

    def sample(self, sample_shape=torch.Size()):
        """Documents of the same lengths, from the K topics with normalized weights; padding is -1."""
        with torch.no_grad():
            prior = self.concentration * torch.softmax(self.log_weights, -1)
            prior = prior.expand(self.batch_shape + prior.shape[-1:])
            shares = Dirichlet(prior, validate_args=False).sample(sample_shape)  # (..., N, K)
            words = shares @ torch.softmax(self.log_words, -1)  # (..., N, V)
            length = self.step_mask.shape[-1:]
            drawn = torch.distributions.Categorical(probs=words, validate_args=False).sample(length).movedim(0, -1)
            return torch.where(self.step_mask, drawn, torch.full_like(drawn, -1))
