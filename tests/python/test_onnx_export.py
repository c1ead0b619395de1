"""Graphs as ONNX models: every operator that is exported, drawn at random, by ONNX Runtime, and whole programs.

What would break these: an attribute under another name or left out, operands in another order, a size of the run that is
computed wrongly, an operator that ONNX means differently.
"""

import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
import tensmith as ts
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
# What ONNX Runtime, its Python or the checker say where they lack a part of the standard: an element type, a rank, a case.
LACKS = re.compile(r"NOT_IMPLEMENTED|Could not find an implementation|not support|INVALID_GRAPH.*Type.*is invalid|only support"
                   r"|Numpy.type|by zero|lrn\.(cc|h)|inverse one-sided DFT", re.S | re.I)  # fmt: skip


def arrays(folder, kind):
    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda file: int(file.stem.split("_")[1]))
    return [numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())) for file in files]


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def differences(folder):
    """None where ONNX Runtime has no kernel, else what differs."""
    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model)
    try:
        run = session(model.SerializeToString())
        found = []
        for data in sorted(folder.glob("test_data_set_*")):
            given = dict(zip((port.name for port in run.get_inputs()), arrays(data, "input")))
            outputs = zip(arrays(data, "output"), arrays(data, "tolerance"), run.run(None, given), strict=True)
            for index, (ours, tolerance, theirs) in enumerate(outputs):
                more = float(tolerance) + ROUNDS.get(folder.name.rsplit("-", 1)[0], 0)
                found += [f"{data.name}: result {index}: {text}" for text in compare(ours, np.asarray(theirs), more)]
        return found
    except Exception as error:
        if LACKS.search(str(error)):
            return None
        return [str(error)]


def compare(ours, theirs, more=0.0):
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return [f"{ours.dtype}{ours.shape} and {theirs.dtype}{theirs.shape}"]
    if ours.dtype.kind not in "fc" and ours.dtype.name != "bfloat16":
        return [] if np.array_equal(ours, theirs) else [f"{ours} and {theirs}"]
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2}.get(ours.dtype.name, 1e-5)
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    scale = np.abs(a[finite]).max(initial=1)
    same = np.abs(a[finite] - b[finite]).max(initial=0) <= tolerance * scale + more and np.array_equal(a[~finite], b[~finite], equal_nan=True)
    return [] if same else [f"{a} and {b}"]


# Of one place it computes x s - mean s, with s = 1 / sqrt(epsilon) = 316, where we compute (x - mean) s.
ROUNDS = {"instance_norm": 1e-3, "group_norm": 1e-3}
# affine_grid: where a dimension has one place, and corners are aligned, it is the first corner to us and the middle to it.
APART = {"affine_grid"}


def test_operators(tmp_path):
    said = subprocess.run([BUILD / "test/random-exports", "--each", "6", "--out", tmp_path], capture_output=True, text=True, timeout=600, check=True).stdout
    made = dict(re.findall(r"^exported (\w+) (\d+)$", said, re.M))
    assert len(made) > 100 and "0" not in made.values(), said
    wrong, compared = [], dict.fromkeys(made, 0)
    for folder in sorted(tmp_path.iterdir()):
        name, found = folder.name.rsplit("-", 1)[0], differences(folder)
        compared[name] += found is not None and (not found or name not in APART)
        wrong += [f"{folder.name}: {text}" for text in found or [] if name not in APART]
    assert not wrong, "\n".join(wrong)
    assert all(compared.values()), {name for name, count in compared.items() if not count}


MLP = """import "tensmith/dense.tsm"

let wide = dense_weights(12, 16)
let narrow = dense_weights(16, 3)

fn main(x: f32[batch, 12]) = dense(relu(dense(x, wide)), narrow)
"""


@pytest.fixture
def program(tmp_path):
    def write(text, **arrays):
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        (tmp_path / "net.tsm").write_text(text)
        return tmp_path / "net.tsm"

    return write


def agree(path, *given, shapes=None, tolerance=1e-5):
    """The program, compiled, and its export, by ONNX Runtime and compiled in its turn."""
    out = path.with_suffix(".onnx")
    ts.export_onnx(path, out, shapes)
    onnx.checker.check_model(onnx.load(out), full_check=True)
    run = session(out.read_bytes())
    ours = ts.compile(path, shapes=shapes, threads=1).run(*given)
    theirs = run.run(None, dict(zip((port.name for port in run.get_inputs()), given)))
    again = ts.compile(out, threads=1).run(*given)
    for a, b, c in zip(ours, theirs, again, strict=True):
        assert a.shape == b.shape == c.shape and a.dtype == b.dtype == c.dtype
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * np.abs(a).max(initial=1))
        np.testing.assert_allclose(c, a, rtol=tolerance, atol=tolerance * np.abs(a).max(initial=1))


def test_a_program(program):
    rng = np.random.default_rng(0)
    for count in (1, 7):
        agree(program(MLP), rng.standard_normal((count, 12)).astype(np.float32))


@pytest.mark.parametrize("text", [
    "fn main(x: f32[n, m]) = (transpose(x, permutation = [1, 0]), x, x)\n",
    "fn main(x: f32[n, m]) = ((reshape(x) : f32[n * m]), concat(x, x, axis = 0))\n",
    "fn main(x: f32[n, m], y: f32[k]) = (broadcast(reduce_sum(x, axes = [0, 1])) : f32[k, n])\n",
    "import \"tensmith/recurrent.tsm\"\nlet weights = gru_cell_weights(3, 5)\nfn main(x: f32[n, m], y: f32[k]) = "
    "gru_cell((broadcast(0.5) : f32[n, 5]), x @ (broadcast(0.1) : f32[m, 3]), weights) + reduce_sum(y, axes = [0])\n",
    "fn main(x: f32[n, m]) = softmax(x, axis = 0) * cast((iota(axis = 1) : i64[n, m]), to = f32)\n",
])  # fmt: skip
def test_sizes_of_the_run(program, text):
    rng = np.random.default_rng(1)
    path = program(text)
    for n, m, k in ((3, 5, 2), (1, 1, 7)):
        given = [rng.standard_normal((n, m)).astype(np.float32)] + ([rng.standard_normal(k).astype(np.float32)] if "y:" in text else [])
        agree(path, *given)


def test_recursion_that_sizes_decide(program):
    text = """import "tensmith/recurrent.tsm"

let weights = lstm_cell_weights(4, 6)

fn rows(x: f32[n, 4], i: i64[]) = if i == 5 { Nil } else { Cons((reshape(gather(x, i, axis = 0)) : f32[1, 4]), rows(x, i + 1)) }

fn main(x: f32[length, 4]) = {
  let start = (broadcast(0.0) : f32[1, 6]);
  let (hidden, cell) = fold(fn(state, x) => lstm_cell(state, x, weights), (start, start), rows(x, 0));
  hidden
}
"""
    rng = np.random.default_rng(2)
    agree(program(text), rng.standard_normal((5, 4)).astype(np.float32), shapes={"length": 5})


@pytest.mark.parametrize("text, message", [
    ("fn main(x: f32[n, 3]) = { let y = x * 2.0;\n bernoulli(sigmoid(y), to = f32, seed = 3) }\n", r"net\.tsm: 2:2 bernoulli: 'bernoulli' has no operator in ONNX"),
    ("fn down(x) = if reduce_max(x, axes = [0, 1]) < 1.0 { x } else { down(x / 2.0) }\n\nfn main(x: f32[n, 3]) = down(x)\n", "net.tsm.*ONNX has tensor code alone"),
    ("fn main(x: f32[n, 3]) = [x]\n", "net.tsm"),
])  # fmt: skip
def test_what_onnx_has_not(program, tmp_path, text, message):
    with pytest.raises(ts.Error, match=message):
        ts.export_onnx(program(text), tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_the_command(program, tmp_path):
    run = lambda *arguments: subprocess.run([BUILD / "bin/tensmith", "export", *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    program(MLP)
    assert run("net.tsm").returncode == 0
    assert [tuple(dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim) for port in onnx.load(tmp_path / "net.onnx").graph.input] == [("batch", 12)]
    assert run("net.tsm", "--shape", "batch=4", "-o", "four.onnx").returncode == 0
    assert onnx.load(tmp_path / "four.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 4
    assert "is the model itself" in run("net.tsm", "-o", "net.tsm").stderr


def test_a_trained_program(tmp_path):
    """The example's network, by ONNX Runtime as by what the run has compiled."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 10, 96)
    images = (rng.integers(0, 90, (96, 1, 28, 28)) + 15 * labels[:, None, None, None]).astype(np.uint8)
    trained = ts.train(ROOT / "examples/fashion/train/network.tsm", (images, labels), epochs=2, batch=32, learning_rate=1e-2, output=str(tmp_path / "run"), progress=False)
    model = onnx.load(trained.onnx)
    onnx.checker.check_model(model, full_check=True)
    weights = {proto.name: numpy_helper.to_array(proto) for proto in model.graph.initializer}
    np.testing.assert_array_equal(weights["conv1.0"], trained.state["conv1.0"])
    np.testing.assert_array_equal(weights["norm2.3"], trained.state["norm2.3"])
    pictures = images[:9].astype(np.float32) / 255
    theirs = session(model.SerializeToString()).run(None, {"image": pictures})[0]
    ours, again = trained.model(pictures), ts.compile(trained.onnx, threads=1)(pictures)
    assert np.abs(ours).max() > 0.1
    np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-5 * np.abs(ours).max())
    np.testing.assert_allclose(again, ours, rtol=1e-5, atol=1e-5 * np.abs(ours).max())
