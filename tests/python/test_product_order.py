"""Chains of products in the order that takes the fewest operations: results, what was chosen, and what a policy keeps."""

import json

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")


class Graph:
    """Nodes as they are written down; inputs with drawn values, and what each value is in double precision."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.inputs, self.constants, self.values = [], {}, {}, {}

    def operand(self, *shape, constant=False):
        name = f"x{len(self.values)}"
        value = (self.random.standard_normal(shape) / max(1, shape[-1]) ** 0.5).astype("float32")
        (self.constants if constant else self.inputs)[name] = value
        self.values[name] = value.astype("float64")
        return name

    def node(self, operator, compute, *operands, **attributes):
        name = f"v{len(self.values)}"
        self.nodes.append(helper.make_node(operator, list(operands), [name], name=name, **attributes))
        self.values[name] = compute(*(self.values[operand] for operand in operands))
        return name

    def matmul(self, a, b):
        return self.node("MatMul", numpy.matmul, a, b)

    def turned(self, x):
        rank = self.values[x].ndim
        order = [*range(rank - 2), rank - 1, rank - 2]
        return self.node("Transpose", lambda value: value.transpose(order), x, perm=order)

    def model(self, *outputs, open_sizes={}):
        """open_sizes: what sizes are called that stay open."""
        sizes = {name: [open_sizes.get(size, size) for size in value.shape] for name, value in self.inputs.items()}
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes[name]) for name in self.inputs],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def check(self, compiled, *outputs):
        for name, result in zip(outputs, compiled.run(*self.inputs.values())):
            wanted, result = self.values[name], numpy.asarray(result)
            assert result.shape == wanted.shape
            assert numpy.abs(result - wanted).max(initial=0) <= 1e-4 * numpy.abs(wanted).max(initial=1e-6)


def orders(compiled):
    """Of each chain whether it was reordered."""
    return [entry["product_order"] for entry in json.loads(compiled.describe()["metadata"]["schedules"])
            if "product_order" in entry]


def drawn(seed):
    """Two to seven factors, associated at random, with what may stand between them; some products are read twice."""
    graph = Graph(seed)
    random = graph.random
    count = int(random.integers(3, 8))
    sizes = [int(size) for size in random.choice([1, 2, 3, 7, 16, 33, 64], count + 1)]
    stack = (int(random.integers(2, 4)),) if random.random() < 0.3 else ()
    ends_in_vector = not stack and random.random() < 0.4

    def part(first, last):
        if first == last:
            if ends_in_vector and first == count - 1:
                return graph.operand(sizes[first])
            own = stack if random.random() < 0.5 else ()
            constant = random.random() < 0.3
            if random.random() < 0.3:
                return graph.turned(graph.operand(*own, sizes[first + 1], sizes[first], constant=constant))
            return graph.operand(*own, sizes[first], sizes[first + 1], constant=constant)
        split = int(random.integers(first, last))
        value = graph.matmul(part(first, split), part(split + 1, last))
        kind = random.random()
        if kind < 0.15:
            number = graph.operand(1, constant=True)
            value = graph.node(*(("Mul", numpy.multiply) if kind < 0.08 else ("Div", numpy.divide)), value, number)
        elif kind < 0.25:
            value = graph.node("Neg", numpy.negative, value)
        elif kind < 0.45:
            shape = graph.values[value].shape
            value = graph.node("Add", numpy.add, value, graph.operand(*shape[int(random.integers(0, len(shape))):]))
        elif kind < 0.55 and graph.values[value].ndim > 1:
            value = graph.turned(graph.turned(value))
        elif kind < 0.65:
            graph.shared = value
        return value

    graph.shared = None
    result = part(0, count - 1)
    outputs = [result]
    if graph.shared and graph.shared != result and graph.values[graph.shared].ndim > 1:
        vector = graph.operand(graph.values[graph.shared].shape[-1])
        outputs.append(graph.matmul(graph.shared, vector))
    return graph, outputs


def test_random_chains():
    """Breaks if a chain in another order is another product: a transposition that was lost, a scale, a sum, a shared part."""
    reordered = 0
    for seed in range(40):
        graph, outputs = drawn(seed)
        compiled = tensmith.compile(graph.model(*outputs))
        graph.check(compiled, *outputs)
        reordered += sum(orders(compiled))
    assert reordered > 15


def test_open_sizes_decide_in_the_run():
    """Breaks if a run takes an order that isn't its sizes', or one of them gives something else."""
    for rows in (1, 5, 50, 400, 3000):
        graph = Graph(rows)
        x, a, b = graph.operand(rows, 90), graph.operand(90, 400), graph.operand(400, 90)
        y = graph.matmul(graph.matmul(x, a), b)
        compiled = tensmith.compile(graph.model(y, open_sizes={rows: "n"}))
        assert orders(compiled) == [1]
        graph.check(compiled, y)


def test_exact_keeps_the_order(tmp_path):
    """Breaks if `exact` reorders floats, or a schedule can't ask for the order of the model."""
    graph = Graph(3)
    a, b, v = graph.operand(60, 50), graph.operand(50, 70), graph.operand(70)
    y = graph.matmul(graph.matmul(a, b), v)
    model = graph.model(y)
    fast, exact = tensmith.compile(model), tensmith.compile(model, precision="exact")
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps({"schedules": [{"nodes": [y], "product_order": 0}]}))
    kept = tensmith.compile(model, schedules=asked)
    assert orders(fast) == [1] and orders(exact) in ([], [0]) and orders(kept) == [0]
    for compiled in (fast, exact, kept):
        graph.check(compiled, y)
    results = [numpy.asarray(compiled.run(*graph.inputs.values())[0]).tobytes() for compiled in (exact, kept)]
    assert results[0] == results[1]


def test_gradients():
    """Breaks if chains of a gradient stay as differentiation writes them: of (A B) v all are products with vectors."""
    graph = Graph(5)
    a, b, v = graph.operand(60, 50), graph.operand(50, 70), graph.operand(70)
    product = graph.matmul(graph.matmul(a, b), v)
    loss = graph.node("ReduceSum", lambda value: value.sum(), graph.node("Mul", numpy.multiply, product, product), keepdims=0)
    compiled = tensmith.compile(graph.model(loss), derivatives=[("grad", loss, [a, b, v])])
    assert sum(orders(compiled)) >= 1
    left, right, vector = (graph.values[name] for name in (a, b, v))
    y = 2 * (left @ right @ vector)
    wanted = [numpy.outer(y, right @ vector), numpy.outer(left.T @ y, vector), right.T @ (left.T @ y)]
    for result, expected in zip(compiled.run(*graph.inputs.values())[1:], wanted):
        assert numpy.abs(numpy.asarray(result) - expected).max() <= 1e-4 * numpy.abs(expected).max()
