"""Small imperative programs as their users would write them, of kinds that Python has and graphs have not: hierarchies of classes, closures and objects that
are changed, generators, scopes, exceptions with `finally`, NumPy in the middle, views, random streams, threads. Each takes what converts its step, and gives
all that it has found and left.
"""

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import pickle
import random
import threading
import typing

import numpy

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn, optim

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def plain(x):
    if isinstance(x, tnp.dtypes.Tensor):
        return x.tolist()
    if isinstance(x, (list, tuple)):
        return [plain(each) for each in x]
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    return x


@program
def class_hierarchy(convert):
    class Layer(abc.ABC):
        count = 0

        def __init__(self, w):
            self.w = w

        @abc.abstractmethod
        def apply(self, x): ...
        def __call__(self, x):
            type(self).count += 1
            return self.apply(x)

    class Scale(Layer):
        def apply(self, x):
            return x * self.w

    class Shifted(Scale):
        def apply(self, x):
            return super().apply(x) + 1.0

        @property
        def doubled(self):
            return self.w * 2.0

        @classmethod
        def of(cls, v):
            return cls(tnp.asarray(v))

        @staticmethod
        def half(x):
            return x * 0.5

    layers = [Scale(tnp.asarray(2.0)), Shifted.of(3.0)]

    @convert
    def step(x):
        for l in layers:
            x = l(x)
        x = Shifted.half(x) + layers[1].doubled
        return x, Scale.count, Shifted.count

    return [plain(step(tnp.asarray([1.0 * i, 2.0]))) for i in range(6)]


@program
def closures_that_mutate(convert):
    def counter():
        n = 0
        seen = []

        def add(x):
            nonlocal n
            n += 1
            seen.append(float(tnp.sum(x)))
            return n

        return add, seen

    add, seen = counter()

    @convert
    def step(x):
        k = add(x)
        y = x * k
        if k % 3 == 0:
            y = y - add(y)
        return y

    out = [plain(step(tnp.asarray([i, 1.0]))) for i in range(7)]
    return out, seen


@program
def data_classes_that_are_made(convert):
    """Defaults, factories, fields that are no parameters, what only `__post_init__` is given, names alone, frozen, and derived ones."""

    @dataclasses.dataclass
    class Node:
        x: object
        scale: dataclasses.InitVar[float] = 2.0
        depth: int = 0
        log: list = dataclasses.field(default_factory=list)
        seen: dict = dataclasses.field(default_factory=dict, init=False)

        def __post_init__(self, scale):
            self.x = self.x * scale
            self.log.append(self.depth)

    @dataclasses.dataclass(kw_only=True)
    class Leaf(Node):
        rate: float

    @dataclasses.dataclass(frozen=True)
    class Setting:
        rate: float = 0.5
        names: tuple = ("a", "b")

        def __post_init__(self):
            if self.rate > 0.8:
                raise ValueError(f"a rate of {self.rate}")

    kept = Node(tnp.zeros(2))

    @convert
    def step(x, rate):
        node = Node(x, depth=1)
        for _ in range(2):
            node = Node(tnp.tanh(node.x), 0.5, node.depth + 1, node.log)
        leaf = Leaf(x=node.x, rate=rate, log=[*node.log])
        try:
            setting = Setting(leaf.rate)
        except ValueError as error:
            setting = Setting(names=(str(error),))
        kept.x = kept.x + leaf.x * setting.rate
        kept.log = node.log
        return kept.x, [setting.names, leaf.log, leaf.seen], setting

    out = [step(tnp.asarray([i, 1.0]), rate) for i, rate in enumerate([0.1, 0.2, 0.9, 0.3, 0.95, 0.4, 0.5])]
    return [(plain(x), told, dataclasses.astuple(setting)) for x, told, setting in out], plain(kept.x), kept.log


@program
def named_tuples_that_are_replaced(convert):
    """A filter's state, by the methods that a named tuple has."""

    class State(typing.NamedTuple):
        mean: object
        seen: int = 0
        names: tuple = ("a",)

        @classmethod
        def begin(cls, x):
            return cls._make([x * 0.0, 0, cls._field_defaults["names"]])

    state = State.begin(tnp.asarray([1.0, 2.0]))

    @convert
    def step(state, x):
        moved = state._replace(mean=state.mean * 0.9, seen=state.seen + 1)
        if x is None:
            return moved
        moved = state.begin(moved.mean)._replace(names=(*moved.names, "b")[-2:], seen=moved.seen)
        told = moved._asdict()
        return State._make([told["mean"] + x, told["seen"], told["names"] if len(moved._fields) == 3 else ()])

    out = []
    for i in range(9):
        state = step(state, None if i % 4 == 3 else tnp.asarray([i, 1.0]))
        out.append([plain(state.mean), state.seen, list(state.names)])
    return out


@program
def data_classes(convert):
    @dataclasses.dataclass
    class State:
        x: object
        steps: int = 0
        log: list = dataclasses.field(default_factory=list)

    @dataclasses.dataclass(frozen=True)
    class Config:
        rate: float = 0.5
        name: str = "a"

    cfg = Config()
    s = State(tnp.zeros(2))

    @convert
    def step(g):
        nonlocal cfg
        s.x = s.x - g * cfg.rate
        s.steps += 1
        if s.steps % 4 == 0:
            s.log.append(s.x)
        if s.steps == 5:
            cfg = dataclasses.replace(cfg, rate=0.25)
        return dataclasses.replace(s, log=list(s.log)).x, dataclasses.asdict(cfg)["rate"]

    out = [plain(step(tnp.asarray([1.0, i]))) for i in range(9)]
    return out, plain(s.log), s.steps


@program
def generators(convert):
    def windows(x, n):
        for i in range(x.shape[0] - n + 1):
            yield x[i : i + n]

    def running():
        total = None
        while True:
            x = yield total
            total = x if total is None else total * 0.5 + x

    r = running()
    next(r)

    @convert
    def step(x):
        y = sum(tnp.sum(w) * i for i, w in enumerate(windows(x, 2)))
        return r.send(y), [plain(t) for t in (tnp.max(w) for w in windows(x, 3))]

    return [plain(step(tnp.asarray([1.0, i, 2.0, i * i]))) for i in range(6)]


@program
def context_managers(convert):
    events = []

    class Scope:
        def __init__(self, f):
            self.f = f

        def __enter__(self):
            events.append("in")
            return self.f

        def __exit__(self, t, e, tb):
            events.append("out" if t is None else t.__name__)
            return t is ValueError

    @contextlib.contextmanager
    def temporarily(o, k, v):
        old = getattr(o, k)
        setattr(o, k, v)
        try:
            yield old
        finally:
            setattr(o, k, old)

    class O:
        scale = 2.0

    o = O()

    @convert
    def step(x, bad):
        with Scope(tnp.sum) as f, temporarily(o, "scale", 3.0):
            y = f(x * o.scale)
            if bad:
                raise ValueError("bad")
            x = x + y
        return x * o.scale

    return [plain(step(tnp.asarray([i, 1.0]), i % 3 == 2)) for i in range(8)], events


@program
def exceptions_with_finally(convert):
    log = []
    buf = tnp.zeros(2)

    class Bad(Exception):
        pass

    def inner(x):
        try:
            if float(tnp.max(x)) > 3:
                raise Bad("large")
            return x * 2.0
        except KeyError:
            log.append("never")
        else:
            log.append("else")
        finally:
            buf[...] = buf + 1.0
            log.append("finally")

    @convert
    def step(x):
        for k in range(2):
            try:
                x = inner(x)
            except Bad as e:
                log.append(str(e))
                try:
                    raise RuntimeError("again") from e
                except RuntimeError as f:
                    log.append(type(f.__cause__).__name__)
                    return x - buf
            finally:
                log.append(k)
        return x + buf

    return [plain(step(tnp.asarray([i * 0.5, 1.0]))) for i in range(7)], log, plain(buf)


@program
def numpy_in_the_middle(convert):
    w = tnp.asarray(numpy.eye(3))
    hist = numpy.zeros(3)

    @convert
    def step(x):
        y = tnp.matmul(w, x)
        a = y.numpy().copy()
        hist[:] += a
        order = numpy.argsort(-a)
        z = y[int(order[0])] * tnp.asarray(a)
        b = numpy.clip(a, 0, 1)
        w[0, :] = w[0, :] + tnp.asarray(b) * 0.1
        return z, int(order[0]), float(numpy.linalg.norm(a))

    r = numpy.random.RandomState(1)
    return [plain(step(tnp.asarray(r.randn(3)))) for _ in range(7)], hist.tolist(), plain(w)


@program
def in_place_views(convert):
    m = tnp.asarray(numpy.arange(12.0).reshape(3, 4))
    row, col, diag = m[1], m[:, 2], m[::2, ::2]

    @convert
    def safe(i):
        row[...] = row * 0.5
        diag[...] = diag + i
        m[:, 0] = m[:, 0] - m[:, 1]
        t = m.T
        t[0, 1] = 7.0
        return tnp.sum(m), row + 0.0, col * 1.0

    return [plain(safe(float(i))) for i in range(6)], plain(m)


@program
def random_states(convert):
    rng = tnp.random.Generator(5)
    nr = numpy.random.RandomState(2)
    pr = random.Random(3)

    @convert
    def step(x):
        n = rng.normal(x.shape)
        k = pr.randrange(3)
        m = tnp.asarray(nr.rand(*x.shape))
        if k == 0:
            n = n + rng.normal(x.shape)
        return x + n * m, k

    return [plain(step(tnp.zeros(3))) for _ in range(8)], pr.random(), nr.rand()


@program
def threads(convert):
    w = tnp.ones(3)
    lock = threading.Lock()
    outs = []

    @convert
    def step(x):
        with lock:
            y = x * w
            w[...] = w * 1.01
        return y

    def body(n):
        for i in range(4):
            outs.append(plain(step(tnp.asarray([1.0, 2.0, 3.0]))))

    for n in range(3):
        t = threading.Thread(target=body, args=(n,))
        t.start()
        t.join()
    return outs, plain(w)


@program
def enums_and_match(convert):
    class Mode(enum.Enum):
        ADD = 1
        MUL = 2
        NONE = 3

    @convert
    def step(x, mode):
        match mode:
            case Mode.ADD:
                y = x + 2.0
            case Mode.MUL:
                y = x * 3.0
            case _:
                y = x
        match (mode.name, x.shape):
            case ("ADD", (2,)):
                y = y - 1.0
            case (n, (k, *_)) if k > 2:
                y = y / k
        return y

    modes = list(Mode)
    return [plain(step(tnp.ones(2 + i % 2), modes[i % 3])) for i in range(9)]


@program
def containers(convert):
    q = collections.deque(maxlen=3)
    d = collections.defaultdict(list)
    c = collections.Counter()
    od = collections.OrderedDict()
    NT = collections.namedtuple("NT", "a b")

    @convert
    def step(x, k):
        q.append(x * 2.0)
        d[k].append(float(tnp.sum(x)))
        c.update([k])
        od[k] = x + 1.0
        od.move_to_end(k, last=False)
        t = NT(a=x, b=tnp.sum(x))
        s = t.b
        for e in q:
            s = s + tnp.sum(e)
        return t._replace(b=s).b, list(od)

    return [plain(step(tnp.asarray([i, 1.0]), "abc"[i % 3])) for i in range(9)], dict(d), dict(c)


@program
def operators_and_slots(convert):
    class V:
        __slots__ = ("x", "n")

        def __init__(self, x, n=0):
            self.x = x
            self.n = n

        def __add__(self, o):
            return V(self.x + o.x, self.n + o.n + 1)

        def __mul__(self, k):
            return V(self.x * k, self.n)

        __rmul__ = __mul__

        def __getitem__(self, i):
            return self.x[i]

        def __len__(self):
            return self.x.shape[0]

        def __eq__(self, o):
            return self.n == o.n

        def __hash__(self):
            return hash(self.n)

        def __iadd__(self, o):
            self.x = self.x + o.x
            self.n += 1
            return self

        def __contains__(self, k):
            return bool(tnp.any(self.x == k))

    acc = V(tnp.zeros(2))

    @convert
    def step(v):
        nonlocal acc
        u = 2 * v + v * 3.0
        acc += u
        return u[0], len(u), acc.n, u == v, 5.0 in u, u.x

    return [plain(step(V(tnp.asarray([float(i), 1.0]), i))) for i in range(6)], plain(acc.x)


@program
def decorators_and_caches(convert):
    calls = []

    def logged(f):
        @functools.wraps(f)
        def g(*a, **k):
            calls.append(f.__name__)
            return f(*a, **k)

        return g

    @functools.lru_cache(None)
    def table(n):
        calls.append(("table", n))
        return tnp.arange(n) * 1.0

    @logged
    def scaled(x, *, by=2.0):
        return x * by

    half = functools.partial(scaled, by=0.5)

    @convert
    def step(x):
        y = functools.reduce(lambda a, b: a + b, [scaled(x), half(x), table(x.shape[0])])
        return y, [*map(float, (tnp.sum(y), tnp.max(y)))]

    return [plain(step(tnp.ones(2 + i % 3) * i)) for i in range(8)], calls


@program
def training_with_schedules(convert):
    nn.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 1))
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    r = numpy.random.RandomState(0)
    best = [1e9]
    saved = {}

    @convert
    def step(i):
        x = tnp.asarray(r.randn(5, 3).astype("float32"))
        y = tnp.asarray(r.randn(5, 1).astype("float32"))
        if i % 4 == 3:
            model.eval()
        else:
            model.train()
        for g in opt.param_groups:
            g["lr"] = 0.1 * 0.9**i
        opt.zero_grad()
        with ts.record():
            loss = nn.functional.mse_loss(model(x), y)
        if model.training:
            loss.backward()
            opt.step()
        if loss.item() < best[0]:
            best[0] = loss.item()
            saved.update({k: v.numpy().copy() for k, v in model.state_dict().items()})
        return loss

    out = [round(float(step(i)), 5) for i in range(12)]
    return out, sorted(saved), [round(float(tnp.sum(p)), 5) for p in model.parameters()]


@program
def gradient_accumulation(convert):
    w = tnp.asarray([1.0, 2.0])
    w.requires_grad = True

    @convert
    def step(xs, clip):
        w.grad = None
        total = 0.0
        for x in xs:
            with ts.record():
                l = tnp.sum((x * w) ** 2.0)
            l.backward()
            total += float(l)
        n = float(tnp.sqrt(tnp.sum(w.grad**2.0)))
        g = w.grad * (clip / n) if n > clip else w.grad
        w[...] = w - 0.01 * g
        return total, n

    return [[round(v, 6) for v in step([tnp.asarray([1.0 * i, j]) for j in range(1 + i % 3)], 4.0)] for i in range(9)], plain(w)


@program
def recursion_and_defaults(convert):
    def fold(tree, depth=0, *, acc=None):
        acc = [] if acc is None else acc
        acc.append(depth)
        if isinstance(tree, tuple):
            l, _ = fold(tree[0], depth + 1, acc=acc)
            r, _ = fold(tree[1], depth + 1, acc=acc)
            return tnp.tanh(l + r * 0.5), acc
        return tree * 1.0, acc

    @convert
    def step(t):
        return fold(t)

    a = tnp.asarray([1.0, 2.0])
    trees = [a, (a, a), ((a, a), a), (a, (a, a)), ((a, a), (a, a))]
    return [[[round(v, 6) for v in plain(r)], d] for r, d in (step(trees[i % 5]) for i in range(11))]


@program
def strings_and_formatting(convert):
    out = []

    @convert
    def step(x, name):
        y = x * len(name)
        out.append(f"{name!r:>6}:{float(y[0]):.2f}|{y.shape}|{y.dtype}")
        key = "-".join(sorted(name)).upper()
        return y, key, name.split("a"), "%s=%d" % (name, x.shape[0])

    return [plain(step(tnp.ones(2), n)) for n in ("ab", "bca", "zz", "ab", "bca")], out


@program
def dict_and_set_work(convert):
    params = {"w": tnp.ones(2), "b": tnp.zeros(2)}
    frozen = {"b"}

    @convert
    def step(g):
        new = {k: (v if k in frozen else v - g * 0.1) for k, v in params.items()}
        params.update(new)
        first, *rest = list(params.values())
        if float(first[0]) < 0.7:
            frozen.discard("b")
        return {k: v + 0.0 for k, v in sorted(params.items())}, len(frozen), {**params, "c": first}["c"]

    return [plain(step(tnp.ones(2))) for _ in range(7)]


@program
def while_else_and_walrus(convert):
    @convert
    def step(x):
        n = 0
        while (s := float(tnp.sum(x))) < 10:
            n += 1
            if n > 4:
                break
            x = x * 1.5 + 1.0
        else:
            n = -n
        for i in range(3):
            if i == n:
                break
        else:
            x = x - 1.0
        return x, n, s

    return [plain(step(tnp.asarray([i * 1.0, 0.5]))) for i in range(8)]


@program
def properties_descriptors_getattr(convert):
    class D:
        def __get__(self, o, t):
            return o._v * 2.0

        def __set__(self, o, v):
            o._v = v * 0.5

    class A:
        v = D()

        def __init__(self, v):
            self.v = v

        def __getattr__(self, n):
            if n.startswith("x"):
                return int(n[1:])
            raise AttributeError(n)

        def __setattr__(self, n, v):
            object.__setattr__(self, n, v)

    a = A(tnp.ones(2))

    @convert
    def step(x):
        a.v = a.v + x
        has = hasattr(a, "y3")
        return a.v * a.x3, has, getattr(a, "zz", 7)

    return [plain(step(tnp.asarray([i, 1.0]))) for i in range(6)]


@program
def copies_pickles_weakrefs(convert):
    keep = []

    @convert
    def step(x):
        y = copy.copy(x) + 1.0
        z = copy.deepcopy([y, {"k": y}])
        same = z[0] is z[1]["k"]
        p = pickle.loads(pickle.dumps(y))
        z[0][0] = 9.0
        keep.append(y)
        return y + p, z[1]["k"], same

    return [plain(step(tnp.asarray([i, 1.0]))) for i in range(6)], plain(keep)
