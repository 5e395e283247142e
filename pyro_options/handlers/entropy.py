"""A handler that adds the paper's entropy regularizer to a model."""

from collections.abc import Callable

import pyro
import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyro_options.distributions.log_space import safe_log
from pyro_options.errors import check
from pyro_options.growth.contracts import ComponentLikelihood, fulfills, mask_of
from pyro_options.growth.workers import ALONE, Workers


def _entropy(probs: Tensor) -> Tensor:
    return -(probs * safe_log(probs)).sum(-1)


def usage_entropy(
    responsibilities: Tensor,
    mask: Tensor | None,
    per: str,
    particles: int = 0,
    workers: Workers = ALONE,
    row_weights: Tensor | None = None,
) -> Tensor:
    """Entropy of the average usage of components, in nats; one number for each particle.

    :param responsibilities: ``(N, ..., K)``, zero where masked out
    :param mask: ``(N, ...)``
    :param per: ``"batch"`` is the entropy of the average over the whole batch; ``"trajectory"`` is the mean over rows
        of the entropy of each row's average (the paper's equation 19)
    :param particles: number of dimensions before N
    :param workers: the processes that share the rows of a batch
    :param row_weights: ``(N,)`` with a mean of one, see :class:`~pyro_options.handlers.WeighRowsMessenger`
    """
    flat = responsibilities.unsqueeze(-2).flatten(particles + 1, -2)  # (..., N, T, K)
    if mask is None:
        counts = torch.full_like(flat[..., :1, 0], flat.shape[-2])
    else:
        mask = mask.expand(responsibilities.shape[:-1])
        counts = mask.unsqueeze(-1).flatten(particles + 1).sum(-1, keepdim=True)  # (..., N, 1)
    if per == "batch":
        if row_weights is not None:
            flat, counts = flat * row_weights[:, None, None], counts * row_weights[:, None]
        total = workers.whole(torch.cat([flat.sum((-3, -2)), counts.sum(-2).to(flat.dtype)], -1))  # (..., K + 1)
        return _entropy(total[..., :-1] / total[..., -1:])
    entropy = _entropy(flat.sum(-2) / counts)
    return (entropy if row_weights is None else entropy * row_weights).mean(-1)


class EntropyMessenger(Messenger):
    """Adds ``weight · population · entropy`` of the usage of components to the model's log joint.

    Reads the responsibilities of the site's distribution, and emits a ``pyro.factor`` when the model returns. The
    weight is per row, as in the paper. The two averages differ unless every row uses several components: per
    trajectory, the bonus rewards rows that use all components; over the batch, that each is used by some row.

    :param weight: λ_ent; annealed by the training loop, which may set a tensor so that no step depends on its value
    :param site: the observed site, whose distribution is a :class:`~pyro_options.growth.ComponentLikelihood`
    :param per: ``"batch"`` or ``"trajectory"``
    :param workers: the processes that share the rows of a batch
    """

    def __init__(self, weight: float, site: str, per: str = "batch", workers: Workers = ALONE):
        super().__init__()
        check(weight >= 0, "an entropy weight >= 0", weight)
        check(per in ("batch", "trajectory"), 'per to be "batch" or "trajectory"', repr(per))
        self.weight: float | Tensor = weight
        self.per, self.site, self.workers = per, site, workers
        self.row_weights: Tensor | None = None  #: as in :class:`~pyro_options.handlers.WeighRowsMessenger`
        self._entropy: Tensor | None = None
        self._population = 1
        #: the bonus in the last run of the model, per row; a tensor, which is not read before it is needed
        self.last_bonus: Tensor | float = 0.0

    @property
    def active(self) -> bool:
        """Whether there is a bonus: a weight that is a tensor, which is not read, counts as positive."""
        return isinstance(self.weight, Tensor) or self.weight > 0

    @property
    def bonus(self) -> float:
        """The bonus in the last run of the model, per row."""
        return float(self.last_bonus)

    def __enter__(self):
        self._entropy, self.last_bonus = None, 0.0
        return super().__enter__()

    def _pyro_post_sample(self, msg):
        if msg["name"] == self.site and self.active:
            fn = fulfills(msg["fn"], ComponentLikelihood, f"the distribution of site {self.site!r}")
            rows = max(msg["cond_indep_stack"], key=lambda frame: frame.dim, default=None)  # particles are further left
            self._population = 1 if rows is None else rows.full_size or rows.size
            particles = max(0, len(fn.batch_shape) - 1)
            shares = fn.responsibilities(msg["value"])
            entropy = usage_entropy(shares, mask_of(fn), self.per, particles, self.workers, self.row_weights)
            self._entropy = entropy.unsqueeze(-1) if particles else entropy  # beside the plate of rows

    def __exit__(self, *args):
        result = super().__exit__(*args)
        if self._entropy is not None and args[0] is None:
            pyro.factor("usage_entropy", self.weight * self._population * self._entropy)
            self.last_bonus = self.weight * self._entropy.detach().mean()
        self._entropy = None
        return result


def entropy_bonus(model: Callable, weight: float, site: str, per: str = "batch") -> Callable:
    """``model`` with the entropy regularizer; see :class:`EntropyMessenger`."""
    return EntropyMessenger(weight, site, per)(model)
