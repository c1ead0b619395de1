"""Initial values of parameters, drawn into a tensor in place."""

import math

from .random import generator as _stream


def _drawn(tensor, values):
    tensor[...] = values
    return tensor


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    return _drawn(tensor, _stream(generator).uniform(tensor.shape, a, b, dtype=tensor.dtype))


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    return _drawn(tensor, _stream(generator).normal(tensor.shape, mean, std, dtype=tensor.dtype))


def constant_(tensor, value):
    tensor[...] = value
    return tensor


def zeros_(tensor):
    return constant_(tensor, 0)


def ones_(tensor):
    return constant_(tensor, 1)


def fans(tensor):
    """How many numbers each output sums up, and each input goes into."""
    if tensor.ndim < 2:
        raise ValueError("fans are of tensors of at least two dimensions")
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Glorot and Bengio, AISTATS 2010."""
    bound = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))), generator)


def _gain(nonlinearity, a):
    known = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "leaky_relu": math.sqrt(2 / (1 + a * a)), "selu": 0.75}
    if nonlinearity not in known:
        raise ValueError(f"the gain of {nonlinearity!r} is not known; those of {', '.join(known)} are")
    return known[nonlinearity]


def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """He and others, ICCV 2015."""
    bound = math.sqrt(3) * _gain(nonlinearity, a) / math.sqrt(fans(tensor)[mode == "fan_out"])
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    return normal_(tensor, 0.0, _gain(nonlinearity, a) / math.sqrt(fans(tensor)[mode == "fan_out"]), generator)
