"""Makes an LSTM's weights, runs lstm.tsm over sequences of random lengths, and compares with the same in NumPy.

    python lstm.py [--sequences N]
"""

import argparse
import pathlib
import shutil
import tempfile

import numpy as np
import tensmith as ts

HIDDEN = 150


def weights(seed=0):
    draw = np.random.default_rng(seed).standard_normal
    return {
        "w": (draw((2 * HIDDEN, 4 * HIDDEN)) / 17).astype(np.float32),
        "bias": (draw((1, 4 * HIDDEN)) / 10).astype(np.float32),
    }


def compile_here(folder, values):
    """The program in `folder`, beside its weights."""
    folder = pathlib.Path(folder)
    for name, value in values.items():
        np.save(folder / f"lstm.{name}.npy", value)
    program = folder / "lstm.tsm"
    shutil.copyfile(pathlib.Path(__file__).with_name("lstm.tsm"), program)
    return ts.compile(program, threads=1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def evaluate(hidden, cell, sequence, values):
    for x in sequence:
        i, f, g, o = np.split(np.concatenate([x, hidden], axis=1) @ values["w"] + values["bias"], 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
    return hidden, cell


def largest_difference(sequences, folder):
    rng, values = np.random.default_rng(1), weights()
    model = compile_here(folder, values)
    worst = 0
    for _ in range(sequences):
        sequence = [rng.standard_normal((1, HIDDEN)).astype(np.float32) for _ in range(int(rng.integers(1, 60)))]
        start = np.zeros((1, HIDDEN), np.float32)
        for got, expected in zip(model(start, start, sequence), evaluate(start, start, sequence, values)):
            worst = max(worst, np.abs(got - expected).max())
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=50)
    with tempfile.TemporaryDirectory() as folder:
        worst = largest_difference(parser.parse_args().sequences, folder)
    print(f"largest difference to NumPy: {worst:.2e}")
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
