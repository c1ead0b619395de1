#!/usr/bin/env python3
"""Random Python programs (random_functions.py) as they are, converted and co-executed: results, exceptions and the whole state, call by call.

    tests/eager/differential.py [--first 0] [--count 1000] [--modes function,paths,blocks] [--out bench/results/differential.json]

`paths` are co-executed steps as users have them, `blocks` those that always go by blocks once there are any. A program that differs is printed
with its seed, which runs it again: `--first SEED --count 1`. The tests run a few of them (test_eager_coexecution.py, test_eager_functions.py).
"""

import argparse
import collections
import json
import os
import pathlib
import sys

if __name__ == "__main__":  # graphs are evaluated, not compiled; read at the import of the package, too
    os.environ["TENSMITH_EAGER_KERNELS"] = "off"
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "tests/eager")]

import random_functions  # noqa: E402

import tensmith as ts  # noqa: E402


def by_blocks(function):
    converted = ts.coexecute(function, warm_up=0)
    converted._steps.ignore_paths()
    return converted


# How a function is converted, and how often the calls of a program are repeated: blocks are there once steps have parted.
MODES = {"function": (ts.function, 1), "paths": (ts.coexecute, 4), "blocks": (by_blocks, 4)}


def run(seed, mode):
    """The statistics of the converted function; AssertionError where a call differs."""
    convert, rounds = MODES[mode]
    of_tensors, aliases = ((0.0, False), (0.6, False), (0.6, True))[seed % 3]
    function = random_functions.compare(seed, convert, of_tensors, aliases, rounds)
    if "can't be" in function.explain() and mode != "function":
        raise AssertionError(f"program {seed}: {function.explain()}")
    return function.statistics()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--out", type=pathlib.Path, help="a file for what is told at the end")
    arguments = parser.parse_args()
    failed, totals = [], {}
    for mode in arguments.modes.split(","):
        totals[mode] = collections.Counter()
        for seed in range(arguments.first, arguments.first + arguments.count):
            try:
                totals[mode].update(run(seed, mode))
            except AssertionError as error:
                failed.append((mode, seed))
                print(mode, error, flush=True)
    told = json.dumps({"first": arguments.first, "programs": arguments.count, "differ": failed, "calls": totals}, indent=1)
    print(told)
    if arguments.out:
        arguments.out.write_text(told + "\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
