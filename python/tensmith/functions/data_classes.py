"""The `__init__` that `dataclasses` writes for a class, whose text it throws away: written once more from the class's fields, and taken only where it
compiles to the code that runs. So what another version of Python writes otherwise has no conversion, and is never converted wrongly.

Source: `_init_fn` of CPython's Lib/dataclasses.py, of 3.10 to 3.13.
"""

import ast
import dataclasses
import functools
import types
from dataclasses import MISSING

from .recording import dict_of, order_of

_INITVAR = dataclasses._FIELD_INITVAR
# What the text calls a field's default or factory, the mark of a factory, and the class `object`.
_WORDS = (("_dflt_{}", "_HAS_DEFAULT_FACTORY", "__dataclass_builtins_object__"),
          ("__dataclass_dflt_{}__", "__dataclass_HAS_DEFAULT_FACTORY__", "__dataclass_builtins_object__"))  # fmt: skip


def init_of(function, x):
    """The syntax tree of a function that a data class of x's has got as its `__init__`; None where it is none of these, or another text."""
    for cls in order_of(type(x)):
        if dict_of(cls).get("__init__") is function and "__dataclass_fields__" in dict_of(cls):
            return next((node for words in _WORDS if (node := _held(function.__code__, _text(cls, *words)))), None)
    return None


@functools.lru_cache(maxsize=256)
def _held(code, text):
    """The tree of the one function within the text, if it is the code's. A class with an `__init__` of its own may have fields in an order that is no text."""
    try:
        made = compile(text, code.co_filename, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    around = next(each for each in made.co_consts if isinstance(each, types.CodeType))
    for each in around.co_consts:
        if isinstance(each, types.CodeType) and all(getattr(each, name) == getattr(code, name) for name in _SAME):
            return next(node for node in ast.walk(ast.parse(text)) if getattr(node, "name", "") == code.co_name)
    return None


_SAME = ("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags")


def _text(cls, default, mark, built_in):
    fields = [each for each in dict_of(cls)["__dataclass_fields__"].values() if each._field_type in (dataclasses._FIELD, _INITVAR)]
    own = "self" if "self" not in {each.name for each in fields} else "__dataclass_self__"
    frozen = cls.__dataclass_params__.frozen
    lines = []
    for each in fields:
        name, given = each.name, default.format(each.name)
        value = name if each.init else None
        if each.default_factory is not MISSING:
            value = f"{given}() if {name} is {mark} else {name}" if each.init else f"{given}()"
        if value and each._field_type is not _INITVAR:
            lines.append(f"{built_in}.__setattr__({own},{name!r},{value})" if frozen else f"{own}.{name}={value}")
    if hasattr(cls, "__post_init__"):
        lines.append(f"{own}.__post_init__({','.join(each.name for each in fields if each._field_type is _INITVAR)})")
    taken = [each for each in fields if each.init]
    parameters = [own, *(_parameter(each, default, mark) for each in taken if not each.kw_only)]
    if named := [_parameter(each, default, mark) for each in taken if each.kw_only]:
        parameters += ["*", *named]
    around = [mark, built_in, *(default.format(each.name) for each in fields)]
    body = "\n".join(f"  {line}" for line in lines or ["pass"])
    return f"def __create_fn__({', '.join(around)}):\n def __init__({', '.join(parameters)}):\n{body}\n return __init__\n"


def _parameter(field, default, mark):
    if field.default is not MISSING:
        return f"{field.name}={default.format(field.name)}"
    return field.name + ("" if field.default_factory is MISSING else f"={mark}")
