"""What a model says about the path of an episode: the evidence that guides can be built on."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor


class PathEvidence(NamedTuple):
    """The factors of p(path, actions); in padded steps ``termination_logits`` is ``NEVER`` and ``emission`` is zero."""

    log_weights: Tensor  # (..., K) log η, or (..., T, K) if they depend on the state
    termination_logits: Tensor  # (..., T, K) logit ψ_k(s_t)
    emission: Tensor  # (..., T, K) log π_k(a_t | s_t)

    @property
    def step_log_weights(self) -> Tensor:
        """log η at each step, ``(..., T, K)`` or ``(..., 1, K)``."""
        varies = self.log_weights.dim() == self.emission.dim()
        return self.log_weights if varies else self.log_weights.unsqueeze(-2)

    def map(self, function: Callable[[Tensor], Tensor]) -> "PathEvidence":
        """The same with a function applied to every tensor."""
        return PathEvidence(*map(function, self))


@runtime_checkable
class EvidenceModel(Protocol):
    """A model whose guide may read the factors of its joint density; its method is passed to the guide."""

    def evidence(self, episodes: Any, log_weights: Tensor) -> PathEvidence:
        """The factors of p(path, actions | weights) of these episodes.

        :param log_weights: log η ``(K,)``, or ``(..., 1, K)`` of several particles
        """
