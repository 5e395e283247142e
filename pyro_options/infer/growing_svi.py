"""A short training loop for any growing model: SVI on all rows, growth checks, and removals at the end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer import ELBO, Trace_ELBO

from pyro_options.errors import NumericalError, check_count
from pyro_options.handlers.growth import GrowthMessenger


@dataclass
class GrowingHistory:
    """ELBO and K of every step, before the growth check that may follow it."""

    elbo: list[float] = field(default_factory=list)  # nats per row
    num_components: list[int] = field(default_factory=list)


def train_growing(
    model: Any,
    guide: Any,
    rows: Any,
    growth: GrowthMessenger,
    num_steps: int,
    learning_rate: float = 0.05,
    held_out: Any = None,
    elbo: ELBO | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> GrowingHistory:
    """Trains a model and its guide with Adam; every step uses all rows.

    The learning rate decays to a tenth over the last third of the steps. After the last step components are removed
    until no removal is accepted.

    :param model: ``model(rows)`` runs the generative process, ``model(rows, log_weights)`` the same under given weights
    :param guide: a :class:`~pyro_options.growth.GrowableGuide`; ``guide(rows)`` samples all latent sites
    :param rows: has a length and can be indexed by a tensor of indices
    :param growth: births stop in time if its ``length`` is ``num_steps``
    :param held_out: rows to judge growth by, instead of those that are trained on
    :param elbo: by default ``Trace_ELBO()``
    :param progress: called with the number of each step and its ELBO
    """
    check_count(num_steps, "num_steps")
    elbo, history = Trace_ELBO() if elbo is None else elbo, GrowingHistory()
    optimizer = torch.optim.Adam([*model.parameters(), *guide.parameters()], lr=learning_rate)

    def check_growth(time: int, births: bool = True) -> int:
        with torch.no_grad(), growth:
            poutine.replay(model, poutine.trace(guide).get_trace(rows))(rows)
        weights = guide.weights.mean_log_weights().detach()
        given = model, rows, weights, held_out, births
        return growth.step(optimizer, time, *given, batch_size=len(rows)).num_removed

    for step in range(1, num_steps + 1):
        left = 1 - (step - 1) / num_steps
        optimizer.param_groups[0]["lr"] = learning_rate * max(0.1, min(1.0, 3 * left))
        optimizer.zero_grad(set_to_none=True)
        with (
            pyro.validation_enabled(step == 1),
            pyro.get_param_store().scope(),
            poutine.scale(scale=1 / len(rows)),
        ):
            value = -elbo.loss_and_grads(model, guide, rows)
        if value != value:
            raise NumericalError(f"The ELBO became {value} at step {step}. Lower the learning rate.", step=step)
        optimizer.step()
        history.elbo.append(value)
        history.num_components.append(growth.num_components)
        if growth.due(step):
            check_growth(step)
        if progress is not None:
            progress(step, value)
    while growth.removals and check_growth(num_steps, births=False):
        pass
    return history
