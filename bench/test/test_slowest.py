"""bench/slowest: the page says what the results say, and no more."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def slowest(tree, *arguments):
    return subprocess.run([sys.executable, ROOT / "bench/slowest", "--root", tree, *arguments], capture_output=True, text=True)


def kernel(label, seconds, share, waits_for, **more):
    return {"label": label, "kind": "kernel", "calls": 1, "seconds": seconds, "flops": 2e9, "bytes": 1e6, "limit_share": share,
            "waits_for": waits_for, **more}


def tree_with(tmp_path, races, kernels):
    (tmp_path / "bench/results").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    for name, content in [("race-a.json", races), ("kernels-a.json", kernels)]:
        (tmp_path / "bench/results" / name).write_text(json.dumps(content))
    return tmp_path


def test_the_page(tmp_path):
    race = lambda ours, peer, **more: {"model": "a", "threads": 1, "machine": "m", "engines": {
        "tensmith": {"median_ms": ours}, "openvino": {"median_ms": peer}, "onnxruntime": {"median_ms": 9.0}, **more}}
    rounding = {"openvino_bf16": {"median_ms": 1.0, "precision": "bf16"}}
    records = [{"model": "a", "threads": 1, "kernels": [kernel(f"k{i}", i * 1e-3, 0.5, "L2") for i in range(12)]
                + [kernel("slow | one", 0.1, 0.9, "flops"), kernel("by reference", 1e-4, None, None)]}]
    tree = tree_with(tmp_path, [race(3.0, 2.0, **rounding), {**race(2.0, 4.0), "threads": 2}], records)
    assert slowest(tree).returncode == 0
    page = (tree / "docs/performance.md").read_text()
    assert "| fp32 time | 2 | 1 | 1.500 (a, 1 thread) |" in page
    assert "| fp32 time | a | 1 | 3.00 | 2.00 (openvino) | 1.500 |" in page
    assert "| fp32 time, geometric mean | 1 model | 1 | 0.67 times as fast | 1.25 | 1.875 |" in page
    assert "bf16" not in page.split("## Kernels")[0].replace("of bf16", "")
    assert "| 100.00 | a | slow / one | 20.0 | 0.0 | 90% | flops |" in page
    assert "By length" not in page
    head, most_lost = page.split("lose most")
    assert head.count("| L2 |") == 9 and "| k2 |" not in head  # ten in all
    assert "| a | 60% | 0% | 40% | 0% | 0% | 0% | 0% |" in most_lost
    assert slowest(tree, "--check").returncode == 0
    (tree / "bench/results/race-a.json").write_text(json.dumps([race(3.0, 2.5)]))
    assert slowest(tree, "--check").returncode == 1


def engine(ms, **more):
    return {"median_ms": ms, **more}


# Breaks if a clause is left out of the page, or is told as kept when it isn't.
def test_every_clause_that_is_missed_is_told(tmp_path):
    engines = {"tensmith": engine(1.0, relative_error=2e-4, peak_mb=50, compile_cold_s=31, first_result_ms=70),
               "tensmith_exact": engine(3.0), "tensmith_bf16": engine(1.2, exact_error=4e-3),
               "onnxruntime": engine(2.0, peak_mb=40), "openvino": engine(2.5, peak_mb=10),
               "openvino_bf16": engine(1.0, exact_error=2e-3, precision="bf16")}
    races = [{"model": "resnet50", "threads": 2, "engines": engines},
             {"model": "bert_int8", "threads": 1, "engines": {
                 "tensmith": engine(5.0, relative_error=0.1), "onnxruntime": engine(4.0), "openvino": engine(8.0)}}]
    tree = tree_with(tmp_path, races, [])
    answers = {"tensmith": {"answers": 1000, "as_f32": 980, "alone": {"onnxruntime": [3, 18]}}, "onnxruntime": {"answers": 1000, "as_f32": 995},
               "openvino": {"answers": 1000, "as_f32": 970}}
    level = {"tensmith": {"answers": 1000, "as_f32": 991, "alone": {"onnxruntime": [6, 10]}}, "onnxruntime": {"answers": 1000, "as_f32": 995}}
    rows = [{"length": 7, "ms": {"tensmith": 4.0, "onnxruntime": 2.0, "static": 2.0}, "to_best": 2.0, "to_static": 2.2}]
    for name, record in [("top1-bert", {"model": "bert", "inputs": 1000, "engines": answers}),
                         ("top1-level", {"model": "level", "inputs": 1000, "engines": level}),
                         ("lengths-d-1", {"model": "d", "threads": 1, "rows": rows})]:
        (tree / f"bench/results/{name}.json").write_text(json.dumps([record]))
    assert slowest(tree).returncode == 0
    page = (tree / "docs/performance.md").read_text()
    for line in ["fp32 difference | resnet50 | 2 | 2.0e-04 | 1.0e-04 | 2.000", "bf16 time | resnet50 | 2 | 1.20 | 1.00 (openvino_bf16) | 1.200",
                 "bf16 error | resnet50 | 2 | 4.00e-03 | 2.00e-03 (openvino_bf16) | 2.000", "int8 time | bert_int8 | 1 | 5.00 | 4.00 (onnxruntime) | 1.250",
                 "peak memory | resnet50 | 2 | 50 | 40 (onnxruntime) | 1.250", "compilation, cold | resnet50 | 2 | 31.0 | 30.0 | 1.033",
                 "first result | resnet50 | 2 | 70 | 61 | 1.148", "exact time, geometric mean | 1 model | 2 | 0.67 times as fast | 1.00 | 1.500",
                 "bf16 time, geometric mean | 1 model | 2 | 0.83 times as fast | 1.10 | 1.320", "length, to the best | d of 7 | 1 | 2.00 | 1.00 | 2.000",
                 "length, to static | d of 7 | 1 | 2.20 | 1.10 | 2.000", "int8 answers | bert | 1 | 980 of 1000 | 995 - 9 (onnxruntime) | 1.006"]:
        assert f"| {line} |" in page, line
    assert "| fp32 time | 1 | 0 | 0.500 (resnet50, 2 threads) |" in page and "| fp32 time | resnet50" not in page
    assert "fp32 difference | bert_int8" not in page  # 8 bits differ by more
    assert "| bert | 1000 | 980 | 995 | 970 |" in page and "| level | 1000 | 991 | 995 | - |" in page
    assert "| int8 answers | 2 | 1 |" in page and "int8 answers | level" not in page  # within chance


# Breaks if a failure of ours drops out of the clauses, or those of other networks and machines aren't told.
def test_what_fails_or_was_raced_elsewhere_is_told(tmp_path):
    engines = {"tensmith": {"error": "fell over"}, "onnxruntime": engine(2.0), "openvino": engine(2.5)}
    tree = tree_with(tmp_path, [{"model": "a", "threads": 1, "engines": engines}], [])
    slow = {"model": "net", "threads": 1, "machine": "m", "engines": {"tensmith": engine(3.0), "onnxruntime": engine(2.0)}}
    for name in ("architectures", "matrix-unit"):
        (tree / f"bench/results/{name}.json").write_text(json.dumps([slow]))
    assert slowest(tree).returncode == 0
    page = (tree / "docs/performance.md").read_text()
    assert "| fp32 time | a | 1 | failed | 2.00 (onnxruntime) | inf |" in page
    own, others, unit = page.split("###")[:3]
    assert "fp32 time | net" not in own and "| fp32 time | net | 1 | 3.00 | 2.00 (onnxruntime) | 1.500 |" in others
    assert "matrix unit (m)" in unit and "| fp32 time | net | 1 |" in unit


# Breaks if kernels are judged by limits that can't be the machine's, or nobody is told.
def test_the_machine_is_measured_first_and_again_in_doubt(tmp_path, monkeypatch):
    script = tmp_path / "bin/tensmith"
    script.parent.mkdir()
    script.write_text(f"""#!/bin/sh
echo "$@" >>{tmp_path}/calls
[ "$1" = machine ] || exit 3
[ "$3" = --again ] && echo '{{"limits": {{"doubt": null}}}}' || echo '{{"limits": {{"doubt": "two are no faster than one"}}}}'
""")
    script.chmod(0o755)
    monkeypatch.setenv("TENSMITH_BUILD", str(tmp_path))
    done = slowest(tree_with(tmp_path, [], []), ROOT / "examples/fashion/fashion.onnx")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[:2] == ["machine --json", "machine --json --again"] and calls[2].startswith("compile")
    assert "measuring this machine again: two are no faster" in done.stderr


def test_without_results_the_page_says_so(tmp_path):
    tree = tree_with(tmp_path, [], [])
    assert slowest(tree).returncode == 0
    assert "No race is kept" in (tree / "docs/performance.md").read_text()


def test_the_checkouts_own_page_is_up_to_date():
    stale = slowest(ROOT, "--check")
    assert stale.returncode == 0, stale.stderr


def test_a_missing_build_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSMITH_BUILD", str(tmp_path / "nowhere"))
    done = slowest(tree_with(tmp_path, [], []), ROOT / "examples/fashion/fashion.onnx")
    assert done.returncode == 1 and "nowhere/bin/tensmith" in done.stderr and "Traceback" not in done.stderr


def test_lengths_have_a_table(tmp_path):
    tree = tree_with(tmp_path, [], [])
    rows = [{"length": 7, "ms": {"tensmith": 2.0, "onnxruntime": 4.0, "static": 1.9}, "to_best": 0.5, "to_static": 1.0526}]
    record = {"model": "d", "threads": 2, "machine": "m", "rows": rows}
    (tree / "bench/results/lengths-d-2.json").write_text(json.dumps([record]))
    assert slowest(tree).returncode == 0
    page = (tree / "docs/performance.md").read_text()
    assert "### d, 2 threads" in page
    assert "| 7 | 2.00 | 4.00 | 1.90 | 0.50 | 1.05 |" in page
    assert "the ratio is 1.05 to 1.05" in page and "## Programs" not in page


def test_programs_have_a_table(tmp_path):
    tree = tree_with(tmp_path, [], [])
    records = [{"title": "a tree", "ours": "tensmith", "ms": {"tensmith": 0.5, "torch": 3.25}},
               {"title": "threads", "ours": "2 threads", "ms": {"1 threads": 3.0, "2 threads": 2.0}}]
    (tree / "bench/results/programs-x.json").write_text(json.dumps(records))
    assert slowest(tree).returncode == 0
    page = (tree / "docs/performance.md").read_text()
    assert "| a tree | 0.500 | 3.250 (torch) | 6.50 |" in page
    assert "| threads | 2.000 (2 threads) | 3.000 (1 threads) | 1.50 |" in page


def test_other_architectures_have_a_table(tmp_path):
    tree = tree_with(tmp_path, [], [])
    engines = {"tensmith": {"median_ms": 3.0}, "onnxruntime": {"median_ms": 6.0}, "openvino": {"median_ms": 4.0}}
    records = [{"model": "net", "threads": 2, "engines": engines},
               {"model": "net", "threads": 1, "engines": {**engines, "openvino": {"error": "fell over"}}}]
    (tree / "bench/results/architectures.json").write_text(json.dumps(records))
    assert slowest(tree).returncode == 0
    lines = (tree / "docs/performance.md").read_text().splitlines()
    assert lines.index("| net | 1 | 3.00 | 6.00 | - | 0.50 |") + 1 == lines.index("| net | 2 | 3.00 | 6.00 | 4.00 | 0.75 |")
    halves = {"tensmith_bf16": {"median_ms": 2.0}, "openvino_bf16": {"median_ms": 1.6}}
    (tree / "bench/results/architectures.json").write_text(json.dumps([{"model": "net", "threads": 1, "engines": {**engines, **halves}}]))
    assert slowest(tree).returncode == 0
    assert "| net | 1 | 3.00 | 6.00 | 4.00 | 2.00 | 1.60 | 0.75 | 1.25 |" in (tree / "docs/performance.md").read_text()
