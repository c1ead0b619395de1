"""Situations of sizes: axes, slices, shapes, indices, and what exporters compute of shapes; see situations.py."""

import numpy
from situations import boxes, f32, i64, scalar, situation, softmax

# Axes that are negative, or that the run tells.
situation(
    "resize_negative_axes",
    (
        "(float[1,1,4,4,4] x, float[3] s) => (float[?,?,?,?,?] y) { n = Constant<value = int64[3] {-3,-2,-1}>() y = "
        'Resize<axes=[-3,-2,-1], mode="linear">(x, , s) }'
    ),
    {"x": f32(1, 1, 4, 4, 4), "s": numpy.array([0.75, 0.5, 1.5], "f4")},
    expected="ort",
)
situation(
    "onehot_negative_axis",
    "(int64[2,3] x, int64 d, float[2] v) => (float[?,?,?] y) { y = OneHot<axis=-2>(x, d, v) }",
    {"x": i64(-1, 0, 2, 5, -3, 7).reshape(2, 3), "d": i64(3).reshape(()), "v": f32(2)},
    expected="ort",
)
situation(
    "onehot_depth_of_one_element",
    "(int32[4] x, int64[1] d, int64[2] v) => (int64[?,?] y) { y = OneHot(x, d, v) }",
    {"x": numpy.array([0, -5, 4, 5], "i4"), "d": i64(5), "v": i64(2, 9)},
    expected=lambda f: [numpy.where((f["x"][:, None] % 5 == numpy.arange(5)) & (f["x"] < 5)[:, None], 9, 2)],
)
situation(
    "reduce_axes_at_run_time",
    "(float[2,3,4] x, int64[n] a) => (float[?,?,?] y) { y = ReduceSum<keepdims=1>(x, a) }",
    {"x": f32(2, 3, 4), "a": i64(-1, 0)},
)
situation(
    "reduce_no_axes_at_run_time",
    "(float[2,3,4] x, int64[n] a) => (float[?,?,?] y) { y = ReduceMax<keepdims=1, noop_with_empty_axes=1>(x, a) }",
    {"x": f32(2, 3, 4), "a": i64()},
)
situation(
    "reduce_all_by_empty_axes",
    "(float[2,3,4] x, int64[n] a) => (float[?,?,?] y) { y = ReduceMin<keepdims=1>(x, a) }",
    {"x": f32(2, 3, 4), "a": i64()},
)
situation("softmax_of_opset_11", "(float[2,3,4] x) => (float[?,?,?] y) { y = Softmax(x) }", {"x": f32(2, 3, 4)}, "ort", 11)
situation("softmax_negative_axis_of_opset_11", "(float[2,3,4] x) => (float[?,?,?] y) { y = LogSoftmax<axis=-2>(x) }", {"x": f32(2, 3, 4)}, "ort", 11)
situation("hardmax_of_opset_11", "(float[2,3,4] x) => (float[?,?,?] y) { y = Hardmax<axis=1>(x) }", {"x": f32(2, 3, 4)}, "ort", 11)
situation("flatten_negative_axis", "(float[2,3,4,5] x) => (float[?,?] y) { y = Flatten<axis=-2>(x) }", {"x": f32(2, 3, 4, 5)})
situation("flatten_of_a_number", "(float x) => (float[?,?] y) { y = Flatten<axis=0>(x) }", {"x": scalar(3.5)})
situation(
    "cumsum_axis_at_run_time",
    "(float[3,5] x, int64 a) => (float[?,?] y) { y = CumSum<exclusive=1, reverse=1>(x, a) }",
    {"x": f32(3, 5), "a": i64(-2).reshape(())},
    expected="ort",
)
situation(
    "split_axis_negative_uneven",
    "(float[2,7] x) => (float[?,?] a, float[?,?] b, float[?,?] c) { a, b, c = Split<axis=-1, num_outputs=3>(x) }",
    {"x": f32(2, 7)},
)
situation(
    "split_lengths_with_a_zero",
    "(float[2,7] x, int64[3] s) => (float[?,?] a, float[?,?] b, float[?,?] c) { a, b, c = Split<axis=-1>(x, s) }",
    {"x": f32(2, 7), "s": i64(4, 0, 3)},
)
situation(
    "concat_with_nothing",
    "(float[0,3] x, float[2,3] y, float[0,3] z) => (float[?,?] r) { r = Concat<axis=-2>(x, y, z) }",
    {"x": f32(0, 3), "y": f32(2, 3), "z": f32(0, 3)},
)
situation(
    "gather_negative_indices",
    "(float[5,2] x, int32[2,2] i) => (float[?,?,?] y) { y = Gather<axis=-2>(x, i) }",
    {"x": f32(5, 2), "i": numpy.array([[-1, 0], [-5, 4]], "i4")},
)
situation("gather_by_no_indices", "(float[5,2] x, int64[0] i) => (float[?,?] y) { y = Gather(x, i) }", {"x": f32(5, 2), "i": i64()})
situation(
    "gather_elements_negative",
    "(float[3,4] x, int64[2,4] i) => (float[?,?] y) { y = GatherElements<axis=-2>(x, i) }",
    {"x": f32(3, 4), "i": numpy.arange(8).reshape(2, 4) % 6 - 3},
)
situation(
    "gather_nd_batch",
    "(float[2,3,4] x, int64[2,2,1] i) => (float[?,?,?] y) { y = GatherND<batch_dims=1>(x, i) }",
    {"x": f32(2, 3, 4), "i": i64(-1, 0, 2, -3).reshape(2, 2, 1)},
)
situation(
    "gather_nd_whole",
    "(float[2,3] x, int64[4,2] i) => (float[?] y) { y = GatherND(x, i) }",
    {"x": f32(2, 3), "i": i64(-1, 0, 1, -1, 0, 0, -2, 2).reshape(4, 2)},
)

# Slices.
situation(
    "slice_backwards_to_the_start",
    "(float[5] x, int64[1] s, int64[1] e, int64[1] a, int64[1] t) => (float[?] y) { y = Slice(x, s, e, a, t) }",
    {"x": f32(5), "s": i64(-1), "e": i64(-(2**63) + 1), "a": i64(-1), "t": i64(-1)},
    expected=lambda f: [f["x"][::-1]],
)
situation(
    "slice_of_int32_limits",
    "(float[5,4] x, int32[2] s, int32[2] e) => (float[?,?] y) { y = Slice(x, s, e) }",
    {"x": f32(5, 4), "s": numpy.array([1, -2], "i4"), "e": numpy.array([2**31 - 1] * 2, "i4")},
    expected=lambda f: [f["x"][1:, -2:]],
)
situation(
    "slice_step_beyond",
    "(float[5,4] x, int64[1] s, int64[1] e, int64[1] a, int64[1] t) => (float[?,?] y) { y = Slice(x, s, e, a, t) }",
    {"x": f32(5, 4), "s": i64(4), "e": i64(-100), "a": i64(0), "t": i64(-3)},
    expected=lambda f: [f["x"][4::-3]],
)
situation(
    "slice_of_nothing", "(float[5,4] x, int64[1] s, int64[1] e) => (float[?,?] y) { y = Slice(x, s, e) }", {"x": f32(5, 4), "s": i64(3), "e": i64(1)}
)
situation(
    "slice_huge_step",
    "(float[5] x, int64[1] s, int64[1] e, int64[1] a, int64[1] t) => (float[?] y) { y = Slice(x, s, e, a, t) }",
    {"x": f32(5), "s": i64(0), "e": i64(2**63 - 1), "a": i64(0), "t": i64(2**62)},
    expected=lambda f: [f["x"][:1]],
)
for _name, _start, _end, _step in (("widest_step", 1, 2**63 - 1, 2**63 - 1), ("widest_step_backwards", -2, -(2**63), -(2**63))):
    situation(
        f"slice_{_name}",
        "(float[5] x, int64[1] s, int64[1] e, int64[1] a, int64[1] t) => (float[?] y) { r = Slice(x, s, e, a, t) y = Mul(r, r) }",
        {"x": f32(5), "s": i64(_start), "e": i64(_end), "a": i64(0), "t": i64(_step)},
        expected=lambda f: [f["x"][int(f["s"][0])].reshape(1) ** 2],
    )

# Shapes with zeros, minus ones and no elements.
situation(
    "reshape_allowzero", "(float[0,8,2] x, int64[3] s) => (float[?,?,?] y) { y = Reshape<allowzero=1>(x, s) }", {"x": f32(0, 8, 2), "s": i64(0, 0, 4)}
)
situation("reshape_zero_copies", "(float[3,4] x, int64[3] s) => (float[?,?,?] y) { y = Reshape(x, s) }", {"x": f32(3, 4), "s": i64(0, -1, 2)})
situation(
    "reshape_twice_of_nothing",
    "(float[0,8,2] x, int64[3] s, int64[3] t) => (float[?,?,?] y) { z = Reshape(x, s) y = Reshape<allowzero=1>(z, t) }",
    {"x": f32(0, 8, 2), "s": i64(4, 2, -1), "t": i64(0, 0, 4)},
)
situation("expand_by_ones", "(float[3,1] x, int64[3] s) => (float[?,?,?] y) { y = Expand(x, s) }", {"x": f32(3, 1), "s": i64(2, 1, 4)})
situation("expand_to_nothing", "(float[3,1] x, int64[2] s) => (float[?,?] y) { y = Expand(x, s) }", {"x": f32(3, 1), "s": i64(3, 0)})
situation("expand_a_number", "(float x, int64[n] s) => (float[?,?] y) { y = Expand(x, s) }", {"x": scalar(2.5), "s": i64(2, 3)})
situation("tile_zero_times", "(float[2,3] x, int64[2] r) => (float[?,?] y) { y = Tile(x, r) }", {"x": f32(2, 3), "r": i64(2, 0)})
situation("matmul_of_no_columns", "(float[3,0] x, float[0,4] w) => (float[?,?] y) { y = MatMul(x, w) }", {"x": f32(3, 0), "w": f32(0, 4)})
situation(
    "gemm_of_no_rows",
    "(float[0,3] x, float[3,4] w, float[4] c) => (float[?,?] y) { y = Gemm(x, w, c) }",
    {"x": f32(0, 3), "w": f32(3, 4), "c": f32(4)},
)
situation(
    "gemm_of_no_columns_adds_c",
    "(float[3,0] x, float[0,4] w, float[3,1] c) => (float[?,?] y) { y = Gemm<beta=0.5, alpha=2.0>(x, w, c) }",
    {"x": f32(3, 0), "w": f32(0, 4), "c": f32(3, 1)},
)
situation(
    "reduce_sum_of_nothing",
    "(float[2,0,3] x) => (float[?,?] y) { a = Constant<value = int64[1] {1}>() y = ReduceSum<keepdims=0>(x, a) }",
    {"x": f32(2, 0, 3)},
)
situation(
    "reduce_prod_of_nothing",
    "(float[2,0,3] x) => (float[?,?] y) { a = Constant<value = int64[1] {1}>() y = ReduceProd<keepdims=0>(x, a) }",
    {"x": f32(2, 0, 3)},
)
situation(
    "reduce_max_of_nothing",
    "(float[2,0,3] x) => (float[?,?] y) { a = Constant<value = int64[1] {1}>() y = ReduceMax<keepdims=0>(x, a) }",
    {"x": f32(2, 0, 3)},
)
situation(
    "reduce_min_of_no_integers",
    "(int32[2,0] x) => (int32[?] y) { a = Constant<value = int64[1] {1}>() y = ReduceMin<keepdims=0>(x, a) }",
    {"x": numpy.zeros((2, 0), "i4")},
    expected=lambda f: [numpy.full(2, 2**31 - 1, "i4")],
)
situation(
    "conv_of_an_empty_batch",
    "(float[0,2,5,5] x, float[3,2,3,3] w) => (float[?,?,?,?] y) { y = Conv(x, w) }",
    {"x": f32(0, 2, 5, 5), "w": f32(3, 2, 3, 3)},
    expected=lambda f: [f32(0, 3, 3, 3)],
)
situation(
    "maxpool_of_an_empty_batch",
    "(float[0,2,5,5] x) => (float[?,?,?,?] y) { y = MaxPool<kernel_shape=[2,2]>(x) }",
    {"x": f32(0, 2, 5, 5)},
    expected=lambda f: [f32(0, 2, 4, 4)],
)
situation("nonzero_of_a_number", "(float x) => (int64[?,?] y) { y = NonZero(x) }", {"x": scalar(2)}, expected=lambda f: [numpy.zeros((0, 1), "i8")])
situation("nonzero_of_zeros", "(float[2,3] x) => (int64[?,?] y) { y = NonZero(x) }", {"x": numpy.zeros((2, 3), "f4")})
situation("shape_backwards", "(float[2,3,4,5] x) => (int64[?] y) { y = Shape<start=-3, end=-1>(x) }", {"x": f32(2, 3, 4, 5)})
situation(
    "shape_beyond",
    "(float[2,3,4,5] x) => (int64[?] y, int64[?] z) { y = Shape<start=-30, end=30>(x) z = Shape<start=3, end=1>(x) }",
    {"x": f32(2, 3, 4, 5)},
)
situation("squeeze_all_at_run_time", "(float[1,3,1] x) => (float[?] y) { y = Squeeze(x) }", {"x": f32(1, 3, 1)})
situation("unsqueeze_mixed_axes", "(float[2,3] x, int64[3] a) => (float[?,?,?,?,?] y) { y = Unsqueeze(x, a) }", {"x": f32(2, 3), "a": i64(-1, 0, 2)})

# TopK, Unique, NonMaxSuppression.
situation(
    "topk_k_at_run_time",
    "(float[3,6] x, int64[1] k) => (float[?,?] v, int64[?,?] i) { v, i = TopK<axis=-2, largest=0>(x, k) }",
    {"x": f32(3, 6), "k": i64(2)},
)
situation(
    "topk_of_none",
    "(float[3,6] x, int64[1] k) => (float[?,?] v, int64[?,?] i) { v, i = TopK(x, k) }",
    {"x": f32(3, 6), "k": i64(0)},
    expected=lambda f: [f32(3, 0), numpy.zeros((3, 0), "i8")],
)
situation(
    "topk_of_ties",
    "(float[2,6] x, int64[1] k) => (float[?,?] v, int64[?,?] i) { v, i = TopK(x, k) }",
    {"x": numpy.array([[1, 2, 2, 1, 2, 0], [0] * 6], "f4"), "k": i64(4)},
)
situation(
    "topk_of_int64_limits",
    "(int64[4] x, int64[1] k) => (int64[?] v, int64[?] i) { v, i = TopK(x, k) }",
    {"x": i64(2**53, 2**53 + 1, 2**63 - 1, -(2**63)), "k": i64(3)},
)
situation(
    "topk_clamped_by_a_size",
    ("(float[n] x) => (float[?] v, int64[?] i) { h = Constant<value = int64[1] {100}>() s = Shape(x) k = Min(h, s) v, " "i = TopK(x, k) }"),
    {"x": f32(7)},
)
situation(
    "unique_flat_unsorted",
    "(float[2,4] x) => (float[?] y, int64[?] i, int64[?] v, int64[?] c) { y, i, v, c = Unique<sorted=0>(x) }",
    {"x": numpy.array([[2, 1, 1, 3], [4, 3, 2, 2]], "f4")},
    "ort",
)
situation(
    "unique_rows",
    "(int64[4,2] x) => (int64[?,?] y, int64[?] i, int64[?] v, int64[?] c) { y, i, v, c = Unique<axis=-2>(x) }",
    {"x": i64(1, 0, 0, 2, 1, 0, -1, 5).reshape(4, 2)},
)
situation(
    "unique_of_nothing",
    "(float[0] x) => (float[?] y, int64[?] i, int64[?] v, int64[?] c) { y, i, v, c = Unique(x) }",
    {"x": f32(0)},
    expected=lambda f: [f32(0)] + [i64()] * 3,
)
NMS = "(float[2,9,4] b, float[2,3,9] s, int64[1] m, float[1] t, float[1] u) => (int64[?,?] y) { y = NonMaxSuppression<%s>(b, s, m, t, u) }"
for centre in (0, 1):
    situation(
        f"nms_batches_{centre}",
        NMS % f"center_point_box={centre}",
        {"b": boxes(2, 9), "s": f32(2, 3, 9), "m": i64(2), "t": numpy.array([0.3], "f4"), "u": numpy.array([-2], "f4")},
        expected="ort",
    )
situation(
    "nms_nothing_asked",
    "(float[1,9,4] b, float[1,1,9] s) => (int64[?,?] y) { y = NonMaxSuppression(b, s) }",
    {"b": boxes(1, 9), "s": f32(1, 1, 9)},
    expected=lambda f: [numpy.zeros((0, 3), "i8")],
)
situation(
    "nms_flipped_corners",
    "(float[1,9,4] b, float[1,1,9] s, int64 m, float t) => (int64[?,?] y) { y = NonMaxSuppression(b, s, m, t) }",
    {"b": boxes(1, 9)[..., [2, 3, 0, 1]], "s": f32(1, 1, 9), "m": i64(100).reshape(()), "t": scalar(0.2)},
    expected="ort",
)
situation(
    "nms_then_gather",
    (
        "(float[1,9,4] b, float[1,2,9] s, int64[1] m, float[1] t, float[1] u) => (float[?,?] y, float[?] z) { n = "
        "NonMaxSuppression(b, s, m, t, u) k = Constant<value = int64[1] {2}>() o = Constant<value = int64[1] {1}>() i = "
        "Gather<axis=1>(n, k) j = Squeeze(i, o) zero = Constant<value = int64[1] {0}>() bb = Squeeze(b, zero) y = "
        "Gather(bb, j) z = GatherND(s, n) }"
    ),
    {"b": boxes(1, 9), "s": f32(1, 2, 9), "m": i64(3), "t": numpy.array([0.3], "f4"), "u": numpy.array([100], "f4")},
    expected=lambda f: [f32(0, 4), f32(0)],
)

# Scatters.
for reduction in ("none", "add", "mul", "max", "min"):
    situation(
        f"scatter_nd_{reduction}",
        f'(float[4,3] x, int64[3,1] i, float[3,3] u) => (float[?,?] y) {{ y = ScatterND<reduction="{reduction}">(x, i, u) }}',
        {"x": f32(4, 3), "i": i64(*((1, -1, 1) if reduction != "none" else (1, -1, 0))).reshape(3, 1), "u": f32(3, 3) * 0.7},
        opset=18,
    )
    situation(
        f"scatter_elements_{reduction}",
        f'(float[4,3] x, int64[2,3] i, float[2,3] u) => (float[?,?] y) {{ y = ScatterElements<axis=-2, reduction="{reduction}">(x, i, u) }}',
        {"x": f32(4, 3), "i": i64(*((1, -1, 1, 1, 2, 1) if reduction != "none" else (1, -1, 1, 0, 2, 2))).reshape(2, 3), "u": f32(2, 3) * 0.7},
        opset=18,
    )
situation(
    "scatter_nothing",
    "(float[4,3] x, int64[0,1] i, float[0,3] u) => (float[?,?] y) { y = ScatterND(x, i, u) }",
    {"x": f32(4, 3), "i": i64().reshape(0, 1), "u": f32(0, 3)},
    expected=lambda f: [f["x"]],
)
situation(
    "scatter_of_bools",
    "(bool[5] x, int64[2,1] i, bool[2] u) => (bool[?] y) { y = ScatterND(x, i, u) }",
    {"x": numpy.array([1, 1, 0, 0, 1], bool), "i": i64(0, -2).reshape(2, 1), "u": numpy.array([0, 1], bool)},
)
situation(
    "scatter_of_int64",
    '(int64[5] x, int64[3] i, int64[3] u) => (int64[?] y) { y = ScatterElements<reduction="add">(x, i, u) }',
    {"x": i64(2**60, 1, 2, 3, -(2**60)), "i": i64(0, 0, -1), "u": i64(2**53 + 1, 1, 7)},
)

# What exporters write: shapes computed from shapes.
situation(
    "view_of_halved_heads",
    (
        "(float[b,t,12] x) => (float[?,?,?,?] y) { b = Shape<start=0, end=1>(x) t = Shape<start=1, end=2>(x) c = "
        "Shape<start=2, end=3>(x) h = Constant<value = int64[1] {3}>() d = Div(c, h) s = Concat<axis=0>(b, t, h, d) z = "
        "Reshape(x, s) y = Transpose<perm=[0,2,1,3]>(z) }"
    ),
    {"x": f32(2, 5, 12)},
)
situation(
    "mask_from_lengths",
    (
        "(int64[b] n, float[b,t] x) => (float[?,?] y) { z = Constant<value = int64 {0}>() o = Constant<value = int64 "
        "{1}>() s = Shape<start=1>(x) a = Constant<value = int64[1] {0}>() t = Squeeze(s, a) r = Range(z, t, o) e = "
        "Constant<value = int64[1] {1}>() m = Unsqueeze(n, e) c = Less(r, m) f = Constant<value = float {-1e9}>() y = "
        "Where(c, x, f) }"
    ),
    {"n": i64(2, 0, 5), "x": f32(3, 5)},
)
situation(
    "positions_by_interpolation",
    (
        "(float[1,9,4] p, float[1,n,4] x) => (float[?,?,?] y) { s = Shape<start=1, end=2>(x) k = Constant<value = "
        "int64[4] {1, 3, 3, 4}>() g = Reshape(p, k) t = Transpose<perm=[0,3,1,2]>(g) f = Cast<to=1>(s) q = Sqrt(f) w = "
        'Cast<to=7>(q) l = Shape<end=2>(t) z = Concat<axis=0>(l, w, w) r = Resize<mode="cubic", cubic_coeff_a=-0.75>(t, , '
        ", z) u = Transpose<perm=[0,2,3,1]>(r) m = Constant<value = int64[3] {1, -1, 4}>() v = Reshape(u, m) y = Add(v, "
        "x) }"
    ),
    {"p": f32(1, 9, 4), "x": f32(1, 25, 4)},
)
situation(
    "windows_rolled",
    (
        "(float[1,h,w,2] x) => (float[?,?,?,?] y) { o = Constant<value = int64[1] {1}>() m = Constant<value = int64[1] "
        "{-2}>() b = Constant<value = int64[1] {9223372036854775807}>() z = Constant<value = int64[1] {0}>() p = Slice(x, "
        "m, b, o) q = Slice(x, z, m, o) y = Concat<axis=1>(p, q) }"
    ),
    {"x": f32(1, 5, 4, 2)},
)
situation(
    "pad_to_a_multiple",
    (
        "(float[1,2,h,w] x) => (float[?,?,?,?] y) { s = Shape<start=2>(x) k = Constant<value = int64[2] {4, 4}>() n = "
        "Neg(s) r = Mod(n, k) z = Constant<value = int64[6] {0,0,0,0,0,0}>() p = Concat<axis=0>(z, r) y = Pad(x, p) }"
    ),
    {"x": f32(1, 2, 5, 8)},
)
situation(
    "embedding_of_a_computed_row",
    (
        "(float[7,3] w, float[b,t] x) => (float[?,?,?] y) { a = ArgMax<axis=-1, keepdims=0>(x) y0 = Gather(w, a) e = "
        "Constant<value = int64[1] {1}>() y = Unsqueeze(y0, e) }"
    ),
    {"w": f32(7, 3), "x": f32(2, 7)},
)
situation(
    "bool_mask_then_scatter",
    ("(float[3,4] x, bool[3,4] m) => (float[?,?] y) { n = NonZero(m) i = Transpose(n) v = GatherND(x, i) d = Neg(v) y " "= ScatterND(x, i, d) }"),
    {"x": f32(3, 4), "m": f32(3, 4) > 0},
)
situation(
    "bool_mask_of_nothing",
    (
        "(float[3,4] x, bool[3,4] m) => (float[?,?] y, float s) { n = NonZero(m) i = Transpose(n) v = GatherND(x, i) s = "
        "ReduceSum<keepdims=0>(v) d = Neg(v) y = ScatterND(x, i, d) }"
    ),
    {"x": f32(3, 4), "m": numpy.zeros((3, 4), bool)},
    expected=lambda f: [f["x"], scalar(0)],
)
situation(
    "broadcast_of_ones_and_open",
    "(float[a,1] x, float[1,b] z, float[c,d] u) => (float[?,?] y) { s = Mul(x, z) y = Add(s, u) }",
    {"x": f32(3, 1), "z": f32(1, 4), "u": f32(1, 1)},
)
situation(
    "matmul_broadcasts_batches",
    "(float[2,1,3,4] x, float[5,4,2] w) => (float[?,?,?,?] y) { y = MatMul(x, w) }",
    {"x": f32(2, 1, 3, 4), "w": f32(5, 4, 2)},
)
situation(
    "matmul_of_vectors",
    "(float[4] x, float[2,4,3] w) => (float[?,?] y, float z) { y = MatMul(x, w) z = MatMul(x, x) }",
    {"x": f32(4), "w": f32(2, 4, 3)},
)
situation(
    "dropout_in_inference",
    "(float[2,3] x) => (float[?,?] y, bool[?,?] m) { r = Constant<value = float {0.9}>() y, m = Dropout(x, r) }",
    {"x": f32(2, 3)},
)
situation(
    "dead_outputs_and_inputs",
    "(float[2,3] x, float[n] unused) => (float[?,?] y) { z = Neg(x) w = Abs(z) y = Identity(x) }",
    {"x": f32(2, 3), "unused": f32(4)},
)
situation("one_value_twice_out", "(float[2,3] x) => (float[?,?] y, float[?,?] z) { y = Neg(x) z = Identity(y) }", {"x": f32(2, 3)})
situation("input_is_output", "(float[2,3] x) => (float[?,?] x2, int64[?] s) { x2 = Identity(x) s = Shape(x) }", {"x": f32(2, 3)})
situation(
    "isinf_of_half",
    "(float16[4] x) => (bool[?] y) { y = IsInf<detect_positive=0>(x) }",
    {"x": numpy.array([numpy.inf, -numpy.inf, 1, numpy.nan], "f2")},
    opset=20,
)
situation(
    "half_sum_of_many",
    "(float16[4096] x) => (float16 y) { y = ReduceMean<keepdims=0>(x) }",
    {"x": numpy.full(4096, 3, "f2")},
    expected=lambda f: [scalar(3, "f2")],
)
situation(
    "half_softmax_mask",
    (
        "(float16[2,4] x, bool[2,4] m) => (float16[?,?] y) { f = Constant<value = float {-65504}>() g = Cast<to=10>(f) w "
        "= Where(m, x, g) y = Softmax(w) }"
    ),
    {"x": f32(2, 4).astype("f2"), "m": numpy.array([[1, 0, 1, 0], [0] * 4], bool)},
    expected=lambda f: [softmax(numpy.where(f["m"], f["x"].astype("f8"), -65504)).astype("f2")],
)
situation(
    "bitwise_broadcast",
    "(uint8[2,1] x, uint8[3] z) => (uint8[?,?] y) { a = BitwiseAnd(x, z) b = BitwiseNot(a) y = BitwiseXor(b, x) }",
    {"x": numpy.array([[5], [255]], "u1"), "z": numpy.array([1, 2, 128], "u1")},
)
situation(
    "max_of_many_with_nan",
    "(float[3] x, float[1] z, float w) => (float[?] y) { y = Max(x, z, w) }",
    {"x": numpy.array([1, numpy.nan, -1], "f4"), "z": numpy.array([0], "f4"), "w": scalar(-2)},
)
situation("sum_of_one", "(float[3] x) => (float[?] y) { y = Sum(x) }", {"x": f32(3)})
situation("mean_broadcast", "(float[3,1] x, float[2] z) => (float[?,?] y) { y = Mean(x, z) }", {"x": f32(3, 1), "z": f32(2)}, "ort")
situation("gelu_tanh", '(float[6] x) => (float[?] y) { y = Gelu<approximate="tanh">(x) }', {"x": f32(6)})
situation("hardswish", "(float[6] x) => (float[?] y) { y = HardSwish(x) }", {"x": f32(6)})
situation("thresholded", "(float[4] x) => (float[?] y) { y = ThresholdedRelu<alpha=0.0>(x) }", {"x": numpy.array([0, -1, 1e-30, 2], "f4")})
situation(
    "shrink_of_integers",
    "(int32[5] x) => (int32[?] y) { y = Shrink<lambd=1.5, bias=1.0>(x) }",
    {"x": numpy.array([-3, -1, 0, 1, 3], "i4")},
    expected=lambda f: [numpy.array([-2, 0, 0, 0, 2], "i4")],
)
situation("round_half_to_even", "(float[6] x) => (float[?] y) { y = Round(x) }", {"x": numpy.array([0.5, 1.5, -0.5, -2.5, 2.4999998, 8388609], "f4")})
situation(
    "identity_of_a_constant_input",
    "(float[2] x) => (float[?] y, float[?] z) { z = Constant<value = float[2] {1, 2}>() y = Add(x, z) }",
    {"x": f32(2)},
)
situation("window_of_run_time_size", "(int64 n) => (float[?] y) { y = HannWindow<periodic=0>(n) }", {"n": i64(7).reshape(())})
situation("blackman_of_one", "(int64 n) => (float[?] y) { y = BlackmanWindow(n) }", {"n": i64(6).reshape(())})
situation(
    "deform_conv",
    ("(float[1,2,5,5] x, float[3,2,2,2] w, float[1,8,4,4] o) => (float[?,?,?,?] y) { y = " "DeformConv<kernel_shape=[2,2]>(x, w, o) }"),
    {"x": f32(1, 2, 5, 5), "w": f32(3, 2, 2, 2), "o": f32(1, 8, 4, 4) / 7},
    opset=19,
)
situation(
    "tfidf",
    (
        '(int64[2,6] x) => (float[?,?] y) { y = TfIdfVectorizer<mode="TF", min_gram_length=2, max_gram_length=2, '
        "max_skip_count=1, ngram_counts=[0,0], ngram_indexes=[0,1,2], pool_int64s=[2,3,5,4,8,6]>(x) }"
    ),
    {"x": i64(1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8).reshape(2, 6)},
    "ort",
)
situation(
    "image_sum_of_bytes",
    (
        "(uint8[h,w,3] x) => (float[?,?,?,?] y) { f = Cast<to=1>(x) k = Constant<value = float {255}>() d = Div(f, k) t = "
        "Transpose<perm=[2,0,1]>(d) z = Constant<value = int64[1] {0}>() y = Unsqueeze(t, z) }"
    ),
    {"x": (numpy.arange(24).reshape(2, 4, 3) * 11).astype("u1")},
)
