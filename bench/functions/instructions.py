#!/usr/bin/env python3
"""What the guards of a converted step cost, in executed instructions.

    bench/functions/instructions.py [--only mlp,lstm,lstm_cells] [--steps 24] [--out bench/results/functions-instructions.json]

The steps are those of measure.py. Callgrind counts a process that takes a step so often, one that takes it twice as often, and one in which each step reads and checks what its call depends
on 20 times more: so `step` and `guards` are instructions of one step and of one round of reads and checks, with nothing of loading or conversion in them, and `part` is their quotient.
Reads are in it, which a step without guards would do, too. Checks of numbers that Python computes are not, which these steps have none of. Clocks and load change little: what is left is workers
that wait for each other. A counted graph takes longer than one that runs where it is issued, so it is the engine's, and `step` has that, too. Callgrind has no AVX-512: kernels are those of AVX2, in cache entries of their own; a process that compiles any is counted again.
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
import types

FOLDER = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = {"PYTHONHASHSEED": "0", "TENSMITH_ENGINE_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
WARM, MORE = 24, 20
TRIES = 2  # the first process compiles what the cache lacks


def repeated(guards_of, more):
    """Guards that are run so many times more."""

    def make(*arguments):
        run = guards_of(*arguments).run

        def again(given):
            for _ in range(more):
                run(given)
            return run(given)

        return types.SimpleNamespace(run=again)

    return make


def take(name, more, steps):
    """The counted process."""
    sys.path.insert(0, str(FOLDER))
    import measure
    from tensmith import _eager, recorded
    from tensmith.functions import residual

    if more:
        residual._eager = types.SimpleNamespace(**{**vars(_eager), "Guards": repeated(_eager.Guards, more)})
    data, words = list(measure.batches(name, 8)), measure.programs.Tensmith()
    given = [tuple(words.tensor(x) for x in batch) for batch in data]
    step = measure.ts.function(measure.programs.STEPS[name](words))
    for i in range(WARM + steps):
        if i == WARM:
            gc.disable()  # when it collects is no matter of a step
        result = step(*given[i % len(given)])
    result.item()
    measure.ts._eager.wait_for_all()
    if step.statistics()["converted"] != WARM + steps - 1:
        sys.exit(f"{name}: {step.statistics()}")
    print("compiled", recorded.statistics()["compiled"] + _eager.kernel_statistics()["compiled"])


def counted(name, more, steps):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, __file__, "--take", name, str(more), str(steps)]
    for _ in range(TRIES):
        ended = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
        found = re.search(r"Collected : (\d+)", ended.stderr)
        if ended.returncode or not found:
            sys.exit(f"{name}: callgrind gave {ended.returncode}\n{ended.stderr[-2000:]}")
        if "compiled 0" in ended.stdout.splitlines():
            return int(found[1])
    sys.exit(f"{name}: each of {TRIES} processes compiled kernels, which would be counted with the steps: the cache keeps none; let TENSMITH_CACHE name a folder that can be written to and has room")


def measured(name, steps):
    once = counted(name, 0, steps)
    step = (counted(name, 0, 2 * steps) - once) / steps
    guards = (counted(name, MORE, steps) - once) / (MORE * (WARM + steps - 1))
    return {"step": round(step), "guards": round(guards), "part": round(guards / step, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="mlp,lstm,lstm_cells")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--take", nargs=3, metavar=("NAME", "MORE", "STEPS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.take:
        take(arguments.take[0], *map(int, arguments.take[1:]))
        return
    results = json.loads(arguments.out.read_text()) if arguments.out and arguments.out.exists() else {}
    for name in arguments.only.split(","):
        results[name] = {"steps": arguments.steps, **measured(name, arguments.steps)}
        print(name, json.dumps(results[name]), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
