"""The Python package: arrays in and out, names, errors, bytes, saved modules."""

import os
import subprocess
import sys

import numpy
import onnx
import onnx.helper
import pytest

import tensmith


@pytest.fixture(scope="module")
def model_bytes():
    f32 = onnx.TensorProto.FLOAT
    x = onnx.helper.make_tensor_value_info("x", f32, ["n", 3])
    y = onnx.helper.make_tensor_value_info("y", f32, ["n", 3])
    z = onnx.helper.make_tensor_value_info("z", f32, ["n", 3])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "y"], ["s"], name="sum"), onnx.helper.make_node("Relu", ["s"], ["z"], name="relu")],
        "g", [x, y], [z])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()


@pytest.fixture(scope="module")
def model(model_bytes):
    return tensmith.compile(model_bytes)


def arrays(n=5):
    random = numpy.random.default_rng(1)
    return random.standard_normal((n, 3), dtype=numpy.float32), random.standard_normal((n, 3), dtype=numpy.float32)


# Breaks if arrays are handed over with a wrong shape, or a symbolic size is kept from the run before.
@pytest.mark.parametrize("n", [1, 5, 33])
def test_runs_on_arrays_of_any_batch(model, n):
    x, y = arrays(n)
    numpy.testing.assert_allclose(model(x, y), numpy.maximum(x + y, 0))


def test_takes_inputs_by_name(model):
    x, y = arrays()
    numpy.testing.assert_array_equal(model(y=y, x=x), model(x, y))


class DLPackOnly:
    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **kwargs):
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


# Breaks if anything but a NumPy array is taken apart instead of borrowed.
def test_takes_dlpack_and_gives_it(model):
    x, y = arrays()
    out = model(DLPackOnly(x), y)
    numpy.testing.assert_allclose(numpy.from_dlpack(out), numpy.maximum(x + y, 0))


def test_output_outlives_the_model(model_bytes):
    x, y = arrays()
    out = tensmith.compile(model_bytes)(x, y)
    numpy.testing.assert_allclose(out, numpy.maximum(x + y, 0))


def test_signature(model):
    assert [port["name"] for port in model.inputs] == ["x", "y"]
    assert model.inputs[0]["dims"] == ["n", "3"] and model.inputs[0]["type"] == "f32"


@pytest.mark.parametrize("call, message", [
    (lambda m, x, y: m(x), "no value for input 'y'"),
    (lambda m, x, y: m(x, y, q=x), "no input 'q'"),
    (lambda m, x, y: m(x, y.astype(numpy.float64)), "'y'"),
    (lambda m, x, y: m(x, y[:, :2]), "'y'"),
    (lambda m, x, y: m(x, y[None]), "'y'"),
])
def test_errors_name_the_input(model, call, message):
    x, y = arrays()
    with pytest.raises(tensmith.Error, match=message):
        call(model, x, y)


def test_a_bad_model_is_an_error():
    with pytest.raises(tensmith.Error):
        tensmith.compile(b"no model")


def test_saved_module_is_the_same(model, tmp_path):
    x, y = arrays()
    model.save(tmp_path / "m.so")
    numpy.testing.assert_array_equal(tensmith.load(tmp_path / "m.so", threads=1)(x, y), model(x, y))


# Breaks if a kernel is named after one of its nodes alone.
def test_a_kernel_is_located_at_all_of_its_nodes(model):
    locations = [step["location"] for function in model.describe()["functions"] for step in function["instructions"]]
    assert any("'sum (Add)'" in location and "'relu (Relu)'" in location for location in locations), locations


RUN_A_MODULE = """
import sys

import numpy
import tensmith

def has_llvm():
    return "libLLVM" in open("/proc/self/maps").read()

x = numpy.ones((2, 3), numpy.float32)
tensmith.load(sys.argv[1])(x, x)
assert not has_llvm(), "to run a module LLVM was loaded"
tensmith.compile(sys.argv[2])(x, x)
assert has_llvm(), "LLVM is not seen among the process's files"
"""


# Breaks if the extension is linked to the compiler again, which costs each process that runs modules some 60 MB.
def test_a_module_runs_without_the_compiler(model, model_bytes, tmp_path):
    model.save(tmp_path / "m.so")
    (tmp_path / "m.onnx").write_bytes(model_bytes)
    done = subprocess.run([sys.executable, "-c", RUN_A_MODULE, tmp_path / "m.so", tmp_path / "m.onnx"], capture_output=True,
                          text=True, timeout=300, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr


# Breaks if a module is written into while it is mapped: its code would be another's, or gone.
@pytest.mark.parametrize("reference", [False, True])
def test_what_is_saved_over_a_loaded_module_leaves_it(model_bytes, tmp_path, reference):
    path = tmp_path / "m.so"
    tensmith.compile(model_bytes, reference=reference).save(path)
    loaded, x = tensmith.load(path), arrays()
    first = loaded(*x)
    other = model_bytes.replace(b"Relu", b"Tanh")
    tensmith.compile(other, reference=reference).save(path)
    numpy.testing.assert_array_equal(loaded(*x), first)
    numpy.testing.assert_allclose(tensmith.load(path)(*x), numpy.tanh(x[0] + x[1]), rtol=1e-6)
    loaded.save(tmp_path / "again.so")  # itself, though another module lies where it was loaded from
    numpy.testing.assert_array_equal(tensmith.load(tmp_path / "again.so")(*x), first)
    assert sorted(os.listdir(tmp_path)) == ["again.so", "m.so"]


def test_a_module_that_cannot_be_saved_leaves_what_was_there(model_bytes, tmp_path):
    path = tmp_path / "m.so"
    path.mkdir()
    with pytest.raises(tensmith.Error, match="can't be written") as error:
        tensmith.compile(model_bytes).save(path)
    assert error.value.code == "io_error" and str(path) in str(error.value)
    assert os.listdir(tmp_path) == ["m.so"]
