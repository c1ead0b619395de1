"""Resized images and transposed convolutions drawn at random: kernels, not routines, against the reference and ONNX Runtime."""

import random

import numpy
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

tensmith = pytest.importorskip("tensmith")

SEEDS = 30
TYPES = {"float32": 1e-5, "float64": 1e-10, "float16": 2e-3}


def model_of(node, x, constants, opset=19):
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


def routines(module):
    return [step["label"] for function in module.describe()["functions"] for step in function["instructions"] if step["opcode"] == "routine"]


def by_kernels(model, x):
    module = tensmith.compile(model)
    assert routines(module) == []
    (y,) = module.run(x)
    return y


def by_reference(model, x):
    (y,) = tensmith.compile(model, reference=True).run(x)
    return numpy.asarray(y)


def by_onnxruntime(model, x):
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def drawn_resize(seed):
    draw, rng = random.Random(seed), numpy.random.default_rng(seed)
    rank = draw.choice([1, 3, 4, 4, 4, 5])
    element = draw.choice(["float32"] * 4 + ["float64", "float16"])
    shape = [draw.choice([1, 2, 3]), draw.choice([1, 3, 8, 21])][:rank - 1] + [draw.randint(1, 12) for _ in range(max(1, rank - 2))]
    x = rng.standard_normal(shape).astype(element)
    mode = draw.choice(["nearest", "linear", "linear", "cubic"] if rank == 4 else ["nearest", "linear"])
    attributes = {"mode": mode, "coordinate_transformation_mode": draw.choice(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])}
    if mode == "nearest":
        attributes["nearest_mode"] = draw.choice(["round_prefer_floor", "floor", "ceil"])
    elif rank == 4 and draw.random() < 0.3:
        attributes["antialias"] = 1
    factors = [1.0] * (len(shape) - max(1, rank - 2)) + [draw.choice([0.5, 0.7, 1.0, 2.0, 2.0, 3.0, 2.4]) for _ in range(max(1, rank - 2))]
    constants = {}
    if draw.random() < 0.5:
        constants["sizes"] = numpy.array([max(1, int(size * factor)) for size, factor in zip(shape, factors)], "int64")
    else:
        constants["scales"] = numpy.array([factor if int(size * factor) else 1.0 for size, factor in zip(shape, factors)], "float32")
    node = helper.make_node("Resize", ["x", "", *(["scales"] if "scales" in constants else ["", "sizes"])], ["y"], name="r", **attributes)
    return model_of(node, x, constants), x, node


@pytest.mark.parametrize("seed", range(SEEDS))
def test_resized_images(seed):
    model, x, node = drawn_resize(seed)
    y = by_kernels(model, x)
    wanted = by_reference(model, x)
    assert y.shape == wanted.shape
    tolerance = TYPES[str(x.dtype)] * (1 + numpy.abs(wanted).max(initial=0))
    assert numpy.abs(numpy.asarray(y, "float64") - wanted).max() <= tolerance, node
    # ONNX leaves antialiased borders open, and ONNX Runtime interpolates few ranks.
    is_plain = not any(a.name == "antialias" or a.s in (b"linear", b"cubic") and x.ndim != 4 for a in node.attribute)
    if x.dtype == "float32" and is_plain:
        theirs = by_onnxruntime(model, x)
        assert numpy.abs(wanted - theirs).max() <= 1e-4 * (1 + numpy.abs(theirs).max()), node


def drawn_open_resize(seed):
    """A resize of symbolic sizes, by scales or sizes of the run's, and what it is run on."""
    draw, rng = random.Random(seed), numpy.random.default_rng(seed)
    rank = draw.choice([3, 4, 4, 5])
    mode = draw.choice(["nearest", "linear", "cubic", "cubic"])
    places = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", "tf_crop_and_resize"]
    attributes = {"mode": mode, "coordinate_transformation_mode": draw.choice(places)}
    is_crop = attributes["coordinate_transformation_mode"] == "tf_crop_and_resize"
    if mode == "nearest":
        attributes["nearest_mode"] = draw.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    else:
        attributes["exclude_outside"] = int(draw.random() < 0.3)
    if mode == "cubic":
        attributes["cubic_coeff_a"] = draw.choice([-0.75, -0.5])
    if is_crop:
        attributes["extrapolation_value"] = draw.choice([0.0, 1.5])
    resized = draw.choice([rank - 2, rank - 2, 1, rank])
    axes = list(range(rank - resized, rank))
    attributes["axes"] = axes
    factors = [draw.choice([0.5, 0.7, 1.0, 2.0, 3.0, 2.4]) for _ in axes]
    antialias = mode != "nearest" and not is_crop and draw.random() < 0.3
    by_sizes = not antialias and draw.random() < 0.5
    attributes["antialias"] = int(antialias)
    known = antialias or draw.random() < 0.5  # the scales
    shapes = [[draw.choice([1, 3, 9]), draw.choice([1, 3, 9]), *(draw.randint(2, 12) for _ in range(rank - 2))] for _ in range(3)]
    roi = numpy.array([draw.choice([0, 0.1, -0.2]) for _ in axes] + [draw.choice([1, 0.8, 1.2]) for _ in axes], "float32")
    type_, proto = ("float32", 1) if draw.random() < 0.8 else ("float16", 10)
    scales = numpy.array(factors, "float32")
    value = helper.make_tensor_value_info
    inputs, constants, runs = [value("x", proto, [f"d{i}" for i in range(rank)])], [], []
    if is_crop:
        (constants.append(numpy_helper.from_array(roi, "roi")) if known else inputs.append(value("roi", 1, [2 * len(axes)])))
    name = "sizes" if by_sizes else "scales"
    if by_sizes:
        inputs.append(value("sizes", 7, [len(axes)]))
    elif known:
        constants.append(numpy_helper.from_array(scales, "scales"))
    else:
        inputs.append(value("scales", 1, [len(axes)]))
    for shape in shapes:
        feeds = {"x": rng.standard_normal(shape).astype(type_)}
        if is_crop and not known:
            feeds["roi"] = roi
        if by_sizes:
            feeds["sizes"] = numpy.array([max(1, int(shape[axis] * factor)) for axis, factor in zip(axes, factors)], "int64")
        elif not known:
            feeds["scales"] = scales
        runs.append(feeds)
    node = helper.make_node("Resize", ["x", "roi" if is_crop else "", *([name] if name == "scales" else ["", name])], ["y"], name="r", **attributes)
    graph = helper.make_graph([node], "g", inputs, [value("y", proto, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9).SerializeToString(), runs, node


# Vectors of places may be the reference's, pictures not.
@pytest.mark.parametrize("seed", range(2 * SEEDS))
def test_resized_images_of_open_sizes(seed, monkeypatch):
    if seed % 2:
        monkeypatch.setenv("TENSMITH_CHECK_BOUNDS", "1")  # each access is checked
    model, runs, node = drawn_open_resize(seed)
    module, reference = tensmith.compile(model), tensmith.compile(model, reference=True)
    for function in module.describe()["functions"]:
        for step in function["instructions"]:
            assert step["opcode"] != "routine" or all(len(value["dims"]) < 2 for value in step["results"] if value), (step["label"], node)
    for feeds in runs:
        (y,), (wanted,) = module.run(**feeds), reference.run(**feeds)
        assert y.shape == wanted.shape
        tolerance = TYPES[str(feeds["x"].dtype)] * (1 + numpy.abs(wanted).max(initial=0))
        assert numpy.abs(numpy.asarray(y, "float64") - wanted).max(initial=0) <= tolerance, node


def drawn_resize_by_the_run(seed):
    """A resize whose axes share a scale that the run computes, or whose filters are as wide as the run says."""
    draw, rng = random.Random(seed), numpy.random.default_rng(seed)
    places = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
    has_policy = seed % 2
    mode = draw.choice(["nearest", "linear", "cubic"][not has_policy:])
    attributes = {"mode": mode, "axes": [2, 3], "coordinate_transformation_mode": draw.choice(places)}
    if has_policy:
        attributes["keep_aspect_ratio_policy"] = draw.choice(["not_larger", "not_smaller"])
    if mode == "nearest":
        attributes["nearest_mode"] = draw.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    else:
        attributes |= {"antialias": 1 if not has_policy else draw.choice([0, 0, 1]), "exclude_outside": draw.choice([0, 0, 1])}
    name = "sizes" if has_policy or draw.random() < 0.5 else "scales"
    given = [draw.randint(0, 20) for _ in range(2)] if name == "sizes" else [draw.choice([1e-9, 0.02, 0.1, 0.3, 0.5, 0.7, 1, 2, 2.4]) for _ in range(2)]
    given = numpy.array(given, "int64" if name == "sizes" else "float32")
    dims = draw.choice([["n", 3, "h", "w"], ["n", "c", "h", 8], ["n", 16, "h", "w"]])
    value = helper.make_tensor_value_info
    inputs, constants = [value("x", 1, dims)], []
    is_told = not has_policy or draw.random() < 0.5
    if is_told:
        inputs.append(value(name, 7 if name == "sizes" else 1, [2]))
    else:
        constants.append(numpy_helper.from_array(given, name))
    runs = []
    for _ in range(2):
        sizes = {"n": draw.randint(1, 2), "c": draw.randint(1, 9), "h": draw.randint(1, 25), "w": draw.randint(1, 25)}
        x = rng.standard_normal([sizes.get(dim, dim) for dim in dims]).astype("float32")
        runs.append({"x": x, **({name: given} if is_told else {})})
    node = helper.make_node("Resize", ["x", "", *([name] if name == "scales" else ["", name])], ["y"], name="r", **attributes)
    graph = helper.make_graph([node], "g", inputs, [value("y", 1, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9).SerializeToString(), runs, node


# Breaks if a scale that all axes share, or filters of a width that the run tells, are the reference evaluator's.
@pytest.mark.parametrize("seed", range(SEEDS))
def test_images_whose_scale_the_run_tells(seed, monkeypatch):
    if seed % 3 == 0:
        monkeypatch.setenv("TENSMITH_CHECK_BOUNDS", "1")
    model, runs, node = drawn_resize_by_the_run(seed)
    module, reference = tensmith.compile(model, threads=1), tensmith.compile(model, threads=1, reference=True)
    for function in module.describe()["functions"]:
        for step in function["instructions"]:
            assert step["opcode"] != "routine" or all(len(value["dims"]) < 2 for value in step["results"] if value), (step["label"], node)
    for feeds in runs:
        (y,), (wanted,) = module.run(**feeds), reference.run(**feeds)
        assert y.shape == wanted.shape, node
        assert numpy.abs(y - wanted).max(initial=0) <= 2e-5 * (1 + numpy.abs(wanted).max(initial=0)), node


# Breaks if the sizes that are known say how large the others become, when all have one scale.
def test_the_scale_of_all_axes_is_not_that_of_the_known_ones():
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], keep_aspect_ratio_policy="not_larger", axes=[2, 3])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, [1, 3, "h", 8])], [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(numpy.array([10, 16]), "sizes")])
    module = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9).SerializeToString())
    assert module.run(numpy.ones((1, 3, 40, 8), "float32"))[0].shape == (1, 3, 10, 2)
    assert module.run(numpy.ones((1, 3, 2, 8), "float32"))[0].shape == (1, 3, 4, 16)


# Breaks if an infinity beside an element that weighs everything becomes NaN.
def test_what_weighs_nothing_counts_for_nothing():
    x = numpy.arange(24, dtype="float32").reshape(1, 1, 4, 6)
    x[0, 0, 1, 2] = numpy.inf
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear", coordinate_transformation_mode="asymmetric")
    model = model_of(node, x, {"scales": numpy.array([1, 1, 2, 1], "float32")})
    (y,) = tensmith.compile(model).run(x)
    numpy.testing.assert_array_equal(y, by_reference(model, x))


def drawn_transposed(seed):
    draw, rng = random.Random(seed), numpy.random.default_rng(seed)
    spatial, group = draw.choice([1, 2, 2, 2, 3]), draw.choice([1, 1, 2, 3])
    inputs, outputs = group * draw.choice([1, 2, 8]), draw.choice([1, 3, 5])
    strides = [draw.choice([1, 2, 2, 3]) for _ in range(spatial)]
    kernel = [draw.choice([stride, 2 * stride, draw.randint(1, 5)]) for stride in strides]
    dilations = [draw.choice([1, 1, 1, 2]) for _ in range(spatial)]
    pads = [draw.randint(0, (size - 1) * step // 2) for _ in range(2) for size, step in zip(kernel, dilations)]
    x = rng.standard_normal([draw.choice([1, 2]), inputs, *(draw.randint(2, 7) for _ in range(spatial))]).astype("float32")
    constants = {"w": rng.standard_normal([inputs, outputs, *kernel]).astype("float32")}
    if draw.random() < 0.7:
        constants["b"] = rng.standard_normal(outputs * group).astype("float32")
    node = helper.make_node("ConvTranspose", ["x", *constants], ["y"], name="t", strides=strides, pads=pads, dilations=dilations, group=group,
                            output_padding=[draw.randint(0, stride - 1) for stride in strides])
    return model_of(node, x, constants), x, node


@pytest.mark.parametrize("seed", range(SEEDS))
def test_transposed_convolutions(seed):
    model, x, node = drawn_transposed(seed)
    y = by_kernels(model, x)
    for wanted in (by_reference(model, x), by_onnxruntime(model, x)):
        assert y.shape == wanted.shape
        assert numpy.abs(y - wanted).max() <= 1e-5 * (1 + numpy.abs(wanted).max()), node


# Breaks if what is between the kernels of an encoder and a decoder is done element by element.
def test_a_decoder_is_kernels():
    rng = numpy.random.default_rng(1)
    weights = {"w1": rng.standard_normal((32, 3, 3, 3)) / 5, "w2": rng.standard_normal((32, 16, 2, 2)) / 5, "w3": rng.standard_normal((21, 16, 1, 1)) / 4}
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("ConvTranspose", ["b", "w2"], ["c"], strides=[2, 2]), helper.make_node("Conv", ["c", "w3"], ["d"]),
             helper.make_node("Resize", ["d", "", "scales"], ["y"], mode="linear")]
    x = rng.standard_normal((1, 3, 22, 30)).astype("float32")
    constants = {name: value.astype("float32") for name, value in weights.items()} | {"scales": numpy.array([1, 1, 4, 4], "float32")}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, x.shape)], [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9).SerializeToString()
    module = tensmith.compile(model)
    (y,) = module.run(x)
    numpy.testing.assert_allclose(y, by_onnxruntime(model, x), rtol=1e-4, atol=1e-4)
    gathers = [kernel for kernel in module.describe()["kernels"] if "gather" in kernel["label"]]
    assert len(gathers) == 2 and not any("transpose" in kernel["label"] for kernel in gathers)  # along rows, which are turned in squares
