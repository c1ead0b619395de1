"""Training as users write it, beside imperative.py and imperative_models.py: models that draw, two optimisers, searches with a heap, caches that grow, state in
data classes, generators that are sent to, steps that fail and go on. Each takes what converts its step, and gives all that it has found and left.
"""

import collections
import dataclasses
import heapq

import numpy
from imperative import plain, program

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn, optim

functional = nn.functional


def of(draw, *shape):
    return tnp.asarray(draw.standard_normal(shape).astype("float32"))


@program
def noise_that_numpy_draws(convert):
    nn.manual_seed(1)
    draw = numpy.random.default_rng(1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(6, 4), nn.Linear(2, 6)

        def forward(self, x):
            mean, log_variance = (h := self.encoder(x))[:, :2], h[:, 2:]
            noise = tnp.asarray(draw.standard_normal(mean.shape).astype("float32"))
            return self.decoder(mean + tnp.exp(log_variance * 0.5) * noise), mean, log_variance

    model = Model()
    optimiser = optim.Adam(model.parameters(), lr=0.02)
    history = collections.defaultdict(list)

    def step(x, beta):
        optimiser.zero_grad()
        with ts.record():
            found, mean, log_variance = model(x)
            rebuilt = functional.mse_loss(found, x)
            divergence = -0.5 * tnp.mean(1 + log_variance - mean**2.0 - tnp.exp(log_variance))
            loss = rebuilt + beta * divergence
        loss.backward()
        optimiser.step()
        history["rebuilt"].append(rebuilt.item())
        history["divergence"].append(divergence.item())
        return loss

    step = convert(step)
    data = of(draw, 5, 6)
    return [plain(step(data, min(1.0, i / 4))) for i in range(8)], dict(history)


@program
def attention_with_a_list_of_keys(convert):
    nn.manual_seed(2)
    draw = numpy.random.default_rng(2)
    queries, keys, values, out = (nn.Linear(4, 4) for _ in range(4))
    cache = []

    def step(x, last=3):
        cache.append((keys(x), values(x)))
        if len(cache) > last:
            cache.pop(0)
        k, v = (tnp.stack(each) for each in zip(*cache))
        weights = functional.softmax(k @ queries(x) * 4**-0.5, 0)
        return out(tnp.sum(v * weights[:, None], axis=0))

    step = convert(step)
    x, found = of(draw, 4), []
    for _ in range(9):
        x = step(x)
        found.append(plain(x))
    return found, plain(cache)


@program
def beam_search_with_a_heap(convert):
    draw = numpy.random.default_rng(3)
    table = functional.log_softmax(of(draw, 5, 5), 1)

    def step(beams, width=3):
        heap = []
        for score, path in beams:
            row = table[path[-1]]
            for token in range(5):
                heapq.heappush(heap, (float(row[token]) + score, (*path, token)))
                if len(heap) > width:
                    heapq.heappop(heap)
        return sorted(heap, reverse=True)

    step = convert(step)
    beams, found = [(0.0, (0,))], []
    for _ in range(6):
        beams = step(beams)
        found.append([(round(score, 4), list(path)) for score, path in beams])
    return found


@program
def two_optimisers(convert):
    nn.manual_seed(4)
    draw = numpy.random.default_rng(4)
    parts = {"maker": nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)), "judge": nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))}
    optimisers = {name: optim.RMSprop(part.parameters(), lr=0.01) for name, part in parts.items()}

    def step(real, number):
        losses = {}
        for name, wanted in (("judge", 0.0), ("maker", 1.0)):
            if name == "maker" and number % 2:
                continue
            optimisers[name].zero_grad()
            with ts.record():
                fake = parts["maker"](of(draw, 4, 2))
                scores = parts["judge"](fake if name == "maker" else fake * 1.0)
                loss = functional.binary_cross_entropy_with_logits(scores, tnp.full_like(scores, wanted))
                if name == "judge":
                    known = parts["judge"](real)
                    loss = loss + functional.binary_cross_entropy_with_logits(known, tnp.ones_like(known))
            loss.backward()
            optimisers[name].step()
            losses[name] = loss
        for part in parts.values():
            for each in part.parameters():
                each.grad = None
        return losses

    step = convert(step)
    real = of(draw, 4, 3)
    return [plain(step(real, number)) for number in range(8)], [plain(each) for part in parts.values() for each in part.parameters()]


@program
def data_classes_as_state(convert):
    @dataclasses.dataclass
    class State:
        w: object
        velocity: object
        count: int = 0
        seen: list = dataclasses.field(default_factory=list)

        @property
        def size(self):
            return tnp.sum(self.w * self.w)

    def step(state, g, *, rate=0.1):
        velocity = state.velocity * 0.9 + g
        state.seen.append(state.count)
        if (count := state.count + 1) % 3 == 0:
            velocity = velocity * 0.0
        return dataclasses.replace(state, w=state.w - rate * velocity, velocity=velocity, count=count)

    step = convert(step)
    state = State(tnp.ones(3), tnp.zeros(3))
    found = []
    for i in range(9):
        state = step(state, tnp.asarray([1.0, -1.0, i / 2]))
        found.append([plain(state.w), plain(state.size), state.count, list(state.seen)])
    return found


@program
def generators_that_are_sent_to(convert):
    def averages(decay):
        mean = None
        while True:
            given = yield mean
            if given is None:
                return "over"
            mean = given if mean is None else mean * decay + given * (1 - decay)

    kept = averages(0.5)
    next(kept)

    def step(x):
        y = tnp.tanh(x) * 2.0
        return y + kept.send(y)

    step = convert(step)
    return [plain(step(tnp.asarray([float(i), -1.0]))) for i in range(8)]


@program
def nonlocal_names(convert):
    def training(w):
        best, since, stopped = float("inf"), 0, []

        def step(x):
            nonlocal w, best, since
            loss = tnp.sum((w * x - 1.0) ** 2.0)
            w = w - 0.1 * 2.0 * (w * x - 1.0) * x
            if (now := float(loss)) < best - 1e-3:
                best, since = now, 0
            else:
                since += 1
            if since >= 2:
                stopped.append(round(now, 5))
                raise StopIteration
            return loss

        step, losses = convert(step), []
        try:
            for i in range(30):
                losses.append(plain(step(tnp.asarray([1.0, 0.5 + i % 2]))))
        except StopIteration:
            pass
        return losses, plain(w), best, since, stopped

    return training(tnp.asarray([2.0, -1.0]))


@program
def finally_around_a_step(convert):
    w = tnp.asarray([1.0, 2.0])
    w.requires_grad = True
    told, scale = [], {"now": 8.0, "good": 0}

    def step(x):
        before = w * 1.0
        try:
            w.grad = None
            with ts.record():
                loss = tnp.sum(w * x) * scale["now"]
            loss.backward()
            if not bool(tnp.isfinite(loss)):
                raise OverflowError("the loss is no number")
            w[...] = w - w.grad * (0.01 / scale["now"])
            scale["good"] += 1
            return tnp.sum(w)
        except OverflowError as error:
            scale["now"] /= 2
            told.append(str(error))
            w[...] = before
            return None
        finally:
            told.append(round(float(tnp.max(before)), 4))

    step = convert(step)
    return [plain(step(tnp.asarray([float(i), 1.0 if i % 4 else float("inf")]))) for i in range(1, 11)], told, scale, plain(w)


@program
def modules_by_name(convert):
    nn.manual_seed(8)
    draw = numpy.random.default_rng(8)
    heads = nn.ModuleDict({name: nn.Linear(3, size) for name, size in (("a", 2), ("b", 4), ("c", 2))})
    trunk = nn.Linear(3, 3)
    optimiser = optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1, momentum=0.5)
    counts = collections.Counter()

    def step(x, names):
        optimiser.zero_grad()
        with ts.record():
            h = functional.relu(trunk(x))
            losses = {name: tnp.mean(heads[name](h) ** 2.0) for name in names if name in heads}
            loss = sum(losses.values()) / len(losses)
        loss.backward()
        counts.update(losses)
        norm = optim.clip_grad_norm_([each for name in losses for each in heads[name].parameters()], 0.5)
        optimiser.step()
        return loss, norm, sorted(losses)

    step = convert(step)
    x = of(draw, 4, 3)
    return [plain(step(x, names)) for names in (["a"], ["a", "b"], ["z", "a"], ["c", "b"]) * 3], counts


@program
def early_stopping_in_a_step(convert):
    w = tnp.asarray([3.0, -2.0])
    w.requires_grad = True

    def step(x, tolerance):
        losses = []
        for turn in range(20):
            w.grad = None
            with ts.record():
                loss = tnp.sum((w - x) ** 2.0)
                if turn % 3 == 2:
                    loss = loss + 0.1 * tnp.sum(tnp.abs(w))
            loss.backward()
            w[...] = w - 0.2 * w.grad
            losses.append(loss.item())
            if len(losses) > 1 and abs(losses[-1] - losses[-2]) < tolerance:
                break
        else:
            losses.append(-1.0)
        return len(losses), losses[-1], tnp.sum(w)

    step = convert(step)
    return [plain(step(tnp.asarray([float(i % 3), 0.5]), 10.0 ** -(1 + i % 2))) for i in range(8)], plain(w)


@program
def control_flow_while_it_is_recorded(convert):
    w = tnp.asarray([0.5, 1.5, -1.0])
    w.requires_grad = True

    def inner(h, depth):
        if depth == 0 or float(tnp.sum(h)) > 4.0:
            return h
        return inner(tnp.where(h > 0, h * 1.5, h * 0.5) + w, depth - 1)

    def step(x, depth):
        w.grad = None
        with ts.record():
            h, turns = x * w, 0
            while float(tnp.max(tnp.abs(h))) > 1.0 and turns < 5:
                h, turns = h * 0.7, turns + 1
            for i, each in enumerate(inner(h, depth) for _ in range(2)):
                h = h + each if i else each * 2.0
            loss = tnp.sum(h) if turns % 2 else tnp.sum(h * h)
        loss.backward()
        return loss, w.grad, turns

    step = convert(step)
    return [plain(step(tnp.asarray([i % 3 / 2, 1.0, -0.5 * (i % 3)]), i % 3)) for i in range(12)]
