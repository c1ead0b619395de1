"""Gradients of recursion that the data end, from some of its states alone: the same bits, in memory that grows as the root of its length, or its logarithm."""

import math
import os
import pathlib
import runpy
import subprocess

import numpy as np
import pytest
import tensmith as ts

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
BENCH = runpy.run_path(str(ROOT / "bench/checkpoints"))
PLANS = ("segments", "recursive")


def numbers(value):
    """The arrays in a result, data taken apart."""
    if isinstance(value, np.ndarray):
        return [value]
    parts = value if isinstance(value, (list, tuple)) else value.fields
    return [array for part in parts for array in numbers(part)]


def gradients(path, wrt, **settings):
    plans = {"all": {}, **{plan: {"recomputation": plan} for plan in PLANS}}
    return {name: ts.grad(path, wrt=wrt, of="result", threads=2, seed=5, **settings, **plan) for name, plan in plans.items()}


def assert_same_bits(models, given):
    kept = numbers(models["all"].run(**given(models["all"])))
    for plan in PLANS:
        again = numbers(models[plan].run(**given(models[plan])))
        assert [a.tobytes() for a in again] == [a.tobytes() for a in kept], plan
    return kept


def normal(*shape, seed=1):
    return (np.random.default_rng(seed).normal(size=shape) / 8).astype(np.float32)


# Breaks when a segment's end, or an iteration that is made again, adds cotangents up in another order or draws another mask.
@pytest.mark.parametrize("kind", BENCH["PROGRAMS"])
def test_gradients_have_the_same_bits(kind, tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text(BENCH["PROGRAMS"][kind])
    models = gradients(path, BENCH["WANTED"][kind])
    for length in (1, 4, 5, 64, 65, 330):
        kept = assert_same_bits(models, lambda model, length=length: BENCH["inputs"](model, kind, length))
        assert length == 1 and kind == "lstm" or np.abs(kept[1]).max() > 0


TWO_CALLS = """
fn go(x: f32[2, 8], w, b, ys, left: i64[]) =
  if left <= 0 { (x, ys) }
  else if left % 3 == 0 { go(tanh(x @ w), w, b, Cons(x * x, ys), left - 1) }
  else { match ys { Nil => go(x + b, w, b, ys, left - 1), Cons(y, rest) => go(tanh(x + b * y), w, b, ys, left - 1) } }

fn main(x: f32[2, 8], w: f32[8, 8], b: f32[8], n: i64[]) = {
  let (y, ys) = go(x, w, b, [], n);
  let (z, zs) = go(y, w, b, ys, n / 2);
  fold(fn(sum, one) => sum + reduce_sum(one, axes = [0, 1]), reduce_sum(z * y, axes = [0, 1]), zs)
}
"""


# Breaks when what branches give to one value, or a list that grows with the state, is added up otherwise.
def test_branches_and_lists_in_the_state(tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text(TWO_CALLS)
    models = gradients(path, ["w", "b", "x"])
    for n in (0, 3, 40, 200):
        assert_same_bits(models, lambda model, n=n: {"x": normal(2, 8), "w": normal(8, 8, seed=2) * 4, "b": normal(8, seed=3), "n": np.int64(n)})


SECOND = """
fn go(x: f64[4], w: f64[4], left: i64[]) = if left <= 0 { x } else { go(sin(x * w), w, left - 1) }

fn main(x: f64[4], w: f64[4], n: i64[]) = { let y = go(x, w, n); reduce_sum(y * y, axes = [0]) }
"""


# Breaks when the derivative of a gradient does not go through what is made again.
def test_the_second_derivative_goes_through(tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text(SECOND)
    x, w, direction = (np.random.default_rng(7).uniform(0.5, 1.5, size=(3, 4)))
    derivatives = [("grad", "result", ["w"]), ("jvp", ["gradient.w"], ["w"])]
    given = {"x": x, "w": w, "n": np.int64(30), "tangent.w": direction}
    kept, again = (ts.compile(path, derivatives=derivatives, **plan).run(**given) for plan in ({}, {"recomputation": "segments"}))
    np.testing.assert_allclose(again[2], kept[2], rtol=1e-12)
    assert np.abs(kept[2]).max() > 0


def least_memory(module, values):
    """Bytes of the session's limit, to 10 %, with which a run succeeds."""

    def succeeds(limit):
        done = subprocess.run([TENSMITH, "run", module, "--input", values, "--threads", "1", "--seed", "1", "--memory-limit", str(int(limit))],
                              capture_output=True, text=True, timeout=60)  # fmt: skip
        assert done.returncode == 0 or "memory" in done.stderr, done.stderr
        return done.returncode == 0

    low, high = 1e5, 1e8
    while high / low > 1.1:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if succeeds(middle) else (middle, high)
    return high


# Breaks when tapes of several segments are there at a time: where calls that are made again wait for no cotangent.
def test_memory_grows_as_the_root_and_as_the_logarithm(tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text(BENCH["PROGRAMS"]["recursion"])
    least = {}
    for plan, model in gradients(path, ["w"]).items():
        model.save(tmp_path / f"{plan}.so")
        for length in (500, 8000):
            np.savez(tmp_path / "values.npz", **BENCH["inputs"](model, "recursion", length))
            least[plan, length] = least_memory(tmp_path / f"{plan}.so", tmp_path / "values.npz")
    slope = {plan: math.log(least[plan, 8000] / least[plan, 500]) / math.log(16) for plan in ("all", *PLANS)}
    assert slope["all"] > 0.9
    assert slope["segments"] < 0.6
    assert slope["recursive"] < 0.25
    assert least["segments", 8000] < 0.1 * least["all", 8000]


STEP = """
let w = (random_normal(seed = 1) : f32[8, 8])

fn go(x: f32[b, 8], left: i64[]) = if left <= 0 { x } else { go(tanh(x @ w), left - 1) }

fn main(x: f32[b, 8], n: i64[]) = { let y = go(x, n); reduce_sum(y * y, axes = [0, 1]) }
"""


# Breaks when a step of training does not hand the plan on, or trains other weights by it.
def test_a_step_of_training(tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text(STEP)
    states = []
    for plan in ({}, {"recomputation": "segments"}):
        step = ts.train_step(path, loss="result", optimiser="sgd", learning_rate=0.1, shapes={"b": [3]}, **plan)
        losses = [float(step(x=normal(3, 8), n=np.int64(n))["loss"]) for n in (1, 20, 50)]
        states.append((losses, np.array(step.state["w"]).tobytes()))
    assert states[0] == states[1]


TREE = """
fn total(tree: Tree[f32[4]], w: f32[4]) = match tree { Leaf(x) => tanh(x * w), Node(a, b) => tanh(total(a, w) + total(b, w)) }

fn main(tree: Tree[f32[4]], w: f32[4]) = reduce_sum(total(tree, w), axes = [0])
"""


# Breaks when a plan is taken for a recursion that it can't cut, or a budget for one that no plan can be held to.
@pytest.mark.parametrize("program, given", [(TREE, {"recomputation": "segments"}), (SECOND, {"memory": "1GiB"})])
def test_what_can_not_be_cut_is_refused(program, given, tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text(program)
    with pytest.raises(ts.Error, match="tail calls"):
        ts.grad(path, wrt=["w"], of="result", **given)
