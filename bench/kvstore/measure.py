"""What staleness costs: test accuracy on Fashion-MNIST of one process, of rounds, and of workers that may be ahead, by seed.

    PYTHONPATH=build/dev/python python bench/kvstore/measure.py [--workers 2,4] [--epochs 2] [--seeds 3] [--json bench/results/kvstore.json]

Needs the package dataset-fashion-mnist and a checkout that ./run has built.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

LEARN = pathlib.Path(__file__).with_name("learn.py")


def accuracy(command):
    return float(subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="2,4", help="how many processes learn together, several ways")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    ways = {"one process": ([], "local")}
    for count in given.workers.split(","):
        launch = ["-m", "tensmith.kvstore", "--workers", count]
        ways |= {f"{count} workers, rounds": (launch, "sync"), f"{count} workers, stale by 3": ([*launch, "--stale", 3], "stale"),
                 f"{count} workers, stale by any": ([*launch, "--stale", "any"], "stale")}  # fmt: skip
    rows = []
    for name, (begin, kind) in ways.items():
        found = [accuracy([*begin, LEARN, kind, given.epochs, given.batch, seed]) for seed in range(given.seeds)]
        rows.append({"way": name, "accuracies": found})
        print(f"{name:14} {statistics.mean(found):.4f}   {' '.join(f'{each:.4f}' for each in found)}", flush=True)
    if given.json:
        what = {name: value for name, value in vars(given).items() if name != "json"}
        given.json.write_text(json.dumps(what | {"network": "784-128-10, SGD at 0.1", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
