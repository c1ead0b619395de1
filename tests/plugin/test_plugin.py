"""The plug-in of examples/plugin, built against the installed package, adds to the compiler what its lines say.

Its operators have symbolic sizes, become parts of kernels, are differentiated, and run on each target and in a step of training,
though no pass knows of them. Without one line of its registration, just that is missing.
"""

import json
import shutil
import subprocess

import example_models as models
import numpy
import pytest
from example_build import BUILD, EXAMPLE, ROOT, python, run, without

ts = pytest.importorskip("tensmith")
TENSMITH = BUILD / "bin/tensmith"
SHAPES = [(1, 3, 4), (2, 3, 41), (3, 3, 3), (1, 3, 128)]  # of rows that are vectors, leave rests, and are empty after the shift


@pytest.fixture(scope="session")
def example(plugin):
    ts.load_plugin(plugin)
    return plugin


def drawn(*shape):
    return models.RANDOM.standard_normal(shape, dtype="f")


def expect_denoised(model, x, tolerance=1e-6):
    for got, wanted in zip(model(x), models.denoised(x), strict=True):
        numpy.testing.assert_allclose(got, wanted, atol=tolerance)


def kernels(path, *options):
    """By name, as `tensmith compile --why` has them."""
    return json.loads(run(TENSMITH, "compile", path, "--why", "--json", "-o", path.with_suffix(".so"), *options))["why"]


# ---- what the operators can do ----


@pytest.mark.parametrize("form", [{}, {"reference": True}, {"fuse": False}])
def test_operators_run_at_all_sizes(example, form):
    model = ts.compile(models.denoise(), **form)
    for shape in SHAPES:
        expect_denoised(model, drawn(*shape))


def test_sizes_are_checked(example):
    """Breaks if (D2) isn't a condition on the open size: the shift is 3."""
    with pytest.raises(ts.Error, match=r"\(D2\) the shift 3 is more than the size of the dimension, 2"):
        ts.compile(models.denoise())(drawn(1, 3, 2))
    with pytest.raises(ts.Error, match=r"\(D2\)"):
        ts.compile(models.denoise(), shapes={"columns": 2})


def test_operators_are_parts_of_kernels(example, tmp_path):
    (tmp_path / "m.onnx").write_bytes(models.denoise())
    told = kernels(tmp_path / "m.onnx", "--plugin", example)
    assert told["by_reference"] == []
    names = {kernel["kernel"]: kernel["by"] for kernel in told["kernels"]}
    assert len(names) == 2, names
    assert any("soft_threshold" in name and "mul" in name and "add" in name for name in names), names  # one kernel of the three
    by = next(by for name, by in names.items() if "difference" in name)
    assert by.startswith("differences"), by  # the plug-in's template


@pytest.mark.parametrize("target", [None, "four:plain"])
def test_operators_are_differentiated(example, target):
    model = ts.compile(models.trained(), overridable=["w", "t"], derivatives=[("grad", "loss", ["w", "t"])], target=target)
    x, w, t = drawn(4, 5), drawn(5, 7), numpy.abs(drawn(5))
    results = dict(zip([port["name"] for port in model.outputs], model(x=x, w=w, t=t)))
    wide = [value.astype(float) for value in (x, w, t)]
    for name, place in (("w", 1), ("t", 2)):
        def loss(value):
            return models.trained_loss(*wide[:place], value, *wide[place + 1 :])

        numpy.testing.assert_allclose(results[f"gradient.{name}"], models.gradient_by_differences(loss, wide[place]), atol=1e-4)


@pytest.mark.parametrize("target", [None, "four:plain"])
def test_a_step_of_training(example, target):
    step = ts.train_step(models.trained(), loss="loss", optimiser="sgd", learning_rate=0.1, target=target)
    w, t = step.state["w"].copy(), step.state["t"].copy()
    losses = []
    for _ in range(3):
        x = drawn(6, 5)
        losses.append(float(step(x=x)["loss"]))
        assert losses[-1] == pytest.approx(models.trained_loss(x, w, t), rel=1e-4)
        wide = [value.astype(float) for value in (x, w, t)]
        w = w - 0.1 * models.gradient_by_differences(lambda value: models.trained_loss(wide[0], value, wide[2]), wide[1]).astype("f")
        t = t - 0.1 * models.gradient_by_differences(lambda value: models.trained_loss(wide[0], wide[1], value), wide[2]).astype("f")
        numpy.testing.assert_allclose(step.state["w"], w, atol=1e-4)
        numpy.testing.assert_allclose(step.state["t"], t, atol=1e-4)


@pytest.mark.parametrize("target, preset, emulator", [
    ("aarch64:cortex-a53", "aarch64", ["qemu-aarch64", "-cpu", "cortex-a53"]),
    ("riscv64:rv64gcv,zvl256b", "riscv64", ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256,vext_spec=v1.0"]),
])  # fmt: skip
def test_operators_run_on_boards(example, tmp_path, target, preset, emulator):
    """The module needs no plug-in where its kernels do all."""
    (tmp_path / "m.onnx").write_bytes(models.denoise())
    run(TENSMITH, "compile", tmp_path / "m.onnx", "--plugin", example, "--target", target, "-o", tmp_path / "m.so")
    x = drawn(2, 3, 41)
    numpy.save(tmp_path / "x.npy", x)
    told = run(*emulator, BUILD.parent / preset / "bin/tensmith-run", tmp_path / "m.so", "--input", f"x={tmp_path / 'x.npy'}",
               "--out", tmp_path / "out")  # fmt: skip
    for output, wanted in zip(json.loads(told)["outputs"], models.denoised(x), strict=True):
        numpy.testing.assert_allclose(numpy.load(output["file"]), wanted, atol=1e-6)


# ---- the rewrite, the template, the target ----


def test_rewrite_recognises_the_operator(example, tmp_path):
    (tmp_path / "m.onnx").write_bytes(models.written_out())
    told = kernels(tmp_path / "m.onnx", "--plugin", example)
    assert [kernel["kernel"] for kernel in told["kernels"]] == ["soft_threshold"]
    assert "soft_threshold" not in json.dumps(kernels(tmp_path / "m.onnx"))
    x = drawn(5, 8)
    x[0, :3] = numpy.nan, numpy.inf, -numpy.inf
    numpy.testing.assert_array_equal(ts.compile(models.written_out())(x), models.soft_threshold(x, numpy.float32(0.5)))


def test_rewrite_is_a_pass(example, tmp_path):
    """In tensmith-opt, which has the compiler's names in itself, too."""
    text = """func.func @main(%x: tensor<4xf32>, %t: tensor<f32>) -> tensor<4xf32> {
      %zero = graph.constant {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
      %n = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
      %a = graph.sub %x, %t : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %b = graph.sub %n, %t : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %c = graph.max %a, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %d = graph.max %b, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %y = graph.sub %c, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }"""
    (tmp_path / "g.mlir").write_text(text)
    made = run(BUILD / "bin/tensmith-opt", f"--plugin={example}", "--example-recognise-soft-threshold", tmp_path / "g.mlir")
    assert "example.soft_threshold %" in made and "graph.max" not in made


def test_template_takes_its_choice(example, tmp_path):
    (tmp_path / "m.onnx").write_bytes(models.denoise())
    spaces = json.loads(run(TENSMITH, "inspect", tmp_path / "m.onnx", "--plugin", example, "--spaces", "--json"))
    own = next(space for space in spaces if space.get("template") == "differences")
    assert {"choice": "difference_vectors", "values": [1, 2, 4, 8]} in [
        {"choice": choice["choice"], "values": choice["values"]} for choice in own["choices"]]  # fmt: skip
    x = drawn(2, 3, 77)
    for vectors in (1, 8):
        (tmp_path / "s.json").write_text(json.dumps({"schedules": [{"kernel": own["kernel"], "difference_vectors": vectors}]}))
        model = ts.compile(models.denoise(), schedules=tmp_path / "s.json")
        assert f"{vectors} vectors of" in json.dumps(model.describe())
        expect_denoised(model, x)


def test_target_runs_kernels_of_all_kinds(example):
    """Through C, those that no plug-in knows of among them."""
    from onnx import helper

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Softmax", ["h"], ["s"], axis=-1),
        helper.make_node("Erf", ["s"], ["e"]),
        helper.make_node("ReduceMax", ["h"], ["largest"], axes=[1], keepdims=1),
        helper.make_node("Floor", ["largest"], ["f"]),
        helper.make_node("Transpose", ["h"], ["turned"], perm=[1, 0]),
        helper.make_node("Add", ["e", "f"], ["y"]),
        helper.make_node("Exp", ["turned"], ["z"]),
    ]
    model = models.model_of(nodes, {"x": ["n", 19]}, {"w": drawn(19, 23)}, ["y", "z"])
    here, there = ts.compile(model), ts.compile(model, target="four:plain")
    for rows in (1, 6, 33):
        x = drawn(rows, 19)
        for got, wanted in zip(there(x), here(x), strict=True):
            numpy.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    ours = ts.compile(models.denoise(), target="four:plain")
    for shape in SHAPES:
        expect_denoised(ours, drawn(*shape))
    assert "vectors of 4 side by side" in json.dumps(ours.describe())


def test_target_goes_through_c(example, tmp_path):
    (tmp_path / "m.onnx").write_bytes(models.denoise())
    run(TENSMITH, "compile", tmp_path / "m.onnx", "--plugin", example, "--target", "four:plain", "--dump-ir", tmp_path / "ir", "-o", tmp_path / "m.so")
    assert any("e[i]" in path.read_text() for path in (tmp_path / "ir").glob("*.c"))
    with pytest.raises(ts.Error, match="there is no machine 'four:fancy'"):
        ts.compile(models.denoise(), target="four:fancy")


# ---- loading ----


def test_command_line_runs_models_and_modules(example, tmp_path):
    """A module that leaves an operator to its reference needs the plug-in where it runs, and says so."""
    (tmp_path / "m.onnx").write_bytes(models.denoise())
    module, x = tmp_path / "m.so", "x=1x3x8xf32=ones"
    run(TENSMITH, "run", tmp_path / "m.onnx", "--plugin", example, "--input", x)
    run(TENSMITH, "compile", tmp_path / "m.onnx", "--plugin", example, "--evaluate-by-reference", "-o", module)
    run(TENSMITH, "run", module, "--plugin", example, "--input", x)
    refused = subprocess.run([TENSMITH, "run", module, "--input", x], capture_output=True, text=True)
    assert refused.returncode == 1 and "'example.soft_threshold'" in refused.stderr and "load the plug-in" in refused.stderr


def test_command_line_trains(example, tmp_path):
    (tmp_path / "m.onnx").write_bytes(models.thresholds())
    x = drawn(64, 5)
    y = x @ numpy.ones((5, 3), "f")
    numpy.savez(tmp_path / "data.npz", x=x, y=y)
    run(TENSMITH, "train", tmp_path / "m.onnx", "--plugin", example, "--data", tmp_path / "data.npz", "--loss", "mean_squared_error",
        "--epochs", 2, "--batch", 16, "--output", tmp_path / "run")  # fmt: skip
    before, after = (numpy.mean((ts.compile(path)(x) - y) ** 2) for path in (tmp_path / "m.onnx", tmp_path / "run/model.onnx"))
    assert after < before


def test_loading_again_is_nothing(example):
    ts.load_plugin(example)


def test_what_is_no_plugin_is_refused(example, tmp_path):
    def refusal(path):
        with pytest.raises(ts.Error) as caught:
            ts.load_plugin(path)
        assert str(path) in str(caught.value)
        return str(caught.value)

    (tmp_path / "text.so").write_text("no library")
    assert "there is no such file" in refusal(tmp_path / "none.so")
    assert "is no shared library" in refusal(tmp_path / "text.so")
    assert "is no plug-in of Tensmith" in refusal(next((BUILD / "lib").glob("libtensmith_runtime.so")))
    # Of another build: its stamp is looked at before anything of it runs.
    contents = example.read_bytes()
    assert contents.count(b", interface ") == 1
    (tmp_path / "other.so").write_bytes(contents.replace(b", interface ", b", interfase "))
    assert "was built for Tensmith" in refusal(tmp_path / "other.so")
    # With names that are taken: by itself, under another path.
    shutil.copy(example, tmp_path / "twice.so")
    assert "already" in refusal(tmp_path / "twice.so")
    expect_denoised(ts.compile(models.denoise()), drawn(1, 3, 9))


def test_a_stale_module_is_not_served(example, tmp_path):
    """Breaks if a module that was kept without the plug-in is found with it: the rewrite makes another one of the model."""
    (tmp_path / "m.onnx").write_bytes(models.written_out())
    told = python("""
import json, sys, os
import tensmith as ts
from tensmith.ort import InferenceSession
import example_models
plugin, model, cache = sys.argv[1:]
os.environ["TENSMITH_CACHE"] = cache
def labels():
    InferenceSession(model)
    return sum(name.endswith(".module") for name in os.listdir(cache))
counts = [labels(), labels()]
ts.load_plugin(plugin)
print(json.dumps(counts + [labels(), labels()]))
""", example, tmp_path / "m.onnx", tmp_path / "cache")  # fmt: skip
    assert told == [1, 1, 2, 2]


# ---- each line of the registration is needed ----

COMPILE = """
import json, sys
import numpy
import tensmith as ts
import example_models as models
ts.load_plugin(sys.argv[1])
def outcome(work):
    try:
        return str(work())
    except ts.Error as error:
        return "refused: " + str(error)
x = numpy.linspace(-2, 2, 24, dtype="f").reshape(1, 3, 8)
def run(**options):
    got = ts.compile(models.denoise(), **options)(x)
    return all(numpy.allclose(a, b, atol=1e-6) for a, b in zip(got, models.denoised(x), strict=True))
print(json.dumps({
    "runs": outcome(run),
    "reference": outcome(lambda: run(reference=True)),
    "gradient": outcome(lambda: bool(ts.train_step(models.trained(), loss="loss")(x=numpy.ones((2, 5), "f")))),
    "rewrite": outcome(lambda: "soft_threshold" in json.dumps(ts.compile(models.written_out()).describe())),
    "template": outcome(lambda: "differences, " in json.dumps(ts.compile(models.denoise()).describe())),
    "target": outcome(lambda: run(target="four:plain")),
}))
"""
ALL = dict.fromkeys(["runs", "reference", "gradient", "rewrite", "template", "target"], "True")


def test_with_all_lines_all_works(plugin):
    assert python(COMPILE, plugin) == ALL


@pytest.mark.parametrize("line, missing", [
    ("registry.add(example::kNames);", {"runs": "operator 'SoftThreshold', domain 'example'", "reference": "refused", "gradient": "refused",
                                        "template": "refused", "target": "refused"}),
    ("registry.add(example::gradients());", {"gradient": "soft_threshold"}),
    ("registry.add(example::kRewrites);", {"rewrite": "False"}),
    ("registry.add(example::kDifferences);", {"template": "False"}),
    ("registry.add(example::kTargets);", {"target": "four"}),
])  # fmt: skip
def test_without_a_line_just_that_is_missing(plugin, tmp_path, line, missing):
    told = python(COMPILE, without(line, tmp_path))
    for name, outcome in ALL.items():
        if name not in missing:
            assert told[name] == outcome, (name, told[name])
        else:
            assert told[name] != outcome and missing[name] in told[name], (name, told[name])


@pytest.mark.parametrize("line, words", [
    ("registry.addDialect<example::ExampleDialect>();", "is of an operator that there isn't, 'example."),
    ("registry.add(example::references());", "has no reference"),
])  # fmt: skip
def test_without_what_the_others_need_it_is_refused(plugin, tmp_path, line, words):
    assert words in python("""
import json, sys
import tensmith as ts
try:
    ts.load_plugin(sys.argv[1])
except ts.Error as error:
    print(json.dumps(str(error)))
""", without(line, tmp_path))


def test_no_pass_knows_of_the_example():
    folders = ["base", "cache", "client", "compiler", "frontends", "python", "reference", "runtime", "tools", "train"]
    named = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix == ".cpp"
             and any(word in path.read_text(errors="replace").lower() for word in ("soft_threshold", "softthreshold", '"example.'))]  # fmt: skip
    assert named == [] and (EXAMPLE / "Plugin.cpp").exists()
