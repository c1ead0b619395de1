"""The three passes of a convolution whose weights change, by Fourier transforms: its result and the gradients of its image and its
weights against sums in double precision, the transforms that they share, and which layers are transformed."""

import json

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

tensmith = pytest.importorskip("tensmith")


def model(x, w, group=1, pads=None, dilations=None, batch=None):
    """A convolution, named c, of inputs x and w."""
    spatial = len(w) - 2
    pads, dilations = pads or [0] * 2 * spatial, dilations or [1] * spatial
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="c", group=group, pads=pads, dilations=dilations)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, batch or x), helper.make_tensor_value_info("w", TensorProto.FLOAT, w)]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def right(x, w, g, group=1, pads=None, dilations=None):
    """y, dx and dw in double precision, a tap at a time; g draws the cotangent of y's shape."""
    spatial = w.ndim - 2
    pads, dilations = pads or [0] * 2 * spatial, dilations or [1] * spatial
    x, w = x.astype("float64"), w.astype("float64")
    padded = numpy.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:])])
    outputs = [size - (taps - 1) * step for size, taps, step in zip(padded.shape[2:], w.shape[2:], dilations)]
    images, m, c = x.shape[0], w.shape[0] // group, w.shape[1]
    split = lambda values, channels: values.reshape(images, group, channels, *values.shape[2:])  # noqa: E731
    y = numpy.zeros((images, group, m, *outputs))
    g = g((images, group * m, *outputs))
    dx, dw = numpy.zeros_like(padded), numpy.zeros_like(w)
    kernels, changes = w.reshape(group, m, c, *w.shape[2:]), dw.reshape(group, m, c, *w.shape[2:])
    for at in numpy.ndindex(*w.shape[2:]):
        places = (..., *[slice(tap * step, tap * step + size) for tap, step, size in zip(at, dilations, outputs)])
        kernel, seen = kernels[(..., *at)], split(padded[places], c)
        y += numpy.einsum("gmc,ngc...->ngm...", kernel, seen)
        changes[(..., *at)] = numpy.einsum("ngm...,ngc...->gmc", split(g.astype("float64"), m), seen) if spatial == 0 else \
            numpy.einsum("ngmp,ngcp->gmc", split(g.astype("float64"), m).reshape(images, group, m, -1), seen.reshape(images, group, c, -1))  # fmt: skip
        dx[places] += numpy.einsum("gmc,ngm...->ngc...", kernel, split(g.astype("float64"), m)).reshape(images, group * c, *outputs)
    inner = (..., *[slice(low, low + size) for low, size in zip(pads[:spatial], x.shape[2:])])
    return g, [y.reshape(g.shape), dx[inner], dw]


def compiled(tmp_path, data, tile, **settings):
    """With all passes by that tile; 0: none."""
    (tmp_path / "s.json").write_text(json.dumps({"schedules": [{"nodes": ["c"], "fourier_tile": tile}]}))
    return tensmith.grad(data, ["x", "w"], "y", schedules=tmp_path / "s.json", **settings)


def templates(model):
    """Of the kernels by transforms, as often as each runs."""
    return sorted(kernel["schedule"] for kernel in model.describe()["kernels"] if kernel["schedule"].startswith("fourier") for _ in range(kernel["uses"]))


ALL = ["fourier gradient", "fourier image gradient", "fourier input", "fourier output", "fourier weights", "fourier weights",
       "fourier weights gradient"]


def drawn(seed):
    """Sizes of a layer: odd and even windows, one dimension or two, padding, dilations and groups."""
    random = numpy.random.default_rng(seed)
    spatial = 2 if seed % 4 else 1
    group = int(random.choice([1, 1, 2, 3]))
    window = [int(size) for size in random.integers(1 if spatial == 2 else 2, 9, spatial)]
    if max(window) == 1:
        window[0] = 4
    dilations = [int(step) for step in random.choice([1, 1, 2], spatial)]
    extents = [(size - 1) * step + 1 for size, step in zip(window, dilations)]
    pads = [int(random.integers(0, size + 2)) for size in extents * 2]
    image = [int(size + random.integers(0, 20)) for size in extents]  # each tap sees some of it
    channels, outputs = (int(size) for size in random.integers([2, 2], 21, 2))
    least = max(extents)
    tile = int(random.choice([size for size in (8, 12, 15, 16, 21, 24, 32) if size >= least]))
    x, w = (int(random.integers(1, 4)), group * channels, *image), (group * outputs, channels, *window)
    return x, w, {"group": group, "pads": pads, "dilations": dilations}, tile


@pytest.mark.parametrize("seed", range(14))
def test_each_pass_is_that_of_the_convolution(tmp_path, seed):
    """Breaks if tiles, what overlaps of them, taps, groups, padding or dilations of a pass are taken for others."""
    random = numpy.random.default_rng(100 + seed)
    x, w, options, tile = drawn(seed)
    step = compiled(tmp_path, model(x, w, **options), tile)
    assert templates(step) == ALL
    values, weights = (random.standard_normal(shape).astype("float32") for shape in (x, w))
    g, wanted = right(values, weights, lambda shape: random.standard_normal(shape).astype("float32"), **options)
    found = step.run({"x": values, "w": weights, "cotangent.y": g})
    for name, ours, of in zip("y dx dw".split(), found, wanted):
        assert ours.shape == of.shape and numpy.abs(ours - of).max() <= 4e-6 * numpy.abs(of).max(), name


@pytest.mark.parametrize("x,w,tile", [
    ((1, 3, 7, 9), (2, 3, 7, 9), 16), ((1, 64, 9, 9), (64, 64, 9, 9), 16), ((1, 64, 9, 9), (64, 64, 9, 9), None), ((1, 5, 9, 9), (4, 5, 7, 7), 16),
])
def test_one_tile_of_one_image(tmp_path, x, w, tile):
    """Breaks if planes are stored without what follows them in their kernel: a product of one row is multiplications and sums. Without a tile: by
    the estimate, which hangs on the machine."""
    random, data = numpy.random.default_rng(4), model(x, w)
    step = compiled(tmp_path, data, tile) if tile else tensmith.grad(data, ["x", "w"], "y")
    assert templates(step) or not tile
    values, weights = (random.standard_normal(shape).astype("float32") for shape in (x, w))
    g, wanted = right(values, weights, lambda shape: random.standard_normal(shape).astype("float32"))
    for name, ours, of in zip("y dx dw".split(), step.run({"x": values, "w": weights, "cotangent.y": g}), wanted):
        assert ours.shape == of.shape and numpy.abs(ours - of).max() <= 4e-6 * numpy.abs(of).max(), name


LAYER = (4, 16, 30, 30), (16, 16, 9, 9), {"pads": [4] * 4}


def test_transforms_are_shared(tmp_path):
    """Breaks if a pass transforms again what another has: of the image and of the cotangent there is one, of the weights one for each side that they stand on."""
    x, w, options = LAYER
    assert templates(compiled(tmp_path, model(x, w, **options), 24)) == ALL


def test_weights_that_change_are_transformed_in_each_run(tmp_path):
    """Breaks if spectra of the first run's weights stay."""
    x, w, options = LAYER
    step, random = compiled(tmp_path, model(x, w, **options), 16), numpy.random.default_rng(3)
    for _ in range(2):
        values, weights = (random.standard_normal(shape).astype("float32") for shape in (x, w))
        g, wanted = right(values, weights, lambda shape: random.standard_normal(shape).astype("float32"), **options)
        for ours, of in zip(step.run({"x": values, "w": weights, "cotangent.y": g}), wanted):
            assert numpy.abs(ours - of).max() <= 4e-6 * numpy.abs(of).max()


def test_any_number_of_images(tmp_path):
    """Breaks if the images' number is taken for one, where only the run knows it, or if spectra of a batch are kept until the way back."""
    x, w, options = LAYER
    step, random = compiled(tmp_path, model(x, w, batch=["n", *x[1:]], **options), 24), numpy.random.default_rng(5)
    assert templates(step) == sorted([*ALL, "fourier input"])
    for images in (1, 3):
        values, weights = (random.standard_normal(shape).astype("float32") for shape in ((images, *x[1:]), w))
        g, wanted = right(values, weights, lambda shape: random.standard_normal(shape).astype("float32"), **options)
        for ours, of in zip(step.run({"x": values, "w": weights, "cotangent.y": g}), wanted):
            assert numpy.abs(ours - of).max() <= 4e-6 * numpy.abs(of).max()


def test_threads_give_the_same_bits(tmp_path):
    """Breaks if sums over tiles depend on who makes them."""
    x, w, options = LAYER
    random, data = numpy.random.default_rng(6), model(x, w, **options)
    inputs = {name: random.standard_normal(shape).astype("float32") for name, shape in (("x", x), ("w", w), ("cotangent.y", (4, 16, 30, 30)))}
    one, two = (compiled(tmp_path, data, 16, threads=threads).run(inputs) for threads in (1, 2))
    assert all((a == b).all() for a, b in zip(one, two))


@pytest.mark.parametrize("x,w,options,takes", [
    ((8, 32, 40, 40), (32, 32, 11, 11), {"pads": [5] * 4}, True),
    ((1, 64, 8, 8), (64, 64, 3, 3), {"pads": [1] * 4}, False),
    ((2, 32, 24, 24), (32, 1, 7, 7), {"pads": [3] * 4, "group": 32}, False),
])
def test_large_windows_are_transformed(x, w, options, takes):
    """Breaks if the estimate leaves large windows of many channels to the plain passes, or takes what has nothing to gain."""
    assert bool(templates(tensmith.grad(model(x, w, **options), ["x", "w"], "y"))) == takes


@pytest.mark.parametrize("precision", ["exact", "bf16"])
def test_other_policies_keep_the_plain_passes(tmp_path, precision):
    """Breaks if a policy that keeps the sums of the model, or rounds them, gets transforms."""
    x, w, options = LAYER
    assert not templates(compiled(tmp_path, model(x, w, **options), 16, precision=precision))
