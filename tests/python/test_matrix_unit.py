"""Products by a CPU's matrix unit (AMX), against sums in double precision: shapes are drawn at random, odd ones included.

Breaks if rows behind the last whole tile are stored, or read where there is no memory; if a depth that makes no whole tile
counts what fills it up; if a tap's pixels are gathered from another place; or if products go by the unit nowhere.
"""

import json
import pathlib

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

tensmith = pytest.importorskip("tensmith")


FLAGS = pathlib.Path("/proc/cpuinfo").read_text().split() if pathlib.Path("/proc/cpuinfo").exists() else []

needs_bf16 = pytest.mark.skipif("amx_bf16" not in FLAGS, reason="this CPU has no matrix unit for bf16")
needs_int8 = pytest.mark.skipif("amx_int8" not in FLAGS, reason="this CPU has no matrix unit for bytes")


def to_bfloat(x):
    bits = numpy.asarray(x, numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(numpy.uint32).view(numpy.float32)


def model_of(nodes, x_shape, weights, x_type=TensorProto.FLOAT):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", x_type, x_shape)],
                              [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(model, x, wanted, tolerance=1e-4, unit=True, **more):
    """One and two threads give the same bits; how far they are from what is wanted is against the largest of it.
    Gives what is told of the kernels."""
    results = []
    for threads in (1, 2):
        ours = tensmith.compile(model.SerializeToString(), threads=threads, **more)
        summaries = json.dumps(ours.describe()["kernels"])
        assert ("of the matrix unit" in summaries) == unit, summaries
        results.append(numpy.asarray(ours.run(x)[0]))
    numpy.testing.assert_array_equal(*results)
    assert results[0].shape == wanted.shape
    if wanted.dtype.kind in "iu":
        numpy.testing.assert_array_equal(results[0], wanted)
    elif wanted.size:
        assert abs(results[0] - wanted).max() <= tolerance * abs(wanted).max()
    return summaries


@needs_bf16
@pytest.mark.parametrize("seed", range(24))
def test_products(seed):
    """By weights that lie as MatMul has them or transposed, of rows that are known or not."""
    random = numpy.random.default_rng(seed)
    rows = int(random.choice([4, 15, 16, 17, 31, 32, 33, 50, 97, 200]))
    depth, columns = int(random.integers(1, 400)), int(random.integers(1, 200))
    if seed % 3 == 0:
        depth += -depth % 32
    x = random.standard_normal((rows, depth)).astype(numpy.float32)
    w = (random.standard_normal((depth, columns)) / depth ** 0.5).astype(numpy.float32)
    b = random.standard_normal(columns).astype(numpy.float32)
    turned = bool(random.integers(2))
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["s"], transB=int(turned)), helper.make_node("Relu", ["s"], ["y"])]
    model = model_of(nodes, [rows if seed % 2 else "rows", depth], {"w": w.T.copy() if turned else w, "b": b})
    wanted = numpy.maximum(to_bfloat(x).astype(numpy.float64) @ to_bfloat(w) + b, 0)
    check(model, x, wanted, precision="bf16")
    if seed % 2 == 0:  # of the same code
        ours = tensmith.compile(model.SerializeToString(), precision="bf16")
        for some in (0, 1, rows - 1):
            numpy.testing.assert_array_equal(numpy.asarray(ours.run(x[:some])[0]).shape, (some, columns))
            numpy.testing.assert_allclose(ours.run(x[:some])[0], wanted[:some], rtol=0, atol=1e-4 * abs(wanted).max())


@needs_bf16
@pytest.mark.parametrize("seed", range(24))
def test_convolutions(seed):
    random = numpy.random.default_rng(100 + seed)
    group = int(random.choice([1, 1, 1, 2]))
    channels = int(random.choice([3, 16, 17, 32, 64, 96])) if group == 1 else 64
    outputs = group * int(random.integers(17, 70))
    window = [1, 1] if seed % 4 == 0 else [int(size) for size in random.integers(1, 6, 2)]
    attributes = {"group": group, "strides": [int(s) for s in random.integers(1, 3, 2)],
                  "pads": [int(p) if max(window) > 1 else 0 for p in random.integers(0, 3, 4)],
                  "dilations": [int(d) for d in random.integers(1, 3, 2)]}
    x = random.standard_normal((int(random.integers(1, 4)), channels, *random.integers(10, 20, 2))).astype(numpy.float32)
    w = random.standard_normal((outputs, channels // group, *window))
    w = (w / (w[0].size) ** 0.5).astype(numpy.float32)
    b = random.standard_normal(outputs).astype(numpy.float32)
    model = model_of([helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)], list(x.shape), {"w": w, "b": b})
    rounded = model_of([helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)], list(x.shape),
                       {"w": to_bfloat(w), "b": b})
    wanted = ReferenceEvaluator(rounded).run(None, {"x": to_bfloat(x)})[0]
    check(model, x, wanted, precision="bf16")


@needs_bf16
@pytest.mark.parametrize("shape, w_shape, attributes", [
    ((2, 32, 41), (33, 32, 5), {"pads": [2, 1], "dilations": [2]}), ((1, 40, 30), (20, 40, 3), {"strides": [2], "pads": [1, 1]}),
    ((2, 64, 5, 6, 7), (18, 64, 2, 3, 2), {"pads": [1, 0, 1, 0, 2, 1]}), ((1, 128, 3, 40), (70, 128, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((3, 64, 9, 8), (50, 32, 3, 3), {"group": 2, "pads": [1, 1, 1, 1], "dilations": [1, 3]}),
    ((1, 512, 12, 11), (40, 512, 3, 3), {}), ((1, 32, 2, 2), (17, 32, 5, 5), {"pads": [4, 4, 4, 4]})])
def test_windows(shape, w_shape, attributes):
    """Of other ranks, of batches and groups, smaller than the padding, and of long sums."""
    random = numpy.random.default_rng(len(shape))
    x, w = random.standard_normal(shape).astype(numpy.float32), random.standard_normal(w_shape).astype(numpy.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    wanted = ReferenceEvaluator(model_of([node], list(shape), {"w": to_bfloat(w)})).run(None, {"x": to_bfloat(x)})[0]
    for first in (shape[0], "n"):
        check(model_of([node], [first, *shape[1:]], {"w": w}), x, wanted, precision="bf16")
    smaller = model_of([node], ["n", *(f"s{dim}" for dim in range(1, len(shape)))], {"w": w})
    ours = tensmith.compile(smaller.SerializeToString(), precision="bf16")
    numpy.testing.assert_allclose(ours.run(x)[0], wanted, rtol=0, atol=1e-4 * abs(wanted).max())
    assert ours.run(x[:0])[0].shape == (0, *wanted.shape[1:])


@needs_bf16
@pytest.mark.parametrize("shape, outputs, dilation, place", [
    ((1, 64, 20, 21), 40, 1, "padded"), ((1, 64, 20, 21), 40, 16, "gathered"), ((9, 64, 4, 4), 256, 1, "gathered"),
    (("n", 64, "h", "w"), 40, 1, "padded"), (("n", 64, "h", "w"), 40, 36, "gathered")])
def test_an_image_is_padded_where_that_takes_less(shape, outputs, dilation, place):
    random = numpy.random.default_rng(9)
    x = random.standard_normal(shape if shape[0] != "n" else (2, 64, 19, 22)).astype(numpy.float32)
    w = (random.standard_normal((outputs, 64, 3, 3)) / 24).astype(numpy.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[dilation] * 4, dilations=[dilation] * 2)
    wanted = ReferenceEvaluator(model_of([node], list(x.shape), {"w": to_bfloat(w)})).run(None, {"x": to_bfloat(x)})[0]
    model = model_of([node], list(shape), {"w": w})
    kernels = check(model, x, wanted, precision="bf16")
    assert f"rows {place}" in kernels, kernels


@needs_bf16
def test_a_module_needs_the_unit_only_where_its_kernels_use_it():
    w = numpy.ones((64, 64), numpy.float32)
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [64, 64], {"w": w}).SerializeToString()
    for precision, needs in (("fast", False), ("bf16", True)):
        features = tensmith.compile(model, precision=precision).describe()["features"]
        assert any(feature.startswith("amx-") for feature in features) == needs, features


@needs_bf16
@pytest.mark.parametrize("channels, of_group, tile", [(64, 8, "32x32"), (160, 16, "32x32"), (144, 16, "32x16"), (48, 8, "32x16")])
@pytest.mark.parametrize("stride", [1, 2])
def test_groups_of_few_channels(tmp_path, channels, of_group, tile, stride):
    """Some are one, with zeros in between; where register tiles are asked for they stay what they were."""
    random = numpy.random.default_rng(of_group)
    x = random.standard_normal((2, channels, 13, 15)).astype(numpy.float32)
    w = (random.standard_normal((channels, of_group, 3, 3)) / (9 * of_group) ** 0.5).astype(numpy.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="c", pads=[1, 0, 1, 1], strides=[stride] * 2, group=channels // of_group)
    for shape in (x.shape, ("n", channels, "h", "w")):
        model = model_of([node], list(shape), {"w": w})
        wanted = ReferenceEvaluator(model_of([node], list(x.shape), {"w": to_bfloat(w)})).run(None, {"x": to_bfloat(x)})[0]
        kernels = check(model, x, wanted, precision="bf16")
        assert f"tile {tile} of the matrix unit" in kernels, kernels
    asked = tmp_path / "schedules.json"
    asked.write_text(json.dumps({"schedules": [{"nodes": ["c"], "tile_rows": 4}]}))
    wanted = ReferenceEvaluator(model_of([node], list(x.shape), {"w": w})).run(None, {"x": to_bfloat(x)})[0]
    check(model, x, wanted, unit=False, precision="bf16", schedules=asked)


@needs_bf16
def test_registers_are_taken_where_their_rows_are_asked_for(tmp_path):
    """The panels of the unit, filled up, by register tiles; a transposed left operand as well."""
    random = numpy.random.default_rng(7)
    x, w = random.standard_normal((37, 45)).astype(numpy.float32), random.standard_normal((45, 70)).astype(numpy.float32)
    wanted = to_bfloat(x).astype(numpy.float64) @ to_bfloat(w)
    asked = tmp_path / "schedules.json"
    asked.write_text(json.dumps({"schedules": [{"nodes": ["product"], "tile_rows": 5}]}))
    for nodes, value in (([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], x),
                         ([helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("MatMul", ["t", "w"], ["y"], name="product")],
                          x.T.copy())):
        model = model_of(nodes, list(value.shape), {"w": w})
        check(model, value, wanted, precision="bf16")
        check(model, value, wanted, precision="bf16", unit=False, schedules=asked)


def item_of_convolution(channels, outputs, window, stride=1):
    """Tiles and panels of an item of a convolution of a 56x56 image in bf16."""
    random = numpy.random.default_rng(window)
    x = random.standard_normal((1, channels, 56, 56)).astype(numpy.float32)
    w = (random.standard_normal((outputs, channels, window, window)) / channels).astype(numpy.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride] * 2, pads=[window // 2] * 4)
    ours = tensmith.compile(model_of([node], list(x.shape), {"w": w}).SerializeToString(), precision="bf16")
    entries = json.loads(ours.describe()["metadata"]["schedules"])
    [entry] = [entry for entry in entries if entry["kernel"].startswith("conv") and "item_tiles" in entry]
    return entry["item_tiles"], entry["item_panels"]


@needs_bf16
@pytest.mark.parametrize("channels, outputs, window, stride, tiles", [(64, 256, 1, 1, 1), (64, 256, 3, 2, 1), (64, 64, 3, 1, 8)])
def test_an_item_passes_all_panels(channels, outputs, window, stride, tiles):
    """So that the rows which it copies are copied once."""
    assert item_of_convolution(channels, outputs, window, stride) == (tiles, outputs // 32)


@needs_bf16
def test_an_item_passes_far_panels_with_more_tiles():
    """Weights that the second-level cache doesn't hold come less often."""
    tiles, _ = item_of_convolution(1024, 4096, 1)
    assert tiles == 4


@needs_bf16
@pytest.mark.parametrize("left, right", [((3, 37, 64), (3, 64, 50)), ((37, 45), (3, 45, 50)), ((2, 1, 33, 64), (3, 64, 20)),
                                         ((2, 3, 5, 96), (1, 1, 96, 70)), ((4, 31, 64), (64, 64))])
def test_stacks_of_products(left, right):
    """Each with weights of its own, or one for all; of rows of its own, or the same."""
    random = numpy.random.default_rng(21)
    x = random.standard_normal(left).astype(numpy.float32)
    w = (random.standard_normal(right) / right[-2] ** 0.5).astype(numpy.float32)
    wanted = numpy.matmul(to_bfloat(x).astype(numpy.float64), to_bfloat(w))
    nodes = [helper.make_node("Cast", ["x"], ["a"], to=TensorProto.BFLOAT16), helper.make_node("Cast", ["w"], ["b"], to=TensorProto.BFLOAT16),
             helper.make_node("MatMul", ["a", "b"], ["p"]), helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)]
    for shape in (list(left), [*left[:-2], "rows", left[-1]]):
        check(model_of(nodes, shape, {"w": w}), x, wanted, tolerance=0.005)


@needs_bf16
@pytest.mark.parametrize("rows", [5, 37])
def test_rows_of_heads(rows):
    """That a transposition has put side by side."""
    random = numpy.random.default_rng(22)
    heads, size, columns = 3, 32, 70
    x = random.standard_normal((2, heads, rows, size)).astype(numpy.float32)
    w = (random.standard_normal((heads * size, columns)) / 10).astype(numpy.float32)
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1, 3]), helper.make_node("Reshape", ["t", "sizes"], ["r"]),
             helper.make_node("MatMul", ["r", "w"], ["y"])]
    model = model_of(nodes, list(x.shape), {"w": w, "sizes": numpy.array([0, 0, heads * size])})
    side_by_side = to_bfloat(x).transpose(0, 2, 1, 3).reshape(2, rows, -1).astype(numpy.float64)
    check(model, x, side_by_side @ to_bfloat(w), precision="bf16")


@needs_bf16
@pytest.mark.parametrize("kind", ["joined", "gated"])
def test_pointwise_convolutions_of_what_is_computed_on_the_way(kind):
    """Of a concatenation that is scaled and cut off at zero, and of an image whose channels are weighted."""
    random = numpy.random.default_rng(23)
    x = random.standard_normal((2, 64, 9, 11)).astype(numpy.float32)
    w = (random.standard_normal((48, 96 if kind == "joined" else 64, 1, 1)) / 8).astype(numpy.float32)
    if kind == "joined":
        other = (random.standard_normal((32, 64, 3, 3)) / 24).astype(numpy.float32)
        scale = random.standard_normal((1, 96, 1, 1)).astype(numpy.float32)
        nodes = [helper.make_node("Conv", ["x", "o"], ["p"], pads=[1] * 4), helper.make_node("Concat", ["x", "p"], ["j"], axis=1),
                 helper.make_node("Mul", ["j", "s"], ["m"]), helper.make_node("Relu", ["m"], ["r"]),
                 helper.make_node("Conv", ["r", "w"], ["y"])]
        weights = {"o": other, "s": scale, "w": w}
    else:
        nodes = [helper.make_node("GlobalAveragePool", ["x"], ["g"]), helper.make_node("Sigmoid", ["g"], ["s"]),
                 helper.make_node("Mul", ["x", "s"], ["r"]), helper.make_node("Conv", ["r", "w"], ["y"])]
        weights = {"w": w}
    model = model_of(nodes, list(x.shape), weights)
    check(model, x, ReferenceEvaluator(model).run(None, {"x": x})[0], tolerance=0.02, precision="bf16")


def check_bytes(random, operator, x_shape, w, sums, rows=None, **attributes):
    """Of QuantizeLinear and DequantizeLinear with scales of 1: nothing is rounded, so results are the same bits."""
    zero = int(random.integers(256))
    x = random.integers(-zero, 256 - zero, x_shape).astype(numpy.float32)
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "xzero"], ["codes"]),
             helper.make_node("DequantizeLinear", ["codes", "s", "xzero"], ["a"]),
             helper.make_node("DequantizeLinear", ["w", "s", "wzero"], ["b"]),
             helper.make_node(operator, ["a", "b"], ["y"], **attributes)]
    weights = {"w": w, "s": numpy.float32(1), "xzero": numpy.uint8(zero), "wzero": numpy.int8(0)}
    model = model_of(nodes, [rows or x_shape[0], *x_shape[1:]], weights)
    return check(model, x, sums(x.astype(numpy.float64), w.astype(numpy.float64)), tolerance=0)


@needs_int8
@pytest.mark.parametrize("seed", range(12))
def test_products_of_bytes(seed):
    random = numpy.random.default_rng(200 + seed)
    rows, depth, columns = int(random.integers(4, 80)), int(random.integers(1, 300)), int(random.integers(1, 100))
    w = random.integers(-128, 128, (depth, columns)).astype(numpy.int8)
    check_bytes(random, "MatMul", [rows, depth], w, numpy.matmul, None if seed % 2 else "rows")


@needs_int8
@pytest.mark.parametrize("seed", range(12))
def test_convolutions_of_bytes(seed):
    random = numpy.random.default_rng(300 + seed)
    channels, outputs, window = int(random.choice([3, 19, 32, 64])), int(random.integers(17, 70)), int(random.choice([1, 2, 3]))
    attributes = {"strides": [int(s) for s in random.integers(1, 3, 2)], "pads": [int(random.integers(0, window))] * 4,
                  "dilations": [int(d) for d in random.integers(1, 3, 2)]}
    if channels == 64 and seed % 2:
        attributes["group"], outputs = 2, 2 * outputs
    w = random.integers(-128, 128, (outputs, channels // attributes.get("group", 1), window, window)).astype(numpy.int8)
    check_bytes(random, "Conv", [2, channels, 11, 13], w, sums_of(attributes), **attributes)


def sums_of(attributes):
    def sums(x, w):
        wide = model_of([helper.make_node("Conv", ["x", "w"], ["y"], **attributes)], list(x.shape), {"w": w}, TensorProto.DOUBLE)
        return ReferenceEvaluator(wide).run(None, {"x": x})[0]

    return sums


@needs_int8
@pytest.mark.parametrize("channels, of_group, outputs, tile", [
    (128, 4, 128, "32x32"), (128, 32, 192, "32x32"), (64, 16, 64, "32x32"), (48, 4, 48, "32x16"), (40, 8, 80, "32x16")])
def test_groups_of_bytes(channels, of_group, outputs, tile):
    """Some are one, with zeros in between; what is padded with is the codes' zero."""
    random = numpy.random.default_rng(channels)
    attributes = {"group": channels // of_group, "pads": [1, 0, 1, 1]}
    w = random.integers(-128, 128, (outputs, of_group, 3, 3)).astype(numpy.int8)
    kernels = check_bytes(random, "Conv", [2, channels, 9, 11], w, sums_of(attributes), **attributes)
    assert f"tile {tile} of the matrix unit" in kernels, kernels
