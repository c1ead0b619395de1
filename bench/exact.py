"""What a model computes when nothing is rounded to fewer than 53 bits: the standard that each engine's error is told by.

The model is rewritten so that all of its floating-point tensors are doubles, and evaluated with ONNX's own reference
implementation, which is NumPy, and no engine of the race. That takes seconds to minutes, so results are kept beside the
filled models, under the hash of the model and its inputs.
"""

import hashlib
import os
import sys

import numpy
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from weights import cache_folder

NARROW = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}
# Attributes that name an element type, by the operators that have them.
TYPE_ATTRIBUTES = {"Cast": "to", "RandomNormal": "dtype", "RandomUniform": "dtype", "EyeLike": "dtype", "SequenceEmpty": "dtype"}
REVISION = 1  # of the results that are kept


class MaxPool(OpRun):
    """As windows of a view: the reference implementation's loops take minutes on a picture."""

    op_domain = ""

    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None, storage_order=None,
             strides=None):
        rank = x.ndim - 2
        strides, pads = strides or [1] * rank, pads or [0] * (2 * rank)
        if (auto_pad or "NOTSET") != "NOTSET" or ceil_mode or storage_order or any(step != 1 for step in dilations or []):
            raise NotImplementedError("this form of MaxPool has no exact evaluation here")
        width = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])]
        padded = numpy.pad(x, width, constant_values=-numpy.inf if x.dtype.kind == "f" else numpy.iinfo(x.dtype).min)
        windows = numpy.lib.stride_tricks.sliding_window_view(padded, kernel_shape, axis=tuple(range(2, x.ndim)))
        places = (slice(None), slice(None), *(slice(None, None, step) for step in strides))
        return (windows[places].max(axis=tuple(range(-rank, 0))),)


class GatherElements(OpRun):
    """The reference implementation takes at most 64 places."""

    op_domain = ""

    def _run(self, data, indices, axis=None):
        axis = axis or 0
        return (numpy.take_along_axis(data, numpy.where(indices < 0, indices + data.shape[axis], indices), axis),)


def along(values, like, axis):
    """One number, or one for each place along the axis, so that it broadcasts to what it scales."""
    values = numpy.asarray(values)
    return values if values.ndim == 0 or values.size == 1 else values.reshape([-1 if dim == axis % like.ndim else 1 for dim in range(like.ndim)])


class DequantizeLinear(OpRun):
    """Of codes by doubles: the reference implementation knows scales of narrower floats alone."""

    op_domain = ""

    def _run(self, x, scale, zero_point=None, axis=None, block_size=None, output_dtype=None):
        if block_size:
            raise NotImplementedError("scales of blocks have no exact evaluation here")
        zero = 0 if zero_point is None else along(zero_point, x, 1 if axis is None else axis).astype(numpy.float64)
        return ((x.astype(numpy.float64) - zero) * along(scale, x, 1 if axis is None else axis),)


class QuantizeLinear(OpRun):
    op_domain = ""

    def _run(self, x, scale, zero_point=None, axis=None, saturate=None, block_size=None, output_dtype=None, precision=None):
        codes = numpy.dtype(numpy.uint8) if zero_point is None else numpy.asarray(zero_point).dtype
        if block_size or codes.kind not in "iu":
            raise NotImplementedError("this form of QuantizeLinear has no exact evaluation here")
        zero = 0 if zero_point is None else along(zero_point, x, 1 if axis is None else axis).astype(numpy.float64)
        limits = numpy.iinfo(codes)
        return (numpy.clip(numpy.rint(x / along(scale, x, 1 if axis is None else axis)) + zero, limits.min, limits.max).astype(codes),)


def widen_tensor(tensor):
    if tensor.data_type in NARROW:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(numpy.float64), tensor.name))


def widen_type(type_proto):
    kind = type_proto.WhichOneof("value")
    if kind == "tensor_type":
        if type_proto.tensor_type.elem_type in NARROW:
            type_proto.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind in ("sequence_type", "optional_type"):
        widen_type(getattr(type_proto, kind).elem_type)


def widen_node(node):
    for attribute in node.attribute:
        if attribute.HasField("t"):
            widen_tensor(attribute.t)
        if attribute.HasField("g"):
            widen_graph(attribute.g)
        if attribute.name == TYPE_ATTRIBUTES.get(node.op_type) and attribute.i in NARROW:
            attribute.i = TensorProto.DOUBLE
        if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            floats = [attribute.f] if attribute.name == "value_float" else list(attribute.floats)
            array = numpy.array(floats, numpy.float64)
            attribute.CopyFrom(onnx.helper.make_attribute(
                "value", numpy_helper.from_array(array.reshape(()) if attribute.name == "value_float" else array)))


def widen_graph(graph):
    """Makes all that is a narrower float a double, in place."""
    for tensor in graph.initializer:
        widen_tensor(tensor)
    for port in [*graph.input, *graph.output, *graph.value_info]:
        widen_type(port.type)
    for node in graph.node:
        widen_node(node)


def is_float(value):
    return value.dtype.kind == "f" or value.dtype.name == "bfloat16"


def evaluate(model, feed):
    """The outputs in double precision. The model is changed."""
    widen_graph(model.graph)
    evaluator = ReferenceEvaluator(model, new_ops=[MaxPool, GatherElements, DequantizeLinear, QuantizeLinear])
    # Overflow to infinity and the like are results, and not mistakes.
    with numpy.errstate(all="ignore"):
        return evaluator.run(None, {name: value.astype(numpy.float64) if is_float(value) else value
                                    for name, value in feed.items()})


def digest_of(path, feed):
    digest = hashlib.sha256(f"{REVISION} {onnx.__version__}".encode())
    with open(path, "rb") as file:
        while block := file.read(1 << 24):
            digest.update(block)
    for name, value in sorted(feed.items()):
        digest.update(f"{name} {value.shape} {value.dtype}".encode() + value.tobytes())
    return digest.hexdigest()[:24]


def exact_outputs(path, feed):
    """The model's outputs as doubles, kept from the last time where it was the same model and the same inputs."""
    kept = cache_folder() / f"exact-{digest_of(path, feed)}.npz"
    if kept.exists():
        with numpy.load(kept) as arrays:
            return [arrays[f"output{index}"] for index in range(len(arrays.files))]
    print(f"race: evaluating {os.path.basename(path)} in double precision", file=sys.stderr, flush=True)
    outputs = [numpy.asarray(output) for output in evaluate(onnx.load(path), feed)]
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".{os.getpid()}.part.npz")
    try:
        numpy.savez(part, **{f"output{index}": output for index, output in enumerate(outputs)})
        os.replace(part, kept)
    finally:
        part.unlink(missing_ok=True)
    return outputs
