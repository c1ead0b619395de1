"""The precision policy: what `fast` may compute otherwise, and that `exact` does not."""

import json
import pathlib
import re
import subprocess

import numpy
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

tensmith = pytest.importorskip("tensmith")
COMMAND = pathlib.Path(tensmith.__file__).resolve().parents[2] / "bin/tensmith"


def convolution(images, channels, outputs, height, width, taps, pads):
    """A convolution with bias and Relu, and its input."""
    rng = numpy.random.default_rng(channels * 31 + height)
    w = (rng.standard_normal((outputs, channels, taps, taps)) / numpy.sqrt(channels * taps * taps)).astype(numpy.float32)
    b = rng.standard_normal(outputs).astype(numpy.float32)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=pads), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(
        nodes, "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [images if images else "n", channels, height, width])],
        [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = rng.standard_normal((images or 2, channels, height, width)).astype(numpy.float32)
    return model, x



@pytest.mark.parametrize("images,channels,outputs,height,width,taps,pads", [
    (1, 64, 64, 33, 30, 3, [1, 1, 1, 1]),
    (3, 40, 72, 19, 23, 3, [0, 1, 2, 0]),
    (0, 64, 64, 16, 17, 3, [1, 1, 1, 1]),
    (1, 64, 48, 24, 25, 5, [2, 2, 2, 2]),
    (1, 64, 64, 20, 20, 2, [0, 0, 1, 1]),
])
def test_convolutions_agree_with_either_policy(images, channels, outputs, height, width, taps, pads):
    model, x = convolution(images, channels, outputs, height, width, taps, pads)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})[0]
    for policy in ("fast", "exact"):
        compiled = tensmith.compile(model.SerializeToString(), threads=2, precision=policy)
        takes_fewer_products = any("winograd" in kernel["label"] for kernel in compiled.describe()["kernels"])
        assert takes_fewer_products == (policy == "fast")
        y = numpy.asarray(compiled.run(x)[0])
        assert numpy.abs(y - wanted).max() <= 2e-5 * numpy.abs(wanted).max(), policy


@pytest.mark.parametrize("images, channels, outputs, shape, window, attributes", [
    (2, 36, 40, (29, 31), (3, 3), {"dilations": [2, 3], "pads": [2, 3, 1, 0]}),
    (1, 64, 64, (28, 28), (3, 3), {"dilations": [4, 4], "pads": [4] * 4}),
    (2, 36, 40, (5, 19, 23), (3, 3, 3), {"pads": [1, 0, 1, 2, 1, 0]}),
    (1, 40, 36, (4, 24, 22), (1, 3, 3), {"pads": [0, 1, 1, 0, 1, 1]}),
    (2, 36, 40, (7, 19, 23), (2, 3, 3), {"dilations": [3, 2, 3], "pads": [0, 2, 3, 0, 2, 3]}),
    (1, 36, 40, (6, 20, 20), (3, 3, 3), {}),
    (1, 64, 64, (4, 28, 28), (1, 3, 3), {"pads": [1] * 6}),
    (2, 40, 36, (3, 22, 20), (1, 3, 3), {"pads": [0, 1, 0, 2, 0, 1]}),
])
@pytest.mark.parametrize("batch", ["known", "symbolic"])
def test_dilated_windows_and_videos_take_fewer_products(images, channels, outputs, shape, window, attributes, batch, tmp_path):
    """Breaks where a phase or a frame reads another's pixels, or none where it should, and where they stay plain products though tiles
    are asked for: by themselves these depend on the machine."""
    asked = tmp_path / "schedules.json"
    asked.write_text(json.dumps({"schedules": [{"nodes": ["far"], "winograd_outputs": 4}]}))
    rng = numpy.random.default_rng(channels + len(shape))
    w = (rng.standard_normal((outputs, channels, *window)) / numpy.sqrt(channels * numpy.prod(window))).astype(numpy.float32)
    b = rng.standard_normal(outputs).astype(numpy.float32)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], name="far", **attributes), helper.make_node("Relu", ["c"], ["y"])]
    size = images if batch == "known" else "n"
    graph = helper.make_graph(nodes, "far", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size, channels, *shape])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = rng.standard_normal((images, channels, *shape)).astype(numpy.float32)
    compiled = tensmith.compile(model.SerializeToString(), threads=2, schedules=asked)
    assert any("winograd" in kernel["label"] for kernel in compiled.describe()["kernels"])
    wanted = ReferenceEvaluator(model).run(None, {"x": x})[0]
    assert numpy.abs(numpy.asarray(compiled.run(x)[0]) - wanted).max() <= 2e-5 * numpy.abs(wanted).max()


def test_a_video_is_tried_on_the_moments_of_its_channels():
    """Breaks where the moments of a channel are looked up by its place among those of all frames under the window."""
    rng = numpy.random.default_rng(4)
    w = (rng.standard_normal((40, 36, 3, 3, 3)) / 30).astype(numpy.float32)
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 6)], "video",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 36, 4, 20, 20])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = (rng.standard_normal((1, 36, 4, 20, 20)) + 9 * rng.standard_normal((1, 36, 1, 1, 1))).astype(numpy.float32)
    compiled = tensmith.compile(model.SerializeToString(), calibrate={"x": x})
    wanted = ReferenceEvaluator(model).run(None, {"x": x})[0]
    assert numpy.abs(numpy.asarray(compiled.run(x)[0]) - wanted).max() <= 2e-5 * numpy.abs(wanted).max()


def test_an_unknown_policy_is_refused():
    model, _ = convolution(1, 4, 4, 8, 8, 3, [1, 1, 1, 1])
    with pytest.raises(ValueError, match="precision"):
        tensmith.compile(model.SerializeToString(), precision="rough")


def products(rows, depth, columns):
    """Two products with weights, tanh between, of which the second's are transposed as Gemm has them."""
    rng = numpy.random.default_rng(rows)
    w = (rng.standard_normal((depth, columns)) / numpy.sqrt(depth)).astype(numpy.float32)
    v = (rng.standard_normal((33, columns)) / numpy.sqrt(columns)).astype(numpy.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="first"), helper.make_node("Tanh", ["h"], ["t"]),
             helper.make_node("Gemm", ["t", "v"], ["y"], name="second", transB=1)]
    graph = helper.make_graph(nodes, "products", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w"), numpy_helper.from_array(v, "v")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, rng.standard_normal((rows, depth)).astype(numpy.float32), w, v


def to_bfloat(x):
    bits = x.view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(numpy.uint32).view(numpy.float32)


@pytest.mark.parametrize("rows,depth,columns", [(1, 300, 77), (7, 129, 64), (40, 64, 19)])
def test_weights_in_bf16(rows, depth, columns, tmp_path):
    """Breaks if weights are not rounded where that is asked for, rounded twice, or laid out as numbers of another size."""
    model, x, w, v = products(rows, depth, columns)
    asked = tmp_path / "schedules.json"
    asked.write_text(json.dumps({"schedules": [{"nodes": ["first", "second"], "operand_bits": 16}]}))
    ours = tensmith.compile(model.SerializeToString(), precision="bf16", schedules=asked)
    entries = [entry for entry in json.loads(ours.describe()["metadata"]["schedules"]) if "operand_bits" in entry]
    assert [entry["operand_bits"] for entry in entries] == [16, 16] and all(0 < entry["error"] < 0.02 for entry in entries)
    y = numpy.asarray(ours.run(x)[0])
    full = numpy.tanh(x @ w) @ v.T
    weights = numpy.tanh(x @ to_bfloat(w)) @ to_bfloat(v).T
    # Where the machine multiplies pairs, rows are rounded as well.
    both = to_bfloat(numpy.tanh(to_bfloat(x) @ to_bfloat(w))) @ to_bfloat(v).T
    assert min(numpy.abs(y - wanted).max() for wanted in (weights, both)) < 1e-4
    assert numpy.abs(y - full).max() > 1e-4


def test_bf16_leaves_alone_what_would_not_be_faster(tmp_path):
    """Small weights stay in the cache: without pairs there is nothing to gain."""
    model, x, w, v = products(8, 64, 32)
    ours = tensmith.compile(model.SerializeToString(), precision="bf16", target="x86-64-v3")
    entries = [entry for entry in json.loads(ours.describe()["metadata"]["schedules"]) if "operand_bits" in entry]
    assert [entry["operand_bits"] for entry in entries] == [32, 32]
    assert numpy.abs(numpy.asarray(ours.run(x)[0]) - numpy.tanh(x @ w) @ v.T).max() < 1e-5


def side_by_side(depth):
    """Two products of one value, as attention's of its input: the value is rounded once, and widened in both."""
    rng = numpy.random.default_rng(5)
    weights = [numpy_helper.from_array(rng.standard_normal((depth, depth)).astype(numpy.float32), name) for name in ("v", "w")]
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("MatMul", ["t", "v"], ["p"]),
             helper.make_node("MatMul", ["t", "w"], ["q"]), helper.make_node("Add", ["t", "p"], ["y"])]
    graph = helper.make_graph(nodes, "side", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [9, depth])],
                              [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="q")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def depthwise(channels):
    """An image that is rounded for a depthwise convolution alone; subnormal numbers may become zero on the way."""
    rng = numpy.random.default_rng(6)
    weights = numpy_helper.from_array(rng.standard_normal((channels, 1, 3, 3)).astype(numpy.float32), "w")
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Conv", ["t", "w"], ["y"], name="dw", group=channels, pads=[1] * 4)]
    graph = helper.make_graph(nodes, "depthwise", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 9, 7])],
                              [onnx.ValueInfoProto(name="y")], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_bf16_image_of_a_depthwise_convolution(target, tmp_path):
    """Breaks if the kernel takes bits of bf16 for those of f32, or the image is not rounded once."""
    asked = tmp_path / "schedules.json"
    asked.write_text(json.dumps({"schedules": [{"nodes": ["dw"], "operand_bits": 16}]}))
    for channels in (5, 32, 49):
        model = depthwise(channels)
        x = numpy.random.default_rng(7).standard_normal((1, channels, 9, 7)).astype(numpy.float32)
        ours = tensmith.compile(model.SerializeToString(), precision="bf16", schedules=asked, target=target)
        w = numpy_helper.to_array(model.graph.initializer[0])[:, 0]
        image = numpy.pad(to_bfloat(numpy.tanh(x)), ((0, 0), (0, 0), (1, 1), (1, 1)))
        wanted = sum(image[:, :, i:i + 9, j:j + 7] * w[None, :, i, j, None, None] for i in range(3) for j in range(3))
        # A tanh that ends beside the middle of two bf16 may be rounded to the other one.
        differences = numpy.abs(numpy.asarray(ours.run(x)[0]) - wanted)
        assert numpy.median(differences) < 1e-6 and differences.max() < 0.05


@pytest.mark.parametrize("target, instruction", [
    ("cooperlake", r"avx512bf16\.dpbf16ps"), ("sapphirerapids", r"\btdpbf16ps|\.tdpbf16ps"),
    ("sapphirerapids,-amx-bf16", r"avx512bf16\.dpbf16ps")])
def test_bf16_where_the_machine_multiplies_pairs(tmp_path, target, instruction):
    """The machine need not be this one: rewrites are held against the reference evaluator, and the code is looked at."""
    model, *_ = products(9, 51, 40)
    image, _ = convolution(1, 24, 40, 12, 11, 3, [1, 1, 1, 1])
    for name, file in (("products", model), ("convolution", image), ("side_by_side", side_by_side(51))):
        onnx.save(file, tmp_path / f"{name}.onnx")
        done = subprocess.run([COMMAND, "compile", f"{name}.onnx", "-o", "m.so", "--target", target, "--precision",
                               "bf16", "--verify-each-pass", "--dump-ir", name],
                              cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        kernels = [path.read_text() for path in (tmp_path / name).glob("kernel-*.mlir")]
        assert sum(bool(re.search(instruction, text)) for text in kernels) == (1 if name == "convolution" else 2)


@pytest.mark.parametrize("channels, of_group, target, merges", [
    (64, 8, "sapphirerapids", True), (96, 16, "sapphirerapids", True), (48, 16, "sapphirerapids", True),
    (48, 8, "sapphirerapids", True), (40, 8, "sapphirerapids", False), (64, 4, "sapphirerapids", False), (64, 16, "cooperlake", False)])
def test_groups_are_merged_for_a_matrix_unit(tmp_path, channels, of_group, target, merges):
    """Each rewrite is held against the reference evaluator."""
    rng = numpy.random.default_rng(8)
    w = (rng.standard_normal((channels, of_group, 3, 3)) / 12).astype(numpy.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4, group=channels // of_group)
    graph = helper.make_graph([node], "groups", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 6, 7])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    done = subprocess.run([COMMAND, "compile", "m.onnx", "-o", "m.so", "--target", target, "--precision", "bf16",
                           "--verify-each-pass", "--dump-ir", "ir"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    kernels = "".join(path.read_text() for path in (tmp_path / "ir").glob("kernel-*.mlir"))
    assert ("tdpbf16ps" in kernels) == merges


def grouped(channels, of_group, shape, window, **attributes):
    """A convolution of small groups between others, so that its image and result are rounded, too."""
    rng = numpy.random.default_rng(channels + of_group)
    spatial = [1] * len(shape)
    normal = lambda *sizes: (rng.standard_normal(sizes) / numpy.sqrt(numpy.prod(sizes[1:]))).astype(numpy.float32)
    weights = {"u": normal(channels, 5, *spatial), "w": normal(channels, of_group, *window), "v": normal(7, channels, *spatial)}
    nodes = [helper.make_node("Conv", ["x", "u"], ["a"]), helper.make_node("Relu", ["a"], ["r"]),
             helper.make_node("Conv", ["r", "w"], ["g"], name="groups", group=channels // of_group, **attributes),
             helper.make_node("Conv", ["g", "v"], ["y"])]
    graph = helper.make_graph(nodes, "grouped", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 5, *shape])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, name) for name, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("channels, of_group, shape, window, attributes", [
    (48, 16, (11, 13), (3, 3), {"pads": [1] * 4}),
    (40, 8, (9, 10), (3, 3), {"pads": [0, 1, 1, 0], "strides": [2, 1]}),
    (24, 8, (17,), (5,), {"dilations": [2]}),
    (32, 16, (4, 5, 6), (2, 1, 3), {"pads": [1, 0, 1, 0, 0, 1]}),
    (16, 8, (1, 1), (1, 1), {}),
])
def test_pairs_of_small_groups(tmp_path, channels, of_group, shape, window, attributes):
    """Where the machine adds up pairs of bf16, groups of 8 and 16 channels do, to the same error as elsewhere. Breaks where pairs of
    the weights, of the channels or of a vector that is cut off are of another's."""
    model = grouped(channels, of_group, shape, window, **attributes)
    onnx.save(model, tmp_path / "m.onnx")
    done = subprocess.run([COMMAND, "compile", "m.onnx", "-o", "m.so", "--target", "cooperlake", "--precision", "bf16",
                           "--verify-each-pass", "--dump-ir", "ir"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    schedules = subprocess.run([COMMAND, "inspect", "m.so"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert "small groups, products by 2" in schedules
    x = numpy.random.default_rng(9).standard_normal((2, 5, *shape)).astype(numpy.float32)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})[0]
    y = numpy.asarray(tensmith.compile(model.SerializeToString(), precision="bf16").run(x)[0])
    assert numpy.abs(y - wanted).max() <= 2e-2 * numpy.abs(wanted).max()


# log(exp(1000)) is infinite in floats, and 1000 in real numbers.
def test_fast_math_takes_rules_of_real_numbers():
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> m (float[2] x) => (float[2] y) { e = Exp(x) y = Log(e) }').SerializeToString()
    given = numpy.float32([1000, 2])
    numpy.testing.assert_array_equal(tensmith.compile(model)(given)[0], numpy.inf)
    numpy.testing.assert_array_equal(tensmith.compile(model, fast_math=True)(given), given)
    with pytest.raises(tensmith.Error, match="exact"):
        tensmith.compile(model, fast_math=True, precision="exact")


def test_modules_without_debug_information_are_smaller(tmp_path):
    model = convolution(1, 8, 8, 9, 9, 3, [1, 1, 1, 1])[0].SerializeToString()
    for name, debug_info in [("told", True), ("untold", False)]:
        tensmith.compile(model, debug_info=debug_info).save(tmp_path / name)
    told, untold = (tmp_path / "told").read_bytes(), (tmp_path / "untold").read_bytes()
    assert b".debug_line" in told and b".debug_line" not in untold and len(untold) < len(told)
