"""Steps of training in mixed precision: against NumPy that rounds where the rules say so, in f16 with its scaled loss, and on
machines with instructions for pairs of bf16 and without."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith as ts

RATE = 0.5


def dense(path, sizes, form, seed=0):
    """x -> relu(x w0 + b0) w1 + b1; weights by name, as [inputs, outputs]."""
    draw = np.random.default_rng(seed)
    nodes, stored, weights, value = [], [], {}, "x"
    for i, (inputs, outputs) in enumerate(sizes):
        w, b = draw.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32), draw.normal(0, 0.5, outputs).astype(np.float32)
        weights |= {f"w{i}": w, f"b{i}": b}
        turned = form == "transposed"
        stored += [numpy_helper.from_array(np.ascontiguousarray(w.T) if turned else w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"s{i}"], transB=int(turned)))
        value = f"s{i}"
        if i == 0:
            nodes.append(helper.make_node("Relu", [value], ["r"]))
            value = "r"
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", sizes[0][0]), (value, sizes[1][1]))]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], stored),
                                opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)  # fmt: skip
    return weights


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def f16(x):
    return np.asarray(x, np.float32).astype(np.float16).astype(np.float64)


def updated(p, x, target, rounded):
    """The parameters after a step. Factors of products are rounded, as are products that others depend on."""
    x, w0, w1 = rounded(x), rounded(p["w0"]), rounded(p["w1"])
    first = rounded(x @ w0) + p["b0"]
    hidden = rounded(np.maximum(first, 0))
    scores = rounded(hidden @ w1) + p["b1"]
    d = np.exp(scores - scores.max(axis=1, keepdims=True))
    d /= d.sum(axis=1, keepdims=True)
    d[np.arange(len(x)), target] -= 1
    d = rounded(d / len(x))
    back = rounded(d @ w1.T) * (first > 0)
    gradients = {"w1": hidden.T @ d, "b1": d.sum(axis=0), "w0": x.T @ back, "b0": back.sum(axis=0)}
    return {name: p[name] - RATE * gradients[name] for name in p}


def farther(found, expected, before):
    """Errors of a parameter, as parts of the largest change."""
    return np.abs(found - expected) / np.abs(expected - before).max()


SIZES = [(13, [(8, 7), (7, 5)]), (64, [(64, 96), (96, 32)]), (31, [(130, 67), (67, 70)]), (48, [(128, 80), (80, 3)])]


@pytest.mark.parametrize("form", ["plain", "transposed"])
@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize("batch, sizes", SIZES)
def test_a_step_rounds_where_the_rules_say(tmp_path, batch, sizes, form, target):
    weights = dense(tmp_path / "m.onnx", sizes, form)
    draw = np.random.default_rng(batch)
    x, labels = draw.normal(size=(batch, sizes[0][0])).astype(np.float32), draw.integers(0, sizes[1][1], batch)
    step = ts.train_step(tmp_path / "m.onnx", learning_rate=RATE, precision="bf16", target=target, shapes={"n": batch})
    step(x=x, target=labels)
    rounded, exact = updated(weights, x, labels, bf16), updated(weights, x, labels, np.float64)
    further = 0
    for name, before in weights.items():
        found = step.state[name].T if form == "transposed" and name[0] == "w" else step.state[name]
        assert found.dtype == np.float32
        errors = farther(found, rounded[name], before)
        # A sum that lies between two bf16 may be rounded to the other by an error of f32.
        assert np.quantile(errors, 0.9) < 2e-4 and errors.max() < 0.02, name
        further += farther(found, exact[name], before).mean() > 2 * errors.mean()
    assert further >= 3  # what is not rounded is farther away


def test_shapes_that_are_open_and_the_reference(tmp_path):
    """Sizes that only the run tells, and evaluation without kernels."""
    weights = dense(tmp_path / "m.onnx", [(24, 17), (17, 6)], "plain")
    draw = np.random.default_rng(1)
    steps = [ts.train_step(tmp_path / "m.onnx", learning_rate=RATE, precision="bf16", fuse=fuse) for fuse in (True, False)]
    for batch in (5, 16):
        x, labels = draw.normal(size=(batch, 24)).astype(np.float32), draw.integers(0, 6, batch)
        before = {name: value.copy() for name, value in steps[0].state.items()}
        for step in steps:
            for name, value in before.items():
                if name != "step":
                    step.state[name] = value
            step(x=x, target=labels)
            expected = updated({name: before[name].astype(np.float64) for name in weights}, x, labels, bf16)
            for name in weights:
                errors = farther(step.state[name], expected[name], before[name])
                assert np.quantile(errors, 0.9) < 2e-4 and errors.max() < 0.02, name


def convolutional(path):
    draw = np.random.default_rng(2)
    weights = {"k0": draw.normal(0, 0.3, (8, 3, 3, 3)), "c0": np.zeros(8), "k1": draw.normal(0, 0.1, (16, 8, 3, 3)), "c1": np.zeros(16),
               "scale": np.ones(8), "shift": np.zeros(8), "mean": np.zeros(8), "variance": np.ones(8),
               "w": draw.normal(0, 0.1, (16 * 16, 5)), "b": np.zeros(5)}  # fmt: skip
    nodes = [helper.make_node("Conv", ["x", "k0", "c0"], ["a"], pads=[1] * 4),
             helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["n"]),
             helper.make_node("Relu", ["n"], ["r"]), helper.make_node("Conv", ["r", "k1", "c1"], ["d"], strides=[2, 2], pads=[1] * 4),
             helper.make_node("Relu", ["d"], ["e"]), helper.make_node("Flatten", ["e"], ["f"]),
             helper.make_node("Gemm", ["f", "w", "b"], ["y"])]  # fmt: skip
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8]), helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])]
    tensors = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], tensors),
                                opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)  # fmt: skip


@pytest.mark.parametrize("precision, tolerance", [("bf16", 0.03), ("f16", 0.004)])
def test_convolutions_learn_as_in_f32(tmp_path, precision, tolerance):
    convolutional(tmp_path / "c.onnx")
    draw = np.random.default_rng(3)
    batches = [(draw.normal(size=(16, 3, 8, 8)).astype(np.float32), draw.integers(0, 5, 16)) for _ in range(4)]

    def losses(precision):
        step = ts.train_step(tmp_path / "c.onnx", optimiser="momentum", learning_rate=0.02, precision=precision, shapes={"n": 16})
        return np.array([step(x=x, target=target)["loss"] for _ in range(6) for x, target in batches])

    wide, low = losses("fast"), losses(precision)
    assert wide[-4:].mean() < 0.7 * wide[:4].mean()
    assert 1e-6 < np.abs(low - wide).max() < tolerance * wide[0]


def test_the_loss_is_scaled_as_far_as_gradients_allow(tmp_path):
    weights = dense(tmp_path / "m.onnx", [(24, 17), (17, 6)], "plain")
    draw = np.random.default_rng(4)
    x, labels = draw.normal(size=(16, 24)).astype(np.float32), draw.integers(0, 6, 16)
    step = ts.train_step(tmp_path / "m.onnx", optimiser="adam", learning_rate=RATE, precision="f16")
    assert step.state["loss_scale"] == 65536
    step.state["loss_scale"] = np.float32(2**40)
    before = {name: value.copy() for name, value in step.state.items()}
    loss = step(x=x, target=labels)["loss"]
    assert np.isfinite(loss)
    for name, value in before.items():  # slots and the count of steps among them
        if not name.startswith("loss_scale"):
            np.testing.assert_array_equal(step.state[name], value, err_msg=name)
    assert step.state["loss_scale"] == 2**39 and step.state["loss_scale_steps"] == 0
    step.state["loss_scale"] = np.float32(1024)
    step.state["loss_scale_steps"] = np.int64(1998)
    for scale, count in ((1024, 1999), (2048, 0), (2048, 1)):
        step(x=x, target=labels)
        assert (step.state["loss_scale"], step.state["loss_scale_steps"]) == (scale, count)
    assert step.state["step"] == 3
    assert not np.array_equal(step.state["w0"], weights["w0"])


def linear(path, tensors, nodes, kind):
    """x [n, 5] -> y [n, 2] by these nodes."""
    ports = [helper.make_tensor_value_info(name, kind, ["n", size]) for name, size in (("x", 5), ("y", 2))]
    stored = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], stored),
                                opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)  # fmt: skip


def test_a_model_of_halves_is_scaled_too(tmp_path):
    """Its gradients are halves: the first scale is beyond their range, and the inverse of the largest below it."""
    draw = np.random.default_rng(6)
    w, x, target = (draw.normal(size=shape).astype(np.float16) for shape in ((5, 2), (4, 5), (4, 2)))
    gemm = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    linear(tmp_path / "h.onnx", {"w": w, "b": np.zeros(2, np.float16)}, [gemm], TensorProto.FLOAT16)
    step = ts.train_step(tmp_path / "h.onnx", "mean_squared_error", learning_rate=0.1, precision="f16")
    losses = []
    for _ in range(30):
        scale, before = step.state["loss_scale"].copy(), step.state["w"].astype(np.float64)
        wide = x.astype(np.float64)
        exact = 2 * wide.T @ (wide @ before + step.state["b"] - target) / target.size
        losses.append(float(step(x=x, target=target)["loss"]))
        change = before - step.state["w"]
        if step.state["loss_scale"] < scale:
            assert not change.any()
        else:
            np.testing.assert_allclose(change, 0.1 * exact, rtol=0, atol=0.01)
    assert np.isfinite(losses).all() and losses[-1] < 0.5 * losses[0]
    assert step.state["step"] > 20
    # Gradients of which the largest scale leaves something: the inverse is no half.
    step.state["loss_scale"] = np.float32(2**26)
    tiny = np.zeros_like(x)
    tiny[0, 0] = 2**-24
    before = step.state["loss_scale_steps"].copy()
    step.state["b"], step.state["w"] = np.zeros(2, np.float16), np.zeros((5, 2), np.float16)
    step(x=tiny, target=np.full((4, 2), 2**-14, np.float16))
    assert step.state["loss_scale_steps"] == before + 1 and step.state["b"].all()


def test_a_parameter_of_no_elements_leaves_the_guard_on(tmp_path):
    draw = np.random.default_rng(7)
    w, x, target = (draw.normal(size=shape).astype(np.float32) for shape in ((5, 2), (4, 5), (4, 2)))
    nodes = [helper.make_node("Concat", ["w", "z"], ["wz"], axis=1), helper.make_node("MatMul", ["x", "wz"], ["y"])]
    linear(tmp_path / "z.onnx", {"w": w, "z": np.zeros((5, 0), np.float32)}, nodes, TensorProto.FLOAT)
    step = ts.train_step(tmp_path / "z.onnx", "mean_squared_error", precision="f16", trainable=["w", "z"])
    step.state["loss_scale"] = np.float32(2**40)
    step(x=1000 * x, target=target)
    np.testing.assert_array_equal(step.state["w"], w)
    assert step.state["loss_scale"] == 2**39


def test_small_gradients_do_not_vanish_in_f16(tmp_path):
    """Weights so small that their gradients are below the least f16, but for the scale."""
    weights = dense(tmp_path / "m.onnx", [(24, 17), (17, 6)], "plain")
    draw = np.random.default_rng(5)
    x, labels = draw.normal(size=(16, 24)).astype(np.float32), draw.integers(0, 6, 16)
    step = ts.train_step(tmp_path / "m.onnx", learning_rate=RATE, precision="f16")
    weights |= {"w1": weights["w1"] * np.float32(1e-4), "b0": np.zeros_like(weights["b0"])}
    for name in ("w1", "b0"):
        step.state[name] = weights[name]
    step(x=x, target=labels)
    exact = updated({name: value.astype(np.float64) for name, value in weights.items()}, x, labels, np.float64)
    errors = farther(step.state["b0"].astype(np.float64), exact["b0"], weights["b0"])
    lost = updated({name: value.astype(np.float64) for name, value in weights.items()}, x, labels, f16)
    assert errors.max() < 0.01 < farther(lost["b0"], exact["b0"], weights["b0"]).max()


ORTHOGONAL = """
fn update(parameter, gradient, momentum, learning_rate) = {
  let m = 0.9 * momentum + gradient;
  let turned = transpose(m, permutation = [1, 0]);
  let cube = matmul(matmul(m, turned), m);
  let square = transpose(matmul(turned, m), permutation = [1, 0]);
  let row = matmul(reduce_sum(m, axes = [1]), m);
  (parameter - learning_rate * (m + cube + matmul(m, square) + row), m)
}
"""


@pytest.mark.parametrize("precision, rounded", [("bf16", bf16), ("f16", f16)])
def test_products_of_an_optimiser_round_nothing(tmp_path, precision, rounded):
    """As of one that makes gradients orthogonal: products, of matrices and vectors, and transposed ones."""
    draw = np.random.default_rng(8)
    w, x, target = (draw.normal(size=shape).astype(np.float32) for shape in ((5, 2), (16, 5), (16, 2)))
    linear(tmp_path / "m.onnx", {"w": w}, [helper.make_node("MatMul", ["x", "w"], ["y"])], TensorProto.FLOAT)
    (tmp_path / "own.tsm").write_text(ORTHOGONAL)
    step = ts.train_step(tmp_path / "m.onnx", "mean_squared_error", tmp_path / "own.tsm", precision=precision, learning_rate=1)
    scale = float(step.state.get("loss_scale", 1))
    step(x=x, target=target)
    m = rounded(x).T @ rounded(scale * 2 * (rounded(rounded(x) @ rounded(w)) - target) / target.size) / scale
    np.testing.assert_allclose(step.state["momentum.w"], m, rtol=0, atol=2e-4 * np.abs(m).max())
    m = step.state["momentum.w"].astype(np.float64)
    wide = w - (m + 2 * m @ m.T @ m + m.sum(axis=1) @ m)
    np.testing.assert_allclose(step.state["w"], wide, rtol=0, atol=1e-5 * np.abs(w - wide).max())


def test_f16_is_a_precision_of_training(tmp_path):
    dense(tmp_path / "m.onnx", [(8, 7), (7, 5)], "plain")
    with pytest.raises(ts.Error, match="f16 is one of training; others are fast, exact and bf16"):
        ts.compile(tmp_path / "m.onnx", precision="f16")
