"""What the compiled kernels share. Importing this imports numba; the rest of the library does so only when it is used.

Kernels release the GIL and start no threads of their own: :func:`pyro_options.threads.share` splits the rows among
as many as torch uses, which leaves one number to set and nothing that breaks in a forked process.
"""

import math

import numba
import numpy as np

PLAIN = {"nogil": True, "cache": True, "error_model": "numpy"}
SUMS = {**PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}  # infinities and NaN keep their meaning

_LOG2E = 1 / math.log(2.0)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the low bits
_LOG2E_32, _ROUND_32 = np.float32(_LOG2E), np.float32(1.5 * 2.0**23)
_LN2_HIGH_32, _LN2_LOW_32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
_FLOOR_32, _HALF_32, _ONE_32 = np.float32(-87), np.float32(0.5), np.float32(1)
_C3_32, _C4_32, _C5_32, _C6_32, _C7_32 = (np.float32(1 / n) for n in (6, 24, 120, 720, 5040))


@numba.njit(**PLAIN, fastmath={"contract"})
def exp(x, scratch, out):
    """exp of flat ``x <= 0``, to 2e-16, in loops that vectorize as the library's exp does not; NaN stays NaN."""
    for i in range(x.size):
        v = -700.0 if x[i] < -700.0 else x[i]
        out[i] = v
        scratch[i] = v * _LOG2E + _ROUND
    for i in range(x.size):
        k = scratch[i] - _ROUND
        r = (out[i] - k * _LN2_HIGH) - k * _LN2_LOW
        p = 1 / 479001600
        p = p * r + 1 / 39916800
        p = p * r + 1 / 3628800
        p = p * r + 1 / 362880
        p = p * r + 1 / 40320
        p = p * r + 1 / 5040
        p = p * r + 1 / 720
        p = p * r + 1 / 120
        p = p * r + 1 / 24
        p = p * r + 1 / 6
        p = p * r + 0.5
        out[i] = (p * r + 1) * r + 1
    exponent = scratch.view(np.int64)
    for i in range(x.size):
        exponent[i] = (exponent[i] + 1023) << 52
    for i in range(x.size):
        out[i] *= scratch[i]


@numba.njit(**PLAIN, fastmath={"contract"})
def exp32(x, scratch, out):
    """The same in single precision, to 2e-7."""
    for i in range(x.size):
        v = _FLOOR_32 if x[i] < _FLOOR_32 else x[i]
        out[i] = v
        scratch[i] = v * _LOG2E_32 + _ROUND_32
    for i in range(x.size):
        k = scratch[i] - _ROUND_32
        r = (out[i] - k * _LN2_HIGH_32) - k * _LN2_LOW_32
        p = _C7_32 * r + _C6_32
        p = p * r + _C5_32
        p = p * r + _C4_32
        p = p * r + _C3_32
        p = p * r + _HALF_32
        out[i] = (p * r + _ONE_32) * r + _ONE_32
    exponent = scratch.view(np.int32)
    for i in range(x.size):
        exponent[i] = (exponent[i] + np.int32(127)) << np.int32(23)
    for i in range(x.size):
        out[i] *= scratch[i]


@numba.njit(**SUMS)
def add_product(vector, matrix, out):
    """``out += vector @ matrix``, four rows of the matrix at a time."""
    rows, columns = matrix.shape
    whole = rows - rows % 4
    for j in range(0, whole, 4):
        a, b, c, d = vector[j], vector[j + 1], vector[j + 2], vector[j + 3]
        for i in range(columns):
            out[i] += (a * matrix[j, i] + b * matrix[j + 1, i]) + (c * matrix[j + 2, i] + d * matrix[j + 3, i])
    for j in range(whole, rows):
        for i in range(columns):
            out[i] += vector[j] * matrix[j, i]
