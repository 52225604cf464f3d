"""Schemes: their coefficients in closed form, and the parameters they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from proptrain.errors import InvalidInputError
from proptrain.propagate.schemes import PPR, Exact, Heat, Mean, Power, coefficients

modest = settings(max_examples=60, derandomize=True, deadline=None)
steps = st.integers(0, 30)
alphas = st.floats(1e-3, 1)


def same(scheme, wanted):
    beta = coefficients(scheme)
    np.testing.assert_allclose(beta, wanted, rtol=1e-9, atol=1e-14)
    assert math.isclose(beta.sum(), 1, rel_tol=1e-12)
    assert (beta >= 0).all()
    assert all(0 <= c <= 1 for c in scheme.mixing)


@modest
@given(alphas, steps)
def test_ppr_has_the_coefficients_of_appendix_a(alpha, steps):
    same(PPR(alpha, steps), reference.ppr_coefficients(alpha, steps))


@modest
@given(steps)
def test_power_is_the_last_power_alone(steps):
    same(Power(steps), reference.power_coefficients(steps))


@modest
@given(steps)
def test_mean_weighs_all_powers_alike(steps):
    same(Mean(steps), reference.mean_coefficients(steps))


@modest
@given(st.floats(0.01, 30), steps)
def test_heat_is_the_cut_exponential_series(t, steps):
    same(Heat(t, steps), reference.heat_coefficients(t, steps))


@modest
@given(st.floats(0.01, 30), st.integers(1, 30))
def test_the_numbers_of_heat_are_those_of_its_docstring(t, steps):
    numbers = Heat(t, steps).mixing
    total = [1.0]
    for k in range(1, steps + 1):
        total.append(1 + t / (steps + 1 - k) * total[k - 1])
    np.testing.assert_allclose(numbers, [1 - 1 / total[k] for k in range(1, steps + 1)], rtol=1e-9)
    assert math.isclose(total[-1], sum(t**k / math.factorial(k) for k in range(steps + 1)))


@pytest.mark.parametrize("scheme", [PPR(0.2, 4), Mean(5), Heat(2.0, 6), Power(3)])
def test_coefficients_are_those_of_their_docstring(scheme):
    c = [0.0, *scheme.mixing]
    n_steps = len(scheme.mixing)
    for j, beta in enumerate(coefficients(scheme)):
        later = math.prod(c[n_steps - j + 1 :])
        assert math.isclose(beta, later * (1 - c[n_steps - j]), abs_tol=1e-15)


@modest
@given(alphas.filter(lambda alpha: alpha > 0.01), st.floats(1e-12, 0.5))
def test_exact_goes_on_until_the_rest_is_below_the_tolerance(alpha, tol):
    scheme = Exact(alpha, tol)
    n_steps = len(scheme.mixing)
    same(scheme, reference.ppr_coefficients(alpha, n_steps))
    assert 2 * (1 - alpha) ** n_steps <= tol * (1 + 1e-9)  # the error is at most twice the rest
    if n_steps > 1:
        assert 2 * (1 - alpha) ** (n_steps - 1) > tol * (1 - 1e-9)  # and no step is wasted


@modest
@given(st.one_of(st.builds(PPR, alphas, steps), st.builds(Mean, steps), st.builds(Heat, alphas)))
def test_mixing_is_what_the_coefficients_ask_for(scheme):
    if isinstance(scheme, PPR) and scheme.alpha == 1:
        return  # after a full restart the earlier steps may be anything
    np.testing.assert_allclose(
        scheme.mixing, reference.mixing(coefficients(scheme)), rtol=1e-9, atol=1e-12
    )


def test_heat_with_enough_steps_is_the_heat_kernel():
    series = [math.exp(-2) * 2**k / math.factorial(k) for k in range(41)]
    np.testing.assert_allclose(coefficients(Heat(2.0, 40)), series, rtol=1e-9)


def test_the_defaults_are_the_papers():
    assert PPR() == PPR(alpha=0.1, steps=10)
    np.testing.assert_allclose(coefficients(PPR())[[0, 1, 10]], [0.1, 0.09, 0.9**10], rtol=1e-12)


def test_schemes_are_frozen_values():
    assert {PPR(0.1, 10), PPR(0.1, 10), Power(2), Power(2)} == {PPR(), Power()}
    with pytest.raises(AttributeError):
        PPR().alpha = 0.5


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda a: PPR(alpha=a), lambda a: Exact(alpha=a)])
@pytest.mark.parametrize("alpha", [0, 0.0, -0.1, 1.5, math.nan, math.inf])
def test_alpha_must_be_a_share(make, alpha):
    with pytest.raises(InvalidInputError, match="restart, must be above 0 and at most 1") as info:
        make(alpha)
    assert f"got {alpha}" in str(info.value)


@pytest.mark.parametrize(
    "make",
    [lambda k: PPR(steps=k), lambda k: Power(steps=k), lambda k: Mean(k), lambda k: Heat(steps=k)],
    ids=["ppr", "power", "mean", "heat"],
)
@pytest.mark.parametrize("steps", [-1, 2.5, math.nan, math.inf, True])
def test_steps_must_be_a_whole_number(make, steps):
    with pytest.raises(InvalidInputError, match=f"whole number, 0 or more, got {steps}"):
        make(steps)


@pytest.mark.parametrize("make", [lambda k: PPR(0.5, k), Power, Mean, lambda k: Heat(1.0, k)])
def test_a_float_for_steps_is_refused_or_works_but_does_not_fail_later(make):
    np.testing.assert_array_equal(coefficients(make(np.int64(2))), coefficients(make(2)))
    try:
        scheme = make(2.0)
    except InvalidInputError:
        return
    np.testing.assert_array_equal(coefficients(scheme), coefficients(make(2)))


@pytest.mark.parametrize("t", [0, -1.0, math.nan, math.inf])
def test_t_must_be_positive(t):
    with pytest.raises(InvalidInputError, match=f"t must be a positive number, got {t}"):
        Heat(t=t)


def test_t_beyond_reason_is_refused():
    with pytest.raises(InvalidInputError, match="t must be at most 1000, got 1e"):
        Heat(t=1e200)


@pytest.mark.parametrize("tol", [0, 1, -1e-6, 2.0, math.nan])
def test_tol_must_lie_between_0_and_1(tol):
    with pytest.raises(InvalidInputError, match=f"tol must lie between 0 and 1, got {tol}"):
        Exact(tol=tol)


def test_an_exact_propagation_that_will_take_long_says_so():
    with pytest.warns(UserWarning, match=r"With alpha 0.001 .* takes 14,502 steps"):
        scheme = Exact(alpha=0.001)
    assert len(scheme.mixing) == 14_502
    Exact(alpha=0.01)  # some 1,400 steps: no warning


@pytest.mark.parametrize(
    "make",
    [
        *(lambda kind=kind: kind(steps=20_001) for kind in (PPR, Power, Mean, Heat)),
        lambda: PPR(steps=10**9),
        lambda: Exact(alpha=1e-9, tol=1e-300),
        lambda: Exact(alpha=5e-324),
        lambda: Exact(alpha=1e-3, tol=5e-324),
    ],
)
def test_steps_that_would_fill_the_memory_are_refused(make):
    with pytest.raises(InvalidInputError, match="at most 20,000"):
        make()


def test_the_most_steps_that_there_may_be():
    assert len(PPR(steps=20_000).mixing) == 20_000
