"""Operators without bodies: each function adds one to a graph, or gives None where nothing fits.

Those of floats are continuous; those of integers are exact, and some of them make sizes that only the run tells.
"""

import numpy

from values import BOOL, F32, I64, Value

UNARY = {
    "Tanh": 1.0, "Sigmoid": 1.0, "Relu": None, "Abs": None, "Neg": None, "Sin": 1.0, "Cos": 1.0, "Erf": 1.0,
    "Softsign": 1.0, "HardSigmoid": 1.0, "LeakyRelu": None, "Elu": None, "Identity": None, "Atan": 2.0,
}


def unary(g):
    x = g.float()
    op = g.random.choice(list(UNARY))
    return g.add(op, [x], F32, x.shape, UNARY[op] or x.bound)


def broadcast(g, a, kind):
    """A value that goes with `a`: of its shape, or a constant of part of it."""
    same = g.pick(lambda v: v.type == kind and v.shape == a.shape)
    if same is not None and g.random.random() < 0.7:
        return same
    shape = [size if isinstance(size, int) and g.random.random() < 0.7 else 1 for size in a.shape]
    shape = shape[g.random.randint(0, len(shape)):]
    if kind == F32:
        return g.floats(shape)
    return g.constant(g.program.numpy.integers(-3, 4, shape).astype(numpy.int64), 3)


BINARY = {"Add": lambda a, b: a + b, "Sub": lambda a, b: a + b, "Mul": lambda a, b: a * b, "Max": max, "Min": max}


def binary(g):
    x = g.float()
    y = broadcast(g, x, F32)
    op = g.random.choice(list(BINARY))
    operands = [x, y] if g.random.random() < 0.6 else [y, x]
    return g.add(op, operands, F32, x.shape, BINARY[op](x.bound, y.bound))


def integers(g):
    x = g.integer()
    y = broadcast(g, x, I64)
    op = g.random.choice(list(BINARY))
    return g.add(op, [x, y], I64, x.shape, BINARY[op](x.bound, y.bound))


def comparison(g):
    x = g.integer()
    y = broadcast(g, x, I64)
    return g.add(g.random.choice(["Less", "LessOrEqual", "Greater", "Equal"]), [x, y], BOOL, x.shape)


def logical(g):
    x = g.boolean()
    if g.random.random() < 0.4:
        return g.add("Not", [x], BOOL, x.shape)
    y = g.pick(lambda v: v.type == BOOL and v.shape == x.shape)
    return y and g.add(g.random.choice(["And", "Or", "Xor"]), [x, y], BOOL, x.shape)


def cast(g):
    x = g.integer() if g.random.random() < 0.6 else g.boolean()
    target = g.random.choice([F32, I64] if x.type == BOOL else [F32])
    return g.add("Cast", [x], target, x.shape, x.bound, to=target)


def select(g):
    condition = g.boolean()
    kind = g.random.choice([F32, I64])
    same = g.pick(lambda v: v.type == kind and v.shape == condition.shape)
    other = g.scalar(g.random.randint(-2, 2), numpy.float32 if kind == F32 else numpy.int64)
    return same and g.add("Where", [condition, same, other], kind, condition.shape, max(same.bound, other.bound))


def matmul(g):
    x = g.float(2, 4, lambda v: isinstance(v.shape[-1], int) and 0 < v.shape[-1] <= 64)
    if x is None:
        return None
    inner, outer = x.shape[-1], g.random.choice([1, 2, 3, 5, 8, 16])
    other = g.pick(lambda v: v.type == F32 and v.rank == 2 and v.shape[0] == inner and isinstance(v.shape[1], int))
    if other is None or g.random.random() < 0.5:
        other = g.floats((inner, outer), 1 / numpy.sqrt(inner))
    return g.add("MatMul", [x, other], F32, (*x.shape[:-1], other.shape[1]), x.bound * other.bound * inner)


def convolution(g):
    x = g.float(4, 4, lambda v: all(isinstance(size, int) and size > 0 for size in v.shape[1:]))
    if x is None:
        x = g.float(2, 2, lambda v: v.known() and v.count() > 0)
        if x is None:
            return None
        x = g.add("Reshape", [x, g.ints(1, 1, *x.shape)], F32, (1, 1, *x.shape), x.bound)
    filters = g.random.choice([1, 2, 4, 8])
    weights = g.floats((filters, x.shape[1], 3, 3), 0.3)
    return g.add("Conv", [x, weights], F32, (x.shape[0], filters, *x.shape[2:]), x.bound * 3 * x.shape[1], pads=[1, 1, 1, 1])


def normalise(g):
    x = g.float(1, 4, lambda v: isinstance(v.shape[-1], int) and v.shape[-1] > 1)
    if x is None:
        return None
    op = g.random.choice(["Softmax", "LogSoftmax"])
    return g.add(op, [x], F32, x.shape, 1.0 if op == "Softmax" else 2 * x.bound + 5, axis=-1)


def reduced(g, shape, axes, keepdims):
    return [1 if i in axes else size for i, size in enumerate(shape) if keepdims or i not in axes]


def some_axes(g, rank):
    axes = [i for i in range(rank) if g.random.random() < 0.5]
    return axes or ([g.random.randrange(rank)] if rank else [])


def reduce(g):
    x = g.float(1, 4, lambda v: v.known() and v.count() > 0) if g.random.random() < 0.6 else g.float(1, 4)
    axes, keepdims = some_axes(g, x.rank), g.random.randint(0, 1)
    sized = x.known() and x.count() > 0
    op = g.random.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1"] if sized else ["ReduceSum"])
    growth = x.count() if sized and op in ("ReduceSum", "ReduceL1") else 1 if sized else 100
    return g.add(op, [x, g.ints(*axes)], F32, reduced(g, x.shape, axes, keepdims), x.bound * growth, keepdims=keepdims)


def reduce_integers(g):
    x = g.integer(1, 3)
    axes, keepdims = some_axes(g, x.rank), g.random.randint(0, 1)
    return g.add("ReduceSum", [x, g.ints(*axes)], I64, reduced(g, x.shape, axes, keepdims), x.bound * 20, keepdims=keepdims)


def any_value(g, low=1, high=4, wanted=lambda v: True):
    return g.pick(lambda v: low <= v.rank <= high and wanted(v)) or g.float(low, high, wanted)


def transpose(g):
    x = any_value(g)
    order = list(range(x.rank))
    g.random.shuffle(order)
    return g.add("Transpose", [x], x.type, [x.shape[i] for i in order], x.bound, perm=order)


def reshape(g):
    x = any_value(g, 1, 4)
    if x.known() and x.count() > 0:
        factors, left = [], x.count()
        for divisor in (2, 3, 5):
            while left % divisor == 0 and len(factors) < 3 and g.random.random() < 0.6:
                factors.append(divisor)
                left //= divisor
        shape = factors + [left]
        g.random.shuffle(shape)
        asked = [-1 if i == g.random.randrange(len(shape)) else size for i, size in enumerate(shape)]
        asked = asked if asked.count(-1) <= 1 else shape
        return g.add("Reshape", [x, g.ints(*asked)], x.type, shape, x.bound)
    return g.add("Reshape", [x, g.ints(-1)], x.type, (x.shape[0],) if x.rank == 1 else (g.new_dim(),), x.bound)


def unsqueeze(g):
    x = any_value(g, 0, 3)
    axis = g.random.randint(0, x.rank)
    return g.add("Unsqueeze", [x, g.ints(axis)], x.type, (*x.shape[:axis], 1, *x.shape[axis:]), x.bound)


def squeeze(g):
    x = any_value(g, 1, 4, lambda v: 1 in v.shape)
    if x is None:
        return None
    axis = x.shape.index(1)
    return g.add("Squeeze", [x, g.ints(axis)], x.type, x.shape[:axis] + x.shape[axis + 1:], x.bound)


def concat(g):
    x = any_value(g)
    axis = g.random.randrange(x.rank)
    fits = lambda v: v.type == x.type and v.rank == x.rank and all(
        a == b for i, (a, b) in enumerate(zip(v.shape, x.shape)) if i != axis)
    y = g.pick(fits) or x
    sizes = [x.shape[axis], y.shape[axis]]
    size = sum(sizes) if all(isinstance(s, int) for s in sizes) else g.new_dim()
    if isinstance(size, int) and size > 300:
        return None
    return g.add("Concat", [x, y], x.type, (*x.shape[:axis], size, *x.shape[axis + 1:]), max(x.bound, y.bound), axis=axis)


def slice_(g):
    x = any_value(g, 1, 4, lambda v: any(isinstance(s, int) and s > 1 for s in v.shape))
    if x is None:
        return None
    axis = g.random.choice([i for i, s in enumerate(x.shape) if isinstance(s, int) and s > 1])
    step = g.random.choice([1, 1, 2, -1])
    start, end = (x.shape[axis] - 1, -x.shape[axis] - 1) if step < 0 else (g.random.randrange(x.shape[axis]), x.shape[axis])
    size = len(range(x.shape[axis])[::-1]) if step < 0 else len(range(start, end, step))
    operands = [x, g.ints(start), g.ints(end), g.ints(axis), g.ints(step)]
    return g.add("Slice", operands, x.type, (*x.shape[:axis], size, *x.shape[axis + 1:]), x.bound)


def slice_by_data(g):
    """Its end comes from the data: a size that only the run tells, 0 now and then."""
    x = any_value(g, 1, 3)
    end = g.add("Reshape", [g.count_up_to(g.random.choice([3, 5, 9])), g.ints(1)], I64, (1,), 9)
    return g.add("Slice", [x, g.ints(0), end, g.ints(0)], x.type, (g.new_dim(), *x.shape[1:]), x.bound)


def gather(g):
    x = any_value(g, 1, 3, lambda v: isinstance(v.shape[0], int) and v.shape[0] > 0)
    if x is None:
        return None
    indices = g.integer(0, 1, lambda v: True)
    wrapped = g.add("Mod", [indices, g.scalar(x.shape[0])], I64, indices.shape, x.shape[0])
    return g.add("Gather", [x, wrapped], x.type, (*wrapped.shape, *x.shape[1:]), x.bound, axis=0)


def pad(g):
    x = any_value(g, 1, 4, lambda v: v.type == F32)
    if x is None:
        return None
    before, after = ([g.random.randint(0, 2) for _ in x.shape] for _ in range(2))
    shape = [s + a + b if isinstance(s, int) else (s if a + b == 0 else g.new_dim()) for s, a, b in zip(x.shape, before, after)]
    return g.add("Pad", [x, g.ints(*before, *after), g.scalar(0.5, numpy.float32)], F32, shape, max(x.bound, 0.5))


def expand(g):
    x = any_value(g, 1, 3)
    more = g.random.randint(1, 4)
    shape = g.add("Concat", [g.ints(more), shape_of(g, x)], I64, (x.rank + 1,), 500, axis=0)
    return g.add("Expand", [x, shape], x.type, (more, *x.shape), x.bound)


def shape_of(g, x):
    return g.add("Shape", [x], I64, (x.rank,), 500)


def shape(g):
    return shape_of(g, any_value(g))


def tile(g):
    x = any_value(g, 1, 3, lambda v: v.known() and v.count() < 200)
    if x is None:
        return None
    repeats = [g.random.randint(1, 2) for _ in x.shape]
    return g.add("Tile", [x, g.ints(*repeats)], x.type, [s * r for s, r in zip(x.shape, repeats)], x.bound)


def cumulative(g):
    x = g.float(1, 3, lambda v: v.known())
    return x and g.add("CumSum", [x, g.scalar(g.random.randrange(x.rank))], F32, x.shape, x.bound * max(x.shape, default=1))


def split(g):
    x = any_value(g, 1, 3, lambda v: isinstance(v.shape[0], int) and v.shape[0] > 1)
    if x is None:
        return None
    first = g.random.randint(1, x.shape[0] - 1)
    names = g.raw("Split", [x, g.ints(first, x.shape[0] - first)], 2, axis=0)
    values = [Value(n, x.type, (s, *x.shape[1:]), x.bound) for n, s in zip(names, (first, x.shape[0] - first))]
    g.values.extend(values)
    return values[0]


def nonzero(g):
    x = g.boolean(lambda v: v.rank > 0)
    return x and g.add("NonZero", [x], I64, (x.rank, g.new_dim()), 300)


def compress(g):
    condition = g.boolean(lambda v: v.rank == 1)
    if condition is None:
        return None
    x = g.pick(lambda v: v.rank >= 1 and v.shape[0] == condition.shape[0])
    return x and g.add("Compress", [x, condition], x.type, (g.new_dim(), *x.shape[1:]), x.bound, axis=0)


def unique(g):
    x = g.integer(1, 2)
    return g.add("Unique", [x], I64, (g.new_dim(),), x.bound, sorted=1)


def range_(g):
    most = g.random.choice([3, 6, 12])
    return g.add("Range", [g.scalar(0), g.count_up_to(most), g.scalar(1)], I64, (g.new_dim(),), most)


def topk(g):
    """Of integers; equal ones are the same whichever is taken."""
    x = g.integer(1, 2, lambda v: isinstance(v.shape[-1], int) and v.shape[-1] > 0)
    if x is None:
        return None
    k = g.random.randint(1, x.shape[-1])
    name, _ = g.raw("TopK", [x, g.ints(k)], 2, axis=-1)
    value = Value(name, I64, (*x.shape[:-1], k), x.bound)
    g.values.append(value)
    return value


PLAIN = [
    (unary, 3), (binary, 4), (integers, 2), (comparison, 1), (logical, 0.6), (cast, 1), (select, 1), (matmul, 1.5),
    (convolution, 0.4), (normalise, 0.7), (reduce, 1), (reduce_integers, 0.6), (transpose, 1), (reshape, 1),
    (unsqueeze, 0.5), (squeeze, 0.4), (concat, 1), (slice_, 0.8), (slice_by_data, 0.8), (gather, 1), (pad, 0.5),
    (expand, 0.4), (shape, 0.3), (tile, 0.3), (cumulative, 0.3), (split, 0.5), (nonzero, 0.5), (compress, 0.8),
    (unique, 0.4), (range_, 0.5), (topk, 0.3),
]
