"""What torch.compile gives: AOTAutograd makes a graph of the forward and one of the backward, and each is compiled. Between them go the
tensors of the least bytes from which the backward can be computed again by elementwise operators (a minimum cut, which is PyTorch's).

Parameters are inputs there, so that an optimiser may change them in place. Sizes that PyTorch leaves open come as numbers beside
the tensors; a module is told one by the dimension of an input that has no other use. A number that is in no shape is a tensor.

Modules are kept in the cache of whole modules, whose key is the graph's text: another process that makes the same graph loads
it without the compiler.

What can't be compiled PyTorch runs, between compiled parts, and a warning tells it; `{"fallback": False}` refuses it.
"""

import functools
import os
import threading
import warnings

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils import _pytree
from torch.utils._python_dispatch import _disable_current_modes

from .. import Error, Model, _KeptModel, _tensmith
from ..lowered import bytes_of, compiled, settings_of
from . import parts, run, sizes
from .decompositions import decompositions
from .lowering import Lowering, Unsupported, complete, is_number, lower, missing, name_of, operator_of, place_of, told


class CompiledGraph:
    """A graph of AOTAutograd's, lowered; `compile` goes before calls. `constants`: tensors in the place of inputs, by position."""

    def __init__(self, module, options, constants=None):
        lowering, values, lost = Lowering(), {}, {}
        constants = constants or {}
        self._taken = []  # (position, what makes a tensor of a number or None) of the module's inputs
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        of_shapes, of_inputs = sizes.symbols_of_shapes(module), sizes.symbols_of_inputs(placeholders)
        for position, node in enumerate(placeholders):
            meta = node.meta["val"]
            if position in constants:
                values[node] = lowering.constant(constants[position], f"constant.{position}")
                continue
            if sizes.is_open(meta) and not (expr := sizes.expression(meta)).is_Symbol and expr.free_symbols <= of_inputs:
                continue  # computed from what others tell
            if isinstance(meta, torch.SymFloat) or (isinstance(meta, torch.SymInt) and not sizes.expression(meta).free_symbols & of_shapes):
                if node.users and not sizes.expression(meta).is_number:  # a nested tensor's own is used by nothing, and no number when it runs
                    dtype = torch.float64 if isinstance(meta, torch.SymFloat) else torch.int64
                    lowering.number_input(node.name, meta, dtype)
                    self._taken.append((position, functools.partial(run.number, node.name, dtype)))
            elif isinstance(meta, torch.Tensor):
                try:
                    values[node] = lowering.input(node.name, meta.shape, meta.dtype)
                except Error as error:  # a size that has no form
                    lost[node] = str(error)
                    continue
                self._taken.append((position, None))
            else:
                lowering.input(node.name, [meta], torch.uint8)
                self._taken.append((position, functools.partial(run.carrier, node.name)))
        results = lower(module.graph, lowering, values, module, lost)
        nodes = module.graph.output_node().args[0]
        self._offsets = [(i, node.name, int(node.meta["val"].storage_offset())) for i, node in enumerate(placeholders) if node in lowering.placed]
        self._draws = run.Draws(lowering)
        inputs = {value.number: i for i, value in enumerate(lowering.inputs)}
        tensors = {placeholders[position]: i for i, (position, made) in enumerate(self._taken) if made is None}
        self._outputs = run.Outputs(lowering, results, inputs, nodes, tensors)
        self._model, self._lowered = None, (lowering, options, bool(constants))

    def compile(self):
        lowering, options, has_constants = self._lowered
        self._lowered = None
        if self._outputs.count:
            self._places = lowering.places()
            self._model = _compiled(lowering.builder, options) if has_constants else _kept(lowering, options)
        return self

    def __call__(self, *arguments):
        for i, name, offset in self._offsets:
            if arguments[i].storage_offset() != offset:
                raise Error(f"the input '{name}' starts at the element {arguments[i].storage_offset()} of its memory, and the model takes elements "
                            f"by places in memory for one that starts at {offset}; call as_strided without an offset")  # fmt: skip
        tensors = [made(arguments[i]) if made else arguments[i] for i, made in self._taken]
        tensors += self._draws(tensors)
        outputs = run.run(self._model, tensors, self._places) if self._model else []
        return self._outputs.give(outputs, tensors)


class PartedGraph:
    """One of which PyTorch runs the nodes that are in `theirs`, by name."""

    def __init__(self, module, options, constants, theirs):
        for node in module.graph.nodes:
            node.meta["of_whole"] = node.name
        placeholders = {node.name: i for i, node in enumerate(module.graph.find_nodes(op="placeholder"))}
        self._whole, ours = parts.split(module, lambda node: node.name not in theirs)
        refused = {}
        for name, part in ours.items():
            (call,) = self._whole.graph.find_nodes(op="call_module", target=name)
            given = {i: placeholders[node.name] for i, node in enumerate(call.args) if node.name in placeholders and node.op == "placeholder"}
            held = {i: constants[place] for i, place in given.items() if place in (constants or {})}
            try:
                setattr(self._whole, name, _Part(part, options, held))
            except Unsupported as error:
                refused |= error.refused
        if refused:
            raise Unsupported(refused)
        self._parts = [getattr(self._whole, name) for name in ours]

    def compile(self):
        for part in self._parts:
            part.compile()
        return self

    def __call__(self, *arguments):
        return self._whole(*arguments)


class _Part(torch.nn.Module):
    """Called by the graph of the whole, which takes one result as it is."""

    def __init__(self, module, options, constants):
        super().__init__()
        output = module.graph.output_node()
        self._is_one = isinstance(output.args[0], torch.fx.Node)
        if self._is_one:
            output.args = ((output.args[0],),)
        self._graph = CompiledGraph(module, options, constants)

    def compile(self):
        self._graph.compile()

    def forward(self, *arguments):
        results = self._graph(*arguments)
        return results[0] if self._is_one else tuple(results)


def _graph_of(module, options, constants=None):
    """The graph compiled, in parts where PyTorch has to run some operators."""
    complete(module.graph)
    options = dict(options)
    if not options.pop("fallback", True):
        return CompiledGraph(module, options, constants).compile()
    theirs = {node.name: names for node, names in missing(module.graph, module).items()}
    for node in module.graph.nodes:
        if node.op == "call_function" and not is_number(node) and any(_is_complex(each) for each in (node, *node.all_input_nodes)):
            theirs.setdefault(node.name, [(name_of(operator_of(node)), place_of(node))])
    nodes = {node.name: node for node in module.graph.nodes}
    for name in theirs:
        _check_memory(nodes[name], told(theirs[name]))
    while True:
        try:
            graph = PartedGraph(module, options, constants, theirs) if theirs else CompiledGraph(module, options, constants)
            break
        except Unsupported as error:
            for node, why in error.refused.items():
                name = node.meta.get("of_whole", node.name)
                if name in theirs:
                    raise
                _check_memory(nodes[name], why)
                theirs[name] = [(f"{name_of(operator_of(node))} ({why})", place_of(node))]
    if theirs:
        warnings.warn("PyTorch runs operators that can't be compiled; register functions by tensmith.torch.lowers:\n"
                      + told(pair for names in theirs.values() for pair in names), stacklevel=2)  # fmt: skip
    return graph.compile()


def _check_memory(node, why):
    """Refuses to run what reads a tensor's memory beyond its elements, unless that is an input: what a part gives lies elsewhere than in eager."""
    if name_of(node.target).startswith("aten.as_strided") and node.args[0].op != "placeholder":
        raise Error(f"{why}: it takes the memory of a tensor that is computed, which only eager has; call as_strided without an offset")


def _is_complex(node):
    return any(isinstance(value, torch.Tensor) and value.is_complex() for value in _pytree.tree_leaves(node.meta.get("val")))


class ConstantGraph:
    """One for inference, into which the parameters and buffers are compiled that it is first called with.

    It holds for these tensors as they were. After a change of one, by other tensors or in place, a graph is compiled that takes them as
    inputs, and used from then on. PyTorch counts changes, but for those through `.data`, and for those of tensors made in its inference mode,
    with which the graph takes inputs from the start. Threads may call at once; what failed to compile is tried again.
    """

    def __init__(self, module, options, static):
        self._module, self._options, self._static = module, options, static
        self._lock = threading.Lock()
        self._constant, self._general = None, None  # of the first the tensors too, with their versions

    def __call__(self, *arguments):
        return self._graph_for(arguments)(*arguments)

    def _graph_for(self, arguments):
        with self._lock, _disable_current_modes():
            if self._constant is None and self._general is None:
                tensors = {i: arguments[i] for i in self._static if isinstance(arguments[i], torch.Tensor)}
                if not any(tensor.is_inference() for tensor in tensors.values()):
                    kept = [(i, tensor, tensor._version) for i, tensor in tensors.items()]
                    self._constant = _graph_of(self._module, self._options, tensors), kept
            if self._constant is not None:
                graph, kept = self._constant
                if all(arguments[i] is tensor and tensor._version == version for i, tensor, version in kept):
                    return graph
            if self._general is None:
                self._general = _graph_of(self._module, self._options)
                self._constant = None
            return self._general


def _static_inputs():
    """The positions of parameters and buffers among the inputs of the graph that is being compiled."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    return set(metadata.static_input_indices or ()) if metadata else set()


def _compiled(builder, options):
    options = dict(options)
    threads = options.pop("threads", 0)
    return compiled(builder, settings_of(options), threads)


def _kept(lowering, options):
    """From the cache of modules, or compiled and kept there. The graph's text leaves out what large constants hold, of which the key has a
    digest."""
    options = dict(options)
    threads = options.pop("threads", 0)
    settings, text = settings_of(options), lowering.builder.text().encode()
    has_all = b"dense_resource<" not in text
    kept = _tensmith.KeptModules("graph", text if has_all else text + lowering.digest(), settings)
    if found := kept.find():
        descriptor, size, _ = found
        file = os.fdopen(descriptor, "rb")
        try:
            return _KeptModel(_tensmith.load(f"/proc/self/fd/{descriptor}", threads, 0, 0, size), file, size)
        except Error:  # of another version, or for another machine
            file.close()
    module = _tensmith.compile_bytes(text, "graph", settings, kept) if has_all else bytes_of(lowering.builder, settings)
    kept.keep(module, "")
    return Model(_tensmith.load(module, threads, 0, 0), module)


def compile_traced(module, example_inputs, options):
    """A graph of TorchDynamo's as a function, whose gradients are compiled too."""

    has_constants = options.pop("constants", False)

    def compile_graph(graph, inputs):
        with _disable_current_modes():  # constants are real tensors
            return make_boxed_func(_graph_of(graph, options))

    def compile_inference(graph, inputs):
        if not has_constants:
            return compile_graph(graph, inputs)
        return make_boxed_func(ConstantGraph(graph, options, _static_inputs()))

    return aot_autograd(
        fw_compiler=compile_graph, inference_compiler=compile_inference, decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )(module, example_inputs)  # fmt: skip
