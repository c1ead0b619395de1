#!/usr/bin/env python3
"""Steps as they are and under `ts.coexecute`, and how well Python and the graph overlap.

    bench/coexecution/measure.py [--rounds 9] [--count 16] [--scale 16] [--only "drop block"] [--out bench/results/coexecution.json]

The programs are those of tests/eager/coexecuted.py and terra.py, larger, two of bench/functions, and one whose steps all go different ways. Ways take turns within rounds; figures are milliseconds
a step by the clock, and in CPU time of the process, the least and the median over the rounds, and the median of the ratios within rounds.
Clocks say something only where the machine has nothing else to do: each row has the `load_average` when it was begun, and the engine's `threads`. CPU times say what co-execution itself costs and saves.
`overlap`: a step whose graph and whose own work in Python take about `--work` milliseconds each; `lazy` is the same with an engine that does each task where it is
pushed, so that nothing overlaps; `graph_alone_ms` and `python_alone_ms` are the halves by the clock. While Python waits, a product's own loops may take both threads: they do in `lazy`,
which so is less than Python's time and the graph's CPU time together, and where `graph_alone_cpu_ms` is more than `graph_alone_ms`.
It needs two cores that nobody else takes (`nice -n -19` where others use the machine).
`turns`: what a turn of a loop that reads costs, in steps of so many turns; recording it includes the compilation of its graphs.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "tests/eager"), str(ROOT / "bench/functions")]

import coexecuted  # noqa: E402
import measure as functions  # noqa: E402
import programs  # noqa: E402
import terra  # noqa: E402

import tensmith as ts  # noqa: E402
import tensmith.numpy as tnp  # noqa: E402
from tensmith import _eager, nn  # noqa: E402


TERRA = {**coexecuted.PROGRAMS, **terra.PROGRAMS}


def of_functions(name):
    words = programs.Tensmith()
    given = [tuple(words.tensor(x) for x in batch) for batch in functions.batches(name, 8)]

    def make(convert):
        step = convert(programs.STEPS[name](words))
        return step, lambda number: step(*given[number % 8])

    return make


def of_terra(name, scale):
    def make(convert):
        nn.manual_seed(5)
        step = convert(TERRA[name]([], scale))
        return step, step

    return make


def of_many_ways(scale):
    """Five branches and a loop whose length changes, as random as they can be: nearly every step is another way."""

    def make(convert):
        draw, x = random.Random(6), tnp.ones((16 * scale, 16), dtype=tnp.float32)

        def step(number):
            y = x
            for _ in range(draw.randrange(1, 6)):
                y = tnp.tanh(y * 0.9 + 0.3) - 0.25
            for _ in range(5):
                y = tnp.sin(y) * 3.0 + x if draw.random() < 0.5 else tnp.exp(y * 0.1) - y * 0.7
            return tnp.sum(y)

        step = convert(step)
        return step, step

    return make


def turn_times(turns, seconds_of=time.process_time):
    """CPU microseconds of each turn of a loop that reads in every one, in a step of so many: as it is recorded, by its path and by blocks."""

    def step(x, turns):
        for _ in range(turns):
            x = tnp.tanh(x * 0.9 + 0.3)
            if float(x[0]) > 2.0:
                break
        return x

    def taken(f, turns):
        _eager.wait_for_all()
        start = seconds_of()
        f(tnp.zeros(8), turns).wait()
        return round((seconds_of() - start) / turns * 1e6, 1)

    way, blocks = ts.coexecute(step, warm_up=0), ts.coexecute(step, warm_up=0)
    blocks._steps.ignore_paths()
    for each in (1, 2, 3, 2):
        blocks(tnp.zeros(8), each)
    way(tnp.zeros(8), 2)
    # The first step of a length follows the path of another one to its end, and compiles its own.
    begin = seconds_of()
    way(tnp.zeros(8), turns).wait()
    recorded = round((seconds_of() - begin) / turns * 1e6, 1)
    return {"turns": turns, "recorded": recorded, "path": min(taken(way, turns) for _ in range(3)), "blocks": min(taken(blocks, turns) for _ in range(3))}


def worked(milliseconds):
    """Python's own work, in a thread's CPU time."""
    end = time.thread_time() + milliseconds / 1e3
    while time.thread_time() < end:
        pass


def fitted(count, work, milliseconds):
    """How many take `work`. The first measurement is of a cold processor, and of a step's fixed part among few, so the next ones correct it."""
    for _ in range(3):
        count = max(1, round(count * work / milliseconds(count)))
    return count


def overlapping(work):
    """A step's maker, and what its two halves take alone. The graph's products are as many as take the time."""
    x = tnp.ones((256, 256), dtype=tnp.float32) / 256

    def made(products, work):
        def step(x):
            for _ in range(products):
                x = tnp.tanh(x @ x)
            worked(work)
            return float(x[0, 0])

        return step

    def alone(products, work):
        """The quickest step's milliseconds by the clock, and of CPU."""
        f, times = ts.coexecute(made(products, work)), []
        for _ in range(24):
            start, cpu = time.perf_counter(), time.process_time()
            f(x)
            times.append((time.perf_counter() - start, time.process_time() - cpu))
        return [round(each * 1e3, 3) for each in min(times[8:])]

    count = fitted(8, work, lambda products: alone(products, 0)[0])

    def make(convert):
        step = convert(made(count, work))
        return step, lambda number: step(x)

    graph, cpu = alone(count, 0)
    return make, {"products": count, "graph_alone_ms": graph, "graph_alone_cpu_ms": cpu, "python_alone_ms": alone(0, work)[0]}


def once(step, first, count):
    _eager.wait_for_all()
    start, cpu = time.perf_counter(), time.process_time()
    for i in range(first, first + count):
        step(i)
    _eager.wait_for_all()
    return (time.perf_counter() - start) / count * 1e3, (time.process_time() - cpu) / count * 1e3


def measured(make, rounds, count, ways):
    made = {way: make(ts.coexecute if way != "eager" else lambda step: step) for way in ways}
    number = {way: 0 for way in ways}

    def turn(way, count):
        _eager.set_naive(way == "lazy")
        number[way] += count
        return once(made[way][1], number[way] - count, count)

    for way in ways:
        turn(way, 48)
    times = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            times[way].append(turn(way, count))
    _eager.set_naive(False)
    result = {}
    for way, each in times.items():
        clock, cpu = zip(*each)
        ratios, cpu_ratios = zip(*((a / b, c / d) for (a, c), (b, d) in zip(each, times["coexecuted"])))
        result[way] = {"least_ms": round(min(clock), 3), "median_ms": round(statistics.median(clock), 3), "least_cpu_ms": round(min(cpu), 3),
                       "ratio_to_coexecuted": round(statistics.median(ratios), 3), "cpu_ratio_to_coexecuted": round(statistics.median(cpu_ratios), 3)}  # fmt: skip
    return {**result, "statistics": made["coexecuted"][0].statistics()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=16, help="steps of a turn")
    parser.add_argument("--scale", type=int, default=16)
    parser.add_argument("--work", type=float, default=5.0)
    parser.add_argument("--only", default=",".join([*TERRA, "many ways", "mlp", "lstm_cells", "overlap", "turns"]))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results/coexecution.json")
    arguments = parser.parse_args()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    threads = os.environ["TENSMITH_ENGINE_THREADS"]
    for name in arguments.only.split(","):
        ways, halves, taken = ("eager", "coexecuted"), {}, {"load_average": round(os.getloadavg()[0], 1), "threads": int(threads)}
        if name == "turns":
            results[name] = [turn_times(turns) | taken for turns in (50, 200, 800)]
            print(name, json.dumps(results[name]), flush=True)
            continue
        if name == "overlap" and threads == "1":  # the engine's threads are those that it began with
            given = ["--only", name, "--work", arguments.work, "--rounds", arguments.rounds, "--count", arguments.count, "--out", arguments.out]
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
            subprocess.run([sys.executable, __file__, *map(str, given)], env={**os.environ, "TENSMITH_ENGINE_THREADS": "2"}, check=True)
            results = json.loads(arguments.out.read_text())
            continue
        if name == "overlap":
            ways = ("eager", "coexecuted", "lazy")
            make, halves = overlapping(arguments.work)
        elif name == "many ways":
            make = of_many_ways(arguments.scale)
        elif name in TERRA:
            make = of_terra(name, arguments.scale)
        else:
            make = of_functions(name)
        results[name] = measured(make, arguments.rounds, arguments.count, ways) | taken | halves
        print(name, json.dumps(results[name]), flush=True)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
