"""Every function of the namespace on every element type that the array API standard (2024.12) allows for it, against NumPy.

The functions are the namespace's own: one that no row below speaks of fails `test_no_function_is_left_out`. Sizes are none, one,
a few, and enough for a compiled kernel, which each call is made twice for: the first may be before the kernel is there.
"""

import inspect
import itertools
import math
import operator

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import tensmith as ts  # noqa: E402
from tensmith import _eager  # noqa: E402

SIZES = (0, 1, 17, 20_000)
SIGNED, UNSIGNED = ["int8", "int16", "int32", "int64"], ["uint8", "uint16", "uint32", "uint64"]
BOOL, INTEGERS, FLOATS, COMPLEX = ["bool"], SIGNED + UNSIGNED, ["float32", "float64"], ["complex64", "complex128"]
KINDS = {
    "bool": BOOL,
    "integer or bool": BOOL + INTEGERS,
    "integer": INTEGERS,
    "real floating": FLOATS,
    "complex": COMPLEX,
    "floating": FLOATS + COMPLEX,
    "real": INTEGERS + FLOATS,
    "numeric": INTEGERS + FLOATS + COMPLEX,
    "any": BOOL + INTEGERS + FLOATS + COMPLEX,
}
# The standard's words for the types of each function's operands; the last row is beyond the standard.
ELEMENTWISE = {
    "bool": "logical_and logical_not logical_or logical_xor",
    "integer or bool": "bitwise_and bitwise_invert bitwise_or bitwise_xor",
    "integer": "bitwise_left_shift bitwise_right_shift",
    "real floating": "atan2 copysign hypot logaddexp nextafter signbit cbrt erf exp2 sigmoid",
    "complex": "imag",
    "floating": "acos acosh asin asinh atan atanh cos cosh divide exp expm1 log log10 log1p log2 reciprocal sin sinh sqrt tan tanh",
    "real": "ceil clip floor floor_divide greater greater_equal less less_equal maximum minimum remainder trunc",
    "numeric": "abs add conj isfinite isinf isnan multiply negative positive pow real round sign square subtract",
    "any": "equal not_equal where",
}
REDUCTIONS = {
    "real": "argmax argmin max min argsort sort searchsorted",
    "real floating": "std var",
    "floating": "mean",
    "numeric": "cumulative_prod cumulative_sum diff prod sum",
    "any": "all any count_nonzero nonzero unique_all unique_counts unique_inverse unique_values",
}
ARRANGING = (
    "broadcast_arrays broadcast_to concat expand_dims flip matrix_transpose moveaxis permute_dims repeat reshape roll squeeze stack "
    "take take_along_axis tile tril triu unstack astype asarray array full_like ones_like zeros_like meshgrid"
)
PRODUCTS = "matmul outer tensordot vecdot"
# What is no operation on elements; tests/eager/test_eager_tensors.py and the standard's tests call them.
OTHERS = (
    "arange broadcast_shapes can_cast empty empty_like eye finfo from_dlpack full iinfo isdtype linspace ones result_type zeros "
    "DType Tensor __array_namespace_info__"
)
OPERATORS = {
    "abs": operator.abs, "negative": operator.neg, "positive": operator.pos, "bitwise_invert": operator.invert, "add": operator.add,
    "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv, "floor_divide": operator.floordiv,
    "remainder": operator.mod, "pow": operator.pow, "bitwise_and": operator.and_, "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor, "bitwise_left_shift": operator.lshift, "bitwise_right_shift": operator.rshift, "equal": operator.eq,
    "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "matmul": operator.matmul,
}  # fmt: skip
BEYOND_NUMPY = {
    "erf": lambda x: numpy.vectorize(math.erf, otypes=[x.dtype])(x),
    "sigmoid": lambda x: (1 / (1 + numpy.exp(-x.astype("float64")))).astype(x.dtype),
}


def names(table):
    return [(name, dtype) for kind, row in table.items() for name in row.split() for dtype in KINDS[kind]]


def test_no_function_is_left_out():
    functions = {name for name, value in vars(tnp).items() if callable(value) and not name.startswith("_")}
    functions = {name for name in functions if not isinstance(getattr(tnp, name), tnp.DType)} | {"__array_namespace_info__"}
    rows = [*ELEMENTWISE.values(), *REDUCTIONS.values(), ARRANGING, PRODUCTS, OTHERS]
    known = [name for row in rows for name in row.split()]
    assert sorted(functions) == sorted(known)


def drawn(draw, size, dtype, name=""):
    """Numbers of the whole range of integers; of floats near 1, with NaN, infinities and zeros of both signs among them."""
    if dtype == "bool":
        return draw.random(size) < 0.5
    if dtype in INTEGERS:
        limits = numpy.iinfo(dtype)
        values = draw.integers(limits.min, limits.max, size, dtype, endpoint=True)
        values[: size // 2] = draw.integers(0, 5, size // 2)
        values[:2] = [limits.min, limits.max][:size]
        return values
    values = draw.standard_normal(size) * 3
    if dtype in COMPLEX:
        return (values + 1j * draw.standard_normal(size)).astype(dtype)
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5][:size] if size > 1 else []
    values[: len(special)] = special
    return draw.permutation(values).astype(dtype)


def second(draw, size, dtype, name):
    values = drawn(draw, size, dtype)
    if name.startswith("bitwise") and name.endswith("shift"):
        return draw.integers(0, numpy.iinfo(dtype).bits, size).astype(dtype)
    if name == "pow" and dtype in INTEGERS:
        return draw.integers(0, 9, size).astype(dtype)
    if name in ("floor_divide", "remainder") and dtype in INTEGERS:
        return numpy.where(values == 0, numpy.asarray(3, dtype), values)  # by zero is left open
    if name in ("floor_divide", "remainder"):
        return numpy.where(numpy.isfinite(values) & (values != 0), values, numpy.asarray(0.75, dtype))
    return values


def agree(ours, theirs, tolerance):
    theirs = numpy.asarray(theirs)
    assert ours.shape == theirs.shape and str(ours.dtype) == theirs.dtype.name
    eps = 0 if theirs.dtype.kind in "biu" else tolerance * numpy.finfo(theirs.dtype).eps
    numpy.testing.assert_allclose(ours.numpy(), theirs, rtol=eps, atol=eps)


# Whose results are the same bits everywhere; others are rounded once here, and in NumPy within some units of the last place.
EXACT = (
    "abs add ceil clip conj copysign divide equal floor greater greater_equal imag isfinite isinf isnan less less_equal maximum "
    "minimum multiply negative nextafter not_equal positive real reciprocal round sign signbit sqrt square subtract trunc where"
).split()


def call_of(name, draw, size, dtype):
    """Ours and NumPy's function, and the operands."""
    x = drawn(draw, size, dtype)
    if name == "where":
        condition, other = drawn(draw, size, "bool"), drawn(draw, size, dtype)
        return tnp.where, numpy.where, (condition, x, other)
    if name == "clip":
        low, high = numpy.asarray(1, dtype), numpy.asarray(3, dtype)
        return tnp.clip, numpy.clip, (x, low, high)
    ours, theirs = getattr(tnp, name), BEYOND_NUMPY.get(name) or getattr(numpy, name)
    count = len(inspect.signature(ours).parameters)
    if name == "floor_divide" and dtype in FLOATS:
        x[numpy.isinf(x)] = 2.5  # the standard has an infinity, and Python's NaN as its alternative
    return ours, theirs, (x,) if count == 1 else (x, second(draw, size, dtype, name))


@pytest.mark.parametrize("name, dtype", names(ELEMENTWISE))
def test_every_elementwise_function(name, dtype):
    draw = numpy.random.default_rng(len(name))
    is_exact = name in EXACT and (dtype not in COMPLEX or name in ("add", "subtract", "conj", "real", "imag", "negative", "positive", "where"))
    for size in SIZES:
        ours, theirs, operands = call_of(name, draw, size, dtype)
        with numpy.errstate(all="ignore"):
            expected = theirs(*operands)
        tensors = [tnp.asarray(each.copy()) for each in operands]
        for _ in range(2 if size == SIZES[-1] else 1):
            result = ours(*tensors)
            agree(result, expected, 0 if is_exact else 64)
            if size == SIZES[-1]:
                _eager.finish()
        if name in OPERATORS:
            spelt = OPERATORS[name](*tensors)
            assert spelt.dtype is result.dtype and spelt.numpy().tobytes() == result.numpy().tobytes()


def reduced(name, x):
    """The calls of a function of sequences that both libraries are asked for: by module and tensor or array."""
    if name == "searchsorted":
        return lambda xp, x: xp.searchsorted(xp.sort(x), x)
    if name == "unique_values":  # in any order
        return lambda xp, x: xp.sort(xp.unique_values(x))
    if name == "argsort":
        return lambda xp, x: xp.argsort(x, stable=True)
    if name in ("max", "min", "argmax", "argmin") and x.size == 0:
        return None
    return lambda xp, x: getattr(xp, name)(x)


def numbers_of(dtype, name, size, draw):
    """What sums and products neither leave the range of nor cancel in."""
    if name in ("prod", "cumulative_prod") and dtype not in INTEGERS:
        return (1 + draw.random(size) / max(size, 1)).astype(dtype)
    if name in ("mean", "std", "var", "sum", "cumulative_sum") and dtype not in INTEGERS:
        return (1 + draw.random(size)).astype(dtype)
    x = drawn(draw, size, dtype)
    return x[~numpy.isnan(x)][: max(size - 1, 0)] if name == "searchsorted" else x


@pytest.mark.parametrize("name, dtype", names(REDUCTIONS))
def test_every_function_of_sequences(name, dtype):
    draw = numpy.random.default_rng(len(name))
    for size in SIZES:
        x = numbers_of(dtype, name, size, draw)
        call = reduced(name, x)
        if call is None:
            with pytest.raises(ValueError):
                getattr(tnp, name)(tnp.asarray(x))
            continue
        with numpy.errstate(all="ignore"):
            expected = call(numpy, x) if x.size or name not in ("mean", "std", "var") else numpy.asarray(math.nan, x.dtype)
        results = call(tnp, tnp.asarray(x.copy()))
        if not isinstance(expected, tuple):
            results, expected = (results,), (expected,)
        if name.startswith("unique") and numpy.isnan(x).any():
            continue  # NumPy has one NaN where the standard has each
        assert len(results) == len(expected)
        for ours, theirs in zip(results, expected):
            agree(ours, theirs, 4 * max(size, 16) if dtype not in INTEGERS and dtype != "bool" else 64)


def arranged(name, x, xp):
    """One call of each, of [n] and of [2, n]."""
    rows = xp.stack([x, x[::-1]])
    full = xp.reshape(x, (-1, 1))
    order = xp.argsort(xp.astype(rows != 0, xp.int64), stable=True) if name == "take_along_axis" else None
    calls = {
        "broadcast_arrays": lambda: xp.broadcast_arrays(x, rows),
        "broadcast_to": lambda: xp.broadcast_to(x, (3, x.shape[0])),
        "concat": lambda: xp.concat([x, x[::-1]]),
        "expand_dims": lambda: xp.expand_dims(x, axis=1),
        "flip": lambda: xp.flip(rows, axis=1),
        "matrix_transpose": lambda: xp.matrix_transpose(rows),
        "moveaxis": lambda: xp.moveaxis(rows, 0, 1),
        "permute_dims": lambda: xp.permute_dims(rows, (1, 0)),
        "repeat": lambda: xp.repeat(x, 2),
        "reshape": lambda: xp.reshape(rows, (x.shape[0], 2)),
        "roll": lambda: xp.roll(rows, 3, axis=1),
        "squeeze": lambda: xp.squeeze(full, axis=1),
        "stack": lambda: xp.stack([x, x], axis=1),
        "take": lambda: xp.take(rows, xp.asarray([1, 0, 1]), axis=0),
        "take_along_axis": lambda: xp.take_along_axis(rows, order, axis=1),
        "tile": lambda: xp.tile(x, (2, 2)),
        "tril": lambda: xp.tril(rows),
        "triu": lambda: xp.triu(rows, k=1),
        "unstack": lambda: xp.unstack(rows),
        "astype": lambda: xp.astype(x, xp.complex128 if "complex" in str(x.dtype) else xp.float32 if "float" in str(x.dtype) else xp.int16),
        "asarray": lambda: xp.asarray(x, copy=True),
        "array": lambda: xp.array(x, copy=True),
        "full_like": lambda: xp.full_like(x, 1),
        "ones_like": lambda: xp.ones_like(x),
        "zeros_like": lambda: xp.zeros_like(x),
        "meshgrid": lambda: xp.meshgrid(x[:70], x[:50]),
    }
    result = calls[name]()
    return result if isinstance(result, (tuple, list)) else (result,)


@pytest.mark.parametrize("name", ARRANGING.split())
def test_every_function_that_arranges(name):
    draw = numpy.random.default_rng(len(name))
    for dtype, size in itertools.product(KINDS["any"], SIZES):
        x = drawn(draw, size, dtype)
        results, expected = arranged(name, tnp.asarray(x.copy()), tnp), arranged(name, x, numpy)
        assert len(results) == len(expected)
        for ours, theirs in zip(results, expected):
            agree(ours, theirs, 0)


@pytest.mark.parametrize("name, dtype", names({"numeric": PRODUCTS}))
def test_every_product(name, dtype):
    draw = numpy.random.default_rng(len(name))
    for size in SIZES:
        x, y = ((draw.standard_normal(size) * 3).astype(dtype) if dtype not in INTEGERS else drawn(draw, size, dtype) for _ in range(2))
        if dtype in COMPLEX:
            y = (y + 1j * draw.standard_normal(size)).astype(dtype)
        if name == "outer":
            x, y = x[:140], y[:150]
        elif name != "vecdot":
            columns = max(math.isqrt(size), 1)
            x, y = x[: size // columns * columns].reshape(-1, columns), y[: size // columns * columns].reshape(columns, -1)
        by_axis = {"axes": 1} if name == "tensordot" else {}
        expected = getattr(numpy, name)(x, y, **by_axis)
        tensors = tnp.asarray(x.copy()), tnp.asarray(y.copy())
        result = getattr(tnp, name)(*tensors, **by_axis)
        agree(result, expected, 64 * max(size, 1))
        if name in OPERATORS:
            assert OPERATORS[name](*tensors).numpy().tobytes() == result.numpy().tobytes()


@pytest.mark.parametrize("name", PRODUCTS.split())
def test_booleans_have_no_product(name):
    x = tnp.ones((2, 2) if name in ("matmul", "tensordot") else 2, dtype=tnp.bool)
    with pytest.raises(TypeError, match=f"{name}: booleans have no product"):
        getattr(tnp, name)(x, x)


@pytest.mark.parametrize("x, indices, dtype, axis, said", [
    ((4, 3), (4, 1), "float32", 1, "type f32"),
    ((4, 3), (4, 1), "bool", 1, "type bool"),
    ((4, 3), (4, 1), "int64", 2, "axis 2 .*shape 4x3, "),
    ((4, 3), (4, 1), "int64", -3, "axis -3 .*shape 4x3, "),
    ((), (), "int64", 0, "axis 0 "),
    ((4, 3), (4,), "int64", 0, "shape 4x3 .*shape 4 "),
    ((4, 3), (4, 3, 1), "int64", 1, "shape 4x3 .*shape 4x3x1 "),
    ((4, 3), (6, 1), "int64", 1, "shape 4x3 .*shape 6x1 "),
    ((4, 3), (2, 4), "int64", -2, "shape 4x3 .*shape 2x4 "),
])  # fmt: skip
def test_places_that_do_not_fit_are_refused_at_the_call(x, indices, dtype, axis, said):
    """Breaks if `gather_elements` promises a result of any shape, and only its evaluation, when the engine or a graph comes to it, finds what is wrong."""
    operands = [tnp.zeros(x), tnp.zeros(indices, dtype=getattr(tnp, dtype))]
    fitting = _eager.apply("gather_elements", [tnp.zeros((4, 3)), tnp.zeros((2, 7), dtype=tnp.int64)], {"axis": -1})
    assert fitting.shape == (2, 7)  # fewer beside the axis, and any number along it
    with pytest.raises(ValueError, match="gather_elements: .*" + said):
        _eager.apply("gather_elements", operands, {"axis": axis})

    def step():
        with pytest.raises(ValueError, match="gather_elements: .*" + said):
            _eager.apply("gather_elements", operands, {"axis": axis})
        return tnp.sum(operands[0])

    step = ts.coexecute(step, warm_up=0)
    assert [float(step()) for _ in range(3)] == [0.0] * 3
