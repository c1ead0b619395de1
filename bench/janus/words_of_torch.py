"""JANUS's programs in PyTorch: the same sources, where `tensmith` and its parts are names for PyTorch's.

What both libraries call alike is PyTorch's own; the rest is said here. As with our tensors, nothing is recorded for derivatives but within `ts.record()`.
"""

import contextlib
import functools
import importlib
import sys
import types

import torch

_MODULES = ("janus_games", "janus_pictures", "janus_sequences", "programs_of_janus")


def _along(function):
    """What has an `axis` here, and a `dim` there."""
    return lambda x, axis, **named: function(x, dim=axis, **named)


def _reduced(function):
    return lambda x, axis=None, **named: function(x, **named) if axis is None else function(x, dim=axis, **named)


class Generator:
    def __init__(self, seed):
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, shape, dtype):
        return torch.randn(*shape, generator=self._generator, dtype=dtype)


def _numpy():
    names = types.ModuleType("tensmith.numpy")
    for name in ("tanh", "exp", "sigmoid", "reshape", "zeros", "ones", "zeros_like", "ones_like", "clip", "minimum", "float32"):
        setattr(names, name, getattr(torch, name))
    names.asarray, names.concat = torch.as_tensor, _along(torch.cat)
    names.mean, names.sum = _reduced(torch.mean), _reduced(torch.sum)
    names.take_along_axis = lambda x, places, axis: torch.take_along_dim(x, places, dim=axis)
    names.random = types.SimpleNamespace(Generator=Generator)
    return names


def _packages():
    """By their names."""
    nn, optim, package = (types.ModuleType(name) for name in ("tensmith.nn", "tensmith.optim", "tensmith"))
    nn.__dict__.update(vars(torch.nn) | {"manual_seed": torch.manual_seed, "functional": torch.nn.functional})
    optim.__dict__.update(vars(torch.optim) | {"clip_grad_norm_": torch.nn.utils.clip_grad_norm_})
    package.nn, package.optim, package.numpy, package.record = nn, optim, _numpy(), torch.enable_grad
    return {"tensmith": package, "tensmith.nn": nn, "tensmith.optim": optim, "tensmith.numpy": package.numpy}


@contextlib.contextmanager
def _instead(modules):
    before = {name: sys.modules.pop(name, None) for name in modules}
    sys.modules.update({name: module for name, module in modules.items() if module})
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module:
                sys.modules[name] = module


def programs():
    with _instead(_packages() | dict.fromkeys(_MODULES)):
        return importlib.import_module("programs_of_janus").PROGRAMS


def _detached(x):
    if isinstance(x, torch.Tensor):
        return x.detach()
    return type(x)(_detached(each) for each in x) if type(x) in (list, tuple) else x


def converting(convert):
    """Converts a program's function. What it leaves in its object has no history, as users of PyTorch would see to."""

    def of(function):
        converted = convert(function)

        @functools.wraps(function)
        def step(*arguments):
            result = converted(*arguments)
            if hasattr(arguments[0], "state") and isinstance(arguments[0].state, list):
                arguments[0].state = _detached(arguments[0].state)
            return result

        return step

    return of


def as_it_is(function):
    return function
