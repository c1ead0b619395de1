"""Conversions between bytes and wider numbers are exact, and on 64-bit ARM those by which its instructions take whole vectors."""

import json
import re

import numpy
import pytest

from test_cli import pytestmark, tensmith  # noqa: F401 (a mark)
from test_tensmith_run import PROGRAM, program_for, run

COUNT = 16 * 16 + 3  # all bytes, and some elements that fill no vector
# What 32-bit numbers are clamped to, and the type that they are then cut to: the type's own bounds, narrower ones, and wider ones,
# whose numbers lose their upper bits.
CUTS = [("i8", -128, 127), ("i8", -5, 127), ("i8", -128, 100), ("i8", 0, 127), ("ui8", 0, 255), ("ui8", 3, 255), ("ui8", 0, 200),
        ("i8", -129, 127), ("ui8", -1, 255), ("i16", -32768, 32767), ("i16", -300, 1000), ("ui16", 0, 65535), ("i16", 0, 40000)]  # fmt: skip
# What is added to floats made of bytes: whole numbers that 16 bits hold beside a byte, one that they don't, and one that isn't whole.
ADDED = [("i8", 128.0), ("i8", -7.0), ("ui8", -128.0), ("ui8", 32512.0), ("i8", 40000.0), ("ui8", 0.5), ("i8", 0.0)]
KINDS = {"i8": numpy.int8, "ui8": numpy.uint8, "i16": numpy.int16, "ui16": numpy.uint16}
INPUTS = ", ".join(f'%{name}: tensor<{COUNT}x{kind}> {{graph.name = "{name}"}}' for name, kind in (("x", "i32"), ("i8", "i8"), ("ui8", "ui8")))


def program(lines, kind):
    return (f"func.func @main({INPUTS}) -> tensor<{COUNT}x{kind}> {{\n" + "\n".join(lines) +
            f"\n  return %y : tensor<{COUNT}x{kind}>\n}}\n")  # fmt: skip


def constant(name, value, kind):
    return f"  %{name} = graph.constant {{value = dense<{value}> : tensor<{kind}>}} : () -> tensor<{kind}>"


def cut(kind, low, high):
    wide = f"tensor<{COUNT}xi32>"
    return program([
        constant("low", low, "i32"), constant("high", high, "i32"),
        f"  %a = graph.max %x, %low : ({wide}, tensor<i32>) -> {wide}", f"  %b = graph.min %a, %high : ({wide}, tensor<i32>) -> {wide}",
        f"  %y = graph.cast %b {{to = {kind}}} : ({wide}) -> tensor<{COUNT}x{kind}>"], kind)  # fmt: skip


def float_of(kind, added):
    floats = f"tensor<{COUNT}xf32>"
    return program([
        constant("c", added, "f32"), f"  %a = graph.cast %{kind} {{to = f32}} : (tensor<{COUNT}x{kind}>) -> {floats}",
        f"  %y = graph.add %a, %c : ({floats}, tensor<f32>) -> {floats}"], "f32")  # fmt: skip


def feeds():
    random = numpy.random.default_rng(2)
    edges = [bound + more for _, low, high in CUTS for bound in (low, high) for more in (-1, 0, 1)]
    x = numpy.concatenate([edges, [-(2**31), 2**31 - 1, -65536, 65536], random.integers(-400, 400, COUNT)])[:COUNT].astype(numpy.int32)
    codes = numpy.arange(COUNT) % 256
    return {"x": random.permutation(x), "i8": codes.astype(numpy.uint8).view(numpy.int8), "ui8": codes.astype(numpy.uint8)}


def result(folder, text, target, emulator, values):
    (folder / "c.mlir").write_text(text)
    tensmith("compile", folder / "c.mlir", "--target", target, "--no-cache", "--dump-ir", folder, "-o", folder / "m.so")
    arguments = []
    for name, value in values.items():
        numpy.save(folder / f"{name}.npy", value)
        arguments += ["--input", f"{name}={folder / name}.npy"]
    said = run(folder / "m.so", *arguments, "--out", folder / "out", program=(*emulator, program_for("aarch64")) if emulator else (PROGRAM,))
    return numpy.load(json.loads(said.stdout)["outputs"][0]["file"])


# Breaks if a number saturates that is only cut, if bounds within a type's own are not kept to, or if a sign is lost on the way.
@pytest.mark.parametrize("target, emulator", [("host", ()), ("aarch64:cortex-a53", ("qemu-aarch64", "-cpu", "cortex-a53"))])
def test_bytes_and_floats_are_exact(tmp_path, target, emulator):
    values = feeds()
    for kind, low, high in CUTS:
        expected = numpy.clip(values["x"].astype(numpy.int64), low, high).astype(KINDS[kind])
        numpy.testing.assert_array_equal(result(tmp_path, cut(kind, low, high), target, emulator, values), expected, f"{kind} {low} {high}")
    for kind, added in ADDED:
        expected = values[kind].astype(numpy.float32) + numpy.float32(added)
        numpy.testing.assert_array_equal(result(tmp_path, float_of(kind, added), target, emulator, values), expected, f"{kind} {added}")


def instructions(folder, text):
    (folder / "c.mlir").write_text(text)
    tensmith("compile", folder / "c.mlir", "--target", "aarch64:cortex-a76", "--no-cache", "--dump-ir", folder, "-o", folder / "m.so")
    return set(re.findall(r"^\t(\w+)\tv", "".join(path.read_text() for path in folder.glob("*.s")), re.MULTILINE))


# Breaks if numbers are clamped as 32 bits and cut afterwards, or if bytes are extended by shifts and the sum is one of floats.
@pytest.mark.parametrize("text, has, lacks", [
    (cut("ui8", 0, 255), {"sqxtn", "sqxtn2", "sqxtun"}, {"smax", "smin", "xtn", "uzp1"}),
    (cut("i8", -128, 127), {"sqxtn", "sqxtn2"}, {"smax", "smin", "xtn", "uzp1"}),
    (float_of("i8", 128.0), {"saddw", "saddw2", "scvtf"}, {"fadd", "shl", "sshr", "zip1"}),
    (float_of("i8", 0.5), {"sshll", "sshll2", "scvtf", "fadd"}, {"shl", "sshr", "zip1"}),
])  # fmt: skip
def test_whole_vectors_take_one_instruction_for_each_half(tmp_path, text, has, lacks):
    used = instructions(tmp_path, text)
    assert used.issuperset(has) and used.isdisjoint(lacks), used
