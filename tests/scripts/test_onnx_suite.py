"""A part of the conformance suite at each run of the tests, so that docs/onnx.md stays true between full runs."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "python"


def suite(*arguments):
    return subprocess.run([sys.executable, ROOT / "scripts/onnx-suite", *arguments], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)}, timeout=300)


@pytest.mark.skipif(not (PACKAGE / "tensmith").exists(), reason="the Python package is not built")
def test_a_part_of_the_suite_is_as_docs_say():
    done = suite("--every", "16", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])["passed"] > 100
