"""Small models of each family as Hugging Face's folders with drawn weights, and the tokens that are asked about.

`write_hub_logits.py` computes what the library `transformers` makes of them, which tests hold Tensmith against.
"""

import json
import struct

import numpy

VOCABULARY, WIDTH, INNER, HEADS, SIZE, LAYERS = 352, 64, 96, 4, 16, 2
TOKENS = [1, 17, 300, 42, 42, 9, 120, 7, 351, 64, 5, 200, 31, 11, 96, 3, 250, 77, 8, 19]

BASE = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": INNER, "num_attention_heads": HEADS, "num_key_value_heads": 2,
    "num_hidden_layers": LAYERS, "head_dim": SIZE, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0, "tie_word_embeddings": False,
}  # fmt: skip


def config(kind, architecture, **more):
    return {**BASE, "model_type": kind, "architectures": [architecture], **more}


GEMMA = {"tie_word_embeddings": True, "hidden_activation": "gelu_pytorch_tanh"}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
CONFIGS = {
    "llama": config("llama", "LlamaForCausalLM", rope_theta=10000.0, hidden_act="silu"),
    "llama, bands": config("llama", "LlamaForCausalLM", rope_theta=5000.0, rope_scaling=LLAMA3, attention_bias=True, mlp_bias=True),
    "llama, version 5": config("llama", "LlamaForCausalLM", rope_parameters={"rope_theta": 3000.0, "rope_type": "linear", "factor": 2.0}),
    "mistral": config("mistral", "MistralForCausalLM", sliding_window=6, rope_theta=10000.0),
    "qwen2": config("qwen2", "Qwen2ForCausalLM", tie_word_embeddings=True, use_sliding_window=True, sliding_window=5, max_window_layers=1),
    "qwen3": config("qwen3", "Qwen3ForCausalLM", head_dim=32, rope_theta=100000.0, use_sliding_window=False, sliding_window=None),
    "phi3": config("phi3", "Phi3ForCausalLM", sliding_window=200, rope_theta=10000.0),
    "gemma": config("gemma", "GemmaForCausalLM", num_key_value_heads=1, **GEMMA),
    "gemma2": config(
        "gemma2", "Gemma2ForCausalLM", sliding_window=6, query_pre_attn_scalar=20, attn_logit_softcapping=50.0, final_logit_softcapping=30.0, **GEMMA
    ),
    "gemma3": config(
        "gemma3_text", "Gemma3ForCausalLM", sliding_window=4, query_pre_attn_scalar=24, num_hidden_layers=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters={
            "full_attention": {"rope_theta": 50000.0, "rope_type": "linear", "factor": 4.0}, "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        }, **GEMMA,
    ),
}  # fmt: skip


def shapes(of):
    """name -> shape of each tensor, as the family's class has them."""
    kind, size = of["model_type"], of["head_dim"]
    own, keys = of["num_attention_heads"] * size, of["num_key_value_heads"] * size
    result = {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH,)}
    if not of["tie_word_embeddings"]:
        result["lm_head.weight"] = (VOCABULARY, WIDTH)
    linear = {"self_attn.o_proj": (WIDTH, own), "mlp.down_proj": (WIDTH, INNER)}
    if kind == "phi3":
        linear.update({"self_attn.qkv_proj": (own + 2 * keys, WIDTH), "mlp.gate_up_proj": (2 * INNER, WIDTH)})
    else:
        linear.update({f"self_attn.{x}_proj": (own if x == "q" else keys, WIDTH) for x in "qkv"})
        linear.update({f"mlp.{x}_proj": (INNER, WIDTH) for x in ("gate", "up")})
    norms = ["input_layernorm", "post_attention_layernorm"]
    if kind in ("gemma2", "gemma3_text"):
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for layer in range(of["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name, shape in linear.items():
            result[at + name + ".weight"] = shape
            is_bias = kind == "qwen2" and name[-6] in "qkv" and "self_attn" in name
            if is_bias or of.get("attention_bias"):
                result[at + name + ".bias"] = shape[:1]
        result.update({at + name + ".weight": (WIDTH,) for name in norms})
        if kind in ("qwen3", "gemma3_text"):
            result.update({at + f"self_attn.{x}_norm.weight": (size,) for x in "qk"})
    return result


def weights(of, seed=3):
    random = numpy.random.default_rng(seed)
    result = {}
    for name, shape in sorted(shapes(of).items()):
        x = random.standard_normal(shape).astype(numpy.float32)
        if name.endswith("norm.weight"):
            x = 0.1 * x + (0 if "gemma" in of["model_type"] else 1)
        elif len(shape) == 2 and "embed" not in name:
            x *= shape[1] ** -0.5
        else:
            x *= 0.5
        result[name] = x.astype(numpy.float32)
    return result


TYPES = {"float32": "F32", "int32": "I32", "float16": "F16", "bfloat16": "BF16", "int64": "I64"}


def safetensors(path, tensors, pad=0):
    """`pad`: spaces behind the header, which decide how the tensors lie in memory."""
    header, data = {}, b""
    for name, array in tensors.items():
        content = array.tobytes()
        header[name] = {"dtype": TYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode() + b" " * pad
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def tokenizer():
    """SentencePiece's pairs with bytes, of 350 tokens: fewer than there are embeddings."""
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{byte:02X}>": 3 + byte for byte in range(256)}, "▁": 259}
    merges = []
    for letter in LETTERS:
        vocabulary[letter] = len(vocabulary)
    for left in "▁ateh":
        for right in "theanisorld":
            if left + right not in vocabulary and len(vocabulary) < 349:
                vocabulary[left + right] = len(vocabulary)
                merges.append([left, right])
    control = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": i, "content": name, **control} for name, i in (("<unk>", 0), ("<s>", 1), ("</s>", 2))]
    added.append({"id": len(vocabulary), "content": "<|im_end|>", **control})
    return {
        "version": "1.0", "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocabulary, "merges": merges},
    }  # fmt: skip


CHAT = "{% for m in messages %}{{ bos_token }}{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"


def write(folder, of, tensors=None, shards=1, pad=0, store=numpy.float32):
    """The folder of a model; `shards`: files of its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: array.astype(store) for name, array in (tensors or weights(of)).items()}
    (folder / "config.json").write_text(json.dumps(of))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": CHAT}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5]}))
    if shards == 1:
        safetensors(folder / "model.safetensors", tensors, pad)
        return
    files = [f"model-{i + 1:05d}-of-{shards:05d}.safetensors" for i in range(shards)]
    where = {name: files[i % shards] for i, name in enumerate(tensors)}
    for file in files:
        safetensors(folder / file, {name: array for name, array in tensors.items() if where[name] == file}, pad)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
