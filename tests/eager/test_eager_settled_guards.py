"""Calls like the one before look at little of what they depend on. What has changed since then, or is another object in the same place, is seen all the same.

Each program is called several times before something changes, so that its guards have settled, and is compared with what it does as it is.
"""

import pytest

ts = pytest.importorskip("tensmith")
tnp = pytest.importorskip("tensmith.numpy")


class Scaled:
    def __init__(self, factor, parts=()):
        self.factor, self.parts, self.inner = factor, parts, None


def by_attribute(thing, x):
    return x * thing.factor


def by_tuple(thing, x):
    return x * thing.parts[0] + thing.parts[-1]


def by_list(things, x):
    return x * things[0] + things[1][0]


def by_inner(thing, x):
    return x + thing.inner.factor if thing.inner is not None else x - thing.factor


def settled(program):
    """A check that a converted call gives what the program gives."""
    converted = ts.function(program)

    def check(*given, times=4):
        for _ in range(times):
            for _ in range(3):
                assert converted(*given).tolist() == program(*given).tolist()

    check.converted = converted
    return check


@pytest.fixture
def x():
    return tnp.asarray([1.0, 2.0], dtype=tnp.float32)


def test_another_object_of_the_class_is_another_object(x):
    check, one, two = settled(by_attribute), Scaled(2.0), Scaled(3.0)
    for thing in (one, two, one, two, one):
        check(thing, x)
    for thing in (one, two) * 5:
        check(thing, x, times=1)


def test_an_attribute_that_changes_and_comes_back_is_seen(x):
    check, thing = settled(by_attribute), Scaled(2.0)
    for factor in (2.0, 5.0, 2.0, 5.0, 7.0, 2.0):
        thing.factor = factor
        check(thing, x)


def test_a_replaced_dict_of_attributes_is_seen(x):
    check, thing = settled(by_attribute), Scaled(2.0)
    check(thing, x)
    thing.__dict__ = {"factor": 4.0, "parts": (), "inner": None}
    check(thing, x)


def test_elements_of_lists_are_looked_at_in_each_call(x):
    """A new number is likely to lie where the one before lay."""
    check, things = settled(by_list), [2.0, (1.0,)]
    for i in range(8):
        things[0] = 2.0 + i
        things[1] = (1.0 + i,)
        check(things, x, times=1)


def test_a_longer_tuple_is_another_one(x):
    check, thing = settled(by_tuple), Scaled(1.0, (2.0, 3.0))
    for parts in ((2.0, 3.0), (2.0, 3.0, 4.0), (2.0, 3.0), (5.0,)):
        thing.parts = parts
        check(thing, x)


def test_an_object_within_that_comes_later_or_is_another_is_seen(x):
    check, thing = settled(by_inner), Scaled(2.0)
    check(thing, x)
    for factor in (3.0, 4.0, 3.0):
        thing.inner = Scaled(factor)
        check(thing, x)
        thing.inner.factor = factor + 0.5
        check(thing, x)
    thing.inner = None
    check(thing, x)


def test_a_captured_variable_is_looked_at_in_each_call(x):
    thing = Scaled(2.0)

    def program(x):
        return x * thing.factor

    check = settled(program)
    check(x)
    for factor in (3.0, 4.0):
        thing = Scaled(factor)
        check(x)


def test_settled_calls_keep_nothing_of_the_program_alive(x):
    import gc
    import weakref

    check, things = settled(by_inner), Scaled(2.0)
    things.inner = Scaled(3.0)
    check(things, x)
    inner, outer = weakref.ref(things.inner), weakref.ref(things)
    things.inner = None
    gc.collect()
    assert inner() is None
    del things
    gc.collect()
    assert outer() is None
    check(Scaled(1.0), x)


def written(tensors, x):
    for each in tensors:
        each[...] = each * 2 + x
    return tensors[0] + tensors[-1]


def partly_written(tensors, x):
    for each in tensors[:-1]:
        each[...] = each * 2 + tensors[-1]
    return tensors[0] + x


def counted(things, x):
    """What is written to one is read of the next."""
    total = x
    for each in things:
        total = total * 2 + each.inner
        each.inner = total
    return total


def tensors_of(things):
    return [each.inner if isinstance(each, Scaled) else each for each in things]


@pytest.mark.parametrize("program", [written, partly_written, counted])
@pytest.mark.parametrize("count", [2, 3, 12])
def test_what_becomes_one_is_seen_however_much_has_changed(program, count, x):
    """Two tensors that share memory, or two objects that are one, among those that have changed or beside them; then distinct ones again."""

    def made(number):
        tensor = tnp.asarray([number, 1.0], dtype=tnp.float32)
        if program is not counted:
            return tensor
        thing = Scaled(1.0)
        thing.inner = tensor
        return thing

    converted, changes = ts.function(program), [(), (0,), (count - 1,), tuple(range(count)), tuple(range(1, count))]
    ours, theirs = ([made(float(i)) for i in range(count)] for _ in range(2))
    for changed in changes * 2:
        for is_one in (False, True):
            for mine in (ours, theirs):
                for i in changed:
                    mine[i] = made(7.0 + i)
                if is_one and program is partly_written:
                    mine[-1] = mine[0][:]
                elif is_one:
                    mine[0] = mine[-1][:] if program is written else mine[-1]
            for _ in range(3):
                assert converted(ours, x).tolist() == program(theirs, x).tolist()
                assert [each.tolist() for each in tensors_of(ours)] == [each.tolist() for each in tensors_of(theirs)]
        for mine in (ours, theirs):
            mine[0], mine[-1] = made(0.5), made(0.25)
    assert converted.statistics()["converted"] > 0
