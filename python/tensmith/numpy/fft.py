"""Discrete Fourier transforms: the standard's extension `fft`."""

import math

from .. import _eager
from . import creation, dtypes, elementwise, manipulation
from .manipulation import axes_of, axis_of

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq", "rfftn"]

_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _scale(norm, n, inverse):
    if norm not in _SWAPPED:
        raise ValueError("norm is 'backward', 'forward' or 'ortho'")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1.0 / n if (norm == "backward") == inverse else 1.0


def _resized(x, n, axis):
    """Cut at the end, or with zeros there."""
    size = x.shape[axis]
    if n < 1:
        raise ValueError("a transform has at least one number")
    if n < size:
        return x[(slice(None),) * axis + (slice(0, n),)]
    if n == size:
        return x
    shape = list(x.shape)
    shape[axis] = n - size
    return manipulation.concat([x, creation.zeros(shape, dtype=x.dtype)], axis=axis)


def _transform(x, n, axis, norm, inverse):
    axis = axis_of(axis, x.ndim)
    x = _eager.cast(x, dtypes.complex_of(x.dtype))
    n = x.shape[axis] if n is None else n
    lines = manipulation.moveaxis(_resized(x, n, axis), axis, -1)
    result = _eager.apply("fourier", [lines], {"inverse": inverse, "scale": float(_scale(norm, n, inverse))})
    return manipulation.moveaxis(result, -1, axis)


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    return _transform(x, n, axis, norm, False)


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    return _transform(x, n, axis, norm, True)


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis] if n is None else n
    whole = _transform(x, n, axis, norm, False)
    return _eager.copy(whole[(slice(None),) * axis + (slice(0, n // 2 + 1),)])


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    axis = axis_of(axis, x.ndim)
    n = 2 * (x.shape[axis] - 1) if n is None else n
    half = _resized(_eager.cast(x, dtypes.complex_of(x.dtype)), n // 2 + 1, axis)
    before = (slice(None),) * axis
    # The rest of a spectrum of real numbers mirrors the half that is given; what is imaginary of number 0 and of the middle is left out.
    mirrored = elementwise.conj(manipulation.flip(half[before + (slice(1, (n + 1) // 2),)], axis=axis))
    whole = manipulation.concat([half, mirrored], axis=axis)
    whole = _eager.copy(whole)
    for single in [0] + ([n // 2] if n % 2 == 0 else []):
        place = before + (single,)
        whole[place] = _eager.cast(elementwise.real(whole[place]), whole.dtype)
    return elementwise.real(_transform(whole, n, axis, norm, True))


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    return irfft(elementwise.conj(_eager.cast(x, dtypes.complex_of(x.dtype))), n=n, axis=axis, norm=_SWAPPED[norm])


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    return elementwise.conj(rfft(x, n=n, axis=axis, norm=_SWAPPED[norm]))


def _axes(x, s, axes):
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = [axis_of(axis, x.ndim) for axis in axes]
    sizes = [x.shape[axis] for axis in axes] if s is None else list(s)
    if len(sizes) != len(axes):
        raise ValueError("there must be as many sizes as axes")
    return axes, sizes


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    for axis, n in zip(*_axes(x, s, axes)):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    for axis, n in zip(*_axes(x, s, axes)):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    axes, sizes = _axes(x, s, axes)
    x = rfft(x, n=sizes[-1], axis=axes[-1], norm=norm)
    return fftn(x, s=sizes[:-1], axes=axes[:-1], norm=norm) if len(axes) > 1 else x


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    last_is_given = s is not None
    axes, sizes = _axes(x, s, axes)
    if not last_is_given:
        sizes[-1] = 2 * (x.shape[axes[-1]] - 1)
    if len(axes) > 1:
        x = ifftn(x, s=sizes[:-1], axes=axes[:-1], norm=norm)
    return irfft(x, n=sizes[-1], axis=axes[-1], norm=norm)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    positive = creation.arange((n - 1) // 2 + 1, device=device)
    numbers = manipulation.concat([positive, creation.arange(-(n // 2), 0)])
    return _eager.cast(_eager.cast(numbers, dtypes.float64) / (n * d), dtypes.as_dtype(dtype) or dtypes.float64)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    numbers = creation.arange(n // 2 + 1, device=device)
    return _eager.cast(_eager.cast(numbers, dtypes.float64) / (n * d), dtypes.as_dtype(dtype) or dtypes.float64)


def fftshift(x, /, *, axes=None):
    axes = axes_of(axes, x.ndim)
    return manipulation.roll(x, tuple(x.shape[axis] // 2 for axis in axes), axis=tuple(axes))


def ifftshift(x, /, *, axes=None):
    axes = axes_of(axes, x.ndim)
    return manipulation.roll(x, tuple(-(x.shape[axis] // 2) for axis in axes), axis=tuple(axes))
