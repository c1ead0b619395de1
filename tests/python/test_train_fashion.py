"""examples/fashion/train as it is, on few pictures for two epochs: the data in the files that Debian's package has (its own
first pictures where it is installed, else made-up ones), the line that shows how far it is, and the trained network as ONNX and
as a module."""

import fcntl
import gzip
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios

import numpy
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
INSTALLED = pathlib.Path("/usr/share/datasets/fashion-mnist")
COUNTS = {"train": 1280, "t10k": 320}

pytestmark = pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")


def pictures_of(part, count):
    """Grey values and classes: those that are installed, or a bright bar for each class."""
    if INSTALLED.exists():
        images, labels = (gzip.open(INSTALLED / f"{part}-{what}-ubyte.gz").read() for what in ("images-idx3", "labels-idx1"))
        return numpy.frombuffer(images, numpy.uint8, count * 784, 16).reshape(count, 28, 28), numpy.frombuffer(labels, numpy.uint8, count, 8)
    draw = numpy.random.default_rng(len(part))
    labels = draw.integers(0, 10, count).astype(numpy.uint8)
    images = draw.integers(0, 80, (count, 28, 28)).astype(numpy.uint8)
    for image, label in zip(images, labels):
        image[2 * label + 4 : 2 * label + 6] += 150
    return images, labels


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The example's folder, with the untrained network and a folder of data beside it."""
    folder = tmp_path_factory.mktemp("fashion")
    shutil.copy(ROOT / "examples/fashion/train/fashion.toml", folder)
    subprocess.run([sys.executable, ROOT / "examples/fashion/train/make_model.py", "--output", folder / "untrained.onnx"], check=True)
    (folder / "data").mkdir()
    for part, count in COUNTS.items():
        images, labels = pictures_of(part, count)
        for name, head, values in (("images-idx3", (0x803, count, 28, 28), images), ("labels-idx1", (0x801, count), labels)):
            packed = gzip.compress(struct.pack(f">{len(head)}I", *head) + values.tobytes())
            (folder / "data" / f"{part}-{name}-ubyte.gz").write_bytes(packed)
    return folder


def train(example, output, *more, **options):
    words = [TENSMITH, "train", example / "fashion.toml", "--data", example / "data", "--warm-up", "5", "--output", output, *more]
    return subprocess.run(list(map(str, words)), timeout=300, check=False, **options)


def test_the_example_trains_and_its_network_runs(example, tmp_path):
    done = train(example, tmp_path / "run", "--epochs", "4", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    images, labels = pictures_of("t10k", COUNTS["t10k"])
    numpy.save(tmp_path / "image.npy", images[:, None].astype(numpy.float32) / 255)
    session = onnxruntime.InferenceSession(tmp_path / "run/model.onnx", providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"image": numpy.load(tmp_path / "image.npy")})
    assert (expected.argmax(axis=1) == labels).mean() > 0.5  # a tenth would be none
    for what in ("model.onnx", "model.so"):
        subprocess.run([TENSMITH, "run", tmp_path / "run" / what, "--input", f"image={tmp_path}/image.npy", "--output", tmp_path / what[-2:]],
                       check=True, capture_output=True, timeout=300)  # fmt: skip
        numpy.testing.assert_allclose(numpy.load(tmp_path / what[-2:] / "logits.npy"), expected, atol=1e-4)


def drawn_lines(example, output, width):
    """What is drawn over and over on a terminal so wide, each time anew."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, width, 0, 0))
    words = [TENSMITH, "train", example / "fashion.toml", "--data", example / "data", "--epochs", "1000", "--output", output]
    run = subprocess.Popen(list(map(str, words)), stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    text = b""
    try:
        while text.count(b"epoch") < 25:
            text += os.read(ours, 4096)
    finally:
        run.kill()
        run.wait()
        os.close(ours)
    pieces = text.decode(errors="ignore").split("\r")[1:-1]
    return [piece.removesuffix("\x1b[K") for piece in pieces if piece.endswith("\x1b[K") and len(piece) > 3]


LINE = re.compile(r"training: epoch \d+/1000, \d+% [█░]{10} (.*) left, loss \d+\.\d+, .*, \d+ samples/s, \d+ MB, step \d+, \d+ s")


@pytest.mark.parametrize("width", [200, 60, 20])
def test_the_line_of_progress_fits_the_terminal(example, tmp_path, width):
    """Loss, samples a second, memory and the time left: as much of it as there are columns, and never a second line."""
    lines = drawn_lines(example, tmp_path / "run", width)
    assert lines and all(len(line) < width for line in lines)
    if width == 200:
        # The bar is of the epoch, the part of the whole run.
        whole = [match for line in lines if (match := LINE.fullmatch(line))]
        assert whole, lines[-3:]
        assert all(re.search(r"\d", match[1]) for match in whole)
    else:
        assert max(map(len, lines)) == width - 1
