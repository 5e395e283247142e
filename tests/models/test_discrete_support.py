"""Continuous inference on a model with a discrete latent is refused, with the fix; on a collapsed model it works."""

import pyro
import pytest
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide
from support.episodes import make_episodes
from support.option_models import make_model

from pyro_options.handlers import collapse
from pyro_options.models import CompILE
from pyro_options.options import CategoricalPolicy

AUTOGUIDES = [
    autoguide.AutoDelta,
    autoguide.AutoNormal,
    autoguide.AutoDiagonalNormal,
    autoguide.AutoMultivariateNormal,
    autoguide.AutoLowRankMultivariateNormal,
    autoguide.AutoLaplaceApproximation,
    autoguide.AutoIAFNormal,
    autoguide.AutoStructured,
]
MODELS = {"path": make_model, "boundaries": lambda: CompILE(CategoricalPolicy(3, 3, 4), 3, 2.0, "gem")}


@pytest.mark.parametrize("guide", AUTOGUIDES)
@pytest.mark.parametrize("latent", MODELS)
def test_autoguides_refuse_discrete_latents(latent, guide):
    pyro.clear_param_store()
    with pytest.raises(ValueError, match=r"(path|boundaries).* discrete.*collapse\(model\).*pyro_options.guides"):
        guide(MODELS[latent]())(make_episodes())


@pytest.mark.parametrize("latent", MODELS)
def test_nuts_refuses_discrete_latents(latent):
    with pytest.raises(ValueError, match=r"discrete.*collapse\(model\)"):
        MCMC(NUTS(MODELS[latent]()), num_samples=2, warmup_steps=1, disable_progbar=True).run(make_episodes())


@pytest.mark.parametrize("guide", AUTOGUIDES[:3])
@pytest.mark.parametrize("latent", MODELS)
def test_autoguides_train_on_collapsed_models(latent, guide):
    pyro.clear_param_store()
    model = collapse(MODELS[latent]())
    svi = SVI(
        model, guide(model), pyro.optim.Adam({"lr": 0.05}), Trace_ELBO(num_particles=20, vectorize_particles=True)
    )
    losses = torch.tensor([svi.step(make_episodes()) for _ in range(60)])
    assert losses.isfinite().all() and losses[-10:].mean() < losses[:10].mean()
    pyro.clear_param_store()


def test_relaxed_values_are_outside_of_the_support():
    path = make_model().path(torch.full((3,), -2.0), make_episodes())
    value = path.sample()
    assert path.support.check(value).all()
    assert not path.support.check(0.9 * value).any()
    value[0, 0, 1:] = 1
    assert path.support.check(value).tolist() == [False] + [True] * 5
