"""Runs bert.tsm over batches of random sizes and lengths, and compares with the same in NumPy.

    python bert.py [--count N]
"""

import math

import numpy as np
from comparing import compile_here, draw, run, softmax

SIZE, WIDE, HEADS, WORDS, LONGEST, LAYERS = 64, 256, 4, 50, 128, 2
DENSE = {"q": (SIZE, SIZE), "k": (SIZE, SIZE), "v": (SIZE, SIZE), "output": (SIZE, SIZE), "wide": (SIZE, WIDE), "narrow": (WIDE, SIZE)}


def weights(rng):
    norm = lambda: (1 + draw(rng, SIZE) / 10, draw(rng, SIZE))
    values = {"words": draw(rng, WORDS, SIZE), "positions": draw(rng, LONGEST, SIZE)}
    values["norm.scale"], values["norm.shift"] = norm()
    for layer in range(LAYERS):
        for name, shape in DENSE.items():
            values[f"{layer}.{name}.w"], values[f"{layer}.{name}.bias"] = draw(rng, *shape), draw(rng, shape[1])
        for name in ("norm", "last_norm"):
            values[f"{layer}.{name}.w"], values[f"{layer}.{name}.bias"] = norm()
    return values


def normed(x, scale, shift):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def evaluate(ids, mask, values):
    erf = np.vectorize(math.erf, otypes=[np.float32])
    batch, length = ids.shape
    heads = lambda x: x.reshape(batch, length, HEADS, SIZE // HEADS).transpose(0, 2, 1, 3)
    x = normed(values["words"][ids] + values["positions"][:length], values["norm.scale"], values["norm.shift"])
    for layer in range(LAYERS):
        of = lambda name: (values[f"{layer}.{name}.w"], values[f"{layer}.{name}.bias"])
        dense = lambda x, name: x @ of(name)[0] + of(name)[1]
        q, k, v = (heads(dense(x, name)) for name in "qkv")
        likely = softmax(q @ k.transpose(0, 1, 3, 2) / 4 + ((1 - mask) * -10000)[:, None, None, :])
        x = normed(x + dense((likely @ v).transpose(0, 2, 1, 3).reshape(batch, length, SIZE), "output"), *of("norm"))
        wide = dense(x, "wide")
        x = normed(x + dense(wide / 2 * (1 + erf(wide / math.sqrt(2))), "narrow"), *of("last_norm"))
    return x


def largest_difference(count, folder):
    rng = np.random.default_rng(1)
    values = weights(rng)
    model = compile_here(folder, "bert", values)
    worst = 0
    for _ in range(count):
        shape = int(rng.integers(1, 5)), int(rng.integers(1, 90))
        ids, mask = rng.integers(0, WORDS, shape), (rng.random(shape) < 0.8).astype(np.float32)
        mask[:, 0] = 1
        worst = max(worst, np.abs(model(ids, mask) - evaluate(ids, mask, values)).max())
    return worst


if __name__ == "__main__":
    raise SystemExit(run(__doc__, largest_difference))
