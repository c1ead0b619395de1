"""docs/operators.md is made of the operators' records."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_page_is_current():
    """Breaks if a record changes and the page doesn't: run scripts/update-operators."""
    subprocess.run([sys.executable, ROOT / "scripts/update-operators", "--check"], check=True)


def test_each_operator_is_told_once():
    """Breaks if a family of records is left out."""
    told = re.findall(r"^### (\w+)$", (ROOT / "docs/operators.md").read_text(), re.MULTILINE)
    declared = {name for path in (ROOT / "compiler/graph").glob("*Ops.td") if path.name in (ROOT / "compiler/graph/GraphOps.td").read_text()
                for name in re.findall(r"^\s*def Graph_\w+Op : \w+<\"(\w+)\"", path.read_text(), re.MULTILINE)}  # fmt: skip
    assert len(told) == len(set(told)) and declared <= set(told) and len(told) > 160
