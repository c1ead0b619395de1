"""torch.compile(backend=tensmith.torch.backend): answers, gradients and training as PyTorch's own, and one compilation for all sizes."""

import copy
import gc
import weakref

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch import nn  # noqa: E402

import tensmith.torch  # noqa: E402
from tensmith.torch import graphs, run  # noqa: E402


def compiled(net, **options):
    return torch.compile(net, backend=tensmith.torch.backend, **options)


def test_inference_gives_torch_tensors():
    net, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(3, 8)
    with torch.no_grad():
        y = compiled(net)(x)
        assert type(y) is torch.Tensor
        torch.testing.assert_close(y, net(x), rtol=1e-4, atol=1e-4)


def test_sizes_are_open():
    net, made = nn.Sequential(nn.Linear(8, 4), nn.Softmax(1)), []
    original = graphs.CompiledGraph.__init__

    def counted(self, *arguments):
        made.append(self)
        original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(graphs.CompiledGraph, "__init__", counted)
        fast = compiled(net, dynamic=True)
        for batch in range(2, 12):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
    assert len(made) == 1


def test_open_numbers_are_tensors_or_sizes():
    """Breaks if a number that stands in no shape is taken for a size, which is never negative."""
    fast, x = compiled(lambda x, number: (x + number, x * (2 * number - 1) / (number * 0.5)), dynamic=True), torch.randn(4)
    for number in (5, -3, 10**12):
        for given, wanted in zip(fast(x, number), (x + number, x * (2 * number - 1) / (number * 0.5))):
            torch.testing.assert_close(given, wanted)
    part = compiled(lambda x, number: x[:number] + number, dynamic=True)
    torch.testing.assert_close(part(x, 3), x[:3] + 3)
    with pytest.raises(ts.Error, match="is -3, which can't be a size, .*dynamic=False"):
        part(x, -3)


def test_graphs_break_and_go_on():
    def function(x):
        y = x.exp()
        if y.sum().item() > 0:
            return y * 2
        return y - 1

    x = torch.randn(4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-4, atol=1e-4)


def gradients(net, call, *inputs):
    net.zero_grad()
    call(*inputs).square().mean().backward()
    return [parameter.grad.clone() for parameter in net.parameters()]


NETS = {
    "normalised": lambda: (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)), torch.randn(5, 8)),
    "convolutions": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=4),
                      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 9, 4)), torch.randn(2, 3, 16, 16)),
    "attention": lambda: (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), torch.randn(2, 5, 16)),
    "embedding": lambda: (nn.Sequential(nn.Embedding(10, 6), nn.Flatten(), nn.Linear(24, 3)), torch.randint(0, 10, (2, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_gradients(name):
    net, x = NETS[name]()
    other = copy.deepcopy(net)
    given, wanted = gradients(net, compiled(net), x), gradients(other, other, x)
    for a, b in zip(given, wanted):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    for (name, a), b in zip(net.state_dict().items(), other.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4, msg=name)


def test_training_follows_eager():
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
    other = copy.deepcopy(net)
    x, target = torch.randn(16, 8), torch.randint(0, 3, (16,))

    def losses(net, call):
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
        result = []
        for _ in range(20):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(call(x), target)
            loss.backward()
            optimiser.step()
            result.append(loss.item())
        return result

    assert losses(net, compiled(net)) == pytest.approx(losses(other, other), abs=1e-5)


ENCODERS = {
    "plain": ({}, None, None),
    "first": ({"norm_first": True, "activation": "gelu"}, None, None),
    "causal": ({}, torch.ones(5, 5, dtype=torch.bool).triu(1), None),
    "padded": ({}, None, torch.arange(5) >= torch.tensor([[5], [3]])),
    "both": ({}, torch.full((5, 5), -torch.inf).triu(1), torch.arange(5) >= torch.tensor([[4], [2]])),
    "each head's": ({}, torch.arange(100).reshape(4, 5, 5) % 3 == 0, None),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_modules_of_attention_for_inference(name):
    """In evaluation mode they call operators of their own. Breaks if one of their masks hides something else, or an option is lost."""
    settings, mask, padding = ENCODERS[name]
    net = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **settings).eval()
    for parameter in net.parameters():
        nn.init.normal_(parameter, 0, 0.3)
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        given = compiled(net)(x, src_mask=mask, src_key_padding_mask=padding)
        torch.testing.assert_close(given, net(x, src_mask=mask, src_key_padding_mask=padding), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("average", [True, False])
def test_weights_of_attention(average):
    """Breaks if weights are those of another head, or not in the mean."""
    net, x = nn.MultiheadAttention(16, 4, batch_first=True).eval(), torch.randn(2, 5, 16)
    with torch.no_grad():
        for given, wanted in zip(compiled(net)(x, x, x, average_attn_weights=average), net(x, x, x, average_attn_weights=average)):
            torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-4)


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=torch.tensor(1e-2), amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1e-3),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-3),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "asgd": lambda p: torch.optim.ASGD(p),
    "rprop": lambda p: torch.optim.Rprop(p),
    "rmsprop, centred": lambda p: torch.optim.RMSprop(p, lr=1e-3, centered=True),
    "adagrad, decayed": lambda p: torch.optim.Adagrad(p, lr=1e-2, lr_decay=0.1, weight_decay=0.01),
    "sgd, dampened": lambda p: torch.optim.SGD(p, lr=1e-2, maximize=True, dampening=0.1, momentum=0.9),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_of_optimisers(name):
    """The step is a graph of ours, made once, and losses and parameters are those of eager's step. Breaks if an operator of a step has no
    lowering, or if state goes by another tensor than the optimiser's."""
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    other = copy.deepcopy(net)
    x, target = torch.randn(16, 8), torch.randint(0, 3, (16,))

    def losses(net, wrapped):
        optimiser = OPTIMISERS[name](net.parameters())
        step, result = wrapped(optimiser.step), []
        for _ in range(20):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(x), target)
            loss.backward()
            step()
            result.append(loss.item())
        return result, optimiser.state_dict()["state"]

    (ours, state), (eager, wanted) = losses(net, compiled), losses(other, lambda step: step)
    made = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert ours == pytest.approx(eager, abs=1e-5)
    assert 1 <= made <= 2, made  # the first of momentum makes its state
    for a, b in zip([*net.parameters(), *state[0].values()], [*other.parameters(), *wanted[0].values()]):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


LOSSES = {
    "mean": ((6, 5), {"weight": True, "ignore_index": 2}),
    "sum": ((6, 5), {"reduction": "sum", "label_smoothing": 0.1}),
    "each": ((6, 5), {"reduction": "none", "weight": True}),
    "pixels": ((2, 5, 3, 4), {"ignore_index": 0}),
    "one": ((5,), {}),
    "halves": ((6, 5), {"type": torch.bfloat16}),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_losses_by_classes(name):
    """Breaks if a class, a weight, an ignored target or a reduction is taken for another on the way back."""
    shape, settings = LOSSES[name]
    settings = dict(settings)
    x = torch.randn(shape).to(settings.pop("type", torch.float32)).requires_grad_()
    target = torch.randint(0, 5, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if settings.get("weight"):
        settings["weight"] = torch.rand(5)

    def loss(x):
        each = nn.functional.cross_entropy(x, target, **settings)
        return (each * torch.linspace(1, 2, each.numel()).reshape(each.shape)).sum()

    wanted, = torch.autograd.grad(loss(x), x)
    given, = torch.autograd.grad(compiled(loss)(x), x)
    tolerance = 1e-5 if x.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(given, wanted, rtol=tolerance, atol=tolerance)


def test_calls_make_no_capsules_and_copy_no_masks(monkeypatch):
    """Breaks if a dense tensor is converted by way of Python, or if a mask is copied that nobody else has."""
    if not run._EXCHANGE.is_direct:
        pytest.skip("this PyTorch has no table of functions for DLPack")
    net, x = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 2)), torch.randn(3, 4)

    def told(_):
        raise AssertionError("a capsule is made")

    direct = run._tensmith.TensorExchange(torch.Tensor, told, told, torch.Tensor.is_neg, torch.Tensor.is_conj)
    monkeypatch.setattr(run, "_EXCHANGE", direct)
    monkeypatch.setattr(run, "_copied", None)
    fast = compiled(net)
    for _ in range(2):
        fast(x).sum().backward()
    with pytest.raises(AssertionError, match="a capsule is made"):  # and it would be told
        torch.compile(lambda x: x * 2, backend=tensmith.torch.backend)(torch.randn(4, 3).t())


@pytest.mark.parametrize("samples", [17, 32, 48])
def test_layers_of_few_samples(samples):
    """Breaks if a layer that is turned around, so that its weights are read as they lie, gives or learns something else."""
    net, x = nn.Sequential(nn.Linear(200, 96), nn.ReLU(), nn.Linear(96, 130), nn.LayerNorm(130), nn.Linear(130, 5)), torch.randn(samples, 200)
    other, fast = copy.deepcopy(net), compiled(net)
    for call in (fast, other):
        call(x).square().mean().backward()
    torch.testing.assert_close([p.grad for p in net.parameters()], [p.grad for p in other.parameters()], rtol=1e-4, atol=1e-5)


def test_parameters_whose_memory_cannot_be_shared():
    """Breaks if what a conversion copies is kept, since an address is no multiple of its elements' size: a step in place isn't seen."""
    weight = nn.Parameter(torch.frombuffer(bytearray(4 * 6 + 2), dtype=torch.float32, offset=2))
    assert weight.data_ptr() % 4
    fast, x = compiled(lambda x: (x * weight).sin()), torch.randn(3, 6)
    for _ in range(3):
        given, = torch.autograd.grad(fast(x).sum(), weight)
        torch.testing.assert_close(given, (x * (x * weight).cos()).sum(0), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            weight += 1


def test_what_saved_tensors_hooks_give_is_not_kept():
    """Breaks if a backward keeps what it is given, which may be a copy that a hook has made for this one call."""
    net, x, copies = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)), torch.randn(3, 4), []
    fast = compiled(net)

    def copied(tensor):
        array = tensor.detach().numpy().copy()
        copies.append((array.shape, weakref.ref(array)))
        return torch.from_numpy(array)

    def gradients(call):
        net.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, copied):
            call(x).sum().backward()
        return [p.grad for p in net.parameters()]

    fast(x).sum().backward()  # what is compiled without hooks knows of none
    given = gradients(fast)
    assert (2, 6) in [shape for shape, _ in copies]
    gc.collect()
    assert not any(copy() is not None for _, copy in copies)
    torch.testing.assert_close(given, gradients(net), rtol=1e-4, atol=1e-5)


def test_another_process_finds_the_module():
    """The second graph is loaded: the compiler must not be called."""
    net, x = nn.Linear(8, 4), torch.randn(3, 8)
    with torch.no_grad():
        wanted = compiled(net)(x)
        torch._dynamo.reset()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(graphs._tensmith, "compile_bytes", lambda *_: pytest.fail("it is compiled again"))
            assert torch.equal(compiled(net)(x), wanted)


def test_unknown_options_are_told():
    with torch.no_grad(), pytest.raises(Exception, match="there is no option 'speed'"):
        compiled(nn.Linear(2, 2), options={"speed": 11})(torch.randn(1, 2))
