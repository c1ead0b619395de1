"""Gradients of the examples' recursive programs by their weights, and by what they are given, against PyTorch's: their
definitions in NumPy are run on PyTorch's tensors. Skipped where PyTorch is missing."""

import importlib
import os
import pathlib
import sys
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (bench/requirements.txt)")

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "python"

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="the Python package is not built")

sys.path[:0] = [str(PACKAGE), str(ROOT / "examples" / "programs")]


class LikeNumPy(types.SimpleNamespace):
    """NumPy, but for what the definitions compute with."""

    __getattr__ = staticmethod(lambda name: getattr(np, name))


LIKE_NUMPY = LikeNumPy(
    tanh=torch.tanh,
    einsum=torch.einsum,
    concatenate=lambda parts, axis: torch.cat(parts, dim=axis),
    split=lambda x, count, axis: torch.tensor_split(x, count, dim=axis),
)


@pytest.fixture
def example(monkeypatch):
    def load(name):
        module = importlib.import_module(name)
        monkeypatch.setattr(module, "np", LIKE_NUMPY)
        for function in ("sigmoid", "softmax"):
            if hasattr(module, function):
                monkeypatch.setattr(module, function, torch.sigmoid if function == "sigmoid" else lambda x: torch.softmax(x, -1))
        return module

    return load


def gradients(folder, name, values, wrt, of="result0", **settings):
    import tensmith

    for key, value in values.items():
        np.save(folder / f"{name}.{key}.npy", value)
    program = folder / f"{name}.tsm"
    program.write_text((ROOT / "examples" / "programs" / f"{name}.tsm").read_text())
    return tensmith.grad(program, wrt, of, cache_dir="", **{"threads": 1, **settings})


def draw(rng, *shape):
    return (rng.standard_normal(shape) / np.sqrt(shape[-2] if len(shape) > 1 else 10)).astype(np.float32)


def tensors_of(values):
    return {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}


def as_torch(tree, leaves):
    """Nested pairs of tensors, each leaf noted in its order."""
    if isinstance(tree, tuple):
        return as_torch(tree[0], leaves), as_torch(tree[1], leaves)
    leaves.append(torch.tensor(tree, requires_grad=True))
    return leaves[-1]


def leaves_of(value):
    """The arrays of a value of a data type, in their order."""
    stack, found = [value], []
    while stack:
        part = stack.pop()
        if hasattr(part, "_tensmith_value"):
            stack.extend(reversed(part.fields))
        else:
            found.append(part)
    return found


def assert_alike(got, expected):
    expected = expected.numpy()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, atol=1e-4 * max(1, np.abs(expected).max()), rtol=0)


def assert_all_alike(got, values, leaves=None, tree=None):
    for gradient, value in zip(got, values.values(), strict=True):
        assert_alike(gradient, value.grad)
    if leaves is not None:
        for gradient, leaf in zip(leaves_of(tree), leaves, strict=True):
            assert_alike(gradient, leaf.grad)


@pytest.mark.parametrize("threads", [1, 2])
def test_tree_lstm(example, tmp_path, threads):
    """Of both results: the state is a tuple all the way."""
    import treelstm
    from comparing import random_tree, value_of

    rng = np.random.default_rng(3)
    values = treelstm.weights()
    like = types.SimpleNamespace(tanh=torch.tanh, split=lambda x: torch.split(x, treelstm.HIDDEN, dim=1),
                                 join=lambda a, b: torch.cat([a, b], dim=1))  # fmt: skip
    for number, of in enumerate(("result0", "result1")):
        compiled = gradients(tmp_path, "treelstm", values, [*values, "tree"], of, threads=threads)
        for count in (1, 2, 30):
            tree, cotangent = random_tree(rng, count, treelstm.HIDDEN), draw(rng, 1, treelstm.HIDDEN)
            weights, leaves = tensors_of(values), []
            result = treelstm.evaluate(as_torch(tree, leaves), weights, like, torch.sigmoid)[number]
            (result * torch.tensor(cotangent)).sum().backward()
            for weight in weights.values():  # a single leaf has no node
                weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
            got = compiled.run(tree=value_of(compiled, tree), **values, **{f"cotangent.{of}": cotangent})
            assert_all_alike(got[2:-1], weights, leaves, got[-1])


def test_tree_lstm_of_many_children(example, tmp_path):
    """The weights of the places lie in a list, and states are mapped, zipped and folded."""
    narytreelstm = example("narytreelstm")
    rng = np.random.default_rng(4)
    gates = (3 + narytreelstm.PLACES) * narytreelstm.HIDDEN
    values = {"w": draw(rng, narytreelstm.INPUT, gates), "bias": draw(rng, 1, gates)}
    values |= {f"u{place}": draw(rng, narytreelstm.HIDDEN, gates) for place in range(narytreelstm.PLACES)}
    compiled = gradients(tmp_path, "narytreelstm", values, ["w", "bias", "places"])
    tree = narytreelstm.random_rose(rng, 25)
    given = narytreelstm.value_of(compiled, tree)
    weights, cotangent = tensors_of(values), draw(rng, 1, narytreelstm.HIDDEN)
    convert = lambda node: (torch.tensor(node[0]), [convert(child) for child in node[1]])  # noqa: E731
    hidden, _ = narytreelstm.evaluate(convert(tree), weights)
    (hidden * torch.tensor(cotangent)).sum().backward()
    places = compiled._value([values[f"u{place}"] for place in range(narytreelstm.PLACES)])
    got = compiled.run(tree=given, w=values["w"], bias=values["bias"], places=places, **{"cotangent.result0": cotangent})
    assert_all_alike([*got[2:4], *leaves_of(got[4])], weights)


def test_tree_rnn(example, tmp_path):
    treernn = example("treernn")
    from comparing import random_tree, value_of

    rng = np.random.default_rng(5)
    values = {"w": draw(rng, 2 * treernn.SIZE, treernn.SIZE), "bias": draw(rng, 1, treernn.SIZE)}
    compiled = gradients(tmp_path, "treernn", values, [*values, "tree"], "result")
    tree, cotangent = random_tree(rng, 30, treernn.SIZE), draw(rng, 1, treernn.SIZE)
    weights, leaves = tensors_of(values), []
    (treernn.evaluate(as_torch(tree, leaves), weights) * torch.tensor(cotangent)).sum().backward()
    got = compiled.run(tree=value_of(compiled, tree), **values, **{"cotangent.result": cotangent})
    assert_all_alike(got[1:-1], weights, leaves, got[-1])


def test_recursive_tensor_network(example, tmp_path):
    """Of a tree of labels, whose cotangent is such a tree."""
    rntn = example("rntn")
    from comparing import random_tree, value_of

    rng = np.random.default_rng(6)
    values = {"v": draw(rng, rntn.SIZE, 2 * rntn.SIZE, 2 * rntn.SIZE) / 8, "w": draw(rng, 2 * rntn.SIZE, rntn.SIZE),
              "classes": draw(rng, rntn.SIZE, rntn.CLASSES)}  # fmt: skip
    compiled = gradients(tmp_path, "rntn", values, list(values), "result1")
    make, cotangents = compiled.constructors, []

    def labels_like(tree):
        cotangents.append(draw(rng, 1, rntn.CLASSES))
        own = cotangents[-1]
        return make["Phrase"](own, *map(labels_like, tree)) if isinstance(tree, tuple) else make["Word"](own)

    tree = random_tree(rng, 20, rntn.SIZE)
    cotangent = labels_like(tree)
    weights = tensors_of(values)
    _, labels = rntn.evaluate(as_torch(tree, []), weights)
    sum((label * torch.tensor(own)).sum() for label, own in zip(labels, cotangents, strict=True)).backward()
    got = compiled.run(tree=value_of(compiled, tree), **values, **{"cotangent.result1": cotangent})
    assert_all_alike(got[2:], weights)


def test_lstm(example, tmp_path):
    """By the weights, by the state at the start, and by the elements of the list."""
    lstm = example("lstm")
    rng, values = np.random.default_rng(7), lstm.weights()
    compiled = gradients(tmp_path, "lstm", values, [*values, "hidden", "cell", "xs"])
    start = {"hidden": draw(rng, 1, lstm.HIDDEN), "cell": draw(rng, 1, lstm.HIDDEN)}
    sequence, cotangent = [draw(rng, 1, lstm.HIDDEN) for _ in range(40)], draw(rng, 1, lstm.HIDDEN)
    weights, xs = tensors_of({**values, **start}), [torch.tensor(x, requires_grad=True) for x in sequence]
    hidden, _ = lstm.evaluate(weights["hidden"], weights["cell"], xs, weights)
    (hidden * torch.tensor(cotangent)).sum().backward()
    got = compiled.run(**start, xs=compiled._value(sequence), **values, **{"cotangent.result0": cotangent})
    assert_all_alike(got[2:-1], weights, xs, got[-1])


def test_gru(example, tmp_path):
    """Of the list of all states, whose cotangent is a list."""
    gru = example("gru")
    rng = np.random.default_rng(8)
    values = gru.weights(rng)
    compiled = gradients(tmp_path, "gru", values, [*values, "hidden", "xs"], "result")
    start, sequence = {"hidden": draw(rng, 1, gru.HIDDEN)}, [draw(rng, 1, gru.INPUT) for _ in range(30)]
    cotangents = [draw(rng, 1, gru.HIDDEN) for _ in sequence]
    weights, xs = tensors_of({**values, **start}), [torch.tensor(x, requires_grad=True) for x in sequence]
    states = gru.evaluate(weights["hidden"], xs, weights)
    sum((state * torch.tensor(own)).sum() for state, own in zip(states, cotangents, strict=True)).backward()
    given = {"xs": compiled._value(sequence), "cotangent.result": compiled._value(cotangents)}
    got = compiled.run(**start, **values, **given)
    assert_all_alike(got[1:-1], weights, xs, got[-1])
