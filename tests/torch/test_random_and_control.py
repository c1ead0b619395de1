"""What eager draws, branches and loops, and parameters as constants: answers and losses are eager's, from the same seed."""

import concurrent.futures
import copy

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch import nn  # noqa: E402
from torch._higher_order_ops import scan, while_loop  # noqa: E402

import tensmith.torch  # noqa: E402
from tensmith.torch import graphs, lowering, random, run  # noqa: E402


def compiled(net, **options):
    return torch.compile(net, backend=tensmith.torch.backend, options=options)


def from_seed(call, *inputs):
    torch.manual_seed(7)
    return call(*inputs)


def agree(function, *inputs):
    with torch.no_grad():
        wanted, given = from_seed(function, *inputs), from_seed(compiled(function, reference=True), *inputs)
    torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-5)


DRAWS = {
    "like": lambda x: (torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 9)),
    "of sizes": lambda x: (torch.rand(3) + x[0, 0], torch.randint(0, 9, (4,)) + x[0, 0], torch.randperm(5)),
    "in place": lambda x: (x.new_empty(3).uniform_(2, 3), x.clone().exponential_(), x.new_empty(4).normal_(1, 2)),
    "dropout": lambda x: (nn.functional.dropout(x, 0.3), nn.functional.dropout(x.t(), 0.5), nn.functional.dropout2d(x[None, ..., None], 0.5)),
    "gumbel": lambda x: nn.functional.gumbel_softmax(x),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_those_of_eager(name):
    agree(DRAWS[name], torch.randn(4, 6))


def test_losses_with_dropout_follow_eager():
    net = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.3), nn.Tanh(), nn.Linear(32, 3), nn.Dropout(0.1))
    other, x, target = copy.deepcopy(net), torch.randn(16, 8), torch.randint(0, 3, (16,))

    def losses(net, call):
        optimiser, result = torch.optim.Adam(net.parameters(), lr=1e-2), []
        torch.manual_seed(3)
        for _ in range(20):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(call(x), target)
            loss.backward()
            optimiser.step()
            result.append(loss.item())
        return result

    assert losses(net, compiled(net)) == pytest.approx(losses(other, other), abs=1e-5)


def test_attention_drops_as_eager_does():
    layer, x = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True), torch.randn(2, 5, 16)
    agree(layer, x)
    torch.testing.assert_close(from_seed(ts.from_torch(layer, (x,)), x), from_seed(layer, x).detach(), rtol=1e-4, atol=1e-5)


def test_branches_and_loops():
    x = torch.randn(4, 6)
    for sign in (1, -1):
        agree(lambda x: torch.cond(x.sum() > 0, lambda x: (x.sin(),), lambda x: (x.cos() * 2,), (x,)), x * sign)
    agree(lambda x: while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 1.5), (torch.tensor(0), x)), x)
    agree(lambda x: scan(lambda c, z: (c + z, (c * z).clone()), torch.zeros(6), x), x)


def test_operators_that_are_missing_in_branches_are_told():
    with pytest.warns(UserWarning, match="special_bessel_j0"):  # PyTorch runs the whole of both
        agree(lambda x: torch.cond(x.sum() > 0, lambda x: (torch.special.bessel_j0(x),), lambda x: (x.cos(),), (x,)), torch.randn(3))


def test_constants_hold_for_the_weights_as_they_were():
    """A change in place, or another tensor, must be seen."""
    net, x = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)).eval(), torch.randn(3, 8)
    fast, made = compiled(net, constants=True), []
    original = graphs.CompiledGraph.__init__
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(graphs.CompiledGraph, "__init__", lambda self, *arguments: (made.append(arguments), original(self, *arguments))[1])
        for _ in range(3):
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-5)
        assert len(made) == 1 and len(made[0][2]) == 8  # all parameters and buffers that are read
        net[0].weight.mul_(2)
        torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-5)
        net.load_state_dict({name: value * 0.5 for name, value in net.state_dict().items()})
        torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-5)
        assert len(made) == 2


def test_parameters_may_move():
    """Breaks if what a parameter was is kept where it lies elsewhere since."""
    net, x = nn.Linear(8, 4), torch.randn(3, 8)
    fast = compiled(net)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-5)
            net.weight.data = torch.randn(4, 8)
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-5)
            net.weight.add_(1)


@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_a_step_of_training_trains_what_pytorch_would(rule):
    """Weights that are tied stay one; from the same state, steps give PyTorch's losses and parameters."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 3)
            self.again = self.first

        def forward(self, x):
            return self.second(self.again(self.first(x).tanh()).tanh())

    net, x, target = Tied(), torch.randn(16, 8), torch.randint(0, 3, (16,))
    step = ts.train_step(tensmith.torch.graph_of(net, (x,)), loss="cross_entropy", optimiser=rule, learning_rate=0.01)
    optimiser = (torch.optim.SGD if rule == "sgd" else torch.optim.Adam)(net.parameters(), lr=0.01)
    for _ in range(10):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(x), target)
        loss.backward()
        optimiser.step()
        assert float(step(x.numpy(), target.numpy())["loss"]) == pytest.approx(loss.item(), abs=1e-5)
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(torch.from_numpy(step.state[name].copy()), parameter.detach(), rtol=1e-3, atol=1e-4)


def test_graphs_that_no_step_can_train_are_refused():
    x = torch.randn(4, 8)
    graph = tensmith.torch.graph_of(nn.Linear(8, 2), (x,))
    assert set(graph.state_dict()) == {"weight", "bias"} and not any(hasattr(graph, name) for name in ("__call__", "save", "load_state_dict"))
    with pytest.raises(ts.Error, match="writes buffers"):
        tensmith.torch.graph_of(nn.BatchNorm1d(8).train(), (x,))
    with pytest.raises(ts.Error, match="draws random numbers"):
        tensmith.torch.graph_of(nn.Dropout(0.5).train(), (x,))


def test_weights_of_the_inference_mode_may_change():
    """PyTorch counts no changes of theirs."""
    with torch.inference_mode():
        net, x = nn.Linear(4, 2), torch.randn(3, 4)
        fast = compiled(net, constants=True)
        for _ in range(2):
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-5)
            net.weight.mul_(3)


def test_constants_after_a_failure_and_by_threads(monkeypatch):
    weight, x = torch.randn(4), torch.randn(4)
    module = torch.fx.experimental.proxy_tensor.make_fx(lambda w, x: (w * x,), tracing_mode="fake")(weight, x)
    graph = graphs.ConstantGraph(module, {}, {0})
    with monkeypatch.context() as patch, pytest.raises(ts.Error, match="once"):
        patch.setattr(graphs, "_compiled", lambda *_: (_ for _ in ()).throw(ts.Error("once")))
        graph(weight, x)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for (y,) in pool.map(lambda _: graph(weight, x), range(8)):
            torch.testing.assert_close(y, weight * x)


def test_what_large_constants_hold_is_part_of_the_key():
    """Two graphs that differ by the places that they read, which are a large constant: one must not be taken for the other."""
    x = torch.arange(1200.0)
    for offset in (0, 5):
        torch._dynamo.reset()
        with torch.no_grad():
            given = compiled(lambda x: torch.as_strided(x, (20, 20), (30, 1), offset) * 1, reference=True)(x)  # noqa: B023
        assert torch.equal(given, torch.as_strided(x, (20, 20), (30, 1), offset))


@pytest.mark.parametrize("reentrant", [False, True])
def test_masks_of_checkpoints_are_drawn_again(reentrant):
    """Breaks if the backward draws other masks than the forward, or leaves the generator where eager doesn't, or if PyTorch has to run such a draw."""
    net = nn.Sequential(nn.Linear(5, 9), nn.Dropout(0.4), nn.GELU(), nn.Linear(9, 5), nn.Dropout(0.2))
    x = torch.randn(4, 5, requires_grad=True)

    def twice(x):
        for _ in range(2):
            x = x + torch.utils.checkpoint.checkpoint(net, x, use_reentrant=reentrant) * torch.rand_like(x)
        return x

    def told(call):
        torch.manual_seed(1)
        x.grad = None
        net.zero_grad()
        y = call(x)
        y.square().sum().backward()
        return [y, x.grad, *(p.grad for p in net.parameters()), torch.rand(3)]

    for a, b in zip(told(torch.compile(twice, backend=tensmith.torch.backend, options={"fallback": False})), told(twice), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def gradients_of_checkpoint(block, x, **options):
    """Of a checkpoint of the block: result, gradient, and what is drawn next, by the compiler and by eager, from one seed."""

    def told(wrap):
        torch.manual_seed(1)
        given = x.clone().requires_grad_()
        y = wrap(lambda x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) * 2)(given)
        y.sum().backward()
        return [y.detach(), given.grad, torch.rand(3)]

    return told(lambda function: torch.compile(function, backend=tensmith.torch.backend, **options)), told(lambda function: function)


CHECKPOINTED = {
    "of another's shape": lambda x: (x * torch.rand_like(x)).sin(),
    "of sizes": lambda x: (x * torch.rand(x.shape)).sin(),
    "whole channels": lambda x: nn.functional.dropout2d(x.sin(), 0.5) * x,
    "with probability 0": lambda x: nn.functional.dropout(x.sin(), 0.0) * x,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CHECKPOINTED)
def test_what_checkpoints_draw_is_drawn_again(name, dynamic):
    """Breaks if a draw in a backward, of which PyTorch knows no shape, can't be compiled, or draws other numbers than the forward's."""
    given, wanted = gradients_of_checkpoint(CHECKPOINTED[name], torch.randn(2, 5, 3, 4), options={"fallback": False}, dynamic=dynamic)
    torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block, operator", [
    (lambda x: torch.normal(x, 1.0).sin() * x, "aten.normal.Tensor_float"),
    (lambda x: torch.multinomial(x.exp(), 2)[:, :1] * x, "aten.multinomial.default"),
    (lambda x: (torch.normal(x, 1.0) + torch.rand_like(x)).sin() * x, "aten.normal.Tensor_float"),
])  # fmt: skip
def test_checkpoints_that_draw_by_operators_without_a_function(block, operator):
    """Breaks if PyTorch doesn't run them, or if neither the warning nor the refusal names the operator that draws."""
    x = torch.randn(3, 4)
    with pytest.warns(UserWarning, match=rf"PyTorch runs operators that can't be compiled; register functions by tensmith.torch.lowers(.|\n)*  {operator}: "
                                         r"test_random_and_control.py:\d+"):  # fmt: skip
        given, wanted = gradients_of_checkpoint(block, x)
    torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()
    with pytest.raises(Exception, match=rf"register functions by tensmith.torch.lowers:\n  {operator}: test_random_and_control.py:\d+"):
        gradients_of_checkpoint(block, x, options={"fallback": False})


def test_a_function_that_draws_twice_in_a_checkpoint(monkeypatch):
    """Breaks if both draws of the backward take the generator's first state: PyTorch has to run it there, and be told why."""

    def twice(g, mean, deviation=1.0, **_):
        noise = [random.drawn(g, lambda tensor: torch.randn_like(tensor), g.meta) for _ in range(2)]
        return g.binary("add", mean, g.binary("mul", g.binary("mul", *noise), g.scalar(deviation, mean.dtype)))

    monkeypatch.setitem(lowering._TABLE, "aten.normal.Tensor_float", twice)
    with pytest.raises(Exception, match=r"aten\.normal\.Tensor_float: its function draws several times(.|\n)*draw outside of the checkpoint"):
        gradients_of_checkpoint(lambda x: torch.normal(x, 1.0).sin() * x, torch.randn(3, 4), options={"fallback": False})


def test_a_state_that_is_drawn_is_no_input_of_a_call():
    """Breaks if a draw's place among the module's inputs is taken for one among a call's, which have no draws."""
    g = lowering.Lowering()
    state = random.drawn(g, lambda _: torch.get_rng_state(), torch.get_rng_state())
    with pytest.raises(ts.Error, match="no input of the graph; draw outside of the checkpoint"):
        random._again(g, state, None)


def test_a_draw_that_fails_leaves_the_generator():
    def failing(_):
        torch.rand(1)
        raise ts.Error("it fails")

    torch.manual_seed(3)
    state, before = torch.Generator().manual_seed(1).get_state(), torch.get_rng_state()
    with pytest.raises(ts.Error, match="it fails"):
        random.Again(random.Draw(failing, torch.empty(2)), 0)(None, {}, [state])
    assert torch.equal(torch.get_rng_state(), before)
