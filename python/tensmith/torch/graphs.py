"""What torch.compile gives: AOTAutograd makes a graph of the forward and one of the backward, and each is compiled.

Parameters are inputs there, so that an optimiser may change them in place. Sizes that PyTorch leaves open come as numbers beside
the tensors; a module is told one by the dimension of an input that has no other use.

Modules are kept in the cache of whole modules, whose key is the graph's text: another process that makes the same graph loads
it without the compiler.
"""

import os

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils._python_dispatch import _disable_current_modes

from .. import Error, Model, _KeptModel, _tensmith
from . import contraction, control, elementwise, indexing, movement, pooling, random, reduction, run  # noqa: F401, the functions register themselves
from .lowering import Lowering, lower

def decompositions():
    """PyTorch's own, of what isn't core, and of gradients."""
    aten = torch.ops.aten
    table = dict(core_aten_decompositions())
    table.update(get_decompositions([
        aten.native_batch_norm, aten.native_batch_norm_backward, aten.native_layer_norm_backward, aten.native_group_norm_backward,
        aten.embedding_dense_backward, aten._softmax_backward_data, aten._log_softmax_backward_data, aten.gelu_backward,
        aten.silu_backward, aten.hardswish_backward, aten.hardtanh_backward, aten.hardsigmoid_backward, aten.sigmoid_backward,
        aten.tanh_backward, aten.nll_loss_forward, aten.nll_loss_backward, aten.mse_loss, aten.mse_loss_backward, aten.addmm_,
        aten.slice_backward, aten.select_backward, aten._native_batch_norm_legit, aten.native_dropout_backward, aten.elu_backward,
        aten.leaky_relu_backward, aten.softplus_backward, aten.binary_cross_entropy, aten.binary_cross_entropy_backward,
        aten.smooth_l1_loss, aten.smooth_l1_loss_backward, aten.avg_pool2d_backward, aten.upsample_nearest2d_backward,
    ]))  # fmt: skip
    return table


class CompiledGraph:
    """A graph of AOTAutograd's, compiled."""

    def __init__(self, module, options):
        lowering, values = Lowering(), {}
        self._sizes = []  # whether each input is a number
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        for node in placeholders:
            meta = node.meta["val"]
            is_size = not isinstance(meta, torch.Tensor)
            self._sizes.append(is_size)
            if is_size:
                lowering.input(node.name, [meta], torch.uint8)
            else:
                values[node] = lowering.input(node.name, meta.shape, meta.dtype)
        results = lower(module.graph, lowering, values, module)
        self._draws = run.Draws(lowering)
        inputs = {value.number: i for i, value in enumerate(lowering.inputs)}
        self._outputs = run.Outputs(lowering, results, inputs)
        self._model = _kept(lowering.builder, options) if self._outputs.count else None

    def __call__(self, *arguments):
        tensors = [run.carrier(x) if is_size else x for x, is_size in zip(arguments, self._sizes)]
        tensors += self._draws(tensors)
        outputs = run.run(self._model, tensors) if self._model else []
        return self._outputs.give(outputs, tensors)


def _kept(builder, options):
    """From the cache of modules, or compiled and kept there."""
    options = dict(options)
    threads = options.pop("threads", 0)
    settings, text = run.settings_of(options), builder.text().encode()
    kept = _tensmith.KeptModules("graph", text, settings)
    if found := kept.find():
        descriptor, size, _ = found
        file = os.fdopen(descriptor, "rb")
        try:
            return _KeptModel(_tensmith.load(f"/proc/self/fd/{descriptor}", threads, 0, 0, size), file, size)
        except Error:  # of another version, or for another machine
            file.close()
    module = _tensmith.compile_bytes(text, "graph", settings, kept)
    kept.keep(module, "")
    return Model(_tensmith.load(module, threads, 0, 0), module)


def compile_traced(module, example_inputs, options):
    """A graph of TorchDynamo's as a function, whose gradients are compiled too."""

    def compile_graph(graph, inputs):
        with _disable_current_modes():  # constants are real tensors
            return make_boxed_func(CompiledGraph(graph, options))

    return aot_autograd(fw_compiler=compile_graph, decompositions=decompositions())(module, example_inputs)
