"""A handler that weighs the rows of a batch, so that some of them may be padding."""

from collections.abc import Callable
from typing import Any

from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyro_options.errors import check


class WeighRowsMessenger(Messenger):
    """Multiplies the log-probabilities of all sites in the plate of rows by a weight for each row.

    A batch of n rows that is padded to N by copies of any row has the loss and gradients of the n rows if those have
    the weight N / n and the copies 0. The plate of rows is the innermost one, of N rows. Learned baselines of
    score-function gradients are weighed as well, since they predict weighed costs.

    :param weights: ``(N,)``; ``None`` changes nothing
    :param observes: whether a site in the plate must be observed, as in a model; it raises if none is
    """

    def __init__(self, weights: Tensor | None = None, observes: bool = False):
        super().__init__()
        self.weights, self.observes = weights, observes
        self._seen = False

    def __enter__(self):
        self._seen = False
        return super().__enter__()

    def __exit__(self, *args):
        result = super().__exit__(*args)
        if args[0] is None and self.weights is not None and self.observes:
            fix = "Put the episodes of the model into a pyro.plate of dim=-1."
            check(self._seen, f"an observed site in a plate of {len(self.weights)} rows to weigh", "none", fix)
        return result

    def _pyro_sample(self, msg: Any) -> None:
        weights, plates = self.weights, msg["cond_indep_stack"]
        if weights is None or not any(frame.dim == -1 and frame.size == len(weights) for frame in plates):
            return
        self._seen |= msg["is_observed"]
        msg["scale"] = msg["scale"] * weights
        baseline = msg["infer"].get("baseline", {})
        if "nn_baseline" in baseline:
            predict = baseline["nn_baseline"]
            weighed: Callable = lambda features: predict(features) * weights  # noqa: E731
            msg["infer"] = msg["infer"] | {"baseline": baseline | {"nn_baseline": weighed}}
