"""from_jax against JAX itself: operators over their dimension numbers, control, random keys, models, open sizes, and what is refused."""

import math
import pathlib
import re

import numpy
import pytest

pytest.importorskip("jax.numpy")  # a folder of tests has the package's name
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import tensmith.jax  # noqa: E402
import tensmith.stablehlo  # noqa: E402
from tensmith.stablehlo import program as reading  # noqa: E402

X = numpy.random.default_rng(0).normal(size=(4, 6)).astype("float32")
I = numpy.array([2, 0, 3, 1], "int32")  # noqa: E741


def agree(function, *args, reference=True, tolerance=1e-4):
    """Compiles, and compares with JAX on the same arguments."""
    model = tensmith.jax.from_jax(function, *args, reference=reference)
    compare(model, function, *args, tolerance=tolerance)
    return model


def compare(model, function, *args, tolerance=1e-4):
    wanted, given = jax.tree.flatten(jax.jit(function)(*args)), jax.tree.flatten(model(*args))
    assert given[1] == wanted[1]
    for a, b in zip(given[0], wanted[0]):
        b = numpy.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
        numpy.testing.assert_allclose(a.astype("float64"), b.astype("float64"), rtol=tolerance, atol=tolerance)


OPERATIONS = {
    "arithmetic": lambda x, i: (x + 2, x * x - x / 3, x**3, jnp.sqrt(jnp.abs(x)), lax.rsqrt(jnp.abs(x) + 1), jnp.sign(x), jnp.cbrt(x), jnp.arctan2(x, x.T[:4, :1])),
    "functions": lambda x, i: [f(x) for f in (jnp.exp, jnp.expm1, jnp.log1p, jnp.sin, jnp.tanh, jax.nn.sigmoid, jnp.floor, jnp.round, lax.erf, jnp.isfinite)],
    "activations": lambda x, i: [f(x) for f in (jax.nn.relu, jax.nn.gelu, jax.nn.silu, jax.nn.softmax, jax.nn.log_softmax, jax.nn.softplus, jax.nn.elu)],
    "integers": lambda x, i: (i // 3, i % 3, -i // 2, i << 2, i >> 1, i & 3, i | 4, ~i, lax.shift_right_logical(-i, jnp.int32(1)), i.astype("uint8"), i * 2.5),
    "comparisons": lambda x, i: (x > 0, x <= 0.5, i == 2, (x > 0) & (x < 1), ~(x > 0), jnp.where(x > 0, x, 0), jnp.clip(x, -0.5, 0.5)),
    "reductions": lambda x, i: (x.sum(), x.mean(1), x.var(0), x.max(1), x.min(0), x.prod(1), x.argmax(1), x.argmin(0), (x > 9).any(), (x < 9).all(1), i.max(), x.argmax()),
    "running": lambda x, i: (jnp.cumsum(x, 1), jnp.cumsum(x, 0), lax.cummax(x, 1), jax.nn.logsumexp(x, 1), lax.cumsum(x, 1, reverse=True)),
    "movement": lambda x, i: (x.T, x[1:, ::2], x[-1], x[::-1], jnp.roll(x, 1, 1), jnp.tile(x, (2, 1)), jnp.pad(x, ((1, 0), (0, 2))), x[:, None, :], lax.pad(x, 0.5, ((0, 1, 2), (-1, 0, 0)))),
    "joining": lambda x, i: (jnp.concatenate([x, x], 1), jnp.stack([x, x]), jnp.split(x, 2, 1)),
    "reading": lambda x, i: (x[i], x[:, i], x[i, i], jnp.take(x, i, axis=1), jnp.take_along_axis(x, i[:, None], 1), x[i[:, None], i[None]], x[:, i][i], lax.dynamic_slice(x, (i[0], i[1]), (2, 3))),
    "writing": lambda x, i: (x.at[i].set(1), x.at[i, i].add(2), x.at[:, i].mul(3), x.at[i].max(x), x.at[5].set(0), x.at[1:3].set(7), lax.dynamic_update_slice(x, x[:2, :3], (i[0], i[1])),
                             jax.ops.segment_sum(x, i // 2, 2)),
    "making": lambda x, i: (jnp.arange(5), jnp.eye(3), jnp.zeros((2, 2)), jnp.linspace(0, 1, 5), jnp.full((2,), 3.0), jnp.tri(3)),
    "sorting": lambda x, i: (jnp.sort(x), jnp.sort(x, descending=True), jnp.argsort(x, 0), lax.top_k(x, 2), lax.sort_key_val(x[:, 0], i), jnp.median(x, 1)),
    "products": lambda x, i: (x @ x.T, jnp.einsum("ij,kj->ik", x, x), jnp.einsum("abc,dab->cd", x.reshape(2, 2, 6), x.reshape(6, 2, 2)), x[0] @ x[1], jnp.outer(x[0], x[1])),
    "types": lambda x, i: (x.astype("bfloat16").astype("float32"), x.astype("float16"), i.astype("bool"), lax.bitcast_convert_type(x, "int32"), x.astype("int8")),
    "windows": lambda x, i: (lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 2), "SAME"), lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID"),
                             lax.reduce_window(i, 0, lax.add, (2,), (1,), "SAME"), lax.reduce_window(x, jnp.inf, lax.min, (1, 3), (1, 1), "VALID", window_dilation=(1, 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    agree(OPERATIONS[name], X, I)


def test_kernels_give_the_same():
    agree(lambda x, i: (OPERATIONS["reading"](x, i), OPERATIONS["writing"](x, i)), X, I, reference=False)


def test_branches_and_loops():
    agree(lambda x: lax.cond(x.sum() > 0, lambda x: x.T @ x, lambda x: 2 * (x.T @ x), x), X)
    agree(lambda x, i: [lax.switch(k, [jnp.sin, jnp.cos, lambda x: x * i[1]], x) for k in (i[0], i[1], i[0] + 9, i[1] - 5)], X, I)
    agree(lambda x: lax.while_loop(lambda s: (s[0] < 5) & (s[1].sum() < 100), lambda s: (s[0] + 1, s[1] * 1.5), (0, x)), X)
    agree(lambda x: lax.scan(lambda c, z: (c + z, c * z), jnp.zeros(6), x), X)
    agree(lambda x: lax.fori_loop(0, 3, lambda k, y: y.at[k].add(k), x), X)
    agree(lambda x: lax.map(lambda row: jnp.dot(row, row), x), X)


def test_random_numbers_are_those_of_the_key():
    def function(key):
        first, second = jax.random.split(key)
        return jax.random.uniform(first, (3,)), jax.random.randint(second, (4,), 0, 9), jax.random.bits(first, (2,)), jax.random.normal(second, (3,))

    agree(function, jax.random.PRNGKey(3))


def test_products_of_any_dimensions():
    """dot_general's dimension numbers, drawn; NumPy's einsum is another oracle than XLA's."""
    rng = numpy.random.default_rng(1)
    for _ in range(6):
        batch, over, own_a, own_b = (int(rng.integers(0, 3)) for _ in range(4))
        letters = iter("abcdefghijkl")
        groups = [[next(letters) for _ in range(count)] for count in (batch, over, own_a, own_b)]
        a, b = list(rng.permutation(groups[0] + groups[1] + groups[2])), list(rng.permutation(groups[0] + groups[1] + groups[3]))
        size = {letter: int(rng.integers(1, 4)) for group in groups for letter in group}
        x, y = (rng.normal(size=[size[letter] for letter in of]).astype("float32") for of in (a, b))
        numbers = tuple(tuple(of.index(letter) for letter in group) for group in (groups[1], groups[0]) for of in (a, b))
        dims = ((numbers[0], numbers[1]), (numbers[2], numbers[3]))
        given = tensmith.jax.from_jax(lambda x, y: lax.dot_general(x, y, dims), x, y, reference=True)(x, y)
        out = "".join(groups[0] + [k for k in a if k in groups[2]] + [k for k in b if k in groups[3]])
        numpy.testing.assert_allclose(given, numpy.einsum(f"{''.join(a)},{''.join(b)}->{out}", x, y), rtol=1e-4, atol=1e-4)


def test_convolutions_of_any_dimensions():
    rng = numpy.random.default_rng(2)
    layouts = [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("HWNC", "IOHW", "NCHW"), ("CNHW", "HWOI", "CHWN")]
    for k, layout in enumerate(layouts):
        for groups, batches in ((1, 1), (2, 1), (1, 2)):
            sizes_x = dict(N=2, C=4, H=int(rng.integers(5, 9)), W=int(rng.integers(5, 9)))
            sizes_w = dict(O=4, I=4 // groups, H=int(rng.integers(1, 4)), W=int(rng.integers(1, 4)))
            x = rng.normal(size=[sizes_x[d] for d in layout[0]]).astype("float32")
            w = rng.normal(size=[sizes_w[d] for d in layout[1]]).astype("float32")
            named = dict(window_strides=tuple(rng.integers(1, 3, 2).tolist()), padding=rng.integers(0, 3, (2, 2)).tolist(),
                         lhs_dilation=tuple(rng.integers(1, 3, 2).tolist()), rhs_dilation=tuple(rng.integers(1, 3, 2).tolist()),
                         dimension_numbers=layout, feature_group_count=groups, batch_group_count=batches)  # fmt: skip
            agree(lambda x, w: lax.conv_general_dilated(x, w, **named), x, w)


def test_gathers_and_scatters_of_any_dimensions():
    rng = numpy.random.default_rng(3)
    x = rng.normal(size=(5, 4, 3)).astype("float32")
    at = rng.integers(-2, 6, (2, 3, 2)).astype("int32")
    for mapped, sizes in (((0, 1), (1, 1, 3)), ((0, 2), (2, 4, 1)), ((2, 1), (3, 2, 2))):
        for offset in ((2, 3, 4), (0, 1, 2), (1, 3, 4)):
            numbers = lax.GatherDimensionNumbers(offset_dims=offset, collapsed_slice_dims=(), start_index_map=mapped)
            agree(lambda x, at: lax.gather(x, at, numbers, sizes, mode="clip"), x, at)
            updates = rng.normal(size=jax.eval_shape(lambda x, at: lax.gather(x, at, numbers, sizes, mode="clip"), x, at).shape).astype("float32")
            back = lax.ScatterDimensionNumbers(update_window_dims=offset, inserted_window_dims=(), scatter_dims_to_operand_dims=mapped)
            agree(lambda x, at, updates: lax.scatter_add(x, at, updates, back), x, at, updates)
    agree(lambda x, at: jax.vmap(lambda a, k: a[k])(x, at), x, at[0].repeat(3, 0)[:5, :1])


def lstm(x, w, u, b):
    def step(carry, z):
        h, c = carry
        i, f, g, o = jnp.split(z @ w + h @ u + b, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    start = jnp.zeros((x.shape[1], u.shape[0]))
    return lax.scan(step, (start, start), x)


def test_an_lstm_by_scan():
    rng = numpy.random.default_rng(4)
    agree(lstm, *(rng.normal(size=size).astype("float32") * 0.3 for size in ((7, 2, 5), (5, 32), (8, 32), (32,))), reference=False)


def test_gradients():
    w = numpy.random.default_rng(5).normal(size=(6, 3)).astype("float32")
    agree(jax.value_and_grad(lambda w, x: jnp.square(jax.nn.relu(x @ w)).mean()), w, X, reference=False)


def test_one_compilation_serves_all_sizes():
    (b,) = jax.export.symbolic_shape("b")

    def function(x):
        y = jax.nn.softmax(jax.nn.gelu(x @ (jnp.ones((6, 3)) * 0.1)))
        return y, y.argmax(1), jnp.concatenate([x, x]), x.reshape(-1), x - x.mean(0)

    model = tensmith.jax.from_jax(function, jax.ShapeDtypeStruct((b, 6), "float32"))
    for batch in (1, 4, 9):
        compare(model, function, numpy.random.default_rng(batch).normal(size=(batch, 6)).astype("float32"))


def test_a_saved_module_and_a_text(tmp_path):
    model = agree(lambda x: x * 2, X)
    model.save(tmp_path / "double.so")
    numpy.testing.assert_array_equal(ts.load(tmp_path / "double.so")(X), X * 2)
    exported = jax.export.export(jax.jit(lambda x: x * 2))(X)
    (tmp_path / "double.mlir").write_text(exported.mlir_module())
    for program in (exported.mlir_module(), tmp_path / "double.mlir", exported.mlir_module_serialized):
        numpy.testing.assert_array_equal(ts.from_stablehlo(program)(X), X * 2)


def test_what_is_refused_is_told_at_once():
    with pytest.raises(ts.Error) as error:
        tensmith.jax.from_jax(lambda x: (jnp.fft.fft(x), jnp.linalg.cholesky(x @ x.T)), X)
    assert "stablehlo.fft" in str(error.value) and "cholesky" in str(error.value)
    with pytest.raises(ts.Error, match="no StableHLO"):
        ts.from_stablehlo("module {\n nonsense }")
    with pytest.raises(ts.Error, match="is given"):
        agree(lambda x: x * 2, X)(X, X)


def test_sorts_of_many_operands():
    columns = [numpy.random.default_rng(i).integers(0, 3, 9).astype("float32") for i in range(4)]
    agree(lambda *xs: lax.sort(xs, num_keys=1), *columns)
    for keys in (2, 4):  # the second key would be lost
        with pytest.raises(ts.Error, match="more than one key"):
            tensmith.jax.from_jax(lambda *xs: lax.sort(xs, num_keys=keys), *columns)


def test_running_sums_start_somewhere():
    x = numpy.arange(6, dtype="float32")
    agree(lambda x: lax.reduce_window(x, numpy.float32(5), lax.add, (6,), (1,), ((5, 0),)), x)
    agree(lambda x: lax.reduce_window(x, numpy.float32(0), lax.add, (6,), (1,), ((5, 0),), window_dilation=(1,), base_dilation=(2,)), x)


def test_the_smallest_of_a_row():
    text = """module {
      func.func @main(%x: tensor<2x5xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
        %0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = false}, mhlo.version = 1 : i64}
          : (tensor<2x5xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
        return %0#0, %0#1 : tensor<2x2xf32>, tensor<2x2xi32>
      }
    }"""
    x = X[:2, :5]
    values, places = ts.from_stablehlo(text)(x)
    numpy.testing.assert_array_equal(values, numpy.sort(x)[:, :2])
    numpy.testing.assert_array_equal(places, numpy.argsort(x)[:, :2])


def test_results_of_jax_types():
    agree(lambda x: (x.astype("bfloat16") * 2, x), X)


def test_functions_of_the_tails():
    """erfc by its relative error: 1 - erf is nothing there."""
    for dtype, top, tolerance in (("float32", 9, 1e-5), ("float64", 26, 1e-13)):
        x = numpy.linspace(-3, top, 200).astype(dtype)
        with jax.enable_x64(True):
            given = tensmith.jax.from_jax(lax.erfc, x)(x)
        numpy.testing.assert_allclose(given, numpy.array([math.erfc(value) for value in x.tolist()]), rtol=tolerance)


def test_short_programs_that_ask_for_much(monkeypatch):
    monkeypatch.setattr(reading, "_MOST_OPERATIONS", 5000)
    assert_refused(nested(40, 2), "more than 5000 operations")
    text = "module { func.func @main(%x: tensor<f32>) -> tensor<f32> {\n %0 = stablehlo.constant dense<1.0> : tensor<100000x100000xf32>"
    text += "\n %1 = stablehlo.slice %0 [7:8, 3:4] : (tensor<100000x100000xf32>) -> tensor<1x1xf32>"
    text += "\n %2 = stablehlo.reshape %1 : (tensor<1x1xf32>) -> tensor<f32>"
    text += "\n %3 = stablehlo.add %2, %x : tensor<f32>\n return %3 : tensor<f32> } }"
    assert ts.from_stablehlo(text)(numpy.float32(2)) == 3


def nested(count, times):
    """Functions that each call the next, one or more times."""
    called = [" ".join(f"%{k + 1} = call @f{i + 1}(%{k}) : (tensor<f32>) -> tensor<f32>" for k in range(times)) for i in range(count)]
    bodies = [*called, f"%{times} = stablehlo.add %0, %0 : tensor<f32>"]
    functions = [f"func.func @f{i}(%0: tensor<f32>) -> tensor<f32> {{ {body} return %{times} : tensor<f32> }}" for i, body in enumerate(bodies)]
    return "module {\n" + "\n".join(functions).replace("@f0", "@main") + "\n}"


def assert_refused(text, match, **options):
    with pytest.raises(ts.Error, match=match):
        ts.from_stablehlo(text, **options)


def test_programs_that_are_refused():
    text = "module {\n func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }\n}"
    assert_refused(text, "sizes has 0 entries", sizes=[])
    assert_refused(text, "names has 2 entries", names=["a", "b"])
    assert_refused(text, "sizes has 2 dimensions", sizes=[("a", "b")])
    assert_refused(text.replace("tensor<2xf32>", "!stablehlo.token"), "argument 0 of 'main' is of !stablehlo.token")
    assert_refused("module {\n func.func private @main(%x: tensor<2xf32>) -> tensor<2xf32>\n}", "'main' has no body")
    called = "%0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32> return %0 : tensor<2xf32>"
    declared = " func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32>\n}"
    assert_refused(text.replace("return %x : tensor<2xf32>", called)[:-1] + declared, "@f, which has no body")
    assert_refused(text.replace("return", "%0 = stablehlo.constant dense<[1, 2]> : tensor<2xi4>\n return"), "constants of i4")
    assert_refused(nested(600, 1), "deep within one another")
    assert ts.from_stablehlo(nested(150, 1))(numpy.float32(2)) == 4


def test_a_residual_network():
    nn = pytest.importorskip("flax.linen")

    class Block(nn.Module):
        width: int
        stride: int = 1

        @nn.compact
        def __call__(self, x):
            y = nn.Conv(self.width, (3, 3), (self.stride, self.stride), use_bias=False)(x)
            y = nn.relu(nn.BatchNorm(use_running_average=True)(y))
            y = nn.BatchNorm(use_running_average=True)(nn.Conv(self.width, (3, 3), use_bias=False)(y))
            if x.shape != y.shape:
                x = nn.Conv(self.width, (1, 1), (self.stride, self.stride), use_bias=False)(x)
            return nn.relu(x + y)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(16, (7, 7), (2, 2), use_bias=False)(x)))
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
            for width, stride in ((16, 1), (32, 2), (64, 2)):
                x = Block(width, stride)(x)
            return nn.Dense(10)(x.mean((1, 2)))

    x = numpy.random.default_rng(6).normal(size=(2, 32, 32, 3)).astype("float32")
    variables = Net().init(jax.random.PRNGKey(0), x)
    agree(lambda x: Net().apply(variables, x), x, reference=False)


def test_an_encoder():
    nn = pytest.importorskip("flax.linen")

    class Encoder(nn.Module):
        @nn.compact
        def __call__(self, tokens, mask):
            x = nn.Embed(50, 32)(tokens) + nn.Embed(16, 32)(jnp.arange(tokens.shape[1]))
            x = nn.LayerNorm()(x)
            for _ in range(2):
                y = nn.MultiHeadDotProductAttention(4)(x, x, mask=mask[:, None, None] > 0)
                x = nn.LayerNorm()(x + y)
                x = nn.LayerNorm()(x + nn.Dense(32)(nn.gelu(nn.Dense(64)(x), approximate=False)))
            return x, jnp.tanh(nn.Dense(32)(x[:, 0]))

    tokens, mask = numpy.random.default_rng(7).integers(0, 50, (2, 9)).astype("int32"), numpy.ones((2, 9), "int32")
    mask[1, 6:] = 0
    variables = Encoder().init(jax.random.PRNGKey(0), tokens, mask)
    agree(lambda tokens, mask: Encoder().apply(variables, tokens, mask), tokens, mask, reference=False)


def test_the_page_is_true(tmp_path, monkeypatch):
    """All examples of docs/jax.md, one after the other."""
    page = pathlib.Path(__file__).parents[2] / "docs/jax.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(examples), str(page), "exec"), {})  # noqa: S102


def test_a_path_that_leads_nowhere():
    """Breaks if the name of a file that is not there is read as a program."""
    with pytest.raises(ts.Error, match=r"missing\.mlir: No such file"):
        ts.from_stablehlo("missing.mlir")
