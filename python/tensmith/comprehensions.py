"""Tensor comprehensions as functions: what `tensmith.comprehension` gives."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import tensmith

from . import _tensmith
from .inputs import bound, thread_count

NAME = "comprehension.tc"  # for messages
NUMPY = {"float": "float32", "double": "float64", "half": "float16", "byte": "uint8"}


class Comprehension:
    """A definition, called with its inputs in order or by name; numbers stand for inputs without dimensions.

    Gives the result, or a list of them where there are several. `text` is the definition.
    """

    def __init__(self, text: bytes, described: dict[str, Any], settings: dict[str, Any]) -> None:
        self._source, self._settings = text, settings
        self._described, self._model = described, None
        self.__name__, self.text = described["name"], described["text"]
        self.__doc__ = described["text"]

    def __repr__(self) -> str:
        return f"<comprehension {self.__name__}({', '.join(map(_declared, self._described['inputs']))})>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.model(*map(_number, bound(self.model.inputs, args, named, "comprehension"), self._described["inputs"]))

    @property
    def model(self) -> tensmith.Model:
        """The compiled model, of any sizes: compiled, or taken from the cache, when it is first asked for."""
        if self._model is None:
            self._model = self._compiled()
        return self._model

    def grad(self, wrt: str | list[str], of: str | None = None, **settings: Any) -> tensmith.Model:
        """The model with the gradients of a result, as `tensmith.grad` has it; `of`: the first result where it is None."""
        derivative = ("grad", of or self._described["results"][0]["name"], wrt)
        options = self._settings | settings
        threads = thread_count(options.pop("threads", 0))
        module = _tensmith.compile_bytes(self._source, NAME, self._options(options | {"derivatives": [derivative]}))
        return tensmith.Model(_tensmith.load(module, threads, 0, 0), module)

    def _options(self, options):
        defaults = {"shapes": None, "target": None, "cache_dir": None, "dump_ir": None, "reference": False, "precision": "fast",
                    "fuse": True, "overridable": (), "derivatives": ()}  # fmt: skip
        settings = tensmith._settings(**defaults | options)
        settings.function = self.__name__
        return settings

    def _compiled(self):
        options = dict(self._settings)
        threads = thread_count(options.pop("threads", 0))
        settings = self._options(options)
        kept = _tensmith.KeptModules(NAME, self._source, settings)
        if found := kept.find():
            descriptor, size, _ = found
            file = os.fdopen(descriptor, "rb")
            try:
                return tensmith._KeptModel(_tensmith.load(f"/proc/self/fd/{descriptor}", threads, 0, 0, size), file, size)
            except tensmith.Error:  # of another version, or for another machine
                file.close()
        module = _tensmith.compile_bytes(self._source, NAME, settings, kept)
        kept.keep(module, "")
        return tensmith.Model(_tensmith.load(module, threads, 0, 0), module)


class Comprehensions:
    """The definitions of a text, as attributes of their names and as items; iterating gives the names."""

    def __init__(self, text: str, settings: dict[str, Any]) -> None:
        all_ = json.loads(_tensmith.describe_comprehensions(text, NAME))
        self._functions = {one["name"]: Comprehension(text.encode(), one, settings) for one in all_}
        self.__doc__ = "\n".join(one["text"] for one in all_)

    def __getattr__(self, name: str) -> Comprehension:
        functions = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(f"the text has no comprehension '{name}'; there are {', '.join(functions) or 'none'}")

    def __getitem__(self, name: str) -> Comprehension:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]


def _declared(tensor):
    dims = f"({', '.join(tensor['dims'])})" if tensor["dims"] else ""
    return f"{tensor['type']}{dims} {tensor['name']}"


def _number(value, declared):
    """A number as a tensor of the declared type."""
    if declared["dims"] or not isinstance(value, (bool, int, float)):
        return value
    import numpy

    return numpy.array(value, NUMPY.get(declared["type"], declared["type"]))
