"""Derivatives through sequences, optionals, loops and integers: a value that is right, or an error that names the node.

The oracle are differences of the reference evaluation. What a test would show to be broken is a gradient of zeros because
nobody knows the rule of an operator on the way."""

import numpy
import pytest

onnx = pytest.importorskip("onnx")
tensmith = pytest.importorskip("tensmith")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

N = helper.make_node
SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


def model(nodes, inputs, constants=(), opset=18):
    """Of the nodes' value `b`, whatever its shape, the sum of squares."""
    nodes = nodes + [N("Mul", ["b", "b"], ["squares"]), N("Reshape", ["squares", "flat"], ["vector"]), N("ReduceSum", ["vector"], ["y"], keepdims=0)]
    values = {"flat": numpy.array([-1]), **dict(constants)}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(numpy.asarray(v), k) for k, v in values.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


def slope(text, arrays, direction):
    """Of y along the direction of x, by the reference evaluation."""
    module, step = tensmith.compile(text, reference=True), 1e-3
    at = lambda s: float(numpy.asarray(module.run(**{**arrays, "x": arrays["x"] + numpy.float32(s) * direction})[0]))
    return (at(step) - at(-step)) / (2 * step)


def check(nodes, arrays, constants=(), opset=18, sizes=(4, 3)):
    """Gradient and tangent, of an input of known and of open size."""
    for shape in (list(sizes), ["N", *sizes[1:]]):
        kinds = {"x": (TensorProto.FLOAT, shape)}
        for name, array in arrays.items():
            kinds.setdefault(name, (helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape)))
        text = model(nodes, [(n, *k) for n, k in kinds.items()], constants, opset)
        direction = numpy.random.default_rng(3).standard_normal(sizes).astype("float32")
        expected = slope(text, arrays, direction)
        assert abs(expected) > 0.05, "the test says nothing"
        gradient = numpy.asarray(tensmith.grad(text, wrt=["x"], of="y").run(**arrays)[1])
        assert numpy.sum(gradient * direction) == pytest.approx(expected, rel=1e-2, abs=1e-2)
        tangent = tensmith.jvp(text, wrt=["x"], of=["y"]).run(**arrays, **{"tangent.x": direction})[-1]
        assert float(numpy.asarray(tangent)) == pytest.approx(expected, rel=1e-2, abs=1e-2)


def drawn(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32")


ONE, TWO, LAST = numpy.array(1), numpy.array(2), numpy.array(-1)
PARTS = numpy.array([1, 2, 1])


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("position", [1, -1])
def test_an_element_of_what_is_split(position, keepdims):
    check([N("SplitToSequence", ["x"], ["q"], axis=0, keepdims=keepdims), N("SequenceAt", ["q", "i"], ["b"])],
          {"x": drawn(4, 3)}, {"i": numpy.array(position)})


def test_an_element_whose_position_is_data():
    check([N("SplitToSequence", ["x"], ["q"], axis=0), N("SequenceAt", ["q", "i"], ["b"])], {"x": drawn(4, 3), "i": TWO})


EDITED = [N("SplitToSequence", ["x", "parts"], ["q"], axis=0), N("SequenceErase", ["q", "i"], ["r"]), N("SequenceAt", ["q", "j"], ["e"]),
          N("SequenceInsert", ["r", "e", "k"], ["t"]), N("ConcatFromSequence", ["t"], ["b"], axis=0)]  # fmt: skip


def test_sequences_that_are_known():
    check(EDITED, {"x": drawn(4, 3)}, {"parts": PARTS, "i": numpy.array(0), "j": TWO, "k": LAST})


def test_sequences_that_are_data():
    """Breaks if a sequence isn't seen to depend on what is split into it."""
    check(EDITED, {"x": drawn(4, 3), "parts": PARTS, "i": numpy.array(0), "j": TWO, "k": LAST})


def test_a_new_axis():
    check([N("SplitToSequence", ["x"], ["q"], axis=0, keepdims=0), N("ConcatFromSequence", ["q"], ["m"], axis=1, new_axis=1), N("Mul", ["m", "w"], ["b"])],
          {"x": drawn(4, 3), "w": drawn(3, 4, seed=1)})


@pytest.mark.parametrize("position", [0, -1])
def test_one_of_two_that_is_chosen_by_data(position):
    check([N("Sin", ["x"], ["s"]), N("SequenceConstruct", ["x", "s"], ["q"]), N("SequenceAt", ["q", "i"], ["b"])],
          {"x": drawn(4, 3), "i": numpy.array(position)})


def test_optionals():
    check([N("Optional", ["x"], ["o"]), N("OptionalGetElement", ["o"], ["b"])], {"x": drawn(4, 3)})


def test_a_sequence_from_a_branch():
    first = helper.make_graph([N("SequenceConstruct", ["x", "x"], ["s1"])], "t", [], [helper.make_value_info("s1", SEQUENCE)])
    second = helper.make_graph([N("Sin", ["x"], ["sx"]), N("SequenceConstruct", ["sx", "x"], ["s2"])], "e", [], [helper.make_value_info("s2", SEQUENCE)])
    nodes = [N("If", ["c"], ["q"], then_branch=first, else_branch=second), N("SequenceAt", ["q", "i"], ["b0"]), N("Reshape", ["b0", "flat"], ["b"])]
    for c in (True, False):
        check(nodes, {"x": drawn(4, 3), "c": numpy.array(c)}, {"i": numpy.array(0)})


@pytest.mark.parametrize("is_data", [False, True])
def test_a_loop_that_lets_a_sequence_grow(is_data):
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [N("Identity", ["go"], ["on"]), N("Sin", ["v"], ["w"]), N("SequenceInsert", ["s", "v"], ["t"])], "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [4, 3]), helper.make_value_info("s", SEQUENCE)],
        [info("on", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, [4, 3]), helper.make_value_info("t", SEQUENCE)])  # fmt: skip
    nodes = [N("SequenceEmpty", [], ["none"]), N("Loop", ["trips", "", "x", "none"], ["last", "all"], body=body),
             N("ConcatFromSequence", ["all"], ["b0"], axis=0), N("Reshape", ["b0", "flat"], ["b"])]  # fmt: skip
    trips = {"trips": numpy.array(3)}
    check(nodes, {"x": drawn(4, 3), **(trips if is_data else {})}, {} if is_data else trips)


def test_a_function_of_each_element():
    body = helper.make_graph([N("Mul", ["e", "e"], ["f"])], "body", [helper.make_tensor_value_info("e", TensorProto.FLOAT, [1, 3])],
                             [helper.make_tensor_value_info("f", TensorProto.FLOAT, [1, 3])])  # fmt: skip
    check([N("SplitToSequence", ["x"], ["q"], axis=0), N("SequenceMap", ["q"], ["r"], body=body),
           N("ConcatFromSequence", ["r"], ["b0"], axis=0), N("Reshape", ["b0", "flat"], ["b"])], {"x": drawn(4, 3)})  # fmt: skip


def test_steps_have_the_derivative_zero():
    """Numbers that only jump: beside them, what they multiply has its own derivative."""
    check([N("Cast", ["x"], ["k"], to=TensorProto.INT32), N("Cast", ["k"], ["f"], to=TensorProto.FLOAT), N("Add", ["f", "x"], ["b"])], {"x": drawn(4, 3)})


REFUSED = {
    "QuantizeLinear": [N("QuantizeLinear", ["x", "s", "z"], ["k"], name="here"), N("DequantizeLinear", ["k", "s", "z"], ["b"])],
    "DynamicQuantizeLinear": [N("DynamicQuantizeLinear", ["x"], ["k", "ks", "kz"], name="here"), N("DequantizeLinear", ["k", "ks", "kz"], ["b"])],
    "Cast": [N("Cast", ["x"], ["k"], to=TensorProto.FLOAT8E4M3FN, name="here"), N("Cast", ["k"], ["b"], to=TensorProto.FLOAT)],
    "Text": [N("Cast", ["x"], ["k"], to=TensorProto.STRING, name="here"), N("Cast", ["k"], ["b"], to=TensorProto.FLOAT)],
    "BitCast": [N("BitCast", ["x"], ["k"], to=TensorProto.INT32, name="here"), N("BitwiseAnd", ["k", "mask"], ["m"]), N("BitCast", ["m"], ["b"], to=TensorProto.FLOAT)],
    "Unique": [N("Unique", ["x"], ["b"], name="here")],
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("mode", ["grad", "jvp"])
def test_what_has_no_derivative_is_refused_by_name(name, mode):
    """Breaks if integers, text or small floats end what is differentiated without a word."""
    constants = {"s": numpy.array(0.01, "float32"), "z": numpy.array(0, "int8"), "mask": numpy.array(0x7FFFFFFF, "int32")}
    text = model(REFUSED[name], [("x", TensorProto.FLOAT, [4, 3])], constants, 26 if name == "BitCast" else 19)
    with pytest.raises(tensmith.Error, match="here.*has no derivative"):
        tensmith.grad(text, wrt=["x"], of="y") if mode == "grad" else tensmith.jvp(text, wrt=["x"], of=["y"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_derivative_is_in_nobodys_way(name):
    """Breaks if an operator is asked for a derivative that no wanted output depends on."""
    constants = {"s": numpy.array(0.01, "float32"), "z": numpy.array(0, "int8"), "mask": numpy.array(0x7FFFFFFF, "int32")}
    beside = [helper.make_node(n.op_type, n.input, [f"beside_{o}" for o in n.output]) for n in REFUSED[name][:1]]
    text = onnx.load_from_string(model([*beside, N("Sin", ["x"], ["b"])], [("x", TensorProto.FLOAT, [4, 3])], constants, 26 if name == "BitCast" else 19))
    for own, n in zip(text.graph.node, REFUSED[name][:1]):
        own.attribute.extend(n.attribute)
    text.graph.output.append(onnx.ValueInfoProto(name=text.graph.node[0].output[0]))
    x = drawn(4, 3)
    expected = 2 * numpy.sin(x) * numpy.cos(x)
    found = numpy.asarray(tensmith.grad(text.SerializeToString(), wrt=["x"], of="y").run(x=x)[-1])
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    along = tensmith.jvp(text.SerializeToString(), wrt=["x"], of=["y"]).run(**{"x": x, "tangent.x": numpy.ones_like(x)})[-1]
    assert float(numpy.asarray(along)) == pytest.approx(float(numpy.sum(expected)), rel=1e-4)


def test_the_scale_of_what_is_dequantised():
    constants = {"k": drawn(4, 3).astype("int8") * 7, "z": numpy.array(1, "int8")}
    text = model([N("DequantizeLinear", ["k", "x", "z"], ["b"])], [("x", TensorProto.FLOAT, [])], constants, 19)
    gradient = tensmith.grad(text, wrt=["x"], of="y").run(x=numpy.array(0.5, "float32"))[1]
    assert float(numpy.asarray(gradient)) == pytest.approx(float(numpy.sum((constants["k"].astype(float) - 1) ** 2)))
