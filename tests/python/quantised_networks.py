"""A small CNN and a small transformer, trained here, for the tests of the quantiser."""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 6


def _model(nodes, inputs, weights, outputs):
    graph = helper.make_graph(
        nodes, "network", inputs, [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in weights.items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def cnn(random):
    """Convolutions with normalisations, a depthwise one, a sum, a dense layer: images of 1x12x12."""
    weights, nodes = {}, []

    def drawn(name, *shape):
        weights[name] = (random.standard_normal(shape) * numpy.sqrt(2 / numpy.prod(shape[1:]))).astype(numpy.float32)
        return name

    def convolution(name, x, inputs, outputs, size, **attributes):
        pads = [size // 2] * 4
        nodes.append(helper.make_node("Conv", [x, drawn(f"{name}.weight", outputs, inputs, size, size)], [f"{name}.y"], name=name, pads=pads, **attributes))
        norm = {"scale": numpy.ones, "shift": numpy.zeros, "mean": numpy.zeros, "variance": numpy.ones}
        for part, make in norm.items():
            weights[f"{name}.{part}"] = make(outputs, numpy.float32)
        nodes.append(helper.make_node("BatchNormalization", [f"{name}.y", *(f"{name}.{part}" for part in norm)], [f"{name}.n"]))
        nodes.append(helper.make_node("Relu", [f"{name}.n"], [f"{name}.r"]))
        return f"{name}.r"

    stem = convolution("stem", "image", 1, 16, 3)
    deep = convolution("depthwise", stem, 1, 16, 5, group=16)
    deep = convolution("pointwise", deep, 16, 16, 1)
    nodes.append(helper.make_node("Add", [stem, deep], ["sum"]))
    last = convolution("down", "sum", 16, 24, 3, strides=[2, 2])
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["pooled"]))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"]))
    weights["head.bias"] = numpy.zeros(CLASSES, numpy.float32)
    nodes.append(helper.make_node("Gemm", ["flat", drawn("head.weight", CLASSES, 24), "head.bias"], ["scores"], name="head", transB=1))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 12, 12])
    return _model(nodes, [image], weights, {"scores": ["batch", CLASSES]})


def images(random, count, noise=0.5):
    """A pattern of 4x4 that tells the class, somewhere, in noise."""
    patterns = numpy.sign(numpy.random.default_rng(99).standard_normal((CLASSES, 4, 4))) * 1.5
    labels = random.integers(0, CLASSES, count)
    x = random.standard_normal((count, 1, 12, 12)).astype(numpy.float32) * numpy.float32(noise)
    for sample, label in zip(x, labels):
        row, column = random.integers(0, 9, 2)
        sample[0, row : row + 4, column : column + 4] += patterns[label]
    return x, labels


def transformer(random, length=8, words=16, width=32):
    """One layer of attention and one of two matrices, both behind a layer normalisation."""
    weights = {"words": random.standard_normal((words, width)).astype(numpy.float32), "places": random.standard_normal((length, width)).astype(numpy.float32) * 0.5}
    nodes = [helper.make_node("Gather", ["words", "tokens"], ["embedded"]), helper.make_node("Add", ["embedded", "places"], ["x0"])]

    def dense(name, x, inputs, outputs):
        weights[f"{name}.weight"] = (random.standard_normal((inputs, outputs)) / numpy.sqrt(inputs)).astype(numpy.float32)
        weights[f"{name}.bias"] = numpy.zeros(outputs, numpy.float32)
        nodes.append(helper.make_node("MatMul", [x, f"{name}.weight"], [f"{name}.product"], name=name))
        nodes.append(helper.make_node("Add", [f"{name}.product", f"{name}.bias"], [f"{name}.y"]))
        return f"{name}.y"

    def norm(name, x):
        # Scales that lie far apart, as those of large models do: what SmoothQuant is for.
        weights[f"{name}.scale"] = numpy.where(numpy.arange(width) % 16 == 3, 12, 1).astype(numpy.float32)
        weights[f"{name}.shift"] = numpy.zeros(width, numpy.float32)
        nodes.append(helper.make_node("LayerNormalization", [x, f"{name}.scale", f"{name}.shift"], [f"{name}.y"], axis=-1))
        return f"{name}.y"

    n = norm("norm1", "x0")
    q, k, v = (dense(part, n, width, width) for part in ("query", "key", "value"))
    weights["root"] = numpy.float32(1 / numpy.sqrt(width)).reshape(())
    nodes += [
        helper.make_node("Transpose", [k], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", [q, "kt"], ["raw"], name="scores_of_attention"),
        helper.make_node("Mul", ["raw", "root"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", v], ["mixed"], name="mix"),
    ]
    nodes.append(helper.make_node("Add", ["x0", dense("projection", "mixed", width, width)], ["x1"]))
    up = dense("up", norm("norm2", "x1"), width, 2 * width)
    nodes.append(helper.make_node("Relu", [up], ["rectified"]))
    nodes.append(helper.make_node("Add", ["x1", dense("down", "rectified", 2 * width, width)], ["x2"]))
    nodes.append(helper.make_node("ReduceMean", ["x2"], ["mean"], axes=[1], keepdims=0))
    nodes.append(helper.make_node("Add", [_named_product(nodes, weights, random, width), "head.bias"], ["scores"]))
    weights["head.bias"] = numpy.zeros(CLASSES, numpy.float32)
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", length])
    return _model(nodes, [tokens], weights, {"scores": ["batch", CLASSES]})


def _named_product(nodes, weights, random, width):
    weights["head.weight"] = (random.standard_normal((width, CLASSES)) / numpy.sqrt(width)).astype(numpy.float32)
    nodes.append(helper.make_node("MatMul", ["mean", "head.weight"], ["head.product"], name="head"))
    return "head.product"


def sentences(random, count, length=8, words=16):
    """The class is the word that follows the word 0."""
    tokens = random.integers(CLASSES, words, (count, length))
    labels = random.integers(0, CLASSES - 1, count) + 1
    for row, label in zip(tokens, labels):
        place = random.integers(0, length - 1)
        row[place], row[place + 1] = 0, label
    return tokens, labels


def trained(tensmith, path, model, name, x, labels, steps, **settings):
    """Writes the model with weights that were trained on the samples, in its form for evaluation."""
    onnx.save(model, path)
    step = tensmith.train_step(path, **{"optimiser": "adam", "learning_rate": 3e-3} | settings)
    random = numpy.random.default_rng(0)
    for _ in range(steps):
        chosen = random.integers(0, len(x), 64)
        step(**{name: x[chosen], "target": labels[chosen]})
    for tensor in model.graph.initializer:
        if tensor.name in step.state:
            tensor.CopyFrom(numpy_helper.from_array(numpy.asarray(step.state[tensor.name]), tensor.name))
    onnx.save(model, path)
    return path
