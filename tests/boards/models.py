#!/usr/bin/env python3
"""Runs models on other CPUs under qemu, and compares them with ONNX Runtime on this one.

    tests/boards/models.py model.onnx ...                              # on ARM of 64 and 32 bits, and RISC-V with vectors
    tests/boards/models.py --raced --size batch=1 --size seq=16 --json FILE   # the seven of bench/models, with weights; goes on where it ended
    tests/boards/models.py --raced bert_base_dyn --size batch=1 --size seq=16
    tests/boards/models.py model.onnx --target aarch64:cortex-a76 --size batch=1 --size sequence=32

Needs onnxruntime, and tensmith-run for the boards (docs/boards.md). The exit status is 1 where an output differs by more than
1e-4 of its largest element. Sizes that a model leaves open are 1 unless they are given.
"""

import argparse
import functools
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import emulators
import numpy
import onnx
import onnxruntime

ROOT = emulators.ROOT
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
RACED = sorted((ROOT / "bench/models").glob("*.onnx"))
TOLERANCE = 1e-4
TYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(bool)": "bool", "tensor(uint8)": "uint8"}


def inputs_of(session, sizes):
    random = numpy.random.default_rng(1)
    for port in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes.get(size, 1) for size in port.shape]
        kind = TYPES[port.type]
        if kind == "float32":
            yield port.name, random.standard_normal(shape, dtype=kind)
        else:
            yield port.name, random.integers(0, 2 if kind == "bool" else 100, shape).astype(kind)


def run_there(model, target, feeds, folder):
    """The outputs in order, and seconds of compiling and of running."""
    start = time.monotonic()
    subprocess.run([TENSMITH, "compile", model, "--target", target, "-o", folder / "module.so"], check=True, capture_output=True)
    compiled = time.monotonic()
    words = []
    for number, (name, value) in enumerate(feeds.items()):
        numpy.save(folder / f"{number}.npy", value)
        words += ["--input", f"{name}={folder}/{number}.npy"]
    done = subprocess.run([*emulators.runner(target), folder / "module.so", *words, "--out", folder / "results"], check=True, capture_output=True,
                          text=True)
    outputs = [numpy.load(output["file"]) for output in json.loads(done.stdout)["outputs"]]
    return outputs, compiled - start, time.monotonic() - compiled


def error(got, wanted):
    """The largest difference against the largest element; NaN where one of them is none, or the shapes differ."""
    if got.shape != wanted.shape:
        return numpy.nan
    a, b = got.astype(numpy.float64), wanted.astype(numpy.float64)
    return float(numpy.abs(a - b).max() / max(numpy.abs(b).max(), 1e-30)) if b.size else 0.0


def compare(session, model, sizes, target):
    feeds = dict(inputs_of(session(), sizes))
    wanted = session().run(None, feeds)
    with tempfile.TemporaryDirectory() as folder:
        got, compiling, running = run_there(model, target, feeds, pathlib.Path(folder))
    errors = [error(a, b) for a, b in zip(got, wanted, strict=True)]
    return {"inputs": {name: list(value.shape) for name, value in feeds.items()}, "error": max(errors, key=lambda one: (one != one, one)),
            "compiling": round(compiling, 1), "running": round(running, 1)}


def digest(model):
    """Of the file and of those that it names for its weights."""
    named = {entry.value for tensor in onnx.load(model, load_external_data=False).graph.initializer for entry in tensor.external_data if entry.key == "location"}
    whole = hashlib.sha256()
    for path in [model, *(model.parent / name for name in sorted(named))]:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:16]


def raced(names):
    sys.path.insert(0, str(ROOT / "bench"))
    from weights import filled  # noqa: PLC0415 - which needs onnx

    for path in RACED:
        if not names or path.stem in names:
            yield path.stem, filled(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--raced", nargs="*", metavar="NAME", choices=[path.stem for path in RACED], help="these models of bench/models, or all, too")
    parser.add_argument("--target", action="append", help=f"default: {', '.join(emulators.USUAL)}")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=SIZE", help="of a size that a model leaves open")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="keep the errors there, and leave out those it has" + emulators.STALE)
    options = parser.parse_args()
    if not options.models and options.raced is None:
        parser.error("no model is named; name ONNX files, or --raced")
    for path in options.models:
        if not path.is_file():
            parser.error(f"{path}: there is no such file")
    sizes = {name: int(size) for name, size in (word.split("=") for word in options.size)}
    records, failed = emulators.Records(options.json), 0
    for name, model in [*((path.stem, path) for path in options.models), *(raced(options.raced) if options.raced is not None else [])]:
        session = functools.cache(lambda model=model: onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]))
        contents = digest(model)
        for target in options.target or emulators.USUAL:
            found = records.of(lambda session=session, model=model, target=target: compare(session, model, sizes, target),
                               model=name, contents=contents, target=target, sizes=sizes)
            agrees = found["error"] <= TOLERANCE
            failed += not agrees
            print(f"{name:24}{target:26}{found['error']:9.1e} of the largest{'' if agrees else ': DIFFERS'}"
                  f"   compiled in {found['compiling']:.1f} s, run in {found['running']:.1f} s under qemu", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
