"""Convolutions by Fourier transforms: right for every shape that can be asked for, and chosen where windows are large."""

import json

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")


def weights(random, *shape):
    return (random.standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))).astype("float32")


def model(x, w, group=1, pads=None, dilations=None, batch=None):
    """A convolution with bias, named c, and a rectifier behind it that takes something away."""
    spatial = w.ndim - 2
    pads, dilations = pads or [0] * 2 * spatial, dilations or [1] * spatial
    random = numpy.random.default_rng(4)
    bias, less = weights(random, len(w)) * 9, weights(random, len(w), *[1] * spatial)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], name="c", group=group, pads=pads, dilations=dilations),
             helper.make_node("Sub", ["c", "d"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    constants = {"w": w, "b": bias, "d": less}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, batch or x)],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(value, name) for name, value in constants.items()])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def right(values):
        values = numpy.pad(values.astype("float64"), [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:])])
        extents = [(size - 1) * step + 1 for size, step in zip(w.shape[2:], dilations)]
        windows = numpy.lib.stride_tricks.sliding_window_view(values, extents, tuple(range(2, 2 + spatial)))
        windows = windows[(Ellipsis, *[slice(None, None, step) for step in dilations])]
        parts, kernels = numpy.split(windows, group, 1), numpy.split(w.astype("float64"), group)
        axes = [1, *range(2 + spatial, 2 + 2 * spatial)], [1, *range(2, 2 + spatial)]
        summed = [numpy.moveaxis(numpy.tensordot(part, kernel, axes), -1, 1) for part, kernel in zip(parts, kernels)]
        shape = (1, -1, *[1] * spatial)
        return numpy.maximum(numpy.concatenate(summed, 1) + bias.reshape(shape) - less, 0)

    return data, right


def chosen(compiled):
    """What was decided for the convolution: the first that is told of it."""
    return next(entry for entry in json.loads(compiled.describe()["metadata"]["schedules"]) if entry["kernel"].startswith("conv "))


def templates(compiled):
    return {kernel["schedule"] for kernel in compiled.describe()["kernels"]}


DENSE, WHOLE = {"fourier input", "fourier output"}, {"fourier convolution"}


@pytest.mark.parametrize("x,w,options,tile,made", [
    ((1, 16, 20, 21), (16, 16, 5, 5), {"pads": [2, 2, 2, 2]}, 16, DENSE),
    ((2, 3, 13, 9), (5, 3, 5, 7), {"pads": [1, 0, 4, 3]}, 8, DENSE),
    ((2, 19, 31, 8), (33, 19, 6, 5), {"pads": [0, 2, 1, 0]}, 12, DENSE),
    ((2, 36, 11, 14), (24, 9, 5, 5), {"group": 4, "pads": [2, 2, 2, 2]}, 24, DENSE),
    ((1, 32, 10, 30), (32, 16, 1, 7), {"group": 2, "pads": [0, 3, 0, 3]}, 32, DENSE),
    ((1, 9, 30, 5), (10, 9, 7, 1), {"pads": [6, 0, 0, 0]}, 16, DENSE),
    ((2, 8, 23, 17), (8, 8, 5, 5), {"pads": [4, 2, 4, 7], "dilations": [2, 3]}, 16, DENSE),
    ((1, 8, 2, 3), (8, 8, 5, 5), {"pads": [4, 4, 4, 4]}, 32, DENSE),  # less than a tile
    ((2, 10, 3, 3), (11, 10, 7, 7), {"pads": [9, 3, 3, 8]}, 8, DENSE),  # windows that are all padding
    ((2, 12, 55), (17, 12, 9), {"pads": [8, 0]}, 32, DENSE),
    ((2, 12, 300), (17, 12, 64), {"pads": [0, 5]}, 240, DENSE),
    ((2, 37, 15, 22), (37, 1, 7, 9), {"group": 37, "pads": [3, 4, 3, 4]}, 24, WHOLE),
    ((1, 48, 40, 33), (48, 1, 31, 31), {"group": 48, "pads": [15, 15, 15, 15]}, 64, WHOLE),
    ((1, 16, 70, 70), (16, 1, 13, 11), {"group": 16}, 48, WHOLE),
    ((1, 16, 9, 20), (16, 1, 1, 11), {"group": 16, "pads": [0, 5, 0, 5]}, 16, WHOLE),
    ((3, 20, 100), (20, 1, 17), {"group": 20, "pads": [16, 0], "dilations": [2]}, 64, WHOLE),
    ((2, 20, 1001), (20, 1, 201), {"group": 20, "pads": [200, 0]}, 720, WHOLE),
])
def test_each_shape_is_the_convolution(tmp_path, x, w, options, tile, made):
    """Breaks if tiles, channels that leave a rest, groups, padding or what follows the convolution are taken for others."""
    random = numpy.random.default_rng(7)
    data, right = model(x, weights(random, *w), **options)
    (tmp_path / "s.json").write_text(json.dumps({"schedules": [{"nodes": ["c"], "fourier_tile": tile}]}))
    compiled = tensmith.compile(data, schedules=tmp_path / "s.json")
    entry = chosen(compiled)
    assert entry["fourier_tile"] == tile and made <= templates(compiled) and 0 < entry["error"] < 2e-6
    values = random.standard_normal(x).astype("float32")
    wanted, found = right(values), numpy.asarray(compiled.run(values)[0])
    assert found.shape == wanted.shape and numpy.abs(found - wanted).max() <= 3e-6 * numpy.abs(wanted).max()
    again = tensmith.compile(data, schedules=tmp_path / "s.json", threads=2)
    assert (numpy.asarray(again.run(values)[0]) == found).all()


LARGE = (1, 64, 64, 64), (64, 64, 9, 9), {"pads": [4, 4, 4, 4]}


@pytest.mark.parametrize("x,w,options,takes", [
    (*LARGE, True),
    ((1, 96, 56, 56), (96, 1, 31, 31), {"group": 96, "pads": [15, 15, 15, 15]}, True),
    ((1, 16, 3000), (16, 1, 1000), {"group": 16, "pads": [999, 0]}, True),
    ((1, 64, 64, 64), (64, 64, 3, 3), {"pads": [1, 1, 1, 1]}, False),
    ((1, 64, 7, 7), (64, 1, 5, 5), {"group": 64, "pads": [2, 2, 2, 2]}, False),
    ((1, 3, 64, 64), (64, 3, 7, 7), {"pads": [3, 3, 3, 3]}, False),
])
def test_large_windows_are_transformed(x, w, options, takes):
    """Breaks if the estimate leaves a large window to the plain convolution, or takes one that has nothing to gain."""
    random = numpy.random.default_rng(8)
    data, right = model(x, weights(random, *w), **options)
    compiled = tensmith.compile(data)
    assert bool(chosen(compiled).get("fourier_tile")) == takes
    values = random.standard_normal(x).astype("float32")
    wanted = right(values)
    assert numpy.abs(numpy.asarray(compiled.run(values)[0]) - wanted).max() <= 1e-5 * numpy.abs(wanted).max()


def test_any_number_of_images(tmp_path):
    """Breaks if the images' number is taken for one, where only the run knows it."""
    random = numpy.random.default_rng(9)
    x, w, options = LARGE
    data, right = model(x, weights(random, *w), batch=["n", *x[1:]], **options)
    compiled = tensmith.compile(data)
    assert DENSE <= templates(compiled)
    for images in (1, 3):
        values = random.standard_normal((images, *x[1:])).astype("float32")
        wanted = right(values)
        assert numpy.abs(numpy.asarray(compiled.run(values)[0]) - wanted).max() <= 1e-5 * numpy.abs(wanted).max()


@pytest.mark.parametrize("change", ["exact", "bf16", "infinite", "size", "three"])
def test_what_stays_with_the_plain_convolution(change):
    """Breaks if a policy, an error beyond its bound, sizes that only the run knows or a volume don't keep a layer as it is."""
    random = numpy.random.default_rng(10)
    (x, w, options), batch = LARGE, None
    if change == "three":
        x, w, options = (1, 8, 12, 12, 12), (8, 8, 5, 5, 5), {}
    if change == "size":
        batch = [1, 64, "h", 64]
    numbers = weights(random, *w)
    if change == "infinite":
        numbers[3, 5, 1, 2] = numpy.inf
    data, _ = model(x, numbers, batch=batch, **options)
    precision = {"precision": change} if change in ("exact", "bf16") else {}
    compiled = tensmith.compile(data, **precision)
    assert not any("fourier" in name for name in templates(compiled))
    assert not json.loads(compiled.describe()["metadata"]["schedules"])[0].get("fourier_tile")


@pytest.mark.parametrize("tile,taken", [(26, True), (34, False), (51, False)])
def test_tiles_of_large_primes_are_not_taken(tmp_path, tile, taken):
    """Breaks if a tile is made whose code grows with the square of a prime, or if one that can't be changes what is chosen."""
    random = numpy.random.default_rng(12)
    data, right = model((1, 16, 20, 21), weights(random, 16, 16, 5, 5), pads=[2] * 4)
    (tmp_path / "s.json").write_text(json.dumps({"schedules": [{"nodes": ["c"], "fourier_tile": tile}]}))
    compiled, plain = tensmith.compile(data, schedules=tmp_path / "s.json"), tensmith.compile(data)
    assert chosen(compiled).get("fourier_tile") == (tile if taken else chosen(plain).get("fourier_tile"))
    values = random.standard_normal((1, 16, 20, 21)).astype("float32")
    wanted = right(values)
    assert numpy.abs(numpy.asarray(compiled.run(values)[0]) - wanted).max() <= 1e-5 * numpy.abs(wanted).max()


@pytest.mark.parametrize("x,window,pads,dilations", [((2, 16, 40, 33), (11, 9), [5, 4, 5, 4], [1, 1]), ((1, 16, 300), (15,), [28, 0], [2])])
def test_operations_are_those_of_the_convolution(tmp_path, x, window, pads, dilations):
    """Breaks if a kernel's operations are those of its transforms, or none: its speed could not be compared with the plain one's."""
    random = numpy.random.default_rng(13)
    data, _ = model(x, weights(random, 16, 1, *window), group=16, pads=pads, dilations=dilations)
    (tmp_path / "s.json").write_text(json.dumps({"schedules": [{"nodes": ["c"], "fourier_tile": 64}]}))
    [kernel] = [kernel for kernel in tensmith.compile(data, schedules=tmp_path / "s.json").describe()["kernels"]
                if kernel["schedule"] == "fourier convolution"]
    extents = [(size - 1) * step + 1 for size, step in zip(window, dilations)]
    outputs = [size + low + high - extent + 1
               for size, low, high, extent in zip(x[2:], pads[:len(window)], pads[len(window):], extents)]
    follows = 2  # a difference and a rectifier
    assert kernel["flops"] == numpy.prod([x[0], 16, *outputs]) * (2 * numpy.prod(extents) + follows)
