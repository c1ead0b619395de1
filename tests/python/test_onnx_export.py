"""Graphs as ONNX models: every operator that is exported, drawn at random, by ONNX Runtime, and whole programs.

What would break these: an attribute under another name or left out, operands in another order, a size of the run that is
computed wrongly, an operator that ONNX means differently.
"""

import concurrent.futures
import os
import pathlib
import re
import stat
import subprocess

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import tensmith as ts
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
# What ONNX Runtime or its Python say where they lack a part of the standard: an element type, a rank, a case.
LACKS = re.compile(r"NOT_IMPLEMENTED|Could not find an implementation|not support|only support"
                   r"|Numpy.type|by zero|lrn\.(cc|h)", re.S | re.I)  # fmt: skip
# What the checker's inference of shapes refuses, and the standard allows.
MISTAKEN = re.compile(r"inverse one-sided DFT requires complex input")


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
    model, name = onnx.load(folder / "model.onnx"), folder.name.rsplit("-", 1)[0]
    try:
        onnx.checker.check_model(model, full_check=True)
    except onnx.shape_inference.InferenceError as error:
        return None if MISTAKEN.search(str(error)) else [str(error)]
    try:
        run = session(model.SerializeToString())
        found = []
        for data in sorted(folder.glob("test_data_set_*")):
            given = dict(zip((port.name for port in run.get_inputs()), arrays(data, "input")))
            if name in ORDERS and any(np.isnan(array.astype(np.float64)).any() for array in given.values()):
                continue
            outputs = zip(arrays(data, "output"), arrays(data, "tolerance"), run.run(None, given), strict=True)
            for index, (ours, tolerance, theirs) in enumerate(outputs):
                more = float(tolerance) + ROUNDS.get(name, 0)
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
# What sorts its elements: the standard gives NaN no place.
ORDERS = {"topk", "unique"}
# affine_grid: where a dimension has one place, and corners are aligned, it is the first corner to us and the middle to it.
APART = {"affine_grid"}


# Whose operands are numbers that say what to make: they are always folded to a constant.
CREATED = {"iota", "mel_weight_matrix", "range", "window"}


def test_operators(tmp_path):
    said = subprocess.run([BUILD / "test/random-exports", "--each", "6", "--out", tmp_path], capture_output=True, text=True, timeout=600, check=True).stdout
    made = dict(re.findall(r"^exported (\w+) (\d+)$", said, re.M))
    assert len(made) > 100 and "0" not in made.values(), said
    wrong, compared = [], dict.fromkeys(made, 0)
    for folder in sorted(tmp_path.iterdir()):
        name, found = folder.name.rsplit("-", 1)[0], differences(folder)
        is_folded = all(node.op_type == "Identity" for node in onnx.load(folder / "model.onnx").graph.node)
        if is_folded and name not in CREATED:
            continue  # its operands were constants
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


LOG1P = {
    "f32": [1e10, 3e7, np.inf, -1, 1e-8, 0, -0.5, 3e38, np.nan],
    "f16": [5000, 2049, 65504, np.inf, -1, 1e-5, 0.5],
    "bf16": [300, 1e30, np.inf, -1, 1e-5, 0.5],
}


@pytest.mark.parametrize("kind", LOG1P)
def test_logarithms_of_one_more(program, kind):
    """1 is lost in what is large; its logarithm is not."""
    dtype = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[kind]
    x = np.array(LOG1P[kind], dtype)
    path = program(f"fn main(x: {kind}[n]) = log1p(x)\n")
    out = path.with_suffix(".onnx")
    ts.export_onnx(path, out)
    onnx.checker.check_model(onnx.load(out), full_check=True)
    # ONNX Runtime has no Log of bf16.
    got = ts.compile(out, threads=1)(x) if kind == "bf16" else session(out.read_bytes()).run(None, {"x": x})[0]
    with np.errstate(divide="ignore"):
        wanted = np.log1p(x.astype(np.float64))
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=4 * float(ml_dtypes.finfo(dtype).eps))


def test_names(program):
    """What the graph calls inputs and outputs is theirs alone, and the empty name is none."""
    path = program("").with_suffix(".mlir")
    path.write_text('''func.func @main(%x: tensor<3xf32> {graph.name = ""}, %y: tensor<3xf32> {graph.name = "input0"})
    -> (tensor<3xf32> {graph.name = "add"}, tensor<3xf32> {graph.name = ""}, tensor<3xf32> {graph.name = "input0"}) {
  %0 = graph.add %x, %y : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = graph.mul %0, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %1, %0, %0 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
''')
    out = path.with_suffix(".onnx")
    ts.export_onnx(path, out)
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert [port.name for port in model.graph.input] == ["input0_2", "input0"]
    assert [port.name for port in model.graph.output] == ["add", "result1", "input0_3"]
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    found = session(out.read_bytes()).run(None, {"input0_2": x, "input0": y})
    np.testing.assert_array_equal(found, [(x + y) * x, x + y, x + y])


@pytest.mark.parametrize("kind, dtype, values", [("i4", ml_dtypes.int4, [1, -8, 7, -1, 3]), ("ui4", ml_dtypes.uint4, [1, 15, 7]), ("i4", ml_dtypes.int4, [-5])])
def test_elements_of_four_bits(program, kind, dtype, values):
    path = program("").with_suffix(".mlir")
    tensor = f"tensor<{len(values)}x{kind}>"
    path.write_text(f'''func.func @main(%x: tensor<1xi8> {{graph.name = "x"}}) -> ({tensor} {{graph.name = "y"}}) {{
  %c = graph.constant {{value = dense<{values}> : {tensor}}} : () -> {tensor}
  return %c : {tensor}
}}
''')
    out = path.with_suffix(".onnx")
    ts.export_onnx(path, out)
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    (constant,) = model.graph.initializer
    assert len(constant.raw_data) == (len(values) + 1) // 2
    np.testing.assert_array_equal(numpy_helper.to_array(constant), np.array(values, dtype))
    np.testing.assert_array_equal(ts.compile(out)(np.zeros(1, np.int8)).astype(int), values)


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
    ("fn main(x: i8[n]) = x + reduce_sum(x, axes = [0])\n", r"net\.tsm: 1:\d+ reduce_sum: 'reduce_sum' is of i8, which ONNX's ReduceSum of opset 21 has not there; cast it"),
    ("fn main(x: u16[n]) = reduce_prod(x, axes = [0])\n", "is of u16, which ONNX's ReduceProd"),
    ("fn main(x: i16[n]) = cumsum(x, axis = 0)\n", "is of i16, which ONNX's CumSum"),
])  # fmt: skip
def test_what_onnx_has_not(program, tmp_path, text, message):
    with pytest.raises(ts.Error, match=message):
        ts.export_onnx(program(text), tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_constants_without_data(program):
    path = program("").with_suffix(".mlir")
    path.write_text('''func.func @main(%x: tensor<3xf32> {graph.name = "x"}) -> (tensor<3xf32> {graph.name = "y"}) {
  %c = graph.constant {value = dense_resource<nope> : tensor<3xf32>} : () -> tensor<3xf32>
  %0 = graph.add %x, %c : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
''')
    with pytest.raises(ts.Error, match=r"net\.mlir: 2:8: a constant's resource 'nope' is missing"):
        ts.export_onnx(path, path.with_suffix(".onnx"))


def test_what_is_written_over(program, tmp_path):
    path = program(MLP)
    with pytest.raises(ts.Error, match=r"net\.tsm: is the model itself"):
        ts.export_onnx(path, tmp_path / "." / "net.tsm")
    assert path.read_text() == MLP
    out = tmp_path / "out.onnx"
    out.write_text("as it was")
    (tmp_path / "link.onnx").symlink_to(out)
    ts.export_onnx(path, tmp_path / "link.onnx")
    onnx.checker.check_model(onnx.load(out), full_check=True)
    assert (tmp_path / "link.onnx").is_symlink()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link.onnx", "net.tsm", "out.onnx"]
    with pytest.raises(ts.Error, match=r"nowhere/out.onnx: can't be written: No such file"):
        ts.export_onnx(path, tmp_path / "nowhere" / "out.onnx")


# Breaks if a pipe, or what a link names, is replaced by a file; from Python and from the command line.
def test_what_is_no_file_is_not_replaced(program, tmp_path):
    path, pipe, link = program(MLP), tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "file")
    command = [BUILD / "bin/tensmith", "export", path, "-o"]
    for export in (lambda out: ts.export_onnx(path, out), lambda out: subprocess.run([*command, out], check=True, capture_output=True, timeout=120)):
        with concurrent.futures.ThreadPoolExecutor() as readers:
            read = readers.submit(pipe.read_bytes)
            export(pipe)
            whole = read.result(timeout=120)
        export(link)
        assert stat.S_ISFIFO(pipe.stat().st_mode) and link.is_symlink() and whole == (tmp_path / "file").read_bytes()
        (tmp_path / "file").unlink()


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
