"""Loops of ONNX that become one kernel or straight code, against ONNX Runtime, on bodies and sizes drawn at random."""

import os
import pathlib
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "python"

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="the Python package is not built")

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

sys.path.insert(0, str(PACKAGE))


class Body:
    """A body over two carried values and the iteration: `rows` x `columns`, and [columns]."""

    def __init__(self, random, rows, columns):
        self.random, self.nodes, self.initializers = random, [], []
        self.shapes = {"a": (rows, columns), "b": (columns,)}
        self.node("Cast", ["i"], (), to=TensorProto.FLOAT)
        for _ in range(random.integers(2, 9)):
            self.step()
        self.next_a = self.bounded(self.pick((rows, columns)))
        self.next_b = self.bounded(self.pick((columns,)))

    def constant(self, array):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, shape, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.shapes[name] = shape
        return name

    def pick(self, shape):
        return str(self.random.choice([name for name, own in self.shapes.items() if own == shape]))

    def bounded(self, value):
        return self.node("Tanh", [value], self.shapes[value])

    def step(self):
        name = str(self.random.choice(list(self.shapes)))
        shape = self.shapes[name]
        kind = self.random.integers(5)
        if kind == 0:
            self.node(str(self.random.choice(["Sin", "Tanh", "Neg", "Abs"])), [name], shape)
        elif kind == 1:
            other = str(self.random.choice(list(self.shapes)))
            wide = numpy.broadcast_shapes(shape, self.shapes[other])
            self.node(str(self.random.choice(["Add", "Sub", "Mul"])), [name, other], wide)
        elif kind == 2 and len(shape) == 2:
            self.node("ReduceSum", [name, self.constant(numpy.array([0]))], shape[1:], keepdims=0)
        elif kind == 3 and len(shape) == 2:
            weights = self.random.standard_normal((shape[1], shape[1])).astype(numpy.float32)
            self.node("MatMul", [name, self.constant(weights)], shape)
        else:
            self.node("Add", [name, self.constant(self.random.standard_normal(shape).astype(numpy.float32))], shape)


def model(random, trips, scans):
    """trips: a number, or None for one that the size of an input tells."""
    rows, columns = (int(size) for size in random.integers(1, 8, 2))
    body = Body(random, rows, columns)
    values = [("a", [rows, columns]), ("b", [columns])]
    outputs = [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
               helper.make_tensor_value_info(body.next_a, TensorProto.FLOAT, [rows, columns]),
               helper.make_tensor_value_info(body.next_b, TensorProto.FLOAT, [columns])]
    nodes = body.nodes + [helper.make_node("Identity", ["go"], ["go_on"])]
    if scans:
        nodes.append(helper.make_node("Identity", [body.pick((columns,))], ["row"]))
        outputs.append(helper.make_tensor_value_info("row", TensorProto.FLOAT, [columns]))
    graph = helper.make_graph(nodes, "body",
                              [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                               helper.make_tensor_value_info("go", TensorProto.BOOL, [])] +
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in values],
                              outputs, body.initializers)
    before, initializers = [], []
    if trips is None:
        before = [helper.make_node("Shape", ["x"], ["sizes"]), helper.make_node("Squeeze", ["sizes"], ["n"])]
    else:
        initializers = [numpy_helper.from_array(numpy.array(trips), "n")]
    loop = helper.make_node("Loop", ["n", "", "a0", "b0"], ["a1", "b1"] + ["all"] * scans, body=graph)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T"])] * (trips is None)
    inputs += [helper.make_tensor_value_info(name + "0", TensorProto.FLOAT, dims) for name, dims in values]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ["a1", "b1"] + ["all"] * scans]
    whole = helper.make_model(helper.make_graph(before + [loop], "g", inputs, results, initializers),
                              opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feeds = {name + "0": random.standard_normal(dims).astype(numpy.float32) for name, dims in values}
    return whole, feeds


def compare(path, whole, feeds):
    import tensmith

    onnx.save(whole, path)
    compiled = tensmith.compile(str(path))
    got = compiled.run(**feeds)
    wanted = onnxruntime.InferenceSession(str(path)).run(None, feeds)
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.shape == theirs.shape
        numpy.testing.assert_allclose(ours, theirs, atol=2e-4, rtol=1e-3)
    return [kernel["schedule"] for kernel in compiled.describe()["kernels"]]


@pytest.mark.parametrize("seed", range(12))
def test_loop_is_one_kernel(seed, tmp_path):
    """Breaks if a loop that the sizes count is called iteration by iteration, or computes anything else there."""
    random = numpy.random.default_rng(seed)
    whole, feeds = model(random, None, seed % 2 == 1)
    for trips in (0, 1, int(random.integers(2, 40))):
        feeds["x"] = numpy.zeros(trips, numpy.float32)
        assert "recurrence" in compare(tmp_path / "m.onnx", whole, feeds)


@pytest.mark.parametrize("seed", range(6))
def test_short_loop_is_straight_code(seed, tmp_path):
    """Breaks if copies of a body share a value, or rows are stacked in another order."""
    random = numpy.random.default_rng(100 + seed)
    whole, feeds = model(random, 1 + seed % 4, seed % 2 == 1)
    assert "recurrence" not in compare(tmp_path / "m.onnx", whole, feeds)


def in_a_loop(tmp_path, nodes, initializers, size, trips=9):
    """Runs y = loop over s of `nodes`, which take s and the captured c = sin(p) and give n; then -y."""
    body = helper.make_graph(nodes + [helper.make_node("Identity", ["go"], ["go_on"])], "body",
                             [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                              helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("s", TensorProto.FLOAT, [size])],
                             [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("n", TensorProto.FLOAT, [size])], initializers)
    graph = helper.make_graph([helper.make_node("Sin", ["p"], ["c"]),
                               helper.make_node("Loop", ["trips", "", "s0"], ["y"], body=body),
                               helper.make_node("Neg", ["y"], ["z"])], "g",
                              [helper.make_tensor_value_info("trips", TensorProto.INT64, [])] +
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in ("p", "s0")],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    random = numpy.random.default_rng(1)
    feeds = {name: random.uniform(-1, 1, size).astype("float32") for name in ("p", "s0")}
    return compare(tmp_path / "m.onnx", whole, {"trips": numpy.array(trips), **feeds})


def test_result_is_not_written_over_what_the_loop_reads(tmp_path):
    """Breaks if the buffer of a captured tensor, which ends with the loop, becomes that of the result."""
    nodes = [helper.make_node("Mul", ["s", "c"], ["m"]), helper.make_node("Add", ["m", "one"], ["n"])]
    one = numpy_helper.from_array(numpy.float32(1), "one")
    assert "recurrence" in in_a_loop(tmp_path, nodes, [one], 40)


def test_chain_of_moved_values_is_no_tree(tmp_path):
    """Breaks if what is moved is computed again for each of its uses: two to the power of the chain's length."""
    nodes, last = [], "s"
    for step in range(40):
        nodes += [helper.make_node("Concat", [last, last], [f"twice{step}"], axis=0),
                  helper.make_node("Slice", [f"twice{step}", "one", "three"], [f"part{step}"])]
        last = f"part{step}"
    nodes.append(helper.make_node("Mul", [last, "c"], ["n"]))
    bounds = [numpy_helper.from_array(numpy.array([value]), name) for name, value in (("one", 1), ("three", 3))]
    assert "recurrence" in in_a_loop(tmp_path, nodes, bounds, 2)
