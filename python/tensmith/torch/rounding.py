"""Rounding to quantised values and back, through which PyTorch trains for them. Results are PyTorch's bit for bit: it multiplies by the inverse scale in
single precision, and rounds halves to even before a whole zero point is added."""

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
    """The values, and where they lay within the bounds, which is where a gradient goes through."""
    is_whole = not (isinstance(zero_point, torch.Tensor) and zero_point.is_floating_point())
    at = torch.round(x.float() * inverse) + zero_point if is_whole else torch.round(x.float() * inverse + zero_point)
    return ((at.clamp(least, most) - zero_point) * scale).to(x.dtype), (at >= least) & (at <= most)


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
