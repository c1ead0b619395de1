#!/usr/bin/env python3
"""Runs kernels by points drawn from their spaces, and compares them with the reference evaluation.

    tests/spaces/points.py                                   # 200 points of each kernel, here and on two ARM CPUs under qemu
    tests/spaces/points.py --points 20 --target host --case attention
    tests/spaces/points.py --json points.json                # goes on where a run that was interrupted ended

Three points in four are drawn from the whole space; of them results agree to 1e-5 of the largest element, and whole numbers exactly.
The fourth changes only choices that keep the order of each sum: its results are the default's, bit for bit. Needs tensmith-run for the
boards (docs/boards.md). The exit status is 1 where a point fails; its schedule file is printed.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
sys.path.insert(0, str(ROOT / "tests/boards"))

import emulators  # noqa: E402

TARGETS = ["host", "aarch64:cortex-a53", "aarch64:cortex-a76"]
PART = 20  # points, which a run that was interrupted has whole or not at all
TOLERANCE = 1e-5
# What decides only who does which part, or what is fetched before it is needed.
KEEPS_ORDER = {"item_tiles", "item_panels", "rows_apart", "tiles_first", "lines_ahead", "item_elements", "rows_together", "item_pairs", "item_lines",
               "item_squares", "item_vectors", "ranges", "block_rows", "grain", "band_lines"}


def network(nodes, inputs, constants=None, outputs=("y",), opset=17):
    values = [helper.make_tensor_value_info(name, {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8}[kind], shape)
              for name, (shape, kind) in inputs.items()]
    graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name=name) for name in outputs],
                              [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


def weights(*shape):
    generator = numpy.random.default_rng(sum(shape))
    return (generator.standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))).astype("float32")


def conv(image, w, **attributes):
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes), helper.make_node("Relu", ["c"], ["y"])]
    inputs = {"x": (image, "float32")}
    return network(nodes, inputs, {"w": weights(*w), "b": weights(w[0])}), inputs


def product(left, right, constant):
    nodes = [helper.make_node("MatMul", ["a", "b"], ["p"]), helper.make_node("Tanh", ["p"], ["y"])]
    inputs = {"a": (left, "float32")} | ({} if constant else {"b": (right, "float32")})
    return network(nodes, inputs, {"b": weights(*right)} if constant else {}), inputs


def bytes_product():
    w = numpy.random.default_rng(3).integers(-127, 128, (200, 70)).astype("int8")
    inputs = {"a": ((37, 200), "uint8")}
    zero = {"zero": numpy.array(128, "uint8"), "of_w": numpy.array(0, "int8")}
    return network([helper.make_node("MatMulInteger", ["a", "w", "zero", "of_w"], ["y"])], inputs, {"w": w} | zero), inputs


def along_rows(operator, **attributes):
    inputs = {"x": ((5, 7, 67), "float32")}
    names = ["x", "s", "b"] if operator == "LayerNormalization" else ["x"]
    constants = {"s": weights(67), "b": weights(67)} if len(names) > 1 else {}
    nodes = [helper.make_node("Mul", ["x", "x"], ["q"]), helper.make_node(operator, ["q", *names[1:]], ["n"], axis=-1, **attributes),
             helper.make_node("Tanh", ["n"], ["y"])]
    return network(nodes, inputs, constants), inputs


def attention():
    inputs = {"q": ((2, 4, 37, 32), "float32"), "k": ((2, 4, 45, 32), "float32"), "v": ((2, 4, 45, 32), "float32")}
    nodes = [helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "t"], ["s"]),
             helper.make_node("Mul", ["s", "scale"], ["z"]), helper.make_node("Softmax", ["z"], ["w"], axis=-1), helper.make_node("MatMul", ["w", "v"], ["y"])]
    return network(nodes, inputs, {"scale": numpy.array(0.2, "float32")}), inputs


def lstm():
    inputs = {"x": ((9, 3, 40), "float32")}
    constants = {"w": weights(1, 128, 40), "r": weights(1, 128, 32), "b": weights(1, 256)}
    return network([helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=32)], inputs, constants), inputs


def transposition():
    inputs = {"x": ((3, 65, 70, 4), "float32")}
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 2, 1]), helper.make_node("Abs", ["t"], ["y"])]
    return network(nodes, inputs), inputs


CASES = {
    "conv": lambda: conv((2, 24, 19, 21), (40, 24, 3, 3), pads=[1] * 4, strides=[2, 1]),
    "conv of one pixel": lambda: conv((1, 96, 14, 13), (70, 96, 1, 1)),
    "conv dilated, of groups": lambda: conv((1, 64, 17, 18), (64, 32, 3, 3), group=2, dilations=[2, 2], pads=[2] * 4),
    "product": lambda: product((37, 300), (300, 75), True),
    "product of stacks": lambda: product((3, 29, 60), (3, 60, 50), False),
    "product of bytes": bytes_product,
    "depthwise": lambda: conv((2, 40, 23, 25), (40, 1, 3, 3), group=40, pads=[1] * 4),
    "softmax": lambda: along_rows("Softmax"),
    "layer norm": lambda: along_rows("LayerNormalization"),
    "attention": attention,
    "lstm": lstm,
    "transposition": transposition,
}


def drawn(space, choices, pick):
    """A point of the space: all choices that exist, or of those named alone."""
    point = {}
    for choice in space["choices"]:
        if all(point.get(guard) in values for guard, values in choice.get("where", {}).items()):
            point[choice["choice"]] = pick.choice(choice["values"])
    return {name: value for name, value in point.items() if choices is None or name in choices}


class Case:
    """A model with its inputs, on one machine."""

    def __init__(self, name, target, tensmith, folder):
        self.name, self.target, self.tensmith, self.folder = name, target, tensmith, folder
        self.command = pathlib.Path(tensmith.__file__).resolve().parents[2] / "bin/tensmith"  # of the same build
        self.data, inputs = CASES[name]()
        self.path = folder / "model.onnx"
        self.path.write_bytes(self.data)
        generator = numpy.random.default_rng(5)
        self.feeds = {key: generator.standard_normal(shape).astype(kind) if kind == "float32" else generator.integers(0, 100, shape).astype(kind)
                      for key, (shape, kind) in inputs.items()}
        self.wanted = [numpy.asarray(value) for value in tensmith.compile(self.data, reference=True).run(**self.feeds)]
        done = subprocess.run([self.command, "inspect", self.path, "--target", target, "--precision", "exact", "--spaces", "--json"],
                              capture_output=True, text=True, check=True)
        self.spaces = [space for space in json.loads(done.stdout) if "template" in space]
        self.plain = self.run(None)

    def run(self, schedules):
        """The outputs, by the points in a file or by those that estimates choose."""
        asked = ["--schedules", schedules] if schedules else []
        done = subprocess.run([self.command, "compile", self.path, "--target", self.target, "--precision", "exact", "--no-cache",
                               *asked, "-o", self.folder / "module.so"], capture_output=True, text=True, check=True)
        # Panels of other widths are packed by other kernels; all others are as they were.
        unfit = [line for line in done.stderr.splitlines() if "fits no kernel" in line and "of the model: pack " not in line]
        if unfit:
            raise self.tensmith.Error("\n".join(unfit))
        if self.target == "host":
            return [numpy.asarray(value) for value in self.tensmith.load(self.folder / "module.so", threads=2).run(**self.feeds)]
        words = []
        for name, value in self.feeds.items():
            numpy.save(self.folder / f"{name}.npy", value)
            words += ["--input", f"{name}={self.folder}/{name}.npy"]
        done = subprocess.run([*emulators.runner(self.target), self.folder / "module.so", *words, "--out", self.folder / "results"],
                              capture_output=True, text=True, check=True)
        return [numpy.load(output["file"]) for output in json.loads(done.stdout)["outputs"]]

    def check(self, number):
        """Nothing, or what is wrong with the point of that number."""
        pick = random.Random(f"{self.name} {self.target} {number}")
        keeps = number % 4 == 3
        entries = [{"key": space["key"], "kernel": space["kernel"], **drawn(space, KEEPS_ORDER if keeps else None, pick)} for space in self.spaces]
        schedules = self.folder / "schedules.json"
        schedules.write_text(json.dumps({"schedules": entries}))
        try:
            got = self.run(schedules)
        except (self.tensmith.Error, subprocess.CalledProcessError) as error:
            return f"{getattr(error, 'stderr', None) or error} by {schedules.read_text()}"
        for a, b, plain in zip(got, self.wanted, self.plain, strict=True):
            if keeps and a.tobytes() != plain.tobytes():
                return f"not the same bits as by default, by {schedules.read_text()}"
            if a.dtype.kind == "f":
                error = numpy.abs(a - b).max() / numpy.abs(b).max()
                if not error <= TOLERANCE:
                    return f"errs by {error:.1e} of the largest, by {schedules.read_text()}"
            elif not (a == b).all():
                return f"other whole numbers, by {schedules.read_text()}"
        return None


def checked(name, target, tensmith, first, points):
    """How many of these points of its kernels' spaces fail; `space`: how many points each space has, in all."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case(name, target, tensmith, pathlib.Path(folder))
        problems = [problem for problem in map(case.check, range(first, first + points)) if problem]
        return {"space": [space["points"] for space in case.spaces], "templates": sorted({space["template"] for space in case.spaces}),
                "failed": len(problems), "problems": problems[:5]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200, help="of each kernel on each machine (default: 200)")
    parser.add_argument("--target", action="append", choices=TARGETS, help=f"default: {', '.join(TARGETS)}")
    parser.add_argument("--case", action="append", choices=list(CASES), help="default: all twelve")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="keep the counts of each part there, and leave out those it has" + emulators.STALE)
    options = parser.parse_args()
    sys.path.insert(0, str(BUILD / "python"))
    import tensmith  # noqa: PLC0415 - of this build

    records, failed = emulators.Records(options.json), 0
    for target in options.target or TARGETS:
        for name in options.case or CASES:
            parts = []
            for first in range(0, options.points, PART):
                points = min(PART, options.points - first)
                parts.append(records.of(lambda: checked(name, target, tensmith, first, points), case=name, target=target, first=first, points=points))  # noqa: B023
            count = sum(part["failed"] for part in parts)
            failed += count
            print(f"{target:20} {name:24} {sum(part['points'] for part in parts)} of {max(parts[0]['space'])} points ({', '.join(parts[0]['templates'])}): "
                  f"{count} failed", flush=True)
            for problem in [problem for part in parts for problem in part["problems"]]:
                print(f"    {problem}", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
