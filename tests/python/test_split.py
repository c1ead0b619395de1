"""Splitting a dimension whose size only the run tells: evenly, by sizes that are known, computed from sizes, or data."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

tensmith = pytest.importorskip("tensmith")


def split_model(nodes, shape, parts, opset, extra=(), constants=()):
    inputs = [helper.make_tensor_value_info("x", T.FLOAT, shape), *[helper.make_tensor_value_info(*port) for port in extra]]
    outputs = [helper.make_tensor_value_info(name, T.FLOAT, None) for name in parts]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


FORMS = [{}, {"reference": True}, {"fuse": False}]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_even_parts(parts, axis, form):
    names = [f"y{i}" for i in range(parts)]
    compiled = tensmith.compile(split_model([helper.make_node("Split", ["x"], names, axis=axis, num_outputs=parts)], ["N", "M", "K"], names, 18), **form)
    for size in range(2, 12):
        if (parts - 1) * -(-size // parts) > size:
            continue  # the standard says nothing of it
        shape = [2, 3, 4]
        shape[axis] = size
        x = np.random.default_rng(size).standard_normal(shape).astype(np.float32)
        each = -(-size // parts)
        want = np.split(x, [each * i for i in range(1, parts)], axis)
        for got, expected in zip(compiled.run(x), want, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_even_parts_of_too_few_are_refused():
    """Four parts of two have six elements before the last."""
    names = ["a", "b", "c", "d"]
    compiled = tensmith.compile(split_model([helper.make_node("Split", ["x"], names, axis=0, num_outputs=4)], ["N"], names, 18))
    with pytest.raises(tensmith.Error):
        compiled.run(np.zeros(5, np.float32))


@pytest.mark.parametrize("opset", [2, 11, 13])
def test_known_parts(opset):
    """Of an open dimension, which a run must have."""
    given = {"split": [2, 3]} if opset < 13 else {}
    node = helper.make_node("Split", ["x"] if given else ["x", "s"], ["a", "b"], axis=1, **given)
    compiled = tensmith.compile(split_model([node], ["N", "M"], ["a", "b"], opset, constants={} if given else {"s": np.array([2, 3])}))
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    a, b = compiled.run(x)
    np.testing.assert_array_equal(a, x[:, :2])
    np.testing.assert_array_equal(b, x[:, 2:])
    for wrong in (4, 6):
        with pytest.raises(tensmith.Error):
            compiled.run(np.zeros((2, wrong), np.float32))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_parts_by_data(form):
    node = helper.make_node("Split", ["x", "s"], ["a", "b", "c"], axis=0)
    compiled = tensmith.compile(split_model([node], ["N", 2], ["a", "b", "c"], 13, extra=[("s", T.INT64, [3])]), **form)
    x = np.arange(14, dtype=np.float32).reshape(7, 2)
    for sizes in ([2, 2, 3], [0, 7, 0], [7, 0, 0], [1, 1, 5]):
        for got, want in zip(compiled.run(x, np.array(sizes)), np.split(x, np.cumsum(sizes)[:-1]), strict=True):
            np.testing.assert_array_equal(got, want)
    for wrong in ([2, 2, 2], [4, 4, 4]):
        with pytest.raises(tensmith.Error, match="dimension of 7 into parts that add up to"):
            compiled.run(x, np.array(wrong))


# Breaks if the parts are slices, which are clamped: a part of -1 elements begins before the one behind it.
@pytest.mark.parametrize("wrong", [[-1, 4, 4], [4, 4, -1], [-7, 7, 7]], ids=str)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_no_part_is_negative(form, wrong):
    node = helper.make_node("Split", ["x", "s"], ["a", "b", "c"], axis=0)
    for extra, constants in (([("s", T.INT64, [3])], {}), ([], {"s": np.array(wrong)})):
        with pytest.raises(tensmith.Error, match="negative|size -"):
            compiled = tensmith.compile(split_model([node], ["N", 2], ["a", "b", "c"], 13, extra=extra, constants=constants), **form)
            compiled.run(np.zeros((7, 2), np.float32), *([np.array(wrong)] if extra else []))


# Breaks if the sum of the parts is seen by the number of elements, which is none.
@pytest.mark.parametrize("given", ["known", "by data"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_parts_of_no_elements_add_up(form, given):
    node = helper.make_node("Split", ["x", "s"], ["a", "b"], axis=0)
    extra, constants = ([("s", T.INT64, [2])], {}) if given == "by data" else ([], {"s": np.array([3, 4])})
    compiled = tensmith.compile(split_model([node], ["N", "M"], ["a", "b"], 13, extra=extra, constants=constants), **form)
    sizes = [np.array([3, 4])] if extra else []
    assert [part.shape for part in compiled.run(np.zeros((7, 0), np.float32), *sizes)] == [(3, 0), (4, 0)]
    for wrong in (0, 6, 8):
        with pytest.raises(tensmith.Error, match=f"dimension of {wrong} into parts that add up to 7"):
            compiled.run(np.zeros((wrong, 0), np.float32), *sizes)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_parts_by_sizes(form):
    """A part as long as another input, and the rest."""
    nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Shape", ["z"], ["k"]), helper.make_node("Sub", ["n", "k"], ["rest"]),
             helper.make_node("Concat", ["k", "rest"], ["s"], axis=0), helper.make_node("Split", ["x", "s"], ["a", "b"], axis=0)]  # fmt: skip
    compiled = tensmith.compile(split_model(nodes, ["N"], ["a", "b"], 13, extra=[("z", T.FLOAT, ["K"])]), **form)
    for n, k in ((5, 2), (5, 0), (5, 5), (1, 1)):
        x = np.arange(n, dtype=np.float32)
        a, b = compiled.run(x, np.zeros(k, np.float32))
        np.testing.assert_array_equal(a, x[:k])
        np.testing.assert_array_equal(b, x[k:])
    with pytest.raises(tensmith.Error):
        compiled.run(np.zeros(3, np.float32), np.zeros(4, np.float32))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("read", [["a", "b"], ["b"]], ids=["both parts", "the last part"])
def test_no_computed_part_is_negative(form, read):
    # Breaks if parts that add up to the dimension by themselves are checked no more, or only where they are read.
    nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Shape", ["z"], ["k"]), helper.make_node("Sub", ["k", "five"], ["first"]),
             helper.make_node("Sub", ["n", "first"], ["rest"]), helper.make_node("Concat", ["first", "rest"], ["s"], axis=0),
             helper.make_node("Split", ["x", "s"], ["a", "b"], axis=0)]  # fmt: skip
    model = split_model(nodes, ["N"], read, 13, extra=[("z", T.FLOAT, ["K"])], constants={"five": np.array([5])})
    compiled = tensmith.compile(model, **form)
    x = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(compiled.run(x, np.zeros(7, np.float32))[-1], x[2:])
    with pytest.raises(tensmith.Error, match="-2|negative|elements"):
        compiled.run(x, np.zeros(3, np.float32))


def test_gradient():
    nodes = [helper.make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2), helper.make_node("ReduceSum", ["a"], ["p"], keepdims=0),
             helper.make_node("Mul", ["b", "b"], ["c"]), helper.make_node("ReduceSum", ["c"], ["q"], keepdims=0), helper.make_node("Add", ["p", "q"], ["y"])]  # fmt: skip
    compiled = tensmith.grad(split_model(nodes, ["N"], ["y"], 18), wrt=["x"], of="y")
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(compiled(x)[1], [1, 1, 1, 6, 8])
