"""ONNX Runtime's own operators (com.microsoft), against ONNX Runtime, or against what their documentation says where its CPU
provider has no kernel for them.

Each case is one node on random operands, with the first dimension of its data declared without a size, so that nothing is
computed while compiling. Codes may differ by one where ONNX Runtime rounds twice.
"""

import importlib.machinery
import importlib.util
import math
import pathlib
import re

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

tensmith = pytest.importorskip("tensmith")
onnxruntime = pytest.importorskip("onnxruntime")

F32, F16, U8, I8, I32, I64 = numpy.float32, numpy.float16, numpy.uint8, numpy.int8, numpy.int32, numpy.int64


def normal(*shape, seed=0, dtype=F32):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


def codes(*shape, seed=0, dtype=U8):
    """Signed bytes in seven bits: products of more saturate in ONNX Runtime where the processor has no VNNI."""
    info = numpy.iinfo(dtype)
    least, most = (-64, 63) if dtype == I8 else (info.min, info.max)
    return numpy.random.default_rng(seed).integers(least, most + 1, shape).astype(dtype)


def number(value, dtype=F32):
    return numpy.array(value, dtype)


def model_of(op, operands, outputs, dynamic, constant, domain, opset, attributes):
    names = [f"x{i}" if operand is not None else "" for i, operand in enumerate(operands)]
    while names and not names[-1]:
        names.pop()
    feeds = {f"x{i}": operand for i, operand in enumerate(operands) if operand is not None and i not in constant}
    ports = [helper.make_tensor_value_info(
        f"x{i}", helper.np_dtype_to_tensor_dtype(operand.dtype),
        [f"x{i}_{k}" if i in dynamic and k == 0 else size for k, size in enumerate(operand.shape)])
        for i, operand in enumerate(operands) if f"x{i}" in feeds]
    stored = [onnx.numpy_helper.from_array(operands[i], f"x{i}") for i in constant]
    results = [f"y{i}" if wanted else "" for i, wanted in enumerate(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    graph = helper.make_graph([node], "one", ports, [onnx.ValueInfoProto(name=name) for name in results if name], stored)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString(), feeds


def check(op, operands, outputs=1, dynamic=(), constant=(), domain="com.microsoft", opset=17, rtol=1e-4, atol=1e-5, within=0,
          cut=None, attributes=(), **named):
    """`outputs` is how many, or which of them are asked for; `within`, by how much integers may differ."""
    outputs = [1] * outputs if isinstance(outputs, int) else outputs
    model, feeds = model_of(op, operands, outputs, dynamic, constant, domain, opset, {**dict(attributes), **named})
    wanted = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    compiled = tensmith.compile(model, threads=1)
    for got, expected in zip(compiled.run(*feeds.values()), wanted):
        got = numpy.asarray(got)
        assert got.shape == expected.shape and got.dtype == expected.dtype
        if cut:
            got, expected = cut(got), cut(expected)
        if expected.dtype.kind in "iu":
            difference = numpy.abs(got.astype(I64) - expected.astype(I64))
            assert difference.max(initial=0) <= within
        else:
            numpy.testing.assert_allclose(got.astype(F32), expected.astype(F32), rtol=rtol, atol=atol)
    return compiled


@pytest.mark.parametrize("shape", [(3, 17), (2, 5, 8), (1, 1, 33)])
def test_gelu(shape):
    x, bias = normal(*shape) * 3, normal(shape[-1], seed=1)
    check("Gelu", [x], dynamic=[0])
    check("BiasGelu", [x, bias], dynamic=[0])
    check("FastGelu", [x], dynamic=[0])
    check("FastGelu", [x, bias], dynamic=[0])
    check("QuickGelu", [x], dynamic=[0])
    check("QuickGelu", [x], alpha=1.25)


def run(op, operands, dynamic=(0,), constant=(), attributes=(), **named):
    """For what ONNX Runtime has for other devices than the CPU."""
    model, feeds = model_of(op, operands, [1], dynamic, constant, "com.microsoft", 17, {**dict(attributes), **named})
    return numpy.asarray(tensmith.compile(model, threads=1).run(*feeds.values())[0])


def expect(wanted, op, operands, rtol=1e-4, atol=1e-5, within=0, **named):
    """run(op, operands) is what NumPy computed."""
    got = run(op, operands, **named)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    if wanted.dtype.kind in "iu":
        assert numpy.abs(got.astype(I64) - wanted.astype(I64)).max(initial=0) <= within
    else:
        numpy.testing.assert_allclose(got.astype(F32), wanted.astype(F32), rtol=rtol, atol=atol)


def sizes(seed, rank, most=19):
    """Odd more often than not, and sometimes 1."""
    rng = numpy.random.default_rng(seed)
    return tuple(int(2 * k + 1 if rng.random() < 0.7 else k + 1) for k in rng.integers(0, most // 2, rank))


SEEDS = range(2)


@pytest.mark.parametrize("shape,axis,bias", [((2, 3, 4, 5), 3, (2, 1, 1, 5)), ((4, 6), 1, (4, 6)), ((2, 3, 4, 5), 2, (1, 1, 4, 5))])
def test_bias_softmax(shape, axis, bias):
    x, added = normal(*shape), normal(*bias, seed=1)
    rows = numpy.exp(x + added).reshape(numpy.prod(shape[:axis]), -1)
    wanted = (rows / rows.sum(1, keepdims=True)).reshape(shape)
    numpy.testing.assert_allclose(run("BiasSoftmax", [x, added], axis=axis, is_inner_broadcast=0), wanted, rtol=1e-4)


@pytest.mark.parametrize("shape", [(2, 3, 8), (1, 5, 33), (4, 16)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_normalisation_of_residual_sums(shape, with_bias):
    x, skip, gamma, beta = normal(*shape), normal(*shape, seed=1), normal(shape[-1], seed=2), normal(shape[-1], seed=3)
    bias = normal(shape[-1], seed=4) if with_bias else None
    check("SkipLayerNormalization", [x, skip, gamma, beta, bias], [1, 0, 0, 1], dynamic=[0, 1], epsilon=1e-3)
    check("SkipLayerNormalization", [x, skip, gamma, None, bias], epsilon=1e-5)
    check("SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], [1, 0, 0, 1], dynamic=[0, 1], epsilon=1e-3)
    check("SimplifiedLayerNormalization", [x, gamma], domain="", dynamic=[0], axis=-1, epsilon=1e-3)


@pytest.mark.parametrize("with_segments,with_mask,with_positions", [(1, 1, 0), (0, 0, 0), (1, 1, 1), (0, 1, 1)])
def test_embeddings(with_segments, with_mask, with_positions):
    batch, length, width = 3, 7, 16
    rng = numpy.random.default_rng(0)
    ids = rng.integers(0, 20, (batch, length)).astype(I32)
    segments = rng.integers(0, 2, (batch, length)).astype(I32) if with_segments else None
    mask = (numpy.arange(length) < numpy.array([[7], [3], [1]])).astype(I32) if with_mask else None
    positions = rng.integers(0, 12, (batch, length)).astype(I32) if with_positions else None
    table = normal(2, width, seed=3) if with_segments else None
    check("EmbedLayerNormalization", [ids, segments, normal(20, width, seed=1), normal(12, width, seed=2), table,
                                      normal(width, seed=4), normal(width, seed=5), mask, positions], 3, dynamic=[0],
          epsilon=1e-4)


@pytest.mark.parametrize("trans_a,trans_b,alpha", [(0, 0, 1.0), (1, 0, 0.5), (0, 1, 2.0), (1, 1, 1.0)])
def test_fused_matmul(trans_a, trans_b, alpha):
    a, b = normal(2, 3, 4, 5), normal(2, 3, 5, 6, seed=1)
    a = numpy.ascontiguousarray(a.swapaxes(-1, -2)) if trans_a else a
    b = numpy.ascontiguousarray(b.swapaxes(-1, -2)) if trans_b else b
    check("FusedMatMul", [a, b], transA=trans_a, transB=trans_b, alpha=alpha)
    batch_a = numpy.ascontiguousarray(numpy.moveaxis(a, 2, 0))
    batch_b = numpy.ascontiguousarray(numpy.moveaxis(b, 2, 0))
    check("FusedMatMul", [batch_a, batch_b], transA=trans_a, transB=trans_b, transBatchA=1, transBatchB=1, alpha=alpha)


@pytest.mark.parametrize("activation,parameters", [("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": 0.2})])
def test_fused_gemm(activation, parameters):
    check("FusedGemm", [normal(4, 5), normal(6, 5, seed=1), normal(6, seed=2)], dynamic=[0], transB=1, alpha=0.5, beta=2.0,
          activation=activation, **parameters)


@pytest.mark.parametrize("activation,parameters", [
    ("Relu", []), ("Sigmoid", []), ("Tanh", []), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.3, 0.4])])
@pytest.mark.parametrize("group", [1, 2])
def test_fused_convolution(activation, parameters, group):
    extra = {"activation_params": parameters} if parameters else {}
    operands = [normal(2, 4, 9, 8), normal(6, 4 // group, 3, 3, seed=1), normal(6, seed=2)]
    check("FusedConv", operands, dynamic=[0], activation=activation, group=group, pads=[1, 0, 1, 2], strides=[2, 1], **extra)
    if activation == "Relu":
        check("FusedConv", [*operands, normal(2, 6, 9, 8, seed=3)], activation=activation, group=group, pads=[1, 1, 1, 1])


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("columns,block", [(64, 32), (80, 16), (48, 32)])
@pytest.mark.parametrize("zeros", ["none", "packed", "numbers"])
def test_weights_of_few_bits(bits, columns, block, zeros):
    if bits == 8 and zeros == "numbers":
        pytest.skip("ONNX Runtime has no such kernel")
    rows, blocks = 12, -(-columns // block)
    packed = codes(rows, blocks, block * bits // 8)
    scales = normal(rows, blocks, seed=1) * 0.1
    zero = None
    if zeros == "packed":
        zero = codes(rows, -(-blocks * bits // 8), seed=2)
    elif zeros == "numbers":
        zero = numpy.random.default_rng(2).integers(0, 1 << bits, (rows, blocks)).astype(F32)
    for constant in ((1, 2, 3), ()):
        constant = [i for i in constant if i != 3 or zero is not None]
        check("MatMulNBits", [normal(2, 5, columns, seed=3), packed, scales, zero], constant=constant, dynamic=[0],
              N=rows, K=columns, bits=bits, block_size=block, rtol=1e-3, atol=1e-3)


def packed_bits(values, bits):
    """The last dimension as a stream of bits, the lowest first."""
    spread = (values[..., None] >> numpy.arange(bits)) & 1
    spread = spread.reshape(*values.shape[:-1], -1).astype(U8)
    return numpy.packbits(spread, axis=-1, bitorder="little")


# Breaks if constant weights are expanded to floats, or if a code, a zero point, a scale or a group's number is taken from another place.
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("block", [16, 64, 256])
@pytest.mark.parametrize("kind", ["none", "packed", "numbers", "groups"])
def test_constant_weights_stay_in_few_bits(bits, block, kind, tmp_path):
    random = numpy.random.default_rng(bits * block)
    rows, columns = 21, 2 * block if kind == "groups" else 2 * block + 8
    blocks = -(-columns // block)
    quantised = random.integers(0, 1 << bits, (rows, blocks, block)).astype(U8)
    scales = (random.standard_normal((rows, blocks)) * 0.1).astype(F16 if block == 64 else F32)
    zeros = numpy.full((rows, blocks), 1 << bits - 1, F32)
    given, groups = None, numpy.arange(columns) // block
    if kind == "packed":
        zeros = random.integers(0, 1 << bits, (rows, blocks)).astype(U8)
        given = packed_bits(zeros, bits)
    elif kind == "numbers":
        zeros = given = (random.random((rows, blocks)) * (1 << bits)).astype(scales.dtype)
    elif kind == "groups":
        groups = random.permutation(groups)
    numbers = groups.astype(I32) if kind == "groups" else None
    x, bias = normal(2, 5, columns, seed=3, dtype=scales.dtype), normal(rows, seed=4, dtype=scales.dtype)
    operands = [x, packed_bits(quantised, bits), scales, given, numbers, bias]
    natural = quantised.reshape(rows, -1)[:, :columns].astype(float)
    weights = (natural - zeros.astype(float)[:, groups]) * scales.astype(float)[:, groups]
    want = operands[0].astype(float) @ weights.T + operands[5]
    for level in (0, 4):
        constant = [i for i in range(1, 6) if operands[i] is not None]
        model, feeds = model_of("MatMulNBits", operands, [1], [0], constant, "com.microsoft", 17,
                                {"N": rows, "K": columns, "bits": bits, "block_size": block, "accuracy_level": level})  # fmt: skip
        got = tensmith.compile(model, threads=1, dump_ir=tmp_path / str(level)).run(*feeds.values())[0]
        bound = 1e-5 * (numpy.abs(operands[0]).astype(float) @ (natural + (1 << bits)).T * numpy.abs(scales).max())
        if level == 4:
            bound = bound + 1.01 * numpy.abs(operands[0]).max() / 254 * numpy.abs(weights).sum(1)
        if scales.dtype == F16:
            bound = bound + 2e-3 * numpy.abs(want) + 1e-3
        assert (numpy.abs(got - want) <= bound).all(), (level, (numpy.abs(got - want) / bound).max())
        text = "".join(path.read_text() for path in (tmp_path / str(level)).rglob("*.mlir"))
        assert "graph.block_product" in text and "graph.matmul" not in text


def test_weights_of_few_bits_that_cannot_be_read():
    packed, scales = codes(12, 2, 12), normal(12, 2)
    named = {"N": 12, "K": 64, "bits": 3, "block_size": 32}
    for constant, operands, message in (
        ([], [normal(2, 64), packed, scales], "constants"),
        ([1, 2], [normal(2, 64), packed[:, :1], scales], "shape"),
        ([1, 2, 4], [normal(2, 64), packed, scales, None, numpy.zeros(64, I32)], "group numbers"),
    ):
        model, _ = model_of("MatMulNBits", operands, [1], [0], constant, "com.microsoft", 17, named)
        with pytest.raises(tensmith.Error, match=message):
            tensmith.compile(model)


def test_products_of_codes():
    a, b = codes(4, 6), codes(6, 5, seed=1)
    check("MatMulIntegerToFloat", [a, b, number(0.1), normal(5, seed=2), number(100, U8), codes(5, seed=3), normal(5, seed=4)],
          constant=[1, 3, 5], dynamic=[0], rtol=1e-3, atol=1e-3)
    check("DynamicQuantizeMatMul", [normal(2, 4, 6), b, number(0.05), number(120, U8), normal(5, seed=4)], constant=[1, 3],
          dynamic=[0], rtol=1e-3, atol=1e-2)
    check("DynamicQuantizeMatMul", [normal(4, 6) + 3, codes(6, 5, dtype=I8), normal(5, seed=2)], constant=[1], rtol=1e-3, atol=1e-2)
    check("MatMulInteger16", [codes(4, 6, dtype=numpy.int16), codes(6, 5, dtype=numpy.int16, seed=1)], dynamic=[0])


QUANTIZED = [(U8, 3, 128), (I8, -5, 0)]


@pytest.mark.parametrize("dtype,zero,zero_y", QUANTIZED)
def test_arithmetic_on_codes(dtype, zero, zero_y):
    a, b = codes(2, 3, 5, dtype=dtype), codes(3, 5, seed=1, dtype=dtype)
    first, second, result = ([number(scale), number(z, dtype)] for scale, z in ((0.02, zero), (0.03, zero_y), (0.05, zero)))
    check("QLinearAdd", [a, *first, b, *second, *result], dynamic=[0], within=1)
    check("QLinearMul", [a, *first, b, *second, *result], dynamic=[0], within=1)
    check("QLinearSigmoid", [a, *first, number(1 / 256), number(zero_y, dtype)], constant=[1, 2, 3, 4], dynamic=[0], within=1)
    check("QLinearLeakyRelu", [a, *first, *second], constant=[1, 2, 3, 4], dynamic=[0], alpha=0.2, within=1)
    for version, axis in ((13, -1), (12, 1)):
        check("QLinearSoftmax", [a, *first, number(1 / 256), number(0 if dtype == U8 else -128, dtype)], constant=[1, 2, 3, 4],
              within=1, attributes={"opset": version, "axis": axis})
    check("QLinearConcat", [*result, a, *first, codes(2, 1, 5, seed=1, dtype=dtype), *second], constant=[0, 1, 3, 4, 6, 7],
          axis=1, within=1)
    check("QLinearWhere", [codes(3, 1) > 100, a[0], *first, b, *second, *result], constant=[2, 3, 5, 6, 7, 8], within=1)


@pytest.mark.parametrize("dtype,zero,zero_y", QUANTIZED)
@pytest.mark.parametrize("last", [0, 1])
def test_images_of_codes(dtype, zero, zero_y, last):
    x = codes(2, 5, 6, 4, dtype=dtype) if last else codes(2, 4, 5, 6, dtype=dtype)
    scales = [number(0.02), number(zero, dtype), number(0.03), number(zero_y, dtype)]
    check("QLinearGlobalAveragePool", [x, *scales], constant=[1, 2, 3, 4], dynamic=[0], channels_last=last, within=1)
    check("QLinearAveragePool", [x, *scales], constant=[1, 2, 3, 4], dynamic=[0], channels_last=last, kernel_shape=[3, 2],
          strides=[2, 1], pads=[1, 0, 1, 1], count_include_pad=last, within=1)
    if dtype == U8:
        weights = codes(6, 4, 3, 3, seed=1, dtype=U8)
        check("QLinearConv", [x, *scales[:2], weights, number(0.01), number(100, U8), number(0.2), number(120, U8)],
              constant=[1, 2, 3, 4, 5, 6, 7], channels_last=last, pads=[1, 1, 1, 1], within=1)
    if last:
        check("NhwcMaxPool", [x], dynamic=[0], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])


@pytest.mark.parametrize("dtype", [U8, I8])
@pytest.mark.parametrize("to_codes", [False, True])
@pytest.mark.parametrize("trans_a,trans_b", [(0, 0), (1, 1)])
def test_qgemm(dtype, to_codes, trans_a, trans_b):
    a, b = codes(*((7, 4) if trans_a else (4, 7))), codes(*((5, 7) if trans_b else (7, 5)), seed=1, dtype=dtype)
    bias = codes(5, seed=3, dtype=numpy.int16).astype(I32)
    operands = [a, number(0.02), number(120, U8), b, abs(normal(5, seed=2)) * 0.01, numpy.full(5, 3, dtype), bias]
    operands += [number(0.3), number(128, U8)] if to_codes else []
    constant = [i for i in range(1, len(operands))]
    check("QGemm", operands, constant=constant, dynamic=[0], transA=trans_a, transB=trans_b, alpha=0.5, within=1)


def masks(batch, queries, keys):
    rng = numpy.random.default_rng(7)
    ends = rng.integers(1, keys + 1, batch).astype(I32)
    raw = (rng.random((batch, keys)) > 0.3).astype(I32)
    return {"none": None, "raw": raw, "ends": ends, "both": numpy.concatenate([numpy.full(batch, keys), keys - ends]).astype(I32),
            "square": (rng.random((batch, queries, keys)) > 0.3).astype(I32)}


@pytest.mark.parametrize("mask", ["none", "raw", "ends", "both", "square"])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [0, 3])
def test_attention(mask, causal, past):
    batch, length, heads, size = 2, 5, 3, 4
    width = heads * size
    given = masks(batch, length, length + past)[mask]
    if past and mask in ("ends", "both"):
        pytest.skip("ONNX Runtime takes no lengths with a past")
    before = normal(2, batch, heads, past, size, seed=4) if past else None
    check("Attention", [normal(batch, length, 10), normal(10, 3 * width, seed=1), normal(3 * width, seed=2), given, before],
          2 if past else 1, constant=[1, 2], num_heads=heads, unidirectional=causal, rtol=1e-3, atol=1e-4)


def test_attention_with_a_bias_and_other_widths():
    check("Attention", [normal(2, 5, 10), normal(10, 12 + 12 + 18, seed=1), normal(42, seed=2), None, None, normal(1, 3, 5, 5, seed=3)],
          constant=[1, 2], num_heads=3, qkv_hidden_sizes=[12, 12, 18], scale=0.3, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mask", ["none", "raw"])
@pytest.mark.parametrize("past", [0, 3])
def test_attention_on_codes(mask, past):
    batch, length, heads, size = 2, 5, 3, 4
    width = heads * size
    before = normal(2, batch, heads, past, size, seed=4) if past else None
    check("QAttention", [codes(batch, length, 10), codes(10, 3 * width, seed=1, dtype=I8), normal(3 * width, seed=2), number(0.01), number(0.02),
                         masks(batch, length, length + past)[mask], number(120, U8), number(3, I8), before], 2 if past else 1,
          constant=[1, 2, 3, 4, 6, 7], num_heads=heads, unidirectional=int(past > 0), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("form", ["separate", "packed", "packed keys", "heads"])
@pytest.mark.parametrize("mask", ["none", "raw", "ends"])
def test_multi_head_attention(form, mask):
    """ONNX Runtime's CPU provider takes no packed forms, which hold the same."""
    batch, queries, keys, heads, size = 2, 5, 5 if form == "packed" else 6, 3, 8
    width = heads * size
    q, k, v = normal(batch, queries, width), normal(batch, keys, width, seed=1), normal(batch, keys, width, seed=2)
    added, given = normal(1, heads, queries, keys, seed=5), masks(batch, queries, keys)[mask]
    tolerance = dict(rtol=1e-3, atol=1e-4)
    if form == "separate":
        check("MultiHeadAttention", [q, k, v, normal(3 * width, seed=3), given, added], num_heads=heads, **tolerance)
        return
    if form == "heads":
        k, v = (x.reshape(batch, keys, heads, size).swapaxes(1, 2).copy() for x in (k, v))
        check("MultiHeadAttention", [q, k, v, None, given, added], num_heads=heads, **tolerance)
        return
    parts = [x.reshape(batch, -1, heads, 1, size) for x in (q, k, v)]
    packed = [numpy.concatenate(parts, 3), None, None] if form == "packed" else [q, numpy.concatenate(parts[1:], 3), None]
    wanted = run("MultiHeadAttention", [q, k, v, None, given, added], num_heads=heads)
    numpy.testing.assert_allclose(run("MultiHeadAttention", [*packed, None, given, added], num_heads=heads), wanted, **tolerance)


@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention_with_a_past(causal):
    batch, length, past, heads, size = 2, 4, 3, 3, 8
    operands = [normal(batch, length, heads * size, seed=i) for i in range(3)]
    before = [normal(batch, heads, past, size, seed=i) for i in (3, 4)]
    check("MultiHeadAttention", [*operands, None, None, None, *before], 3, num_heads=heads, unidirectional=causal, scale=0.4,
          rtol=1e-3, atol=1e-4)


def group_operands(batch, length, past, heads, groups, size, packed=False):
    q, k, v = (normal(batch, length, count * size, seed=i) for i, count in enumerate((heads, groups, groups)))
    before = [normal(batch, groups, past, size, seed=i) for i in (3, 4)]
    if packed:
        q, k, v = numpy.concatenate([q, k, v], 2), None, None
    angles = numpy.arange(32)[:, None] / 10 ** (numpy.arange(size // 2) / size)
    lengths = numpy.full(batch, past + length - 1, I32)
    return [q, k, v, *before, lengths, number(past + length, I32), numpy.cos(angles).astype(F32), numpy.sin(angles).astype(F32)]


@pytest.mark.parametrize("length,past", [(6, 0), (1, 7), (1, 0)])
@pytest.mark.parametrize("rotary,interleaved", [(0, 0), (1, 0), (1, 1)])
@pytest.mark.parametrize("packed", [False, True])
def test_group_query_attention(length, past, rotary, interleaved, packed):
    operands = group_operands(2, length, past, 6, 2, 16, packed)
    check("GroupQueryAttention", operands if rotary else operands[:7], 3, num_heads=6, kv_num_heads=2, do_rotary=rotary,
          rotary_interleaved=interleaved, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("attributes", [{"local_window_size": 3}, {"softcap": 2.0}, {"smooth_softmax": 1}, {"scale": 0.2}])
@pytest.mark.parametrize("length,past", [(6, 0), (1, 7)])
def test_group_query_attention_of_kinds(attributes, length, past):
    check("GroupQueryAttention", group_operands(1, length, past, 4, 2, 8)[:7], 3, num_heads=4, kv_num_heads=2, rtol=1e-3, atol=1e-4,
          attributes=attributes)


def test_group_query_attention_of_a_chunk_and_a_sink():
    operands = group_operands(1, 4, 5, 4, 2, 16)
    check("GroupQueryAttention", operands, 3, num_heads=4, kv_num_heads=2, do_rotary=1, rtol=1e-3, atol=1e-4)
    check("GroupQueryAttention", [*operands, None, None, normal(4, seed=9)], 3, num_heads=4, kv_num_heads=2, do_rotary=1,
          rtol=1e-3, atol=1e-4)


def test_group_query_attention_of_images_of_other_lengths():
    """A buffer of the largest length, filled differently far; what lies behind the new keys is nobody's."""
    operands = group_operands(2, 1, 9, 4, 2, 16)
    operands[5], operands[6] = numpy.array([4, 7], I32), number(8, I32)
    check("GroupQueryAttention", operands, 3, num_heads=4, kv_num_heads=2, do_rotary=1, rtol=1e-3, atol=1e-4,
          cut=lambda x: x if x.ndim == 3 else numpy.concatenate([x[0, :, :5], x[1, :, :8]], 1))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rank", [3, 4])
def test_rotary_embedding(interleaved, rank):
    operands = group_operands(2, 6, 0, 4, 2, 8)
    x = normal(2, 6, 32) if rank == 3 else normal(2, 4, 6, 8)
    positions = numpy.random.default_rng(1).integers(0, 32, (2, 6))
    check("RotaryEmbedding", [x, positions, *operands[7:9]], dynamic=[0], interleaved=interleaved)
    check("RotaryEmbedding", [x, numpy.array([3]), *operands[7:9]], interleaved=interleaved)
    if rank == 3:
        check("RotaryEmbedding", [x, positions, operands[7][:, :2], operands[8][:, :2]], interleaved=interleaved, num_heads=4,
              rotary_embedding_dim=4)


def test_operators_that_the_standard_has_too():
    x = normal(3, 4)
    check("Pad", [x, numpy.array([1, 0, 2, 1]), number(0.5)], constant=[1])
    check("Trilu", [normal(2, 4, 5), numpy.array(1)], upper=0)
    check("ExpandDims", [x, number(1, I32)], constant=[1], dynamic=[0])
    check("Range", [number(1.0), number(5.0), number(1.5)])
    check("GatherND", [x, numpy.array([[0, 1], [2, 3]])])
    check("CDist", [x, normal(5, 4, seed=1)], dynamic=[0], metric="euclidean")
    check("CDist", [x, normal(5, 4, seed=1)], metric="sqeuclidean")
    check("Unique", [numpy.array([3.0, 1, 3, 2, 1], F32)], 3)


def test_lstm_with_weights_of_codes():
    """Fails where x or the state is not rounded to 8 bits; where a number lies between two codes, the last bit decides."""
    length, batch, width, hidden = 4, 2, 6, 8
    w, r = codes(1, width, 4 * hidden, dtype=I8), codes(1, hidden, 4 * hidden, seed=1, dtype=I8)
    scale, zero = numpy.array([0.01], F32), numpy.array([0], I8)
    x = normal(length, batch, width)
    x[1, 0, 2] = 40  # so that the others' codes are coarse
    operands = [x, w, r, normal(1, 8 * hidden, seed=2) * 0.1, None, None, None, None, scale, zero, scale, zero]
    check("DynamicQuantizeLSTM", operands, 3, constant=[1, 2, 3, 8, 9, 10, 11], hidden_size=hidden, atol=5e-3)


def test_operators_of_the_first_opset():
    x = normal(2, 3, 6, 7)
    early = dict(domain="", opset=8)
    check("Affine", [x], alpha=2.0, beta=0.5, **early)
    check("ScaledTanh", [x], alpha=2.0, beta=0.5, **early)
    check("ParametricSoftplus", [x], alpha=2.0, beta=0.5, **early)
    check("ImageScaler", [x], scale=2.0, bias=[0.5, -1.0, 2.0], **early)
    check("Crop", [x], border=[1, 2, 3, 1], **early)
    check("Crop", [x], border=[1, 2, 0, 0], attributes={"scale": [3, 4]}, **early)


def quantized(x, scale, zero, dtype):
    info = numpy.iinfo(dtype)
    return numpy.clip(numpy.rint(x / F32(scale)) + zero, info.min, info.max).astype(dtype)


@pytest.mark.parametrize("dtype,zero,zero_y", QUANTIZED)
@pytest.mark.parametrize("keepdims", [None, 0, 1])
@pytest.mark.parametrize("axes", [None, [0], [-1], [1, 2], [-3, 3], [2, 0], [0, 1, 2, 3]])
def test_means_of_codes(dtype, zero, zero_y, keepdims, axes):
    x = codes(*sizes(len(axes or "") + zero, 4) if zero > 0 else (3, 5, 1, 17), dtype=dtype)
    attributes = {name: value for name, value in (("axes", axes), ("keepdims", keepdims)) if value is not None}
    over = tuple(range(4) if axes is None else axes)

    def mean(first, scale, last, scale_y):
        numbers = (x.astype(F32) - first) * F32(scale)
        return quantized(numbers.mean(over, keepdims=keepdims != 0, dtype=numpy.float64), scale_y, last, dtype)

    given = [x, number(0.02), number(zero, dtype), number(0.011), number(zero_y, dtype)]
    constant = [1, 2, 3, 4] if keepdims else []
    expect(mean(zero, 0.02, zero_y, 0.011), "QLinearReduceMean", given, within=1, constant=constant, attributes=attributes)
    expect(mean(0, 0.02, 0, 0.011), "QLinearReduceMean", [x, given[1], None, given[3]], within=1, attributes=attributes)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype,zero,zero_b", QUANTIZED)
def test_products_of_codes_element_by_element(seed, dtype, zero, zero_b):
    shape = sizes(seed, 3)
    row = codes(*shape[1:], seed=seed, dtype=dtype), codes(shape[0], 1, shape[2], seed=seed + 1, dtype=dtype)
    for a, b in ((codes(*shape, seed=seed, dtype=dtype), row[0]), row, (row[1], number(77, dtype))):
        wide = a.astype(I32), b.astype(I32)
        expect((wide[0] - zero) * (wide[1] - zero_b), "MulInteger", [a, number(zero, dtype), b, number(zero_b, dtype)])
        expect((wide[0] - zero) * wide[1], "MulInteger", [a, number(zero, dtype), b], constant=[1, 2])
        expect(wide[0] * (wide[1] - zero_b), "MulInteger", [a, None, b, number(zero_b, dtype)])
        expect(wide[0] * wide[1], "MulInteger", [a, None, b])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [F32, F16])
def test_biases_of_diffusion_models(seed, dtype):
    batch, places, width = sizes(seed, 3)
    tolerance = {} if dtype == F32 else {"rtol": 2e-3, "atol": 4e-3}
    x, bias = normal(batch, places, 2 * width, dtype=dtype) * dtype(3), normal(2 * width, seed=1, dtype=dtype)
    left, right = numpy.split(x.astype(F32) + bias.astype(F32), 2, -1)
    gated = left * right * (1 + numpy.vectorize(math.erf)(right / math.sqrt(2))) / 2
    for constant in ((), (1,)):
        expect(gated.astype(dtype), "BiasSplitGelu", [x, bias], constant=constant, **tolerance)
    x, bias, skip = (normal(*shape, seed=i, dtype=dtype) for i, shape in enumerate([(batch, places, width), (width,), (batch, places, width)]))
    for constant in ((), (1,)):
        expect(x + bias + skip, "BiasAdd", [x, bias, skip], constant=constant, **tolerance)


def test_activations_that_are_none():
    operands = [normal(3, 5), normal(5, 7)]
    for attributes, message in (({"activation": "Sofmax"}, "Sofmax"), ({"activation": "Softmax", "activation_axis": 2}, "axis")):
        with pytest.raises(Exception, match=message):
            run("FusedMatMulActivation", operands, **attributes)


def turned(x, matrix, batch=0):
    """How `x` is stored where the operator swaps its last two dimensions, and its first with those between."""
    x = x.swapaxes(-1, -2) if matrix else x
    return numpy.ascontiguousarray(numpy.moveaxis(x, -2, 0) if batch else x)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("trans_a,trans_b", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_transposed_matmul(seed, trans_a, trans_b):
    rows, inner, columns, *batch = sizes(seed, 5, 33)
    alpha = [0.25, -2.0][seed]
    for shapes in (((), ()), (batch[:1], batch[:1]), (batch[:1], ()), ((), batch), (batch, [batch[1]]), (batch, [1, batch[1]])):
        a, b = normal(*shapes[0], rows, inner), normal(*shapes[1], inner, columns, seed=1)
        operands = [turned(a, trans_a), turned(b, trans_b)]
        given = {"dynamic": [0]} if seed else {"constant": [1]}
        check("TransposeMatMul", operands, transA=trans_a, transB=trans_b, alpha=alpha, atol=1e-4, **given)
    check("TransposeMatMul", [normal(inner), normal(inner, columns, seed=1)], dynamic=[0])


def softmax(x, axis):
    powers = numpy.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


ACTIVATIONS = {
    "Relu": ({}, lambda x: numpy.maximum(x, 0)),
    "Tanh": ({}, numpy.tanh),
    "Sigmoid": ({}, lambda x: 1 / (1 + numpy.exp(-x))),
    "Softsign": ({}, lambda x: x / (1 + abs(x))),
    "LeakyRelu": ({"activation_alpha": 0.3}, lambda x: numpy.where(x < 0, F32(0.3) * x, x)),
    "HardSigmoid": ({"activation_alpha": 0.3, "activation_beta": 0.4}, lambda x: numpy.clip(F32(0.3) * x + F32(0.4), 0, 1)),
}


ACTIVATIONS |= {f"Softmax {axis}": ({"activation_axis": axis}, lambda x, axis=axis: softmax(x, axis)) for axis in (-1, 2, 1, -4)}
ACTIVATIONS["Softmax"] = {}, lambda x: softmax(x, -1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("trans_a,trans_b,batch_a,batch_b", [(0, 0, 0, 0), (1, 0, 0, 1), (0, 1, 1, 0), (1, 1, 1, 1)])
def test_activated_matmul(activation, trans_a, trans_b, batch_a, batch_b):
    parameters, function = ACTIVATIONS[activation]
    for seed, dtype in enumerate((F32, F32, F16)):
        rows, inner, columns, first, second = sizes(seed, 5)
        a, b = normal(first, second, rows, inner, dtype=dtype), normal(first, second, inner, columns, seed=1, dtype=dtype)
        wanted = function(F32(0.5) * (a.astype(F32) @ b.astype(F32))).astype(dtype)
        expect(wanted, "FusedMatMulActivation", [turned(a, trans_a, batch_a), turned(b, trans_b, batch_b)], alpha=0.5,
               activation=activation.split()[0], transA=trans_a, transB=trans_b, transBatchA=batch_a, transBatchB=batch_b,
               rtol=1e-4 if dtype == F32 else 2e-3, atol=1e-5 if dtype == F32 else 4e-3, attributes=parameters)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [U8, I8, numpy.uint16, numpy.int16])
def test_quantisation_before_the_standard_had_16_bits(seed, dtype):
    shape, info = sizes(seed, 3), numpy.iinfo(dtype)
    rng = numpy.random.default_rng(seed)
    x = rng.uniform(-1.3, 1.3, shape).astype(F32)  # some of it beyond the codes
    x.flat[:3] = [0, 5, -5][: x.size]
    scale, zero = number(2 / (int(info.max) - info.min)), number((int(info.max) + info.min + 1) // 2, dtype)
    drawn = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    constant = [1, 2] if seed else []
    check("QuantizeLinear", [x, scale, zero], dynamic=[0], constant=constant)
    check("DequantizeLinear", [drawn, scale, zero], dynamic=[0], constant=constant)
    check("DequantizeLinear", [drawn, scale], dynamic=[0])
    if dtype == U8:
        check("QuantizeLinear", [x, scale], dynamic=[0])
    for axis in (0, 1, -1) if seed else (2, -2):
        each = (rng.uniform(1, 2, shape[axis]) * scale).astype(F32)
        zeros = rng.integers(info.min, info.max, shape[axis], dtype, endpoint=True)
        constant = [1, 2] if axis > 0 else []
        check("QuantizeLinear", [x, each, zeros], constant=constant, axis=axis)
        check("DequantizeLinear", [drawn, each, zeros], constant=constant, axis=axis)


def test_numbers_from_sums_of_codes():
    sums = numpy.random.default_rng(0).integers(-(1 << 20), 1 << 20, (3, 5, 7)).astype(I32)
    check("DequantizeLinear", [sums, number(0.003)], dynamic=[0])
    check("DequantizeLinear", [sums, abs(normal(5, seed=1))], dynamic=[0], axis=1)


@pytest.mark.parametrize("dtype", [U8, I8, numpy.uint16, numpy.int16])
def test_quantisation_of_halves(dtype):
    """ONNX Runtime's CPU provider takes f32 only."""
    info, x = numpy.iinfo(dtype), normal(3, 5, 17, dtype=F16)
    x[0, 0, :2] = [1e4, -1e4]
    scale, zero = number(0.03125, F16), number(3, dtype)
    drawn = numpy.random.default_rng(0).integers(max(info.min, -2000), min(info.max, 2000), x.shape).astype(dtype)
    expect(quantized(x.astype(F32), scale, 3, dtype), "QuantizeLinear", [x, scale, zero])
    expect(((drawn.astype(F32) - 3) * F32(scale)).astype(F16), "DequantizeLinear", [drawn, scale, zero], rtol=1e-3)


@pytest.mark.parametrize("kind", [TensorProto.UINT4, TensorProto.INT4])
@pytest.mark.parametrize("axis", [None, 1])
def test_quantisation_in_four_bits(kind, axis):
    """To codes and back, since NumPy has none of four bits to compare."""
    x, count = normal(3, 5, 7) * 2, [] if axis is None else [5]
    named = {} if axis is None else {"axis": axis}
    zeros = numpy.random.default_rng(1).integers(0, 8, count).reshape(-1)
    stored = [onnx.numpy_helper.from_array(numpy.asarray(abs(normal(*count, seed=2)) + F32(0.1), F32), "scale"),
              helper.make_tensor("zero", kind, count, zeros)]
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["codes"], domain="com.microsoft", **named),
             helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["y"], domain="com.microsoft", **named)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 5, 7]) for name in "xy"]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "two", ports[:1], ports[1:], stored), opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = numpy.asarray(tensmith.compile(model.SerializeToString(), threads=1).run(x)[0])
    numpy.testing.assert_allclose(got, session.run(None, {"x": x})[0], rtol=1e-6)
    assert len(numpy.unique(got)) > 8


def test_each_operator_has_a_test():
    """docs/onnx.md says so of each that has a rule."""
    path = str(pathlib.Path(__file__).resolve().parents[2] / "scripts/onnx-suite")
    loader = importlib.machinery.SourceFileLoader("onnx_suite", path)
    suite = importlib.util.module_from_spec(importlib.util.spec_from_loader("onnx_suite", loader))
    loader.exec_module(suite)
    names = suite.rules()["com.microsoft"]
    text = pathlib.Path(__file__).read_text()
    assert len(names) > 40
    tested = set(re.findall(r'\b(?:check|expect|run)\([^"\n]*"(\w+)",', text))
    assert not names - tested
