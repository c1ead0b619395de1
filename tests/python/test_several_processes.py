"""`mpirun -n N tensmith train`: the oracle is the same run in one process.

What N processes come to has to be what one does with the same batches, to rounding: parameters, the optimiser's state,
checkpoints, scores. A process that is killed, fails or hangs ends the run on all of them, and the checkpoint before it is
gone on from, by any number of processes.
"""

import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import time

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
TENSMITH, LIBRARY, SUMS = BUILD / "bin/tensmith", BUILD / "lib/libtensmith_mpi.so", BUILD / "test/mpi-sums"

pytestmark = [pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built"),
              pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun (Debian: openmpi-bin)"),
              pytest.mark.skipif(not LIBRARY.exists(), reason="built without MPI (Debian: libopenmpi-dev)")]

# As root, and with more processes than cores.
MPI = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def command(processes, *arguments):
    alone = [TENSMITH, "train", *map(str, arguments), "--threads", "1"]
    return alone if processes == 1 else ["mpirun", "-n", str(processes), "--oversubscribe", *alone]


def train(processes, *arguments, status=0):
    done = subprocess.run(command(processes, *arguments), capture_output=True, text=True, timeout=300, env=MPI)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def states_of(run):
    """The newest checkpoint's tensors, in their order, and its metadata."""
    file = sorted((run / "checkpoints").glob("*.safetensors"))[-1].read_bytes()
    (size,) = struct.unpack("<Q", file[:8])
    header = json.loads(file[8:8 + size])
    metadata = header.pop("__metadata__")
    types = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64}
    return {name: numpy.frombuffer(file[8 + size:][slice(*entry["data_offsets"])], types[entry["dtype"]])
            .reshape(entry["shape"]) for name, entry in header.items()}, metadata


def metrics_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def assert_same(run, other, tolerance=1e-5):
    states, others = states_of(run)[0], states_of(other)[0]
    assert list(states) == list(others)
    for name, value in states.items():
        assert value.shape == others[name].shape, name
        numpy.testing.assert_allclose(others[name], value, rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("several")


def save(path, nodes, inputs, outputs, weights):
    initialisers = [numpy_helper.from_array(numpy.asarray(value, bool if value is True else numpy.float32), name)
                    for name, value in weights.items()]
    graph = helper.make_graph(nodes, "model", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", *inputs])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", outputs])], initialisers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="session")
def network(folder):
    """Convolution, dropout, two dense layers of odd sizes: pictures of batch x 1 x 8 x 8 to 5 classes."""
    draw = numpy.random.default_rng(1)
    weights = {"w": draw.standard_normal((7, 1, 3, 3)) * 0.3, "b": draw.standard_normal(7) * 0.1,
               "v": draw.standard_normal((448, 63)) * 0.05, "c": numpy.zeros(63), "u": draw.standard_normal((63, 5)) * 0.1,
               "ratio": 0.3, "training": True}
    nodes = [helper.make_node("Conv", ["image", "w", "b"], ["y"], "conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["y"], ["r"], "relu"), helper.make_node("Flatten", ["r"], ["f"], "flat"),
             helper.make_node("Gemm", ["f", "v", "c"], ["h"], "hidden"),
             helper.make_node("Dropout", ["h", "ratio", "training"], ["d"], "drop", seed=7),
             helper.make_node("Tanh", ["d"], ["t"], "tanh"), helper.make_node("MatMul", ["t", "u"], ["scores"], "dense")]
    return save(folder / "network.onnx", nodes, [1, 8, 8], 5, weights)


def dense(folder, name, sizes):
    """Layers of those sizes, with rectifiers between them."""
    draw, weights, nodes, value = numpy.random.default_rng(2), {}, [helper.make_node("Flatten", ["image"], ["x"])], "x"
    for i, (before, after) in enumerate(zip(sizes, sizes[1:])):
        weights |= {f"w{i}": draw.standard_normal((before, after)) * (2 / before) ** 0.5, f"b{i}": numpy.zeros(after)}
        last = i == len(sizes) - 2
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], ["scores" if last else f"g{i}"], f"dense{i}"))
        if not last:
            nodes.append(helper.make_node("Relu", [f"g{i}"], [f"r{i}"], f"relu{i}"))
        value = f"r{i}"
    return save(folder / name, nodes, [1, 8, 8], sizes[-1], weights)


@pytest.fixture(scope="session")
def pictures(folder):
    """Some targets don't count, more in one process's part of a batch than in another's."""
    draw = numpy.random.default_rng(3)
    labels = draw.integers(0, 5, 480)
    labels[draw.random(480) < 0.2] = -1
    numpy.savez(folder / "pictures.npz", image=draw.integers(0, 255, (480, 8, 8)).astype(numpy.uint8), label=labels)
    return folder / "pictures.npz"


def arguments(network, pictures, output, **more):
    settings = {"data": pictures, "epochs": 3, "batch": 24, "validation": 0.1, "optimiser": "momentum",
                "learning-rate": 0.02, "log-every": 9, "output": output} | {k.replace("_", "-"): v for k, v in more.items()}
    return [network, *(word for name, value in settings.items() if value is not None for word in (f"--{name}", value))]


OPTIMISERS = {"momentum": {}, "adam": {"optimiser": "adam", "learning_rate": 1e-3, "clip_norm": 0.3, "ema_decay": 0.9}}


@pytest.fixture(scope="session")
def alone(network, pictures, folder):
    """Runs of one process, of 54 steps each."""
    runs = {}
    for name, settings in OPTIMISERS.items():
        runs[name] = folder / f"alone-{name}"
        train(1, *arguments(network, pictures, runs[name], **settings))
    return runs


@pytest.mark.parametrize("zero", [0, 1, 2])
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_comes_to_what_one_process_comes_to(alone, network, pictures, tmp_path, optimiser, processes, zero):
    """The dropped numbers, the loss's weights and the order of the samples are those of the whole batch."""
    run = tmp_path / "run"
    done = train(processes, *arguments(network, pictures, run, zero=zero, bucket="20kB", **OPTIMISERS[optimiser]))
    assert int(states_of(run)[1]["step"]) == 54
    assert_same(alone[optimiser], run)
    for metric, other in zip(metrics_of(alone[optimiser]), metrics_of(run), strict=True):
        assert metric["kind"] == other["kind"] and metric["step"] == other["step"]
        if metric["kind"] == "validation":  # where the model drops, too, whatever the processes
            continue
        assert other["loss"] == pytest.approx(metric["loss"], abs=1e-4)
        assert other.get("accuracy") == pytest.approx(metric.get("accuracy"), abs=1e-6)
    assert done.stdout.count("model.onnx, model.so") == 1  # one of them says it
    weights = {w.name: numpy_helper.to_array(w) for w in onnx.load(run / "model.onnx").graph.initializer}
    before = {w.name: numpy_helper.to_array(w) for w in onnx.load(alone[optimiser] / "model.onnx").graph.initializer}
    for name in weights:
        numpy.testing.assert_allclose(weights[name], before[name], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("processes", [2, 3])
def test_validates_on_all_samples(folder, pictures, tmp_path, processes):
    """A mean over the targets that count, whichever process has them, and whatever its batches are."""
    model = dense(tmp_path, "dense.onnx", [64, 33, 5])
    for count in (1, processes):
        train(count, *arguments(model, pictures, tmp_path / str(count), epochs=2, validation=0.13, ema_decay=0.5, zero=count // 2))
    for metric, other in zip(metrics_of(tmp_path / "1"), metrics_of(tmp_path / str(processes)), strict=True):
        assert other["kind"] == metric["kind"] and other["loss"] == pytest.approx(metric["loss"], abs=1e-5)
        assert other["accuracy"] == pytest.approx(metric["accuracy"], abs=1e-6)


def test_batches_that_dont_divide_are_refused(network, pictures, tmp_path):
    said = train(2, *arguments(network, pictures, tmp_path / "run", batch=25), status=2).stderr
    assert "--batch: a batch of 25 samples can't be shared out to 2 processes" in said


def test_the_number_asked_for_is_the_number_started(network, pictures, tmp_path):
    said = train(2, *arguments(network, pictures, tmp_path / "run", processes=4), status=2).stderr
    assert "--processes asks for 4 processes, but 2 were started; start them with mpirun -n 4" in said
    said = train(1, *arguments(network, pictures, tmp_path / "run", processes=4), status=2).stderr
    assert "start them with mpirun -n 4" in said


# By sums of sums, and by how many elements there are: what fills parts up must not count.
CENTRED = """
fn sum(x) = reduce_sum(dynamic_reshape(x, (reshape(-1) : i64[1])), axes = [0])

fn update(parameter, gradient, velocity, learning_rate) = {
  let count = sum(parameter * 0.0 + 1.0);
  let centred = gradient - sum(gradient) / count;
  let velocity = 0.9 * velocity + centred / (sqrt(sum(centred * centred) / count) + 0.001);
  (parameter - learning_rate * velocity, velocity)
}
"""


@pytest.fixture(scope="session")
def with_sums(network, pictures, folder):
    """Optimisers that take sums over whole parameters, and what one process comes to by them."""
    (folder / "centred.tsm").write_text(CENTRED)
    known = {"lamb": {"optimiser": "lamb", "learning_rate": 3e-3, "clip_norm": 0.3, "ema_decay": 0.9},
             "centred": {"optimiser": folder / "centred.tsm", "learning_rate": 1e-4}}
    for name, settings in known.items():
        train(1, *arguments(network, pictures, folder / f"alone-{name}", **settings))
    return known


@pytest.mark.parametrize("optimiser, processes, zero", [("lamb", 2, 0), ("lamb", 2, 1), ("lamb", 3, 1), ("lamb", 4, 2),
                                                        ("centred", 2, 2), ("centred", 3, 1)])
def test_sums_over_parameters_are_those_of_all_parts(with_sums, network, pictures, folder, tmp_path, optimiser, processes, zero):
    """Norms of LAMB's five parameters, two each, go together: one collective in the update."""
    run, trace = tmp_path / "run", tmp_path / "trace.json"
    train(processes, *arguments(network, pictures, run, zero=zero, trace=trace, **with_sums[optimiser]))
    assert_same(folder / f"alone-{optimiser}", run, 1e-5 if optimiser == "lamb" else 1e-4)  # velocities of about 10
    sums = [event["args"]["bytes"] for event in json.loads(trace.read_text())["traceEvents"]
            if event["name"] == "mean over processes"]
    assert sums == ([] if not zero else [4 * 10] if optimiser == "lamb" else [4 * 10, 4 * 5])


def test_goes_on_with_another_number_by_norms(with_sums, network, pictures, folder, tmp_path):
    run, settings = tmp_path / "run", with_sums["lamb"]
    train(3, *arguments(network, pictures, run, epochs=2, zero=2, **settings))
    train(2, *arguments(network, pictures, run, zero=1, **settings), "--resume")
    assert_same(folder / "alone-lamb", run)


@pytest.mark.parametrize("program, operator", [("reduce_max(abs(flat), axes = [0])", "graph.reduce_max"),
                                               ("reduce_sum(cumsum(flat, axis = 0), axes = [0])", "graph.cumsum")])
def test_what_reads_elements_in_another_way_can_not_be_shared_out(network, pictures, tmp_path, program, operator):
    """Without sharing it is what one process does."""
    (tmp_path / "own.tsm").write_text(f"""
fn number(x) = {{ let flat = dynamic_reshape(x, (reshape(-1) : i64[1])); {program} }}
fn update(parameter, gradient, learning_rate) = parameter - learning_rate * gradient / (number(gradient * gradient) + 1.0)
""")
    settings = {"optimiser": tmp_path / "own.tsm", "learning_rate": 1e-2}
    said = train(2, *arguments(network, pictures, tmp_path / "run", zero=1, **settings), status=1).stderr
    assert f"takes more than sums over a parameter's elements to update one ({operator})" in said and "say --zero 0" in said
    train(1, *arguments(network, pictures, tmp_path / "one", **settings))
    train(2, *arguments(network, pictures, tmp_path / "two", **settings))
    assert_same(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize("processes, more", [(2, {}), (4, {"clip_norm": 0.1, "ema_decay": 0.9})])
def test_whole_layers_are_updated_by_what_all_have(network, pictures, tmp_path, processes, more):
    """Of a convolution and a dense layer: gradients and the inputs' statistics are of all processes' samples."""
    more = {"optimiser": "rescaled", "learning_rate": 0.1} | more
    for count in (1, processes):
        train(count, *arguments(network, pictures, tmp_path / str(count), **more))
    assert any(name.startswith("input_variance.") for name in states_of(tmp_path / "1")[0])
    assert_same(tmp_path / "1", tmp_path / str(processes))
    said = train(2, *arguments(network, pictures, tmp_path / "run", zero=1, **more), status=1).stderr
    assert "the optimiser rescaled updates whole layers, and so shares nothing out; say --zero 0" in said


def residual(folder, name, channels=6, blocks=2, factor=1.0):
    """Residual blocks with batch normalisation, as a ResNet has them, without kinks: where rectifiers tip by rounding,
    weights part whatever the processes."""
    draw, weights, nodes = numpy.random.default_rng(5), {}, []

    def convolution(value, before, after, name):
        weights[f"{name}.w"] = draw.standard_normal((after, before, 3, 3)) * (1 / (9 * before)) ** 0.5
        weights.update({f"{name}.scale": 1 + draw.random(after) * 0.2, f"{name}.shift": draw.standard_normal(after) * 0.1,
                        f"{name}.mean": numpy.zeros(after), f"{name}.variance": numpy.ones(after)})
        statistics = [f"{name}.{of}" for of in ("scale", "shift", "mean", "variance")]
        nodes.extend([helper.make_node("Conv", [value, f"{name}.w"], [f"{name}.c"], name, pads=[1, 1, 1, 1]),
                      helper.make_node("BatchNormalization", [f"{name}.c", *statistics], [f"{name}.n"], f"{name}.norm")])
        return f"{name}.n"

    def smoothed(value):
        nodes.append(helper.make_node("Tanh", [value], [f"{value}.t"], f"{value}.tanh"))
        return f"{value}.t"

    value = smoothed(convolution("image", 1, channels, "stem"))
    for block in range(blocks):
        inner = smoothed(convolution(value, channels, channels, f"first{block}"))
        inner = convolution(inner, channels, channels, f"second{block}")
        nodes.append(helper.make_node("Add", [inner, value], [f"sum{block}"], f"add{block}"))
        value = smoothed(f"sum{block}")
    weights |= {"v": draw.standard_normal((channels * 16, 5)) * 0.1 / factor, "factor": factor}
    nodes += [helper.make_node("AveragePool", [value], ["pooled"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
              helper.make_node("Flatten", ["pooled"], ["flat"], "flat"),
              helper.make_node("MatMul", ["flat", "v"], ["product"], "dense"),
              helper.make_node("Mul", ["product", "factor"], ["scores"], "scaled")]
    return save(folder / name, nodes, [1, 8, 8], 5, weights)


@pytest.fixture(scope="session")
def normalised(folder, pictures):
    """A residual network with batch normalisation, and what one process makes of it in 54 steps."""
    model, runs = residual(folder, "residual.onnx"), {}
    for name, settings in OPTIMISERS.items():
        runs[name] = folder / f"normalised-{name}"
        train(1, *arguments(model, pictures, runs[name], **settings))
    return model, runs


@pytest.mark.parametrize("optimiser, processes, zero", [("momentum", 2, 0), ("momentum", 4, 2), ("momentum", 3, 0),
                                                        ("adam", 2, 1), ("adam", 4, 0)])
def test_batches_are_normalised_by_all_of_their_samples(normalised, pictures, tmp_path, optimiser, processes, zero):
    """Parameters and running statistics; parts of 6 samples, some without targets that count, have others of their own."""
    model, alone = normalised
    run, trace = tmp_path / "run", tmp_path / "trace.json"
    train(processes, *arguments(model, pictures, run, zero=zero, bucket="2kB", trace=trace, **OPTIMISERS[optimiser]))
    before = {w.name: numpy_helper.to_array(w) for w in onnx.load(model).graph.initializer}
    states = states_of(run)[0]
    assert all(abs(states[f"first0.{of}"] - before[f"first0.{of}"]).max() > 0.01 for of in ("w", "mean", "variance"))
    assert_same(alone[optimiser], run)
    for metric, other in zip(metrics_of(alone[optimiser]), metrics_of(run), strict=True):
        assert other["loss"] == pytest.approx(metric["loss"], abs=1e-5)
    # Of each of the five: mean and variance, and on the way back what comes of both.
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["name"] == "mean over processes"]
    assert len(events) == 5 * 4 and all(event["args"]["bytes"] == 4 * 6 for event in events)


def test_another_copy_of_the_library_changes_nothing(normalised, pictures, tmp_path):
    """One in the loader's path, beside the one that a module's operators are done by: both are one."""
    model, alone = normalised
    (tmp_path / "lib").mkdir()
    shutil.copy(LIBRARY, tmp_path / "lib")
    run = command(2, *arguments(model, pictures, tmp_path / "run"))
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, env=MPI | {"LD_LIBRARY_PATH": str(tmp_path / "lib")})
    assert done.returncode == 0, done.stderr
    assert_same(alone["momentum"], tmp_path / "run")


def test_one_of_several_does_not_take_its_part_for_the_whole(normalised, pictures, tmp_path):
    """A module that asks for means over processes, run by one that knows of no others: alone it does, of several it is refused."""
    model, _ = normalised
    train(2, *arguments(model, pictures, tmp_path / "run", epochs=1))
    (step,) = (tmp_path / "run").rglob("gradients-2.so")
    run = [TENSMITH, "run", step, "--seed", "1"]  # of inputs that aren't given
    alone = subprocess.run(run, capture_output=True, text=True)
    assert alone.returncode == 0, alone.stderr
    for environment in ({"OMPI_COMM_WORLD_SIZE": "2"}, {"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "2"}, {"PMIX_RANK": "0"}):
        several = subprocess.run(run, capture_output=True, text=True, env=os.environ | environment)
        assert several.returncode == 1 and "was told of no other processes" in several.stderr, several.stderr
    for environment in ({"OMPI_COMM_WORLD_SIZE": "1"}, {"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "1"},
                        {"SLURM_STEP_NUM_TASKS": "2"}):
        alone = subprocess.run(run, capture_output=True, text=True, env=os.environ | environment)
        assert alone.returncode == 0, alone.stderr


@pytest.mark.parametrize("environment", [{"OMPI_COMM_WORLD_SIZE": "1"}, {"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "1"},
                                         {"PMIX_RANK": "0"}, {"SLURM_STEP_NUM_TASKS": "4"}])
def test_the_only_process_trains_alone(alone, network, pictures, tmp_path, environment):
    """A rank says nothing of how many there are: a resource manager tells it to a process without others, too."""
    run = tmp_path / "run"
    done = subprocess.run(command(1, *arguments(network, pictures, run)), capture_output=True, text=True, timeout=300,
                          env=MPI | environment)
    assert done.returncode == 0, done.stderr
    assert (run / "step.so").exists() and not (run / "update.so").exists()
    assert_same(alone["momentum"], run, 0)


@pytest.mark.parametrize("more, tolerance", [({"recomputation": "recursive"}, 1e-5),
                                             ({"precision": "bf16", "epochs": 1, "batch": 216}, 1e-3)])
def test_statistics_of_all_samples_go_with_other_ways(normalised, pictures, tmp_path, more, tolerance):
    """What is computed again, means included, is the same on all processes. Of bf16 two steps: what rounding tips grows."""
    model, _ = normalised
    for count in (1, 2):
        train(count, *arguments(model, pictures, tmp_path / str(count), **more))
    assert_same(tmp_path / "1", tmp_path / "2", tolerance)


@pytest.fixture(scope="session")
def mostly_uncounted(folder, pictures):
    """Of five targets one counts: a mean over all of them is less than half of that over those."""
    data, draw = dict(numpy.load(pictures)), numpy.random.default_rng(6)
    data["label"][draw.random(480) < 0.8] = -1
    numpy.savez(folder / "uncounted.npz", **data)
    return folder / "uncounted.npz"


@pytest.mark.parametrize("processes, zero, data, optimiser", [(2, 0, "pictures", "momentum"), (4, 2, "pictures", "momentum"),
                                                              (2, 1, "mostly_uncounted", "adam"), (3, 0, "mostly_uncounted", "momentum"),
                                                              (2, 1, "mostly_uncounted", "lamb")])
def test_losses_are_scaled_by_the_gradients_of_all(request, tmp_path, processes, zero, data, optimiser):
    """In f16 a step with gradients that are not finite changes nothing but the scale, on all processes alike, and at the
    same steps. Behind the factor gradients are so large at first that they overflow the half."""
    pictures = request.getfixturevalue(data)
    model = residual(tmp_path, "residual.onnx", factor=256.0)
    for count in (1, processes):
        train(count, *arguments(model, pictures, tmp_path / str(count), zero=zero if count > 1 else 0, precision="f16",
                                learning_rate=1e-6, clip_norm=100.0, optimiser=optimiser))
    states, others = states_of(tmp_path / "1")[0], states_of(tmp_path / str(processes))[0]
    assert 1 <= states["loss_scale"] < 65536 and states["step"] < 54
    for name in ("loss_scale", "loss_scale_steps", "step"):
        assert states[name] == others[name], name
    for name, value in states.items():  # of what a half holds some parts in a thousand
        numpy.testing.assert_allclose(others[name], value, rtol=0, atol=3e-3 * abs(value).max() + 1e-6, err_msg=name)


@pytest.mark.parametrize("way", [(1, 0, 4, 2), (4, 1, 2, 2), (2, 2, 1, 0)])
def test_goes_on_with_another_number(alone, network, pictures, tmp_path, way):
    """Checkpoints say nothing of how many processes there were, or of what they shared out."""
    run, (first, zero, second, other) = tmp_path / "run", way
    train(first, *arguments(network, pictures, run, epochs=2, zero=zero, **OPTIMISERS["adam"]))
    said = train(second, *arguments(network, pictures, run, zero=other, **OPTIMISERS["adam"]), "--resume").stderr
    assert "going on from" in said
    assert_same(alone["adam"], run)


needs_sums = pytest.mark.skipif(not SUMS.exists(), reason="test programs are not built")


@needs_sums
@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_sums_are_those_of_all_in_their_order(processes):
    """Small and large ones, of numbers that don't divide: see train/mpi/test/Sums.cpp."""
    done = subprocess.run(["mpirun", "-n", str(processes), "--oversubscribe", SUMS], capture_output=True, text=True, timeout=300, env=MPI)
    assert done.returncode == 0, done.stderr


@needs_sums
@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("kind, times", [("sum", 2), ("parts", 1), ("gather", 1)])
def test_no_process_sends_more_than_the_others(tmp_path, processes, kind, times):
    """Of a large sum each sends as many elements as it has of the others' parts, twice; of a sum of parts, once. Breaks if whole
    vectors are sent, or all of it by one process. Open MPI counts."""
    count = 300000
    counted = ["--mca", "pml_monitoring_enable", "1", "--mca", "pml_monitoring_enable_output", "3",
               "--mca", "pml_monitoring_filename", tmp_path / "sent"]
    done = subprocess.run(list(map(str, ["mpirun", "-n", processes, "--oversubscribe", *counted, SUMS, kind, count])),
                          capture_output=True, text=True, timeout=300, env=MPI)
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.glob("sent.*.prof"))
    if not files:
        pytest.skip("this MPI doesn't count what is sent")
    assert len(files) == processes
    for file in files:  # "E from to N bytes M msgs sent ..."
        sent = sum(int(line.split()[3]) for line in file.read_text().splitlines() if line.startswith("E"))
        least = times * 4 * count * (processes - 1) // processes
        assert least <= sent <= least + 1000, file.read_text()


@needs_sums
@pytest.mark.parametrize("more", [0, 1])
def test_more_threads_than_cpus_are_noticed(more):
    """Who waits gives way to the others then."""
    threads = len(os.sched_getaffinity(0)) // 2 + more
    quota = pathlib.Path("/sys/fs/cgroup/cpu.max")
    if not threads or (not more and quota.exists() and not quota.read_text().startswith("max")):
        pytest.skip("there is one CPU, or fewer by a quota")
    done = subprocess.run(["mpirun", "-n", "2", "--bind-to", "none", "--oversubscribe", SUMS, "cpus", str(threads)],
                          capture_output=True, text=True, timeout=300, env=MPI)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == (["too few"] if more else ["enough"]) * 2


@needs_sums
@pytest.mark.parametrize("processes", [2, 3, 4])
def test_who_stands_still_is_named(processes):
    """And not one that waits for it in the middle of the same sum, and is as far behind."""
    done = subprocess.run(["mpirun", "-n", str(processes), "--oversubscribe", SUMS, "still", "3"], capture_output=True, text=True,
                          timeout=300, env=MPI)
    assert (done.returncode, done.stdout) == (0, f"process {processes - 1}\n"), done.stderr


def test_what_is_shared_out_changes_no_bits(pictures, tmp_path):
    """Sums of four processes are in the same order, be they of parts or of the whole; with buckets that are large enough."""
    model = dense(tmp_path, "dense.onnx", [64, 300, 200, 5])
    for zero in (0, 1, 2):
        train(4, *arguments(model, pictures, tmp_path / str(zero), zero=zero, bucket="100kB", **OPTIMISERS["momentum"]))
    for zero in (1, 2):
        assert_same(tmp_path / "0", tmp_path / str(zero), 0)


def test_optimisers_state_is_shared_out(network, pictures, tmp_path):
    """Of Adam two numbers for each parameter; what fills the parts up is less than a cache line for each process."""
    whole = {}
    for processes, zero in [(2, 0), (2, 1), (4, 1), (4, 2)]:
        said = train(processes, *arguments(network, pictures, tmp_path / f"{processes}-{zero}", epochs=1, optimiser="adam",
                                           zero=zero)).stderr
        (line,) = [line for line in said.splitlines() if "of the optimiser's state" in line]
        whole[processes, zero] = int(line.split(" bytes of the optimiser's state")[0].split()[-1])
    parameters = sum(value.size for name, value in states_of(tmp_path / "2-0")[0].items() if "." in name) // 2
    assert whole[2, 0] == 2 * 4 * parameters
    for (processes, zero), held in whole.items():
        if zero:
            assert 2 * 4 * parameters / processes <= held <= 2 * 4 * parameters / processes * 1.01 + 2 * 64 * 8


def spans(path):
    """Of the step, and of the sums of gradients."""
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    return ([event for event in events if event["args"].get("function") == "gradients"],
            [event for event in events if event["name"].startswith("gradients ")])


def overlap(steps, sums):
    """Two buckets are sent before the step has ended, the first of them while a kernel runs."""
    end = max(event["ts"] + event["dur"] for event in steps)
    first = min(sums, key=lambda event: event["ts"])
    return sum(event["ts"] < end for event in sums) >= 2 and any(
        event["ts"] < first["ts"] + first["dur"] and event["ts"] + event["dur"] > first["ts"] for event in steps)


@pytest.mark.parametrize("zero", [0, 2])
def test_gradients_are_summed_while_others_are_computed(pictures, tmp_path, zero):
    """Breaks if no bucket is sent before the step has ended; where other processes keep the one that sends from running,
    that can be so once."""
    model = dense(tmp_path, "dense.onnx", [64, 700, 700, 700, 700, 5])
    for attempt in range(6):
        trace = tmp_path / f"trace{attempt}.json"
        train(2, *arguments(model, pictures, tmp_path / f"run{attempt}", epochs=1, batch=48, zero=zero, bucket="1MB", trace=trace))
        steps, sums = spans(trace)
        assert len(sums) >= 3 and all(event["args"]["bytes"] > 0 for event in sums)
        if overlap(steps, sums):
            return
    pytest.fail("no bucket is sent before the step has ended")


def rank_of(process):
    """Of a process that mpirun started, else None."""
    try:
        entries = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [entry.split(b"=")[1] for entry in entries if entry.startswith(b"OMPI_COMM_WORLD_RANK=")]
    return int(found[0]) if found else None


def processes_of(run):
    """Those that train into the folder, by rank."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(run).encode() in words and (rank := rank_of(entry.name)) is not None:
                found[rank] = int(entry.name)
    return found


@pytest.mark.parametrize("model, number, victim, zero", [
    ("network", signal.SIGKILL, 1, 1), ("network", signal.SIGKILL, 0, 2), ("network", signal.SIGSTOP, 2, 0),
    ("residual", signal.SIGKILL, 2, 0), ("residual", signal.SIGSTOP, 1, 2)])
def test_a_process_that_dies_or_hangs_ends_all(network, normalised, pictures, tmp_path, model, number, victim, zero):
    """Soon, with its number in a message; the run goes on from the last checkpoint to what it would have been. Of
    batch normalisation the others mostly wait for its statistics then, in the middle of a step."""
    network = network if model == "network" else normalised[0]
    run, more = tmp_path / "run", {"epochs": 2000, "zero": zero, "checkpoint_every": 5, "process_timeout": 10}
    process = subprocess.Popen(command(3, *arguments(network, pictures, run, **more)), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=MPI)
    while process.poll() is None and not list(run.glob("checkpoints/*.safetensors")):
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[0]
    os.kill(processes_of(run)[victim], number)
    said = process.communicate(timeout=150)[0]  # what hangs would do so for 600 seconds
    assert process.returncode != 0
    assert (f"rank {victim}" if number == signal.SIGKILL else f"process {victim} has not answered for 10 seconds") in said, said
    end = time.monotonic() + 20
    while (left := processes_of(run)) and time.monotonic() < end:  # mpirun kills them, and doesn't wait for what it killed
        time.sleep(0.1)
    assert not left, said
    step = int(states_of(run)[1]["step"])
    epochs = step // 18 + 2
    again = train(2, *arguments(network, pictures, run, **more | {"epochs": epochs}), "--resume")
    assert "going on from" in again.stderr
    train(1, *arguments(network, pictures, tmp_path / "alone", epochs=epochs))
    assert_same(tmp_path / "alone", run, 1e-3 if epochs > 20 else 1e-4)


def test_what_fails_in_one_process_ends_all(network, pictures, tmp_path):
    """A target that is no class lies in the second process's part alone."""
    data = dict(numpy.load(pictures))
    data["label"][20] = 9
    numpy.savez(tmp_path / "broken.npz", **data)
    done = subprocess.run(command(2, *arguments(network, tmp_path / "broken.npz", tmp_path / "run", validation=0), "--no-shuffle"),
                          capture_output=True, text=True, timeout=150, env=MPI)
    assert done.returncode == 1
    assert "tensmith: process 1 of 2: " in done.stderr and "9" in done.stderr


def test_an_interrupt_ends_all_after_the_same_step(network, pictures, tmp_path):
    """One process alone has got the signal."""
    run = tmp_path / "run"
    process = subprocess.Popen(command(2, *arguments(network, pictures, run, epochs=2000)), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=MPI)
    while process.poll() is None and not list(run.glob("checkpoints/*.safetensors")):
        time.sleep(0.05)
    os.kill(processes_of(run)[1], signal.SIGINT)
    said = process.communicate(timeout=150)[1]
    assert process.returncode != 0
    step = int(states_of(run)[1]["step"])
    assert f"interrupted after step {step}; " in said and "--resume" in said


# ---- Programs of the language ----

NETWORK = """import "tensmith/convolution.tsm"
import "tensmith/dense.tsm"
import "tensmith/normalisation.tsm"

let conv1 = conv2d_weights(1, 7, 3)
let norm = batch_norm_weights(1)
let hidden = dense_weights(7 * 8 * 8, 31)
let classes = dense_weights(31, 5)

fn main(image: f32[batch, 1, 8, 8]) = {
  let x = relu(conv2d_same(batch_normed(image, norm), conv1));
  dense(dropped(tanh(dense(flatten(x), hidden)), 0.3), classes)
}
"""

# The words of a sentence from the last one on, and those after a 0 not at all: as many steps as each has.
SENTENCES = """import "tensmith/dense.tsm"
import "tensmith/recurrent.tsm"

let words = (random_normal(seed = 0) : f32[9, 6])
let cell = rnn_cell_weights(6, 5)
let out = dense_weights(5, 3)

fn read(sentence: i64[n], at: i64[]) -> f32[1, 5] = {
  let word = gather(sentence, at, axis = 0);
  if word == 0 { (broadcast(0.0) : f32[1, 5]) } else { rnn_cell(read(sentence, at + 1), (reshape(gather(words, word, axis = 0)) : f32[1, 6]), cell) }
}

fn summed(sentences: i64[b, n], labels: i64[b], i: i64[]) -> f32[] =
  if i == size(labels) {
    0.0
  } else {
    let scores = (reshape(log_softmax(dense(read(gather(sentences, i, axis = 0), 0), out), axis = 1)) : f32[3]);
    summed(sentences, labels, i + 1) - gather(scores, gather(labels, i, axis = 0), axis = 0)
  }

fn main(sentences: i64[batch, 7], labels: i64[batch]) = summed(sentences, labels, 0) / cast(size(labels), to = f32)
"""


@pytest.mark.parametrize("optimiser", list(OPTIMISERS))
@pytest.mark.parametrize("zero", [0, 1, 2])
def test_programs_come_to_what_one_process_comes_to(pictures, tmp_path, optimiser, zero):
    (tmp_path / "net.tsm").write_text(NETWORK)
    for count in (1, 2):
        # Adam makes as large a step of a gradient that is rounding alone: a smaller one.
        more = OPTIMISERS[optimiser] | ({"learning_rate": 3e-4} if optimiser == "adam" else {}) | ({"zero": zero, "bucket": 20000} if count > 1 else {})
        train(count, *arguments(tmp_path / "net.tsm", pictures, tmp_path / str(count), **more))
    assert_same(tmp_path / "1", tmp_path / "2")
    first, second = ({file.name: numpy.load(file) for file in (tmp_path / run / "weights").iterdir()} for run in "12")
    assert len(first) == 10 and first.keys() == second.keys()


def test_recursion_that_the_data_decides_in_two_processes(tmp_path):
    draw = numpy.random.default_rng(6)
    sentences = draw.integers(1, 9, (240, 7))
    for row in sentences:
        row[draw.integers(1, 7):] = 0
    numpy.savez(tmp_path / "data.npz", sentences=sentences, labels=sentences[:, 0] % 3)
    (tmp_path / "net.tsm").write_text(SENTENCES)
    for count in (1, 2):
        train(count, *arguments(tmp_path / "net.tsm", tmp_path / "data.npz", tmp_path / str(count), loss="result", optimiser="adam",
                                learning_rate=1e-2, epochs=6))  # fmt: skip
    assert_same(tmp_path / "1", tmp_path / "2")
    losses = [metric["loss"] for metric in metrics_of(tmp_path / "2") if metric["kind"] == "validation"]
    assert losses[-1] < 0.7 * losses[0]
