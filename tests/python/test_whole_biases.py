"""Layers whose biases are whole numbers of their sums' scale: codes are those of exact integers, and the bias takes no operation."""

import json

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_cli import pytestmark, tensmith  # noqa: F401 (a mark)
from test_tensmith_run import PROGRAM, program_for, run

HEIGHT, WIDTH, COLUMNS = 5, 3, 21
# The kind of the image's codes, their zero point, channels, the window's size, and how large biases are. 32 channels are whole
# iterations of eight steps of four bytes, 20 are none; 9 leave a part of a step.
LAYERS = [("uint8", 0, 32, 1, 2000), ("uint8", 119, 32, 3, 2000), ("uint8", 255, 20, 1, 10**6), ("uint8", 3, 64, 1, 2**31 - 1),
          ("int8", 0, 64, 1, 2000), ("int8", -128, 9, 3, 10**6), ("int8", 7, 36, 1, 2**31 - 1)]  # fmt: skip


def layers():
    """A graph of one convolution for each row, its feeds, and the numbers that are rounded to codes."""
    random = numpy.random.default_rng(21)
    nodes, inputs, outputs, constants, feeds, expected = [], [], [], {}, {}, {}
    for index, (kind, zero, channels, window, largest) in enumerate(LAYERS):
        named = lambda name, index=index: f"{name}{index}"  # noqa: E731
        limits = numpy.iinfo(kind)
        x = random.integers(limits.min, limits.max + 1, (1, channels, HEIGHT, WIDTH)).astype(kind)
        w = random.integers(-127, 128, (COLUMNS, channels, window, window)).astype(numpy.int8)
        bias = random.integers(-largest, largest + 1, COLUMNS).astype(numpy.int32)
        bias[0] = largest
        sx, sw = numpy.float32(0.02), (random.random(COLUMNS) * 0.01 + 0.002).astype(numpy.float32)
        scale = numpy.float32(max(float(largest), 2e4) * sx * sw.max() / 100)
        constants |= {named("sx"): sx, named("zx"): numpy.array(zero, kind), named("w"): w, named("sw"): sw, named("b"): bias,
                      named("sb"): sx * sw, named("sy"): scale, named("zy"): numpy.uint8(128)}  # fmt: skip
        pad = window // 2
        nodes += [
            helper.make_node("DequantizeLinear", [named("x"), named("sx"), named("zx")], [named("xf")]),
            helper.make_node("QuantizeLinear", [named("xf"), named("sx"), named("zx")], [named("xq")]),
            helper.make_node("DequantizeLinear", [named("xq"), named("sx"), named("zx")], [named("xd")]),
            helper.make_node("DequantizeLinear", [named("w"), named("sw")], [named("wd")], axis=0),
            helper.make_node("DequantizeLinear", [named("b"), named("sb")], [named("bd")], axis=0),
            helper.make_node("Conv", [named("xd"), named("wd"), named("bd")], [named("s")], pads=[pad] * 4),
            helper.make_node("QuantizeLinear", [named("s"), named("sy"), named("zy")], [named("y")]),
        ]
        inputs.append(helper.make_tensor_value_info(named("x"), helper.np_dtype_to_tensor_dtype(x.dtype), x.shape))
        outputs.append(helper.make_tensor_value_info(named("y"), TensorProto.UINT8, [1, COLUMNS, HEIGHT, WIDTH]))
        feeds[named("x")] = x
        padded = numpy.pad(x.astype(numpy.int64) - zero, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = numpy.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(2, 3))
        sums = numpy.einsum("nchwij,ocij->nohw", windows, w.astype(numpy.int64)) + bias.astype(numpy.int64)[:, None, None]
        expected[named("y")] = sums * (sx.astype(float) * sw.astype(float) / float(scale))[:, None, None]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(numpy.asarray(v), k) for k, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), feeds, expected


# Breaks if a bias or a zero point is taken off twice, with the other sign or not at all, if what sums begin with wraps, or if steps of an
# iteration are lost: without instructions for bytes, with those for bytes of one kind alone, and with those for two kinds.
@pytest.mark.parametrize("target, emulator", [
    ("host", ()), ("x86-64-v3", ()), ("aarch64:cortex-a53", ("qemu-aarch64", "-cpu", "cortex-a53")), ("aarch64:cortex-a55", ("qemu-aarch64", "-cpu", "max")),
    ("aarch64:cortex-a76", ("qemu-aarch64", "-cpu", "cortex-a76")), ("aarch64:neoverse-v1", ("qemu-aarch64", "-cpu", "max,sve-max-vq=2")),
])  # fmt: skip
def test_codes_are_those_of_exact_integers(tmp_path, target, emulator):
    model, feeds, expected = layers()
    onnx.checker.check_model(model)
    (tmp_path / "b.onnx").write_bytes(model.SerializeToString())
    tensmith("compile", tmp_path / "b.onnx", "--target", target, "-o", tmp_path / "m.so")
    arguments = []
    for name, value in feeds.items():
        numpy.save(tmp_path / f"{name}.npy", value)
        arguments += ["--input", f"{name}={tmp_path / name}.npy"]
    said = run(tmp_path / "m.so", *arguments, "--out", tmp_path / "out", program=(*emulator, program_for("aarch64")) if emulator else (PROGRAM,))
    found = {output["name"]: numpy.load(output["file"]) for output in json.loads(said.stdout)["outputs"]}
    for name, numbers in expected.items():
        # Numbers beside a half, as far as f32 tells, may have either code.
        apart = numpy.abs(found[name] - numpy.clip(numbers + 128, 0, 255))
        assert apart.max() <= 0.501 and numpy.unique(found[name]).size > COLUMNS // 2, name


# Breaks if a bias that is a whole number is added to what sums are scaled to, which is a multiply-add instead of a product; or if one is
# merged that sums of 32 bits may not hold.
def test_biases_take_no_instruction(tmp_path):
    (tmp_path / "b.onnx").write_bytes(layers()[0].SerializeToString())
    tensmith("compile", tmp_path / "b.onnx", "--target", "aarch64:cortex-a76", "--no-cache", "--dump-ir", tmp_path, "-o", tmp_path / "m.so")
    code = [path.read_text() for path in tmp_path.glob("*.s")]
    kernels = {instruction: sum(f"\t{instruction}\tv" in text and "\tsdot\tv" in text for text in code) for instruction in ("fmla", "fmul")}
    beyond = sum(largest == 2**31 - 1 for *_, largest in LAYERS)
    assert kernels == {"fmla": beyond, "fmul": len(LAYERS) - beyond}
