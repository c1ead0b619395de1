"""Gradients of whole models by their compiled code: against differences in double precision, and against PyTorch's
where that is installed, which runs the same graph node by node."""

import os
import pathlib
import subprocess
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "python"

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="the Python package is not built")

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

sys.path.insert(0, str(PACKAGE))


class Graph:
    """An ONNX graph as it is written down: nodes by their inputs, parameters with drawn values."""

    def __init__(self, dtype, seed=0):
        self.dtype, self.random = numpy.dtype(dtype), numpy.random.default_rng(seed)
        self.nodes, self.parameters, self.constants, self.inputs = [], {}, {}, {}

    def input(self, name, array):
        self.inputs[name] = array
        return name

    def parameter(self, name, *shape, scale=None, positive=False):
        fan = numpy.prod(shape[1:]) if len(shape) > 1 else 4
        value = self.random.standard_normal(shape) * (scale or 1 / numpy.sqrt(fan))
        self.parameters[name] = (numpy.abs(value) + 0.5 if positive else value).astype(self.dtype)
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy.asarray(array)
        return name

    def scalar(self, value):
        return self.constant(numpy.asarray(value, self.dtype))

    def __call__(self, op, *inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=f"n{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def loss(self, y):
        """A sum with weights, so that every element counts differently."""
        return self("ReduceSum", self("Mul", y, self("Sin", y)), keepdims=0)

    def model(self, output):
        kind = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
        values = {**self.parameters, **self.constants}
        graph = helper.make_graph(
            self.nodes + [helper.make_node("Identity", [output], ["loss"])], "graph",
            [helper.make_tensor_value_info(n, kind[str(a.dtype)], a.shape) for n, a in self.inputs.items()],
            [helper.make_tensor_value_info("loss", kind[str(self.dtype)], [])],
            [numpy_helper.from_array(a, n) for n, a in values.items()],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        onnx.checker.check_model(model)
        return model


def mlp(dtype):
    g = Graph(dtype)
    x = g.input("x", g.random.standard_normal((5, 7)).astype(dtype))
    for i, (a, b) in enumerate([(7, 13), (13, 9), (9, 4)]):
        x = g("Gemm", x, g.parameter(f"w{i}", b, a), g.parameter(f"b{i}", b), transB=1)
        x = g(["Relu", "Gelu", "LogSoftmax"][i], x)
    return g, g.loss(x)


def cnn(dtype):
    g = Graph(dtype, 1)

    def conv(x, name, cin, cout, k, group=1, bias=False, **attributes):
        inputs = [x, g.parameter(name, cout, cin // group, k, k)] + ([g.parameter(name + "b", cout)] if bias else [])
        return g("Conv", *inputs, group=group, **attributes)

    def norm(x, name, channels):
        return g("BatchNormalization", x, g.parameter(name + "s", channels), g.parameter(name + "o", channels),
                 g.parameter(name + "m", channels), g.parameter(name + "v", channels, positive=True))  # fmt: skip

    x = g.input("x", g.random.standard_normal((2, 3, 17, 15)).astype(dtype))
    x = g("Relu", norm(conv(x, "stem", 3, 8, 7, strides=[2, 2], pads=[3, 3, 3, 3], bias=True), "n0", 8))
    x = g("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = g("Relu", norm(conv(x, "c1", 8, 8, 3, pads=[1, 1, 1, 1]), "n1", 8))
    x = g("Add", x, conv(y, "c2", 8, 8, 3, pads=[1, 1, 1, 1], group=4))  # in groups, and a residual
    x = g("Relu", conv(x, "c3", 8, 8, 3, pads=[2, 1, 0, 1], group=8, strides=[2, 1]))  # depthwise, uneven
    x = g("AveragePool", x, kernel_shape=[2, 3], pads=[0, 1, 1, 1], strides=[1, 2])
    x = conv(x, "c4", 8, 6, 1, dilations=[1, 1])
    x = g("Flatten", g("GlobalAveragePool", x))
    return g, g.loss(g("Gemm", x, g.parameter("w", 6, 5), g.parameter("b", 5)))


def bert(dtype, layers=2, batch=2, length=9, width=24, heads=3):
    g = Graph(dtype, 2)
    tokens = g.input("tokens", g.random.integers(0, 11, (batch, length)))
    x = g("Gather", g.parameter("words", 11, width, scale=1), tokens)
    x = g("Add", x, g.parameter("places", length, width, scale=1))
    mask = g.constant(numpy.where(numpy.arange(length) < length - 2, 0, -1e4).astype(dtype).reshape(1, 1, 1, length))

    def linear(x, name, a, b):
        return g("Add", g("MatMul", x, g.parameter(name + "w", a, b, scale=1 / numpy.sqrt(a))), g.parameter(name + "b", b))

    def split(x):
        shape = g.constant(numpy.array([batch, length, heads, width // heads]))
        return g("Transpose", g("Reshape", x, shape), perm=[0, 2, 1, 3])

    def norm(x, name):
        return g("LayerNormalization", x, g.parameter(name + "s", width), g.parameter(name + "o", width), axis=-1)

    for i in range(layers):
        q, k, v = (split(linear(x, f"{i}{part}", width, width)) for part in "qkv")
        scores = g("Div", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), g.scalar(numpy.sqrt(width // heads)))
        y = g("MatMul", g("Softmax", g("Add", scores, mask), axis=-1), v)
        y = g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), g.constant(numpy.array([batch, length, width])))
        x = norm(g("Add", x, linear(y, f"{i}p", width, width)), f"{i}n")
        y = g("Gelu", linear(x, f"{i}f", width, 2 * width))
        x = norm(g("Add", x, linear(y, f"{i}g", 2 * width, width)), f"{i}m")
    return g, g.loss(g("Tanh", linear(x, "head", width, 3)))


def lstm(dtype, length=6, batch=3, size=5, hidden=7):
    g = Graph(dtype, 3)
    x = g.input("x", g.random.standard_normal((length, batch, size)).astype(dtype))
    scale = 1 / numpy.sqrt(hidden)
    y, h, c = g("LSTM", x, g.parameter("w", 1, 4 * hidden, size, scale=scale), g.parameter("r", 1, 4 * hidden, hidden, scale=scale),
                g.parameter("b", 1, 8 * hidden), "", g.parameter("h", 1, batch, hidden), g.parameter("c", 1, batch, hidden),
                hidden_size=hidden, outputs=3)  # fmt: skip
    y = g("MatMul", y, g.parameter("out", hidden, 4))
    return g, g("Add", g.loss(y), g("ReduceSum", g("Mul", h, c), keepdims=0))


def loop(dtype):
    """x <- tanh(x w + row i of b), until the sum is large or four times."""
    g = Graph(dtype, 4)
    x = g.input("x", g.random.standard_normal((2, 3)).astype(dtype))
    g.parameter("w", 3, 3)
    g.parameter("rows", 4, 3)
    kind = TensorProto.DOUBLE if dtype == "float64" else TensorProto.FLOAT
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["h", "w"], ["p"]),
        helper.make_node("Gather", ["rows", "i"], ["row"], axis=0),
        helper.make_node("Add", ["p", "row"], ["s"]),
        helper.make_node("Tanh", ["s"], ["next"]),
        helper.make_node("Mul", ["next", "next"], ["square"]),
        helper.make_node("ReduceSum", ["square"], ["sum"], keepdims=0),
        helper.make_node("Less", ["sum", g.scalar(100)], ["more"]),
        helper.make_node("Mul", ["next", "h"], ["scanned"]),
    ]
    body = helper.make_graph(
        nodes, "body", [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("h", kind, [2, 3])],
        [value("more", TensorProto.BOOL, []), value("next", kind, [2, 3]), value("scanned", kind, [2, 3])])  # fmt: skip
    last, all_ = g("Loop", g.constant(numpy.array(4)), "", x, body=body, outputs=2)
    return g, g("Add", g.loss(last), g.loss(all_))


MODELS = [mlp, cnn, bert, lstm, loop]


def values_of(graph, extra=()):
    wrt = [n for n, a in graph.inputs.items() if a.dtype == graph.dtype] + list(graph.parameters)
    return wrt, {**graph.inputs, **{n: graph.parameters[n] for n in wrt if n in graph.parameters}, **dict(extra)}


@pytest.mark.parametrize("build", MODELS, ids=lambda f: f.__name__)
def test_gradients_are_the_slopes(build):
    import tensmith

    graph, output = build("float64")
    wrt, given = values_of(graph)
    compiled = tensmith.grad(graph.model(output).SerializeToString(), wrt, "loss", cache_dir="")
    assert [port["name"] for port in compiled.outputs] == ["loss"] + [f"gradient.{name}" for name in wrt]
    gradients = dict(zip(wrt, compiled.run(**given)[1:]))
    for name in wrt:
        direction = graph.random.standard_normal(given[name].shape)
        slopes = []
        for distance in (1e-6, 2e-7):  # kinks are further apart than that
            sides = [compiled.run(**{**given, name: given[name] + side * distance * direction})[0] for side in (1, -1)]
            slopes.append(float(sides[0] - sides[1]) / (2 * distance))
        assert gradients[name].shape == given[name].shape
        actual = float((gradients[name] * direction).sum())
        assert numpy.isclose(actual, slopes[1], rtol=2e-5, atol=2e-6 * max(1, abs(slopes[1]))), (name, slopes, actual)


@pytest.mark.parametrize("build", MODELS, ids=lambda f: f.__name__)
def test_tangents_are_gradients_along_a_direction(build):
    import tensmith

    graph, output = build("float64")
    wrt, given = values_of(graph)
    model = graph.model(output).SerializeToString()
    directions = {f"tangent.{name}": graph.random.standard_normal(given[name].shape) for name in wrt}
    gradients = tensmith.grad(model, wrt, "loss", cache_dir="").run(**given)[1:]
    tangent = tensmith.jvp(model, wrt, cache_dir="").run(**given, **directions)[1]
    expected = sum((g * directions[f"tangent.{name}"]).sum() for name, g in zip(wrt, gradients))
    assert numpy.isclose(float(tangent), float(expected), rtol=1e-9)


@pytest.mark.parametrize("build", [mlp, lstm, loop], ids=lambda f: f.__name__)
def test_products_with_the_hessian(build):
    """Against differences of the gradient; and the matrix is symmetric."""
    import tensmith

    graph, output = build("float64")
    wrt, given = values_of(graph)
    model = graph.model(output).SerializeToString()
    compiled = tensmith.hvp(model, wrt, "loss", cache_dir="")

    def product(directions):
        outputs = compiled.run(**given, **{f"tangent.{name}": d for name, d in zip(wrt, directions)})
        return outputs[1 + len(wrt):]  # fmt: skip

    u, v = ([graph.random.standard_normal(given[name].shape) for name in wrt] for _ in range(2))
    hu, hv = product(u), product(v)
    inner = lambda a, b: sum(float((x * y).sum()) for x, y in zip(a, b))  # noqa: E731
    assert numpy.isclose(inner(hu, v), inner(hv, u), rtol=1e-9)
    gradient = tensmith.grad(model, wrt, "loss", cache_dir="")
    sides = []
    for side in (1, -1):
        moved = {**given, **{name: given[name] + side * 1e-5 * d for name, d in zip(wrt, u)}}
        sides.append(gradient.run(**moved)[1:])
    for name, a, b, h in zip(wrt, *sides, hu):
        assert numpy.allclose((a - b) / 2e-5, h, rtol=1e-4, atol=1e-5 * max(1, numpy.abs(h).max())), name


def test_a_cotangent_weighs_an_output():
    import tensmith

    g = Graph("float32")
    x = g.input("x", g.random.standard_normal((4, 3)).astype("float32"))
    y = g("MatMul", x, g.parameter("w", 3, 2))
    model = g.model(g.loss(y))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(y, TensorProto.FLOAT, [4, 2]))
    compiled = tensmith.grad(model.SerializeToString(), ["w"], y, cache_dir="")
    weights = g.random.standard_normal((4, 2)).astype("float32")
    outputs = compiled.run(x=g.inputs["x"], w=g.parameters["w"], **{f"cotangent.{y}": weights})
    assert numpy.allclose(outputs[1], g.inputs["x"].T @ weights, atol=1e-5)


def test_what_has_no_derivative_is_named():
    import tensmith

    g = Graph("float32")
    x = g.input("x", g.random.standard_normal((3, 3)).astype("float32"))
    model = g.model(g.loss(g("Unique", x))).SerializeToString()
    with pytest.raises(tensmith.Error, match=r"n0 \(Unique\)'.*has no derivative"):
        tensmith.grad(model, ["x"], "loss")
    with pytest.raises(tensmith.Error, match="there is no input 'y'"):
        tensmith.grad(model, ["y"], "loss")
    with pytest.raises(tensmith.Error, match="there is no output 'cost'"):
        tensmith.grad(model, ["x"], "cost")


def test_names_tell_derivatives_apart():
    import tensmith

    g = Graph("float32")
    x = g.input("x", g.random.standard_normal((3, 3)).astype("float32"))
    model = g.model(g("Tanh", x)).SerializeToString()
    with pytest.raises(tensmith.Error, match="'x' is named twice"):
        tensmith.grad(model, ["x", "x"], "loss")
    with pytest.raises(tensmith.Error, match="there is an output 'gradient.loss.x' already"):
        tensmith.compile(model, derivatives=[("grad", "loss", ["x"])] * 3)


def test_derivatives_of_derivatives_and_of_several_outputs():
    """Breaks if a second derivative by the same input, or that of a second output, has no name of its own."""
    import tensmith

    nodes = [helper.make_node("Mul", ["x", "x"], ["square"]), helper.make_node("Mul", ["square", "x"], ["cube"]),
             helper.make_node("ReduceSum", ["cube"], ["a"], keepdims=0), helper.make_node("Sin", ["x"], ["b"])]  # fmt: skip
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.DOUBLE, ["N"])],
                              [info("a", TensorProto.DOUBLE, []), info("b", TensorProto.DOUBLE, ["N"])])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()
    x, g = numpy.array([0.5, -1.0, 2.0]), numpy.array([1.0, 2.0, 3.0])
    both = tensmith.compile(model, derivatives=[("grad", "a", ["x"]), ("grad", "b", ["x"]), ("grad", "gradient.x", ["x"])])
    assert [o["name"] for o in both.outputs] == ["a", "b", "gradient.x", "gradient.b.x", "gradient.gradient.x.x"]
    results = [numpy.asarray(v) for v in both.run(**{"x": x, "cotangent.b": g, "cotangent.gradient.x": g})]
    for found, expected in zip(results[2:], [3 * x * x, g * numpy.cos(x), g * 6 * x]):
        numpy.testing.assert_allclose(found, expected, rtol=1e-12)
    twice = tensmith.compile(model, derivatives=[("jvp", ["b"], ["x"]), ("jvp", ["tangent.b"], ["x"])])
    along = [numpy.asarray(v) for v in twice.run(**{"x": x, "tangent.x": g})]
    numpy.testing.assert_allclose(along[-1], -numpy.sin(x) * g * g, rtol=1e-12)


def doubled(model):
    """The model with f64 for f32, in its loops' bodies too."""

    def double(tensor):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float64"), tensor.name))

    def visit(graph):
        for tensor in graph.initializer:
            double(tensor)
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)
                if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.DOUBLE

    visit(model.graph)
    return model


@pytest.mark.parametrize("seed", range(16))
def test_gradients_of_random_loops_are_the_slopes(seed):
    """Bodies drawn at random, with trips that the run tells, or few enough for straight code; each output, both modes."""
    import tensmith

    test_loops = pytest.importorskip("test_loops", reason="ONNX Runtime is not installed")
    random = numpy.random.default_rng(500 + seed)
    trips = None if seed % 2 else 1 + seed % 5
    whole, feeds = test_loops.model(random, trips, seed % 3 > 0)
    feeds = {name: array.astype("float64") for name, array in feeds.items()}
    if trips is None:
        feeds["x"] = numpy.zeros(int(random.integers(0, 9)))
    model = doubled(whole).SerializeToString()
    plain = tensmith.compile(model, cache_dir="")
    directions = {name: random.standard_normal(feeds[name].shape) for name in ("a0", "b0")}
    tangents = tensmith.jvp(model, ["a0", "b0"], cache_dir="")
    along = tangents.run(**feeds, **{f"tangent.{name}": d for name, d in directions.items()})
    slopes = []
    for distance in (1e-6, 3e-7):
        sides = [plain.run(**{n: a + side * distance * directions.get(n, 0) for n, a in feeds.items()}) for side in (1, -1)]
        slopes.append([(a - b) / (2 * distance) for a, b in zip(*sides)])
    for number, port in enumerate(plain.outputs):
        result = sides[0][number]
        if not numpy.allclose(slopes[0][number], slopes[1][number], rtol=1e-4, atol=1e-6):
            continue  # a kink
        cotangent = random.standard_normal(result.shape)
        compiled = tensmith.grad(model, ["a0", "b0"], port["name"], cotangent=True, cache_dir="")
        outputs = compiled.run(**feeds, **{f"cotangent.{port['name']}": cotangent})
        actual = sum(float((g * directions[n]).sum()) for n, g in zip(("a0", "b0"), outputs[-2:]))
        expected = float((slopes[1][number] * cotangent).sum())
        scale = max(1, numpy.abs(slopes[1][number] * cotangent).sum())
        assert abs(actual - expected) <= 1e-5 * scale, port["name"]
        assert numpy.allclose(along[len(plain.outputs) + number], slopes[1][number], rtol=1e-4, atol=1e-5 * scale)


PROGRAMS = {
    # Functions that call one another; one of them twice.
    "calls": ("""
fn f(x) = sin(x) * x
fn layer(w, x) = tanh(x @ w)
fn main(x: f64[n, 3], w: f64[3, 3]) = reduce_sum(f(layer(w, layer(w, x))), axes = [0, 1])
""", ["x", "w"]),
    # A recursion as deep as the run says, and one that calls itself twice.
    "recursion": ("""
fn power(x: f64[n], w: f64[n], k: i64[]) -> f64[n] =
  if k == 0 { x } else { sin(power(x * w, w, k - 1)) + power(x + 1.0, w, k / 2) * w }
fn main(x: f64[n], w: f64[n], k: i64[]) = reduce_sum(power(x, w, k), axes = [0])
""", ["x", "w"]),
    # A recursion over data; several outputs.
    "tree": ("""
fn total(tree, w) =
  match tree {
    Leaf(x) => x,
    Node(left, right) => tanh((total(left, w) + total(right, w)) @ w),
  }
fn main(tree: Tree[f64[1, 3]], w: f64[3, 3]) = {
  let y = total(tree, w);
  (reduce_sum(y, axes = [0, 1]), y)
}
""", ["w"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_programs_are_the_slopes(name, tmp_path):
    import tensmith

    text, wrt = PROGRAMS[name]
    (tmp_path / "program.tsm").write_text(text)
    random = numpy.random.default_rng(1)
    draw = lambda *shape: random.standard_normal(shape)  # noqa: E731
    model = tensmith.compile(tmp_path / "program.tsm", cache_dir="")
    if name == "tree":
        leaf, node = model.constructors["Leaf"], model.constructors["Node"]
        grow = lambda n: node(grow(n - 1), grow(n - 2)) if n > 0 else leaf(draw(1, 3))  # noqa: E731
        given = {"tree": grow(6), "w": draw(3, 3)}
    else:
        given = {"x": draw(4, 3), "w": draw(3, 3)} if name == "calls" else {"x": draw(4), "w": draw(4), "k": numpy.array(6)}
    of = model.outputs[0]["name"]
    compiled = tensmith.grad(tmp_path / "program.tsm", wrt, of, cache_dir="")
    assert [port["name"] for port in compiled.outputs[-len(wrt):]] == [f"gradient.{n}" for n in wrt]  # fmt: skip
    outputs = compiled.run(**given)
    assert numpy.allclose(outputs[0], model.run(**given)[0], rtol=1e-12)
    for parameter, gradient in zip(wrt, outputs[-len(wrt):]):  # fmt: skip
        direction = draw(*given[parameter].shape)
        sides = [model.run(**{**given, parameter: given[parameter] + side * 1e-6 * direction})[0] for side in (1, -1)]
        slope = float(sides[0] - sides[1]) / 2e-6
        assert numpy.isclose(slope, float((gradient * direction).sum()), rtol=1e-5, atol=1e-6)


def test_programs_without_a_derivative_are_refused(tmp_path):
    import tensmith

    (tmp_path / "constant.tsm").write_text("let w = 2.0\nlet unused = 3.0\nfn main(x: f32[]) = x * w\n")
    with pytest.raises(tensmith.Error, match="'unused' is not used by main"):
        tensmith.grad(tmp_path / "constant.tsm", ["unused"], "result", cache_dir="")


class TorchRun:
    """Runs a graph's nodes by PyTorch, which remembers what its gradients need."""

    def __init__(self, torch, graph):
        self.torch, self.graph = torch, graph
        arrays = {**graph.inputs, **graph.parameters, **graph.constants}
        self.values = {name: torch.tensor(array) for name, array in arrays.items()}
        for name in values_of(graph)[0]:
            self.values[name].requires_grad_()

    def run(self, output):
        for node in self.graph.nodes:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            results = getattr(self, node.op_type)(*(self.values.get(name) for name in node.input), **attributes)
            results = results if isinstance(results, tuple) else (results,)
            self.values.update(zip(node.output, results))
        self.values[output].backward()
        return {name: self.values[name].grad.numpy() for name in values_of(self.graph)[0]}

    def Gemm(self, x, w, b, transB=0):
        return x @ (w.T if transB else w) + b

    def Gelu(self, x):
        return self.torch.nn.functional.gelu(x)

    def LogSoftmax(self, x):
        return self.torch.log_softmax(x, -1)

    def Softmax(self, x, axis):
        return self.torch.softmax(x, axis)

    def ReduceSum(self, x, keepdims):
        return x.sum()

    def Conv(self, x, w, b=None, group=1, strides=1, pads=(0, 0, 0, 0), dilations=1):
        top, left, bottom, right = pads
        x = self.torch.nn.functional.pad(x, (left, right, top, bottom))
        return self.torch.nn.functional.conv2d(x, w, b, strides, 0, dilations, group)

    def BatchNormalization(self, x, scale, bias, mean, variance):
        along = lambda v: v[:, None, None]  # noqa: E731
        return (x - along(mean)) / self.torch.sqrt(along(variance) + 1e-5) * along(scale) + along(bias)

    def MaxPool(self, x, kernel_shape, strides, pads):
        return self.torch.nn.functional.max_pool2d(x, kernel_shape, strides, pads[:2])

    def AveragePool(self, x, kernel_shape, strides, pads):
        top, left, bottom, right = pads
        pad = lambda v: self.torch.nn.functional.pad(v, (left, right, top, bottom))  # noqa: E731
        pool = lambda v: self.torch.nn.functional.avg_pool2d(v, kernel_shape, strides)  # noqa: E731
        return pool(pad(x)) / pool(pad(self.torch.ones_like(x)))

    def GlobalAveragePool(self, x):
        return x.mean((2, 3), keepdim=True)

    def Flatten(self, x):
        return x.flatten(1)

    def Gather(self, x, indices):
        return x[indices]

    def Transpose(self, x, perm):
        return x.permute(perm)

    def Reshape(self, x, shape):
        return x.reshape(shape.tolist())

    def LayerNormalization(self, x, scale, bias, axis):
        return self.torch.nn.functional.layer_norm(x, scale.shape, scale, bias)

    def LSTM(self, x, w, r, b, lengths, h, c, hidden_size):
        parts = lambda v: v.split(hidden_size, -1)  # noqa: E731
        outputs, h, c = [], h[0], c[0]
        for row in x:
            i, o, f, z = parts(row @ w[0].T + h @ r[0].T + b[0, : 4 * hidden_size] + b[0, 4 * hidden_size :])
            c = self.torch.sigmoid(f) * c + self.torch.sigmoid(i) * self.torch.tanh(z)
            h = self.torch.sigmoid(o) * self.torch.tanh(c)
            outputs.append(h)
        return self.torch.stack(outputs)[:, None], h[None], c[None]

    def __getattr__(self, name):
        same = {"Relu": "relu", "Mul": "mul", "Add": "add", "Div": "div", "Sin": "sin", "Tanh": "tanh", "MatMul": "matmul"}
        return getattr(self.torch, same[name])


@pytest.mark.parametrize("build", [mlp, cnn, bert, lstm], ids=lambda f: f.__name__)
def test_gradients_are_those_of_pytorch(build):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import tensmith

    graph, output = build("float32")
    wrt, given = values_of(graph)
    expected = TorchRun(torch, graph).run(output)
    compiled = tensmith.grad(graph.model(output).SerializeToString(), wrt, "loss", cache_dir="")
    for name, gradient in zip(wrt, compiled.run(**given)[1:]):
        scale = max(numpy.abs(expected[name]).max(), 1e-3)  # the keys' biases have none but for rounding
        assert numpy.abs(gradient - expected[name]).max() <= 1e-4 * scale, name


def pool(path, size, kernel, stride, total="ReduceSum"):
    graph = helper.make_graph(
        [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2),
         helper.make_node(total, ["y"], ["sum"], keepdims=0)], "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, size, size])],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, [])])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


# Breaks when what is asked of a place in its tile is a constant: of a large picture one that has no room.
def test_the_gradient_of_tiles_has_no_constant(tmp_path):
    import tensmith

    module = tensmith.grad(pool(tmp_path / "pool.onnx", 384, 2, 2, "ReduceSumSquare"), wrt=["x"], of="sum")
    module.save(tmp_path / "pool.so")
    assert (tmp_path / "pool.so").stat().st_size < 384 * 384 * 4 / 2
    x = numpy.random.default_rng(2).integers(0, 3, (1, 1, 384, 384)).astype(numpy.float32)
    tiles = x.reshape(192, 2, 192, 2).swapaxes(1, 2).reshape(192, 192, 4)
    expected = numpy.eye(4, dtype=numpy.float32)[tiles.argmax(axis=2)].reshape(192, 192, 2, 2).swapaxes(1, 2)
    numpy.testing.assert_array_equal(module.run(x)[-1], 2 * x * expected.reshape(x.shape))
    large = pool(tmp_path / "large.onnx", 1 << 17, 2, 2)
    said = subprocess.run([sys.executable, "-c", "import sys, tensmith; tensmith.grad(sys.argv[1], wrt=['x'], of='sum')", large],
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, timeout=120)  # fmt: skip
    assert said.returncode == 0 or "tensmith._tensmith.Error" in said.stderr, said


# Breaks when a window that holds a NaN, and so gives it, sends its gradient elsewhere or nowhere.
@pytest.mark.parametrize("kernel, stride", [(2, 2), (3, 1), (2, 1)])
def test_gradients_of_windows_with_nans_go_to_them(tmp_path, kernel, stride):
    import tensmith

    module = tensmith.grad(pool(tmp_path / "pool.onnx", 8, kernel, stride), wrt=["x"], of="sum")
    x = numpy.random.default_rng(2).standard_normal((1, 1, 8, 8)).astype(numpy.float32)
    x[0, 0, [0, 3, 4, 4], [0, 4, 6, 7]] = numpy.nan
    x[0, 0, 6:, :2] = -numpy.inf
    expected = numpy.zeros_like(x)
    for i in range(0, 9 - kernel, stride):
        for j in range(0, 9 - kernel, stride):
            row, column = divmod(x[0, 0, i : i + kernel, j : j + kernel].argmax(), kernel)  # NumPy's is the first NaN, too
            expected[0, 0, i + row, j + column] += 1
    numpy.testing.assert_array_equal(module.run(x)[-1], expected)


def zeroed(shape, *zeros):
    x = numpy.random.default_rng(2).standard_normal(shape)
    for at in zeros:
        x[at] = 0
    return x


# Each is linear in each element of x alone, so that differences over any distance are derivatives.
PRODUCTS = {
    "reduce_prod": ("x: f64[4, 5], c: f64[4]", "reduce_prod(x, axes = [1])", zeroed((4, 5), (1, 2), (2, 0), (2, 4), 3)),
    "cumprod": ("x: f64[4, 5], c: f64[4, 5]", "cumprod(x, axis = 1)", zeroed((4, 5), (1, 2), (2, 0), (2, 3), 3)),
    "det": ("x: f64[4, 3, 3], c: f64[4]", "det(x)", zeroed((4, 3, 3), (1, 2), (2, 0), (2, 2), 3)),
    "scatter": ("x: f64[6], c: f64[3], to: i64[6]", 'scatter_elements(c, to, x, axis = 0, reduction = "mul")', zeroed(6, 1, 3, 4)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_derivatives_of_products_are_right_at_zeros(name, tmp_path):
    """No factor, one and several of a product are zero. Of a scatter the second derivative is not told there."""
    import tensmith

    parameters, product, x = PRODUCTS[name]
    axes = [0, 1] if name == "cumprod" else [0]
    (tmp_path / "product.tsm").write_text(f"fn main({parameters}) = reduce_sum(c * {product}, axes = {axes})\n")
    draw = numpy.random.default_rng(3)
    given = {"c": draw.standard_normal({"cumprod": (4, 5), "scatter": 3}.get(name, 4))}
    if name == "scatter":
        given["to"] = numpy.array([0, 0, 1, 1, 1, 2])
    plain = tensmith.compile(tmp_path / "product.tsm", cache_dir="")

    def slope(at, **fixed):
        ends = []
        for end in (1.0, 0.0):
            moved = x.copy()
            for place, value in [*fixed.get("others", []), (at, end)]:
                moved[place] = value
            ends.append(float(plain.run(x=moved, **given)[0]))
        return ends[0] - ends[1]

    places = list(numpy.ndindex(x.shape))
    gradient = numpy.array([slope(at) for at in places]).reshape(x.shape)
    model = tensmith.grad(tmp_path / "product.tsm", "x", "result", cache_dir="")
    numpy.testing.assert_allclose(model.run(x=x, **given)[1], gradient, atol=1e-12)
    if name == "scatter":
        return
    direction = draw.standard_normal(x.shape)
    mixed = [[slope(b, others=[(a, 1.0)]) - slope(b, others=[(a, 0.0)]) if a != b else 0 for b in places] for a in places]
    second = tensmith.hvp(tmp_path / "product.tsm", "x", "result", cache_dir="")
    got = second.run(x=x, **given, **{"tangent.x": direction})[-1]
    numpy.testing.assert_allclose(got.ravel(), numpy.array(mixed) @ direction.ravel(), atol=1e-12)
