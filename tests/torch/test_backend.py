"""torch.compile(backend=tensmith.torch.backend): answers, gradients and training as PyTorch's own, and one compilation for all sizes."""

import copy

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch import nn  # noqa: E402

import tensmith.torch  # noqa: E402
from tensmith.torch import graphs  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    torch.manual_seed(0)
    torch._dynamo.reset()
    monkeypatch.setenv("TENSMITH_CACHE", str(tmp_path / "cache"))


def compiled(net, **options):
    return torch.compile(net, backend=tensmith.torch.backend, **options)


def test_inference_gives_torch_tensors():
    net, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(3, 8)
    with torch.no_grad():
        y = compiled(net)(x)
        assert type(y) is torch.Tensor
        torch.testing.assert_close(y, net(x), rtol=1e-4, atol=1e-4)


def test_sizes_are_open():
    net, made = nn.Sequential(nn.Linear(8, 4), nn.Softmax(1)), []
    original = graphs.CompiledGraph.__init__

    def counted(self, *arguments):
        made.append(self)
        original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(graphs.CompiledGraph, "__init__", counted)
        fast = compiled(net, dynamic=True)
        for batch in range(2, 12):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
    assert len(made) == 1


def test_open_numbers_are_sizes():
    fast, x = compiled(lambda x, number: x + number, dynamic=True), torch.randn(4)
    torch.testing.assert_close(fast(x, 5), x + 5)
    with pytest.raises(ts.Error, match="is -3, which can't be a size, .*dynamic=False"):
        fast(x, -3)


def test_graphs_break_and_go_on():
    def function(x):
        y = x.exp()
        if y.sum().item() > 0:
            return y * 2
        return y - 1

    x = torch.randn(4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-4, atol=1e-4)


def gradients(net, call, *inputs):
    net.zero_grad()
    call(*inputs).square().mean().backward()
    return [parameter.grad.clone() for parameter in net.parameters()]


NETS = {
    "normalised": lambda: (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)), torch.randn(5, 8)),
    "convolutions": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=4),
                      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 9, 4)), torch.randn(2, 3, 16, 16)),
    "attention": lambda: (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), torch.randn(2, 5, 16)),
    "embedding": lambda: (nn.Sequential(nn.Embedding(10, 6), nn.Flatten(), nn.Linear(24, 3)), torch.randint(0, 10, (2, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_gradients(name):
    net, x = NETS[name]()
    other = copy.deepcopy(net)
    given, wanted = gradients(net, compiled(net), x), gradients(other, other, x)
    for a, b in zip(given, wanted):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    for (name, a), b in zip(net.state_dict().items(), other.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4, msg=name)


def test_training_follows_eager():
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
    other = copy.deepcopy(net)
    x, target = torch.randn(16, 8), torch.randint(0, 3, (16,))

    def losses(net, call):
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
        result = []
        for _ in range(20):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(call(x), target)
            loss.backward()
            optimiser.step()
            result.append(loss.item())
        return result

    assert losses(net, compiled(net)) == pytest.approx(losses(other, other), abs=1e-5)


def test_another_process_finds_the_module():
    """The second graph is loaded: the compiler must not be called."""
    net, x = nn.Linear(8, 4), torch.randn(3, 8)
    with torch.no_grad():
        wanted = compiled(net)(x)
        torch._dynamo.reset()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(graphs._tensmith, "compile_bytes", lambda *_: pytest.fail("it is compiled again"))
            assert torch.equal(compiled(net)(x), wanted)


def test_unknown_options_are_told():
    with torch.no_grad(), pytest.raises(Exception, match="there is no option 'speed'"):
        compiled(nn.Linear(2, 2), options={"speed": 11})(torch.randn(1, 2))
