"""LeNet, a residual network, an Inception-like one, a GAN and pix2pix: of JANUS's programs those on pictures. Each is a class as its users would write it:
layers made in a constructor, a `train` method that changes the object as it goes. `scale`: how wide they are, 1 for tests.
"""

import numpy

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn, optim

functional = nn.functional


def pictures(draw, count, channels, size):
    return tnp.asarray(draw.randn(count, channels, size, size).astype("float32"))


def labels(draw, count, classes=10):
    return tnp.asarray(draw.randint(0, classes, count))


class Classifier:
    """Trains a network by momentum; the rate falls where the loss has not for a while."""

    def __init__(self, network, rate=0.01):
        self.network, self.seen, self.patience = network, 0, 0
        self.best = tnp.asarray(1e9, dtype=tnp.float32)
        self.optimiser = optim.SGD(network.parameters(), lr=rate, momentum=0.9)

    def train(self, x, y):
        self.network.train()
        self.optimiser.zero_grad()
        with ts.record():
            loss = functional.cross_entropy(self.network(x), y)
        loss.backward()
        self.optimiser.step()
        self.seen += x.shape[0]
        if loss < self.best:
            self.best = loss * 1.0
            self.patience = 0
        else:
            self.patience += 1
        return loss


class LeNet(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6 * scale, 5, padding=2), nn.Conv2d(6 * scale, 16 * scale, 5)
        self.dense = nn.Sequential(nn.Linear(16 * scale * 25, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10))

    def forward(self, x):
        x = functional.max_pool2d(tnp.tanh(self.first(x)), 2)
        x = functional.max_pool2d(tnp.tanh(self.second(x)), 2)
        return self.dense(tnp.reshape(x, (x.shape[0], -1)))


class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.first, self.norm = nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(outer)
        self.second, self.other_norm = nn.Conv2d(outer, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer)
        self.shortcut = nn.Conv2d(inner, outer, 1, stride=stride) if stride > 1 or inner != outer else None

    def forward(self, x):
        y = functional.relu(self.norm(self.first(x)))
        y = self.other_norm(self.second(y))
        return functional.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(nn.Module):
    """Of He et al. for pictures of 32x32."""

    def __init__(self, scale, depth):
        super().__init__()
        width = 8 * scale
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList()
        for stage in range(3):
            for i in range(depth):
                outer = width * 2**stage
                self.blocks.append(Block(outer if i or not stage else outer // 2, outer, 2 if stage and not i else 1))
        self.head = nn.Linear(width * 4, 10)

    def forward(self, x):
        x = functional.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(tnp.mean(x, axis=(2, 3)))


class Mixed(nn.Module):
    """Szegedy et al.'s block: convolutions of several sizes side by side."""

    def __init__(self, inner, width):
        super().__init__()
        self.paths = nn.ModuleDict({
            "one": nn.Conv2d(inner, width, 1),
            "three": nn.Sequential(nn.Conv2d(inner, width, 1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)),
            "five": nn.Sequential(nn.Conv2d(inner, width, 1), nn.ReLU(), nn.Conv2d(width, width, 5, padding=2)),
            "pool": nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(inner, width, 1)),
        })  # fmt: skip

    def forward(self, x):
        return functional.relu(tnp.concat([path(x) for path in self.paths.values()], axis=1))


class Inception(nn.Module):
    def __init__(self, scale):
        super().__init__()
        width = 4 * scale
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.mixed = nn.ModuleList([Mixed(width, width), Mixed(4 * width, width), Mixed(4 * width, width)])
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(4 * width, 10)

    def forward(self, x):
        x = functional.relu(self.stem(x))
        for i, mixed in enumerate(self.mixed):
            x = mixed(x)
            if i == 1:
                x = functional.max_pool2d(x, 2)
        return self.head(self.drop(tnp.mean(x, axis=(2, 3))))


class Gan:
    """Goodfellow et al.'s: the discriminator rests while it wins."""

    def __init__(self, scale):
        self.noise, size = 8 * scale, 64
        self.generator = nn.Sequential(nn.Linear(self.noise, 32 * scale), nn.ReLU(), nn.Linear(32 * scale, size), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(size, 32 * scale), nn.LeakyReLU(0.2), nn.Linear(32 * scale, 1))
        self.of_generator, self.of_critic = (optim.Adam(each.parameters(), lr=1e-3) for each in (self.generator, self.critic))
        self.random, self.trained = tnp.random.Generator(3), {"generator": 0, "critic": 0}
        self.last = 1.0

    def train(self, real):
        noise = self.random.normal((real.shape[0], self.noise), dtype=tnp.float32)
        ones, zeros = tnp.ones((real.shape[0], 1), dtype=tnp.float32), tnp.zeros((real.shape[0], 1), dtype=tnp.float32)
        truth = functional.binary_cross_entropy_with_logits
        self.of_critic.zero_grad()
        with ts.record():
            loss = truth(self.critic(real), ones) + truth(self.critic(self.generator(noise)), zeros)
        loss.backward()
        if self.last > 0.1:
            self.of_critic.step()
            self.trained["critic"] += 1
        self.of_generator.zero_grad()
        with ts.record():
            own = truth(self.critic(self.generator(noise)), ones)
        own.backward()
        self.of_generator.step()
        self.trained["generator"] += 1
        return loss + own


class Pix2pix:
    """Isola et al.'s: a U-Net of three levels against a critic of patches, on pictures of 64x64."""

    def __init__(self, scale):
        width = 4 * scale
        self.down = nn.ModuleList([nn.Conv2d(3, width, 4, 2, 1), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.Conv2d(2 * width, 4 * width, 4, 2, 1)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1), nn.ConvTranspose2d(4 * width, width, 4, 2, 1), nn.ConvTranspose2d(2 * width, 3, 4, 2, 1)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(2 * width), nn.BatchNorm2d(width)])
        self.critic = nn.Sequential(nn.Conv2d(6, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 1, 4, 2, 1))
        self.of_generator = optim.Adam([*self.down.parameters(), *self.up.parameters(), *self.norms.parameters()], lr=2e-4, betas=(0.5, 0.999))
        self.of_critic = optim.Adam(self.critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.losses = []

    def painted(self, x):
        levels = []
        for each in self.down:
            x = functional.leaky_relu(each(x), 0.2)
            levels.append(x)
        levels.pop()
        for i, each in enumerate(self.up):
            x = each(x)
            if levels:
                x = tnp.concat([functional.relu(self.norms[i](x)), levels.pop()], axis=1)
        return tnp.tanh(x)

    def judged(self, x, y, is_real):
        found = self.critic(tnp.concat([x, y], axis=1))
        return functional.binary_cross_entropy_with_logits(found, tnp.ones_like(found) if is_real else tnp.zeros_like(found))

    def train(self, x, y):
        self.of_critic.zero_grad()
        with ts.record():
            own = (self.judged(x, y, True) + self.judged(x, self.painted(x), False)) / 2
        own.backward()
        self.of_critic.step()
        self.of_generator.zero_grad()
        with ts.record():
            painted = self.painted(x)
            loss = self.judged(x, painted, True) + 10 * functional.l1_loss(painted, y)
        loss.backward()
        self.of_generator.step()
        self.losses.append(float(loss))
        return loss + own


def classified(network, channels, size, count):
    def make(convert, scale):
        draw, trainer = numpy.random.RandomState(1), Classifier(network(scale))
        step = convert(Classifier.train)
        return step, lambda number: step(trainer, pictures(draw, count * scale, channels, size), labels(draw, count * scale))

    return make


def gan(convert, scale):
    draw, program = numpy.random.RandomState(2), Gan(scale)
    step = convert(Gan.train)
    return step, lambda number: step(program, tnp.asarray(draw.rand(8 * scale, 64).astype("float32")))


def pix2pix(convert, scale):
    draw, program = numpy.random.RandomState(3), Pix2pix(scale)
    step = convert(Pix2pix.train)
    return step, lambda number: step(program, pictures(draw, scale, 3, 64), pictures(draw, scale, 3, 64))


PROGRAMS = {
    "LeNet": classified(LeNet, 1, 28, 4), "ResNet": classified(lambda scale: ResNet(scale, 1 if scale == 1 else 3), 3, 32, 2),
    "Inception": classified(Inception, 3, 32, 2), "GAN": gan, "pix2pix": pix2pix,
}  # fmt: skip
