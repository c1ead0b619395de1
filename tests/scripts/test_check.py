"""Every rule of scripts/check fires on the smallest tree that breaks it, and lets the mended tree pass."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PURPOSE = "// What this file is for, and why it stands.\n"


def check(tree, *arguments):
    command = [sys.executable, ROOT / "scripts/check", "--root", tree, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout


def write(tree, files):
    (tree / ".clang-format").write_text("BasedOnStyle: LLVM\nColumnLimit: 100\n")
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)


# rule -> (a file that breaks it, where the message must point, the file mended)
BROKEN = {
    "machines": ("compiler/kernel/A.cpp", PURPOSE + '// As vpdpbusd does.\n', "compiler/kernel/A.cpp:2", PURPOSE),
    "costs": ("compiler/rewrite/A.cpp", PURPOSE + "double a(const Machine &m) { return 1 / m.farBytesPerCycle; }\n", "compiler/rewrite/A.cpp:2", PURPOSE),
    "targets": ("compiler/pipeline/A.cpp", PURPOSE + '#include "compiler/targets/cpu/CpuTarget.h"\n', "compiler/pipeline/A.cpp:2",
                PURPOSE + '#include "compiler/targets/Target.h"\n'),
    "format": ("base/A.h", PURPOSE + "int  x;\n", "base/A.h:2", PURPOSE + "int x;\n"),
    "purpose": ("base/A.h", "#pragma once\n", "base/A.h:1", PURPOSE + "#pragma once\n"),
    "length": ("base/A.h", PURPOSE + "\n" * 800, "base/A.h:801", PURPOSE),
    "paths": ("tests/a.py", '"""Reads what another machine does not have."""\nx = "/' + 'home/me/x"\n', "tests/a.py:2",
              '"""Reads what another machine does not have."""\n'),
    "merges": ("docs/a.md", "# A page\n\n" + "<" * 7 + " HEAD\n", "docs/a.md:3", "# A page\n"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_rule_fires_and_relents(tmp_path, rule):
    path, text, where, mended = BROKEN[rule]
    write(tmp_path, {path: text})
    status, said = check(tmp_path, "-R", rule)
    assert status == 1 and said.startswith(where + ": ") and "; " in said
    write(tmp_path, {path: mended})
    assert check(tmp_path, "-R", rule) == (0, "")


@pytest.mark.parametrize("text", ['call("llvm.x86.avx2.pmadd.wd");', "builder.create<LLVM::InlineAsmOp>();", 'asm("nop");'])
def test_instructions_of_machines_stand_in_targets_alone(tmp_path, text):
    for number, (folder, status) in enumerate((("compiler/kernel", 1), ("compiler/targets/cpu", 0))):
        tree = tmp_path / str(number)
        tree.mkdir()
        write(tree, {f"{folder}/A.cpp": PURPOSE + text + "\n"})
        assert check(tree, "-R", "machines")[0] == status


def test_files_of_kernels_that_need_each_other_are_found(tmp_path):
    def include(name):
        return PURPOSE + f'#include "compiler/kernel/{name}.h"\n'

    write(tmp_path, {"compiler/kernel/A.h": include("B"), "compiler/kernel/B.cpp": include("C"), "compiler/kernel/C.h": include("A")})
    status, said = check(tmp_path, "-R", "circles")
    assert status == 1 and "A and B need each other" in said and "compiler/kernel/B.cpp:2" in said
    write(tmp_path, {"compiler/kernel/C.h": PURPOSE})
    assert check(tmp_path, "-R", "circles") == (0, "")


@pytest.mark.parametrize("name", ["base/ShapeUtils.h", "base/string_helpers.h", "base/common/Words.h", "base/GraphManager.h"])
def test_empty_names_are_refused(tmp_path, name):
    write(tmp_path, {name: PURPOSE})
    status, said = check(tmp_path, "-R", "names")
    assert status == 1 and said.startswith(name + ":1: ")


def test_names_that_merely_contain_such_letters_pass(tmp_path):
    write(tmp_path, {"base/Distribution.h": PURPOSE, "base/Commonsense.h": PURPOSE})
    assert check(tmp_path, "-R", "names") == (0, "")


def test_two_test_modules_of_one_name_are_refused(tmp_path):
    write(tmp_path, {"tests/a/test_sums.py": '"""Sums."""\n', "tests/b/test_sums.py": '"""Sums."""\n'})
    status, said = check(tmp_path, "-R", "test-modules")
    assert status == 1 and said.startswith("tests/b/test_sums.py:1: tests/a/test_sums.py ")
    (tmp_path / "tests/b/test_sums.py").rename(tmp_path / "tests/b/test_sums_of_b.py")
    assert check(tmp_path, "-R", "test-modules") == (0, "")


REFUSED_INCLUDES = [
    ("base/A.h", '"runtime/Session.h"'),
    ("base/A.h", '"mlir/IR/Value.h"'),
    ("base/A.h", "<flatbuffers/flatbuffers.h>"),
    ("reference/A.cpp", '"compiler/graph/Shape.h"'),
    ("runtime/A.cpp", '"compiler/graph/Shape.h"'),
    ("runtime/A.cpp", "<llvm/Support/Error.h>"),
    ("runtime/test/A.cpp", "<llvm/Support/Error.h>"),
    ("compiler/graph/A.cpp", '"compiler/rewrite/Fuse.h"'),
    ("compiler/rewrite/A.cpp", '"frontends/onnx/Import.h"'),
    ("compiler/kernel/A.cpp", '"compiler/pipeline/Pipeline.h"'),
    ("compiler/vm/A.cpp", '"runtime/Session.h"'),
    ("frontends/onnx/A.cpp", '"tools/Compile.h"'),
    ("include/tensmith/A.h", '"base/Status.h"'),
    ("examples/A.cpp", '"runtime/Session.h"'),
]
ALLOWED_INCLUDES = [
    ("base/A.h", "<vector>"),
    ("base/test/A.cpp", "<gtest/gtest.h>"),
    ("reference/A.cpp", '"base/Status.h"'),
    ("runtime/A.cpp", '"reference/Reference.h"'),
    ("compiler/graph/A.cpp", '"mlir/IR/Value.h"'),
    ("compiler/rewrite/A.cpp", '"base/Status.h"'),
    ("compiler/vm/A.cpp", '"runtime/KernelAbi.h"'),
    ("compiler/kernel/test/A.cpp", '"compiler/targets/cpu/Target.h"'),
    ("compiler/pipeline/A.cpp", '"compiler/rewrite/Fuse.h"'),
    ("frontends/onnx/A.cpp", '"compiler/graph/Shape.h"'),
    ("examples/A.cpp", '"tensmith/tensmith.h"'),
]


@pytest.mark.parametrize("path,target", REFUSED_INCLUDES)
def test_include_against_the_layers_is_refused(tmp_path, path, target):
    write(tmp_path, {path: PURPOSE + f"#include {target}\n"})
    status, said = check(tmp_path, "-R", "includes")
    assert status == 1 and said.startswith(f"{path}:2: includes {target[1:-1]}, but ")


@pytest.mark.parametrize("path,target", ALLOWED_INCLUDES)
def test_include_along_the_layers_passes(tmp_path, path, target):
    write(tmp_path, {path: PURPOSE + f"#include {target}\n"})
    assert check(tmp_path, "-R", "includes") == (0, "")


def test_include_of_a_neighbour_is_written_from_the_root(tmp_path):
    write(tmp_path, {"base/A.cpp": PURPOSE + '#include "B.h"\n', "base/B.h": PURPOSE})
    assert check(tmp_path, "-R", "includes")[0] == 1


@pytest.mark.parametrize("text,status", [
    ("// RUN: tensmith-opt %s\n", 1),
    ("// RUN: tensmith-opt %s\n// Breaks when folding loses a dimension's name.\n", 0),
])
def test_run_lines_are_no_purpose(tmp_path, text, status):
    write(tmp_path, {"compiler/graph/test/fold.mlir": text})
    assert check(tmp_path, "-R", "purpose")[0] == status


def test_fix_formats(tmp_path):
    write(tmp_path, {"base/A.h": PURPOSE + "int  x;\n"})
    assert check(tmp_path, "--fix", "-R", "format") == (0, "")
    assert (tmp_path / "base/A.h").read_text() == PURPOSE + "int x;\n"


def test_files_that_are_named_are_checked_alone(tmp_path):
    two = PURPOSE + '#include "compiler/graph/Shapes.h"\nint   two;\n'
    write(tmp_path, {"runtime/One.cpp": PURPOSE + "int   one;\n", "runtime/Two.cpp": two, "compiler/graph/Shapes.h": PURPOSE})
    assert check(tmp_path, tmp_path / "runtime/One.cpp") == (1, "runtime/One.cpp:2: not formatted; run scripts/check --fix\n")
    assert check(tmp_path, "--fix", tmp_path / "runtime/One.cpp") == (0, "")
    assert (tmp_path / "runtime/Two.cpp").read_text() == two
    status, said = check(tmp_path, tmp_path / "runtime/Two.cpp")
    assert status == 1 and "Two.cpp:3: not formatted" in said and "Two.cpp:2: includes compiler/graph/Shapes.h" in said
    assert check(tmp_path, tmp_path / "runtime/Three.cpp")[0] == 2


def test_a_folder_is_checked_with_all_that_its_files_cause(tmp_path):
    """A message that stands at another file, and names one of the folder's, is told, too."""
    write(tmp_path, {"tests/one/test_same.py": '"""What one is for, in a line."""\n', "tests/two/test_same.py": '"""What two is for, in a line."""\n'})
    assert check(tmp_path, tmp_path / "tests/one")[0] == check(tmp_path, tmp_path / "tests/two")[0] == 1
    assert check(tmp_path, tmp_path / "tests/three")[0] == 2
