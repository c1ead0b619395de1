"""Small language models of each family with drawn weights: written as GGUF files, and evaluated in NumPy.

Both are written from the formats' and the families' definitions alone, so that they are an oracle: nothing here asks Tensmith.
"""

import dataclasses
import struct

import numpy

U32, I32, F32, BOOL, TEXT, LIST = 4, 5, 6, 7, 8, 9


def _text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def _value(value):
    if isinstance(value, bool):
        return struct.pack("<IB", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<Ii", I32, value) if value < 0 else struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, (str, bytes)):
        return struct.pack("<I", TEXT) + _text(value)
    kind = TEXT if isinstance(value[0], (str, bytes)) else F32 if isinstance(value[0], float) else I32
    pack = {TEXT: _text, F32: lambda x: struct.pack("<f", x), I32: lambda x: struct.pack("<i", x)}[kind]
    return struct.pack("<IIQ", LIST, kind, len(value)) + b"".join(map(pack, value))


def gguf(metadata, tensors):
    """The bytes of a file; `tensors`: name -> (number of the type, shape, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += _text(key) + _value(value)
    data = bytearray()  # which grows without being copied
    for name, (kind, shape, content) in tensors.items():
        data += bytes(-len(data) % 32)
        head += _text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, len(data))
        data += content
    return head + bytes(-len(head) % 32) + data


def _blocks(weights):
    return weights.reshape(*weights.shape[:-1], -1, 32)


def as_f32(weights):
    return 0, weights.astype("<f4").tobytes(), weights.astype(numpy.float32)


def as_f16(weights):
    half = weights.astype("<f2")
    return 1, half.tobytes(), half.astype(numpy.float32)


def as_q8_0(weights):
    blocks = _blocks(weights)
    scale = (numpy.abs(blocks).max(-1, keepdims=True) / 127).astype(numpy.float16)
    codes = numpy.round(blocks / numpy.maximum(scale.astype(numpy.float32), 1e-8)).clip(-127, 127).astype(numpy.int8)
    content = numpy.concatenate([scale.view(numpy.uint8), codes.view(numpy.uint8)], -1)
    return 8, content.tobytes(), (codes * scale.astype(numpy.float32)).reshape(weights.shape)


def as_q4_0(weights):
    blocks = _blocks(weights)
    scale = (numpy.abs(blocks).max(-1, keepdims=True) / 7).astype(numpy.float16)
    codes = (numpy.round(blocks / numpy.maximum(scale.astype(numpy.float32), 1e-8)) + 8).clip(0, 15).astype(numpy.uint8)
    packed = codes[..., :16] | codes[..., 16:] << 4
    content = numpy.concatenate([scale.view(numpy.uint8), packed], -1)
    return 2, content.tobytes(), ((codes.astype(numpy.float32) - 8) * scale.astype(numpy.float32)).reshape(weights.shape)


def as_drawn_q4_0(weights):
    """Blocks of any weights of this shape, of which only their size matters: quantising drawn ones takes long."""
    blocks = numpy.random.default_rng(weights.size).integers(0, 256, (weights.size // 32, 18), dtype=numpy.uint8)
    blocks[:, :2] = numpy.frombuffer(numpy.float16(0.5 / weights.shape[-1] ** 0.5).tobytes(), numpy.uint8)
    return 2, blocks.tobytes(), weights


@dataclasses.dataclass
class Decoder:
    family: str = "llama"
    layers: int = 2
    width: int = 64
    heads: int = 4
    key_heads: int = 2
    head_size: int = 16
    inner: int = 96
    rotated: int = 16
    window: int = 0
    biases: bool = False
    head_norms: bool = False
    post_norms: bool = False
    packed: bool = False
    layer_norms: bool = False  # with a bias, and what feeds forward without a gate
    tied: bool = False
    score_cap: float = 0.0
    logit_cap: float = 0.0
    base: float = 10000.0
    factors: bool = False
    yarn: tuple = ()  # a factor and the original context
    long_rope: tuple = ()  # the original context, and the factor of attention
    context: int = 256
    more: dict = dataclasses.field(default_factory=dict)  # metadata beside or instead of others
    store: object = as_f32
    seed: int = 1

    @property
    def vocabulary(self):
        return len(TOKENS)

    @property
    def gemma(self):
        return self.family.startswith("gemma")

    def weights(self):
        """name -> f32 array."""
        random = numpy.random.default_rng(self.seed)

        def draw(*shape, scale=None):
            return random.standard_normal(shape).astype(numpy.float32) * (scale or shape[-1] ** -0.5)

        def norm(size):
            return 1 + 0.1 * random.standard_normal(size).astype(numpy.float32)

        own, keys = self.heads * self.head_size, self.key_heads * self.head_size
        w = {"token_embd.weight": draw(self.vocabulary, self.width, scale=1.0), "output_norm.weight": norm(self.width)}
        if not self.tied:
            w["output.weight"] = draw(self.vocabulary, self.width)
        if self.factors:
            w["rope_freqs.weight"] = 1 + random.random(self.rotated // 2).astype(numpy.float32)
        for kind in ("short", "long") if self.long_rope else ():
            w[f"rope_factors_{kind}.weight"] = 1 + 3 * random.random(self.rotated // 2).astype(numpy.float32)
        for layer in range(self.layers):
            sizes = {"attn_q": own, "attn_k": keys, "attn_v": keys}
            if self.packed:
                sizes = {"attn_qkv": own + 2 * keys}
            if self.layer_norms:
                sizes["ffn_up"] = self.inner
            else:
                sizes.update({"ffn_up": 2 * self.inner} if self.packed else {"ffn_gate": self.inner, "ffn_up": self.inner})
            for name, rows in sizes.items():
                w[f"blk.{layer}.{name}.weight"] = draw(rows, self.width)
                if self.biases and name.startswith("attn"):
                    w[f"blk.{layer}.{name}.bias"] = draw(rows, scale=0.5)
            w[f"blk.{layer}.attn_output.weight"] = draw(self.width, own)
            w[f"blk.{layer}.ffn_down.weight"] = draw(self.width, self.inner)
            for name in ("attn_norm", "ffn_norm") + (("post_attention_norm", "post_ffw_norm") if self.post_norms else ()):
                w[f"blk.{layer}.{name}.weight"] = norm(self.width)
            for name in ("attn_q_norm", "attn_k_norm") if self.head_norms else ():
                w[f"blk.{layer}.{name}.weight"] = norm(self.head_size)
        if self.layer_norms:
            if self.family == "phi2":  # one norm for both
                w = {name: array for name, array in w.items() if "ffn_norm" not in name}
            for name in [name for name in w if name != "token_embd.weight"]:
                if name.replace(".weight", ".bias") not in w:
                    w[name.replace(".weight", ".bias")] = draw(len(w[name]), scale=0.3)
        return w

    def metadata(self):
        f = self.family
        data = {
            "general.architecture": f, f"{f}.block_count": self.layers, f"{f}.embedding_length": self.width,
            f"{f}.attention.head_count": self.heads, f"{f}.attention.head_count_kv": self.key_heads,
            f"{f}.attention.key_length": self.head_size, f"{f}.attention.value_length": self.head_size,
            f"{f}.rope.dimension_count": self.rotated, f"{f}.rope.freq_base": self.base, f"{f}.context_length": self.context, f"{f}.feed_forward_length": self.inner,
            f"{f}.attention.layer_norm_{'' if self.layer_norms else 'rms_'}epsilon": 1e-6,
        }  # fmt: skip
        if self.window:
            data[f"{f}.attention.sliding_window"] = self.window
        if self.score_cap:
            data[f"{f}.attn_logit_softcapping"] = self.score_cap
        if self.yarn:
            data.update({f"{f}.rope.scaling.type": "yarn", f"{f}.rope.scaling.factor": self.yarn[0], f"{f}.rope.scaling.original_context_length": self.yarn[1]})
        if self.long_rope:
            data.update({f"{f}.rope.scaling.original_context_length": self.long_rope[0], f"{f}.rope.scaling.attn_factor": self.long_rope[1]})
        if self.logit_cap:
            data[f"{f}.final_logit_softcapping"] = self.logit_cap
        return {**data, **tokenizer(), **self.more}

    def write(self, path):
        """The file, and the weights as it has them."""
        tensors, stored = {}, {}
        for name, array in self.weights().items():
            kind, content, values = (as_f32 if array.ndim == 1 else self.store)(array)
            tensors[name], stored[name] = (kind, array.shape, content), values
        with open(path, "wb") as file:
            file.write(gguf(self.metadata(), tensors))
        return stored

    # The decoder, in doubles.

    def has_window(self, layer):
        period = {"gemma2": 2, "gemma3": 6}.get(self.family, 1)
        return self.window > 0 and (period == 1 or (layer + 1) % period != 0)

    def divisors(self, w, is_long):
        """Of the frequencies of pairs, and what cosines and sines are multiplied by."""
        if self.long_rope:
            return w[f"rope_factors_{'long' if is_long else 'short'}.weight"], self.long_rope[1]
        if not self.yarn:
            return w.get("rope_freqs.weight", numpy.ones(self.rotated // 2)), 1.0
        factor, original = self.yarn
        waves = original / (2 * numpy.pi * self.base ** (2 * numpy.arange(self.rotated) / self.rotated))  # of a whole number of pairs
        pair = numpy.arange(self.rotated)
        low = max(pair[waves >= 32].max(initial=0), 0)  # the last that turns as often as that, and the first that doesn't turn once
        high = min(pair[waves <= 1].min(initial=self.rotated - 1), self.rotated - 1)
        kept = 1 - numpy.clip((pair - low) / max(high - low, 1e-3), 0, 1)
        return (1 / (kept + (1 - kept) / factor))[: self.rotated // 2], 1 + 0.1 * numpy.log(factor)

    def rotate(self, x, layer, factors, magnitude=1.0):
        # Gemma 3's layers with a window have a plain rotation, whatever stretches that of the others.
        is_plain = self.family == "gemma3" and self.has_window(layer)
        base, factors, magnitude = (10000.0, 1.0, 1.0) if is_plain else (self.base, factors, magnitude)
        pairs = self.rotated // 2
        angle = numpy.arange(len(x))[:, None] * base ** (-2.0 * numpy.arange(pairs) / self.rotated) / factors
        cos, sin = magnitude * numpy.cos(angle)[:, None], magnitude * numpy.sin(angle)[:, None]
        y = x.copy()
        neighbours = self.family in ("llama", "mistral")
        first = slice(0, self.rotated, 2) if neighbours else slice(0, pairs)
        second = slice(1, self.rotated, 2) if neighbours else slice(pairs, self.rotated)
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., second] * cos + x[..., first] * sin
        return y

    def logits(self, stored, tokens, kept=lambda x: x, is_long=False):
        """Of every position, [tokens, vocabulary]. `kept`: what the cache has of keys and values. `is_long`: beyond the original context."""
        w = {name: array.astype(numpy.float64) for name, array in stored.items()}
        turn = self.divisors(w, is_long)

        def norm(x, name):
            bias = w.get(name.replace(".weight", ".bias"))
            if bias is not None:
                x = x - x.mean(-1, keepdims=True)
            return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w[name] + (0 if bias is None else bias) if name in w else x

        def linear(x, name):
            return x @ w[name + ".weight"].T + w.get(name + ".bias", 0)

        x = w["token_embd.weight"][tokens] * (numpy.sqrt(self.width) if self.gemma else 1)
        own, keys = self.heads * self.head_size, self.key_heads * self.head_size
        for layer in range(self.layers):
            at = f"blk.{layer}."
            h = norm(x, at + "attn_norm.weight")
            if self.packed:
                q, k, v = numpy.split(linear(h, at + "attn_qkv"), [own, own + keys], -1)
            else:
                q, k, v = (linear(h, at + "attn_" + name) for name in "qkv")
            q, k, v = (y.reshape(len(x), -1, self.head_size) for y in (q, k, v))
            q = self.rotate(norm(q, at + "attn_q_norm.weight"), layer, *turn)
            k = self.rotate(norm(k, at + "attn_k_norm.weight"), layer, *turn)
            k, v = kept(k), kept(v)
            k, v = (numpy.repeat(y, self.heads // self.key_heads, 1) for y in (k, v))
            scores = numpy.einsum("qhd,khd->hqk", q, k) / numpy.sqrt(self.head_size)
            if self.score_cap:
                scores = numpy.tanh(scores / self.score_cap) * self.score_cap
            query, key = numpy.ogrid[: len(x), : len(x)]
            seen = key <= query
            if self.has_window(layer):
                seen &= query - key < self.window
            scores = numpy.where(seen, scores, -numpy.inf)
            share = numpy.exp(scores - scores.max(-1, keepdims=True))
            share /= share.sum(-1, keepdims=True)
            y = linear(numpy.einsum("hqk,khd->qhd", share, v).reshape(len(x), own), at + "attn_output")
            x = x + norm(y, at + "post_attention_norm.weight")
            h = norm(x, at + "ffn_norm.weight") if self.family != "phi2" else h
            if self.layer_norms:
                gate, up = linear(h, at + "ffn_up"), 1
            elif self.packed:
                gate, up = numpy.split(linear(h, at + "ffn_up"), 2, -1)
            else:
                gate, up = linear(h, at + "ffn_gate"), linear(h, at + "ffn_up")
            if self.gemma or self.layer_norms:
                gate = gate / 2 * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (gate + 0.044715 * gate**3)))
            else:
                gate = gate / (1 + numpy.exp(-gate))
            x = x + norm(linear(gate * up, at + "ffn_down"), at + "post_ffw_norm.weight")
        logits = norm(x, "output_norm.weight") @ w.get("output.weight", w["token_embd.weight"]).T + w.get("output.bias", 0)
        return numpy.tanh(logits / self.logit_cap) * self.logit_cap if self.logit_cap else logits


LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
PIECES = ["▁", "▁the", "the", "th", "he", "in", "▁a", "an", "and", "▁and", "er", "on", "▁in", "en"]
TOKENS = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + LETTERS + PIECES
TOKENS += [f"<unused{i}>" for i in range(-len(TOKENS) % 32)]


def tokenizer():
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(LETTERS) + len(PIECES))
    kinds += [5] * (len(TOKENS) - len(kinds))
    scores = [0.0] * 259 + [-1000.0] * len(LETTERS) + [float(-i - 1) for i in range(len(PIECES))]
    scores += [0.0] * (len(TOKENS) - len(scores))
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": TOKENS, "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }  # fmt: skip


FAMILIES = {
    "llama": Decoder(),
    "llama, factors": Decoder(factors=True, base=500000.0, rotated=12),
    "mistral, window": Decoder(family="mistral", window=5),
    "qwen2": Decoder(family="qwen2", biases=True, tied=True),
    "qwen3": Decoder(family="qwen3", head_norms=True, head_size=32, rotated=32),
    "phi2": Decoder(family="phi2", layer_norms=True, biases=True, packed=True, key_heads=4, rotated=8),
    "phi3": Decoder(family="phi3", packed=True, window=100),
    "starcoder2": Decoder(family="starcoder2", layer_norms=True, biases=True, tied=True),
    "gemma": Decoder(family="gemma", tied=True, key_heads=1),
    "gemma2": Decoder(family="gemma2", tied=True, post_norms=True, score_cap=50.0, logit_cap=30.0, window=6),
    "gemma3": Decoder(family="gemma3", tied=True, post_norms=True, head_norms=True, window=4, layers=7, base=1000000.0),
    "gemma3, yarn": Decoder(
        family="gemma3", tied=True, post_norms=True, head_norms=True, window=20, layers=7, base=100.0, head_size=32, rotated=32, yarn=(4.0, 512)
    ),
    "qwen2, yarn": Decoder(family="qwen2", biases=True, base=100.0, head_size=32, rotated=32, yarn=(4.0, 512)),
    "llama, q8_0": Decoder(store=as_q8_0),
    "qwen2, q4_0": Decoder(family="qwen2", biases=True, store=as_q4_0),
    "llama, rows of no whole blocks": Decoder(width=40, heads=2, key_heads=1, head_size=20, rotated=20, inner=52),
    "gemma, f16 of no whole blocks": Decoder(family="gemma", tied=True, width=40, heads=2, head_size=20, rotated=20, inner=50, store=as_f16),
    "llama, f16": Decoder(store=as_f16),
}
