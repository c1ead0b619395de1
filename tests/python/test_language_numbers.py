"""Numbers that are written in a program have the value of the type that they stand beside, to the last bit; and local values
are used at several types. By compiled code, partially evaluated and as written, and by the language's own evaluator.
"""

import numpy as np
import pytest
import tensmith as ts

FORMS = [{}, {"fuse": False}, {"reference": True}]
X = np.array([0.1, 1 / 3, -2.5])


@pytest.fixture
def program(tmp_path):
    def build(text, **options):
        path = tmp_path / "program.tsm"
        path.write_text(text)
        return ts.compile(path, threads=1, **options)

    return build


# With f32's value of 0.1 each differs in some digit after the eighth.
NUMBERS = {
    "fn main(x: f64[3]) = x * 0.1": X * 0.1,
    "fn main(x: f64[3]) = 0.1 * x": X * 0.1,
    "fn main(x: f64[3]) = { let c = 0.1; x * c }": X * 0.1,
    "fn main(x: f64[3]) = { let c = 0.1; let d = c; let (e, f) = (d, 2); x * e * f }": X * 0.1 * 2,
    "let c = 0.1\nfn main(x: f64[3]) = x * c": X * 0.1,
    "let c = 0.1 * 3\nfn main(x: f64[3]) = x * c": X * (0.1 * 3),
    "fn scaled(v) = v * 0.1\nfn main(x: f64[3]) = scaled(x)": X * 0.1,
    "fn scaled(v, c) = v * c\nfn main(x: f64[3]) = scaled(x, 0.1)": X * 0.1,
    "fn tenth() = 0.1\nfn main(x: f64[3]) = x * tenth()": X * 0.1,
    "fn main(x: f64[3]) = { let f = fn(v) => v + 0.1; f(x) }": X + 0.1,
    "fn main(x: f64[3]) = x * (0.1 + 0.2)": X * (0.1 + 0.2),
    "fn main(x: f64[3]) = x * (1 / 3.0)": X * (1 / 3),
    "fn main(x: f64[3]) = x * -(0.1 * 3 - 0.7) / 1.1": X * -(0.1 * 3 - 0.7) / 1.1,
    "fn main(x: f64[3]) = { let c = 0.1 * 0.1; let d = c + c; x * d }": X * (0.1 * 0.1 * 2),
    "fn half(a) = a * 0.1\nfn main(x: f64[3]) = x * half(0.1)": X * (0.1 * 0.1),
    "fn main(x: f64[3]) = x + sqrt(0.1)": X + np.sqrt(0.1),
    "fn main(x: f64[3]) = min(max(x, 0.1), 0.3)": np.clip(X, 0.1, 0.3),
    "fn main(x: f64[3]) = max(x, 0.1)": np.maximum(X, 0.1),
    "fn main(x: f64[3]) = where(x < 0.1, x, 0.1)": np.where(X < 0.1, X, 0.1),
    "fn main(x: f64[3]) = where(x <= 0.1, 0.1, 0.2)": np.where(X <= 0.1, np.float32(0.1), np.float32(0.2)),
    "fn main(x: f64[3]) = abs(x) + pow(abs(x), 0.1)": np.abs(X) + np.power(np.abs(X), 0.1),
    "fn main(x: f64[3]) = x * (if true { 0.1 } else { 0.2 })": X * 0.1,
    "fn main(x: f64[3]) = match Some(0.1) { Some(c) => x * c, None => x }": X * 0.1,
    "fn main(x: f64[3]) = fold(fn(a, b) => a + b * 0.1, x, [0.1, 0.2])": X + 0.1 * 0.1 + 0.2 * 0.1,
    "fn main(x: f64[3]) = x + (broadcast(0.1) : f64[3])": X + 0.1,
    "fn main(x: f64[3]) = cast(cast(x, to = f32) * 0.1, to = f64)": np.float64(X.astype(np.float32) * np.float32(0.1)),
}


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_numbers_have_their_neighbours_type(program, text, form):
    got = program(text + "\n", **FORMS[form])(X)
    want = NUMBERS[text]
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=4e-16, atol=0)


K, F = np.array(3), np.array([1.5, -2.0], np.float32)
POLYMORPHIC = {
    "let f = fn(v) => v; (f(x), f(k))": [F, 3],
    "let twice = fn(f) => fn(v) => f(f(v)); (twice(fn(v) => v * 0.5)(x), twice(fn(v) => v + 1)(k))": [F * 0.25, 5],
    "let pair = fn(a) => (a, a); let (p, q) = pair(x); let (r, s) = pair(k); (p + q, r * s)": [F * 2, 9],
    "let none = Nil; (length(Cons(x, none)), length(Cons(k, Cons(k, none))))": [1, 2],
    "let add = fn(a, b) => a + b; let inc = fn(v) => add(v, 1); (inc(x), inc(k))": [F + 1, 4],
    "let f = fn(v) => v; let f = fn(v) => f(f(v)); (f(x), f(k))": [F, 3],
    "let y = x * 2.0; let f = fn(v) => (v, y); let (a, b) = f(k); let (c, d) = f(x); (b + d, a)": [F * 4, 3],
    "let g = fn(f) => f(x); let f = fn(v) => v; (g(fn(f) => f * f), f(k))": [F * F, 3],
}


@pytest.mark.parametrize("text", POLYMORPHIC)
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_local_values_have_a_type_for_each_use(program, text, form):
    model = program("fn main(x: f32[2], k: i64[]) = { " + text + " }\n", **FORMS[form])
    for got, want in zip(model.run(F, K), POLYMORPHIC[text], strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_function_that_gives_a_function_is_open_until_it_is_used(program):
    model = program("fn adder(k: i64[]) = fn(v) => v + 1\nfn main(x: f32[2], k: i64[]) = (adder(k)(x), adder(k)(k))\n")
    got = model.run(F, K)
    np.testing.assert_array_equal(got[0], F + 1)
    assert got[1] == 4


def test_what_changes_is_made_once(program):
    """A reference that each use had of its own would count to 1 twice."""
    model = program("fn main(x: f32[]) = { let n = ref(0); let next = fn(u) => { n := *n + 1; (*n, u) };\n"
                    "  let (a, _) = next(x); let (b, _) = next(1); (a, b, x) }\n")
    assert [int(value) for value in model.run(np.float32(0))[:2]] == [1, 2]


def test_a_size_that_a_data_type_names_is_forgotten(program):
    """Else the sum would read a fifth element of four."""
    with pytest.raises(ts.Error):
        program("type Row = Row(f32[n])\nfn main(x: f32[4], y: f32[5]) = match Row(x) { Row(r) => r + y }\n")(
            np.ones(4, np.float32), np.ones(5, np.float32))


def test_budgets_of_programs(program, tmp_path):
    """Of a chain whose values a gradient reads: a budget makes it compute some again, and bits stay."""
    text = "fn main(x: f32[64, 64]) = reduce_sum(" + "tanh(" * 12 + "x" + " @ x)" * 12 + ", axes = [0, 1])\n"
    path = tmp_path / "chain.tsm"
    path.write_text(text)
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    whole = ts.grad(path, wrt=["x"], of="result", precision="exact")
    budget = int(whole.describe()["metadata"]["run_bytes_planned"] * 0.9)
    held = ts.grad(path, wrt=["x"], of="result", precision="exact", memory=budget)
    assert held.describe()["metadata"]["run_bytes_planned"] <= budget
    for got, want in zip(held.run(x), whole.run(x), strict=True):
        np.testing.assert_array_equal(got, want)
    assert program(text, memory="64MB")(x) == program(text)(x)
    with pytest.raises(ts.Error, match="the least is"):
        program(text, memory=1000)
    with pytest.raises(ts.Error, match="program.tsm: 2:32 f: a recursion that the data decides is left"):
        program("fn f(x, k: i64[]) = if k < 1 { x } else { f(x * 2.0, k - 1) }\nfn main(x: f32[3], k: i64[]) = f(x, k)\n",
                memory="1MB")
