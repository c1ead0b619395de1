"""`tensmith tune` and what compilations make of it, on a runner whose times are planted (planted_runner.py).

No test depends on the machine's times: the runner answers for them.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy
import pytest

onnx = pytest.importorskip("onnx")

sys.path.insert(0, os.path.dirname(__file__))
import kills  # noqa: E402
from kills import RUNNER, TENSMITH  # noqa: E402

NONSENSE = f"{RUNNER} --fail"


def run(*words, status=0, **options):
    done = subprocess.run([TENSMITH, *map(str, words)], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("tuning") / "product.onnx"
    weights = numpy.random.default_rng(0).normal(size=(48, 64)).astype("float32")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "product",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [40, 48])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [40, 64])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    return path


def tune(model, database, *words, runners=(RUNNER,), decides=False, **options):
    """Of kernels' points alone, unless it decides: what is planted says nothing of a model of other kernels."""
    chosen = [*(() if decides else ("--no-decisions",)), *(word for runner in runners for word in ("--runner", runner))]
    done = run("tune", model, "--database", database, "--json", "-", "--batch", "4", *chosen, *words, **options)
    return json.loads(done.stdout), done.stderr


def choices_of(module, key):
    """What was chosen of the kernel; what rewrites decide has other keys."""
    entries = json.loads(run("inspect", module, "--chosen-schedules").stdout)["schedules"]
    return next(entry for entry in entries if entry["key"] == key)


@pytest.fixture(scope="module")
def tuned(model):
    database = model.parent / "tuned.sqlite"
    report, _ = tune(model, database, "--trials", 24, "--html", model.parent / "report.html")
    return database, report


def test_report(model, tuned):
    _, report = tuned
    assert report["trials"] == 24 and report["failures"] == 0
    assert report["after_ms"] <= report["before_ms"]
    (kernel,) = [row for row in report["kernels"] if not row["untunable"]]
    assert kernel["trials"] == 24 and len(kernel["curve_us"]) == 24
    assert kernel["after_us"] < kernel["before_us"] and kernel["choices"] != kernel["estimated"]
    assert kernel["curve_us"] == sorted(kernel["curve_us"], reverse=True)
    assert report["after_ms"] == pytest.approx(kernel["after_us"] / 1e3)
    page = (model.parent / "report.html").read_text()
    assert kernel["kernel"].split()[0] in page and "<svg" in page


# Breaks if equal times make a winner, or noise is told as what tuning won or lost.
def test_where_nothing_wins(model, tmp_path):
    report, _ = tune(model, tmp_path / "tuned.sqlite", "--trials", 4, runners=(f"{RUNNER} --flat",))
    assert all(kernel["choices"] == kernel["estimated"] for kernel in report["kernels"])
    assert report["before_ms"] == report["after_ms"] and report["confidence"] is None


def test_compilations_take_what_was_found(model, tuned, tmp_path):
    database, report = tuned
    (kernel,) = report["kernels"]
    winner = json.loads("{" + kernel["choices"] + "}")
    said = [run("compile", model, "-o", tmp_path / f"{i}.so", "--tuned", database).stdout for i in (1, 2)]
    assert all("1 kernels by tuned points" in text for text in said)
    assert (tmp_path / "1.so").read_bytes() == (tmp_path / "2.so").read_bytes()
    chosen = choices_of(tmp_path / "1.so", kernel["key"])
    assert all(chosen[name] == value for name, value in winner.items() if name in ("tile_rows", "steps"))
    run("compile", model, "-o", tmp_path / "plain.so", "--no-tuned", env={**os.environ, "TENSMITH_TUNED": str(database)})
    assert choices_of(tmp_path / "plain.so", kernel["key"]) != chosen
    run("compile", model, "-o", tmp_path / "named.so", env={**os.environ, "TENSMITH_TUNED": str(database)})
    assert (tmp_path / "named.so").read_bytes() == (tmp_path / "1.so").read_bytes()


def test_schedule_files_come_first(model, tuned, tmp_path):
    database, report = tuned
    file = tmp_path / "schedules.json"
    file.write_text(json.dumps({"schedules": [{"key": report["kernels"][0]["key"], "tile_rows": 3}]}))
    run("compile", model, "-o", tmp_path / "asked.so", "--tuned", database, "--schedules", file)
    assert choices_of(tmp_path / "asked.so", report["kernels"][0]["key"])["tile_rows"] == 3


def test_modules_of_the_cache_go_by_the_database(model, tuned, tmp_path):
    database, _ = tuned
    environment = {**os.environ, "TENSMITH_CACHE": str(tmp_path / "cache")}
    time_of = lambda *words: run("run", model, "--threads", 1, "-v", *words, env=environment).stderr
    assert "is compiled" in time_of("--no-tuned")
    assert "is compiled" in time_of("--tuned", database)
    assert "taken from the cache" in time_of("--tuned", database)


def test_other_machines_are_left_alone(model, tuned, tmp_path):
    database, _ = tuned
    done = run("compile", model, "-o", tmp_path / "other.so", "--tuned", database, "--target", "aarch64:cortex-a53")
    assert "no tuned points for this machine" in done.stderr


def test_damaged_databases_are_said(model, tmp_path):
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 64)
    for words in (("compile", model, "-o", tmp_path / "m.so", "--tuned", damaged), ("tune", model, "--trials", 4, "--database", damaged)):
        message = run(*words, status=1).stderr
        assert "damaged.sqlite" in message and ("no database" in message or "damaged" in message)
    # One that nobody named is no reason not to compile.
    done = run("compile", model, "-o", tmp_path / "m.so", env={**os.environ, "TENSMITH_TUNED": str(damaged)})
    assert "damaged.sqlite" in done.stderr and (tmp_path / "m.so").exists()


def count(database):
    return len(kills.rows(database))


def test_killed_and_resumed(model, tmp_path):
    kills.kill_and_resume(model, tmp_path / "tuned.sqlite", 3, seed=1)


def test_interrupted(model, tmp_path):
    database = tmp_path / "tuned.sqlite"
    process = kills.start(model, database)
    kills.wait_for(database, 8, process)  # of several kernels: what decides Strassen's step measures first, and a step leaves smaller products
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["trials"] == count(database)


def test_two_tuners_on_one_database(model, tmp_path):
    database = tmp_path / "tuned.sqlite"
    words = [TENSMITH, "tune", model, "--trials", "8", "--batch", "2", "--database", database, "--runner", RUNNER]
    both = [subprocess.Popen([*map(str, words), "--seed", str(seed)], stdout=subprocess.DEVNULL) for seed in (1, 2)]
    assert [each.wait(timeout=300) for each in both] == [0, 0]
    assert 8 < count(database) <= 16


def test_runners_that_answer_nonsense_are_dropped(model, tmp_path):
    report, said = tune(model, tmp_path / "tuned.sqlite", "--trials", 8, runners=(RUNNER, NONSENSE))
    assert report["failures"] == 0 and report["trials"] == 8
    assert "is dropped" in said and "--fail" in said


def test_a_runner_that_can_not_be_started(model, tmp_path):
    _, said = tune(model, tmp_path / "tuned.sqlite", "--trials", 4, runners=("no-such-program-anywhere",))
    assert "no-such-program-anywhere" in said


def test_exchange(tuned, tmp_path):
    database, report = tuned
    run("tuned", "export", tmp_path / "points.json", "--database", database)
    run("tuned", "import", tmp_path / "points.json", "--database", tmp_path / "other.sqlite")
    shown = json.loads(run("tuned", "show", "--json", "--database", tmp_path / "other.sqlite").stdout)
    assert shown["kernels"][0]["choices"] == report["kernels"][0]["choices"]
    assert "0 trials" in run("tuned", "import", database, "--database", tmp_path / "other.sqlite").stdout
    run("tuned", "prune", "--keep-fastest", 2, "--database", tmp_path / "other.sqlite")
    assert count(tmp_path / "other.sqlite") == 2


def convolution(path, channels, filters, weights):
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="convolution", pads=[1, 1, 1, 1])],
        "convolution",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, channels, 14, 14])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, filters, 14, 14])],
        [onnx.numpy_helper.from_array(weights.astype("float32"), "w")],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    return path


def decided(report):
    return next(row for row in report["decisions"] if "winograd_outputs" in row["estimated"])


# Breaks if what rewrites decide is not tuned by the model's time, not kept, or not taken by compilations.
def test_what_rewrites_decide(tmp_path):
    model = convolution(tmp_path / "convolution.onnx", 32, 32, numpy.random.default_rng(1).normal(size=(32, 32, 3, 3)))
    database = tmp_path / "tuned.sqlite"
    first = decided(tune(model, tmp_path / "other.sqlite", "--trials", 4, runners=(f"{RUNNER} --flat",), decides=True)[0])
    assert first["choices"] == first["estimated"]
    value = json.loads("{" + first["estimated"] + "}")["winograd_outputs"]
    best = 2 if value in (0, 4) else 4
    report, _ = tune(model, database, "--trials", 24, runners=(f"{RUNNER} --best winograd_outputs={best}",), decides=True)
    row = decided(report)
    assert json.loads("{" + row["choices"] + "}")["winograd_outputs"] == best and row["after_us"] < row["before_us"]
    assert not report.get("taken_back") and report["after_ms"] < report["before_ms"]
    run("compile", model, "-o", tmp_path / "tuned.so", "--tuned", database)
    assert choices_of(tmp_path / "tuned.so", row["key"])["winograd_outputs"] == best
    # The kernels that are tuned then are those of the model as it is decided.
    tiles = [kernel for kernel in report["kernels"] if kernel["trials"]]
    run("compile", model, "-o", tmp_path / "plain.so", "--no-tuned")
    plain = {entry["key"] for entry in json.loads(run("inspect", tmp_path / "plain.so", "--chosen-schedules").stdout)["schedules"]}
    assert any(kernel["key"] not in plain for kernel in tiles)


# Breaks if a choice that errs by more than the policy allows is taken because it is fast.
def test_decisions_keep_to_the_policys_error(tmp_path):
    # Sums of numbers far from zero cancel: minimal filtering of six outputs errs by far more than 1e-5 of them.
    draw = numpy.random.default_rng(2)
    weights = draw.normal(size=(16, 512, 3, 3)) * 10.0 ** draw.integers(-4, 5, size=(16, 512, 1, 1))
    model = convolution(tmp_path / "convolution.onnx", 512, 16, weights)
    schedules = tmp_path / "six.json"
    schedules.write_text(json.dumps({"schedules": [{"nodes": ["convolution"], "winograd_outputs": 6}]}))
    run("compile", model, "-o", tmp_path / "six.so", "--schedules", schedules, "--no-tuned")
    told = [entry for entry in json.loads(run("inspect", tmp_path / "six.so", "--chosen-schedules").stdout)["schedules"] if entry.get("winograd_outputs") == 6]
    assert told and told[0]["error"] > 1e-5
    report, _ = tune(model, tmp_path / "tuned.sqlite", "--trials", 32, runners=(f"{RUNNER} --best winograd_outputs=6",), decides=True)
    assert decided(report)["failures"] > 0
    assert '"winograd_outputs":6' not in decided(report)["choices"]


@pytest.mark.parametrize("words, message", [
    ((), "needs a box"),
    (("--time", "soon"), "is no time"),
    (("--trials", "4", "--runner", "\"open"), "a quote without an end"),
])
def test_mistakes_of_the_command_line(model, tmp_path, words, message):
    done = run("tune", model, "--database", tmp_path / "t.sqlite", *words, status=2)
    assert message in done.stderr


def test_features_have_names():
    names = json.loads(run("tune", "--features", "--json", "-").stdout)
    assert len({row["name"] for row in names}) == len(names) > 50
    assert all(row["meaning"] for row in names)


# Breaks if times of two machines, kernels or parts of a space may stand in one table of what was measured.
def test_a_table_goes_on_with_what_it_is_of(model, tmp_path):
    program = pathlib.Path(TENSMITH).parents[1] / "test/truth-table"
    table, other = tmp_path / "table.jsonl", tmp_path / "other.jsonl"
    (kernel,) = json.loads(subprocess.run([program, "spaces", model], capture_output=True, text=True, check=True).stdout)
    kept = json.dumps({choice: values[:1] for choice, values in kernel["choices"].items()})

    def collect(path):
        return subprocess.run([program, "collect", model, kernel["key"], kept, path, "1"], capture_output=True, text=True, timeout=300)

    assert collect(table).returncode == 0
    whole = table.read_text()
    assert whole.count("\n") == 2
    assert collect(table).returncode == 0 and table.read_text() == whole
    other.write_text(whole.replace(kernel["key"], "0" * len(kernel["key"]), 1))
    done = collect(other)
    assert done.returncode != 0 and "of another machine, kernel or part" in done.stderr and other.read_text().count("\n") == 2
