"""Losses that PyTorch would decompose into writes by index. Classes are compared instead, so that a gradient is elementwise, and one loop with
the softmax's before it."""

import torch

from .elementwise import choose, compare
from .lowering import lowers

MEAN = 1  # of the reductions "none", "mean", "sum"


def _at_axis(g, x, rank, axis):
    """A vector along one axis of a tensor of that rank."""
    return g.reshape(x, [x.shape[0] if dim == axis else 1 for dim in range(rank)])


@lowers("aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default")
def _nll_loss_backward(g, gradient, x, target, weight, reduction, ignored, total):
    """-gradient at the class of each sample, 0 elsewhere. A target that is no class is refused on the way forth, which reads at it."""
    axis = min(x.rank - 1, 1)
    of_samples = [1 if dim == axis else size for dim, size in enumerate(x.shape)]
    target = g.reshape(target, of_samples)
    if reduction == MEAN:
        gradient = g.binary("div", gradient, total)
    elif gradient.rank:
        gradient = g.reshape(gradient, of_samples)
    if weight is not None:
        gradient = g.binary("mul", gradient, _at_axis(g, weight, x.rank, axis))
    counts = g.op("not", [compare(g, "equal", target, g.scalar(ignored, target.dtype))])
    gradient = choose(g, counts, g.op("neg", [gradient]), g.scalar(0, gradient.dtype))
    classes = g.op("iota", [], x.shape, torch.int64, typed=True, axis=axis)
    return choose(g, compare(g, "equal", classes, g.cast(target, torch.int64)), gradient, g.scalar(0, gradient.dtype))
