"""Validation of episodes. Every error names the episode and the fix."""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_options.errors import InputError, check, check_count

_NUMBERS = "Pass a numpy array, a tensor or nested lists of numbers of one type."
_AXES = "Put an axis in front of a single episode, states[None], or behind single numbers, states[..., None]."
_LARGE = 10_000  # inferred num_actions up to this is always accepted; above, at most 10 per recorded step


def _native(array: np.ndarray, copy: bool) -> np.ndarray:
    """An array that torch can read: native byte order, no negative strides."""
    readable = array.dtype.isnative and min(array.strides, default=0) >= 0
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C") if copy or not readable else array


def is_mapped(values: Any) -> bool:
    """Whether an array is, or is part of, a file mapped into memory."""
    while isinstance(values, np.ndarray):
        if isinstance(values, np.memmap) and getattr(values, "_mmap", None) is not None:
            return True
        values = values.base
    return False


def as_tensor(values: Any, name: str, copy: bool = False, padded: bool = True) -> Tensor:
    """``values`` as a tensor; errors call them ``name``.

    :param copy: share no memory with ``values``
    :param padded: whether they hold several episodes; the error then also mentions padding
    """
    try:
        if isinstance(values, Tensor):
            return values.clone() if copy else values
        with warnings.catch_warnings():  # nothing writes into arrays that are not copied
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
            return torch.as_tensor(_native(values, copy) if isinstance(values, np.ndarray) else values)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        fix = f"{_NUMBERS} Pad episodes to one length, or use Trajectories.from_episodes." if padded else _NUMBERS
        if hasattr(values, "columns"):
            fix = "Read data frames with from_dataframe(frame, episode=…, actions=…), or pass frame.to_numpy()."
        raise InputError(
            f"Expected an array of numbers as {name} but got {type(values).__name__}: {error}. {fix}"
        ) from error


def checked_names(names: Any, count: Any, of: str) -> tuple[str, ...]:
    """``names`` as a tuple of strings, one for each of ``count`` things; errors call such a thing ``of``."""
    listed = not isinstance(names, str) and hasattr(names, "__len__")
    check(listed and len(names) == count, f"one name for each {of} ({count})", repr(names))
    check(all(isinstance(name, str) for name in names), f"a string as the name of each {of}", repr(names))
    return tuple(map(str, names))


def exact_floats(values: np.ndarray, episode: int, fix: str) -> np.ndarray:
    """Converts integers to float32, and raises if that is not exact; other types are returned unchanged."""
    if values.dtype.kind not in "biu":
        return values
    floats = values.astype(np.float32)
    check(np.array_equal(floats, values), "states that float32 can hold", f"larger ones at episode {episode}", fix)
    return floats


def _first(bad: Tensor, episodes: Tensor | None) -> int:
    """Number of the first episode with a true entry; ``episodes`` has the number of each row, by default its index."""
    row = int(bad.flatten(1).any(1).nonzero()[0])
    return row if episodes is None else int(episodes[row])


def validate_layout(states: Tensor, packed: bool, state_shape: tuple[int, ...] | None = None) -> None:
    """Checks shape and type of the states.

    :param state_shape: of a state that had several axes
    """
    check(states.dim() == 3, "states of shape (N, T, D)", tuple(states.shape), _AXES)
    fix = "Flatten them with states.reshape(N, T, -1)."
    check(not packed or state_shape is None, "packed states with one axis of bytes", state_shape, fix)
    N, T, D = states.shape
    check(min(N, T, D) >= 1, "at least one episode, step and state dimension", f"(N, T, D) = {(N, T, D)}")
    if packed:
        check(states.dtype == torch.uint8, "packed states of type uint8", states.dtype, "Pack them with pack_bits.")
    else:
        fix = "Call .float() on them, or pass packed=True to read bytes as bits."
        check(states.is_floating_point() or states.dtype == torch.uint8, "floating point states", states.dtype, fix)


def validate_lengths(lengths: Tensor, N: int, T: int) -> None:
    """Checks that ``lengths`` has shape ``(N,)`` and values in ``[1, T]``."""
    check(lengths.shape == (N,), f"lengths of shape ({N},)", tuple(lengths.shape))
    bad = (lengths < 1) | (lengths > T)
    if bad.any():
        i = int(bad.nonzero()[0])
        fix = "Drop empty episodes first." if lengths[i] < 1 else "Pad states and actions to the longest episode."
        raise InputError(f"Expected lengths in [1, {T}] but got {int(lengths[i])} at episode {i}. {fix}")


def _validate_finite(values: Tensor, mask: Tensor, name: str, episodes: Tensor | None) -> None:
    if not values.is_floating_point():
        return
    bad = ~torch.isfinite(values) & mask.unsqueeze(-1)
    if bad.any():
        raise InputError(
            f"Expected finite {name} but got NaN or infinity at episode {_first(bad, episodes)}. "
            "Drop or repair that episode."
        )


def validate_states(states: Tensor, mask: Tensor, episodes: Tensor | None = None) -> None:
    """Checks that states are finite where ``mask`` is true.

    :param episodes: number of the episode of each row, for the message; by default its index
    """
    _validate_finite(states, mask, "states", episodes)


def validate_bounds(bounds: Tensor | None, actions: Tensor) -> None:
    """Checks lower and upper bounds of continuous actions, ``(2, A)``."""
    if bounds is None:
        return
    check(actions.is_floating_point(), "bounds of continuous actions alone", f"actions of type {actions.dtype}")
    size = (2, actions.shape[-1])
    check(tuple(bounds.shape) == size, f"action_bounds of shape {size}", tuple(bounds.shape))
    check(bool((bounds[0] < bounds[1]).all()), "lower bounds below upper bounds", bounds.tolist())


def validate_actions(
    actions: Tensor,
    mask: Tensor,
    num_actions: int | tuple[int, ...] | None,
    episodes: Tensor | None = None,
    num_steps: int | None = None,
) -> None:
    """Checks actions: integers ``(N, T)`` or ``(N, T, A)`` in ``[0, num_actions)``, or finite floats ``(N, T, A)``.

    :param episodes: number of the episode of each row, for the message; by default its index
    :param num_steps: number of steps of all the data, if these are a part of them
    """
    N, T = mask.shape
    check(actions.shape[:2] == (N, T), f"actions of shape ({N}, {T}, …)", tuple(actions.shape))
    if actions.is_floating_point():
        fix = "Call .long() on them if they are discrete, or put an axis behind a single number, actions[..., None]."
        check(actions.dim() == 3, "continuous actions of shape (N, T, A)", tuple(actions.shape), fix)
        check(actions.shape[-1] >= 1, "at least one action dimension", tuple(actions.shape))
        check(num_actions is None, "num_actions=None with continuous actions", num_actions)
        _validate_finite(actions, mask, "actions", episodes)
        return
    expected = "integer actions of shape (N, T), or (N, T, A) for several a step"
    check(actions.dim() in (2, 3) and 0 not in actions.shape, expected, tuple(actions.shape))
    if actions.dim() == 2:
        check(not isinstance(num_actions, tuple), "one number of actions for actions (N, T)", num_actions)
        assert not isinstance(num_actions, tuple)
        _validate_integers(actions, mask, num_actions, episodes, num_steps)
        return
    A = actions.shape[-1]
    fits = num_actions is None or (isinstance(num_actions, tuple) and len(num_actions) == A)
    check(fits, f"num_actions of each of {A} dimensions", num_actions)
    for d in range(A):
        count = num_actions[d] if isinstance(num_actions, tuple) else None
        _validate_integers(actions[..., d], mask, count, episodes, num_steps)


def _validate_integers(
    actions: Tensor, mask: Tensor, num_actions: int | None, episodes: Tensor | None, num_steps: int | None
) -> None:
    """Checks that integers ``(N, T)`` are in ``[0, num_actions)``."""
    if num_actions is not None:
        check_count(num_actions, "num_actions")
    total = int(mask.sum()) if num_steps is None else num_steps
    high = max(_LARGE, 10 * total) if num_actions is None else num_actions
    bad = ((actions < 0) | (actions >= high)) & mask
    if bad.any():
        first = int(actions[bad][0])
        expected, fix = f"actions in [0, {high - 1}]", "Check num_actions, or drop that episode."
        if num_actions is None and first < 0:
            expected, fix = "actions >= 0", "Number them from 0, or drop that episode."
        elif num_actions is None:
            expected, fix = (
                f"actions < {high} of so few steps",
                "Drop that episode, or pass num_actions=… if it is right.",
            )
        raise InputError(f"Expected {expected} but got {first} at episode {_first(bad, episodes)}. {fix}")
