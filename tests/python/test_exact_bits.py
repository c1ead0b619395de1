"""The policy `exact` on whole networks: the same bits at any number of threads, in each run."""

import pathlib

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")
ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = 3


def bottlenecks_and_attention():
    """Three bottlenecks with a residual sum, strides and a depthwise convolution between, then an attention over the image's
    pixels with its layer norm, and a classifier: of sizes that several threads share out, and none a multiple of a tile's."""
    rng = numpy.random.default_rng(8)
    nodes, weights = [], {}

    def add(operator, inputs, **attributes):
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def constant(*shape):
        name = f"w{len(weights)}"
        weights[name] = (rng.standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))).astype("float32")
        return name

    def conv(x, outputs, inputs, taps, stride=1, group=1):
        y = add("Conv", [x, constant(outputs, inputs // group, taps, taps), constant(outputs)], group=group,
                pads=[taps // 2] * 4, strides=[stride, stride])
        return add("Relu", [y])

    x = add("MaxPool", [conv("x", 66, 3, 7, stride=2)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for _ in range(3):
        inner = conv(conv(x, 40, 66, 1), 40, 40, 3)
        x = add("Relu", [add("Add", [conv(conv(inner, 40, 40, 3, group=40), 66, 40, 1), x])])
    weights["rows"] = numpy.array([1, 66, -1])
    rows = add("Transpose", [add("Reshape", [x, "rows"])], perm=[0, 2, 1])
    q, k, v = (add("MatMul", [rows, constant(66, 66)]) for _ in range(3))
    scores = add("Softmax", [add("MatMul", [q, add("Transpose", [k], perm=[0, 2, 1])])], axis=-1)
    mixed = add("Add", [rows, add("MatMul", [add("MatMul", [scores, v]), constant(66, 66)])])
    normal = add("LayerNormalization", [mixed, constant(66), constant(66)], axis=-1)
    pooled = add("ReduceMean", [add("Tanh", [add("MatMul", [normal, constant(66, 333)])])], axes=[1], keepdims=0)
    nodes.append(helper.make_node("MatMul", [pooled, constant(333, 1001)], ["y"]))
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 131, 117])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, n) for n, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def networks():
    return {"fashion": (ROOT / "examples/fashion/fashion.onnx").read_bytes(), "bottlenecks": bottlenecks_and_attention()}


@pytest.mark.parametrize("name", ["fashion", "bottlenecks"])
def test_exact_gives_the_same_bits(name):
    """Breaks if a sum is cut by the number of threads, or by which of them comes first."""
    model = networks()[name]
    results, x = set(), None
    for threads in (1, 2, 3):
        compiled = tensmith.compile(model, threads=threads, precision="exact", shapes={"batch": 5} if name == "fashion" else None)
        assert compiled.threads == threads
        if x is None:
            shape = [int(dim) for dim in compiled.inputs[0]["dims"]]
            x = numpy.random.default_rng(9).standard_normal(shape).astype("float32")
        for _ in range(RUNS):
            y = numpy.asarray(compiled.run(x)[0])
            assert numpy.isfinite(y).all() and numpy.abs(y).max() > 0
            results.add(y.tobytes())
    assert len(results) == 1
