"""Recursion over data structures as one loop of the graph, the same for all forms.

    def state(self, tree):
        if tree.is_leaf:                                                  case 0: children: none,                   numbers: tree.word
            return self.words.weight[tree.word]
        return tanh(self.joined(concat([self.state(tree.left), ...        case 1: children: tree.left, tree.right,  numbers: none

What the function does for one object is recorded once for each way through it that Python's side decides, a case: its assumptions, the objects that it calls itself
with, and the numbers that it reads become a function of Python, and what it does to tensors a branch of the graph. A call walks the structure by
these, children first, which gives arrays: each object's case, its children's places, its numbers. The graph is a loop over them that
keeps all results.

Invariant: a case's code names that object alone, and what is outside of the recursion; whatever else it would need has no conversion.
Source: JANUS (Jeong et al., NSDI 2019, section 4.2.1) has functions of the graph that call themselves; the arrays are as in Looks et al., "Deep
Learning with Dynamic Computation Graphs", ICLR 2017, but in the order of the walk instead of by depth.
"""

import operator as operator_module

import numpy

from .. import _eager
from .. import numpy as tnp
from ..numpy.creation import asarray
from ..numpy.dtypes import Tensor
from ..recorded.operators import operator
from .frames import Interpreted
from .recording import CONSTANTS, is_plain_class
from .regions import Choice, Region
from .ingraph import LARGEST
from .residual import Scope
from .rows import capacity
from .scalars import NotConvertible, Traced

_MOST_CASES = 8


class Recursion:
    """One that is being converted. `site`: the function's syntax tree."""

    def __init__(self, calls, site, run, arguments, place):
        self.calls, self.recording, self.site, self.run, self.place = calls, calls.recording, site, run, place
        self.arguments = arguments
        self.cases, self.result, self.child, self.form = [], None, None, None

    # ---- finding the cases

    def find(self, x):
        """The cases of an object and of all below it; tensors as they are computed for it, which stand for any object's."""
        for case in self.cases:
            found = self.recording.residual.scope_function(case.scope)(x)
            if found is not None:
                for child in found[0]:
                    self.find(child)
                return self.result
        case = Case(self.recording, x)
        with Region(self.recording, self.site) as region:
            values = self._flat(self._body(case, self.find))
            self._check_made(region, values)
            values = [self.recording.quietly(lambda x=x: _eager.copy(x)) for x in values]
        if not any(self.recording.residual.scope_function(each.scope)(x) is not None for each in self.cases):  # which were found below it
            self.cases.append(case)
        if len(self.cases) > _MOST_CASES:
            raise NotConvertible("a recursion has more cases than are converted")
        self.result = self.result or values
        if [(a.shape, a.dtype) for a in values] != [(a.shape, a.dtype) for a in self.result]:
            raise NotConvertible("a recursion's results differ in shape or type")
        return self.result

    def _check_made(self, region, values):
        """All that the function gives is of its own, as the loop's results are."""
        for i, x in enumerate(values):
            if not region.is_made_within(x) or any(x.shares_memory(each) for each in values[:i]):
                raise NotConvertible("a recursion gives a tensor that was there before, or one twice")

    def _body(self, case, called):
        before = self.child
        count = [0]

        def child(x):
            if count[0] == len(case.children):
                case.children.append(x)
                case.scope.children.append(self._code_of(x))
            count[0] += 1
            values = called(x) if called == self.find else called(count[0] - 1)
            values = [self.recording.quietly(lambda x=x: _eager.copy(x)) for x in values] if called == self.find else values
            return self._rebuilt([self.recording.choose(Choice(each, None, [])) for each in values])

        self.child = child
        try:
            with self.recording.of_case(case):
                return self.run([*self.arguments[: self.place], case.object, *self.arguments[self.place + 1 :]])
        finally:
            self.child = before

    def _code_of(self, x):
        if x is None:
            return self.recording.residual.constant(x)
        if not is_structure(x, self.recording):
            raise NotConvertible(f"a function calls itself on a {type(x).__name__}")
        return self.recording.known(x)[1]

    def call(self, arguments):
        """The function calls itself."""
        others = [each for i, each in enumerate(arguments) if i != self.place]
        for ours, theirs in zip(others, [each for i, each in enumerate(self.arguments) if i != self.place], strict=True):
            if ours is not theirs and not (type(ours) in CONSTANTS and type(ours) is type(theirs) and ours == theirs):
                raise NotConvertible("a recursion's other arguments change on the way")
        return self.child(arguments[self.place])

    # ---- results

    def _flat(self, x):
        self.form = type(x)
        parts = list(tuple.__iter__(x)) if isinstance(x, tuple) else [x]
        if not all(isinstance(each, Tensor) for each in parts):
            raise NotConvertible("a recursion gives what are no tensors")
        return parts

    def _rebuilt(self, values):
        return tuple.__new__(self.form, values) if issubclass(self.form, tuple) else values[0]

    # ---- the loop

    def loop(self, root):
        """What the function gives for the structure."""
        r, residual = self.recording, self.recording.residual
        code = r.known(root)[1]
        widths = tuple(max(1, *(len(codes) for codes in column)) for column in zip(*((case.scope.children, *case.scope.rows) for case in self.cases)))
        functions = [residual.scope_function(case.scope) for case in self.cases]
        most = capacity(_walk(functions, root, widths, 0)[-1])
        walked = residual.walk([case.scope for case in self.cases], code, _walk, most)
        r.assume(f"{walked}[-1] <= {most}", "trip count", f"a structure has at most {most} objects")
        found = _walk(functions, root, widths, most)
        arrays = [r.made(f"{residual.constant(asarray)}({walked}[{i}])", asarray(each)) for i, each in enumerate(found[:-1])]
        self.kinds, self.children, self.integers, self.floats = arrays
        count = Traced(found[-1], residual.let(f"{walked}[-1]"), 0)
        names = {}
        for i, like in enumerate(self.result):
            zeros = residual.constant(_zeros)
            k = residual.constant((like.shape, like.dtype))
            names[i] = r.made(f"{zeros}({most}, *{k})", _zeros(most, like.shape, like.dtype))
        self.calls.interpreter.control.loop(self.site, True, lambda turn: self._iteration(names, turn), count)
        last = self.calls.operate(operator_module.sub, count, 1)
        return self._rebuilt([self._at(names[i], r.in_graph(last)) for i in names])

    def _at(self, x, place):
        (row,) = operator("gather", [x, place], [(x.dtype, list(x.shape[1:]))], axis=0)
        return row

    def _iteration(self, names, turn):
        r = self.recording
        place = r.in_graph(turn)
        kind = r.number_of(self._at(self.kinds, place), 0)
        results = self._either(0, kind, names, place)
        for i, value in enumerate(results):
            r.note_name(names, i, names)
            update = tnp.reshape(value, (1, *value.shape))
            (names[i],) = operator("scatter_nd", [names[i], tnp.reshape(place, (1, 1)), update], [(names[i].dtype, list(names[i].shape))])
        return True

    def _either(self, number, kind, names, place):
        """The results of the case, of those from `number` on, that the object has."""
        case = self.cases[number]

        def side():
            children = self._at(self.children, place)
            case.row_at = lambda is_float, column: tnp.reshape(self._at(self.floats if is_float else self.integers, place)[column : column + 1], ())
            return tuple(self._flat(self._body(case, lambda i: [self._at(names[j], children[i]) for j in names])))

        if number == len(self.cases) - 1:
            return side()
        is_this = self.calls.operate(operator_module.eq, kind, number)
        return self.calls.interpreter.control.fork(is_this, [side, lambda: self._either(number + 1, kind, names, place)], self.site)


class Case:
    """object: of which it was recorded; children: those that the function was called with for it; row_at: gives a number that the object has."""

    def __init__(self, recording, x):
        self.object, self.children, self.row_at = x, [], None
        self.scope = Scope(recording.residual.name("a"))
        recording.residual.scopes.append(self.scope)
        kind = recording.residual.constant(type(x))
        self.scope.lines.append(f"if type({self.scope.argument}) is not {kind}: return None")
        self.known = {} if x is None else {id(x): (x, self.scope.argument, f"a {type(x).__name__}")}
        self.cells = {}

    def row(self, value, code):
        """The tensor of a number that is read of the object."""
        is_float = isinstance(value, float)
        rows = self.scope.rows[is_float]
        if code not in rows:
            rows.append(code)
        if self.row_at is None:
            return asarray(value)
        return self.row_at(is_float, rows.index(code))


def is_structure(x, recording):
    from ..nn.module import Module

    return is_plain_class(type(x)) and recording.is_outside(x) and not isinstance(x, (Module, Interpreted, Tensor))


def _zeros(count, shape, dtype):
    return _eager.full([count, *shape], 0, dtype)


def _walk(cases, root, widths, most):
    """Arrays of the objects below the root and itself, children first: cases, children's places, integers, floats; with room for `most`. And how many there are.
    """
    kinds, columns = [], ([], [], [])  # children, integers, floats: object after object
    blanks = [(0,) * width for width in widths]

    def visit(x):
        for kind, case in enumerate(cases):
            found = case(x)
            if found is not None:
                break
        else:
            raise LookupError("an object of a kind that was not met before")
        below, *numbers = found
        places = [visit(each) for each in below]
        kinds.append(kind)
        for column, row, blank in zip(columns, (places, *numbers), blanks):
            column.extend(row)
            column.extend(blank[len(row) :])
        return len(kinds) - 1

    visit(root)
    count = len(kinds)
    room = max(count, most)
    if columns[1] and max(max(columns[1]), -min(columns[1])) >= LARGEST:
        raise OverflowError("an integer of an object has more than 62 bits")
    arrays = [_padded(column, width, room, dtype) for column, width, dtype in zip(columns, widths, ("int64", "int64", "float64"))]
    return numpy.array(kinds + [0] * (room - count)), *arrays, count


def _padded(numbers, width, room, dtype):
    """A row of so many numbers for each object, and rows of zeros."""
    result = numpy.zeros((room, width), dtype)
    result.ravel()[: len(numbers)] = numbers
    return result
