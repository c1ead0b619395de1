#!/usr/bin/env python3
"""Makes the modules that the bindings of other languages are tested with: `cases.py RUN_CASE FOLDER`.

A case is a folder with `module.so`, the bytes of its inputs and those of its outputs, which the C program RUN_CASE
(tests/bindings/run_case.c) computed. `case.txt` lists them, a line each:
    input x f32 2,3 input-0.bin
A tensor without dimensions has the shape `-`. The three networks differ in what a binding could get wrong: several
inputs, sizes that are open, elements of several types, a scalar, an output that is an input.
"""

import pathlib
import subprocess
import sys

import numpy
from onnx import TensorProto, helper, numpy_helper

NAMES = {"float32": "f32", "int64": "i64", "bool": "bool"}


def model(nodes, inputs, constants, outputs):
    infos = [[helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in ports.items()] for ports in (inputs, outputs)]
    graph = helper.make_graph(nodes, "case", *infos, [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def pictures(random):
    """A convolution and a product: fixed sizes."""
    nodes = [helper.make_node("Conv", ["picture", "filters", "bias"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("GlobalAveragePool", ["r"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("MatMul", ["f", "w"], ["scores"])]  # fmt: skip
    constants = {"filters": random.standard_normal((8, 3, 3, 3)), "bias": random.standard_normal(8), "w": random.standard_normal((8, 10))}
    network = model(nodes, {"picture": (TensorProto.FLOAT, [1, 3, 32, 32])}, {name: value.astype("float32") for name, value in constants.items()},
                    {"scores": (TensorProto.FLOAT, [1, 10])})  # fmt: skip
    return network, [random.standard_normal((1, 3, 32, 32)).astype("float32")]


def rows(random):
    """Softmax of a product: the number of rows is open."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"], axis=-1)]
    network = model(nodes, {"x": (TensorProto.FLOAT, ["n", 16])}, {"w": random.standard_normal((16, 32)).astype("float32")},
                    {"y": (TensorProto.FLOAT, ["n", 32])})  # fmt: skip
    return network, [random.standard_normal((5, 16)).astype("float32")]


def words(random):
    """An embedding: integers, booleans, a scalar, an output that is an input; the length is open."""
    nodes = [helper.make_node("Gather", ["table", "words"], ["rows"]), helper.make_node("Mul", ["rows", "scale"], ["vectors"]),
             helper.make_node("ArgMax", ["vectors"], ["best"], axis=-1, keepdims=0), helper.make_node("Greater", ["vectors", "zero"], ["positive"]),
             helper.make_node("Identity", ["words"], ["same"])]  # fmt: skip
    constants = {"table": random.standard_normal((50, 12)).astype("float32"), "zero": numpy.float32(0)}
    network = model(nodes, {"words": (TensorProto.INT64, ["length"]), "scale": (TensorProto.FLOAT, [])}, constants,
                    {"vectors": (TensorProto.FLOAT, ["length", 12]), "best": (TensorProto.INT64, ["length"]),
                     "positive": (TensorProto.BOOL, ["length", 12]), "same": (TensorProto.INT64, ["length"])})  # fmt: skip
    return network, [random.integers(0, 50, 7), numpy.array(0.5, "float32")]


def make_cases(run_case, folder):
    import tensmith

    random = numpy.random.default_rng(1)
    for build in (pictures, rows, words):
        network, inputs = build(random)
        case = pathlib.Path(folder) / build.__name__
        case.mkdir(parents=True)
        compiled = tensmith.compile(network)
        compiled.save(str(case / "module.so"))
        lines = []
        for number, (port, value) in enumerate(zip(compiled.inputs, inputs)):
            value.tofile(case / f"input-{number}.bin")
            shape = ",".join(map(str, value.shape)) or "-"
            lines.append(f"input {port['name']} {NAMES[str(value.dtype)]} {shape} input-{number}.bin\n")
        (case / "case.txt").write_text("".join(lines))
        subprocess.run([run_case, case], check=True, timeout=60)  # adds the outputs


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: cases.py RUN_CASE FOLDER")
    make_cases(sys.argv[1], sys.argv[2])
