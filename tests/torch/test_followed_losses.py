"""What bench/torch takes for steps of Adam that follow eager's."""

import importlib.machinery
import importlib.util
import pathlib

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
pytest.importorskip("tensmith", reason="the Python package is not built")

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def race(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    loader = importlib.machinery.SourceFileLoader("race_of_torch", str(BENCH / "torch"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(script)
    return script


# Breaks if a model whose steps enlarge roundings may be as wrong as it likes: steps in double precision have a bound of their own.
@pytest.mark.parametrize("name", ["mlp", "lstm"])
def test_wrong_steps_in_double_do_not_follow(race, name):
    told = race.followed(name, torch.get_num_threads(), "adam", 64)
    assert race.follows(told) and told["apart"]["tensmith, in double"] < 1e-12, told["apart"]
    told["apart"] |= {"tensmith": 1e-2, "eager, rounded": 1e-2}
    assert race.follows(told)
    assert not race.follows(told | {"apart": told["apart"] | {"tensmith, in double": 1e-4}})
