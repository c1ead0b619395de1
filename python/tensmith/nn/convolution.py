"""Convolutions and pools of one to three dimensions."""

import math

from . import functional
from .layers import draw_, empty
from .module import Module

__all__ = []


def _public(name, base, rank):
    made = type(name, (base,), {"rank": rank, "__module__": __name__, "__doc__": base.__doc__})
    globals()[name] = made
    __all__.append(name)


class _Conv(Module):
    """Over images [N, channels, ...], or without the first dimension."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, dtype=None):
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"{in_channels} and {out_channels} channels are not {groups} groups of one size")
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.sizes = in_channels, out_channels, functional._spread(kernel_size, self.rank)
        self.weight = empty(out_channels, in_channels // groups, *self.sizes[2], dtype=dtype)
        self.register_parameter("bias", empty(out_channels, dtype=dtype) if bias else None)
        draw_(self, in_channels // groups * math.prod(self.sizes[2]))

    def forward(self, x):
        return functional.conv(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self):
        return f"{self.sizes[0]}, {self.sizes[1]}, kernel_size={tuple(self.sizes[2])}, stride={self.stride}, padding={self.padding}"


class _ConvTranspose(Module):
    """The transpose of a convolution's sums."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, dtype=None):
        super().__init__()
        self.settings = stride, padding, output_padding, groups, dilation
        kernel = functional._spread(kernel_size, self.rank)
        self.weight = empty(in_channels, out_channels // groups, *kernel, dtype=dtype)
        self.register_parameter("bias", empty(out_channels, dtype=dtype) if bias else None)
        draw_(self, out_channels // groups * math.prod(kernel))

    def forward(self, x):
        return functional.conv_transpose(x, self.weight, self.bias, *self.settings)


class _MaxPool(Module):
    """The largest in each window."""

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        super().__init__()
        self.settings = kernel_size, stride, padding, dilation, ceil_mode

    def forward(self, x):
        return functional.max_pool(x, self.rank, *self.settings)


class _AvgPool(Module):
    """The mean of each window."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__()
        self.settings = kernel_size, stride, padding, ceil_mode, count_include_pad

    def forward(self, x):
        return functional.avg_pool(x, self.rank, *self.settings)


class _AdaptiveAvgPool(Module):
    """The mean of each of as many parts as are asked for."""

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, x):
        return functional.adaptive_avg_pool(x, self.output_size, self.rank)


for _rank in (1, 2, 3):
    for _name, _base in {"Conv": _Conv, "ConvTranspose": _ConvTranspose, "MaxPool": _MaxPool, "AvgPool": _AvgPool,
                         "AdaptiveAvgPool": _AdaptiveAvgPool}.items():  # fmt: skip
        _public(f"{_name}{_rank}d", _base, _rank)
