"""Programs that read classes in every way, and what changes these under them: more cases of changed.py."""

import abc
import collections
import dataclasses
import enum

from changed import Holder, case, imperative

# ---- classes


@case
def a_replaced_init():
    class Point:
        def __init__(self, k):
            self.k = k

    def other(self, k):
        self.k = k + 1

    return (lambda s, x: x * Point(2).k), lambda: setattr(Point, "__init__", other)


@case
def an_init_that_was_inherited():
    class Base:
        def __init__(self):
            self.k = 2

    class Point(Base):
        pass

    def other(self):
        self.k = 3

    return (lambda s, x: x * Point().k), lambda: setattr(Point, "__init__", other)


@case
def a_new():
    class Point:
        k = 2

    class Other:
        k = 3

    return (lambda s, x: x * Point().k), lambda: setattr(Point, "__new__", lambda cls: object.__new__(Other))


@case
def an_attribute_of_two_underscores():
    class Sized:
        __size__ = 2

    return (lambda s, x: x * Sized.__size__), lambda: setattr(Sized, "__size__", 3)


@case
def a_truth_by_length():
    class Bag:
        pass

    bag = Bag()
    return (lambda s, x: x * 2 if bag else x * 3), lambda: setattr(Bag, "__len__", lambda self: 0)


@case
def a_truth():
    class Bag:
        full = True

        def __bool__(self):
            return self.full

    bag = Bag()
    return (lambda s, x: x * 2 if bag else x * 3), lambda: setattr(Bag, "__bool__", lambda self: False)


@case
def an_attribute_of_a_base():
    class Base:
        by = 2

    class Middle(Base):
        pass

    class Derived(Middle):
        pass

    x = Derived()
    return (lambda s, t: t * x.by), lambda: setattr(Middle, "by", 3)


@case
def other_bases():
    class First:
        def of(self, x):
            return x * 2

    class Second:
        def of(self, x):
            return x * 3

    class Derived(First):
        pass

    x = Derived()
    return (lambda s, t: x.of(t)), lambda: setattr(Derived, "__bases__", (Second,))


@case
def a_class_between_in_super():
    class Base:
        def of(self, x):
            return x * 2

    class Middle(Base):
        pass

    class Derived(Middle):
        def of(self, x):
            return super().of(x) + 1

    x = Derived()
    return (lambda s, t: x.of(t)), lambda: setattr(Middle, "of", lambda self, x: x * 3)


@case
def a_property():
    class Scale:
        @property
        def by(self):
            return 2

    scale = Scale()
    return (lambda s, x: x * scale.by), lambda: setattr(Scale, "by", property(lambda self: 3))


@case
def a_property_before_an_own_attribute():
    class Scale:
        pass

    scale = Scale()
    scale.by = 2
    return (lambda s, x: x * scale.by), lambda: setattr(Scale, "by", property(lambda self: 3))


@case
def a_value_that_becomes_a_descriptor():
    class By:
        factor = 2

    class Scale:
        by = By()

    scale = Scale()
    return (lambda s, x: x * scale.by.factor), lambda: setattr(By, "__get__", lambda self, x, cls: Holder(factor=3))


@case
def a_static_method_of_the_same_function():
    def of(*given):
        return len(given)

    class Scale:
        by = of

    scale = Scale()
    return (lambda s, x: x * scale.by(x)), lambda: setattr(Scale, "by", staticmethod(of))


@case
def a_class_method():
    class Scale:
        @classmethod
        def by(cls):
            return 2

    return (lambda s, x: x * Scale.by()), lambda: setattr(Scale, "by", classmethod(lambda cls: 3))


@case
def a_way_to_find_attributes():
    class Scale:
        pass

    scale = Scale()

    def program(s, x):
        return x * getattr(scale, "by", 2)

    return program, lambda: setattr(Scale, "__getattr__", lambda self, name: 3)


@case
def a_way_to_find_all_attributes():
    class Scale:
        by = 2

    scale = Scale()
    return (lambda s, x: x * scale.by), lambda: setattr(Scale, "__getattribute__", lambda self, name: 3)


@case
def a_way_to_set_attributes():
    class Scale:
        by = 2

    scale = Scale()

    def program(s, x):
        scale.by = s.count
        return x * scale.by

    return program, lambda: setattr(Scale, "__setattr__", lambda self, name, value: object.__setattr__(self, name, value * 2))


@case
def a_call():
    class Scale:
        def __call__(self, x):
            return x * 2

    scale = Scale()
    return (lambda s, x: scale(x)), lambda: setattr(Scale, "__call__", lambda self, x: x * 3)


@case
def what_becomes_callable():
    class Scale:
        pass

    scale = Scale()
    return (lambda s, x: x * 3 if callable(scale) else x * 2), lambda: setattr(Scale, "__call__", lambda self: None)


@case
def what_an_object_goes_over():
    class Bag:
        def __iter__(self):
            return iter([1, 2])

    bag = Bag()
    return (lambda s, x: x * sum(bag)), lambda: setattr(Bag, "__iter__", lambda self: iter([3, 4]))


@case
def elements_of_an_object():
    class Bag:
        def __getitem__(self, i):
            return i

    bag = Bag()
    return (lambda s, x: x * bag[2]), lambda: setattr(Bag, "__getitem__", lambda self, i: i + 1)


@case
def equality_of_an_object():
    class Point:
        pass

    a, b = Point(), Point()
    return (lambda s, x: x * 2 if a == b else x * 3), lambda: setattr(Point, "__eq__", lambda self, other: True)


@case
def equality_of_keys():
    class Point:
        pass

    def program(s, x):
        return x * len({Point(): 1, Point(): 2})

    def change():
        Point.__eq__, Point.__hash__ = (lambda self, other: True), (lambda self: 1)

    return program, change


@imperative
def the_text_of_an_object():
    class Point:
        def __str__(self):
            return "two"

    point = Point()
    return (lambda s, x: x * len(str(point))), lambda: setattr(Point, "__str__", lambda self: "three")


@imperative
def the_format_of_an_object():
    class Point:
        def __str__(self):
            return "two"

    point = Point()
    return (lambda s, x: x * len("{}".format(point))), lambda: setattr(Point, "__str__", lambda self: "three")  # noqa: UP032, which is what is tested


@case
def name_of_a_class():
    class Point:
        pass

    point = Point()
    return (lambda s, x: x * len(type(point).__name__)), lambda: setattr(Point, "__name__", "Longer")


@imperative
def a_metaclass():
    class Kind(type):
        pass

    class Point(metaclass=Kind):
        by = 2

    return (lambda s, x: x * Point().by), lambda: setattr(Kind, "__call__", lambda cls: Holder(by=3))


@case
def an_attribute_of_a_metaclass():
    class Kind(type):
        pass

    class Point(metaclass=Kind):
        by = 2

    return (lambda s, x: x * Point.by), lambda: setattr(Kind, "by", property(lambda cls: 3))


@case
def an_instance_check():
    class Kind(type):
        pass

    class Point(metaclass=Kind):
        pass

    return (lambda s, x: x * 2 if isinstance(s, Point) else x * 3), lambda: setattr(Kind, "__instancecheck__", lambda cls, x: True)


@case
def an_abstract_class_that_is_registered_later():
    class Shape(abc.ABC):
        pass

    class Point:
        pass

    point = Point()
    return (lambda s, x: x * 2 if isinstance(point, Shape) else x * 3), lambda: Shape.register(Point)


@case
def an_abstract_class_of_the_standard():
    class Bag:
        pass

    bag = Bag()
    return (lambda s, x: x * 2 if isinstance(bag, collections.abc.Sized) else x * 3), lambda: collections.abc.Sized.register(Bag)


@case
def a_member_of_an_enumeration():
    class Color(enum.Enum):
        RED = 2
        BLUE = 3

    holder = Holder(color=Color.RED)

    def program(s, x):
        return x * holder.color.value if holder.color is Color.RED else x * 5

    return program, lambda: setattr(holder, "color", Color.BLUE)


@case
def the_value_of_a_member():
    class Color(enum.Enum):
        RED = 2

    return (lambda s, x: x * Color.RED.value), lambda: setattr(Color.RED, "_value_", 3)


@case
def an_integer_of_an_enumeration():
    class Size(enum.IntEnum):
        SMALL = 2
        LARGE = 3

    holder = Holder(size=Size.SMALL)
    return (lambda s, x: x * (2 if holder.size is Size.SMALL else 3)), lambda: setattr(holder, "size", Size.LARGE)


@case
def a_named_tuple():
    class Pair(collections.namedtuple("Pair", "a b")):
        def total(self):
            return self.a + self.b

    holder = Holder(pair=Pair(1, 2))
    return (lambda s, x: x * holder.pair.total()), lambda: setattr(Pair, "total", lambda self: 7)


@case
def what_a_named_tuple_goes_over():
    class Pair(collections.namedtuple("Pair", "a b")):
        pass

    holder = Holder(pair=Pair(1, 2))
    return (lambda s, x: x * sum(holder.pair)), lambda: setattr(Pair, "__iter__", lambda self: iter([5, 6]))


@case
def how_a_named_tuple_is_made():
    class Pair(collections.namedtuple("Pair", "a b")):
        pass

    return (lambda s, x: x * Pair(1, 2).a), lambda: setattr(Pair, "__new__", lambda cls, a, b: tuple.__new__(cls, (b, a)))


@case
def a_field_of_a_data_class():
    @dataclasses.dataclass
    class Point:
        k: int = 2

    point = Point()
    del point.__dict__["k"]
    return (lambda s, x: x * point.k), lambda: setattr(Point, "k", 3)


@imperative
def a_number_of_the_program():
    class Number(int):
        def __mul__(self, x):
            return x * 2

    holder = Holder(k=Number(5))
    return (lambda s, x: x * (holder.k * 1)), lambda: setattr(Number, "__mul__", lambda self, x: x * 3)


@imperative
def generators_of_random_numbers():
    import random

    holder = Holder(draw=random.Random(0))
    return (lambda s, x: x * holder.draw.random()), lambda: holder.draw.seed(3)
