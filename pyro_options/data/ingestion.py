"""From given arrays to stores of states and actions."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from pyro_options.errors import check

from .steps import FlatSteps, PaddedSteps, Steps
from .validation import as_tensor, is_mapped, validate_lengths

SMALL = 2**12  # padded steps that are not worth avoiding
PARTS = ("states", "actions")


def integers(values: ArrayLike, name: str, copy: bool = False) -> Tensor:
    """``values`` as a tensor of 64-bit integers; errors call them ``name``."""
    tensor = as_tensor(values, name, copy)
    check(not tensor.is_floating_point() and not tensor.is_complex(), f"integer {name}", tensor.dtype)
    return tensor.long()


def episode_lengths(values: ArrayLike, ends: bool, copy: bool) -> Tensor:
    """Lengths of episodes, as given or from booleans that are true at the last step of each.

    :param ends: whether they must be such booleans, or zeros and ones
    """
    flags = as_tensor(values, "ends" if ends else "lengths")
    if not ends and flags.dtype != torch.bool:
        return integers(values, "lengths", copy)
    expected = "ends as booleans (steps,), true at the last step of each episode,"
    check(flags.dim() == 1 and len(flags) >= 1, expected, tuple(flags.shape))
    check(bool(((flags == 0) | (flags == 1)).all()), expected, "other values", "Pass lengths of episodes as lengths=…")
    last = flags.bool().clone()
    last[-1] = True
    return torch.diff(last.nonzero().flatten().cpu(), prepend=torch.tensor([-1]))


def flattened(states: Tensor, lead: int) -> tuple[Tensor, tuple[int, ...] | None]:
    """States with one axis behind the first ``lead``, and their shape if there were several."""
    if states.dim() <= lead + 1:
        return states, None
    return states.flatten(lead), tuple(states.shape[lead:])


def is_ragged(lengths: Tensor, width: int) -> bool:
    """Whether padding would more than double the number of steps."""
    padded = len(lengths) * width
    return padded > SMALL and padded > 2 * int(lengths.sum())


def padded_store(values: Tensor, lengths: Tensor, mapped: bool, copy: bool, large: bool = False) -> Steps:
    """A store of padded values ``(N, T, …)``: files and padded arrays are used as they are, ragged ones compacted.

    :param large: whether selecting should copy nothing, as with files
    """
    if mapped:
        return FlatSteps.of_rows(values, lengths, mapped)
    if large:
        return FlatSteps.of_rows(values.clone() if copy else values, lengths)
    width = values.shape[1]
    mask = torch.arange(width, device=values.device) < lengths.unsqueeze(-1)
    if is_ragged(lengths, width):
        return FlatSteps.of(values[mask], lengths, width)
    values = values.clone() if copy else values
    if bool(mask.all()):
        return PaddedSteps(values, lengths)
    # NaN or invalid indices in the padding must not reach any computation
    clear = Tensor.masked_fill_ if copy else Tensor.masked_fill
    return PaddedSteps(clear(values, ~mask.view(*mask.shape, *[1] * (values.dim() - 2)), 0), lengths)


def validation_rows(steps: Steps) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Padded values and their mask; flat values as rows of one step, with the number of the episode of each."""
    if isinstance(steps, PaddedSteps):
        yield steps.values, steps.mask, None
        return
    ends, first = steps.lengths.cpu().cumsum(0), 0
    for values in steps.chunks():
        episodes = torch.searchsorted(ends, torch.arange(first, first + len(values)), right=True)
        yield values.unsqueeze(1), torch.ones(len(values), 1, dtype=torch.bool, device=values.device), episodes
        first += len(values)


def as_integers(steps: Steps) -> Steps:
    """Actions as 64-bit integers unless they are floating point."""
    if steps.dtype.is_floating_point:
        return steps
    check(not steps.dtype.is_complex, "integer actions", steps.dtype)
    return steps.to(dtype=torch.long)


def flat_store(values: ArrayLike, name: str, lengths: Tensor, copy: bool) -> FlatSteps:
    """A store of values ``(steps, …)`` of all episodes; files are used as they are."""
    validate_lengths(lengths, len(lengths), int(lengths.max()))
    flat, mapped, steps = as_tensor(values, name).detach(), is_mapped(values), sum(lengths.tolist())
    given = len(flat) if flat.dim() else "a single number"
    check(given == steps, f"{name} of {steps} steps, the sum of the lengths,", given)
    return FlatSteps.of(flat.clone() if copy and not mapped else flat, lengths, mapped=mapped)


def episode_arrays(episodes: Iterable[tuple]) -> tuple[tuple[list[Tensor], list[Tensor]], tuple[bool, bool]]:
    """States ``(T_i, …)`` and actions of each episode, checked, and for both whether all of them are files."""
    check(isinstance(episodes, Iterable), "episodes, pairs of states and actions,", type(episodes).__name__)
    states: list[Tensor] = []
    actions: list[Tensor] = []
    files = [True, True]
    for i, episode in enumerate(episodes):
        given = f"{len(episode)} parts" if isinstance(episode, Sequence) else type(episode).__name__
        check(given == "2 parts", "pairs of states and actions", f"{given} at episode {i}")
        named = [(part, f"{name} of episode {i}") for part, name in zip(episode, PARTS)]
        state, action = (as_tensor(part, name, padded=False) for part, name in named)
        whole = state.dim() >= 1 and action.dim() >= 1
        check(whole, "states and actions with a step axis", f"a single number at episode {i}")
        steps = len(action)
        check(steps >= 1, "episodes of at least one step", f"none at episode {i}", "Drop empty episodes first.")
        check(
            len(state) in (steps, steps + 1),
            "as many states as actions, or one more",
            f"{len(state)} states and {steps} actions at episode {i}",
        )
        for name, new, seen in (("states", state, states), ("actions", action, actions)):
            kind = (tuple(new.shape[1:]), new.dtype)
            first = (tuple(seen[0].shape[1:]), seen[0].dtype) if seen else kind
            check(kind == first, f"{name} of shape and type {first} as in episode 0", f"{kind} at episode {i}")
        states.append(state[:steps].detach())
        actions.append(action.detach())
        files = [before and is_mapped(part) for before, part in zip(files, episode)]
    check(len(states) >= 1, "at least one episode", "none")
    return (states, actions), (files[0], files[1])
