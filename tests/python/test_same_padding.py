"""Windows whose padding follows from sizes that only the run tells: auto_pad of convolutions and pools, output_shape.

Each model is compiled once with open sizes and run at sizes from 1 on, against NumPy's sums over explicit windows, with
the padding that the standard's formulas give for that size.
"""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

tensmith = pytest.importorskip("tensmith")


def one_node(op, inputs, outputs, opset, constants=(), **attributes):
    ports = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    names = [*[name for name, *_ in inputs], *dict(constants)]
    node = helper.make_node(op, names, [name for name, _ in outputs], **attributes)
    graph = helper.make_graph([node], "g", ports, results, [onnx.numpy_helper.from_array(v, k) for k, v in dict(constants).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


def same_pads(sizes, window, lower):
    """(low, high) for each dimension, as the standard has them."""
    kernel, strides, dilations = window
    pads = []
    for n, k, s, d in zip(sizes, kernel, strides, dilations):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        low = (total + lower) // 2
        pads.append((low, total - low))
    return pads


def windows(x, window, lower, filling):
    """Each position's elements, [batch, channels, positions..., taps...], and the same of where they are in x (-1: padding)."""
    kernel, strides, dilations = window
    sizes = x.shape[2:]
    pads = [(0, 0), (0, 0), *same_pads(sizes, window, lower)]
    padded = np.pad(x, pads, constant_values=filling)
    places = np.pad(np.arange(np.prod(sizes)).reshape(1, 1, *sizes), pads, constant_values=-1)
    out = [-(-n // s) for n, s in zip(sizes, strides)]
    taken, where = np.empty((*x.shape[:2], *out, *kernel), x.dtype), np.empty((1, 1, *out, *kernel), np.int64)
    for position in itertools.product(*map(range, out)):
        for tap in itertools.product(*map(range, kernel)):
            at = tuple(p * s + t * d for p, s, t, d in zip(position, strides, tap, dilations))
            taken[(slice(None), slice(None), *position, *tap)] = padded[(slice(None), slice(None), *at)]
            where[(0, 0, *position, *tap)] = places[(0, 0, *at)]
    return taken, where


WINDOWS = [
    ((3,), (2,), (1,)), ((2,), (3,), (1,)), ((4,), (2,), (2,)), ((1,), (2,), (1,)), ((5,), (7,), (1,)),
    ((3, 3), (2, 2), (1, 1)), ((2, 5), (2, 3), (1, 1)), ((3, 2), (1, 2), (2, 1)), ((3, 3, 2), (2, 2, 2), (1, 1, 1)),
]  # fmt: skip
SIZES = {1: [(n,) for n in range(1, 15)], 2: [(1, 1), (2, 5), (5, 4), (8, 9), (7, 3), (6, 6)], 3: [(1, 2, 3), (5, 4, 3), (4, 4, 5)]}


def attributes(window, lower):
    kernel, strides, dilations = window
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "auto_pad": "SAME_LOWER" if lower else "SAME_UPPER"}


def drawn(window, channels=2, seed=0):
    rank = len(window[0])
    for number, sizes in enumerate(SIZES[rank]):
        yield np.random.default_rng(seed + number).standard_normal((2, channels, *sizes)).astype(np.float32)


def open_shape(window, channels=2):
    return [2, channels, *"HWD"[: len(window[0])]]


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_convolution(window, lower, reference):
    rank = len(window[0])
    for group in (1, 2):
        w = np.random.default_rng(9).standard_normal((4, 2 // group, *window[0])).astype(np.float32)
        model = one_node("Conv", [("x", T.FLOAT, open_shape(window))], [("y", T.FLOAT)], 17, {"w": w}, group=group, **attributes(window, lower))
        compiled = tensmith.compile(model, reference=reference)
        for x in drawn(window):
            taken, _ = windows(x, window, lower, 0)
            taps = list(range(2 + rank, 2 + 2 * rank))
            want = np.concatenate([np.moveaxis(np.tensordot(
                taken[:, g * (2 // group): (g + 1) * (2 // group)], w[g * (4 // group): (g + 1) * (4 // group)],
                ([1, *taps], [1, *range(2, 2 + rank)])), -1, 1) for g in range(group)], 1)  # fmt: skip
            np.testing.assert_allclose(compiled(x), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_max_pool(window, lower):
    """With indices, which count along the last dimension first or, by storage_order, along the first."""
    rank = len(window[0])
    taps = tuple(range(2 + rank, 2 + 2 * rank))
    for order in (0, 1):
        model = one_node("MaxPool", [("x", T.FLOAT, open_shape(window))], [("y", T.FLOAT), ("i", T.INT64)], 12, storage_order=order, **attributes(window, lower))
        compiled = tensmith.compile(model)
        for x in drawn(window):
            taken, where = windows(x, window, lower, -np.inf)
            if (where.max(taps) < 0).any():
                continue  # a dilated window that reads padding alone has no index
            got, indices = compiled.run(x)
            np.testing.assert_array_equal(got, taken.max(taps))
            flat = taken.reshape(*taken.shape[: 2 + rank], -1).argmax(-1)
            best = np.take_along_axis(np.broadcast_to(where, taken.shape).reshape(*flat.shape, -1), flat[..., None], -1)[..., 0]
            sizes = x.shape[2:]
            if order:
                best = np.ravel_multi_index(np.unravel_index(best, sizes), sizes, order="F")
            image = np.arange(4).reshape(2, 2, *[1] * rank) * np.prod(sizes)
            np.testing.assert_array_equal(indices, best + image)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_max_pool_of_integers(kind):
    """The least number is no index of the padding."""
    window = ((3, 3), (2, 2), (1, 1))
    model = one_node("MaxPool", [("x", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), ["N", 1, "H", "W"])], [("y", T.INT8), ("i", T.INT64)], 12, **attributes(window, 0))
    model = model if kind == np.int8 else one_node("MaxPool", [("x", T.UINT8, ["N", 1, "H", "W"])], [("y", T.UINT8), ("i", T.INT64)], 12, **attributes(window, 0))
    compiled = tensmith.compile(model)
    for sizes in SIZES[2]:
        x = np.full((1, 1, *sizes), np.iinfo(kind).min, kind)
        got, indices = compiled.run(x)
        assert (got == np.iinfo(kind).min).all()
        _, where = windows(x, window, 0, 0)
        first = np.where(where < 0, np.prod(sizes), where).min((4, 5))
        np.testing.assert_array_equal(indices, first)


@pytest.mark.parametrize("counts", [0, 1])
@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("window", [w for w in WINDOWS if max(w[2]) == 1], ids=str)
def test_average_pool(window, lower, counts):
    rank = len(window[0])
    taps = tuple(range(2 + rank, 2 + 2 * rank))
    given = attributes(window, lower)
    del given["dilations"]
    compiled = tensmith.compile(one_node("AveragePool", [("x", T.FLOAT, open_shape(window))], [("y", T.FLOAT)], 11, count_include_pad=counts, **given))
    for x in drawn(window):
        taken, where = windows(x, window, lower, 0)
        total = taken.astype(np.float64).sum(taps)
        count = np.prod(window[0]) if counts else (where >= 0).sum(taps)
        np.testing.assert_allclose(compiled(x), total / count, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("window", WINDOWS[:6], ids=str)
def test_lp_pool(window):
    rank = len(window[0])
    compiled = tensmith.compile(one_node("LpPool", [("x", T.FLOAT, open_shape(window))], [("y", T.FLOAT)], 18, p=3, **attributes(window, 0)))
    for x in drawn(window):
        taken, _ = windows(x, window, 0, 0)
        want = (np.abs(taken.astype(np.float64)) ** 3).sum(tuple(range(2 + rank, 2 + 2 * rank))) ** (1 / 3)
        np.testing.assert_allclose(compiled(x), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["ConvInteger", "QLinearConv"])
def test_integer_convolutions(op):
    """The padding is what the zero point stands for."""
    window = ((3, 3), (2, 2), (1, 1))
    rng = np.random.default_rng(3)
    w = rng.integers(-9, 9, (3, 2, 3, 3)).astype(np.int8)
    zero, scale = np.uint8(7), np.float32(0.5)
    if op == "ConvInteger":
        constants = {"w": w, "zero": np.array(zero)}
        model = one_node(op, [("x", T.UINT8, open_shape(window))], [("y", T.INT32)], 10, constants, **attributes(window, 0))
    else:
        constants = {"xs": np.array(scale), "xz": np.array(zero), "w": w, "ws": np.array(np.float32(0.25)), "wz": np.array(np.int8(0)),
                     "ys": np.array(np.float32(2)), "yz": np.array(np.uint8(100))}  # fmt: skip
        model = one_node(op, [("x", T.UINT8, open_shape(window))], [("y", T.UINT8)], 10, constants, **attributes(window, 0))
    compiled = tensmith.compile(model)
    for sizes in SIZES[2]:
        x = rng.integers(0, 20, (2, 2, *sizes)).astype(np.uint8)
        taken, _ = windows(x.astype(np.int64) - 7, window, 0, 0)
        want = np.moveaxis(np.tensordot(taken, w.astype(np.int64), ([1, 4, 5], [1, 2, 3])), -1, 1)
        if op == "QLinearConv":
            want = np.clip(np.rint(want * 0.5 * 0.25 / 2) + 100, 0, 255)
        np.testing.assert_array_equal(compiled(x), want)


def transposed(x, w, strides, bias, pick):
    """All sums of a transposed convolution of one dimension, and of those what `pick` takes."""
    (batch, _, n), k = x.shape, w.shape[2]
    sums = np.zeros((batch, w.shape[1], strides * (n - 1) + k))
    for i in range(n):
        sums[:, :, i * strides : i * strides + k] += np.einsum("bc,cmk->bmk", x[:, :, i], w)
    return pick(sums) + bias[:, None]


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_transposed_convolution_of_a_given_size(auto_pad):
    """Less than all sums are cut off on both sides, more are zeros behind."""
    rng = np.random.default_rng(5)
    w, bias = rng.standard_normal((2, 3, 4)).astype(np.float32), rng.standard_normal(3).astype(np.float32)
    for size in (1, 6, 9, 20):
        model = one_node("ConvTranspose", [("x", T.FLOAT, ["N", 2, "L"])], [("y", T.FLOAT)], 11, {"w": w, "b": bias}, strides=[2], output_shape=[size], auto_pad=auto_pad)
        compiled = tensmith.compile(model)

        def pick(sums):
            over = sums.shape[-1] - size
            total = max(over, 0)
            low = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            kept = sums[:, :, low : low + size]
            return np.pad(kept, ((0, 0), (0, 0), (0, size - kept.shape[-1])))

        for n in (1, 2, 3, 5, 8):
            x = rng.standard_normal((2, 2, n)).astype(np.float32)
            np.testing.assert_allclose(compiled(x), transposed(x, w, 2, bias, pick), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("strides", [1, 2, 5])
def test_transposed_convolution_of_an_open_window(auto_pad, strides):
    """The result is as large as the image times the strides, whether the weights' shape is known or not."""
    rng = np.random.default_rng(7)
    bias = rng.standard_normal(3).astype(np.float32)
    result, settings = [("y", T.FLOAT)], dict(strides=[strides], auto_pad=auto_pad)
    opened = tensmith.compile(one_node("ConvTranspose", [("x", T.FLOAT, ["N", 2, "L"]), ("w", T.FLOAT, [2, 3, "K"])], result, 11, {"b": bias}, **settings))
    for k, n in itertools.product((1, 2, 3, 4), (1, 2, 5)):
        x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 2, n), (2, 3, k)))

        def pick(sums):
            over = sums.shape[-1] - n * strides
            low = (max(over, 0) + (auto_pad == "SAME_LOWER")) // 2
            kept = sums[:, :, low : low + n * strides]
            return np.pad(kept, ((0, 0), (0, 0), (0, n * strides - kept.shape[-1])))

        closed = tensmith.compile(one_node("ConvTranspose", [("x", T.FLOAT, [2, 2, n])], result, 11, {"w": w, "b": bias}, **settings))
        want = transposed(x, w, strides, bias, pick)
        np.testing.assert_allclose(opened(x, w), want, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(closed(x), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("open_image", [False, True])
def test_convolution_of_an_open_window(lower, open_image):
    """By weights of which only the run tells the shape."""
    for strides, dilations in (((1, 1), (1, 1)), ((2, 3), (1, 2))):
        image = ["N", 2, "H", "W"] if open_image else [2, 2, 7, 3]
        settings = dict(strides=strides, dilations=dilations, auto_pad="SAME_LOWER" if lower else "SAME_UPPER")
        compiled = tensmith.compile(one_node("Conv", [("x", T.FLOAT, image), ("w", T.FLOAT, [4, 2, "K", "L"])], [("y", T.FLOAT)], 17, {}, **settings))
        for kernel in ((1, 1), (3, 3), (2, 5), (4, 1)):
            window = (kernel, strides, dilations)
            w = np.random.default_rng(1).standard_normal((4, 2, *kernel)).astype(np.float32)
            for x in drawn(window):
                if not open_image and x.shape[2:] != (7, 3):
                    continue
                taken, _ = windows(x, window, lower, 0)
                want = np.moveaxis(np.tensordot(taken, w, ([1, 4, 5], [1, 2, 3])), -1, 1)
                np.testing.assert_allclose(compiled(x, w), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", ["Conv", "MaxPool"])
def test_gradient(op):
    """Through padding that the run tells, by differences."""
    window = ((3,), (2,), (1,))
    w = np.random.default_rng(2).standard_normal((2, 2, 3)).astype(np.float32)
    node = helper.make_node(op, ["x", "w"] if op == "Conv" else ["x"], ["y"], **attributes(window, 0))
    weigh = [helper.make_node("Mul", ["y", "y"], ["q"]), helper.make_node("ReduceSum", ["q"], ["s"], keepdims=0)]
    graph = helper.make_graph([node, *weigh], "g", [helper.make_tensor_value_info("x", T.FLOAT, [1, 2, "N"])],
                              [helper.make_tensor_value_info("s", T.FLOAT, [])], [onnx.numpy_helper.from_array(w, "w")])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    compiled = tensmith.grad(model, wrt=["x"], of="s")
    for n in (1, 2, 5, 6):
        x = np.random.default_rng(n).standard_normal((1, 2, n)).astype(np.float32)
        _, got = compiled(x)
        for index in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[index] = 1e-2
            difference = (compiled(x + step)[0] - compiled(x - step)[0]) / 2e-2
            assert abs(difference - got[index]) < 2e-2 * max(1, abs(got[index]))
