"""docs/shapes.md says of which kind the shape functions are, and each one that gives a bound is held to it."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of strings, which lie in no arena; and control flow, whose results are made by functions.
NOT_PLANNED = {"string_normalize", "loop"}


def test_the_table_is_what_the_sources_say():
    subprocess.run([sys.executable, ROOT / "scripts/update-shapes", "--check"], check=True)


def test_every_bound_is_tested_on_random_data():
    row = next(line for line in (ROOT / "docs/shapes.md").read_text().splitlines() if line.startswith("| an upper bound"))
    bounded = set(re.findall(r"`(\w+)`", row))
    assert {"nonzero", "unique", "compress", "topk", "non_max_suppression", "max_pool"} <= bounded
    cases = (ROOT / "compiler/vm/test/SizeBoundsTest.cpp").read_text()
    assert bounded - NOT_PLANNED == set(re.findall(r'^    \{"(\w+)",\s*R"', cases, re.MULTILINE))
