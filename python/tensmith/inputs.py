"""What a call gives, brought to what a model takes: inputs in order, by name or as one dict, and the arguments of `compile`.

Whoever gives something else is told what was given, what is expected and what to do.
"""

from __future__ import annotations

import collections.abc
import os
from typing import Any

from . import _tensmith
from ._tensmith import Error


def kind_of(value: Any) -> str:
    """A value's type as people write it: "torch.nn.Module" for each of those."""
    for base in type(value).__mro__:
        if base.__module__ == "torch.nn.modules.module" and base.__name__ == "Module":
            return "torch.nn.Module"
    module = type(value).__module__
    return type(value).__name__ if module == "builtins" else f"{module}.{type(value).__name__}"


def bound(ports: list[dict[str, Any]], args: tuple, named: dict[str, Any], whose: str) -> list[Any]:
    """The value of each port, in order. whose: "model" or "step", in messages.

    A dict that stands alone gives the inputs by name, unless the only input is a map itself.
    """
    names = [port["name"] for port in ports]
    listed = ", ".join(names) if names else "none"
    alone = len(args) == 1 and not named and isinstance(args[0], collections.abc.Mapping)
    if alone and not (len(ports) == 1 and ports[0]["kind"] == "map"):
        args, named = (), {str(name): value for name, value in args[0].items()}
    if len(args) > len(names):
        raise Error(f"{len(args)} inputs are given to a {whose} that has {len(names)}: {listed}")
    values = dict(zip(names, args))
    for name, value in named.items():
        if name not in names:
            raise Error(f"there is no input '{name}'{_tensmith.suggestion(name, names)}; the {whose}'s inputs are {listed}")
        if name in values:
            raise Error(f"input '{name}' is given twice")
        values[name] = value
    if missing := [name for name in names if name not in values]:
        raise Error(f"no value for input {', '.join(repr(name) for name in missing)}; the {whose}'s inputs are {listed}")
    return [values[name] for name in names]


def model_of(model: Any) -> str | bytes:
    """A path as text, or a model's bytes; a ModelProto of onnx is its bytes."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString") and hasattr(model, "graph"):
        return model.SerializeToString()
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    kind = kind_of(model)
    what = f"the model is the path of a file, or its bytes, not {kind}"
    if kind == "torch.nn.Module":
        what += '; export it: torch.onnx.export(model, (example,), "model.onnx", dynamo=True)'
    raise Error(what)


def shape_words(shapes: Any) -> list[str]:
    """`shapes` as the compiler takes them: ["image=1x3x224x224", "batch=4"]."""
    if shapes is None:
        return []
    if not isinstance(shapes, collections.abc.Mapping):
        raise Error(f'shapes are a dict by the names of inputs or symbols, as {{"image": (1, 3, 224, 224), "batch": 4}}, '
                    f"not {kind_of(shapes)}")  # fmt: skip
    words = []
    for name, dims in shapes.items():
        sizes = [dims] if isinstance(dims, (int, str)) or hasattr(dims, "__index__") else dims
        if not isinstance(sizes, collections.abc.Iterable):
            raise Error(f"shapes: '{name}' is a size, or a tuple of sizes, not {kind_of(dims)}")
        words.append(f"{name}={'x'.join(str(size) for size in sizes)}")
    return words


def thread_count(threads: Any) -> int:
    """Of a run; 0: as many as CPUs."""
    if isinstance(threads, bool) or not hasattr(threads, "__index__") or not 0 <= threads.__index__() <= 4096:
        raise Error(f"threads is a number from 1 to 4096, or 0 for as many as CPUs, not {threads!r}")
    return threads.__index__()


def known_names(given: dict[str, Any], known: Any) -> dict[str, Any]:
    """Keywords with those in American spelling by the names that they are known by: `optimizer` is `optimiser`."""
    result = {}
    for name, value in given.items():
        name = _tensmith.known_spelling(name, list(known))
        if name in result:
            raise TypeError(f"{name} is given in both spellings")
        result[name] = value
    return result
