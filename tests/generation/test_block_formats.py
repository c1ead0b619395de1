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
    return 256 if name.endswith("K") or name in ("iq4_xs", "tq1_0", "tq2_0") else 32


def rows_of(name, count, blocks, random):
    """Rows of drawn blocks with the scales of the fixture's, which are finite."""
    if name in ("f32", "f16", "bf16"):
        return plain(name, random.standard_normal((count, 32 * blocks)).astype(numpy.float32)).view(numpy.uint8)
    known = WITH_VALUES[name]
    known = known.reshape(known.shape[0] * 256 // elements(name), -1)
    return known[random.integers(0, len(known), (count, blocks))].reshape(count, -1)


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


# Breaks if one row waits for each row of weights to arrive, if several rows, whose weights are used again, prefetch, or if f16 scales of neighbouring
# blocks are converted one by one.
@pytest.mark.parametrize("rows, bits", [(1, 8), (1, 0), (4, 8)])
def test_one_row_prefetches_the_next_rows_of_weights(rows, bits, tmp_path):
    weights = rows_of("q4_0", 64, 64, numpy.random.default_rng(5))
    x = numpy.ones((rows, 2048), numpy.float32)

    def build(builder, values):
        builder.output("y", builder.op("block_product", values, {"format": "q4_0", "x_bits": bits}, None, "product")[0])

    written(build, {"x": type_of(x), "w": type_of(weights)}, tmp_path, "icelake-server", tmp_path / "ir")  # which multiplies bytes
    (text,) = [path.read_text() for path in (tmp_path / "ir").glob("k_*.ll") if not path.name.endswith(".opt.ll")]
    assert ("@llvm.prefetch" in text) == (rows == 1)
    assert ("fpext <4 x half>" in text) == (bits == 8)


@pytest.mark.parametrize("target", [None, "x86-64-v3"])
def test_products(target, tmp_path):
    random = numpy.random.default_rng(3)
    names = [*FORMATS, "f32", "f16", "bf16"]
    rows = {name: rows_of(name, 37, 512 // elements(name), random) for name in names}
    one, some = (random.standard_normal((count, 512)).astype(numpy.float32) for count in (1, 5))

    def build(builder, values):
        x, open_x, *weights = values
        for name, w in zip(names, weights):
            attributes = {"format": name}
            builder.output(name, builder.op("block_values", [w], attributes, None, name)[0])
            builder.output(name + " one", builder.op("block_product", [x, w], attributes, None, name)[0])
            rounded = {**attributes, "x_bits": 8}
            builder.output(name + " rounded", builder.op("block_product", [x, w], rounded, None, name)[0])
            builder.output(name + " some", builder.op("block_product", [open_x, w], attributes, None, name)[0])

    inputs = {"x": type_of(one), "open": type_of(some, True), **{name: type_of(array) for name, array in rows.items()}}
    results = iter(compiled(build, inputs, tmp_path, target).run(one, some, *rows.values()))
    for name in names:
        values = next(results).astype(numpy.float64)
        for x, is_rounded in ((one, False), (one, True), (some, False)):
            got, want = next(results), x.astype(numpy.float64) @ values.T
            bound = 1e-6 * numpy.abs(x).astype(numpy.float64) @ numpy.abs(values).T
            if is_rounded:  # half a step of the largest of 32
                steps = numpy.abs(x).reshape(-1, 32).max(1).repeat(32) / 254
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
