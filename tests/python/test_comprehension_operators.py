"""Statements that other operators say: products, convolutions and sums with indices in any order, against NumPy and against the same statement as a nest."""

import itertools
import json
import random

import numpy as np
import pytest

import tensmith as ts


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSMITH_CACHE", str(tmp_path / "cache"))


def kernels(function):
    """What the function's kernels compute."""
    return " ".join(kernel["label"] for kernel in function.model.describe()["kernels"])


@pytest.fixture
def as_nest(tmp_path):
    """The setting by which a statement of the text stays one."""
    path = tmp_path / "nest.json"
    path.write_text(json.dumps({"schedules": [{"nodes": ["f"], "as_operators": 0}]}))
    return {"schedules": path}


def declared(name, indices, sizes=None):
    return f"float({', '.join(str(sizes[index]) if sizes else f'N{index}' for index in indices)}) {name}"


def check(text, given, wanted, says, as_nest, **settings):
    ours, nest = ts.comprehension(text, threads=1, **settings).f, ts.comprehension(text, threads=1, **settings, **as_nest).f
    for each in (ours, nest):
        np.testing.assert_allclose(each(*given), wanted, rtol=1e-4, atol=1e-4 * max(1, np.abs(wanted).max(initial=0)), err_msg=text)
    assert says in kernels(ours), (text, kernels(ours))
    assert "comprehension" in kernels(nest), (text, kernels(nest))


# Breaks when an index lands in another place, a stack of several indices is taken for one, or rows and columns change places.
@pytest.mark.parametrize("seed", range(10))
def test_products(seed, as_nest):
    draw = random.Random(seed)
    names = iter("abcdefgh")
    kinds = {kind: [next(names) for _ in range(draw.randint(kind == "summed", 2))] for kind in ("stack", "rows", "columns", "summed")}
    if seed == 0:
        kinds = {"stack": [], "rows": ["c"], "columns": ["a", "b", "d"], "summed": ["e"]}  # columns around the rows
    shuffled = lambda *parts: draw.sample(sum(parts, []), sum(map(len, parts)))  # noqa: E731
    a, b = shuffled(kinds["stack"], kinds["rows"], kinds["summed"]), shuffled(kinds["stack"], kinds["columns"], kinds["summed"])
    result = shuffled(kinds["stack"], kinds["rows"], kinds["columns"]) if seed else ["a", "b", "c", "d"]
    text = f"def f({declared('A', a)}, {declared('B', b)}) -> (C) {{ C({', '.join(result)}) +=! A({', '.join(a)}) * B({', '.join(b)}) }}"
    if not result:
        text = text.replace("C()", "C")
    for least in (0, 1, 1):
        sizes = {name: draw.randint(least, 5) for name in "abcdefgh"}
        given = [np.random.default_rng(seed).standard_normal([sizes[name] for name in names]).astype("float32") for names in (a, b)]
        wanted = np.einsum(f"{''.join(a)},{''.join(b)}->{''.join(result)}", *(x.astype("float64") for x in given))
        check(text, given, wanted, "matmul", as_nest)


# Breaks when strides or dilations are taken for one another, groups for channels, or a window's dimension for another's.
@pytest.mark.parametrize("seed", range(8))
def test_convolutions(seed, as_nest):
    draw = random.Random(seed)
    count = draw.randint(1, 3)
    plain = [name for name in "nguc" if name == "c" or draw.random() < 0.7]
    sizes = {name: draw.randint(1, 4) for name in "ngucxyzrst"}
    windows = list(zip("xyz", "rst"))[:count]
    strides = {x: draw.randint(1, 2) for x, _ in windows}
    dilations = {r: draw.randint(1, 2) for _, r in windows}
    extents = {x: strides[x] * (sizes[x] - 1) + dilations[r] * (sizes[r] - 1) + 1 for x, r in windows}
    image = draw.sample([name for name in plain if name in "ngc"] + [x for x, _ in windows], count + sum(name in "ngc" for name in plain))
    weights = draw.sample([name for name in plain if name in "guc"] + [r for _, r in windows], count + sum(name in "guc" for name in plain))
    result = draw.sample([name for name in plain if name in "ngu"] + [x for x, _ in windows], count + sum(name in "ngu" for name in plain))
    taps = dict(windows)
    place = lambda name: f"{strides[name]} * {name} + {dilations[taps[name]]} * {taps[name]}" if name in taps else name  # noqa: E731
    known = sizes | extents
    text = (f"def f({declared('I', image, known)}, {declared('K', weights, sizes)}) -> (O) {{"
            f" O({', '.join(result)}) +=! I({', '.join(map(place, image))}) * K({', '.join(weights)}) }}")  # fmt: skip
    random_ = np.random.default_rng(seed)
    x = random_.standard_normal([known[name] for name in image]).astype("float32")
    w = random_.standard_normal([sizes[name] for name in weights]).astype("float32")
    wanted = np.zeros([sizes[name] for name in result])
    names = [name for name in "ngucxyzrst" if name in plain or any(name in pair for pair in windows)]
    for point in itertools.product(*(range(sizes[name]) for name in names)):
        at = dict(zip(names, point))
        where = [strides[name] * at[name] + dilations[taps[name]] * at[taps[name]] if name in taps else at[name] for name in image]
        wanted[tuple(at[name] for name in result)] += float(x[tuple(where)]) * float(w[tuple(at[name] for name in weights)])
    check(text, [x, w], wanted, "conv", as_nest)


# Breaks when what is summed is in another order than the sum, or a read with fewer indices stands for other elements.
@pytest.mark.parametrize(
    ("text", "wanted", "says"),
    [
        ("S(i) +=! A(i, j, k) * A(i, j, k)", lambda a, b: (a * a).sum((1, 2)), "reduce_sum"),
        ("S(k, i) +=! exp(-A(i, j, k)) / (B(k, j) * B(k, j) + 2.0)", lambda a, b: (np.exp(-a) / (b.T**2 + 2)).sum(1).T, "reduce_sum"),
        ("S +=! A(i, j, k) - B(k, j)", lambda a, b: (a - b.T).sum(), "reduce_sum"),
        ("S(j) max=! A(i, j, k) + B(k, j)", lambda a, b: (a + b.T).max((0, 2)), "reduce_max"),
        ("S(k) min=! sqrt(A(i, j, k) * A(i, j, k))", lambda a, b: np.abs(a).min((0, 1)), "reduce_min"),
        ("S(i) +=! A(i, j, k) * float(uint8(J * 100)) / float(K - J)", lambda a, b: (a * (1700 % 256) / -12).sum((1, 2)), "reduce_sum"),
        ("S(i) +=! max(A(i, j, k), 0.0) - min(A(i, j, k), B(k, j))", lambda a, b: (np.maximum(a, 0) - np.minimum(a, b.T)).sum((1, 2)), "reduce_sum"),
        ("S(i) +=! A(i, j, k) + float(J * 65536 * 65536)", lambda a, b: a.sum((1, 2)), "reduce_sum"),
    ],
)
def test_sums(text, wanted, says, as_nest):
    random_ = np.random.default_rng(4)
    given = [random_.standard_normal(shape).astype("float32") for shape in [(3, 17, 5), (5, 17)]]
    text = f"def f(float(I, J, K) A, float(K, J) B) -> (S) {{ {text} }}"
    check(text, given, wanted(*(x.astype("float64") for x in given)), says, as_nest, shapes={"I": 3, "J": 17, "K": 5})


# Breaks when a statement is taken for an operator that has other points than it, or although somebody gives it an order.
@pytest.mark.parametrize(
    "text",
    [
        "C(i, j) +=! A(i, k) * B(k, j) where k in 0:i + 1",
        "C(i, j) +=! A(i, k) * B(k, j) where k in 1:3",
        "C(i, j) +=! A(i, k) * B(k + 1, j)",
        "C(i) +=! A(i, i) * B(k, i)",
        "C(i, j) +=! A(i + k, j + k) * B(0, k) where k in 0:2",
        "C(i, j) +=! A(i, k) * B(k, j)\n  # schedule: parallel i\n",
    ],
)
def test_what_stays_a_statement(text):
    assert "comprehension" in kernels(ts.comprehension(f"def f(float(N, N) A, float(N, N) B) -> (C) {{\n  {text}\n}}", threads=1).f)


# Breaks when the gradient's own statements are right by themselves and wrong as operators.
def test_gradients_of_operators():
    tc = ts.comprehension("def f(float(G, M, K) A, float(N, K, G) B) -> (C) { C(m, g, n) +=! A(g, m, k) * B(n, k, g) }", threads=1)
    random_ = np.random.default_rng(5)
    a, b, c = (random_.standard_normal(shape).astype("float32") for shape in [(3, 4, 5), (6, 5, 3), (4, 3, 6)])
    _, da, db = tc.f.grad(wrt=["A", "B"], of="C")(A=a, B=b, **{"cotangent.C": c})
    np.testing.assert_allclose(da, np.einsum("mgn,nkg->gmk", c, b), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(db, np.einsum("mgn,gmk->nkg", c, a), rtol=1e-4, atol=1e-5)
