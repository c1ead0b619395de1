"""ONNX Runtime's Python interface over Tensmith, for programs that were written for `onnxruntime`.

    import tensmith.ort as ort                       # instead of: import onnxruntime as ort
    session = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    outputs = session.run(None, {"x": x})

A program that can't be changed gets it under onnxruntime's name, when this is called before its first import:

    import tensmith.ort; tensmith.ort.install()

The names, the order and meaning of arguments and the classes of exceptions are those of the version in `__version__`; what
is refused, and what has no meaning here, is listed in docs/onnxruntime.md.
"""

import sys
import types

from .. import __version__ as _tensmith_version
from . import errors
from .options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtArenaCfg,
    OrtMemType,
    RunOptions,
    SessionOptions,
)
from .session import InferenceSession, set_seed
from .values import IOBinding, ModelMetadata, NodeArg, OrtDevice, OrtValue

__version__ = "1.31.1"  # of ONNX Runtime, whose interface this is

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg",
    "OrtAllocatorType", "OrtArenaCfg", "OrtDevice", "OrtMemType", "OrtValue", "RunOptions", "SessionOptions",
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_build_info",
    "get_device", "get_version_string", "install", "preload_dlls", "set_default_logger_severity",
    "set_default_logger_verbosity", "set_seed",
]  # fmt: skip


def get_available_providers():
    """The one provider there is: compiled code for this machine's CPU, by the name that programs ask for."""
    return ["CPUExecutionProvider"]


get_all_providers = get_available_providers


def get_device():
    return "CPU"


def get_version_string():
    return __version__


def get_build_info():
    return f"Tensmith {_tensmith_version}"


def set_default_logger_severity(severity):
    """Nothing is logged, whatever the severity; it is checked as onnxruntime checks it."""
    if not 0 <= int(severity) <= 4:
        raise RuntimeError("Invalid logging severity. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal")


def set_default_logger_verbosity(verbosity):
    int(verbosity)


def enable_telemetry_events():
    """There are none."""


disable_telemetry_events = enable_telemetry_events


def preload_dlls(cuda=True, cudnn=True, msvc=True, directory=None):
    """There are none to load."""


capi = types.ModuleType("onnxruntime.capi", "Where onnxruntime keeps its exceptions and classes.")
capi.__path__ = []
capi.onnxruntime_pybind11_state = capi._pybind_state = errors
capi.onnxruntime_inference_collection = sys.modules[__name__]

_MODULES = {
    "onnxruntime": sys.modules[__name__],
    "onnxruntime.capi": capi,
    "onnxruntime.capi.onnxruntime_pybind11_state": errors,
    "onnxruntime.capi._pybind_state": errors,
    "onnxruntime.capi.onnxruntime_inference_collection": sys.modules[__name__],
}


def install():
    """Makes `import onnxruntime` mean this module, in this process, from now on.

    What has imported onnxruntime before keeps what it got, and so this refuses if someone has.
    """
    present = sys.modules.get("onnxruntime")
    if present not in (None, sys.modules[__name__]):
        raise ImportError(
            "onnxruntime is imported already, and those that hold it would keep it; call tensmith.ort.install() before "
            "anything imports onnxruntime"
        )
    sys.modules.update(_MODULES)
