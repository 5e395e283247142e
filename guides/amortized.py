"""Guides that infer the path with an encoder: the paper's relaxed guide, and two with discrete paths."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.options.autoregressive_path import AutoregressivePath, RelaxedAutoregressivePath, StraightThroughPath
from pyro_options.options.encoder import PathEncoder


class _Amortized(PyroModule):
    r"""Base of guides with a posterior over the sticks, and over each path by an encoder.

    .. math:: q(\eta)\prod_i q(\zeta^{(i)}\mid\eta, \xi^{(i)})

    Sites: those of ``weights``, and ``path`` of event shape ``(T, K + 1)`` in the plate ``episodes``.

    :param weights: :math:`q(\eta)`, a :class:`GrowableGEM` for instance
    :param encoder: logits of the path given episode and weights
    :param coupled: an option that does not terminate continues, as in the model; ``False`` draws h_t independently of
        b_t, as in the paper
    :param infer_first: infer b_0, as in the paper, instead of fixing it to 1
    """

    collapses: dict[str, str] = {}

    def __init__(self, weights: PyroModule, encoder: PathEncoder, coupled: bool = True, infer_first: bool = False):
        super().__init__()
        self.weights, self.encoder, self.coupled, self.infer_first = weights, encoder, coupled, infer_first

    def path(self, encoder: PathEncoder, context: torch.Tensor, mask: torch.Tensor) -> AutoregressivePath:
        """The distribution of the paths of a batch of episodes."""
        return AutoregressivePath(encoder.decoder(), context, encoder.num_options, mask, self.coupled, self.infer_first)

    def baseline_of(self, context: torch.Tensor, path: torch.Tensor, episodes: Trajectories) -> dict:
        """Pyro's settings of a baseline at the site ``path``, given its value."""
        return {}

    def forward(self, episodes: Trajectories) -> None:
        log_weights = self.weights()
        encoder = self.encoder  # once: each access of a PyroModule registers all its parameters
        context = encoder.context((episodes.states, episodes.encoded_actions()), episodes.mask, log_weights)
        index = torch.arange(len(episodes), device=context.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            baseline: dict = {}  # filled in when the shape of the path is known, and read after the guide has run
            path = pyro.sample("path", self.path(encoder, context, episodes.mask), infer={"baseline": baseline})
            baseline.update(self.baseline_of(context, path, episodes))


class Relaxed(_Amortized):
    r"""The paper's guide: Gumbel-Softmax paths with reparameterized gradients.

    .. math:: q(\eta)\prod_i q(\zeta^{(i)}\mid\eta, \xi^{(i)})

    with :math:`q(\zeta\mid\eta, \xi)` of :class:`~pyro_options.options.RelaxedAutoregressivePath`. Sites: those of
    ``weights``, and ``path`` of event shape ``(T, K + 1)`` in the plate ``episodes``.

    :param weights: :math:`q(\eta)`, a :class:`GrowableGEM` for instance
    :param encoder: logits of the path, a :class:`~pyro_options.options.PathEncoder`
    :param coupled: an option that does not terminate continues, as in the model; ``False`` draws h_t independently of
        b_t, as in the paper
    :param temperature: of the relaxation, unless :func:`~pyro_options.handlers.temper` sets another
    :param infer_first: infer b_0, as in the paper, instead of fixing it to 1

    Reference: Villecroze et al. (2022), equations 15 to 18.
    """

    #: with the model's relaxed density (appendix A) the objective is no lower bound, and training exploits that
    objective_is_bound = False

    def __init__(self, weights, encoder, coupled: bool = True, temperature: float = 1.0, infer_first: bool = False):
        super().__init__(weights, encoder, coupled, infer_first)
        self.temperature = temperature

    def path(self, encoder, context, mask):
        how = mask, self.coupled, self.temperature, self.infer_first
        return RelaxedAutoregressivePath(encoder.decoder(), context, encoder.num_options, *how)


class StraightThrough(Relaxed):
    """The guide of :class:`Relaxed` with discrete paths: the backward pass uses the gradient of the relaxed ones."""

    objective_is_bound = True

    def path(self, encoder, context, mask):
        how = mask, self.coupled, self.temperature, self.infer_first
        return StraightThroughPath(encoder.decoder(), context, encoder.num_options, *how)


class ScoreFunction(_Amortized):
    """The guide of :class:`Relaxed` with discrete paths and score-function gradients, with a learned baseline.

    Train it with ``TraceGraph_ELBO``, which leaves costs that do not depend on the path out of its gradient.

    :param baseline_size: hidden units of the baseline, a network on the context of an episode's first step
    """

    def __init__(self, weights, encoder, coupled: bool = True, baseline_size: int = 32, infer_first: bool = False):
        super().__init__(weights, encoder, coupled, infer_first)
        width = encoder.from_lstm.out_features
        self.baseline = nn.Sequential(nn.Linear(width, baseline_size), nn.ReLU(), nn.Linear(baseline_size, 1))
        nn.init.zeros_(self.baseline[-1].weight)
        nn.init.zeros_(self.baseline[-1].bias)

    def baseline_of(self, context, path, episodes):
        baseline, plate_scale = self.baseline, episodes.population / len(episodes)
        first = context[..., 0, :]
        shape = list(path.shape[:-2])  # with a dimension of vectorized particles, which the context may lack
        while shape[:1] == [1]:  # Pyro drops leading dimensions of size 1 from the cost that the baseline predicts
            del shape[0]
        return {
            "nn_baseline": lambda features: baseline(features).squeeze(-1) * plate_scale,
            "nn_baseline_input": first.expand(path.shape[:-2] + first.shape[-1:]).reshape(*shape, first.shape[-1]),
        }
