"""Option paths whose high-level policy sees the state."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_options.errors import InputError

from .marginal import mask_out
from .path import OptionPath, PathPosterior, encode_path


class StatePath(OptionPath):
    r"""An :class:`~pyro_options.options.OptionPath` that chooses by the state in which the last option ended.

    .. math:: p(\zeta) = \eta_{h_0}(s_0)\prod_{t\ge 1}
        [\psi_{h_{t-1}}(s_t)\,\eta_{h_t}(s_t)]^{b_t}
        [(1-\psi_{h_{t-1}}(s_t))\,\delta_{h_t=h_{t-1}}]^{1-b_t}, \qquad b_0 = 1

    The transition is still diagonal plus rank one, so sums over paths cost O(TK). They run in plain torch.

    :param log_weights: log η_k(s_t), shape ``(..., T, K)``
    :param termination_logits: logit ψ_k(s_t), shape ``(..., T, K)``; entry ``t = 0`` is not used
    :param mask: steps in use, shape ``(..., T)``; all of them by default
    """

    reweightable = False  # the weights of each step come from its state

    def __init__(self, log_weights, termination_logits, mask=None, validate_args=None):
        if log_weights.shape[-2:] != termination_logits.shape[-2:]:
            raise InputError(
                "Expected log_weights and termination_logits of the same shape (..., T, K) but got "
                f"{tuple(log_weights.shape)} and {tuple(termination_logits.shape)}."
            )
        super().__init__(log_weights[..., 0, :], termination_logits, mask)
        self.step_log_weights = log_weights

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        plain, event = super().expand(shape), self.step_log_weights.shape[-2:]
        return StatePath(self.step_log_weights.expand(shape + event), plain.termination_logits, plain.step_mask)

    def _time_major(self, emission):
        """Weights, log ψ, log (1 - ψ) and emission, time first; padding is the identity."""
        _, logits, emission, mask = self._broadcast(emission)
        logits, emission = mask_out(logits, emission, mask)
        logits, emission = logits.movedim(-2, 0), emission.movedim(-2, 0)
        log_weights = self.step_log_weights.expand(emission.movedim(0, -2).shape).movedim(-2, 0)
        return log_weights, logsigmoid(logits), logsigmoid(-logits), emission

    @staticmethod
    def _forward(log_weights, log_stop, log_stay, emission) -> Tensor:
        """log p(h_t, a_0..t), shape ``(T, ..., K)``."""
        messages = [log_weights[0] + emission[0]]
        for t in range(1, len(emission)):
            leave = torch.logsumexp(log_stop[t] + messages[-1], -1, keepdim=True)
            messages.append(emission[t] + torch.logaddexp(log_stay[t] + messages[-1], log_weights[t] + leave))
        return torch.stack(messages)

    def sample(self, sample_shape=torch.Size()):
        shape = torch.Size(sample_shape) + self.batch_shape
        T, K = self.event_shape[0], self.num_options
        with torch.no_grad():
            weights = self.step_log_weights.expand(shape + (T, K))
            proposals = torch.distributions.Categorical(logits=weights, validate_args=False).sample()
            stops = torch.rand(shape + (T, 1)).to(weights) < torch.sigmoid(self.termination_logits)
            if self.step_mask is not None:
                stops = stops & self.step_mask.unsqueeze(-1)
            options, terminations = [proposals[..., 0]], [torch.ones_like(proposals[..., 0])]
            for t in range(1, T):
                stop = stops[..., t, :].gather(-1, options[-1].unsqueeze(-1)).squeeze(-1)
                options.append(torch.where(stop, proposals[..., t], options[-1]))
                terminations.append(stop.to(options[-1].dtype))
            return encode_path(torch.stack(options, -1), torch.stack(terminations, -1), K).to(weights.dtype)

    def log_prob(self, value):
        """Log-probability of a path; each choice adds b_t Σ_k h_{t,k} log η_k(s_t)."""
        free = OptionPath(torch.zeros_like(self.log_weights), self.termination_logits, self.step_mask)
        chosen = value[..., 0] * (value[..., 1:] * self.step_log_weights).sum(-1)
        return free.log_prob(value) + self._masked(chosen).sum(-1)

    def log_marginal(self, emission):
        return torch.logsumexp(self._forward(*self._time_major(emission))[-1], -1)

    def posterior(self, emission):
        """Marginals of the path given the actions: the gradients of the log marginal (Fisher's identity)."""
        differentiable = torch.is_grad_enabled()
        with torch.enable_grad():
            log_weights, log_stop, log_stay, emission = self._time_major(emission)
            if not log_weights.requires_grad:
                log_weights = log_weights.detach().requires_grad_()
            if not emission.requires_grad:
                emission = emission.detach().requires_grad_()
            value = torch.logsumexp(self._forward(log_weights, log_stop, log_stay, emission)[-1], -1)
            options, starts = torch.autograd.grad(value.sum(), (emission, log_weights), create_graph=differentiable)
        options, starts = options.movedim(0, -2), starts.movedim(0, -2)
        if self.step_mask is not None:
            options, starts = options * self.step_mask.unsqueeze(-1), starts * self.step_mask.unsqueeze(-1)
        return PathPosterior(options, starts, value if differentiable else value.detach())

    def viterbi(self, emission):
        with torch.no_grad():
            log_weights, log_stop, log_stay, emission = self._time_major(emission)
            score, back = log_weights[0] + emission[0], []
            for t in range(1, len(emission)):
                leave, source = (score + log_stop[t]).max(-1, keepdim=True)
                keep = score + torch.logaddexp(log_stay[t], log_stop[t] + log_weights[t])
                move = leave + log_weights[t]
                stays = torch.arange(self.num_options, device=score.device).expand_as(keep)
                back.append(torch.where(keep >= move, stays, source))
                score = emission[t] + torch.maximum(keep, move)
            log_prob, option = score.max(-1)
            options = [option]
            for source in reversed(back):
                options.append(source.gather(-1, options[-1].unsqueeze(-1)).squeeze(-1))
        return torch.stack(options[::-1], -1), log_prob

    def sample_posterior(self, emission):
        with torch.no_grad():
            log_weights, log_stop, log_stay, emission = self._time_major(emission)
            alpha = self._forward(log_weights, log_stop, log_stay, emission)
            option = torch.distributions.Categorical(logits=alpha[-1], validate_args=False).sample()
            options, terminations = [option], []
            for t in range(len(emission) - 1, 0, -1):
                chosen = options[-1].unsqueeze(-1)
                stay = (alpha[t - 1] + log_stay[t]).gather(-1, chosen)
                stop = alpha[t - 1] + log_stop[t] + log_weights[t].gather(-1, chosen)
                logits = torch.cat([stay, stop], -1)
                event = torch.distributions.Categorical(logits=logits, validate_args=False).sample()
                terminations.append((event > 0).to(option.dtype))
                options.append(torch.where(event > 0, event - 1, options[-1]))
            terminations.append(torch.ones_like(option))
            path = encode_path(torch.stack(options[::-1], -1), torch.stack(terminations[::-1], -1), self.num_options)
        return path.to(alpha.dtype)
