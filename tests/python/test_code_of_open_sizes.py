"""The machine code of kernels whose sizes a run tells, for x86 CPUs, whatever this machine is."""

import re

import pytest

from test_cli import pytestmark, tensmith  # noqa: F401 (a mark)

PRODUCT = """func.func @main(%x: tensor<?x384xf32, #graph.dims<["m"], ()[s0] -> (s0, 384)>>, %w: tensor<384x64xf32>) -> tensor<?x64xf32, #graph.dims<["m"], ()[s0] -> (s0, 64)>> {
  %0 = graph.matmul %x, %w : (tensor<?x384xf32, #graph.dims<["m"], ()[s0] -> (s0, 384)>>, tensor<384x64xf32>) -> tensor<?x64xf32, #graph.dims<["m"], ()[s0] -> (s0, 64)>>
  return %0 : tensor<?x64xf32, #graph.dims<["m"], ()[s0] -> (s0, 64)>>
}
"""

WITH_BIAS = """func.func @main(%x: tensor<?x?x768xf32, #graph.dims<["b", "m"], ()[s0, s1] -> (s0, s1, 768)>>, %w: tensor<768x768xf32>, %c: tensor<768xf32>) -> tensor<?x?x768xf32, #graph.dims<["b", "m"], ()[s0, s1] -> (s0, s1, 768)>> {
  %0 = graph.matmul %x, %w : (tensor<?x?x768xf32, #graph.dims<["b", "m"], ()[s0, s1] -> (s0, s1, 768)>>, tensor<768x768xf32>) -> tensor<?x?x768xf32, #graph.dims<["b", "m"], ()[s0, s1] -> (s0, s1, 768)>>
  %1 = graph.add %0, %c : (tensor<?x?x768xf32, #graph.dims<["b", "m"], ()[s0, s1] -> (s0, s1, 768)>>, tensor<768xf32>) -> tensor<?x?x768xf32, #graph.dims<["b", "m"], ()[s0, s1] -> (s0, s1, 768)>>
  return %1 : tensor<?x?x768xf32, #graph.dims<["b", "m"], ()[s0, s1] -> (s0, s1, 768)>>
}
"""


# Breaks if the pointer of a row that may not be there is made anew in each step, for which operands and sums are kept in memory, or if a
# step loads of all its rows before it multiplies the first.
@pytest.mark.parametrize("program", [PRODUCT, WITH_BIAS], ids=["product", "with_bias"])
@pytest.mark.parametrize("target, multiply_adds", [("x86-64-v4", 96), ("x86-64-v3", 48)])
def test_sums_of_whole_tiles_stay_in_registers(tmp_path, program, target, multiply_adds):
    (tmp_path / "product.mlir").write_text(program)
    tensmith("compile", tmp_path / "product.mlir", "--target", target, "--no-cache", "--dump-ir", tmp_path, "-o", tmp_path / "m.so")
    code = "".join(path.read_text() for path in tmp_path.glob("*.s"))
    blocks = re.split(r"^(?=\.LBB)", code, flags=re.MULTILINE)
    loops = [block for block in blocks if re.search(r"\tj\w+\t" + re.escape(block.split(":")[0]) + r"\b", block)]
    whole = [loop for loop in loops if loop.count("\tvfmadd") == multiply_adds]
    assert whole
    for loop in whole:
        assert not re.search(r"\tvmovup\w\t%[xyz]mm\d+, .*\(%rsp\)", loop)
