"""Situations of reports: what exporters compute of shapes, quantised and half models, operators of early opsets; see situations.py."""

import numpy
from situations import boxes, f32, i64, scalar, situation, softmax

# What exporters compute of shapes.
situation(
    "tokens_expanded_by_a_shape_with_minus_ones",
    (
        "(float[3,4] x, float[1,2,4] q) => (float[?,?,?] y) { n = Shape<start=0, end=1>(x) k = Constant<value = int64[2] {-1,-1}>() "
        "t = Concat<axis=0>(n, k) three = Constant<value = int64[1] {3}>() o = ConstantOfShape<value = int64[1] {1}>(three) "
        "m = Neg(o) e = Equal(t, m) s = Where(e, o, t) z = Expand(q, s) a = Constant<value = int64[1] {1}>() u = Unsqueeze(x, a) "
        "y = Concat<axis=1>(z, u) }"
    ),
    {"x": f32(3, 4), "q": f32(1, 2, 4)},
)
situation(
    "number_by_an_empty_shape",
    "(float[1] x, float[2,2] z) => (float y, float[?,?] w) { s = Constant<value = int64[0] {}>() y = Reshape(x, s) w = Add(z, y) }",
    {"x": f32(1), "z": f32(2, 2)},
)
situation(
    "all_but_the_last_by_a_size",
    (
        "(float[3,5] x) => (float[?,?] y, float[?] z) { n = Shape<start=1>(x) one = Constant<value = int64[1] {1}>() e = Sub(n, one) "
        "b = Constant<value = int64[1] {0}>() y = Slice(x, b, e, one) l = Squeeze(e) z = Gather<axis=1>(x, l) }"
    ),
    {"x": f32(3, 5)},
)
situation(
    "positions_behind_a_past",
    (
        "(int64[2,3] x, float[2,1,4,2] p, float[16,2] w) => (float[?,?] y) { n = Shape<start=1, end=2>(x) c = Shape<start=2, end=3>(p) "
        "z = Squeeze(c) e = Add(n, c) f = Squeeze(e) one = Constant<value = int64 {1}>() r = Range(z, f, one) m = Constant<value = int64 {5}>() "
        "k = Min(r, m) y = Gather(w, k) }"
    ),
    {"x": i64(1, 2, 3, 4, 5, 6).reshape(2, 3), "p": f32(2, 1, 4, 2), "w": f32(16, 2)},
)
situation(
    "causal_mask_by_trilu",
    (
        "(float[2,4,4] x) => (float[?,?,?] y) { n = Shape<start=1>(x) m = ConstantOfShape<value = float[1] {-3.0e38}>(n) "
        "k = Constant<value = int64 {1}>() t = Trilu<upper=1>(m, k) s = Add(x, t) y = Softmax(s) }"
    ),
    {"x": f32(2, 4, 4)},
    expected=lambda f: [softmax(numpy.where(numpy.tri(4, dtype=bool), f["x"].astype("f8"), -1e30)).astype("f4")],
)
situation(
    "halves_of_an_odd_size",
    (
        "(float[2,7] x) => (float[?,?] a, float[?,?] b) { n = Shape<start=1>(x) two = Constant<value = int64[1] {2}>() h = Div(n, two) "
        "r = Sub(n, h) s = Concat<axis=0>(h, r) a, b = Split<axis=1>(x, s) }"
    ),
    {"x": f32(2, 7)},
)
situation(
    "pixels_to_channels_by_reshapes",
    (
        "(float[1,2,4,6] x) => (float[?,?,?,?] y) { s = Shape(x) two = Constant<value = int64[1] {2}>() four = Constant<value = int64[1] {4}>() "
        "i0 = Constant<value = int64[1] {0}>() i1 = Constant<value = int64[1] {1}>() i3 = Constant<value = int64[1] {3}>() "
        "n = Gather(s, i0) c = Gather(s, i1) h = Gather(s, two) w = Gather(s, i3) p = Div(h, two) q = Div(w, two) "
        "t = Concat<axis=0>(n, c, p, two, q, two) r = Reshape(x, t) u = Transpose<perm=[0,3,5,1,2,4]>(r) "
        "d = Mul(c, four) v = Concat<axis=0>(n, d, p, q) y = Reshape(u, v) }"
    ),
    {"x": f32(1, 2, 4, 6)},
    opset=17,
)
situation(
    "tile_by_a_size_of_another",
    (
        "(float[2,1,3] x, float[4,5] z) => (float[?,?,?] y) { n = Shape<start=0, end=1>(z) o = Constant<value = int64[1] {1}>() "
        "r = Concat<axis=0>(o, n, o) y = Tile(x, r) }"
    ),
    {"x": f32(2, 1, 3), "z": f32(4, 5)},
)
situation(
    "heads_of_a_projection_in_one",
    (
        "(float[2,3,12] x) => (float[?,?,?,?] y) { s = Shape<start=0, end=2>(x) k = Constant<value = int64[3] {3,2,2}>() t = Concat<axis=0>(s, k) "
        "r = Reshape(x, t) p = Transpose<perm=[2,0,3,1,4]>(r) i = Constant<value = int64 {0}>() j = Constant<value = int64 {1}>() "
        "l = Constant<value = int64 {-1}>() q = Gather(p, i) h = Gather(p, j) v = Gather(p, l) w = Transpose<perm=[0,1,3,2]>(h) "
        "m = MatMul(q, w) n = Softmax(m) y = MatMul(n, v) }"
    ),
    {"x": f32(2, 3, 12) / 8},
)
situation(
    "mean_over_what_a_mask_leaves",
    (
        "(float[2,3,4] x, int64[2,3] m) => (float[?,?] y) { a = Constant<value = int64[1] {-1}>() u = Unsqueeze(m, a) s = Shape(x) e = Expand(u, s) "
        "f = Cast<to=1>(e) p = Mul(x, f) o = Constant<value = int64[1] {1}>() t = ReduceSum<keepdims=0>(p, o) n = ReduceSum<keepdims=0>(f, o) "
        "l = Constant<value = float {1.0e-9}>() c = Clip(n, l) y = Div(t, c) }"
    ),
    {"x": f32(2, 3, 4), "m": i64(1, 1, 0, 0, 0, 0).reshape(2, 3)},
)
situation(
    "boxes_above_a_threshold",
    (
        "(float[6,4] b, float[6] s, float t) => (float[?,?] y, float[?] z) { k = Greater(s, t) n = NonZero(k) o = Constant<value = int64[1] {0}>() "
        "i = Squeeze(n, o) y = Gather(b, i) z = Gather(s, i) }"
    ),
    {"b": f32(6, 4), "s": f32(6), "t": scalar(100)},
)
situation(
    "nms_of_no_boxes",
    (
        "(float[1,0,4] b, float[1,2,0] s) => (int64[?,?] y, int64[?] n) { m = Constant<value = int64 {5}>() t = Constant<value = float {0.5}>() "
        "y = NonMaxSuppression(b, s, m, t) n = Shape(y) }"
    ),
    {"b": boxes(1, 0), "s": f32(1, 2, 0)},
    expected=lambda f: [numpy.zeros((0, 3), "i8"), i64(0, 3)],
)
situation(
    "nms_of_one_box_of_no_area",
    (
        "(float[1,1,4] b, float[1,1,1] s) => (int64[?,?] y) { m = Constant<value = int64[1] {9}>() t = Constant<value = float[1] {0.5}>() "
        "y = NonMaxSuppression(b, s, m, t, t) }"
    ),
    {"b": numpy.full((1, 1, 4), 2, "f4"), "s": numpy.full((1, 1, 1), 0.75, "f4")},
    expected=lambda f: [i64(0, 0, 0).reshape(1, 3)],
)
situation(
    "unique_columns_counted",
    "(int64[2,5] x) => (int64[?,?] y, int64[?] i, int64[?] v, int64[?] c) { y, i, v, c = Unique<axis=-1>(x) }",
    {"x": i64(3, 1, 3, 1, 2, 0, 9, 0, 9, 9).reshape(2, 5)},
)

# Loops, branches and sequences.
situation(
    "loop_of_a_known_count_that_ends_early",
    (
        "(float[4] x) => (float[?,?] y) { m = Constant<value = int64 {5}>() t = Constant<value = bool {1}>() y = Loop(m, t) <body = b "
        "(int64 i, bool c) => (bool c2, float[4] o) { k = Constant<value = int64 {1}>() c2 = Less(i, k) f = Cast<to=1>(i) o = Add(x, f) }> }"
    ),
    {"x": f32(4)},
    expected=lambda f: [numpy.stack([f["x"], f["x"] + 1])],
)
situation(
    "loop_whose_condition_is_false_at_first",
    (
        "(float[2] x, bool[1] t) => (float[?] f, float[?,?] y) { m = Constant<value = int64[1] {5}>() f, y = Loop(m, t, x) <body = b "
        "(int64 i, bool c, float[2] s) => (bool c2, float[2] s2, float[2] o) { c2 = Identity(c) s2 = Add(s, s) o = Neg(s) }> }"
    ),
    {"x": f32(2), "t": numpy.array([False])},
    expected=lambda f: [f["x"], f32(0, 2)],
)
situation(
    "branch_by_whether_anything_is_left",
    (
        "(float[3,2] x, float t) => (float[?] y) { k = Greater(x, t) b = Cast<to=7>(k) a = Constant<value = int64[2] {0,1}>() n = ReduceSum<keepdims=0>(b, a) "
        "z = Constant<value = int64 {0}>() c = Greater(n, z) y = If(c) <then_branch = g () => (float[m] r) { f = Constant<value = int64[1] {-1}>() "
        "w = Reshape(k, f) r = Compress(x, w) }, else_branch = h () => (float[m] r) { o = Constant<value = int64[1] {0}>() r = ConstantOfShape(o) }> }"
    ),
    {"x": f32(3, 2), "t": scalar(1)},
    expected=lambda f: [f["x"][f["x"] > 1]],
)
situation(
    "scan_backwards_along_a_last_axis",
    (
        "(float[2] h, float[2,5] x) => (float[?] f, float[?,?] y) { f, y = Scan<num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[-1], "
        "scan_input_directions=[1], scan_output_directions=[1], body = b (float[2] s, float[2] v) => (float[2] s2, float[2] o) "
        "{ s2 = Add(s, v) o = Identity(s2) }>(h, x) }"
    ),
    {"h": f32(2), "x": f32(2, 5)},
    expected=lambda f: [f["h"] + f["x"].sum(1), f["h"][:, None] + f["x"][:, ::-1].cumsum(1)[:, ::-1]],
)
situation(
    "last_of_a_split_sequence",
    (
        "(float[7,2] x) => (float[?,?] y, int64 n) { k = Constant<value = int64 {3}>() s = SplitToSequence<axis=0>(x, k) n = SequenceLength(s) "
        "o = Constant<value = int64 {1}>() l = Sub(n, o) y = SequenceAt(s, l) }"
    ),
    {"x": f32(7, 2)},
    expected=lambda f: [f["x"][6:], i64(3).reshape(())],
)
situation(
    "sequence_stacked_along_the_last_axis",
    "(float[2,3] x, float[2,3] z) => (float[?,?,?] y) { s = SequenceConstruct(x, z, x) y = ConcatFromSequence<axis=-1, new_axis=1>(s) }",
    {"x": f32(2, 3), "z": -f32(2, 3)},
    expected=lambda f: [numpy.stack([f["x"], f["z"], f["x"]], -1)],
)

# Quantised models.
situation(
    "qlinear_conv_zero_points_of_channels",
    (
        "(uint8[1,1,3,3] x, float s, uint8 z, uint8[2,1,2,2] w, float[2] t, uint8[2] k, float u, uint8 v) => (uint8[?,?,?,?] y) "
        "{ y = QLinearConv(x, s, z, w, t, k, u, v) }"
    ),
    {
        "x": numpy.full((1, 1, 3, 3), 130, "u1"),
        "s": scalar(0.05),
        "z": scalar(128, "u1"),
        "w": numpy.full((2, 1, 2, 2), 100, "u1"),
        "t": numpy.array([0.02, 0.02], "f4"),
        "k": numpy.array([5, 90], "u1"),
        "u": scalar(0.1),
        "v": scalar(128, "u1"),
    },
    expected=lambda f: [numpy.stack([numpy.full((2, 2), 128 + round(8 * (100 - k) * 0.001 / 0.1), "u1") for k in (5, 90)])[None]],
)
situation(
    "conv_of_weights_scaled_by_their_inputs",
    (
        "(float[1,2,4,4] x, int8[3,2,3,3] w, float[2] t) => (float[?,?,?,?] y) { s = Constant<value = float {0.05}>() z = Constant<value = uint8 {128}>() "
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) e = DequantizeLinear<axis=1>(w, t) y = Conv<pads=[1,1,1,1]>(d, e) }"
    ),
    {"x": f32(1, 2, 4, 4) / 2, "w": (numpy.arange(54).reshape(3, 2, 3, 3) * 29 % 255 - 127).astype("i1"), "t": numpy.array([0.01, 0.2], "f4")},
)
situation(
    "conv_of_codes_with_an_odd_border",
    (
        "(float[1,2,5,5] x, int8[4,2,3,3] w, float[4] t) => (uint8[?,?,?,?] y) { s = Constant<value = float {0.07}>() z = Constant<value = uint8 {37}>() "
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) e = DequantizeLinear<axis=0>(w, t) "
        "c = Conv<pads=[2,0,1,1], strides=[2,1]>(d, e) r = Relu(c) u = Constant<value = float {0.3}>() v = Constant<value = uint8 {0}>() y = QuantizeLinear(r, u, v) }"
    ),
    {
        "x": f32(1, 2, 5, 5),
        "w": (numpy.arange(72).reshape(4, 2, 3, 3) * 31 % 255 - 127).astype("i1"),
        "t": numpy.array([0.011, 0.02, 0.003, 0.017], "f4"),
    },
)
situation(
    "quantize_what_is_no_number",
    "(float[5] x, float s, uint8 z) => (uint8[?] y) { y = QuantizeLinear(x, s, z) }",
    {"x": numpy.array([numpy.inf, -numpy.inf, 1e38, -1e38, 0.5], "f4"), "s": scalar(0.5), "z": scalar(7, "u1")},
    expected=lambda f: [numpy.array([255, 0, 255, 0, 8], "u1")],
)
situation(
    "dequantize_sums",
    "(int32[2,3] x, float s) => (float[?,?] y) { y = DequantizeLinear(x, s) }",
    {"x": numpy.array([[2**31 - 1, -(2**31), 0], [16777217, 3, -1]], "i4"), "s": scalar(0.25)},
    expected=lambda f: [(f["x"].astype("f8") * 0.25).astype("f4")],
)
situation(
    "dynamic_quantize_of_one_sign",
    "(float[3] x) => (uint8[?] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
    {"x": numpy.array([2, 3, 10.2], "f4")},
)
situation(
    "matmul_integer_of_stacks",
    "(int8[2,1,2,3] a, int8[3,3,2] b, int8 z) => (int32[?,?,?,?] y) { y = MatMulInteger(a, b, z) }",
    {
        "a": (numpy.arange(12).reshape(2, 1, 2, 3) * 37 % 256 - 128).astype("i1"),
        "b": (numpy.arange(18).reshape(3, 3, 2) * 53 % 256 - 128).astype("i1"),
        "z": scalar(-5, "i1"),
    },
    expected=lambda f: [(f["a"].astype("i4") + 5) @ f["b"].astype("i4")],
)

# Half precision.
situation(
    "half_layernorm_of_outliers",
    "(float16[2,8] x, float16[8] g, float16[8] b) => (float16[?,?] y) { y = LayerNormalization(x, g, b) }",
    {"x": (f32(2, 8) * 4000).astype("f2"), "g": numpy.ones(8, "f2"), "b": numpy.zeros(8, "f2")},
    expected=lambda f: [
        ((f["x"].astype("f8") - f["x"].astype("f8").mean(1, keepdims=True)) / f["x"].astype("f8").std(1, keepdims=True)).astype("f2")
    ],
)
situation(
    "half_overflows_when_it_is_cast",
    "(float[4] x) => (float16[?] y, float[?] z) { y = Cast<to=10>(x) z = Cast<to=1>(y) }",
    {"x": numpy.array([65519, 65520, -1e9, 6e-8], "f4")},
    expected=lambda f: [numpy.array([65504, numpy.inf, -numpy.inf, 6e-8], "f2"), numpy.array([65504, numpy.inf, -numpy.inf, 6e-8], "f2").astype("f4")],
)
situation(
    "half_sigmoid_of_large",
    "(float16[4] x) => (float16[?] y, float16[?] z) { y = Sigmoid(x) z = Softplus(x) }",
    {"x": numpy.array([60000, -60000, 12, -12], "f2")},
    expected=lambda f: [
        numpy.array([1, 0, 1 / (1 + numpy.exp(-12.0)), 1 / (1 + numpy.exp(12.0))], "f2"),
        numpy.array([60000, 0, 12 + numpy.log1p(numpy.exp(-12.0)), numpy.log1p(numpy.exp(-12.0))], "f2"),
    ],
)

# Early opsets, whose operands were attributes.
situation(
    "upsample_7", '(float[1,1,2,3] x) => (float[?,?,?,?] y) { y = Upsample<mode="nearest", scales=[1.0,1.0,2.0,3.0]>(x) }', {"x": f32(1, 1, 2, 3)}, "ort", 7
)
situation(
    "pad_2_negative",
    '(float[2,5] x) => (float[?,?] y) { y = Pad<mode="constant", pads=[0,-1,1,2], value=1.5>(x) }',
    {"x": f32(2, 5)},
    lambda f: [numpy.pad(f["x"][:, 1:], ((0, 1), (0, 2)), constant_values=1.5)],
    10,
)
situation("slice_9_without_axes", "(float[4,5] x) => (float[?,?] y) { y = Slice<starts=[-3,1], ends=[1000,-1]>(x) }", {"x": f32(4, 5)}, lambda f: [f["x"][-3:, 1:-1]], 9)
situation("clip_6_from_below", "(float[6] x) => (float[?] y) { y = Clip<min=-2.0>(x) }", {"x": f32(6)}, lambda f: [numpy.maximum(f["x"], -2)], 6)
situation(
    "topk_1", "(float[2,5] x) => (float[?,?] v, int64[?,?] i) { v, i = TopK<axis=-1, k=2>(x) }", {"x": f32(2, 5)}, "ort", 9
)
situation(
    "batchnorm_7",
    "(float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[?,?,?] y) { y = BatchNormalization<epsilon=0.001>(x, s, b, m, v) }",
    {"x": f32(2, 3, 4), "s": f32(3), "b": f32(3), "m": f32(3), "v": numpy.abs(f32(3)) + 0.5},
    "ort",
    7,
)
situation(
    "gemm_7_of_a_column",
    "(float[3,2] a, float[4,3] b, float[2,1] c) => (float[?,?] y) { y = Gemm<transA=1, transB=1, alpha=0.5, beta=2.0>(a, b, c) }",
    {"a": f32(3, 2), "b": f32(4, 3), "c": f32(2, 1)},
    lambda f: [0.5 * f["a"].T @ f["b"].T + 2 * f["c"]],
    8,
)
situation("dropout_7_of_two_results", "(float[3] x) => (float[?] y) { y, m = Dropout<ratio=0.4>(x) }", {"x": f32(3)}, lambda f: [f["x"]], 7)
situation(
    "roialign_10",
    "(float[1,1,6,6] x, float[2,4] r, int64[2] b) => (float[?,?,?,?] y) { y = RoiAlign<output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.5>(x, r, b) }",
    {"x": f32(1, 1, 6, 6), "r": numpy.array([[0, 0, 9, 7], [3, 2, 3.2, 2.1]], "f4"), "b": i64(0, 0)},
    "ort",
    10,
)

# Layers.
situation(
    "groupnorm_18_scales_of_groups",
    "(float[2,4,3] x, float[2] s, float[2] b) => (float[?,?,?] y) { y = GroupNormalization<num_groups=2>(x, s, b) }",
    {"x": f32(2, 4, 3), "s": f32(2), "b": f32(2)},
    lambda f: [
        (
            (f["x"].reshape(2, 2, 6) - f["x"].reshape(2, 2, 6).mean(-1, keepdims=True))
            / numpy.sqrt(f["x"].reshape(2, 2, 6).var(-1, keepdims=True) + 1e-5)
            * f["s"][None, :, None]
            + f["b"][None, :, None]
        ).reshape(2, 4, 3)
    ],
    18,
)
situation(
    "lstm_of_batches_first",
    (
        "(float[3,5,2] x, float[1,16,2] w, float[1,16,4] r, float[1,32] b, int32[3] n, float[3,1,4] h, float[3,1,4] c) => "
        "(float[?,?,?,?] y, float[?,?,?] yh, float[?,?,?] yc) { y, yh, yc = LSTM<hidden_size=4, layout=1>(x, w, r, b, n, h, c) }"
    ),
    {
        "x": f32(3, 5, 2) / 4,
        "w": f32(1, 16, 2) / 9,
        "r": f32(1, 16, 4) / 11,
        "b": f32(1, 32) / 8,
        "n": numpy.array([5, 5, 5], "i4"),
        "h": f32(3, 1, 4) / 9,
        "c": f32(3, 1, 4) / 7,
    },
)
situation(
    "convtranspose_1d_padded_and_dilated",
    "(float[1,4,5] x, float[4,2,3] w) => (float[?,?,?] y) { y = ConvTranspose<group=2, strides=[3], dilations=[2], output_padding=[2], pads=[1,0]>(x, w) }",
    {"x": f32(1, 4, 5), "w": f32(4, 2, 3)},
    "ort",
)
situation(
    "conv_1d_same_lower_dilated",
    '(float[2,3,9] x, float[4,3,4] w) => (float[?,?,?] y) { y = Conv<auto_pad="SAME_LOWER", dilations=[2], kernel_shape=[4]>(x, w) }',
    {"x": f32(2, 3, 9), "w": f32(4, 3, 4)},
    lambda f: [
        sum(
            numpy.einsum("ncl,oc->nol", numpy.pad(f["x"], ((0, 0), (0, 0), (3, 3)))[:, :, 2 * k : 2 * k + 9], f["w"][:, :, k]) for k in range(4)
        )
    ],
)
situation(
    "maxpool_dilated_rounded_up",
    "(float[1,2,7,8] x) => (float[?,?,?,?] y) { y = MaxPool<kernel_shape=[2,3], dilations=[2,2], strides=[2,2], ceil_mode=1, pads=[1,1,0,1]>(x) }",
    {"x": f32(1, 2, 7, 8)},
    "ort",
)
situation("softmax_of_one", "(float[3,1] x) => (float[?,?] y, float[?,?] z) { y = Softmax(x) z = LogSoftmax(x) }", {"x": f32(3, 1)})
situation(
    "einsum_of_an_ellipsis_and_a_diagonal",
    '(float[2,3,3] x, float[3,4] w) => (float[?,?] y, float[?,?,?] z) { y = Einsum<equation="...ii->...i">(x) z = Einsum<equation="...ij, jk -> ...ik">(x, w) }',
    {"x": f32(2, 3, 3), "w": f32(3, 4)},
    lambda f: [numpy.einsum("...ii->...i", f["x"]), f["x"] @ f["w"]],
)
situation(
    "grid_sample_of_volumes",
    '(float[1,2,3,4,5] x, float[1,2,2,3,3] g) => (float[?,?,?,?,?] y) { y = GridSample<mode="linear", padding_mode="reflection", align_corners=1>(x, g) }',
    {"x": f32(1, 2, 3, 4, 5), "g": f32(1, 2, 2, 3, 3) / 6},
    opset=20,
)
situation(
    "lp_normalisation_of_nothing_but_zeros",
    "(float[2,3] x) => (float[?,?] y) { y = LpNormalization<axis=-1, p=2>(x) }",
    {"x": numpy.array([[3, 0, 4], [1, 2, 2]], "f4")},
    lambda f: [f["x"] / numpy.linalg.norm(f["x"], axis=1, keepdims=True)],
)
situation(
    "reduce_of_booleans", "(bool[2,3] x) => (bool[?,?] y, bool[?,?] z) { y = ReduceMax(x) z = ReduceMin(x) }", {"x": numpy.array([[1, 0, 1], [0, 0, 1]], bool)},
    lambda f: [f["x"].max(keepdims=True), f["x"].min(keepdims=True)], 20,
)
situation(
    "dft_17_of_one_side",
    "(float[1,6,1] x) => (float[?,?,?] y) { y = DFT<axis=1, onesided=1>(x) }",
    {"x": f32(1, 6, 1)},
    lambda f: [numpy.stack([(r := numpy.fft.rfft(f["x"][..., 0])).real, r.imag], -1).astype("f4")],
    17,
)
situation(
    "scatter_max_along_a_negative_axis",
    '(float[2,3] x, int64[2,2] i, float[2,2] u) => (float[?,?] y) { y = ScatterElements<axis=-1, reduction="max">(x, i, u) }',
    {"x": f32(2, 3), "i": i64(-1, 2, 0, 0).reshape(2, 2), "u": -f32(2, 2)},
    opset=18,
)
situation(
    "onehot_by_floats_of_an_open_depth",
    "(float[3] x, float[4,2] t, float[2] v) => (float[?,?] y) { d = Shape<start=0, end=1>(t) y = OneHot(x, d, v) }",
    {"x": numpy.array([1, 3, -1], "f4"), "t": f32(4, 2), "v": f32(2)},
    lambda f: [numpy.where(numpy.array([1, 3, 3])[:, None] == numpy.arange(4), f["v"][1], f["v"][0])],
)
