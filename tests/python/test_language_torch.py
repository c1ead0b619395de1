"""Recursive programs against PyTorch's own layers with the same weights, to 1e-5; the programs are those of bench/recursion.

Where PyTorch is missing these are skipped: test_language.py compares the like with NumPy.
"""

import importlib
import importlib.machinery
import importlib.util
import pathlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (bench/requirements.txt)")

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "recursion"


@pytest.fixture(scope="module")
def recursion():
    loader = importlib.machinery.SourceFileLoader("recursion", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("recursion", loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("hidden", [150, 300])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_tree_lstm(recursion, hidden, threads):
    rng = np.random.default_rng(5)
    weights = recursion.tree_weights(rng, hidden)
    model = recursion.compile_program(recursion.TREE, weights, threads, hidden)
    peer = recursion.TorchTree(weights, hidden)
    for count in (1, 2, 20, 40):
        tree = recursion.random_tree(rng, 0, count)
        leaves = rng.standard_normal((count, recursion.INPUT)).astype(np.float32)
        given = torch.from_numpy(leaves)
        with torch.inference_mode():
            by_recursion = peer.recursive(tree, given)
            by_levels = peer.by_levels(recursion.levels_of(tree, count), given)
        for got, one, other in zip(model(recursion.value_of(model, tree, leaves)), by_recursion, by_levels):
            np.testing.assert_allclose(got[0], one.numpy().reshape(-1), atol=1e-5)
            np.testing.assert_allclose(got[0], other.numpy(), atol=1e-5)


@pytest.mark.parametrize("hidden", [150])
def test_an_lstm(recursion, hidden):
    rng = np.random.default_rng(6)
    weights = {"w": (recursion.INPUT, 4 * hidden), "b": (1, 4 * hidden), "u": (hidden, 4 * hidden)}
    weights = {name: (rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32) for name, shape in weights.items()}
    model = recursion.compile_program(recursion.LIST, weights, 1, hidden)
    layer = recursion.torch_lstm(torch.nn.LSTM, "_l0", weights, hidden)
    start = np.zeros((1, hidden), np.float32)
    for length in (1, 2, 30):
        sequence = rng.standard_normal((length, 1, recursion.INPUT)).astype(np.float32)
        with torch.inference_mode():
            expected = layer(torch.from_numpy(sequence))[1]
        for got, right in zip(model(start, start, list(sequence)), expected):
            np.testing.assert_allclose(got, right.reshape(1, hidden).numpy(), atol=1e-5)


@pytest.fixture(scope="module")
def bert():
    sys.path.insert(0, str(PROGRAM.parents[1] / "examples" / "programs"))
    return importlib.import_module("bert")


def bert_of_torch(bert, ids, mask, values):
    """The layers as PyTorch has them."""
    functional = torch.nn.functional
    normed = lambda x, scale, shift: functional.layer_norm(x, (bert.SIZE,), scale, shift)
    heads = lambda x: x.unflatten(-1, (bert.HEADS, -1)).transpose(1, 2)
    x = functional.embedding(ids, values["words"]) + values["positions"][: ids.shape[1]]
    x = normed(x, values["norm.scale"], values["norm.shift"])
    hidden = ((1 - mask) * -10000)[:, None, None, :]
    for layer in range(bert.LAYERS):
        of = lambda name: (values[f"{layer}.{name}.w"], values[f"{layer}.{name}.bias"])
        dense = lambda x, name: functional.linear(x, of(name)[0].T, of(name)[1])
        seen = functional.scaled_dot_product_attention(*(heads(dense(x, name)) for name in "qkv"), attn_mask=hidden)
        x = normed(x + dense(seen.transpose(1, 2).flatten(2), "output"), *of("norm"))
        x = normed(x + dense(functional.gelu(dense(x, "wide")), "narrow"), *of("last_norm"))
    return x


def test_bert_of_any_batch_and_length(bert, tmp_path):
    rng = np.random.default_rng(7)
    values = bert.weights(rng)
    model = bert.compile_here(tmp_path, "bert", values)
    given = {name: torch.from_numpy(value) for name, value in values.items()}
    for batch, length in ((1, 1), (1, 37), (3, 64), (4, 5), (2, 128)):
        ids = rng.integers(0, bert.WORDS, (batch, length))
        mask = (rng.random((batch, length)) < 0.8).astype(np.float32)
        mask[:, 0] = 1
        with torch.inference_mode():
            right = bert_of_torch(bert, torch.from_numpy(ids), torch.from_numpy(mask), given)
        np.testing.assert_allclose(model(ids, mask), right.numpy(), atol=1e-5)
