"""What `cmake --install`, and so `pip install .`, puts in place works there: it finds its libraries, MLIR among them."""

import shutil
import subprocess

import pytest

from test_cli import TENSMITH, model, pytestmark, weights  # noqa: F401 (fixtures)


@pytest.mark.skipif(not shutil.which("cmake"), reason="there is no cmake")
def test_an_installed_compiler_compiles(tmp_path, model):
    prefix = tmp_path / "prefix"
    subprocess.run(["cmake", "--install", TENSMITH.parents[1], "--prefix", prefix], check=True, capture_output=True, timeout=300)
    done = subprocess.run([prefix / "bin/tensmith", "compile", model, "-o", tmp_path / "m.so"], capture_output=True, text=True,
                          timeout=300, env={"PATH": "/usr/bin", "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
