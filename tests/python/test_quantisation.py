"""The quantiser: codes against NumPy, what models lose, rules, budgets, and the same model elsewhere.

A CNN and a transformer are trained here, in seconds, on problems that they can solve; samples for calibration, and others to
judge by, are drawn anew.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
PACKAGE = BUILD / "python"
pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="the Python package is not built")

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper, version_converter  # noqa: E402, F401
from onnx.reference import ReferenceEvaluator  # noqa: E402

sys.path.insert(0, str(PACKAGE))
import quantised_networks as networks  # noqa: E402


@pytest.fixture(scope="module")
def ts():
    import tensmith

    return tensmith


@pytest.fixture(scope="module")
def cnn(ts, tmp_path_factory):
    """The path, samples to calibrate on with their labels, and others to judge by."""
    random = numpy.random.default_rng(1)
    x, labels = networks.images(random, 2048)
    path = tmp_path_factory.mktemp("cnn") / "cnn.onnx"
    networks.trained(ts, path, networks.cnn(random), "image", x, labels, 100)
    judged, right = networks.images(random, 1024)
    return path, {"image": x[:256], "labels": labels[:256]}, {"image": judged}, right


@pytest.fixture(scope="module")
def transformer(ts, tmp_path_factory):
    random = numpy.random.default_rng(2)
    x, labels = networks.sentences(random, 4096)
    path = tmp_path_factory.mktemp("transformer") / "transformer.onnx"
    networks.trained(ts, path, networks.transformer(random), "tokens", x, labels, 250)
    judged, right = networks.sentences(random, 1024)
    return path, {"tokens": x[:256], "labels": labels[:256]}, {"tokens": judged}, right


NETWORKS = ["cnn", "transformer"]


@pytest.fixture
def network(request):
    return request.getfixturevalue(request.param)


def accuracy(ts, path, inputs, right):
    return 100 * float((ts.compile(path)(**inputs).argmax(-1) == right).mean())


def constants(path):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


# ---- What is lost ----


# Breaks if ranges, codes or the way of integers are wrong: a model that is right without them would lose much.
@pytest.mark.parametrize("network", NETWORKS, indirect=True)
@pytest.mark.parametrize("settings", [{}, {"calibration": "entropy"}, {"calibration": "mse", "rounding": "gptq", "bias_correction": True}], ids=str)
def test_8_bits_lose_little(ts, network, settings, tmp_path):
    path, samples, inputs, right = network
    before = accuracy(ts, path, inputs, right)
    assert before > 90
    report = ts.quantize(path, tmp_path / "q.onnx", samples, **settings)
    assert accuracy(ts, tmp_path / "q.onnx", inputs, right) >= before - 1.0
    assert report["outputs"][0]["same_answers"] > 0.95
    assert report["bytes"]["after"] < 0.6 * report["bytes"]["before"]
    onnx.checker.check_model(tmp_path / "q.onnx", full_check=True)


# Breaks if codes of 4 bits, groups, or one of the methods for them are written wrongly.
@pytest.mark.parametrize("network", NETWORKS, indirect=True)
@pytest.mark.parametrize("settings", [{"weights": {"bits": 4, "per": 32}, "rounding": "gptq"}, {"weights": 4, "awq": True, "weight_ranges": "mse"}], ids=str)
def test_weights_alone_in_4_bits(ts, network, settings, tmp_path):
    path, samples, inputs, right = network
    ts.quantize(path, tmp_path / "q.onnx", samples, activations="float", **settings)
    assert accuracy(ts, tmp_path / "q.onnx", inputs, right) >= accuracy(ts, path, inputs, right) - 3.0
    onnx.checker.check_model(tmp_path / "q.onnx", full_check=True)


# Breaks if GPTQ's order, its factor or the errors that it passes on are wrong: it would err more than rounding does.
def test_gptq_errs_less_than_rounding(ts, transformer, tmp_path):
    path, samples, _, _ = transformer
    errors = []
    for rounding in ("nearest", "gptq"):
        report = ts.quantize(path, tmp_path / "q.onnx", samples, activations="float", weights=3, rounding=rounding)
        errors.append(-report["outputs"][0]["db"])
    assert errors[1] < errors[0] - 1


# Breaks if smoothing changes what the model computes, or doesn't divide what is far apart.
def test_smoothing_helps_where_channels_are_far_apart(ts, transformer, tmp_path):
    path, samples, _, _ = transformer
    plain = ts.quantize(path, tmp_path / "q.onnx", samples, activations=6)
    smooth = ts.quantize(path, tmp_path / "s.onnx", samples, activations=6, smooth=0.5)
    assert smooth["outputs"][0]["db"] > plain["outputs"][0]["db"] + 1
    assert not [node for node in onnx.load(tmp_path / "s.onnx").graph.node if "norm1.y_smoothed" in node.output]  # it went into the norm


# Breaks if equalisation changes what the model computes: with 16 bits nothing else does.
@pytest.mark.parametrize("settings", [{"equalise": True}, {"smooth": 0.5}, {"awq": True}], ids=str)
@pytest.mark.parametrize("network", NETWORKS, indirect=True)
def test_scaled_channels_compute_the_same(ts, network, settings, tmp_path):
    path, samples, _, _ = network
    report = ts.quantize(path, tmp_path / "q.onnx", samples, activations="float", weights=16, **settings)
    assert report["outputs"][0]["db"] is None or report["outputs"][0]["db"] > 60


# Breaks if equalisation scales by another factor than the one that makes both sides reach equally far.
def test_equalised_layers_reach_equally_far(ts, tmp_path):
    from small_models import model_of

    random = numpy.random.default_rng(0)
    scales = 10.0 ** random.uniform(-2, 2, 8)
    first = (random.standard_normal((8, 3, 3, 3)) * scales[:, None, None, None]).astype(numpy.float32)
    second = (random.standard_normal((4, 8, 1, 1)) / scales[:, None, None]).astype(numpy.float32)
    nodes = [onnx.helper.make_node("Conv", ["x", "a"], ["y"], name="a"), onnx.helper.make_node("Relu", ["y"], ["r"]),
             onnx.helper.make_node("Conv", ["r", "b"], ["z"], name="b")]  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(model_of(nodes, {"x": [1, 3, 9, 9]}, {"a": first, "b": second}, ["z"]))
    x = random.standard_normal((16, 3, 9, 9)).astype(numpy.float32)
    decibels = [ts.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", {"x": x}, equalise=on)["outputs"][0]["db"] for on in (False, True)]
    assert decibels[1] > decibels[0] + 6, decibels


# ---- Codes ----


# Breaks if a weight's code is another than ONNX defines, or a scale isn't the range's.
@pytest.mark.parametrize("bits", [2, 5, 8])
def test_codes_of_weights_are_numpys(ts, cnn, bits, tmp_path):
    path, samples, _, _ = cnn
    ts.quantize(path, tmp_path / "q.onnx", samples, weights=bits, keep=["stem", "depthwise", "pointwise", "down"])
    weight, found = constants(path)["head.weight"], constants(tmp_path / "q.onnx")
    most = 2 ** (bits - 1) - 1
    scale = (numpy.abs(weight).max(1) / most).astype(numpy.float32)
    numpy.testing.assert_array_equal(found["head.weight_scale"], scale)
    codes = numpy.clip(numpy.rint(weight / scale[:, None]), -most, most)
    numpy.testing.assert_array_equal(found["head.weight_quantized"].astype(int), codes)


# Breaks if the range of activations isn't what occurred, or zero isn't a code.
@pytest.mark.parametrize("settings, low, high", [({}, 0, 255), ({"activations": "int8"}, -127, 127), ({"activations": 4}, 0, 15)], ids=str)
def test_scales_of_activations_are_numpys(ts, cnn, settings, low, high, tmp_path):
    path, samples, _, _ = cnn
    ts.quantize(path, tmp_path / "q.onnx", samples, **settings)
    found, x = constants(tmp_path / "q.onnx"), samples["image"]
    if low:
        scale, zero = numpy.abs(x).max() / high, 0
    else:
        scale = (float(x.max()) - float(x.min())) / (high - low)
        zero = round(low - float(x.min()) / numpy.float32(scale))
    numpy.testing.assert_allclose(found["image_scale"], scale, rtol=1e-6)
    assert found["image_zero_point"] == zero


# Breaks if power-of-two scales are none, or codes don't reach as far as values do.
def test_scales_that_are_powers_of_two(ts, cnn, tmp_path):
    path, samples, _, _ = cnn
    ts.quantize(path, tmp_path / "q.onnx", samples, weights={"power_of_two": True}, activations={"power_of_two": True, "type": "int8"})
    scales = [value for name, value in constants(tmp_path / "q.onnx").items() if name.endswith(("weight_scale", "image_scale", "folded_scale", "_r_scale"))]
    assert len(scales) >= 5
    for scale in scales:
        assert (numpy.frexp(scale)[0] == 0.5).all()


# Breaks if one of the formats is written so that the standard's own evaluator reads something else in it than this compiler.
@pytest.mark.parametrize("weights, activations", [
    (1, "int1"), (2, 1), (3, 3), (4, 8), (8, "int8"), (16, "float"), ("uint8", 8), ("uint1", "float"), ("uint4", "float"), ("fp8", 8), ("nf4", "float"),
    ({"bits": 4, "per": 16}, "float"), ({"type": "nf4", "per": 16}, "float"), ({"per": "tensor"}, {"bits": 6, "symmetric": True}),
], ids=str)  # fmt: skip
def test_the_standard_reads_the_same(ts, transformer, weights, activations, tmp_path):
    path, samples, _, _ = transformer
    tokens = samples["tokens"][:16]
    ts.quantize(path, tmp_path / "q.onnx", {"tokens": tokens}, weights=weights, activations=activations)
    model = onnx.load(tmp_path / "q.onnx")
    if model.opset_import[0].version < 19:  # of which the evaluator has no DequantizeLinear
        model = onnx.version_converter.convert_version(model, 20)
    wanted = ReferenceEvaluator(model).run(None, {"tokens": tokens})[0]
    got = ts.compile(tmp_path / "q.onnx", precision="exact")(tokens)
    # A code at the middle between two numbers may become either, and all that follows with it.
    step = 2e-2 if activations in (8, "int8") else 1e-4 if activations == "float" else 0.5
    assert numpy.abs(got - wanted).mean() <= step * numpy.abs(wanted).max()


# Breaks if ONNX Runtime refuses what is written, or computes something else.
@pytest.mark.parametrize("network", NETWORKS, indirect=True)
@pytest.mark.parametrize("settings", [{}, {"activations": 5, "weights": 4}, {"weights": {"bits": 4, "per": 32}, "activations": "float"}], ids=str)
def test_onnx_runtime_computes_the_same(ts, network, settings, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    path, samples, inputs, _ = network
    ts.quantize(path, tmp_path / "q.onnx", samples, **settings)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # it rounds once more where it fuses
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx", options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, inputs)[0]
    got = ts.compile(tmp_path / "q.onnx", precision="exact")(**inputs)
    assert (got.argmax(-1) == wanted.argmax(-1)).mean() > 0.97
    assert numpy.abs(got - wanted).mean() <= 2e-2 * numpy.abs(wanted).max()


# Breaks if a model that says it is in integers is computed in floats.
@pytest.mark.parametrize("network", NETWORKS, indirect=True)
def test_layers_are_products_of_integers(ts, network, tmp_path):
    path, samples, _, _ = network
    report = ts.quantize(path, tmp_path / "q.onnx", samples)
    ts.compile(tmp_path / "q.onnx", dump_ir=tmp_path / "ir", cache_dir=tmp_path / "cache")
    text = next((tmp_path / "ir").glob("*-kernels.mlir")).read_text()
    products = re.findall(r"graph\.(?:conv|matmul).*->.*", text)
    floats = [line for line in products if "accumulate_i32 = true" not in line]
    # Of two activations, or of a window of each channel, which the compiler multiplies as floats.
    kept = [line for line in floats if re.search(r"tensor<\?x8x8xf32|tensor<\?x32x8xf32|group = 16", line)]
    assert floats == kept and len(products) - len(floats) >= len(report["layers"]) - 1, products


# ---- Rules and budgets ----


def codes_by_node(path):
    """Of each layer that is quantised, the types of its codes."""
    model = onnx.load(path)
    made = {output: node for node in model.graph.node for output in node.output}
    types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    found = {}
    for node in model.graph.node:
        if node.op_type not in ("Conv", "MatMul", "Gemm"):
            continue
        for index, source in enumerate(node.input[:2]):
            origin = made.get(source)
            if origin is not None and origin.op_type == "DequantizeLinear":
                found.setdefault(node.name, {})[index] = types[origin.input[2]]
    return found


# Breaks if a rule reaches another node than its own, or doesn't reach that.
def test_a_rule_changes_its_own_nodes_alone(ts, cnn, tmp_path):
    path, samples, _, _ = cnn
    ts.quantize(path, tmp_path / "a.onnx", samples)
    rules = [{"nodes": "p*w*e", "activations": "int8"}, {"operators": ["Gemm"], "keep": True}]
    ts.quantize(path, tmp_path / "b.onnx", samples, rules=rules)
    before, after = codes_by_node(tmp_path / "a.onnx"), codes_by_node(tmp_path / "b.onnx")
    assert set(before) == {"stem", "depthwise", "pointwise", "down", "head"}
    assert set(before) - set(after) == {"head"}
    assert {name for name in after if after[name] != before[name]} == {"pointwise"}
    assert after["pointwise"][0] == onnx.TensorProto.INT8


# Breaks if the search keeps more than it must, or says that a budget is met that isn't.
def test_a_budget_of_accuracy_keeps_layers_in_float(ts, transformer, tmp_path):
    path, samples, _, _ = transformer
    free = ts.quantize(path, tmp_path / "q.onnx", samples, weights=2, activations="float", sensitivity=True)
    assert free["lost"] > 2
    alone = {layer["node"]: layer["error_alone"] for layer in free["layers"]}
    held = ts.quantize(path, tmp_path / "q.onnx", samples, weights=2, activations="float", accuracy=1)
    assert held["lost"] <= 1
    kept = {layer["node"] for layer in held["layers"] if "kept" in layer}
    assert kept and len(kept) < len(held["layers"])
    assert min(alone[name] for name in kept) >= max(alone[name] for name in set(alone) - kept)


# Breaks if a budget of size isn't kept to, or more is quantised than it asks for.
def test_a_budget_of_size_quantises_as_little_as_it_can(ts, transformer, tmp_path):
    path, samples, _, _ = transformer
    least = ts.quantize(path, tmp_path / "q.onnx", samples)["bytes"]
    budget = (least["before"] + least["after"]) // 2
    report = ts.quantize(path, tmp_path / "q.onnx", samples, size=budget)
    assert report["bytes"]["after"] <= 1.02 * budget
    assert 0 < sum("kept" in layer for layer in report["layers"]) < len(report["layers"])
    with pytest.raises(ts.Error, match="fewer bits"):
        ts.quantize(path, tmp_path / "q.onnx", samples, size=1000)


# ---- Training ----


# Breaks if gradients don't pass through codes (nothing would be learned), or pass where values are clamped.
def test_training_makes_up_for_2_bits(ts, cnn, tmp_path):
    path, samples, inputs, right = cnn
    hard = {"weights": 2, "activations": 8, "weight_ranges": "mse"}
    ts.quantize(path, tmp_path / "plain.onnx", samples, **hard)
    plain = accuracy(ts, tmp_path / "plain.onnx", inputs, right)
    ts.quantize(path, tmp_path / "start.onnx", samples, training=True, **hard)
    model = onnx.load(tmp_path / "start.onnx")
    random = numpy.random.default_rng(3)
    x, labels = networks.images(random, 2048)
    networks.trained(ts, tmp_path / "trained.onnx", model, "image", x, labels, 400)
    better = accuracy(ts, tmp_path / "trained.onnx", inputs, right)
    assert better > plain + 3 and better >= accuracy(ts, path, inputs, right) - 3, (plain, better)


# Breaks if the derivative of rounding is another than 1 within the range, and 0 beyond: a step of descent shows it.
def test_gradients_pass_straight_through(ts, tmp_path):
    helper, types = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
             helper.make_node("Mul", ["d", "x"], ["m"]), helper.make_node("ReduceSum", ["m"], ["loss"], keepdims=0)]  # fmt: skip
    w = numpy.concatenate([numpy.linspace(-3, 3, 91), [-1e9, 1e9, 0]]).astype(numpy.float32)
    x = numpy.random.default_rng(0).standard_normal(w.shape).astype(numpy.float32)
    weights = [numpy_helper.from_array(numpy.float32(0.01), "s"), numpy_helper.from_array(numpy.uint8(100), "z"), numpy_helper.from_array(w, "w")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", types.FLOAT, x.shape)], [helper.make_tensor_value_info("loss", types.FLOAT, [])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", loss="loss", learning_rate=0.5)
    loss = float(step(x=x)["loss"])
    rounded = (numpy.clip(numpy.rint(w / numpy.float32(0.01)) + 100, 0, 255) - 100) * numpy.float32(0.01)
    assert abs(loss - float((rounded * x).sum())) < 1e-3
    low, high = -100 * 0.01, 155 * 0.01
    inside, outside = (w > low) & (w < high), (w < low - 0.006) | (w > high + 0.006)
    after = numpy.asarray(step.state["w"])
    numpy.testing.assert_allclose(after[inside], (w - 0.5 * x)[inside], rtol=1e-6)
    numpy.testing.assert_array_equal(after[outside], w[outside])
    assert set(step.state) == {"w", "step"} and inside.sum() > 20 and outside.sum() > 20


# ---- Refusals ----


@pytest.mark.parametrize("settings, words", [
    ({"weights": 9}, "1 to 8"), ({"weights": "int99"}, "number of bits"), ({"wieghts": 8}, "'wieghts' is none"), ({"keep": ["nobody"]}, "fits no layer"),
    ({"rules": [{"weights": 4}]}, "neither nodes nor operators"), ({"calibration": "best"}, "minmax"), ({"activations": "fp8"}, "integers alone"),
    ({"weights": {"per": 3}}, "size of a group"), ({"smooth": 2}, "from 0"), ({"training": True, "weights": "int1"}, "can't be trained"),
], ids=str)  # fmt: skip
def test_settings_are_refused_in_words(ts, cnn, settings, words, tmp_path):
    path, samples, _, _ = cnn
    with pytest.raises(ts.Error, match=words):
        ts.quantize(path, tmp_path / "q.onnx", samples, **settings)
    assert not (tmp_path / "q.onnx").exists()


def test_samples_are_refused_in_words(ts, cnn, tmp_path):
    path, samples, _, _ = cnn
    for given, words in [(None, "samples are missing"), ({"picture": samples["image"]}, "no array for input 'image'"),
                         ({"image": samples["image"][:, :, :5]}, "image.*12"), (samples | {"labels": [1, 2]}, "labels")]:  # fmt: skip
        with pytest.raises(ts.Error, match=words):
            ts.quantize(path, tmp_path / "q.onnx", given)
    bad = samples["image"].copy()
    bad[3] = numpy.nan
    ts.quantize(path, tmp_path / "q.onnx", {"image": bad})  # what is not finite has no code


# Breaks if a model that is none, or is damaged, ends in anything but words.
def test_models_are_refused_in_words(ts, cnn, tmp_path):
    path, samples, _, _ = cnn
    good = path.read_bytes()
    random = numpy.random.default_rng(5)
    for i in range(40):
        bad = bytearray(good[: random.integers(len(good))] if i % 4 == 0 else good)
        for place in random.integers(0, max(len(bad), 1), 3):
            bad[place : place + 1] = bytes([random.integers(256)])
        (tmp_path / "bad.onnx").write_bytes(bad)
        try:
            ts.quantize(tmp_path / "bad.onnx", tmp_path / "q.onnx", weights=8, activations="float")
        except ts.Error as error:
            assert "bad.onnx" in str(error)
    # A name that is no text: in the report, and in a message.
    (tmp_path / "bad.onnx").write_bytes(good.replace(b"depthwise", b"depth\xc5ise"))
    ts.quantize(tmp_path / "bad.onnx", tmp_path / "q.onnx", activations="float")
    with pytest.raises(ts.Error, match="fits no layer"):
        ts.quantize(tmp_path / "bad.onnx", tmp_path / "q.onnx", activations="float", keep="nobody")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ts.Error, match="bad.onnx"):
        ts.quantize(tmp_path / "bad.onnx", tmp_path / "q.onnx", samples)


# ---- The command ----


@pytest.mark.skipif(not (BUILD / "bin/tensmith").exists(), reason="the command line is not built")
def test_the_command(cnn, tmp_path):
    path, samples, _, _ = cnn
    numpy.savez(tmp_path / "samples.npz", **samples)
    (tmp_path / "rules.toml").write_text('calibration = "mse"\n[[rules]]\nnodes = ["head"]\nweights = {bits = 4}\n')

    def run(*arguments, status=0):
        done = subprocess.run([BUILD / "bin/tensmith", "quantize", path, *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    said = run("-o", "q.onnx", "--data", "samples.npz", "--rules", "rules.toml", "--keep", "stem", "--report", "report.json")
    assert "accuracy" in said and re.search(r"stem +Conv +float: a rule", said) and re.search(r"head +Gemm +int4", said)
    assert json.loads((tmp_path / "report.json").read_text())["layers"][0]["kept"] == "a rule"
    assert "int4 per 32" in run("--weights", "4", "--per", "32", "--activations", "float")
    assert (tmp_path / "cnn.quantized.onnx").exists()
    assert "samples are missing" in run(status=1)
    assert "is the model itself" in run("-o", str(path), "--data", "samples.npz", status=1)
