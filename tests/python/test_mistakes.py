"""What people really give, and what they are told: each message says what was given, what is expected and what to do.

From the command line a mistake is one line on the error output, from Python a `tensmith.Error` with the same words. Files of
other formats are made here by their first bytes, which is what they are known by.
"""

import collections
import json
import os
import pathlib
import pickle
import struct
import subprocess
import zipfile

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

from test_cli import ROOT, TENSMITH, model, module, picture_model, pytestmark, refused, tensmith, weights, x  # noqa: F401 (fixtures)

ts = pytest.importorskip("tensmith")


def zipped(*names):
    def write(path):
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, b"\0" * 64)

    return write


def content(bytes):
    return lambda path: path.write_bytes(bytes)


SAFETENSORS = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
FOREIGN = {
    "resnet.pt": (zipped("resnet/data.pkl", "resnet/data/0"), "PyTorch", "torch.onnx.export"),
    "weights.pth": (content(pickle.dumps(collections.OrderedDict(w=1), 2)), "pickle", "torch.onnx.export"),
    "program.pt2": (zipped("program/archive_format", "program/models/model.json"), "PyTorch", "torch.onnx.export"),
    "llama.gguf": (content(b"GGUF\3\0\0\0" + b"\0" * 64), "GGUF", "optimum-cli export onnx"),
    "model.safetensors": (content(struct.pack("<Q", len(SAFETENSORS)) + SAFETENSORS + b"\0" * 4), "safetensors", "export"),
    "mobilenet.tflite": (content(b"\x1c\0\0\0TFL3" + b"\0" * 64), "TensorFlow Lite", "tf2onnx.convert --tflite"),
    "frozen.pb": (content(b"\n\x2d\n\5input\x12\x0bPlaceholder\0"), "TensorFlow", "tf2onnx.convert --graphdef"),
    "saved_model.pb": (content(b"\x08\1\x12\xff\1" + b"\0" * 64), "TensorFlow", "--saved-model"),
    "keras.h5": (content(b"\x89HDF\r\n\x1a\n" + b"\0" * 64), "HDF5", 'format="onnx"'),
    "new.keras": (zipped("metadata.json", "config.json", "model.weights.h5"), "Keras", 'format="onnx"'),
    "model.ort": (content(b"\x18\0\0\0ORTM" + b"\0" * 64), "ONNX Runtime's own format", ".onnx that it was made of"),
    "openvino.xml": (content(b'<?xml version="1.0"?>\n<net name="m" version="11"/>'), "OpenVINO", "ONNX"),
    "photo.png": (content(b"\x89PNG\r\n\x1a\n" + b"\0" * 64), "a picture", "--input NAME=FILE"),
    "x.npz": (zipped("x.npy"), "NumPy", "--input NAME=FILE"),
    "model.onnx.gz": (content(b"\x1f\x8b\x08" + b"\0" * 64), "compressed", "unpack"),
    "lfs.onnx": (content(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"), "Git LFS", "git lfs pull"),
    "page.onnx": (content(b"<!DOCTYPE html>\n<html><body>404</body></html>"), "a web page", "raw"),
    "notes.txt": (content(b"the model is somewhere else"), "text", "a model is ONNX"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_files_that_are_no_models(tmp_path, name):
    write, what, advice = FOREIGN[name]
    write(tmp_path / name)
    told = refused("compile", tmp_path / name, "-o", tmp_path / "m.so")
    assert told.startswith(f"tensmith: {tmp_path / name}: is ") and what in told and advice in told, told
    with pytest.raises(ts.Error) as error:
        ts.compile(tmp_path / name)
    assert f"tensmith: {error.value}" == told and error.value.code == "invalid_model"


def test_what_is_a_model_is_not_taken_for_something_else(tmp_path, model):
    """Breaks if a rule for other files takes in one of ours, whatever it is called."""
    for name in ("model.pb", "model.bin", "model"):
        (tmp_path / name).write_bytes(model.read_bytes())
        tensmith("inspect", tmp_path / name)
    (tmp_path / "text.txt").write_text("// a graph\nfunc.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }\n")
    done = subprocess.run([TENSMITH, "inspect", tmp_path / "text.txt"], capture_output=True, text=True, timeout=60)
    assert "and no model" not in done.stderr


# ---- Paths


@pytest.mark.parametrize("command", ["run", "compile", "inspect", "bench"])
def test_a_name_that_is_almost_there(tmp_path, model, command):
    (tmp_path / "resnet50.onnx").write_bytes(model.read_bytes())
    told = refused(command, tmp_path / "resnet5O.onnx")
    assert "No such file" in told and f"did you mean '{tmp_path / 'resnet50.onnx'}'?" in told


def test_a_name_that_is_almost_there_in_python(tmp_path, model):
    (tmp_path / "resnet50.onnx").write_bytes(model.read_bytes())
    with pytest.raises(ts.Error, match="No such file.*did you mean '.*resnet50.onnx'"):
        ts.compile(tmp_path / "resnet5O.onnx")


def test_a_folder_that_is_not_there(tmp_path):
    assert "there is no folder" in refused("run", tmp_path / "none/m.onnx")


def test_folders(tmp_path, model):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/resnet.onnx").write_bytes(model.read_bytes())
    assert "is a folder; name a file in it: resnet.onnx" in refused("run", tmp_path / "a")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/saved_model.pb").touch()
    assert "--saved-model" in refused("run", tmp_path / "saved")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert/config.json").write_text("{}")
    with pytest.raises(ts.Error, match="Hugging Face.*optimum-cli export onnx"):
        ts.compile(tmp_path / "bert")


def test_an_empty_file(tmp_path):
    (tmp_path / "m.onnx").touch()
    assert "the file is empty; expected a model" in refused("run", tmp_path / "m.onnx")
    with pytest.raises(ts.Error, match="the file is empty; expected a model"):
        ts.compile(tmp_path / "m.onnx")


def test_an_output_that_cannot_be_written(tmp_path, model):
    """Before anything is compiled: no time is spent on what can't be kept."""
    assert "there is no folder" in refused("compile", model, "-o", tmp_path / "none/m.so")
    (tmp_path / "made").mkdir()
    assert "it is a folder; name a file in it" in refused("compile", model, "-o", tmp_path / "made")
    (tmp_path / "file").touch()
    assert "is no folder" in refused("compile", model, "-o", tmp_path / "file/m.so")
    compiled = ts.compile(model)
    with pytest.raises(ts.Error, match="there is no folder '.*none'.*make it first"):
        compiled.save(tmp_path / "none/m.so")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_output_folder_without_permission(tmp_path, model):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "check the folder's permissions" in refused("compile", model, "-o", tmp_path / "closed/m.so")


# ---- Options


@pytest.mark.parametrize("threads", ["0", "-1", "abc"])
def test_threads(module, threads):
    told = refused("run", module, "--threads", threads, "--input", "x=1x3xf32=ones", status=2)
    assert "--threads" in told and threads in told and "1" in told and "4096" in told


@pytest.mark.parametrize("threads", [-1, "abc", 1.5, True, None, 5000])
def test_threads_in_python(model, module, threads):
    for make in (lambda: ts.compile(model, threads=threads), lambda: ts.load(module, threads=threads)):
        with pytest.raises(ts.Error, match=rf"threads is a number from 1 to 4096, or 0 .*, not {threads!r}"):
            make()


def test_an_unknown_target(tmp_path, model):
    told = refused("compile", model, "-o", tmp_path / "m.so", "--target", "zenver4")
    assert "zenver4" in told and "no CPU of that name" in told
    with pytest.raises(ts.Error, match="zenver4"):
        ts.compile(model, target="zenver4")


# Breaks if the family's name is taken for a CPU of this machine's, whose names are then told.
def test_a_target_without_a_cpu(tmp_path, model):
    for target in ("riscv64", "riscv64:"):
        told = refused("compile", model, "-o", tmp_path / "m.so", "--target", target)
        assert "name a CPU of it, as riscv64:CPU" in told and "rv64gcv" in told


@pytest.mark.parametrize("shapes, given", [([(1, 3)], "list"), ((1, 3), "tuple"), ("x=1x3", "str")])
def test_shapes_that_are_no_dict(model, shapes, given):
    with pytest.raises(ts.Error, match=rf"shapes are a dict by the names .*\(1, 3, 224, 224\).*, not {given}"):
        ts.compile(model, shapes=shapes)


def test_a_shape_that_is_none(model):
    with pytest.raises(ts.Error, match="'x' is a size, or a tuple of sizes, not NoneType"):
        ts.compile(model, shapes={"x": None})
    assert ts.compile(model, shapes={"x": [2, 3]}).inputs[0]["dims"] == ["2", "3"]


def test_a_module_of_torch(model):
    Module = type("Module", (), {"__module__": "torch.nn.modules.module"})
    with pytest.raises(ts.Error, match="not torch.nn.Module; export it: torch.onnx.export"):
        ts.compile(type("Net", (Module,), {})())
    with pytest.raises(ts.Error, match="the path of a file, or its bytes, not int"):
        ts.compile(3)


def test_a_model_of_onnx_is_taken_as_it_is(model, weights):
    given = numpy.ones((1, 3), numpy.float32)
    numpy.testing.assert_array_equal(ts.compile(onnx.load(model))(given), ts.compile(model)(given))


# ---- Inputs


@pytest.fixture(scope="session")
def compiled(model):
    return ts.compile(model)


@pytest.fixture(scope="session")
def pictures(picture_model):
    return ts.compile(picture_model)


def test_a_dict_of_inputs(compiled):
    given = numpy.ones((2, 3), numpy.float32)
    numpy.testing.assert_array_equal(compiled({"x": given}), compiled(given))
    with pytest.raises(ts.Error, match="there is no input 'X'; did you mean 'x'.*the model's inputs are x"):
        compiled({"X": given})
    with pytest.raises(ts.Error, match="there is no input 'pixel_values'; the model's inputs are x"):
        compiled(pixel_values=given)
    with pytest.raises(ts.Error, match="no value for input 'x'; the model's inputs are x"):
        compiled({})


def test_too_many_inputs(compiled):
    given = numpy.ones((2, 3), numpy.float32)
    with pytest.raises(ts.Error, match="2 inputs are given to a model that has 1: x"):
        compiled(given, given)


def test_a_wrong_name_on_the_command_line(module):
    assert "has no input 'X'; did you mean 'x'?" in refused("run", module, "--input", "X=1x3xf32=ones", status=2)


@pytest.mark.parametrize(
    "shape, hint",
    [
        ((1, 4, 5, 3), "its channels come last, and must come first: transpose it to 1x3x4x5"),
        ((3, 4, 5), "it seems to be one sample: put a dimension of 1 in front"),
        ((1, 3, 8, 9), "if it is a picture, resize it to 1x3x4x5"),
        ((2, 3, 4, 5), "the model is made for 1 at a time"),
        ((1, 3, 5, 4), "transpose its last two dimensions"),
    ],
)
def test_pictures_that_do_not_fit(tmp_path, picture_model, pictures, shape, hint):
    given = numpy.zeros(shape, numpy.float32)
    numpy.save(tmp_path / "x.npy", given)
    told = refused("run", picture_model, "--input", tmp_path / "x.npy")
    assert hint in told and f"expected f32 1x3x4x5, got f32 {'x'.join(map(str, shape))}" in told, told
    with pytest.raises(ts.Error) as error:
        pictures(given)
    assert hint in str(error.value) and f"expected f32[1,3,4,5], got f32[{','.join(map(str, shape))}]" in str(error.value)


def test_a_wrong_rank_without_a_hint(compiled):
    with pytest.raises(ts.Error, match=r"expected f32\[batch,3\], got f32\[2,2,2\]: it must have 2 dimensions$"):
        compiled(numpy.zeros((2, 2, 2), numpy.float32))


@pytest.mark.parametrize("given", ["float64", "int32", "uint8"])
def test_wrong_types(tmp_path, module, compiled, given):
    """NumPy's own default, and what a picture's file has."""
    array = numpy.ones((2, 3), given)
    numpy.save(tmp_path / "x.npy", array)
    told = refused("run", module, "--input", f"x={tmp_path / 'x.npy'}")
    assert "expected f32" in told and "convert it to f32" in told
    with pytest.raises(ts.Error, match=r"expected f32\[batch,3\], got .*: the element type differs; convert it to f32"):
        compiled(array)


def test_indices_of_32_bits(tmp_path):
    port = lambda name, type, shape: helper.make_tensor_value_info(name, type, shape)
    graph = helper.make_graph([helper.make_node("Gather", ["w", "ids"], ["y"])], "g",
                              [port("w", TensorProto.FLOAT, [4]), port("ids", TensorProto.INT64, [2])],
                              [port("y", TensorProto.FLOAT, [2])])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(ts.Error, match=r"input 'ids': expected i64\[2\], got i32\[2\]: .*convert it to i64"):
        ts.compile(tmp_path / "m.onnx")(numpy.zeros(4, numpy.float32), numpy.zeros(2, numpy.int32))


def test_a_text_for_a_picture(tmp_path, picture_model):
    pathlib.Path(tmp_path / "x.png").write_text("no picture")
    assert "x.png" in refused("run", picture_model, "--input", tmp_path / "x.png")


def test_a_module_where_a_model_is_expected(module, tmp_path):
    """And the other way round."""
    with pytest.raises(ts.Error, match="load"):
        ts.compile(module)
    with pytest.raises(ts.Error, match="compile"):
        ts.load(ROOT / "README.md")


# ---- Spelling


def test_american_spellings_in_python(model):
    spelled = lambda **settings: ts.train_step(model, "mean_squared_error", learning_rate=0.1, **settings).kinds
    assert spelled(optimizer="adam") == spelled(optimiser="adam") != spelled(optimiser="sgd")
    with pytest.raises(ts.Error, match="none.npz"):
        ts.train(model, "none.npz", optimizer="sgd")


def test_american_spelling_of_a_module_of_layers(tmp_path):
    program = 'import "tensmith/{}.tsm"\nfn main(x: f32[2, 4], w: f32[4]) = rms_normed(x, w)\n'
    given = numpy.arange(8, dtype=numpy.float32).reshape(2, 4), numpy.ones(4, numpy.float32)
    for name in ("normalisation", "normalization"):
        (tmp_path / f"{name}.tsm").write_text(program.format(name))
    made = [ts.compile(tmp_path / f"{name}.tsm")(*given) for name in ("normalisation", "normalization")]
    numpy.testing.assert_array_equal(*made)
