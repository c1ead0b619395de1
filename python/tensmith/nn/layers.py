"""Layers without windows or state over time."""

import math

from .. import numpy as tnp
from ..numpy import creation
from . import functional, init
from .module import Module, Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "Dropout", "Embedding", "Flatten", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "Linear", "RMSNorm", "Unflatten",
]  # fmt: skip


def empty(*shape, dtype=None):
    """A parameter that is yet to be drawn."""
    return Parameter(tnp.zeros(shape, dtype=dtype or tnp.float32))


def draw_(module, fan_in):
    """All parameters between -1 and 1 over the root of how many numbers are summed up, as PyTorch begins."""
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    for tensor in module.parameters(recurse=False):
        init.uniform_(tensor, -bound, bound)


class Linear(Module):
    def __init__(self, in_features, out_features, bias=True, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = empty(out_features, in_features, dtype=dtype)
        self.register_parameter("bias", empty(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        draw_(self, self.in_features)

    def forward(self, x):
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """x1 W x2 + b for each output."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, dtype=None):
        super().__init__()
        self.weight = empty(out_features, in1_features, in2_features, dtype=dtype)
        self.register_parameter("bias", empty(out_features, dtype=dtype) if bias else None)
        draw_(self, in1_features)

    def forward(self, a, b):
        products = tnp.sum((a[..., None, None, :] @ self.weight)[..., 0, :] * b[..., None, :], axis=-1)
        return products if self.bias is None else products + self.bias


class Embedding(Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, dtype=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.weight = empty(num_embeddings, embedding_dim, dtype=dtype)
        init.normal_(self.weight)
        if padding_idx is not None:
            self.weight[padding_idx] = 0

    def forward(self, indices):
        rows = functional.embedding(indices, self.weight)
        if self.padding_idx is None:
            return rows
        # The row of padding gets no gradient.
        return tnp.where((indices == self.padding_idx % self.num_embeddings)[..., None], creation.asarray(self.weight[self.padding_idx].numpy(), copy=True), rows)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"


class Dropout(Module):
    def __init__(self, p=0.5, generator=None):
        super().__init__()
        self.p, self.generator = p, generator

    def forward(self, x):
        return functional.dropout(x, self.p, self.training, self.generator)

    def extra_repr(self):
        return f"p={self.p}"


class Flatten(Module):
    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        first, last = self.start_dim % x.ndim, self.end_dim % x.ndim
        size = 1
        for each in x.shape[first : last + 1]:
            size = size * each
        return tnp.reshape(x, (*x.shape[:first], size, *x.shape[last + 1 :]))


class Unflatten(Module):
    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.size = dim, tuple(unflattened_size)

    def forward(self, x):
        dim = self.dim % x.ndim
        return tnp.reshape(x, (*x.shape[:dim], *self.size, *x.shape[dim + 1 :]))


class LayerNorm(Module):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.register_parameter("weight", init.ones_(empty(*self.normalized_shape, dtype=dtype)) if elementwise_affine else None)
        self.register_parameter("bias", empty(*self.normalized_shape, dtype=dtype) if elementwise_affine and bias else None)

    def forward(self, x):
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.register_parameter("weight", init.ones_(empty(*self.normalized_shape, dtype=dtype)) if elementwise_affine else None)

    def forward(self, x):
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, dtype=None):
        super().__init__()
        self.num_groups, self.eps = num_groups, eps
        self.register_parameter("weight", init.ones_(empty(num_channels, dtype=dtype)) if affine else None)
        self.register_parameter("bias", empty(num_channels, dtype=dtype) if affine else None)

    def forward(self, x):
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class _Norm(Module):
    """Of channels, over all else. `rank`: of the images; None: any."""

    ranks = ()

    def _check(self, x):
        if x.ndim not in self.ranks:
            raise ValueError(f"{type(self).__name__} takes tensors of {' or '.join(map(str, self.ranks))} dimensions, not of {x.ndim}")
        return x


class _BatchNorm(_Norm):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.register_parameter("weight", init.ones_(empty(num_features, dtype=dtype)) if affine else None)
        self.register_parameter("bias", empty(num_features, dtype=dtype) if affine else None)
        dtype = dtype or tnp.float32
        self.register_buffer("running_mean", tnp.zeros(num_features, dtype=dtype) if track_running_stats else None)
        self.register_buffer("running_var", tnp.ones(num_features, dtype=dtype) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", tnp.zeros((), dtype=tnp.int64) if track_running_stats else None)

    def forward(self, x):
        self._check(x)
        share = self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked += 1
            share = 1 / self.num_batches_tracked.item() if share is None else share
        by_batch = self.training or self.running_mean is None
        return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, by_batch, share, self.eps)

    def extra_repr(self):
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    ranks = (5,)


class _InstanceNorm(_Norm):
    def __init__(self, num_features, eps=1e-5, affine=False, dtype=None):
        super().__init__()
        self.eps = eps
        self.register_parameter("weight", init.ones_(empty(num_features, dtype=dtype)) if affine else None)
        self.register_parameter("bias", empty(num_features, dtype=dtype) if affine else None)

    def forward(self, x):
        return functional.instance_norm(self._check(x), self.weight, self.bias, self.eps)


class InstanceNorm1d(_InstanceNorm):
    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    ranks = (5,)
