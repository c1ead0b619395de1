#!/usr/bin/env python3
"""JANUS's programs as they are and under `ts.function`, and PyTorch's eager and compiled ones where it is there: how long a step takes, and whether the
losses of ours are the same.

    bench/janus/measure.py [--steps 200] [--scale 2] [--only LSTM,GAN] [--out bench/results/janus.json]
    bench/janus/measure.py --ablation --out bench/results/janus-ablation.json

All ways take turns, a tenth of the steps at a time, on the same data. Figures are milliseconds a step in CPU time of the process, one thread: the least and the
median over the tenths but the first, in which programs are converted and compiled, and the median of the ratios within them; `first_s`: what the first tenth takes.
`torch`, `torch.compile`: the same sources with PyTorch's names (words_of_torch.py); what its compiler refuses is told in its words.
`language`: the same model in Tensmith's language, by a compiled step of training (words_of_language.py), whose first weights are other ones.
`apart`: by how much losses differ at most, as parts of them. Rounding grows in training. Programs that act play the games of the first way (cart_pole.py): a
policy is asked in each step, but a rounded probability chooses no other action.

The folder of compiled kernels is a new one, empty at the start: a step whose form is new, as each tree's is, compiles in eager mode, too.

With `--ablation` ways are what speculation adds, as in the paper: `conversion`: branches and loops are the graph's from the first conversion on, where they have a form there, and numbers are inputs;
`unrolling`: the course of a call is an assumption, as are the branches that it takes; `specialisation`: so are numbers, which is `ts.function`. `run_ms`: the least tenth's, without conversions.
"""

import argparse
import ast
import atexit
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TENSMITH_ENGINE_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TENSMITH_CACHE"] = tempfile.mkdtemp()
atexit.register(shutil.rmtree, os.environ["TENSMITH_CACHE"], ignore_errors=True)
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
sys.path[:0] = [str(BUILD / "python"), str(pathlib.Path(__file__).parent)]

import programs_of_janus  # noqa: E402
import words_of_language  # noqa: E402

import tensmith as ts  # noqa: E402

PARTS = 10


def part(step, numbers):
    """CPU time a step, and the losses."""
    ts._eager.wait_for_all()
    start = time.process_time()
    losses = [step(number) for number in numbers]
    ts._eager.wait_for_all()
    return (time.process_time() - start) / len(losses), [float(loss) for loss in losses]


def of_torch(name, scale):
    """Ways of PyTorch."""
    try:
        import torch
        import words_of_torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    found = {}
    for way, convert in {"torch": words_of_torch.as_it_is, "torch.compile": torch.compile}.items():
        torch.manual_seed(3)
        found[way] = words_of_torch.programs()[name](words_of_torch.converting(convert), scale)
    return found


class Relaxed(set):
    """What differs from call to call: all that is of some types, and what it holds."""

    def __init__(self, *types):
        self.types = types

    def __contains__(self, x):
        return isinstance(x, self.types) or super().__contains__(x)


def relaxing(*types):
    """ts.function, which assumes less from the begin."""

    def convert(function):
        converted = ts.function(function)
        converted._relaxed = Relaxed(*types)
        return converted

    return convert


def as_it_is(function):
    return function


ABLATION = {"eager": as_it_is, "conversion": relaxing(ast.AST, str), "unrolling": relaxing(str), "specialisation": ts.function}


def ablated(name, steps, scale):
    ways = {}
    for way, convert in ABLATION.items():
        ts.nn.manual_seed(3)
        ways[way] = programs_of_janus.PROGRAMS[name](convert, scale)
    size, times, losses = max(1, steps // PARTS), {way: [] for way in ways}, {way: [] for way in ways}
    for first in range(0, steps, size):
        for way, (_, step) in ways.items():
            seconds, found = part(step, range(first, min(first + size, steps)))
            times[way].append(seconds)
            losses[way] += found
    result = {way: {"run_ms": round(min(each[1:]) * 1e3, 3), "median_ms": round(statistics.median(each[1:]) * 1e3, 3), "first_s": round(each[0] * size, 3),
                    "apart": max(abs(a - b) / max(1e-3, abs(a)) for a, b in zip(losses["eager"], losses[way]))} for way, each in times.items()}  # fmt: skip
    for way, (step, _) in ways.items():
        if way != "eager":
            result[way]["statistics"] = step.statistics()
    return result


def measured(name, steps, scale):
    ways = {}
    for way, convert in {"eager": as_it_is, "converted": ts.function}.items():
        ts.nn.manual_seed(3)
        ways[way] = programs_of_janus.PROGRAMS[name](convert, scale)
    ways |= of_torch(name, scale)
    if name in words_of_language.MODELS:
        ways["language"] = None, words_of_language.step_of(name, scale)
    times, losses, refused = {way: [] for way in ways}, {way: [] for way in ways}, {}
    size = max(1, steps // PARTS)
    for first in range(0, steps, size):
        for way, (_, step) in ways.items():
            if way in refused:
                continue
            try:
                seconds, found = part(step, range(first, min(first + size, steps)))
            except Exception as error:
                if not way.startswith("torch"):
                    raise
                refused[way] = f"{type(error).__name__}: {error}"[:300]
                continue
            times[way].append(seconds)
            losses[way] += found
    apart = max(abs(a - b) / max(1e-3, abs(a)) for a, b in zip(losses["eager"], losses["converted"]))
    result = {way: {"least_ms": min(t[1:]) * 1e3, "median_ms": statistics.median(t[1:]) * 1e3, "first_s": t[0] * size} for way, t in times.items() if way not in refused}
    ratios = {f"{way}_to_converted": statistics.median(a / b for a, b in zip(times[way][1:], times["converted"][1:])) for way in result if way != "converted"}
    return {**result, **ratios, "apart": apart, "refused": refused, "statistics": ways["converted"][0].statistics(), "load_average": round(os.getloadavg()[0], 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--scale", type=int, default=2)
    parser.add_argument("--only", default=",".join(programs_of_janus.PROGRAMS))
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("the first steps convert and are left out, so that there must be two at least")
    results = {"load_average": os.getloadavg()[0], "steps": options.steps, "scale": options.scale}
    if options.out and options.out.exists():
        results = {**json.loads(options.out.read_text()), **results}
    for name in options.only.split(","):
        results[name] = (ablated if options.ablation else measured)(name, options.steps, options.scale)
        if options.ablation:
            print(f"{name:>16}: " + ", ".join(f"{way} {each['run_ms']} ms" for way, each in results[name].items()), flush=True)
        else:
            print(f"{name:>16}: {results[name]['eager']['median_ms']:8.2f} ms eager, {results[name]['converted']['median_ms']:8.2f} ms converted, "
                  f"{results[name]['eager_to_converted']:.2f}x, apart by {results[name]['apart']:.1e}, {results[name]['statistics']}", flush=True)  # fmt: skip
        if options.out:
            options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
