"""bench/code: which kernels of two builds differ is told, and nothing else is."""

import importlib.util
import json
import pathlib
import subprocess
import sys
from importlib.machinery import SourceFileLoader

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
code = importlib.util.module_from_spec(importlib.util.spec_from_loader("code", SourceFileLoader("code", str(ROOT / "bench/code"))))
code.__spec__.loader.exec_module(code)


def row(module, kernels, size=4096):
    return {"bytes": size, "module": module, "kernels": kernels}


# Breaks if a kernel that is there twice counts once, or one that is gone alone is no difference.
def test_kernels_that_differ_are_counted():
    before = row("a", {"one": 2, "two": 1})
    assert code.difference(row("a", {}), before) == ("the same bytes", False)
    assert code.difference(row("b", {"two": 1, "one": 2}), before) == ("the same kernels", False)
    assert code.difference(row("b", {"one": 1, "three": 1}, 8192), before) == ("1 of 2 kernels are not among the 3 of before, +4,096 bytes", True)
    assert code.difference(row("b", {"one": 2}), before)[1]


# Breaks if a kernel's name is taken for code, or two compilations of one model differ.
def test_a_model_has_the_same_code_twice(tmp_path):
    command = [ROOT / "bench/code", ROOT / "examples/fashion/fashion.onnx", "--target", "x86-64-v3"]
    subprocess.run([*command, "--json", tmp_path / "before.json"], check=True, capture_output=True)
    again = subprocess.run([*command, "--against", tmp_path / "before.json"], check=True, capture_output=True, text=True).stdout
    assert again.split(maxsplit=2)[2].strip() == "the same bytes"
    changed = json.loads((tmp_path / "before.json").read_text())
    kernels = changed["code"][0]["kernels"]
    assert len(kernels) >= 5
    changed["code"][0] |= {"module": "another", "kernels": {"another": 1, **dict(list(kernels.items())[1:])}}
    (tmp_path / "before.json").write_text(json.dumps(changed))
    done = subprocess.run([*command, "--against", tmp_path / "before.json"], capture_output=True, text=True)
    assert done.returncode == 1 and "kernels are not among" in done.stdout
