"""The policy's bound is held on the model: on drawn or given inputs, against double precision."""

import json
import pathlib
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")
COMMAND = pathlib.Path(tensmith.__file__).resolve().parents[2] / "bin/tensmith"


def model_of(nodes, inputs, outputs, weights):
    ports = [helper.make_tensor_value_info(name, type_, shape) for name, (type_, shape) in inputs.items()]
    graph = helper.make_graph(nodes, "g", ports, [onnx.ValueInfoProto(name=name) for name in outputs],
                              [numpy_helper.from_array(numpy.asarray(value), name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def product(rows, offset, seed=0, depth=512, columns=257):
    """Columns of weights whose mean is zero, on numbers around `offset`: most of the sum cancels."""
    w = numpy.random.default_rng(seed).standard_normal((depth, columns)).astype("float32")
    w -= w.mean(0, keepdims=True)
    nodes = [helper.make_node("Add", ["x", "offset"], ["b"]), helper.make_node("MatMul", ["b", "w"], ["y"], name="layer")]
    return model_of(nodes, {"x": (TensorProto.FLOAT, [rows, depth])}, ["y"], {"offset": numpy.float32(offset), "w": w}), w


def image(offset):
    """The same with a convolution."""
    w = numpy.random.default_rng(1).standard_normal((64, 64, 3, 3))
    w = (w - w.mean(axis=(1, 2, 3), keepdims=True)).astype("float32")
    nodes = [helper.make_node("Add", ["x", "offset"], ["b"]), helper.make_node("Conv", ["b", "w"], ["y"], name="layer")]
    return model_of(nodes, {"x": (TensorProto.FLOAT, [1, 64, 34, 34])}, ["y"], {"offset": numpy.float32(offset), "w": w})


def schedule(compiled, name):
    return next(each for each in json.loads(compiled.describe()["metadata"]["schedules"]) if each["kernel"].startswith(name))


def found(compiled):
    return json.loads(compiled.describe()["metadata"]["calibration"])


def measured(compiled, x, right):
    return numpy.abs(numpy.asarray(compiled.run(x)[0]) - right).max() / numpy.abs(right).max()


def test_a_product_that_cancels_falls_back(tmp_path):
    """Breaks if the layer is tried on N(0, 1) where the model gives it something else, or the error is not that of the module."""
    asked = tmp_path / "s.json"
    asked.write_text(json.dumps({"schedules": [{"nodes": ["layer"], "operand_bits": 16}]}))
    model, w = product(64, 1000)
    x = numpy.random.default_rng(2).standard_normal((64, 512)).astype("float32")
    right = (x.astype("float64") + 1000) @ w.astype("float64")
    forced = tensmith.compile(model, precision="bf16", schedules=asked, calibrate={"x": x})
    told = found(forced)
    assert told["against"] == "f64" and told["inputs"] == "given" and told["bound"] == 1 / 16
    [output] = told["outputs"]
    assert output["output"] == "y" and output["error"] > 1 / 16
    # What is asked for stays, and its error is told as it is: of the layer by its input's moments, of the output by a run.
    assert measured(forced, x, right) / 1.01 < output["error"] < measured(forced, x, right) * 1.01
    assert output["error"] / 2 < schedule(forced, "matmul")["error"] < output["error"] * 2
    ours = tensmith.compile(model, precision="bf16", calibrate="random")
    entry = schedule(ours, "matmul")
    assert entry["operand_bits"] == 32 and found(ours)["inputs"] == "random"
    [output] = found(ours)["outputs"]
    assert output["error"] < 1 / 64
    assert output["error"] / 2 < measured(ours, x, right) < output["error"] * 2
    if "refused" in schedule(tensmith.compile(model, precision="bf16"), "matmul"):
        pytest.fail("the layer alone has nothing to be refused for")


@pytest.mark.parametrize("offset,tile", [(0, True), (1000, False)])
def test_a_convolution_falls_back_only_where_it_must(offset, tile):
    """Breaks if minimal filtering is kept where its sums cancel, or given up where it errs by little."""
    alone = schedule(tensmith.compile(image(offset)), "conv")
    assert alone["winograd_outputs"] > 0
    compiled = tensmith.compile(image(offset), calibrate="random")
    entry = schedule(compiled, "conv")
    assert (entry["winograd_outputs"] > 0) == tile
    if tile:
        assert entry["winograd_outputs"] == alone["winograd_outputs"]
    else:
        assert {each["choice"] for each in entry["refused"]} == {"winograd_outputs"}
    assert len(found(compiled)["attempts"]) == 1


def test_layers_fall_back_until_the_model_holds():
    """Each of two layers is within its bound, and their difference is not: what cancels between layers no layer can know.
    Breaks if outputs are not looked at, or nothing is tried again."""
    rng = numpy.random.default_rng(3)
    w = (rng.standard_normal((64, 64, 3, 3)) / 24).astype("float32")
    v = (w + rng.standard_normal(w.shape) * 1e-4 / 24).astype("float32")
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], name="first"), helper.make_node("Conv", ["x", "v"], ["b"], name="second"),
             helper.make_node("Sub", ["a", "b"], ["y"])]
    model = model_of(nodes, {"x": (TensorProto.FLOAT, [1, 64, 34, 34])}, ["y"], {"w": w, "v": v})
    compiled = tensmith.compile(model, calibrate="random")
    attempts = found(compiled)["attempts"]
    assert attempts[0]["error"] > 1e-4 and len(attempts) > 1
    assert found(compiled)["outputs"][0]["error"] < attempts[0]["error"] / 2
    assert found(compiled)["layer_bound"] is not None


@pytest.mark.parametrize("precision", ["fast", "exact", "bf16"])
def test_sizes_of_the_run(precision):
    """A symbolic size is that of the values that are given, and stays open in the module."""
    model, w = product("n", 0)
    compiled = tensmith.compile(model, precision=precision, calibrate={"x": numpy.ones((3, 512), "float32"), "labels": numpy.ones(3)})
    assert [output["output"] for output in found(compiled)["outputs"]] == ["y"]
    x = numpy.random.default_rng(4).standard_normal((5, 512)).astype("float32")
    assert measured(compiled, x, x.astype("float64") @ w.astype("float64")) < 0.02


def test_places_are_drawn_among_the_rows_of_their_tables():
    """Breaks if a place is drawn that the table doesn't have, for which the run fails."""
    rng = numpy.random.default_rng(5)
    weights = {"table": rng.standard_normal((7, 16)).astype("float32"), "few": rng.standard_normal((2, 16)).astype("float32"),
               "w": rng.standard_normal((16, 9)).astype("float32")}
    nodes = [helper.make_node("Gather", ["table", "ids"], ["t"]), helper.make_node("Gather", ["few", "kinds"], ["k"]),
             helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT), helper.make_node("Unsqueeze", ["m", "last"], ["u"]),
             helper.make_node("Add", ["t", "k"], ["s"]), helper.make_node("Mul", ["s", "u"], ["p"]),
             helper.make_node("MatMul", ["p", "w"], ["y"])]
    weights["last"] = numpy.array([2], "int64")
    ids = (TensorProto.INT64, [3, 50])
    model = model_of(nodes, {"ids": ids, "kinds": ids, "mask": ids}, ["y"], weights)
    assert found(tensmith.compile(model, calibrate="random"))["outputs"][0]["error"] < 1e-5


def test_what_cannot_be_calibrated_is_said():
    model, _ = product("n", 0)
    with pytest.raises(Exception, match=r"input 'x' \(f32 nx512\) has open sizes.*give"):
        tensmith.compile(model, calibrate="random")
    with pytest.raises(Exception, match=r"lacks input 'x' \(f32 nx512\); it has 'z'"):
        tensmith.compile(model, calibrate={"z": numpy.ones((3, 512), "float32")})
    with pytest.raises(Exception, match=r"has f32 3x511 for input 'x' \(f32 nx512\)"):
        tensmith.compile(model, calibrate={"x": numpy.ones((3, 511), "float32")})
    with pytest.raises(Exception, match=r"has f64 3x512 for input 'x' \(f32 nx512\)"):
        tensmith.compile(model, calibrate={"x": numpy.ones((3, 512))})
    with pytest.raises(tensmith.Error, match="calibrate has 1 for the name of an input, which is no text"):
        tensmith.compile(model, calibrate={1: numpy.ones((3, 512), "float32")})
    nodes = [helper.make_node("Mul", ["i", "i"], ["y"])]
    with pytest.raises(Exception, match=r"input 'i' \(i64 3\) can't be drawn, since nothing tells what it may be"):
        tensmith.compile(model_of(nodes, {"i": (TensorProto.INT64, [3])}, ["y"], {}), calibrate="random")
    with pytest.raises(Exception, match="reference"):
        tensmith.compile(model, calibrate="random", reference=True)


def test_the_command(tmp_path):
    model, _ = product(8, 0)
    (tmp_path / "m.onnx").write_bytes(model)
    numpy.savez(tmp_path / "inputs.npz", x=numpy.ones((8, 512), "float32"))
    numpy.savez(tmp_path / "others.npz", z=numpy.ones((8, 512), "float32"))

    def run(calibrate, *more):
        return subprocess.run([COMMAND, "compile", "m.onnx", "-o", "m.so", "--calibrate", calibrate, *more], cwd=tmp_path,
                              capture_output=True, text=True, timeout=100)

    done = run("inputs.npz")
    assert done.returncode == 0 and "output 'y' errs by" in done.stdout and "double precision" in done.stdout, done.stderr
    told = json.loads(run("random", "--json").stdout)["calibration"]
    assert told["inputs"] == "random" and told["against"] == "f64" and told["outputs"][0]["error"] < told["bound"] == 1e-4
    failed = run("others.npz")
    assert failed.returncode != 0 and "others.npz: lacks input 'x' (f32 8x512)" in failed.stderr
    assert "reproducer" not in failed.stderr
    assert run("nowhere.npz").returncode != 0
    for value in (0, numpy.nan):
        numpy.savez(tmp_path / "nothing.npz", x=numpy.full((8, 512), value, "float32"))
        told = run("nothing.npz")
        assert told.returncode == 0 and "output 'y' has no finite element but zeros on these inputs" in told.stderr
