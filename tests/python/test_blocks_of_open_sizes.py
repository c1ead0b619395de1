"""Codes in blocks along an axis whose size the run tells: what a quotient says of what it divides (SizeFacts), with each access checked.

Breaks where three blocks of 4 are not found to be at most 12 elements: the model isn't compiled then."""

import numpy
import pytest

onnx = pytest.importorskip("onnx")
tensmith = pytest.importorskip("tensmith")
from onnx import TensorProto, helper  # noqa: E402

COLUMNS = 5


@pytest.fixture(autouse=True)
def checked_bounds(monkeypatch):
    monkeypatch.setenv("TENSMITH_CHECK_BOUNDS", "1")


def model(kind, axis, block, blocks, has_zero):
    """Of [n, 5] or [5, n], with as many blocks as a number or a name says."""
    along = lambda size: [size, COLUMNS] if axis == 0 else [COLUMNS, size]
    of, to = (TensorProto.INT8, TensorProto.FLOAT) if kind == "DequantizeLinear" else (TensorProto.FLOAT, TensorProto.INT8)
    inputs = [helper.make_tensor_value_info("x", of, along("n")), helper.make_tensor_value_info("scale", TensorProto.FLOAT, along(blocks))]
    if has_zero:
        inputs.append(helper.make_tensor_value_info("zero", TensorProto.INT8, along(blocks)))
    extra = {"output_dtype": to} if kind == "QuantizeLinear" and not has_zero else {}
    node = helper.make_node(kind, [value.name for value in inputs], ["y"], name="node", axis=axis, block_size=block, **extra)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", to, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


def drawn(kind, axis, size, blocks, seed):
    random = numpy.random.default_rng(seed)
    along = lambda size: (size, COLUMNS) if axis == 0 else (COLUMNS, size)
    x = random.integers(-9, 9, along(size)).astype("int8")
    scale = 2.0 ** random.integers(-2, 3, along(blocks)).astype("float32")
    zero = random.integers(-5, 5, along(blocks)).astype("int8")
    return (x if kind == "DequantizeLinear" else x.astype("float32") / 2), scale, zero


def expected(kind, x, scale, zero, axis, block):
    whole = lambda values: numpy.take(numpy.repeat(values, block, axis), range(x.shape[axis]), axis).astype("float32")
    if kind == "DequantizeLinear":
        return (x - whole(zero)) * whole(scale)
    return numpy.clip(numpy.rint(x / whole(scale)) + whole(zero), -128, 127).astype("int8")


@pytest.mark.parametrize("has_zero", [False, True])
@pytest.mark.parametrize("axis, block, blocks", [(0, 3, 1), (1, 4, 3), (0, 2, 5), (1, 32, 2), (0, 1, 4), (1, 3, "m")])
@pytest.mark.parametrize("kind", ["DequantizeLinear", "QuantizeLinear"])
def test_sizes_that_the_blocks_reach(kind, axis, block, blocks, has_zero):
    compiled = tensmith.compile(model(kind, axis, block, blocks, has_zero), threads=1)
    for count in (1, 2, 4) if blocks == "m" else (blocks,):
        for size in range(block * count + 2):
            x, scale, zero = drawn(kind, axis, size, count, size)
            operands = (x, scale, zero) if has_zero else (x, scale)
            if -(-size // block) == count:
                want = expected(kind, x, scale, zero if has_zero else 0 * zero, axis, block)
                numpy.testing.assert_array_equal(numpy.asarray(compiled.run(*operands)[0]), want, err_msg=f"{size} in {count} blocks")
            else:
                with pytest.raises(tensmith.Error, match=r"'node \(.*the numbers of scales and blocks differ"):
                    compiled.run(*operands)
