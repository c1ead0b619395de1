"""What the command line refuses: one line that names the file or input, a status of 1 or 2, never a signal."""

import os
import signal
import subprocess
import zipfile

import numpy
import pytest

from test_cli import TENSMITH, model, module, pytestmark, refused, tensmith, weights, x  # noqa: F401 (fixtures)


def test_missing_file(tmp_path):
    assert "no.onnx: No such file" in refused("run", tmp_path / "no.onnx")


def test_folder(tmp_path):
    assert "is a folder" in refused("run", tmp_path)


@pytest.mark.parametrize("action", ["list", "verify", "prune"])
def test_cache_that_is_not_there(action, tmp_path):
    """Breaks if a folder that somebody names, and mistypes, is an empty cache."""
    assert "no-cache" in refused("cache", action, "--cache", tmp_path / "no-cache", status=2)


@pytest.mark.parametrize("name", ["empty.onnx", "empty.so"])
def test_empty_file(tmp_path, name):
    (tmp_path / name).touch()
    assert f"{name}: " in refused("inspect", tmp_path / name)


def test_text_is_no_model(tmp_path):
    (tmp_path / "m.onnx").write_text("this is no model")
    assert "m.onnx" in refused("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    assert not (tmp_path / "m.so").exists()


def test_truncated_model(tmp_path, model):
    bytes = model.read_bytes()
    (tmp_path / "m.onnx").write_bytes(bytes[: len(bytes) // 2])
    assert "m.onnx" in refused("run", tmp_path / "m.onnx")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.999])
def test_truncated_module(tmp_path, module, part):
    bytes = module.read_bytes()
    (tmp_path / "m.so").write_bytes(bytes[: int(len(bytes) * part)])
    assert "m.so" in refused("run", tmp_path / "m.so", "--input", "x=1x3xf32=ones")


def test_no_flipped_byte_crashes(tmp_path, module):
    """Each byte is of the code, plan or signature (caught at once), of the weights (by --verify), or of padding."""
    bytes = bytearray(module.read_bytes())
    caught = 0
    for place in range(0, len(bytes), max(1, len(bytes) // 40)):
        bytes[place] ^= 0x40
        (tmp_path / "m.so").write_bytes(bytes)
        bytes[place] ^= 0x40
        done = subprocess.run([TENSMITH, "inspect", "--verify", tmp_path / "m.so"], capture_output=True, text=True, timeout=60)
        assert done.returncode in (0, 1), (place, done)
        caught += done.returncode
    assert caught > 10


@pytest.mark.parametrize(
    "argument, message, status",
    [
        ("z=1x3xf32=ones", "has no input 'z'", 2),
        ("x=3xf32=ones", "it must have 2 dimensions", 1),
        ("x=1x4xf32=ones", "dimension 1 must be 3, but is 4", 1),
        ("x=1x3xi32=ones", "the element type differs", 1),
        ("x=1x3xf33=ones", "no shape and element type", 2),
        ("x=9999999999x9999999999xf32=ones", "no tensor can have the shape", 2),
        ("x=photo.gif", "is none of", 2),
        ("x=missing.npy", "missing.npy: No such file", 1),
    ],
)
def test_input_that_does_not_fit(module, argument, message, status):
    assert message in refused("run", module, "--input", argument, status=status)


def test_input_given_twice(module):
    assert "given twice" in refused("run", module, "--input", "x=1x3xf32=ones", "--input", "x=1x3xf32=ones", status=2)


@pytest.mark.parametrize("keep", [0, 5, 9, 40, 100, 140])
def test_truncated_npy(tmp_path, module, x, keep):
    path = tmp_path / "x.npy"
    path.write_bytes(path.read_bytes()[:keep])
    assert "x.npy" in refused("run", module, "--input", f"x={path}")


def test_npy_that_claims_more_than_it_has(tmp_path, module, x):
    path = tmp_path / "x.npy"
    bytes = path.read_bytes()
    assert bytes.count(b"(2, 3), }            ") == 1
    path.write_bytes(bytes.replace(b"(2, 3), }            ", b"(999999999999, 3), } "))
    assert "is cut off" in refused("run", module, "--input", f"x={path}")


def test_npz_without_the_input(tmp_path, module):
    numpy.savez(tmp_path / "a.npz", p=numpy.zeros(3), q=numpy.zeros(3))
    assert "it has: p, q" in refused("run", module, "--input", tmp_path / "a.npz")


def test_npz_with_a_wrong_checksum_or_cut_off(tmp_path, module):
    path = tmp_path / "a.npz"
    numpy.savez_compressed(path, x=numpy.arange(300, dtype=numpy.float32).reshape(100, 3))
    bytes = bytearray(path.read_bytes())
    for place in range(0, len(bytes), 7):
        changed = bytearray(bytes)
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        done = subprocess.run([TENSMITH, "run", module, "--input", path], capture_output=True, timeout=60)
        assert done.returncode in (0, 1), (place, done)  # 0: a byte that nobody reads, as of the time
    path.write_bytes(bytes[: len(bytes) // 2])
    assert "a.npz" in refused("run", module, "--input", path)


def test_npz_that_claims_to_be_large(tmp_path, module):
    """A directory entry of 2^40 bytes must not be believed."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\0" * 1000)
    bytes = bytearray(path.read_bytes())
    place = bytes.rindex(b"PK\1\2") + 24
    bytes[place : place + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    path.write_bytes(bytes)
    assert "a.npz" in refused("run", module, "--input", path)


def test_broken_picture(tmp_path, module):
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 50)
    assert "x.png" in refused("run", module, "--input", f"x={tmp_path}/x.png")


@pytest.mark.parametrize("command", [["inspect"], ["run", "--input", "x=1x3xf32=ones"]])
def test_full_disk_behind_stdout(module, command):
    with open("/dev/full", "w") as full:
        done = subprocess.run([TENSMITH, *command, module], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "can't be written" in done.stderr


@pytest.mark.parametrize("command", [["inspect"], ["run", "--input", "x=1x3xf32=ones"]])
def test_nobody_reads_stdout(module, command):
    """As `head` goes: the end that every other program has then, and not a word."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([TENSMITH, *command, module], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


@pytest.fixture
def full_disk(tmp_path):
    folder = tmp_path / "full"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder]).returncode != 0:
        pytest.skip("a small file system can't be mounted here")
    (folder / "filler").write_bytes(b"\0" * 4096)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk(full_disk, model, module):
    assert "full" in refused("compile", model, "-o", full_disk / "m.so")
    assert "No space left" in refused("run", module, "--input", "x=1x3xf32=ones", "--output", full_disk)
    assert [file.name for file in full_disk.iterdir()] == ["filler"]


def test_output_name_stays_in_the_folder(tmp_path):
    """A model's name for an output is no path."""
    from onnx import TensorProto, helper
    import onnx

    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["../../y"])], "g", [value("x")], [value("../../y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    tensmith("run", tmp_path / "m.onnx", "--output", tmp_path / "a/b/c")
    assert [file.suffix for file in (tmp_path / "a/b/c").iterdir()] == [".npy"]
    assert not (tmp_path / "a/y.npy").exists()


def test_a_precision_of_training_alone(tmp_path, model):
    assert "{fast,exact,bf16}" in tensmith("compile", "--help").stdout
    assert "f16 not in {fast,exact,bf16}" in refused("compile", model, "-o", tmp_path / "m.so", "--precision", "f16", status=2)


def test_a_module_is_not_written_over_its_model(model):
    before = model.read_bytes()
    assert "is the model itself" in refused("compile", model, "-o", model)
    assert model.read_bytes() == before


@pytest.mark.parametrize("option", ["--html", "--trace"])
def test_a_page_is_not_written_over_the_model(model, option):
    before = model.read_bytes()
    assert f"is the model itself; give another {option}" in refused("bench", model, option, model)
    assert model.read_bytes() == before


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "halves.tsm"
    path.write_text("fn halves(x: f32[n, d]) = (reshape(x) : f32[n / 2, 2, d])\nfn main(x: f32[n, d]) = reduce_sum(halves(x), axes = [1])\n")
    return path


@pytest.mark.parametrize(
    "file, arguments, message",
    [
        ("model", ["run", "--memory-limit", 20, "--input", "x=9x3xf32=ones"], "there is not enough memory"),
        ("model", ["run", "--memory-limit", 20, "--input", "x=9x3xf32=ones", "-O0"], "there is not enough memory"),
        ("model", ["run", "--memory-limit", 20, "--input", "x=9x3xf32=ones", "--evaluate-by-reference"], "memory"),
        ("model", ["compile", "--node-limit", 1], "node"),
        ("model", ["compile", "--keep", "nowhere"], "no tensor of the main graph"),
        ("program", ["run", "--input", "x=5x3xf32=ones"], "numbers of elements differ: 15 and 12"),
        ("program", ["run", "--input", "x=5x3xf32=ones", "-O0"], "numbers of elements differ: 15 and 12"),
        ("program", ["run", "--input", "x=6x3xf32=ones", "--memory-limit", 30], "memory"),
        ("program", ["run", "--input", "x=5x3xi32=ones"], "the element type differs"),
    ],
)
def test_file_and_node_are_named_once(request, tmp_path, file, arguments, message):
    """Breaks if layers that know the file or the node each say so."""
    path = request.getfixturevalue(file)
    command, *rest = arguments
    line = refused(command, path, *rest, *(["-o", tmp_path / "m.so"] if command == "compile" else []))
    assert message in line and ": :" not in line and "''" not in line, line
    parts = line.split(": ")
    assert len(set(parts)) == len(parts) and line.count(path.name) <= 1, line


def test_a_limit_below_a_single_number(program, tmp_path):
    """Breaks if a number in a program's text may be refused memory, which ends the process."""
    done = subprocess.run([TENSMITH, "compile", program, "-o", tmp_path / "m.so", "--memory-limit", "3"], capture_output=True, timeout=60)
    assert done.returncode in (0, 1), done
