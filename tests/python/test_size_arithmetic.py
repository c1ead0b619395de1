"""What models compute of their open sizes, drawn: one compilation gives at every size what ONNX Runtime gives."""

import random

import numpy
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith

SIZES = [(0, 3), (1, 1), (2, 5), (3, 4), (7, 2), (8, 8), (16, 3), (5, 17), (1, 64), (4, 0), (33, 2)]


class Drawn:
    """A model of x[n, m] whose result has a size that is arithmetic on n and m, and is that size."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.nodes, self.constants = [], {}
        self.shape = self.node("Shape", "x")
        self.sizes = [self.node("Gather", self.shape, self.number(axis)) for axis in range(2)]
        wanted = self.clamped(self.expression(self.draw.randint(2, 4)))
        result = getattr(self, self.draw.choice(("filled", "sliced", "padded", "expanded", "reshaped")))(wanted)
        graph = helper.make_graph(self.nodes, "drawn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])],
                                  [helper.make_empty_tensor_value_info(name) for name in (result, wanted)],
                                  [numpy_helper.from_array(value, name) for name, value in self.constants.items()])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def node(self, operator, *inputs, **attributes):
        self.nodes.append(helper.make_node(operator, list(inputs), [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def number(self, value, dtype="int64"):
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy.array([value], dtype)
        return name

    def leaf(self):
        return self.draw.choice((*self.sizes, *self.sizes, self.number(self.draw.choice((0, 1, 2, 3, 4, 7, 16, 64, -1)))))

    def clamped(self, size):
        return self.node("Min", self.node("Max", size, self.number(self.draw.choice((0, 0, 1)))), self.number(self.draw.choice((9, 12, 40))))

    def expression(self, depth):
        if depth == 0 or self.draw.random() < 0.15:
            return self.leaf()
        kind = self.draw.choice(("Add", "Sub", "Mul", "Max", "Min", "Max", "Min", "Neg", "Floor", "Ceil", "Div", "Div", "Mod", "fmod", "elements", "Where"))
        a = self.expression(depth - 1)
        if kind in ("Add", "Sub", "Mul", "Max", "Min"):
            return self.node(kind, a, self.expression(depth - 1))
        if kind == "Neg":
            return self.node("Neg", a)
        if kind == "elements":
            return self.node("ReduceProd", self.shape, axes=[0], keepdims=1)
        if kind in ("Floor", "Ceil"):
            scaled = self.node("Mul", self.node("Cast", a, to=TensorProto.FLOAT), self.number(self.draw.choice((0.5, 0.25, 1.5, 2.0)), "float32"))
            return self.node("Cast", self.node(kind, scaled), to=TensorProto.INT64)
        if kind == "Div":
            return self.node("Div", a, self.draw.choice((self.number(self.draw.choice((2, 3, 4, 8, -2))), self.node("Max", self.leaf(), self.number(1)))))
        if kind in ("Mod", "fmod"):
            return self.node("Mod", a, self.number(self.draw.choice((2, 3, 4, 8))), fmod=int(kind == "fmod"))
        return self.node("Where", self.node(self.draw.choice(("Less", "Greater", "Equal")), a, self.leaf()), self.expression(depth - 1), self.leaf())

    def filled(self, size):
        return self.node("Cos", self.node("ConstantOfShape", self.node("Concat", size, self.number(2), axis=0)))

    def sliced(self, size):
        ends = self.draw.choice(((self.number(0), size, self.number(0)), (size, self.number(100), self.number(1))))
        return self.node("Relu", self.node("Slice", "x", *ends))

    def padded(self, size):
        zero = self.number(0)
        return self.node("Sin", self.node("Pad", "x", self.node("Concat", size, zero, zero, size, axis=0)))

    def expanded(self, size):
        return self.node("ReduceSum", self.node("Expand", self.number(2.5, "float32"), self.node("Concat", size, self.number(3), axis=0)), keepdims=0)

    def reshaped(self, size):
        zero = self.number(0)
        return self.node("Reshape", self.node("Pad", "x", self.node("Concat", zero, zero, size, zero, axis=0)), self.number(-1))


# Breaks where an expression over sizes is another number than the nodes compute: a case that a proof forgets, a quotient that is rounded the other
# way, the smaller of two that is the larger.
@pytest.mark.parametrize("settings", [{}, {"fuse": False}, {"reference": True}], ids=["fused", "unfused", "reference"])
def test_arithmetic_on_sizes(settings):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for seed in range(30):
        model = Drawn(seed).model
        theirs = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        ours = tensmith.compile(model, threads=1, **settings)
        for shape in SIZES:
            x = numpy.arange(shape[0] * shape[1], dtype=numpy.float32).reshape(shape) - 7
            for got, wanted in zip(ours.run(x=x), theirs.run(None, {"x": x}), strict=True):
                numpy.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5, err_msg=f"seed {seed}, {shape}", strict=True)
