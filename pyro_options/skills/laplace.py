"""Standard errors of the weights of linear policies: Laplace's approximation of the exact marginal likelihood."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import NumericalError, check
from pyro_options.options.policies import GaussianPolicy

from .episodes import batches
from .policy_weights import PolicyWeights, output_map, policy_weights, unit_map

if TYPE_CHECKING:
    from .skills import Skills

_STEP = 1e-4  # of the finite differences of gradients
_NEWTON_STEPS = 8
_CONVERGED = 1e-6  # nats that one more Newton step would gain


@dataclass(frozen=True)
class WeightPosterior:
    """A Gaussian approximation of the posterior over the weights of linear policies, in the units of the data."""

    mean: PolicyWeights  # at the mode
    error: PolicyWeights  # standard errors
    covariance: Tensor  # (K, A, D + 1, D + 1) of the weights and the bias of each output
    skills: "Skills"  # at the mode
    log_likelihood: float  # of all episodes, in nats
    num_parameters: int  # free ones, of policies, terminations and weights

    def interval(self, level: float = 0.95) -> tuple[PolicyWeights, PolicyWeights]:
        """Lower and upper ends of intervals that contain each weight with this probability."""
        check(0 < level < 1, "a level between 0 and 1", level)
        wide = math.sqrt(2) * float(torch.erfinv(torch.tensor(level, dtype=torch.float64)))
        low, high = (
            PolicyWeights(self.mean.weight + s * wide * self.error.weight, self.mean.bias + s * wide * self.error.bias)
            for s in (-1, 1)
        )
        return low, high


def _parameters(skills: "Skills", constant_terminations: bool) -> list[Tensor]:
    """What the likelihood depends on, as tensors that require gradients; weights are normalized where they are used."""
    found = [skills.policy.heads.weight, skills.policy.heads.bias, skills.termination.heads.bias]
    if constant_terminations:
        skills.termination.heads.weight.data.zero_()
    else:
        found.append(skills.termination.heads.weight)
    if isinstance(skills.policy, GaussianPolicy):
        found.append(skills.policy.log_scale.value)
    found.append(skills.log_weights)
    if skills.log_rows is not None:
        found.append(skills.log_rows)
    return [one.requires_grad_() for one in found]


def _double(skills: "Skills") -> "Skills":
    """A copy in double precision on the CPU."""
    new = copy.copy(skills)
    new.policy, new.termination = (copy.deepcopy(part).cpu().double() for part in (skills.policy, skills.termination))
    new.log_weights = torch.log_softmax(skills.log_weights.detach().cpu().double(), -1)
    if skills.log_rows is not None:
        new.log_rows = torch.log_softmax(skills.log_rows.detach().cpu().double(), -1)
    return new


def _objective(
    skills: "Skills", data: Trajectories, parameters: list[Tensor], prior_scale: float
) -> Callable[[], Tensor]:
    """Minus the log posterior at the present values of the parameters, up to a constant."""
    view = copy.copy(skills)

    def loss() -> Tensor:
        view.log_weights = torch.log_softmax(skills.log_weights, -1)
        if skills.log_rows is not None:
            view.log_rows = torch.log_softmax(skills.log_rows, -1)
        total = sum(one.square().sum() for one in parameters) / (2 * prior_scale**2)
        for _, _, path, emission, _ in batches(view, data, len(data)):
            total = total - path.log_marginal(emission).sum()
        return total

    return loss


class _Flat:
    """The parameters as one vector, and the gradient of the loss at any value of it."""

    def __init__(self, parameters: list[Tensor], loss: Callable[[], Tensor]):
        self.parameters, self.loss = parameters, loss

    def get(self) -> Tensor:
        return torch.cat([one.detach().flatten() for one in self.parameters])

    def set(self, values: Tensor) -> None:
        start = 0
        for one in self.parameters:
            one.data = values[start : start + one.numel()].view_as(one).clone()
            start += one.numel()

    def gradient(self, values: Tensor) -> tuple[float, Tensor]:
        self.set(values)
        loss = self.loss()
        found = torch.autograd.grad(loss, self.parameters)
        return loss.item(), torch.cat([one.flatten() for one in found])

    def hessian(self, values: Tensor) -> Tensor:
        """Central differences of exact gradients."""
        rows = []
        for step in torch.eye(len(values), dtype=values.dtype) * _STEP:
            rows.append((self.gradient(values + step)[1] - self.gradient(values - step)[1]) / (2 * _STEP))
        self.set(values)
        matrix = torch.stack(rows)
        return (matrix + matrix.T) / 2


def _descend(flat: _Flat, max_iter: int) -> None:
    """L-BFGS, whose end is close to the mode."""
    optimizer = torch.optim.LBFGS(
        flat.parameters, max_iter=max_iter, history_size=50, tolerance_change=1e-9, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = flat.loss()
        loss.backward()
        return loss

    optimizer.step(closure)


def _mode(flat: _Flat, max_iter: int) -> tuple[Tensor, Tensor]:
    """The mode and the Hessian there; raises if no mode is reached."""
    _descend(flat, max_iter)
    values = flat.get()
    before, gradient = flat.gradient(values)
    for _ in range(_NEWTON_STEPS):
        hessian = flat.hessian(values)
        curvature, axes = torch.linalg.eigh(hessian)
        move = axes @ ((axes.T @ gradient) / curvature.abs().clamp(min=1e-6))
        if curvature[0] > 0 and float(gradient @ move) / 2 < _CONVERGED:
            return values, hessian
        share = 1.0
        while True:
            after, ahead = flat.gradient(values - share * move)
            if after <= before or share < 1e-6:
                break
            share /= 2
        values, before, gradient = values - share * move, after, ahead
    raise NumericalError(
        "Expected the log-likelihood to have a maximum near these skills but none was reached. Keep the options in use "
        "alone (skills.used()), or pass a smaller prior_scale."
    )


def laplace(
    skills: "Skills",
    trajectories: Trajectories,
    constant_terminations: bool = False,
    prior_scale: float = 10.0,
    max_iter: int = 500,
) -> WeightPosterior:
    """Standard errors of the weights of linear policies, from the curvature of the exact marginal likelihood.

    Training with minibatches ends near an optimum. From there the policies, the terminations and the weights of
    the options are taken to the mode of their posterior on these demonstrations, in double precision; the inverse of
    the Hessian there is the covariance. The path of options is summed out, so the errors include the uncertainty about
    which option was on.

    :param skills: with linear policies (``hidden=()``), as ``discover`` finds them; keep the options in use alone
        (:meth:`Skills.used`)
    :param trajectories: the demonstrations to estimate the weights on
    :param constant_terminations: let no termination depend on the state, as in a GLM-HMM: fewer parameters, and so
        smaller errors where that is true
    :param prior_scale: standard deviation of a Gaussian prior on every parameter, states being standardized: weak by
        default, so that the mode is the maximum of the likelihood for all that the data determine
    :param max_iter: iterations of L-BFGS
    """
    check(skills.segments is None and skills.state_weights is None, "skills of an option hidden Markov model", skills)
    check(prior_scale > 0, "prior_scale > 0", prior_scale)
    units, outputs = unit_map(skills.policy), output_map(skills.policy)
    found = _double(skills)
    data = trajectories.to("cpu").unpack().to(dtype=torch.float64)
    parameters = _parameters(found, constant_terminations)
    flat = _Flat(parameters, _objective(found, data, parameters, prior_scale))
    values, hessian = _mode(flat, max_iter)
    covariance = torch.linalg.inv(hessian)
    K, out, features = found.policy.heads.weight.shape
    weights = torch.arange(K * out * features).view(K, out, features)
    biases = K * out * features + torch.arange(K * out).view(K, out, 1)
    index = torch.cat([weights, biases], -1)  # (K, out, F + 1) places of a head in the vector of parameters
    blocks = covariance[index.view(K, -1, 1), index.view(K, 1, -1)].view(K, out, features + 1, out, features + 1)
    blocks = torch.einsum("ao,df,kofpg,ap,eg->kade", outputs, units, blocks, outputs, units)
    errors = blocks.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()
    best = _at(skills, found)
    likelihood = float(best.episode_log_likelihoods(data).sum())
    free = len(values) - K * (features + 1) * (out - len(outputs)) - (1 if skills.log_rows is None else 1 + K)
    return WeightPosterior(
        policy_weights(best), PolicyWeights(errors[..., :-1], errors[..., -1]), blocks, best, likelihood, free
    )


def _at(skills: "Skills", found: "Skills") -> "Skills":
    """New skills with the parameters of ``found``, whose weights are normalized."""
    rows = None if found.log_rows is None else torch.log_softmax(found.log_rows.detach(), -1)
    return type(skills)(
        found.policy,
        found.termination,
        torch.log_softmax(found.log_weights.detach(), -1),
        max_duration=skills.max_duration,
        summary=skills.summary,
        action_names=skills.action_names,
        metadata=skills.metadata,
        log_rows=rows,
    )
