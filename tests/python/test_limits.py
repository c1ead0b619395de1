"""Each limit of docs/limits.md that the command line sets ends the work with an error that says which it was."""

import os
import pathlib
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
pytestmark = pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")


def save(path, nodes, outputs, initializers=()):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])
    graph = helper.make_graph(nodes, "g", [x], outputs, list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def tensor(name, shape=(64, 64)):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.fixture
def chain(tmp_path):
    """Three nodes on 16 KiB each, one of them an evaluation of constants."""
    nodes = [helper.make_node("Add", ["c", "c"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["h"]),
             helper.make_node("Softmax", ["h"], ["y"])]
    constant = numpy_helper.from_array(numpy.ones((64, 64), numpy.float32), "c")
    return save(tmp_path / "chain.onnx", nodes, [tensor("y")], [constant])


@pytest.fixture
def branches(tmp_path):
    """An If within an If: three graphs, the main one counted."""
    condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("v", TensorProto.BOOL, [], [True]))

    def branch(nodes):
        return helper.make_graph(nodes, "branch", [], [tensor("b")])

    copy = branch([helper.make_node("Identity", ["x"], ["b"])])
    inner = branch([helper.make_node("If", ["c"], ["b"], then_branch=copy, else_branch=copy)])
    outer = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    return save(tmp_path / "branches.onnx", [condition, outer], [tensor("y")])


@pytest.fixture
def endless(tmp_path):
    """A loop whose end nobody waits for."""
    true = helper.make_tensor("v", TensorProto.BOOL, [], [True])
    body = helper.make_graph(
        [helper.make_node("Sin", ["a"], ["b"]), helper.make_node("Identity", ["go"], ["on"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []), tensor("a")],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), tensor("b")])
    trips = helper.make_tensor("t", TensorProto.INT64, [], [2**62])
    nodes = [helper.make_node("Constant", [], ["go0"], value=true), helper.make_node("Constant", [], ["n"], value=trips),
             helper.make_node("Loop", ["n", "go0", "x"], ["y"], body=body)]
    return save(tmp_path / "endless.onnx", nodes, [tensor("y")])


def tensmith(*arguments):
    return subprocess.run([TENSMITH, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def refused(said, *parts):
    assert said.returncode == 1, said
    assert all(part in said.stderr for part in parts), said.stderr


def test_nodes(chain, tmp_path):
    refused(tensmith("compile", chain, "-o", tmp_path / "m.so", "--node-limit", 2), "chain.onnx", "2")
    assert tensmith("compile", chain, "-o", tmp_path / "m.so", "--node-limit", 3).returncode == 0


def test_nesting(branches, tmp_path):
    refused(tensmith("compile", branches, "-o", tmp_path / "m.so", "--nesting-limit", 2), "branches.onnx", "more than 2 deep")
    assert tensmith("compile", branches, "-o", tmp_path / "m.so", "--nesting-limit", 3).returncode == 0


def test_memory_of_a_compilation(chain, tmp_path):
    refused(tensmith("compile", chain, "-o", tmp_path / "m.so", "--memory-limit", "1KB"), "chain.onnx", "limit")


def test_time_of_a_compilation(chain, tmp_path):
    refused(tensmith("compile", chain, "-o", tmp_path / "m.so", "--time-limit", "1e-9"), "chain.onnx", "limit of time")


def test_memory_of_a_run(chain, tmp_path):
    module = tmp_path / "m.so"
    assert tensmith("compile", chain, "-o", module).returncode == 0
    refused(tensmith("run", module, "--memory-limit", "1KB"), "m.so", "limit")
    assert tensmith("run", module, "--memory-limit", "64MB").returncode == 0


def test_time_of_a_run(endless, tmp_path):
    module = tmp_path / "m.so"
    assert tensmith("compile", endless, "-o", module).returncode == 0
    refused(tensmith("run", module, "--time-limit", "0.2"), "m.so", "limit of time")
