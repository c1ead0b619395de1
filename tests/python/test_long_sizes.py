"""Sizes that multiply out to more than a computer holds: of 40 sums, and of 30 squares of one another.

Breaks when a product of sizes is multiplied out, when a size is written down as often as it is used, or when a size that has become
too long for an expression is not what the run makes of it."""

import numpy as np
import pytest

import tensmith as ts

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def compiled(nodes, inputs, constants):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs]
    stored = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], stored)
    return ts.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(), threads=1)


def of_shape(name, to):
    return [helper.make_node("Shape", [name], [f"{to}_all"]), helper.make_node("Gather", [f"{to}_all", "first"], [to], axis=0)]


def test_a_size_that_is_a_product_of_forty_sums():
    """Of (n0 + 1) * (n1 + 1) * ...: x, repeated so often."""
    inputs = [(f"x{i}", [f"n{i}"]) for i in range(40)]
    nodes, last = [], "one"
    for name, _ in inputs:
        nodes += of_shape(name, f"{name}_size")
        nodes += [helper.make_node("Add", [f"{name}_size", "one"], [f"{name}_more"]), helper.make_node("Mul", [last, f"{name}_more"], [f"{name}_product"])]
        last = f"{name}_product"
    nodes += [helper.make_node("Expand", ["value", last], ["wide"]), helper.make_node("Mul", ["wide", "wide"], ["y"])]
    model = compiled(nodes, inputs, {"first": np.array([0]), "one": np.array([1]), "value": np.array([3], np.float32)})
    sizes = np.zeros(40, int)
    for large in ({}, {0: 1, 39: 2}, {5: 3, 6: 3, 7: 1}):
        sizes[:] = 0
        for place, size in large.items():
            sizes[place] = size
        y = model(*[np.zeros(size, np.float32) for size in sizes])
        np.testing.assert_array_equal(y, np.full(int(np.prod(sizes + 1)), 9, np.float32))


def test_a_size_that_is_squared_thirty_times():
    nodes, last = of_shape("x", "size"), "size"
    for i in range(30):
        nodes.append(helper.make_node("Mul", [last, last], [f"square{i}"]))
        last = f"square{i}"
    nodes += [helper.make_node("Expand", ["value", last], ["wide"]), helper.make_node("Mul", ["wide", "wide"], ["y"])]
    model = compiled(nodes, [("x", ["n"])], {"first": np.array([0]), "value": np.array([3], np.float32)})
    for size in (0, 1):
        np.testing.assert_array_equal(model(np.zeros(size, np.float32)), np.full(size, 9, np.float32))


def test_an_image_that_is_reshaped_by_sums():
    """Doubled and padded in each of twelve dimensions, and flattened: (2 * a0 + 1) * (2 * a1 + 1) * ... elements."""
    dims = 12
    nodes = [helper.make_node("Concat", ["a", "a"], ["j0"], axis=0)]
    for i in range(1, dims):
        nodes.append(helper.make_node("Concat", [f"j{i - 1}", f"j{i - 1}"], [f"j{i}"], axis=i))
    nodes += [helper.make_node("Pad", [f"j{dims - 1}", "pads"], ["padded"]), helper.make_node("Reshape", ["padded", "flat"], ["rows"]),
              helper.make_node("Relu", ["rows"], ["y"])]  # fmt: skip
    model = compiled(nodes, [("a", [f"a{i}" for i in range(dims)])], {"pads": np.array([0] * dims + [1] * dims), "flat": np.array([-1])})
    a = np.random.default_rng(0).standard_normal([1] * dims).astype(np.float32)
    expected = np.maximum(np.pad(np.broadcast_to(a, [2] * dims), [(0, 1)] * dims), 0)
    np.testing.assert_array_equal(model(a), expected.ravel())
