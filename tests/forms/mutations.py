"""The standard's tests with operands that they were not made for: other sizes, none at all, and numbers at the ends of their types.

A mutation changes the values of a case, never its model: a size, in one operand or wherever it occurs, or an element of a short
operand, such as an axis, a length, an index or a scale. Whether that is wrong the reference evaluator says: whatever it refuses a
form must refuse, and whatever it computes the form must compute. A form that dies reads or writes what it has not checked.
"""

import dataclasses
import random

import forms
import numpy

SIZES = (0, 1, 2, 3, 5, 8)
INTEGERS = (0, 1, -1, 2, -2, 3, 7, 100, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
FLOATS = (0, -1, 0.5, 3, -1e4)
SHORT = 16  # elements of an operand of which one is changed
RANDOM = ("Bernoulli", "RandomNormal", "RandomUniform", "Multinomial", "Dropout")


@dataclasses.dataclass
class Mutated(forms.Case):
    """A case of which `count` mutations are compared; `expected` is what the case itself gives."""

    count: int = 8

    def mutations(self):
        draw = random.Random(self.name)
        for _ in range(self.count):
            values = [forms.as_value(value) for value in self.values]
            for _ in range(draw.choice((1, 1, 2))):
                values = mutated(draw, values)
            yield dataclasses.replace(self, values=values)


def places_of(values):
    """Those of the values that are tensors."""
    return [place for place, value in enumerate(values) if isinstance(value, numpy.ndarray)]


def resized(value, axis, size):
    shape = value.shape[:axis] + (size,) + value.shape[axis + 1:]
    return numpy.resize(value, shape) if value.size else numpy.zeros(shape, value.dtype)


def other_size(draw, values):
    """One dimension of an operand has another size; often so has each dimension of any operand that was as large."""
    axes = [(place, axis) for place in places_of(values) for axis in range(values[place].ndim)]
    if not axes:
        return values
    place, axis = draw.choice(axes)
    old, new, everywhere = values[place].shape[axis], draw.choice(SIZES), draw.random() < 0.6
    result = list(values)
    for each, dim in axes:
        if (each, dim) == (place, axis) or everywhere and values[each].shape[dim] == old:
            result[each] = resized(result[each], dim, new)
    return result


def other_element(draw, values):
    """One element of a short operand is another number."""
    short = [place for place in places_of(values) if 0 < values[place].size <= SHORT and values[place].dtype.kind in "iuf"]
    if not short:
        return other_size(draw, values)
    place = draw.choice(short)
    value = values[place].copy()
    number = draw.choice(FLOATS if value.dtype.kind == "f" else INTEGERS)
    if value.dtype.kind != "f":
        info = numpy.iinfo(value.dtype)
        number = min(max(number, int(info.min)), int(info.max))
    with numpy.errstate(over="ignore"):
        value.reshape(-1)[draw.randrange(value.size)] = number
    return [*values[:place], value, *values[place + 1:]]


def mutated(draw, values):
    return (other_element if draw.random() < 0.5 else other_size)(draw, values)


def tolerances(case, wanted):
    """(rtol, atol) of a result: sums of what is large and cancels err by its share of the largest."""
    if not isinstance(wanted, numpy.ndarray) or wanted.dtype.kind in "iubOUS":
        return case.rtol, case.atol
    wide = numpy.abs(wanted.astype(numpy.float64 if wanted.dtype.kind != "c" else numpy.complex128))
    unit = {8: 1e-6, 4: 3e-4}.get(wanted.dtype.itemsize, 3e-2)
    return max(case.rtol, unit), case.atol + unit * float(wide[numpy.isfinite(wide)].max(initial=0))


def mutated_cases(suite):
    """Of those of the suite whose results no chance decides and whose loops end whatever their operands are."""
    for case in suite:
        operators = {node.op_type for node in case.graph.node}
        if not operators & {"Loop", "Scan"} and not any(name.startswith(RANDOM) for name in operators):
            yield Mutated(f"mutated_{case.name}", case.model, case.values, case.expected, case.rtol, case.atol)
