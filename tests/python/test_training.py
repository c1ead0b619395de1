"""Steps of training against their definitions: optimisers in NumPy, states in place, and what is refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith as ts

SIZES = [(8, 7), (7, 5)]
BATCH, CLASSES = 6, 5


def mlp(path, seed=0, extra=()):
    """x -> relu(x w0 + b0) w1 + b1, of odd sizes."""
    draw = np.random.default_rng(seed)
    nodes, weights, value = [], [], "x"
    for i, (rows, columns) in enumerate(SIZES):
        weights += [
            numpy_helper.from_array(draw.normal(0, 0.5, (rows, columns)).astype(np.float32), f"w{i}"),
            numpy_helper.from_array(draw.normal(0, 0.5, columns).astype(np.float32), f"b{i}"),
        ]
        nodes += [helper.make_node("MatMul", [value, f"w{i}"], [f"p{i}"]), helper.make_node("Add", [f"p{i}", f"b{i}"], [f"s{i}"])]
        value = f"s{i}"
        if i + 1 < len(SIZES):
            nodes.append(helper.make_node("Relu", [value], [f"r{i}"]))
            value = f"r{i}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", SIZES[0][0]])
    y = helper.make_tensor_value_info(value, TensorProto.FLOAT, ["batch", SIZES[-1][1]])
    graph = helper.make_graph([*nodes, *extra], "mlp", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in weights}


def batches(count, seed=1):
    draw = np.random.default_rng(seed)
    for _ in range(count):
        yield draw.normal(size=(BATCH, SIZES[0][0])).astype(np.float32), draw.integers(0, CLASSES, BATCH)


def gradients(p, x, target):
    """Loss, right answers and gradients of the network, written out."""
    first = x @ p["w0"] + p["b0"]
    hidden = np.maximum(first, 0)
    scores = hidden @ p["w1"] + p["b1"]
    shifted = scores - scores.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(x))
    d = np.exp(logs)
    d[rows, target] -= 1
    d /= len(x)
    back = (d @ p["w1"].T) * (first > 0)
    found = {"w1": hidden.T @ d, "b1": d.sum(axis=0), "w0": x.T @ back, "b0": back.sum(axis=0)}
    return -logs[rows, target].mean(), int((scores.argmax(axis=1) == target).sum()), found


def momentum(nesterov):
    def update(p, g, slots, rate, _):
        v = slots.setdefault("velocity", np.zeros_like(p))
        v[...] = 0.9 * v + g
        return p - rate * (g + 0.9 * v if nesterov else v)

    return update


def adagrad(p, g, slots, rate, _):
    s = slots.setdefault("square", np.zeros_like(p))
    s += g * g
    return p - rate * g / (np.sqrt(s) + 1e-10)


def rmsprop(p, g, slots, rate, _):
    s = slots.setdefault("square", np.zeros_like(p))
    s[...] = 0.99 * s + 0.01 * g * g
    return p - rate * g / (np.sqrt(s) + 1e-8)


def moments(p, g, slots, step):
    m, v = slots.setdefault("mean", np.zeros_like(p)), slots.setdefault("square", np.zeros_like(p))
    m[...] = 0.9 * m + 0.1 * g
    v[...] = 0.999 * v + 0.001 * g * g
    return m / (1 - 0.9**step), v / (1 - 0.999**step)


def adam(p, g, slots, rate, step):
    m, v = moments(p, g, slots, step)
    return p - rate * m / (np.sqrt(v) + 1e-8)


def adamw(p, g, slots, rate, step):
    return adam(p * (1 - rate * 0.01), g, slots, rate, step)


def lamb(p, g, slots, rate, step):
    m, v = moments(p, g, slots, step)
    change = m / (np.sqrt(v) + 1e-6) + 0.01 * p
    return p - rate * np.linalg.norm(p) / np.linalg.norm(change) * change


OPTIMISERS = {
    "sgd": lambda p, g, slots, rate, step: p - rate * g,
    "momentum": momentum(False),
    "nesterov": momentum(True),
    "adagrad": adagrad,
    "rmsprop": rmsprop,
    "adam": adam,
    "adamw": adamw,
    "lamb": lamb,
}


def follow(step, parameters, update, steps=10, rate=0.05, change=lambda p, g: g):
    """Goes along with a definition; gives its parameters and slots."""
    slots = {name: {} for name in parameters}
    for i, (x, target) in enumerate(batches(steps)):
        loss, correct, found = gradients(parameters, x, target)
        given = step(x=x, target=target)
        assert abs(given["loss"] - loss) < 2e-5 * max(1, abs(loss)), i
        assert given["correct"] == correct
        found = change(parameters, found)
        for name, p in parameters.items():
            r = rate(i + 1) if callable(rate) else rate
            parameters[name] = update(p, found[name], slots[name], r, i + 1)
    return slots


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_optimiser_follows_its_definition(tmp_path, name):
    parameters = mlp(tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", optimiser=name, learning_rate=0.05)
    slots = follow(step, parameters, OPTIMISERS[name])
    assert step.state["step"] == 10
    for parameter, expected in parameters.items():
        np.testing.assert_allclose(step.state[parameter], expected, rtol=2e-4, atol=2e-5)
        for slot, value in slots[parameter].items():
            np.testing.assert_allclose(step.state[f"{slot}.{parameter}"], value, rtol=5e-4, atol=1e-6)


def linear(element, w, b):
    """x -> cast(x) w + b, with weights of that type, which are given as numbers that it has."""
    make = lambda name, value: helper.make_tensor(name, element, value.shape, value.ravel().tolist())  # noqa: E731
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=element), helper.make_node("MatMul", ["c", "w"], ["p"]),
             helper.make_node("Add", ["p", "b"], ["y"])]  # fmt: skip
    graph = helper.make_graph(nodes, "linear", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
                              [helper.make_tensor_value_info("y", element, ["batch", 3])], [make("w", w), make("b", b)])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def numbers(value, element):
    """As f64; NumPy knows no bf16."""
    value = np.asarray(value)
    if element == TensorProto.BFLOAT16 and value.dtype != np.float32:
        return (value.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return value.astype(np.float64)


# Breaks when a program's own numbers are f32 whatever the weights are, or slots are rounded to 16 bits: the square of Adam
# is 0 in f16 where gradients are small, and the step then anything.
@pytest.mark.parametrize("element", [TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize("name", sorted([*OPTIMISERS, "rescaled", "rescaled_rms"]))
def test_weights_of_other_types(name, element):
    draw = np.random.default_rng(2)
    w, b = np.round(draw.normal(0, 1, (4, 3)) * 64) / 64, np.zeros(3)
    x, target = np.round(draw.normal(0, 1, (9, 4)) * 8).astype(np.float32) / 8, draw.integers(0, 3, 9)
    settings = {"optimiser": name, "learning_rate": 0.0625, "shapes": {"batch": 9}, "cache_dir": ""}
    step = ts.train_step(linear(element, w, b), **settings)
    single = ts.train_step(linear(TensorProto.FLOAT, w, b), **settings)
    slots = {"w": {}, "b": {}}
    expected = {"w": w.copy(), "b": b.copy()}
    for i in range(4):
        scores = x.astype(np.float64) @ expected["w"] + expected["b"]
        d = np.exp(scores - scores.max(axis=1, keepdims=True))
        d = (d / d.sum(axis=1, keepdims=True) - np.eye(3)[target]) / 9
        if name in OPTIMISERS:
            found = {"w": x.T.astype(np.float64) @ d, "b": d.sum(axis=0)}
            with np.errstate(divide="ignore", invalid="ignore"):
                expected = {k: OPTIMISERS[name](v, found[k], slots[k], 0.0625, i + 1) for k, v in expected.items()}
            if name == "lamb" and i == 0:  # zeros have no norm, and so a ratio of 1
                m, v = slots["b"]["mean"] / 0.1, slots["b"]["square"] / 0.001
                expected["b"] = -0.0625 * m / (np.sqrt(v) + 1e-6)
        step(x=x, target=target), single(x=x, target=target)
    if name not in OPTIMISERS:
        expected = {k: np.asarray(single.state[k], np.float64) for k in expected}
    wide = element == TensorProto.DOUBLE and name in OPTIMISERS
    places = {TensorProto.DOUBLE: 1e-10 if wide else 2e-5, TensorProto.FLOAT16: 4e-3, TensorProto.BFLOAT16: 3e-2}[element]
    for k, value in expected.items():
        np.testing.assert_allclose(numbers(step.state[k], element), value, rtol=places, atol=places)
        for slot in slots[k]:
            kept = step.state[f"{slot}.{k}"]
            assert kept.dtype == (np.float64 if element == TensorProto.DOUBLE else np.float32)
            np.testing.assert_allclose(kept, slots[k][slot], rtol=10 * places, atol=places)


# Breaks when an error in how a program is called names a line that it doesn't have.
def test_errors_of_a_program_name_its_own_lines(tmp_path):
    mlp(tmp_path / "m.onnx")
    (tmp_path / "mine.tsm").write_text("let k = 3\n\nfn update(parameter, gradient) =\n  parameter @ gradient @ gradient\n")
    with pytest.raises(ts.Error) as raised:
        ts.train_step(tmp_path / "m.onnx", optimiser=tmp_path / "mine.tsm")
    assert "mine.tsm: update: " in str(raised.value) or "mine.tsm:4:" in str(raised.value)
    assert "mine.tsm:6" not in str(raised.value)


def test_all_that_comes_with_it_is_tested(tmp_path):
    mlp(tmp_path / "m.onnx")
    with pytest.raises(ts.Error, match="known are") as raised:
        ts.train_step(tmp_path / "m.onnx", optimiser="none")
    known = str(raised.value).split("known are ")[1].split(", and programs")[0].split(", ")
    assert sorted(known) == sorted([*OPTIMISERS, "rescaled", "rescaled_rms"])  # tests/python/test_rescaling.py


def test_in_place_and_apart_give_the_same_bits(tmp_path):
    mlp(tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", optimiser="adam", learning_rate=0.05, ema_decay=0.9, clip_norm=0.5)
    states = step._module.state_list()
    assert {state["in_place"] for state in step.describe()["states"]} == {1}
    apart = {name: np.array(value) for name, value in step.state.items()}
    for x, target in batches(4):
        loss = step(x=x, target=target)["loss"]
        results = step._model.run(x=x, target=target, **apart)
        assert results[0] == loss
        for state in states:
            apart[state["name"]] = results[state["output"]]
            np.testing.assert_array_equal(apart[state["name"]], step.state[state["name"]])


def test_clipping_decay_averages_and_schedules(tmp_path):
    parameters = mlp(tmp_path / "m.onnx")
    first = {name: value.copy() for name, value in parameters.items()}
    step = ts.train_step(
        tmp_path / "m.onnx", optimiser="momentum", schedule="cosine", learning_rate=0.1, warmup=3, steps=8, least=0.1,
        clip_norm=0.3, weight_decay=0.01, ema_decay=0.5, momentum=0.9,
    )  # fmt: skip

    def change(p, g):
        length = np.sqrt(sum((one * one).sum() for one in g.values()))
        return {name: one * min(1, 0.3 / (length + 1e-6)) + 0.01 * p[name] for name, one in g.items()}

    def rate(i):
        done = min(max((i - 3) / 5, 0), 1)
        return 0.1 * (i / 3 if i < 3 else 0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * done)))

    averages = {name: value.copy() for name, value in first.items()}
    update = momentum(False)

    def updated(p, g, slots, r, i):
        result = update(p, g, slots, r, i)
        slots["ema"] = 0.5 * slots.get("ema", p) + 0.5 * result
        return result

    slots = follow(step, parameters, updated, steps=10, rate=rate, change=change)
    for name, expected in parameters.items():
        np.testing.assert_allclose(step.state[name], expected, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(step.state[f"ema.{name}"], slots[name]["ema"], rtol=2e-4, atol=2e-5)
    assert averages.keys() == parameters.keys()


@pytest.mark.parametrize("optimiser", ["adamw", "lamb", "adam", "sgd"])
def test_no_decay_is_not_the_optimisers_own(optimiser, tmp_path):
    mlp(tmp_path / "m.onnx")
    own = 0.01 if optimiser in ("adamw", "lamb") else 0
    ends = {}
    for decay in (None, 0, own, 0.3):
        step = ts.train_step(tmp_path / "m.onnx", optimiser=optimiser, weight_decay=decay, learning_rate=0.05)
        for x, target in batches(4):
            step(x=x, target=target)
        ends[decay] = np.concatenate([step.state[name].ravel() for name in ("w0", "w1")])
    np.testing.assert_array_equal(ends[None], ends[own])
    assert (ends[0] != ends[0.3]).all() and (own == 0 or (ends[0] != ends[None]).any())
    for wrong in (-1, -0.5, float("nan")):
        with pytest.raises(ts.Error, match="weight_decay must be a number from 0 on"):
            ts.train_step(tmp_path / "m.onnx", optimiser=optimiser, weight_decay=wrong)
    with pytest.raises(ts.Error, match="learning_rate must be a number from 0 on"):
        ts.train_step(tmp_path / "m.onnx", optimiser=optimiser, learning_rate=-0.1)


def test_part_of_the_parameters_and_other_outputs(tmp_path):
    first = mlp(tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", trainable=["w*"], outputs=["s1"], learning_rate=0.1)
    assert sorted(step.state) == ["step", "w0", "w1"]
    x, target = next(batches(1))
    given = step(x=x, target=target)
    hidden = np.maximum(x @ first["w0"] + first["b0"], 0)
    np.testing.assert_allclose(given["s1"], hidden @ first["w1"] + first["b1"], rtol=1e-5, atol=1e-5)


def test_a_loss_of_the_model_and_squared_errors(tmp_path):
    p = mlp(tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", loss="mean_squared_error", learning_rate=0.1)
    x, _ = next(batches(1))
    target = np.ones((BATCH, CLASSES), np.float32)
    scores = np.maximum(x @ p["w0"] + p["b0"], 0) @ p["w1"] + p["b1"]
    np.testing.assert_allclose(step(x=x, target=target)["loss"], ((scores - target) ** 2).mean(), rtol=1e-5)
    np.testing.assert_allclose(
        step.state["b1"], p["b1"] - 0.1 * 2 * (scores - target).sum(axis=0) / scores.size, rtol=1e-4, atol=1e-6
    )
    own = [helper.make_node("ReduceMean", ["s1"], ["mean"], keepdims=0)]
    mlp(tmp_path / "own.onnx", extra=own)
    model = onnx.load(tmp_path / "own.onnx")
    model.graph.output.append(helper.make_tensor_value_info("mean", TensorProto.FLOAT, []))
    onnx.save(model, tmp_path / "own.onnx")
    step = ts.train_step(tmp_path / "own.onnx", loss="mean", learning_rate=1.0)
    np.testing.assert_allclose(step(x=x)["loss"], scores.mean(), rtol=1e-5)
    np.testing.assert_allclose(step.state["b1"], p["b1"] - 1 / CLASSES, rtol=1e-5)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"loss": "s2"}, "there is no loss 's2'"),
        ({"loss": "s1"}, "no single number"),
        ({"of": "s2"}, "no output 's2'"),
        ({"optimiser": "sgdd"}, "no optimiser 'sgdd'"),
        ({"schedule": "cosin"}, "no schedule 'cosin'"),
        ({"momentum": 0.9}, "sgd.tsm nor constant.tsm has a setting 'momentum'; there are learning_rate"),
        ({"trainable": ["v*"]}, "'v[*]' is to be trained, but is no initialiser"),
        ({"trainable": ["[a"]}, "no pattern"),
        ({"outputs": ["s2"]}, "no output 's2'"),
        ({"clip_norm": -1.0}, "clip_norm"),
        ({"ema_decay": 1.0}, "ema_decay"),
        ({"learning_rate": float("nan")}, "no finite number"),
        ({"optimiser": "nowhere.tsm"}, "nowhere.tsm: No such file"),
    ],
)
def test_what_is_refused(tmp_path, settings, message):
    mlp(tmp_path / "m.onnx")
    with pytest.raises(ts.Error, match=message):
        ts.train_step(tmp_path / "m.onnx", **settings)


@pytest.mark.parametrize(
    "text, message",
    [
        ("fn update(parameter, gradient) = parameter - ", "own.tsm:1:"),
        ("fn step(parameter) = parameter", "has no function update"),
        ("fn update(parameter, gradient, v) = parameter", "must give the new parameter and its 1 slots"),
        ("fn update(parameter, gradient) = reduce_sum(gradient, axes = [0])", "of the parameter's type and shape"),
        ("fn update(parameter, gradient) = parameter @@ gradient", "own.tsm:1:"),
        ("fn update(parameter, gradient) = parameter + none(gradient)", "own.tsm:1:"),
        ("fn go(p, g) = if reduce_sum(g) < 1.0 { p } else { go(p, g / 2.0) }\nfn update(parameter, gradient) = go(parameter, gradient)", "own.tsm"),
    ],
)  # fmt: skip
def test_own_optimisers_that_are_refused(tmp_path, text, message):
    mlp(tmp_path / "m.onnx")
    (tmp_path / "own.tsm").write_text(text)
    with pytest.raises(ts.Error, match=message):
        ts.train_step(tmp_path / "m.onnx", optimiser=tmp_path / "own.tsm")


def test_an_optimiser_of_ones_own(tmp_path):
    """The sign of the gradient, averaged: Lion without decay."""
    parameters = mlp(tmp_path / "m.onnx")
    (tmp_path / "lion.tsm").write_text(
        "let beta = 0.5\n"
        "fn blend(a, b, share) = share * a + (1.0 - share) * b\n"
        "fn update(parameter, gradient, mean, learning_rate) =\n"
        "  (parameter - learning_rate * sign(blend(mean, gradient, beta)), blend(mean, gradient, 0.75))\n"
    )

    def lion(p, g, slots, rate, _):
        m = slots.setdefault("mean", np.zeros_like(p))
        p = p - rate * np.sign(0.9 * m + 0.1 * g)
        m[...] = 0.75 * m + 0.25 * g
        return p

    step = ts.train_step(tmp_path / "m.onnx", optimiser=tmp_path / "lion.tsm", beta=0.9, learning_rate=0.01)
    follow(step, parameters, lion, steps=5, rate=0.01)
    for name, expected in parameters.items():
        np.testing.assert_allclose(step.state[name], expected, rtol=1e-4, atol=1e-5)


def chain(path, first, second, given="x"):
    """given @ first @ second, six by six, whose initialisers have those names."""
    draw = np.random.default_rng(4)
    weights = [numpy_helper.from_array(draw.normal(0, 0.3, (6, 6)).astype(np.float32), name) for name in (first, second)]
    nodes = [helper.make_node("MatMul", [given, first], ["h"]), helper.make_node("MatMul", ["h", second], ["scores"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 6]) for name in (given, "scores")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports[:1], ports[1:], weights),
                                opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)  # fmt: skip


# Breaks when two states have one name: then a checkpoint gives one of them what is the other's.
@pytest.mark.parametrize(
    "names, settings, message",
    [
        (("w", "mean.w"), {"optimiser": "adam"}, "initialiser 'mean.w', .*; rename the initialiser"),
        (("w", "ema.w"), {"ema_decay": 0.9}, "initialiser 'ema.w', .*; rename the initialiser"),
        (("w", "step"), {}, "initialiser 'step', .*; rename the initialiser"),
        (("w", "target"), {}, "initialiser 'target', .*; rename the initialiser"),
        (("w", "v", "step"), {}, "input 'step', .*; rename the input"),
        (("w", "v", "velocity.w"), {"optimiser": "momentum", "momentum": 0.9}, "input 'velocity.w', .*; rename the input"),
    ],
)
def test_names_of_states_are_not_shared(tmp_path, names, settings, message):
    chain(tmp_path / "m.onnx", *names)
    with pytest.raises(ts.Error, match=message):
        ts.train_step(tmp_path / "m.onnx", learning_rate=0.1, **settings)


def test_names_that_nothing_else_has_are_kept(tmp_path):
    chain(tmp_path / "m.onnx", "w", "mean.w")
    step = ts.train_step(tmp_path / "m.onnx", optimiser="momentum", learning_rate=0.1)
    assert sorted(step.state) == ["mean.w", "step", "velocity.mean.w", "velocity.w", "w"]


# Breaks when the loss, how many are right, or the gradient that is made of the same rows reads another row or column, counts what
# has no class, or a row is written over before all of it was read.
@pytest.mark.parametrize("shape", [(1, 2), (3, 17), (5, 64), (33, 1000), (128, 10), (64, 100), (9000, 7), (2, 129, 3)])
def test_cross_entropy_of_rows(tmp_path, shape):
    draw = np.random.default_rng(shape[1])
    w = draw.normal(0, 3, shape).astype(np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "scores", [x], [y], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", "cross_entropy", "sgd", learning_rate=1.0)
    given = draw.normal(size=shape).astype(np.float32)
    target = draw.integers(-1, shape[1], shape[:1] + shape[2:])
    scores = np.moveaxis((given + w).astype(np.float64), 1, -1)
    logs = scores - scores.max(-1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    hit = target[..., None] == np.arange(shape[1])
    count = max((target >= 0).sum(), 1)
    gradient = (np.exp(logs) * hit.any(-1, keepdims=True) - hit) / count
    result = step(x=given, target=target)
    np.testing.assert_allclose(result["loss"], -(logs * hit).sum() / count, rtol=1e-5)
    assert result["correct"] == (scores.argmax(-1) == target).sum()
    np.testing.assert_allclose(step.state["w"], w - np.moveaxis(gradient, -1, 1), rtol=1e-5, atol=1e-6)
    # The state's first value, and nothing of a size with it: 8 bytes for each score would be the classes' numbers.
    assert step.describe()["weights_bytes"] <= w.nbytes + 1024 or w.size < 1024


# Breaks when the classes' numbers, of a batch of any size, are no row's own.
@pytest.mark.parametrize("classes", [1, 10, 1000])
def test_cross_entropy_of_any_batch(tmp_path, classes):
    draw = np.random.default_rng(classes)
    w = draw.normal(0, 3, classes).astype(np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", classes]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "scores", [x], [y], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", "cross_entropy", "sgd", learning_rate=1.0)
    w = w.astype(np.float64)
    for batch in (1, 3, 128, 65):
        given, target = draw.normal(size=(batch, classes)).astype(np.float32), draw.integers(0, classes, batch)
        scores = given + w
        logs = scores - scores.max(-1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
        hit = target[:, None] == np.arange(classes)
        result = step(x=given, target=target)
        np.testing.assert_allclose(result["loss"], -logs[hit].mean(), rtol=1e-5, atol=1e-6)
        assert result["correct"] == (scores.argmax(-1) == target).sum()
        w -= (np.exp(logs) - hit).mean(0)
        np.testing.assert_allclose(step.state["w"], w, rtol=1e-5, atol=1e-5)


# Breaks when the softmax or its gradient has memory beside the scores', which the gradient is written over.
def test_cross_entropy_needs_the_scores_alone(tmp_path):
    samples, classes, size = 512, 2000, 16
    w = numpy_helper.from_array(np.random.default_rng(3).normal(size=(classes, size)).astype(np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (samples, size))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (samples, classes))
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], "scores", [x], [y], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", "cross_entropy", "sgd", learning_rate=0.1)
    assert step.describe()["metadata"]["arena_bytes_planned"] < 1.5 * 4 * samples * classes


# Breaks when a target that is no class counts as one that was guessed right, or its loss reaches the weights.
def test_a_target_that_is_no_class_makes_the_loss_not_a_number(tmp_path):
    mlp(tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", learning_rate=0.1)
    x, target = next(batches(1))
    for wrong in (CLASSES, 2**40):
        assert np.isnan(step(x=x, target=np.where(np.arange(BATCH) == 2, wrong, target))["loss"])
    assert all(np.isfinite(value).all() for value in step.state.values())
    assert np.isfinite(step(x=x, target=np.where(np.arange(BATCH) == 2, -1, target))["loss"])


# Breaks when nothing is divided by what is kept of nothing: zero times infinity in the gradient.
def test_dropout_of_everything(tmp_path):
    parameters = mlp(tmp_path / "m.onnx", extra=[helper.make_node("Dropout", ["s1", "ratio", "training"], ["y"])])
    model = onnx.load(tmp_path / "m.onnx")
    model.graph.initializer.extend([numpy_helper.from_array(np.float32(1), "ratio"), numpy_helper.from_array(np.bool_(True), "training")])
    model.graph.output[0].name = "y"
    onnx.save(model, tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx", loss="mean_squared_error", outputs=["y"], learning_rate=0.1)
    given = step(x=next(batches(1))[0], target=np.ones((BATCH, CLASSES), np.float32))
    assert given["loss"] == 1 and (given["y"] == 0).all()
    for name, value in parameters.items():
        np.testing.assert_array_equal(step.state[name], value.astype(np.float32))


def test_batch_normalisation_in_a_branch_is_refused(tmp_path):
    """Its running statistics would move in some steps alone; of several processes some would not come to the others' sums."""
    value = helper.make_tensor_value_info
    weights = {"w": np.ones((3, 2)), "scale": np.ones(3), "shift": np.zeros(3), "mean": np.zeros(3), "variance": np.ones(3), "zero": 0.0}
    normalised = helper.make_node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["t"], "norm")
    branches = {"then_branch": helper.make_graph([normalised], "then", [], [value("t", TensorProto.FLOAT, None)]),
                "else_branch": helper.make_graph([helper.make_node("Mul", ["x", "x"], ["e"])], "else", [],
                                                 [value("e", TensorProto.FLOAT, None)])}
    nodes = [helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), helper.make_node("Greater", ["sum", "zero"], ["is"]),
             helper.make_node("If", ["is"], ["y"], "choice", **branches), helper.make_node("MatMul", ["y", "w"], ["scores"])]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [4, 3])], [value("scores", TensorProto.FLOAT, [4, 2])],
                              [numpy_helper.from_array(np.asarray(w, np.float32), name) for name, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(ts.Error, match="norm.* stands in a branch or a loop, where its running statistics can't be trained"):
        ts.train_step(tmp_path / "m.onnx")


def test_states_are_set_by_their_contents(tmp_path):
    mlp(tmp_path / "m.onnx")
    step = ts.train_step(tmp_path / "m.onnx")
    step.state["b1"] = np.full(CLASSES, 2, np.float32)
    assert (step.state["b1"] == 2).all()
    with pytest.raises(ts.Error, match="has the shape"):
        step.state["b1"] = np.zeros(3, np.float32)
    step.save(tmp_path / "step.so")
    assert len(ts.load(tmp_path / "step.so").inputs) == len(step.state) + 2


def philox(seed, element, step):
    """The first word of Philox 4x32-10."""
    counter, key = [element, 0, step, 0], [seed, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter[0]


@pytest.mark.parametrize("opset, form", [(11, "attribute"), (17, "operand"), (17, "inference")])
def test_dropout_draws_by_step_and_element(tmp_path, opset, form):
    """y = dropout(x w), and the gradient of sum(y) by w, with masks written out."""
    w = np.arange(1, 13, dtype=np.float32).reshape(3, 4) / 7
    weights, operands, attributes = [numpy_helper.from_array(w, "w")], ["p"], {}
    if form == "attribute":
        attributes["ratio"] = 0.3
    else:
        attributes["seed"] = 5
        operands.append("ratio")
        weights.append(numpy_helper.from_array(np.float32(0.3), "ratio"))
    if form == "operand":
        operands.append("training")
        weights.append(numpy_helper.from_array(np.bool_(True), "training"))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Dropout", operands, ["y"], **attributes),
        helper.make_node("Flatten", ["y"], ["flat"], axis=0),
        helper.make_node("MatMul", ["flat", "ones"], ["sum"]),
    ]
    weights.append(numpy_helper.from_array(np.ones((20, 1), np.float32), "ones"))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 4]), helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1, 1])],
        weights,
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), tmp_path / "d.onnx")
    step = ts.train_step(tmp_path / "d.onnx", loss="sum", outputs=["y"], learning_rate=0.25, trainable=["w"])
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)

    def mask_of(seed, i):
        return np.array([philox(seed, e, i) >> 8 for e in range(20)]).reshape(5, 4) * 2.0**-24 >= 0.3

    for i in range(3):
        before = step.state["w"].copy()
        y = step(x=x)["y"]
        mask = next(m for seed in ([5] if attributes.get("seed") else range(9)) if ((m := mask_of(seed, i)) == (y != 0)).all())
        np.testing.assert_allclose(y, np.where(mask, x @ before / 0.7, 0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(step.state["w"], before - 0.25 * (x.T @ (mask / 0.7)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_embeddings_are_updated_row_by_row(tmp_path, optimiser):
    """Rows that indices name twice, negative indices, and rows that none names."""
    table = np.random.default_rng(0).normal(size=(37, 3)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2, 3])], [numpy_helper.from_array(table, "table")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "e.onnx")
    step = ts.train_step(tmp_path / "e.onnx", loss="mean_squared_error", optimiser=optimiser, learning_rate=0.1)
    assert all(state["in_place"] for state in step.describe()["states"])
    assert "scatter_nd" not in [i["label"] for i in step.describe()["functions"][0]["instructions"] if i["opcode"] == "routine"]
    expected, slots = table.astype(np.float64), {}
    for i, ids in enumerate([np.array([[3, 36], [3, -1], [0, 5]]), np.array([[1, 1]])]):
        target = np.zeros((*ids.shape, 3), np.float32)
        step(ids=ids, target=target)
        gradient = np.zeros_like(expected)
        np.add.at(gradient, ids, 2 * expected[ids] / target.size)
        expected = OPTIMISERS[optimiser](expected, gradient, slots, 0.1, i + 1)
        np.testing.assert_allclose(step.state["table"], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ts.Error, match="outside"):
        step(ids=np.array([[0, 37]]), target=np.zeros((1, 2, 3), np.float32))
