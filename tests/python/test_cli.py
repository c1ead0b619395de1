"""The command line as a program: what it prints, writes and refuses, with its exit status.

Models are made here with onnx.helper, small enough to be compiled in a moment. A file that can't be read, an input that
does not fit and a disk that is full must each end in one line on stderr that starts with "tensmith:" and names the
culprit; a signal (a negative status) is always a failure.
"""

import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"

pytestmark = pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")


def tensmith(*arguments, status=0, **options):
    done = subprocess.run([TENSMITH, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def refused(*arguments, status=1, **options):
    """The one line that says why."""
    # On a busy machine there may be lines of progress: "compiling m.onnx: writing the module, 0%, 1 s".
    is_other = re.compile(r": (note|warning): |^(?!tensmith: ).*, \d+ s$").search
    lines = [line for line in tensmith(*arguments, status=status, **options).stderr.splitlines() if not is_other(line)]
    assert len(lines) == 1 and lines[0].startswith("tensmith: "), lines
    return lines[0]


@pytest.fixture(scope="session")
def weights():
    return numpy.random.default_rng(1).standard_normal((3, 4)).astype(numpy.float32)


@pytest.fixture(scope="session")
def model(tmp_path_factory, weights):
    """y = relu(x w), with x of batch x 3."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["product"], "multiply"), helper.make_node("Relu", ["product"], ["y"], "rectify")],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="session")
def picture_model(tmp_path_factory):
    """y = x + x of a picture of 1x3x4x5, so that what a picture becomes can be read off."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "picture",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4, 5])],
    )
    path = tmp_path_factory.mktemp("model") / "picture.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="session")
def module(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("module") / "tiny.so"
    tensmith("compile", model, "-o", path)
    return path


@pytest.fixture
def x(tmp_path):
    value = numpy.random.default_rng(2).standard_normal((2, 3)).astype(numpy.float32)
    numpy.save(tmp_path / "x.npy", value)
    return value


def output(folder, name="y"):
    return numpy.load(folder / f"{name}.npy")


def run(tmp_path, *arguments):
    tensmith("run", *arguments, "--output", tmp_path / "out")
    return output(tmp_path / "out")


# ---- Help and usage


@pytest.mark.parametrize("command", ["compile", "run", "bench", "inspect", "compare", "machine"])
def test_help_has_an_example(command):
    assert f"tensmith {command}" in tensmith(command, "--help").stdout.split("Example")[1]


def test_version():
    assert tensmith("--version").stdout.startswith("tensmith 0.")


def test_unknown_command_is_suggested():
    assert "did you mean 'bench'?" in refused("bnech", "x.so", status=2)


def test_unknown_option_is_suggested():
    assert "did you mean '--threads'?" in refused("run", "x.so", "--thread", "1", status=2)


def test_without_arguments_shows_help():
    assert "compile" in tensmith(status=2).stderr


# ---- Running


def test_run_gives_the_model_s_outputs(tmp_path, model, weights, x):
    y = run(tmp_path, model, "--input", f"x={tmp_path}/x.npy")
    numpy.testing.assert_allclose(y, numpy.maximum(x @ weights, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_one_module_serves_every_size(tmp_path, module, weights, batch):
    x = numpy.random.default_rng(batch).standard_normal((batch, 3)).astype(numpy.float32)
    numpy.savez_compressed(tmp_path / "in.npz", x=x)
    y = run(tmp_path, module, "--input", tmp_path / "in.npz", "--threads", 2)
    numpy.testing.assert_allclose(y, numpy.maximum(x @ weights, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("change", [numpy.asfortranarray, lambda x: x.astype(">f4")])
def test_npy_in_any_order(tmp_path, module, weights, x, change):
    numpy.save(tmp_path / "x.npy", change(x))
    y = run(tmp_path, module, "--input", f"x={tmp_path}/x.npy")
    numpy.testing.assert_allclose(y, numpy.maximum(x @ weights, 0), rtol=1e-5, atol=1e-6)


def test_random_inputs_are_the_same_each_time(tmp_path, module):
    first = run(tmp_path, module, "--input", "x=5x3xf32=random", "--seed", "3")
    assert numpy.array_equal(first, run(tmp_path, module, "--input", "x=5x3xf32=random", "--seed", "3"))
    assert not numpy.array_equal(first, run(tmp_path, module, "--input", "x=5x3xf32=random", "--seed", "4"))


def test_missing_input_is_made_up_with_a_note(module):
    assert "note: input 'x'" in tensmith("run", module, "--shape", "batch=2").stderr
    assert "--shape batch=" in refused("run", module, status=2)


def test_top_as_json(module, weights):
    result = json.loads(tensmith("run", module, "--input", "x=1x3xf32=ones", "--top", 2, "--json").stdout)
    y = numpy.maximum(weights.sum(axis=0), 0)
    top = result["outputs"][0]["top"][0]
    assert [entry["index"] for entry in top] == list(numpy.argsort(-y, kind="stable")[:2])
    assert result["outputs"][0]["shape"] == [1, 4]


def test_picture_is_scaled_and_laid_out(tmp_path, picture_model):
    pixels = numpy.random.default_rng(3).integers(0, 256, (4, 5, 3), numpy.uint8)
    image = pytest.importorskip("PIL.Image")
    image.fromarray(pixels).save(tmp_path / "x.png")
    y = run(tmp_path, picture_model, "--input", tmp_path / "x.png", "--image-mean", "0.1,0.2,0.3", "--image-std", "0.5")
    expected = 2 * (pixels / 255 - [0.1, 0.2, 0.3]) / 0.5
    numpy.testing.assert_allclose(y[0], expected.transpose(2, 0, 1), rtol=1e-5, atol=1e-6)


def test_picture_is_resized(tmp_path, picture_model):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (50, 40), (255, 0, 51)).save(tmp_path / "x.jpg", quality=95)
    y = run(tmp_path, picture_model, "--input", f"x={tmp_path}/x.jpg", "--image-scale", "1")
    numpy.testing.assert_allclose(y[0].mean(axis=(1, 2)), [510, 0, 102], atol=6)


# ---- Bench, inspect, compare, machine


def test_bench_counts_runs_and_kernels(module):
    result = json.loads(tensmith("bench", module, "--input", "x=4x3xf32=random", "--runs", 5, "--kernels", "--json").stdout)
    assert result["runs"] == 5
    assert 0 < result["min"] <= result["median"] <= result["max"]
    assert result["kernels"] and all(kernel["seconds"] >= 0 for kernel in result["kernels"])


def work_of(path, *arguments):
    """(label, flops, bytes, of one call) of each kernel that does arithmetic, as bench says, and what inspect says."""
    made = path.with_suffix(".so")
    tensmith("compile", path, "-o", made)
    profile = json.loads(tensmith("bench", made, "--runs", 3, "--kernels", "--json", *arguments).stdout)["kernels"]
    static = json.loads(tensmith("inspect", made, "--json").stdout)["module"]["kernels"]
    work = [(kernel["flops"], kernel["bytes"]) for kernel in profile if kernel["flops"]]
    return work, [(kernel["flops"], kernel["bytes"]) for kernel in static if kernel["flops"]], profile


def test_work_of_a_matrix_product(model):
    """5 x 3 by 3 x 4, and a maximum for each element; the weights are padded to whole panels."""
    [(flops, bytes)], [(flops_text, bytes_text)], profile = work_of(model, "--input", "x=5x3xf32=random")
    assert flops == 2 * 5 * 3 * 4 + 5 * 4
    assert bytes >= 4 * (5 * 3 + 3 * 4 + 5 * 4) and bytes % 4 == 0
    assert "batch" in flops_text and "batch" in bytes_text
    text = tensmith("bench", model, "--input", "x=5x3xf32=random", "--runs", 3, "--kernels").stdout
    assert "Gflop/s" in text and "GB/s" in text


@pytest.fixture(scope="session")
def own_cache(tmp_path_factory):
    """An environment with a cache of its own, where this machine has just been measured."""
    environment = {**os.environ, "TENSMITH_CACHE": str(tmp_path_factory.mktemp("cache"))}
    tensmith("machine", env=environment)
    return environment


def machine_with(own_cache, folder, rates):
    """
    An environment whose machine is said to do `rates`, so that what follows from them does not depend on what else runs:
    "arithmetic" in operations a second, and a level of memory, or "memory" for all of them, in bytes a second.
    """
    [kept] = pathlib.Path(own_cache["TENSMITH_CACHE"]).glob("machines/*.json")
    limits = json.loads(kept.read_text())
    rate = lambda name, usual: {"one": rates.get(name, usual), "all": 2 * rates.get(name, usual)}
    for limit in limits["arithmetic"]:
        limit["operations_per_second"] = rate("arithmetic", None)
    for level in limits["memory"]:
        level["bytes_per_second"] = dict.fromkeys(["read", "write", "copy"], rate(level["name"], rates["memory"]))
    limits["call_seconds"] = limits["hand_over_seconds"] = rates.get("call_seconds", 1e-9)
    (folder / "machines").mkdir(parents=True, exist_ok=True)
    (folder / "machines" / kept.name).write_text(json.dumps(limits))
    return {**own_cache, "TENSMITH_CACHE": str(folder)}


# As those of a core of 2020.
ORDINARY = {"arithmetic": 1e11, "L1": 4e11, "L2": 2e11, "L3": 5e10, "memory": 1e10}


# Breaks if shares aren't of what the machine can do, or change with how a kernel is called.
def test_bench_tells_what_kernels_wait_for(module, own_cache):
    result = json.loads(tensmith("bench", module, "--input", "x=4x3xf32=random", "--runs", 5, "--kernels", "--json",
                                 env=own_cache).stdout)
    limits = json.loads(tensmith("machine", "--json", env=own_cache).stdout)["limits"]
    assert result["limits"] == limits["identity"]
    for kernel in result["kernels"]:
        if kernel["kind"] == "kernel":
            assert kernel["limit_share"] == pytest.approx(kernel["limit_seconds"] / kernel["seconds"])
            assert kernel["limit_seconds"] >= kernel["calls"] * limits["call_seconds"]
            # 60 operations: nobody waits for arithmetic or memory there.
            assert kernel["waits_for"] in ("overhead", "latency")
    text = tensmith("bench", module, "--input", "x=4x3xf32=random", "--runs", 3, "--kernels", env=own_cache).stdout
    assert "of limit" in text and "waits for" in text


# Whatever a machine's limits are: beside one that is far too strict, no other one explains the time.
@pytest.mark.parametrize("rates, waits_for", [({"arithmetic": 1}, "flops"), ({"L1": 1, "L2": 1, "L3": 1, "memory": 1}, "level"),
                                              ({"call_seconds": 1e6}, "overhead"), ({}, "latency")])  # fmt: skip
def test_what_a_product_waits_for(tmp_path, own_cache, rates, waits_for):
    w = numpy_helper.from_array(numpy.ones((512, 512), numpy.float32), "w")
    path = one_node(tmp_path / "m.onnx", helper.make_node("MatMul", ["x", "w"], ["y"]), {"x": [512, 512]}, [512, 512], [w])
    module = path.with_suffix(".so")
    tensmith("compile", path, "-o", module)
    environment = machine_with(own_cache, tmp_path / "cache", {"arithmetic": 1e20, "memory": 1e20, **rates})
    result = json.loads(tensmith("bench", module, "--runs", 3, "--threads", 1, "--kernels", "--json", env=environment).stdout)
    [kernel] = [kernel for kernel in result["kernels"] if kernel["flops"]]
    assert kernel["flops"] == 2 * 512**3 and kernel["constant_bytes"] == 4 * 512**2
    assert kernel["waits_for"] in (["L1", "L2", "L3", "memory"] if waits_for == "level" else [waits_for])
    if waits_for == "flops":
        assert kernel["limit_seconds"] == pytest.approx(kernel["flops"])


# Breaks if the time of a loop's kernels is counted as the loop's, too.
def test_times_of_a_loop_and_its_kernels_add_up(tmp_path, own_cache):
    weights = [numpy_helper.from_array(numpy.zeros(shape, numpy.float32), name)
               for name, shape in [("w", (1, 512, 64)), ("r", (1, 512, 128))]]
    path = one_node(tmp_path / "m.onnx", helper.make_node("LSTM", ["x", "w", "r"], ["y"], "cells", hidden_size=128),
                    {"x": [60, 4, 64]}, [60, 1, 4, 128], weights)
    module, page = path.with_suffix(".so"), tmp_path / "page.html"
    tensmith("compile", path, "-o", module, env=own_cache)
    bench = ["bench", module, "--runs", 30, "--threads", 1, "--kernels"]
    result = json.loads(tensmith(*bench, "--json", "--html", page, env=own_cache).stdout)
    [loop] = [kernel for kernel in result["kernels"] if kernel["kind"] == "loop"]
    inside = [kernel for kernel in result["kernels"] if kernel["calls"] == 60]
    assert inside and loop["seconds"] > 0
    assert loop["whole_seconds"] == pytest.approx(loop["seconds"] + sum(kernel["seconds"] for kernel in inside))
    assert all(kernel["whole_seconds"] == kernel["seconds"] for kernel in result["kernels"] if kernel is not loop)
    [told] = re.findall(r"the kernels take ([\d.]+ \w+)", page.read_text())
    total = sum(kernel["seconds"] for kernel in result["kernels"])
    assert float(told.split()[0]) == pytest.approx(total * {"us": 1e6, "ms": 1e3, "s": 1}[told.split()[1]], rel=0.01)
    text = tensmith(*bench, env=own_cache).stdout
    assert "of those in it" in text and sum(float(line.split()[2][:-1]) for line in text.splitlines()[3:] if line) == pytest.approx(100, abs=1)


class Tags(html.parser.HTMLParser):
    """What a page is made of, and whatever it would fetch."""

    def __init__(self):
        super().__init__()
        self.count, self.fetched = {}, []

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.fetched += [value for name, value in attributes if name in ("src", "href", "xlink:href", "data")]


def test_bench_draws_a_page(tmp_path, model, own_cache):
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    tensmith("bench", model, "--input", "x=4x3xf32=random", "--runs", 3, "--html", page, "--trace", trace, env=own_cache)
    tags = Tags()
    tags.feed(page.read_text())
    assert tags.count["svg"] == 1 and tags.count["circle"] >= 1 and tags.count["line"] > 5 and tags.count["tr"] >= 2
    assert not tags.fetched and "http" not in page.read_text() and "url(" not in page.read_text()

    events = json.loads(trace.read_text())["traceEvents"]
    kernels = [event for event in events if event["ph"] == "X" and event["cat"] == "kernel"]
    assert len(kernels) >= 3 and all(event["dur"] >= 0 and event["ts"] >= 0 for event in kernels)
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in events if event["ph"] == "X"} == named


def boxes(page):
    """The labels of its pictures, as boxes: a letter of 12 px is 6 px wide at least."""
    for x, y, anchor, text in re.findall(r'<text x="([^"]+)" y="([^"]+)" text-anchor="([^"]+)">([^<]*)</text>', page):
        width = 6 * len(text)
        left = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        yield text, left, float(y) - 10, left + width, float(y) + 3


# Breaks when the labels of two roofs lie on one another, as those of L3 and memory did, or a tick is 1.2e+05.
def assert_labels_are_legible(page):
    labels = list(boxes(page))
    assert len(labels) > 4 and not any(re.search(r"\d[eE][+-]?\d", text) for text, *_ in labels)
    for i, (text, left, top, right, bottom) in enumerate(labels):
        for other, left_, top_, right_, bottom_ in labels[:i]:
            assert right <= left_ or right_ <= left or bottom <= top_ or bottom_ <= top, (text, other)


def test_labels_of_the_roofline_are_legible(tmp_path, model, own_cache):
    page = tmp_path / "page.html"
    tensmith("bench", model, "--input", "x=4x3xf32=random", "--runs", 3, "--html", page, env=own_cache)
    assert "L1" in page.read_text() and "Gflop/s" in page.read_text()
    assert_labels_are_legible(page.read_text())


# What the reference evaluator does is no kernel: it is counted apart.
def test_operators_without_a_kernel_are_no_kernels(tmp_path, model, own_cache):
    page = tmp_path / "page.html"
    tensmith("bench", model, "--input", "x=4x3xf32=random", "--runs", 3, "--evaluate-by-reference", "--html", page, env=own_cache)
    assert "operators without a kernel" in page.read_text() and 'class="reference"' in page.read_text() and "<circle" not in page.read_text()


def test_bench_compares_files(tmp_path, model, own_cache):
    page, fused, plain = tmp_path / "page.html", tmp_path / "fused.so", tmp_path / "plain.so"
    tensmith("compile", model, "-o", fused, env=own_cache)
    tensmith("compile", model, "-O0", "-o", plain, env=own_cache)
    bench = ["bench", plain, fused, "--input", "x=4x3xf32=random", "--runs", 5, "--html", page]
    first, second = json.loads(tensmith(*bench, "--json", env=own_cache).stdout)
    assert (first["file"], first["ratio"], first["runs"]) == (str(plain), 1, 5) and second["file"] == str(fused) and second["ratio"] > 0
    tags = Tags()
    tags.feed(page.read_text())
    assert tags.count["svg"] == 1 and tags.count["rect"] == 2 and not tags.fetched
    assert_labels_are_legible(page.read_text())
    # Both nodes are one kernel in one file, and two in the other: they are compared as one set.
    [row] = re.findall(r"<tr title=[^>]*>(.*?multiply.*)", page.read_text())
    assert "rectify" in row and row.count("<td") == 4 and "<td>-" not in row
    assert f"of the time of {plain}" in tensmith(*bench, env=own_cache).stdout
    message = refused(*bench, "--trace", tmp_path / "trace.json", env=own_cache)
    assert "one file" in message


def test_bench_says_where_it_cant_write(model, own_cache):
    message = refused("bench", model, "--input", "x=4x3xf32=random", "--runs", 3, "--trace", "/nowhere/trace.json", env=own_cache)
    assert "/nowhere/trace.json" in message


def one_node(path, node, inputs, output, initializers=()):
    port = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "g", [port(*item) for item in inputs.items()], [port("y", output)], list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_work_of_a_convolution(tmp_path):
    w = numpy_helper.from_array(numpy.ones((16, 8, 3, 3), numpy.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    dynamic, static, _ = work_of(one_node(tmp_path / "c.onnx", node, {"x": [1, 8, 10, 12]}, [1, 16, 10, 12], [w]))
    assert [flops for flops, _ in dynamic] == [2 * (16 * 10 * 12) * (8 * 3 * 3)]
    assert dynamic == static
    assert dynamic[0][1] >= 4 * (8 * 10 * 12 + 16 * 8 * 3 * 3 + 16 * 10 * 12)


def test_work_of_an_elementwise_kernel(tmp_path):
    path = one_node(tmp_path / "e.onnx", helper.make_node("Add", ["a", "b"], ["y"]), {"a": [7, 9], "b": [1, 9]}, [7, 9])
    dynamic, static, _ = work_of(path)
    assert dynamic == static == [(7 * 9, 4 * (7 * 9 + 9 + 7 * 9))]


def test_ports_of_a_model_are_those_of_its_module(model):
    result = json.loads(tensmith("inspect", model, "--json").stdout)
    for ports in ("inputs", "outputs"):
        assert result["model"][ports] == result["module"][ports]
    assert json.loads(tensmith("inspect", model, "--no-compile", "--json").stdout)["inputs"] == result["inputs"]


@pytest.mark.parametrize("kind", ["model", "module"])
def test_inspect_json(kind, model, module):
    result = json.loads(tensmith("inspect", model if kind == "model" else module, "--json").stdout)
    assert result["kind"] == kind
    assert [(port["name"], port["type"], port["dims"]) for port in result["inputs"]] == [("x", "f32", ["batch", "3"])]
    assert [port["name"] for port in result["outputs"]] == ["y"]
    assert result["kernels"] and result["operators"]
    assert set(result["memory"]) >= {"weights_bytes", "arena_bytes"}


def test_inspect_text(module):
    text = tensmith("inspect", module, "--verify").stdout
    assert "x: f32 batchx3" in text and "the weights match their hash" in text


def allocations_of(path):
    memory = json.loads(tensmith("inspect", path, "--json").stdout)["memory"]
    text = tensmith("inspect", path).stdout
    counts = [memory[key] for key in ("allocations", "tensors", "operators")]
    assert "allocations: {} for {} tensors of {} operators: ".format(*counts) in text
    return counts


def test_allocations_of_dynamic_models_are_planned(tmp_path):
    """At least 40 % fewer than one for each tensor."""
    layers = [part for i in range(6) for part in (
        helper.make_node("MatMul", [f"x{i}", "w"], [f"p{i}"]), helper.make_node("Softmax", [f"p{i}"], [f"x{i + 1}"]))]
    w = numpy_helper.from_array(numpy.eye(8, dtype=numpy.float32), "w")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length", 8]) for name in ("x0", "x6")]
    graph = helper.make_graph(layers, "dynamic", ports[:1], ports[1:], [w])
    path = tmp_path / "dynamic.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    allocations, tensors, _ = allocations_of(path)
    assert tensors >= 6 and allocations <= 0.6 * tensors

    cell = """
fn gate(gates, k: i64[]) = gather((reshape(gates) : f32[4, 8]), (reshape(k) : i64[1]), axis = 0)
fn step(state, x) = {
  let (h, c) = state;
  let gates = concat(x, h, axis = 1) @ (broadcast(0.1) : f32[16, 32]);
  let next = sigmoid(gate(gates, 1)) * c + sigmoid(gate(gates, 0)) * tanh(gate(gates, 2));
  (sigmoid(gate(gates, 3)) * tanh(next), next)
}
"""
    tree = """
fn join(a, b) = { let (h, c) = a; step((h, c), { let (x, _) = b; x }) }
fn encode(tree, zero) = match tree {
  Leaf(x) => step((zero, zero), x), Node(l, r) => join(encode(l, zero), encode(r, zero)) }
"""
    for name, text in {
        "lstm": cell + "fn main(h: f32[1, 8], xs: List[f32[1, 8]]) = fold(step, (h, h), xs)\n",
        "sum": "fn sum(g, xs) = match xs { Nil => g, Cons(x, rest) => sigmoid(g) * x + sum(g, rest) }\n"
               "fn main(g: f32[1, 8], xs: List[f32[1, 8]]) = sum(g, xs)\n",
        "tree": cell + tree + "fn main(h: f32[1, 8], tree: Tree[f32[1, 8]]) = encode(tree, h)\n",
    }.items():
        path = tmp_path / f"{name}.tsm"
        path.write_text(text)
        allocations, tensors, operators = allocations_of(path)
        assert allocations <= 0.6 * tensors <= 0.6 * operators, name


def test_profile_of_a_program_and_of_a_graph(tmp_path, model):
    path = tmp_path / "sum.tsm"
    path.write_text("fn count(n) = if n <= 0 { [] } else { Cons(n, count(n - 1)) }\n"
                    "fn main(n: i64[], x: f32[4, 4]) = fold(fn(sum, k) => tanh(sum @ x), x, count(n))\n")
    numpy.save(tmp_path / "n.npy", numpy.int64(1))
    inputs = ["--input", f"n={tmp_path / 'n.npy'}", "--input", "x=4x4xf32=random"]
    report = json.loads(tensmith("run", path, *inputs, "--profile", "--json").stdout)["profile"]
    kinds = {kind["label"]: kind for kind in report["kinds"]}
    assert kinds["Switch"]["count"] == 2 and kinds["Invoke"]["count"] == 1 and kinds["Construct"]["count"] >= 2
    assert abs(sum(kind["share"] for kind in report["kinds"]) - 1) < 1e-6
    assert abs(sum(place["seconds"] for place in report["places"]) - report["seconds"]) < 1e-9
    assert {kernel["count"] for kernel in report["kernels"]} == {1}
    assert sum(kernel["seconds"] for kernel in report["kernels"]) < kinds["Invoke"]["seconds"]
    assert any(place["procedure"].startswith("count") and "1:15 if" in place["location"] for place in report["places"])
    text = tensmith("run", path, *inputs, "--profile").stdout
    assert "Invoke, with its kernels" in text and "places:" in text and "result: f32 4x4" in text

    report = json.loads(tensmith("run", model, "--input", "x=9x3xf32=random", "--profile", "--json").stdout)["profile"]
    assert report["kinds"][0]["label"] == "kernel" and report["places"] == [] and report["kernels"]
    assert "--profile measures compiled code" in refused(
        "run", model, "--input", "x=9x3xf32=random", "--profile", "--reference", status=2)


def test_compare_with_reference(model):
    assert "agrees" in tensmith("compare", model, "--reference", "--input", "x=9x3xf32=random").stdout


def chain(path, change):
    """y = tanh(relu(x w0) w1) w2, with `change` added to a column of w1."""
    weights = [numpy.random.default_rng(seed).standard_normal((8, 8)).astype(numpy.float32) for seed in range(3)]
    weights[1][:, 3] += change
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["product"], "first"),
        helper.make_node("Relu", ["product"], ["rectified"]),
        helper.make_node("MatMul", ["rectified", "w1"], ["changed"], "second"),
        helper.make_node("Tanh", ["changed"], ["bounded"]),
        helper.make_node("MatMul", ["bounded", "w2"], ["y"], "third"),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in "xy"]
    initializers = [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_compare_names_the_first_tensor_that_differs(tmp_path):
    """With another weight, the reference's tensors differ from the one that the weight goes into on."""
    a, b = chain(tmp_path / "a.onnx", 0), chain(tmp_path / "b.onnx", 1)
    x = ["--input", "x=5x8xf32=random"]
    same = json.loads(tensmith("compare", a, "--reference", "--json", *x).stdout)
    assert same["agrees"] and same["first_difference"] is None
    assert [tensor["name"] for tensor in same["intermediates"]] == ["product", "rectified", "changed", "bounded", "y"]
    result = json.loads(tensmith("compare", a, b, "--reference", "--json", *x, status=1).stdout)
    first = result["first_difference"]
    assert (first["name"], first["agree_before"]) == ("changed", 2)
    assert "second" in first["source"] and "number 3 of" in first["source"]
    assert first["largest_difference"] > first["allowed"] and first["index"].endswith(", 3]")
    assert [tensor["agrees"] for tensor in result["intermediates"]] == [True, True, False, False, False]
    text = tensmith("compare", a, b, "--reference", *x, status=1).stdout
    assert "the first tensor that differs is changed" in text and "2 compared before it agree" in text


@pytest.mark.parametrize("kind", ["model", "module"])
def test_compare_walks_two_programs(tmp_path, kind):
    """Without a reference: what both compute on the way is compared by the node that computes it."""
    paths = [chain(tmp_path / "a.onnx", 0), chain(tmp_path / "b.onnx", 1)]
    if kind == "module":
        for path in paths:
            tensmith("compile", path, "-o", path.with_suffix(".so"), "-O0")
        paths = [path.with_suffix(".so") for path in paths]
    x = ["--input", "x=5x8xf32=random"]
    same = json.loads(tensmith("compare", paths[0], paths[0], "--json", *x).stdout)
    assert same["agrees"] and len(same["intermediates"]) == 5
    first = json.loads(tensmith("compare", *paths, "--json", *x, status=1).stdout)["first_difference"]
    assert first["name"] == "node 'second (MatMul)'" and first["agree_before"] == 2


def in_a_loop(path, step):
    """y = x after four times x * `step` + 1, in a Loop."""
    ports = [helper.make_tensor_value_info(*port) for port in
             [("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("v", TensorProto.FLOAT, [3])]]
    body = helper.make_graph(
        [helper.make_node("Mul", ["v", "step"], ["scaled"], "scale"), helper.make_node("Add", ["scaled", "one"], ["next"], "add"),
         helper.make_node("Identity", ["c"], ["goes_on"])],
        "body", ports, [helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
                        helper.make_tensor_value_info("next", TensorProto.FLOAT, [3])])
    initializers = [numpy_helper.from_array(numpy.array(value), name) for value, name in
                    [(numpy.int64(4), "trips"), (numpy.float32(step), "step"), (numpy.float32(1), "one")]]
    graph = helper.make_graph(
        [helper.make_node("Loop", ["trips", "", "x"], ["y"], "again", body=body)], "loop",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_compare_reaches_into_a_loop(tmp_path):
    """Each iteration is a time of its own; the first that differs is the second, as the first starts from zeros."""
    a, b = in_a_loop(tmp_path / "a.onnx", 2), in_a_loop(tmp_path / "b.onnx", 3)
    first = json.loads(tensmith("compare", a, b, "--json", "--input", "x=zeros", status=1).stdout)["first_difference"]
    assert "again/" in first["name"] and "time 2 of 4" in first["source"]


def test_check_nan_stops_at_the_node(tmp_path):
    """log(relu(x) - 1) is NaN from the logarithm on, and what comes after only hands it on."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "rectify"), helper.make_node("Sub", ["a", "one"], ["b"], "shift"),
        helper.make_node("Log", ["b"], ["c"], "logarithm"), helper.make_node("Add", ["c", "one"], ["y"], "last"),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(nodes, "nan", ports[:1], ports[1:], [numpy_helper.from_array(numpy.float32(1), "one")])
    path = tmp_path / "nan.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    numpy.save(tmp_path / "x.npy", numpy.array([3, 3, 0, 3], numpy.float32))
    said = refused("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--check-nan", "-O0")
    assert "node 'logarithm (Log)': the result" in said and "NaN at [2], the first of 1 " in said
    assert "logarithm" in refused("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--check-nan")
    tensmith("run", path, "--input", "x=4xf32=ones")


def test_check_nan_takes_what_is_given(tmp_path, model):
    """A NaN of the input's is nobody's fault."""
    numpy.save(tmp_path / "x.npy", numpy.full((1, 3), numpy.nan, numpy.float32))
    tensmith("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--check-nan")


@pytest.mark.parametrize("way", ["option", "environment"])
def test_check_bounds(tmp_path, monkeypatch, way):
    """Breaks where kernels don't state where their operands end: nothing is checked then."""
    if way == "environment":
        monkeypatch.setenv("TENSMITH_CHECK_BOUNDS", "1")
    words = ["--check-bounds"] if way == "option" else []
    tensmith("compile", chain(tmp_path / "a.onnx", 0), "-o", tmp_path / "m.so", "--dump-ir", tmp_path / "ir", *words)
    assert "tensmith_kernel.extent" in (tmp_path / "ir/kernel-000.mlir").read_text()


def test_verify_each_pass(tmp_path):
    tensmith("compile", chain(tmp_path / "a.onnx", 0), "-o", tmp_path / "m.so", "--verify-each-pass")


def test_keep_makes_a_tensor_an_output(tmp_path):
    model = chain(tmp_path / "a.onnx", 0)
    tensmith("compile", model, "-o", tmp_path / "m.so", "--keep", "rectified", "--keep", "y")
    assert "rectified: f32 batchx8" in tensmith("inspect", tmp_path / "m.so").stdout
    tensmith("run", model, "--keep", "*", "--input", "x=2x8xf32=ones", "--output", tmp_path / "out")
    assert sorted(file.stem for file in (tmp_path / "out").iterdir()) == ["bounded", "changed", "product", "rectified", "y"]
    assert "no tensor of the main graph" in refused("run", model, "--keep", "rectifyed", "--input", "x=1x8xf32=ones")


def test_compare_with_a_file(tmp_path, module, weights, x):
    expected = numpy.maximum(x @ weights, 0)
    arguments = ["compare", module, tmp_path / "y.npz", "--input", f"x={tmp_path}/x.npy", "--json"]
    numpy.savez(tmp_path / "y.npz", y=expected)
    assert json.loads(tensmith(*arguments).stdout)["agrees"]
    expected[1, 2] += 1
    numpy.savez(tmp_path / "y.npz", y=expected)
    result = json.loads(tensmith(*arguments, status=1).stdout)
    assert result["first_difference"]["name"] == "y" and "[1, 2]" in result["tensors"][0]["reason"]


def test_compare_takes_nan_for_a_difference(tmp_path, module, weights, x):
    expected = numpy.maximum(x @ weights, 0)
    expected[0, 0] = numpy.nan
    numpy.save(tmp_path / "y.npy", expected)
    assert "differs" in tensmith("compare", module, tmp_path / "y.npy", "--input", f"x={tmp_path}/x.npy", status=1).stdout


@pytest.mark.parametrize("chosen", [True, False])
def test_branch_may_give_an_absent_value(tmp_path, chosen):
    """ONNX's test_if_opt: one branch gives an empty optional, the other a sequence."""
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    optional = helper.make_optional_type_proto(sequence)
    values = [numpy_helper.from_array(numpy.float32([1, 2]), "value")]
    absent = [helper.make_node("Optional", [], ["absent"], type=sequence)]
    given = [helper.make_node("SequenceConstruct", ["value"], ["s"]), helper.make_node("Optional", ["s"], ["given"])]
    branch = lambda nodes, name, constants=(): helper.make_graph(nodes, name, [], [helper.make_value_info(name, optional)], list(constants))
    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch(absent, "absent"), else_branch=branch(given, "given", values)
    )
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph([node], "g", [condition], [helper.make_value_info("y", optional)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    numpy.save(tmp_path / "c.npy", numpy.array(chosen))
    text = tensmith("run", tmp_path / "m.onnx", "--input", f"c={tmp_path}/c.npy").stdout
    assert ("none" if chosen else "sequence of 1") in text


# Breaks if the machine is measured at every call, or limits that were damaged are believed.
def test_machine_is_measured_once(own_cache):
    once = json.loads(tensmith("machine", "--json", env=own_cache).stdout)["limits"]
    assert json.loads(tensmith("machine", "--json", env=own_cache).stdout)["limits"] == once
    names = [limit["name"] for limit in once["memory"]]
    assert names[0] == "L1" and names[-1] == "memory"
    text = tensmith("machine", env=own_cache).stdout
    assert "f32" in text and "memory" in text and once["identity"] in text
    [kept] = pathlib.Path(own_cache["TENSMITH_CACHE"]).glob("machines/*.json")
    kept.write_text(kept.read_text()[:200])
    again = json.loads(tensmith("machine", "--json", env=own_cache).stdout)["limits"]
    assert again["identity"] == json.loads(kept.read_text())["identity"]


# Breaks if estimates of cost don't count with what was measured, or a module doesn't say that they did.
def test_a_machine_with_slow_memory_is_compiled_for_otherwise(tmp_path, own_cache):
    w = numpy_helper.from_array(numpy.ones((128, 128, 3, 3), numpy.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    path = one_node(tmp_path / "c.onnx", node, {"x": [1, 128, 56, 56]}, [1, 128, 56, 56], [w])

    def compiled(environment):
        module = json.loads(tensmith("inspect", path, "--json", env=environment).stdout)["module"]
        return any("winograd" in kernel["schedule"] for kernel in module["kernels"]), module["metadata"]["machine_limits"]

    (tmp_path / "cache").mkdir()
    assert compiled({**own_cache, "TENSMITH_CACHE": str(tmp_path / "cache")}) == (True, "defaults")
    ordinary = compiled(machine_with(own_cache, tmp_path / "cache", ORDINARY))
    slow = {name: rate if name == "arithmetic" else 1e-3 * rate for name, rate in ORDINARY.items()}
    winograd, identity = compiled(machine_with(own_cache, tmp_path / "cache", slow))
    assert not winograd
    assert identity not in ("defaults", ordinary[1]) and ordinary[0]


# Breaks if `measured` believes an estimate whose rival was nearly as good, or what it finds can't be asked for.
def test_a_wrong_estimate_is_put_right_by_measuring(tmp_path, own_cache, without_libraries):
    w = numpy.random.default_rng(5).standard_normal((128, 128, 3, 3)).astype(numpy.float32) / 34
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    path = one_node(tmp_path / "c.onnx", node, {"x": [1, 128, 28, 28]}, [1, 128, 28, 28], [numpy_helper.from_array(w, "w")])

    def chosen(slower, *options):
        """With caches and memory that are said to be so much slower than ordinary ones."""
        rates = {name: rate if name == "arithmetic" else rate / slower for name, rate in ORDINARY.items()}
        environment = machine_with(own_cache, tmp_path / "cache", rates)
        done = without_libraries("compile", path, "-o", tmp_path / "m.so", *options, env=environment)
        assert done.returncode == 0, done.stderr
        text = tensmith("inspect", tmp_path / "m.so", "--chosen-schedules", env=environment).stdout
        (tmp_path / "chosen.json").write_text(text)
        return next(entry for entry in json.loads(text)["schedules"] if entry["kernel"].startswith("conv "))

    # Where the plain convolution is just estimated to be the faster one.
    low, high = 1.0, 1000.0
    assert chosen(low)["winograd_outputs"] > 0 and chosen(high)["winograd_outputs"] == 0
    while high > 1.1 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if chosen(middle)["winograd_outputs"] == 0 else (middle, high)
    wrong, measured = chosen(high), chosen(high, "--libraries", "measured")
    assert "measured" not in wrong and wrong["winograd_outputs"] == 0
    seconds = {entry["value"]: entry["seconds"] for entry in measured["measured"] if entry["choice"] == "winograd_outputs"}
    assert 0 in seconds and len(seconds) > 1
    assert measured["winograd_outputs"] == min(seconds, key=seconds.get)
    again = chosen(high, "--schedules", tmp_path / "chosen.json")
    assert again["winograd_outputs"] == measured["winograd_outputs"] and "measured" not in again


def test_machine(own_cache):
    machine = json.loads(tensmith("machine", "--json", env=own_cache).stdout)
    assert machine["cpu"] and machine["threads"] == len(os.sched_getaffinity(0))
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    if "flags" in flags:  # x86: each feature is an instruction set that the kernel lists, none a hint such as "fast-gather"
        assert "sse2" in machine["features"]
        assert not [feature for feature in machine["features"] if feature.startswith(("fast-", "slow-", "tuning", "idiv"))]


def test_dump_ir(tmp_path, model):
    tensmith("compile", model, "-o", tmp_path / "m.so", "--dump-ir", tmp_path / "ir", "--no-cache")
    assert len(list((tmp_path / "ir").iterdir())) > 1
    refused("compile", model, "-o", tmp_path / "m.so", "--dump-ir", "/proc/nothing/ir")


def test_an_unusable_cache_is_warned_of(tmp_path, model):
    done = tensmith("compile", model, "-o", tmp_path / "m.so", "--cache", "/proc/nothing")
    assert "warning: the cache in '/proc/nothing' is not used" in done.stderr


# What has no code is evaluated by reference, which is right and slow.
@pytest.mark.parametrize("name", ["mobilenet_v2", "lstm_lm"])
def test_every_kernel_of_the_benchmarks_has_code(name):
    sys.path.insert(0, str(ROOT / "bench"))
    import weights as fill

    module = json.loads(tensmith("inspect", fill.filled(ROOT / "bench/models" / f"{name}.onnx"), "--json").stdout)["module"]
    assert module["metadata"]["unemitted_kernels"] == []
    assert all(kernel["schedule"] for kernel in module["kernels"])


def test_shape_fixes_a_symbol(tmp_path, model):
    tensmith("compile", model, "--shape", "batch=6", "-o", tmp_path / "m.so")
    assert "x: f32 6x3" in tensmith("inspect", tmp_path / "m.so").stdout
    assert "neither an input nor a symbol" in refused("compile", model, "--shape", "btach=6", "-o", tmp_path / "n.so")


def test_maps(tmp_path):
    """A map's keys and values are saved as the elements of a sequence are; one that is an input can't be made up."""
    kinds = {"y": helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None)))}
    nodes = [helper.make_node("ZipMap", ["x"], ["y"], "zip", domain="ai.onnx.ml", classlabels_int64s=[5, 4])]
    graph = helper.make_graph(nodes, "maps", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
                              [helper.make_value_info(name, kind) for name, kind in kinds.items()])  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    path = tmp_path / "zip.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    done = tensmith("run", path, "--input", "x=3x2xf32=range", "--output", tmp_path / "out")
    assert "sequence of 3" in done.stdout
    assert numpy.load(tmp_path / "out/y.2.0.npy").tolist() == [4, 5] and numpy.load(tmp_path / "out/y.2.1.npy").tolist() == [5.0, 4.0]
    assert "agree" in tensmith("compare", path, "--reference", "--input", "x=3x2xf32=range").stdout
    graph.node[0].CopyFrom(helper.make_node("DictVectorizer", ["x"], ["y"], "vector", domain="ai.onnx.ml", int64_vocabulary=[5, 4]))
    graph.input[0].CopyFrom(helper.make_value_info("x", kinds["y"].sequence_type.elem_type))
    graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    assert "map to f32" in refused("run", path, status=2)
