"""`tensmith train` as a program: what it learns, writes and refuses, and that a run which is ended at any moment goes on
as if it had not been.

Models and data are made here, small enough for an epoch to take a moment. Runs that are killed are killed by SIGKILL at
moments drawn at random; the weights at the end have to be those of a run that was left alone, bit for bit.
"""

import html.parser
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import numpy
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"

pytestmark = pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")


def train(*arguments, status=0, **options):
    done = subprocess.run([TENSMITH, "train", *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def refused(*arguments, status=1, **options):
    """The line that says why; what is said before it is how far the run was."""
    lines = train(*arguments, status=status, **options).stderr.splitlines()
    assert lines[-1].startswith("tensmith: "), lines
    return lines[-1]


def save(path, nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, "model", inputs, outputs,
                              [numpy_helper.from_array(numpy.asarray(value, dtype=numpy.float32), name)
                               for name, value in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("train")


@pytest.fixture(scope="session")
def pictures(folder):
    """Squares of 8 x 8 that are bright at the top, the bottom, the left or the right: an .npz with 480 of them."""
    draw = numpy.random.default_rng(3)
    labels = draw.integers(0, 4, 480)
    images = draw.integers(0, 120, (480, 8, 8)).astype(numpy.uint8)
    for image, label in zip(images, labels):
        part = [numpy.s_[:4], numpy.s_[4:], numpy.s_[:, :4], numpy.s_[:, 4:]][label]
        image[part] += 100
    path = folder / "pictures.npz"
    numpy.savez(path, image=images, label=labels)
    return path


@pytest.fixture(scope="session")
def network(folder):
    """Convolution, batch normalisation, rectifier, dense layer: pictures of batch x 1 x 8 x 8 to 4 classes."""
    draw = numpy.random.default_rng(1)
    return save(
        folder / "network.onnx",
        [helper.make_node("Conv", ["image", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
         helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"], "norm"),
         helper.make_node("Relu", ["n"], ["r"], "relu"),
         helper.make_node("Flatten", ["r"], ["f"], "flat"),
         helper.make_node("Gemm", ["f", "v", "b"], ["scores"], "dense")],
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 4])],
        {"w": draw.standard_normal((3, 1, 3, 3)) * 0.4, "scale": numpy.ones(3), "shift": numpy.zeros(3),
         "mean": numpy.zeros(3), "variance": numpy.ones(3), "v": draw.standard_normal((192, 4)) * 0.05,
         "b": numpy.zeros(4)})


@pytest.fixture(scope="session")
def line(folder):
    """y = x w + b of two numbers."""
    return save(folder / "line.onnx", [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "dense")],
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
                {"w": [[0.1], [0.1]], "b": [0.0]})


def arguments(network, pictures, output, **more):
    settings = {"data": pictures, "epochs": 4, "batch": 16, "validation": 0.2, "optimiser": "adam", "learning-rate": 0.01,
                "crop": 1, "threads": 2, "log-every": 7, "output": output} | {k.replace("_", "-"): v for k, v in more.items()}
    return [network, *(word for name, value in settings.items() if value is not None for word in (f"--{name}", value))]


def states_of(run):
    """The newest checkpoint's tensors, as bytes, and its metadata."""
    path = sorted((run / "checkpoints").glob("*.safetensors"))[-1]
    file = path.read_bytes()
    (size,) = struct.unpack("<Q", file[:8])
    header = json.loads(file[8:8 + size])
    metadata = header.pop("__metadata__")
    return {name: file[8 + size:][slice(*entry["data_offsets"])] for name, entry in header.items()}, metadata


def metrics_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def without_times(run):
    return [{key: value for key, value in metric.items() if key not in ("seconds", "samples_per_second", "waited_for_data")}
            for metric in metrics_of(run)]


@pytest.fixture(scope="session")
def whole(network, pictures, folder):
    """A run that was left alone."""
    run = folder / "whole"
    return run, train(*arguments(network, pictures, run))


def test_learns_and_gives_a_model_that_others_run(whole, network, pictures, tmp_path):
    run, done = whole
    last = [metric for metric in metrics_of(run) if metric["kind"] == "validation"][-1]
    assert last["accuracy"] > 0.95 and last["step"] == 4 * 24
    assert "validation: loss" in done.stdout
    data = numpy.load(pictures)
    images = data["image"][:, None].astype(numpy.float32) / 255
    scores = onnxruntime.InferenceSession(run / "model.onnx").run(None, {"image": images})[0]
    assert (scores.argmax(1) == data["label"]).mean() > 0.95
    numpy.save(tmp_path / "x.npy", images)
    subprocess.run([TENSMITH, "run", run / "model.so", "--input", tmp_path / "x.npy", "--output", tmp_path], check=True,
                   capture_output=True)
    numpy.testing.assert_allclose(numpy.load(tmp_path / "scores.npy"), scores, rtol=1e-3, atol=1e-3)
    before = {w.name: numpy_helper.to_array(w) for w in onnx.load(network).graph.initializer}
    after = {w.name: numpy_helper.to_array(w) for w in onnx.load(run / "model.onnx").graph.initializer}
    assert before.keys() == after.keys()
    for name in before:  # running statistics among them
        assert not numpy.array_equal(before[name], after[name]), name


class WellFormed(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.curves = 0

    def handle_starttag(self, tag, attributes):
        self.curves += tag == "path"
        assert tag not in ("script", "link", "img", "iframe")
        assert not any(name in ("src", "href") for name, _ in attributes)


def test_page_has_the_curves_and_needs_no_network(whole):
    page = WellFormed()
    page.feed((whole[0] / "curves.html").read_text())
    assert page.curves >= 4  # loss and accuracy of training and validation


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """A protobuf message's fields by number."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    found = {}
    while at < len(message):
        key = varint()
        size = {0: None, 1: 8, 5: 4}.get(key & 7, -1)
        if size is None:
            value = varint()
        else:
            size = varint() if size == -1 else size
            value, at = message[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def events_of(path):
    """By TensorFlow's record format: length, its masked checksum, event, its masked checksum."""
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = data[12:12 + length]
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        assert struct.unpack("<I", data[12 + length:16 + length])[0] == masked(event)
        yield fields(event)
        data = data[16 + length:]


def test_event_files_have_what_was_measured(whole):
    assert crc32c(b"123456789") == 0xE3069283  # the value that RFC 3720 gives
    (path,) = (whole[0] / "tensorboard").iterdir()
    events = list(events_of(path))
    assert events[0][3] == [b"brain.Event:2"]
    assert all(abs(struct.unpack("<d", event[1][0])[0] - time.time()) < 3600 for event in events)
    scalars = {}
    for event in events[1:]:
        value = fields(fields(event[5][0])[1][0])
        scalars[value[1][0].decode(), event[2][0]] = struct.unpack("<f", value[2][0])[0]
    for metric in metrics_of(whole[0]):
        assert scalars[f"loss/{metric['kind']}", metric["step"]] == pytest.approx(metric["loss"], rel=1e-6)
        assert scalars[f"accuracy/{metric['kind']}", metric["step"]] == pytest.approx(metric["accuracy"], rel=1e-6)


def test_event_files_are_read_by_tensorboard(whole):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader",
                                 reason="tensorboard is not installed")
    (path,) = (whole[0] / "tensorboard").iterdir()
    assert len(list(loader.EventFileLoader(str(path)).Load())) > len(metrics_of(whole[0]))


def test_same_settings_give_the_same_bits(whole, network, pictures, tmp_path):
    train(*arguments(network, pictures, tmp_path / "run", workers=3, queue=2))
    assert states_of(tmp_path / "run")[0] == states_of(whole[0])[0]
    assert without_times(tmp_path / "run") == without_times(whole[0])


@pytest.fixture(scope="session")
def longer(network, pictures, folder):
    """A run of 60 epochs, with the seconds that it takes."""
    run = folder / "longer"
    train(*arguments(network, pictures, run, epochs=60, checkpoint_every=10))
    return run, metrics_of(run)[-1]["seconds"]


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_it_goes_on_bit_for_bit(longer, network, pictures, tmp_path, seed):
    """Ended by SIGKILL again and again, at moments drawn at random, until it is through."""
    run, draw, kills, resumed, patience = tmp_path / "run", random.Random(seed), 0, 0, 0.4 * longer[1]
    command = [TENSMITH, "train", *map(str, arguments(network, pictures, run, epochs=60, checkpoint_every=10)), "--resume"]
    while True:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while process.poll() is None and not (run / "metrics.jsonl").exists():
            time.sleep(0.002)  # the first one is compiling
        try:
            _, said = process.communicate(timeout=draw.uniform(0.01, patience) if kills < 6 else 300)
            assert process.returncode == 0, said
            if kills >= 2:
                break
            shutil.rmtree(run)  # on a machine that has less to do than when the seconds were taken
            kills, resumed, patience = 0, 0, patience / 2
        except subprocess.TimeoutExpired:
            process.kill()
            resumed += "going on from" in process.communicate()[1]
            kills += 1
    assert resumed or "going on from" in said
    assert states_of(run)[0] == states_of(longer[0])[0]
    assert without_times(run) == without_times(longer[0])
    assert not [path for path in (run / "checkpoints").iterdir() if ".partial" in path.name]


def test_interrupt_ends_with_a_checkpoint(network, pictures, tmp_path):
    run = tmp_path / "run"
    command = [TENSMITH, "train", *map(str, arguments(network, pictures, run, epochs=100000))]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (run / "checkpoints").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    step = int(states_of(run)[1]["step"])
    assert f"interrupted after step {step}; " in said and "--resume" in said


def test_regression_by_command_line_and_by_configuration(line, tmp_path):
    draw = numpy.random.default_rng(5)
    rows = draw.standard_normal((200, 2))
    price = rows @ [2, -3] + 0.5
    table = "a,b,price\n" + "".join(f"{a},{b},{p}\n" for (a, b), p in zip(rows, price))
    (tmp_path / "table.csv").write_text(table)
    train(line, "--data", tmp_path / "table.csv", "--loss", "mean_squared_error", "--optimiser", "momentum",
          "--hyperparameter", "momentum=0.8", "--learning-rate", 0.05, "--epochs", 20, "--batch", 10, "--schedule", "cosine",
          "--warm-up", 10, "--output", tmp_path / "a")
    (tmp_path / "run.toml").write_text(f"""
        model = "{line}"
        epochs = 20
        batch = 10
        output = "b"
        [data]
        train = "table.csv"
        [loss]
        name = "mean_squared_error"
        [optimiser]
        name = "momentum"
        learning_rate = 0.05
        momentum = 0.8
        [schedule]
        name = "cosine"
        warm_up = 10
        """)
    train(tmp_path / "run.toml")
    weights = {w.name: numpy_helper.to_array(w) for w in onnx.load(tmp_path / "b/model.onnx").graph.initializer}
    numpy.testing.assert_allclose(weights["w"].ravel(), [2, -3], atol=1e-3)
    numpy.testing.assert_allclose(weights["b"], 0.5, atol=1e-3)
    assert states_of(tmp_path / "a")[0] == states_of(tmp_path / "b")[0]


def test_a_column_called_target_is_it_beside_text(line, tmp_path):
    """Breaks if any column of text is the target, whatever the others are called."""
    rows = [(i, -i, 3 * i, "ab"[i % 2]) for i in range(40)]
    (tmp_path / "text.csv").write_text("a,b,target,name\n" + "".join(f"{a},{b},{y},{n}\n" for a, b, y, n in rows))
    (tmp_path / "numbers.csv").write_text("a,target,b\n" + "".join(f"{a},{y},{b}\n" for a, b, y, _ in rows))
    settings = ["--loss", "mean_squared_error", "--epochs", 1, "--batch", 10, "--learning-rate", 1e-4, "--output", tmp_path / "run"]
    assert "the column 'name' is text, and the target is 'target'" in refused(line, "--data", tmp_path / "text.csv", *settings)
    train(line, "--data", tmp_path / "numbers.csv", *settings)


def test_an_epoch_shorter_than_the_interval_is_in_the_metrics(line, tmp_path):
    """Breaks if a short run tells of no loss at all."""
    (tmp_path / "table.csv").write_text("a,b,y\n" + "".join(f"{i / 64},{-i / 64},{i / 32}\n" for i in range(64)))
    train(line, "--data", tmp_path / "table.csv", "--loss", "mean_squared_error", "--epochs", 3, "--batch", 16, "--output", tmp_path / "run")
    lines = [metric for metric in metrics_of(tmp_path / "run") if metric["kind"] == "train"]
    assert [(metric["step"], metric["epoch"]) for metric in lines] == [(4, 1), (8, 2), (12, 3)]


def test_folder_of_pictures(network, tmp_path):
    draw = numpy.random.default_rng(2)
    for part, count in (("train", 24), ("test", 8)):
        for label, name in enumerate(("bottom", "left", "right", "top")):
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(count):
                image = draw.integers(0, 100, (16, 16), dtype=numpy.uint8)
                image[[numpy.s_[8:], numpy.s_[:, :8], numpy.s_[:, 8:], numpy.s_[:8]][label]] += 120
                Image.fromarray(image).save(tmp_path / part / name / f"{i}.png")
    output = tmp_path / "run"
    done = train(*arguments(network, tmp_path, output, validation=None, crop=None, epochs=8, batch=8))
    assert "32 to test" in done.stderr
    (test,) = [metric for metric in metrics_of(output) if metric["kind"] == "test"]
    assert test["accuracy"] > 0.9
    (tmp_path / "train/left/3.png").write_bytes(b"\x89PNG broken")
    assert "left/3.png: is not a PNG or JPEG picture" in refused(*arguments(network, tmp_path, tmp_path / "b", batch=8))


def test_inputs_by_name_and_a_loss_of_the_models_own(tmp_path):
    """Numbers of words, features, and the cost as an output: values of words are learned from means over five."""
    draw = numpy.random.default_rng(0)
    model = save(
        tmp_path / "words.onnx",
        [helper.make_node("Gather", ["table", "ids"], ["e"], "look"), helper.make_node("ReduceMean", ["e"], ["m"], "mean", axes=[1], keepdims=0),
         helper.make_node("Concat", ["m", "extra"], ["c"], "join", axis=1), helper.make_node("Gemm", ["c", "w", "b"], ["y"], "dense"),
         helper.make_node("Sub", ["y", "wanted"], ["d"], "error"), helper.make_node("Mul", ["d", "d"], ["q"], "square"),
         helper.make_node("ReduceMean", ["q"], ["cost"], "cost", axes=[0, 1], keepdims=0)],
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 5]), helper.make_tensor_value_info("extra", TensorProto.FLOAT, ["n", 2]),
         helper.make_tensor_value_info("wanted", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1]), helper.make_tensor_value_info("cost", TensorProto.FLOAT, [])],
        {"table": draw.standard_normal((11, 4)), "w": draw.standard_normal((6, 1)), "b": [0.0]})
    ids, extra, values = draw.integers(0, 11, (300, 5)), draw.standard_normal((300, 2)), draw.standard_normal(11)
    wanted = (values[ids].mean(1) + extra @ [1, -1])[:, None]
    numpy.savez(tmp_path / "words.npz", ids=ids.astype(numpy.int32), extra=extra, wanted=wanted)
    run = tmp_path / "run"
    settings = ("--data", tmp_path / "words.npz", "--loss", "cost", "--batch", 10, "--learning-rate", 0.02, "--validation", 0.1)
    train(model, *settings, "--epochs", 40, "--output", run)
    assert metrics_of(run)[-1]["kind"] == "validation" and metrics_of(run)[-1]["loss"] < 0.01
    feeds = {"ids": ids, "extra": extra.astype(numpy.float32), "wanted": wanted.astype(numpy.float32)}
    (cost,) = onnxruntime.InferenceSession(run / "model.onnx").run(["cost"], feeds)
    assert cost < 0.01
    # Of that pattern alone; the others stay as they were.
    train(model, *settings, "--epochs", 1, "--trainable", "w*", "--output", tmp_path / "some")
    after = {w.name: numpy_helper.to_array(w) for w in onnx.load(tmp_path / "some/model.onnx").graph.initializer}
    before = {w.name: numpy_helper.to_array(w) for w in onnx.load(model).graph.initializer}
    assert [name for name in before if not numpy.array_equal(before[name], after[name])] == ["w"]


def test_averages_are_the_result(network, pictures, tmp_path):
    run = tmp_path / "run"
    train(*arguments(network, pictures, run, epochs=1, ema_decay=0.9))
    states = states_of(run)[0]
    weights = {w.name: numpy_helper.to_array(w).tobytes() for w in onnx.load(run / "model.onnx").graph.initializer}
    assert weights["v"] == states["ema.v"] != states["v"]


# ---- What goes wrong ----


def test_not_a_number_in_the_loss(line, tmp_path):
    numpy.savez(tmp_path / "d.npz", x=numpy.ones((40, 2), numpy.float32), y=numpy.ones((40, 1), numpy.float32))
    said = refused(line, "--data", tmp_path / "d.npz", "--loss", "mean_squared_error", "--optimiser", "sgd", "--learning-rate",
                   1e5, "--batch", 4, "--epochs", 50, "--output", tmp_path / "run", "--checkpoint-every", 1)
    assert "--learning-rate" in said and ("is nan" in said or "is inf" in said or "is not finite" in said)
    assert "bf16" not in said
    step = int(states_of(tmp_path / "run")[1]["step"])
    assert f"the checkpoint of step {step} stands" in said
    for value in states_of(tmp_path / "run")[0].values():
        if len(value) % 4 == 0:
            assert numpy.isfinite(numpy.frombuffer(value, numpy.float32)).all()


def test_a_loss_beyond_the_range_of_f16(line, tmp_path):
    numpy.savez(tmp_path / "d.npz", x=numpy.full((8, 2), 1e6, numpy.float32), y=numpy.ones((8, 1), numpy.float32))
    said = refused(line, "--data", tmp_path / "d.npz", "--loss", "mean_squared_error", "--optimiser", "sgd", "--precision", "f16",
                   "--batch", 4, "--epochs", 1, "--output", tmp_path / "run")
    assert "beyond 65504 is infinite in f16: train with --precision bf16" in said


def test_full_disk_leaves_the_last_checkpoint(network, pictures, tmp_path):
    """No file may grow past 3 kB once there is a checkpoint: the next one can't be written."""
    run = tmp_path / "run"
    train(*arguments(network, pictures, run, epochs=1))
    before = states_of(run)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
    said = refused(*arguments(network, pictures, run, epochs=3), "--resume", "--no-tensorboard", preexec_fn=limit)
    assert "can't be written: " in said
    assert states_of(run) == before
    assert not [path for path in (run / "checkpoints").iterdir() if ".partial" in path.name]
    train(*arguments(network, pictures, run, epochs=3), "--resume")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_full_file_system(network, pictures, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("a tmpfs can't be mounted here")
    try:
        said = refused(*arguments(network, pictures, small / "run", epochs=2000, keep_checkpoints=1000, checkpoint_every=1))
        assert "No space left on device; free some space" in said
        states_of(small / "run")
    finally:
        subprocess.run(["umount", "-l", small])


def test_settings_that_can_not_be_meant(network, pictures, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(f'model = "{network}"\n[data]\ntrain = "{pictures}"\n[optimiser]\nlearning_rat = 1\n')
    assert f"{config}:5: there is no setting 'learning_rat' in [optimiser]; did you mean 'learning_rate'?" in refused(config)
    config.write_text(f'model = "{network}"\n[data]\ntrain = "{pictures}"\n[optimizr]\nlearning_rate = 1\n')
    assert f"{config}:4: there is no setting 'optimizr'; did you mean 'optimiser'?" in refused(config)
    config.write_text("epochs = 'ten'\n")
    assert f'{config}:1: epochs is "ten"; a whole number from 1 on is expected' in refused(config)
    assert "--batch is \"x\"" in refused(network, "--batch", "x", status=2)
    assert "--batch is given more than once" in refused(network, "--batch", 5, "--batch", 6, status=2)
    assert "'a=2' is given more than once" in refused(network, "--hyperparameter", "a=1", "--hyperparameter", "a=2", status=2)
    assert "--learning-rate is nan; a number from 0" in refused(network, "--learning-rate", "nan", status=2)
    assert "no data is given" in refused(network, status=2)
    assert "no model is given" in refused("--data", pictures, status=2)
    assert "did you mean '--learning-rate'?" in refused(network, "--learning-rat", 1, status=2)
    assert "did you mean 'nesterov'" in refused(network, "--data", pictures, "--optimiser", "nestrov", status=2)
    said = refused(network, "--data", pictures, "--hyperparameter", "betta=1", "--output", tmp_path / "run", "--batch", 8)
    assert "betta" in said


def test_the_option_that_is_not_known_is_blamed(network):
    assert "there is no option --bogus;" in refused(network, "--epochs", 1, "--bogus", 1, status=2)
    assert "there is no option --bogus;" in refused(network, "--no-shuffle", "--bogus=1", status=2)
    assert "'more.onnx' is not expected" in refused(network, "more.onnx", "--epochs", 1, status=2)


def memory_of(run):
    """What the run's step was planned to hold."""
    said = subprocess.run([TENSMITH, "inspect", "--json", run / "step.so"], capture_output=True, text=True, check=True).stdout
    return json.loads(said)["module"]["metadata"]


# Breaks when the budget does not reach the step, or a run goes on with another.
def test_memory_of_the_step(network, pictures, tmp_path):
    (documented,) = [line.split("--memory ")[1] for line in (ROOT / "docs/training.md").read_text().splitlines()
                     if line.startswith("    tensmith train") and "--memory" in line]
    run = tmp_path / "run"
    settings = {"epochs": 1, "batch": 240, "validation": None}
    train(*arguments(network, pictures, run, **settings), "--memory", documented)
    assert memory_of(run)["recomputation"].startswith("0 kernels run again")
    said = refused(*arguments(network, pictures, tmp_path / "less", **settings), "--memory", "10kB")
    least = int(said.split("the least is ")[1].split(",")[0])
    config = tmp_path / "run.toml"
    config.write_text(f'model = "{network}"\noutput = "{tmp_path}/less"\nepochs = 1\nbatch = 240\nmemory = {least}\n'
                      f'[data]\ntrain = "{pictures}"\n')
    train(config)
    assert memory_of(tmp_path / "less")["run_bytes_planned"] <= least
    train(config, "--resume", "--epochs", 2, "--memory", f"{least}B")
    assert f"--memory was {least}" in refused(config, "--resume", "--epochs", 3, "--memory", "1GiB")
    assert "--recomputation was" in refused(config, "--resume", "--epochs", 3, "--recomputation", "segments")
    for wrong in ("much", "2 XB", "-1", "1e9", "9000000TiB"):
        assert "a size is expected: 2GiB" in refused(network, f"--memory={wrong}", status=2)
    config.write_text('memory = "2 XB"\n')
    assert f'{config}:1: memory is "2 XB"; a size is expected' in refused(config)


def test_data_that_does_not_fit_the_model(network, line, pictures, tmp_path):
    output = ("--output", tmp_path / "run", "--batch", 8)
    assert "the model's 'x' takes f32 2" in refused(line, "--data", pictures, "--loss", "mean_squared_error", *output)
    assert "is not there; check the path" in refused(network, "--data", tmp_path / "none.bin", *output)
    assert "No such file" in refused(network, "--data", tmp_path / "none.npz", *output)
    data = numpy.load(pictures)
    numpy.savez(tmp_path / "wrong.npz", image=data["image"], label=data["label"] + 3)
    said = refused(network, "--data", tmp_path / "wrong.npz", *output)
    assert "the model tells 4 apart, 0 to 3" in said
    (tmp_path / "cut.npz").write_bytes(pictures.read_bytes()[:5000])
    assert "cut.npz: is not an .npz file, or is cut off" in refused(network, "--data", tmp_path / "cut.npz", *output)
    assert "fewer than a batch of 1000" in refused(network, "--data", pictures, "--output", tmp_path / "run", "--batch", 1000)


def test_runs_are_not_mixed(whole, network, pictures, tmp_path):
    run = tmp_path / "run"
    train(*arguments(network, pictures, run, epochs=1))
    assert "has a run already, up to step 24" in refused(*arguments(network, pictures, run))
    said = refused(*arguments(network, pictures, run, learning_rate=0.5), "--resume")
    assert "was made by other settings: --learning-rate was 0.01" in said
    path = sorted((run / "checkpoints").iterdir())[-1]
    path.write_bytes(path.read_bytes()[:-1])
    assert "no checkpoint that is whole" in refused(*arguments(network, pictures, run), "--resume")
    train(*arguments(network, pictures, run), "--overwrite")
    assert states_of(run)[0] == states_of(whole[0])[0]


def moved(run, other):
    """By how much the weights of two runs' newest checkpoints differ at most."""
    both = [{k: numpy.frombuffer(v, numpy.float32) for k, v in states_of(one)[0].items() if k in ("w", "v", "b")} for one in (run, other)]
    return max(float(abs(both[0][k] - both[1][k]).max()) for k in both[0])


# Breaks when a module is taken because it is there: another run's, or one of another number of processes.
def test_resume_takes_no_modules_of_another_run(network, pictures, tmp_path):
    settings = {"optimiser": "sgd", "validation": None, "epochs": 1}
    train(*arguments(network, pictures, tmp_path / "large", **settings, learning_rate=0.5))
    train(*arguments(network, pictures, tmp_path / "small", **settings, learning_rate=1e-6))
    (tmp_path / "small/step.so").write_bytes((tmp_path / "large/step.so").read_bytes())
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "small", before)
    train(*arguments(network, pictures, tmp_path / "small", **settings | {"epochs": 2}, learning_rate=1e-6), "--resume")
    assert 0 < moved(before, tmp_path / "small") < 1e-3
    made = (tmp_path / "small/step.so").stat().st_mtime_ns
    train(*arguments(network, pictures, tmp_path / "small", **settings | {"epochs": 3}, learning_rate=1e-6), "--resume")
    assert (tmp_path / "small/step.so").stat().st_mtime_ns == made  # its own is taken


def test_overwriting_leaves_nothing_of_the_run_before(network, pictures, tmp_path):
    run = tmp_path / "run"
    train(*arguments(network, pictures, run, epochs=2))
    (run / "gradients-2.so").write_bytes(b"of two processes")
    (run / "notes.txt").write_text("mine")
    (run / "tensorboard/notes.txt").write_text("mine")
    before = set((run / "tensorboard").iterdir())
    train(*arguments(network, pictures, run, epochs=1), "--overwrite")
    assert set((run / "tensorboard").iterdir()) & before == {run / "tensorboard/notes.txt"}
    assert len(list((run / "tensorboard").iterdir())) == 2
    assert not (run / "gradients-2.so").exists() and (run / "notes.txt").read_text() == "mine"
    assert len(list((run / "checkpoints").iterdir())) == 1 and metrics_of(run)[-1]["step"] == 24
    shutil.copy(network, tmp_path / "model.onnx")
    said = refused(*arguments(tmp_path / "model.onnx", pictures, tmp_path), "--overwrite")
    assert "lies where the trained model would be written" in said and (tmp_path / "model.onnx").exists()


# Breaks when only the number of samples, or a program's path, is compared.
def test_a_run_goes_on_with_the_same_data_and_programs_alone(network, pictures, tmp_path):
    data = dict(numpy.load(pictures))
    numpy.savez(tmp_path / "data.npz", **data)
    program = tmp_path / "mine.tsm"
    program.write_text('import "rate.tsm"\nfn update(parameter, gradient, learning_rate) = parameter - own(learning_rate) * gradient\n')
    (tmp_path / "rate.tsm").write_text("fn own(rate) = 0.5 * rate\n")
    run = tmp_path / "run"
    settings = arguments(network, tmp_path / "data.npz", run, epochs=1, optimiser=program)
    train(*settings)
    more = arguments(network, tmp_path / "data.npz", run, epochs=2, optimiser=program)
    (tmp_path / "rate.tsm").write_text("fn own(rate) = 0.25 * rate\n")
    said = refused(*more, "--resume")
    assert f"the optimiser's program {program} was another" in said and "--overwrite" in said
    (tmp_path / "rate.tsm").write_text("fn own(rate) = 0.5 * rate\n")
    image = data["image"].copy()
    image[7, 3, 3] += 1
    numpy.savez(tmp_path / "data.npz", **data | {"image": image})
    said = refused(*more, "--resume")
    assert f"the data in {tmp_path / 'data.npz'} were others" in said and "--overwrite" in said
    numpy.savez_compressed(tmp_path / "data.npz", **data)  # the same arrays in another file
    train(*more, "--resume")


@pytest.fixture(scope="session")
def exported_for_training(folder):
    """As PyTorch's TrainingMode.PRESERVE writes it: dropout and batch normalisation do what they do in training."""
    draw = numpy.random.default_rng(5)
    path = save(
        folder / "for-training.onnx",
        [helper.make_node("Conv", ["image", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
         helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n", "next_mean", "next_variance"], "norm", training_mode=1),
         helper.make_node("Relu", ["n"], ["r"], "relu"),
         helper.make_node("Flatten", ["r"], ["f"], "flat"),
         helper.make_node("Constant", [], ["on"], "on", value=helper.make_tensor("on", TensorProto.BOOL, [], [True])),
         helper.make_node("Dropout", ["f", "half", "on"], ["d", "mask"], "drop"),
         helper.make_node("Gemm", ["d", "v", "b"], ["scores"], "dense")],
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 4]), helper.make_tensor_value_info("next_mean", TensorProto.FLOAT, [3])],
        {"w": draw.standard_normal((3, 1, 3, 3)) * 0.4, "scale": numpy.ones(3), "shift": numpy.zeros(3), "half": 0.5,
         "mean": numpy.zeros(3), "variance": numpy.ones(3), "v": draw.standard_normal((192, 4)) * 0.05, "b": numpy.zeros(4)})
    return path


# Breaks when what is judged or exported drops, or normalises by the batch.
def test_a_model_that_was_exported_for_training(exported_for_training, pictures, tmp_path):
    run = tmp_path / "run"
    train(*arguments(exported_for_training, pictures, run, validation=None, test=pictures, epochs=3))
    data = numpy.load(pictures)
    images = data["image"][:, None].astype(numpy.float32) / 255
    nodes = onnx.load(run / "model.onnx").graph.node
    assert not [node.name for node in nodes for attribute in node.attribute if attribute.name == "training_mode"]
    assert [len(node.input) for node in nodes if node.op_type == "Dropout"] == [2]
    session = onnxruntime.InferenceSession(run / "model.onnx")
    scores, mean = session.run(["scores", "next_mean"], {"image": images})
    weights = {w.name: numpy_helper.to_array(w) for w in onnx.load(run / "model.onnx").graph.initializer}
    numpy.testing.assert_array_equal(mean, weights["mean"])  # what is read of the next statistics are the running ones
    assert abs(weights["mean"]).max() > 0
    metric = metrics_of(run)[-1]
    assert metric["kind"] == "test" and metric["accuracy"] == pytest.approx((scores.argmax(1) == data["label"]).mean())
    numpy.save(tmp_path / "x.npy", images[:1])
    for model, options in ((run / "model.so", ()), (run / "model.onnx", ()), (exported_for_training, ("--for-evaluation",))):
        subprocess.run([TENSMITH, "run", model, *options, "--input", tmp_path / "x.npy", "--output", tmp_path], check=True, capture_output=True)
        if model != exported_for_training:
            numpy.testing.assert_allclose(numpy.load(tmp_path / "scores.npy"), scores[:1], rtol=1e-3, atol=1e-3)
        else:  # by the statistics that it was exported with
            numpy.testing.assert_array_equal(numpy.load(tmp_path / "next_mean.npy"), numpy.zeros(3))


# Breaks when the samples that fill the last batch up count in a loss of the model's own.
@pytest.mark.parametrize("first", ["n", 20])
def test_own_loss_of_a_batch_that_is_not_full(tmp_path, first):
    draw = numpy.random.default_rng(0)
    model = save(
        tmp_path / "own.onnx",
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "dense"), helper.make_node("Sub", ["y", "wanted"], ["d"], "error"),
         helper.make_node("Mul", ["d", "d"], ["q"], "square"), helper.make_node("ReduceMean", ["q"], ["cost"], "cost", axes=[0, 1], keepdims=0)],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [first, 3]), helper.make_tensor_value_info("wanted", TensorProto.FLOAT, [first, 1])],
        [helper.make_tensor_value_info("cost", TensorProto.FLOAT, [])], {"w": draw.standard_normal((3, 1)), "b": [0.0]})
    for name, rows in (("train", 40), ("test", 25)):
        numpy.savez(tmp_path / f"{name}.npz", x=draw.standard_normal((rows, 3)), wanted=numpy.linspace(0, 9, rows)[:, None] ** 2)
    run = tmp_path / "run"
    done = train(model, "--data", tmp_path / "train.npz", "--test", tmp_path / "test.npz", "--loss", "cost", "--batch", 20, "--epochs", 1,
                 "--optimiser", "sgd", "--learning-rate", 1e-9, "--output", run)
    weights = {w.name: numpy_helper.to_array(w) for w in onnx.load(run / "model.onnx").graph.initializer}
    test = numpy.load(tmp_path / "test.npz")
    squares = (test["x"] @ weights["w"] + weights["b"] - test["wanted"]) ** 2
    counted = 25 if first == "n" else 20
    assert metrics_of(run)[-1]["loss"] == pytest.approx(squares[:counted].mean(), rel=1e-5)
    assert ("the last 5 of the test don't count" in done.stderr) == (first == 20)


# Breaks when a setting of a schedule is taken without a word by one that doesn't read it, or warm-up only by some.
def test_settings_of_schedules(line, tmp_path):
    numpy.savez(tmp_path / "d.npz", x=numpy.ones((8, 2), numpy.float32), y=numpy.ones((8, 1), numpy.float32))
    common = (line, "--data", tmp_path / "d.npz", "--loss", "mean_squared_error", "--optimiser", "sgd", "--batch", 8, "--epochs", 1)

    def change(name, *more):
        train(*common, "--learning-rate", 0.25, "--output", tmp_path / name, *more)
        weights = {w.name: numpy_helper.to_array(w) for w in onnx.load(tmp_path / name / "model.onnx").graph.initializer}
        return weights["b"][0]

    whole = change("whole")
    for schedule, more in (("constant", ()), ("cosine", ()), ("step", ("--step-every", 1))):
        assert change(schedule, "--schedule", schedule, "--warm-up", 4, *more) == pytest.approx(whole / 4, rel=1e-5)
    said = refused(*common, "--final-rate", 0.1, status=2)
    assert "--final-rate: the schedule 'constant' has no --final-rate; cosine has" in said
    assert "the schedule 'cosine' has no --step-every; step has" in refused(*common, "--schedule", "cosine", "--step-every", 1, status=2)
    config = tmp_path / "run.toml"
    config.write_text(f'model = "{line}"\n[data]\ntrain = "d.npz"\n[schedule]\nstep_factor = 0.5\n')
    assert f"{config}:5: the schedule 'constant' has no --step-factor; step has" in refused(config, status=2)
    own = tmp_path / "own.tsm"
    own.write_text("let learning_rate = 1.0\nlet warmup = 1.0\nfn rate(step) = learning_rate / warmup\n")
    assert change("own", "--schedule", own, "--warm-up", 2) == pytest.approx(whole / 2, rel=1e-5)
    assert "least" in refused(*common, "--schedule", own, "--final-rate", 0.1, "--output", tmp_path / "no")
    assert "the loss 'cost' is an output of the model, which has no --target" in refused(*common[:3], "--loss", "cost", "--target", "y", status=2)


def test_one_process_at_a_time(network, pictures, tmp_path):
    run = tmp_path / "run"
    first = subprocess.Popen([TENSMITH, "train", *map(str, arguments(network, pictures, run, epochs=100000))],
                             stderr=subprocess.DEVNULL)
    try:
        while first.poll() is None and not (run / ".lock").exists():
            time.sleep(0.01)
        time.sleep(0.1)
        assert "another process is training there" in refused(*arguments(network, pictures, run))
    finally:
        first.kill()
        first.wait()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))


# Breaks when the loss's scale is no part of a checkpoint, or the precision may change on the way.
def test_mixed_precision_goes_on_to_the_same_bits(network, pictures, tmp_path):
    settings = {"optimiser": "momentum", "learning_rate": 0.05, "precision": "f16"}
    train(*arguments(network, pictures, tmp_path / "whole", **settings))
    train(*arguments(network, pictures, tmp_path / "parts", **settings, epochs=2))
    assert "--precision was" in refused(*arguments(network, pictures, tmp_path / "parts", **settings | {"precision": "bf16"}), "--resume")
    train(*arguments(network, pictures, tmp_path / "parts", **settings), "--resume")
    states, _ = states_of(tmp_path / "whole")
    assert states == states_of(tmp_path / "parts")[0]
    assert {"loss_scale", "loss_scale_steps"} <= states.keys()
    assert [metric for metric in metrics_of(tmp_path / "whole") if metric["kind"] == "validation"][-1]["accuracy"] > 0.9
