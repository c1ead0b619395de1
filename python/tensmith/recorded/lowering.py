"""From a tape's text (eager/TapeText.cpp) to a graph: a function for each step, by its name.

Sizes are texts, so that the graph is that of all tapes of the text.
"""

import math
import re

from .. import ElementType, Error, formulas
from ..lowerings import Table
from ..stablehlo.graph import Graph
from . import recomputed
from .texts import decoded, texts_within

# Of the graph, the step's attributes, its results' types and its operands.
_TABLE = Table()
lowers = _TABLE.lowers


class Step:
    """A line of the text. types: of each result the element type and the sizes, as texts; updates: of a program the updates that are its own (`inlined`)."""

    def __init__(self, line, names=None):
        self.updates = {}
        self.name, attributes, operands, types = line.split("|")
        self.attributes = dict(_attribute(each) for each in attributes.split(";") if each)
        self.operands = [int(number) for number in operands.split()]
        self.types = [_type(text, names) for text in types.split(",")]

    @property
    def dtype(self):
        return self.types[0][0]

    @property
    def shape(self):
        return self.types[0][1]


def _attribute(text):
    name, _, value = text.partition("=")
    kind, _, value = value.partition(":")
    convert = {"i": int, "f": float, "t": str, "s": str}
    if kind in convert:
        return name, convert[kind](value)
    return name, [(int if kind == "l" else float)(each) for each in value.split(",") if each]


def _size(text):
    return int(text) if text.isdigit() else text


def _type(text, names=None):
    """`names`: what sizes of the text are called in the graph."""
    dtype, *sizes = text.split()
    if names:
        sizes = [re.sub(r"s[0-9]+", lambda found: f"({names[found[0]]})", size) for size in sizes]
        sizes = [size[1:-1] if re.fullmatch(r"\([^()]*\)", size) else size for size in sizes]
    return dtype, tuple(_size(size) for size in sizes)


def graph_of(text):
    """The text's graph, with inputs "x0", ... and outputs "y0", ... An Error names a step that has no graph, or no derivative."""
    g = Graph()
    lines = text.splitlines()
    types = [_type(line[len("input ") :]) for line in lines if line.startswith("input ")]
    inputs = [g.input(f"x{number}", *type_) for number, type_ in enumerate(types)]
    outputs = _outputs(text)
    states = [tuple(map(int, line.split()[1:])) for line in lines if line.startswith("state ")]
    updates = {outputs[output]: (outputs[holds[0]], inputs[number]) for output, number, *holds in states if holds}
    for number, result in enumerate(inlined(g, text, inputs, updates)):
        g.builder.output(f"y{number}", result.number)
    for output, number, *_ in states:
        g.builder.state(f"x{number}", f"y{output}")
    return g


def inlined(g, text, inputs, updates=None):
    """The text's outputs, of these inputs. Its sizes have names of its own, which are what the inputs' are here.

    updates: by the number of a value (holds, otherwise): what is in its place where `holds`, a truth or the number of one, does not hold. What is computed of
    the value is of use only where that holds, so it may be computed of the one that was chosen: then the choice is part of the kernel that computes the value.
    """
    lines, names = text.splitlines(), {}
    for line, value in zip(lines, inputs):
        for text_size, size in zip(line.split()[2:], value.shape):
            names.setdefault(text_size, size)
    values, results, updates = list(inputs), [], dict(updates or {})

    def chosen(number):
        holds, otherwise = updates.pop(number)
        return g.where(values[holds] if isinstance(holds, int) else holds, values[number], otherwise)

    scope, g.scope = g.scope, len(g.parts)
    for line in lines[len(inputs) :]:
        kind, _, rest = line.partition(" ")
        if kind == "const":
            values.append(_constant(g, *rest.split()))
        elif kind == "out":
            results.append(chosen(int(rest)) if int(rest) in updates else values[int(rest)])
        elif kind == "state":  # of runs of the text alone: who has it as a part writes what it gives
            continue
        else:
            step, first = Step(line, names), len(values)
            here = [number for number in range(first, first + len(step.types)) if number in updates]
            here = [number for number in here if not isinstance(updates[number][0], int) or updates[number][0] < first]
            parts = _outputs(decoded(step.attributes["text"])) if step.name == "program" and here else []
            for number in here:
                if parts.count(part := parts[number - first] if parts else None) == 1:
                    holds, otherwise = updates.pop(number)
                    step.updates[part] = values[holds] if isinstance(holds, int) else holds, otherwise
            values += lowered(g, step, values)
            if g.parts:
                recomputed.note(g, step, values, first)
            for number in here:
                if number in updates:
                    values[number] = chosen(number)
    g.scope = scope
    return results


def _outputs(text):
    """The numbers of its outputs' values."""
    return [int(line[len("out ") :]) for line in text.splitlines() if line.startswith("out ")]


def _constant(g, dtype, numbers, *sizes):
    """Numbers of the structure: one for all elements, or one for each."""
    shape, numbers = [int(size) for size in sizes], numbers.split(",")
    if len(numbers) == 1:
        return g.broadcast(g.scalar((int if dtype[0] in "iu" else float)(numbers[0]), dtype), shape)
    return g.cast(g.reshape(g.ints([int(number) for number in numbers]), shape), dtype)


def has_derivative(text):
    return "\nderivative|" in text


def has_loop(text):
    return any(f"\n{name}|" in each for each in (text, *texts_within(text)) for name in ("while", "loop"))


def lowered(g, step, values):
    """The results of a step, of the types that the tape says."""
    if step.name not in _TABLE:
        raise Error(f"'{step.name}' has no graph, so that nothing that depends on it can be compiled or differentiated")
    operands = [values[number] if number >= 0 else None for number in step.operands]
    results = _TABLE[step.name](g, step, *operands)
    results = results if isinstance(results, list) else [results]
    return [g.cast(result, dtype) for result, (dtype, _) in zip(results, step.types, strict=True)]


# ---- element by element


def _same(name, ours, **attributes):
    lowers(name)(lambda g, step, *operands: g.op(ours, list(operands), **attributes))


for _name in (
    "abs acos acosh add asin asinh atan atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil cos cosh div equal erf exp floor greater less log log1p "
    "matmul max min mul neg not pow round sigmoid sign sin sinh sqrt sub tan tanh where xor and or isnan isinf greater_or_equal less_or_equal det"
).split():
    _same(_name, _name)


@lowers("identity")
def _identity(g, step, x):
    return recomputed.identity(g, x)


@lowers("cast")
def _cast(g, step, x):
    return g.cast(x, step.dtype)


@lowers("bit_shift")
def _bit_shift(g, step, x, by):
    return g.op("bit_shift", [x, by], left=bool(step.attributes["left"]))


@lowers("square")
def _square(g, step, x):
    return g.op("mul", [x, x])


@lowers("reciprocal")
def _reciprocal(g, step, x):
    return g.op("div", [g.scalar(1, x.dtype), x])


@lowers("exp2")
def _exp2(g, step, x):
    return g.op("pow", [g.broadcast(g.scalar(2, x.dtype), x.shape), x])


@lowers("expm1")
def _expm1(g, step, x):
    return formulas.expm1(g, x)


@lowers("log2", "log10")
def _log_of(g, step, x):
    return g.op("mul", [g.op("log", [x]), g.scalar(1 / math.log(2 if step.name == "log2" else 10), x.dtype)])


@lowers("logaddexp")
def _logaddexp(g, step, a, b):
    """The larger, and what the other adds to it."""
    gap = g.op("neg", [g.op("abs", [g.op("sub", [a, b])])])
    total = g.op("add", [g.op("max", [a, b]), g.op("log1p", [g.op("exp", [gap])])])
    return g.where(g.op("equal", [a, b]), g.op("add", [a, g.scalar(math.log(2), a.dtype)]), total)


@lowers("hypot")
def _hypot(g, step, a, b):
    return g.op("sqrt", [g.op("add", [g.op("mul", [a, a]), g.op("mul", [b, b])])])


@lowers("atan2")
def _atan2(g, step, y, x):
    return formulas.atan2(g, y, x)


@lowers("cbrt")
def _cbrt(g, step, x):
    return g.op("mul", [g.op("sign", [x]), g.op("pow", [g.op("abs", [x]), g.scalar(1 / 3, x.dtype)])])


@lowers("trunc")
def _trunc(g, step, x):
    return g.op("mul", [g.op("sign", [x]), g.op("floor", [g.op("abs", [x])])])


@lowers("floor_divide")
def _floor_divide(g, step, a, b):
    if a.is_float:
        return g.op("floor", [g.op("div", [a, b])])
    return g.op("div", [g.op("sub", [a, g.op("mod", [a, b])]), b])


@lowers("remainder")
def _remainder(g, step, a, b):
    return g.op("mod", [a, b])


@lowers("copysign")
def _copysign(g, step, x, sign):
    size = g.op("abs", [x])
    return g.where(formulas.is_negative(g, sign), g.op("neg", [size]), size)


@lowers("isfinite")
def _isfinite(g, step, x):
    return g.op("not", [g.op("or", [g.op("isnan", [x]), g.op("isinf", [x])])])


@lowers("logical_not")
def _logical_not(g, step, x):
    return g.op("not", [g.cast(x, "bool")])


@lowers("not_equal")
def _not_equal(g, step, a, b):
    return g.op("not", [g.op("equal", [a, b])])


@lowers("signbit")
def _signbit(g, step, x):
    return formulas.is_negative(g, x) if x.is_float else g.op("less", [x, g.scalar(0, x.dtype)])


@lowers("conj", "real")
def _unchanged(g, step, x):
    return x


# ---- along dimensions


def _reduction(name, ours):
    @lowers(name)
    def lower(g, step, x):
        return g.reduce(ours, x, step.attributes["axes"], bool(step.attributes["keepdims"]))


for _name, _ours in {"sum": "reduce_sum", "prod": "reduce_prod", "amax": "reduce_max", "amin": "reduce_min"}.items():
    _reduction(_name, _ours)


@lowers("any", "all", "count_nonzero")
def _truths(g, step, x):
    truths = g.cast(g.cast(x, "bool"), "i64")
    name = {"any": "reduce_max", "all": "reduce_min", "count_nonzero": "reduce_sum"}[step.name]
    return g.reduce(name, truths, step.attributes["axes"], bool(step.attributes["keepdims"]))


@lowers("argmax", "argmin")
def _place(g, step, x):
    return g.op(f"arg_{step.name[3:]}", [x], axis=step.attributes["axis"], keepdims=bool(step.attributes.get("keepdims", 0)))


@lowers("cumulative_sum", "cumulative_prod")
def _running(g, step, x):
    return g.op("cumsum" if step.name == "cumulative_sum" else "cumprod", [x], axis=step.attributes["axis"])


# ---- views and writes


@lowers("reshape")
def _reshape(g, step, x):
    return g.reshape(x, step.shape)


@lowers("broadcast")
def _broadcast(g, step, x):
    return g.broadcast(x, step.shape)


@lowers("transpose")
def _transpose(g, step, x):
    return g.transpose(x, step.attributes["permutation"])


@lowers("slice")
def _slice(g, step, x):
    starts, steps = list(step.attributes["starts"]), list(step.attributes["steps"])
    for axis, by in enumerate(steps):
        if by < 0 and starts[axis] == -1:
            x = g.op("reverse", [x], axes=[axis])
            starts[axis], steps[axis] = 0, 1
        elif by < 0:
            rows = g.op("mul", [g.iota([step.shape[axis]], 0), g.scalar(by, "i64")])
            x = g.op("gather", [x, g.op("add", [rows, g.scalar(starts[axis], "i64")])], axis=axis)
            starts[axis], steps[axis] = 0, 1
    return g.slice(x, starts, step.shape, steps)


@lowers("concat")
def _concat(g, step, *parts):
    return g.op("concat", list(parts), axis=step.attributes["axis"])


@lowers("gather")
def _gather(g, step, x, places):
    return g.op("gather", [x, places], axis=0)


@lowers("gather_elements")
def _gather_elements(g, step, x, places):
    return g.op("gather_elements", [x, places], axis=step.attributes["axis"])


@lowers("argsort")
def _argsort(g, step, x):
    """NaN comes last either way, and equal elements in the order in which they are."""
    key = g.cast(x, "i32") if x.dtype == "bool" else x
    if step.attributes["descending"]:
        key = g.op("neg" if key.dtype[0] in "fb" else "bitwise_not", [key])
    size = x.shape[-1]
    count = g.ints([size]) if isinstance(size, int) else g.op("shape", [x], start=x.rank - 1, end=x.rank)
    return g.reshape(g.ops("topk", [key, count], axis=x.rank - 1, largest=False, sorted=True)[1], x.shape)


@lowers("searchsorted")
def _searchsorted(g, step, x, values):
    """How many elements of x come before each of the values; NaN is the last of all."""
    each = g.reshape(values, (*values.shape, 1))
    before = g.op("less_or_equal" if step.attributes["right"] else "less", [x, each])
    if x.dtype[0] in "fb" and x.dtype != "bool":
        unordered = g.op("not", [g.op("equal", [each, each])])
        before = g.op("or", [before, unordered if step.attributes["right"] else g.op("and", [unordered, g.op("equal", [x, x])])])
    return g.reduce("reduce_sum", g.cast(before, "i64"), [values.rank])


@lowers("scatter_rows")
def _scatter_rows(g, step, x, places, updates):
    return g.op("scatter_nd", [x, places, updates])


@lowers("put_slice")
def _put_slice(g, step, x, part):
    """x, with the elements of a slice replaced: what lies before, the part, and what lies behind, dimension by dimension."""
    starts, steps = step.attributes["starts"], step.attributes["steps"]
    cut = [axis for axis in range(x.rank) if x.shape[axis] != part.shape[axis] or starts[axis] or steps[axis] != 1]
    return _put(g, x, part, starts, steps, cut)


def _put(g, x, part, starts, steps, cut):
    if not cut:
        return part
    axis, rest = cut[0], cut[1:]
    start, step = starts[axis], steps[axis]
    if rest:  # of the rows that the slice takes of this dimension, what it takes of the others
        shape = list(x.shape)
        shape[axis] = part.shape[axis]
        rows = g.slice(x, [start if i == axis else 0 for i in range(x.rank)], shape, [step if i == axis else 1 for i in range(x.rank)])
        part = _put(g, rows, part, starts, steps, rest)
    if step != 1 or not isinstance(x.shape[axis], int) or not isinstance(part.shape[axis], int):
        return _put_at_places(g, x, part, axis, start, step)
    parts, end = [part], start + part.shape[axis]
    if start:
        parts.insert(0, _rows(g, x, axis, 0, start))
    if end != x.shape[axis]:
        parts.append(_rows(g, x, axis, end, x.shape[axis] - end))
    return parts[0] if len(parts) == 1 else g.op("concat", parts, axis=axis)


def _rows(g, x, axis, start, count):
    shape = list(x.shape)
    shape[axis] = count
    return g.slice(x, [start if i == axis else 0 for i in range(x.rank)], shape)


def _put_at_places(g, x, part, axis, start, step):
    """Row i of the result is row (i - start) / step of the part where there is such a row, else x's own."""

    def number(value):
        return g.scalar(value, "i64")

    def size_of(value):
        return g.reshape(g.op("shape", [value], start=axis, end=axis + 1), [])

    own = g.iota([x.shape[axis]], 0)
    row = g.op("div", [g.op("sub", [own, number(start)]), number(step)])
    is_there = g.op("equal", [g.op("add", [g.op("mul", [row, number(step)]), number(start)]), own])
    for truth in (g.op("greater_or_equal", [row, number(0)]), g.op("less", [row, size_of(part)])):
        is_there = g.op("and", [is_there, truth])
    place = g.where(is_there, g.op("add", [row, size_of(x)]), own)
    return g.op("gather", [g.op("concat", [x, part], axis=axis), place], axis=axis)


# ---- derivatives


@lowers("derivative")
def _derivative(g, step, *operands):
    """Operands are the values that it is of, those that it is by, and a change for each of the latter, or of the former where it goes backward.
    """
    count, by = step.attributes["of"], step.attributes["by"]
    of, by, changes = operands[:count], operands[count : count + by], operands[count + by :]
    parts = g.parts[g.scope :]
    return recomputed.tangents(g, of, by, changes, parts) if step.attributes["forward"] else recomputed.gradients(g, of[0], by, changes[0], parts)


@lowers("checkpoint")
def _checkpoint(g, step, *operands):
    """What a text computes of the first operands is the others, which derivatives do not pass: they compute it again."""
    text, count = decoded(step.attributes["text"]), len(operands) - len(step.types)
    results = [recomputed.identity(g, x) for x in operands[count:]]
    g.parts.append(recomputed.Part(results, operands[:count], lambda given: inlined(g, text, given)))
    return results


@lowers("graph")
def _operator(g, step, *operands):
    """An operator of the graph by its name, with its own attributes."""
    attributes = dict(step.attributes)
    name, flags = attributes.pop("operator"), attributes.pop("flags", "").split()
    for name_of_sizes in ("fixed", "fixed_sizes"):
        attributes.pop(name_of_sizes, None)
    given = {key: bool(value) if key in flags else value for key, value in attributes.items()}
    return g.ops(name, list(operands), **{key: ElementType(value) if key == "to" else value for key, value in given.items()})


@lowers("program")
def _program(g, step, *operands):
    """Another tape's text.

    Its derivatives are by its inputs alone. One of these may have been computed of another here, which that tape knew nothing of; so they are values of
    their own.
    """
    text = decoded(step.attributes["text"])
    if has_derivative(text):
        operands = [recomputed.identity(g, x) for x in operands]
    return inlined(g, text, list(operands), step.updates)


# ---- control flow


def _body(step, name):
    return decoded(step.attributes[name])


@lowers("branch")
def _branch(g, step, condition, *operands):
    """One of two texts, by a truth."""
    g.builder.begin_if(condition.number, g.location)
    for side in ("then", "otherwise"):
        results = inlined(g, _body(step, side), [operands[place] for place in step.attributes[side + "_sources"]])
        results = [g.reshape(x, shape) for x, (_, shape) in zip(results, step.types)]
        numbers = g.builder.end([x.number for x in results])
    return [g.value(number) for number in numbers]


@lowers("while")
def _while(g, step, first, trips, *operands):
    """A text that is repeated while its first result holds, and so many times at most. It is given the iteration's number, what it carries, the
    others.
    """
    count = step.attributes["carried"]
    initial, others = operands[:count], operands[count:]
    arguments = g.builder.begin_loop(trips and trips.number, first and first.number, [x.number for x in initial], g.location)
    turn, condition, *carried = (g.value(number) for number in arguments)
    given = [turn, *carried, *others]
    goes_on, *after = inlined(g, _body(step, "body"), [given[place] for place in step.attributes["sources"]])
    after = [g.reshape(x, before.shape) for x, before in zip(after, initial)]
    numbers = g.builder.end([x.number for x in [goes_on if step.attributes["stops"] else condition, *after]])
    return [g.value(number) for number in numbers]


@lowers("loop")
def _loop(g, step, *operands):
    """The body's text, once for each row."""
    body = decoded(step.attributes["body"])
    carried, rows, sources = (step.attributes[name] for name in ("carried", "rows", "sources"))
    trips = g.reshape(g.op("shape", [operands[carried]], start=0, end=1), [])
    initial = operands[:carried]
    arguments = [g.value(number) for number in g.builder.begin_loop(trips.number, None, [x.number for x in initial], g.location)]
    turn, condition = arguments[:2]
    given = arguments[2:] + [g.op("gather", [x, turn], axis=0) for x in operands[carried : carried + rows]] + list(operands[carried + rows :])
    results = inlined(g, body, [given[place] for place in sources])
    kept = [g.reshape(x, before.shape) for x, before in zip(results, initial)]
    numbers = [x.number for x in [condition, *kept, *results[carried:]]]
    return [g.value(number) for number in g.builder.end(numbers)]
