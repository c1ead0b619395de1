"""Pictures and volumes read at places that a grid says, and pools whose windows the result's size decides: by core operators, with their ways back."""

import itertools

import torch

aten = torch.ops.aten
LINEAR, NEAREST = 0, 1
BORDER, REFLECTION = 1, 2


def of_places():
    return {
        aten.grid_sampler_3d.default: _grid_sample,
        aten.grid_sampler_2d_backward.default: _gradient_of_grid_sample,
        aten.grid_sampler_3d_backward.default: _gradient_of_grid_sample,
        aten.adaptive_max_pool2d.default: _adaptive_max_pool,
        aten.adaptive_max_pool3d.default: _adaptive_max_pool,
        aten.adaptive_max_pool2d_backward.default: _gradient_of_adaptive_max_pool(2),
        aten.adaptive_max_pool3d_backward.default: _gradient_of_adaptive_max_pool(3),
    }


def _place(x, size, padding, is_aligned):
    """From [-1, 1] to the elements of an axis, and the derivative of that."""
    factor = (size - 1) / 2 if is_aligned else size / 2
    place = (x + 1) * factor if is_aligned else ((x + 1) * size - 1) / 2
    slope = torch.full_like(place, factor)
    if padding == REFLECTION:
        low, span = (0.0, float(size - 1)) if is_aligned else (-0.5, float(size))
        if span == 0:
            return torch.zeros_like(place), torch.zeros_like(place)
        distance = place - low
        slope = torch.where(distance < 0, -slope, slope)
        distance = distance.abs()
        is_even = (distance / span).floor() % 2 == 0
        rest = distance.fmod(span)
        place, slope = torch.where(is_even, rest, span - rest) + low, torch.where(is_even, slope, -slope)
    if padding in (BORDER, REFLECTION):
        slope = torch.where((place <= 0) | (place >= size - 1), 0.0, slope)
        place = place.clamp(0, size - 1)
    return place, slope


class _Corners:
    """The elements that each place of a grid reads: [batch, count] indices into the flattened picture and weights, 0 outside, by corner."""

    def __init__(self, x, grid, mode, padding, is_aligned):
        self.sizes, count = x.shape[2:], grid.shape[-1]
        axes = [_place(grid[..., count - 1 - i].flatten(1), size, padding, is_aligned) for i, size in enumerate(self.sizes)]
        self.slopes = [slope for _, slope in axes]
        places = [place.round() if mode == NEAREST else place.floor() for place, _ in axes]
        parts = [place - whole for (place, _), whole in zip(axes, places)]
        self.corners = []
        for bits in itertools.product((0, 1) if mode == LINEAR else (0,), repeat=count):
            at = [whole + bit for whole, bit in zip(places, bits)]
            inside, flat = torch.ones_like(at[0], dtype=torch.bool), 0
            for index, size in zip(at, self.sizes):
                inside = inside & (index >= 0) & (index < size)
                flat = flat * size + index.clamp(0, size - 1).to(torch.int64)
            weights = [part if bit else 1 - part for part, bit in zip(parts, bits)] if mode == LINEAR else []
            self.corners.append((bits, flat, inside, weights))

    def __iter__(self):
        return iter(self.corners)


def _product(factors, like):
    result = torch.ones_like(like)
    for factor in factors:
        result = result * factor
    return result


def _are_known(*tensors):
    return all(isinstance(size, int) for x in tensors for size in x.shape)


def _grid_sample(x, grid, mode, padding, is_aligned):
    if mode not in (LINEAR, NEAREST) or not _are_known(x, grid):
        return NotImplemented
    flat, result = x.flatten(2), 0
    for _, at, inside, weights in _Corners(x, grid, mode, padding, is_aligned):
        weight = torch.where(inside, _product(weights, grid[..., 0].flatten(1)), 0.0)
        result = result + flat.gather(2, at[:, None].expand(-1, x.shape[1], -1)) * weight[:, None]
    return result.reshape(*x.shape[:2], *grid.shape[1:-1])


def _gradient_of_grid_sample(gradient, x, grid, mode, padding, is_aligned, mask):
    if mode not in (LINEAR, NEAREST) or not _are_known(x, grid):
        return NotImplemented
    gradient, flat = gradient.flatten(2), x.flatten(2)
    of_picture = torch.zeros_like(flat)
    of_places = [torch.zeros_like(gradient[:, 0]) for _ in x.shape[2:]]
    corners = _Corners(x, grid, mode, padding, is_aligned)
    for bits, at, inside, weights in corners:
        at = at[:, None].expand(-1, x.shape[1], -1)
        weight = torch.where(inside, _product(weights, gradient[:, 0]), 0.0)
        of_picture = of_picture.scatter_add(2, at, gradient * weight[:, None])
        if mask[1] and mode == LINEAR:
            value = torch.where(inside, (flat.gather(2, at) * gradient).sum(1), 0.0)
            for i, bit in enumerate(bits):
                others = _product(weights[:i] + weights[i + 1 :], value)
                of_places[i] = of_places[i] + value * (others if bit else -others)
    of_grid = torch.stack([of_place * slope for of_place, slope in zip(of_places, corners.slopes)][::-1], -1).reshape(grid.shape)
    return of_picture.reshape(x.shape) if mask[0] else None, of_grid if mask[1] else None


def _adaptive_max_pool(x, result):
    """A window's elements beside one another, those of shorter windows repeated; gives the first of the largest, with its place in the picture."""
    count = len(result)
    if not _are_known(x):
        return NotImplemented
    batch, sizes = x.shape[:-count], x.shape[-count:]
    if not x.numel() or 0 in result:
        return torch.zeros(*batch, *result, dtype=x.dtype), torch.zeros(*batch, *result, dtype=torch.int64)
    windows, places = x.flatten(0, -count - 1).reshape(-1, *sizes), torch.zeros((), dtype=torch.int64)
    for i, (size, out) in enumerate(zip(sizes, result)):
        first = torch.arange(out) * size // out
        last = ((torch.arange(out) + 1) * size + out - 1) // out - 1
        longest = -(-size // out) + (size % out != 0)
        at = torch.minimum(first[:, None] + torch.arange(longest), last[:, None])  # [out, longest]
        windows = windows.index_select(1 + 2 * i, at.flatten()).unflatten(1 + 2 * i, at.shape)
        places = (places * size)[..., None, None] + at
    order = [*range(1, 2 * count, 2), *range(2, 2 * count + 1, 2)]  # results before elements
    windows = windows.permute(0, *order).flatten(count + 1)
    places = places.permute([dim - 1 for dim in order]).flatten(count)
    values, chosen = windows.max(-1)
    indices = places.expand(windows.shape).gather(-1, chosen[..., None])[..., 0]
    return values.reshape(*batch, *result), indices.reshape(*batch, *result)


def _gradient_of_adaptive_max_pool(rank):
    def gradient_of(gradient, x, indices):
        if not _are_known(x):
            return NotImplemented
        flat = torch.zeros_like(x).flatten(-rank)
        return flat.scatter_add(-1, indices.flatten(-rank), gradient.flatten(-rank)).reshape(x.shape)

    return gradient_of
