"""CompILE's encoder: reads an episode once per segment, with the steps before the segment masked out."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from pyro_options.errors import check
from pyro_options.growth.growable import GrowableHeads, GrowableInput
from pyro_options.nn.backward_lstm import backward_lstm, backward_recurrence, reverse_episodes
from pyro_options.nn.networks import mlp
from pyro_options.nn.standardized_inputs import StandardizedInputs
from pyro_options.nn.varying_inputs import VaryingInputs


class SegmentEncoder(nn.Module):
    r"""Logits of :math:`q(b_j\mid b_{<j},\eta,\xi)` and :math:`q(h_j\mid b,\eta,\xi)`.

    Steps are embedded, and an LSTM that reads backwards summarizes the future of each. For each boundary another LSTM
    reads forwards, its inputs masked up to the previous boundary, and a head gives the logit that the segment ends at
    each step or at the end of the episode. The skill of a segment is inferred from the mean of its embedded steps.

    :param step_dim: size of a state and an action, concatenated
    :param num_options: K
    :param lstm_size: hidden units of each LSTM
    :param hidden: widths of the heads, at least one; the first is also the size of the embedding
    :param inputs: applied to the states before the embedding
    :param actions: standardizes continuous actions
    """

    def __init__(
        self,
        step_dim: int,
        num_options: int,
        lstm_size: int = 32,
        hidden: Sequence[int] = (32, 32),
        inputs: VaryingInputs | None = None,
        actions: StandardizedInputs | None = None,
    ):
        super().__init__()
        check(num_options >= 1, "num_options >= 1", num_options)
        check(len(hidden) >= 1, "at least one hidden layer in the encoder", list(hidden))
        self.inputs, self.actions = inputs, actions
        if inputs is not None:
            step_dim += inputs.out_features - inputs.state_dim
        width = hidden[0]
        self.embed = nn.Linear(step_dim, width)
        self.ahead = nn.LSTM(width, lstm_size, batch_first=True)
        self.segment = nn.LSTM(width + lstm_size + 2, lstm_size, batch_first=True)
        self.from_lstm, self.weights_to_boundary = nn.Linear(lstm_size, width), GrowableInput(num_options, width)
        self.boundary_rest, boundary_width = mlp(width, hidden[1:])
        self.boundary_head = nn.Linear(boundary_width, 1)
        self.from_steps, self.weights_to_skill = nn.Linear(width, width), GrowableInput(num_options, width)
        self.skill_rest, skill_width = mlp(width, hidden[1:])
        self.skill_head = GrowableHeads(skill_width, num_options, 1)

    @property
    def num_options(self) -> int:
        """K."""
        return self.skill_head.num_components

    def embedding(self, states: Tensor, actions: Tensor) -> Tensor:
        """Embedded steps ``(N, T, H)``."""
        states = states if self.inputs is None else self.inputs(states)
        actions = actions if self.actions is None else self.actions(actions)
        return torch.relu(self.embed(torch.cat([states, actions], -1)))

    def boundaries(self, embedded: Tensor, mask: Tensor, log_weights: Tensor) -> Callable[[Tensor], Tensor]:
        """Logits ``(..., N, T + 1)`` of a boundary, as a function of p(step is after the previous boundary).

        :param embedded: ``(N, T, H)``
        :param mask: ``(N, T)``
        :param log_weights: log η ``(K,)`` or ``(..., 1, K)``, of several particles
        """
        context = torch.cat([embedded, backward_lstm(self.ahead, (embedded,), mask)], -1)
        lengths = mask.sum(-1, keepdim=True)
        time = torch.arange(mask.shape[-1] + 1, device=mask.device)
        inside, end = time <= lengths, (time == lengths).to(context).unsqueeze(-1)  # (N, T + 1)
        of_weights = self.weights_to_boundary(torch.exp(log_weights)).unsqueeze(-2)
        # The mask is a factor per step, so the products with the inputs are the same for every segment. The LSTM
        # recurrence reads backwards, so episodes are reversed, once.
        lstm = self.segment
        of_step, of_end = lstm.weight_ih_l0.split([context.shape[-1] + 1, 1], 1)
        steps = nn.functional.linear(pad(context, (0, 1), value=1.0), of_step)
        steps = reverse_episodes(pad(steps, (0, 0, 0, 1)), inside)  # (N, T + 1, 4H)
        always = reverse_episodes(end, inside) * of_end.squeeze(-1) + lstm.bias_ih_l0 + lstm.bias_hh_l0

        def logits(passed: Tensor) -> Tensor:
            open_ = reverse_episodes(pad(passed, (0, 1)).unsqueeze(-1), inside)
            read = backward_recurrence(torch.addcmul(always, open_, steps), lstm.weight_hh_l0, inside)
            hidden = torch.relu(self.from_lstm(read) + of_weights)
            return reverse_episodes(self.boundary_head(self.boundary_rest(hidden)), inside).squeeze(-1)

        return logits

    def skills(self, embedded: Tensor, masks: Tensor, log_weights: Tensor) -> Tensor:
        """Logits of the skill of each segment, ``(..., N, M, K)``.

        :param masks: probability that each step belongs to each segment ``(..., N, M, T)``
        :param log_weights: log η ``(K,)`` or ``(..., 1, K)``, of several particles
        """
        mean = (masks @ embedded) / (masks.sum(-1, keepdim=True) + 1e-3)
        hidden = torch.relu(self.from_steps(mean) + self.weights_to_skill(torch.exp(log_weights)).unsqueeze(-2))
        return self.skill_head(self.skill_rest(hidden)).squeeze(-1)
