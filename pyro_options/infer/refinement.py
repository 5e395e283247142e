"""Steps of expectation maximization within a training by gradients."""

from typing import TYPE_CHECKING, Any

import pyro
import torch
from pyro import poutine

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.contracts import CollapsibleModel
from pyro_options.growth.maximization import em_step
from pyro_options.handlers.collapse import collapse

if TYPE_CHECKING:
    from .trainer import Trainer

#: steps before components are judged, and at both ends of a training
BEFORE_JUDGING, AT_THE_ENDS = 5, 10


def refine(trainer: "Trainer", data: Trajectories, steps: int) -> None:
    """Takes steps of expectation maximization at the mean weights, if the model can and its latents are summed out.

    Adam's steps have the size of the learning rate. Policies with little noise are more sensitive than that: they never
    settle, and options look more alike than they are.
    """
    given: Any = trainer.model
    if not isinstance(given, CollapsibleModel) or not getattr(trainer.guide, "collapses", None):
        return
    weights = torch.log_softmax(trainer.guide.weights.mean_log_weights().detach(), -1)
    model = collapse(trainer.model)

    def observed(batch: Trajectories) -> tuple[Any, Any]:
        with pyro.validation_enabled(False):
            node = poutine.trace(model).get_trace(batch, weights).nodes["actions"]
        return node["fn"], node["value"]

    with pyro.get_param_store().scope():
        for _ in range(steps):
            batches = (batch.unpack() for batch, share, _ in trainer.batches(data) if share)
            if not em_step(trainer.model, observed, batches, None, trainer.workers, trainer.config.weight_scale):
                return
