"""Ranks and sizes that only a run can tell, as exporters of dynamic programs leave them: compared with onnxruntime.

An If whose branches differ in rank (x.squeeze() of a dimension that may be 1), shape arithmetic that constants lead to, and
sizes that become known in the middle of a run.
"""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")
tensmith = pytest.importorskip("tensmith")

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
port, node = helper.make_tensor_value_info, helper.make_node


def constant(name, values):
    return numpy_helper.from_array(numpy.array(values, dtype=numpy.int64), name)


def model(inputs, outputs, nodes, initializers=(), functions=()):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions)).SerializeToString()


def branch(nodes, *outputs):
    return helper.make_graph(nodes, "branch", [], [port(name, F32, None) for name in outputs])


def squeezed(x, y, axis=-1, prefix=""):
    """y = x.squeeze(axis), as an exporter that doesn't know x's shape writes it."""
    p = prefix + y
    return [
        node("Constant", [], [p + "one"], value_int=1),
        node("Constant", [], [p + "axis"], value_int=axis),
        node("Constant", [], [p + "axes"], value_ints=[axis]),
        node("Shape", [x], [p + "shape"]),
        node("Gather", [p + "shape", p + "axis"], [p + "size"]),
        node("Equal", [p + "size", p + "one"], [p + "is_one"]),
        node(
            "If", [p + "is_one"], [y], p + "if",
            then_branch=branch([node("Squeeze", [x, p + "axes"], [p + "then"])], p + "then"),
            else_branch=branch([node("Identity", [x], [p + "else"])], p + "else"),
        ),
    ]  # fmt: skip


def same(data, feeds, fails=None):
    """As onnxruntime computes it; or as it fails, with a message of ours."""
    session = onnxruntime.InferenceSession(data)
    ours = tensmith.compile(data, threads=1)
    if fails:
        with pytest.raises(Exception):
            session.run(None, feeds)
        with pytest.raises(tensmith.Error, match=fails):
            ours.run(**feeds)
        return ours
    for expected, got in zip(session.run(None, feeds), ours.run(**feeds), strict=True):
        assert got.shape == expected.shape
        numpy.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    return ours


def random(*shape):
    return numpy.random.default_rng(1).standard_normal(shape, dtype=numpy.float32)


X, Y = port("x", F32, ["n", "c", "t"]), port("y", F32, None)
SHAPES = [(2, 3, 1), (2, 3, 4), (1, 1, 1)]


# Both branches can go on: their results have different ranks.
@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_after_a_squeeze_that_may_be(shape):
    data = model([X], [Y], [*squeezed("x", "s"), node("Transpose", ["s"], ["r"]), node("Softmax", ["r"], ["y"], axis=0)])
    same(data, {"x": random(*shape)})


# What does not depend on the If stays outside, and is there for both.
@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_between(shape):
    nodes = [
        *squeezed("x", "s"), node("ReduceSum", ["x"], ["all"], keepdims=0), node("Relu", ["x"], ["y"]),
        node("Transpose", ["s"], ["r"]), node("Mul", ["r", "all"], ["z"]),
    ]  # fmt: skip
    same(model([X], [Y, port("z", F32, None), port("s", F32, None)], nodes), {"x": random(*shape)})


WEIGHTS = numpy_helper.from_array(random(3, 5), "w")


@pytest.mark.parametrize("shape, fails", [((2, 3, 1), None), ((2, 3, 4), "numbers of elements differ: 24 and 6")])
def test_nodes_that_only_one_branch_suits(shape, fails):
    data = model([X], [Y], [*squeezed("x", "s"), node("Gemm", ["s", "w"], ["y"], "gemm")], [WEIGHTS])
    ours = same(data, {"x": random(*shape)}, fails=fails)
    steps = [step["opcode"] for function in ours.describe()["functions"] for step in function["instructions"]]
    assert "if" not in steps and "kernel" in steps


# Whatever the branch that suits would give: where the condition says that it is the other's turn, the run fails.
@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("swapped", [True, False])
def test_the_branch_that_suits_is_not_taken_for_the_other(flag, swapped):
    branches = [branch([node("ReduceMax", ["x"], ["m"], axes=[2], keepdims=0)], "m"), branch([node("Neg", ["x"], ["e"])], "e")]
    yes, no = branches[::-1] if swapped else branches
    nodes = [node("If", ["flag"], ["s"], "either", then_branch=yes, else_branch=no), node("Gemm", ["s", "w"], ["y"], "gemm")]
    fails = None if flag != swapped else f"either .If. is given {str(flag).lower()}, .*gemm"
    same(model([X, port("flag", BOOL, [])], [Y], nodes, [WEIGHTS]), {"x": random(2, 3, 4), "flag": numpy.array(flag)}, fails)


@pytest.mark.parametrize("shape", [(2, 1, 1), (2, 1, 4), (2, 3, 1), (2, 3, 4)])
def test_one_after_the_other(shape):
    nodes = [*squeezed("x", "s"), *squeezed("s", "q", axis=1), node("Transpose", ["q"], ["y"])]
    same(model([X], [Y], nodes), {"x": random(*shape)})


@pytest.mark.parametrize("shape", [(2, 1, 1), (2, 1, 4), (2, 3, 1), (2, 3, 4)])
def test_two_that_meet(shape):
    nodes = [*squeezed("x", "s"), *squeezed("x", "q", axis=1), node("Transpose", ["s"], ["st"]), node("Transpose", ["q"], ["qt"]),
             node("ReduceMax", ["st"], ["a"], keepdims=0), node("ReduceMin", ["qt"], ["b"], keepdims=0),
             node("Add", ["qt", "a"], ["c"]), node("Mul", ["c", "b"], ["y"])]  # fmt: skip
    same(model([X], [Y, port("st", F32, None)], nodes), {"x": random(*shape)})


@pytest.mark.parametrize("shape", SHAPES)
def test_one_within_the_other(shape):
    inner = branch([*squeezed("x", "s", prefix="a"), node("Neg", ["s"], ["no"])], "no")
    plain = branch([*squeezed("x", "inner", prefix="b")], "inner")
    nodes = [node("If", ["flag"], ["k"], then_branch=inner, else_branch=plain), node("Transpose", ["k"], ["y"])]
    data = model([X, port("flag", BOOL, [])], [Y], nodes)
    for flag in (True, False):
        same(data, {"x": random(*shape), "flag": numpy.array(flag)})


@pytest.mark.parametrize("shape", SHAPES)
def test_in_a_function(shape):
    function = helper.make_function(
        "local", "SqueezedAndTurned", ["x"], ["y"], [*squeezed("x", "s"), node("Transpose", ["s"], ["y"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    data = model([X], [Y], [node("SqueezedAndTurned", ["x"], ["f"], domain="local"), node("Relu", ["f"], ["y"])], (), [function])
    same(data, {"x": random(*shape)})


# More of them than are followed: the rank is unknown after the last, and operators that do without it go on.
def test_many():
    nodes, at = [], "x"
    for i in range(9):
        nodes += [*squeezed(at, f"s{i}", prefix=str(i)), node("Unsqueeze", [f"s{i}", "last"], [f"u{i}"]), node("Relu", [f"u{i}"], [f"r{i}"])]
        at = f"r{i}"
    data = model([X], [Y], [*nodes, node("Neg", [at], ["y"])], [constant("last", [-1])])
    try:
        same(data, {"x": random(2, 3, 1)})
    except tensmith.Error as error:
        assert "has no known rank" in str(error)


# Pads as PyTorch exports them: computed from constants, by operators that no shape inference follows.
def test_pads_that_constants_lead_to():
    nodes = [
        node("ConstantOfShape", ["two"], ["zeros"], value=helper.make_tensor("v", I64, [1], [0])),
        node("Concat", ["pads", "zeros"], ["all"], axis=0),
        node("Reshape", ["all", "pairs"], ["table"]),
        node("Slice", ["table", "minus", "least", "zero", "minus"], ["turned"]),
        node("Transpose", ["turned"], ["columns"], perm=[1, 0]),
        node("Reshape", ["columns", "minus"], ["flat"]),
        node("Cast", ["flat"], ["whole"], to=I64),
        node("Pad", ["x", "whole"], ["y"], mode="reflect"),
    ]
    constants = [constant("two", [2]), constant("pads", [1, 2]), constant("pairs", [-1, 2]), constant("minus", [-1]),
                 constant("least", [-(2**63) + 1]), constant("zero", [0])]  # fmt: skip
    ours = same(model([port("x", F32, ["n", 6])], [Y], nodes, constants), {"x": random(3, 6)})
    assert ours.outputs[0]["dims"] == ["n", "9"]


# An LSTM's state is seen under the batch's size, which a routine gives in the middle of the run; it lies in the arena,
# whose layout is made at its beginning.
def test_a_view_of_a_size_that_is_known_late():
    hidden = 4
    weights = [numpy_helper.from_array(random(1, 4 * hidden, width), name) for name, width in (("W", 3), ("R", hidden))]
    nodes = [
        node("Pad", ["x", "p"], ["padded"]), node("Unsqueeze", ["padded", "first"], ["sequence"]),
        node("Relu", ["h"], ["h0"]), node("Neg", ["h"], ["c0"]),
        node("LSTM", ["sequence", "W", "R", "", "", "h0", "c0"], ["", "y", ""], hidden_size=hidden),
    ]  # fmt: skip
    inputs = [port("x", F32, ["n", 3]), port("p", I64, [4]), port("h", F32, [1, 1, hidden])]
    data = model(inputs, [Y], nodes, [*weights, constant("first", [0])])
    feeds = {"x": random(1, 3), "p": numpy.int64([0, 0, 0, 0]), "h": random(1, 1, hidden)}
    same(data, feeds)
