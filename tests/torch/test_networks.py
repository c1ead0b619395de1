"""Small networks of kinds that papers have, by both doors: answers, gradients, and the losses of three steps of AdamW are eager's.

`from_torch` is evaluated by the reference, `torch.compile` by kernels.

Breaks if a kind is refused, if its answers or gradients are others than PyTorch's, or if a step of training is answered by what an earlier one computed. What has a gradient of zero, as a bias before batch normalisation or of keys, is left out: AdamW makes steps of
its rounding.
"""

import math

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from modules import Of, compiled_agrees, exported_agrees, ints, made, of, r  # noqa: E402
from torch import nn  # noqa: E402

import tensmith.torch  # noqa: E402

F = nn.functional


class UNet(nn.Module):
    """Down, up and across, with sizes that don't halve evenly."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([self.block(3, 8), self.block(8, 12), self.block(12, 16)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 12, 2, 2), nn.ConvTranspose2d(12, 8, 2, 2)])
        self.merge = nn.ModuleList([self.block(24, 12), self.block(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    @staticmethod
    def block(channels, out):
        return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1), nn.GroupNorm(4, out), nn.SiLU())

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(x)
            if i < 2:
                kept.append(x)
                x = F.max_pool2d(x, 2)
        for up, merge in zip(self.up, self.merge):
            across, x = kept.pop(), up(x)
            x = F.pad(x, (0, across.shape[3] - x.shape[3], 0, across.shape[2] - x.shape[2]))
            x = merge(torch.cat([across, x], 1))
        return self.head(x)


def timestep_embedding(t, width):
    frequencies = torch.exp(-math.log(10000) * torch.arange(width // 2, dtype=torch.float32) / (width // 2))
    angles = t.float()[:, None] * frequencies[None]
    return torch.cat([angles.cos(), angles.sin()], -1)


class Diffusion(nn.Module):
    """A step of training by noise: what was added is to be found again."""

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
        self.register_buffer("kept", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0))

    def forward(self, x, t, noise):
        kept = self.kept[t][:, None, None, None]
        noisy = kept.sqrt() * x + (1 - kept).sqrt() * noise
        scale, shift = self.time(timestep_embedding(t, 16)).chunk(2, 1)
        h = F.group_norm(self.first(noisy), 2) * (1 + scale[:, :, None, None]) + shift[:, :, None, None]
        return F.mse_loss(self.second(F.silu(h)), noise)


class SelectiveScan(nn.Module):
    """Mamba's recurrence: the state's decay, input and output depend on the data."""

    def __init__(self, width=6, states=4):
        super().__init__()
        self.inner, self.conv = nn.Linear(width, 2 * width), nn.Conv1d(width, width, 3, padding=2, groups=width)
        self.given, self.steps, self.out = nn.Linear(width, 2 * states), nn.Linear(width, width), nn.Linear(width, width)
        self.logs = nn.Parameter(torch.arange(1, states + 1).float().log().repeat(width, 1))
        self.through = nn.Parameter(torch.ones(width))

    def forward(self, x):
        length = x.shape[1]
        x, gate = self.inner(x).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :length].transpose(1, 2))
        into, out = self.given(x).chunk(2, -1)
        steps = F.softplus(self.steps(x))
        decay = torch.exp(torch.einsum("bld,dn->bldn", steps, -self.logs.exp()))
        added = torch.einsum("bld,bln,bld->bldn", steps, into, x)
        state, results = torch.zeros_like(added[:, 0]), []
        for t in range(length):
            state = decay[:, t] * state + added[:, t]
            results.append((state * out[:, t, None]).sum(-1))
        return self.out((torch.stack(results, 1) + x * self.through) * F.silu(gate))


class Routed(nn.Module):
    """Experts that are given the rows which chose them, up to a capacity; their results are added where the rows were."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(6, 3), nn.ModuleList([nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)) for _ in range(3)])

    def forward(self, x):
        shares = self.gate(x).softmax(-1)
        weights, chosen = shares.topk(2)
        weights = weights / weights.sum(-1, keepdim=True)
        total = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            weight = (weights * (chosen == i)).sum(-1)
            rows = weight.topk(4).indices
            total = total.index_add(0, rows, expert(x[rows]) * weight[rows, None])
        load = F.one_hot(chosen[:, 0], 3).float().mean(0)
        return total, (load * shares.mean(0)).sum() * 3


def rotated(x, start):
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(start, start + x.shape[-2]), 10000 ** (-torch.arange(half) / half))
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class Cached(nn.Module):
    """Attention that reads and extends what earlier positions left."""

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)

    def forward(self, x, keys, values):
        batch, length, _ = x.shape
        start = keys.shape[2]
        q = rotated(self.q(x).view(batch, length, 4, 4).transpose(1, 2), start)
        k, v = self.kv(x).view(batch, length, 2, 2, 4).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, rotated(k, start)], 2), torch.cat([values, v], 2)
        mask = torch.ones(length, start + length, dtype=torch.bool).tril(start)
        y = F.scaled_dot_product_attention(q, keys.repeat_interleave(2, 1), values.repeat_interleave(2, 1), attn_mask=mask)
        return self.o(y.transpose(1, 2).flatten(2)), keys, values


class Written(nn.Module):
    """A cache of known length, written in place at positions that are given."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 8, 4))
        self.k = nn.Linear(4, 4)

    def forward(self, x, at):
        with torch.no_grad():
            self.keys[:, at] = self.k(x)
        return (x @ self.keys.transpose(1, 2)).softmax(-1)


class Deformable(nn.Module):
    """A convolution whose places are learned."""

    def __init__(self):
        super().__init__()
        self.places, self.weights = nn.Conv2d(3, 18, 3, padding=1), nn.Parameter(r(5, 3, 9) / 5)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, x):
        b, c, h, w = x.shape
        offsets = self.places(x).view(b, 9, 2, h, w)
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        window = torch.stack(torch.meshgrid(torch.arange(-1, 2), torch.arange(-1, 2), indexing="ij"), -1).view(9, 2)
        at = torch.stack([rows, columns]) + window[:, :, None, None] + offsets
        grid = torch.stack([2 * at[:, :, 1] / (w - 1) - 1, 2 * at[:, :, 0] / (h - 1) - 1], -1)
        taken = F.grid_sample(x, grid.view(b, 9 * h, w, 2), align_corners=True).view(b, c, 9, h, w)
        return torch.einsum("bckhw,ock->bohw", taken, self.weights)


def contrastive(self, a, b):
    """Each row is to find its own among all of the other view."""
    a, b = F.normalize(self.a(a), dim=-1), F.normalize(self.b(b), dim=-1)
    scores = a @ b.T * self.scale.exp().clamp(max=100)
    own = torch.arange(len(a))
    hardest = scores.masked_fill(torch.eye(len(a), dtype=torch.bool), -1e4).argmax(1, keepdim=True)
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2, scores.gather(1, hardest)


def focal(x, target):
    shares = x.sigmoid()
    loss = F.binary_cross_entropy_with_logits(x, target, reduction="none")
    right = shares * target + (1 - shares) * (1 - target)
    return ((0.25 * target + 0.75 * (1 - target)) * (1 - right) ** 2 * loss).sum() / target.sum().clamp(min=1)


class Adapted(nn.Module):
    """A layer that stays as it is beside a learned one of small rank."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a, self.b = nn.Parameter(r(rank, layer.in_features) / 4), nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + F.dropout(x, 0.0, self.training) @ self.a.T @ self.b.T * 2


class Int8(nn.Module):
    """A layer whose weights are bytes with a scale for each row."""

    def __init__(self):
        super().__init__()
        weights = r(6, 8)
        self.register_buffer("scale", weights.abs().amax(1, keepdim=True) / 127)
        self.register_buffer("codes", (weights / self.scale).round().to(torch.int8))
        self.bias = nn.Parameter(torch.zeros(6))

    def forward(self, x):
        return F.linear(x, self.codes.to(x.dtype) * self.scale, self.bias)


class Graph(nn.Module):
    """Attention over a graph's edges: softmax over what goes to the same node."""

    def __init__(self):
        super().__init__()
        self.inner, self.score = nn.Linear(5, 6, bias=False), nn.Linear(12, 1)

    def forward(self, x, edges):
        h, (source, target) = self.inner(x), edges
        scores = F.leaky_relu(self.score(torch.cat([h[source], h[target]], -1)).squeeze(-1), 0.2)
        most = torch.full((len(x),), -torch.inf).scatter_reduce(0, target, scores, "amax")
        shares = (scores - most[target]).exp()
        shares = shares / torch.zeros(len(x)).index_add(0, target, shares)[target].clamp(min=1e-9)
        return torch.zeros_like(h).index_add(0, target, h[source] * shares[:, None])


class Codes(nn.Module):
    """An autoencoder with a codebook, gradients straight through, and losses that pull both ways."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode, self.codes = nn.Conv1d(2, 4, 3, 2, 1), nn.ConvTranspose1d(4, 2, 4, 2, 1), nn.Embedding(8, 4)

    def forward(self, x):
        z = self.encode(x).transpose(1, 2)
        index = (z.square().sum(-1, keepdim=True) - 2 * z @ self.codes.weight.T + self.codes.weight.square().sum(-1)).argmin(-1)
        q = self.codes(index)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return self.decode((z + (q - z).detach()).transpose(1, 2)), loss


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(8, 6), nn.Linear(3, 8)

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1).mean()
        return F.binary_cross_entropy_with_logits(self.decode(z), x.sigmoid().detach(), reduction="none").sum(-1).mean() + divergence


class Windows(nn.Module):
    """Attention within shifted windows, with biases by their distance."""

    def __init__(self):
        super().__init__()
        self.qkv, self.biases = nn.Linear(8, 24, bias=False), nn.Parameter(r(9, 2))
        at = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None] + 1
        self.register_buffer("index", apart[0] * 3 + apart[1])

    def forward(self, x):
        b, h, w, c = x.shape
        x = x.roll((-1, -1), (1, 2)).view(b, h // 2, 2, w // 2, 2, c).transpose(2, 3).reshape(-1, 4, c)
        q, k, v = self.qkv(x).view(-1, 4, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.mT / 2 + self.biases[self.index].permute(2, 0, 1)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, h // 2, w // 2, 2, 2, c)
        return y.transpose(2, 3).reshape(b, h, w, c).roll((1, 1), (1, 2))


class Radiance(nn.Module):
    """Positions by waves, and light added up along rays."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, starts, ways):
        t = torch.linspace(0.5, 2, 6)
        x = starts[:, None] + ways[:, None] * t[:, None]
        waves = (x[..., None] * 2.0 ** torch.arange(4)).flatten(-2)
        colours, density = self.net(torch.cat([waves.sin(), waves.cos()], -1)).split([3, 1], -1)
        opaque = 1 - torch.exp(-F.softplus(density.squeeze(-1)) * F.pad(t.diff(), (0, 1), value=1e3))
        through = torch.cumprod(torch.cat([torch.ones_like(opaque[:, :1]), 1 - opaque[:, :-1] + 1e-10], 1), 1)
        return ((opaque * through)[..., None] * colours.sigmoid()).sum(1)


class Spectral(nn.Module):
    """A layer over frequencies, written with real numbers alone."""

    def __init__(self):
        super().__init__()
        n = 8
        angles = 2 * math.pi * torch.outer(torch.arange(n), torch.arange(n // 2 + 1)) / n
        self.register_buffer("waves", torch.stack([angles.cos(), -angles.sin()]))
        self.real, self.imaginary = nn.Parameter(r(3, 3, 5) / 3), nn.Parameter(r(3, 3, 5) / 3)

    def forward(self, x):
        a, b = torch.einsum("bcn,pnk->pbck", x, self.waves)
        real = torch.einsum("bck,cdk->bdk", a, self.real) - torch.einsum("bck,cdk->bdk", b, self.imaginary)
        other = torch.einsum("bck,cdk->bdk", a, self.imaginary) + torch.einsum("bck,cdk->bdk", b, self.real)
        weight = torch.tensor([1.0, 2, 2, 2, 1]) / 8
        return torch.einsum("bdk,nk->bdn", real * weight, self.waves[0]) + torch.einsum("bdk,nk->bdn", other * weight, self.waves[1])


class Pointer(nn.Module):
    """Words copied from a text by attention, beside those of a vocabulary."""

    def __init__(self):
        super().__init__()
        self.words, self.cell, self.out, self.gate = nn.Embedding(11, 6), nn.GRUCell(6, 6), nn.Linear(12, 11), nn.Linear(12, 1)

    def forward(self, source, target):
        memory, h, losses = self.words(source), torch.zeros(len(source), 6), []
        for t in range(target.shape[1] - 1):
            h = self.cell(self.words(target[:, t]), h)
            attention = (memory @ h[:, :, None]).squeeze(-1).masked_fill(source == 0, -1e9).softmax(-1)
            state = torch.cat([h, (attention[:, None] @ memory).squeeze(1)], -1)
            share = self.gate(state).sigmoid()
            both = share * self.out(state).softmax(-1)
            both = both.scatter_add(1, source, (1 - share) * attention)
            losses.append(F.nll_loss((both + 1e-9).log(), target[:, t + 1], ignore_index=0))
        return torch.stack(losses).mean()


def dice(self, x, target):
    shares = self.net(x).softmax(1)
    hot = F.one_hot(target, 3).permute(0, 3, 1, 2).to(x.dtype)
    inner = (shares * hot).sum((0, 2, 3))
    return (1 - (2 * inner + 1) / (shares.sum((0, 2, 3)) + hot.sum((0, 2, 3)) + 1)).mean()


class Crf(nn.Module):
    """The likelihood of a sequence of labels: all paths' sum by a recurrence, with rows of different length."""

    def __init__(self):
        super().__init__()
        self.scores, self.steps = nn.Linear(5, 3), nn.Parameter(r(3, 3))

    def forward(self, x, labels, mask):
        scores = self.scores(x)
        own = scores.gather(2, labels[..., None]).squeeze(-1)
        moves = self.steps[labels[:, :-1], labels[:, 1:]]
        path = own[:, 0] + ((own[:, 1:] + moves) * mask[:, 1:]).sum(1)
        alpha = scores[:, 0]
        for t in range(1, x.shape[1]):
            following = torch.logsumexp(alpha[:, :, None] + self.steps + scores[:, t, None], 1)
            alpha = torch.where(mask[:, t, None], following, alpha)
        return (alpha.logsumexp(1) - path).mean()


class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.depth = nn.LayerNorm(8), nn.Conv1d(8, 16, 1), nn.Conv1d(8, 8, 5, padding=2, groups=8, bias=False)
        self.batch, self.out = nn.BatchNorm1d(8), nn.Conv1d(8, 8, 1)

    def forward(self, x):
        y = F.glu(self.inner(self.norm(x).transpose(1, 2)), 1)
        return x + self.out(F.silu(self.batch(self.depth(y)))).transpose(1, 2)


class Linear(nn.Module):
    """Attention without softmax, causal by sums that run."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(6, 12)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = (k[..., :, None] * v[..., None, :]).cumsum(1)
        return (q[..., None, :] @ state).squeeze(-2) / ((q * k.cumsum(1)).sum(-1, keepdim=True) + 1e-6)


class Hyper(nn.Module):
    """A network that gives another's weights, for each row its own."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 5 * 3 + 3)

    def forward(self, x, z):
        weights, biases = self.net(z).split([15, 3], -1)
        return torch.baddbmm(biases[:, None], x[:, None], weights.view(-1, 5, 3)).squeeze(1)


def detector(self, x, boxes):
    """Distances of boxes that are predicted, decoded from a grid."""
    b, _, h, w = x.shape
    out = self.head(x).permute(0, 2, 3, 1)
    rows, columns = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
    centre = out[..., :2].sigmoid() + torch.stack([columns, rows], -1)
    sides = out[..., 2:4].clamp(-4, 4).exp()
    given = torch.cat([centre - sides / 2, centre + sides / 2], -1).view(b, -1, 1, 4)
    boxes = boxes[:, None]
    common = (torch.minimum(given[..., 2:], boxes[..., 2:]) - torch.maximum(given[..., :2], boxes[..., :2])).clamp(min=0).prod(-1)
    both = (given[..., 2:] - given[..., :2]).prod(-1) + (boxes[..., 2:] - boxes[..., :2]).prod(-1) - common
    best = (common / (both + 1e-7)).amax(1)
    return 1 - best.mean() + F.binary_cross_entropy_with_logits(out[..., 4], torch.zeros(b, h, w)) / 10


def ordered_boxes():
    corners = torch.rand(2, 3, 2) * 3
    return torch.cat([corners, corners + torch.rand(2, 3, 2) * 2 + 0.5], -1)


def mixed_up(self, x, y, share):
    order = torch.tensor([2, 0, 3, 1])
    scores = self.net(share * x + (1 - share) * x[order])
    return share * F.cross_entropy(scores, y, label_smoothing=0.1) + (1 - share) * F.cross_entropy(scores, y[order], label_smoothing=0.1)


class Reversible(torch.autograd.Function):
    """A gradient with its sign changed, as adversaries of a domain have it."""

    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.by * gradient, None


def sequence_of(layer):
    return Of(lambda self, x: self.layer(nn.utils.rnn.pack_padded_sequence(x, [4, 3, 1], batch_first=True))[1], layer=layer)


NETWORKS = {
    "unet": lambda: (UNet(), r(1, 3, 14, 18)),
    "diffusion": lambda: (Diffusion(), r(2, 3, 6, 6), ints(50, 2), r(2, 3, 6, 6)),
    "selective scan": lambda: (SelectiveScan(), r(2, 5, 6)),
    "experts with a capacity": lambda: (Routed(), r(9, 6)),
    "a cache that grows": lambda: (Cached(), r(2, 3, 16), r(2, 2, 4, 4), r(2, 2, 4, 4)),
    "a cache that is written": lambda: (Written(), r(2, 2, 4), torch.tensor([5, 1])),
    "packed, last states": lambda: (sequence_of(nn.GRU(5, 4, 2, batch_first=True)), r(3, 4, 5)),
    "learned places": lambda: (Deformable(), r(2, 3, 5, 4)),
    "two views": lambda: (Of(contrastive, a=nn.Linear(5, 4), b=nn.Linear(3, 4), scale=nn.Parameter(torch.tensor(1.0))), r(6, 5), r(6, 3)),
    "focal loss": lambda: (of(focal), r(3, 7), (torch.rand(3, 7) > 0.7).float()),
    "adapters": lambda: (nn.Sequential(Adapted(nn.Linear(6, 8)), nn.GELU(), Adapted(nn.Linear(8, 3))), r(4, 6)),
    "weights of bytes": lambda: (Int8(), r(4, 8)),
    "attention over edges": lambda: (Graph(), r(6, 5), ints(6, 2, 14)),
    "a codebook": lambda: (Codes(), r(2, 2, 8)),
    "variational": lambda: (Variational(), r(4, 8)),
    "shifted windows": lambda: (Windows(), r(2, 4, 6, 8)),
    "rays": lambda: (Radiance(), r(5, 3), r(5, 3)),
    "frequencies": lambda: (Spectral(), r(2, 3, 8)),
    "pointers": lambda: (Pointer(), ints(11, 3, 5), ints(11, 3, 4)),
    "overlap of areas": lambda: (Of(dice, net=nn.Conv2d(2, 3, 3, padding=1)), r(2, 2, 5, 4), ints(3, 2, 5, 4)),
    "paths of labels": lambda: (Crf(), r(3, 5, 5), ints(3, 3, 5), torch.arange(5) < torch.tensor([[5], [3], [2]])),
    "conformer": lambda: (Conformer(), r(2, 6, 8)),
    "linear attention": lambda: (Linear(), r(2, 5, 6)),
    "weights from a network": lambda: (Hyper(), r(4, 5), r(4, 4)),
    "boxes from a grid": lambda: (Of(detector, head=nn.Conv2d(3, 5, 1)), r(2, 3, 3, 4), ordered_boxes()),
    "mixed up": lambda: (Of(mixed_up, net=nn.Linear(5, 3)), r(4, 5), ints(3, 4), torch.tensor(0.3)),
    "a gradient turned round": lambda: (Of(lambda self, x: self.b(Reversible.apply(self.a(x), 0.5)), a=nn.Linear(4, 4), b=nn.Linear(4, 2)), r(3, 4)),
    "channels last": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(memory_format=torch.channels_last),
                              r(2, 3, 6, 6).to(memory_format=torch.channels_last)),
    "an empty batch": lambda: (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)), r(0, 3, 6, 6)),
    "in double": lambda: (nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double(), r(5, 4).double()),
}  # fmt: skip

# torch.export refuses what is packed.
NOT_EXPORTED = {"packed, last states"}


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in NOT_EXPORTED])
def test_from_torch(name):
    exported_agrees(lambda: made(NETWORKS, name))


@pytest.mark.filterwarnings("ignore:PyTorch runs operators")
@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_with_gradients_and_steps(name):
    compiled_agrees(lambda: made(NETWORKS, name), tensmith.torch.backend)
