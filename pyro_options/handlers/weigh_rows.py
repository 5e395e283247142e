"""A handler that weighs the rows of a batch, so that some of them may be padding."""

import copy
from collections.abc import Callable
from typing import Any

from pyro.distributions.score_parts import ScoreParts
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyro_options.errors import check


def _with_scores(fn: Any, counts: Tensor) -> Any:
    """The same distribution without the scores of rows that do not count.

    Pyro does not scale scores, and multiplies them by the costs of all rows together, too.
    """
    counted, score_parts = copy.copy(fn), fn.score_parts

    def of_rows(*args: Any, **kwargs: Any) -> ScoreParts:
        parts = score_parts(*args, **kwargs)
        has_score = isinstance(parts.score_function, Tensor)
        return parts._replace(score_function=parts.score_function * counts) if has_score else parts

    counted.score_parts = of_rows
    return counted


class _WeighedBaseline:
    """A baseline that predicts weighed costs."""

    def __init__(self, predict: Callable[[Tensor], Tensor], weights: Tensor):
        self.predict, self.weights = predict, weights

    @classmethod
    def of(cls, predict: Any, weights: Any) -> "_WeighedBaseline":
        return cls(predict.predict if isinstance(predict, cls) else predict, weights)  # settings may be used again

    def __call__(self, features: Tensor) -> Tensor:
        return self.predict(features) * self.weights


class WeighRowsMessenger(Messenger):
    """Multiplies the log-probabilities of all sites in the plate of rows by a weight for each row.

    A batch of n rows that is padded to N by copies of any row has the loss and gradients of the n rows if those have
    the weight N / n and the copies 0. The plate of rows is the innermost one, of N rows. Learned baselines of
    score-function gradients are weighed as well, since they predict weighed costs, and copies have no score.

    :param weights: ``(N,)``; ``None`` changes nothing
    :param observes: whether a site in the plate must be observed, as in a model; it raises if none is
    """

    def __init__(self, weights: Tensor | None = None, observes: bool = False):
        super().__init__()
        self.weights, self.observes = weights, observes
        self._seen = False
        self._baselines: list[dict] = []  # settings of baselines, which may be filled in after the draw

    def __enter__(self):
        self._seen, self._baselines = False, []
        return super().__enter__()

    def __exit__(self, *args):
        result = super().__exit__(*args)
        for baseline in self._baselines:
            if "nn_baseline" in baseline:
                baseline["nn_baseline"] = _WeighedBaseline.of(baseline["nn_baseline"], self.weights)
        if args[0] is None and self.weights is not None and self.observes:
            fix = "Put the episodes of the model into a pyro.plate of dim=-1."
            check(self._seen, f"an observed site in a plate of {len(self.weights)} rows to weigh", "none", fix)
        return result

    def _pyro_sample(self, msg: Any) -> None:
        weights = self.weights
        if weights is None or not any(f.dim == -1 and f.size == len(weights) for f in msg["cond_indep_stack"]):
            return
        self._seen |= msg["is_observed"]
        msg["scale"] = msg["scale"] * weights
        self._baselines.append(msg["infer"].get("baseline", {}))
        if not (msg["is_observed"] or msg["fn"].has_rsample):
            msg["fn"] = _with_scores(msg["fn"], weights > 0)
