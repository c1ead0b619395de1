"""scripts/new makes, in a copy of this tree, files that stand at their places, compile, and pass scripts/check.

It is run on the real sources, so that it fails when the layout moves away from what the templates and
docs/adding-an-operator.md say.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
LLVM = pathlib.Path("/usr/lib/llvm-19")
COPIED = ["scripts", "base", "reference", "compiler", "runtime", "include"]


@pytest.fixture
def tree(tmp_path):
    for folder in COPIED:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".clang-format", tmp_path)
    return tmp_path


def needs(*paths):
    """Skips until the layers that the scaffold extends are there."""
    missing = [path for path in paths if not (ROOT / path).exists()]
    if missing:
        pytest.skip(f"{missing[0]} is not there yet")


def new(tree, *arguments):
    return subprocess.run([sys.executable, tree / "scripts/new", *arguments], capture_output=True, text=True)


def texts(tree):
    return {path.relative_to(tree).as_posix(): path.read_text() for folder in COPIED
            for path in (tree / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def made(tree, *arguments):
    """What an invocation changed or made; each file must be listed with the line where there is something left to do."""
    before = texts(tree)
    done = new(tree, *arguments)
    assert done.returncode == 0, done.stderr
    after = texts(tree)
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {line.partition(":")[0] for line in done.stdout.splitlines() if re.match(r"\S+:\d+: ", line)}
    return changed


def assert_passes_check(tree, changed):
    said = subprocess.run([sys.executable, tree / "scripts/check", "--root", tree], capture_output=True, text=True).stdout
    assert [line for line in said.splitlines() if line.partition(":")[0] in changed] == []


def assert_compiles(tree, path, *includes):
    """The syntax alone, with the header that the build precompiles; the copy's sources come before the build's."""
    folders = [flag for folder in (tree, *includes, BUILD, LLVM / "include") for flag in ("-isystem", folder)]
    precompiled = ["-include", tree / "compiler/Precompiled.h"] if path.startswith("compiler/") else []
    done = subprocess.run(["clang++-19", "-std=c++20", "-fsyntax-only", *folders, *precompiled, tree / path],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


def generate(tree, record, output, *flags):
    """Runs TableGen on the copy's records into the copy."""
    command = [LLVM / "bin/mlir-tblgen", *flags, "-I", tree, "-I", LLVM / "include", tree / record, "-o", tree / output]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree)  # whose includes TableGen tries first
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("family", ["Elementwise", "Reduction", "Movement", "Contraction", "Normalization"])
def test_operator_stands_at_its_places(tree, family):
    # Of element-wise operators the reference evaluations stand in three files, and new ones go to the functions.
    reference = "reference/Functions.cpp" if family == "Elementwise" else f"reference/{family}.cpp"
    needs(f"compiler/graph/{family}.cpp", reference)
    changed = made(tree, "operator", "soft_sign", "--family", family)
    assert changed == {
        f"compiler/graph/{family}Ops.td", f"compiler/graph/{family}.cpp", f"compiler/graph/{family}Code.cpp",
        f"compiler/graph/{family}Gradient.cpp", reference, "reference/test/SoftSignTest.cpp", "compiler/graph/test/soft_sign.mlir",
    }
    assert_passes_check(tree, changed)
    generate(tree, "compiler/graph/GraphOps.td", "records.inc", "-gen-op-decls")
    assert '"graph.soft_sign"' in (tree / "records.inc").read_text()
    assert_compiles(tree, reference)
    assert_compiles(tree, "reference/test/SoftSignTest.cpp")


@pytest.mark.parametrize("family", ["Elementwise", "Contraction"])
def test_operators_rules_compile(tree, family):
    needs(f"compiler/graph/{family}.cpp", f"reference/{family}.cpp")
    made(tree, "operator", "SoftSign", "--family", family)
    generate(tree, "compiler/graph/GraphOps.td", "compiler/graph/GraphOps.h.inc", "-gen-op-decls")
    generate(tree, f"compiler/graph/{family}Ops.td", f"compiler/graph/{family}Ops.cpp.inc", "-gen-op-defs")
    assert_compiles(tree, f"compiler/graph/{family}.cpp")
    assert_compiles(tree, f"compiler/graph/{family}Code.cpp")
    assert_compiles(tree, f"compiler/graph/{family}Gradient.cpp")


def test_pass_stands_at_its_places(tree):
    needs("compiler/rewrite/Passes.td")
    changed = made(tree, "pass", "FoldPadding")
    assert changed == {"compiler/rewrite/Passes.td", "compiler/rewrite/FoldPadding.cpp",
                       "compiler/rewrite/test/fold-padding.mlir"}
    assert_passes_check(tree, changed)
    generate(tree, "compiler/rewrite/Passes.td", "compiler/rewrite/Passes.h.inc", "-gen-pass-decls")
    assert_compiles(tree, "compiler/rewrite/FoldPadding.cpp")


def test_target_stands_at_its_places(tree):
    needs("compiler/kernel/Kernel.h")
    changed = made(tree, "target", "riscv")
    folder = "compiler/target/riscv"
    assert changed == {"compiler/CMakeLists.txt", f"{folder}/CMakeLists.txt", f"{folder}/Target.h",
                       f"{folder}/Target.cpp", f"{folder}/test/TargetTest.cpp"}
    assert_passes_check(tree, changed)
    assert_compiles(tree, f"{folder}/Target.cpp")


@pytest.mark.parametrize("arguments", [
    ("operator", "abs", "--family", "Elementwise"),  # there already
    ("operator", "soft_sign"),                       # of which family?
    ("operator", "soft sign", "--family", "Elementwise"),
    ("pass", "FoldPadding", "--family", "Elementwise"),
])
def test_refusals_change_nothing(tree, arguments):
    before = texts(tree)
    assert new(tree, *arguments).returncode != 0
    assert texts(tree) == before


def test_what_was_made_is_not_overwritten(tree):
    needs("compiler/graph/Elementwise.cpp", "reference/Functions.cpp")
    made(tree, "operator", "soft_sign", "--family", "Elementwise")
    before = texts(tree)
    assert new(tree, "operator", "soft_sign", "--family", "Elementwise").returncode != 0
    assert texts(tree) == before
