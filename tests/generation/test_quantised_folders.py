"""Folders whose layers GPTQ or AWQ has quantised, packed here by the loops that AutoGPTQ and AutoAWQ publish, against folders of the floats
that their definitions say these are.

Breaks when a code, a zero point or a scale is taken from another place, groups that are no neighbours are taken for such, or a damaged or
unknown kind is read without a word.
"""

import os
import pathlib
import sys

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hub_models  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))
pytestmark = pytest.mark.skipif(not (BUILD / "lib/libtensmith_unicode.so").exists(), reason="libtensmith_unicode.so is not built (libicu-dev)")
OF = hub_models.CONFIGS["llama"]


def stream(codes, bits):
    """Codes [n, ...] below one another as bits, the lowest first, in words of 32: uint32 [n * bits / 32, ...]."""
    all_bits = (codes[:, None] >> numpy.arange(bits, dtype=numpy.uint32).reshape(-1, *[1] * (codes.ndim - 1))) & 1
    words = all_bits.reshape(-1, 32, *codes.shape[1:]).astype(numpy.uint64)
    return (words << numpy.arange(32, dtype=numpy.uint64).reshape(-1, *[1] * (codes.ndim - 1))).sum(1).astype(numpy.uint32)


def gptq(codes, zeros, bits, less=1):
    """codes [k, n] along k, zero points [groups, n] along n."""
    stored = (zeros.astype(numpy.int64) - less).astype(numpy.uint32) & ((1 << bits) - 1)
    return stream(codes, bits), stream(stored.T, bits).T


def awq(codes):
    """[k, n] along n, eight to a word in AutoAWQ's order."""
    words = numpy.zeros((codes.shape[0], codes.shape[1] // 8), numpy.uint32)
    for place, column in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
        words |= codes[:, column::8] << numpy.uint32(4 * place)
    return words


def layers(method, bits, group, ordered, seed=4):
    """The folder's tensors, and the floats that they stand for."""
    random = numpy.random.default_rng(seed)
    stored, floats = {}, {}
    for name, array in hub_models.weights(OF).items():
        if not name.endswith("proj.weight"):
            stored[name] = floats[name] = array
            continue
        rows, columns = array.shape
        size = group if group > 0 else columns
        groups = numpy.arange(columns) // size
        if ordered:
            groups = random.permutation(groups)
        codes = random.integers(0, 1 << bits, (columns, rows)).astype(numpy.uint32)
        zeros = random.integers(0, 1 << bits, (groups.max() + 1, rows)).astype(numpy.uint32)
        scales = (random.random(zeros.shape) * columns**-0.5 * 4 / (1 << bits)).astype(numpy.float16)
        floats[name] = ((codes.astype(numpy.float64) - zeros[groups]) * scales[groups]).T.astype(numpy.float32)
        stem = name.removesuffix("weight")
        packed = (awq(codes), awq(zeros)) if method == "awq" else gptq(codes, zeros, bits, 0 if method == "gptq_v2" else 1)
        parts = dict(zip(("qweight", "qzeros"), (each.view(numpy.int32) for each in map(numpy.ascontiguousarray, packed))), scales=scales)
        if method != "awq":
            parts["g_idx"] = groups.astype(numpy.int32)
            parts["bias"] = numpy.zeros(rows, numpy.float16)  # as AutoGPTQ writes it where a layer has none
        stored.update({stem + kind: part for kind, part in parts.items()})
    return stored, floats


def write(folder, tensors, quantised=None):
    hub_models.write(folder, {**OF, **({"quantization_config": quantised} if quantised else {})})
    hub_models.safetensors(folder / "model.safetensors", tensors, pad=1)


def config(method, bits, group):
    if method == "awq":
        return {"quant_method": "awq", "bits": bits, "group_size": group, "version": "gemm", "zero_point": True}
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": True, "checkpoint_format": method}


@pytest.mark.parametrize("method, bits, group, ordered", [
    ("gptq", 4, 32, False), ("gptq", 4, 32, True), ("gptq", 3, 32, True), ("gptq", 2, 16, False), ("gptq", 8, 32, False), ("gptq", 4, -1, False),
    ("gptq_v2", 4, 32, False), ("awq", 4, 32, False), ("awq", 4, 16, False),
])  # fmt: skip
def test_layers_are_what_they_stand_for(method, bits, group, ordered, tmp_path):
    stored, floats = layers(method, bits, group, ordered)
    write(tmp_path / "codes", stored, config(method, bits, group))
    write(tmp_path / "floats", floats)
    models = [tensmith.language.load(tmp_path / kind, threads=1, exact=True) for kind in ("codes", "floats")]
    for end in (1, len(hub_models.TOKENS)):
        got, want = (model.logits(hub_models.TOKENS[:end]) for model in models)
        assert numpy.abs(got - want).max() <= 3e-5 * numpy.abs(want).max()


def test_what_is_damaged_or_unknown(tmp_path):
    stored, _ = layers("gptq", 4, 32, False)
    first, good = "model.layers.0.mlp.down_proj.", config("gptq", 4, 32)
    for message, change, quantised in (
        ("'bitsandbytes'", {}, {**good, "quant_method": "bitsandbytes"}),
        ("5 bits", {}, {**good, "bits": 5}),
        ("'marlin'", {}, {**good, "checkpoint_format": "marlin"}),
        ("no .*qzeros", {first + "qzeros": None}, good),
        ("qzeros", {first + "qzeros": stored[first + "qzeros"][:1]}, good),
        ("scales", {first + "scales": stored[first + "scales"].view(numpy.int16).astype(numpy.int32)}, good),
        ("g_idx", {first + "g_idx": stored[first + "g_idx"] + 1}, good),
        ("down_proj.bias", {first + "bias": numpy.full(64, 0.5, numpy.float16)}, good),
        ("both", {first + "weight": numpy.zeros((64, 96), numpy.float32)}, good),
        ("groups of 24", {}, {**good, "group_size": 24}),
    ):
        tensors = {name: array for name, array in {**stored, **change}.items() if array is not None}
        write(tmp_path, tensors, quantised)
        with pytest.raises(tensmith.Error, match=message) as raised:
            tensmith.language.load(tmp_path)
        assert str(tmp_path) in str(raised.value)
