"""Situations of tensors without elements, windows that begin outside of the image (SAME with strides), and operators whose definitions
are functions, in double precision; see situations.py."""

import numpy
from situations import f32, i64, scalar, situation, softmax

f64 = lambda *shape: f32(*shape).astype("float64")  # noqa: E731

# Without elements.
situation(
    "matmul_of_no_depth_and_a_bias",
    "(float[2,0] x, float[0,3] w, float[3] b) => (float[?,?] y) { p = MatMul(x, w) y = Add(p, b) }",
    {"x": f32(2, 0), "w": f32(0, 3), "b": f32(3)},
    expected=lambda f: [numpy.tile(f["b"], (2, 1))],
)
situation(
    "einsum_of_no_depth",
    '(float[2,3,0] x, float[2,0,4] w) => (float[?,?,?] y) { y = Einsum<equation="bij,bjk->bik">(x, w) }',
    {"x": f32(2, 3, 0), "w": f32(2, 0, 4)},
    expected=lambda f: [numpy.zeros((2, 3, 4), "f4")],
)
situation("softmax_of_nothing", "(float[3,0] x) => (float[?,?] y) { y = Softmax<axis=-1>(x) }", {"x": f32(3, 0)}, expected=lambda f: [f["x"]])
situation("softmax_of_no_rows", "(float[0,3] x) => (float[?,?] y) { y = LogSoftmax<axis=-1>(x) }", {"x": f32(0, 3)}, expected=lambda f: [f["x"]])
situation(
    "layernorm_of_no_rows",
    "(float[0,4] x, float[4] s, float[4] b) => (float[?,?] y) { y = LayerNormalization(x, s, b) }",
    {"x": f32(0, 4), "s": f32(4), "b": f32(4)},
    expected=lambda f: [f["x"]],
)
situation(
    "batchnorm_and_relu_of_an_empty_batch",
    "(float[0,2,3] x, float[2] s, float[2] b, float[2] m, float[2] v) => (float[?,?,?] y) { n = BatchNormalization(x, s, b, m, v) y = Relu(n) }",
    {"x": f32(0, 2, 3), "s": f32(2), "b": f32(2), "m": f32(2), "v": numpy.abs(f32(2)) + 1},
    expected=lambda f: [f["x"]],
)
situation(
    "argmax_beside_nothing",
    "(float[0,3] x) => (int64[?,?] y) { y = ArgMax<axis=1, keepdims=1>(x) }",
    {"x": f32(0, 3)},
    expected=lambda f: [numpy.zeros((0, 1), "i8")],
)
situation(
    "mean_and_variance_beside_nothing",
    "(float[0,3] x) => (float[?] y, float[?] v) { a = Constant<value = int64[1] {-1}>() y = ReduceMean<keepdims=0>(x, a) v = "
    "ReduceL2<keepdims=0>(x, a) }",
    {"x": f32(0, 3)},
    expected=lambda f: [f32(0), f32(0)],
)
situation("cumsum_of_nothing", "(float[2,0] x, int64 a) => (float[?,?] y) { y = CumSum(x, a) }", {"x": f32(2, 0), "a": i64(1).reshape(())}, expected=lambda f: [f["x"]])
situation(
    "where_of_nothing_broadcast",
    "(bool[0,1] c, float[3] x, float[1,1] z) => (float[?,?] y) { y = Where(c, x, z) }",
    {"c": numpy.zeros((0, 1), bool), "x": f32(3), "z": f32(1, 1)},
    expected=lambda f: [f32(0, 3)],
)
situation(
    "gather_nd_by_no_indices",
    "(float[3,4] x, int64[0,2] i) => (float[?] y) { y = GatherND(x, i) }",
    {"x": f32(3, 4), "i": numpy.zeros((0, 2), "i8")},
    expected=lambda f: [f32(0)],
)
situation(
    "scatter_nd_of_no_updates",
    "(float[3,4] x, int64[0,1] i, float[0,4] u) => (float[?,?] y) { s = ScatterND(x, i, u) y = Mul(s, s) }",
    {"x": f32(3, 4), "i": numpy.zeros((0, 1), "i8"), "u": f32(0, 4)},
    expected=lambda f: [f["x"] ** 2],
)
situation(
    "split_of_nothing",
    "(float[2,0] x, int64[2] l) => (float[?,?] a, float[?,?] b) { a, b = Split<axis=1>(x, l) }",
    {"x": f32(2, 0), "l": i64(0, 0)},
    expected=lambda f: [f["x"], f["x"]],
)
situation(
    "depth_to_space_of_an_empty_batch",
    "(float[0,4,2,2] x) => (float[?,?,?,?] y) { y = DepthToSpace<blocksize=2>(x) }",
    {"x": f32(0, 4, 2, 2)},
    expected=lambda f: [f32(0, 1, 4, 4)],
)
situation(
    "convtranspose_of_an_empty_batch",
    "(float[0,2,3,3] x, float[2,1,2,2] w) => (float[?,?,?,?] y) { y = ConvTranspose<strides=[2,2]>(x, w) }",
    {"x": f32(0, 2, 3, 3), "w": f32(2, 1, 2, 2)},
    expected=lambda f: [f32(0, 1, 6, 6)],
)
situation(
    "lstm_of_an_empty_batch",
    "(float[3,0,2] x, float[1,8,2] w, float[1,8,2] r) => (float[?,?,?,?] y, float[?,?,?] h) { y, h = LSTM<hidden_size=2>(x, w, r) }",
    {"x": f32(3, 0, 2), "w": f32(1, 8, 2), "r": f32(1, 8, 2)},
    expected=lambda f: [f32(3, 1, 0, 2), f32(1, 0, 2)],
)
situation(
    "attention_of_no_queries",
    "(float[1,2,0,4] q, float[1,2,3,4] k, float[1,2,3,4] v) => (float[?,?,?,?] y) { y = Attention(q, k, v) }",
    {"q": f32(1, 2, 0, 4), "k": f32(1, 2, 3, 4), "v": f32(1, 2, 3, 4)},
    expected=lambda f: [f["q"]],
    opset=23,
)
situation(
    "concat_slice_and_sum_of_nothing",
    "(float[0,2] x, float[3,2] z) => (float[?] y) { c = Concat<axis=0>(x, z) s = Constant<value = int64[1] {3}>() e = Constant<value = "
    "int64[1] {9}>() r = Slice(c, s, e) a = Constant<value = int64[1] {0}>() y = ReduceSum<keepdims=0>(r, a) }",
    {"x": f32(0, 2), "z": f32(3, 2)},
    expected=lambda f: [numpy.zeros(2, "f4")],
)

# Windows of auto_pad with strides and dilations.
situation(
    "conv_same_upper_strides",
    '(float[1,2,7,5] x, float[3,2,3,3] w) => (float[?,?,?,?] y) { y = Conv<auto_pad="SAME_UPPER", strides=[2,3]>(x, w) }',
    {"x": f32(1, 2, 7, 5) / 8, "w": f32(3, 2, 3, 3) / 8},
    expected="ort",
)
situation(
    "conv_same_lower_even_window",
    '(float[1,1,6,9] x, float[2,1,2,4] w, float[2] b) => (float[?,?,?,?] y) { c = Conv<auto_pad="SAME_LOWER", strides=[2,2]>(x, w, b) y = Relu(c) }',
    {"x": f32(1, 1, 6, 9) / 8, "w": f32(2, 1, 2, 4) / 8, "b": f32(2)},
    expected="ort",
)
situation(
    "averagepool_same_strides",
    '(float[1,2,5,8] x) => (float[?,?,?,?] y) { y = AveragePool<auto_pad="SAME_UPPER", kernel_shape=[3,2], strides=[2,3]>(x) }',
    {"x": f32(1, 2, 5, 8)},
    expected="ort",
)
situation(
    "maxpool_same_lower_strides",
    '(float[1,1,7,4] x) => (float[?,?,?,?] y) { y = MaxPool<auto_pad="SAME_LOWER", kernel_shape=[4,3], strides=[3,2]>(x) }',
    {"x": f32(1, 1, 7, 4)},
    expected="ort",
)
situation(
    "convtranspose_same_upper",
    '(float[1,2,3,4] x, float[2,2,3,3] w) => (float[?,?,?,?] y) { y = ConvTranspose<auto_pad="SAME_UPPER", strides=[2,2]>(x, w) }',
    {"x": f32(1, 2, 3, 4) / 8, "w": f32(2, 2, 3, 3) / 8},
    expected="ort",
)

# Definitions that are functions, of doubles.
situation(
    "mvn_of_doubles",
    "(double[2,3,4] x) => (double[?,?,?] y) { y = MeanVarianceNormalization<axes=[0,2]>(x) }",
    {"x": f64(2, 3, 4)},
    expected=lambda f: [(f["x"] - f["x"].mean((0, 2), keepdims=True)) / (f["x"].std((0, 2), keepdims=True) + 1e-9)],
    opset=13,
)
situation(
    "layernorm_of_doubles",
    "(double[3,5] x, double[5] s, double[5] b) => (double[?,?] y) { y = LayerNormalization<epsilon=0.001>(x, s, b) }",
    {"x": f64(3, 5), "s": f64(5), "b": f64(5)},
    expected=lambda f: [
        (f["x"] - f["x"].mean(-1, keepdims=True)) / numpy.sqrt(f["x"].var(-1, keepdims=True) + 0.001) * f["s"] + f["b"]
    ],
    opset=17,
)
situation(
    "celoss_of_doubles",
    '(double[3,4] x, int64[3] l) => (double y) { y = SoftmaxCrossEntropyLoss<reduction="sum">(x, l) }',
    {"x": f64(3, 4), "l": i64(1, 0, 3)},
    expected=lambda f: [-numpy.log(softmax(f["x"])[numpy.arange(3), f["l"]]).sum()],
    opset=13,
)
situation(
    "groupnorm_of_doubles",
    "(double[2,4,3] x, double[4] s, double[4] b) => (double[?,?,?] y) { y = GroupNormalization<num_groups=2>(x, s, b) }",
    {"x": f64(2, 4, 3), "s": f64(4), "b": f64(4)},
)
situation("celu_and_softplus_of_doubles", "(double[2,5] x) => (double[?,?] y) { a = Mish(x) b = Softplus(x) c = HardSwish(x) d = Mul(a, b) y = Add(c, d) }", {"x": f64(2, 5)})
situation(
    "clip_of_doubles_by_half_open_bounds",
    "(double[5] x, double h) => (double[?] y) { c = Clip(x, , h) y = Mul(c, c) }",
    {"x": f64(5), "h": scalar(1.5, "float64")},
    expected=lambda f: [numpy.minimum(f["x"], 1.5) ** 2],
)
