"""Operators that place elements elsewhere. Those with sizes as operands take what the graph knows of these."""

from .. import Error
from .graph import lowers, product


def ints_of(operation, name):
    return [int(number) for number in operation.attributes[name]]


def result_shape(operation, index=0):
    """The sizes that its type has, None where they are open."""
    type_ = operation.results[index].type
    return [None if type_.is_dynamic_dim(dim) else type_.get_dim_size(dim) for dim in range(type_.rank)]


def _broadcast_in_dim(g, x, shape, dims):
    """Dimension i of x is dimension dims[i] of the result."""
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    x = g.transpose(x, order)
    kept = [1] * len(shape)
    for i, size in zip(sorted(dims), x.shape):
        kept[i] = size
    return g.broadcast(g.reshape(x, kept), shape)


@lowers("stablehlo.broadcast_in_dim")
def _broadcast(g, operation, x):
    return _broadcast_in_dim(g, x, result_shape(operation), ints_of(operation, "broadcast_dimensions"))


@lowers("stablehlo.dynamic_broadcast_in_dim")
def _dynamic_broadcast(g, operation, x, shape):
    return _broadcast_in_dim(g, x, g.sizes_in(shape), ints_of(operation, "broadcast_dimensions"))


@lowers("stablehlo.reshape")
def _reshape(g, operation, x):
    shape = result_shape(operation)
    if shape.count(None) == 1 and any(not isinstance(size, int) for size in x.shape):
        rest = product([size for size in shape if size is not None])
        shape[shape.index(None)] = f"({product(x.shape)})/{rest}" if rest != 1 else product(x.shape)
    if None in shape:
        raise Error("its sizes are open, and aren't told")
    return g.reshape(x, shape)


@lowers("stablehlo.dynamic_reshape")
def _dynamic_reshape(g, operation, x, shape):
    return g.reshape(x, g.sizes_in(shape))


@lowers("stablehlo.transpose")
def _transpose(g, operation, x):
    return g.transpose(x, ints_of(operation, "permutation"))


@lowers("stablehlo.slice")
def _slice(g, operation, x):
    shape = [old if new is None else new for new, old in zip(result_shape(operation), x.shape)]
    return g.slice(x, ints_of(operation, "start_indices"), shape, ints_of(operation, "strides"))


@lowers("stablehlo.real_dynamic_slice")
def _real_dynamic_slice(g, operation, x, starts, limits, strides):
    axes = g.ints(list(range(x.rank)))
    y = g.op("dynamic_slice", [x, *(g.cast(part, "i64") for part in (starts, limits)), axes, g.cast(strides, "i64")])
    return g.reshape(y, y.shape)


@lowers("stablehlo.concatenate")
def _concatenate(g, operation, *parts):
    return g.op("concat", parts, axis=operation.attributes["dimension"].value) if len(parts) > 1 else parts[0]


@lowers("stablehlo.reverse")
def _reverse(g, operation, x):
    axes = ints_of(operation, "dimensions")
    return g.op("reverse", [x], axes=sorted(axes)) if axes else x


def spaced(g, x, value, interior):
    """With so many elements of a value between those of each dimension."""
    for dim, count in enumerate(interior):
        if count and x.shape[dim] != 1:
            size = x.shape[dim]
            if not isinstance(size, int):
                raise Error("it puts elements between those of a dimension whose size is open")
            inner = g.reshape(x, [*x.shape[: dim + 1], 1, *x.shape[dim + 1 :]])
            low, high = [0] * inner.rank, [0] * inner.rank
            high[dim + 1] = count
            inner = g.op("pad", [inner, value], low=low, high=high, mode="constant")
            wide = g.reshape(inner, [*x.shape[:dim], size * (count + 1), *x.shape[dim + 1 :]])
            x = g.slice(wide, [0] * x.rank, [*x.shape[:dim], max((size - 1) * (count + 1) + 1, 0), *x.shape[dim + 1 :]])
    return x


def padded(g, x, value, low, high, interior=()):
    x = spaced(g, x, value, interior)
    if not any(low) and not any(high):
        return x
    return g.op("pad", [x, value], low=list(low), high=list(high), mode="constant")


@lowers("stablehlo.pad")
def _pad(g, operation, x, value):
    low, high, interior = (ints_of(operation, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    if x.dtype == "bool":
        return g.cast(padded(g, g.cast(x, "i32"), g.cast(value, "i32"), low, high, interior), "bool")
    return padded(g, x, value, low, high, interior)


@lowers("stablehlo.dynamic_pad")
def _dynamic_pad(g, operation, x, value, low, high, interior):
    sides = [g.sizes_in(part) for part in (low, high, interior)]
    if not all(isinstance(size, int) for part in sides for size in part):
        raise Error("it pads by sizes that aren't numbers")
    return padded(g, x, value, *sides)


@lowers("stablehlo.iota")
def _iota(g, operation):
    from .program import element_type

    dtype = element_type(operation.results[0].type.element_type)
    return g.iota(result_shape(operation), operation.attributes["iota_dimension"].value, dtype)


@lowers("stablehlo.dynamic_iota")
def _dynamic_iota(g, operation, shape):
    from .program import element_type

    dtype = element_type(operation.results[0].type.element_type)
    return g.iota(g.sizes_in(shape), operation.attributes["iota_dimension"].value, dtype)


@lowers("stablehlo.get_dimension_size")
def _dimension_size(g, operation, x):
    dim = operation.attributes["dimension"].value
    return g.cast(g.reshape(g.op("shape", [x], start=dim, end=dim + 1), []), "i32")


@lowers("stablehlo.optimization_barrier")
def _barrier(g, operation, *values):
    return list(values)


@lowers("custom:shape_assertion")
def _assertion(g, operation, *values):
    """Relations of sizes, which the graph checks where it needs them."""
    return []


@lowers("custom:Sharding", "custom:annotate_device_placement", "custom:LayoutConstraint")
def _annotation(g, operation, x):
    return x
