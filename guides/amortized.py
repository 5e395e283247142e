"""Guides that infer the path with an encoder: the paper's, and two that draw discrete paths."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.options.autoregressive_path import AutoregressivePath, RelaxedAutoregressivePath, StraightThroughPath
from pyro_options.options.encoder import PathEncoder


class _Amortized(PyroModule):
    """Posterior over the sticks, and over each path by an encoder that sees its episode and the weights.

    :param weights: posterior over the weights, a :class:`GrowableGEM` for instance
    :param encoder: gives the logits of a path, a :class:`~pyro_options.options.PathEncoder`
    :param coupled: forbid paths that the model forbids; ``False`` draws h_t independently of b_t as the paper does
    """

    collapses: dict[str, str] = {}

    def __init__(self, weights: PyroModule, encoder: PathEncoder, coupled: bool = True):
        super().__init__()
        self.weights, self.encoder, self.coupled = weights, encoder, coupled

    def path(self, encoder: PathEncoder, context: torch.Tensor, mask: torch.Tensor) -> AutoregressivePath:
        """The distribution of the paths of a batch."""
        return AutoregressivePath(encoder.decoder(), context, encoder.num_options, mask, self.coupled)

    def infer(self, context: torch.Tensor, episodes: Trajectories) -> dict:
        """Pyro's inference options of the path site."""
        return {}

    def forward(self, episodes: Trajectories) -> None:
        log_weights = self.weights()
        encoder = self.encoder  # every look at a submodule registers its parameters with Pyro: look once
        context = encoder.context((episodes.states, episodes.encoded_actions()), episodes.mask, log_weights)
        index = torch.arange(len(episodes), device=context.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            pyro.sample("path", self.path(encoder, context, episodes.mask), infer=self.infer(context, episodes))


class Relaxed(_Amortized):
    """The paper's guide: Gumbel-Softmax paths, differentiable end to end.

    :param temperature: of the relaxation, unless :func:`~pyro_options.handlers.temper` sets another
    """

    def __init__(self, weights, encoder, coupled: bool = True, temperature: float = 1.0):
        super().__init__(weights, encoder, coupled)
        self.temperature = temperature

    def path(self, encoder, context, mask):
        return RelaxedAutoregressivePath(
            encoder.decoder(), context, encoder.num_options, mask, self.coupled, self.temperature
        )


class StraightThrough(Relaxed):
    """Discrete paths forward, the gradient of the relaxed ones backward."""

    def path(self, encoder, context, mask):
        return StraightThroughPath(
            encoder.decoder(), context, encoder.num_options, mask, self.coupled, self.temperature
        )


class ScoreFunction(_Amortized):
    """Discrete paths and the score-function gradient, with a learned baseline per episode.

    Here TraceGraph_ELBO's dependency tracking does real work: only costs that depend on the path reach its gradient.
    """

    def __init__(self, weights, encoder, coupled: bool = True, baseline_size: int = 32):
        super().__init__(weights, encoder, coupled)
        width = encoder.from_lstm.out_features
        self.baseline = nn.Sequential(nn.Linear(width, baseline_size), nn.ReLU(), nn.Linear(baseline_size, 1))
        nn.init.zeros_(self.baseline[-1].weight)
        nn.init.zeros_(self.baseline[-1].bias)

    def infer(self, context, episodes):
        baseline, plate_scale = self.baseline, episodes.population / len(episodes)
        return {
            "baseline": {
                # (N,), and () for one episode: Pyro squeezes the cost that it is compared with
                "nn_baseline": lambda features: baseline(features).squeeze() * plate_scale,
                "nn_baseline_input": context[:, 0],
            }
        }
