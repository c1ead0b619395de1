"""Any point of a kernel's space gives right results: a small draw of what tests/spaces/points.py runs by the thousands, here and on a
Cortex-A53 under qemu; and who looks finds what is wrong.
"""

import os
import pathlib
import sys

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
