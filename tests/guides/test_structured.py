"""Structured guides: trained by plain SVI, growing, judged by the exact likelihood."""

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceGraph_ELBO
from support.episodes import make_episodes
from support.option_models import make_model, structured_guide
from torch.testing import assert_close

from pyro_options.envs import final_action_probabilities, message_demonstrations, message_success
from pyro_options.errors import InputError
from pyro_options.growth import grow, merge, permute, prune
from pyro_options.guides import Structured, StructuredMarginal, UniformWeights
from pyro_options.handlers import adapt, average_steps, collapse, temper
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.models import StateOptionHMM
from pyro_options.options import CategoricalPolicy, EvidenceModel, MessageEncoder, Termination

kinds = pytest.mark.parametrize("kind", [Structured, StructuredMarginal])
elbos = pytest.mark.parametrize("elbo", [Trace_ELBO, TraceGraph_ELBO])
DATA = make_episodes(12)


def gradients(model, guide, data=DATA, elbo=TraceGraph_ELBO):
    """The objective and the gradient of every parameter, by name."""
    for module in (model, guide):
        module.zero_grad(set_to_none=True)
    with pyro.get_param_store().scope():
        loss = elbo().loss_and_grads(adapt(model, guide), guide, data)
    named = [*model.named_parameters(), *guide.named_parameters()]
    return -loss, {name: parameter.grad for name, parameter in named}


def exact(model, guide, data=DATA):
    """log p(actions) at the weights of a guide without sticks."""
    weights = guide.weights.mean_log_weights()
    return float(poutine.trace(collapse(model)).get_trace(data, weights).log_prob_sum().detach())


def certain(kind, lookahead):
    """A model with uniform weights, so that the path alone is uncertain, and its guide."""
    torch.manual_seed(0)
    model = make_model("uniform")
    guide = structured_guide(model, kind, lookahead)
    guide.weights = UniformWeights(3)
    return model.double(), guide.double()


@elbos
@kinds
def test_plain_svi_trains_it(kind, elbo):
    torch.manual_seed(0)
    model = make_model()
    guide = structured_guide(model, kind)
    with pyro.get_param_store().scope():
        svi = SVI(adapt(model, guide), guide, pyro.optim.Adam({"lr": 0.02}), elbo())
        losses = [svi.step(DATA) for _ in range(60)]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def test_the_objective_of_marginals_is_a_bound_that_lookahead_closes():
    data = DATA.to(dtype=torch.float64)
    gaps = []
    for lookahead in (0, 1, 3, data.states.shape[1]):
        model, guide = certain(StructuredMarginal, lookahead)
        gaps.append(exact(model, guide, data) - gradients(model, guide, data, Trace_ELBO)[0])
    assert gaps[0] > gaps[1] > gaps[2] > gaps[3] - 1e-9
    assert gaps[3] == pytest.approx(0, abs=1e-9)


def test_the_average_over_draws_is_below_the_log_marginal():
    data = DATA.to(dtype=torch.float64)
    model, guide = certain(Structured, 1)
    guide.temperature = 0.02
    draws = torch.tensor([gradients(model, guide, data)[0] for _ in range(200)])
    error = float(draws.std() / len(draws) ** 0.5)
    assert float(draws.mean()) < exact(model, guide, data) + 3 * error
    assert error > 0


def test_with_the_exact_message_gradients_of_the_model_are_those_of_the_log_marginal():
    data = DATA.to(dtype=torch.float64)
    model, guide = certain(StructuredMarginal, data.states.shape[1])
    _, ours = gradients(model, guide, data)
    model.zero_grad(set_to_none=True)
    poutine.trace(collapse(model)).get_trace(data, guide.weights.mean_log_weights()).log_prob_sum().backward()
    for name, parameter in model.named_parameters():
        assert_close(-ours[name], parameter.grad, msg=name)


@kinds
@pytest.mark.parametrize(
    "move",
    [
        lambda modules, optimizer: grow(modules, 2, optimizer),
        lambda modules, optimizer: prune(modules, [0], optimizer),
        lambda modules, optimizer: merge(modules, 0, 2, optimizer=optimizer),
        lambda modules, optimizer: permute(modules, [2, 0, 1], optimizer),
    ],
    ids=["grow", "prune", "merge", "permute"],
)
def test_gradients_are_finite_before_and_after_a_move(kind, move):
    model = make_model()
    guide = structured_guide(model, kind)
    optimizer = torch.optim.Adam([*model.parameters(), *guide.parameters()])
    for step in range(2):
        value, found = gradients(model, guide)
        assert torch.isfinite(torch.tensor(value))
        assert all(grad is not None and grad.isfinite().all() for grad in found.values()), found
        optimizer.step()
        if step == 0:
            move([model, guide], optimizer)
            assert guide.encoder.num_options == model.num_options == guide.weights.num_components


def test_new_options_have_no_message_and_change_no_other():
    torch.manual_seed(0)
    model = make_model()
    guide = structured_guide(model)
    weights = guide.weights.mean_log_weights().detach()

    def message():
        log_weights = guide.weights.mean_log_weights().detach()
        with torch.no_grad():
            found = model.evidence(DATA, log_weights)
            return guide.encoder(DATA.states, DATA.encoded_actions(), DATA.mask, found)

    before = message()
    grow([model, guide], 1)
    after = message()
    assert_close(guide.weights.mean_log_weights()[:3].detach(), weights)
    assert (after[..., 3] == 0).all() and after[..., :3].abs().max() > 0
    order = [1, 3, 0, 2]
    permute([model, guide], order)
    assert_close(message(), after[..., order], rtol=1e-3, atol=1e-4)
    assert (before * ~torch.nn.functional.pad(DATA.mask[:, 1:], (0, 1)).unsqueeze(-1) == 0).all()


@kinds
def test_it_works_with_state_dependent_weights(kind):
    model = StateOptionHMM(CategoricalPolicy(3, 3, 4), Termination(3, 3), 3)
    guide = structured_guide(model, kind)
    _, found = gradients(model, guide)
    assert all(grad.isfinite().all() for grad in found.values()) and isinstance(model, EvidenceModel)
    assert found["tilt.weight"].abs().max() > 0


def test_without_a_stepwise_guide_the_handler_says_so():
    model = make_model()
    with pytest.raises(InputError, match="the steps of site 'path' from the guide but got None"):
        average_steps(model, {"path": "actions"})(DATA)
    with pytest.raises(InputError, match=r"evidence as a method of the model .*Pass model\.evidence"):
        Structured(UniformWeights(2), MessageEncoder(7, 2), None)


def test_temper_sets_its_temperature():
    model = make_model()
    guide = structured_guide(model)
    trace = poutine.trace(temper(guide, 0.25)).get_trace(DATA)
    assert trace.nodes["path"]["fn"].temperature == 0.25


@pytest.mark.slow
@kinds
def test_it_solves_the_message_task(kind):
    torch.manual_seed(0)
    data = message_demonstrations(3, 300, 0)
    model = make_model(num_options=3, state_dim=2, num_actions=3)
    guide = kind(structured_guide(model).weights, MessageEncoder(2 + 3, 3), model.evidence)
    Trainer(model, guide, data, TrainConfig(epochs=60, batch_size=32, learning_rate=0.02, progress=False)).run()
    assert message_success(final_action_probabilities(model.policy))[0]
