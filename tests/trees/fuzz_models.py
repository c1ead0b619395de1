#!/usr/bin/env python3
"""Mutated model files of every format, many more of them than test_models.py reads: a signal or a hang is a fault.

    tests/trees/fuzz_models.py --count 1000000 --seed 7

Each seed is a run of ten thousand files in a process of its own, so that a fault names the seed that finds it again. Memory is
limited to 4 GiB.
"""

import argparse
import pathlib
import subprocess
import sys

EACH = 10_000
PROGRAM = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import test_models
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
print(test_models.fuzz(int(sys.argv[2]), int(sys.argv[3])))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder, read, done = str(pathlib.Path(__file__).resolve().parent), 0, 0
    for seed in range(options.seed, options.seed + (options.count + EACH - 1) // EACH):
        count = min(EACH, options.count - done)
        run = subprocess.run([sys.executable, "-c", PROGRAM, folder, str(seed), str(count)], capture_output=True, text=True, timeout=3600)
        if run.returncode != 0:
            sys.exit(f"seed {seed}: status {run.returncode}\n{run.stderr[-2000:]}")
        read, done = read + int(run.stdout), done + count
        print(f"{done} files, {read} of them forests", flush=True)


if __name__ == "__main__":
    main()
