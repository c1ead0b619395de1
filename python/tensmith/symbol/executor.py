"""A symbol with its tensors: what binding gives.

Binding calls the nodes once, with the arguments as they are, and records what they do (eager/Tape.h); layers are made on the way, when the sizes of
what they get are known. The recording, alone or with its gradients, is a program that is compiled once for all sizes and processes. Its
intermediate results lie in memory that all executors of one pool share, which run one after another (runtime/MemoryPool.h).

Invariant: binding changes no argument, no state and no stream of random numbers, but for the parameters that it draws.
"""

import functools
import math
import operator
import threading

from .. import Error, _eager
from ..functions.indexing import by_the_graph
from ..functions.scalars import NotConvertible
from ..numpy import asarray, creation, dtypes, reductions
from ..numpy import random as streams
from ..numpy.dtypes import Tensor
from ..recorded import program_of
from ..recorded.operators import sources


_binding = threading.RLock()  # held while nodes are called


class Pool:
    """Programs on one memory for intermediate results."""

    def __init__(self):
        self.arenas, self._compiled = _eager.SharedArenas(), {}

    def program(self, text):
        if text not in self._compiled:
            self._compiled[text] = program_of(text).compiled.on(self.arenas)
        return self._compiled[text]


class _Recorded:
    """A program, and where its inputs come from. types: of its results, the outputs first, then gradients, then states."""

    def __init__(self, text, sources, constants, types, draws):
        self.text, self.sources, self.constants, self.types, self.draws = text, sources, constants, types, draws


class Executor:
    """arguments, states: tensors by name, which may be written; those with gradients have `requires_grad` and `grad`, so that the optimisers of
    `tensmith.optim` and KVStore take them."""

    def __init__(self, symbol, inputs, gradients, shared):
        if shared is not None and not isinstance(shared, Executor):
            raise TypeError(f"shared is an executor, and not {type(shared).__name__}")
        self.symbol, self.arguments, self.states = symbol, {}, {}
        self._pool = shared._pool if shared else Pool()
        self._shared, self._layers, self._programs = shared, {}, {}
        self._outputs, self._pending = None, None
        self._node_bytes = 0
        _check_names(symbol)
        self._declare(inputs)
        self._programs[False, False] = self._record(False, [])
        self._ask(gradients)
        self._shared = None
        self.output_types = [(kind, tuple(shape)) for kind, shape in self._programs[False, False].types]

    # ---- what it has

    @property
    def outputs(self):
        """Tensors of the last `forward`, or of the `backward` after it."""
        if self._outputs is None:
            if self._pending is None:
                raise RuntimeError("there are no outputs before forward")
            self._outputs = self._outputs_of(self._pending)
        return self._outputs

    @property
    def gradients(self):
        """By the names of the arguments that have one; None before the first `backward`."""
        return {name: self.arguments[name].grad for name in self._requests}

    def parameters(self):
        """The arguments with gradients, for an optimiser."""
        return [self.arguments[name] for name in self._requests]

    def memory(self):
        """Bytes: `pool`, that all executors of the pool have for intermediate results, as large as the largest run so far needed; `inference` and
        `training`, what these would take if each node's results, and in training their gradients, had memory of their own."""
        return {"pool": self._pool.arenas.bytes, "inference": self._node_bytes, "training": 2 * self._node_bytes}

    # ---- what it does

    def forward(self, is_train=False, **inputs):
        """Takes inputs (arrays or tensors) into the arguments of these names, and gives the outputs.

        With is_train dropout and the like are active, and what `backward` computes is computed there, outputs included; they are computed before
        where somebody reads them."""
        for name, value in inputs.items():
            if name not in self.arguments:
                raise ValueError(f"there is no argument '{name}'; there are {', '.join(self.arguments)}")
            value, place = asarray(value), self.arguments[name]
            if value.shape != place.shape:
                raise ValueError(f"'{name}' is bound to shape {place.shape}, and what is given has {value.shape}; bind again, with shared= this executor")
            place[...] = value
        self._outputs = self._pending = None
        if not is_train:
            self._outputs = self._run(self._program(), _drawn(self._program()), [])
            return self._outputs
        self._pending = _Pending(_drawn(self._program(bool(self._requests))))
        return _Later(self, self._pending)

    def backward(self, cotangents=None):
        """Gradients by the arguments that have some, of the outputs times `cotangents` (a list; None: ones), and states as training leaves them."""
        if self._pending is None:
            raise RuntimeError("backward follows forward(is_train=True), once")
        program, pending = self._program(bool(self._requests)), self._pending
        cotangents = self._cotangents(cotangents)
        for name, how in self._requests.items():
            if how == "write":
                self.arguments[name].grad = None  # its memory is free while the program runs
        results = iter(self._run(program, pending.draws, cotangents))
        self._outputs = pending.outputs = [next(results) for _ in self.output_types]
        for name in self._requests:
            argument, gradient = self.arguments[name], next(results)
            argument.grad = gradient if argument.grad is None else argument.grad + gradient
        for state in self.states.values():
            state[...] = next(results)
        self._pending = None

    # ---- binding

    def _declare(self, inputs):
        unknown, missing = [sorted(set(a) - set(b)) for a, b in ((inputs, self.symbol.variables), (self.symbol.variables, inputs))]
        if unknown:
            raise ValueError(f"there is no variable '{unknown[0]}'; there are {', '.join(self.symbol.variables)}")
        if missing:
            raise ValueError(f"variable '{missing[0]}' is given neither a shape nor a tensor")
        taken = []
        for name in self.symbol.variables:
            tensor, is_given = _tensor(name, inputs[name])
            if any(tensor.shares_memory(other) for other in taken):
                tensor = _eager.copy(tensor)
            self.arguments[name] = tensor if is_given else self._own("arguments", name, tensor)
            taken.append(self.arguments[name])

    def _own(self, table, name, tensor):
        """The tensor, or the one of that name that the other executor has."""
        other = getattr(self._shared, table).get(name) if self._shared else None
        return other if other is not None and other.shape == tensor.shape and other.dtype == tensor.dtype else tensor

    def _ask(self, gradients):
        layers = [name for node in self.symbol.nodes for name in node.parameters]
        if gradients is not None and not isinstance(gradients, dict):
            raise TypeError(f"gradients is a dict from names to 'write' or 'add', and not {type(gradients).__name__}")
        self._requests = dict.fromkeys(layers, "write") if gradients is None else dict(gradients)
        for name, how in self._requests.items():
            if name not in self.arguments:
                raise ValueError(f"there is no argument '{name}' to have a gradient; there are {', '.join(self.arguments)}")
            if how not in ("write", "add"):
                raise ValueError(f"a gradient is 'write' or 'add', and not {how!r}")
            self.arguments[name].requires_grad = True

    def _layer(self, node, shape):
        """Its parameters are arguments from now on."""
        module = node.module(shape)
        for path, owner in module.named_modules():
            for table, ours, of in ((owner._parameters, self.arguments, "arguments"), (owner._buffers, self.states, "states")):
                for name, tensor in table.items():
                    if tensor is not None:
                        full = ".".join(filter(None, (node.name, path, name)))
                        table[name] = ours.setdefault(full, self._own(of, full, tensor))
        return module

    def _program(self, has_gradients=None):
        """None: of inference."""
        key = (False, False) if has_gradients is None else (True, has_gradients)
        if key not in self._programs:
            self._programs[key] = self._record(key[0], list(self._requests) if key[1] else [])
        return self._programs[key]

    def _record(self, is_training, by):
        tape, draws, given = _eager.tape(True), [], {}

        def follow(key, tensor):
            given[key] = tensor, tape.watch(tensor, True)

        def drawn(generator, what, result):
            follow(("draw", len(draws)), result)
            draws.append((generator, what))
            generator.drawn -= result.size

        for name, tensor in self.arguments.items():
            follow(("argument", name), tensor)
        recording = _Evaluation(self, tape, follow, is_training)
        with recording, streams.told(drawn):
            outputs = recording.outputs()
            states = recording.states()
            total = self._total(outputs, follow) if by else None
        numbers = [tape.read(output) for output in outputs]
        if by:
            numbers += self._differentiated(tape, given, by, tape.read(total), given["cotangent", None][1])
        if is_training:
            numbers += [tape.read(state) for state in states]
        text, inputs, types = tape.program(numbers)
        tape.release()
        keys, tensors = list(given), [tensor for tensor, _ in given.values()]
        places, constants = sources(inputs, tensors)
        if not is_training:
            self._node_bytes = recording.bytes
        return _Recorded(text, [keys[place] if place < len(keys) else ("constant", place - len(keys)) for place in places], constants, types, draws)

    def _total(self, outputs, follow):
        """What gradients are of: the outputs times their cotangents, summed up; of one output of floats the output itself."""
        floats = [number for number, output in enumerate(outputs) if output.dtype in dtypes.REAL_FLOATING]
        if not floats:
            raise TypeError(f"gradients are of floats, and the outputs are {', '.join(str(output.dtype) for output in outputs)}")
        cotangents = [creation.ones_like(output) for output in outputs]
        for number in floats:
            follow(("cotangent", number if len(floats) > 1 else None), cotangents[number])
        if len(floats) == 1:
            return outputs[floats[0]]
        follow(("cotangent", None), creation.ones((), dtype=outputs[floats[0]].dtype))
        return functools.reduce(operator.add, [reductions.sum(outputs[number] * cotangents[number]) for number in floats])

    def _differentiated(self, tape, given, by, of, change):
        """Numbers of the gradients of value `of`, whose cotangent is `change`."""
        arguments = [self.arguments[name] for name in by]
        operands = [of, *(given["argument", name][1] for name in by), change]
        first = tape.add("derivative", {"forward": False, "of": 1, "by": len(by)}, operands, [(x.dtype, list(x.shape)) for x in arguments])
        return list(range(first, first + len(by)))

    # ---- running

    def _outputs_of(self, pending):
        if pending.outputs is None:
            pending.outputs = self._run(self._program(False), pending.draws, [])[: len(self.output_types)]
        return pending.outputs

    def _cotangents(self, given):
        if given is None:
            return [creation.ones(shape, dtype=kind) for kind, shape in self.output_types]
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"backward takes a list with a cotangent for each output, and not {type(given).__name__}")
        given = [asarray(each, dtype=kind) for each, (kind, _) in zip(given, self.output_types)] if len(given) == len(self.output_types) else []
        if [each.shape for each in given] != [shape for _, shape in self.output_types]:
            raise ValueError(f"backward takes a cotangent for each output, of shapes {[shape for _, shape in self.output_types]}")
        return given

    def _run(self, program, draws, cotangents):
        floats = [each for each in cotangents if each.dtype in dtypes.REAL_FLOATING]
        of_total = floats[0] if len(floats) == 1 else creation.ones((), dtype=floats[0].dtype) if floats else None
        cotangents = {**dict(enumerate(cotangents)), None: of_total}
        tables = {"argument": self.arguments, "state": self.states, "draw": draws, "cotangent": cotangents, "constant": program.constants}
        return self._pool.program(program.text).run([tables[kind][key] for kind, key in program.sources], program.types)


class _Pending:
    """A training run: what it draws, and its outputs once they are computed."""

    def __init__(self, draws):
        self.draws, self.outputs = draws, None


class _Later:
    """Outputs of a training run, computed by `backward` or when one is read. They are that run's for good."""

    def __init__(self, executor, pending):
        self._executor, self._pending = executor, pending

    def _all(self):
        if self._pending.outputs is None and self._pending is not self._executor._pending:
            raise RuntimeError("another forward has taken the arguments since, and nobody had read these outputs")
        return self._executor._outputs_of(self._pending)

    def __getitem__(self, number):
        return self._all()[number]

    def __iter__(self):
        return iter(self._all())

    def __len__(self):
        return len(self._executor.output_types)


def _drawn(program):
    return [generator.draw_again(*what) for generator, what in program.draws]


class _Evaluation:
    """The nodes' calls, on a tape. States are copies there, so that layers write these."""

    def __init__(self, executor, tape, follow, is_training):
        self._executor, self._tape, self._follow, self._is_training = executor, tape, follow, is_training
        self._replaced, self._variables = [], []
        self._layers = set()  # names of those that were called in this recording
        self._indices = by_the_graph()
        self.bytes = 0  # of the results of all nodes that are no variables

    def __enter__(self):
        _binding.acquire()
        self._indices.__enter__()
        self._tape.begin()
        return self

    def __exit__(self, *failure):
        self._tape.end()
        self._indices.__exit__(None, None, None)
        _binding.release()
        for table, name, tensor in self._replaced:
            table[name] = tensor

    def outputs(self):
        results = {}
        for node in self._executor.symbol.nodes:
            tensors = [_chosen(source, which, results) for source, which in node.inputs]
            try:
                results[id(node)] = self._results(node, tensors)
            except (ValueError, TypeError, IndexError, RuntimeError, Error, NotConvertible) as error:
                kind = type(error) if type(error) in (TypeError, IndexError, RuntimeError, Error) else ValueError
                raise kind(f"'{node.name}' ({node.function or 'variable'}) of {', '.join(str(x.shape) for x in tensors) or 'nothing'}: {error}") from error
        heads = self._executor.symbol.heads
        return [x for node, which in heads for x in (results[id(node)] if which is None else [_chosen(node, which, results)])]

    def states(self):
        for name, copy, number in self._variables:
            if self._tape.read(copy) != number:
                raise ValueError(f"variable '{name}' is written by what is called with it; only layers keep states, such as BatchNorm's")
        return [table[name] for table, name, _ in self._replaced]

    def _results(self, node, tensors):
        if node.family == "variable":
            copy = _eager.copy(self._executor.arguments[node.name])
            self._variables.append((node.name, copy, self._tape.read(copy)))
            return [copy]
        layer = self._layer(node, tensors[0].shape) if node.family == "layer" else None
        results = node.results(tensors, self._is_training, layer)
        self.bytes += sum(math.prod(x.shape) * x.dtype.itemsize for x in results)
        return results

    def _layer(self, node, shape):
        executor = self._executor
        if node.name not in executor._layers:
            self._tape.end()
            try:
                with streams.told(lambda *draw: None):
                    executor._layers[node.name] = executor._layer(node, shape)
            finally:
                self._tape.begin()
            for name in node.parameters:
                self._follow(("argument", name), executor.arguments[name])
        module = executor._layers[node.name].train(self._is_training)
        if node.name in self._layers:
            return module  # its states are those that it was left with
        self._layers.add(node.name)
        for path, owner in module.named_modules():
            for name, tensor in owner._buffers.items():
                if tensor is not None:
                    self._follow(("state", ".".join(filter(None, (node.name, path, name)))), tensor)
                    self._replaced.append((owner._buffers, name, tensor))
                    owner._buffers[name] = _eager.copy(tensor)
        return module


def _chosen(node, which, results):
    found = results[id(node)]
    if which is None and len(found) != 1:
        raise ValueError(f"'{node.name}' has {len(found)} results; say which by output(number)")
    if which is not None and not 0 <= which < len(found):
        raise IndexError(f"'{node.name}' has {len(found)} results, and no number {which}")
    return found[which or 0]


def _check_names(symbol):
    """Tensors are bound by names: two nodes of one name are one layer or function, which is applied again."""
    seen = {}
    for node in symbol.nodes:
        other = seen.setdefault(node.name, node)
        if other is not node and not node.is_same_call(other):
            otherwise = "apply one symbol to both inputs, as in symbol(x=first) and symbol(x=second), to have one set of parameters"
            if node.family == "variable":
                otherwise = "use the same Variable in both places"
            raise ValueError(f"two nodes are called '{node.name}', and names are what tensors are bound by. Give one another name, or {otherwise}")


def _tensor(name, given):
    """The tensor, and whether its elements are what the caller wants. An array is copied, since `forward` writes arguments."""
    shape, kind = given if isinstance(given, tuple) and len(given) == 2 and not isinstance(given[1], int) else (given, "float32")
    try:
        if isinstance(given, Tensor) or not isinstance(given, (tuple, list, int)):
            return (given if isinstance(given, Tensor) else asarray(given, copy=True)), True
        return creation.zeros(shape, dtype=dtypes.as_dtype(kind)), False
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"'{name}' is given neither a shape, a pair of shape and element type, nor a tensor: {error}") from None
