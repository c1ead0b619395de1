"""Losses as modules, over `functional`."""

from . import functional
from .module import Module

__all__ = ["BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "NLLLoss", "SmoothL1Loss"]


def _loss(name, function, *tensors):
    """A class made with the function's settings, of which `tensors` are buffers."""

    class Loss(Module):
        def __init__(self, *arguments, **settings):
            super().__init__()
            settings |= dict(zip(tensors, arguments))
            if len(arguments) > len(tensors):
                raise TypeError(f"{name} takes {len(tensors)} arguments without a name")
            for key in tensors:
                self.register_buffer(key, settings.pop(key, None), persistent=False)
            self.settings = settings

        def forward(self, x, target):
            return function(x, target, **self.settings, **{key: getattr(self, key) for key in tensors})

        def extra_repr(self):
            return ", ".join(f"{key}={value}" for key, value in self.settings.items())

    Loss.__name__ = Loss.__qualname__ = name
    Loss.__doc__ = f"functional.{function.__name__}"
    Loss.__module__ = __name__
    return Loss


BCELoss = _loss("BCELoss", functional.binary_cross_entropy, "weight")
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", functional.binary_cross_entropy_with_logits, "weight", "pos_weight")
CrossEntropyLoss = _loss("CrossEntropyLoss", functional.cross_entropy, "weight")
HuberLoss = _loss("HuberLoss", functional.huber_loss)
KLDivLoss = _loss("KLDivLoss", functional.kl_div)
L1Loss = _loss("L1Loss", functional.l1_loss)
MSELoss = _loss("MSELoss", functional.mse_loss)
NLLLoss = _loss("NLLLoss", functional.nll_loss, "weight")
SmoothL1Loss = _loss("SmoothL1Loss", functional.smooth_l1_loss)
