#!/usr/bin/env python3
"""Leaves out each requirement of sizes that operators have, one after the other, and sees that random graphs fail without it.

    tests/random/requirements.py                    # all of them; a quarter of an hour on two cores
    tests/random/requirements.py -k "slice reads"   # those whose message holds this
    tests/random/requirements.py --count 2000       # graphs before a requirement counts as one that nothing finds out

Graphs are drawn until one fails: compiled code computes something where the reference refuses, or reads outside of an
operand. The exit status is 1 where a requirement can be left out and no graph fails.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
PROGRAM = pathlib.Path(os.environ.get("TENSMITH_BUILD", FOLDER.parents[1] / "build/dev")) / "test/random-graphs"

# The messages, as far as they tell one requirement from the others, and no further.
REQUIREMENTS = (
    "sizes of the dimension that is summed over differ",
    "batch dimensions",
    "shapes do not broadcast together",
    "sizes of a broadcast dimension differ",
    "numbers of elements differ",
    "the slice reads {a} elements",
    "sizes of a dimension that is not joined differ",
    "would have a negative dimension",
    "channels of x and group times those of w differ",
    "channels of x and w differ",
    "bias and output channels differ",
    "the number of outputs is no multiple",
    "the window is empty",
    "the window reaches over",
    "the length of a parameter and the number of channels differ",
    "the dimensions of 'scale' and of x differ",
    "the dimensions of 'bias' and of x differ",
    "the width of q, k or v is no multiple",
    "the batches of q and k differ",
    "the head sizes of q and k differ",
    "the heads of k and v differ",
    "the lengths of k and v differ",
    "there is no largest or smallest",
    "indices along a dimension of",
    "sizes of the updates and of their places differ",
    "the rows and columns of a matrix differ",
    "is longer than the signal",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="TEXT", help="those whose message holds this")
    parser.add_argument("--count", type=int, default=1000, help="graphs to draw at most for each (default: 1000)")
    parser.add_argument("--first", type=int, default=1, help="seed of the first (default: 1)")
    options = parser.parse_args()
    chosen = [text for text in REQUIREMENTS if options.k in text]
    if not chosen:
        sys.exit(f"no requirement's message holds {options.k!r}")
    unnoticed = []
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(chosen, 1):
            command = [PROGRAM, "--open", "8", "--first", options.first, "--count", options.count, "--check-bounds", "--to-first"]
            command += ["--no-reduce", "--unchecked", text, "--out", folder]
            result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
            found = [line for line in result.stdout.splitlines() if line.startswith("seed ")]
            found = [line for line in found if " not evaluated: " not in line]
            print(f"{number}/{len(chosen)} {text}: {found[0] if found else 'no graph fails'}", flush=True)
            if not found:
                unnoticed.append(text)
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} are missed")
    sys.exit(bool(unnoticed))


if __name__ == "__main__":
    main()
