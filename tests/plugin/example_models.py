"""ONNX models with the operators of examples/plugin, and what these mean, by NumPy."""

import numpy
from onnx import TensorProto, helper

RANDOM = numpy.random.default_rng(7)


def model_of(nodes, inputs, constants, outputs):
    """The model's bytes; inputs: shapes of f32, in which names are open sizes."""
    def value(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes, "example", [value(name, shape) for name, shape in inputs.items()], [value(name, None) for name in outputs],
        [helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.ravel().tolist()) for name, array in constants.items()])  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def soft_threshold(x, threshold):
    return numpy.maximum(x - threshold, 0) - numpy.maximum(-x - threshold, 0)


def difference(x, axis=-1, shift=1):
    size = x.shape[axis]
    return numpy.take(x, range(shift, size), axis) - numpy.take(x, range(size - shift), axis)


def denoise():
    """Of open sizes: y = soft_threshold(2 x, t) + b for a threshold of each channel, z = tanh(difference(x)) along the columns."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["twice"]),
        helper.make_node("SoftThreshold", ["twice", "t"], ["soft"], domain="example"),
        helper.make_node("Add", ["soft", "b"], ["y"]),
        helper.make_node("Difference", ["x"], ["d"], domain="example", axis=2, shift=3),
        helper.make_node("Tanh", ["d"], ["z"]),
    ]
    constants = {"two": numpy.array([2], "f"), "t": numpy.array([[0.5], [1], [0.25]], "f"), "b": numpy.array([[1], [2], [3]], "f")}
    return model_of(nodes, {"x": ["n", 3, "columns"]}, constants, ["y", "z"])


def denoised(x):
    t, b = numpy.array([[0.5], [1], [0.25]], "f"), numpy.array([[1], [2], [3]], "f")
    return [soft_threshold(2 * x, t) + b, numpy.tanh(difference(x, 2, 3))]


def written_out():
    """What the rewrite takes for a soft threshold."""
    nodes = [
        helper.make_node("Neg", ["x"], ["negative"]),
        helper.make_node("Sub", ["x", "t"], ["above"]),
        helper.make_node("Sub", ["negative", "t"], ["below"]),
        helper.make_node("Relu", ["above"], ["over"]),
        helper.make_node("Relu", ["below"], ["under"]),
        helper.make_node("Sub", ["over", "under"], ["y"]),
    ]
    return model_of(nodes, {"x": ["n", 8]}, {"t": numpy.array([0.5], "f")}, ["y"])


def trained():
    """loss = mean(soft_threshold(difference(x w), t)^2), of the parameters w and t."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Difference", ["h"], ["d"], domain="example", axis=1, shift=2),
        helper.make_node("SoftThreshold", ["d", "t"], ["s"], domain="example"),
        helper.make_node("Mul", ["s", "s"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["loss"], keepdims=0),
    ]
    return model_of(nodes, {"x": ["n", 5]}, {"w": numpy.linspace(-1, 1, 35, dtype="f").reshape(5, 7), "t": numpy.full(5, 0.1, "f")}, ["loss"])


def thresholds():
    """y = soft_threshold(x w, t), to be trained against targets."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("SoftThreshold", ["h", "t"], ["y"], domain="example")]
    return model_of(nodes, {"x": ["n", 5]}, {"w": numpy.linspace(-1, 1, 15, dtype="f").reshape(5, 3), "t": numpy.full(3, 0.1, "f")}, ["y"])


def trained_loss(x, w, t):
    return numpy.mean(soft_threshold(difference(x @ w, 1, 2), t) ** 2)


def gradient_by_differences(f, value, step=1e-5):
    """Of a function of doubles."""
    result = numpy.zeros_like(value)
    for place in numpy.ndindex(value.shape):
        ends = []
        for sign in (1, -1):
            moved = value.copy()
            moved[place] += sign * step
            ends.append(f(moved))
        result[place] = (ends[0] - ends[1]) / (2 * step)
    return result
