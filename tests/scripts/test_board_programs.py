"""tests/boards, bench/instructions and bench/cycles: what they keep is of what is asked, and a name that isn't there is an error."""

import importlib.util
import json
import pathlib
import subprocess
import sys
from importlib.machinery import SourceFileLoader

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("bench", "tests/boards"):
    sys.path.insert(0, str(ROOT / folder))

onnx = pytest.importorskip("onnx")
import emulators  # noqa: E402


def program(path):
    loader = SourceFileLoader(pathlib.Path(path).stem + "_program", str(ROOT / path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def records(path, value, **key):
    return emulators.Records(path).of(lambda: {"error": value}, **key)["error"]


# Breaks if a run that was interrupted starts anew, or a record is taken that is of more than what is asked.
def test_records_are_of_what_is_asked(tmp_path):
    path = tmp_path / "records.json"
    assert records(path, 1, model="m", sizes={"batch": 1}) == 1
    assert records(path, 2, model="m", sizes={"batch": 1}) == 1
    assert records(path, 3, model="m", sizes={}) == 3
    assert records(path, 4, model="m") == 4
    assert len(json.loads(path.read_text())) == 3


# Breaks if records of an older form are taken for those of a build that they may not be of.
def test_records_that_do_not_say_what_they_are_of_are_refused(tmp_path):
    path = tmp_path / "records.json"
    path.write_text(json.dumps([{"model": "m", "error": 1}]))
    with pytest.raises(SystemExit, match="what they are of"):
        records(path, 2, model="m")


# Breaks if two models of one name share a record: weights in the file, and in one beside it.
def test_models_of_one_name_differ(tmp_path):
    pytest.importorskip("onnxruntime")
    models = program("tests/boards/models.py")
    digests = set()
    for number, external in ((1, False), (2, False), (1, True), (2, True)):
        folder = tmp_path / f"{number}-{external}"
        folder.mkdir()
        weights = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], number.to_bytes(8, "little"), raw=True)
        output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
        graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["w"], ["y"])], "g", [], [output], [weights])
        onnx.save(onnx.helper.make_model(graph), folder / "m.onnx", save_as_external_data=external, location="w.bin", size_threshold=0)
        assert (folder / "w.bin").exists() == external
        digests.add(models.digest(folder / "m.onnx"))
    assert len(digests) == 4


# Breaks if nothing is run where nothing, or what isn't there, is named, and that counts as right.
@pytest.mark.parametrize("words, said", [
    (["tests/boards/models.py"], "no model is named"), (["tests/boards/models.py", "nowhere.onnx"], "nowhere.onnx: there is no such file"),
    (["tests/boards/models.py", "--raced", "resnet5"], "'resnet5'"), (["bench/instructions", "--only", "resnet5"], "'resnet5'"),
])  # fmt: skip
def test_a_name_that_is_not_there_is_an_error(words, said):
    if "boards" in words[0]:
        pytest.importorskip("onnxruntime")
    done = subprocess.run([sys.executable, ROOT / words[0], *words[1:]], capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr


# Breaks if another CPU's counts are overwritten, or a library's count is taken for one of another version, or of one that nobody knows.
def test_counts_are_kept_of_one_cpu_and_one_version(tmp_path):
    instructions = program("bench/instructions")
    path = tmp_path / "counts.json"
    row, of = {"model": "resnet50", "tensmith": 3, "onnxruntime": 4}, {"cpu": "cortex-a76", "onnxruntime": "1.32.0"}
    assert instructions.kept_rows(path, of) == {} and instructions.kept_rows(None, of) == {}
    path.write_text(json.dumps({**of, "instructions": [row]}))
    assert instructions.kept_rows(path, of) == {"resnet50": row}
    for other in ({"cpu": "cortex-a53"}, {"onnxruntime": "1.33.0"}, {"onnxruntime": None}):
        with pytest.raises(SystemExit, match="name another file"):
            instructions.kept_rows(path, {**of, **other})
    unknown = {**of, "onnxruntime": None}
    path.write_text(json.dumps({**unknown, "instructions": [row]}))
    with pytest.raises(SystemExit, match="an unknown version"):
        instructions.kept_rows(path, unknown)


# Breaks if figures by another CPU's model are given without its name: LLVM 19 has none of a Cortex-A76.
def test_cycles_name_the_model_that_they_are_of():
    cycles = program("bench/cycles")
    assert [cycles.modelled(cpu) for cpu in ("cortex-a53", "cortex-a76", "neoverse-n1")] == ["A53", "A57", "N1"]
