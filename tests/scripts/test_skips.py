"""A test may be skipped for want of another package, never for a part of the project."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


IMPORT = 'import pytest\ntensmith = pytest.importorskip("tensmith_of_nowhere")\ndef test(): pass\n'


@pytest.mark.parametrize("text, failed", [
    (IMPORT, True),
    ('import pytest\npytestmark = pytest.mark.skipif(True, reason="the command line is not built")\ndef test(): pass\n', True),
    ('import pytest\ndef test(): pytest.skip("the test programs are not built")\n', True),
    ('import pytest\ndef test(): pytest.importorskip("package_of_nowhere")\n', False),
    ('import pytest\ndef test(): pytest.skip("this CPU has no matrix unit")\n', False),
])  # fmt: skip
def test_what_is_missing_of_ours_fails(tmp_path, text, failed):
    (tmp_path / "build/python").mkdir(parents=True)
    assert fails(tmp_path, text) == failed


def test_a_build_without_the_package_has_none(tmp_path):
    (tmp_path / "build").mkdir()
    assert not fails(tmp_path, IMPORT)


def run(folder, text):
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "test_one.py").write_text(text)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, folder / "test_one.py"],
                          capture_output=True, text=True, cwd=folder, env={**os.environ, "TENSMITH_BUILD": str(folder / "build")})  # fmt: skip


def fails(folder, text):
    return run(folder, text).returncode not in (0, 5)


def failures(folder, text):
    """The names of the tests that failed, in their bodies or behind them."""
    return re.findall(r"^(?:FAILED|ERROR) test_one\.py::(\w+)", run(folder, text).stdout, re.MULTILINE)
