"""What a region of scalars computes, found out by computing it.

The regions of reductions, sorts and scatters are given as code, where the graph has operators by name. A region is recognised by its answers to
numbers that tell the candidates apart, whatever way it is written: JAX writes the same comparison in several.
"""

import itertools
import math

import numpy

from .. import Error
from .elementwise import array_of, direction_of

_NUMBERS = [0.0, 1.0, -1.0, 2.5, -3.0, 7.0]


def _total_order(x):
    """Of floats: NaN with a sign is first or last."""
    if isinstance(x, float) and math.isnan(x):
        return (1, 0.0)
    return (0, x)


def _compared(operation, a, b):
    direction = direction_of(operation)
    if "compare_type" in operation.attributes and "TOTALORDER" in str(operation.attributes["compare_type"]):
        a, b = _total_order(a), _total_order(b)
    return {"EQ": a == b, "NE": a != b, "LT": a < b, "LE": a <= b, "GT": a > b, "GE": a >= b}[direction]


_MEANING = {
    "add": lambda a, b: (a or b) if isinstance(a, bool) else a + b, "multiply": lambda a, b: (a and b) if isinstance(a, bool) else a * b,
    "subtract": lambda a, b: a - b,
    "maximum": lambda a, b: math.nan if a != a or b != b else max(a, b), "minimum": lambda a, b: math.nan if a != a or b != b else min(a, b),
    "and": lambda a, b: a and b if isinstance(a, bool) else int(a) & int(b), "or": lambda a, b: a or b if isinstance(a, bool) else int(a) | int(b),
    "xor": lambda a, b: a ^ b if isinstance(a, bool) else int(a) ^ int(b), "not": lambda a: not a, "select": lambda c, a, b: a if c else b,
    "negate": lambda a: -a, "abs": abs,
}  # fmt: skip


def _constant_of(value):
    """A number from outside of the region."""
    operation = getattr(value.owner, "operation", value.owner)
    if getattr(operation, "name", "") != "stablehlo.constant" or value.type.rank:
        raise Error("its region reads values from outside")
    return array_of(operation).item()


def evaluate(region, arguments):
    """What the region returns for Python's numbers; Error where it has operators that are not known here."""
    block, values = region.blocks[0], {}
    for argument, value in zip(block.arguments, arguments):
        values[argument] = value
    for inner in block.operations:
        operation = inner.operation
        operands = [values[operand] if operand in values else _constant_of(operand) for operand in operation.operands]
        name = operation.name.removeprefix("stablehlo.")
        if name == "return":
            return operands
        if name == "compare":
            result = _compared(operation, *operands)
        elif name == "constant":
            result = array_of(operation).item()
        elif name in ("convert", "optimization_barrier", "reduce_precision"):
            result = operands[0]
        elif name in _MEANING:
            result = _MEANING[name](*operands)
        else:
            raise Error(f"its region has the operator {operation.name}, which isn't recognised")
        values[operation.results[0]] = result
    raise Error("its region returns nothing")


def is_truth(region):
    return str(region.blocks[0].arguments[0].type.element_type) == "i1"


def combination(region):
    """What a region of two arguments does: add, mul, max, min, or `none`, which gives the second; of truths or, and, none."""
    if is_truth(region):
        samples = list(itertools.product([False, True], repeat=2))
        known = {"max": lambda a, b: a or b, "min": lambda a, b: a and b, "none": lambda a, b: b, "xor": lambda a, b: a ^ b}
    elif str(region.blocks[0].arguments[0].type.element_type)[0] in "iu":
        samples = list(itertools.product([0, 1, 6, 3, 12], repeat=2))
        known = _COMBINATIONS | {"and": lambda a, b: a & b, "or": lambda a, b: a | b}
    else:
        samples = list(itertools.product(_NUMBERS, repeat=2))
        known = _COMBINATIONS
    answers = [evaluate(region, sample)[0] for sample in samples]
    for name, function in known.items():
        if all(answer == function(a, b) for answer, (a, b) in zip(answers, samples)):
            return name
    raise Error("its region is no sum, product, maximum, minimum, conjunction or disjunction")


_COMBINATIONS = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": max, "min": min, "none": lambda a, b: b}


def extreme(region):
    """Whether a region of (value, index) pairs keeps the largest or smallest with the lower index: max or min."""
    samples = [(a, i, b, j) for a, b in itertools.product(_NUMBERS, repeat=2) for i, j in ((0, 1), (4, 2))]
    answers = [evaluate(region, sample) for sample in samples]
    for name, better in (("max", lambda a, b: a > b), ("min", lambda a, b: a < b)):
        wanted = []
        for a, i, b, j in samples:
            takes_first = better(a, b) or (a == b and i < j)
            wanted.append([a, i] if takes_first else [b, j])
        if answers == wanted:
            return name
    raise Error("its region of several values is no maximum or minimum with its index")


def _pairs_of_others(count):
    """The other operands' pairs of a comparison: all equal, then each alone smaller and larger, which a second key answers to; of few all."""
    if count < 3:
        return list(itertools.product([1.0, 2.0], repeat=2 * count))
    return [[1.0] * 2 * count, *([2.0 if i == place else 1.0 for i in range(2 * count)] for place in range(2 * count))]


def order(region):
    """(number of the operand that decides, whether the largest is first) of a sort's comparison."""
    count = len(region.blocks[0].arguments) // 2
    others = _pairs_of_others(count - 1)
    for key in range(count):
        answers = []
        for a, b in itertools.product(_NUMBERS, repeat=2):
            for rest in others:
                rest, arguments = list(rest), []
                for i in range(count):
                    arguments += [a, b] if i == key else [rest.pop(), rest.pop()]
                answers.append((bool(evaluate(region, arguments)[0]), a, b))
        for is_largest in (False, True):
            if all(answer == (a > b if is_largest else a < b) for answer, a, b in answers):
                return key, is_largest
    raise Error("it sorts by more than one key, or by another order than that of numbers")


def neutral(name, dtype):
    """What changes nothing in a combination, as NumPy's scalar."""
    if name in ("add", "or", "xor"):
        return 0
    if name == "mul":
        return 1
    if dtype == "bool":
        return name == "min"
    if name == "and":
        return -1
    if dtype[0] in "iu":
        info = numpy.iinfo(("uint" if dtype[0] == "u" else "int") + dtype[1:])
        return info.min if name == "max" else info.max
    return -math.inf if name == "max" else math.inf
