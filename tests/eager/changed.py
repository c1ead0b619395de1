"""Programs that read Python's world in every way that Python has, and what changes it under them.

Each case is a function that gives a program of (state, tensor), and a change which the program sees by that one way. The program runs within `step`,
which counts, writes a list and draws random numbers before it.
"""

import functools
import types

from tensmith import nn
import tensmith.numpy as tnp

CASES, IMPERATIVE = {}, set()


def case(make):
    CASES[make.__name__] = make
    return make


def imperative(make):
    """One of which nothing is converted."""
    IMPERATIVE.add(make.__name__)
    return case(make)


class State:
    def __init__(self):
        self.count, self.seen, self.state = 0, [], tnp.zeros(2)
        self.dropout = nn.Dropout(0.5)


def step(s, body, x):
    s.count += 1
    s.seen.append(s.count)
    s.state = s.state + s.dropout(x)
    return body(s, x), s.state


# ---- functions


def double(x, by=2, *, more=0):
    return x * by + more


@case
def code_of_a_function():
    def inner(x):
        return x * 2

    def other(x):
        return x * 3

    return (lambda s, x: inner(x)), lambda: setattr(inner, "__code__", other.__code__)


@case
def code_of_the_program():
    def program(s, x):
        return x * 2

    def other(s, x):
        return x * 3

    return program, lambda: setattr(program, "__code__", other.__code__)


@case
def defaults_of_a_function():
    def inner(x, by=2):
        return x * by

    return (lambda s, x: inner(x)), lambda: setattr(inner, "__defaults__", (3,))


@case
def defaults_by_name():
    def inner(x, *, by=2):
        return x * by

    return (lambda s, x: inner(x)), lambda: setattr(inner, "__kwdefaults__", {"by": 3})


@case
def a_default_by_name_in_place():
    def inner(x, *, by=2):
        return x * by

    return (lambda s, x: inner(x)), lambda: inner.__kwdefaults__.update(by=3)


@case
def a_default_list():
    def inner(x, kept=[1]):  # noqa: B006, which is what is tested
        kept.append(len(kept))
        return x * len(kept)

    return (lambda s, x: inner(x)), lambda: inner.__defaults__[0].clear()


@case
def a_cell():
    by = 2

    def program(s, x):
        return x * by

    def change():
        nonlocal by
        by = 3

    return program, change


@case
def a_function_in_a_cell():
    def inner(x):
        return x * 2

    def program(s, x):
        return inner(x)

    return program, lambda: setattr(program.__closure__[0], "cell_contents", lambda x: x * 3)


@case
def name_of_a_function():
    def inner(x):
        return x

    return (lambda s, x: x * len(inner.__name__)), lambda: setattr(inner, "__name__", "longer than that")


@case
def a_partial():
    s = types.SimpleNamespace(by=functools.partial(double, by=2))
    holder = Holder(by=s.by)
    return (lambda s, x: holder.by(x)), lambda: holder.by.keywords.update(by=3)


@case
def another_partial():
    holder = Holder(by=functools.partial(double, by=2))
    return (lambda s, x: holder.by(x)), lambda: setattr(holder, "by", functools.partial(double, by=3))


@imperative
def a_cache():
    calls = []

    @functools.lru_cache
    def inner(k):
        calls.append(k)
        return len(calls)

    return (lambda s, x: x * inner(2)), lambda: inner.cache_clear()


@imperative
def a_single_dispatch():
    @functools.singledispatch
    def inner(k):
        return 2

    return (lambda s, x: x * inner(1)), lambda: inner.register(int, lambda k: 3)


@case
def a_wrapped_function():
    def doubled(function):
        @functools.wraps(function)
        def wrapper(x):
            return function(x) * 2

        return wrapper

    inner = doubled(lambda x: x)
    return (lambda s, x: inner(x)), lambda: setattr(inner.__closure__[0], "cell_contents", lambda x: x * 3)


# ---- objects


class Holder:
    def __init__(self, **own):
        self.__dict__.update(own)


@case
def another_method():
    class Scale:
        def __init__(self, by):
            self.by = by

        def of(self, x):
            return x * self.by

    holder = Holder(of=Scale(2).of)
    return (lambda s, x: holder.of(x)), lambda: setattr(holder, "of", Scale(3).of)


@case
def another_method_of_a_class():
    class Scale:
        def __init__(self, by):
            self.by = by

        def of(self, x):
            return x * self.by

    class Holds:
        of = Scale(2).of

    return (lambda s, x: Holds.of(x)), lambda: setattr(Holds, "of", Scale(3).of)


@case
def another_bound_append():
    first, second = [], [1, 2, 3]
    holder = Holder(add=first.append)

    def program(s, x):
        holder.add(s.count)
        return x * (len(first) + 10 * len(second))

    return program, lambda: setattr(holder, "add", second.append)


@case
def the_class_of_an_object():
    class First:
        by = 2

    class Second:
        by = 3

    x = First()
    return (lambda s, t: t * x.by), lambda: setattr(x, "__class__", Second)


@case
def an_own_attribute_before_a_method():
    class Scale:
        def of(self, x):
            return x * 2

    scale = Scale()
    return (lambda s, x: scale.of(x)), lambda: setattr(scale, "of", lambda x: x * 3)


@case
def an_own_attribute_that_is_deleted():
    class Scale:
        by = 3

    scale = Scale()
    scale.by = 2
    return (lambda s, x: x * scale.by), lambda: delattr(scale, "by")


@imperative
def a_slot():
    class Slotted:
        __slots__ = ("by",)

    x = Slotted()
    x.by = 2
    return (lambda s, t: t * x.by), lambda: setattr(x, "by", 3)


@case
def a_parameter_that_becomes_an_attribute():
    layer = nn.Module()
    layer.weight = nn.Parameter([2.0])

    def change():
        layer.__dict__["weight"] = tnp.asarray([3.0])

    return (lambda s, x: x * layer.weight), change


@case
def order_of_a_dict():
    table = {"a": 2, "b": 3}

    def program(s, x):
        for value in table.values():
            x = x * value + 1
        return x

    return program, lambda: table.update(a=table.pop("a"))


@case
def kind_of_a_key():
    table = {1: 2, (1, 2): 3}

    def change():
        table.clear()
        table.update({True: 2, (True, 2): 3})

    return (lambda s, x: x * sum(2 if type(key) is bool else 1 for key in table)), change


@case
def sign_of_a_zero():
    holder = Holder(z=(0.0,))

    def program(s, x):
        return x * (1 if str(holder.z[0]) == "0.0" else 2)

    return program, lambda: setattr(holder, "z", (-0.0,))


# ---- modules, globals and built-in functions

LEFT = 2


@case
def a_global_before_a_built_in():
    def program(s, x):
        return x * abs(-2)

    return program, lambda: globals().update(abs=lambda k: 3), lambda: globals().pop("abs", None)


@case
def a_global_that_is_deleted():
    def program(s, x):
        try:
            return x * LEFT
        except NameError:
            return x * 3

    return program, lambda: globals().pop("LEFT"), lambda: globals().update(LEFT=2)


@case
def a_built_in_function():
    import builtins

    builtins.of_these_tests = 2
    return (lambda s, x: x * of_these_tests), lambda: setattr(builtins, "of_these_tests", 3), lambda: delattr(builtins, "of_these_tests")  # noqa: F821


@case
def an_attribute_of_a_module():
    module = types.ModuleType("of_these_tests")
    module.by = 2
    return (lambda s, x: x * module.by), lambda: setattr(module, "by", 3)


@case
def a_module_s_way_to_find_attributes():
    module = types.ModuleType("of_these_tests")

    def program(s, x):
        return x * getattr(module, "by", 2)

    return program, lambda: setattr(module, "__getattr__", lambda name: 3)


@case
def an_attribute_that_a_module_gets():
    module = types.ModuleType("of_these_tests")
    return (lambda s, x: x * (3 if hasattr(module, "by") else 2)), lambda: setattr(module, "by", 3)


