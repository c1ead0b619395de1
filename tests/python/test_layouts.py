"""What is left of layouts that don't agree, as `inspect` counts it, and pools that are left as they are where two
conversions would cost more than they win; results against ONNX's reference."""

import json
import pathlib
import subprocess

import numpy
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

tensmith = pytest.importorskip("tensmith")
COMMAND = pathlib.Path(tensmith.__file__).resolve().parents[2] / "bin/tensmith"


def model_of(nodes, shapes, output, weights=()):
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)]
    initialisers = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "layouts", inputs, outputs, initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def conversions(compiled):
    return json.loads(compiled.describe()["metadata"]["layout_conversions"])


def agrees(compiled, model, shapes, seed=0, tolerance=1e-4):
    rng = numpy.random.default_rng(seed)
    feed = {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    [expected] = ReferenceEvaluator(model).run(None, feed)
    numpy.testing.assert_allclose(numpy.asarray(compiled(**feed)), expected, rtol=0, atol=tolerance * numpy.abs(expected).max())


def residual_network(size):
    rng = numpy.random.default_rng(size)
    nodes, weights = [], {}

    def conv(x, inputs, outputs, window, name, **attributes):
        scale = numpy.sqrt(inputs * window * window)
        weights[f"{name}w"] = (rng.standard_normal((outputs, inputs, window, window)) / scale).astype("float32")
        weights[f"{name}b"] = rng.standard_normal(outputs).astype("float32")
        nodes.append(helper.make_node("Conv", [x, f"{name}w", f"{name}b"], [name], name=name, **attributes))
        return name

    def relu(x):
        nodes.append(helper.make_node("Relu", [x], [f"{x}r"]))
        return f"{x}r"

    x = relu(conv("x", 3, 24, 7, "stem", strides=[2, 2], pads=[3] * 4))
    nodes.append(helper.make_node("MaxPool", [x], ["pooled"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    x = "pooled"
    for number, (inputs, outputs, step) in enumerate([(24, 24, 1), (24, 40, 2), (40, 40, 1)]):
        inner = relu(conv(x, inputs, 16, 1, f"in{number}"))
        inner = relu(conv(inner, 16, 16, 3, f"mid{number}", strides=[step] * 2, pads=[1] * 4))
        inner = conv(inner, 16, outputs, 1, f"out{number}")
        if (inputs, step) != (outputs, 1):
            x = conv(x, inputs, outputs, 1, f"skip{number}", strides=[step] * 2)
        nodes.append(helper.make_node("Add", [inner, x], [f"sum{number}"]))
        x = relu(f"sum{number}")
    return nodes, weights, x


# Breaks if a transposition is left between two operators, or one that is left is not counted.
def test_a_residual_network_converts_its_image_and_its_features(tmp_path):
    nodes, weights, x = residual_network(45)
    nodes.append(helper.make_node("Identity", [x], ["y"]))
    shapes = {"x": (1, 3, 45, 45)}
    model = model_of(nodes, shapes, [1, 40, 6, 6], weights)
    compiled = tensmith.compile(model.SerializeToString())
    first, last = conversions(compiled)
    assert first["from"] == "1x3x45x45:f32" and first["value"].endswith("'stem (Conv)'")
    assert last["to"] == "1x40x6x6:f32" and last["bytes"] == 40 * 6 * 6 * 4
    agrees(compiled, model, shapes)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    text = subprocess.run([COMMAND, "inspect", "m.onnx"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    stored = first["bytes"] + last["bytes"]
    assert f"layout conversions: 2, of {stored / 1024:.2f} KiB" in text
    assert "'stem (Conv)'" in text.split("layout conversions")[1].split("memory:")[0]
    whole = subprocess.run([COMMAND, "inspect", "m.onnx", "--json"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert [entry["bytes"] for entry in json.loads(whole)["layout_conversions"]] == [first["bytes"], last["bytes"]]


# The features' mean is over all positions, in any order.
def test_a_classifier_converts_its_image_alone():
    nodes, weights, x = residual_network(44)
    nodes += [helper.make_node("GlobalAveragePool", [x], ["mean"]), helper.make_node("Flatten", ["mean"], ["flat"]),
              helper.make_node("Gemm", ["flat", "w"], ["y"], transB=1)]
    weights["w"] = numpy.random.default_rng(1).standard_normal((10, 40)).astype("float32")
    shapes = {"x": (1, 3, 44, 44)}
    model = model_of(nodes, shapes, [1, 10], weights)
    compiled = tensmith.compile(model.SerializeToString())
    assert [entry["from"] for entry in conversions(compiled)] == ["1x3x44x44:f32"]
    agrees(compiled, model, shapes)


# Heads are read where they lie; keys and values are laid into panels, which is what their products read. Values as wide as one panel are so by their transposition.
def test_attention_lays_out_keys_and_values_alone():
    batch, length, heads, size = 2, 37, 3, 16
    rng = numpy.random.default_rng(2)
    weights = {name: (rng.standard_normal((heads * size, heads * size)) / 7).astype("float32") for name in ("wq", "wk", "wv", "wo")}
    weights["split"] = numpy.array([0, 0, heads, size], numpy.int64)
    weights["join"] = numpy.array([0, 0, heads * size], numpy.int64)
    weights["scale"] = numpy.float32(size**-0.5)
    nodes = []
    for name in "qkv":
        nodes += [helper.make_node("MatMul", ["x", f"w{name}"], [name]), helper.make_node("Reshape", [name, "split"], [f"{name}s"]),
                  helper.make_node("Transpose", [f"{name}s"], [f"{name}t"], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])]
    nodes += [helper.make_node("MatMul", ["qt", "kt"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["t"]),
              helper.make_node("Softmax", ["t"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "vt"], ["o"], name="weigh"),
              helper.make_node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]), helper.make_node("Reshape", ["ot", "join"], ["oj"]),
              helper.make_node("MatMul", ["oj", "wo"], ["y"])]
    shapes = {"x": (batch, length, heads * size)}
    model = model_of(nodes, shapes, [batch, length, heads * size], weights)
    compiled = tensmith.compile(model.SerializeToString())
    left = conversions(compiled)
    is_panels = lambda entry: entry["to"].endswith("in panels") and "'weigh (MatMul)'" in entry["value"]
    assert len(left) == 2 and all(is_panels(entry) or "'vt (Transpose)'" in entry["value"] for entry in left), left
    agrees(compiled, model, shapes)


# The bytes of a size that only the run knows are not told.
def test_a_conversion_of_unknown_size_has_no_bytes():
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1])]
    compiled = tensmith.compile(model_of(nodes, {"x": ["n", 5, 7]}, ["n", 7, 5]).SerializeToString())
    [entry] = conversions(compiled)
    assert entry["bytes"] is None and entry["from"] == "nx5x7:f32" and entry["to"] == "nx7x5:f32"


POOLS = [
    # kind, window, step, padding, image, whether it is left as it is
    ("MaxPool", 3, 1, 1, (1, 16, 37, 53), True),
    ("AveragePool", 3, 1, 1, (2, 8, 33, 41), True),
    ("LpPool", 2, 2, 0, (1, 19, 31, 45), True),
    ("MaxPool", 2, 2, 0, (3, 24, 34, 38), True),
    ("MaxPool", 5, 2, 2, (1, 64, 39, 47), False),
    ("AveragePool", 7, 2, 3, (1, 32, 45, 31), False),
]


# Breaks if a lone pool is turned where its conversions cost more than it wins, or is not where its windows are large and overlap.
@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pools_between_channels_first_operators(case, monkeypatch, tmp_path):
    monkeypatch.setenv("TENSMITH_CACHE", str(tmp_path))  # by the defaults, whatever machine this is
    kind, window, step, padding, shape, stays = case
    attributes = {"kernel_shape": [window] * 2, "strides": [step] * 2, "pads": [padding] * 4}
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node(kind, ["a"], ["p"], **attributes),
             helper.make_node("Add", ["p", "one"], ["y"])]
    out = [shape[0], shape[1], *((size + 2 * padding - window) // step + 1 for size in shape[2:])]
    weights = {"one": numpy.ones(1, numpy.float32)}
    model = model_of(nodes, {"x": shape}, out, weights)
    compiled = tensmith.compile(model.SerializeToString())
    assert len(conversions(compiled)) == (0 if stays else 2)
    if kind != "LpPool":
        agrees(compiled, model, {"x": shape})
    else:
        x = numpy.random.default_rng(0).standard_normal(shape).astype("float32")
        squares = (x[:, :, : out[2] * 2, : out[3] * 2] ** 2).reshape(shape[0], shape[1], out[2], 2, out[3], 2).sum((3, 5))
        numpy.testing.assert_allclose(numpy.asarray(compiled(x=x)), numpy.sqrt(squares) + 1, rtol=1e-5)


# One convolution beside a pool decides for both; a model that is channels-last by its own transpositions has none left.
def test_what_stands_beside_a_pool_decides():
    w = numpy.random.default_rng(3).standard_normal((16, 16, 3, 3)).astype("float32") / 12
    pool = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4}
    shapes = {"x": (1, 16, 29, 35)}
    nodes = [helper.make_node("MaxPool", ["x"], ["p"], **pool), helper.make_node("Relu", ["p"], ["r"]),
             helper.make_node("Conv", ["r", "w"], ["y"], pads=[1] * 4)]
    model = model_of(nodes, shapes, [1, 16, 29, 35], {"w": w})
    compiled = tensmith.compile(model.SerializeToString())
    assert [entry["from"] for entry in conversions(compiled)] == ["1x16x29x35:f32", "1x29x35x16:f32"]
    agrees(compiled, model, shapes)
    shapes = {"x": (1, 29, 35, 16)}
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), helper.make_node("MaxPool", ["t"], ["p"], **pool),
             helper.make_node("Transpose", ["p"], ["y"], perm=[0, 2, 3, 1])]
    model = model_of(nodes, shapes, [1, 29, 35, 16])
    compiled = tensmith.compile(model.SerializeToString())
    assert conversions(compiled) == []
    agrees(compiled, model, shapes)


@pytest.mark.parametrize("channels, window, attributes", [
    (37, 5, {"pads": [2] * 4}), (17, 3, {"pads": [1, 0, 2, 1], "strides": [2, 1]}), (64, 3, {"pads": [2] * 4, "dilations": [2, 2]}),
    (40, 2, {"pads": [0, 0, 1, 1], "strides": [2, 2]}), (7, 5, {"pads": [2] * 4})])
@pytest.mark.parametrize("kind, more", [("MaxPool", {}), ("AveragePool", {"count_include_pad": 0}), ("AveragePool", {"count_include_pad": 1}),
                                        ("LpPool", {"p": 2})])
def test_pools_of_vectors_of_channels(channels, window, attributes, kind, more):
    """Between convolutions channels come last. Breaks where a position outside counts, or a vector that is cut off is another's."""
    if "dilations" in attributes and kind != "MaxPool":
        attributes = {name: value for name, value in attributes.items() if name != "dilations"}
    rng = numpy.random.default_rng(channels)
    u, v = (rng.standard_normal(shape).astype("float32") for shape in ((channels, 5, 1, 1), (6, channels, 1, 1)))
    nodes = [helper.make_node("Conv", ["x", "u"], ["a"]), helper.make_node(kind, ["a"], ["p"], kernel_shape=[window] * 2, **attributes, **more),
             helper.make_node("Conv", ["p", "v"], ["y"])]
    graph = helper.make_graph(nodes, "pool", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 5, 13, 11])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(u, "u"), numpy_helper.from_array(v, "v")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()
    x = rng.standard_normal((2, 5, 13, 11)).astype("float32")
    compiled = tensmith.compile(model)
    [pool] = [kernel for kernel in compiled.describe()["kernels"] if "pool" in kernel["label"]]
    assert ("loops of vectors" in pool["schedule"]) == (channels >= 16), pool
    wanted = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    assert numpy.abs(numpy.asarray(compiled.run(x)[0]) - wanted).max() <= 1e-5 * numpy.abs(wanted).max()


@pytest.mark.parametrize("sizes", [(3, 5), (40, 7), (16, 33), (1, 1), (24, 100)])
@pytest.mark.parametrize("follower", [None, "Sigmoid"])
def test_joined_runs_are_copied_in_vectors(sizes, follower):
    """Breaks where a run's end is of other elements, or writes over the next run."""
    nodes = [helper.make_node("Concat", ["a", "b"], ["j" if follower else "y"], axis=-1)]
    if follower:
        nodes.append(helper.make_node(follower, ["j"], ["y"]))
    for rows in (5, "n"):
        graph = helper.make_graph(nodes, "join", [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size])
                                                  for name, size in zip("ab", sizes)], [onnx.ValueInfoProto(name="y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
        rng = numpy.random.default_rng(sum(sizes))
        feed = {name: rng.standard_normal((5, size)).astype("float32") for name, size in zip("ab", sizes)}
        compiled = tensmith.compile(model)
        assert any("by vectors" in kernel["schedule"] for kernel in compiled.describe()["kernels"])
        wanted = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)[0]
        numpy.testing.assert_allclose(numpy.asarray(compiled.run(feed["a"], feed["b"])[0]), wanted, rtol=1e-5, atol=1e-6)
