"""Programs that work with members of enumerations, named tuples, methods, ranges and keys, and what changes these under them: more cases of changed.py."""

import collections
import enum
import functools
import types

from changed import Holder, case, imperative

# ---- members of enumerations, whose classes may have special methods


@imperative
def an_operator_of_a_member():
    class Size(enum.IntEnum):
        SMALL = 2

        def __mul__(self, other):
            return 10

    holder = Holder(size=Size.SMALL)
    return (lambda s, x: x * (holder.size * 2)), lambda: setattr(Size, "__mul__", lambda self, other: 20)


@imperative
def a_mirrored_operator_of_a_member():
    class Size(enum.IntEnum):
        SMALL = 2

        def __rmul__(self, other):
            return 10

    holder = Holder(size=Size.SMALL)
    return (lambda s, x: x * (2 * holder.size)), lambda: setattr(Size, "__rmul__", lambda self, other: 20)


@case
def an_operator_that_a_member_gets():
    class Size(enum.IntEnum):
        SMALL = 2

    holder = Holder(size=Size.SMALL)
    return (lambda s, x: x * (holder.size * 2)), lambda: setattr(Size, "__mul__", lambda self, other: 20)


@case
def an_operator_beside_a_tensor_that_a_member_gets():
    class Size(enum.IntEnum):
        SMALL = 2

    holder = Holder(size=Size.SMALL)
    return (lambda s, x: holder.size * x), lambda: setattr(Size, "__mul__", lambda self, other: other * 20)


@imperative
def the_text_of_a_member():
    class Color(enum.Enum):
        RED = 2

        def __str__(self):
            return "two"

    holder = Holder(color=Color.RED)
    return (lambda s, x: x * len(str(holder.color))), lambda: setattr(Color, "__str__", lambda self: "three")


@case
def a_text_that_a_member_gets():
    class Color(enum.Enum):
        RED = 2

    holder = Holder(color=Color.RED)
    return (lambda s, x: x * len(str(holder.color))), lambda: setattr(Color, "__str__", lambda self: "two")


@imperative
def the_format_of_a_member():
    class Color(enum.Enum):
        RED = 2

        def __format__(self, how):
            return "two"

    holder = Holder(color=Color.RED)
    return (lambda s, x: x * len("{}".format(holder.color))), lambda: setattr(Color, "__format__", lambda self, how: "three")  # noqa: UP032


@imperative
def the_integer_of_a_member():
    class Color(enum.Enum):
        RED = 2

        def __int__(self):
            return 2

    holder = Holder(color=Color.RED)
    return (lambda s, x: x * int(holder.color)), lambda: setattr(Color, "__int__", lambda self: 3)


@case
def a_member_that_is_an_index():
    class Place(enum.IntEnum):
        FIRST = 0

    table = [2, 3]

    def change():
        table.reverse()

    return (lambda s, x: x * table[Place.FIRST]), change


@imperative
def an_index_of_a_member():
    class Place(enum.Enum):
        FIRST = 0

        def __index__(self):
            return 0

    table = [2, 3]
    return (lambda s, x: x * table[Place.FIRST]), lambda: setattr(Place, "__index__", lambda self: 1)


@imperative
def equality_of_a_member():
    class Mode(str, enum.Enum):
        A = "a"

        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    holder = Holder(mode=Mode.A)
    return (lambda s, x: x * 2 if holder.mode == "b" else x * 3), lambda: setattr(Mode, "__eq__", lambda self, other: False)


@imperative
def equality_of_members_that_are_keys():
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    table = {Color.RED: 2}

    def change():
        table.clear()
        table[Color.BLUE] = 2

    return (lambda s, x: x * sum(key.value for key in table)), change


@case
def another_member_that_is_a_key():
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    table = {Color.RED: 2}

    def change():
        table.clear()
        table[Color.BLUE] = 2

    return (lambda s, x: x * sum(key.value for key in table)), change


@imperative
def equality_of_members_in_a_list():
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

        def __eq__(self, other):
            return True

        __hash__ = None

    holder = Holder(color=Color.RED)
    return (lambda s, x: x * 2 if holder.color in [Color.BLUE] else x * 3), lambda: setattr(Color, "__eq__", lambda self, other: False)


@case
def an_own_attribute_of_a_member():
    class Color(enum.Enum):
        RED = 2

        def of(self):
            return 2

    return (lambda s, x: x * Color.RED.of()), lambda: setattr(Color.RED, "of", lambda: 3)


@case
def a_member_that_is_returned():
    class Color(enum.Enum):
        RED = 2
        BLUE = 3

    holder = Holder(color=Color.RED)

    def program(s, x):
        s.last = holder.color
        return x * (2 if s.last is Color.RED else 3)

    return program, lambda: setattr(holder, "color", Color.BLUE)


# ---- special methods that are no functions


@imperative
def a_truth_by_an_object():
    class Full:
        on = True

        def __call__(self, *given):
            return self.on

    full = Full()

    class Bag:
        __bool__ = full

    bag = Bag()
    return (lambda s, x: x * 2 if bag else x * 3), lambda: setattr(full, "on", False)


@imperative
def a_length_by_a_cache():
    class Bag:
        count = 2

        @functools.lru_cache  # noqa: B019, which is what is tested
        def __len__(self):
            return self.count

    bag = Bag()

    def change():
        bag.count = 3
        Bag.__len__.cache_clear()

    return (lambda s, x: x * len(bag)), change


@imperative
def what_an_object_goes_over_by_a_partial():
    class Bag:
        def go(self, k):
            return iter(self.items)

        __iter__ = functools.partialmethod(go, 1)

    bag = Bag()
    bag.items = [1, 2]
    return (lambda s, x: x * sum(bag)), lambda: setattr(bag, "items", [3, 4])


@case
def a_length_that_becomes_negative():
    class Bag:
        count = 1

        def __len__(self):
            return self.count

    bag = Bag()

    def program(s, x):
        try:
            return x * 2 if bag else x * 3
        except ValueError:
            return x * 5

    return program, lambda: setattr(bag, "count", -1)


# ---- tuples of the program's classes


@case
def an_own_attribute_of_a_named_tuple():
    class Pair(collections.namedtuple("Pair", "a b")):
        def total(self):
            return self.a + self.b

    pair = Pair(1, 2)
    holder = Holder(pair=pair)
    return (lambda s, x: x * holder.pair.total()), lambda: setattr(pair, "total", lambda: 7)


@case
def a_way_to_find_attributes_of_a_named_tuple():
    class Pair(collections.namedtuple("Pair", "a b")):
        pass

    holder = Holder(pair=Pair(1, 2))
    return (lambda s, x: x * holder.pair.a), lambda: setattr(Pair, "__getattribute__", lambda self, name: 9)


@imperative
def an_operator_in_place_of_a_named_tuple():
    class Pair(collections.namedtuple("Pair", "a b")):
        def __iadd__(self, other):
            return (7,)

    holder = Holder(pair=Pair(1, 2))

    def program(s, x):
        pair = holder.pair
        pair += (1,)
        return x * pair[0]

    return program, lambda: setattr(Pair, "__iadd__", lambda self, other: (8,))


@imperative
def a_mirrored_comparison_of_a_named_tuple():
    class Pair(collections.namedtuple("Pair", "a b")):
        def __gt__(self, other):
            return True

    holder = Holder(pair=Pair(1, 2))
    return (lambda s, x: x * 2 if (1, 2) < holder.pair else x * 3), lambda: setattr(Pair, "__gt__", lambda self, other: False)


@case
def a_named_tuple_that_is_written():
    class Pair(collections.namedtuple("Pair", "a b")):
        def __new__(cls, a, b):
            return tuple.__new__(cls, (b, a))

    holder = Holder(pair=Pair(1, 2))

    def program(s, x):
        s.last = holder.pair
        return x * holder.pair.a, s.last, type(s.last).__name__

    return program, lambda: setattr(holder, "pair", Pair(3, 4))


@case
def a_tuple_of_the_program_that_is_returned():
    class Kept(tuple):
        pass

    holder = Holder(kept=Kept((1, 2)))

    def program(s, x):
        s.last = holder.kept
        return x, s.last is holder.kept, type(s.last).__name__, tuple(s.last)

    return program, lambda: setattr(holder, "kept", Kept((3, 4)))


@case
def a_tuple_with_a_length_of_its_own():
    class Kept(tuple):
        def __len__(self):
            return 5

    holder = Holder(kept=Kept((1, 2)))
    return (lambda s, x: x * holder.kept[1]), lambda: setattr(holder, "kept", Kept((3, 4)))


# ---- methods, partials, ranges and keys


@case
def one_method_in_two_places():
    class Scale:
        def of(self, x):
            return x

    method = Scale().of
    holder = Holder(a=method, b=method)
    return (lambda s, x: x * 2 if holder.a is holder.b else x * 3), lambda: setattr(holder, "b", Scale().of)


@imperative
def methods_that_are_equal():
    class Scale:
        def of(self, x):
            return x

    scale = Scale()
    holder = Holder(a=scale.of, b=scale.of)
    return (lambda s, x: x * 2 if holder.a == holder.b else x * 3), lambda: setattr(holder, "b", Scale().of)


@case
def functions_that_are_equal():
    def first(x):
        return x

    def second(x):
        return x

    holder = Holder(a=first, b=first)
    return (lambda s, x: x * 2 if holder.a == holder.b else x * 3), lambda: setattr(holder, "b", second)


@case
def name_of_a_built_in_type():
    holder = Holder(kind=int)
    return (lambda s, x: x * len(holder.kind.__name__)), lambda: setattr(holder, "kind", float)


@case
def the_end_of_a_range():
    holder = Holder(turns=range(0, 3, 2))
    return (lambda s, x: x * holder.turns.stop), lambda: setattr(holder, "turns", range(0, 4, 2))


class Mapping:
    def keys(self):
        return ["w1", "b1"]

    def __iter__(self):
        return iter(self.keys())

    def __getitem__(self, key):
        return 2 if key == "w1" else 5


@imperative
def a_dict_of_an_object():
    class Own(Mapping):
        pass

    own = Own()
    return (lambda s, x: x * dict(own).get("w1", 0)), lambda: setattr(Own, "__getitem__", lambda self, key: 4)


@imperative
def a_dict_that_takes_in_an_object():
    class Own(Mapping):
        pass

    own = Own()

    def program(s, x):
        table = {}
        table.update(own)
        return x * table.get("w1", 0)

    return program, lambda: setattr(Own, "__getitem__", lambda self, key: 4)


@imperative
def an_object_as_named_arguments():
    class Own(Mapping):
        pass

    own = Own()
    return (lambda s, x: x * (lambda w1, b1: w1)(**own)), lambda: setattr(Own, "__getitem__", lambda self, key: 4)


@case
def equality_of_keys_that_a_dict_takes_in():
    class Point:
        pass

    def program(s, x):
        table = {}
        table.update([(Point(), 1), (Point(), 2)])
        return x * len(table)

    def change():
        Point.__eq__, Point.__hash__ = (lambda self, other: True), (lambda self: 1)

    return program, change


@imperative
def equality_of_classes_that_are_keys():
    class Kind(type):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    class First(metaclass=Kind):
        pass

    class Second(metaclass=Kind):
        pass

    return (lambda s, x: x * len({First: 1, Second: 2})), lambda: setattr(Kind, "__eq__", lambda self, other: self is other)


# ---- private names


@case
def a_private_attribute():
    class Scale:
        def __init__(self):
            self.__by = 2

        def of(self, x):
            self.__turns = self.__by + 1
            return x * self.__by, hasattr(self, "__turns")

        def change(self):
            self.__by = 3

    scale = Scale()
    return (lambda s, x: scale.of(x)), scale.change


# ---- modules


@case
def the_class_of_a_module():
    class Own(types.ModuleType):
        by = property(lambda self: 3)

    module = types.ModuleType("of_these_tests")
    module.by = 2
    return (lambda s, x: x * module.by), lambda: setattr(module, "__class__", Own)


@imperative
def what_every_module_has():
    module = types.ModuleType("of_these_tests")
    module.by = 2
    return (lambda s, x: x * (module.by if hasattr(module, "__dict__") else 5)), lambda: setattr(module, "by", 3)
