"""Graphs of which PyTorch runs some operators: answers and gradients are eager's, what is compiled stays compiled, and a warning names the rest.

Breaks if one operator without a function refuses a whole graph, if parts get other values or sizes than the whole, or if nothing is told.
"""

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch import nn  # noqa: E402

import tensmith.torch  # noqa: E402
from tensmith.torch import graphs  # noqa: E402


def compiled(function, **options):
    return torch.compile(function, backend=tensmith.torch.backend, fullgraph=True, **options)


def covariance(x):
    return x.T @ x + torch.eye(8)


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: torch.linalg.inv(covariance(x)).contiguous(), lambda x: covariance(x).contiguous(), (x,)) + 1


def sizes_of_parts(x):
    y = torch.linalg.qr(x)[0] * 2
    return torch.linalg.svdvals(y @ y.T + x @ x.T).sum() + y.sum() * x.shape[0], y.reshape(-1)


class Mixing(nn.Module):
    """As FNet mixes places and features."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.after(torch.fft.fft2(self.before(x).relu()).real)


FUNCTIONS = {
    "a transform": (lambda: lambda x: torch.fft.rfft(x.sin()).abs() * 2 + 1, "aten._fft_r2c.default"),
    "transforms of transforms": (lambda: lambda x: torch.fft.irfft(torch.fft.rfft(x * 2) * torch.fft.rfft(x.cos())) + 1, "aten._fft_c2r.default"),
    "an inverse": (lambda: lambda x: torch.linalg.inv(covariance(x)) @ x.T + 1, "aten.linalg_inv_ex.default"),
    "a root": (lambda: lambda x: torch.linalg.cholesky(covariance(x)).tanh(), "aten.linalg_cholesky_ex.default"),
    "a model": (Mixing, "aten._fft_c2c.default"),
    "joined": (lambda: lambda x: (torch.fft.rfft(torch.cat([x, x]).sin()).abs() * 2).sum(0) + x.shape[1] * 2, "aten._fft_r2c.default"),
    "complex numbers": (lambda: lambda x: torch.view_as_real((x + 1j) * 2) + 1, "aten.view_as_real.default"),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_answers_and_gradients(name, dynamic):
    make, operator = FUNCTIONS[name]
    function, x = make(), torch.randn(4, 8)
    with pytest.warns(UserWarning, match=rf"PyTorch runs operators that can't be compiled(.|\n)*{operator}: test_parts.py:\d+"):
        given = results(compiled(function, dynamic=dynamic), x)
    torch.testing.assert_close(given, results(function, x), rtol=1e-4, atol=1e-4)


def results(function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    y.sum().backward()
    return y.detach(), x.grad


INFERENCE = {
    "parts whose sizes are neither's": (sizes_of_parts, {}),
    "open parts": (sizes_of_parts, {"dynamic": True}),
    "a branch": (branches, {}),
    "PyTorch's alone": (torch.fft.fft, {}),
    "the middle of an open row": (lambda x: x.flatten().median() * 2 + x, {"dynamic": True}),
    "memory beyond a tensor": (lambda x: torch.linalg.inv(x.as_strided((3, 3), (5, 1), 2)) + 1, {}),
    "constants": (Mixing(), {"options": {"constants": True}}),
    "a write": (lambda x: (y := x * 2, y[0].fill_(torch.linalg.svdvals(y)[0]), y.exp())[2], {}),
}


@pytest.mark.filterwarnings("ignore:PyTorch runs operators")
@pytest.mark.parametrize("name", INFERENCE)
def test_inference(name):
    (function, settings), x = INFERENCE[name], torch.randn(4, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(function, **settings)(x), function(x), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:PyTorch runs operators")
@pytest.mark.parametrize("function", [lambda x: x.relu().nonzero() * 2 + 1, lambda x: x[x > 0].exp().sum() * 2, lambda x: torch.unique(x.round()) * 2])
def test_sizes_that_data_decide(function):
    """Where PyTorch keeps them in the graph."""
    fast = compiled(function)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for _ in range(3):
            x = torch.randn(4, 8)
            torch.testing.assert_close(fast(x), function(x), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:PyTorch runs operators")
def test_numbers_are_drawn_in_the_program_s_order():
    def function(x):
        return nn.functional.dropout(torch.linalg.inv(covariance(nn.functional.dropout(x))), 0.5)

    def drawn(x):  # by PyTorch first, of which the other doesn't take anything
        return torch.multinomial(x.softmax(1), 2), torch.rand(3), torch.normal(x, 1.0), nn.functional.dropout(x)

    x = torch.randn(4, 8)
    for each in (function, drawn):
        fast = compiled(each)
        for seed in range(3):
            given, wanted = (torch.manual_seed(seed) and called(x) for called in (fast, each))
            torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:PyTorch runs operators")
def test_what_can_be_is_compiled(monkeypatch):
    """Breaks if there are more parts than what PyTorch runs needs, or none."""
    made, original = [], graphs.CompiledGraph.__init__
    monkeypatch.setattr(graphs.CompiledGraph, "__init__", lambda self, *given: (made.append(given[0]), original(self, *given))[1])
    with torch.no_grad():
        compiled(lambda x: torch.linalg.inv(covariance(x)) @ torch.linalg.inv(covariance(x.exp())) + x.sum())(torch.randn(4, 8))
    assert len(made) == 2


@pytest.mark.filterwarnings("ignore:PyTorch runs operators")
def test_a_graph_is_cut_once(monkeypatch):
    """Breaks if it is lowered again for each operator that turns out not to be compilable, or compiled before all are known."""
    splits, made, split, kept = [], [], graphs.parts.split, graphs._kept
    monkeypatch.setattr(graphs.parts, "split", lambda *given: (splits.append(given), split(*given))[1])
    monkeypatch.setattr(graphs, "_kept", lambda *given: (made.append(given), kept(*given))[1])

    def function(x):
        for _ in range(3):
            x = torch.fft.fft(x.sin()).abs() + nn.functional.interpolate(x[None], scale_factor=0.3).amax()  # known to be missing, and refused as it is lowered
        return x

    x = torch.randn(4, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(function, dynamic=True)(x), function(x), rtol=1e-4, atol=1e-4)
    assert (len(splits), len(made)) == (2, 4)


@pytest.mark.parametrize("function", [lambda x: x[1:].as_strided((2,), (1,), 1) + 1, lambda x: torch.as_strided_scatter(x + 1, x[0, :2], (2,), (9,), 30)])
def test_memory_that_only_eager_has_is_refused(function):
    """Breaks if PyTorch reads or writes it where a part's result lies."""
    with pytest.raises(Exception, match=r"as_strided(.|\n)*it takes the memory of a tensor that is computed"):
        compiled(function)(torch.randn(4, 8))


def test_without_fallback_it_is_refused():
    with pytest.raises(Exception, match=r"operators that can't be compiled(.|\n)*aten._fft_r2c.default: test_parts.py:\d+"):
        compiled(lambda x: torch.fft.rfft(x), options={"fallback": False})(torch.randn(4))
