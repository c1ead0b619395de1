"""The commands of docs/tour.md do what it says, in its order, on a model of one operator; and that of README.md shows what it says."""

import os
import pathlib
import re
import shlex
import subprocess

import numpy
import onnx
import PIL.Image
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
COMMANDS = re.findall(r"^tensmith (\w[^#\n]*?) *(?:#.*)?$", (ROOT / "docs/tour.md").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("readme")
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 5])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4, 5])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [picture], [result])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path / "model.onnx")
    PIL.Image.fromarray(numpy.full((4, 5, 3), 128, numpy.uint8)).save(path / "photo.png")
    return path


def test_the_commands_are_found():
    assert {command.split()[0] for command in COMMANDS} >= {"run", "compile", "bench", "inspect", "compare"}


@pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")
@pytest.mark.parametrize("command", COMMANDS)
def test_command(folder, command):
    done = subprocess.run([TENSMITH, *shlex.split(command)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    if command.startswith("bench"):  # "time per run and per kernel"
        assert "median" in done.stdout
        shown = (folder / "roofline.html").read_text() if "--html" in command else done.stdout
        assert "add" in shown or "--" not in command


@pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")
def test_the_example_of_the_first_page():
    [(command, shown)] = re.findall(r"^\$ \./run ([^\n]+)\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run([TENSMITH, *shlex.split(command)], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    words, found = shown.split(), done.stdout.split()
    assert [word for word in words if "." not in word] == [word for word in found if "." not in word]
    assert [float(word) for word in found if "." in word] == pytest.approx([float(word) for word in words if "." in word], rel=1e-3)
