"""Draws products of numbers of few bits as ONNX nodes of the domain tensmith, with what they are in 64-bit integers."""

import numpy
from onnx import TensorProto, helper, numpy_helper

MOST_CHANNELS = 300


def numbers(codes, bits, bipolar):
    codes = codes.astype(numpy.int64)
    return 2 * codes - (2**bits - 1) if bipolar else codes


def convolve(x, w, strides, pads, dilations, groups):
    """Of numbers in int64, with pads of zeros; any number of spatial dimensions."""
    spatial = len(strides)
    x = numpy.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:], strict=True)])
    out = [(size - (taps - 1) * dilation - 1) // stride + 1
           for size, taps, stride, dilation in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)]  # fmt: skip
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.reshape(groups, -1, *w.shape[1:])
    sums = numpy.zeros((x.shape[0], groups, w.shape[1], *out), numpy.int64)
    for tap in numpy.ndindex(*w.shape[3:]):
        at = tuple(slice(place * dilation, place * dilation + (size - 1) * stride + 1, stride)
                   for place, dilation, size, stride in zip(tap, dilations, out, strides, strict=True))  # fmt: skip
        part = x[(slice(None), slice(None), slice(None), *at)]
        sums += numpy.einsum("ngc...,gmc->ngm...", part, w[(slice(None), slice(None), slice(None), *tap)])
    return sums.reshape(x.shape[0], -1, *out)


def channels_of(random):
    return int(random.choice([random.integers(1, 20), random.integers(1, MOST_CHANNELS + 1), random.choice([63, 64, 65, 128, 256])]))


def drawn(random, bits=None):
    """A node's kind, attributes, codes of both sides, and the sums. `bits`: of both sides and whether each is bipolar."""
    x_bits, w_bits, x_bipolar, w_bipolar = bits or (*random.integers(1, 5, 2), *random.integers(0, 2, 2))
    sides = {"bits": (int(x_bits), int(w_bits)), "bipolar": (int(x_bipolar), int(w_bipolar))}
    if random.random() < 0.25:
        depth, columns = channels_of(random), int(random.integers(1, 70))
        rows = [int(size) for size in random.integers(1, 6, random.integers(1, 4))]
        shapes, attributes = ([*rows, depth], [depth, columns]), {}
    else:
        spatial = int(random.choice([1, 2, 2, 2, 3]))
        groups = int(random.choice([1, 1, 1, 2, 3]))
        channels = channels_of(random) if groups == 1 else int(random.integers(1, MOST_CHANNELS // groups))
        kernel = [int(size) for size in random.choice([1, 2, 3, 3], spatial)]
        if random.random() < 0.25:
            kernel = [1] * spatial
        attributes = {"group": groups}
        attributes["strides"] = [int(size) for size in random.integers(1, 4 if random.random() < 0.5 else 2, spatial)]
        attributes["dilations"] = [int(size) for size in random.integers(1, 3 if random.random() < 0.3 else 2, spatial)]
        attributes["pads"] = [int(size) for size in random.integers(0, 3 if random.random() < 0.6 else 1, 2 * spatial)]
        image = [(taps - 1) * dilation + int(random.integers(1, 10 if spatial < 3 else 4))
                 for taps, dilation in zip(kernel, attributes["dilations"], strict=True)]  # fmt: skip
        filters = groups * int(random.integers(1, 70 // groups))
        shapes = [int(random.integers(1, 3)), groups * channels, *image], [filters, channels, *kernel]
    codes = [random.integers(0, 2**count, shape).astype(numpy.uint8) for count, shape in zip(sides["bits"], shapes, strict=True)]
    x, w = (numbers(code, *side) for code, *side in zip(codes, sides["bits"], sides["bipolar"], strict=True))
    if not attributes:
        return "BitMatMul", named(sides, "a", "b"), *codes, x @ w
    given = attributes["strides"], attributes["pads"], attributes["dilations"], attributes["group"]
    return "BitConv", {**named(sides, "x", "w"), **attributes}, *codes, convolve(x, w, *given)


def named(sides, left, right):
    return {f"{what}_{side}": value for what, both in sides.items() for side, value in zip((left, right), both, strict=True)}


def model_of(cases, are_weights, open_batch=False):
    """A model with an output for each of the cases. `are_weights`: whether its right side is a constant."""
    nodes, inputs, outputs, constants, feeds = [], [], [], [], []
    for number, ((kind, attributes, x, w, sums), is_constant) in enumerate(zip(cases, are_weights, strict=True)):
        x_name, w_name, y_name = f"x{number}", f"w{number}", f"y{number}"
        nodes.append(helper.make_node(kind, [x_name, w_name], [y_name], domain="tensmith", **attributes))
        shape = list(x.shape)
        if open_batch and len(shape) > 1:
            shape[0] = f"n{number}"
        inputs.append(helper.make_tensor_value_info(x_name, TensorProto.UINT8, shape))
        feeds.append(x)
        if is_constant:
            constants.append(numpy_helper.from_array(w, w_name))
        else:
            inputs.append(helper.make_tensor_value_info(w_name, TensorProto.UINT8, w.shape))
            feeds.append(w)
        outputs.append(helper.make_tensor_value_info(y_name, TensorProto.INT32, [None] * sums.ndim))
    graph = helper.make_graph(nodes, "bits", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("tensmith", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(), feeds
