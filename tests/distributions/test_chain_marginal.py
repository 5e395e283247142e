"""Likelihoods of Markov chains: the kernel against torch and enumeration."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from pyro_options.distributions import chain_marginal as chain
from pyro_options.distributions.markov import ALWAYS, NEVER
from pyro_options.kernels.registry import KERNELS

T, K = 5, 3


def random_chain(batch=(4,), rows_batch=(), leave=None, dtype=torch.float64):
    """First weights, rows, leave logits and emission of sequences, the last of which is padded."""
    log_first = torch.log_softmax(torch.randn(K, dtype=dtype), -1) - 0.2
    log_rows = torch.log_softmax(torch.randn(*rows_batch, K, K, dtype=dtype), -1) - 0.1
    logits, emission = torch.randn(T, *batch, K, dtype=dtype), 3 * torch.randn(T, *batch, K, dtype=dtype)
    if leave is not None:
        logits = torch.full_like(logits, leave)
    if batch:
        logits[3:, ..., -1, :], emission[3:, ..., -1, :] = NEVER, 0.0
    return [part.requires_grad_() for part in (log_first, log_rows, logits, emission)]


def both(function, inputs, monkeypatch):
    """The results by the kernel and in torch, and the gradients of their sum times random numbers."""
    found = []
    for road in ("compiled", "torch"):
        if road == "torch":
            monkeypatch.setitem(KERNELS["chain_marginal"].__dict__, "module", None)
        value = function(*inputs)
        weights = torch.linspace(0.5, 2, value.numel(), dtype=value.dtype).reshape(value.shape)
        found.append((value, torch.autograd.grad((value * weights).sum(), inputs)))
    return found


CHAINS = {
    "one sequence": {"batch": ()},
    "sequences": {},
    "hidden Markov": {"leave": ALWAYS},
    "never left": {"leave": NEVER},
    "particles": {"batch": (2, 4), "rows_batch": (2, 1)},
    "rows of each": {"rows_batch": (4,)},
    "single precision": {"dtype": torch.float32},
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_kernel_agrees_with_torch(name, monkeypatch):
    torch.manual_seed(0)
    inputs = random_chain(**CHAINS[name])
    (value, grads), (expected, expected_grads) = both(chain.chain_log_marginal, inputs, monkeypatch)
    how = {"rtol": 1e-4, "atol": 1e-4} if name == "single precision" else {"rtol": 1e-10, "atol": 1e-10}
    assert_close(value, expected, **how)
    assert_close(grads, expected_grads, **how)


@pytest.mark.parametrize("name", CHAINS)
def test_posteriors_by_the_kernel_agree_with_torch(name):
    torch.manual_seed(0)
    inputs = random_chain(**CHAINS[name])
    expected = [part.detach() for part in chain.chain_states(*inputs)]  # with gradients: in torch
    with torch.no_grad():
        found = chain.chain_states(*inputs)
    how = {"rtol": 1e-4, "atol": 1e-4} if name == "single precision" else {"rtol": 1e-10, "atol": 1e-10}
    for one, other in zip(found, expected):
        assert_close(one, other, **how)


@pytest.mark.parametrize("leave", [None, ALWAYS])
def test_it_equals_enumeration(leave):
    torch.manual_seed(0)
    log_first, log_rows, logits, emission = (part.detach() for part in random_chain((), leave=leave))
    total = []
    psi = torch.sigmoid(logits)
    for states in itertools.product(range(K), repeat=T):
        probability = log_first[states[0]].exp() * emission[0, states[0]].exp()
        for t in range(1, T):
            before, now = states[t - 1], states[t]
            step = psi[t, before] * log_rows[before, now].exp() + (1 - psi[t, before]) * (before == now)
            probability = probability * step * emission[t, now].exp()
        total.append(probability)
    expected = torch.stack(total).sum().log()
    assert_close(chain.chain_log_marginal(log_first, log_rows, logits, emission), expected, rtol=0, atol=1e-10)


def test_its_gradient_is_that_of_finite_differences():
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(chain.chain_log_marginal, random_chain((2,)))


def test_sequences_that_would_underflow_are_computed_in_log_space(monkeypatch):
    """The second state is all but impossible at first, and then the only one that explains anything."""
    log_first, log_rows, logits, emission = (part.detach() for part in random_chain())
    log_first = torch.tensor([0.0, -800.0, -900.0]).double()
    log_rows = torch.full((K, K), -900.0).double()
    emission[:, 1] = torch.tensor([-2000.0, 0.0, -2000.0])
    inputs = [part.requires_grad_() for part in (log_first, log_rows, logits, emission)]
    (value, grads), (expected, expected_grads) = both(chain.chain_log_marginal, inputs, monkeypatch)
    assert value.isfinite().all()
    assert_close(value, expected)
    assert_close(grads, expected_grads)


def enumerated(log_first, log_rows, logits, emission):
    """The log-likelihoods as a sum over all paths, in log space."""
    leave, stay = torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)
    total = []
    for states in itertools.product(range(K), repeat=T):
        score = log_first[states[0]] + emission[0, :, states[0]]
        for t in range(1, T):
            before, now = states[t - 1], states[t]
            step = leave[t, :, before] + log_rows[before, now]
            score = score + (torch.logaddexp(step, stay[t, :, before]) if before == now else step) + emission[t, :, now]
        total.append(score)
    return torch.logsumexp(torch.stack(total), 0)


def test_improbable_transitions_that_must_happen_are_computed_in_log_space():
    """Every step is explained by another state than the one before, and all transitions are all but impossible."""
    pytest.importorskip("numba")
    torch.manual_seed(0)
    log_first, log_rows, logits, emission = (part.detach() for part in random_chain())
    log_rows = log_rows - 900.0
    needed = (torch.arange(T) % K).reshape(T, 1, 1) == torch.arange(K)
    emission[:, :3] = torch.where(needed, emission[:, :3], emission[:, :3] - 3000.0)
    inputs = [part.requires_grad_() for part in (log_first, log_rows, logits, emission)]
    value, expected = chain.chain_log_marginal(*inputs), enumerated(*inputs)
    grads, expected_grads = (torch.autograd.grad(one.sum(), inputs) for one in (value, expected))
    assert (value[:3] < -3000).all()
    assert_close(value, expected, rtol=1e-12, atol=0)
    assert_close(grads, expected_grads, rtol=1e-9, atol=1e-9)
    assert float(grads[2].abs().max()) > 0.1  # leaving is what explains them


def test_a_second_derivative_is_refused():
    inputs = random_chain()
    (grad,) = torch.autograd.grad(chain.chain_states(*inputs)[2].sum(), inputs[0], create_graph=True)
    torch.autograd.grad(grad.sum(), inputs[3])
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        torch.autograd.grad(chain.chain_log_marginal(*inputs).sum(), inputs[0], create_graph=True)
