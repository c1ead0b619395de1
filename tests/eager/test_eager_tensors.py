"""Eager tensors against NumPy: random calls of functions, indices and assignments, and what programs exchange.

Each random case draws shapes, element types and operands; a wrong broadcast, promotion, stride or position differs from NumPy's.
"""

import copy
import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import weakref

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
from tensmith import _eager  # noqa: E402

TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128"]
INTEGERS, FLOATS = TYPES[1:9], ["float32", "float64"]
BINARY = "add subtract multiply divide equal not_equal less greater_equal logical_and logical_xor maximum minimum".split()
UNARY = "abs negative square sqrt exp log sin cos tanh isnan isfinite sign logical_not expm1 log1p floor".split()


def drawn_shape(draw, most=4):
    return tuple(int(size) for size in draw.integers(0, 5, draw.integers(0, most)))


def drawn(draw, shape, dtype):
    values = draw.standard_normal(shape) * 4
    if dtype.startswith("complex"):
        values = values + 1j * draw.standard_normal(shape)
    if dtype.startswith("uint"):
        values = numpy.abs(values)
    return numpy.asarray(values).astype(dtype)


def tensor(values):
    return tnp.asarray(values.copy())


def agree(ours, theirs, exact=False):
    theirs = numpy.asarray(theirs)
    assert ours.shape == theirs.shape and str(ours.dtype) == theirs.dtype.name
    tolerance = 0 if exact or theirs.dtype.kind in "biu" else 40 * numpy.finfo(theirs.dtype).eps
    numpy.testing.assert_allclose(ours.numpy(), theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name):
    draw = numpy.random.default_rng(sum(map(ord, name)))
    ours, theirs = getattr(tnp, name), getattr(numpy, name)
    ordered = name in ("less", "greater_equal", "maximum", "minimum")
    types = [t for t in TYPES if not (t.startswith("complex") and ordered) and not (t == "bool" and name == "subtract")]
    for _ in range(60):
        a_type, b_type = (types[i] for i in draw.integers(0, len(types), 2))
        if name in ("add", "multiply", "divide") and "bool" in (a_type, b_type):
            continue  # the standard leaves arithmetic of booleans open
        if name == "divide" and not any(t[0] in "fc" for t in (a_type, b_type)):
            continue  # and division of integers, which is always in float64 here
        shape = drawn_shape(draw)
        a = drawn(draw, shape, a_type)
        b = drawn(draw, tuple(size if draw.random() < 0.7 else 1 for size in shape[int(draw.integers(0, 2)) :]), b_type)
        with numpy.errstate(all="ignore"):
            agree(ours(tensor(a), tensor(b)), theirs(a, b))


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name):
    draw = numpy.random.default_rng(len(name))
    for dtype in FLOATS + ([] if name == "floor" else ["complex64", "complex128"]):
        for _ in range(6):
            x = drawn(draw, drawn_shape(draw), dtype)
            view = tensor(x)
            if x.ndim and draw.random() < 0.5:
                x, view = x[::-1], view[::-1]
            with numpy.errstate(all="ignore"):
                agree(getattr(tnp, name)(view), getattr(numpy, name)(x))


def test_large_operands_go_through_kernels_and_agree():
    before = _eager.kernel_statistics()["runs"]
    draw = numpy.random.default_rng(1)
    a, b = drawn(draw, (70, 300), "float32"), drawn(draw, (300, 90), "float32")
    wide, row = drawn(draw, (200, 300), "float32"), drawn(draw, (300,), "float32")
    for _ in range(3):
        agree(tnp.matmul(tensor(a), tensor(b)) * 1e-3, (a @ b) * numpy.float32(1e-3))
        agree(tensor(wide) + tensor(row), wide + row, exact=True)
        agree(tensor(wide).T - 2, wide.T - numpy.float32(2), exact=True)
        agree(tnp.exp(tensor(wide)), numpy.exp(wide))
        agree(tnp.sum(tensor(numpy.abs(wide)), axis=1), numpy.abs(wide).sum(axis=1))
        agree(tnp.astype(tensor(wide), tnp.int32), wide.astype("int32"))
        _eager.finish()
    assert _eager.kernel_statistics()["runs"] > before


def functions_with_types(draw):
    """Every element-wise function with an element type; those that take the truth of numbers with all."""
    for count, names in tnp.elementwise.NAMES.items():
        for name in names.split():
            types = TYPES[:-2] + ["float16", "bfloat16"]
            for dtype in types if name in ("logical_and", "logical_or", "logical_xor") else draw.permutation(types[1:])[:1]:
                yield name, count, str(dtype)


def test_kernels_agree_with_evaluations():
    draw = numpy.random.default_rng(2)
    for name, count, dtype in functions_with_types(draw):
        function, tiles = getattr(tnp, name), 512
        values = [numpy.trunc(draw.standard_normal(64) * 2) for _ in range(count)]
        if dtype.startswith("uint"):
            values[0] = abs(values[0])
        values[1:] = [abs(each) for each in values[1:]]  # exponents and shifts of integers
        operands = [tnp.astype(tensor(each), getattr(tnp, dtype)) for each in values]
        try:
            small = function(*operands)
        except TypeError:
            continue
        expected = tnp.tile(small, (tiles,)).numpy() if dtype != "bfloat16" else numpy.tile(numpy.asarray(small.tolist()), tiles)
        for _ in range(2):  # before the kernel is there, and by the kernel
            large = function(*(tnp.tile(each, (tiles,)) for each in operands))
            assert large.dtype is small.dtype, (name, dtype)
            found = large.numpy() if dtype != "bfloat16" else numpy.asarray(large.tolist())
            tolerance = 8 * tnp.finfo(small.dtype).eps if tnp.isdtype(small.dtype, "real floating") else 0
            numpy.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=f"{name} of {dtype}")
            _eager.finish()


def drawn_index(draw, shape):
    """An index that NumPy takes of a tensor of that shape, but for bounds."""
    parts, axis = [], 0
    arrays = draw.random() < 0.4
    common = drawn_shape(draw, 3)
    while axis < len(shape):
        kind = draw.integers(0, 7)
        if kind == 0:
            break
        if kind == 1:
            parts.append(None)
            continue
        size = shape[axis]
        if kind == 2 and size:
            parts.append(int(draw.integers(-size, size)))
        elif kind == 3 and arrays and size:
            parts.append(draw.integers(-size, size, common))
        elif kind == 4 and arrays:
            parts.append(draw.random(size) < 0.5)
            common = None  # masks broadcast with nothing but their like
        else:
            bounds = [None if draw.random() < 0.3 else int(draw.integers(-6, 7)) for _ in range(2)]
            parts.append(slice(*bounds, [None, 1, 2, -1, -2][draw.integers(0, 5)]))
        axis += 1
        if common is None:
            break
    if draw.random() < 0.3:
        parts.append(Ellipsis)
    return tuple(parts)


def ours_of(index):
    return tuple(tensor(part) if isinstance(part, numpy.ndarray) else part for part in index)


def test_indices():
    draw = numpy.random.default_rng(3)
    for _ in range(1500):
        x = drawn(draw, drawn_shape(draw, 5), TYPES[draw.integers(0, len(TYPES))])
        index = drawn_index(draw, x.shape)
        try:
            expected = x[index]
        except IndexError:
            with pytest.raises(IndexError):
                tensor(x)[ours_of(index)]
            continue
        agree(tensor(x)[ours_of(index)], expected, exact=True)


def test_assignments():
    draw = numpy.random.default_rng(4)
    for _ in range(1000):
        x = drawn(draw, drawn_shape(draw, 5), "float64")
        index = drawn_index(draw, x.shape)
        ours = tensor(x)
        view = ours[::-1] if x.ndim else ours
        try:
            shape = x[index].shape
        except IndexError:
            continue
        value = drawn(draw, tuple(size if draw.random() < 0.7 else 1 for size in shape), "float64")
        x[index] = value
        ours[ours_of(index)] = tensor(value)
        agree(ours, x, exact=True)
        agree(view, x[::-1] if x.ndim else x, exact=True)  # a view sees it


@pytest.mark.parametrize("name", "sum prod max min mean any all".split())
def test_reductions(name):
    draw = numpy.random.default_rng(len(name))
    for _ in range(60):
        dtype = ["int32", "int64", "uint8", "float32", "float64", "bool"][draw.integers(0, 6 if name in ("any", "all") else 5)]
        x = drawn(draw, tuple(int(size) for size in draw.integers(1, 5, draw.integers(0, 4))), dtype)
        axis = None if draw.random() < 0.3 or x.ndim == 0 else int(draw.integers(-x.ndim, x.ndim))
        keepdims = bool(draw.random() < 0.5)
        agree(getattr(tnp, name)(tensor(x), axis=axis, keepdims=keepdims), getattr(numpy, name)(x, axis=axis, keepdims=keepdims))


def test_views_share_memory_and_order_is_kept():
    x = tnp.zeros((200, 200), dtype=tnp.float32)
    expected = numpy.zeros((200, 200), numpy.float32)
    draw = numpy.random.default_rng(5)
    for _ in range(200):  # large enough for the engine
        rows, columns = (slice(*sorted(int(i) for i in draw.integers(0, 200, 2))) for _ in range(2))
        kind = draw.integers(0, 3)
        if kind == 0:
            x[rows, columns] += 1
            expected[rows, columns] += 1
        elif kind == 1:
            x.T[columns, rows] *= 2
            expected.T[columns, rows] *= 2
        else:
            x[...] = x[::-1, ::-1]
            expected[...] = expected[::-1, ::-1].copy()
    agree(x, expected, exact=True)


def test_linear_algebra():
    draw = numpy.random.default_rng(6)
    for dtype in ("float64", "complex128"):
        a = drawn(draw, (3, 5, 4), dtype)
        u, s, vh = tnp.linalg.svd(tensor(a), full_matrices=False)
        agree(tnp.matmul(u * s[:, None, :], vh), a)
        agree(s, numpy.linalg.svd(a, compute_uv=False))
        q, r = tnp.linalg.qr(tensor(a))
        agree(tnp.matmul(q, r), a)
        square = drawn(draw, (2, 4, 4), dtype)
        hermitian = square + numpy.conj(numpy.swapaxes(square, -1, -2))
        agree(tnp.linalg.eigvalsh(tensor(hermitian)), numpy.linalg.eigvalsh(hermitian))
        agree(tnp.linalg.det(tensor(square)), numpy.linalg.det(square))
        agree(tnp.matmul(tnp.linalg.inv(tensor(square)), tensor(square)), numpy.broadcast_to(numpy.eye(4), (2, 4, 4)).astype(dtype))
        for n in (1, 7, 12, 67, 134):
            line = drawn(draw, (2, n), dtype)
            agree(tnp.fft.fft(tensor(line)) / n, numpy.fft.fft(line) / n)


def test_linear_algebra_of_integers_is_in_float64():
    square = numpy.asarray([[2, 0, 1], [1, 4, -1], [0, 3, 5]])
    ours = tensor(square)
    for name in ("inv", "det", "pinv"):
        agree(getattr(tnp.linalg, name)(ours), getattr(numpy.linalg, name)(square))
    agree(tnp.linalg.solve(ours, ours[0]), numpy.linalg.solve(square, square[0]))
    agree(tnp.linalg.svdvals(ours), numpy.linalg.svd(square, compute_uv=False))
    agree(tnp.matmul(*tnp.linalg.qr(ours)), square.astype("float64"))
    agree(tnp.linalg.matrix_power(ours, -2), numpy.linalg.matrix_power(square, -2))
    agree(tnp.linalg.cholesky(ours @ ours.T), numpy.linalg.cholesky(square @ square.T))
    for order in (0, 1, 2, 3, numpy.inf):
        agree(tnp.linalg.vector_norm(ours, axis=0, ord=order), numpy.linalg.norm(square, axis=0, ord=order))


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-160, 1e160, 1e300])
def test_singular_values_of_any_magnitude(scale):
    x = numpy.random.default_rng(8).standard_normal((5, 3))
    x[:, 2] = x[:, 0] + x[:, 1]
    for values in (x * scale, x.T * scale, x * scale * (1 - 2j)):
        theirs = numpy.linalg.svd(values, compute_uv=False) / scale
        agree(tnp.linalg.svdvals(tensor(values)) / scale, theirs)
        assert tnp.linalg.matrix_rank(tensor(values)).item() == 2


def test_means_and_variances():
    for dtype in ("float16", "bfloat16"):
        x = tnp.astype(tnp.asarray([100.0, 102.0] * 2500), getattr(tnp, dtype))
        assert [f(x).item() for f in (tnp.mean, tnp.var, tnp.std)] == [101, 1, 1]
        assert tnp.mean(x).dtype is tnp.var(x).dtype is x.dtype
    x = drawn(numpy.random.default_rng(9), (4, 5), "complex128")
    agree(tnp.var(tensor(x), axis=1, correction=1), numpy.var(x, axis=1, ddof=1))
    agree(tnp.std(tensor(x)), numpy.std(x))


def test_arange_to_the_end_of_a_type():
    for first, last, step in ((2**63 - 2, 2**63 + 3, 1), (2**64 - 5, 2**64, 2), (2**63 + 5, 3, -(2**62)), (0, 2**64, 2**63)):
        agree(tnp.arange(first, last, step, dtype=tnp.uint64), numpy.asarray(range(first, last, step), "uint64"))
    assert tnp.arange(2**63, 2**63 + 2).dtype is tnp.uint64
    agree(tnp.arange(-(2**63), -(2**63) + 3), numpy.arange(-(2**63), -(2**63) + 3))


def test_arrays_of_numpy_are_indices():
    x = numpy.arange(12.0).reshape(3, 4)
    for index in (numpy.asarray([2, 0]), x[:, 1] > 2, x > 5, (slice(None), numpy.asarray([], int)), numpy.int64(1), numpy.asarray(2)):
        ours, theirs = tensor(x), x.copy()
        agree(ours[index], theirs[index], exact=True)
        ours[index] = theirs[index] = -1
        agree(ours, theirs, exact=True)


def test_exchange_shares_memory():
    x = numpy.arange(12, dtype="float32").reshape(3, 4)
    ours = tnp.from_dlpack(x)
    ours[1, 2] = 99
    assert x[1, 2] == 99
    back = numpy.from_dlpack(ours)
    back[0, 0] = 7
    assert ours[0, 0] == 7
    assert numpy.shares_memory(ours.numpy(), x)
    assert (numpy.asarray(ours[:, ::2]) == x[:, ::2]).all()
    assert memoryview(ours).shape == (3, 4)


def test_memory_that_may_only_be_read_is_not_handed_out_for_writing():
    values = numpy.arange(3.0)
    values.flags.writeable = False
    ours = _eager.from_dlpack(values.__dlpack__(max_version=(1, 1)))
    with pytest.raises(BufferError, match="only be read"):
        ours.__dlpack__()
    assert not numpy.from_dlpack(ours).flags.writeable
    copied = _eager.from_dlpack(ours.__dlpack__(copy=True))
    copied[0] = 5
    assert values[0] == 0 and copied[0] == 5


def test_shared_memory_is_read_and_written_before_a_call_returns():
    a = numpy.ones((300, 300))  # large enough for the engine
    t, other = tnp.asarray(a), tnp.asarray(a)
    for i in range(20):
        a[:] = i
        y = tnp.exp(t) * 0 + t + 1
        a[:] = -1
        assert (y.numpy() == i + 1).all()
        t += 3
        assert (a == 2).all()
        other[...] = tnp.ones(t.shape) * i
        assert (a == i).all() and ((t + 0).numpy() == i).all()
    x = tnp.zeros((300, 300))
    view = x.numpy()
    x += 1
    assert (view == 1).all()
    del view
    x += 1  # by the engine again
    assert (x.numpy() == 2).all()


def test_long_evaluations_let_other_threads_go_on():
    most, rounds, stop = 300, 0, False
    begun, t = threading.Event(), tnp.asarray(numpy.random.default_rng(8).standard_normal((30, 30)))

    def decompose():
        nonlocal rounds
        begun.set()
        while rounds < most and not stop:
            tnp.linalg.svdvals(t)
            rounds += 1

    thread = threading.Thread(target=decompose)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # a thread goes on only where another lets go
    try:
        thread.start()
        begun.wait()
        stop = True
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert rounds < most


def test_memory_goes_with_its_last_view():
    class Owner(numpy.ndarray):
        pass

    x = numpy.zeros(1000).view(Owner)
    alive = weakref.ref(x)
    ours = tnp.from_dlpack(x)[3:]
    del x
    gc.collect()
    assert alive() is not None
    del ours
    gc.collect()
    assert alive() is None


def test_copies_pickles_and_prints():
    for dtype in TYPES + ["float16", "bfloat16"]:
        x = tnp.astype(tnp.asarray([[0, 1], [2, 3]]), getattr(tnp, dtype))
        for other in (pickle.loads(pickle.dumps(x.T)), copy.deepcopy(x.T)):
            assert other.dtype is x.dtype and other.tolist() == x.T.tolist()
    assert repr(tnp.asarray([1.5, 2.0], dtype=tnp.float32)) == "Tensor([1.5, 2. ], dtype=float32)"


def test_random_streams_are_their_state():
    a, b = tnp.random.Generator(7), tnp.random.Generator(7)
    first = a.normal((1000,))
    assert (b.normal((400,)).tolist() + b.normal((600,)).tolist()) == first.tolist()
    resumed = tnp.random.Generator(*a.state)
    assert resumed.uniform((5,)).tolist() == a.uniform((5,)).tolist()
    assert abs(float(tnp.mean(first))) < 0.15 and abs(float(tnp.std(first)) - 1) < 0.1
    for dtype in (tnp.float16, tnp.bfloat16):
        assert float(tnp.max(a.uniform((20000,), dtype=dtype))) < 1
    left, right = a.split()
    assert left.uniform((4,)).tolist() != right.uniform((4,)).tolist()


def huge(*shape):
    return tnp.broadcast_to(tnp.asarray(0), shape)


def endless():
    values = []
    values.append(values)
    return values


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: tnp.ones(3) + tnp.ones(4), ValueError, "shapes 3 and 4"),
        (lambda: tnp.ones((2, 3))[2, 0], IndexError, "index 2 is out of range for axis 0, which has size 2"),
        (lambda: tnp.asarray([[1], [2, 3]]), ValueError, "nested unevenly"),
        (lambda: tnp.ones(3, dtype=tnp.uint8) + 300, OverflowError, "range of u8"),
        (lambda: tnp.ones((2, 2)).reshape(3, 2), ValueError, "shape 2x2"),
        (lambda: tnp.linalg.inv(tnp.zeros((2, 2))), ValueError, "singular"),
        (lambda: tnp.matmul(tnp.ones((2, 3)), tnp.ones((2, 3))), ValueError, "columns"),
        (lambda: tnp.ones((60, 60), dtype=tnp.bool) @ tnp.ones((60, 60), dtype=tnp.bool), TypeError, "booleans have no product"),
        (lambda: tnp.asarray([float("nan")], dtype=tnp.int32), ValueError, "NaN"),
        (lambda: tnp.asarray([1e300], dtype=tnp.int32), OverflowError, "range of i32"),
        (lambda: tnp.full((), -1.5, dtype=tnp.uint8), OverflowError, "range of u8"),
        (lambda: tnp.arange(300, dtype=tnp.uint8), OverflowError, "range of uint8"),
        (lambda: tnp.ones(1) < 1j, TypeError, "c128"),
        (lambda: tnp.ones(3)[endless()], ValueError, "64 deep"),
        (lambda: tnp.asarray(endless()), ValueError, "64 deep"),
        (lambda: tnp.asarray([1.0, tnp.ones(3)]), ValueError, "one shape"),
        (lambda: tnp.broadcast_to(tnp.ones(1), (2**40, 2**40)), ValueError, "does not broadcast"),
        (lambda: tnp.broadcast_to(tnp.ones(()), (2, -1)), ValueError, "does not broadcast"),
        (lambda: tnp.ones(3)[huge(2**47)], MemoryError, "positions of an index"),
        (lambda: tnp.ones((3, 3))[huge(2**33, 1), huge(1, 2**33)], MemoryError, "positions of an index"),
        (lambda: tnp.broadcast_to(tnp.ones(()), (2**47,))[tnp.broadcast_to(tnp.asarray(True), (2**47,))], MemoryError, "positions"),
    ],
)
def test_mistakes_are_told(call, error, words):
    with pytest.raises(error, match=words):
        call().item()


def test_loops_that_read_nothing_stay_in_memory():
    program = """
import resource, tensmith.numpy as tnp
tnp.zeros(1 << 20).wait()
used = 4096 * int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29),) * 2)
for _ in range(120):  # 3 GB
    x = tnp.zeros(1 << 20)
    y = tnp.asarray(x, copy=True)
    z = tnp.concat([x])
assert float(z[-1]) == 0
"""
    environment = {**os.environ, "TENSMITH_EAGER_KERNELS": "off", "TENSMITH_ENGINE_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=300)


# Breaks if the process asks for its kernels at its first operation: a test that evaluates its graphs would take them from all that follow.
def test_kernels_do_not_hang_on_the_first_operation():
    program = """
import os, tensmith.numpy as tnp
from tensmith import _eager
os.environ["TENSMITH_EAGER_KERNELS"] = "off"
x = tnp.tanh(tnp.ones((300, 300), dtype=tnp.float32) * 0.5)
assert float(x[0, 0]) > 0.4
_eager.finish()
assert sum(_eager.kernel_statistics().values()) > 0
"""
    environment = {name: value for name, value in os.environ.items() if name != "TENSMITH_EAGER_KERNELS"}
    subprocess.run([sys.executable, "-c", program], env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True, timeout=300)


def test_a_fork_waits_for_operations_and_its_child_goes_on():
    program = """
import os, tensmith.numpy as tnp
x = tnp.ones((300, 300))
for _ in range(30):
    y = tnp.tanh(tnp.matmul(x, x) * 1e-3) + 1
child = os.fork()
z = tnp.sum(tnp.matmul(y, x) + y)
assert float(z) > 0
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    environment = {**os.environ, "TENSMITH_ENGINE_THREADS": "4", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=300)


PROGRAM = """
import json, tensmith.numpy as tnp
from tensmith import _eager
rng = tnp.random.Generator(3)
a = [tnp.astype(rng.normal((90, 90)), tnp.float32) for _ in range(6)]
for i in range(60):
    k = i % 6
    a[k] = tnp.tanh(tnp.matmul(a[k], a[(k + 1) % 6]) * 0.01) + a[(k + 2) % 6]
    a[(k + 3) % 6][::2] -= a[k][1::2]
_eager.finish()
print(json.dumps([x.numpy().tobytes().hex() for x in a]))
"""


def test_any_engine_gives_the_same_bits():
    results = set()
    for settings in ({"TENSMITH_ENGINE": "naive"}, {"TENSMITH_ENGINE_THREADS": "1"}, {"TENSMITH_ENGINE_THREADS": "5"}):
        environment = {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
        results.add(tuple(json.loads(done.stdout)))
    assert len(results) == 1
