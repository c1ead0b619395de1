"""Indices that eager refuses are refused, with the line of the model; numbers that open sizes decide reach the way back."""

import math

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch.nn import functional as F  # noqa: E402

import tensmith.torch  # noqa: E402


def compiled(function, **options):
    return torch.compile(function, backend=tensmith.torch.backend, **options)


READERS = {
    "classes": lambda x, i: F.cross_entropy(x, i, ignore_index=-100),
    "embedding": lambda x, i: F.embedding(i, x),
    "bag": lambda x, i: F.embedding_bag(i[None], x, mode="sum"),
    "gather": lambda x, i: x.gather(1, i[:, None]),
    "index_select": lambda x, i: x.index_select(1, i),
    "scatter": lambda x, i: x.scatter(1, i[:, None], 1.0),
    "scatter_add": lambda x, i: x.scatter_add(1, i[:, None], x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(1, i[:, None], x, "amax"),
    "index_add": lambda x, i: x.index_add(1, i, x),
    "index_copy": lambda x, i: x.index_copy(1, i, x),
    "index_reduce": lambda x, i: x.index_reduce(1, i, x, "amax"),
    "index": lambda x, i: x[:, i],  # which counts from the end, in eager too
    "index_fill": lambda x, i: x.index_fill(1, i, 2.0),
    "take": lambda x, i: x.take(i),
}


def outcome(call, *arguments):
    try:
        return call(*arguments)
    except (IndexError, RuntimeError, ts.Error) as error:
        return error


@pytest.mark.parametrize("name", READERS)
def test_indices_are_refused_where_eager_refuses_them(name):
    """Breaks if an operator counts an index from the end where eager doesn't, or refuses one that eager takes; and if the line isn't told."""
    function, x = READERS[name], torch.randn(5, 5)
    fast = compiled(function)
    for wrong in (None, -1, -5, -6, -(2**40), 5, 2**40):
        for kind in (torch.int64, torch.int32) if name in ("embedding", "index_select") and abs(wrong or 0) < 2**31 else (torch.int64,):
            indices = torch.randperm(5)
            if wrong is not None:
                indices[torch.randint(0, 5, ())] = wrong
            wanted, given = outcome(function, x, indices.to(kind)), outcome(fast, x, indices.to(kind))
            if isinstance(wanted, Exception):
                assert isinstance(given, ts.Error), (wrong, wanted)
                told = "a negative number" if wrong < 0 and name not in ("index", "index_fill", "take") else str(wrong)
                assert "test_indices_and_numbers.py:" in str(given) and f"holds {told}" in str(given), given
            else:
                torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-5)


def test_ignored_classes_are_no_indices():
    """Breaks if a class that is ignored is refused for its sign."""
    x, target = torch.randn(4, 3, requires_grad=True), torch.tensor([0, -1, 2, -1])
    for ignored in (-1, -100):
        call = compiled(lambda x, t, ignored=ignored: F.cross_entropy(x, t, ignore_index=ignored))
        if ignored == -1:
            wanted, = torch.autograd.grad(F.cross_entropy(x, target, ignore_index=-1), x)
            torch.testing.assert_close(torch.autograd.grad(call(x, target), x)[0], wanted, rtol=1e-5, atol=1e-6)
        else:
            assert isinstance(outcome(call, x, target), ts.Error)


NUMBERS = {
    "linear": lambda x: F.interpolate(x, size=(3, 5), mode="bilinear", antialias=True),
    "aligned": lambda x: F.interpolate(x, size=(3, 5), mode="bicubic", antialias=True, align_corners=True),
    "half": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
    "more": lambda x: F.interpolate(x, scale_factor=1.75, mode="bilinear", antialias=True),
    "smoothed": lambda x: F.cross_entropy(x.flatten(1), x.argmax(2).flatten(1)[:, 0] * 0, label_smoothing=0.1),
    "scaled": lambda x: x * (x.shape[2] ** 0.5 + 3 / x.shape[3]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_gradients_by_numbers_of_open_sizes(name):
    """Breaks if a number stays that of the first size, or is none on the way back."""
    function = NUMBERS[name]
    fast = compiled(function, dynamic=True)
    for height, width in ((7, 8), (8, 6), (2, 9), (12, 4)):
        x = torch.randn(2, 3, height, width, requires_grad=True)
        wanted, given = function(x), fast(x)
        weights = torch.linspace(1, 2, wanted.numel()).reshape(wanted.shape)
        torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-5)
        gradients = [torch.autograd.grad((y * weights).sum(), x)[0] for y in (given, wanted)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


QUOTIENTS = {
    "number": lambda x, n: x + n // 2,
    "by a number below zero": lambda x, n: x + n // -4,
    "of what is below zero": lambda x, n: x * (-(-n // 4)) + n % 3,
    "size, up": lambda x, n: x * -(-x.shape[0] // 4),
    "rounded down": lambda x, n: x + math.floor(n * 0.75),
    "cut off": lambda x, n: x + int(n * 0.75) + int(-n * 0.75),
    "dimension": lambda x, n: x.new_ones(-(-x.shape[0] // 4)) * x.sum(),
    "dimension, cut off": lambda x, n: x.new_ones(5 + int((x.shape[0] - 2) * 0.5)) * x.sum(),
    "dimension, rounded down": lambda x, n: x.new_ones(10 + math.floor(-x.shape[0] * 0.5)) * x.sum(),
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_are_rounded_as_in_eager(name):
    """Breaks if a quotient of what may be below zero is rounded towards zero where Python rounds down, or the other way about."""
    function = QUOTIENTS[name]
    fast = compiled(function, dynamic=True)
    for size, number in ((5, 5), (7, -3), (8, -7), (9, 8), (10, -8)):
        x = torch.ones(size)
        torch.testing.assert_close(fast(x, number), function(x, number))


def test_a_dimension_cut_off_below_zero_is_refused():
    """Breaks if it is rounded down, as dimensions are."""
    with pytest.raises(Exception, match=r"the size TruncToInt\(.*\) has no form in the graph"):
        compiled(lambda x: x.new_ones(10 + int(-x.shape[0] * 0.5)) + x.sum(), dynamic=True, options={"fallback": False})(torch.ones(5))


def test_numbers_beyond_64_bits_are_refused_by_name():
    """Breaks if PyTorch's error comes through, which names nothing."""
    fast = compiled(lambda x, n: x + n, dynamic=True)
    fast(torch.ones(1), 3)
    with pytest.raises(ts.Error, match=r"the number '.*' is 9223372036854775808, which lies beyond torch.int64"):
        fast(torch.ones(1), 2**63)


EDGES, WIDE_EDGES = torch.tensor([0.1, 0.2]), torch.tensor([0.1, 0.2], dtype=torch.float64)
SEARCHES = {
    "number among f64": lambda: (lambda r: (torch.searchsorted(r, 0.1), torch.bucketize(0.2, r)), WIDE_EDGES),
    "number among f32": lambda: (lambda r: (torch.searchsorted(r, 0.1, right=True), torch.bucketize(0.2, r)), EDGES),
    "number among integers": lambda: (lambda r: (torch.searchsorted(r, 1.5), torch.bucketize(2, r)), torch.tensor([1, 2, 3])),
    "integer among floats": lambda: (lambda r: torch.searchsorted(r, 2**53 + 1), torch.tensor([2.0**53, 2.0**53 + 2], dtype=torch.float64)),
    "tensor without dimensions": lambda: (lambda r, x: torch.searchsorted(r, x, right=True), EDGES, torch.tensor(0.1, dtype=torch.float64)),
    "narrow without dimensions": lambda: (lambda r, x: torch.searchsorted(r, x), WIDE_EDGES, torch.tensor(0.1)),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_compare_in_the_dtype_of_eager(name):
    """Breaks if a number is rounded to f32 before it is compared, or if a tensor without dimensions widens those that it is sought among."""
    function, *inputs = SEARCHES[name]()
    torch.testing.assert_close(compiled(function)(*inputs), function(*inputs), rtol=0, atol=0)


def test_pictures_of_bytes_are_refused_by_name():
    """Breaks if what smooths bytes, with rounding of its own, is taken for that of floats."""
    picture = torch.randint(0, 255, (1, 3, 7, 7), dtype=torch.uint8)
    with pytest.raises(Exception, match=r"test_indices_and_numbers.py:\d+ _upsample_bilinear2d_aa"):
        compiled(lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True), options={"fallback": False})(picture)
