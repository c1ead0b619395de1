"""Several texts at a time: whatever the mix, each has the tokens that it has alone.

Breaks when sequences see one another's keys, when a shared page is written, when a page is used again before it is cleared, when
what had to give way goes on with other tokens, or when pages are not given back.
"""

import os
import random
import sys

import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, os.path.dirname(__file__))
import numpy  # noqa: E402
import small_decoders  # noqa: E402

FAMILIES = ["llama, q8_0", "gemma3", "phi3", "qwen2, q4_0"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches")
    for name in FAMILIES:
        small_decoders.FAMILIES[name].write(folder / name)
    return folder


def drawn_texts(rng, count):
    """Prompts that often begin as others do, and how each is continued."""
    beginnings = [[rng.randrange(3, 280) for _ in range(rng.randrange(1, 60))] for _ in range(4)]
    texts = []
    for seed in range(count):
        prompt = list(rng.choice(beginnings))[: rng.randrange(1, 61)] + [rng.randrange(3, 280) for _ in range(rng.randrange(1, 20))]
        drawn = {"temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0} if rng.random() < 0.3 else {"temperature": 0}
        texts.append((prompt, {"tokens": rng.randrange(1, 40), "seed": seed, **drawn}))
    return texts


def alone(model, prompt, settings):
    batch = model.batch(sequences=1, prompt_piece=7)
    text = batch.add(prompt, **settings)
    batch.run()
    return text.tokens


@pytest.mark.parametrize("name", FAMILIES)
def test_texts_are_those_of_one_by_one(paths, name):
    """With pages for one context, so that texts give way to one another; some are cancelled."""
    model = tensmith.language.load(paths / name, threads=1, exact=True)
    rng = random.Random(name)
    drawn = drawn_texts(rng, 24)
    batch = model.batch(sequences=6, cache_tokens=256, prompt_piece=7)
    texts, cancelled = [], set()
    for prompt, settings in drawn:
        texts.append(batch.add(prompt, **settings))
        for _ in range(rng.randrange(4)):
            batch.step()
        victim = rng.choice(texts)
        if rng.random() < 0.15 and victim.end is None:
            victim.cancel()
            assert victim.end == "cancelled"
            cancelled.add(victim)
    batch.run()
    for text, (prompt, settings) in zip(texts, drawn):
        want = alone(model, prompt, settings)
        if text in cancelled:
            assert text.tokens == want[: len(text.tokens)]
        else:
            assert text.end in ("stop", "length") and text.tokens == want
    counts = batch.counts
    assert counts["running"] == counts["waiting"] == counts["held_pages"] == 0
    assert counts["reused_tokens"] > 0 and counts["preempted"] > 0
    for text, (prompt, settings) in list(zip(texts, drawn))[:6]:
        assert text in cancelled or text.text == model.generate(prompt, **settings)


@pytest.mark.parametrize("name", FAMILIES)
def test_company_changes_no_bit(paths, name):
    """Rounding to 8 bits makes much of a bit, so that equal tokens, drawn from all of them, are equal bits."""
    model = tensmith.language.load(paths / name, threads=1)
    rng = random.Random(name)
    drawn = [([token] + prompt, settings) for token, (prompt, settings) in enumerate(drawn_texts(rng, 12), 3)]
    batch = model.batch(sequences=5, cache_tokens=2048, prompt_piece=7)
    texts = []
    for prompt, settings in drawn:
        texts.append(batch.add(prompt, **settings))
        batch.step()
    batch.run()
    assert batch.counts["reused_tokens"] == batch.counts["preempted"] == 0
    for text, (prompt, settings) in zip(texts, drawn):
        assert text.tokens == alone(model, prompt, settings)


def test_equal_beginnings_are_computed_once(paths):
    model = tensmith.language.load(paths / FAMILIES[0], threads=1, exact=True)
    batch = model.batch()
    prompt = list(range(3, 103))
    first = batch.add(prompt, tokens=5, temperature=0)
    batch.run()
    second = batch.add(prompt, tokens=5, temperature=0)
    batch.run()
    assert second.tokens == first.tokens and batch.counts["reused_tokens"] == 99
    # What they have in common ends in the middle of a page, which others keep as it was.
    other = batch.add(prompt[:50] + [200, 201], tokens=5, temperature=0)
    third = batch.add(prompt + first.tokens, tokens=1, temperature=0)
    batch.run()
    assert batch.counts["reused_tokens"] == 99 + 50 + 99
    assert other.tokens == alone(model, prompt[:50] + [200, 201], {"tokens": 5, "temperature": 0})
    assert third.tokens == alone(model, prompt + first.tokens, {"tokens": 1, "temperature": 0})


def test_cancelling_frees_pages_at_once(paths):
    model = tensmith.language.load(paths / FAMILIES[0], threads=1)
    batch = model.batch()
    text = batch.add(list(range(3, 153)), tokens=50, temperature=0)
    batch.step()
    assert batch.counts["held_pages"] >= 9
    text.cancel()
    assert batch.counts["held_pages"] == 0 and text.end == "cancelled" and not batch.step()


def test_embeddings(paths):
    """Against the decoder in NumPy: the mean of the rows before the last product."""
    decoder = small_decoders.FAMILIES["llama"]
    path = paths / "plain"
    stored = decoder.write(path)
    stored["output.weight"] = numpy.eye(decoder.width, dtype=numpy.float32)
    prompts = [[5, 9, 200, 17], list(range(3, 43))]
    got = tensmith.language.load(path, threads=1, exact=True).batch(prompt_piece=16).embed(prompts)
    for row, prompt in zip(got, prompts):
        want = decoder.logits(stored, prompt).mean(0)
        assert numpy.abs(row - want / numpy.linalg.norm(want)).max() < 1e-5


@pytest.mark.parametrize("kind", ["f32", "f16", "q8_0"])
def test_how_a_prompt_is_cut_changes_no_bit(paths, kind):
    """Breaks if what is in pages is read as other numbers than what the same piece gives, or if the order of a sum hangs on the piece's rows."""
    path = paths / f"pieces {kind}"
    small_decoders.Decoder(head_size=32, rotated=32, width=128, inner=128, store=small_decoders.as_q8_0).write(path)
    model = tensmith.language.load(path, threads=1, cache_type=kind)
    prompts = [list(range(3, 103)), [9, 8, 7] * 9]
    want = model.batch(prompt_piece=256).embed(prompts)
    for piece in (1, 7, 64):
        assert numpy.array_equal(model.batch(prompt_piece=piece).embed(prompts), want)


def test_what_cannot_be(paths):
    model = tensmith.language.load(paths / FAMILIES[0], threads=1)
    for wrong in ({"sequences": 0}, {"cache_tokens": 100}, {"prompt_piece": 0}, {"cache_tokens": 1 << 40}):
        with pytest.raises(tensmith.Error):
            model.batch(**wrong)
    batch = model.batch()
    for prompt in ([], [5] * 257, [-1], [1 << 20]):
        with pytest.raises(tensmith.Error):
            batch.add(prompt)
    with pytest.raises(tensmith.Error, match="temperature"):
        batch.add([5], temperature=-1)
    assert not batch.step()
