"""Reductions, windows and sorting: operators with regions, which scalars.py recognises."""

import math

from .. import Error
from . import scalars
from .graph import lowers
from .movement import ints_of, padded, spaced


def combined(g, name, a, b):
    if a.dtype == "bool":
        return g.op({"max": "or", "min": "and"}.get(name, name), [a, b])
    return g.op("bitwise_" + name if name in ("and", "or", "xor") else name, [a, b])


@lowers("stablehlo.reduce")
def _reduce(g, operation, *operands):
    count = len(operands) // 2
    dims, region = ints_of(operation, "dimensions"), operation.regions[0]
    if count == 1:
        return _reduced(g, scalars.combination(region), operands[0], operands[1], dims)
    if count == 2 and len(dims) == 1:
        return _extreme(g, scalars.extreme(region), operands, dims[0])
    raise Error("it reduces several tensors at once, and they are no values with one dimension's indices")


def _reduced(g, name, x, start, dims):
    if not dims:
        return combined(g, name, x, g.broadcast(start, x.shape)) if name != "none" else x
    dtype = x.dtype
    if dtype == "bool":
        y = g.cast(g.reduce(f"reduce_{'sum' if name == 'xor' else name}", g.cast(x, "i32"), dims), "i32")
        y = g.cast(g.op("mod", [y, g.scalar(2, "i32")]) if name == "xor" else y, "bool")
        return combined(g, name, y, start)
    names = {"add": "reduce_sum", "mul": "reduce_prod", "max": "reduce_max", "min": "reduce_min"}
    if name not in names:
        raise Error("bits of numbers are combined along a dimension")
    return combined(g, name, g.reduce(names[name], x, dims), start)


def _extreme(g, name, operands, dim):
    """The largest with its number along the dimension; what stands for the numbers is read there."""
    x, numbers = operands[:2]
    at = g.op(f"arg_{name}", [x], axis=dim, keepdims=True)
    values = [g.op("gather_elements", [part, at], axis=dim) for part in (x, numbers)]
    shape = [size for i, size in enumerate(x.shape) if i != dim]
    return [g.reshape(value, shape) for value in values]


@lowers("stablehlo.reduce_window")
def _reduce_window(g, operation, *operands):
    """By pools where the windows are of numbers of one type, and of three dimensions at most; else by slices, one for each place of a window."""
    if len(operands) != 2:
        raise Error("windows of several tensors at once are not known")
    x, start = operands
    name, rank = scalars.combination(operation.regions[0]), operands[0].rank

    def setting(key, default):
        return ints_of(operation, key) if key in operation.attributes else [default] * rank

    window, strides, dilations = setting("window_dimensions", 1), setting("window_strides", 1), setting("window_dilations", 1)
    import numpy

    sides = numpy.array(operation.attributes["padding"]).reshape(-1).tolist() if "padding" in operation.attributes else [0] * 2 * rank
    sides = sides * (2 * rank) if len(sides) == 1 else sides
    is_dense = {*dilations, *setting("base_dilations", 1)} == {1}
    if is_dense and (summed := _running(g, name, x, window, strides, sides)) is not None:
        return combined(g, name, summed, start)
    nothing = g.scalar(scalars.neutral(name, x.dtype), x.dtype)
    x = spaced(g, x, nothing, [step - 1 for step in setting("base_dilations", 1)])
    low, high = sides[0::2], sides[1::2]
    dims = [i for i in range(rank) if window[i] > 1 or strides[i] > 1]
    pooled = name in ("max", "add") and x.is_float and 0 < len(dims) <= 3 and all(0 <= side for side in sides)
    is_wide = any(low[i] >= window[i] or high[i] >= window[i] or dilations[i] > 1 for i in dims)
    if pooled and not is_wide and not any(low[i] or high[i] for i in range(rank) if i not in dims):
        y = _pooled(g, name, x, dims, window, strides, low, high)
    else:
        y = _by_places(g, name, padded(g, x, nothing, low, high), window, strides, dilations)
    return combined(g, name, y, start)


def _running(g, name, x, window, strides, sides):
    """Windows that reach from the start of a dimension to each place are a running sum, which JAX's cumsum is written as."""
    dims = [i for i, size in enumerate(window) if size > 1]
    if name != "add" or len(dims) != 1 or set(strides) != {1} or not (x.is_float or x.is_signed):
        return None
    [dim], size = dims, x.shape[dims[0]]
    if window[dim] != size or any(side for i, side in enumerate(sides) if i not in (2 * dim, 2 * dim + 1)):
        return None
    if sides[2 * dim : 2 * dim + 2] == [size - 1, 0]:
        return g.op("cumsum", [x], axis=dim)
    if sides[2 * dim : 2 * dim + 2] == [0, size - 1]:
        return g.op("cumsum", [x], axis=dim, reverse=True)
    return None


def _pooled(g, name, x, dims, window, strides, low, high):
    """With the windows' dimensions last, and the others as the batch."""
    rest = [i for i in range(x.rank) if i not in dims]
    moved = g.transpose(x, rest + dims)
    outer, inner = moved.shape[: len(rest)], moved.shape[len(rest) :]
    from .graph import product

    planes = g.reshape(moved, [product(outer), 1, *inner])
    named = {"kernel": [window[i] for i in dims], "strides": [strides[i] for i in dims], "pads": [low[i] for i in dims] + [high[i] for i in dims],
             "dilations": [1] * len(dims)}  # fmt: skip
    if name == "max":
        y = g.op("max_pool", [planes], **named)
    else:
        y = g.op("average_pool", [planes], count_include_pad=True, **named)
        y = g.op("mul", [y, g.scalar(math.prod(window[i] for i in dims), y.dtype)])
    y = g.reshape(y, [*outer, *y.shape[2:]])
    order = rest + dims
    return g.transpose(y, [order.index(i) for i in range(x.rank)])


_MOST_PLACES = 4096


def _by_places(g, name, x, window, strides, dilations):
    places = math.prod(window)
    if places > _MOST_PLACES:
        raise Error(f"its windows have {places} places; more than {_MOST_PLACES} are not known")
    if not all(isinstance(size, int) for size in x.shape):
        raise Error("its windows are of open sizes")
    shape = [max((size - (w - 1) * d - 1) // s + 1, 0) for size, w, s, d in zip(x.shape, window, strides, dilations)]
    result = x
    for dim, (count, step, stride) in enumerate(zip(window, dilations, strides)):  # one dimension after the other
        wide = [shape[i] if i <= dim else result.shape[i] for i in range(result.rank)]
        steps = [stride if i == dim else 1 for i in range(result.rank)]
        parts = [g.slice(result, [k * step if i == dim else 0 for i in range(result.rank)], wide, steps) for k in range(count)]
        result = parts[0]
        for part in parts[1:]:
            result = combined(g, name, result, part)
    return result


@lowers("stablehlo.sort")
def _sort(g, operation, *operands):
    """By the operand that decides; the others are read in its order."""
    dim = operation.attributes["dimension"].value
    dim = dim + operands[0].rank if dim < 0 else dim
    key, is_largest = scalars.order(operation.regions[0])
    x = operands[key]
    ordered = g.cast(x, "i32") if x.dtype == "bool" else x
    size = x.shape[dim]
    count = g.ints([size]) if isinstance(size, int) else g.op("shape", [x], start=dim, end=dim + 1)
    values, places = g.ops("topk", [ordered, count], axis=dim, largest=is_largest, sorted=True)
    return [g.cast(values, x.dtype) if i == key else g.op("gather_elements", [part, places], axis=dim) for i, part in enumerate(operands)]


def _wants_largest(operation):
    """What a call of `mhlo.topk` says of itself; the other operators have no choice."""
    return "mhlo.attributes" not in operation.attributes or str(operation.attributes["mhlo.attributes"]["largest"]) == "true"


@lowers("chlo.top_k", "composite:chlo.top_k", "custom:mhlo.topk")
def _top_k(g, operation, x):
    """The largest along the last dimension, or the smallest, with their numbers."""
    from .program import element_type

    count = operation.results[0].type.get_dim_size(x.rank - 1)
    values, places = g.ops("topk", [x, g.ints([count])], axis=x.rank - 1, largest=_wants_largest(operation), sorted=True)
    return [values, g.cast(places, element_type(operation.results[1].type.element_type))]
