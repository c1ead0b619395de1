"""Operators that take or write elements at places which are computed, by core operators. What one can't say is left whole, and so refused by its name."""

import math

import torch

aten = torch.ops.aten


def of_places_computed():
    return {
        aten.put.default: _put,
        aten.repeat_interleave.Tensor: _repeated,
        aten.nonzero_static.default: _places,
        aten.embedding_renorm.default: _renormed,
    }


def _put(x, index, values, accumulate=False):
    """At places that are counted through all elements."""
    return x.flatten().index_put((index.flatten(),), values.flatten(), accumulate).view(x.shape)


def _repeated(repeats, output_size=None):
    """Each place as often as it is told; how many there are in the end must be told, too."""
    if not isinstance(output_size, int):
        return NotImplemented
    return torch.searchsorted(repeats.cumsum(0), torch.arange(output_size), right=True).to(repeats.dtype)


def _places(x, size, fill_value=-1):
    """Those of the first elements that aren't zero, in order, and rows of the other number behind them: each is written where the count of those before
    it says, and what is too many beyond the end."""
    if not all(isinstance(each, int) for each in x.shape):
        return NotImplemented
    is_taken = (x != 0).flatten()
    order = is_taken.cumsum(0) - 1
    target = torch.where(is_taken & (order < size), order, size)
    found = torch.full((size + 1,), -1, dtype=torch.int64).scatter(0, target, torch.arange(x.numel()))[:size]
    strides = [math.prod(x.shape[axis + 1 :]) for axis in range(x.dim())]
    columns = [found // stride % extent if extent else found for stride, extent in zip(strides, x.shape)]
    rows = torch.stack(columns, 1) if columns else found.new_empty(size, 0)
    return torch.where((found >= 0).unsqueeze(1), rows, fill_value)


def _renormed(table, index, max_norm, norm_type):
    """The rows that are read, at most as long as that."""
    is_read = torch.zeros(table.shape[0], dtype=torch.bool).index_put((index.flatten(),), torch.ones((), dtype=torch.bool)).unsqueeze(1)
    norms = torch.linalg.vector_norm(table, norm_type, 1, keepdim=True)
    return torch.where(is_read & (norms > max_norm), table * (max_norm / (norms + 1e-7)), table)
