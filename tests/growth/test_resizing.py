"""Resizing layers keeps the outputs of components, their weights and the moments of optimizers."""

import random

import pyro
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.nn import PyroModule
from support.growth_checks import assert_identical, copied_tensors
from support.layers import BUILDERS, ENCODERS, LENGTHS, STATES, A, D, K, T, build, randomized
from support.paths import mask_of
from torch.distributions import Normal
from torch.testing import assert_close

from pyro_options.distributions import gem_sticks, log_stick_breaking
from pyro_options.growth import GrowableHeads, Snapshot, grow, growables, num_components, permute, prune
from pyro_options.guides import GrowableGEM, PointGEM, UniformWeights
from pyro_options.options import CategoricalPolicy, RelaxedAutoregressivePath

every_module = pytest.mark.parametrize("name", BUILDERS)

MOVES = {
    "grow": (lambda modules, optimizer=None: grow(modules, 2, optimizer), [0, 1, 2, 3], 2),
    "prune": (lambda modules, optimizer=None: prune(modules, [1], optimizer), [0, 2, 3], 0),
    "permute": (lambda modules, optimizer=None: permute(modules, [2, 0, 3, 1], optimizer), [2, 0, 3, 1], 0),
}
every_move = pytest.mark.parametrize("move", MOVES)


@every_module
@every_move
def test_kept_components_keep_their_outputs(name, move):
    module, components = build(name)
    apply, keep, num_new = MOVES[move]
    before, parameters = components(module), list(module.parameters())
    layers = growables([module])
    values = {(layer, part): getattr(layer, part).clone() for layer in layers for part in layer.component_axes}
    apply([module])
    assert num_components([module]) == len(keep) + num_new
    assert all(new is old for new, old in zip(module.parameters(), parameters, strict=True))
    assert_close(components(module)[: len(keep)], before[keep], rtol=0, atol=1e-6)
    if name not in ("gem", "point"):  # their sticks are relative to the sticks before them
        for (layer, part), old in values.items():
            axis = layer.component_axes[part]
            kept = getattr(layer, part).narrow(axis, 0, len(keep))
            assert torch.equal(kept, old.index_select(axis, torch.tensor(keep)))


@every_module
@pytest.mark.parametrize("seed", range(3))
def test_components_survive_a_random_sequence_of_moves(name, seed):
    module, components = build(name)
    rng, labels = random.Random(seed), list(range(K))
    for step in range(12):
        before = dict(zip(labels, components(module)))
        move = rng.choice(["grow", "permute"] if len(labels) == 1 else ["grow", "prune", "permute"])
        if move == "grow":
            grow([module])
            labels = [*labels, f"born at {step}"]
        elif move == "prune":
            gone = rng.randrange(len(labels))
            prune([module], [gone])
            labels = labels[:gone] + labels[gone + 1 :]
        else:
            order = rng.sample(range(len(labels)), len(labels))
            permute([module], order)
            labels = [labels[k] for k in order]
        after = dict(zip(labels, components(module), strict=True))
        for label in before.keys() & after.keys():
            assert_close(after[label], before[label], rtol=0, atol=1e-6, msg=f"{label} after {move} at {step}")


def exact_mean_weights(gem):
    """Mean weights of Kumaraswamy sticks in float64, from their quantiles."""
    a, b = gem.log_a.detach().double().exp(), gem.log_b.detach().double().exp()
    u = (torch.arange(200_000).double()[:, None] + 0.5) / 200_000
    v = ((-torch.expm1(torch.log(u) / b)) ** (1 / a)).mean(0)
    return v * torch.cumprod(torch.cat([torch.ones(1).double(), 1 - v[:-1]]), 0)


@every_move
@pytest.mark.parametrize("log_a", [-1.0, 0.0, 1.0, 2.0, 3.0])
def test_moves_keep_the_exact_mean_weights_of_sharp_posteriors(move, log_a):
    """Data concentrate the sticks: log a = 3 at a mean near 1/3 is what a few hundred choices leave."""
    gem = GrowableGEM(K)
    with torch.no_grad():
        gem.log_a.fill_(log_a)
        gem.log_b.copy_(torch.exp(torch.tensor(log_a)) * torch.tensor([1.0, 1.4, 0.8, 1.2]))
    apply, keep, _ = MOVES[move]
    before = exact_mean_weights(gem)
    apply([gem])
    assert_close(exact_mean_weights(gem)[: len(keep)], before[keep], rtol=0, atol=1e-5)


def test_mean_weights_are_those_of_the_sticks():
    gem = randomized(GrowableGEM(K))
    assert_close(gem.mean_log_weights().exp().double(), exact_mean_weights(gem), rtol=0, atol=1e-5)


def test_new_components_get_a_share_of_the_unassigned_mass():
    for gem in (GrowableGEM(2, initial_mean=0.25), PointGEM(2, initial_mean=0.25)):
        grow([gem])
        expected = torch.tensor([0.25, 0.25 * 0.75, 0.25 * 0.75**2])
        assert_close(gem.mean_log_weights().exp(), expected)


def test_pruned_mass_becomes_unassigned():
    gem = randomized(GrowableGEM(K))
    before = gem.mean_log_weights().exp()
    prune([gem], [0, 2])
    assert_close(gem.mean_log_weights().exp().sum(), before[1] + before[3], rtol=0, atol=1e-6)


def test_uniform_weights_stay_uniform():
    weights = UniformWeights(3)
    grow([weights])
    assert_close(weights().exp(), torch.full((4,), 0.25))


def trained(name, optimizer):
    """A module and its optimizer after two steps; no two entries have the same moments."""
    module, _ = build(name)
    optimizer = optimizer(module.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        sum((parameter * torch.randn_like(parameter)).sum() for parameter in module.parameters()).backward()
        optimizer.step()
    return module, optimizer


def moments(optimizer, parameter):
    return {name: value.clone() for name, value in optimizer.state[parameter].items() if name != "step"}


OPTIMIZERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "amsgrad": lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
}


def assert_moments_moved(before, after, axis, keep, num_new):
    assert before.keys() == after.keys() != set()
    for name, old in before.items():
        kept, new = after[name].split([len(keep), num_new], axis)
        assert torch.equal(kept, old.index_select(axis, torch.tensor(keep))), name
        if name in ("exp_avg", "momentum_buffer"):
            assert (new == 0).all()
        elif num_new:
            assert (new >= 0).all()
            assert new.isfinite().all()


@every_module
@every_move
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_moments_move_with_their_components(name, move, optimizer):
    module, optimizer = trained(name, OPTIMIZERS[optimizer])
    apply, keep, num_new = MOVES[move]
    before = {parameter: moments(optimizer, parameter) for parameter in module.parameters()}
    apply([module], optimizer)
    grown = {getattr(layer, p): axis for layer in growables([module]) for p, axis in layer.component_axes.items()}
    for parameter, old in before.items():
        new = moments(optimizer, parameter)
        assert all(value.shape == parameter.shape for value in new.values())
        if parameter in grown:
            assert_moments_moved(old, new, grown[parameter], keep, num_new)
        else:
            assert all(torch.equal(new[key], value) for key, value in old.items())


def encoder_loss(encoder):
    log_weights = torch.zeros(encoder.num_options).log_softmax(0)
    context = encoder.context(STATES, mask_of(LENGTHS, T), log_weights)
    path = RelaxedAutoregressivePath(encoder.decoder(), context, encoder.num_options, mask_of(LENGTHS, T))
    return path.log_prob(path.rsample()).sum()


@pytest.mark.parametrize("name", [*BUILDERS, *ENCODERS])
def test_every_parameter_moves_in_the_step_after_growth(name):
    if name in ENCODERS:
        module, loss = ENCODERS[name](), encoder_loss
    else:
        module, components = build(name)
        loss = lambda module: (components(module) * torch.randn_like(components(module))).sum()  # noqa: E731
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        value = loss(module)
        value.backward()
        optimizer.step()
        return value

    earlier = step()  # a caller may well keep it, and its graph, while the next one is computed
    grow([module], 1, optimizer)
    before = {label: parameter.detach().clone() for label, parameter in module.named_parameters()}
    assert step().isfinite()
    assert earlier.isfinite()
    for label, parameter in module.named_parameters():
        assert parameter.grad.shape == parameter.shape
        assert parameter.grad.isfinite().all(), label
        assert not torch.equal(parameter, before[label]), label
    for layer in growables([module]):
        for parameter, axis in layer.component_axes.items():
            gradient = getattr(layer, parameter).grad.movedim(axis, 0)
            assert gradient[-1].abs().sum() > 0, parameter


class Mixture(PyroModule):
    """A nonparametric mixture of linear regressions."""

    def __init__(self):
        super().__init__()
        self.heads = GrowableHeads(D, K, 1)

    def forward(self, x, y):
        heads = self.heads
        sticks = pyro.sample("sticks", gem_sticks(torch.tensor(1.0), heads.num_components))
        components = Normal(heads(x).squeeze(-1), 1.0).log_prob(y.unsqueeze(-1))
        pyro.factor("y", torch.logsumexp(log_stick_breaking(sticks) + components, -1).sum())


PYRO_OPTIMIZERS = {
    "adam": lambda: pyro.optim.Adam({"lr": 0.01}),
    "clipped": lambda: pyro.optim.ClippedAdam({"lr": 0.01, "clip_norm": 1.0}),
    "scheduled": lambda: pyro.optim.ExponentialLR(
        {"optimizer": torch.optim.Adam, "optim_args": {"lr": 0.01}, "gamma": 0.99}
    ),
}


@every_move
@pytest.mark.parametrize("name", PYRO_OPTIMIZERS)
def test_moves_update_pyros_optimizers_and_param_store(move, name):
    model, guide, optimizer = Mixture(), GrowableGEM(K), PYRO_OPTIMIZERS[name]()
    svi = SVI(model, lambda x, y: guide(), optimizer, Trace_ELBO())
    data = STATES.flatten(0, 1), STATES.sum(-1).flatten()
    for _ in range(2):
        svi.step(*data)

    def state(parameter):
        holder = optimizer.optim_objs[parameter]
        return moments(getattr(holder, "optimizer", holder), parameter)

    apply, keep, num_new = MOVES[move]
    parameters = {**dict(model.named_parameters()), **dict(guide.named_parameters())}
    before = {label: state(parameter) for label, parameter in parameters.items()}
    apply([model, guide], optimizer)
    values = {label: parameter.detach().clone() for label, parameter in parameters.items()}
    for label, parameter in parameters.items():
        assert_moments_moved(before[label], state(parameter), 0, keep, num_new)
    svi.step(*data)
    assert set(pyro.get_param_store().values()) == set(optimizer.optim_objs) == set(parameters.values())
    for label, parameter in parameters.items():
        moved = parameter != values[label]
        assert moved.reshape(len(moved), -1).any(-1).all(), label


@every_move
@pytest.mark.parametrize("posterior", [GrowableGEM, PointGEM])
def test_a_truncated_posterior_refuses_to_resize_and_nothing_changes(posterior, move):
    policy, gem = CategoricalPolicy(D, K, A), posterior(K, remainder=True)
    before = [parameter.detach().clone() for module in (policy, gem) for parameter in module.parameters()]
    with pytest.raises(ValueError, match="Expected a nonparametric prior"):
        MOVES[move][0]([policy, gem])
    for parameter, value in zip([*policy.parameters(), *gem.parameters()], before):
        assert torch.equal(parameter, value)


@pytest.mark.parametrize("posterior", [GrowableGEM, PointGEM])
def test_weights_of_a_truncated_posterior_sum_to_one(posterior):
    gem = randomized(posterior(K, remainder=True))
    assert gem.num_components == K
    assert_close(gem().exp().sum(), torch.tensor(1.0))
    assert_close(gem.mean_log_weights().exp().sum(), torch.tensor(1.0))
    assert_close(posterior(1, remainder=True)().exp(), torch.ones(1))


def test_a_snapshot_can_be_restored_again_after_changes_in_place():
    layer = GrowableHeads(2, 3, 1)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    before, snapshot = copied_tensors(layer, optimizer=optimizer), Snapshot([layer], optimizer)
    for _ in range(2):
        optimizer.step()
        with torch.no_grad():
            layer.weight.mul_(2)
            layer.weight.grad.zero_()
        snapshot.restore()
        assert_identical(before, copied_tensors(layer, optimizer=optimizer))
        assert (layer.weight.grad != 0).any()
