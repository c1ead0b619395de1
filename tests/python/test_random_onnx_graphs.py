"""ONNX models drawn at random, with control flow and sizes that only the run tells, against the reference and ONNX Runtime.

A share of what tests/random/onnx_graphs/compare.py runs by the thousands; see there for one seed alone.
"""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "python"

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="the Python package is not built")


def test_a_hundred_models_agree():
    command = [sys.executable, ROOT / "tests/random/onnx_graphs/compare.py", "--count", "100", "--onnxruntime"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert done.returncode == 0 and " agrees" in done.stdout, done.stdout + done.stderr
