"""Options chosen by the state: the path distribution against enumeration, and the model that grows."""

import pyro
import pytest
import torch
from pyro.infer import TraceGraph_ELBO
from support.episodes import make_episodes
from support.growth_checks import AlwaysPropose
from support.paths import P_VALUE, enumerate_paths, mask_of, path_goodness_of_fit
from torch.testing import assert_close

from pyro_options.data import Trajectories
from pyro_options.growth import DataBirth, grow
from pyro_options.guides import Exact, GrowableGEM
from pyro_options.handlers import GrowthMessenger, collapse
from pyro_options.infer import TrainConfig, Trainer, component_counts
from pyro_options.models import StateOptionHMM
from pyro_options.options import CategoricalPolicy, OptionPath, StatePath, Termination
from pyro_options.skills import Skills, to_skills

T, K = 4, 3


def pieces(batch=(), T=T, K=K, dtype=torch.float64):
    """Log weights, termination logits and emission, each ``(*batch, T, K)``."""
    shape = (*batch, T, K)
    log_weights = torch.log_softmax(torch.randn(shape, dtype=dtype), -1) - 0.1
    return log_weights, torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)


def possible_paths(log_weights, logits, emission):
    """Every path ``(P, T, K + 1)`` that is possible, its probability, and that times the likelihood of the actions."""
    every = enumerate_paths(log_weights, logits, emission)
    possible = every.prior > 0
    return every.values(emission.shape[-1])[possible], every.prior[possible], every.joint[possible]


def test_everything_equals_enumeration():
    log_weights, logits, emission = pieces()
    path = StatePath(log_weights, logits)
    values, prior, joint = possible_paths(log_weights, logits, emission)
    assert_close(path.log_prob(values), prior.log())
    assert_close(path.log_marginal(emission), joint.sum().log())
    posterior, weights = path.posterior(emission), joint / joint.sum()
    assert_close(posterior.options, (weights[:, None, None] * values[..., 1:]).sum(0))
    starts = values[..., :1] * values[..., 1:]
    assert_close(posterior.starts, (weights[:, None, None] * starts).sum(0))
    assert_close(posterior.switches[0], torch.ones(()).double())


def test_viterbi_is_the_best_option_sequence():
    log_weights, logits, emission = pieces()
    values, _, joint = possible_paths(log_weights, logits, emission)
    totals: dict = {}
    for options, probability in zip(values[..., 1:].argmax(-1).tolist(), joint):
        totals[tuple(options)] = totals.get(tuple(options), 0) + probability
    best = max(totals, key=totals.get)
    options, log_prob = StatePath(log_weights, logits).viterbi(emission)
    assert tuple(options.tolist()) == best
    assert_close(log_prob, totals[best].log())


def test_samples_of_prior_and_posterior_follow_enumeration():
    log_weights, logits, emission = pieces(T=3, K=2)
    log_weights = torch.log_softmax(log_weights, -1)
    path = StatePath(log_weights, logits)
    values, prior, joint = possible_paths(log_weights, logits, emission)
    assert path_goodness_of_fit(path.sample((4000,)), values, prior) > P_VALUE
    drawn = path.expand([4000]).sample_posterior(emission.expand(4000, 3, 2))
    assert path_goodness_of_fit(drawn, values, joint / joint.sum()) > P_VALUE


def test_weights_that_do_not_change_are_an_option_path():
    log_weights, logits, emission = pieces((2,))
    log_weights = log_weights[:, :1]
    mask = mask_of([4, 2], T)
    plain = OptionPath(log_weights.squeeze(1), logits, mask)
    path = StatePath(log_weights.expand(2, T, K), logits, mask)
    assert_close(path.log_marginal(emission), plain.log_marginal(emission))
    assert_close(path.posterior(emission).options, plain.posterior(emission).options)
    assert_close(path.posterior(emission).starts, plain.posterior(emission).starts)
    assert torch.equal(path.viterbi(emission)[0], plain.viterbi(emission)[0])
    drawn = plain.sample()
    assert_close(path.log_prob(drawn), plain.log_prob(drawn))


def test_log_marginal_has_the_right_gradient():
    tensors = [x.requires_grad_() for x in pieces((2,))]
    mask = mask_of([4, 3], T)
    assert torch.autograd.gradcheck(lambda w, logits, e: StatePath(w, logits, mask).log_marginal(e), tensors)


def make(num_options=2):
    policy, termination = CategoricalPolicy(3, num_options, 4, hidden=(8,)), Termination(3, num_options)
    return StateOptionHMM(policy, termination, 3), Exact(GrowableGEM(num_options))


def test_growing_changes_no_weight_in_any_state():
    model, guide = make()
    torch.nn.init.normal_(model.tilt.weight)
    states = torch.randn(5, 4, 3)
    before = model.state_log_weights(guide.weights.mean_log_weights(), states)
    assert (before.exp().sum(-1) < 1).all() and before.std(0).max() > 0.1
    grow([model, guide])
    after = model.state_log_weights(guide.weights.mean_log_weights(), states)
    assert_close(after[..., :2], before)


def test_model_trains_grows_and_explains():
    model, guide = make(1)
    data = make_episodes(20)
    growth = GrowthMessenger([model, guide], AlwaysPropose(), DataBirth(steps=2), every=1, site="actions")
    Trainer(model, guide, data, TrainConfig(progress=False), growth).run(2)
    assert model.num_options == guide.weights.num_components == model.tilt.num_components == 3
    with pyro.get_param_store().scope():
        TraceGraph_ELBO().loss_and_grads(collapse(model), guide, data)
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all() and (parameter.grad != 0).any(), name
    found = to_skills(model, guide).segment(data)
    assert found.usage().sum() == pytest.approx(1)
    assert 1 <= component_counts(model, guide, data, num_draws=5).mode <= 3


def test_the_state_tells_which_option_starts():
    """Two cues, each followed by its own action: with η(s) the first action of an episode is no surprise."""
    cue = torch.randint(2, (60,))
    states = torch.zeros(60, 4, 3)
    states[torch.arange(60), 0, cue] = 1.0
    data = Trajectories(states, cue[:, None].expand(60, 4).contiguous(), torch.full((60,), 4), 2)
    policy, termination = CategoricalPolicy(3, 2, 2), Termination(3, 2, initial_logit=-3.0)
    model, guide = StateOptionHMM(policy, termination, 3), Exact(GrowableGEM(2))
    Trainer(model, guide, data, TrainConfig(epochs=150, learning_rate=0.05, progress=False)).run()
    assert to_skills(model, guide).log_likelihood(data) * 4 > -0.5 * torch.log(torch.tensor(2.0))


def test_bad_input():
    with pytest.raises(ValueError, match="same shape"):
        StatePath(torch.zeros(3), torch.zeros(4, 3))
    with pytest.raises(ValueError, match="tilt_scale"):
        StateOptionHMM(CategoricalPolicy(3, 1, 4), Termination(3, 1), 3, tilt_scale=0.0)


def trained_pieces():
    """A model whose weights depend on the state, its guide, and episodes."""
    data = make_episodes(12, num_actions=3)
    D = data.state_dim
    model = StateOptionHMM(CategoricalPolicy(D, K, 3), Termination(D, K), D)
    with torch.no_grad():
        model.tilt.weight.normal_()
        model.tilt.bias.normal_()
    return model, Exact(GrowableGEM(K)), data


def test_skills_keep_the_high_level_policy(tmp_path):
    """The likelihood of the skills is that of the model, on disk too, and not that of constant weights."""
    model, guide, data = trained_pieces()
    log_weights = guide.weights.mean_log_weights().detach()
    with torch.no_grad():
        emission = model.policy(data.states, mask=data.mask).component_log_prob(data.actions)
        expected = float(model.path(log_weights, data).log_marginal(emission).sum()) / data.num_steps
    skills = to_skills(model, guide)
    assert skills.log_likelihood(data) == pytest.approx(expected, abs=1e-6)
    assert skills.segment(data).log_likelihood_per_step == pytest.approx(expected, abs=1e-6)
    constant = Skills(model.policy, model.termination, log_weights)
    assert abs(constant.log_likelihood(data) - expected) > 1e-3
    skills.save(tmp_path / "skills.safetensors")
    assert Skills.load(tmp_path / "skills.safetensors").log_likelihood(data) == pytest.approx(expected, abs=1e-6)
    order = [2, 0, 1]
    assert skills.only(order).log_likelihood(data) == pytest.approx(expected, abs=1e-6)


def test_imitation_chooses_by_the_state():
    """One action at a time, the predictive probabilities multiply to the likelihood under normalized weights."""
    model, guide, data = trained_pieces()
    skills = to_skills(model, guide)
    skills.log_weights -= torch.logsumexp(skills.log_weights, 0)  # no mass for options not yet born
    imitation, total = skills.imitation(), 0.0
    for i in range(len(data)):
        belief = None
        for t in range(int(data.lengths[i])):
            state, action = data.states[i, t].numpy(), int(data.actions[i, t])
            total += float(torch.tensor(imitation.action_probabilities(state, belief)[action]).log())
            belief = imitation.update(state, action, belief)
    assert total / data.num_steps == pytest.approx(skills.log_likelihood(data), abs=1e-5)
