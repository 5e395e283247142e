r"""Numba kernel: products of a matrix of bits, packed into bytes, with a matrix of numbers (method of four Russians).

For each byte of eight columns, a table holds the sums of all :math:`2^8` subsets of the eight rows of the matrix that
they select; a row of the product is a sum of one table row for each byte. So bits are never unpacked, and an eighth of
the additions is left. The gradient with respect to the matrix goes the other way: the gradient of a row is added to one
table row for each byte. For the flat unsigned indexing see :func:`~pyro_options.kernels.numba_math.add_product`.

Shapes: ``packed (R, B)`` bytes, the most significant bit first; ``visited (V,)``, the bytes of a row that are used,
their number a multiple of eight; ``matrix (8 V, W)``; ``out (R, W)``.
"""

import numba
import numpy as np

from .numba_math import FOUR, LOOPS, ONE, THREE, TWO, ZERO, Index

_SEVEN, _EIGHT, _ROWS = Index(7), Index(8), Index(256)
_TILE = 96  # columns of the tables: eight of them stay in the second-level cache
_BLOCK = 8192  # rows that use a table before the next one is built
_SUMMED = 65536  # rows that are summed one after the other: the error of longer sums would grow


@numba.njit(**LOOPS)
def _fill(matrix, at, stride, width, tables):
    """Tables ``(8, 256, width)`` of the sums of subsets of eight times eight rows of the matrix, from ``at`` on."""
    for byte in range(_EIGHT):
        table = byte * _ROWS * width
        for j in range(width):
            tables[table + j] = 0.0
        for bit in range(_EIGHT):
            row, half = at + (byte * _EIGHT + _SEVEN - bit) * stride, ONE << bit
            for subset in range(half):
                without, with_row = table + subset * width, table + (half + subset) * width
                for j in range(width):
                    tables[with_row + j] = tables[without + j] + matrix[row + j]


@numba.njit(**LOOPS)
def _add_rows(tables, width, t0, t1, t2, t3, t4, t5, t6, t7, out, o):
    for j in range(width):
        low = (tables[t0 + j] + tables[t1 + j]) + (tables[t2 + j] + tables[t3 + j])
        high = (tables[t4 + j] + tables[t5 + j]) + (tables[t6 + j] + tables[t7 + j])
        out[o + j] += low + high


@numba.njit(**LOOPS)
def product(first, last, packed, visited, matrix, out):
    """Adds the product to rows ``first`` to ``last - 1`` of ``out``."""
    B, W = Index(packed.shape[1]), Index(out.shape[1])
    packed, matrix, out = packed.reshape(-1), matrix.reshape(-1), out.reshape(-1)
    space, groups = np.empty(8 * 256 * _TILE + 16, out.dtype), Index(len(visited) // 8)
    tables = space[(-space.ctypes.data % 64) // out.itemsize :]  # on cache lines: otherwise a third slower
    for begin in range(first, last, _BLOCK):
        end = min(last, begin + _BLOCK)
        for column in range(ZERO, W, Index(_TILE)):
            width = min(Index(_TILE), W - column)
            size = _ROWS * width
            for group in range(groups):
                _fill(matrix, group * _EIGHT * _EIGHT * W + column, W, width, tables)
                v = group * _EIGHT
                b0, b1, b2, b3 = visited[v], visited[v + ONE], visited[v + TWO], visited[v + Index(3)]
                b4, b5, b6, b7 = (
                    visited[v + Index(4)], visited[v + Index(5)], visited[v + Index(6)], visited[v + Index(7)],
                )  # fmt: skip
                for row in range(Index(begin), Index(end)):
                    at = row * B
                    _add_rows(
                        tables, width,
                        Index(packed[at + Index(b0)]) * width,
                        Index(packed[at + Index(b1)]) * width + size,
                        Index(packed[at + Index(b2)]) * width + TWO * size,
                        Index(packed[at + Index(b3)]) * width + Index(3) * size,
                        Index(packed[at + Index(b4)]) * width + Index(4) * size,
                        Index(packed[at + Index(b5)]) * width + Index(5) * size,
                        Index(packed[at + Index(b6)]) * width + Index(6) * size,
                        Index(packed[at + Index(b7)]) * width + Index(7) * size,
                        out, row * W + column,
                    )  # fmt: skip


@numba.njit(**LOOPS)
def _add_to_rows(grad, g, width, tables, t0, t1, t2, t3):
    for j in range(width):
        value = grad[g + j]
        tables[t0 + j] += value
        tables[t1 + j] += value
        tables[t2 + j] += value
        tables[t3 + j] += value


@numba.njit(**LOOPS)
def _add_subsets(tables, table, width, out, o, stride):
    """Adds to the rows of eight bits of ``out`` the rows of all bytes of a table that have them."""
    half = _ROWS >> ONE
    for bit in range(_EIGHT):
        for byte in range(half):
            low, high = table + byte * width, table + (half + byte) * width
            for j in range(width):
                out[o + bit * stride + j] += tables[high + j]
            for j in range(width):
                tables[low + j] += tables[high + j]
        half = half >> ONE


@numba.njit(**LOOPS)
def gradient(first, last, visited, packed, grad, out):
    """Adds to ``out (V / 4, 32, W)`` the transposed bits times ``grad (R, W)``, for ``visited (V / 4, 4)``.

    Rows are summed by the value of each byte, then over the values that have a bit: no bit is looked at.
    """
    R, B, W = Index(packed.shape[0]), Index(packed.shape[1]), Index(grad.shape[1])
    visited, packed, grad, out = visited.reshape(-1), packed.reshape(-1), grad.reshape(-1), out.reshape(-1)
    space = np.empty(4 * 256 * _TILE + 16, out.dtype)
    tables = space[(-space.ctypes.data % 64) // out.itemsize :]
    for begin in range(ZERO, R, Index(_SUMMED)):
        end = min(R, begin + Index(_SUMMED))
        for column in range(ZERO, W, Index(_TILE)):
            width = min(Index(_TILE), W - column)
            size = _ROWS * width
            for v in range(FOUR * Index(first), FOUR * Index(last), FOUR):
                for i in range(FOUR * size):
                    tables[i] = 0.0
                b0, b1 = Index(visited[v]), Index(visited[v + ONE])
                b2, b3 = Index(visited[v + TWO]), Index(visited[v + THREE])
                for row in range(begin, end):
                    at = row * B
                    _add_to_rows(
                        grad, row * W + column, width, tables,
                        Index(packed[at + b0]) * width,
                        Index(packed[at + b1]) * width + size,
                        Index(packed[at + b2]) * width + TWO * size,
                        Index(packed[at + b3]) * width + THREE * size,
                    )  # fmt: skip
                for i in range(FOUR):
                    _add_subsets(tables, i * size, width, out, (v + i) * _EIGHT * W + column, W)
