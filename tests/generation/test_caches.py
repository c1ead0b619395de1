"""Keys and values in 16, 8 and 4 bits: against the decoder in NumPy, which rounds them by the formats' definition.

Breaks when a block's scale, code or place is another, when a token sees its own run's keys otherwise than the cache's, or when pages,
beginnings in common or guesses take anything else than what is kept.
"""

import os
import random
import sys

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, os.path.dirname(__file__))
import small_decoders  # noqa: E402

DECODERS = {
    "llama": small_decoders.Decoder(head_size=32, rotated=32),
    "gemma3": small_decoders.Decoder(
        family="gemma3", tied=True, post_norms=True, head_norms=True, window=4, layers=7, base=1000000.0, head_size=64, rotated=64
    ),
}
BITS = {"f16": 16, "q8_0": 8.5, "q4_0": 4.5}


def rounded(kind):
    def f16(x):
        return x.astype(numpy.float16).astype(numpy.float64)

    def blocks(x):
        cut = x.reshape(*x.shape[:-1], -1, 32)
        if kind == "q8_0":
            scale, least, most = f16(numpy.abs(cut).max(-1, keepdims=True) / 127), -127, 127
        else:
            high, low = cut.max(-1, keepdims=True), cut.min(-1, keepdims=True)
            scale, least, most = f16(numpy.where(high >= -low, high, low) / -8), -8, 7
        return (numpy.round(cut / numpy.where(scale == 0, 1, scale)).clip(least, most) * scale).reshape(x.shape)

    return f16 if kind == "f16" else blocks


def drawn(seed):
    rng = random.Random(seed)
    return [rng.randrange(3, 280) for _ in range(40)]


def error(got, want):
    return float(numpy.sqrt(((got - want) ** 2).mean() / (want**2).mean()))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("caches")
    return {name: (folder / name, decoder.write(folder / name)) for name, decoder in DECODERS.items()}


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("name", DECODERS)
def test_logits_are_those_of_rounded_keys(written, name, kind):
    """A prompt as a whole, and token by token. What floats round otherwise makes another code here and there, and no more."""
    path, stored = written[name]
    decoder = DECODERS[name]
    model = tensmith.language.load(path, threads=1, exact=True, cache_type=kind)
    tokens = drawn(3)
    plain, want = decoder.logits(stored, tokens), decoder.logits(stored, tokens, rounded(kind))
    bound = {"f16": 2e-3, "q8_0": 0.03, "q4_0": 0.5}[kind]
    assert 1e-6 < error(want, plain) < bound
    together = tensmith.language.load(path, threads=1, exact=True, cache_type=kind).logits(tokens)
    assert error(together, want[-1]) < 0.3 * error(want[-1], plain[-1])
    got = numpy.stack([model.logits(tokens[: count + 1]) for count in range(len(tokens))])
    assert error(got, want) < 0.3 * error(want, plain)


@pytest.mark.parametrize("size", [16, 48])
def test_f16_of_any_heads(size, tmp_path):
    """Breaks when halves are kept in blocks, which such heads are no whole ones of."""
    decoder = small_decoders.Decoder(head_size=size, rotated=size)
    stored = decoder.write(tmp_path / "model")
    model = tensmith.language.load(tmp_path / "model", threads=1, exact=True, cache_type="f16")
    assert model.cache_bytes == 2 * 2 * 2 * size * 2
    tokens = drawn(size)
    plain, want = decoder.logits(stored, tokens), decoder.logits(stored, tokens, rounded("f16"))
    got = numpy.stack([model.logits(tokens[: count + 1]) for count in range(len(tokens))])
    assert error(got, want) < 0.3 * error(want, plain)
    batch = model.batch(sequences=2)
    texts = [batch.add(tokens[:20], tokens=12, temperature=0) for _ in range(2)]
    batch.run()
    known = tokens[:20]
    for token in texts[0].tokens:
        best = model.logits(known)
        assert best[token] >= best.max() - 1e-4 * numpy.abs(best).max()
        known.append(token)
    assert texts[0].tokens == texts[1].tokens


@pytest.mark.parametrize("kind", BITS)
def test_batches_pages_and_guesses(written, kind):
    """Texts are those that they are alone; a beginning in common is taken as it is kept; guesses change nothing."""
    model = tensmith.language.load(written["llama"][0], threads=1, exact=True, cache_type=kind)
    rng = random.Random(kind)
    common = [rng.randrange(3, 280) for _ in range(40)]
    asked = [(common[: rng.randrange(20, 41)] + [seed + 3], {"tokens": 12, "seed": seed, "temperature": seed % 2}) for seed in range(8)]
    alone = []
    for prompt, settings in asked:
        batch = model.batch(sequences=1, cache_tokens=256)
        text = batch.add(prompt, **settings)
        batch.run()
        alone.append(text.tokens)
    for guesses in ({}, {"lookup": True}, {"draft": model}):
        batch = model.batch(sequences=4, cache_tokens=256, prompt_piece=64, **guesses)
        texts = [batch.add(prompt, **settings) for prompt, settings in asked]
        batch.run()
        assert [text.tokens for text in texts] == alone
        assert batch.counts["reused_tokens"] > 0 and batch.counts["held_pages"] == 0


def test_memory(written):
    path = written["llama"][0]
    plain = tensmith.language.load(path)
    assert plain.cache_bytes == 2 * 2 * 2 * 32 * 4
    for kind, bits in BITS.items():
        assert tensmith.language.load(path, cache_type=kind).cache_bytes == plain.cache_bytes * bits / 32


def test_what_cannot_be_kept(written, tmp_path):
    small_decoders.Decoder().write(tmp_path / "small")
    with pytest.raises(tensmith.Error, match="heads of 16 numbers"):
        tensmith.language.load(tmp_path / "small", cache_type="q8_0")
    with pytest.raises(tensmith.Error, match="f32, f16, q8_0 or q4_0"):
        tensmith.language.load(written["llama"][0], cache_type="q5_1")
