"""Demonstrations from npz files with any array names."""

import os
from collections.abc import Sequence

import numpy as np

from .archive import naming, read_archive
from .trajectories import Trajectories


def from_npz(
    path: str | os.PathLike,
    states: str = "states",
    actions: str = "actions",
    lengths: str | None = "lengths",
    num_actions: int | Sequence[int] | None = None,
    packed: bool = False,
    max_bytes: int = 2**34,
) -> Trajectories:
    """Reads padded arrays from an npz file, without pickle.

    Example, for 128 bytes of Atari RAM a step::

        from_npz("breakout.npz", states="ram", actions="action", lengths="length", packed=True)

    :param states: name of the array ``(N, T, D)``, or ``(N, T, B)`` bytes if packed
    :param actions: name of the array ``(N, T)`` or ``(N, T, A)`` of integers, or ``(N, T, A)`` of floats
    :param lengths: name of the array ``(N,)``; ``None`` if all episodes have T steps
    :param num_actions: see :class:`Trajectories`
    :param packed: read each byte of the states as eight bits
    :param max_bytes: raise if the arrays are larger than this
    """
    names = [states, actions] + ([] if lengths is None else [lengths])
    fixes = {} if lengths is None else {lengths: "Pass lengths=None if every episode uses every step."}
    arrays: dict[str, np.ndarray] = read_archive(path, names, max_bytes, fixes)
    try:
        used = None if lengths is None else arrays[lengths]
        return Trajectories(arrays[states], arrays[actions], used, num_actions, packed=packed, copy=False)
    except (TypeError, ValueError) as error:
        raise naming(path, error) from error
