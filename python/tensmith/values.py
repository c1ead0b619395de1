"""Values of the language's data types, as Python has them.

A program's values are made with its constructors (`model.constructors`), and compared, printed and taken apart here.
Long lists nest deep, so nothing in this file recurses; the interpreter frees nested tuples without recursion itself.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from typing import Any


class Value:
    """A constructor's name, number and fields: arrays, or values again. Of a tuple the name is empty.

    Values don't change, but for what is written to their arrays. What one was converted to for a model is kept with it, for
    any model, where all arrays in it are NumPy's own, of its own types and with elements in order; it is converted anew
    where the memory, shape or type of one has changed."""

    _tensmith_value = True
    __slots__ = ("name", "_tag", "_fields", "_kept")
    tag = property(operator.attrgetter("_tag"))
    fields = property(operator.attrgetter("_fields"))

    def __init__(self, name: str, tag: int, fields: Iterable[Any]) -> None:
        self.name = name
        self._tag = tag
        self._fields = tuple(fields)
        self._kept = None

    def __reduce__(self):
        return Value, (self.name, self.tag, self.fields)

    def __getitem__(self, index: int) -> Any:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Any]:
        """The elements of a list; the fields of anything else."""
        if self.name not in ("Cons", "Nil"):
            yield from self.fields
            return
        value = self
        while value.name == "Cons":
            yield value.fields[0]
            value = value.fields[1]

    def __repr__(self) -> str:
        inner = ", ".join(f"{field.name}(...)" if isinstance(field, Value) else repr(field) for field in self.fields)
        return f"{self.name}({inner})" if self.fields or not self.name else self.name


class Constructor:
    def __init__(self, name: str, tag: int, arity: int) -> None:
        self.name, self.tag, self.arity = name, tag, arity

    def __call__(self, *fields: Any) -> Value:
        if len(fields) != self.arity:
            raise TypeError(f"{self.name} has {self.arity} fields, not {len(fields)}")
        return Value(self.name, self.tag, fields)


def constructors_of(description: dict[str, Any]) -> dict[str, Constructor | Value]:
    made = {}
    for data in description["data_types"]:
        for tag, one in enumerate(data["constructors"]):
            arity = len(one["fields"])
            made[one["name"]] = Constructor(one["name"], tag, arity) if arity else Value(one["name"], tag, ())
    return made


def parse_type(text):
    """A type's text as (name, parts): ("List", [("f32[n, 3]", [])]); of a tuple the name is empty."""
    tokens = re.findall(r"->|[()\[\],]|[^()\[\],\s]+(?: [*+/-] [^()\[\],\s]+)*", text)
    at = 0

    def one():
        nonlocal at
        if tokens[at] == "(":
            return "", listed(")")
        name = tokens[at]
        at += 1
        if at < len(tokens) and tokens[at] == "[":
            if re.fullmatch(r"(b?f|i|u)\d+|bool", name):
                while tokens[at] != "]":
                    at += 1
                at += 1
                return "tensor", []
            return name, listed("]")
        return name, []

    def listed(close):
        nonlocal at
        at += 1
        parts = []
        while tokens[at] != close:
            parts.append(one())
            at += tokens[at] == ","
        at += 1
        return parts

    return one()


def _fill(type_, arguments):
    name, parts = type_
    if name in arguments and not parts:
        return arguments[name]
    return name, [_fill(part, arguments) for part in parts]


def from_handle(raw, description, index):
    """An output as the extension gives it, (constructor, [field, ...]), as a Value of the output's type."""
    declared = {data["name"]: data for data in description["data_types"]}
    fields_of = {}

    def fields(type_, tag):
        key = (repr(type_), tag)
        if key not in fields_of:
            name, parts = type_
            if name == "":
                fields_of[key] = ("", parts)
            else:
                one = declared[name]["constructors"][tag]
                arguments = dict(zip(declared[name]["params"], parts))
                fields_of[key] = (one["name"], [_fill(parse_type(field), arguments) for field in one["fields"]])
        return fields_of[key]

    done = []
    stack = [(raw, parse_type(description["outputs"][index]["object"]), False)]
    while stack:
        part, type_, built = stack.pop()
        if not isinstance(part, tuple):
            done.append(part)
            continue
        tag, raws = part
        name, types = fields(type_, tag)
        if built:
            count = len(raws)
            values = done[len(done) - count:] if count else []
            del done[len(done) - count:]
            done.append(Value(name, tag, values))
        else:
            stack.append((part, type_, True))
            stack.extend(reversed([(one, kind, False) for one, kind in zip(raws, types)]))
    return done[0]
