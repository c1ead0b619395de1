"""Random legal sequences of primitives on ten programs, compared with an evaluator, and what is refused, by the kind of the dependence: the counts, in one file.

    python bench/nest/schedules.py [--count 1000] [--json bench/results/schedules.json]

Goes on where the file stands, twenty draws at a time. Needs build/dev/test/random-schedules (ninja -C build/dev test-programs).
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "test/random-schedules"
BATCH = 20  # a multiple of the programs and of the draws that are done all the same when refused


def add(sums, counts):
    for name, number in counts.items():
        if isinstance(number, dict):
            add(sums.setdefault(name, {}), number)
        else:
            sums[name] = sums.get(name, 0) + number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "bench/results/schedules.json")
    given = parser.parse_args()
    sums = json.loads(given.json.read_text()) if given.json.exists() else {}
    while sums.get("legal", 0) < given.count:
        done = sums.get("legal", 0)
        with tempfile.NamedTemporaryFile(suffix=".json") as counts:
            words = [str(PROGRAM), str(min(BATCH, given.count - done)), str(1 + done), counts.name]
            said = subprocess.run(words, capture_output=True, text=True)
            if said.returncode:
                raise SystemExit(said.stdout)
            add(sums, json.loads(pathlib.Path(counts.name).read_text()))
        given.json.write_text(json.dumps(sums, indent=1) + "\n")
        print(json.dumps(sums), flush=True)


if __name__ == "__main__":
    main()
