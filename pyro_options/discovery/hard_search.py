"""Hard options: small-variance asymptotics of the option model, a DP-means for options."""

import copy
import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.resizing import parameters_per_component, resize

from .hard_births import give_birth
from .hard_fit import fit_termination
from .hard_paths import Demonstrated, HardModel, HardPaths
from .start import stretch_length

#: rounds of births, at most
ROUNDS = 30

#: rounds of the alternation after a removal, before it is judged
TRIAL = 3

#: iterations of L-BFGS for the terminations
ITERATIONS = 30


def bic_price(policy: Any, num_steps: int) -> float:
    r"""The price of an option: :math:`\tfrac12 P \log n` nats for P parameters and n steps, as in BIC."""
    return 0.5 * parameters_per_component([policy]) * math.log(num_steps)


def try_removal(model: HardModel, paths: HardPaths, forced: bool = False) -> tuple[HardModel, HardPaths] | None:
    """The model without the option that it misses least, fitted again; ``None`` if J would increase.

    :param forced: remove it even so
    """
    if model.num_options == 1:
        return None
    less = model.copy()
    less.remove(model.least_missed())
    found = less.alternate(TRIAL)
    return (less, found) if forced or less.cost(found) <= model.cost(paths) else None


def reach(model: HardModel, paths: HardPaths, num_options: int, length: int) -> tuple[HardModel, HardPaths]:
    """The model with a given number of options: those missed least removed, or the best births added at any price."""
    while model.num_options > num_options:
        found = try_removal(model, paths, forced=True)
        assert found is not None
        model, paths = found
    free = replace(model, price=-math.inf)
    while free.num_options < num_options:
        give_birth(free, paths, length, num_options - free.num_options)
        paths = free.alternate()
    return replace(free, price=model.price), paths


def hard_options(
    policy: Any,
    data: Trajectories,
    price: float | None = None,
    num_options: int | None = None,
    max_options: int = 100,
) -> tuple[HardModel, HardPaths]:
    r"""Finds options without uncertainty, and the best path of every episode.

    .. math:: J = -\sum_i \max_\zeta \log p(\zeta, a^{(i)}\mid s^{(i)}) + \lambda (K - 1)

    is lowered in turn by Viterbi paths, by fits of each option to its steps, by births from stretches that are
    explained badly, each of which must gain more than λ, and by removals.

    :param policy: a policy of :mod:`pyro_options.options`, which is copied; the values of its options are not used
    :param price: λ in nats; :func:`bic_price` by default
    :param num_options: K, if it is known
    :param max_options: maximum of K
    """
    steps, policy = Demonstrated.some(data), copy.deepcopy(policy).double()
    length, most = stretch_length(data), max_options if num_options is None else max(max_options, num_options)
    resize([policy], [], 1)
    model = HardModel(policy, steps, bic_price(policy, len(steps.states)) if price is None else price)
    paths = model.alternate(1)
    for _ in range(ROUNDS):
        trial = model.copy()
        if not give_birth(trial, paths, length, most - model.num_options):
            break
        found = trial.alternate()
        while (fewer := try_removal(trial, found)) is not None:
            trial, found = fewer
        if trial.cost(found) >= model.cost(paths):
            break
        model, paths = trial, found
    return (model, paths) if num_options is None else reach(model, paths, num_options, length)


def start_hard(model: Any, data: Trajectories, num_options: int | None = None, max_options: int = 100) -> Tensor:
    """Sets the options of a model to hard options of these demonstrations, and returns their log weights ``(K,)``.

    K of the model changes to that of the hard options. Their weights are the shares of segments, and as much as for one
    segment more remains for options not yet created, as in a Dirichlet process with a concentration of one.

    :param model: with a ``policy``, and maybe a ``termination``, of :mod:`pyro_options.options`
    :param num_options: K, if it is known
    """
    return assign_hard(model, *hard_options(model.policy, data, None, num_options, max_options))


def assign_hard(model: Any, hard: HardModel, paths: HardPaths) -> Tensor:
    """Sets the options of a model to given ones, fits terminations to their paths, and returns log weights ``(K,)``."""
    K, (states, mask) = hard.num_options, (hard.steps.by_episode(hard.steps.states), hard.steps.mask)
    resize([model], [], K)
    dtype, device = next(model.parameters()).dtype, next(model.parameters()).device
    model.policy.load_state_dict(hard.policy.to(device, dtype).state_dict())
    switches, later = hard.switches(paths), mask[:, 1:]
    termination = getattr(model, "termination", None)
    if termination is not None:
        of = states[:, 1:][later], paths.options[:, :-1][later], switches[:, 1:][later]
        fit_termination(termination.double(), *of, steps=ITERATIONS)
        termination.to(dtype)
    switches[:, 0] = True
    starts = torch.bincount(paths.options[switches & mask], minlength=K).clamp(min=0.5)
    return torch.log(starts / (starts.sum() + 1)).to(device, dtype)
