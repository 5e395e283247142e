"""Births, prunes, merges and permutations in any order keep every invariant."""

import random

import pyro
import pytest
import torch
from pyro.infer import TraceGraph_ELBO
from support.episodes import make_episodes
from support.option_models import make_guide, make_model
from torch.testing import assert_close

from pyro_options.growth import Snapshot, grow, merge, num_components, permute, prune
from pyro_options.handlers import collapse


def random_move(rng, modules, optimizer, weights):
    """Makes one move; returns the mean weights that it must leave behind, ``None`` where a fresh one stands."""
    K = num_components(modules)
    kind = rng.choice(["grow", "permute"] + ["prune", "merge"] * (2 if K > 1 else 0) + ["undone"])
    if kind == "grow" and K < 12:
        count = rng.choice([1, 1, 3])
        grow(modules, count, optimizer)
        return weights + [None] * count
    if kind == "prune":
        gone = set(rng.sample(range(K), rng.randint(1, K - 1)))
        prune(modules, gone, optimizer)
        return [w for k, w in enumerate(weights) if k not in gone]
    if kind == "merge":
        heir, gone = rng.sample(range(K), 2)
        merge(modules, heir, gone, rng.random(), optimizer)
        joined = weights[:heir] + [weights[heir] + weights[gone]] + weights[heir + 1 :]
        return joined[:gone] + joined[gone + 1 :]
    if kind == "permute":
        order = rng.sample(range(K), K)
        permute(modules, order, optimizer)
        return [weights[k] for k in order]
    undo = Snapshot(modules, optimizer)
    grow(modules, 2, optimizer)
    prune(modules, [0], optimizer)
    undo.restore()
    return weights


@pytest.mark.parametrize(
    ("name", "point", "num_moves"),
    [
        ("exact", False, 100),
        ("paper", False, 100),
        ("exact", True, 100),
        pytest.param("exact", False, 1000, marks=pytest.mark.slow),
    ],
)
def test_random_moves_keep_every_invariant(name, point, num_moves):
    torch.manual_seed(0)
    rng = random.Random(0)
    episodes, model = make_episodes(4), make_model(num_options=2)
    guide = make_guide(name, point=point)
    modules = [model, guide]
    parameters = [*model.parameters(), *guide.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    for i in range(num_moves):
        before = guide.weights.mean_log_weights().exp().tolist()
        expected = random_move(rng, modules, optimizer, before)
        after = guide.weights.mean_log_weights().exp().detach()
        assert model.num_options == guide.weights.num_components == len(after) == len(expected)
        assert float(after.sum()) < 1 + 1e-5 and after.isfinite().all()
        kept = [k for k, weight in enumerate(expected) if weight is not None]
        assert_close(after[kept], torch.tensor([w for w in expected if w is not None]), atol=1e-4, rtol=0)
        now = [*model.parameters(), *guide.parameters()]
        assert all(a is b for a, b in zip(now, parameters)) and len(now) == len(parameters)
        for parameter, state in optimizer.state.items():
            assert state["exp_avg"].shape == state["exp_avg_sq"].shape == parameter.shape
        if i % 10 == 0:
            optimizer.zero_grad()
            with pyro.get_param_store().scope():
                loss = TraceGraph_ELBO().loss_and_grads(collapse(model, guide.collapses), guide, episodes)
            assert torch.tensor(loss).isfinite()
            assert all(p.grad is not None and p.grad.shape == p.shape and p.grad.isfinite().all() for p in now)
            optimizer.step()
