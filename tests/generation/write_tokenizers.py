"""Writes tokenizers.json.gz: tokenizers of all kinds, texts, and the tokens that the library `tokenizers` gives them.

    pip install tokenizers sentencepiece && python tests/generation/write_tokenizers.py

The library isn't needed for the tests, which read what is written here.
"""

import base64
import gzip
import io
import json
import pathlib
import random
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The hens and the ants are in the den; they don't sing, we'll see.", "In 1984, 2024 and 31415 numbers were counted: 7 of 10.",
    "Über den Wölken muß die Freiheit wohl grenzenlos sein, café naïve.", "漢字と仮名を交えた文章です。東京タワー", "Привет, мир! Как дела?",
    "مرحبا بالعالم", "안녕하세요 세계", "def f(x):\n    return x + 1\n\n\tpass", "emoji 🙂👩‍👩‍👧‍👦🇩🇪 and more 🎉🎉", "ﬁne ﬂow Ⅳ ① ½ ｆｕｌｌ", "हिन्दी में लिखा",
]  # fmt: skip
GPT2 = None  # ByteLevel's own
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ALPHABETS = [
    "abcdefghij klm THE the 's 'LL don't", "0123456789 ²½Ⅷ٣", " \t\n\r\u00a0\u3000\u200b\u0085\u000b\u000c  ", ".,;:!?()[]{}<>/|\\'\"-_#$%&*+=^`~@«»„—¿、。",
    "äöüßéèñçåøœİıſﬁ", "a\u0301e\u0308o\u0302n\u0303\u0345\u05b0", "漢字東京仮名あいうカタカナー", "한국어가각", "Привет мир", "עברית العربية", "नमस्ते a\u200db",
    "🙂🎉👍🏽👩‍👩‍👧🇩🇪❤️", "\x00\x01\x07\x1b\x7f\u00ad\u200d\ufeff\ufffd\ufdd1", "𝔘𝔫𝔦😀\U0001f600\U00010348", "ｆｕｌｌ①②㍍",
]  # fmt: skip


def texts(rng, count, names):
    result = ["", " ", "Hello, world!", "  two  spaces  ", "▁mark ▁▁", SENTENCES[0], SENTENCES[7]]
    while len(result) < count:
        text = ""
        for _ in range(rng.randrange(1, 7)):
            if names and rng.random() < 0.25:
                text += rng.choice(["", " ", "  ", "x", "\n"]) + rng.choice(names) + rng.choice(["", " ", "\t ", "y"])
            elif rng.random() < 0.3:
                words = rng.choice(SENTENCES).split(" ")
                text += " ".join(words[: rng.randrange(1, 5)])
            else:
                alphabet = rng.choice(ALPHABETS)
                text += "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 9)))
        result.append(text)
    return result


def trained(trainer, model, normalizer=None, pre=None, repeat=3):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    tokenizer.train_from_iterator(SENTENCES * repeat, trainer)
    return tokenizer


def bpe(size=420, alphabet=(), specials=("<s>", "</s>"), **more):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), initial_alphabet=list(alphabet), show_progress=False, **more)


def byte_level(pattern, normalizer=None, specials=("<|begin|>", "<|end|>"), **more):
    if pattern is None:
        pre = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        pre = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = trained(bpe(500, alphabet, specials), models.BPE(**more), normalizer, pre)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def with_bytes(tokenizer, **changes):
    """The tokenizer with a token for each byte, and its model changed."""
    data = json.loads(tokenizer.to_str())
    vocabulary = data["model"]["vocab"]
    for byte in range(256):
        name = f"<0x{byte:02X}>"
        if isinstance(vocabulary, dict):
            vocabulary[name] = len(vocabulary)
        else:
            vocabulary.append([name, -20.0 - byte / 100])
    data["model"].update(byte_fallback=True, **changes)
    return Tokenizer.from_str(json.dumps(data))


def sentencepiece_bpe(pre=None, normalizer=None, decoder=None):
    plain = normalizers.Replace(" ", "▁")
    tokenizer = trained(bpe(380, specials=["<unk>", "<s>", "</s>"]), models.BPE(unk_token="<unk>", fuse_unk=True), plain, pre_tokenizers.Split("▁", "merged_with_next"))
    tokenizer = with_bytes(tokenizer)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoder
    return tokenizer


def charsmap():
    """A table with rules of its own, as SentencePiece compiles it."""
    rules = {"Ⅳ": "IV", "①": "1", "½": "1/2", "ﬁ": "fi", "ｆ": "f", "é": "e", "e\u0301": "e", "\t": " ", "\n": " ", "\u200b": "", "ß": "ss", "👍🏽": "+"}
    rows = "".join("%s\t%s\n" % (" ".join(f"{ord(c):X}" for c in a), " ".join(f"{ord(c):X}" for c in b)) for a, b in rules.items())
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.write(rows)
        file.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES * 5), model_writer=model, vocab_size=200, model_type="unigram", normalization_rule_tsv=file.name,
            hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def unigram(size=300, normalizer=None, pre=None, specials=("<pad>", "</s>", "<unk>")):
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=list(specials), unk_token="<unk>", show_progress=False)
    return trained(trainer, models.Unigram(), normalizer, pre, 10)


def kinds():
    """name -> tokenizer."""
    n, p, d = normalizers, pre_tokenizers, decoders
    yield "gpt2", byte_level(GPT2)
    llama3 = byte_level(LLAMA3, ignore_merges=True)
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", llama3.token_to_id("<|begin|>"))]),
    ])  # fmt: skip
    yield "llama3", llama3
    qwen = byte_level(QWEN2, n.NFC())
    qwen.add_tokens([AddedToken("<think>", normalized=False), AddedToken("Ünit", normalized=True)])
    yield "qwen2", qwen
    yield "o200k", byte_level(O200K)
    prefixed = byte_level(GPT2)
    prefixed.pre_tokenizer = p.ByteLevel(add_prefix_space=True)
    prefixed.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    yield "roberta", prefixed
    space = d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])
    llama = sentencepiece_bpe(None, n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")]), space)
    llama.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    yield "llama2", llama
    yield "mistral", sentencepiece_bpe(p.Metaspace(prepend_scheme="first", split=False), None, d.Metaspace(prepend_scheme="first"))
    gemma = sentencepiece_bpe(p.Split(" ", "merged_with_previous"), n.Replace(" ", "▁"), d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse()]))
    gemma.add_special_tokens([AddedToken("<turn>", normalized=False)])
    yield "gemma", gemma
    t5 = unigram(300, n.Precompiled(charsmap()), p.Metaspace())
    t5.decoder = d.Metaspace()
    t5.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    yield "t5", t5
    small = unigram(200, n.Sequence([n.Nmt(), n.NFKC(), n.Replace(Regex(" {2,}"), " ")]), p.Sequence([p.WhitespaceSplit(), p.Metaspace()]))
    small = with_bytes(small)
    small.decoder = d.Sequence([d.ByteFallback(), d.Metaspace()])
    yield "unigram, bytes", small
    for cased in (False, True):
        trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False)
        bert = trained(trainer, models.WordPiece(unk_token="[UNK]"), n.BertNormalizer(lowercase=not cased), p.BertPreTokenizer())
        bert.decoder = d.WordPiece(cleanup=not cased)
        bert.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
        yield f"bert{', cased' if cased else ''}", bert
    trainer = trainers.WordLevelTrainer(special_tokens=["[UNK]"], show_progress=False)
    yield "words", trained(trainer, models.WordLevel(unk_token="[UNK]"), n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()]), p.Whitespace())
    clip = trained(
        bpe(400, p.ByteLevel.alphabet(), ["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>"),
        models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"), n.Sequence([n.NFC(), n.Replace(Regex(r"\s+"), " "), n.Lowercase()]),
        p.Sequence([p.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True), p.ByteLevel(add_prefix_space=False)]),
    )  # fmt: skip
    clip.decoder = d.Sequence([d.BPEDecoder()])
    yield "clip", clip
    marked = trained(bpe(350, specials=["<unk>"], continuing_subword_prefix="##"), models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), n.Strip(), p.Whitespace())
    yield "pairs with a prefix", marked
    # Behaviours one by one, and tokens that take what is around them.
    cuts = {
        "digits": p.Sequence([p.Digits(individual_digits=True), p.Punctuation("contiguous")]), "digits together": p.Sequence([p.Digits(), p.Punctuation("merged_with_next")]),
        "scripts": p.Sequence([p.WhitespaceSplit(), p.UnicodeScripts()]), "delimiter": p.Sequence([p.CharDelimiterSplit("e"), p.Punctuation("removed")]),
        "letters": p.Split(Regex(r"\p{L}+"), "merged_with_previous"), "spaces": p.Split(Regex(r"\s"), "contiguous", invert=True), "five": p.FixedLength(5),
        # Matches of no length.
        "characters": p.Split("", "isolated"), "capitals": p.Split(Regex("(?=[A-Z])"), "merged_with_next"), "digits apart": p.Split(Regex(r"(?<=\d)(?=\d)"), "removed"),
        "maybe": p.Split(Regex(r"\d*"), "merged_with_previous"), "maybe, inverted": p.Split(Regex("[a-e]*"), "contiguous", invert=True),
        "words or not": p.Sequence([p.Split(Regex(r"\W"), "isolated"), p.Whitespace()]),
    }  # fmt: skip
    for name, pre in cuts.items():
        tokenizer = trained(bpe(300, specials=["<unk>"]), models.BPE(unk_token="<unk>"), n.NFKD(), p.WhitespaceSplit())
        tokenizer.pre_tokenizer = pre
        tokenizer.add_tokens([
            AddedToken("<l>", lstrip=True, normalized=False), AddedToken("<r>", rstrip=True, normalized=False), AddedToken("word", single_word=True),
            AddedToken("ﬁne"), AddedToken("<l><r>", normalized=False),
        ])  # fmt: skip
        tokenizer.add_special_tokens([AddedToken("<b>", lstrip=True, rstrip=True)])
        yield name, tokenizer


def without_control(data):
    """The tokenizer with control tokens under names that no text has: what a text is made of that can't be one."""
    data = json.loads(json.dumps(data))
    names = {token["content"]: "\ufdd0" + token["content"] for token in data["added_tokens"] if token["special"]}
    for token in data["added_tokens"]:
        token["content"] = names.get(token["content"], token["content"])
    model, data["post_processor"] = data["model"], None
    if model["type"] == "Unigram":
        model["vocab"] = [[names.get(name, name), score] for name, score in model["vocab"]]
    else:
        model["vocab"] = {names.get(name, name): token for name, token in model["vocab"].items()}
        model["unk_token"] = names.get(model["unk_token"], model["unk_token"])
        if "merges" in model:
            model["merges"] = [pair for pair in model["merges"] if "".join(pair) not in names]
    return Tokenizer.from_str(json.dumps(data))


def main():
    rng = random.Random(7)
    cases = []
    for name, tokenizer in kinds():
        data = json.loads(tokenizer.to_str())
        names = [token["content"] for token in data["added_tokens"]]
        rows = []
        of_text = without_control(data)
        for text in texts(rng, 70, names):
            whole = tokenizer.encode(text).ids
            plain = tokenizer.encode(text, add_special_tokens=False).ids
            apart = of_text.encode(text, add_special_tokens=False).ids
            some = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(8)]
            rows.append([text, whole, plain, apart, tokenizer.decode(whole), some, tokenizer.decode(some)])
        cases.append({"name": name, "tokenizer": data, "rows": rows})
    path = pathlib.Path(__file__).with_name("tokenizers.json.gz")
    path.write_bytes(gzip.compress(json.dumps(cases, ensure_ascii=False).encode("utf-8", "surrogatepass"), 9, mtime=0))
    print(len(cases), "tokenizers,", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
