"""A learned backward message: what the steps after each one say about the option that is active there."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from pyro_options.errors import check
from pyro_options.growth.growable import GrowableInput, ZeroHeads
from pyro_options.nn.backward_lstm import backward_recurrence
from pyro_options.nn.linear_of_parts import linear_of_parts
from pyro_options.nn.standardized_inputs import StandardizedInputs
from pyro_options.nn.state_embedding import StateEmbedding
from pyro_options.nn.varying_inputs import VaryingInputs

from .encoder import StepEncoder
from .evidence import PathEvidence

_CLIP = 5.0  # nats; beyond that an option is either certain or out of the question


class MessageEncoder(StepEncoder):
    r"""A message :math:`r_t(k)` about :math:`\log p(a_{t+1:T-1}\mid h_t = k)`, for a :class:`StructuredPath`.

    An LSTM reads the episode backwards. Besides state and action it is told how well each option explains the step,
    :math:`e_{tk} - \log\sum_j\eta_j e^{e_{tj}}`, and whether it would terminate, :math:`\psi_{tk}`. The message at step
    t comes from its state at t + 1, and is zero at the last step. The heads start at zero, those of new options too.

    :param step_dim: size of a state and an action, concatenated
    :param num_options: K
    :param lstm_size: hidden units of the LSTM
    :param hidden: width of the layer between LSTM and heads
    :param inputs: applied to the states, the first entries of a step, before the LSTM
    :param actions: standardizes continuous actions, the last entries of a step
    """

    def __init__(
        self,
        step_dim: int,
        num_options: int,
        lstm_size: int = 32,
        hidden: int = 32,
        inputs: VaryingInputs | StateEmbedding | None = None,
        actions: StandardizedInputs | None = None,
    ):
        check(num_options >= 1, "num_options >= 1", num_options)
        super().__init__(step_dim, lstm_size, None, inputs, actions)
        self.from_likelihood = GrowableInput(num_options, 4 * lstm_size)
        self.from_termination = GrowableInput(num_options, 4 * lstm_size)
        self.from_lstm = nn.Linear(lstm_size, hidden)
        self.heads = ZeroHeads(hidden, num_options, 1)

    @property
    def num_options(self) -> int:
        """K."""
        return self.heads.num_components

    def forward(self, states: Tensor, actions: Tensor, mask: Tensor, evidence: PathEvidence) -> Tensor:
        """The message ``(..., N, T, K)``.

        :param states: ``(N, T, state_dim)``
        :param actions: encoded actions ``(N, T, action_dim)``
        :param mask: ``(N, T)``
        :param evidence: of these episodes, ``(..., N, T, K)`` if particles are vectorized
        """
        emission, lstm = evidence.emission, self.lstm
        explained = emission - torch.logsumexp(evidence.step_log_weights + emission, -1, keepdim=True)
        known = explained.clamp(-_CLIP, _CLIP), torch.sigmoid(evidence.termination_logits)
        weight = torch.cat([lstm.weight_ih_l0, self.from_likelihood.weight, self.from_termination.weight], 1)
        gates = linear_of_parts((*self.parts((states, actions)), *known), weight, lstm.bias_ih_l0 + lstm.bias_hh_l0)
        read = backward_recurrence(gates, lstm.weight_hh_l0, mask)
        message = self.heads(torch.relu(self.from_lstm(read))).squeeze(-1) * mask.unsqueeze(-1)
        return pad(message[..., 1:, :], (0, 0, 0, 1))
