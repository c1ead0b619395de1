"""Products of 8-bit codes: bit for bit where the result is integers, and against exact sums where it is floats.

Shapes are drawn at random, odd depths and channels, groups, strides and padding included.
"""

import os
import pathlib
import platform
import subprocess
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "python"

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="the Python package is not built")

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

sys.path.insert(0, str(PACKAGE))
TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


def codes(random, shape, name):
    info = numpy.iinfo(name)
    return random.integers(info.min, info.max + 1, shape).astype(name)


def compiled(tmp_path, nodes, inputs, outputs, initializers, precision="fast"):
    """The model, and the schedules of its kernels."""
    import tensmith

    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [numpy_helper.from_array(array, name) for name, array in initializers.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    ours = tensmith.compile(str(tmp_path / "m.onnx"), precision=precision)
    return ours, model, [kernel["schedule"] for kernel in ours.describe()["kernels"]]


def convolution_of(random):
    """Attributes, and the shapes of x and w."""
    group = int(random.choice([1, 1, 2]))
    channels, outputs = group * int(random.integers(1, 20)), group * int(random.integers(2, 20))
    window = [int(size) for size in random.choice([1, 2, 3, 5], 2)]
    attributes = {"group": group, "strides": [int(s) for s in random.integers(1, 3, 2)],
                  "pads": [int(p) for p in random.integers(0, 3, 4)],
                  "dilations": [int(d) for d in random.integers(1, 3, 2)]}
    size = [int(s) for s in random.integers(9, 14, 2)]
    return attributes, [int(random.integers(1, 3)), channels, *size], [outputs, channels // group, *window]


def multiplies_bytes():
    """Whether the machine has an instruction for products of bytes by four."""
    return "avx512_vnni" in pathlib.Path("/proc/cpuinfo").read_text() if platform.machine() == "x86_64" else False


@pytest.mark.parametrize("seed", range(10))
def test_matmul_integer(seed, tmp_path):
    """Breaks if a depth that is no whole step reads or counts more than its own elements, or a sign is lost."""
    random = numpy.random.default_rng(seed)
    rows, depth, columns = (int(size) for size in random.integers(1, 40, 3))
    types = random.choice(list(TYPES), 2)
    a, b = codes(random, (2, rows, depth), types[0]), codes(random, (depth, columns), types[1])
    za, zb = codes(random, (), types[0]), codes(random, (), types[1])
    ours, _, _ = compiled(tmp_path, [helper.make_node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])],
                          [helper.make_tensor_value_info("a", TYPES[types[0]], a.shape)],
                          [helper.make_tensor_value_info("y", TensorProto.INT32, None)], {"b": b, "za": za, "zb": zb})
    wanted = (a.astype(int) - int(za)) @ (b.astype(int) - int(zb))
    numpy.testing.assert_array_equal(ours.run(a)[0], wanted)


def test_matmul_integer_of_the_largest_codes(tmp_path):
    """Breaks if two products are added up in fewer than 32 bits."""
    a, b = numpy.full((7, 300), 255, "uint8"), numpy.full((300, 33), 255, "uint8")
    ours, _, schedules = compiled(tmp_path, [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
                                  [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.INT32, None)], {"b": b})
    if platform.machine() == "x86_64":
        assert any(f"products by {4 if multiplies_bytes() else 2}" in schedule for schedule in schedules)
    numpy.testing.assert_array_equal(ours.run(a)[0], numpy.full((7, 33), 255 * 255 * 300))


@pytest.mark.parametrize("zeros", ["none", "left", "both", "rows"])
def test_matmul_integer_of_bytes(zeros, tmp_path):
    """Breaks if unsigned codes by signed ones are multiplied as pairs, or a zero point's part of the sums isn't taken off."""
    random = numpy.random.default_rng(len(zeros))
    a, b = codes(random, (2, 9, 70), "uint8"), codes(random, (70, 33), "int8")
    za = codes(random, (9,) if zeros == "rows" else (), "uint8") if zeros != "none" else numpy.uint8(0)
    given = {"none": [], "left": ["za"], "both": ["za", "zb"], "rows": ["za"]}[zeros]
    initializers = {"b": b} | ({"zb": numpy.int8(0)} if zeros == "both" else {})
    inputs = [helper.make_tensor_value_info("a", TensorProto.UINT8, ["n", *a.shape[1:]])]
    if "za" in given:
        inputs.append(helper.make_tensor_value_info("za", TensorProto.UINT8, za.shape))
    ours, _, schedules = compiled(tmp_path, [helper.make_node("MatMulInteger", ["a", "b", *given], ["y"])], inputs,
                                  [helper.make_tensor_value_info("y", TensorProto.INT32, None)], initializers)
    if multiplies_bytes() and zeros != "rows":  # each row's is taken off before
        assert any("products by 4" in schedule for schedule in schedules)
    for left in (a, numpy.full_like(a, 255)):
        y = ours.run(left, *([za] if "za" in given else []))[0]
        numpy.testing.assert_array_equal(y, (left.astype(int) - za.astype(int).reshape(-1, 1)) @ b.astype(int))


@pytest.mark.parametrize("types", [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")], ids=str)
@pytest.mark.parametrize("operator", ["MatMulInteger", "QLinearMatMul"])
def test_an_open_depth_is_a_kernel(operator, types, tmp_path):
    """Breaks if a product over as many elements as the run tells, as of probabilities and values, is evaluated by reference."""
    scale, zero = numpy.float32(0.05), {name: numpy.array(3, name) for name in TYPES}
    constants = {"s": scale, "za": zero[types[0]], "zb": zero[types[1]]}
    operands = ["a", "b", "za", "zb"] if operator == "MatMulInteger" else ["a", "s", "za", "b", "s", "zb", "s", "za"]
    result = TensorProto.INT32 if operator == "MatMulInteger" else TYPES[types[0]]
    ours, model, schedules = compiled(tmp_path, [helper.make_node(operator, operands, ["y"])],
                                      [helper.make_tensor_value_info("a", TYPES[types[0]], ["h", "n", "k"]),
                                       helper.make_tensor_value_info("b", TYPES[types[1]], ["h", "k", 40])],
                                      [helper.make_tensor_value_info("y", result, None)], constants)
    assert any(schedule.startswith("contraction") for schedule in schedules)
    labels = {step["label"] for function in ours.describe()["functions"] for step in function["instructions"] if step["opcode"] == "routine"}
    assert labels <= {"shape"}
    random = numpy.random.default_rng(7)
    for h, n, k in ((1, 1, 1), (2, 5, 7), (1, 9, 64), (2, 3, 0), (0, 2, 3), (1, 6, 301)):
        a, b = codes(random, (h, n, k), types[0]), codes(random, (h, k, 40), types[1])
        sums = (a.astype(int) - 3) @ (b.astype(int) - 3)
        y = ours.run(a, b)[0]
        if operator == "MatMulInteger":
            numpy.testing.assert_array_equal(y, sums)
        else:
            info = numpy.iinfo(types[0])
            wanted = numpy.clip(numpy.rint(sums * float(scale)) + 3, info.min, info.max)
            assert numpy.abs(y.astype(int) - wanted).max(initial=0) <= 1  # halves of a float


@pytest.mark.parametrize("seed", range(10))
def test_conv_integer(seed, tmp_path):
    """Breaks if padding is not the zero point, or channels that are no whole step run into the next pixel."""
    random = numpy.random.default_rng(50 + seed)
    attributes, xs, ws = convolution_of(random)
    x, w = codes(random, xs, "uint8"), codes(random, ws, "int8")
    zx = codes(random, (), "uint8")
    ours, model, _ = compiled(tmp_path, [helper.make_node("ConvInteger", ["x", "w", "zx"], ["y"], **attributes)],
                              [helper.make_tensor_value_info("x", TensorProto.UINT8, xs)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, None)], {"w": w, "zx": zx})
    as_floats = helper.make_model(helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)], "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, xs), helper.make_tensor_value_info("w", TensorProto.DOUBLE, ws)],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)]), opset_imports=[helper.make_opsetid("", 19)])
    wanted = ReferenceEvaluator(as_floats).run(None, {"x": x.astype(float) - int(zx), "w": w.astype(float)})[0]
    numpy.testing.assert_array_equal(ours.run(x)[0], wanted.astype(int))


def dequantized(array, scale, zero, axis=None):
    if axis is not None:
        shape = [1] * array.ndim
        shape[axis] = -1
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return (array.astype(float) - zero.astype(float)) * scale.astype(float)


@pytest.mark.parametrize("precision", ["fast", "exact"])
@pytest.mark.parametrize("seed", range(8))
def test_convolution_between_codes(seed, precision, tmp_path):
    """Breaks if scales of channels are mixed up, codes are offset twice, or the residual is read as other numbers."""
    random = numpy.random.default_rng(200 + seed)
    attributes, xs, ws = convolution_of(random)
    unsigned = seed % 2 == 0
    kind = "uint8" if unsigned else "int8"
    outputs = ws[0]
    scales = {"sx": numpy.float32(0.02), "sw": random.uniform(0.001, 0.01, outputs).astype("float32"),
              "sy": numpy.float32(0.05)}
    zeros = {"zx": codes(random, (), kind), "zw": numpy.zeros(outputs, "int8"), "zy": codes(random, (), kind)}
    w = codes(random, ws, "int8")
    bias = random.standard_normal(outputs).astype("float32")
    nodes = [helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["qx"]),
             helper.make_node("DequantizeLinear", ["qx", "sx", "zx"], ["dx"]),
             helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["dw"], axis=0),
             helper.make_node("Conv", ["dx", "dw", "bias"], ["c"], **attributes),
             helper.make_node("QuantizeLinear", ["c", "sy", "zy"], ["qy"]),
             helper.make_node("DequantizeLinear", ["qy", "sy", "zy"], ["y"])]
    ours, model, schedules = compiled(
        tmp_path, nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, xs)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("c", "y")],
        {"w": w, "bias": bias, **scales, **zeros}, precision)
    x = random.standard_normal(xs).astype("float32")
    info = numpy.iinfo(kind)
    qx = numpy.clip(numpy.round(x / scales["sx"]) + int(zeros["zx"]), info.min, info.max)
    as_floats = helper.make_model(helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)], "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, xs), helper.make_tensor_value_info("w", TensorProto.DOUBLE, ws)],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)]), opset_imports=[helper.make_opsetid("", 19)])
    exact = ReferenceEvaluator(as_floats).run(
        None, {"x": dequantized(qx, scales["sx"], zeros["zx"]), "w": dequantized(w, scales["sw"], zeros["zw"], 0)})[0]
    exact = exact + bias.astype(float).reshape(1, -1, 1, 1)
    c, y = ours.run(x)
    # A code of x that lies between two may be either by multiplication with the reciprocal.
    numpy.testing.assert_allclose(c, exact, atol=1e-4 if precision == "exact" else 0.02, rtol=1e-4)
    steps = numpy.clip(numpy.round(c / scales["sy"]) + int(zeros["zy"]), info.min, info.max) - int(zeros["zy"])
    numpy.testing.assert_allclose(y, steps * scales["sy"], atol=1.01 * scales["sy"] if precision == "fast" else 1e-5)
    assert numpy.mean(numpy.abs(y - steps * scales["sy"]) > 1e-5) < 0.01


@pytest.mark.parametrize("seed", range(6))
def test_product_of_two_codes(seed, tmp_path):
    """Breaks if a right operand that only the run knows is laid out wrongly, or scales are taken from the wrong side."""
    random = numpy.random.default_rng(300 + seed)
    rows, depth, columns = (int(size) for size in random.integers(2, 40, 3))
    scales = {"sa": numpy.float32(0.03), "sb": numpy.float32(0.01)}
    zeros = {"za": codes(random, (), "uint8"), "zb": codes(random, (), "uint8")}
    nodes = []
    for name in "ab":
        nodes += [helper.make_node("QuantizeLinear", [name, "s" + name, "z" + name], ["q" + name]),
                  helper.make_node("DequantizeLinear", ["q" + name, "s" + name, "z" + name], ["d" + name])]
    nodes.append(helper.make_node("MatMul", ["da", "db"], ["y"]))
    shapes = {"a": [3, rows, depth], "b": [3, depth, columns]}
    ours, _, schedules = compiled(
        tmp_path, nodes, [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], {**scales, **zeros}, "exact")
    values = {name: random.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    numbers = {name: dequantized(numpy.clip(numpy.round(value / scales["s" + name]) + int(zeros["z" + name]), 0, 255),
                                 scales["s" + name], zeros["z" + name]) for name, value in values.items()}
    numpy.testing.assert_allclose(ours.run(values["a"], values["b"])[0], numbers["a"] @ numbers["b"], atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("target", ["icelake-server", "alderlake"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_bytes_where_the_machine_multiplies_them(kind, target, tmp_path):
    """Breaks if what the zero point adds to a sum of bytes stays there, at the image's border above all.

    The machine need not be this one: each rewrite is held against the reference evaluator, and the code is looked at.
    """
    random = numpy.random.default_rng(3)
    constants = {"sx": numpy.float32(0.02), "zx": numpy.array(100 if kind == "uint8" else -7, kind),
                 "w": codes(random, (6, 5, 3, 3), "int8"), "sw": random.uniform(0.001, 0.01, 6).astype("float32"),
                 "zw": numpy.zeros(6, "int8"), "b": random.standard_normal(6).astype("float32"),
                 "sy": numpy.float32(0.05), "zy": numpy.array(3, kind),
                 "v": codes(random, (6, 9), "int8"), "sv": numpy.float32(0.01)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["qx"]),
             helper.make_node("DequantizeLinear", ["qx", "sx", "zx"], ["dx"]),
             helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["dw"], axis=0),
             helper.make_node("Conv", ["dx", "dw", "b"], ["c"], pads=[1, 2, 1, 0]),
             helper.make_node("QuantizeLinear", ["c", "sy", "zy"], ["qy"]),
             helper.make_node("DequantizeLinear", ["qy", "sy", "zy"], ["y"]),
             helper.make_node("Transpose", ["y"], ["t"], perm=[0, 2, 3, 1]),
             helper.make_node("DequantizeLinear", ["v", "sv"], ["dv"]),
             helper.make_node("MatMul", ["t", "dv"], ["m"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 5, 9, 8])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "m")],
                              [numpy_helper.from_array(numpy.asarray(array), name) for name, array in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), tmp_path / "m.onnx")
    done = subprocess.run([str(PACKAGE.parent / "bin/tensmith"), "compile", "m.onnx", "-o", "m.tsm", "--target",
                           target, "--verify-each-pass", "--dump-ir", "ir"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    kernels = [path.read_text() for path in (tmp_path / "ir").glob("kernel-*.mlir")]
    assert sum("vpdpbusd" in text for text in kernels) == 2


@pytest.mark.parametrize("seed", range(4))
def test_minimal_filtering_of_codes_is_exact(seed, tmp_path):
    """Breaks if frequencies of codes don't fit their type, tiles overlap, the sums stay four times too large, or taps that lie apart
    (of odd seeds) read another phase's pixels."""
    random = numpy.random.default_rng(400 + seed)
    channels, outputs = (int(size) for size in random.integers(60, 80, 2))
    xs = [int(random.integers(1, 3)), channels, *(int(size) for size in random.integers(25, 40, 2))]
    pads = [int(pad) for pad in random.integers(0, 2, 4)]
    apart = 1 + seed % 2
    one, zero = numpy.float32(1), numpy.array([0, 255, 128, 7][seed], "uint8")
    # The largest codes of both signs in the first two, so that sums are as large as they can be.
    w = codes(random, (outputs, channels, 3, 3), "int8")
    w[0], w[1] = -128, 127
    x = random.integers(0, 256, xs).astype("float32")
    x[0, :, :9] = 255
    nodes = [helper.make_node("QuantizeLinear", ["x", "one", "zx"], ["qx"]),
             helper.make_node("DequantizeLinear", ["qx", "one", "zx"], ["dx"]),
             helper.make_node("DequantizeLinear", ["w", "one"], ["dw"]),
             helper.make_node("Conv", ["dx", "dw"], ["y"], pads=pads, dilations=[apart] * 2)]
    ours, _, schedules = compiled(tmp_path, nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, xs)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                  {"one": one, "zx": zero, "w": w}, "exact")
    if not any("products by 4" in schedule for schedule in schedules):
        assert {"winograd input", "winograd output"} <= set(schedules)
    # Codes saturate at 255: the numbers are the input's as far as the zero point leaves room.
    numbers = numpy.minimum(x + int(zero), 255).astype(int) - int(zero)
    padded = numpy.pad(numbers, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, (2 * apart + 1,) * 2, axis=(2, 3))[..., ::apart, ::apart]
    wanted = numpy.einsum("nchwij,mcij->nmhw", windows, w.astype(int), optimize=True)
    numpy.testing.assert_array_equal(ours.run(x)[0], wanted.astype("float32"))


@pytest.mark.parametrize("channels", [115, 116])
def test_minimal_filtering_at_the_largest_sums(channels, tmp_path):
    """Breaks if a sum that leaves no bit to spare wraps around, or the bound on it counts a bit too many."""
    random = numpy.random.default_rng(channels)
    w = random.choice([-127, 127], (64, channels, 3, 3)).astype("int8")
    w[0], w[1] = 127, -127
    x = random.choice([0, 255], (1, channels, 32, 30)).astype("uint8")
    x[:, :, :8] = 255
    nodes = [helper.make_node("ConvInteger", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    ours, _, schedules = compiled(tmp_path, nodes, [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.INT32, None)], {"w": w}, "exact")
    if not any("products by 4" in schedule for schedule in schedules):
        assert {"winograd input", "winograd output"} <= set(schedules)
    padded = numpy.pad(x.astype(int), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    wanted = numpy.einsum("nchwij,mcij->nmhw", windows, w.astype(int), optimize=True)
    numpy.testing.assert_array_equal(ours.run(x)[0], wanted)


def test_largest_codes_are_the_largest_numbers(tmp_path):
    """Breaks if padding counts as a code, a window is read at another place, or the scale is lost."""
    random = numpy.random.default_rng(31)
    constants = {"s": numpy.float32(0.5), "z": numpy.uint8(130), "t": numpy.float32(37.3), "u": numpy.uint8(120),
                 "w": codes(random, (19, 5, 3, 3), "int8"), "sw": numpy.float32(0.25)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
             helper.make_node("DequantizeLinear", ["w", "sw"], ["dw"]),
             helper.make_node("Conv", ["d", "dw"], ["c"]),
             helper.make_node("QuantizeLinear", ["c", "t", "u"], ["p"]),
             helper.make_node("DequantizeLinear", ["p", "t", "u"], ["n"])]
    pool = helper.make_node("MaxPool", ["n"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = random.normal(0, 30, (2, 5, 12, 13)).astype("float32")
    port = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    tensors = {name: numpy.asarray(array) for name, array in constants.items()}
    (tmp_path / "numbers").mkdir()
    plain, _, _ = compiled(tmp_path / "numbers", nodes, port, [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)],
                           tensors)
    ours, _, _ = compiled(tmp_path, [*nodes, pool], port, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], tensors)
    numbers = numpy.pad(plain.run(x)[0], [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-numpy.inf)
    assert numpy.isfinite(numbers).any() and (numbers[:, :, 1:-1, 1:-1] < 0).any()
    wanted = numpy.lib.stride_tricks.sliding_window_view(numbers, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max((4, 5))
    numpy.testing.assert_array_equal(ours.run(x)[0], wanted)


def test_nan_is_coded_as_zero(tmp_path):
    """Breaks if it depends on who reads the codes what the code of a NaN is."""
    constants = {"s": numpy.float32(0.5), "z": numpy.uint8(7), "w": numpy.eye(4, dtype="int8"), "sw": numpy.float32(1)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
             helper.make_node("DequantizeLinear", ["w", "sw"], ["dw"]),
             helper.make_node("MatMul", ["d", "dw"], ["product"]),
             helper.make_node("QuantizeLinear", ["y", "s", "z"], ["p"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy"]
    outputs = [helper.make_tensor_value_info("product", TensorProto.FLOAT, None),
               helper.make_tensor_value_info("p", TensorProto.UINT8, None)]
    ours, _, _ = compiled(tmp_path, nodes, ports, outputs, {name: numpy.asarray(array) for name, array in constants.items()})
    x = numpy.array([[1, numpy.nan, -2, 3], [numpy.nan, 0, 1, 2]], "float32")
    product, codes_of_y = ours.run(x, x)
    wanted = numpy.nan_to_num(x, nan=0)
    numpy.testing.assert_array_equal(product, wanted)
    numpy.testing.assert_array_equal(codes_of_y, wanted / 0.5 + 7)


def test_image_of_few_channels_is_read_in_place(tmp_path):
    """Breaks if rows of three channels, which are no whole steps of pairs, are copied pixel by pixel, or the channel added counts.
    A matrix unit takes none in place that make no whole tiles."""
    random = numpy.random.default_rng(9)
    w = codes(random, (8, 3, 7, 7), "int8")
    nodes = [helper.make_node("QuantizeLinear", ["x", "one", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "one", "z"], ["d"]),
             helper.make_node("DequantizeLinear", ["w", "one"], ["dw"]),
             helper.make_node("Conv", ["d", "dw"], ["y"], strides=[2, 2], pads=[3, 3, 3, 3])]
    ours, _, schedules = compiled(tmp_path, nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 21, 18])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                  {"one": numpy.float32(1), "z": numpy.uint8(100), "w": w})
    if platform.machine() == "x86_64":
        assert any("rows in place, products by" in schedule or "matrix unit, rows gathered" in schedule for schedule in schedules)
    x = random.integers(-100, 156, (1, 3, 21, 18)).astype("float32")
    padded = numpy.pad(x, [(0, 0), (0, 0), (3, 3), (3, 3)]).astype(int)
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, (7, 7), axis=(2, 3))[:, :, ::2, ::2]
    wanted = numpy.einsum("nchwij,mcij->nmhw", windows, w.astype(int), optimize=True)
    numpy.testing.assert_array_equal(ours.run(x)[0], wanted.astype("float32"))
