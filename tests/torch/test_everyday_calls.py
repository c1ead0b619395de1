"""What people do with a compiled module: views, writes, hooks, graph breaks, functions over functions, threads, changing sizes and numbers. Answers and
gradients are eager's, and what can't be done says so.

Breaks if a result shares memory where eager's doesn't, if a write is lost, or if a second call is answered by what the first one fixed.
"""

import collections
import copy
import threading

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch import nn  # noqa: E402

import tensmith.torch  # noqa: E402

Pair = collections.namedtuple("Pair", "first second")


def compiled(function, **options):
    return torch.compile(function, backend=tensmith.torch.backend, **options)


def same(function, *inputs, **options):
    """Calls eager and compiled, each on inputs of its own; both must leave the same behind, too."""
    fast = compiled(function, **options)
    mine, theirs = ([x.clone() if isinstance(x, torch.Tensor) else x for x in inputs] for _ in range(2))
    given, wanted = fast(*mine), function(*theirs)
    torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    return given, mine


def test_results_that_are_views_of_others():
    x = torch.randn(3, 4)
    (view, whole, again), (mine,) = same(lambda x: (x[1:], x, x), x)
    assert view.data_ptr() == mine[1:].data_ptr() and whole is mine and again is mine
    (a, b), _ = same(lambda x: (y := x + 1, y[0]), x)
    b.fill_(7)
    assert (a[0] == 7).all()  # as in eager
    (a, b, c), _ = same(lambda x: (y := x.exp(), y.t()[1:], y.chunk(2, 1)[1]), x)
    assert b.data_ptr() == a[:, 1:].data_ptr() and c.data_ptr() == a[:, 2:].data_ptr() and b.stride() == (1, 4)
    (a, b), _ = same(lambda x: (x + 1, x + 1), x)
    b.fill_(7)
    assert not (a == 7).any()
    (a, b), _ = same(lambda x: (y := x + 1, y.view(torch.int32)[1:]), x)
    b.zero_()  # what has another dtype lies in the same memory
    assert b.dtype == torch.int32 and (a[1:] == 0).all() and (a[0] == x[0] + 1).all()


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_are_parts_of_inputs(dynamic):
    """With open sizes PyTorch takes the places of such a part from what the graph gives."""

    def parts(x):
        return x[x.shape[0] // 2 :], x.t()[1:], x.expand(3, *x.shape), torch.tensor_split(x, 3, 1)[1], x.chunk(2, 1)

    for x in (torch.randn(4, 6), torch.randn(5, 6)[1:]):
        (half, columns, many, *_), (mine,) = same(parts, x, dynamic=dynamic)
        assert half.data_ptr() == mine[2:].data_ptr() and columns.data_ptr() == mine[:, 1:].data_ptr() and many.stride(0) == 0

    def written(x):
        part = x[1:]
        x.add_(1)
        return part, x[:, x.shape[1] // 2 :]

    (part, half), (mine,) = same(written, torch.randn(3, 4), dynamic=dynamic)
    assert part.data_ptr() == mine[1:].data_ptr() and half.data_ptr() == mine[:, 2:].data_ptr()


def test_inputs_are_written():
    def normalised(x):
        x.sub_(x.mean(0))
        x[:, 1] *= 2
        return x.sum(1)

    same(normalised, torch.randn(3, 4))
    same(lambda x: normalised(x.t()), torch.randn(3, 4))

    def shared(x):
        y = x.view(-1)
        y[3] = 9
        return x + y.sum()

    same(shared, torch.randn(3, 4))
    base, other = torch.randn(6, 4), None
    other = base.clone()
    fast = compiled(lambda a, b: a.add_(1) + b)
    torch.testing.assert_close(fast(base[:3], base[2:5]), (lambda a, b: a.add_(1) + b)(other[:3], other[2:5]))  # they overlap
    torch.testing.assert_close(base, other)


def test_structures_go_in_and_out():
    def function(batch, scale=None, *, flags):
        x = batch["x"] * (2 if scale is None else scale)
        return Pair(x.sum(), {"y": [x, None, "text", flags[0]]})

    batch = {"x": torch.randn(3), "unused": None}
    fast = compiled(function)
    for arguments in ((batch,), (batch, torch.tensor(3.0))):
        given, wanted = fast(*arguments, flags=(True,)), function(*arguments, flags=(True,))
        assert type(given) is Pair and given.second["y"][1:] == wanted.second["y"][1:]
        torch.testing.assert_close((given.first, given.second["y"][0]), (wanted.first, wanted.second["y"][0]))


def test_modes_of_gradients():
    net, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), torch.randn(2, 4)
    fast = compiled(net)
    assert fast(x).requires_grad
    with torch.no_grad():
        assert not fast(x).requires_grad
    with torch.inference_mode():
        assert fast(x).is_inference()
    net[0].weight.requires_grad_(False)
    fast(x).sum().backward()
    assert net[0].weight.grad is None and net[0].bias.grad is not None
    with torch.enable_grad():
        torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)


def test_gradients_add_up_and_are_clipped():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    other, x = copy.deepcopy(net), torch.randn(5, 4)
    fast = compiled(net)
    for call, of in ((fast, net), (other, other)):
        loss = call(x).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        call(x[:3]).sum().backward()
        nn.utils.clip_grad_norm_(of.parameters(), 1.0)
    for a, b in zip(net.parameters(), other.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)


def test_a_gradient_of_a_gradient_is_refused():
    """As with PyTorch's own backends; eager's gradient of a compiled module's would be wrong."""
    x = torch.randn(3, requires_grad=True)
    first, = torch.autograd.grad(compiled(lambda x: x.pow(3).sum())(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


def test_gradients_of_gradients_within():
    def penalty(x, w):
        y = (x * w).tanh().sum(1)
        gradient, = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.mean() + gradient.square().sum()

    def value(x, w):
        return torch.func.grad_and_value(lambda x: (x * w).tanh().sum())(x)

    x, w = torch.randn(3, 4), torch.randn(4)
    same(value, x, w)
    other = w.clone().requires_grad_()
    w.requires_grad_()
    penalty(x.clone().requires_grad_(), other).backward()
    compiled(penalty)(x.clone().requires_grad_(), w).backward()
    torch.testing.assert_close(w.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_functions_over_functions():
    x = torch.randn(3, 4)
    same(torch.vmap(torch.func.grad(lambda x: (x * x).sum().sin())), x)
    same(torch.vmap(torch.vmap(lambda a, b: a * b + 1, in_dims=(0, None)), in_dims=(0, 0)), x, torch.randn(3))
    same(torch.func.hessian(lambda x: x.pow(3).sum()), torch.randn(3))
    same(lambda x: torch.func.vjp(torch.sin, x)[1](x), x)
    net = nn.Linear(4, 2)
    same(lambda x: torch.func.functional_call(net, {"weight": torch.ones(2, 4), "bias": torch.zeros(2)}, (x,)), x)
    stacked, buffers = torch.func.stack_module_state([nn.Linear(4, 2), nn.Linear(4, 2)])
    with torch.no_grad():
        same(lambda x: torch.vmap(lambda w: torch.func.functional_call(net, w, (x,)))(stacked), x)


def test_graphs_break_where_python_must_act():
    def printed(x):
        y = x * 2
        print("between", float(y.sum()))
        z = torch.from_numpy(y.numpy() + 1)
        if z.max() > 100:
            return z
        try:
            raise ValueError
        except ValueError:
            return z.sin()

    same(printed, torch.randn(4))
    assert torch._dynamo.utils.counters["graph_break"]
    same(lambda x: x[x > 0].sum() + x.nonzero().shape[0], torch.tensor([1.0, -1, 2]))
    same(lambda x: torch.unique(x, return_counts=True), torch.tensor([1, 3, 1]))


def test_sizes_and_numbers_change():
    """Automatic open sizes: the second size is compiled for all; one, none, and marked ones too."""
    net = nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1))
    with torch.no_grad():
        fast = compiled(net)
        for batch in (3, 5, 7, 1, 0, 9):
            x = torch.randn(batch, 4)
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
        torch._dynamo.reset()
        fast = compiled(net, fullgraph=True)
        x = torch.randn(6, 4)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=100)
        for x in (x, torch.randn(2, 4), torch.randn(11, 4)):
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
        fast = compiled(lambda x, a, b: x.roll(a, 0) * b + a)
        for a, b in ((1, 0.5), (2, 1.5), (-1, -2.5), (0, 0.0)):
            x = torch.randn(5)
            torch.testing.assert_close(fast(x, a, b), x.roll(a, 0) * b + a)


def test_many_threads_call_one_module():
    net, xs, given = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.randn(4, 3, 8), {}
    with torch.no_grad():
        wanted = net(xs)
        fast = compiled(net)
        fast(xs[0])

    def call(i):
        with torch.no_grad():
            for _ in range(20):
                given[i] = fast(xs[i])

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        torch.testing.assert_close(given[i], wanted[i], rtol=1e-4, atol=1e-4)


def test_autocast_rounds_products_alone():
    net, x = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 2)), torch.randn(4, 16)
    fast = compiled(net)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        given, wanted = fast(x), net(x)
    assert given.dtype == wanted.dtype == torch.bfloat16
    torch.testing.assert_close(given, wanted, rtol=3e-2, atol=3e-2)
    with torch.no_grad():
        assert fast(x).dtype == torch.float32
    scaler = torch.amp.GradScaler("cpu")
    with torch.autocast("cpu", torch.bfloat16):
        scaler.scale(fast(x).float().sum()).backward()
    assert net[0].weight.grad.dtype == torch.float32 and net[0].weight.grad.isfinite().all()


def test_parameters_change_between_calls():
    net, x = nn.Linear(4, 2), torch.randn(3, 4)
    average = copy.deepcopy(net)
    fast = compiled(net)
    fast(x)
    with torch.no_grad():
        for a, b in zip(net.parameters(), average.parameters()):
            a.mul_(0.5).add_(b, alpha=0.25)
        torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
        net.load_state_dict(average.state_dict())
        torch.testing.assert_close(fast(x), average(x), rtol=1e-4, atol=1e-4)
        net.weight = nn.Parameter(torch.ones(2, 4))
        torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
    again = copy.deepcopy(fast)
    torch.testing.assert_close(again(x), net(x), rtol=1e-4, atol=1e-4)
    assert list(fast.state_dict()) == ["weight", "bias"] or list(fast.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]


@torch.library.custom_op("everyday::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@scaled.register_fake
def _(x, by):
    return torch.empty_like(x)


def test_own_operators_are_refused_by_name_and_added():
    x = torch.randn(3)
    with torch.no_grad(), pytest.raises(Exception, match=r"everyday\.scaled\.default: test_everyday_calls\.py:\d+ scaled"):
        compiled(lambda x: scaled(x, 2.0) + 1, options={"fallback": False})(x)
    torch._dynamo.reset()
    tensmith.torch.lowers("everyday.scaled.default")(lambda g, x, by: g.binary("mul", x, g.scalar(by, x.dtype)))
    try:
        with torch.no_grad():
            torch.testing.assert_close(compiled(lambda x: scaled(x, 2.0) + 1)(x), x * 2 + 1)
    finally:
        tensmith.torch.lowering._TABLE.pop("everyday.scaled.default")


def test_what_is_no_dense_tensor_of_the_host():
    """Sparse tensors are PyTorch's, as for its own backends; others are refused in words."""
    with torch.no_grad():
        with pytest.raises(ts.Error, match="on the device meta"):
            compiled(lambda x: x + 1)(torch.randn(3, device="meta"))
        with pytest.raises(Exception, match=r"aten.view_as_real.default: test_everyday_calls.py:\d+ view_as_real"):
            compiled(lambda x: torch.view_as_real(x * 1j), options={"fallback": False})(torch.randn(3) + 0j)
        same(lambda x: x @ torch.ones(3, 2), torch.eye(3).to_sparse())


def test_nested_tensors():
    """Those of rows of different lengths, whose own number is no number when a graph runs."""
    layer, parts = nn.Linear(4, 3), [torch.randn(2, 4), torch.randn(3, 4)]
    other = copy.deepcopy(layer)
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    given = compiled(lambda x: layer(x.sin() * 2).relu())(nested)
    wanted = other(torch.cat(parts).sin() * 2).relu()
    torch.testing.assert_close(given.values(), wanted, rtol=1e-4, atol=1e-5)
    given.values().sum().backward()
    wanted.sum().backward()
    torch.testing.assert_close(layer.weight.grad, other.weight.grad, rtol=1e-4, atol=1e-5)


def test_whole_steps_of_training():
    """Forward, backward and the optimiser's step as one function, at a rate that a schedule changes."""

    def losses(wrapped):
        torch.manual_seed(1)
        net, x, target = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)), torch.randn(16, 8), torch.randint(0, 3, (16,))
        optimiser = torch.optim.Adam(net.parameters(), lr=torch.tensor(1e-2))
        schedule = torch.optim.lr_scheduler.StepLR(optimiser, 2, 0.5)

        def step():
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(x), target)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimiser.step()
            return loss.detach()

        step = wrapped(step)
        return [(step(), schedule.step())[0].item() for _ in range(8)]

    assert losses(compiled) == pytest.approx(losses(lambda step: step), abs=1e-5)


@pytest.mark.filterwarnings("ignore:::torch.ao")
def test_training_for_quantisation():
    quantization = pytest.importorskip("torch.ao.quantization")
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).train()
    net.qconfig = quantization.get_default_qat_qconfig("x86")
    net, x = quantization.prepare_qat(net), torch.randn(3, 8)
    other = copy.deepcopy(net)
    fast = compiled(net)
    for _ in range(3):
        torch.testing.assert_close(fast(x), other(x), rtol=1e-4, atol=1e-4)
    fast(x).sum().backward()
    other(x).sum().backward()
    for a, b in zip(net.parameters(), other.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
