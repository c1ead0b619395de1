"""docs/layers.md has every function of the library, with what its comment says."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_page_is_what_the_sources_say():
    subprocess.run([sys.executable, ROOT / "scripts/update-layers", "--check"], check=True)
    page = (ROOT / "docs/layers.md").read_text()
    assert "`conv2d(x, weights, stride: Size, padding: Size)`" in page and "## tensmith/recurrent.tsm" in page
