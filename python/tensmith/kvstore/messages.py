"""What workers and servers of KVStore say to one another: frames of ZeroMQ, of which the first is a head in JSON and the second the elements of a tensor.

A head is a dict; with a tensor it has `type` and `shape`. Nothing that is received is executed or unpickled, and a message that is not of this form
is a ValueError that says why. bf16 travels as f32, since Python's buffers have no such type.
"""

import json
import math

from .. import _eager
from .. import numpy as tnp

LARGEST_HEAD = 1 << 16  # bytes
TYPES = {name: getattr(tnp, name) for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                                               "float16", "float32", "float64", "complex64", "complex128")}  # fmt: skip


class WorkerLost(RuntimeError):
    """A worker has not been heard of, and the servers were started with on_loss="raise". `rank` is its number."""

    def __init__(self, rank, seconds):
        super().__init__(f"worker {rank} has not been heard of for {seconds:.0f} s")
        self.rank = rank


def packed(head, tensor=None):
    """The frames. Waits for the tensor's elements."""
    if tensor is None:
        return [in_json(head)]
    if tensor.dtype == tnp.bfloat16:
        tensor = _eager.cast(tensor, tnp.float32)
    dense = tensor if tensor.is_dense else _eager.copy(tensor)
    dense.wait()
    head = {**head, "type": str(dense.dtype), "shape": list(dense.shape)}
    return [in_json(head), memoryview(dense).tobytes()]


def in_json(head):
    """The head's bytes. Numbers of NumPy and of tensors are numbers; what else JSON does not have is a TypeError."""

    def number(value):
        if not hasattr(value, "item"):
            raise TypeError(f"{type(value).__name__} can't be sent: {str(value)[:80]}")
        return value.item()

    return json.dumps(head, default=number).encode()


def unpacked(frames):
    """The head, and the tensor or None."""
    if not 1 <= len(frames) <= 2:
        raise ValueError(f"a message has one or two frames, and not {len(frames)}")
    if len(frames[0]) > LARGEST_HEAD:
        raise ValueError(f"a head has {LARGEST_HEAD} bytes at most, and not {len(frames[0])}")
    try:
        head = json.loads(bytes(frames[0]))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the head is no JSON: {error}") from None
    if not isinstance(head, dict):
        raise ValueError("the head is no dict")
    return head, _tensor(head, frames[1]) if len(frames) == 2 else None


def _tensor(head, frame):
    kind, shape = head.get("type"), head.get("shape")
    if not isinstance(kind, str) or kind not in TYPES:
        raise ValueError(f"there is no element type {str(kind)[:40]!r}")
    if not isinstance(shape, list) or len(shape) > 32 or not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
        raise ValueError(f"this is no shape: {str(shape)[:80]}")
    wanted = math.prod(shape) * TYPES[kind].itemsize
    if len(frame) != wanted:  # before memory is asked for
        raise ValueError(f"{len(frame)} bytes are no {kind} of shape {shape}, which has {wanted}")
    return _eager.from_bytes(bytes(frame), kind, tuple(shape))


def number(head, name, least=0, largest=1 << 62):
    """A whole number of the head."""
    value = head.get(name)
    if type(value) is not int or not least <= value <= largest:
        raise ValueError(f"'{name}' should be a whole number from {least} to {largest}, and is {str(value)[:40]}")
    return value


def text(head, name, longest=1024):
    value = head.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise ValueError(f"'{name}' should be a text of 1 to {longest} characters, and is {str(value)[:40]}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"'{name}' is no text that can be written") from None
    return value
