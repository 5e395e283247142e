r"""Numba kernel: logits of Kumaraswamy sticks as a transform of Exp(1) draws, their log-densities, and all derivatives.

With :math:`E` an Exp(1) draw and :math:`y = E / b`,

.. math:: a\log v = \log(1 - e^{-y}), \qquad x = \log v - \log(1-v), \qquad
    \log q(x) = \log ab + a\log v + y - E + \log(1-v)

because :math:`1 - v^a = e^{-y}`: no cancellation, and one pass for what autograd does in hundreds of operations.
Always in float64. Above ``FAR``, :math:`1 - v` is :math:`e^{-y} / a` to the last digit.

Shapes: all ``(S,)``; ``by_a`` and ``by_b`` are the derivatives of x, the last three the partial ones of
:math:`\log q(x)`.
"""

import math

import numba
import numpy as np

from .numba_math import PLAIN

FAR = 40.0


@numba.njit(**PLAIN)
def draw(first, last, exponential, a, b, logits, log_density, by_a, by_b, density_by_x, density_by_a, density_by_b):
    """Sticks ``first`` to ``last - 1``."""
    for i in range(first, last):
        E, A, B = np.float64(exponential[i]), np.float64(a[i]), np.float64(b[i])  # float() would stay single in numba
        y = E / B
        power = math.log1p(-math.exp(-y)) if y > 0.7 else math.log(-math.expm1(-y))  # a log v
        log_v, odds = power / A, math.expm1(min(y, FAR))  # v^a / (1 - v^a)
        left = -math.expm1(log_v)  # 1 - v
        if y > FAR:
            log_left, ratio, rate, odds_left, odds_log_v = float(-y - math.log(A)), 1.0, y, 1.0, -1.0 / A
        else:
            log_left, ratio, rate = math.log(left), -log_v / left, y / (odds * left * A)
            odds_left, odds_log_v = A * odds * left, odds * log_v
        logits[i] = log_v - log_left
        log_density[i] = math.log(A) + math.log(B) + power + y - E + log_left
        by_a[i] = ratio / A
        by_b[i] = -rate / B
        density_by_x[i] = A * left - (B - 1.0) * odds_left - math.exp(log_v)
        density_by_a[i] = 1.0 / A + log_v - (B - 1.0) * odds_log_v
        density_by_b[i] = 1.0 / B - y
