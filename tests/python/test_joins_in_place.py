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
from drawn_network import DrawnNetwork
from onnx import helper

tensmith = pytest.importorskip("tensmith")
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))
SEEDS = 20
KINDS = ["pointwise", "window", "strided", "depthwise", "grouped", "pool", "resized", "elementwise", "turned", "input", "shared", "joined",
         "twice", "of planes"]
COPIED = {"input", "shared", "twice", "of planes", "resized"}  # where that is most of it, all is


class Network(DrawnNetwork):
    """Branches of one image, their join, and two readers of that."""

    def __init__(self, seed):
        self.draw, self.rng = random.Random(seed), numpy.random.default_rng(seed)
        self.outputs, self.windows = [], []
        super().__init__([self.draw.choice([1, 1, 2]), self.draw.choice([4, 16, 24]), 2 * self.draw.randint(3, 9), 2 * self.draw.randint(3, 9)])
        kinds = [self.draw.choice(["window", "pointwise", "depthwise", "pool"]), *self.draw.sample(KINDS, self.draw.choice([1, 2, 4]))]
        self.kinds = self.draw.sample(kinds, len(kinds))
        x, channels = self.conv("x", self.shape[1], self.draw.choice([16, 17, 32]), 3)
        joined, total = self.join(x, channels, self.kinds)
        self.outputs.append(self.add("MaxPool", [joined], kernel_shape=[3, 3], pads=[1] * 4))
        self.outputs.append(self.conv(joined, total, 19, 3)[0])

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
    model, image = network.model(network.outputs), network.image()
    filtered = tmp_path / "schedules.json"
    filtered.write_text(json.dumps({"schedules": [{"nodes": network.windows, "winograd_outputs": 2}]}))
    for precision, schedules, bound in (("exact", None, 1e-5), ("fast", None, 1e-4), ("fast", filtered, 1e-4), ("bf16", None, 4e-2)):
        module = tensmith.compile(model, precision=precision, threads=2, schedules=schedules)
        assert max(differences(module, model, image)) < bound, (network.kinds, precision)
        assert joins(module) > 0 or COPIED & set(network.kinds), (network.kinds, precision)


def detections(seed):
    """Numbers of a few maps' pixels, one map's behind the other's, and what is made of them."""
    rng, network, parts = numpy.random.default_rng(seed), DrawnNetwork([1, 6, 21, 26]), []
    form, x, channels = network.constant(numpy.array([1, -1, 4])), "x", 6
    for _ in range(3):
        weights = [network.constant((rng.standard_normal(shape) / 12).astype("float32")) for shape in ((16, channels, 3, 3), (12, 16, 3, 3))]
        x, channels = network.add("Conv", [x, weights[0]], pads=[1] * 4, strides=[2, 2]), 16
        head = network.add("Conv", [x, weights[1]], pads=[1] * 4)
        parts.append(network.add("Reshape", [network.add("Transpose", [head], perm=[0, 2, 3, 1]), form]))
    softmax = network.add("Softmax", [network.add("Concat", parts, axis=1)], axis=2)
    return network.model([network.add("ReduceMax", [softmax], axes=[2], keepdims=0)])


def test_parts_of_planes_lie_behind_one_another():
    model = detections(3)
    module = tensmith.compile(model)
    image = numpy.random.default_rng(4).standard_normal((1, 6, 21, 26)).astype("float32")
    assert joins(module) == 1
    assert max(differences(module, model, image)) < 1e-4


def test_memory_is_taken_once(tmp_path):
    """Breaks if parts have memory of their own beside their place in the join."""
    size, width, element = 64, 32, 4
    rng, network = numpy.random.default_rng(0), DrawnNetwork([1, 8, 64, 64])
    parts = [network.add("Conv", ["x", network.constant(rng.standard_normal((width, 8, 1, 1)).astype("float32"))]) for _ in range(4)]
    model = network.model([network.add("MaxPool", [network.add("Concat", parts, axis=1)], kernel_shape=[2, 2], strides=[2, 2])])
    module = tensmith.compile(model)
    joined = 4 * width * size * size * element
    assert joins(module) == 1
    assert module.describe()["metadata"]["arena_bytes_planned"] == joined + joined // 4  # and what is pooled


def test_a_watched_run_shows_parts_by_themselves(tmp_path):
    """Breaks if what lies at a pitch is shown as if it were dense."""
    path = tmp_path / "model.onnx"
    network = Network(5)
    path.write_bytes(network.model(network.outputs))
    run = subprocess.run([BUILD / "bin/tensmith", "compare", path, "--reference"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_joins_of_a_loop():
    """Breaks if a loop whose iterations are all alike takes a join for something to be called."""
    rng, size = numpy.random.default_rng(7), 48
    body = helper.make_graph(
        [helper.make_node("MatMul", ["h", "a"], ["p"]), helper.make_node("MatMul", ["h", "b"], ["q"]),
         helper.make_node("Concat", ["p", "q"], ["j"], axis=1), helper.make_node("Softmax", ["j"], ["n"], axis=1),
         helper.make_node("MatMul", ["n", "c"], ["next"]), helper.make_node("Identity", ["go"], ["on"])],
        "body", [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in
                 (("i", onnx.TensorProto.INT64, []), ("go", onnx.TensorProto.BOOL, []), ("h", onnx.TensorProto.FLOAT, [40, size]))],
        [helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, []), helper.make_tensor_value_info("next", onnx.TensorProto.FLOAT, [40, size])])
    network = DrawnNetwork([40, size])
    for name, shape in (("a", (size, 65)), ("b", (size, 64)), ("c", (129, size))):
        network.weights[name] = rng.standard_normal(shape).astype("float32")
    trips, yes = network.constant(numpy.array(100)), network.constant(numpy.array(True))
    model = network.model([network.add("Loop", [trips, yes, "x"], body=body)])
    module = tensmith.compile(model)
    assert sum(step["opcode"] == "join" for function in module.describe()["functions"] for step in function["instructions"]) == 1
    assert max(differences(module, model, rng.standard_normal((40, size)).astype("float32"))) < 1e-5


def test_a_join_is_told_to_move_nothing(tmp_path):
    """Breaks if a profile counts the bytes of what a join does nothing with."""
    path = tmp_path / "model.onnx"
    path.write_bytes(detections(1))
    run = subprocess.run([BUILD / "bin/tensmith", "bench", path, "--kernels", "--json", "--runs", "2"], capture_output=True, text=True, check=True)
    [join] = [each for each in json.loads(run.stdout)["kernels"] if each["kind"] == "join"]
    assert not join["bytes"]
