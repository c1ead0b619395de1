"""Chains of elementary functions, which go several vectors at a time: lengths around whole rounds, known and unknown."""

import os
import pathlib
import subprocess

import numpy
import pytest
from onnx import TensorProto, helper

import tensmith

BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))


def chain(rows, columns, operators=(("Tanh",), ("Mul", "x"), ("Sigmoid",))):
    """Each operator is applied to what the one before gave, and to those that are named."""
    shape, nodes, value = [rows, columns], [], "x"
    for number, (operator, *others) in enumerate(operators):
        result = "y" if number + 1 == len(operators) else f"v{number}"
        nodes.append(helper.make_node(operator, [value, *others], [result]))
        value = result
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


def test_values_that_are_read_twice():
    """Breaks if a kernel's operators are looked at once for each way to them: there are 2^40."""
    operators = [step for i in range(40) for step in [("Tanh",), ("Mul", f"v{2 * i - 1}" if i else "x")]]
    x = wanted = numpy.random.default_rng(1).uniform(-9, 9, (64, 64)).astype(numpy.float32)
    for _ in range(40):
        wanted = numpy.tanh(wanted) * wanted
    numpy.testing.assert_allclose(tensmith.compile(chain(64, 64, operators))(x), wanted, rtol=1e-4, atol=1e-4)


# Breaks if the request gets lost on its way to LLVM, which leaves the result right and slow.
@pytest.mark.parametrize("operators, wanted", [([("Sigmoid",)], True), ([("Add", "x"), ("Mul", "x")], False)])
def test_llvm_is_asked_for_it(operators, wanted, tmp_path):
    (tmp_path / "chain.onnx").write_bytes(chain(2, 1000, operators))
    subprocess.run([BUILD / "bin/tensmith", "compile", "chain.onnx", "-o", "chain.so", "--dump-ir", "ir"], cwd=tmp_path, check=True)
    texts = [path.read_text() for path in (tmp_path / "ir").glob("k_*.ll") if not path.name.endswith(".opt.ll")]
    assert texts and any("llvm.loop.interleave.count" in text for text in texts) == wanted
