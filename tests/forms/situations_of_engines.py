"""Situations from the trackers of other engines: what their fuzzers and users found beside the exporters' habits; see situations.py."""

import numpy
from situations import f32, i64, scalar, situation, softmax

# Sizes that are computed, whose parts may be negative or nothing.
situation(
    "size_of_a_quotient_below_zero",
    (
        "(float[3,2] x, float[5] z) => (float[?] y, int64[?] q) { a = Shape<end=1>(x) b = Shape(z) d = Sub(a, b) k = Constant<value = int64[1] {4}>() "
        "q = Div(d, k) n = Add(q, k) y = ConstantOfShape(n) }"
    ),
    {"x": f32(3, 2), "z": f32(5)},
    lambda f: [f32(4) * 0, i64(0)],
)
situation(
    "size_of_a_quotient_by_a_number_below_zero",
    (
        "(float[5] x, float[1] w) => (float[?] y) { a = Shape(x) m = Constant<value = int64[1] {-2}>() q = Div(a, m) "
        "k = Constant<value = int64[1] {4}>() n = Add(q, k) y = Expand(w, n) }"
    ),
    {"x": f32(5), "w": f32(1)},
    lambda f: [numpy.repeat(f["w"], 2)],
)
situation(
    "size_of_a_remainder_below_zero",
    (
        "(float[3,2] x, float[5] z, float[1] w) => (float[?] y, float[?] v) { a = Shape<end=1>(x) b = Shape(z) d = Sub(a, b) "
        "k = Constant<value = int64[1] {4}>() r = Mod<fmod=1>(d, k) n = Add(r, k) y = Expand(w, n) s = Mod(d, k) v = Expand(w, s) }"
    ),
    {"x": f32(3, 2), "z": f32(5), "w": f32(1)},
    lambda f: [numpy.repeat(f["w"], 2), numpy.repeat(f["w"], 2)],
)
situation(
    "size_of_a_cast_quotient_below_zero",
    (
        "(float[3,2] x, float[5] z, float[1] w) => (float[?] y) { a = Shape<end=1>(x) b = Shape(z) d = Sub(a, b) f = Cast<to=1>(d) "
        "k = Constant<value = float[1] {4.0}>() q = Div(f, k) t = Cast<to=7>(q) m = Constant<value = int64[1] {3}>() n = Add(t, m) y = Expand(w, n) }"
    ),
    {"x": f32(3, 2), "z": f32(5), "w": f32(1)},
    lambda f: [numpy.repeat(f["w"], 3)],
)
situation(
    "padded_in_the_middle_to_the_size_of_another",
    (
        "(float[1,3] x, float[8] z) => (float[?,?] y) { a = Shape<start=1>(x) b = Shape(z) d = Sub(b, a) two = Constant<value = int64[1] {2}>() "
        "l = Div(d, two) h = Sub(d, l) o = Constant<value = int64[1] {0}>() p = Concat<axis=0>(o, l, o, h) y = Pad(x, p) }"
    ),
    {"x": f32(1, 3), "z": f32(8)},
    lambda f: [numpy.pad(f["x"], ((0, 0), (2, 3)))],
)
situation(
    "cropped_in_the_middle_to_the_size_of_another",
    (
        "(float[1,8] x, float[3] z) => (float[?,?] y) { a = Shape<start=1>(x) b = Shape(z) d = Sub(b, a) two = Constant<value = int64[1] {2}>() "
        "l = Div(d, two) h = Sub(d, l) o = Constant<value = int64[1] {0}>() p = Concat<axis=0>(o, l, o, h) y = Pad(x, p) }"
    ),
    {"x": f32(1, 8), "z": f32(3)},
    lambda f: [f["x"][:, 2:5]],
)
situation(
    "padded_to_a_multiple",
    (
        "(float[1,1,5,7] x) => (float[?,?,?,?] y) { s = Shape<start=2>(x) k = Constant<value = int64[1] {4}>() r = Mod(s, k) m = Sub(k, r) "
        "t = Mod(m, k) z = Constant<value = int64[6] {0,0,0,0,0,0}>() p = Concat<axis=0>(z, t) y = Pad<mode=\"edge\">(x, p) }"
    ),
    {"x": f32(1, 1, 5, 7)},
    lambda f: [numpy.pad(f["x"], ((0, 0), (0, 0), (0, 3), (0, 1)), "edge")],
)
situation(
    "resized_by_a_quotient_of_sizes",
    (
        "(float[1,1,4,6] x, float[1,1,8,9] z) => (float[?,?,?,?] y) { a = Shape(x) b = Shape(z) c = Cast<to=1>(a) d = Cast<to=1>(b) s = Div(d, c) "
        'e = Constant<value = float[0] {}>() y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, e, s) }'
    ),
    {"x": f32(1, 1, 4, 6), "z": f32(1, 1, 8, 9)},
)
situation(
    "resized_by_a_whole_quotient_of_sizes",
    (
        "(float[1,2,4,3] x, float[1,2,8,9] z) => (float[?,?,?,?] y) { a = Shape<start=2>(x) b = Shape<start=2>(z) q = Div(b, a) c = Cast<to=1>(q) "
        "o = Constant<value = float[2] {1.0,1.0}>() s = Concat<axis=0>(o, c) e = Constant<value = float[0] {}>() "
        'r = Resize<mode="linear">(x, e, s) y = Add(r, z) }'
    ),
    {"x": f32(1, 2, 4, 3), "z": f32(1, 2, 8, 9)},
)
situation(
    "resized_to_a_quotient_of_sizes_with_antialias",
    (
        "(float[1,1,9,8] x) => (float[?,?,?,?] y) { n = Shape<end=2>(x) a = Shape<start=2>(x) two = Constant<value = int64[2] {2,2}>() q = Div(a, two) "
        's = Concat<axis=0>(n, q) e = Constant<value = float[0] {}>() y = Resize<mode="linear", antialias=1>(x, e, e, s) }'
    ),
    {"x": f32(1, 1, 9, 8)},
)
situation(
    "resized_to_one_by_pytorchs_half_pixels",
    (
        "(float[1,1,5,4] x) => (float[?,?,?,?] y) { e = Constant<value = float[0] {}>() s = Constant<value = int64[4] {1,1,1,3}>() "
        'y = Resize<mode="linear", coordinate_transformation_mode="pytorch_half_pixel">(x, e, e, s) }'
    ),
    {"x": f32(1, 1, 5, 4)},
)
situation(
    "rows_to_a_column_of_any_length_when_there_are_none",
    (
        "(float[4,0] x) => (float[?,?] y) { k = Constant<value = int64[2] {0,-1}>() r = Reshape(x, k) a = Constant<value = int64[1] {1}>() "
        "y = ReduceSum<keepdims=1>(r, a) }"
    ),
    {"x": f32(4, 0)},
    lambda f: [f32(4, 1) * 0],
)
situation(
    "identity_of_a_computed_size",
    (
        "(float[3,2] x) => (float[?,?] y) { n = Shape<end=1>(x) s = Concat<axis=0>(n, n) z = ConstantOfShape(s) e = EyeLike<k=1>(z) y = MatMul(e, x) }"
    ),
    {"x": f32(3, 2)},
    lambda f: [numpy.eye(3, k=1, dtype="f4") @ f["x"]],
)
situation(
    "rows_behind_a_product_in_groups",
    (
        "(float[6,4] x, float[4,5] w, float[5] b) => (float[?,?,?] y) { g = Gemm(x, w, b) s = Constant<value = int64[3] {-1,3,5}>() r = Reshape(g, s) "
        "y = Softmax<axis=1>(r) }"
    ),
    {"x": f32(6, 4) / 8, "w": f32(4, 5) / 8, "b": f32(5)},
    lambda f: [numpy.swapaxes(softmax(numpy.swapaxes((f["x"] @ f["w"] + f["b"]).reshape(2, 3, 5), 1, 2)), 1, 2)],
)
situation(
    "product_and_mean_of_no_rows",
    (
        "(float[0,3] x, float[3,4] w) => (float[?,?] y, float[?] s) { y = MatMul(x, w) a = Constant<value = int64[1] {0}>() s = ReduceSum<keepdims=0>(y, a) }"
    ),
    {"x": f32(0, 3), "w": f32(3, 4)},
    lambda f: [f32(0, 4), f32(4) * 0],
)
situation(
    "adaptive_pool_by_slices",
    (
        "(float[1,2,7] x) => (float[?,?,?] y) { n = Shape<start=2>(x) k = Constant<value = int64[1] {3}>() o = Constant<value = int64[1] {0}>() "
        "one = Constant<value = int64[1] {1}>() two = Constant<value = int64[1] {2}>() t = Add(n, two) e0 = Div(t, k) s1 = Div(n, k) m = Mul(n, two) "
        "m2 = Add(m, two) e1 = Div(m2, k) s2 = Div(m, k) a = Slice(x, o, e0, two) b = Slice(x, s1, e1, two) c = Slice(x, s2, n, two) "
        "p = ReduceMean(a, two) q = ReduceMean(b, two) r = ReduceMean(c, two) y = Concat<axis=2>(p, q, r) }"
    ),
    {"x": f32(1, 2, 7)},
    lambda f: [numpy.stack([f["x"][..., 0:3].mean(-1), f["x"][..., 2:5].mean(-1), f["x"][..., 4:7].mean(-1)], -1)],
)
situation(
    "windows_by_gathered_positions",
    (
        "(float[1,2,7] x) => (float[?,?,?,?] y) { n = Shape<start=2>(x) k = Constant<value = int64 {3}>() l = Squeeze(n) d = Sub(l, k) "
        "z = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() two = Constant<value = int64 {2}>() e = Add(d, one) r = Range(z, e, two) "
        "w = Range(z, k, one) a = Constant<value = int64[1] {1}>() b = Constant<value = int64[1] {0}>() c = Unsqueeze(r, a) v = Unsqueeze(w, b) "
        "i = Add(c, v) y = Gather<axis=2>(x, i) }"
    ),
    {"x": f32(1, 2, 7)},
    lambda f: [f["x"][:, :, numpy.arange(0, 5, 2)[:, None] + numpy.arange(3)]],
)
situation(
    "best_of_at_most_a_hundred",
    (
        "(float[2,5] x) => (float[?,?] v, int64[?,?] i) { n = Shape<start=1>(x) k = Constant<value = int64[1] {100}>() m = Min(n, k) v, i = TopK(x, m) }"
    ),
    {"x": f32(2, 5)},
)
situation(
    "squeezed_of_whatever_is_one",
    "(float[1,3,1,2] x) => (float[?,?] y) { s = Squeeze(x) y = Neg(s) }",
    {"x": f32(1, 3, 1, 2)},
)
situation(
    "sum_of_slices_of_given_ends",
    (
        "(float[6] x, int64[1] b, int64[1] e) => (float[?] y, float[?] v) { s = Slice(x, b, e) t = Max(s, s) u = Sum(s, t, s) y = Min(u, s) v = Mean(s, t) }"
    ),
    {"x": f32(6), "b": i64(1), "e": i64(-1)},
    lambda f: [numpy.minimum(3 * f["x"][1:-1], f["x"][1:-1]), f["x"][1:-1]],
)
situation(
    "expanded_to_a_smaller_shape",
    "(float[3,1] x, float[4] z) => (float[?,?] y) { n = Shape(z) o = Constant<value = int64[1] {1}>() s = Concat<axis=0>(o, n) y = Expand(x, s) }",
    {"x": f32(3, 1), "z": f32(4)},
    lambda f: [numpy.broadcast_to(f["x"], (3, 4))],
)
situation(
    "tiled_no_times", "(float[2,3] x, int64[2] r) => (float[?,?] y) { y = Tile(x, r) }", {"x": f32(2, 3), "r": i64(2, 0)}, lambda f: [f32(4, 0)]
)
situation(
    "parts_of_an_uneven_split",
    "(float[7,2] x) => (float[?,?] a, float[?,?] b, float[?,?] c) { a, b, c = Split<num_outputs=3>(x) }",
    {"x": f32(7, 2)},
    lambda f: [f["x"][:3], f["x"][3:6], f["x"][6:]],
)

# Indices.
situation(
    "backwards_to_the_second",
    (
        "(float[10] x, float[3,4] z) => (float[?] a, float[?] b, float[?,?] c) { s = Constant<value = int64[1] {9}>() e = Constant<value = int64[1] {0}>() "
        "o = Constant<value = int64[1] {0}>() m = Constant<value = int64[1] {-1}>() t = Constant<value = int64[1] {-3}>() a = Slice(x, s, e, o, m) "
        "b = Slice(x, s, e, o, t) p = Constant<value = int64[2] {2,3}>() q = Constant<value = int64[2] {0,0}>() r = Constant<value = int64[2] {0,1}>() "
        "u = Constant<value = int64[2] {-1,-1}>() c = Slice(z, p, q, r, u) }"
    ),
    {"x": f32(10), "z": f32(3, 4)},
    lambda f: [f["x"][9:0:-1], f["x"][9:0:-3], f["z"][2:0:-1, 3:0:-1]],
)
situation(
    "backwards_beyond_the_first",
    (
        "(float[5] x, int64[1] s, int64[1] e) => (float[?] y) { o = Constant<value = int64[1] {0}>() m = Constant<value = int64[1] {-2}>() y = Slice(x, s, e, o, m) }"
    ),
    {"x": f32(5), "s": i64(99), "e": i64(-99)},
    lambda f: [f["x"][::-2]],
)
situation(
    "read_and_written_from_the_end",
    (
        "(float[3,4] x, int64[2,2] i, float[2] u) => (float[?] y, float[?,?] z, float[?,?] e) { y = GatherND(x, i) z = ScatterND<reduction=\"add\">(x, i, u) "
        "e = GatherElements<axis=1>(x, i) }"
    ),
    {"x": f32(3, 4), "i": i64(-1, -1, 0, -2).reshape(2, 2), "u": f32(2)},
    lambda f: [
        f["x"][[-1, 0], [-1, -2]],
        f["x"] + numpy.array([[0, 0, f["u"][1], 0], [0, 0, 0, 0], [0, 0, 0, f["u"][0]]], "f4"),
        numpy.take_along_axis(f["x"][:2], f["i"], 1),
    ],
)
situation(
    "written_at_each_row_by_its_own_column",
    (
        "(float[3,4] x, int64[3] c, float[3] u) => (float[?,?] y) { n = Shape(c) l = Squeeze(n) o = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() "
        "r = Range(o, l, one) a = Constant<value = int64[1] {1}>() p = Unsqueeze(r, a) q = Unsqueeze(c, a) i = Concat<axis=1>(p, q) y = ScatterND(x, i, u) }"
    ),
    {"x": f32(3, 4), "c": i64(2, 0, 3), "u": f32(3)},
)
situation(
    "places_of_what_is_positive_read_again",
    "(float[2,3] x) => (float[?] y) { o = Constant<value = float {0.0}>() k = Greater(x, o) n = NonZero(k) t = Transpose(n) y = GatherND(x, t) }",
    {"x": f32(2, 3)},
    lambda f: [f["x"][f["x"] > 0]],
)
situation(
    "products_scattered_to_one_place",
    '(float[3] x, int64[4] i, float[4] u) => (float[?] y) { y = ScatterElements<reduction="mul">(x, i, u) }',
    {"x": f32(3), "i": i64(1, 1, -2, 0), "u": f32(4)},
)
situation(
    "last_of_equals",
    (
        "(int64[2,4] x) => (int64[?,?] a, int64[?] b, int64[?,?] c) { a = ArgMax<axis=1, select_last_index=1>(x) b = ArgMin<axis=0, keepdims=0>(x) "
        "c = ArgMax<axis=-1>(x) }"
    ),
    {"x": i64(1, 7, 7, 0, 7, 1, 0, 7).reshape(2, 4)},
    lambda f: [i64(2, 3).reshape(2, 1), i64(0, 1, 1, 0), i64(1, 0).reshape(2, 1)],
)
situation(
    "positions_of_tokens_that_are_no_padding",
    (
        "(int64[2,5] x, float[9,2] w) => (float[?,?,?] y) { p = Constant<value = int64 {1}>() e = Equal(x, p) n = Not(e) m = Cast<to=6>(n) a = Constant<value = int64 {1}>() "
        "c = CumSum(m, a) k = Mul(c, m) l = Cast<to=7>(k) i = Add(l, p) y = Gather(w, i) }"
    ),
    {"x": i64(0, 5, 6, 1, 1, 0, 2, 1, 3, 1).reshape(2, 5), "w": f32(9, 2)},
)
situation(
    "triangles_beyond_the_matrix",
    (
        "(float[3,2] x) => (float[?,?] a, float[?,?] b, float[?,?] c) { k = Constant<value = int64 {5}>() m = Constant<value = int64 {-5}>() "
        "a = Trilu<upper=1>(x, k) b = Trilu<upper=0>(x, k) c = Trilu<upper=1>(x, m) }"
    ),
    {"x": f32(3, 2)},
    lambda f: [0 * f["x"], f["x"], f["x"]],
)
situation(
    "mixed_reflection_and_crop",
    '(float[4,5] x, int64[4] p) => (float[?,?] y) { y = Pad<mode="reflect">(x, p) }',
    {"x": f32(4, 5), "p": i64(-1, 2, -1, 0)},
    lambda f: [numpy.pad(f["x"][1:-1], ((0, 0), (2, 0)), "reflect")],
)

# Windows.
situation(
    "mean_of_windows_that_leave_the_padding",
    (
        "(float[1,1,5,6] x) => (float[?,?,?,?] a, float[?,?,?,?] b) { "
        "a = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1, count_include_pad=1>(x) "
        "b = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1>(x) }"
    ),
    {"x": f32(1, 1, 5, 6)},
    "ort",
)
situation(
    "transposed_convolution_to_a_given_shape",
    (
        '(float[1,2,3,4] x, float[2,3,3,3] w) => (float[?,?,?,?] y, float[?,?,?,?] z) { y = ConvTranspose<strides=[3,2], output_shape=[10,8]>(x, w) '
        'z = ConvTranspose<strides=[2,2], auto_pad="SAME_UPPER">(x, w) }'
    ),
    {"x": f32(1, 2, 3, 4), "w": f32(2, 3, 3, 3)},
    "ort",
)
situation(
    "blocks_of_channels_in_both_orders",
    (
        '(float[1,8,2,3] x) => (float[?,?,?,?] a, float[?,?,?,?] b, float[?,?,?,?] c) { a = DepthToSpace<blocksize=2, mode="CRD">(x) '
        "b = DepthToSpace<blocksize=2>(x) c = SpaceToDepth<blocksize=2>(a) }"
    ),
    {"x": f32(1, 8, 2, 3)},
)
situation(
    "grouped_convolution_of_no_images",
    "(float[0,4,5,5] x, float[6,2,3,3] w, float[6] b) => (float[?,?,?,?] y) { y = Conv<group=2, pads=[1,1,1,1]>(x, w, b) }",
    {"x": f32(0, 4, 5, 5), "w": f32(6, 2, 3, 3), "b": f32(6)},
    lambda f: [f32(0, 6, 5, 5)],
)
situation(
    "convolution_by_weights_of_the_input",
    (
        "(float[1,3,6,6] x, float[1,3,2,2] z) => (float[?,?,?,?] y) { s = Constant<value = int64[4] {3,1,2,2}>() w = Reshape(z, s) y = Conv<group=3>(x, w) }"
    ),
    {"x": f32(1, 3, 6, 6), "z": f32(1, 3, 2, 2)},
)

# Products and normalisations.
situation(
    "relative_positions_by_einsum",
    (
        '(float[2,3,4,5] q, float[3,6,5] r, float[2,3,4,5] k) => (float[?,?,?,?] a, float[?,?,?] b) { a = Einsum<equation="bhwc,hkc->bhwk">(q, r) '
        'b = Einsum<equation="nhwc,nhwc->nhw">(q, k) }'
    ),
    {"q": f32(2, 3, 4, 5), "r": f32(3, 6, 5), "k": f32(2, 3, 4, 5)[::-1].copy()},
    lambda f: [numpy.einsum("bhwc,hkc->bhwk", f["q"], f["r"]), numpy.einsum("nhwc,nhwc->nhw", f["q"], f["k"])],
)
situation(
    "scores_masked_by_large_numbers",
    (
        "(float[2,2,3,4] s, int64[2,4] m) => (float[?,?,?,?] y) { a = Constant<value = int64[2] {1,2}>() u = Unsqueeze(m, a) c = Cast<to=1>(u) "
        "one = Constant<value = float {1.0}>() l = Constant<value = float {-10000.0}>() d = Sub(one, c) e = Mul(d, l) t = Add(s, e) y = Softmax<axis=-1>(t) }"
    ),
    {"s": f32(2, 2, 3, 4), "m": i64(1, 1, 0, 0, 1, 1, 1, 1).reshape(2, 4)},
)
situation(
    "layers_normalised_over_two_dimensions",
    "(float[2,3,4] x, float[3,4] g, float[3,4] b) => (float[?,?,?] y, float[?,?,?] m) { y, m = LayerNormalization<axis=1, epsilon=0.01>(x, g, b) }",
    {"x": f32(2, 3, 4), "g": f32(3, 4), "b": f32(3, 4)},
    lambda f: [
        (c := f["x"] - f["x"].mean((1, 2), keepdims=True)) / numpy.sqrt((c * c).mean((1, 2), keepdims=True) + 0.01) * f["g"] + f["b"],
        f["x"].mean((1, 2), keepdims=True),
    ],
)
situation(
    "instances_of_one_element",
    "(float[2,3,1] x, float[3] s, float[3] b) => (float[?,?,?] y) { y = InstanceNormalization(x, s, b) }",
    {"x": f32(2, 3, 1), "s": f32(3), "b": f32(3)},
    lambda f: [numpy.broadcast_to(f["b"][None, :, None], (2, 3, 1))],
)
situation(
    "gru_reversed_that_resets_behind_the_product",
    (
        '(float[4,2,3] x, float[1,6,3] w, float[1,6,2] r, float[1,12] b, float[1,2,2] h) => (float[?,?,?,?] y, float[?,?,?] l) { '
        'y, l = GRU<hidden_size=2, direction="reverse", linear_before_reset=1>(x, w, r, b, , h) }'
    ),
    {"x": f32(4, 2, 3) / 8, "w": f32(1, 6, 3) / 9, "r": f32(1, 6, 2) / 9, "b": f32(1, 12) / 9, "h": f32(1, 2, 2) / 9},
    "ort",
)
situation(
    "lstm_of_both_directions_and_lengths",
    (
        '(float[4,2,3] x, float[2,8,3] w, float[2,8,2] r, float[2,16] b, int32[2] n) => (float[?,?,?] z, float[?,?,?] h) { '
        'y, h, c = LSTM<hidden_size=2, direction="bidirectional">(x, w, r, b, n) t = Transpose<perm=[0,2,1,3]>(y) '
        "s = Constant<value = int64[3] {0,0,-1}>() z = Reshape(t, s) }"
    ),
    {"x": f32(4, 2, 3) / 8, "w": f32(2, 8, 3) / 9, "r": f32(2, 8, 2) / 9, "b": f32(2, 16) / 9, "n": numpy.array([4, 2], "i4")},
    "ort",
)

# Numbers.
situation(
    "range_of_tenths",
    (
        "(float[1] x) => (float[?] y, float[?] z) { a = Constant<value = float {0.0}>() b = Constant<value = float {1.0}>() c = Constant<value = float {0.1}>() "
        "r = Range(a, b, c) y = Add(r, x) d = Constant<value = float {-0.3}>() t = Range(b, a, d) z = Mul(t, x) }"
    ),
    {"x": f32(1)},
    lambda f: [numpy.arange(10, dtype="f4") * numpy.float32(0.1) + f["x"], (1 - numpy.arange(4, dtype="f4") * numpy.float32(0.3)) * f["x"]],
)
situation(
    "remainders_of_each_sign",
    (
        "(int64[4] a, int64[4] b, float[4] x, float[4] z) => (int64[?] p, int64[?] q, float[?] r, int64[?] d) { p = Mod(a, b) q = Mod<fmod=1>(a, b) "
        "r = Mod<fmod=1>(x, z) d = Div(a, b) }"
    ),
    {"a": i64(7, -7, 7, -7), "b": i64(3, 3, -3, -3), "x": numpy.array([7.5, -7.5, 7.5, -7.5], "f4"), "z": numpy.array([2, 2, -2, -2], "f4")},
    lambda f: [i64(1, 2, -2, -1), i64(1, -1, 1, -1), numpy.fmod(f["x"], f["z"]), i64(2, -2, -2, 2)],
)
situation(
    "clipped_between_bounds_in_the_wrong_order",
    "(float[5] x, float l, float h) => (float[?] y) { y = Clip(x, l, h) }",
    {"x": f32(5), "l": scalar(3), "h": scalar(-3)},
    lambda f: [numpy.full(5, -3, "f4")],
)
situation(
    "extremes_of_nothing",
    (
        "(float[2,0] x) => (float[?,?] a, float[?,?] b, float[?,?] c, float[?,?] d) { k = Constant<value = int64[1] {1}>() a = ReduceMax(x, k) b = ReduceMin(x, k) "
        "c = ReduceProd(x, k) d = ReduceSumSquare(x, k) }"
    ),
    {"x": f32(2, 0)},
    lambda f: [numpy.full((2, 1), v, "f4") for v in (-numpy.inf, numpy.inf, 1, 0)],
    20,
)
situation(
    "bits_shifted_out",
    '(uint8[4] x, uint8[4] n) => (uint8[?] l, uint8[?] r) { l = BitShift<direction="LEFT">(x, n) r = BitShift<direction="RIGHT">(x, n) }',
    {"x": numpy.array([1, 255, 128, 7], "u1"), "n": numpy.array([7, 1, 7, 0], "u1")},
    lambda f: [numpy.array([128, 254, 0, 7], "u1"), numpy.array([0, 127, 1, 7], "u1")],
)
LARGE = (numpy.arange(512).reshape(2, 1, 16, 16) % 7 * 150 + 100).astype("f2")  # whose sums float16 can't hold
situation(
    "half_means_of_large",
    (
        "(float16[2,1,16,16] x) => (float16[?,?,?,?] y, float16[?,?] z, float16[?,?,?,?] w) { y = GlobalAveragePool(x) a = Constant<value = int64[2] {2,3}>() "
        "z = ReduceMean<keepdims=0>(x, a) w = Mean(x, x, x) }"
    ),
    {"x": LARGE},
    lambda f: [(m := f["x"].astype("f8").mean((2, 3), keepdims=True)).astype("f2"), m[..., 0, 0].astype("f2"), f["x"]],
)
situation(
    "half_norms_of_large",
    (
        "(float16[2,1,16,16] x) => (float16[?,?,?,?] y, float16[?,?,?,?] z, float16[?,?,?,?] w, float16[?,?,?,?] v) { a = Constant<value = int64[2] {2,3}>() "
        "y = ReduceL2(x, a) z = GlobalLpPool(x) w = LpNormalization<axis=3>(x) v = MeanVarianceNormalization(x) }"
    ),
    {"x": LARGE},
    lambda f: [
        (n := numpy.sqrt((f["x"].astype("f8") ** 2).sum((2, 3), keepdims=True))).astype("f2"),
        n.astype("f2"),
        ((d := f["x"].astype("f8")) / numpy.linalg.norm(d, axis=3, keepdims=True)).astype("f2"),
        ((d - d.mean((0, 2, 3), keepdims=True)) / d.std((0, 2, 3), keepdims=True)).astype("f2"),
    ],
)
situation(
    "half_product_of_large_that_is_scaled",
    "(float16[3,64] x, float16[64,4] w, float16[4] c) => (float16[?,?] y) { y = Gemm<alpha=0.01, beta=2.0>(x, w, c) }",
    {"x": numpy.abs(f32(3, 64) * 20).astype("f2"), "w": numpy.abs(f32(64, 4) * 9).astype("f2"), "c": f32(4).astype("f2")},
    lambda f: [(0.01 * (f["x"].astype("f8") @ f["w"].astype("f8")) + 2 * f["c"].astype("f8")).astype("f2")],
)
situation(
    "half_product_of_large_that_something_is_taken_from",
    "(float16[4,64] x, float16[64,4] w, float16[4] c) => (float16[?,?] y) { y = Gemm(x, w, c) }",
    {"x": numpy.full((4, 64), 40, "f2"), "w": numpy.full((64, 4), 30, "f2"), "c": numpy.full(4, -20000, "f2")},
    lambda f: [numpy.full((4, 4), 64 * 40 * 30 - 20000, "f2")],
)

# Control.
situation(
    "loop_of_no_trips_by_an_open_count",
    (
        "(float[0,2] x, float[2] s) => (float[?] f, float[?,?] y) { n = Shape<end=1>(x) m = Squeeze(n) t = Constant<value = bool {1}>() f, y = Loop(m, t, s) <body = b "
        "(int64 i, bool c, float[2] a) => (bool c2, float[2] a2, float[2] o) { c2 = Identity(c) r = Gather<axis=0>(x, i) a2 = Add(a, r) o = Identity(a) }> }"
    ),
    {"x": f32(0, 2), "s": f32(2)},
    lambda f: [f["s"], f32(0, 2)],
)
situation(
    "sequence_changed_by_positions_from_the_end",
    (
        "(float[2] x, float[2] z) => (float[?,?] y) { s = SequenceConstruct(x, z, x) m = Constant<value = int64 {-1}>() e = SequenceErase(s, m) "
        "i = SequenceInsert(e, z, m) y = ConcatFromSequence<axis=0, new_axis=1>(i) }"
    ),
    {"x": f32(2), "z": -f32(2)},
    lambda f: [numpy.stack([f["x"], f["z"], f["z"]])],
)
situation(
    "branches_of_other_sizes_made_one",
    (
        "(float[2,3] x, bool c) => (float[?,?] y) { k = Constant<value = int64[2] {-1,3}>() v = If(c) <then_branch = g () => (float[a,b] r) { r = Identity(x) }, "
        "else_branch = h () => (float[d,e] q) { q = Concat<axis=0>(x, x) }> y = Reshape(v, k) }"
    ),
    {"x": f32(2, 3), "c": numpy.array(False)},
    lambda f: [numpy.concatenate([f["x"], f["x"]])],
)
