"""What compiles with known sizes compiles with open ones: layers behind layers that make quotients, products and sums of sizes.

Each model is run at several sizes against ONNX Runtime (or, where that rounds sizes otherwise than the standard, ONNX's reference
evaluator), and its plan must do nothing but shapes and positions by reference.
"""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tensmith

onnxruntime = pytest.importorskip("onnxruntime")

node = helper.make_node
random = numpy.random.default_rng(3)
SIZES = [(1, 8, 8), (2, 9, 13), (1, 16, 11), (1, 21, 30)]
# Of vectors: what is a matter of sizes alone.
LIGHT = {"shape", "size", "resize", "max"}


def weights(*shape):
    return (random.standard_normal(shape) * 0.2).astype(numpy.float32)


def floats(*values):
    return numpy.array(values, numpy.float32)


def ints(*values):
    return numpy.array(values, numpy.int64)


# What makes `a` of the image `x`, 16 channels of any height and width.
BEFORE = {
    "as it is": ([node("Identity", ["x"], ["a"])], {}),
    "halved": ([node("Conv", ["x", "fw"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1])], {"fw": weights(16, 16, 3, 3)}),
    "halved twice": ([node("Conv", ["x", "fw"], ["a0"], strides=[2, 2], pads=[1, 1, 1, 1]),
                      node("Conv", ["a0", "fw"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1])], {"fw": weights(16, 16, 3, 3)}),
    "pooled, rounded up": ([node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)], {}),
    "averaged, rounded up": ([node("AveragePool", ["x"], ["a"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)], {}),
    "doubled": ([node("ConvTranspose", ["x", "fw"], ["a"], strides=[2, 2])], {"fw": weights(16, 16, 2, 2)}),
    "grown by two": ([node("Conv", ["x", "fw"], ["a"], pads=[2, 2, 2, 2])], {"fw": weights(16, 16, 3, 3)}),
    "resized to a half": ([node("Resize", ["x", "", "half"], ["a"], mode="nearest")], {"half": floats(1, 1, 0.5, 0.5)}),
}
ROWS = [node("Reshape", ["a", "bt"], ["f"]), node("Transpose", ["f"], ["g"], perm=[0, 2, 1])]
IMAGE_OF = [node("Shape", ["x"], ["s"]), node("Slice", ["s", "i2", "i4"], ["hw"]), node("Shape", ["a"], ["sa"]),
            node("Slice", ["sa", "i0", "i2"], ["nc"]), node("Concat", ["nc", "hw"], ["to"], axis=0)]
PLACES = {"i0": ints(0), "i2": ints(2), "i4": ints(4)}
THREE = node("Conv", ["r", "bw"], ["y"], pads=[1, 1, 1, 1])
# What makes `y` of it.
BEHIND = {
    "convolution": ([node("Conv", ["a", "bw"], ["y"], pads=[1, 1, 1, 1])], {"bw": weights(16, 16, 3, 3)}),
    "many channels": ([node("Conv", ["a", "bw"], ["m"], pads=[1, 1, 1, 1]), node("Conv", ["m", "cw"], ["y"], pads=[1, 1, 1, 1])],
                      {"bw": weights(64, 16, 3, 3), "cw": weights(64, 64, 3, 3)}),  # of which Winograd's algorithm takes some
    "taps apart": ([node("Conv", ["a", "bw"], ["m"], pads=[1, 1, 1, 1]), node("Conv", ["m", "cw"], ["y"], pads=[2, 3, 1, 3], dilations=[2, 3])],
                   {"bw": weights(64, 16, 3, 3), "cw": weights(64, 64, 3, 3)}),
    "pool rounded up": ([node("MaxPool", ["a"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)], {}),
    "mean rounded up": ([node("AveragePool", ["a"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)], {}),
    "twice": ([node("Resize", ["a", "", "bs"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
              {"bs": floats(1, 1, 2, 2)}),
    "twice, centred": ([node("Resize", ["a", "", "bs"], ["y"], mode="nearest")], {"bs": floats(1, 1, 3, 2)}),
    "twice, of floors": ([node("Resize", ["a", "", "bs"], ["y"], mode="nearest", nearest_mode="floor")], {"bs": floats(1, 1, 2, 2)}),
    "twice, mixed": ([node("Resize", ["a", "", "bs"], ["y"], mode="linear")], {"bs": floats(1, 1, 2, 2)}),
    "half as large again": ([node("Resize", ["a", "", "bs"], ["y"], mode="linear", coordinate_transformation_mode="align_corners")],
                            {"bs": floats(1, 1, 1.5, 1.5)}),
    "halved, mixed": ([node("Resize", ["a", "", "bs"], ["y"], mode="linear", coordinate_transformation_mode="pytorch_half_pixel")],
                      {"bs": floats(1, 1, 0.5, 0.5)}),
    "as large as the image": ([*IMAGE_OF, node("Resize", ["a", "", "", "to"], ["y"], mode="linear")], PLACES),
    "nearest of the image": ([*IMAGE_OF, node("Resize", ["a", "", "", "to"], ["r"], mode="nearest", coordinate_transformation_mode="asymmetric",
                                              nearest_mode="floor"), THREE], {**PLACES, "bw": weights(16, 16, 3, 3)}),
    "by floats": ([node("Shape", ["a"], ["s"]), node("Slice", ["s", "i2", "i4"], ["hw"]), node("Cast", ["hw"], ["hwf"], to=TensorProto.FLOAT),
                   node("Mul", ["hwf", "factor"], ["scaled"]), node("Floor", ["scaled"], ["floor"]), node("Cast", ["floor"], ["image"], to=TensorProto.INT64),
                   node("Slice", ["s", "i0", "i2"], ["nc"]), node("Concat", ["nc", "image"], ["to"], axis=0),
                   node("Resize", ["a", "", "", "to"], ["r"], mode="linear"), THREE], {**PLACES, "bw": weights(16, 16, 3, 3), "factor": floats(0.75)}),
    "by a quotient rounded up": ([node("Shape", ["a"], ["s"]), node("Slice", ["s", "i2", "i4"], ["hw"]), node("Cast", ["hw"], ["hwf"], to=TensorProto.FLOAT),
                                  node("Div", ["hwf", "factor"], ["scaled"]), node("Ceil", ["scaled"], ["floor"]), node("Cast", ["floor"], ["image"], to=TensorProto.INT64),
                                  node("Slice", ["s", "i0", "i2"], ["nc"]), node("Concat", ["nc", "image"], ["to"], axis=0),
                                  node("Resize", ["a", "", "", "to"], ["r"], mode="linear"), THREE], {**PLACES, "bw": weights(16, 16, 3, 3), "factor": floats(3)}),
    "by scales of sizes": ([*IMAGE_OF, node("Cast", ["to"], ["wanted"], to=TensorProto.FLOAT), node("Cast", ["sa"], ["own"], to=TensorProto.FLOAT),
                            node("Div", ["wanted", "own"], ["scales"]), node("Resize", ["a", "", "scales"], ["r"], mode="linear"), THREE],
                           {**PLACES, "bw": weights(16, 16, 3, 3)}),
    "transposed 2 by 2": ([node("ConvTranspose", ["a", "bw"], ["y"], strides=[2, 2])], {"bw": weights(16, 8, 2, 2)}),
    "transposed 4 by 4": ([node("ConvTranspose", ["a", "bw"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])], {"bw": weights(16, 8, 4, 4)}),
    "transposed 3 by 3": ([node("ConvTranspose", ["a", "bw"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])], {"bw": weights(16, 8, 3, 3)}),
    "attention": ([*ROWS, node("MatMul", ["g", "bw"], ["q"]), node("Transpose", ["q"], ["k"], perm=[0, 2, 1]), node("MatMul", ["q", "k"], ["w"]),
                   node("Softmax", ["w"], ["p"], axis=-1), node("MatMul", ["p", "q"], ["y"])], {"bt": ints(0, 16, -1), "bw": weights(16, 32)}),
    "rows and back": ([node("Transpose", ["a"], ["t"], perm=[0, 2, 3, 1]), node("Shape", ["t"], ["s"]), node("Reshape", ["t", "bt"], ["f"]),
                       node("MatMul", ["f", "rw"], ["m"]), node("Reshape", ["m", "s"], ["b"]), node("Transpose", ["b"], ["r"], perm=[0, 3, 1, 2]), THREE],
                      {"bt": ints(-1, 16), "rw": weights(16, 16), "bw": weights(16, 16, 3, 3)}),
    "recurrent, and joined": ([node("ReduceMean", ["a"], ["m"], axes=[2], keepdims=0), node("Transpose", ["m"], ["t"], perm=[2, 0, 1]),
                               node("GRU", ["t", "gw", "gr"], ["h"], hidden_size=8, direction="bidirectional"), node("Transpose", ["h"], ["ht"], perm=[0, 2, 1, 3]),
                               node("Reshape", ["ht", "bt"], ["r"]), node("MatMul", ["r", "bw"], ["y"])],
                              {"gw": weights(2, 24, 16), "gr": weights(2, 24, 8), "bt": ints(0, 0, -1), "bw": weights(16, 5)}),
}


def build(before, behind):
    nodes, constants = BEFORE[before][0] + BEHIND[behind][0], BEFORE[before][1] | BEHIND[behind][1]
    graph = helper.make_graph(nodes, "open", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16, "height", "width"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(numpy.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def by_reference(compiled):
    return {instruction["label"] for function in compiled.describe()["functions"] for instruction in function["instructions"]
            if instruction["opcode"] == "routine"} - LIGHT


def check(before, behind):
    text = build(before, behind)
    compiled = tensmith.compile(text)
    assert not by_reference(compiled)
    session = ReferenceEvaluator(text) if behind == "half as large again" else onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])
    for sizes in SIZES:
        image = random.standard_normal((sizes[0], 16, *sizes[1:])).astype(numpy.float32)
        [wanted] = session.run(None, {"x": image})
        numpy.testing.assert_allclose(compiled(image), wanted, rtol=2e-3, atol=2e-3, err_msg=str(sizes))


@pytest.mark.parametrize("behind", BEHIND)
def test_behind_strides(behind):
    """Fails where a size that is a quotient sends a layer to the reference, or is computed wrongly."""
    check("halved twice", behind)


@pytest.mark.parametrize("behind", ["many channels", "taps apart"])
def test_winograd_of_open_images(behind):
    """Fails where a convolution that is transformed for an image of known size isn't for an open one."""
    schedules = [kernel["schedule"] for kernel in tensmith.compile(build("halved twice", behind)).describe()["kernels"]]
    assert schedules.count("winograd output") >= 1


@pytest.mark.parametrize("before", [name for name in BEFORE if name != "halved twice"])
def test_layers_in_front(before):
    """Several layers that grow and shrink an image, before those that read sizes."""
    check(before, "as large as the image")
    check(before, "attention")


WEIGHTS = weights(16, 16, 3, 3)


def two_inputs(kind, of_x, of_y, *behind):
    """A model of an operator on two tensors of symbols."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", of_x), ("y", of_y))]
    graph = helper.make_graph([node(kind, ["x", "y"], ["z" if behind else "out"]), *behind], "two", inputs,
                              [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(WEIGHTS, "w")] if behind else [])
    return tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())


@pytest.mark.parametrize("behind", [(), (node("Conv", ["z", "w"], ["out"], pads=[1, 1, 1, 1]),)], ids=["alone", "before a convolution"])
def test_broadcasting_of_unrelated_sizes(behind):
    """Fails where sizes that may be the same or 1 send an operator to the reference, or are not looked at."""
    compiled = two_inputs("Add", ["n", 16, "h", "w"], ["m", 16, "k", "l"], *behind)
    assert not by_reference(compiled)
    for a, b in [((2, 16, 5, 7), (2, 16, 5, 7)), ((1, 16, 5, 1), (3, 16, 1, 7)), ((2, 16, 1, 1), (1, 16, 6, 1)), ((1, 16, 1, 4), (1, 16, 9, 4))]:
        x, y = (random.standard_normal(shape).astype(numpy.float32) for shape in (a, b))
        wanted = x + y
        if behind:
            wanted = ReferenceEvaluator(helper.make_model(helper.make_graph(
                list(behind), "conv", [helper.make_tensor_value_info("z", TensorProto.FLOAT, None), helper.make_tensor_value_info("w", TensorProto.FLOAT, None)],
                [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)]), opset_imports=[helper.make_opsetid("", 17)])).run(
                    None, {"z": wanted, "w": WEIGHTS})[0]
        numpy.testing.assert_allclose(compiled(x, y), wanted, rtol=1e-3, atol=1e-3)
    for a, b in [((2, 16, 5, 7), (2, 16, 4, 7)), ((2, 16, 5, 7), (3, 16, 5, 7)), ((1, 16, 5, 7), (1, 16, 5, 8))]:
        with pytest.raises(tensmith.Error):
            compiled(numpy.ones(a, numpy.float32), numpy.ones(b, numpy.float32))


@pytest.mark.parametrize("window", [(9, 9), (11, 7), (3, 40), (1, 101)])
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (1, 2)])
def test_large_depthwise_windows(window, stride, dilation):
    """Fails where the loops over a window's lines, or the pieces of long lines, miss a tap or count one twice."""
    channels, pads = 21, [dilation * (size // 2) for size in window]
    graph = helper.make_graph([node("Conv", ["x", "w"], ["y"], group=channels, pads=pads * 2, strides=[stride] * 2, dilations=[dilation] * 2)], "depthwise",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, "h", "w"]),
                               helper.make_tensor_value_info("w", TensorProto.FLOAT, [channels, 1, *window])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    text = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    session = onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])
    compiled = tensmith.compile(text)
    for n, h, w in [(1, 13, 29), (2, 20, 110)]:
        x, taps = random.standard_normal((n, channels, h, w)).astype(numpy.float32), weights(channels, 1, *window)
        [wanted] = session.run(None, {"x": x, "w": taps})
        numpy.testing.assert_allclose(compiled(x, taps), wanted, rtol=1e-4, atol=1e-4)


def test_grouped_queries_with_a_past_of_open_length():
    """Fails where a cache whose length the run computes takes the rest of its shape along, and so attention to the reference."""
    operands = {"query": (["B", "S", 128], TensorProto.FLOAT), "key": (["B", "S", 32], TensorProto.FLOAT), "value": (["B", "S", 32], TensorProto.FLOAT),
                "past_key": (["B", 2, "P", 16], TensorProto.FLOAT), "past_value": (["B", 2, "P", 16], TensorProto.FLOAT),
                "lengths": (["B"], TensorProto.INT32), "total": ([1], TensorProto.INT32)}
    graph = helper.make_graph([node("GroupQueryAttention", list(operands), ["y", "k", "v"], num_heads=8, kv_num_heads=2, domain="com.microsoft")], "grouped",
                              [helper.make_tensor_value_info(name, kind, shape) for name, (shape, kind) in operands.items()],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "k", "v")])
    text = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8).SerializeToString()
    compiled = tensmith.compile(text)
    assert by_reference(compiled) <= {"dynamic_pad", "tensor_scatter", "iota"}
    session = onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])
    for batch, length, past in [(1, 1, 5), (2, 1, 9), (1, 4, 3)]:
        sizes = {"B": batch, "S": length, "P": past}
        feed = {name: random.standard_normal([sizes.get(size, size) for size in shape]).astype(numpy.float32)
                for name, (shape, kind) in operands.items() if kind == TensorProto.FLOAT}
        feed |= {"lengths": numpy.full(batch, past + length - 1, numpy.int32), "total": numpy.array([past + length], numpy.int32)}
        for got, wanted in zip(compiled.run(*[feed[port["name"]] for port in compiled.inputs]), session.run(None, feed)):
            numpy.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)


# Breaks where the convolution that does a transposed one asks for a window that an image without rows doesn't have.
def test_a_transposed_convolution_of_no_rows():
    w = numpy.ones((3, 2, 2, 2), "float32")
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])], "up",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "h", 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, w.shape, w.ravel())])  # fmt: skip
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    model = tensmith.compile(data, threads=1)
    for rows in (0, 2):
        (y,) = model.run(x=numpy.ones((1, 3, rows, 5), "float32"))
        assert y.shape == (1, 2, 2 * rows, 10) and (y == 3).all()


# Breaks if an arena of open sizes has slots where places would take less, or a description says a number that only the run knows.
def test_what_is_placed_when_sizes_are_known_is_told():
    def network(rows):
        """Two values of 512, then one of 1024 that has room where both were; none can be in the other's place for any number of rows."""
        widths = {"a": ("x", 16, 512), "b": ("x", 16, 512), "d": ("c", 16, 1024), "e": ("d", 1024, 16)}
        products = {"ca": ("a", 512, 16), "cb": ("b", 512, 16)}
        nodes, constants = [], {}
        for name, (of, depth, columns) in (widths | products).items():
            constants["w" + name] = weights(depth, columns)
            nodes += [node("MatMul", [of, "w" + name], ["p" + name]), node("Softmax", ["p" + name], [name])]
        nodes = nodes[:4] + nodes[8:] + [node("Add", ["ca", "cb"], ["c"])] + nodes[4:8]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 16])],
            [helper.make_tensor_value_info("e", TensorProto.FLOAT, [rows, 16])],
            [numpy_helper.from_array(value, name) for name, value in constants.items()])  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    described = {rows: tensmith.compile(network(rows).SerializeToString()).describe()["functions"][0]["arena_bytes"] for rows in ("n", 64)}
    assert described["n"] == "placed when sizes are known"
    assert described[64] < 64 * 4 * (1024 + 512)


def reshaped_by_shapes(inputs, target, flat=None):
    """`x` (flattened to `flat` first) by a target that Shape, Gather and Concat compute: sizes of the inputs "input.dimension", and numbers."""
    nodes, constants, parts = [], {}, []
    if flat:
        nodes, constants = [node("Reshape", ["x", "flat"], ["f"])], {"flat": ints(*flat)}
    for number, part in enumerate(target):
        if isinstance(part, int):
            constants[f"p{number}"] = ints(part)
        else:
            source, dim = part.split(".")
            constants[f"i{number}"] = ints(int(dim))
            nodes += [node("Shape", [source], [f"s{number}"]), node("Gather", [f"s{number}", f"i{number}"], [f"p{number}"])]
        parts.append(f"p{number}")
    nodes += [node("Concat", parts, ["to"], axis=0), node("Reshape", ["f" if flat else "x", "to"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


# The inputs' dimensions, the target, what x is flattened to first, and sizes of runs.
COMPUTED_TARGETS = {
    "of another input": ({"x": [3, 4], "z": ["n", 2]}, ["z.0", 4], None, [{"n": 3}, {"n": 0}, {"n": 2}]),
    "of another input, open": ({"x": ["a", 4], "z": ["n", 2]}, ["z.0", 4], None, [{"a": 3, "n": 3}, {"a": 5, "n": 0}, {"a": 0, "n": 0}, {"a": 0, "n": 2}, {"a": 3, "n": 1}]),
    "apart": ({"x": ["b", "t", 4]}, ["x.0", "x.1", 4], (-1, 4), [{"b": 2, "t": 3}, {"b": 2, "t": 0}, {"b": 0, "t": 3}]),
    "apart, a rest": ({"x": ["b", "t", 4]}, ["x.0", "x.1", -1], (-1, 4), [{"b": 2, "t": 3}, {"b": 1, "t": 1}]),
    "together": ({"x": ["b", "t", 4], "z": ["b", "t"]}, ["x.0", -1], None, [{"b": 2, "t": 3}, {"b": 2, "t": 0}]),
    "beyond": ({"x": ["n"], "z": ["m"]}, [1, "z.0"], None, [{"n": 2, "m": 2}, {"n": 2, "m": 0}, {"n": 0, "m": 0}]),
}  # fmt: skip


# Breaks when a size of a target that is 0 in the run is taken as it is where ONNX takes the operand's, or the other way round.
@pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])
@pytest.mark.parametrize("name", COMPUTED_TARGETS)
def test_a_target_computed_to_be_zero(name, reference):
    inputs, target, flat, runs = COMPUTED_TARGETS[name]
    data = reshaped_by_shapes(inputs, target, flat)
    ours = tensmith.compile(data, reference=reference, threads=1)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # which takes a computed size for -1
    theirs = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    for sizes in runs:
        feeds = {port: weights(*(sizes.get(dim, dim) for dim in dims)) for port, dims in inputs.items()}
        try:
            (wanted,) = theirs.run(None, feeds)
        except Exception:
            with pytest.raises(tensmith.Error, match=r"'y \(Reshape\)'"):
                ours.run(**feeds)
            continue
        numpy.testing.assert_array_equal(ours.run(**feeds)[0], wanted, err_msg=str(sizes))


# Breaks when the larger of two numbers that sizes make, of which one may be negative, is left to the run.
def test_frames_of_clamped_sizes():
    constants = {"w": weights(4, 8), "four": ints(4), "one": ints(1), "zero": ints(0), "zeros": ints(0, 0, 0)}
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Div", ["n", "four"], ["q"]), node("Max", ["q", "one"], ["t"]),
             node("Sub", ["four", "n"], ["r"]), node("Max", ["r", "zero"], ["lacking"]), node("Concat", ["zeros", "lacking"], ["pads"], axis=0),
             node("Pad", ["x", "pads"], ["padded"]), node("Mul", ["t", "four"], ["end"]), node("Slice", ["padded", "zero", "end", "one"], ["cut"]),
             node("Concat", ["t", "four"], ["to"], axis=0), node("Reshape", ["cut", "to"], ["frames"]), node("MatMul", ["frames", "w"], ["m"]),
             node("Softmax", ["m"], ["y"], axis=-1)]
    graph = helper.make_graph(nodes, "frames", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    text = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    compiled = tensmith.compile(text, threads=1)
    assert not by_reference(compiled)
    session = onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])
    for n in (1, 3, 4, 7, 8, 27, 40):
        x = random.standard_normal((1, n)).astype(numpy.float32)
        numpy.testing.assert_allclose(compiled(x), session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5, err_msg=str(n))


# Breaks when a proof doesn't look at both cases of the larger of two numbers: that it is not negative then takes an expression of its own, in the
# quotient and in all that is computed of it, which here was too long to be one.
def test_quotients_of_the_larger_of_two_numbers_are_short():
    constants = {"c": ints(256), "k": ints(255), "one": ints(1)}
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Max", ["n", "c"], ["a"]), node("Add", ["a", "k"], ["b"]),
             node("Div", ["b", "c"], ["q"]), node("Mul", ["q", "c"], ["t"]), node("Sub", ["t", "a"], ["w"]), node("Concat", ["q", "w"], ["d"], axis=0),
             node("ConstantOfShape", ["d"], ["y"])]
    graph = helper.make_graph(nodes, "frames", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    compiled = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(), threads=1)
    (output,) = compiled.describe()["outputs"]
    assert max(map(len, output["dims"])) < 100, output["dims"]
    for n in (0, 1, 255, 256, 257, 511, 512, 513, 1000):
        longer = max(n, 256)
        frames = -(-longer // 256)
        assert compiled(numpy.zeros((1, n), numpy.float32)).shape == (frames, frames * 256 - longer), n


# Breaks when a size that divides by zero in a run is told as a shape that no tensor has, or as results that are too large.
@pytest.mark.parametrize("settings", [{}, {"fuse": False}, {"reference": True}], ids=["fused", "unfused", "reference"])
def test_a_size_that_divides_by_zero(settings):
    constants = {"six": ints(6), "one": ints(1)}
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Div", ["six", "n"], ["q"]), node("Add", ["q", "one"], ["d"]),
             node("ConstantOfShape", ["d"], ["z"]), node("Cos", ["z"], ["y"])]
    graph = helper.make_graph(nodes, "quotient", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    compiled = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(), **settings)
    assert compiled(numpy.zeros((1, 2), numpy.float32)).shape == (4,)
    with pytest.raises(tensmith.Error, match=r"node.*the size 6/n\+1 overflows or divides by zero"):
        compiled(numpy.zeros((1, 0), numpy.float32))


# Breaks when a size that only the inside of a kernel has is refused without the node: no result of a step has it.
@pytest.mark.parametrize("settings", [{}, {"fuse": False}, {"reference": True}], ids=["fused", "unfused", "reference"])
def test_a_size_within_a_kernel_that_divides_by_zero(settings):
    constants = {"six": ints(6), "one": ints(1)}
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Div", ["six", "n"], ["q"]),
             node("Expand", ["w", "q"], ["z"]), node("Cos", ["z"], ["c"]), node("ReduceSum", ["c"], ["y"], keepdims=0)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"]), helper.make_tensor_value_info("w", TensorProto.FLOAT, [1])]
    graph = helper.make_graph(nodes, "quotient", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    compiled = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(), **settings)
    w = numpy.zeros(1, numpy.float32)
    assert compiled(numpy.zeros((1, 2), numpy.float32), w) == 3
    with pytest.raises(tensmith.Error, match=r"node.*the size 6/n overflows or divides by zero"):
        compiled(numpy.zeros((1, 0), numpy.float32), w)
