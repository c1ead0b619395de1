"""onnxruntime.InferenceSession over a compiled model.

A model is compiled when its session is made, for every size that its symbolic dimensions may have; the second time the
whole module comes from Tensmith's cache. Inputs are checked here, against what the model's file declares, so that a wrong one
is refused with onnxruntime's exception and words.
"""

import contextlib
import itertools
import json
import os
import threading
import time
import warnings

import numpy

from .. import Error, _Session, _seed
from . import errors
from .options import GraphOptimizationLevel, RunOptions, SessionOptions
from .values import IOBinding, ModelMetadata, NodeArg, OrtValue, element_name, module_type, numpy_type

_AVAILABLE = ["CPUExecutionProvider"]


def _provider_options(providers, provider_options):
    """The options of each provider, by its name. The same checks and warnings as onnxruntime's."""
    if isinstance(providers, str) or not hasattr(providers, "__len__"):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is None:
        pairs = [(provider, {}) if isinstance(provider, str) else provider for provider in providers]
    elif len(providers) != len(provider_options):
        raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
    elif not all(isinstance(provider, str) for provider in providers):
        raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
    else:
        pairs = list(zip(providers, provider_options))
    known = {}
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], dict)):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        if pair[0] not in _AVAILABLE:
            warnings.warn(
                f"Specified provider '{pair[0]}' is not in available provider names.Available providers: '{', '.join(_AVAILABLE)}'",
                stacklevel=4,
            )
        elif pair[0] in known:
            warnings.warn(f"Duplicate provider '{pair[0]}' encountered, ignoring.", stacklevel=4)
        else:
            known[pair[0]] = {str(key): str(value) for key, value in pair[1].items()}
    return known or {_AVAILABLE[0]: {}}


def _threads(options):
    """Of a run; onnxruntime takes as many as there are processors where none are asked for, and so does Tensmith."""
    return max(options.intra_op_num_threads, 0)


def _compile_settings(options):
    entry = options._entries.get
    precision = entry("tensmith.precision", "exact" if options.use_deterministic_compute else "fast")
    return {
        "shapes": dict(options._dimensions),
        "threads": _threads(options),
        "target": entry("tensmith.target"),
        "cache_dir": entry("tensmith.cache_dir"),
        "precision": precision,
        "fuse": options.graph_optimization_level != GraphOptimizationLevel.ORT_DISABLE_ALL,
    }


_default_seed = None  # of sessions that are made from now on; None: their runs draw other numbers each time


def set_seed(seed):
    """Of random operators without a seed of their own, in sessions that are made from now on."""
    global _default_seed
    _default_seed = int(seed)


_UNMEASURED = contextlib.nullcontext()


class InferenceSession:
    """A compiled model behind onnxruntime's interface; threads may share it."""

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs):
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._model = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, bytes):
            self._model = path_or_bytes
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"sess_options is a SessionOptions, not {type(sess_options).__name__}")
        self._options = sess_options or SessionOptions()
        self._lock = threading.Lock()
        self._variants = {}  # compiled models and their inputs' names, by the initialised inputs that are inputs of theirs
        self._events, self._began = [], time.perf_counter_ns()
        self._seed, self._runs = _default_seed, itertools.count()
        self._set_providers(providers, provider_options)
        with self._measured("model_loading"):
            self._read_interface()
        with self._measured("session_initialization"):
            self._create()

    # What the model is.

    def _read_interface(self):
        is_path = isinstance(self._model, str)
        if is_path and not os.path.isfile(self._model):
            raise errors.NoSuchFile(f"Load model from {self._model} failed:Load model {self._model} failed. File doesn't exist")
        try:
            self._session = self._new_session(frozenset())
            interface = self._session.interface()
        except Error as error:
            code = error.code
            kind = errors.InvalidProtobuf if code == "invalid_model" else type(errors.of_compilation(error))
            raise kind(f"Load model from {self._model if is_path else 'bytes'} failed:{error}") from None
        self._metadata = ModelMetadata(interface)
        self._all_inputs = [self._node_arg(port) for port in interface["inputs"]]
        initialized = {port["name"] for port in interface["inputs"] if port["initialized"]}
        self._inputs = [arg for arg in self._all_inputs if arg.name not in initialized]
        self._overridable = [arg for arg in self._all_inputs if arg.name in initialized]
        self._outputs = [self._node_arg(port) for port in interface["outputs"]]
        self._by_name = {arg.name: arg for arg in self._all_inputs}

    def _node_arg(self, port):
        shape = port["shape"]
        if shape is not None:
            shape = [self._options._dimensions.get(dim, dim) for dim in shape]
        return NodeArg(port["name"], port["type"], shape)

    def _create(self):
        model, _ = self._variant(frozenset())
        for arg, port in zip(self._outputs, model.outputs):
            if not arg.type or arg.type == "tensor()":
                arg.type = f"tensor({module_type(port['type'])})"
            if arg.shape is None:
                arg.shape = [int(dim) if dim.isdigit() else None for dim in port["dims"] or ()]
        for arg in self._all_inputs:
            if arg.shape is None:
                arg.shape = []
            arg.prepare()
        self._required = {arg.name for arg in self._inputs if not arg.type.startswith("optional")}
        if self._options.optimized_model_filepath:
            model.save(self._options.optimized_model_filepath)

    def _variant(self, overridden):
        with self._lock:
            if overridden not in self._variants:
                self._variants[overridden] = self._compiled(overridden)
            return self._variants[overridden]

    def _new_session(self, overridden):
        return _Session(self._model, overridable=sorted(overridden), **_compile_settings(self._options))

    def _compiled(self, overridden):
        try:
            session = self._new_session(overridden) if overridden else self._session
            model = session.model()
            return model, [port["name"] for port in model.inputs]
        except Error as error:
            raise errors.of_compilation(error) from None

    def get_inputs(self):
        return self._inputs

    def get_outputs(self):
        return self._outputs

    def get_overridable_initializers(self):
        return self._overridable

    def get_modelmeta(self):
        return self._metadata

    # Providers: there is one, and it is always there.

    def _set_providers(self, providers, provider_options):
        self._providers = _provider_options(providers or (), provider_options if providers else None)

    def set_providers(self, providers=None, provider_options=None):
        self._set_providers(providers, provider_options)

    def get_providers(self):
        return list(self._providers)

    def get_provider_options(self):
        return {name: dict(options) for name, options in self._providers.items()}

    def get_session_options(self):
        return self._options

    def enable_fallback(self):
        """There is nothing to fall back to, and nothing to fall back from."""

    disable_fallback = enable_fallback

    # Runs.

    def run(self, output_names, input_feed, run_options=None):
        """The outputs of the given names (all, where there are none) for inputs by name."""
        if not self._required <= input_feed.keys():
            missing = [arg.name for arg in self._inputs if arg.name in self._required and arg.name not in input_feed]
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(input_feed)}).")
        chosen = self._chosen_outputs(output_names) if output_names else None
        if run_options is not None:
            self._check_run_options(run_options)
        values = {}
        for name, value in input_feed.items():
            arg = self._by_name.get(name)
            if arg is None:
                raise errors.InvalidArgument(f"Invalid input name: {name}")
            values[name] = value if arg.takes(value) else self._input_value(arg, value)
        overridden = frozenset(arg.name for arg in self._overridable if arg.name in values)
        variant = self._variants.get(overridden) or self._variant(overridden)
        with self._measured("model_run") if self._options.enable_profiling else _UNMEASURED:
            results = self._execute(variant, values, self._next_seed())
        return results if chosen is None else [results[number] for number in chosen]

    def _next_seed(self):
        """Of a run, where the session has a seed: its runs differ, and those of another session repeat them."""
        return None if self._seed is None else (self._seed << 32) + next(self._runs)

    @staticmethod
    def _execute(variant, values, seed):
        model, names = variant
        try:
            return model._module.run([values.get(name) for name in names], _seed(seed))
        except Error as error:
            raise errors.of_run(error) from None

    def _chosen_outputs(self, output_names):
        numbers = {arg.name: number for number, arg in enumerate(self._outputs)}
        if isinstance(output_names, str) or not all(isinstance(name, str) for name in output_names):
            raise TypeError(f"run(): output_names is a list of names, not {output_names!r}")
        for name in output_names:
            if name not in numbers:
                raise errors.InvalidArgument(f"Invalid output name:{name}")
        return [numbers[name] for name in output_names]

    @staticmethod
    def _check_run_options(run_options):
        if not isinstance(run_options, RunOptions):
            raise TypeError(f"run(): run_options is a RunOptions, not {type(run_options).__name__}")
        if run_options.terminate:
            raise errors.Fail("Exiting due to terminate flag being set to true.")

    def _input_value(self, arg, value):
        if isinstance(value, OrtValue):
            value = value._value
        if arg.type.startswith("optional("):
            return value
        if value is None:
            raise errors.Fail(f"Missing Input: {arg.name}")
        if arg.type.startswith("seq("):
            return self._sequence_value(arg, value)
        if arg.type.startswith("map("):
            return self._map_value(arg, arg.type, value)
        expected = arg.type[len("tensor(") : -1]
        if isinstance(value, list):
            value = self._array_of_list(arg, value, expected)
        if isinstance(value, numpy.generic) or not isinstance(value, numpy.ndarray):
            if isinstance(value, (tuple, set)):
                raise RuntimeError(f"Input must be a list of dictionaries or a single numpy array for input '{arg.name}'.")
            raise RuntimeError(f"Unable to handle object of type {type(value)}")
        actual = element_name(value.dtype)
        if actual != expected:
            raise errors.InvalidArgument(
                f"Unexpected input data type. Actual: (tensor({actual or value.dtype})) , expected: ({arg.type})"
            )
        return self._fitted(arg, value)

    @staticmethod
    def _array_of_list(arg, value, expected):
        try:
            return numpy.array(value, dtype=numpy_type(expected))
        except (TypeError, ValueError):
            raise RuntimeError("Could not create tensor from given input list") from None

    @staticmethod
    def _sequence_value(arg, value):
        if isinstance(value, numpy.ndarray) or not isinstance(value, (list, tuple)):
            raise errors.InvalidArgument(f"input with name: '{arg.name}' expected to be of type: {arg.type} but received a tensor")
        if arg.type.startswith("seq(map("):
            return [InferenceSession._map_value(arg, arg.type[len("seq(") : -1], element) for element in value]
        expected = arg.type[len("seq(tensor(") : -2]
        for element in value:
            if isinstance(element, numpy.ndarray) and element_name(element.dtype) != expected:
                raise RuntimeError("TensorSeq: tensor to be added has a different data type.")
        return list(value)

    @staticmethod
    def _map_value(arg, map_type, value):
        if not isinstance(value, dict):
            raise errors.InvalidArgument(f"input with name: '{arg.name}' expected to be of type: {map_type}, but received {type(value)}")
        key, element = map_type[len("map(") : -2].split(",tensor(")
        parts = [(key, value.keys())] + ([(element, value.values())] if element in ("string", "int64") else [])
        for wanted, given in parts:
            for part in given:
                if not isinstance(part, str if wanted == "string" else (int, numpy.integer)):
                    raise RuntimeError(
                        f"Unexpected value type  {type(part)}, it cannot be linked to C type {wanted} for input '{arg.name}'."
                    )
        return value

    @staticmethod
    def _fitted(arg, value):
        """The value, if its shape is what the model declares. Names of dimensions are the compiled model's affair."""
        if arg.has_open_rank:
            return value
        if not arg.shape and value.size == 1:  # onnxruntime takes a vector of one element for a scalar
            return value.reshape(())
        if value.ndim != len(arg.shape):
            raise errors.InvalidArgument(
                f"Invalid rank for input: {arg.name} Got: {value.ndim} Expected: {len(arg.shape)} "
                "Please fix either the inputs/outputs or the model."
            )
        wrong = [(axis, got, want) for axis, (got, want) in enumerate(zip(value.shape, arg.shape)) if isinstance(want, int) and got != want]
        if wrong:
            lines = "".join(f" index: {axis} Got: {got} Expected: {want}\n" for axis, got, want in wrong)
            raise errors.InvalidArgument(
                f"Got invalid dimensions for input: {arg.name} for the following indices\n{lines}"
                " Please fix either the inputs/outputs or the model."
            )
        return value

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):
        """Runs on a thread of its own and calls callback(results, user_data, error)."""

        def work():
            try:
                results, failure = self.run(output_names, input_feed, run_options), ""
            except Exception as error:  # noqa: BLE001, the callback gets whatever it is as text
                results, failure = [], str(error)
            callback(results, user_data, failure)

        threading.Thread(target=work, daemon=True).start()

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self):
        return IOBinding(self)

    def run_with_iobinding(self, iobinding, run_options=None):
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        iobinding._run(run_options)

    # Profiling: loading, compiling and each run, in the format of Chrome's tracing; kernels are `tensmith bench --kernels`.

    def _measured(self, name):
        return _Event(self, name)

    def get_profiling_start_time_ns(self):
        return self._began

    def end_profiling(self):
        """Writes what was measured, where options asked for it, and gives the file's name ("" without)."""
        if not self._options.enable_profiling:
            return ""
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        path = f"{self._options.profile_file_prefix}_{stamp}_{os.getpid()}_{id(self) & 0xFFFFFF}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self._events, file, indent=0)
        self._events = []
        return path


class _Event:
    """Measures what happens within it, where the session is profiled."""

    def __init__(self, session, name):
        self._session, self._name = session, name

    def __enter__(self):
        self._start = time.perf_counter_ns()

    def __exit__(self, *failure):
        session = self._session
        if session._options.enable_profiling:
            event = {"cat": "Session", "pid": os.getpid(), "tid": threading.get_native_id(), "ph": "X", "args": {}}
            event |= {"name": self._name, "ts": (self._start - session._began) // 1000}
            event["dur"] = (time.perf_counter_ns() - self._start) // 1000
            session._events.append(event)
