"""Methods that papers build networks of, as people write them: routing, solvers, splines, filters, transports, distributions.

`torch.compile` gives eager's answers and gradients to 1e-4, and losses of three steps of AdamW to 1e-3; `from_torch`, evaluated by reference, the answers
of those that torch.export takes whole. Methods of which PyTorch runs operators are in `RUN_BY_PYTORCH`.

Breaks if a module is refused, cut where it needn't be, or computes, draws or differentiates otherwise than PyTorch.
"""

import math
import warnings

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from modules import Of, compiled_agrees, exported_agrees, ints, made, of, r  # noqa: E402
from torch import nn  # noqa: E402

import tensmith.torch  # noqa: E402

F = nn.functional


class Capsules(nn.Module):
    """Routing by agreement: what lower capsules send follows what upper ones are."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(1, 6, 3, 4, 5))

    def forward(self, u):
        votes = (u[:, :, None, None, :] @ self.weight).squeeze(-2)
        logits = torch.zeros(votes.shape[:3])
        for step in range(3):
            sums = (logits.softmax(2)[..., None] * votes).sum(1)
            norm = sums.square().sum(-1, keepdim=True)
            out = norm / (1 + norm) * sums / (norm + 1e-8).sqrt()
            if step < 2:
                logits = logits + (votes * out[:, None]).sum(-1)
        return out


class Cells(nn.Module):
    """A convolution in the place of each of an LSTM's products."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Conv2d(2 + 3, 12, 3, padding=1)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 3, *x.shape[-2:])
        outs = []
        for t in range(x.shape[1]):
            i, f, o, g = self.gates(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(h)
        return torch.stack(outs, 1), (h, c)


class Dilated(nn.Module):
    """Causal convolutions with gates, ever wider apart, whose parts are added up."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Conv1d(1, 4, 1)
        self.filters = nn.ModuleList([nn.Conv1d(4, 8, 2, dilation=2**i) for i in range(3)])
        self.outs = nn.ModuleList([nn.Conv1d(4, 6, 1) for _ in range(3)])

    def forward(self, x):
        x, total = self.enter(x), 0
        for conv, out in zip(self.filters, self.outs):
            a, b = conv(F.pad(x, (conv.dilation[0], 0))).chunk(2, 1)
            residual, skip = out(a.tanh() * b.sigmoid()).split([4, 2], 1)
            x, total = x + residual, total + skip
        return F.relu(total)


class Splines(nn.Module):
    """A layer whose edges are splines, by de Boor's recursion."""

    def __init__(self, inputs=3, outputs=2, count=5, order=3):
        super().__init__()
        self.order = order
        step = 2 / count
        self.register_buffer("grid", (torch.arange(-order, count + order + 1) * step - 1).expand(inputs, -1).contiguous())
        self.weight, self.base = nn.Parameter(0.1 * torch.randn(outputs, inputs, count + order)), nn.Parameter(torch.randn(outputs, inputs))

    def forward(self, x):
        y = x.unsqueeze(-1)
        bases = ((y >= self.grid[:, :-1]) & (y < self.grid[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (y - self.grid[:, : -(k + 1)]) / (self.grid[:, k:-1] - self.grid[:, : -(k + 1)])
            right = (self.grid[:, k + 1 :] - y) / (self.grid[:, k + 1 :] - self.grid[:, 1:-k])
            bases = left * bases[..., :-1] + right * bases[..., 1:]
        return F.linear(F.silu(x), self.base) + F.linear(bases.flatten(1), self.weight.flatten(1))


class Retention(nn.Module):
    """Attention whose scores decay with distance, by chunks with a state between them."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width, bias=False)
        self.register_buffer("decay", torch.log(1 - 2.0 ** (-2 - torch.arange(heads))))

    def forward(self, x, chunk=2):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        at = torch.arange(chunk)
        within = ((at[:, None] - at) * self.decay[:, None, None]).exp().tril()
        state, outs = 0, []
        for q, k, v in zip(q.split(chunk, 2), k.split(chunk, 2), v.split(chunk, 2)):
            cross = (q @ state) * ((at + 1) * self.decay[:, None]).exp()[..., None] if outs else 0
            outs.append((q @ k.transpose(-1, -2) * within) @ v + cross)
            fresh = (k * ((chunk - 1 - at) * self.decay[:, None]).exp()[..., None]).transpose(-1, -2) @ v
            state = state * (chunk * self.decay).exp()[:, None, None] + fresh if len(outs) > 1 else fresh
        return F.group_norm(torch.cat(outs, 2).transpose(1, 2).reshape(b * n, d), self.heads, eps=0.1).reshape(b, n, d)


def transport(a, b):
    """The plan that moves one set of points to another, by Sinkhorn's iterations on logarithms."""
    cost = torch.cdist(a, b).square()
    f, g = torch.zeros(a.shape[0]), torch.zeros(b.shape[0])
    for _ in range(5):
        f = -0.5 * torch.logsumexp((g - cost) / 0.5 - math.log(b.shape[0]), 1)
        g = -0.5 * torch.logsumexp((f[:, None] - cost) / 0.5 - math.log(a.shape[0]), 0)
    plan = ((f[:, None] + g - cost) / 0.5).exp() / (a.shape[0] * b.shape[0])
    return plan, (plan * cost).sum()


def solved(self, x):
    """An ordinary differential equation, by Runge and Kutta's method."""
    for _ in range(4):
        k1 = self.f(x)
        k2 = self.f(x + 0.125 * k1)
        k3 = self.f(x + 0.125 * k2)
        x = x + 0.25 / 6 * (k1 + 2 * k2 + 2 * k3 + self.f(x + 0.25 * k3))
    return x


def at_rest(self, x):
    """A layer's fixed point, of which the last step alone has gradients."""
    z = torch.zeros_like(x)
    with torch.no_grad():
        for _ in range(6):
            z = torch.tanh(self.w(z) + x)
    return torch.tanh(self.w(z) + x)


def filtered(self, y):
    """Kalman's filter, in steps of prediction and correction."""
    m, p, total = torch.zeros(2), torch.eye(2), 0.0
    for t in range(y.shape[0]):
        m, p = self.a @ m, self.a @ p @ self.a.T + 0.1 * torch.eye(2)
        s = self.h @ p @ self.h.T + 0.2 * torch.eye(1)
        k = p @ self.h.T / s
        error = y[t] - self.h @ m
        total = total - 0.5 * (error.square() / s.diagonal() + s.diagonal().log()).sum()
        m, p = m + k @ error, p - k @ self.h @ p
    return m, p, total


def hidden_states(self, x):
    """The likelihood of what a chain of hidden states gives, forwards in logarithms."""
    moves, gives = self.moves.log_softmax(1), self.gives.log_softmax(1)
    alpha = self.first.log_softmax(0) + gives[:, x[:, 0]].T
    for t in range(1, x.shape[1]):
        alpha = torch.logsumexp(alpha[:, :, None] + moves, 1) + gives[:, x[:, t]].T
    return torch.logsumexp(alpha, 1)


def squashed(self, x, noise):
    """A policy's action and its log-likelihood, of a normal distribution behind a tangent."""
    mean, deviation = self.net(x).chunk(2, -1)
    normal = torch.distributions.Normal(mean, deviation.clamp(-5, 2).exp(), validate_args=False)
    before = mean + normal.scale * noise
    action = before.tanh()
    return action, (normal.log_prob(before) - 2 * (math.log(2) - before - F.softplus(-2 * before))).sum(-1)


def bound(self, x):
    """A variational bound by distributions' own methods, drawn in between."""
    mean, scale = self.encoder(x).chunk(2, -1)
    q = torch.distributions.Normal(mean, F.softplus(scale), validate_args=False)
    p = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean), validate_args=False)
    z = q.rsample()
    likely = torch.distributions.Bernoulli(logits=self.decoder(z), validate_args=False).log_prob((x > 0).float()).sum(-1)
    return (likely - torch.distributions.kl_divergence(q, p).sum(-1)).mean()


def lovasz(self, x, target):
    """A surrogate of overlap, from errors in their order."""
    scores, target = self.net(x).flatten(), target.flatten().float()
    errors, order = (1 - scores * (2 * target - 1)).sort(descending=True)
    truth = target[order]
    total = truth.sum()
    jaccard = 1 - (total - truth.cumsum(0)) / (total + (1 - truth).cumsum(0))
    jaccard = torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])
    return torch.dot(F.relu(errors), jaccard)


def similarity(x, y):
    """Structural similarity, by means under a bell curve."""
    at = torch.arange(5) - 2.0
    bell = (-at.square() / 4.5).exp()
    window = (bell[:, None] * bell / bell.sum() ** 2).expand(x.shape[1], 1, 5, 5)
    mean = lambda z: F.conv2d(z, window, padding=2, groups=z.shape[1])
    mx, my = mean(x), mean(y)
    vx, vy, c = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
    return (((2 * mx * my + 1e-4) * (2 * c + 9e-4)) / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4))).mean((1, 2, 3))


def hardest(self, x, label):
    """Triplets of each sample with the farthest of its class and the nearest of another."""
    y = F.normalize(self.net(x), dim=1)
    distance = (2 - 2 * y @ y.T).clamp(min=1e-6).sqrt()
    same = label[:, None] == label
    far = distance.masked_fill(~same, -math.inf).amax(1)
    near = distance.masked_fill(same, math.inf).amin(1)
    return F.relu(far - near + 0.3).mean()


def dropped_paths(self, x):
    """Each sample goes through a block or past it."""
    for block in self.blocks:
        keep = torch.rand(x.shape[0], *[1] * (x.dim() - 1)) < 0.7
        x = x + block(x) * keep / 0.7
    return x


def searched(self, x):
    """A step of a search along beams: the best continuations, and where they came from."""
    scores = self.net(x).log_softmax(-1).reshape(2, 3, -1) + torch.linspace(0, -2, 3)[:, None]
    best, at = scores.flatten(1).topk(3)
    beam, word = at // scores.shape[-1], at % scores.shape[-1]
    return best, word, x.reshape(2, 3, -1).gather(1, beam[..., None].expand(-1, -1, x.shape[-1]))


def gated_sums(self, x):
    """Linear attention with gates that decay, by sums of their logarithms."""
    q, k, v, gate = self.proj(x).chunk(4, -1)
    decay = F.logsigmoid(gate).cumsum(1)
    scores = torch.einsum("bid,bjd->bij", q * decay.exp(), k * (-decay).exp())
    return torch.tril(scores) @ v


def distances_of_images(self, x):
    """Patches of one image, each beside all others; put back where they were."""
    patches = F.unfold(x, 3, stride=2)
    weights = (patches.transpose(1, 2) @ patches * 0.1).softmax(-1)
    return F.fold(patches @ weights.transpose(1, 2), x.shape[-2:], 3, stride=2) * self.scale


def anchored(self, x):
    """Boxes of a grid: offsets to cells, sizes by anchors, and classes."""
    n, _, h, w = x.shape
    y = self.head(x).reshape(n, 2, 7, h, w).permute(0, 1, 3, 4, 2)
    rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    cells = torch.stack((columns, rows), -1).float()
    centre = (y[..., :2].sigmoid() * 2 - 0.5 + cells) * 8
    size = (y[..., 2:4].sigmoid() * 2) ** 2 * self.anchors[None, :, None, None]
    return torch.cat((centre - size / 2, centre + size / 2, y[..., 4:].sigmoid()), -1).reshape(n, -1, 7)


def latents(self, x):
    """A few learned queries read what is long."""
    z = self.queries.expand(x.shape[0], -1, -1)
    for _ in range(2):
        z = z + self.read(z, x, x, need_weights=False)[0]
        z = z + self.mlp(z)
    return z.mean(1)


def noisy_choice(x, noise):
    """A choice by Gumbel's noise, straight through."""
    soft = ((x - (-noise.log()).log()) / 0.7).softmax(-1)
    hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
    return hard - soft.detach() + soft


def filled(x, mask, y):
    """What a mask covers is taken from elsewhere, in order."""
    return x.masked_scatter(mask, y), torch.where(mask, x, torch.nan).nanmean(1), x.masked_fill(mask, 0).count_nonzero(1)


def binned(self, x):
    """A function that is linear between learned heights."""
    place = torch.bucketize(x.detach(), self.edges).clamp(1, len(self.edges) - 1)
    left, right = self.edges[place - 1], self.edges[place]
    part = (x - left) / (right - left)
    return self.heights[place - 1] * (1 - part) + self.heights[place] * part


def quantiles(self, x, y):
    """A loss for each of several quantiles, and a histogram's distance."""
    error = y[:, None] - self.net(x)
    level = torch.tensor([0.1, 0.5, 0.9])
    return torch.maximum(level * error, (level - 1) * error).mean(0)


def steps_of_physics(self, q, v):
    """Accelerations by an energy's derivatives."""
    energy = lambda q: self.net(q).sum()
    half = v - 0.05 * torch.func.grad(energy)(q)
    q = q + 0.1 * half
    return q, half - 0.05 * torch.func.grad(energy)(q)


def rotated(x, y):
    """Positions as rotations of complex numbers."""
    angle = torch.outer(torch.arange(x.shape[1]).float(), 1 / 10 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1]))
    turn = torch.polar(torch.ones_like(angle), angle)
    both = [torch.view_as_real(torch.view_as_complex(z.reshape(*z.shape[:-1], -1, 2)) * turn).flatten(-2) for z in (x, y)]
    return both[0] @ both[1].transpose(-1, -2)


def spectrum(x):
    return torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs().square().clamp(min=1e-5).log()


def long_convolution(self, x):
    n = x.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(x, 2 * n) * torch.fft.rfft(self.filter, 2 * n), 2 * n)[..., :n]


def gaussian_process(self, x, y):
    """Likelihood of samples of a Gaussian process."""
    k = self.scale.exp() * (-0.5 * torch.cdist(x, x).square()).exp() + 0.1 * torch.eye(x.shape[0])
    lower = torch.linalg.cholesky(k)
    alpha = torch.cholesky_solve(y[:, None], lower)
    return 0.5 * (y[:, None] * alpha).sum() + lower.diagonal().log().sum()


def sorted_by_expert(self, x):
    """Rows in the order of their experts, which take a part each: how many is known when it runs."""
    chosen = self.gate(x).argmax(-1)
    order = chosen.argsort(stable=True)
    parts = x[order].split(torch.bincount(chosen, minlength=3).tolist())
    out = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
    return torch.zeros_like(out).index_copy(0, order, out)


METHODS = {
    "capsules": lambda: (Capsules(), r(2, 6, 4)),
    "cells of convolutions": lambda: (Cells(), r(2, 3, 2, 4, 5)),
    "dilated": lambda: (Dilated(), r(2, 1, 9)),
    "splines": lambda: (Splines(), torch.rand(4, 3) * 1.8 - 0.9),
    "retention": lambda: (Retention(), r(2, 6, 8)),
    "transport": lambda: (of(transport), r(4, 2), r(5, 2)),
    "an equation": lambda: (Of(solved, f=nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))), r(4, 3)),
    "a fixed point": lambda: (Of(at_rest, w=nn.Linear(4, 4)), r(3, 4)),
    "kalman": lambda: (Of(filtered, a=nn.Parameter(torch.tensor([[1.0, 0.1], [0.0, 0.9]])), h=nn.Parameter(torch.tensor([[1.0, 0.5]]))), r(4, 1)),
    "hidden states": lambda: (Of(hidden_states, moves=nn.Parameter(r(3, 3)), gives=nn.Parameter(r(3, 5)), first=nn.Parameter(r(3))), ints(5, 4, 6)),
    "a policy": lambda: (Of(squashed, net=nn.Linear(4, 6)), r(5, 4), r(5, 3)),
    "a bound": lambda: (Of(bound, encoder=nn.Linear(6, 4), decoder=nn.Linear(2, 6)), r(5, 6)),
    "overlap in order": lambda: (Of(lovasz, net=nn.Conv2d(2, 1, 3, padding=1)), r(2, 2, 4, 3), ints(2, 2, 4, 3)),
    "similarity": lambda: (of(similarity), torch.rand(2, 3, 7, 6), torch.rand(2, 3, 7, 6)),
    "hardest triplets": lambda: (Of(hardest, net=nn.Linear(5, 4)), r(8, 5), torch.tensor([0, 1, 0, 1, 2, 2, 0, 1])),
    "dropped paths": lambda: (Of(dropped_paths, blocks=nn.ModuleList([nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4)) for _ in range(3)])), r(6, 3, 4)),
    "beams": lambda: (Of(searched, net=nn.Linear(4, 7)), r(6, 4)),
    "gated sums": lambda: (Of(gated_sums, proj=nn.Linear(6, 16)), r(2, 5, 6)),
    "patches": lambda: (Of(distances_of_images, scale=nn.Parameter(torch.tensor(0.5))), r(2, 2, 7, 5)),
    "anchors": lambda: (Of(anchored, head=nn.Conv2d(3, 14, 1), anchors=torch.tensor([[10.0, 13.0], [33.0, 23.0]])), r(2, 3, 3, 4)),
    "latents": lambda: (Of(latents, queries=nn.Parameter(r(1, 3, 8)), read=nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True), mlp=nn.Linear(8, 8)), r(2, 9, 6)),
    "a noisy choice": lambda: (of(noisy_choice), r(4, 5), torch.rand(4, 5) * 0.9 + 0.05),
    "filled": lambda: (of(filled), r(3, 4), torch.tensor([[True, False, False, True]] * 3), r(2, 4)),
    "between heights": lambda: (Of(binned, edges=torch.linspace(-2, 2, 6), heights=nn.Parameter(r(6))), r(4, 3)),
    "quantiles": lambda: (Of(quantiles, net=nn.Linear(3, 3)), r(6, 3), r(6)),
    "physics": lambda: (Of(steps_of_physics, net=nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 1))), r(5, 3), r(5, 3)),
    "rotations": lambda: (of(rotated), r(2, 4, 6), r(2, 4, 6)),
    "a spectrum": lambda: (of(spectrum), r(2, 24)),
    "a long convolution": lambda: (Of(long_convolution, filter=nn.Parameter(r(3, 8))), r(2, 3, 8)),
    "a gaussian process": lambda: (Of(gaussian_process, scale=nn.Parameter(torch.tensor(0.2))), r(5, 2), r(5)),
    "in order of experts": lambda: (Of(sorted_by_expert, gate=nn.Linear(4, 3), experts=nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])), r(7, 4)),
}  # fmt: skip

# Complex numbers and decompositions, which have no operators.
RUN_BY_PYTORCH = {"rotations", "a spectrum", "a long convolution", "a gaussian process"}
# torch.export sees no inputs of torch.func's transforms, and refuses counts that a run tells, at which TorchDynamo cuts the graph.
NOT_EXPORTED = RUN_BY_PYTORCH | {"physics", "in order of experts"}


@pytest.mark.parametrize("name", [name for name in METHODS if name not in NOT_EXPORTED])
def test_from_torch(name):
    exported_agrees(lambda: made(METHODS, name))


@pytest.mark.parametrize("name", METHODS)
def test_compiled_with_gradients_and_steps(name):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled_agrees(lambda: made(METHODS, name), tensmith.torch.backend, parameters=False)
    left = [str(each.message) for each in told if "PyTorch runs operators" in str(each.message)]
    assert bool(left) == (name in RUN_BY_PYTORCH), left
