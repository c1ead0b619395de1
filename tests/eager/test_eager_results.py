"""Where results of programs lie: on memory that earlier ones had, once nobody has that any more; and how the runtime is told where operands lie."""

import sys

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import tensmith as ts  # noqa: E402
from tensmith import _eager, nn, optim  # noqa: E402
from tensmith.recorded import program_of  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


def place(tensor):
    return numpy.asarray(tensor).ctypes.data


def trained(converted):
    """A step over a parameter, its optimiser's states and a result."""
    parameter = tnp.ones((100, 100), dtype=tnp.float32)
    parameter.requires_grad = True
    optimiser = optim.Adam([parameter], lr=0.5)

    def step(x):
        optimiser.zero_grad()
        with ts.record():
            loss = tnp.sum(parameter * parameter * x)
        loss.backward()
        optimiser.step()
        return tnp.exp(parameter) * x

    call = ts.function(step) if converted else step
    for _ in range(3):
        call(tnp.asarray(1.0, dtype=tnp.float32))
    assert not converted or call.statistics()["converted"] >= 2
    return call, [parameter, *optimiser.state[0]["states"]]


# Breaks if what a state had is given back to the system: the tensors that are made between the calls take it then.
@pytest.mark.parametrize("converted", [False, True])
def test_new_states_take_turns_with_the_old_ones(converted):
    call, states = trained(converted)
    held, seen = [], []
    for _ in range(6):
        seen.append([place(each) for each in states])
        call(tnp.asarray(1.0, dtype=tnp.float32))
        held += [tnp.ones((100, 100), dtype=tnp.float32) for _ in range(8)]
    for places in zip(*seen):
        assert len(set(places)) == 2 and places[0] != places[1] and places[:2] * 3 == places


# Breaks if a result that Python keeps is written over by a later call: a tensor, a view of it, an array of NumPy's on it, or a gradient.
def test_what_somebody_has_is_not_written_over():
    call, (parameter, *_) = trained(True)
    held = []
    for number in range(1, 8):
        result = call(tnp.asarray(float(number), dtype=tnp.float32))
        for kept in (result, result[3], numpy.asarray(result), parameter.grad, numpy.asarray(parameter.grad))[number % 5 :]:
            held.append((kept, numpy.array(kept)))
        del result, kept
    assert all((numpy.asarray(kept) == values).all() for kept, values in held)
    assert len({float(values.ravel()[0]) for _, values in held}) > 5


# Breaks if a result that nobody has any more lies elsewhere than two of its kind before.
def test_results_lie_where_earlier_ones_lay():
    call, _ = trained(True)
    held, seen = [], []
    for _ in range(6):
        seen.append(place(call(tnp.asarray(1.0, dtype=tnp.float32))))
        held += [tnp.ones((100, 100), dtype=tnp.float32) for _ in range(4)]
    assert len(set(seen)) <= 2


# Breaks if a failure stays with memory: the next call's result would be the old one's failure.
def test_memory_of_a_result_that_failed_is_used_again():
    table = tnp.ones((3, 4), dtype=tnp.float32)
    tape = _eager.tape(False)
    rows = tnp.asarray([0, 1])
    for each in (table, rows):
        tape.watch(each, True)
    tape.begin()
    result = tnp.take(table, rows, axis=0)
    tape.end()
    text, inputs, types = tape.program([tape.read(result)])
    tape.release()
    program, types = program_of(text), _eager.ResultTypes(types)
    given = lambda rows: [table if x.shares_memory(table) else rows for x in inputs]
    for _ in range(3):
        failed = program.run(given(tnp.asarray([0, 7])), types)
        with pytest.raises(Exception, match="7"):
            failed[0].wait()
        del failed
        _eager.wait_for_all()  # until nobody has the result
        assert (numpy.asarray(program.run(given(tnp.asarray([0, 2])), types)[0]) == 1).all()


# Breaks if the runtime is told of an operand by its place alone: views of several sizes begin at one place.
def test_operands_at_one_place_have_several_shapes():
    base = tnp.arange(24, dtype=tnp.float32)
    double = ts.function(lambda x: tnp.sum(x * 2))
    for _ in range(2):
        for count in (5, 7, 9, 24, 5, 11):
            assert double(base[:count]).item() == count * (count - 1)
            assert double(base[1 : count + 1] if count < 24 else base[:24]).item() == (count * (count + 1) if count < 24 else 24 * 23)
    assert double.statistics()["converted"] >= 15, double.explain()


def test_results_are_a_sequence():
    """Each is a tensor of its own once it is asked for; what was moved is None, and what Python has seen is copied."""
    x = tnp.ones((4,), dtype=tnp.float32)
    tape = _eager.tape(False)
    tape.watch(x, True)
    tape.begin()
    values = [x + 1, x * 3, x - 4]
    tape.end()
    text, inputs, types = tape.program([tape.read(each) for each in values])
    tape.release()
    results = program_of(text).run(inputs, _eager.ResultTypes(types))
    assert len(results) == 3 and len(list(results)) == 3
    results = program_of(text).run(inputs, _eager.ResultTypes(types))
    seen, a, b = results[1], tnp.zeros((4,), dtype=tnp.float32), tnp.zeros((4,), dtype=tnp.float32)
    _eager.assign_all([a, b], results, [0, 1])
    assert results[0] is None and results[1].shares_memory(seen) and not b.shares_memory(seen)
    assert a.tolist() == [2] * 4 and b.tolist() == seen.tolist() == [3] * 4
    b[0] = 9
    assert seen.tolist() == [3] * 4
    for number in (0, 3):
        with pytest.raises(IndexError):
            _eager.assign_all([a], results, [number])
    with pytest.raises(IndexError):
        results[3]


def test_a_module_s_own_attributes_are_set_at_once():
    """As its class sets them, but without a call of Python for each; what has become a parameter meanwhile leaves its table."""
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))
    module.mark = None

    @ts.function
    def step(x):
        module.train()
        module.mark = "trained"
        return module(x)

    def own_calls(x):
        called = []
        sys.setprofile(lambda frame, event, _: called.append(frame) if event == "call" and frame.f_code is nn.Module.__setattr__.__code__ else None)
        try:
            step(x)
        finally:
            sys.setprofile(None)
        return len(called)

    x = tnp.ones((1, 2), dtype=tnp.float32)
    for _ in range(3):
        step(x)
    module.eval()
    assert own_calls(x) == 0 and all(each.training for each in module.modules()) and module.mark == "trained"
    del module.mark
    module.mark = tnp.ones(3, dtype=tnp.float32)
    module.mark.requires_grad = True
    module.mark = module.mark
    assert "mark" in module._parameters
    step(x)
    assert "mark" not in module._parameters and module.mark == "trained" and vars(module)["mark"] == "trained"
    assert step.statistics()["converted"] >= 4, step.explain()
