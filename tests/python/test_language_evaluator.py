"""The language's own evaluator, through `tensmith run --reference` and `tensmith compare --reference`.

What would break these: an evaluator that recurses on the host's stack, a closure that loses its scope, a symbol's size
that is taken from the wrong input, an operator that is told the wrong shape.
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"

pytestmark = pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")


def tensmith(*arguments, status=0):
    done = subprocess.run([TENSMITH, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture
def evaluate(tmp_path):
    """The outputs of a program for arrays by name, evaluated."""

    def run(text, **inputs):
        (tmp_path / "program.tsm").write_text(text)
        given = []
        for name, value in inputs.items():
            np.save(tmp_path / f"{name}.npy", value)
            given += ["--input", f"{name}={tmp_path / name}.npy"]
        out = tmp_path / "out"
        done = tensmith("run", tmp_path / "program.tsm", "--reference", "--json", "--output", out, *given)
        return [np.load(output["file"]) for output in json.loads(done.stdout)["outputs"]]

    return run


PROGRAM = """
type Shape = Circle(f32[]) | Box(f32[], f32[]) | Group(List[Shape])

fn area(s) = match s {
  Circle(r) => 3.0 * r * r,
  Box(a, b) => a * b,
  Group(shapes) => fold(fn(sum, one) => sum + area(one), 0.0, shapes),
}
fn count(n) = if n <= 0 { Nil } else { Cons(n, count(n - 1)) }
fn twice(f) = fn(x) => f(f(x))

fn main(x: f32[n, 3], k: i64[]) = (
  area(Group([Circle(2.0), Box(3.0, 4.0)])),
  twice(fn(v) => v + x)(x),
  fold(fn(a, b) => a * 2 + b, k, count(5)),
  (reshape(x) : f32[3 * n]),
  match zip(count(2), [x, x * 2.0]) { Cons((i, first), _) => first, Nil => x },
)
"""


def test_what_it_computes(evaluate):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    area, doubled, folded, flat, first = evaluate(PROGRAM, x=x, k=np.int64(7))
    assert area == 24
    np.testing.assert_array_equal(doubled, 3 * x)
    assert folded == 7 * 32 + 5 * 16 + 4 * 8 + 3 * 4 + 2 * 2 + 1
    np.testing.assert_array_equal(flat, x.ravel())
    np.testing.assert_array_equal(first, x)


def test_it_is_compared_with_compiled_code(tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text(PROGRAM + "\nfn unused(t: Tree[f32[n]]) = t\n")
    said = tensmith("compare", path, "--reference", "--input", "x=4x3xf32=random", "--input", "k=random").stdout
    assert "agrees with the reference evaluator" in said
    path.write_text("fn main(x: f32[n]) = Cons(x, Some(x) |> None)\n")
    tensmith("compare", path, "--reference", status=1)
    path.write_text("fn main(x: f32[n]) = (Some(x), [x * 2.0, x])\n")
    said = tensmith("compare", path, "--reference", "--input", "x=5xf32=random").stdout
    assert said.count("result") == 2 and "agrees" in said


def test_deep_recursion_needs_no_stack(evaluate):
    program = "fn count(n) = if n <= 0 { Nil } else { Cons(n, count(n - 1)) }\n" \
              "fn main(n: i64[]) = fold_right(fn(x, sum) => x + sum, count(n), 0)\n"
    assert evaluate(program, n=np.int64(200_000))[0] == 200_000 * 200_001 // 2


def test_what_is_wrong_names_its_place(tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text("fn main(x: f32[n], y: f32[?]) =\n  x + y\n")
    failed = tensmith("run", path, "--reference", "--input", "x=3xf32=ones", "--input", "y=4xf32=ones", status=1)
    assert "program.tsm:2:5: " in failed.stderr
