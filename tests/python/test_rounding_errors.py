"""What a layer errs by: what a module tells of it is what NumPy measures in double precision, and a choice that errs by more
than the policy's bound is not made, and told as refused."""

import json

import numpy
import onnx
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")

SUBNORMAL = 1e-41  # numbers of which hardly ten bits are left, and still finite


def layer(operator, shape, weights, **attributes):
    node = helper.make_node(operator, ["x", "w"], ["y"], name="layer", **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def weights_of(shape, seed, scale=1.0):
    drawn = numpy.random.default_rng(seed).standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))
    return (drawn * scale).astype("float32")


def chosen(compiled):
    """The schedule of the layer that another algorithm or type was taken or refused for, or nothing."""
    return next((entry for entry in json.loads(compiled.describe()["metadata"]["schedules"]) if "error" in entry or "refused" in entry), {})


def convolution(x, w, group=1):
    """In double precision, without padding."""
    x, w = x.astype("float64"), w.astype("float64")
    windows = sliding_window_view(x, w.shape[2:], axis=tuple(range(2, x.ndim)))
    windows = windows.reshape(x.shape[0], group, -1, *windows.shape[2:])
    w = w.reshape(group, -1, *w.shape[1:])
    image, taps = "ij"[:x.ndim - 2], "uv"[:x.ndim - 2]
    y = numpy.einsum(f"ngc{image}{taps},gmc{taps}->ngm{image}", windows, w, optimize=True)
    return y.reshape(x.shape[0], -1, *y.shape[3:])


def relative(found, right):
    return numpy.abs(found - right).max() / numpy.abs(right).max()


# The largest of more outputs than the estimate looks at, and the kernels' other order of sums.
AGREES = 4

CONVOLUTIONS = [
    ("fast", {"winograd_outputs": 2}, (1, 19, 23, 20), (29, 19, 3, 3), 1),
    ("fast", {"winograd_outputs": 4}, (2, 40, 17, 22), (24, 40, 3, 3), 1),
    ("fast", {"winograd_outputs": 6}, (1, 33, 26, 19), (50, 33, 3, 3), 1),
    ("fast", {"winograd_outputs": 2}, (1, 12, 21, 20), (9, 12, 5, 5), 1),
    ("fast", {"fourier_tile": 16}, (1, 18, 31, 24), (13, 18, 7, 7), 1),
    ("fast", {"fourier_tile": 24}, (1, 20, 41, 30), (20, 1, 9, 9), 20),
    ("fast", {"fourier_tile": 64}, (1, 9, 211), (7, 9, 21), 1),
    ("bf16", {"operand_bits": 16}, (1, 37, 15, 18), (21, 37, 3, 3), 1),
    ("bf16", {"operand_bits": 16}, (1, 24, 15, 18), (24, 1, 3, 3), 24),
]


@pytest.mark.parametrize("policy,choice,shape,kernel,group", CONVOLUTIONS)
def test_the_told_error_of_a_convolution_is_the_measured_one(policy, choice, shape, kernel, group, tmp_path):
    """Breaks if what is tried is not what the kernels do, or it is held against something else."""
    asked = tmp_path / "s.json"
    asked.write_text(json.dumps({"schedules": [{"nodes": ["layer"], "winograd_outputs": 0} | choice]}))
    w = weights_of(kernel, 3)
    compiled = tensmith.compile(layer("Conv", shape, w, group=group), precision=policy, schedules=asked)
    x = numpy.random.default_rng(4).standard_normal(shape).astype("float32")
    measured = relative(numpy.asarray(compiled.run(x)[0]), convolution(x, w, group))
    told = chosen(compiled)["error"]
    assert measured / AGREES < told < measured * AGREES


@pytest.mark.parametrize("policy,choice,rows,depth,columns", [
    ("fast", {"strassen_steps": 1}, 70, 301, 55),
    ("fast", {"strassen_steps": 1}, 33, 64, 130),
    ("bf16", {"operand_bits": 16}, 41, 257, 90),
    ("bf16", {"operand_bits": 16}, 20, 33, 64),
])
def test_the_told_error_of_a_product_is_the_measured_one(policy, choice, rows, depth, columns, tmp_path):
    asked = tmp_path / "s.json"
    asked.write_text(json.dumps({"schedules": [{"nodes": ["layer"]} | choice]}))
    w = weights_of((depth, columns), 5)
    compiled = tensmith.compile(layer("MatMul", (rows, depth), w), precision=policy, schedules=asked)
    x = numpy.random.default_rng(6).standard_normal((rows, depth)).astype("float32")
    measured = relative(numpy.asarray(compiled.run(x)[0]), x.astype("float64") @ w.astype("float64"))
    told = chosen(compiled)["error"]
    assert measured / AGREES < told < measured * AGREES


REFUSALS = [
    ("fast", "Conv", (1, 64, 33, 30), (64, 64, 3, 3), {}, "winograd_outputs"),
    ("fast", "Conv", (1, 32, 96, 96), (32, 32, 15, 15), {"pads": [7] * 4}, "fourier_tile"),
    ("fast", "Conv", (1, 32, 96, 96), (32, 1, 15, 15), {"pads": [7] * 4, "group": 32}, "fourier_tile"),
    ("fast", "MatMul", (2048, 2048), (2048, 2048), {}, "strassen_steps"),
    ("bf16", "MatMul", (1, 4096), (4096, 4096), {}, "operand_bits"),
]


@pytest.mark.parametrize("policy,operator,shape,kernel,attributes,choice", REFUSALS)
def test_what_errs_beyond_the_bound_is_refused_and_told(policy, operator, shape, kernel, attributes, choice, tmp_path):
    """Breaks if a bound is not looked at where errors are finite, or the report keeps silent of what it did."""
    bound, plain = (1 / 64, 32) if policy == "bf16" else (1e-5, 0)
    taken = chosen(tensmith.compile(layer(operator, shape, weights_of(kernel, 1), **attributes), precision=policy))
    if taken.get(choice, plain) == plain:
        pytest.skip("this machine has nothing to gain by it")
    assert "refused" not in taken and 0 < taken["error"] <= bound
    model = layer(operator, shape, weights_of(kernel, 1, SUBNORMAL), **attributes)
    compiled = tensmith.compile(model, precision=policy)
    entry = chosen(compiled)
    assert entry[choice] == plain and "error" not in entry
    refused = [(each["choice"], each["value"]) for each in entry["refused"]]
    assert (choice, taken[choice]) == refused[0] and all(each["error"] > bound for each in entry["refused"])
    # A report is read back without harm.
    again = tmp_path / "s.json"
    again.write_text(json.dumps({"schedules": [entry]}))
    asked = tensmith.compile(model, precision=policy, schedules=again)
    entries = json.loads(asked.describe()["metadata"]["schedules"])
    assert {key: value for key, value in entry.items() if key != "refused"} in entries


# Rounded twice near one, as r^2 p + (1 + r) is, powers err by 0.41 on the mean, and at most by 1.15.
def test_powers_of_e_are_rounded_once():
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [onnx.ValueInfoProto(name="y")])  # fmt: skip
    model = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    x = numpy.linspace(-10, 10, 1_000_001, dtype="float32")
    right = numpy.exp(x.astype("float64"))
    units = (model.run(x=x)[0] - right) / numpy.spacing(right.astype("float32"))
    assert numpy.sqrt(numpy.mean(units**2)) < 0.34 and abs(units).max() < 1.05


# Of one chain, whose rounding grows with the root of its length, the errors are 1.2e-6 and 0.8e-6.
def test_long_sums_are_sums_of_chains():
    random = numpy.random.default_rng(9)
    shapes = {"x": (2, 4, 4, 512), "w": (16, 512, 3, 3), "z": (16, 24, 64, 64)}
    values = {name: random.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    values["x"] = numpy.ascontiguousarray(values["x"].transpose(0, 3, 1, 2))
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"]), helper.make_node("Transpose", ["z"], ["t"], perm=[0, 2, 3, 1]),
             helper.make_node("Mul", ["t", "t"], ["squares"]),
             helper.make_node("ReduceSum", ["squares", "axes"], ["sums"], keepdims=0)]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in values.items()],
                              [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="sums")],
                              [numpy_helper.from_array(numpy.array([0, 1, 2]), "axes")])  # fmt: skip
    model = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    y, sums = model.run(**values)

    def squared(found, right):
        return numpy.sqrt(numpy.mean((found - right) ** 2) / numpy.mean(right**2))

    assert squared(y, convolution(values["x"], values["w"])) < 8.5e-7
    assert squared(sums, (values["z"].astype("float64") ** 2).sum((0, 2, 3))) < 3e-7
