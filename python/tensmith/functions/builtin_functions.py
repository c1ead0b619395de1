"""What Python's built-in functions and types do in a recorded call, by rules."""

import abc
import functools
import operator
import types

from ..numpy.dtypes import Tensor
from .recording import dict_of, is_constant, order_of, raw
from .scalars import NotConvertible, Range, Traced, is_number, plain


def check_comparable(values):
    for x in values:
        for each in x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else [x]:
            if isinstance(each, (list, tuple, dict)):
                check_comparable([each])
            elif type(each) not in (int, float, str, bool, type(None)):
                raise NotConvertible(f"a {type(each).__qualname__} within a list is compared")


def rules_of(calls):
    """Built-in functions and types."""
    r = calls.recording

    def sized(x):
        x = calls.plain(x) if isinstance(x, Range) else x
        found = r.special(type(x), "__len__")
        if isinstance(found, types.FunctionType) and not calls._is_of_library(type(x)):
            return calls.length(calls.call(types.MethodType(found, x), [], {}))
        count = len(r.touch(x) if isinstance(x, (list, dict)) else x)
        return r.opening.told(count) if isinstance(x, Tensor) else count

    def number(kind):
        def rule(*arguments):
            if len(arguments) == 1 and isinstance(arguments[0], Tensor):
                return calls._number(arguments[0], kind)
            if len(arguments) == 1 and isinstance(arguments[0], Traced):
                return calls.pure(kind, arguments)
            if not all(map(is_constant, map(calls.plain, arguments))):
                raise NotConvertible(f"{kind.__name__} of a {type(arguments[0]).__qualname__} has no conversion")
            return kind(*map(r.native, map(calls.plain, arguments)))

        return rule

    def of_elements(function):
        def rule(*arguments, **named):
            values = list(calls.iterate(arguments[0])) if len(arguments) == 1 else list(arguments)
            if named or not values or not all(is_number(x) for x in values):
                raise NotConvertible(f"{function.__name__} of this has no conversion")
            return calls.pure(function, values) if any(isinstance(x, Traced) for x in values) else function(*values) if len(values) > 1 else values[0]

        return rule

    def total(values, start=0):
        for each in calls.iterate(values):
            start = calls.operate(operator.add, start, each)
        return start

    def check_name(name):
        if type(name) is not str:
            raise NotConvertible(f"the name of an attribute is a {type(name).__qualname__}")

    def attribute(x, name, *default):
        check_name(name)
        try:
            return calls.objects.attribute(x, name)
        except AttributeError:
            if default:
                return default[0]
            raise

    def has(x, name):
        check_name(name)
        try:
            calls.objects.attribute(x, name)
        except AttributeError:
            return False
        return True

    def set_attribute(x, name, value):
        check_name(name)
        calls.objects.set_attribute(x, name, value)

    def set_as_objects_are(x, name, value):
        """`object.__setattr__`, as the `__init__` of a frozen data class has it."""
        check_name(name)
        if isinstance(x, Tensor):
            raise NotConvertible("object.__setattr__ of a tensor has no conversion")
        if calls.recording.is_outside(x):  # what is written back afterwards is set as the class says
            raise NotConvertible("object.__setattr__ of an object that was there before the call has no conversion")
        calls.objects.set_attribute(x, name, value, object.__setattr__)

    def new_tuple(cls, values=()):
        """`tuple.__new__`, by which named tuples are made."""
        if cls is not tuple and not (type(cls) is type and issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise NotConvertible(f"objects of {cls.__qualname__} are made in a way that has no conversion")
        return tuple.__new__(cls, list(calls.iterate(values)))

    def kind_of(x):
        return type(plain(x))

    def is_instance(x, kinds):
        x = plain(x)
        if r.lookup(type(x), "__class__") is not dict_of(object)["__class__"]:
            raise NotConvertible(f"a {type(x).__qualname__} has a class of its own words")
        return is_subclass(type(x), kinds, "__instancecheck__")

    def is_subclass(cls, kinds, check="__subclasscheck__"):
        """By the order of its classes, or as an abstract class tells: an assumption."""
        if isinstance(kinds, (tuple, types.UnionType)):
            return any(is_subclass(cls, each, check) for each in (kinds if isinstance(kinds, tuple) else kinds.__args__))
        found = r.special(type(kinds), check) if isinstance(kinds, type) else None
        r.lookup(cls, "__class__")  # the order is an assumption
        if found is dict_of(type)[check]:
            return kinds in order_of(cls)
        if found is not dict_of(abc.ABCMeta)[check] or r.is_of_case_now() or not _tells_by_itself(kinds):
            raise NotConvertible(f"{kinds} tells in its own way what its instances are")
        result = issubclass(cls, kinds)
        test = f"{r.residual.constant(issubclass)}({r.residual.constant(cls)}, {r.residual.constant(kinds)})"
        r.assume(test if result else f"not {test}", "type", f"{cls.__name__} is {'' if result else 'not '}a {kinds.__name__}")
        return result

    def sorted_(values, **named):
        if named.keys() - {"reverse"}:
            raise NotConvertible("sorted by a key has no conversion")
        values = calls.plain(list(calls.iterate(values)))
        check_comparable([values])
        return sorted(values, **named)

    def identity(x):
        """Of what comes from outside, an assumption which object it is."""
        known, number = r.known(x), id(x)
        if isinstance(x, (tuple, types.MethodType, functools.partial)):
            raise NotConvertible(f"id of a {type(x).__qualname__} has no conversion")
        if isinstance(x, Tensor):
            r.check_identity(x)
        if known:
            original = next((entry.tensor for entry in r.inputs if entry.copy is x), x)
            r.check(known[1], "same", original, "constant", f"{known[2]} is the same object")
            number = id(original)
        return number

    def next_(x, *default):
        if isinstance(x, (list, dict)) or r.is_outside(x):
            raise NotConvertible("next of what the call has not made")
        r.refuse_in_regions("an iterator goes on")
        return next(x, *default)

    def backwards(x):
        if isinstance(r.special(type(x), "__reversed__"), types.FunctionType):
            raise NotConvertible(f"a {type(x).__qualname__} has its own way backwards")
        return r.make(reversed(list(calls.iterate(x))))

    return {
        len: sized, int: number(int), float: number(float), bool: lambda x=False: calls.truth(x),
        abs: lambda x: calls.operate(operator.abs, x) if not isinstance(x, Traced) else calls.pure(abs, [x]),
        min: of_elements(min), max: of_elements(max), sum: total,
        range: lambda *bounds: Range(bounds) if any(isinstance(x, Traced) for x in bounds) else range(*bounds),
        list: lambda x=(): r.make(list(calls.iterate(x))), tuple: lambda x=(): tuple(calls.iterate(x)), tuple.__new__: new_tuple,
        dict: lambda *x, **named: r.make({**calls.pairs(*x or ((),)), **named}),
        enumerate: lambda x, start=0: r.make(enumerate(calls.iterate(x), r.pin(start))),
        zip: lambda *x, **named: r.make(zip(*map(calls.iterate, x), **named)), reversed: backwards,
        map: lambda f, *x: r.make(calls.call(f, list(each), {}) for each in zip(*map(calls.iterate, x))),
        filter: lambda f, x: r.make(each for each in calls.iterate(x) if calls.truth(calls.call(f, [each], {}) if f else each)),
        any: lambda x: any(calls.truth(each) for each in calls.iterate(x)), all: lambda x: all(calls.truth(each) for each in calls.iterate(x)),
        isinstance: is_instance, issubclass: is_subclass, type: kind_of, getattr: attribute, hasattr: has,
        id: identity, setattr: set_attribute, object.__setattr__: set_as_objects_are, sorted: sorted_,
        iter: lambda x: r.make(calls.iterate(x)), next: next_, callable: lambda x: calls.recording.special(type(x), "__call__") is not None,
    }  # fmt: skip


def _tells_by_itself(kinds):
    """Whether an abstract class asks no code of the program what is derived from it."""
    hook = raw(kinds, "__subclasshook__")
    return isinstance(hook, types.ClassMethodDescriptorType) or getattr(hook, "__module__", "") == "collections.abc" or getattr(
        getattr(hook, "__func__", None), "__module__", "") in ("_collections_abc", "collections.abc")  # fmt: skip
