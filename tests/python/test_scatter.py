"""ScatterElements of rows and of elements, which have kernels, against the reference evaluation and ONNX Runtime."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

tensmith = pytest.importorskip("tensmith")
onnxruntime = pytest.importorskip("onnxruntime")

REDUCTIONS = ["none", "add", "mul", "min", "max"]
TYPES = [numpy.float32, numpy.float64, numpy.int32, numpy.int64]


def model_of(dtype, index, shapes, expand, reduction, axis=0):
    """The indices as they are, or expanded to the shape of the updates."""
    nodes = [helper.make_node("Shape", ["u"], ["s"]), helper.make_node("Expand", ["i", "s"], ["wide"])] if expand else []
    nodes.append(helper.make_node("ScatterElements", ["x", "wide" if expand else "i", "u"], ["y"], axis=axis, reduction=reduction))
    kinds = [helper.np_dtype_to_tensor_dtype(numpy.dtype(each)) for each in (dtype, index, dtype)]
    ports = [helper.make_tensor_value_info(*port) for port in zip("xiu", kinds, shapes)]
    graph = helper.make_graph(nodes, "scatter", ports, [helper.make_tensor_value_info("y", kinds[0], None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def agree(model, runs):
    """With one and two threads, bit by bit; gives back whether the kernel of rows does it."""
    compiled = [tensmith.compile(model, threads=threads) for threads in (1, 2)]
    reference, theirs = tensmith.compile(model, reference=True), onnxruntime.InferenceSession(model)
    for feeds in runs:
        got, same = (each.run(*feeds.values())[0] for each in compiled)
        assert got.tobytes() == same.tobytes()
        for want in (reference.run(*feeds.values())[0], theirs.run(None, feeds)[0]):
            assert got.shape == want.shape and got.dtype == want.dtype
            numpy.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return any(kernel.get("schedule") == "scatter" for kernel in compiled[0].describe()["kernels"])


def data(draw, dtype, *shape):
    x = draw.integers(-3, 4, shape)
    return x.astype(dtype) + (draw.random(shape).astype(dtype) if numpy.dtype(dtype).kind == "f" else dtype(0))


@pytest.mark.parametrize("dtype,index", [*((each, numpy.int64) for each in TYPES), (numpy.float32, numpy.int32)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_rows(dtype, index, reduction):
    """Breaks where indices that are expanded are not known as those of rows: then no kernel is made."""
    draw = numpy.random.default_rng(0)
    model = model_of(dtype, index, [["n", 5], ["e", 1], ["e", 5]], True, reduction)
    runs = []
    for rows, updates in [(1, 1), (7, 40), (100, 33), (3, 0)]:
        # Without a reduction, rows that are named twice are of either update in ONNX Runtime.
        places = draw.permutation(rows)[:updates] if reduction == "none" else draw.integers(-rows, rows, updates)
        x, u = data(draw, dtype, rows, 5), data(draw, dtype, len(places), 5)
        runs.append({"x": x, "i": places.astype(index)[:, None], "u": u})
    assert agree(model, runs)


def test_the_last_update_stays():
    model = model_of(numpy.float32, numpy.int64, [["n", 2], ["e", 1], ["e", 2]], True, "none")
    x, u = numpy.zeros((3, 2), numpy.float32), numpy.arange(8, dtype=numpy.float32).reshape(4, 2)
    for threads in (1, 2):
        y = tensmith.compile(model, threads=threads)(x, numpy.array([[1], [2], [1], [2]]), u)
        assert y.tolist() == [[0, 0], [4, 5], [6, 7]]


@pytest.mark.parametrize("reduction", ["min", "max"])
def test_nan_stays(reduction):
    model = model_of(numpy.float32, numpy.int64, [["n", 1], ["e", 1], ["e", 1]], True, reduction)
    x, u = numpy.array([[numpy.nan], [1], [2]], numpy.float32), numpy.array([[1], [numpy.nan], [1], [0]], numpy.float32)
    for reference in (False, True):
        y = tensmith.compile(model, reference=reference)(x, numpy.array([[0], [1], [1], [2]]), u)
        assert numpy.isnan(y).ravel().tolist() == [True, True, False]


@pytest.mark.parametrize("dtype,index", [*((each, numpy.int64) for each in (*TYPES, numpy.uint8)), (numpy.float32, numpy.int32)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements(dtype, index, reduction, axis):
    """Breaks where an update goes to another's place, or parts of a dimension are taken for the whole."""
    draw = numpy.random.default_rng(axis + 1)
    model = model_of(dtype, index, [["a", "b", "c"], ["d", "e", "f"], ["d", "e", "f"]], False, reduction, axis)
    runs = []
    for shape, updates in [((4, 3, 5), (2, 3, 4)), ((4, 3, 5), (4, 3, 5)), ((1, 1, 1), (1, 1, 1)), ((3, 9, 150), (3, 9, 150)), ((70, 80, 2), (70, 1, 2)),
                           ((2, 3, 4), (2, 0, 4))]:
        places = numpy.argsort(draw.random(shape), axis)[tuple(map(slice, updates))]
        places -= draw.integers(0, 2, updates) * shape[axis]  # from the end
        x, u = data(draw, dtype, *shape), data(draw, dtype, *updates)
        runs.append({"x": x, "i": places.astype(index), "u": u})
    assert agree(model, runs) == (dtype != numpy.uint8)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reduction", REDUCTIONS[1:])
def test_elements_that_meet(reduction, axis):
    """More updates than x has elements along the axis, in their order."""
    draw = numpy.random.default_rng(2)
    updates = [6, 200]
    updates[axis] = 700
    model = model_of(numpy.float32, numpy.int64, [["a", "b"], ["c", "d"], ["c", "d"]], False, reduction, axis)
    x, u = data(draw, numpy.float32, 6, 200), data(draw, numpy.float32, *updates)
    assert agree(model, [{"x": x, "i": draw.integers(0, x.shape[axis], updates), "u": numpy.clip(u, 0.9, 1.1)}])


def test_elements_over_one_another():
    """The second may be written over the first one's result, which is not copied then."""
    shapes, nodes = [["a", "b"], ["c", "d"], ["c", "d"]], []
    for x, y, axis in [("x", "first", 0), ("first", "y", 1)]:
        nodes.append(helper.make_node("ScatterElements", [x, "i", "u"], [y], axis=axis, reduction="add"))
    kinds = [TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT]
    ports = [helper.make_tensor_value_info(*port) for port in zip("xiu", kinds, shapes)]
    graph = helper.make_graph(nodes, "scatter", ports, [helper.make_tensor_value_info("y", kinds[0], None)])
    draw = numpy.random.default_rng(3)
    feeds = {"x": data(draw, numpy.float32, 40, 50), "i": draw.integers(0, 40, (30, 50)), "u": data(draw, numpy.float32, 30, 50)}
    assert agree(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString(), [feeds])


@pytest.mark.parametrize("axis", [0, 1])
def test_elements_that_are_not_there(axis):
    compiled = tensmith.compile(model_of(numpy.float32, numpy.int64, [["a", "b"], ["c", "d"], ["c", "d"]], False, "add", axis))
    places = numpy.zeros((2, 2), numpy.int64)
    for place in (3, -4):
        places[1, 1] = place
        with pytest.raises(tensmith.Error, match=f"scatter_elements: operand 'indices' holds {place}, outside of the dimension"):
            compiled(numpy.zeros((3, 3), numpy.float32), places, numpy.ones((2, 2), numpy.float32))


def test_rows_that_are_not_there():
    model = model_of(numpy.float32, numpy.int64, [["n", 2], ["e", 1], ["e", 2]], True, "max")
    compiled = tensmith.compile(model)
    for place in (3, -4):
        with pytest.raises(tensmith.Error, match=f"scatter_nd: operand 'indices' holds {place}, outside"):
            compiled(numpy.zeros((3, 2), numpy.float32), numpy.array([[0], [place]]), numpy.zeros((2, 2), numpy.float32))


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND"])
def test_what_is_selected_is_there(op):
    """The index is told as it was given, as the reference tells it."""
    attributes = {} if op == "GatherND" else {"axis": 1}
    nodes = [helper.make_node(op, ["x", "i"], ["y"], **attributes)]
    ports = [helper.make_tensor_value_info("x", 1, ["a", "b"]), helper.make_tensor_value_info("i", 7, ["k", 2])]
    graph = helper.make_graph(nodes, "gather", ports, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    for each in (tensmith.compile(model), tensmith.compile(model, reference=True)):
        for place in (3, -4):
            with pytest.raises(tensmith.Error, match=f"operand 'indices' holds {place}, outside of the dimension"):
                each.run(numpy.zeros((2, 3), numpy.float32), numpy.array([[0, 1], [0, place]]))


def test_parts_of_rows():
    """Updates narrower than x are no rows of it, but elements."""
    model = model_of(numpy.float32, numpy.int64, [["n", 5], ["e", 1], ["e", 3]], True, "add")
    draw = numpy.random.default_rng(1)
    assert agree(model, [{"x": data(draw, numpy.float32, 6, 5), "i": draw.integers(0, 6, (9, 1)), "u": data(draw, numpy.float32, 9, 3)}])


@pytest.mark.parametrize("rows", [False, True])
def test_nothing_to_change(rows):
    """Breaks where indices into a dimension of no elements are not refused, whose kernel has nothing to compute."""
    model = model_of(numpy.float32, numpy.int64, [["n", 3], ["e", 1 if rows else 3], ["e", 3]], rows, "add")
    x = numpy.zeros((0, 3), numpy.float32)
    for each in (tensmith.compile(model), tensmith.compile(model, reference=True)):
        assert each.run(x, numpy.zeros((0, 1 if rows else 3), numpy.int64), x)[0].shape == (0, 3)
        with pytest.raises(tensmith.Error):
            each.run(x, numpy.zeros((2, 1 if rows else 3), numpy.int64), numpy.zeros((2, 3), numpy.float32))
