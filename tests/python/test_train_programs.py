"""Programs of the language as models to train: which of their constants are parameters, and that the step is the one of the
same model in ONNX.

What would break these: a constant that is folded where it should be trained, two weights that are drawn alike, a weight that
is used twice and comes apart, running statistics that stand still, a trained program that isn't what was trained.
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
import tensmith as ts
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
LAYERS = 'import "tensmith/dense.tsm"\nimport "tensmith/convolution.tsm"\nimport "tensmith/normalisation.tsm"\n'
MLP = LAYERS + """
let wide = dense_weights(12, 16)
let narrow = dense_weights(16, 3)

fn main(x: f32[batch, 12]) = dense(relu(dense(x, wide)), narrow)
"""


@pytest.fixture
def program(tmp_path):
    def write(text, **arrays):
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        path = tmp_path / "net.tsm"
        path.write_text(text)
        return path

    return write


def samples(count=240, size=12, seed=0):
    """Points around one of three centres, and which it is."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    centres = np.random.default_rng(9).standard_normal((3, size))
    return (centres[labels] + 0.6 * rng.standard_normal((count, size))).astype(np.float32), labels


def test_a_program_learns(program, tmp_path):
    trained = ts.train(program(MLP), samples(), test=samples(90, seed=1), epochs=5, batch=20, learning_rate=0.1,
                       output=str(tmp_path / "run"), progress=False)
    assert trained.history[-1]["kind"] == "test" and trained.history[-1]["accuracy"] > 0.9
    assert set(trained.state) >= {"wide.0", "wide.1", "narrow.0", "narrow.1"}
    x, labels = samples(50, seed=2)
    scores = trained.model(x)
    assert (scores.argmax(1) == labels).mean() > 0.9
    # What is given back is a program again, in a folder of its own.
    np.testing.assert_array_equal(ts.compile(trained.onnx, threads=1)(x), scores)
    np.testing.assert_array_equal(ts.compile(trained.program, threads=1)(x), scores)
    np.testing.assert_array_equal(np.load(tmp_path / "run/weights/narrow.0.npy"), trained.state["narrow.0"])


def test_the_step_is_that_of_the_model_in_onnx(program, tmp_path):
    rng = np.random.default_rng(4)
    w, b = rng.standard_normal((12, 3)).astype(np.float32), rng.standard_normal(3).astype(np.float32)
    text = LAYERS + 'let layer = (load("w.npy"), load("b.npy"))\nfn main(x: f32[batch, 12]) = dense(relu(x), layer)\n'
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["p"]),
             helper.make_node("Add", ["p", "b"], ["y"])]  # fmt: skip
    port = lambda name, size: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])
    graph = helper.make_graph(nodes, "net", [port("x", 12)], [port("y", 3)], [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx")
    options = dict(optimiser="adam", learning_rate=0.01, shapes={"batch": [20]}, threads=1)
    ours = ts.train_step(program(text, w=w, b=b), **options)
    theirs = ts.train_step(tmp_path / "net.onnx", **options)
    x, labels = samples()
    for at in range(0, 240, 20):
        batch = {"x": x[at:at + 20], "target": labels[at:at + 20]}
        assert ours(**batch)["loss"] == theirs(**batch)["loss"]
    np.testing.assert_array_equal(ours.state["layer.0"], theirs.state["w"])
    np.testing.assert_array_equal(ours.state["layer.1"], theirs.state["b"])


def run_command(*arguments, status=0):
    done = subprocess.run([TENSMITH, "train", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_a_run_is_its_seed_and_goes_on(program, tmp_path):
    path, (x, labels) = program(MLP), samples()
    np.savez(tmp_path / "data.npz", x=x, target=labels)
    common = [path, "--data", tmp_path / "data.npz", "--batch", 20, "--threads", 1]
    states = {}
    for name, more in {"whole": ["--epochs", 4], "again": ["--epochs", 4], "other": ["--epochs", 4, "--seed", 2],
                       "parts": ["--epochs", 4, "--checkpoint-every", 5]}.items():  # fmt: skip
        run_command(*common, *more, "--output", tmp_path / name)
        states[name] = np.load(tmp_path / name / "weights/wide.0.npy")
    np.testing.assert_array_equal(states["whole"], states["again"])
    assert np.abs(states["whole"] - states["other"]).max() > 0.01
    newest = sorted((tmp_path / "parts/checkpoints").glob("*"), key=lambda one: int(one.stem.split("-")[1]))[-1]
    newest.unlink()
    for file in ("model.tsm", "model.so"):
        (tmp_path / "parts" / file).unlink()
    run_command(*common, "--epochs", 4, "--checkpoint-every", 5, "--output", tmp_path / "parts", "--resume")
    np.testing.assert_array_equal(np.load(tmp_path / "parts/weights/wide.0.npy"), states["whole"])
    path.write_text(MLP.replace("relu", "gelu"))
    said = run_command(*common, "--epochs", 5, "--output", tmp_path / "parts", "--resume", status=1).stderr
    assert "the model's file was another" in said


def step_of(path, **options):
    return ts.train_step(path, **{"shapes": {"batch": [6]}, "threads": 1, "learning_rate": 0.1, **options})


def test_what_is_a_parameter(program):
    """Each draw is its own; what is computed from weights isn't one; one that is used twice is one."""
    text = LAYERS + """
let first = dense_weights(12, 12)
let second = dense_weights(12, 12)
let tied = [first, second, first]
let half = 0.5
let last = (dense_weights(12, 3), 2.0)

fn main(x: f32[batch, 12]) = {
  let (weights, scale) = last;
  let x = fold(fn(x, weights) => relu(dense(x, weights)), x, tied);
  scale * dense(x * half, weights)
}
"""
    step = step_of(program(text))
    names = {name for name in step.state if name != "step"}
    assert names == {"first.0", "first.1", "second.0", "second.1", "last.0.0", "last.0.1"}
    assert np.abs(step.state["first.0"] - step.state["second.0"]).max() > 0.1
    only = step_of(program(text), trainable=["last.*"])
    assert {name for name in only.state if name != "step"} == {"last.0.0", "last.0.1"}


def test_batches_are_normalised_and_statistics_move(program):
    text = LAYERS + "let norm = batch_norm_weights(5)\nlet out = dense_weights(5, 3)\nfn main(x: f32[batch, 5]) = dense(batch_normed(x, norm), out)\n"
    step = step_of(program(text))
    x = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32) * 3 + 1
    step(x=x, target=np.arange(6) % 3)
    np.testing.assert_allclose(step.state["norm.2"], 0.1 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(step.state["norm.3"], 0.9 + 0.1 * x.var(0), rtol=1e-5)


def test_dropout_drops_other_elements_at_each_place_and_step(program):
    text = LAYERS + 'let w = load("w.npy")\nlet v = load("w.npy")\nfn main(x: f32[batch, 50]) = '
    text += "{ let (a, b) = (dropped(x * w, 0.5), dropped(x * v, 0.5)); (reduce_sum(a + b, axes = [1]), a, b) }\n"
    path = program(text, w=np.ones(50, np.float32))
    step = step_of(path, loss="mean_squared_error", outputs=["result1", "result2"])
    given = {"x": np.ones((6, 50), np.float32), "target": np.full(6, 100, np.float32)}
    first, second = step(**given), step(**given)
    for a, b in [(first["result1"], first["result2"]), (first["result1"], second["result1"])]:
        assert 0.35 < (a == 0).mean() < 0.65 and 0.3 < ((a == 0) != (b == 0)).mean() < 0.7
    assert (ts.compile(path, threads=1)(given["x"])[1] == 1).all()


@pytest.mark.parametrize("text, message", [
    ("fn main(x: f32[batch, 3]) = x * 2.0\n", "the loss depends on no initialiser that could be trained"),
    (LAYERS + "let w = (broadcast(1.0) : f32[3])\nfn down(x) = if reduce_max(x, axes = [0, 1]) < 1.0 { x } else { down(dropped(x / 2.0, 0.5)) }\n\n"
     "fn main(x: f32[batch, 3]) = down(x * w)\n", "dropout and batch normalisation can't be trained"),
    ('let w = (broadcast(1.0) : f32[3])\nfn main(x: f32[batch, 3]) = x * w * load("v.npy")\n', "'main' loads a tensor and is no parameter"),
    ("let w = (broadcast(1.0) : f32[3])\nfn main(x: f32[batch, 3]) = ([x * w], x)\n", "'result0', which is no tensor of floats"),
])
def test_what_can_not_be_trained(program, text, message):
    with pytest.raises(ts.Error, match=message) as error:
        step_of(program(text, v=np.ones(3, np.float32)))
    assert "net.tsm" in str(error.value)


TREES = """import "tensmith/dense.tsm"

let words = (random_normal(seed = 0) : f32[10, 8])
let inner = dense_weights(16, 8)
let out = dense_weights(8, 2)

// The state of the tree that begins at a token, and the place behind it: -1 has two subtrees, another one is a word.
fn encode(tokens: i64[n], at: i64[]) -> (f32[1, 8], i64[]) = {
  let token = gather(tokens, at, axis = 0);
  if token < 0 {
    let (left, middle) = encode(tokens, at + 1);
    let (right, end) = encode(tokens, middle);
    (tanh(dense(concat(left, right, axis = 1), inner)), end)
  } else {
    ((reshape(gather(words, token, axis = 0)) : f32[1, 8]), at + 1)
  }
}

fn summed(tokens: i64[b, n], labels: i64[b], i: i64[]) -> f32[] =
  if i == size(labels) {
    0.0
  } else {
    let (state, _) = encode(gather(tokens, i, axis = 0), 0);
    let scores = (reshape(log_softmax(dense(state, out), axis = 1)) : f32[2]);
    summed(tokens, labels, i + 1) - gather(scores, gather(labels, i, axis = 0), axis = 0)
  }

fn main(tokens: i64[batch, 9], labels: i64[batch]) = summed(tokens, labels, 0) / cast(size(labels), to = f32)
"""


def trees(count, seed=0):
    """Trees of up to five words, written down from the left; whether the word 7 is among them."""
    rng = np.random.default_rng(seed)

    def tree(words):
        if words == 1:
            return [int(rng.integers(10))]
        left = int(rng.integers(1, words))
        return [-1] + tree(left) + tree(words - left)

    tokens = np.zeros((count, 9), np.int64)
    for row in tokens:
        written = tree(int(rng.integers(1, 6)))
        row[: len(written)] = written
    return tokens, (tokens == 7).any(1).astype(np.int64)


@pytest.mark.parametrize("threads", [1, 2])
def test_recursion_that_the_data_decides(program, threads):
    """The step against tensmith.grad and Adam in NumPy."""
    path, names = program(TREES), ["words", "inner.0", "inner.1", "out.0", "out.1"]
    step = ts.train_step(path, loss="result", optimiser="adam", learning_rate=1e-2, shapes={"batch": [6]}, threads=threads)
    assert {name for name in step.state if name.split(".")[0] in ("words", "inner", "out")} == set(names)
    gradients = ts.grad(path, wrt=names, of="result", shapes={"batch": [6]}, threads=1)
    weights = {name: step.state[name].copy() for name in names}
    mean, square = ({name: np.zeros_like(weights[name]) for name in names} for _ in range(2))
    tokens, labels = trees(40 * 6)
    for number in range(1, 41):
        rows = slice(6 * number - 6, 6 * number)
        ours = step(tokens=tokens[rows], labels=labels[rows])["loss"]
        loss, *changes = gradients(tokens=tokens[rows], labels=labels[rows], **weights)
        np.testing.assert_allclose(ours, loss, rtol=1e-5)
        for name, gradient in zip(names, changes, strict=True):
            mean[name] = 0.9 * mean[name] + 0.1 * gradient
            square[name] = 0.999 * square[name] + 0.001 * gradient**2
            scaled = mean[name] / (1 - 0.9**number) / (np.sqrt(square[name] / (1 - 0.999**number)) + 1e-8)
            weights[name] = (weights[name] - 1e-2 * scaled).astype(np.float32)
    for name in names:
        np.testing.assert_allclose(step.state[name], weights[name], atol=1e-5)


def test_trees_are_learnt(program, tmp_path):
    tokens, labels = trees(300)
    with pytest.warns(RuntimeWarning, match="a recursion that the data decides.*no model.onnx"):
        trained = ts.train(program(TREES), {"tokens": tokens, "labels": labels}, loss="result", optimiser="adam", learning_rate=1e-2, epochs=10, batch=12,
                           validation=0.2, output=str(tmp_path / "run"), progress=False)  # fmt: skip
    assert trained.onnx is None and trained.history[-1]["loss"] < 0.1
    others = trees(30, seed=1)
    assert trained.model(*others) < 0.3
    np.testing.assert_array_equal(ts.compile(trained.program, threads=1)(*others), trained.model(*others))


@pytest.fixture
def forest(program, tmp_path):
    tokens, labels = trees(60)
    np.savez(tmp_path / "trees.npz", tokens=tokens, labels=labels)
    settings = {"data": tmp_path / "trees.npz", "loss": "result", "optimiser": "adam", "learning-rate": 0.01, "threads": 1, "batch": 12}
    return [program(TREES), *(word for name, value in settings.items() for word in (f"--{name}", value)), "--no-tensorboard"]


# Breaks when a state of the step, the optimiser's or the average's, is not written down, or is read while it is written.
@pytest.mark.parametrize("more", [(), ("--ema-decay", 0.9), ("--precision", "bf16")])
def test_a_run_over_trees_goes_on(forest, tmp_path, more):
    common = [*forest, *more, "--epochs", 3, "--checkpoint-every", 4]
    for name in ("whole", "parts"):
        run_command(*common, "--output", tmp_path / name)
    newest = sorted((tmp_path / "parts/checkpoints").glob("*"), key=lambda one: int(one.stem.split("-")[1]))[-1]
    newest.unlink()
    for file in ("model.tsm", "model.so"):
        (tmp_path / "parts" / file).unlink()
    assert "going on from" in run_command(*common, "--output", tmp_path / "parts", "--resume").stderr
    for name in ("words", "inner.0", "inner.1", "out.0", "out.1"):
        ours, whole = (np.load(tmp_path / folder / f"weights/{name}.npy") for folder in ("parts", "whole"))
        np.testing.assert_array_equal(ours, whole)


def test_averages_over_trees(program):
    """The model has the average of the weights after each step: from the first, by a tenth toward each."""
    tokens, labels = trees(6)
    step = ts.train_step(program(TREES), loss="result", optimiser="adam", learning_rate=1e-2, shapes={"batch": [6]}, threads=1, ema_decay=0.9)
    average = step.state["ema.words"].astype(np.float64)
    for _ in range(5):
        step(tokens=tokens, labels=labels)
        average = 0.9 * average + 0.1 * step.state["words"]
    np.testing.assert_allclose(step.state["ema.words"], average, rtol=1e-5, atol=1e-6)
    assert np.abs(step.state["ema.words"] - step.state["words"]).max() > 1e-3


def test_trees_in_bf16(program):
    """What stands in procedures is in f32 (docs/training.md), so the bits are those of f32."""
    tokens, labels = trees(48)
    losses = {}
    for precision in ("fast", "bf16"):
        step = ts.train_step(program(TREES), loss="result", optimiser="adam", learning_rate=1e-2, shapes={"batch": [12]}, threads=1, precision=precision)
        assert step.state["inner.0"].dtype == np.float32
        losses[precision] = [float(step(tokens=tokens[at:at + 12], labels=labels[at:at + 12])["loss"]) for _ in range(12) for at in range(0, 48, 12)]
    np.testing.assert_array_equal(losses["bf16"], losses["fast"])
    assert losses["bf16"][-1] < 0.7 * losses["bf16"][0]


@pytest.mark.parametrize("given", [{"memory": "1GiB"}, {"recomputation": "segments"}, {"memory": 1000, "recomputation": "recursive"}])
def test_recursion_takes_no_budget(program, given):
    with pytest.raises(ts.Error) as error:
        step_of(program(TREES), loss="result", **given)
    assert str(error.value).count("\n") == 0
    assert "code alone, since procedures take it as they run" in str(error.value)
    assert "leave out memory and recomputation" in str(error.value)


def test_a_size_that_is_not_there(program):
    with pytest.raises(ts.Error, match="main's types name no size 'lenght'"):
        step_of(program(MLP), shapes={"lenght": [3]})
    model = ts.compile(program(MLP), shapes={"batch": [2]}, threads=1)
    assert model(np.zeros((2, 12), np.float32)).shape == (2, 3)


def test_the_example_is_trained(tmp_path):
    """examples/fashion/train/network.tsm on pictures made here."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 10, 128)
    images = (rng.integers(0, 90, (128, 1, 28, 28)) + 15 * labels[:, None, None, None]).astype(np.uint8)
    trained = ts.train(ROOT / "examples/fashion/train/network.tsm", (images, labels), epochs=8, batch=32, optimiser="adam", learning_rate=1e-3, log_every=1,
                       output=str(tmp_path / "run"), progress=False)  # fmt: skip
    losses = [line["loss"] for line in trained.history if line["kind"] == "train"]
    assert losses[-1] < losses[0]
    assert json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[0])


# Breaks when what is written, in one file, has the program's names mean something in the library's functions.
def test_a_layer_with_an_operators_name(program, tmp_path):
    net = program(LAYERS + "let conv = conv2d_weights(1, 4, 3)\nlet tanh = dense_weights(144, 3)\n"
                  "fn main(x: f32[batch, 12, 12]) = dense(flatten(relu(conv2d((reshape(x) : f32[batch, 1, 12, 12]), conv, 2, 1))), tanh)\n")
    x, labels = samples(60, size=144)
    trained = ts.train(net, (x.reshape(60, 12, 12), labels), epochs=1, batch=20, output=str(tmp_path / "run"), progress=False)
    assert {"conv.0", "conv.1", "tanh.0"} <= set(trained.state)
    assert "graph.conv(" in pathlib.Path(trained.program).read_text()
    given = x[:7].reshape(7, 12, 12)
    np.testing.assert_array_equal(ts.compile(trained.program, threads=1)(given), trained.model(given))


# Breaks when a run writes over what the program was made of, or removes what it didn't write.
def test_what_a_program_names_is_not_written_over(program, tmp_path):
    (tmp_path / "weights").mkdir()
    first = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    np.save(tmp_path / "weights/w.npy", first)
    np.save(tmp_path / "weights/other.npy", first)
    net = program('let w = load("weights/w.npy")\nfn main(x: f32[batch, 12]) = matmul(x, w)')
    given = {"epochs": 1, "batch": 20, "progress": False}
    for overwrite in (False, True):
        with pytest.raises(ts.Error, match="give another --output"):
            ts.train(net, samples(), output=str(tmp_path), overwrite=overwrite, **given)
    np.testing.assert_array_equal(np.load(tmp_path / "weights/w.npy"), first)
    run = tmp_path / "run"
    ts.train(net, samples(), output=str(run), **given)
    np.save(run / "weights/mine.npy", first)
    ts.train(net, samples(), output=str(run), overwrite=True, **given)
    assert {path.name for path in (run / "weights").iterdir()} == {"w.npy", "mine.npy"}


# Breaks when a number that is not finite is written down as no number of the language.
def test_a_mask_of_minus_infinity_stays_one(program, tmp_path):
    weights = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    net = program('let w = (load("w.npy"), load("least.npy"))\n'
                  "fn main(x: f32[batch, 12]) = { let (v, least) = w; max(matmul(x, v), least) }",
                  w=weights, least=np.float32(-np.inf))  # fmt: skip
    trained = ts.train(net, samples(), epochs=1, batch=20, output=str(tmp_path / "run"), progress=False)
    x, _ = samples(10, seed=2)
    np.testing.assert_allclose(ts.compile(trained.program)(x), x @ trained.state["w.0"], rtol=1e-4, atol=1e-5)
