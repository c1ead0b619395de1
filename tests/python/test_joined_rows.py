"""Images that are joined, normalised or gated on the way into the rows of a pointwise convolution, on networks drawn at random:
against the reference evaluation, in f32 and in halves, and `exact` for the same bits."""

import os
import pathlib
import random
import re
import subprocess

import numpy
import onnx
import pytest
from drawn_network import DrawnNetwork
from onnx import helper

tensmith = pytest.importorskip("tensmith")
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))


FORMS = ["joined", "dense", "gated", "joined and gated"]
SEEDS = 6
LEAST_TAKEN = 0.5  # of the convolutions; others lie where images are laid out by channels, or have more weights than pixels


class Network(DrawnNetwork):
    """Parts of an image made by convolutions, and what pointwise convolutions read of them; all of it is drawn."""

    def __init__(self, form, seed, element):
        self.draw = random.Random(f"{form} {seed}")
        self.rng = numpy.random.default_rng(seed)
        shape = (self.draw.choice([1, 2, 3]), self.draw.choice([3, 8, 13]), self.draw.randint(9, 24), self.draw.randint(9, 24))
        super().__init__(shape, element)
        self.x = self.rng.standard_normal(self.shape).astype(element)

    def constant(self, value):
        return super().constant(value.astype(self.element))

    def numbers(self, *shape):
        scale = numpy.sqrt(numpy.prod(shape[1:])) if len(shape) > 1 else 1
        return self.constant(self.rng.standard_normal(shape) / scale)

    def conv(self, x, inputs, outputs, window=1, stride=1, group=1):
        bias = [self.numbers(outputs)] if self.draw.random() < 0.7 else []
        return self.add("Conv", [x, self.numbers(outputs, inputs // group, window, window), *bias], group=group,
                        pads=[window // 2] * 4, strides=[stride] * 2)

    def normalised(self, x, channels):
        mean, variance = self.numbers(channels), self.constant(self.rng.random(channels) + 0.5)
        return self.add("BatchNormalization", [x, self.numbers(channels), self.numbers(channels), mean, variance])

    def activation(self, x):
        kind = self.draw.choice(["Relu", "Relu", "Sigmoid", "HardSwish", "Tanh", None])
        return self.add(kind, [x]) if kind else x

    def gated(self, x, channels):
        """As in squeeze-and-excitation: each picture's channels by what their means say."""
        inner = self.draw.choice([3, 8])
        pooled = self.add("Relu", [self.conv(self.add("GlobalAveragePool", [x]), channels, inner)])
        return self.add("Mul", [x, self.add("Sigmoid", [self.conv(pooled, inner, channels)])])

    def joined(self):
        """Some parts of different widths, most of them no multiple of a vector's."""
        widths = [self.draw.choice([1, 3, 7, 16, 17, 24, 33, 48]) for _ in range(self.draw.choice([2, 2, 3, 4, 6]))]
        parts = [self.add("Relu", [self.conv("x", self.shape[1], width, self.draw.choice([1, 3]))]) for width in widths]
        if self.draw.random() < 0.3:
            parts[-1], widths[-1] = parts[0], widths[0]  # the same one twice
        return self.add("Concat", parts, axis=1), sum(widths)


def drawn(form, seed, element="float32"):
    """A network, its model, and how many of its convolutions' rows may be computed."""
    net = Network(form, seed, element)
    outputs, stride = net.draw.choice([5, 16, 31, 40]), net.draw.choice([1, 1, 1, 2])
    if form == "joined":  # one transition, perhaps strided
        x, channels = net.joined()
        if net.draw.random() < 0.8:
            x = net.normalised(x, channels)
        return net, net.model([net.conv(net.activation(x), channels, outputs, stride=stride)]), 1
    if form == "dense":  # layers behind one another, each with a normalisation of its own of all before it
        channels, growth = net.draw.choice([8, 19]), net.draw.choice([5, 12, 16])
        parts, layers = [net.conv("x", net.shape[1], channels, 3)], net.draw.choice([3, 4])
        for _ in range(layers):
            x = net.add("Concat", parts, axis=1) if len(parts) > 1 else parts[0]
            inner = net.add("Relu", [net.conv(net.add("Relu", [net.normalised(x, channels)]), channels, outputs)])
            parts.append(net.conv(inner, outputs, growth, 3))
            channels += growth
        return net, net.model([net.add("Concat", parts, axis=1)]), layers - 1
    if form == "gated":  # behind a depthwise convolution
        channels = net.draw.choice([16, 30, 50])
        deep = net.add("Relu", [net.conv(net.conv("x", net.shape[1], channels), channels, channels, 3, group=channels)])
        return net, net.model([net.conv(net.gated(deep, channels), channels, outputs, stride=stride)]), 1
    x, channels = net.joined()  # all of them
    x = net.activation(net.normalised(net.gated(x, channels), channels))
    return net, net.model([net.conv(x, channels, outputs)]), 1


def taken(module):
    """Kernels in which more than a rounding is computed into the rows of a convolution."""
    kernels = [kernel for kernel in module.describe()["kernels"] if kernel["schedule"].startswith("contraction")]
    return sum("conv" in kernel["label"] and kernel["label"].split("conv")[0].replace("cast+", "") != "" for kernel in kernels)


def result(module, net):
    return numpy.concatenate([numpy.asarray(y).ravel() for y in module.run(net.x)]).astype("float32")


def error(module, net, wanted):
    return numpy.abs(result(module, net) - wanted).max() / max(numpy.abs(wanted).max(), 1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_results_are_those_of_the_reference(form):
    """Breaks if a part lies beside its place, is scaled by another picture's or channel's number, or asked for beyond its end; or if
    `exact` depends on how many threads share the rows, or on the run."""
    possible = done = 0
    for seed in range(SEEDS):
        net, model, kernels = drawn(form, seed)
        wanted = result(tensmith.compile(model, reference=True), net)
        bits = set()
        for threads in (1, 2, 3):
            module = tensmith.compile(model, precision="exact", threads=threads)
            assert error(module, net, wanted) <= 3e-6, (seed, threads)
            bits |= {result(module, net).tobytes() for _ in range(2)}
        assert len(bits) == 1, seed
        possible, done = possible + kernels, done + min(taken(module), kernels)
    assert done >= possible * LEAST_TAKEN


@pytest.mark.parametrize("element", ["bf16", "f16"])
@pytest.mark.parametrize("form", FORMS)
def test_halves(form, element):
    """The same with elements that are narrower in memory, or rounded to these in the rows."""
    possible = done = 0
    for seed in range(SEEDS, SEEDS + SEEDS // 2):
        net, model, kernels = drawn(form, seed, "float16" if element == "f16" else "float32")
        wanted = result(tensmith.compile(model, reference=True), net)
        policy = "bf16" if element == "bf16" else "exact"
        modules = [tensmith.compile(model, precision=policy, threads=threads) for threads in (1, 2)]
        assert error(modules[0], net, wanted) <= 0.02, seed
        assert (result(modules[0], net) == result(modules[1], net)).all(), seed
        assert error(tensmith.compile(model, precision=policy, threads=2, target="x86-64-v3"), net, wanted) <= 0.02, seed
        possible, done = possible + kernels, done + min(taken(modules[0]), kernels)
    assert done >= possible * LEAST_TAKEN


def typed(dims, element):
    return f"tensor<{'x'.join(map(str, [*dims, element]))}>"


class Graph:
    """Such a convolution in one to three dimensions, channels last, of elements of any type and parts without channels, too."""

    def __init__(self, seed):
        self.draw, self.seed, self.inputs, self.lines = random.Random(seed), seed, [], []
        self.element = self.draw.choice(["f32", "f32", "f16", "bf16", "f64"])

    def input(self, dims, element=None):
        of = typed(dims, element or self.element)
        seed = 100 * self.seed + len(self.inputs)
        self.inputs.append(f'%a{len(self.inputs)}: {of} {{random.kind = "small", random.seed = {seed} : i64}}')
        return f"%a{len(self.inputs) - 1}", of

    def add(self, operator, operands, of, attributes=""):
        """`operands` are names with types, as the result is."""
        names, types = (", ".join(part) for part in zip(*operands))
        self.lines.append(f"  %v{len(self.lines)} = graph.{operator} {names} {attributes} : ({types}) -> {of}")
        return f"%v{len(self.lines) - 1}", of

    def step(self, x, image):
        """One more operator or two on the way to the rows."""
        channels, of = image[-1:], typed(image, self.element)
        kind = self.draw.choice(["channel", "pixel", "picture", "whole", "leaky", "gelu", "self", "tanh"])
        if kind == "leaky":
            slope = self.input(channels)
            below = self.add("less", [x, slope], typed(image, "i1"))
            return self.add("where", [below, self.add("mul", [x, slope], of), x], of)
        if kind == "gelu":
            return self.add("mul", [x, self.add("erf", [x], of)], of)
        if kind in ("self", "tanh"):
            return self.add("mul", [x, x], of) if kind == "self" else self.add("tanh", [x], of)
        dims = {"channel": channels, "pixel": [*image[:-1], 1], "picture": [image[0], *[1] * (len(image) - 2), *channels], "whole": image}
        return self.add(self.draw.choice(["mul", "add", "sub", "max"]), [x, self.input(dims[kind])], of)

    def text(self):
        draw, spatial = self.draw, self.draw.choice([1, 2, 2, 3])
        pixels = [draw.randint(1, 3), *[draw.randint(5, 9) if spatial > 1 else draw.randint(60, 90) for _ in range(spatial)]]
        widths = [draw.choice([0, 1, 2, 7, 15, 16, 17, 31, 33, 40]) for _ in range(draw.choice([2, 3, 4]))] + [draw.choice([1, 5])]
        stored, image, outputs = draw.choice([self.element, self.element, "i8"]), [*pixels, sum(widths)], draw.choice([1, 5, 16, 17, 33])
        x = self.add("concat", [self.input([*pixels, width], stored) for width in widths], typed(image, stored), f"{{axis = {spatial + 1} : i64}}")
        if stored != self.element:
            x = self.add("cast", [x], typed(image, self.element), f"{{to = {self.element}}}")
        for _ in range(draw.randint(0, 4)):
            x = self.step(x, image)
        strides = [draw.choice([1, 1, 2, 3]) for _ in range(spatial)]
        ones, none = ", ".join(["1"] * spatial), ", ".join(["0"] * 2 * spatial)
        attributes = f"strides = array<i64: {', '.join(map(str, strides))}>, pads = array<i64: {none}>, dilations = array<i64: {ones}>"
        made = [pixels[0], *[(size - 1) // stride + 1 for size, stride in zip(pixels[1:], strides)], outputs]
        operands = [x, self.input([outputs, image[-1], *[1] * spatial]), self.input([outputs])]
        y, of = self.add("conv", operands, typed(made, self.element), f"{{{attributes}, layout = \"channels_last\"}}")
        lines = "\n".join(self.lines)
        return f"func.func @main({', '.join(self.inputs)}) -> {of} attributes {{random.sizes = [{{}}]}} {{\n{lines}\n  return {y} : {of}\n}}\n"


@pytest.mark.skipif(not (BUILD / "test/random-graphs").exists(), reason="random-graphs is not built")
def test_any_elements_and_dimensions(tmp_path):
    """Against the reference with noise, on one thread and on two."""
    done = 0
    for seed in range(16):
        path, dump = tmp_path / f"{seed}.mlir", tmp_path / f"dump{seed}"
        path.write_text(Graph(seed).text())
        said = subprocess.run([BUILD / "test/random-graphs", "--replay", path, "--dump", dump], capture_output=True, text=True, timeout=120)
        assert said.returncode == 0, (path.read_text(), said.stdout, said.stderr)
        fused = (next(dump.glob("*-fuse.mlir"))).read_text()
        done += re.search(r'kind = "contraction", label = "(concat|cast)[^"]*conv', fused) is not None
    assert done >= 16 * LEAST_TAKEN
