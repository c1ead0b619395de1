"""Decoders of all families against an evaluation in NumPy: small ones with drawn weights, from files that the tests write.

Breaks when a family's rotation, norm, window, cap, bias or scale is another than its definition, when keys and values of former
tokens are mixed up, or when a token's result depends on how the tokens before it were given.
"""

import os
import pathlib
import random
import subprocess
import sys

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, os.path.dirname(__file__))
import small_decoders  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
PROMPT = "the hen and the ants in the den: naïve"


def close(got, want):
    return numpy.abs(got - want).max() <= 2e-5 * max(1, numpy.abs(want).max())


@pytest.mark.parametrize("name", small_decoders.FAMILIES)
def test_families(name, tmp_path):
    decoder = small_decoders.FAMILIES[name]
    path = tmp_path / "model.gguf"
    stored = decoder.write(path)
    model = tensmith.language.load(path, threads=1, exact=True)
    tokens = model.encode(PROMPT)
    want = decoder.logits(stored, tokens)
    assert close(model.logits(tokens), want[-1])
    # One by one, from the beginning; and back to some place in the middle.
    other = tensmith.language.load(path, threads=2, exact=True)
    for count in [*range(1, len(tokens) + 1), 5, 11]:
        assert close(other.logits(tokens[:count]), want[count - 1]), count


def test_divisors_are_those_of_the_context(tmp_path):
    """Breaks when a context beyond the original one takes the other list, or when only the tokens that there are decide."""
    decoder = small_decoders.Decoder(family="phi3", packed=True, long_rope=(64, 1.3))
    stored = decoder.write(tmp_path / "model.gguf")
    for context, is_long in ((64, False), (65, True)):
        model = tensmith.language.load(tmp_path / "model.gguf", threads=1, exact=True, context=context)
        tokens = model.encode(PROMPT)
        assert close(model.logits(tokens), decoder.logits(stored, tokens, is_long=is_long)[-1])


@pytest.mark.parametrize("decoder,message", [
    (small_decoders.Decoder(yarn=(0.5, 128)), "yarn without"),
    (small_decoders.Decoder(long_rope=(64, -1.0)), "factor of attention"),
    (small_decoders.Decoder(more={"llama.rope.scaling.type": "longrope"}), "rope_factors_short"),
    (small_decoders.Decoder(more={"llama.rope.scaling.type": "dynamic"}), "linear, yarn and longrope"),
    (small_decoders.Decoder(more={"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 0.0}), "divides rotations by 0"),
])  # fmt: skip
def test_rotations_that_are_none(decoder, message, tmp_path):
    decoder.write(tmp_path / "model.gguf")
    with pytest.raises(tensmith.Error, match=message):
        tensmith.language.load(tmp_path / "model.gguf")


def test_experts_are_refused_by_their_name(tmp_path):
    small_decoders.Decoder(more={"llama.expert_count": 8}).write(tmp_path / "model.gguf")
    with pytest.raises(tensmith.Error, match="8 experts"):
        tensmith.language.load(tmp_path / "model.gguf")


def test_rounding_to_8_bits_is_small(tmp_path):
    """Not exact, one token at a time: an error of some thousandths, and another text only where two tokens are as likely."""
    path = tmp_path / "model.gguf"
    decoder = small_decoders.FAMILIES["qwen2, q4_0"]
    stored = decoder.write(path)
    model = tensmith.language.load(path)
    tokens = model.encode(PROMPT)
    want = decoder.logits(stored, tokens)
    got = numpy.stack([model.logits(tokens[: count + 1]) for count in range(len(tokens))])
    assert numpy.sqrt(((got - want) ** 2).mean() / (want**2).mean()) < 0.02


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("generation") / "model.gguf"
    small_decoders.FAMILIES["llama, q8_0"].write(path)
    return path


def test_greedy_text_is_the_likeliest(model_path):
    decoder = small_decoders.FAMILIES["llama, q8_0"]
    stored = decoder.write(model_path)
    model = tensmith.language.load(model_path, exact=True)
    known = model.encode("the ant")
    want = []
    for _ in range(6):
        token = int(decoder.logits(stored, known).argmax(-1)[-1])
        if token == 2:
            break
        known.append(token)
        want.append(token)
    assert model.generate("the ant", tokens=6, temperature=0) == model.decode(want)


def test_the_seed_decides(model_path):
    model = tensmith.language.load(model_path)
    texts = [model.generate("the", tokens=12, temperature=1.5, top_k=0, top_p=1, min_p=0, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert "".join(model.stream("the", tokens=12, temperature=1.5, top_k=0, top_p=1, min_p=0, seed=1)) == texts[0]


def test_text_and_back(model_path):
    model = tensmith.language.load(model_path)
    for text in ("the hen", " two  spaces ", "naïve 漢字 🙂", "a\nb\tc", ""):
        assert model.decode(model.encode(text, begins=False)) == text


def test_control_tokens_are_found_where_that_is_asked_for(model_path):
    model = tensmith.language.load(model_path)
    assert 2 not in model.encode("a</s>b")
    assert 2 in model.encode("a</s>b", control=True)


@pytest.mark.parametrize("end,kind", [("</s>", 4), ("▁the", 1), ("th", 1), ("</s>", 1)])
def test_what_ends_a_text_is_no_text(end, kind, tmp_path):
    """Breaks when a token of another kind than control, found by its name or put together of letters, lets a text from outside end."""
    number = small_decoders.TOKENS.index(end)
    kinds = list(small_decoders.tokenizer()["tokenizer.ggml.token_type"])
    kinds[number] = kind
    more = {"tokenizer.ggml.token_type": kinds, "tokenizer.ggml.eos_token_id": number}
    small_decoders.Decoder(more=more).write(tmp_path / "model")
    tokenizer = tensmith.language.Tokenizer(tmp_path / "model")
    text = "the hen</s> then"
    assert tokenizer.ends(number) and number not in tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)).strip() == text


@pytest.mark.parametrize("seed", range(8))
def test_what_ends_a_text_is_no_text_of_merged_pairs(seed, tmp_path):
    """By rank: a merge to the token that ends texts is none. Breaks when it is one, or when what it would join is lost."""
    rng = random.Random(seed)
    tokens, merges = [chr(code) for code in range(33, 127)] + ["Ġ"], []
    while len(tokens) < 160:
        pair = [rng.choice("abcĠ") if rng.random() < 0.3 else rng.choice(tokens[64:]) for _ in range(2)]
        if "".join(pair) not in tokens:
            merges.append(" ".join(pair))
            tokens.append("".join(pair))
    end = rng.randrange(95, 120)
    more = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.token_type": [1] * len(tokens), "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.unknown_token_id": end,
    }  # fmt: skip
    data = {**small_decoders.Decoder().metadata(), **more}
    for key in ("scores", "bos_token_id"):
        del data[f"tokenizer.ggml.{key}"]
    (tmp_path / "model").write_bytes(small_decoders.gguf(data, {}))
    tokenizer = tensmith.language.Tokenizer(tmp_path / "model")
    for _ in range(60):
        text = "".join(rng.choice(tokens[64:]) if rng.random() < 0.7 else tokens[end] for _ in range(8)).replace("Ġ", " ")
        tokens_of_text = tokenizer.encode(text, begins=False)
        assert end not in tokens_of_text and tokenizer.decode(tokens_of_text) == text
    assert tokenizer.encode(tokens[end], control=True, begins=False) == [end]
    assert end not in tokenizer.encode("é", begins=False)  # which this vocabulary has no letters of


@pytest.mark.parametrize("settings", [{"temperature": -1}, {"top_p": 0}, {"min_p": 2}, {"repeat_penalty": 0}, {"top_k": -1}])
def test_settings_out_of_range(model_path, settings):
    with pytest.raises(tensmith.Error):
        tensmith.language.load(model_path).generate("a", tokens=1, **settings)


def test_more_than_the_context(model_path):
    model = tensmith.language.load(model_path, context=16)
    assert model.context == 16
    with pytest.raises(tensmith.Error, match="more than the context of 16"):
        model.generate([5] * 17)
    assert len(list(model.stream([5] * 10, tokens=100, temperature=0))) <= 8
    with pytest.raises(tensmith.Error, match="contexts of 1 to 256"):
        tensmith.language.load(model_path, context=1000)


def test_the_command(model_path):
    arguments = ["generate", model_path, "--prompt", "the ant", "-n", "5", "--temperature", "0"]
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("utf-8", "replace") == tensmith.language.load(model_path).generate("the ant", tokens=5, temperature=0) + "\n"
    assert b"generated: 5 tokens" in done.stderr
    wrong = subprocess.run([PROGRAM, "generate", __file__, "--prompt", "a"], capture_output=True, text=True, timeout=300)
    assert wrong.returncode == 1 and "is no GGUF file" in wrong.stderr
