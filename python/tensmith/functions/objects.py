"""Attributes and elements of a recorded call's objects: Python's look-up, with each place that is read or written told to the recording."""

import enum
import functools
import operator
import types

from .. import numpy as tnp
from ..numpy.dtypes import SIGNED, UNSIGNED, Tensor
from . import indexing
from .open_sizes import axes_of_index, index_within
from .recording import dict_of, is_constant, is_member, is_plain_class, order_of, raw
from .regions import MISSING, UNCLEAR, Choice
from .residual import MISSING as NOTHING
from .scalars import NotConvertible, Traced

_CONTAINERS = (list, dict, tuple, str, bytes, range, set, frozenset, int, float, bool, type(None), slice)
TABLES = ("_parameters", "_buffers", "_modules")
# Attributes of a class by those of `type` that are texts.
_OF_CLASSES = ("__name__", "__qualname__")
# What a class gives as it has it, or as a function of a built-in type.
_DESCRIPTORS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType, property)


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
            return self._of_module(x, name)
        if isinstance(x, type):
            return self.of_class(x, name)
        if type(x) in _CONTAINERS or type(x).__module__ == "builtins" and isinstance(x, BaseException) or _is_library(x):
            return getattr(x, name)
        if isinstance(x, (types.FunctionType, types.BuiltinFunctionType)) and name in ("__name__", "__qualname__", "__module__"):
            r.root(x, x.__name__)
            return r.read(x, "attr", name, getattr(x, name), lambda: r.residual.fetch(r.known(x)[1], "part", name), f"{x.__name__}.{name}")
        if isinstance(x, types.MethodType) and name in ("__name__", "__qualname__", "__module__"):
            return self.attribute(x.__func__, name)
        if isinstance(x, tuple) or is_member(x):
            return self._of_fixed(x, name)
        if not is_plain_class(type(x)):
            raise NotConvertible(f"attributes of a {type(x).__qualname__} have no conversion")
        return self._of_instance(x, name)

    def _of_module(self, x, name):
        r = self.recording
        cls, own = type(x), raw(types.ModuleType, "__dict__").__get__(x)
        module = own.get("__name__")
        if module == "tensmith":  # whose parts are loaded when they are first used
            getattr(x, name, None)
        r.root(own, module)
        r.check(r.residual.constant(x), "type", cls, "global", f"{module} is a {cls.__name__}")
        of_all, way = (raw(types.ModuleType, each) for each in (name, "__getattribute__"))
        if cls is not types.ModuleType and (r.lookup(cls, "__getattribute__") is not way or r.lookup(cls, name) is not of_all):
            raise NotConvertible(f"{cls.__name__} has its own way to find {name}")
        if of_all is not NOTHING and (name not in own or hasattr(type(of_all), "__set__")):
            raise NotConvertible(f"{module}.{name} has no conversion")
        if name in own:
            return r.read(own, "global", name, own[name], lambda: r.residual.fetch(r.residual.constant(own), "key", name), f"{module}.{name}", of="global")
        if cls is not types.ModuleType or "__getattr__" in own:
            raise NotConvertible(f"{module} has its own way to find {name}")
        for each in (name, "__getattr__"):
            r.check(r.residual.constant(own), "lacks", each, "global", f"{module} has no {each}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def _of_fixed(self, x, name):
        """Of a tuple with names, or a member of an enumeration."""
        r, cls = self.recording, type(x)
        found = r.lookup(cls, name)
        if not isinstance(r.lookup(cls, "__getattribute__"), types.WrapperDescriptorType):
            raise NotConvertible(f"{cls.__qualname__} has its own way to find attributes")
        if is_member(x):
            r.root(x, f"{cls.__name__}.{x._name_}")
        if is_member(x) and name in ("name", "value") and isinstance(found, types.DynamicClassAttribute):
            name = f"_{name}_"
            return self._place(x, name, x.__dict__[name])
        if isinstance(found, property):
            return self.interpreter.calls.call(found.fget, [x], {})
        if is_member(x) and (found is NOTHING or not hasattr(type(found), "__set__")):
            if name in x.__dict__:
                return self._place(x, name, x.__dict__[name])
            self._lacks(x, name)
        if type(found).__name__ == "_tuplegetter" or isinstance(found, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            return getattr(x, name)
        if isinstance(found, types.FunctionType):
            return types.MethodType(found, x)
        if not is_member(x) and found is not NOTHING:
            return self._bound_to_class(cls, name, found, None)
        raise NotConvertible(f"{cls.__qualname__}.{name} has no conversion")

    def _of_tensor(self, x, name):
        if name in ("grad", "requires_grad") and id(x) in self.recording.choices:
            raise NotConvertible(f"{name} of a tensor that a branch or a loop of the graph has chosen is asked for")
        if name == "grad":
            self.recording.gradient_used(x, "read")
        self.recording.lookup(type(x), name)
        if name in ("real", "imag", "__dict__", "strides", "is_ready", "device"):
            raise NotConvertible(f"a tensor's {name} has no conversion")
        told = self.recording.opening.told
        if name == "size" and self.recording.opening.sizes:
            return functools.reduce(lambda a, b: self.interpreter.calls.operate(operator.mul, a, b), told(x.shape), 1)
        return self.recording.view(x, told(getattr(x, name)))

    def of_class(self, x, name, after=None):
        """An attribute of a class; after: of those classes that it is derived from behind this one."""
        r, kind = self.recording, type(x)
        if kind is enum.EnumMeta and name in x._member_map_:
            return x._member_map_[name]  # which nothing can rebind
        if kind is not type:
            if r.lookup(kind, name) is not raw(type, name):
                raise NotConvertible(f"{kind.__name__}.{name} has no conversion")
            if r.lookup(kind, "__getattribute__") is not dict_of(type)["__getattribute__"] or r.lookup(kind, "__getattr__") is not NOTHING:
                raise NotConvertible(f"{kind.__name__} has its own way to find attributes")
        if name in _OF_CLASSES:
            return r.read(r.root(x, x.__name__), "attr", name, getattr(x, name), lambda: r.residual.fetch(r.residual.constant(x), "part", name), f"{x.__name__}.{name}")
        found = r.lookup(x, name, after)
        if (of_all := raw(type, name)) is not NOTHING and (found is NOTHING or hasattr(type(of_all), "__set__")):
            raise NotConvertible(f"{x.__name__}.{name} has no conversion")
        if found is NOTHING:
            raise AttributeError(f"type object {x.__name__!r} has no attribute {name!r}")
        return self._bound_to_class(x, name, found, after)

    def _bound_to_class(self, x, name, found, after):
        r = self.recording
        if isinstance(found, staticmethod):
            return found.__func__
        if isinstance(found, classmethod):
            return types.MethodType(found.__func__, x)
        if isinstance(found, _DESCRIPTORS):
            return r.root(found, name) if isinstance(found, (types.FunctionType, property)) else getattr(x, name)
        if hasattr(type(found), "__get__"):
            raise NotConvertible(f"{x.__name__}.{name} has no conversion")
        own = r.owner_of(x, name, after)
        r.root(own, x.__name__)
        return r.read(own, "global", name, found, lambda: r.residual.fetch(r.residual.constant(own), "key", name), f"{x.__name__}.{name}", of="attribute")

    def _of_super(self, x, name):
        cls = type(x.__self__)
        if isinstance(x.__self__, type) or name == "__class__":
            raise NotConvertible(f"super().{name} has no conversion")
        found = self.recording.lookup(cls, name, x.__thisclass__)
        if found is dict_of(object)["__init__"]:
            return lambda: None
        if isinstance(found, property):
            return self.interpreter.calls.call(found.fget, [x.__self__], {})
        if not isinstance(found, types.FunctionType):
            raise NotConvertible(f"super().{name} has no conversion")
        return types.MethodType(found, x.__self__)

    def _of_instance(self, x, name):
        """Data descriptors of the class, the object's own, what the class has, and then a module's tables."""
        r, cls = self.recording, type(x)
        found = r.lookup(cls, name)
        if r.lookup(cls, "__getattribute__") is not dict_of(object)["__getattribute__"]:
            raise NotConvertible(f"{cls.__name__} has its own way to find attributes")
        if isinstance(found, property):
            return self.interpreter.calls.call(found.fget, [x], {})
        if name in ("__dict__", "__class__") or (found is not NOTHING and hasattr(type(found), "__set__")):
            raise NotConvertible(f"{cls.__name__}.{name} has no conversion")
        if name in x.__dict__:
            return self._place(x, name, x.__dict__[name])
        self._lacks(x, name)
        if found is not NOTHING:
            if isinstance(found, types.FunctionType):
                return types.MethodType(r.root(found, name), x)
            return self._bound_to_class(cls, name, found, None)
        if self._is_module(x):
            for table in TABLES:
                if name in x.__dict__[table]:
                    return self._place(x, name, x.__dict__[table][name], table)
                self._lacks(x, name, table)
        elif r.lookup(cls, "__getattr__") is not NOTHING:
            raise NotConvertible(f"{cls.__name__} has its own way to find attributes")
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")

    def _lacks(self, x, name, *tables):
        """That an object that was there has no attribute of its own under a name."""
        r = self.recording
        if (known := r.known(x)) and (id(x), "attr", name) not in r.written:
            r.check(self._table(known[1], *tables), "lacks", name, "attribute's type", f"{known[2]} has no own {name}")

    def _table(self, code, *tables):
        """The name of the dict that an object's attributes stand in, which is no other object's."""
        r = self.recording
        code = r.own(r.residual.fetch(code, "dict"))
        for each in tables:
            code = r.own(r.residual.fetch(code, "key", each))
        return code

    def _place(self, x, name, value, *tables):
        r = self.recording
        known = r.known(x)
        if not known:
            return value
        return r.read(x, "attr", name, value, lambda: r.residual.fetch(self._table(known[1], *tables), "key", name), f"{known[2]}.{name}", of="attribute")

    def set_attribute(self, x, name, value, sets=setattr):
        """sets: `setattr`, or `object.__setattr__`, which asks no class's own way."""
        r = self.recording
        if isinstance(x, Tensor):
            if name != "grad":
                raise NotConvertible(f"a tensor's {name} is set")
            r.refuse_in_regions("gradients are written")
            r.gradient_used(x, "written")
            x.grad = value
            return
        self._check_set(x, name, "__setattr__", asks=sets is setattr)
        self._note(x, name)
        r.write(x, "attr", name, lambda: sets(x, name, value))

    def _check_set(self, x, name, how, asks=True):
        """That an attribute is set or deleted in the object's own dict, or a module's tables."""
        r, cls = self.recording, type(x)
        if not is_plain_class(cls) or is_member(x) or hasattr(type(r.lookup(cls, name)), "__set__"):
            raise NotConvertible(f"attributes of a {cls.__qualname__} are set")
        if asks and r.lookup(cls, how) is not dict_of(object)[how] and not self._is_module(x):
            raise NotConvertible(f"{cls.__name__} has its own way to set attributes")

    def _is_module(self, x):
        """Whether attributes are those of the library's modules, with their tables."""
        from ..nn.module import Module

        if not isinstance(x, Module):
            return False
        return all(self.recording.lookup(type(x), name) is dict_of(Module)[name] for name in ("__getattr__", "__setattr__", "__delattr__"))

    def _note(self, x, name):
        def get():
            try:
                value = self.attribute(x, name)
            except AttributeError:
                return MISSING
            return value if name in x.__dict__ or self._is_in_tables(x, name) else MISSING

        self.recording.note_place(x, "attr", name, get, lambda value: self._set_merged(x, name, value))

    def _is_in_tables(self, x, name):
        return self._is_module(x) and any(name in x.__dict__[table] for table in TABLES)

    def _set_merged(self, x, name, value):
        if value is MISSING or value is UNCLEAR:
            raise NotConvertible(f"whether {name} is there depends on a branch or a loop of the graph")
        self.set_attribute(x, name, value)

    def delete_attribute(self, x, name):
        self.attribute(x, name)
        self._check_set(x, name, "__delattr__")
        self._note(x, name)
        self.recording.write(x, "attr", name, lambda: delattr(x, name))

    # ---- elements

    def item(self, x, key, site=None):
        """site: the index, of the syntax tree."""
        r = self.recording
        if isinstance(x, Tensor):
            if r.opening.sizes:
                if (rows := self._last_rows(x, key)) is not None:
                    return rows
                key = self._from_end(x, key)
            is_of_number = any(isinstance(each, Traced) for each in (key if isinstance(key, tuple) else [key]))
            if self._is_gathered(x, key) and not (is_of_number and site in r.refused):
                index_within(r, x, key)
                result = indexing.item(self.interpreter.calls, x, self._in_graph(key))
                return r.choose(Choice(result, None, x, None, site)) if is_of_number else result  # which is a view
            key = self._plain_key(key)
            index_within(r, x, key)
            return r.view(x, x[key])
        if method := self._own_method(x, "__getitem__"):
            return self.interpreter.calls.call(method, [key], {})
        key = self._plain_key(key)
        if isinstance(x, (list, dict)):
            return r.touch(x)[r.hashed(key) if isinstance(x, dict) else key]
        if isinstance(x, (tuple, str, bytes, range)):
            return x[key]
        raise NotConvertible(f"an element of a {type(x).__qualname__} has no conversion")

    def _last_rows(self, x, key):
        """x[-k:] of an open size: the first rows of what is turned round, turned round."""
        keys = list(key) if isinstance(key, tuple) else [key]
        cut = [each for each in keys if each != slice(None)] if all(isinstance(each, slice) for each in keys) else []
        if len(cut) != 1 or cut[0].stop is not None or cut[0].step not in (None, 1) or type(cut[0].start) is not int or cut[0].start >= 0:
            return None
        (axis,) = [axis for i, axis in axes_of_index(x, keys) if keys[i] is cut[0]]
        if x.shape[axis] not in self.recording.opening.sizes or not self.recording.is_active(x):
            return None
        index_within(self.recording, x, key)
        first = (slice(None),) * axis + (slice(-cut[0].start),)
        return self.recording.choose(Choice(tnp.flip(tnp.flip(x, axis=axis)[first], axis=axis), None, x))

    def _from_end(self, x, key):
        """Rows that are counted from the end of an open size are at places that differ."""
        keys = list(key) if isinstance(key, tuple) else [key]
        if any(each is None for each in keys):
            return key
        if any(each is Ellipsis for each in keys):
            place = next(i for i, each in enumerate(keys) if each is Ellipsis)
            keys[place : place + 1] = [slice(None)] * (x.ndim - len(keys) + 1)
        for i, axis in axes_of_index(x, keys):
            if type(keys[i]) is int and keys[i] < 0 and x.shape[axis] in self.recording.opening.sizes and self.recording.is_active(x):
                index_within(self.recording, x, key)
                keys[i] = self.interpreter.calls.operate(operator.add, self.recording.opening.told(x.shape[axis]), keys[i])
        return tuple(keys) if isinstance(key, tuple) else keys[0]

    def set_item(self, x, key, value):
        r = self.recording
        if isinstance(x, Tensor):
            calls = self.interpreter.calls
            is_told = any(isinstance(each, Tensor) for each in (key if isinstance(key, tuple) else [key]))
            is_put = self._is_open(key) or is_told and (r.is_active(x) or isinstance(value, Tensor) and r.is_active(value))
            key, value = self._in_graph(key) if is_put else self._plain_key(key), calls.beside(value, x)
            calls.note_elements(x)
            index_within(r, x, key)
            if is_put:
                indexing.put(indexing.of_calls(calls), x, key, value if isinstance(value, Tensor) else tnp.asarray(value, dtype=x.dtype))
            else:
                x[key] = value
            return
        if method := self._own_method(x, "__setitem__"):
            self.interpreter.calls.call(method, [key, value], {})
        elif isinstance(x, (list, dict)):
            key = self._plain_key(key)
            r.note_content(r.touch(x))
            x[r.hashed(key) if isinstance(x, dict) else key] = value
        else:
            raise NotConvertible(f"an element of a {type(x).__qualname__} is set")

    def delete_item(self, x, key):
        if not isinstance(x, (list, dict)):
            raise NotConvertible(f"an element of a {type(x).__qualname__} is deleted")
        self.recording.note_content(self.recording.touch(x))
        key = self._plain_key(key)
        del x[self.recording.hashed(key) if isinstance(x, dict) else key]

    def _own_method(self, x, name):
        """A special method of the program's, bound."""
        found = self.recording.special(type(x), name)
        return types.MethodType(found, x) if isinstance(found, types.FunctionType) else None

    def contains(self, x, value):
        calls = self.interpreter.calls
        own = self._own_method(x, "__contains__")
        if own is not None and not calls._is_of_library(type(x)):
            return calls.truth(calls.call(own, [value], {}))
        if isinstance(x, Tensor) or isinstance(value, Tensor):
            raise NotConvertible("whether a tensor is in something has no conversion")
        if not isinstance(x, (list, dict, tuple, str, set, frozenset, range)):
            raise NotConvertible(f"`in` a {type(x).__qualname__} has no conversion")
        value = calls.plain(value)
        if self.recording.special(type(x), "__contains__") is not dict_of(_built_in(x)).get("__contains__"):
            raise NotConvertible(f"a {type(x).__qualname__} has its own `in`")
        if isinstance(x, (list, tuple)):
            x = calls.plain(x)
            if not all(map(is_constant, [value, *x])):
                raise NotConvertible("`in` a list of objects has no conversion")
            self.recording.native((value, *x), ("__eq__",))
            return value in x
        return self.recording.hashed(value) in self.recording.touch(x)

    def _plain_key(self, key):
        if isinstance(key, tuple):
            return tuple(self._plain_key(each) for each in key)
        if isinstance(key, slice):
            return self.recording.native(key, ("__index__",))
        return self.recording.native(self.interpreter.calls.plain(key), ("__index__", "__bool__", "__int__"))

    def _is_open(self, key):
        """Whether an index is of elements that differ from call to call."""
        keys = key if isinstance(key, tuple) else [key]
        return any(isinstance(each, Tensor) and self.recording.is_active(each) or isinstance(each, Traced) and each.stage == 1 and each.tensor is not None
                   for each in keys)  # fmt: skip

    def _is_gathered(self, x, key):
        """Whether elements are taken at places that differ, or that a tensor tells, from one that differs."""
        keys = key if isinstance(key, tuple) else [key]
        is_by_integers = any(isinstance(each, Tensor) and each.dtype in (*SIGNED, *UNSIGNED, tnp.bool) or isinstance(each, Traced) and type(each.value) is int for each in keys)
        return self._is_open(key) or is_by_integers and self.recording.is_active(x)

    def _in_graph(self, key):
        """Numbers as tensors."""
        if isinstance(key, tuple):
            return tuple(self._in_graph(each) for each in key)
        return self.recording.in_graph(key) if isinstance(key, Traced) and type(key.value) is int else key


def _built_in(x):
    return next(each for each in order_of(type(x)) if each in _CONTAINERS)


def _is_library(x):
    return type(x).__module__.startswith(("tensmith._", "tensmith.numpy.dtypes"))
