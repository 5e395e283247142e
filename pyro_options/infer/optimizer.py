"""The optimizer of a training: groups of parameters, and their learning rates and decay in each epoch."""

from typing import Any

import torch
from torch import Tensor, nn

from pyro_options.growth.growable import GrowableHeads, growables

from .annealing import Annealed
from .train_config import TrainConfig


class TrainingOptimizer:
    """Adam with parameters by learning rate: networks, posterior over the weights, and heads if they have a prior.

    The loss is divided by the number of episodes; so divided, the gradient of the prior is Adam's weight decay.

    :param weights: the part of the guide with the posterior over the weights
    :param num_episodes: of the training data
    """

    def __init__(self, model: nn.Module, guide: nn.Module, weights: nn.Module, config: TrainConfig, num_episodes: int):
        self.num_episodes = num_episodes
        parameters = [*model.parameters(), *guide.parameters()]
        own = {id(p) for p in weights.parameters()}
        heads = [layer.weight for layer in growables([model]) if isinstance(layer, GrowableHeads)]
        shrunk = {id(p) for p in heads}
        groups: list[dict[str, Any]] = [
            {"params": [p for p in parameters if id(p) not in own | shrunk], "lr": config.learning_rate},
            {"params": [p for p in parameters if id(p) in own], "lr": config.weights_learning_rate},
        ]
        if heads:
            groups.append({"params": heads, "lr": config.learning_rate})
        on_cuda = parameters[0].device.type == "cuda"
        self.adam = torch.optim.Adam(groups, fused=True, capturable=on_cuda)
        self._rates = [Annealed(parameters[0]) for _ in groups] if config.cuda_graph else None
        self.shrink(config.weight_scale)

    def shrink(self, scale: float | None) -> None:
        """Sets the scale of the prior on the weights of heads, see :attr:`TrainConfig.weight_scale`."""
        for group in self.adam.param_groups[2:]:
            group["weight_decay"] = 0.0 if scale is None else 1 / (scale**2 * self.num_episodes)

    def set_rates(self, config: TrainConfig, epoch: int) -> None:
        """Sets the learning rates of an epoch."""
        factor, even = config.rate_factor(epoch), epoch < round(config.even_phase * config.epochs)
        for number, group in enumerate(self.adam.param_groups):
            rate: float | Tensor = factor * (config.weights_learning_rate if number == 1 else config.learning_rate)
            if number == 1 and even:
                rate = 0.0
            group["lr"] = rate if self._rates is None else self._rates[number](rate)
