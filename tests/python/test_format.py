"""`tensmith format`: programs of the language in their one layout, with their comments.

What would break these: a comment that is lost or wanders, a layout that the next run changes again, a file that is
written though something is wrong with it. Random programs go the same way in tests/random_programs/test.
"""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"

pytestmark = pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")


def tensmith(*arguments, status=0, **options):
    done = subprocess.run([TENSMITH, *map(str, arguments)], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


GIVEN = """// What it is.

type  Shape=Circle( f32[ ] ) | // round
  Box(f32[],f32[])
let w=load("w.npy") // the weights
fn area(s: Shape)   ->f32[] = match s { Circle(r) => 3.0*r *r,
  // flat


  Box(a,b)=>(a*b), }
fn main(x:f32[n,3], a_long_name: f32[n, 3], another_long_name: List[f32[n, 3]], the_last: i64[]) = { let y=x+ -1.0; // less one

  // then twice
  let z = if the_last!=0{y}else{y*2.0};
  fold(fn(sum, one) => sum + one * 2.0, z + a_long_name * a_long_name - a_long_name, another_long_name, )
}
// the end
"""

WANTED = """// What it is.

type Shape =
  Circle(f32[])  // round
  | Box(f32[], f32[])
let w = load("w.npy")  // the weights

fn area(s: Shape) -> f32[] =
  match s {
    Circle(r) => 3.0 * r * r,
    // flat

    Box(a, b) => a * b,
  }

fn main(
  x: f32[n, 3],
  a_long_name: f32[n, 3],
  another_long_name: List[f32[n, 3]],
  the_last: i64[]
) = {
  let y = x + -1.0;  // less one

  // then twice
  let z = if the_last != 0 { y } else { y * 2.0 };
  fold(
    fn(sum, one) => sum + one * 2.0,
    z + a_long_name * a_long_name - a_long_name,
    another_long_name
  )
}
// the end
"""


def test_a_program_in_its_layout(tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text(GIVEN)
    assert "program.tsm: is not formatted" in tensmith("format", "--check", path, status=1).stdout
    assert path.read_text() == GIVEN
    tensmith("format", path)
    assert path.read_text() == WANTED
    tensmith("format", "--check", path)


def test_from_stdin():
    assert tensmith("format", "-", input=GIVEN).stdout == WANTED
    assert tensmith("format", "-", input="").stdout == ""
    assert tensmith("format", "-", input="// alone").stdout == "// alone\n"


def test_what_can_not_be_read_is_left_as_it_is(tmp_path):
    good, bad = tmp_path / "good.tsm", tmp_path / "bad.tsm"
    good.write_text("fn main(x: f32[3])=x\n")
    bad.write_text("fn main(x: f32[3]) = x +\n")
    said = tensmith("format", good, bad, status=1).stderr
    assert "bad.tsm:2:1: expected an expression" in said
    assert good.read_text() == "fn main(x: f32[3])=x\n"


def test_the_programs_here_are_formatted():
    programs = [*ROOT.glob("examples/**/*.tsm"), ROOT / "frontends/text/Prelude.tsm", *ROOT.glob("frontends/text/layers/*.tsm")]
    assert len(programs) > 2
    tensmith("format", "--check", *programs)


def test_imports_are_laid_out(tmp_path):
    path = tmp_path / "program.tsm"
    path.write_text('import   "b.tsm" // why\nimport "a.tsm";\n\n\n// x\nfn f(x)=x\n')
    tensmith("format", path)
    assert path.read_text() == 'import "b.tsm"  // why\nimport "a.tsm"\n\n// x\nfn f(x) = x\n'
