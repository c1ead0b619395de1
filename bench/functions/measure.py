#!/usr/bin/env python3
"""Training steps as they are and under `ts.function`, and PyTorch's eager ones where it is there.

    bench/functions/measure.py [--rounds 9] [--only mlp,lstm] [--out bench/results/functions.json]

Each model is written once for each library, in the same words. Steps are timed in CPU time of the process, one thread, in rounds in
which each way takes its turn; figures are milliseconds a step, the least and the median over the rounds, and the median of the
ratios within rounds. `unchecked`: converted without assumptions, which says what these cost.
`trees`: eight trees of different form in turns, each a conversion of its own.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import time

os.environ.setdefault("TENSMITH_ENGINE_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
sys.path[:0] = [str(BUILD / "python"), str(pathlib.Path(__file__).parent)]

import numpy  # noqa: E402
import programs  # noqa: E402

import tensmith as ts  # noqa: E402
from tensmith.functions import residual  # noqa: E402


def libraries():
    found = {"tensmith": programs.Tensmith()}
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    return {**found, "torch": programs.Torch()}


def tree(draw, leaves):
    if leaves == 1:
        return draw.randrange(100)
    left = draw.randint(1, leaves - 1)
    return tree(draw, left), tree(draw, leaves - left)


def batches(name, count):
    numbers, draw = numpy.random.RandomState(0), random.Random(0)
    for i in range(count):
        if name == "trees":
            yield tree(draw, 12), numbers.randint(0, 5, 1)
        elif name == "mlp":
            yield numbers.randn(32, 64).astype("float32"), numbers.randint(0, 10, 32)
        else:
            yield numbers.randn(16, 8, 32).astype("float32"), numbers.randint(0, 10, 8)


def ways(name):
    """The steps that take turns: functions of a batch's number."""
    data, found = list(batches(name, 8)), {}
    for library, words in libraries().items():
        given = [tuple(x if isinstance(x, tuple) else words.tensor(x) for x in batch) for batch in data]
        kinds = {library: lambda f: f}
        if library == "tensmith":
            kinds |= {"converted": ts.function, "unchecked": ts.function}
        for way, convert in kinds.items():
            step = convert(programs.STEPS[name](words))
            found[way] = (step, lambda i, step=step, given=given: step(*given[i % len(given)]))
    return found


def once(step, first, count):
    ts._eager.wait_for_all()
    start = time.process_time()
    for i in range(first, first + count):
        result = step(i)
    result.item()
    ts._eager.wait_for_all()
    return (time.process_time() - start) / count * 1e3


def measured(name, rounds, count):
    every = ways(name)
    kinds = {"unchecked": set(residual.KINDS)}
    for way, (_, step) in every.items():  # until all is compiled
        residual.unguarded = kinds.get(way, set())
        for i in range(24):
            step(i)
    if name == "trees":
        del every["unchecked"]  # which tree is met is an assumption
    times = {way: [] for way in every}
    for number in range(rounds):
        for way, (_, step) in every.items():
            times[way].append(once(step, 8 + number * count, count))
    ours = times["converted"]
    result = {way: {"least_ms": round(min(each), 4), "median_ms": round(statistics.median(each), 4),
                    "ratio_to_converted": round(statistics.median(a / b for a, b in zip(each, ours)), 3)} for way, each in times.items()}  # fmt: skip
    return {**result, "statistics": every["converted"][0].statistics()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=16, help="steps of a turn")
    parser.add_argument("--only", default=",".join(programs.STEPS))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results/functions.json")
    arguments = parser.parse_args()
    results = {"load_average": round(os.getloadavg()[0], 1)}
    for name in arguments.only.split(","):
        results[name] = measured(name, arguments.rounds, arguments.count)
        print(name, json.dumps(results[name]), flush=True)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
