"""Models as their users train them: of `imperative.PROGRAMS` those whose state is models, optimisers and what surrounds these."""

import collections
import copy
import heapq
import random

import numpy
from imperative import plain, program

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn, optim

functional = nn.functional


def rows(draw, *shape):
    return tnp.asarray(draw.randn(*shape).astype("float32"))


@program
def variational_autoencoder(convert):
    """Batches of any size, noise of the library's stream, two losses of which one warms up."""
    nn.manual_seed(1)
    draw, noise = numpy.random.RandomState(1), tnp.random.Generator(3)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Linear(6, 8), nn.Linear(2, 6)
            self.heads = nn.ModuleDict({name: nn.Linear(8, 2) for name in ("mean", "spread")})

        def forward(self, x):
            x = tnp.tanh(self.into(x))
            mean, spread = (self.heads[name](x) for name in ("mean", "spread"))
            hidden = mean + tnp.exp(0.5 * spread) * noise.normal(mean.shape, dtype=tnp.float32)
            return self.out(hidden), mean, spread

    model = Model()
    optimiser, told = optim.Adam(model.parameters(), lr=0.01), collections.defaultdict(list)

    @convert
    def step(x, number):
        optimiser.zero_grad()
        with ts.record():
            found, mean, spread = model(x)
            error = functional.mse_loss(found, x)
            distance = -0.5 * tnp.mean(1 + spread - mean**2.0 - tnp.exp(spread))
            loss = error + min(1.0, number / 5) * distance
        loss.backward()
        optimiser.step()
        told["error"].append(float(error))
        return loss

    losses = [step(rows(draw, n, 6), i) for i, n in enumerate([8, 8, 5, 8, 3, 8, 1, 8, 8, 5, 8, 7, 8, 5, 8, 8])]
    return plain([losses, dict(told), noise.state])


@program
def decoding_with_a_cache(convert):
    """Keys and values of the words so far are lists that grow; a word ends it."""
    nn.manual_seed(2)
    words, keys, values, queries = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    class Cache:
        def __init__(self):
            self.keys, self.values = [], []

    @convert
    def step(cache, word):
        x = words(tnp.asarray([word]))
        cache.keys.append(keys(x))
        cache.values.append(values(x))
        all_keys, all_values = tnp.concat(cache.keys), tnp.concat(cache.values)
        chances = functional.softmax(queries(x) @ all_keys.T * 0.5, -1)
        scores = (x + chances @ all_values) @ words.weight.T
        return int(tnp.argmax(scores[0] * tnp.asarray(numpy.arange(9) != word, dtype=tnp.float32)))

    told = []
    for begin in (3, 1, 4, 5):
        cache, word, text = Cache(), begin, []
        while len(text) < 6 and word != 7:
            word = step(cache, word)
            text.append(word)
        told.append((text, len(cache.keys), plain(cache.values[-1])))
    return told


@program
def beam_search(convert):
    """A heap of texts by their scores, of which each step takes the best."""
    nn.manual_seed(3)
    table = nn.Linear(5, 5)

    @convert
    def step(heap, done, width):
        score, text = heapq.heappop(heap)
        seen = tnp.asarray([float(text.count(i)) for i in range(5)], dtype=tnp.float32)
        chances = functional.log_softmax(table(seen), -1).tolist()
        for word in sorted(range(5), key=lambda i: -chances[i])[:width]:
            each = (round(score - chances[word], 4), (*text, word))
            if word == 0 or len(each[1]) == 4:
                done.append(each)
            else:
                heapq.heappush(heap, each)
        return len(heap)

    told = []
    for begin in range(4):
        heap, done = [(0.0, (begin,))], []
        while heap and len(done) < 4:
            told.append(step(heap, done, 2))
        told.append(sorted(done))
    return told


@program
def routed_experts(convert):
    """A dict of modules, of which a number that a tensor holds takes one; its optimiser alone steps."""
    nn.manual_seed(4)
    draw = numpy.random.RandomState(4)
    router = nn.Linear(3, 3)
    experts = {name: nn.Linear(3, 2) for name in ("a", "b", "c")}
    optimisers = {name: optim.SGD(each.parameters(), lr=0.1) for name, each in experts.items()}
    used = collections.Counter()

    @convert
    def step(x, y):
        name = sorted(experts)[int(tnp.argmax(tnp.mean(router(x), axis=0)))]
        used[name] += 1
        optimisers[name].zero_grad()
        with ts.record():
            loss = functional.mse_loss(experts[name](x), y)
        loss.backward()
        optimisers[name].step()
        return loss

    losses = [step(rows(draw, 4, 3) * 3, rows(draw, 4, 2)) for _ in range(14)]
    return plain([losses, dict(used)])


@program
def early_stopping(convert):
    """The best weights are kept as copies and taken back; a class decides when to stop."""
    nn.manual_seed(5)
    draw = numpy.random.RandomState(5)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    optimiser = optim.SGD(model.parameters(), lr=0.4)
    x, y = rows(draw, 6, 3), rows(draw, 6, 1)

    class Stopper:
        best, waited, state = float("inf"), 0, None

        def __call__(self, loss):
            if (value := float(loss)) < self.best - 1e-3:
                self.best, self.waited, self.state = value, 0, {name: tnp.asarray(each, copy=True) for name, each in model.state_dict().items()}
            else:
                self.waited += 1
            return self.waited > 2

    stopper, history = Stopper(), []

    @convert
    def step():
        optimiser.zero_grad()
        with ts.record():
            loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimiser.step()
        history.append(float(loss))
        return stopper(loss)

    for _ in range(30):
        if step():
            break
        if len(history) == 12:
            optimiser.param_groups[0]["lr"] = 2.5
    model.load_state_dict(stopper.state)
    return plain([history, stopper.best, stopper.waited, float(functional.mse_loss(model(x), y))])


@program
def replayed_games(convert):
    """A deque of what was seen, drawn from by `random`, and a second model that follows the first one slowly."""
    nn.manual_seed(6)
    draw, chance = numpy.random.RandomState(6), random.Random(6)
    model = nn.Linear(3, 2)
    follower, seen = copy.deepcopy(model), collections.deque(maxlen=12)
    optimiser = optim.Adam(model.parameters(), lr=0.05)

    @convert
    def step(count):
        for _ in range(2):
            seen.append((draw.randn(3).astype("float32"), chance.randrange(2), chance.random(), draw.randn(3).astype("float32")))
        if len(seen) < count:
            return None
        before, actions, rewards, after = zip(*chance.sample(list(seen), count))
        goal = tnp.asarray(rewards, dtype=tnp.float32) + 0.9 * tnp.max(follower(tnp.asarray(numpy.stack(after))), axis=1)
        optimiser.zero_grad()
        with ts.record():
            chosen = tnp.take_along_axis(model(tnp.asarray(numpy.stack(before))), tnp.asarray(actions)[:, None], axis=1)[:, 0]
            loss = tnp.mean((chosen - goal) ** 2.0)
        loss.backward()
        optimiser.step()
        for ours, theirs in zip(model.parameters(), follower.parameters()):
            theirs[...] = theirs * 0.9 + ours * 0.1
        return float(loss)

    losses = [step(4 + i % 3) for i in range(14)]
    return plain([losses, [each for each in follower.parameters()], chance.random()])


@program
def learning_to_learn(convert):
    """Gradients through a step of gradients, with weights in a dict."""
    nn.manual_seed(7)
    draw = numpy.random.RandomState(7)
    weights = {"w": rows(draw, 2, 2), "b": tnp.zeros(2, dtype=tnp.float32)}

    def loss_of(w, b, x, y):
        return tnp.mean((tnp.tanh(x @ w) + b - y) ** 2.0)

    @convert
    def step(tasks, rate):
        def outer(w, b):
            total = 0.0
            for x, y in tasks:
                dw, db = ts.grad(loss_of, (0, 1))(w, b, x, y)
                total = total + loss_of(w - rate * dw, b - rate * db, x, y)
            return total / len(tasks)

        value, (dw, db) = ts.value_and_grad(outer, (0, 1))(weights["w"], weights["b"])
        weights["w"], weights["b"] = weights["w"] - 0.3 * dw, weights["b"] - 0.3 * db
        return value

    losses = [step([(rows(draw, 3, 2), rows(draw, 3, 2)) for _ in range(2 + i % 2)], 0.1 + 0.05 * (i % 3)) for i in range(9)]
    return plain([losses, weights])


@program
def scopes_around_a_step(convert):
    """`try` and `finally` put back what a step has changed, whatever ends it; nested functions count by `nonlocal`."""
    nn.manual_seed(8)
    draw = numpy.random.RandomState(8)
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))
    tried = failed = 0

    def evaluated(x):
        nonlocal failed
        was = model.training
        model.eval()
        try:
            y = model(x)
            if float(tnp.max(y)) > 1.0:
                failed += 1
                raise ValueError(f"{failed} large")
            return y
        finally:
            model.train(was)

    @convert
    def step(x, silent):
        nonlocal tried
        tried += 1
        try:
            return tnp.sum(evaluated(x))
        except ValueError as error:
            if not silent:
                raise
            return str(error)

    told = []
    for i in range(16):
        try:
            told.append(plain(step(rows(draw, 2 + i % 4, 3) * (1 + i % 3), i % 4 != 3)))
        except ValueError as error:
            told.append(("raised", str(error)))
    return [told, tried, failed, model.training]


@program
def padded_texts(convert):
    """Texts of many lengths, padded to the longest of a batch, and masked."""
    nn.manual_seed(9)
    draw = numpy.random.RandomState(9)
    words, head = nn.Embedding(10, 4), nn.Linear(4, 2)
    optimiser = optim.AdamW([*words.parameters(), *head.parameters()], lr=0.05)

    def padded(texts):
        longest = max(map(len, texts))
        return numpy.array([[*text, *[0] * (longest - len(text))] for text in texts])

    @convert
    def step(texts, wanted):
        text = tnp.asarray(padded(texts))
        mask = tnp.astype(text != 0, tnp.float32)[:, :, None]
        optimiser.zero_grad()
        with ts.record():
            x = tnp.sum(words(text) * mask, axis=1) / tnp.maximum(tnp.sum(mask, axis=1), 1.0)
            loss = functional.cross_entropy(head(x), wanted)
        loss.backward()
        optimiser.step()
        return loss, float(tnp.mean(tnp.astype(tnp.argmax(head(x), axis=1) == wanted, tnp.float32)))

    told = []
    for _ in range(12):
        texts = [draw.randint(1, 10, draw.randint(1, 7)).tolist() for _ in range(draw.randint(2, 5))]
        told.append(step(texts, tnp.asarray([len(text) % 2 for text in texts])))
    return plain(told)


@program
def adaptive_integration(convert):
    """Steps of an integrator are halved until the error is small, and doubled where it is tiny; the trajectory is a list."""
    field = tnp.asarray([[0.0, 1.0], [-1.0, -0.2]], dtype=tnp.float32)

    def slope(x):
        return field @ tnp.sin(x)

    @convert
    def step(x, size, path):
        while True:
            coarse = x + size * slope(x)
            middle = x + 0.5 * size * slope(x)
            fine = middle + 0.5 * size * slope(middle)
            error = float(tnp.max(tnp.abs(fine - coarse)))
            if error < 0.02:
                break
            size *= 0.5
        path.append((round(size, 6), round(error, 5)))
        return fine, size * 2 if error < 0.005 else size

    x, size, path = tnp.asarray([2.0, 0.0], dtype=tnp.float32), 1.0, []
    for _ in range(24):
        x, size = step(x, size, path)
    return plain([x, size, path])


@program
def growing_clusters(convert):
    """Centres are added while points lie far away, so that sizes grow with what tensors hold; empty ones are taken out by NumPy."""
    draw = numpy.random.RandomState(10)
    points = rows(draw, 20, 2) * 3

    @convert
    def step(centres, limit):
        distances = tnp.sum((points[:, None] - centres[None]) ** 2.0, axis=2)
        nearest = tnp.argmin(distances, axis=1)
        least = tnp.min(distances, axis=1)
        if float(tnp.max(least)) > limit:
            centres = tnp.concat([centres, points[int(tnp.argmax(least))][None]])
            return centres, len(centres)
        counts = numpy.bincount(nearest.numpy(), minlength=centres.shape[0])
        members = tnp.astype(nearest[:, None] == tnp.arange(centres.shape[0])[None], tnp.float32)
        moved = members.T @ points / tnp.asarray(numpy.maximum(counts, 1)[:, None].astype("float32"))
        return moved, int((counts > 0).sum())

    centres, told = points[:1], []
    for i in range(16):
        centres, count = step(centres, 30.0 if i < 8 else 8.0)
        told.append((count, centres.shape))
    return plain([told, centres])


@program
def coroutines_that_are_fed(convert):
    """A generator is sent losses and gives rates; `match` tells events; a NamedTuple is the state."""

    class State(collections.namedtuple("State", "w rate")):
        pass

    def schedule():
        rate, best = 0.5, None
        while True:
            loss = yield rate
            if best is not None and loss > best:
                rate *= 0.5
            best = loss if best is None else min(best, loss)

    rates = schedule()
    next(rates)

    def rated(loss, event):
        match event:
            case ("raise", float(factor)):
                return rates.send(loss) * factor
            case "keep" | None:
                return rates.send(loss)
            case _:
                raise TypeError(event)

    @convert
    def step(state, x, event):
        value, slope = ts.value_and_grad(lambda w: tnp.mean((x @ w - 1.0) ** 2.0))(state.w)
        return state._replace(w=state.w - state.rate * slope, rate=rated(float(value), event)), value

    draw = numpy.random.RandomState(11)
    state, told = State(tnp.zeros(3, dtype=tnp.float32), 0.5), []
    for i in range(12):
        try:
            state, value = step(state, rows(draw, 3 + i % 3, 3), [None, "keep", ("raise", 1.5), 4][i % 4])
            told.append(float(value))
        except TypeError as error:
            told.append(str(error))
    return plain([told, list(state)])
