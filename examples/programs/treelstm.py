"""Makes a TreeLSTM's weights, runs treelstm.tsm over random trees, and compares with the same in NumPy.

    python treelstm.py [--trees N]

With PyTorch installed it also times the same recursion there, on one thread, in turns.
"""

import argparse
import tempfile
import time

import numpy as np
from comparing import compile_here, random_tree, sigmoid, value_of

HIDDEN = 150


def weights(seed=0):
    draw = np.random.default_rng(seed).standard_normal
    return {
        "w": (draw((HIDDEN, 3 * HIDDEN)) / 12).astype(np.float32),
        "w_bias": (draw((1, 3 * HIDDEN)) / 10).astype(np.float32),
        "u": (draw((2 * HIDDEN, 5 * HIDDEN)) / 17).astype(np.float32),
        "u_bias": (draw((1, 5 * HIDDEN)) / 10).astype(np.float32),
    }


def evaluate(tree, values, lib, sigmoid):
    """The definition, over NumPy or PyTorch."""
    if not isinstance(tree, tuple):
        i, o, c = lib.split(tree @ values["w"] + values["w_bias"])
        cell = sigmoid(i) * lib.tanh(c)
        return sigmoid(o) * lib.tanh(cell), cell
    (lh, lc), (rh, rc) = evaluate(tree[0], values, lib, sigmoid), evaluate(tree[1], values, lib, sigmoid)
    i, o, c, f, g = lib.split(lib.join(lh, rh) @ values["u"] + values["u_bias"])
    cell = sigmoid(i) * lib.tanh(c) + sigmoid(f) * lc + sigmoid(g) * rc
    return sigmoid(o) * lib.tanh(cell), cell


class NumPy:
    tanh = staticmethod(np.tanh)
    split = staticmethod(lambda x: np.split(x, x.shape[1] // HIDDEN, axis=1))
    join = staticmethod(lambda a, b: np.concatenate([a, b], axis=1))


def time_torch(trees, values):
    import torch

    torch.set_num_threads(1)

    class Torch:
        tanh = staticmethod(torch.tanh)
        split = staticmethod(lambda x: torch.split(x, HIDDEN, dim=1))
        join = staticmethod(lambda a, b: torch.cat([a, b], dim=1))

    tensors = {name: torch.from_numpy(value) for name, value in values.items()}
    convert = lambda tree: (convert(tree[0]), convert(tree[1])) if isinstance(tree, tuple) else torch.from_numpy(tree)
    trees = [convert(tree) for tree in trees]

    def run(index):
        with torch.no_grad():
            return evaluate(trees[index], tensors, Torch, torch.sigmoid)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=100)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    values = weights()
    trees = [random_tree(rng, int(rng.integers(20, 41)), HIDDEN) for _ in range(options.trees)]
    with tempfile.TemporaryDirectory() as folder:
        model = compile_here(folder, "treelstm", values)
    given = [value_of(model, tree) for tree in trees]
    worst = 0
    for tree, value in zip(trees, given):
        hidden, cell = model(value)
        expected = evaluate(tree, values, NumPy, sigmoid)
        worst = max(worst, np.abs(hidden - expected[0]).max(), np.abs(cell - expected[1]).max())
    print(f"largest difference to NumPy: {worst:.2e}")
    runs = {"tensmith": lambda index: model(given[index])}
    try:
        runs["pytorch"] = time_torch(trees, values)
    except ImportError:
        print("PyTorch is not installed: no race")
    best = {name: [float("inf")] * len(trees) for name in runs}
    for _ in range(5):
        for index in range(len(trees)):
            for name, run in runs.items():
                begin = time.perf_counter()
                run(index)
                best[name][index] = min(best[name][index], time.perf_counter() - begin)
    for name, times in best.items():
        print(f"{name}: {1e3 * np.mean(times):.3f} ms a tree")
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
