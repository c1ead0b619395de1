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
    assert "slower than the fastest other engine in 1:" in page
    assert "| a | 1 | 3.00 | 2.00 (openvino) | 1.50 |" in page
    assert "| 100.00 | a | slow / one | 20.0 | 0.0 | 90% | flops |" in page
    assert "By length" not in page
    head, most_lost = page.split("lose most")
    assert head.count("| L2 |") == 9 and "| k2 |" not in head  # ten in all
    assert "| a | 60% | 0% | 40% | 0% | 0% | 0% | 0% |" in most_lost
    assert slowest(tree, "--check").returncode == 0
    (tree / "bench/results/race-a.json").write_text(json.dumps([race(3.0, 2.5)]))
    assert slowest(tree, "--check").returncode == 1


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
