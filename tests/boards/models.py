#!/usr/bin/env python3
"""Runs models on other CPUs under qemu, and compares them with ONNX Runtime on this one.

    tests/boards/models.py model.onnx ...                              # on ARM of 64 and 32 bits, and RISC-V with vectors
    tests/boards/models.py model.onnx --target aarch64:cortex-a76 --size batch=1 --size sequence=32

Needs onnxruntime, and tensmith-run for the boards (docs/boards.md). The exit status is 1 where an output differs by more than
1e-4 of its largest element. Sizes that a model leaves open are 1 unless they are given.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = ROOT / "build/dev/bin/tensmith"
EMULATORS = {
    "aarch64:cortex-a53": ("aarch64", ["qemu-aarch64", "-cpu", "cortex-a53"]),
    "aarch64:neoverse-v1": ("aarch64", ["qemu-aarch64", "-cpu", "max"]),
    "riscv64:rv64gcv,zvl256b": ("riscv64", ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256,vext_spec=v1.0"]),
    "armv7:cortex-a7": ("armv7", ["qemu-arm", "-cpu", "cortex-a7"]),
}
# For other machines of a family: all that the emulator has.
FAMILIES = {
    "aarch64": ["qemu-aarch64", "-cpu", "max"],
    "armv7": ["qemu-arm", "-cpu", "max"],
    "riscv64": ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256,vext_spec=v1.0"],
}
TOLERANCE = 1e-4
TYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(bool)": "bool", "tensor(uint8)": "uint8"}


def emulator(target):
    if target in EMULATORS:
        return EMULATORS[target]
    preset = target.split(":")[0]
    if preset not in FAMILIES:
        sys.exit(f"{target}: there is no emulator for it here; name a machine of {', '.join(FAMILIES)}")
    return preset, FAMILIES[preset]


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
    preset, command = emulator(target)
    start = time.monotonic()
    subprocess.run([TENSMITH, "compile", model, "--target", target, "-o", folder / "module.so"], check=True, capture_output=True)
    compiled = time.monotonic()
    words = []
    for number, (name, value) in enumerate(feeds.items()):
        numpy.save(folder / f"{number}.npy", value)
        words += ["--input", f"{name}={folder}/{number}.npy"]
    done = subprocess.run([*command, ROOT / "build" / preset / "bin/tensmith-run", folder / "module.so", *words, "--out", folder / "results"],
                          check=True, capture_output=True, text=True)
    outputs = [numpy.load(output["file"]) for output in json.loads(done.stdout)["outputs"]]
    return outputs, compiled - start, time.monotonic() - compiled


def error(got, wanted):
    """The largest difference against the largest element; NaN where one of them is none, or the shapes differ."""
    if got.shape != wanted.shape:
        return numpy.nan
    a, b = got.astype(numpy.float64), wanted.astype(numpy.float64)
    return float(numpy.abs(a - b).max() / max(numpy.abs(b).max(), 1e-30)) if b.size else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--target", action="append", help=f"default: {', '.join(EMULATORS)}")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=SIZE", help="of a size that a model leaves open")
    options = parser.parse_args()
    sizes = {name: int(size) for name, size in (word.split("=") for word in options.size)}
    failed = 0
    for model in options.models:
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        feeds = dict(inputs_of(session, sizes))
        wanted = session.run(None, feeds)
        for target in options.target or EMULATORS:
            with tempfile.TemporaryDirectory() as folder:
                got, compiling, running = run_there(model, target, feeds, pathlib.Path(folder))
            errors = [error(a, b) for a, b in zip(got, wanted, strict=True)]
            agrees = bool(numpy.all(numpy.asarray(errors) <= TOLERANCE))
            failed += not agrees
            print(f"{model.stem:24}{target:26}{max(errors):9.1e} of the largest{'' if agrees else ': DIFFERS'}"
                  f"   compiled in {compiling:.1f} s, run in {running:.1f} s under qemu", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
