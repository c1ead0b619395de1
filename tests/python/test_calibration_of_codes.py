"""Models with codes are held against their doubles, and layers that integers are too coarse for multiply floats."""

import json

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")


class Model:
    """A QDQ graph, and what it computes in doubles."""

    def __init__(self, shape, scale):
        self.nodes, self.weights, self.shape = [], {}, shape
        self.weights["scale"] = numpy.float32(scale)
        self.add("Mul", ["x", "scale"], "0")

    def add(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"node.{output}", **attributes))
        return output

    def constant(self, name, value):
        self.weights[name] = numpy.asarray(value)
        return name

    def coded(self, x, scale, zero, output):
        """x as codes, and back."""
        own = [self.constant(f"{output}.scale", numpy.float32(scale)), self.constant(f"{output}.zero", numpy.uint8(zero))]
        self.add("QuantizeLinear", [x, *own], f"{output}.codes")
        return self.add("DequantizeLinear", [f"{output}.codes", *own], output)

    def weight(self, codes, scales, output, axis=0):
        own = [self.constant(f"{output}.codes", codes), self.constant(f"{output}.scale", numpy.asarray(scales, "float32"))]
        return self.add("DequantizeLinear", own, output, **({"axis": axis} if numpy.ndim(scales) else {}))

    def bytes(self, *outputs):
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [onnx.ValueInfoProto(name=name) for name in outputs or ["y"]],
                                  [numpy_helper.from_array(value, name) for name, value in self.weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def coded(x, scale, zero):
    return (numpy.clip(numpy.rint(x / float(numpy.float32(scale))) + zero, 0, 255) - zero) * float(numpy.float32(scale))


def widened(codes, scales):
    return codes.astype("float64") * numpy.asarray(scales, "float32").astype("float64")


def convolved(x, w):
    windows = numpy.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return numpy.einsum("nchwij,mcij->nmhw", windows, w, optimize=True)


def codes(random, *shape):
    return random.integers(-127, 128, shape).astype("int8")


def found(compiled):
    return json.loads(compiled.describe()["metadata"]["calibration"])


def chosen(compiled, kernel):
    """Of the layers' structures, as they are told of floats."""
    return [each for each in json.loads(compiled.describe()["metadata"]["schedules"])
            if each["kernel"].startswith(kernel) and "f32" in each["kernel"] and "operand_bits" in each]


def measured(compiled, x, right):
    return numpy.abs(numpy.asarray(compiled.run(x)[0]) - right).max() / numpy.abs(right).max()


@pytest.mark.parametrize("precision", ["fast", "bf16", "exact"])
def test_the_report_is_of_doubles(precision):
    """Breaks if the doubles round to other codes than the definition says, or scales and biases are rounded there."""
    random = numpy.random.default_rng(1)
    w, v, scales = codes(random, 24, 16, 3, 3), codes(random, 24, 40), random.uniform(1, 3, 24) / 1000
    bias = random.integers(-20000, 20000, 24).astype("int32")
    model = Model([2, 16, 18, 18], 1)
    model.coded("0", 0.021, 119, "a")
    model.weight(w, scales, "w")
    model.weight(bias, numpy.float32(0.021) * scales.astype("float32"), "b")
    model.add("Conv", ["a", "w", "b"], "c")
    model.add("Relu", ["c"], "r")
    model.coded("r", 0.017, 0, "d")
    model.add("Transpose", ["d"], "t", perm=[0, 2, 3, 1])
    model.weight(v, 0.0043, "v")
    model.add("MatMul", ["t", "v"], "y")
    x = random.standard_normal((2, 16, 18, 18)).astype("float32")
    conv = convolved(coded(x.astype("float64"), 0.021, 119), widened(w, scales.astype("float32").reshape(24, 1, 1, 1)))
    conv += widened(bias, numpy.float32(0.021) * scales.astype("float32")).reshape(1, 24, 1, 1)
    right = coded(numpy.maximum(conv, 0), 0.017, 0).transpose(0, 2, 3, 1) @ widened(v, 0.0043)
    compiled = tensmith.compile(model.bytes(), precision=precision, calibrate={"x": x})
    told = found(compiled)
    assert told["against"] == "f64" and told["bound"] == pytest.approx(10 / 127) and len(told["attempts"]) == 1
    error = told["outputs"][0]["error"]
    assert 0 < error < told["bound"]
    assert measured(compiled, x, right) == pytest.approx(error, rel=1e-3)
    for layer in [*chosen(compiled, "conv"), *chosen(compiled, "matmul")]:
        assert layer["operand_bits"] == 8 and 0 < layer["error"] < 1e-6
    assert len(chosen(compiled, "conv")) == len(chosen(compiled, "matmul")) == 1


def test_float_layers_of_such_a_model_are_tried_on_what_they_get():
    """Breaks if moments that were found before codes became integers are lost on the way to what rounds floats."""
    random = numpy.random.default_rng(6)
    w = random.standard_normal((512, 257)).astype("float32")
    w -= w.mean(0, keepdims=True)
    model = Model([64, 512], 1)
    model.coded("0", 0.02, 128, "a")
    model.weight(codes(random, 512, 512), 1e-4, "v")
    model.add("MatMul", ["a", "v"], "c")
    model.add("Add", ["c", model.constant("offset", numpy.float32(1000))], "d")
    model.add("MatMul", ["d", model.constant("w", w)], "y")
    compiled = tensmith.compile(model.bytes(), precision="bf16", calibrate="random")
    assert [each["operand_bits"] for each in chosen(compiled, "matmul 64x512:f32 512x512:f32")] == [8]
    [layer] = chosen(compiled, "matmul 64x512:f32 512x257:f32")
    assert layer["operand_bits"] == 32
    assert found(compiled)["outputs"][0]["error"] < 1 / 64


def test_sixteen_bits_are_held_to_their_own_step():
    model = Model([4, 8], 1)
    model.add("QuantizeLinear", ["0", model.constant("s", numpy.float32(1e-3)), model.constant("z", numpy.uint16(32768))], "q")
    model.add("DequantizeLinear", ["q", "s", "z"], "y")
    told = json.loads(tensmith.compile(
        onnx.version_converter.convert_version(onnx.load_from_string(model.bytes()), 21).SerializeToString(),
        calibrate="random").describe()["metadata"]["calibration"])
    assert told["against"] == "f64" and told["bound"] == pytest.approx(10 / 32767)


# Scales whose product has few bits in f32, while the products of numbers have all.
SMALL, SMALLER = 2.0**-75, 2.0**-76


def vanishing(op, scale=40.4 * SMALLER):
    """A layer of 64 channels, its model, and its result in doubles of given inputs."""
    random = numpy.random.default_rng(2)
    w = codes(random, 32, 64, 3, 3) if op == "Conv" else codes(random, 64, 33)
    shape = [1, 64, 12, 12] if op == "Conv" else [30, 64]
    model = Model(shape, 2.0**-70)
    model.coded("0", SMALL, 128, "a")
    model.weight(w, scale, "w")
    model.add(op, ["a", "w"], "y")

    def right(x):
        a = coded(x * 2.0**-70, SMALL, 128)
        return convolved(a, widened(w, scale)) if op == "Conv" else a @ widened(w, scale)

    return model.bytes(), shape, right


@pytest.mark.parametrize("calibrate", [None, "random"])
@pytest.mark.parametrize("precision", ["fast", "bf16"])
@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_a_layer_of_vanishing_scales_falls_back(op, precision, calibrate):
    """Breaks if integers are kept where the product of their scales is rounded away, or floats are rounded further."""
    model, shape, right = vanishing(op)
    compiled = tensmith.compile(model, precision=precision, calibrate=calibrate)
    x = numpy.random.default_rng(3).standard_normal(shape).astype("float32")
    assert measured(compiled, x, right(x)) < 1e-4
    [layer] = chosen(compiled, op.lower())
    assert layer["operand_bits"] == 32 and layer.get("error", 0) < 1e-5
    [refused] = [each for each in layer["refused"] if each["choice"] == "operand_bits"]
    assert refused["value"] == 8 and refused["error"] > 1 / 255
    if calibrate:
        told = found(compiled)
        assert told["against"] == "f64" and told["outputs"][0]["error"] < 1e-4 and len(told["attempts"]) == 1


@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_a_schedule_says_how_codes_are_multiplied(op, tmp_path):
    """Breaks if a schedule is not followed either way, by name or by structure."""
    model, shape, right = vanishing(op)
    x = numpy.random.default_rng(3).standard_normal(shape).astype("float32")
    asked = tmp_path / "s.json"

    def compiled(entry, model=model):
        asked.write_text(json.dumps({"schedules": [entry]}))
        return tensmith.compile(model, schedules=asked, calibrate={"x": x})

    forced = compiled({"nodes": ["node.y"], "operand_bits": 8})
    [layer] = chosen(forced, op.lower())
    error = measured(forced, x, right(x))
    assert layer["operand_bits"] == 8 and layer["error"] == pytest.approx(error, rel=0.3) and error > 1 / 255
    assert found(forced)["outputs"][0]["error"] == pytest.approx(error, rel=1e-3)
    # One that has no need of floats.
    model, _, right = vanishing(op, scale=0.01)
    [layer] = chosen(compiled({"nodes": ["nothing"]}, model), op.lower())
    assert layer["operand_bits"] == 8 and layer["error"] < 1e-6
    floats = compiled({"kernel": layer["kernel"], "operand_bits": 32}, model)
    assert [each["operand_bits"] for each in chosen(floats, op.lower())] == [32]
    assert not any("i32" in each["kernel"] for each in json.loads(floats.describe()["metadata"]["schedules"]))
    assert measured(floats, x, right(x)) < 1e-5


@pytest.mark.parametrize("scale", [40.4 * SMALLER, 0.01])
@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_what_is_told_makes_the_same_again(op, scale, tmp_path):
    """Breaks if a layer is told of by another structure than it is asked for by."""
    model, _, _ = vanishing(op, scale)
    told = chosen(tensmith.compile(model), op.lower())
    assert told
    (tmp_path / "s.json").write_text(json.dumps({"schedules": told}))
    again = chosen(tensmith.compile(model, schedules=tmp_path / "s.json"), op.lower())
    assert [(each["kernel"], each["operand_bits"]) for each in again] == [(each["kernel"], each["operand_bits"]) for each in told]


def test_layers_fall_back_until_the_model_holds():
    """Each layer is within a code of its result, and their difference is not: the model alone can tell."""
    random = numpy.random.default_rng(4)
    w = random.integers(-120, 120, (64, 48)).astype("int8")
    v = w + random.integers(-2, 3, w.shape).astype("int8")
    steps = 2.0**-149 / SMALL  # of products with the other scale
    model = Model([40, 64], 2.0**-70)
    model.coded("0", SMALL, 128, "a")
    model.weight(w, 200.45 * steps, "w")
    model.weight(v, 200.55 * steps, "v")
    model.add("MatMul", ["a", "w"], "b")
    model.add("MatMul", ["a", "v"], "c")
    model.add("Sub", ["b", "c"], "y")
    compiled = tensmith.compile(model.bytes(), calibrate="random")
    told = found(compiled)
    assert told["attempts"][0]["error"] > told["bound"] and len(told["attempts"]) > 1
    assert told["outputs"][0]["error"] < 1e-3 and told["layer_bound"] is not None
    assert 32 in [each["operand_bits"] for each in chosen(compiled, "matmul")]
    x = random.standard_normal((40, 64)).astype("float32")
    a = coded(x * 2.0**-70, SMALL, 128)
    assert measured(compiled, x, a @ widened(w, 200.45 * steps) - a @ widened(v, 200.55 * steps)) < 1e-3


def test_a_scale_without_a_reciprocal_divides():
    """Breaks if numbers are multiplied by 1 / scale where that overflows."""
    model = Model([4, 8], 2.0**-126)
    model.coded("0", 2.0**-133, 128, "y")
    x = numpy.random.default_rng(5).uniform(-0.9, 0.9, (4, 8)).astype("float32")
    assert measured(tensmith.compile(model.bytes()), x, coded(x.astype("float64") * 2.0**-126, 2.0**-133, 128)) == 0


@pytest.mark.parametrize("lie", ["zero points", "scales", "bias", "scales of the bias"])
def test_parameters_of_another_number_of_outputs_are_refused_or_tried_by_nobody(lie):
    """Breaks if a layer is tried beyond the end of its scales, zero points or bias."""
    random, outputs, few = numpy.random.default_rng(8), 24, 2
    model = Model([2, 4, 5, 5], 1)
    model.coded("0", 0.02, 128, "a")
    scales = numpy.full(few if lie == "scales" else outputs, 0.01, "float32")
    inputs = [model.constant("codes", codes(random, outputs, 4, 3, 3)), model.constant("scales", scales)]
    if lie == "zero points":
        inputs.append(model.constant("zeros", numpy.ones(few, "int8")))
    bias = random.integers(-9, 9, few if lie == "bias" else outputs).astype("int32")
    own = numpy.full(few if lie == "scales of the bias" else bias.size, 2e-4, "float32")
    model.add("DequantizeLinear", inputs, "w", axis=0)
    model.add("DequantizeLinear", [model.constant("bias.codes", bias), model.constant("bias.scales", own)], "b", axis=0)
    model.add("Conv", ["a", "w", "b"], "y")
    try:
        tensmith.compile(model.bytes())
    except tensmith.Error:
        pass
