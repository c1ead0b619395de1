"""Layers whose weights a run is given, with fewer samples than outputs: the product is turned around, so that samples are packed and not weights."""

import json
import os
import pathlib
import subprocess

import numpy
import onnx
import pytest
from onnx import helper

tensmith = pytest.importorskip("tensmith")
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))


def layer(samples, inputs, outputs, element):
    """relu(x w' + b), and what is behind it, of weights [outputs, inputs] that are inputs."""
    kind = helper.np_dtype_to_tensor_dtype(numpy.dtype(element))
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["sum"], transB=1), helper.make_node("Relu", ["sum"], ["h"]),
             helper.make_node("Softmax", ["h"], ["y"], axis=-1)]  # fmt: skip
    tensor = lambda name, *shape: helper.make_tensor_value_info(name, kind, shape)
    given = [tensor("x", samples, inputs), tensor("w", outputs, inputs), tensor("b", outputs)]
    graph = helper.make_graph(nodes, "layer", given, [tensor("h", samples, outputs), tensor("y", samples, outputs)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


# Breaks if what is turned around is another product, of whole vectors of samples or not, or what follows reads it as it isn't.
@pytest.mark.parametrize("element", ["float32", "float64"])
@pytest.mark.parametrize("samples, inputs, outputs", [(32, 784, 256), (30, 65, 129), (24, 96, 500), (17, 400, 640), (64, 33, 1000)])
def test_results_are_those_of_the_layer(samples, inputs, outputs, element):
    random = numpy.random.default_rng(7)
    x, w, b = (random.standard_normal(shape).astype(element) for shape in ((samples, inputs), (outputs, inputs), (outputs,)))
    h, y = tensmith.compile(layer(samples, inputs, outputs, element))(x, w, b)
    wanted = numpy.maximum(x.astype("float64") @ w.T.astype("float64") + b, 0)
    e = numpy.exp(wanted - wanted.max(1, keepdims=True))
    tolerance = 1e-4 if element == "float32" else 1e-12
    numpy.testing.assert_allclose(h, wanted, rtol=tolerance, atol=tolerance * numpy.abs(wanted).max())
    numpy.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=10 * tolerance, atol=tolerance)


# Breaks if all weights are packed in each run: a kernel that moves as many elements as there are.
def test_weights_are_read_as_they_lie(tmp_path):
    path = tmp_path / "layer.onnx"
    onnx.save(layer(32, 784, 256, "float32"), path)
    told = json.loads(subprocess.run([BUILD / "bin/tensmith", "inspect", path, "--chosen-schedules", "--target", "x86-64-v3"], capture_output=True, text=True, check=True).stdout)
    packs = [row["kernel"] for row in told["schedules"] if row["kernel"].startswith("pack ")]
    assert packs and not any("256x784" in pack or "784x256" in pack for pack in packs), packs
