"""STFT of real signals without the dimension of parts, as torch.stft is exported, whether their rank is known or not."""

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

STEP, LENGTH = 5, 20


@pytest.mark.parametrize("rank", [2, 3, None])
def test_short_transforms(rank):
    """Fails where a signal has to have three dimensions."""
    nodes = [helper.make_node("STFT", ["x", "step", "window", "length"], ["y"], onesided=1)]
    dims, inputs = ([1, "n"] + [1] * (rank - 2) if rank else ["m"]), []
    if rank is None:
        nodes = [helper.make_node("Reshape", ["flat", "shape"], ["x"]), *nodes]
        inputs = [helper.make_tensor_value_info("shape", TensorProto.INT64, ["r"])]
    inputs = [helper.make_tensor_value_info("x" if rank else "flat", TensorProto.FLOAT, dims), *inputs]
    window = numpy.hanning(LENGTH + 1)[:LENGTH].astype("float32")
    stored = [numpy_helper.from_array(numpy.array(STEP), "step"), numpy_helper.from_array(window, "window"), numpy_helper.from_array(numpy.array(LENGTH), "length")]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], stored)
    compiled = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8).SerializeToString())
    for size in (20, 83, 400):
        x = numpy.random.default_rng(size).standard_normal((1, size)).astype("float32")
        frames = numpy.stack([x[:, at : at + LENGTH] * window for at in range(0, size - LENGTH + 1, STEP)], 1)
        expected = numpy.fft.rfft(frames)
        given = [x[..., None]] if rank == 3 else [x] if rank else [x[0], numpy.array([1, size])]
        found = numpy.asarray(compiled(*given))
        numpy.testing.assert_allclose(found, numpy.stack([expected.real, expected.imag], -1), rtol=1e-4, atol=1e-4)
