"""Attributes and elements of a recorded call's objects: Python's look-up, with each place that is read or written told to the recording."""

import types

from ..numpy.dtypes import SIGNED, Tensor
from . import indexing
from .recording import is_plain_class
from .regions import MISSING, UNCLEAR, Choice
from .scalars import NotConvertible, Traced

_CONTAINERS = (list, dict, tuple, str, bytes, range, set, frozenset, int, float, bool, type(None), slice)


class Objects:
    def __init__(self, interpreter, recording):
        self.interpreter, self.recording = interpreter, recording

    # ---- attributes

    def attribute(self, x, name):
        r = self.recording
        if isinstance(x, Tensor):
            return self._of_tensor(x, name)
        if isinstance(x, Traced):
            return getattr(r.pin(x), name)
        if isinstance(x, super):
            return self._of_super(x, name)
        if isinstance(x, types.ModuleType):
            r.root(x, x.__name__)
            return r.read(x, "attr", name, getattr(x, name), f"{r.residual.constant(x)}.{name}", f"{x.__name__}.{name}", of="global")
        if isinstance(x, type):
            return self.of_class(x, name)
        if isinstance(x, _CONTAINERS) or isinstance(x, BaseException) or _is_library(x):
            return getattr(x, name)
        if isinstance(x, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)) and name in ("__name__", "__qualname__", "__module__"):
            return getattr(x, name)
        if not is_plain_class(type(x)):
            raise NotConvertible(f"attributes of a {type(x).__qualname__} have no conversion")
        return self._of_instance(x, name)

    def _of_tensor(self, x, name):
        if name in ("grad", "requires_grad") and id(x) in self.recording.choices:
            raise NotConvertible(f"{name} of a tensor that a branch or a loop of the graph has chosen is asked for")
        if name == "grad":
            self.recording.gradient_used(x, "read")
        if name in ("real", "imag", "__dict__", "strides", "is_ready"):
            raise NotConvertible(f"a tensor's {name} has no conversion")
        return self.recording.view(x, getattr(x, name))

    def of_class(self, x, name):
        r = self.recording
        value = getattr(x, name)
        if isinstance(value, types.BuiltinMethodType) or name.startswith("__") and not isinstance(value, types.FunctionType):
            return value
        r.root(x, x.__name__)
        if isinstance(value, types.MethodType):  # made anew by each look-up
            r.read(x, "attr", name, value.__func__, f"{r.residual.constant(x)}.{name}.__func__", f"{x.__name__}.{name}", of="attribute")
            return value
        return r.read(x, "attr", name, value, f"{r.residual.constant(x)}.{name}", f"{x.__name__}.{name}", of="attribute")

    def _of_super(self, x, name):
        cls = type(x.__self__)
        order = cls.__mro__[cls.__mro__.index(x.__thisclass__) + 1 :]
        owner = next((each for each in order if name in each.__dict__), None)
        if owner is object and name == "__init__":
            return lambda: None
        if owner is None or not isinstance(owner.__dict__[name], types.FunctionType):
            raise NotConvertible(f"super().{name} has no conversion")
        return types.MethodType(self.of_class(owner, name), x.__self__)

    def _of_instance(self, x, name):
        """Data descriptors of the class, the object's own, what the class has, and then a module's tables."""
        r, cls = self.recording, type(x)
        found = next((each.__dict__[name] for each in cls.__mro__ if name in each.__dict__), MISSING)
        if isinstance(found, property):
            self.of_class(cls, name)
            return self.interpreter.calls.call(found.fget, [x], {})
        if name in ("__dict__", "__class__") or (found is not MISSING and hasattr(type(found), "__set__")):
            raise NotConvertible(f"{cls.__name__}.{name} has no conversion")
        if name in x.__dict__:
            return self._place(x, name, x.__dict__[name])
        if known := r.known(x):
            if (id(x), "attr", name) not in r.written:
                r.assume(f"{name!r} not in {known[1]}.__dict__", "attribute's type", f"{known[2]} has no own {name}")
        if found is not MISSING:
            return self._of_type(x, cls, name, found)
        if (table := _table_with(x, name)) is not None:
            return self._place(x, name, x.__dict__[table][name], f".__dict__[{table!r}][{name!r}]")
        if known and (id(x), "attr", name) not in r.written:
            r.assume(f"not {r.residual.constant(hasattr)}({known[1]}, {name!r})", "attribute's type", f"{known[2]} has no {name}")
        if hasattr(cls, "__getattr__") and not _is_module(x):
            raise NotConvertible(f"{cls.__name__} has its own way to find attributes")
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")

    def _of_type(self, x, cls, name, found):
        value = self.of_class(cls, name)
        if isinstance(found, types.FunctionType):
            return types.MethodType(value, x)
        if isinstance(found, (classmethod, staticmethod)) or not hasattr(type(found), "__get__"):
            return value
        raise NotConvertible(f"{cls.__name__}.{name} has no conversion")

    def _place(self, x, name, value, path=None):
        r = self.recording
        known = r.known(x)
        if not known:
            return value
        return r.read(x, "attr", name, value, known[1] + (path or f".{name}"), f"{known[2]}.{name}", of="attribute")

    def set_attribute(self, x, name, value):
        r = self.recording
        if isinstance(x, Tensor):
            if name != "grad":
                raise NotConvertible(f"a tensor's {name} is set")
            r.refuse_in_regions("gradients are written")
            r.gradient_used(x, "written")
            x.grad = value
            return
        if not is_plain_class(type(x)) or isinstance(getattr(type(x), name, None), property):
            raise NotConvertible(f"attributes of a {type(x).__qualname__} are set")
        if isinstance(value, Traced) and _is_module(x) is False and hasattr(type(x), "__setattr__") and type(x).__setattr__ is not object.__setattr__:
            raise NotConvertible(f"{type(x).__name__} has its own way to set attributes")
        self._note(x, name)
        r.write(x, "attr", name, lambda: setattr(x, name, value))

    def _note(self, x, name):
        def get():
            try:
                value = self.attribute(x, name)
            except AttributeError:
                return MISSING
            return value if name in x.__dict__ or _table_with(x, name) is not None else MISSING

        self.recording.note_place(x, "attr", name, get, lambda value: self._set_merged(x, name, value))

    def _set_merged(self, x, name, value):
        if value is MISSING or value is UNCLEAR:
            raise NotConvertible(f"whether {name} is there depends on a branch or a loop of the graph")
        self.set_attribute(x, name, value)

    def delete_attribute(self, x, name):
        self.attribute(x, name)
        if not is_plain_class(type(x)):
            raise NotConvertible(f"an attribute of a {type(x).__qualname__} is deleted")
        self._note(x, name)
        self.recording.write(x, "attr", name, lambda: delattr(x, name))

    # ---- elements

    def item(self, x, key, site=None):
        """site: the index, of the syntax tree."""
        r = self.recording
        if isinstance(x, Tensor):
            is_of_number = any(isinstance(each, Traced) for each in (key if isinstance(key, tuple) else [key]))
            if self._is_gathered(x, key) and not (is_of_number and site in r.refused):
                result = indexing.item(self.interpreter.calls, x, self._in_graph(key))
                return r.choose(Choice(result, None, x, None, site)) if is_of_number else result  # which is a view
            return r.view(x, x[self._plain_key(key)])
        key = self._plain_key(key)
        if isinstance(x, (list, dict)):
            return r.touch(x)[key]
        if isinstance(x, (tuple, str, bytes, range)):
            return x[key]
        if is_plain_class(type(x)):
            return self.interpreter.calls.call(self.attribute(x, "__getitem__"), [key], {})
        raise NotConvertible(f"an element of a {type(x).__qualname__} has no conversion")

    def set_item(self, x, key, value):
        r = self.recording
        if isinstance(x, Tensor):
            if self._is_open(key):
                raise NotConvertible("a tensor that differs from call to call is an index that is written at; use where")
            key, value = self._plain_key(key), self.interpreter.calls.beside(value, x)
            self.interpreter.calls.note_elements(x)
            x[key] = value
            return
        key = self._plain_key(key)
        if isinstance(x, (list, dict)):
            r.note_content(r.touch(x))
            x[key] = value
        elif is_plain_class(type(x)):
            self.interpreter.calls.call(self.attribute(x, "__setitem__"), [key, value], {})
        else:
            raise NotConvertible(f"an element of a {type(x).__qualname__} is set")

    def delete_item(self, x, key):
        if not isinstance(x, (list, dict)):
            raise NotConvertible(f"an element of a {type(x).__qualname__} is deleted")
        self.recording.note_content(self.recording.touch(x))
        del x[self._plain_key(key)]

    def contains(self, x, value):
        if isinstance(x, Tensor) or isinstance(value, Tensor):
            raise NotConvertible("whether a tensor is in something has no conversion")
        if not isinstance(x, (list, dict, tuple, str, set, frozenset, range)):
            raise NotConvertible(f"`in` a {type(x).__qualname__} has no conversion")
        value = self.interpreter.calls.plain(value)
        if isinstance(x, (list, tuple)):
            x = self.interpreter.calls.plain(x)
            if any(not isinstance(each, (int, float, str, bool, type(None), tuple)) for each in x):
                raise NotConvertible("`in` a list of objects has no conversion")
            return value in x
        return value in self.recording.touch(x)

    def _plain_key(self, key):
        if isinstance(key, tuple):
            return tuple(self._plain_key(each) for each in key)
        if isinstance(key, slice):
            return key
        return self.interpreter.calls.plain(key)

    def _is_open(self, key):
        """Whether an index is of elements that differ from call to call."""
        keys = key if isinstance(key, tuple) else [key]
        return any(isinstance(each, Tensor) and self.recording.is_active(each) or isinstance(each, Traced) and each.stage == 1 and each.tensor is not None
                   for each in keys)  # fmt: skip

    def _is_gathered(self, x, key):
        """Whether elements are taken at places that differ, or that a tensor tells, from one that differs."""
        keys = key if isinstance(key, tuple) else [key]
        is_by_integers = any(isinstance(each, Tensor) and each.dtype in SIGNED or isinstance(each, Traced) and type(each.value) is int for each in keys)
        return self._is_open(key) or is_by_integers and self.recording.is_active(x)

    def _in_graph(self, key):
        """Numbers as tensors."""
        if isinstance(key, tuple):
            return tuple(self._in_graph(each) for each in key)
        return self.recording.in_graph(key) if isinstance(key, Traced) and type(key.value) is int else key


def _table_with(x, name):
    """Which table of a module has the name."""
    if not _is_module(x):
        return None
    return next((table for table in ("_parameters", "_buffers", "_modules") if name in x.__dict__[table]), None)


def _is_module(x):
    from ..nn.module import Module

    return isinstance(x, Module) and type(x).__getattr__ is Module.__getattr__ and type(x).__setattr__ is Module.__setattr__


def _is_library(x):
    return type(x).__module__.startswith(("tensmith._", "tensmith.numpy.dtypes"))
