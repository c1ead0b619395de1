"""Imperative programs (imperative.py, imperative_models.py, imperative_training.py) do the same as they are, converted and co-executed."""

import dataclasses
import math

import pytest

pytest.importorskip("tensmith.numpy")
import imperative  # noqa: E402
import imperative_models  # noqa: E402, F401
import imperative_training  # noqa: E402, F401

import tensmith as ts  # noqa: E402
import tensmith.numpy as tnp  # noqa: E402


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


def test_the_init_of_a_data_class_is_converted_where_its_text_is_known():
    # Breaks if what `dataclasses` writes has no source, or if a text is taken that is not that of the code which runs.
    @dataclasses.dataclass
    class Pair:
        a: object
        b: object

    def step(x):
        return tnp.sum(Pair(x, x * 2.0).b)

    function = ts.function(step)
    for i in range(4):
        assert float(function(tnp.asarray([i, 1.0]))) == 2.0 * (i + 1)
    assert function.statistics()["converted"] == 3, function.explain()
    fields = Pair.__dataclass_fields__
    fields["a"], fields["b"] = fields["b"], fields["a"]
    fields["a"].name, fields["b"].name = "a", "b"
    Pair.__dataclass_fields__ = dict(reversed(fields.items()))
    other = ts.function(step)
    for i in range(4):
        assert float(other(tnp.asarray([i, 1.0]))) == 2.0 * (i + 1)
    assert other.statistics()["converted"] == 0
    assert "the source of __init__ is not there" in other.explain()


@pytest.mark.parametrize("name", ["data_classes_that_are_made", "named_tuples_that_are_replaced"])
def test_what_makes_objects_by_generated_methods_is_converted(name):
    # Breaks if a data class's `__init__`, `object.__setattr__`, or a named tuple's `_replace`, `_make`, `_asdict` and own attributes keep a step imperative.
    converted = []

    def converting(function):
        converted.append(ts.function(function))
        return converted[-1]

    imperative.PROGRAMS[name](converting)
    assert converted[0].statistics()["converted"] >= 4, converted[0].explain()


class _Watched:
    names = []

    def __setattr__(self, name, value):
        _Watched.names.append(name)
        object.__setattr__(self, name, value)


class _WatchedToo(_Watched):
    pass


class _Aside(ts.nn.Module):
    """A module beside it that is none of its own."""

    def __init__(self, other):
        super().__init__()
        object.__setattr__(self, "other", other)

    def forward(self, x):
        object.__setattr__(self, "other", self.other)
        return x * 2.0


def test_attributes_that_are_set_past_the_class_are_set_so():
    # Breaks if `object.__setattr__` of an object from outside becomes a plain assignment, which its class sees.
    module, watched = _Aside(ts.nn.Linear(2, 2)), _WatchedToo()

    def step(x):
        object.__setattr__(watched, "last", 3)
        return tnp.sum(module(x))

    function = ts.function(step)
    _Watched.names.clear()
    for i in range(4):
        assert float(function(tnp.asarray([i, 1.0]))) == 2.0 * (i + 1)
    assert not list(module.parameters()) and not _Watched.names and watched.last == 3


def test_a_class_whose_fields_are_no_text_has_its_own_init():
    # Breaks if the text that is tried for a data class, which may be none of Python, raises in the program.
    @dataclasses.dataclass(init=False)
    class Own:
        x: int = 0
        y: object

        def __init__(self, y):
            self.y = y

    def step(x):
        try:
            return tnp.sum(Own(x).y * 2.0)
        except Exception:
            return x

    function = ts.function(step)
    for i in range(4):
        assert float(function(tnp.asarray([i, 1.0]))) == 2.0 * (i + 1)
    assert function.statistics()["converted"] == 3, function.explain()
