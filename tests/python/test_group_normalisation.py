"""Normalisations of groups of channels, as operators and as older opsets write them, between convolutions and alone,
against ONNX Runtime: of odd sizes, of sizes that only the run knows, and under each policy."""

import numpy
import onnx
import onnxruntime
import pytest
import tensmith
from onnx import TensorProto, helper, numpy_helper


def constant(name, array):
    return numpy_helper.from_array(numpy.asarray(array), name)


def model(tmp_path, nodes, constants, rank, dims):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)], constants)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def exported(x, y, groups, channels, random, tag):
    """As PyTorch exports group normalisation to opset 17."""
    constants = [constant(f"{tag}in", numpy.array([0, groups, -1])), constant(f"{tag}s", random.random(groups, numpy.float32)),
                 constant(f"{tag}b", random.random(groups, numpy.float32)),
                 constant(f"{tag}scale", random.standard_normal((channels, 1, 1), numpy.float32)),
                 constant(f"{tag}bias", random.standard_normal((channels, 1, 1), numpy.float32))]
    nodes = [helper.make_node("Reshape", [x, f"{tag}in"], [f"{tag}0"]),
             helper.make_node("InstanceNormalization", [f"{tag}0", f"{tag}s", f"{tag}b"], [f"{tag}1"], epsilon=1e-4),
             helper.make_node("Shape", [x], [f"{tag}2"]), helper.make_node("Reshape", [f"{tag}1", f"{tag}2"], [f"{tag}3"]),
             helper.make_node("Mul", [f"{tag}3", f"{tag}scale"], [f"{tag}4"]), helper.make_node("Add", [f"{tag}4", f"{tag}bias"], [y])]
    return nodes, constants


def check(path, x, precision="fast", tolerance=2e-5):
    [want] = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    [own] = tensmith.compile(path, precision=precision).run(x)
    numpy.testing.assert_allclose(own, want, rtol=0, atol=tolerance * abs(want).max())


# Breaks if groups are seen that aren't, or moments are of other elements: those of a channel, an image, a batch.
@pytest.mark.parametrize("seed", range(6))
def test_groups_between_convolutions(tmp_path, seed):
    random = numpy.random.default_rng(seed)
    groups, each = int(random.integers(1, 6)), int(random.integers(1, 6))
    channels = groups * each
    norm, constants = exported("a", "b", groups, channels, random, "n")
    constants += [constant("v", random.standard_normal((channels, 3, 3, 3), numpy.float32)),
                  constant("w", random.standard_normal((5, channels, 1, 1), numpy.float32))]
    nodes = [helper.make_node("Conv", ["x", "v"], ["a"], pads=[1] * 4), *norm, helper.make_node("Sigmoid", ["b"], ["c"]),
             helper.make_node("Mul", ["b", "c"], ["d"]), helper.make_node("Conv", ["d", "w"], ["y"])]
    batch, height, width = random.integers(1, 4), random.integers(2, 40), random.integers(2, 40)
    x = random.standard_normal((batch, 3, height, width), numpy.float32)
    for dims in (list(x.shape), ["n", 3, "h", "w"]):
        path = model(tmp_path, nodes, constants, 4, dims)
        check(path, x)
    check(model(tmp_path, nodes, constants, 4, list(x.shape)), x, "bf16", 0.05)


# Breaks if a reshape to other groups than channels give, of another number of images, counts as one.
@pytest.mark.parametrize("shape", [[2, 8, -1], [4, 6, -1], [1, 24, -1], [2, 12, 4, 7], [2, 3, 16, -1]])
def test_other_reshapes(tmp_path, shape):
    random = numpy.random.default_rng(1)
    groups = shape[1]
    constants = [constant("to", numpy.array(shape)), constant("s", random.random(groups, numpy.float32)),
                 constant("b", random.random(groups, numpy.float32))]
    nodes = [helper.make_node("Reshape", ["x", "to"], ["a"]), helper.make_node("InstanceNormalization", ["a", "s", "b"], ["y"])]
    x = random.standard_normal((2, 12, 4, 7), numpy.float32) + random.standard_normal((2, 12, 1, 1), numpy.float32)
    check(model(tmp_path, nodes, constants, len(shape), [2, 12, 4, 7]), x)


# Of ranks without lines, of few, and of images whose mean is far from zero.
@pytest.mark.parametrize("shape", [(3, 6), (3, 6, 5), (2, 6, 3, 4, 5), (1, 6, 1, 1), (2, 6, 33, 129)])
def test_operator(tmp_path, shape):
    random = numpy.random.default_rng(2)
    constants = [constant("s", random.random(6, numpy.float32)), constant("b", random.random(6, numpy.float32))]
    graph = helper.make_graph([helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], constants)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    x = random.standard_normal(shape, numpy.float32) + 30
    grouped = x.astype(numpy.float64).reshape(shape[0], 3, -1)
    normal = (grouped - grouped.mean(2, keepdims=True)) / numpy.sqrt(grouped.var(2, keepdims=True) + 1e-5)
    along = [1, 6] + [1] * (len(shape) - 2)
    scale, bias = (numpy_helper.to_array(each).reshape(along) for each in constants)
    [own] = tensmith.compile(path).run(x)
    numpy.testing.assert_allclose(own, normal.reshape(shape) * scale + bias, rtol=0, atol=3e-5 * abs(normal).max())


# Breaks if groups of channels whose number the run tells are normalised by the reference evaluator.
def test_open_channels(tmp_path):
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", ["n", "c", "h"]), ("s", ["c"]), ("t", ["c"]))]
    graph = helper.make_graph([helper.make_node("GroupNormalization", ["x", "s", "t"], ["y"], num_groups=2)], "g", inputs,
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 3)])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    compiled = tensmith.compile(tmp_path / "m.onnx")
    labels = {step["label"] for function in compiled.describe()["functions"] for step in function["instructions"] if step["opcode"] == "routine"}
    assert labels <= {"shape", "size"}
    random = numpy.random.default_rng(1)
    for shape in ((1, 2, 5), (3, 6, 4), (2, 8, 1)):
        x, s, t = (random.standard_normal(size, numpy.float32) for size in (shape, shape[1], shape[1]))
        parts = x.astype(float).reshape(shape[0], 2, -1)
        parts = (parts - parts.mean(-1, keepdims=True)) / numpy.sqrt(parts.var(-1, keepdims=True) + 1e-5)
        wanted = parts.reshape(shape) * s[:, None] + t[:, None]
        numpy.testing.assert_allclose(compiled.run(x, s, t)[0], wanted, rtol=0, atol=1e-4 * max(1, abs(wanted).max()))
    with pytest.raises(tensmith.Error, match="multiple of 2"):
        compiled.run(numpy.zeros((1, 3, 2), "float32"), numpy.zeros(3, "float32"), numpy.zeros(3, "float32"))
