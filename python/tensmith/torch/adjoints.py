"""Operators, and ways back of others, that PyTorch has no decomposition of, by core operators. What one can't say is left whole, and so refused by its name."""

import math

import torch

aten = torch.ops.aten


def adjoints():
    return {
        aten.replication_pad1d_backward.default: _replicated,
        aten.replication_pad2d_backward.default: _replicated,
        aten.replication_pad3d_backward.default: _replicated,
        aten._upsample_bilinear2d_aa.default: _resampled(_linear, 1),
        aten._upsample_bicubic2d_aa.default: _resampled(_cubic, 2),
        aten._upsample_bilinear2d_aa_backward.default: _gradient_of_resampled(_linear, 1),
        aten._upsample_bicubic2d_aa_backward.default: _gradient_of_resampled(_cubic, 2),
        aten._embedding_bag_backward.default: _bags,
        aten._weight_norm_interface_backward.default: _weight_norm,
        aten._cdist_backward.default: _distances,
        aten._pdist_backward.default: _distances_of_pairs,
        aten.masked_scatter_backward.default: _scattered,
        aten.diagonal_scatter.default: _with_diagonal,
    }


def _replicated(gradient, x, padding):
    """Along each axis the first and the last element get what lies beyond them, too. A negative padding has cut elements off, which get none."""
    for i in range(len(padding) // 2):
        axis, before, after = gradient.dim() - 1 - i, padding[2 * i], padding[2 * i + 1]
        gradient = torch.constant_pad_nd(gradient, [0, 0] * i + [max(-before, 0), max(-after, 0)])
        before, after, size = max(before, 0), max(after, 0), x.shape[axis]
        if size == 1:
            gradient = gradient.sum(axis, keepdim=True)
            continue
        first = gradient.narrow(axis, 0, before + 1).sum(axis, keepdim=True)
        last = gradient.narrow(axis, before + size - 1, after + 1).sum(axis, keepdim=True)
        gradient = torch.cat([first, gradient.narrow(axis, before + 1, size - 2), last], axis)
    return gradient


def _linear(x):
    return (1 - x.abs()).clamp(min=0)


def _cubic(x, a=-0.5):
    """Keys's kernel, with the factor that PIL has."""
    x = x.abs()
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((x - 5) * x + 8) * x * a - 4 * a
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


def _weights(kernel, reach, size, result, is_aligned, factor, like):
    """[result, size]: what each input counts for each result of a resampling whose window widens with the scale."""
    if is_aligned:
        scale = (size - 1) / (result - 1) if result > 1 else 0.0
    else:
        scale = 1 / factor if factor else size / result
    width = max(scale, 1.0)
    centre = scale * (torch.arange(result, dtype=like.dtype)[:, None] + 0.5)
    place = torch.arange(size, dtype=like.dtype)[None, :]
    begin, end = (centre - reach * width + 0.5).clamp(min=0).floor(), (centre + reach * width + 0.5).clamp(max=size).floor()
    weights = torch.where((place >= begin) & (place < end), kernel((place - centre + 0.5) / width), 0.0)
    return weights / weights.sum(1, keepdim=True)


def _resampled(kernel, reach):
    def resampled(x, output_size, align_corners, scales_h=None, scales_w=None):
        if not x.is_floating_point():
            return NotImplemented
        rows = _weights(kernel, reach, x.shape[2], output_size[0], align_corners, scales_h, x)
        columns = _weights(kernel, reach, x.shape[3], output_size[1], align_corners, scales_w, x)
        return rows @ x @ columns.t()

    return resampled


def _gradient_of_resampled(kernel, reach):
    def gradient_of(gradient, output_size, input_size, align_corners, scales_h=None, scales_w=None):
        rows = _weights(kernel, reach, input_size[2], output_size[0], align_corners, scales_h, gradient)
        columns = _weights(kernel, reach, input_size[3], output_size[1], align_corners, scales_w, gradient)
        return rows.t() @ gradient @ columns

    return gradient_of


def _bags(gradient, indices, offsets, bag, sizes, largest, count, by_frequency, mode, sparse, weights, padding_idx=-1):
    """Of sums (mode 0) and means (1): each row gets the gradients of the bags that it is in. PyTorch may have left out which bag an index is in."""
    if by_frequency or sparse or mode == 2 or padding_idx >= 0:
        return NotImplemented
    bag = (offsets[None, :] <= torch.arange(indices.shape[0])[:, None]).sum(1) - 1
    rows = gradient[bag]
    if mode == 1:
        rows = rows / sizes[bag][:, None].to(rows.dtype)
    if weights is not None:
        rows = rows * weights[:, None]
    return torch.zeros(count, gradient.shape[1], dtype=gradient.dtype).index_put([indices], rows, accumulate=True)


def _weight_norm(gradient, v, g, norms, dim):
    """Of g v / |v|, with a norm for each index of one dimension."""
    axes = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    norms = norms.reshape(g.shape)
    along = (gradient * v).sum(axes, keepdim=True)
    return g / norms * (gradient - v * (along / norms.square())), along / norms


def _slope(apart, distance, p):
    """What a distance changes by with one of its coordinates; 0 where it is 0."""
    if p == 0:
        return torch.zeros_like(apart)
    if p == 1:
        return apart.sign()
    if p == float("inf"):
        return torch.where(apart.abs() == distance, apart.sign(), 0.0)
    slope = apart / distance if p == 2 else apart.sign() * (apart.abs() / distance) ** (p - 1)
    return torch.where((distance == 0) | (apart == 0), 0.0, slope)


def _distances(gradient, a, b, p, distances):
    slope = _slope(a.unsqueeze(-2) - b.unsqueeze(-3), distances.unsqueeze(-1), p)
    return (gradient.unsqueeze(-1) * slope).sum(-2).sum_to_size(a.shape)


def _distances_of_pairs(gradient, x, p, distances):
    count = x.shape[0]
    if not isinstance(count, int):
        return NotImplemented
    if count < 2:
        return torch.zeros_like(x)
    first = torch.cat([torch.full((count - 1 - i,), i) for i in range(count - 1)])
    second = torch.cat([torch.arange(i + 1, count) for i in range(count - 1)])
    part = gradient.unsqueeze(-1) * _slope(x[first] - x[second], distances.unsqueeze(-1), p)
    return torch.zeros_like(x).index_add(0, first, part).index_add(0, second, -part)


def _scattered(gradient, mask, sizes):
    """Each element that was written came from the source's next one."""
    count = math.prod(sizes)
    mask = mask.expand(gradient.shape).flatten()
    place = torch.where(mask, mask.to(torch.int64).cumsum(0) - 1, count).clamp(max=count)
    return torch.zeros(count + 1, dtype=gradient.dtype).scatter_add(0, place, gradient.flatten()).narrow(0, 0, count).reshape(sizes)


def _with_diagonal(x, source, offset=0, dim1=0, dim2=1):
    rows, columns = x.movedim((dim1, dim2), (-2, -1)).shape[-2:]
    if not all(isinstance(size, int) for size in (rows, columns, source.shape[-1])):
        return NotImplemented
    if not source.shape[-1]:
        return x.clone()
    places = (torch.arange(rows) - max(-offset, 0)).clamp(0, source.shape[-1] - 1)
    is_there = torch.arange(columns) - torch.arange(rows)[:, None] == offset
    written = torch.where(is_there, source.index_select(-1, places).unsqueeze(-1), x.movedim((dim1, dim2), (-2, -1)))
    return written.movedim((-2, -1), (dim1, dim2))
