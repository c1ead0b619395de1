"""Activations as modules: each calls the function of its name with what it was made with."""

import inspect

from .. import numpy as tnp
from . import functional
from .module import Module, Parameter

__all__ = ["Identity", "PReLU", "Sigmoid", "Tanh"]


class Identity(Module):
    """Takes and forgets any arguments."""

    def __init__(self, *_, **__):
        super().__init__()

    def forward(self, x):
        return x


class PReLU(Module):
    def __init__(self, num_parameters=1, init=0.25):
        super().__init__()
        self.weight = Parameter(tnp.full((num_parameters,), init, dtype=tnp.float32))

    def forward(self, x):
        return functional.prelu(x, self.weight)


class Sigmoid(Module):
    def forward(self, x):
        return tnp.sigmoid(x)


class Tanh(Module):
    def forward(self, x):
        return tnp.tanh(x)


def _activation(name, function):
    """A class whose arguments are the function's after the first."""
    signature = inspect.signature(function)
    taken = list(signature.parameters.values())[1:]

    class Activation(Module):
        def __init__(self, *arguments, **named):
            super().__init__()
            self.settings = inspect.Signature(taken).bind(*arguments, **named).arguments

        def forward(self, x):
            return function(x, **self.settings)

        def extra_repr(self):
            return ", ".join(f"{key}={value}" for key, value in self.settings.items())

    Activation.__name__ = Activation.__qualname__ = name
    Activation.__doc__ = f"functional.{function.__name__}"
    Activation.__module__ = __name__
    return Activation


for _name, _function in {
    "CELU": functional.celu, "ELU": functional.elu, "GELU": functional.gelu, "GLU": functional.glu, "Hardsigmoid": functional.hardsigmoid,
    "Hardswish": functional.hardswish, "Hardtanh": functional.hardtanh, "LeakyReLU": functional.leaky_relu, "LogSigmoid": functional.logsigmoid,
    "LogSoftmax": functional.log_softmax, "Mish": functional.mish, "ReLU": functional.relu, "ReLU6": functional.relu6, "SELU": functional.selu,
    "SiLU": functional.silu, "Softmax": functional.softmax, "Softplus": functional.softplus, "Softsign": functional.softsign,
}.items():  # fmt: skip
    globals()[_name] = _activation(_name, _function)
    __all__.append(_name)
