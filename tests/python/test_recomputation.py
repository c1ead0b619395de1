"""Budgets of memory: values of the forward pass are computed again, with the same bits, and what is planned is what is taken."""

import pathlib
import runpy

import numpy as np
import onnx
import pytest
import tensmith as ts

BENCH = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "recomputation"))
STEPS = 3


@pytest.fixture(scope="module", params=[("residual", 32), ("lstm", 32)], ids=["residual", "lstm"])
def model(request, tmp_path_factory):
    kind, size = request.param
    path = tmp_path_factory.mktemp(kind) / "model.onnx"
    BENCH["make"](kind, size, str(path))
    return path


def train(model, **settings):
    """The states after some steps, and what the module tells of its memory."""
    step = ts.train_step(model, optimiser="momentum", learning_rate=0.05, **settings)
    batch = BENCH["batch"](model)
    losses = [float(step(**batch)["loss"]) for _ in range(STEPS)]
    return losses, {name: np.array(step.state[name]) for name in step.state}, step.describe()["metadata"]


@pytest.fixture(scope="module")
def kept(model):
    return train(model)


def assert_same(a, b):
    assert a[0] == b[0]
    assert a[1].keys() == b[1].keys()
    for name in a[1]:
        assert np.array_equal(a[1][name], b[1][name]), name


# Breaks when a value that is computed again differs: another dropout mask, other statistics of the batch, a weight after its update.
@pytest.mark.parametrize("plan", ["segments", "recursive"])
def test_plans_give_the_same_bits_in_less_memory(model, kept, plan):
    again = train(model, recomputation=plan)
    assert_same(again, kept)
    assert again[2]["arena_bytes_planned"] < 0.7 * kept[2]["arena_bytes_planned"]
    assert "run again" in again[2]["recomputation"]


# Breaks when a plan goes beyond its budget, or computes things again in vain.
def test_budgets_are_met(model, kept):
    whole = kept[2]["run_bytes_planned"]
    assert "recomputation" not in kept[2]
    assert "0 kernels" in train(model, memory=whole + 5000)[2]["recomputation"]
    for part in (0.1, 0.3):
        budget = int(whole - part * kept[2]["arena_bytes_planned"])
        given = train(model, memory=budget)
        assert given[2]["run_bytes_planned"] <= budget
        assert given[2]["arena_bytes_planned"] < kept[2]["arena_bytes_planned"]
        assert_same(given, kept)


# Breaks when what fits as it is is refused, or is computed again for the words that would say so.
def test_a_budget_that_is_met_anyway_changes_nothing(model, kept, tmp_path):
    # Of a plan that says so itself, without joins in place; a byte too few for words.
    whole = train(model, memory=kept[2]["run_bytes_planned"] + 5000)[2]["run_bytes_planned"] - 1
    given = train(model, memory=whole)
    assert_same(given, kept)
    assert given[2]["run_bytes_planned"] <= whole and "recomputation" not in given[2]
    path = tmp_path / "first.onnx"  # whose first output nothing computes
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in ("x", "same", "y")]
    nodes = [onnx.helper.make_node("Identity", ["x"], ["same"]), onnx.helper.make_node("Exp", ["x"], ["y"])]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:]),
                                     opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)  # fmt: skip
    assert ts.compile(path, memory="1MB").run(np.zeros(4, np.float32))[1].tolist() == [1] * 4
    with pytest.raises(ts.Error, match="no result of a computation"):
        ts.compile(path, memory=1)


# Breaks when a plan computes things again though nothing is saved by it.
@pytest.mark.parametrize("plan", ["segments", "recursive"])
def test_plans_that_save_nothing_are_not_followed(tmp_path, plan):
    path = tmp_path / "m.onnx"
    weight = onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in ("x", "y")]
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["h"]), onnx.helper.make_node("Tanh", ["h"], ["y"])]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight]),
                                     opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)  # fmt: skip
    said = ts.train_step(path, recomputation=plan).describe()["metadata"]["recomputation"]
    assert said.startswith("0 kernels run again"), said


def test_a_budget_below_the_least_says_the_least(model):
    with pytest.raises(ts.Error, match="the least is ([0-9]+)") as failure:
        ts.train_step(model, memory="20 KB")
    least = int(str(failure.value).split("the least is ")[1].split(",")[0])
    step = ts.train_step(model, memory=least)
    assert step.describe()["metadata"]["run_bytes_planned"] <= least


def test_what_is_no_size_or_plan_is_refused(model):
    with pytest.raises(ValueError, match="2GiB"):
        ts.train_step(model, memory="much")
    with pytest.raises(ts.Error, match="segments"):
        ts.train_step(model, recomputation="none")
    with pytest.raises(ts.Error, match="from 0 on"):
        ts.train_step(model, memory=-1)


@pytest.mark.parametrize("size", ["1e9", "", "GiB", "1.5.2GB", "2 XB", "2GiBs", "9" * 5000, "9000000TiB", 1 << 63, float("nan"), float("inf"), [1], b"2GiB"])
def test_what_is_no_size_is_said_with_what_is_one(size):
    with pytest.raises(ValueError, match="as '2GiB' or '500MB'.*TiB"):
        ts.train_step("nowhere.onnx", memory=size)


def test_sizes_have_units():
    sizes = {"2GiB": 2 << 30, "500 MB": 500_000_000, "1.5kb": 1500, " 7 ": 7, "3B": 3, "1TB": 10**12, "2tib": 2 << 40, None: 0, 12: 12,
             "9223372036854775807": (1 << 63) - 1, 1e3: 1000}  # fmt: skip
    assert {size: ts._bytes(size) for size in sizes} == sizes


def test_gradients_keep_to_a_budget_too(model):
    given = {"wrt": ["w0"] if "residual" in str(model) else ["wh"], "of": "scores", "cotangent": True}
    whole = ts.grad(model, **given)
    told = whole.describe()["metadata"]
    less = ts.grad(model, memory=int(told["run_bytes_planned"] - 0.1 * told["arena_bytes_planned"]), **given)
    values = {"x": BENCH["batch"](model)["x"]}
    for port in whole.describe()["inputs"]:
        if port["name"] not in values:
            values[port["name"]] = np.random.default_rng(3).normal(size=[int(size) for size in port["dims"]]).astype(np.float32) * 0.1
    for a, b in zip(whole.run(**values), less.run(**values)):
        assert np.array_equal(a, b)
