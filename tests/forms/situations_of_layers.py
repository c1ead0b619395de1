"""Situations of layers: recurrent networks, windows, normalisation and attention; see situations.py."""

import numpy
from situations import f32, i64, scalar, situation

# Recurrent networks with sequence_lens.
for op, gates, last in (("LSTM", 4, ", yc"), ("GRU", 3, ""), ("RNN", 1, "")):
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        situation(
            f"{op.lower()}_lengths_{direction}",
            f"(float[5,3,2] x, float[{count},{gates * 4},2] w, float[{count},{gates * 4},4] r, float[{count},{gates * 8}] b, int32[3] n)"
            f" => (float y, float yh{last.replace(', ', ', float ')})"
            f' {{ y, yh{last} = {op}<hidden_size=4, direction="{direction}">(x, w, r, b, n) }}',
            {
                "x": f32(5, 3, 2) / 4,
                "w": f32(count, gates * 4, 2) / 9,
                "r": f32(count, gates * 4, 4) / 11,
                "b": f32(count, gates * 8) / 8,
                "n": numpy.array([2, 5, 1], "i4"),
            },
            "ort",
        )
situation(
    "gru_linear_before_reset",
    (
        "(float[4,2,3] x, float[1,12,3] w, float[1,12,4] r, float[1,24] b, float[1,2,4] h) => (float[?,?,?,?] y, "
        "float[?,?,?] yh) { y, yh = GRU<hidden_size=4, linear_before_reset=1, clip=0.9>(x, w, r, b, , h) }"
    ),
    {"x": f32(4, 2, 3) / 4, "w": f32(1, 12, 3) / 9, "r": f32(1, 12, 4) / 9, "b": f32(1, 24) / 9, "h": f32(1, 2, 4) / 9},
    "ort",
)
situation(
    "lstm_peepholes",
    (
        "(float[4,2,3] x, float[1,16,3] w, float[1,16,4] r, float[1,32] b, float[1,2,4] h, float[1,2,4] c, float[1,12] p) "
        "=> (float[?,?,?,?] y, float[?,?,?] yh) { y, yh = LSTM<hidden_size=4, input_forget=1, "
        'activations=["HardSigmoid","Tanh","Softsign"]>(x, w, r, b, , h, c, p) }'
    ),
    {
        "x": f32(4, 2, 3) / 4,
        "w": f32(1, 16, 3) / 9,
        "r": f32(1, 16, 4) / 9,
        "b": f32(1, 32) / 9,
        "h": f32(1, 2, 4) / 9,
        "c": f32(1, 2, 4) / 7,
        "p": f32(1, 12) / 9,
    },
    "ort",
)
situation(
    "lstm_of_no_steps",
    (
        "(float[0,2,3] x, float[1,16,3] w, float[1,16,4] r) => (float[?,?,?,?] y, float[?,?,?] yh, float[?,?,?] yc) { y, "
        "yh, yc = LSTM<hidden_size=4>(x, w, r) }"
    ),
    {"x": f32(0, 2, 3), "w": f32(1, 16, 3), "r": f32(1, 16, 4)},
    expected=lambda f: [f32(0, 1, 2, 4), numpy.zeros((1, 2, 4), "f4"), numpy.zeros((1, 2, 4), "f4")],
)

# Convolutions and pools.
for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
    situation(
        f"conv_{pad}_strided",
        f'(float[1,2,6,5] x, float[3,2,3,2] w) => (float[?,?,?,?] y) {{ y = Conv<auto_pad="{pad}", strides=[2,3], dilations=[1,2]>(x, w) }}',
        {"x": f32(1, 2, 6, 5), "w": f32(3, 2, 3, 2)},
    )
    situation(
        f"averagepool_{pad}",
        f'(float[1,2,6,5] x) => (float[?,?,?,?] y) {{ y = AveragePool<auto_pad="{pad}", kernel_shape=[3,2], strides=[2,3]>(x) }}',
        {"x": f32(1, 2, 6, 5)},
        "ort",
    )
    situation(
        f"convtranspose_{pad}",
        f'(float[1,2,4,5] x, float[2,3,3,3] w) => (float[?,?,?,?] y) {{ y = ConvTranspose<auto_pad="{pad}", strides=[2,3]>(x, w) }}',
        {"x": f32(1, 2, 4, 5), "w": f32(2, 3, 3, 3)},
        "ort",
    )
situation(
    "convtranspose_output_shape",
    ("(float[1,2,4,5] x, float[2,3,3,3] w) => (float[?,?,?,?] y) { y = ConvTranspose<output_shape=[8,9], " "strides=[2,2]>(x, w) }"),
    {"x": f32(1, 2, 4, 5), "w": f32(2, 3, 3, 3)},
    "ort",
)
situation(
    "convtranspose_groups_dilated",
    (
        "(float[1,4,4,5] x, float[4,2,3,3] w, float[4] b) => (float[?,?,?,?] y) { y = ConvTranspose<group=2, "
        "dilations=[2,1], strides=[1,2], pads=[1,0,2,1], output_padding=[0,1]>(x, w, b) }"
    ),
    {"x": f32(1, 4, 4, 5), "w": f32(4, 2, 3, 3), "b": f32(4)},
    "ort",
)
situation(
    "maxpool_ceil_only_window_beyond",
    "(float[1,2,1,3] x) => (float[?,?,?,?] y) { y = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x) }",
    {"x": f32(1, 2, 1, 3)},
    lambda f: [numpy.stack([f["x"][..., :2].max(-1), f["x"][..., 2]], -1)],
)
situation(
    "averagepool_ceil_only_window_beyond",
    "(float[1,2,2] x) => (float[?,?,?] y) { y = AveragePool<kernel_shape=[4], strides=[3], ceil_mode=1>(x) }",
    {"x": f32(1, 2, 2)},
    lambda f: [f["x"].mean(-1, keepdims=True)],
)
situation(
    "maxpool_ceil_dilated_only_window_beyond",
    "(float[1,1,3,3] x) => (float[?,?,?,?] y, int64[?,?,?,?] i) { y, i = MaxPool<kernel_shape=[2,2], strides=[2,2], dilations=[3,1], ceil_mode=1>(x) }",
    {"x": f32(1, 1, 3, 3)},
    lambda f: [numpy.maximum.reduceat(f["x"][:, :, :1], [0, 2], 3), numpy.array([[[[int(f["x"][0, 0, 0, :2].argmax()), 2]]]])],
)
situation(
    "maxpool_ceil_last_window",
    (
        "(float[1,1,6,6] x) => (float[?,?,?,?] y, int64[?,?,?,?] i) { y, i = MaxPool<kernel_shape=[2,2], strides=[3,3], "
        "ceil_mode=1, pads=[0,0,1,1]>(x) }"
    ),
    {"x": f32(1, 1, 6, 6)},
    "ort",
)
situation(
    "averagepool_ceil_counts_padding",
    (
        "(float[1,1,5,6] x) => (float[?,?,?,?] y) { y = AveragePool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1, "
        "pads=[1,1,1,1], count_include_pad=1>(x) }"
    ),
    {"x": f32(1, 1, 5, 6)},
)
situation(
    "averagepool_dilated",
    "(float[1,1,7,6] x) => (float[?,?,?,?] y) { y = AveragePool<kernel_shape=[2,2], dilations=[2,3], pads=[1,1,1,1]>(x) }",
    {"x": f32(1, 1, 7, 6)},
    "ort",
)
situation(
    "maxpool_column_major_indices",
    ("(float[1,2,4,5] x) => (float[?,?,?,?] y, int64[?,?,?,?] i) { y, i = MaxPool<kernel_shape=[2,2], strides=[2,2], " "storage_order=1>(x) }"),
    {"x": f32(1, 2, 4, 5)},
    "ort",
)
situation(
    "maxpool_of_minus_infinity",
    "(float[1,1,3,3] x) => (float[?,?,?,?] y) { y = MaxPool<kernel_shape=[2,2], pads=[1,1,1,1]>(x) }",
    {"x": numpy.full((1, 1, 3, 3), -numpy.inf, "f4")},
)
situation(
    "conv_group_of_one_channel_multiplied",
    "(float[2,3,6] x, float[6,1,3] w) => (float[?,?,?] y) { y = Conv<group=3, pads=[2,0]>(x, w) }",
    {"x": f32(2, 3, 6), "w": f32(6, 1, 3)},
    "ort",
)
situation(
    "lppool_ceil",
    "(float[1,1,5,5] x) => (float[?,?,?,?] y) { y = LpPool<kernel_shape=[2,2], strides=[2,2], p=3, ceil_mode=1>(x) }",
    {"x": f32(1, 1, 5, 5)},
    expected=lambda f: [
        numpy.array(
            [[[[(numpy.abs(f["x"][0, 0, i : i + 2, j : j + 2].astype("f8")) ** 3).sum() ** (1 / 3) for j in (0, 2, 4)] for i in (0, 2, 4)]]]
        ).astype("f4")
    ],
)
situation(
    "globalpool_one_pixel",
    "(float[2,3,1,1] x) => (float[?,?,?,?] y, float[?,?,?,?] z) { y = GlobalAveragePool(x) z = GlobalMaxPool(x) }",
    {"x": f32(2, 3, 1, 1)},
)
situation(
    "roialign_outside",
    (
        "(float[1,1,6,6] x, float[3,4] r, int64[3] b) => (float[?,?,?,?] y) { y = RoiAlign<output_height=2, "
        'output_width=3, spatial_scale=0.5, coordinate_transformation_mode="output_half_pixel">(x, r, b) }'
    ),
    {"x": f32(1, 1, 6, 6), "r": numpy.array([[-4, -4, 3, 3], [2, 2, 30, 30], [5, 5, 5, 5]], "f4"), "b": i64(0, 0, 0)},
    "ort",
    16,
)
situation(
    "roialign_no_boxes",
    ("(float[1,2,6,6] x, float[0,4] r, int64[0] b) => (float[?,?,?,?] y) { y = RoiAlign<output_height=2, " "output_width=3>(x, r, b) }"),
    {"x": f32(1, 2, 6, 6), "r": f32(0, 4), "b": i64()},
    lambda f: [f32(0, 2, 2, 3)],
    16,
)
situation("depth_to_space_crd", '(float[1,8,2,3] x) => (float[?,?,?,?] y) { y = DepthToSpace<blocksize=2, mode="CRD">(x) }', {"x": f32(1, 8, 2, 3)})
situation(
    "batchnorm_training",
    (
        "(float[4,3,2] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[?,?,?] y, float[?] rm, float[?] rv) { "
        "y, rm, rv = BatchNormalization<training_mode=1, momentum=0.7>(x, s, b, m, v) }"
    ),
    {"x": f32(4, 3, 2), "s": f32(3), "b": f32(3), "m": f32(3), "v": numpy.abs(f32(3))},
)
situation(
    "instancenorm_one_pixel",
    "(float[2,3,1] x, float[3] s, float[3] b) => (float[?,?,?] y) { y = InstanceNormalization(x, s, b) }",
    {"x": f32(2, 3, 1), "s": f32(3), "b": f32(3)},
)
situation(
    "groupnorm_21",
    "(float[2,4,3] x, float[4] s, float[4] b) => (float[?,?,?] y) { y = GroupNormalization<num_groups=2>(x, s, b) }",
    {"x": f32(2, 4, 3), "s": f32(4), "b": f32(4)},
)
situation(
    "layernorm_negative_axis",
    (
        "(float[2,3,4] x, float[3,4] s, float[3,4] b) => (float[?,?,?] y, float[?,?,?] m, float[?,?,?] d) { y, m, d = "
        "LayerNormalization<axis=-2>(x, s, b) }"
    ),
    {"x": f32(2, 3, 4), "s": f32(3, 4), "b": f32(3, 4)},
)
situation(
    "layernorm_of_large_mean",
    "(float[2,64] x, float[64] s) => (float[?,?] y) { y = LayerNormalization(x, s) }",
    {"x": f32(2, 64) + 4000, "s": numpy.ones(64, "f4")},
    expected=lambda f: [
        ((f["x"].astype("f8") - f["x"].astype("f8").mean(-1, keepdims=True)) / numpy.sqrt(f["x"].astype("f8").var(-1, keepdims=True) + 1e-05)).astype(
            "f4"
        )
    ],
)
situation("lrn_even", "(float[5,5,2,2] x) => (float[?,?,?,?] y) { y = LRN<size=4, alpha=0.1, beta=0.7, bias=2.0>(x) }", {"x": f32(5, 5, 2, 2)})
situation("mvn", "(float[2,3,2,2] x) => (float[?,?,?,?] y) { y = MeanVarianceNormalization<axes=[0,2,3]>(x) }", {"x": f32(2, 3, 2, 2)})
situation(
    "pad_negative_and_axes",
    "(float[4,5] x, int64[2] p, float v, int64[1] a) => (float[?,?] y) { y = Pad(x, p, v, a) }",
    {"x": f32(4, 5), "p": i64(-1, 2), "v": scalar(9), "a": i64(-1)},
    expected=lambda f: [numpy.pad(f["x"][:, 1:], ((0, 0), (0, 2)), constant_values=9)],
)
situation(
    "pad_reflect_twice_as_wide",
    '(float[1,5] x, int64[4] p) => (float[?,?] y) { y = Pad<mode="reflect">(x, p) }',
    {"x": f32(1, 5), "p": i64(0, 4, 0, 4)},
)
situation("pad_wrap", '(float[3,4] x, int64[4] p) => (float[?,?] y) { y = Pad<mode="wrap">(x, p) }', {"x": f32(3, 4), "p": i64(2, 1, 1, 3)})
situation(
    "pad_edge_of_integers",
    '(int64[2,3] x, int64[4] p) => (int64[?,?] y) { y = Pad<mode="edge">(x, p) }',
    {"x": numpy.arange(6).reshape(2, 3) + 2**53, "p": i64(1, 0, 0, 2)},
)
situation("prelu_slope_of_channels", "(float[2,3,4] x, float[3,1] s) => (float[?,?,?] y) { y = PRelu(x, s) }", {"x": f32(2, 3, 4), "s": f32(3, 1)})
situation(
    "trilu_of_a_long_diagonal",
    "(float[2,3,4] x, int64 k) => (float[?,?,?] y) { y = Trilu<upper=0>(x, k) }",
    {"x": f32(2, 3, 4), "k": i64(-100).reshape(())},
)
situation("eyelike_of_open_size", "(float[3,5] x) => (int64[?,?] y) { y = EyeLike<k=-1, dtype=7>(x) }", {"x": f32(3, 5)})
situation("constant_of_shape_of_nothing", "(int64[n] s) => (int32[?,?] y) { y = ConstantOfShape<value = int32[1] {7}>(s) }", {"s": i64(0, 3)})
situation("constant_of_shape_number", "(int64[0] s) => (float y) { y = ConstantOfShape(s) }", {"s": i64()})
situation(
    "nll_ignored",
    ("(float[3,5] x, int64[3] t, float[5] w) => (float y) { y = NegativeLogLikelihoodLoss<ignore_index=-1, " 'reduction="mean">(x, t, w) }'),
    {"x": f32(3, 5), "t": i64(2, -1, 4), "w": numpy.abs(f32(5))},
)
situation(
    "celoss_of_images",
    (
        "(float[2,3,2,2] x, int64[2,2,2] t) => (float[?,?,?] y, float[?,?,?,?] p) { y, p = "
        'SoftmaxCrossEntropyLoss<reduction="none", ignore_index=1>(x, t) }'
    ),
    {"x": f32(2, 3, 2, 2), "t": i64(0, 1, 2, 0, 2, 1, 1, 0).reshape(2, 2, 2)},
)
situation(
    "softmax_of_masked_row",
    "(float[2,3] x) => (float[?,?] y) { y = Softmax(x) }",
    {"x": numpy.array([[-numpy.inf, 0, -numpy.inf], [-3e38] * 3], "f4")},
)
situation(
    "logsoftmax_of_large",
    "(float[2,3] x) => (float[?,?] y) { y = LogSoftmax(x) }",
    {"x": numpy.array([[10000.0, 0, -10000.0], [100, 100, 100]], "f4")},
    expected=lambda f: [numpy.array([[0, -10000.0, -20000.0], [-numpy.log(3)] * 3], "f4")],
)
situation(
    "reducelogsumexp_of_large",
    "(float[2,3] x) => (float[?,?] y) { a = Constant<value = int64[1] {-1}>() y = ReduceLogSumExp(x, a) }",
    {"x": numpy.array([[10000.0, 0, -10000.0], [100, 100, 100]], "f4")},
    expected=lambda f: [numpy.array([[10000.0], [100 + numpy.log(3)]], "f4")],
)
situation(
    "reducel2_of_large",
    "(float[2] x) => (float y) { y = ReduceL2<keepdims=0>(x) }",
    {"x": numpy.array([3000000000000000.0, 4000000000000000.0], "f4")},
    expected=lambda f: [numpy.array(5000000000000000.0, "f4")],
)
situation(
    "reverse_sequence",
    "(float[4,3] x, int64[3] n) => (float[?,?] y) { y = ReverseSequence<time_axis=0, batch_axis=1>(x, n) }",
    {"x": f32(4, 3), "n": i64(1, 4, 3)},
)
situation(
    "compress_short_condition",
    "(float[3,4] x, bool[2] c) => (float[?,?] y) { y = Compress<axis=-1>(x, c) }",
    {"x": f32(3, 4), "c": numpy.array([0, 1], bool)},
)
situation(
    "compress_flat", "(float[3,4] x, bool[5] c) => (float[?] y) { y = Compress(x, c) }", {"x": f32(3, 4), "c": numpy.array([0, 1, 0, 0, 1], bool)}
)
situation("det_of_matrices", "(float[2,3,3] x) => (float[?] y) { y = Det(x) }", {"x": f32(2, 3, 3)})
situation(
    "col2im",
    "(float[1,4,6] x, int64[2] s, int64[2] b) => (float[?,?,?,?] y) { y = Col2Im(x, s, b) }",
    {"x": f32(1, 4, 6), "s": i64(3, 4), "b": i64(2, 2)},
)
situation(
    "center_crop_pad", "(float[5,4] x, int64[2] s) => (float[?,?] y) { y = CenterCropPad<axes=[-1,-2]>(x, s) }", {"x": f32(5, 4), "s": i64(7, 2)}
)
situation(
    "affine_grid",
    "(float[1,2,3] t, int64[4] s) => (float[?,?,?,?] y) { y = AffineGrid<align_corners=1>(t, s) }",
    {"t": f32(1, 2, 3), "s": i64(1, 1, 2, 3)},
)
situation(
    "dft_inverse_length",
    "(float[1,5,2] x, int64 n) => (float[?,?,?] y) { y = DFT<inverse=1>(x, n) }",
    {"x": f32(1, 5, 2), "n": i64(7).reshape(())},
    expected=lambda f: [numpy.stack([(z := numpy.fft.ifft(f["x"][..., 0] + 1j * f["x"][..., 1], 7)).real, z.imag], -1).astype("f4")],
)
situation(
    "stft_windows",
    "(float[1,20,1] x, int64 s, float[8] w) => (float[?,?,?,?] y) { y = STFT(x, s, w) }",
    {"x": f32(1, 20, 1), "s": i64(4).reshape(()), "w": numpy.abs(f32(8))},
    opset=17,
)
situation(
    "mel_weights",
    "(int64 n, int64 d, int64 r, float l, float h) => (float[?,?] y) { y = MelWeightMatrix(n, d, r, l, h) }",
    {"n": i64(8).reshape(()), "d": i64(64).reshape(()), "r": i64(16000).reshape(()), "l": scalar(20), "h": scalar(8000)},
    "ort",
)

# Attention, rotations.
situation(
    "attention_causal_with_past",
    (
        "(float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v, float[1,2,2,4] pk, float[1,2,2,4] pv) => (float[?,?,?,?] "
        "y, float[?,?,?,?] nk, float[?,?,?,?] nv) { y, nk, nv = Attention<is_causal=1>(q, k, v, , pk, pv) }"
    ),
    {"q": f32(1, 2, 3, 4), "k": f32(1, 2, 3, 4) / 5, "v": f32(1, 2, 3, 4), "pk": f32(1, 2, 2, 4) / 5, "pv": f32(1, 2, 2, 4)},
    opset=23,
)
situation(
    "attention_gqa_bool_mask",
    ("(float[1,4,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v, bool[3,5] m) => (float[?,?,?,?] y) { y = Attention(q, k, " "v, m) }"),
    {"q": f32(1, 4, 3, 4), "k": f32(1, 2, 5, 4) / 5, "v": f32(1, 2, 5, 4), "m": numpy.arange(15).reshape(3, 5) % 4 != 1},
    opset=23,
)
situation(
    "attention_softcap_3d",
    (
        "(float[2,3,8] q, float[2,5,8] k, float[2,5,8] v) => (float[?,?,?] y) { y = Attention<q_num_heads=2, "
        "kv_num_heads=2, softcap=2.0, scale=0.3>(q, k, v) }"
    ),
    {"q": f32(2, 3, 8), "k": f32(2, 5, 8), "v": f32(2, 5, 8)},
    opset=23,
)
situation(
    "rotary_partial_interleaved",
    (
        "(float[1,2,3,8] x, float[5,2] c, float[5,2] s, int64[1,3] p) => (float[?,?,?,?] y) { y = "
        "RotaryEmbedding<rotary_embedding_dim=4, interleaved=1>(x, c, s, p) }"
    ),
    {"x": f32(1, 2, 3, 8), "c": numpy.cos(f32(5, 2)), "s": numpy.sin(f32(5, 2)), "p": i64(4, 0, 2).reshape(1, 3)},
    opset=23,
)
situation(
    "rmsnorm",
    "(float[2,3,4] x, float[4] s) => (float[?,?,?] y) { y = RMSNormalization<axis=-1, epsilon=0.1>(x, s) }",
    {"x": f32(2, 3, 4), "s": f32(4)},
    opset=23,
)
situation(
    "tensor_scatter_circular",
    '(float[2,1,4,3] c, float[2,1,2,3] u, int64[2] w) => (float[?,?,?,?] y) { y = TensorScatter<mode="circular">(c, u, w) }',
    {"c": f32(2, 1, 4, 3), "u": f32(2, 1, 2, 3) + 1, "w": i64(3, 1)},
    opset=24,
)
