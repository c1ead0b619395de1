"""What a converted call leaves behind is what the function leaves behind: gradients, the order of keys and attributes, memory that others share, and nothing else."""

import gc
import weakref

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import tensmith as ts  # noqa: E402
from tensmith import nn  # noqa: E402


class Thing:
    def __init__(self, **attributes):
        vars(self).update(attributes)


def leaf(*values):
    tensor = tnp.asarray(values, dtype=tnp.float32)
    tensor.requires_grad = True
    return tensor


def gradients(model, count, program, converted=True):
    """Those after each call, and what the program gives."""
    call = ts.function(program) if converted else program
    found = []
    for _ in range(count):
        result = call(model)
        found.append((str(result), [None if each.grad is None else each.grad.tolist() for each in vars(model).values()]))
    assert not converted or call.statistics()["converted"] >= count - 2, call.explain()
    return found


# ---- gradients of what is first read while the program records


def summed(a):
    with ts.record():
        loss = tnp.sum(a.w * 2.0)
    loss.backward()


def taken_away(a):
    with ts.record():
        loss = tnp.sum(a.w * a.w)
    loss.backward()
    gradient = a.w.grad
    a.w.grad = None
    return gradient


def of_several(a):
    with ts.record():
        loss = tnp.sum(a.w * a.v) + tnp.sum(a.w)
    loss.backward()
    return loss


def within_a_branch(a):
    with ts.record():
        loss = tnp.sum(a.w * 3.0)
        loss = loss + tnp.sum(a.v) if a.w[0] > 0 else loss
    loss.backward()


def one_within_another(a):
    with ts.record():
        with ts.record():
            inner = tnp.sum(a.w * a.w)
        outer = inner * tnp.sum(a.v)
    outer.backward()


@pytest.mark.parametrize("program", [summed, taken_away, of_several, within_a_branch, one_within_another])
def test_leaves_that_are_first_read_while_the_program_records(program):
    ours, theirs = (Thing(w=leaf(1.0, 2.0), v=leaf(3.0, 4.0)) for _ in range(2))
    assert gradients(ours, 6, program) == gradients(theirs, 6, program, converted=False)


def test_a_model_that_is_first_read_while_the_program_records():
    def program(holder, x):
        with ts.record():
            loss = tnp.sum(nn.functional.relu(holder.model(x)))
        loss.backward()
        return loss

    found = []
    for convert in (lambda each: each, ts.function):
        nn.manual_seed(5)
        holder, call = Thing(model=nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))), convert(program)
        losses = [float(call(holder, tnp.asarray([[1.0, 2.0, float(i)]], dtype=tnp.float32))) for i in range(5)]
        found.append((losses, [each.grad.tolist() for each in holder.model.parameters()]))
    assert call.statistics()["converted"] >= 3
    assert numpy.allclose(found[0][0], found[1][0], rtol=1e-5)
    assert all(numpy.allclose(a, b, rtol=1e-5) for a, b in zip(found[0][1], found[1][1]))


# ---- orders


def rotated(a):
    key = list(a.table)[0]
    a.table[key] = a.table.pop(key)
    return key


def replaced_by_an_equal_key(a):
    a.table[1.0 if 1 in a.table and type(next(iter(a.table))) is int else 1] = a.table.pop(1)
    return [type(key).__name__ for key in a.table]


def set_anew(a):
    value = a.first
    del a.first
    a.first = value


def set_in_another_order(a):
    a.third, a.fourth = 3, 4
    del a.third
    a.second += 1
    a.third = 5
    del a.second
    a.second = 7


@pytest.mark.parametrize("program", [rotated, replaced_by_an_equal_key, set_anew, set_in_another_order])
def test_keys_and_attributes_come_to_be_in_the_order_of_the_function(program):
    def world():
        return Thing(first=1, second=2, table={1: "a", "b": 2, "c": 3})

    converted, ours, theirs = ts.function(program), world(), world()
    for number in range(6):
        if program in (set_anew, set_in_another_order):
            ours, theirs = world(), world()
        assert converted(ours) == program(theirs)
        assert list(vars(ours).items()) == list(vars(theirs).items()) and list(ours.table.items()) == list(theirs.table.items())
        assert [type(key) for key in ours.table] == [type(key) for key in theirs.table]
    assert converted.statistics()["converted"] >= 2, converted.explain()


class WithOne:
    number = 8


class ModuleWithOne(nn.Module):
    number = 8


def set_for_a_while(a):
    a.thing.number = 1
    total = a.thing.number + a.count
    del a.thing.number
    return total


def taken_off(a):
    a.thing.number = 1
    a.thing.number = a.thing.number + a.count
    if a.count > 2:
        del a.thing.number
    return a.thing.number


@pytest.mark.parametrize("kind", [WithOne, ModuleWithOne])
@pytest.mark.parametrize("program", [set_for_a_while, taken_off])
def test_what_a_class_has_under_a_name_does_not_become_its_objects(program, kind):
    converted, ours, theirs = ts.function(program), Thing(thing=kind(), count=1), Thing(thing=kind(), count=1)
    for count in (1, 1, 1, 3, 3, 3, 1, 1):
        ours.count = theirs.count = count
        assert converted(ours) == program(theirs)
        assert vars(ours.thing).get("number") == vars(theirs.thing).get("number")
    assert converted.statistics()["converted"] >= 3, converted.explain()


# ---- what may not be written, and what others share


def written_after_a_number(a):
    a.count += 1
    a.w[0] = 5.0


@pytest.mark.parametrize("make", [lambda: tnp.broadcast_to(tnp.ones(1), (3,)), lambda: tnp.asarray(_read_only())])
def test_a_tensor_that_may_not_be_written_fails_where_the_function_fails(make):
    a, converted = Thing(count=0, w=tnp.ones(3)), ts.function(written_after_a_number)
    for _ in range(4):
        converted(a)
    assert converted.statistics()["converted"] >= 2
    a.w = make()
    is_written = not isinstance(_error(lambda: written_after_a_number(Thing(count=0, w=make()))), Exception)
    error = _error(lambda: converted(a))
    assert a.count == 5 and (error is None) == is_written


def _read_only():
    array = numpy.ones(3)
    array.flags.writeable = False
    return array


def _error(do):
    try:
        do()
    except Exception as error:
        return error


def added(a):
    a.w += 1
    return a.v * 2


def both_written(a):
    a.v += 1
    a.w *= 2
    return a.v + a.w


@pytest.mark.parametrize("program", [added, both_written])
@pytest.mark.parametrize("how", ["dlpack", "numpy", "twice", "parts", "beside"])
def test_memory_that_two_tensors_have_by_way_of_others_is_one(program, how):
    def world():
        array = numpy.arange(6.0)
        if how == "twice":
            return Thing(v=tnp.from_dlpack(array), w=tnp.from_dlpack(array))
        if how in ("parts", "beside"):
            return Thing(v=tnp.from_dlpack(array[:3]), w=tnp.from_dlpack(array[2:5] if how == "parts" else array[3:]))
        v = tnp.asarray(list(range(6)), dtype=tnp.float64)
        return Thing(v=v, w=tnp.from_dlpack(v) if how == "dlpack" else tnp.asarray(numpy.asarray(v)))

    converted = ts.function(program)
    for size in (6, 3):
        apart = Thing(v=tnp.ones(size), w=tnp.ones(size))
        for _ in range(3):
            converted(apart)
    ours, theirs = world(), world()
    for _ in range(3):
        assert converted(ours).tolist() == program(theirs).tolist()
        assert ours.v.tolist() == theirs.v.tolist() and ours.w.tolist() == theirs.w.tolist()


def halved(a):
    a.one.number = a.one.number * 0.5
    return a.one.number + a.other.number


def test_objects_that_come_to_have_one_dict_of_attributes():
    converted = ts.function(halved)
    ours, theirs = (Thing(one=Thing(number=8.0), other=Thing(number=2.0)) for _ in range(2))
    for _ in range(4):
        assert converted(ours) == halved(theirs)
    assert converted.statistics()["converted"] >= 2
    for a in (ours, theirs):
        a.one.__dict__ = a.other.__dict__
    for _ in range(4):
        assert converted(ours) == halved(theirs)


def test_modules_that_come_to_have_one_table_of_parameters():
    def program(first, second):
        first.weight[...] = first.weight * 2.0
        return tnp.sum(second.weight)

    found = []
    for convert in (lambda each: each, ts.function):
        nn.manual_seed(5)
        first, second, call = nn.Linear(2, 2), nn.Linear(2, 2), convert(program)
        for each in (*first.parameters(), *second.parameters()):
            each.requires_grad = False
        sums = [float(call(first, second)) for _ in range(4)]
        first.__dict__["_parameters"] = second.__dict__["_parameters"]
        found.append(sums + [float(call(first, second)) for _ in range(3)])
    assert numpy.allclose(*found, rtol=1e-5)


# ---- what is let go of


def test_a_function_that_has_no_conversion_keeps_nothing_of_its_calls():
    def program(a):
        print(end="")

    converted, a = ts.function(program), Thing(w=tnp.ones(3))
    for _ in range(9):
        converted(a)
    assert converted.statistics()["converted"] == 0
    alive = weakref.ref(a)
    del a
    gc.collect()
    assert alive() is None
