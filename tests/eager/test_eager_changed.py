"""`ts.function` while Python's world changes under it: whatever way a converted call has read of it (changed.py, changed_classes.py, changed_values.py) is
guarded.
"""

import gc
import os
import pathlib
import subprocess
import sys
import weakref

import pytest

tnp = pytest.importorskip("tensmith.numpy")
import changed  # noqa: E402
import changed_classes  # noqa: E402, F401, which adds its cases
import changed_values  # noqa: E402, F401
from random_functions import described  # noqa: E402

import tensmith as ts  # noqa: E402
from tensmith import nn  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


def run(name, convert, changes=True):
    """Ten calls, before the sixth of which the world changes, and what they leave behind."""
    nn.manual_seed(3)
    body, change, *back = changed.CASES[name]()
    step, s, told = convert(changed.step), changed.State(), []
    try:
        for number in range(10):
            if number == 5 and changes:
                change()
            result = step(s, body, tnp.ones(2) + number)
            told.append(described([result, s.count, s.seen, s.state]))
    finally:
        for each in back:
            each()
    told.append(described(s.dropout(tnp.ones(16)).tolist()))  # the random stream goes on from the same place
    return step, told


@pytest.mark.parametrize("name", changed.CASES)
def test_a_change_is_seen(name):
    # Breaks if a conversion takes for what it was whatever it has read in this way.
    function, found = run(name, ts.function)
    _, expected = run(name, lambda step: step)
    assert found == expected, function.explain()
    assert expected != run(name, lambda step: step, False)[1], "the program doesn't see the change"
    counts = function.statistics()
    if name in changed.IMPERATIVE:
        assert counts["converted"] == 0, "it is converted: its mark can go"
    else:
        assert counts["converted"] >= 4, function.explain()


def test_a_list_of_tensors_that_becomes_part_of_itself():
    # Breaks (ends the process) if the guard that written tensors share no memory goes into lists within lists.
    class State:
        pass

    def program(s):
        total = tnp.zeros(2)
        for each in s.values:
            total = total + each
        s.state += total
        return total

    s, f = State(), ts.function(program)
    s.state = tnp.zeros(2)
    for count in (2, 3, 4, 5):
        s.values = [tnp.ones(2) for _ in range(count)]
        assert f(s).tolist() == [count, count]
    assert f.statistics()["converted"] >= 2
    s.values = [tnp.ones(2)]
    s.values.append(s.values)
    with pytest.raises(TypeError, match="list"):
        f(s)


NAMES = """
import tensmith as ts, tensmith.numpy as tnp
class Holder: pass
kept, holder = [], Holder()
holder.add, holder.kind = kept.append, int
@ts.function
def f(x):
    holder.add(1)
    return x * len(holder.kind.__name__)
for _ in range(6):
    f(tnp.ones(1))
assert f.statistics()["converted"] == 5, f.explain()
"""


def test_names_that_each_read_makes_anew(tmp_path):
    # Breaks if a guard lets go of what it has read before it looks at it: Python then fills the memory with other bytes.
    (tmp_path / "names.py").write_text(NAMES)
    paths = os.pathsep.join([str(pathlib.Path(ts.__file__).parents[1]), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONMALLOC": "debug", "PYTHONPATH": paths}
    subprocess.run([sys.executable, str(tmp_path / "names.py")], env=environment, check=True)


def test_a_converted_function_goes_with_what_it_is_of():
    # Breaks if Python's collection of cycles doesn't see what guards keep.
    def made():
        class Scale:
            by = 2

            @ts.function
            def of(self, x):
                return x * self.by

        scale = Scale()
        for _ in range(4):
            scale.of(tnp.ones(1))
        assert Scale.of.statistics()["converted"] == 3
        return weakref.ref(Scale), weakref.ref(scale)

    kept = made()
    gc.collect()
    assert [each() for each in kept] == [None, None]
