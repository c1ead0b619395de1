"""Other shapes and orders of the same elements; views where strides can say it."""

from .. import _eager
from . import dtypes

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "matrix_transpose", "moveaxis", "permute_dims",
    "repeat", "reshape", "roll", "squeeze", "stack", "take", "take_along_axis", "tile", "unstack", "broadcast_shapes",
]  # fmt: skip


def axis_of(axis, ndim):
    axis = axis.__index__()
    if not -ndim <= axis < max(ndim, 0):
        raise IndexError(f"there is no axis {axis} in a tensor of {ndim} dimensions")
    return axis % ndim


def axes_of(axis, ndim):
    """None: all; sorted and distinct."""
    if axis is None:
        return list(range(ndim))
    axes = [axis_of(each, ndim) for each in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if len(set(axes)) != len(axes):
        raise ValueError("an axis is named twice")
    return sorted(axes)


def reshape(x, /, shape, *, copy=None):
    return _eager.reshape(x, [shape] if isinstance(shape, int) else list(shape), copy)


def broadcast_to(x, /, shape):
    return _eager.broadcast_to(x, [shape] if isinstance(shape, int) else list(shape))


def broadcast_shapes(*shapes):
    result = []
    for shape in shapes:
        result = [1] * (len(shape) - len(result)) + result
        for i, size in enumerate(reversed(shape), 1):
            if result[-i] == 1:
                result[-i] = size
            elif size not in (1, result[-i]):
                raise ValueError(f"shapes {shapes} do not broadcast together")
    return tuple(result)


def broadcast_arrays(*arrays):
    shape = broadcast_shapes(*(each.shape for each in arrays))
    return [broadcast_to(each, shape) for each in arrays]


def permute_dims(x, /, axes):
    axes = [axis_of(axis, x.ndim) for axis in axes]
    if sorted(axes) != list(range(x.ndim)):
        raise ValueError("axes must name each dimension once")
    return _eager.permute(x, axes)


def matrix_transpose(x, /):
    if x.ndim < 2:
        raise ValueError("a matrix has at least two dimensions")
    axes = list(range(x.ndim))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    return _eager.permute(x, axes)


def moveaxis(x, source, destination, /):
    source = [axis_of(a, x.ndim) for a in (source if isinstance(source, (tuple, list)) else (source,))]
    destination = [axis_of(a, x.ndim) for a in (destination if isinstance(destination, (tuple, list)) else (destination,))]
    if len(source) != len(destination) or len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise ValueError("moveaxis: source and destination must be as many axes, each once")
    order = [axis for axis in range(x.ndim) if axis not in source]
    for to, axis in sorted(zip(destination, source)):
        order.insert(to, axis)
    return _eager.permute(x, order)


def expand_dims(x, /, axis=0):
    axes = axes_of(axis, x.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1))
    shape = list(x.shape)
    for each in axes:
        shape.insert(each, 1)
    return _eager.reshape(x, shape, None)


def squeeze(x, /, axis):
    axes = axes_of(axis, x.ndim)
    if any(x.shape[each] != 1 for each in axes):
        raise ValueError(f"squeeze: only dimensions of size 1 can go, and the shape is {x.shape}")
    return x[tuple(0 if i in axes else slice(None) for i in range(x.ndim))]


def flip(x, /, *, axis=None):
    axes = axes_of(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))]


def roll(x, /, shift, *, axis=None):
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = tuple(axes) * len(shifts)
    if len(shifts) == 1:
        shifts = tuple(shifts) * len(axes)
    for by, each in zip(shifts, axes):
        each = axis_of(each, x.ndim)
        size = x.shape[each]
        if size == 0:
            continue
        cut = (size - by % size) % size
        before = (slice(None),) * each
        x = concat([x[before + (slice(cut, None),)], x[before + (slice(None, cut),)]], axis=each)
    return _eager.copy(x)


def concat(arrays, /, *, axis=0):
    arrays = list(arrays)
    if not arrays:
        raise ValueError("concat needs at least one tensor")
    if axis is None:
        arrays, axis = [reshape(each, (-1,)) for each in arrays], 0
    axis = axis_of(axis, arrays[0].ndim)
    return _eager.concat(arrays, axis, dtypes.result_type(*arrays))


def stack(arrays, /, *, axis=0):
    arrays = list(arrays)
    if not arrays:
        raise ValueError("stack needs at least one tensor")
    axis = axis_of(axis, arrays[0].ndim + 1)
    return concat([expand_dims(each, axis) for each in arrays], axis=axis)


def unstack(x, /, *, axis=0):
    axis = axis_of(axis, x.ndim)
    return tuple(x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis]))


def repeat(x, repeats, /, *, axis=None):
    from . import reductions
    from .creation import arange, asarray

    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = axis_of(axis, x.ndim)
    counts = asarray(repeats, dtype=dtypes.int64)
    counts = broadcast_to(reshape(counts, (-1,)), (x.shape[axis],))
    if bool(reductions.any(counts < 0)):
        raise ValueError("repeat: counts are not negative")
    ends = reductions.cumulative_sum(counts)
    total = int(ends[-1]) if x.shape[axis] else 0
    return take(x, reductions.searchsorted(ends, arange(total), side="right"), axis=axis)


def tile(x, repetitions, /):
    repetitions = list(repetitions)
    ndim = max(x.ndim, len(repetitions))
    repetitions = [1] * (ndim - len(repetitions)) + repetitions
    shape = [1] * (ndim - x.ndim) + list(x.shape)
    doubled = [size for each in shape for size in (1, each)]
    target = [size for count, each in zip(repetitions, shape) for size in (count, each)]
    whole = _eager.broadcast_to(_eager.reshape(x, doubled, None), target)
    return _eager.reshape(whole, [count * size for count, size in zip(repetitions, shape)], True)


def take(x, indices, /, *, axis=None):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take needs an axis where the tensor has several dimensions")
        axis = 0
    axis = axis_of(axis, x.ndim)
    chosen = x[(slice(None),) * axis + (indices,)]
    return _eager.copy(chosen) if isinstance(indices, int) or indices.ndim == 0 else chosen


def check_labels(name, x, labels, axis):
    """ValueError unless there is a label for each row of x along the axis: one for all of them would broadcast. A function of the library, which a converted
    one does not look into: it keeps no size for it."""
    rows = x.shape[:axis] + x.shape[axis + 1 :]
    if labels.shape != rows:
        raise ValueError(f"{name} takes a label for each row of x, in a tensor of shape {rows}, and not of shape {labels.shape}")


def take_along_axis(x, indices, /, *, axis=-1):
    from .creation import arange

    axis = axis_of(axis, x.ndim)
    is_gathered = _eager.coexecuting() or _eager.gathering()
    if is_gathered and isinstance(indices, dtypes.Tensor) and indices.dtype in dtypes.SIGNED and x.dtype not in dtypes.COMPLEX_FLOATING:
        from ..functions.indexing import along_axis

        # A step that is co-executed asks whether the places are there; elsewhere the graph itself fails where one is not.
        return along_axis((lambda _: True) if _eager.gathering() else bool, x, indices, axis)
    shape = broadcast_shapes(x.shape[:axis] + (1,) + x.shape[axis + 1 :], indices.shape[:axis] + (1,) + indices.shape[axis + 1 :])
    x = broadcast_to(x, shape[:axis] + (x.shape[axis],) + shape[axis + 1 :])
    indices = broadcast_to(indices, shape[:axis] + (indices.shape[axis],) + shape[axis + 1 :])
    key = []
    for i in range(x.ndim):
        sizes = [1] * x.ndim
        sizes[i] = -1
        key.append(indices if i == axis else reshape(arange(x.shape[i]), sizes))
    return x[tuple(key)]
