"""What compilation follows: kernels of one structure are compiled once, whatever their numbers and the names of their sizes."""

import numpy
import onnx
import pytest
import tensmith
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOAT = TensorProto.FLOAT


def model_of(nodes, inputs, outputs, constants):
    value = lambda name, shape: helper.make_tensor_value_info(name, FLOAT, shape)
    weights = [numpy_helper.from_array(numpy.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "graph", [value(*port) for port in inputs.items()], [value(name, None) for name in outputs], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def checked(model, feed, tmp_path, tolerance=1e-5, **options):
    """The kernels of the module, whose results are the reference's."""
    compiled = tensmith.compile(model.SerializeToString(), cache_dir=str(tmp_path / "cache"), **options)
    for name, got in zip(compiled.outputs, results(compiled, feed)):
        want = dict(zip([port.name for port in model.graph.output], ReferenceEvaluator(model).run(None, feed)))[name["name"]]
        numpy.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return compiled.describe()["kernels"]


def results(compiled, feed):
    outputs = compiled.run(*[feed[port["name"]] for port in compiled.inputs])
    return outputs if isinstance(outputs, (list, tuple)) else [outputs]


def drawn(*shape, seed=0):
    return numpy.random.default_rng(seed).uniform(-1, 1, shape).astype(numpy.float32)


# Breaks if numbers that layers differ by are part of a kernel's structure.
@pytest.mark.parametrize("operator", ["Mul", "Add", "Sub", "Max", "Min", "Div", "Greater"])
def test_layers_that_differ_by_a_number_are_one_kernel(operator, tmp_path):
    nodes, constants, x = [], {"w": drawn(8, 8, seed=1) / 4}, "x"
    for layer in range(20):
        constants[f"c{layer}"] = numpy.float32(0.31 + layer / 20)
        nodes += [helper.make_node("MatMul", [x, "w"], [f"m{layer}"]), helper.make_node(operator, [f"m{layer}", f"c{layer}"], [f"n{layer}"])]
        x = f"n{layer}"
        if operator == "Greater":
            nodes.append(helper.make_node("Where", [f"n{layer}", "one", f"m{layer}"], [f"t{layer}"]))
            constants["one"], x = numpy.float32(1), f"t{layer}"
    kernels = checked(model_of(nodes, {"x": [4, 8]}, [x], constants), {"x": drawn(4, 8)}, tmp_path)
    assert len(kernels) == 1


# Breaks if 200 scales are 200 compilations.
def test_200_scales_are_one_kernel(tmp_path):
    nodes = [helper.make_node("Mul", ["x", f"c{i}"], [f"y{i}"]) for i in range(200)]
    constants = {f"c{i}": numpy.float32(1 + i) for i in range(200)}
    outputs = [f"y{i}" for i in range(200)]
    kernels = checked(model_of(nodes, {"x": [3, 5]}, outputs, constants), {"x": drawn(3, 5)}, tmp_path)
    assert len(kernels) == 1


# Breaks if bits depend on whether a number is in the code or an argument.
def test_numbers_as_arguments_give_the_same_bits(tmp_path):
    scales = [0.1, 0.25, 3.0, 1.0, -0.0, float("inf"), 1e-40]

    def outputs(values):
        nodes, constants = [], {}
        for i, value in enumerate(values):
            constants[f"c{i}"] = numpy.float32(value)
            nodes += [helper.make_node("Mul", ["x", f"c{i}"], [f"m{i}"]), helper.make_node("Exp", [f"m{i}"], [f"e{i}"]),
                      helper.make_node("Div", [f"e{i}", f"c{i}"], [f"y{i}"])]
        model = model_of(nodes, {"x": [7, 19]}, [f"y{i}" for i in range(len(values))], constants)
        return results(tensmith.compile(model.SerializeToString(), cache_dir=str(tmp_path / "cache")), {"x": drawn(7, 19)})

    together = outputs(scales)
    for value, got in zip(scales, together):
        numpy.testing.assert_array_equal(got.view(numpy.uint32), outputs([value])[0].view(numpy.uint32))


# Breaks if what code depends on becomes an argument: the square would be a logarithm, and the quotient a division.
def test_numbers_that_code_depends_on_stay(tmp_path):
    nodes, constants, outputs = [], {}, []
    for operator, values in (("Pow", (2.0, 0.5, 3.0)), ("Div", (2.0, 4.0, 8.0))):
        for value in values:
            name = f"{operator}{value}"
            constants["c" + name] = numpy.float32(value)
            nodes.append(helper.make_node(operator, ["x", "c" + name], [name]))
            outputs.append(name)
    feed = {"x": numpy.abs(drawn(3, 5)) + 0.1}
    assert len(checked(model_of(nodes, {"x": [3, 5]}, outputs, constants), feed, tmp_path)) == 6


# Breaks if scales and zero points of layers of codes are part of their structure, or if codes aren't limited any more.
@pytest.mark.parametrize("kind", [numpy.uint8, numpy.int8])
def test_quantised_layers_are_few_kernels(kind, tmp_path):
    nodes, constants, x = [], {}, "x"
    random = numpy.random.default_rng(3)
    for layer in range(30):
        low = 100 if kind == numpy.uint8 else -20
        constants |= {f"s{layer}": numpy.float32(0.02 + layer / 1e3), f"z{layer}": kind(low + layer), f"w{layer}": random.integers(-127, 128, (16, 16)).astype(numpy.int8),
                      f"t{layer}": numpy.float32(0.004 + layer / 1e5), "z": numpy.int8(0)}
        nodes += [helper.make_node("QuantizeLinear", [x, f"s{layer}", f"z{layer}"], [f"q{layer}"]),
                  helper.make_node("DequantizeLinear", [f"q{layer}", f"s{layer}", f"z{layer}"], [f"d{layer}"]),
                  helper.make_node("DequantizeLinear", [f"w{layer}", f"t{layer}", "z"], [f"v{layer}"]),
                  helper.make_node("MatMul", [f"d{layer}", f"v{layer}"], [f"m{layer}"]), helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"])]
        x = f"r{layer}"
    model = model_of(nodes, {"x": [4, 16]}, [x], constants)
    # Beyond the range of codes on both sides.
    kernels = checked(model, {"x": 9 * drawn(4, 16)}, tmp_path, tolerance=0.05)
    assert len(kernels) <= 8


# Breaks if the names of open sizes are part of a kernel's structure, or if a kernel is given another one's sizes.
def test_sizes_of_other_names_are_one_kernel(tmp_path):
    names = ["n", "batch", "a", "zz", "k"]
    nodes = [helper.make_node("Softmax", [name], ["y" + name], axis=-1) for name in names]
    inputs = {name: [name, f"{name}_columns"] for name in names}
    feed = {name: drawn(2 + i, 11 - i, seed=i) for i, name in enumerate(names)}
    kernels = checked(model_of(nodes, inputs, ["y" + name for name in names], {}), feed, tmp_path)
    assert len(kernels) == 1


# Breaks if two sizes of a kernel change places because their names sort otherwise.
def test_two_sizes_keep_their_places(tmp_path):
    nodes = [helper.make_node("Concat", [a, b], [f"y{a}"], axis=0) for a, b in (("p", "q"), ("r", "t"))]
    inputs = {"p": ["a", 3], "q": ["b", 3], "r": ["d", 3], "t": ["c", 3]}
    feed = {name: drawn(size, 3, seed=size) for name, size in {"p": 2, "q": 7, "r": 5, "t": 1}.items()}
    assert len(checked(model_of(nodes, inputs, ["yp", "yr"], {}), feed, tmp_path)) == 1


# Breaks if code grows with the number of inputs, or if an input lands in another one's place.
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sizes", [(3,), (1, 4), (3, 17, 64)])
def test_concatenation_of_many_is_as_long_as_of_few(axis, sizes, tmp_path):
    def kernel_of(count):
        inputs = {f"x{i}": [2, sizes[i % len(sizes)]] if axis else [sizes[i % len(sizes)], 2] for i in range(count)}
        model = model_of([helper.make_node("Concat", list(inputs), ["y"], axis=axis)], inputs, ["y"], {})
        feed = {name: drawn(*shape, seed=i) for i, (name, shape) in enumerate(inputs.items())}
        assert len(checked(model, feed, tmp_path, tolerance=0)) == 1
        path = tmp_path / f"{count}.so"
        tensmith.compile(model.SerializeToString(), cache_dir=str(tmp_path / "cache")).save(str(path))
        return path.stat().st_size

    few, many = kernel_of(60), kernel_of(300)
    assert many - few < 60_000  # 240 inputs: their places, and what the plan says of them


# Breaks if elements that are gathered one by one are a kernel each.
def test_gathered_numbers_are_one_kernel(tmp_path):
    nodes, constants = [], {"axes": numpy.int64([0])}
    for i in range(100):
        constants[f"i{i}"] = numpy.int64(99 - i)
        nodes += [helper.make_node("Gather", ["x", f"i{i}"], [f"g{i}"], axis=0), helper.make_node("Unsqueeze", [f"g{i}", "axes"], [f"u{i}"])]
    nodes.append(helper.make_node("Concat", [f"u{i}" for i in range(100)], ["y"], axis=0))
    kernels = checked(model_of(nodes, {"x": [100]}, ["y"], constants), {"x": drawn(100)}, tmp_path, tolerance=0)
    assert len(kernels) <= 2
