"""Runs narytreelstm.tsm over random trees of up to four children a node, and compares with the same in NumPy.

    python narytreelstm.py [--count N]
"""

import numpy as np
from comparing import compile_here, draw, run, sigmoid

INPUT, HIDDEN, PLACES = 100, 150, 4


def random_rose(rng, nodes):
    """(x, [child, ...]) of so many nodes."""
    x, below, left = rng.standard_normal((1, INPUT)).astype(np.float32), [], nodes - 1
    for place in range(PLACES):
        size = left if place == PLACES - 1 else int(rng.integers(0, left + 1))
        if size:
            below.append(random_rose(rng, size))
        left -= size
    return x, below


def value_of(model, rose):
    return model.constructors["Rose"](rose[0], model._value([value_of(model, child) for child in rose[1]]))


def evaluate(rose, values):
    x, below = rose
    children = [evaluate(child, values) for child in below]
    gates = x @ values["w"] + values["bias"]
    for place, (hidden, _) in enumerate(children):
        gates = gates + hidden @ values[f"u{place}"]
    i, o, u, *forget = np.split(gates, 3 + PLACES, axis=1)
    cell = sigmoid(i) * np.tanh(u) + sum(sigmoid(f) * c for f, (_, c) in zip(forget, children))
    return sigmoid(o) * np.tanh(cell), cell


def largest_difference(count, folder):
    rng = np.random.default_rng(1)
    gates = (3 + PLACES) * HIDDEN
    values = {"w": draw(rng, INPUT, gates), "bias": draw(rng, 1, gates)}
    values |= {f"u{place}": draw(rng, HIDDEN, gates) for place in range(PLACES)}
    model = compile_here(folder, "narytreelstm", values)
    worst = 0
    for nodes in [1, 2, *rng.integers(3, 40, count)]:
        rose = random_rose(rng, int(nodes))
        for got, expected in zip(model(value_of(model, rose)), evaluate(rose, values), strict=True):
            worst = max(worst, np.abs(got - expected).max())
    return worst


if __name__ == "__main__":
    raise SystemExit(run(__doc__, largest_difference))
