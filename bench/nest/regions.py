#!/usr/bin/env python3
"""Kernels of loops beside the same as nests, in the models that are raced: time of a run and of their compilation.

    bench/nest/regions.py [MODEL ...] [--turns 3] [--json bench/results/nest-regions.json]

Each kernel that the template of loops has, and that a nest can have as well (`as_nest`), is made both ways: two modules of a model,
which are measured in turns on one thread. The least of the turns counts.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from weights import filled  # noqa: E402

COMMAND = ROOT / "build/dev/bin/tensmith"
MODELS = ["resnet50", "mobilenet_v2", "densenet121", "vgg19", "bert_base", "lstm_lm"]


def tensmith(*arguments):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def compiled(path, module, schedules=None):
    """Seconds that the compilation took."""
    extra = ["--schedules", schedules] if schedules else []
    start = time.perf_counter()
    tensmith("compile", path, "-o", module, "--no-cache", *extra)
    return time.perf_counter() - start


def kernels(module):
    """Seconds by the kernel's label and nodes."""
    told = json.loads(tensmith("bench", module, "--threads", 1, "--kernels", "--json"))["kernels"]
    return {(each["label"], each["location"]): each["seconds"] for each in told}


def measured(model, turns):
    path = filled(ROOT.parent / "shared/models" / f"{model}.onnx")
    with tempfile.TemporaryDirectory(prefix="tensmith-nest-") as folder:
        folder = pathlib.Path(folder)
        spaces = json.loads(tensmith("inspect", path, "--spaces", "--json"))
        keys = [space["key"] for space in spaces if any(choice["choice"] == "as_nest" for choice in space["choices"])]
        schedules = folder / "nests.json"
        schedules.write_text(json.dumps({"schedules": [{"key": key, "as_nest": 1} for key in keys]}))
        seconds = {"loops": compiled(path, folder / "loops.so"), "nests": compiled(path, folder / "nests.so", schedules)}
        shown = json.loads(tensmith("inspect", folder / "nests.so", "--json"))["kernels"]
        least = {"loops": {}, "nests": {}}
        for _ in range(turns):
            for way, best in least.items():
                for kernel, own in kernels(folder / f"{way}.so").items():
                    best[kernel] = min(best.get(kernel, own), own)
    ways = {}  # of the kernels of a label
    for kernel in shown:
        ways.setdefault(kernel["label"], set()).add(kernel["schedule"].startswith("nest"))
    both = [kernel for kernel in least["loops"] if kernel in least["nests"] and ways.get(kernel[0]) == {True}]
    ratios = [least["nests"][kernel] / least["loops"][kernel] for kernel in both]
    return {"model": model, "keys": len(keys), "nests": sum(kernel["schedule"].startswith("nest") for kernel in shown),
            "refused": sorted({kernel["schedule"].partition("for want of a nest: ")[2] for kernel in shown} - {""}), "compile": seconds,
            "kernels": {kernel[0]: round(ratio, 3) for kernel, ratio in zip(both, ratios)}}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    results = []
    for model in arguments.models:
        results.append(measured(model, arguments.turns))
        own = results[-1]
        ratios = list(own["kernels"].values()) or [1]
        print(f"{model}: {own['nests']} nests of {own['keys']}; nest / loops: {min(ratios):.2f} to {max(ratios):.2f}, "
              f"median {statistics.median(ratios):.2f}; compile {own['compile']['nests'] / own['compile']['loops']:.2f}")  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps({"models": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
