"""The main loops of products for other CPUs have the instructions that they were written for."""

import importlib.util
import json
import re
from importlib.machinery import SourceFileLoader

import pytest

from test_cli import ROOT, pytestmark, tensmith  # noqa: F401 (a mark)

bench_cycles = importlib.util.module_from_spec(importlib.util.spec_from_loader("cycles", SourceFileLoader("cycles", str(ROOT / "bench/cycles"))))
bench_cycles.__spec__.loader.exec_module(bench_cycles)

PRODUCT = """func.func @main(%x: tensor<64x128x{left}>, %w: tensor<128x64x{left}>) -> tensor<64x64x{sums}> {{
  %0 = graph.matmul %x, %w{attributes} : (tensor<64x128x{left}>, tensor<128x64x{left}>) -> tensor<64x64x{sums}>
  return %0 : tensor<64x64x{sums}>
}}
"""
CODES = {"left": "i8", "sums": "i32", "attributes": " {accumulate_i32 = true}"}
WORDS = {"left": "i16", "sums": "i32", "attributes": " {accumulate_i32 = true}"}
FLOATS = {"left": "f32", "sums": "f32", "attributes": ""}


def assembly(folder, target, form, model=PRODUCT):
    (folder / "product.mlir").write_text(model.format(**form))
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
    code = assembly(tmp_path, "aarch64:neoverse-v1,-sve", CODES)
    assert re.search(r"\tsmmla\tv\d+\.4s, v\d+\.16b, v\d+\.16b", code) and "sdot" not in code
    assert "sdot" in assembly(tmp_path, "aarch64:neoverse-v1,-i8mm", CODES)


# Breaks if offsets that loads of SVE do not reach are added for each load, or, of matrix instructions, kept in registers and made anew: floats have two
# instructions for each multiply-add then, and bytes 145 for 64.
@pytest.mark.parametrize("form, instruction, most", [(FLOATS, "fmla", 1.75), (CODES, "smmla", 2.2)])
def test_pointers_go_along_where_loads_reach_a_few_steps(tmp_path, form, instruction, most):
    loops = bench_cycles.loops(assembly(tmp_path, "aarch64:neoverse-v1", form))
    loop = max(loops, key=lambda lines: sum(f"\t{instruction}\t" in line for line in lines))
    assert len(loop) <= most * sum(f"\t{instruction}\t" in line for line in loop)


# Breaks if SVE's vectors are not as long as the CPU's, are taken apart, or the operand that all lanes share fills them by an instruction of its own.
@pytest.mark.parametrize("cpu, form, instruction", [("neoverse-v1", FLOATS, r"fmla\tz\d+\.s, z\d+\.s, z\d\.s\[0\]"),
                                                    ("neoverse-v1", CODES, r"smmla\tz\d+\.s, z\d+\.b, z\d+\.b"),
                                                    ("neoverse-v1,-i8mm", CODES, r"sdot\tz\d+\.s, z\d+\.b, z\d+\.b"),
                                                    ("a64fx", FLOATS, r"fmla\tz\d+\.s, z\d+\.s, z\d\.s\[0\]")])  # fmt: skip
def test_vectors_are_as_long_as_the_cpu_has_them(tmp_path, cpu, form, instruction):
    code = assembly(tmp_path, f"aarch64:{cpu}", form)
    assert re.search(r"\t" + instruction, code)
    assert not re.search(r"\t(fmla|smmla|sdot)\tv", code)
    assert form is not FLOATS or "\tld1rw\t" in code


# Breaks if sums in blocks of two rows become rows lane by lane: in vectors that are longer than a block LLVM takes no lanes but of as many bits as move.
@pytest.mark.parametrize("cpu", ["neoverse-v1", "neoverse-v1,-sve"])
def test_blocks_become_rows_by_one_instruction_each(tmp_path, cpu):
    code = assembly(tmp_path, f"aarch64:{cpu}", CODES)
    assert re.search(r"\t(uzp|zip)2\t[vz]\d+\.2?d", code) and not re.search(r"\tmov\tw\d+, v\d+\.s\[|\tfmov\tw", code)


# Breaks if products are added up before their sum, by instructions of their own.
def test_widening_products_are_added_as_they_are_made(tmp_path):
    code = assembly(tmp_path, "riscv64:rv64gcv,zvl256b", WORDS)
    assert "vwmacc.vx" in code and "vwmul" not in code and "vs1r.v" not in code


# Breaks if rows are loaded an element at a time where a lane of a register can be multiplied: all four lanes of one are used.
@pytest.mark.parametrize("cpu, form, instruction", [
    ("cortex-a53", FLOATS, r"fmla\tv\d+\.4s, v\d+\.4s, v\d+\.s\[3\]"), ("neoverse-n1", FLOATS, r"fmla\tv\d+\.4s, v\d+\.4s, v\d+\.s\[3\]"),
    ("neoverse-n1", CODES, r"sdot\tv\d+\.4s, v\d+\.16b, v\d+\.4b\[3\]"), ("cortex-a55", CODES, r"sdot\tv\d+\.4s, v\d+\.16b, v\d+\.4b\[3\]"),
    ("cortex-a53", WORDS, r"smlal2?\tv\d+\.4s, v\d+\.[48]h, v\d+\.h\[3\]"), ("cortex-a76", WORDS, r"smlal2?\tv\d+\.4s, v\d+\.[48]h, v\d+\.h\[3\]"),
])  # fmt: skip
def test_rows_are_loaded_four_steps_at_once(tmp_path, cpu, form, instruction):
    assert re.search(r"\t" + instruction, assembly(tmp_path, f"aarch64:{cpu}", form))


CODED = """func.func @main(%x: tensor<64x128xi8>, %w: tensor<128x64xi8>) -> tensor<64x64x{result}> {{
  %low = graph.constant {{value = dense<0.0> : tensor<f32>}} : () -> tensor<f32>
  %high = graph.constant {{value = dense<{high}> : tensor<f32>}} : () -> tensor<f32>
  %scale = graph.constant {{value = dense<0.01> : tensor<f32>}} : () -> tensor<f32>
  %0 = graph.matmul %x, %w {{accumulate_i32 = true}} : (tensor<64x128xi8>, tensor<128x64xi8>) -> tensor<64x64xi32>
  %1 = graph.cast %0 {{to = f32}} : (tensor<64x64xi32>) -> tensor<64x64xf32>
  %2 = graph.mul %1, %scale : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %3 = graph.round %2 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = graph.max %3, %low : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %5 = graph.min %4, %high : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  %6 = graph.cast %5 {{to = {result}}} : (tensor<64x64xf32>) -> tensor<64x64x{result}>
  return %6 : tensor<64x64x{result}>
}}
"""


# Breaks if a loop of products has fewer than 16 steps where as many fill whole iterations, or more than its lines, rows and end take
# beside them: 32 loads of two vectors each and 20 of rows for 320 products, and at most 18 instructions of its own.
@pytest.mark.parametrize("form, instruction", [(CODES, "sdot"), (FLOATS, "fmla")])
def test_a_loop_of_lanes_has_sixteen_steps(tmp_path, form, instruction):
    code = assembly(tmp_path, "aarch64:cortex-a76", form)
    loops = [loop for loop in re.findall(r"^(\.LBB\w+):(.*?)\tb\.\w+\t\1$", code, re.MULTILINE | re.DOTALL) if loop[1].count(f"\t{instruction}\t") >= 320]
    instructions = re.findall(r"^\t[a-z]\w*", loops[0][1].split("\n.LBB")[-1], re.MULTILINE)
    assert instructions.count(f"\t{instruction}") == 320 and len(instructions) <= 320 + 32 + 20 + 18


# Breaks if the tuner isn't offered the steps that are taken unasked.
def test_a_space_has_the_steps_that_are_taken(tmp_path):
    (tmp_path / "product.mlir").write_text(PRODUCT.format(**FLOATS))
    shown = tensmith("inspect", tmp_path / "product.mlir", "--target", "aarch64:cortex-a76", "--spaces", "--json").stdout
    [steps] = [choice["values"] for space in json.loads(shown) for choice in space["choices"] if choice["choice"] == "steps"]
    assert steps == [1, 2, 4, 8, 16]


ROW = """func.func @main(%x: tensor<1x{depth}xf32>) -> tensor<1x64xf32> {{
  %w = graph.constant {{value = dense<0.5> : tensor<{depth}x64xf32>}} : () -> tensor<{depth}x64xf32>
  %0 = graph.matmul %x, %w : (tensor<1x{depth}xf32>, tensor<{depth}x64xf32>) -> tensor<1x64xf32>
  return %0 : tensor<1x64xf32>
}}
"""


# Breaks if a row by itself, whose lanes are not loaded together, has as many steps as tiles whose are, and so reads the panel as 16 streams, or, where
# these would be short, as one: four steps of four vectors go through quarters of it.
@pytest.mark.parametrize("depth", [1024, 4096])
def test_a_row_by_itself_reads_four_streams(tmp_path, depth):
    code = assembly(tmp_path, "aarch64:cortex-a76", {"depth": depth}, ROW)
    [loop] = [loop for loop in bench_cycles.loops(code) if any("\tfmla\t" in line for line in loop)]
    assert sum("\tfmla\t" in line for line in loop) == 16 and re.search(rf"\tcmp\tx\d+, #{depth // 4}$", "\n".join(loop), re.MULTILINE)


TURNED = """func.func @main(%x: tensor<128x64xf32>) -> tensor<64x64xf32> {{
  %w = graph.constant {{value = dense<0.5> : tensor<128x64xf32>}} : () -> tensor<128x64xf32>
  %t = graph.transpose %x {{permutation = array<i64: 1, 0>}} : (tensor<128x64xf32>) -> tensor<64x128xf32>
  %0 = graph.matmul %t, %w : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}}
"""


# Breaks if a loop has 16 steps whose rows, which lie across, are loaded an element at a time all the same: four of six rows of four vectors are enough.
def test_rows_that_lie_across_have_four_steps(tmp_path):
    code = assembly(tmp_path, "aarch64:cortex-a76", {}, TURNED)
    assert max(sum("\tfmla\t" in line for line in loop) for loop in bench_cycles.loops(code)) == 4 * 6 * 4


# Breaks if two vectors of sums alone become one of bytes: stores of halves of a register are then as many again.
def test_bytes_are_stored_as_whole_vectors(tmp_path):
    (tmp_path / "codes.mlir").write_text(CODED.format(result="ui8", high=255.0))
    tensmith("compile", tmp_path / "codes.mlir", "--target", "aarch64:cortex-a76", "--no-cache", "--dump-ir", tmp_path, "-o", tmp_path / "m.so")
    code = "".join(path.read_text() for path in tmp_path.glob("*.s"))
    assert re.search(r"\tstr\tq", code) and not re.search(r"\tstr\td\d+, \[x", code)


IMAGE = """func.func @main(%x: tensor<1x14x14x64xf32>, %w: tensor<64x64x1x1xf32>, %r: tensor<1x14x14x64xf32>) -> tensor<1x14x14x64xf32> {
  %none = graph.none : none
  %0 = graph.conv %x, %w, %none {dilations = array<i64: 1, 1>, layout = "channels_last", pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x14x14x64xf32>, tensor<64x64x1x1xf32>, none) -> tensor<1x14x14x64xf32>
  %1 = graph.add %0, %r : (tensor<1x14x14x64xf32>, tensor<1x14x14x64xf32>) -> tensor<1x14x14x64xf32>
  return %1 : tensor<1x14x14x64xf32>
}
"""


# Breaks if a pixel's number is divided by those of an image of which there is one: by a multiplication of 128 bits for each row.
def test_pixels_of_one_image_are_not_divided(tmp_path):
    (tmp_path / "image.mlir").write_text(IMAGE)
    tensmith("compile", tmp_path / "image.mlir", "--target", "aarch64:cortex-a76", "--no-cache", "--dump-ir", tmp_path, "-o", tmp_path / "m.so")
    code = [path.read_text() for path in tmp_path.glob("*.s")]
    assert any("fmla" in text for text in code) and not any("umulh" in text for text in code if "fmla" in text)


# Breaks if a code is clamped by comparisons and selections, rounded by an instruction of its own, or freed of NaN before it is converted.
# 2.5 is no whole number: there the rounding comes first.
@pytest.mark.parametrize("result, high, has, lacks", [("ui8", 255.0, ["fcvtns"], ["frintn", "fcmge", "fcmle", "fcmeq"]),
                                                      ("f32", 2.5, ["frintn", "fmax", "fmin"], ["fcmge", "fcmle"])])  # fmt: skip
def test_codes_are_rounded_clamped_and_converted_by_an_instruction_each(tmp_path, result, high, has, lacks):
    (tmp_path / "codes.mlir").write_text(CODED.format(result=result, high=high))
    tensmith("compile", tmp_path / "codes.mlir", "--target", "aarch64:cortex-a76", "--no-cache", "--dump-ir", tmp_path, "-o", tmp_path / "m.so")
    used = set(re.findall(r"^\t(\w+)\tv", "".join(path.read_text() for path in tmp_path.glob("*.s")), re.MULTILINE))
    assert used.issuperset(has) and used.isdisjoint(lacks)


# Breaks if a main loop gets an instruction more, or one at a place where the CPU waits for it: by llvm-mca's models.
@pytest.mark.parametrize("cpu, kind, instruction, least", [
    ("cortex-a53", "f32", "fmla", 0.65), ("neoverse-n1", "f32", "fmla", 0.95), ("neoverse-v1", "f32", "fmla", 0.95),
    ("neoverse-n1", "i8", "sdot", 0.95), ("neoverse-v1", "i8", "smmla", 0.87), ("neoverse-v1", "bf16", "bfmmla", 0.87),
])  # fmt: skip
def test_main_loops_are_near_what_the_cpu_can_do(cpu, kind, instruction, least):
    name, taken, peak = bench_cycles.measure(f"aarch64:{cpu}", kind, (256, 512, 512))
    assert name == instruction and peak / taken >= least
