"""A comprehension's loops in an order of one's own: what `tensmith.nest` gives.

The schedule is part of the text, as comments behind the statement (docs/nests.md). So a chain here, a `.tc` file and an ONNX
model say it in one way, and the cache of compiled models knows one from the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import _tensmith
from .comprehensions import NAME, Comprehension, Comprehensions


class Nest:
    """A definition with a schedule for its last statement, or, if it is `whole`, for all of them as one nest. Each method gives a new one with a line more.

    `text` is the whole text; the lines that it has already stay, in front of the new ones. `schedule` are the new ones. What breaks a dependence is an error of `compile`, in the words of the program.
    """

    def __init__(self, text: str, function: str | None = None, lines: Sequence[str] = (), *, whole: bool = False) -> None:
        described = json.loads(_tensmith.describe_comprehensions(text, NAME))
        names = [one["name"] for one in described]
        if function is None and len(names) > 1:
            raise ValueError(f"the text has several comprehensions; say which function, of {', '.join(names)}")
        if function is not None and function not in names:
            raise ValueError(f"the text has no comprehension '{function}'; there are {', '.join(names)}")
        self._text, self.function, self._lines, self.whole = text, function or names[0], tuple(lines), whole
        comments = "".join(f"  # schedule: {line}\n" for line in self._lines)
        parts = []
        for one in described:
            own = one["text"].rstrip()
            parts.append(self._with(comments, own) if one["name"] == self.function else own)
        self.text = "\n\n".join(parts) + "\n"

    def _with(self, comments: str, text: str) -> str:
        """Lines of the whole stand behind those that are in front of the first statement already."""
        if not self.whole:
            return text[:-1] + comments + "}"
        lines = text.splitlines(keepends=True)
        first = next((number for number, line in enumerate(lines) if number and not line.lstrip().startswith("#")), len(lines))
        return "".join(lines[:first]) + comments + "".join(lines[first:])

    @property
    def schedule(self) -> str:
        return "".join(line + "\n" for line in self._lines)

    def __repr__(self) -> str:
        return f"<nest {self.function} of {len(self._lines)} primitives>"

    def apply(self, *lines: str) -> Nest:
        """With lines of schedule text, as `"unroll i1"`."""
        for line in lines:
            if "\n" in line:
                raise ValueError("a line of a schedule has no line breaks")
        return Nest(self._text, self.function, (*self._lines, *lines), whole=self.whole)

    def split(self, loop: str, factor: int, names: Sequence[str] | None = None) -> Nest:
        """One loop becomes two, of which the inner one has so many iterations: `k0` and `k1`, if no names are given."""
        return self.apply(f"split {loop} {factor} -> {' '.join(names or (loop + '0', loop + '1'))}")

    def tile(self, *loops_and_factors: str | int, names: Sequence[str] | None = None) -> Nest:
        """`tile("i", "j", 6, 64)`: splits each loop, and puts the tiles' loops i0, j0 around i1, j1."""
        loops = [each for each in loops_and_factors if isinstance(each, str)]
        factors = [str(each) for each in loops_and_factors if not isinstance(each, str)]
        names = names or [loop + part for part in "01" for loop in loops]
        return self.apply(f"tile {' '.join(loops)} by {' '.join(factors)} -> {' '.join(names)}")

    def fuse(self, outer: str, inner: str, name: str) -> Nest:
        return self.apply(f"fuse {outer} {inner} -> {name}")

    def reorder(self, *loops: str) -> Nest:
        return self.apply(f"reorder {' '.join(loops)}")

    def skew(self, loop: str, factor: int, by: str) -> Nest:
        """The loop runs over its values and so many times those of the loop `by` around it."""
        return self.apply(f"skew {loop} by {factor} {by}")

    def parallel(self, loop: str) -> Nest:
        return self.apply(f"parallel {loop}")

    def vectorize(self, loop: str, lanes: int | None = None) -> Nest:
        return self.apply(f"vectorize {loop}" + ("" if lanes is None else f" {lanes}"))

    def unroll(self, loop: str) -> Nest:
        return self.apply(f"unroll {loop}")

    def tensorize(self, *loops: str, by: str, packing: bool = False) -> Nest:
        """Whole tiles of the loops become that instruction; `packing` makes copies of operands that don't lie as it takes them."""
        return self.apply(f"tensorize {' '.join(loops)} by {by}" + (" packing" if packing else ""))

    def fuse_at(self, statement: str, loop: str) -> Nest:
        """The statement joins the loop of another: `start` begins a sum."""
        return self.apply(f"fuse_at {statement} {loop}")

    def virtual_threads(self, loop: str, count: int, names: Sequence[str] | None = None) -> Nest:
        """So many iterations run by turns, each statement for all of them side by side: loops `i0` and `i1`, if no names are given."""
        return self.apply(f"virtual_threads {loop} {count} -> {' '.join(names or (loop + '0', loop + '1'))}")

    def bind(self, loop: str, unit: str) -> Nest:
        """The loop runs on the `"threads"` of the runtime, or the `"lanes"` of a vector."""
        return self.apply(f"bind {loop} {unit}")

    def cache_read(self, tensor: str, at: str | None, name: str, order: Sequence[int | str] = (), memory: str | None = None) -> Nest:
        """What an iteration of the loop `at` reads of the tensor is copied to `name`, its dimensions in that order, `"0/4"` and `"0%4"` in blocks. It must fit the `memory`, as `"l1"`."""
        return self._cache("cache_read", tensor, at, name, order, memory)

    def cache_write(self, tensor: str, at: str | None, name: str, order: Sequence[int | str] = (), memory: str | None = None) -> Nest:
        """What an iteration of the loop `at` writes of the tensor stays in `name` until it ends."""
        return self._cache("cache_write", tensor, at, name, order, memory)

    def _cache(self, primitive, tensor, at, name, order, memory):
        place = f" at {at}" if at else ""
        layout = f" order {' '.join(map(str, order))}" if order else ""
        within = f" in {memory}" if memory else ""
        return self.apply(f"{primitive} {tensor}{place}{layout}{within} -> {name}")

    def double_buffer(self, tensor: str) -> Nest:
        """The copy is filled an iteration ahead, in two halves by turns."""
        return self.apply(f"double_buffer {tensor}")

    def compute_at(self, tensor: str, loop: str) -> Nest:
        return self.apply(f"compute_at {tensor} {loop}")

    def inline(self, tensor: str) -> Nest:
        return self.apply(f"inline {tensor}")

    def rfactor(self, statement: str, loop: str, name: str) -> Nest:
        """Each iteration of the loop has a sum of its own, in the tensor `name`."""
        return self.apply(f"rfactor {statement} {loop} -> {name}")

    def affine(self, fusion: str = "maximal") -> Nest:
        """`"maximal"`, `"coincident"`, `"recomputed"` or `"minimal"`: which statements share loops."""
        return self.apply(f"affine {fusion}")

    def default(self, lanes: int) -> Nest:
        return self.apply(f"default {lanes}")

    def compile(self, **settings: Any) -> Comprehension:
        """The function in this order, compiled; settings are those of `tensmith.comprehension`."""
        function = Comprehensions(self.text, settings)[self.function]
        function.model  # noqa: B018 - what is refused is said now
        return function

    def run(self, *args: Any, **named: Any) -> Any:
        """Compiles, and calls it with these inputs."""
        return self.compile()(*args, **named)
