"""Slices of dimensions whose sizes the run tells, and chains of what broadcasts between them, against NumPy."""

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

END = 2**31 - 1
SIZES = [0, 1, 2, 3, 5, 8]
WIDEST = [2**63 - 1, 2**62, -(2**63), -(2**63) + 1]


def model(nodes, inputs, outputs, constants):
    """Inputs by name with their dimensions; int64 vectors as constants."""
    graph = helper.make_graph(
        nodes, "slices", [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [helper.make_tensor(name, TensorProto.INT64, [len(values)], values) for name, values in constants.items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def sliced(start, end, step=1):
    nodes = [helper.make_node("Slice", ["x", "start", "end", "axis", "step"], ["s"]), helper.make_node("Sin", ["s"], ["y"])]
    return model(nodes, {"x": [2, "n", 3]}, ["y"], {"start": [start], "end": [end], "axis": [1], "step": [step]})


@pytest.mark.parametrize("bounds", [(1, END), (0, -1), (1, -1), (2, 5), (-2, END), (-3, -1), (-2, 4), (0, 4), (4, 2), (-END, END), (0, END, 2), (1, END, 3),
                                    (1, -1, 2), (-1, -END, -1), (5, 0, -2), *[(0, END, step) for step in WIDEST[:2]], (-3, -1, WIDEST[0]),
                                    *[(-1, -END, step) for step in WIDEST[2:]], (2, -END, WIDEST[2])], ids=str)  # fmt: skip
def test_between_numbers(bounds):
    """Fails where a size is not clamped as the standard says."""
    compiled = tensmith.compile(sliced(*bounds))
    for size in SIZES:
        x = numpy.random.default_rng(size).standard_normal((2, size, 3)).astype("float32")
        end = None if bounds[1] == -END and len(bounds) == 3 else bounds[1]
        expected = numpy.sin(x[:, slice(bounds[0], end, *bounds[2:])])
        found = numpy.asarray(compiled(x))
        assert found.shape == expected.shape, size
        numpy.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def routines(compiled):
    return [step["label"] for function in compiled.describe()["functions"] for step in function["instructions"] if step["opcode"] == "routine"]


# Breaks if what begins at an element that is counted from the end, or goes backwards, is cut by the reference evaluator.
@pytest.mark.parametrize("bounds", [(-1, END), (-2, END), (-3, -1), (-5, 3), (-4, END, 2), (-1, -END, -1), (-1, -(2**63), -2), (5, 0, -2), (END, 1, -3)], ids=str)
def test_from_the_end_are_kernels(bounds):
    assert set(routines(tensmith.compile(sliced(*bounds)))) <= {"shape"}


# Breaks if a dimension that is cut or read backwards is taken for another one.
def test_of_several_dimensions():
    names = ["start", "end", "axes", "steps"]
    constants = {"start": [-2, 1, -1], "end": [END, -1, -(2**63)], "axes": [2, 0, 1], "steps": [1, 2, -1]}
    compiled = tensmith.compile(model([helper.make_node("Slice", ["x", *names], ["y"])], {"x": ["n", "m", "k"]}, ["y"], constants))
    assert set(routines(compiled)) <= {"shape"}
    for shape in ((5, 3, 4), (1, 1, 1), (0, 2, 3), (4, 0, 2), (6, 5, 1)):
        x = numpy.arange(numpy.prod(shape), dtype="float32").reshape(shape)
        numpy.testing.assert_array_equal(numpy.asarray(compiled(x)), x[1:-1:2, ::-1, -2:])


# Breaks if what is rolled, as windows of attention are, is cut by the reference evaluator, or at a wrong place.
@pytest.mark.parametrize("shift", [-2, 1])
def test_rolled(shift):
    nodes = [helper.make_node("Slice", ["x", "cut", "end", "axis"], ["a"]), helper.make_node("Slice", ["x", "zero", "cut", "axis"], ["b"]),
             helper.make_node("Concat", ["a", "b"], ["y"], axis=1)]  # fmt: skip
    compiled = tensmith.compile(model(nodes, {"x": [2, "n", 3]}, ["y"], {"cut": [-shift], "end": [END], "zero": [0], "axis": [1]}))
    assert set(routines(compiled)) <= {"shape"}
    for size in (1, 2, 5, 9) if shift == 1 else (2, 5, 9):
        x = numpy.arange(6 * size, dtype="float32").reshape(2, size, 3)
        numpy.testing.assert_array_equal(numpy.asarray(compiled(x)), numpy.roll(x, shift, 1))


def test_to_the_length_of_another_input():
    """Fails where an end that only the run tells must lie within the dimension."""
    nodes = [helper.make_node("Shape", ["z"], ["m"]), helper.make_node("Slice", ["x", "zero", "m"], ["s"]), helper.make_node("Cos", ["s"], ["y"])]
    compiled = tensmith.compile(model(nodes, {"x": ["n"], "z": ["m"]}, ["y"], {"zero": [0]}))
    for n in SIZES:
        for m in SIZES:
            x = numpy.arange(n, dtype="float32")
            numpy.testing.assert_allclose(numpy.asarray(compiled(x, numpy.zeros(m, "float32"))), numpy.cos(x[:m]), rtol=1e-5)


def test_neighbours_are_as_long():
    """Fails where x[1:] and x[:-1] have sizes of which nothing is known: their sum would be checked in each run."""
    nodes = [helper.make_node("Slice", ["x", "one", "end"], ["a"]), helper.make_node("Slice", ["x", "zero", "last"], ["b"]),
             helper.make_node("Sub", ["a", "b"], ["d"]), helper.make_node("Abs", ["d"], ["y"])]  # fmt: skip
    compiled = tensmith.compile(model(nodes, {"x": ["n"]}, ["y"], {"one": [1], "end": [END], "zero": [0], "last": [-1]}))
    assert [kernel["label"] for kernel in compiled.describe()["kernels"]] == ["slice+slice+sub+abs"]
    for n in SIZES:
        x = numpy.random.default_rng(n).standard_normal(n).astype("float32")
        numpy.testing.assert_allclose(numpy.asarray(compiled(x)), numpy.abs(numpy.diff(x)), rtol=1e-6)


@pytest.mark.parametrize("types", ["x: f32[n], y: f32[m], z: f32[k]", "x: f32[?], y: f32[?], z: f32[?]"])
def test_chains_of_broadcasts(types, tmp_path):
    """Fails, by taking for ever, where the size of what is broadcast grows with each operator."""
    path = tmp_path / "chain.tsm"
    path.write_text(f"fn main({types}) = {'(' * 24}x{' * y + z) ' * 12}{'+ x - y)' * 12}\n")
    program = tensmith.compile(path)
    for shapes in ((1, 5, 5), (5, 1, 1), (1, 1, 4), (3, 3, 3), (1, 0, 0)):
        x, y, z = (numpy.random.default_rng(i).standard_normal(n).astype("float32") for i, n in enumerate(shapes))
        expected = x.astype(float)
        for _ in range(12):
            expected = expected * y + z
        for _ in range(12):
            expected = expected + x - y
        numpy.testing.assert_allclose(numpy.asarray(program(x=x, y=y, z=z)), expected, rtol=2e-4, atol=1e-4)
    with pytest.raises(tensmith.Error, match="broadcast"):
        program(x=numpy.zeros(2, "float32"), y=numpy.zeros(3, "float32"), z=numpy.zeros(1, "float32"))


@pytest.mark.parametrize("op", ["Neg", "Add"])
def test_constants_of_an_open_shape(op):
    """Fails where a constant that is reshaped to sizes that the run tells lies among the weights with them."""
    nodes = [helper.make_node("Shape", ["x"], ["n"], start=0, end=1), helper.make_node("Concat", ["n", "rest"], ["shape"], axis=0),
             helper.make_node("Cast", ["values"], ["c"], to=TensorProto.FLOAT), helper.make_node("Reshape", ["c", "shape"], ["r"]),
             helper.make_node(op, ["r"] if op == "Neg" else ["r", "r"], ["y"])]  # fmt: skip
    compiled = tensmith.compile(model(nodes, {"x": ["n", 3]}, ["y"], {"rest": [3, -1], "values": list(range(12))}))
    for n in (1, 2, 4):
        expected = numpy.arange(12, dtype="float32").reshape(n, 3, -1) * (-1 if op == "Neg" else 2)
        numpy.testing.assert_array_equal(numpy.asarray(compiled(numpy.zeros((n, 3), "float32"))), expected)
    with pytest.raises(tensmith.Error):
        compiled(numpy.zeros((5, 3), "float32"))


@pytest.mark.parametrize("bounds", [(0, END, 2**63 - 1), (1, END, 2**63 - 1), (-2, END, 2**63 - 1), (-1, -END, -(2**63)), (2, -END, -(2**63) + 1),
                                    (1, END, 5000), (0, END, 2**40)], ids=str)  # fmt: skip
def test_derivatives_of_steps_beyond_the_dimension(bounds):
    """Fails where a size or a place is computed with a step that overflows, or has no derivative."""
    start, end, step = bounds
    nodes = [helper.make_node("Slice", ["x", "start", "end", "axis", "step"], ["s"]), helper.make_node("Mul", ["s", "s"], ["p"]),
             helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0)]  # fmt: skip
    text = model(nodes, {"x": [2, "n", 3]}, ["y"], {"start": [start], "end": [end], "axis": [1], "step": [step]})
    gradient = tensmith.grad(text, wrt=["x"], of="y")
    for size in SIZES:
        x = numpy.random.default_rng(size).standard_normal((2, size, 3)).astype("float32")
        taken = numpy.zeros_like(x)
        taken[:, slice(start, None if end == -END else end, step)] = 1
        numpy.testing.assert_allclose(numpy.asarray(gradient.run(x=x)[1]), 2 * x * taken, rtol=1e-6, err_msg=str(size))
