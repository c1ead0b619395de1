"""Runs treernn.tsm over random trees, and compares with the same in NumPy.

    python treernn.py [--count N]
"""

import numpy as np
from comparing import compile_here, draw, random_tree, run, value_of

SIZE = 64


def evaluate(tree, values):
    if not isinstance(tree, tuple):
        return tree
    parts = [evaluate(part, values) for part in tree]
    return np.tanh(np.concatenate(parts, axis=1) @ values["w"] + values["bias"])


def largest_difference(count, folder):
    rng = np.random.default_rng(1)
    values = {"w": draw(rng, 2 * SIZE, SIZE), "bias": draw(rng, 1, SIZE)}
    model = compile_here(folder, "treernn", values)
    trees = [random_tree(rng, leaves, SIZE) for leaves in [1, 2, *rng.integers(3, 40, count)]]
    return max(np.abs(model(value_of(model, tree)) - evaluate(tree, values)).max() for tree in trees)


if __name__ == "__main__":
    raise SystemExit(run(__doc__, largest_difference))
