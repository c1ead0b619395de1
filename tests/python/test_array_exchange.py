"""Arrays of other libraries: by DLPack in all element types, and back as what they came. JAX and PyTorch where they are."""

import subprocess
import sys

import ml_dtypes
import numpy
import onnx
import pytest
from onnx import TensorProto, helper

import tensmith

TYPES = {
    "bfloat16": TensorProto.BFLOAT16, "float8_e4m3fn": TensorProto.FLOAT8E4M3FN, "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ, "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ, "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4, "float4_e2m1fn": TensorProto.FLOAT4E2M1, "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64, "bool": TensorProto.BOOL,
    "uint16": TensorProto.UINT16,
}  # fmt: skip


def dtype_of(name):
    return numpy.dtype(getattr(ml_dtypes, name, name))


def identity(name):
    port = lambda port_name: helper.make_tensor_value_info(port_name, TYPES[name], ["n", "m"])
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "s"], ["y"])], "g", [port("x")], [port("y")],
                              [helper.make_tensor("s", TensorProto.INT64, [2], [0, -1])])
    return tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11).SerializeToString())


def values(name):
    numbers = [[0, 1, 2, 3, 4], [5, 6, 7, 1, 0]]
    if name in ("bfloat16", "int4", "float16", "float32", "float64", "int64") or name.startswith("float8"):
        numbers = [[0, 1, -2, 3, -4], [5, -6, 7, -8, 0]]
    if name == "float4_e2m1fn":
        numbers = [[0, 1, -2, 3, -4], [0.5, -6, 1.5, 1, 0]]
    if name == "bool":
        numbers = [[0, 1, 0, 1, 1], [1, 0, 0, 1, 0]]
    return numpy.array(numbers, numpy.float32).astype(dtype_of(name))


class DLPackOnly:
    """What another library's array shows of itself."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


# Breaks if a type is lost on the way, in either direction.
@pytest.mark.parametrize("name", TYPES)
def test_every_type_goes_in_and_out(name):
    model, x = identity(name), values(name)
    once = model(x)
    assert isinstance(once, numpy.ndarray) and once.dtype == x.dtype
    numpy.testing.assert_array_equal(once, x)
    again = model(DLPackOnly(once))
    assert again.dtype == x.dtype
    numpy.testing.assert_array_equal(again, x)


def test_what_was_computed_from_an_exchanged_array_is_numpys_own():
    y = identity("bfloat16")(values("bfloat16"))
    numpy.testing.assert_array_equal(numpy.from_dlpack(y.astype(numpy.float32)), values("bfloat16").astype(numpy.float32))


@pytest.mark.parametrize("name", ["float32", "float64", "int64", "uint16", "float16"])
def test_the_other_byte_order_is_converted(name):
    """Breaks if an array's bytes are taken as they lie, whatever order its type says they have."""
    given = values(name)
    numpy.testing.assert_array_equal(identity(name)(given.astype(given.dtype.newbyteorder(">"))), given)


def test_a_capsule_that_nobody_takes_is_freed():
    x = values("bfloat16")
    y = identity("bfloat16")(x)
    before = sys.getrefcount(y)
    for _ in range(100):
        y.__dlpack__()
    assert sys.getrefcount(y) == before


def test_read_only_memory_is_taken():
    x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    x.setflags(write=False)
    numpy.testing.assert_array_equal(identity("float32")(DLPackOnly(x)), x)


JAX_TYPES = ["float32", "bfloat16", "float16", "int32", "bool", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"]


def jax_numpy():
    jax = pytest.importorskip("jax", reason="JAX is not installed (bench/requirements.txt)")
    return jax.numpy


@pytest.mark.parametrize("name", [name for name in JAX_TYPES if name in TYPES])
def test_jax_arrays_come_back_as_such(name):
    jnp = jax_numpy()
    x = jnp.asarray(values(name))
    y = identity(name)(x)
    assert isinstance(y, type(x)) and y.dtype == x.dtype
    numpy.testing.assert_array_equal(numpy.asarray(y), values(name))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "int64", "bool", "float8_e4m3fn", "float8_e5m2", "uint16"])
def test_torch_tensors_come_back_as_such(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (bench/requirements.txt)")
    x = torch.tensor(values(name).astype(numpy.float32).tolist()).to(getattr(torch, name))
    y = identity(name)(x)
    assert isinstance(y, torch.Tensor) and y.dtype == x.dtype
    assert y.to(torch.float32).tolist() == x.to(torch.float32).tolist()
    strided = identity(name)(x.t())
    assert strided.to(torch.float32).tolist() == x.t().to(torch.float32).tolist()


def test_lists_and_maps_of_tensors_come_back_as_such():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (bench/requirements.txt)")
    value = helper.make_tensor_sequence_value_info("q", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph([helper.make_node("Identity", ["q"], ["r"])], "g", [value],
                              [helper.make_tensor_sequence_value_info("r", TensorProto.FLOAT, ["n"])])
    model = tensmith.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    given = [torch.ones(2), torch.zeros(2)]
    got = model(given)
    assert all(isinstance(one, torch.Tensor) for one in got) and torch.equal(got[0], given[0])


class OtherArray(DLPackOnly):
    """Of a library with the array API's namespace, as JAX's are."""

    def __array_namespace__(self):
        return type("space", (), {"from_dlpack": staticmethod(lambda array: OtherArray(numpy.from_dlpack(array)))})


# Needs neither JAX nor PyTorch.
def test_the_first_array_decides_what_comes_back():
    x = values("float32")
    y = identity("float32")(OtherArray(x))
    assert isinstance(y, OtherArray)
    numpy.testing.assert_array_equal(y.array, x)
    assert type(identity("float32")(DLPackOnly(x))) is numpy.ndarray  # of a library that says nothing of itself


# Breaks if what lives as long as the interpreter is called a leak.
def test_nothing_is_said_at_exit():
    text = ("import numpy, tensmith\n"
            "model = tensmith.compile(MODEL)\n"
            "y = model(numpy.ones((2, 3), numpy.float32))\n"
            "class Ring: pass\n"
            "ring = Ring(); ring.own, ring.model, ring.y = ring, model, y\n"
            "import sys; sys.kept = ring\n")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    done = subprocess.run([sys.executable, "-c", text.replace("MODEL", repr(model))], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
