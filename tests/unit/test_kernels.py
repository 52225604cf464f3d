"""Kernels: against SciPy and NumPy, and bits that do not depend on the number of threads."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from proptrain.errors import InvalidInputError
from proptrain.kernels import dense_product, sparse_product, transposed_product

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-13}
types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def sparse(n, m, dtype, index_type=np.int32, density=0.2, seed=0):
    matrix = sp.random_array((n, m), density=density, rng=np.random.default_rng(seed), format="csr")
    indices, indptr = matrix.indices.astype(index_type), matrix.indptr.astype(index_type)
    result = sp.csr_array((matrix.data.astype(dtype), indices, indptr), shape=(n, m))
    assert result.indices.dtype == index_type
    return result


def dense(n, m, dtype, seed=1):
    return np.random.default_rng(seed).standard_normal((n, m)).astype(dtype)


def same(got, wanted, dtype):
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])


@types
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("n_columns", [0, 1, 7, 64])
def test_sparse_product_is_scipys(dtype, index_type, n_columns):
    matrix, right = sparse(50, 30, dtype, index_type), dense(30, n_columns, dtype)
    same(sparse_product(matrix, right), matrix @ right, dtype)


@types
@pytest.mark.parametrize("matrix_dtype", [np.float32, np.float64])
def test_the_result_has_the_type_of_the_dense_matrix(dtype, matrix_dtype):
    matrix, right = sparse(20, 10, matrix_dtype), dense(10, 3, dtype)
    wanted = matrix.toarray().astype(np.float64) @ right.astype(np.float64)
    got = sparse_product(matrix, right)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@types
def test_empty_rows_give_zeros_not_leftovers(dtype):
    matrix = sp.csr_array(
        (np.array([2.0, 3.0], dtype), np.array([1, 0]), np.array([0, 0, 1, 1, 2, 2])), shape=(5, 2)
    )
    for _ in range(3):  # fresh memory is often zero the first time
        got = sparse_product(matrix, np.array([[1, 10], [2, 20]], dtype))
        np.testing.assert_array_equal(got, [[0, 0], [4, 40], [0, 0], [3, 30], [0, 0]])
        got[:] = np.nan


@types
def test_entries_out_of_order_and_repeated_are_all_counted(dtype):
    parts = (np.array([1, 2, 4], dtype), np.array([2, 0, 2]), np.array([0, 3]))
    matrix = sp.csr_array(parts, shape=(1, 3))
    got = sparse_product(matrix, np.array([[1], [10], [100]], dtype))
    np.testing.assert_array_equal(got, [[502]])


@types
@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_sparse_products_without_rows_or_columns(dtype, shape):
    got = sparse_product(sp.csr_array(shape, dtype=dtype), dense(shape[1], 2, dtype))
    same(got, np.zeros((shape[0], 2)), dtype)


@types
def test_sparse_product_takes_any_layout_and_read_only_arrays(dtype):
    matrix, right = sparse(40, 12, dtype), dense(12, 6, dtype)
    wanted = sparse_product(matrix, right)
    for array in (matrix.data, matrix.indices, matrix.indptr, right):
        array.flags.writeable = False
    wide = np.repeat(right, 2, axis=1)
    for other in (right, np.asfortranarray(right), wide[:, ::2], right[::-1][::-1]):
        before = other.copy()
        np.testing.assert_array_equal(sparse_product(matrix, other), wanted)
        np.testing.assert_array_equal(other, before)


@types
@pytest.mark.parametrize("sizes", [(200, 64, 7), (33, 17, 1), (5, 1, 4), (0, 3, 2), (9, 16, 16)])
def test_transposed_product_is_numpys(dtype, sizes):
    n, h, c = sizes
    left, right = dense(n, h, dtype, 2), dense(n, c, dtype, 3)
    same(transposed_product(left, right), left.T @ right, dtype)


@types
def test_transposed_product_takes_any_layout_and_read_only_arrays(dtype):
    left, right = dense(30, 20, dtype, 2), dense(30, 5, dtype, 3)
    wanted = transposed_product(left, right)
    for array in (left, right):
        array.flags.writeable = False
    got = transposed_product(np.asfortranarray(left), np.repeat(right, 2, axis=1)[:, ::2])
    np.testing.assert_array_equal(got, wanted)
    # what autograd hands over when a sum is differentiated: one number, seen n times
    ones = np.broadcast_to(np.ones(1, dtype), right.shape)
    same(transposed_product(left, ones), left.T @ np.ones(right.shape), dtype)


@types
def test_sums_are_taken_in_stored_order_with_fused_multiply_add(dtype):
    # Σ of one large and many small numbers: only the order decides the bits.
    size = 1001
    values = np.full(size, 1, dtype)
    values[0] = 1 / np.finfo(dtype).eps
    row = sp.csr_array((values, np.arange(size), np.array([0, size])), shape=(1, size))
    in_order = dtype(0)
    for value in values:
        in_order = dtype(in_order + value)
    assert sparse_product(row, np.ones((size, 1), dtype))[0, 0] == in_order
    assert transposed_product(values[:, None], np.ones((size, 1), dtype))[0, 0] == in_order


PROGRAM = """
import hashlib, numba, numpy as np, scipy.sparse as sp
from proptrain.errors import InvalidInputError
from proptrain.kernels import dense_product, sparse_product, transposed_product
random = np.random.default_rng(0)
matrix = sp.random_array((997, 300), density=0.05, rng=random, format="csr", dtype=np.float32)
right = random.standard_normal((300, 64)).astype(np.float32)
left = random.standard_normal((997, 64)).astype(np.float32)
for threads in {threads}:
    numba.set_num_threads(threads)
    product = sparse_product(matrix, right)
    bits = product.tobytes() + transposed_product(left, product).tobytes()
    print(hashlib.sha256(bits).hexdigest())
"""


def test_bits_do_not_depend_on_the_number_of_threads():
    program = PROGRAM.format(threads=(1, 2))
    if numba.config.NUMBA_NUM_THREADS < 2:  # this process may only have been given one
        environment = {**os.environ, "NUMBA_NUM_THREADS": "2"}
        environment.pop("OMP_NUM_THREADS", None)
    else:
        environment = dict(os.environ)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    one, two = done.stdout.split()
    assert one == two


def test_works_where_compiled_code_cannot_be_kept(tmp_path):
    (tmp_path / "file").touch()  # no folder can be made below a file, not even by root
    code = (
        "import numpy as np; from proptrain.kernels import transposed_product;"
        "print(transposed_product(np.ones((3, 1)), np.ones((3, 1)))[0, 0])"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "file" / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "3.0"


@types
def test_dense_product_is_numpys(dtype):
    random = np.random.default_rng(3)
    left = random.normal(size=(50, 9)).astype(dtype)
    right = random.normal(size=(9, 4)).astype(dtype)
    np.testing.assert_allclose(
        dense_product(left, right), left @ right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )
    transposed = np.asfortranarray(right)  # as the gradient of the hidden layer comes
    np.testing.assert_array_equal(dense_product(left, transposed), dense_product(left, right))


@pytest.mark.parametrize(
    "product",
    [
        lambda: sparse_product(sp.csr_array(np.ones((2, 50_000))), np.ones((3, 1))),
        lambda: dense_product(np.ones((2, 4)), np.ones((3, 1))),
        lambda: transposed_product(np.ones((2, 4)), np.ones((3, 1))),
    ],
)
def test_sizes_that_do_not_fit_are_refused_before_memory_is_read(product):
    with pytest.raises(InvalidInputError, match="inner sizes are equal, got"):
        product()
