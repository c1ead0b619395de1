"""The programs of scripts/programs answer on Tensmith as they do on ONNX Runtime.

They are large, and so are compared only where scripts/programs has installed them.
"""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = pathlib.Path(os.environ.get("TENSMITH_PROGRAMS", ROOT / ".venv-programs"))
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))

pytestmark = [
    pytest.mark.skipif(
        not (ENVIRONMENT / ".requirements").exists(),
        reason="the programs are not installed; scripts/programs --install does it (6 GB, from PyPI)",
    ),
    pytest.mark.skipif(not (BUILD / "python/tensmith").is_dir(), reason="the Python package is not built"),
]


@pytest.mark.parametrize("program", ["magika", "rapidocr", "silero", "silero-sequence"])
def test_answers_are_those_of_onnxruntime(program):
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    command = [ENVIRONMENT / "bin/python", ROOT / "tests/programs/compare.py", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 differences" in done.stdout
