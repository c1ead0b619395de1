"""bench/race: weights and inputs that are the same everywhere, figures where they are looked for, and no wrong result
that passes unnoticed."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

BENCH = pathlib.Path(__file__).resolve().parents[1]
FASHION = BENCH.parent / "examples" / "fashion" / "fashion.onnx"
sys.path.insert(0, str(BENCH))

import exact
import feeds
import scripts
import weights


def emptied(name, dtype, dims, how):
    return onnx.TensorProto(name=name, data_type=dtype, dims=dims, doc_string="fill:" + how)


def race(tmp_path, *arguments):
    figures = tmp_path / "figures.json"
    done = subprocess.run([sys.executable, BENCH / "race", "--rounds", "2", "--patience", "0", "--json", figures, *arguments],
                          capture_output=True, text=True)
    return done, json.loads(figures.read_text()) if figures.exists() else None


# Breaks if the generator is another one than splitmix64: these are the published numbers for its seed 1234567.
def test_words_are_those_of_splitmix64():
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert weights.random_words(1234567, 0, 5).tolist() == wanted
    assert weights.random_words(1234567, 3, 2).tolist() == wanted[3:]


def test_fills_each_kind_within_its_limits():
    half = emptied("f", TensorProto.FLOAT16, [100, 300], "normal 0.5 0.1")
    whole = emptied("i", TensorProto.INT64, [1000], "integer -3 4")
    rounded = emptied("r", TensorProto.INT8, [1000], "rounded 0 50 -128 100")
    positive = emptied("p", TensorProto.FLOAT, [1000], "positive 1 0.5 0.25 1.5")
    model = helper.make_model(helper.make_graph([], "g", [], [], [half, whole, rounded, positive]))
    assert weights.fill(model)
    f, i, r, p = map(numpy_helper.to_array, model.graph.initializer)
    assert f.dtype == numpy.float16 and abs(f.mean() - 0.5) < 0.01 and abs(f.std() - 0.1) < 0.01
    assert sorted(set(i.tolist())) == list(range(-3, 5))
    assert r.min() >= -128 and r.max() == 100
    assert p.min() == 0.25 and p.max() == 1.5
    assert not weights.fill(model)


def test_an_unknown_kind_is_an_error():
    model = helper.make_model(helper.make_graph([], "g", [], [], [emptied("w", TensorProto.FLOAT, [2], "magic 1 2")]))
    with pytest.raises(ValueError, match="magic"):
        weights.fill(model)


def test_filled_models_are_kept_outside_the_checkout(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = weights.filled(BENCH / "models" / "lstm_lm.onnx")
    assert tmp_path in first.parents and list(first.parent.iterdir()) == [first]
    assert weights.filled(BENCH / "models" / "lstm_lm.onnx") == first
    assert weights.filled(FASHION) == FASHION


# Breaks if an index is drawn past the smaller of the tables that it leads to, or a size isn't taken from --dim.
def test_indices_lie_within_their_tables(tmp_path):
    tables = [numpy_helper.from_array(numpy.zeros(shape, numpy.float32), name) for name, shape in [("wide", (50, 2)), ("deep", (4, 3))]]
    nodes = [helper.make_node("Gather", ["wide", "ids"], ["a"]), helper.make_node("Cast", ["ids"], ["ids64"], to=TensorProto.INT64),
             helper.make_node("Gather", ["deep", "ids64"], ["b"], axis=1)]
    ports = [helper.make_tensor_value_info("ids", TensorProto.INT32, ["n", 100]),
             helper.make_tensor_value_info("mask", TensorProto.INT64, ["seq", 2])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports, [], tables)), tmp_path / "m.onnx")
    feed = feeds.make_feed(tmp_path / "m.onnx", {"n": 6})
    assert feed["ids"].shape == (6, 100) and feed["ids"].dtype == numpy.int32
    assert set(feed["ids"].ravel().tolist()) == {0, 1, 2}
    assert feed["mask"].shape == (feeds.SEQUENCE, 2) and (feed["mask"] == 1).all()


def test_race_gives_the_figures(tmp_path):
    done, records = race(tmp_path, FASHION, "--threads", "1,2", "--dim", "batch=3")
    assert done.returncode == 0, done.stderr
    assert [record["threads"] for record in records] == [1, 2]
    for record in records:
        ours, peer = record["engines"]["tensmith"], record["engines"]["onnxruntime"]
        assert record["model"] == "fashion" and record["drawn"] == 4 and record["inputs"] == {"image": "3x1x28x28 float32"}
        assert record["ratios"]["onnxruntime"] == pytest.approx(ours["median_ms"] / peer["median_ms"])
        assert 0 < ours["min_ms"] <= ours["median_ms"] and ours["relative_error"] <= 1e-4
        assert 0 < ours["compile_warm_s"] < ours["compile_cold_s"]
    assert done.stdout.count("onnxruntime") == 2


def test_a_difference_beyond_the_tolerance_fails(tmp_path):
    done, records = race(tmp_path, FASHION, "--threads", "1", "--tolerance", "1e-12")
    assert done.returncode == 1 and "fashion, 1 thread with tensmith" in done.stderr
    assert records[0]["engines"]["tensmith"]["relative_error"] > 1e-12


# Breaks if errors are those of one input, of which a good one hides the others, or of a run before it.
def test_the_largest_error_of_several_inputs_is_told(monkeypatch):
    race = scripts.script("race")

    class Engine:
        def __init__(self, factor):
            self.factor = factor

        def give(self, feed):
            self.feed = feed

        def run(self):
            self.result = [self.feed + self.factor * (self.feed == 2)]

        def outputs(self):
            return self.result

    monkeypatch.setattr(race, "exact_outputs", lambda path, feed: [feed])
    engines = {"tensmith": Engine(1.0), "onnxruntime": Engine(0.5)}
    errors = race.compare(engines, "m.onnx", [numpy.array([float(number)]) for number in (1, 2, 4)], True)
    assert errors == {"tensmith": {"relative_error": 0.5 / 2.5, "exact_error": 0.5}, "onnxruntime": {"exact_error": 0.25}}
    assert race.compare(engines, "m.onnx", [numpy.array([1.0])], False) == {"tensmith": {"relative_error": 0}, "onnxruntime": {}}


# Breaks if an engine that can't take a model hides the others' figures, or its failure.
def test_an_engine_that_fails_is_named(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    nodes = [helper.make_node("NoSuchOperator", ["x"], ["y"], name="odd")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [helper.make_empty_tensor_value_info("y")]),
                                 opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    done, records = race(tmp_path, tmp_path / "m.onnx", "--threads", "1")
    assert done.returncode == 1 and done.stdout.count("failed:") >= 2 and len(records[0]["engines"]) == 2
    engines = records[0]["engines"]
    assert "NoSuchOperator" in engines["tensmith"]["error"] and all(row["error"] for row in engines.values())


@pytest.mark.parametrize("arguments, message", [
    ([], "no model"),
    (["missing.onnx"], "missing.onnx"), ([__file__], "test_race.py: is no ONNX model"), ([FASHION, "--engines", "abacus"], "abacus"),
    ([FASHION, "--threads", "0"], "at least 1"), ([FASHION, "--inputs", "0"], "at least 1"),
])
def test_bad_arguments_are_named(tmp_path, arguments, message):
    done, records = race(tmp_path, *arguments)
    assert done.returncode != 0 and records is None
    assert message in done.stderr and "Traceback" not in done.stderr


# Breaks if any tensor stays narrow, or a result comes from another model's or another input's evaluation.
def test_exact_outputs_are_those_of_doubles(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    values = numpy.float32([[1, 1e-9], [1e9, 1]])
    nodes = [helper.make_node("Constant", [], ["c"], value_float=1.0), helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("MatMul", ["f", "w"], ["p"]), helper.make_node("Add", ["p", "c"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("i", TensorProto.INT64, [1, 2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])], [numpy_helper.from_array(values, "w")])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    for _ in range(2):
        [y] = exact.exact_outputs(path, {"i": numpy.int64([[1, 1]])})
        assert y.dtype == numpy.float64 and y.tolist() == [[1e9 + 2, 1 + float(numpy.float32(1e-9)) + 1]]
    assert len(list(exact.cache_folder().glob("exact-*.npz"))) == 1
    [y] = exact.exact_outputs(path, {"i": numpy.int64([[1, 2]])})
    assert y[0, 0] == 2e9 + 2


def test_exact_pooling_is_the_models(tmp_path):
    x = numpy.random.default_rng(1).standard_normal((2, 3, 9, 8)).astype(numpy.float32)
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1])
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", [port], [out]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    numpy.testing.assert_array_equal(exact.evaluate(model, {"x": x})[0], wanted)


# Breaks if codes, or what they stand for, aren't those of the definition: along an axis, and at the ends of their range.
def test_exact_codes_are_the_models(tmp_path):
    random = numpy.random.default_rng(3)
    scales, zeros = random.uniform(0.01, 0.1, 5).astype(numpy.float32), random.integers(0, 255, 5).astype(numpy.uint8)
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["codes"], axis=1),
             helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["y"], axis=1)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 5, 6]) for name in "xy"]
    graph = helper.make_graph(nodes, "codes", ports[:1], ports[1:], [numpy_helper.from_array(scales, "scale"), numpy_helper.from_array(zeros, "zero")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    x = random.uniform(-20, 20, (4, 5, 6)).astype(numpy.float32)
    [wanted] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    [got] = exact.evaluate(model, {"x": x})
    assert got.dtype == numpy.float64
    numpy.testing.assert_allclose(got, wanted, rtol=1e-6)


# Breaks if an engine that isn't installed is a failure, or its absence goes unsaid.
def test_an_engine_that_is_not_there_is_left_out(tmp_path):
    missing = [name for name in ("openvino", "iree", "torch") if importlib.util.find_spec(name) is None]
    if not missing:
        pytest.skip("every engine is installed")
    done, records = race(tmp_path, FASHION, "--threads", "1", "--engines", f"tensmith,ort,{missing[0]}")
    assert done.returncode == 0, done.stderr
    assert "requirements.txt" in records[0]["engines"][missing[0]]["unavailable"] and "left out" in done.stdout
    assert records[0]["engines"]["tensmith"]["exact_error"] < 1e-5


@pytest.mark.parametrize("engine", ["openvino", "iree"])
def test_other_engines_agree(tmp_path, engine):
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed; bench/requirements.txt has it")
    done, records = race(tmp_path, FASHION, "--threads", "1,2", "--engines", f"ort,{engine}")
    assert done.returncode == 0, done.stderr
    for record in records:
        assert record["engines"][engine]["exact_error"] < 1e-5
