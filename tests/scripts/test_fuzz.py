"""scripts/fuzz finds the Python that has the package `onnx`, and says what to do where there is none."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUZZER = """#!/bin/sh
for sample; do :; done # the last argument is the folder of this process's seeds
ls "$sample" >>"$SEEN"
printf '\\100\\0\\0\\0\\0\\0\\0\\0' >"$TENSMITH_FUZZ_COUNTS" # 64 inputs given, none further
head -c 32 /dev/zero >>"$TENSMITH_FUZZ_COUNTS"
"""


def run(tree, target, seen):
    """By a Python without packages, as the system's is."""
    return subprocess.run([sys.executable, "-I", "-S", tree / "scripts/fuzz", target, "--runs", "64", "--no-build", "--seed", "1"],
                          cwd=tree, env={**os.environ, "SEEN": str(seen)}, capture_output=True, text=True, timeout=120)


@pytest.fixture
def tree(tmp_path):
    """A checkout whose fuzzers only say which seeds they were given."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/fuzz", tmp_path / "scripts")
    for target in ("onnx", "text"):
        program = tmp_path / f"build/fuzz/test/fuzz-{target}"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(FUZZER)
        program.chmod(0o755)
        corpus = tmp_path / "tests/fuzz/corpus" / target
        corpus.mkdir(parents=True)
        (corpus / "seed").write_text("a seed")
    return tmp_path


def put_python(tree, *flags):
    python = tree / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" {" ".join(flags)} "$@"\n')
    python.chmod(0o755)


def test_it_goes_on_as_the_python_of_the_checkout(tree):
    put_python(tree)
    done = run(tree, "onnx", tree / "seen")
    assert done.returncode == 0, done.stderr
    assert "64 inputs" in done.stdout and ".onnx" in (tree / "seen").read_text()
    assert len(list((tree / "fuzz-found/onnx/package").glob("*.onnx"))) > 1000


@pytest.mark.parametrize("unfinished", [False, True])
def test_without_one_it_says_what_to_run(tree, unfinished):
    if unfinished:
        put_python(tree, "-I", "-S")
    done = run(tree, "onnx", tree / "seen")
    assert done.returncode and not (tree / "seen").exists()
    assert "Traceback" not in done.stderr and "./test makes .venv" in done.stderr and "pip install -r" in done.stderr


def test_other_targets_need_no_package(tree):
    done = run(tree, "text", tree / "seen")
    assert done.returncode == 0, done.stderr
    assert (tree / "seen").read_text().split() == ["seed"]
