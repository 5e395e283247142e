"""Functions that kernels are made of, against numpy."""

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from pyro_options.kernels.numba_math import Index, add_dots, add_product, exp_of, log_of, sigmoids, tanh  # noqa: E402


@numba.njit
def each_tanh(x, out):
    for i in range(len(x)):
        out[i] = tanh(x[i])


@numba.njit
def each_exp(x, out):
    for i in range(len(x)):
        out[i] = exp_of(x[i])


@numba.njit
def each_log(x, out):
    for i in range(len(x)):
        out[i] = log_of(x[i])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-7), (np.float64, 1e-15)])
def test_logarithms(dtype, tolerance):
    x = np.concatenate([np.linspace(1e-3, 4, 100_000), np.logspace(-37, 37, 10_000), [1.0]]).astype(dtype)
    out = np.empty_like(x)
    each_log(x, out)
    np.testing.assert_allclose(out, np.log(x.astype(np.float64)), rtol=tolerance, atol=tolerance)
    assert out[-1] == 0
    each_log(np.array([np.nan], dtype), out[:1])
    assert np.isnan(out[0])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 4e-7), (np.float64, 1e-15)])
@pytest.mark.parametrize(("ours", "theirs", "low", "high"), [(each_tanh, np.tanh, -20, 20), (each_exp, np.exp, -86, 0)])
def test_elementary_functions(ours, theirs, low, high, dtype, tolerance):
    x = np.linspace(low, high, 100_000).astype(dtype)
    out = np.empty_like(x)
    ours(x, out)
    np.testing.assert_allclose(out, theirs(x.astype(np.float64)), rtol=tolerance, atol=0)
    assert abs(out).max() <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_numbers(dtype):
    out = np.empty(3, dtype)
    each_tanh(np.array([np.nan, np.inf, -np.inf], dtype), out)
    np.testing.assert_array_equal(out, np.array([np.nan, 1, -1], dtype))
    each_exp(np.array([np.nan, 0, -np.inf], dtype), out)
    assert np.isnan(out[0])
    assert out[1] == 1
    assert out[2] == 0


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (4, 8), (8, 3), (11, 33)])
def test_products_of_parts_of_flat_arrays(rows, columns):
    rng = np.random.default_rng(rows)
    vector, matrix, out = rng.standard_normal(20), rng.standard_normal(400), rng.standard_normal(50)
    place = {"v": 2, "m": 7, "o": 5}
    part = matrix[7 : 7 + rows * columns]
    product, dots = out.copy(), out.copy()
    product[5 : 5 + columns] += vector[2 : 2 + rows] @ part.reshape(rows, columns)
    dots[5 : 5 + columns] += part.reshape(columns, rows) @ vector[2 : 2 + rows]
    v, m, o = (Index(place[name]) for name in "vmo")
    ours = out.copy()
    add_product(vector, v, matrix, m, Index(rows), Index(columns), ours, o)
    np.testing.assert_allclose(ours, product, rtol=1e-12)
    ours = out.copy()
    add_dots(vector, v, matrix, m, Index(columns), Index(rows), ours, o)
    np.testing.assert_allclose(ours, dots, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sigmoids_of_both_signs_keep_their_digits(dtype):
    x = np.array([-1e4, -800.0, -50.0, -1.5, 0.0, 0.3, 40.0, 690.0, 1e4, np.inf, -np.inf, np.nan], dtype=dtype)
    above, below = np.empty(x.size), np.empty(x.size)
    sigmoids(x, np.empty(x.size), above, below)
    with np.errstate(over="ignore"):
        expected = [1 / (1 + np.exp(-sign * x.astype(np.float64))) for sign in (1, -1)]
    np.testing.assert_allclose(above, expected[0], rtol=1e-15, atol=1e-304)
    np.testing.assert_allclose(below, expected[1], rtol=1e-15, atol=1e-304)
    assert above[0] == 0.0 and below[0] == 1.0  # padding must be the identity
