"""Weights of linear policies in the units of the data, and their standard errors."""

import pytest
import torch
from support.skill_sets import make_data, make_skills

from pyro_options.data import Trajectories, simulated_decisions
from pyro_options.errors import InputError
from pyro_options.nn import StandardizedInputs
from pyro_options.options import CategoricalPolicy, GaussianPolicy, Termination
from pyro_options.skills import Skills, laplace, policy_weights


def standardized(num_options: int, data: Trajectories, seed: int = 0) -> Skills:
    """Untrained skills that see two of three entries, standardized."""
    torch.manual_seed(seed)
    index = torch.tensor([0, 2])
    rows = data.states[data.mask][:, index]
    network = StandardizedInputs(index, 3, rows.mean(0), rows.std(0))
    policy = CategoricalPolicy(3, num_options, 2, network=network)
    termination = Termination(3, num_options, network=network, initial_logit=-2.0)
    return Skills(policy, termination, torch.zeros(num_options).log_softmax(-1))


def choices(num_sessions: int, seed: int = 0) -> Trajectories:
    """Short sessions whose entries have units of their own."""
    data = simulated_decisions(seed, num_sessions).trajectories.cut(40)
    states = data.states * torch.tensor([100.0, 1.0, 0.1]) + torch.tensor([7.0, 0.0, 3.0])
    return Trajectories(states, data.actions, data.lengths, num_actions=2)


def test_weights_in_the_units_of_the_data_give_the_logits():
    data = choices(3)
    skills = standardized(2, data)
    found, states = policy_weights(skills), data.states[0, :5].double()
    logits = torch.einsum("kad,td->tka", found.weight, states) + found.bias
    outputs = torch.as_tensor(skills.outputs(states.numpy()))
    torch.testing.assert_close(logits[..., 0], (outputs[..., 1] - outputs[..., 0]).double(), rtol=1e-4, atol=1e-4)
    assert (found.weight[..., 1] == 0).all()


def test_weights_of_continuous_actions_give_their_means():
    torch.manual_seed(0)
    policy = GaussianPolicy(3, 2, 2, center=torch.tensor([1.0, -2.0]), unit=torch.tensor([0.5, 3.0]))
    skills = Skills(policy, Termination(3, 2), torch.zeros(2).log_softmax(-1))
    found, state = policy_weights(skills), torch.randn(3, dtype=torch.float64)
    expected = policy(state.float().view(1, 1, 3)).mean_action[0, 0]
    torch.testing.assert_close((found.weight @ state + found.bias).float(), expected)


def test_weights_of_a_deep_policy_are_refused():
    with pytest.raises(InputError, match=r"Discover with hidden=\(\)"):
        policy_weights(make_skills("deep"))
    with pytest.raises(InputError, match="Expected linear policies"):
        laplace(make_skills("deep"), make_data())


def test_one_option_is_a_logistic_regression():
    """Mode and errors are those of Newton's method and the Fisher information, in the units of the data."""
    data = choices(6)
    fit = laplace(standardized(1, data), data, prior_scale=1e4)
    inputs = data.states[data.mask].double()[:, [0, 2]]
    inputs = torch.cat([inputs, torch.ones(len(inputs), 1, dtype=torch.float64)], -1)
    actions, weights = data.actions[data.mask].double(), torch.zeros(3, dtype=torch.float64)
    for _ in range(20):
        right = torch.sigmoid(inputs @ weights)
        information = (inputs * (right * (1 - right)).unsqueeze(-1)).T @ inputs
        weights = weights + torch.linalg.solve(information, inputs.T @ (actions - right))
    errors = torch.linalg.inv(information).diagonal().sqrt()
    found = torch.cat([fit.mean.weight[0, 0, [0, 2]], fit.mean.bias[0]])
    torch.testing.assert_close(found, weights, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(
        torch.cat([fit.error.weight[0, 0, [0, 2]], fit.error.bias[0]]), errors, rtol=1e-3, atol=0
    )
    low, high = fit.interval(0.95)
    torch.testing.assert_close((high.bias - low.bias).flatten(), 2 * 1.959964 * errors[-1:], rtol=1e-3, atol=0)
    assert fit.num_parameters == 3 + 3  # of the policy, and of a termination that changes nothing


def written_out(values: torch.Tensor, skills: Skills, data: Trajectories, rows: bool) -> torch.Tensor:
    """Minus the log posterior with constant terminations, by a forward pass over whole transition matrices."""
    inputs = skills.policy.network(data.states).double()
    K, A, F = skills.policy.heads.weight.shape
    sizes = [K * A * F, K * A, K, K, K * K][: 5 if rows else 4]
    weight, bias, stop, first, *more = values.split(sizes)
    logits = torch.einsum("ntf,kaf->ntka", inputs, weight.view(K, A, F)) + bias.view(K, A)
    emission = torch.log_softmax(logits, -1).gather(-1, data.actions[..., None, None].expand(*inputs.shape[:2], K, 1))
    leave, weights = torch.sigmoid(stop - 2.0).unsqueeze(-1), torch.softmax(first, -1)
    moves = torch.softmax(more[0].view(K, K), -1) if rows else weights.expand(K, K)
    matrix = (1 - leave) * torch.eye(K, dtype=torch.float64) + leave * moves
    total = values.square().sum() / (2 * 3.0**2)
    for i, length in enumerate(data.lengths.tolist()):
        alpha = weights.log() + emission[i, 0, :, 0]
        for t in range(1, length):
            alpha = torch.logsumexp(alpha.unsqueeze(-1) + matrix.log(), 0) + emission[i, t, :, 0]
        total = total - torch.logsumexp(alpha, 0)
    return total


@pytest.mark.parametrize("rows", [False, True])
def test_errors_are_those_of_a_written_out_hessian(rows):
    data = choices(4).cut(12)
    skills = standardized(2, data)
    if rows:
        skills = Skills(skills.policy, skills.termination, skills.log_weights, log_rows=torch.zeros(2, 2))
    fit = laplace(skills, data, constant_terminations=True, prior_scale=3.0)
    at = fit.skills
    parts = [at.policy.heads.weight, at.policy.heads.bias, at.termination.heads.bias, at.log_weights]
    values = torch.cat([part.detach().flatten() for part in parts + ([at.log_rows] if rows else [])])
    # the prior on unnormalized log weights centres them at zero
    K = 2
    centred = values.clone()
    start = len(values) - (K * K + K if rows else K)
    centred[start:] = torch.cat([row - row.mean() for row in values[start:].view(-1, K)])
    centred.requires_grad_()
    gradient = torch.autograd.grad(written_out(centred, at, data, rows), centred)[0]
    assert gradient.abs().max() < 1e-3
    hessian = torch.autograd.functional.hessian(lambda x: written_out(x, at, data, rows), centred.detach())
    covariance = torch.linalg.inv(hessian)
    F, scale = 2, at.policy.network.scale.double()
    for k in range(K):
        for f in range(F):
            i, j = k * 2 * F + f, k * 2 * F + F + f  # the weights of entry f on both actions
            variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
            error = fit.error.weight[k, 0, at.policy.network.index[f]]
            torch.testing.assert_close(error, variance.sqrt() / scale[f], rtol=1e-3, atol=0)
    assert fit.log_likelihood == pytest.approx(float(at.episode_log_likelihoods(data).sum()))
