#!/usr/bin/env python3
"""What the assumptions of a converted step cost, in executed instructions: as it is, and with none of them checked.

    bench/functions/instructions.py [--only mlp,lstm,lstm_cells] [--steps 32] [--out bench/results/functions-instructions.json]

The steps are those of measure.py. Callgrind counts a process that takes twice as many steps, less one that takes them once, so that nothing of loading or
conversion is in it. It has no AVX-512: kernels are those of AVX2, in their own cache entries, compiled by runs that are not counted. Clocks and load change nothing. `guards`: the part
of a step's instructions that are checks; reads of what a step needs remain in both.
What has to be there: valgrind.
"""

import argparse
import gc
import json
import os
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = {"PYTHONHASHSEED": "0", "TENSMITH_ENGINE_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
WARM = 24


def take(name, way, steps):
    """The counted process."""
    sys.path.insert(0, str(FOLDER))
    import measure
    from tensmith import recorded
    from tensmith.functions import residual

    residual.unguarded = set(residual.KINDS) if way == "unchecked" else set()
    data, words = list(measure.batches(name, 8)), measure.programs.Tensmith()
    given = [tuple(words.tensor(x) for x in batch) for batch in data]
    step = measure.ts.function(measure.programs.STEPS[name](words))
    for i in range(WARM + steps):
        if i == WARM:
            gc.disable()  # when it collects is no matter of a step
        result = step(*given[i % len(given)])
    result.item()
    measure.ts._eager.wait_for_all()
    if step.statistics()["converted"] < WARM + steps - 4:
        sys.exit(f"{name}: {step.statistics()}")
    print("compiled", recorded.statistics()["compiled"] + measure.ts._eager.kernel_statistics()["compiled"])


def counted(name, way, steps):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, __file__, "--take", name, way, str(steps)]
    ended = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", ended.stderr)
    if ended.returncode or not found:
        sys.exit(f"{name}, {way}: callgrind gave {ended.returncode}\n{ended.stderr[-2000:]}")
    return counted(name, way, steps) if "compiled 0" not in ended.stdout else int(found[1])


def measured(name, steps):
    counts = {}
    for way in ("checked", "unchecked"):
        counts[way] = (counted(name, way, 2 * steps) - counted(name, way, steps)) / steps
    return {**{way: round(count) for way, count in counts.items()}, "guards": round(1 - counts["unchecked"] / counts["checked"], 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="mlp,lstm,lstm_cells")
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--take", nargs=3, metavar=("NAME", "WAY", "STEPS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.take:
        take(arguments.take[0], arguments.take[1], int(arguments.take[2]))
        return
    results = {"steps": arguments.steps}
    for name in arguments.only.split(","):
        results[name] = measured(name, arguments.steps)
        print(name, json.dumps(results[name]), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
