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


@pytest.mark.parametrize("names", ["4, 4, ?, ?", "b, 4, h, w"])
@pytest.mark.parametrize("mode", ["jvp", "hvp"])
@pytest.mark.parametrize("pool", ["MaxPool", "AveragePool"])
def test_pools_of_pools_of_open_sizes(names, mode, pool, tmp_path):
    """Breaks if what was known of an operation that the derivative has taken away again is taken for another's, made in its place:
    of the second of two pools the size of the first, where sizes have no name of their own."""
    onnx = pytest.importorskip("onnx")
    pools = "".join(f"y{i}={pool}<kernel_shape=[2,2],strides=[2,2]>(y{i - 1}) " for i in (1, 2))
    text = f"<ir_version:9,opset_import:['':19]> g (float[{names}] y0) => (float loss) {{{pools} q=Mul(y2,y2) s=Sin(q) loss=ReduceSum<keepdims=0>(s)}}"
    model = onnx.parser.parse_model(text.replace("'", '"')).SerializeToString()
    random = numpy.random.default_rng(7)
    x, t = (random.standard_normal((4, 4, 16, 17)).astype("float32") for _ in range(2))
    gradient = tensmith.grad(model, wrt=["y0"], of="loss", shapes={"y0": x.shape})
    step = numpy.float32(1e-3)
    if mode == "jvp":
        found = tensmith.jvp(model, wrt=["y0"], of=["loss"]).run(**{"y0": x, "tangent.y0": t})[1]
        expected = numpy.sum(numpy.asarray(gradient.run(x)[1]).astype(float) * t)
        assert float(numpy.asarray(found)) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    else:
        found = tensmith.hvp(model, wrt=["y0"], of="loss").run(**{"y0": x, "tangent.y0": t})[-1]
        above, below = (numpy.asarray(gradient.run(x + s * step * t)[1]) for s in (1, -1))
        assert numpy.median(numpy.abs(numpy.asarray(found) - (above - below) / (2 * step))) < 1e-2
