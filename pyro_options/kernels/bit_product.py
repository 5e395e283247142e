r"""Numba kernel: products of a matrix of bits, packed into bytes, with a matrix of numbers (method of four Russians).

For each byte of eight columns, a table holds the sums of all :math:`2^8` subsets of the eight rows of the matrix that
they select; a row of the product is a sum of one table row for each byte. So bits are never unpacked, and an eighth of
the additions is left. Its gradient with respect to the matrix is the product of the transposed bits with the gradient
of the result. For the flat unsigned indexing see :func:`~pyro_options.kernels.numba_math.add_product`.

Shapes: ``packed (R, B)`` bytes, the most significant bit first; ``visited (V,)``, the bytes of a row that are used,
their number a multiple of eight; ``matrix (8 V, W)``; ``out (R, W)``.
"""

import numba
import numpy as np

from .numba_math import LOOPS, ONE, PLAIN, TWO, ZERO, Index

_SEVEN, _EIGHT, _ROWS = Index(7), Index(8), Index(256)
_TILE = 96  # columns of the tables: eight of them stay in the second-level cache
_BLOCK = 8192  # rows that use a table before the next one is built

_MASKS = Index(0x00AA00AA00AA00AA), Index(0x0000CCCC0000CCCC), Index(0x00000000F0F0F0F0)
_FAR = Index(28), Index(14)


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
    tables, groups = np.empty(8 * 256 * _TILE, out.dtype), Index(len(visited) // 8)
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


@numba.njit(**PLAIN)
def transpose(first, last, visited, packed, out):
    """Bits of the visited bytes, packed along the rows, in parts: ``out (P, V, 8, L)`` for ``packed (R, B)``.

    Part p has the rows from ``8 L p`` on. Bits beyond the last row are zero.
    """
    (R, _), (P, _, _, L) = packed.shape, out.shape
    for part in range(P):
        for v in range(first, last):
            b = visited[v]
            for place in range(L):
                start, bits = 8 * (part * L + place), ZERO
                for i in range(8):  # an 8 x 8 matrix of bits in one word
                    bits = (bits << _EIGHT) | (Index(packed[start + i, b]) if start + i < R else ZERO)
                swap = (bits ^ (bits >> _SEVEN)) & _MASKS[0]
                bits = bits ^ swap ^ (swap << _SEVEN)
                swap = (bits ^ (bits >> _FAR[1])) & _MASKS[1]
                bits = bits ^ swap ^ (swap << _FAR[1])
                swap = (bits ^ (bits >> _FAR[0])) & _MASKS[2]
                bits = bits ^ swap ^ (swap << _FAR[0])
                for i in range(8):
                    out[part, v, i, place] = np.uint8((bits >> Index(56 - 8 * i)) & Index(255))
