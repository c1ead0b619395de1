"""What bench/torch and bench/torch-models take for good, and what they write."""

import importlib.machinery
import importlib.util
import json
import pathlib

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
pytest.importorskip("tensmith", reason="the Python package is not built")

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"


def script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_") + "_script", str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def race(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    return script("torch")


@pytest.fixture
def models(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    return script("torch-models")


# Breaks if a model whose steps enlarge roundings may be as wrong as it likes: steps in double precision have a bound of their own.
@pytest.mark.parametrize("name", ["mlp", "lstm"])
def test_wrong_steps_in_double_do_not_follow(race, name):
    told = race.followed(name, torch.get_num_threads(), "adam", 64)
    assert race.follows(told) and told["apart"]["tensmith, in double"] < 1e-12, told["apart"]
    told["apart"] |= {"tensmith": 1e-2, "eager, rounded": 1e-2}
    assert race.follows(told)
    assert not race.follows(told | {"apart": told["apart"] | {"tensmith, in double": 1e-4}})


# Breaks if a run that fails takes the figures of an earlier one away, or isn't told.
def test_a_failed_run_leaves_earlier_figures(race, tmp_path):
    path = tmp_path / "figures.json"
    measured = {"model": "mlp", "threads": 1, "mode": "training", "side": 224, "median_s": {"eager": 2.0}}
    race.write(path, [measured])
    race.write(path, [race.failed("mlp", 1, "training", 224, "too slow"), race.failed("mlp", 2, "training", 224, "too slow")])
    assert json.loads(path.read_text())["runs"] == [measured | {"fails": "too slow"}, race.failed("mlp", 2, "training", 224, "too slow")]
    race.write(path, [measured | {"threads": 2}, measured | {"median_s": {"eager": 1.0}}])
    assert [run["median_s"]["eager"] for run in json.loads(path.read_text())["runs"]] == [1.0, 2.0]


# Breaks if a round that goes on takes figures of a rule that let PyTorch run operators for its own, or takes all again.
def test_a_round_goes_on_where_it_was_left(models, tmp_path):
    path = tmp_path / "figures.json"
    assert models.remaining(["a", "b", "c"], path) == ["a", "b", "c"]
    models.write(path, [{"model": "a", "fallback": False}, {"model": "b"}])
    assert models.remaining(["a", "b", "c"], path) == ["b", "c"]
