"""Tokenizers as tokenizer.json has them, against what the library `tokenizers` gives (write_tokenizers.py), text by text.

Breaks when a normaliser, a pre-tokeniser, a model of tokens, a template, a decoder or a rule of added tokens does anything else, and
when a damaged file ends in anything but an error that says where.
"""

import codecs
import copy
import gzip
import json
import os
import pathlib
import random
import struct
import sys

import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import small_decoders  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
pytestmark = pytest.mark.skipif(not (BUILD / "lib/libtensmith_unicode.so").exists(), reason="libtensmith_unicode.so is not built (libicu-dev)")
CASES = json.loads(gzip.decompress(pathlib.Path(__file__).with_name("tokenizers.json.gz").read_bytes()))
NAMES = [case["name"] for case in CASES]


def vocabulary_of(case):
    """name -> number of all tokens."""
    model = case["tokenizer"]["model"]["vocab"]
    names = {name: i for i, (name, _) in enumerate(model)} if isinstance(model, list) else dict(model)
    return names | {token["content"]: token["id"] for token in case["tokenizer"]["added_tokens"]}


def unknown_of(case):
    model = case["tokenizer"]["model"]
    return model["unk_id"] if "unk_id" in model else vocabulary_of(case).get(model["unk_token"], -1)


def written(path, data):
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    return {c["name"]: tensmith.language.Tokenizer(written(folder / f"{i}.json", c["tokenizer"])) for i, c in enumerate(CASES)}


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_tokens_are_those_of_the_library(tokenizers, case):
    tokenizer = tokenizers[case["name"]]
    for text, whole, plain, apart, _, _, _ in case["rows"]:
        assert tokenizer.encode(text, control=True) == whole, repr(text)
        assert tokenizer.encode(text, control=True, begins=False) == plain, repr(text)
        assert tokenizer.encode(text, begins=False) == apart, repr(text)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_texts_are_those_of_the_library(tokenizers, case):
    tokenizer = tokenizers[case["name"]]
    for _, whole, _, _, text, some, text_of_some in case["rows"]:
        assert tokenizer.decode(whole) == text
        assert tokenizer.decode(some) == text_of_some


@pytest.mark.parametrize("name", ["gpt2", "llama3", "qwen2", "gemma", "llama2", "mistral"])
def test_tokens_one_by_one_are_the_text(tokenizers, name):
    """Behind another token: what is streamed is what is decoded at once."""
    tokenizer = tokenizers[name]
    case = CASES[NAMES.index(name)]
    first = tokenizer.encode("the", begins=False)
    for text, _, _, apart, _, _, _ in case["rows"]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        streamed = "".join(decoder.decode(tokenizer._handle.bytes_of(token)) for token in first + apart) + decoder.decode(b"", True)
        assert streamed.strip(" ") == tokenizer.decode(first + apart).strip(" "), repr(text)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_what_is_parted_has_no_control_tokens(tokenizers, case):
    """A message from outside can't end its turn, whatever the normaliser or the model makes of it."""
    tokenizer = tokenizers[case["name"]]
    control = {token["id"] for token in case["tokenizer"]["added_tokens"] if token["special"]} - {unknown_of(case)}
    names = [token["content"] for token in case["tokenizer"]["added_tokens"] if token["special"]]
    wide = [name.translate({c: c + 0xFEE0 for c in range(33, 127)}) for name in names]
    for text in [row[0] for row in case["rows"]] + wide + [name.upper() for name in names]:
        assert not control & set(tokenizer.encode(tokenizer._handle.parted(text), control=True, begins=False)), repr(text)
        assert not control & set(tokenizer.encode(text, begins=False)), repr(text)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_what_ends_texts_is_in_none(case, tmp_path):
    """Any token may end texts. Breaks when a look-up, a lattice, a merge, a byte or what isn't known becomes one, or text is lost for it."""
    rng = random.Random(case["name"])
    names = {token: name for name, token in vocabulary_of(case).items()}
    used = sorted({token for row in case["rows"] for token in row[3]})
    merged = {"".join(pair) for pair in case["tokenizer"]["model"].get("merges", [])}
    written(tmp_path / "tokenizer.json", case["tokenizer"])
    plain = tensmith.language.Tokenizer(tmp_path / "tokenizer.json")
    for end in {*rng.sample(used, 7), *({unknown_of(case)} & set(used))}:
        written(tmp_path / "config.json", {"model_type": "llama", "eos_token_id": end})
        tokenizer = tensmith.language.Tokenizer(tmp_path)
        assert tokenizer.ends(end) and end in tokenizer.encode(names[end], control=True, begins=False)
        for text in [names[end], *(row[0] for row in case["rows"])]:
            try:
                tokens = tokenizer.encode(text, begins=False)
            except tensmith.Error as error:  # a model that needs a token for what it doesn't know, and has none but this
                assert end == unknown_of(case) and "the tokenizer has no token" in str(error)
                continue
            assert end not in tokens and end not in tokenizer.encode(tokenizer._handle.parted(text), control=True, begins=False), repr(text)
            if names[end] in merged and case["tokenizer"]["decoder"]:
                assert tokenizer.decode(tokens) == plain.decode(plain.encode(text, begins=False)), repr(text)


def mutations(data, rng):
    """The file with one place of it changed."""
    result = copy.deepcopy(data)
    at = result
    while True:
        key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.8:
            at = at[key]
            continue
        drawn = rng.randrange(5)
        if drawn == 0 and isinstance(at, dict):
            del at[key]
        else:
            at[key] = [None, -1, 1 << 62, "x", [], {}, "\\p{", 1e300, True, "("][rng.randrange(10)]
        return result


def test_damaged_files_are_refused_in_words(tmp_path):
    rng = random.Random(1)
    path = tmp_path / "tokenizer.json"
    refused = 0
    for _ in range(600):
        case = rng.choice(CASES)
        written(path, mutations(case["tokenizer"], rng))
        try:
            tokenizer = tensmith.language.Tokenizer(path)
            for row in case["rows"][:12]:
                tokenizer.decode(tokenizer.encode(row[0], control=True))
        except tensmith.Error as error:
            refused += 1
            assert str(path) in str(error) or "tokenizer" in str(error)
    assert refused > 150


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"model": null}', b'{"a":' * 100000, b'{"model": {"type": "Forest"}}', b"\xff\xfe"])
def test_no_tokenizer(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(tensmith.Error, match="tokenizer.json"):
        tensmith.language.Tokenizer(path)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(tensmith.Error, match="nothing.json.*No such file"):
        tensmith.language.Tokenizer(tmp_path / "nothing.json")
    tokenizer = tensmith.language.Tokenizer(written(tmp_path / "tokenizer.json", CASES[0]["tokenizer"]))
    for tokens in ([5000], [-1], [0, tokenizer.vocabulary]):
        with pytest.raises(tensmith.Error, match=f"token {tokens[-1]} is none of {tokenizer.vocabulary}"):
            tokenizer.decode(tokens)


REPLACED = [
    (r"\w", "----\u2462 \u2074\u200d$--\n-"),
    (r"\W", "a\xb2\xbd\u0301-----_2-b"),
    (r"[\w]", "-\xb2\xbd-\u2462 \u2074\u200d$--\n-"),
    (r"[^\w]", "a--\u0301-----_2-b"),
    (r"[[:word:]]", "-\xb2\xbd-\u2462 \u2074\u200d$--\n-"),
    (r"[[:punct:]]", "a\xb2\xbd\u0301\u2462 \u2074\u200d--2\nb"),
    (r"\p{Punct}", "a\xb2\xbd\u0301\u2462 \u2074\u200d$-2\nb"),
    (r"(?m:2.)", "a\xb2\xbd\u0301\u2462 \u2074\u200d$_-b"),
    (r"2.", "a\xb2\xbd\u0301\u2462 \u2074\u200d$_2\nb"),
    (r"\b", "-a\xb2\xbd\u0301-\u2462 \u2074\u200d$-_2-\n-b-"),
    (r"\B", "a-\xb2-\xbd-\u0301\u2462- -\u2074-\u200d-$_-2\nb"),
    (r"", "-a-\xb2-\xbd-\u0301-\u2462- -\u2074-\u200d-$-_-2-\n-b-"),
    (r"(?=\W)", "a\xb2\xbd\u0301-\u2462- -\u2074-\u200d-$_2-\nb"),
    (r"$", "a\xb2\xbd\u0301\u2462 \u2074\u200d$_2-\nb-"),
    (r"\w*", "-\u2462- -\u2074-\u200d-$-\n-"),
]


@pytest.mark.parametrize("pattern,want", REPLACED)
def test_classes_and_matches_of_no_length(pattern, want, tmp_path):
    """As the library replaces them by "-". Breaks when a class has ICU's characters, or what has no length is found elsewhere."""
    text = "a²½\u0301③ ⁴\u200d$_2\nb"
    vocabulary = {letter: i for i, letter in enumerate(sorted({*text, "-"}))}
    normaliser = {"type": "Replace", "pattern": {"Regex": pattern}, "content": "-"}
    data = {"normalizer": normaliser, "decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}
    tokenizer = tensmith.language.Tokenizer(written(tmp_path / "tokenizer.json", data))
    assert tokenizer.decode(tokenizer.encode(text)) == want


def test_patterns_without_an_end(tmp_path):
    """A pattern that takes exponential time gives up, with its name."""
    data = copy.deepcopy(CASES[NAMES.index("letters")]["tokenizer"])
    data["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "(a*)*b"}, "behavior": "Isolated", "invert": False}
    tokenizer = tensmith.language.Tokenizer(written(tmp_path / "tokenizer.json", data))
    with pytest.raises(tensmith.Error, match="takes too long"):
        tokenizer.encode("a" * 200)


def test_unigram_of_a_gguf_file(tmp_path):
    """SentencePiece's Unigram, as such a file has it, is what the same steps are in a tokenizer.json."""
    case = CASES[NAMES.index("t5")]
    vocabulary = case["tokenizer"]["model"]["vocab"]
    import base64

    table = base64.b64decode(case["tokenizer"]["normalizer"]["precompiled_charsmap"])
    decoder = small_decoders.Decoder()
    kinds = [3 if i < 2 else 2 if i == 2 else 1 for i in range(len(vocabulary))]
    decoder.more = {
        "tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": [piece for piece, _ in vocabulary], "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.scores": [float(score) for _, score in vocabulary], "tokenizer.ggml.precompiled_charsmap": list(struct.unpack(f"{len(table)}b", table)),
        "tokenizer.ggml.unknown_token_id": 2, "tokenizer.ggml.eos_token_id": 1,
    }  # fmt: skip
    (tmp_path / "model.gguf").write_bytes(small_decoders.gguf(decoder.metadata(), {}))
    tokenizer = tensmith.language.Tokenizer(tmp_path / "model.gguf")
    for text, _, _, apart, _, _, _ in case["rows"]:
        assert tokenizer.encode(text, begins=False) == apart, repr(text)


WORDS = {
    "llama-bpe": ["Hello", "'S", " it", "123", "4", "!\n"], "tekken": ["Hello", "World", " it", "1", "2", "!/"],
    "gpt-4o": ["Hello", "World'S", " it", "123", "4", " !/"], "starcoder": ["HelloWorld", " it", "1", "2", "!?"],
    "falcon": ["HelloWorld", "!?", " it", "123", "4", "`"], "default": ["HelloWorld", "!?", " it", "123", "4", "$"],
}  # fmt: skip


def by_merges(path, name, tokens, merges):
    """The tokenizer of a file with those tokens and merges, and the pre-tokenizer of that name."""
    more = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.token_type": [1] * len(tokens), "tokenizer.ggml.add_bos_token": False,
    }  # fmt: skip
    data = {**small_decoders.Decoder().metadata(), **more}
    for key in ("scores", "bos_token_id", "eos_token_id", "unknown_token_id"):
        del data[f"tokenizer.ggml.{key}"]
    path.write_bytes(small_decoders.gguf(data, {}))
    return tensmith.language.Tokenizer(path)


@pytest.mark.parametrize("name", WORDS)
def test_words_of_a_gguf_file(name, tmp_path):
    """Breaks if words are cut otherwise than the name says: pairs across a cut are the first to be merged, where there is none."""
    words = WORDS[name]
    letters = {byte: chr(byte) for byte in [*range(33, 127)]} | {32: "Ġ", 10: "Ċ"}
    spelled = [[letters[byte] for byte in word.encode()] for word in words]
    tokens, merges = list(letters.values()), []

    def merge(a, b):
        if a + b not in tokens:
            merges.append(f"{a} {b}")
            tokens.append(a + b)

    for left, right in zip(spelled, spelled[1:]):
        merge(left[-1], right[0])
    for word in spelled:
        for end in range(1, len(word)):
            merge("".join(word[:end]), word[end])
    tokenizer = by_merges(tmp_path / "model.gguf", name, tokens, merges)
    assert [tokenizer.decode([token]) for token in tokenizer.encode("".join(words), begins=False)] == words


@pytest.mark.parametrize("name, takes", [("llama-bpe", True), ("tekken", True), ("qwen2", False), ("gpt-4o", False)])
def test_a_word_that_is_a_token(name, takes, tmp_path):
    """Of some models it is one though no merges lead to it."""
    tokens = [chr(byte) for byte in range(33, 127)] + ["ab", "abc"]
    tokenizer = by_merges(tmp_path / "model.gguf", name, tokens, ["a b"])
    assert [tokenizer.decode([token]) for token in tokenizer.encode("abc", begins=False)] == (["abc"] if takes else ["ab", "c"])
