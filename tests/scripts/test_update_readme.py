"""scripts/update-readme writes what the results say into README.md and the pages of docs/, leaves out what is not there, and changes nothing else."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RACE = {"model": "resnet50", "threads": 2, "machine": "a machine",
        "engines": {"tensmith": {"median_ms": 9.0}, "onnxruntime": {"median_ms": 6.0}}}
PLAN = {"mb": 1204.9, "ms": 1000.0}
SLOPES = {plan: {"arena_mb": 0.98, "mb": 0.5} for plan in ("sharing", "segments", "recursive")}
APART = {"batches": 10, "agreed": 10, "largest_of_those": 3e-6}
GRID = {"passes": 900, "within": 0.93, "geometric_mean": 1.018, "worst": 1.75}
LAYER = {"in": 3, "out": 96, "window": 11, "size": 128, "batch": 1}
OF_TRAINING = {
    "fourier.json": {"grid": {"drawn": 800, "layers": 300, **GRID, "by_pass": dict.fromkeys(("output", "image", "weights"), GRID), "few_channels": GRID, "unseen": GRID},
                     "layers": {"by_pass": dict.fromkeys(("output", "image", "weights"), 1.5),
                                "points": [{**LAYER, "pass": each, "ratio": ratio} for each, ratio in (("output", 1.75), ("image", 0.25), ("weights", 5.0))]}},
    "rescaling.json": {"dense": {"epochs": 2, "sgd": {"rate": 0.3, "losses": [[1, 0.25], [1, 0.75]], "errors": [[0.5, 0.125], [0.5, 0.25]]}}},
    "recomputation.json": {"rows": [{"model": "residual", "layers": 1024, "sharing": PLAN, "segments": {"mb": 113.3, "ms": 1310.0},
                                     "recursive": {"mb": 95.2, "ms": 2000.0}, "same_bits": True}], "slopes": SLOPES},
    "checkpoints.json": {"rows": [{"program": "lstm", "length": 10000, "all": {"mb": 0.25, "ms": 200.0, "ms_least": 100.0},
                                   "segments": {"mb": 2.5, "ms": 250.0, "ms_least": 110.0},
                                   "recursive": {"mb": 1.5, "ms": 300.0, "ms_least": 170.0}, "same_bits": True}],
                         "slopes": {"lstm": {"all": 0.98, "segments": 0.5, "recursive": 0.1}}},
    "processes.json": [{"network": "mlp", "processes": 1, "zero": 0, "samples_per_second": 20000.0, "optimiser_bytes": None, "apart": 0.0, "speedup": 1.0},
                       {"network": "mlp", "processes": 2, "zero": 1, "samples_per_second": 33000.0, "optimiser_bytes": 2678912, "apart": 6e-5,
                        "speedup": 1.65}],
    "follow.json": [{"follow": "treelstm", "gradients": dict.fromkeys(("ours_to_theirs", "ours_to_double", "theirs_to_double"), APART),
                     "losses": {"sgd": {"rate": 0.1, "first": 1.5, "last": 0.25,
                                        **dict.fromkeys(("ours_to_theirs", "ours_to_double", "theirs_to_double"), {"largest": 3e-7, "9": 2e-7, "10": 1e-7})}}}]}
SUITE = {"suite": "onnx.backend.test", "passed": 1300, "total": 2033}


def update(tree, *arguments):
    return subprocess.run([sys.executable, ROOT / "scripts/update-readme", "--root", tree, *arguments],
                          capture_output=True, text=True)


def figures(tree):
    return (tree / "docs/figures.md").read_text()


def training(tree):
    return (tree / "docs/training.md").read_text()


def copy_of_readme(tmp_path, results=()):
    shutil.copy(ROOT / "README.md", tmp_path)
    (tmp_path / "docs").mkdir()
    for page in [page.name for page in (ROOT / "docs").glob("*.md") if "made by scripts/update-readme" in page.read_text()]:
        shutil.copy(ROOT / "docs" / page, tmp_path / "docs")
    (tmp_path / "bench/results").mkdir(parents=True)
    for name, content in results:
        (tmp_path / "bench/results" / name).write_text(json.dumps(content))
    return tmp_path


def test_figures_come_from_the_results(tmp_path):
    tree = copy_of_readme(tmp_path, [("race.json", [RACE]), ("suite.json", SUITE)])
    assert update(tree).returncode == 0
    assert "| resnet50 | 2 | 9.00 | 6.00 | 1.50 |" in figures(tree)
    assert "| Tests of `onnx.backend.test` passed | 1,300 of 2,033 |" in figures(tree)


def test_instructions_are_those_that_were_counted(tmp_path):
    counted = {"cpu": "cortex-a76", "onnxruntime": "1.32.0", "instructions": [{"model": "resnet50", "tensmith": 1_075_200_000, "onnxruntime": 1_422_500_000}]}
    tree = copy_of_readme(tmp_path, [("instructions.json", counted)])
    assert update(tree).returncode == 0
    page = (tree / "docs/targets.md").read_text()
    assert "| model on cortex-a76 | Tensmith | ONNX Runtime 1.32.0 | ratio |" in page and "| resnet50 | 1,075.2 | 1,422.5 | 0.76 |" in page


# Breaks if parts of a run are not added up, a machine's figures stand in another's column, or the smaller of a kernel's spaces for the larger.
def test_what_other_machines_have_shown(tmp_path):
    part = {"nodes": 900, "elements": 70_000, "not_evaluated": 1, "not_emulated": 2, "failed": 0}
    points = {"case": "conv", "points": 200, "failed": 0, "problems": [], "templates": ["pack", "contraction"]}
    board = {"model": "vgg19", "inputs": {"input": [1, 3, 224, 224]}}
    tree = copy_of_readme(tmp_path, [
        ("board-graphs.json", [{"target": "armv7:cortex-a7", "first": first, "graphs": 100, **part} for first in (1, 101)]),
        ("board-points.json", [{**points, "target": "host", "space": [12, 4000]}, *({**points, "target": "aarch64:cortex-a53", "space": [8, 5000], "failed": failed} for failed in (1, 2))]),
        ("board-models.json", [{**board, "target": "armv7:cortex-a7", "error": 2.5e-7}, {**board, "target": "aarch64:cortex-a53", "error": 5e-7}]),
        ("cycles.json", {"cycles": [{"cpu": "aarch64:neoverse-n1", "model": "N1", "product": "i8", "instruction": "sdot", "of_peak": 0.99, "against_f32": 4.04}]})])
    assert update(tree).returncode == 0
    page = (tree / "docs/targets.md").read_text()
    for line in ("| armv7:cortex-a7 | 200 | 1,800 | 140,000 | 2 | 4 | 0 |", "| conv | 4,000 to 5,000 | 200, 0 | 400, 3 |",
                 "| vgg19 | 1x3x224x224 | 2.5e-07 | 5.0e-07 |", "| neoverse-n1 | N1 | i8 | `sdot` | 0.99 | 4.0 |"):
        assert line in page


# Breaks if a library's time stands in another's column, or the slower engine's rate for the other's.
def test_figures_of_the_engine(tmp_path):
    times = {"tensmith": {"median_us": 1.25}, "torch": {"median_us": 2.5}}
    eager = {"small_operations": {"a view": times}, "engine_operations_a_cpu_second": {"small": {"median": 7.5e6}, "large": {"median": 5e5}}, "two_chains": {"ratio": 1.75}}
    tree = copy_of_readme(tmp_path, [("eager.json", eager)])
    assert update(tree).returncode == 0
    page = (tree / "docs/eager.md").read_text()
    assert "| a view | 1.25 us | - | 2.50 us |" in page and "handed to workers | 0.50 million |" in page and "| 1.75 |" in page


def test_staleness_has_the_mean_of_its_seeds(tmp_path):
    tree = copy_of_readme(tmp_path, [("kvstore.json", {"rows": [{"way": "rounds", "accuracies": [0.8, 0.9]}]})])
    assert update(tree).returncode == 0
    assert "| rounds | 85.00 (80.00 to 90.00) % |" in (tree / "docs/kvstore.md").read_text()


def test_ratios_are_of_medians(tmp_path):
    times = {name: {"median": value, "least": 1.0} for name, value in {"W1A1": 2.0, "W1A2": 4.0, "W2A2": 8.0, "int16": 16.0, "int8": 6.0}.items()}
    way = {"median_ms": 3.0}
    tree = copy_of_readme(tmp_path, [("bits.json", {"microseconds": {"56x64": times}}), ("nest.json", {"rows": [{"size": 512, "shares": {"packed": [0.5, 0.75, 0.25]}, "bytes_by_packed": [2.0]}]}),
                                     ("janus.json", {"steps": 9, "GAN": {"eager": way, "converted": way, "eager_to_converted": 1.5}}),
                                     ("drafts.json", {"ways": {"lookup": {"guessed": 40, "accepted": 30, "tokens": 60, "steps": 24, "of_plain": 1.75}}}),
                                     ("tokens.json", {"threads": {"1": {"formats": {"q4_K": {"token behind 16": {"f16": 2.0, "llama.cpp / f16": 1.5, "llama.cpp / q8_0": 1.25}}}}}}),
                                     ("lookups.json", {"bits": {"1": {"tables_wide": {"median": 98.2}}}}),
                                     ("symbols.json", {"rows": [{"network": "MLP", "inference": 1, "naive inference": 4, "training": 6, "naive training": 12, "buckets": 9}]})])  # fmt: skip
    assert update(tree).returncode == 0
    for page, line in (("bits", "| 56x64 | 8.00 | 4.00 | 2.00 | 3.00 |"), ("nests", "| 512 | 0.50 (0.25 to 0.75) | 2.00 (2.00 to 2.00) |"), ("functions", "| GAN | 3.00 | 3.00 | 1.50 |"),
                       ("language-models", "| `--lookup` | 40 | 30 | 2.50 | 1.75 |"), ("language-models", "| 1 | q4_K | token behind 16 | 2.0 | 1.50 |  |  | 1.25 |"),
                       ("bits", "| tables of 16 bits, AVX-512 | 98 |"), ("symbols", "| MLP | 0.25 | 0.50 | 1.50 |")):  # fmt: skip
        assert line in (tree / f"docs/{page}.md").read_text()


# Breaks if a model that doesn't agree is counted among those that do.
def test_doors_of_pytorch(tmp_path):
    net = {"model": "resnet18", "library": "torchvision", "side": 64, "from_torch": 3e-7, "compile": 5e-7, "graphs": 2, "graphs_of_eager": 1}
    tree = copy_of_readme(tmp_path, [("torch-models.json", {"tolerance": 1e-4, "models": [net, net | {"compile": 2e-4}, net | {"compile": "Error"}]})])
    assert update(tree).returncode == 0
    page = (tree / "docs/pytorch.md").read_text()
    assert "| torchvision's smallest classifiers | 1 of 3 | 3.0e-07 | 5.0e-07 | 1 |" in page


# Breaks if a ratio is turned over, is of clock where CPU is said, or if a run that failed counts.
def test_speed_of_torch_compile(tmp_path):
    run = {"model": "mlp", "mode": "training", "threads": 2, "median_s": {"eager": 3.0, "inductor": 2.0, "tensmith": 2.0},
           "cpu_s": {"eager": 6.0, "inductor": 3.0, "tensmith": 2.0}, "compile_cpu_s": {"eager": 0.0, "inductor": 11.4, "tensmith": 0.6}}
    failed = {"model": "one that failed", "mode": "training", "threads": 2, "failure": "no"}
    tree = copy_of_readme(tmp_path, [("torch.json", {"runs": [run, failed]})])
    assert update(tree).returncode == 0
    page = (tree / "docs/pytorch.md").read_text()
    assert "| mlp | training | 2 | 1.50 (3.00) | 1.00 (1.50) | 0.6 / 11.4 |" in page
    assert "| geometric mean |  |  | 1.50 (3.00) | 1.00 (1.50) |  |" in page and "one that failed" not in page


# Breaks if the losses of another engine are told, or those of a run that failed.
def test_losses_beside_pytorch(tmp_path):
    run = {"model": "mlp", "mode": "adam", "losses": {"eager": [1.5, 0.5], "tensmith": [1.5, 0.6]}, "apart": {"tensmith": 2e-7, "eager, rounded": 3e-7, "tensmith, in double": 4e-9}}
    tree = copy_of_readme(tmp_path, [("torch-losses.json", {"runs": [run, {"model": "lenet", "mode": "adam", "failure": "no"}]})])
    assert update(tree).returncode == 0
    page = (tree / "docs/pytorch.md").read_text()
    assert "| mlp | 1.5 | 0.5 | 2.0e-07 | 3.0e-07 | 4.0e-09 |" in page and "| lenet | 1.5" not in page


# Breaks if an engine's column is there though it never ran, or one that rounds more counts for the ratio.
def test_the_table_has_the_engines_that_ran(tmp_path):
    race = {"model": "m", "threads": 1, "engines": {
        "tensmith": {"median_ms": 3.0, "exact_error": 2e-7}, "onnxruntime": {"median_ms": 4.0}, "openvino": {"median_ms": 2.0},
        "openvino_bf16": {"median_ms": 1.0, "precision": "bf16"}, "iree": {"error": "no"}, "torch": {"unavailable": "no"}}}
    tree = copy_of_readme(tmp_path, [("race.json", [RACE, race])])
    assert update(tree).returncode == 0
    assert "| model | threads | Tensmith | ONNX Runtime | OpenVINO | OpenVINO, bf16 | ratio |" in figures(tree)
    assert "| m | 1 | 3.00 (2e-07) | 4.00 | 2.00 | 1.00 | 1.50 |" in figures(tree)
    assert "| resnet50 | 2 | 9.00 | 6.00 | - | - | 1.50 |" in figures(tree)


# Breaks if models that have their own table on another page are rows of this one.
def test_other_architectures_are_one_sentence(tmp_path):
    others = [dict(RACE, model=model, engines={"tensmith": {"median_ms": ours}, "openvino": {"median_ms": 4.0}}) for model, ours in (("a", 1.0), ("b", 4.0))]
    tree = copy_of_readme(tmp_path, [("race.json", [RACE]), ("architectures.json", others)])
    assert update(tree).returncode == 0
    assert "Of 2 other architectures" in figures(tree) and "0.25 to 1.00, 0.50 in the geometric mean" in figures(tree)
    assert "| a | 2 |" not in figures(tree) and "| model | threads | Tensmith | ONNX Runtime | ratio |" in figures(tree)


# Breaks if precisions are mixed up, or these races are rows of the table, which is another machine's.
def test_the_matrix_unit_is_one_sentence(tmp_path):
    def race(quantized, **times):
        return {"model": "m", "threads": 1, "machine": "its machine", "quantized": quantized, "engines": {name: {"median_ms": time} for name, time in times.items()}}

    unit = [race(False, tensmith=8.0, tensmith_bf16=1.0, openvino=10.0, openvino_bf16=2.0, onnxruntime=16.0),
            race(False, tensmith=2.0, tensmith_bf16=4.0, openvino=16.0, openvino_bf16=2.0, onnxruntime=10.0),
            race(True, tensmith=3.0, tensmith_bf16=3.0, openvino=4.0, openvino_bf16=1.0, onnxruntime=5.0),
            {"model": "m", "rows": [{"length": 1, "to_best": 0.5}, {"length": 8, "to_best": 0.72}]}]
    tree = copy_of_readme(tmp_path, [("race.json", [RACE]), ("matrix-unit.json", unit)])
    assert update(tree).returncode == 0
    assert ("bf16 0.50 to 2.00, 1.00 in the geometric mean; 8 bits 0.75 to 0.75, 0.75 in the geometric mean; "
            "fp32 0.20 to 0.80, 0.40 in the geometric mean; "
            "fp32 of one compilation for 2 lengths 0.50 to 0.72, 0.60 in the geometric mean." in figures(tree))
    assert "AMX; its machine" in figures(tree) and "| m | 1 |" not in figures(tree)


def test_steps_of_training_have_a_table(tmp_path):
    step = {"step": "mlp", "threads": 1, "median_ms": {"tensmith": 4.0, "jax": 5.0, "torch": 8.0}, "memory_mb": {"tensmith": 6.0, "jax": 60.0, "torch": 16.0}}
    tree = copy_of_readme(tmp_path, [("train-mlp.json", [step])])
    assert update(tree).returncode == 0
    assert "| step | threads | Tensmith | PyTorch | JAX | ratio |" in figures(tree)
    assert "| mlp | 1 | 4.0 (6) | 8.0 (16) | 5.0 (60) | 0.80 |" in figures(tree)


def test_tables_of_training_come_from_the_results(tmp_path):
    tree = copy_of_readme(tmp_path, OF_TRAINING.items())
    assert update(tree).returncode == 0
    for line in ("| 3 to 96 channels, window 11 of 128 | 1 | 1.75 | 0.25 | 5.00 |", "| sgd | 0.3 | 0.500 | 18.75 (12.50 to 25.00) % |", "| 1,024 | 1,205 | 113, 1.31 | 95, 2.00 | yes |",
                 "| the arena grows as n to the power of | 0.98 | 0.98 | 0.98 |  |", "| lstm, 10,000 | 0.2 | 2.5; 1.25, 1.10 | 1.5; 1.50, 1.70 | yes |",
                 "| lstm grows as n to the power of | 0.98 | 0.50 | 0.10 |  |", "| 784-512-512-10 | 1 | - | 20,000 | - | - | - |",
                 "| 784-512-512-10 | 2 | 1 | 33,000 | 1.65 | 2,678,912 | 6.0e-05 |", "| TreeLSTM | 10 of 10 | 3.0e-06 | 3.0e-06 | 3.0e-06 |",
                 "| TreeLSTM | sgd, 0.1 | 1.50 to 0.25 | 3e-07, 1e-07 | 3e-07, 1e-07 | 3e-07, 1e-07 |"):
        assert line in training(tree)
    assert "| ResNet-18 |" not in training(tree)  # of before


# Measured apart from the others and put behind them: networks without losses, one that has no name yet, one measured anew.
def test_what_follows_may_be_more(tmp_path):
    (row,) = OF_TRAINING["follow.json"]
    few = dict(row["gradients"], ours_to_theirs=dict(APART, agreed=7), ours_to_double=dict(APART, agreed=0, largest_of_those=None))
    rows = [{"follow": "other", "gradients": row["gradients"], "losses": {}}, {"follow": "bert_4x256", "losses": row["losses"]}, row,
            {"follow": "treelstm", "gradients": few, "losses": {}}]
    tree = copy_of_readme(tmp_path, [("follow.json", rows)])
    assert update(tree).returncode == 0
    assert ("| TreeLSTM | 7 of 10 | 3.0e-06 (7 of 10) | - | 3.0e-06 |\n| other | 10 of 10 | 3.0e-06 | 3.0e-06 | 3.0e-06 |\n<!--" in training(tree))
    assert "| BERT, 4 layers of 256 | sgd, 0.1 |" in training(tree)
    assert "| BERT, 4 layers of 256 | 10" not in training(tree) and "| TreeLSTM | sgd" not in training(tree)


@pytest.mark.parametrize("file", OF_TRAINING)
def test_check_finds_a_stale_table_of_training(tmp_path, file):
    tree = copy_of_readme(tmp_path, OF_TRAINING.items())
    update(tree)
    assert update(tree, "--check").returncode == 0
    results = tree / "bench/results" / file
    results.write_text(results.read_text().replace("0.25", "0.35").replace("113.3", "114.3").replace("33000", "34000").replace("3e-06", "4e-06"))
    stale = update(tree, "--check")
    assert stale.returncode == 1 and "training.md: a table is out of date" in stale.stderr


def test_a_table_without_its_place_is_said(tmp_path):
    tree = copy_of_readme(tmp_path)
    (tree / "docs/training.md").write_text(training(tree).replace("<!-- figures of losses: end -->", ""))
    assert "no block between '<!-- figures of losses: begin" in update(tree).stderr


def test_without_results_the_table_is_empty_and_the_rest_stands(tmp_path):
    tree = copy_of_readme(tmp_path)
    assert update(tree).returncode == 0
    assert training(tree) == (ROOT / "docs/training.md").read_text()
    assert "ONNX Runtime | ratio" not in figures(tree)
    assert figures(tree).partition("<!--")[0] == (ROOT / "docs/figures.md").read_text().partition("<!--")[0]


def test_the_first_page_has_the_ratios_of_all(tmp_path):
    step = {"step": "mlp", "threads": 1, "median_ms": {"tensmith": 4.0, "jax": 5.0}, "memory_mb": {"tensmith": 6.0, "jax": 60.0}}
    tree = copy_of_readme(tmp_path, [("race.json", [RACE]), ("train-mlp.json", [step])])
    assert update(tree).returncode == 0
    page = (tree / "README.md").read_text()
    assert "| 1 networks, fp32 | 1.50 | 1.50 to 1.50 |" in page and "| steps of training of 1 networks, fp32 | 0.80 | 0.80 to 0.80 |" in page
    assert "bf16 |" not in page and "8 bits" not in page


def test_check_finds_a_stale_table(tmp_path):
    tree = copy_of_readme(tmp_path)
    update(tree)
    assert update(tree, "--check").returncode == 0
    (tree / "bench/results/race.json").write_text(json.dumps(RACE))
    assert update(tree, "--check").returncode == 1


def test_the_checkouts_own_table_is_up_to_date():
    stale = update(ROOT, "--check")
    assert stale.returncode == 0, stale.stderr
