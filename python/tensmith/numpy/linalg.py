"""Linear algebra: products of the standard's main namespace, and its extension `linalg`.

Decompositions are computed in double precision, whatever the elements are, by the algorithms of eager/evaluators/Linear.cpp.
Integers become float64 first, since results are of the operand's type. Eigenvalues
and singular values of a matrix with NaN or an infinity are NaN, and so are the vectors; of other matrices of a stack they are not.
"""

import collections
import math

from .. import _eager
from . import creation, dtypes, elementwise, manipulation, reductions
from .manipulation import axes_of, axis_of, matrix_transpose
from .reductions import floating

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip

QR = collections.namedtuple("QRResult", "Q R")
Slogdet = collections.namedtuple("SlogdetResult", "sign logabsdet")
Eigh = collections.namedtuple("EighResult", "eigenvalues eigenvectors")
SVD = collections.namedtuple("SVDResult", "U S Vh")


def _together(x1, x2):
    dtype = dtypes.result_type(x1, x2)
    return _eager.cast(x1, dtype), _eager.cast(x2, dtype)


def _numbers(function, x1, x2):
    """Both as operands of a product, which the standard has of numbers alone."""
    x1, x2 = creation.operand(x1), creation.operand(x2)
    if x1.dtype == dtypes.bool and x2.dtype == dtypes.bool:
        raise TypeError(f"{function}: booleans have no product; convert them to numbers with astype, or take logical_and and any")
    return x1, x2


def matmul(x1, x2, /):
    x1, x2 = _numbers("matmul", x1, x2)
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("matmul: tensors without dimensions have no product; use multiply")
    x1, x2 = _together(x1, x2)
    left, right = x1.ndim == 1, x2.ndim == 1
    if left:
        x1 = x1[None, :]
    if right:
        x2 = x2[:, None]
    result = _eager.apply("matmul", [x1, x2], {})
    if right:
        result = result[..., 0]
    if left:
        result = result[..., 0] if right else result[..., 0, :]
    return result


def tensordot(x1, x2, /, *, axes=2):
    x1, x2 = _numbers("tensordot", x1, x2)
    if isinstance(axes, int):
        first, second = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
        if axes > min(x1.ndim, x2.ndim):
            raise ValueError("tensordot: there are more axes than dimensions")
    else:
        first, second = ([axis_of(a, x.ndim) for a in ([each] if isinstance(each, int) else each)] for each, x in zip(axes, (x1, x2)))
    if [x1.shape[a] for a in first] != [x2.shape[a] for a in second]:
        raise ValueError("tensordot: the sizes of the axes must be equal")
    keep1 = [a for a in range(x1.ndim) if a not in first]
    keep2 = [a for a in range(x2.ndim) if a not in second]
    shape1, shape2 = [x1.shape[a] for a in keep1], [x2.shape[a] for a in keep2]
    inner = math.prod(x1.shape[a] for a in first)
    a = manipulation.reshape(manipulation.permute_dims(x1, keep1 + first), (math.prod(shape1), inner))
    b = manipulation.reshape(manipulation.permute_dims(x2, second + keep2), (inner, math.prod(shape2)))
    return manipulation.reshape(matmul(a, b), shape1 + shape2)


def vecdot(x1, x2, /, *, axis=-1):
    x1, x2 = _numbers("vecdot", x1, x2)
    if not -min(x1.ndim, x2.ndim) <= axis < 0:
        raise ValueError("vecdot: the axis counts from the end, and both tensors have it")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError("vecdot: the sizes along the axis must be equal")
    x1, x2 = _together(*manipulation.broadcast_arrays(x1, x2))
    x1, x2 = (manipulation.moveaxis(x, axis, -1) for x in (x1, x2))
    return matmul(elementwise.conj(x1)[..., None, :], x2[..., :, None])[..., 0, 0]


def outer(x1, x2, /):
    x1, x2 = _numbers("outer", x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError("outer: both operands have one dimension")
    return x1[:, None] * x2[None, :]


def cross(x1, x2, /, *, axis=-1):
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError("cross: both operands have size 3 along the axis")
    x1, x2 = (manipulation.moveaxis(x, axis, -1) for x in manipulation.broadcast_arrays(*_together(x1, x2)))
    (a, b, c), (d, e, f) = ([x[..., i] for i in range(3)] for x in (x1, x2))
    result = manipulation.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=-1)
    return manipulation.moveaxis(result, -1, axis)


def diagonal(x, /, *, offset=0):
    if x.ndim < 2:
        raise ValueError("a matrix has at least two dimensions")
    rows, columns = x.shape[-2:]
    size = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    places = creation.arange(size)
    return x[..., places + max(-offset, 0), places + max(offset, 0)]


def trace(x, /, *, offset=0, dtype=None):
    return reductions.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


# ---- decompositions


def cholesky(x, /, *, upper=False):
    return _eager.apply("cholesky", [floating(x)], {"upper": bool(upper)})


def det(x, /):
    return _eager.apply("det", [floating(x)], {})


def eigh(x, /):
    return Eigh(*_eager.apply("eigh", [floating(x)], {}))


def eigvalsh(x, /):
    return eigh(x).eigenvalues


def inv(x, /):
    return _eager.apply("inv", [floating(x)], {})


def qr(x, /, *, mode="reduced"):
    if mode not in ("reduced", "complete"):
        raise ValueError("qr: mode is 'reduced' or 'complete'")
    return QR(*_eager.apply("qr", [floating(x)], {"complete": mode == "complete"}))


def slogdet(x, /):
    return Slogdet(*_eager.apply("slogdet", [floating(x)], {}))


def solve(x1, x2, /):
    x1, x2 = (floating(x) for x in _together(x1, x2))
    if x2.ndim == 1:
        return solve(x1, manipulation.broadcast_to(x2[:, None], x1.shape[:-1] + (1,)))[..., 0]
    around = manipulation.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return _eager.apply("solve", [_eager.broadcast_to(x, list(around + x.shape[-2:])) for x in (x1, x2)], {})


def svd(x, /, *, full_matrices=True):
    return SVD(*_eager.apply("svd", [floating(x)], {"full": bool(full_matrices)}))


def svdvals(x, /):
    return svd(x, full_matrices=False).S


def pinv(x, /, *, rtol=None):
    u, s, vh = svd(x, full_matrices=False)
    s_inverse = elementwise.where(_is_significant(x, s, rtol), 1 / s, creation.zeros((), dtype=s.dtype))
    return matmul(matrix_transpose(elementwise.conj(vh)) * s_inverse[..., None, :], matrix_transpose(elementwise.conj(u)))


def _is_significant(x, s, rtol):
    if s.shape[-1] == 0:
        return creation.zeros_like(s, dtype=dtypes.bool)
    if rtol is None:
        rtol = max(x.shape[-2:]) * dtypes.finfo(s.dtype).eps
    bound = reductions.max(s, axis=-1, keepdims=True)
    return s > bound * (rtol[..., None] if isinstance(rtol, dtypes.Tensor) else rtol)


def matrix_rank(x, /, *, rtol=None):
    values = svdvals(x)
    if bool(reductions.any(elementwise.isnan(values))):
        raise ValueError("matrix_rank: a matrix has elements that are not finite")
    return reductions.sum(_is_significant(x, values, rtol), axis=-1, dtype=dtypes.int64)


def matrix_power(x, n, /):
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError("matrix_power: the matrices must be square")
    if n < 0:
        x, n = inv(x), -n
    result = _eager.copy(_eager.broadcast_to(dtypes.beside(creation.eye(x.shape[-1], dtype=x.dtype), x), list(x.shape)))
    while n:
        if n & 1:
            result = matmul(result, x)
        n >>= 1
        x = matmul(x, x) if n else x
    return result


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    axes = axes_of(axis, x.ndim)
    size = elementwise.abs(floating(x))
    if ord == math.inf:
        return _extreme(reductions.max, size, axes, keepdims)
    if ord == -math.inf:
        return _extreme(reductions.min, size, axes, keepdims)
    if ord == 0:
        return reductions.sum(size != 0, axis=tuple(axes), keepdims=keepdims, dtype=size.dtype)
    if ord == 1:
        return reductions.sum(size, axis=tuple(axes), keepdims=keepdims)
    if ord == 2:
        largest = _extreme(reductions.max, size, axes, True)
        scale = elementwise.where((largest > 0) & elementwise.isfinite(largest), largest, creation.ones((), dtype=size.dtype))
        ratio = size / scale
        total = elementwise.sqrt(reductions.sum(ratio * ratio, axis=tuple(axes), keepdims=True)) * scale
        return total if keepdims else manipulation.squeeze(total, tuple(axes))
    return reductions.sum(size**ord, axis=tuple(axes), keepdims=keepdims) ** (1.0 / ord)


def _extreme(function, x, axes, keepdims):
    if reductions.any_of(x.shape[a] == 0 for a in axes):
        return creation.zeros_like(reductions.sum(x, axis=tuple(axes), keepdims=keepdims), dtype=x.dtype)
    return function(x, axis=tuple(axes), keepdims=keepdims)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(x)
        result = reductions.sum(values, axis=-1) if ord == "nuc" else _extreme(reductions.max if ord == 2 else reductions.min, values, [values.ndim - 1], False)
    else:
        if ord not in (1, -1, math.inf, -math.inf):
            raise ValueError("matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
        summed = x.ndim - (2 if abs(ord) == 1 else 1)
        sums = reductions.sum(elementwise.abs(floating(x)), axis=summed)
        result = _extreme(reductions.max if ord > 0 else reductions.min, sums, [sums.ndim - 1], False)
    return result[..., None, None] if keepdims else result
