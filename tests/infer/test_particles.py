"""Vectorized particles, importance sampling and Predictive, for every guide: the same as one particle at a time."""

import math

import pytest
import torch
from pyro import distributions as dist
from pyro import poutine
from pyro.infer import Importance, Predictive, Trace_ELBO, TraceGraph_ELBO, WeighedPredictive
from pyro.infer.importance import vectorized_importance_weights
from pyro.nn import PyroModule
from support.episodes import make_episodes
from torch import nn
from torch.testing import assert_close

from pyro_options.growth import Growable
from pyro_options.guides import (
    Exact,
    GammaConcentration,
    GrowableGEM,
    GrowableHDP,
    GumbelRao,
    ImportanceWeighted,
    LeaveOneOut,
    MixtureWeights,
    Relaxed,
    RelaxedSegments,
    ScoreFunction,
    StickTheLanding,
    StraightThrough,
    Structured,
    StructuredMarginal,
    WakeSleep,
    weights_guide,
)
from pyro_options.handlers import adapt, collapse, entropy_bonus
from pyro_options.kernels.registry import KERNELS
from pyro_options.mixtures import CountComponents, GaussianComponents
from pyro_options.models import (
    GEM,
    HDP,
    CompILE,
    DPMixture,
    DPRegressions,
    HDPTopics,
    InfiniteHMM,
    LinearExperts,
    OptionHMM,
    StateOptionHMM,
    StickyOptionHMM,
)
from pyro_options.options import CategoricalPolicy, MessageEncoder, PathEncoder, Termination
from pyro_options.segments import SegmentEncoder

D, K, A = 3, 2, 4


def options(prior="gem", kind=OptionHMM, **settings):
    extra = (D,) if kind is StateOptionHMM else ()
    return kind(CategoricalPolicy(D, K, A), Termination(D, K), *extra, prior=prior, **settings)


def segments(prior="gem"):
    return CompILE(CategoricalPolicy(D, K, A), 3, 2.0, prior)


def amortized(kind, weights=None):
    return kind(weights or weights_guide("gem", K), PathEncoder(D + A, K, lstm_size=4, hidden=(5,)))


def structured(kind, weights=None, model=None):
    """A model and a guide on its evidence, whose message is not zero."""
    model = options() if model is None else model
    guide = kind(weights or weights_guide("gem", K), MessageEncoder(D + A, K, 4, 5), model.evidence, lookahead=1)
    torch.nn.init.normal_(guide.encoder.heads.weight)
    return model, guide


def wake_sleep():
    model = options()
    return model, WakeSleep(weights_guide("gem", K), PathEncoder(D + A, K, lstm_size=4, hidden=(5,)), model.evidence)


def relaxed_segments(prior="gem"):
    return RelaxedSegments(weights_guide(prior, K), SegmentEncoder(D + A, K, lstm_size=4, hidden=(5,)), 3)


def exact(prior="gem", point=False):
    return Exact(weights_guide(prior, K, point))


def unsure_of_alpha():
    weights = GrowableGEM(K, concentration=GammaConcentration(2.0, 2.0))
    return options(GEM(alpha_prior=(2.0, 2.0))), Exact(weights)


def sticky():
    return StickyOptionHMM(CategoricalPolicy(3, K, 4), Termination(3, K), HDP(stickiness=1.0))


ROWS = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
SEQUENCES = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
DOCUMENTS = torch.randint(A, (4, 6), generator=torch.Generator().manual_seed(2))


class States(Growable, nn.Module):
    """A Gaussian for each state of a hidden Markov model."""

    component_axes = {"loc": 0}

    def __init__(self):
        super().__init__()
        self.loc = nn.Parameter(torch.randn(K))

    def forward(self):
        return dist.Normal(self.loc, 1.0)


# name -> model and guide; latents that the guide does not sample are summed out
PAIRS = {
    "exact": lambda: (options(), exact()),
    "point": lambda: (options("truncated"), exact("truncated", point=True)),
    "alpha": unsure_of_alpha,
    "entropy": lambda: (options(), exact()),
    "relaxed": lambda: (options(), amortized(Relaxed)),
    "straight-through": lambda: (options(), amortized(StraightThrough)),
    "Gumbel-Rao": lambda: (options(), amortized(GumbelRao)),
    "sticking": lambda: (options(), amortized(StickTheLanding)),
    "estimate, leave one out": lambda: (options(), amortized(LeaveOneOut)),
    "estimate, importance": lambda: (options(), amortized(ImportanceWeighted)),
    "estimate, state": lambda: (options(kind=StateOptionHMM), amortized(ImportanceWeighted)),
    "estimate, wake-sleep": wake_sleep,
    "score": lambda: (options(), amortized(ScoreFunction)),
    "score, no sticks": lambda: (options("uniform"), amortized(ScoreFunction, weights_guide("uniform", K))),
    "state": lambda: (options(kind=StateOptionHMM), exact()),
    "state, relaxed": lambda: (options(kind=StateOptionHMM), amortized(Relaxed)),
    "termination cost": lambda: (options(termination_cost=0.5), amortized(Relaxed)),
    "segments": lambda: (segments(), relaxed_segments()),
    "segments, no sticks": lambda: (segments("uniform"), relaxed_segments("uniform")),
    "segments, exact": lambda: (segments(), exact()),
    "sticky": lambda: (sticky(), Exact(GrowableHDP(K))),
    "structured": lambda: structured(Structured),
    "structured, marginal": lambda: structured(StructuredMarginal),
    "structured, state": lambda: structured(Structured, model=options(kind=StateOptionHMM)),
    "structured, termination cost": lambda: structured(StructuredMarginal, model=options(termination_cost=0.5)),
    "structured, no sticks": lambda: structured(Structured, weights_guide("uniform", K), options("uniform")),
    "mixture": lambda: (DPMixture(GaussianComponents(ROWS, K)), MixtureWeights(GrowableGEM(K))),
    "regressions": lambda: (DPRegressions(LinearExperts(1, K)), MixtureWeights(GrowableGEM(K))),
    "hidden Markov": lambda: (InfiniteHMM(States(), HDP(stickiness=1.0)), MixtureWeights(GrowableHDP(K))),
    "topics": lambda: (HDPTopics(CountComponents(A, K)), MixtureWeights(GrowableGEM(K))),
}
DATA = {"mixture": ROWS, "regressions": ROWS, "hidden Markov": SEQUENCES, "topics": DOCUMENTS}
names = pytest.mark.parametrize("name", PAIRS)
#: those whose density depends on the values of their sites alone, not on further draws
scored = pytest.mark.parametrize("name", [name for name in PAIRS if not name.startswith("estimate")])


def make(name):
    """Model, guide and data, and the parameters, moved so that no gradient vanishes by symmetry."""
    torch.manual_seed(1)
    model, guide = PAIRS[name]()
    parameters = [*model.parameters(), *guide.parameters()]
    with torch.no_grad():
        for parameter in guide.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    fn = collapse(model) if isinstance(guide, Exact) else adapt(model, guide)
    fn = entropy_bonus(fn, 1.0, "actions") if name == "entropy" else fn
    return fn, guide, DATA.get(name, make_episodes(4, num_steps=4)), parameters


def estimates(elbo, model, guide, data, parameters, repeats=20):
    """Losses ``(repeats,)`` and gradients ``(repeats, parameters)``, the sum of each times random signs."""
    generator = torch.Generator().manual_seed(0)
    signs = [torch.randn(p.shape, generator=generator).sign() for p in parameters]
    losses, gradients = [], []
    for _ in range(repeats):
        for parameter in parameters:
            parameter.grad = None
        losses.append(elbo.loss_and_grads(model, guide, data))
        gradients.append(
            [0.0 if p.grad is None else float((sign * p.grad).sum()) for p, sign in zip(parameters, signs)]
        )
    return torch.tensor(losses).double(), torch.tensor(gradients).double()


def z_scores(one, other):
    """The difference of two means in standard errors."""
    error = (one.var(0) / len(one) + other.var(0) / len(other)).sqrt()
    difference = one.mean(0) - other.mean(0)
    return difference.abs() / (error + 1e-5 * one.abs().amax(0) + 1e-6)


@names
@pytest.mark.parametrize("elbo", [pytest.param(Trace_ELBO, marks=pytest.mark.slow), TraceGraph_ELBO])
def test_vectorized_particles_give_the_same_elbo_and_gradients(name, elbo):
    run = make(name)
    one_by_one = estimates(elbo(num_particles=5), *run)
    together = estimates(elbo(num_particles=100, vectorize_particles=True), *run)
    for single, vectorized in zip(one_by_one, together):
        assert z_scores(single, vectorized).max() < 5
    # means of twenty times as many particles
    assert together[0].std() < 0.6 * one_by_one[0].std() + 1e-4


@scored
@pytest.mark.parametrize("road", ["compiled", "torch"])
def test_every_particle_has_the_density_that_it_has_alone(name, road, monkeypatch):
    """To rounding: a particle's values, replayed in a model without a particle dimension."""
    if road == "torch":
        for kernel in KERNELS.values():
            monkeypatch.setitem(kernel.__dict__, "module", None)
    model, guide, data, _ = make(name)
    S = 4  # as many as episodes: particles that were taken for episodes would fit
    with torch.no_grad():
        found, _, trace = vectorized_importance_weights(model, guide, data, num_samples=S, max_plate_nesting=1)
        sites = {name: trace.nodes[name] for name in trace.stochastic_nodes}
        for s in range(S):
            values = {}
            for site, node in sites.items():
                if not poutine.util.site_is_subsample(node):
                    in_plate = len(node["cond_indep_stack"]) > 1
                    values[site] = node["value"][s] if in_plate else node["value"][s].squeeze(0)
            of_guide = poutine.trace(poutine.condition(guide, values)).get_trace(data)
            for site in values:
                of_guide.nodes[site]["is_observed"] = False  # else it could not be replayed
            of_model = poutine.trace(poutine.replay(model, of_guide)).get_trace(data)
            assert_close(found[s], of_model.log_prob_sum() - of_guide.log_prob_sum(), rtol=1e-4, atol=1e-4)


class KnownWeights(PyroModule):
    """Weights without a site, of a sum below one: model and guide have them in common."""

    def __init__(self):
        super().__init__()
        self.register_buffer("log_weights", torch.tensor([0.5, 0.3]).log())

    def forward(self, num_components=K):
        return self.log_weights


# name -> model with everything but the path known
KNOWN = {
    "options": lambda: options(KnownWeights()),
    "state": lambda: options(KnownWeights(), StateOptionHMM),
    "termination cost": lambda: options(KnownWeights(), termination_cost=0.5),
    "segments": lambda: segments(KnownWeights()),
}
PROPOSALS = [(name, None) for name in KNOWN]
PROPOSALS += [(name, guide) for name in KNOWN if name != "segments" for guide in (ScoreFunction, StraightThrough)]


def evidence_and_error(log_weights):
    """The log of the mean importance weight, and its standard error."""
    weights = torch.exp(log_weights - log_weights.max())
    error = weights.std() / weights.mean() / math.sqrt(len(weights))
    return torch.log(weights.mean()) + log_weights.max(), error


@pytest.mark.parametrize("vectorized", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name, guide_class", PROPOSALS)
def test_importance_sampling_agrees_with_the_marginal(name, guide_class, vectorized):
    """With the prior as proposal, and with the guides whose samples are discrete."""
    torch.manual_seed(0)
    model, data = KNOWN[name](), make_episodes(2, num_steps=3)
    if guide_class is None:
        proposal = poutine.block(model, hide_types=["observe"])
    else:
        proposal = amortized(guide_class, KnownWeights())
    with torch.no_grad():
        exact = poutine.trace(collapse(model)).get_trace(data).log_prob_sum()
        if vectorized:
            settings = {"num_samples": 20_000, "max_plate_nesting": 1}
            log_weights, *_ = vectorized_importance_weights(model, proposal, data, **settings)
        else:
            log_weights = torch.stack(Importance(model, proposal, 600).run(data).log_weights)
    found, error = evidence_and_error(log_weights.double())
    assert error < 0.3
    assert abs(found - exact) < 3 * error


def test_importance_sampling_of_sticks_and_paths_agrees_with_sticks_alone():
    """The evidence with η unknown: paths drawn, or summed out."""
    torch.manual_seed(0)
    model, data = options(), make_episodes(2, num_steps=3)
    results = []
    for fn in (model, collapse(model)):
        prior = poutine.block(fn, hide_types=["observe"])
        with torch.no_grad():
            drawn = vectorized_importance_weights(fn, prior, data, num_samples=40_000, max_plate_nesting=1)[0]
        results.append(evidence_and_error(drawn.double()))
    (one, first), (other, second) = results
    assert abs(one - other) < 3 * math.hypot(first, second)


@names
@pytest.mark.parametrize("parallel", [True, False])
def test_predictive_with_a_guide(name, parallel):
    model, guide, data, _ = make(name)
    if name.startswith(("structured", "estimate")):
        torch.manual_seed(1)
        model, guide = PAIRS[name]()  # averages and estimates are for training
    given = data.without_actions() if isinstance(guide, Exact) else data  # an encoder reads the actions
    drawn = Predictive(model, guide=guide, num_samples=4, parallel=parallel)(given)
    sticks = K - (name == "point")
    shapes = {"path": (4, 4, K + 1), "skills": (4, 3, K), "actions": (4, 4), "sticks": (1, sticks)}
    shapes |= {"row_sticks": (1, K, K), "rows": (4, 2), "y": (4,), "sequences": (4, 5), "words": (4, 6)}
    assert {"actions", "rows", "y", "sequences", "words"} & drawn.keys()
    for site in shapes.keys() & drawn.keys():
        assert drawn[site].shape == (4, *shapes[site])


@pytest.mark.parametrize("name", [name for name in PAIRS if not name.startswith(("structured", "estimate"))])
@pytest.mark.parametrize("parallel", [True, False])
def test_weighed_predictive_gives_every_draw_the_density_that_it_has_alone(name, parallel):
    """Also with guides without plates, whose vectors Pyro hands over without the dimension of the model's plate."""
    model, guide, data, _ = make(name)
    with torch.no_grad():
        found = WeighedPredictive(model, guide=guide, num_samples=4, parallel=parallel)(data)
        for s in range(4):
            alone = []
            for fn in (model, guide):
                nodes = poutine.trace(fn).get_trace(data).nodes
                latent = [site for site in nodes if site in found.samples and not nodes[site]["is_observed"]]
                known = {site: found.samples[site][s].reshape(nodes[site]["value"].shape) for site in latent}
                alone.append(poutine.trace(poutine.condition(fn, known)).get_trace(data).log_prob_sum())
            assert_close(found.log_weights[s], alone[0] - alone[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("collapsed", [True, False])
@pytest.mark.parametrize("make_model", [options, segments])
def test_predictive_keeps_particles_apart_from_episodes(make_model, collapsed, parallel):
    """As many particles as episodes; in each, one option takes everything and always takes the same action."""
    model, data = make_model(), make_episodes(4)
    with torch.no_grad():
        model.policy.heads.weight.zero_()
        model.policy.heads.bias.copy_(torch.tensor([[40.0, 0, 0, 0], [0, 40.0, 0, 0]]))
    sticks = torch.tensor([[40.0, 0.0], [-40.0, 40.0], [40.0, 0.0], [-40.0, 40.0]])
    predict = Predictive(collapse(model) if collapsed else model, {"sticks": sticks}, parallel=parallel)
    actions = predict(data.without_actions())["actions"]
    for particle, action in zip(actions, (0, 1, 0, 1)):
        assert (particle[data.mask] == action).all()
