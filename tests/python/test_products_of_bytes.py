"""Products of codes whose both sides have zero points, on CPUs that multiply bytes: exact, and multiplied as bytes.

Under qemu, which has such CPUs wherever the tests run.
"""

import json
import re

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from test_cli import pytestmark, tensmith  # noqa: F401 (a mark)
from test_tensmith_run import program_for, run

TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
SCALE = numpy.float32(0.25)
CPUS = {"cortex-a76": "cortex-a76", "neoverse-v1": "max,sve-max-vq=2"}  # of one kind of bytes alone, and of both


class Products:
    """A model of several products, what is fed to it, and what it has to give."""

    def __init__(self, random, stack=2):
        """`stack`: of how many matrices left operands are."""
        self.stack, self.random = stack, random
        self.nodes, self.inputs, self.constants, self.expected = [], {}, {}, {}

    def codes(self, shape, kind):
        info = numpy.iinfo(kind)
        return self.random.integers(info.min, info.max + 1, shape).astype(kind)

    def given(self, name, value, known):
        (self.constants if known else self.inputs)[name] = value
        return name

    def difference(self, name, shape, kind, zero, known):
        """An operand of MatMulInteger: its names, and what it stands for."""
        value = self.codes(shape, kind)
        names = [self.given(name, value, known), self.given(f"{name}_zero", zero, True)]
        return names, value.astype(int) - zero.astype(int)

    def integers(self, number, rows, depth, columns, kinds, zeros, known):
        (a, za), left = self.difference(f"a{number}", (self.stack, rows, depth), kinds[0], zeros[0], False)
        (b, zb), right = self.difference(f"b{number}", (depth, columns), kinds[1], zeros[1], known)
        self.nodes.append(helper.make_node("MatMulInteger", [a, b, za, zb], [f"y{number}"]))
        self.expected[f"y{number}"] = left @ right

    def floats(self, number, rows, depth, columns, kinds, zeros, known, across=False, stacked=False):
        """Both sides dequantised; the right one is quantised here where it isn't known, else each column has a scale and a zero point
        of its own where the zero points are as many. It may lie across, and be a stack."""
        self.constants["scale"] = SCALE
        (a, za), left = self.difference(f"a{number}", (2, rows, depth), kinds[0], zeros[0], False)
        shape = (2,) * stacked + ((columns, depth) if across else (depth, columns))
        value, zero = self.codes(shape, kinds[1]), zeros[1]
        scale = self.random.choice([0.25, 0.5], zero.shape).astype(numpy.float32)
        axis = len(shape) - (2 if across else 1)
        of_columns = [-1 if dim == axis else 1 for dim in range(len(shape))] if zero.ndim else []
        right = (value.astype(int) - zero.astype(int).reshape(of_columns)) * scale.reshape(of_columns).astype(float)
        b, zb, sb = f"b{number}", self.given(f"b{number}_zero", zero, True), self.given(f"b{number}_scale", scale, True)
        if known:
            self.given(b, value, True)
        else:
            self.given(f"x{number}", right.astype(numpy.float32), False)
            self.nodes.append(helper.make_node("QuantizeLinear", [f"x{number}", sb, zb], [b]))
        self.nodes += [helper.make_node("DequantizeLinear", [a, "scale", za], [f"da{number}"]),
                       helper.make_node("DequantizeLinear", [b, sb, zb], [f"db{number}"], **({"axis": axis} if zero.ndim else {}))]  # fmt: skip
        if across:
            self.nodes.append(helper.make_node("Transpose", [f"db{number}"], [f"t{number}"], perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]))
            right = right.swapaxes(-1, -2)
        self.nodes.append(helper.make_node("MatMul", [f"da{number}", f"{'t' if across else 'db'}{number}"], [f"y{number}"]))
        self.expected[f"y{number}"] = left @ right * SCALE

    def kernels_and_results(self, folder, cpu):
        ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for name, value in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(name, TensorProto.INT32 if value.dtype == int else TensorProto.FLOAT, value.shape)
                   for name, value in self.expected.items()]  # fmt: skip
        graph = helper.make_graph(self.nodes, "g", ports, outputs, [numpy_helper.from_array(numpy.asarray(v), n) for n, v in self.constants.items()])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), folder / "m.onnx")
        tensmith("compile", folder / "m.onnx", "--target", f"aarch64:{cpu}", "--verify-each-pass", "--no-cache", "-o", folder / "m.so")
        # Where only codes of one kind are multiplied by ones of the other; each rewrite is held against the reference.
        tensmith("compile", folder / "m.onnx", "--target", "cascadelake", "--verify-each-pass", "--no-cache", "-o", folder / "other.so")
        given = []
        for name, value in self.inputs.items():
            numpy.save(folder / f"{name}.npy", value)
            given += ["--input", f"{name}={folder / name}.npy"]
        said = run(folder / "m.so", *given, "--out", folder / "out", program=("qemu-aarch64", "-cpu", CPUS[cpu], program_for("aarch64")))
        kernels = json.loads(tensmith("inspect", "--json", folder / "m.so").stdout)["kernels"]
        return kernels, {output["name"]: numpy.load(output["file"]) for output in json.loads(said.stdout)["outputs"]}


def zero_of(random, kind):
    """None, one that is none once codes are of the other kind, or any."""
    return numpy.array(random.choice([0, 128 if kind == "uint8" else -128, random.integers(-128, 128) + 128 * (kind == "uint8")]), kind)


# Breaks if what a zero point adds to the sums stays there, or is taken off twice, on either side; if a zero point isn't moved with its codes; or if
# sums are taken of the wrong direction of an operand that lies across.
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("seed", range(3))
def test_products_of_random_zero_points_are_exact(tmp_path, seed, cpu):
    random = numpy.random.default_rng(seed)
    products = Products(random)
    for number in range(16):
        kinds = [str(random.choice(list(TYPES))) for _ in range(2)]
        zeros = [zero_of(random, kind) for kind in kinds]
        sizes = [int(random.choice([1, 3, 8, 21])), int(random.integers(1, 70)), int(random.choice([1, 5, 8, 33]))]
        known = bool(random.integers(2))
        if random.integers(3) == 0:
            products.integers(number, *sizes, kinds, zeros, known)
            continue
        if known and random.integers(2):
            zeros[1] = products.codes(sizes[2], kinds[1])
        products.floats(number, *sizes, kinds, zeros, known, bool(random.integers(2)), not known and bool(random.integers(2)))
    _, results = products.kernels_and_results(tmp_path, cpu)
    for name, expected in products.expected.items():
        numpy.testing.assert_array_equal(results[name], expected.astype(results[name].dtype), err_msg=name)


# Breaks if operands that both have zero points are multiplied in 16 bits where bytes are multiplied in half of the time.
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("known", [True, False])
def test_operands_of_two_zero_points_are_bytes(tmp_path, known, cpu):
    products, zeros = Products(numpy.random.default_rng(5)), (numpy.uint8(3), numpy.uint8(200))
    products.integers(0, 16, 64, 32, ("uint8", "uint8"), zeros, known)
    products.floats(1, 16, 64, 32, ("uint8", "uint8"), zeros, known, across=True)
    kernels, results = products.kernels_and_results(tmp_path, cpu)
    assert sum(bool(re.search("products by [48]", kernel["schedule"])) for kernel in kernels) == 2, [kernel["schedule"] for kernel in kernels]
    for name in ("y0", "y1"):
        numpy.testing.assert_array_equal(results[name], products.expected[name])


# Breaks if the rows that share a right operand, whose sums the run takes, are those of one matrix of a stack alone; or if sums are taken of it for fewer
# rows than they cost.
@pytest.mark.parametrize("stack, are_bytes", [(16, True), (2, False)])
def test_rows_of_a_stack_share_the_right_operand_s_sums(tmp_path, stack, are_bytes):
    products = Products(numpy.random.default_rng(6), stack)
    products.integers(0, 1, 64, 32, ("uint8", "int8"), (numpy.uint8(3), numpy.int8(0)), False)
    kernels, results = products.kernels_and_results(tmp_path, "neoverse-v1")
    assert any(re.search("products by [48]", kernel["schedule"]) for kernel in kernels) == are_bytes, [kernel["schedule"] for kernel in kernels]
    numpy.testing.assert_array_equal(results["y0"], products.expected["y0"])
