"""Modules for devices with memory that the host can't touch: the same results, and exactly the copies that are needed.

On devices "separate" whatever reads or writes memory of another side without a copy ends the process, or is an error. Their streams
are late by chance here, so that what isn't waited for gives wrong results.
"""

import os
import pathlib
import subprocess
import sys

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")
tensmith = pytest.importorskip("tensmith")

ROOT = pathlib.Path(__file__).resolve().parents[2]
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
port, node = helper.make_tensor_value_info, helper.make_node


def integers(name, *values):
    return numpy_helper.from_array(numpy.array(values, dtype=numpy.int64), name)


def floats(name, *shape):
    return numpy_helper.from_array(numpy.random.default_rng(3).standard_normal(shape, dtype=numpy.float32) / 4, name)


def model(inputs, outputs, nodes, *initializers):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def body(nodes, inputs, outputs, *initializers):
    return helper.make_graph(nodes, "body", inputs, outputs, list(initializers))


def random(*shape):
    return numpy.random.default_rng(1).standard_normal(shape, dtype=numpy.float32)


def same(data, *runs, counted=None, **settings):
    """As the host computes it, in one session; and as many copies to the device and to the host in the first run."""
    host = tensmith.compile(data, threads=1, **settings)
    device = tensmith.compile(data, threads=1, device="separate", **settings)
    several = tensmith.compile(data, threads=1, device="separate:0,separate:1,separate:2", **settings)
    assert set(host.copies.values()) == {0} and set(device.copies.values()) == {0}
    for number, feeds in enumerate(runs):
        for expected, *got in zip(host.run(**feeds), device.run(**feeds), several.run(**feeds), strict=True):
            for one in got:
                numpy.testing.assert_array_equal(one, expected)
        if number == 0 and counted:
            assert (device.copies["to_device"], device.copies["to_host"]) == counted
    return device


def test_a_straight_line_copies_inputs_and_outputs():
    data = model(
        [port("x", F32, ["n", 16])], [port("y", F32, ["n", 8]), port("z", F32, ["n"])],
        [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["b"]), node("MatMul", ["b", "v"], ["y"]),
         node("ReduceSum", ["y", "axes"], ["z"], keepdims=0)],
        floats("w", 16, 32), floats("v", 32, 8), integers("axes", 1))  # fmt: skip
    device = same(data, {"x": random(3, 16)}, {"x": random(70, 16)}, counted=(1, 2))
    assert device.copies["bytes_to_device"] == 4 * 16 * 73 and device.copies["bytes_to_host"] == 4 * 9 * 73


# Shape, Gather, arithmetic, Concat, Reshape as exporters write them.
def test_shape_arithmetic_stays_on_the_host():
    data = model(
        [port("x", F32, ["b", "s", 24])], [port("y", F32, None)],
        [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["b"]), node("Gather", ["shape", "one"], ["s"]),
         node("Mul", ["b", "s"], ["bs"]), node("Concat", ["bs", "four", "rest"], ["to"], axis=0),
         node("Exp", ["x"], ["e"]), node("Reshape", ["e", "to"], ["r"]), node("Transpose", ["r"], ["t"], perm=[1, 0, 2]),
         node("Softmax", ["t"], ["y"])],
        integers("zero", 0), integers("one", 1), integers("four", 4), integers("rest", -1))  # fmt: skip
    same(data, {"x": random(2, 3, 24)}, {"x": random(1, 7, 24)}, counted=(1, 1))


def heads(x, y, prefix):
    """[batch, length, 32] to [batch, 4, length, 8], as exporters of dynamic models write it."""
    p = prefix + y
    return [
        node("Shape", [x], [p + "s"]), node("Gather", [p + "s", "zero"], [p + "b"]), node("Gather", [p + "s", "one"], [p + "l"]),
        node("Unsqueeze", [p + "b", "axis"], [p + "bu"]), node("Unsqueeze", [p + "l", "axis"], [p + "lu"]),
        node("Concat", [p + "bu", p + "lu", "four", "rest"], [p + "to"], axis=0), node("Reshape", [x, p + "to"], [p + "r"]),
        node("Transpose", [p + "r"], [y], perm=[0, 2, 1, 3]),
    ]  # fmt: skip


# An encoder's layer: what goes there are ids and mask, what comes back is the result.
def test_an_encoder_of_dynamic_shape_copies_inputs_and_outputs_alone():
    scalar = lambda name, value: numpy_helper.from_array(numpy.array(value), name)
    nodes = [node("Gather", ["words", "ids"], ["x"])]
    for name in "qkv":
        nodes += [node("MatMul", ["x", "w" + name], ["d" + name]), node("Add", ["d" + name, "b" + name], ["e" + name]), *heads("e" + name, name, "h")]
    nodes += [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], ["s"]), node("Div", ["s", "root"], ["sd"]),
        node("Unsqueeze", ["mask", "middle"], ["m"]), node("Cast", ["m"], ["mf"], to=F32), node("Sub", ["unit", "mf"], ["mi"]),
        node("Mul", ["mi", "low"], ["mm"]), node("Add", ["sd", "mm"], ["sm"]), node("Softmax", ["sm"], ["p"]), node("MatMul", ["p", "v"], ["c"]),
        node("Transpose", ["c"], ["ct"], perm=[0, 2, 1, 3]),
        node("Shape", ["ct"], ["cs"]), node("Gather", ["cs", "zero"], ["cb"]), node("Gather", ["cs", "one"], ["cl"]),
        node("Unsqueeze", ["cb", "axis"], ["cbu"]), node("Unsqueeze", ["cl", "axis"], ["clu"]),
        node("Concat", ["cbu", "clu", "rest"], ["to"], axis=0), node("Reshape", ["ct", "to"], ["cr"]),
        node("Add", ["cr", "x"], ["sum"]), node("LayerNormalization", ["sum", "scale", "shift"], ["y"]),
    ]  # fmt: skip
    data = model(
        [port("ids", I64, ["batch", "length"]), port("mask", I64, ["batch", "length"])], [port("y", F32, None)], nodes,
        floats("words", 50, 32), *(floats("w" + n, 32, 32) for n in "qkv"), *(floats("b" + n, 32) for n in "qkv"), floats("scale", 32), floats("shift", 32),
        integers("axis", 0), integers("four", 4), integers("rest", -1), integers("middle", 1, 2), scalar("zero", 0), scalar("one", 1),
        scalar("root", numpy.float32(8**0.5)), scalar("unit", numpy.float32(1)), scalar("low", numpy.float32(-10000)))  # fmt: skip
    rng = numpy.random.default_rng(2)
    runs = [{"ids": rng.integers(0, 50, s), "mask": rng.integers(0, 2, s)} for s in [(2, 7), (1, 1), (3, 12)]]
    device = same(data, *runs, counted=(2, 1))
    count = sum(feeds["ids"].size for feeds in runs)
    assert device.copies == {"to_device": 6, "to_host": 3, "bytes_to_device": 16 * count, "bytes_to_host": 128 * count}


# The shape comes from outside, and so is arithmetic of small integers that the run does.
def test_a_shape_that_is_computed_of_an_input_costs_no_copy():
    data = model(
        [port("x", F32, ["n", "m"]), port("k", I64, [1])], [port("y", F32, None), port("shape", I64, [2])],
        [node("Add", ["k", "k"], ["twice"]), node("Mul", ["twice", "half"], ["rows"]), node("Concat", ["rows", "rest"], ["to"], axis=0),
         node("Tanh", ["x"], ["t"]), node("Reshape", ["t", "to"], ["r"]), node("Exp", ["r"], ["y"]), node("Shape", ["r"], ["shape"])],
        integers("half", 1), integers("rest", -1))  # fmt: skip
    same(data, {"x": random(4, 6), "k": numpy.array([3])}, {"x": random(2, 2), "k": numpy.array([1])}, counted=(1, 1))


def test_results_that_data_decides():
    data = model(
        [port("x", F32, ["n", "m"])], [port("y", F32, [None]), port("count", I64, [1])],
        [node("Relu", ["x"], ["p"]), node("NonZero", ["p"], ["i"]), node("Transpose", ["i"], ["t"], perm=[1, 0]),
         node("GatherND", ["p", "t"], ["g"]), node("Exp", ["g"], ["y"]), node("Shape", ["g"], ["count"])])  # fmt: skip
    # x and the indices go there, what is searched and the result come back.
    same(data, {"x": random(5, 7)}, {"x": -numpy.abs(random(3, 3))}, {"x": numpy.abs(random(3, 3))}, counted=(2, 2))


def loop(condition):
    nodes = [node("MatMul", ["h", "w"], ["m"]), node("Tanh", ["m"], ["h_out"]), node("ReduceSum", ["h_out"], ["sum"], keepdims=0)]
    nodes += [node("Less", ["sum", "limit"], ["go_out"])] if condition else [node("Identity", ["go"], ["go_out"])]
    nodes += [node("Add", ["h_out", "one"], ["row"])]
    return body(
        nodes, [port("i", I64, []), port("go", BOOL, []), port("h", F32, ["n", 8])],
        [port("go_out", BOOL, []), port("h_out", F32, ["n", 8]), port("row", F32, ["n", 8])])  # fmt: skip


@pytest.mark.parametrize("condition", [False, True])
def test_loops(condition):
    data = model(
        [port("x", F32, ["n", 8]), port("trips", I64, []), port("limit", F32, [])],
        [port("y", F32, ["n", 8]), port("rows", F32, None)],
        [node("Loop", ["trips", "", "x"], ["y", "rows"], body=loop(condition))],
        floats("w", 8, 8), numpy_helper.from_array(numpy.float32(1), "one"))  # fmt: skip
    runs = [{"x": random(3, 8), "trips": numpy.array(t), "limit": numpy.float32(limit)}
            for t, limit in [(5, 100), (0, 1), (9, 0.5), (1, -100)]]  # fmt: skip
    same(data, *runs)


# What the loop's body reads of outside is copied once, and not by every iteration.
def test_what_a_loop_captures_is_copied_once():
    data = model(
        [port("x", F32, ["n", 8]), port("bias", F32, ["n", 8]), port("trips", I64, [])], [port("y", F32, ["n", 8])],
        [node("Loop", ["trips", "", "x"], ["y"], body=body(
            [node("MatMul", ["h", "w"], ["m"]), node("Add", ["m", "bias"], ["h_out"]), node("Identity", ["go"], ["go_out"])],
            [port("i", I64, []), port("go", BOOL, []), port("h", F32, ["n", 8])],
            [port("go_out", BOOL, []), port("h_out", F32, ["n", 8])]))],
        floats("w", 8, 8))  # fmt: skip
    feeds = {"x": random(3, 8), "bias": random(3, 8), "trips": numpy.array(50)}
    same(data, feeds, counted=(2, 1))


def test_branches_that_a_kernel_decides():
    def branch(name, *nodes):
        return body(list(nodes), [], [port(name, F32, None)])

    data = model(
        [port("x", F32, ["n", 8]), port("b", F32, ["n", 8])], [port("y", F32, None), port("i", I64, None)],
        [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["positive"]),
         node("MatMul", ["x", "w"], ["a"]),
         node("If", ["positive"], ["c"], then_branch=branch("t", node("MatMul", ["a", "w"], ["u"]), node("Add", ["u", "b"], ["t"])),
              else_branch=branch("e", node("NonZero", ["a"], ["nz"]), node("Cast", ["nz"], ["f"], to=F32), node("Mul", ["f", "two"], ["e"]))),
         node("Exp", ["c"], ["y"]), node("NonZero", ["b"], ["i"])],
        floats("w", 8, 8), numpy_helper.from_array(numpy.float32(0), "zero"), numpy_helper.from_array(numpy.float32(2), "two"))  # fmt: skip
    x = numpy.abs(random(3, 8))
    same(data, {"x": x, "b": random(3, 8)}, {"x": -x, "b": random(3, 8)}, fuse=False)
    same(data, {"x": x, "b": random(3, 8)}, {"x": -x, "b": random(3, 8)})


def test_sequences_are_the_hosts():
    data = model(
        [port("x", F32, ["n", 4])], [port("y", F32, None)],
        [node("Relu", ["x"], ["r"]), node("SplitToSequence", ["r", "one"], ["s"], axis=0), node("ConcatFromSequence", ["s"], ["c"], axis=0),
         node("Exp", ["c"], ["y"])], numpy_helper.from_array(numpy.array(1), "one"))  # fmt: skip
    same(data, {"x": random(5, 4)})


@pytest.mark.parametrize("settings", [{"fuse": False}, {"reference": True}])
def test_any_way_of_compiling(settings):
    data = model(
        [port("x", F32, ["n", 16])], [port("y", F32, ["n", 32])],
        [node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["b"]), node("LayerNormalization", ["b", "g"], ["y"])],
        floats("w", 16, 32), floats("g", 32))  # fmt: skip
    same(data, {"x": random(3, 16)}, **settings)


PROGRAM = """
type Shape = Circle(f32[]) | Group(List[Shape]) | Row(f32[8])
let w = load("w.npy")
fn area(s) = match s { Circle(r) => 3.0 * r * r, Group(shapes) => fold(fn(sum, one) => sum + area(one), 0.0, shapes),
                       Row(v) => reduce_sum(v, axes = [0], keepdims = false) }
fn step(x) = tanh(x @ w)
fn encode(t) = match t { Leaf(x) => step(x), Node(l, r) => step(encode(l) * 0.5 + encode(r)) }
fn settle(x, k) = if k <= 0 { (x, k) } else { let y = step(x); if reduce_max(y, axes = [0, 1], keepdims = false) < 0.1 { (y, k) } else { settle(y, k - 1) } }
fn scaled(by) = fn(x) => x * by
fn build(k, x) = if k <= 0 { Leaf(x) } else { Node(build(k - 1, x * 0.5), build(k - 2, x + 0.1)) }
fn main(t: Tree[f32[1, 8]], xs: List[f32[1, 8]], k: i64[], s: Shape, by: f32[]) = {
  let sum = ref(by);
  let grown = build(k, fold(fn(a, x) => a + x, (broadcast(by) : f32[1, 8]), xs));
  sum := *sum + area(s);
  (encode(t), map(scaled(by), xs), settle(encode(grown), k), grown, Group([s, Circle(*sum)]), *sum, k + 1)
}
"""


def leaves(value):
    """All tensors of what a program gave, in order."""
    if isinstance(value, numpy.ndarray) or numpy.isscalar(value):
        return [numpy.asarray(value)]
    fields = value if isinstance(value, tuple) else value.fields
    return [leaf for field in fields for leaf in leaves(field)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("fuse", "devices"), [(True, "separate"), (False, "separate"), (True, "separate:0,separate:1")])
def test_programs_with_data_closures_references_and_recursion(tmp_path, threads, fuse, devices):
    numpy.save(tmp_path / "w.npy", random(8, 8))
    (tmp_path / "program.tsm").write_text(PROGRAM)
    host = tensmith.compile(tmp_path / "program.tsm", threads=threads, fuse=fuse)
    device = tensmith.compile(tmp_path / "program.tsm", threads=threads, fuse=fuse, device=devices)
    results = []
    for model in (host, device):
        make = model.constructors
        leaf = [make["Leaf"](random(1, 8) * i) for i in range(4)]
        tree = make["Node"](make["Node"](leaf[0], leaf[1]), make["Node"](leaf[2], leaf[3]))
        shape = make["Group"](model._value([make["Circle"](numpy.float32(2)), make["Row"](random(8).ravel())]))
        given = (tree, [random(1, 8)] * 3, numpy.int64(5), shape, numpy.float32(0.25))
        results.append([model(*given), model(*given)])
    for ours, theirs in zip(results[1], results[0], strict=True):
        for got, expected in zip(ours, theirs, strict=True):
            for a, b in zip(leaves(got), leaves(expected), strict=True):
                numpy.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    assert device.copies["to_device"] > 0 and device.copies["to_host"] > 0


# (That plans without a copy are refused is tested in compiler/vm/test/DevicePlacementTest.cpp.)
def test_the_host_that_reads_the_devices_memory_is_stopped(tmp_path):
    script = tmp_path / "touch.py"
    script.write_text(
        "import ctypes, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "library.tensmithDevice.restype = ctypes.c_void_p\n"
        "device = ctypes.c_void_p(library.tensmithDevice(0))\n"
        "table = ctypes.cast(device, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))).contents\n"
        "allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(table[2])\n"
        "memory = allocate(device, 64)\n"
        "print('allocated', flush=True)\n"
        "ctypes.string_at(memory, 1)\n"
        "print('read')\n"
    )
    library = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "lib/libtensmith_separate.so"
    done = subprocess.run([sys.executable, script, library], capture_output=True, text=True)
    assert done.stdout == "allocated\n" and done.returncode < 0


def test_a_device_that_is_not_there():
    data = model([port("x", F32, ["n"])], [port("y", F32, ["n"])], [node("Exp", ["x"], ["y"])])
    for name, said in [("none", "there is no device 'none'"), ("separate:x", "there is no device 'separate:x'"), ("separate,", "there is no device ''"),
                       ("separate:1,separate:1", "'separate:1' is named twice"), ("separate,separate:0", "'separate:0' is named twice")]:  # fmt: skip
        with pytest.raises(tensmith.Error, match=said):
            tensmith.compile(data, device=name)
    with pytest.raises(tensmith.Error, match="the device 'separate:99', which is not there"):
        tensmith.compile(data, device="separate:99").run(x=random(3))
