"""scikit-learn and SciPy compute on our tensors what they do on NumPy's arrays (array_api_libraries.py). In a process of its own: SciPy reads a variable once."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("tensmith.numpy")
pytest.importorskip("sklearn")
pytest.importorskip("scipy")


def test_estimators_and_functions_run_on_our_tensors():
    # Breaks if a function of the standard that they use is missing, or gives something else than NumPy's, or if one of them computes on NumPy's arrays instead.
    script = pathlib.Path(__file__).parent / "array_api_libraries.py"
    ended = subprocess.run([sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0 and "31 of scikit-learn, 33 of SciPy; 0 results are others" in ended.stdout, ended.stdout[-3000:] + ended.stderr[-3000:]
