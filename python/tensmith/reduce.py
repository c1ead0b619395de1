"""Makes a failing ONNX model smaller for as long as it fails in the same way.

    python -m tensmith.reduce model.onnx small.onnx                      # the compiler or a run crashes
    python -m tensmith.reduce model.onnx small.onnx --text "doesn't parse"   # an error that holds these words
    python -m tensmith.reduce model.onnx small.onnx --mismatch           # outputs differ from the reference evaluator's

Outputs are dropped, branches and bodies of loops take the place of their nodes, and nodes' results become inputs, first many
at a time and then one by one (A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", TSE 2002).
Each attempt is a process of its own, which may crash or hang. Needs the `onnx` package.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import helper, numpy_helper, shape_inference

CRASH, MISMATCH = "crash", "mismatch"


def inputs_of(model, seed=1):
    """Small random values for a model's inputs; a size that is open is 3."""
    random = numpy.random.default_rng(seed)
    feeds = {}
    for port in model.inputs:
        if port["type"] is None or port.get("dims") is None:
            raise SystemExit(f"input '{port['name']}' can't be made up")
        shape = [int(size) if str(size).isdigit() else 3 for size in port["dims"]]
        kind = port["type"]
        drawn = random.integers(0, 2, shape) if kind[0] in "iub" else random.uniform(-1, 1, shape)
        names = {"f32": "float32", "f64": "float64", "f16": "float16", "bool": "bool"}
        feeds[port["name"]] = drawn.astype(names.get(kind, kind.replace("i", "int").replace("u", "u")))
    return feeds


def attempt(path, mismatch):
    """In a process of its own: exits with 1 and a message where the model fails."""
    import tensmith

    try:
        model = tensmith.compile(path, threads=2)
        feeds = inputs_of(model)
        ours = model.run(**feeds)
        theirs = tensmith.compile(path, threads=1, reference=True).run(**feeds) if mismatch else ours
    except (tensmith.Error, SystemExit) as error:
        sys.exit(f"error: {error}")
    for port, a, b in zip(model.outputs, ours, theirs):
        pairs = zip(a, b) if isinstance(a, list) else [(a, b)]
        for x, y in pairs:
            if x is None or x.dtype.kind in "OUS":
                continue
            largest = numpy.abs(y[numpy.isfinite(y)]).max(initial=1) if y.dtype.kind == "f" else 0
            if x.shape != y.shape or not numpy.allclose(x, y, 1e-3, 1e-3 * float(largest), equal_nan=True):
                sys.exit(f"mismatch: output '{port['name']}'")


def fails(model, wanted, seconds):
    """Whether the model fails as `wanted` says: CRASH, MISMATCH, or a text."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        command = [sys.executable, "-m", "tensmith.reduce", path, "", "--attempt", *(["--mismatch"] if wanted == MISMATCH else [])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, errors="replace")
        except subprocess.TimeoutExpired:
            return wanted == CRASH
    if done.returncode < 0 or wanted == CRASH:
        return done.returncode < 0 and wanted == CRASH
    said = done.stderr.strip().splitlines()[-1:] or [""]
    return said[0].startswith("mismatch: ") if wanted == MISMATCH else "error: " in done.stderr and wanted in done.stderr


def subgraphs(node):
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def used_in(graph):
    """Names that the graph's nodes take, those within bodies included."""
    names = {output.name for output in graph.output}
    for node in graph.node:
        names.update(node.input)
        for body in subgraphs(node):
            names |= used_in(body)
    return names


def tidy(model):
    """Without nodes, initialisers and inputs that nothing uses."""
    graph = model.graph
    while True:
        used = used_in(graph)
        dead = [node for node in graph.node if not used & set(node.output)]
        if not dead:
            break
        for node in dead:
            graph.node.remove(node)
    for field in (graph.initializer, graph.input, graph.value_info):
        for entry in [entry for entry in field if entry.name not in used]:
            field.remove(entry)
    return model


def copy(model):
    result = onnx.ModelProto()
    result.CopyFrom(model)
    return result


def types_of(model):
    """What ONNX's shape inference knows of the main graph's tensors."""
    try:
        graph = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:  # a broken model is what is reduced
        graph = model.graph
    return {value.name: value.type for value in (*graph.value_info, *graph.output, *graph.input) if value.type.WhichOneof("value")}


def with_outputs(model, keep):
    result = copy(model)
    kept = [output for i, output in enumerate(model.graph.output) if i in keep]
    del result.graph.output[:]
    result.graph.output.extend(kept)
    return tidy(result)


def with_inputs_for(model, positions, types):
    """The nodes' results become inputs, where their types are known."""
    result = copy(model)
    graph = result.graph
    used, outputs = used_in(graph), {output.name for output in graph.output}
    for node in [graph.node[i] for i in positions]:
        for name in node.output:
            if name not in used:
                continue
            if name in outputs or name not in types or not types[name].HasField("tensor_type"):
                return None
            graph.input.append(helper.make_value_info(name, types[name]))
        graph.node.remove(node)
    return tidy(result)


def given_output(model, position, types):
    """The node's results become outputs, and the only ones."""
    node = model.graph.node[position]
    if any(name and name not in types for name in node.output):
        return None
    result = copy(model)
    del result.graph.output[:]
    result.graph.output.extend(helper.make_value_info(name, types[name]) for name in node.output if name)
    return tidy(result)


def inlined(model, position, body):
    """A branch, or one iteration of a loop, in the place of the node."""
    result = copy(model)
    graph, node = result.graph, model.graph.node[position]
    body = subgraphs(node)[body]
    renamed = {}
    if node.op_type == "Loop":
        graph.initializer.append(numpy_helper.from_array(numpy.array(0), "first_iteration"))
        graph.initializer.append(numpy_helper.from_array(numpy.array(True), "goes_on"))
        renamed = dict(zip((port.name for port in body.input), ("first_iteration", "goes_on", *node.input[2:])))
    elif node.op_type != "If":
        return None
    skipped = 1 if node.op_type == "Loop" else 0
    renamed.update({inner.name: outer for inner, outer in zip(list(body.output)[skipped:], node.output) if outer})

    def rename(nodes):
        for inner in nodes:
            for field in (inner.input, inner.output):
                field[:] = [renamed.get(name, name) for name in field]
            for nested in subgraphs(inner):
                rename(nested.node)

    nodes = [copy_of for copy_of in (onnx.NodeProto() for _ in body.node)]
    for target, source in zip(nodes, body.node):
        target.CopyFrom(source)
    rename(nodes)
    before = [n for i, n in enumerate(graph.node) if i != position]
    graph.initializer.extend(body.initializer)
    all_nodes = [*before[:position], *nodes, *before[position:]]
    kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in all_nodes]
    del graph.node[:]
    graph.node.extend(kept)
    return tidy(result)


def candidates(model):
    """Smaller models, the boldest first."""
    types = types_of(model)
    outputs, nodes = len(model.graph.output), len(model.graph.node)
    if outputs > 1:
        yield from (with_outputs(model, {i}) for i in range(outputs))
        yield from (with_outputs(model, set(range(outputs)) - {i}) for i in range(outputs))
    yield from (given_output(model, i, types) for i in range(nodes - 1))
    for i, node in enumerate(model.graph.node):
        yield from (inlined(model, i, body) for body in range(len(subgraphs(node))))
    size = nodes // 2
    while size >= 1:
        for start in range(0, nodes, size):
            yield with_inputs_for(model, range(start, min(start + size, nodes)), types)
        size //= 2


def nodes_in(graph):
    return sum(1 + sum(nodes_in(body) for body in subgraphs(node)) for node in graph.node)


def size_of(model):
    return nodes_in(model.graph), len(model.graph.output), len(model.graph.initializer)


def reduce(model, wanted, seconds=60, report=print):
    """The smallest model that was found to fail as `wanted` says; None where the given one doesn't."""
    if not fails(model, wanted, seconds):
        return None
    attempts = 0
    while True:
        for candidate in candidates(model):
            if candidate is None or not candidate.graph.output or size_of(candidate) >= size_of(model):
                continue
            attempts += 1
            if fails(candidate, wanted, seconds):
                model = candidate
                report(f"{nodes_in(model.graph)} nodes, {len(model.graph.output)} outputs after {attempts} attempts")
                break
        else:
            return model


def main():
    parser = argparse.ArgumentParser(prog="python -m tensmith.reduce", description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("out")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--text", help="words of the error that must stay")
    group.add_argument("--mismatch", action="store_true", help="outputs that differ from the reference's must stay")
    parser.add_argument("--seconds", type=float, default=60, help="that one attempt may take")
    parser.add_argument("--attempt", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.attempt:
        return attempt(chosen.model, chosen.mismatch)
    wanted = MISMATCH if chosen.mismatch else chosen.text or CRASH
    smaller = reduce(onnx.load(chosen.model), wanted, chosen.seconds, lambda line: print(line, file=sys.stderr))
    if smaller is None:
        sys.exit(f"{chosen.model}: doesn't fail in that way; see --text and --mismatch")
    onnx.save(smaller, chosen.out)
    print(f"{chosen.out}: {nodes_in(smaller.graph)} nodes")


if __name__ == "__main__":
    main()
