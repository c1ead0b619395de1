"""Runs gru.tsm over sequences of random lengths, and compares with the same in NumPy, and in PyTorch where it is there.

    python gru.py [--count N]
"""

import numpy as np
from comparing import compile_here, draw, run, sigmoid

INPUT, HIDDEN = 100, 150


def weights(rng):
    return {
        "w": draw(rng, INPUT, 3 * HIDDEN),
        "u": draw(rng, HIDDEN, 3 * HIDDEN),
        "w_bias": draw(rng, 1, 3 * HIDDEN),
        "u_bias": draw(rng, 1, 3 * HIDDEN),
    }


def evaluate(hidden, sequence, values):
    states = []
    for x in sequence:
        a, b = (np.split(part, 3, axis=1) for part in (x @ values["w"] + values["w_bias"], hidden @ values["u"] + values["u_bias"]))
        r, z = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
        hidden = (1 - z) * np.tanh(a[2] + r * b[2]) + z * hidden
        states.append(hidden)
    return states


def evaluate_by_torch(sequence, values):
    import torch

    gru = torch.nn.GRU(INPUT, HIDDEN)
    with torch.no_grad():
        gru.weight_ih_l0.copy_(torch.from_numpy(values["w"].T.copy()))
        gru.weight_hh_l0.copy_(torch.from_numpy(values["u"].T.copy()))
        gru.bias_ih_l0.copy_(torch.from_numpy(values["w_bias"][0]))
        gru.bias_hh_l0.copy_(torch.from_numpy(values["u_bias"][0]))
        return list(gru(torch.from_numpy(np.stack(sequence)))[0].numpy())


def largest_difference(count, folder):
    rng = np.random.default_rng(1)
    values = weights(rng)
    model = compile_here(folder, "gru", values)
    start, worst = np.zeros((1, HIDDEN), np.float32), 0
    for length in [1, *rng.integers(2, 60, count)]:
        sequence = [rng.standard_normal((1, INPUT)).astype(np.float32) for _ in range(int(length))]
        expected = [evaluate(start, sequence, values)]
        try:
            expected.append(evaluate_by_torch(sequence, values))
        except ImportError:
            pass
        got = list(model(start, sequence))
        for states in expected:
            worst = max(worst, *(np.abs(one - right).max() for one, right in zip(got, states, strict=True)))
    return worst


if __name__ == "__main__":
    raise SystemExit(run(__doc__, largest_difference))
