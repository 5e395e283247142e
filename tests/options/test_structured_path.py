"""Paths on a model's evidence: against enumeration, the exact posterior, and the compiled loop against torch."""

import pytest
import torch
from support.paths import P_VALUE, enumerate_paths, mask_of, path_goodness_of_fit, random_episodes
from torch.testing import assert_close

from pyro_options.options import (
    MarginalStructuredPath,
    OptionPath,
    PathEvidence,
    RelaxedStructuredPath,
    StatePath,
    StructuredPath,
    TiltedPath,
)
from pyro_options.options import compiled_steps as compiled
from pyro_options.options.path_steps import average, look_ahead

N, T, K = 3, 4, 3
KINDS = [StructuredPath, RelaxedStructuredPath, MarginalStructuredPath]
kinds = pytest.mark.parametrize("kind", KINDS)


def make(kind=StructuredPath, batch=(N,), lookahead=0, steps=T, dtype=torch.float64, **more):
    """A path with a random message, and the model that its evidence is of."""
    log_weights, logits, emission = random_episodes(steps, K, batch, leftover=0.2, dtype=dtype)
    model = OptionPath(log_weights, logits)
    evidence = model.evidence(emission)
    message = torch.randn(*batch, steps, K, dtype=dtype)
    message[..., -1, :] = 0
    return kind(evidence, message.requires_grad_(), lookahead, **more), model, emission


def exact_message(evidence):
    return look_ahead(evidence, torch.zeros_like(evidence.emission), evidence.emission.shape[-2])


def bound(path, value):
    """The model's side less the guide's, averaged over each step, ``(...)``."""
    evidence = path.evidence
    model = average(path.transitions(value), evidence.step_log_weights, evidence.termination_logits, evidence.emission)
    return model - path.stepwise_log_prob(value)


def all_paths(path, model, emission):
    """Values ``(P, T, K + 1)`` of one episode, and q of each, for paths that are possible."""
    every = enumerate_paths(model.log_weights, model.termination_logits, emission)
    values = every.values(K)[every.prior > 0]
    return values, path.expand([len(values)]).log_prob(values).exp()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_looking_ahead_is_the_recursion_from_the_end_of_the_next_block(count):
    path, *_ = make(steps=8)
    evidence, message = path.evidence, path.message.detach()
    found = look_ahead(evidence, message, count)
    for t in range(8):
        end = (t // count + 2) * count - 1
        expected = message[..., end, :] if end < 7 else torch.zeros_like(message[..., 0, :])
        for later in range(min(end, 7), t, -1):
            ahead = (evidence.emission[..., later, :] + expected).exp()
            stop = torch.sigmoid(evidence.termination_logits[..., later, :])
            new = (evidence.log_weights.exp() * ahead).sum(-1, keepdim=True)
            expected = torch.log((1 - stop) * ahead + stop * new)
        assert_close(found[..., t, :], expected)


@pytest.mark.parametrize("lookahead", [0, 2])
def test_the_chain_is_a_distribution_over_possible_paths(lookahead):
    path, model, emission = make(batch=(), lookahead=lookahead)
    _, probs = all_paths(path, model, emission)
    assert_close(probs.sum(), torch.tensor(1.0).double())


def test_samples_follow_log_prob():
    path, model, emission = make(batch=(), steps=3)
    path = StructuredPath(path.evidence.map(lambda x: 0.3 * x), 0.3 * path.message, lookahead=1)  # no rare paths
    values, probs = all_paths(path, model, emission)
    assert path_goodness_of_fit(path.expand([20_000]).sample(), values, probs.detach()) > P_VALUE


def test_with_the_exact_message_the_chain_is_the_posterior():
    path, model, emission = make(batch=())
    path = StructuredPath(path.evidence, exact_message(path.evidence))
    every = enumerate_paths(model.log_weights, model.termination_logits, emission)
    possible = every.prior > 0
    values = every.values(K)[possible]
    assert_close(path.expand([len(values)]).log_prob(values).exp(), every.posterior[possible])


@kinds
@pytest.mark.parametrize("how", ["message", "lookahead"])
def test_with_the_exact_message_every_draw_gives_the_log_marginal(kind, how):
    path, model, emission = make()
    path = (
        kind(path.evidence, exact_message(path.evidence))
        if how == "message"
        else kind(path.evidence, path.message, lookahead=T - 1)
    )
    for _ in range(5):
        value = path.sample()
        assert_close(bound(path, value), model.log_marginal(emission))


@pytest.mark.parametrize("lookahead", [0, 1, 3])
@pytest.mark.parametrize("scale", [0.0, 1.0, 4.0])
def test_with_any_message_the_expected_bound_is_the_elbo_and_a_bound(scale, lookahead):
    """Over all discrete paths of q: averaging over a step changes no expectation, and neither does the control."""
    path, model, emission = make(batch=(), lookahead=lookahead)
    path = StructuredPath(path.evidence, scale * path.message.detach(), lookahead)
    values, probs = all_paths(path, model, emission)
    many = path.expand([len(values)])
    options = values[..., 1:]
    joint = model.expand([len(values)]).log_prob(values) + (options * emission).sum((-1, -2))
    elbo = (probs * (joint - many.log_prob(values))).sum()
    found = (probs * bound(many, values)).sum()
    assert_close(found, elbo)
    assert found <= model.log_marginal(emission) + 1e-12
    if scale and lookahead < T - 1:
        assert found < model.log_marginal(emission) - 1e-6
    marginals = MarginalStructuredPath(path.evidence, path.message, lookahead)
    assert_close(bound(marginals, marginals.rsample()), found)


def test_the_gradient_of_the_marginals_is_that_of_the_enumerated_bound():
    path, model, emission = make(batch=(), lookahead=1)
    values, probs = all_paths(path, model, emission)
    many = path.expand([len(values)])
    joint = model.expand([len(values)]).log_prob(values) + (values[..., 1:] * emission).sum((-1, -2))
    elbo = (probs * (joint - many.log_prob(values))).sum()
    marginals = MarginalStructuredPath(path.evidence, path.message, 1)
    found = bound(marginals, marginals.rsample())
    (expected,), (ours,) = (torch.autograd.grad(x, path.message) for x in (elbo, found))
    assert expected.abs().max() > 1e-3
    assert_close(ours, expected)


@pytest.mark.parametrize("kind", [OptionPath, TiltedPath, StatePath])
def test_evidence_of_every_model_gives_its_exact_posterior(kind):
    log_weights, logits, emission = random_episodes(T, K, (N,), leftover=0.2)
    mask = mask_of((4, 2, 1), T)
    if kind is StatePath:
        log_weights = log_weights + torch.randn(N, T, K, dtype=torch.float64).clamp(max=0)
    model = kind(log_weights, logits, mask, **({"cost": 1.5} if kind is TiltedPath else {}))
    evidence = model.evidence(emission)
    path = MarginalStructuredPath(evidence, torch.zeros_like(emission), T - 1)
    value, exact = path.rsample(), model.posterior(emission)
    assert_close(value[..., 1:] * mask.unsqueeze(-1), exact.options)
    assert_close(path.transitions(value).starts, exact.starts)
    assert_close(bound(path, value), exact.log_marginal)


@kinds
def test_padding_changes_nothing(kind):
    log_weights, logits, emission = random_episodes(6, K, (N,))
    message, lengths = torch.randn(N, 6, K, dtype=torch.float64), (6, 3, 1)
    mask = mask_of(lengths, 6)
    message = message * mask_of([n - 1 for n in lengths], 6).unsqueeze(-1)
    garbage = torch.where(mask.unsqueeze(-1), emission, 1e3)
    whole = kind(OptionPath(log_weights, logits, mask).evidence(garbage), message, 2)
    value = whole.sample()
    for i, n in enumerate(lengths):
        alone = kind(OptionPath(log_weights, logits[i, :n]).evidence(emission[i, :n]), message[i, :n], 2)
        assert_close(bound(whole, value)[i], bound(alone, value[i, :n]))
        if kind is MarginalStructuredPath:
            assert_close(value[i, :n], alone.rsample())


def test_relaxed_samples_lie_in_the_simplex_and_sharpen():
    path, *_ = make(RelaxedStructuredPath, batch=(50,), temperature=0.7)
    value = path.rsample()
    assert ((value >= 0) & (value <= 1)).all() and (value[:, 0, 0] == 1).all()
    assert_close(value[..., 1:].sum(-1), torch.ones(50, T).double())
    path.temperature = 0.01
    assert path.rsample()[..., 1:].max(-1).values.mean() > 0.97 > value[..., 1:].max(-1).values.mean()


@pytest.mark.parametrize("scale", [1.0, 60.0])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_values_and_gradients_are_finite_in_float32(kind, scale):
    log_weights, logits, emission = (scale * x for x in random_episodes(40, K, (30,), dtype=torch.float32))
    message = (scale * torch.randn(30, 40, K)).requires_grad_()
    path = kind(PathEvidence(log_weights.expand(30, K), logits, emission), message, 4)
    if kind is RelaxedStructuredPath:
        path.temperature = 0.05
    value = path.rsample()
    objective = bound(path, value)
    objective.sum().backward()
    assert value.isfinite().all() and objective.isfinite().all() and message.grad.isfinite().all()


def test_expanding_and_bad_arguments():
    path, *_ = make(RelaxedStructuredPath)
    many = path.expand([5, N])
    value = many.rsample()
    assert value.shape == (5, N, T, K + 1) and path.expand([N]) is path
    assert_close(many.log_prob(value)[2], path.log_prob(value[2]))
    with pytest.raises(ValueError, match="Expected sample_shape"):
        path.sample((2,))
    with pytest.raises(ValueError, match="temperature > 0"):
        make(RelaxedStructuredPath, temperature=0.0)
    with pytest.raises(ValueError, match="lookahead >= 0"):
        make(lookahead=-1)


def drawn(kind, lookahead, is_compiled, monkeypatch):
    """Path, transitions, log-probability, and the gradient of a function of all, from the same seed."""
    torch.manual_seed(3)
    path, *_ = make(kind, batch=(2, N), lookahead=lookahead, steps=7)
    path.temperature = 0.7
    with monkeypatch.context() as patch:
        if not is_compiled:
            patch.setitem(compiled.KERNEL.__dict__, "module", None)
        value = path._draw(torch.Size())
    parts = [value, *path.transitions(value), path.stepwise_log_prob(value)]
    objective = sum((part * torch.linspace(-1, 2, part.numel()).double().reshape(part.shape)).sum() for part in parts)
    return [*(part.detach() for part in parts), *torch.autograd.grad(objective, path.message)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("lookahead", [0, 1, 2, 3, 9])
@kinds
def test_compiled_equals_torch(kind, lookahead, threads, monkeypatch):
    pytest.importorskip("numba")
    expected = drawn(kind, lookahead, False, monkeypatch)
    monkeypatch.setattr(compiled.KERNEL, "thread_work", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    result = drawn(kind, lookahead, True, monkeypatch)
    for ours, theirs in zip(result, expected, strict=True):
        assert_close(ours, theirs, rtol=1e-9, atol=1e-10)
