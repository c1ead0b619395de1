"""The exceptions that onnxruntime raises, with its numbers and its way of writing them.

Programs catch them by class, and some look into the text for "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT".
"""

_NUMBERS = {
    "Fail": (1, "FAIL"),
    "InvalidArgument": (2, "INVALID_ARGUMENT"),
    "NoSuchFile": (3, "NO_SUCHFILE"),
    "NoModel": (4, "NO_MODEL"),
    "EngineError": (5, "ENGINE_ERROR"),
    "RuntimeException": (6, "RUNTIME_EXCEPTION"),
    "InvalidProtobuf": (7, "INVALID_PROTOBUF"),
    "ModelLoaded": (8, "MODEL_LOADED"),
    "NotImplemented": (9, "NOT_IMPLEMENTED"),
    "InvalidGraph": (10, "INVALID_GRAPH"),
    "EPFail": (11, "EP_FAIL"),
}


class _OrtError(Exception):
    def __init__(self, message):
        number, name = _NUMBERS[type(self).__name__]
        super().__init__(f"[ONNXRuntimeError] : {number} : {name} : {message}")


class Fail(_OrtError):
    """A run failed."""


class InvalidArgument(_OrtError):
    """What was given does not fit the model."""


class NoSuchFile(_OrtError):
    """The model's file, or one beside it, can't be read."""


class NoModel(_OrtError):
    """Never raised here."""


class EngineError(_OrtError):
    """Never raised here."""


class RuntimeException(_OrtError):
    """Memory could not be had, or a mistake of Tensmith's."""


class InvalidProtobuf(_OrtError):
    """The file is no ONNX model."""


class ModelLoaded(_OrtError):
    """Never raised here."""


class NotImplemented(_OrtError):  # noqa: A001, the name is onnxruntime's
    """The model is valid, and can't be compiled yet."""


class InvalidGraph(_OrtError):
    """The model breaks ONNX's rules."""


class EPFail(_OrtError):
    """Never raised here."""


_BY_CODE = {
    "invalid_argument": InvalidArgument,
    "invalid_model": InvalidGraph,
    "unsupported": NotImplemented,
    "io_error": NoSuchFile,
    "resource_exhausted": RuntimeException,
}


def of_compilation(error):
    """onnxruntime's counterpart of a tensmith.Error that a compilation ended in."""
    return _BY_CODE.get(error.code, RuntimeException)(str(error))


def of_run(error):
    """The same of a run: an input is wrong, memory could not be had, or a node failed."""
    if error.code == "resource_exhausted":
        return RuntimeException(str(error))
    return (InvalidArgument if str(error).startswith("input ") else Fail)(str(error))
