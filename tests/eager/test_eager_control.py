"""Branches and loops that depend on tensors are the graph's under `ts.function`: results, objects and gradients are the program's, calls of all courses
take one conversion, and what has no such form stays an assumption.
"""

import collections
import random

import controlled
import python_s
import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import random_functions  # noqa: E402
from random_functions import described  # noqa: E402

import tensmith as ts  # noqa: E402
from tensmith.functions.recording import Recording  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


def outcome(function, s, arguments):
    try:
        return function(s, *arguments)
    except (ValueError, IndexError) as error:
        return str(error)


def close(found, expected):
    """Gradients of a graph are summed in another order."""
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(close, found, expected))
    return numpy.isclose(found, expected, 1e-12) if isinstance(expected, float) else found == expected


def compared(program, arguments, count):
    function, ours, theirs = ts.function(program), controlled.State(), controlled.State()
    for i in range(count):
        expected, found = outcome(program, theirs, arguments(i)), outcome(function, ours, arguments(i))
        if isinstance(expected, type(ours.state)):
            assert (found is ours.state) == (expected is theirs.state), f"call {i}"
        assert close(described([found, ours]), described([expected, theirs])), f"call {i}: {found}, not {expected}\n{function.explain()}"
    return function


def courses(entry):
    """Its assumptions of which way a call goes; how long a list is at most is none."""
    return [str(each) for each in entry.assumptions if each.kind in ("branch", "trip count") and "at most" not in each.what]


@pytest.mark.parametrize("program", controlled.PROGRAMS, ids=lambda program: program.__name__)
def test_all_courses_take_one_conversion(program):
    function = compared(program, controlled.PROGRAMS[program], 16)
    counts = function.statistics()
    assert counts["conversions"] <= 4 and counts["imperative"] <= 5, function.explain()
    assert not min(map(courses, function._entries), key=len), "both sides are in the graph"


@pytest.mark.parametrize("program", controlled.LEFT, ids=lambda program: program.__name__)
def test_what_has_no_form_is_an_assumption(program):
    function = compared(program, lambda i: (controlled.signs(i // 2),), 12)
    assert function.statistics()["converted"] >= 4, function.explain()


def test_a_list_that_holds_what_is_written():
    """Rows are joined before the graph runs: that is right only where no write comes between."""
    function, ours, theirs = ts.function(controlled.added_in_place), controlled.State(), controlled.State()
    for i in range(12):
        found, expected = (step(s, [*(controlled.signs(j) for j in range(i % 3 + 1)), *([s.state] * (i > 8))])
                           for step, s in ((function, ours), (controlled.added_in_place, theirs)))  # fmt: skip
        assert found.tolist() == expected.tolist(), f"call {i}"
    assert function.statistics()["converted"] >= 5, function.explain()


def test_a_thousand_alternations():
    function, s = ts.function(controlled.both_sides), controlled.State()
    for i in range(1000):
        function(s, controlled.signs(i % 7))
    counts = function.statistics()
    assert counts["compilations"] <= 4 and counts["failed_guards"] <= 2 and s.count == 1000 + 2 * sum(i % 7 % 2 == 0 for i in range(1000))


def forms(seed, most):
    draw = random.Random(seed)
    trees = [controlled.tree(draw, draw.randint(3, most)) for _ in range(32)]
    return lambda i: (controlled.signs(i % 3), trees[i])


def test_trees_of_all_forms_take_one_conversion():
    """A form with a case that was not met before takes another."""
    function = compared(controlled.of_trees, forms(1, 9), 32)
    counts = function.statistics()
    assert counts["conversions"] <= 6 and counts["converted"] >= 20, function.explain()


@pytest.mark.parametrize("program", [controlled.counted, controlled.listed, controlled.deepening, controlled.grown], ids=lambda program: program.__name__)
def test_recursion_that_is_none_of_the_graph_s(program):
    arguments = forms(2, 4)
    function = compared(program, lambda i: arguments(i // 3), 18)
    assert "not the graph's" in function.explain()


def in_graph_at_once(recording, site):
    """As if all branches and loops were known to differ."""
    if site in recording.refused and not recording.regions:
        return False
    if not recording.regions:
        recording.converted.add(site)
    return True


@pytest.mark.parametrize("seed", range(100, 108))
def test_random_programs_of_tensors(seed, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(Recording, "is_in_graph", in_graph_at_once)
    random_functions.compare(seed, of_tensors=0.6)


@pytest.mark.parametrize("seed", range(200, 208))
def test_random_programs_of_names_for_one_tensor(seed, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(Recording, "is_in_graph", in_graph_at_once)
    random_functions.compare(seed, of_tensors=0.6, aliases=True)


@pytest.mark.parametrize("program", python_s.PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_python_s_stays_so(program):
    function, arguments = ts.function(program), python_s.PROGRAMS[program]
    ours, theirs = python_s.state(), python_s.state()
    for i in range(8):
        (found, given), (expected, wanted) = (
            (outcome(step, s, x), [s, x]) for step, s, x in ((function, ours, arguments(i)), (program, theirs, arguments(i)))
        )
        assert close(described([found, given]), described([expected, wanted])), f"call {i}\n{function.explain()}"


def test_a_loop_over_a_tuple_that_was_there():
    # Breaks if only tuples that the call has made are rows of a loop of the graph: each course is an assumption then.
    def program(values, x):
        for each in values:
            if tnp.sum(x) > 5:
                break
            x = x + each
        return x * 1

    function = ts.function(program)
    for i in range(8):
        given = (tnp.ones(1), tnp.ones(1) * (i * 2 % 5), tnp.ones(1) * 2), tnp.ones(1) * (i % 4 + 1)
        assert function(*given).tolist() == program(*given).tolist(), f"call {i}"
    assert not min(map(courses, function._entries), key=len), function.explain()


class Swapped(collections.namedtuple("Swapped", "a b")):
    def __new__(cls, a, b):
        return tuple.__new__(cls, (b, a))


def test_a_branch_that_gives_a_tuple_of_the_program():
    # Breaks if a branch's tuple is made by the program's `__new__`, or as a plain tuple.
    pairs = tuple.__new__(Swapped, (tnp.ones(1), tnp.ones(1) * 2)), tuple.__new__(Swapped, (tnp.ones(1) * 5, tnp.ones(1)))

    def chosen(x, pairs):
        pair = pairs[0] if tnp.sum(x) > 0 else pairs[1]
        total = pair.a * 10 + pair.b + x
        return total, type(pair).__name__

    function = ts.function(chosen)
    for i in range(8):
        x = controlled.signs(i)
        found, expected = (described(list(step(x, pairs))) for step in (function, chosen))
        assert found == expected, f"call {i}\n{function.explain()}"
    assert not min(map(courses, function._entries), key=len), function.explain()
