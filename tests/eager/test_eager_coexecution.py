"""`ts.coexecute`: steps do what they do eagerly, nearly all of them by graphs, while Python runs; and a way that is new leaves no trace.

Graphs are evaluated here, not compiled; compiled ones are held against eager steps by `bench/coexecution`.
"""

import json
import pathlib
import re
import runpy
import threading

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import coexecuted  # noqa: E402
import random_functions  # noqa: E402

import tensmith as ts  # noqa: E402
from tensmith import _eager, nn  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    (tnp.ones(1 << 14) + 1.0).wait()  # operators' own kernels have read the variable then, and stay for other tests
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


@pytest.mark.parametrize("seed", range(100, 108))
def test_random_programs_do_the_same(seed):
    function = random_functions.compare(seed, ts.coexecute)
    assert function.statistics()["recorded"] + function.statistics()["coexecuted"] == 7
    assert "can't be compiled" not in function.explain()


def run(name, convert, steps):
    nn.manual_seed(5)
    told = []
    step = convert(coexecuted.PROGRAMS[name](told))
    losses = [step(number) for number in range(steps)]
    return step, [float(loss) for loss in losses], told


@pytest.mark.parametrize("name", coexecuted.PROGRAMS)
def test_programs_are_coexecuted(name):
    step, losses, told = run(name, ts.coexecute, 60)
    _, expected, expected_told = run(name, lambda step: step, 60)
    assert numpy.allclose(losses, expected, 1e-4, 1e-6), step.explain()
    for found, wanted in zip(told, expected_told, strict=True):
        assert found == wanted or numpy.allclose(found, wanted, 1e-3)
    counts = step.statistics()
    assert counts["coexecuted"] >= 45, step.explain()
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


def test_the_page_runs(tmp_path):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "coexecution.md").read_text()
    program = tmp_path / "page.py"
    program.write_text("".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)))
    names = runpy.run_path(str(program))
    assert names["step"].statistics()["coexecuted"] >= 4
