"""Operators that are programs of one step: those of the graph that eager tensors have no evaluation for, and loops whose body is recorded.

Each runs as a compiled program, and is a step of the tapes that record.
"""

from .. import _eager
from ..numpy.dtypes import Tensor
from .nested import flattened, rebuilt
from .programs import program_of
from .texts import encoded, with_fixed_sizes


def operator(name, operands, types, fixed=(), fixed_sizes=(), flags="", **attributes):
    """The results of a graph operator, of the `types` (element type, shape) given. An operand may be None.

    fixed: numbers of operands whose sizes are part of the structure, as a convolution's weights; fixed_sizes: sizes that are, wherever they stand; flags: names of attributes that are booleans.
    """
    attributes |= {"operator": name, "fixed": list(fixed), "fixed_sizes": list(fixed_sizes)}
    if flags:
        attributes["flags"] = flags
    return run("graph", attributes, operands, types)


def run(name, attributes, operands, types):
    """The results of a step, computed by a program of it alone, and told to the tapes that record."""
    attributes = with_fixed_sizes(attributes)
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
    recorded; the loop is compiled. So what it does must not depend on elements, which Python would have to read. Tensors may be indexed by tensors of integers.
    """
    carried, rows = list(carried), list(rows)
    if not rows:
        raise ValueError("scan goes over the rows of one tensor at least")
    counts = [x.shape[0] if x.ndim else None for x in rows]
    if None in counts or len(set(counts)) > 1:
        raise ValueError(f"scan goes over tensors of as many rows each, and these have shapes {[x.shape for x in rows]}")
    tape = _eager.tape(True)
    firsts = [_eager.copy(x) for x in carried] + [_eager.copy(x[0]) if counts[0] else _eager.full(list(x.shape[1:]), 0, x.dtype) for x in rows]
    watched = [tape.watch(first, True) for first in firsts]
    from ..functions.indexing import by_the_graph

    tape.begin()
    try:
        with by_the_graph():
            last, results = body(firsts[: len(carried)], firsts[len(carried) :])
    finally:
        tape.end()
    for before, after in zip(carried, last, strict=True):
        if before.shape != after.shape or before.dtype != after.dtype:
            raise ValueError(f"a carried tensor is {before.dtype}{before.shape} before and {after.dtype}{after.shape} after an iteration")
    types = [(x.dtype, list(x.shape)) for x in last] + [(x.dtype, [counts[0], *x.shape]) for x in results]
    values = [tape.read(x) for x in [*last, *results]]
    text, inputs, _ = tape.program(values)
    # By their values: the body may have written to its own tensors, whose inputs are copies then.
    places, others = [], []
    for value, each in zip(tape.operands(values), inputs, strict=True):
        if value not in watched:
            others.append(each)
        places.append(watched.index(value) if value in watched else len(firsts) + len(others) - 1)
    attributes = {"body": encoded(text), "carried": len(carried), "rows": len(rows), "sources": places}
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
    """A function that does what `function` does for each example, along axes of its arguments.

    in_axes: an axis for all arguments, or a list with one for each: of all tensors in it, where it is a list, a tuple or a dict; None: the argument is the same for
    all examples. Named arguments are given as they are. out_axes: where the results have the examples, likewise.

    The function runs once, on the first example, and its recording is a loop over all. It must not read elements: use where instead of if. Tensors may be
    indexed by tensors of integers.
    """

    def call(*arguments, **named):
        axes = _axes("in_axes", in_axes, len(arguments), "arguments")
        arguments = [argument if axis is None else _tensors(argument) for argument, axis in zip(arguments, axes)]
        rows = [_moved("in_axes", x, axis, 0) for argument, axis in zip(arguments, axes) if axis is not None for x in flattened(argument, [])]
        if not rows:
            raise ValueError("vmap needs a tensor with an axis of examples among its arguments")
        if len(sizes := sorted({x.shape[0] for x in rows})) > 1:
            raise ValueError(f"vmap goes over axes of one size, and these have sizes {', '.join(map(str, sizes))}")
        form = []

        def body(_, examples):
            examples = iter(examples)
            given = [argument if axis is None else rebuilt(argument, examples) for argument, axis in zip(arguments, axes)]
            form.append(function(*given, **named))
            if not (leaves := flattened(form[0], [])):
                raise TypeError(f"the function that vmap is of gives tensors, or lists, tuples and dicts of them, and this one gives a {type(form[0]).__name__}")
            return [], leaves

        _, results = scan(body, [], rows)
        (result,), results = form, iter(results)
        if isinstance(out_axes, int):
            return rebuilt(result, (_moved("out_axes", x, 0, out_axes) for x in results))
        if not isinstance(result, (list, tuple)):
            raise ValueError("out_axes is a list, and the function gives one result")
        parts = zip(result, _axes("out_axes", out_axes, len(result), "results"))
        moved = (rebuilt(part, iter([_moved("out_axes", next(results), 0, axis) for _ in flattened(part, [])])) for part, axis in parts)
        return type(result)(*moved) if hasattr(result, "_fields") else type(result)(moved)

    return call


def _axes(name, given, count, what):
    if given is None or isinstance(given, int):
        return [given] * count
    given = list(given)
    if len(given) != count:
        raise ValueError(f"{name} has {len(given)} axes for {count} {what}")
    if any(not (isinstance(axis, int) or axis is None and name == "in_axes") for axis in given):
        raise ValueError(f"{name} is an axis, or a list with an axis{' or None' if name == 'in_axes' else ''} for each of the {what}")
    return given


def _moved(name, x, axis, to):
    from ..numpy.manipulation import moveaxis

    if not all(-x.ndim <= each < x.ndim for each in (axis, to)):
        raise ValueError(f"{name} has axis {axis or to}, and a tensor has shape {x.shape}")
    return moveaxis(x, axis, to)


def _tensors(tree):
    """Arrays of NumPy's as tensors."""
    if isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        return type(tree)(map(_tensors, tree))
    if isinstance(tree, dict):
        return {name: _tensors(each) for name, each in tree.items()}
    from ..numpy.creation import asarray

    return asarray(tree) if hasattr(tree, "__array__") and not isinstance(tree, Tensor) else tree
