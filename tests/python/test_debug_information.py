"""Modules tell LLVM's DWARF readers, and so profilers, which nodes of a model each address is of."""

import os
import pathlib
import re
import shutil
import subprocess

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")

BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))
READER, SYMBOLS = shutil.which("llvm-dwarfdump-19"), shutil.which("llvm-symbolizer-19")
SMALL = [(8, 1), (16, 2), (16, 1)]
# ResNet-50's sixteen blocks, with an eighth of its channels.
RESNET_50 = [(channels, 2 if first and channels > 8 else 1) for channels, count in ((8, 3), (16, 4), (32, 6), (64, 3))
             for first in [True, *[False] * (count - 1)]]  # fmt: skip


def residual_network(path, blocks, widened=1):
    """A network of ResNet's kind, in whose blocks the last of three convolutions has so many times the channels, where `widened` is more than 1;
    returns its nodes' names in their order."""
    random = numpy.random.default_rng(0)
    nodes, weights = [], []

    def constant(name, *shape):
        weights.append(numpy_helper.from_array((random.random(shape) * 0.2 + 0.1).astype("float32"), name))
        return name

    def node(operator, name, operands, **attributes):
        nodes.append(helper.make_node(operator, operands, [f"{name}.y"], name=name, **attributes))
        return f"{name}.y"

    def convolution(name, x, before, after, window, stride):
        x = node("Conv", name, [x, constant(f"{name}.w", after, before, window, window)], strides=[stride] * 2, pads=[window // 2] * 4)
        return node("BatchNormalization", f"{name}_norm", [x, *(constant(f"{name}.{part}", after) for part in "sbmv")])

    x, channels = node("Relu", "stem_relu", [convolution("stem", "x", 3, 8, 7, 2)]), 8
    x = node("MaxPool", "pool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for i, (after, stride) in enumerate(blocks):
        if widened > 1:
            y = node("Relu", f"block{i}_relu0", [convolution(f"block{i}_conv0", x, channels, after, 1, 1)])
            y = node("Relu", f"block{i}_relu1", [convolution(f"block{i}_conv1", y, after, after, 3, stride)])
            after *= widened
            y = convolution(f"block{i}_conv2", y, after // widened, after, 1, 1)
        else:
            y = node("Relu", f"block{i}_relu1", [convolution(f"block{i}_conv1", x, channels, after, 3, stride)])
            y = convolution(f"block{i}_conv2", y, after, after, 3, 1)
        if stride != 1 or channels != after:
            x = convolution(f"block{i}_shortcut", x, channels, after, 1, stride)
        x, channels = node("Relu", f"block{i}_relu2", [node("Add", f"block{i}_add", [y, x])]), after
    x = node("Flatten", "flatten", [node("GlobalAveragePool", "average", [x])])
    node("Gemm", "classes", [x, constant("classes.w", channels, 10), constant("classes.b", 10)])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 64, 64])]
    outputs = [helper.make_tensor_value_info("classes.y", TensorProto.FLOAT, [1, 10])]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return [(node.name, node.op_type) for node in nodes]


# Breaks when a node that is computed is named by no address, or a function's addresses are of no line of the model.
@pytest.mark.skipif(not READER or not SYMBOLS, reason="needs LLVM 19's llvm-dwarfdump and llvm-symbolizer")
@pytest.mark.parametrize("blocks, widened", [(SMALL, 1), (RESNET_50, 4)], ids=["small", "ResNet-50"])
def test_a_residual_network_is_named_by_its_addresses(tmp_path, blocks, widened):
    nodes = residual_network(tmp_path / "residual.onnx", blocks, widened)
    tensmith.compile(tmp_path / "residual.onnx", target="x86-64-v3").save(tmp_path / "residual.so")
    told = subprocess.run([READER, "--debug-info", tmp_path / "residual.so"], capture_output=True, text=True, check=True).stdout
    labels = set(re.findall(r'DW_AT_name\s+\("(.*)"\)', told))
    # Normalisations are folded into the weights, and what only counts elements in another way is nothing in a module.
    missing = [name for name, operator in nodes if operator not in ("BatchNormalization", "Flatten") and f"{name} ({operator})" not in labels]
    assert not missing, (missing, labels)
    functions = [(int(low, 16), int(high, 16)) for low, high in re.findall(
        r"DW_TAG_subprogram(?:\n.+)*?\n\s+DW_AT_low_pc\s+\(0x(\w+)\)\n\s+DW_AT_high_pc\s+\(0x(\w+)\)", told)]  # fmt: skip
    assert len(functions) >= 8, told[:2000]
    for low, high in functions:
        said = subprocess.run([SYMBOLS, f"--obj={tmp_path / 'residual.so'}", hex((low + high) // 2)], capture_output=True, text=True, check=True).stdout
        line = re.search(r"residual\.onnx:(\d+):", said)
        assert line and 1 <= int(line[1]) <= len(nodes), said
        assert f"{nodes[int(line[1]) - 1][0]} (" in said.splitlines()[0], said
    assert subprocess.run([READER, "--verify", tmp_path / "residual.so"], capture_output=True).returncode == 0


def records(tmp_path):
    """Whether perf may take samples here."""
    return shutil.which("perf") and subprocess.run(["perf", "record", "-e", "cpu-clock", "-o", tmp_path / "none.data", "true"], capture_output=True).returncode == 0


PROGRAM = """
fn main(x: f32[300, 300]) =
  tanh(x @ x +
       x @ transpose(x, permutation = [1, 0]))
"""


# Breaks when perf's samples or gdb's addresses are of no node and line of the model's file, be it ONNX or a program.
@pytest.mark.parametrize("kind", ["onnx", "tsm"])
def test_perf_and_gdb_name_nodes_and_lines(tmp_path, kind):
    model, module = tmp_path / f"model.{kind}", tmp_path / "model.so"
    if kind == "onnx":
        lines = len(residual_network(model, SMALL))
    else:
        model.write_text(PROGRAM)
        lines = len(PROGRAM.splitlines())
    tensmith.compile(model, target="x86-64-v3").save(module)
    named, line = re.compile(r"\[\w+ \(Conv\)" if kind == "onnx" else r"\[.*(matmul|main)"), re.compile(rf"model\.{kind}:(\d+)")
    tried = False
    if records(tmp_path):
        tried, data = True, tmp_path / "perf.data"
        command = [BUILD / "bin/tensmith", "bench", module, "--threads", "1", "--runs", "2000"]
        subprocess.run(["perf", "record", "-e", "cpu-clock", "-F", "2000", "-o", data, *command], capture_output=True, check=True)

        def report(*arguments):
            return subprocess.run(["perf", *arguments, "-i", data, "--stdio"], capture_output=True, text=True, check=True).stdout

        symbols = [row.split("[.] ", 1)[1].strip() for row in report("report", "--sort", "sym").splitlines() if "[.] " in row]
        ours = [symbol for symbol in symbols if named.search(symbol)]
        assert ours, symbols
        assert any(1 <= int(number) <= lines for number in line.findall(report("report", "--sort", "srcline")))
        annotated = report("annotate", "-l", "-s", ours[0])
        assert ours[0][:40] in annotated and line.search(annotated), annotated[:2000]
    if shutil.which("gdb"):
        tried = True
        listed = subprocess.run(["gdb", "-nx", "-batch", "-ex", "info functions -n .", module], capture_output=True, text=True).stdout
        numbers = [int(row.split(":")[0]) for row in listed.splitlines() if re.match(r"\d+:", row)]
        assert f"model.{kind}" in listed and numbers and all(1 <= number <= lines for number in numbers), listed[:2000]
        assert named.search(listed), listed[:2000]
    if not tried:
        pytest.skip("needs perf, with the right to take samples, or gdb")
