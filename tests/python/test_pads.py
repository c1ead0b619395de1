"""Padding by counts of both signs, in every mode and form: a dimension is cropped first, and the mode continues what is left.

What would break these: a form that continues the whole dimension, or counts that are read from the wrong side.
"""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

tensmith = pytest.importorskip("tensmith")

MODES = ["constant", "edge", "reflect", "wrap"]


def padded(x, low, high, mode):
    """By NumPy, dimension after dimension; None where there is nothing to continue."""
    shape = [size + a + b for size, a, b in zip(x.shape, low, high, strict=True)]
    if min(shape) == 0:
        return np.zeros(shape, x.dtype)
    for axis, (a, b) in enumerate(zip(low, high, strict=True)):
        size = x.shape[axis]
        if size + a + b < 0:
            return None
        begin, end = max(-a, 0), size - max(-b, 0)
        if end < begin:  # one side pads what the other one takes away
            begin = end = 0
            a, b = size + a + b, 0
        kept = x[(slice(None),) * axis + (slice(begin, end),)]
        a, b = max(a, 0), max(b, 0)
        if mode != "constant" and kept.shape[axis] == 0 and a + b > 0:
            return None
        width = [(0, 0)] * x.ndim
        width[axis] = (a, b)
        x = np.pad(kept, width, mode=mode) if a or b else kept
    return x


def model(mode, shape, opset, pads=None, axes=None):
    """Pads are a constant where they are given, else an input."""
    inputs = [helper.make_tensor_value_info("x", T.FLOAT, shape)]
    constants = {}
    if pads is None:
        count = len(axes) if axes is not None else len(shape)
        inputs.append(helper.make_tensor_value_info("p", T.INT64, [2 * count]))
    else:
        constants["p"] = np.array(pads, np.int64)
    names = ["x", "p"]
    if axes is not None:
        constants["axes"] = np.array(axes, np.int64)
        names += ["", "axes"]
    node = helper.make_node("Pad", names, ["y"], mode=mode)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", T.FLOAT, None)], [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


FORMS = [{}, {"fuse": False}, {"reference": True}]
COUNTS = [(-1, 1), (1, -1), (-2, 3), (2, -2), (-1, -1), (3, 0), (0, -3), (-4, 4), (4, -3), (6, 7)]


def agrees(compiled, x, low, high, mode, *more):
    want = padded(x, low, high, mode)
    if want is None:
        with pytest.raises(tensmith.Error):
            compiled(x, *more)
        return
    np.testing.assert_array_equal(compiled(x, *more), want)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_known_sizes(mode, form):
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    for (a, b), (c, d) in itertools.product(COUNTS, [(0, 0), (-1, 2), (2, -1)]):
        if padded(x, (a, c), (b, d), mode) is not None:
            agrees(tensmith.compile(model(mode, [5, 4], 19, [a, c, b, d]), **form), x, (a, c), (b, d), mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_open_sizes(mode, form):
    """A size that leaves nothing to continue is refused by the run."""
    for (a, b), (c, d) in itertools.product(COUNTS, [(0, 0), (-1, 2)]):
        compiled = tensmith.compile(model(mode, ["N", "M"], 19, [a, c, b, d]), **form)
        for shape in ((1, 3), (2, 2), (3, 1), (5, 4), (8, 2)):
            x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            if min(size + low + high for size, low, high in zip(shape, (a, c), (b, d))) >= 0:
                agrees(compiled, x, (a, c), (b, d), mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("shape", [[5, 4], ["N", "M"]], ids=str)
def test_counts_that_are_data(mode, form, shape):
    compiled = tensmith.compile(model(mode, shape, 19), **form)
    partial = tensmith.compile(model(mode, shape, 19, axes=[-1]), **form)
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    for (a, b), (c, d) in itertools.product(COUNTS, [(0, 0), (-1, 2), (-5, 1)]):
        agrees(compiled, x, (a, c), (b, d), mode, np.array([a, c, b, d]))
        agrees(partial, x, (0, a), (0, b), mode, np.array([a, b]))


@pytest.mark.parametrize("mode", MODES)
def test_counts_computed_from_sizes(mode):
    """To a multiple of four behind, and one element less in front: compiled, with a size that is known before the run."""
    inputs = [helper.make_tensor_value_info("x", T.FLOAT, ["N", 3])]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1), helper.make_node("Neg", ["s"], ["n"]), helper.make_node("Mod", ["n", "four"], ["more"]),
        helper.make_node("Concat", ["first", "more", "zero"], ["p"], axis=0), helper.make_node("Pad", ["x", "p"], ["y"], mode=mode),
    ]  # fmt: skip
    constants = {"four": np.array([4]), "first": np.array([-1, 0]), "zero": np.array([0])}
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", T.FLOAT, None)], [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()])
    compiled = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9).SerializeToString())
    for n in range(2, 10):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        np.testing.assert_array_equal(compiled(x), padded(x, (-1, 0), (-n % 4, 0), mode))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("opset", [2, 11, 13, 18, 19])
def test_opsets(mode, opset):
    if mode == "wrap" and opset < 19:
        pytest.skip("later than the opset")
    x = np.arange(6, dtype=np.float32)
    if opset < 11:
        node = helper.make_node("Pad", ["x"], ["y"], mode=mode, pads=[-1, 2])
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", T.FLOAT, ["N"])], [helper.make_tensor_value_info("y", T.FLOAT, None)])
        text = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()
    else:
        text = model(mode, ["N"], opset, [-1, 2])
    np.testing.assert_array_equal(tensmith.compile(text)(x), padded(x, [-1], [2], mode))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [[6], ["N"]], ids=str)
def test_gradient(mode, shape, form):
    """Each element gets what its copies weigh."""
    pad = helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)
    nodes = [pad, helper.make_node("Mul", ["y", "w"], ["m"]), helper.make_node("ReduceSum", ["m"], ["s"], keepdims=0)]
    w = np.arange(1, 8, dtype=np.float32) ** 2
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, shape)], [helper.make_tensor_value_info("s", T.FLOAT, [])],
                              [onnx.numpy_helper.from_array(np.array([-2, 3]), "p"), onnx.numpy_helper.from_array(w, "w")])  # fmt: skip
    text = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9).SerializeToString()
    _, got = tensmith.grad(text, wrt=["x"], of="s", **form)(np.arange(6, dtype=np.float32))
    places = padded(np.arange(6), [-2], [3], mode) if mode != "constant" else np.array([2, 3, 4, 5, 6, 6, 6])
    want = np.bincount(places, weights=w, minlength=7)[:6]
    np.testing.assert_allclose(got, want)


# Breaks if nothing is known of sizes that are turned: exporters write pads dimension by dimension, the last first, and turn them.
@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_counts_as_exporters_turn_them(mode):
    """To multiples of 4, at the ends of the last two dimensions."""
    node = helper.make_node
    constants = {"four": 4, "zeros": [0] * 4, "zero": [0], "pairs": [-1, 2], "back": [-1], "first": [-(2**63) + 1], "flat": [-1]}
    nodes = [node("Shape", ["x"], ["h"], start=2, end=3), node("Shape", ["x"], ["w"], start=3, end=4)]
    for size in "hw":
        nodes += [node("Mod", [size, "four"], [f"{size}0"]), node("Sub", ["four", f"{size}0"], [f"{size}1"]), node("Mod", [f"{size}1", "four"], [f"{size}2"])]
    nodes += [node("Concat", ["zero", "w2", "zero", "h2", "zeros"], ["all"], axis=0), node("Reshape", ["all", "pairs"], ["p"]),
              node("Slice", ["p", "back", "first", "zero", "back"], ["q"]), node("Transpose", ["q"], ["r"], perm=[1, 0]),
              node("Reshape", ["r", "flat"], ["s"]), node("Pad", ["x", "s"], ["y"], mode=mode)]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, ["b", "c", "h", "w"])], [helper.make_tensor_value_info("y", T.FLOAT, None)],
                              [onnx.numpy_helper.from_array(np.array(v, np.int64), k) for k, v in constants.items()])  # fmt: skip
    compiled = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString())
    routines = [step["label"] for function in compiled.describe()["functions"] for step in function["instructions"] if step["opcode"] == "routine"]
    assert set(routines) <= {"shape"}
    for h, w in ((5, 6), (8, 4), (7, 9)):
        x = np.arange(2 * h * w, dtype=np.float32).reshape(1, 2, h, w)
        np.testing.assert_array_equal(compiled.run(x)[0], np.pad(x, ((0, 0), (0, 0), (0, -h % 4), (0, -w % 4)), mode=mode))
