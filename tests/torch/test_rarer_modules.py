"""Modules of rarer kinds by both doors: answers, gradients and buffers are eager's.

`from_torch` is evaluated by the reference, `torch.compile` by kernels.

Breaks if a kind is refused, or if its rounding, its places, its hooks or its states are others than PyTorch's.
"""

import warnings

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from modules import Of, close, gradients_of, ints, of, r  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

import tensmith.torch  # noqa: E402

F = nn.functional


class Scaled(torch.autograd.Function):
    """Of several results, one of which has no gradient, and with one of its own."""

    @staticmethod
    def forward(ctx, x, y, by):
        ctx.save_for_backward(x, y)
        ctx.by = by
        is_larger = x > y
        ctx.mark_non_differentiable(is_larger)
        return x * y * by, is_larger

    @staticmethod
    def backward(ctx, gradient, _):
        x, y = ctx.saved_tensors
        return gradient * y * ctx.by, gradient * x * ctx.by * 2, None


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


class Running(nn.Module):
    """Statistics that only training writes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        y = self.layer(x)
        if self.training:
            with torch.no_grad():
                self.mean.lerp_(y.mean(0), 0.1)
                self.steps.add_(1)
        return y - self.mean


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner, self.out = nn.Embedding(9, 5), nn.Linear(5, 5), nn.Linear(5, 9, bias=False)
        self.out.weight = self.words.weight

    def forward(self, tokens):
        return self.out(self.inner(self.words(tokens)).tanh())


def packed(self, x):
    result, _ = self.layer(pack_padded_sequence(x, torch.tensor([4, 2, 1]), batch_first=True))
    return pad_packed_sequence(result, batch_first=True)[0]


def lazy():
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))
    net(r(2, 3, 6, 6))
    return net


def pruned():
    net = nn.Linear(6, 5)
    prune.l1_unstructured(net, "weight", 0.4)
    return net


def normed_by_hooks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(nn.Linear(4, 3))


def parametrized(kind):
    net = nn.Linear(4, 4)
    nn.utils.parametrize.register_parametrization(net, "weight", kind)
    return net


def hooked():
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    net[0].register_full_backward_hook(lambda module, given, of_results: (given[0] * 2,))
    return net


def hooked_tensor(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 3)
    return y.sin()


def nearest_codes(self, x):
    """Vector quantisation, whose gradient goes straight through."""
    index = torch.cdist(x, self.codes).argmin(1)
    nearest = self.codes[index]
    return x + (nearest - x).detach(), index, F.mse_loss(nearest, x.detach())


def routed(self, x):
    index, total = self.gate(x).argmax(1), torch.zeros_like(x)
    for i, expert in enumerate(self.experts):
        total = total + torch.where((index == i)[:, None], expert(x), 0.0)
    return total


def state_space(x):
    state, states = torch.zeros(x.shape[0], x.shape[2]), []
    for t in range(x.shape[1]):
        state = 0.9 * state + x[:, t]
        states.append(state)
    return torch.stack(states, 1)


def overlaps(boxes):
    areas = (boxes[:, 2] - boxes[:, 0]).clamp(min=0) * (boxes[:, 3] - boxes[:, 1]).clamp(min=0)
    sides = (torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - torch.maximum(boxes[:, None, :2], boxes[None, :, :2])).clamp(min=0)
    inner = sides.prod(-1)
    return inner / (areas[:, None] + areas[None] - inner + 1e-6)


SCALES, ZEROS = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2], dtype=torch.int32)
HALVES = torch.tensor([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]])

CASES = {
    # Modules that others change
    "lazy": lambda: (lazy(), r(2, 3, 6, 6)),
    "tied": lambda: (Tied(), ints(9, 2, 3)),
    "pruned": lambda: (pruned(), r(3, 6)),
    "weight norm by hooks": lambda: (normed_by_hooks(), r(3, 4)),
    "symmetric weights": lambda: (parametrized(Symmetric()), r(3, 4)),
    "hooks of gradients": lambda: (hooked(), r(3, 4)),
    "a hook of a tensor's gradient": lambda: (of(hooked_tensor), r(3, 4)),
    "running statistics": lambda: (Running(), r(5, 4)),
    "own gradients of several": lambda: (of(lambda x, y: Scaled.apply(x, y, 2.5)[0]), r(3, 4), r(3, 4)),
    "packed": lambda: (Of(packed, layer=nn.LSTM(5, 4, batch_first=True)), r(3, 4, 5)),
    "packed, two ways": lambda: (Of(packed, layer=nn.GRU(5, 4, bidirectional=True, batch_first=True)), r(3, 4, 5)),
    "states are given": lambda: (Of(lambda self, x, h, c: self.layer(x, (h, c)), layer=nn.LSTM(3, 4, 2, bias=False)), r(5, 2, 3), r(2, 2, 4), r(2, 2, 4)),
    "norm first": lambda: (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True, batch_first=True), 2, nn.LayerNorm(8), False), r(2, 5, 8)),
    "maps over modules": lambda: (Of(lambda self, x: torch.vmap(self.layer)(x), layer=nn.Linear(4, 3)), r(5, 2, 4)),
    "forward derivatives": lambda: (of(lambda x: torch.func.jacfwd(lambda y: y.sin() * y.sum())(x)), r(4)),
    # Quantisation
    "rounded": lambda: (of(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255)), r(3, 40)),
    "rounded by tensors": lambda: (Of(lambda self, x: torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero, -128, 127), scale=torch.tensor(0.07), zero=torch.tensor(-5, dtype=torch.int32)), r(3, 40) * 20),
    "rounded by channels": lambda: (of(lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS, 0, -8, 7)), r(3, 40)),
    "rounded with zeros between": lambda: (of(lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, torch.tensor([0.2, 1.0, 2.5]), 0, -8, 7)), r(3, 40)),
    "halves are rounded": lambda: (of(lambda x: (torch.fake_quantize_per_tensor_affine(x, 1.0, 1, -3, 3), torch.fake_quantize_per_channel_affine(x, torch.ones(1), torch.ones(1), 0, -3, 3))), HALVES),
    "nearest codes": lambda: (Of(nearest_codes, codes=nn.Parameter(r(6, 4))), r(5, 4)),
    # Places
    "written at places": lambda: (of(lambda x, i: (x.put(i, i * 1.0), torch.put(x, i, x[0], accumulate=True))), r(3, 4), torch.tensor([2, 3, 5, 1])),
    "repeated": lambda: (of(lambda x, n: (x.repeat_interleave(n, 0, output_size=6), torch.repeat_interleave(n, output_size=6))), r(4, 3), torch.tensor([1, 0, 3, 2])),
    "places that aren't zero": lambda: (of(lambda x: (torch.nonzero_static(x > 0, size=5), torch.nonzero_static(x > 9, size=2, fill_value=7), torch.nonzero_static(x, size=20))), r(3, 4)),
    "triangles": lambda: (of(lambda x: (torch.tril_indices(3, 4, 1), torch.triu_indices(4, 3), x[tuple(torch.tril_indices(3, 3))], torch.combinations(x[0]))), r(3, 3)),
    "rows of bounded length": lambda: (nn.Embedding(7, 3, max_norm=1.0), ints(7, 2, 4)),
    "rows by their number": lambda: (nn.Embedding(7, 3, scale_grad_by_freq=True), ints(7, 2, 4)),
    "routed": lambda: (Of(routed, gate=nn.Linear(4, 3), experts=nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])), r(6, 4)),
    "beams": lambda: (of(lambda x: (lambda best: (best[0], best[1] // 7, best[1] % 7))(x.log_softmax(-1).flatten(1).topk(3))), r(2, 3, 7)),
    # Arithmetic
    "state space": lambda: (of(state_space), r(2, 6, 3)),
    "overlaps": lambda: (of(overlaps), r(5, 4).cumsum(1)),
    "numbers": lambda: (of(lambda x, y: (torch.dist(x, y, 1.0), torch.dist(x, y), torch.ldexp(x, torch.tensor(3)), torch.hypot(x, y), torch.logaddexp2(x, y), torch.heaviside(x.detach(), y.detach()), torch.renorm(x, 2, 0, 1.0))), r(3, 4), r(3, 4)),
    "whole numbers": lambda: (of(lambda a, b: (a // b, a % b, torch.div(a, b, rounding_mode="trunc"), a & b, a | b, a ^ b, ~a, a << 2, a >> 1, a**2, a / b, torch.isin(a, b))), ints(20, 3, 4) - 10, ints(9, 3, 4) + 1),
    "bytes": lambda: (of(lambda a, b: (a + b, a * b, a - b, -a, a.to(torch.int8) // 3, a.sum(), a > b, (a >> 3) & 1)), ints(256, 3, 4).to(torch.uint8), ints(256, 3, 4).to(torch.uint8)),
    "truths": lambda: (of(lambda a, b: (a ^ b, ~a, a.any(1), a.all(), a.sum(0), a * b, a + b, a.cumsum(1), torch.count_nonzero(a, 1))), r(3, 4) > 0, r(3, 4) > 0),
    "truths of none": lambda: (of(lambda a: (a.any(0), a.all(0), a.any(), a.all(), (a > 0).any(0), a.any(1))), torch.zeros(0, 4, dtype=torch.uint8)),
    "leaky on the average": lambda: (nn.RReLU().eval(), r(3, 4)),
    "shares of classes": lambda: (Of(lambda self, x: self.layer.log_prob(x), layer=nn.AdaptiveLogSoftmaxWithLoss(6, 10, [3, 6])), r(4, 6)),
}  # fmt: skip

# torch.export itself refuses the first two; of the others it leaves hooks of gradients out, or takes inputs for constants.
NOT_EXPORTED = {"packed", "packed, two ways", "hooks of gradients", "a hook of a tensor's gradient", "forward derivatives"}


def made(name):
    torch.manual_seed(0)
    return CASES[name]()


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_EXPORTED])
def test_from_torch(name):
    (net, *inputs), (other, *_) = made(name), made(name)
    with torch.no_grad():
        wanted = other.eval()(*[x.clone() for x in inputs])
        close(ts.from_torch(net.eval(), tuple(inputs), reference=True)(*inputs), wanted)


@pytest.mark.filterwarnings("ignore:PyTorch runs operators")
@pytest.mark.parametrize("name", CASES)
def test_compiled_with_gradients(name):
    (net, *inputs), (other, *_) = made(name), made(name)
    wanted = gradients_of(other, other, inputs)
    given = gradients_of(net, torch.compile(net, backend=tensmith.torch.backend), inputs)
    for a, b in zip(given, wanted):
        close(a, b)
    close(list(net.buffers()), list(other.buffers()))


def rounded_in_each_way(x):
    """Values, and where they lay within the bounds."""
    ops, ones, within = torch.ops.aten, torch.ones(3), (-8, 7)
    return (
        *ops.fake_quantize_per_tensor_affine_cachemask(x, 1.0, 2, *within),
        *ops._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, ones[:1], ZEROS[2:], torch.ones(1, dtype=torch.int64), *within),
        *ops.fake_quantize_per_channel_affine_cachemask(x, ones, ZEROS, 0, *within),
        *ops.fake_quantize_per_channel_affine_cachemask(x, SCALES, torch.tensor([0.2, 1.0, 2.5]), 0, *within),
    )


@pytest.mark.filterwarnings("ignore:PyTorch runs operators")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_fake_quantisation_has_the_bits_of_pytorch(dtype):
    """Breaks if a double is rounded to a float before, if what is no number doesn't become the least, or if differences to zeros between are rounded twice."""
    near = torch.tensor([0.5 + 1e-12, -0.5 - 1e-12, 2.5 + 1e-12, float("nan"), 0.05, 0.15, -3e4, 3e4], dtype=torch.float64).to(dtype).repeat(3, 1)
    wanted = rounded_in_each_way(near)
    for given in (ts.from_torch(of(rounded_in_each_way), (near,))(near), torch.compile(rounded_in_each_way, backend=tensmith.torch.backend)(near)):
        for a, b in zip(given, wanted, strict=True):
            assert a.dtype == b.dtype and torch.equal(a, b), (a, b)


def test_what_orders_effects_is_refused_by_name():
    """Checks of decompositions come with tokens, which are no inputs."""
    with pytest.raises(ts.Error, match=r"operators that can't be compiled(.|\n)*aten._linalg_solve_ex.default: modules.py:\d+"):
        ts.from_torch(of(lambda x: torch.linalg.solve(x @ x.T + torch.eye(3), x)), (r(3, 3),))
