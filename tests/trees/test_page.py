"""The programs of docs/trees.md from "From Python" on run as they stand, one after the other.

A name or an argument that the page has and the package has not fails here.
"""

import pathlib
import re
import tomllib

import numpy
import pytest

trees = pytest.importorskip("tensmith.trees")

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "trees.md").read_text()


def test_programs_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(programs) == 5
    names = {}
    for program in programs:
        exec(compile(program, "docs/trees.md", "exec"), names)
    x, y, forest = names["x"], names["y"], names["forest"]
    assert forest.best_round is not None and ((forest.predict(x) > 0.5) == y).mean() > 0.9
    numpy.testing.assert_allclose(forest.contributions(x).sum(axis=1), forest.outputs(x)[:, 0], rtol=1e-4, atol=1e-4)
    numpy.testing.assert_allclose(names["compiled"].predict(x), forest.predict(x), rtol=1e-5, atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"model.forest", "model.json", "tree.svg", "forest.html", "forest.so"}


def test_focal_loss_of_the_page_has_the_derivatives_that_it_says():
    names = {"numpy": numpy}
    program = next(text for text in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "def focal_by_hand" in text)
    exec(program[: program.index("same = ")], names)
    outputs, labels = numpy.linspace(-2, 2, 41), numpy.arange(41) % 2

    def loss(at):
        q = 1 / (1 + numpy.exp(-numpy.where(labels > 0.5, 1, -1) * at))
        return -((1 - q) ** 2) * numpy.log(q)

    step = 1e-4
    slope = (loss(outputs + step) - loss(outputs - step)) / (2 * step)
    bend = (loss(outputs + step) - 2 * loss(outputs) + loss(outputs - step)) / step**2
    first, second = names["focal_by_hand"](outputs, labels, None)
    numpy.testing.assert_allclose(first, slope, atol=1e-5)
    numpy.testing.assert_allclose(second, numpy.maximum(bend, 1e-6), atol=1e-4)


def test_configuration_of_the_page_is_one():
    text = re.search(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    settings = tomllib.loads(text)
    assert set(settings) == {"data", "parameters", "output"}
    assert set(settings["parameters"]) <= set(trees.parameters()) | {other for other, *_ in trees.parameters().values()}
