"""Compiler flags and matrix products shared by the kernels. Only the kernel modules import numba, when first used.

Kernels release the GIL and start no threads of their own: :meth:`pyro_options.kernels.Kernels.run` splits the rows
among as many threads as torch uses, so ``torch.set_num_threads`` is the only setting, and forked processes are safe.
"""

from typing import Any

import numba
import numpy as np

PLAIN: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
LOOPS = {**PLAIN, "fastmath": {"contract"}}
SUMS = {**PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}  # neither nnan nor ninf: both can occur

Index = np.uint64
ZERO, ONE, TWO, THREE, FOUR = (Index(n) for n in range(5))


@numba.njit(**SUMS)
def add_product(vector, v, matrix, m, rows, columns, out, o):
    """``out += vector @ matrix`` on flat arrays with offsets ``v``, ``m`` and ``o``; row-major, four rows at a time.

    Kernels use flat arrays because a slice increments the array's reference count, an atomic operation on which threads
    contend, and unsigned indices because numba's handling of negative ones prevents loops from vectorizing.
    """
    for _ in range(rows // FOUR):
        v0, v1, v2, v3 = vector[v], vector[v + ONE], vector[v + TWO], vector[v + THREE]
        m1, m2, m3 = m + columns, m + TWO * columns, m + THREE * columns
        for i in range(columns):
            low, high = v0 * matrix[m + i] + v1 * matrix[m1 + i], v2 * matrix[m2 + i] + v3 * matrix[m3 + i]
            out[o + i] += low + high
        v, m = v + FOUR, m3 + columns
    for j in range(rows % FOUR):
        for i in range(columns):
            out[o + i] += vector[v + j] * matrix[m + j * columns + i]


@numba.njit(**SUMS)
def add_dots(vector, v, matrix, m, rows, columns, out, o):
    """``out += matrix @ vector``; faster than :func:`add_product` with the transpose if there are few rows."""
    for j in range(rows):
        total = vector.dtype.type(0)
        for i in range(columns):
            total += matrix[m + i] * vector[v + i]
        out[o + j] += total
        m += columns
