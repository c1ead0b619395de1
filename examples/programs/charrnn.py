"""Runs charrnn.tsm, and compares the text that it writes, and how sure it is, with the same in NumPy.

    python charrnn.py [--count N]
"""

import numpy as np
from comparing import compile_here, draw, run, sigmoid

SIZE, LETTERS = 48, 60


def step(state, letter, values):
    hidden, cell = state
    x = values["letters"][[letter]]
    i, f, g, o = np.split(np.concatenate([x, hidden], axis=1) @ values["w"] + values["bias"], 4, axis=1)
    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def evaluate(begin, boldness, randoms, values):
    state = (np.zeros((1, SIZE), np.float32),) * 2
    for letter in begin:
        state = step(state, letter, values)
    written = []
    for uniform in randoms:
        logits = state[0] @ values["out"] / boldness - np.log(-np.log(uniform))
        written.append(int(logits.argmax()))
        state = step(state, written[-1], values)
    return written


def largest_difference(count, folder):
    """The share of texts that are not the same letter by letter."""
    rng = np.random.default_rng(1)
    values = {
        "letters": rng.standard_normal((LETTERS, SIZE)).astype(np.float32),
        "w": 3 * draw(rng, 2 * SIZE, 4 * SIZE),
        "bias": draw(rng, 1, 4 * SIZE),
        "out": 4 * draw(rng, SIZE, LETTERS),
    }
    model = compile_here(folder, "charrnn", values)
    wrong = 0
    for length in rng.integers(1, 60, count):
        begin = [np.int64(letter) for letter in rng.integers(0, LETTERS, int(rng.integers(0, 10)))]
        boldness = np.float32(rng.uniform(0.2, 2))
        randoms = [rng.uniform(1e-6, 1 - 1e-6, (1, LETTERS)).astype(np.float32) for _ in range(int(length))]
        written = [int(letter) for letter in model(begin, boldness, randoms)]
        wrong += written != evaluate(begin, boldness, randoms, values)
    return wrong / count


if __name__ == "__main__":
    raise SystemExit(run(__doc__, largest_difference))
