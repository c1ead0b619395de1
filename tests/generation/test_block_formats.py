"""Numbers in blocks of few bits: what each format means, and products by rows of them.

block_formats.npz has drawn blocks of each format with the numbers that the package `gguf` makes of them (its `dequantize`). Breaks
when a bit of a format is read from another place, or when a kernel reads or scales a block otherwise than the reference.
"""

import os

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")

WITH_VALUES = numpy.load(os.path.join(os.path.dirname(__file__), "block_formats.npz"))
FORMATS = [name for name in WITH_VALUES if not name.endswith(" values")]


def plain(name, numbers):
    if name == "bf16":
        return (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
    return numbers.astype({"f16": numpy.float16, "f32": numpy.float32}[name])


def elements(name):
    if name.startswith("int"):
        return int(name.split("_")[1])
    return 256 if name.endswith("K") or name in ("iq4_xs", "tq1_0", "tq2_0") else 32


def rows_of(name, count, blocks, random):
    """Rows of drawn blocks with the scales of the fixture's, which are finite."""
    if name in ("f32", "f16", "bf16"):
        return plain(name, random.standard_normal((count, 32 * blocks)).astype(numpy.float32)).view(numpy.uint8)
    if name.startswith("int"):
        return affine_rows(name, count, blocks, random)[0]
    known = WITH_VALUES[name]
    known = known.reshape(known.shape[0] * 256 // elements(name), -1)
    return known[random.integers(0, len(known), (count, blocks))].reshape(count, -1)


def affine_rows(name, count, blocks, random):
    """Rows of an affine format, and their numbers: codes with digits apart, a scale, perhaps a zero point or an offset."""
    kind, size, of_scale, *zero = name.split("_")
    bits, size = int(kind[3:]), int(size)
    codes = random.integers(0, 1 << bits, (count, blocks, size), dtype=numpy.uint8)

    def plane(width, shift):
        digits, bytes_ = 8 // width, size * width // 8
        span = min(64, bytes_)
        apart = (codes >> shift & ((1 << width) - 1)).reshape(count, blocks, bytes_ // span, digits, span)
        return (apart << (numpy.arange(digits, dtype=numpy.uint8) * width)[:, None]).sum(3).astype(numpy.uint8).reshape(count, blocks, bytes_)

    scale = (random.standard_normal((count, blocks, 1)) * 0.1).astype({"f16": numpy.float16, "f32": numpy.float32}[of_scale])
    parts = [plane(2, 0), plane(1, 2)] if bits == 3 else [plane(bits, 0)]
    parts.append(scale.view(numpy.uint8))
    values = codes * scale.astype(numpy.float64)
    if zero == ["zero"]:
        at = random.integers(0, 1 << bits, (count, blocks, 1), dtype=numpy.uint8)
        parts.append(at)
        values = (codes.astype(numpy.float64) - at) * scale
    elif zero == ["offset"]:
        offset = random.standard_normal((count, blocks, 1)).astype(numpy.float32)
        parts.append(offset.view(numpy.uint8))
        values = values + offset
    else:
        values = values - scale.astype(numpy.float64) * (1 << bits - 1)
    return numpy.concatenate(parts, 2).reshape(count, -1), values.astype(numpy.float32).reshape(count, -1)


AFFINE = [f"int{bits}_{size}_{kind}" for bits in (2, 3, 4, 8) for size in (16, 32, 64, 128, 256) for kind in ("f16", "f32_zero", "f32_offset")]


def written(build, inputs, folder, target=None, dump_ir=None):
    builder = tensmith.Builder()
    build(builder, [builder.input(name, type_) for name, type_ in inputs.items()])
    settings = tensmith._settings(None, target, None if dump_ir is None else "", dump_ir, False, "fast", True, (), [])
    path = os.path.join(folder, "products.so")
    builder.compile(path, settings)
    return path


def compiled(build, inputs, folder, target=None):
    return tensmith.load(written(build, inputs, folder, target), threads=2)


def type_of(array, open_rows=False):
    kind = {"uint8": "u8", "float32": "f32"}[str(array.dtype)]
    return kind, ["m" if open_rows and i == 0 else str(size) for i, size in enumerate(array.shape)]


def test_formats_are_those_of_gguf(tmp_path):
    def build(builder, values):
        for name, value in zip(FORMATS, values):
            builder.output(name, builder.op("block_values", [value], {"format": name}, None, name)[0])

    model = compiled(build, {name: type_of(WITH_VALUES[name]) for name in FORMATS}, tmp_path)
    for name, got in zip(FORMATS, model.run(*(WITH_VALUES[name] for name in FORMATS))):
        assert numpy.array_equal(got, WITH_VALUES[name + " values"]), name


# Breaks if a code's bits, a scale, a zero point or an offset of an affine format are taken from another place.
def test_affine_formats(tmp_path):
    drawn = [affine_rows(name, 3, 2, numpy.random.default_rng(8)) for name in AFFINE]

    def build(builder, values):
        for name, value in zip(AFFINE, values):
            builder.output(name, builder.op("block_values", [value], {"format": name}, None, name)[0])

    model = compiled(build, {name: type_of(rows) for name, (rows, _) in zip(AFFINE, drawn)}, tmp_path)
    for name, got, (_, want) in zip(AFFINE, model.run(*(rows for rows, _ in drawn)), drawn):
        assert numpy.allclose(got, want, rtol=1e-6, atol=1e-6), name


# Breaks if the products of each instruction are converted and scaled, and not those of a group, or if weights are unpacked for each row.
def test_rows_share_what_is_unpacked(tmp_path):
    weights = rows_of("q4_0", 64, 8, numpy.random.default_rng(5))

    def build(builder, values):
        builder.output("y", builder.op("block_product", values, {"format": "q4_0", "x_bits": 8}, None, "product")[0])

    written(build, {"x": type_of(numpy.ones((8, 256), numpy.float32)), "w": type_of(weights)}, tmp_path, "icelake-server", tmp_path / "ir")
    (text,) = [path.read_text() for path in (tmp_path / "ir").glob("k_*.ll") if not path.name.endswith(".opt.ll")]
    products, conversions = text.count("call <16 x i32> @llvm.x86.avx512.vpdpbusd.512"), text.count("sitofp <16 x i32>")
    assert products == 8 * conversions > 0


# Breaks if a row's sums hang on how many rows there are, or a tile reads or writes another row than its own.
@pytest.mark.parametrize("name, columns", [("q4_0", 96), ("q8_0", 2048), ("q4_K", 512), ("q6_K", 256), ("iq4_nl", 160), ("int4_128_f16_zero", 384)])
def test_a_row_has_the_same_bits_alone(name, columns, tmp_path):
    random = numpy.random.default_rng(9)
    weights = rows_of(name, 67, columns // elements(name), random)
    x = random.standard_normal((301, columns)).astype(numpy.float32)

    def build(builder, values):
        y = builder.op("block_product", values, {"format": name, "x_bits": 8}, None, "product")[0]
        builder.output("y", builder.op("neg", [y], {}, None, "fused")[0])

    model = compiled(build, {"x": type_of(x, True), "w": type_of(weights)}, tmp_path)
    want = model.run(x, weights)[0]
    for begin, end in ((0, 1), (7, 9), (3, 10), (100, 113), (45, 301), (0, 0)):
        assert numpy.array_equal(model.run(x[begin:end], weights)[0], want[begin:end]), (begin, end)


# Breaks if one row waits for each row of weights to arrive, if two rows unpack weights as several do, whose weights are used again and which prefetch
# nothing, or if f16 scales of neighbouring blocks are converted one by one.
@pytest.mark.parametrize("rows, bits", [(1, 8), (1, 0), (2, 8), (4, 8)])
def test_one_row_prefetches_the_next_rows_of_weights(rows, bits, tmp_path):
    weights = rows_of("q4_0", 64, 64, numpy.random.default_rng(5))
    x = numpy.ones((rows, 2048), numpy.float32)

    def build(builder, values):
        builder.output("y", builder.op("block_product", values, {"format": "q4_0", "x_bits": bits}, None, "product")[0])

    written(build, {"x": type_of(x), "w": type_of(weights)}, tmp_path, "icelake-server", tmp_path / "ir")  # which multiplies bytes
    (text,) = [path.read_text() for path in (tmp_path / "ir").glob("k_*.ll") if not path.name.endswith(".opt.ll")]
    assert ("@llvm.prefetch" in text) == (rows <= 2)
    assert (f"fpext <{4 if rows == 1 else 16} x half>" in text) == (bits == 8)


@pytest.mark.parametrize("target", [None, "x86-64-v3"])
def test_products(target, tmp_path):
    random = numpy.random.default_rng(3)
    names = [*FORMATS, "f32", "f16", "bf16", *random.choice(AFFINE, 12, False)]
    rows = {name: rows_of(name, 37, 512 // elements(name), random) for name in names}
    one, some = (random.standard_normal((count, 512)).astype(numpy.float32) for count in (1, 13))

    def build(builder, values):
        x, open_x, *weights = values
        for name, w in zip(names, weights):
            attributes = {"format": name}
            builder.output(name, builder.op("block_values", [w], attributes, None, name)[0])
            builder.output(name + " one", builder.op("block_product", [x, w], attributes, None, name)[0])
            rounded = {**attributes, "x_bits": 8}
            builder.output(name + " rounded", builder.op("block_product", [x, w], rounded, None, name)[0])
            builder.output(name + " some", builder.op("block_product", [open_x, w], attributes, None, name)[0])
            builder.output(name + " some rounded", builder.op("block_product", [open_x, w], rounded, None, name)[0])

    inputs = {"x": type_of(one), "open": type_of(some, True), **{name: type_of(array) for name, array in rows.items()}}
    results = iter(compiled(build, inputs, tmp_path, target).run(one, some, *rows.values()))
    for name in names:
        values = next(results).astype(numpy.float64)
        for x, is_rounded in ((one, False), (one, True), (some, False), (some, True)):
            got, want = next(results), x.astype(numpy.float64) @ values.T
            bound = 1e-6 * numpy.abs(x).astype(numpy.float64) @ numpy.abs(values).T
            if is_rounded:  # half a step of the largest of a group, which has 256 numbers at most
                group = min(256, max(32, elements(name) if name.startswith("int") else 32))
                steps = numpy.abs(x).reshape(len(x), -1, group).max(2).repeat(group, 1) / 254
                bound = bound + 1.01 * steps @ numpy.abs(values).T
            assert (numpy.abs(got - want) <= bound).all(), (name, len(x), (numpy.abs(got - want) / bound).max())


def test_what_fits_no_format():
    builder = tensmith.Builder()
    x, w = builder.input("x", ("f32", ["1", "64"])), builder.input("w", ("u8", ["4", "36"]))
    for format_, message in (("q9_9", "B1"), ("q4_1", "B2"), ("tq2_0", "B2")):
        with pytest.raises(tensmith.Error, match=message):
            builder.op("block_product", [x, w], {"format": format_}, None, "here")
    short = builder.input("short", ("f32", ["1", "32"]))
    with pytest.raises(tensmith.Error, match="B3"):
        builder.op("block_product", [short, w], {"format": "q4_0"}, None, "here")
