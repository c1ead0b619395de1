"""What a program may ask of a session and of a run, under onnxruntime's names.

An option that means something here is read by session.py; the others are kept, so that a program reads back what it wrote.
A wrong type is a TypeError and an unknown attribute an AttributeError, as with onnxruntime's own classes.
"""

import enum
import os


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99

    __str__ = enum.Enum.__str__


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1

    __str__ = enum.Enum.__str__


class ExecutionOrder(enum.IntEnum):
    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2

    __str__ = enum.Enum.__str__


class OrtAllocatorType(enum.IntEnum):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    DEFAULT = 0


class OrtArenaCfg:
    """Kept, without effect: memory is planned when a model is compiled."""

    def __init__(self, *settings):
        self.settings = settings


class _Typed:
    """An attribute of one type, with a default; assignments of other types are refused."""

    def __init__(self, kind, default):
        self.kind, self.default = kind, default

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        return self if instance is None else instance._values.get(self.name, self.default)

    def __set__(self, instance, value):
        if self.kind is int and not isinstance(value, enum.Enum) and hasattr(value, "__index__"):
            value = value.__index__()
        if self.kind is str and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, self.kind) or (self.kind is int and isinstance(value, enum.Enum)):
            raise TypeError(f"{type(instance).__name__}.{self.name} is of type {self.kind.__name__}, not {type(value).__name__}")
        instance._values[self.name] = value


class _Entries:
    """Configuration by keys and texts."""

    __slots__ = ()

    def _add(self, key, value):
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"a configuration's key and value are texts, not {key!r} and {value!r}")
        self._entries[key] = value

    def _get(self, key):
        if key not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._entries[key]


class SessionOptions(_Entries):
    """onnxruntime.SessionOptions.

    Means something here: intra_op_num_threads, graph_optimization_level (ORT_DISABLE_ALL keeps each operator apart),
    use_deterministic_compute (precision "exact"), enable_profiling, profile_file_prefix, optimized_model_filepath (gets
    the compiled module), add_free_dimension_override_by_name, and the configuration entries "tensmith.precision",
    "tensmith.target" and "tensmith.cache_dir", which are `tensmith.compile`'s.
    """

    __slots__ = ("_values", "_entries", "_dimensions")

    enable_cpu_mem_arena = _Typed(bool, True)
    enable_mem_pattern = _Typed(bool, True)
    enable_mem_reuse = _Typed(bool, True)
    enable_profiling = _Typed(bool, False)
    execution_mode = _Typed(ExecutionMode, ExecutionMode.ORT_SEQUENTIAL)
    execution_order = _Typed(ExecutionOrder, ExecutionOrder.DEFAULT)
    graph_optimization_level = _Typed(GraphOptimizationLevel, GraphOptimizationLevel.ORT_ENABLE_ALL)
    inter_op_num_threads = _Typed(int, 0)
    intra_op_num_threads = _Typed(int, 0)
    log_severity_level = _Typed(int, -1)
    log_verbosity_level = _Typed(int, 0)
    logid = _Typed(str, "")
    optimized_model_filepath = _Typed(str, "")
    profile_file_prefix = _Typed(str, "onnxruntime_profile_")
    use_deterministic_compute = _Typed(bool, False)
    use_per_session_threads = _Typed(bool, True)

    def __init__(self):
        self._values, self._entries, self._dimensions = {}, {}, {}

    def add_session_config_entry(self, key, value):
        self._add(key, value)

    def get_session_config_entry(self, key):
        return self._get(key)

    def add_free_dimension_override_by_name(self, name, size):
        """Fixes the size of a named dimension; more is known when the model is compiled."""
        self._dimensions[str(name)] = int(size)

    def has_providers(self):
        return False

    def register_custom_ops_library(self, path):
        raise NotImplementedError(
            f"{path}: libraries of custom operators are made for onnxruntime's kernels, and can't be loaded here; give the "
            "operator a body as an ONNX function in the model"
        )

    def add_initializer(self, name, value):
        raise NotImplementedError(
            f"initialiser '{name}' can't be given from outside; save it in the model's file or as its external data"
        )


class RunOptions(_Entries):
    """onnxruntime.RunOptions. `terminate` is looked at when a run begins."""

    __slots__ = ("_values", "_entries")

    log_severity_level = _Typed(int, -1)
    log_verbosity_level = _Typed(int, 0)
    logid = _Typed(str, "")
    only_execute_path_to_fetches = _Typed(bool, False)
    terminate = _Typed(bool, False)

    def __init__(self):
        self._values, self._entries = {}, {}

    def add_run_config_entry(self, key, value):
        self._add(key, value)

    def get_run_config_entry(self, key):
        return self._get(key)
