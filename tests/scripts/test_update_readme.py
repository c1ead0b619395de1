"""scripts/update-readme writes what the results say, leaves out what is not there, and changes nothing else."""

import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RACE = {"model": "resnet50", "threads": 2, "machine": "a machine",
        "engines": {"tensmith": {"median_ms": 9.0}, "onnxruntime": {"median_ms": 6.0}}}
SUITE = {"suite": "onnx.backend.test", "passed": 1300, "total": 2033}


def update(tree, *arguments):
    return subprocess.run([sys.executable, ROOT / "scripts/update-readme", "--root", tree, *arguments],
                          capture_output=True, text=True)


def readme(tree):
    return (tree / "README.md").read_text()


def copy_of_readme(tmp_path, results=()):
    shutil.copy(ROOT / "README.md", tmp_path)
    (tmp_path / "bench/results").mkdir(parents=True)
    for name, content in results:
        (tmp_path / "bench/results" / name).write_text(json.dumps(content))
    return tmp_path


def test_figures_come_from_the_results(tmp_path):
    tree = copy_of_readme(tmp_path, [("race.json", [RACE]), ("suite.json", SUITE)])
    assert update(tree).returncode == 0
    assert "| resnet50 | 2 | 9.00 | 6.00 | 1.50 |" in readme(tree)
    assert "| Tests of `onnx.backend.test` passed | 1,300 of 2,033 |" in readme(tree)


# Breaks if an engine's column is there though it never ran, or one that rounds more counts for the ratio.
def test_the_table_has_the_engines_that_ran(tmp_path):
    race = {"model": "m", "threads": 1, "engines": {
        "tensmith": {"median_ms": 3.0, "exact_error": 2e-7}, "onnxruntime": {"median_ms": 4.0}, "openvino": {"median_ms": 2.0},
        "openvino_bf16": {"median_ms": 1.0, "precision": "bf16"}, "iree": {"error": "no"}, "torch": {"unavailable": "no"}}}
    tree = copy_of_readme(tmp_path, [("race.json", [RACE, race])])
    assert update(tree).returncode == 0
    assert "| model | threads | Tensmith | ONNX Runtime | OpenVINO | OpenVINO, bf16 | ratio |" in readme(tree)
    assert "| m | 1 | 3.00 (2e-07) | 4.00 | 2.00 | 1.00 | 1.50 |" in readme(tree)
    assert "| resnet50 | 2 | 9.00 | 6.00 | - | - | 1.50 |" in readme(tree)


def test_steps_of_training_have_a_table(tmp_path):
    step = {"step": "mlp", "threads": 1, "median_ms": {"tensmith": 4.0, "jax": 5.0, "torch": 8.0}, "memory_mb": {"tensmith": 6.0, "jax": 60.0, "torch": 16.0}}
    tree = copy_of_readme(tmp_path, [("train-mlp.json", [step])])
    assert update(tree).returncode == 0
    assert "| step | threads | Tensmith | PyTorch | JAX | ratio |" in readme(tree)
    assert "| mlp | 1 | 4.0 (6) | 8.0 (16) | 5.0 (60) | 0.80 |" in readme(tree)


def test_without_results_the_table_is_empty_and_the_rest_stands(tmp_path):
    tree = copy_of_readme(tmp_path)
    assert update(tree).returncode == 0
    assert "ONNX Runtime | ratio" not in readme(tree)
    assert readme(tree).partition("<!--")[0] == (ROOT / "README.md").read_text().partition("<!--")[0]


def test_check_finds_a_stale_table(tmp_path):
    tree = copy_of_readme(tmp_path)
    update(tree)
    assert update(tree, "--check").returncode == 0
    (tree / "bench/results/race.json").write_text(json.dumps(RACE))
    assert update(tree, "--check").returncode == 1


def test_the_checkouts_own_table_is_up_to_date():
    stale = update(ROOT, "--check")
    assert stale.returncode == 0, stale.stderr
