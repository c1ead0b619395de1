"""Programs of training steps that do what Python can do: Terra's, scaled down. Each gives a step, called with the number of the step, that
returns its loss; `told` collects what else the program says. `scale`: how large layers and batches are, 1 for tests.
"""

import numpy

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn, optim

functional = nn.functional


def images(draw, count):
    return tnp.asarray(draw.randn(count, 1, 6, 6).astype("float32")), tnp.asarray(draw.randint(0, 3, count))


def drop_block(told, scale=1):
    """Blocks of feature maps are dropped by a mask that NumPy draws, at a rate that an object's attribute schedules."""
    draw = numpy.random.RandomState(1)
    convolution, head = nn.Conv2d(1, 4 * scale, 3, padding=1), nn.Linear(4 * scale * 36, 3)
    optimiser = optim.SGD([*convolution.parameters(), *head.parameters()], lr=0.1, momentum=0.9)

    class Schedule:
        rate = 0.0

    def mask(shape):
        kept = numpy.ones(shape, "float32")
        for image in range(shape[0]):
            if draw.rand() < Schedule.rate:
                row, column = draw.randint(0, shape[2] - 2, 2)
                kept[image, :, row : row + 2, column : column + 2] = 0
        return kept * (kept.size / kept.sum())

    def step(number):
        Schedule.rate = min(1.0, number / 4)
        x, y = images(draw, 4 * scale)
        optimiser.zero_grad()
        with ts.record():
            features = tnp.maximum(convolution(x), 0)
            loss = functional.cross_entropy(head(tnp.reshape(features * mask(features.shape), (4 * scale, -1))), y)
        loss.backward()
        optimiser.step()
        return loss

    return step


def language_model(told, scale=1):
    """Attention over texts whose length differs from step to step; the best loss so far is kept by an object, and decides what is printed."""
    draw = numpy.random.RandomState(2)
    width, words = 8 * scale, 10 * scale + 1
    parts = nn.ModuleDict({"words": nn.Embedding(words, width), "head": nn.Linear(width, words)})
    for name in ("queries", "keys", "values"):
        parts[name] = nn.Linear(width, width)
    optimiser = optim.Adam(parts.parameters(), lr=0.01)
    best = {"loss": 1e9}

    def step(number):
        length = int(draw.choice([4, 6])) * scale
        text = draw.randint(0, words, (2, length + 1))
        optimiser.zero_grad()
        with ts.record():
            x = parts["words"](tnp.asarray(text[:, :-1]))
            scores = parts["queries"](x) @ tnp.permute_dims(parts["keys"](x), (0, 2, 1)) * width**-0.5
            later = numpy.triu(numpy.full((length, length), -1e9, "float32"), 1)
            x = x + functional.softmax(scores + later, -1) @ parts["values"](x)
            loss = functional.cross_entropy(tnp.reshape(parts["head"](x), (-1, words)), tnp.asarray(text[:, 1:].ravel()))
        loss.backward()
        optimiser.step()
        if float(loss) < best["loss"]:
            best["loss"] = float(loss)
            told.append(("better", number))
        return loss

    return step


def adversarial(told, scale=1):
    """A generator and a critic, the first of which learns in every second step."""
    draw = numpy.random.RandomState(3)
    generator = nn.Sequential(nn.Linear(2, 8 * scale), nn.Tanh(), nn.Linear(8 * scale, 2))
    critic = nn.Sequential(nn.Linear(2, 8 * scale), nn.LeakyReLU(0.2), nn.Linear(8 * scale, 1))
    optimisers = [optim.Adam(each.parameters(), lr=0.01) for each in (generator, critic)]

    def step(number):
        noise, real = (tnp.asarray(draw.randn(6 * scale, 2).astype("float32")) for _ in range(2))
        optimisers[1].zero_grad()
        with ts.record():
            fake = tnp.asarray(generator(noise).numpy().copy())
            loss = tnp.mean(functional.softplus(-critic(real))) + tnp.mean(functional.softplus(critic(fake)))
        loss.backward()
        optimisers[1].step()
        if number % 2:
            optimisers[0].zero_grad()
            with ts.record():
                own = tnp.mean(functional.softplus(-critic(generator(noise))))
            own.backward()
            optimisers[0].step()
            told.append(float(own))
        return loss

    return step


def guarded(told, scale=1):
    """A loss that is too large is an exception, which the step catches, after it has written to a buffer."""
    draw = numpy.random.RandomState(4)
    w, seen = tnp.asarray(numpy.ones((3, 2 * scale), "float32")), tnp.zeros(3, dtype=tnp.float32)

    def checked(x):
        seen[...] = seen + tnp.sum(x, axis=0)
        loss = tnp.mean((x @ w) ** 2.0)
        if loss.item() > 6:
            raise OverflowError("a loss is too large")
        return loss

    def step(number):
        x = tnp.asarray(draw.randn(4 * scale, 3).astype("float32") * (3 if number % 3 == 2 else 1))
        try:
            loss = checked(x)
        except OverflowError as error:
            told.append(str(error))
            loss = tnp.sum(seen) * 0.5
        w[...] = w * 0.99
        w[0] = w[1] + 0.25
        return loss + tnp.sum(w)

    return step


def streamed(told, scale=1):
    """Pieces come from a generator that goes on from step to step, and are summed up in a list and a dict."""
    draw = numpy.random.RandomState(5)
    state = {"sum": tnp.zeros(3), "last": []}

    def pieces():
        while True:
            for scale in (1.0, 3.0, 0.3):
                yield tnp.asarray(draw.randn(3)) * scale

    source = pieces()

    def step(number):
        total = tnp.zeros(3)
        for piece in (next(source) for _ in range(2)):
            total = total + tnp.tanh(piece)
        state["sum"] = state["sum"] * 0.9 + total
        state["last"] = [*state["last"], total][-2:]
        told.append([len(state["last"]), numpy.asarray(state["last"][0]).round(5).tolist()])
        return tnp.sum(state["sum"])

    return step


PROGRAMS = {"drop block": drop_block, "language model": language_model, "adversarial": adversarial, "guarded": guarded, "streamed": streamed}
