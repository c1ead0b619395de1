"""Operators on orders of elements that PyTorch takes to its backends whole, by core operators: running extremes, medians, modes, and searches in
sorted rows. What one can't say is left whole, and so refused by its name."""

import torch

aten = torch.ops.aten


def of_orders():
    return {
        aten.cummax.default: lambda x, dim: _extreme(x, dim, torch.ge),
        aten.cummin.default: lambda x, dim: _extreme(x, dim, torch.le),
        aten.logcumsumexp.default: _log_of_sums,
        aten.median.dim: _median,
        aten.median.default: _of_all(_median),
        aten.nanmedian.dim: _median_of_numbers,
        aten.nanmedian.default: _of_all(_median_of_numbers),
        aten.mode.default: _mode,
        aten.searchsorted.Tensor: _search,
        aten.searchsorted.Scalar: _search,
        aten.bucketize.Tensor: _bucket,
        aten.bucketize.Scalar: _bucket,
    }


def _is_known(size):
    return isinstance(size, int)


def _running(parts, dim, joined):
    """Of tensors, in prefixes along a dimension: each step joins with what lies a power of two before (Hillis and Steele, "Data parallel algorithms", 1986).
    `joined(earlier, later)` is associative."""
    size, distance = parts[0].shape[dim], 1
    while distance < size:
        later = [x.narrow(dim, distance, size - distance) for x in parts]
        earlier = [x.narrow(dim, 0, size - distance) for x in parts]
        parts = [torch.cat([x.narrow(dim, 0, distance), y], dim) for x, y in zip(parts, joined(earlier, later))]
        distance *= 2
    return parts


def _extreme(x, dim, is_ahead):
    """Of equal ones the last; what is no number stays from where it is."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    dim %= x.dim()
    if not _is_known(x.shape[dim]):
        return NotImplemented
    places = torch.arange(x.shape[dim]).view([-1 if axis == dim else 1 for axis in range(x.dim())]).expand(x.shape)

    def joined(earlier, later):
        takes = is_ahead(later[0], earlier[0])
        if x.is_floating_point():
            takes = takes & ~earlier[0].isnan() | later[0].isnan()
        return [torch.where(takes, b, a) for a, b in zip(earlier, later)]

    return tuple(_running([x, places], dim, joined))


def _log_of_sums(x, dim):
    if x.dim() == 0:
        return x.clone()
    if not _is_known(x.shape[dim]) or not x.is_floating_point():
        return NotImplemented

    def joined(earlier, later):
        top = torch.maximum(earlier[0], later[0])
        offset = torch.where(top.isinf(), 0.0, top)
        return [torch.where(top == torch.inf, top, ((earlier[0] - offset).exp() + (later[0] - offset).exp()).log() + offset)]

    wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    return _running([wide], dim % x.dim(), joined)[0].to(x.dtype)


def _of_all(way):
    def of_all(x):
        found = way(x.reshape(-1), 0)
        return found if found is NotImplemented else found[0]

    return of_all


def _with_kept(values, indices, dim, keepdim):
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _median(x, dim, keepdim=False):
    """The lower of two in the middle; where there is one that is no number, the first of those."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    size = x.shape[dim]
    if not _is_known(size) or size == 0:
        return NotImplemented
    values, indices = x.kthvalue((size + 1) // 2, dim, True)
    if x.is_floating_point():
        has_none = x.isnan().any(dim, True)
        indices = torch.where(has_none, x.isnan().to(torch.int32).argmax(dim, True), indices)
        values = torch.where(has_none, torch.nan, values)
    return _with_kept(values, indices, dim, keepdim)


def _median_of_numbers(x, dim, keepdim=False):
    if not x.is_floating_point():
        return _median(x, dim, keepdim)
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    if not _is_known(x.shape[dim]) or x.shape[dim] == 0:
        return NotImplemented
    values, indices = x.sort(dim)  # what is no number comes last
    middle = ((~x.isnan()).sum(dim, True) - 1).clamp(min=0) // 2
    return _with_kept(values.gather(dim, middle), indices.gather(dim, middle), dim, keepdim)


def _mode(x, dim=-1, keepdim=False):
    """The smallest of the most frequent ones, with the last of its places: runs of equal ones in sorted rows, whose lengths are distances from
    their starts."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    dim %= x.dim()
    if not _is_known(x.shape[dim]) or x.shape[dim] == 0:
        return NotImplemented
    size = x.shape[dim]
    values, order = x.sort(stable=True, dim=dim)
    places = torch.arange(size).view([-1 if axis == dim else 1 for axis in range(x.dim())]).expand(x.shape)
    is_first = values.narrow(dim, 1, size - 1) != values.narrow(dim, 0, size - 1)
    is_first = torch.cat([torch.ones_like(values.narrow(dim, 0, 1), dtype=torch.bool), is_first], dim)
    starts = _extreme(torch.where(is_first, places, 0), dim, torch.ge)[0]
    longest = (places - starts).argmax(dim, True)
    return _with_kept(values.gather(dim, longest), order.gather(dim, longest), dim, keepdim)


def _search(rows, x, *, out_int32=False, right=False, side=None, sorter=None):
    """How many of each sorted row are less than x, or no greater for the right side: a binary search whose steps are powers of two. x is a
    tensor or a number; they are compared in the dtype that arithmetic of both has, to which neither a number nor a tensor without dimensions
    adds bits."""
    size = rows.shape[-1]
    if not _is_known(size):
        return NotImplemented
    if sorter is not None:
        rows = rows.gather(-1, sorter)
    right = right or side == "right"
    common = torch.result_type(rows, x)
    if not isinstance(x, torch.Tensor):
        x = torch.full((), x, dtype=torch.float64 if isinstance(x, (float, torch.SymFloat)) else torch.int64)
    rows, sought = rows.to(common), x.to(common)
    count = torch.zeros(x.shape, dtype=torch.int64)
    step = 1 << size.bit_length() >> 1
    while step:
        reached = count + step
        place = reached.clamp(max=size) - 1
        value = rows.index_select(0, place.flatten()).reshape(place.shape) if rows.dim() == 1 else rows.gather(-1, place)
        is_beyond = value > sought if right else value >= sought
        count = torch.where((reached > size) | is_beyond, count, reached)
        step //= 2
    return count.to(torch.int32) if out_int32 else count


def _bucket(x, rows, *, out_int32=False, right=False):
    return _search(rows, x, out_int32=out_int32, right=right)
