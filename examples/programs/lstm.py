"""Makes an LSTM's weights, runs lstm.tsm over sequences of random lengths, and compares with the same in NumPy.

    python lstm.py [--count N]
"""

import numpy as np
from comparing import compile_here, run, sigmoid

HIDDEN = 150


def weights(seed=0):
    draw = np.random.default_rng(seed).standard_normal
    return {
        "w": (draw((2 * HIDDEN, 4 * HIDDEN)) / 17).astype(np.float32),
        "bias": (draw((1, 4 * HIDDEN)) / 10).astype(np.float32),
    }


def evaluate(hidden, cell, sequence, values):
    for x in sequence:
        i, f, g, o = np.split(np.concatenate([x, hidden], axis=1) @ values["w"] + values["bias"], 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
    return hidden, cell


def largest_difference(count, folder):
    rng, values = np.random.default_rng(1), weights()
    model = compile_here(folder, "lstm", values)
    worst = 0
    for _ in range(count):
        sequence = [rng.standard_normal((1, HIDDEN)).astype(np.float32) for _ in range(int(rng.integers(1, 60)))]
        start = np.zeros((1, HIDDEN), np.float32)
        for got, expected in zip(model(start, start, sequence), evaluate(start, start, sequence, values)):
            worst = max(worst, np.abs(got - expected).max())
    return worst


if __name__ == "__main__":
    raise SystemExit(run(__doc__, largest_difference))
