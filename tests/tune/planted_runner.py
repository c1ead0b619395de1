"""A runner whose times are a function of the module's choices, so that tests of tuning depend on no machine.

    planted_runner.py MEASURE [--fail | --flat | --best CHOICE=VALUE] MODULE ...

It runs MEASURE (tensmith-measure) for the results, and answers with times of its own: products are fastest in tiles of 5 rows
and, of those, 2 steps. With --fail it answers nonsense, with --flat the same time for all; with --best modules that tell of another value
of the choice take longer.
"""

import json
import re
import subprocess
import sys


def seconds(module, best):
    text = module.read_bytes().decode("latin-1")
    choice = lambda name, otherwise: int((re.findall(rf'"{name}":(\d+)', text) or [otherwise])[0])
    name, value = best
    away = abs(choice(name, value) - value)
    return 1e-3 * (1 + away) * (1 + 0.1 * abs(choice("tile_rows", 16) - 5) + 0.03 * abs(choice("steps", 8) - 2))


def main():
    import pathlib

    measure, *words = sys.argv[1:]
    if words[0] == "--fail":
        print("no JSON at all")
        return 0
    is_flat = words[0] == "--flat"
    words = words[is_flat:]
    best = ("", 0)
    if words[0] == "--best":
        name, _, value = words[1].partition("=")
        best, words = (name, int(value)), words[2:]
    words[words.index("--seconds") + 1] = "0.0001"
    done = subprocess.run([measure, *words], capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        return done.returncode
    told = json.loads(done.stdout)
    told["min_ms"] = 1.0 if is_flat else 1e3 * seconds(pathlib.Path(words[0]), best)
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
