"""Puts weights back into models whose weights were taken out, so that a real architecture is a file of some kilobytes.

A tensor without its data says in its doc_string what stood there: `fill:KIND ARGUMENTS`, by KIND
    zlib                        the data itself, compressed
    integer LOW HIGH            whole numbers in LOW..HIGH
    normal MEAN STD             bell-shaped
    rounded MEAN STD LOW HIGH   bell-shaped, rounded and clipped
    positive MEAN STD LOW HIGH  magnitudes of bell-shaped numbers, clipped
The numbers follow from the seed, the tensor's position and its name alone, through integer arithmetic (splitmix64:
Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014; a bell shape is the sum of a word's four
16-bit lanes): they are the same on every machine and with every version of NumPy, and magnitudes stay those of the
trained network, so that outputs are finite and worth comparing.
"""

import hashlib
import math
import os
import pathlib
import sys
import zlib

import numpy
import onnx
from onnx import helper

MARK = "fill:"
CHUNK = 1 << 20  # elements at a time: a few MB beside the tensor
LANES_MEAN = 4 * 65535 // 2
LANES_DEVIATION = 37837.227  # of the sum of four lanes: sqrt(4 * (65536^2 - 1) / 12)


def graph_tensors(graph):
    """Every tensor that a graph holds, in the file's order, subgraphs included. The order is part of the numbers."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.TENSORS:
                yield from attribute.tensors
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from graph_tensors(attribute.g)
            elif attribute.type == onnx.AttributeProto.GRAPHS:
                for subgraph in attribute.graphs:
                    yield from graph_tensors(subgraph)


def random_words(stream, start, count):
    """Elements start .. start + count - 1 of a stream of 64-bit words (splitmix64)."""
    positions = numpy.arange(start + 1, start + count + 1, dtype=numpy.uint64)
    with numpy.errstate(over="ignore"):
        word = numpy.uint64(stream) + positions * numpy.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return word ^ (word >> numpy.uint64(31))


def random_bell(stream, start, count):
    """Mean 0, variance 1, magnitude at most 3.47."""
    lanes = random_words(stream, start, count).view(numpy.uint16).reshape(-1, 4)
    return (lanes.sum(axis=1, dtype=numpy.int32) - LANES_MEAN).astype(numpy.float64) / LANES_DEVIATION


def random_values(kind, numbers, stream, start, count):
    if kind == "integer":
        low, high = int(numbers[0]), int(numbers[1])
        return low + (random_words(stream, start, count) % numpy.uint64(high - low + 1)).astype(numpy.int64)
    mean, deviation, *limits = map(float, numbers)
    values = mean + deviation * random_bell(stream, start, count)
    if kind == "rounded":
        return numpy.clip(numpy.rint(values), *limits)
    if kind == "positive":
        return numpy.clip(numpy.abs(values), *limits)
    if kind == "normal":
        return values
    raise ValueError(f"a tensor is to be filled with '{kind}', which is not known here; see {pathlib.Path(__file__).name}")


def fill_tensor(tensor, index, seed):
    kind, *numbers = tensor.doc_string[len(MARK):].split()
    if kind == "zlib":
        tensor.raw_data = zlib.decompress(tensor.raw_data)
    else:
        stream = ((seed << 48) ^ (index << 32) ^ zlib.crc32(tensor.name.encode())) & (2**64 - 1)
        values = numpy.empty(math.prod(tensor.dims), helper.tensor_dtype_to_np_dtype(tensor.data_type))
        for start in range(0, values.size, CHUNK):
            part = values[start:start + CHUNK]
            part[...] = random_values(kind, numbers, stream, start, part.size).astype(values.dtype)
        tensor.raw_data = values.tobytes()
    tensor.ClearField("doc_string")


def fill(model, seed=1):
    """Fills a model in place; False when none of its weights were taken out."""
    emptied = [(index, tensor) for index, tensor in enumerate(graph_tensors(model.graph))
               if tensor.doc_string.startswith(MARK)]
    for index, tensor in emptied:
        fill_tensor(tensor, index, seed)
    return bool(emptied)


def cache_folder():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tensmith-bench"


def filled(path, seed=1):
    """The path of a model that can run: the file itself, or its filled copy, which is kept outside the checkout."""
    path = pathlib.Path(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    copy = cache_folder() / f"{path.stem}-{digest}-{seed}.onnx"
    if copy.exists():
        return copy
    model = onnx.load(path, load_external_data=False)
    if not fill(model, seed):
        return path
    print(f"filling {path.name} with weights: {copy}", file=sys.stderr)
    copy.parent.mkdir(parents=True, exist_ok=True)
    part = copy.with_suffix(f".{os.getpid()}.part")
    try:
        onnx.save(model, part, format="protobuf")
        os.replace(part, copy)
    finally:
        part.unlink(missing_ok=True)
    return copy
