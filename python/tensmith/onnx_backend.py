"""Tensmith as a backend of the `onnx` package: what its conformance suite is run with.

    import onnx.backend.test, tensmith.onnx_backend as backend
    onnx.backend.test.BackendTest(backend, __name__)
"""

import onnx
from onnx.backend.base import Backend, BackendRep

from . import compile as compile_model


class TensmithRep(BackendRep):
    """A compiled model."""

    def __init__(self, model):
        self._model = model

    def run(self, inputs, **kwargs):
        """The outputs for inputs in the model's order."""
        return tuple(self._model.run(*inputs))


class TensmithBackend(Backend):
    """Compiles for the host's CPU."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        return device == "CPU"

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        super().prepare(model, device, **kwargs)
        data = model if isinstance(model, bytes) else model.SerializeToString()
        return TensmithRep(compile_model(data, **kwargs))

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"


is_compatible = TensmithBackend.is_compatible
prepare = TensmithBackend.prepare
run_model = TensmithBackend.run_model
supports_device = TensmithBackend.supports_device
