"""Any point of a kernel's space gives right results: a small draw of what tests/spaces/points.py runs by the thousands, here and on a
Cortex-A53 under qemu; and who looks finds what is wrong.
"""

import os
import pathlib
import subprocess
import sys
import types

import pytest

pytest.importorskip("onnx")
tensmith = pytest.importorskip("tensmith")

sys.path.insert(0, os.fspath(pathlib.Path(__file__).resolve().parents[1] / "spaces"))

import points  # noqa: E402

WHOLE, SAME_ORDER = 1000, 1003  # numbers of points that the long run doesn't draw: of the whole space, and with the default's bits


# Breaks if a choice of a template reads or stores another element, or if one that only says who does which part changes the order of a sum.
@pytest.mark.parametrize("target, numbers", [("host", [WHOLE, SAME_ORDER]), ("aarch64:cortex-a53", [SAME_ORDER])])
@pytest.mark.parametrize("name", points.CASES)
def test_drawn_points_are_right(tmp_path, name, target, numbers):
    case = points.Case(name, target, tensmith, tmp_path)
    assert max(space["points"] for space in case.spaces) >= 3
    assert [problem for problem in map(case.check, numbers) if problem] == []


# Breaks if results are compared with themselves, or bits not at all.
def test_what_differs_is_found(tmp_path):
    case = points.Case("softmax", "host", tensmith, tmp_path)
    case.plain = [value + 1e-6 for value in case.plain]
    assert "not the same bits" in case.check(SAME_ORDER)
    case.wanted = [value * 1.001 for value in case.wanted]
    assert "of the largest" in case.check(WHOLE)


# Breaks if points are compiled by another build than the package that they are compared with.
def test_the_command_is_of_the_packages_build(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tensmith").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "bin/tensmith").chmod(0o755)
    package = types.SimpleNamespace(__file__=tmp_path / "python/tensmith/__init__.py", compile=tensmith.compile)
    with pytest.raises(subprocess.CalledProcessError) as error:
        points.Case("softmax", "host", package, tmp_path)
    assert error.value.returncode == 3 and error.value.cmd[0] == tmp_path / "bin/tensmith"
