"""`tensmith.nn`, `tensmith.optim`, `scan` and `vmap` against closed forms; tests/torch/test_modules_beside_torch.py holds them against PyTorch.

Programs are evaluated here, not compiled: what a module computes is the same.
"""

import math
import pathlib
import re

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import tensmith as ts  # noqa: E402
from tensmith import nn, optim  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


def tensor(*shape, seed=0):
    return tnp.asarray(numpy.random.RandomState(seed).randn(*shape))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.blocks = nn.ModuleList([nn.Sequential(nn.ReLU(), nn.BatchNorm1d(4))])
        self.scale = nn.Parameter(tnp.ones(1, dtype=tnp.float32))
        self.register_buffer("count", tnp.zeros((), dtype=tnp.int64))
        self.register_buffer("cache", tnp.zeros(2), persistent=False)

    def forward(self, x):
        return self.blocks[0](self.first(x)) * self.scale


NAMES = ["scale", "count", "first.weight", "first.bias", "blocks.0.1.weight", "blocks.0.1.bias", "blocks.0.1.running_mean",
         "blocks.0.1.running_var", "blocks.0.1.num_batches_tracked"]  # fmt: skip


def test_modules_know_what_they_are_made_of(tmp_path):
    net, other = Net(), Net()
    assert list(net.state_dict()) == NAMES
    assert [name for name, _ in net.named_parameters()] == [name for name in NAMES if "running" not in name and not name.startswith(("count", "blocks.0.1.num"))]
    net.save(tmp_path / "net.safetensors")
    assert other.load(tmp_path / "net.safetensors") == ([], [])
    for name, value in net.state_dict().items():
        assert value.tolist() == other.state_dict()[name].tolist() and value.dtype == other.state_dict()[name].dtype
    net.eval()
    assert not any(module.training for module in net.modules())
    assert "(0): Sequential(" in repr(net) and "in_features=3, out_features=4" in repr(net)
    with pytest.raises(KeyError, match="missing \\['scale'\\], unexpected \\['scales'\\]"):
        net.load_state_dict({("scales" if name == "scale" else name): value for name, value in net.state_dict().items()})
    with pytest.raises(ValueError, match="'scale' has the shape \\(2,\\) in the state, and \\(1,\\) in the module"):
        net.load_state_dict({**net.state_dict(), "scale": tnp.ones(2)})
    with pytest.raises(RuntimeError, match="nothing.safetensors"):
        net.load(tmp_path / "nothing.safetensors")


def test_training_changes_parameters_and_statistics():
    nn.manual_seed(3)
    net = Net()
    optimiser = optim.SGD(net.parameters(), lr=0.1)
    x = tnp.asarray(numpy.random.RandomState(0).randn(8, 3), dtype=tnp.float32)
    target = tnp.asarray(numpy.random.RandomState(1).randn(8, 4), dtype=tnp.float32)
    losses = []
    for _ in range(6):
        optimiser.zero_grad()
        with ts.record():
            loss = nn.functional.mse_loss(net(x), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and net.blocks[0][1].num_batches_tracked.item() == 6
    assert all(parameter.grad is not None and parameter.grad.shape == parameter.shape for parameter in net.parameters())


def test_windows():
    x = tnp.reshape(tnp.arange(16, dtype=tnp.float64), (1, 1, 4, 4))
    weight = tnp.ones((1, 1, 2, 2))
    sums = nn.functional.conv2d(x, weight, stride=2)
    assert sums.tolist() == [[[[10, 18], [42, 50]]]]
    assert nn.functional.max_pool2d(x, 2).tolist() == [[[[5, 7], [13, 15]]]]
    assert nn.functional.avg_pool2d(x, 2).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    assert nn.functional.conv_transpose2d(sums, weight, stride=2)[0, 0, :2].tolist() == [[10, 10, 18, 18]] * 2
    by_x = ts.grad(lambda x: tnp.sum(nn.functional.conv2d(x, weight) ** 2))(x)
    by_w = ts.grad(lambda w: tnp.sum(nn.functional.conv2d(x, w)))(weight)
    assert by_x[0, 0, 0, 0].item() == 20 and by_w.tolist() == [[[[45, 54], [81, 90]]]]
    with pytest.raises(ValueError, match="a window of 5 does not fit into 4 places"):
        nn.functional.conv2d(x, tnp.ones((1, 1, 5, 5)))
    with pytest.raises(ValueError, match="the weights take 1 channels, and the tensor has 2"):
        nn.functional.conv2d(tnp.ones((1, 2, 4, 4)), weight)


def test_losses():
    x, classes = tnp.zeros((2, 4)), tnp.asarray([1, 3])
    assert math.isclose(nn.functional.cross_entropy(x, classes).item(), math.log(4))
    gradient = ts.grad(lambda x: nn.functional.cross_entropy(x, classes))(x)
    assert gradient.tolist() == [[0.125, -0.375, 0.125, 0.125], [0.125, 0.125, 0.125, -0.375]]
    with pytest.raises(ValueError, match="a reduction is 'mean', 'sum' or 'none', not 'average'"):
        nn.functional.mse_loss(x, x, reduction="average")


def test_dropout_keeps_the_mean_and_is_off_in_evaluation():
    nn.manual_seed(0)
    layer, x = nn.Dropout(0.25), tnp.ones((200, 50))
    kept = layer(x).numpy()
    assert set(numpy.unique(kept)) == {0.0, 1 / 0.75} and abs(kept.mean() - 1) < 0.02
    assert layer.eval()(x) is x


def test_a_recurrent_layer_is_its_cell_step_by_step():
    nn.manual_seed(1)
    layer, cell = nn.LSTM(3, 2, dtype=tnp.float64), nn.LSTMCell(3, 2, dtype=tnp.float64)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x = tensor(4, 2, 3)

    def unrolled(x):
        state, outputs = None, []
        for t in range(4):
            state = cell(x[t], state)
            outputs.append(state[0])
        return tnp.sum(tnp.stack(outputs) ** 2)

    gradients = [ts.grad(function)(x).numpy() for function in (unrolled, lambda x: tnp.sum(layer(x)[0] ** 2))]
    assert numpy.allclose(*gradients)


def test_scan_carries_and_stacks():
    def body(carried, rows):
        total = carried[0] + rows[0]
        return [total], [total * total]

    (last,), (squares,) = ts.scan(body, [tnp.zeros(2)], [tnp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])])
    assert last.tolist() == [9, 12] and squares.tolist() == [[1, 4], [16, 36], [81, 144]]
    with pytest.raises(ValueError, match="before and float64\\(3,\\) after an iteration"):
        ts.scan(lambda carried, rows: ([tnp.ones(3)], []), [tnp.zeros(2)], [tnp.ones((2, 2))])


def test_vmap_is_a_loop_over_examples():
    w, xs = tensor(3, 2), tensor(5, 3, seed=1)

    def one(x):
        return tnp.tanh(x @ w) + tnp.where(x[0] > 0, 1.0, -1.0)

    every = ts.vmap(one)(xs)
    assert numpy.allclose(every.numpy(), numpy.stack([one(x).numpy() for x in xs]))
    assert ts.vmap(lambda a, b: a * b, (1, None))(xs, tnp.ones(5)).tolist() == xs.T.tolist()
    by_w = ts.grad(lambda w: tnp.sum(ts.vmap(lambda x: x @ w * 2.0)(xs)))(w)
    assert numpy.allclose(by_w.numpy(), 2 * numpy.repeat(xs.numpy().sum(0)[:, None], 2, 1))
    with pytest.raises(TypeError, match="use where instead of if"):
        ts.vmap(lambda x: x if float(tnp.sum(x)) > 0 else -x)(xs)


RULES = {
    "SGD": ({"lr": 0.5}, lambda p, g, t: p - 0.5 * g),
    "Adam": ({"lr": 0.5, "eps": 0.0}, lambda p, g, t: p - 0.5 * numpy.sign(g)),
    "AdamW": ({"lr": 0.5, "eps": 0.0, "weight_decay": 0.1}, lambda p, g, t: p * 0.95 - 0.5 * numpy.sign(g)),
    "Adagrad": ({"lr": 0.5, "eps": 0.0}, lambda p, g, t: p - 0.5 * numpy.sign(g) / math.sqrt(t)),
    "RMSprop": ({"lr": 0.5, "eps": 0.0, "alpha": 0.5}, lambda p, g, t: p - 0.5 * numpy.sign(g) / math.sqrt(1 - 0.5**t)),
}


@pytest.mark.parametrize("name", RULES)
def test_optimisers_with_a_gradient_that_stays(name):
    settings, rule = RULES[name]
    parameter, gradient = nn.Parameter(tensor(2, 3)), tensor(2, 3, seed=4)
    optimiser = getattr(optim, name)([parameter], **settings)
    wanted = parameter.numpy().copy()
    for t in (1, 2, 3):
        parameter.grad = gradient
        optimiser.step()
        wanted = rule(wanted, gradient.numpy(), t)
    assert numpy.allclose(parameter.numpy(), wanted)


def test_lamb_steps_as_far_as_its_parameter_is_long():
    parameter, gradient = nn.Parameter(tensor(5)), tensor(5, seed=4)
    before = parameter.numpy().copy()
    optimiser = optim.LAMB([parameter], lr=0.1)
    parameter.grad = gradient
    optimiser.step()
    assert math.isclose(numpy.linalg.norm(parameter.numpy() - before), 0.1 * numpy.linalg.norm(before))


@pytest.mark.parametrize(
    ("name", "settings", "match"),
    [
        ("SGD", {"lr": -0.1}, "lr is a number from 0 on, and not -0.1"),
        ("SGD", {"momentum": -0.5}, "momentum is a number from 0 on"),
        ("Adam", {"lr": math.nan}, "lr is a number from 0 on, and not nan"),
        ("Adam", {"betas": (0.9, 1.0)}, "betas\\[1\\] is a number from 0 on and below 1, and not 1.0"),
        ("AdamW", {"weight_decay": -1}, "weight_decay is a number from 0 on"),
        ("LAMB", {"betas": (-0.1, 0.9)}, "betas\\[0\\]"),
        ("RMSprop", {"alpha": 1.5}, "alpha is a number from 0 on and below 1"),
        ("Adagrad", {"eps": -1e-8}, "eps is a number"),
        ("Adagrad", {"initial_accumulator_value": -1.0}, "initial_accumulator_value is a number"),
        ("Adam", {"group": {"lr": -1.0}}, "lr is a number from 0 on"),
    ],
)
def test_settings_that_no_optimiser_can_have_are_refused(name, settings, match):
    parameter = nn.Parameter(tensor(2, 3))
    group = settings.pop("group", None)
    with pytest.raises(ValueError, match=match):
        getattr(optim, name)([{"params": [parameter], **group}] if group else [parameter], **settings)


@pytest.mark.parametrize("convert", [lambda f: f, ts.function], ids=["eager", "function"])
def test_labels_below_0_are_no_classes(convert):
    loss = convert(nn.functional.cross_entropy)
    x = tensor(2, 3)
    for _ in range(3):
        assert math.isfinite(float(loss(x, tnp.asarray([2, -100]))))
    for wrong in (-1, -3, 3):
        with pytest.raises(IndexError, match="out of range"):
            float(loss(x, tnp.asarray([wrong, 0])))


def test_optimisers_are_of_lists_of_different_parameters():
    parameter = nn.Parameter(tensor(2, 3))
    for given in ([parameter, parameter], [{"params": [parameter]}, {"params": [parameter], "lr": 0.5}]):
        with pytest.raises(ValueError, match="more than once"):
            optim.SGD(given, lr=0.1)
    with pytest.raises(TypeError, match=r"give \[parameter\]"):
        optim.SGD(parameter, lr=0.1)


def test_optimisers_go_on_from_a_state():
    def steps(optimiser, parameter, count):
        for _ in range(count):
            parameter.grad = tnp.cos(parameter)
            optimiser.step()

    one, other = nn.Parameter(tnp.ones(3)), nn.Parameter(tnp.ones(3))
    first = optim.Adam([one], lr=0.1)
    steps(first, one, 2)
    other[...] = one
    second = optim.Adam([other])
    second.load_state_dict(first.state_dict())
    steps(first, one, 2)
    steps(second, other, 2)
    assert one.tolist() == other.tolist()


OF_TRAINING = {"sgd": (optim.SGD, {}), "momentum": (optim.SGD, {"momentum": 0.9}), "nesterov": (optim.SGD, {"momentum": 0.9, "nesterov": True}),
               "adam": (optim.Adam, {}), "adamw": (optim.AdamW, {}), "adagrad": (optim.Adagrad, {}), "rmsprop": (optim.RMSprop, {}),
               "lamb": (optim.LAMB, {})}  # fmt: skip


@pytest.mark.parametrize("name", OF_TRAINING)
def test_optimisers_are_those_of_training(name, tmp_path):
    """Breaks if a formula or a default here is another than in the program that `tensmith train` steps by."""
    optimiser, settings = OF_TRAINING[name]
    text = (pathlib.Path(__file__).resolve().parents[2] / f"train/optimisers/{name}.tsm").read_text()
    names = [word.strip() for word in re.search(r"fn update\((.*?)\)", text).group(1).split(",")]
    given = ", ".join(f"{each}: f64[{'' if each in ('learning_rate', 'step') else '4, 3'}]" for each in names)
    (tmp_path / "update.tsm").write_text(f"{text}\nfn main({given}) = update({', '.join(names)})\n")
    program = ts.compile(tmp_path / "update.tsm", reference=True, cache_dir="")
    parameter = nn.Parameter(tensor(4, 3))
    ours = optimiser([parameter], lr=0.05, **settings)
    kept = [each for each in names if each not in ("gradient", "learning_rate", "step")]
    values = {each: numpy.zeros((4, 3)) for each in kept} | {"parameter": numpy.array(parameter), "learning_rate": numpy.float64(0.05)}
    for step in range(1, 4):
        gradient = tensor(4, 3, seed=step)
        parameter.grad = gradient
        ours.step()
        values |= {"gradient": numpy.asarray(gradient), "step": numpy.float64(step)}
        results = program.run(**{each: values[each] for each in names})
        values |= dict(zip(kept, results))
        numpy.testing.assert_allclose(numpy.asarray(parameter), values["parameter"], rtol=1e-6)


def test_an_optimiser_of_many_parameters_takes_its_settings_once():
    # Breaks if each parameter has numbers of its own, or one that happens to equal the rate follows it.
    def program(count, lr):
        parameters = [tnp.asarray([1.0, 2.0 + i], dtype=tnp.float64) for i in range(count)]
        for each in parameters:
            each.requires_grad = True
            each.grad = tnp.asarray([0.5, -0.25], dtype=tnp.float64)
        optimiser = optim.RMSprop(parameters, lr=lr, alpha=0.9, eps=0.125)
        optimiser.step()
        (update,) = optimiser._updates.values()
        optimiser.param_groups[0]["lr"] = 0.25
        optimiser.step()
        return len(update._sources), [each.tolist() for each in parameters]

    (one, _), (many, _) = program(1, 0.01), program(7, 0.01)
    assert many - one == 6 * 3  # the parameter, its gradient and its state

    _, equal = program(2, 0.125)  # which eps is, too
    square = [0.1 * g * g for g in (0.5, -0.25)]
    expected = [x - 0.125 * g / (s**0.5 + 0.125) for x, g, s in zip((1.0, 2.0), (0.5, -0.25), square)]
    square = [0.9 * s + 0.1 * g * g for s, g in zip(square, (0.5, -0.25))]
    expected = [x - 0.25 * g / (s**0.5 + 0.125) for x, g, s in zip(expected, (0.5, -0.25), square)]
    assert numpy.allclose(equal[0], expected)


@pytest.mark.parametrize("register, value", [
    ("register_parameter", lambda: nn.Parameter(tensor(3))), ("register_buffer", lambda: tensor(3)), ("add_module", lambda: nn.Linear(2, 2))])
def test_what_is_registered_is_the_attribute(register, value):
    # Breaks if an attribute that was there before hides it, or if what is set later leaves it in the module's tables.
    module, value = nn.Module(), value()
    module.part = None
    getattr(module, register)("part", value)
    assert module.part is value and len(module.state_dict()) > 0
    module.part = None
    assert module.part is None and len(module.state_dict()) == 0
