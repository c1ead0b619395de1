"""Ranks that only shape arithmetic or a loop tells, as PyTorch's exporters write meshgrid, index_put and EmbeddingBag, against the
standard's own evaluator; function bodies of f64; batch normalisation that trains, as opsets before 14 have it.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper
from onnx.reference import ReferenceEvaluator

tensmith = pytest.importorskip("tensmith")

node, port = helper.make_node, helper.make_tensor_value_info
FORMS = [{}, {"fuse": False}, {"reference": True}]


def proto(nodes, inputs, outputs, constants=(), opset=17):
    graph = helper.make_graph(nodes, "g", [port(*i) for i in inputs], [port(name, kind, None) for name, kind in outputs],
                              [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def agrees(model, feeds, want=None, **form):
    want = ReferenceEvaluator(model).run(None, feeds) if want is None else want
    got = tensmith.compile(model.SerializeToString(), **form).run(**feeds)
    for one, expected in zip(got, want, strict=True):
        assert np.shape(one) == np.shape(expected)
        np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-5)


def growing(trips, body_nodes, after, carried="c", result="d", initial="x", rank=0):
    """A loop whose carried value changes its rank, and what is done with it."""
    body = helper.make_graph([*body_nodes, node("Identity", ["k"], ["ko"])], "b", [port("i", T.INT64, []), port("k", T.BOOL, []), port(carried, T.FLOAT, None)],
                             [port("ko", T.BOOL, []), port(result, T.FLOAT, None)])  # fmt: skip
    constants = {"zero": np.array([0]), "last": np.array([-1]), "trips": np.array(trips), "yes": np.array(True)}
    return proto([node("Loop", ["trips", "yes", initial], ["z"], body=body), *after], [("x", T.FLOAT, ["N"] * rank if rank else [])], [("y", T.FLOAT)], constants)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_dimension_more_in_each_iteration(trips, form):
    unsqueeze = [node("Unsqueeze", ["c", "zero"], ["d"])]
    for after in ([node("Mul", ["z", "z"], ["y"])], [node("ReduceSum", ["z"], ["y"], keepdims=1)], [node("Softmax", ["z"], ["y"], axis=-1)],
                  [node("Unsqueeze", ["z", "last"], ["y"])], [node("Concat", ["z", "z"], ["y"], axis=-1)]):  # fmt: skip
        model = growing(trips, unsqueeze, after, rank=1)
        agrees(model, {"x": np.arange(3, dtype=np.float32)}, **form)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_dimension_less_in_each_iteration(form):
    body = [node("ReduceMax", ["c"], ["d"], axes=[0], keepdims=0)]
    for trips in (0, 1, 2):
        agrees(growing(trips, body, [node("Flatten", ["z"], ["y"], axis=0)], rank=3), {"x": np.random.default_rng(0).standard_normal((2, 2, 2)).astype(np.float32)}, **form)


def test_a_scalar_that_becomes_a_vector():
    """What an accumulator begins with: one number, and a list from the first iteration on."""
    body = [node("Reshape", ["c", "last"], ["v"]), node("Concat", ["v", "v"], ["d"], axis=0)]
    for trips in (1, 2, 3):
        model = growing(trips, body, [node("Transpose", ["z"], ["y"])])
        agrees(model, {"x": np.float32(2)})


def test_a_rank_that_nothing_takes():
    """A product by weights of one rank takes no other: the run says so."""
    body = [node("Unsqueeze", ["c", "zero"], ["d"])]
    after = [node("Conv", ["z", "w"], ["y"])]
    model = growing(2, body, after, rank=1)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 1, 2), np.float32), "w"))
    agrees(model, {"x": np.arange(4, dtype=np.float32)})
    for tensor in model.graph.initializer:
        if tensor.name == "trips":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(1), "trips"))
    with pytest.raises(tensmith.Error):
        tensmith.compile(model.SerializeToString()).run(np.arange(4, dtype=np.float32))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_meshgrid(form):
    nodes = [node("Reshape", ["a", "minus"], ["ra"]), node("Reshape", ["b", "minus"], ["rb"]), node("Shape", ["ra"], ["sa"]), node("Shape", ["rb"], ["sb"]),
             node("Concat", ["sa", "sb"], ["whole"], axis=0), node("Concat", ["sa", "one"], ["ta"], axis=0), node("Concat", ["one", "sb"], ["tb"], axis=0),
             node("Reshape", ["ra", "ta"], ["ca"]), node("Reshape", ["rb", "tb"], ["cb"]), node("Expand", ["ca", "whole"], ["x"]), node("Expand", ["cb", "whole"], ["y"])]  # fmt: skip
    model = proto(nodes, [("a", T.FLOAT, ["N"]), ("b", T.FLOAT, ["M"])], [("x", T.FLOAT), ("y", T.FLOAT)], {"minus": np.array([-1]), "one": np.array([1])})
    compiled = tensmith.compile(model.SerializeToString(), **form)
    for n, m in ((2, 3), (1, 4), (5, 5), (1, 1)):
        a, b = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32)
        for got, want in zip(compiled.run(a, b), np.meshgrid(a, b, indexing="ij"), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate, form):
    """x[i, j] = v, where the indices broadcast and values are expanded to what they select."""
    nodes = [node("Add", ["i", "j"], ["both"]), node("Shape", ["both"], ["bs"]), node("Expand", ["i", "bs"], ["ei"]), node("Expand", ["j", "bs"], ["ej"]),
             node("Unsqueeze", ["ei", "last"], ["ui"]), node("Unsqueeze", ["ej", "last"], ["uj"]), node("Concat", ["ui", "uj"], ["index"], axis=-1),
             node("Shape", ["x"], ["xs"]), node("Slice", ["xs", "two", "end", "zero"], ["rest"]), node("Concat", ["bs", "rest"], ["vs"], axis=0),
             node("Expand", ["v", "vs"], ["ev"]), node("Reshape", ["ev", "vs"], ["rv"])]  # fmt: skip
    if accumulate:
        nodes += [node("ConstantOfShape", ["xs"], ["zeros"]), node("ScatterND", ["zeros", "index", "rv"], ["put"], reduction="add"), node("Add", ["x", "put"], ["y"])]
    else:
        nodes += [node("ScatterND", ["x", "index", "rv"], ["y"])]
    constants = {"last": np.array([-1]), "two": np.array([2]), "end": np.array([np.iinfo(np.int64).max]), "zero": np.array([0])}
    model = proto(nodes, [("x", T.FLOAT, ["N", "M", "K"]), ("i", T.INT64, ["A", 1]), ("j", T.INT64, ["B"]), ("v", T.FLOAT, [])], [("y", T.FLOAT)], constants, 16)
    compiled = tensmith.compile(model.SerializeToString(), **form)
    for shape, i, j in (((4, 5, 2), [[0], [3]], [1, 4]), ((2, 2, 3), [[1]], [0, 1]), ((3, 3, 1), [[0], [1], [2]], [2])):
        x, v = np.random.default_rng(0).standard_normal(shape).astype(np.float32), np.float32(7)
        i, j = np.array(i), np.array(j)
        want = x.copy()
        want[i, j] = want[i, j] + v if accumulate else v
        np.testing.assert_allclose(compiled(x, i, j, v), want, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("reduce", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_embedding_bag(reduce, form):
    """A loop over the bags, each a slice of the indices between two offsets."""
    body = [
        node("Unsqueeze", ["i", "zero"], ["iu"]), node("Gather", ["starts", "iu"], ["s"], axis=0), node("Gather", ["ends", "iu"], ["e"], axis=0),
        node("Slice", ["indices", "s", "e", "zero"], ["row"]), node("Gather", ["table", "row"], ["rows"], axis=0),
        node(reduce, ["rows", "zero"] if reduce == "ReduceSum" else ["rows"], ["bag"], keepdims=0, **({} if reduce == "ReduceSum" else {"axes": [0]})),
        node("Identity", ["k"], ["ko"]),
    ]  # fmt: skip
    loop = helper.make_graph(body, "bags", [port("i", T.INT64, []), port("k", T.BOOL, [])], [port("ko", T.BOOL, []), port("bag", T.FLOAT, None)])
    nodes = [node("Shape", ["indices"], ["n"]), node("Concat", ["offsets", "n"], ["all"], axis=0), node("Slice", ["all", "zero", "minus", "zero"], ["starts"]),
             node("Slice", ["all", "one", "end", "zero"], ["ends"]), node("Shape", ["offsets"], ["count"]), node("Squeeze", ["count", "zero"], ["trips"]),
             node("Loop", ["trips", ""], ["y"], body=loop)]  # fmt: skip
    constants = {"zero": np.array([0]), "one": np.array([1]), "minus": np.array([-1]), "end": np.array([np.iinfo(np.int64).max])}
    model = proto(nodes, [("table", T.FLOAT, ["V", "D"]), ("indices", T.INT64, ["N"]), ("offsets", T.INT64, ["B"])], [("y", T.FLOAT)], constants, 13)
    compiled = tensmith.compile(model.SerializeToString(), **form)
    table = np.random.default_rng(1).standard_normal((9, 4)).astype(np.float32)
    of = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max}[reduce]
    for indices, offsets in (([1, 2, 4, 5, 4, 3], [0, 2]), ([8], [0]), ([0, 1, 2, 3], [0, 1, 2, 3])):
        bags = np.split(table[indices], offsets[1:])
        np.testing.assert_allclose(compiled(table, np.array(indices), np.array(offsets)), [of(bag, axis=0) for bag in bags], rtol=1e-5)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_squeeze_of_whatever_is_one(form):
    """The rank follows from the size, and so what comes after it."""
    for after in ([node("ReduceSum", ["s"], ["y"], keepdims=0)], [node("Softmax", ["s"], ["y"], axis=0)], [node("Neg", ["s"], ["y"])]):
        model = proto([node("Squeeze", ["x"], ["s"]), *after], [("x", T.FLOAT, ["N", 1, "M"])], [("y", T.FLOAT)])
        for shape in ((2, 1, 3), (1, 1, 3), (3, 1, 1)):
            agrees(model, {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}, **form)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("opset", [9, 13])
def test_a_function_of_the_standard_in_other_precisions(opset, kind):
    """Its numbers are written in f32."""
    model = proto([node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 2])], [("x", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), ["N", 3, "M"])], [("y", helper.np_dtype_to_tensor_dtype(np.dtype(kind)))], opset=opset)
    x = np.random.default_rng(0).standard_normal((2, 3, 5)) * 3 + 1
    wide = x.astype(kind).astype(np.float64)
    want = (wide - wide.mean((0, 2), keepdims=True)) / (wide.std((0, 2), keepdims=True) + np.float64(np.float32(1e-9)))
    got = tensmith.compile(model.SerializeToString())(x.astype(kind))
    assert got.dtype == kind
    np.testing.assert_allclose(got, want, rtol={2: 2e-2, 4: 1e-4, 8: 1e-12}[got.dtype.itemsize], atol={2: 2e-2, 4: 1e-5, 8: 1e-12}[got.dtype.itemsize])


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("opset", [6, 7, 9, 14, 15])
def test_batch_normalisation_that_trains(opset, form):
    """Before opset 14 it is the results that tell: statistics are given by the form that trains alone."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4, 3, 5)).astype(np.float32) * 2 + 1
    scale, bias, mean, var = (rng.uniform(0.5, 2, 3).astype(np.float32) for _ in range(4))
    outputs = ["y", "rm", "rv"] if opset >= 14 else ["y", "rm", "rv", "sm", "sv"]
    given = {"training_mode": 1} if opset >= 14 else {}
    model = proto([node("BatchNormalization", ["x", "s", "b", "m", "v"], outputs, momentum=0.8, epsilon=1e-3, **given)], [("x", T.FLOAT, ["N", 3, "L"])],
                  [(name, T.FLOAT) for name in outputs], {"s": scale, "b": bias, "m": mean, "v": var}, opset)  # fmt: skip
    now, spread = x.mean((0, 2)), x.var((0, 2))
    y = (x - now[:, None]) / np.sqrt(spread[:, None] + 1e-3) * scale[:, None] + bias[:, None]
    want = [y, mean * 0.8 + now * 0.2, var * 0.8 + spread * 0.2, now, spread]
    agrees(model, {"x": x}, want[: len(outputs)], **form)
    alone = proto([node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=1e-3)], [("x", T.FLOAT, ["N", 3, "L"])], [("y", T.FLOAT)],
                  {"s": scale, "b": bias, "m": mean, "v": var}, opset)  # fmt: skip
    agrees(alone, {"x": x}, [(x - mean[:, None]) / np.sqrt(var[:, None] + 1e-3) * scale[:, None] + bias[:, None]], **form)


@pytest.mark.parametrize("equation,shapes", [("i->ii", [[4]]), ("ij->ji i", [[2, 3]]), ("...i->i", [[2, 3]]), ("i->j", [[3]]), ("i1->i", [[2, 2]])])
def test_einsums_that_are_none(equation, shapes):
    """Refused when the model is read, in open sizes as well."""
    for dims in (shapes, [[f"d{k}" for k in range(len(shape))] for shape in shapes]):
        model = proto([node("Einsum", ["x"], ["y"], equation=equation)], [("x", T.FLOAT, dims[0])], [("y", T.FLOAT)])
        with pytest.raises(tensmith.Error):
            tensmith.compile(model.SerializeToString())


def test_tiles_as_opset_one_has_them():
    """A number of tiles and an axis, both of them data."""
    model = proto([node("Tile", ["x", "n", "a"], ["y"])], [("x", T.FLOAT, [2, 3]), ("n", T.INT64, []), ("a", T.INT64, [])], [("y", T.FLOAT)], opset=1)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    compiled = tensmith.compile(model.SerializeToString())
    np.testing.assert_array_equal(compiled(x, np.array(3), np.array(1)), np.tile(x, (1, 3)))
    np.testing.assert_array_equal(compiled(x, np.array(2), np.array(0)), np.tile(x, (2, 1)))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
def test_reductions_over_any_number_of_axes(form, keepdims, noop):
    """How many axes there are is data, too."""
    inputs = [("x", T.FLOAT, ["N", "M", 2]), ("a", T.INT64, ["K"])]
    model = proto([node("ReduceSum", ["x", "a"], ["y"], keepdims=keepdims, noop_with_empty_axes=noop)], inputs, [("y", T.FLOAT)], opset=13)
    compiled = tensmith.compile(model.SerializeToString(), **form)
    x = np.random.default_rng(0).standard_normal((3, 4, 2)).astype(np.float32)
    for axes in ([0], [1, -1], [2, 0, 1], []):
        want = x if noop and not axes else x.sum(tuple(axes) if axes else None, keepdims=bool(keepdims))
        got = compiled(x, np.array(axes, np.int64))
        assert np.shape(got) == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
