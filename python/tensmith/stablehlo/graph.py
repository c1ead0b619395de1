"""The graph that a program is lowered to, and the table of functions that lower it.

A function is registered for an operator's name by `lowers`; it is called with the graph, the operation and its operands as `Value`s, and
gives a Value, or a list of them. Sizes are numbers, or texts as the builder gives them, so that open ones go through.
"""

from .. import Builder, ElementType, Error
from ..lowerings import Table

# By names as "stablehlo.add"; and "custom:NAME" or "composite:NAME" for calls by name.
_TABLE = Table()
lowers = _TABLE.lowers


def supported():
    """The operators that there is a function for, sorted."""
    return sorted(_TABLE)


def function_for(name):
    return _TABLE.get(name)


class Value:
    """A tensor of the graph: its number in the builder, its element type's name and its sizes."""

    __slots__ = ("dtype", "number", "shape")

    def __init__(self, number, dtype, shape):
        self.number, self.dtype, self.shape = number, dtype, tuple(shape)

    @property
    def rank(self):
        return len(self.shape)

    @property
    def is_float(self):
        return self.dtype in ("f64", "f32", "f16", "bf16")

    @property
    def is_signed(self):
        return self.dtype.startswith("i")


def product(dims):
    """Of sizes: a number where all are, else a text."""
    known, texts = 1, []
    for dim in dims:
        if isinstance(dim, int):
            known *= dim
        else:
            texts.append(f"({dim})")
    return known if not texts or known == 0 else "*".join(([str(known)] if known != 1 else []) + texts)


class Graph:
    """The builder, with Values for its numbers."""

    def __init__(self):
        self.builder = Builder()
        self.location = ""
        self.inputs = set()  # their numbers
        # For derivatives that compute parts again (recorded/recomputed.py): these; how many there were before the text that is being inlined; and, by the number
        # of a value, the numbers of the parts' results that it is made of.
        self.parts, self.scope, self.sources = [], 0, {}

    def value(self, number):
        dtype, dims = self.builder.type(number)
        return Value(number, dtype, [int(dim) if dim.isdigit() else dim for dim in dims])

    def input(self, name, dtype, dims):
        number = self.builder.input(name, (dtype, [str(dim) for dim in dims]))
        self.inputs.add(number)
        return self.value(number)

    def constant(self, array, dtype=None, name=None):
        """Of a NumPy array; of another type than NumPy's by a conversion."""
        value = self.value(self.builder.constant(array, name))
        return value if dtype is None else self.cast(value, dtype)

    def scalar(self, number, dtype):
        import numpy

        kinds = {"bool": "bool", "f64": "float64", "f16": "float16"}
        if dtype[0] in "iu":
            kinds[dtype] = ("uint" if dtype[0] == "u" else "int") + dtype[1:]
        return self.constant(numpy.array(number, kinds.get(dtype, "float32")), dtype)

    def ints(self, numbers):
        import numpy

        return self.constant(numpy.array(numbers, "int64"))

    def ops(self, name, operands, result=None, **attributes):
        numbers = self.builder.op(name, [x and x.number for x in operands], attributes, result and (result[0], [str(dim) for dim in result[1]]),
                                  self.location)  # fmt: skip
        return [self.value(number) for number in numbers]

    def op(self, name, operands, result=None, **attributes):
        return self.ops(name, operands, result, **attributes)[0]

    def apply(self, name, *operands):
        """What formulas.py builds with."""
        return self.op(name, operands)

    def cast(self, x, dtype):
        return x if x.dtype == dtype else self.op("cast", [x], to=ElementType(dtype))

    def reshape(self, x, shape):
        return x if tuple(shape) == x.shape else self.op("reshape", [x], (x.dtype, shape))

    def broadcast(self, x, shape):
        return x if tuple(shape) == x.shape else self.op("broadcast", [x], (x.dtype, shape))

    def transpose(self, x, permutation):
        permutation = list(permutation)
        return x if permutation == list(range(x.rank)) else self.op("transpose", [x], permutation=permutation)

    def slice(self, x, starts, shape, steps=None):
        steps = list(steps or [1] * x.rank)
        if not any(starts) and tuple(shape) == x.shape and set(steps) <= {1}:
            return x
        return self.op("slice", [x], (x.dtype, shape), starts=list(starts), steps=steps)

    def iota(self, shape, axis, dtype="i64"):
        counted = "i64" if dtype not in ("f32", "f64", "i64") else dtype
        return self.cast(self.op("iota", [], (counted, shape), axis=axis), dtype)

    def reduce(self, name, x, axes, keepdims=False):
        return self.op(name, [x], axes=sorted(axes), keepdims=keepdims)

    def where(self, condition, a, b):
        return self.op("where", [condition, a, b])

    def clamp(self, x, low, high):
        return self.op("min", [self.op("max", [x, low]), high])

    def sizes_in(self, x):
        """What a small tensor of sizes holds, of which the graph must know."""
        texts = self.builder.contents(x.number)
        if not texts and x.shape != (0,):
            raise Error("a size depends on data; only sizes that follow from those of the inputs are known")
        return [int(text) if text.isdigit() else text for text in texts or []]
