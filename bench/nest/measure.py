"""Products scheduled by primitives alone, with packed columns of B, as it lies, and of bytes by vpdpbusd: rates beside the machine's measured peak, in turns.

    python bench/nest/measure.py [--sizes 512,1024] [--rounds 7] [--json bench/results/nest.json]

Needs a checkout that ./test has built. Times are CPU time of one thread (build/dev/test/product-speed).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parent
PROGRAM = pathlib.Path(os.environ.get("TENSMITH_BUILD", FOLDER.parents[1] / "build/dev")) / "test/product-speed"
SCHEDULES = {"packed": [FOLDER / "product.sched"], "as it lies": [FOLDER / "unpacked.sched"], "bytes": [FOLDER / "bytes.sched", "bytes"]}


def measured(size, schedule):
    said = subprocess.run([PROGRAM, *[str(size)] * 3, *schedule], capture_output=True, text=True, check=True).stdout
    return json.loads(said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="512,1024")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    rows = []
    for size in map(int, given.sizes.split(",")):
        shares, rates = {name: [] for name in SCHEDULES}, {name: [] for name in SCHEDULES}
        for _ in range(given.rounds):
            for name, schedule in SCHEDULES.items():
                said = measured(size, schedule)
                shares[name].append(said["share_of_peak_median"])
                rates[name].append(said["gflops_median"])
        by_packed = [bytes_ / floats for bytes_, floats in zip(rates["bytes"], rates["packed"])]
        rows.append({"size": size, "shares": shares, "gigaops": rates, "bytes_by_packed": by_packed})
        print(size, ", ".join(f"{name}: {statistics.median(each):.3f} ({min(each):.3f} to {max(each):.3f})" for name, each in shares.items()), flush=True)
        print(size, f"bytes to packed: {statistics.median(by_packed):.2f}", flush=True)
    if given.json:
        given.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
