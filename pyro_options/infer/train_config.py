"""The settings of the training loop."""

import math
from dataclasses import dataclass, field

from pyro_options.errors import check, check_count, choice

from .schedules import Constant, Exponential, Schedule

#: learning rates after the final phase, as a share of those before it
LAST_RATE = 0.05


@dataclass(frozen=True)
class TrainConfig:
    """Settings of :class:`~pyro_options.infer.Trainer`.

    The defaults are chosen by measurement and differ from the paper's (docs/differences.md lists how).
    :func:`~pyro_options.discover` takes epochs, batch size and learning rate from a
    :class:`~pyro_options.discovery.Budget` instead.
    """

    epochs: int = 500
    batch_size: int = 128  # episodes per step
    learning_rate: float = 5e-3  # of everything but the posterior over the weights
    clip_norm: float | None = 10.0  # of the gradient of all parameters together; None for no clipping
    temperature: Schedule = field(default_factory=lambda: Exponential(1.0, 0.995, floor=0.05))
    entropy_weight: Schedule = field(default_factory=lambda: Constant(0.0))  # λ_ent, see EntropyMessenger
    entropy_per: str = "batch"  # entropy of the option usage of the batch, or of each trajectory
    weights_learning_rate: float = 5e-2  # of the stick posterior; at the rate of the networks it lags behind growth
    weight_scale: float | None = (
        None  # standard deviation of a Gaussian prior on the weights of heads, not their biases
    )
    final_phase: float = 0.0  # share of the epochs, the last ones, with K fixed, falling rates and all the data
    even_phase: float = (
        0.0  # share of the epochs, the first ones, in which the posterior over the weights is not trained
    )
    seed: int = 0
    device: str = "auto"
    progress: bool = True
    #: steps between two looks at losses and gradients, which make the CPU wait for the device; results are the same.
    #: By default 1 on the CPU and 32 elsewhere
    check_every: int | None = None
    #: on CUDA, record the operations of a step once for each K and replay them, which takes one launch instead of
    #: hundreds; results are the same up to rounding. See docs/cuda.md
    cuda_graph: bool = False
    on_nonfinite: str = "stop"  # "skip" the step or "restore" the last epoch's parameters; both are logged and counted

    def __post_init__(self) -> None:
        choice(self.on_nonfinite, "on_nonfinite", ("stop", "skip", "restore"))
        check_count(self.epochs, "epochs", 0)
        check_count(self.batch_size, "batch_size")
        check_count(self.seed, "seed", 0)
        if self.check_every is not None:
            check_count(self.check_every, "check_every")
        choice(self.entropy_per, "entropy_per", ("batch", "trajectory"))
        for name in ("learning_rate", "weights_learning_rate", "clip_norm", "weight_scale"):
            value = getattr(self, name)
            check(value is None or 0 < value < math.inf, f"{name} > 0 and finite", value)
        for name in ("final_phase", "even_phase"):
            check(0 <= getattr(self, name) < 1, f"{name} in [0, 1)", getattr(self, name))

    @property
    def final_epoch(self) -> int:
        """Number of epochs before the final phase."""
        return self.epochs - round(self.final_phase * self.epochs)

    def rate_factor(self, epoch: int) -> float:
        """Factor on the learning rates: 1, and in the final phase down to :data:`LAST_RATE`, linearly."""
        if not self.in_final_phase(epoch):
            return 1.0
        left = max(0, self.epochs - epoch) / (self.epochs - self.final_epoch)
        return LAST_RATE + (1 - LAST_RATE) * left

    def in_final_phase(self, epoch: int) -> bool:
        """Whether an epoch belongs to the final phase."""
        return self.final_epoch < self.epochs and epoch >= self.final_epoch
