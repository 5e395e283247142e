"""CompILE's distributions against enumeration of every segmentation of a tiny episode, from the story alone."""

import itertools
import math

import pytest
import torch
from pyro.distributions.testing.gof import multinomial_goodness_of_fit
from support.paths import mask_of, path_goodness_of_fit
from torch.testing import assert_close

from pyro_options.options import CategoricalActions
from pyro_options.segments import (
    PoissonBoundaries,
    RelaxedBoundaries,
    RelaxedSkills,
    SegmentedActions,
    SegmentPath,
    SegmentSkills,
    segment_masks,
)
from pyro_options.segments import marginal as segment_marginal
from pyro_options.segments.boundaries import poisson_lengths

T, K, M, RATE = 4, 2, 3, 1.7
LENGTHS = (4, 2, 1)
MASK = mask_of(LENGTHS, T)


def length_probability(length, room):
    """P(L = l) of a Poisson length; what is beyond the end of the episode falls on the end."""
    pmf = [math.exp(-RATE) * RATE**i / math.factorial(i) for i in range(room)]
    return pmf[length] if length < room else 1 - sum(pmf)


def segmentations(length):
    """Every (e_1, e_2) of an episode with its prior probability."""
    for ends in itertools.product(range(length + 1), repeat=M - 1):
        if list(ends) == sorted(ends):
            edges = [0, *ends]
            yield ends, math.prod(length_probability(b - a, length - a) for a, b in itertools.pairwise(edges))


def one_hot_ends(ends):
    return torch.nn.functional.one_hot(torch.tensor(ends), T + 1).double()


def enumerate_joint(length, weights, emission):
    """``(ends, skills, prior, joint)`` of everything that could have happened."""
    for ends, prior in segmentations(length):
        edges = [0, *ends, length]
        for skills in itertools.product(range(K), repeat=M):
            chance = prior * math.prod(weights[k] for k in skills)
            likelihood = math.prod(
                math.exp(emission[t][skills[j]]) for j in range(M) for t in range(edges[j], edges[j + 1])
            )
            yield ends, skills, chance, chance * likelihood


def story(leftover=0.0):
    torch.manual_seed(3)
    log_weights = torch.log_softmax(torch.randn(K).double(), 0) + math.log1p(-leftover)
    emission = torch.log(torch.rand(len(LENGTHS), T, K).double())
    path = SegmentPath(log_weights, PoissonBoundaries(RATE, M, MASK, torch.float64))
    tables = [list(enumerate_joint(n, log_weights.exp().tolist(), emission[i].tolist())) for i, n in enumerate(LENGTHS)]
    return log_weights, emission, path, tables


def steps_of(ends, skills, length):
    """The skill and the start of each step, as a person would write them down."""
    edges = [0, *ends, length]
    options = [next(skills[j] for j in range(M) if edges[j] <= t < edges[j + 1]) for t in range(length)]
    return options, [t in edges for t in range(length)]


def test_the_chances_of_all_boundaries_are_those_of_the_story_and_sum_to_one():
    prior = PoissonBoundaries(RATE, M, MASK, torch.float64)
    for i, length in enumerate(LENGTHS):
        every = list(segmentations(length))
        values = torch.stack([one_hot_ends(ends) for ends, _ in every])
        own = PoissonBoundaries(RATE, M, MASK[i].expand(len(every), T), torch.float64)
        assert_close(own.log_prob(values).exp(), torch.tensor([p for _, p in every]).double())
        assert float(own.log_prob(values).exp().sum()) == pytest.approx(1)
    backwards = one_hot_ends((2, 1)).expand(len(LENGTHS), -1, -1)
    assert (prior.log_prob(backwards) < -500).all()
    assert (prior.log_prob(one_hot_ends((3, 3)).expand(len(LENGTHS), -1, -1))[1:] < -500).all()


def test_the_chance_of_relaxed_boundaries_is_the_average_over_what_they_stand_for():
    torch.manual_seed(0)
    value = torch.softmax(torch.randn(len(LENGTHS), M - 1, T + 1).double(), -1)  # some of it beyond the end

    def chance(ends, length):
        before, total = torch.eye(T + 1).double()[0], 1.0
        for place in ends:
            pairs = itertools.product(range(length + 1), repeat=2)
            moves = (before[a] * place[b] * length_probability(b - a, length - a) for a, b in pairs if b >= a)
            before, total = place, total * float(sum(moves))
        return total

    expected = torch.tensor([chance(value[i], length) for i, length in enumerate(LENGTHS)]).double()
    assert_close(PoissonBoundaries(RATE, M, MASK, torch.float64).log_prob(value).exp(), expected)


def test_boundaries_are_drawn_as_they_are_scored():
    torch.manual_seed(0)
    prior = PoissonBoundaries(RATE, M, MASK, torch.float64)
    drawn = prior.sample((20_000,))
    for i, length in enumerate(LENGTHS):
        every = list(segmentations(length))
        values = torch.stack([one_hot_ends(ends) for ends, _ in every])
        assert path_goodness_of_fit(drawn[:, i], values, torch.tensor([p for _, p in every])) > 1e-4


def test_survival_of_long_lengths_is_finite_and_right():
    log_prob, log_at_least = poisson_lengths(3.0, 300, torch.zeros((), dtype=torch.float64))
    reference = torch.distributions.Poisson(torch.tensor(3.0).double()).log_prob(torch.arange(301).double())
    assert_close(log_prob, reference)
    assert log_at_least[0] == 0 and log_at_least.isfinite().all()
    assert_close(log_at_least[-1], reference[-1], atol=0.02, rtol=0)  # the first term is nearly all of the tail
    assert float(log_at_least[2].exp()) == pytest.approx(1 - math.exp(-3) * 4)


@pytest.fixture(params=["compiled", "torch"])
def either(request, monkeypatch):
    """Both ways to sum segments out."""
    assert segment_marginal.KERNEL.module is not None
    if request.param == "torch":
        monkeypatch.setattr(segment_marginal.KERNEL, "module", None)


@pytest.mark.parametrize("leftover", [0.0, 0.3])
def test_the_marginal_and_its_gradients_equal_enumeration(leftover, either):
    log_weights, emission, path, tables = story(leftover)
    expected = torch.tensor([math.log(sum(joint for *_, joint in table)) for table in tables]).double()
    assert_close(path.log_marginal(emission), expected)
    inputs = log_weights.requires_grad_(), emission.requires_grad_()
    assert torch.autograd.gradcheck(lambda w, e: path.reweighted(w).log_marginal(e), inputs)


def long_story(scale, dtype=torch.float64, num_steps=60):
    """Episodes too long to enumerate: the log weights, the emission and the path."""
    torch.manual_seed(4)
    mask = mask_of((num_steps, 21, 1), num_steps)
    log_weights = torch.log_softmax(torch.randn(3).to(dtype), 0).requires_grad_()
    emission = (scale * torch.randn(3, num_steps, 3).to(dtype)).requires_grad_()
    return log_weights, emission, SegmentPath(log_weights, PoissonBoundaries(7.0, 6, mask, dtype))


@pytest.mark.parametrize(("scale", "faint"), [(1.0, False), (40.0, True)])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_kernel_equals_log_space_or_leaves_it_to_it(scale, faint, threads, monkeypatch):
    monkeypatch.setattr(segment_marginal.KERNEL, "thread_work", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    log_weights, emission, path = long_story(scale)
    assert (
        segment_marginal.run_kernel(log_weights.expand(3, 3), path.boundaries, emission, gradients=True) is None
    ) == faint

    def everything():
        value = path.log_marginal(emission)
        posterior = path.posterior(emission)
        return value, *torch.autograd.grad(value.sum(), (log_weights, emission)), posterior.options, posterior.starts

    compiled = everything()
    monkeypatch.setattr(segment_marginal.KERNEL, "module", None)
    assert_close(compiled, everything())


def test_single_precision_goes_through_the_kernel_in_double():
    log_weights, emission, path = long_story(1.0, torch.float32)
    exact = SegmentPath(log_weights.double(), PoissonBoundaries(7.0, 6, path.step_mask, torch.float64))
    assert_close(path.log_marginal(emission), exact.log_marginal(emission.double()).float())
    options = path.posterior(emission).options
    assert options.dtype == torch.float32 and (options >= 0).all()
    assert_close(options.sum(-1), path.step_mask.float())


def test_posterior_and_best_path_equal_enumeration(either):
    _, emission, path, tables = story()
    posterior = path.posterior(emission)
    options, score = path.viterbi(emission)
    for i, (length, table) in enumerate(zip(LENGTHS, tables)):
        total = sum(joint for *_, joint in table)
        on, begun = torch.zeros(T, K).double(), torch.zeros(T, K).double()
        best = {}
        for ends, skills, _, joint in table:
            steps, starts = steps_of(ends, skills, length)
            for t, (k, start) in enumerate(zip(steps, starts)):
                on[t, k] += joint / total
                begun[t, k] += start * joint / total
            best[ends, tuple(steps)] = best.get((ends, tuple(steps)), 0) + joint
        assert_close(posterior.options[i], on)
        assert_close(posterior.starts[i], begun)
        (_, steps), highest = max(best.items(), key=lambda item: item[1])
        assert options[i, :length].tolist() == list(steps)
        assert float(score[i]) == pytest.approx(math.log(highest))
        assert (options[i, length:] == options[i, length - 1]).all()


def test_chunks_change_nothing(monkeypatch):
    monkeypatch.setattr(segment_marginal.KERNEL, "module", None)
    _, emission, path, _ = story()
    expected = path.log_marginal(emission), path.posterior(emission).starts, path.viterbi(emission)[0]
    monkeypatch.setattr("pyro_options.segments.path._CELLS", 1)
    assert len(path._chunks(emission)) == len(LENGTHS)
    assert_close((path.log_marginal(emission), path.posterior(emission).starts, path.viterbi(emission)[0]), expected)


def test_paths_are_drawn_from_the_prior():
    torch.manual_seed(0)
    _, _, path, tables = story()
    drawn = path.sample((20_000,))[:, 0]
    assert (path.sample()[1, 2:, 0] == 0).all()
    chances = {}
    for ends, skills, chance, _ in tables[0]:
        steps, starts = steps_of(ends, skills, T)
        value = tuple((float(s), *(float(k == i) for i in range(K))) for k, s in zip(steps, starts))
        chances[value] = chances.get(value, 0) + chance
    assert (
        path_goodness_of_fit(drawn, torch.tensor(list(chances)).double(), torch.tensor(list(chances.values()))) > 1e-4
    )


def test_actions_of_discrete_segments_have_the_chance_of_the_story():
    torch.manual_seed(1)
    logits = torch.randn(1, T, K, 5).double()
    actions, mask = torch.tensor([[1, 4, 0, 2]]), torch.ones(1, T, dtype=torch.bool)
    emission = torch.log_softmax(logits, -1)[0]
    for ends, skills in (((1, 3), (0, 1, 0)), ((0, 4), (1, 0, 1)), ((4, 4), (1, 0, 0))):
        values = one_hot_ends(ends).unsqueeze(0), torch.eye(K).double()[list(skills)].unsqueeze(0)
        given = SegmentedActions(CategoricalActions(logits, mask=mask), *values, mask)
        steps, _ = steps_of(ends, skills, T)
        expected = sum(float(emission[t, k, actions[0, t]]) for t, k in enumerate(steps))
        assert float(given.log_prob(actions)) == pytest.approx(expected)
        assert given.responsibilities(actions)[0].argmax(-1).tolist() == steps


def test_soft_masks_share_every_step_out():
    boundaries = torch.softmax(torch.randn(3, M - 1, T + 1), -1)
    masks = segment_masks(boundaries, MASK)
    assert (masks >= 0).all() and masks.shape == (3, M, T)
    assert_close(masks.sum(1), MASK.float())
    sure = torch.softmax(30 * torch.randn(200, 5, 50), -1)  # float32 sums of these exceed one
    assert (sure.cumsum(-1) > 1).any() and (segment_masks(sure, torch.ones(200, 49, dtype=torch.bool)) >= 0).all()


def decoder():
    """Logits that depend on the boundary before."""
    base = torch.randn(T + 1, generator=torch.Generator().manual_seed(5)).double()
    return lambda passed: base * (1 + torch.nn.functional.pad(passed, (1, 0)))


def test_boundaries_of_the_guide_are_normalized_ordered_and_inside():
    every = list(itertools.product(range(T + 1), repeat=M - 1))
    values = torch.stack([one_hot_ends(ends) for ends in every])
    for i, length in enumerate(LENGTHS):
        chance = RelaxedBoundaries(decoder(), M, MASK[i].expand(len(every), T)).log_prob(values).exp()
        possible = torch.tensor([a <= b <= length for a, b in every])
        assert float(chance[possible].sum()) == pytest.approx(1)
        assert float(chance[~possible].sum()) == pytest.approx(0)


def test_cold_samples_of_the_guide_follow_its_chances():
    torch.manual_seed(0)
    guide = RelaxedBoundaries(decoder(), M, MASK[:1].expand(20_000, T), temperature=1e-7)  # no draw is between two
    drawn = guide.rsample()
    again = guide.log_prob(drawn.clone())
    assert_close(guide.log_prob(drawn), again)  # what was kept from the draw, and what is computed anew
    every = [(a, b) for a, b in itertools.product(range(T + 1), repeat=2) if a <= b]
    values = torch.stack([one_hot_ends(ends) for ends in every])
    chances = RelaxedBoundaries(decoder(), M, MASK[:1].expand(len(every), T)).log_prob(values).exp()
    assert path_goodness_of_fit(drawn.round(), values, chances) > 1e-4
    assert guide.best().sum(-1).eq(1).all()


def test_skills_of_the_guide_and_their_prior():
    torch.manual_seed(0)
    logits = torch.randn(1, M, K).double()
    value = torch.eye(K).double()[[1, 0, 1]].unsqueeze(0)
    expected = torch.log_softmax(logits, -1)[0, torch.arange(M), [1, 0, 1]].sum()
    assert_close(RelaxedSkills(logits).log_prob(value)[0], expected)
    weights = torch.tensor([0.3, 0.6]).double().log()
    assert_close(SegmentSkills(weights, M).log_prob(value)[0].exp(), torch.tensor(0.6 * 0.3 * 0.6).double())
    drawn = RelaxedSkills(logits[0, :1].expand(5000, 1, K), 1e-3).rsample().round().sum((0, 1))
    assert multinomial_goodness_of_fit(torch.softmax(logits[0, 0], -1), drawn, total_count=5000) > 1e-4


@pytest.mark.parametrize("bad", [{"rate": 0.0}, {"num_segments": 1}])
def test_bad_segments_are_refused(bad):
    with pytest.raises(ValueError, match="Expected"):
        PoissonBoundaries(**{"rate": 1.0, "num_segments": 2, "mask": MASK} | bad)
    with pytest.raises(ValueError, match="temperature > 0"):
        RelaxedSkills(torch.zeros(2, 2), temperature=0)
