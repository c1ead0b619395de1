"""Convolutions that one kernel computes a few lines at a time, against the reference evaluation and against separate kernels."""

import json
import pathlib
import random
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")
COMMAND = pathlib.Path(tensmith.__file__).resolve().parents[2] / "bin/tensmith"


class Network:
    """Convolutions with what stands behind them; weights and sizes are drawn."""

    def __init__(self, seed, shape):
        self.rng, self.nodes, self.weights = numpy.random.default_rng(seed), [], {}
        self.inputs = {"x": self.rng.standard_normal(shape).astype("float32")}

    def add(self, operator, inputs, **attributes):
        name = f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=attributes.pop("name", name), **attributes))
        return name

    def constant(self, *shape):
        name = f"w{len(self.weights)}"
        scale = numpy.sqrt(numpy.prod(shape[1:])) if len(shape) > 1 else 1
        self.weights[name] = (self.rng.standard_normal(shape) / scale).astype("float32")
        return name

    def conv(self, x, inputs, outputs, window=1, group=1, **attributes):
        operands = [x, self.constant(outputs, inputs // group, window, window), self.constant(outputs)]
        return self.add("Conv", operands, group=group, **attributes)

    def activation(self, x, kind):
        return self.add(kind, [x])

    def model(self, result):
        self.add("Identity", [result])
        self.nodes[-1].output[0] = "y"
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in self.inputs.items()]
        graph = helper.make_graph(self.nodes, "g", inputs, [onnx.ValueInfoProto(name="y")],
                                  [numpy_helper.from_array(value, name) for name, value in self.weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


FORMS = ["depthwise", "inverted", "residual", "scaled", "bottleneck", "expanded"]


def drawn(form, seed, least=3, most=23):
    """A block of that form; the model, its inputs and how many convolutions stand before the last one."""
    draw = random.Random(f"{form} {seed}")
    batch, inputs, outputs = draw.choice([1, 2]), draw.choice([8, 17, 24]), draw.choice([6, 16, 35, 70])
    if form == "residual":
        outputs = inputs
    height, width = draw.randint(least, most), draw.randint(least, most) + 37  # of narrow lines there are none
    net = Network(seed, (batch, inputs, height, width))
    x, channels, kinds = "x", inputs, ["Relu", "HardSwish", "Tanh"]
    if form != "depthwise":
        channels = draw.choice([16, 30, 66])
        x = net.activation(net.conv(x, inputs, channels), draw.choice(kinds))
    window = draw.choice([1, 2, 3, 3, 5]) if form != "residual" else 3
    dilation = draw.choice([1, 2]) if 2 * (window - 1) < min(height, width) else 1
    window = min(window, height, width)
    extent = (window - 1) * dilation + 1
    sides = [1] * 4 if form == "residual" else [draw.randint(0, extent - 1) for _ in range(4)]
    strides = [1, 1] if form == "residual" else [draw.choice([1, 1, 2, 3]), draw.choice([1, 1, 2])]
    if form == "residual":
        dilation = 1
    middle, group = (channels + 4, 1) if form == "bottleneck" else (channels, channels)
    x = net.conv(x, channels, middle, window, group, pads=sides, strides=strides, dilations=[dilation] * 2,
                 name="last" if form == "expanded" else "middle")
    x = net.activation(x, draw.choice(kinds))
    if form == "scaled":
        net.inputs["s"] = net.rng.random((batch, middle, 1, 1)).astype("float32")
        x = net.add("Mul", [x, "s"])
    if form != "expanded":
        x = net.conv(x, middle, outputs, name="last", **({"strides": [1, 2]} if draw.random() < 0.2 and form != "residual" else {}))
    if form == "residual":
        x = net.add("Add", [x, "x"])
    return net.model(x), list(net.inputs.values()), 1 if form in ("depthwise", "expanded") else 2


def compiled(model, folder, chain, precision="exact", threads=1, lines=None, **options):
    """`chain` convolutions before the last one are asked for; a transform of the middle one is not what is tested."""
    last = {"nodes": ["last"], "chain": chain} | ({"band_lines": lines} if lines else {})
    path = folder / f"{chain}.json"
    path.write_text(json.dumps({"schedules": [last, {"nodes": ["middle"], "chain": 0, "winograd_outputs": 0}]}))
    return tensmith.compile(model, precision=precision, schedules=path, threads=threads, **options)


def kernels(module):
    return [kernel["schedule"] for kernel in module.describe()["kernels"]]


def result(module, inputs):
    return numpy.asarray(module.run(*inputs)[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_each_form(form, seed, tmp_path):
    """Breaks if a line is held too short, computed for the wrong picture, or a border is off at the beginning of a thread's part."""
    model, inputs, before = drawn(form, seed)
    wanted = numpy.asarray(tensmith.compile(model, reference=True).run(*inputs)[0])
    scale = max(numpy.abs(wanted).max(), 1e-3)
    for lines in (None, 1, 3):
        one = compiled(model, tmp_path, before, lines=lines)
        [kernel] = [text for text in kernels(one) if text.startswith("chain")]
        assert kernel.count("contraction") + kernel.count("depthwise") == before + 1
        first = result(one, inputs)
        assert numpy.abs(first - wanted).max() <= 1e-5 * scale
        assert (result(compiled(model, tmp_path, before, threads=2, lines=lines), inputs) == first).all()


@pytest.mark.parametrize("form", FORMS)
def test_sums_are_those_of_separate_kernels(form, tmp_path):
    """Breaks if a chain adds up in another order, or `exact` depends on what is fused."""
    for seed in range(10, 13):
        model, inputs, before = drawn(form, seed, least=44, most=51)  # lines of which tiles of five and six rows are made
        together, apart = compiled(model, tmp_path, before), compiled(model, tmp_path, 0)
        assert any(text.startswith("chain") for text in kernels(together))
        assert not any(text.startswith("chain") for text in kernels(apart))
        assert (result(together, inputs) == result(apart, inputs)).all()


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@pytest.mark.parametrize("form", FORMS)
def test_rounded_operands(form, target, tmp_path):
    """Breaks if an image between is not rounded where a separate kernel would store it, or is taken for one of another width."""
    model, inputs, before = drawn(form, 21)
    wanted = numpy.asarray(tensmith.compile(model, reference=True).run(*inputs)[0])
    results = [result(compiled(model, tmp_path, chain, "bf16", threads, target=target), inputs)
               for chain, threads in ((before, 1), (before, 2), (0, 1))]
    scale = max(numpy.abs(wanted).max(), 1e-3)
    assert (results[0] == results[1]).all()
    assert numpy.abs(results[0] - wanted).max() <= 0.03 * scale
    assert numpy.abs(results[0] - results[2]).max() <= 0.01 * scale


def test_what_is_read_elsewhere_is_stored(tmp_path):
    """Breaks if an image that two operators read disappears in a kernel, or channels with several outputs are taken for one."""
    net = Network(3, (1, 16, 19, 21))
    expanded = net.activation(net.conv("x", 16, 32), "Relu")
    deep = net.activation(net.conv(expanded, 32, 64, 3, 32, pads=[1] * 4, name="middle"), "Relu")
    last = net.conv(deep, 64, 32, name="last")
    model, inputs = net.model(net.add("Add", [last, expanded])), list(net.inputs.values())
    module = compiled(model, tmp_path, 2)
    assert not any(text.startswith("chain") for text in kernels(module))
    wanted = numpy.asarray(tensmith.compile(model, reference=True).run(*inputs)[0])
    assert numpy.abs(result(module, inputs) - wanted).max() <= 1e-5 * numpy.abs(wanted).max()


def test_narrow_lines_are_not_chained(tmp_path):
    """Breaks if a sum's parts, and so its bits, depend on where a thread's part of the lines begins."""
    for width in (1, 2, 3, 7):
        net = Network(5, (1, 48, 300, width))
        deep = net.activation(net.conv("x", 48, 64), "Relu")
        deep = net.conv(deep, 64, 64, 3, 64, pads=[1] * 4, name="middle")
        model = net.model(net.conv(deep, 64, 16, name="last"))
        assert not [text for text in kernels(compiled(model, tmp_path, 2)) if text.startswith("chain")]


def test_large_images_are_chained_and_small_ones_not(tmp_path):
    """Breaks if the estimate chains what a core's cache holds anyway, or not what has to come from beyond; and if the choice is
    not told, or what is told does not make the same module again."""
    chosen = []
    for size in (1024, 14):
        net = Network(5, (1, 32, size, size))
        deep = net.activation(net.conv("x", 32, 32, 3, 32, pads=[1] * 4), "Relu")
        (tmp_path / "m.onnx").write_bytes(net.model(net.conv(deep, 32, 16, name="last")))
        texts = []
        for more in ([], ["--schedules", "s.json"]):
            made = subprocess.run([COMMAND, "compile", "m.onnx", "-o", "m.so", *more], cwd=tmp_path, capture_output=True, text=True)
            assert made.returncode == 0 and "s.json" not in made.stderr, made.stderr
            shown = subprocess.run([COMMAND, "inspect", "m.so", "--chosen-schedules"], cwd=tmp_path, capture_output=True, text=True)
            texts.append(shown.stdout)
            (tmp_path / "s.json").write_text(shown.stdout)
        assert texts[0] == texts[1]
        chosen.append(json.loads(texts[0])["schedules"])
    long, short = ([entry["chain"] for entry in entries if "chain" in entry] for entries in chosen)
    assert long == [1] and short == [0]
    assert [entry["band_lines"] > 0 for entry in chosen[0] if "band_lines" in entry] == [True]
    assert not any("band_lines" in entry for entry in chosen[1])
