"""Lowerings on samples of PyTorch's own test database, drawn from a seed; tests/torch/samples.py goes through all of it."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
pytest.importorskip("tensmith", reason="the Python package is not built")
pytest.importorskip("expecttest", reason="PyTorch's test database needs it")
pytest.importorskip("tensmith.torch")

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import samples  # noqa: E402

# Operators that lowerings of each kind stand behind: of which none may differ, and some sample must be taken.
NAMES = ["add", "atan2", "sub", "div.floor_rounding", "fmod", "remainder", "pow", "clamp", "copysign", "hypot", "lerp", "where", "amax", "sum", "prod",
         "mean", "var", "std", "argmax", "max.reduction_with_dim", "cumsum", "any", "all", "softmax", "sort", "topk", "kthvalue", "gather",
         "index_select", "index_add", "index_copy", "index_fill", "index_put", "masked_scatter", "scatter", "scatter_add", "scatter_reduce.amax",
         "scatter_reduce.mean", "scatter_reduce.sum", "take", "diagonal", "unfold", "flip", "roll", "cat", "stack", "tril", "eye",
         "nn.functional.avg_pool2d", "nn.functional.adaptive_avg_pool2d", "nn.functional.conv2d", "nn.functional.conv_transpose2d",
         "nn.functional.max_pool2d", "cdist", "addmm", "baddbmm", "bmm", "masked_fill", "bitwise_left_shift", "signbit", "fmax", "cummax", "logcumsumexp",
         "median", "searchsorted", "nn.functional.adaptive_max_pool2d", "diagonal_scatter"]  # fmt: skip


UNSTABLE = {"topk", "kthvalue", "median"}


@pytest.mark.parametrize("part", range(4))
def test_samples_agree(part):
    known, bad, good = samples.database(), [], 0
    names = [name for name in NAMES if name in known][part::4]
    assert names
    for name, dtype, sample, error in samples.sweep(names, 0, 1, (torch.float32, torch.int64)):
        if name in UNSTABLE and dtype == torch.int64:  # of equal values eager takes any
            continue
        if error is None:
            good += 1
        elif not isinstance(error, samples.Refused):
            bad.append((name, dtype, samples._brief(sample), str(error)[:300]))
    assert not bad and good >= len(names) // 2


def test_the_page_of_coverage_is_current():
    """docs/pytorch-coverage.md is what scripts/torch-coverage writes. In a process of its own: tests register operators."""
    import os
    import subprocess

    script = pathlib.Path(__file__).parents[2] / "scripts/torch-coverage"
    code = f"import importlib.machinery as m; print(m.SourceFileLoader('coverage', {str(script)!r}).load_module().page(), end='')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    made = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert made == (script.parents[1] / "docs/pytorch-coverage.md").read_text(), "run scripts/torch-coverage"
