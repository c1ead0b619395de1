"""The example: its network gives the logits that ONNX Runtime gives, and names what is on its pictures."""

import pathlib
import subprocess
import sys

import numpy
import onnxruntime
import pytest

import tensmith

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "fashion"


# Breaks if the compiled network computes anything else, at batches that leave rests.
@pytest.mark.parametrize("batch", [1, 3, 16])
def test_agrees_with_onnx_runtime(batch):
    images = numpy.random.default_rng(batch).random((batch, 1, 28, 28), dtype=numpy.float32)
    session = onnxruntime.InferenceSession(FOLDER / "fashion.onnx", providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"image": images})[0]
    got = tensmith.compile(FOLDER / "fashion.onnx")(images)
    assert numpy.abs(got - wanted).max() <= 1e-4 * numpy.abs(wanted).max()


def test_names_the_pictures():
    out = subprocess.run([sys.executable, FOLDER / "classify.py", "--top", "1"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in out.splitlines() if ".png" in line]
    right = sum(line.split(".png")[0].split("-", 1)[1].replace("-", "") in line.split(".png")[1].lower().replace("-", "").replace(" ", "")
                for line in lines)
    assert len(lines) == 10 and right >= 8
