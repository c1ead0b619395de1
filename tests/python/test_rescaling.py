"""Diagonal rescaling against its definition in NumPy, and what it promises: a network learns the same when what goes into it
is measured in other units, or from another zero."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith as ts

DECAY, DAMPING, SQUARE_DECAY, EPSILON = 0.95, 0.01, 0.99, 1e-8


def save(path, nodes, x, y, weights):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (x, y)]
    tensors = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class Layer:
    """What an optimiser does to y = W x + b, given the inputs as rows; without a bias around 0."""

    def __init__(self, optimiser="rescaled", damping=DAMPING, terms=None):
        self.mean = self.variance = self.square = 0.0
        self.optimiser, self.damping, self.terms, self.step = optimiser, damping, terms, 0

    def moments(self, rows, centred):
        return (rows.mean(axis=0), rows.var(axis=0)) if centred else (0 * rows[0], (rows**2).mean(axis=0))

    def update(self, w, b, dw, db, rows, rate):
        """w, dw: [outputs, inputs]; b and db None where there is no bias."""
        self.step += 1
        mean, variance = self.moments(rows, b is not None)
        share = (1 - DECAY) / (1 - DECAY**self.step)
        change = mean - self.mean
        self.mean = self.mean + share * change
        self.variance = (1 - share) * (self.variance + share * change**2) + share * variance
        scale = np.maximum(self.variance, variance + (mean - self.mean) ** 2)
        part = scale * (w**2).mean(axis=0)
        scale = scale * (1 + self.damping / (part / part.mean() + self.damping**2))
        slope = np.zeros(len(w)) if db is None else db
        normalised = np.where(scale > 0, (dw - np.outer(slope, self.mean)) / np.sqrt(np.where(scale > 0, scale, 1)), 0)
        fan_in = (self.terms or w.shape[1]) + (b is not None)
        rate = np.full(len(w), rate / fan_in)
        if self.optimiser == "rescaled_rms":
            length = (slope**2 + (normalised**2).sum(axis=1)) / fan_in
            self.square = SQUARE_DECAY * self.square + (1 - SQUARE_DECAY) * length
            rate = rate * np.sqrt(fan_in) / (np.sqrt(np.maximum(self.square, length)) + EPSILON)
        d = normalised / np.sqrt(np.where(scale > 0, scale, 1))
        w = w - rate[:, None] * d
        return w, None if b is None else b - rate * db + rate * (d @ self.mean)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-6 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("form", ["MatMul", "Gemm", "transposed"])
@pytest.mark.parametrize("optimiser, damping", [("rescaled", DAMPING), ("rescaled", 0.5), ("rescaled_rms", DAMPING)])
def test_a_dense_layer_follows_its_definition(tmp_path, form, optimiser, damping):
    draw = np.random.default_rng(2)
    w, b = draw.normal(0, 0.5, (5, 7)), draw.normal(0, 0.5, 5)
    stored = w if form == "transposed" else w.T
    if form == "MatMul":
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["b", "p"], ["y"])]
    else:
        nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=int(form == "transposed"))]
    save(tmp_path / "m.onnx", nodes, ("x", ["n", 7]), ("y", ["n", 5]), {"w": stored, "b": b})
    step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", optimiser, learning_rate=0.9, damping=damping)
    layer = Layer(optimiser, damping)
    for _ in range(6):
        x = draw.normal(draw.normal(0, 1, 7), draw.uniform(0.5, 3, 7), (13, 7)).astype(np.float32)
        target = draw.normal(size=(13, 5)).astype(np.float32)
        error = 2 * (x @ w.T + b - target) / target.size
        step(x=x, target=target)
        w, b = layer.update(w, b, error.T @ x, error.sum(axis=0), x.astype(np.float64), 0.9)
        found = step.state["w"] if form == "transposed" else step.state["w"].T
        close(found, w)
        close(step.state["b"], b)
        w, b = found.astype(np.float64), step.state["b"].astype(np.float64)  # each step by itself
    close(step.state["input_mean.w"][0], layer.mean)
    np.testing.assert_allclose(step.state["input_variance.w"][0], layer.variance, rtol=1e-5)
    assert ("square.w" in step.state) == (optimiser == "rescaled_rms")


def patches(x, size, stride, pad):
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    seen = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]
    return seen.transpose(0, 2, 3, 1, 4, 5)  # [n, rows, columns, channels, size, size]


@pytest.mark.parametrize("stride, pad", [(1, 0), (1, 1), (2, 1)])
def test_a_convolution_follows_its_definition_on_patches(tmp_path, stride, pad):
    draw = np.random.default_rng(3)
    w, b = draw.normal(0, 0.3, (4, 3, 3, 3)), draw.normal(0, 0.3, 4)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], strides=[stride] * 2, pads=[pad] * 4)
    save(tmp_path / "m.onnx", [node], ("x", ["n", 3, 9, 8]), ("y", ["n", 4, "h", "v"]), {"w": w, "b": b})
    step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", "rescaled", learning_rate=0.5)
    layer = Layer()
    for _ in range(4):
        x = draw.normal(draw.normal(0, 2, (1, 3, 1, 1)), 1.5, (5, 3, 9, 8)).astype(np.float32)
        seen = patches(x, 3, stride, pad)
        y = np.einsum("nhvcij,mcij->nmhv", seen, w) + b[:, None, None]
        target = draw.normal(size=y.shape).astype(np.float32)
        error = 2 * (y - target) / y.size
        gradient = np.einsum("nmhv,nhvcij->mcij", error, seen)
        step(x=x, target=target)
        flat, b = layer.update(w.reshape(4, -1), b, gradient.reshape(4, -1), error.sum(axis=(0, 2, 3)), seen.reshape(-1, 27), 0.5)
        w = flat.reshape(w.shape)
        close(step.state["w"], w)
        close(step.state["b"], b)
        w, b = (step.state[name].astype(np.float64) for name in "wb")


@pytest.mark.parametrize("optimiser", ["rescaled", "rescaled_rms"])
@pytest.mark.parametrize("groups, biased", [(3, True), (6, True), (3, False), (1, False)])
def test_convolutions_of_groups_and_without_a_bias(tmp_path, groups, biased, optimiser):
    """Each group is a layer of its own; of as many groups as channels (6) each has one channel."""
    draw = np.random.default_rng(4)
    w, b = draw.normal(0, 0.3, (12, 6 // groups, 3, 3)), draw.normal(0, 0.5, 12)
    node = helper.make_node("Conv", ["x", "w", "b"] if biased else ["x", "w"], ["y"], pads=[1] * 4, group=groups)
    weights = {"w": w, "b": b} if biased else {"w": w}
    save(tmp_path / "m.onnx", [node], ("x", ["n", 6, 7, 8]), ("y", ["n", 12, 7, 8]), weights)
    step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", optimiser, learning_rate=0.5)
    layers = [Layer(optimiser) for _ in range(groups)]
    for _ in range(3):
        x = draw.normal(draw.normal(0, 2, (1, 6, 1, 1)), 1.5, (5, 6, 7, 8)).astype(np.float32)
        seen = np.split(patches(x, 3, 1, 1), groups, axis=3)
        parts = [np.einsum("nhvcij,mcij->nmhv", one, part) for one, part in zip(seen, np.split(w, groups))]
        y = np.concatenate(parts, axis=1) + (b[:, None, None] if biased else 0)
        target = draw.normal(size=y.shape).astype(np.float32)
        errors = np.split(2 * (y - target) / y.size, groups, axis=1)
        moved = []
        for layer, one, error, own, bias in zip(layers, seen, errors, np.split(w, groups), np.split(b, groups)):
            gradient = np.einsum("nmhv,nhvcij->mcij", error, one)
            moved.append(layer.update(own.reshape(len(own), -1), bias if biased else None, gradient.reshape(len(own), -1),
                                      error.sum(axis=(0, 2, 3)) if biased else None, one.reshape(-1, own[0].size), 0.5))  # fmt: skip
        w = np.concatenate([one for one, _ in moved]).reshape(w.shape)
        close(step(x=x, target=target) and step.state["w"], w)
        w = step.state["w"].astype(np.float64)
        if biased:
            close(step.state["b"], np.concatenate([bias for _, bias in moved]))
            b = step.state["b"].astype(np.float64)
    assert step.state["input_variance.w"].shape == (groups, 54 // groups)


@pytest.mark.parametrize("optimiser", ["rescaled", "rescaled_rms"])
def test_a_table_is_a_layer_whose_inputs_are_its_rows(tmp_path, optimiser):
    """Of a row that is taken seldom, the step is no longer than that of one that is taken often."""
    draw = np.random.default_rng(12)
    table = draw.normal(0, 0.5, (9, 5))
    ports = [helper.make_tensor_value_info("x", TensorProto.INT64, ["n", 3]), helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, 5])]
    graph = helper.make_graph([helper.make_node("Gather", ["w", "x"], ["y"])], "g", ports[:1], ports[1:],
                              [numpy_helper.from_array(table.astype(np.float32), "w")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", optimiser, learning_rate=0.7)
    layer = Layer(optimiser, terms=1)
    for turn in range(4):
        x = np.where(draw.random((8, 3)) < 0.7, 2, draw.integers(-9, 8, (8, 3)))  # row 8 waits for the last turn
        x[x == -1] = 0
        x[0, 0] = 8 if turn == 3 else 1
        target = draw.normal(size=(8, 3, 5)).astype(np.float32)
        taken = np.eye(9)[x.reshape(-1)]
        error = (2 * (table[x] - target) / target.size).reshape(-1, 5)
        step(x=x, target=target)
        moved, _ = layer.update(table.T, None, error.T @ taken, None, taken, 0.7)
        close(step.state["w"], moved.T)
        if turn == 3:
            nearest = np.abs(table[8] - target.reshape(-1, 5)[x.reshape(-1) == 8])
            assert optimiser != "rescaled" or (np.abs(step.state["w"][8] - table[8]) < 0.3 * nearest).all()
        else:
            np.testing.assert_array_equal(step.state["w"][8], table[8].astype(np.float32))
        table = step.state["w"].astype(np.float64)


def test_one_input_of_unit_size_takes_the_step_of_rmsprop(tmp_path):
    """There the unit's squared gradient is the weight's, and nothing is left to normalise."""
    draw = np.random.default_rng(13)
    found = []
    save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], ("x", ["n", 1]), ("y", ["n", 4]), {"w": draw.normal(0, 1, (1, 4))})
    data = [(draw.choice([-1, 1], (16, 1)), draw.normal(size=(16, 4))) for _ in range(50)]
    for optimiser, settings in (("rmsprop", {"decay": 0.99}), ("rescaled_rms", {"damping": 0.0, "batch_floor": 0.0})):
        step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", optimiser, learning_rate=0.01, **settings)
        for x, target in data:
            step(x=x.astype(np.float32), target=target.astype(np.float32))
        found.append(step.state["w"].copy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6)


def trained(path, w0, b0, inputs, optimiser, rate):
    """Two layers of dense weights, of which the first are given: the losses of some steps, and the last scores."""
    draw = np.random.default_rng(6)
    nodes = [helper.make_node("Gemm", ["x", "w0", "b0"], ["h"]), helper.make_node("Tanh", ["h"], ["t"]),
             helper.make_node("Gemm", ["t", "w1", "b1"], ["y"])]
    weights = {"w0": w0, "b0": b0, "w1": draw.normal(0, 0.4, (9, 4)), "b1": np.zeros(4)}
    save(path, nodes, ("x", ["n", 6]), ("y", ["n", 4]), weights)
    step = ts.train_step(path, "cross_entropy", optimiser, learning_rate=rate, outputs=["y"])
    labels = draw.integers(0, 4, (10, 16))
    given = [step(x=x.astype(np.float32), target=target) for x, target in zip(inputs, labels)]
    return np.array([one["loss"] for one in given]), given[-1]["y"]


@pytest.mark.parametrize("optimiser, rate", [("rescaled", 3.0), ("rescaled_rms", 0.1)])
@pytest.mark.parametrize("features", [[2], range(6)])
@pytest.mark.parametrize("scale, shift, tolerance", [(1024, 0, 1e-5), (1 / 1024, 0, 1e-5), (1, 50, 2e-3), (1024, 50, 2e-3), (1 / 64, 50, 1e-2)])
def test_units_and_zero_of_an_input_do_not_matter(tmp_path, optimiser, rate, features, scale, shift, tolerance):
    """The function after some steps; inputs are multiples of 1/256, so that moving them rounds nothing away."""
    draw = np.random.default_rng(5)
    inputs = np.round(draw.normal(0.3, 1, (10, 16, 6)) * 256) / 256
    w, b = draw.normal(0, 0.4, (6, 9)), draw.normal(0, 0.4, 9)
    scales, shifts = np.ones(6), np.zeros(6)
    scales[list(features)], shifts[list(features)] = scale, shift
    v = w / scales[:, None]
    moved = ("b.onnx", v, b - shifts @ v, inputs * scales + shifts)
    losses, scores = trained(tmp_path / "a.onnx", w, b, inputs, optimiser, rate)
    again, other = trained(tmp_path / moved[0], *moved[1:], optimiser, rate)
    assert losses[-1] < losses[0] and np.abs(scores).max() > 0.5
    np.testing.assert_allclose(again, losses, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(other, scores, rtol=tolerance, atol=tolerance)
    # Which other descents do not promise: it is another function then.
    for plain, rate in (("sgd", 0.3), ("rmsprop", 0.01)):
        scores = trained(tmp_path / "a.onnx", w, b, inputs, plain, rate)[1]
        other = trained(tmp_path / moved[0], *moved[1:], plain, rate)[1]
        assert not np.allclose(other, scores, rtol=0.01, atol=0.01)


def test_an_input_that_was_quiet_for_long_does_not_leap(tmp_path):
    """Fast changes of the curvature: the batch's own variance counts where it is larger than what the averages remember."""
    draw = np.random.default_rng(14)
    save(tmp_path / "m.onnx", [helper.make_node("Gemm", ["x", "w", "b"], ["y"])], ("x", ["n", 2]), ("y", ["n", 1]),
         {"w": np.ones((2, 1)), "b": np.zeros(1)})  # fmt: skip
    moved = []
    for floor in (1.0, 0.0):
        step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", "rescaled", learning_rate=0.3, damping=0.0, batch_floor=floor)
        for turn in range(101):
            x = draw.normal(0, 1, (32, 2)).astype(np.float32)
            x[:, 1] *= 1 if turn == 100 else 1e-3
            before = step.state["w"][1, 0]
            step(x=x, target=x[:, :1] - (turn == 100) * x[:, 1:])
        moved.append(before - step.state["w"][1, 0])
    assert abs(before) < 0.1 and 0 < moved[0] < 1.1  # toward the weight -1, by no more than it had to go
    assert moved[1] > 4 * moved[0]


def test_inputs_that_never_change_and_what_is_no_layer(tmp_path):
    """A dead input's weights stay; a norm's scale takes plain descent, as do weights that are used twice."""
    draw = np.random.default_rng(8)
    w, v, scale = draw.normal(0, 0.5, (5, 5)), draw.normal(0, 0.5, (5, 5)), np.ones(5)
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Mul", ["h", "scale"], ["m"]),
             helper.make_node("MatMul", ["m", "v"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"])]
    save(tmp_path / "m.onnx", nodes, ("x", ["n", 5]), ("y", ["n", 5]), {"w": w, "b": np.zeros(5), "scale": scale, "v": v})
    step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", "rescaled", learning_rate=0.1)
    assert sorted(name for name in step.state if name.startswith("input_")) == ["input_mean.w", "input_variance.w"]
    x, target = draw.normal(size=(12, 5)).astype(np.float32), draw.normal(size=(12, 5)).astype(np.float32)
    x[:, 2], x[:, 3] = 0, 33.3  # whose mean is rounded
    step(x=x, target=target)
    np.testing.assert_array_equal(step.state["w"][2:4], w[2:4].astype(np.float32))
    assert not np.array_equal(step.state["w"][1], w[1].astype(np.float32))
    h = x @ w
    error = 2 * (h * scale @ v @ v - target) / target.size
    np.testing.assert_allclose(step.state["scale"], scale - 0.1 * (h * (error @ v.T @ v.T)).sum(axis=0), rtol=1e-5, atol=1e-5)


def test_a_transposition_that_moves_nothing(tmp_path):
    """Of weights that are no layer's then, square or not: plain descent."""
    draw = np.random.default_rng(9)
    for inputs, outputs in ((5, 5), (7, 3)):
        w, b = draw.normal(0, 0.5, (inputs, outputs)), draw.normal(0, 0.5, outputs)
        nodes = [helper.make_node("Transpose", ["w"], ["t"], perm=[0, 1]), helper.make_node("MatMul", ["x", "t"], ["p"]),
                 helper.make_node("Add", ["p", "b"], ["y"])]  # fmt: skip
        save(tmp_path / "m.onnx", nodes, ("x", ["n", inputs]), ("y", ["n", outputs]), {"w": w, "b": b})
        step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", "rescaled", learning_rate=0.9)
        x, target = draw.normal(1, 2, (8, inputs)).astype(np.float32), draw.normal(size=(8, outputs)).astype(np.float32)
        step(x=x, target=target)
        error = 2 * (x @ w + b - target) / target.size
        assert "input_mean.w" not in step.state
        close(step.state["w"], w - 0.9 * x.T @ error)
        close(step.state["b"], b - 0.9 * error.sum(axis=0))


@pytest.mark.parametrize("dims, nodes", [
    (["n", 5], [helper.make_node("Gemm", ["x", "w", "b"], ["y"])]),
    (["n", 2, 4, "v"], [helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1] * 4)]),
])  # fmt: skip
def test_a_batch_of_nothing_leaves_the_statistics(tmp_path, dims, nodes):
    draw = np.random.default_rng(11)
    w = draw.normal(0, 0.5, (5, 3) if len(dims) == 2 else (3, 2, 3, 3))
    save(tmp_path / "m.onnx", nodes, ("x", dims), ("y", ["n", 3, *dims[2:]]), {"w": w, "b": np.zeros(3)})
    step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", "rescaled", learning_rate=0.1)
    rest = [6 if size == "v" else size for size in dims[2:]]
    for count in (7, 0):
        before = {name: value.copy() for name, value in step.state.items()}
        step(x=draw.normal(1, 2, (count, dims[1], *rest)).astype(np.float32), target=np.zeros((count, 3, *rest), np.float32))
    assert before["input_variance.w"].all()
    for name in ("input_mean.w", "input_variance.w", "w", "b"):
        np.testing.assert_array_equal(step.state[name], before[name], err_msg=name)


def bodies():
    """A model whose weights are read in a branch, a loop and a scan: its nodes, and what it is given besides weights."""

    def port(name, dims, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, dims)

    def layer(x, y):
        return [helper.make_node("MatMul", [x, "w"], ["p"]), helper.make_node("Add", ["p", "b"], [y])]

    same, flag = helper.make_node("Identity", ["x"], ["e"]), helper.make_node("Identity", ["c"], ["d"])
    chosen = helper.make_graph(layer("x", "t"), "then", [], [port("t", ["n", 5])])
    other = helper.make_graph([same], "else", [], [port("e", ["n", 5])])
    yield "If", [helper.make_node("If", ["yes"], ["y"], then_branch=chosen, else_branch=other)]
    looped = helper.make_graph([*layer("h", "k"), flag], "loop", [port("i", [], TensorProto.INT64), port("c", [], TensorProto.BOOL), port("h", ["n", 5])],
                               [port("d", [], TensorProto.BOOL), port("k", ["n", 5])])  # fmt: skip
    yield "Loop", [helper.make_node("Loop", ["trips", "yes", "x"], ["y"], body=looped)]
    scanned = helper.make_graph([*layer("r", "q"), helper.make_node("Add", ["q", "h"], ["k"]), helper.make_node("Identity", ["k"], ["o"])],
                                "scan", [port("h", [2, 5]), port("r", [2, 5])], [port("k", [2, 5]), port("o", [2, 5])])  # fmt: skip
    yield "Scan", [helper.make_node("Scan", ["zero", "x"], ["last", "y"], body=scanned, num_scan_inputs=1)]


@pytest.mark.parametrize("kind, nodes", list(bodies()))
def test_weights_of_a_branch_or_a_loop_take_plain_descent(tmp_path, kind, nodes):
    draw = np.random.default_rng(10)
    dims = ["n", 2, 5] if kind == "Scan" else ["n", 5]
    floats = {"w": draw.normal(0, 0.5, (5, 5)), "b": draw.normal(0, 0.5, 5)}
    tensors = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in floats.items()]
    if kind == "Scan":
        tensors.append(numpy_helper.from_array(np.zeros((2, 5), np.float32), "zero"))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in "xy"]
    given = [helper.make_tensor_value_info("trips", TensorProto.INT64, []), helper.make_tensor_value_info("yes", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", [ports[0], *given[kind != "Loop":]] if kind != "Scan" else ports[:1], ports[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    shape = (8, 2, 5) if kind == "Scan" else (8, 5)
    values = {name: draw.normal(size=shape).astype(np.float32) for name in ("x", "target")}
    values |= {"Loop": {"trips": np.int64(3), "yes": np.bool_(True)}, "If": {"yes": np.bool_(True)}, "Scan": {}}[kind]
    found = []
    for optimiser in ("sgd", "rescaled"):
        step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", optimiser, learning_rate=0.1, trainable=["w", "b"])
        assert "input_mean.w" not in step.state
        step(**values)
        found.append({name: step.state[name].copy() for name in floats})
    for name, before in floats.items():
        close(found[1][name], found[0][name])
        assert not np.allclose(found[0][name], before)


@pytest.mark.parametrize(
    "text, message",
    [
        ("fn observe(mean, variance) = (mean, variance)", "one of the functions observe and update_layer, but not the other"),
        ("fn observe(mean, variance) = (mean, variance)\nfn update_layer(weights) = weights", "update_layer must give"),
        ("fn observe(mean) = (mean, mean)\nfn update_layer(weights, bias) = (weights, bias)", "observe must give the next value of each of its 1"),
        ("fn observe(mean) = mean\nfn update_layer(weights, bias, seen) = (weights, bias)", "and its 1 slots after them"),
        ("fn observe(mean) = mean\nfn update_layer(weights, bias, seen) = (weights, bias, weights)", "and its 1 slots after them"),
    ],
)
def test_own_functions_for_layers_that_are_refused(tmp_path, text, message):
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    save(tmp_path / "m.onnx", [node], ("x", ["n", 3]), ("y", ["n", 2]), {"w": np.ones((3, 2)), "b": np.zeros(2)})
    (tmp_path / "own.tsm").write_text("fn update(parameter, gradient) = parameter - gradient\n" + text)
    with pytest.raises(ts.Error, match=message):
        ts.train_step(tmp_path / "m.onnx", "mean_squared_error", tmp_path / "own.tsm")
