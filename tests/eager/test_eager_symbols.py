"""Symbols and executors: what they compute is what the same calls with eager tensors do, and executors of one pool share their memory."""

import json
import pathlib
import re
import threading

import numpy
import pytest

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn, symbol
from tensmith.nn import functional

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "symbols.md").read_text()


def classifier(drop=0.0):
    x, label = symbol.Variable("x"), symbol.Variable("label")
    image = symbol.max_pool2d(symbol.relu(symbol.BatchNorm2d(symbol.Conv2d(x, 4, 3, padding=1, name="conv"), name="norm")), 2)
    hidden = symbol.dropout(symbol.tanh(symbol.Linear(symbol.reshape(image, (-1, 4 * 4 * 4)), 16, name="hidden")), drop)
    return symbol.cross_entropy(symbol.Linear(hidden, 5, name="logits"), label, name="loss")


def data(rows, seed=0):
    draw = numpy.random.default_rng(seed)
    return draw.standard_normal((rows, 1, 8, 8)).astype("float32"), draw.integers(0, 5, rows)


def bound(rows, **options):
    nn.manual_seed(3)
    return classifier().bind(x=(rows, 1, 8, 8), label=((rows,), "int64"), **options)


class Eager(nn.Module):
    """The classifier as a module, of an executor's tensors."""

    def __init__(self, executor):
        super().__init__()
        self.conv, self.norm, self.hidden, self.logits = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(64, 16), nn.Linear(16, 5)
        tensors = {**executor.arguments, **executor.states}
        self.load_state_dict({name: tnp.asarray(tensors[name], copy=True) for name in self.state_dict()})

    def forward(self, x, label):
        image = functional.max_pool2d(functional.relu(self.norm(self.conv(x))), 2)
        return functional.cross_entropy(self.logits(tnp.tanh(self.hidden(tnp.reshape(image, (-1, 64))))), label)


def close(a, b, bound=2e-5):
    numpy.testing.assert_allclose(numpy.asarray(a), numpy.asarray(b), rtol=bound, atol=bound)


def train_beside(executor, model, optimisers, bound=2e-5, bound_of_gradients=2e-5, **given):
    """A step of both, whose loss, gradients and states are compared. optimisers: the executor's, and the model's."""
    (loss,) = executor.forward(is_train=True, **given)
    executor.backward()
    optimisers[1].zero_grad()
    with ts.record():
        expected = model(*map(tnp.asarray, given.values()))
    expected.backward()
    close(loss, expected, bound)
    for name, parameter in model.named_parameters():
        close(executor.gradients[name], parameter.grad, bound_of_gradients)
    for optimiser in optimisers:
        optimiser.step()
    for name, state in model.named_buffers():
        close(executor.states[name], state, bound)


# Breaks if inference, gradients, the states after a step or the optimiser's view of parameters differ from eager tensors'.
def test_training_is_that_of_eager_tensors():
    executor = bound(6)
    model = Eager(executor)
    optimisers = [ts.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (executor, model)]
    for step in range(4):
        x, label = data(6, step)
        train_beside(executor, model, optimisers, x=x, label=label)
    model.eval()
    x, label = data(6, 9)
    close(executor.forward(x=x, label=label)[0], model(tnp.asarray(x), tnp.asarray(label)))


# Breaks if binding draws for layers twice, changes a state, or leaves the stream of random numbers elsewhere.
def test_binding_changes_nothing():
    executor = bound(3)
    after = nn.random.generator().state
    assert executor.states["norm.num_batches_tracked"].item() == 0 and executor.states["norm.running_mean"].numpy().tolist() == [0] * 4
    assert all(not x.numpy().any() for name, x in executor.arguments.items() if name in ("x", "label"))
    with nn.random.kept():
        classifier(0.5).bind(x=(3, 1, 8, 8), label=((3,), "int64"))
        assert nn.random.generator().state != after
    nn.manual_seed(3)
    classifier(0.5).infer_shape(x=(3, 1, 8, 8), label=((3,), "int64"))
    first = classifier(0.5).bind(x=(3, 1, 8, 8), label=((3,), "int64"))
    assert nn.random.generator().state == after  # dropout drew nothing
    close(first.arguments["conv.weight"], executor.arguments["conv.weight"], 0)


# Breaks if one mask is kept for all steps, or if what is read between forward and backward is of another mask than the gradient.
def test_dropout_draws_in_each_step():
    x = symbol.Variable("x")
    executor = symbol.dropout(x, 0.5).bind(x=(64,), gradients={"x": "write"})
    always = symbol.dropout(x, 0.5, True).bind(x=(64,), gradients={})
    masks = []
    for _ in range(3):
        (before,) = executor.forward(is_train=True, x=numpy.ones(64, "float32"))
        executor.backward()
        close(before, executor.outputs[0], 0)
        close(executor.gradients["x"], before, 0)
        masks.append(before.numpy().tolist())
    assert masks[0] != masks[1] != masks[2] and set(masks[0]) == {0.0, 2.0}
    assert executor.forward()[0].numpy().tolist() == [1.0] * 64
    first, second = (always.forward(x=numpy.ones(64, "float32"))[0].numpy().tolist() for _ in range(2))
    assert first != second and set(first) == {0.0, 2.0}


# Breaks if another thread's binding takes what this thread's dropout draws.
def test_threads_bind_at_once():
    x, wrong = symbol.Variable("x"), []

    def bind(network, check):
        for _ in range(20):
            executor = network.bind(x=(32,), gradients={"x": "write"})
            executor.forward(is_train=True, x=numpy.ones(32, "float32"))
            executor.backward()
            if not check(executor):
                wrong.append(network.name)

    draws = lambda executor: len(executor._programs[True, True].draws) == 1
    plain = lambda executor: not executor._programs[True, True].draws and executor.outputs[0].numpy().tolist() == [2.0] * 32
    threads = [threading.Thread(target=bind, args=each) for each in ((symbol.dropout(x, 0.5), draws), (x + 1.0, plain))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Breaks if a tensor that is given is dropped for a shared one, memory of the caller's is written, or two arguments are one tensor.
def test_given_tensors_are_the_callers():
    x, w = symbol.Variable("x"), symbol.Variable("w")
    first = (x * w).bind(x=(3,), w=(3,), gradients={})
    ours = numpy.full(3, 5, "float32")
    second = (x * w).bind(x=ours, w=tnp.full(3, 7, dtype=tnp.float32), gradients={}, shared=first)
    assert second.forward()[0].numpy().tolist() == [35.0] * 3
    second.forward(x=[1, 2, 3])
    assert ours.tolist() == [5.0] * 3
    one = tnp.full(1, 2, dtype=tnp.float32)
    both = symbol.sum(x * x * w).bind(x=one, w=one, gradients={"x": "write", "w": "write"})
    both.forward(is_train=True)
    both.backward()
    assert [both.gradients[name].item() for name in "xw"] == [8.0, 4.0]


# Breaks if outputs of a run become those of the next, or a name of a text that was read is given again.
def test_outputs_and_names_stay_what_they_are():
    x = symbol.Variable("x")
    executor = (x * 2.0).bind(x=(1,), gradients={"x": "write"})
    first = executor.forward(is_train=True, x=[1])
    executor.backward()
    second = executor.forward(is_train=True, x=[5])
    assert first[0].item() == 2 and second[0].item() == 10
    third = executor.forward(is_train=True, x=[7])
    executor.forward(is_train=True, x=[8])
    with pytest.raises(RuntimeError, match="another forward"):
        third[0].item()
    text = symbol.relu(x).to_json()
    symbol._counts.clear()  # as in another process
    again = symbol.relu(symbol.load_json(text))
    assert again.bind(x=(2,), gradients={}).forward(x=[-1, 3])[0].numpy().tolist() == [0, 3]
    assert type(numpy.ones(3) + x) is type(x)


# Breaks if "add" writes over, if cotangents are not taken, or if an argument that was not asked for has a gradient.
def test_gradients_are_what_was_asked():
    a, b = symbol.Variable("a"), symbol.Variable("b")
    executor = symbol.Group([a * b, symbol.sum(a)]).bind(a=(2,), b=(2,), gradients={"a": "add"})
    for times in (1, 2):
        executor.forward(is_train=True, a=[1.0, 2.0], b=[3.0, 4.0])
        executor.backward([[1.0, 10.0], 5.0])
        assert executor.gradients["a"].numpy().tolist() == [8 * times, 45 * times]
    assert executor.arguments["b"].grad is None and list(executor.gradients) == ["a"]


# Breaks if executors of one pool hold an arena each, if the bits of one depend on who ran before it, or if parameters are not shared.
def test_sizes_share_one_pool_and_their_parameters():
    sizes = (32, 4, 16, 64, 8)
    alone = {}
    for size in sizes:
        executor = bound(size)
        executor.forward(is_train=True, **dict(zip(("x", "label"), data(size))))
        executor.backward()
        alone[size] = executor.memory()["pool"], executor.outputs[0].numpy(), executor.gradients["conv.weight"].numpy()
    first = bound(sizes[0])
    executors = {size: bound(size, shared=first) for size in sizes}
    for _ in range(2):
        for size, executor in executors.items():
            executor.states["norm.running_mean"][...] = 0
            executor.forward(is_train=True, **dict(zip(("x", "label"), data(size))))
            executor.backward()
            assert executor.outputs[0].numpy().tobytes() == alone[size][1].tobytes()
            assert executor.gradients["conv.weight"].numpy().tobytes() == alone[size][2].tobytes()
    assert executors[4].arguments["conv.weight"] is first.arguments["conv.weight"]
    assert executors[4].states["norm.running_var"] is first.states["norm.running_var"]
    largest = max(pool for pool, _, _ in alone.values())
    assert 0 < first.memory()["pool"] <= 1.1 * largest
    assert first.memory()["pool"] < sum(pool for pool, _, _ in alone.values())


# Breaks if two executors of a pool run at once on the same memory: a product of one would be of the other's numbers.
def test_executors_run_beside_eager_code_and_one_another():
    x = symbol.Variable("x")
    chain = symbol.sum(symbol.exp(symbol.matmul(symbol.tanh(symbol.matmul(x, x)), x) * 0.01), axis=0)
    first = chain.bind(x=(96, 96), gradients={})
    executors = [first, *(chain.bind(x=(96 + 8 * i, 96 + 8 * i), gradients={}, shared=first) for i in range(1, 4))]
    inputs = [numpy.random.default_rng(i).standard_normal(e.arguments["x"].shape).astype("float32") for i, e in enumerate(executors)]
    expected = [e.forward(x=x)[0].numpy() for e, x in zip(executors, inputs)]
    for _ in range(5):
        got, beside = [], tnp.asarray(inputs[0])
        for executor, x in zip(executors, inputs):
            got.append(executor.forward(x=x)[0])
            beside = tnp.tanh(beside @ beside * 0.01)
        for a, b in zip(got, expected):
            assert a.numpy().tobytes() == b.tobytes()
        assert beside.numpy().any()
    assert first.memory()["pool"] > 0


# Breaks if an index that is not there reads other memory, or if the failure of one run is handed on to the next ones of the pool.
def test_a_failed_run_ends_with_itself():
    rows, places = symbol.Variable("rows"), symbol.Variable("places")
    executor = (rows[places] * 2.0).bind(rows=(5, 2), places=((3,), "int64"), gradients={})
    other = (rows + 1.0).bind(rows=(4, 2), shared=executor, gradients={})
    table = numpy.arange(10, dtype="float32").reshape(5, 2)
    for wrong in (5, -6, 2**40):
        (bad,) = executor.forward(rows=table, places=[0, wrong, 1])
        (beside,) = other.forward(rows=table[:4])
        with pytest.raises(ValueError, match="outside of the dimension"):
            bad.tolist()
        assert (beside.numpy() == table[:4] + 1).all()
        (good,) = executor.forward(places=[4, -1, -5])
        assert (good.numpy() == table[[4, -1, -5]] * 2).all()


# Breaks if planning stops to share memory: the figures of Chen et al. (2015, section 5).
def test_memory_is_planned():
    x, label = symbol.Variable("x"), symbol.Variable("label")
    for _ in range(8):
        x = symbol.relu(symbol.Linear(x, 256))
    executor = symbol.cross_entropy(symbol.Linear(x, 10), label).bind(x=(256, 256), label=((256,), "int64"))
    batch = {"x": numpy.ones((256, 256), "float32"), "label": numpy.zeros(256, "int64")}
    executor.forward(**batch)
    memory = executor.memory()
    assert 0 < memory["pool"] <= 0.30 * memory["inference"]
    executor.forward(is_train=True, **batch)
    executor.backward()
    assert executor.memory()["pool"] <= 0.55 * memory["training"]


# Breaks if shapes of parameters are not those that the input tells, or names are not known before binding.
def test_shapes_are_inferred():
    loss = classifier()
    assert loss.variables == ["x", "label"] and loss.outputs == ["loss"]
    assert loss.arguments == ["x", "conv.weight", "conv.bias", "norm.weight", "norm.bias", "hidden.weight", "hidden.bias", "logits.weight", "logits.bias", "label"]
    arguments, states, outputs = loss.infer_shape(x=(2, 3, 8, 8), label=((2,), "int64"))
    assert arguments["conv.weight"] == (4, 3, 3, 3) and arguments["hidden.weight"] == (16, 64)
    assert set(states) == set(loss.states) and outputs == [()]
    features = loss.internals["conv"].bind(x=(2, 3, 8, 8))
    assert features.output_types[0][1] == (2, 4, 8, 8)
    grouped = symbol.Conv2d(symbol.Variable("x"), 8, 3, groups=4, name="grouped").bind(x=(1, 4, 5, 5))
    assert grouped.arguments["grouped.weight"].shape == (8, 1, 3, 3)


# Breaks if a function has another meaning here than there, or an operand's place is lost: drawn expressions, both ways.
def test_functions_mean_what_they_mean_of_tensors():
    draw = numpy.random.default_rng(5)
    unary = ["tanh", "exp", "abs", "square", "sin"]
    binary = [lambda a, b: a + b, lambda a, b: 2.0 - a * b, lambda a, b: a / (abs(b) + 1.5), lambda a, b: -a @ b, lambda a, b: a[::-1, 1:2] * b]
    for _ in range(12):
        values = {f"v{i}": draw.standard_normal((4, 4)).astype("float32") for i in range(3)}
        symbols, tensors = [[make(name) for name in values] for make in (symbol.Variable, lambda name: tnp.asarray(values[name]))]
        for _ in range(5):
            i, j, k = draw.integers(len(symbols)), draw.integers(len(symbols)), draw.integers(len(binary))
            name = unary[draw.integers(len(unary))]
            symbols.append(getattr(symbol, name)(binary[k](symbols[i], symbols[j]) * 0.1))
            tensors.append(getattr(tnp, name)(binary[k](tensors[i], tensors[j]) * 0.1))
        group = symbol.Group(symbols[3:])
        used = group.variables
        for each in (group, symbol.load_json(group.to_json())):
            executor = each.bind(gradients={}, **{name: values[name] for name in used})
            for ours, theirs in zip(executor.forward(), tensors[3:]):
                close(ours, theirs)


# Breaks if composition changes the symbol that it is made of, or results of operations with several are lost.
def test_symbols_compose():
    x, y = symbol.Variable("x"), symbol.Variable("y")
    rows = symbol.unstack(x)
    both = symbol.Group([rows.output(0) + y, rows.output(1)])
    composed = both(x=symbol.stack([y, y * 2]))
    assert both.variables == ["x", "y"] and composed.variables == ["y"]
    first, second = composed.bind(y=(2,), gradients={}).forward(y=[1.0, 3.0])
    assert first.numpy().tolist() == second.numpy().tolist() == [2.0, 6.0]
    first, second = both.bind(x=(2, 2), y=(2,), gradients={}).forward(x=[[1.0, 2.0], [3.0, 4.0]], y=[1.0, 1.0])
    assert first.numpy().tolist() == [2.0, 3.0] and second.numpy().tolist() == [3.0, 4.0]


def two_layers(first, second):
    return symbol.Linear(symbol.Linear(symbol.Variable("x"), first, name="one"), second, name="one")


def twins():
    """A network that is applied to two images, and the same as a module."""
    x, first, second = (symbol.Variable(name) for name in ("x", "first", "second"))
    image = symbol.relu(symbol.BatchNorm2d(symbol.Conv2d(x, 4, 3, name="conv"), name="norm"))
    features = symbol.Linear(symbol.tanh(symbol.reshape(image, (-1, 4 * 36))), 6, name="hidden")
    return symbol.sum(symbol.square(features(x=first) - features(x=second) * 0.5), name="distance")


class EagerTwins(nn.Module):
    def __init__(self, executor):
        super().__init__()
        self.conv, self.norm, self.hidden = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(144, 6)
        tensors = {**executor.arguments, **executor.states}
        self.load_state_dict({name: tnp.asarray(tensors[name], copy=True) for name in self.state_dict()})

    def features(self, x):
        return self.hidden(tnp.tanh(tnp.reshape(functional.relu(self.norm(self.conv(x))), (-1, 144))))

    def forward(self, first, second):
        return tnp.sum(tnp.square(self.features(first) - self.features(second) * 0.5))


# Breaks if the name of a layer's second use is another layer's.
def test_names_of_second_uses_are_free():
    first = symbol.Linear(symbol.Variable("x"), 3, name="n:1")
    group = symbol.Group([first, symbol.Linear(symbol.Linear(first, 3, name="n"), 3, name="n")])
    assert group.outputs == ["n:1", "n:2"] and set(group.internals) == {"x", "n", "n:1", "n:2"}


# Breaks if a network that is applied twice has two sets of parameters, if its gradients don't add, if its states are not taken through both uses in
# their order, or if its text loses that.
@pytest.mark.parametrize("as_text", [False, True])
def test_a_network_applied_twice_has_one_set_of_parameters(as_text):
    distance = symbol.load_json(twins().to_json()) if as_text else twins()
    assert distance.arguments == ["first", "conv.weight", "conv.bias", "norm.weight", "norm.bias", "hidden.weight", "hidden.bias", "second"]
    assert {"conv", "conv:1", "norm:1", "hidden:1"} < set(distance.internals)
    nn.manual_seed(5)
    executor = distance.bind(first=(3, 1, 8, 8), second=(3, 1, 8, 8))
    model = EagerTwins(executor)
    optimisers = [ts.optim.SGD(each.parameters(), lr=0.01) for each in (executor, model)]
    draw = numpy.random.default_rng(2)
    for _ in range(3):
        first, second = (draw.standard_normal((3, 1, 8, 8)).astype("float32") for _ in range(2))
        train_beside(executor, model, optimisers, 1e-4, 1e-3, first=first, second=second)
    assert executor.states["norm.num_batches_tracked"].item() == 6
    model.eval()
    close(executor.forward()[0], model(tnp.asarray(first), tnp.asarray(second)), 1e-3)


# Breaks if the copies of a layer that applying a symbol makes are compared by their text alone: this argument has none, and so they would be two.
def test_a_function_applied_twice_may_have_an_argument_without_a_text():
    x, first, second = (symbol.Variable(name) for name in ("x", "first", "second"))
    scaled = symbol.multiply(x, tnp.asarray([2.0, 3.0]), name="scaled")
    both = scaled(x=first) + scaled(x=second)
    (found,) = both.bind(first=((2,), "float64"), second=((2,), "float64"), gradients={}).forward(first=[1.0, 1.0], second=[1.0, 2.0])
    assert found.tolist() == [4.0, 9.0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: classifier().bind(x=(2, 1, 8, 8)), "variable 'label' is given neither"),
        (lambda: classifier().bind(x=(2, 1, 8, 8), label=(2,), weight=(1,)), "there is no variable 'weight'"),
        (lambda: classifier().bind(x=(2, 1, 7, 8), label=((2,), "int64")), "'reshape"),
        (lambda: classifier().bind(x="much", label=(2,)), "'x' is given neither"),
        (lambda: classifier().bind(x=(-2, 1, 8, 8), label=(2,)), "'x'"),
        (lambda: bound(2, gradients={"conv.wait": "write"}), "no argument 'conv.wait'"),
        (lambda: bound(2, gradients={"conv.weight": "twice"}), "'write' or 'add'"),
        (lambda: bound(2).forward(z=[1]), "no argument 'z'"),
        (lambda: bound(2).forward(x=numpy.zeros((3, 1, 8, 8), "float32")), "bound to shape (2, 1, 8, 8)"),
        (lambda: bound(2).backward(), "backward follows forward"),
        (lambda: bound(2).outputs, "no outputs before forward"),
        (lambda: symbol.no_such_function, "neither tensmith.numpy nor tensmith.nn"),
        (lambda: symbol.tanh(3.0), "no symbol among its arguments"),
        (lambda: symbol.Linear(3, 4), "takes symbols first"),
        (lambda: bool(symbol.Variable("x") > 1), "neither true nor false"),
        (lambda: list(symbol.Variable("x")), "how many rows"),
        (lambda: symbol.Variable(""), "has a name"),
        (lambda: (symbol.Variable("x") + symbol.Variable("x")).bind(x=(1,)), "two nodes are called 'x'"),
        (lambda: two_layers(4, 5).bind(x=(1, 3)), "two nodes are called 'one'"),
        (lambda: two_layers(4, 4).bind(x=(1, 3)), "'one' (Linear) of (1, 4)"),
        (lambda: symbol.unstack(symbol.Variable("x")).output(5).bind(x=(2, 2)), "no number 5"),
        (lambda: (symbol.unstack(symbol.Variable("x")) + 1).bind(x=(2, 2)), "say which"),
        (lambda: bound(2, gradients=["conv.weight"]), "a dict from names"),
        (lambda: bound(2, shared="no"), "shared is an executor"),
        (lambda: bound(2).backward(3.0) or 1, "backward follows"),
        (lambda: symbol.Variable("x")[symbol.Variable("y") > 0].bind(x=(3,), y=(3,)), "getitem"),
        (lambda: symbol.batch_norm(symbol.Variable("x"), symbol.Variable("m"), symbol.Variable("v"), training=True).bind(x=(4, 2), m=(2,), v=(2,)), "'m' is written"),
        (lambda: symbol.Group([]), "group of no symbols"),
        (lambda: (symbol.Variable("x") + tnp.ones(2)).to_json(), "no text can say"),
    ],
)
def test_mistakes_are_told(make, words):
    with pytest.raises((ValueError, TypeError, IndexError, RuntimeError, AttributeError, ts.Error)) as told:
        make()
    assert words in str(told.value)


# Breaks if the page's program does not run, or its buckets have a pool each.
def test_the_page_runs(capsys):
    names = {}
    for program in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(program, names)
    assert "'pool'" in capsys.readouterr().out
    assert names["buckets"][10].arguments["hidden.weight"] is names["executor"].arguments["hidden.weight"]


# Breaks if another text than a symbol's is anything but an Error in words.
def test_other_texts_are_refused():
    good = classifier().to_json()
    draw = numpy.random.default_rng(11)
    assert symbol.load_json(good).arguments == classifier().arguments
    for _ in range(200):
        content = json.loads(good)
        node = content["nodes"][draw.integers(len(content["nodes"]))]
        key = list(node)[draw.integers(len(node))]
        node[key] = [None, -1, 10**30, "x", [], {}, [[99, 0]], {"slice": [1]}, {"call": "system"}, [{"input": 7}]][draw.integers(10)]
        try:
            symbol.load_json(json.dumps(content)).infer_shape(x=(2, 1, 8, 8), label=((2,), "int64"))
        except (ts.Error, ValueError, TypeError, IndexError, RuntimeError):
            pass
    for text in ("", "{}", "[1]", good[:200], '{"symbol": 2}', '{"symbol": 1, "nodes": [], "heads": []}', "[" * 100000):
        with pytest.raises(ts.Error, match="no symbol's text"):
            symbol.load_json(text)
