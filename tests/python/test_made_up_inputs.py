"""Inputs of the commands that nobody gives: their sizes, and what is said of them."""

import onnx
from test_cli import pytestmark, tensmith  # noqa: F401 (a mark)

OPEN = """func.func @main(%x: tensor<?x3x?xf32, #graph.dims<["batch", "width"], ()[s0, s1] -> (s0, 3, s1)>>, %y: tensor<?xf32>)
    -> tensor<?x3x?xf32, #graph.dims<["batch", "width"], ()[s0, s1] -> (s0, 3, s1)>> {
  %0 = graph.neg %x : (tensor<?x3x?xf32, #graph.dims<["batch", "width"], ()[s0, s1] -> (s0, 3, s1)>>) -> tensor<?x3x?xf32, #graph.dims<["batch", "width"], ()[s0, s1] -> (s0, 3, s1)>>
  return %0 : tensor<?x3x?xf32, #graph.dims<["batch", "width"], ()[s0, s1] -> (s0, 3, s1)>>
}
"""


def test_sizes_of_a_module_are_fixed_as_those_of_a_model(tmp_path):
    """Breaks if a module's open sizes can't be told by an input's dimensions, or dimensions that don't fit are taken."""
    (tmp_path / "open.mlir").write_text(OPEN)
    tensmith("compile", "open.mlir", "-o", "open.so", cwd=tmp_path)
    done = tensmith("run", "open.so", "--shape", "input0=2x3x5", "--shape", "input1=7", cwd=tmp_path)
    assert "2x3x5" in done.stdout
    assert "2x3x5" in tensmith("run", "open.so", "--shape", "batch=2", "--shape", "width=5", "--shape", "input1=7", cwd=tmp_path).stdout
    for shape, words in (("input0=2x4x5", "dimension 1 is 3"), ("input0=2x3", "other dimensions")):
        refused = tensmith("run", "open.so", "--shape", shape, "--shape", "input1=7", status=2, cwd=tmp_path)
        assert f"--shape {shape}" in refused.stderr and words in refused.stderr
    for both in (["batch=3", "input0=2x3x5"], ["input0=2x3x5", "batch=3"]):
        words = [word for shape in (*both, "input1=7") for word in ("--shape", shape)]
        assert "dimension 0 is 3" in tensmith("run", "open.so", *words, status=2, cwd=tmp_path).stderr


def test_a_size_of_a_model_may_get_a_name(tmp_path):
    """Breaks if dimensions that the compiler takes are refused where inputs are made up."""
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["a", 3]) for name in "xy"]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", ports[:1], ports[1:])), tmp_path / "m.onnx")
    assert "2x3" in tensmith("run", "m.onnx", "--shape", "x=nx3", "--shape", "n=2", cwd=tmp_path).stdout


def test_the_first_of_many_inputs_that_are_made_up_are_named(tmp_path):
    """Breaks if a step of training's hundred parameters are a hundred notes, or are made up without a word."""
    parameters = ", ".join(f"%p{number}: tensor<2xf32>" for number in range(9))
    (tmp_path / "many.mlir").write_text(f"func.func @main({parameters}) -> tensor<2xf32> {{\n  return %p0 : tensor<2xf32>\n}}\n")
    notes = [line for line in tensmith("bench", "many.mlir", "--runs", "1", cwd=tmp_path).stderr.splitlines() if "not given" in line]
    assert len(notes) == 5 and "5 more inputs" in notes[-1]
