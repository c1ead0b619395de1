"""A compilation says what a run would do by the reference evaluator for a notable part of its time, and inspect shows it."""

import json
import os
import pathlib
import subprocess

import onnx
from onnx import TensorProto, helper

BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))


def tensmith(folder, *arguments):
    done = subprocess.run([BUILD / "bin/tensmith", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def save(folder, name, *nodes, shape):
    graph = helper.make_graph(list(nodes), "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / name)


def test_an_operator_without_a_kernel_is_named(tmp_path):
    """Fails where nothing is said of an operator that takes nearly all of the time, or where it counts as a kernel."""
    save(tmp_path, "sorted.onnx", helper.make_node("Relu", ["x"], ["r"], name="rectified"), helper.make_node("Det", ["r"], ["y"], name="determinants"),
         shape=["batch", 32, 32])
    said = tensmith(tmp_path, "compile", "sorted.onnx", "-o", "sorted.so").stderr
    assert "determinants" in said and "by reference" in said and "rectified" not in said
    shown = json.loads(tensmith(tmp_path, "inspect", "sorted.so", "--json").stdout)
    assert [routine["operator"] for routine in shown["by_reference"]] == ["det"]
    assert "determinants" in shown["by_reference"][0]["node"]
    assert "by reference, without a kernel: 1" in tensmith(tmp_path, "inspect", "sorted.so").stdout


def test_kernels_alone_are_silent(tmp_path):
    """Fails where shapes, or what a kernel does, are called slow."""
    save(tmp_path, "quick.onnx", helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Reshape", ["r", "s"], ["y"]),
         shape=["batch", 32, 32])
    assert "reference" not in tensmith(tmp_path, "compile", "quick.onnx", "-o", "quick.so").stderr
