"""The infinite hidden Markov model."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.distributions.hidden_markov import HiddenMarkov

from .hdp import HDP


class InfiniteHMM(PyroModule):
    r"""A hidden Markov model with sticky transitions from a hierarchical Dirichlet process; states are summed out.

    .. math:: p(\beta)\prod_j p(\pi_j\mid\beta)\prod_i \sum_h
        \beta_{h_0}\,p_{h_0}(x_0)\prod_{t\ge 1}\pi_{h_{t-1},h_t}\,p_{h_t}(x_t)

    Sites: those of ``transitions``, and ``sequences`` in the plate ``data``. Shorter sequences are padded
    with NaN.

    :param emissions: a growable module; ``emissions()`` is the distribution of an observation in each state, of batch
        shape ``(K,)``
    :param transitions: the prior over transitions

    Reference: Fox et al. (2011), A sticky HDP-HMM with application to speaker diarization.
    """

    #: no latent site is left to sum out
    latents: dict[str, str] = {}

    def __init__(self, emissions: nn.Module, transitions: HDP | None = None):
        super().__init__()
        self.emissions = emissions
        self.transitions = HDP(stickiness=1.0) if transitions is None else transitions

    def chain(self, sequences: Tensor, log_weights: Tensor) -> tuple[HiddenMarkov, Tensor]:
        """The distribution of these sequences under given weights ``(1 + K, K)``, and the sequences without NaN."""
        emissions = self.emissions()
        mask = ~sequences.flatten(2).isnan().any(-1) if sequences.dim() > 2 else ~sequences.isnan()
        return HiddenMarkov(log_weights, emissions, mask), torch.nan_to_num(sequences)

    def forward(self, sequences: Tensor, log_weights: Tensor | None = None, population: int | None = None) -> None:
        """Runs the generative process; with ``log_weights`` given, transitions are not sampled.

        :param sequences: ``(N, T)`` or ``(N, T, D)``
        :param population: number of sequences in the data set of which these are a minibatch
        """
        if log_weights is None:
            log_weights = self.transitions(self.emissions.num_components)  # (1 + K, K)
        chain, values = self.chain(sequences, log_weights)
        size = len(sequences) if population is None else population
        with pyro.plate("data", size, subsample=torch.arange(len(sequences), device=sequences.device)):
            pyro.sample("sequences", chain, obs=values)
