"""Products of numbers of 1 to 4 bits: bit for bit what they are in 64-bit integers, on every kernel that there is for them.

Shapes, strides, pads, dilations, groups and bits are drawn at random (bit_draws.py); bench/bits --exact draws more.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
pytestmark = pytest.mark.skipif(not (BUILD / "python").exists(), reason="the Python package is not built")

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

sys.path.insert(0, str(BUILD / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import bit_draws  # noqa: E402
import bit_networks  # noqa: E402

HERE, NO_COUNTS = "host", "host,-avx512f,-avx2"
POLARITIES = [(x, w) for x in (0, 1) for w in (0, 1)]


def compiled(model, path, target=HERE):
    import tensmith

    (path / "m.onnx").write_bytes(model)
    return tensmith.compile(str(path / "m.onnx"), target=target)


def kinds(model):
    return [kernel["schedule"] for kernel in model.describe()["kernels"]]


@pytest.mark.parametrize(("target", "polarity"), [
    *((target, polarity) for target in (HERE, "host,-avx512f") for polarity in POLARITIES), ("x86-64-v2", (1, 1)), (NO_COUNTS, (0, 1)),
])  # fmt: skip
def test_drawn_products(target, polarity, tmp_path):
    """Breaks if a word, a pad, the last filters or pixels, or a sign are taken for others; half of the weights are run-time."""
    random = numpy.random.default_rng([polarity[0], polarity[1]])
    cases = [bit_draws.drawn(random, (*random.integers(1, 5, 2), *polarity)) for _ in range(4)]
    model, feeds = bit_draws.model_of(cases, [number % 2 == 0 for number in range(4)])
    ours = compiled(model, tmp_path, target)
    assert sum("bit serial" in kind for kind in kinds(ours)) == (0 if target == NO_COUNTS else len(cases))
    for case, got in zip(cases, ours.run(*feeds), strict=True):
        numpy.testing.assert_array_equal(got, case[4], err_msg=str((case[0], case[1], case[2].shape, case[3].shape)))


@pytest.mark.parametrize("seed", range(3))
def test_any_point_gives_the_same_sums(seed, tmp_path):
    """Breaks if a register tile or a block of another size leaves out or repeats a pixel, a word or a filter."""
    import tensmith

    random = numpy.random.default_rng(seed)
    cases = [bit_draws.drawn(random) for _ in range(4)]
    model, feeds = bit_draws.model_of(cases, [True] * 4)
    (tmp_path / "m.onnx").write_bytes(model)
    points = [{"nodes": [f"node{number}"], "bit_pixels": int(random.integers(1, 9)), "bit_pairs": int(random.choice([1, 2, 4])),
               "bit_words": int(random.integers(1, 17)), "bit_block": int(random.integers(1, 65))} for number in range(4)]  # fmt: skip
    (tmp_path / "s.json").write_text(json.dumps({"schedules": points}))
    ours = tensmith.compile(str(tmp_path / "m.onnx"), schedules=str(tmp_path / "s.json"))
    for case, point, got in zip(cases, points, ours.run(*feeds), strict=True):
        numpy.testing.assert_array_equal(got, case[4], err_msg=str((case[:2], point)))


def test_points_that_a_long_window_has_no_room_for(tmp_path):
    """Breaks if the planes of as many pixels as are asked for have no memory."""
    onnx = pytest.importorskip("onnx")
    import tensmith

    random = numpy.random.default_rng(2)
    x, w = random.integers(0, 2, (1, 1, 17600), numpy.uint8), random.integers(0, 2, (1, 1, 17000), numpy.uint8)
    node = onnx.helper.make_node("BitConv", ["x", "w"], ["y"], "node", domain="tensmith")
    graph = onnx.helper.make_graph([node], "long", [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)],
                                   [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)], [onnx.numpy_helper.from_array(w, "w")])  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("tensmith", 1)]
    (tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    (tmp_path / "s.json").write_text(json.dumps({"schedules": [{"nodes": ["node"], "bit_block": 512, "bit_pixels": 8}]}))
    ours = tensmith.compile(str(tmp_path / "m.onnx"), schedules=str(tmp_path / "s.json"))
    numpy.testing.assert_array_equal(ours.run(x)[0][0, 0], numpy.correlate(x[0, 0].astype(int), w[0, 0].astype(int), "valid"))


def test_open_batches(tmp_path):
    """Breaks if a kernel takes the batch that it was compiled with for all."""
    random = numpy.random.default_rng(3)
    cases = [bit_draws.drawn(random) for _ in range(4)]
    model, feeds = bit_draws.model_of(cases, [True] * 4, open_batch=True)
    for case, got in zip(cases, compiled(model, tmp_path).run(*feeds), strict=True):
        numpy.testing.assert_array_equal(got, case[4], err_msg=str(case[:2]))


@pytest.mark.parametrize("word", [8, 16, 32, 64])
def test_planes_of_any_axis_and_word(word, tmp_path):
    """Breaks if a bit is put into another word, plane or place."""
    random = numpy.random.default_rng(word)
    for _ in range(3):
        shape = [int(size) for size in random.integers(1, 7, random.integers(1, 4))]
        axis, planes, bits = int(random.integers(len(shape))), int(random.integers(len(shape) + 1)), int(random.integers(1, 9))
        shape[axis] = int(random.integers(1, 150))
        x = random.integers(0, 256, shape).astype(numpy.uint8)
        node = helper.make_node("BitPack", ["x"], ["y"], domain="tensmith", axis=axis, planes=planes, bits=bits, word=word)
        output = helper.make_tensor_value_info("y", getattr(TensorProto, f"UINT{word}"), None)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)], [output])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("tensmith", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        last = numpy.moveaxis(x, axis, -1)
        last = numpy.pad(last, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[axis] % word)])
        wanted = []
        for plane in range(bits):
            packed = numpy.ascontiguousarray(numpy.packbits(last >> plane & 1, axis=-1, bitorder="little")).view(f"<u{word // 8}")
            wanted.append(numpy.moveaxis(packed, -1, axis))
        numpy.testing.assert_array_equal(compiled(model, tmp_path).run(x)[0], numpy.stack(wanted, axis=planes))


def test_sums_that_could_leave_i32_are_refused(tmp_path):
    """Breaks if the largest sum isn't proved to fit."""
    import tensmith

    attributes = {"bits_a": 8, "bits_b": 8}
    for depth, fits in ((33025, True), (33026, False)):
        x, w = numpy.full((1, depth), 255, numpy.uint8), numpy.full((depth, 1), 255, numpy.uint8)
        model, feeds = bit_draws.model_of([("BitMatMul", attributes, x, w, numpy.zeros((1, 1)))], [True])
        if fits:
            assert compiled(model, tmp_path).run(*feeds)[0][0, 0] == 255 * 255 * depth
        else:
            with pytest.raises(tensmith.Error, match="may leave i32"):
                compiled(model, tmp_path)


@pytest.mark.parametrize(("attributes", "words"), [
    ({"bits_x": 9}, "bits_x is 9"), ({"group": 2}, "group is 2"), ({"pads": [-1, 0, 0, 0]}, "not negative"),
])  # fmt: skip
def test_wrong_attributes_are_errors(attributes, words, tmp_path):
    """Breaks if a node that means nothing is compiled."""
    import tensmith

    x, w = numpy.zeros((1, 3, 5, 5), numpy.uint8), numpy.zeros((4, 3, 2, 2), numpy.uint8)
    model, _ = bit_draws.model_of([("BitConv", attributes, x, w, numpy.zeros((1, 4, 4, 4)))], [True])
    with pytest.raises(tensmith.Error, match=words):
        compiled(model, tmp_path)


@pytest.mark.parametrize("word", [8, 16, 32])
def test_words_that_no_template_takes(word, tmp_path):
    """Breaks if the loops over words count other bits than the reference, or a pad."""
    import tensmith

    random = numpy.random.default_rng(word)
    channels, filters, taps, words = 37, 5, 3, -(-37 // word)
    x, w = random.integers(0, 4, (2, 6, channels)).astype(numpy.uint8), random.integers(0, 2, (1, 1, taps, channels, 16)).astype(numpy.uint8)
    codes, weights, planes = "tensor<2x6x37xui8>", "tensor<1x1x3x37x16xui8>", f"tensor<2x6x2x{words}xui{word}>"
    apart, packed, sums = f"tensor<2x6x1x2x{words}xui{word}>", f"tensor<1x1x1x3x{words}x16xui{word}>", f"tensor<2x6x{filters}xi32>"
    (tmp_path / "m.mlir").write_text(f"""func.func @main(%x: {codes}, %w: {weights}) -> {sums} {{
  %p = graph.bit_pack %x {{axis = 2, planes = 2, bits = 2, word = {word}}} : ({codes}) -> {planes}
  %a = graph.reshape %p : ({planes}) -> {apart}
  %b = graph.bit_pack %w {{axis = 3, planes = 2, bits = 1, word = {word}}} : ({weights}) -> {packed}
  %y = graph.bit_conv %a, %b {{channels = {channels}, filters = {filters}, strides = array<i64: 1>, pads = array<i64: 1, 1>,
    dilations = array<i64: 1>, x_factor = 2, x_offset = 3, w_factor = 2, w_offset = 1}} : ({apart}, {packed}) -> {sums}
  return %y : {sums}
}}
""")
    subprocess.run([BUILD / "bin/tensmith", "compile", tmp_path / "m.mlir", "-o", tmp_path / "m.so"], check=True, capture_output=True)
    left = bit_draws.numbers(x, 2, True).transpose(0, 2, 1)
    right = bit_draws.numbers(w[0, 0, :, :, :filters], 1, True).transpose(2, 1, 0)
    wanted = bit_draws.convolve(left, right, [1], [1, 1], [1], 1).transpose(0, 2, 1)
    numpy.testing.assert_array_equal(tensmith.load(str(tmp_path / "m.so")).run(x, w)[0], wanted)


@pytest.mark.skipif(not shutil.which("qemu-aarch64") or not (ROOT / "build/aarch64/bin/tensmith-run").exists(),
                    reason="there is no emulator of ARM, or no tensmith-run for it")  # fmt: skip
@pytest.mark.parametrize("cpu", ["cortex-a53", "neoverse-n1"])
def test_products_on_arm(cpu, tmp_path):
    """Breaks if counts by `cnt` are widened too late, or lanes of two words are taken for others."""
    random = numpy.random.default_rng(len(cpu))
    cases = [bit_draws.drawn(random, (*random.integers(1, 4, 2), *polarity)) for polarity in POLARITIES]
    model, feeds = bit_draws.model_of(cases, [True] * 4)
    (tmp_path / "m.onnx").write_bytes(model)
    words = []
    for number, feed in enumerate(feeds):
        numpy.save(tmp_path / f"{number}.npy", feed)
        words += ["--input", f"x{number}={tmp_path}/{number}.npy"]
    subprocess.run([BUILD / "bin/tensmith", "compile", tmp_path / "m.onnx", "--target", f"aarch64:{cpu}", "-o", tmp_path / "m.so"],
                   check=True, capture_output=True)  # fmt: skip
    runner = ["qemu-aarch64", "-cpu", cpu if cpu == "cortex-a53" else "max", ROOT / "build/aarch64/bin/tensmith-run"]
    done = subprocess.run([*runner, tmp_path / "m.so", *words, "--out", tmp_path / "results"], check=True, capture_output=True, text=True)
    for case, output in zip(cases, json.loads(done.stdout)["outputs"], strict=True):
        numpy.testing.assert_array_equal(numpy.load(output["file"]), case[4], err_msg=str(case[:2]))


def coded_network(random, weight_codes, levels):
    """x -> clip, codes and back -> convolution with dequantised weights and a bias -> y."""
    scale, weight_scale = numpy.float32(0.25), (random.random(24) + 0.5).astype(numpy.float32)
    constants = {"s": scale, "z": numpy.uint8(0), "low": numpy.float32(0), "high": numpy.float32((levels - 1) * scale),
                 "wq": weight_codes, "ws": weight_scale, "wz": numpy.zeros(24, numpy.int8),
                 "b": random.standard_normal(24).astype(numpy.float32)}  # fmt: skip
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["clipped"]),
             helper.make_node("QuantizeLinear", ["clipped", "s", "z"], ["codes"]),
             helper.make_node("DequantizeLinear", ["codes", "s", "z"], ["xd"]),
             helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0),
             helper.make_node("Conv", ["xd", "wd", "b"], ["y"], pads=[1, 1, 1, 1])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 9, 9])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(numpy.asarray(value), name) for name, value in constants.items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(), constants


@pytest.mark.parametrize(("levels", "codes"), [(4, [-1, 1]), (2, [-1, 1]), (2, [0, 1])])
def test_quantised_layers_of_few_bits(levels, codes, tmp_path):
    """Breaks if a QDQ layer of 1-bit weights and 1- or 2-bit activations isn't multiplied bit by bit, or gives other numbers."""
    random = numpy.random.default_rng(levels)
    model, constants = coded_network(random, random.choice(codes, (24, 64, 3, 3)).astype(numpy.int8), levels)
    x = random.standard_normal((1, 64, 9, 9)).astype(numpy.float32)
    ours = compiled(model, tmp_path, "x86-64-v3")  # which has no instruction for bytes
    assert any("bit serial" in kind for kind in kinds(ours))
    rounded = numpy.round(numpy.clip(x, 0, constants["high"]) / constants["s"]).astype(numpy.int64)
    sums = bit_draws.convolve(rounded, constants["wq"].astype(numpy.int64), [1, 1], [1, 1, 1, 1], [1, 1], 1)
    wanted = sums.astype(numpy.float32) * (constants["ws"] * constants["s"])[:, None, None] + constants["b"][:, None, None]
    numpy.testing.assert_allclose(ours.run(x)[0], wanted, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("target", [HERE, "x86-64-v3"])
def test_a_network_of_few_bits(target, tmp_path):
    """Breaks if a ResNet-18 with W1A2 in its middle gives another bit than its floats, or if no products of bits are left of it."""
    import tensmith

    pytest.importorskip("onnxruntime")
    random = numpy.random.default_rng(5)
    (tmp_path / "m.onnx").write_bytes(bit_networks.resnet18(random, size=32, widths=(64, 64, 64, 64)))
    images = random.standard_normal((4, 3, 32, 32)).astype(numpy.float32)
    bit_networks.quantised(tmp_path / "m.onnx", tmp_path / "q.onnx", images)
    ours = tensmith.compile(str(tmp_path / "q.onnx"), target=target)
    if target != HERE:  # which may multiply bytes faster
        assert bit_networks.in_bits(ours) >= 12
    for image in images:
        wanted = bit_networks.in_floats(tmp_path / "q.onnx", image[None])[0]
        assert (wanted > 0).any()
        numpy.testing.assert_array_equal(ours.run(image[None])[0], wanted)
