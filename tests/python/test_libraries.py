"""Libraries that do operators beside the generated kernels: the oracle is the reference evaluation of the same graph.

Each operator of each library, at sizes that are drawn and odd, with what can stand around it: transposed operands,
biases, addends and activations; gradients and a step of training; several threads. A library that is not built is
skipped, but for what is said where it is missing.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")
BUILD = pathlib.Path(tensmith.__file__).resolve().parents[2]
COMMAND = BUILD / "bin/tensmith"


def library(name):
    return BUILD / f"lib/libtensmith_{name}.so"


LIBRARIES = [pytest.param(name, marks=pytest.mark.skipif(not library(name).exists(), reason=f"built without {option}"))
             for name, option in [("onednn", "TENSMITH_ONEDNN (Debian: libdnnl-dev)"),
                                  ("openblas", "TENSMITH_OPENBLAS (Debian: libopenblas-dev)"),
                                  ("xsmm", "TENSMITH_XSMM (Debian: libxsmm-dev)")]]
ONEDNN = LIBRARIES[:1]


def model_of(nodes, inputs, constants=None):
    """ONNX's bytes; the last node's first result is the output."""
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
                              [onnx.ValueInfoProto(name=nodes[-1].output[0])],
                              [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def calls_of(model):
    return [kernel["schedule"] for kernel in model.describe()["kernels"] if ":tensmith_" in kernel["symbol"]]


def check(model, values, libraries, expected, threads=(1, 3), **settings):
    """The calls that are made, and their results."""
    wanted = tensmith.compile(model, reference=True, **settings)(*values)
    for count in threads:
        compiled = tensmith.compile(model, libraries=libraries, threads=count, cache_dir="", **settings)
        assert [call.split(", ")[0] for call in calls_of(compiled)] == [f"{libraries}: {name}" for name in expected]
        for got, right in zip(as_list(compiled(*values)), as_list(wanted), strict=True):
            scale = max(1.0, float(numpy.abs(right).max()) if right.size else 1.0)
            numpy.testing.assert_allclose(got / scale, right / scale, rtol=0, atol=4e-6)
    return calls_of(compiled)


def as_list(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def drawn(random, *shape):
    return random.standard_normal(shape).astype("float32")


SIDES = [1, 3, 17, 64, 130, 257]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", LIBRARIES)
def test_products(name, seed):
    """Breaks where a size, a stride or a transposition is given wrongly, or a part begins at the wrong place."""
    random = numpy.random.default_rng(seed)
    # Of what has a size of one, to be transposed is to be reshaped.
    rows, depth, columns = (int(random.choice(SIDES[seed % 4 > 0 :])) for _ in range(3))
    left, right = bool(seed & 1), bool(seed & 2)
    stack = [(), (), (5,), (2, 3)][seed % 4]
    varies = bool(stack) and seed % 3 > 0
    a = (depth, rows) if left else (rows, depth)
    b = (columns, depth) if right else (depth, columns)
    nodes = []
    for flag, operand, rank in [(left, "a", len(stack) + 2), (right, "b", 2 + varies * len(stack))]:
        turned = [*range(rank - 2), rank - 1, rank - 2]
        nodes += [helper.make_node("Transpose", [operand], [operand + "t"], perm=turned)] if flag else []
    nodes.append(helper.make_node("MatMul", ["at" if left else "a", "bt" if right else "b"], ["y"]))
    inputs = {"a": stack + a, "b": (stack if varies else ()) + b}
    text = ("transposed " if left else "") + "matmul" + (" by transposed" if right else "")
    check(model_of(nodes, inputs), [drawn(random, *shape) for shape in inputs.values()], name, [text])


@pytest.mark.skipif(not library("xsmm").exists(), reason="built without TENSMITH_XSMM (Debian: libxsmm-dev)")
def test_products_where_libxsmm_has_no_code(tmp_path):
    """Breaks where a machine that libxsmm doesn't compile for gets no result, or another one."""
    random = numpy.random.default_rng(5)
    a, b = drawn(random, 70, 300), drawn(random, 300, 90)
    tensmith.compile(model_of([helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": a.shape, "b": b.shape}), libraries="xsmm").save(tmp_path / "m.so")
    for name, value in (("a", a), ("b", b)):
        numpy.save(tmp_path / f"{name}.npy", value)
    given = [word for name in "ab" for word in ("--input", f"{name}={tmp_path / name}.npy")]
    subprocess.run([COMMAND, "run", tmp_path / "m.so", *given, "--output", tmp_path], check=True, capture_output=True,
                   env=os.environ | {"LIBXSMM_TARGET": "generic"})  # fmt: skip
    numpy.testing.assert_allclose(numpy.load(tmp_path / "y.npy"), a.astype("f8") @ b, rtol=0, atol=1e-4)


def activation(kind):
    if kind == "Gelu":
        return [helper.make_node("Div", ["p", "root"], ["g0"]), helper.make_node("Erf", ["g0"], ["g1"]),
                helper.make_node("Add", ["g1", "one"], ["g2"]), helper.make_node("Mul", ["p", "g2"], ["g3"]),
                helper.make_node("Mul", ["g3", "half"], ["y"])]  # fmt: skip
    return [helper.make_node(kind, ["p"], ["y"])]


NUMBERS = {name: numpy.array(value, "float32") for name, value in
           [("root", 2**0.5), ("one", 1), ("half", 0.5), ("rate", 0.25)]}  # fmt: skip


@pytest.mark.parametrize("kind", ["Relu", "Gelu", "Tanh", "Sigmoid"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ONEDNN)
def test_products_with_what_follows(name, seed, kind):
    """A bias, a residual and an activation are one call with the product."""
    random = numpy.random.default_rng(100 + seed)
    rows, depth, columns = (int(random.choice(SIDES[1:])) for _ in range(3))
    nodes = [helper.make_node("MatMul", ["a", "b"], ["m"]), helper.make_node("Add", ["m", "bias"], ["s"]),
             helper.make_node("Add", ["rest", "s"], ["p"]), *activation(kind)]  # fmt: skip
    inputs = {"a": (2, rows, depth), "b": (depth, columns), "bias": (columns,), "rest": (2, rows, columns)}
    values = [drawn(random, *shape) for shape in inputs.values()]
    values[0] /= numpy.float32(depth**0.5)  # so that sums are no larger than what is added to them
    (call,) = check(model_of(nodes, inputs, NUMBERS), values, name, ["matmul"])
    assert call == f"{name}: matmul, add_columns, add, {kind.lower()}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ONEDNN)
def test_a_product_is_scaled_before_it_is_added(name, seed):
    """The result is written over the addend, which oneDNN would begin with."""
    random = numpy.random.default_rng(250 + seed)
    rows, depth, columns = (int(random.choice(SIDES[1:])) for _ in range(3))
    nodes = [helper.make_node("MatMul", ["a", "b"], ["m"]), helper.make_node("Mul", ["m", "factors"], ["s"]),
             helper.make_node("Abs", ["c0"], ["c"]), helper.make_node("Add", ["s", "c"], ["y"])]  # fmt: skip
    inputs = {"a": (rows, depth), "b": (depth, columns), "factors": (columns,), "c0": (rows, columns)}
    (call,) = check(model_of(nodes + [helper.make_node("Exp", ["y"], ["z"])], inputs),
                    [drawn(random, *s) / numpy.float32(8) for s in inputs.values()], name, ["matmul"])  # fmt: skip
    assert call == f"{name}: matmul, scale_columns, add"


@pytest.mark.parametrize("first", ["c", "s"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LIBRARIES)
def test_a_product_adds_to_what_there_is(name, seed, first):
    """c - rate * a @ b, and rate * a @ b + c: what an update by gradients is."""
    random = numpy.random.default_rng(200 + seed)
    rows, depth, columns = (int(random.choice(SIDES)) for _ in range(3))
    kind, operands = ("Sub", ["c", "s"]) if first == "c" else ("Add", ["s", "c"])
    nodes = [helper.make_node("MatMul", ["a", "b"], ["m"]), helper.make_node("Mul", ["m", "rate"], ["s"]),
             helper.make_node("Abs", ["c0"], ["c"]), helper.make_node(kind, operands, ["y"])]  # fmt: skip
    inputs = {"a": (rows, depth), "b": (depth, columns), "c0": (rows, columns)}
    (call,) = check(model_of(nodes, inputs, NUMBERS), [drawn(random, *s) for s in inputs.values()], name, ["matmul"])
    # A row is one for each column just as well.
    assert call == f"{name}: matmul, scale, {'subtract_from' if first == 'c' else 'add'}"


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("name", ONEDNN)
def test_convolutions(name, seed):
    """Images of all sizes and parts of them, strides, dilations, lopsided padding and groups."""
    random = numpy.random.default_rng(300 + seed)
    group = int(random.choice([1, 1, 2, 3]))
    channels, out = group * int(random.integers(1, 20)), group * int(random.integers(1, 40))
    images = int(random.choice([1, 1, 2, 5]))
    kernel, strides, dilations = random.integers(1, 5, 2), random.integers(1, 4, 2), random.integers(1, 3, 2)
    pads = [int(pad) for pad in random.integers(0, 4, 4)]
    size = random.integers(9, 60, 2)
    nodes = [helper.make_node("Conv", ["x", "w", "b"][: 2 + seed % 2], ["c"], kernel_shape=kernel, strides=strides,
                              dilations=dilations, pads=pads, group=group)]  # fmt: skip
    if seed % 3:
        nodes += [helper.make_node("Relu", ["c"], ["y"])]
    weights = {"w": drawn(random, out, channels // group, *kernel) / channels}
    if seed % 2:
        weights["b"] = drawn(random, out)
    inputs = {"x": (images, channels, *map(int, size))}
    if seed % 4 == 3:  # of a step of training
        inputs |= {key: value.shape for key, value in weights.items()}
    constants = {} if seed % 4 == 3 else weights
    values = [drawn(random, *inputs["x"]), *(weights.values() if seed % 4 == 3 else [])]
    check(model_of(nodes, inputs, constants), values, name, ["conv"])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ONEDNN)
def test_convolutions_of_images_with_rows_that_nobody_reads(name, seed):
    """Breaks where the next image is looked for behind the last row that a window of this one reads."""
    random = numpy.random.default_rng(350 + seed)
    kernel, stride = int(random.integers(1, 4)), int(random.integers(2, 5))
    unread = int(random.integers(1, stride))
    height = kernel + stride * int(random.integers(3, 9)) + unread
    images, channels, out = (int(random.integers(low, high)) for low, high in [(2, 6), (1, 20), (1, 40)])
    if seed == 0:  # of ResNets
        images, channels, height, out, kernel, stride, unread = 2, 64, 56, 128, 1, 2, 1
    assert (height - kernel) % stride == unread
    inputs = {"x": (images, channels, height, int(random.integers(9, 40)))}
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride, stride])
    weights = {"w": drawn(random, out, channels, kernel, kernel) / (channels * kernel)}
    check(model_of([node], inputs, weights), [drawn(random, *inputs["x"])], name, ["conv"], threads=(1, 2))


STEPS = {"scale": ["Mul", "p", "rate"], "scale_columns": ["Mul", "p", "factors"], "add_columns": ["Add", "p", "bias"],
         "add": ["Add", "p", "c"], "subtract_from": ["Sub", "c", "p"], "subtract": ["Sub", "p", "c"],
         "relu": ["Relu"], "gelu": ["Gelu"], "tanh": ["Tanh"], "sigmoid": ["Sigmoid"]}  # fmt: skip


ORDERS = [("this",), ("scale", "this"), ("relu", "this"), ("this", "add"), ("this", "scale_columns", "this")]


def step_nodes(kind, number, operand, result):
    """The step's operators. An addend is computed for it alone, so that the result may have its memory."""
    operator, *operands = STEPS[kind]
    nodes = [helper.make_node("Sin", ["rest"], ["c"])] if "c" in operands else []
    nodes += [helper.make_node(operator, operands, ["y"])] if operands else activation(operator)
    own = {value: f"{value} of {number}" for node in nodes for value in node.output} | {"p": operand, "y": result}
    for node in nodes:
        for values in (node.input, node.output):
            values[:] = [own.get(value, value) for value in values]
    return nodes


@pytest.mark.parametrize("root", ["matmul", "conv", "conv with bias"])
@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("name", LIBRARIES)
def test_each_step_behind_each_operator(name, kind, root):
    """Alone, and with each of the others before and behind it: a library is told of no step that it then refuses."""
    if name != "onednn" and root.startswith("conv"):
        pytest.skip(f"{name} has no convolutions")
    random = numpy.random.default_rng(360 + list(STEPS).index(kind))
    if root == "matmul":
        inputs, columns = {"x": (3, 33, 40), "w": (3, 40, 19), "rest": (3, 33, 19)}, (19,)
        weights, roots = {}, [helper.make_node("MatMul", ["x", "w"], ["m"])]
    else:
        inputs, columns = {"x": (1, 16, 12, 16)}, (19, 1, 1)
        weights = {key: drawn(random, 19, 16, 3, 3) / 12 for key in ("w", "v")} | {"b": drawn(random, 19) / 8}
        # Some of oneDNN's loops begin a sum with the bias, and so round by its size. An addend has its channels last where
        # convolutions have made it.
        roots = [helper.make_node("Conv", ["x", "v"], ["rest"], pads=[1, 1, 1, 1]),
                 helper.make_node("Conv", ["x", "w", "b"][: 3 if root == "conv with bias" else 2], ["m"], pads=[1, 1, 1, 1])]  # fmt: skip
    constants = NUMBERS | weights | {key: drawn(random, *columns) for key in ("factors", "bias")}
    values = [drawn(random, *shape) / numpy.float32(6) for shape in inputs.values()]
    for steps in ORDERS:
        nodes, last = list(roots), "m"
        for number, step in enumerate(kind if step == "this" else step for step in steps):
            nodes += step_nodes(step, number, last, f"s{number}")
            last = f"s{number}"
        nodes.append(helper.make_node("Cos", [last], ["y"]))
        has_addend = root != "matmul" and {"add", "subtract_from", "subtract"} & {kind, *steps}
        calls = check(model_of(nodes, inputs, constants), values, name, [root.split()[0]] * (2 if has_addend else 1), threads=(2,))
        if name == "onednn" and steps == ("this",):
            assert calls[-1].split(", ")[-1] == kind


@pytest.mark.parametrize("name", ONEDNN)
def test_a_residual_layer_is_one_call(name):
    """Convolution, batch norm, residual and relu, on one image whose weights are more than the image is; the result is
    written over the residual, which nobody else needs any more."""
    random = numpy.random.default_rng(7)
    norm = {key: numpy.abs(drawn(random, 70)) for key in ("scale", "bias", "mean", "variance")}
    nodes = [helper.make_node("Conv", ["x", "v"], ["r"]), helper.make_node("Conv", ["r", "w"], ["h"], pads=[1, 1, 1, 1]),
             helper.make_node("Tanh", ["h"], ["t"]), helper.make_node("Conv", ["t", "w"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("BatchNormalization", ["c", *norm], ["n"]),
             helper.make_node("Add", ["n", "r"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]  # fmt: skip
    inputs = {"x": (1, 70, 9, 7)}
    weights = {"v": drawn(random, 70, 70, 1, 1) / 8, "w": drawn(random, 70, 70, 3, 3) / 70}
    calls = check(model_of(nodes, inputs, weights | norm), [drawn(random, 1, 70, 9, 7)], name, ["conv"] * 3)
    assert calls == [f"{name}: conv", f"{name}: conv, tanh", f"{name}: conv, scale_columns, add_columns, add, relu"]


@pytest.mark.parametrize("name", ONEDNN)
def test_no_part_is_done_by_slow_loops(name, tmp_path):
    """Breaks where a part of an image, or of a product, is given a layout that oneDNN has no code for but its reference's,
    a hundred times slower."""
    random = numpy.random.default_rng(8)
    nodes = [helper.make_node("Conv", ["x", "v"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("Conv", ["r", "w"], ["d"], pads=[1, 1, 1, 1], strides=[2, 2]), helper.make_node("Relu", ["d"], ["e"]),
             helper.make_node("Flatten", ["e"], ["f"]), helper.make_node("MatMul", ["f", "m"], ["y"])]  # fmt: skip
    weights = {"v": drawn(random, 512, 128, 1, 1), "w": drawn(random, 64, 512, 3, 3), "m": drawn(random, 64 * 14 * 14, 65)}
    path = tmp_path / "m.so"
    compiled = tensmith.compile(model_of(nodes, {"x": (1, 128, 28, 28)}, weights), libraries=name)
    assert len(calls_of(compiled)) == 3
    compiled.save(path)
    done = subprocess.run([COMMAND, "run", path, "--threads", "3"], capture_output=True, text=True, check=True,
                          env=os.environ | {"DNNL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"})  # fmt: skip
    made = [line for line in done.stdout.splitlines() if ",exec,cpu," in line]
    assert any(",convolution," in line for line in made) and any(",matmul," in line for line in made), done.stdout[:2000]
    assert not [line for line in made if ",ref" in line]


KEPT = """
import numpy, sys, tensmith
model = tensmith.load(sys.argv[1])
for _ in range(4):
    result = model(numpy.load(sys.argv[2]))
    print("end of a run", flush=True)
numpy.save(sys.argv[3], result)
"""


def layers_of_weights(seed):
    """A convolution and a product, both of which oneDNN lays out otherwise."""
    random = numpy.random.default_rng(seed)
    weights = {"w": drawn(random, 64, 32, 3, 3) / 17, "m": drawn(random, 64 * 36, 100) / 48}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("Flatten", ["r"], ["f"]), helper.make_node("MatMul", ["f", "m"], ["y"])]  # fmt: skip
    return model_of(nodes, {"x": (1, 32, 8, 8)}, weights)


@pytest.mark.parametrize("name", ONEDNN)
def test_constants_are_laid_out_once(name, tmp_path):
    """Breaks where each run brings weights into their layout, as it has to where they are inputs."""
    compiled = tensmith.compile(layers_of_weights(1), libraries=name, threads=1)
    compiled.save(tmp_path / "m.so")
    numpy.save(tmp_path / "x.npy", x := drawn(numpy.random.default_rng(2), 1, 32, 8, 8))
    done = subprocess.run([sys.executable, "-c", KEPT, tmp_path / "m.so", tmp_path / "x.npy", tmp_path / "y.npy"], capture_output=True, text=True,
                          check=True, env=os.environ | {"PYTHONPATH": str(BUILD / "python"), "DNNL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"})  # fmt: skip
    runs = [run.count(",exec,cpu,reorder,") for run in done.stdout.split("end of a run")]
    assert runs[0] > 0 and not any(runs[1:]), runs
    numpy.testing.assert_array_equal(numpy.load(tmp_path / "y.npy"), compiled(x))


ROWS = """
import numpy, sys, tensmith
model = tensmith.load(sys.argv[1], threads=3)
for rows in [*range(1, 40), 7, 600]:
    model(numpy.ones((rows, 64), "float32"))
"""


@pytest.mark.parametrize("name", ONEDNN)
def test_constants_are_laid_out_by_parts_that_do_not_hang_on_rows(name, tmp_path):
    """Breaks where each number of rows cuts the columns otherwise, and so keeps a copy of all weights."""
    columns = 1100
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ("rows", 64)}, {"w": drawn(numpy.random.default_rng(1), 64, columns)})
    compiled = tensmith.compile(model, libraries=name)
    compiled.save(tmp_path / "m.so")
    done = subprocess.run([sys.executable, "-c", ROWS, tmp_path / "m.so"], capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONPATH": str(BUILD / "python"), "DNNL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"})  # fmt: skip
    panels = -(-columns // 256)
    assert 0 < done.stdout.count(",exec,cpu,reorder,") <= 2 * panels + 2  # of many rows in another layout, and of the whole


@pytest.mark.parametrize("name", ONEDNN)
def test_layouts_go_with_their_module(name):
    """Breaks where the next module, whose weights lie where the last one's lay, is given what was laid out for that."""
    x = drawn(numpy.random.default_rng(3), 1, 32, 8, 8)
    for seed in range(6):
        model = layers_of_weights(10 + seed)
        given = tensmith.compile(model, libraries=name, threads=1, cache_dir="")(x)
        wanted = tensmith.compile(model, threads=1)(x)
        numpy.testing.assert_allclose(given, wanted, rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5, 17), (130, 257), (2, 1000)])
@pytest.mark.parametrize("kind", ["Softmax", "LayerNormalization", "LayerNormalization with bias"])
@pytest.mark.parametrize("name", ONEDNN)
def test_rows(name, kind, shape):
    random = numpy.random.default_rng(400)
    constants = {"s": drawn(random, shape[-1]), "b": drawn(random, shape[-1])}
    operator, _, biased = kind.partition(" ")
    operands = ["x"] if operator == "Softmax" else ["x", "s", "b"] if biased else ["x", "s"]
    nodes = [helper.make_node(operator, operands, ["y"], axis=-1)]
    constants = {key: value for key, value in constants.items() if key in operands}
    expected = "softmax" if operator == "Softmax" else "layer_norm"
    check(model_of(nodes, {"x": shape}, constants), [drawn(random, *shape)], name, [expected])


@pytest.mark.parametrize("name", LIBRARIES)
def test_sizes_that_only_the_run_knows(name):
    """One module for all of them, none at all included."""
    random = numpy.random.default_rng(500)
    model = model_of([helper.make_node("MatMul", ["a", "b"], ["m"]), helper.make_node("Add", ["m", "c"], ["y"])],
                     {"a": ("rows", 33), "b": (33, 65), "c": (65,)})  # fmt: skip
    compiled, right = tensmith.compile(model, libraries=name), tensmith.compile(model, reference=True)
    assert calls_of(compiled) == [f"{name}: matmul, add_columns"]
    for rows in (1, 0, 200, 7):
        values = [drawn(random, rows, 33), drawn(random, 33, 65), drawn(random, 65)]
        numpy.testing.assert_allclose(compiled(*values), right(*values), atol=1e-4)


@pytest.mark.parametrize("name", [*LIBRARIES, "measured"])
def test_a_step_of_training(name, tmp_path):
    """The losses and parameters of ten steps are those of generated kernels; updates are in place as ever."""
    random = numpy.random.default_rng(600)
    shapes = {"w1": (20, 1, 5, 5), "w2": (144 * 20, 90), "b2": (90,), "w3": (90, 10)}
    constants = {key: drawn(random, *shape) / numpy.prod(shape[1:]) ** 0.5 for key, shape in shapes.items()}
    constants = {key: value.astype("float32") for key, value in constants.items()}
    nodes = [helper.make_node("Conv", ["x", "w1"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("MatMul", ["f", "w2"], ["m"]),
             helper.make_node("Add", ["m", "b2"], ["s"]), helper.make_node("Tanh", ["s"], ["t"]),
             helper.make_node("MatMul", ["t", "w3"], ["scores"])]  # fmt: skip
    model = model_of(nodes, {"x": (6, 1, 28, 28)}, constants)
    x, target = drawn(random, 6, 1, 28, 28), random.integers(0, 10, 6)
    steps = {who: tensmith.train_step(model, "cross_entropy", "sgd", learning_rate=0.05, libraries=who)
             for who in ("generated", name)}  # fmt: skip
    if name != "measured":
        called = [kernel["schedule"] for kernel in steps[name].describe()["kernels"] if ":tensmith_" in kernel["symbol"]]
        assert len(called) >= 4 and f"{name}: transposed matmul, scale, subtract_from" in called
    for _ in range(10):
        losses = [float(step(x=x, target=target)["loss"]) for step in steps.values()]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for key in constants:
        numpy.testing.assert_allclose(steps[name].state[key], steps["generated"].state[key], atol=1e-4)


def test_measured_choices_are_read_back(tmp_path):
    """What was measured is in the module, and makes it again without measuring; generated kernels need no library."""
    random = numpy.random.default_rng(700)
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of([helper.make_node("MatMul", ["a", "w"], ["m"], name="big"), helper.make_node("Relu", ["m"], ["y"])],
                              {"a": (64, 300)}, {"w": drawn(random, 300, 200)}))  # fmt: skip
    run = lambda *arguments: subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=True).stdout
    run("compile", path, "-o", tmp_path / "m.so", "--libraries", "measured")
    entries = json.loads(run("inspect", tmp_path / "m.so", "--chosen-schedules"))["schedules"]
    (entry,) = [entry for entry in entries if "libraries" in entry]  # a relu may have one of its own
    assert entry["libraries"] in ("generated", "onednn", "openblas", "xsmm")
    (tmp_path / "s.json").write_text(json.dumps({"schedules": [entry | {"libraries": "generated"}]}))
    run("compile", path, "-o", tmp_path / "g.so", "--libraries", "onednn", "--schedules", tmp_path / "s.json")
    assert calls_of(tensmith.load(tmp_path / "g.so")) == []


def test_names_that_are_none():
    with pytest.raises(tensmith.Error, match="no library is called 'mkl'; there are generated, openblas, onednn, xsmm"):
        tensmith.compile(model_of([helper.make_node("Softmax", ["x"], ["y"])], {"x": (3, 4)}), libraries="onednn,mkl")


@pytest.mark.parametrize("libraries, message", [("", "no library is called ''"), ("onednn,", "no library is called ''"),
                                                ("onednn,openblas,onednn", "'onednn' is named twice"),
                                                ("generated,mkl", "no library is called 'mkl'")])  # fmt: skip
def test_lists_that_say_nothing(libraries, message, tmp_path):
    (tmp_path / "m.onnx").write_bytes(model_of([helper.make_node("Softmax", ["x"], ["y"])], {"x": (3, 4)}))
    with pytest.raises(tensmith.Error, match=message):
        tensmith.compile((tmp_path / "m.onnx").read_bytes(), libraries=libraries)
    done = subprocess.run([COMMAND, "compile", tmp_path / "m.onnx", "--libraries", libraries], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode != 0 and message in done.stderr and "reproducer" not in done.stderr


def test_names_are_looked_at_before_anything_else(tmp_path):
    """A wrong name is no fault of the compiler, which would leave a reproducer."""
    (tmp_path / "m.onnx").write_bytes(model_of([helper.make_node("Softmax", ["x"], ["y"])], {"x": (3, 4)}))
    done = subprocess.run([COMMAND, "compile", tmp_path / "m.onnx", "--libraries", "x"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode != 0 and "no library is called 'x'" in done.stderr and "reproducer" not in done.stderr


def test_a_library_that_is_missing(tmp_path, without_libraries):
    """The module compiles anywhere, with a warning, and runs by plain loops, with another."""
    path, module = tmp_path / "m.onnx", tmp_path / "m.so"
    path.write_bytes(model_of([helper.make_node("Softmax", ["x"], ["y"])], {"x": (3, 4)}))
    assert "warning" not in without_libraries("compile", path, "-o", module).stderr
    assert "warning: " in (said := without_libraries("compile", path, "-o", module, "--libraries", "onednn").stderr)
    assert "m.onnx: the module calls libtensmith_onednn.so, which can't be loaded here" in said
    done = without_libraries("run", module)
    assert done.returncode == 0
    assert "m.so: the module calls libtensmith_onednn.so, which can't be loaded" in done.stderr
    assert "--libraries generated" in done.stderr and "plain loops" in done.stderr


def model_of_calls(kind, random):
    """Of an operator that is drawn, with steps behind it: the nodes, inputs and constants, and how many calls that is."""
    low, high = (1, 40) if kind == "matmul" else (3, 12)
    size = lambda: int(random.integers(low, high))
    steps = [step for step in random.permutation(list(STEPS)) if random.random() < 0.4]
    if kind == "layer_norm" or kind == "softmax":
        columns, constants = size(), {}
        node = helper.make_node("Softmax", ["x"], ["y"])
        if kind == "layer_norm":
            operands = ["x", "s", "b"][: 2 + size() % 2]
            node = helper.make_node("LayerNormalization", operands, ["y"], axis=-1)
            constants = {name: drawn(random, columns) for name in operands[1:]}
        return [node], {"x": (size(), size(), columns)}, constants
    if kind == "matmul":
        batch, rows, depth, columns = (size() for _ in range(4))
        inputs, last = {"x": (batch, rows, depth), "w": (batch, depth, columns), "rest": (batch, rows, columns)}, (columns,)
        weights, nodes = {}, [helper.make_node("MatMul", ["x", "w"], ["m"])]
    else:
        group, each, out = int(random.integers(1, 4)), size(), size()
        window, strides, pads = random.integers(1, 4, 2), random.integers(1, 3, 2), random.integers(0, 3, 4)
        attributes = {"strides": strides, "pads": pads, "group": group, "dilations": random.integers(1, 3, 2)}
        inputs, last = {"x": (2, group * each, 11, 13)}, (group * out, 1, 1)
        weights = {key: drawn(random, group * out, each, *window) / 12 for key in ("w", "v")} | {"b": drawn(random, group * out)}
        nodes = [helper.make_node("Conv", ["x", "v"], ["rest"], **attributes), helper.make_node("Conv", ["x", "w", "b"], ["m"], **attributes)]
    value = "m"
    for number, step in enumerate(steps):
        nodes += step_nodes(step, number, value, f"s{number}")
        value = f"s{number}"
    nodes.append(helper.make_node("Cos", [value], ["y"]))
    return nodes, inputs, NUMBERS | weights | {key: drawn(random, *last) for key in ("factors", "bias")}


# Breaks if the plain loops read a size, a step or an operand of the contract otherwise than the libraries do.
@pytest.mark.parametrize("name, kind", [*(("onednn", kind) for kind in ("matmul", "conv", "softmax", "layer_norm")),
                                        ("openblas", "matmul"), ("xsmm", "matmul"), ("xsmm,onednn", "conv")])  # fmt: skip
@pytest.mark.parametrize("seed", range(4))
def test_plain_loops_do_what_a_missing_library_would(tmp_path, without_libraries, name, kind, seed):
    random = numpy.random.default_rng(800 + seed)
    nodes, inputs, constants = model_of_calls(kind, random)
    model, values = model_of(nodes, inputs, constants), [drawn(random, *shape) / numpy.float32(4) for shape in inputs.values()]
    compiled = tensmith.compile(model, libraries=name)
    assert calls_of(compiled)
    compiled.save(tmp_path / "m.so")
    given = []
    for name, value in zip(inputs, values):
        numpy.save(tmp_path / f"{name}.npy", value)
        given += ["--input", f"{name}={tmp_path / name}.npy"]
    done = without_libraries("run", tmp_path / "m.so", *given, "--output", tmp_path)
    assert done.returncode == 0 and "plain loops" in done.stderr, done.stderr
    expected = tensmith.compile(model, reference=True)(*values)
    numpy.testing.assert_allclose(numpy.load(tmp_path / "y.npy"), expected, atol=2e-4)
