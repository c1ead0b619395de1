"""from_torch against PyTorch itself: models, open sizes, buffers, state dicts, and what can't be compiled."""

import pathlib
import re

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch import nn  # noqa: E402

import tensmith.torch  # noqa: E402
from tensmith.torch import graphs  # noqa: E402


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def leaves(value):
    return torch.utils._pytree.tree_leaves(value)


def agree(net, inputs, **options):
    """Compiles, and compares with the module on the same inputs."""
    model = ts.from_torch(net, inputs, **options)
    compare(model, net, inputs)
    return model


def compare(model, net, inputs):
    with torch.no_grad():
        wanted = leaves(net(*inputs))
    given = leaves(model(*inputs))
    assert len(given) == len(wanted)
    for a, b in zip(given, wanted):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def small():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).eval()


def test_one_compilation_serves_every_batch():
    net = small()
    model = agree(net, (torch.randn(3, 8),), dynamic_shapes=({0: torch.export.Dim("batch", max=64)},))
    for batch in (1, 2, 7, 64):
        compare(model, net, (torch.randn(batch, 8),))
    with pytest.raises(ts.Error, match="exported for"):
        model(torch.randn(65, 8))
    with pytest.raises(ts.Error, match="must be of torch.float32"):
        model(torch.randn(3, 8).double())


def test_a_saved_module_runs_without_torch(tmp_path):
    net, x = small(), torch.randn(2, 8)
    model = ts.from_torch(net, (x,))
    model.save(tmp_path / "net.so")
    y = ts.load(tmp_path / "net.so")(x.numpy())
    torch.testing.assert_close(torch.from_numpy(y), net(x).detach(), rtol=1e-4, atol=1e-4)


def test_states_go_both_ways():
    net, other, x = small(), small(), torch.randn(2, 8)
    model = ts.from_torch(net, (x,))
    assert model.state_dict().keys() == net.state_dict().keys()
    model.load_state_dict(other.state_dict())
    compare(model, other, (x,))
    net.load_state_dict(model.state_dict())
    compare(model, net, (x,))
    with pytest.raises(ts.Error, match="missing are"):
        model.load_state_dict({})


def test_buffers_that_are_written_are_kept():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return x * self.count

    model = ts.from_torch(Counting(), (torch.ones(2),))
    assert [model(torch.ones(2))[0].item() for _ in range(3)] == [1, 2, 3]
    assert model.state_dict()["count"].item() == 3


def of(function):
    """A module of a function."""

    class Net(nn.Module):
        def forward(self, *arguments, **named):
            return function(*arguments, **named)

    return Net()


def test_copies_of_inputs_are_copies():
    x = torch.ones(2)
    model = ts.from_torch(of(lambda x: (x.clone(), x.contiguous().clone(), x.repeat(1), x.float().clone().detach())), (x,))
    for result in model(x):
        assert torch.equal(result, x)
        result.zero_()
    assert x.sum() == 2
    both = ts.from_torch(of(lambda x: (y := x.exp(), y.clone())), (x,))(x)
    assert both[0].data_ptr() != both[1].data_ptr()


def test_buffers_are_swapped():
    class Swapping(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(2))
            self.register_buffer("b", torch.ones(2))

        def forward(self, x):
            before = self.a.clone()
            self.a.copy_(self.b)
            self.b.copy_(before)
            return before + x, before

    net, model = Swapping(), ts.from_torch(Swapping(), (torch.ones(2),))
    for _ in range(3):
        compare(model, net, (torch.ones(2),))
        for name, value in net.state_dict().items():
            assert torch.equal(model.state_dict()[name], value)


def test_inputs_go_by_their_names():
    a, b = torch.randn(3), torch.randn(3)
    model = ts.from_torch(of(lambda x, *, a, b: x + a / b), (a,), kwargs={"a": a, "b": b})
    torch.testing.assert_close(model(a, b=b, a=a), a + a / b)
    with pytest.raises(ts.Error, match="by name are others"):
        model(a, a=a, c=b)
    with pytest.raises(ts.Error, match="is given 2"):
        ts.from_torch(of(lambda pair: pair[0] - pair[1]), ([a, b],))(a, b)


def test_numbers_stay_those_of_the_example():
    x = torch.randn(3)
    model = ts.from_torch(of(lambda x, n, flag, y: x * n if flag else x), (x, 3, True, None))
    torch.testing.assert_close(model(x, 3, True, None), x * 3)
    for others in ((4, True, None), (3, False, None), (3, True, x), (3, 1, None)):
        with pytest.raises(ts.Error, match="exported for"):
            model(x, *others)


def test_states_may_be_named_as_inputs():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.full((2,), 3.0))
            self.register_buffer("count", torch.zeros(2))

        def forward(self, scale, count):
            self.count.add_(1)
            return scale * self.scale + self.count * count

    net, x = Named(), torch.ones(2)
    model = ts.from_torch(Named(), (x, x))
    compare(model, net, (x, x))
    assert model.state_dict().keys() == net.state_dict().keys()


def test_a_state_that_fails_changes_nothing(monkeypatch):
    net, x = small(), torch.randn(2, 8)
    model = ts.from_torch(net, (x,))
    with monkeypatch.context() as patch:
        patch.setattr(tensmith.torch.export, "compiled", lambda *_: (_ for _ in ()).throw(ts.Error("no room")))
        with pytest.raises(ts.Error, match="no room"):
            model.load_state_dict(small().state_dict())
    compare(model, net, (x,))
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), net.state_dict().values()))


def test_halves_are_summed_wide():
    x = torch.randn(4, 3000).add(8).to(torch.bfloat16)
    given = ts.from_torch(of(lambda x: (x.mean(1), x.var(1), x.mean())), (x,))(x)
    for a, b in zip(given, (x.float().mean(1), x.float().var(1), x.float().mean())):
        assert a.dtype == torch.bfloat16
        torch.testing.assert_close(a.float(), b, rtol=1e-2, atol=1e-2)


def test_types_of_tensors_without_dimensions():
    third = torch.tensor(1 / 3, dtype=torch.float64)
    agree(of(lambda a, b, i: (a == b, i < b, a.double() == b)), (third.float(), third, torch.tensor([0, 1])))


def test_rows_without_keys_are_zero():
    x, mask = torch.randn(1, 2, 3, 4), torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]]).bool()
    agree(of(nn.functional.scaled_dot_product_attention), (x, x, x, mask))
    agree(of(nn.functional.scaled_dot_product_attention), (x, x, x, torch.zeros(3, 3).masked_fill(~mask, -torch.inf)))


def test_resizing_by_a_fraction_is_refused():
    x = torch.randn(1, 2, 5, 5)
    with pytest.raises(ts.Error, match="resizing by 1.5"):
        g = tensmith.torch.lowering.Lowering()
        tensmith.torch.contraction._check_scales(g.input("x", x.shape, x.dtype), (1, 2, 7, 7), [1.5, 1.5])
    agree(nn.Upsample(scale_factor=0.5, mode="bilinear"), (x[..., :4, :4],))


def test_sizes_keep_their_parentheses():
    sympy = pytest.importorskip("sympy")
    from torch.utils._sympy.functions import FloorDiv, Max

    a, b, c = sympy.symbols("a b c", integer=True, positive=True)
    text = tensmith.torch.sizes._text
    assert text(FloorDiv(a, b * c)) == "(a/(b*c))"
    assert text(FloorDiv(a, (b + 1) * c)) == "(a/(c*(1+b)))"
    with pytest.raises(ts.Error, match="has no form"):
        text(Max(a, b))


OPERATIONS = {
    "arithmetic": lambda x, i: (x + 2) * x - x / 3 + x**3 + x.abs().sqrt() + torch.rsqrt(x.abs() + 1),
    "integers": lambda x, i: (i // 3, i % 3, -i // 2, i.float() / 2, i + x[0, 0], i * 2.5),
    "comparisons": lambda x, i: (x > 0, x.le(0.5), i == 2, i != 2, (x > 0) & (x < 1), ~(x > 0)),
    "activations": lambda x, i: [f(x) for f in (torch.relu, nn.functional.silu, nn.functional.gelu, nn.functional.hardswish,
                                                nn.functional.elu, nn.functional.softplus, torch.expm1, torch.trunc)],
    "gelu of tanh": lambda x, i: nn.functional.gelu(x, approximate="tanh"),
    "where": lambda x, i: (torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, -1.0), x.clamp(-0.5, 0.5)),
    "reductions": lambda x, i: (x.sum(), x.mean(1), x.var(0), x.std(1, unbiased=False), x.amax(1), x.argmax(1), x.max(dim=1), (x > 9).any(),
                               torch.any(x, dim=()), torch.all(x > 0, dim=(), keepdim=True), torch.any(x > 1, dim=(0, 1))),
    "running": lambda x, i: (x.cumsum(1), x.softmax(0), x.log_softmax(-1), x.logsumexp(1)),
    "movement": lambda x, i: (x.t(), x[1:, ::2], x[-1], x.flip(0), x.roll(1, 1), x.repeat(2, 1), x.unsqueeze(1).expand(4, 3, 6)),
    "joining": lambda x, i: (torch.cat([x, x], 1), torch.stack([x, x]), x.split(2), x.chunk(2, 1), x.unbind(0)),
    "indices": lambda x, i: (x[i], x[:, i], x.index_select(0, i), x.gather(0, i.reshape(1, -1).expand(2, 4)), x[i, i]),
    "writing": lambda x, i: (torch.zeros(4, 6).index_put((i,), x), torch.zeros(4, 6).scatter(0, i.reshape(4, 1), x), x.tril(), x.triu(1)),
    "writing at masks": lambda x, i: (x.index_put((x > 0,), x[0, 0], accumulate=True), x.index_put((x > 0,), x[0, 0]),
                                      torch.slice_scatter(x, x[:2], 0, -9, 2), torch.slice_scatter(x, x[:2], 0, -2)),
    "making": lambda x, i: (torch.arange(5), torch.arange(1, 9, 2), torch.full((2, 2), 3.0), torch.zeros_like(x), torch.ones(3)),
    "sorting": lambda x, i: (x.topk(2), x.sort(1, descending=True)),
    "products": lambda x, i: (x @ x.t(), torch.einsum("ij,kj->ik", x, x), torch.bmm(x[None], x.t()[None]), x @ x[0]),
    "pooling": lambda x, i: (nn.functional.max_pool2d(x[None, None], 2), nn.functional.avg_pool2d(x[None, None], 2),
                             nn.functional.adaptive_avg_pool2d(x[None, None], 1)),
    "padding": lambda x, i: (nn.functional.pad(x, (1, 2)), nn.functional.pad(x[None, None], (1, 1, 1, 1), mode="reflect")),
    "attention": lambda x, i: nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], is_causal=True),
    "shared heads": lambda x, i: nn.functional.scaled_dot_product_attention(
        x[None, None].expand(1, 4, 4, 6), x[None, None].expand(1, 2, 4, 6), x[None, None].expand(1, 2, 4, 6), enable_gqa=True),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    class Net(nn.Module):
        def forward(self, x, i):
            return OPERATIONS[name](x, i)

    agree(Net(), (torch.randn(4, 6), torch.tensor([2, 0, 3, 1])))


@pytest.mark.parametrize("layer", [
    nn.Conv1d(4, 6, 3, padding=1), nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1),
    nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.PixelShuffle(2), nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2, mode="bilinear"),
], ids=lambda layer: str(layer).partition("(")[0])  # fmt: skip
def test_layers(layer):
    x = torch.randn(2, 4, 9) if isinstance(layer, nn.Conv1d) else torch.randn(2, 4, 9, 9)
    agree(layer.eval(), (x,))


def test_batch_norm_by_running_statistics():
    """As graphs of inference have it that were not taken apart."""
    x, weight, bias = torch.randn(2, 4, 5), torch.rand(4), torch.rand(4)
    center, spread = torch.randn(4), torch.rand(4) + 0.5
    call = torch.ops.aten._native_batch_norm_legit_functional.default
    for is_training in (False, True):
        def function(x):
            return call(x, weight, bias, center, spread, is_training, 0.1, 1e-5)  # noqa: B023

        module = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
        given = graphs.CompiledGraph(module, {}).compile()(x)
        for a, b in zip(given, function(x)):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_the_tail_of_erfc():
    """By its relative error: 1 - erf is nothing there."""
    for dtype, top, tolerance in ((torch.float32, 9, 1e-5), (torch.float64, 26, 1e-13)):
        x = torch.linspace(-3, top, 100, dtype=dtype)
        given = ts.from_torch(of(torch.erfc), (x,))(x)
        torch.testing.assert_close(given.double(), torch.erfc(x.double()), rtol=tolerance, atol=0)


def test_every_unsupported_operator_is_told_with_its_place():
    class Net(nn.Module):
        def forward(self, x):
            return torch.linalg.eigvalsh(x) + torch.special.bessel_j0(x)

    with pytest.raises(ts.Error) as error:
        ts.from_torch(Net(), (torch.eye(3),))
    assert "aten._linalg_eigh" in str(error.value) and "aten.special_bessel_j0" in str(error.value)
    assert "test_from_torch.py:" in str(error.value)


def test_operators_are_added():
    class Net(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j1(x)

    @tensmith.torch.lowers("aten.special_bessel_j1.default")
    def lower(g, x):
        return g.op("neg", [x])

    x = torch.randn(3)
    assert torch.equal(ts.from_torch(Net(), (x,))(x), -x)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "vit"])
def test_torchvision(name):
    models = pytest.importorskip("torchvision").models
    if name == "vit":
        net = models.vision_transformer.VisionTransformer(32, 8, 2, 4, 64, 128)
    else:
        net = getattr(models, name)(num_classes=10)
    agree(net.eval(), (torch.randn(1, 3, 32, 32),))


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_transformers(name):
    transformers = pytest.importorskip("transformers")
    if name == "gpt2":
        net = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=100, n_positions=64, use_cache=False)
        )
    else:
        net = transformers.BertModel(
            transformers.BertConfig(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, vocab_size=100, intermediate_size=128)
        )
    agree(net.eval(), (torch.randint(0, 100, (2, 9)),))


def test_the_page_is_true(tmp_path, monkeypatch):
    """All examples of docs/pytorch.md, one after the other."""
    page = pathlib.Path(__file__).parents[2] / "docs/pytorch.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    code = "\n".join(examples).replace('backend="tensmith"', "backend=tensmith_torch.backend")
    exec(compile("import tensmith.torch as tensmith_torch\n" + code, str(page), "exec"), {})  # noqa: S102
    assert (tmp_path / "net.so").exists()
