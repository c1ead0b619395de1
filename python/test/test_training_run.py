"""`tensmith.train`: the run of the command line, from Python, with arrays, a callback and Python's ways of ending it.

What it computes is compared with the command line's on the same data, bit for bit; what it refuses, with what the command
says.
"""

import inspect
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import textwrap

import numpy
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
SETTINGS = {"epochs": 3, "batch": 16, "validation": 0.2, "optimiser": "adam", "learning_rate": 0.01, "crop": 1, "threads": 2,
            "log_every": 7, "ema_decay": 0.9}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("train")


@pytest.fixture(scope="module")
def pictures():
    """Squares of 8 x 8 bytes that are bright at the top, the bottom, the left or the right."""
    draw = numpy.random.default_rng(3)
    labels = draw.integers(0, 4, 331)
    images = draw.integers(0, 120, (331, 8, 8)).astype(numpy.uint8)
    for image, label in zip(images, labels):
        image[[numpy.s_[:4], numpy.s_[4:], numpy.s_[:, :4], numpy.s_[:, 4:]][label]] += 100
    return images, labels


@pytest.fixture(scope="module")
def network(folder):
    draw = numpy.random.default_rng(1)
    weights = {"w": draw.standard_normal((3, 1, 3, 3)) * 0.4, "scale": numpy.ones(3), "shift": numpy.zeros(3),
               "mean": numpy.zeros(3), "variance": numpy.ones(3), "v": draw.standard_normal((192, 4)) * 0.05,
               "b": numpy.zeros(4)}  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
         helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"], "norm"),
         helper.make_node("Relu", ["n"], ["r"], "relu"),
         helper.make_node("Flatten", ["r"], ["f"], "flat"),
         helper.make_node("Gemm", ["f", "v", "b"], ["scores"], "dense")],
        "model",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(value.astype(numpy.float32), name) for name, value in weights.items()])  # fmt: skip
    path = folder / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def commanded(network, pictures, folder):
    """The command line's run, and the files that it has read."""
    files = folder / "image.npy", folder / "label.npy"
    for file, array in zip(files, pictures):
        numpy.save(file, array)
    words = [word for name, value in SETTINGS.items() for word in ("--" + name.replace("_", "-"), str(value))]
    run = folder / "commanded"
    subprocess.run([TENSMITH, "train", network, "--data", *files, "--test", *files, "--output", run, *words], check=True,
                   capture_output=True)  # fmt: skip
    return run, files


@pytest.fixture(scope="module")
def trained(network, pictures, folder):
    """Python's run on the same samples, as arrays, and what its callback was told."""
    told = []
    return tensmith.train(network, pictures, test=pictures, output=folder / "arrays", callback=told.append, **SETTINGS), told


def states_of(run):
    """The newest checkpoint's tensors, as bytes."""
    file = sorted((pathlib.Path(run) / "checkpoints").glob("*.safetensors"))[-1].read_bytes()
    (size,) = struct.unpack("<Q", file[:8])
    header = json.loads(file[8 : 8 + size])
    header.pop("__metadata__")
    return {name: file[8 + size :][slice(*entry["data_offsets"])] for name, entry in header.items()}


def without_times(metrics):
    return [{key: value for key, value in metric.items() if key not in ("seconds", "samples_per_second", "waited_for_data")}
            for metric in metrics]  # fmt: skip


def lines_of(run):
    return [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines()]


# Breaks if Python's run is another one than the command line's, or arrays are read in another way than files.
def test_is_the_commands_run_to_the_bit(commanded, trained):
    run, _ = commanded
    result, _ = trained
    assert states_of(result.folder) == states_of(run)
    assert without_times(result.history) == without_times(lines_of(run))
    assert pathlib.Path(result.onnx).read_bytes() == (run / "model.onnx").read_bytes()
    assert result.history[-1]["kind"] == "test" and result.history[-1]["accuracy"] > 0.6
    assert result.step == 3 * (265 // 16) and not result.stopped


@pytest.mark.parametrize("by_name", [False, True])
def test_files_are_as_arrays(network, pictures, commanded, trained, tmp_path, by_name):
    _, files = commanded
    images, labels = pictures
    # In an order of its own, and of a type that has to be converted; or the paths.
    data = {"label": labels.astype(numpy.int32), "image": numpy.asfortranarray(images)} if by_name else files
    result = tensmith.train(network, data, test=data, output=tmp_path / "run", **SETTINGS)
    assert states_of(result.folder) == states_of(trained[0].folder)


def test_gives_states_and_the_model(trained, pictures):
    result, _ = trained
    kept = states_of(result.folder)
    assert {name: array.tobytes() for name, array in result.state.items()} == kept
    assert {"w", "b", "mean", "ema.w", "step"} <= set(kept)
    weights = {entry.name: numpy_helper.to_array(entry) for entry in onnx.load(result.onnx).graph.initializer}
    numpy.testing.assert_array_equal(weights["v"], result.state["ema.v"])
    images = pictures[0][:, None].astype(numpy.float32) / 255
    wanted = onnxruntime.InferenceSession(result.onnx).run(None, {"image": images})[0]
    numpy.testing.assert_allclose(result.model(images), wanted, rtol=1e-4, atol=1e-4)
    numpy.testing.assert_array_equal(tensmith.load(result.module)(images), result.model(images))


def test_the_callback_is_told_each_line(trained):
    result, told = trained
    assert told == lines_of(result.folder) == result.history
    assert {metric["kind"] for metric in told} == {"train", "validation", "test"}


def test_the_callback_ends_a_run_that_can_go_on(network, pictures, trained, tmp_path):
    def enough(metric):
        return metric["step"] < 14

    part = tensmith.train(network, pictures, test=pictures, output=tmp_path / "run", callback=enough, **SETTINGS)
    assert part.stopped and part.step == 14 and pathlib.Path(part.checkpoint).name == "step-000000014.safetensors"
    assert part.model(numpy.zeros((2, 1, 8, 8), numpy.float32)).shape == (2, 4)
    whole = tensmith.train(network, pictures, test=pictures, output=tmp_path / "run", resume=True, **SETTINGS)
    assert states_of(whole.folder) == states_of(trained[0].folder)
    assert without_times(whole.history) == without_times(trained[0].history)


def test_an_exception_of_the_callback_ends_the_run(network, pictures, tmp_path):
    def broken(metric):
        raise LookupError(metric["kind"])

    with pytest.raises(LookupError, match="train"):
        tensmith.train(network, pictures, output=tmp_path / "run", callback=broken, **SETTINGS)
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["step-000000007.safetensors"]


# Breaks if a run can't be interrupted, or its checkpoint is none that the command line goes on from.
def test_ctrl_c_is_a_keyboard_interrupt_with_a_checkpoint(network, commanded, tmp_path):
    run, files = commanded
    program = textwrap.dedent(f"""
        import os, signal, tensmith
        def interrupt(metric):
            if metric["step"] == 14:
                os.kill(os.getpid(), signal.SIGINT)
        try:
            tensmith.train({str(network)!r}, {list(map(str, files))!r}, test={list(map(str, files))!r},
                           output={str(tmp_path / "run")!r}, callback=interrupt, **{SETTINGS!r})
        except KeyboardInterrupt:
            print("interrupted")
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted\n" and done.stderr == ""
    assert list((tmp_path / "run/checkpoints").iterdir()) and not (tmp_path / "run/model.onnx").exists()
    words = [word for name, value in SETTINGS.items() for word in ("--" + name.replace("_", "-"), str(value))]
    subprocess.run([TENSMITH, "train", network, "--data", *files, "--test", *files, "--output", tmp_path / "run", "--resume",
                    *words], check=True, capture_output=True)  # fmt: skip
    assert states_of(tmp_path / "run") == states_of(run)


def test_a_configuration_counts_less_than_what_is_given(network, commanded, tmp_path):
    run, files = commanded
    (tmp_path / "run.toml").write_text(textwrap.dedent(f"""
        model = "{network}"
        epochs = 3
        batch = 16
        threads = 2
        [data]
        train = ["{files[0]}", "{files[1]}"]
        test = ["{files[0]}", "{files[1]}"]
        validation = 0.2
        [augmentation]
        crop = 1
        [optimiser]
        learning_rate = 0.5
        ema_decay = 0.9
        [log]
        every = 7
    """))
    result = tensmith.train(tmp_path / "run.toml", output=tmp_path / "run", learning_rate=numpy.float64(0.01))
    assert states_of(result.folder) == states_of(run)


@pytest.mark.parametrize("progress, lines", [(None, False), (False, False), (True, True)])
def test_progress_is_said_as_asked(network, pictures, tmp_path, capfd, progress, lines):
    tensmith.train(network, pictures, output=tmp_path / "run", progress=progress, epochs=1)
    said = capfd.readouterr()
    assert ("epoch 1: loss" in said.err) == lines and said.out == ""
    assert lines or said.err == ""


@pytest.mark.parametrize("settings, kind, message", [
    ({"bacth": 16}, TypeError, r"there is no setting 'bacth'; did you mean 'batch'\?"),
    ({"learning-rate": 0.1}, TypeError, r"there is no setting 'learning-rate'; did you mean 'learning_rate'\?"),
    ({"batch": 1.5}, tensmith.Error, r"train: batch is 1\.5; a whole number from 1 on is expected"),
    ({"learning_rate": float("nan")}, tensmith.Error, 'learning_rate is "nan"; a number from 0 to 1000000 is expected'),
    ({"optimiser": "adma"}, tensmith.Error, r"optimiser is \"adma\"; one of .*did you mean 'adam'"),
    ({"schedule": "step"}, tensmith.Error, "schedule: the schedule 'step' needs"),
    ({"hyperparameter": {"beta3": 0.5}}, tensmith.Error, "beta3"),
    ({"batch": 400}, tensmith.Error, "has 331 samples to train on, fewer than a batch of 400"),
    ({"loss": "mean_squared_error"}, tensmith.Error, "target"),
])  # fmt: skip
def test_refuses_settings_as_the_command_does(network, pictures, tmp_path, settings, kind, message):
    with pytest.raises(kind, match=message):
        tensmith.train(network, pictures, output=tmp_path / "run", **settings)


@pytest.mark.parametrize("data, kind, message", [
    ((numpy.zeros((5, 8, 8), numpy.float32), numpy.zeros(4, int)), tensmith.Error, "targets: has 4 samples, but inputs has 5"),
    ({"image": numpy.zeros((5, 8, 8)), "label": numpy.zeros(6, int)}, tensmith.Error, "label: has 6 samples, but image has 5"),
    ((numpy.zeros((50, 7, 8), numpy.float32), numpy.zeros(50, int)), tensmith.Error, "data"),
    ((numpy.zeros((50, 8, 8), numpy.float32),), tensmith.Error, "give two arrays, inputs and targets"),
    ((numpy.zeros((50, 8, 8), numpy.float32), numpy.full(50, 4)), tensmith.Error, "4"),
    ((numpy.zeros((50, 8, 8), numpy.float32), numpy.array(["a"] * 50)), tensmith.Error, "data: holds text; train on numbers"),
    ((numpy.float32(3), numpy.float32(3)), tensmith.Error, "is a single number"),
    ({}, tensmith.Error, "data: has no arrays in it"),
    (numpy.zeros(3), TypeError, "a pair of arrays"),
    (None, tensmith.Error, "no data is given"),
    ("nowhere.npz", tensmith.Error, "nowhere.npz: "),
])  # fmt: skip
def test_refuses_data_that_do_not_go_together(network, tmp_path, data, kind, message):
    with pytest.raises(kind, match=message):
        tensmith.train(network, data, output=tmp_path / "run")


def test_a_loss_that_is_not_finite_is_an_error_and_the_checkpoint_stands(network, pictures, tmp_path):
    images, labels = pictures
    values = images.astype(numpy.float32) / 255
    output = tmp_path / "run"
    with pytest.raises(tensmith.Error, match="(the loss of step|finite after step).*the checkpoint of step 2 stands") as raised:
        tensmith.train(network, (values, labels), output=output, optimiser="sgd", learning_rate=1e6, checkpoint_every=2)
    assert raised.value.code == "failed"
    assert [path.name for path in (output / "checkpoints").iterdir()] == ["step-000000002.safetensors"]


def test_a_run_is_not_begun_over_another(network, pictures, trained):
    with pytest.raises(tensmith.Error, match="has a run already"):
        tensmith.train(network, pictures, output=trained[0].folder, **SETTINGS)


# Breaks if the signature says a default that is none, or can't be given.
def test_defaults_can_be_given(network, pictures, tmp_path):
    defaults = {name: parameter.default for name, parameter in inspect.signature(tensmith.train).parameters.items()
                if name not in ("model", "data", "final_rate", "step_every", "step_factor")}  # fmt: skip
    given = tensmith.train(network, pictures, **defaults | {"epochs": 1, "output": tmp_path / "given"})
    left = tensmith.train(network, pictures, epochs=1, output=tmp_path / "left")
    assert states_of(given.folder) == states_of(left.folder)


# Breaks if a setting is in the command line's table and not in Python's help, or the other way.
def test_help_has_every_setting_of_the_command():
    listed = subprocess.run([TENSMITH, "train", "--help"], capture_output=True, text=True, check=True).stdout
    options = {word.split(",")[0].lstrip("-").replace("-", "_") for line in listed.splitlines()
               for word in line.split()[:1] if word.startswith("--")}  # fmt: skip
    parameters = inspect.signature(tensmith.train).parameters
    assert set(parameters) - {"callback", "progress"} == options
    assert parameters["batch"].default == 32 and parameters["optimiser"].default == "adam"
    for name in options:
        assert f"\n{name}: " in tensmith.train.__doc__ or name in ("data", "test")
