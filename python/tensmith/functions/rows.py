"""What a loop of the graph goes over: ranges, rows of tensors, and lists of numbers or of tensors of one shape, which are joined before the graph runs."""

import operator

from .. import _eager
from .. import numpy as tnp
from ..numpy.creation import asarray
from ..numpy.dtypes import Tensor
from . import indexing
from .ingraph import LARGEST
from .regions import Choice
from .scalars import Range, Traced, plain


def rows_of(calls, x):
    """How many values a loop of the graph goes over, and what gives that of a turn; None where they are not the graph's."""
    r = calls.recording
    if isinstance(x, (range, Range)):
        return _range_of(calls, *(x.bounds if isinstance(x, Range) else (x.start, x.stop, x.step)))
    if isinstance(x, Tensor) and x.ndim and x.shape[0]:
        return x.shape[0], lambda turn: _row(calls, x, turn, None, x)
    if (isinstance(x, tuple) or isinstance(x, list) and not r.is_outside(x)) and x and isinstance(x[0], Tensor) and all(_is_like(each, x[0]) for each in x):
        rows = calls.native(tnp.stack, [list(x)], {})
        return len(x), lambda turn: _row(calls, rows, turn, None, tuple(x))
    if type(x) is not list or not r.is_outside(x) or id(x) in r.admitted or id(x) in r.tails or not x:
        return None
    code, what = r.known(x)[1:]
    kind = type(x[0])
    if kind not in (int, float) and not isinstance(x[0], Tensor) or any(not _is_like(each, x[0]) for each in x):
        return None
    like = r.residual.constant(x[0] if kind in (int, float) else _shell(x[0]))
    r.assume(f"{r.residual.constant(_are_like)}({code}, {like})", "type", f"{what} is a list of {kind.__name__}s of one type and shape")
    most = capacity(len(x))
    r.assume(f"len({code}) <= {most}", "trip count", f"{what} has at most {most} elements")
    if kind not in (int, float):
        r.joined.append((code, x))
    rows = r.made(f"{r.residual.constant(_joined)}({code}, {most})", _joined(x, most))
    count = Traced(len(x), r.residual.let(f"len({code})"), 0)
    return count, lambda turn: _row(calls, rows, turn, kind, x)


def _range_of(calls, *bounds):
    r = calls.recording
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if any(isinstance(each, Traced) and each.stage for each in (start, stop, step)):
        if isinstance(step, Traced) or step != 1:
            return None
        count = calls.operate(operator.sub, stop, start)
    elif any(isinstance(each, Traced) for each in (start, stop, step)):
        count = calls.pure(_length_of_range, [start, stop, step])
    else:
        count = _length_of_range(start, stop, step)

    def at(turn):
        places = r.in_graph(turn) * r.in_graph(step) + r.in_graph(start)
        return r.number_of(places, plain(start))

    return count, at


def _row(calls, rows, turn, kind, origin):
    """origin: the tensor that the row is a view of, or the tensors of which it is one; a list where the caller has them."""
    r = calls.recording
    row = indexing.item(calls, rows, r.in_graph(turn))
    return r.number_of(row, kind(r.quietly(lambda: row.item()))) if kind in (int, float) else r.choose(Choice(row, None, origin))


def capacity(count):
    """How many rows there is room for, so that the graph has one size for many lengths: a power of two."""
    return max(16, 1 << (count - 1).bit_length())


def _joined(values, most):
    """The rows, and as many more as there is room for."""
    if isinstance(values[0], Tensor):
        return tnp.stack([*values, *values[:1] * (most - len(values))])
    return asarray([*values, *values[:1] * (most - len(values))])


def _length_of_range(start, stop, step):
    return len(range(start, stop, step))


def _shell(x):
    """A tensor of the type and shape of x."""
    return _eager.broadcast_to(_eager.full([], 0, x.dtype), list(x.shape))


def _is_like(x, like):
    if type(x) is not type(like) or type(x) is int and abs(x) >= LARGEST:
        return False
    return not isinstance(like, Tensor) or x.dtype == like.dtype and x.shape == like.shape and not x.requires_grad


def _are_like(values, like):
    return len(values) > 0 and all(_is_like(each, like) for each in values)
