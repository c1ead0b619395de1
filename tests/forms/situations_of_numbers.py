"""Situations of numbers: interpolation, sums of products, integers, strings and quantised values; see situations.py."""

import ml_dtypes
import numpy
from situations import f32, i64, scalar, situation

# Resize and its coordinates.
for mode in ("nearest", "linear", "cubic"):
    for transform in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"):
        situation(
            f"resize_{mode}_{transform}",
            f'(float[1,2,5,4] x, int64[4] s) => (float[?,?,?,?] y) {{ y = Resize<mode="{mode}", coordinate_transformation_mode="{transform}">(x, , , s) }}',
            {"x": f32(1, 2, 5, 4), "s": i64(1, 2, 3, 9)},
            expected="reference",
        )
situation(
    "resize_to_one",
    (
        '(float[1,1,5,4] x, int64[4] s) => (float[?,?,?,?] y) { y = Resize<mode="linear", '
        'coordinate_transformation_mode="pytorch_half_pixel">(x, , , s) }'
    ),
    {"x": f32(1, 1, 5, 4), "s": i64(1, 1, 1, 1)},
)
situation(
    "resize_align_corners_to_one",
    (
        '(float[1,1,5,4] x, int64[4] s) => (float[?,?,?,?] y) { y = Resize<mode="linear", '
        'coordinate_transformation_mode="align_corners">(x, , , s) }'
    ),
    {"x": f32(1, 1, 5, 4), "s": i64(1, 1, 1, 1)},
    expected="ort",
)
situation(
    "resize_antialias",
    '(float[1,1,9,7] x, int64[4] s) => (float[?,?,?,?] y) { y = Resize<mode="linear", antialias=1>(x, , , s) }',
    {"x": f32(1, 1, 9, 7), "s": i64(1, 1, 4, 3)},
)
situation(
    "resize_antialias_cubic_exclude",
    ('(float[1,1,9,7] x, int64[4] s) => (float[?,?,?,?] y) { y = Resize<mode="cubic", antialias=1, ' "exclude_outside=1>(x, , , s) }"),
    {"x": f32(1, 1, 9, 7), "s": i64(1, 1, 4, 3)},
)
for policy in ("not_larger", "not_smaller"):
    situation(
        f"resize_{policy}",
        f'(float[1,1,9,7] x, int64[2] s) => (float[?,?,?,?] y) {{ y = Resize<mode="linear", axes=[2,3], keep_aspect_ratio_policy="{policy}">(x, , , s) }}',
        {"x": f32(1, 1, 9, 7), "s": i64(5, 6)},
    )
for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
    situation(
        f"resize_nearest_{rounding}",
        f'(float[1,1,6,5] x, float[4] s) => (float[?,?,?,?] y) {{ y = Resize<nearest_mode="{rounding}">(x, , s) }}',
        {"x": f32(1, 1, 6, 5), "s": numpy.array([1, 1, 0.6, 2.3], "f4")},
    )
situation(
    "resize_crop",
    (
        '(float[1,1,6,5] x, float[8] r, int64[4] s) => (float[?,?,?,?] y) { y = Resize<mode="linear", '
        'coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0>(x, r, , s) }'
    ),
    {"x": f32(1, 1, 6, 5), "r": numpy.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], "f4"), "s": i64(1, 1, 3, 3)},
)
situation(
    "resize_twice_by_shape",
    (
        "(float[1,2,h,w] x, float[1,2,h2,w2] z) => (float[?,?,?,?] y) { s = Shape<start=2>(z) p = Shape<end=2>(x) q = "
        'Concat<axis=0>(p, s) y = Resize<mode="linear">(x, , , q) }'
    ),
    {"x": f32(1, 2, 3, 4), "z": f32(1, 2, 7, 5)},
)
situation(
    "upsample_9",
    '(float[1,1,2,3] x, float[4] s) => (float[?,?,?,?] y) { y = Upsample<mode="linear">(x, s) }',
    {"x": f32(1, 1, 2, 3), "s": numpy.array([1, 1, 2, 3], "f4")},
    "ort",
    9,
)
situation(
    "grid_sample_borders",
    (
        '(float[1,2,4,5] x, float[1,3,2,2] g) => (float[?,?,?,?] y) { y = GridSample<mode="cubic", '
        'padding_mode="reflection", align_corners=1>(x, g) }'
    ),
    {"x": f32(1, 2, 4, 5), "g": f32(1, 3, 2, 2) / 4},
    "ort",
    20,
)
situation(
    "grid_sample_nan",
    ('(float[1,1,4,5] x, float[1,1,4,2] g) => (float[?,?,?,?] y) { y = GridSample<mode="nearest", ' 'padding_mode="zeros">(x, g) }'),
    {"x": f32(1, 1, 4, 5), "g": numpy.array([[[[5, 5], [-1, -1], [1, 1], [0.2, -7]]]], "f4")},
    "ort",
    20,
)

# Einsum.
for equation, a, b in (
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ij,jk", (3, 4), (4, 2)),
    ("i,j->ji", (3,), (4,)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("ii,i->i", (3, 3), (3,)),
    ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 5, 4)),
    ("ab,cd->", (2, 3), (4, 2)),
    ("a,a->", (0,), (0,)),
    (" i j , j -> i ", (3, 4), (4,)),
    ("abc,cb->ba", (2, 3, 4), (4, 3)),
    ("...,...", (2, 3), (3,)),
):
    situation(
        f"einsum {equation}",
        f'(float{list(a)} x, float{list(b)} z) => (float y) {{ y = Einsum<equation="{equation}">(x, z) }}',
        {"x": f32(*a), "z": f32(*b)},
        expected=lambda f, e=equation: [numpy.einsum(e.strip(), f["x"], f["z"])],
    )
situation(
    "einsum_trace",
    '(float[3,3] x) => (float y) { y = Einsum<equation="ii">(x) }',
    {"x": f32(3, 3)},
    expected=lambda f: [numpy.array(numpy.trace(f["x"]))],
)
situation(
    "einsum_of_integers",
    '(int64[3,4] x, int64[4] z) => (int64[?] y) { y = Einsum<equation="ij,j->i">(x, z) }',
    {"x": numpy.arange(12).reshape(3, 4) + 2**53, "z": i64(1, -1, 2, 3)},
)

# Integers: overflow, division, remainders, shifts.
situation(
    "integer_division_truncates",
    "(int64[4] x, int64[4] z) => (int64[?] y) { y = Div(x, z) }",
    {"x": i64(7, -7, 7, -7), "z": i64(2, 2, -2, -2)},
    expected=lambda f: [i64(3, -3, -3, 3)],
)
situation(
    "mod_of_signs",
    "(int32[4] x, int32[4] z) => (int32[?] y, int32[?] r) { y = Mod(x, z) r = Mod<fmod=1>(x, z) }",
    {"x": numpy.array([7, -7, 7, -7], "i4"), "z": numpy.array([3, 3, -3, -3], "i4")},
)
situation(
    "mod_of_floats",
    "(float[4] x, float[4] z) => (float[?] r) { r = Mod<fmod=1>(x, z) }",
    {"x": numpy.array([7.5, -7.5, 5e20, numpy.inf], "f4"), "z": numpy.array([2, 2, 3, 3], "f4")},
)
situation(
    "int8_sum_wraps",
    "(int8[3] x, int8[3] z) => (int8[?] y) { y = Add(x, z) }",
    {"x": numpy.array([127, -128, 100], "i1"), "z": numpy.array([1, -1, 100], "i1")},
)
situation("uint8_mean", "(uint8[200] x) => (int32 y) { c = Cast<to=6>(x) y = ReduceSum<keepdims=0>(c) }", {"x": numpy.full(200, 255, "u1")})
situation("reduce_sum_of_large_int64", "(int64[3] x) => (int64 y) { y = ReduceSum<keepdims=0>(x) }", {"x": i64(2**62, -(2**62) + 1, 2**53)})
situation("pow_of_integers", "(int64[4] x, int64[4] z) => (int64[?] y) { y = Pow(x, z) }", {"x": i64(3, -2, 7, 10), "z": i64(39, 63, 0, 18)})
situation(
    "cast_negative_to_uint8",
    "(int32[3] x) => (uint8[?] y) { y = Cast<to=2>(x) }",
    {"x": numpy.array([-1, 256, 300], "i4")},
    expected=lambda f: [numpy.array([255, 0, 44], "u1")],
)
situation("cast_float_to_bool", "(float[4] x) => (bool[?] y) { y = Cast<to=9>(x) }", {"x": numpy.array([0, -0.0, 0.1, numpy.nan], "f4")})
situation(
    "cast_strings",
    "(string[4] x) => (float[?] y) { y = Cast<to=1>(x) }",
    {"x": numpy.array(["1.5", "-INF", "1e-3", "NaN"], object)},
    expected=lambda f: [numpy.array([1.5, -numpy.inf, 0.001, numpy.nan], "f4")],
)
situation(
    "range_backwards",
    "(int64 a, int64 b, int64 c) => (int64[?] y) { y = Range(a, b, c) }",
    {"a": i64(5).reshape(()), "b": i64(-4).reshape(()), "c": i64(-3).reshape(())},
)
situation("range_empty", "(float a, float b, float c) => (float[?] y) { y = Range(a, b, c) }", {"a": scalar(5), "b": scalar(5), "c": scalar(0.5)})
situation(
    "range_of_floats",
    "(float a, float b, float c) => (float[?] y) { y = Range(a, b, c) }",
    {"a": scalar(0), "b": scalar(1), "c": scalar(0.1)},
    expected=lambda f: [(numpy.arange(10) * numpy.float32(0.1)).astype("f4")],
)
situation(
    "clip_of_integers_with_one_limit",
    "(int64[4] x, int64 h) => (int64[?] y) { y = Clip(x, , h) }",
    {"x": i64(2**62, -(2**63), 5, 2**53 + 1), "h": i64(2**53).reshape(())},
)
situation(
    "where_broadcasts_the_condition",
    "(bool[1,3] c, float[2,1] x, float z) => (float[?,?] y) { y = Where(c, x, z) }",
    {"c": numpy.array([[1, 0, 1]], bool), "x": f32(2, 1), "z": scalar(numpy.nan)},
)
situation(
    "equal_of_strings",
    "(string[3] x, string[1] z) => (bool[?] y) { y = Equal(x, z) }",
    {"x": numpy.array(["a", "b", ""], object), "z": numpy.array(["b"], object)},
)
situation(
    "argmax_last_index",
    "(float[2,4] x) => (int64[?,?] y) { y = ArgMax<axis=-1, select_last_index=1>(x) }",
    {"x": numpy.array([[1, 3, 3, 0], [2, 2, 2, 2]], "f4")},
)
situation("argmax_of_int64", "(int64[3] x) => (int64[?] y) { y = ArgMax<axis=0>(x) }", {"x": i64(2**53, 2**53 + 1, 0)})

# Strings.
situation(
    "string_split_widths",
    '(string[3] x) => (string[?,?] y, int64[?] n) { y, n = StringSplit<delimiter=",">(x) }',
    {"x": numpy.array(["a,b", "", "x,y,z"], object)},
)
situation(
    "string_normalizer",
    ('(string[4] x) => (string[?] y) { y = StringNormalizer<case_change_action="UPPER", stopwords=["the"], ' "is_case_sensitive=0>(x) }"),
    {"x": numpy.array(["The", "cat", "sat", "the"], object)},
    expected=lambda f: [numpy.array(["CAT", "SAT"], object)],
)
situation(
    "string_concat_broadcast",
    "(string[2,1] x, string[3] z) => (string[?,?] y) { y = StringConcat(x, z) }",
    {"x": numpy.array([["a"], ["é"]], object), "z": numpy.array(["", "b", "c"], object)},
)
situation(
    "regex_full",
    '(string[3] x) => (bool[?] y) { y = RegexFullMatch<pattern="www\\\\.[a-z]+\\\\.com">(x) }',
    {"x": numpy.array(["www.abc.com", "www.abc.com.br", ""], object)},
)

# Quantised.
situation(
    "qlinear_matmul_signs",
    (
        "(uint8[2,3] a, float s, uint8 z, int8[3,2] b, float t, int8 w, float u, uint8 v) => (uint8[?,?] y) { y = "
        "QLinearMatMul(a, s, z, b, t, w, u, v) }"
    ),
    {
        "a": numpy.array([[0, 128, 255], [7, 9, 200]], "u1"),
        "s": scalar(0.02),
        "z": scalar(128, "u1"),
        "b": numpy.array([[127, -128], [5, 0], [-7, 99]], "i1"),
        "t": scalar(0.03),
        "w": scalar(-3, "i1"),
        "u": scalar(0.1),
        "v": scalar(120, "u1"),
    },
    "ort",
)
situation(
    "qlinear_conv_per_channel",
    (
        "(uint8[1,2,5,5] x, float s, uint8 z, int8[3,2,3,3] w, float[3] t, int8[3] k, float u, uint8 v, int32[3] b) => "
        "(uint8[?,?,?,?] y) { y = QLinearConv<pads=[1,1,1,1], strides=[2,2]>(x, s, z, w, t, k, u, v, b) }"
    ),
    {
        "x": (numpy.arange(50).reshape(1, 2, 5, 5) * 37 % 256).astype("u1"),
        "s": scalar(0.02),
        "z": scalar(100, "u1"),
        "w": (numpy.arange(54).reshape(3, 2, 3, 3) * 29 % 255 - 127).astype("i1"),
        "t": numpy.array([0.01, 0.02, 0.03], "f4"),
        "k": numpy.zeros(3, "i1"),
        "u": scalar(0.2),
        "v": scalar(99, "u1"),
        "b": numpy.array([100, -50, 7], "i4"),
    },
    "ort",
)
situation(
    "matmul_integer_per_row",
    "(uint8[2,3] a, int8[3,2] b, uint8[2] z, int8[2] w) => (int32[?,?] y) { y = MatMulInteger(a, b, z, w) }",
    {
        "a": numpy.array([[0, 128, 255], [7, 9, 200]], "u1"),
        "b": numpy.array([[127, -128], [5, 0], [-7, 99]], "i1"),
        "z": numpy.array([1, 200], "u1"),
        "w": numpy.array([-3, 5], "i1"),
    },
    expected=lambda f: [(f["a"].astype("i4") - f["z"].astype("i4")[:, None]) @ (f["b"].astype("i4") - f["w"].astype("i4"))],
)
situation(
    "conv_integer_padding_is_zero_point",
    "(uint8[1,1,3,3] x, uint8[1,1,2,2] w, uint8 z) => (int32[?,?,?,?] y) { y = ConvInteger<pads=[1,1,1,1]>(x, w, z) }",
    {"x": numpy.arange(9, dtype="u1").reshape(1, 1, 3, 3), "w": numpy.arange(4, dtype="u1").reshape(1, 1, 2, 2), "z": scalar(3, "u1")},
    "ort",
)
situation(
    "dynamic_quantize_of_zeros",
    "(float[4] x) => (uint8[?] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
    {"x": numpy.array([0.1, 5, -3, 2.2], "f4")},
)
situation(
    "quantize_half_to_even",
    "(float[6] x, float s, int8 z) => (int8[?] y) { y = QuantizeLinear(x, s, z) }",
    {"x": numpy.array([0.5, 1.5, 2.5, -0.5, -1.5, 1000000000.0], "f4"), "s": scalar(1), "z": scalar(0, "i1")},
)
situation(
    "quantize_by_axis_negative",
    "(float[2,3] x, float[3] s, uint8[3] z) => (uint8[?,?] y) { y = QuantizeLinear<axis=-1>(x, s, z) }",
    {"x": f32(2, 3), "s": numpy.array([0.1, 0.2, 0.5], "f4"), "z": numpy.array([0, 128, 255], "u1")},
)
situation(
    "quantize_blocks_that_do_not_divide",
    "(float[2,5] x, float[2,3] s) => (int8[?,?] y) { y = QuantizeLinear<axis=1, block_size=2, output_dtype=3>(x, s) }",
    {"x": f32(2, 5), "s": numpy.abs(f32(2, 3)) / 50},
    expected=lambda f: [numpy.clip(numpy.rint(f["x"] / numpy.repeat(f["s"], 2, 1)[:, :5]), -128, 127).astype("i1")],
)
situation(
    "cast_to_float8_saturates",
    "(float[6] x) => (float[?] y) { c = Cast<to=17>(x) y = Cast<to=1>(c) }",
    {"x": numpy.array([500, -1000000000.0, 0.001, 17.3, numpy.inf, 448], "f4")},
    "reference",
)
situation(
    "castlike_float8",
    "(float[4] x, float8e5m2[1] t) => (float[?] y) { c = CastLike<saturate=0>(x, t) y = Cast<to=1>(c) }",
    {"x": numpy.array([1000000.0, 3.3, -0.1, 57344], "f4"), "t": numpy.zeros(1, ml_dtypes.float8_e5m2)},
    "reference",
)
