"""Tensmith: compiles a model to native code, and runs it.

    import tensmith as ts
    model = ts.compile("model.onnx")
    y = model(x)                     # NumPy arrays, or PyTorch's or JAX's, without a copy

Errors are `tensmith.Error`, with a message that names the file and the node or input, and a `code` of what kind they are.
"""

from __future__ import annotations

import collections.abc
import fractions
import importlib
import json
import operator
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _tensmith
from ._tensmith import Builder, ElementType, Error

from .arrays import converted, importer_of
from .inputs import bound, known_names, model_of, shape_words, thread_count
from .signatures import Derivative, ModelSource, Path, Shapes
from .training import Trained, train
from .tuning import tune
from .values import Value, constructors_of, from_handle, parse_type

__all__ = ["Builder", "ElementType", "Error", "Model", "Trained", "Value", "compile", "comprehension", "export_onnx", "from_stablehlo", "from_torch", "grad", "hvp", "jvp", "load", "load_plugin", "load_step", "nest", "quantize", "train", "train_step", "tune", "__version__"]
__version__: str = _tensmith.version()


class Model:
    """A compiled model, ready to run; made by `compile` and `load`.

    Called with its inputs, in order, by name or as a dict of them. Gives the output, or a list of them where there are several: NumPy
    arrays on the model's own memory, that have `__dlpack__`, or PyTorch's or JAX's where an input is one of those.
    Sequences are lists, maps dicts, absent values None.

    seed: what random operators draw by that have no seed of their own; may be set between runs. Runs of one seed give the same.
        None: each run draws other numbers.
    """

    def __init__(self, module: _tensmith.Module, source: bytes | None, seed: int | None = None) -> None:
        self.seed = seed
        self._module = module
        self._source = source
        self.inputs = module.ports(True)
        self.outputs = module.ports(False)
        self._description = None
        self._constructors = None
        self._types = {}  # of inputs, as they are parsed
        self._names = [port["name"] for port in self.inputs]
        self._data = {port["name"] for port in self.inputs if port["kind"] == "data"}

    @property
    def constructors(self) -> Mapping[str, Any]:
        """Of a program's data types, by name: `Cons(x, rest)` makes a value, and `Nil` is one."""
        if self._constructors is None:
            self._constructors = constructors_of(self.describe())
        return self._constructors

    def run(self, *args: Any, **named: Any) -> list[Any]:
        """The outputs, always as a list."""
        values = bound(self.inputs, args, named, "model")
        given = [self._typed(name, value) if name in self._data else value for name, value in zip(self._names, values)]
        results = self._module.run(given, _seed(self.seed))
        if importer := importer_of(given):
            results = converted(results, importer)
        return [
            from_handle(result, self.describe(), index) if port["kind"] == "data" else result
            for index, (result, port) in enumerate(zip(results, self.outputs))
        ]

    def _typed(self, name, value):
        """The input's value of a data type, a list or a tuple."""
        if name not in self._types:
            text = next(port["object"] for port in self.describe()["inputs"] if port["name"] == name)
            self._types[name] = parse_type(text), text
        type_, text = self._types[name]
        try:
            return self._value(value, type_)
        except TypeError as error:
            raise Error(f"input '{name}', {text}: {error}") from None

    def _value(self, value, type_=None):
        """Lists stand for List's values, and tuples for themselves."""
        name, parts = type_ or (None, None)
        if isinstance(value, Value):
            return value
        if isinstance(value, tuple):
            if type_ and (name != "" or len(parts) != len(value)):
                raise TypeError(f"a tuple of {len(value)} stands where {self._kind(name, parts)} is expected")
            return Value("", 0, tuple(self._value(part, parts and parts[i]) for i, part in enumerate(value)))
        if isinstance(value, list):
            if type_ and name != "List":
                raise TypeError(f"a list stands where {self._kind(name, parts)} is expected")
            cons, result = self.constructors["Cons"], self.constructors["Nil"]
            if parts and parts[0][0] == "tensor":
                converted = _tensmith.convert_list(value, cons.tag, result.tag)
                if converted is not None:
                    return converted
            for element in reversed(value):
                result = cons(self._value(element, parts and parts[0]), result)
            return result
        if type_ and name != "tensor":
            raise TypeError(f"{type(value).__name__} stands where {self._kind(name, parts)} is expected")
        return value

    @staticmethod
    def _kind(name, parts):
        kinds = {"": f"a tuple of {len(parts)}", "List": "a list", "tensor": "a tensor"}
        return kinds.get(name, f"a value of {name}, made with model.constructors,")

    def __call__(self, *args: Any, **named: Any) -> Any:
        results = self.run(*args, **named)
        return results[0] if len(results) == 1 else results

    @property
    def threads(self) -> int:
        """How many threads a run may use."""
        return self._module.threads

    @property
    def copies(self) -> dict[str, int]:
        """Tensors that the runs so far have copied to the device and to the host, and their bytes: zeros without a device."""
        names = ("to_device", "to_host", "bytes_to_device", "bytes_to_host")
        return dict(zip(names, self._module.copies, strict=True))

    def describe(self) -> dict[str, Any]:
        """What was compiled, as a dictionary: target, kernels, instructions, memory."""
        if self._description is None:
            self._description = json.loads(self._module.describe())
        return self._description

    def save(self, path: Path) -> None:
        """Writes the module, which `load`, the command line and the C API take.

        What was at the path is replaced, never written into: a model that was loaded from there goes on with its own code.
        """
        _save(path, self._source)


def _seed(seed):
    """Any integer, by its lowest 64 bits, or None."""
    return None if seed is None else operator.index(seed) & 0xFFFFFFFFFFFFFFFF


def _derivative(kind, of, wrt, cotangent=False):
    if kind not in ("grad", "jvp"):
        raise ValueError(f"a derivative is 'grad' or 'jvp', not {kind!r}")
    derivative = _tensmith.Derivative()
    derivative.tangent = kind == "jvp"
    derivative.takes_cotangent = cotangent
    derivative.of = [of] if isinstance(of, str) else list(of)
    derivative.by = [wrt] if isinstance(wrt, str) else list(wrt)
    return derivative


_SIZE = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*(?:([KMGT])(I?))?B?\s*", re.IGNORECASE | re.ASCII)


def _bytes(size):
    """A number, or "2GiB", "500 MB"; none is no budget."""
    if size is None:
        return 0
    try:
        if isinstance(size, str):
            number, power, binary = _SIZE.fullmatch(size).groups()
            unit = (1024 if binary else 1000) ** (" KMGT".index(power.upper()) if power else 0)
            count = int(fractions.Fraction(number) * unit)
        else:
            count = int(size)
    except (AttributeError, OverflowError, TypeError, ValueError):
        count = None
    if count is None or not -(1 << 63) <= count < 1 << 63:
        raise ValueError(
            "a size is a number of bytes below 2**63, or as '2GiB' or '500MB' (kB, MB, GB, TB, KiB, MiB, GiB, TiB), "
            f"not {size!r}"
        )
    return count


_PRECISIONS = ("fast", "exact", "bf16", "f16")


def _settings(
    shapes, target, cache_dir, dump_ir, reference, precision, fuse, overridable, derivatives, schedules=None,
    memory=0, recomputation=None, libraries="generated", device=None, for_evaluation=False, calibrate=None,
    fast_math=False, debug_info=True, casts=None, tuned=None,
):  # fmt: skip
    if precision not in _PRECISIONS:
        raise ValueError(f"precision is one of {', '.join(map(repr, _PRECISIONS))}, not {precision!r}")
    settings = _tensmith.Settings()
    settings.shapes = shape_words(shapes)
    settings.target = target
    settings.cache = None if cache_dir is None else os.fspath(cache_dir)
    settings.dump = None if dump_ir is None else os.fspath(dump_ir)
    settings.reference = reference
    settings.precision = _PRECISIONS.index(precision)
    settings.fuse = fuse
    settings.schedules = None if schedules is None else os.fspath(schedules)
    settings.libraries = libraries
    settings.tuned = None if tuned is None else os.fspath(tuned)
    settings.memory, settings.recomputation = _bytes(memory), recomputation
    settings.device = device
    settings.for_evaluation = for_evaluation
    settings.fast_math, settings.debug_info = fast_math, debug_info
    settings.casts = [f"{names}={rule}" for names, rule in (casts or {}).items()]
    if calibrate is not None:
        _calibrate(settings, calibrate)
    settings.overridable = list(overridable)
    settings.derivatives = [_derivative(*derivative) for derivative in derivatives]
    return settings


def _calibrate(settings, calibrate):
    if isinstance(calibrate, str) and calibrate == "random":
        settings.calibration = 1
        return
    if not isinstance(calibrate, collections.abc.Mapping):
        settings.calibration_source = os.fspath(calibrate)
        import numpy

        with numpy.load(calibrate) as arrays:
            calibrate = dict(arrays)
    for name in calibrate:
        if not isinstance(name, str):
            raise Error(f"calibrate has {name!r} for the name of an input, which is no text; give arrays by the inputs' names")
    settings.calibration = 2
    settings.calibration_names = list(calibrate)
    settings.calibration_values = list(calibrate.values())


def compile(
    model: ModelSource, shapes: Shapes | None = None, threads: int = 0, *, target: str | None = None, cache_dir: Path | None = None,
    dump_ir: Path | None = None, reference: bool = False, precision: str = "fast", fuse: bool = True,
    overridable: Iterable[str] = (), derivatives: Iterable[Derivative] = (), max_depth: int = 0, max_instructions: int = 0,
    schedules: Path | None = None, memory: int | str = 0, recomputation: str | None = None,
    libraries: str | Sequence[str] = "generated", device: str | None = None, for_evaluation: bool = False,
    calibrate: str | Path | Mapping[str, Any] | None = None, fast_math: bool = False, debug_info: bool = True, casts: Mapping[str, str] | None = None,
    seed: int | None = None, tuned: Path | None = None,
) -> Model:  # fmt: skip
    """Compiles a model, given as a path or as the file's bytes (ONNX, the graph dialect's text, or, by path, a
    program of the language, `.tsm`).

    shapes: dimensions by input, or a symbol's size: {"image": (1, 3, 224, 224), "batch": 4}.
    threads: of a run; 0 for as many CPUs as the process may use.
    target: "host", or a CPU's name; cache_dir: of compiled kernels, "" for none; dump_ir: a folder for each stage.
    reference: every operator by its reference evaluation, without kernels.
    max_depth, max_instructions: limits of a program's run; 0 for 16 million nested calls, and for no end.
    precision: "fast" allows algorithms with fewer operations, that round differently; "exact": the model's own sums;
        "bf16": as fast, and operands of products with weights are rounded to bf16 where that is faster.
    fuse: whether operators may share kernels; overridable: initialisers that shall be inputs.
    calibrate: holds the results against double precision, on "random" inputs, those of an .npz file, or arrays by the inputs'
        names; layers that make them err beyond the policy's bound fall back. What was found is in
        `describe()["metadata"]["calibration"]`, as JSON.
    schedules: a file of choices for kernels, as `tensmith inspect --chosen-schedules` prints them.
    tuned: a database of tuned points, as `tune` writes it; None: the user's, if there is one; "": none.
    libraries: who does products, convolutions, softmax and layer norm: "generated", "onednn", "openblas", "xsmm" or a list of
        them (the first that can), or "measured" (whoever is fastest here).
    memory: bytes that a run may hold, or "2GiB"; what is computed on the way to the first output is computed again for
        its derivatives, instead of being kept, as far as that is needed. recomputation: "cost" (the least work that does),
        "segments" or "recursive".
    device: what runs the kernels, with memory of its own (docs/shapes.md); None: the host.
    for_evaluation: of a model that was exported for training, dropout drops nothing and batch normalisation takes its
        running statistics.
    casts: what is rounded under "bf16", in place of operators' own rules: {"head*": "never", "Gemm": "always"}, of nodes, their types
        or operators (docs/training.md).
    fast_math: expressions are rewritten by rules of real numbers, too (docs/simplification.md); not with "exact".
    debug_info: the module tells debuggers and profilers which node and line of the model a kernel is of (docs/debugging.md).
    seed: what random operators draw by that have none of their own, as `Model` has it; None: other numbers in each run.
    derivatives: what is computed with the model, after its own outputs: ("grad", of, wrt) and ("jvp", of, wrt), one after
        the other, as `grad` and `jvp` have them; the next may be of what the one before has added.
    """
    settings = _settings(shapes, target, cache_dir, dump_ir, reference, precision, fuse, overridable, derivatives, schedules,
                         memory, recomputation, libraries, device, for_evaluation, calibrate, fast_math, debug_info, casts, tuned)  # fmt: skip
    return _compiled(model, settings, threads, max_depth, max_instructions, seed)


def _compiled(model, settings, threads, max_depth, max_instructions, seed=None):
    if hasattr(model, "compiled_by"):  # a graph that was built, as of tensmith.torch.graph_of
        return model.compiled_by(settings, thread_count(threads))
    model, threads = model_of(model), thread_count(threads)
    if isinstance(model, bytes):
        module = _tensmith.compile_bytes(model, "model", settings)
        return Model(_tensmith.load(module, threads, max_depth, max_instructions), module, seed)
    # Through a file, so that large weights are mapped and not held twice.
    with tempfile.TemporaryDirectory(prefix="tensmith-") as folder:
        path = os.path.join(folder, "module.so")
        _tensmith.compile_file(model, path, settings)
        module = _tensmith.load(path, threads, max_depth, max_instructions)
        return _KeptModel(module, open(path, "rb"), seed=seed)


def export_onnx(program: Path, path: Path, shapes: Shapes | None = None) -> None:
    """Writes a program of the language (`.tsm`) as an ONNX model (opset 21) to `path`.

    shapes: a symbol's size, {"length": 35}; others stay open in the model. What is left of a program once its sizes are known
    must be tensor code, of operators that ONNX has: an error names the operator and the line of another one.
    """
    if os.path.exists(path) and os.path.exists(program) and os.path.samefile(program, path):
        raise Error(f"{os.fspath(path)}: is the model itself; give another path")
    settings = _settings(shapes, None, None, None, False, "fast", True, (), ())
    model = _tensmith.export_onnx(os.fspath(program), settings)
    _save(path, model)


def quantize(model: Path, path: Path, data: Path | Mapping[str, Any] | None = None, *, shapes: Shapes | None = None, **settings: Any) -> dict[str, Any]:
    """Writes a model of floats with its layers in few bits, as QDQ ONNX, to `path`.

    data: samples by the names of inputs, arrays (or an .npz file) whose first dimension counts samples; "labels" are the right
        answers, where they are known. The model is run on them to see which ranges activations have. Weights alone, with
        activations="float", need none.
    settings: weights=8, activations="uint8", calibration="entropy", keep=["head*"], rules=[{...}] ...: all of
        docs/quantisation.md.
    Gives a report: "layers", each with what it became; "outputs", each with its error in decibels, the part of answers that stayed
    the same and, with labels, the accuracy before and after; "lost", in percent of answers; "bytes" of weights, before and after.

        report = ts.quantize("model.onnx", "model-int8.onnx", {"image": images}, keep=["head"])
    """
    if os.path.exists(path) and os.path.exists(model) and os.path.samefile(model, path):
        raise Error(f"{os.fspath(path)}: is the model itself; give another path")
    compilation = _settings(shapes, None, None, None, False, "fast", True, (), ())
    if data is not None:
        _calibrate(compilation, data)
    try:
        text = json.dumps(settings, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Error(f"quantize: settings are numbers, texts, booleans, lists and dicts: {error}") from None
    quantised, report = _tensmith.quantize_model(os.fspath(model), text, compilation)
    _save(path, quantised)
    return json.loads(report)


def _save(path, content):
    """Beside the file first: a write that fails leaves what was there. A device or a pipe is written as it is."""
    _tensmith.write_file(os.fspath(path), content)


def grad(model: Any, wrt: Any = 0, of: str | None = None, *, cotangent: bool = False, **settings: Any) -> Any:
    """Of a Python function of tensors: `tensmith.derivatives.grad`, a function that gives gradients by the arguments with the numbers `wrt`.

        slope = ts.grad(lambda x: (x * x).sum())(x)

    Of a model: compiles it with the gradients of an output: the outputs "gradient.NAME" come after its own.

    wrt: names of inputs, or of initialisers (parameters), which become inputs; of: the name of the output.
    An output that is no single number takes its cotangent, what each of its elements weighs, as the input
    "cotangent.OUTPUT"; one that is takes it where `cotangent` says so. settings: those of `compile`.

        step = ts.grad("model.onnx", wrt=["w", "b"], of="loss")
        loss, dw, db = step(x=x, w=w, b=b)
    """
    if callable(model):
        return _derivatives().grad(model, wrt, **settings)
    if of is None:
        raise Error("a model's gradients are of one of its outputs; name it by `of`")
    return compile(model, derivatives=[("grad", of, wrt, cotangent)], **settings)


def _derivatives() -> Any:
    from . import derivatives

    return derivatives


def jvp(model: Any, wrt: Any, of: Any = (), **settings: Any) -> Any:
    """Of a Python function of tensors, with its arguments and their tangents, two tuples: what it gives, and its derivative along those.

    Of a model: compiles it with its derivative along a direction: each input of `wrt` has one more, "tangent.NAME", and the
    outputs "tangent.OUTPUT" of the outputs `of` (all of floats if none) come after the model's own."""
    if callable(model):
        return _derivatives().jvp(model, wrt, of, **settings)
    return compile(model, derivatives=[("jvp", of, wrt)], **settings)


def hvp(model: Any, wrt: Any, of: Any, **settings: Any) -> Any:
    """Of a Python function that gives one number, with its arguments and directions, two tuples: its Hessian times those.

    Of a model: compiles it with the gradients of an output, and with their derivatives along a direction: the Hessian times
    the inputs "tangent.NAME", as the outputs "tangent.gradient.NAME"."""
    if callable(model):
        return _derivatives().hvp(model, wrt, of, **settings)
    wrt = [wrt] if isinstance(wrt, str) else list(wrt)
    second = ("jvp", [f"gradient.{name}" for name in wrt], wrt)
    return compile(model, derivatives=[("grad", of, wrt), second], **settings)


_OF_FUNCTIONS = ("backward", "checkpoint", "hessian", "linearize", "record", "value_and_grad", "vjp")


def _loaded(name: str) -> Any:
    """What needs eager tensors, or language models, is loaded when it is first used: modules run without it."""
    if name in _OF_FUNCTIONS:
        return getattr(_derivatives(), name)
    if name in ("scan", "vmap"):
        from .recorded import operators

        return getattr(operators, name)
    if name == "default_device":
        from .numpy.dtypes import default_device

        return default_device
    if name == "function":
        from .functions import function

        return function
    if name == "coexecute":
        from .coexecution import coexecute

        return coexecute
    if name == "KVStore":
        from .kvstore import KVStore

        return KVStore
    if name in ("kvstore", "language", "nn", "optim", "symbol"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'tensmith' has no attribute {name!r}")


def __getattr__(name: str) -> Any:
    globals()[name] = value = _loaded(name)
    return value


def train_step(
    model: ModelSource, loss: str = "cross_entropy", optimiser: Path = "sgd", *, of: str | None = None, schedule: Path = "constant",
    clip_norm: float = 0.0, weight_decay: float | None = None, ema_decay: float = 0.0, trainable: Iterable[str] = (),
    outputs: Iterable[str] = (), shapes: Shapes | None = None, threads: int = 0, target: str | None = None,
    cache_dir: Path | None = None, dump_ir: Path | None = None, reference: bool = False, precision: str = "fast",
    fuse: bool = True, memory: int | str = 0, recomputation: str | None = None, schedules: Path | None = None,
    libraries: str | Sequence[str] = "generated", fast_math: bool = False, debug_info: bool = True, casts: Mapping[str, str] | None = None,
    **settings: Any,
) -> TrainStep:  # fmt: skip
    """Compiles one step of a model's training: the loss, its gradients and the update of the parameters as one program.

        step = ts.train_step("model.onnx", loss="cross_entropy", optimiser="adam", learning_rate=1e-3)
        print(step(x=x, target=labels)["loss"])
        step.state["fc1.weight"]         # as it is now

    loss: "cross_entropy" or "mean_squared_error" of the output `of` (the first) and the input "target", or the name of an
        output that is one number.
    optimiser: sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, lamb, rescaled, rescaled_rms, or a program's path (.tsm).
    schedule: of the learning rate: constant, warmup, cosine, step, or the path of a program.
    settings: constants at the top of those programs: learning_rate, momentum, beta1, warmup, ...
    clip_norm: the largest length of all gradients together; ema_decay: of averages of the parameters, "ema.NAME".
    weight_decay: None: the optimiser's own, if it has one (0.01 of adamw and lamb); of others a part of the gradient.
    memory: bytes that a step may hold, its states included, or "2GiB".
    casts: what is rounded under "bf16" and "f16", in place of operators' own rules: {"head*": "never", "Gemm": "always"}, of nodes,
        their types or operators (docs/training.md).
    trainable: names of initialisers, "*" for any characters; outputs: those of the model that the step gives too.
    precision: "bf16": factors of products are rounded to bf16, and everything else is f32, the weights among it; "f16": the
        same with f16, and the loss is scaled so far that gradients don't vanish ("loss_scale" in `state`). With reference=True
        nothing is rounded: the step is evaluated as it was written.
    The others are those of `compile`.
    """
    settings = known_names(settings, ["optimiser"])
    optimiser = settings.pop("optimiser", optimiser)
    known = _settings(shapes, target, cache_dir, dump_ir, reference, precision, fuse, (), (), schedules, memory, recomputation,
                      libraries, fast_math=fast_math, debug_info=debug_info, casts=casts)  # fmt: skip
    training = _tensmith.Training()
    training.loss, training.of = loss, of
    training.optimiser, training.schedule = os.fspath(optimiser), os.fspath(schedule)
    training.setting_names, training.setting_values = list(settings), [float(value) for value in settings.values()]
    training.clip_norm, training.weight_decay, training.ema_decay = clip_norm, weight_decay, ema_decay
    training.trainable, training.outputs = list(trainable), list(outputs)
    known.training = training
    return TrainStep(_compiled(model, known, threads, 0, 0))


def load_step(path: ModelSource, threads: int = 0) -> TrainStep:
    """Loads a step of training that `TrainStep.save` has written, with the states that it begins with."""
    return TrainStep(load(path, threads))


class _State(collections.abc.Mapping):
    """States by name: arrays on the step's own memory. What is assigned is copied into it."""

    def __init__(self, module: _tensmith.Module) -> None:
        self._states = module.states()
        names = [state["name"] for state in module.state_list()]
        self._arrays = {name: self._states.array(i) for i, name in enumerate(names)}

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if getattr(value, "shape", ()) != self._arrays[name].shape:
            raise Error(f"state '{name}' has the shape {self._arrays[name].shape}, not {getattr(value, 'shape', ())}")
        self._arrays[name][...] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class TrainStep:
    """A step of training with the state that it works on; made by `train_step`."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._module = model._module
        self.state = _State(self._module)
        self.kinds = {state["name"]: state["kind"] for state in self._module.state_list()}
        taken = {state["input"] for state in self._module.state_list()}
        given = {state["output"] for state in self._module.state_list()}
        self.inputs = [port for i, port in enumerate(model.inputs) if i not in taken]
        self.outputs = [port for i, port in enumerate(model.outputs) if i not in given]
        self._names = [port["name"] for port in self.inputs]

    @property
    def constructors(self) -> Mapping[str, Any]:
        """Of a program's data types, by name, as a `Model` has them."""
        return self._model.constructors

    def __call__(self, *args: Any, **named: Any) -> dict[str, Any]:
        """Makes one step. Gives the outputs by name: "loss", and whatever else there is."""
        values = bound(self.inputs, args, named, "step")
        data = self._model._data
        given = [self._model._typed(name, value) if name in data else value for name, value in zip(self._names, values)]
        results = self._module.step(given, self.state._states)
        if importer := importer_of(given):
            results = converted(results, importer)
        return {port["name"]: result for port, result in zip(self.outputs, results)}

    def describe(self) -> dict[str, Any]:
        """What was compiled, as a dictionary."""
        return self._model.describe()

    def save(self, path: Path) -> None:
        """Writes the module, with the states that it begins with."""
        self._model.save(path)


def _describe_interface(model):
    """What an ONNX model's file, or its bytes, declares of itself."""
    is_bytes = isinstance(model, bytes)
    return json.loads(_tensmith.describe_interface("model" if is_bytes else os.fspath(model), model if is_bytes else None))


def from_stablehlo(program: Any, **options: Any) -> Any:
    """Compiles StableHLO, as text, bytecode or the path of a file; `tensmith.stablehlo.from_stablehlo`, which says what the options are."""
    from .stablehlo import from_stablehlo

    return from_stablehlo(program, **options)


def from_torch(model: Any, example_inputs: Any = None, **options: Any) -> Any:
    """Compiles a PyTorch module, or a program of torch.export; `tensmith.torch.from_torch`, which says what the options are."""
    from .torch import from_torch

    return from_torch(model, example_inputs, **options)


def comprehension(text: str, **settings: Any) -> Any:
    """The tensor comprehensions of a text (docs/comprehensions.md): an object with a function for each `def`, by its name.

        tc = ts.comprehension("def matmul(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }")
        c = tc.matmul(a, b)              # NumPy arrays, or any that have `__dlpack__`

    A function is compiled when it is first called, for all sizes, and kept in the cache of compiled models. settings: those of
    `compile`, as threads or cache_dir. Errors name line and column, and what is expected there.
    """
    from .comprehensions import Comprehensions

    return Comprehensions(text, settings)


def nest(text: str, function: str | None = None, *, whole: bool = False) -> Any:
    """A tensor comprehension whose loops get an order of one's own, by a chain of primitives (docs/nests.md).

        fast = ts.nest(text).tile("m", "n", 6, 64).unroll("m1").vectorize("n1", 16).compile()
        c = fast(a, b)

    The primitives are for the last statement of the function, which is the text's only one if no name is given; or, if it is
    `whole`, for all statements as one nest. What would change results is an error of `compile` that names the dependence.
    """
    from .nests import Nest

    return Nest(text, function, whole=whole)


def load_plugin(path: Path) -> None:
    """Loads a plug-in, a shared library that adds operators, rewrites, templates or targets to the compiler (docs/plugins.md).

    Models that are compiled afterwards have them. Nothing happens where it was loaded before; it stays loaded.
    """
    _tensmith.load_plugin(os.fspath(path))


def load(
    path: ModelSource, threads: int = 0, *, max_depth: int = 0, max_instructions: int = 0, seed: int | None = None
) -> Model:
    """Loads a compiled module, from its file or its bytes. seed: as `Model` has it."""
    threads = thread_count(threads)
    if isinstance(path, (bytes, bytearray, memoryview)):
        path = bytes(path)
        return Model(_tensmith.load(path, threads, max_depth, max_instructions), path, seed)
    return _KeptModel(_tensmith.load(os.fspath(path), threads, max_depth, max_instructions), open(path, "rb"), seed=seed)


class _KeptModel(Model):
    """A model of a file, which may go or be replaced: an open descriptor keeps its contents for `save`."""

    def __init__(self, module, file, size=-1, seed=None):
        super().__init__(module, None, seed)
        self._file, self._size = file, size

    def save(self, path: Path) -> None:
        self._file.seek(0)
        _save(path, self._file.read(self._size))


class _Session:
    """A compiled model and what its file declares, from the cache of whole modules where it has them.

    The compiler isn't loaded unless there is something to compile. Settings are those of `compile`.
    """

    def __init__(self, model, threads, **settings):
        self._model, self._threads = model, threads
        defaults = {"shapes": None, "target": None, "cache_dir": None, "dump_ir": None, "reference": False, "precision": "fast",
                    "fuse": True, "overridable": (), "derivatives": ()}  # fmt: skip
        self._settings = _settings(**defaults | settings)
        is_bytes = isinstance(model, bytes)
        self._kept = _tensmith.KeptModules("model" if is_bytes else os.fspath(model), model if is_bytes else None, self._settings)
        self._interface = None
        self._found = self._find()

    def _find(self):
        """The model and its interface ("" where nobody has asked for that yet), or nothing."""
        found = self._kept.find()
        if found is None:
            return None
        descriptor, size, interface = found
        file = os.fdopen(descriptor, "rb")
        try:
            return _KeptModel(_tensmith.load(f"/proc/self/fd/{descriptor}", self._threads, 0, 0, size), file, size), interface
        except Error:  # of another version, or for another machine: it is compiled again
            file.close()
            return None

    def interface(self):
        """What the model's file declares of itself."""
        if self._found and self._found[1]:
            return json.loads(self._found[1])
        if self._interface is None:
            self._interface = _describe_interface(self._model)
            if self._found:
                self._kept.keep_interface(json.dumps(self._interface))
        return self._interface

    def model(self):
        """Loaded, or else compiled and kept for the next session."""
        if not self._found:
            self._found = self._compile()
        for warning in self._kept.warnings:
            warnings.warn(warning, RuntimeWarning, stacklevel=5)
        return self._found[0]

    def _compile(self):
        interface = json.dumps(self.interface())
        if isinstance(self._model, bytes):
            module = _tensmith.compile_bytes(self._model, "model", self._settings, self._kept)
            self._kept.keep(module, interface)
            return Model(_tensmith.load(module, self._threads, 0, 0), module), interface
        with tempfile.TemporaryDirectory(prefix="tensmith-") as folder:
            path = os.path.join(folder, "module.so")
            _tensmith.compile_file(os.fspath(self._model), path, self._settings, self._kept)
            # From the cache where it is kept: processes share its memory, and that of a temporary file may be the machine's.
            found = self._find() if self._kept.keep(path, interface) else None
            return found or (_KeptModel(_tensmith.load(path, self._threads, 0, 0), open(path, "rb")), interface)
