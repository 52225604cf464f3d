"""What every engine must come to, in closed form."""

from __future__ import annotations

import numpy as np

import reference
from proptrain.propagate.schemes import PPR, Exact, Heat, Mean, Power

MANY_STEPS = "exact, little restart"
"""For engines in memory: 135 steps from disk and on clusters take long."""

# name: the scheme and Ā in closed form, from Â
SCHEMES = {
    "ppr": (PPR(0.1, 10), reference.ppr_coefficients(0.1, 10)),
    "power": (Power(3), reference.power_coefficients(3)),
    "mean": (Mean(4), reference.mean_coefficients(4)),
    "heat": (Heat(3.0, 12), reference.heat_coefficients(3.0, 12)),
    "exact": (Exact(0.6, 1e-13), None),
    MANY_STEPS: (Exact(0.2, 1e-13), None),
}

AWKWARD = {
    "one node": np.zeros((1, 1)),
    "no edges": np.zeros((4, 4)),
    "a node apart": np.array([[0, 3, 0], [3, 0, 0], [0, 0, 0]]),
    "two components": np.kron(np.eye(2), [[0, 0.5, 1], [0.5, 0, 0], [1, 0, 0]]),
}

TOLERANCES = [(np.float32, 1e-5), (np.float64, 1e-10)]


def close(got, wanted, tolerance=1e-10):
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=8 * tolerance)


def oracle(adjacency, kind, name):
    """Ā, dense."""
    step, (scheme, beta) = reference.operator(adjacency, kind), SCHEMES[name]
    return reference.exact(step, scheme.alpha) if beta is None else reference.combine(step, beta)


def clamped_oracle(adjacency, kind, name, signal, fixed):
    step, (scheme, beta) = reference.operator(adjacency, kind), SCHEMES[name]
    if beta is None:
        return reference.clamped_exact(step, signal, scheme.alpha, fixed)
    return reference.clamped(step, signal, beta, fixed)


def equals_the_oracle(engine, adjacency, kind, name, signal, tolerance):
    got = engine.propagate(signal, SCHEMES[name][0])
    assert got.dtype == signal.dtype
    close(got, oracle(adjacency, kind, name) @ signal, tolerance)


def holds_rows_fixed(engine, adjacency, kind, name, signal, fixed, tolerance):
    """Fixed rows stay, and the others follow the oracle; a mask says the same as indices."""
    scheme = SCHEMES[name][0]
    got = engine.propagate(signal, scheme, fixed=fixed)
    assert got.dtype == signal.dtype
    np.testing.assert_array_equal(got[fixed], signal[fixed])
    close(got, clamped_oracle(adjacency, kind, name, signal, fixed), tolerance)
    mask = np.isin(np.arange(len(adjacency)), fixed)
    np.testing.assert_array_equal(engine.propagate(signal, scheme, fixed=mask), got)


def bears_an_awkward_graph(engine, adjacency, kind, name):
    n, scheme = len(adjacency), SCHEMES[name][0]
    close(engine.propagate(np.eye(n), scheme), oracle(adjacency, kind, name))
    held = engine.propagate(np.eye(n), scheme, fixed=np.arange(n))
    np.testing.assert_array_equal(held, np.eye(n))
    assert engine.propagate(np.ones((n, 0)), scheme).tolist() == [[]] * n
