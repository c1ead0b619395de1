"""What a graph under construction knows of its values, and how nodes are added to it.

A dimension is a number, or a name for a size that only the run tells: two dimensions of one name are one size. Integers
and booleans are exact, so that they alone decide where the program goes and how large its tensors are; floats, which a
correct compiler may round differently, only go through operators that are continuous and bounded (`bound` is the largest
absolute value), so that a difference of the results is a mistake and no accident of rounding.
"""

import dataclasses
import random

import numpy
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DTYPES = {F32: numpy.float32, I64: numpy.int64, BOOL: numpy.bool_}
LARGEST = 40.0  # of a float before it is brought back by Tanh
LARGEST_INTEGER = 1000


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    type: int
    shape: tuple
    bound: float = 1.0
    least: int = 0  # elements along any dimension whose size is a name: at least so many

    @property
    def rank(self):
        return len(self.shape)

    def known(self):
        return all(isinstance(size, int) for size in self.shape)

    def count(self):
        return int(numpy.prod(self.shape)) if self.known() else None


class Program:
    """What all graphs of one model share: names, sizes, inputs, random choices."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numpy = numpy.random.default_rng(seed)
        self.names = 0
        self.nodes = 0
        self.feeds = {}
        self.sizes = {}

    def fresh(self, stem):
        self.names += 1
        return f"{stem}{self.names}"


class Graph:
    """One graph: the main one, or the body of a node. What an outer graph has so far can be used, too."""

    def __init__(self, program, parent=None):
        self.program, self.parent = program, parent
        self.random = program.random
        self.nodes, self.initializers, self.inputs, self.values = [], [], [], []
        self.sequences = []
        self.depth = parent.depth + 1 if parent else 0

    def visible(self):
        return (self.parent.visible() if self.parent else []) + self.values

    def new_dim(self):
        return self.program.fresh("d")

    def constant(self, array, bound=None):
        array = numpy.asarray(array)
        name = self.program.fresh("c")
        self.initializers.append(numpy_helper.from_array(array, name))
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        largest = float(numpy.abs(array.astype(numpy.float64)).max()) if array.size and kind != BOOL else 1.0
        return Value(name, kind, array.shape, max(largest, 1e-3) if bound is None else bound)

    def ints(self, *numbers):
        return self.constant(numpy.array(numbers, numpy.int64))

    def scalar(self, number, dtype=numpy.int64):
        return self.constant(numpy.array(number, dtype))

    def floats(self, shape, scale=1.0):
        return self.constant((self.program.numpy.uniform(-1, 1, shape) * scale).astype(numpy.float32))

    def raw(self, op, inputs, outputs=1, domain="", **attributes):
        """Adds a node; gives its outputs' names."""
        names = [self.program.fresh("t") for _ in range(outputs)]
        self.program.nodes += 1
        given = [value if isinstance(value, str) else value.name for value in inputs]
        self.nodes.append(
            helper.make_node(op, given, names, f"{op}_{self.program.nodes}", domain=domain or None, **attributes)
        )
        return names

    def add(self, op, inputs, kind, shape, bound=1.0, **attributes):
        """Adds a node of one result, which later nodes may use."""
        (name,) = self.raw(op, inputs, **attributes)
        value = Value(name, kind, tuple(shape), bound)
        self.values.append(value)
        return self.bounded(value)

    def bounded(self, value):
        if value.type == F32 and value.bound > LARGEST:
            return self.add("Tanh", [value], F32, value.shape, 1.0)
        if value.type == I64 and value.bound > LARGEST_INTEGER:
            modulus = self.scalar(17)
            return self.add("Mod", [value, modulus], I64, value.shape, 17)
        return value

    def pick(self, wanted):
        """A value so far for which `wanted` holds, or None; of two draws the later."""
        fitting = [value for value in self.visible() if wanted(value)]
        if not fitting:
            return None
        return fitting[max(self.random.randrange(len(fitting)), self.random.randrange(len(fitting)))]

    def float(self, low=0, high=4, wanted=lambda value: True):
        value = self.pick(lambda v: v.type == F32 and low <= v.rank <= high and wanted(v))
        if value is None or self.random.random() < 0.05:
            rank = self.random.randint(max(low, min(high, 1)), high)
            made = self.floats([self.random.choice([1, 2, 3, 4, 5, 8]) for _ in range(rank)])
            return made if wanted(made) else value
        return value

    def integer(self, low=0, high=3, wanted=lambda value: True):
        value = self.pick(lambda v: v.type == I64 and low <= v.rank <= high and wanted(v))
        if value is not None:
            return value
        rank = self.random.randint(low, high)
        made = self.constant(self.program.numpy.integers(-5, 6, [self.random.randint(1, 5) for _ in range(rank)]), 5)
        return made if wanted(made) else None

    def boolean(self, wanted=lambda value: True):
        value = self.pick(lambda v: v.type == BOOL and wanted(v))
        if value is not None:
            return value
        left = self.integer(0, 3)
        right = self.scalar(self.random.randint(-3, 3))
        made = self.add(self.random.choice(["Less", "Greater", "Equal"]), [left, right], BOOL, left.shape)
        return made if wanted(made) else None

    def truth(self):
        """A scalar boolean that data decides."""
        value = self.pick(lambda v: v.type == BOOL and v.rank == 0)
        if value is not None and self.random.random() < 0.5:
            return value
        number = self.number()
        return self.add("Less", [number, self.scalar(self.random.randint(-2, 6))], BOOL, ())

    def number(self):
        """A scalar integer that data decides."""
        value = self.integer(0, 3)
        if value.rank == 0:
            return value
        reduced = self.add("ReduceMax" if value.known() and value.count() else "ReduceSum", [value], I64, (),
                           value.bound * (1 if value.known() and value.count() else 50), keepdims=0)
        return reduced

    def count_up_to(self, most):
        """A scalar integer in [0, most)."""
        number = self.number()
        return self.add("Mod", [number, self.scalar(most)], I64, (), most)
