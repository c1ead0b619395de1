"""Language models from GGUF files.

    import tensmith as ts
    model = ts.language.load("model.gguf")
    print(model.generate("Once upon a time", tokens=100))
    for piece in model.stream("Once upon a time"):
        print(piece, end="", flush=True)

The file is mapped, and its weights are multiplied in the blocks that they are stored in.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Sequence

import numpy

from . import _language

__all__ = ["Model", "load"]


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

    def encode(self, text: str, *, control: bool = False, begins: bool = True) -> list[int]:
        """The text's tokens. `control`: names of control tokens in it ("<|im_end|>") are those tokens; `begins`: with the token
        that the model begins texts with."""
        return self._handle.encode(text, control, begins)

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
        sampler = _language.Sampler(temperature, top_k, top_p, min_p, repeat_penalty, repeat_last, seed)
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


def load(path: str | os.PathLike, *, threads: int = 0, context: int = 0, cache_dir: str | os.PathLike | None = None) -> Model:
    """The model of a GGUF file. `threads` 0: one for each CPU; `context` 0: the model's, up to 4096 tokens; `cache_dir`: where
    compiled modules are kept, "" to keep none."""
    folder = "" if cache_dir is None else os.fspath(cache_dir)
    return Model(_language.load(os.fspath(path), threads, context, folder, cache_dir == ""))
