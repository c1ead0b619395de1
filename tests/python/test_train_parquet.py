"""`tensmith train` on tables in Parquet, as pyarrow writes them: the same weights as from NumPy's arrays, and what is said of
tables that can't be trained on. Skipped where the library that reads them was not built."""

import os
import pathlib
import subprocess

import numpy
import pytest

onnx = pytest.importorskip("onnx")
pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (scripts/requirements.txt)")
import pyarrow.parquet as parquet  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
TENSMITH = BUILD / "bin/tensmith"

pytestmark = pytest.mark.skipif(not (BUILD / "lib/libtensmith_parquet.so").exists(), reason="libtensmith_parquet.so is not built")

ROWS = 120
draw = numpy.random.default_rng(8)
X = draw.standard_normal((ROWS, 2, 3)).astype(numpy.float32)
Y = (X.sum(axis=(1, 2)) > 0).astype(numpy.int64)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two classes of six numbers, which lie in two rows."""
    nodes = [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("Gemm", ["flat", "w", "b"], ["scores"])]
    weights = {"w": draw.standard_normal((6, 2)).astype(numpy.float32), "b": numpy.zeros(2, numpy.float32)}
    graph = helper.make_graph(nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 3])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 2])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])  # fmt: skip
    path = tmp_path_factory.mktemp("parquet") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def run(model, data, output, *more):
    return subprocess.run([TENSMITH, "train", model, "--data", data, "--epochs", "2", "--batch", "8", "--learning-rate", "0.1", "--output", output, *more],
                          capture_output=True, text=True, timeout=300)  # fmt: skip


def trained(model, data, output, *more):
    done = run(model, data, output, *more)
    assert done.returncode == 0, done.stderr
    return {value.name: numpy_helper.to_array(value) for value in onnx.load(output / "model.onnx").graph.initializer}


def refused(model, data, output, *more):
    done = run(model, data, output, *more)
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()[-1]


def lists(kind, values=X):
    """Rows of 2 x 3 as lists in lists."""
    inner = pyarrow.list_(pyarrow.float32(), 3) if kind == "fixed" else pyarrow.list_(pyarrow.float32())
    outer = pyarrow.list_(inner, 2) if kind == "fixed" else pyarrow.list_(inner)
    return pyarrow.array([[list(line) for line in row] for row in values.tolist()], outer)


def write(path, groups=50, **columns):
    parquet.write_table(pyarrow.table(columns), path, row_group_size=groups)
    return path


@pytest.fixture(scope="module")
def expected(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    numpy.savez(folder / "data.npz", x=X, y=Y)
    return trained(model, folder / "data.npz", folder / "run")


@pytest.mark.parametrize("kind", ["fixed", "lists"])
@pytest.mark.parametrize("labels", ["int64", "uint8", "text", "dictionary"])
def test_tables_train_as_arrays_do(model, expected, tmp_path, kind, labels):
    """To the same bits, in pieces of whatever size, of numbers of any type."""
    names = pyarrow.array(["above" if label else "a below" for label in Y])
    column = {"int64": pyarrow.array(Y), "uint8": pyarrow.array(Y.astype(numpy.uint8)), "text": names,
              "dictionary": names.dictionary_encode()}[labels]  # fmt: skip
    path = write(tmp_path / "table.parquet", groups=37, x=lists(kind), y=column)
    got = trained(model, path, tmp_path / "run")
    for name, value in expected.items():
        numpy.testing.assert_array_equal(got[name], value)


def test_what_cannot_be_trained_on_is_named(model, tmp_path):
    path, output = tmp_path / "table.parquet", tmp_path / "run"
    labels = pyarrow.array(Y)
    write(path, x=lists("lists"), y=labels)
    assert f"{path}: has no 'colour' for the target (it has x, y)" in refused(model, path, output, "--target", "colour")

    holed = Y.astype(object)
    holed[70] = None
    write(path, x=lists("lists"), y=pyarrow.array(holed.tolist(), pyarrow.int64()))
    assert refused(model, path, output).endswith(f"{path}: y: row 71: has no value; fill it in first")

    rows = X.tolist()
    rows[60] = [rows[60][0]]
    uneven = pyarrow.array(rows, pyarrow.list_(pyarrow.list_(pyarrow.float32())))
    write(path, x=uneven, y=labels)
    assert f"{path}: x: row 61: has 1 elements where those before it have 2" in refused(model, path, output)

    rows = X.tolist()
    rows[110][1][2] = None
    write(path, x=pyarrow.array(rows, pyarrow.list_(pyarrow.list_(pyarrow.float32()))), y=labels)
    assert f"{path}: x: row 111: has no value" in refused(model, path, output)

    write(path, x=pyarrow.array(range(ROWS), pyarrow.timestamp("ms")), y=labels)
    assert f"{path}: x: is of the type timestamp[ms]; numbers, lists of numbers and text are expected" in refused(model, path, output)


def test_broken_files_are_named(model, tmp_path):
    path = write(tmp_path / "table.parquet", x=lists("fixed"), y=pyarrow.array(Y))
    whole = path.read_bytes()
    for broken in (b"", b"PAR1", whole[: len(whole) // 2], b"x" * 1000):
        path.write_bytes(broken)
        assert f"{path}: is no Parquet file that can be read" in refused(model, path, tmp_path / "run")
    damage = numpy.random.default_rng(1)
    for _ in range(12):  # is refused or read, and nothing else
        bytes_ = bytearray(whole)
        for at in damage.integers(4, len(whole) - 8, 20):
            bytes_[at] ^= 1 << damage.integers(8)
        path.write_bytes(bytes_)
        assert run(model, path, tmp_path / "run", "--overwrite").returncode in (0, 1)
    path.unlink()
    assert str(path) in refused(model, path, tmp_path / "run")


def varint(number):
    """A number as Thrift's compact protocol has it."""
    coded, parts = number << 1, bytearray()
    while coded >= 128:
        parts.append(coded & 127 | 128)
        coded >>= 7
    return bytes(parts + bytes([coded]))


@pytest.mark.parametrize("values", [1 << 50, (1 << 62) + 1])
def test_tables_beyond_the_memory_are_refused_before_they_are_decoded(model, tmp_path, values):
    """The file's end says how many numbers its pages hold, and they may all be the same one: breaks if they are counted when they
    have been decoded, of which these would say that they are fewer, or if the count runs over."""
    rows = 123457
    path = write(tmp_path / "table.parquet", groups=rows, x=pyarrow.array(numpy.zeros(rows, numpy.int8)), y=pyarrow.array(numpy.zeros(rows, numpy.int64)))
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    pages, end = whole[: -8 - size], whole[-8 - size : -8]
    assert end.count(varint(rows)) >= 4  # of the file, of its group and of two columns
    end = end.replace(varint(rows), varint(values))
    path.write_bytes(pages + end + len(end).to_bytes(4, "little") + b"PAR1")
    said = refused(model, path, tmp_path / "run")
    assert f"{path}: would take" in said and "would take -" not in said and "half of the machine's memory" in said
