"""bench/eager/memory.py: what its figures are of. In processes of their own, in which nothing else takes memory and whose engine has one thread."""

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("tensmith.numpy")

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "bench/eager"
LIMIT = 20_000  # bytes a step: a hundred times what a step's tensors take, over so few steps that one page counts

BY_HAND = """
import json, sys

sys.path.insert(0, sys.argv[1])
import memory

draw, kept, told = memory.numpy.random.RandomState(0), [], {}
WAYS = {
    "converted": lambda step: memory.ts.function(lambda x: step(x * float(draw.rand()))),  # which reads what has no conversion
    "coexecuted": lambda step: memory.ts.coexecute(step, warm_up=40),
}
for kind, convert in WAYS.items():
    try:
        told[kind] = memory.steps_of_graphs(convert, kind, 40)
    except RuntimeError as error:
        told[kind] = str(error)
told["leak"] = memory.measured(lambda number: kept.append(b"x" * 50_000 + bytes([number % 256])), 400)
print(json.dumps(told))
"""


def output(*command):
    ended = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout)


def test_steps_keep_no_memory():
    # Breaks if eager, converted or co-executed steps, or conversions, keep what they have made, or if steps are not converted or co-executed at all.
    found = output(FOLDER / "memory.py", "--steps", 400, "--conversions", 20)
    assert {kind: each["steps"] for kind, each in found.items()} == {"eager": 400, "function": 100, "coexecute": 100, "conversions": 20}
    assert found["function"]["statistics"]["converted"] >= 90 and found["coexecute"]["statistics"]["coexecuted"] >= 90
    assert all(found[kind]["bytes_a_step"] < LIMIT for kind in ("eager", "function", "coexecute")), found


def test_figures_are_of_what_they_are_said_to_be_of():
    # Breaks if steps that run imperatively are taken for converted or co-executed ones, or if what a step keeps isn't seen.
    told = output("-c", BY_HAND, FOLDER)
    for kind in ("converted", "coexecuted"):
        assert str(told[kind]).startswith(f"of 40 steps 0 were {kind}"), told
    assert 40_000 < told["leak"]["bytes_a_step"] < 60_000
