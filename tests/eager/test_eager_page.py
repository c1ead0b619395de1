"""The program of docs/eager.md runs, and gives what the library that it resembles gives."""

import pathlib
import re

import pytest

pytest.importorskip("tensmith.numpy")

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "eager.md").read_text()


def test_the_page_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for program in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(program, names)
    assert names["x"].tolist() == [[11.0, 12.0], [3.0, 4.0]]
    assert names["z"].shape == (3, 4) and names["rng"].state == (7, 12)
    assert names["slopes"][1].tolist() == [1, 1, 1] and names["curvature"].tolist() == [[6, 0], [0, 12]]
    assert names["w"].grad.tolist() == [2, 4]
    assert names["running"][0].tolist() == [5, 5] and names["sums"][0][:, 0].tolist() == [0, 1, 2, 3, 4]
    assert names["every"].tolist() == [3] * 4 and (tmp_path / "model.safetensors").exists()
    assert "[11. 12.  4.]" in capsys.readouterr().out
