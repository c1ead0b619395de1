#!/usr/bin/env python3
"""Random Python programs (random_functions.py) as they are, converted and co-executed: results, exceptions and the whole state, call by call.

    tests/eager/differential.py                              # 1,000 programs in each mode; three quarters of an hour on a busy machine
    tests/eager/differential.py --modes function --count 100
    tests/eager/differential.py --json bench/results/differential.json   # goes on where a run that was interrupted ended

`paths` are co-executed steps as users have them, `blocks` those that always go by blocks once there are any. Parts of 20 programs are run by a
process each, so that one that crashes is told of, and costs no other. A program that differs is printed with its seed, which runs it again:
`--first SEED --count 1`. The tests run a few of them (test_eager_coexecution.py, test_eager_functions.py).
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import time

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


PART = 20
PART_SECONDS = 900  # twenty times what one takes: a call that does not end is told of


def run_part(mode, first, count):
    """What the calls of these programs did, and those that differ, with words; both are printed as JSON for the process that asked."""
    calls, differ = collections.Counter(), {}
    for seed in range(first, first + count):
        try:
            calls.update(run(seed, mode))
        except Exception as error:  # of the converted call, or of the comparison: the program has told its own as a result
            differ[seed] = f"{type(error).__name__}: {error}"
    return {"calls": calls, "differ": differ}


def in_process(mode, first, count):
    """A part, run by a process of its own."""
    start = time.monotonic()
    command = [sys.executable, __file__, "--part", mode, "--first", str(first), "--count", str(count)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PART_SECONDS)
        ended = f"ended with {ran.returncode}: {ran.stderr[-2000:]}"
    except subprocess.TimeoutExpired:
        ran, ended = None, f"did not end within {PART_SECONDS} s"
    if ran and ran.returncode == 0:
        part = json.loads(ran.stdout)
    else:
        part = {"calls": {}, "differ": {str(first): f"the process of programs {first} to {first + count - 1} {ended}"}}
    return {"mode": mode, "first": first, "programs": count, **part, "seconds": round(time.monotonic() - start, 1)}


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="seed of the first (default: 0)")
    parser.add_argument("--count", type=int, default=1000, help="programs (default: 1000)")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="keep the figures of each part there, and leave out those it has")
    parser.add_argument("--part", choices=list(MODES), help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = arguments_of()
    if arguments.part:
        return print(json.dumps(run_part(arguments.part, arguments.first, arguments.count)))
    kept = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else []
    modes, end, differ = arguments.modes.split(","), arguments.first + arguments.count, 0
    totals = {mode: collections.Counter() for mode in modes}
    for first in range(arguments.first, end, PART):
        for mode in modes:
            count = min(PART, end - first)
            part = next((part for part in kept if (part["mode"], part["first"], part["programs"]) == (mode, first, count)), None)
            if not part:
                part = in_process(mode, first, count)
                kept.append(part)
                if arguments.json:
                    arguments.json.write_text(json.dumps(kept, indent=1) + "\n")
            totals[mode].update(part["calls"])
            differ += len(part["differ"])
            for words in part["differ"].values():
                print(mode, words, flush=True)
        print(f"{first + count - arguments.first} of {arguments.count} programs in {len(modes)} modes, {differ} differ", file=sys.stderr, flush=True)
    for mode in modes:
        print(mode, json.dumps(totals[mode]))
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
