"""Tensor comprehensions from Python: random ones against an evaluator of its own, gradients against differences, the page.

What would break these: a range that is one too long, an index that is checked too late, an adjoint that forgets a read.
"""

import os
import pathlib
import re
import subprocess
import sys

import comprehension_draws
import numpy as np
import pytest

import tensmith as ts


ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSMITH_CACHE", str(tmp_path / "cache"))


def test_the_page():
    """Its blocks, one after the other."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/comprehensions.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    exec("\n".join(blocks), {})


@pytest.mark.parametrize("seed", range(12))
def test_random_comprehensions(seed):
    comprehension_draws.compare(seed)


PLUS = "def plus(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }\ndef twice(float(N) A) -> (C) { C = plus(A, A) }"


def test_functions_by_name():
    tc = ts.comprehension(PLUS)
    assert list(tc) == ["plus", "twice"]
    assert tc.twice(np.array([1, 2], np.float32)).tolist() == [2, 4]
    assert tc["plus"](np.array([1], np.float32), B=np.array([3], np.float32)).tolist() == [4]
    assert "plus" in dir(tc) and "C(i) = A(i) + B(i)" in tc.plus.__doc__
    with pytest.raises(AttributeError, match="no comprehension 'minus'; there are plus, twice"):
        tc.minus  # noqa: B018


def test_results_and_scalars():
    tc = ts.comprehension("def both(float(N) A, float c, int32 n) -> (S, T) { S +=! A(i) T(i) = A(i) * c + float(n) where i in 0:2 }")
    total, scaled = tc.both(np.arange(4, dtype=np.float32), 2.0, 7)
    assert float(total) == 6 and scaled.tolist() == [7, 9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(float(N) A) -> (C) {\n  C(i) = A(i +\n}", r"comprehension.tc:3:1: an expression is expected here, not '}'"),
        ("def f(float(N) A) -> (C) { C(i) += A(i) }", r"1:28: 'C' has no value before this statement"),
        ("", r"1:1: the text defines no comprehension"),
        ("x" * (10 << 20), r"at most"),
        ("def f(float(N) A) -> (C) { C(i) = " + "(" * 10000 + " }", r"nested too deep"),
    ],
)
def test_errors_have_line_and_column(text, message):
    with pytest.raises(ts.Error, match=message):
        ts.comprehension(text)


# Breaks when a table's row is put together element by element, each with a check of its own: ten times as slow, and the results are the same.
def test_rows_of_tables_are_read_as_vectors(tmp_path):
    text = "def sums(float(E, 64) T, int64(B, L) I) -> (O) { O(b, d) +=! T(I(b, l), d) }"
    sums = ts.comprehension(text, threads=1, dump_ir=tmp_path / "ir", cache_dir="", target="x86-64-v3").sums
    table, at = np.arange(640, dtype=np.float32).reshape(10, 64), np.array([[1, 9, 1], [0, 2, 7]])
    assert np.array_equal(sums(table, at), table[at].sum(1))
    [code] = [path.read_text() for path in (tmp_path / "ir").glob("k_*.llvm.mlir")]
    assert "llvm.insertelement" not in code


# Breaks if rows that lie in memory are waited for one after the other, or if rows that are near are asked for in vain.
@pytest.mark.parametrize("rows, size, is_far", [("E", "open", True), (100_000, 100_000, True), (100, 100, False)])
def test_rows_of_large_tables_are_asked_for_in_advance(tmp_path, rows, size, is_far):
    text = f"def sums(float({rows}, 64) T, int64(B, L) I) -> (O) {{ O(b, d) +=! T(I(b, l), d) }}"
    sums = ts.comprehension(text, threads=1, dump_ir=tmp_path / "ir", cache_dir="", target="x86-64-v3").sums
    count = 40 if size == "open" else size
    table = np.arange(count * 64, dtype=np.float32).reshape(count, 64) % 256
    for length in (1, 16, 17, 40):
        at = np.random.default_rng(length).integers(0, count, (5, length))
        assert np.array_equal(sums(table, at), table[at].sum(1))
    codes = [path.read_text() for path in (tmp_path / "ir").glob("k_*.llvm.mlir")]
    assert all(("llvm.intr.prefetch" in code) == is_far for code in codes) and codes
    at[3, 20] = count
    with pytest.raises(ts.Error, match=f"read at index {count}"):
        sums(table, at)


# Breaks if a loop that ends before any of the rows that it asks for asks nonetheless: each index would be read twice.
@pytest.mark.parametrize("length, asks", [(16, False), (17, True)])
def test_short_loops_ask_for_no_rows(tmp_path, length, asks):
    text = f"def sums(float(E, 64) T, int64(B, {length}) I) -> (O) {{ O(b, d) +=! T(I(b, l), d) }}"
    sums = ts.comprehension(text, threads=1, dump_ir=tmp_path / "ir", cache_dir="", target="x86-64-v3").sums
    table = np.arange(40 * 64, dtype=np.float32).reshape(40, 64)
    at = np.random.default_rng(1).integers(0, 40, (5, length))
    assert np.array_equal(sums(table, at), table[at].sum(1))
    codes = [path.read_text() for path in (tmp_path / "ir").glob("k_*.llvm.mlir")]
    assert all(("llvm.intr.prefetch" in code) == asks for code in codes) and codes


def test_errors_of_sizes_and_indices():
    f = ts.comprehension("def f(float(N, K) A, float(K) B) -> (C) { C(i) +=! A(i, k) * B(k) }").f
    with pytest.raises(ts.Error, match="K|B"):
        f(np.ones((2, 3), np.float32), np.ones(4, np.float32))
    g = ts.comprehension("def g(float(N) A) -> (C) { C(i) = A(i + 1) where i in 0:3 }").g
    with pytest.raises(ts.Error, match="A is read along dimension 0 at 'i . 1', that is at 3, where its last index is 2"):
        g(np.ones(3, np.float32))
    h = ts.comprehension("def h(float(N) A, int64(M) I) -> (C) { C(i) = A(I(i)) }").h
    with pytest.raises(ts.Error, match="A is read at index -1 along dimension 0"):
        h(np.ones(3, np.float32), np.array([0, -1]))
    assert h(np.ones(3, np.float32), np.zeros(0, np.int64)).shape == (0,)


def test_an_empty_domain_gives_what_no_elements_give():
    tc = ts.comprehension("def f(float(N, K) A) -> (S, L) { S(i) +=! A(i, k) L(i) max=! A(i, k) }")
    total, largest = tc.f(np.zeros((2, 0), np.float32))
    assert total.tolist() == [0, 0] and largest.tolist() == [-np.inf, -np.inf]


BOUNDED = ["C(m) +=! A(m, k) where k in 0:m+1", "C(m) +=! A(k, m) where k in m:N", "C(m) +=! A(m, k) where k in 0:N-m",
           "C(m, n) +=! A(m, k) * A(n, k) where k in 0:n+1"]  # fmt: skip


@pytest.mark.parametrize("statement", BOUNDED)
@pytest.mark.parametrize("size", [4, 7, 8, 16, 17])
def test_sums_whose_bounds_are_other_indices_at_known_sizes(statement, size):
    """Breaks if a vector that is whole in one tile of lanes loses all its bounds."""
    text = f"def f(double(N, N) A) -> (C) {{ {statement} }}"
    a = np.random.default_rng(size).integers(-4, 5, (size, size)).astype(float)
    wanted = ts.comprehension(text, reference=True).f(a)
    np.testing.assert_array_equal(ts.comprehension(text, shapes={"N": size}, threads=1).f(a), wanted)


def test_lanes_of_a_factored_product_are_the_results(tmp_path):
    """Breaks if a schedule file can ask for lanes along the sum that factors are to cut."""
    text = "def f(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
    entry = '{"kernel":"comprehension 32x24:f32 24x48:f32 -> 32x48:f32","order":4,"nest_lanes_along":3}'
    (tmp_path / "s.json").write_text(f'{{"schedules":[{entry}]}}')
    a, b = np.ones((32, 24), np.float32), np.ones((24, 48), np.float32)
    f = ts.comprehension(text, shapes={"M": 32, "K": 24, "N": 48}, schedules=tmp_path / "s.json").f
    np.testing.assert_array_equal(f(a, b), a @ b)


GRADIENTS = {
    "product": "def f(double(M, K) A, double(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }",
    "convolution": "def f(double(H) A, double(K) B) -> (C) { C(i) +=! A(i + k) * B(k) }",
    "strided": "def f(double(H) A, double(K) B) -> (C) { C(i) +=! A(2 * i + k) * B(k) }",
    "reversed": "def f(double(H) A, double(H) B) -> (C) { C(i) = A(5 - i) * B(i) where i in 0:6 }",
    "triangle": "def f(double(N, N) A, double(N) B) -> (C) { C(i) +=! A(i, j) * B(j) where j in 0:i + 1 }",
    "diagonal": "def f(double(N, N) A, double(N) B) -> (C) { C(i) = A(i, i) * B(i) }",
    "gather": "def f(double(N, D) A, double(D) B, int32(M) I) -> (C) { C(m, d) = A(I(m), d) * B(d) }",
    "maximum": "def f(double(N, K) A, double(K) B) -> (C) { C(i) max=! A(i, k) * B(k) }",
    "minimum": "def f(double(N) A, double(K) B) -> (C) { C(i) min=! (A(i) - B(k)) * (A(i) - B(k)) }",
    "multiplied": "def f(double(N, K) A, double(K) B) -> (C) { C(i) *=! A(i, k) + B(k) }",
    "softmax": "def f(double(N, D) A, double(D) B) -> (C) { m(n) max=! A(n, d) s(n) +=! exp(A(n, d) - m(n)) "
    "C(n, d) = exp(A(n, d) - m(n)) / s(n) * B(d) }",
    "choice": "def f(double(N) A, double(N) B) -> (C) { C(i) = A(i) > 0.5 ? A(i) * B(i) : sin(B(i)) - tanh(A(i)) }",
    "statements": "def f(double(N) A, double(N) B) -> (C) { C(i) = A(i) * A(i) C(i) += B(i) * A(i) C(i) = C(i) * B(i) }",
    "overwritten": "def f(double(N) A, double(N) B) -> (C) { C(i) = A(i) * B(i) C(i) = B(i) * B(i) where i in 1:3 }",
    "called": "def g(double(N) X) -> (Y) { Y(i) = X(i) * sqrt(X(i)) }\n"
    "def f(double(N) A, double(N) B) -> (C) { T = g(A) C(i) = T(i) / B(i) }",
    "continued": "def f(double(N, K) A, double(N) B) -> (C) { C(i) = B(i) C(i) max= A(i, k) }",
    "windows": "def f(double(H, W) A, double(P, Q) B) -> (C) { C(i, j) +=! A(i + p, j + q) * B(p, q) }",
}
SIZES = {"M": 3, "N": 4, "K": 3, "H": 9, "D": 2, "W": 5, "P": 2, "Q": 3}


def inputs_of(text, random):
    signature = re.findall(r"def f\((.*?)\) ->", text, re.DOTALL)[0]
    for kind, sizes, name in re.findall(r"(\w+)\(([\w, ]+)\) (\w+)", signature):
        shape = [SIZES[size] for size in sizes.split(", ")]
        yield name, random.integers(0, SIZES["N"], shape, np.int32) if kind == "int32" else random.uniform(0.2, 1.5, shape)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_differences(name):
    text, random = GRADIENTS[name], np.random.default_rng(len(name))
    f = ts.comprehension(text).f
    given = dict(inputs_of(text, random))
    weights = random.standard_normal(np.shape(f(**given)))
    _, da, db = f.grad(wrt=["A", "B"])(**given, **{"cotangent.C": weights})
    for wrt, found in (("A", da), ("B", db)):
        assert found.shape == given[wrt].shape
        for place in np.ndindex(*found.shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = given[wrt].copy()
                moved[place] += step
                values.append((np.asarray(f(**(given | {wrt: moved}))) * weights).sum())
            assert abs((values[0] - values[1]) / 2e-6 - found[place]) < 1e-6 * (1 + abs(found[place])), (wrt, place)


def test_a_gradient_reads_without_checks_what_its_ranges_keep_inside(tmp_path):
    """Breaks if reads that are known to be inside are gathers: each element then has a check of its own, which take seconds to compile."""
    ts.comprehension(GRADIENTS["product"]).f.grad(wrt=["A", "B"], dump_ir=tmp_path / "stages")
    kernels = [path.read_text() for path in (tmp_path / "stages").glob("kernel-*.mlir")]
    assert len(kernels) >= 3 and max(text.count("llvm.call") for text in kernels) < 10


# Breaks if a condition is taken for one that the ranges imply though its sum leaves 64 bits.
def test_a_condition_at_the_limit_of_integers_is_asked():
    f = ts.comprehension("def f(float(N) A) -> (B) { B(i) = (i < 0 - 9223372036854775807 - 1) ? A(i) : 0.5 * A(i) }").f
    assert f(np.ones(3, np.float32)).tolist() == [0.5, 0.5, 0.5]


def test_a_function_without_derivative_is_named():
    f = ts.comprehension("def f(double(N) A) -> (C) { C(i) = lgamma(A(i)) }").f
    with pytest.raises(ts.Error, match="'lgamma' has no derivative"):
        f.grad(wrt="A")


def test_a_second_process_compiles_nothing():
    program = f"""
import numpy as np, os, tensmith as ts
f = ts.comprehension({PLUS!r}).plus
assert f(np.ones(3, np.float32), np.ones(3, np.float32)).tolist() == [2, 2, 2]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    # What a compilation would begin with fails.
    replaced = "import tensmith._tensmith as native\ndef refuse(*args): raise SystemExit('it compiles')\nnative.compile_bytes = refuse\n"
    subprocess.run([sys.executable, "-c", replaced + program], check=True)


def test_a_file_by_the_command_line(tmp_path):
    """Breaks if a file of comprehensions is no model of the commands, or if the one that is named isn't taken."""
    program = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
    (tmp_path / "two.tc").write_text(
        "def twice(float(N) A) -> (B) { B(i) = 2 * A(i) }\ndef product(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }\n"
    )
    call = lambda *words: subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    done = call("run", "two.tc", "--function", "product", "--input", "A=2x3xf32=ones", "--input", "B=3x2xf32=ones")
    assert "C: f32 2x2\n  3, 3, 3, 3" in done.stdout, done.stderr
    assert call("compile", "two.tc", "--function", "twice", "-o", "twice.so").returncode == 0
    assert "0, 2, 4" in call("run", "twice.so", "--input", "A=3xf32=range").stdout
    assert "say which function, of twice, product" in call("run", "two.tc", "--input", "A=3xf32=ones").stderr
    assert "has no comprehension 'none'; there are twice, product" in call("inspect", "two.tc", "--function", "none").stderr
