"""Seeded inputs for any ONNX model: numbers that its graph can take, found from the graph and not from names.

Whole numbers are the difficulty, since one that leads to a table must lie within it. So each integer input is followed
to the Gathers that it indexes, and drawn below the smallest table's size. One that indexes nothing is a mask or a
length, and is 1 throughout. Symbolic dimensions have the size given, else 1, and 128 for the length of a sequence.
"""

import numpy
import onnx
from onnx import helper

SEED = 7
SEQUENCE = 128
# What hands indices on as they are.
TRANSPARENT = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Slice", "Expand"}


def symbol_size(symbol, sizes):
    return sizes.get(symbol, SEQUENCE if "seq" in symbol.lower() else 1)


def input_shape(port, sizes):
    return [dim.dim_value if dim.HasField("dim_value") else symbol_size(dim.dim_param, sizes)
            for dim in port.type.tensor_type.shape.dim]


def indexed_tables(graph, name):
    """The sizes of the tables that a value indexes."""
    extents = {tensor.name: tensor.dims for tensor in graph.initializer}
    reached, sizes = {name}, []
    for node in graph.node:  # in topological order
        if node.op_type in TRANSPARENT and node.input[0] in reached:
            reached.update(node.output)
        if node.op_type == "Gather" and node.input[1] in reached and node.input[0] in extents:
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            sizes.append(extents[node.input[0]][axis])
    return sizes


def draw(random, graph, port, sizes):
    shape = input_shape(port, sizes)
    dtype = numpy.dtype(helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type))
    if dtype.kind in "iu":
        tables = indexed_tables(graph, port.name)
        if tables:
            return random.integers(0, min(tables), shape).astype(dtype)
        if dtype.itemsize == 1:  # quantised values, pixels
            return random.integers(0, 128, shape).astype(dtype)
        return numpy.ones(shape, dtype)
    if dtype.kind == "b":
        return numpy.ones(shape, dtype)
    return random.standard_normal(shape).astype(dtype)


def make_feed(path, sizes=None, seed=SEED):
    """Arrays by the input's name. sizes: of symbolic dimensions, by symbol."""
    graph = onnx.load(path, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    random = numpy.random.default_rng(seed)
    ports = [port for port in graph.input if port.name not in constants]
    for port in ports:
        if not port.type.HasField("tensor_type"):
            raise ValueError(f"input '{port.name}' is no tensor; the race is for models that take tensors")
    return {port.name: draw(random, graph, port, sizes or {}) for port in ports}
