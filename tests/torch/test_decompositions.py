"""Operators that PyTorch does not take apart, or whose ways back it doesn't: answers and gradients are eager's.

Breaks if a window, a weight or a border is another one than PyTorch's.
"""

import copy

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
pytest.importorskip("tensmith", reason="the Python package is not built")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import tensmith.torch  # noqa: E402


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def resized(mode, **settings):
    return Function(lambda x: functional.interpolate(x, mode=mode, antialias=True, **settings))


PICTURE = ((2, 3, 7, 10),)
BASE = torch.arange(6.0)
CASES = {
    "borders 1d": (nn.ReplicationPad1d((2, 1)), ((2, 3, 4),)),
    "borders 2d": (nn.ReplicationPad2d((0, 3, 2, 1)), PICTURE),
    "borders 3d": (nn.ReplicationPad3d((1, 0, 2, 2, 1, 3)), ((1, 2, 3, 1, 4),)),
    "borders cut off": (nn.ReplicationPad2d((-1, 2, 1, -2)), PICTURE),
    "smaller": (resized("bilinear", size=(3, 4)), PICTURE),
    "larger": (resized("bilinear", size=(9, 21)), PICTURE),
    "aligned": (resized("bilinear", size=(4, 15), align_corners=True), PICTURE),
    "by a factor": (resized("bilinear", scale_factor=0.6, recompute_scale_factor=False), PICTURE),
    "cubic, smaller": (resized("bicubic", size=(3, 4)), PICTURE),
    "cubic, larger": (resized("bicubic", size=(9, 13)), PICTURE),
    "bilinear form": (nn.Bilinear(5, 6, 3), ((4, 5), (4, 6))),
    "bags, summed": (nn.EmbeddingBag(10, 4, mode="sum"), None),
    "bags, in the mean": (nn.EmbeddingBag(10, 4, mode="mean"), None),
}


@pytest.mark.parametrize("name", CASES)
def test_as_eager(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSMITH_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(0)
    torch._dynamo.reset()
    net, shapes = CASES[name]
    other = copy.deepcopy(net)

    def results(net, call):
        if shapes is None:
            inputs, given = [], (torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4]))
        else:
            inputs = given = [torch.linspace(-1, 1, torch.Size(shape).numel()).cos().reshape(shape).flip(-1).requires_grad_() for shape in shapes]
        y = call(*given)
        weights = torch.linspace(1, 2, y.numel()).reshape(y.shape)
        return [y.detach(), *torch.autograd.grad((y * weights).sum(), [*inputs, *net.parameters()])]

    for given, wanted in zip(results(net, torch.compile(net, backend=tensmith.torch.backend)), results(other, other), strict=True):
        torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-4)


PLACES = {
    "from the tensor's start": lambda: (lambda x, y: torch.as_strided_scatter(x, y, (2,), (1,)), BASE[2:], torch.tensor([9.0, 8.0])),
    "from the memory's start": lambda: (lambda x, y: torch.as_strided_scatter(x, y, (2,), (2,), 3), BASE[2:], torch.tensor([9.0, 8.0])),
    "read from the tensor's start": lambda: (lambda x: x.as_strided((2,), (1,)) + 1, BASE[2:]),
    "none": lambda: (lambda x, y: torch.as_strided_scatter(x, y, (0,), (1,)), BASE[2:], torch.zeros(0)),
    "an empty diagonal": lambda: (lambda x, y: torch.diagonal_scatter(x, y, 3), torch.ones(3, 3), torch.zeros(0)),
    "windows of no picture": lambda: (lambda x: functional.adaptive_max_pool2d(x, (2, 2), return_indices=True), torch.zeros(0, 3, 4, 4)),
    "no windows": lambda: (lambda x: functional.adaptive_max_pool2d(x, (0, 2)), torch.zeros(2, 3, 4, 4)),
    "the middle of integers": lambda: (lambda x: (x.nanmedian(), x.nanmedian(0)), torch.tensor([3, 1, 2, 4])),
}


@pytest.mark.parametrize("name", PLACES)
def test_edges_as_eager(name, tmp_path, monkeypatch):
    """Breaks if places are counted from elsewhere than in eager, or if what has no elements is refused."""
    monkeypatch.setenv("TENSMITH_CACHE", str(tmp_path / "cache"))
    torch._dynamo.reset()
    function, *inputs = PLACES[name]()
    torch.testing.assert_close(torch.compile(function, backend=tensmith.torch.backend)(*inputs), function(*inputs), rtol=0, atol=0)


REFUSED = {
    "aten.as_strided_scatter.default": lambda: (lambda x, y: torch.as_strided_scatter(x, y, (2,), (1,), 0), {}, BASE[2:], torch.tensor([9.0, 8.0])),
    "aten.as_strided.default": lambda: (lambda x: x.as_strided((2,), (1,), 1) + 1, {}, BASE[2:]),
    "aten.median.default": lambda: (lambda x: x.median(), {"dynamic": True}, torch.ones(5)),
    "aten.nanmedian.default": lambda: (lambda x: x.nanmedian(), {"dynamic": True}, torch.ones(5)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_parts_is_refused_by_name(name):
    """Breaks if a write before a tensor's memory goes to its end, and if an operator that is left whole is read as one that isn't."""
    torch._dynamo.reset()
    function, settings, *inputs = REFUSED[name]()
    with pytest.raises(Exception, match=rf"{name}: test_decompositions.py:\d+|test_decompositions.py:\d+ \w+: {name}"):
        torch.compile(function, backend=tensmith.torch.backend, options={"fallback": False}, **settings)(*inputs)


def test_one_row_has_no_pairs():
    """Breaks if the gradient of no distance is refused, or isn't 0."""
    torch._dynamo.reset()
    x = torch.ones(1, 3, requires_grad=True)
    torch.compile(lambda x: functional.pdist(x).sum(), backend=tensmith.torch.backend)(x).backward()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("function", [lambda x: x.as_strided((2,), (1,), 3) + 1, lambda x: torch.as_strided_scatter(x, x[:2], (2,), (1,), 3)])
def test_places_in_memory_hold_for_inputs_that_lie_there(function):
    """Breaks if an offset of the example's memory is taken for one of an input that starts elsewhere in its own."""
    torch._dynamo.reset()
    fast = torch.compile(function, backend=tensmith.torch.backend)
    torch.testing.assert_close(fast(BASE[2:]), function(BASE[2:]), rtol=0, atol=0)
    with pytest.raises(Exception, match="starts at the element 1 of its memory"):
        fast(BASE[1:5])
