"""Gradients of programs of the language, through tuples, data types, closures and recursion, by tensors and by data: against
differences in double precision. test_gradients_of_programs_torch.py has those of the examples."""

import os
import pathlib
import re
import subprocess
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


# Each with what main is given, of which all floats are differentiated by where no names follow.
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
    # Two tables of functions, which agree in ranks but in no size.
    "tables of functions": ("""
fn app(f, x, k: i64[]) = if k == 0 { f(x) } else { app(f, x, k - 1) }
fn main(x: f64[3], y: f64[3, 4], k: i64[]) =
  reduce_sum(app(if k == 3 { fn(v) => v @ y } else { fn(v) => sin(v * x) @ y }, x, k), axes = [0])
  * reduce_sum(app(if k == 2 { fn(v) => v * x } else { fn(v) => v * x * x }, x, k), axes = [0])
""", {"x": (3,), "y": (3, 4), "k": 3}),
    # And those of which only the rank of what is inside data tells them apart.
    "tables by rank": ("""
type B_f[a] = B_f(a)
fn app(f, x, k: i64[]) = if k == 0 { f(x) } else { app(f, x, k - 1) }
fn main(x: f64[], z: f64[3], k: i64[]) =
  app(if k == 1 { fn(b) => match b { B_f(a) => a * a } } else { fn(b) => match b { B_f(a) => sin(a) } }, B_f(x), k)
  * app(if k == 1 { fn(b) => match b { B_f(a) => reduce_sum(a * a, axes = [0]) } }
        else { fn(b) => match b { B_f(a) => reduce_sum(sin(a), axes = [0]) } }, B_f(z), k)
""", {"x": (), "z": (3,), "k": 3}),
    # Sizes that only the run knows, of what branches and calls give, and of a state that goes through a list.
    "unknown sizes": ("""
fn joined(x: f64[?], k: i64[]) -> f64[?] = if k == 0 { x } else { (concat(joined(x * x, k - 1), x, axis = 0) : f64[?]) }
fn through(xs, s, w) = match xs { Nil => s, Cons(x, rest) => through(rest, tanh(x @ w + s), w) }
fn main(x: f64[?], k: i64[], xs: List[f64[?, 3]], s: f64[?, 3], w: f64[3, 3]) =
  reduce_sum(softmax((if k == 0 { x } else { x * x } : f64[?]), axis = 0) * x, axes = [0])
  + reduce_sum(joined(x, k), axes = [0])
  + reduce_sum(through(xs, s, w), axes = [0, 1])
""", {"x": (3,), "k": 2, "xs": list_of(3, 2, 3), "s": (2, 3), "w": (3, 3)}),
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
    # A reference that all of a recursion over a tree adds to, and multiplies what it has by.
    "reference in a recursion": ("""
fn visit(tree, sum, w) = match tree {
  Leaf(x) => { sum := *sum * w + sin(x); },
  Node(a, b) => { visit(a, sum, w); sum := *sum * *sum; visit(b, sum, w); },
}
fn main(tree: Tree[f64[2]], w: f64[2]) = {
  let sum = ref(w * 0.5);
  visit(tree, sum, w);
  reduce_sum(*sum, axes = [0])
}
""", {"tree": tree_of(6, 2), "w": (2,)}),
    # A function that scales by more each time, and one that asks it, in another's hands.
    "counter": ("""
fn counter(w) = { let factor = ref(w); fn(x) => { factor := sin(*factor * w + 0.5); x * *factor } }
fn ask(next, k: i64[], x) = if k == 0 { x } else { ask(next, k - 1, sin(next(x)) + next(half(x))) }
fn half(x) = x * 0.5
fn main(w: f64[], x: f64[n], k: i64[]) = { let next = counter(w); reduce_sum(ask(next, k, x) * next(x), axes = [0]) }
""", {"w": (), "x": (3,), "k": 4}),
    # Two states that loops change in turns, of which one reads what the other was.
    "running state": ("""
fn steps(v, s, k: i64[], a) = if k == 0 { () } else {
  let before = *s;
  s := tanh(*s @ a + *v);
  v := *v * 0.9 + before;
  steps(v, s, k - 1, a)
}
fn main(s: f64[3], v: f64[3], a: f64[3, 3], k: i64[]) = {
  let (state, speed) = (ref(s), ref(v));
  steps(speed, state, k, a);
  speed := *speed * *state;
  steps(speed, state, k - 1, a);
  reduce_sum(*state * *speed, axes = [0])
}
""", {"s": (3,), "v": (3,), "a": (3, 3), "k": 5}),
    # References in a list, the same one twice among them; each is changed by what the others have.
    "references in a list": ("""
fn change(refs, w) = match refs {
  Nil => w,
  Cons(r, rest) => { let before = *r; r := *r * w + sin(w); change(rest, tanh(w + before * *r)) },
}
fn total(refs) = match refs { Nil => (broadcast((0.0 : f64[])) : f64[2]), Cons(r, rest) => *r * *r + total(rest) }
fn main(xs: List[f64[2]], w: f64[2]) = {
  let refs = map(fn(x) => ref(x * x), xs);
  let all = match refs { Cons(first, rest) => Cons(first, append(rest, refs)), Nil => Nil };
  let last = change(all, w);
  reduce_sum(total(all) * last, axes = [0])
}
""", {"xs": list_of(3, 2), "w": (2,)}),
    # A reference to a list that grows, one to a reference, and one to a function that knows the other.
    "references to data": ("""
fn push(stack, x) = { stack := Cons(x, *stack); }
fn fill(stack, x, k: i64[]) = if k == 0 { () } else { push(stack, x * x); fill(stack, sin(x), k - 1) }
fn main(x: f64[2], y: f64[2], k: i64[]) = {
  let stack = ref([y]);
  let other = ref(stack);
  let act = ref(fn(v) => v * y);
  fill(*other, x, k);
  let one = *act;
  act := if k == 3 { fn(v) => { push(*other, v); one(v) * x } } else { fn(v) => v };
  let f = *act;
  let z = f(x + y);
  other := ref([z]);
  fill(*other, y, k);
  reduce_sum(fold(fn(s, v) => s * v + v, z, append(*stack, **other)), axes = [0])
}
""", {"x": (2,), "y": (2,), "k": 3}),
    # What is written over is not read any more, by one way of a branch; and numbers that have no derivative count.
    "reference in a branch": ("""
fn walk(xs, best, count, w) = match xs {
  Nil => *best * cast(*count, to = f64),
  Cons(x, rest) => {
    count := *count + 1;
    if *count == 2 { best := x * w; } else { if x > *best { best := *best * 0.5 + x * x; } else { () } };
    walk(rest, best, count, w * *best)
  },
}
fn main(xs: List[f64[]], w: f64[]) = walk(xs, ref(w), ref(0), w)
""", {"xs": list_of(5), "w": ()}),
    # Of a size that only the run knows, which changes.
    "reference that grows": ("""
fn grow(r, k: i64[]) = if k == 0 { () } else { r := sin(*r) * reduce_sum(*r, axes = [0]); grow(r, k - 1) }
fn main(x: f64[?], y: f64[?], k: i64[]) = {
  let r = ref(x);
  grow(r, k);
  let before = *r;
  r := y;
  grow(r, k);
  reduce_sum(*r, axes = [0]) * reduce_sum(before, axes = [0])
}
""", {"x": (3,), "y": (5,), "k": 2}),
    # States that grow from call to call: whose parts and whose own size only the run knows.
    "joined": ("""
fn joined(xs, w) = fold(fn(all, x) => (concat(all, tanh(x * w), axis = 0) : f64[?]), (w : f64[?]), xs)
fn main(xs: List[f64[?]], w: f64[1]) = { let all = joined(xs, w); reduce_sum(all * sin(all), axes = [0]) }
""", {"xs": lambda rng, model: _list(model.constructors, [draw(rng, size) for size in (3, 1, 4)]), "w": (1,)}),
    "joined columns": ("""
fn joined(xs, s) = match xs { Nil => s, Cons(x, rest) => joined(rest, (concat(x, s, x * 2.0, axis = 1) : f64[2, ?])) }
fn main(xs: List[f64[2, ?]], s: f64[2, ?]) = reduce_sum(softmax(joined(xs, s * s), axis = 1) * joined(xs, s), axes = [0, 1])
""", {"xs": lambda rng, model: _list(model.constructors, [draw(rng, 2, size) for size in (3, 2)]), "s": (2, 2)}),
    "doubled": ("""
fn doubled(x: f64[?], k: i64[]) -> f64[?] =
  if k == 0 { x } else { doubled((concat(x * reduce_sum(x, axes = [0]), sin(x), axis = 0) : f64[?]), k - 1) }
fn main(x: f64[n], k: i64[]) = reduce_sum(tanh(doubled(x, k)), axes = [0])
""", {"x": (3,), "k": 4}),
    # What only sums of sizes tell on the way back, where it is by the weight alone.
    "a part that grows": ("""
fn one(x: f64[2], s: f64[?], w, k: i64[]) -> f64[] =
  if k == 0 { reduce_sum((concat(x * w, s, axis = 0) : f64[?]), axes = [0]) } else { one(x, s, w, k - 1) }
fn main(x: f64[2], s: f64[?], w: f64[], k: i64[]) = one(x, s, w, k)
""", {"x": (2,), "s": (3,), "w": (), "k": 2}, ["w"]),
    "a state of parts": ("""
fn main(xs: List[f64[?]], w: f64[]) = {
  let all = fold(fn(all, x) => (concat(x * w, all, axis = 0) : f64[?]), (broadcast((0.0 : f64[])) : f64[0]), xs);
  reduce_sum(all * all, axes = [0])
}
""", {"xs": lambda rng, model: _list(model.constructors, [draw(rng, size) for size in (3, 1, 2)]), "w": ()}, ["w"]),
    "a state of parts and itself twice": ("""
fn main(xs: List[f64[?, 2]], s: f64[?, 2], w: f64[2]) = {
  let all = fold(fn(all, x) => (concat(softmax(softmax(x, axis = 1) + w, axis = 1) + w, all, all, axis = 0) : f64[?, 2]), s, xs);
  reduce_sum(tanh(all), axes = [0, 1])
}
""", {"xs": lambda rng, model: _list(model.constructors, [draw(rng, size, 2) for size in (3, 0, 2)]), "s": (1, 2), "w": (2,)}, ["w"]),
    # What was seen so far, in a reference; the last rows of it are taken as many as there are of another.
    "joined in a reference": ("""
fn see(seen, xs, w) = match xs {
  Nil => (broadcast((0.0 : f64[])) : f64[]),
  Cons(x, rest) => {
    let before = *seen;
    seen := (concat(before, x @ w, axis = 0) : f64[?, 2]);
    reduce_sum(transpose(*seen, permutation = [1, 0]) @ *seen, axes = [0, 1]) * see(seen, rest, w)
      + reduce_sum(sin(before), axes = [0, 1])
  },
}
fn main(xs: List[f64[?, 2]], w: f64[2, 2]) = see(ref((w : f64[?, 2])), xs, w)
""", {"xs": lambda rng, model: _list(model.constructors, [draw(rng, size, 2) for size in (3, 1, 2)]), "w": (2, 2)}),
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


class Slopes:
    """A program, what it is given, directions for all floats of that, and the slopes along them."""

    def __init__(self, folder, text, inputs, wrt=None, *, seed, **settings):
        import tensmith

        self.path, self.settings = folder / "program.tsm", {"cache_dir": "", **settings}
        self.path.write_text(text)
        self.rng = np.random.default_rng(seed)
        self.model = tensmith.compile(self.path, **self.settings)
        self.given = given_to(self.model, inputs, self.rng)
        self.wrt = wrt or [name for name, value in self.given.items() if any(True for _ in floats(value))]
        self.directions = {
            name: {path: draw(self.rng, *array.shape) for path, array in floats(self.given[name])} for name in self.wrt
        }

    def moved(self, names, step):
        return {**self.given, **{name: moved(self.given[name], self.directions[name], step) for name in names}}

    def tangents(self):
        """The directions as values of the inputs' types, whose other numbers do not matter."""
        return {f"tangent.{name}": only(self.given[name], self.directions[name]) for name in self.wrt}

    def along(self, name, gradient):
        """The derivative by one input along its direction, given the gradient."""
        parts = dict(floats(gradient))
        assert parts.keys() == self.directions[name].keys(), name
        return sum(float((parts[path] * direction).sum()) for path, direction in self.directions[name].items())

    def slope(self, model, names, step=1e-6):
        """Of each of a model's outputs, as arrays by place."""
        sides = [[dict(floats(value)) for value in model.run(**self.moved(names, side * step))] for side in (1, -1)]
        return [{path: (a[path] - b[path]) / (2 * step) for path in a} for a, b in zip(*sides)]


def only(value, directions, path=()):
    if hasattr(value, "_tensmith_value"):
        fields = (only(field, directions, path + (index,)) for index, field in enumerate(value.fields))
        return type(value)(value.name, value.tag, tuple(fields))
    return directions[path] if path in directions else value


def check(folder, text, inputs, wrt=None, seed=0, **settings):
    import tensmith

    slopes = Slopes(folder, text, inputs, wrt, seed=seed, **settings)
    compiled = tensmith.grad(slopes.path, slopes.wrt, "result", **slopes.settings)
    outputs = compiled.run(**slopes.given)
    assert np.allclose(outputs[0], slopes.model.run(**slopes.given)[0], rtol=1e-12)
    for name, gradient in zip(slopes.wrt, outputs[-len(slopes.wrt) :]):
        slope = slopes.slope(slopes.model, [name])[0][()]
        assert np.isclose(slope, slopes.along(name, gradient), rtol=1e-5, atol=1e-6), name


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_the_slopes(name, tmp_path):
    check(tmp_path, *PROGRAMS[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_without_optimisation_are_the_slopes(name, tmp_path):
    check(tmp_path, *PROGRAMS[name], seed=1, fuse=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_tangents_are_the_slopes(name, tmp_path):
    import tensmith

    slopes = Slopes(tmp_path, *PROGRAMS[name], seed=2)
    compiled = tensmith.jvp(slopes.path, slopes.wrt, **slopes.settings)
    result, tangent = compiled.run(**slopes.given, **slopes.tangents())
    assert np.allclose(result, slopes.model.run(**slopes.given)[0], rtol=1e-12)
    assert np.isclose(tangent, slopes.slope(slopes.model, slopes.wrt)[0][()], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_products_with_the_hessian_are_the_gradients_slopes(name, tmp_path):
    import tensmith

    slopes = Slopes(tmp_path, *PROGRAMS[name], seed=3)
    count = len(slopes.wrt)
    compiled = tensmith.hvp(slopes.path, slopes.wrt, "result", **slopes.settings)
    gradients = tensmith.grad(slopes.path, slopes.wrt, "result", **slopes.settings)
    outputs = compiled.run(**slopes.given, **slopes.tangents())
    expected = slopes.slope(gradients, slopes.wrt)[-count:]
    for name, product, slope in zip(slopes.wrt, outputs[-count:], expected):
        for path, part in floats(product):
            assert np.allclose(part, slope[path], rtol=1e-4, atol=1e-5), (name, path)


REAL = re.compile(r"(?<![\w.])-?\d+(?:\.\d+(?:e-?\d+)?|e-?\d+)(?![\w.])")


def drawn(seed):
    """A program of random-programs, in f64; what main gives first is a value of any type."""
    command = [PACKAGE.parent / "test" / "random-programs", "--print", str(seed)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return REAL.sub(lambda number: f"({number[0]} : f64[])", re.sub(r"\bf32\b", "f64", text))


def slope_of_drawn(seed, folder):
    """Of a weighting of all floats that the program gives, along a direction: by differences, by the gradient, and by the tangent;
    or why not."""
    import tensmith

    path, rng = folder / "program.tsm", np.random.default_rng(seed)
    path.write_text(drawn(seed))
    model = tensmith.compile(path, cache_dir="", threads=1)
    given = {"x": draw(rng, 3, 5), "v": draw(rng, 3), "w": draw(rng, 5, 3), "c": draw(rng, 5), "k": np.int64(rng.integers(6)),
             "b": np.bool_(rng.integers(2)), "l": model._value([np.int64(k) for k in rng.integers(-5, 15, rng.integers(4))])}  # fmt: skip
    result = model.run(**given)[0]
    weights = {place: draw(rng, *array.shape) for place, array in floats(result)}
    if not weights:
        return "no floats"
    wrt = ["x", "v", "w", "c"]
    try:
        compiled = tensmith.grad(path, wrt, "result0", cotangent=True, cache_dir="", threads=1)
    except tensmith.Error as error:
        assert "has functions inside" in str(error), error
        return "refused"
    gradients = compiled.run(**given, **{"cotangent.result0": only(result, weights)})[-len(wrt) :]
    directions = {name: draw(rng, *given[name].shape) for name in wrt}

    def weighted(step):
        moved = {name: given[name] + step * direction for name, direction in directions.items()}
        parts = dict(floats(model.run(**{**given, **moved})[0]))
        return sum((parts[place] * weight).sum() for place, weight in weights.items()) if parts.keys() == weights.keys() else np.nan

    slopes = [(weighted(step) - weighted(-step)) / (2 * step) for step in (1e-6, 3e-7)]
    scale = max(1, sum(np.abs(array * weights[place]).sum() for place, array in floats(result)))
    if not abs(slopes[0] - slopes[1]) <= 1e-4 * abs(slopes[1]) + 1e-6 * scale:
        return "a kink"
    along = sum((gradient * directions[name]).sum() for name, gradient in zip(wrt, gradients))
    forward = tensmith.jvp(path, wrt, ["result0"], cache_dir="", threads=1)
    pushed = forward.run(**given, **{f"tangent.{name}": direction for name, direction in directions.items()})[-1]
    tangent = sum((part * weights[place]).sum() for place, part in floats(pushed))
    for derivative in (along, tangent):
        assert abs(derivative - slopes[1]) <= 1e-4 * max(1, abs(slopes[1])) * scale, seed
    return "slope" if abs(slopes[1]) > 1e-9 else "constant"


def test_gradients_of_drawn_programs_are_the_slopes(tmp_path):
    """With data types, closures, references and recursion; a third of them depend on the inputs."""
    if not (PACKAGE.parent / "test" / "random-programs").exists():
        pytest.skip("the test programs are not built")
    found = [slope_of_drawn(seed, tmp_path) for seed in [*range(1, 40), 73, 235]]
    assert found.count("slope") >= 10 and found.count("refused") <= 4, found


# Loops that end when the data say so, over a list, and of changes to references.
LOOPS = {
    "data": "fn loop(x, xs, k: i64[]) = if k == 0 { (x, k) } else { loop(sin(x) * 0.9 + 0.3, xs, k - 1) }",
    "list": "fn loop(x, xs, k: i64[]) = match xs { Nil => (x, k), Cons(y, rest) => loop(tanh(x * y), rest, k + 1) }",
    "references": """
fn turn(r, s, k: i64[]) = if k == 0 { () } else { r := tanh(*r * 0.9 + *s); s := *s * 0.5 + *r; turn(r, s, k - 1) }
fn loop(x, xs, k: i64[]) = { let r = ref(x); turn(r, ref(x * 2.0), k); (*r, k) }
""",
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_tangent_of_a_loop_is_a_loop(name, tmp_path):
    """However long it is, no more calls lie in one another than a few."""
    import tensmith

    path, rng = tmp_path / "program.tsm", np.random.default_rng(7)
    path.write_text(LOOPS[name] + """
fn main(x: f64[3], xs: List[f64[3]], k: i64[]) = { let (y, count) = loop(x, xs, k); reduce_sum(y * cast(count, to = f64), axes = [0]) + reduce_sum(y, axes = [0]) }
""")
    settings = {"cache_dir": "", "max_depth": 20}
    model, compiled = tensmith.compile(path, **settings), tensmith.jvp(path, ["x"], **settings)
    x, direction = draw(rng, 3), draw(rng, 3)
    for steps in (4, 3000):
        elements = [draw(rng, 3) for _ in range(steps if name == "list" else 2)]
        given = {"xs": model._value(elements), "k": np.int64(steps)}
        sides = [model.run(x=x + side * 1e-6 * direction, **given)[0] for side in (1, -1)]
        _, tangent = compiled.run(x=x, **given, **{"tangent.x": direction})
        assert np.isclose(tangent, (sides[0] - sides[1]) / 2e-6, rtol=1e-5, atol=1e-6)


# What references refer to, and whether a change of it may be anything.
CELLS = {
    "integers": ("ref([k, 2])", "{ r := Cons(k, *r); match *r { Cons(a, rest) => cast(a, to = f64), Nil => 0.0 } }", False),
    "a reference": ("ref(ref(k))", "{ let inner = *r; r := ref(k + *inner); cast(**r, to = f64) }", False),
    "a closure": ("ref(fn(i: i64[]) => i + k)", "{ let one = *r; r := fn(i) => one(i) * k; let f = *r; cast(f(k), to = f64) }", False),
    "a closure on floats": ("ref(fn(i: i64[]) => x * cast(i, to = f64))", "{ let one = *r; r := fn(i) => one(i) * x; let f = *r; f(k) }", True),
    "floats": ("ref([x, x])", "{ r := Cons(x * x, *r); match *r { Cons(a, rest) => a, Nil => 0.0 } }", True),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("forward", [False, True])
def test_what_can_not_change_has_no_change(name, forward, tmp_path):
    """Such references are to what they were to in the program, in the code of its gradient and of its tangent."""
    import tensmith

    made, used, changes = CELLS[name]
    path = tmp_path / "program.tsm"
    path.write_text(f"""
fn turn(r, x: f64[], k: i64[]) = if k == 0 {{ x }} else {{ let y = {used}; turn(r, sin(x) + y * x * 0.01, k - 1) }}
fn main(x: f64[], k: i64[]) = {{ let r = {made}; turn(r, x, k) }}
""")
    model = tensmith.compile(path, cache_dir="")
    make = tensmith.jvp if forward else tensmith.grad
    compiled = make(path, ["x"], ["result"] if forward else "result", cache_dir="", dump_ir=tmp_path / "stages")
    code = (tmp_path / "stages" / "00-imported.mlir").read_text()
    assert "program.write" in code and ("Cell[" in code) == changes
    x, k = np.float64(0.7), np.int64(3)
    sides = [model.run(x=x + side * 1e-6, k=k)[0] for side in (1, -1)]
    slope = compiled.run(x=x, k=k, **({"tangent.x": np.float64(1)} if forward else {}))[-1]
    assert np.isclose(slope, (sides[0] - sides[1]) / 2e-6, rtol=1e-6)


# Each with the bytes that a turn of it may take; the weights have 256 kB, and the state has 3 MB at last.
DEEP = {
    "a tail call": ("""
fn loop(i, k, h, w) = if i < k { loop(i + 1, k, tanh(h @ w), w) } else { h }
fn main(h: f32[1, 256], w: f32[256, 256], xs: List[f32[1, 256]], k: i64[]) = reduce_sum(loop(0, k, h, w), axes = [0, 1])
""", 10000, 5000),
    "a state that grows": ("""
fn main(h: f32[1, 256], w: f32[256, 256], xs: List[f32[1, 256]], k: i64[]) =
  reduce_sum(fold(fn(all, x) => (concat(all, tanh(x @ w), axis = 0) : f32[?, 256]), (h : f32[?, 256]), xs), axes = [0, 1])
""", 3000, 40000),
}


@pytest.mark.parametrize("name", DEEP)
def test_a_turn_of_a_loop_takes_its_tape(name, tmp_path):
    """In reverse each turn is a call. Breaks if calls hold the transposed weights, or what only its sizes are wanted of,
    while those within them run."""
    text, turns, most = DEEP[name]
    (tmp_path / "program.tsm").write_text(text)
    script = f"""
import numpy, tensmith
model = tensmith.grad({str(tmp_path / "program.tsm")!r}, ["h", "w", "xs"], "result", cache_dir="", threads=1)
rng = numpy.random.default_rng(3)
h, w = rng.standard_normal((1, 256)).astype("f"), rng.standard_normal((256, 256)).astype("f") / 20
rows = [rng.standard_normal((1, 256)).astype("f") for _ in range({turns} if "xs)," in {text!r} else 1)]
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
model.run(h=h, w=w, xs=model._value(rows[:1]), k=numpy.int64(10))
xs, before = model._value(rows), peak()
model.run(h=h, w=w, xs=xs, k=numpy.int64({turns}))
print((peak() - before) // {turns})
"""
    taken = []
    while len(taken) < 4 and not any(bytes < most for bytes in taken):  # blocks that grow are put apart in one heap of some
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(PACKAGE)})
        assert done.returncode == 0, done.stderr
        taken.append(int(done.stdout))
    assert min(taken) < most


def test_recursion_goes_back_side_by_side_and_together(tmp_path):
    """The two calls of a node stand side by side on the way back too, and their products are done together: there and back."""
    import tensmith

    (tmp_path / "program.tsm").write_text("""
fn encode(tree, u, w) = match tree {
  Leaf(x) => tanh(x @ u),
  Node(a, b) => tanh((encode(a, u, w) - encode(b, u, w)) @ w),
}
fn main(tree: Tree[f32[1, 64]], u: f32[64, 96], w: f32[96, 96]) = reduce_sum(encode(tree, u, w), axes = [0, 1])
""")
    rng, models = np.random.default_rng(5), []
    for threads in (1, 2):
        models.append(tensmith.grad(tmp_path / "program.tsm", ["u", "w"], "result", cache_dir="", threads=threads))
    description = models[0].describe()
    together = {f["name"].split(".batched")[0] for f in description["functions"] if f["name"].endswith(".batched")}
    assert any(".record" in name for name in together) and any(".pull" in name for name in together), together
    forks = {p["name"] for p in description["procedures"] if any(": Fork" in word for word in p["code"])}
    assert any(".record" in name for name in forks) and any(".pull" in name for name in forks), forks
    u, w = (rng.standard_normal(shape).astype(np.float32) / 8 for shape in ((64, 96), (96, 96)))
    make = models[0].constructors

    def grow(leaves):
        if leaves == 1:
            return make["Leaf"](rng.standard_normal((1, 64)).astype(np.float32))
        left = int(rng.integers(1, leaves))
        return make["Node"](grow(left), grow(leaves - left))

    def back(tree, du, dw):
        """The value, and what takes its cotangent."""
        if tree.name == "Leaf":
            y = np.tanh(tree[0] @ u)
            return y, lambda g: du.__iadd__(tree[0].T @ (g * (1 - y * y)))
        (a, left), (b, right) = back(tree[0], du, dw), back(tree[1], du, dw)
        y = np.tanh((a - b) @ w)

        def pull(g):
            g = g * (1 - y * y)
            dw.__iadd__((a - b).T @ g)
            left(g @ w.T)
            right(-g @ w.T)

        return y, pull

    for leaves in (1, 2, 60, 150):  # as many rows as are kept, and more
        tree, du, dw = grow(leaves), np.zeros_like(u), np.zeros_like(w)
        y, pull = back(tree, du, dw)
        pull(np.ones_like(y))
        first, second = (model.run(tree=tree, u=u, w=w) for model in models)
        assert all(np.array_equal(a, b) for a, b in zip(first, second))
        for got, right in zip(first, (y.sum(), du, dw)):
            np.testing.assert_allclose(got, right, atol=1e-4 * max(1, np.abs(right).max()))


def test_a_state_that_grows_is_not_kept(tmp_path):
    """Its sizes are: all of its lengths together would be 800 MB. In a process whose memory goes back as soon as it is free."""
    (tmp_path / "program.tsm").write_text("""
fn main(xs: List[f32[?, 400]], w: f32[400]) =
  reduce_sum(fold(fn(all, x) => (concat(all, x * w, axis = 0) : f32[?, 400]), (broadcast(0.0) : f32[0, 400]), xs), axes = [0, 1])
""")
    script = """
import resource, sys
import numpy as np
import tensmith
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
model = tensmith.grad(sys.argv[1], ["w"], "result", cache_dir="", threads=1)
xs, before = model._value([np.ones((2, 400), np.float32)] * 700), peak()
assert (model.run(xs=xs, w=np.ones(400, np.float32))[1] == 1400).all()
print(peak() - before)
"""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", script, str(tmp_path / "program.tsm")]
    taken = float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert taken < 200
