"""The amortized posterior over paths: a backward LSTM and an autoregressive decoder with two heads."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_options.errors import check
from pyro_options.growth.growable import GrowableHeads, GrowableInput
from pyro_options.nn.backward_lstm import backward_lstm
from pyro_options.nn.networks import mlp, output_size
from pyro_options.nn.shared_product import features
from pyro_options.nn.standardized_inputs import StandardizedInputs
from pyro_options.nn.state_embedding import StateEmbedding
from pyro_options.nn.varying_inputs import VaryingInputs


class StepEncoder(nn.Module):
    """Base of encoders with an LSTM that reads the steps of an episode backwards.

    :param step_dim: size of a state and an action, concatenated
    :param lstm_size: hidden units of the LSTM
    :param network: your own network on each step, ``(..., step_dim) -> (..., features)``, before the LSTM
    :param inputs: applied to the states, the first entries of a step, before the network and the LSTM
    :param actions: standardizes continuous actions, the last entries of a step
    """

    def __init__(
        self,
        step_dim: int,
        lstm_size: int,
        network: nn.Module | None = None,
        inputs: VaryingInputs | StateEmbedding | None = None,
        actions: StandardizedInputs | None = None,
    ):
        super().__init__()
        self.network, self.inputs, self.actions = network, inputs, actions
        if inputs is not None:
            step_dim += inputs.out_features - inputs.state_dim
        self.lstm = nn.LSTM(
            step_dim if network is None else output_size(network, step_dim), lstm_size, batch_first=True
        )

    def parts(self, steps: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Tensors ``(N, T, D_i)`` whose concatenation is the input of the LSTM.

        :param steps: states and actions, concatenated ``(N, T, step_dim)``, or as several tensors, which avoids a copy
            of wide states
        """
        parts = (steps,) if isinstance(steps, Tensor) else tuple(steps)
        if self.actions is not None:
            first = parts[-1]
            width = first.shape[-1] - self.actions.state_dim
            before = (*parts[:-1], first[..., :width]) if width else parts[:-1]
            parts = *before, self.actions(first[..., width:])
        if self.inputs is not None:
            width, first = self.inputs.state_dim, parts[0]
            if first.shape[-1] > width:
                parts = first[..., :width], first[..., width:], *parts[1:]
            parts = features(self.inputs, parts[0]), *parts[1:]
        return parts if self.network is None else (self.network(torch.cat(parts, -1)),)


class PathEncoder(StepEncoder):
    r"""Logits of :math:`q(b_t\mid\zeta_{t-1},\eta,\xi_{t:T-1})` and :math:`q(h_t\mid\zeta_{t-1},\eta,\xi_{t:T-1})`.

    An LSTM reads the episode backwards; a decoder, by default with two layers, takes its output, the weights η and the
    previous step of the path. :meth:`context` computes everything that does not depend on the previous step, for the
    whole episode at once.

    :param step_dim: size of a state and an action, concatenated
    :param num_options: K
    :param lstm_size: hidden units of the LSTM
    :param hidden: widths of the decoder, at least one
    :param network: your own network on each step, ``(..., step_dim) -> (..., features)``, before the LSTM
    :param inputs: applied to the states, the first entries of a step, before the network and the LSTM
    :param actions: standardizes continuous actions, the last entries of a step
    :param random_columns: whether the columns of new options start at random, as in the paper, instead of at zero

    Reference: Villecroze et al. (2022), equations 17 and 18.
    """

    def __init__(
        self,
        step_dim: int,
        num_options: int,
        lstm_size: int = 32,
        hidden: Sequence[int] = (32, 32),
        network: nn.Module | None = None,
        inputs: VaryingInputs | StateEmbedding | None = None,
        actions: StandardizedInputs | None = None,
        random_columns: bool = False,
    ):
        check(num_options >= 1, "num_options >= 1", num_options)
        check(len(hidden) >= 1, "at least one hidden layer in the decoder", list(hidden))
        super().__init__(step_dim, lstm_size, network, inputs, actions)
        self.from_lstm = nn.Linear(lstm_size, hidden[0])
        self.from_weights = GrowableInput(num_options, hidden[0], random_columns)
        self.from_termination = nn.Linear(1, hidden[0], bias=False)
        self.from_option = GrowableInput(num_options, hidden[0], random_columns)
        self.rest, width = mlp(hidden[0], hidden[1:])
        self.termination_head = nn.Linear(width, 1)
        self.option_head = GrowableHeads(width, num_options, 1)

    @property
    def num_options(self) -> int:
        """K."""
        return self.option_head.num_components

    def context(self, steps: Tensor | Sequence[Tensor], mask: Tensor, log_weights: Tensor) -> Tensor:
        """``(..., N, T, H)``: all inputs of the decoder except the previous step of the path.

        :param steps: states and actions, concatenated ``(N, T, step_dim)``, or as several tensors, which avoids a copy
            of wide states
        :param mask: ``(N, T)``
        :param log_weights: log η ``(K,)`` or ``(..., 1, K)``, of several particles
        """
        of_weights = self.from_weights(torch.exp(log_weights)).unsqueeze(-2)
        return self.from_lstm(backward_lstm(self.lstm, self.parts(steps), mask)) + of_weights

    def decoder(self) -> "PathDecoder":
        """The autoregressive part, its weights concatenated to need one product per layer and step."""
        previous = torch.cat([self.from_termination.weight, self.from_option.weight], 1)
        head_weight = torch.cat([self.termination_head.weight, self.option_head.weight.squeeze(1)])
        head_bias = torch.cat([self.termination_head.bias, self.option_head.bias.squeeze(1)])
        return PathDecoder(previous, self.rest, head_weight, head_bias)


class PathDecoder:
    """Logits of a step from its context and the previous step of the path: a :class:`Decoder`."""

    def __init__(self, previous: Tensor, rest: nn.Module, head_weight: Tensor, head_bias: Tensor):
        self.previous, self.rest, self.head_weight, self.head_bias = previous, rest, head_weight, head_bias

    def layers(self) -> tuple[Tensor, ...] | None:
        """Weight on the previous step, then weight and bias of each layer, the heads last; ``None`` if not an MLP."""
        if not isinstance(self.rest, nn.Sequential):
            return None
        linear = [layer for layer in self.rest if isinstance(layer, nn.Linear)]
        if [type(layer) for layer in self.rest] != [nn.Linear, nn.ReLU] * len(linear):
            return None
        middle = [tensor for layer in linear for tensor in (layer.weight, layer.bias)]
        return self.previous, *middle, self.head_weight, self.head_bias

    def detached(self) -> "PathDecoder":
        """The same function, whose parameters have no gradient."""
        rest = copy.deepcopy(self.rest).requires_grad_(False)
        return PathDecoder(self.previous.detach(), rest, self.head_weight.detach(), self.head_bias.detach())

    def __call__(self, context: Tensor, previous: Tensor) -> Tensor:
        """:param context: ``(..., H)`` :param previous: ``(..., K + 1)`` :returns: logits ``(..., K + 1)``"""
        hidden = self.rest(torch.relu(context + nn.functional.linear(previous, self.previous)))
        return nn.functional.linear(hidden, self.head_weight, self.head_bias)
