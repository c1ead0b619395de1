"""Samples of operators that PyTorch's own test database draws, lowered, run and compared with eager.

The database is an oracle that knows nothing of the lowerings: it has each operator's forms over shapes, dimensions, keepdims, broadcasting,
empty tensors and those without dimensions. A sample is traced to the operators that `torch.compile` would hand over, lowered, and evaluated; what its lowering
refuses says so by `tensmith.Error`.

    python tests/torch/samples.py --seed 3 --count 4 add mul     # by names; all operators where there is none
"""

import random

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree

import tensmith as ts
import tensmith.torch
from tensmith.torch import run
from tensmith.torch.graphs import CompiledGraph, decompositions

TYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.bfloat16, torch.float16)
# What results may differ by: rounding of other orders of sums, and of functions that vectors compute otherwise.
TOLERANCE = {torch.bfloat16: (3e-2, 3e-2), torch.float16: (1e-2, 1e-2), torch.float64: (1e-6, 1e-6)}


class Refused(Exception):
    """A sample that has no form here; says why."""


def database():
    """The operators by name; those that give numbers by chance or memory without contents, and those of complex results, are left out."""
    from torch.testing._internal.common_methods_invocations import op_db

    named = {}
    for op in op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if not any(word in name for word in ("empty", "rand", "bernoulli", "multinomial", "normal.", "dropout", "uniform", "cauchy", "exponential", "geometric", "log_normal")):
            named[name] = op
    return named


def drawn(op, dtype, rng, count):
    """So many of an operator's samples; the database's order is fixed, the choice is the generator's."""
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    return rng.sample(samples, min(count, len(samples)))


def as_function(op, sample):
    """(function of a list of tensors, those tensors): what else there is of arguments stays the sample's."""
    flat, spec = _pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]

    def function(tensors):
        leaves = list(flat)
        for place, tensor in zip(places, tensors):
            leaves[place] = tensor
        first, args, kwargs = _pytree.tree_unflatten(leaves, spec)
        return _pytree.tree_leaves(op(first, *args, **kwargs))

    return function, [flat[i] for i in places]


def traced(function, tensors):
    """The graph of ATen's operators, without writes."""
    with torch.no_grad():
        return make_fx(torch.func.functionalize(function, remove="mutations_and_views"), decomposition_table=decompositions(), tracing_mode="fake")(tensors)


def check(op, sample, options=None):
    """Compares; AssertionError where answers differ, Refused where there is no lowering."""
    function, tensors = as_function(op, sample)
    if any(tensor.layout != torch.strided or tensor.is_quantized for tensor in tensors):
        raise Refused("not dense")
    try:
        wanted = function([tensor.clone() for tensor in tensors])
    except Exception as error:
        raise Refused(f"eager refuses: {error}") from None
    try:
        module = traced(function, [tensor.clone() for tensor in tensors])
    except Exception as error:
        raise Refused(f"it can't be traced: {type(error).__name__}") from None
    if any(isinstance(x, torch.Tensor) and x.is_complex() for x in [*tensors, *wanted]):
        raise Refused("complex numbers")
    try:
        graph = CompiledGraph(module, options or {"reference": True}).compile()
    except ts.Error as error:
        raise Refused(str(error)) from None
    flat = [tensor for tensor in tensors]
    given = graph(*flat)
    assert len(given) == len(wanted), (len(given), len(wanted))
    for a, b in zip(given, wanted):
        if not isinstance(b, torch.Tensor):
            assert a == b, (a, b)
            continue
        assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
        rtol, atol = TOLERANCE.get(b.dtype, (1e-4, 1e-4))
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)


def sweep(names, seed, count, types=TYPES, options=None):
    """Yields (name, dtype, sample's text, None or what went wrong) of samples drawn from a seed."""
    known = database()
    for name in names or known:
        op = known[name]
        for dtype in types:
            if dtype not in op.dtypes:
                continue
            rng = random.Random(f"{seed} {name} {dtype}")
            for sample in drawn(op, dtype, rng, count):
                try:
                    check(op, sample, options)
                    yield name, dtype, sample, None
                except (Refused, AssertionError, Exception) as error:  # noqa: B014, the first are named to be told apart
                    yield name, dtype, sample, error


def main():
    import argparse
    import time

    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--types", default="")
    parser.add_argument("--compiled", action="store_true", help="by kernels, not by the reference")
    arguments = parser.parse_args()
    types = [t for t in TYPES if not arguments.types or str(t).removeprefix("torch.") in arguments.types.split(",")]
    start, counts = time.time(), {"good": 0, "refused": 0, "bad": 0}
    for name, dtype, sample, error in sweep(arguments.names, arguments.seed, arguments.count, types, {} if arguments.compiled else None):
        kind = "good" if error is None else "refused" if isinstance(error, Refused) else "bad"
        counts[kind] += 1
        if kind != "good":
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            print(kind.upper(), name, str(dtype).removeprefix("torch."), f"{type(error).__name__}:", " | ".join(lines)[:330], "##", _brief(sample), flush=True)
    print(counts, round(time.time() - start), "s")


def _brief(sample):
    def text(x):
        return f"{tuple(x.shape)}" if isinstance(x, torch.Tensor) else repr(x)

    return str(_pytree.tree_map(text, (sample.input, sample.args, sample.kwargs)))[:200]


if __name__ == "__main__":
    main()
