"""Draws ONNX models at random: 5 to 40 nodes, bodies included, with control flow and sizes that only the run tells.

    python tests/random/onnx_graphs/generate.py 17 model.onnx       # the model of seed 17; its inputs as model.npz

A model is a function of its seed.
"""

import sys

import numpy
import onnx
from onnx import helper

import control
import operators
from values import BOOL, DTYPES, F32, I64, Graph, Program, Value

OPSET, IR = 18, 8
DEEPEST = 2
FEWEST, MOST = 5, 40


def choose(graph):
    table = operators.PLAIN + (control.CONTROL if graph.depth < DEEPEST else [])
    functions, weights = zip(*table)
    return graph.random.choices(functions, weights)[0]


def grow(graph, wanted):
    """Adds `wanted` operators, as far as the model has room for them."""
    for _ in range(3 * wanted):
        if wanted <= 0 or graph.program.nodes >= MOST - 2:
            return
        if choose(graph)(graph) is not None:
            wanted -= 1


def add_inputs(graph):
    program = graph.program
    for size in ("n", "m"):
        program.sizes[size] = program.random.choice([1, 2, 3, 5, 8, 17])
    for kind in [F32, F32, I64, program.random.choice([F32, I64, BOOL])]:
        rank = program.random.randint(0 if kind == I64 else 1, 3)
        shape = tuple(program.random.choice([1, 2, 3, 4, 5, 8, 16, "n", "n", "m"]) for _ in range(rank))
        value = Value(program.fresh("x"), kind, shape, 1.0 if kind == F32 else 5)
        graph.inputs.append(helper.make_tensor_value_info(value.name, kind, shape))
        graph.values.append(value)
        numbers = [program.sizes.get(size, size) for size in shape]
        drawn = program.numpy.uniform(-1, 1, numbers) if kind == F32 else program.numpy.integers(-5, 6, numbers)
        program.feeds[value.name] = numpy.asarray(drawn > 0 if kind == BOOL else drawn).astype(DTYPES[kind])


def count(graph):
    """Its nodes, and those of bodies."""
    return sum(1 + sum(count(a.g) for a in node.attribute if a.HasField("g")) for node in graph.node)


def outputs_of(graph):
    """What no node of the main graph uses, and some of the rest."""
    used = {name for node in graph.nodes for name in node.input}
    own = {name for node in graph.nodes for name in node.output}
    return [v for v in graph.values if v.name in own and (v.name not in used or graph.random.random() < 0.1)]


def model_of(seed):
    """The model, and its inputs by name. What came out too small or too large is drawn again."""
    for attempt in range(100):
        model, feeds, nodes = draw(seed, attempt)
        if FEWEST <= nodes <= MOST:
            return model, feeds
    raise AssertionError(f"seed {seed} gives no model of {FEWEST} to {MOST} nodes")


def draw(seed, attempt):
    program = Program(seed * 100 + attempt)
    graph = Graph(program)
    add_inputs(graph)
    wanted = program.random.randint(5, 32)
    control.CONTROL[program.random.randrange(3)][0](graph)  # at least one operator with a body
    while program.nodes < wanted:
        before = program.nodes
        grow(graph, 3)
        if program.nodes == before:
            break
    outputs = outputs_of(graph)
    ports = [control.declare(v.name, v.type, v.shape) for v in outputs]
    proto = helper.make_graph(graph.nodes, f"seed {seed}", graph.inputs, ports, graph.initializers)
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    model.producer_name = "random"
    return model, program.feeds, count(proto)


if __name__ == "__main__":
    made, feeds = model_of(int(sys.argv[1]))
    onnx.save(made, sys.argv[2])
    numpy.savez(sys.argv[2].removesuffix(".onnx") + ".npz", **feeds)
