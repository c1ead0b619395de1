"""Programs of the language, from text to what they return: types, messages with their places, recursion, limits.

What would break these: inference that loses a relation, a place that points elsewhere, a match that is compiled to
the wrong constructor, recursion on the host's stack, a value that is freed while it is still needed.
"""

import importlib.util
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import tensmith as ts


@pytest.fixture
def program(tmp_path):
    def build(text, **options):
        path = tmp_path / "program.tsm"
        path.write_text(text)
        return ts.compile(path, threads=1, **options)

    return build


# Messages and types are tested in frontends/text/test; these need files, or the whole way.
REJECTED = [
    ("fn main(x: f32[3]) = x + z\n", "1:26", "nothing with the name 'z'"),
    ("fn main(x: f32[3]) = reduce_mean(x, axes = [0])\n", "1:22", "nothing with the name 'reduce_mean'"),
    ("fn f(x) = x\n", None, "has no function main"),
    ("fn main(x: f32[3]) = load(\"../secret.npy\")\n", "1:22", "only files beside the program"),
    ("fn main(x: f32[3]) = load(\"none.npy\")\n", "1:22", "can't be opened"),
]


@pytest.mark.parametrize("text, place, message", REJECTED)
def test_rejected(program, text, place, message):
    with pytest.raises(ts.Error) as error:
        program(text)
    first = str(error.value).splitlines()[0]
    assert message in first, first
    if place:
        assert f"program.tsm:{place}: " in first, first


def test_every_declaration_reports_its_own_error(program):
    with pytest.raises(ts.Error) as error:
        program("fn f(x) = (x\n\nfn g(x) = x +\n\nfn main(x: f32[3]) = y\n")
    assert [line.split(": ")[0].rsplit("program.tsm:")[1] for line in str(error.value).splitlines()] == ["3:1", "5:4"]


@pytest.mark.parametrize("text", [
    "fn main(x: f32[3]) = " + "(" * 100000,
    "fn main(x: f32[3]) = " + "-" * 100000 + "x",
    "fn main(x: f32[3]) = x" + " + x" * 100000,
    "fn main(x: f32[3]) = x" + "(x)" * 100000,
    "fn main(x: f32[3]) = {" + "let x = x;" * 100000 + "x}",
    "fn main(x: f32[" + "1+" * 100000 + "1]) = x",
    "fn main(x: " + "List[" * 100000,
])
def test_what_is_nested_without_end_is_refused(program, text):
    with pytest.raises(ts.Error):
        program(text)


NEST = "type Nest[a] = Done | More(a, {inside})\n"


@pytest.mark.parametrize("inside", ["Nest[(a, a)]", "Nest[List[a]]", "Nest[(a, Nest[List[a]])]"])
def test_types_that_go_on_for_ever(program, inside):
    """Each value ends, but its type has ever larger ones inside, each as text a multiple of the last."""
    inner = program(NEST.format(inside=inside) + "fn main(x: f64[]) = match More(x, Done) { Done => 0.0, More(a, _) => a * a }")
    assert inner.run(x=np.float64(3))[0] == 9
    given = program(NEST.format(inside=inside) + "fn main(x: Nest[f64[]]) = match x { Done => 0.0, More(a, _) => a * a }")
    assert given is not None


COUNT = """
fn count(n) = if n <= 0 { Nil } else { Cons(n, count(n - 1)) }
"""


def test_functions_data_types_and_closures(program):
    model = program(COUNT + """
fn build(depth, x) =
  if depth <= 0 { Leaf(x) } else { Node(build(depth - 1, x), build(depth - 1, x * 2.0)) }

fn total(t) = match t { Leaf(x) => x, Node(l, r) => total(l) + total(r) }

fn main(n: i64[], x: f32[2]) =
  (fold(fn(a, b) => a + b, 0, count(n)), total(build(3, x)), map(fn(v) => v * n, count(3)), zip(count(2), [x, x * 2.0]))
""")
    total, tree, scaled, pairs = model(np.int64(1000), np.array([1, 2], np.float32))
    assert total == 500500
    assert tree.tolist() == [27, 54]
    assert [int(value) for value in scaled] == [3000, 2000, 1000]
    assert [(int(pair[0]), pair[1].tolist()) for pair in pairs] == [(2, [1, 2]), (1, [2, 4])]


def test_values_go_in_and_out(program):
    model = program("""
type Shape = Circle(f32[]) | Box(f32[], f32[]) | Group(List[Shape])
fn area(s) = match s {
  Circle(r) => 3.0 * r * r,
  Box(a, b) => a * b,
  Group(shapes) => fold(fn(sum, one) => sum + area(one), 0.0, shapes),
}
fn main(s: Shape) = (area(s), Group([s, Circle(1.0)]))
""")
    make = model.constructors
    f = np.float32
    area, group = model(make["Group"](model._value([make["Circle"](f(2)), make["Box"](f(3), f(4))])))
    assert area == 24
    assert repr(list(group[0])[1]).startswith("Circle(array(1")


def test_values_that_are_not_of_their_type_are_refused(program):
    model = program("fn main(xs: List[f32[2]]) = fold(fn(a, b) => a + b, (load_zero() : f32[2]), xs)\n"
                    "fn load_zero() = (broadcast(0.0) : f32[2])\n")
    make = model.constructors
    assert model([np.ones(2, np.float32)] * 3).tolist() == [3, 3]
    for wrong in (ts.Value("Cons", 1, (np.ones(2, np.float32),)), ts.Value("Cons", 9, ()),
                  [np.ones(3, np.float32)], [np.ones(2, np.float64)], [make["Nil"]]):
        with pytest.raises(ts.Error):
            model(wrong)


def test_values_are_given_again(program):
    """What is written to their arrays is seen, whether they were converted without a copy or not."""
    model = program("fn main(t: Tree[f32[2]]) = fold_tree(fn(x) => x, fn(a, b) => a + b, t)\n")
    leaf, node = model.constructors["Leaf"], model.constructors["Node"]
    for y in (np.ones(2, np.float32), np.ones(4, np.float32)[::2]):
        tree = node(leaf(np.ones(2, np.float32)), leaf(y))
        assert model(tree).tolist() == [2, 2]
        y[1] += 2
        assert model(tree).tolist() == [2, 4]
        assert model(node(tree, tree)).tolist() == [4, 8]
        assert model(pickle.loads(pickle.dumps(tree))).tolist() == [2, 4]


def test_python_values_are_of_the_inputs_type(program):
    model = program("fn main(xs: List[(i64[], f32[2])], p: (i64[], List[i64[]]), t: Tree[i64[]]) = (length(xs), p, t)\n")
    one, two, tree = np.int64(1), np.zeros(2, np.float32), model.constructors["Leaf"](np.int64(3))
    assert model([(one, two)] * 4, (one, [one]), tree)[0] == 4
    for xs, p, t, said in [
        (((one, two),), (one, []), tree, "input 'xs', .*: a tuple of 1 stands where a list is expected"),
        ([[one, two]], (one, []), tree, "input 'xs', .*: a list stands where a tuple of 2 is expected"),
        ([(one, two, two)], (one, []), tree, "input 'xs', .*: a tuple of 3 stands where a tuple of 2 is expected"),
        ([(one, (two,))], (one, []), tree, "input 'xs', .*: a tuple of 1 stands where a tensor is expected"),
        ([], [one], tree, "input 'p', .*: a list stands where a tuple of 2 is expected"),
        ([], (one, one), tree, "input 'p', .*: int64 stands where a list is expected"),
        ([], (one, []), [one], "input 't', .*: a list stands where a value of Tree"),
    ]:
        with pytest.raises(ts.Error, match=said):
            model(xs, p, t)


def test_unknown_sizes_are_checked_when_it_runs(program):
    model = program("fn join(xs) = fold(fn(a, x) => (concat(a, x, axis = 0) : f32[?]), (x0() : f32[?]), xs)\n"
                    "fn x0() = (broadcast(7.0) : f32[1])\n"
                    "fn main(xs: List[f32[?]], y: f32[n]) = join(xs) * y\n")
    parts = [np.arange(size, dtype=np.float32) for size in (2, 3)]
    expected = np.concatenate([[7], *parts])
    assert model(parts, np.ones(6, np.float32)).tolist() == expected.tolist()
    with pytest.raises(ts.Error):
        model(parts, np.ones(5, np.float32))


REFERENCES = """
type Knot = Knot(i64[], Ref[List[Knot]])

fn bump(r) = r := *r + 1

fn counter() = {
  let c = ref(0);
  fn() => {
    bump(c);
    *c
  }
}

fn each(f, xs) =
  match xs {
    Nil => (),
    Cons(x, rest) => {
      f(x);
      each(f, rest)
    },
  }

fn loop(go, step) = if go() { step(); loop(go, step) } else { () }

fn factorial(n) = {
  let r = ref(1);
  let i = ref(n);
  loop(fn() => *i > 0, fn() => { r := *r * *i; i := *i - 1; });
  *r
}

fn value(knot) -> i64[] = match knot { Knot(v, _) => v }

fn main(x: f32[n], k: i64[]) = {
  let next = counter();
  let a = next();
  let b = (next(), next() * 10, next() - *ref(1));
  let links = ref(Nil);
  links := [Knot(k, links), Knot(k + 1, links)];
  let sum = ref(x);
  let before = *sum;
  each(fn(v) => sum := *sum + v, [x, x]);
  if k > 0 { sum := *sum * 2.0; } else { sum := x; };
  (a, b, factorial(k), before, *sum, next(), map(value, *links))
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_references_are_changed_in_order(tmp_path, threads):
    path = tmp_path / "program.tsm"
    path.write_text(REFERENCES)
    model = ts.compile(path, threads=threads)
    x = np.arange(3, dtype=np.float32)
    for _ in range(3):  # each run has references of its own
        a, b, factorial, before, total, after, links = model(x, np.int64(5))
        assert (a, [int(part) for part in b], factorial, after) == (1, [2, 30, 3], 120, 5)
        assert before.tolist() == [0, 1, 2] and total.tolist() == [0, 6, 12]
        assert [int(part) for part in links] == [5, 6]
    assert model(x, np.int64(0))[4].tolist() == [0, 1, 2]


def test_references_in_circles_end_with_the_run(program):
    model = program("""
type Ring = Ring(f32[n], Ref[Option[Ring]])
fn ring(x, left, first) =
  if left <= 0 { () } else {
    let r = ref(Some(first));
    r := Some(Ring(x, r));
    ring(x, left - 1, Ring(x, r))
  }
fn main(x: f32[n], k: i64[]) = { ring(x, k, Ring(x, ref(None))); x }
""")
    import resource

    x = np.zeros(100_000, np.float32)
    model(x, np.int64(3))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200):
        model(x, np.int64(20))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000, f"{grown} kB"


@pytest.mark.parametrize("optimize", [0, 1])
def test_what_is_not_needed_is_not_computed_wherever_it_stands(program, optimize):
    model = program("""
fn endless(x: f32[n]) -> f32[n] = if reduce_max(x, axes = [0]) < 0.0 { x } else { endless(x * 2.0) }
fn choose(later, x: f32[n], c: bool[]) = { let y = later(x); if c { y } else { x } }
fn main(x: f32[n], c: bool[]) = (choose(fn(v) => endless(v + 1.0), x, c), choose(endless, x, c))
""", fuse=optimize > 0)
    x = np.arange(3, dtype=np.float32)
    for result in model(x, np.bool_(False)):
        assert result.tolist() == x.tolist()


@pytest.mark.parametrize("optimize", [0, 1])
def test_a_function_knows_the_sizes_of_inputs_that_it_does_not_use(program, optimize):
    model = program("""
fn all(f, xs) = match xs { Nil => Nil, Cons(x, rest) => Cons(f(x), all(f, rest)) }
fn main(x: f32[n], ks: List[i64[]]) = all(fn(k) => ((iota(axis = 0) : i64[n]) * k, (broadcast(k) : i64[n, n])), ks)
""", fuse=optimize > 0)
    for n in (2, 3):
        for k, (places, square) in zip((4, 5), model(np.zeros(n, np.float32), [np.int64(4), np.int64(5)])):
            assert places.tolist() == [k * i for i in range(n)]
            assert square.tolist() == [[k] * n] * n


KNOWN = """
fn each(f, xs) = match xs { Nil => (), Cons(x, rest) => { f(x); each(f, rest) } }
fn both(f, g) = fn(x) => (f(x), g(x))
fn power(k, x) = if k == 1 { x } else { x * power(k - 1, x) }
fn first(xs, otherwise) = match xs { Nil => otherwise, Cons(x, _) => x }

fn main(x: f32[n], xs: List[f32[n]], c: bool[]) = {
  let seen = ref([]);
  let sum = ref(x);
  let note = fn(v) => { seen := Cons(*sum, *seen); sum := *sum + v; };
  each(note, [x, x * 2.0]);
  let early = *sum;
  if c { each(note, xs); } else { note(x); };
  let other = if c { sum } else { ref(x) };
  other := *other * 2.0;
  let (a, b) = both(fn(v) => power(5, v), fn(v) => first(xs, v))(*sum);
  (early, *sum, a, b, length(*seen), first(*seen, x))
}
"""


@pytest.mark.parametrize("optimize", [0, 1])
@pytest.mark.parametrize("c", [False, True])
@pytest.mark.parametrize("count", [0, 3])
def test_programs_mean_the_same_partially_evaluated(program, optimize, c, count):
    model = program(KNOWN, fuse=optimize > 0)
    x, xs = np.linspace(0.5, 1, 4, dtype=np.float32), [np.full(4, i + 1, np.float32) / 8 for i in range(count)]
    early, total, power, head, length, last = model(x, xs, np.bool_(c))
    sums = [x]
    for v in [x, x * 2, *(xs if c else [x])]:
        sums.append(sums[-1] + v)
    expected = sums[-1] * 2 if c else sums[-1]
    np.testing.assert_allclose(early, sums[2], rtol=1e-6)
    np.testing.assert_allclose(total, expected, rtol=1e-6)
    np.testing.assert_allclose(power, expected**5, rtol=1e-5)
    np.testing.assert_allclose(head, xs[0] if xs else expected, rtol=1e-6)
    assert length == len(sums) - 1
    np.testing.assert_allclose(last, sums[-2], rtol=1e-6)


def test_a_million_deep(program):
    model = program(COUNT + "fn main(n: i64[]) = fold_right(fn(x, sum) => x + sum, count(n), 0)\n")
    assert model(np.int64(1_000_000)) == 500000500000


def test_long_lists_go_in_and_out_and_are_freed(program):
    model = program("fn main(xs: List[i64[]]) = (reversed(xs), length(xs))\n")
    xs, length = model([np.int64(value) for value in range(100_000)])
    assert length == 100_000
    assert int(xs[0]) == 99_999
    lists = "m = ts.Value('Nil', 0, ())\nfor i in range(1000000): m = ts.Value('Cons', 1, (i, m))\n"
    done = subprocess.run([sys.executable, "-c", f"import tensmith as ts\n{lists}"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_endless_programs_end_at_the_limit(program):
    loop = "fn loop(n) = loop(n + 1)\nfn main(n: i64[]) -> i64[] = loop(n)\n"
    with pytest.raises(ts.Error, match="limit of 1000 instructions"):
        program(loop, max_instructions=1000)(np.int64(0))
    deep = "fn deep(n) = 1 + deep(n + 1)\nfn main(n: i64[]) -> i64[] = deep(n)\n"
    with pytest.raises(ts.Error, match="limit of 500"):
        program(deep, max_depth=500)(np.int64(0))


def codes(model):
    return [line.split()[1] for procedure in model.describe()["procedures"] for line in procedure["code"]]


def test_scalars_are_instructions_and_no_kernels(program):
    model = program("""
fn collatz(n, steps, most) =
  if n == 1 { (steps, most, steps * 1.0) }
  else { collatz(if n % 2 == 0 { n / 2 } else { 3 * n + 1 }, steps + 1, max(most, n)) }
fn main(n: i64[]) = { let (a, b, c) = collatz(n, 0, 0); (a, b, sqrt(cast(a, to = f64))) }
""".replace("steps * 1.0", "0.0"))
    assert {"Scalar", "Immediate", "Branch"} <= set(codes(model)) and "Invoke" not in codes(model)
    steps, most, root = model(np.int64(27))
    assert (steps, most) == (111, 9232)
    assert (root.dtype, float(root)) == (np.float64, np.sqrt(111))


def test_scalars_go_into_kernels_and_data_types_and_out_again(program):
    model = program("""
fn grow(k, x) = if k == 0 { [x] } else { Cons(x, grow(k - 1, x * cast(k, to = f32))) }
fn total(pairs) = fold(fn(sum, pair) => { let (k, b) = pair; if b { sum + k } else { sum } }, 0, pairs)
fn largest(x: f32[n], k) = { let m = reduce_max(x, axes = [0]); if m > k { m - k } else { 0.0 - k } }
fn main(k: i64[], x: f32[n], f: f32[]) =
  (grow(k, x), total([(k, k > 2), (k * 10, k < 2), (7, true)]), largest(x, f), fold(fn(s, v) => s + v, f, [f, 1.5]))
""")
    x = np.array([1, 2], np.float32)
    grown, total, largest, sum = model(np.int64(3), x, np.float32(0.5))
    assert [list(value) for value in grown] == [[1, 2], [3, 6], [6, 12], [6, 12]]
    assert (total, largest, sum) == (10, 1.5, 2.5)


def test_a_scalar_from_a_caller_is_checked(program):
    model = program("fn main(xs: List[i64[]]) = fold(fn(a, b) => a + b, 0, xs)\n")
    assert model([np.int64(1), np.int64(2)]) == 3
    for wrong in (np.float32(1), np.ones(1, np.int64), ts.Value("Nil", 0, ())):
        with pytest.raises(ts.Error, match=r"program.tsm:?.*expected i64\[\]"):
            model([wrong])


@pytest.mark.parametrize("operation", ["a + b", "a - b", "a * b", "a / b", "a % b", "min(a, b)", "max(a, b)", "-a", "abs(a)"])
@pytest.mark.parametrize("kind, values", [
    ("i64", [0, 1, -1, 5, -5, 2**63 - 1, -(2**63)]),
    ("f32", [0.0, -0.0, 1.5, -2.5, float("inf"), float("nan"), 0.25]),
])
def test_scalars_mean_what_operators_mean(program, operation, kind, values):
    # Once as the machine's instruction and once within a kernel's code, on the same numbers.
    dtype = {"i64": np.int64, "f32": np.float32}[kind]
    model = program(f"fn f(a, b) = if a == b {{ {operation} }} else {{ {operation} }}\n"
                    f"fn main(a: {kind}[], b: {kind}[]) = f(a, b)\n")
    assert "Invoke" not in codes(model)
    whole = program(f"fn main(a: {kind}[3], b: {kind}[3]) = {operation}\n")
    for a in values:
        for b in values:
            expected = whole(np.full(3, a, dtype), np.full(3, b, dtype))[0]
            got = model(dtype(a), dtype(b))
            np.testing.assert_array_equal(got, expected, err_msg=f"{operation} of {a}, {b}")


def test_independent_calls_are_forked_and_give_the_same_on_any_threads(tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text("""
fn build(k, x) = if k <= 0 { Leaf(x) } else { Node(build(k - 1, x * 2.0), build(k - 2, x + 1.0)) }
fn total(t) = match t { Leaf(x) => tanh(x), Node(l, r) => total(l) * 0.5 + total(r) }
fn main(k: i64[], x: f32[n]) = { let t = build(k, x); (total(t), map(fn(v) => total(Node(Leaf(v), t)), [x, x * 3.0])) }
""")
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    alone = ts.compile(path, threads=1)
    assert codes(alone).count("Fork") >= 2
    expected, listed = alone(np.int64(14), x)
    for threads in (2, 4):
        model = ts.compile(path, threads=threads)
        for _ in range(5):
            got, others = model(np.int64(14), x)
            assert np.array_equal(got, expected)
            assert all(np.array_equal(a, b) for a, b in zip(list(others), list(listed)))


ENCODE = """
let w = load("w.npy")
fn leaf(x) = tanh(x @ w)
fn node(l, r) = tanh((concat(l, r, axis = {axis}) @ load("u.npy")) + l)
fn encode(t) = match t {{ Leaf(x) => leaf(x), Node(l, r) => node(encode(l), encode(r)) }}
fn main(t: Tree[f32[{shape}]], xs: List[f32[{shape}]]) = (encode(t), map(fn(x) => leaf(x) + x, xs))
"""


@pytest.fixture
def encoder(tmp_path):
    rng = np.random.default_rng(3)
    w, u = (rng.standard_normal(shape).astype(np.float32) / 8 for shape in ((64, 64), (128, 64)))

    def build(rows, **options):
        np.save(tmp_path / "w.npy", w)
        np.save(tmp_path / "u.npy", u)
        path = tmp_path / "program.tsm"
        path.write_text(ENCODE.format(axis=1 if rows else 0, shape="1, 64" if rows else "64"))
        return ts.compile(path, **{"threads": 1, **options})

    def evaluate(tree):
        if not isinstance(tree, tuple):
            return np.tanh(tree @ w)
        left, right = (evaluate(part) for part in tree)
        return np.tanh(np.concatenate([left, right], axis=-1) @ u + left)

    def tree_of(leaves, rows):
        if leaves == 1:
            return rng.standard_normal((1, 64) if rows else 64).astype(np.float32)
        left = int(rng.integers(1, leaves))
        return tree_of(left, rows), tree_of(leaves - left, rows)

    def value_of(model, tree):
        if isinstance(tree, tuple):
            return model.constructors["Node"](value_of(model, tree[0]), value_of(model, tree[1]))
        return model.constructors["Leaf"](tree)

    build.evaluate, build.tree, build.value, build.w = evaluate, tree_of, value_of, w
    return build


@pytest.mark.parametrize("rows", [True, False])
def test_calls_of_one_segment_are_done_together(encoder, rows):
    model = encoder(rows)
    assert any(function["name"].endswith(".batched") for function in model.describe()["functions"])
    others = [encoder(rows, threads=threads) for threads in (2, 3)]
    for leaves in (1, 2, 3, 40, 300):
        tree = encoder.tree(leaves, rows)
        xs = [encoder.tree(1, rows) for _ in range(leaves)]
        encoded, mapped = model(encoder.value(model, tree), xs)
        np.testing.assert_allclose(encoded, encoder.evaluate(tree), atol=1e-5)
        for x, got in zip(xs, mapped):
            np.testing.assert_allclose(got, np.tanh(x @ encoder.w) + x, atol=1e-5)
        for other in others:
            again, listed = other(encoder.value(other, tree), xs)
            assert np.array_equal(again, encoded)
            assert all(np.array_equal(a, b) for a, b in zip(listed, mapped))


@pytest.mark.parametrize("shape", ["1, 64", "64"])
def test_calls_with_weights_that_are_given_are_done_together_where_they_share_them(program, tmp_path, shape):
    """Which of two matrices a node multiplies by, the data tell: those by the same are done together."""
    text = """
fn encode(tree, u: f32[64, 64], w: f32[64, 64]) = match tree {
  Leaf(x) => tanh(x @ u),
  Node(a, b) => tanh((encode(a, w, u) + encode(b, u, w)) @ w),
}
fn main(tree: Tree[f32[SHAPE]], u: f32[64, 64], w: f32[64, 64]) = encode(tree, u, w)
""".replace("SHAPE", shape)
    rng = np.random.default_rng(4)
    matrices = [rng.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(2)]
    models = [program(text), program(text, reference=True), ts.compile(tmp_path / "program.tsm", threads=2)]
    assert any(function["name"].endswith(".batched") for function in models[0].describe()["functions"])
    make = models[0].constructors

    def tree_of(leaves):
        if leaves == 1:
            return make["Leaf"](rng.standard_normal((1, 64) if shape != "64" else 64).astype(np.float32))
        left = int(rng.integers(1, leaves))
        return make["Node"](tree_of(left), tree_of(leaves - left))

    for leaves in (1, 2, 40, 200):
        tree = tree_of(leaves)
        got, right, again = (model(tree, *matrices) for model in models)
        np.testing.assert_allclose(got, right, atol=1e-5)
        assert np.array_equal(got, again)


def test_a_product_beside_a_recursive_call_is_done_together(program, tmp_path):
    w = np.random.default_rng(8).standard_normal((64, 64)).astype(np.float32) / 8
    np.save(tmp_path / "w.npy", w)
    model = program("""
let w = load("w.npy")
fn go(xs) = match xs {
  Nil => ((broadcast(0.0) : f32[1, 64]), (broadcast(0.0) : f32[1, 64])),
  Cons(x, rest) => {
    let y = x @ w;
    let (a, b) = go(rest);
    (a + tanh(y), b * 0.5 + y)
  },
}
fn main(xs: List[f32[1, 64]]) = go(xs)
""")
    assert any(procedure["name"].endswith(".call") for procedure in model.describe()["procedures"])
    for length in (0, 1, 2, 70, 5000):
        xs = np.random.default_rng(length).standard_normal((length, 1, 64)).astype(np.float32)
        ys = xs @ w
        halves = sum((y * 0.5**i for i, y in enumerate(ys[:60])), np.zeros((1, 64), np.float32))
        for got, right in zip(model(list(xs)), (np.tanh(ys).sum(axis=0), halves)):
            np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-3 if length > 100 else 1e-5)


@pytest.mark.parametrize("second", ["go(rest, z, f)", "f(z)", "go(rest, a + y, f)", "go(rest, go(rest, z, f), f)"])
def test_a_call_beside_a_product_may_use_what_comes_of_it(program, tmp_path, second):
    w = np.random.default_rng(8).standard_normal((64, 64)).astype(np.float32) / 8
    np.save(tmp_path / "w.npy", w)
    source = """
let w = load("w.npy")
fn count(xs, acc) = match xs { Nil => acc, Cons(x, rest) => tanh(count(rest, acc + x)) }
fn go(xs, acc, f) = match xs {
  Nil => acc,
  Cons(x, rest) => {
    let y = x @ w;
    let z = tanh(y);
    let a = go(rest, acc, f);
    let b = SECOND;
    a * 0.25 + b * 0.5 + y
  },
}
fn main(xs: List[f32[1, 64]]) =
  (go(xs, (broadcast(0.0) : f32[1, 64]), fn (v: f32[1, 64]) => count(xs, v)),
   go(xs, (broadcast(0.0) : f32[1, 64]), fn (v: f32[1, 64]) => count(xs, v * 0.5)))
""".replace("SECOND", second)

    def right(given, scale):
        def f(v):
            v = v * scale + sum(given, np.zeros_like(v))
            for _ in given:
                v = np.tanh(v)
            return v

        def go(xs, acc, f):
            if not len(xs):
                return acc
            y = xs[0] @ w
            names = {"go": go, "f": f, "rest": xs[1:], "z": np.tanh(y), "a": go(xs[1:], acc, f), "y": y}
            return names["a"] * 0.25 + eval(second, names) * 0.5 + y

        return go(given, np.zeros((1, 64), np.float32), f)

    for model in (program(source), ts.compile(tmp_path / "program.tsm", threads=2)):
        for length in (0, 1, 2, 5):
            xs = np.random.default_rng(length).standard_normal((length, 1, 64)).astype(np.float32)
            for got, scale in zip(model(list(xs)), (1.0, 0.5)):
                np.testing.assert_allclose(got, right(xs, np.float32(scale)), atol=1e-4)


def test_a_value_is_what_its_arrays_are_now(program):
    model = program("fn main(t: Tree[f32[n, k]]) = fold_tree(fn (x) => x, fn (a, b) => a + b, t)\n")
    leaf, node = model.constructors["Leaf"], model.constructors["Node"]
    a, b = np.full((2, 3), 2, np.float32), np.ones((2, 3), np.float32)
    tree = node(leaf(a), leaf(b))
    for _ in range(2):
        np.testing.assert_array_equal(model(tree), a + b)
    a += 1  # what is written is seen
    np.testing.assert_array_equal(model(tree), a + b)
    a.shape = b.shape = (3, 2)
    assert model(tree).shape == (3, 2)
    np.testing.assert_array_equal(model(tree), a + b)
    for array in (a, b):
        array.resize((64, 1024), refcheck=False)
        array[:] = 3
    np.testing.assert_array_equal(model(tree), np.full((64, 1024), 6, np.float32))
    a.dtype = np.int32
    with pytest.raises(ts.Error):
        model(tree)
    a.dtype = np.float32
    np.testing.assert_array_equal(model(tree), a + b)
    for name in ("tag", "fields"):
        with pytest.raises(AttributeError):
            setattr(tree, name, getattr(tree, name))


def test_errors_and_limits_are_those_of_calls_one_by_one(encoder):
    # Evaluated by reference there are no batches: the same procedures, call by call.
    tree = encoder.tree(60, True)
    tree = (tree, (encoder.tree(1, True)[:, :63], tree))
    messages = []
    for options in ({}, {"threads": 2}, {"reference": True}):
        model = encoder(True, **options)
        with pytest.raises(ts.Error) as error:
            model(encoder.value(model, tree), [])
        messages.append(str(error.value))
    assert "f32[1,63]" in messages[0] and len(set(messages)) == 1, messages

    tree = encoder.tree(9, True)
    for limit in ("max_instructions", "max_depth"):
        def passes(value, **options):
            model = encoder(True, **{limit: value}, **options)
            try:
                model(encoder.value(model, tree), [])
            except ts.Error as error:
                assert f"limit of {value}" in str(error)
                return False
            return True

        low, high = 1, 400
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if passes(middle, reference=True) else (middle, high)
        assert passes(high) and not passes(high - 1)


def test_a_deep_tree_is_done_together_in_bounded_stack(encoder):
    model = encoder(True)
    leaf = encoder.tree(1, True)
    for left in (True, False):
        tree = leaf
        for _ in range(300):
            tree = (tree, leaf) if left else (leaf, tree)
        got, _ = model(encoder.value(model, tree), [])
        np.testing.assert_allclose(got, encoder.evaluate(tree), atol=1e-3)  # errors grow along 300 steps
    # Deeper than fibers are made: the same subtree again and again.
    value = made = model.constructors["Leaf"](leaf)
    for _ in range(20_000):
        value = model.constructors["Node"](value, made)
    assert np.isfinite(model(value, [])[0]).all()


def test_rows_of_different_sizes_are_done_in_groups(program, tmp_path):
    np.save(tmp_path / "w.npy", np.eye(64, dtype=np.float32))
    model = program("""
let w = load("w.npy")
fn main(xs: List[f32[?, 64]]) = map(fn(x) => reduce_sum(x @ w, axes = [0]), xs)
""")
    xs = [np.ones((size, 64), np.float32) for size in (1, 3, 1, 2, 3, 3)]
    assert [float(value[0]) for value in model(xs)] == [1, 3, 1, 2, 3, 3]


def test_a_constant_may_be_used_twice_by_one_call(program):
    model = program("fn loop(i, k, s) = if i < k { loop(i + 1, k, s + i) } else { s }\n"
                    "fn main(k: i64[]) -> i64[] = loop(0, k, 0)\n")
    assert model(np.int64(100)) == 4950


def test_a_chain_that_shares_is_linear(program):
    lets = "".join(f"  let x{i + 1} = x{i} + x{i};\n" for i in range(40))
    model = program(f"fn main(x0: f64[]) = {{\n{lets}  x40\n}}\n")
    assert model(np.float64(1)) == 2.0**40
    pairs = "".join(f"  let x{i + 1} = (x{i}, x{i});\n" for i in range(12))
    assert program(f"fn main(x0: f64[]) = {{\n{pairs}  let (a, b) = x12;\n  let (c, d) = x1;\n  c\n}}\n")(np.float64(3)) == 3


@pytest.mark.parametrize("reference", [False, True])
def test_an_lstm_over_a_list(program, reference):
    model = program("""
fn step(state, x, w) = {
  let (h, c) = state;
  let gates = concat(x, h, axis = 1) @ w;
  let i = sigmoid((slice(gates, starts = [0, 0], steps = [1, 1]) : f32[1, 4]));
  let g = tanh((slice(gates, starts = [0, 4], steps = [1, 1]) : f32[1, 4]));
  let next = c + i * g;
  (tanh(next), next)
}
fn run(state, xs, w) = match xs { Nil => state, Cons(x, rest) => run(step(state, x, w), rest, w) }
fn main(h: f32[1, 4], xs: List[f32[1, 3]], w: f32[7, 8]) = run((h, h), xs, w)
""", reference=reference)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((7, 8)).astype(np.float32)
    for length in (0, 1, 50):
        xs = [rng.standard_normal((1, 3)).astype(np.float32) for _ in range(length)]
        h = c = np.zeros((1, 4), np.float32)
        for x in xs:
            gates = np.concatenate([x, h], axis=1) @ w
            c = c + 1 / (1 + np.exp(-gates[:, :4])) * np.tanh(gates[:, 4:])
            h = np.tanh(c)
        hidden, cell = model(np.zeros((1, 4), np.float32), xs, w)
        np.testing.assert_allclose(hidden, h, atol=1e-5)
        np.testing.assert_allclose(cell, c, atol=1e-5)


EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "programs"


def example(name):
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))  # as when it is run
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_of_a_tree_lstm(tmp_path):
    treelstm, rng = example("treelstm"), np.random.default_rng(2)
    values = treelstm.weights()
    model = treelstm.compile_here(tmp_path, "treelstm", values)
    for leaves in (1, 2, 25):
        tree = treelstm.random_tree(rng, leaves, treelstm.HIDDEN)
        expected = treelstm.evaluate(tree, values, treelstm.NumPy, treelstm.sigmoid)
        for got, right in zip(model(treelstm.value_of(model, tree)), expected):
            np.testing.assert_allclose(got, right, atol=1e-5)


@pytest.mark.parametrize("name", sorted({path.stem for path in EXAMPLES.glob("*.tsm")} - {"treelstm"}))
def test_an_example_is_as_numpy_says(name, tmp_path):
    assert example(name).largest_difference(8, tmp_path) < 1e-5


@pytest.mark.parametrize("length", ["n", "3"])
def test_main_calls_itself(program, length):
    """Breaks if the entry and the procedure that it calls again are taken for one."""
    double = program(f"fn main(x: f32[{length}], k: i64[]) -> f32[{length}] = if k > 0 {{ main(x * 2.0, k - 1) }} else {{ x }}\n")
    np.testing.assert_array_equal(double(np.ones(3, np.float32), np.int64(5)), np.full(3, 32, np.float32))
