"""Tensors and NumPy's arrays in one expression: either order gives a tensor, of the types that two tensors would give."""

import operator

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")

BOTH = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt, operator.ge, operator.eq, operator.matmul]
TYPES = ["int32", "float32", "float64", "complex64"]


@pytest.mark.parametrize("call", BOTH, ids=lambda call: call.__name__)
@pytest.mark.parametrize("size", [5, 20_000])
def test_either_order_gives_what_two_tensors_give(call, size):
    draw = numpy.random.default_rng(size)
    for mine, theirs in ((a, b) for a in TYPES for b in TYPES):
        if call in (operator.lt, operator.ge) and "complex64" in (mine, theirs):
            continue
        a, b = (draw.integers(1, 5, size).astype(dtype) for dtype in (mine, theirs))
        expected = call(tnp.asarray(a), tnp.asarray(b))
        for result in (call(tnp.asarray(a), b), call(a, tnp.asarray(b))):
            assert isinstance(result, tnp.Tensor) and result.dtype is expected.dtype and result.shape == expected.shape
            assert result.numpy().tobytes() == expected.numpy().tobytes()


def test_functions_and_numbers_of_numpy():
    x = tnp.ones(3, dtype=tnp.float32)
    assert tnp.add(x, numpy.arange(3)).tolist() == [1, 2, 3] and tnp.add(numpy.arange(3), x).tolist() == [1, 2, 3]
    assert tnp.where(numpy.asarray([True, False, True]), x, numpy.float32(5)).tolist() == [1, 5, 1]
    for result in (x + numpy.float64(2), numpy.float64(2) + x, x * numpy.float32(3), numpy.float32(3) * x):
        assert isinstance(result, tnp.Tensor) and result.dtype is tnp.float32  # float64 is a Python float too
    assert (x + numpy.int64(2)).dtype is (x + tnp.asarray(2)).dtype
    x += numpy.asarray([1, 2, 3], numpy.float32)
    assert x.tolist() == [2, 3, 4]
    assert x[numpy.asarray([2, 0])].tolist() == [4, 2] and x[numpy.asarray([True, False, True])].tolist() == [2, 4]
    assert x[numpy.int64(1)] == 3
    assert (numpy.sin(x) == numpy.sin(x.numpy())).all()  # NumPy's functions give NumPy's arrays


def test_what_is_issued_reads_the_array_as_it_was():
    for _ in range(20):
        given = numpy.ones(300_000, numpy.float32)
        busy = tnp.exp(tnp.ones((600, 600), dtype=tnp.float32))  # so that what follows has to wait
        total, target, copy = busy[0, 0] * 0 + given, tnp.zeros(300_000, dtype=tnp.float32), tnp.asarray(given, copy=True)
        target[:] = given
        given[:] = 7
        assert float(tnp.max(total)) == float(tnp.max(target)) == float(tnp.max(copy)) == 1


@pytest.mark.parametrize(
    "other, words",
    [
        (numpy.asarray(["a"]), "elements of type"),
        (numpy.asarray([None]), "elements of type object"),
        (numpy.ma.masked_array([1.0], [True]), "a MaskedArray can't be an operand beside a tensor"),
        ([1.0], "unsupported operand|can only concatenate list"),
    ],
)
def test_others_are_refused(other, words):
    x = tnp.ones(1)
    with pytest.raises(TypeError, match=words):
        x + other
    with pytest.raises(TypeError, match=words):
        other + x


def test_a_decomposition_of_what_is_not_finite_is_nan():
    for dtype in (tnp.float32, tnp.float64, tnp.complex128):
        for bad in (numpy.nan, numpy.inf):
            stack = tnp.asarray(numpy.random.default_rng(0).standard_normal((2, 3, 3)), dtype=dtype)
            good = stack[0]
            stack[1, 2, 0] = bad
            for ours, alone in zip(tnp.linalg.svd(stack), tnp.linalg.svd(good)):
                assert bool(tnp.all(tnp.isnan(ours[1]))) and ours[0].tolist() == alone.tolist()
            for ours, alone in zip(tnp.linalg.eigh(stack), tnp.linalg.eigh(good)):
                assert bool(tnp.all(tnp.isnan(ours[1]))) and ours[0].tolist() == alone.tolist()
            assert bool(tnp.all(tnp.isnan(tnp.linalg.pinv(stack)[1])))
            with pytest.raises(ValueError, match="not finite"):
                tnp.linalg.matrix_rank(stack)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_singular_values_of_any_size(scale):
    a = numpy.random.default_rng(1).standard_normal((5, 4))
    u, s, vh = tnp.linalg.svd(tnp.asarray(a * scale), full_matrices=False)
    numpy.testing.assert_allclose(s.numpy() / scale, numpy.linalg.svd(a, compute_uv=False), rtol=1e-13)
    numpy.testing.assert_allclose((u.numpy() * (s.numpy() / scale)) @ vh.numpy(), a, atol=1e-13)
