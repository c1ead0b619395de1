"""Random programs of eager tensors: views, writes in place, indices, branches and loops of Python, whose derivatives differences tell.

A program is a function of two tensors that gives one number. It is smooth where it is drawn, or nearly everywhere.
"""

import random

import numpy

import tensmith.numpy as tnp

_UNARY = [
    tnp.sin, tnp.tanh, tnp.exp, lambda t: t * t, lambda t: tnp.sqrt(t * t + 1), tnp.atan, lambda t: tnp.maximum(t, 0.3),
    lambda t: tnp.logaddexp(t, t * 0.5), lambda t: tnp.expm1(t * 0.3), lambda t: -t, lambda t: tnp.clip(t, -2, 2),
    lambda t: tnp.where(t > 0.1, t, 2 * t),
]  # fmt: skip
_BINARY = [lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a / (b * b + 1), lambda a, b: tnp.hypot(a, b + 3)]
_REDUCTIONS = [tnp.sum, tnp.mean, tnp.max, tnp.std]
_SLICES = [lambda t: t[1:], lambda t: t[:-1], lambda t: t[::-1], lambda t: t[0], lambda t: t[..., None, 0], lambda t: t[-1]]


def _chosen(list_, part):
    return list_[int(part * len(list_))]


def _unary(v, w, b, c):
    return [_chosen(_UNARY, c)(tnp.clip(v, -3.0, 3.0))]


def _binary(v, w, b, c):
    fits = v.shape == w.shape or v.ndim == 0 or w.ndim == 0
    return [_chosen(_BINARY, c)(v, w)] if fits else [v * 0.5]


def _reduced(v, w, b, c):
    return [_chosen(_REDUCTIONS, c)(v, axis=int(b * v.ndim))]


def _sliced(v, w, b, c):
    return [_chosen(_SLICES, c)(v)] if v.shape[0] > 1 else []


def _written(v, w, b, c):
    if v.shape[0] < 2:
        return []
    z = v.copy()
    z[0] = z[1] * 2 if c < 0.3 else z[1] + 1.0
    if c > 0.6:
        z[1:] = z[:-1].copy()
    if c > 0.8:
        z[::2] *= 2
    return [z]


def _in_place(v, w, b, c):
    z = v * 1.0
    u = z[..., 0]
    u += 1.5
    u *= u.copy()
    z -= 0.2
    return [z, u]


def _through_views(v, w, b, c):
    if v.ndim != 2:
        return [tnp.concat([v, v * 2], axis=0)]
    z = v.copy()
    t = z.T
    t[0] *= 3
    r = z.reshape((-1,))
    r[1:3] = tnp.asarray([1.0, 2.0])
    return [z, t]


def _matrices(v, w, b, c):
    return [tnp.tanh(v @ v.T), v.T] if v.ndim == 2 else [tnp.broadcast_to(v, (2, *v.shape)) + 0.0, tnp.reshape(v, (-1,))]


def _indexed(v, w, b, c):
    return [v[tnp.asarray([0, 1, 0])] if c < 0.5 else v[v > 0.2]] if v.shape[0] > 1 else []


def _written_at(v, w, b, c):
    if v.shape[0] < 2:
        return []
    z = v * 1.0
    z[tnp.asarray([1, 0, 1])] = v[0] * 3 if c < 0.5 else 0.7
    return [z]


def _branch(v, w, b, c):
    return [v * 2 if float(tnp.sum(v)) > 0 else v * 3]


def _loop(v, w, b, c):
    for i in range(int(c * 4)):
        v = v * 0.9 + i
    return [v]


_KINDS = [_unary, _binary, _reduced, _sliced, _written, _in_place, _through_views, _matrices, _indexed, _written_at, _branch, _loop]


def program(seed, part=None):
    """The function, and its two arguments as NumPy's arrays. part: what some of its steps, and runs of them, are wrapped in."""
    draw = random.Random(seed)
    steps = [(draw.choice(_KINDS), draw.random(), draw.random(), draw.random()) for _ in range(draw.randint(3, 9))]
    draws = random.Random(seed + 1)
    wrapped = [draws.random() < 0.4 for _ in steps]
    begin = draws.randrange(len(steps))
    end = draws.randint(begin, len(steps))

    def taken(first, last, values):
        count, values = len(values), list(values)
        for (kind, a, b, c), is_wrapped in zip(steps[first:last], wrapped[first:last]):
            v, w = (values[int(place * len(values))] for place in (a, b))
            if v.ndim or kind in (_unary, _binary, _branch, _loop):
                values += (part(kind) if part and is_wrapped else kind)(v, w, b, c)
        return values[count:]

    def function(x, y):
        values = [x, y]
        values += taken(0, begin, values)
        values += (part(taken) if part else taken)(begin, end, values)
        values += taken(end, len(steps), values)
        return sum((tnp.sum(tnp.sin(v)) for v in values[2:]), tnp.sum(x) * 0.1)

    rows, columns = draw.randint(2, 4), draw.randint(2, 4)
    numbers = numpy.random.RandomState(seed)
    shapes = [(rows, columns), (rows, columns) if draw.random() < 0.5 else (rows,)]
    return function, [numbers.randn(*shape) for shape in shapes]


def differences(function, arguments, number, step=1e-6):
    """The gradient by one argument, by central differences."""
    result = numpy.zeros(arguments[number].shape)
    for place in numpy.ndindex(*result.shape):
        ends = []
        for by in (step, -step):
            moved = [argument.copy() for argument in arguments]
            moved[number][place] += by
            ends.append(float(function(*[tnp.asarray(each) for each in moved])))
        result[place] = (ends[0] - ends[1]) / (2 * step)
    return result


def is_close(got, wanted):
    return numpy.allclose(got, wanted, rtol=1e-3, atol=1e-3 * (1 + abs(wanted).max()))
