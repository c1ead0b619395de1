"""Attention to keys and values in pages, in blocks of few bits: against a definition in NumPy, on drawn lists of pages.

Breaks when a position is read from another page, head or block, when a window or a first row cuts elsewhere, or when what the run itself
gives is not behind the pages.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, os.path.dirname(__file__))
import small_decoders  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))
STORE = {"f32": small_decoders.as_f32, "f16": small_decoders.as_f16, "q8_0": small_decoders.as_q8_0, "q4_0": small_decoders.as_q4_0}
TYPES = {"f32": numpy.float32, "f16": numpy.float16, "q8_0": numpy.uint8, "q4_0": numpy.uint8}

# format, heads, heads of keys, sizes of keys and values, positions of a page, window, softcap
CASES = [
    ("f32", 4, 2, 16, 16, 16, 0, 0.0),
    ("f32", 5, 1, 20, 48, 3, 5, 0.0),
    ("f16", 3, 3, 64, 32, 16, 0, 2.0),
    ("f16", 14, 2, 48, 48, 1, 0, 0.0),
    ("f32", 4, 2, 66, 18, 5, 4, 0.0),  # whose last vectors are not whole
    ("f16", 6, 1, 18, 66, 16, 0, 2.0),
    ("f32", 2, 2, 3, 1, 4, 0, 0.0),
    ("q8_0", 8, 2, 64, 64, 16, 0, 0.0),
    ("q8_0", 1, 1, 32, 160, 40, 9, 0.0),
    ("q8_0", 9, 1, 128, 128, 5, 0, 3.0),
    ("q4_0", 4, 4, 96, 64, 16, 7, 0.0),
    ("q4_0", 12, 2, 128, 32, 200, 0, 0.0),
    ("f32", 2, 2, 1, 3, 4, 0, 0.0),  # fewer numbers than positions that are taken together
    ("f16", 4, 2, 2, 2, 3, 0, 0.0),
]


def kept(name, shape, random):
    """Numbers as they are kept, and what they stand for."""
    drawn = random.standard_normal(shape).astype(numpy.float32)
    _, content, values = STORE[name](drawn)
    return numpy.frombuffer(content, TYPES[name]).reshape(*shape[:-1], -1).copy(), values.astype(numpy.float64)


def instance(case, rows, pages, listed, random):
    """Operands, and the numbers of the four caches."""
    name, heads, key_heads, size, value_size, positions, _, _ = case
    q = random.standard_normal((rows, heads, size)).astype(numpy.float32)
    caches = [kept(name, (pages, positions, key_heads, each), random) for each in (size, value_size)]
    fresh = [kept(name, (rows, key_heads, each), random) for each in (size, value_size)]
    table = random.integers(0, pages, (rows, listed))
    lengths = random.integers(0, listed * positions + 1, rows)
    lengths[0] = listed * positions
    firsts = numpy.array([random.integers(0, row + 1) for row in range(rows)])
    stored = [stored for stored, _ in caches + fresh]
    return [q, *stored[:2], table, lengths, firsts, *stored[2:]], [values for _, values in caches + fresh]


def wanted(case, operands, values, scale):
    _, heads, key_heads, _, _, positions, window, cap = case
    q, table, lengths, firsts = operands[0].astype(numpy.float64), *operands[3:6]
    keys, values, new_keys, new_values = values
    result = numpy.zeros((*q.shape[:2], values.shape[-1]))
    for row in range(len(q)):
        at = numpy.arange(lengths[row])
        page, place = table[row][at // positions], at % positions
        k = numpy.concatenate([keys[page, place], new_keys[firsts[row] : row + 1]])
        v = numpy.concatenate([values[page, place], new_values[firsts[row] : row + 1]])
        if window:
            k, v = k[-window:], v[-window:]
        for head in range(heads):
            shared = head // (heads // key_heads)
            scores = k[:, shared] @ q[row, head] * scale
            scores = cap * numpy.tanh(scores / cap) if cap else scores
            weights = numpy.exp(scores - scores.max())
            result[row, head] = weights @ v[:, shared] / weights.sum()
    return result


def compiled(case, operands, bits, folder, target=None, reference=False, heads=None):
    """With open numbers of rows, pages and pages of a list; `heads`: symbols in place of those of queries and of keys."""
    name, _, _, size, _, _, window, cap = case
    builder = tensmith.Builder()
    kinds = {"float32": "f32", "float16": "f16", "uint8": "u8", "int64": "i64"}
    inputs = []
    for number, (operand, symbols) in enumerate(zip(operands, ["m", "p", "p", "mn", "m", "m", "m", "m"])):
        dims = [*symbols, *map(str, operand.shape[len(symbols) :])]
        if heads and len(dims) > 2:
            dims[-2] = heads[number > 0]
        inputs.append(builder.input(f"x{number}", (kinds[str(operand.dtype)], dims)))
    attributes = {"format": name if name.startswith("q") else "", "scale": size**-0.5, "softcap": cap, "window": window, "q_bits": bits}
    builder.output("y", builder.op("cached_attention", inputs, attributes, None, "here")[0])
    settings = tensmith._settings(None, target, None, None, reference, "fast", True, (), [])
    path = os.path.join(folder, f"attention-{bits}-{reference}.so")
    builder.compile(path, settings)
    if not reference:
        inspected = subprocess.run([BUILD / "bin/tensmith", "inspect", path, "--json"], capture_output=True, check=True)
        assert json.loads(inspected.stdout)["by_reference"] == []
    return tensmith.load(path, threads=2)


def check(model, case, operands, values, is_rounded):
    got, want = model.run(*operands)[0], wanted(case, operands, values, case[3] ** -0.5)
    assert got.shape == want.shape
    largest = max(numpy.abs(each).max(initial=0) for each in (values[1], values[3]))
    if is_rounded:  # a score errs by half a step of each of its q, at most, and so do powers and their sum
        steps = numpy.abs(operands[0]).max() / 254 * max(numpy.abs(each).sum(-1).max(initial=0) for each in (values[0], values[2]))
        bound = 2 * largest * numpy.expm1(2 * steps * case[3] ** -0.5)
    else:
        bound = 2e-5 * largest
    assert numpy.abs(got - want).max(initial=0) <= bound, numpy.abs(got - want).max()


@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_to_pages(case, target, tmp_path):
    random = numpy.random.default_rng(CASES.index(case))
    drawn = [instance(case, rows, pages, listed, random) for rows, pages, listed in ((1, 1, 1), (3, 4, 2), (6, 5, 12), (2, 3, 0))]
    for bits in (0, 8):
        model = compiled(case, drawn[0][0], bits, tmp_path, target)
        for operands, values in drawn:
            check(model, case, operands, values, bits == 8)


# Breaks if the code takes a number of heads for a constant, or leaves such attention to the reference evaluator.
@pytest.mark.parametrize("heads", [("h", "2"), ("6", "k"), ("h", "k")], ids=str)
@pytest.mark.parametrize("name, size, bits", [("f32", 18, 0), ("f16", 66, 0), ("q8_0", 64, 8)])
def test_open_numbers_of_heads(name, size, bits, heads, tmp_path):
    random = numpy.random.default_rng(size)
    model = None
    for of_q, of_keys in ((6, 2), (14, 2), (6, 6), (9, 3)):
        if (heads[0] == "6" and of_q != 6) or (heads[1] == "2" and of_keys != 2):
            continue
        case = (name, of_q, of_keys, size, 32, 5, 0, 0.0)
        operands, values = instance(case, 3, 4, 3, random)
        model = model or compiled(case, operands, bits, tmp_path, heads=heads)
        check(model, case, operands, values, bits == 8)


def test_heads_that_share_no_keys_evenly(tmp_path):
    case = ("f32", 6, 2, 16, 16, 5, 0, 0.0)
    operands, _ = instance(case, 2, 4, 2, numpy.random.default_rng(1))
    model = compiled(case, operands, 0, tmp_path, heads=("h", "k"))
    with pytest.raises(tensmith.Error, match="B7"):
        model.run(operands[0][:, :5], *operands[1:])


@pytest.mark.parametrize("case", [next(case for case in CASES if case[:2] == each) for each in (("f32", 5), ("q8_0", 1), ("q4_0", 4))], ids=str)
def test_the_reference_is_the_definition(case, tmp_path):
    random = numpy.random.default_rng(7)
    drawn = [instance(case, rows, 4, listed, random) for rows, listed in ((2, 3), (1, 0))]
    model = compiled(case, drawn[0][0], 0, tmp_path, reference=True)
    for operands, values in drawn:
        check(model, case, operands, values, False)


@pytest.mark.parametrize("bits", [0, 8])
@pytest.mark.parametrize("name", ["f32", "q8_0", "q4_0"])
def test_where_a_key_lies_changes_no_bit(name, bits, tmp_path):
    """The last keys from the run, from the last page, and from pages in another order."""
    case = (name, 8, 2, 64, 64, 4, 0, 0.0)
    random = numpy.random.default_rng(5)
    operands, _ = instance(case, 3, 6, 6, random)
    q, keys, values, table, lengths, firsts, new_keys, new_values = operands
    table[:], lengths[:], firsts[:] = numpy.arange(6), 13, 0
    model = compiled(case, operands, bits, tmp_path)
    want = model.run(*operands)[0][2]
    pages = keys.copy(), values.copy()
    for cache, fresh in zip(pages, (new_keys, new_values)):
        cache[13 // 4, 1:3] = fresh[:2]
    alone = [q[2:], *pages, table[2:], lengths[2:] + 2, firsts[:1], new_keys[2:], new_values[2:]]
    assert numpy.array_equal(model.run(*alone)[0][0], want)
    order = random.permutation(6)
    moved = [cache[order] for cache in pages]
    alone[1:4] = [*moved, numpy.argsort(order)[None]]
    assert numpy.array_equal(model.run(*alone)[0][0], want)


# Breaks if a thread that has some of a head's queries computes others, or none of them.
@pytest.mark.parametrize("name, heads, bits", [("f32", 14, 0), ("f16", 9, 0), ("q8_0", 16, 8)])
def test_one_head_of_keys_on_several_threads(name, heads, bits, tmp_path):
    case = (name, heads, 1, 128, 128, 64, 0, 0.0)  # long enough for each thread to have a part
    operands, values = instance(case, 1, 8, 8, numpy.random.default_rng(heads))
    path = tmp_path / f"attention-{bits}-False.so"
    check(compiled(case, operands, bits, tmp_path), case, operands, values, bits == 8)
    want = tensmith.load(str(path), threads=1).run(*operands)[0]
    for threads in (2, 3, 5):
        assert numpy.array_equal(tensmith.load(str(path), threads=threads).run(*operands)[0], want)


def test_what_is_not_there_is_an_error(tmp_path):
    case = ("q8_0", 2, 1, 32, 32, 4, 0, 0.0)
    good, _ = instance(case, 2, 3, 2, numpy.random.default_rng(1))
    models = [compiled(case, good, 0, tmp_path, reference=reference) for reference in (False, True)]
    for at, row, value, message in ((3, (1, 0), 3, "page"), (3, (1, 0), -1, "page"), (4, 0, 9, "pages"), (4, 0, -1, "pages"), (5, 0, 1, "first"), (5, 1, -5, "first")):
        bad = [operand.copy() for operand in good]
        bad[4][:] = 8
        bad[at][row] = value
        for model in models:
            with pytest.raises(tensmith.Error, match=message):
                model.run(*bad)
    for model in models:
        model.run(*good)


# Breaks if positions are counted in what their number does not fit: pages that hold no numbers may have as many as they like.
def test_pages_of_too_many_positions(tmp_path):
    case = ("f32", 1, 1, 16, 16, 1 << 20, 0, 0.0)
    good = [numpy.zeros((1, 1, 16), "f4"), *[numpy.zeros((0, 1 << 20, 1, 16), "f4")] * 2, numpy.zeros((1, 1), "i8"),
            *[numpy.zeros(1, "i8")] * 2, *[numpy.ones((1, 1, 16), "f4")] * 2]  # fmt: skip
    model = compiled(case, good, 0, tmp_path)
    assert (model.run(*good)[0] == 1).all()
    with pytest.raises(tensmith.Error, match="pages hold 2147483648 positions, which are too many"):
        model.run(*good[:3], numpy.zeros((1, 1 << 11), "i8"), *good[4:])


def test_what_fits_no_form(tmp_path):
    case = next(case for case in CASES if case[0] == "q8_0")
    operands, _ = instance(case, 1, 1, 1, numpy.random.default_rng(1))

    def changed(at, operand):
        return [*operands[:at], operand, *operands[at + 1 :]]

    for message, wrong, of in (
        ("B2", operands, ("q4_0", *case[1:])),
        ("B5", changed(7, operands[7].astype(numpy.float32)), case),
        ("B6", changed(4, operands[4].astype(numpy.float32)), case),
        ("B7", changed(0, operands[0][:, :3]), case),
        ("B8", operands, (*case[:6], -1, 0.0)),
    ):
        with pytest.raises(tensmith.Error, match=message):
            compiled(of, wrong, 0, tmp_path)
