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
COPIED = ["scripts", "base", "cache", "reference", "compiler", "runtime", "include"]


@pytest.fixture
def tree(tmp_path):
    for folder in COPIED:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".clang-format", tmp_path)
    return tmp_path


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


def build_opt(tree, *sources):
    """tensmith-opt with these sources of the copy instead of the build's own, by the command that linked it."""
    done = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "-s", "bin/tensmith-opt"], capture_output=True, text=True)
    command = next(line for line in done.stdout.splitlines() if "-o bin/tensmith-opt" in line)
    folders = [flag for folder in (tree, tree / "include", BUILD, LLVM / "include") for flag in ("-isystem", folder)]
    objects = []
    for source in sources:
        objects.append(tree / (pathlib.Path(source).name + ".o"))
        made = subprocess.run(["clang++-19", "-std=c++20", "-O0", "-fPIC", "-fno-rtti", "-c", *folders, "-include",
                               tree / "compiler/Precompiled.h", tree / source, "-o", objects[-1]],
                              capture_output=True, text=True)
        assert made.returncode == 0, made.stderr[-4000:]
    # The first definitions of what an archive has as well count, since the archive's member isn't needed any more.
    command = command.replace("-o bin/tensmith-opt", f"-o {tree}/tensmith-opt " + " ".join(map(str, objects)))
    linked = subprocess.run(command, shell=True, cwd=BUILD, capture_output=True, text=True)
    assert linked.returncode == 0, linked.stderr[-4000:]
    return tree / "tensmith-opt"


def generate(tree, record, output, *flags):
    """Runs TableGen on the copy's records into the copy."""
    command = [LLVM / "bin/mlir-tblgen", *flags, "-I", tree, "-I", LLVM / "include", tree / record, "-o", tree / output]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree)  # whose includes TableGen tries first
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("family", ["Elementwise", "Reduction", "Movement", "Contraction", "Normalization"])
def test_operator_stands_at_its_places(tree, family):
    # Of element-wise operators the reference evaluations stand in three files, and new ones go to the functions.
    reference = "reference/Functions.cpp" if family == "Elementwise" else f"reference/{family}.cpp"
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
    made(tree, "operator", "SoftSign", "--family", family)
    generate(tree, "compiler/graph/GraphOps.td", "compiler/graph/GraphOps.h.inc", "-gen-op-decls")
    generate(tree, f"compiler/graph/{family}Ops.td", f"compiler/graph/{family}Ops.cpp.inc", "-gen-op-defs")
    assert_compiles(tree, f"compiler/graph/{family}.cpp")
    assert_compiles(tree, f"compiler/graph/{family}Code.cpp")
    assert_compiles(tree, f"compiler/graph/{family}Gradient.cpp")


def test_template_stands_at_its_places(tree):
    """Breaks if what is made doesn't compile as it is, or isn't in the table."""
    changed = made(tree, "template", "OuterProduct")
    assert changed == {"compiler/kernel/OuterProductKernel.h", "compiler/kernel/OuterProductKernel.cpp",
                       "compiler/kernel/test/OuterProductKernelTest.cpp", "compiler/kernel/Templates.cpp"}
    assert_passes_check(tree, changed)
    for source in sorted(changed):
        if source.endswith(".cpp"):
            assert_compiles(tree, source)
    assert "&kOuterProduct, &kLoops" in " ".join((tree / "compiler/kernel/Templates.cpp").read_text().split())


def test_pass_stands_at_its_places(tree):
    changed = made(tree, "pass", "FoldPadding")
    assert changed == {"compiler/rewrite/Rewrites.h", "compiler/rewrite/Rewrites.cpp", "compiler/rewrite/FoldPadding.cpp",
                       "compiler/rewrite/test/fold-padding.mlir"}
    assert_passes_check(tree, changed)
    assert_compiles(tree, "compiler/rewrite/FoldPadding.cpp")
    assert_compiles(tree, "compiler/rewrite/Rewrites.cpp")  # the row that makes it a pass of tensmith-opt
    assert '{"graph-fold-padding", ' in (tree / "compiler/rewrite/Rewrites.cpp").read_text()
    assert "tensmith-opt --graph-fold-padding " in (tree / "compiler/rewrite/test/fold-padding.mlir").read_text()


def test_pass_is_built_and_its_test_fails_until_it_is_done(tree):
    """Linked with what the build has, so that the pass runs. A test that passes before anything was written tests nothing."""
    made(tree, "pass", "FoldPadding")
    program = build_opt(tree, "compiler/rewrite/FoldPadding.cpp", "compiler/rewrite/Rewrites.cpp")
    test = tree / "compiler/rewrite/test/fold-padding.mlir"
    done = subprocess.run([program, "--graph-fold-padding", test], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    checked = subprocess.run([LLVM / "bin/FileCheck", test], input=done.stdout, capture_output=True, text=True)
    assert checked.returncode == 1 and "TODO" in checked.stderr


def test_target_stands_at_its_places(tree):
    changed = made(tree, "target", "riscv")
    folder = "compiler/targets/riscv"
    assert changed == {"compiler/targets/CMakeLists.txt", f"{folder}/CMakeLists.txt", f"{folder}/Target.h",
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
    made(tree, "operator", "soft_sign", "--family", "Elementwise")
    before = texts(tree)
    assert new(tree, "operator", "soft_sign", "--family", "Elementwise").returncode != 0
    assert texts(tree) == before
