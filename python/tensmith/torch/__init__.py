"""PyTorch's models and programs: `from_torch` compiles one, `backend` is what `torch.compile` calls.

    import tensmith as ts
    model = ts.from_torch(net, (x,))
    y = model(x)

    fast = torch.compile(net, backend="tensmith")

Both go the same way: PyTorch gives a graph of ATen's core operators, and each becomes operators of ours by the function that
`lowers` has registered for it (docs/pytorch.md).
"""

from .export import TorchModel, from_torch, graph_of
from .lowering import lowers, supported

__all__ = ["TorchModel", "backend", "from_torch", "graph_of", "lowers", "supported"]


def backend(module, example_inputs, *, options=None, mode=None):
    """What torch.compile calls: `torch.compile(model, backend="tensmith", options={"threads": 4})`.

    options: those of `tensmith.compile` that have to do with a graph (target, cache_dir, precision, libraries, ...), threads, and
        constants: whether inference is compiled for the parameters as they are, until one of them changes, and fallback: whether PyTorch
        runs what can't be compiled (default: yes, and a warning names it).
    `mode` says nothing here.
    """
    from .graphs import compile_traced

    return compile_traced(module, example_inputs, dict(options or {}))
