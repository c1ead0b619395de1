"""`from_torch`: a program of torch.export, compiled.

Parameters and buffers are constants under their names in the state dict, with "state." before one that an input has too. A buffer that the program writes is an input and an
output, and the model keeps its tensor. Sizes that torch.export leaves open are so in the module, and a call is held to their
ranges.
"""

import copy

import sympy
import torch
from torch.export._tree_utils import reorder_kwargs
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree

from .. import Error
from ..lowered import compiled, settings_of
from . import contraction, control, elementwise, indexing, losses, movement, pooling, random, reduction, run, sizes  # noqa: F401, the functions register themselves
from .decompositions import ours, without_writes
from .lowering import Lowering, Value, lower


def from_torch(model, example_inputs=None, *, dynamic_shapes=None, kwargs=None, threads=0, **options):
    """Compiles a torch.nn.Module, or a program that torch.export has made of one.

        model = ts.from_torch(net.eval(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
        y = model(x)
        model.save("net.so")

    example_inputs, kwargs, dynamic_shapes: those of torch.export.export, of a module. The module is compiled in the mode that it
        is in: call `eval()` first for inference.
    threads: of a run; 0 for as many CPUs as the process may use. The others are those of `tensmith.compile`.

    Gives a `TorchModel`. An Error names all operators that can't be compiled, with the lines of the model they come from.
    """
    return TorchModel(_exported(model, example_inputs, kwargs, dynamic_shapes), threads, options)


def _exported(model, example_inputs, kwargs, dynamic_shapes):
    if isinstance(model, torch.export.ExportedProgram):
        return model
    if example_inputs is None:
        raise Error("a module is compiled by examples of its inputs: from_torch(model, (x,))")
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    return torch.export.export(model, tuple(example_inputs), kwargs, dynamic_shapes=dynamic_shapes, strict=False)


def graph_of(model, example_inputs=None, *, dynamic_shapes=None, kwargs=None):
    """A module or exported program as a graph, which `tensmith.train_step` trains and `tensmith.compile` compiles.

        step = ts.train_step(tensmith.torch.graph_of(net, (x,)), loss="cross_entropy", optimiser="adam", learning_rate=1e-3)

    Parameters are trained under their names in the state dict, each once, as PyTorch would train them. A model that writes buffers (running
    statistics) or draws numbers (dropout) is refused: `torch.compile` trains such a one.
    """
    return TorchGraph(_exported(model, example_inputs, kwargs, dynamic_shapes))


def _decompositions():
    """To core operators, but for attention, which stays whole: traced again in parts, its result may lie otherwise in memory than
    the views after it were exported for."""
    table = torch.export.default_decompositions()
    table.pop(torch.ops.aten.scaled_dot_product_attention.default, None)
    return without_writes(table) | ours()


# Of buffers, and of parameters, which an embedding with `max_norm` writes; versions before 2.9 know the former alone.
_WRITES_OF_STATES = {OutputKind.BUFFER_MUTATION, getattr(OutputKind, "PARAMETER_MUTATION", OutputKind.BUFFER_MUTATION)}


def _distinct(targets, taken):
    """A name for each parameter and buffer that no input has."""
    names = {}
    for target in targets:
        name = target
        while name in taken or (name != target and name in targets):
            name = "state." + name
        names[target] = name
    return names


class _Program:
    """A program of torch.export's, with the parameters and buffers that stand in its graph."""

    def __init__(self, program):
        self._program = program.run_decompositions(_decompositions())
        self._state = dict(program.state_dict)

    def _lowered(self):
        lowering = Lowering()
        signature = self._program.graph_signature
        written = {spec.target for spec in signature.output_specs if spec.kind in _WRITES_OF_STATES}
        placeholders = [node for node in self._program.graph.nodes if node.op == "placeholder"]
        values, shared = {}, {}
        self._taken, self._fixed, self._buffers = [], [], []  # of the flat arguments: tensors, and others with their values; buffers
        self._targets = _distinct(
            [spec.target for spec in signature.input_specs if spec.kind != InputKind.USER_INPUT],
            {node.name for node, spec in zip(placeholders, signature.input_specs) if spec.kind == InputKind.USER_INPUT},
        )
        position = -1
        later = []
        for node, spec in zip(placeholders, signature.input_specs):
            if spec.kind == InputKind.USER_INPUT:
                position += 1
                meta = node.meta.get("val")
                if isinstance(spec.arg, ConstantArgument) or not isinstance(meta, torch.Tensor):
                    values[node] = meta if not isinstance(spec.arg, ConstantArgument) else spec.arg.value
                    self._fixed.append((node.name, position, values[node]))
                    continue
                self._taken.append(position)
                values[node] = lowering.input(node.name, meta.shape, meta.dtype)
            elif spec.kind == InputKind.TOKEN:
                pass  # orders what prints or checks, which is refused by its name
            elif spec.kind in (InputKind.BUFFER, InputKind.PARAMETER) and spec.target in written:
                later.append((node, spec.target))
            else:
                values[node] = self._constant(lowering, spec, shared)
        for node, name in later:
            tensor = self._tensor(name)
            self._buffers.append(name)
            values[node] = lowering.input(self._targets[name], tensor.shape, tensor.dtype)
        self._flat_count = position + 1
        results = lower(self._program.graph, lowering, values, self._program.graph_module)
        self._draws = run.Draws(lowering)
        inputs = {value.number: i for i, value in enumerate(lowering.inputs)}
        self._outputs = run.Outputs(lowering, results, inputs)
        self._kinds = [(spec.kind, spec.target) for spec in signature.output_specs]
        self._bindings = lowering.bindings
        self._shapes = [(value.shape, value.dtype) for value in lowering.inputs]  # of the tensors among the arguments, and more
        self._names = [node.name for node, spec in zip(placeholders, signature.input_specs) if spec.kind == InputKind.USER_INPUT and isinstance(values[node], Value)]
        return lowering

    def _tensor(self, name):
        return self._state[name] if name in self._state else self._program.constants[name]

    def _constant(self, lowering, spec, shared):
        """Tensors that share their memory, as tied weights do, are one constant."""
        if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            raise Error(f"an input of the kind {spec.kind.name.lower()}, '{spec.target}', can't be compiled")
        tensor = self._tensor(spec.target)
        key = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
        if key not in shared or not tensor.numel():
            shared[key] = lowering.constant(tensor, self._targets[spec.target])
        return shared[key]

    def state_dict(self):
        """Parameters and buffers by name, as the compiled model has them."""
        return dict(self._state)


class TorchModel(_Program):
    """A compiled program of torch.export; made by `from_torch`.

    Called as the module was: takes and gives PyTorch's tensors, without copies.
    module: the `tensmith.Model` that does it, whose inputs are the tensors among the program's in order, and then the buffers
        that it writes.
    """

    def __init__(self, program, threads=0, options=None):
        super().__init__(program)
        self._threads, self._options = threads, dict(options or {})
        self._build()

    def _build(self):
        settings = settings_of(self._options)
        lowering = self._lowered()
        self.module = compiled(lowering.builder, settings, self._threads) if self._outputs.count else None

    def __call__(self, *args, **kwargs):
        flat = self._flattened(args, kwargs)
        tensors = [flat[i] for i in self._taken]
        for name, tensor in zip(self._names, tensors):
            if not isinstance(tensor, torch.Tensor):
                raise Error(f"input '{name}' is {type(tensor).__name__}, and must be a tensor")
        self._check(flat, tensors)
        tensors += [self._tensor(name) for name in self._buffers]
        tensors += self._draws(tensors)
        outputs = run.run(self.module, tensors) if self.module else []
        given = self._outputs.give(outputs, tensors)
        if any(kind in (*_WRITES_OF_STATES, OutputKind.USER_INPUT_MUTATION) for kind, _ in self._kinds):
            # What was read must stay until all is written: buffers may have been swapped.
            given = [value.detach().clone() if any(value is tensor for tensor in tensors) else value for value in given]
        results = []
        for (kind, target), value in zip(self._kinds, given):
            if kind in _WRITES_OF_STATES:
                with torch.no_grad():
                    self._tensor(target).copy_(value)
            elif kind == OutputKind.USER_INPUT_MUTATION:
                with torch.no_grad():
                    tensors[self._names.index(target)].copy_(value)
            else:
                results.append(value)
        return _pytree.tree_unflatten(results, self._program.call_spec.out_spec)

    def _flattened(self, args, kwargs):
        expected = self._program.call_spec.in_spec
        try:
            kwargs = reorder_kwargs(kwargs, expected)
        except ValueError as error:
            raise Error(f"the model's inputs by name are others: {error}") from None
        flat, spec = _pytree.tree_flatten((args, kwargs))
        if spec != expected:
            raise Error(f"the model takes {self._flat_count} inputs, {expected}, and is given {len(flat)}, {spec}")
        return flat

    def _check(self, flat, tensors):
        """Sizes within the ranges that torch.export was told, and what isn't a tensor as in the example; the module itself checks
        the rest."""
        for name, tensor, (shape, dtype) in zip(self._names, tensors, self._shapes):
            if tensor.dtype != dtype:
                raise Error(f"input '{name}' is of {tensor.dtype}, and must be of {dtype}")
            if tensor.dim() != len(shape):
                raise Error(f"input '{name}' has {tensor.dim()} dimensions, and must have {len(shape)}")
        values = self._bindings.values(tensors)
        for symbol, range_ in self._program.range_constraints.items():
            value = values.get(symbol)
            if value is not None and not bool(sympy.And(range_.lower <= value, value <= range_.upper)):
                raise Error(f"the size {symbol} is {value}, and the model was exported for {range_.lower} to {range_.upper}")
        for name, position, wanted in self._fixed:
            if isinstance(wanted, torch.SymInt):  # known where a dimension of a tensor has it
                wanted = values.get(sizes.expression(wanted), flat[position])
            if type(flat[position]) is not type(wanted) or flat[position] != wanted:
                raise Error(f"input '{name}' is {flat[position]!r}, and the model was exported for {wanted!r}; export it again")

    def load_state_dict(self, state):
        """Other values for parameters and buffers, as a module of the same names and shapes has them. Compiles again."""
        missing, unknown = self._state.keys() - state.keys(), state.keys() - self._state.keys()
        if missing or unknown:
            raise Error(f"the state is of another model: missing are {sorted(missing)}, unknown are {sorted(unknown)}")
        for name, tensor in state.items():
            if tensor.shape != self._state[name].shape or tensor.dtype != self._state[name].dtype:
                raise Error(f"'{name}' is {list(tensor.shape)} of {tensor.dtype}, and must be {list(self._state[name].shape)} of {self._state[name].dtype}")
        made = copy.copy(self)
        made._state = {name: tensor.detach().clone() for name, tensor in state.items()}
        made._build()
        self.__dict__.update(made.__dict__)

    def save(self, path):
        """Writes the module, which `tensmith.load`, the command line and the C API take."""
        if not self.module:
            raise Error("the model computes nothing: its outputs are its inputs")
        self.module.save(path)


class TorchGraph(_Program):
    """A program that is lowered and not compiled; made by `graph_of`."""

    def __init__(self, program):
        super().__init__(program)
        lowering = self._lowered()
        if self._buffers:
            raise Error(f"the model writes buffers, {', '.join(self._buffers[:3])}; train it by torch.compile(backend=\"tensmith\")")
        if lowering.draws:
            raise Error("the model draws random numbers, as dropout does; train it by torch.compile(backend=\"tensmith\"), or with p=0")
        self._builder = lowering.builder

    def compiled_by(self, settings, threads):
        """What `tensmith.compile` and `train_step` call."""
        return compiled(self._builder, settings, threads)
