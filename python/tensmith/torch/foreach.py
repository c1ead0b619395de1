"""Operators on lists of tensors, by which optimisers change all parameters at once, as the operator on one tensor for each."""

import functools

import torch

aten = torch.ops.aten

_NAMES = (
    "abs add addcdiv addcmul ceil clamp_max clamp_min copy div exp floor lerp log maximum minimum mul neg norm pow reciprocal round rsqrt sign sqrt sub "
    "trunc zero"
).split()


def of_lists():
    """The decompositions of those that give new lists, which PyTorch makes of those in place; not each version has all."""
    table = {}
    for name in _NAMES:
        packet = getattr(aten, "_foreach_" + name, None)
        if packet is None:
            continue
        parts = _SUMS.get(name) or functools.partial(_each, _OTHERS.get(name) or getattr(torch, name))
        table.update({getattr(packet, overload): parts for overload in packet.overloads() if not overload.endswith("out")})
    return table


def _each(one, *operands, **named):
    """Lists are taken element by element, and what is none is the same for each."""
    count = len(next(x for x in operands if isinstance(x, (list, tuple))))

    def at(x, i):
        return x[i] if isinstance(x, (list, tuple)) else x

    return [one(*(at(x, i) for x in operands), **{name: at(x, i) for name, x in named.items()}) for i in range(count)]


def _added(operator, xs, first, second, values=1):
    """The values may be a vector, too, of one for each."""
    values = values.unbind() if isinstance(values, torch.Tensor) and values.dim() else values
    return _each(lambda x, a, b, value: x + value * operator(a, b), xs, first, second, values)


def _limit(of_tensors, of_number):
    return lambda x, limit: (of_tensors if isinstance(limit, torch.Tensor) else of_number)(x, limit)


# Functions of one tensor that have another name, or other arguments.
_OTHERS = {
    "maximum": _limit(torch.maximum, torch.clamp_min),
    "minimum": _limit(torch.minimum, torch.clamp_max),
    "copy": aten.copy.default,
    "norm": torch.linalg.vector_norm,
    "zero": torch.zeros_like,
}
_SUMS = {"addcmul": functools.partial(_added, torch.mul), "addcdiv": functools.partial(_added, torch.div)}
