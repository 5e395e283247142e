"""Products that kernels are made of, against numpy."""

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from pyro_options.kernels.numba_math import Index, add_dots, add_product  # noqa: E402


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
