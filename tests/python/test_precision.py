"""The precision policy: what `fast` may compute otherwise, and that `exact` does not."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

tensmith = pytest.importorskip("tensmith")


def convolution(images, channels, outputs, height, width, taps, pads):
    """A convolution with bias and Relu, and its input."""
    rng = numpy.random.default_rng(channels * 31 + height)
    w = (rng.standard_normal((outputs, channels, taps, taps)) / numpy.sqrt(channels * taps * taps)).astype(numpy.float32)
    b = rng.standard_normal(outputs).astype(numpy.float32)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=pads), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(
        nodes, "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [images if images else "n", channels, height, width])],
        [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = rng.standard_normal((images or 2, channels, height, width)).astype(numpy.float32)
    return model, x



@pytest.mark.parametrize("images,channels,outputs,height,width,taps,pads", [
    (1, 64, 64, 33, 30, 3, [1, 1, 1, 1]),
    (3, 40, 72, 19, 23, 3, [0, 1, 2, 0]),
    (0, 64, 64, 16, 17, 3, [1, 1, 1, 1]),
    (1, 64, 48, 24, 25, 5, [2, 2, 2, 2]),
    (1, 64, 64, 20, 20, 2, [0, 0, 1, 1]),
])
def test_convolutions_agree_with_either_policy(images, channels, outputs, height, width, taps, pads):
    model, x = convolution(images, channels, outputs, height, width, taps, pads)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})[0]
    for policy in ("fast", "exact"):
        compiled = tensmith.compile(model.SerializeToString(), threads=2, precision=policy)
        takes_fewer_products = any("winograd" in kernel["label"] for kernel in compiled.describe()["kernels"])
        assert takes_fewer_products == (policy == "fast")
        y = numpy.asarray(compiled.run(x)[0])
        assert numpy.abs(y - wanted).max() <= 2e-5 * numpy.abs(wanted).max(), policy


def test_an_unknown_policy_is_refused():
    model, _ = convolution(1, 4, 4, 8, 8, 3, [1, 1, 1, 1])
    with pytest.raises(ValueError, match="precision"):
        tensmith.compile(model.SerializeToString(), precision="rough")
