"""Networks that torchvision has not, small enough to be read: what image generation, detection, super-resolution,
language, recommendation and sound are made of, for bench/architectures. Each function gives a module and its inputs.
"""

import torch
from torch import nn
from torch.nn import functional


def convolution(inputs, outputs, size=3, stride=1, activation=nn.ReLU):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs), activation())


class UNet(nn.Module):
    """Ronneberger, Fischer, Brox, "U-Net", 2015, with padding."""

    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        double = lambda inputs, outputs: nn.Sequential(convolution(inputs, outputs), convolution(outputs, outputs))
        self.down = nn.ModuleList(double(a, b) for a, b in zip((3, *widths), widths))
        self.bottom = double(widths[-1], 2 * widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, 2) for width in reversed(widths))
        self.join = nn.ModuleList(double(2 * width, width) for width in reversed(widths))
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skipped = []
        for down in self.down:
            skipped.append(down(x))
            x = functional.max_pool2d(skipped[-1], 2)
        x = self.bottom(x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([skipped.pop(), up(x)], 1))
        return self.head(x)


class Edsr(nn.Module):
    """Lim et al., "Enhanced deep residual networks for single image super-resolution", 2017: the baseline, twice the size."""

    def __init__(self, width=64, blocks=16):
        super().__init__()
        layer = lambda a, b: nn.Conv2d(a, b, 3, padding=1)
        self.head, self.tail = layer(3, width), layer(width, width)
        self.blocks = nn.ModuleList(nn.Sequential(layer(width, width), nn.ReLU(), layer(width, width)) for _ in range(blocks))
        self.up = nn.Sequential(layer(width, 4 * width), nn.PixelShuffle(2), layer(width, 3))

    def forward(self, x):
        x = first = self.head(x)
        for block in self.blocks:
            x = x + block(x)
        return self.up(first + self.tail(x))


class VaeDecoder(nn.Module):
    """As latent diffusion has it (Rombach et al., 2022), a quarter as wide: group normalisation, SiLU, one attention."""

    class Residual(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            half = lambda a, b: nn.Sequential(nn.GroupNorm(32, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1))
            self.body = nn.Sequential(half(inputs, outputs), half(outputs, outputs))
            self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

        def forward(self, x):
            return self.shortcut(x) + self.body(x)

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.qkv, self.out = nn.GroupNorm(32, width), nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x).flatten(2).transpose(1, 2)).unsqueeze(1).chunk(3, -1)
            mixed = self.out(functional.scaled_dot_product_attention(q, k, v)).squeeze(1)
            return x + mixed.transpose(1, 2).reshape(x.shape)

    def __init__(self, widths=(128, 128, 64, 32)):
        super().__init__()
        top = widths[0]
        parts = [nn.Conv2d(4, top, 3, padding=1), self.Residual(top, top), self.Attention(top), self.Residual(top, top)]
        for inputs, outputs in zip((top, *widths), widths):
            parts += [self.Residual(inputs, outputs), self.Residual(outputs, outputs)]
            if outputs != widths[-1]:
                parts += [nn.Upsample(scale_factor=2), nn.Conv2d(outputs, outputs, 3, padding=1)]
        parts += [nn.GroupNorm(32, widths[-1]), nn.SiLU(), nn.Conv2d(widths[-1], 3, 3, padding=1)]
        self.parts = nn.Sequential(*parts)

    def forward(self, x):
        return self.parts(x)


class Detector(nn.Module):
    """A one-stage detector: cross-stage blocks with SiLU, pools of several sizes, features joined up and down."""

    class CrossStage(nn.Module):
        def __init__(self, inputs, outputs, depth):
            super().__init__()
            half = outputs // 2
            block = lambda a, b, size=1: convolution(a, b, size, activation=nn.SiLU)
            self.enter, self.around, self.leave = block(inputs, half), block(inputs, half), block(outputs, outputs)
            self.blocks = nn.ModuleList(nn.Sequential(block(half, half), block(half, half, 3)) for _ in range(depth))

        def forward(self, x):
            y = self.enter(x)
            for block in self.blocks:
                y = y + block(y)
            return self.leave(torch.cat([y, self.around(x)], 1))

    def __init__(self, widths=(32, 64, 128, 256), outputs=85):
        super().__init__()
        silu = lambda a, b, size, stride: convolution(a, b, size, stride, nn.SiLU)
        self.stem = silu(3, 16, 3, 2)
        self.stages = nn.ModuleList(
            nn.Sequential(silu(a, b, 3, 2), self.CrossStage(b, b, depth)) for a, b, depth in zip((16, *widths), widths, (1, 2, 3, 1)))
        self.spread = silu(4 * widths[3], widths[3], 1, 1)
        self.up = nn.ModuleList([self.CrossStage(widths[3] + widths[2], widths[2], 1), self.CrossStage(widths[2] + widths[1], widths[1], 1)])
        self.heads = nn.ModuleList(nn.Conv2d(width, outputs, 1) for width in widths[:0:-1])

    def forward(self, x):
        x = self.stem(x)
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        pools = [x]
        for _ in range(3):
            pools.append(functional.max_pool2d(pools[-1], 5, 1, 2))
        features = [self.spread(torch.cat(pools, 1))]
        for up, level in zip(self.up, levels[-2:0:-1]):
            larger = functional.interpolate(features[-1], scale_factor=2.0)
            features.append(up(torch.cat([larger, level], 1)))
        return tuple(head(feature) for head, feature in zip(self.heads, features))


class Gpt(nn.Module):
    """A decoder of 6 layers of 512 over 128 tokens, with a tied head over 8,192."""

    def __init__(self, width=512, layers=6, heads=8, vocabulary=8192, length=128):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(length, width))
        layer = lambda: nn.TransformerEncoderLayer(width, heads, 4 * width, 0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.ModuleList(layer() for _ in range(layers))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.places
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.norm(x) @ self.tokens.weight.T


class Tagger(nn.Module):
    """Two layers of a bidirectional GRU over 64 tokens."""

    def __init__(self, width=256, vocabulary=8192, tags=32):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(2 * width, tags)
        self.gru = nn.GRU(width, width, 2, bidirectional=True, batch_first=True)

    def forward(self, ids):
        return self.head(self.gru(self.tokens(ids))[0])


class Dlrm(nn.Module):
    """Naumov et al., "Deep learning recommendation model", 2019: 8 tables, products of all pairs."""

    def __init__(self, tables=8, rows=50_000, width=64):
        super().__init__()
        layers = lambda *sizes: nn.Sequential(*(part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())))
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom, self.top = layers(13, 512, 256, width), layers(width + (tables + 1) * tables // 2, 1024, 1024, 512)
        self.head = nn.Linear(512, 1)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, *ids):
        dense = self.bottom(dense)
        features = torch.stack([dense, *(table(i) for table, i in zip(self.tables, ids))], 1)
        products = features @ features.transpose(1, 2)
        return torch.sigmoid(self.head(self.top(torch.cat([dense, products[:, self.pairs[0], self.pairs[1]]], 1))))


class WaveNet(nn.Module):
    """Gated, dilated convolutions over a second of sound at 4 kHz (van den Oord et al., 2016)."""

    def __init__(self, width=64, layers=10):
        super().__init__()
        self.enter, self.leave = nn.Conv1d(1, width, 1), nn.Conv1d(width, 256, 1)
        self.gated = nn.ModuleList(nn.Conv1d(width, 2 * width, 3, padding=1 << i, dilation=1 << i) for i in range(layers))
        self.mixed = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(layers))

    def forward(self, x):
        x, total = self.enter(x), 0
        for gated, mixed in zip(self.gated, self.mixed):
            value, gate = gated(x).chunk(2, 1)
            rest, skip = mixed(torch.tanh(value) * torch.sigmoid(gate)).chunk(2, 1)
            x, total = x + rest, total + skip
        return self.leave(functional.relu(total))


class Segments(nn.Module):
    """The scores alone of torchvision's segmentation."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)["out"]


def image(module, channels, side):
    return module, (torch.randn(1, channels, side, side),)


def ids(count, *shape):
    return torch.randint(0, count, shape)


NETWORKS = {
    "unet": lambda: image(UNet(), 3, 256),
    "edsr": lambda: image(Edsr(), 3, 96),
    "vae_decoder": lambda: image(VaeDecoder(), 4, 32),
    "detector": lambda: image(Detector(), 3, 320),
    "gpt": lambda: (Gpt(), (ids(8192, 1, 128),)),
    "gru_tagger": lambda: (Tagger(), (ids(8192, 1, 64),)),
    "dlrm": lambda: (Dlrm(), (torch.randn(16, 13), *(ids(50_000, 16) for _ in range(8)))),
    "wavenet": lambda: (WaveNet(), (torch.randn(1, 1, 4000),)),
}
