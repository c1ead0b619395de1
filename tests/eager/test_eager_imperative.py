"""Imperative programs (imperative.py, imperative_models.py, imperative_training.py) do the same as they are, converted and co-executed."""

import math

import pytest

pytest.importorskip("tensmith.numpy")
import imperative  # noqa: E402
import imperative_models  # noqa: E402, F401
import imperative_training  # noqa: E402, F401

import tensmith as ts  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


def as_it_is(function):
    return function


def are_same(a, b):
    """But for rounding, which a graph does otherwise."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(are_same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(are_same(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5)
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("convert", [ts.function, ts.coexecute])
@pytest.mark.parametrize("name", imperative.PROGRAMS)
def test_programs_do_the_same(name, convert):
    # Breaks if a converted or co-executed step gives, changes or raises anything else than Python does.
    converted = []

    def converting(function):
        converted.append(convert(function))
        return converted[-1]

    found, expected = imperative.PROGRAMS[name](converting), imperative.PROGRAMS[name](as_it_is)
    assert are_same(found, expected), "\n".join(each.explain() for each in converted)
    if convert is ts.coexecute:
        assert all(each.statistics()["coexecuted"] >= 2 for each in converted), converted[0].explain()
