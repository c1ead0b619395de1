"""A loss of one's own, in a few lines of Python, as a module with both of its derivatives.

The function is called once, with terms in the place of arrays: what it does with them is made as a graph, operator by operator
(`tensmith.Builder`), which the autodiff then differentiates twice. It is written with NumPy's functions, and so can be called with
arrays, too:

    def focal(output, label):
        margin = (2 * label - 1) * output
        return (1 - 1 / (1 + numpy.exp(-margin))) ** 2 * numpy.log(1 + numpy.exp(-margin))
"""

import os
import tempfile

import numpy

from .. import _trees

# NumPy's functions of arrays, by the graph's operators of the same meaning.
_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "power": "pow", "float_power": "pow",
    "negative": "neg", "absolute": "abs", "fabs": "abs", "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos",
    "log1p": "log1p", "tanh": "tanh", "maximum": "max", "minimum": "min", "sign": "sign", "less": "less",
    "less_equal": "less_or_equal", "greater": "greater", "greater_equal": "greater_or_equal", "equal": "equal",
}  # fmt: skip
_REDUCTIONS = {"sum": "reduce_sum", "max": "reduce_max", "amax": "reduce_max", "min": "reduce_min", "amin": "reduce_min"}


class Term:
    """A value of the graph that a loss is made to. It has NumPy's arithmetic, functions and sums."""

    __array_priority__ = 100

    def __init__(self, builder, value):
        self._builder = builder
        self._value = value

    def _of(self, operator, *operands, **attributes):
        values = [self._number(operand, operator) for operand in operands]
        return Term(self._builder, self._builder.op(operator, values, attributes)[0])

    def _number(self, operand, operator):
        """NumPy counts with truth values as with 0 and 1."""
        if not isinstance(operand, Term):
            return self._builder.constant(numpy.asarray(operand, numpy.float32))
        if operator != "where" and self._builder.type(operand._value)[0] == "bool":
            from tensmith import ElementType

            return self._builder.op("cast", [operand._value], {"to": ElementType("f32")})[0]
        return operand._value

    def __array_ufunc__(self, function, method, *operands, **options):
        if method != "__call__" or options:
            raise TypeError(f"a loss calls numpy.{function.__name__} in a way that has no derivative here")
        name = function.__name__
        if name == "square":
            return operands[0] * operands[0]
        if name == "expm1":
            return numpy.exp(operands[0]) - 1
        if name == "logaddexp":  # without an overflow
            a, b = operands
            return numpy.maximum(a, b) + numpy.log1p(numpy.exp(-abs(a - b)))
        if name not in _OPERATORS:
            raise TypeError(f"a loss calls numpy.{name}, which has no operator here; there are {', '.join(sorted(_OPERATORS))}")
        return self._of(_OPERATORS[name], *operands)

    def __array_function__(self, function, _types, operands, options):
        if function is numpy.where:
            condition, yes, no = operands
            return self._of("where", condition, yes, no)
        if function.__name__ in _REDUCTIONS:
            return self._reduced(_REDUCTIONS[function.__name__], *operands[1:], **options)
        raise TypeError(f"a loss calls numpy.{function.__name__}, which has no operator here")

    def _reduced(self, operator, axis=None, keepdims=False):
        if axis is None:
            raise TypeError("a loss sums over all rows; give each row's loss, and sum over axis 1 alone")
        return self._of(operator, self, axes=[axis] if isinstance(axis, int) else list(axis), keepdims=bool(keepdims))

    def sum(self, axis=None, keepdims=False):
        return self._reduced("reduce_sum", axis, keepdims)

    def max(self, axis=None, keepdims=False):
        return self._reduced("reduce_max", axis, keepdims)

    def __bool__(self):
        raise TypeError("a loss asks whether one of its values holds; numpy.where chooses by rows")

    def __neg__(self):
        return self._of("neg", self)

    def __abs__(self):
        return self._of("abs", self)


def _binary(operator, swapped=False):
    return (lambda self, other: self._of(operator, other, self)) if swapped else (lambda self, other: self._of(operator, self, other))


for _name, _operator in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow"}.items():
    setattr(Term, f"__{_name}__", _binary(_operator))
    setattr(Term, f"__r{_name}__", _binary(_operator, swapped=True))
for _name, _operator in {"lt": "less", "le": "less_or_equal", "gt": "greater", "ge": "greater_or_equal"}.items():
    setattr(Term, f"__{_name}__", _binary(_operator))


def is_loss(objective):
    """Whether it is a loss of one's own, not the name of an objective."""
    return callable(objective) or (isinstance(objective, str) and _trees.is_loss(objective))


def loss_derivatives(loss, outputs, labels):
    """(losses, gradients, diagonals of Hessians) of a loss of one's own, as `train` takes it; outputs are [rows] or [rows, channels]."""
    outputs = numpy.ascontiguousarray(outputs, numpy.float32)
    of_rows = outputs.reshape(len(outputs), -1)
    program = loss if isinstance(loss, str) else compile_loss(loss, of_rows.shape[1])
    each, first, second = _trees.loss_derivatives(program, of_rows, numpy.ascontiguousarray(labels, numpy.float32))
    return each, first.reshape(outputs.shape), second.reshape(outputs.shape)


def compile_loss(loss, channels=1):
    """The module of `loss(output, label)`, as bytes. `output` is f32[rows], or [rows, channels] of several; `label` is f32[rows];
    the result, f32[rows], must be of each row by itself."""
    import tensmith

    builder = tensmith.Builder()
    output = Term(builder, builder.input("output", ("f32", ["n"] if channels == 1 else ["n", str(channels)])))
    label = Term(builder, builder.input("label", ("f32", ["n"])))
    each = loss(output, label)
    if not isinstance(each, Term):
        raise TypeError(f"the loss gives {type(each).__name__}, which does not depend on the output; it is called with (output, label)")
    if builder.type(each._value) != ("f32", ["n"]):
        raise ValueError(f"the loss gives {builder.type(each._value)}; f32 by rows, ['n'], is expected")
    builder.output("result0", each._value)
    builder.output("result1", builder.op("reduce_sum", [each._value], {"axes": [0]})[0])
    derivatives = [("grad", "result1", ["output"]), ("jvp", ["gradient.output"], ["output"])]
    settings = tensmith._settings(None, None, None, None, False, "fast", True, (), derivatives)
    with tempfile.TemporaryDirectory(prefix="tensmith-") as folder:
        path = os.path.join(folder, "loss.so")
        builder.compile(path, settings)
        with open(path, "rb") as file:
            return file.read()
