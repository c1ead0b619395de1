"""Derivatives of Python functions of tensors, and of what is computed between `with record():` and `backward()`.

The function runs as it is, in Python; what it does to tensors is recorded, compiled together with its derivative, and kept by its structure,
so that the same program on other numbers, or of other sizes, compiles nothing. Branches and loops of Python are taken as they fell.

Where derivatives are taken within one another, each recording that goes on gets the derivative as a step of its own, and can differentiate
that again.
"""

import contextlib
import functools

from . import _eager
from .numpy import dtypes
from .numpy.creation import asarray, zeros_like
from .numpy.dtypes import Tensor, beside
from .recorded import program_of
from .recorded.nested import flattened, rebuilt
from .recorded.texts import encoded, with_fixed_sizes


# ---- nested arguments


def _as_tensors(tree, what):
    """Floats as tensors of one number, which derivatives can be by."""
    if isinstance(tree, float):
        return asarray(tree)
    if isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        return type(tree)(_as_tensors(each, what) for each in tree)
    if isinstance(tree, dict):
        return {name: _as_tensors(each, what) for name, each in tree.items()}
    if isinstance(tree, Tensor) and tree.dtype not in dtypes.REAL_FLOATING:
        raise TypeError(f"derivatives are by tensors of floats, and {what} has one of {tree.dtype}; convert it by astype")
    return tree


# ---- recordings


class Recorded:
    """A function's run, by which derivatives may be taken as often as one likes.

    tapes: for each tape, the run's own first, the numbers of the values that derivatives are of and by.
    """

    def __init__(self, function, arguments, wanted):
        self.tape = _eager.tape(False)
        outer = _eager.recording()
        self.by = wanted
        watched = [(self.tape, [])] + [(tape, []) for tape in outer]
        self.tape.begin()
        try:
            for tensor in wanted:
                for tape, numbers in watched:
                    numbers.append(tape.watch(tensor, tape is self.tape))
            self.result = function(*arguments)
        finally:
            self.tape.end()
        self._watched = watched

    def of(self, tensors):
        """Fixes what derivatives are of: the tensors as they are now."""
        self.results = tensors
        self._values = [(tape, [tape.read(tensor) for tensor in tensors], by) for tape, by in self._watched]
        return self

    def derivative(self, is_forward, changes, of=None):
        """Tangents of the results along `changes`, or gradients of result `of` by what was wanted, whose cotangent is changes[0]."""
        results = self.results if of is None else [self.results[of]]
        types = [(x.dtype, list(x.shape)) for x in (results if is_forward else self.by)]
        known = [(tape, numbers if of is None else [numbers[of]], by) for tape, numbers, by in self._values]
        return taken(known, is_forward, changes, types)


def taken(known, is_forward, changes, types):
    """Derivatives by the first tape of `known`, told to the others that still record. `known`: of each tape the values of and by."""
    attributes = {"forward": is_forward}
    results = None
    for place, (tape, of, by) in enumerate(known):
        if place and tape not in _eager.recording():
            continue
        numbers = [-1 if change is None else tape.read(change) for change in changes]
        first = tape.add("derivative", attributes | {"of": len(of), "by": len(by)}, of + by + numbers, types)
        outputs = range(first, first + len(types))
        if place:
            for result, number in zip(results, outputs):
                tape.bind(result, number)
        else:
            text, inputs, types = tape.program(list(outputs))
            results = program_of(text).run(inputs, types)
    told = [tape for tape, _, _ in known]
    for tape in _eager.recording():
        if tape not in told and any(change is not None and tape.is_active(change) for change in changes):
            raise RuntimeError("a derivative of what was recorded before is differentiated again; take it within the same recording")
    return results


def _numbers_of(argnums):
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def _record(function, arguments, argnums, named=None):
    """The run of a function, and the arguments that are wanted as they were passed on."""
    arguments = list(arguments)
    for number in argnums:
        if not -len(arguments) <= number < len(arguments):
            raise ValueError(f"there is no argument {number} to differentiate by; there are {len(arguments)}")
        arguments[number] = _as_tensors(arguments[number], f"argument {number}")
    wanted = [arguments[number] for number in argnums]
    leaves = flattened(wanted, [])
    if not leaves:
        raise TypeError("the arguments to differentiate by hold no tensor and no float")
    # Copies: what the function has of the same tensors by other ways is none of its arguments.
    wanted = rebuilt(wanted, iter([_eager.copy(leaf) for leaf in leaves]))
    for number, tree in zip(argnums, wanted):
        arguments[number] = tree
    leaves = flattened(wanted, [])
    run = Recorded(lambda *args: function(*args, **(named or {})), arguments, leaves)
    return run, wanted


def _single(result, what):
    if not isinstance(result, Tensor) or result.size != 1:
        kind = f"a tensor of shape {result.shape}" if isinstance(result, Tensor) else type(result).__name__
        raise ValueError(f"{what} is of a function that gives one number, not {kind}; sum it up, or take vjp")
    if result.dtype not in dtypes.REAL_FLOATING:
        raise TypeError(f"{what} is of floats, and the function gives {result.dtype}")
    return result


# ---- functions of functions


def value_and_grad(function, argnums=0, *, has_aux=False):
    """A function that gives what `function` does, and its gradients by arguments `argnums` (one number: that gradient alone).

    The function gives one number, or with `has_aux` a pair of that and whatever else. Arguments may be tensors, floats, and lists, tuples and
    dicts with such inside; gradients have the same form.
    """
    numbers = _numbers_of(argnums)

    def call(*arguments, **named):
        run, wanted = _record(function, arguments, numbers, named)
        result = run.result[0] if has_aux else run.result
        run.of([_single(result, "a gradient")])
        seed = None if result.ndim == 0 else _eager.full(list(result.shape), 1, result.dtype)
        gradients = run.derivative(False, [seed])
        run.tape.release()
        gradients = rebuilt(wanted, iter(gradients))
        return run.result, gradients[0] if isinstance(argnums, int) else tuple(gradients)

    return call


def grad(function, argnums=0, *, has_aux=False):
    """A function that gives the gradients alone, with `has_aux` a pair of them and what else there is; see value_and_grad."""
    both = value_and_grad(function, argnums, has_aux=has_aux)

    def call(*arguments, **named):
        result, gradients = both(*arguments, **named)
        return (gradients, result[1]) if has_aux else gradients

    return call


def vjp(function, *arguments):
    """What the function gives, and a function of cotangents in its form, which gives cotangents of the arguments, a tuple."""
    run, wanted = _record(function, arguments, range(len(arguments)))
    results = flattened(run.result, [])
    run.of(results)

    def pull(cotangent):
        changes = flattened(cotangent, [])
        if [change.shape for change in changes] != [result.shape for result in results]:
            raise ValueError("cotangents are of the form and the shapes of what the function gives")
        total = None
        for number, change in enumerate(changes):
            if results[number].dtype not in dtypes.REAL_FLOATING:
                continue
            part = run.derivative(False, [_eager.cast(change, results[number].dtype)], of=number)
            total = part if total is None else [a + b for a, b in zip(total, part)]
        if total is None:
            total = [zeros_like(x) for x in run.by]
        return tuple(rebuilt(wanted, iter(total)))

    return run.result, pull


def linearize(function, *arguments):
    """What the function gives, and a function of tangents, one for each argument, which gives its tangents."""
    run, wanted = _record(function, arguments, range(len(arguments)))
    results = flattened(run.result, [])
    run.of(results)

    def push(*tangents):
        changes = flattened(_as_tensors(list(tangents), "a tangent"), [])
        if [change.shape for change in changes] != [x.shape for x in run.by]:
            raise ValueError("tangents are of the form and the shapes of the arguments")
        changes = [_eager.cast(change, x.dtype) for change, x in zip(changes, run.by)]
        return rebuilt(run.result, iter(run.derivative(True, changes)))

    return run.result, push


def jvp(function, primals, tangents):
    """What the function gives at `primals`, and its derivative along `tangents`; both are tuples of arguments."""
    result, push = linearize(function, *primals)
    return result, push(*tangents)


def hvp(function, primals, tangents):
    """The Hessian of a function that gives one number, times `tangents`."""
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(function, argnums), primals, tangents)[1]


def hessian(function):
    """A function that gives the second derivatives of one number by its first argument, a tensor: of that one's shape twice."""

    def call(x, *rest):
        x = _as_tensors(x, "argument 0")
        gradient, push = linearize(lambda x: grad(function)(x, *rest), x)
        rows = []
        for number in range(x.size):
            direction = zeros_like(x)
            _eager.reshape(direction, [-1], None)[number] = 1
            rows.append(push(direction))
        from .numpy import manipulation

        if not rows:
            return _eager.full(list(x.shape + x.shape), 0, x.dtype)
        return manipulation.reshape(manipulation.stack(rows), x.shape + x.shape)

    return call


# ---- parts that are computed again


def checkpoint(function):
    """A function that does what `function` does. Derivatives compute it again, from its arguments and what else it reads, when they come to it: of what is computed
    within nothing is kept meanwhile, but its results are.

    A derivative is one program, which computes what it needs of the forward pass itself. So this is for its memory: of parts one behind the other each needs
    as much as it alone. In `ts.function` and `ts.coexecute` the function is a part of the whole program, as any.
    """

    @functools.wraps(function)
    def call(*arguments, **named):
        begun = begin_part()
        result = function(*arguments, **named)
        end_part(begun, result)
        return result

    return call


def begin_part():
    """The tapes that take derivatives, and the values that they begin the part with. A converted call knows nothing of parts (functions/calls.py)."""
    return [(tape, tape.next()) for tape in _eager.recording() if not tape.is_strict()]


def end_part(begun, result):
    for tape, first in begun:
        _keep(tape, first, flattened(result, []))


def _keep(tape, first, results):
    """The results are values that the tape has, from now on, and knows how to compute again: by its steps since the value `first`."""
    found = {}  # by the value; a view is of what is kept, or is what it was
    for x in results:
        if tape.is_active(x) and _eager.is_whole(x) and (number := tape.read(x)) >= first:
            found.setdefault(number, x)
    if not found:
        return
    text, operands = tape.part(first, list(found))
    types = [(x.dtype, list(x.shape)) for x in found.values()]
    begin = tape.add("checkpoint", with_fixed_sizes({"text": encoded(text)}), operands + [tape.watch(x, True) for x in found.values()], types)
    for i, x in enumerate(found.values()):
        tape.bind(x, begin + i)


# ---- the tape


@contextlib.contextmanager
def record():
    """What is computed within from tensors with `requires_grad` can be differentiated by `loss.backward()`, which adds to their `grad`."""
    for outer in _eager.recording():
        outer.renew_leaves()
    tape = _eager.tape(False)
    tape.keep_with_results()
    tape.begin()
    try:
        yield tape
    finally:
        tape.end()


def backward(loss, gradient=None, *, retain=False):
    """Adds the gradients of `loss` to `grad` of every tensor with `requires_grad` that it was computed of.

    gradient: the cotangent of a loss that is no single number. retain: what was recorded is kept, for another call.
    """
    tape = _eager.history(loss)
    if tape is None:
        raise RuntimeError("the tensor was not computed within `with record():` from a tensor with requires_grad")
    of = tape.read(loss)
    if gradient is None:
        _single(loss, "backward without a cotangent")
        gradient = None if loss.ndim == 0 else _eager.full(list(loss.shape), 1, loss.dtype)
    leaves = tape.leaves()
    known = [(tape, [of], [number for _, number in leaves])]
    for outer in _eager.recording():
        if outer is not tape:
            numbers = {id(leaf): outer.read(leaf) for leaf, _ in leaves}
            known.append((outer, [outer.read(loss)], [numbers[id(leaf)] for leaf, _ in leaves]))
    types = [(leaf.dtype, list(leaf.shape)) for leaf, _ in leaves]
    for (leaf, _), result in zip(leaves, taken(known, False, [gradient], types)):
        result = beside(result, leaf)
        leaf.grad = result if leaf.grad is None else leaf.grad + result
    if not retain:
        tape.release()


Tensor.backward = backward
