"""The program of docs/eager.md runs, and gives what the library that it resembles gives."""

import pathlib
import re

import pytest

pytest.importorskip("tensmith.numpy")

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "eager.md").read_text()


def test_the_page_runs(capsys):
    names = {}
    for program in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(program, names)
    assert names["x"].tolist() == [[11.0, 12.0], [3.0, 4.0]]
    assert names["z"].shape == (3, 4) and names["rng"].state == (7, 12)
    assert "[11. 12.  4.]" in capsys.readouterr().out
