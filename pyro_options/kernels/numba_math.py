"""Compiler flags, functions and matrix products of the kernels. Only kernel modules import numba, when first used.

Kernels release the GIL and start no threads of their own: :meth:`pyro_options.kernels.Kernels.run` splits the rows
among as many threads as torch uses, so ``torch.set_num_threads`` is the only setting, and forked processes are safe.
"""

import math
from typing import Any

import numba
import numpy as np
from numba.extending import overload

PLAIN: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
LOOPS = {**PLAIN, "fastmath": {"contract"}}
SUMS = {**PLAIN, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}  # neither nnan nor ninf: both can occur

Index = np.uint64
ZERO, ONE, TWO, THREE, FOUR = (Index(n) for n in range(5))

_LOG2E = 1 / math.log(2.0)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the low bits

# tanh(x) = x P(x^2) / Q(x^2) for |x| < 9, beyond which single precision knows only 1: minimax, to 2e-8
_P0, _P1, _P2 = np.float32(0.99999998), np.float32(0.133810145), np.float32(3.4955748e-3)
_P3, _P4 = np.float32(2.0608857e-5), np.float32(1.33543375e-8)
_Q1, _Q2 = np.float32(0.4671433), np.float32(2.5876932e-2)
_Q3, _Q4 = np.float32(3.2856128e-4), np.float32(7.7764282e-7)
_NINE, _ONE, _HALF, _ZERO = np.float32(9), np.float32(1), np.float32(0.5), np.float32(0)
_LOG2E_32, _ROUND_32, _FLOOR_32 = np.float32(_LOG2E), np.float32(1.5 * 2.0**23), np.float32(-87)
_LN2_HIGH_32, _LN2_LOW_32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
_SQRT2, _TWO = np.float32(math.sqrt(2.0)), np.float32(2)
_L3, _L5, _L7, _L9 = (np.float32(2 / n) for n in (3, 5, 7, 9))
_C3, _C4, _C5, _C6, _C7 = (np.float32(1 / math.factorial(n)) for n in range(3, 8))


@numba.njit(**LOOPS)
def exp(x, scratch, out):
    """exp of flat ``x <= 0`` to 2e-16, in loops that vectorize as those with ``math.exp`` do not; NaN stays NaN."""
    for i in range(x.size):
        v = -700.0 if x[i] < -700.0 else x[i]
        rounded = v * _LOG2E + _ROUND
        k = rounded - _ROUND
        r = (v - k * _LN2_HIGH) - k * _LN2_LOW
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
        scratch[i] = np.int64((np.float64(rounded).view(np.int64) + 1023) << 52).view(np.float64)
    for i in range(x.size):
        out[i] *= scratch[i]


@numba.njit(**PLAIN)
def sigmoids(x, scratch, above, below):
    """The sigmoids of flat ``x`` and of ``-x``, neither of which rounds to one minus the other; exact beyond 700."""
    for i in range(x.size):
        below[i] = -abs(np.float64(x[i]))
    exp(below, scratch, above)
    for i in range(x.size):
        small = 0.0 if below[i] <= -700.0 else above[i]
        large = 1 / (1 + small)
        small *= large
        above[i] = large if x[i] > 0 else small
        below[i] = small if x[i] > 0 else large


@numba.njit(**PLAIN)
def log_sigmoid(x):
    """log of the sigmoid of a number, in double precision."""
    x = np.float64(x)
    return min(x, 0.0) - math.log1p(math.exp(-abs(x)))


@numba.njit(**PLAIN)
def log_add(a, b):
    """log(exp(a) + exp(b)), also of minus infinity."""
    high = max(a, b)
    if high == -math.inf:
        return high
    return high + math.log1p(math.exp(min(a, b) - high))


def tanh(x):
    """tanh of a number; in single precision to 4e-7, in loops that vectorize."""
    return math.tanh(x)


@overload(tanh, jit_options={"fastmath": {"contract"}})
def _tanh(x):
    def single(x):
        v = _NINE if x > _NINE else x  # NaN stays NaN
        v = -_NINE if v < -_NINE else v
        u = v * v
        above = (((_P4 * u + _P3) * u + _P2) * u + _P1) * u + _P0
        below = (((_Q4 * u + _Q3) * u + _Q2) * u + _Q1) * u + _ONE
        ratio = v * above / below
        ratio = _ONE if ratio > _ONE else ratio
        return -_ONE if ratio < -_ONE else ratio

    return single if x == numba.float32 else lambda x: math.tanh(x)


def exp_of(x):
    """exp of a number that is at most 0; in single precision to 2e-7."""
    return math.exp(x)


@overload(exp_of, jit_options={"fastmath": {"contract"}})
def _exp_of(x):
    def single(x):
        v = _FLOOR_32 if x < _FLOOR_32 else x
        rounded = v * _LOG2E_32 + _ROUND_32
        k = rounded - _ROUND_32
        r = (v - k * _LN2_HIGH_32) - k * _LN2_LOW_32
        p = (((_C7 * r + _C6) * r + _C5) * r + _C4) * r + _C3
        p = ((p * r + _HALF) * r + _ONE) * r + _ONE
        p *= np.int32((np.float32(rounded).view(np.int32) + 127) << 23).view(np.float32)
        return _ZERO if x < _FLOOR_32 else p

    return single if x == numba.float32 else lambda x: math.exp(x)


def log_of(x):
    """log of a positive number; in single precision to 2e-7, and at least -88.1, also of zero."""
    return math.log(x)


@overload(log_of, jit_options={"fastmath": {"contract"}})
def _log_of(x):
    def single(x):
        bits = np.float32(x).view(np.int32)
        mantissa = np.int32((bits & 0x7FFFFF) | 0x3F800000).view(np.float32)
        large = mantissa > _SQRT2
        exponent = np.float32((bits >> 23) - 126) if large else np.float32((bits >> 23) - 127)
        f = (mantissa * _HALF if large else mantissa) - _ONE
        s = f / (_TWO + f)
        z = s * s
        series = s * (_TWO + z * (_L3 + z * (_L5 + z * (_L7 + z * _L9))))
        result = exponent * _LN2_HIGH_32 + (series + exponent * _LN2_LOW_32)
        return result if x == x else x

    return single if x == numba.float32 else lambda x: math.log(x)


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
def four_products(vector, v, matrix, rows, columns, out):
    """The products of four vectors, at the offsets ``v``, with one matrix, ``out (4, columns)``; flat arrays.

    Each entry of the matrix that is read is used four times: twice to three times as fast as four :func:`add_product`.
    """
    v0, v1, v2, v3 = v
    o1, o2, o3 = columns, TWO * columns, THREE * columns
    for i in range(FOUR * columns):
        out[i] = 0.0
    m, even = ZERO, rows - rows % FOUR
    for j in range(ZERO, even, FOUR):
        m1, m2, m3 = m + columns, m + TWO * columns, m + THREE * columns
        a0, a1, a2, a3 = vector[v0 + j], vector[v0 + j + ONE], vector[v0 + j + TWO], vector[v0 + j + THREE]
        b0, b1, b2, b3 = vector[v1 + j], vector[v1 + j + ONE], vector[v1 + j + TWO], vector[v1 + j + THREE]
        c0, c1, c2, c3 = vector[v2 + j], vector[v2 + j + ONE], vector[v2 + j + TWO], vector[v2 + j + THREE]
        d0, d1, d2, d3 = vector[v3 + j], vector[v3 + j + ONE], vector[v3 + j + TWO], vector[v3 + j + THREE]
        for i in range(columns):
            w0, w1, w2, w3 = matrix[m + i], matrix[m1 + i], matrix[m2 + i], matrix[m3 + i]
            out[i] += (a0 * w0 + a1 * w1) + (a2 * w2 + a3 * w3)
            out[o1 + i] += (b0 * w0 + b1 * w1) + (b2 * w2 + b3 * w3)
            out[o2 + i] += (c0 * w0 + c1 * w1) + (c2 * w2 + c3 * w3)
            out[o3 + i] += (d0 * w0 + d1 * w1) + (d2 * w2 + d3 * w3)
        m = m3 + columns
    for j in range(even, rows):
        for i in range(columns):
            out[i] += vector[v0 + j] * matrix[m + i]
            out[o1 + i] += vector[v1 + j] * matrix[m + i]
            out[o2 + i] += vector[v2 + j] * matrix[m + i]
            out[o3 + i] += vector[v3 + j] * matrix[m + i]
        m += columns


@numba.njit(**SUMS)
def add_dots(vector, v, matrix, m, rows, columns, out, o):
    """``out += matrix @ vector``; faster than :func:`add_product` with the transpose if there are few rows."""
    for j in range(rows):
        total = vector.dtype.type(0)
        for i in range(columns):
            total += matrix[m + i] * vector[v + i]
        out[o + j] += total
        m += columns
