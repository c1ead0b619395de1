#!/usr/bin/env python3
"""Compares compiled code with the reference on graphs drawn at random, on other CPUs under qemu.

    tests/boards/graphs.py                                     # 500 graphs on each of four machines
    tests/boards/graphs.py --target riscv64:rv64gcv,zvl256b --graphs 100 --first 900001
    tests/boards/graphs.py --json found.json                   # goes on where a run that was interrupted ended

The exit status is 1 where a graph fails; `random-graphs --print SEED` prints one. An emulator that fails at an instruction
is no failure of the graph's: how many such there are is said. Needs tensmith-run for the boards (docs/boards.md).
"""

import argparse
import os
import pathlib
import sys
import tempfile

import emulators

sys.path.insert(0, str(emulators.ROOT / "tests/random"))

import full  # noqa: E402

PART = 50


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=500, help="how many on each machine (default: 500)")
    parser.add_argument("--first", type=int, default=910001, help="seed of the first (default: 910001)")
    parser.add_argument("--target", action="append", help=f"default: {', '.join(emulators.USUAL)}")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time (default: one for each core)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="keep the figures of each part there, and leave out those it has" + emulators.STALE)
    options = parser.parse_args()
    records, failed = emulators.Records(options.json), 0
    for target in options.target or emulators.USUAL:
        parts = []
        for first in range(options.first, options.first + options.graphs, PART):
            count = min(PART, options.first + options.graphs - first)

            def run(target=target, first=first, count=count):
                with tempfile.TemporaryDirectory() as folder:
                    return full.run_part(first, count, ["--target", target, "--runner", " ".join(emulators.runner(target)), "--jobs", options.jobs], folder)

            parts.append(records.of(run, target=target, first=first, asked=count))
            for line in parts[-1]["failures"]:
                print(line, flush=True)
        total = {name: sum(part[name] for part in parts) for name in (*full.FIGURES, "not_emulated")}
        failed += total["failed"]
        print(f"{target:26}{total['graphs']} graphs of {total['nodes']} nodes: {total['elements']} elements compared, {total['not_evaluated']} graphs not"
              f" evaluated, {total['not_emulated']} not emulated, {total['failed']} failed", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
