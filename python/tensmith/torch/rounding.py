"""Rounding to quantised values and back, through which PyTorch trains for them. Results are PyTorch's bit for bit: the inverse scale is of
single precision, and is multiplied by in the input's own type, or in single precision where that is of 16 bits; halves are rounded to even before a
whole zero point is added. Where a quotient by channels doesn't fit 64 bits, PyTorch's own result is undefined; here it is the nearest bound."""

import numpy
import torch

aten = torch.ops.aten


def of_rounding():
    return {
        aten.fake_quantize_per_tensor_affine_cachemask.default: _by_numbers,
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _by_tensors,
        aten.fake_quantize_per_channel_affine_cachemask.default: _by_channels,
    }


def _rounded(x, scale, inverse, zero_point, least, most):
    """The values, and where they lay within the bounds, which is where a gradient goes through. What is no number becomes the least, as in PyTorch."""
    is_whole = not (isinstance(zero_point, torch.Tensor) and zero_point.is_floating_point())
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    at = torch.round(wide * inverse) + zero_point if is_whole else torch.round(wide * inverse + zero_point)
    is_enough = at >= least
    bounded = torch.where(is_enough, at.clamp(max=most), least)
    if not is_whole:
        bounded = bounded.double()  # since differences to zeros between whole numbers are rounded once
    return ((bounded - zero_point) * scale).to(wide.dtype).to(x.dtype), is_enough & (at <= most)


def _by_numbers(x, scale, zero_point, least, most):
    inverse = float(numpy.float32(1) / numpy.float32(scale))
    return _rounded(x, float(numpy.float32(scale)), inverse, zero_point, least, most)


def _by_tensors(x, scale, zero_point, is_enabled, least, most):
    values, is_within = _rounded(x, scale, 1 / scale, zero_point, least, most)
    is_enabled = is_enabled != 0
    return torch.where(is_enabled, values, x), is_within | ~is_enabled


def _by_channels(x, scale, zero_point, axis, least, most):
    shape = [-1 if each == axis % x.dim() else 1 for each in range(x.dim())]
    scale, zero_point = scale.view(shape), zero_point.view(shape)
    return _rounded(x, scale, 1 / scale, zero_point, least, most)
