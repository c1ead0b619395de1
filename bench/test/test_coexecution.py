"""bench/coexecution: each row says of itself what it was taken on, and a step's graph takes the time that it is to take."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("tensmith", reason="the Python package is not built")
MEASURE = pathlib.Path(__file__).resolve().parents[1] / "coexecution/measure.py"

# The module sets variables of the environment, and so is loaded in another process.
FITTED = """
import runpy, sys
measured = []
def milliseconds(count):
    measured.append(count)
    return (2.0 if len(measured) == 1 else 1.0) * (0.5 + 0.125 * count)
print(runpy.run_path(sys.argv[1])["fitted"](8, 5.0, milliseconds))
"""


def run(*arguments, **more):
    return subprocess.run([sys.executable, *map(str, arguments)], check=True, capture_output=True, text=True, env=os.environ | more).stdout


# Breaks if a count is kept that a cold processor or the fixed part of a few products has said: 14 of them take 2.25 ms.
def test_as_many_products_as_take_the_time():
    count = int(run("-c", FITTED, MEASURE))
    assert 0.5 + 0.125 * count == pytest.approx(5.0, rel=0.1)


# Breaks if the load of one row is told of all, or what `--only` leaves out is changed.
def test_a_row_says_what_it_was_taken_on(tmp_path):
    out, before = tmp_path / "figures.json", {"load_average": 12.5, "threads": "8", "mlp": {"kept": 1}}
    out.write_text(json.dumps(before))
    run(MEASURE, "--only", "guarded", "--rounds", 1, "--count", 1, "--scale", 1, "--out", out, TENSMITH_ENGINE_THREADS="1")
    after = json.loads(out.read_text())
    row = after.pop("guarded")
    assert after == before
    assert row["threads"] == 1 and row["load_average"] >= 0 and row["coexecuted"]["least_ms"] > 0
