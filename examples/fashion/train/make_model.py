#!/usr/bin/env python3
"""Makes the network that fashion.toml trains, with weights that are drawn at random: untrained.onnx, beside this file.

Three convolutions, each normalised over the batch; the first two are pooled before that, where there is a quarter to
normalise. Weights are drawn as He and others do for rectifiers ("Delving deep into rectifiers", 2015).
"""

import argparse
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

MEAN, DEVIATION = 0.2860, 0.3530  # of the training pictures' grey values / 255


class Network:
    """Nodes and weights, one after the other."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.weights = [], []
        self.last = "image"

    def weight(self, name, values):
        self.weights.append(numpy_helper.from_array(numpy.asarray(values, dtype=numpy.float32), name))
        return name

    def add(self, operator, name, *operands, **attributes):
        self.nodes.append(helper.make_node(operator, [self.last, *operands], [name], name, **attributes))
        self.last = name

    def convolution(self, name, channels, filters):
        shape = (filters, channels, 3, 3)
        values = self.random.standard_normal(shape) * numpy.sqrt(2 / (9 * channels))
        self.add("Conv", name, self.weight(f"{name}.weight", values), pads=[1, 1, 1, 1], kernel_shape=[3, 3])

    def normalisation(self, name, channels):
        one, zero = numpy.ones(channels), numpy.zeros(channels)
        self.add("BatchNormalization", name, *[
            self.weight(f"{name}.{part}", values)
            for part, values in (("scale", one), ("shift", zero), ("mean", zero), ("variance", one))])

    def pooling(self, name):
        self.add("MaxPool", name, kernel_shape=[2, 2], strides=[2, 2])


def make(seed):
    net = Network(seed)
    net.add("Sub", "centred", net.weight("grey.mean", MEAN))
    net.add("Div", "scaled", net.weight("grey.deviation", DEVIATION))
    channels = 1
    for number, filters in enumerate((32, 48, 64), 1):
        net.convolution(f"conv{number}", channels, filters)
        if number < 3:
            net.pooling(f"pool{number}")
        net.normalisation(f"norm{number}", filters)
        net.add("Relu", f"relu{number}")
        channels = filters
    net.add("Flatten", "features", axis=1)
    size = 7 * 7 * channels
    classes = net.weight("classes.weight", net.random.standard_normal((size, 10)) * numpy.sqrt(1 / size))
    net.add("Gemm", "logits", classes, net.weight("classes.bias", numpy.zeros(10)))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 28, 28])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(net.nodes, "fashion", [image], [logits], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tensmith")
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "untrained.onnx")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    onnx.save(make(arguments.seed), arguments.output)


if __name__ == "__main__":
    main()
