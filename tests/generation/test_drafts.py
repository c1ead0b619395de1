"""Guessed tokens: whatever is guessed, by whom and how often rightly, texts are those without guesses, token by token.

Breaks when a row sees what stands behind it, when a key of a guess that was wrong is kept or shared, when a number is drawn for a row
that is not looked at, or when counts are not those of what was guessed.
"""

import os
import pathlib
import random
import re
import subprocess
import sys

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, os.path.dirname(__file__))
import hub_models  # noqa: E402
import small_decoders  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
FAMILIES = ["llama, q8_0", "gemma3"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drafts")
    for name in FAMILIES:
        small_decoders.FAMILIES[name].write(folder / name)
    small_decoders.Decoder(layers=1, seed=5).write(folder / "other")
    return folder


def drawn(rng, count):
    """Prompts that repeat themselves, none of which begins as another does, with all kinds of sampling."""
    for seed in range(count):
        part = [rng.randrange(3, 280) for _ in range(rng.randrange(2, 12))]
        prompt = [3 + seed] + (part * 6)[: rng.randrange(2, 60)]
        sampling = [{"temperature": 0}, {"temperature": 0.3, "repeat_penalty": 1.2}, {"temperature": 1.0, "top_k": 0, "top_p": 1, "min_p": 0}][seed % 3]
        yield prompt, {"tokens": rng.randrange(1, 40), "seed": seed, **sampling}


def texts(batch, asked, rng=None):
    result = []
    for prompt, settings in asked:
        result.append(batch.add(prompt, **settings))
        for _ in range(rng.randrange(3) if rng else 0):
            batch.step()
    batch.run()
    return [(text.tokens, text.end) for text in result]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_texts_are_those_without_guesses(paths, name, exact):
    model = tensmith.language.load(paths / name, threads=1, exact=exact)
    rng = random.Random(name)
    asked = list(drawn(rng, 15))
    want = [texts(model.batch(sequences=1, cache_tokens=256), [one])[0] for one in asked]
    itself = tensmith.language.load(paths / name, threads=1, exact=exact)
    other = tensmith.language.load(paths / "other", threads=1, exact=exact)
    for guesses in ({"lookup": True}, {"draft": itself}, {"draft": other, "draft_tokens": 3}, {"draft": itself, "draft_tokens": 20}):
        batch = model.batch(sequences=5, cache_tokens=4096, prompt_piece=512, **guesses)
        assert texts(batch, asked, rng) == want, guesses
        counts = batch.counts
        assert counts["accepted"] <= counts["drafted"] > 0 and counts["held_pages"] == 0
        assert counts["accepted"] > 0 or guesses.get("draft") is not itself
        assert counts["tokens"] == sum(len(tokens) for tokens, _ in want)


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 0.7}, {"temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0, "repeat_penalty": 1.3}])
def test_one_that_guesses_by_itself_is_right(paths, sampling):
    """But for the end of each text, all that it guesses: it draws by the numbers that the text is drawn by."""
    model = tensmith.language.load(paths / FAMILIES[0], threads=1, exact=True)
    batch = model.batch(draft=model, draft_tokens=4)
    text = batch.add([5, 9, 200], tokens=41, seed=3, **sampling)
    batch.run()
    assert len(text.tokens) == 41 and batch.counts["accepted"] == batch.counts["drafted"] == 32
    assert batch.counts["steps"] <= 10


def test_few_pages(paths):
    """Nobody gives way for a guess, and texts that give way go on as they were."""
    model = tensmith.language.load(paths / FAMILIES[0], threads=1, exact=True)
    rng = random.Random(4)
    asked = list(drawn(rng, 18))
    want = [texts(model.batch(sequences=1, cache_tokens=256), [one])[0] for one in asked]
    batch = model.batch(sequences=8, cache_tokens=256, lookup=True, draft_tokens=16)
    assert texts(batch, asked) == want
    assert batch.counts["held_pages"] == 0


def test_draws_have_the_models_distribution(paths):
    """The second token of many texts, whose first is guessed, against the logits' shares: chi-square, by fixed seeds."""
    model = tensmith.language.load(paths / FAMILIES[0], threads=1, exact=True)
    prompt, count = [5, 9, 5, 9], 1500
    batch = model.batch(sequences=64, cache_tokens=4096, draft=model, draft_tokens=2)
    sampling = {"tokens": 2, "temperature": 1.0, "top_k": 4, "top_p": 1, "min_p": 0}
    drawn_tokens = [batch.add(prompt, seed=seed, **sampling) for seed in range(count)]
    batch.run()
    assert batch.counts["accepted"] > 100

    def shares(tokens):
        logits = model.logits(tokens).astype(numpy.float64)
        best = numpy.argsort(-logits)[:4]
        share = numpy.exp(logits[best] - logits[best].max())
        return dict(zip(best.tolist(), share / share.sum()))

    statistic, free = 0.0, 0
    for first, share in shares(prompt).items():
        with_it = [text.tokens for text in drawn_tokens if text.tokens and text.tokens[0] == first]
        statistic += (len(with_it) - count * share) ** 2 / (count * share)
        free += 1
        for second, part in shares(prompt + [first]).items():
            found = sum(1 for tokens in with_it if len(tokens) > 1 and tokens[1] == second)
            if len(with_it) * part > 5:
                statistic += (found - len(with_it) * part) ** 2 / (len(with_it) * part)
                free += 1
    assert free >= 8 and statistic < free + 4 * (2 * free) ** 0.5


def test_the_command(paths):
    path = paths / FAMILIES[0]
    base = [PROGRAM, "generate", path, "--prompt", "the ant the ant the ant", "-n", "20", "--temperature", "0", "--exact"]
    plain = subprocess.run(base, capture_output=True, timeout=300)
    for more in (["--lookup"], ["--draft", paths / "other"], ["--draft", path, "--draft-tokens", "7"]):
        done = subprocess.run([*base, *more], capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout == plain.stdout
        assert re.search(rb"prompt: \d+ tokens, [\d.]+ a second; generated: \d+ tokens, [\d.]+ a second; guessed: \d+ tokens, \d+ of them", done.stderr)
    alone = subprocess.run([*base, "--draft-tokens", "5"], capture_output=True, text=True, timeout=300)
    assert alone.returncode == 2 and "--draft or --lookup" in alone.stderr


def guessed(done):
    assert done.returncode == 0, done.stderr
    return tuple(map(int, re.search(rb"guessed: (\d+) tokens, (\d+) of them", done.stderr).groups()))


def test_a_draft_has_the_models_context(tmp_path):
    """Breaks when the draft stops guessing where its own context would end unasked, or says nothing where it ends earlier."""
    small_decoders.Decoder(context=8192).write(tmp_path / "long")
    small_decoders.Decoder(layers=1, seed=5).write(tmp_path / "short")
    base = [PROGRAM, "generate", tmp_path / "long", "--prompt-file", "-", "-n", "6", "--temperature", "0", "--context", "6000", "--draft"]
    prompt = b"<s>" * 4200
    done = subprocess.run([*base, tmp_path / "long", "--control"], input=prompt, capture_output=True, timeout=300)
    assert guessed(done)[0] > 0 and b"beyond" not in done.stderr
    done = subprocess.run([*base, tmp_path / "short"], input=b"ant", capture_output=True, timeout=300)
    assert guessed(done)[0] > 0 and b"takes 256 tokens, and guesses nothing beyond them; the context has 6000" in done.stderr
    long, short = (tensmith.language.load(tmp_path / name) for name in ("long", "short"))
    with pytest.warns(UserWarning, match="256 tokens is less than the model's of 4096"):
        long.batch(draft=short)


HUB = pathlib.Path(PROGRAM).parents[1] / "lib/libtensmith_unicode.so"


@pytest.mark.skipif(not HUB.exists(), reason="libtensmith_unicode.so is not built (libicu-dev)")
def test_a_drafts_weights_are_quantised_as_the_models(tmp_path):
    """One that guesses for itself is right, which it isn't with other weights."""
    hub_models.write(tmp_path, hub_models.CONFIGS["llama"])
    base = [PROGRAM, "generate", tmp_path, "--prompt", "the hen", "-n", "41", "--temperature", "0", "--exact", "--weights", "4", "--draft", tmp_path]
    drafted, right = guessed(subprocess.run(base, capture_output=True, timeout=300))
    assert drafted == right > 0


@pytest.mark.skipif(not HUB.exists(), reason="libtensmith_unicode.so is not built (libicu-dev)")
def test_embeddings_may_be_filled_otherwise(tmp_path, monkeypatch):
    """Breaks when padding is compared, when the draft is asked about what only the model has, or guesses what only itself has."""
    models = {}
    for size in (350, 352, 1500):
        monkeypatch.setattr(hub_models, "VOCABULARY", size)
        hub_models.write(tmp_path / str(size), {**hub_models.CONFIGS["llama"], "vocab_size": size})
        models[size] = tensmith.language.load(tmp_path / str(size), threads=1, exact=True)
    rng = random.Random(8)
    asked = list(drawn(rng, 12))
    for size, model in models.items():
        want = texts(model.batch(sequences=4), asked)
        assert size < 1500 or max(max(tokens, default=0) for tokens, _ in want) >= 352
        for other, draft in models.items():
            batch = model.batch(sequences=4, draft=draft)
            assert texts(batch, asked) == want, (size, other)
            assert batch.counts["drafted"] > 0


def test_what_cannot_guess(paths, tmp_path):
    model = tensmith.language.load(paths / FAMILIES[0])
    small_decoders.Decoder(more={"tokenizer.ggml.tokens": ["other"] + small_decoders.TOKENS[1:]}).write(tmp_path / "names")
    for draft, message in ((tensmith.language.load(tmp_path / "names"), "another token 0"),):
        with pytest.raises(tensmith.Error, match=message):
            model.batch(draft=draft)
    with pytest.raises(tensmith.Error, match="not by what"):
        model.batch(draft_tokens=5)
    with pytest.raises(tensmith.Error, match="1 to 64"):
        model.batch(lookup=True, draft_tokens=65)
    with pytest.raises(tensmith.Error, match="not both"):
        model.batch(lookup=True, draft=model)
