"""Gradients of programs of the language, through tuples, data types, closures and recursion, by tensors and by data: against
differences in double precision. test_gradients_of_programs_torch.py has those of the examples."""

import os
import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "python"

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="the Python package is not built")

sys.path.insert(0, str(PACKAGE))


def draw(rng, *shape):
    return rng.standard_normal(shape)


def list_of(count, *shape):
    def make(rng, model):
        result = model.constructors["Nil"]
        for _ in range(count):
            result = model.constructors["Cons"](draw(rng, *shape), result)
        return result

    return make


def tree_of(leaves, *shape):
    def make(rng, model, leaves=leaves):
        if leaves == 1:
            return model.constructors["Leaf"](draw(rng, *shape))
        left = int(rng.integers(1, leaves))
        return model.constructors["Node"](make(rng, model, left), make(rng, model, leaves - left))

    return make


def shapes(rng, model):
    make = model.constructors
    circle, box = (lambda: make["Circle"](draw(rng))), (lambda: make["Box"](draw(rng), draw(rng)))
    group = lambda *parts: make["Group"](parts[0] if not parts[1:] else _list(make, parts))  # noqa: E731
    return group(circle(), group(box(), make["Many"](np.int64(3), circle()), box()), group(circle(), circle()))


def _list(make, parts):
    result = make["Nil"]
    for part in reversed(parts):
        result = make["Cons"](part, result)
    return result


# Each with what main is given, of which all floats are differentiated by.
PROGRAMS = {
    # A recursion that gives a tuple, whose parts change places.
    "tuple": ("""
fn pair(x: f64[n], k: i64[]) -> (f64[n], f64[n]) =
  if k == 0 { (x, x * x) } else { let (a, b) = pair(sin(x), k - 1); (b, a * b) }
fn main(x: f64[n], k: i64[]) = { let (a, b) = pair(x, k); reduce_sum(a * b, axes = [0]) }
""", {"x": (4,), "k": 3}),
    # A tuple of which one part is used, and one within another.
    "nested tuple": ("""
fn nest(x, y, k: i64[]) =
  if k == 0 { ((x, y), x) } else { let ((a, b), c) = nest(y * x, x + y, k - 1); ((sin(b), a), c * a) }
fn main(x: f64[n], y: f64[n], k: i64[]) = { let ((a, _), c) = nest(x, y, k); reduce_sum(a * c, axes = [0]) }
""", {"x": (3,), "y": (3,), "k": 4}),
    # A list is made, mapped, and folded with a weight.
    "list": ("""
fn main(xs: List[f64[3]], w: f64[3]) =
  reduce_sum(fold(fn(s, x) => sin(s * w + x), w, reversed(map(fn(x) => x * x * w, xs))), axes = [0])
""", {"xs": list_of(5, 3), "w": (3,)}),
    # Data that are used twice.
    "twice": ("""
fn total(xs) = match xs { Nil => (broadcast((0.0 : f64[])) : f64[2]), Cons(x, rest) => x * total(rest) + x }
fn main(xs: List[f64[2]]) = reduce_sum(total(xs) * sin(total(append(xs, xs))), axes = [0])
""", {"xs": list_of(4, 2)}),
    # Which function it is, the data tell; it keeps tensors, and functions.
    "chosen function": ("""
fn pick(k: i64[], w) = if k == 0 { fn(x) => x * w } else { fn(x) => sin(x) + w * w }
fn both(f, g) = fn(x) => f(x) * g(x)
fn repeat(f, k: i64[], x) = if k == 0 { f(x) } else { repeat(both(f, pick(k - k / 2 * 2, x)), k - 1, f(x)) }
fn main(x: f64[n], w: f64[n], k: i64[]) = reduce_sum(repeat(pick(k, w), k, x), axes = [0])
""", {"x": (4,), "w": (4,), "k": 3}),
    # Functions in a list.
    "functions in data": ("""
fn make(xs) = map(fn(x) => fn(y) => tanh(x * y) + x, xs)
fn through(fs, y) = match fs { Nil => y, Cons(f, rest) => f(through(rest, f(y))) }
fn main(xs: List[f64[]], y: f64[]) = through(make(xs), y)
""", {"xs": list_of(4), "y": ()}),
    # A data type of the program's own, with numbers inside that have no derivative.
    "shapes": ("""
type Shape = Circle(f64[]) | Box(f64[], f64[]) | Group(List[Shape]) | Many(i64[], Shape)
fn area(shape) =
  match shape {
    Circle(r) => 3.0 * r * r,
    Box(a, b) => a * b,
    Group(shapes) => fold(fn(sum, one) => sum + area(one) * sin(sum), 1.0, shapes),
    Many(k, one) => area(one) * cast(k, to = f64),
  }
fn main(shape: Shape) = area(shape)
""", {"shape": shapes}),
    # Two functions that call one another, over a tree, with a table of weights in a record.
    "mutual": ("""
type Weights = Weights(f64[3, 3], f64[1, 3])
fn even(tree, p) = match tree { Leaf(x) => x, Node(a, b) => match p { Weights(w, c) => tanh((odd(a, p) + odd(b, p)) @ w + c) } }
fn odd(tree, p) = match tree { Leaf(x) => sin(x), Node(a, b) => match p { Weights(w, c) => (even(a, p) * even(b, p)) @ w * c } }
fn main(tree: Tree[f64[1, 3]], p: Weights) = reduce_sum(even(tree, p), axes = [0, 1])
""", {"tree": tree_of(9, 1, 3), "p": lambda rng, model: model.constructors["Weights"](draw(rng, 3, 3), draw(rng, 1, 3))}),
    # A tree to a tree, and one of an option; sizes that only the run knows.
    "trees": ("""
fn last(xs) = match xs { Nil => None, Cons(x, Nil) => Some(x), Cons(_, rest) => last(rest) }
fn leaves(tree) = match tree { Leaf(x) => [x], Node(a, b) => append(leaves(a), leaves(b)) }
fn main(tree: Tree[f64[?]], w: f64[]) =
  match last(leaves(map_tree(fn(x) => x * w + sin(x), tree))) {
    None => 0.0,
    Some(x) => reduce_sum(x * x, axes = [0]),
  }
""", {"tree": lambda rng, model: model.constructors["Node"](tree_of(3, 2)(rng, model), tree_of(2, 5)(rng, model)), "w": ()}),
}  # fmt: skip


def floats(value, path=()):
    """The arrays of floats in a value, by their place."""
    if hasattr(value, "_tensmith_value"):
        for index, field in enumerate(value.fields):
            yield from floats(field, path + (index,))
    elif np.asarray(value).dtype.kind == "f":
        yield path, np.asarray(value)


def moved(value, directions, step, path=()):
    if hasattr(value, "_tensmith_value"):
        fields = (moved(field, directions, step, path + (index,)) for index, field in enumerate(value.fields))
        return type(value)(value.name, value.tag, tuple(fields))
    return value + step * directions[path] if path in directions else value


def given_to(model, inputs, rng):
    def one(what):
        if callable(what):
            return what(rng, model)
        return draw(rng, *what) if isinstance(what, tuple) else np.int64(what)

    return {name: one(what) for name, what in inputs.items()}


def check(folder, text, inputs, seed=0, of="result", **settings):
    import tensmith

    (folder / "program.tsm").write_text(text)
    rng = np.random.default_rng(seed)
    model = tensmith.compile(folder / "program.tsm", cache_dir="", **settings)
    given = given_to(model, inputs, rng)
    wrt = [name for name, value in given.items() if any(True for _ in floats(value))]
    compiled = tensmith.grad(folder / "program.tsm", wrt, of, cache_dir="", **settings)
    outputs = compiled.run(**given)
    assert np.allclose(outputs[0], model.run(**given)[0], rtol=1e-12)
    for name, gradient in zip(wrt, outputs[-len(wrt) :]):
        directions = {path: draw(rng, *array.shape) for path, array in floats(given[name])}
        sides = [model.run(**{**given, name: moved(given[name], directions, side * 1e-6)})[0] for side in (1, -1)]
        slope = float(sides[0] - sides[1]) / 2e-6
        parts = dict(floats(gradient))
        assert parts.keys() == directions.keys(), name
        along = sum(float((parts[path] * direction).sum()) for path, direction in directions.items())
        assert np.isclose(slope, along, rtol=1e-5, atol=1e-6), name


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_the_slopes(name, tmp_path):
    check(tmp_path, *PROGRAMS[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_without_optimisation_are_the_slopes(name, tmp_path):
    check(tmp_path, *PROGRAMS[name], seed=1, fuse=False)
