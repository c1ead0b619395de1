"""Values whose sizes only the run tells: what is broadcast to them, what has their size though nothing reads them, and
derivatives behind them. The oracle is NumPy."""

import numpy
import onnx
import pytest
from onnx import parser

import tensmith

RANDOM = numpy.random.default_rng(5)


def model(text):
    made = parser.parse_model(f'<ir_version: 9, opset_import: ["": 19]> {text}')
    onnx.checker.check_model(made)
    return made.SerializeToString()


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(numpy.float32)


def test_a_turned_tensor_is_broadcast_to_what_was_selected():
    compiled = tensmith.compile(model("""g (float[n, m, 1] x, float[q] f, float[k, m, n] u) => (float[k2, m, n] y) {
        t = Transpose<perm = [2, 1, 0]>(x) nz = NonZero(f) z = Constant<value_ints = [0]>() j = Squeeze(nz, z) i = Gather(u, j)
        y = Sub(t, i) }"""), threads=1)  # fmt: skip
    x, u = floats(37, 21, 1), floats(4, 21, 37)
    for chosen in ([1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 1, 1]):
        (y,) = compiled.run(x=x, u=u, f=numpy.float32(chosen))
        numpy.testing.assert_allclose(y, x.transpose(2, 1, 0) - u[numpy.array(chosen) > 0], atol=1e-6)


@pytest.mark.parametrize("columns", [5, 16, 1000])
def test_rows_of_several_results_are_written_over_no_operand_that_is_still_read(columns):
    compiled = tensmith.compile(model("""g (float[n, m] x) => (float[n, m] y, float ss, float tt) {
        s = Softmax<axis = -1>(x) a = Sigmoid(s) b = Exp(s) e = Relu(x) y = Add(e, s)
        ss = ReduceSum<keepdims = 0>(a) tt = ReduceSum<keepdims = 0>(b) }"""), threads=1)  # fmt: skip
    x = floats(30, columns)
    y, *_ = compiled.run(x=x)
    powers = numpy.exp(x.astype(float))
    numpy.testing.assert_allclose(y, numpy.maximum(x, 0) + powers / powers.sum(1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"fuse": False}, {"reference": True}])
def test_of_what_was_selected_only_the_number_is_wanted(settings):
    compiled = tensmith.compile(model("""g (float[n] x, float t) => (float[k] y) {
        i = NonZero(x) z = Constant<value_ints = [0]>() j = Squeeze(i, z) q = Gather(x, j) s = Shape(q) y = Expand(t, s) }"""),
                                threads=1, **settings)  # fmt: skip
    for x in ([1, 0, 3, 0, 5], [0, 0], [1, 2, 3]):
        (y,) = compiled.run(x=numpy.float32(x), t=numpy.float32(7))
        assert y.tolist() == [7] * numpy.count_nonzero(x)


SELECTED = """z = Constant<value_ints = [0, 1]>() r = Constant<value = float {0.5}>() mx = ReduceMax<keepdims = 0>(x, z)
    b = Greater(mx, r) k = Compress<axis = 2>(x, b) y = AveragePool<kernel_shape = [2], strides = [2]>(k) q = Mul(y, y)
    loss = ReduceSum<keepdims = 0>(q) }"""


@pytest.mark.parametrize("settings", [{}, {"fuse": False}, {"reference": True}])
def test_the_gradient_of_what_was_selected(settings):
    gradient = tensmith.grad(model("g (float[b, m, n] x) => (float loss) {" + SELECTED), wrt=["x"], of="loss", threads=1, **settings)
    for length in (30, 7):
        x = floats(3, 2, length)
        chosen = numpy.flatnonzero(x.max((0, 1)) > 0.5)
        pairs = chosen[: len(chosen) // 2 * 2].reshape(-1, 2)
        wanted = numpy.zeros_like(x)
        for pair in pairs:
            wanted[:, :, pair] = x[:, :, pair].mean(-1, keepdims=True)  # 2 y dy/dx, and each of the pair is half of y
        numpy.testing.assert_allclose(gradient(x=x)[1], wanted, atol=1e-5)


def test_the_gradient_of_a_rotation_by_half_of_an_open_size():
    gradient = tensmith.grad(model("""g (float[n, m] x, float[n, m] w) => (float loss) {
        s = Shape<start = 1, end = 2>(x) two = Constant<value_ints = [2]>() h = Div(s, two) one = Constant<value_ints = [1]>()
        zero = Constant<value_ints = [0]>() left = Slice(x, zero, h, one) right = Slice(x, h, s, one)
        roll = Concat<axis = 1>(right, left) p = Mul(roll, w) loss = ReduceSum<keepdims = 0>(p) }"""),
                             wrt=["x"], of="loss", threads=1)  # fmt: skip
    for columns in (2, 7, 40):
        x, w = floats(3, columns), floats(3, columns)
        half = columns // 2
        numpy.testing.assert_allclose(gradient(x=x, w=w)[1], numpy.roll(w, half, axis=1), atol=1e-6)


def test_an_addend_is_broadcast_to_the_product_and_not_the_product_to_it():
    text = "g (float[n, 4] a, float[4, 5] b, float[k, 5] c) => (float[n, 5] y) { y = Gemm(a, b, c) }"
    compiled = tensmith.compile(model(text), threads=1)
    a, b = floats(3, 4), floats(4, 5)
    for rows in (1, 3):
        c = floats(rows, 5)
        numpy.testing.assert_allclose(compiled.run(a=a, b=b, c=c)[0], a @ b + c, atol=1e-5)
    with pytest.raises(tensmith.Error, match="y \\(Gemm\\)"):
        compiled.run(a=a[:1], b=b, c=floats(3, 5))
    with pytest.raises(tensmith.Error, match="y \\(Gemm\\)"):
        tensmith.compile(model(text.replace("[n, 4]", "[1, 4]").replace("[k, 5]", "[3, 5]").replace("[n, 5]", "[1, 5]")))
