"""torch.cond, while_loop and scan as the graph's `if` and `loop`.

Their branches and bodies are graphs of their own, which are lowered into regions; they may read the values around.
"""

import torch
from torch.utils import _pytree

from .. import Error
from .lowering import Value, lower, lowers


def _region(g, module, arguments):
    """The Values that a graph gives for its placeholders."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    values = dict(zip(placeholders, arguments))
    g.depth += 1
    try:
        results = lower(module.graph, g, values, module)
        return list(results) if isinstance(results, (list, tuple)) else [results]
    finally:
        g.depth -= 1


def _begun(g, x):
    """An argument as a Value: sizes become scalars."""
    return x if isinstance(x, Value) else g.tensor(x, torch.int64 if isinstance(x, (int, torch.SymInt)) else torch.float32)


def _metas(g):
    return _pytree.tree_leaves(g.meta)


@lowers("cond")
def _cond(g, condition, true_graph, false_graph, operands=()):
    condition = g.reshape(g.tensor(condition, torch.bool), ())
    metas = _metas(g)
    g.builder.begin_if(condition.number, g.location)
    for module in (true_graph, false_graph):
        results = [g.tensor(x, meta.dtype) for x, meta in zip(_region(g, module, operands), metas)]
        numbers = g.builder.end([x.number for x in results])
    return [Value(number, meta.shape, meta.dtype) for number, meta in zip(numbers, metas)]


@lowers("while_loop")
def _while_loop(g, condition_graph, body_graph, carried, additional=()):
    carried, additional = [_begun(g, x) for x in carried], list(additional)

    def holds(values):
        return g.reshape(g.cast(_region(g, condition_graph, [*values, *additional])[0], torch.bool), ())

    arguments = g.builder.begin_loop(None, holds(carried).number, [x.number for x in carried], g.location)
    inner = [Value(number, x.shape, x.dtype) for number, x in zip(arguments[2:], carried)]
    results = [g.broadcast(g.tensor(x, old.dtype), old.shape) for x, old in zip(_region(g, body_graph, [*inner, *additional]), carried)]
    numbers = g.builder.end([holds(results).number, *(x.number for x in results)])
    return [Value(number, x.shape, x.dtype) for number, x in zip(numbers, carried)]


@lowers("scan")
def _scan(g, combine, init, xs, additional=()):
    """combine(carry, one of each of xs, additional) gives the next carry and what is stacked; along dimension 0."""
    carried, xs, additional = [_begun(g, x) for x in init], list(xs), list(additional)
    if not xs:
        raise Error("it goes along no tensor, so that the number of its steps isn't known")
    steps = g.size(xs[0].shape[0]) if not isinstance(xs[0].shape[0], int) else g.scalar(xs[0].shape[0], torch.int64)
    arguments = g.builder.begin_loop(steps.number, None, [x.number for x in carried], g.location)
    at = Value(arguments[0], (), torch.int64)
    inner = [Value(number, x.shape, x.dtype) for number, x in zip(arguments[2:], carried)]
    slices = [g.op("gather", [x, at], x.shape[1:], axis=0) for x in xs]
    results = _region(g, combine, [*inner, *slices, *additional])
    kept = [g.broadcast(g.cast(x, old.dtype), old.shape) for x, old in zip(results, carried)]
    metas = _metas(g)[len(carried) :]
    stacked = [g.tensor(x, meta.dtype) for x, meta in zip(results[len(carried) :], metas)]
    goes_on = Value(arguments[1], (), torch.bool)
    numbers = g.builder.end([goes_on.number, *(x.number for x in kept), *(x.number for x in stacked)])
    shapes = [*((x.shape, x.dtype) for x in carried), *((meta.shape, meta.dtype) for meta in metas)]
    return [Value(number, shape, dtype) for number, (shape, dtype) in zip(numbers, shapes)]
