"""Language models from GGUF files, and from folders as Hugging Face's.

    import tensmith as ts
    model = ts.language.load("model.gguf")
    print(model.generate("Once upon a time", tokens=100))
    for piece in model.stream("Once upon a time"):
        print(piece, end="", flush=True)
    print(model.generate(model.chat([{"role": "user", "content": "Why is the sky blue?"}])))

The file is mapped, and its weights are multiplied in the blocks that they are stored in.
"""

from __future__ import annotations

import codecs
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence

import numpy

from . import _language

__all__ = ["Batch", "Model", "Text", "Tokenizer", "load"]


class Tokenizer:
    """Text to tokens and back, as a tokenizer.json, a model's folder or a GGUF file says. `control` and `begins` are those of
    `Model.encode`."""

    def __init__(self, path: str | os.PathLike):
        self._handle = _language.read_tokenizer(os.fspath(path))

    @property
    def vocabulary(self) -> int:
        """The number of tokens there are."""
        return self._handle.size

    def encode(self, text: str, *, control: bool = False, begins: bool = True) -> list[int]:
        return self._handle.encode(text, control, begins)

    def decode(self, tokens: Sequence[int]) -> str:
        return self._handle.decode(list(tokens)).decode("utf-8", "replace")

    def ends(self, token: int) -> bool:
        """Whether the token ends a text."""
        return self._handle.ends(token)


class Model:
    """A model with one conversation: what a prompt begins with and the last one began with is not computed again. Used by one
    thread at a time."""

    def __init__(self, handle: _language.LanguageModel):
        self._handle = handle
        self._context = _language.Context(handle)

    @property
    def vocabulary(self) -> int:
        """The number of tokens there are."""
        return self._handle.vocabulary

    @property
    def context(self) -> int:
        """Tokens of prompt and text together, at most."""
        return self._handle.context

    @property
    def cache_bytes(self) -> int:
        """What keys and values of one token take."""
        return self._handle.cache_bytes

    def encode(self, text: str, *, control: bool = False, begins: bool = True) -> list[int]:
        """The text's tokens. `control`: names of control tokens in it ("<|im_end|>") are those tokens; `begins`: with the token
        that the model begins texts with."""
        return self._handle.encode(text, control, begins)

    def chat(self, messages: Sequence[Mapping], *, template: str | None = None, reply: bool = True, **variables) -> list[int]:
        """The tokens of a chat, by the template of the model's file or another, as Jinja's language has them. `messages`: each has a
        `role` and a `content`; names of control tokens in them are text. `reply`: with the beginning of the answer; others are
        variables of the template."""
        others = {"add_generation_prompt": reply, **variables}
        return self._handle.chat(json.dumps(list(messages)), json.dumps(others), template or "")

    def decode(self, tokens: Sequence[int]) -> str:
        return self._handle.decode(list(tokens)).decode("utf-8", "replace")

    def logits(self, tokens: Sequence[int]) -> numpy.ndarray:
        """Of the token behind these: f32 [vocabulary]."""
        return self._context.become(list(tokens))

    def stream(
        self, prompt: str | Sequence[int], *, tokens: int = 128, temperature: float = 0.8, top_k: int = 40, top_p: float = 0.95,
        min_p: float = 0.05, repeat_penalty: float = 1.0, repeat_last: int = 64, seed: int = 0, control: bool = False,
    ) -> Iterator[str]:  # fmt: skip
        """The continuation in pieces of whole characters. `tokens`: as many at most; `temperature` 0: always the likeliest."""
        settings = _language.Sampling(temperature, top_k, top_p, min_p, repeat_penalty, repeat_last, seed)
        sampler = _language.Sampler(settings)
        known = self.encode(prompt, control=control) if isinstance(prompt, str) else list(prompt)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for count in range(tokens):
            if count and len(known) > self.context:
                break
            token = sampler.next(self.logits(known), known)
            if self._handle.ends(token):
                break
            known.append(token)
            if piece := decoder.decode(self._handle.bytes_of(token)):
                yield piece
        if rest := decoder.decode(b"", True):
            yield rest

    def generate(self, prompt: str | Sequence[int], **settings) -> str:
        """The continuation; settings are those of `stream`."""
        return "".join(self.stream(prompt, **settings))

    def batch(
        self, *, sequences: int = 8, cache_tokens: int = 0, prompt_piece: int = 256, draft: Model | None = None, lookup: bool = False,
        draft_tokens: int = 0,
    ) -> Batch:  # fmt: skip
        """For several texts at a time. `draft`: a smaller model of the same tokens, which guesses up to `draft_tokens` (0: 4) next ones;
        `lookup`: they are guessed by what the text said before. Texts are the same with and without. Beyond the draft's context nothing
        is guessed: load it with this one's."""
        guesses = draft._handle if draft else None
        if draft and draft.context < self.context:
            warnings.warn(f"the draft's context of {draft.context} tokens is less than the model's of {self.context}: beyond it nothing is guessed", stacklevel=2)
        return Batch(self, _language.Batch(self._handle, sequences, cache_tokens, prompt_piece, guesses, lookup, draft_tokens))


class Text:
    """One of a batch's texts. `end` is None until it is done, and then "stop", "length" or "cancelled"."""

    def __init__(self, batch: Batch, prompt: list[int]):
        self._batch = batch
        self._number = 0
        self.prompt = prompt
        self.tokens: list[int] = []
        self.end: str | None = None

    @property
    def text(self) -> str:
        """So far."""
        return self._batch.model.decode(self.tokens)

    def cancel(self) -> None:
        """Ends it; what it held is free at once."""
        self._batch._handle.cancel(self._number)

    def _give(self, token: int) -> bool:
        self.tokens.append(token)
        return True

    def _finish(self, end: str) -> None:
        self.end = end


class Batch:
    """Several texts of one model, each of which gets the tokens that it gets alone. A step computes a piece of one prompt, of
    `prompt_piece` tokens, and the next token of each of `sequences` texts; the others wait. Keys and values of all together are of
    `cache_tokens` tokens at most (0: four times the context); equal beginnings are computed once. Used by one thread at a time."""

    def __init__(self, model: Model, handle: _language.Batch):
        self.model = model
        self._handle = handle

    def add(
        self, prompt: str | Sequence[int], *, tokens: int = 128, temperature: float = 0.8, top_k: int = 40, top_p: float = 0.95,
        min_p: float = 0.05, repeat_penalty: float = 1.0, repeat_last: int = 64, seed: int = 0, control: bool = False,
    ) -> Text:  # fmt: skip
        """A text, whose settings are those of `Model.stream`; at any time."""
        known = self.model.encode(prompt, control=control) if isinstance(prompt, str) else list(prompt)
        text = Text(self, known)
        settings = _language.Sampling(temperature, top_k, top_p, min_p, repeat_penalty, repeat_last, seed)
        text._number = self._handle.add(known, tokens, settings, text._give, text._finish, None)
        return text

    def embed(self, prompts: Sequence[str | Sequence[int]]) -> numpy.ndarray:
        """The mean of the last layer's rows over the tokens of each, of length 1: f32 [prompts, width]. Other texts go on meanwhile."""
        sums: list[numpy.ndarray] = [numpy.zeros(0)] * len(prompts)
        left = set(range(len(prompts)))
        settings = _language.Sampling(0, 0, 1, 0, 1, 0, 0)
        for i, prompt in enumerate(prompts):

            def hidden(first, rows, i=i):
                sums[i] = rows.sum(0, dtype=numpy.float64) + (sums[i] if first else 0)

            known = self.model.encode(prompt) if isinstance(prompt, str) else list(prompt)
            self._handle.add(known, 0, settings, lambda token: True, lambda end, i=i: left.remove(i), hidden)
        while left:
            self.step()
        return numpy.stack([x / max(float(numpy.linalg.norm(x)), 1e-12) for x in sums]).astype(numpy.float32)

    def step(self) -> bool:
        """False where there was nothing to do."""
        return self._handle.step()

    def run(self) -> None:
        """Until all texts are done."""
        while self.step():
            pass

    @property
    def counts(self) -> dict[str, int]:
        """Texts that run and wait, pages that they hold and that there are, and tokens so far, of which pages of others were reused."""
        return self._handle.counts()


def load(
    path: str | os.PathLike, *, threads: int = 0, context: int = 0, exact: bool = False, weights: int = 0, cache_type: str = "f32",
    cache_dir: str | os.PathLike | None = None,
) -> Model:  # fmt: skip
    """The model of a GGUF file, or of a folder with config.json, tokenizer.json and weights in safetensors. `threads` 0: one for each CPU; `context` 0: the model's, up to 4096 tokens; `exact`: f32 is multiplied by
    weights as it is, and not rounded to 8 bits for it; `weights`: 8 or 4 bits that a folder's matrices are quantised to; `cache_type`: how
    keys and values are kept, f32, f16, q8_0 or q4_0; `cache_dir`: where compiled modules are kept, "" to keep none."""
    folder = "" if cache_dir is None else os.fspath(cache_dir)
    return Model(_language.load(os.fspath(path), threads, context, exact, weights, cache_type, folder, cache_dir == ""))
