#!/usr/bin/env python3
"""Compares compiled code with the reference on many graphs of open sizes, half of whose draws break one requirement.

    tests/random/full.py                        # 20,000 graphs at 8 draws of sizes; an hour on two quiet cores
    tests/random/full.py --graphs 2000 --first 700001
    tests/random/full.py --json found.json      # goes on where a run that was interrupted ended

Every other part of 500 graphs is compiled with a check before each access. In all of them operands end at pages that
can't be touched. The exit status is 1 where a graph fails; `random-graphs --print SEED` prints one.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
PROGRAM = pathlib.Path(os.environ.get("TENSMITH_BUILD", FOLDER.parents[1] / "build/dev")) / "test/random-graphs"
PART = 500
SUMMARY = re.compile(r"^(\d+) graphs of (\d+) nodes in \d+ s: (\d+) elements compared.* (\d+) not evaluated, (\d+) failed")
FIGURES = ("graphs", "nodes", "elements", "not_evaluated", "failed")


def run_part(first, count, options, folder):
    """What random-graphs finds of so many graphs from the first on, with the options, as figures."""
    command = [PROGRAM, "--first", first, "--count", count, "--out", folder, *options]
    start = time.monotonic()
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = result.stdout.splitlines()
    summary = next((match for match in map(SUMMARY.match, lines) if match), None)
    if not summary:
        sys.exit(f"random-graphs of seeds {first} to {first + count - 1} ended with {result.returncode}:\n{result.stderr[-2000:]}")
    part = dict(zip(FIGURES, map(int, summary.groups())), first=first, seconds=round(time.monotonic() - start))
    part["not_emulated"] = sum(int(line.split()[0]) for line in lines if re.fullmatch(r"\d+ not emulated", line))
    part["failures"] = [line for line in lines if line.startswith("seed ") and not re.search(" not (evaluated|emulated): ", line)]
    return part


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=20000, help="how many (default: 20000)")
    parser.add_argument("--first", type=int, default=500001, help="seed of the first (default: 500001)")
    parser.add_argument("--draws", type=int, default=8, help="of sizes, for each graph (default: 8)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="keep the figures of each part there, and leave out those it has")
    options = parser.parse_args()
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    parts = []
    for number, first in enumerate(range(options.first, options.first + options.graphs, PART)):
        count = min(PART, options.first + options.graphs - first)
        part = next((part for part in kept if part["first"] == first and part["graphs"] == count), None)
        if not part:
            with tempfile.TemporaryDirectory() as folder:
                checked = number % 2 == 1
                part = {**run_part(first, count, ["--open", options.draws, *(["--check-bounds"] if checked else [])], folder), "checked": checked}
            kept.append(part)
            if options.json:
                options.json.write_text(json.dumps(kept, indent=1) + "\n")
        parts.append(part)
        for line in part["failures"]:
            print(line, flush=True)
        done = sum(part["graphs"] for part in parts)
        print(f"{done} of {options.graphs} graphs, {sum(part['failed'] for part in parts)} failed", file=sys.stderr, flush=True)
    total = {name: sum(part[name] for part in parts) for name in FIGURES}
    checked = sum(part["graphs"] for part in parts if part["checked"])
    print(f"{total['graphs']} graphs of {total['nodes']} nodes at {options.draws} draws of sizes, {checked} of them with each access checked:"
          f" {total['elements']} elements compared, {total['not_evaluated']} graphs not evaluated, {total['failed']} failed")
    sys.exit(bool(total["failed"]))


if __name__ == "__main__":
    main()
