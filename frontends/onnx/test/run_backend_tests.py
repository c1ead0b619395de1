"""Runs the data of onnx.backend.test through onnx_eval and counts.

    run_backend_tests.py ONNX_EVAL [--filter TEXT] [--jobs N] [--failures FILE]

One process for each test, so that a crash is a result like others (and fails this program). The exit status is
0 if nothing crashed and at least --at-least tests passed.
"""

import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests


def value_proto(value, type_proto):
    """A test's value as the bytes of an input_*.pb: a tensor, a sequence or an optional."""
    kind = type_proto.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(list(value))
    if kind == "optional_type":
        return numpy_helper.from_optional(value)
    if isinstance(value, onnx.TensorProto):
        return value
    return numpy_helper.from_array(np.asarray(value))


def write_case(case, folder):
    """A test that exists in memory, as files: the model, and its data folders."""
    os.makedirs(folder)
    model = os.path.join(folder, "model.onnx")
    onnx.save(case.model, model)
    folders = []
    for number, data_set in enumerate(case.data_sets):
        data = os.path.join(folder, f"test_data_set_{number}")
        os.makedirs(data)
        folders.append(data)
        graph = case.model.graph
        for kind, infos, values in zip(("input", "output"), (graph.input, graph.output), data_set):
            for index, (info, value) in enumerate(zip(infos, values)):
                with open(os.path.join(data, f"{kind}_{index}.pb"), "wb") as file:
                    file.write(value_proto(value, info.type).SerializeToString())
    return model, folders


def tests(folder):
    """Name, model, data folders and tolerances. Models that would have to be downloaded are left out."""
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(kind=kind):
            if case.model is not None:
                model, folders = write_case(case, os.path.join(folder, case.name))
            elif case.model_dir and os.path.exists(os.path.join(case.model_dir, "model.onnx")):
                model = os.path.join(case.model_dir, "model.onnx")
                folders = sorted(
                    entry.path for entry in os.scandir(case.model_dir) if entry.name.startswith("test_data_set"))
            else:
                continue
            yield case.name, model, folders, case.rtol, case.atol


def run(program, test):
    name, model, folders, rtol, atol = test
    try:
        result = subprocess.run([program, model, f"--rtol={rtol}", f"--atol={atol}", *folders],
                                capture_output=True, text=True, errors="replace", timeout=120)
    except subprocess.TimeoutExpired:
        return name, "timeout", ""
    if result.returncode == 0:
        return name, "pass", ""
    if result.returncode in (1, 2):
        return name, "fail", result.stdout.replace(model, "model").strip()
    return name, "crash", (result.stderr or result.stdout).strip()[-300:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--failures", help="a file to write each failure's reason to")
    parser.add_argument("--at-least", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cases divide by zero on purpose
            chosen = [test for test in tests(folder) if re.search(options.filter, test[0])]
        results = list(pool.map(lambda test: run(options.program, test), chosen))
    counts = collections.Counter(outcome for _, outcome, _ in results)
    lines = [f"{outcome} {name}: {reason}" for name, outcome, reason in results if outcome != "pass"]
    if options.failures:
        with open(options.failures, "w") as file:
            file.write("\n".join(lines) + "\n")
    elif len(lines) < 50:
        print("\n".join(lines))
    print(f"{len(results)} tests:", ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return 1 if counts["crash"] or counts["pass"] < options.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
