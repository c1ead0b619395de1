"""Open batch and length by both doors: one compilation answers for ten sizes, as eager does.

Breaks if an operator on the way fixes a size, if a size of another graph is taken for it, or if a new size is compiled anew.
"""

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch import nn  # noqa: E402

import tensmith.torch  # noqa: E402
from tensmith.torch import graphs  # noqa: E402

SIZES = [(2, 5), (3, 7), (4, 6), (1, 9), (7, 3), (2, 16), (5, 11), (9, 4), (3, 31), (6, 8)]  # batch and length


class Text(nn.Module):
    """Tokens to scores: positions, masked attention, and a mean over the tokens that count."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Embedding(32, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.scores = nn.Linear(16, 3)

    def forward(self, tokens, mask):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        allowed = torch.zeros(mask.shape[0], 2, mask.shape[1], mask.shape[1]).masked_fill(~mask[:, None, None, :], -1e9)
        x = self.layer(x, src_mask=allowed.flatten(0, 1))
        counts = mask[:, :, None].to(x.dtype)
        return self.scores((x * counts).sum(1) / counts.sum(1))


class Sound(nn.Module):
    """A convolution over an open length, of which its own is computed, and what is largest and in the mean."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Conv1d(4, 8, 3, stride=2, padding=1), nn.GELU(), nn.Conv1d(8, 8, 3, padding=1, groups=2))

    def forward(self, x):
        y = self.parts(x)
        return torch.cat([y.mean(2), y.amax(2)], 1), y


def text(batch, length):
    tokens = torch.randint(0, 20, (batch, length))
    return tokens, torch.arange(length) < torch.randint(1, length + 1, (batch, 1))


NETS = {"text": (Text, text), "sound": (Sound, lambda batch, length: (torch.randn(batch, 4, length),))}


@pytest.mark.parametrize("name", NETS)
def test_compiled_once(name, monkeypatch):
    kind, inputs = NETS[name]
    net, made, original = kind().eval(), [], graphs.CompiledGraph.__init__
    monkeypatch.setattr(graphs.CompiledGraph, "__init__", lambda self, *arguments: (made.append(self), original(self, *arguments))[1])
    fast = torch.compile(net, backend=tensmith.torch.backend, dynamic=True)
    with torch.no_grad():
        for size in SIZES:
            if min(size) > 1:  # PyTorch makes a graph of its own for a size of 1
                given = inputs(*size)
                torch.testing.assert_close(fast(*given), net(*given), rtol=1e-4, atol=1e-4)
    assert len(made) == 1


@pytest.mark.parametrize("name", NETS)
def test_steps_are_compiled_once(name, monkeypatch):
    """The way back too."""
    kind, inputs = NETS[name]
    net, made, original = kind(), [], graphs.CompiledGraph.__init__
    monkeypatch.setattr(graphs.CompiledGraph, "__init__", lambda self, *arguments: (made.append(self), original(self, *arguments))[1])
    fast = torch.compile(net, backend=tensmith.torch.backend, dynamic=True)

    def gradients(call, given):
        results = call(*given)
        total = sum(y.square().mean() for y in (results if isinstance(results, tuple) else (results,)))
        return torch.autograd.grad(total, list(net.parameters()))

    for size in SIZES:
        if min(size) > 1:
            given = inputs(*size)
            for a, b in zip(gradients(fast, given), gradients(net, given)):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    assert len(made) == 2


@pytest.mark.parametrize("name", NETS)
def test_exported_once(name):
    kind, inputs = NETS[name]
    net, example = kind().eval(), inputs(2, 5)
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=3, max=32)
    last = example[0].dim() - 1
    with torch.no_grad():
        model = ts.from_torch(net, example, dynamic_shapes=tuple({0: batch, last: length} for _ in example))
        for size in SIZES:
            given = inputs(*size)
            torch.testing.assert_close(model(*given), net(*given), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("shared", [1, 2])
def test_attention_of_open_width(shared, dtype, tolerance):
    """Breaks if what scores are divided by is taken for a number that is known, or is of less precision than they are."""

    def attention(q, k):
        return nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)

    fast = torch.compile(attention, backend=tensmith.torch.backend, dynamic=True)
    for batch, heads, length, width in ((2, 4, 3, 8), (3, 2, 5, 6)):
        q, k = (torch.randn(batch, each, length, width, dtype=dtype) for each in (heads, heads // shared))
        given, wanted = (torch.autograd.grad(call(q.requires_grad_(), k.requires_grad_()).square().sum(), (q, k)) for call in (fast, attention))
        torch.testing.assert_close(given, wanted, rtol=10 * tolerance, atol=tolerance)
