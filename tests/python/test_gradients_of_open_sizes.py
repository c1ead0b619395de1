"""Derivatives between open sizes, of which the run alone tells which is broadcast: against differences."""

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")

BROADCASTS = {
    "two rows": ("x: f32[?, ?], y: f32[?, ?]", "sin(x * y + y)", "axes = [0, 1]", (3, 1), (1, 4)),
    "a row": ("x: f32[?, ?], y: f32[?]", "sin(x * y + y)", "axes = [0, 1]", (3, 1), (4,)),
    "the larger": ("x: f32[?, ?], y: f32[?]", "max(x, y) * x * y", "axes = [0, 1]", (4, 2), (1,)),
    "alike": ("x: f32[?], y: f32[?]", "sin(x * y) * y", "axes = [0]", (3,), (3,)),
    "names": ("x: f32[n], y: f32[m]", "sin(x * y) * y", "axes = [0]", (1,), (4,)),
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_hessian_products_between_open_sizes(name, tmp_path):
    """Breaks if a size that only the run tells has another value's name within a branch, as of the sum over what was broadcast."""
    parameters, body, axes, *shapes = BROADCASTS[name]
    path = tmp_path / "program.tsm"
    path.write_text(f"fn main({parameters}) = reduce_sum({body}, {axes})\n")
    random = numpy.random.default_rng(5)
    drawn = lambda: {n: random.standard_normal(s).astype("float32") + 1 for n, s in zip("xy", shapes)}
    arrays, direction, step = drawn(), drawn(), 1e-3
    gradient = tensmith.grad(path, wrt=["x", "y"], of="result")
    moved = lambda s: [numpy.asarray(v) for v in gradient.run(**{n: a + numpy.float32(s) * direction[n] for n, a in arrays.items()})[1:]]
    found = tensmith.hvp(path, wrt=["x", "y"], of="result").run(**arrays, **{"tangent." + n: d for n, d in direction.items()})[-2:]
    for product, above, below in zip(found, moved(step), moved(-step)):
        assert numpy.asarray(product).shape == above.shape
        numpy.testing.assert_allclose(numpy.asarray(product), (above - below) / (2 * step), rtol=2e-2, atol=2e-2)


def test_what_is_expanded_to_a_shape_of_the_run():
    """Breaks if the size of what is expanded gets a name that no value has."""
    onnx = pytest.importorskip("onnx")
    node, info, FLOAT = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    nodes = [node("Shape", ["y"], ["s"]), node("Expand", ["x", "s"], ["e"]), node("Mul", ["e", "y"], ["p"]), node("Mul", ["p", "p"], ["q"]),
             node("ReduceSum", ["q"], ["loss"], keepdims=0)]  # fmt: skip
    graph = onnx.helper.make_graph(nodes, "g", [info("x", FLOAT, ["A", "B"]), info("y", FLOAT, ["C", "D"])], [info("loss", FLOAT, [])])
    text = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    random = numpy.random.default_rng(6)
    for shape in ((1, 3), (4, 1), (4, 3)):
        x, y = random.standard_normal(shape).astype("float32"), random.standard_normal((4, 3)).astype("float32")
        assert float(numpy.asarray(tensmith.compile(text)(x, y))) == pytest.approx(float(numpy.sum((x * y) ** 2)), rel=1e-5)
        of_x = numpy.asarray(tensmith.grad(text, wrt=["x"], of="loss").run(x=x, y=y)[1])
        lost = tuple(i for i in (0, 1) if shape[i] == 1)
        numpy.testing.assert_allclose(of_x, numpy.sum(2 * x * y * y, axis=lost, keepdims=True), rtol=1e-4)
