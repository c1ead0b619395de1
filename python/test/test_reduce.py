"""tensmith.reduce on models that fail in a known way: what is left is what the failure needs."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensmith import reduce


def model_of(nodes, initializers=(), outputs=("y",)):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(
        nodes, "failing", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])], ports,
        [numpy_helper.from_array(numpy.array(value), name) for name, value in initializers])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(first, *operators, last="y"):
    names = [first, *(f"{last}{i}" for i in range(len(operators) - 1)), last]
    return [helper.make_node(op, [a], [b]) for op, a, b in zip(operators, names, names[1:])]


def operators_in(graph):
    return {node.op_type for node in graph.node}.union(*(operators_in(g) for n in graph.node for g in reduce.subgraphs(n)))


@pytest.fixture
def failing_with(monkeypatch):
    """Stands for a compiler that fails on one operator, wherever it stands."""
    return lambda op: monkeypatch.setattr(reduce, "fails", lambda model, wanted, seconds: op in operators_in(model.graph))


def test_one_node_of_a_chain_is_left(failing_with):
    failing_with("Erf")
    model = model_of(chain("x", "Tanh", "Abs", "Erf", "Neg", "Exp") + chain("x", "Sin", last="z"), outputs=("y", "z"))
    small = reduce.reduce(model, reduce.CRASH, report=lambda line: None)
    assert [node.op_type for node in small.graph.node] == ["Erf"]
    onnx.checker.check_model(small)


def test_a_body_takes_the_place_of_its_node(failing_with):
    failing_with("Erf")
    empty = helper.make_graph(chain("a", "Neg", last="e"), "else", [], [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)])
    inner = helper.make_graph(chain("a", "Abs", "Erf", last="w"), "then", [], [helper.make_tensor_value_info("w", TensorProto.FLOAT, None)])
    model = model_of(
        [*chain("x", "Tanh", last="a"), helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=empty)], [("c", True)])
    small = reduce.reduce(model, reduce.CRASH, report=lambda line: None)
    assert "If" not in operators_in(small.graph) and len(small.graph.node) <= 2


def test_an_error_of_the_compiler_s():
    """In processes, as it is used: an index that no column has."""
    nodes = [*chain("x", "Tanh", "Abs", last="a"), helper.make_node("Gather", ["a", "index"], ["g"], axis=1), *chain("g", "Neg", "Exp")]
    small = reduce.reduce(model_of(nodes, [("index", [7])]), "outside", report=lambda line: None)
    assert operators_in(small.graph) >= {"Gather"} and not operators_in(small.graph) & {"Tanh", "Neg", "Exp"}


def test_a_model_that_does_not_fail():
    assert reduce.reduce(model_of(chain("x", "Tanh")), reduce.CRASH) is None
