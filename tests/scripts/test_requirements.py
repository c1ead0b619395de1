"""Breaks when a requirement that a shape function states is not among those that tests/random/requirements.py leaves out, or when one
can be left out and no random graph fails."""

import importlib.util
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("requirements", ROOT / "tests/random/requirements.py")
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

SOURCE = """
static constexpr char kTornMessage[] = "a torn "
                                       "sheet of {a}";
LogicalResult infer(Inference &infer) {
  if (failed(infer.requireEqual(x[f(1)], w[0], "(V1)", "leaves of x and w")) || // requireEqual(a, b, "", "no comment")
      failed(infer.requireMultiple(x[1], 2, "(V2)", "the number of leaves")) ||
      failed(infer.requireAtMost(x[1], w[1], "(V3) {a} leaves of "
                                             "{b}")))
    return failure();
  for (auto [a, what] : {Pair{x[0], "the roots"}})
    if (failed(infer.requireEqual(a, w[0], "(V4)", what)) ||
        failed(infer.requireEqual(a, w[0], (name + ":").str(), "its side " + number + " and that of a leaf")))
      return failure();
  require({Condition::Relation::Broadcast, a, b, kTornMessage});
  return requireBroadcast(infer, 1, x, "bark");
}
"""


def test_new_requirements_are_listed(tmp_path):
    (tmp_path / "Leaves.cpp").write_text(SOURCE)
    assert list(script.requirements(tmp_path)) == [
        "leaves of x and w differ", "the number of leaves is no multiple", "{a} leaves of {b}", "the roots differ",
        "and that of a leaf differ", "a torn sheet of {a}", "the dimensions of 'bark' and of x differ"]  # fmt: skip


def test_those_of_the_compiler_are_listed():
    listed = script.requirements(ROOT / "compiler/graph")
    assert len(listed) > 40
    assert {"batch dimensions differ", "the heads of k and v differ", "the result would have a negative dimension, {b}"} <= set(listed)


def test_operators_that_a_macro_gives_the_requirement(tmp_path):
    (tmp_path / "Leaves.td").write_text('def Graph_OakOp : Graph_Op<"oak"> {}\n')
    call = 'LogicalResult inferTree(Op op) {\n  return infer.requireAtMost(a, b, "(V5) there are no leaves");\n}\n'
    (tmp_path / "Leaves.cpp").write_text(f"{call}INFER(OakOp, inferTree)\n")
    assert script.requirements(tmp_path) == {"there are no leaves": ["oak"]}


def test_what_was_found_before_is_kept(tmp_path):
    """But of requirements that nothing states any more."""
    path, stated = tmp_path / "found.json", {"a": [], "b": []}
    for text, seed in (("b", 1), ("gone", 2), ("a", 3), ("b", 4)):
        script.keep(path, [{"requirement": text, "seed": seed}], {**stated, text: []})
    script.keep(path, [], stated)
    assert script.json.loads(path.read_text()) == [{"requirement": "a", "seed": 3}, {"requirement": "b", "seed": 4}]


def test_leaving_one_out_is_found_out():
    """Of two; the script goes through all of them."""
    result = subprocess.run([sys.executable, script.__file__, "-k", "dimension that is", "--count", "100"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 of 2 are missed" in result.stdout
