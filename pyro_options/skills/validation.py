"""Validation of the observations and options that are passed to skills."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import InputError, check


def check_trajectories(given: Any) -> None:
    """Raises unless these are ``Trajectories``."""
    fix = "Make them with Trajectories.from_episodes(…); concatenate(…) joins several."
    check(isinstance(given, Trajectories), "Trajectories", type(given).__name__, fix)


def checked_states(
    observation: ArrayLike, state_dim: int, packed: bool, state_shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """Observations as an array ``(state_dim,)`` or ``(n, state_dim)``; packed bytes are unpacked to uint8 bits.

    :param state_shape: of states with several axes, which are flattened
    """
    states = np.asarray(observation)
    if state_shape is not None and states.shape[-len(state_shape) :] == state_shape:
        states = states.reshape(*states.shape[: states.ndim - len(state_shape)], state_dim)
    if packed and states.dtype == np.uint8 and states.shape[-1:] == (state_dim // 8,):
        states = np.unpackbits(states, axis=-1)
    if states.ndim not in (1, 2) or states.shape[-1] != state_dim or states.dtype.kind not in "biuf":
        one = ", ".join(map(str, state_shape or (state_dim,)))
        size = f"({one}{'' if state_shape else ','}) or (n, {one})"
        bytes_ = f", or {state_dim // 8} packed bytes of type uint8" if packed else ""
        raise InputError(f"Expected observations of shape {size}{bytes_} but got {states.dtype} {states.shape}.")
    return states


def checked_option(option: int | ArrayLike | None, states: np.ndarray, num_options: int) -> Any:
    """A valid option for all states, one for each ``(n,)``, or ``None`` for all options; raises otherwise."""
    if option is None:
        return None
    if isinstance(option, int | np.integer):
        if 0 <= option < num_options and not isinstance(option, bool):
            return option
        raise InputError(f"Expected an option in [0, {num_options - 1}] but got {option}.")
    options = np.asarray(option)
    valid = options.shape == states.shape[:-1] and options.dtype.kind in "iu"
    check(valid, f"one option for each of {states.shape[:-1]} observations", f"{options.dtype} {options.shape}")
    inside = options.size == 0 or (options.min() >= 0 and options.max() < num_options)
    check(inside, f"options in [0, {num_options - 1}]", options)
    return options
