"""Models and modules that are damaged or hostile, through the command line: refused with one line that names the file and,
where there is one, the node; with status 1, no signal, and no more memory than a small model needs."""

import os
import resource
import struct

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_cli import model, module, pytestmark, refused, tensmith, weights  # noqa: F401 (fixtures)

MEMORY = 3 << 30  # bytes of address space, of which LLVM's libraries are the most


def bounded():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def turned_down(path, *words, command=("compile",)):
    """The message, which must name the file and the words."""
    arguments = [*command, path] + (["-o", path.with_suffix(".made")] if command[0] == "compile" else [])
    message = refused(*arguments, preexec_fn=bounded)
    assert path.name in message and len(message) < 2000
    for word in words:
        assert word in message, message
    assert not path.with_suffix(".made").exists()
    return message


def floats(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def save(path, nodes, initializers=(), inputs=None, outputs=None):
    graph = helper.make_graph(nodes, "g", inputs or [floats("x", 2, 3)], outputs or [floats("y", 2, 3)], list(initializers))
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\xff" * 100, b"\x08"], ids=["empty", "zeros", "ones", "one byte"])
def test_no_model_at_all(tmp_path, content):
    (tmp_path / "m.onnx").write_bytes(content)
    turned_down(tmp_path / "m.onnx")


def test_model_cut_off_anywhere(tmp_path, model):
    bytes = model.read_bytes()
    for part in range(1, 10):
        (tmp_path / "cut.onnx").write_bytes(bytes[: len(bytes) * part // 10])
        turned_down(tmp_path / "cut.onnx")


def test_initialiser_that_claims_2_to_the_62_elements(tmp_path):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 31, 1 << 31], raw_data=b"\0" * 4)
    turned_down(save(tmp_path / "m.onnx", [helper.make_node("Add", ["x", "w"], ["y"], "adds")], [tensor]), "w")


def test_constant_that_claims_2_to_the_62_elements(tmp_path):
    shape = numpy_helper.from_array(numpy.array([1 << 31, 1 << 31]), "shape")
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["w"], "large"), helper.make_node("Add", ["x", "w"], ["y"], "adds")]
    ports = {"inputs": [floats("x", 1, 1)], "outputs": [floats("y", None, None)]}
    turned_down(save(tmp_path / "m.onnx", nodes, [shape], **ports), "elements", "adds")


def test_input_that_claims_2_to_the_62_elements(tmp_path):
    ports = {"inputs": [floats("x", 1 << 31, 1 << 31)], "outputs": [floats("y", 1 << 31, 1 << 31)]}
    turned_down(save(tmp_path / "m.onnx", [helper.make_node("Neg", ["x"], ["y"], "negates")], **ports), "x")


def test_cycle(tmp_path):
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], "first"), helper.make_node("Add", ["a", "x"], ["b"], "second")]
    turned_down(save(tmp_path / "m.onnx", nodes + [helper.make_node("Neg", ["b"], ["y"])]), "cycle", "first")


def test_missing_initialiser(tmp_path):
    turned_down(save(tmp_path / "m.onnx", [helper.make_node("Add", ["x", "gone"], ["y"], "adds")]), "gone", "adds")


def test_types_that_do_not_fit_between_nodes(tmp_path):
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], "casts", to=TensorProto.INT64),
        helper.make_node("Add", ["x", "i"], ["y"], "adds"),
    ]
    turned_down(save(tmp_path / "m.onnx", nodes), "adds")


def test_shapes_that_do_not_fit_between_nodes(tmp_path):
    w = numpy_helper.from_array(numpy.zeros((4, 3), numpy.float32), "w")
    turned_down(save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"], "multiplies")], [w]), "multiplies")


def external(path, location, offset=0, length=24):
    """A model whose weight is in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=str(value))
    return save(path, [helper.make_node("Add", ["x", "w"], ["y"], "adds")], [tensor])


def test_external_data_beside_the_model(tmp_path):
    """What the refusals below differ from."""
    (tmp_path / "w.bin").write_bytes(numpy.ones(6, numpy.float32).tobytes())
    external(tmp_path / "m.onnx", "w.bin")
    assert "2, 2, 2" in tensmith("run", tmp_path / "m.onnx", "--input", "x=2x3xf32=ones").stdout


@pytest.mark.parametrize("location", ["../../etc/passwd", "/etc/passwd", "a/../../../etc/passwd", "..", "", "w\0.bin"])
def test_external_data_outside_the_model_s_folder(tmp_path, location):
    turned_down(external(tmp_path / "m.onnx", location), "w")


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_external_data_through_a_link(tmp_path, link):
    (tmp_path / "secret").write_bytes(b"\0" * 24)
    (tmp_path / "model").mkdir()
    link(tmp_path / "secret", tmp_path / "model/w.bin")
    turned_down(external(tmp_path / "model/m.onnx", "w.bin"), "w.bin", "link")


def test_external_data_through_a_linked_folder(tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/w.bin").write_bytes(b"\0" * 24)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/data").symlink_to(tmp_path / "secrets")
    turned_down(external(tmp_path / "model/m.onnx", "data/w.bin"), "w.bin")


@pytest.mark.parametrize("offset, length", [(8, 24), (1 << 40, 24), ((1 << 63) - 8, 24), (-8, 24), (0, 20), (0, 1 << 62)])
def test_external_data_past_the_end(tmp_path, offset, length):
    (tmp_path / "w.bin").write_bytes(b"\0" * 24)
    turned_down(external(tmp_path / "m.onnx", "w.bin", offset, length), "w")


def test_subgraphs_nested_10000_deep(tmp_path):
    """Written as bytes, since protobuf's own writer would need the depth, too."""

    def field(number, content):
        size, length = len(content), b""
        while True:
            length += bytes([size & 0x7F | (0x80 if size > 0x7F else 0)])
            size >>= 7
            if not size:
                return bytes([number << 3 | 2]) + length + content

    graph = field(2, b"innermost")
    for _ in range(10_000):
        attribute = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
        graph = field(1, field(1, b"c") + field(2, b"y") + field(4, b"If") + field(5, attribute))
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08" + field(7, graph) + field(8, b"\x10\x11"))
    turned_down(tmp_path / "m.onnx", "nested")


def sections(path):
    """Name -> (offset, size) of a 64-bit ELF file."""
    data = path.read_bytes()
    table, size, count, names = struct.unpack_from("<Q", data, 40) + struct.unpack_from("<3H", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    text = lambda at: data[headers[names][4] + at : data.index(b"\0", headers[names][4] + at)].decode()
    return {text(name): (offset, length) for name, _, _, _, offset, length in headers}


def flipped(module, path, section):
    """The module with one bit changed, at the beginning, middle and end of a section."""
    offset, length = sections(module)[section]
    if section == ".tensmith.header":
        length -= 16  # the hash of the weights, which goes with them
    data = bytearray(module.read_bytes())
    for place in {offset, offset + length // 2, offset + length - 1}:
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        yield path


@pytest.mark.parametrize("section", [".text", ".tensmith.plan", ".tensmith.header"])
def test_flipped_byte_is_caught_at_every_load(tmp_path, module, section):
    for path in flipped(module, tmp_path / "flipped.so", section):
        for command in (["run", "--input", "x=1x3xf32=ones"], ["inspect"], ["bench", "--input", "x=1x3xf32=ones"]):
            turned_down(path, command=command)


def test_flipped_byte_in_the_weights_is_caught_when_asked(tmp_path, module):
    for path in flipped(module, tmp_path / "flipped.so", ".tensmith.weights"):
        tensmith("run", path, "--input", "x=1x3xf32=ones")
        turned_down(path, "weights", command=["run", "--verify", "--input", "x=1x3xf32=ones"])
        turned_down(path, "weights", command=["inspect", "--verify"])


def test_module_for_features_that_the_cpu_lacks(tmp_path, model):
    if os.uname().machine != "x86_64" or " xop " in open("/proc/cpuinfo").read():
        pytest.skip("no feature is known that this CPU lacks")
    tensmith("compile", model, "-o", tmp_path / "m.so", "--target", "x86-64-v2,+xop,+fma4")
    turned_down(tmp_path / "m.so", "xop", "compile", command=["run", "--input", "x=1x3xf32=ones"])


def test_file_size_limit_while_writing(tmp_path, model, module):
    """As a full disk: the write fails, the message says which file, and nothing is left behind."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    message = refused("compile", model, "-o", tmp_path / "m.so", "--no-cache", preexec_fn=small_files)
    assert "File too large" in message
    assert "y.npy" in refused("run", module, "--input", "x=999x3xf32=ones", "--output", tmp_path, preexec_fn=small_files)
    assert list(tmp_path.iterdir()) == []


def test_cache_that_can_not_be_written_costs_nothing_but_time(tmp_path, model):
    tensmith("compile", model, "-o", tmp_path / "m.so", "--cache", "/dev/full/cache")
    assert (tmp_path / "m.so").exists()
