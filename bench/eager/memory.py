#!/usr/bin/env python3
"""Whether memory grows: over eager training steps, over steps that are converted again and again, and over co-executed ones.

    bench/eager/memory.py [--steps 100000] [--conversions 1000] [--out bench/results/eager-memory.json]

Each kind is run in tenths. `rss_mb`: what the process has in memory after each; `bytes_a_step`: the growth from the second tenth to the last, a step. The first tenths fill caches: of kernels, of Python's objects, of freed blocks.
`statistics`: how many of the steps were converted or co-executed; where it isn't all but some, there are no figures.
"""

import argparse
import gc
import json
import os
import pathlib
import sys

os.environ.setdefault("TENSMITH_ENGINE_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
sys.path.insert(0, str(BUILD / "python"))

import numpy  # noqa: E402

import tensmith as ts  # noqa: E402
import tensmith.numpy as tnp  # noqa: E402
from tensmith import nn, optim  # noqa: E402

PARTS = 10
OTHERS = 10  # steps that may run as they are before all sizes of their batches are known


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def training(convert):
    """A step of training, with a tensor in a reference cycle, and an exception that holds another; and what draws its data, which has no conversion, and takes it."""
    nn.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimiser, draw = optim.Adam(model.parameters(), lr=0.01), numpy.random.RandomState(1)

    @convert
    def step(x):
        optimiser.zero_grad()
        with ts.record():
            loss = nn.functional.mse_loss(model(x), x[:, :1])
        loss.backward()
        optimiser.step()
        cycle = [loss]
        cycle.append(cycle)
        try:
            raise ValueError(x)
        except ValueError:
            return float(loss)

    return step, lambda number: step(tnp.asarray(draw.randn(4 + number % 3, 8).astype("float32")))


def steps_of_graphs(convert, kind, count):
    """measured, of steps that `convert` has made graphs of. kind: under which name its statistics count the steps that were."""
    step, one = training(convert)
    found = measured(one, count)
    statistics = step.statistics()
    if statistics["calls"] - statistics[kind] > OTHERS:
        raise RuntimeError(f"of {statistics['calls']} steps {statistics[kind]} were {kind}, which these figures would not be of:\n{step.explain()}")
    return {**found, "statistics": statistics}


def converted():
    """Another function each time, of which the third call is converted, and a broken assumption converts it again."""

    def one(number):
        scale = {"by": 1.0}

        @ts.function
        def step(x):
            return tnp.sum(x * 2.0 if scale["by"] == 1.0 else x + 1.0)

        for turn in range(6):
            scale["by"] = 1.0 if turn < 3 else 2.0
            step(tnp.ones((3, 4), dtype=tnp.float32))
        if step.statistics()["conversions"] != 2:
            raise RuntimeError(step.explain())

    return one


def measured(step, count, per_step=1):
    size, found = max(1, count // PARTS), []
    for first in range(0, size * PARTS, size):
        for number in range(first, first + size):
            step(number)
        ts._eager.wait_for_all()
        gc.collect()
        found.append(resident())
    grown = (found[-1] - found[1]) / (size * (PARTS - 2) * per_step)
    return {"steps": size * PARTS * per_step, "rss_mb": [round(each / 1e6, 1) for each in found], "bytes_a_step": round(grown, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--conversions", type=int, default=1000)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    results = {
        "eager": measured(training(lambda step: step)[1], arguments.steps),
        "function": steps_of_graphs(ts.function, "converted", arguments.steps // 4),
        "coexecute": steps_of_graphs(ts.coexecute, "coexecuted", arguments.steps // 4),
        "conversions": measured(converted(), arguments.conversions // 2, 2),
    }
    print(json.dumps(results, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
