"""tensmith-run, the program that runs modules where there is nothing else: it computes what the Python package computes from the
same module, and refuses what it is not given or can't take by name. Built for boards, it does so under qemu-user.
"""

import json
import os
import pathlib
import struct
import subprocess

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_cli import ROOT, TENSMITH, model, pytestmark, tensmith, weights  # noqa: F401 (fixtures)

PROGRAM = TENSMITH.with_name("tensmith-run")
MACHINES = {"x86-64": 62, "AArch64": 183, "32-bit Arm": 40, "RISC-V": 243}
# The presets' names, with who runs their programs here.
BOARDS = {"aarch64": ("qemu-aarch64", "AArch64"), "armv7": ("qemu-arm", "32-bit Arm"), "riscv64": ("qemu-riscv64", "RISC-V")}
X = numpy.arange(6, dtype=numpy.float32).reshape(2, 3) - 2


@pytest.fixture(scope="module")
def module(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("module") / "tiny.so"
    tensmith("compile", model, "-o", path)
    return path


@pytest.fixture(scope="module")
def x(tmp_path_factory):
    path = tmp_path_factory.mktemp("inputs") / "x.npy"
    numpy.save(path, X)
    return path


def run(*arguments, status=0, program=(PROGRAM,)):
    done = subprocess.run([*program, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def refused(*arguments, status=1, program=(PROGRAM,)):
    said = run(*arguments, status=status, program=program).stderr
    assert said.startswith("tensmith-run: ") and said.count("\n") == 1, said
    return said


def test_it_is_static():
    if "asan" in str(PROGRAM) or "tsan" in str(PROGRAM):
        pytest.skip("sanitizers' libraries are shared ones")
    headers = subprocess.run(["readelf", "-lW", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers and "DYNAMIC" not in headers


def test_outputs_are_those_of_the_package(tmp_path, module, x):
    package = pytest.importorskip("tensmith")
    said = json.loads(run(module, "--input", f"x={x}", "--out", tmp_path / "results", "--repeat", 5).stdout)
    (expected,) = package.load(str(module)).run(x=X)
    (output,) = said["outputs"]
    numpy.testing.assert_array_equal(numpy.load(output["file"]), expected)
    assert output["file"] == str(tmp_path / "results/y.npy")
    assert (output["name"], output["type"], output["shape"]) == ("y", "f32", [2, 4])
    assert said["inputs"] == [{"name": "x", "type": "f32", "shape": [2, 3]}]
    assert said["runs"] == 5 and 0 < said["min_ms"] <= said["median_ms"] <= said["max_ms"]
    assert said["peak_memory_bytes"] > 1 << 20 and said["first_ms"] > 0 and said["load_ms"] > 0


def test_the_only_input_needs_no_name_and_one_run_has_no_median(module, x):
    said = json.loads(run(module, "--input", x, "--threads", 1).stdout)
    assert said["threads"] == 1 and "median_ms" not in said


def test_made_up_inputs(module):
    said = json.loads(run(module, "--input", "x=7x3xf32=random").stdout)
    assert said["outputs"][0]["shape"] == [7, 4]
    assert json.loads(run(module, "-i", "x=random", "--shape", "batch=2").stdout)["inputs"][0]["shape"] == [2, 3]


def test_signature_and_machine(module):
    said = json.loads(run(module, "--signature").stdout)
    assert said["inputs"] == [{"name": "x", "type": "f32", "shape": ["batch", "3"]}]
    machine = json.loads(run("--machine").stdout)
    assert machine["machine"] in MACHINES and machine["cpus"] >= 1 and machine["features"]


def test_inputs_that_are_missing_or_wrong(tmp_path, module, x):
    assert "input 'x' (f32 batchx3) is not given; give --input x=file.npy" in refused(module, status=2)
    for wrong, words in [
        (X.astype(numpy.float64), "input 'x': expected f32 batchx3, got f64 2x3: the element type differs"),
        (X.reshape(6), "input 'x': expected f32 batchx3, got f32 6: it must have 2 dimensions"),
        (X.reshape(3, 2), "input 'x': expected f32 batchx3, got f32 3x2: dimension 1 must be 3, but is 2"),
    ]:
        numpy.save(tmp_path / "wrong.npy", wrong)
        assert words in refused(module, "--input", f"x={tmp_path / 'wrong.npy'}")
    assert "has no input 'z'; it has: x" in refused(module, "--input", f"z={x}", status=2)
    assert "given twice" in refused(module, "--input", f"x={x}", "--input", f"x={x}", status=2)
    assert "x.png" in refused(module, "--input", "x=x.png", status=2)
    assert "nowhere.npy" in refused(module, "--input", "x=nowhere.npy")
    (tmp_path / "cut.npy").write_bytes(x.read_bytes()[:-3])
    assert "cut.npy" in refused(module, "--input", f"x={tmp_path / 'cut.npy'}")


def test_words_that_are_not_meant(module):
    assert "--help" in refused(status=2)
    assert "--help" in refused(module, "--repeat", 0, status=2)
    assert "--sped" in refused(module, "--sped", status=2)
    assert "--input" in run("--help").stdout


def test_modules_cut_off_anywhere(tmp_path, module):
    data, path = module.read_bytes(), tmp_path / "cut.so"
    for size in [0, 1, 63, 64, 100, 4096, len(data) // 2, len(data) - 5000, len(data) - 1]:
        path.write_bytes(data[:size])
        assert str(path) in refused(path, "--signature")
    assert "is not" in refused(tmp_path, "--signature") or "no regular file" in refused(tmp_path, "--signature")
    assert "nowhere.so" in refused("nowhere.so")


def program_for(preset):
    """tensmith-run for a board, which ./test builds."""
    program = ROOT / "build" / preset / "bin/tensmith-run"
    assert program.exists(), f"cmake --preset {preset} && cmake --build --preset {preset} --target tensmith-run"
    return program


def sealed_for(module, path, machine):
    """The module as if it were for another machine. Its hash does not fit then, so that the header of the ELF file has to be
    looked at first."""
    data = bytearray(module.read_bytes())
    struct.pack_into("<H", data, 18, MACHINES[machine])
    path.write_bytes(data)
    return path


def test_modules_for_other_machines(tmp_path, module):
    mine = json.loads(run("--machine").stdout)["machine"]
    for machine in MACHINES.keys() - {mine}:
        said = refused(sealed_for(module, tmp_path / "m.so", machine), "--signature")
        assert f"m.so: the module is for another machine ({machine}, this is {mine})" in said


@pytest.fixture(params=BOARDS, scope="module")
def board(request):
    """How the program for a board is called here, and what it calls the machine."""
    emulator, machine = BOARDS[request.param]
    return emulator, program_for(request.param), machine


def test_on_boards_other_machines_are_refused(board, module):
    emulator, program, machine = board
    assert json.loads(run("--machine", program=(emulator, program)).stdout)["machine"] == machine
    said = refused(module, "--signature", program=(emulator, program))
    assert f"the module is for another machine (x86-64, this is {machine})" in said


# Breaks if a feature is taken from elsewhere than the CPU, or is not called as LLVM calls it.
@pytest.mark.parametrize("emulator, preset, cpu, has, lacks", [
    ("qemu-aarch64", "aarch64", "cortex-a53", {"neon", "crc"}, {"dotprod", "sve", "i8mm", "fullfp16"}),
    ("qemu-aarch64", "aarch64", "cortex-a76", {"neon", "dotprod", "fullfp16", "lse"}, {"sve", "i8mm", "bf16"}),
    ("qemu-aarch64", "aarch64", "max,sve-max-vq=2", {"dotprod", "i8mm", "bf16", "sve", "sve2", "sve256"}, {"sve512"}),
    ("qemu-aarch64", "aarch64", "a64fx", {"sve", "sve512"}, {"sve256", "dotprod"}),
    ("qemu-arm", "armv7", "cortex-a7", {"neon", "vfp4", "hwdiv"}, {"dotprod", "crc"}),
    ("qemu-arm", "armv7", "cortex-a9", {"neon", "vfp3"}, {"vfp4", "hwdiv"}),
    ("qemu-riscv64", "riscv64", "rv64,v=true,vlen=256", {"m", "f", "d", "v", "zvl128b", "zvl256b"}, {"zvl512b"}),
    ("qemu-riscv64", "riscv64", "rv64", {"m", "a", "f", "d", "c"}, {"v", "zvl128b"}),
])  # fmt: skip
def test_features_of_boards(emulator, preset, cpu, has, lacks):
    program = program_for(preset)
    features = set(json.loads(run("--machine", program=(emulator, "-cpu", cpu, program)).stdout)["features"])
    assert has <= features and not lacks & features


BOARD_TARGETS = [
    ("aarch64:cortex-a53", "aarch64", ("qemu-aarch64", "-cpu", "cortex-a53")),
    ("aarch64:neoverse-v1", "aarch64", ("qemu-aarch64", "-cpu", "max,sve-max-vq=2")),
    ("aarch64:a64fx", "aarch64", ("qemu-aarch64", "-cpu", "a64fx")),
    ("riscv64:rv64gcv,zvl256b", "riscv64", ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=256")),
    ("armv7:cortex-a7", "armv7", ("qemu-arm", "-cpu", "cortex-a7")),
]


# The example that classifies pictures: convolutions, products, pools.
@pytest.mark.parametrize("target, preset, emulator", BOARD_TARGETS, ids=[target for target, *_ in BOARD_TARGETS])
def test_models_for_boards_give_what_they_give_here(tmp_path, target, preset, emulator):
    picture = numpy.random.default_rng(3).random((1, 1, 28, 28), dtype=numpy.float32)
    numpy.save(tmp_path / "x.npy", picture)
    outputs = []
    for name, program in (("host", (PROGRAM,)), (target, (*emulator, program_for(preset)))):
        tensmith("compile", ROOT / "examples/fashion/fashion.onnx", "--target", name, "-o", tmp_path / "m.so")
        port = json.loads(run(tmp_path / "m.so", "--signature", program=program).stdout)["inputs"][0]["name"]
        said = run(tmp_path / "m.so", "--input", f"{port}={tmp_path / 'x.npy'}", "--out", tmp_path / "out", program=program)
        outputs.append(numpy.load(json.loads(said.stdout)["outputs"][0]["file"]))
    numpy.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", [target for target, *_ in BOARD_TARGETS])
def test_modules_for_boards_are_inspected_here(tmp_path, model, target):
    """Breaks if what describes a module maps its code, or looks for the CPU's features."""
    tensmith("compile", model, "--target", target, "-o", tmp_path / "m.so")
    shown = json.loads(tensmith("inspect", "--json", tmp_path / "m.so").stdout)
    assert shown["kernels"] and shown["inputs"][0]["name"] == "x"
    of_model = json.loads(tensmith("inspect", "--json", model, "--target", target).stdout)
    assert of_model["kernels"] == shown["kernels"]
    said = tensmith("run", tmp_path / "m.so", status=1).stderr
    assert "m.so: the module is for another machine" in said


def test_a_board_without_dot_products_refuses_code_that_has_them(tmp_path, model):
    tensmith("compile", model, "--target", "aarch64:cortex-a76", "-o", tmp_path / "m.so")
    program = ("qemu-aarch64", "-cpu", "cortex-a53", program_for("aarch64"))
    assert "needs CPU features that this machine lacks: dotprod" in refused(tmp_path / "m.so", "--signature", program=program)


def test_a_board_of_other_vectors_refuses_code_for_longer_ones(tmp_path, model):
    tensmith("compile", model, "--target", "aarch64:neoverse-v1", "-o", tmp_path / "m.so")
    for longest in (1, 4):
        program = ("qemu-aarch64", "-cpu", f"max,sve-max-vq={longest}", program_for("aarch64"))
        assert "needs CPU features that this machine lacks: sve256" in refused(tmp_path / "m.so", "--signature", program=program)


def quantised(signed):
    """A padded convolution and a product of codes with zero points, of activations of either sign."""
    random = numpy.random.default_rng(5)
    kind, zero = (numpy.int8, -7) if signed else (numpy.uint8, 121)
    scalars = {"sx": numpy.float32(0.04), "zx": kind(zero), "sw": numpy.float32(0.01), "zw": numpy.int8(0),
               "sy": numpy.float32(0.1), "zy": kind(zero + 3)}
    weights = {"w": random.integers(-127, 128, (16, 8, 3, 3)).astype(numpy.int8),
               "v": random.integers(-127, 128, (16, 24)).astype(numpy.int8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "sy", "zy"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "sy", "zy"], ["cd"]),
        helper.make_node("GlobalAveragePool", ["cd"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "sy", "zy"], ["fq"]),
        helper.make_node("DequantizeLinear", ["fq", "sy", "zy"], ["fd"]),
        helper.make_node("DequantizeLinear", ["v", "sw", "zw"], ["vd"]),
        helper.make_node("MatMul", ["fd", "vd"], ["y"]),
    ]
    constants = [numpy_helper.from_array(numpy.asarray(value), name) for name, value in {**scalars, **weights}.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8, 9, 11])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 24])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# The machine multiplies signed bytes alone (cortex-a76), or unsigned by signed ones as well (neoverse-v1), or none.
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("cpu, emulated", [("cortex-a53", "cortex-a53"), ("cortex-a76", "cortex-a76"), ("neoverse-v1", "max,sve-max-vq=2")])
def test_codes_on_boards_give_what_they_give_here(tmp_path, cpu, emulated, signed):
    (tmp_path / "q.onnx").write_bytes(quantised(signed).SerializeToString())
    numpy.save(tmp_path / "x.npy", numpy.random.default_rng(6).standard_normal((2, 8, 9, 11), dtype=numpy.float32) * 2)
    outputs = []
    for target, program in (("host", (PROGRAM,)), (f"aarch64:{cpu}", ("qemu-aarch64", "-cpu", emulated, program_for("aarch64")))):
        tensmith("compile", tmp_path / "q.onnx", "--target", target, "-o", tmp_path / "m.so")
        said = run(tmp_path / "m.so", "--input", f"x={tmp_path / 'x.npy'}", "--out", tmp_path / "out", program=program)
        outputs.append(numpy.load(json.loads(said.stdout)["outputs"][0]["file"]))
    # A code may be another where a sum lies halfway between two.
    numpy.testing.assert_allclose(outputs[1], outputs[0], atol=0.1 * 0.01 * 127 * 2)
    assert numpy.abs(outputs[0]).max() > 0.5


def coded_layers():
    """A pointwise, a depthwise and a padded convolution of codes, with biases and scales for each channel: widths fill no vector."""
    random = numpy.random.default_rng(3)
    codes = lambda *shape: random.integers(-127, 128, shape).astype(numpy.int8)  # noqa: E731
    scales = lambda: (random.random(22) * 0.01 + 0.002).astype(numpy.float32)  # noqa: E731
    constants = {
        "sx": numpy.float32(0.03), "zx": numpy.uint8(119), "sc": numpy.float32(0.05), "zc": numpy.uint8(0), "sy": numpy.float32(0.2),
        "zy": numpy.uint8(131), "low": numpy.float32(0), "high": numpy.float32(6), "sa": scales(), "sd": scales(), "zw": numpy.zeros(22, numpy.int8),
        "sp": numpy.float32(0.01), "zp": numpy.int8(0), "a": codes(22, 9, 1, 1), "d": codes(22, 1, 3, 3), "p": codes(13, 22, 3, 3),
        "ba": random.standard_normal(22).astype(numpy.float32), "bd": random.standard_normal(22).astype(numpy.float32),
    }  # fmt: skip

    def coded(x, scale, zero, y):
        return [helper.make_node("QuantizeLinear", [x, scale, zero], [y + "q"]), helper.make_node("DequantizeLinear", [y + "q", scale, zero], [y])]

    nodes = [
        *coded("x", "sx", "zx", "xd"),
        helper.make_node("DequantizeLinear", ["a", "sa", "zw"], ["af"], axis=0),
        helper.make_node("DequantizeLinear", ["d", "sd", "zw"], ["df"], axis=0),
        helper.make_node("DequantizeLinear", ["p", "sp", "zp"], ["pf"]),
        helper.make_node("Conv", ["xd", "af", "ba"], ["first"]),
        helper.make_node("Clip", ["first", "low", "high"], ["first6"]),
        *coded("first6", "sc", "zc", "second"),
        helper.make_node("Conv", ["second", "df", "bd"], ["third"], pads=[1, 1, 1, 1], group=22),
        helper.make_node("Clip", ["third", "low", "high"], ["third6"]),
        *coded("third6", "sc", "zc", "fourth"),
        helper.make_node("Conv", ["fourth", "pf"], ["last"], pads=[1, 1, 1, 1]),
        *coded("last", "sy", "zy", "y"),
    ]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 9, 11, 7])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 13, 11, 7])],
                              [numpy_helper.from_array(numpy.asarray(value), name) for name, value in constants.items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# Breaks if a scale, a bias or a zero point is counted twice or not at all where it is merged with others, or lanes of a row are mixed up.
@pytest.mark.parametrize("target, emulator", [
    ("host", ()), ("aarch64:cortex-a53", ("qemu-aarch64", "-cpu", "cortex-a53")), ("aarch64:cortex-a55", ("qemu-aarch64", "-cpu", "max")),
    ("aarch64:cortex-a76", ("qemu-aarch64", "-cpu", "cortex-a76")),
])  # fmt: skip
def test_layers_of_codes_are_those_of_onnxruntime(tmp_path, target, emulator):
    onnxruntime = pytest.importorskip("onnxruntime")
    (tmp_path / "c.onnx").write_bytes(coded_layers().SerializeToString())
    x = numpy.random.default_rng(4).standard_normal((2, 9, 11, 7)).astype(numpy.float32) * 2
    numpy.save(tmp_path / "x.npy", x)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = onnxruntime.InferenceSession(str(tmp_path / "c.onnx"), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    tensmith("compile", tmp_path / "c.onnx", "--target", target, "-o", tmp_path / "m.so")
    program = (*emulator, program_for("aarch64")) if emulator else (PROGRAM,)
    said = run(tmp_path / "m.so", "--input", f"x={tmp_path / 'x.npy'}", "--out", tmp_path / "out", program=program)
    apart = numpy.abs(numpy.load(json.loads(said.stdout)["outputs"][0]["file"]) - expected) / 0.2
    # The next code where a sum lies halfway between two, which is seldom.
    assert apart.max() < 1.5 and (apart > 0.5).mean() < 0.01 and numpy.unique(expected).size > 100


def codes_of(x, low, high):
    """Of numbers with the scale 1: ties to even, clamped; NaN has zero's code."""
    return numpy.nan_to_num(numpy.clip(numpy.rint(x), low, high), nan=0.0)


# Breaks if a clamp before the rounding gives another code than one behind it, or an instruction takes NaN, ties or what is out of
# range in a way of its own: of vectors and of what is left of them.
@pytest.mark.parametrize("target, emulator", [("host", ()), ("aarch64:cortex-a53", ("qemu-aarch64", "-cpu", "cortex-a53")),
                                              ("aarch64:cortex-a76", ("qemu-aarch64", "-cpu", "cortex-a76"))])  # fmt: skip
def test_codes_of_ties_extremes_and_nan(tmp_path, target, emulator):
    x = numpy.array([-300, -129, -128.5, -127.5, -1.5, -0.5, -0.0, 0, 0.5, 1.5, 2.5, 127.5, 128.5, 254.5, 255.5, 256, 3e9, -3e9,
                     numpy.inf, -numpy.inf, numpy.nan], numpy.float32)  # fmt: skip
    limits = {"u": (numpy.uint8, 0, 255), "s": (numpy.int8, -128, 127)}
    nodes, outputs, constants = [helper.make_node("Round", ["x"], ["r"])], [], []
    for name, (kind, low, high) in limits.items():
        of = helper.np_dtype_to_tensor_dtype(numpy.dtype(kind))
        constants += [numpy_helper.from_array(numpy.float32(value), f"{name}{end}") for end, value in (("l", low), ("h", high))]
        nodes += [helper.make_node("Clip", ["r", f"{name}l", f"{name}h"], [f"{name}c"]), helper.make_node("Cast", [f"{name}c"], [f"{name}y"], to=of)]
        outputs.append(helper.make_tensor_value_info(f"{name}y", of, [x.size]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [x.size])], outputs, constants)
    (tmp_path / "c.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    numpy.save(tmp_path / "x.npy", x)
    program = (*emulator, program_for("aarch64")) if emulator else (PROGRAM,)
    tensmith("compile", tmp_path / "c.onnx", "--target", target, "-o", tmp_path / "m.so")
    said = run(tmp_path / "m.so", "--input", f"x={tmp_path / 'x.npy'}", "--out", tmp_path / "out", program=program)
    for output in json.loads(said.stdout)["outputs"]:
        kind, low, high = limits[output["name"][0]]
        numpy.testing.assert_array_equal(numpy.load(output["file"]), codes_of(x, low, high).astype(kind))


HEIGHTS = (1, 2, 3, 5, 6, 7, 12, 13)


def products(depth, columns):
    """Products of each number of rows: of bytes of either sign, exact, and of bf16."""
    random = numpy.random.default_rng(9)
    w = random.integers(-128, 128, (depth, columns)).astype(numpy.int8)
    v = random.standard_normal((depth, columns)).astype(numpy.float32)
    nodes = [helper.make_node("Cast", ["v"], ["vh"], to=TensorProto.BFLOAT16), helper.make_node("Cast", ["vh"], ["vf"], to=1)]
    inputs, outputs, values, expected = [], [], {}, {}
    for rows in HEIGHTS:
        for kind, of in (("i", TensorProto.INT8), ("u", TensorProto.UINT8), ("f", TensorProto.FLOAT)):
            x, y = f"x{kind}{rows}", f"y{kind}{rows}"
            inputs.append(helper.make_tensor_value_info(x, of, [rows, depth]))
            outputs.append(helper.make_tensor_value_info(y, TensorProto.FLOAT if kind == "f" else TensorProto.INT32, [rows, columns]))
            if kind == "f":
                nodes += [helper.make_node("Cast", [x], [x + "h"], to=TensorProto.BFLOAT16),
                          helper.make_node("Cast", [x + "h"], [x + "f"], to=1), helper.make_node("MatMul", [x + "f", "vf"], [y])]
                values[x] = random.integers(-8, 9, (rows, depth)).astype(numpy.float32)
                rounded = (v.view(numpy.uint32) + 0x7FFF + (v.view(numpy.uint32) >> 16 & 1) & 0xFFFF0000).view(numpy.float32)
                expected[y] = values[x].astype(float) @ rounded
            else:
                nodes.append(helper.make_node("MatMulInteger", [x, "w"], [y]))
                low = -128 if kind == "i" else 0
                values[x] = random.integers(low, low + 256, (rows, depth)).astype(numpy.int8 if kind == "i" else numpy.uint8)
                expected[y] = values[x].astype(numpy.int32) @ w.astype(numpy.int32)
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(w, "w"), numpy_helper.from_array(v, "v")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), values, expected


# Breaks if rows that an instruction multiplies together get one another's sums, or one without a second is lost.
@pytest.mark.parametrize("depth, columns", [(64, 40), (21, 9)])
@pytest.mark.parametrize("target, preset, emulator", BOARD_TARGETS[1:], ids=[target for target, *_ in BOARD_TARGETS[1:]])
def test_products_of_any_number_of_rows(tmp_path, target, preset, emulator, depth, columns):
    made, values, expected = products(depth, columns)
    (tmp_path / "p.onnx").write_bytes(made.SerializeToString())
    tensmith("compile", tmp_path / "p.onnx", "--target", target, "-o", tmp_path / "m.so")
    arguments = []
    for name, value in values.items():
        numpy.save(tmp_path / f"{name}.npy", value)
        arguments += ["--input", f"{name}={tmp_path / name}.npy"]
    said = run(tmp_path / "m.so", *arguments, "--out", tmp_path / "out", program=(*emulator, program_for(preset)))
    found = {output["name"]: numpy.load(output["file"]) for output in json.loads(said.stdout)["outputs"]}
    for name, value in expected.items():
        if name.startswith("yf"):
            numpy.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-3)
        else:
            numpy.testing.assert_array_equal(found[name], value)


def wide_numbers():
    """64-bit integers and floats at the edges of their halves and of their signs."""
    random = numpy.random.default_rng(12)
    edges = [1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53 - 1, 2**53 + 1, 2**54 + 3, 2**62 + 1, 2**63 - 1]
    drawn = random.integers(1, 2**63 - 1, 40) >> random.integers(0, 62, 40)
    sizes = numpy.concatenate([numpy.array(edges, numpy.int64), numpy.maximum(drawn, 1)])
    integers = numpy.concatenate([sizes, -sizes, [numpy.iinfo(numpy.int64).min]]).astype(numpy.int64)
    halves = numpy.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 1e6 + 0.5, 2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**23 + 1, 2.0**31, 2.0**40 + 3, 2.0**52 - 0.5, 2.0**62])
    return integers, numpy.concatenate([halves, -halves])


# Breaks if what stands for a library's function on 32-bit Arm gives another number than the function.
def test_numbers_of_64_bits_on_32_bit_arm(tmp_path):
    integers, floats = wide_numbers()
    n, m = len(integers), len(floats)
    a, b = numpy.repeat(integers, n), numpy.tile(integers, n)
    kept = ~((a == numpy.iinfo(numpy.int64).min) & (b == -1))  # which is no number of 64 bits
    a, b = a[kept], b[kept]
    values = {"a": a, "b": b, "i": integers, "f": floats.astype(numpy.float32), "d": floats}
    kinds = {"a": TensorProto.INT64, "b": TensorProto.INT64, "i": TensorProto.INT64, "f": TensorProto.FLOAT, "d": TensorProto.DOUBLE}
    # Towards zero, and with the dividend's sign; Python's whole numbers are exact.
    quotients = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a.tolist(), b.tolist())]
    rests = [x - q * y for x, y, q in zip(a.tolist(), b.tolist(), quotients)]
    expected = {"div": (numpy.array(quotients, numpy.int64), TensorProto.INT64), "mod": (numpy.array(rests, numpy.int64), TensorProto.INT64),
                "if": (integers.astype(numpy.float32), TensorProto.FLOAT), "id": (integers.astype(numpy.float64), TensorProto.DOUBLE)}
    nodes = [helper.make_node("Div", ["a", "b"], ["div"]), helper.make_node("Mod", ["a", "b"], ["mod"], fmod=1),
             helper.make_node("Cast", ["i"], ["if"], to=TensorProto.FLOAT), helper.make_node("Cast", ["i"], ["id"], to=TensorProto.DOUBLE)]
    for x in "fd":
        nodes.append(helper.make_node("Cast", [x], [x + "i"], to=TensorProto.INT64))
        expected[x + "i"] = (values[x].astype(numpy.int64), TensorProto.INT64)
        for operator, meant in (("Floor", numpy.floor), ("Ceil", numpy.ceil), ("Round", numpy.round)):
            nodes.append(helper.make_node(operator, [x], [x + operator]))
            expected[x + operator] = (meant(values[x]), kinds[x])
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(x, kinds[x], values[x].shape) for x in values],
                              [helper.make_tensor_value_info(y, kind, value.shape) for y, (value, kind) in expected.items()])
    (tmp_path / "w.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    tensmith("compile", tmp_path / "w.onnx", "--target", "armv7:cortex-a7", "-o", tmp_path / "m.so")
    arguments = []
    for name, value in values.items():
        numpy.save(tmp_path / f"{name}.npy", value)
        arguments += ["--input", f"{name}={tmp_path / name}.npy"]
    said = run(tmp_path / "m.so", *arguments, "--out", tmp_path / "out", program=("qemu-arm", "-cpu", "cortex-a7", program_for("armv7")))
    for output in json.loads(said.stdout)["outputs"]:
        found, value = numpy.load(output["file"]), expected[output["name"]][0]
        numpy.testing.assert_array_equal(found, value, err_msg=output["name"])
        assert (numpy.signbit(found) == numpy.signbit(value)).all(), output["name"]
