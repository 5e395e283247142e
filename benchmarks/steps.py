"""Complete training steps: the floor, and the guides, on the same batch."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from pyro_options.data import Trajectories
from pyro_options.discovery import build
from pyro_options.infer import TrainConfig, Trainer

BITS = 1024


@dataclass(frozen=True)
class Shape:
    """Sizes of a batch and of the model; the defaults are the paper's Atari setting."""

    episodes: int = 128
    steps: int = 300
    actions: int = 4
    options: int = 7
    varying: int = BITS

    def batch(self) -> Trajectories:
        """Random bits and actions; all but ``varying`` bits are constant, which ``skip_constant`` can ignore."""
        generator = torch.Generator().manual_seed(0)
        states = torch.randint(2, (self.episodes, self.steps, BITS), dtype=torch.uint8, generator=generator)
        states[..., torch.randperm(BITS, generator=generator)[self.varying :]] = 1
        actions = torch.randint(self.actions, (self.episodes, self.steps), generator=generator)
        return Trajectories(states.float(), actions, num_actions=self.actions)


def floor(shape: Shape, batch: Trajectories) -> Callable[[], None]:
    """The minimum that any method needs: the product of states with all heads, a scalar loss, backward, Adam."""
    K, A = shape.options, shape.actions
    heads = nn.Linear(BITS, K * (A + 1))
    optimizer = torch.optim.Adam(heads.parameters(), lr=1e-3, fused=True)
    actions = batch.actions[..., None, None].expand(-1, -1, K, 1)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits, stop = heads(batch.states).split([K * A, K], -1)
        logits = logits.unflatten(-1, (K, A))
        chosen = logits.gather(-1, actions).squeeze(-1) - torch.logsumexp(logits, -1)
        loss = nn.functional.softplus(stop).mean() - chosen.mean()
        loss.backward()
        optimizer.step()

    return step


def trainer(guide: str, shape: Shape, batch: Trajectories, grows: bool = False) -> Trainer:
    """The trainer of a guide in the paper's Atari setting: linear heads, an LSTM of 32 units in the encoder."""
    K = shape.options
    options = {"num_options": None if grows else K, "initial_options": K, "rule": "evidence"}
    method = build(None, batch, guide=guide, **options, skip_constant=shape.varying < BITS)
    config = TrainConfig(learning_rate=1e-3, progress=False, device="cpu")
    return Trainer(method.model, method.guide, batch, config)


def svi_step(guide: str, shape: Shape, batch: Trajectories) -> Callable[[], float]:
    """:meth:`Trainer.step`: ELBO, gradients, clipping, Adam."""
    training = trainer(guide, shape, batch)
    return lambda: training.step(batch)
