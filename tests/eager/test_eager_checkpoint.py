"""Parts of a program that derivatives compute again: the derivatives are those of the program without, and hold less meanwhile."""

import gc
import re
import weakref

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import tensmith as ts  # noqa: E402
from random_recorded import program  # noqa: E402
from tensmith import derivatives, nn, optim  # noqa: E402
from tensmith.lowered import bytes_of, settings_of  # noqa: E402
from tensmith.recorded import statistics  # noqa: E402
from tensmith.recorded.lowering import graph_of  # noqa: E402

functional = nn.functional


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed, monkeypatch):
    """Within views, writes in place, branches and loops, and within one another."""
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")
    plain, given = program(2000 + seed)
    parts, _ = program(2000 + seed, ts.checkpoint)
    given = [tnp.asarray(each) for each in given]
    assert numpy.allclose(plain(*given), parts(*given), rtol=1e-12)
    for wanted, found in zip(ts.grad(plain, (0, 1))(*given), ts.grad(parts, (0, 1))(*given)):
        assert numpy.allclose(found, wanted, rtol=1e-9, atol=1e-9)
    assert numpy.allclose(ts.jvp(parts, given, given)[1], ts.jvp(plain, given, given)[1], rtol=1e-9)
    for x in given:
        x.requires_grad = True
    sums = []
    for each in (plain, parts):
        with ts.record():
            loss = each(*given)
        loss.backward()
        sums.append([numpy.zeros(x.shape) if x.grad is None else numpy.array(x.grad) for x in given])
        for x in given:
            x.grad = None
    assert all(numpy.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(*sums))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wide, self.narrow, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(self.narrow(functional.relu(self.wide(x))))


class Network(nn.Module):
    def __init__(self, width, depth, part):
        super().__init__()
        nn.manual_seed(5)
        self.blocks, self.part = nn.ModuleList([Block(width) for _ in range(depth)]), part

    def forward(self, x):
        for block in self.blocks:
            x = self.part(block)(x)
        return x


def trained(part, steps=4):
    """Losses and parameters."""
    network = Network(8, 3, part)
    optimiser = optim.Adam(network.parameters(), lr=0.01)
    draw, losses = numpy.random.RandomState(2), []
    for _ in range(steps):
        x = tnp.asarray(draw.randn(4, 8).astype("float32"))
        optimiser.zero_grad()
        with ts.record():
            loss = tnp.mean(network(x) ** 2)
        loss.backward()
        optimiser.step()
        losses.append(float(loss))
    return losses, [numpy.array(p) for p in network.parameters()]


def test_training_is_the_same():
    """Modules' parameters are read within the part, and masks of dropout are drawn there once."""
    (losses, parameters), (others, found) = trained(lambda block: block), trained(ts.checkpoint)
    assert numpy.allclose(losses, others, rtol=1e-5)
    assert all(numpy.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(parameters, found))


def test_the_second_step_compiles_nothing():
    trained(ts.checkpoint, 1)
    before = statistics()["compiled"] + statistics()["loaded"]
    trained(ts.checkpoint, 2)
    assert statistics()["compiled"] + statistics()["loaded"] == before


def planned(depth, part, monkeypatch):
    """Bytes of intermediate results that the program of the gradients sets aside."""
    texts, network = [], Network(16, depth, part).eval()
    with monkeypatch.context() as changes:
        original = derivatives.program_of
        changes.setattr(derivatives, "program_of", lambda text: texts.append(text) or original(text))
        with ts.record():
            loss = tnp.sum(network(tnp.ones((64, 16), dtype=tnp.float32)))
        loss.backward()
    (text,) = texts
    main = ts.load(bytes_of(graph_of(text).builder, settings_of({}))).describe()["functions"][0]
    return main["arena_bytes"]


def test_a_derivative_needs_no_more_memory_for_more_parts(monkeypatch):
    few, many = (planned(depth, ts.checkpoint, monkeypatch) for depth in (3, 9))
    plain = planned(9, lambda block: block, monkeypatch)
    assert many < 1.3 * few and many < 0.5 * plain


def test_results_are_what_they_were():
    """Writes behind the part change neither what it gave to the derivative, nor what it is computed of."""
    part = ts.checkpoint(lambda x, w: tnp.sin(x) * w)

    def function(x, w):
        scale = w * 1.0
        y = part(x, scale)
        total = tnp.sum(y * y)
        y *= 3.0
        scale += 1.0
        return total + tnp.sum(y * scale)

    def wanted(x, w):
        y = tnp.sin(x) * w
        return tnp.sum(y * y) + tnp.sum(3.0 * y * (w + 1.0))

    x, w = tnp.asarray([0.3, 1.1]), tnp.asarray([2.0, -0.7])
    for a, b in zip(ts.grad(function, (0, 1))(x, w), ts.grad(wanted, (0, 1))(x, w)):
        assert numpy.allclose(a, b, rtol=1e-12)


def test_what_the_part_writes_is_known():
    """Of tensors that were there before."""

    def part(x, kept):
        kept += x * x
        return kept * x

    def function(through):
        def call(x):
            kept = x * 2.0
            y = through(part)(x, kept)
            return tnp.sum(y) + tnp.sum(kept * kept)

        return call

    x = tnp.asarray([0.5, -1.5])
    assert numpy.allclose(ts.grad(function(ts.checkpoint))(x), ts.grad(function(lambda f: f))(x), rtol=1e-12)


def test_a_loss_that_is_the_parts_own():
    x = tnp.asarray([1.0, 2.0])
    assert ts.grad(ts.checkpoint(lambda x: tnp.sum(x**3.0)))(x).tolist() == [3.0, 12.0]
    assert ts.grad(ts.checkpoint(lambda x: tnp.sum(tnp.ones(2)) + 0.0 * tnp.sum(x)))(x).tolist() == [0.0, 0.0]


def test_derivatives_within_one_another():
    def cube(part):
        return lambda x: tnp.sum(part(lambda x: part(lambda x: x * x)(x) * x)(x))

    x = tnp.asarray([1.0, 2.0, 3.0])
    assert ts.hessian(cube(ts.checkpoint))(x).tolist() == ts.hessian(cube(lambda f: f))(x).tolist() == [[6, 0, 0], [0, 12, 0], [0, 0, 18]]
    # The part is within the inner function, whose gradient is differentiated.
    assert ts.grad(lambda y: tnp.sum(ts.grad(lambda x: tnp.sum(ts.checkpoint(lambda x: x * x * y)(x)))(y)))(x).tolist() == [4, 8, 12]
    assert ts.grad(ts.checkpoint(lambda x: tnp.sum(ts.grad(lambda x: tnp.sum(x**3.0))(x))))(x).tolist() == [6, 12, 18]


def test_results_of_all_forms_and_names():
    """Integers, views, arguments and one tensor twice are results, too; and the function keeps its name."""

    def part(x, *, by):
        """Says so."""
        y = x * by
        return {"whole": y, "row": y[0], "places": tnp.argmax(y, axis=0), "same": [y, x], "text": "y"}

    def function(through):
        def call(x):
            found = through(part)(x, by=3.0)
            return tnp.sum(found["whole"] ** 2) + tnp.sum(found["row"]) * float(found["places"][0] + 1) + tnp.sum(found["same"][1])

        return call

    x = tnp.asarray([[1.0, 5.0], [2.0, 4.0]])
    assert numpy.allclose(ts.grad(function(ts.checkpoint))(x), ts.grad(function(lambda f: f))(x), rtol=1e-12)
    assert ts.checkpoint(part).__name__ == "part" and ts.checkpoint(part).__doc__ == "Says so."


def test_elsewhere_it_is_the_function():
    """Where nothing records, in vmap, in converted functions and in co-executed steps."""
    part = ts.checkpoint(lambda x: tnp.tanh(x) * x)
    x = tnp.asarray([[0.5, 1.5], [1.0, -2.0]])
    wanted = numpy.tanh(x) * numpy.asarray(x)
    assert numpy.allclose(part(x), wanted) and numpy.allclose(ts.vmap(part)(x), wanted)
    assert numpy.allclose(ts.grad(lambda x: tnp.sum(ts.vmap(part)(x)))(x), ts.grad(lambda x: tnp.sum(tnp.tanh(x) * x))(x))

    def own(x):
        return ts.checkpoint(lambda x: tnp.tanh(x) * x)(x)

    for each in (part, own):
        gradient, values = ts.function(lambda x, each=each: ts.grad(lambda x: tnp.sum(each(x)))(x)), ts.function(lambda x, each=each: each(x))
        for _ in range(4):
            assert numpy.allclose(gradient(x), ts.grad(lambda x: tnp.sum(tnp.tanh(x) * x))(x)) and numpy.allclose(values(x), wanted)
        assert gradient.statistics()["converted"] == values.statistics()["converted"] == 3, gradient.explain() + values.explain()

    @ts.coexecute
    def step(x):
        return ts.grad(lambda x: tnp.sum(part(x)))(x) + part(x)

    for _ in range(5):
        assert numpy.allclose(step(x), ts.grad(lambda x: tnp.sum(tnp.tanh(x) * x))(x) + wanted)


def test_what_was_kept_is_let_go_of():
    class Result:
        pass

    x, gone = tnp.ones((3,)), []
    x.requires_grad = True

    def part(x):
        mark = Result()
        gone.append(weakref.ref(mark))
        return x * 2.0

    for _ in range(3):
        with ts.record():
            loss = tnp.sum(ts.checkpoint(part)(x) ** 2)
        loss.backward()
    gc.collect()
    assert all(each() is None for each in gone) and x.grad.tolist() == [24.0] * 3


def test_a_part_that_raises():
    x = tnp.ones((2,))
    with pytest.raises(ZeroDivisionError):
        ts.grad(lambda x: ts.checkpoint(lambda x: tnp.sum(x) * (1 // 0))(x))(x)
    assert ts.grad(lambda x: ts.checkpoint(tnp.sum)(x))(x).tolist() == [1.0, 1.0]


def test_results_that_nothing_reads():
    """What their derivatives are is of no matter: infinity times nothing is no number."""
    x = tnp.asarray([0.0, 1.0])

    def part(x):
        return {"y": x * x, "root": tnp.sqrt(x), "log": tnp.log(x)}

    assert ts.grad(lambda x: tnp.sum(ts.checkpoint(part)(x)["y"]))(x).tolist() == [0.0, 2.0]
    assert ts.hessian(lambda x: tnp.sum(ts.checkpoint(part)(x)["y"] ** 2.0))(x).tolist() == [[0.0, 0.0], [0.0, 12.0]]
    assert ts.grad(lambda x: tnp.sum(ts.grad(lambda x: tnp.sum(ts.checkpoint(part)(x)["y"] * x))(x)))(x).tolist() == [0.0, 6.0]
    nested = ts.checkpoint(lambda x: (ts.checkpoint(part)(x)["y"] * 2.0, ts.checkpoint(part)(x)["log"]))
    assert ts.grad(lambda x: tnp.sum(nested(x)[0]))(x).tolist() == [0.0, 4.0]
