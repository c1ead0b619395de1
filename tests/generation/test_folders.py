"""Language models as folders of Hugging Face's, of all families, against the logits of the library `transformers` (write_hub_logits.py).

Breaks when a configuration's entry means something else, a tensor is taken for another, 16-bit weights are read wrong or at a place
that is no multiple of their size, or a damaged folder ends in anything but an error that names the file.
"""

import json
import os
import pathlib
import random
import subprocess
import sys

import ml_dtypes
import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hub_models  # noqa: E402
import small_decoders  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
pytestmark = pytest.mark.skipif(not (BUILD / "lib/libtensmith_unicode.so").exists(), reason="libtensmith_unicode.so is not built (libicu-dev)")
PROGRAM = BUILD / "bin/tensmith"
WANT = numpy.load(pathlib.Path(__file__).with_name("hub_logits.npz"))
PLACES = [0, 5, 12, -1]


def logits(model):
    tokens = hub_models.TOKENS
    return numpy.stack([model.logits(tokens[: place + 1] if place >= 0 else tokens) for place in PLACES])


def error(got, want):
    return float(numpy.sqrt(((got - want) ** 2).mean() / (want**2).mean()))


@pytest.mark.parametrize("name", hub_models.CONFIGS)
def test_families(name, tmp_path):
    """Weights lie at odd places, in several files for every other family."""
    number = list(hub_models.CONFIGS).index(name)
    hub_models.write(tmp_path, hub_models.CONFIGS[name], shards=1 + number % 3, pad=number % 4)
    model = tensmith.language.load(tmp_path, threads=1, exact=True)
    assert numpy.abs(logits(model) - WANT[name]).max() <= 3e-5 * numpy.abs(WANT[name]).max()


WINDOWS = ("use_sliding_window", "sliding_window", "max_window_layers")


def with_windows(name, **windows):
    return {**{key: value for key, value in hub_models.CONFIGS[name].items() if key not in WINDOWS}, **windows}


LONG = {"short_factor": [1 + i / 8 for i in range(8)], "long_factor": [1 + i / 3 for i in range(8)]}
STRETCHED = [
    ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}, {"yarn": (4.0, 512)}),
    ({"type": "longrope", "original_max_position_embeddings": 64, **LONG}, {"long_rope": (64, (1 + numpy.log(4) / numpy.log(64)) ** 0.5)}),
    ({"type": "su", "original_max_position_embeddings": 256, "attention_factor": 1.25, **LONG}, {"long_rope": (256, 1.25)}),
]


@pytest.mark.parametrize("scaling,of_decoder", STRETCHED)
def test_stretched_rotations_are_the_decoders(scaling, of_decoder, tmp_path):
    """Against the decoder in NumPy of the same weights."""
    of = with_windows("qwen2", use_sliding_window=False, rope_theta=100.0, rope_scaling=scaling)
    hub_models.write(tmp_path, of)
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm", "model.layers.": "blk.", "model.embed_tokens": "token_embd", "model.norm": "output_norm"}  # fmt: skip
    stored = {}
    for name, array in hub_models.weights(of).items():
        for theirs, own in names.items():
            name = name.replace(theirs, own)
        stored[name] = array
    for kind in ("short", "long"):
        stored[f"rope_factors_{kind}.weight"] = numpy.array(LONG[f"{kind}_factor"], numpy.float32)
    decoder = small_decoders.Decoder(family="qwen2", base=100.0, **of_decoder)
    model = tensmith.language.load(tmp_path, threads=1, exact=True)
    want = decoder.logits(stored, hub_models.TOKENS, is_long=of_decoder.get("long_rope", (256,))[0] < 256)[PLACES]
    assert numpy.abs(logits(model) - want).max() <= 3e-5 * numpy.abs(want).max()


def test_windows_are_those_of_the_families_classes(tmp_path):
    """Breaks when a size alone gives Qwen a window, its first 28 layers have one unasked, or a family has one that never does."""
    of_folder = {
        "qwen2, asked": with_windows("qwen2", use_sliding_window=True, sliding_window=5, max_window_layers=0),
        "qwen2, not": with_windows("qwen2", use_sliding_window=False, sliding_window=5),
        "qwen2, unsaid": with_windows("qwen2", sliding_window=5),
        "qwen2, late": with_windows("qwen2", use_sliding_window=True, sliding_window=5),
        "llama": with_windows("llama", sliding_window=5),
        "mistral, null": with_windows("mistral", sliding_window=None),
        "mistral, unsaid": {**with_windows("mistral"), "max_position_embeddings": 8192},
    }
    got = {}
    for name, of in of_folder.items():
        hub_models.write(tmp_path / name, of, hub_models.weights(hub_models.CONFIGS[name.split(",")[0]]))
        got[name] = logits(tensmith.language.load(tmp_path / name, threads=1, exact=True))
    for name in ("qwen2, unsaid", "qwen2, late"):
        assert (got[name] == got["qwen2, not"]).all()
    assert error(got["qwen2, asked"], got["qwen2, not"]) > 1e-3 and error(got["mistral, null"], WANT["mistral"]) > 1e-3
    assert error(got["llama"], WANT["llama"]) < 1e-5
    assert error(got["mistral, unsaid"], got["mistral, null"]) < 1e-6  # 4096 keys


FIRST = "model.layers.0."


@pytest.mark.parametrize("name,change,message", [
    ("llama", {"lm_head.weight": None}, "no tensor 'lm_head.weight'"), ("llama", {"model.layers.7.self_attn.q_proj.weight": (64, 64)}, "model.layers.7.self_attn"),
    ("llama", {FIRST + "self_attn.q_norm.weight": (16,)}, "self_attn.q_norm"), ("llama", {FIRST + "mlp.down_proj.bias": (64,)}, "down_proj.bias"),
    ("llama, bands", {FIRST + "self_attn.o_proj.bias": None}, "no tensor .*o_proj.bias"), ("qwen2", {FIRST + "self_attn.o_proj.bias": (64,)}, "o_proj.bias"),
    ("qwen3", {FIRST + "self_attn.k_norm.weight": None}, "no tensor .*k_norm"), ("phi3", {FIRST + "self_attn.q_proj.weight": (64, 64)}, "q_proj"),
    ("gemma2", {"model.layers.1.pre_feedforward_layernorm.weight": None}, "no tensor .*pre_feedforward"), ("llama", {"model.extra.weight": (3,)}, "model.extra"),
])  # fmt: skip
@pytest.mark.parametrize("shards", [1, 2])
def test_tensors_are_the_decoders(name, change, message, shards, tmp_path):
    """Breaks when a folder with a tensor less or more than its configuration's decoder has is loaded nevertheless."""
    tensors = hub_models.weights(hub_models.CONFIGS[name])
    for tensor, shape in change.items():
        assert (tensors.pop(tensor, None) is not None) == (shape is None)
        if shape:
            tensors[tensor] = numpy.ones(shape, numpy.float32)
    hub_models.write(tmp_path, hub_models.CONFIGS[name], tensors, shards=shards)
    with pytest.raises(tensmith.Error, match=message) as raised:
        tensmith.language.load(tmp_path)
    assert ".safetensors" in str(raised.value) and str(tmp_path) in str(raised.value)


def test_a_head_of_tied_embeddings_may_be_there(tmp_path):
    tensors = hub_models.weights(hub_models.CONFIGS["qwen2"])
    hub_models.write(tmp_path, hub_models.CONFIGS["qwen2"], {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]})
    assert error(logits(tensmith.language.load(tmp_path, threads=1, exact=True)), WANT["qwen2"]) < 1e-5


@pytest.mark.parametrize("store", [numpy.float16, ml_dtypes.bfloat16])
def test_weights_of_16_bits(store, tmp_path):
    """As the same numbers in f32, bit for bit in what they are multiplied by."""
    of = hub_models.CONFIGS["qwen3"]
    rounded = {name: x.astype(store).astype(numpy.float32) for name, x in hub_models.weights(of).items()}
    hub_models.write(tmp_path / "plain", of, rounded)
    hub_models.write(tmp_path / "short", of, rounded, pad=1, store=store)
    got, want = (logits(tensmith.language.load(tmp_path / which, threads=1, exact=True)) for which in ("short", "plain"))
    assert numpy.abs(got - want).max() <= 1e-5 * numpy.abs(want).max()


def test_quantised_weights(tmp_path):
    """The error of 8 bits is some thousandths, that of 4 bits about a tenth; neither is none."""
    hub_models.write(tmp_path, hub_models.CONFIGS["llama"])
    want = WANT["llama"]
    eight, four = (error(logits(tensmith.language.load(tmp_path, threads=1, exact=True, weights=bits)), want) for bits in (8, 4))
    assert 1e-4 < eight < 0.02 and 0.02 < four < 0.3
    with pytest.raises(tensmith.Error, match="4 or 8 bits"):
        tensmith.language.load(tmp_path, weights=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("hub") / "Small-1.5"
    hub_models.write(path, hub_models.CONFIGS["qwen2"])
    return path


def test_the_command_and_chats(folder):
    arguments = ["generate", folder, "--prompt", "the hen", "-n", "6", "--temperature", "0"]
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    model = tensmith.language.load(folder)
    assert done.stdout.decode("utf-8", "replace") == model.generate("the hen", tokens=6, temperature=0) + "\n"
    assert model.encode("the hen")[0] == 1 and model.vocabulary == hub_models.VOCABULARY
    messages = [{"role": "user", "content": "hi<|im_end|>"}]
    tokens = model.chat(messages)
    end = len(hub_models.tokenizer()["model"]["vocab"])
    assert tokens[0] == 1 and tokens.count(end) == 1 and tokens[-1] == end
    assert model.decode(tokens) == "user hi<|im_end|>"


def test_what_ends_a_text_is_no_text(tmp_path):
    """Breaks when an added token that the file calls text lets a text from outside end."""
    hub_models.write(tmp_path, hub_models.CONFIGS["llama"])
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    number = len(tokenizer["model"]["vocab"]) + 1
    entry = {**tokenizer["added_tokens"][-1], "id": number, "content": "<end>", "special": False}
    tokenizer["added_tokens"].append(entry)
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    for ends in (False, True):
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, number] if ends else [2]}))
        assert (number in tensmith.language.Tokenizer(tmp_path).encode("the<end>")) != ends


def test_ends_are_those_of_all_files(folder):
    tokenizer = tensmith.language.Tokenizer(folder)
    end = len(hub_models.tokenizer()["model"]["vocab"])
    assert [token for token in range(tokenizer.vocabulary) if tokenizer.ends(token)] == [2, 5, end]


WRONG = {
    "config.json": [
        ({"model_type": "mamba"}, "'mamba'"), ({"hidden_size": None}, "hidden_size"), ({"num_hidden_layers": 1 << 40}, "num_hidden_layers"),
        ({"hidden_act": "relu"}, "relu"), ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"rope_scaling": {"type": "yarn", "factor": 0.5}}, "factor"), ({"rope_scaling": {"type": "su", "short_factor": [1.0], "long_factor": [1.0]}}, "short_factor"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"head_dim": -2}, "head_dim"), ({"layer_types": ["full_attention"]}, "layer_types"), ({"quantization_config": {}}, "quantised"),
        ({"num_key_value_heads": 3}, "heads"), ({"vocab_size": 1, "hidden_size": 32}, "token_embd"), ({"num_hidden_layers": 3}, "no tensor"),
        ({"partial_rotary_factor": 0}, "partial_rotary_factor"),
    ],
    "tokenizer.json": [({"model": {"type": "BPE", "vocab": {"a": 5000}, "merges": []}}, "5000|tokens"), ({"added_tokens": [{"id": -1, "content": "x"}]}, "-1")],
    "tokenizer_config.json": [({"chat_template": 5}, "chat_template")],
    "generation_config.json": [({"eos_token_id": "x"}, "eos_token_id")],
}  # fmt: skip


@pytest.mark.parametrize("file,change,message", [(file, *each) for file, changes in WRONG.items() for each in changes])
def test_what_is_not_read_is_named(tmp_path, file, change, message):
    hub_models.write(tmp_path, hub_models.CONFIGS["qwen2"])
    data = {**json.loads((tmp_path / file).read_text()), **change}
    (tmp_path / file).write_text(json.dumps(data))
    with pytest.raises(tensmith.Error, match=message) as raised:
        tensmith.language.load(tmp_path).logits([1])
    assert str(tmp_path) in str(raised.value)


def test_missing_and_damaged_weights(tmp_path):
    hub_models.write(tmp_path, hub_models.CONFIGS["llama"], shards=2)
    index = tmp_path / "model.safetensors.index.json"
    whole = index.read_text()
    for name in ("../model.safetensors", "/etc/passwd", "..", "", "missing.safetensors"):
        index.write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))
        with pytest.raises(tensmith.Error):
            tensmith.language.load(tmp_path)
    index.write_text(whole)
    shard = tmp_path / "model-00001-of-00002.safetensors"
    content = bytearray(shard.read_bytes())
    rng = random.Random(5)
    for _ in range(200):
        damaged = bytearray(content[: rng.choice([len(content), rng.randrange(len(content))])])
        for _ in range(rng.randrange(1, 4)):
            if damaged:
                damaged[rng.randrange(min(len(damaged), 2000))] = rng.randrange(256)
        shard.write_bytes(damaged)
        try:
            tensmith.language.load(tmp_path)
        except tensmith.Error as error:
            assert str(tmp_path) in str(error)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(tensmith.Error, match="tokenizer.json"):
        tensmith.language.load(tmp_path)
