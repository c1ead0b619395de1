"""Tables of which a step reads few rows: these alone are updated, by every optimiser that allows it, and as its definition says."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

ts = pytest.importorskip("tensmith")

ROWS, SIZE, RATE = 37, 3, 0.0625


def model(rows=ROWS, size=SIZE, twice=False, element=TensorProto.FLOAT):
    """y = table[ids] * scale, whose loss is the mean of squares; `twice`: plus table[others]."""
    table = np.random.default_rng(0).normal(size=(rows, size)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"])]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 2])]
    if twice:
        nodes += [helper.make_node("Gather", ["table", "others"], ["more"]), helper.make_node("Add", ["rows", "more"], ["sum"])]
        inputs.append(helper.make_tensor_value_info("others", TensorProto.INT64, ["n", 2]))
    nodes.append(helper.make_node("Mul", ["sum" if twice else "rows", "scale"], ["y"]))
    made = lambda name, value: helper.make_tensor(name, element, value.shape, value.ravel().tolist())  # noqa: E731
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", element, ["n", 2, size])],
                              [made("table", table), made("scale", np.linspace(0.5, 1.5, size, dtype=np.float32))])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(), table


BATCHES = [np.array([[3, 36], [3, -1], [0, 5]]), np.array([[1, 1]]), np.array([[3, 7], [36, 3]]), np.array([[-37, 2], [0, 0]])]


def velocity(nesterov):
    def update(p, g, slots, rate, step):
        slots["velocity"][...] = 0.9 * slots["velocity"] + g
        return p - rate * (g + 0.9 * slots["velocity"] if nesterov else slots["velocity"])

    return update


def adagrad(p, g, slots, rate, step):
    slots["square"] += g * g
    return p - rate * g / (np.sqrt(slots["square"]) + 1e-10)


def rmsprop(p, g, slots, rate, step):
    slots["square"][...] = 0.99 * slots["square"] + 0.01 * g * g
    return p - rate * g / (np.sqrt(slots["square"]) + 1e-8)


def adam(p, g, slots, rate, step):
    slots["mean"][...] = 0.9 * slots["mean"] + 0.1 * g
    slots["square"][...] = 0.999 * slots["square"] + 0.001 * g * g
    return p - rate * slots["mean"] / (1 - 0.9**step) / (np.sqrt(slots["square"] / (1 - 0.999**step)) + 1e-8)


OPTIMISERS = {
    "sgd": (lambda p, g, slots, rate, step: p - rate * g, ()),
    "adagrad": (adagrad, ["square"]),
    "momentum": (velocity(False), ["velocity"]),
    "nesterov": (velocity(True), ["velocity"]),
    "rmsprop": (rmsprop, ["square"]),
    "adam": (adam, ["mean", "square"]),
    "adamw": (lambda p, g, slots, rate, step: adam(p * (1 - rate * 0.01), g, slots, rate, step), ["mean", "square"]),
}
LAZY = ["momentum", "nesterov", "rmsprop", "adam", "adamw"]


def follow(step, table, optimiser, lazy, twice=False, decay=0.0, clip=None):
    """Goes along with the definition, of all rows or of those that were read."""
    update, names = OPTIMISERS[optimiser]
    p = table.astype(np.float64)
    slots = {name: np.zeros_like(p) for name in names}
    scale = np.linspace(0.5, 1.5, p.shape[1])
    for i, ids in enumerate(BATCHES):
        given = {"ids": ids} | ({"others": ids[::-1] // 2} if twice else {})
        y = sum(p[places] for places in given.values()) * scale
        target = np.full(y.shape, 0.25, np.float32)
        step(**given, target=target)
        g = np.zeros_like(p)
        for places in given.values():
            np.add.at(g, places, 2 * (y - target) * scale / y.size)
        if clip:
            g *= min(1, clip / (np.sqrt((g * g).sum()) + 1e-6))
        read = np.unique(np.concatenate([places.ravel() for places in given.values()]) % len(p)) if lazy else np.arange(len(p))
        g += decay * p
        own = {name: slot[read] for name, slot in slots.items()}
        p[read] = update(p[read], g[read], own, RATE, i + 1)
        for name, slot in slots.items():
            slot[read] = own[name]
            np.testing.assert_allclose(step.state[f"{name}.table"], slot, rtol=2e-4, atol=1e-6)
        np.testing.assert_allclose(step.state["table"], p, rtol=2e-4, atol=2e-5)


def by_rows(step):
    """Whether all that is made of the whole table are rows that are written back."""
    assert all(state["in_place"] for state in step.describe()["states"]), step.describe()["states"]
    return sum("scatter" in kernel["label"] or "scatter" in str(kernel.get("kind", "")) for kernel in step.describe()["kernels"])


# Breaks when a row that comes twice is updated twice, a negative index is another row, a row that was not read moves, or
# a slot's row is another's.
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("optimiser", LAZY)
def test_lazy_rows_follow_their_definition(optimiser, twice):
    data, table = model(twice=twice)
    step = ts.train_step(data, "mean_squared_error", optimiser, learning_rate=RATE, lazy_rows=1, trainable=["table"])
    assert by_rows(step)
    follow(step, table, optimiser, lazy=True, twice=twice)


# Breaks when clipping or decay sees other gradients than those of the rows that were read.
@pytest.mark.parametrize("optimiser", ["momentum", "adam"])
@pytest.mark.parametrize("settings", [{"clip": 0.05}, {"decay": 0.1}, {"clip": 0.05, "decay": 0.1}])
def test_clipping_and_decay_of_rows(optimiser, settings):
    data, table = model()
    names = {"clip": "clip_norm", "decay": "weight_decay"}
    step = ts.train_step(data, "mean_squared_error", optimiser, learning_rate=RATE, lazy_rows=1, trainable=["table"],
                         **{names[name]: value for name, value in settings.items()})  # fmt: skip
    assert by_rows(step)
    follow(step, table, optimiser, lazy=True, **settings)


# Breaks when an optimiser that leaves rows without a gradient alone goes through all of them, or one that doesn't leaves them.
@pytest.mark.parametrize("optimiser, settings, rows", [
    ("adagrad", {}, True), ("adagrad", {"clip": 0.05}, True), ("sgd", {"clip": 0.05}, True), ("adagrad", {"decay": 0.1}, False),
    ("adam", {}, False),
])  # fmt: skip
def test_all_rows_follow_the_definition(optimiser, settings, rows):
    data, table = model()
    names = {"clip": "clip_norm", "decay": "weight_decay"}
    step = ts.train_step(data, "mean_squared_error", optimiser, learning_rate=RATE, trainable=["table"],
                         **{names[name]: value for name, value in settings.items()})  # fmt: skip
    follow(step, table, optimiser, lazy=False, **settings)
    assert ("unique" in json.dumps(step.describe()["functions"])) == rows


# Breaks when a step of a large table holds, or goes through, more than the rows that it reads.
@pytest.mark.parametrize("optimiser", [*LAZY, "adagrad"])
def test_a_step_holds_its_rows_alone(optimiser):
    rows, size = 20000, 16
    data, _ = model(rows, size)
    settings = {"lazy_rows": 1} if optimiser in LAZY else {}
    step = ts.train_step(data, "mean_squared_error", optimiser, learning_rate=RATE, trainable=["table"], shapes={"n": 50}, **settings)
    described = step.describe()
    assert all(state["in_place"] for state in described["states"])
    assert described["functions"][0]["arena_bytes"] < 12 * 100 * size * 4 < rows * size * 4


# Breaks when an optimiser that looks at a whole tensor is applied to rows of it.
def test_what_is_no_update_of_rows(tmp_path):
    program = "let lazy_rows = 1.0\nfn update(parameter, gradient, sum, learning_rate) = {\n" \
              "  let all = reduce_sum(gradient * gradient, axes = [0], keepdims = true);\n" \
              "  (parameter - learning_rate * gradient / (all + 1.0), sum + gradient)\n}\n"  # fmt: skip
    (tmp_path / "norm.tsm").write_text(program)
    data, _ = model()
    with pytest.raises(ts.Error, match="norm.tsm: rows can't be updated one by one"):
        ts.train_step(data, "mean_squared_error", tmp_path / "norm.tsm", learning_rate=RATE, trainable=["table"])
    with pytest.raises(ts.Error, match="has a setting 'lazy_rows'"):
        ts.train_step(data, "mean_squared_error", "lamb", learning_rate=RATE, lazy_rows=1, trainable=["table"])


# Programs, of a parameter and a gradient, that say how much of the gradient is taken, and what makes the rows of a table, taken out
# of it, other than they are in it.
BY_MORE = {
    "count": ("let n = cast(reduce_sum(cast(gradient > 0.0, to = i64), axes = [0, 1], keepdims = true), to = f32);", "1.0 / (n + 1.0)"),
    "wide": ("let n = narrow(reduce_sum(wide(gradient), axes = [0, 1], keepdims = true));", "n"),
    "places": ("let n = cast(places(gradient), to = f32);", "n"),
    "column": ("let n = cast(column(gradient), to = f32);", "n"),
    "last": ("let n = cast(reduce_max(places(gradient), axes = [0, 1], keepdims = true), to = f32);", "n"),
    "flat": ("let n = cast(reduce_max(flat(places(gradient)), axes = [0]), to = f32);", "n"),
    "noise": ("let n = noise(gradient);", "n"),
    "loaded": ("let n = numbers;", "n"),
    "size": ("let n = cast(size(gradient), to = f32);", "n"),
}
DECLARED = """let numbers = load("numbers.npy")
fn wide(x: f32[a, b]) = cast(x, to = f64)
fn narrow(x: f64[a, b]) = cast(x, to = f32)
fn places(x: f32[a, b]) = (iota(axis = 0) : i64[a, b])
fn flat(x: i64[a, b]) = (reshape(x) : i64[a * b])
fn column(x: f32[a, b]) = (iota(axis = 0) : i64[a, 1])
fn noise(x: f32[a, b]) = (random_normal(seed = 3) : f32[a, b])
"""


def written(tmp_path, name, lazy=False):
    made, factor = BY_MORE[name]
    np.save(tmp_path / "numbers.npy", np.ones((ROWS, 1), np.float32))
    (tmp_path / "own.tsm").write_text(("let lazy_rows = 1.0\n" if lazy else "") + DECLARED +
        f"fn update(parameter, gradient, sum, learning_rate) = {{\n  {made}\n"
        f"  (parameter - learning_rate * gradient * {factor}, sum + gradient)\n}}\n")  # fmt: skip
    return tmp_path / "own.tsm"


# Breaks when what depends on other rows, their number or places goes by rows, as it would by another type, no operand, or no open size.
@pytest.mark.parametrize("shapes", [{}, {"n": 2}])
@pytest.mark.parametrize("name", BY_MORE)
def test_what_needs_all_rows_gets_them(tmp_path, name, shapes):
    data, _ = model()
    settings = {"learning_rate": RATE, "trainable": ["table"], "shapes": shapes}
    step = ts.train_step(data, "mean_squared_error", written(tmp_path, name), **settings)
    assert "unique" not in json.dumps(step.describe()["functions"])
    with pytest.raises(ts.Error, match="own.tsm: rows can't be updated one by one"):
        ts.train_step(data, "mean_squared_error", written(tmp_path, name, lazy=True), **settings)


# Breaks when the numbers of such an update are those of the rows that were read.
@pytest.mark.parametrize("name, factor", [
    ("count", lambda g: 1 / ((g > 0).sum() + 1)), ("wide", lambda g: g.sum()), ("places", lambda g: np.arange(ROWS)[:, None]),
])  # fmt: skip
def test_all_rows_count(tmp_path, name, factor):
    data, table = model()
    step = ts.train_step(data, "mean_squared_error", written(tmp_path, name), learning_rate=RATE, trainable=["table"])
    scale = np.linspace(0.5, 1.5, SIZE)
    step(ids=BATCHES[0], target=np.zeros((3, 2, SIZE), np.float32))
    g = np.zeros(table.shape)
    np.add.at(g, BATCHES[0], 2 * table[BATCHES[0]] * scale * scale / (6 * SIZE))
    np.testing.assert_allclose(step.state["table"], table - RATE * g * factor(g), rtol=1e-5, atol=1e-6)


# Breaks when columns and numbers, which are the same for each row, are taken for what needs all of them.
def test_columns_go_by_rows(tmp_path):
    np.save(tmp_path / "weights.npy", np.arange(1, 1 + SIZE, dtype=np.float32))
    (tmp_path / "own.tsm").write_text("let rate = 0.5\nlet weights = load(\"weights.npy\")\nfn update(parameter, gradient, square, learning_rate) = {\n"
        "  let s = square + gradient * gradient;\n\n"
        "  (parameter - rate * learning_rate * (gradient * weights) / (sqrt(s) + 1.0), s)\n}\n")  # fmt: skip
    data, _ = model()
    step = ts.train_step(data, "mean_squared_error", tmp_path / "own.tsm", learning_rate=RATE, trainable=["table"])
    assert "unique" in json.dumps(step.describe()["functions"])


# Breaks when a program's answer is looked for before it is evaluated, and taken for no.
@pytest.mark.parametrize("lazy", ["2.0 - 1.0", "one", "true"])
def test_lazy_rows_is_a_number(tmp_path, lazy):
    (tmp_path / "own.tsm").write_text(f"let one = 1.0\nlet lazy_rows = {lazy}\n"
        "fn update(parameter, gradient, learning_rate) = parameter - learning_rate * gradient\n")  # fmt: skip
    with pytest.raises(ts.Error, match=r"own.tsm:2: lazy_rows must be written as a number"):
        ts.train_step(model()[0], "mean_squared_error", tmp_path / "own.tsm", learning_rate=RATE, trainable=["table"])


# Breaks when rows of 16 bits, which no kernel writes in place, are left out, or those of f64 are rounded.
@pytest.mark.parametrize("element, tolerance", [(TensorProto.DOUBLE, 1e-12), (TensorProto.FLOAT16, None)])
def test_other_types(element, tolerance):
    data, table = model(element=element)
    step = ts.train_step(data, "mean_squared_error", "adagrad", learning_rate=RATE, trainable=["table"])
    before = step.state["table"].copy()
    step(ids=BATCHES[0], target=np.zeros((3, 2, SIZE), before.dtype))
    moved = (step.state["table"] != before).any(1)
    assert sorted(np.flatnonzero(moved)) == [0, 3, 5, 36]
    if tolerance:
        y = before[BATCHES[0]] * np.linspace(0.5, 1.5, SIZE, dtype=np.float32)
        g = np.zeros_like(before)
        np.add.at(g, BATCHES[0], 2 * y * np.linspace(0.5, 1.5, SIZE, dtype=np.float32) / y.size)
        np.testing.assert_allclose(step.state["table"], before - RATE * g / (np.abs(g) + 1e-10), rtol=1e-9)
