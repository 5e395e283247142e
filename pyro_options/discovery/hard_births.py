"""Births of hard options: stretches that are explained badly compete to become options."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pyro_options.growth.resizing import resize
from pyro_options.options.path import OptionPath

from .hard_fit import fit_each
from .hard_paths import HardModel, HardPaths

#: stretches in each round of births
CANDIDATES = 16

#: rounds in which a candidate takes over the steps that it explains better, and is fitted to them
ROUNDS = 3

#: steps that a candidate is fitted to, and iterations of L-BFGS, at most
FIT_STEPS, ITERATIONS = 100, 12


def stretch_costs(cost: Tensor, length: int) -> Tensor:
    """The mean cost of the stretch from each step, ``(N, T)``; steps beyond the last cost nothing."""
    total = torch.nn.functional.pad(cost.cumsum(1), (1, length - 1))
    total[:, cost.shape[1] + 1 :] = total[:, cost.shape[1], None]
    return (total[:, length:] - total[:, : cost.shape[1]]) / length


def draw_stretches(model: HardModel, paths: HardPaths, length: int) -> Tensor:
    """The steps of random stretches, of badly explained ones more often, ``(C, N, T)``."""
    mask, time = model.steps.mask, torch.arange(model.steps.mask.shape[1], device=model.steps.mask.device)
    cost = stretch_costs(torch.where(mask, -paths.emission, 0.0), length)
    inside = time <= (mask.sum(1, keepdim=True) - length).clamp(min=0)
    weight = torch.where(inside, cost - cost[inside].min() + 1e-3, 0.0)
    drawn = torch.multinomial(weight.flatten(), CANDIDATES, replacement=int(inside.sum()) < CANDIDATES)
    rows, first = drawn // len(time), (drawn % len(time)).unsqueeze(-1)
    found = mask.new_zeros(CANDIDATES, *mask.shape)
    found[torch.arange(CANDIDATES), rows] = (time >= first) & (time < first + length) & mask[rows]
    return found


def takeover(model: HardModel, emission: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """The steps that each candidate takes over from the present paths, ``(C, N, T)``, and what it gains, ``(C,)``.

    Each is alone with the present paths, between which and itself it can switch: paths with two options.

    :param emission: log-probability of the present paths' actions and switches ``(N, T)``
    :param candidates: log-probability of the actions under each, ``(N, T, C)``
    """
    pair = torch.stack(torch.broadcast_tensors(emission.unsqueeze(-1), candidates), -1).movedim(-2, 0)  # (C, N, T, 2)
    weights = emission.new_full((2,), -math.log(model.num_options + 1))
    prior = model.prior(2, (len(pair),)).reweighted(weights)
    options, log_prob = prior.viterbi(pair)
    present = OptionPath(weights[:1], prior.termination_logits[0, ..., :1], model.steps.mask)
    before = present.viterbi(emission.unsqueeze(-1))[1]
    return (options == 1) & model.steps.mask, (log_prob - before).sum(-1)


def with_switches(model: HardModel, paths: HardPaths) -> Tensor:
    """Log-probability of the actions and switches of these paths, ``(N, T)``, among one option more than there is."""
    return paths.emission - model.switches(paths) * model.switch_price(model.num_options + 1)


def _sampled(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The indices of random ones of the chosen steps ``(C, S)``, and which of these exist, both ``(C, B)``."""
    size = min(FIT_STEPS, int(chosen.sum(1).max()))
    order = torch.where(chosen, torch.rand(chosen.shape, device=chosen.device), -1.0).topk(size, 1)
    return order.indices, order.values >= 0


def candidate_options(model: HardModel, paths: HardPaths, lengths: Sequence[int]) -> Any:
    """A policy with one option for each of several stretches, fitted to it and to what else it explains well.

    :param lengths: of stretches, :data:`CANDIDATES` of each
    """
    found = copy.deepcopy(model.policy)
    resize([found], [], CANDIDATES * len(lengths))
    steps, present = model.steps, with_switches(model, paths)
    chosen = torch.cat([draw_stretches(model, paths, length) for length in lengths])
    for number in range(ROUNDS + 1):
        index, mask = _sampled(chosen[:, steps.mask])
        fit_each(found, steps.states[index], steps.actions[index], mask, ITERATIONS)
        if number < ROUNDS:
            taken, _ = takeover(model, present, model.emission(found))
            chosen = torch.where(taken.any(-1).any(-1)[:, None, None], taken, chosen)
    return found


def best_candidates(model: HardModel, paths: HardPaths, lengths: Sequence[int], most: int) -> tuple[Any, list[int]]:
    """A policy of candidates, and those of them that gain more than their price, the best first.

    :param lengths: of stretches
    :param most: candidates to choose at most
    """
    found = candidate_options(model, paths, lengths)
    candidates, present = model.emission(found), with_switches(model, paths)
    chosen: list[int] = []
    while len(chosen) < min(most, found.num_options):
        taken, gain = takeover(model, present, candidates)
        gain[chosen] = -math.inf
        best = int(gain.argmax())
        if not gain[best] > model.price:
            break
        chosen.append(best)
        present = torch.where(taken[best], candidates[..., best], present)
    return found, chosen


def give_birth(model: HardModel, paths: HardPaths, length: int, most: int) -> int:
    """Adds candidates that gain more than their price, the best first, and returns how many.

    :param length: of a stretch
    :param most: births at most
    """
    found, chosen = best_candidates(model, paths, [length], most)
    if chosen:
        model.append(found, chosen)
    return len(chosen)
