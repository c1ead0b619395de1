#!/usr/bin/env python3
"""What an eager operation costs: small ones against NumPy (and PyTorch, where it is there), and the engine's rate.

    bench/eager/measure.py [--rounds 15] [--out bench/results/eager.json]

A small operation is timed in CPU time of the process, in rounds in which each library takes its turn; figures are microseconds, the
least and the median over the rounds, and the median of the ratios within rounds. The engine's rate is eager_test's, in operations a
second of CPU time of all threads: `small` ones run where they are pushed, `large` ones are handed to workers. Two chains of products
that don't depend on one another are timed by the clock, on one core and on two, in turns: the ratio needs two idle cores.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
sys.path.insert(0, str(BUILD / "python"))
CALLS = 20000


def libraries():
    import numpy

    import tensmith.numpy as tnp

    found = {"tensmith": lambda: tnp.ones(16, dtype=tnp.float32), "numpy": lambda: numpy.ones(16, numpy.float32)}
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    return {**found, "torch": lambda: torch.ones(16)}


OPERATIONS = {
    "add of 16 numbers": lambda x: lambda: x + x,
    "add of a number": lambda x: lambda: x + 1.0,
    "a view": lambda x: lambda: x[2:9],
}


def microseconds(call):
    start = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - start) / CALLS * 1e6


def small_operations(rounds):
    results = {}
    for name, make in OPERATIONS.items():
        calls = {library: make(ones()) for library, ones in libraries().items()}
        times = {library: [] for library in calls}
        for _ in range(rounds):
            for library, call in calls.items():
                times[library].append(microseconds(call))
        results[name] = {
            library: {
                "least_us": round(min(each), 3),
                "median_us": round(statistics.median(each), 3),
                "ratio_to_ours": round(statistics.median(a / b for a, b in zip(each, times["tensmith"])), 3),
            }
            for library, each in times.items()
        }
    return results


CHAINS = """
import os, sys, time

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import tensmith.numpy as tnp

w = tnp.ones((384, 384), dtype=tnp.float32) / 384
for _ in sys.stdin:
    start = time.perf_counter()
    a, b = w, w + 0
    for _ in range(24):
        a, b = a @ w, b @ w
    assert abs(float(a[0, 0]) - float(b[0, 0])) < 1e-6
    print(time.perf_counter() - start, flush=True)
"""


def two_chains(rounds):
    """Milliseconds on one core and on two, and by how much two are faster."""
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    children = {
        cores: subprocess.Popen([sys.executable, "-c", CHAINS, str(cores)], env={**environment, "TENSMITH_ENGINE_THREADS": str(cores)}, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for cores in (1, 2)
    }  # fmt: skip
    times = {cores: [] for cores in children}
    for number in range(rounds + 1):  # the first one compiles
        for cores, child in children.items():
            child.stdin.write("once\n")
            child.stdin.flush()
            taken = float(child.stdout.readline()) * 1e3
            if number:
                times[cores].append(taken)
    for child in children.values():
        child.stdin.close()
        child.wait()
    ratios = [one / two for one, two in zip(times[1], times[2])]
    return {"one_core_ms": round(min(times[1]), 3), "two_cores_ms": round(min(times[2]), 3),
            "ratio": round(statistics.median(ratios), 3), "best_ratio": round(max(ratios), 3)}  # fmt: skip


def engine_rate():
    command = [BUILD / "test/eager_test", "--gtest_also_run_disabled_tests", "--gtest_filter=EngineRate.*"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return json.loads(next(line for line in lines if line.startswith("{")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results/eager.json")
    arguments = parser.parse_args()
    rates = [engine_rate() for _ in range(3)]
    results = {
        "load_average": round(os.getloadavg()[0], 1),
        "small_operations": small_operations(arguments.rounds),
        "two_chains": two_chains(arguments.rounds),
        "engine_operations_a_cpu_second": {key: {"best": max(r[key] for r in rates), "median": statistics.median(r[key] for r in rates)} for key in rates[0]},
    }
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
