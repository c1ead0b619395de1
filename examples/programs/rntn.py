"""Runs rntn.tsm over random trees, and compares with the same in NumPy.

    python rntn.py [--count N]
"""

import numpy as np
from comparing import compile_here, draw, random_tree, run, softmax, value_of

SIZE, CLASSES = 30, 5


def evaluate(tree, values):
    """The root's vector, and the labels of all nodes from the root down."""
    if not isinstance(tree, tuple):
        return tree, [softmax(tree @ values["classes"])]
    (left, left_labels), (right, right_labels) = (evaluate(part, values) for part in tree)
    both = np.concatenate([left, right], axis=1)
    vector = np.tanh(np.einsum("ai,kij,aj->ak", both, values["v"], both) + both @ values["w"])
    return vector, [softmax(vector @ values["classes"]), *left_labels, *right_labels]


def labels_of(value):
    return [value[0], *(label for part in value.fields[1:] for label in labels_of(part))]


def largest_difference(count, folder):
    rng = np.random.default_rng(1)
    values = {"v": draw(rng, SIZE, 2 * SIZE, 2 * SIZE) / 8, "w": draw(rng, 2 * SIZE, SIZE), "classes": draw(rng, SIZE, CLASSES)}
    model = compile_here(folder, "rntn", values)
    worst = 0
    for leaves in [1, 2, *rng.integers(3, 30, count)]:
        tree = random_tree(rng, leaves, SIZE)
        (vector, labels), (expected, expected_labels) = model(value_of(model, tree)), evaluate(tree, values)
        pairs = [(vector, expected), *zip(labels_of(labels), expected_labels, strict=True)]
        worst = max(worst, *(np.abs(got - right).max() for got, right in pairs))
    return worst


if __name__ == "__main__":
    raise SystemExit(run(__doc__, largest_difference))
