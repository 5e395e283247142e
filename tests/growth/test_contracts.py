"""The protocols of growth: a model, guide, likelihood and layers that share no class with the library can grow."""

import math

import pyro
import pytest
import torch
from pyro import distributions as dist
from pyro import poutine
from pyro.infer import SVI, TraceGraph_ELBO
from pyro.optim import Adam
from torch import nn

from pyro_options.errors import InputError
from pyro_options.growth import (
    CollapsibleModel,
    ComponentLikelihood,
    DataBirth,
    EvidenceRule,
    GrowableGuide,
    GrowableLayer,
    Marginalizable,
    Prune,
    Weighable,
    WeightsPosterior,
    fulfills,
    num_components,
)
from pyro_options.handlers import GrowthMessenger, ObserveMessenger, collapse


class Heights(dist.TorchDistribution):
    """Numbers from a mixture of unit Gaussians: written for a project that knows nothing of this one."""

    arg_constraints = {}
    support = dist.constraints.real

    def __init__(self, log_weights, centers, batch_shape=torch.Size()):
        self.log_weights, self.centers = log_weights, centers
        super().__init__(torch.Size(batch_shape), validate_args=False)

    def expand(self, batch_shape, _instance=None):
        return Heights(self.log_weights, self.centers, batch_shape)

    def component_log_prob(self, value):
        return -0.5 * (value.unsqueeze(-1) - self.centers) ** 2 - 0.5 * math.log(2 * math.pi)

    def responsibilities(self, value):
        return torch.softmax(self.log_weights + self.component_log_prob(value), -1)

    def log_prob(self, value):
        return torch.logsumexp(self.log_weights + self.component_log_prob(value), -1)


class OwnLayer(nn.Module):
    """A vector with an entry per component, and the whole of what a growable layer is asked for."""

    component_axes = {"value": 0}
    shared = ()

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(value)

    @property
    def num_components(self):
        return len(self.value)

    def fresh(self, name, count):
        return 0.1 * torch.randn(count)

    def rearranged(self, keep):
        return {"value": self.value[keep]}

    def inherit(self, child, parent, noise):
        self.value.data[child] = self.value.data[parent] + noise * self.value.data[child]

    def blend(self, heir, other, share):
        self.value.data[heir] = share * self.value.data[heir] + (1 - share) * self.value.data[other]

    def reweight(self, log_weights):
        """No weights here."""


class OwnWeights(OwnLayer):
    """A point estimate of the weights, which leaves a hundredth to components not yet born."""

    def mean_log_weights(self):
        return torch.log_softmax(self.value, -1) + math.log(0.99)

    def forward(self):
        return pyro.deterministic("log_weights", self.mean_log_weights())

    def reweight(self, log_weights):
        self.value.data.copy_(log_weights)


class OwnGuide(nn.Module):
    collapses = {}

    def __init__(self):
        super().__init__()
        self.weights = OwnWeights(torch.zeros(1))

    def forward(self, rows, log_weights=None):
        pyro.module("guide", self)


class OwnModel(nn.Module):
    def __init__(self, guide):
        super().__init__()
        self.centers, self.guide = OwnLayer(torch.zeros(1)), [guide]  # a list hides the guide's parameters

    def forward(self, rows, log_weights=None):
        pyro.module("model", self)
        weights = self.guide[0].weights.mean_log_weights() if log_weights is None else log_weights
        with pyro.plate("rows", len(rows)):
            return pyro.sample("x", Heights(weights, self.centers.value), obs=rows)


def heights():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(600, generator=generator) + torch.tensor([-4.0, 4.0]).repeat(300)


def test_classes_from_outside_the_library_satisfy_the_protocols():
    guide = OwnGuide()
    assert isinstance(Heights(torch.zeros(1), torch.ones(1)), ComponentLikelihood)
    assert not isinstance(Heights(torch.zeros(1), torch.ones(1)), Weighable)
    assert isinstance(guide, GrowableGuide)
    assert isinstance(guide.weights, GrowableLayer) and isinstance(guide.weights, WeightsPosterior)


def test_a_model_from_outside_the_library_grows_under_pyros_svi():
    pyro.clear_param_store()
    rows, guide = heights(), OwnGuide()
    model = OwnModel(guide)
    optimizer = Adam({"lr": 0.05})
    svi = SVI(model, guide, optimizer, TraceGraph_ELBO())
    growth = GrowthMessenger([model, guide], EvidenceRule(), DataBirth(), [Prune()], site="x")
    sizes = []
    for round_ in range(4):
        for _ in range(60):
            svi.step(rows)
        with torch.no_grad(), growth:
            model(rows)
        growth.step(optimizer, round_, model, rows, guide.weights.mean_log_weights().detach())
        sizes.append(num_components([model, guide]))
    assert sizes[-1] == 2
    assert model.centers.value.sort().values.tolist() == pytest.approx([-4.0, 4.0], abs=0.3)


def without(name):
    """A likelihood that lacks one method."""
    kept = {key: value for key, value in vars(Heights).items() if key != name and not key.startswith("__")}
    return type("Partial", (dist.TorchDistribution,), kept)


@pytest.mark.parametrize("name", ["component_log_prob", "responsibilities"])
def test_a_likelihood_that_lacks_a_method_is_refused_by_name(name):
    partial = without(name)(torch.zeros(1), torch.zeros(1))

    def model():
        pyro.sample("x", partial, obs=torch.ones(()))

    missing = rf"site 'x' to be a ComponentLikelihood but got Partial without {name}\."
    with pytest.raises(InputError, match=missing), ObserveMessenger("x"):
        model()


def test_a_layer_that_lacks_methods_is_refused_by_name():
    class Partial(nn.Module):
        component_axes = {"value": 0}
        shared = ()
        num_components = 1

        def fresh(self, name, count):
            return torch.zeros(count)

    with pytest.raises(InputError, match="GrowableLayer but got Partial without rearranged, inherit, blend, reweight"):
        num_components([Partial()])


def test_a_latent_that_cannot_be_summed_out_is_refused():
    def model():
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        return pyro.sample("x", dist.Normal(z, 1.0), obs=torch.zeros(()))

    with pytest.raises(InputError, match=r"site 'z' to be a Marginalizable but got Normal without marginalize\."):
        poutine.trace(collapse(model, {"z": "x"})).get_trace()
    with pytest.raises(InputError, match="CollapsibleModel but got function without latents"):
        collapse(model)
    assert not isinstance(dist.Normal(0.0, 1.0), Marginalizable) and not isinstance(model, CollapsibleModel)


def test_a_guide_without_weights_is_refused():
    with pytest.raises(InputError, match="the guide to be a GrowableGuide but got Linear without weights, collapses"):
        fulfills(nn.Linear(1, 1), GrowableGuide, "the guide")
