"""Tensors that a converted call writes over in their own memory: what they were is gone only where the call succeeds, and nobody else sees another value."""

import gc
import weakref

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import tensmith as ts  # noqa: E402
from tensmith import _eager, nn, optim  # noqa: E402
from tensmith.recorded import program_of  # noqa: E402
from tensmith.recorded.texts import encoded  # noqa: E402

functional = nn.functional


def place_of(x):
    """Where its elements lie. The array that shares them is let go of again."""
    return numpy.asarray(x).ctypes.data


def states_of(converted):
    return [line for entry in converted._entries for line in (entry.text or "").splitlines() if line.startswith("state ")]


def called(program, *arguments):
    """A converted program, whose first calls have told all that there is to assume: all but one of these ran converted."""
    converted = ts.function(program)
    for given in arguments:
        converted(*given)
    assert converted.statistics()["converted"] == len(arguments) - 1
    return converted


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        nn.manual_seed(1)
        self.words, self.first, self.second = nn.Embedding(7, 6), nn.Linear(6, 5), nn.Linear(5, 4)

    def forward(self, words):
        return self.second(tnp.tanh(self.first(self.words(words))))


OPTIMISERS = {
    "SGD": lambda parameters: optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: optim.Adam(parameters, lr=0.01),
    "Adagrad": lambda parameters: optim.Adagrad(parameters, lr=0.05),
}


def training(optimiser, convert):
    network = Network()
    made = OPTIMISERS[optimiser](network.parameters())

    @convert
    def step(words, labels):
        made.zero_grad()
        with ts.record():
            loss = functional.cross_entropy(network(words), labels)
        loss.backward()
        made.step()
        return loss

    return network, step


def batches(count):
    draw = numpy.random.RandomState(3)
    return [(tnp.asarray(draw.randint(0, 7, 8)), tnp.asarray(draw.randint(0, 4, 8))) for _ in range(count)]


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_training_writes_parameters_where_they_are(optimiser):
    (own, converted), (other, eager) = training(optimiser, ts.function), training(optimiser, lambda step: step)
    for words, labels in batches(4):
        assert abs(float(converted(words, labels)) - float(eager(words, labels))) < 1e-5
    weights = [own.first.weight, own.second.weight]
    before = [place_of(p) for p in weights]
    for words, labels in batches(5):
        assert abs(float(converted(words, labels)) - float(eager(words, labels))) < 1e-5
    assert [place_of(p) for p in weights] == before  # after an odd number of steps: results that are moved lie at one of two places
    assert len(states_of(converted)) >= len(list(own.parameters()))
    for p, q in zip(own.parameters(), other.parameters()):
        assert numpy.allclose(p, q, atol=1e-5)


def test_an_assumption_that_is_told_from_results_leaves_what_was_there():
    """The truth is an assumption, since it was the same in all calls so far."""

    def program(state, x):
        state += x
        return x * 2.0 if tnp.sum(x) > 0 else x * 3.0

    state, one = tnp.zeros((5,)), tnp.ones((5,))
    converted = called(program, (state, one), (state, one), (state, one))
    assert states_of(converted) and converted.statistics()["converted"] == 2
    where = place_of(state)
    converted(state, one)
    assert place_of(state) == where and numpy.array_equal(state, [4.0] * 5)
    assert numpy.array_equal(converted(state, -one), [-3.0] * 5)
    assert numpy.array_equal(state, [3.0] * 5)
    assert converted.statistics()["failed_guards"] == 1


def test_labels_out_of_range_leave_parameters_as_they_were():
    network, step = training("Adam", ts.function)
    for words, labels in batches(3):
        step(words, labels)
    before = [numpy.array(p) for p in network.parameters()]
    words, labels = batches(1)[0]
    for wrong in [(words, labels + 4), (words + 7, labels)]:
        with pytest.raises(IndexError):
            step(*wrong)
    assert all(numpy.array_equal(a, b) for a, b in zip(before, network.parameters()))
    assert step.statistics()["imperative"] >= 2
    step(words, labels)
    assert not any(numpy.array_equal(a, b) for a, b in zip(before, network.parameters()))


@pytest.mark.parametrize("is_busy", [False, True])
@pytest.mark.parametrize("size", [3, 400_000])
def test_an_index_out_of_range_behind_a_write_leaves_what_was_there(size, is_busy):
    """Also where the engine runs the graph: what failed is the run, and not the tensor."""

    def program(state, table, i):
        state *= 2.0
        return table[i]

    state, table, matrix = tnp.ones((size,)), tnp.arange(4.0), tnp.ones((700, 700), dtype=tnp.float32)
    converted = called(program, *((state, table, tnp.asarray([k])) for k in (0, 1, 2)))
    assert states_of(converted)
    product = tnp.matmul(matrix, matrix) if is_busy else None
    with pytest.raises(IndexError):
        converted(state, table, tnp.asarray([9]))
    assert numpy.array_equal(state, numpy.full(size, 16.0))  # what the program does before it fails it does once
    assert converted(state, table, tnp.asarray([3])).tolist() == [3.0] and float(state[-1]) == 32.0
    assert product is None or float(product[0, 0]) == 700.0


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_number_that_python_does_not_have(wrong):
    """There is no integer of it: the call raises behind the graph, once."""

    def program(state, x):
        state += 1.0
        return int(tnp.sum(x))

    state, x = tnp.zeros((2,)), tnp.ones((2,))
    converted = called(program, (state, x), (state, x), (state, x))
    assert converted(state, x) == 2
    with pytest.raises((ValueError, OverflowError)):
        converted(state, tnp.full((2,), wrong))
    assert state.tolist() == [5.0, 5.0]


def test_a_graph_with_states_is_shown():
    def program(state, x):
        state += x

    state, x = tnp.zeros((2,)), tnp.ones((2,))
    converted = called(program, (state, x), (state, x))
    assert states_of(converted) and "<svg" in converted._repr_html_()


def test_a_result_of_the_same_value_is_a_tensor_of_its_own():
    def program(state, x):
        new = state + x
        state[...] = new
        return new

    state, one = tnp.zeros((4,)), tnp.ones((4,))
    converted = called(program, (state, one), (state, one), (state, one))
    found = converted(state, one)
    assert converted.statistics()["converted"] == 3
    state += 5.0
    assert numpy.array_equal(found, [4.0] * 4) and numpy.array_equal(state, [9.0] * 4)


def test_what_was_there_may_be_a_result():
    def program(state, x):
        old = tnp.asarray(state, copy=True)
        state += x
        return old

    state, one = tnp.zeros((4,)), tnp.ones((4,))
    converted = called(program, (state, one), (state, one), (state, one))
    assert numpy.array_equal(converted(state, one), [3.0] * 4) and numpy.array_equal(state, [4.0] * 4)


def test_two_tensors_of_one_new_value():
    def program(a, b, x):
        new = a + b + x
        a[...] = new
        b[...] = new

    a, b, one = tnp.zeros((3,)), tnp.zeros((3,)), tnp.ones((3,))
    converted = called(program, (a, b, one), (a, b, one), (a, b, one))
    converted(a, b, one)
    assert converted.statistics()["converted"] == 3
    assert numpy.array_equal(a, [15.0] * 3) and numpy.array_equal(b, [15.0] * 3)
    a += 1.0
    assert numpy.array_equal(b, [15.0] * 3)


def test_tensors_that_exchange_their_values():
    def program(a, b):
        old = a * 1.0
        a[...] = b
        b[...] = old

    a, b = tnp.asarray([1.0, 2.0]), tnp.asarray([3.0, 4.0])
    converted = called(program, (a, b), (a, b), (a, b))
    converted(a, b)
    assert converted.statistics()["converted"] == 3
    assert numpy.array_equal(a, [1.0, 2.0]) and numpy.array_equal(b, [3.0, 4.0])


def test_a_tape_keeps_what_it_has_recorded():
    """Its gradient is by the value that the tensor had."""

    def program(state):
        state *= 3.0

    state = tnp.asarray([1.0, 2.0])
    converted = called(program, (state,), (state,), (state,))
    other = tnp.ones((2,))
    other.requires_grad = True
    before = numpy.array(state)
    with ts.record():
        loss = tnp.sum(other * state)
    converted(state)
    loss.backward()
    assert numpy.array_equal(other.grad, before) and numpy.array_equal(state, before * 3)


def test_a_recording_knows_what_was_there():
    """Who records is told what a program gives; nothing is written."""
    program = program_of("input f64 2\ninput f64 2\nmul||0 1|f64 2\nout 2\nstate 0 0\n")
    state, x = tnp.asarray([2.0, 3.0]), tnp.asarray([5.0, 7.0])
    types = _eager.ResultTypes([(x.dtype, [2])])
    where, given = place_of(state), program([state, x], types)
    assert place_of(given[0]) == where and numpy.array_equal(state, [10.0, 21.0])
    x.requires_grad = True
    with ts.record():
        y = program([state, x], types)[0]
        loss = tnp.sum(y * y)
    loss.backward()
    assert numpy.array_equal(state, [10.0, 21.0]) and numpy.array_equal(x.grad, [2 * 50.0 * 10.0, 2 * 147.0 * 21.0])


def test_within_a_coexecuted_step():
    def program(state, x):
        state += x

    state, x = tnp.zeros((3,)), tnp.ones((3,))
    converted = called(program, (state, x), (state, x), (state, x))

    @ts.coexecute
    def step():
        converted(state, x)
        return state * 2.0

    for count in range(4, 12):
        assert numpy.array_equal(step(), [2.0 * count] * 3)
    assert numpy.array_equal(state, [11.0] * 3)


def test_code_that_may_raise_behind_the_graph():
    """The call is the function's then, from the begin."""

    def program(state, x):
        state += x
        return 12 // int(tnp.sum(state))

    state, one = tnp.full((2,), -4.0), tnp.ones((2,))
    converted = ts.function(program)
    for wanted in (-2, -3, -6):
        assert converted(state, one) == wanted
    with pytest.raises(ZeroDivisionError):
        converted(state, one)
    assert numpy.array_equal(state, [0.0] * 2) and converted(state, one) == 6 and converted.statistics()["converted"] >= 2


@pytest.mark.parametrize("part", [lambda x: x[1], lambda x: x[:, 1], lambda x: x.T, lambda x: x[::-1, 1:]])
def test_a_view_sees_what_is_written(part):
    whole, wanted = tnp.zeros((3, 3)), numpy.zeros((3, 3))

    def program(state, x):
        state += x

    view, one = part(whole), tnp.ones(())
    converted = called(program, (view, one), (view, one), (view, one))
    array = numpy.asarray(whole)
    converted(view, one)
    part(wanted)[...] = 4.0
    assert numpy.array_equal(array, wanted) and converted.statistics()["converted"] == 3


def test_memory_of_a_tensor_goes_with_it():
    """What a run has written over is not kept for the next call's results."""

    def program(state, x):
        state += x

    class Memory(numpy.ndarray):
        """Of which one can tell when it is gone."""

    x, converted = tnp.ones((4,)), ts.function(program)
    for _ in range(3):
        memory = numpy.zeros((4,)).view(Memory)
        state, gone = tnp.from_dlpack(memory), weakref.ref(memory)
        for _ in range(3):
            converted(state, x)
        assert numpy.array_equal(memory, [3.0] * 4)
        del state, memory
        _eager.wait_for_all()
        gc.collect()
        assert gone() is None
    assert converted.statistics()["converted"] >= 6 and states_of(converted)


TWO_OF_ONE = "input f64 2\nmul||0 0|f64 2\nout 1\nout 1\n"


@pytest.mark.parametrize("holds", [True, False])
def test_a_part_that_gives_one_value_twice(holds):
    """Each of the two states keeps what it had itself."""
    part = encoded(TWO_OF_ONE)
    text = f"input bool\ninput f64 2\ninput f64 2\ninput f64 2\nprogram|text=s:{part}|1|f64 2,f64 2\nout 0\nout 4\nout 5\nstate 1 2 0\nstate 2 3 0\n"
    given = [tnp.asarray(holds), tnp.asarray([3.0, 4.0]), tnp.asarray([5.0, 6.0]), tnp.asarray([7.0, 8.0])]
    _, a, b = program_of(text).compiled.run(given, [(x.dtype, list(x.shape)) for x in (given[0], *given[2:])])
    assert numpy.array_equal(a, [9.0, 16.0] if holds else [5.0, 6.0]) and numpy.array_equal(b, [9.0, 16.0] if holds else [7.0, 8.0])


def test_operations_that_were_issued_before_read_what_was_there():
    def program(state, x):
        state += x

    state, x = tnp.zeros((300, 300), dtype=tnp.float32), tnp.ones((300, 300), dtype=tnp.float32)
    converted, found = called(program, (state, x), (state, x), (state, x)), []
    for _ in range(20):
        found.append(tnp.matmul(state, x))
        converted(state, x)
    assert [float(each[0, 0]) for each in found] == [300.0 * (3 + k) for k in range(20)]
