"""An ONNX graph of one image in the making, for tests that draw theirs."""

import numpy
import onnx
from onnx import helper, numpy_helper


class DrawnNetwork:
    """`shape` and `element` are those of its input "x", and `element` that of its weights."""

    def __init__(self, shape, element="float32"):
        self.nodes, self.weights, self.shape, self.element = [], {}, shape, numpy.dtype(element)

    def add(self, operator, inputs, **attributes):
        """The name of the one result of a node of that name."""
        name = f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value):
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        return name

    def model(self, results):
        """Its bytes, with the results as outputs y0, y1, ..."""
        nodes = self.nodes + [helper.make_node("Identity", [name], [f"y{i}"]) for i, name in enumerate(results)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(self.element), self.shape)],
                                  [onnx.ValueInfoProto(name=f"y{i}") for i in range(len(results))],
                                  [numpy_helper.from_array(value, name) for name, value in self.weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
