"""`ts.coexecute`: steps do what they do eagerly, nearly all of them by graphs, while Python runs; and a way that is new leaves no trace.

Graphs are evaluated here, not compiled; compiled ones are held against eager steps by `bench/coexecution`.
"""

import json
import pathlib
import random
import re
import runpy
import threading

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import coexecuted  # noqa: E402
import differential  # noqa: E402
import random_functions  # noqa: E402
import terra  # noqa: E402

import tensmith as ts  # noqa: E402
from tensmith import _eager, nn, optim  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


@pytest.mark.parametrize("seed", range(100, 108))
def test_random_programs_do_the_same(seed):
    function = random_functions.compare(seed, ts.coexecute)
    assert function.statistics()["recorded"] + function.statistics()["coexecuted"] == 7
    assert "can't be compiled" not in function.explain()


@pytest.mark.parametrize("seed", range(200, 215))
def test_random_programs_do_the_same_by_blocks(seed):
    """A block that takes another's tensors, or does not give what is needed later, would differ."""
    differential.run(seed, "blocks")


PROGRAMS = {**coexecuted.PROGRAMS, **terra.PROGRAMS}


def run(name, convert, steps):
    nn.manual_seed(5)
    told = []
    step = convert(PROGRAMS[name](told))
    warm, losses = None, []
    for number in range(steps):
        if number == 40 and convert is ts.coexecute:
            warm = step.statistics()
        losses.append(step(number))
    return step, [float(loss) for loss in losses], told, warm


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_coexecuted(name):
    step, losses, told, warm = run(name, ts.coexecute, 60)
    _, expected, expected_told, _ = run(name, lambda step: step, 60)
    assert numpy.allclose(losses, expected, 1e-4, 1e-6), step.explain()
    for found, wanted in zip(told, expected_told, strict=True):
        assert found == wanted or numpy.allclose(found, wanted, 1e-3)
    counts = step.statistics()
    assert counts["coexecuted"] >= 45 and counts["coexecuted"] - warm["coexecuted"] >= 19, step.explain()
    assert counts["recorded"] == counts["fall_backs"] + 1


def names_of(trace):
    return [event["name"] for event in json.loads(trace)["traceEvents"]]


def test_the_graph_runs_before_python_has_issued_it():
    """The trace within a step has the whole graph, of which Python has issued only the first operation."""
    seen = []

    @ts.coexecute
    def step(x):
        y = x @ x
        _eager.wait_for_all()
        if seen is not None:
            seen.append(names_of(_eager.end_trace()))
        return tnp.sum(tnp.exp(y) * 2.0)

    for number in range(4):
        _eager.begin_trace()
        result = step(tnp.ones((3, 3)))
        assert abs(float(result) - 18 * numpy.exp(3)) < 1e-6
    _eager.end_trace()
    assert step.statistics()["coexecuted"] == 2
    assert seen[-1] == ["step"]


def test_followed_steps_run_no_operator():
    w = tnp.ones(3)

    @ts.coexecute
    def step(x):
        w[...] = w * 0.5 + tnp.sum(x @ x)
        return tnp.max(w)

    for _ in range(3):
        step(tnp.ones((80, 80)))
    _eager.begin_trace()
    step(tnp.ones((80, 80)))
    assert set(names_of(_eager.end_trace())) <= {"step", "assign"}
    assert step.statistics()["coexecuted"] == 2


def test_a_new_branch_costs_one_fall_back_and_leaves_no_trace():
    results = []
    for convert in (ts.coexecute, lambda step: step):
        w, log = tnp.asarray([1.0, 2.0]), []

        @convert
        def step(flag, w=w, log=log):
            w[0] = w[1] * 2.0
            kept = w + 1.0
            log.append(len(log))
            if flag:
                kept[1] = w[0]
                w[1] = tnp.sum(kept)
            else:
                w[...] = w * 0.5
            return kept

        found = [step(number in (5, 8, 9)).tolist() for number in range(12)]
        results.append((found, w.tolist(), log))
        if hasattr(step, "statistics"):
            assert step.statistics()["fall_backs"] == 1, step.explain()
            assert step.statistics()["recorded"] == 2
    assert results[0] == results[1]


def branches(x, flags):
    """Ways that part and meet: with both sides, or one."""
    y = tnp.tanh(x)
    for flag in flags[:2]:  # the same lines, in turns
        y = tnp.sin(y) * 3.0 if flag else tnp.cos(y) + 3.0
        y = y + x
    if flags[2]:
        y = y / 3.0
    y = tnp.cos(y)
    y = tnp.abs(y) if flags[3] else y * y
    y = y * 0.7
    if flags[4]:
        x[...] = y + x * 0.3
    return tnp.tanh(y)


def test_ways_that_meet_have_their_deeds_in_common():
    """Five branches are 32 ways. Were they told apart, each would be recorded."""
    draw, step = random.Random(1), ts.coexecute(branches)
    found, expected = tnp.asarray([0.3, 0.6]), tnp.asarray([0.3, 0.6])
    for _ in range(150):
        flags = [draw.random() < 0.5 for _ in range(5)]
        assert numpy.allclose(step(found, flags).numpy(), branches(expected, flags).numpy()), step.explain()
        assert numpy.allclose(found.numpy(), expected.numpy())
    counts = step.statistics()
    assert counts["recorded"] <= 6 and counts["coexecuted"] >= 143, step.explain()


def repeated(x, count):
    for _ in range(count):
        x = tnp.tanh(x * 0.9 + 0.3)
        if float(tnp.sum(x)) > 2.5:
            x = x - 0.25
    return tnp.sum(x)


def test_a_loop_is_one_whatever_its_length():
    draw, step = random.Random(2), ts.coexecute(repeated)
    for _ in range(60):
        count, x = draw.randrange(12), tnp.asarray([draw.random(), 1.0, 0.75])
        assert numpy.isclose(float(step(x, count)), float(repeated(x, count)))
    before = step.statistics()
    assert before["recorded"] <= 4, step.explain()
    _eager.begin_trace()
    step(tnp.asarray([0.5, 1.0, 0.75]), 40)  # longer than any before
    assert set(names_of(_eager.end_trace())) == {"step"}
    assert step.statistics()["by_blocks"] == before["by_blocks"] + 1


def test_a_branch_that_blocks_have_not_seen_costs_one_fall_back():
    @ts.coexecute
    def step(x, flags, is_new):
        y = x * 3.0
        for flag in flags:
            y = tnp.sin(y) if flag else y + 0.75
        if is_new:
            y = tnp.exp(y)
        return tnp.sum(y)

    draw = random.Random(3)

    def steps(count, is_new):
        for _ in range(count):
            flags = [draw.random() < 0.5 for _ in range(4)]
            assert numpy.isclose(float(step(tnp.ones(2), flags, is_new())), float(step.__wrapped__(tnp.ones(2), flags, is_new.last)))
        return step.statistics()["fall_backs"]

    class Never:
        last = False

        def __call__(self):
            return False

    class Sometimes(Never):
        def __call__(self):
            self.last = draw.random() < 0.5
            return self.last

    before = steps(40, Never())
    assert steps(40, Sometimes()) == before + 1, step.explain()


def test_steps_that_settle_on_few_ways_get_paths():
    """Two ways that no recorded step has gone as a whole: blocks are for those that go many."""
    step, draw = ts.coexecute(branches), random.Random(4)
    for number in range(90):
        flags = [draw.random() < 0.5 for _ in range(5)] if number < 30 else [number % 2 == 0] * 3 + [True, False]
        step(tnp.asarray([0.3, 0.6]), flags)
    before = step.statistics()
    for number in range(8):
        step(tnp.asarray([0.3, 0.6]), [number % 2 == 0] * 3 + [True, False])
    assert step.statistics()["by_blocks"] == before["by_blocks"], step.explain()


def test_a_way_of_one_step_in_five_gets_a_path():
    # Breaks if only the step behind one that was on no path may become one: this way never follows itself.
    step, draw = ts.coexecute(branches), random.Random(4)
    for number in range(60):
        step(tnp.asarray([0.3, 0.6]), [draw.random() < 0.5 for _ in range(5)] if number < 30 else [number % 5 == 4] * 3 + [True, False])
    before = step.statistics()
    for number in range(60, 70):
        step(tnp.asarray([0.3, 0.6]), [number % 5 == 4] * 3 + [True, False])
    assert step.statistics()["by_blocks"] == before["by_blocks"], step.explain()
    assert step.statistics()["coexecuted"] == before["coexecuted"] + 10


def test_a_view_is_of_a_tensor_of_the_same_size():
    """Programs take the whole tensor, whose size the view does not say."""
    step = ts.coexecute(lambda x: tnp.sum(x[0:3] * 1.5))
    for size in (5, 5, 5, 3, 3, 5, 4):
        assert float(step(tnp.ones(size))) == 4.5


def test_what_is_kept_beyond_the_step_is_computed():
    kept = []

    @ts.coexecute
    def step(x, keeps):
        y = tnp.tanh(x)
        z = y * 3.0
        if keeps:
            kept.append(y)
        return z[1:]

    for number in range(9):
        x = tnp.asarray([0.5, number])
        assert numpy.allclose(step(x, number in (4, 6, 7)).numpy(), 3 * numpy.tanh([number]))
    assert numpy.allclose([each.numpy()[1] for each in kept], numpy.tanh([4, 6, 7]))
    assert step.statistics()["fall_backs"] == 1


def test_memory_that_numpy_shares_is_read_when_the_operation_is_issued():
    @ts.coexecute
    def step(array, x):
        y = tnp.from_dlpack(array) * 2.0
        array[...] = 7
        z = y + x
        seen = z.numpy()
        seen[0] = 100
        return z * 1.5

    for number in range(5):
        array = numpy.full(3, float(number))
        assert step(array, tnp.ones(3)).tolist() == [150, *[(2 * number + 1) * 1.5] * 2]
    assert step.statistics()["coexecuted"] >= 3


def test_memory_that_numpy_shares_is_one_input_while_it_stays_as_it_is():
    # Breaks if each operation has a copy of its own: the forward pass of `backward` would be another one than the step's.
    w = tnp.asarray([0.5, 1.5])
    w.requires_grad = True

    def inputs(batch):
        @ts.coexecute
        def step(number):
            x = batch(number)
            with ts.record():
                loss = tnp.sum(tnp.tanh(x * w) * x)
            loss.backward()
            w.grad, gradient = None, w.grad
            return loss, gradient

        results = [[loss.item(), *gradient.tolist()] for loss, gradient in map(step, range(5))]
        assert step.statistics()["coexecuted"] == 3, step.explain()
        ((_, [(count, _, _)]),) = step._steps.paths()
        return count, results

    shared, own = inputs(lambda number: tnp.from_dlpack(numpy.full(2, number * 0.3))), inputs(lambda number: tnp.asarray([number * 0.3] * 2))
    assert shared[0] == own[0] == 2 and numpy.allclose(shared[1], own[1])


def test_what_was_computed_before_a_recording_is_constant_to_its_derivatives():
    # Breaks if a backward pass within a graph is by what its inputs were computed of, too.
    w = tnp.asarray([1.0, 2.0])
    w.requires_grad = True

    @ts.coexecute
    def step(x):
        w.grad, y = None, x * w
        with ts.record():
            loss = tnp.sum(y * w)
        loss.backward()
        return w.grad * 1.0

    assert [step(tnp.asarray([number, 3.0])).tolist() for number in range(5)] == [[number, 6.0] for number in range(5)]
    assert step.statistics()["coexecuted"] == 3


def test_a_forward_pass_that_is_read_behind_its_backward_pass_is_computed_once():
    # Breaks if the read is of a segment of its own: the backward pass computes the same again, in another.
    w = tnp.asarray([1.0, 2.0])
    w.requires_grad = True

    @ts.coexecute
    def step(x):
        w.grad = None
        with ts.record():
            loss = tnp.sum(tnp.tanh(x * w))
        loss.backward()
        w[...] = w - w.grad * 0.1
        return loss.item()

    assert len({step(tnp.asarray([number, 3.0])) for number in range(5)}) == 5
    ((_, segments),) = step._steps.paths()
    assert [count for _, count, _ in segments if count] == [3], step.explain()  # the loss, the gradient and w


def test_labels_from_outside_are_checked_before_a_graph_runs():
    """Of a loss, whether its labels are classes: an error at its line, and yet no segment of its own. Those that the step computes are read."""

    def outside(x, labels):
        return nn.functional.cross_entropy(x * 2.0, labels, ignore_index=7)

    def computed(x, labels):
        return nn.functional.cross_entropy(x * 2.0, labels * 1, ignore_index=7)

    x = tnp.asarray(numpy.random.default_rng(1).normal(size=(4, 3)).astype("float32"))
    good, bad = [[0, 2, 7, 1], [2, 2, 0, 7], [1, 7, 7, 0]], [0, 3, 7, 1]
    for function, graphs in (outside, 1), (computed, 2):
        step = ts.coexecute(function, warm_up=0)
        for labels in good:
            given = tnp.asarray(numpy.array(labels))
            assert float(step(x, given)) == pytest.approx(float(function(x, given)), abs=1e-6)
        # Breaks if the check is a read of what the graph has computed of labels that were there before.
        assert step.explain().count("a graph of") == graphs, step.explain()
        assert step.statistics()["coexecuted"] == 2
        with pytest.raises(IndexError):  # breaks if nothing looks at the labels
            step(x, tnp.asarray(numpy.array(bad)))
        assert float(step(x, given)) == pytest.approx(float(function(x, given)), abs=1e-6)


@pytest.mark.parametrize("way", ["eager", "converted", "open", "recorded", "path", "blocks"])
@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_labels_of_another_length_are_refused(way, count):
    """Of four rows: one, two or six labels are an error at their line."""

    def function(x, labels):
        return nn.functional.nll_loss(x * 2.0, labels, reduction="none") + 1.0

    def labels(many):
        return tnp.asarray(numpy.arange(many) % 3)

    rows = numpy.random.default_rng(1).normal(size=(4, 3)).astype("float32")
    x, step = tnp.asarray(rows), function
    if way in ("converted", "open"):
        step = ts.function(function)
        for rest in (5, 7, 9, 6) if way == "open" else ():
            step(tnp.asarray(numpy.ones((rest, 3), "float32")), labels(rest))
    elif way != "eager":
        step = ts.coexecute(function, warm_up=0)
        if way == "blocks":
            step._steps.ignore_paths()
        if way != "recorded":
            for _ in range(3):
                step(x, labels(4))
    if count == 4:
        expected = 1.0 - 2.0 * rows[numpy.arange(4), numpy.arange(4) % 3]
        for _ in range(2):
            assert step(x, labels(count)).tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    else:
        for _ in range(2):
            # Breaks if one label is every row's: PyTorch refuses it, and the mean would be a sum over one share.
            with pytest.raises(ValueError, match="takes a label for each row of x"):  # where it is called: nothing is read
                step(x, labels(count))
    if way in ("path", "blocks"):
        assert step.statistics()["coexecuted"] > 0, step.explain()


def test_an_update_that_a_step_makes_is_none_of_its_operations():
    """An optimiser's program is recorded apart when its step is co-executed, with each number of its settings once."""
    made = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5), nn.Linear(5, 2))
    optimiser = optim.Adam(made.parameters(), lr=0.01)

    def step(x):
        optimiser.zero_grad()
        with ts.record():
            loss = tnp.sum(made(x) ** 2.0)
        loss.backward()
        optimiser.step()
        return loss

    step = ts.coexecute(step, warm_up=0)
    for _ in range(5):
        step(tnp.ones((2, 3), dtype=tnp.float32))
    assert step.statistics()["coexecuted"] == 2  # numbers 1 and 2 of a step are part of its graph, as all 1 and 2 are
    # Parameters with two states each, the batch, the rate, the number of the step, and a few of Adam's. Breaks if the program's operations are deeds of
    # the step that it is recorded in: then each parameter has numbers of its own.
    inputs = [int(found) for found in re.findall(r"a graph of (\d+) inputs", step.explain())]
    assert max(inputs) <= 6 * 3 + 1 + 2 + 8, step.explain()


def test_what_an_optimiser_writes_is_one_deed():
    # Breaks if each tensor is written by a deed of its own: each has another shape, and so a node.
    model = nn.Sequential(*[nn.Linear(2 + i, 3 + i) for i in range(16)])
    optimiser = optim.Adam(model.parameters(), lr=0.01)
    for each in model.parameters():
        each.grad = tnp.ones_like(each)
    step = ts.coexecute(lambda: optimiser.step(), warm_up=0)
    for _ in range(5):
        step()
    assert step.statistics()["coexecuted"] >= 2
    assert step._steps.nodes < 8


@pytest.mark.parametrize("by_blocks", [False, True])
def test_what_numpy_sees_is_written_with_the_rest(by_blocks):
    # Breaks if a pair that a step can't put off is left out.
    def trained(convert, seen):
        nn.manual_seed(3)
        model = nn.Linear(3, 2)
        optimiser = optim.Adam(model.parameters(), lr=0.1)
        view = model.weight.numpy() if seen else None

        def step(x):
            optimiser.zero_grad()
            with ts.record():
                loss = tnp.sum(model(x) ** 2.0)
            loss.backward()
            optimiser.step()
            return loss

        step = convert(step)
        losses = [float(step(tnp.full((4, 3), 0.5 + i))) for i in range(6)]
        if seen:
            assert (view == model.weight.numpy()).all()
        return losses, [each.numpy().tolist() for each in model.parameters()]

    expected = trained(lambda step: step, False)
    for seen in (False, True):
        losses, parameters = trained(differential.by_blocks if by_blocks else ts.coexecute, seen)
        numpy.testing.assert_allclose(losses, expected[0], rtol=1e-6)
        for each, other in zip(parameters, expected[1]):
            numpy.testing.assert_allclose(each, other, rtol=1e-5, atol=1e-6)


def test_numbers_that_are_part_of_the_graph_are_compared():
    @ts.coexecute
    def step(x, scale):
        return tnp.sum(x * tnp.asarray(scale))

    scales = [2.0, 2.0, 2.0, 0.5, 2.0, 3.5, 4.5, 5.5]
    assert [step(tnp.ones(2), scale).item() for scale in scales] == [2 * scale for scale in scales]


def test_another_thread_may_read():
    @ts.coexecute
    def step(x):
        y = x * 3.0
        read = []
        thread = threading.Thread(target=lambda: read.append(y.tolist()))
        thread.start()
        thread.join()
        return y + read[0][0]

    for number in range(4):
        assert step(tnp.asarray([float(number)])).tolist() == [6.0 * number]


def test_a_failure_comes_out_where_it_is_read():
    table = tnp.asarray(numpy.arange(6.0).reshape(3, 2))

    @ts.coexecute
    def step(places):
        return tnp.sum(tnp.take_along_axis(table, places, axis=0))

    good, bad = tnp.asarray([[0, 1]]), tnp.asarray([[0, 9]])
    for places in (good, good, good, good):
        assert step(places).item() == 3.0
    with pytest.raises(Exception, match="(?i)index|range"):
        step(bad).item()
    assert step(good).item() == 3.0


def test_within_a_recording_it_runs_as_it_is():
    step = ts.coexecute(lambda x: tnp.sum(x * x))
    for _ in range(4):
        assert ts.grad(step)(tnp.ones(2)).tolist() == [2.0, 2.0]
    assert step.statistics()["eager"] == 4


def both_ways(make, calls):
    """What a step gives as it is and co-executed, call by call."""
    steps = make(lambda step: step), make(ts.coexecute)
    found = [[step(*arguments) for arguments in calls] for step in steps]
    assert found[0] == found[1], steps[1].explain()


def test_ways_that_part_at_what_is_read():
    def make(convert):
        def step(flag):
            x = tnp.asarray([1.0])
            y = x * 2.0
            z = x + 3.0
            return float(y) if flag else float(z)

        return convert(step)

    both_ways(make, [(flag,) for flag in (True, True, True, False, True, False, False, True)])


def test_a_segment_waits_for_what_python_writes():
    def by_places(x):
        y = x * 2.0
        x[tnp.asarray([0])] = 0.0
        return (x + y).tolist()

    def by_mask(x):
        y = x * 2.0
        y[y > 1.0] = 0.0
        return (y * 1.0).tolist()

    def by_numpy(x):
        y = x * 2.0
        x.numpy()[0] = 100
        return (x + y).tolist()

    for body in (by_places, by_mask, by_numpy):

        def make(convert, body=body):
            step = convert(body)
            return lambda number: step(tnp.asarray([1.0 + number, 0.25]))

        found = [[step(number) for number in range(8)] for step in (make(lambda step: step), make(ts.coexecute))]
        assert found[0] == found[1], body.__name__


def test_a_write_that_a_read_does_not_need_stays_due():
    def make(convert):
        def step(number):
            y = tnp.asarray([1.0, number]) * 2.0
            z = tnp.sum(y)
            y[0] = 5.0
            return float(z), y.tolist()

        return convert(step)

    both_ways(make, [(float(number),) for number in range(8)])


def test_a_way_that_was_not_compiled_is_not_followed(monkeypatch):
    from tensmith import coexecution

    compiling, calls = coexecution.program_of, []

    def interrupted(text):
        calls.append(text)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return compiling(text)

    monkeypatch.setattr(coexecution, "program_of", interrupted)
    step = ts.coexecute(lambda x: tnp.sum(tnp.tanh(x) * 3.0), warm_up=0)
    with pytest.raises(KeyboardInterrupt):
        step(tnp.zeros(3))
    for _ in range(3):
        assert step(tnp.zeros(3)).item() == 0.0
    assert step.statistics()["recorded"] == 2 and step.statistics()["coexecuted"] == 2


def test_a_step_that_always_leaves_its_ways_is_left_alone():
    f = ts.coexecute(lambda x: float(tnp.sum(x * 0.75)))
    for size in range(1, 41):  # each size is another way
        assert f(tnp.ones(size)) == 0.75 * size
    assert f.statistics()["fall_backs"] == 16
    assert "16 steps in a row" in f.explain()


def test_the_way_that_was_run_the_longest_ago_goes():
    f = ts.coexecute(lambda x: float(tnp.sum(x * 0.75)), warm_up=0)
    for size in range(1, 40):
        for each in (size, size, size, 1, 1, 1):
            assert f(tnp.ones(each)) == 0.75 * each
    assert f.statistics()["paths"] == 32
    before = f.statistics()["fall_backs"]
    f(tnp.ones(1))
    f(tnp.ones(39))
    assert f.statistics()["fall_backs"] == before


def test_what_is_no_step_is_refused_at_once():
    def generator():
        yield 1

    async def coroutine():
        pass

    for each in (generator, coroutine):
        with pytest.raises(TypeError, match="generator or a coroutine"):
            ts.coexecute(each)
    with pytest.raises(TypeError, match="Python function"):
        ts.coexecute(warm_up=2)(3)
    with pytest.raises(ValueError, match="0 or more"):
        ts.coexecute(warm_up=-1)
    with pytest.raises(TypeError, match="number of calls"):
        ts.coexecute(warm_up="a")


def test_the_step_goes_on_while_another_thread_reads():
    @ts.coexecute
    def step(x):
        y, read = x, []
        for _ in range(20):
            y = tnp.tanh(y @ x)
        thread = threading.Thread(target=lambda: read.append(y.tolist()))
        thread.start()
        z = y
        for _ in range(20):
            z = z * 0.5 + y
        result = z.tolist()
        thread.join()
        return read[0], y.tolist(), result

    first = None
    for _ in range(12):
        read, y, z = step(tnp.full((40, 40), 0.01))
        first = first or (y, z)
        assert read == y and (y, z) == first


def test_the_page_runs(tmp_path):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "coexecution.md").read_text()
    program = tmp_path / "page.py"
    program.write_text("".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)))
    names = runpy.run_path(str(program))
    assert names["step"].statistics()["coexecuted"] >= 4


@pytest.mark.parametrize("way", ["recorded", "blocks", "path"])
def test_a_step_does_not_keep_what_nobody_else_holds(way):
    """Two tensors of each turn, one of which is from outside, were they kept until the step ends, are 8 MB."""

    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

    def body(x, count):
        for number in range(count):
            x = tnp.tanh(x * 0.9 + tnp.reshape(tnp.asarray(numpy.full((1 << 18, 2), 0.3)), (-1,)))
            if count % 2:
                x = x * 0.7
            if number % 4 == 3:
                assert float(x[0]) < 1.0
        seen.append(resident())
        return tnp.sum(x)

    x, seen, step = tnp.zeros(1 << 19), [], ts.coexecute(body, warm_up=0)
    if way == "blocks":
        step._steps.ignore_paths()
    before = resident()  # of steps that went before, memory might be found again
    for count in {"recorded": (), "blocks": (1, 2, 5, 8, 2, 1), "path": (60, 60)}[way]:
        float(step(x, count))
    counts = step.statistics()
    float(step(x, 60))
    assert step.statistics()["recorded"] == counts["recorded"] + (way == "recorded"), step.explain()
    assert step.statistics()["by_blocks"] == counts["by_blocks"] + (way == "blocks"), step.explain()
    assert max(seen) - before < 160 << 20


def test_a_graph_has_the_nodes_of_the_steps_that_it_is_of():
    """Breaks if what only steps had that are forgotten stays. Each size is a way of its own; a graph is of the last 64."""
    f = ts.coexecute(lambda x: float(tnp.sum(x * 0.75)), warm_up=0)
    for size in range(1, 100):
        for each in (size, 1, size):
            assert f(tnp.ones(each)) == 0.75 * each
    assert f.statistics()["recorded"] >= 99 and f._steps.nodes == 2 * 64


def test_a_number_that_is_put_off_is_not_compared_with_others():
    """Breaks if an optimiser's number that a co-executed step has put off is read to see whether it is another one's: it has no memory yet."""

    class Own(optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 0.1, "k": 0.9})

        def update(self, parameter, gradient, state, rate, step, group):
            first, second = (tnp.sqrt(tnp.asarray(group["k"] + more, dtype=parameter.dtype)) for more in (0.0, 0.01))
            return [parameter - rate * gradient * first * second]

    def losses(run):
        weights = tnp.asarray([1.0, 2.0])
        weights.requires_grad = True
        optimizer = Own([weights])

        def step(number):
            optimizer.zero_grad()
            optimizer.param_groups[0]["k"] = 0.9 if number < 4 else 0.5 + 0.01 * (number % 4)
            with ts.record():
                loss = tnp.sum(weights * weights)
            loss.backward()
            optimizer.step()
            return weights.tolist()

        taken = run(step)
        return [taken(number) for number in range(12)]

    numpy.testing.assert_allclose(losses(ts.coexecute), losses(lambda step: step), rtol=1e-6)
