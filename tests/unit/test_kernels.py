"""Kernels: against SciPy, NumPy and exact arithmetic; laws of order, of columns and of chance."""

from __future__ import annotations

import os
import pickle
import platform
import shutil
import signal
import subprocess
import sys
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.special
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from processes import HANGS
from proptrain.data.graph import EdgeCounts, Graph
from proptrain.errors import InvalidInputError
from proptrain.kernels import (
    PlainOperator,
    active_gradients,
    active_product,
    agreement,
    columns,
    dense_product,
    drop_entries,
    dropout_scale,
    log_softmax,
    pass_active,
    propagate_plain,
    propagate_signal,
    propagation_step,
    rectify,
    sparse_product,
    threads,
    transposed,
    transposed_product,
    transposed_sparse_product,
    trusted,
)
from proptrain.kernels.columns import aligned_empty, aligned_zeros
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.normalisation import factors_of, plain_operator
from proptrain.propagate.schemes import PPR
from strategies import adjacencies_with_signals, node_sets

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-13}
# Below, at and above every width that has a kernel of its own (up to 64), and sums of them. Each
# kernel takes seconds to compile for each width and kind of numbers, so few tests have them all.
COLUMNS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 32, 33, 48, 49, 64, 65, 100]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
types = pytest.mark.parametrize("dtype", [np.float32, np.float64])
index_types = pytest.mark.parametrize("index_type", [np.int32, np.int64])
column_counts = pytest.mark.parametrize("n_columns", COLUMNS)


def sparse(n, m, dtype, index_type=np.int32, density=0.2, seed=0):
    random = np.random.default_rng(seed)
    values = random.random((n, m))
    matrix = sp.csr_array(np.where(random.random((n, m)) < density, values, 0))
    data = (matrix.data - 0.5).astype(dtype)
    indices, indptr = matrix.indices.astype(index_type), matrix.indptr.astype(index_type)
    result = sp.csr_array((data, indices, indptr), shape=(n, m))
    assert result.indices.dtype == index_type
    return result


def dense(n, m, dtype, seed=1):
    return np.random.default_rng(seed).standard_normal((n, m)).astype(dtype)


def same(got, wanted, dtype):
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])


PRODUCTS = {
    "sparse": (sparse_product, sparse, False),
    "transposed sparse": (transposed_sparse_product, sparse, True),
    "dense": (dense_product, dense, False),
    "transposed dense": (transposed_product, dense, True),
}
products = pytest.mark.parametrize(
    ("product", "make", "transposed"), PRODUCTS.values(), ids=PRODUCTS.keys()
)


# --- the values -------------------------------------------------------------------------------


@types
@products
@column_counts
def test_products_are_the_libraries(product, make, transposed, dtype, n_columns):
    left, right = make(30, 12, dtype), dense(30 if transposed else 12, n_columns, dtype)
    same(product(left, right), (left.T if transposed else left) @ right, dtype)


@types
@pytest.mark.parametrize("n_columns", [3, 16, 65])
def test_indices_may_have_64_bits(dtype, n_columns):
    wide, narrow = (sparse(30, 12, dtype, index_type) for index_type in (np.int64, np.int32))
    for product, n in ((sparse_product, 12), (transposed_sparse_product, 30)):
        right = dense(n, n_columns, dtype)
        np.testing.assert_array_equal(product(wide, right), product(narrow, right))


@types
@pytest.mark.parametrize("matrix_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("product", [sparse_product, transposed_sparse_product])
def test_the_result_has_the_type_of_the_dense_matrix(product, dtype, matrix_dtype):
    matrix, right = sparse(10, 10, matrix_dtype), dense(10, 3, dtype)
    left = matrix if product is sparse_product else matrix.T
    got = product(matrix, right)
    assert got.dtype == dtype
    wanted = left.toarray().astype(np.float64) @ right.astype(np.float64)
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
    got = transposed_sparse_product(matrix, np.array([[10]], dtype))
    np.testing.assert_array_equal(got, [[20], [0], [50]])


@types
@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (0, 0), (4, 3)])
def test_products_of_matrices_without_rows_columns_or_entries_are_zeros(dtype, shape):
    n, m = shape
    empty, zeros = sp.csr_array(shape, dtype=dtype), np.zeros(shape, dtype)
    same(sparse_product(empty, dense(m, 2, dtype)), np.zeros((n, 2)), dtype)
    same(transposed_sparse_product(empty, dense(n, 2, dtype)), np.zeros((m, 2)), dtype)
    same(dense_product(zeros, dense(m, 2, dtype)), np.zeros((n, 2)), dtype)
    same(transposed_product(zeros, dense(n, 2, dtype)), np.zeros((m, 2)), dtype)


def layouts(array):
    """The same numbers, read-only, in every order that NumPy can hand them over in."""
    wide = np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)
    flipped = np.ascontiguousarray(array[::-1])
    for view in (array.copy(), np.asfortranarray(array), wide[::2, ::3], flipped[::-1]):
        view.flags.writeable = False
        np.testing.assert_array_equal(view, array)
        yield view


@types
@pytest.mark.parametrize("n_columns", [6, 8])  # to be padded or not
def test_any_layout_and_read_only_arrays_give_the_same_bits(dtype, n_columns):
    matrix, left = sparse(20, 12, dtype), dense(20, 12, dtype, seed=2)
    inner, outer = dense(12, n_columns, dtype), dense(20, n_columns, dtype)
    calls = [
        (lambda right: sparse_product(matrix, right), inner),
        (lambda right: transposed_sparse_product(matrix, right), outer),
        (lambda right: dense_product(left, right), inner),
        (lambda right: transposed_product(left, right), outer),
        (lambda other: dense_product(other, inner), left),
        (lambda other: transposed_product(other, outer), left),
        (lambda signal: propagate_signal(matrix[:12], signal, (0.9, 0.5), np.array([3])), inner),
        (lambda scores: np.hstack(log_softmax(scores)), inner),
        (lambda hidden: rectify(hidden, inner[0]), outer),
        (lambda hidden: rectify(hidden, inner[0], 0.5, np.random.default_rng(0)), outer),
        (lambda gradient: pass_active(gradient, outer, 2.0), outer),
    ]
    wanted = [call(array) for call, array in calls]
    for array in (matrix.data, matrix.indices, matrix.indptr, left, inner, outer):
        array.flags.writeable = False
    for (call, array), result in zip(calls, wanted, strict=True):
        for view in layouts(array):
            got = call(view)
            np.testing.assert_array_equal(got, result)
            assert got.flags.writeable
            assert not np.shares_memory(got, view)


@types
def test_one_number_seen_many_times_is_a_matrix_too(dtype):
    # what autograd hands over when a sum is differentiated
    ones = np.broadcast_to(np.ones(1, dtype), (30, 5))
    matrix, left = sparse(30, 20, dtype), dense(30, 20, dtype)
    same(transposed_product(left, ones), left.T @ np.ones((30, 5)), dtype)
    same(transposed_sparse_product(matrix, ones), matrix.T @ np.ones((30, 5)), dtype)
    same(dense_product(ones, left[:5]), np.ones((30, 5)) @ left[:5], dtype)
    np.testing.assert_array_equal(pass_active(ones, left[:, :5], 3.0), 3 * (left[:, :5] > 0))


@pytest.mark.parametrize(
    ("product", "shapes"),
    [
        (lambda: sparse_product(sp.csr_array((2, 50_000)), np.ones((3, 1))), "(2, 50000) (3, 1)"),
        (
            lambda: transposed_sparse_product(sp.csr_array((9, 2)), np.ones((3, 1))),
            "(2, 9) (3, 1)",
        ),
        (lambda: dense_product(np.ones((2, 4)), np.ones((3, 1))), "(2, 4) (3, 1)"),
        (lambda: transposed_product(np.ones((2, 4)), np.ones((3, 1))), "(4, 2) (3, 1)"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_before_memory_is_read(product, shapes):
    with pytest.raises(InvalidInputError, match="inner sizes are equal, got") as info:
        product()
    assert shapes.replace(") (", ") and (") in str(info.value)


# --- the order of the sums --------------------------------------------------------------------


def fused(left, right):
    """left @ right, entry after entry by fused multiply-adds: exact, then rounded once a step."""
    number = right.dtype.type
    result = np.zeros((left.shape[0], right.shape[1]), right.dtype)
    for row in range(left.shape[0]):
        for i in range(right.shape[1]):
            total = number(0)
            for entry in range(left.indptr[row], left.indptr[row + 1]):
                value, other = float(left.data[entry]), float(right[left.indices[entry], i])
                total = number(float(Fraction(float(total)) + Fraction(value) * Fraction(other)))
            result[row, i] = total
    return result


def has_fused_multiply_add():
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return not x86 or bool(llvm.get_host_cpu_features().get("fma"))


@pytest.mark.skipif(not has_fused_multiply_add(), reason="this CPU rounds after the product too")
@types
@products
@pytest.mark.parametrize("n_columns", [3, 8, 16, 37])
def test_sums_are_taken_in_stored_order_with_one_rounding_a_step(
    product, make, transposed, dtype, n_columns
):
    left = make(30, 12, dtype)
    in_order = sp.csr_array(left.T if transposed else left)
    right = dense(in_order.shape[1], n_columns, dtype)
    np.testing.assert_array_equal(product(left, right), fused(in_order, right))


@types
@pytest.mark.parametrize("n_rows", range(1, 10))
@pytest.mark.parametrize("n_columns", [3, 16])
def test_rows_taken_four_at_a_time_are_all_there(dtype, n_rows, n_columns):
    left, right = dense(n_rows, 12, dtype), dense(12, n_columns, dtype)
    one_by_one = np.vstack([dense_product(row[None], right) for row in left])
    np.testing.assert_array_equal(dense_product(left, right), one_by_one)


@types
def test_the_order_in_which_entries_are_stored_decides_the_bits(dtype):
    # Σ of one large and many small numbers: large first, the small ones are lost one by one.
    size, large = 1001, 2 / np.finfo(dtype).eps
    ones = np.ones((size, 1), dtype)
    for place, wanted in ((0, large), (size - 1, large + size - 1)):
        values = np.ones(size, dtype)
        values[place] = large
        row = sp.csr_array((values, np.arange(size), np.array([0, size])), shape=(1, size))
        assert sparse_product(row, ones)[0, 0] == wanted
        assert transposed_sparse_product(sp.csr_array(row.T), ones)[0, 0] == wanted
        assert dense_product(values[None], ones)[0, 0] == wanted
        assert transposed_product(values[:, None], ones)[0, 0] == wanted


@types
@products
def test_a_column_does_not_depend_on_the_columns_beside_it(product, make, transposed, dtype):
    left, right = make(60, 40, dtype), dense(60 if transposed else 40, 37, dtype)
    one_by_one = np.hstack([product(left, column[:, None]) for column in right.T])
    np.testing.assert_array_equal(product(left, right), one_by_one)


@types
def test_a_transposed_product_is_the_product_with_the_transpose_bit_by_bit(dtype):
    matrix, right = sparse(60, 40, dtype, density=0.5), dense(60, 37, dtype)
    transpose = sp.csr_array(matrix.T)
    assert transpose.has_sorted_indices
    wanted = sparse_product(transpose, right)
    np.testing.assert_array_equal(transposed_sparse_product(matrix, right), wanted)
    np.testing.assert_array_equal(transposed_product(matrix.toarray(), right), wanted)


# --- where compiled code is kept --------------------------------------------------------------


def run_with_cache(folder, code):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


USE_KERNELS = (
    "import numpy as np, scipy.sparse as sp;"
    "from proptrain.kernels import propagate_signal, transposed_product;"
    "print(transposed_product(np.ones((3, 1)), np.ones((3, 1)))[0, 0],"
    "propagate_signal(sp.csr_array(2 * np.eye(1)), np.ones((1, 1)), (0.5,))[0, 0])"
)


def test_works_where_compiled_code_cannot_be_kept(tmp_path):
    (tmp_path / "file").touch()  # no folder can be made below a file, not even by root
    assert run_with_cache(tmp_path / "file" / "cache", USE_KERNELS) == "3.0 1.5"


def test_works_where_the_disk_is_full(tmp_path):
    pytest.importorskip("resource", reason="files are limited in size by Unix alone")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256));"
    assert run_with_cache(tmp_path / "cache", limit + USE_KERNELS) == "3.0 1.5"
    kept = [file for file in (tmp_path / "cache").rglob("*.nbc") if file.stat().st_size]
    assert not kept  # or nothing was tried
    assert list((tmp_path / "cache").rglob("*"))


@pytest.mark.parametrize("content", [b"", b"no code at all"], ids=["empty", "other"])
def test_damaged_compiled_code_is_compiled_anew(tmp_path, content):
    assert run_with_cache(tmp_path, USE_KERNELS) == "3.0 1.5"
    kept = list(tmp_path.rglob("*.nbc"))
    assert kept
    for file in kept:
        file.write_bytes(content)
    assert run_with_cache(tmp_path, USE_KERNELS) == "3.0 1.5"
    assert all(file.read_bytes() != content for file in kept)


def test_processes_that_compile_at_once_keep_code_of_their_own(tmp_path):
    # One has chosen where to write when another comes, who has not seen what it noted down.
    (tmp_path / "halves.py").write_text("""if True:
        from numba.core import caching
        from proptrain.kernels.compiling import compiled_exactly
        def half(number):
            return number / 2
        one, other, later = map(compiled_exactly, (half, half, half))
    """)
    code = f"""if True:
        import sys
        import numpy as np
        sys.path.insert(0, {str(tmp_path)!r})
        from halves import later, one, other
        other._cache._cache_file._load_index = dict
        save = one._cache._cache_file._save_data
        def save_late(*given):
            other(np.float64(1))
            save(*given)
        one._cache._cache_file._save_data = save_late
        one(np.float32(1))
        later(np.float64(1)), later(np.float32(1))
        print(*(str(kind) for (kind,) in later.signatures), *later.stats.cache_hits.values())
    """
    assert run_with_cache(tmp_path / "cache", code) == "float64 float32 1 1"


def test_code_of_another_time_is_compiled_anew(tmp_path):
    file, told = tmp_path / "halves.py", []
    for age, part in enumerate(("number / 2", "number / 4", "number * number")):
        file.write_text(
            "from proptrain.kernels.compiling import compiled\n"
            f"@compiled\ndef part(number):\n    return {part}\n"
        )
        os.utime(file, (age, age))
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import halves;"
        code += "print(halves.part(8.0), sum(halves.part.stats.cache_hits.values()))"
        told += [run_with_cache(tmp_path / "cache", code) for _ in range(2)]
    assert told == ["4.0 0", "4.0 1", "2.0 0", "2.0 1", "64.0 0", "64.0 1"]
    assert len(list(tmp_path.rglob("*.nbc"))) == 1  # the old code is gone


class Trace:
    """Leaves a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def may_write_all(folder, file):
    folder.chmod(0o777)


def may_replace_the_folder(folder, file):
    folder.parent.chmod(0o777)


def may_write_the_file(folder, file):
    file.chmod(0o666)


def own_the_folder(folder, file):
    os.chown(folder, 12345, -1)


def own_a_file_beside_ours(folder, file):
    folder.chmod(0o1777)
    os.chown(file, 12345, -1)


def own_a_link_to_ours(folder, file):
    folder.chmod(0o1777)
    file.rename(folder.parent / "content")
    file.symlink_to(folder.parent / "content")
    os.chown(file, 12345, -1, follow_symlinks=False)


def may_do_nothing(folder, file):
    folder.chmod(0o755)


def have_files_beside_ours(folder, file):
    folder.chmod(0o1777)


HALVES = """from proptrain.kernels.compiling import compiled
@compiled
def half(number):
    return number / 2
@compiled
def double(number):
    return number * 2
"""


def run_halves(source, cache):
    code = f"import sys; sys.path.insert(0, {str(source)!r}); import halves;"
    code += "print(halves.half(8.0), halves.double(8.0))"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "4.0 16.0\n"
    return done.stderr


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """A folder with a module of two compiled functions, and what they were compiled to."""
    folder = tmp_path_factory.mktemp("halves")
    (folder / "halves.py").write_text(HALVES)
    run_halves(folder, folder / "cache")
    return folder


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no owners and modes")
@pytest.mark.parametrize(
    ("others", "is_run"),
    [
        (may_write_all, False),
        (may_replace_the_folder, False),
        (may_write_the_file, False),
        (own_the_folder, False),
        (own_a_file_beside_ours, False),
        (own_a_link_to_ours, False),
        (may_do_nothing, True),
        (have_files_beside_ours, True),
    ],
)
def test_what_others_may_have_written_is_not_unpickled(tmp_path, halves, others, is_run):
    if others.__name__.startswith("own") and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    shutil.copytree(halves / "cache", tmp_path / "cache")
    (file,) = (tmp_path / "cache").rglob("halves.half*.nbc")
    file.write_bytes(pickle.dumps(Trace(tmp_path / "trace")))
    others(file.parent, file)
    said = run_halves(halves, tmp_path / "cache")
    assert (tmp_path / "trace").exists() == is_run  # or the pickle would leave none anyway
    assert said.count("UserWarning") == (0 if is_run else 1)
    assert is_run or f"Compiled code in {tmp_path / 'cache'}" in said


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no owners and modes")
@pytest.mark.parametrize(
    ("name", "members", "is_own"),
    [("ada", [], True), ("ada", ["ada"], True), ("ada", ["eve"], False), ("users", [], False)],
)
def test_a_group_of_ones_own_may_write(monkeypatch, tmp_path, name, members, is_own):
    # many systems make a group for each user, and let it write what the user makes
    tmp_path.chmod(0o770)
    number = tmp_path.stat().st_gid
    user = SimpleNamespace(pw_name="ada", pw_gid=number)
    group = SimpleNamespace(gr_name=name, gr_gid=number, gr_mem=members)
    monkeypatch.setattr("pwd.getpwuid", lambda _: user)
    monkeypatch.setattr("grp.getgrgid", lambda _: group)
    trusted._is_our_own.cache_clear()
    assert trusted.is_trusted(tmp_path) == is_own
    trusted._is_our_own.cache_clear()
    tmp_path.chmod(0o777)
    assert not trusted.is_trusted(tmp_path)


def test_the_second_process_compiles_nothing_for_a_whole_fit(tmp_path):
    code = """if True:
        import numpy as np, scipy.sparse as sp
        from numba.core.event import install_recorder
        from proptrain import Graph, PTAClassifier
        graph, features = Graph(sp.csr_array(np.ones((6, 6)))), sp.eye_array(6, format="csr")
        with install_recorder("numba:compile") as recorder:
            model = PTAClassifier(n_hidden=4, max_epochs=2)
            model.fit(features, np.array([0, 1, 0, 1, -1, -1]), graph=graph).predict()
        print(len(recorder.buffer) > 0)
    """
    assert [run_with_cache(tmp_path, code) for _ in range(2)] == ["True", "False"]


# --- propagation ------------------------------------------------------------------------------


@types
@settings(max_examples=40, derandomize=True, deadline=None)
@given(drawn=adjacencies_with_signals(), alpha=st.sampled_from([0.1, 0.5, 1.0]), data=st.data())
def test_propagation_is_the_references(dtype, drawn, alpha, data):
    adjacency, signal = drawn
    fixed = data.draw(node_sets(len(adjacency)))
    step = reference.operator(adjacency, "row")
    matrix, signal = sp.csr_array(step.astype(dtype)), signal.astype(dtype)
    beta = reference.ppr_coefficients(alpha, 4)
    mixing = (1 - alpha,) * 4
    same(propagate_signal(matrix, signal, mixing), reference.combine(step, beta) @ signal, dtype)
    got = propagate_signal(matrix, signal, mixing, fixed)
    same(got, reference.clamped(step, signal, beta, fixed), dtype)
    np.testing.assert_array_equal(got[fixed], signal[fixed])


@types
@pytest.mark.parametrize(
    ("n_columns", "index_type"),
    [(n_columns, np.int32) for n_columns in (0, 1, 7, 16, 37, 64, 65, 130)]
    + [(n_columns, np.int64) for n_columns in (0, 7, 16)],
)
def test_propagation_is_step_by_step_multiplying_and_mixing_bit_by_bit(
    dtype, n_columns, index_type
):
    matrix, signal = sparse(40, 40, dtype, index_type), dense(40, n_columns, dtype)
    mask = np.arange(40) % 7 == 0
    mixing = (0.9, 0.3, 1.0, 0.0, 0.7)
    for fixed in (None, mask, np.flatnonzero(mask)[::-1]):
        state = signal
        for c in mixing:
            state = dtype(c) * sparse_product(matrix, state) + dtype(1 - c) * signal
            if fixed is not None:
                state[fixed] = signal[fixed]
        np.testing.assert_array_equal(propagate_signal(matrix, signal, mixing, fixed), state)


def spread_by_scipy(operator, signal, mixing, fixed):
    state = signal
    for c in mixing:
        state = c * (operator @ state) + (1 - c) * signal
        if fixed is not None:
            state[fixed] = signal[fixed]
    return state


# Each kernel takes seconds to compile for each width, kind of numbers and of indices.
graph_kinds = pytest.mark.parametrize(
    ("n_columns", "index_type"),
    [(n_columns, np.int32) for n_columns in (0, 1, 7, 47, 64, 65)]
    + [(n_columns, np.int64) for n_columns in (0, 7, 47)],
)


@types
@graph_kinds
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("is_weighted", [False, True], ids=["plain", "weighted"])
def test_a_graph_with_factors_of_rows_and_columns_spreads_as_scipys_product(
    dtype, n_columns, index_type, loops, is_weighted
):
    graph = sparse(40, 40, np.float32, index_type)
    graph.data = np.abs(graph.data) + 1 if is_weighted else np.ones_like(graph.data)
    weights = graph.data if is_weighted else None
    out, into = np.random.default_rng(2).random((2, 40))
    given = PlainOperator(graph.indptr, graph.indices, out, into, loops, weights)
    both = graph.astype(float) + loops * sp.eye_array(40)
    stored = sp.csr_array(sp.diags_array(out) @ both @ sp.diags_array(into))
    signal, mixing = dense(40, n_columns, dtype), (0.9, 0.3, 1.0)
    for fixed in (None, np.array([3, 30])):
        wanted = spread_by_scipy(stored, signal.astype(float), mixing, fixed)
        same(propagate_plain(given, signal, mixing, fixed), wanted, dtype)


def test_spreading_without_stored_numbers_needs_little_memory(monkeypatch):
    n, n_columns = 200_000, 47
    ones = sp.csr_array((np.ones(n, np.float32), np.arange(n) ^ 1, np.arange(n + 1)))
    graph = Graph.from_clean(ones, EdgeCounts(n, 0, 0, 0))  # pairs of nodes
    signal = np.ones((n, n_columns), np.float32)
    monkeypatch.setattr("proptrain.propagate.engine.MANY_ENTRIES", 0)  # as if it were large
    LocalEngine(graph).propagate(signal, PPR())  # compiles
    tracemalloc.start()
    try:
        for n_steps in (1, 5):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            LocalEngine(graph).propagate(signal, PPR(steps=n_steps))
            _, peak = tracemalloc.get_traced_memory()
            # And the signal itself: three in all. A 48th column is a 47th of one, a number in
            # double precision for each node would be twice as much.
            assert peak - before < 2.07 * signal.nbytes
    finally:
        tracemalloc.stop()


@types
def test_factors_by_degree_are_those_of_each_node_in_parts_too(dtype, monkeypatch):
    adjacency = (sparse(97, 97, np.float64) != 0).toarray()
    adjacency[5] = adjacency[:, 5] = False
    graph = Graph(sp.csr_array(adjacency.astype(np.float32)))
    signal, fixed = dense(97, 5, dtype), np.arange(97) % 7 == 3
    for kind in reference.KINDS:
        by_degree = plain_operator(graph, kind)
        degrees = np.diff(graph.adjacency.indptr).astype(np.float64)
        out, into = factors_of(degrees, kind)
        for rows in (slice(3, 40), np.array([50, 5, 50]), fixed):
            np.testing.assert_array_equal(by_degree.out[rows], out[rows], strict=True)
            np.testing.assert_array_equal(by_degree.into[rows], into[rows], strict=True)
        by_node = replace(by_degree, out=out, into=into)
        wanted = propagate_plain(by_node, signal, (0.9, 0.8), fixed)
        with monkeypatch.context() as patched:
            patched.setattr("proptrain.kernels.propagation._ROWS", 10)
            patched.setattr("proptrain.propagate.normalisation._PART", 40)
            in_parts = propagate_plain(plain_operator(graph, kind), signal, (0.9, 0.8), fixed)
        np.testing.assert_array_equal(in_parts, wanted, strict=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda eye: propagation_step(eye, np.ones((3, 2)), np.ones((2, 2)), 0.5),
        lambda eye: propagation_step(eye, np.ones((3, 2)), np.ones((3, 3)), 0.5),
        lambda eye: active_product(eye, np.ones((3, 2)), np.ones(3)),
        lambda eye: active_gradients(eye, np.ones((3, 2)), np.ones((3, 1))),
    ],
)
def test_shapes_are_looked_at_before_memory_is_written(call):
    with pytest.raises(InvalidInputError, match="must have the shape"):
        call(sp.csr_array(np.eye(3)))


# --- the first layer, rectified, in one pass --------------------------------------------------


@types
@pytest.mark.parametrize("rate", [0.0, 0.5])
@pytest.mark.parametrize("n_columns", [1, 7, 64, 65])
def test_the_active_product_is_its_parts_bit_by_bit(dtype, rate, n_columns):
    matrix, right, bias = sparse(90, 20, dtype), dense(20, n_columns, dtype), dense(1, 65, dtype)[0]
    for own in (None, bias[:n_columns]):
        wanted = rectify(sparse_product(matrix, right), own, rate, generator())
        got = active_product(matrix, right, own, rate, generator())
        np.testing.assert_array_equal(got, wanted, strict=True)
        assert 0 < (got > 0).mean() < 1


@types
@pytest.mark.parametrize("n_rows", [1, 15, 16, 17, 255, 256, 300, 5000])
def test_its_gradients_are_those_of_its_parts_bit_by_bit(dtype, n_rows):
    matrix, gradient = sparse(n_rows, 20, dtype), dense(n_rows, 64, dtype)
    active = rectify(dense(n_rows, 64, dtype, seed=3), None, 0.3, generator())
    passed = pass_active(gradient, active, 1.5)
    for_weight, for_bias = active_gradients(matrix, gradient, active, 1.5)
    np.testing.assert_array_equal(for_weight, transposed_sparse_product(matrix, passed))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:  # which adds up 64 columns in this very order
        np.testing.assert_array_equal(for_bias, torch.from_numpy(passed).sum(dim=0))
    finally:
        torch.set_num_threads(n_threads)


@types
@pytest.mark.parametrize("n_columns", [1, 7, 65])
def test_gradients_for_any_number_of_columns(dtype, n_columns):
    matrix, gradient = sparse(300, 20, dtype), dense(300, n_columns, dtype)
    active = rectify(dense(300, n_columns, dtype, seed=3), None)
    for_weight, for_bias = active_gradients(matrix, gradient, active)
    same(for_weight, matrix.T @ (gradient * (active > 0)), dtype)
    same(for_bias, (gradient * (active > 0)).sum(axis=0), dtype)


@types
@pytest.mark.parametrize(
    ("n_rows", "n_columns", "index_type"),
    [(1, 64, np.int32), (40, 7, np.int64), (95, 64, np.int32), (96, 65, np.int32)]
    + [(300, 16, index_type) for index_type in (np.int32, np.int64)],
)
def test_gradients_by_transposed_parts_are_the_same_bits(
    monkeypatch, dtype, n_rows, n_columns, index_type
):
    monkeypatch.setattr(transposed, "_SIZES", (32,))  # groups of sums have 16 rows
    monkeypatch.setattr(transposed, "_FEWEST_AT_A_TIME", 0)
    matrix, gradient = sparse(n_rows, 20, dtype), dense(n_rows, n_columns, dtype)
    matrix.indices, matrix.indptr = (
        part.astype(index_type) for part in (matrix.indices, matrix.indptr)
    )
    active = rectify(dense(n_rows, n_columns, dtype, seed=3), None, 0.3, generator())
    parts = transposed.transposed_parts(matrix)
    assert len(parts.whole.begins) == -(-n_rows // 32)
    wanted = active_gradients(matrix, gradient, active, 1.5)
    for got, one in zip(
        active_gradients(matrix, gradient, active, 1.5, parts), wanted, strict=True
    ):
        np.testing.assert_array_equal(got, one, strict=True)
    same(wanted[0], matrix.T @ (gradient * (active > 0) * dtype(1.5)), dtype)


@pytest.mark.parametrize(("density", "size"), [(0.1, 256), (0.02, 1024), (0.005, 2048)])
def test_transposed_parts_have_every_entry_once_in_the_order_of_rows(density, size):
    matrix = sparse(5000, 30, np.float32, density=density)
    found = transposed.transposed_parts(matrix)
    assert found.size == size  # the denser, the fewer rows have entries enough
    again = np.zeros(matrix.shape, np.float32)
    for part, places in enumerate(zip(found.whole.begins, found.whole.ends, strict=True)):
        assert (np.diff(found.targets[slice(*places)]) > 0).all()
        for place in range(*places):
            entries = slice(*found.starts[place : place + 2])
            assert (np.diff(found.sources[entries].astype(int)) > 0).all()
            rows = part * size + found.sources[entries].astype(int)
            again[rows, found.targets[place]] += found.data[entries]
    np.testing.assert_array_equal(again, matrix.toarray())


def test_shares_of_transposed_parts_are_all_columns_once_and_of_like_work(monkeypatch):
    monkeypatch.setattr(transposed, "count_threads", lambda: 3)
    found = transposed.transposed_parts(sparse(5000, 300, np.float32, density=0.1))
    assert len(found.shares) == 3
    np.testing.assert_array_equal(found.shares[0].begins, found.whole.begins)
    np.testing.assert_array_equal(found.shares[2].ends, found.whole.ends)
    work, columns = [], []
    for one, following in pairwise([*found.shares, None]):
        if following is not None:
            np.testing.assert_array_equal(one.ends, following.begins)
        places = [slice(*both) for both in zip(one.begins, one.ends, strict=True)]
        columns.append(set(np.concatenate([found.targets[own] for own in places]).tolist()))
        work.append(sum(found.starts[own.stop] - found.starts[own.start] for own in places))
    assert sum(map(len, columns)) == len(set.union(*columns)) == 300
    assert max(work) < 1.1 * min(work)


def test_where_a_part_has_an_entry_of_each_column_nothing_is_transposed():
    assert transposed.transposed_parts(sp.csr_array(np.eye(50))) is None
    assert transposed.transposed_parts(sp.csr_array(np.tile(np.eye(50), (2, 1)))) is not None


# --- softmax ----------------------------------------------------------------------------------


@types
@pytest.mark.parametrize("n_classes", [1, 2, 7, 40])
@pytest.mark.parametrize("size", [1, 30, 1e4])
def test_log_softmax_is_scipys(dtype, n_classes, size):
    scores = (dense(50, n_classes, dtype) * dtype(size)).astype(dtype)
    log_f, f = log_softmax(scores)
    exact = scores.astype(np.float64)
    # the scores' own rounding is all that may be lost
    slack = 4 * np.finfo(dtype).eps * max(size, 1) * 4
    assert log_f.dtype == f.dtype == dtype
    np.testing.assert_allclose(log_f, scipy.special.log_softmax(exact, axis=1), atol=slack)
    np.testing.assert_allclose(f, scipy.special.softmax(exact, axis=1), rtol=20 * slack, atol=slack)
    np.testing.assert_allclose(f.sum(axis=1), 1, rtol=TOLERANCE[dtype])


@types
def test_one_class_is_certain_and_no_row_gives_none(dtype):
    log_f, f = log_softmax(np.array([[3], [-1e4], [1e4]], dtype))
    np.testing.assert_array_equal(log_f, np.zeros((3, 1)))
    np.testing.assert_array_equal(f, np.ones((3, 1)))
    assert [part.shape for part in log_softmax(np.ones((0, 4), dtype))] == [(0, 4), (0, 4)]


@types
def test_agreement_is_the_share_of_rows_told_as_they_are_labelled(dtype):
    f, codes = dense(200, 5, dtype), np.random.default_rng(4).integers(-1, 5, 200)
    counted = codes >= 0
    wanted = (f[counted].argmax(axis=1) == codes[counted]).mean()
    assert agreement(f, codes) == pytest.approx(wanted)
    assert np.isnan(agreement(f[:3], np.full(3, -1)))


# --- dropout ----------------------------------------------------------------------------------


def generator(seed=0):
    return np.random.Generator(np.random.SFC64(seed))


def near(count, n, share):
    """Within five standard deviations of the binomial mean."""
    return abs(count - n * share) <= 5 * np.sqrt(n * share * (1 - share))


@types
@index_types
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8, 0.99])
def test_dropped_entries_leave_a_share_scaled_exactly_in_its_place(dtype, index_type, rate):
    matrix = sparse(200, 100, dtype, index_type, density=0.5)
    kept = drop_entries(matrix, rate, generator())
    assert (kept.shape, kept.dtype) == (matrix.shape, dtype)
    kept.check_format(full_check=True)
    where = kept.toarray() != 0
    assert where.sum() == kept.nnz  # nothing twice
    scaled = matrix.toarray() * dtype(dropout_scale(rate))
    np.testing.assert_array_equal(kept.toarray(), np.where(where, scaled, 0))
    assert near(kept.nnz, matrix.nnz, 1 - rate)


def test_each_quarter_of_a_random_number_is_as_good_as_the_others():
    matrix = sp.csr_array(np.ones((1, 40_001)))
    for random in (generator(), np.random.default_rng(0)):
        where = drop_entries(matrix, 0.3, random).toarray()[0] != 0
        assert all(near(where[lane::4].sum(), len(where[lane::4]), 0.7) for lane in range(4))
        for lag in range(1, 9):  # no entry knows of another
            assert near((where[lag:] & where[:-lag]).sum(), len(where) - lag, 0.49)


@types
def test_dropped_rows_keep_their_entries_in_stored_order(dtype):
    parts = (np.arange(1, 9, dtype=dtype), np.array([5, 0, 5, 3, 2, 1, 5, 4]), [0, 3, 3, 8])
    matrix = sp.csr_array(parts, shape=(3, 6))
    for seed in range(20):
        kept = drop_entries(matrix, 0.5, generator(seed))
        places = (kept.data / 2).astype(int) - 1  # each entry is known by its value
        assert (np.diff(places) > 0).all()
        np.testing.assert_array_equal(kept.indices, matrix.indices[places])
        for row in range(3):
            own = places[kept.indptr[row] : kept.indptr[row + 1]]
            assert ((own >= matrix.indptr[row]) & (own < matrix.indptr[row + 1])).all()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_products_with_dropped_entries_are_right_on_average(rate):
    matrix, right = sparse(6, 40, np.float64), dense(40, 3, np.float64)
    random, times = generator(), 2000
    many = np.stack(
        [sparse_product(drop_entries(matrix, rate, random), right) for _ in range(times)]
    )
    error = np.abs(many.mean(axis=0) - matrix @ right)
    assert (error <= 5 * many.std(axis=0) / np.sqrt(times)).all()


def test_the_generators_state_alone_decides_what_is_dropped():
    matrix = sparse(30, 20, np.float32)
    random, again = generator(4), generator(4)
    first, second = (drop_entries(matrix, 0.5, random) for _ in range(2))
    for kept in (first, second):
        repeated = drop_entries(matrix, 0.5, again)
        assert all(
            np.array_equal(getattr(kept, part), getattr(repeated, part))
            for part in ("data", "indices", "indptr")
        )
    assert (first != second).nnz > 0


@types
def test_rate_0_keeps_everything_and_the_matrix_is_not_written_to(dtype):
    matrix = sparse(30, 20, dtype)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    for rate in (0.0, 0.5):
        before = matrix.copy()
        kept = drop_entries(matrix, rate, generator())
        assert (matrix != before).nnz == 0
        assert ((kept != matrix).nnz == 0) == (rate == 0)
    assert drop_entries(sp.csr_array((3, 0), dtype=dtype), 0.5, generator()).shape == (3, 0)


@types
@pytest.mark.parametrize("rate", [0.9999, 0.99999])
def test_high_rates_leave_a_few_finite_entries(dtype, rate):
    matrix = sp.csr_array(np.ones((1, 1_000_000), dtype))
    kept = drop_entries(matrix, rate, generator())
    assert 0 < kept.nnz < 200
    np.testing.assert_array_equal(kept.data, dtype(dropout_scale(rate)))
    active = rectify(np.ones((1000, 1000), dtype), None, rate, generator())
    np.testing.assert_array_equal(active[active != 0], dtype(dropout_scale(rate)))


# --- rectifying -------------------------------------------------------------------------------


@types
@pytest.mark.parametrize("with_bias", [True, False])
def test_rectify_is_relu_and_the_gradient_passes_where_it_is_active(dtype, with_bias):
    hidden, gradient = dense(50, 9, dtype), dense(50, 9, dtype, seed=2)
    bias = dense(1, 9, dtype, seed=3)[0] if with_bias else None
    plain = hidden + bias if with_bias else hidden
    active = rectify(hidden, bias)
    np.testing.assert_array_equal(active, np.maximum(plain, 0))
    assert active.dtype == dtype
    passed = pass_active(gradient, active, 1.0)
    np.testing.assert_array_equal(passed, np.where(plain > 0, gradient, 0))
    assert passed.dtype == dtype
    # without a rate or without a generator nothing is dropped
    np.testing.assert_array_equal(rectify(hidden, bias, 0.0, generator()), active)
    np.testing.assert_array_equal(rectify(hidden, bias, 0.5, None), active)


@types
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_rectify_drops_a_share_and_scales_up_the_rest_exactly(dtype, rate):
    hidden, bias = dense(300, 33, dtype), dense(1, 33, dtype, seed=3)[0]
    whole = rectify(hidden, bias)
    active = rectify(hidden, bias, rate, generator())
    kept = active > 0
    scale = dtype(dropout_scale(rate))
    np.testing.assert_array_equal(active, np.where(kept, whole * scale, 0))
    assert near(kept.sum(), (whole > 0).sum(), 1 - rate)
    np.testing.assert_array_equal(active, rectify(hidden, bias, rate, generator()))
    assert not np.array_equal(active, rectify(hidden, bias, rate, generator(1)))
    gradient = dense(300, 33, dtype, seed=4)
    passed = pass_active(gradient, active, dropout_scale(rate))
    np.testing.assert_array_equal(passed, np.where(kept, gradient * scale, 0))


@types
def test_rectify_at_exactly_zero_is_inactive(dtype):
    active = rectify(np.array([[0.0, -0.0, 1.0]], dtype), np.array([0.0, 0.0, -1.0], dtype))
    np.testing.assert_array_equal(active, np.zeros((1, 3)))
    np.testing.assert_array_equal(pass_active(np.ones((1, 3), dtype), active, 1.0), active)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.8, 0.99])
def test_what_stays_is_scaled_by_one_over_its_share(rate):
    assert dropout_scale(rate) == pytest.approx(1 / (1 - rate), rel=1e-3)
    assert dropout_scale(0.5) == 2


def test_the_code_of_others_is_compiled_as_it_would_have_been():
    before = numba.config.SLP_VECTORIZE
    sparse_product(sp.csr_array(np.eye(3)), np.ones((3, 6)))
    assert before == numba.config.SLP_VECTORIZE


def test_kernels_in_several_threads_leave_it_so_too():
    before, inside = numba.config.SLP_VECTORIZE, threading.Barrier(2, timeout=HANGS)

    def compile_something():
        with columns._PACKING:
            inside.wait()
            assert numba.config.SLP_VECTORIZE == 1
            inside.wait()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(compile_something) for _ in range(2)]:
            done.result()
    assert before == numba.config.SLP_VECTORIZE


# --- in threads -------------------------------------------------------------------------------


@pytest.fixture
def three_threads(monkeypatch):
    """Three threads, for anything that has something to do."""
    monkeypatch.setattr(threads, "count_threads", lambda: 3)
    monkeypatch.setattr(threads, "WORTH_IT", 1)
    threads._pool.cache_clear()
    yield
    threads._pool().shutdown()
    threads._pool.cache_clear()


@types
@pytest.mark.parametrize("n_columns", [0, 3, 16, 33, 65])
def test_threads_change_no_bit(dtype, n_columns, three_threads, monkeypatch):
    matrix = sparse(97, 97, dtype, density=0.1)
    matrix.data[matrix.indptr[20] : matrix.indptr[40]] *= 1e6
    right = dense(97, n_columns, dtype)
    scales = np.random.default_rng(2).random((2, 97))
    plain = PlainOperator(matrix.indptr, matrix.indices, *scales, loops=True)
    monkeypatch.setattr(transposed, "count_threads", lambda: 3)
    parts = transposed.transposed_parts(matrix)
    assert len(parts.shares) == 3
    calls = {
        "gather": lambda: sparse_product(matrix, right),
        "scatter": lambda: transposed_sparse_product(matrix, right),
        "active": lambda: active_product(matrix, right, None, 0.5, generator()),
        "gradients": lambda: np.vstack(active_gradients(matrix, right, right)),
        "by parts": lambda: np.vstack(active_gradients(matrix, right, right, 1.0, parts)),
        "plain": lambda: propagate_plain(plain, right, (0.9, 0.8), np.array([3, 50])),
        "mix": lambda: propagate_signal(matrix, right, (0.9, 0.8), np.array([3, 50])),
    }
    in_threads = {name: call() for name, call in calls.items()}
    monkeypatch.setattr(threads, "count_threads", lambda: 1)
    for name, call in calls.items():
        np.testing.assert_array_equal(call(), in_threads[name], strict=True)


@types
@pytest.mark.parametrize(("n_columns", "n_halves"), [(33, 2), (64, 2), (100, 4)])
def test_taking_columns_by_halves_changes_no_bit(
    dtype, n_columns, n_halves, three_threads, monkeypatch
):
    matrix, right = sparse(97, 97, dtype, density=0.1), dense(97, n_columns, dtype)
    calls = [
        lambda: sparse_product(matrix, right),
        lambda: active_product(matrix, right, right[0], 0.5, generator()),
    ]
    whole = [call() for call in calls]
    monkeypatch.setattr("proptrain.kernels.products._NEAR", 32 * 97 * right.itemsize)
    n_tasks = []

    def counted(tasks, do):
        n_tasks.append(len(tasks))
        threads.for_each(tasks, do)

    monkeypatch.setattr("proptrain.kernels.products.for_each", counted)
    for call, wanted in zip(calls, whole, strict=True):
        np.testing.assert_array_equal(call(), wanted, strict=True)
    assert n_tasks == [n_halves * 12] * 2  # all at once; three threads cannot be shared out
    monkeypatch.setattr(threads, "count_threads", lambda: 2 * n_halves)
    np.testing.assert_array_equal(calls[0](), whole[0], strict=True)
    assert n_tasks[2] == 2 * n_halves  # here they can: one for each


def test_small_products_by_halves_wake_no_thread(monkeypatch):
    monkeypatch.setattr(threads, "_pool", lambda: pytest.fail("in threads"))
    monkeypatch.setattr(threads, "count_threads", lambda: 2)
    matrix, right = sparse(3, 6000, np.float32), dense(6000, 64, np.float32)
    same(sparse_product(matrix, right), matrix @ right, np.float32)
    assert sparse_product(matrix, right[:, :0]).shape == (3, 0)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=80), st.integers(1, 9))
def test_blocks_are_all_rows_once_and_of_like_size(counts, n_threads):
    starts = 7 + np.concatenate([[0], np.cumsum(counts)])  # as of a matrix that was cut out
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threads, "count_threads", lambda: n_threads)
        patched.setattr(threads, "WORTH_IT", 1)
        blocks = threads.row_blocks(starts, 4)
    rows = [row for block in blocks for row in range(block.start, block.stop)]
    assert rows == list(range(len(counts)))
    share = sum(counts) / max(len(blocks), 4 * n_threads if n_threads > 1 else 1)
    for block in blocks:
        assert sum(counts[block]) <= share + 2 * max(counts)


def test_small_work_wakes_no_thread(monkeypatch):
    monkeypatch.setattr(threads, "count_threads", lambda: 8)
    monkeypatch.setattr(threads, "_pool", lambda: pytest.fail("a thread for this?"))
    matrix, right = sparse(50, 50, np.float32), dense(50, 64, np.float32)
    sparse_product(matrix, right)
    transposed_sparse_product(matrix, right)
    propagate_signal(matrix, right, (0.9,))


@pytest.mark.parametrize(("told", "number"), [("3", 3), ("1", 1)])
def test_the_number_of_threads_is_the_users(monkeypatch, told, number):
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    threads.count_threads.cache_clear()
    assert threads.count_threads() == number
    for nonsense in ("", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        threads.count_threads.cache_clear()
        assert threads.count_threads() == len(os.sched_getaffinity(0))
    threads.count_threads.cache_clear()


def test_what_goes_wrong_in_a_thread_is_raised(three_threads):
    def fail(part):
        if part.start == 2:
            raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        threads.for_each([slice(1, 2), slice(2, 3)], fail)


@types
@pytest.mark.parametrize("shape", [(3, 4), (1000, 16), (0, 8), (5, 0)])
def test_arrays_begin_with_a_line_of_the_cache(dtype, shape):
    for make in (aligned_empty, aligned_zeros):
        array = make(shape, np.dtype(dtype))
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.ctypes.data % 64 == 0 or array.size == 0
    assert not array.any()


@needs_fork
def test_a_forked_process_starts_threads_of_its_own(three_threads):
    blocks = [slice(0, 1), slice(1, 2)]
    threads.for_each(blocks, lambda _: None)  # the threads are there, and a child has none of them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns that threads and forks go ill together
        child = os.fork()
    if child == 0:
        signal.alarm(HANGS)
        threads.for_each(blocks, lambda _: None)
        os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_threads_treat_tiny_numbers_as_their_caller_does(three_threads):
    blocks = [slice(i, i + 1) for i in range(6)]
    for wanted in (False, True, False):
        threads.set_tiny_is_zero(wanted)
        seen = []
        try:
            threads.for_each(blocks, lambda _, seen=seen: seen.append(threads.tiny_is_zero()))
        finally:
            threads.set_tiny_is_zero(False)
        assert seen == [wanted] * 6
