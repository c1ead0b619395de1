"""Orders of a comprehension's loops from Python, and in its text.

What would break these: a primitive that writes a line of another form, a schedule that is dropped, a refusal without its reason.
"""

import json
import pathlib
import re
import subprocess

import numpy as np
import pytest

import tensmith as ts

COMMAND = pathlib.Path(ts.__file__).resolve().parents[2] / "bin/tensmith"


PRODUCT = "def product(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSMITH_CACHE", str(tmp_path / "cache"))


def test_the_page():
    """Its blocks, one after the other."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/nests.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    exec("\n".join(blocks), {})


def operands(m=37, n=85, k=19):
    rng = np.random.default_rng(1)
    return rng.random((m, k), np.float32), rng.random((k, n), np.float32)


def packed():
    tiles = ts.nest(PRODUCT).tile("m", "n", 4, 16).reorder("n0", "m0", "k", "m1", "n1").cache_read("B", "n0", "P")
    return tiles.vectorize("P1", 8).unroll("m1").vectorize("n1", 8).parallel("n0")


def test_a_chain_of_primitives():
    a, b = operands()
    nest = packed()
    assert np.allclose(nest.run(a, b), a @ b, rtol=1e-4)
    assert "cache_read B at n0 -> P\n" in nest.schedule
    # The same text elsewhere is the same kernel.
    assert np.allclose(ts.comprehension(nest.text).product(a, b), a @ b, rtol=1e-4)


def test_every_primitive_has_its_line():
    nest = ts.nest(PRODUCT)
    nest = nest.split("k", 4).rfactor("update", "k1", "R").reorder("k1", "m", "n", "k0").skew("n", 1, "m").fuse("k1", "m", "f")
    assert nest.schedule.splitlines() == [
        "split k 4 -> k0 k1",
        "rfactor update k1 -> R",
        "reorder k1 m n k0",
        "skew n by 1 m",
        "fuse k1 m -> f",
    ]
    a, b = operands()
    for each in (
        ts.nest(PRODUCT).split("k", 4).rfactor("update", "k1", "R"),
        ts.nest(PRODUCT).tile("m", "n", 4, 8).cache_write("C", "n0", "W", order=(1, 0)),
        ts.nest(PRODUCT).cache_read("A", None, "Q", order=(1, 0)).affine("minimal"),
        ts.nest(PRODUCT).default(8),
        ts.nest(PRODUCT).apply("split m 3 -> a b", "parallel a"),
    ):
        assert np.allclose(each.run(a, b), a @ b, rtol=1e-4), each.schedule


def test_refusals_name_the_dependence():
    with pytest.raises(ts.Error, match="line 1: parallel k: loop 'k' can't be parallel: it carries the accumulation of 'C'"):
        ts.nest(PRODUCT).parallel("k").compile()
    with pytest.raises(ts.Error, match="there is no loop 'x'; there are"):
        ts.nest(PRODUCT).unroll("x").compile()
    with pytest.raises(ts.Error, match="there is no tensor 'T'"):
        ts.nest(PRODUCT).compute_at("T", "m").compile()


def test_a_schedule_belongs_to_its_statement():
    text = """def two(float(M, K) A, float(K, N) B) -> (C, D) {
      C(m, n) +=! A(m, k) * B(k, n)
      # schedule: parallel m
      D(m) +=! C(m, n)
      # schedule: parallel n
    }"""
    with pytest.raises(ts.Error, match="parallel n: loop 'n' can't be parallel"):
        ts.comprehension(text).two(*operands())
    a, b = operands()
    c, d = ts.comprehension(text.replace("parallel n", "parallel m")).two(a, b)
    assert np.allclose(c, a @ b, rtol=1e-4) and np.allclose(d, (a @ b).sum(1), rtol=1e-4)


SCHEDULED = """def first(float(M, K) A) -> (C, D) {
  C(m) +=! A(m, k)
  # schedule: parallel m
  # a note
  D(m) +=! A(m, k)
  # schedule: split m 4 -> m0 m1
}
def second(float(M, K) A) -> (C) {
  C(k) +=! A(m, k)
  # schedule: parallel k
}
"""


def test_a_text_keeps_its_schedules():
    """Breaks if a definition is printed without its comments, or the new lines stand in front of the old ones."""
    nest = ts.nest(SCHEDULED, "first").parallel("m0")
    assert re.findall("# .*", nest.text.replace("  # schedule: parallel m0\n", "")) == re.findall("# .*", SCHEDULED)
    assert "split m 4 -> m0 m1\n  # schedule: parallel m0\n}" in nest.text and nest.schedule == "parallel m0\n"
    a, _ = operands()
    assert all(np.allclose(each, a.sum(1), rtol=1e-4) for each in nest.run(a))
    again = ts.nest(nest.text, "first")
    assert again.text == nest.text
    with pytest.raises(ts.Error, match="line 1: parallel k: loop 'k' can't be parallel"):
        ts.nest(PRODUCT.replace(" }", "\n# schedule: parallel k\n}")).compile()


def test_what_looks_like_a_schedule_is_an_error():
    """Breaks if a line that was meant to be one is taken for a note."""
    for mark in ("#schedule:", "# Schedule:", "#  schedule:", "# schedule :"):
        with pytest.raises(ts.Error, match=":1:.*: a line of a schedule begins with '# schedule:'"):
            ts.nest(PRODUCT.replace(" }", f" {mark} parallel m\n}}"))
    ts.nest(PRODUCT.replace(" }", " # the schedule: as it is written\n}"))


MISPLACED = """# schedule: parallel m
def sums(float(M, K) A) -> (C) {
  C(m) +=! A(m, k)
  # schedule: parallel m
}
def called(float(M, K) A) -> (C) {
  C = sums(A)
  # schedule: parallel m
}
"""


def test_a_schedule_that_belongs_to_no_statement_is_an_error():
    with pytest.raises(ts.Error) as told:
        ts.comprehension(MISPLACED)
    lines = str(told.value).splitlines()
    assert len(lines) == 2 and all("this schedule belongs to no statement: " in each for each in lines)
    for each, place, words in zip(lines, ("1:1", "8:3"), ("outside of a definition", "a call of 'sums'")):
        assert f":{place}: " in each and words in each


BYTES = "def product(uint8(M, K) A, int8(K, N) B) -> (C) { C(m, n) +=! int32(A(m, k)) * int32(B(k, n)) }"


def test_tiles_become_instructions():
    """By what this machine has. Breaks if a text's line is another one than the chain's, or the target's are not offered."""
    tiles = ts.nest(BYTES).split("n", 16).split("k", 4).reorder("m", "n0", "k0", "n1", "k1")
    with pytest.raises(ts.Error, match="the target has no instruction 'nothing' for tiles; it has ") as told:
        tiles.tensorize("n1", "k1", by="nothing").compile()
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 255, (5, 23), np.uint8), rng.integers(-128, 127, (23, 37), np.int8)
    if "vpdpbusd" in str(told.value):
        nest = tiles.tensorize("n1", "k1", by="vpdpbusd", packing=True)
        assert nest.schedule.endswith("tensorize n1 k1 by vpdpbusd packing\n")
        assert np.array_equal(nest.run(a, b), a.astype(np.int32) @ b.astype(np.int32))
    packed = tiles.cache_read("B", None, "P", order=("0/4", 1, "0%4"))
    assert np.array_equal(packed.run(a, b), a.astype(np.int32) @ b.astype(np.int32))


def test_functions_are_named():
    with pytest.raises(ValueError, match="say which function, of product, other"):
        ts.nest(PRODUCT + "\ndef other(float(N) A) -> (B) { B +=! A(i) }")
    with pytest.raises(ValueError, match="no comprehension 'sum'"):
        ts.nest(PRODUCT, "sum")
    with pytest.raises(ValueError, match="line breaks"):
        ts.nest(PRODUCT).apply("unroll m\nunroll n")
    nest = ts.nest(PRODUCT + "\ndef other(float(N) A) -> (B) { B +=! A(i) }", "other").vectorize("i", 8)
    assert float(nest.run(np.arange(21, dtype=np.float32))) == 210


@pytest.mark.parametrize("n", [1, 3, 10])
def test_copies_of_nothing_take_no_memory(n):
    """Their extents are negative. Breaks if one tensor begins before the memory of all."""
    text = "def f(float(N, J) A, float(M) B) -> (C) { C(i) +=! A(k + 3, j) * B(i) where k in 0:N-3 }"
    nest = ts.nest(text).apply("cache_read A -> P").apply("cache_write C -> W")
    a, b = np.ones((n, 1000), np.float32), np.ones(2000, np.float32)
    assert np.array_equal(nest.run(a, b), b * max(0, n - 3) * 1000)


def test_a_parallel_loop_of_one_iteration_has_its_own_copy():
    text = "def f(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) where m in 0:4 }"
    nest = ts.nest(text).tile("m", "n", 4, 8).cache_read("B", "n0", "P").parallel("m0")
    a, b = operands(m=4)
    assert np.allclose(nest.run(a, b), a @ b, rtol=1e-4)


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@pytest.mark.parametrize("k", [16, 37, 100])
def test_sums_of_bytes_in_vectors(target, k):
    """The compiler makes vpdpbusd and psadbw of them. Breaks if lanes are joined in a form of which it takes the first for all."""
    rng = np.random.default_rng(k)
    a, b = rng.integers(0, 256, (5, k), np.uint8), rng.integers(-128, 128, (5, k), np.int8)
    c = rng.integers(0, 256, (5, k), np.uint8)
    wide = [each.astype(np.int32) for each in (a, b, c)]
    for depth in ("K", str(k)):  # open, and known
        products = f"def f(uint8(M, {depth}) A, int8(M, {depth}) B) -> (C) {{ C(m) +=! int32(A(m, k)) * int32(B(m, k)) }}"
        differences = f"def f(uint8(M, {depth}) A, uint8(M, {depth}) B) -> (C) {{ C(m) +=! max(int32(A(m, k)) - int32(B(m, k)), int32(B(m, k)) - int32(A(m, k))) }}"
        for lanes in (2, 4, 8, 12, 16, 32, 64):
            product = ts.nest(products).vectorize("k", lanes).compile(target=target)
            assert np.array_equal(product(a, b), (wide[0] * wide[1]).sum(1)), (depth, lanes)
            difference = ts.nest(differences).vectorize("k", lanes).compile(target=target)
            assert np.array_equal(difference(a, c), abs(wide[0] - wide[2]).sum(1)), (depth, lanes)


def test_large_blocks_are_refused():
    """Breaks if the size of a copy, of whole blocks, may be more than 64 bits hold."""
    text = "def f(float(A, B, C, D) X) -> (Y) { Y(a, b, c, d) = X(a, b, c, d) }"
    for block in (17, 65536):
        order = [f"{dim}{part}{block}" for part in "/%" for dim in range(4)]
        with pytest.raises(ts.Error, match="the blocks of 'P' are too large: the product of their sizes may be 65536 at most"):
            ts.nest(text).cache_read("X", None, "P", order=order).compile()
    x = np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)
    order = [f"{dim}{part}16" for part in "/%" for dim in range(4)]
    assert np.array_equal(ts.nest(text).cache_read("X", None, "P", order=order).run(x), x)


TWO = """def two(float(M, K) A, float(K, N) B, float(N) b) -> (D) {
  C(m, n) +=! A(m, k) * B(k, n)
  C(m, n) = fmax(C(m, n) + b(n), 0.0)
  D(m) +=! C(m, n)
}"""
CHANGED = """def changed(float(N) A) -> (C) {
  C(i) = A(i) * 2.0
  C(i) += C(0) where i in 1:N
  C(i) = C(i) + A(0) where i in 2:N
}"""
SOFTMAX = """def softmax(float(N, D) X) -> (Y) {
  largest(n) max=! X(n, d)
  total(n) +=! exp(X(n, d) - largest(n))
  Y(n, d) = exp(X(n, d) - largest(n)) / total(n)
}"""


def test_all_statements_of_a_definition_are_one_nest():
    """Breaks if a statement of the whole is lost, or reads what a later one wrote."""
    a, b = operands()
    bias = np.linspace(-8, 2, b.shape[1], dtype=np.float32)
    wanted = np.maximum(a @ b + bias, 0).sum(1)
    two = ts.nest(TWO, whole=True)
    for nest in (
        two.parallel("m"),
        two.affine("coincident").parallel("c0"),
        two.affine("minimal"),
        two.inline("C").default(8),
        two.compute_at("C", "m_D_update").parallel("m_D_update"),
    ):
        assert np.allclose(nest.run(a, b, bias), wanted, rtol=1e-4), nest.schedule
    x = np.arange(1, 18, dtype=np.float32)
    for nest in (ts.nest(CHANGED, whole=True).affine("minimal"), ts.nest(CHANGED, whole=True).default(8)):
        assert np.array_equal(nest.run(x), ts.comprehension(CHANGED).changed(x)), nest.schedule
    x = np.random.default_rng(3).random((13, 50), np.float32)
    rows = ts.nest(SOFTMAX, whole=True).compute_at("total", "n_Y_update").compute_at("largest", "n_Y_update").parallel("n_Y_update").compile()
    assert np.allclose(rows(x), ts.comprehension(SOFTMAX).softmax(x), rtol=1e-5)


def test_the_whole_is_refused_in_its_own_words():
    with pytest.raises(ts.Error, match="it carries the accumulation of 'D' within 'D_update'"):
        ts.nest(TWO, whole=True).parallel("n_D_update").compile()
    both = ts.nest(TWO, whole=True).parallel("m").text
    with pytest.raises(ts.Error, match="the definition has a schedule for all of its statements"):
        ts.nest(both).parallel("m").compile()


def test_the_whole_has_gradients():
    """Breaks if the adjoint asks for statements that are not there."""
    a, _ = operands()
    text = "def scaled(float(M, K) A) -> (D) { C(m) +=! A(m, k) D(m) = C(m) * 2.0 }"
    function = ts.nest(text, whole=True).parallel("m").compile()
    told, da = function.grad(wrt=["A"], of="D")(A=a, **{"cotangent.D": np.ones(a.shape[0], np.float32)})
    assert np.allclose(told, 2 * a.sum(1), rtol=1e-4) and np.array_equal(da, np.full_like(a, 2))


def test_units_and_memories_have_their_lines():
    a, b = operands()
    tiles = ts.nest(PRODUCT).tile("m", "n", 4, 8).reorder("m0", "n0", "k", "m1", "n1")
    nest = tiles.cache_read("B", "n0", "P").double_buffer("P").bind("n1", "lanes").bind("m0", "threads")
    assert nest.schedule.splitlines()[2:] == ["cache_read B at n0 -> P", "double_buffer P", "bind n1 lanes", "bind m0 threads"]
    assert np.allclose(nest.run(a, b), a @ b, rtol=1e-4)
    threads = ts.nest(PRODUCT).virtual_threads("m", 4)
    assert threads.schedule == "virtual_threads m 4 -> m0 m1\n" and np.allclose(threads.run(a, b), a @ b, rtol=1e-4)
    with pytest.raises(ts.Error, match="the size of 'P' has no bound within 'l1'; tile the loops that it grows with"):
        tiles.cache_read("B", "n0", "P", memory="l1").compile()
    small = tiles.split("k", 32).reorder("k0", "m0", "n0", "k1", "m1", "n1").cache_read("B", "n0", "P", memory="l1")
    assert np.allclose(small.run(a, b), a @ b, rtol=1e-4)


POINTS = """def product({0}(24, 10) A, {0}(10, 48) B) -> (C) {{ C(m, n) +=! A(m, k) * B(k, n) }}
def window({0}(9, 30, 30) I) -> (O) {{ O(c, y, x) max=! I(c, 2 * y + r, 2 * x + s) where y in 0:14, x in 0:14, r in 0:3, s in 0:3 }}"""


def drawn_point(choices, random):
    """A value for each choice that exists."""
    point = {}
    for choice in choices:
        if all(point.get(name) in values for name, values in choice.get("where", {}).items()):
            point[choice["choice"]] = int(random.choice(choice["values"]))
    return point


def asked(folder, function, *entries):
    """A file of choices by which the function stays a nest, though other operators say it."""
    path = folder / "s.json"
    path.write_text(json.dumps({"schedules": [{"nodes": [function], "as_operators": 0}, *entries]}))
    return path


def spaces_of(path, function):
    done = subprocess.run([COMMAND, "inspect", path, "--function", function, "--spaces", "--json", "--schedules", asked(path.parent, function)],
                          capture_output=True, text=True, check=True)  # fmt: skip
    [space] = [space for space in json.loads(done.stdout) if space.get("template") == "nest"]
    return space


@pytest.mark.parametrize("function,numbers", [("product", "float"), ("product", "int32"), ("window", "float")])
def test_random_points_of_a_nests_space(tmp_path, function, numbers):
    """Breaks if a point of its space changes results: integers to the last bit, floats but for the sum's rounding. Or if a choice
    that was made isn't told."""
    text = POINTS.format(numbers)
    (tmp_path / "points.tc").write_text(text)
    space = spaces_of(tmp_path / "points.tc", function)
    assert space["points"] > 1000 and {"nest_depth", "row_factors"} <= {choice["choice"] for choice in space["choices"]}
    rng = np.random.default_rng(5)
    shapes = [[24, 10], [10, 48]] if function == "product" else [[9, 30, 30]]
    draw = (lambda shape: rng.random(shape, np.float32)) if numbers == "float" else (lambda shape: rng.integers(-9, 9, shape, np.int32))
    inputs = [draw(shape) for shape in shapes]
    plain = np.asarray(ts.comprehension(text)[function](*inputs))
    seen = set()
    for _ in range(10):
        point = drawn_point(space["choices"], rng)
        seen.add(point["order"])
        ours = ts.comprehension(text, schedules=asked(tmp_path, function, {"key": space["key"], **point}))[function]
        assert np.allclose(ours(*inputs), plain, rtol=1e-5 if numbers == "float" else 0, atol=0), point
        [told] = [entry for entry in json.loads(ours.model.describe()["metadata"]["schedules"]) if entry["key"] == space["key"]]
        assert {name: told.get(name) for name in point} == point
    assert len(seen) > 2


@pytest.mark.parametrize("point,message", [
    ({"order": 4, "row_factors": 200000100001}, r'"row_factors" 200000100001, which is no factorisation of 25, the loop\'s length, in 4'),
    ({"order": 4, "depth_factors": 7}, r'"depth_factors" 7, which is no factorisation of 10, the loop\'s length, in 2'),
])
def test_factors_of_another_length_are_refused(tmp_path, point, message):
    """Breaks if they are dropped: the kernel would be another one than was asked for."""
    text = POINTS.format("float").replace("24", "25")
    (tmp_path / "points.tc").write_text(text)
    entry = {"key": spaces_of(tmp_path / "points.tc", "product")["key"], **point}
    with pytest.raises(ts.Error, match=message):
        ts.comprehension(text, schedules=asked(tmp_path, "product", entry)).product(np.ones((25, 10), np.float32), np.ones((10, 48), np.float32))


def test_factors_need_known_lengths(tmp_path):
    (tmp_path / "points.tc").write_text(PRODUCT)
    entry = {"key": spaces_of(tmp_path / "points.tc", "product")["key"], "order": 4}
    with pytest.raises(ts.Error, match="lengths of the kernel's loops aren't known"):
        ts.comprehension(PRODUCT, schedules=asked(tmp_path, "product", entry)).product(*operands())


def test_what_an_order_has_no_use_for_is_said(tmp_path):
    """Breaks if a choice of another order is told as made."""
    text = POINTS.format("float")
    (tmp_path / "points.tc").write_text(text)
    key = spaces_of(tmp_path / "points.tc", "product")["key"]
    done = subprocess.run([COMMAND, "compile", tmp_path / "points.tc", "--function", "product", "-o", tmp_path / "m.so", "--schedules",
                           asked(tmp_path, "product", {"key": key, "order": 2, "nest_rows": 3})], capture_output=True, text=True, check=True)  # fmt: skip
    assert 'entry 2: no kernel that it fits takes "nest_rows"' in done.stderr and 'takes "order"' not in done.stderr
