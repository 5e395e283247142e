"""Actions whose dimensions belong to different families: densities, sampling, growth."""

import pytest
import torch
from pyro.distributions.testing.gof import multinomial_goodness_of_fit
from support.paths import P_VALUE, mask_of
from torch.distributions import Categorical, Normal
from torch.testing import assert_close

from pyro_options.growth import resize
from pyro_options.growth.growable import growables
from pyro_options.options import (
    CategoricalFamily,
    CategoricalPolicy,
    GaussianFamily,
    GaussianPolicy,
    MixedPolicy,
    OptionPath,
    Termination,
    encode_path,
)

N, T, K, D = 3, 4, 2, 5
GRIPPER, BOUNDED, SPEEDS = (
    CategoricalFamily((1.0, -1.0)),
    GaussianFamily(-0.5, 0.75),
    CategoricalFamily((0.0, 0.1, 0.3)),
)
FAMILIES = (GRIPPER, GaussianFamily(), SPEEDS, BOUNDED)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def policy(families=FAMILIES, **options):
    made = MixedPolicy(D, K, families, **options).double()
    torch.nn.init.normal_(made.log_scale.value)
    return made


def actions_of(families=FAMILIES, shape=(N, T)):
    """Random actions, some of them at the bounds."""
    columns = []
    for family in families:
        if isinstance(family, CategoricalFamily):
            columns.append(torch.tensor(family.values, dtype=torch.float64)[torch.randint(len(family.values), shape)])
        else:
            column = torch.randn(shape).double()
            columns.append(column if family.low is None else column.clamp(family.low, family.high))
    return torch.stack(columns, -1)


def reference(made, states, actions):
    """The sum over dimensions of the log-probabilities of torch's own distributions, ``(N, T, K)``."""
    outputs, scale = made.outputs(states), made.total_log_scale().exp()
    real, gripper, speeds = outputs.split([2, 2, 3], -1)
    mean = made.center + made.unit * real
    free, bounded = (Normal(mean[..., d], scale[:, d]) for d in range(2))
    a = actions.unsqueeze(-2)  # (N, T, 1, A)
    total = Categorical(logits=gripper).log_prob((a[..., 0] > 0).long())
    total = total + free.log_prob(a[..., 1])
    total = total + Categorical(logits=speeds).log_prob((a[..., 2] > 0).long() + (a[..., 2] > 0.2).long())
    tails = bounded.cdf(torch.tensor(-0.5).double()).log(), (1 - bounded.cdf(torch.tensor(0.75).double())).log()
    inside = torch.where(a[..., 3] <= -0.5, tails[0], bounded.log_prob(a[..., 3]))
    return total + torch.where(a[..., 3] >= 0.75, tails[1], inside)


def test_component_log_prob_equals_torch_distributions():
    states, actions = torch.randn(N, T, D).double(), actions_of()
    made = policy(center=torch.tensor([1.0, 0.2]), unit=torch.tensor([3.0, 0.5]))
    assert (actions[..., 3] == 0.75).any() and (actions[..., 3] == -0.5).any()
    assert_close(made(states).component_log_prob(actions), reference(made, states, actions))


def test_probabilities_sum_to_one_over_the_values():
    families = CategoricalFamily((-1, 1)), CategoricalFamily((0, 2.5, 7))
    made, states = policy(families), torch.randn(1, 1, D).double()
    pairs = torch.cartesian_prod(*(torch.tensor(family.values, dtype=torch.float64) for family in families))
    total = torch.logsumexp(made(states).component_log_prob(pairs.unsqueeze(1)), 0)
    assert_close(total, torch.zeros_like(total))


@pytest.mark.parametrize("num_values", [3, 12])
def test_the_pure_cases_are_the_special_policies(num_values):
    states = torch.randn(N, T, D).double()
    bounds = {"low": torch.tensor([-torch.inf, -0.5]), "high": torch.tensor([torch.inf, 0.75])}
    gaussian, mixed = GaussianPolicy(D, K, 2, **bounds).double(), policy((GaussianFamily(), BOUNDED))
    mixed.load_state_dict(gaussian.state_dict())
    actions = actions_of((GaussianFamily(), BOUNDED))
    assert_close(mixed(states).component_log_prob(actions), gaussian(states).component_log_prob(actions))
    assert mixed.families == gaussian.families
    discrete = CategoricalPolicy(D, K, num_values).double()
    mixed = policy(discrete.families, integers=True)
    mixed.load_state_dict(discrete.state_dict(), strict=False)
    actions = torch.randint(num_values, (N, T))
    found = mixed(states).component_log_prob(actions.unsqueeze(-1))
    assert_close(found, discrete(states).component_log_prob(actions))


def test_gradients_are_right_and_finite_at_bounds_and_far_from_them():
    made, states, actions = policy(), torch.randn(N, T, D).double(), actions_of()
    outputs = made.outputs(states).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: made.distribution(x).component_log_prob(actions), outputs)
    for size in (1e2, 1e4):
        for dtype in (torch.float32, torch.float64):
            far = (size * torch.randn(N, T, K, 7)).to(dtype).requires_grad_()
            found = made.to(dtype).distribution(far).component_log_prob(actions.to(dtype))
            grads = torch.autograd.grad(found.sum(), [far, made.log_scale.value])
            assert found.isfinite().all() and all(grad.isfinite().all() for grad in grads)


def test_unknown_values_have_no_probability_but_padding_does_no_harm():
    made, states, actions = policy(), torch.randn(N, T, D).double(), actions_of()
    mask = mask_of((4, 2, 1), T)
    padded = torch.where(mask.unsqueeze(-1), actions, 0.0)  # 0 is no value of the gripper
    path = OptionPath(torch.tensor([0.5, 0.5]).log().double(), torch.randn(N, T, K).double(), mask)
    found = made(states, mask=mask).component_log_prob(padded)
    assert found.isfinite().all()
    score = path.log_marginal(found)
    score.sum().backward()
    assert all(p.grad.isfinite().all() for p in made.parameters())
    assert_close(score, path.log_marginal(made(states, mask=mask).component_log_prob(actions)))
    actions[0, 1, 0] = 0.5
    found = made(states, mask=mask).component_log_prob(actions)
    assert (found[0, 1] == -torch.inf).all() and found.isfinite().sum() == found.numel() - K


def test_values_are_matched_in_the_type_of_the_parameters():
    """0.1 and 0.3 differ between float32 and float64; both find themselves."""
    made, states = policy(), torch.randn(1, 1, D)
    for dtype in (torch.float32, torch.float64):
        for given in (torch.float32, torch.float64):
            if given is torch.float64 or dtype is torch.float32:
                action = torch.tensor([[[1.0, 0.2, 0.3, 0.0]]], dtype=given)
                assert made.to(dtype)(states.to(dtype)).component_log_prob(action).isfinite().all()


def test_samples_follow_one_option_in_all_dimensions():
    made, states = policy(), torch.randn(1, 1, D).double()
    with torch.no_grad():
        made.heads.weight.zero_()
        made.heads.bias.zero_()
        made.heads.bias[:, 0] = torch.tensor([-50.0, 50.0])  # the first Gaussian tells the option
        made.heads.bias[0, 2:4], made.heads.bias[0, 4:] = torch.tensor([0.0, 2.0]), torch.tensor([0.0, 1.0, -1.0])
    relaxed = torch.tensor([[[1.0, 0.3, 0.7]]]).double()
    drawn = made(states, relaxed).sample((8000,))[:, 0, 0]
    assert drawn.shape == (8000, 4)
    first = drawn[:, 1] < 0
    assert float(first.double().mean()) == pytest.approx(0.3, abs=0.03)
    for d, values, logits in ((0, GRIPPER.values, [0.0, 2.0]), (2, SPEEDS.values, [0.0, 1.0, -1.0])):
        counts = torch.stack([(drawn[first, d] == value).sum() for value in values]).double()
        assert counts.sum() == first.sum()
        assert multinomial_goodness_of_fit(torch.tensor(logits).double().softmax(-1), counts) > P_VALUE
    assert float(drawn[:, 3].min()) == -0.5 and float(drawn[:, 3].max()) == 0.75
    chance = Normal(0.0, made.total_log_scale()[0, 1].exp().item()).cdf(torch.tensor(-0.5))
    assert float((drawn[first, 3] == -0.5).double().mean()) == pytest.approx(float(chance), abs=0.04)


def test_integers_are_sampled_as_integers():
    families = CategoricalFamily((0, 1)), CategoricalFamily((0, 1, 2))
    options = torch.randint(K, (N, T))
    path = encode_path(options, torch.ones_like(options), K).double()
    made = policy(families, integers=True)
    drawn = made(torch.randn(N, T, D).double(), path).sample()
    assert drawn.dtype == torch.int64 and drawn.shape == (N, T, 2) and made.num_actions == (2, 3)
    assert drawn[..., 1].max() == 2
    with pytest.raises(ValueError, match="whole numbers"):
        policy(FAMILIES, integers=True)


def test_options_are_born_pruned_merged_and_reordered():
    made, states, actions = policy(), torch.randn(N, T, D).double(), actions_of()
    before = made(states).component_log_prob(actions)
    resize([made], [1, 0], 2)
    assert made.num_options == 4
    found = made(states).component_log_prob(actions)
    assert_close(found[..., :2], before[..., [1, 0]])
    found.sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().sum() > 0 for p in made.parameters())
    for layer in growables([made]):
        layer.inherit(2, 0, 0.0)
        layer.blend(3, 1, 0.0)
    found = made(states).component_log_prob(actions)
    assert_close(found[..., 2:], found[..., :2])
    resize([made, Termination(D, 4)], [2])
    assert_close(made(states).component_log_prob(actions), before[..., 1:])


def test_expanded_actions_keep_their_log_prob():
    mask, options = mask_of((4, 2, 1), T), torch.randint(K, (N, T))
    path = encode_path(options, torch.ones_like(options), K).double()
    actions, value = policy()(torch.randn(N, T, D).double(), path, mask), actions_of()
    expanded = actions.expand([2, N])
    assert expanded.batch_shape == (2, N) and expanded.event_shape == (T, 4)
    assert_close(expanded.log_prob(value.expand(2, *value.shape)), actions.log_prob(value).expand(2, N))


def test_a_change_of_units_leaves_choices_and_shifts_densities():
    """Bounds, values, centre and unit in other units: nats differ by the log-determinant of the Gaussian dimensions."""
    scale, shift = torch.tensor([3.0, 0.001, 7.0, 50.0]).double(), torch.tensor([1.0, 0.0, -2.0, 9.0]).double()

    def moved(d, value):
        return None if value is None else float(value * scale[d] + shift[d])

    families = tuple(
        CategoricalFamily(tuple(moved(d, value) for value in family.values))
        if isinstance(family, CategoricalFamily)
        else GaussianFamily(moved(d, family.low), moved(d, family.high))
        for d, family in enumerate(FAMILIES)
    )
    states, actions, real = torch.randn(N, T, D).double(), actions_of(), [1, 3]
    actions[..., 3] = 0.3
    ours, theirs = policy(), policy(families, center=shift[real], unit=scale[real])
    weights = {name: value for name, value in ours.state_dict().items() if "log_scale" in name or "heads" in name}
    theirs.load_state_dict(theirs.state_dict() | weights)
    found = theirs(states).component_log_prob(actions * scale + shift)
    assert_close(found, ours(states).component_log_prob(actions) - scale[real].log().sum())


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: GaussianFamily(1.0, 1.0), "low < high"),
        (lambda: CategoricalFamily(()), "finite values"),
        (lambda: CategoricalFamily((float("nan"),)), "finite values"),
        (lambda: MixedPolicy(D, K, ()), "a family for each"),
        (lambda: MixedPolicy(D, K, ("gaussian",)), "a family for each"),
    ],
)
def test_bad_families_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_particles_may_add_dimensions_to_the_path_alone():
    states, actions, mask = torch.randn(N, T, D).double(), actions_of(), mask_of([T, 2, 3], T)
    made = policy()
    options = torch.randint(K, (6, N, T))
    path = encode_path(options, torch.ones_like(options), K).double()
    together = made(states, path, mask)
    assert together.batch_shape == (6, N) and together.expand((2, 6, N)).log_prob(actions).shape == (2, 6, N)
    apart = torch.stack([made(states, one, mask).log_prob(actions) for one in path])
    assert_close(together.log_prob(actions), apart)
    assert together.sample().shape == (6, N, T, len(FAMILIES))
    assert made(states, torch.zeros_like(path), mask).sample().isfinite().all()  # an option not yet created
