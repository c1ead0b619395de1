"""What Python's built-in functions and types do in a recorded call, by rules."""

import builtins
import operator

from ..numpy.dtypes import Tensor
from .recording import is_plain_class
from .scalars import NotConvertible, Range, Traced, is_number, plain


def check_comparable(values):
    for x in values:
        for each in x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else [x]:
            if isinstance(each, (list, tuple, dict)):
                check_comparable([each])
            elif not isinstance(each, (int, float, str, bool, type(None))):
                raise NotConvertible(f"a {type(each).__qualname__} within a list is compared")


def rules_of(calls):
    """Built-in functions and types."""
    r = calls.recording

    def sized(x):
        x = calls.plain(x) if isinstance(x, Range) else x
        if isinstance(x, (list, dict)):
            return len(r.touch(x))
        if is_plain_class(type(x)):
            return calls.call(calls.objects.attribute(x, "__len__"), [], {})
        return len(x)

    def number(kind):
        def rule(*arguments):
            if len(arguments) == 1 and isinstance(arguments[0], Tensor):
                return calls._number(arguments[0], kind)
            if len(arguments) == 1 and isinstance(arguments[0], Traced):
                return calls.pure(kind, arguments)
            return kind(*map(calls.plain, arguments))

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

    def attribute(x, name, *default):
        try:
            return calls.objects.attribute(x, name)
        except AttributeError:
            if default:
                return default[0]
            raise

    def has(x, name):
        try:
            calls.objects.attribute(x, name)
        except AttributeError:
            return False
        return True

    def kind_of(x):
        return type(plain(x))

    def is_instance(x, kinds):
        return isinstance(plain(x), kinds)

    def sorted_(values, **named):
        if named.keys() - {"reverse"}:
            raise NotConvertible("sorted by a key has no conversion")
        values = calls.plain(list(calls.iterate(values)))
        check_comparable([values])
        return sorted(values, **named)

    def identity(x):
        """Of what comes from outside, an assumption which object it is."""
        known, number = r.known(x), id(x)
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

    return {
        len: sized, int: number(int), float: number(float), bool: lambda x=False: calls.truth(x),
        abs: lambda x: calls.operate(operator.abs, x) if not isinstance(x, Traced) else calls.pure(abs, [x]),
        min: of_elements(min), max: of_elements(max), sum: total,
        range: lambda *bounds: Range(bounds) if any(isinstance(x, Traced) for x in bounds) else range(*bounds),
        list: lambda x=(): r.make(list(calls.iterate(x))), tuple: lambda x=(): tuple(calls.iterate(x)),
        dict: lambda *x, **named: r.make({**dict(*map(r.touch, x)), **named}),
        enumerate: lambda x, start=0: r.make(enumerate(calls.iterate(x), r.pin(start))),
        zip: lambda *x, **named: r.make(zip(*map(calls.iterate, x), **named)), reversed: lambda x: r.make(reversed(list(calls.iterate(x)))),
        map: lambda f, *x: r.make(calls.call(f, list(each), {}) for each in zip(*map(calls.iterate, x))),
        filter: lambda f, x: r.make(each for each in calls.iterate(x) if calls.truth(calls.call(f, [each], {}) if f else each)),
        any: lambda x: any(calls.truth(each) for each in calls.iterate(x)), all: lambda x: all(calls.truth(each) for each in calls.iterate(x)),
        isinstance: is_instance, issubclass: issubclass, type: kind_of, getattr: attribute, hasattr: has,
        id: identity, setattr: lambda x, name, value: calls.objects.set_attribute(x, name, value), sorted: sorted_,
        iter: lambda x: r.make(calls.iterate(x)), next: next_, callable: builtins.callable,
    }  # fmt: skip
