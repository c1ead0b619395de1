"""Indices by tensors where a recording must not read them: in bodies of `scan` and `vmap`, and in converted functions, by NumPy's rules."""

import numpy
import pytest

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn


def _key(draw, shape, indices):
    """A random index of NumPy's with `indices` tensors of integers: parts of text, in which i0, i1 ... are these."""
    axes = len(shape)
    at = sorted(draw.choice(axes, size=indices, replace=False).tolist())
    parts, tensors = [], []
    for axis in range(axes):
        if axis in at:
            sizes = [(), (3,), (2, 3), (2, 1)][int(draw.integers(0, 4))]
            tensors.append(draw.integers(-shape[axis], shape[axis], size=sizes))
            parts.append(f"i{len(tensors) - 1}")
        elif draw.random() < 0.3:
            parts.append(str(int(draw.integers(-shape[axis], shape[axis]))))
        else:
            parts.append(["::", "::-1", "1:", ":-1", "::2"][int(draw.integers(0, 5))])
    if draw.random() < 0.3:
        parts.insert(int(draw.integers(0, len(parts) + 1)), "None")
    whole = [i for i, part in enumerate(parts) if part == "::"]
    if draw.random() < 0.4:  # of one dimension, or of none
        if whole and draw.random() < 0.5:
            parts[int(draw.choice(whole))] = "..."
        else:
            parts.insert(int(draw.integers(0, len(parts) + 1)), "...")
    return "x[" + ", ".join(parts) + "]", tensors


@pytest.mark.parametrize("seed", range(60))
def test_random_indices_are_numpys(seed):
    draw = numpy.random.default_rng(seed)
    shape = tuple(int(size) for size in draw.integers(2, 5, size=int(draw.integers(1, 5))))
    text, tensors = _key(draw, shape, int(draw.integers(1, min(len(shape), 3) + 1)))
    x = draw.standard_normal((2, *shape))
    names = [f"i{i}" for i in range(len(tensors))]
    taken = eval(f"lambda x, {', '.join(names)}: {text}")
    wanted = numpy.stack([taken(row, *tensors) for row in x])
    got = ts.vmap(taken, (0, *[None] * len(tensors)))(tnp.asarray(x), *map(tnp.asarray, tensors))
    assert got.shape == wanted.shape and (got.numpy() == wanted).all(), text
    # Examples have indices of their own, too.
    rows = [numpy.stack([each, -1 - each]) for each in tensors]
    wanted = numpy.stack([taken(x[k], *(each[k] for each in rows)) for k in range(2)])
    got = ts.vmap(taken)(tnp.asarray(x), *map(tnp.asarray, rows))
    assert (got.numpy() == wanted).all(), text
    # Writes of what may be told twice, which is the same then.
    space = {}
    exec(f"def written(x, v, {', '.join(names)}):\n    x = x * 1\n    {text} = v\n    return x", space)
    values = numpy.full(wanted.shape[1:], 7.0)
    wanted = numpy.stack([space["written"](row, values, *tensors) for row in x])
    got = ts.vmap(space["written"], (0, None, *[None] * len(tensors)))(tnp.asarray(x), tnp.asarray(values), *map(tnp.asarray, tensors))
    assert (got.numpy() == wanted).all(), text


def _f(x, i):
    return x[i] * 2


def _pairs(x, i):
    return x[tnp.arange(3), i]


def _written(x, i):
    x = x * 1.0
    x[i] = -1.0
    x[i, i] += 5.0
    return x


def _masked(x, i):
    x = x * 1.0
    x[x > tnp.astype(tnp.sum(i), tnp.float64)] = 0.0
    return x


@pytest.mark.parametrize("function", [_f, _pairs, _written, _masked])
def test_converted_functions_index_by_what_differs(function):
    draw = numpy.random.default_rng(1)
    f = ts.function(function)
    for _ in range(8):
        x, i = draw.standard_normal((4, 4)), draw.permutation(4)[:3]
        assert (f(tnp.asarray(x), tnp.asarray(i)).numpy() == function(tnp.asarray(x), tnp.asarray(i)).numpy()).all()
    assert f.statistics()["conversions"] == 1 and f.statistics()["imperative"] <= 3, f.explain()


def test_converted_functions_fail_where_an_index_is_not_there():
    for function in (_f, _written):
        f = ts.function(function)
        for _ in range(4):
            f(tnp.ones((4, 4)), tnp.asarray([0, 3, 1]))
        for wrong in ([0, 4, 1], [0, -5, 1]):
            with pytest.raises(IndexError, match="out of range"):
                f(tnp.ones((4, 4)), tnp.asarray(wrong))
    with pytest.raises(Exception, match="holds 9, outside"):
        ts.vmap(lambda x, i: x[i])(tnp.ones((2, 3)), tnp.asarray([[0, 1], [0, 9]])).wait()


def test_what_is_written_over_has_no_derivative():
    def put(c, v, i):
        c = c * 1.0
        c[i] = v
        return tnp.sum(c * tnp.asarray([1.0, 10.0, 100.0]))

    c, v = tnp.asarray([1.0, 2.0, 3.0]), tnp.asarray([5.0, 6.0, 7.0, 8.0])
    f = ts.function(lambda c, v, i: ts.grad(put, 1)(c, v, i))
    for i in ([0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [2, 1, 0, 1]):
        i = tnp.asarray(i)
        wanted = ts.grad(put, 1)(c, v, i).tolist()
        assert ts.vmap(ts.grad(put, 1), (None, 0, 0))(c, tnp.stack([v, v]), tnp.stack([i, i])).tolist() == [wanted] * 2
        assert f(c, v, i).tolist() == wanted
    zeros = ts.vmap(lambda c: (c.__setitem__(tnp.asarray([0, 1, 0]), tnp.asarray([1.0, -0.0, -0.0])), c)[1])(tnp.ones((1, 3)))
    assert numpy.signbit(zeros.numpy()).tolist() == [[True, True, False]]


def test_elements_that_python_reads_are_none_of_a_recording():
    w = tnp.ones((3, 2))
    f = ts.function(lambda x: x + w[1].numpy())
    for k in range(5):
        w[1] = float(k)
        assert f(tnp.zeros(2)).tolist() == [float(k)] * 2
    for read in (lambda row: row + row.numpy(), lambda row: row + tnp.asarray(numpy.asarray(row)), lambda row: row + tnp.from_dlpack(numpy.from_dlpack(row))):
        with pytest.raises((TypeError, ValueError, BufferError)):
            ts.vmap(read)(tnp.ones((2, 3)))


def test_a_body_may_write_to_its_own_tensors():
    x, i = tnp.reshape(tnp.arange(12.0), (3, 4)), tnp.asarray([0, 1, 2])
    before = x.tolist()

    def at(row, i):
        row[i] = 7.0
        return row

    def first(row, i):
        row[0] += 1.0
        return row, row[1:] * 2

    wanted = x.numpy().copy()
    wanted[[0, 1, 2], [0, 1, 2]] = 7.0
    assert ts.vmap(at)(x, i).tolist() == wanted.tolist()
    whole, part = ts.vmap(first)(x, i)
    assert whole.tolist() == (x.numpy() + [1, 0, 0, 0]).tolist() and part.tolist() == (x.numpy()[:, 1:] * 2).tolist()

    def body(carried, rows):
        carried[0][0] += rows[0][1]
        rows[0][...] = carried[0][0]
        return carried, rows

    (total,), (rows,) = ts.scan(body, [tnp.zeros(2)], [x])
    assert total.tolist() == [15.0, 0.0] and rows[:, 0].tolist() == [1.0, 6.0, 15.0]
    assert x.tolist() == before


def test_losses_and_orders_of_examples():
    draw = numpy.random.default_rng(2)
    x, target = draw.standard_normal((5, 4, 3)), draw.integers(0, 3, (5, 4))
    every = ts.vmap(nn.functional.cross_entropy)(tnp.asarray(x), tnp.asarray(target))
    assert numpy.allclose(every.numpy(), [float(nn.functional.cross_entropy(tnp.asarray(a), tnp.asarray(b))) for a, b in zip(x, target)])
    slopes = ts.vmap(ts.grad(nn.functional.cross_entropy))(tnp.asarray(x), tnp.asarray(target))
    assert numpy.allclose(slopes.numpy(), [ts.grad(nn.functional.cross_entropy)(tnp.asarray(a), tnp.asarray(b)).numpy() for a, b in zip(x, target)])
    assert (ts.vmap(tnp.sort)(tnp.asarray(x)).numpy() == numpy.sort(x, axis=-1)).all()
    assert (ts.vmap(lambda row: tnp.take_along_axis(row, tnp.argsort(row, axis=0), axis=0))(tnp.asarray(x)).numpy() == numpy.sort(x, axis=1)).all()
    assert (ts.vmap(lambda row: row[[2, 0]])(tnp.asarray(x)).numpy() == x[:, [2, 0]]).all()
    assert (ts.vmap(lambda row: row[numpy.asarray([1, 1])])(tnp.asarray(x)).numpy() == x[:, [1, 1]]).all()


def test_a_loop_follows_places_that_it_finds():
    """Insertion into a sorted list, and a walk along a linked list: indices that the loop's own values tell."""
    links = numpy.asarray([3, 0, 4, 2, 1])

    def walk(carried, rows):
        (at,), (_,) = carried, rows
        return [tnp.asarray(links)[at]], [at]

    _, (visited,) = ts.scan(walk, [tnp.asarray(0)], [tnp.zeros(5)])
    assert visited.tolist() == [0, 3, 2, 4, 1]

    def fill(carried, rows):
        (cache,), (at, value) = carried, rows
        cache = cache * 1.0
        cache[at] = value
        return [cache], [tnp.sum(cache)]

    (cache,), (sums,) = ts.scan(fill, [tnp.zeros(4)], [tnp.asarray([2, 0, 2, 3]), tnp.asarray([1.0, 2.0, 3.0, 4.0])])
    assert cache.tolist() == [2.0, 0.0, 3.0, 4.0] and sums.tolist() == [1.0, 3.0, 5.0, 9.0]


def test_nested_arguments_and_results_of_vmap():
    x, y = tnp.reshape(tnp.arange(6.0), (3, 2)), tnp.arange(3.0)

    def f(given, *, scale=1.0):
        return {"sum": given["a"][0] + given["b"], "pair": (given["a"] * scale, [given["b"]])}

    got = ts.vmap(f)({"a": x, "b": y}, scale=2.0)
    assert got["sum"].tolist() == (x[:, 0] + y).tolist() and got["pair"][0].tolist() == (x * 2).tolist() and got["pair"][1][0].tolist() == y.tolist()
    a, b = ts.vmap(lambda a, b: (a * b, a + b), in_axes=(1, None), out_axes=(1, 0))(x, tnp.ones(3))
    assert a.shape == (3, 2) and b.shape == (2, 3) and a.tolist() == x.tolist()
    assert ts.vmap(lambda a: a * 2)(numpy.ones((2, 2))).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    nothing = ts.vmap(lambda a: tnp.sum(a))(tnp.zeros((0, 4)))
    assert nothing.shape == (0,)
    last, (rows,) = ts.scan(lambda carried, rows: ([carried[0] + rows[0]], [rows[0]]), [tnp.ones(4)], [tnp.zeros((0, 4))])
    assert last[0].tolist() == [1.0] * 4 and rows.shape == (0, 4)


def test_mistakes_with_vmap_are_told():
    x = tnp.ones((3, 2))
    for arguments, axes, out, match in (
        ((x, tnp.ones(2)), 0, 0, "axes of one size, and these have sizes 2, 3"),
        ((x,), (0, 1), 0, "in_axes has 2 axes for 1 arguments"),
        ((x,), 2, 0, "in_axes has axis 2"),
        ((x,), 0, 3, "out_axes has axis 3"),
        ((1.0,), 0, 0, "vmap needs a tensor with an axis"),
        ((x,), None, 0, "vmap needs a tensor with an axis"),
        ((x,), ("0",), 0, "in_axes is an axis, or a list"),
        ((tnp.asarray(1.0),), 0, 0, "in_axes has axis 0, and a tensor has shape"),
    ):
        with pytest.raises(ValueError, match=match):
            ts.vmap(lambda *given: given[0] * 2, axes, out)(*arguments)
    with pytest.raises(TypeError, match="this one gives a int"):
        ts.vmap(lambda row: 3)(x)
    with pytest.raises(IndexError, match="a mask chooses as many elements as it happens to; use where"):
        ts.vmap(lambda row: row[row > 0])(x)
    with pytest.raises(IndexError, match="3 indices for a tensor of 1 dimensions"):
        ts.vmap(lambda row: row[tnp.asarray([0]), 0, 0])(x)


def test_numbers_of_numpy_and_what_is_the_same_in_each_call():
    """A number is a view, whatever its type; masks and unsigned integers that don't differ are places."""
    x = tnp.reshape(tnp.arange(12.0), (2, 3, 2))

    def written(row):
        row = row * 1.0
        for k in numpy.arange(2):
            row[k][...] = -1.0
        row[tnp.asarray(2)][1] = 5.0
        return row

    wanted = numpy.stack([written(row).numpy() for row in x])
    assert (ts.vmap(written)(x).numpy() == wanted).all()
    mask = numpy.asarray([True, False, True])
    for key in (mask, mask.tolist(), tnp.asarray(mask), numpy.asarray([2, 0], dtype="uint8"), tnp.asarray([1, 1], dtype=tnp.uint16), numpy.uint8(1), tnp.asarray(1), True):
        rows = key.numpy() if hasattr(key, "wait") else key
        if key is True:
            with pytest.raises(IndexError, match="beside a bool"):
                ts.vmap(lambda row: row[key, tnp.asarray([0])])(x)
            continue
        assert (ts.vmap(lambda row: row[key])(x).numpy() == x.numpy()[:, rows]).all()

    def put(row):
        row = row * 1.0
        row[tnp.asarray([True, False, True])] = tnp.asarray([[1.0, 2.0], [3.0, 4.0]])
        return row

    f = ts.function(put)
    for _ in range(4):
        assert (f(x[0]).numpy() == put(x[0]).numpy()).all()
    assert f.statistics()["conversions"] == 1, f.explain()
    assert (ts.vmap(put)(x).numpy() == [put(row).numpy() for row in x]).all()
    with pytest.raises(IndexError, match="out of range"):  # at once, since it is the same in each call
        ts.vmap(lambda row: row[tnp.asarray([0, 9])])(x)


@pytest.mark.parametrize("side", ["left", "right"])
def test_orders_and_places_of_examples(side):
    draw = numpy.random.default_rng(5)
    x = numpy.sort(draw.integers(0, 6, (4, 7)).astype("float64"), axis=1)
    x[:, 6] = numpy.nan
    values = draw.integers(-1, 8, (4, 3, 2)).astype("float64")
    values[0, 0, 0] = numpy.nan
    wanted = numpy.stack([numpy.searchsorted(a, b, side=side) for a, b in zip(x, values)])
    assert (ts.vmap(lambda a, b: tnp.searchsorted(a, b, side=side))(tnp.asarray(x), tnp.asarray(values)).numpy() == wanted).all()
    f = ts.function(lambda a, b: tnp.searchsorted(a, b, side=side))
    for a, b in zip(x, values):
        assert (f(tnp.asarray(a), tnp.asarray(b)).numpy() == numpy.searchsorted(a, b, side=side)).all()
    assert f.statistics()["conversions"] == 1, f.explain()
    shuffled = draw.permuted(x, axis=1)
    for dtype in ("float64", "int8", "uint16", "bool"):
        part = numpy.nan_to_num(shuffled).astype(dtype) if dtype != "float64" else shuffled
        for descending in (False, True):
            eager = tnp.argsort(tnp.asarray(part), descending=descending)
            assert (ts.vmap(lambda a: tnp.argsort(a, descending=descending))(tnp.asarray(part)).numpy() == eager.numpy()).all()
            g = ts.function(lambda a: tnp.sort(a, descending=descending))
            for row in part:
                assert numpy.array_equal(g(tnp.asarray(row)).numpy(), tnp.sort(tnp.asarray(row), descending=descending).numpy(), equal_nan=dtype == "float64")


def test_several_indices_within_parts_that_are_computed_again():
    x, i, j = tnp.reshape(tnp.arange(24.0), (2, 3, 4)), tnp.asarray([0, 2]), tnp.asarray([1, 3])

    def chosen(row):
        return tnp.sum(ts.checkpoint(lambda row: tnp.tanh(row)[i, j] * 2)(row))

    wanted = numpy.stack([ts.grad(lambda row: tnp.sum(tnp.tanh(row)[i, j] * 2))(row).numpy() for row in x])
    assert numpy.allclose(ts.vmap(ts.grad(chosen))(x).numpy(), wanted)
    whole = ts.grad(lambda x: tnp.sum(ts.checkpoint(lambda x: ts.vmap(lambda row: row[i, j] ** 2)(x))(x)))(x)
    assert numpy.allclose(whole.numpy(), ts.grad(lambda x: tnp.sum(x[:, i, j] ** 2))(x).numpy())
