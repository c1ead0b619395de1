"""What a session keeps, and what runs of it at the same time share.

A small transformer with open sizes is run with thousands of shapes; the process may not grow with them. TENSMITH_SHAPES and
TENSMITH_RUNS make the runs longer than in ./test (10000 of each is what is promised).
"""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "python"

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="the Python package is not built")

TRANSFORMER = """
import os, sys, threading
import numpy, onnx
from onnx import TensorProto, helper, numpy_helper
import tensmith

WIDTH, HEADS = 32, 4
random = numpy.random.default_rng(1)
initializers, nodes, names = [], [], iter(range(10**6))

def constant(array):
    name = f"c{next(names)}"
    initializers.append(numpy_helper.from_array(array, name))
    return name

def node(op, *inputs, **attributes):
    name = f"t{next(names)}"
    nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
    return name

def linear(x, outer, inner=WIDTH):
    weights = (random.standard_normal((inner, outer)) / inner ** 0.5).astype(numpy.float32)
    return node("Add", node("MatMul", x, constant(weights)), constant(numpy.zeros(outer, numpy.float32)))

def heads(x):
    shape = constant(numpy.array([0, 0, HEADS, WIDTH // HEADS]))
    return node("Transpose", node("Reshape", linear(x, WIDTH), shape), perm=[0, 2, 1, 3])

def layer(x):
    scores = node("MatMul", heads(x), node("Transpose", heads(x), perm=[0, 1, 3, 2]))
    mixed = node("MatMul", node("Softmax", scores, axis=-1), heads(x))
    joined = node("Reshape", node("Transpose", mixed, perm=[0, 2, 1, 3]), constant(numpy.array([0, 0, WIDTH])))
    x = node("Add", x, linear(joined, WIDTH))
    return node("Add", x, linear(node("Relu", linear(x, 2 * WIDTH)), WIDTH, 2 * WIDTH))

def model():
    out = layer(layer("x"))
    # A loop, and a size that only the run tells: frames of other functions and heap values take part.
    ports = [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
             helper.make_tensor_value_info("v", TensorProto.FLOAT, ["b", "s", WIDTH])]
    body = helper.make_graph(
        [helper.make_node("Tanh", ["v"], ["w"]), helper.make_node("Identity", ["c"], ["d"])], "body", ports,
        [helper.make_tensor_value_info("d", TensorProto.BOOL, []), helper.make_tensor_value_info("w", TensorProto.FLOAT, None)])
    nodes.append(helper.make_node("Loop", [constant(numpy.int64(3)), "", out], ["y"], body=body))
    positive = node("NonZero", node("Greater", "y", constant(numpy.float32(0))))
    nodes.append(helper.make_node("Shape", [positive], ["count"]))
    graph = helper.make_graph(
        nodes, "transformer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None), helper.make_tensor_value_info("count", TensorProto.INT64, None)],
        initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

def inputs(i):
    shape = (1 + i % 100, 1 + (i // 100 * 37 + i) % 100, WIDTH)  # no two of the first 10000 are the same
    return numpy.random.default_rng(i).standard_normal(shape).astype(numpy.float32)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
"""

SHAPES = """
session = tensmith.compile(model(), threads=2)
count = int(os.environ.get("TENSMITH_SHAPES", 1000))
shapes, marks = set(), []
largest = numpy.random.default_rng(0).standard_normal((100, 100, WIDTH)).astype(numpy.float32)
for i in range(count):
    if i == 50:
        session.run(largest)  # what the largest shape takes is taken before the mark
    x = inputs(i)
    shapes.add(x.shape)
    session.run(x)
    if i in (100, count - 1):
        marks.append(resident())
print(f"{len(shapes)} shapes: {marks[0] >> 20} MiB after 100, {marks[1] >> 20} MiB at the end, {marks[1] / marks[0] - 1:+.1%}")
sys.exit(marks[1] > 1.05 * marks[0])
"""

SHARED = """
session = tensmith.compile(model(), threads=2, precision="exact")
count = int(os.environ.get("TENSMITH_RUNS", 800)) // 4
cases = [(x, [y.copy() for y in session.run(x)]) for x in (inputs(i * 331)[:5, :40] for i in range(23))]
wrong = []

def work(first):
    for i in range(count):
        x, expected = cases[(first + i * 7) % len(cases)]
        if any(a.tobytes() != b.tobytes() for a, b in zip(session.run(x), expected)):
            wrong.append(i)

threads = [threading.Thread(target=work, args=(5 * i,)) for i in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(f"{4 * count} runs on 4 threads, {len(wrong)} mismatches")
sys.exit(bool(wrong))
"""


@pytest.mark.parametrize("program", [SHAPES, SHARED], ids=["shapes", "shared"])
def test_session(program):
    """Fails where memory grows by 5 % after the first hundred shapes, or where threads get each other's results."""
    done = subprocess.run(
        [sys.executable, "-c", TRANSFORMER + program], capture_output=True, text=True, timeout=900,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
