"""Seven of the ten programs of Terra's paper, scaled down, as their users would write them: NumPy decides and post-processes, objects are changed,
sizes are drawn, generators feed, exceptions are caught. `coexecuted.py` has the others. Each gives a step, called with its number, that returns
its loss; `told` collects what else the program says. `scale`: how large layers and batches are, 1 for tests.

Source: Kim et al., Terra: Imperative-Symbolic Co-Execution of Imperative Deep Learning Programs, NeurIPS 2021, table 1.
"""

import numpy

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn, optim

functional = nn.functional


class Encoder(nn.Module):
    """Words, positions, and blocks of attention."""

    def __init__(self, words, width, length, blocks, causal=False):
        super().__init__()
        self.words, self.positions, self.causal = nn.Embedding(words, width), nn.Embedding(length, width), causal
        self.attention = nn.ModuleList([nn.MultiheadAttention(width, 2, batch_first=True) for _ in range(blocks)])
        self.dense = nn.ModuleList([nn.Linear(width, width) for _ in range(blocks)])

    def forward(self, text):
        x = self.words(tnp.asarray(text)) + self.positions(tnp.arange(text.shape[1]))
        for attention, dense in zip(self.attention, self.dense):
            x = functional.layer_norm(x + attention(x, x, x, need_weights=False, is_causal=self.causal)[0], (x.shape[-1],))
            x = x + functional.gelu(dense(x))
        return x


def bert_questions(told, scale=1):
    """BERT Q&A: begin and end of an answer; NumPy finds the best pair, an object counts those that match."""
    draw = numpy.random.RandomState(11)
    length, width = 6 * scale, 8 * scale
    encoder, head = Encoder(20, width, length, 2), nn.Linear(width, 2)
    optimiser = optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)

    class Score:
        exact = seen = 0

    def best(begins, ends):
        pairs = numpy.triu(begins[:, None] + ends[None, :])
        return numpy.unravel_index(pairs.argmax(), pairs.shape)

    def step(number):
        text, spans = draw.randint(0, 20, (4 * scale, length)), numpy.sort(draw.randint(0, length, (4 * scale, 2)), axis=1)
        optimiser.zero_grad()
        with ts.record():
            logits = head(encoder(text))
            loss = sum(functional.cross_entropy(logits[..., i], tnp.asarray(spans[:, i])) for i in range(2)) * 0.5
        loss.backward()
        optimiser.step()
        for each, span in zip(logits.numpy(), spans):
            Score.exact += tuple(best(*each.T)) == tuple(span)
            Score.seen += 1
        if number % 16 == 15:
            told.append(Score.seen)
        return loss

    return step


def bert_classes(told, scale=1):
    """BERT-CLS: a rate that warms up, gradients that are clipped where their norm, read by Python, is large."""
    draw = numpy.random.RandomState(12)
    length, width = 5 * scale, 8 * scale
    encoder, head = Encoder(16, width, length, 2), nn.Linear(width, 3)
    parameters = [*encoder.parameters(), *head.parameters()]
    optimiser = optim.AdamW(parameters, lr=0.0)

    def step(number):
        optimiser.param_groups[0]["lr"] = 0.01 * min(1.0, (number + 1) / 10)
        text = draw.randint(0, 16, (4 * scale, length))
        optimiser.zero_grad()
        with ts.record():
            loss = functional.cross_entropy(head(encoder(text)[:, 0]), tnp.asarray(text[:, 0] % 3))
        loss.backward()
        norm = float(tnp.sqrt(sum(tnp.sum(each.grad**2.0) for each in head.parameters())))
        if norm > 0.8:
            for each in parameters:
                each.grad = each.grad * (0.8 / norm)
            told.append(("clipped", number))
        optimiser.step()
        return loss

    return step


def music_transformer(told, scale=1):
    """Pieces of two lengths come from a generator that is endless; the next note is drawn by NumPy from what the model says."""
    draw = numpy.random.RandomState(13)
    notes, width = 12, 8 * scale
    model, head = Encoder(notes, width, 8 * scale, 2, causal=True), nn.Linear(width, notes)
    optimiser = optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)

    def pieces():
        while True:
            begin = draw.randint(0, notes, (3 * scale, 1))
            yield (begin + numpy.arange(int(draw.choice([4, 7])) * scale + 1)) % notes

    source = pieces()

    def step(number):
        piece = next(source)
        optimiser.zero_grad()
        with ts.record():
            logits = head(model(piece[:, :-1]))
            loss = functional.cross_entropy(tnp.reshape(logits, (-1, notes)), tnp.asarray(piece[:, 1:].ravel()))
        loss.backward()
        optimiser.step()
        if number % 2:
            chances = functional.softmax(logits[0, -1]).numpy().astype("float64")
            told.append(int(draw.choice(notes, p=chances / chances.sum()) >= 0))
        return loss

    return step


def random_points(told, scale=1):
    """SDPoint: where, and whether, feature maps are made smaller is drawn for each step."""
    draw = numpy.random.RandomState(14)
    channels = 4 * scale
    layers = nn.ModuleList([nn.Conv2d(1 if i == 0 else channels, channels, 3, padding=1) for i in range(3)])
    head = nn.Linear(channels, 3)
    optimiser = optim.SGD([*layers.parameters(), *head.parameters()], lr=0.05, momentum=0.9)

    def step(number):
        point = int(draw.randint(0, 4))
        x, y = tnp.asarray(draw.randn(3 * scale, 1, 6, 6).astype("float32")), tnp.asarray(draw.randint(0, 3, 3 * scale))
        optimiser.zero_grad()
        with ts.record():
            for i, layer in enumerate(layers):
                x = functional.relu(layer(x))
                if i == point:
                    x = functional.avg_pool2d(x, 2)
            loss = functional.cross_entropy(head(tnp.mean(x, axis=(2, 3))), y)
        loss.backward()
        optimiser.step()
        return loss

    return step


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels) for _ in range(2)])

    def forward(self, x):
        given = x
        for layer, norm in zip(self.layers, self.norms):
            x = functional.relu(norm(layer(x)))
        return x + given


def residual_network(told, scale=1):
    """ResNet-50: statistics of batches in buffers, evaluation in every fourth step, its accuracy by NumPy, and a list that grows."""
    draw = numpy.random.RandomState(15)
    model = nn.Sequential(nn.Conv2d(1, 3 * scale, 3, padding=1), Residual(3 * scale), Residual(3 * scale), nn.Flatten(), nn.Linear(48 * scale, 3))
    optimiser = optim.SGD(model.parameters(), lr=0.05)
    history = []

    def step(number):
        x, y = tnp.asarray(draw.randn(3 * scale, 1, 4, 4).astype("float32")), draw.randint(0, 3, 3 * scale)
        optimiser.zero_grad()
        with ts.record():
            loss = functional.cross_entropy(model(x), tnp.asarray(y))
        loss.backward()
        optimiser.step()
        if number % 4 == 3:
            model.eval()
            history.append(float(numpy.mean(numpy.argmax(model(x).numpy(), -1) == y)))
            model.train()
            told.append(len(history))
        return loss

    return step


def proposals(told, scale=1):
    """Faster R-CNN: NumPy chooses among proposals by their scores, and raises where there is none; features of a region are a product with its mask."""
    draw = numpy.random.RandomState(16)
    channels, most, places = 3 * scale, 4, 25
    backbone, scorer, head = nn.Conv2d(1, channels, 3, padding=1), nn.Conv2d(channels, 1, 1), nn.Linear(channels, 2)
    optimiser = optim.Adam([*backbone.parameters(), *scorer.parameters(), *head.parameters()], lr=0.01)

    def chosen(scores, limit):
        regions, taken = [], numpy.zeros((5, 5), bool)
        for place in numpy.argsort(-scores):
            row, column = divmod(int(place), 5)
            if len(regions) < most and scores[place] > limit and not taken[row, column]:
                mask = numpy.zeros((5, 5), "float32")
                mask[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2] = 1
                taken |= mask > 0
                regions.append(mask.ravel() / mask.sum())
        if not regions:
            raise LookupError("no region")
        return numpy.stack([*regions, *[regions[-1]] * (most - len(regions))])

    def step(number):
        x, wanted = tnp.asarray(draw.randn(1, 1, 5, 5).astype("float32")), (draw.rand(places) < 0.3).astype("float32")
        optimiser.zero_grad()
        with ts.record():
            features = functional.relu(backbone(x))
            scores = tnp.reshape(scorer(features), (places,))
            loss = functional.binary_cross_entropy_with_logits(scores, tnp.asarray(wanted))
            try:
                masks = chosen(scores.numpy().copy(), 1e9 if number % 5 == 4 else -1e9)
                pooled = tnp.asarray(masks) @ tnp.matrix_transpose(tnp.reshape(features, (channels, places)))
                loss = loss + functional.cross_entropy(head(pooled), tnp.asarray((masks @ wanted > 0.3).astype("int64")))
            except LookupError as error:
                told.append(str(error))
        loss.backward()
        optimiser.step()
        return loss

    return step


def scales(told, scale=1):
    """YOLOv3: images of another size every few steps, and targets that NumPy lays into grids; what is best so far is kept as a copy."""
    draw = numpy.random.RandomState(17)
    channels = 3 * scale
    model = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(channels, 3, 1))
    optimiser = optim.Adam(model.parameters(), lr=0.01)
    best = {"loss": 1e9, "weight": None}

    def targets(size, count):
        grid = numpy.zeros((2, 3, size, size), "float32")
        for _ in range(count):
            image, row, column = draw.randint(0, 2), *draw.randint(0, size, 2)
            grid[image, :, row, column] = [1, *draw.rand(2)]
        return grid

    def step(number):
        size = (4, 6)[number // 5 % 2] * scale
        x, grid = tnp.asarray(draw.randn(2, 1, size, size).astype("float32")), tnp.asarray(targets(size, draw.randint(1, 4)))
        optimiser.zero_grad()
        with ts.record():
            found = model(x)
            loss = functional.binary_cross_entropy_with_logits(found[:, 0], grid[:, 0])
            loss = loss + tnp.sum(grid[:, :1] * (found[:, 1:] - grid[:, 1:]) ** 2.0) / tnp.sum(grid[:, 0])
        loss.backward()
        optimiser.step()
        if number % 10 == 9 and loss.item() < best["loss"]:
            best.update(loss=loss.item(), weight=model[0].weight.numpy().copy())
            told.append(number)
        return loss

    return step


PROGRAMS = {
    "BERT Q&A": bert_questions,
    "BERT-CLS": bert_classes,
    "MusicTransformer": music_transformer,
    "SDPoint": random_points,
    "ResNet": residual_network,
    "Faster R-CNN": proposals,
    "YOLOv3": scales,
}
