"""Operators that are programs of one step: those of the graph that eager tensors have no evaluation for, and loops whose body is recorded.

Each runs as a compiled program, and is a step of the tapes that record.
"""

from .. import _eager
from ..numpy.dtypes import Tensor
from .programs import program_of
from .texts import encoded


def operator(name, operands, types, fixed=(), flags="", **attributes):
    """The results of a graph operator, of the `types` (element type, shape) given. An operand may be None.

    fixed: numbers of operands whose sizes are part of the structure, as a convolution's weights; flags: names of attributes that are booleans.
    """
    attributes |= {"operator": name, "fixed": list(fixed)}
    if flags:
        attributes["flags"] = flags
    return run("graph", attributes, operands, types)


def run(name, attributes, operands, types):
    """The results of a step, computed by a program of it alone, and told to the tapes that record."""
    tape = _eager.tape(False)
    numbers = [-1 if x is None else tape.watch(x, True) for x in _apart(operands)]
    first = tape.add(name, attributes, numbers, types)
    text, inputs, types = tape.program(range(first, first + len(types)))
    results = program_of(text).run(inputs, types)
    tell(name, attributes, operands, results)
    return results


def tell(name, attributes, operands, results):
    """Tapes that depend on an operand record the step, whose results are there."""
    types = [(x.dtype, list(x.shape)) for x in results]
    for tape in _eager.recording():
        if any(x is not None and (tape.is_active(x) or x.requires_grad) for x in operands):
            numbers = [-1 if x is None else tape.read(x) for x in operands]
            first = tape.add(name, attributes, numbers, types)
            for i, result in enumerate(results):
                tape.bind(result, first + i)


def _apart(operands):
    """Each operand is watched once, on memory of its own."""
    seen = []
    for x in operands:
        if x is not None and any(x.shares_memory(other) for other in seen):
            x = _eager.copy(x)
        seen += [x] if x is not None else []
        yield x


def scan(body, carried, rows):
    """Calls `body(carried, row)` for each row of the tensors in `rows`, and gives the last carried tensors, and its other results stacked.

    The body gives a pair of lists of tensors: carried ones, of the same shapes and types, and results. It runs once, on the first rows, and is
    recorded; the loop is compiled. So what it does must not depend on elements, which Python would have to read.
    """
    carried, rows = list(carried), list(rows)
    if not rows or rows[0].shape[0] == 0:
        raise ValueError("scan goes over at least one row")
    if any(x.shape[0] != rows[0].shape[0] for x in rows):
        raise ValueError("the tensors that scan goes over have as many rows, each")
    tape = _eager.tape(True)
    firsts = [_eager.copy(x) for x in carried] + [_eager.copy(x[0]) for x in rows]
    for first in firsts:
        tape.watch(first, True)
    tape.begin()
    try:
        last, results = body(firsts[: len(carried)], firsts[len(carried) :])
    finally:
        tape.end()
    for before, after in zip(carried, last, strict=True):
        if before.shape != after.shape or before.dtype != after.dtype:
            raise ValueError(f"a carried tensor is {before.dtype}{before.shape} before and {after.dtype}{after.shape} after an iteration")
    text, inputs, _ = tape.program([tape.read(x) for x in [*last, *results]])
    places, others = sources(inputs, firsts)
    attributes = {"body": encoded(text), "carried": len(carried), "rows": len(rows), "sources": places}
    types = [(x.dtype, list(x.shape)) for x in last] + [(x.dtype, [rows[0].shape[0], *x.shape]) for x in results]
    outputs = run("loop", attributes, [*carried, *rows, *others], types)
    return outputs[: len(carried)], outputs[len(carried) :]


def sources(inputs, firsts):
    """For each input of the body the number of the operand that it is; and the operands behind the carried tensors and the rows."""
    places, others = [], []
    for each in inputs:
        place = next((i for i, first in enumerate(firsts) if first.shares_memory(each)), None)
        if place is None:
            place = len(firsts) + len(others)
            others.append(each)
        places.append(place)
    return places, others


def vmap(function, in_axes=0, out_axes=0):
    """A function that does what `function` does, for each example along the axes `in_axes` of its arguments (None: of none).

    The function runs once, on the first example, and its recording is a loop over all. It must not read elements: use where instead of if.
    """

    def call(*arguments):
        axes = [in_axes] * len(arguments) if in_axes is None or isinstance(in_axes, int) else list(in_axes)
        if len(axes) != len(arguments):
            raise ValueError(f"in_axes has {len(axes)} axes for {len(arguments)} arguments")
        mapped = [i for i, axis in enumerate(axes) if axis is not None]
        if not mapped:
            raise ValueError("vmap needs an axis of at least one argument")
        from ..numpy.manipulation import moveaxis

        rows = [moveaxis(arguments[i], axes[i], 0) for i in mapped]
        form = []

        def body(_, examples):
            given = list(arguments)
            for i, example in zip(mapped, examples):
                given[i] = example
            result = function(*given)
            form.append(result)
            return [], [result] if isinstance(result, Tensor) else list(result)

        _, results = scan(body, [], rows)
        results = [moveaxis(x, 0, out_axes) for x in results]
        return results[0] if isinstance(form[0], Tensor) else type(form[0])(results)

    return call
