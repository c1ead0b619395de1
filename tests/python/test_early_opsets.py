"""Operators as opsets 1 to 6 had them: attributes where operands came later, broadcasting that is asked for.

No other program at hand runs these, so that what is wanted is said in NumPy.
"""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

tensmith = pytest.importorskip("tensmith")

F32 = numpy.float32


def normal(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(F32)


def run(op, opset, operands, outputs=1, **attributes):
    names = [f"x{i}" for i in range(len(operands))]
    ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in zip(names, operands)]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph([helper.make_node(op, names, results, **attributes)], "one", ports,
                              [onnx.ValueInfoProto(name=name) for name in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    return [numpy.asarray(value) for value in tensmith.compile(model.SerializeToString(), threads=1).run(*operands)]


def check(wanted, *arguments, rtol=1e-5, atol=1e-6, **attributes):
    got = run(*arguments, **attributes)[0]
    assert got.shape == wanted.shape
    numpy.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("op,formula", [("Add", numpy.add), ("Sub", numpy.subtract), ("Mul", numpy.multiply), ("Div", numpy.divide)])
@pytest.mark.parametrize("opset", [1, 6])
def test_arithmetic_with_an_axis(op, formula, opset):
    a, b = normal(2, 3, 4, 5), normal(3, 4, seed=1)
    check(formula(a, b[None, :, :, None]), op, opset, [a, b], broadcast=1, axis=1, rtol=1e-4)
    check(formula(a, b[None, :, :, None]), op, opset, [a, b], broadcast=1, axis=-3, rtol=1e-4)
    check(formula(a, b[0, 0]), op, opset, [a, b[0, :1]], broadcast=1, rtol=1e-4)
    check(formula(a, normal(5, seed=2)), op, opset, [a, normal(5, seed=2)], broadcast=1, rtol=1e-4)
    check(formula(a, a), op, opset, [a, a], rtol=1e-4)


@pytest.mark.parametrize("op,formula", [("Equal", numpy.equal), ("Greater", numpy.greater), ("Less", numpy.less)])
def test_comparison_with_an_axis(op, formula):
    a, b = numpy.arange(24).reshape(2, 3, 4), numpy.array([1, 6, 11])
    a, b = (a.astype(F32), b.astype(F32)) if op != "Equal" else (a.astype(numpy.int32), b.astype(numpy.int32))
    got = run(op, 1, [a, b], broadcast=1, axis=1)[0]
    assert (got == formula(a, b[None, :, None])).all()


@pytest.mark.parametrize("op,formula", [("And", numpy.logical_and), ("Or", numpy.logical_or), ("Xor", numpy.logical_xor)])
def test_logic_with_an_axis(op, formula):
    a, b = normal(2, 3, 4) > 0, normal(3, seed=1) > 0
    assert (run(op, 1, [a, b], broadcast=1, axis=1)[0] == formula(a, b[None, :, None])).all()


def test_powers_with_an_axis():
    a, b = abs(normal(2, 3, 4)), normal(3, seed=1)
    check(a ** b[None, :, None], "Pow", 1, [a, b], broadcast=1, axis=1, rtol=1e-4)


def test_shapes_as_attributes():
    x = normal(2, 3, 4)
    check(x.reshape(2, 12), "Reshape", 1, [x], shape=[0, -1])
    check(x.reshape(4, 6), "Reshape", 5, [x, numpy.array([4, -1])])
    check(x[:, 1:3, -2:], "Slice", 1, [x], axes=[1, 2], starts=[1, -2], ends=[3, 100])
    check(x[None, :, None], "Unsqueeze", 1, [x], axes=[0, 2])
    check(x[:, :1].squeeze(1), "Squeeze", 1, [x[:, :1]], axes=[1])
    check(numpy.pad(x, ((1, 0), (0, 2), (0, 0)), constant_values=0.5), "Pad", 1, [x], paddings=[1, 0, 0, 0, 2, 0], value=0.5)
    check(numpy.pad(x, ((0, 0), (1, 1), (0, 2)), mode="reflect"), "Pad", 2, [x], pads=[0, 1, 0, 0, 1, 2], mode="reflect")
    check(numpy.tile(x, (1, 2, 1)), "Tile", 6, [x, numpy.array([1, 2, 1])])
    check(numpy.concatenate([x, x], 1), "Concat", 1, [x, x])
    check(numpy.concatenate([x, x], 2), "Concat", 4, [x, x], axis=2)
    check(x.transpose(1, 0, 2), "Transpose", 1, [x], perm=[1, 0, 2])
    check(x.reshape(2, 12), "Flatten", 1, [x])


def test_tiles_along_an_axis():
    x = normal(2, 3)
    operands = [onnx.numpy_helper.from_array(numpy.array([count], F32).reshape(()), name) for name, count in (("t", 3), ("a", 1))]
    graph = helper.make_graph([helper.make_node("Tile", ["x", "t", "a"], ["y"])], "one",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], [onnx.ValueInfoProto(name="y")], operands)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 1)], ir_version=3)
    got = tensmith.compile(model.SerializeToString(), threads=1).run(x)[0]
    numpy.testing.assert_array_equal(numpy.asarray(got), numpy.tile(x, (1, 3)))


def test_parts_as_an_attribute():
    x = normal(2, 6, 3)
    for opset in (1, 2):
        got = run("Split", opset, [x], 3, axis=1, split=[1, 2, 3])
        for part, wanted in zip(got, numpy.split(x, [1, 3], 1)):
            numpy.testing.assert_array_equal(part, wanted)
    for part, wanted in zip(run("Split", 2, [x], 2, axis=1), numpy.split(x, 2, 1)):
        numpy.testing.assert_array_equal(part, wanted)


@pytest.mark.parametrize("opset", [1, 6])
def test_batch_normalisation_in_test_mode(opset):
    x = normal(2, 3, 4, 5)
    scale, bias, mean = (normal(3, seed=i) for i in (1, 2, 3))
    variance = abs(normal(3, seed=4)) + 0.1
    c = (None, slice(None), None, None)
    wanted = (x - mean[c]) / numpy.sqrt(variance[c] + 1e-3) * scale[c] + bias[c]
    more = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
    check(wanted, "BatchNormalization", opset, [x, scale, bias, mean, variance], is_test=1, epsilon=1e-3, rtol=1e-4, atol=1e-5, **more)


@pytest.mark.parametrize("opset", [6, 7])
def test_batch_normalisation_by_place(opset):
    x = normal(2, 3, 4)
    scale, bias, mean = (normal(3, 4, seed=i) for i in (1, 2, 3))
    variance = abs(normal(3, 4, seed=4)) + 0.1
    wanted = (x - mean) / numpy.sqrt(variance + 1e-3) * scale + bias
    more = {"is_test": 1} if opset == 6 else {}
    check(wanted, "BatchNormalization", opset, [x, scale, bias, mean, variance], spatial=0, epsilon=1e-3, rtol=1e-4, atol=1e-5, **more)


def test_products_with_a_broadcast_sum():
    a, b, c = normal(4, 5), normal(6, 5, seed=1), normal(6, seed=2)
    for opset in (1, 6):
        check(0.5 * a @ b.T + 2 * c, "Gemm", opset, [a, b, c], transB=1, alpha=0.5, beta=2.0, broadcast=1, rtol=1e-4, atol=1e-5)


def test_activations_of_the_first_opset():
    x = normal(3, 7)
    ignored = {"consumed_inputs": [0]}
    check(numpy.maximum(x, 0), "Relu", 1, [x], **ignored)
    check(numpy.clip(x, -0.5, 0.25), "Clip", 1, [x], min=-0.5, max=0.25, **ignored)
    check(numpy.where(x < 0, 0.2 * x, x), "LeakyRelu", 1, [x], alpha=0.2, **ignored)
    check(numpy.where(x < 0, numpy.array([0.1, 0.2, 0.3], F32)[:, None] * x, x)[None], "PRelu", 1,
          [x[None], numpy.array([0.1, 0.2, 0.3], F32)])
    check(x, "Dropout", 1, [x], is_test=1, ratio=0.3, **ignored)
    check(x, "Dropout", 6, [x], is_test=1, ratio=0.3)
    check(x.sum(1, keepdims=True), "ReduceSum", 1, [x], axes=[1], rtol=1e-4)
    check(numpy.maximum(x, -x), "Max", 1, [x, -x], **ignored)
    exponential = numpy.exp(x - x.max(1, keepdims=True))
    check(exponential / exponential.sum(1, keepdims=True), "Softmax", 1, [x], rtol=1e-4)


@pytest.mark.parametrize("opset,to", [(1, "INT32"), (6, TensorProto.INT32)])
def test_types_as_names_and_numbers(opset, to):
    got = run("Cast", opset, [numpy.array([1.5, -2.5], F32)], to=to)[0]
    assert got.dtype == numpy.int32 and got.tolist() == [1, -2]


def test_windows_of_the_first_opset():
    x = abs(normal(1, 2, 4, 4))
    blocks = x.reshape(1, 2, 2, 2, 2, 2)
    check(blocks.max((3, 5)), "MaxPool", 1, [x], kernel_shape=[2, 2], strides=[2, 2])
    check(blocks.mean((3, 5)), "AveragePool", 1, [x], kernel_shape=[2, 2], strides=[2, 2])
    check((blocks ** 3).sum((3, 5)) ** (1 / 3), "LpPool", 1, [x], kernel_shape=[2, 2], strides=[2, 2], p=3.0, rtol=1e-4)
    check((x ** 3).sum((2, 3), keepdims=True) ** (1 / 3), "GlobalLpPool", 1, [x], p=3.0, rtol=1e-4)
    check(x.repeat(2, 2).repeat(3, 3), "Upsample", 1, [x], height_scale=2.0, width_scale=3.0, mode="nearest")


def test_largest_by_an_attribute():
    x = normal(3, 7)
    values, places = run("TopK", 1, [x], 2, k=2, axis=1)
    numpy.testing.assert_array_equal(places, numpy.argsort(-x, 1)[:, :2])
    numpy.testing.assert_array_equal(values, numpy.sort(x, 1)[:, ::-1][:, :2])
