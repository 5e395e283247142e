"""The distribution of an episode's options and terminations: density, marginal, posterior, Viterbi, samples."""

import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot, pad

from pyro_options.distributions.log_space import log_mix, safe_log
from pyro_options.distributions.one_hot_rows import OneHotRows
from pyro_options.distributions.sticks import with_unassigned
from pyro_options.errors import InputError

from .evidence import PathEvidence
from .marginal import best_option_path, drawn_option_path, log_marginal, mask_out, path_posterior
from .path_steps import Transitions, average
from .recursion import NEVER


@dataclass(frozen=True)
class PathPosterior:
    """Posterior marginals of the path given the actions; zero in padded steps."""

    options: Tensor  # (..., T, K) p(h_t = k | a)
    starts: Tensor  # (..., T, K) p(b_t = 1, h_t = k | a)
    log_marginal: Tensor  # (...) log p(a)

    @property
    def switches(self) -> Tensor:
        """``(..., T)`` p(b_t = 1 | a); one at the first step, since b_0 = 1."""
        return self.starts.sum(-1)


def encode_path(options: Tensor, terminations: Tensor, num_options: int) -> Tensor:
    """The path tensor ``(..., T, K + 1)``: terminations in column 0, one-hot options in the others.

    >>> encode_path(torch.tensor([0, 0, 1]), torch.tensor([1, 0, 1]), num_options=2).tolist()
    [[1, 1, 0], [0, 1, 0], [1, 0, 1]]

    :param options: integers ``(..., T)``
    :param terminations: 0 or 1, ``(..., T)``
    """
    hot = one_hot(options, num_options)
    return torch.cat([terminations.unsqueeze(-1).to(hot.dtype), hot], -1)


class OptionPath(TorchDistribution):
    r"""Options :math:`h_t` and terminations :math:`b_t` of an episode, given its states and the high-level policy.

    .. math:: p(\zeta) = \eta_{h_0}\prod_{t\ge 1}
        [\psi_{h_{t-1}}(s_t)\,\eta_{h_t}]^{b_t}
        [(1-\psi_{h_{t-1}}(s_t))\,\delta_{h_t=h_{t-1}}]^{1-b_t}, \qquad b_0 = 1

    A path is one tensor of event shape ``(T, K + 1)``: ``b_t`` in column 0, ``h_t`` (one-hot or relaxed) in the others.

    With a nonparametric truncation the weights sum to less than one, and the rest is the probability of options not yet
    created. A path that draws one of them has rows of zeros from there on: nothing is known of that option, so it never
    terminates, and no action is possible under it. :meth:`log_marginal` and everything else given actions is therefore
    about paths through the K options. To draw only such paths, see :meth:`normalized`.

    :param log_weights: log η, shape ``(K,)`` or ``(..., K)``
    :param termination_logits: logit ψ_k(s_t), shape ``(..., T, K)``; entry ``t = 0`` is not used
    :param mask: unpadded steps, shape ``(..., T)``; all of them by default

    Reference: Villecroze et al. (2022), section 4 and appendix A.
    """

    arg_constraints: ClassVar[dict] = {}
    support = OneHotRows("a path of options", flags=1)

    def __init__(self, log_weights, termination_logits, mask=None, validate_args=None):
        if termination_logits.dim() < 2 or log_weights.dim() < 1:
            raise InputError(
                "Expected log_weights (..., K) and termination_logits (..., T, K) but got shapes "
                f"{tuple(log_weights.shape)} and {tuple(termination_logits.shape)}."
            )
        T, K = termination_logits.shape[-2:]
        if log_weights.shape[-1] != K or K < 1:
            raise InputError(
                f"Expected one log weight and one termination logit per option (at least one option) but got "
                f"{log_weights.shape[-1]} log weights and {K} termination logits."
            )
        if T < 1:
            raise InputError("Expected episodes of at least one step but got termination_logits with T = 0.")
        if mask is not None and mask.shape != termination_logits.shape[:-1]:
            raise InputError(
                f"Expected a mask of shape {tuple(termination_logits.shape[:-1])} to go with termination_logits but "
                f"got {tuple(mask.shape)}."
            )
        batch_shape = torch.broadcast_shapes(log_weights.shape[:-1], termination_logits.shape[:-2])
        self.log_weights, self.termination_logits = log_weights, termination_logits
        self.step_mask = mask
        super().__init__(batch_shape, torch.Size((T, K + 1)), validate_args=False)

    @property
    def num_options(self) -> int:
        """K."""
        return self.log_weights.shape[-1]

    @property
    def has_enumerate_support(self) -> bool:
        return False

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        T, K = self.termination_logits.shape[-2:]
        new = copy.copy(self)
        new.log_weights = self.log_weights.expand(shape + (K,))
        new.termination_logits = self.termination_logits.expand(shape + (T, K))
        new.step_mask = None if self.step_mask is None else self.step_mask.expand(shape + (T,))
        new._batch_shape = shape
        return new

    def _step_weights(self) -> Tensor:
        """Log weights at each step, ``(..., T, K)`` or ``(..., 1, K)``."""
        return self.log_weights.unsqueeze(-2)

    def _log_draws(self) -> Tensor:
        """Log-probabilities of each option, and last of one not yet created, where an option is drawn.

        Shape ``(..., T, K + 1)`` or ``(..., 1, K + 1)``.
        """
        return with_unassigned(self._step_weights())

    def normalized(self) -> "OptionPath":
        """The distribution with weights that sum to one, whose paths use the K options only: to generate data."""
        return OptionPath(torch.log_softmax(self.log_weights, -1), self.termination_logits, self.step_mask)

    def _masked(self, per_step: Tensor) -> Tensor:
        return per_step if self.step_mask is None else torch.where(self.step_mask, per_step, torch.zeros_like(per_step))

    def _broadcast(self, emission: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Weights, termination logits, emission and mask of one common batch shape."""
        logits, mask = self.termination_logits, self.step_mask
        if emission.shape[-2:] != logits.shape[-2:]:
            raise InputError(
                f"Expected an emission of shape (..., T, K) = (..., {logits.shape[-2]}, {logits.shape[-1]}) but got "
                f"{tuple(emission.shape)}."
            )
        shape = torch.broadcast_shapes(self.batch_shape, emission.shape[:-2])
        log_weights, logits = self.log_weights.expand(shape + (-1,)), logits.expand(shape + (-1, -1))
        return (
            log_weights,
            logits,
            emission.expand(shape + (-1, -1)),
            mask if mask is None else mask.expand(shape + (-1,)),
        )

    def sample(self, sample_shape=torch.Size()):
        shape = torch.Size(sample_shape) + self.batch_shape
        T, K = self.termination_logits.shape[-2:]
        with torch.no_grad():
            logits = pad(self.termination_logits.expand(shape + (T, K)), (0, 1), value=NEVER)
            proposals = torch.distributions.Categorical(logits=self._step_weights(), validate_args=False)
            proposals = proposals.expand(shape + (T,)).sample()
            noise = torch.rand(shape + (T,), dtype=logits.dtype, device=logits.device)
            stops = torch.sigmoid(logits) > noise.unsqueeze(-1)  # whether option k would terminate here
            unassigned = self._log_draws()[..., -1].exp()
            if bool((unassigned > torch.finfo(unassigned.dtype).eps).any()):
                proposals = torch.where(torch.rand_like(noise) < unassigned, K, proposals)  # an option not yet created
            if self.step_mask is not None:
                stops = stops & self.step_mask.unsqueeze(-1)
            option = proposals[..., 0]
            options, terminations = [option], [torch.ones_like(option)]
            for t in range(1, T):
                stop = stops[..., t, :].gather(-1, option.unsqueeze(-1)).squeeze(-1)
                option = torch.where(stop, proposals[..., t], option)
                options.append(option)
                terminations.append(stop.to(option.dtype))
            path = encode_path(torch.stack(options, -1), torch.stack(terminations, -1), K + 1)[..., :-1]
        return path.to(self.log_weights.dtype)

    def rsample(self, sample_shape=torch.Size()):
        """The same as :meth:`sample`: discrete paths carry no gradient."""
        return self.sample(sample_shape)

    def log_prob(self, value):
        """Log-probability of a discrete path, or the paper's relaxation of it (appendix A) for a relaxed one.

        Zero probabilities are clamped to the smallest normal number: an impossible path has a finite log-probability.
        """
        b, h = value[..., 0], value[..., 1:]
        unborn = (h == 0).all(-1)  # (..., T)
        log_eta = torch.where(unborn, self._log_draws()[..., -1], log_mix(h, self._step_weights()))  # (..., T)
        logits = self.termination_logits[..., 1:, :]
        if self.step_mask is not None:  # masking the result alone would let a NaN in the padding into the gradients
            logits = torch.where(self.step_mask[..., 1:, None], logits, torch.zeros_like(logits))
        log_stop = log_mix(h[..., :-1, :], logsigmoid(logits))
        log_stay = log_mix(h[..., :-1, :], logsigmoid(-logits))
        overlap = torch.minimum(h[..., 1:, :], h[..., :-1, :]).sum(-1)  # 1 - |h_t - h_{t-1}|_1 / 2
        # an option not yet created never terminates
        log_stay = torch.where(unborn[..., :-1], 0.0, log_stay)
        overlap = torch.where(unborn[..., 1:] & unborn[..., :-1], 1.0, overlap)
        log_switch = safe_log(b[..., 1:]) + log_stop + log_eta[..., 1:]
        log_keep = safe_log(1 - b[..., 1:]) + log_stay + safe_log(overlap)
        first = safe_log(b[..., :1]) + log_eta[..., :1]
        return self._masked(torch.cat([first, torch.logaddexp(log_switch, log_keep)], -1)).sum(-1)

    def log_marginal(self, emission: Tensor) -> Tensor:
        """log p(a) with the path summed out, shape ``(...)``.

        :param emission: log π_k(a_t | s_t), ``(..., T, K)``
        """
        return log_marginal(*self._broadcast(emission))

    def evidence(self, emission: Tensor) -> PathEvidence:
        """The factors of p(path, actions), on which guides are built.

        :param emission: log π_k(a_t | s_t), ``(..., T, K)``
        """
        log_weights, logits, emission, mask = self._broadcast(emission)
        return PathEvidence(log_weights, *mask_out(logits, emission, mask))

    def posterior(self, emission: Tensor) -> PathPosterior:
        """Posterior marginals of the path given the actions; can be differentiated any number of times."""
        return PathPosterior(*path_posterior(*self._broadcast(emission)))

    def viterbi(self, emission: Tensor) -> tuple[Tensor, Tensor]:
        """The most probable option sequence, terminations summed out, and its joint log-probability with the actions.

        :returns: options ``(..., T)`` (padded steps repeat the last one) and log-probabilities ``(...)``
        """
        return best_option_path(*self._broadcast(emission))

    def sample_posterior(self, emission: Tensor) -> Tensor:
        """A discrete path drawn from ``p(path | actions)``: forward filtering, backward sampling."""
        with torch.no_grad():
            options, terminations = drawn_option_path(*self._broadcast(emission))
            path = encode_path(options, terminations, self.num_options)
        return path.to(self.log_weights.dtype)

    #: whether :meth:`reweighted` is possible: the weights do not depend on the state
    reweightable = True

    def reweighted(self, log_weights: Tensor) -> "OptionPath":
        """The same distribution with other weights, ``(K,)`` or ``(..., K)``."""
        return OptionPath(log_weights, self.termination_logits, self.step_mask)

    def marginalize(self, likelihood) -> "MarginalActions":
        """The actions with the path summed out; called by :func:`~pyro_options.handlers.collapse`."""
        return MarginalPathActions(self, likelihood)

    def average_steps(self, likelihood, transitions: Transitions) -> "StepAveragedActions":
        """Path and actions, averaged over one step; called by :func:`~pyro_options.handlers.average_steps`."""
        return StepAveragedActions(self, likelihood, transitions)


class MarginalActions(TorchDistribution):
    r"""Actions of an episode with the path summed out.

    .. math:: p(a) = \sum_\zeta p(\zeta)\prod_t \pi_{h_t}(a_t\mid s_t)

    :param path: the distribution of the path
    :param likelihood: the distribution of actions given a path, with ``component_log_prob(actions) -> (..., T, K)``
    """

    arg_constraints: ClassVar[dict] = {}

    def __init__(self, path: OptionPath, likelihood, validate_args=None):
        self.path, self.likelihood = path, likelihood
        super().__init__(path.batch_shape, likelihood.event_shape, validate_args=False)

    @property
    def support(self):
        return self.likelihood.support

    @property
    def step_mask(self):
        """Mask of the unpadded steps."""
        return self.likelihood.step_mask

    def expand(self, batch_shape, _instance=None):
        return type(self)(self.path.expand(batch_shape), self.likelihood.expand(batch_shape))

    def component_log_prob(self, value: Tensor) -> Tensor:
        """log π_k(a_t | s_t), ``(..., T, K)``."""
        return self.likelihood.component_log_prob(value)

    def responsibilities(self, value: Tensor) -> Tensor:
        """``(..., T, K)`` p(h_t = k | actions)."""
        return self.path.posterior(self.component_log_prob(value)).options

    def log_prob(self, value):
        return self.path.log_marginal(self.component_log_prob(value))

    def weighed(self, value: Tensor):
        """The log-probability of ``value`` as a function of the log weights; ``None`` if they depend on the state."""
        if not self.path.reweightable:
            return None
        emission = self.component_log_prob(value)
        return lambda log_weights: self.path.reweighted(log_weights).log_marginal(emission)

    def sample(self, sample_shape=torch.Size()):
        """Actions of the K options, with the weights renormalized to sum to one."""
        return self.likelihood.given(self.path.normalized().sample(sample_shape)).sample()


class MarginalPathActions(MarginalActions):
    """:class:`MarginalActions` that can also sample whole paths from the posterior, whose steps are dependent."""

    def sample_components(self, value: Tensor) -> Tensor:
        """The option of each step, ``(..., T)``, of a path drawn from the posterior."""
        return self.path.sample_posterior(self.component_log_prob(value))[..., 1:].argmax(-1)


class StepAveragedActions(MarginalActions):
    r"""The joint density of path and actions, averaged over each step of the path given the one before.

    .. math:: \sum_t E_{q(b_t, h_t\mid h_{t-1})}[\log p(b_t, h_t\mid h_{t-1}) + \log\pi_{h_t}(a_t\mid s_t)]

    Its difference to the guide's :meth:`~pyro_options.options.StructuredPath.stepwise_log_prob` is a lower bound of the
    log marginal.

    :param transitions: those of the guide
    """

    def __init__(self, path: OptionPath, likelihood, transitions: Transitions):
        super().__init__(path, likelihood)
        self.transitions = transitions

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        moved = Transitions(*(part.expand(shape + part.shape[-2:]) for part in self.transitions))
        return StepAveragedActions(self.path.expand(shape), self.likelihood.expand(shape), moved)

    def responsibilities(self, value: Tensor) -> Tensor:
        """``(..., T, K)`` q(h_t = k | h_{t-1}) for the options of the guide's path; zero in padded steps."""
        options, mask = self.transitions.options, self.step_mask
        return options if mask is None else options * mask.unsqueeze(-1)

    def log_prob(self, value):
        evidence = self.path.evidence(self.component_log_prob(value))
        return average(self.transitions, evidence.step_log_weights, evidence.termination_logits, evidence.emission)
