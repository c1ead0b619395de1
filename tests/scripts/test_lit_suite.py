"""lit finds the .mlir files of the source tree through tests/lit_suite.py, with LLVM's programs and the features in reach."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIT = pathlib.Path(sys.executable).parent / "lit"
SITE = """
config.tensmith_source = "{tree}/source"
config.tensmith_binary = "{tree}/build"
config.llvm_bin = "/usr/lib/llvm-19/bin"
config.sanitizers = "address,undefined"
lit_config.load_config(config, "{root}/tests/lit_suite.py")
"""


@pytest.mark.parametrize("lines,outcome", [
    ("// RUN: FileCheck %s < %s\n// CHECK: hello\n// hello\n", "PASS"),
    ("// RUN: FileCheck %s < %s\n// CHECK: {{h}}ello\n", "FAIL"),
    ("// REQUIRES: asan\n// RUN: true\n", "PASS"),
    ("// REQUIRES: tsan\n// RUN: true\n", "UNSUPPORTED"),
])
def test_outcome(tmp_path, lines, outcome):
    folder = tmp_path / "source/compiler/graph/test"
    folder.mkdir(parents=True)
    (folder / "case.mlir").write_text(lines)
    site = tmp_path / "build/tests"
    site.mkdir(parents=True)
    (site / "lit.site.cfg.py").write_text(SITE.format(tree=tmp_path, root=ROOT))
    done = subprocess.run([LIT, "--show-unsupported", "-v", site], capture_output=True, text=True)
    assert f"{outcome}: tensmith :: compiler/graph/test/case.mlir" in done.stdout
    assert done.returncode == (outcome == "FAIL")
