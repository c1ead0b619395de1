"""What is joined is computed where it lies in the result: by kernels of every kind, beside parts that are copied there, on networks
drawn at random; against ONNX Runtime, and what a run shows of the parts on the way."""

import json
import os
import pathlib
import random
import subprocess

import numpy
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

tensmith = pytest.importorskip("tensmith")
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))
SEEDS = 20
KINDS = ["pointwise", "window", "strided", "depthwise", "grouped", "pool", "resized", "elementwise", "turned", "input", "shared", "joined",
         "twice", "of planes"]
COPIED = {"input", "shared", "twice", "of planes", "resized"}  # where that is most of it, all is


class Network:
    """Branches of one image, their join, and two readers of that."""

    def __init__(self, seed):
        self.draw, self.rng = random.Random(seed), numpy.random.default_rng(seed)
        self.nodes, self.weights, self.outputs, self.windows = [], {}, [], []
        self.shape = [self.draw.choice([1, 1, 2]), self.draw.choice([4, 16, 24]), 2 * self.draw.randint(3, 9), 2 * self.draw.randint(3, 9)]
        kinds = [self.draw.choice(["window", "pointwise", "depthwise", "pool"]), *self.draw.sample(KINDS, self.draw.choice([1, 2, 4]))]
        self.kinds = self.draw.sample(kinds, len(kinds))
        x, channels = self.conv("x", self.shape[1], self.draw.choice([16, 17, 32]), 3)
        joined, total = self.join(x, channels, self.kinds)
        self.outputs.append(self.add("MaxPool", [joined], kernel_shape=[3, 3], pads=[1] * 4))
        self.outputs.append(self.conv(joined, total, 19, 3)[0])

    def add(self, operator, inputs, **attributes):
        name = f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value):
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        return name

    def numbers(self, *shape):
        return self.constant((self.rng.standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))).astype("float32"))

    def conv(self, x, inputs, outputs, window, stride=1, group=1):
        y = self.add("Conv", [x, self.numbers(outputs, inputs // group, window, window), self.numbers(outputs)], group=group,
                     pads=[window // 2] * 4, strides=[stride] * 2)
        if (window, stride, group) == (3, 1, 1):
            self.windows.append(y)
        return self.add("Relu", [y]), outputs

    def branch(self, kind, x, channels):
        width = self.draw.choice([3, 8, 16, 24, 33])
        if kind in ("pointwise", "window"):
            return self.conv(x, channels, width, 1 if kind == "pointwise" else 3)
        if kind in ("strided", "resized"):  # half as many pixels, and each four times
            y, _ = self.conv(x, channels, width, 3, stride=2)
            return self.add("Resize", [y, "", self.constant(numpy.array([1, 1, 2, 2], "float32"))], mode="nearest"), width
        if kind == "depthwise":
            return self.conv(x, channels, channels, 3, group=channels)
        if kind == "grouped":
            y, _ = self.conv(x, channels, 16, 1)
            return self.conv(y, 16, 16, 3, group=4)
        if kind == "pool":
            return self.add("MaxPool", [x], kernel_shape=[3, 3], pads=[1] * 4), channels
        if kind == "elementwise":
            return self.add("Tanh", [x]), channels
        if kind == "turned":  # pixels out of channels, as transposed convolutions have them
            y, _ = self.conv(x, channels, 4 * width, 3, stride=2)
            return self.add("DepthToSpace", [y], blocksize=2, mode="CRD"), width
        if kind == "input":
            return "x", self.shape[1]
        if kind == "shared":
            y, width = self.conv(x, channels, width, 3)
            self.outputs.append(self.add("MaxPool", [y], kernel_shape=[2, 2]))
            return y, width
        if kind == "of planes":  # joined along lines, then with others along channels
            y, _ = self.conv(x, channels, width, 1)
            z, _ = self.conv(x, channels, width, 3)
            half, end = self.shape[2] // 2, self.shape[2]
            halves = [self.add("Slice", [part, *(self.constant(numpy.array([number])) for number in (first, last, 2))])
                      for part, first, last in ((y, 0, half), (z, half, end))]
            return self.add("Concat", halves, axis=2), width
        return self.join(x, channels, ["pointwise", "window"])

    def join(self, x, channels, kinds):
        parts = [self.branch(kind, x, channels) for kind in kinds if kind != "twice"]
        parts += parts[:1] * ("twice" in kinds)
        return self.add("Concat", [name for name, _ in parts], axis=1), sum(width for _, width in parts)

    def model(self):
        nodes = self.nodes + [helper.make_node("Identity", [name], [f"y{i}"]) for i, name in enumerate(self.outputs)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.shape)],
                                  [onnx.ValueInfoProto(name=f"y{i}") for i in range(len(self.outputs))],
                                  [numpy_helper.from_array(value, name) for name, value in self.weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def image(self):
        return self.rng.standard_normal(self.shape).astype("float32")


def joins(module):
    return sum(step["opcode"] == "join" for step in module.describe()["functions"][0]["instructions"])


def differences(module, model, image):
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": image})
    return [numpy.abs(numpy.asarray(ours) - theirs).max() / numpy.abs(theirs).max() for ours, theirs in zip(module.run(image), wanted)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_parts_are_where_they_are_joined(seed, tmp_path):
    """Breaks if a kernel stores a row beside its place, or over its neighbour's; or if the memory serves something else in between."""
    network = Network(seed)
    model, image = network.model(), network.image()
    filtered = tmp_path / "schedules.json"
    filtered.write_text(json.dumps({"schedules": [{"nodes": network.windows, "winograd_outputs": 2}]}))
    for precision, schedules, bound in (("exact", None, 1e-5), ("fast", None, 1e-4), ("fast", filtered, 1e-4), ("bf16", None, 4e-2)):
        module = tensmith.compile(model, precision=precision, threads=2, schedules=schedules)
        assert max(differences(module, model, image)) < bound, (network.kinds, precision)
        assert joins(module) > 0 or COPIED & set(network.kinds), (network.kinds, precision)


def detections(seed):
    """Numbers of a few maps' pixels, one map's behind the other's, and what is made of them."""
    rng, nodes, weights, parts = numpy.random.default_rng(seed), [], {}, []
    x, channels = "x", 6
    for level in range(3):
        for name, outputs, stride in ((f"m{level}", 16, 2), (f"h{level}", 12, 1)):
            weights[f"w{name}"] = (rng.standard_normal((outputs, channels if stride == 2 else 16, 3, 3)) / 12).astype("float32")
            nodes.append(helper.make_node("Conv", [x if stride == 2 else f"m{level}", f"w{name}"], [name], pads=[1] * 4, strides=[stride] * 2))
        nodes.append(helper.make_node("Transpose", [f"h{level}"], [f"t{level}"], perm=[0, 2, 3, 1]))
        nodes.append(helper.make_node("Reshape", [f"t{level}", "form"], [f"r{level}"]))
        parts.append(f"r{level}")
        x, channels = f"m{level}", 16
    weights["form"] = numpy.array([1, -1, 4], "int64")
    nodes += [helper.make_node("Concat", parts, ["all"], axis=1), helper.make_node("Softmax", ["all"], ["s"], axis=2),
              helper.make_node("ReduceMax", ["s"], ["y0"], axes=[2], keepdims=0)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 6, 21, 26])], [onnx.ValueInfoProto(name="y0")],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def test_parts_of_planes_lie_behind_one_another():
    model = detections(3)
    module = tensmith.compile(model)
    image = numpy.random.default_rng(4).standard_normal((1, 6, 21, 26)).astype("float32")
    assert joins(module) == 1
    assert max(differences(module, model, image)) < 1e-4


def test_memory_is_taken_once(tmp_path):
    """Breaks if parts have memory of their own beside their place in the join."""
    size, width, element = 64, 32, 4
    rng = numpy.random.default_rng(0)
    nodes = [helper.make_node("Conv", ["x", f"w{i}"], [f"c{i}"]) for i in range(4)]
    nodes += [helper.make_node("Concat", [f"c{i}" for i in range(4)], ["j"], axis=1), helper.make_node("MaxPool", ["j"], ["y0"], kernel_shape=[2, 2], strides=[2, 2])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8, size, size])], [onnx.ValueInfoProto(name="y0")],
                              [numpy_helper.from_array(rng.standard_normal((width, 8, 1, 1)).astype("float32"), f"w{i}") for i in range(4)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    module = tensmith.compile(model)
    joined = 4 * width * size * size * element
    assert joins(module) == 1
    assert module.describe()["metadata"]["arena_bytes_planned"] == joined + joined // 4  # and what is pooled


def test_a_watched_run_shows_parts_by_themselves(tmp_path):
    """Breaks if what lies at a pitch is shown as if it were dense."""
    path = tmp_path / "model.onnx"
    path.write_bytes(Network(5).model())
    run = subprocess.run([BUILD / "bin/tensmith", "compare", path, "--reference"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
