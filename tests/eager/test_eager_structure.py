"""Which tensors that a converted call makes are part of its graph's structure, and where its graph runs."""

import threading

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import tensmith as ts  # noqa: E402
from tensmith import _eager  # noqa: E402
from tensmith.recorded import program_of  # noqa: E402

INTEGERS = [tnp.int8, tnp.int32, tnp.int64, tnp.uint8, tnp.uint64, tnp.bool]


def text_of(make):
    """The text of a call's graph that is of what `make` makes and of a number of its type, which it must do right."""

    def program(x):
        made = make()
        return tnp.equal(x, made), made if made.dtype == tnp.bool else x * made

    converted, number = ts.function(program), tnp.ones((), dtype=make().dtype)
    for _ in range(3):
        for found, wanted in zip(converted(number), program(number)):
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            found, wanted = numpy.asarray(found), numpy.asarray(wanted)
            assert numpy.array_equal(found, wanted, equal_nan=wanted.dtype.kind == "f") and numpy.array_equal(numpy.signbit(1.0 * found), numpy.signbit(1.0 * wanted))
    assert converted.statistics()["converted"] == 2
    return converted._entries[0].text


@pytest.fixture
def x():
    return tnp.asarray([1.5, -2.5], dtype=tnp.float64)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("count", [1, 3, 64])
def test_few_integers_are_part_of_the_structure(dtype, count):
    values = [i % 2 if dtype == tnp.bool else i for i in range(count)]
    text = text_of(lambda: tnp.asarray(values, dtype=dtype))
    assert text.count("input ") == 1 and f" {','.join(map(str, map(int, values)))} {count}\n" in text


@pytest.mark.parametrize("make", [lambda: tnp.asarray(list(range(65))), lambda: tnp.asarray([0.25, 0.5]), lambda: tnp.full((3,), 0.1), lambda: tnp.asarray(3e-7)])
def test_many_integers_and_settings_are_inputs(make):
    assert text_of(make).count("input ") == 2


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -1.0, 2.0, 0.5])
@pytest.mark.parametrize("shape", [(), (1,), (4, 16), (100, 100)])
def test_one_number_that_rules_look_for_is_part_of_the_structure(number, shape):
    assert text_of(lambda: tnp.full(shape, number, dtype=tnp.float32)).count("input ") == 1


@pytest.mark.parametrize("make", [lambda: tnp.full((3,), float("nan")), lambda: tnp.full((2,), float("inf")), lambda: tnp.zeros((0, 4)), lambda: tnp.asarray([-(2**62)]),
                                  lambda: tnp.full((5,), 2**40), lambda: tnp.asarray([2**63 + 5], dtype=tnp.uint64), lambda: tnp.reshape(tnp.arange(12), (3, 4))[:, 1:3],
                                  lambda: tnp.asarray([[1, 2], [3, 4]]).T, lambda: tnp.broadcast_to(tnp.asarray(7), (3, 2))])  # fmt: skip
def test_ends_and_views_are_what_they_are(make):
    text_of(make)


def test_another_setting_compiles_nothing():
    texts = {text_of(lambda rate=rate: tnp.asarray(rate, dtype=tnp.float64)) for rate in (0.1, 0.2, 0.3)}
    assert len(texts) == 1


def test_what_a_call_makes_and_writes_is_not_what_it_was(x):
    """The structure has a tensor's elements as they were when it was read."""

    def program(x):
        count = tnp.asarray([1, 2, 3])
        before = tnp.sum(count)
        count[1] = 40
        return x * before + tnp.sum(count)

    converted = ts.function(program)
    for _ in range(4):
        assert converted(x).tolist() == program(x).tolist()
    assert converted.statistics()["converted"] == 3


# ---- where it runs


def read(x):
    return float(tnp.sum(x * 2))


def traced(converted, x):
    _eager.begin_trace()
    result = converted(x)
    return result, _eager.end_trace().count('"program"')


def test_a_trace_has_a_graph_that_runs_where_it_is_issued_else(x):
    converted = ts.function(read)
    for _ in range(3):
        converted(x)
    assert traced(converted, x) == (read(x), 1)
    program = program_of(converted._entries[0].text)
    assert not program.compiled.repeats


def test_a_graph_with_a_loop_is_the_engines():
    """Its time depends on its inputs, and nobody else would run meanwhile."""

    def program(n, x):
        i = tnp.asarray(0)
        while i < n:
            x = x * 1.0001 - 0.0001
            i = i + 1
        return float(tnp.sum(x))

    converted, x = ts.function(program), tnp.ones((4,), dtype=tnp.float64)
    for n in (3, 4, 5, 6, 7):
        assert converted(tnp.asarray(n), x) == pytest.approx(program(tnp.asarray(n), x), rel=1e-12)
    assert any("while|" in entry.text and program_of(entry.text).compiled.repeats for entry in converted._entries)


def test_an_awaited_graph_that_fails_leaves_the_call_to_python():
    """An index that is out of range: the call runs as it is, and raises what it raises; the next one is converted again."""
    table = tnp.asarray([1.0, 2.0, 3.0])

    def program(place):
        return float(tnp.take(table, place, axis=0)[0])

    converted = ts.function(program)
    for _ in range(4):
        assert converted(tnp.asarray([1])) == 2.0
    for _ in range(3):
        with pytest.raises(Exception, match="7|range|bounds"):
            converted(tnp.asarray([7]))
        assert converted(tnp.asarray([2])) == 3.0


def test_threads_take_turns_with_one_function(x):
    converted, found, lock = ts.function(read), [], threading.Lock()

    def calls(number):
        for i in range(50):
            given = tnp.asarray([float(number), float(i)])
            with lock:
                found.append((converted(given), read(given)))

    threads = [threading.Thread(target=calls, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 200 and all(a == b for a, b in found)


# ---- what is written


def filled(number, count=4):
    return tnp.full((count,), number, dtype=tnp.float32)


def test_places_that_overlap_are_written_in_order():
    for count in (4, 40000):
        whole = filled(0, count)
        part = whole[: count // 2]
        _eager.assign_all([part, whole], [filled(9, count // 2), filled(1, count)], [0, 1])
        assert whole.tolist() == [1] * count
        _eager.assign_all([whole, part], [filled(2, count), filled(3, count // 2)], [0, 1])
        assert whole.tolist() == [3] * (count // 2) + [2] * (count - count // 2)


def test_what_an_older_recording_reads_is_kept_where_memory_is_exchanged():
    for count in (4, 40000):
        w = filled(3, count)
        w.requires_grad = True
        with ts.record():
            loss = tnp.sum(w * w)
        _eager.assign_all([w], [filled(5, count)], [0])
        loss.backward()
        assert w.tolist() == [5] * count and w.grad.tolist() == [6] * count


# ---- structures that a recursion walks


class Node:
    def __init__(self, number, *below):
        self.number, self.left, self.right = number, *(below or (None, None))


def summed(node, x):
    if node is None:
        return x * 0
    return x * node.number + summed(node.left, x) - summed(node.right, x)


def drawn(numbers):
    if not numbers:
        return None
    middle = len(numbers) // 2
    return Node(numbers[middle], drawn(numbers[:middle]), drawn(numbers[middle + 1 :]))


@pytest.mark.parametrize("largest", [3, 2**62 - 1, -(2**62) + 1, 2**62, -(2**62), 2**80, -(2**80)])
def test_integers_of_objects_that_have_no_place_in_the_graph_leave_the_call_to_python(largest):
    converted, x = ts.function(summed), tnp.asarray([1.0, -1.0], dtype=tnp.float64)
    for count in (1, 3, 5, 2, 7, 6):
        tree = drawn(list(range(1, count + 1)))
        assert converted(tree, x).tolist() == summed(tree, x).tolist()
    tree = drawn([1, largest, 2])
    assert converted(tree, x).tolist() == pytest.approx(summed(tree, x).tolist())
    assert converted(drawn([4, 5]), x).tolist() == summed(drawn([4, 5]), x).tolist()
    assert converted.statistics()["converted"] > 2
