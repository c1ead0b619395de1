#!/usr/bin/env python3
"""Tensor comprehensions against PyTorch: the workloads of their paper, one thread, side by side.

    bench/comprehensions/measure.py [--rounds 9] [--only NAME] [--out bench/results/comprehensions.json]

Run by a Python that has PyTorch. In each round every system takes its turn, for about 50 ms of calls; figures are CPU time of the
process for one call, in microseconds: the least and the median over the rounds, and the median of the ratios within rounds (above 1:
ours is faster). What we compile is compiled twice, for these sizes and for all. Results are compared with PyTorch's first. A file of
figures is added to: rows that were not run stay as they are.

Source of the workloads: N. Vasilache et al., Tensor Comprehensions, 2018, table 1.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "python"))
os.environ.setdefault("TENSMITH_CACHE", tempfile.mkdtemp())

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import tensmith as ts  # noqa: E402

sys.path.insert(0, str(ROOT / "bench"))
from machine import processor  # noqa: E402

torch.set_num_threads(1)
SECONDS = 0.05


def tensor(*shape):
    return torch.rand(*shape) - 0.5


def transposed(m, n, k):
    text = "def f(float(M, K) A, float(N, K) B) -> (C) { C(m, n) +=! A(m, k) * B(n, k) }"
    return text, {"M": m, "N": n, "K": k}, [tensor(m, k), tensor(n, k)], lambda a, b: a @ b.T


def batched(b, m, k, n):
    text = "def f(float(B, N, M) X, float(B, M, K) Y) -> (Z) { Z(b, n, k) +=! X(b, n, m) * Y(b, m, k) }"
    return text, {"B": b, "N": m, "M": k, "K": n}, [tensor(b, m, k), tensor(b, k, n)], torch.bmm


def grouped(n, g, c, f, h, w):
    text = ("def f(float(N, G, C, H, W) I, float(G, F, C, KH, KW) K) -> (O) {"
            " O(n, g, o, h, w) +=! I(n, g, i, h + r, w + s) * K(g, o, i, r, s) }")  # fmt: skip
    sizes = {"N": n, "G": g, "C": c, "F": f, "H": h, "W": w, "KH": 3, "KW": 3}
    inputs = [tensor(n, g, c, h, w), tensor(g, f, c, 3, 3)]

    def run(x, k):
        return F.conv2d(x.view(n, g * c, h, w), k.view(g * f, c, 3, 3), groups=g).view(n, g, f, h - 2, w - 2)

    return text, sizes, inputs, run


def lookup(tables):
    one = "O{0}(b, d) +=! T{0}(I{0}(b, l), d)"
    names = range(1, tables + 1)
    inputs = ", ".join(f"float(E{t}, D) T{t}, int64(B, L{t}) I{t}" for t in names)
    text = f"def f({inputs}) -> ({', '.join(f'O{t}' for t in names)}) {{ {' '.join(one.format(t) for t in names)} }}"
    given = []
    for _ in names:
        given += [tensor(1_000_000, 64), torch.randint(0, 1_000_000, (128, 50))]

    def run(*operands):
        found = [F.embedding_bag(operands[i + 1], operands[i], mode="sum") for i in range(0, len(operands), 2)]
        return found if tables > 1 else found[0]

    return text, {"D": 64, "B": 128}, given, run


def perceptron(sizes):
    """Layers of products and rectification."""
    inputs, statements, given = [], [], []
    for number, (k, n) in enumerate(zip(sizes, sizes[1:])):
        before, after = f"X{number}", f"X{number + 1}"
        inputs.append(f"float(S{number + 1}, S{number}) W{number}, float(S{number + 1}) B{number}")
        statements.append(f"P{number}(b, n) +=! {before}(b, k) * W{number}(n, k)")
        statements.append(f"{after}(b, n) = fmax(P{number}(b, n) + B{number}(n), 0.0)")
        given += [tensor(n, k), tensor(n)]
    text = f"def f(float(B, S0) X0, {', '.join(inputs)}) -> (X{len(sizes) - 1}) {{ {' '.join(statements)} }}"
    names = {f"S{number}": size for number, size in enumerate(sizes)}

    def run(x, *weights):
        for i in range(0, len(weights), 2):
            x = torch.relu(F.linear(x, weights[i], weights[i + 1]))
        return x

    return text, {"B": 128, **names}, [tensor(128, sizes[0]), *given], run


def kronecker():
    text = ("def f(float(D2, N2) W2, float(D1, N1) W1, float(D0, N0) W0, float(M, N0, N1, N2) X) -> (Y) {"
            " A(m, n0, n1, d2) +=! X(m, n0, n1, n2) * W2(d2, n2)"
            " B(m, n0, d1, d2) +=! A(m, n0, n1, d2) * W1(d1, n1)"
            " Y(m, d0, d1, d2) +=! B(m, n0, d1, d2) * W0(d0, n0) }")  # fmt: skip
    run = lambda w2, w1, w0, x: torch.einsum("mabc,xa,yb,zc->mxyz", x, w0, w1, w2)
    sizes = {name: size for i in range(3) for name, size in ((f"D{i}", 16), (f"N{i}", 32))}
    return text, {"M": 256, **sizes}, [tensor(16, 32), tensor(16, 32), tensor(16, 32), tensor(256, 32, 32, 32)], run


def group_norm(n, c, g, s):
    text = ("def f(float(N, G, D, H, W) I, float(G, D) gamma, float(G, D) beta) -> (O) {"
            " total(n, g) +=! I(n, g, d, h, w)  squares(n, g) +=! I(n, g, d, h, w) * I(n, g, d, h, w)"
            " mean(n, g) = total(n, g) / float(D * H * W)"
            " scale(n, g) = rsqrt(squares(n, g) / float(D * H * W) - mean(n, g) * mean(n, g) + 0.00001)"
            " O(n, g, d, h, w) = gamma(g, d) * (I(n, g, d, h, w) - mean(n, g)) * scale(n, g) + beta(g, d) }")  # fmt: skip
    inputs = [tensor(n, g, c // g, s, s), tensor(g, c // g), tensor(g, c // g)]
    run = lambda x, gamma, beta: F.group_norm(x.view(n, c, s, s), g, gamma.view(-1), beta.view(-1)).view(x.shape)
    return text, {"N": n, "G": g, "D": c // g, "H": s, "W": s}, inputs, run


def moments(n, k):
    text = "def f(float(N, K) I) -> (mean, square) { mean(n) +=! I(n, k)  square(n) +=! I(n, k) * I(n, k) }"
    return text, {"N": n, "K": k}, [tensor(n, k)], lambda x: [x.sum(1), (x * x).sum(1)]


WORKLOADS = {
    "transposed product 128 256 32": lambda: transposed(128, 256, 32),
    "transposed product 128 1024 1024": lambda: transposed(128, 1024, 1024),
    "transposed product 128 16384 4096": lambda: transposed(128, 16384, 4096),
    "batched product 500 26 72 26": lambda: batched(500, 26, 72, 26),
    "grouped convolution 4 56": lambda: grouped(32, 32, 4, 4, 56, 56),
    "grouped convolution 8 28": lambda: grouped(32, 32, 8, 8, 28, 28),
    "grouped convolution 16 14": lambda: grouped(32, 32, 16, 16, 14, 14),
    "grouped convolution 32 7": lambda: grouped(32, 32, 32, 32, 7, 7),
    "1 lookup table": lambda: lookup(1),
    "2 lookup tables": lambda: lookup(2),
    "MLP 2000 128": lambda: perceptron([2000, 128]),
    "MLP 128 64 32 2": lambda: perceptron([128, 64, 32, 2]),
    "Kronecker": kronecker,
    "group norm 4 512 32 12": lambda: group_norm(4, 512, 32, 12),
    "group norm 32 512 32 48": lambda: group_norm(32, 512, 32, 48),
    "moments 128 2304": lambda: moments(128, 2304),
    "moments 1024 36864": lambda: moments(1024, 36864),
}


def seconds(call, count):
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def measured(make, rounds):
    text, sizes, inputs, run = make()
    arrays, expected = [each.numpy() for each in inputs], run(*inputs)
    row, calls = {}, {"torch": lambda: run(*inputs)}
    for name, shapes in (("fixed", {"shapes": sizes}), ("open", {})):
        start = time.process_time()
        ours = ts.comprehension(text, threads=1, **shapes).f
        results = ours(*arrays)
        row[f"{name}_first_call_s"] = round(time.process_time() - start, 2)
        calls[name] = lambda ours=ours: ours(*arrays)
        for found, wanted in zip(results, expected) if isinstance(expected, list) else [(results, expected)]:
            wanted = wanted.numpy()
            error = float(np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max())
            assert error < 1e-4, f"results differ by {error}"
    times = {name: [] for name in calls}
    counts = {name: max(1, int(SECONDS / max(seconds(call, 1), 1e-6))) for name, call in calls.items()}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call, counts[name]))
    for name, each in times.items():
        row[name] = {"least_us": round(min(each) * 1e6, 1), "median_us": round(statistics.median(each) * 1e6, 1)}
        if name != "torch":
            row[name]["ratio"] = round(statistics.median(t / o for t, o in zip(times["torch"], each)), 3)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="workloads whose names contain this")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    before = json.loads(options.out.read_text())["rows"] if options.out and options.out.exists() else {}
    rows = {}
    with torch.no_grad():
        for name, make in WORKLOADS.items():
            if options.only in name:
                rows[name] = measured(make, options.rounds)
                print(f"{name:36} {rows[name]}", flush=True)
            elif name in before:
                rows[name] = before[name]
    means = {sizes: round(statistics.geometric_mean(row[sizes]["ratio"] for row in rows.values()), 3) for sizes in ("fixed", "open")}
    print(f"geometric means of the ratios: {means}")
    if options.out:
        found = {"torch": torch.__version__, "threads": 1, "processor": processor(), "geometric_means": means, "rows": rows}
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
