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


def test_steps_of_a_tree_lstm(example, tmp_path):
    """Trees of other shapes in each step, with Adam: losses and weights."""
    import tensmith
    import treelstm
    from comparing import random_tree, value_of

    rng, classes = np.random.default_rng(8), draw(np.random.default_rng(9), treelstm.HIDDEN, 3)
    values = treelstm.weights() | {"classes": classes}
    for key, value in values.items():
        np.save(tmp_path / f"treelstm.{key}.npy", value)
    text = (ROOT / "examples" / "programs" / "treelstm.tsm").read_text()
    text = 'let classes = load("treelstm.classes.npy")\n' + text[: text.index("fn main")] + """fn main(tree: Tree[f32[1, 150]], label: i64[]) = {
  let (hidden, _) = encode(tree);
  neg(gather((reshape(log_softmax(hidden @ classes, axis = 1)) : f32[3]), label, axis = 0))
}
"""
    (tmp_path / "net.tsm").write_text(text)
    step = tensmith.train_step(tmp_path / "net.tsm", loss="result", optimiser="adam", learning_rate=1e-3, threads=2, cache_dir="")
    like = types.SimpleNamespace(tanh=torch.tanh, split=lambda x: torch.split(x, treelstm.HIDDEN, dim=1),
                                 join=lambda a, b: torch.cat([a, b], dim=1))  # fmt: skip
    weights = tensors_of(values)
    optimiser = torch.optim.Adam(weights.values(), lr=1e-3)
    for number in range(25):
        tree, label = random_tree(rng, int(rng.integers(2, 30)), treelstm.HIDDEN), int(rng.integers(3))
        hidden, _ = treelstm.evaluate(as_torch(tree, []), weights, like, torch.sigmoid)
        loss = torch.nn.functional.cross_entropy(hidden @ weights["classes"], torch.tensor([label]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        ours = step(tree=value_of(step, tree), label=np.int64(label))["loss"]
        np.testing.assert_allclose(ours, loss.item(), rtol=1e-5, atol=1e-5)
    for name, value in weights.items():
        assert_alike(step.state[name], value.detach())


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
    compiled = gradients(tmp_path, "gru", values, ["of_input", "of_state", "hidden", "xs"], "result")
    start, sequence = {"hidden": draw(rng, 1, gru.HIDDEN)}, [draw(rng, 1, gru.INPUT) for _ in range(30)]
    cotangents = [draw(rng, 1, gru.HIDDEN) for _ in sequence]
    weights, xs = tensors_of({**values, **start}), [torch.tensor(x, requires_grad=True) for x in sequence]
    states = gru.evaluate(weights["hidden"], xs, weights)
    sum((state * torch.tensor(own)).sum() for state, own in zip(states, cotangents, strict=True)).backward()
    given = {"xs": compiled._value(sequence), "cotangent.result": compiled._value(cotangents)}
    of_input, of_state = (values["w"], values["w_bias"]), (values["u"], values["u_bias"])
    got = compiled.run(**start, of_input=of_input, of_state=of_state, **given)
    by_name = {name: weights[name] for name in ("w", "w_bias", "u", "u_bias", "hidden")}
    assert_all_alike([*leaves_of(got[1]), *leaves_of(got[2]), got[3]], by_name, xs, got[-1])


@pytest.mark.parametrize("store", ["state", "reference"])
def test_attention_to_all_before(tmp_path, store):
    """What was seen grows by a row with each step, as a state of a fold or in references."""
    size, rng = 24, np.random.default_rng(9)
    texts = {"state": """
fn step(seen, x, w, u) = match seen {
  (keys, values, y) => {
    let keys = (concat(keys, x @ w, axis = 0) : f32[?, 24]);
    let values = (concat(values, tanh(x @ u), axis = 0) : f32[?, 24]);
    (keys, values, softmax((x + y) @ transpose(keys, permutation = [1, 0]), axis = 1) @ values)
  },
}
fn main(xs: List[f32[1, 24]], start: f32[1, 24], w: f32[24, 24], u: f32[24, 24]) = {
  let (_, _, y) = fold(fn(seen, x) => step(seen, x, w, u), ((start : f32[?, 24]), (start : f32[?, 24]), start), xs);
  y
}
""", "reference": """
fn steps(xs, keys, values, y, w, u) = match xs {
  Nil => y,
  Cons(x, rest) => {
    keys := (concat(*keys, x @ w, axis = 0) : f32[?, 24]);
    values := (concat(*values, tanh(x @ u), axis = 0) : f32[?, 24]);
    steps(rest, keys, values, softmax((x + y) @ transpose(*keys, permutation = [1, 0]), axis = 1) @ *values, w, u)
  },
}
fn main(xs: List[f32[1, 24]], start: f32[1, 24], w: f32[24, 24], u: f32[24, 24]) =
  steps(xs, ref((start : f32[?, 24])), ref((start : f32[?, 24])), start, w, u)
"""}  # fmt: skip
    import tensmith

    (tmp_path / "attention.tsm").write_text(texts[store])
    values = {"start": draw(rng, 1, size), "w": draw(rng, size, size), "u": draw(rng, size, size)}
    compiled = tensmith.grad(tmp_path / "attention.tsm", [*values, "xs"], "result", cache_dir="")
    for count in (1, 2, 40):
        sequence, cotangent = [draw(rng, 1, size) for _ in range(count)], draw(rng, 1, size)
        given, xs = tensors_of(values), [torch.tensor(x, requires_grad=True) for x in sequence]
        keys = seen = y = given["start"]
        for x in xs:
            keys, seen = torch.cat([keys, x @ given["w"]]), torch.cat([seen, torch.tanh(x @ given["u"])])
            y = torch.softmax((x + y) @ keys.T, dim=1) @ seen
        (y * torch.tensor(cotangent)).sum().backward()
        got = compiled.run(xs=compiled._value(sequence), **values, **{"cotangent.result": cotangent})
        np.testing.assert_allclose(got[0], y.detach().numpy(), atol=1e-5)
        assert_all_alike(got[1:-1], given, xs, got[-1])


def test_doubling(tmp_path):
    """As wide as two to the number of steps, which the run is given."""
    import tensmith

    (tmp_path / "doubling.tsm").write_text("""
fn doubled(x: f32[2, ?], w, k: i64[]) -> f32[2, ?] =
  if k == 0 { x } else { doubled((concat(w @ x, tanh(x), axis = 1) : f32[2, ?]), w, k - 1) }
fn main(x: f32[2, n], w: f32[2, 2], k: i64[]) = doubled(x, w, k)
""")
    rng = np.random.default_rng(10)
    values = {"x": draw(rng, 2, 3), "w": draw(rng, 2, 2)}
    compiled = tensmith.grad(tmp_path / "doubling.tsm", [*values], "result", cotangent=True, cache_dir="")
    for steps in (0, 1, 7):
        cotangent, given = draw(rng, 2, 3 << steps), tensors_of(values)
        y = given["x"]
        for _ in range(steps):
            y = torch.cat([given["w"] @ y, torch.tanh(y)], dim=1)
        (y * torch.tensor(cotangent)).sum().backward()
        given["w"].grad = torch.zeros(2, 2) if given["w"].grad is None else given["w"].grad
        got = compiled.run(**values, k=np.int64(steps), **{"cotangent.result": cotangent})
        assert_all_alike(got[1:], given)
