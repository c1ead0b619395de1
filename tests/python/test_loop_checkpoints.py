"""Gradients of loops of graphs, from some of their states alone: the same bits as from all of them, in memory that grows as the root of their length, or its logarithm."""

import math
import os
import pathlib
import runpy
import subprocess

import numpy as np
import pytest
import tensmith as ts

onnx = pytest.importorskip("onnx")

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
BENCH = runpy.run_path(str(ROOT / "bench/checkpoints"))
PLANS = ("segments", "recursive")
F32, F64, I64, BOOL = 1, 11, 7, 9  # as ONNX numbers them


def gradients(model, wrt, of="result", plans=("all", *PLANS), **settings):
    given = {"all": {}, **{plan: {"recomputation": plan} for plan in PLANS}}
    return {plan: ts.grad(model, wrt, of, threads=1, seed=5, cache_dir="", **settings, **given[plan]) for plan in plans}


def assert_same_bits(models, given):
    kept = models["all"].run(**given)
    for plan, model in models.items():
        for port, ours, theirs in zip(model.outputs, model.run(**given), kept, strict=True):
            assert ours.tobytes() == theirs.tobytes(), (plan, port["name"])
    return kept


def onnx_model(graph):
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8).SerializeToString()


# Breaks when a leaf's sums begin anew, when rows of another iteration are read, or when what is gone back through first is summed up first.
@pytest.mark.parametrize("kind, by, lengths", [("onnx scan", ["w", "xs", "h0"], (1, 64, 65, 330)), ("onnx loop", ["w", "x"], (0, 1, 65, 330)),
                                               ("onnx lstm", ["w", "r", "b", "xs"], (3, 16, 250)), ("onnx gru", ["w", "r", "b", "xs"], (5, 170))])  # fmt: skip
def test_gradients_have_the_same_bits(kind, by, lengths, tmp_path):
    models = gradients(BENCH["written"](kind, tmp_path), by)
    for length in lengths:
        kept = assert_same_bits(models, BENCH["inputs"](models["all"], kind, length))
        assert all(np.isfinite(value).all() for value in kept)
        assert length == 0 or np.abs(kept[1]).max() > 0


# Breaks when rows of a loop in parts, which only dead code of the layer reads, are kept from part to part: as many as there are iterations.
@pytest.mark.parametrize("plan", PLANS)
def test_rows_that_nobody_reads_are_not_kept(plan, tmp_path):
    gradients(BENCH["written"]("onnx lstm", tmp_path), ["w", "r", "b"], plans=(plan,), dump_ir=tmp_path / "ir")
    text = next((tmp_path / "ir").glob("00-*.mlir")).read_text()
    assert "!graph.sequence<tensor<8x64xf32>>" in text and "!graph.sequence<tensor<?x" not in text


# Breaks when parts that are run again carry a sum that only the way there gives, or the sum at the start of each part is kept for them.
def test_sums_that_the_way_back_has_no_use_for_are_not_kept(tmp_path):
    gradients(BENCH["written"]("onnx scan", tmp_path), ["w"], plans=("segments",), dump_ir=tmp_path / "ir")
    before, after = (next((tmp_path / "ir").glob(f"*-{stage}.mlir")).read_text() for stage in ("imported", "merge-scans"))
    assert "!graph.sequence<tensor<f32>>" in before and "!graph.sequence<tensor<f32>>" not in after


# Breaks when a layer's input, whose derivative nobody asks for, is copied, as to fill up its last group of steps.
def test_an_input_without_a_derivative_is_read_where_it_lies(tmp_path):
    length = 8000
    taken = BENCH["apart"](BENCH["peak"], "onnx lstm", "recursive", length, str(tmp_path))["mb"]
    assert taken < length * 8 * 64 * 4 / 1e6 / 2  # half of what the input takes


class Drawn:
    """A Loop with a body drawn at random: two states, weights and rows from outside, draws, what is stacked, a condition that may end it.

    Products have more than 1,024 multiply-adds, so that no plan makes one kernel of a whole loop, which sums up in another order."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.rows, self.columns = [], *(int(size) for size in self.random.integers(12, 18, 2))
        self.shapes = {"a": (self.rows, self.columns), "b": (self.columns,), "v": (self.columns,)}
        self.node("Gather", ["xs", "i"], (self.columns,), axis=0)
        self.node("Cast", ["i"], (), to=F32)
        for _ in range(self.random.integers(3, 9)):
            self.step()
        self.next = [self.node("Tanh", [self.pick(shape)], shape) for shape in ((self.rows, self.columns), (self.columns,))]
        self.stacked = self.pick((self.columns,))
        self.stops = bool(self.random.integers(2))

    def node(self, op, inputs, of, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append((op, inputs, [name], attributes))
        self.shapes[name] = of
        return name

    def pick(self, shape):
        return str(self.random.choice([name for name, own in self.shapes.items() if own == shape]))

    def step(self):
        name = str(self.random.choice(list(self.shapes)))
        shape = self.shapes[name]
        kind = self.random.integers(6)
        if kind == 0:
            self.node(str(self.random.choice(["Sin", "Tanh", "Neg", "Sigmoid"])), [name], shape)
        elif kind in (1, 2) and len(shape) == 2:
            self.node("MatMul", [name, "w"], shape)
        elif kind == 3 and len(shape) == 2:
            mask = self.node("RandomUniform", [], shape, shape=shape, dtype=F32, high=2.0)
            self.node("Mul", [name, mask], shape)
        elif kind == 4 and len(shape) == 2:
            self.node("ReduceMean", [name, "first"], shape[1:], keepdims=0)
        else:
            other = str(self.random.choice(list(self.shapes)))
            self.node(str(self.random.choice(["Add", "Sub", "Mul"])), [name, other], np.broadcast_shapes(shape, self.shapes[other]))

    def model(self):
        ends = [("Less", ["i", "end"], ["on"], {})] if self.stops else [("Identity", ["go"], ["on"], {})]
        step = BENCH["body"]("step", self.nodes + ends + [("Identity", [self.stacked], ["row"], {})],
                             [("i", I64), ("go", BOOL), ("a", F32, self.rows, self.columns), ("b", F32, self.columns)],
                             [("on", BOOL), (self.next[0], F32, self.rows, self.columns), (self.next[1], F32, self.columns), ("row", F32, self.columns)],
                             [])  # fmt: skip
        sums = [("ReduceSum", [name], ["sum_" + name], {"keepdims": 0}) for name in ("last_a", "last_b", "rows_squared")]
        nodes = [("Loop", ["n", "", "a0", "b0"], ["last_a", "last_b", "all"], {"body": step}), ("Mul", ["all", "all"], ["rows_squared"], {}), *sums,
                 ("Sum", ["sum_last_a", "sum_last_b", "sum_rows_squared"], ["result"], {})]  # fmt: skip
        inputs = [("n", I64), ("end", I64), ("xs", F32, "rows", self.columns), ("w", F32, self.columns, self.columns), ("v", F32, self.columns),
                  ("a0", F32, self.rows, self.columns), ("b0", F32, self.columns)]  # fmt: skip
        first = onnx.numpy_helper.from_array(np.array([0]), "first")
        return onnx_model(BENCH["body"]("drawn", nodes, inputs, [("result", F32)], [first]))

    def given(self, trips, end):
        def normal(*shape):
            return self.random.standard_normal(shape).astype(np.float32)

        return {"n": np.int64(trips), "end": np.int64(end), "xs": normal(max(trips, end + 2), self.columns), "v": normal(self.columns),
                "w": normal(self.columns, self.columns) / 4, "a0": normal(self.rows, self.columns), "b0": normal(self.columns)}  # fmt: skip


# Breaks when a copy of the body is not what the body is: another draw, another row, another end; or when sums are in another order.
@pytest.mark.parametrize("seed", range(6))
def test_loops_drawn_at_random(seed):
    drawn = Drawn(seed)
    models = gradients(drawn.model(), ["w", "v", "a0", "b0", "xs"])
    for trips, end in ((0, 5), (70, 1000), (1000, int(drawn.random.integers(66, 200)))):
        assert_same_bits(models, drawn.given(trips, end) if drawn.stops or trips < 1000 else drawn.given(130, 0))


def nested():
    """Rows are scanned by a Loop in each iteration of a Loop, as often as the iteration says."""
    inner = BENCH["body"]("inner", [("MatMul", ["k", "w"], ["p"], {}), ("Tanh", ["p"], ["t"], {}), ("Identity", ["on2"], ["on3"], {})],
                          [("j", I64), ("on2", BOOL), ("k", F32, 2, 3)], [("on3", BOOL), ("t", F32, 2, 3)])  # fmt: skip
    outer = BENCH["body"]("outer", [("Mod", ["i", "three"], ["often"], {}), ("Loop", ["often", "", "h"], ["q"], {"body": inner}),
                                    ("Gather", ["xs", "i"], ["x"], {"axis": 0}), ("Add", ["q", "x"], ["next"], {}), ("Identity", ["on"], ["on1"], {})],
                          [("i", I64), ("on", BOOL), ("h", F32, 2, 3)], [("on1", BOOL), ("next", F32, 2, 3)])  # fmt: skip
    return onnx_model(BENCH["body"]("nested", [("Loop", ["n", "", "h0"], ["last"], {"body": outer}), *BENCH["LOSS"]],
                                    [("n", I64), ("three", I64), ("xs", F32, "rows", 3), ("h0", F32, 2, 3), ("w", F32, 3, 3)], [("result", F32)]))  # fmt: skip


# Breaks when a loop in a body that is gone through again is cut or summed up otherwise than without.
def test_loops_in_loops():
    models = gradients(nested(), ["w", "h0", "xs"])
    random = np.random.default_rng(3)
    for trips in (1, 7, 150):
        given = {"xs": random.standard_normal((trips, 3)).astype(np.float32) / 4, "h0": np.ones((2, 3), np.float32), "n": np.int64(trips),
                 "three": np.int64(3), "w": random.standard_normal((3, 3)).astype(np.float32)}  # fmt: skip
        kept = assert_same_bits(models, given)
        assert trips == 1 or np.abs(kept[1]).max() > 0  # the first has none within


def growing():
    """A state that gets a row in each iteration."""
    step = BENCH["body"]("step", [("ReduceMean", ["h", "first"], ["m"], {"keepdims": 1}), ("MatMul", ["m", "w"], ["p"], {}), ("Tanh", ["p"], ["t"], {}),
                                  ("Concat", ["h", "t"], ["next"], {"axis": 0}), ("Identity", ["on"], ["on1"], {})],
                         [("i", I64), ("on", BOOL), ("h", F32, "rows", 3)], [("on1", BOOL), ("next", F32, "more", 3)],
                         [onnx.numpy_helper.from_array(np.array([0]), "first")])  # fmt: skip
    return onnx_model(BENCH["body"]("growing", [("Loop", ["n", "", "h0"], ["last"], {"body": step}), *BENCH["LOSS"]],
                                    [("n", I64), ("h0", F32, 1, 3), ("w", F32, 3, 3)], [("result", F32)]))  # fmt: skip


# Breaks when the stack of a state takes its first size for that of all.
def test_states_that_grow():
    models = gradients(growing(), ["w", "h0"])
    for trips in (0, 2, 90):
        assert_same_bits(models, {"n": np.int64(trips), "h0": np.ones((1, 3), np.float32), "w": np.eye(3, dtype=np.float32) / 2 + 0.1})


def recurrent(op, gates, steps, **attributes):
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    nodes = [(op, ["xs", "w", "r", "b", "lengths"], ["y", "last"], {"hidden_size": 3, **attributes}), ("Mul", ["y", "weigh"], ["weighed"], {}),
             ("ReduceSum", ["weighed"], ["some"], {"keepdims": 0}), ("ReduceSum", ["last"], ["other"], {"keepdims": 0}), ("Add", ["some", "other"], ["result"], {})]  # fmt: skip
    inputs = [("xs", F64, steps, 2, 4), ("w", F64, directions, gates * 3, 4), ("r", F64, directions, gates * 3, 3), ("b", F64, directions, 2 * gates * 3),
              ("lengths", 6, 2), ("weigh", F64, steps, directions, 2, 3)]  # fmt: skip
    return onnx_model(BENCH["body"](op, nodes, inputs, [("result", F64)]))


# Breaks when the groups of a recurrent layer's steps compute anything else: the last of them lacks steps where their number is open or 70.
@pytest.mark.parametrize("op, gates, steps, attributes", [("LSTM", 4, "n", {}), ("GRU", 3, 80, {"direction": "bidirectional"}),
                                                          ("RNN", 1, 70, {"direction": "reverse"})])  # fmt: skip
def test_layers_in_groups_have_the_slopes(op, gates, steps, attributes):
    model = recurrent(op, gates, steps, **attributes)
    count = 71 if steps == "n" else steps
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    random = np.random.default_rng(11)
    by = {"xs": (count, 2, 4), "w": (directions, gates * 3, 4), "r": (directions, gates * 3, 3), "b": (directions, 2 * gates * 3)}
    given = {name: random.standard_normal(shape) / 2 for name, shape in by.items()}
    given.update(weigh=random.standard_normal((count, directions, 2, 3)), lengths=np.array([count, count - 30], np.int32))
    compiled = gradients(model, list(by), plans=("all", "segments"))
    results = {name: of.run(**given) for name, of in compiled.items()}
    for ours, theirs in zip(results["segments"], results["all"]):
        assert ours.tobytes() == theirs.tobytes()
    plain = ts.compile(model, cache_dir="", threads=1)
    for number, name in enumerate(by):
        direction = random.standard_normal(given[name].shape)
        sides = [float(plain.run(**{**given, name: given[name] + side * 1e-6 * direction})[0]) for side in (1, -1)]
        actual, slope = float((results["all"][1 + number] * direction).sum()), (sides[0] - sides[1]) / 2e-6
        assert math.isclose(actual, slope, rel_tol=1e-5, abs_tol=1e-6), name


def least_memory(module, values):
    """Bytes of the session's limit, to 10 %, with which a run succeeds."""

    def succeeds(limit):
        done = subprocess.run([TENSMITH, "run", module, "--input", values, "--threads", "1", "--memory-limit", str(int(limit))],
                              capture_output=True, text=True, timeout=60)  # fmt: skip
        assert done.returncode == 0 or "memory" in done.stderr, done.stderr
        return done.returncode == 0

    low, high = 1e5, 3e8
    while high / low > 1.1:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if succeeds(middle) else (middle, high)
    return high


# Breaks when more than one leaf's values are there at a time, or more states than the plan says.
def test_memory_grows_as_the_root_and_as_the_logarithm(tmp_path):
    least = {}
    for plan, model in gradients(BENCH["written"]("onnx loop", tmp_path), ["w"]).items():
        model.save(tmp_path / f"{plan}.so")
        for length in (500, 8000):
            np.savez(tmp_path / "values.npz", **BENCH["inputs"](model, "onnx loop", length))
            least[plan, length] = least_memory(tmp_path / f"{plan}.so", tmp_path / "values.npz")
    slope = {plan: math.log(least[plan, 8000] / least[plan, 500]) / math.log(16) for plan in ("all", *PLANS)}
    assert slope["all"] > 0.9, least
    assert slope["segments"] < 0.6, least
    assert slope["recursive"] < 0.25, least
    assert least["segments", 8000] < 0.15 * least["all", 8000], least


# Breaks when a step of training does not hand the plan on, or trains other weights by it.
def test_a_step_of_training(tmp_path):
    graph = BENCH["onnx_lstm"]()
    random = np.random.default_rng(4)
    for name, shape in (("w", (1, 256, 64)), ("r", (1, 256, 64)), ("b", (1, 512))):
        graph.initializer.append(onnx.numpy_helper.from_array((random.standard_normal(shape) / 8).astype(np.float32), name))
        graph.input.remove(next(port for port in graph.input if port.name == name))
    xs = (random.standard_normal((100, 8, 64)) / 8).astype(np.float32)
    states = []
    for plan in ({}, {"recomputation": "segments"}, {"recomputation": "recursive"}):
        step = ts.train_step(onnx_model(graph), loss="result", optimiser="sgd", learning_rate=0.1, shapes={"xs": [100, 8, 64]}, **plan)
        losses = [float(step(xs=xs)["loss"]) for _ in range(3)]
        states.append((losses, {name: np.array(value).tobytes() for name, value in step.state.items()}))
    assert states[0] == states[1] == states[2]
    assert states[0][0][0] != states[0][0][2]


# Breaks when a budget that no plan can keep, since the run alone tells the loop's length, is taken and forgotten.
@pytest.mark.parametrize("plan", [{}, {"recomputation": "segments"}])
def test_no_budget_without_a_length(tmp_path, plan):
    path = BENCH["written"]("onnx scan", tmp_path)
    with pytest.raises(ts.Error, match="only where all sizes are fixed.*leave out memory"):
        ts.grad(path, ["w"], "result", memory="1MiB", **plan)
    ts.grad(path, ["w"], "result", memory="16MiB", shapes={"xs": [8, 16, 64]}, **plan)
