"""Chains of elementary functions, which go several vectors at a time: lengths around whole rounds, known and unknown."""

import numpy
import pytest
from onnx import TensorProto, helper

import tensmith


def chain(rows, columns):
    shape = [rows, columns]
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Mul", ["t", "x"], ["p"]), helper.make_node("Sigmoid", ["p"], ["y"])]
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def check(compiled, rows, columns):
    x = numpy.random.default_rng(columns).uniform(-9, 9, (rows, columns)).astype(numpy.float32)
    wide = x.astype(numpy.float64)
    numpy.testing.assert_allclose(compiled(x), 1 / (1 + numpy.exp(-numpy.tanh(wide) * wide)), rtol=2e-6)


LENGTHS = (1, 7, 31, 32, 33, 63, 64, 65, 127, 128, 129, 5000)


@pytest.mark.parametrize("columns", LENGTHS)
def test_known_lengths(columns):
    check(tensmith.compile(chain(3, columns)), 3, columns)


def test_unknown_lengths():
    compiled = tensmith.compile(chain("rows", "columns"))
    for columns in (0,) + LENGTHS:
        check(compiled, 2, columns)
