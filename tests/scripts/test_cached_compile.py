"""cmake/cached-compile: what one checkout has compiled is found by the next, wherever that lies."""

import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake/cached-compile"
HEADER = "#include <cassert>\ninline int half(int x) {\n  assert(x % 2 == 0);\n  return x / 2;\n}\n"


def precompiled(checkout, text, *flags, folder="build/dev"):
    """The sum by which those who use the precompiled header are looked up."""
    build = checkout / folder
    (build / "made").mkdir(parents=True)
    (checkout / "half.h").write_text(text)
    (build / "made/half.h.inc").write_text(text.replace("half", "third"))
    (build / "pch.hxx").write_text(f'#include "{checkout}/half.h"\n#include "made/half.h.inc"\n')
    words = ["clang++-19", f"-I{checkout}", f"-I{build}", "-std=c++20", *flags, "-Xclang", "-fno-pch-timestamp", "-Xclang", "-emit-pch", "-x", "c++-header",
             "-o", build / "pch.hxx.pch", "-c", build / "pch.hxx"]
    done = subprocess.run([SCRIPT, checkout, *words], cwd=build, capture_output=True, text=True)
    assert done.returncode == 0 and (build / "pch.hxx.pch").exists(), done.stderr
    return (build / "pch.hxx.pch.sum").read_text()


# Breaks if a path of the checkout, as in an assertion's text, is part of the sum: then each fresh clone compiles all anew.
def test_precompiled_headers_of_two_checkouts_have_one_sum(tmp_path):
    first = precompiled(tmp_path / "first", HEADER)
    assert precompiled(tmp_path / "second/deeper", HEADER) == first
    assert precompiled(tmp_path / "third", HEADER, folder="build/package") == first


@pytest.mark.parametrize("text, flags", [(HEADER.replace("2", "3"), ()), (HEADER, ("-O2",)), (HEADER, ("-DNDEBUG",))])
def test_other_texts_and_flags_have_another(tmp_path, text, flags):
    assert precompiled(tmp_path / "first", HEADER) != precompiled(tmp_path / "second", text, *flags)
