"""`ts.function`: converted calls do what the program does, and each kind of assumption is needed, relaxed, and kept from thrashing.

Graphs are evaluated here, not compiled; compiled ones are held against the same programs by `bench/functions`.
"""

import enum
import json
import pathlib
import re
import runpy
import subprocess
import sys

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import random_functions  # noqa: E402
import speculated  # noqa: E402
from random_functions import described  # noqa: E402

import tensmith as ts  # noqa: E402
from tensmith import _eager, nn, optim  # noqa: E402
from tensmith.functions import residual  # noqa: E402
from tensmith.recorded import program_of  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


def tensor(*shape, seed=0):
    return tnp.asarray(numpy.random.RandomState(seed).randn(*shape).astype("float32"))


@pytest.mark.parametrize("seed", range(0, 24))
def test_random_programs_do_the_same(seed):
    random_functions.compare(seed)


def test_random_programs_are_converted():
    """Programs that always ran imperatively would agree as well."""
    counts = [random_functions.compare(seed).statistics() for seed in range(3)]
    assert sum(each["converted"] for each in counts) >= 8


@pytest.mark.parametrize("seed", [34, 398])
def test_random_programs_end(seed):
    """Breaks if a loop of these may make the list longer that it goes over (34), or turn while only the second of its conditions holds (398)."""
    program = random_functions.Program(seed, of_tensors=0.6, aliases=seed % 3 == 2)
    names, lines = program.module(f"<program {seed}>"), 0
    s = random_functions.state(names)

    def counted(frame, event, _):
        nonlocal lines
        lines += event == "line"
        assert lines < 20000, "it does not end"
        return counted

    sys.settrace(lambda frame, event, _: counted if frame.f_code is names["main"].__code__ else None)
    try:
        for arguments in random_functions.calls(seed):
            try:
                names["main"](s, *arguments)
            except ValueError:  # which programs raise
                pass
    finally:
        sys.settrace(None)


def test_a_run_of_random_programs_goes_on_where_it_ended(tmp_path):
    """Breaks if what was done is done again, or a program that differs is not told of."""
    kept, script = tmp_path / "kept.json", pathlib.Path(random_functions.__file__).parent / "differential.py"

    def run():
        command = [sys.executable, str(script), "--count", "2", "--modes", "function", "--json", str(kept)]
        return subprocess.run(command, capture_output=True, text=True)

    first = run()
    assert first.returncode == 0 and "2 of 2 programs in 1 modes, 0 differ" in first.stderr, first.stderr
    (part,) = json.loads(kept.read_text())
    assert part["calls"]["calls"] == 16
    kept.write_text(json.dumps([{**part, "differ": {"1": "program 1 was found before"}}]))
    again = run()
    assert again.returncode == 1 and "program 1 was found before" in again.stdout


# ---- assumptions


def broken(kind):
    """What a converted function and the program do where the assumption is broken in the middle."""
    program, setup, change = speculated.CASES[kind]
    results = []
    for function in (ts.function(program), program):
        speculated.set_global(2)
        s, told = setup(), []
        for number in range(10):
            if number == 5:
                change(s)
            told.append(described([function(s, speculated.ones()), s.__dict__ if kind not in ("callee", "class") else s.count]))
        results.append((function, told))
    speculated.set_global(2)
    (function, found), (_, expected) = results
    return function.statistics(), found, expected


@pytest.mark.parametrize("kind", residual.KINDS)
def test_a_broken_assumption_falls_back_once(kind):
    counts, found, expected = broken(kind)
    assert found == expected
    assert counts["imperative"] == 2, "the first call, and the one whose assumption failed"
    assert counts["failed_guards"] <= 2 and counts["conversions"] <= 3


@pytest.mark.parametrize("kind", residual.KINDS)
def test_each_kind_of_assumption_is_needed(kind, monkeypatch):
    monkeypatch.setattr(residual, "unguarded", {kind})
    try:
        _, found, expected = broken(kind)
    except Exception:
        return
    finally:
        speculated.set_global(2)
    assert found != expected


@pytest.mark.parametrize("kind", residual.KINDS)
def test_alternations_do_not_thrash(kind):
    program, setup, change = speculated.CASES[kind]
    function = ts.function(program)
    speculated.set_global(2)
    kept, other = setup(), setup()
    change(other)
    for number in range(200):
        speculated.set_global(3 if kind == "global" and number % 2 else 2)
        function(other if number % 2 else kept, speculated.ones())
    speculated.set_global(2)
    counts = function.statistics()
    assert counts["compilations"] <= 4 and counts["conversions"] <= 4
    assert counts["converted"] >= 194


def test_numbers_that_differ_are_inputs():
    function = ts.function(speculated.by_type)
    s = speculated.Plain(count=0, k=1)
    for k in range(50):
        s.k = k
        assert function(s, speculated.ones()).tolist() == [k + 1.0] * 3
    assert function.statistics()["conversions"] == 2 and s.count == 50


def test_branches_of_data_take_both_ways():
    function = ts.function(speculated.alternating)
    ours, theirs = (speculated.Plain(count=0, state=speculated.ones()) for _ in range(2))
    for number in range(40):
        x = speculated.ones() * (-1 if number % 3 else 1)
        assert function(ours, x).tolist() == speculated.alternating(theirs, x).tolist()
    assert function.statistics()["imperative"] <= 2 and ours.count == 40


def telling(s, x):
    try:
        if float(tnp.sum(x)) > 1:
            raise ValueError(f"{s.count} is large")
        return s.missing
    except (ValueError, AttributeError) as error:
        s.count += 1
        return str(error), f"{type(error).__name__}: {error!r:>3}", tnp.sum(x)


def test_exceptions_are_told():
    # Breaks if what a caught exception says ends a conversion, or is that of another call.
    found = []
    for way in (ts.function(telling), telling):
        s = speculated.Plain(count=0)
        found.append((way, [described([way(s, tensor(3, seed=i % 3)), s.count]) for i in range(9)]))
    assert found[0][1] == found[1][1]
    assert found[0][0].statistics()["converted"] >= 4, found[0][0].explain()


def by_patterns(s, x):
    s.count += 1
    match s.event:
        case 0 | 1 as number if number == s.count % 2:
            return x * (number + 2)
        case None | True:
            return x + 1
        case "scale":
            return x * 0.5
        case ["sum", *rest] if rest:
            return sum(rest) + tnp.sum(x)
        case (first, second):
            s.seen = [second, first]
            return x * first - second
        case {"by": int(by), **others}:
            s.seen = others
            return x * by
        case speculated.Plain(kind="far", at=speculated.Plain(at=at)) if tnp.sum(x) > at:
            return x - at
        case speculated.Pair(1, b) | speculated.Pair(b, 1):
            return x * b
        case float() | int():
            return x * s.event
        case _:
            s.seen = "nothing"
    return None


def test_patterns_are_matched():
    # Breaks if a pattern binds, compares or looks up in another order or by other rules than Python's.
    plain, pair = speculated.Plain, speculated.Pair
    events = [0, 1, None, True, "scale", ["sum", 1, 2.0], ["sum"], (2, 3), {"by": 3, "more": [1]}, {"by": "x"}, plain(kind="far", at=plain(at=1.0)), plain(kind="far"),
              pair(1, 4), pair(5, 1), pair(5, 6), 2.5, 7, b"ab", "ab"]  # fmt: skip
    found = []
    for way in (ts.function(by_patterns), by_patterns):
        s, told = speculated.Plain(count=0, seen=None, event=None), []
        for s.event in [each for each in events for _ in range(3)]:
            told.append(described([way(s, tensor(2)), s.count, s.seen]))
        found.append((way, told))
    (function, ours), (_, theirs) = found
    assert ours == theirs
    assert function.statistics()["converted"] >= 15, function.explain()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Celsius(float):
    pass


class Reading(float):
    __match_args__ = ("real", "imag")


class Names(list):
    pass


def by_classes_of_numbers(s, x):
    match s.event:
        case Level(level) if level is not Level.LOW:
            return x * level
        case Level(1):
            return x - 1
        case Reading(a, 0.0):
            return x * a - 2
        case Celsius(degrees):
            return x + degrees
        case Names(names):
            return x * len(names)
        case int(number):
            return x * number
    return None


def by_too_many_places(s, x):
    match s.event:
        case Level(a, b):
            return x * a + b
    return x


def matched(program, events):
    found = []
    for way in (ts.function(program), program):
        s, told = speculated.Plain(event=None), []
        for s.event in [each for each in events for _ in range(3)]:
            try:
                told.append(described([way(s, tensor(2))]))
            except TypeError as error:
                told.append(str(error))
        found.append((way, told))
    return found


def test_classes_derived_from_built_in_ones_stand_for_themselves():
    # Breaks if only a built-in class's one place is the object itself, not a derived one's, or if `__match_args__` doesn't come first.
    (function, ours), (_, theirs) = matched(by_classes_of_numbers, [Level.LOW, Level.HIGH, 5, Celsius(2.5), Reading(1.5), Names("ab")])
    assert ours == theirs
    assert function.statistics()["converted"] >= 5, function.explain()
    (_, ours), (_, theirs) = matched(by_too_many_places, [Level.LOW])
    assert ours == theirs


def test_places_that_a_class_gets_later_are_seen():
    # Breaks if nothing checks that the class still has no `__match_args__`.
    class Later(enum.IntEnum):
        LOW = 1
        HIGH = 3

    def program(s, x):
        match s.event:
            case Later(value):
                return x * value
        return x

    found = []
    for way in (ts.function(program), program):
        s, told = speculated.Plain(event=Later.HIGH), []
        for turn in range(8):
            if turn == 4:
                Later.__match_args__ = ("denominator",)
            told.append(described([way(s, tensor(2))]))
        del Later.__match_args__
        found.append(told)
    assert found[0] == found[1]


# ---- figures


def test_a_count_of_instructions_ends(monkeypatch):
    """Breaks if a process is counted again for as long as it compiles kernels, which it does for ever where the cache keeps none, or if one that compiles any is counted."""
    counted = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[2] / "bench/functions/instructions.py"))["counted"]

    def count(*compiled):
        processes = [subprocess.CompletedProcess([], 0, f"compiled {each}\n", f"==1== Collected : {number}00\n") for number, each in enumerate(compiled, 1)]
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: processes.pop(0))
        return counted("mlp", 0, 1)

    assert count(3, 0) == 200 and count(0) == 100
    with pytest.raises(SystemExit, match="TENSMITH_CACHE"):
        count(3, 3)


# ---- training


def test_the_page_runs(tmp_path):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "functions.md").read_text()
    program = tmp_path / "page.py"
    program.write_text("".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)))
    names = runpy.run_path(str(program))
    assert {key: names["step"].statistics()[key] for key in ("calls", "imperative", "converted")} == {"calls": 5, "imperative": 1, "converted": 4}


def trainings(make, steps):
    results = []
    for step in (ts.function(speculated.trained), speculated.trained):
        nn.manual_seed(3)
        model = make()
        optimiser = optim.Adam(model.parameters(), lr=0.01)
        losses = [float(step(model, optimiser, tensor(6, 5, seed=i), tnp.asarray([0, 1, 2, 0, 1, 2]))) for i in range(steps)]
        results.append((step, losses, {name: value.numpy().copy() for name, value in model.state_dict().items()}, optimiser))
    return results


def test_training_with_dropout_and_running_statistics():
    (function, losses, state, optimiser), (_, expected, expected_state, _) = trainings(
        lambda: nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)), 8)  # fmt: skip
    assert numpy.allclose(losses, expected, 1e-5)
    for name, value in expected_state.items():
        assert numpy.allclose(state[name], value, 1e-4, 1e-5), name
    assert function.statistics()["converted"] >= 6 and function.statistics()["compilations"] == 1
    assert all(each["step"] == 8 for each in optimiser.state.values())


def test_what_is_recorded_for_other_sizes_is_the_same_graph():
    # Breaks if the order of a graph's steps is that of addresses: each length, and each process, compiled a graph of its own.
    nn.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    optimiser, function = optim.Adam(model.parameters(), lr=0.01), ts.function(speculated.trained_twice)
    for length in range(17, 24):  # the first length, and all others
        for _ in range(3):
            function(model, optimiser, tensor(length, 5), tnp.asarray([0] * length))
    counts = function.statistics()
    assert counts["conversions"] == 2 and counts["compilations"] == 2, function.explain()


def test_sizes_that_can_not_be_open_share_a_graph():
    # Breaks if each size that the program looks at has a graph of its own: the first has, as it may be the only one, and the others have theirs together.
    def step(x):
        return tnp.sum(tnp.tanh(x) * tnp.reshape(tnp.linspace(0.0, 1.0, x.shape[0], dtype=tnp.float32), (-1, 1)), axis=0)

    function = ts.function(step)
    for length in (5, 6, 7, 9, 11):
        for _ in range(3):
            x = tensor(length, 4)
            assert numpy.allclose(function(x).numpy(), step(x).numpy(), 1e-5)
    counts = function.statistics()
    assert counts["conversions"] == 5 and counts["compilations"] == 2, function.explain()


def test_windows_that_lie_side_by_side_need_no_places(monkeypatch):
    # Breaks if a picture's sizes are open in the graph of a call: the places of a pool's maxima are then evaluated.
    function, texts = ts.function(speculated.pooled), []
    monkeypatch.setattr("tensmith.functions.effects.program_of", lambda text: texts.append(text) or program_of(text))
    for batch in (5, 5, 5, 6, 6, 7, 8):
        x, weight = tensor(batch, 2, 9, 9), tensor(3, 2, 2, 2)
        assert numpy.allclose(function(x, weight).numpy(), speculated.pooled(x, weight).numpy(), 1e-4)
    # Breaks also if a graph names sizes that have never differed, which costs kernels their known sizes, or keeps those that have.
    assert "input f32 5 2 9 9" in texts[0] and "input f32 s0 2 9 9" in texts[-1] and function.statistics()["conversions"] == 2


def test_gradients_of_functions():
    function = ts.function(speculated.own_gradient)
    ours, theirs = (speculated.Plain(scale=2.0, w=tensor(4)) for _ in range(2))
    for i in range(5):
        ours.scale = theirs.scale = 2.0 + i
        assert numpy.allclose(float(function(ours, tensor(4, seed=i))), float(speculated.own_gradient(theirs, tensor(4, seed=i))))
    assert numpy.allclose(ours.w.numpy(), theirs.w.numpy())
    assert function.statistics()["converted"] >= 2


def test_a_call_within_a_recording_is_recorded():
    function = ts.function(speculated.double)
    for _ in range(3):
        assert ts.grad(lambda x: tnp.sum(function(x)))(tnp.ones(2)).tolist() == [2.0, 2.0]


# ---- scopes of the program's own


@pytest.mark.parametrize("way", ["plain", "raise", "escape", "return", "break"])
def test_scopes_are_entered_and_left(way):
    # Breaks if a scope is not left by each way out of its block, or what it swallows goes on.
    results = []
    for function in (ts.function(speculated.scoped), speculated.scoped):
        scopes, told = (speculated.Scope(), speculated.Scope()), []
        for number in range(5):
            try:
                told.append(described(function(*scopes, speculated.ones() * number, way)))
            except KeyError as error:
                told.append(str(error))
        results.append((told, [vars(each) for each in scopes]))
    assert results[0] == results[1]


def test_scopes_are_converted():
    function = ts.function(speculated.scoped)
    scopes = (speculated.Scope(), speculated.Scope())
    for number in range(4):
        function(*scopes, speculated.ones() * number, "raise")
    assert function.statistics()["converted"] == 3, function.explain()


@pytest.mark.parametrize("name", ["__call__", "__exit__", "half"])
def test_methods_that_are_called_by_the_language_are_assumed(name, monkeypatch):
    # Breaks if special methods and those of classes are taken for what they were, whatever the class has now.
    results = []
    for function in (ts.function(speculated.scoped), speculated.scoped):
        scopes, told = (speculated.Scope(), speculated.Scope()), []
        for number in range(6):
            with monkeypatch.context() as patch:
                if number >= 3:
                    patch.setattr(speculated.Scope, name, vars(speculated.OtherScope)[name])
                told.append(described(function(*scopes, speculated.ones() * number, "plain")))
        results.append((told, [vars(each) for each in scopes]))
        if function is not speculated.scoped:
            assert function.statistics()["converted"] >= 3, function.explain()
    assert results[0] == results[1]


# ---- indices, trees, what has no conversion


def test_labels_that_differ_are_looked_up():
    function, table = ts.function(speculated.looked_up), tensor(4, 2)
    for labels in ([0, 1], [3, -1], [2, 2], [1, 0]):
        labels = tnp.asarray(labels)
        assert function(table, labels).tolist() == table[labels].tolist()
    with pytest.raises(IndexError):
        function(table, tnp.asarray([0, 4]))
    assert function.statistics()["converted"] == 3


def test_recursion_over_trees_is_unrolled_for_each_tree():
    function = ts.function(speculated.depth_of)
    for tree in [((1, 2), 3), ((4, 5), 6), ((1, 2), 3), (1, (2, 3)), (1, (2, 3)), (1, (2, 3))]:
        assert function(tree, speculated.ones()).tolist() == speculated.depth_of(tree, speculated.ones()).tolist()
    assert function.statistics()["converted"] >= 2


def test_what_has_no_conversion_says_so():
    function = ts.function(speculated.opened)
    for _ in range(6):
        assert function(1.0) == (1.0, "/dev/null")
    assert function.statistics()["imperative"] == 6
    assert "open" in function.explain() and "line " in function.explain()


def test_files_are_written_in_every_call(tmp_path):
    function, model = ts.function(speculated.saved), nn.Linear(2, 2)
    for number in range(4):
        function(model, tmp_path / f"{number}.safetensors", tensor(1, 2))
    assert len(list(tmp_path.iterdir())) == 4 and function.statistics()["converted"] == 0


def test_another_converted_function_is_another_callee(monkeypatch):
    function, s = ts.function(speculated.by_function), speculated.Plain(count=1)
    found = [function(s, tnp.ones(1)).item() for _ in range(3)]
    monkeypatch.setattr(speculated, "inner_function", ts.function(speculated.triple))
    assert [*found, *(function(s, tnp.ones(1)).item() for _ in range(3))] == [3, 3, 3, 4, 4, 4]
    assert function.statistics()["converted"] == 4


def test_marks_on_functions_are_not_assumed():
    def marked():
        pass

    function, found = ts.function(speculated.by_name), []
    for number in range(4):
        marked.mark = number % 2
        found.append(function(marked, tnp.ones(1)).item())
    assert found == [1, 2, 1, 2]


def test_a_tensor_that_was_right_is_looked_at_again_where_it_is_another():
    # Breaks if what was right the last time is taken for right once the tensor is of another type or shape, or asks for gradients.
    like, leaf = tnp.ones((2, 3), dtype=tnp.float32), tnp.ones((2, 3), dtype=tnp.float32)
    leaf.requires_grad = True
    holds = residual._eager.Guards(2, (), [("tensor", 0, 0, like), ("shape", 1, 0, like)], []).run
    fits, turned = tnp.zeros((2, 3), dtype=tnp.float32), tnp.zeros((3, 2), dtype=tnp.float32).T
    others = {0: [leaf, tnp.zeros((2, 3)), 1.0], 1: [tnp.zeros((3, 2), dtype=tnp.float32), tnp.zeros(6, dtype=tnp.float32)]}
    for number, wrong in others.items():
        for other in wrong:
            assert [holds((x, x)) for x in (like, fits, fits, other, turned, other)] == [(), (), (), number, (), number]


def test_a_class_says_what_is_in_its_objects(monkeypatch):
    class Bag:
        def __init__(self):
            self.names = {"a": 1}

        def __contains__(self, name):
            return name in self.names

    def step(x):
        x = x * 2.0 if "a" in bag else x
        return x if "b" not in heads else heads["b"](x)

    bag, heads = Bag(), nn.ModuleDict({"b": nn.ReLU()})
    function, found = ts.function(step), []
    for number in range(9):
        if number == 3:
            bag.names.clear()
        if number == 6:
            monkeypatch.setattr(Bag, "__contains__", lambda self, name: name == "a")
        found.append(function(tnp.ones(1)).item())
    # Breaks if what the class's method looks at, or which method it is, is no assumption.
    assert found == [2, 2, 2, 1, 1, 1, 2, 2, 2]
    assert function.statistics()["converted"] >= 4, function.explain()  # breaks if `in` of such an object has no conversion


def assignments(call):
    """How many operations of the engine a call has that write over tensors."""
    _eager.begin_trace()
    call()
    _eager.wait_for_all()
    return [event["name"] for event in json.loads(_eager.end_trace())["traceEvents"]].count("assign")


# Breaks if what a converted call or an optimiser writes is an operation for each tensor.
@pytest.mark.parametrize("converted", [False, True])
def test_all_that_is_written_is_one_operation(converted):
    parameters = [tnp.ones((100, 100), dtype=tnp.float32) for _ in range(3)]  # of nobody else, and too large to be copied at once
    for each in parameters:
        each.requires_grad = True
    optimiser = optim.SGD(parameters, lr=0.5, momentum=0.9)

    def step():
        optimiser.zero_grad()
        with ts.record():
            loss = sum(tnp.sum(each * each) for each in parameters)
        loss.backward()
        optimiser.step()

    call = ts.function(step) if converted else step
    for _ in range(3):
        call()
    before = [each[0, 0].item() for each in parameters]
    assert assignments(call) == 1
    assert all(each[0, 0].item() != old for each, old in zip(parameters, before))
    assert not converted or call.statistics()["converted"] >= 2


def places(tensors):
    """Where their elements lie; NumPy shares them for no longer than that."""
    return [numpy.asarray(each).ctypes.data for each in tensors]


@pytest.mark.parametrize("converted", [False, True])
def test_what_is_written_is_moved_and_not_copied(converted):
    """New values of parameters and states that nobody else has become theirs with their memory; what Python sees has still what it had."""
    parameter = tnp.ones((100, 100), dtype=tnp.float32)
    parameter.requires_grad = True
    optimiser, copied, now = optim.Adam([parameter], lr=0.5), tnp.ones((100, 100), dtype=tnp.float32), None
    view = copied[0]

    def step(x):
        optimiser.zero_grad()
        with ts.record():
            loss = tnp.sum(parameter * parameter * x)
        loss.backward()
        optimiser.step()
        new = copied * 2 + x
        copied[...] = new
        return new

    call = ts.function(step) if converted else step
    for _ in range(3):
        call(tnp.asarray(1.0, dtype=tnp.float32))
    owners = [parameter, *(each for each in optimiser.state[0]["states"] if each.size == 10000)]
    assert len(owners) == 3
    before, values = places(owners), [numpy.array(each) for each in owners]
    new = call(tnp.asarray(1.0, dtype=tnp.float32))
    assert all(a != b for a, b in zip(places(owners), before)) and all((numpy.asarray(a) != b).any() for a, b in zip(owners, values))
    # What is returned, too, isn't moved; a view sees what is written, and an array of NumPy's keeps its place.
    wanted = numpy.array(new)
    assert (numpy.asarray(copied) == wanted).all() and (numpy.asarray(view) == wanted[0]).all() and not new.shares_memory(copied)
    shared = numpy.asarray(parameter)
    old, now = shared.copy(), call(tnp.asarray(1.0, dtype=tnp.float32))
    assert (shared != old).any() and shared.ctypes.data == places([parameter])[0] and (numpy.asarray(new) == wanted).all()
    assert (numpy.asarray(now) == wanted * 2 + 1).all()
    assert not converted or call.statistics()["converted"] >= 3


@pytest.mark.parametrize("converted", [False, True])
def test_what_is_needed_elsewhere_is_not_moved(converted):
    """A value that two tensors get, one that is a gradient, too, and what an older tape has still to differentiate by."""
    a, b, c, parameter = (tnp.zeros((100, 100), dtype=tnp.float32) for _ in range(4))
    parameter[...] = 3
    parameter.requires_grad = True
    optimiser = optim.SGD([parameter], lr=0.25)

    def step(x):
        optimiser.zero_grad()
        with ts.record():
            loss = tnp.sum(parameter * parameter * x)
        loss.backward()
        v = a + x
        a[...] = v
        b[...] = v
        c[...] = parameter.grad
        optimiser.step()

    call = ts.function(step) if converted else step
    for number in range(1, 5):
        with ts.record():
            before = tnp.sum(parameter * parameter)
        old = numpy.array(parameter)
        call(tnp.asarray(1.0, dtype=tnp.float32))
        assert (numpy.array(parameter) == old / 2).all() and (numpy.array(parameter.grad) == 2 * old).all() and (numpy.array(c) == 2 * old).all()
        assert (numpy.array(a) == number).all() and (numpy.array(b) == number).all()
        parameter.grad = None
        before.backward()
        assert (numpy.array(parameter.grad) == 2 * old).all()
    assert not converted or call.statistics()["converted"] >= 2


def test_values_that_failed_are_not_moved_silently():
    parameter, table = tnp.zeros((10000,), dtype=tnp.float32), tnp.ones((10000,), dtype=tnp.float32)
    values = [_eager.apply("gather_elements", [table, tnp.full((10000,), 1 << 40, dtype=tnp.int64)], {"axis": 0}), tnp.ones((10000,), dtype=tnp.float32)]
    _eager.assign_all([parameter], values, [0])
    with pytest.raises(BufferError, match="holds 1099511627776"):
        numpy.array(parameter)
    assert values[0] is None and (numpy.array(values[1]) == 1).all()


def test_values_that_tapes_or_others_have_are_not_moved():
    """Lists have them alone, as Python sees it: an input and a result of an older tape, and one storage twice."""
    a, b, c, d = (tnp.zeros((100, 100), dtype=tnp.float32) for _ in range(4))
    w, x = (tnp.full((100, 100), value, dtype=tnp.float32) for value in (1, 5))
    w.requires_grad = True
    with ts.record():
        result = tnp.exp(w)
        loss = tnp.sum(w * x) + tnp.sum(result)
    values = [x, result, tnp.ones((100, 100), dtype=tnp.float32)]
    values.append(tnp.reshape(values[2], (100, 100)))
    del x, result
    _eager.assign_all([a, b, c, d], values, [0, 1, 2, 3])
    assert values == [None] * 4
    numpy.testing.assert_allclose(numpy.array(b), numpy.e, rtol=1e-6)
    assert (numpy.array(a) == 5).all() and (numpy.array(c) == 1).all() and (numpy.array(d) == 1).all()
    loss.backward()
    numpy.testing.assert_allclose(numpy.array(w.grad), 5 + numpy.e, rtol=1e-6)
