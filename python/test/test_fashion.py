"""The example: its network gives the logits that ONNX Runtime gives, and names what is on its pictures."""

import importlib.util
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


# Breaks if pictures are prepared in another way than those that the network was trained on, or classes change places.
def test_probabilities_are_those_expected():
    specification = importlib.util.spec_from_file_location("classify", FOLDER / "classify.py")
    classify = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(classify)
    expected = classify.softmax(numpy.load(FOLDER / "expected_logits.npy"))
    pictures = {int(path.name[:4]): path for path in (FOLDER / "pictures").glob("*.png")}
    known = sorted(index for index in pictures if index < len(expected))  # of the first test pictures, in their order
    assert len(known) == 8
    images = numpy.stack([classify.load_picture(pictures[index]) for index in known])
    numpy.testing.assert_allclose(classify.softmax(tensmith.compile(FOLDER / "fashion.onnx")(images)), expected[known], atol=1e-5)


def test_names_the_pictures():
    out = subprocess.run([sys.executable, FOLDER / "classify.py", "--top", "1"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in out.splitlines() if ".png" in line]
    right = sum(line.split(".png")[0].split("-", 1)[1].replace("-", "") in line.split(".png")[1].lower().replace("-", "").replace(" ", "")
                for line in lines)
    assert len(lines) == 10 and right >= 8
