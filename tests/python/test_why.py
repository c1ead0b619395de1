"""`tensmith compile --why`: each boundary between kernels has its reason, and the reasons are those of the graph."""

import json
import pathlib
import subprocess
import sys

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.utils import Extractor

tensmith = pytest.importorskip("tensmith")
COMMAND = pathlib.Path(tensmith.__file__).resolve().parents[2] / "bin/tensmith"
ROOT = pathlib.Path(__file__).resolve().parents[2]
FASHION = ROOT / "examples/fashion/fashion.onnx"
sys.path.insert(0, str(ROOT / "bench"))

import weights  # noqa: E402


def told(path, *options):
    done = subprocess.run([COMMAND, "compile", path, "-o", path.with_suffix(".so"), "--why", *options], capture_output=True, text=True, check=True)
    return done.stdout


def model(tmp_path, nodes, inputs, constants):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(v, n) for n, v in constants.items()])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def kernels_of(text):
    return {node: kernel for kernel in json.loads(text)["why"]["kernels"] for node in kernel["nodes"]}


def test_boundaries_have_reasons(tmp_path):
    """Breaks if a reason is another one's, a kernel is left out, or the text leaves out what JSON has."""
    w = numpy.random.default_rng(1).standard_normal((32, 32)).astype("float32")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="first"), helper.make_node("Tanh", ["p"], ["t"], name="tanh"),
             helper.make_node("MatMul", ["t", "w"], ["q"], name="second"), helper.make_node("Add", ["q", "t"], ["s"], name="sum"),
             helper.make_node("NonZero", ["s"], ["places"], name="places"), helper.make_node("Cast", ["places"], ["y"], name="cast", to=TensorProto.FLOAT)]
    path = model(tmp_path, nodes, {"x": (9, 32)}, {"w": w})
    why = json.loads(told(path, "--json"))["why"]
    kernels = {node: kernel for kernel in why["kernels"] for node in kernel["nodes"]}
    of = {name: kernels[f"{name} ({kind})"] for name, kind in (("first", "MatMul"), ("second", "MatMul"))}
    assert of["first"]["by"].startswith("contraction") and "tanh (Tanh)" in of["first"]["nodes"]
    assert of["first"]["operands"] == [{"from": "an input", "why": "it is an input of the model"}]
    [operand] = of["second"]["operands"]
    assert operand["from"].endswith("(first (MatMul))")
    assert operand["why"] == "it is applied to the results of the operator before it, while they are in registers"
    [reference] = why["by_reference"]
    assert reference["operator"] == "nonzero" and reference["nodes"] == ["places (NonZero)"]
    text = told(path)
    for kernel in why["kernels"]:
        assert f"{kernel['kernel']}: {kernel['by']}\n  {', '.join(kernel['nodes'][:3])}" in text
    assert "not with matmul+tanh (first (MatMul)): it is applied to the results" in text
    assert "nonzero (places (NonZero)): its sizes are known only once it has run" in text


def test_fusion_off(tmp_path):
    nodes = [helper.make_node("Exp", ["x"], ["e"], name="e"), helper.make_node("Neg", ["e"], ["y"], name="n")]
    path = model(tmp_path, nodes, {"x": (9, 32)}, {})
    assert len({json.dumps(kernel) for kernel in kernels_of(told(path, "--json")).values()}) == 1
    [operand] = kernels_of(told(path, "-O0", "--json"))["n (Neg)"]["operands"]
    assert operand == {"from": "exp (e (Exp))", "why": "fusion is off"}


def test_a_classifier(tmp_path):
    """Breaks if a boundary of a whole model has no reason, or what was decided is left out."""
    copy = tmp_path / "fashion.onnx"
    copy.write_bytes(FASHION.read_bytes())
    why = json.loads(told(copy, "--json", "--target", "x86-64-v3"))["why"]
    reasons = [operand["why"] for kernel in why["kernels"] for operand in kernel["operands"]]
    assert len(reasons) >= 10 and all(reasons)
    assert any("heavy operator" in reason for reason in reasons) and not why["by_reference"]
    assert len([decision for decision in why["decisions"] if "winograd_outputs" in decision]) == 3


def raced(tmp_path, name, first=None, last=None):
    """A model of bench/models with weights, or the part of it between two values of [1, 128, 768]."""
    model = onnx.load(ROOT / "bench/models" / f"{name}.onnx")
    if first:
        model.graph.value_info.extend(helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, 128, 768]) for value in (first, last))
        model = Extractor(model).extract_model([first, "attention_mask"], [last])
    weights.fill(model)
    onnx.save(model, tmp_path / f"{name}.onnx")
    return tmp_path / f"{name}.onnx"


# Breaks if a boundary between kernels has no reason or another one's: in a residual network what two read and convolutions end kernels, in a
# transformer also attention, whose keys and values are laid out before it.
def test_boundaries_of_a_residual_network(tmp_path):
    why = json.loads(told(raced(tmp_path, "resnet50"), "--json", "--target", "x86-64-v3"))["why"]
    convolutions = [kernel for kernel in why["kernels"] if any("(Conv)" in node for node in kernel["nodes"])]
    reasons = [operand["why"] for kernel in why["kernels"] for operand in kernel["operands"]]
    assert len(convolutions) >= 53 and all(kernel["operands"] for kernel in why["kernels"]) and all(reasons) and not why["by_reference"]
    assert {"others read its result, too", "a kernel has one heavy operator, and this one has another"} <= set(reasons)


def test_boundaries_of_a_transformer(tmp_path):
    layers = [f"/m/encoder/layer.{number}/output/LayerNorm/LayerNormalization_output_0" for number in (0, 1)]
    why = json.loads(told(raced(tmp_path, "bert_base", *layers), "--json", "--target", "x86-64-v3"))["why"]
    assert all(kernel["operands"] and all(operand["why"] for operand in kernel["operands"]) for kernel in why["kernels"]) and not why["by_reference"]
    [attention] = [kernel for kernel in why["kernels"] if "attention" in kernel["by"]]
    assert {operand["why"] for operand in attention["operands"]} == {"attention would compute it anew for each block of queries",
                                                                     "it is laid out in panels before the kernel"}


def test_a_kernel_that_was_made_before(tmp_path):
    """Breaks if a library's product, which stands in a region of its own, is taken for control flow; of calibration there is no reason."""
    w = numpy.random.default_rng(1).standard_normal((32, 32)).astype("float32")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="mm"), helper.make_node("Exp", ["p"], ["y"], name="exp")]
    path = model(tmp_path, nodes, {"x": (9, 32)}, {"w": w})
    [operand] = kernels_of(told(path, "--json", "--libraries", "openblas"))["exp (Exp)"]["operands"]
    assert operand["why"] == "a library computes it"
    refused = json.loads(told(path, "--json", "--libraries", "openblas"))["why"]["libraries"]
    assert refused == [{"operator": "matmul", "nodes": ["mm (MatMul)"], "library": name, "why": "another comes before it"}
                       for name in ("onednn", "xsmm")]
    done = subprocess.run([COMMAND, "compile", path, "-o", tmp_path / "m.so", "--why", "--calibrate", "random"], capture_output=True, text=True)
    assert done.returncode == 2 and "--calibrate" in done.stderr


def test_libraries_that_refused(tmp_path):
    """Breaks if an operator that libraries have has no reason why none does it, or another one's."""
    w = numpy.random.default_rng(1).standard_normal((32, 32)).astype("float32")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="mm"), helper.make_node("Softmax", ["p"], ["y"], name="rows", axis=-1)]
    path = model(tmp_path, nodes, {"x": (9, 32)}, {"w": w})
    why = {(one["nodes"][0].split()[0], one["library"]): one["why"] for one in json.loads(told(path, "--json"))["why"]["libraries"]}
    assert why == {("mm", "openblas"): "it is not asked for", ("mm", "onednn"): "it is not asked for",
                   ("mm", "xsmm"): "it is not asked for", ("rows", "openblas"): "it has products alone",
                   ("rows", "onednn"): "it is not asked for", ("rows", "xsmm"): "it has products alone"}
    text = told(path)
    assert "not by a library:\n" in text and "openblas: it has products alone\n    rows (Softmax)\n" in text
    assert "the precision is less" in told(path, "--precision", "bf16")
