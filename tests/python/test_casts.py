"""Rules of what is rounded in steps of mixed precision that a user asks for: against NumPy that rounds exactly there."""

import json
import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith as ts

RATE, SIZES = 0.5, [20, 32, 24, 6]
RULES = ["always", "follow", "never"]


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def f16(x):
    return np.asarray(x, np.float32).astype(np.float16).astype(np.float64)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Dense layers fc0, act0, fc1, act1, fc2 with tanh between them: the path, and the weights."""
    path, draw = tmp_path_factory.mktemp("casts") / "m.onnx", np.random.default_rng(3)
    nodes, weights, value = [], {}, "x"
    for i, (inputs, outputs) in enumerate(zip(SIZES, SIZES[1:])):
        weights |= {f"w{i}": draw.normal(0, 2 * inputs**-0.5, (inputs, outputs)), f"b{i}": draw.normal(0, 0.5, outputs)}
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"s{i}"], f"fc{i}"))
        nodes.append(helper.make_node("Tanh", [f"s{i}"], [f"t{i}"], f"act{i}"))
        value = f"t{i}"
    weights = {name: weight.astype(np.float32) for name, weight in weights.items()}
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", SIZES[0]), ("s2", SIZES[3]))]
    graph = helper.make_graph(nodes[:-1], "g", ports[:1], ports[1:], [numpy_helper.from_array(w, name) for name, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path, weights


@pytest.fixture(scope="module")
def batch():
    draw = np.random.default_rng(1)
    return draw.normal(size=(64, SIZES[0])).astype(np.float32), draw.integers(0, SIZES[3], 64)


def loss_by(weights, x, target, rules, rounded):
    """The step's loss: an operator whose rule is `always` rounds what it reads and what it gives."""
    value = x.astype(np.float64)
    for i in range(3):
        layer = rules.get(f"fc{i}")
        if layer in (None, "always"):
            value = rounded(rounded(value) @ rounded(weights[f"w{i}"]))
        else:
            value = value @ weights[f"w{i}"].astype(np.float64)
        value = rounded(value + rounded(weights[f"b{i}"])) if layer == "always" else value + weights[f"b{i}"]
        if i < 2:
            value = rounded(np.tanh(rounded(value))) if rules.get(f"act{i}") == "always" else np.tanh(value)
    value -= value.max(axis=1, keepdims=True)
    return (np.log(np.exp(value).sum(axis=1)) - value[np.arange(len(x)), target]).mean()


# Breaks if a rule is lost on the way through the rewrites, or is heeded elsewhere than it was asked for.
@pytest.mark.parametrize("precision", ["bf16", "f16"])
@pytest.mark.parametrize("seed", range(5))
def test_what_was_asked_is_rounded_and_nothing_else(network, batch, precision, seed):
    (path, weights), (x, target), draw = network, batch, random.Random(seed)
    rules = {name: draw.choice(RULES) for name in ["fc0", "act0", "fc1", "act1", "fc2"] if draw.random() < 0.6}
    rounded = {"bf16": bf16, "f16": f16}[precision]
    found = float(ts.train_step(path, precision=precision, casts=rules)(x=x, target=target)["loss"])
    others = [{**rules, name: rule} for name in ["fc0", "act0", "fc1", "act1", "fc2"] for rule in RULES]
    distance = {json.dumps(other): abs(loss_by(weights, x, target, other, rounded) - found) for other in [rules, *others]}
    assert distance[json.dumps(rules)] == min(distance.values()) < 1e-5 * found


def updated(weights, x, target, rounds):
    """The parameters after a step. `rounds`: of each layer, what its products read and give is rounded to."""
    p = {name: weight.astype(np.float64) for name, weight in weights.items()}
    read, values = [x], []
    for i in range(3):
        values.append(rounds[i](rounds[i](read[i]) @ rounds[i](p[f"w{i}"])) + p[f"b{i}"])
        if i < 2:
            read.append(rounds[i + 1](np.tanh(values[i])))
    d = np.exp(values[2] - values[2].max(axis=1, keepdims=True))
    d /= d.sum(axis=1, keepdims=True)
    d[np.arange(len(x)), target] -= 1
    d /= len(x)
    for i in (2, 1, 0):
        d = rounds[i](d)
        yield f"w{i}", p[f"w{i}"] - RATE * (rounds[i](read[i]).T @ d)
        yield f"b{i}", p[f"b{i}"] - RATE * d.sum(axis=0)
        if i:
            is_read = bf16 in rounds[:i]  # what no rounding depends on loses nothing
            d = (rounds[i] if is_read else np.asarray)(d @ rounds[i](p[f"w{i}"]).T) * (1 - read[i] ** 2)


# Breaks if gradients' products don't go by the rule of the layer that they are of.
@pytest.mark.parametrize("kept", [(), ("fc0",), ("fc1",), ("fc2",), ("fc0", "fc1"), ("fc0", "fc1", "fc2")])
def test_gradients_go_by_the_rules_of_their_layers(network, batch, kept):
    (path, weights), (x, target) = network, batch
    step = ts.train_step(path, "cross_entropy", "sgd", learning_rate=RATE, precision="bf16", casts=dict.fromkeys(kept, "never"))
    step(x=x, target=target)
    rounds = [np.asarray if f"fc{i}" in kept else bf16 for i in range(3)]
    for name, expected in updated(weights, x, target, rounds):
        errors = np.abs(step.state[name] - expected) / np.abs(expected - weights[name]).max()
        # A sum that lies between two bf16 may be rounded to the other by an error of f32.
        assert np.quantile(errors, 0.9) < 2e-4 and errors.max() < 0.02, name


def table_of(step):
    return {(row["operator"], row["rule"], row["asked"]): row["count"] for row in json.loads(step.describe()["metadata"]["casts"])}


def test_the_rules_are_shown(network):
    own = table_of(ts.train_step(network[0], precision="bf16"))
    products = own["matmul", "always", False]
    assert products >= 8 and ("exp", "never", False) in own and not any(asked for *_, asked in own)
    # The last request that matches holds; a type of nodes, a node, an operator.
    asked = table_of(ts.train_step(network[0], precision="bf16", casts={"Gemm": "never", "fc1": "always", "exp": "follow"}))
    assert asked["matmul", "never", True] + asked["matmul", "always", True] == products and asked["matmul", "always", True] >= 3
    assert asked["exp", "follow", True] == own["exp", "never", False]
    assert "casts" not in ts.train_step(network[0]).describe()["metadata"]


# Inference under bf16: products whose weights are rounded by estimates.
def test_a_model_keeps_what_it_is_asked_to_keep(tmp_path):
    draw = np.random.default_rng(0)
    w = [draw.normal(0, 0.1, (96, 96)).astype(np.float32) for _ in range(2)]
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["h"], "first"), helper.make_node("MatMul", ["h", "w1"], ["y"], "second")]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 96]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(value, f"w{i}") for i, value in enumerate(w)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    x = draw.normal(size=(8, 96)).astype(np.float32)
    errors = {}
    for rules in ["never", "always"]:
        model = ts.compile(tmp_path / "m.onnx", precision="bf16", casts={"*": rules})
        expected = x.astype(np.float64) @ w[0] @ w[1]
        errors[rules] = np.abs(model(x) - expected).max() / np.abs(expected).max()
    assert errors["never"] < 1e-6 < 1e-4 < errors["always"]


@pytest.mark.parametrize("casts, precision, said", [
    ({"fc9": "never"}, "bf16", "'fc9' is the name of no operator"), ({"fc0": "sometimes"}, "bf16", "NAME=always"),
    ({"": "never"}, "bf16", "NAME=always"), ({"[": "never"}, "bf16", "no pattern"), ({"fc0": "never"}, "fast", "bf16 and f16"),
])  # fmt: skip
def test_mistakes_are_told(network, casts, precision, said):
    with pytest.raises(ts.Error, match=said):
        ts.train_step(network[0], precision=precision, casts=casts)
