"""Sizes that only the computation tells: their memory is planned by what the shape functions say they are at most.

Each model is compiled once and run in one session with many shapes, and with data at both ends (nothing is chosen, everything
is), against onnxruntime.
"""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")
tensmith = pytest.importorskip("tensmith")

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
port, node = helper.make_tensor_value_info, helper.make_node


def integers(name, *values):
    return numpy_helper.from_array(numpy.array(values, dtype=numpy.int64), name)


def model(inputs, outputs, nodes, *initializers):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def matrix(generator, n, m, share):
    """Of ten elements `share` are not zero; some of them are equal."""
    values = generator.integers(1, 5, (n, m)).astype(numpy.float32)
    return numpy.where(generator.random((n, m)) * 10 < share, values, numpy.float32(0))


# Elements that are not zero, gathered: what depends on a bounded size is bounded with it.
def nonzero():
    data = model(
        [port("x", F32, ["n", "m"])], [port("y", F32, [None]), port("rows", F32, [None, "m"])],
        [node("NonZero", ["x"], ["i"]), node("Transpose", ["i"], ["t"], perm=[1, 0]), node("GatherND", ["x", "t"], ["g"]),
         node("Exp", ["g"], ["e"]), node("Mul", ["e", "g"], ["y"]),
         node("Gather", ["i", "zero"], ["r"], axis=0), node("Gather", ["x", "r"], ["w"], axis=0), node("Tanh", ["w"], ["rows"])],
        numpy_helper.from_array(numpy.array(0, numpy.int64), "zero"))  # fmt: skip
    return data, lambda g, n, m, share: {"x": matrix(g, n, m, share)}, 1


def compress():
    data = model(
        [port("x", F32, ["n", "m"]), port("c", BOOL, ["n"])], [port("y", F32, [None, 1])],
        [node("Compress", ["x", "c"], ["k"], axis=0), node("Relu", ["k"], ["p"]), node("ReduceSum", ["p", "axes"], ["y"])],
        integers("axes", 1))  # fmt: skip
    return data, lambda g, n, m, share: {"x": matrix(g, n, m, 10), "c": g.random(n) * 10 < share}, 1


def topk():
    data = model(
        [port("x", F32, ["n", "m"]), port("k", I64, [1])], [port("y", F32, ["n", None]), port("at", I64, ["n", None])],
        [node("TopK", ["x", "k"], ["v", "i"], axis=1), node("Exp", ["v"], ["y"]), node("Add", ["i", "one"], ["at"])],
        integers("one", 1))  # fmt: skip

    def feeds(g, n, m, share):
        x = g.permutation(n * m).reshape(n, m).astype(numpy.float32)
        return {"x": x / 7, "k": numpy.array([m * share // 10], numpy.int64)}

    return data, feeds, 2


def unique():
    data = model(
        [port("x", F32, ["n", "m"])], [port("y", F32, [None]), port("c", I64, [None]), port("i", I64, [None])],
        [node("Unique", ["x"], ["u", "", "v", "w"]), node("Exp", ["u"], ["y"]), node("Neg", ["w"], ["c"]), node("Neg", ["v"], ["i"])],
    )  # fmt: skip
    return data, lambda g, n, m, share: {"x": matrix(g, n, m, share)}, 2


def boxes():
    data = model(
        [port("boxes", F32, [1, "n", 4]), port("scores", F32, [1, 2, "n"]), port("most", I64, [1])], [port("y", I64, [None, 3])],
        [node("NonMaxSuppression", ["boxes", "scores", "most"], ["s"]), node("Add", ["s", "s"], ["y"])])  # fmt: skip

    def feeds(g, n, m, share):
        corners = 3 * numpy.arange(n, dtype=numpy.float32)[:, None] + numpy.array([0, 0, 1, 1], numpy.float32)
        scores = (g.permutation(2 * n).reshape(1, 2, n) + 1).astype(numpy.float32)
        return {"boxes": corners[None], "scores": scores, "most": numpy.array([n * share // 10], numpy.int64)}

    return data, feeds, 1


def sliced():
    data = model(
        [port("x", F32, ["n", "m"]), port("from", I64, [1]), port("to", I64, [1])], [port("y", F32, [None, "m"])],
        [node("Slice", ["x", "from", "to", "axes"], ["s"]), node("Exp", ["s"], ["e"]), node("Sub", ["e", "s"], ["y"])],
        integers("axes", 0))  # fmt: skip

    def feeds(g, n, m, share):
        ends = numpy.sort(g.integers(0, n + 1, 2)) if share < 10 else numpy.array([0, n])
        return {"x": matrix(g, n, m, 9), "from": ends[:1].astype(numpy.int64), "to": ends[1:].astype(numpy.int64)}

    return data, feeds, 1


@pytest.mark.parametrize("make", [nonzero, compress, topk, unique, boxes, sliced])
def test_any_shape_and_data_in_one_session(make):
    data, feeds, planned = make()
    generator = numpy.random.default_rng(5)
    theirs = onnxruntime.InferenceSession(data)
    ours = tensmith.compile(data, threads=1)
    values = [value for step in ours.describe()["functions"][0]["instructions"] for value in step["results"]]
    assert sum("bytes_at_most" in value for value in values) >= planned
    for run in range(40):
        n, m = (int(v) for v in generator.integers(1, 24, 2))
        if run == 7 and make is nonzero:
            n = 0
        share = 0 if run % 5 == 0 and make is not topk and make is not boxes else 10 if run % 5 == 1 else run % 10 + 1
        given = feeds(generator, n, m, share)
        for expected, got in zip(theirs.run(None, given), ours.run(**given), strict=True):
            assert got.shape == expected.shape
            numpy.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)


# Two bounded results, one after the other, lie in the same memory.
def test_bounded_values_share_memory_with_others():
    chain = []
    for i in range(6):
        source = f"x{i}"
        chain += [node("NonZero", [source], [f"i{i}"]), node("Transpose", [f"i{i}"], [f"t{i}"], perm=[1, 0]),
                  node("GatherND", [source, f"t{i}"], [f"x{i + 1}"])]  # fmt: skip
    data = model([port("x0", F32, ["n"])], [port("y", F32, [None])], [*chain, node("Neg", ["x6"], ["y"])])
    ours = tensmith.compile(data, threads=1)
    main = ours.describe()["functions"][0]
    assert main["allocations"] == 1 and main["tensors"] >= 12
    x = numpy.array([0, 1, 0, 2, 3, 0], numpy.float32)
    (y,) = ours.run(x0=x)
    numpy.testing.assert_array_equal(y, [-1, -2, -3])


def check(data, *runs):
    """Against onnxruntime, in one session; the bounded values."""
    theirs = onnxruntime.InferenceSession(data)
    ours = tensmith.compile(data, threads=1)
    for given in runs:
        for expected, got in zip(theirs.run(None, given), ours.run(**given), strict=True):
            assert got.shape == expected.shape
            numpy.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    functions = ours.describe()["functions"]
    values = [value for function in functions for step in function["instructions"] for value in step["results"]]
    bounds = [value["bytes_at_most"] for value in values if "bytes_at_most" in value]
    assert 0 not in bounds
    return bounds


# "All of them", as exporters write it, is no number to multiply by.
@pytest.mark.parametrize("most", [2**63 - 1, 2**62, 2**56, 100, 3])
def test_boxes_up_to_any_limit(most):
    data = model(
        [port("boxes", F32, ["b", "n", 4]), port("scores", F32, ["b", 80, "n"])], [port("y", I64, [None, 3])],
        [node("NonMaxSuppression", ["boxes", "scores", "most"], ["s"]), node("Add", ["s", "s"], ["y"])],
        integers("most", most))  # fmt: skip
    generator = numpy.random.default_rng(2)
    runs = []
    for n in (5, 40, 1):
        corners = 3 * numpy.arange(n, dtype=numpy.float32)[:, None] + numpy.array([0, 0, 1, 1], numpy.float32)
        scores = (generator.permutation(160 * n).reshape(2, 80, n) + 1).astype(numpy.float32)
        runs.append({"boxes": numpy.stack([corners, corners]), "scores": scores})
    assert len(check(data, *runs)) == 1


# A limit that is there because there has to be one says nothing of how often a loop runs that stops by itself.
@pytest.mark.parametrize("limit, planned", [(2**61, 0), (2**31 - 1, 0), (10_000_000, 0), (6, 1)])
def test_loops_that_stop_before_their_limit(limit, planned):
    body = helper.make_graph(
        [node("Less", ["i", "end"], ["again"]), node("Mul", ["x", "x"], ["row"])], "body",
        [port("i", I64, []), port("c", BOOL, [])], [port("again", BOOL, []), port("row", F32, ["n", 1200])])  # fmt: skip
    data = model(
        [port("x", F32, ["n", 1200]), port("end", I64, [])], [port("y", F32, [None])],
        [node("Loop", ["limit", "go"], ["rows"], body=body), node("Neg", ["rows"], ["e"]), node("Unique", ["e"], ["y"])],
        numpy_helper.from_array(numpy.array(limit, numpy.int64), "limit"), numpy_helper.from_array(numpy.array(True), "go"))  # fmt: skip
    x = numpy.random.default_rng(3).random((2, 1200), numpy.float32)
    runs = [{"x": x, "end": numpy.array(end, numpy.int64)} for end in (3, 0, 2)]
    assert len(check(data, *runs)) == planned


def chosen(element, *shape):
    return model(
        [port("x", element, shape)], [port("y", I64, [len(shape)])],
        [node("NonZero", ["x"], ["i"]), node("Transpose", ["i"], ["t"], perm=[1, 0]), node("ReduceSum", ["t", "axes"], ["y"], keepdims=0)],
        integers("axes", 0))  # fmt: skip


def one_of(dtype, *shape):
    x = numpy.zeros(shape, dtype)
    x[tuple(size // 2 for size in shape)] = 1
    return {"x": x}


# Positions take more bytes than the booleans that they are of, and of many numbers more than is worth to set aside for few.
@pytest.mark.parametrize("element, dtype", [(BOOL, bool), (F32, numpy.float32)])
def test_one_of_many_elements(element, dtype):
    assert check(chosen(element, 16, 1024, 1024), one_of(dtype, 16, 1024, 1024)) == []


# Where only the run tells that it is too much, what kernels compute has memory of its own in that run alone.
def test_one_of_few_or_many_elements():
    data = model(
        [port("x", F32, ["a", "b", "c"])], [port("y", I64, [None])],
        [node("NonZero", ["x"], ["i"]), node("Transpose", ["i"], ["t"], perm=[1, 0]), node("Unique", ["t"], ["y"])])  # fmt: skip
    small = [one_of(numpy.float32, 3, 4, 5), one_of(numpy.float32, 7, 2, 2)]
    large = one_of(numpy.float32, 13, 512, 1024)
    assert len(check(data, small[0], large, small[1], large, small[0])) == 5
