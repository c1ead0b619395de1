"""Random operators: other numbers in each run where no seed is given, the same where one is, in the model or from outside.

In every form: compiled, without fusion, by reference, on one and two threads, in loops, under differentiation, in a training step and in
programs. What would break these: a draw that is folded, merged with another one, moved out of a loop, or made twice.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

tensmith = pytest.importorskip("tensmith")

FORMS = [{}, {"fuse": False}, {"reference": True}, {"threads": 2}]
SIZE = 64


def model(nodes, outputs, constants=(), shape=(SIZE,), opset=17):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, list(shape))],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


def one(op, **attributes):
    inputs = [] if op in ("RandomNormal", "RandomUniform") else ["x"]
    if op == "Dropout":
        inputs = ["x", "half", "yes"]
    if not inputs:
        attributes["shape"] = [SIZE]
    shape = (8, 5) if op == "Multinomial" else (SIZE,)
    kind = T.INT32 if op == "Multinomial" else T.FLOAT
    constants = {"half": np.float32(0.5), "yes": np.array(True)} if op == "Dropout" else {}
    if op == "Multinomial":
        attributes["sample_size"] = 16
    x = np.full(shape, 0.5, np.float32)
    return model([helper.make_node(op, inputs, ["y"], **attributes)], [("y", kind)], constants, shape), x


OPERATORS = ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"]


def seeded(op, seed):
    return {"seed": seed if op == "Dropout" else float(seed)}


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("op", OPERATORS)
def test_fresh_without_a_seed(op, form):
    text, x = one(op)
    first, second = tensmith.compile(text, **form), tensmith.compile(text, **form)
    draws = [np.array(m(x)) for m in (first, first, first, second, second)]
    for i, draw in enumerate(draws):
        for other in draws[:i]:
            assert (draw != other).any()


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("op", OPERATORS)
def test_the_seed_of_the_model(op, form):
    text, x = one(op, **seeded(op, 7))
    other, _ = one(op, **seeded(op, 8))
    compiled = tensmith.compile(text, **form)
    want = np.array(compiled(x))
    np.testing.assert_array_equal(compiled(x), want)
    np.testing.assert_array_equal(tensmith.compile(text)(x), want)
    assert (np.array(tensmith.compile(other, **form)(x)) != want).any()


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("op", OPERATORS)
def test_a_seed_from_outside(op, form):
    """The same numbers in every form, with or without kernels."""
    text, x = one(op)
    compiled = tensmith.compile(text, seed=3, **form)
    want = np.array(compiled(x))
    np.testing.assert_array_equal(compiled(x), want)
    np.testing.assert_array_equal(tensmith.compile(text, seed=3)(x), want)
    compiled.seed = -1
    assert (np.array(compiled(x)) != want).any()
    compiled.seed = 3
    np.testing.assert_array_equal(compiled(x), want)
    compiled.seed = None
    assert (np.array(compiled(x)) != np.array(compiled(x))).any()


def test_distributions():
    """Moments of many draws, each run another sample."""
    nodes = [helper.make_node("RandomNormal", [], ["n"], shape=[20000], mean=2.0, scale=3.0), helper.make_node("RandomUniform", [], ["u"], shape=[20000], low=-1.0, high=3.0)]
    compiled = tensmith.compile(model(nodes, [("n", T.FLOAT), ("u", T.FLOAT)]))
    x = np.zeros(SIZE, np.float32)
    for _ in range(3):
        n, u = compiled.run(x)
        assert abs(n.mean() - 2) < 0.1 and abs(n.std() - 3) < 0.1
        assert abs(u.mean() - 1) < 0.05 and u.min() >= -1 and u.max() < 3


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_nodes_draw_apart(form):
    """Two nodes that say the same are two draws, and one node is one for all who read it."""
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["a"]), helper.make_node("RandomNormalLike", ["x"], ["b"]),
             helper.make_node("Sub", ["a", "b"], ["y"]), helper.make_node("Neg", ["a"], ["c"]), helper.make_node("Add", ["a", "c"], ["z"])]  # fmt: skip
    y, z = tensmith.compile(model(nodes, [("y", T.FLOAT), ("z", T.FLOAT)]), **form).run(np.zeros(SIZE, np.float32))
    assert np.abs(y).min() > 0
    assert (z == 0).all()


def loop_model(trips, inner=1):
    """Sums of draws: `trips` iterations, each of a loop of `inner` that draws."""
    vi = helper.make_tensor_value_info
    body = [helper.make_node("RandomNormalLike", ["c"], ["r"]), helper.make_node("Add", ["c", "r"], ["d"])]
    inner_graph = helper.make_graph([*body, helper.make_node("Identity", ["k"], ["ko"])], "inner",
                                    [vi("j", T.INT64, []), vi("k", T.BOOL, []), vi("c", T.FLOAT, [SIZE])],
                                    [vi("ko", T.BOOL, []), vi("d", T.FLOAT, [SIZE]), vi("r", T.FLOAT, [SIZE])])  # fmt: skip
    outer = helper.make_graph(
        [helper.make_node("Loop", ["inner", "", "p"], ["q", "rows"], body=inner_graph), helper.make_node("Identity", ["go"], ["goo"])], "outer",
        [vi("i", T.INT64, []), vi("go", T.BOOL, []), vi("p", T.FLOAT, [SIZE])],
        [vi("goo", T.BOOL, []), vi("q", T.FLOAT, [SIZE]), vi("rows", T.FLOAT, [inner, SIZE])])  # fmt: skip
    return model([helper.make_node("Loop", ["trips", "", "x"], ["y", "all"], body=outer)], [("y", T.FLOAT), ("all", T.FLOAT)],
                 {"trips": np.array(trips), "inner": np.array(inner)})  # fmt: skip


@pytest.mark.parametrize("trips", [3, 40])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_iterations_draw_apart(form, trips):
    """Also where the loop is straightened."""
    compiled = tensmith.compile(loop_model(trips, 2), seed=5, **form)
    x = np.zeros(SIZE, np.float32)
    y, rows = compiled.run(x)
    rows = np.array(rows).reshape(-1, SIZE)
    assert len({row.tobytes() for row in rows}) == len(rows) == 2 * trips
    np.testing.assert_allclose(y, rows.sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(tensmith.compile(loop_model(trips, 2), seed=5).run(x)[1].reshape(-1, SIZE), rows)
    compiled.seed = None
    assert (compiled.run(x)[1] != compiled.run(x)[1]).any()


@pytest.mark.parametrize("trips", [3, 40])
@pytest.mark.parametrize("form", FORMS[:3], ids=str)
def test_a_loop_backward_sees_the_same_draw(form, trips):
    """c becomes c * r in each iteration: the derivative is the product of what was drawn."""
    vi = helper.make_tensor_value_info
    body = helper.make_graph([helper.make_node("RandomUniformLike", ["c"], ["r"], low=0.9, high=1.1), helper.make_node("Mul", ["c", "r"], ["d"]), helper.make_node("Identity", ["k"], ["ko"])], "b",
                             [vi("j", T.INT64, []), vi("k", T.BOOL, []), vi("c", T.FLOAT, [SIZE])], [vi("ko", T.BOOL, []), vi("d", T.FLOAT, [SIZE])])  # fmt: skip
    text = model([helper.make_node("Loop", ["trips", "", "x"], ["z"], body=body), helper.make_node("ReduceSum", ["z"], ["y"], keepdims=0)], [("y", T.FLOAT), ("z", T.FLOAT)], {"trips": np.array(trips)})
    compiled = tensmith.grad(text, wrt=["x"], of="y", **form)
    x = np.full(SIZE, 2, np.float32)
    for _ in range(2):
        _, z, gradient = compiled(x)
        np.testing.assert_allclose(gradient, z / x, rtol=1e-4)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_dropout_backward_drops_the_same(form):
    nodes = [helper.make_node("Dropout", ["x", "half", "yes"], ["d", "mask"]), helper.make_node("ReduceSum", ["d"], ["y"], keepdims=0)]
    text = model(nodes, [("y", T.FLOAT), ("mask", T.BOOL)], {"half": np.float32(0.5), "yes": np.array(True)})
    compiled = tensmith.grad(text, wrt=["x"], of="y", **form)
    masks = set()
    for _ in range(3):
        _, mask, gradient = compiled(np.ones(SIZE, np.float32))
        np.testing.assert_array_equal(gradient, np.where(mask, 2, 0))
        masks.add(np.array(mask).tobytes())
    assert len(masks) == 3


def test_a_training_step_draws_by_its_number(tmp_path):
    """Noise on the weights: steps differ, and a run that begins anew draws what the first one drew."""
    vi = helper.make_tensor_value_info
    nodes = [helper.make_node("RandomNormalLike", ["w"], ["noise"]), helper.make_node("Add", ["w", "noise"], ["v"]), helper.make_node("Mul", ["x", "v"], ["p"]),
             helper.make_node("ReduceSum", ["p"], ["loss"], keepdims=0)]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [vi("x", T.FLOAT, [SIZE])], [vi("loss", T.FLOAT, [])], [onnx.numpy_helper.from_array(np.zeros(SIZE, np.float32), "w")])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    x = np.ones(SIZE, np.float32)

    def losses():
        step = tensmith.train_step(path, loss="loss", learning_rate=0.0)
        return [float(step(x=x)["loss"]) for _ in range(4)]

    first = losses()
    assert len(set(first)) == 4
    assert losses() == first


PROGRAM = """fn noisy(x: f32[n], key: i64[]) = x + (random_normal(key, seed = 1) : f32[n])
fn main(x: f32[n]) = (noisy(x, run_key()), noisy(x, run_key() + 1))
"""


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_program(form, tmp_path):
    path = tmp_path / "p.tsm"
    path.write_text(PROGRAM)
    x = np.zeros(SIZE, np.float32)
    compiled = tensmith.compile(path, seed=4, **form)
    a, b = map(np.array, compiled.run(x))
    assert (a != b).all()
    for got, want in zip(tensmith.compile(path, seed=4).run(x), (a, b), strict=True):
        np.testing.assert_array_equal(got, want)
    compiled.seed = None
    assert (np.array(compiled.run(x)[0]) != np.array(compiled.run(x)[0])).any()


BINARY = pathlib.Path(os.environ.get("TENSMITH_BUILD", "build/dev")) / "bin/tensmith"


@pytest.mark.skipif(not BINARY.exists(), reason="no command line is built")
@pytest.mark.parametrize("name", ["m.onnx", "p.tsm"])
@pytest.mark.parametrize("more", [[], ["--reference"]], ids=str)
def test_command_line(name, more, tmp_path):
    path = tmp_path / name
    path.write_bytes(one("RandomNormalLike")[0] if name == "m.onnx" else PROGRAM.encode())
    np.save(tmp_path / "x.npy", np.zeros(SIZE, np.float32))

    def run(*arguments):
        said = subprocess.run([BINARY, "run", path, "-i", f"x={tmp_path / 'x.npy'}", "--json", *arguments], capture_output=True, text=True, timeout=300, check=True)
        return said.stdout

    assert run("--seed", "1", *more) == run("--seed", "1")
    assert run("--seed", "1", *more) != run("--seed", "2", *more)
    assert run(*more) != run(*more)


def test_after_a_fork():
    """The child of a process does not draw what its parent draws."""
    text, x = one("RandomNormalLike")
    code = f"""
import os, sys, numpy as np, tensmith
m = tensmith.compile(bytes.fromhex("{text.hex()}"), threads=1)
x = np.zeros({SIZE}, np.float32)
m(x)
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, np.array(m(x)).tobytes())
    os._exit(0)
mine = np.array(m(x)).tobytes()
assert os.read(read, len(mine)) != mine
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_onnxruntime_interface():
    import tensmith.ort as ort
    from tensmith.ort import session

    text, x = one("RandomNormalLike")
    runs = lambda: [s.run(None, {"x": x})[0] for s in [ort.InferenceSession(text)] for _ in range(2)]
    try:
        ort.set_seed(11)
        first, second = runs()
        assert (first != second).any()
        np.testing.assert_array_equal(runs(), [first, second])
    finally:
        session._default_seed = None
    assert (runs()[0] != first).any()
