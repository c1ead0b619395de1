"""A test may be skipped for want of another package, never for a part of the project."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("text, failed", [
    ('import pytest\ntensmith = pytest.importorskip("tensmith_of_nowhere")\ndef test(): pass\n', True),
    ('import pytest\npytestmark = pytest.mark.skipif(True, reason="the command line is not built")\ndef test(): pass\n', True),
    ('import pytest\ndef test(): pytest.skip("the test programs are not built")\n', True),
    ('import pytest\ndef test(): pytest.importorskip("package_of_nowhere")\n', False),
    ('import pytest\ndef test(): pytest.skip("this CPU has no matrix unit")\n', False),
])  # fmt: skip
def test_what_is_missing_of_ours_fails(tmp_path, text, failed):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text(text)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
                          capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode not in (0, 5)) == failed, done.stdout
