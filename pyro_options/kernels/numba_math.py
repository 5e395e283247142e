"""What the compiled kernels share. Importing this imports numba; the rest of the library does so only when it is used.

Kernels release the GIL and start no threads of their own: :meth:`pyro_options.kernels.Kernels.run` splits the rows
among as many threads as torch uses, so there is one number to set and nothing that breaks in a forked process.
"""

import numba
import numpy as np

PLAIN = {"nogil": True, "cache": True, "error_model": "numpy"}
LOOPS = {**PLAIN, "fastmath": {"contract"}}
SUMS = {**PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}  # infinities and NaN keep their meaning

Index = np.uint64
ZERO, ONE, TWO, THREE, FOUR = (Index(n) for n in range(5))


@numba.njit(**SUMS)
def add_product(vector, v, matrix, m, rows, columns, out, o):
    """``out += vector @ matrix``: flat arrays and where to begin in each, the matrix row by row, four at a time.

    A view of an array would count references, which threads that share the array do one after the other, and a signed
    index might be negative, which keeps loops from vectorizing: so kernels slice nothing, and count without a sign.
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
    """``out += matrix @ vector``, which is faster than the product with the transpose if there are few rows."""
    for j in range(rows):
        total = vector.dtype.type(0)
        for i in range(columns):
            total += matrix[m + i] * vector[v + i]
        out[o + j] += total
        m += columns
