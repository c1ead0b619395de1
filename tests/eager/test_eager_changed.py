"""`ts.function` while Python's world changes under it: whatever way a converted call has read of it (changed.py, changed_classes.py) is guarded."""

import pytest

tnp = pytest.importorskip("tensmith.numpy")
import changed  # noqa: E402
import changed_classes  # noqa: E402, F401, which adds its cases
from random_functions import described  # noqa: E402

import tensmith as ts  # noqa: E402
from tensmith import nn  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


def run(name, convert):
    """Ten calls, before the fifth of which the world changes, and what they leave behind."""
    nn.manual_seed(3)
    body, change, *back = changed.CASES[name]()
    step, s, told = convert(changed.step), changed.State(), []
    try:
        for number in range(10):
            if number == 5:
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
    assert found[4] != found[5]
    counts = function.statistics()
    if name in changed.IMPERATIVE:
        assert counts["converted"] == 0, "it is converted: its mark can go"
    else:
        assert counts["converted"] >= 4, function.explain()
