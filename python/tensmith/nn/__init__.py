"""Modules of eager tensors, as PyTorch has them: the same names, arguments, defaults and names of parameters.

    import tensmith as ts, tensmith.numpy as tnp
    from tensmith import nn

    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    with ts.record():
        loss = nn.functional.cross_entropy(model(x), labels)
    loss.backward()

docs/eager.md says what differs.
"""

from . import functional, init
from .activations import *  # noqa: F403
from .attention import *  # noqa: F403
from .containers import ModuleDict, ModuleList, ParameterList, Sequential
from .convolution import *  # noqa: F403
from .layers import *  # noqa: F403
from .losses import *  # noqa: F403
from .module import Module, Parameter
from .random import manual_seed
from .recurrent import *  # noqa: F403

__all__ = ["Module", "ModuleDict", "ModuleList", "Parameter", "ParameterList", "Sequential", "functional", "init", "manual_seed"]
