"""The main loops of products for other CPUs have the instructions that they were written for."""

import re

import pytest

from test_cli import pytestmark, tensmith  # noqa: F401 (a mark)

PRODUCT = """func.func @main(%x: tensor<64x128x{left}>, %w: tensor<128x64x{left}>) -> tensor<64x64x{sums}> {{
  %0 = graph.matmul %x, %w{attributes} : (tensor<64x128x{left}>, tensor<128x64x{left}>) -> tensor<64x64x{sums}>
  return %0 : tensor<64x64x{sums}>
}}
"""
CODES = {"left": "i8", "sums": "i32", "attributes": " {accumulate_i32 = true}"}
WORDS = {"left": "i16", "sums": "i32", "attributes": " {accumulate_i32 = true}"}
FLOATS = {"left": "f32", "sums": "f32", "attributes": ""}


def assembly(folder, target, form):
    (folder / "product.mlir").write_text(PRODUCT.format(**form))
    tensmith("compile", folder / "product.mlir", "--target", target, "--no-cache", "--dump-ir", folder, "-o", folder / "m.so")
    return "".join(path.read_text() for path in folder.glob("*.s"))


# Breaks if the operand that all lanes share fills a register of its own first, which takes an instruction more for each row.
def test_dot_products_take_a_lane(tmp_path):
    code = assembly(tmp_path, "aarch64:neoverse-n1", CODES)
    assert re.search(r"\tsdot\tv\d+\.4s, v\d+\.16b, v\d+\.4b\[0\]", code) and "ld1r" not in code


def test_a_cpu_without_them_has_none(tmp_path):
    assert "sdot" not in assembly(tmp_path, "aarch64:cortex-a53", CODES)


# Breaks if the slower of two instructions for the same products is taken, or its sums are not held in registers.
def test_products_of_two_rows_are_taken_where_they_are_faster(tmp_path):
    code = assembly(tmp_path, "aarch64:neoverse-v1", CODES)
    assert re.search(r"\tsmmla\tv\d+\.4s, v\d+\.16b, v\d+\.16b", code) and "sdot" not in code
    assert "sdot" in assembly(tmp_path, "aarch64:neoverse-v1,-i8mm", CODES)


# Breaks if products are added up before their sum, by instructions of their own.
def test_widening_products_are_added_as_they_are_made(tmp_path):
    code = assembly(tmp_path, "riscv64:rv64gcv,zvl256b", WORDS)
    assert "vwmacc.vx" in code and "vwmul" not in code and "vs1r.v" not in code


# Breaks if a CPU that does instructions in order gets a load before each step's products: all four lanes of one are used.
@pytest.mark.parametrize("cpu, in_bursts", [("cortex-a53", True), ("neoverse-n1", False)])
def test_loads_come_in_bursts_where_instructions_are_done_in_order(tmp_path, cpu, in_bursts):
    code = assembly(tmp_path, f"aarch64:{cpu}", FLOATS)
    assert bool(re.search(r"\tfmla\tv\d+\.4s, v\d+\.4s, v\d+\.s\[3\]", code)) == in_bursts
