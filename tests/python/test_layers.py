"""The library of layers (frontends/text/layers), each layer against NumPy at random sizes, and what it is written with.

What would break these: a weight that is read in another order, a group or a pad that doesn't follow from the shapes, a
size that is lost between a function and its caller, a name that the library takes from programs.
"""

import math
import pathlib
import subprocess

import numpy as np
import pytest
import tensmith as ts

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "frontends/text/layers").glob("*.tsm"))
IMPORTS = "".join(f'import "tensmith/{module.name}"\n' for module in MODULES)
TYPES = {"float16": "f16", "float32": "f32", "float64": "f64", "int64": "i64", "bool": "bool"}


@pytest.fixture
def run(tmp_path):
    def build(body, _text="", **inputs):
        """What `body` gives of the inputs, whose sizes main is written with."""
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        types = [f"{name}: {TYPES[str(a.dtype)]}[{', '.join(map(str, a.shape))}]" for name, a in arrays.items()]
        path = tmp_path / "program.tsm"
        path.write_text(f"{IMPORTS}\n{_text}\nfn main({', '.join(types)}) = {body}\n")
        results = ts.compile(path, threads=1).run(**arrays)
        return results[0] if len(results) == 1 else results

    return build


@pytest.fixture(params=[0, 1])
def rng(request):
    return np.random.default_rng(request.param)


def normal(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def close(got, expected, tolerance=2e-5):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    assert got.shape == np.shape(expected)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


erf = np.vectorize(math.erf, otypes=[np.float64])
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x / 2 * (1 + erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.logaddexp(x, 0),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations(run, name, dtype):
    x = np.concatenate([np.linspace(-9, 9, 37), [-100, 0, 60]]).astype(dtype).reshape(5, 8)
    got = run(f"{name}(x)", x=x)
    assert got.dtype == dtype
    close(got, ACTIVATIONS[name](x.astype(np.float64)))


def test_leaky_relu(run, rng):
    x = normal(rng, 3, 7)
    close(run("leaky_relu(x, 0.1)", x=x), np.where(x > 0, x, 0.1 * x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense(run, rng, dtype):
    b, n, m = rng.integers(1, 20, 3)
    x, w, bias = normal(rng, b, 3, n, dtype=dtype), normal(rng, n, m, dtype=dtype), normal(rng, m, dtype=dtype)
    close(run("dense(x, (w, bias))", x=x, w=w, bias=bias), x @ w + bias)
    close(run("feed_forward(x, ((w, bias), (transpose(w, permutation = [1, 0]), zero)), silu)", x=x, w=w, bias=bias, zero=np.zeros(n, dtype)),
          ACTIVATIONS["silu"](x @ w + bias) @ w.T, 1e-4)
    close(run("residual(x, fn(v) => relu(v))", x=x), x + np.maximum(x, 0))


def test_embedding_and_flatten(run, rng):
    table, ids = normal(rng, 11, 5), rng.integers(0, 11, (3, 4))
    close(run("embedding(table, ids)", table=table, ids=ids), table[ids])
    x = normal(rng, 2, 3, 5, 4)
    close(run("flatten(x)", x=x), x.reshape(2, -1))
    close(run("dropped(x, 0.5)", x=x), x)


def convolved(x, w, bias, stride, pads, dilation=1):
    """The cross-correlation, window by window; pads: before and after, of each dimension."""
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    filters, each, *window = w.shape
    groups = x.shape[1] // each
    sizes = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], window)]
    y = np.zeros((x.shape[0], filters, *sizes))
    for at in np.ndindex(*window):
        part = x[(slice(None), slice(None), *(slice(dilation * i, dilation * i + stride * n, stride) for i, n in zip(at, sizes)))]
        for f in range(filters):
            group = f // (filters // groups)
            values = part[:, group * each:(group + 1) * each]
            y[:, f] += np.tensordot(values, w[(f, slice(None), *at)], ([1], [0])).reshape(y[:, f].shape)
    return y + bias.reshape(-1, *[1] * len(window))


@pytest.mark.parametrize("stride, padding, dilation, groups", [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 3), (2, 1, 1, 6)])
def test_conv2d(run, rng, stride, padding, dilation, groups):
    h, l = rng.integers(7, 14, 2)
    x, w, bias = normal(rng, 2, 6, h, l), normal(rng, 6, 6 // groups, 3, 2), normal(rng, 6)
    pads = [(padding, padding)] * 2
    body = f"conv2d_dilated(x, (w, bias), {stride}, {padding}, {dilation})" if dilation > 1 else f"conv2d(x, (w, bias), {stride}, {padding})"
    close(run(body, x=x, w=w, bias=bias), convolved(x, w, bias, stride, pads, dilation), 1e-4)


def test_conv2d_same_and_depthwise(run, rng):
    x, w, bias = normal(rng, 2, 4, 9, 6), normal(rng, 4, 1, 5, 3), normal(rng, 4)
    close(run("conv2d_same(x, (w, bias))", x=x, w=w, bias=bias), convolved(x, w, bias, 1, [(2, 2), (1, 1)]), 1e-4)


def test_conv1d(run, rng):
    x, w, bias = normal(rng, 2, 3, int(rng.integers(9, 20))), normal(rng, 5, 3, 3), normal(rng, 5)
    close(run("conv1d(x, (w, bias), 2, 1)", x=x, w=w, bias=bias), convolved(x, w, bias, 2, [(1, 1)]), 1e-4)
    close(run("conv1d_causal(x, (w, bias), 3)", x=x, w=w, bias=bias), convolved(x, w, bias, 1, [(6, 0)], 3), 1e-4)


def test_conv2d_transposed_is_the_transpose(run, rng):
    """<conv2d(x), y> = <x, conv2d_transposed(y)>."""
    w, none = normal(rng, 5, 3, 3, 3), np.zeros(3, np.float32)
    x, y = normal(rng, 2, 3, 9, 7), normal(rng, 2, 5, 5, 4)
    back = run("conv2d_transposed(y, (w, none), 2, 1)", y=y, w=w, none=none)
    assert back.shape == x.shape
    forth = convolved(x, w, np.zeros(5), 2, [(1, 1)] * 2)
    assert np.vdot(forth, y) == pytest.approx(np.vdot(x, back), rel=1e-3, abs=1e-3)


def test_pooling(run, rng):
    x = normal(rng, 2, 3, 9, 7)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2]
    close(run("max_pool2d(x, 3, 2)", x=x), windows.max((-1, -2)))
    close(run("average_pool2d(x, 3, 2)", x=x), windows.mean((-1, -2)))
    close(run("global_average_pool2d(x)", x=x), x.mean((2, 3)))


def normed(x, axes, scale, shift):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5) * scale + shift


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_norms_of_the_last_dimension(run, rng, rank):
    x = 2 + normal(rng, *rng.integers(1, 9, rank - 1), 13)
    scale, shift = normal(rng, 13), normal(rng, 13)
    close(run("layer_normed(x, (scale, shift))", x=x, scale=scale, shift=shift), normed(x, (-1,), scale, shift), 1e-4)
    close(run("rms_normed(x, scale)", x=x, scale=scale), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale, 1e-4)


def test_norms_of_channels(run, rng):
    x = 2 + normal(rng, 3, 6, 5, 7)
    scale, shift, mean, variance = normal(rng, 6), normal(rng, 6), normal(rng, 6), rng.random(6).astype(np.float32)
    of = lambda v: v.reshape(1, 6, 1, 1)
    close(run("batch_normed(x, (s, t, m, v))", x=x, s=scale, t=shift, m=mean, v=variance),
          (x - of(mean)) / np.sqrt(of(variance) + 1e-5) * of(scale) + of(shift), 1e-4)
    grouped = normed(x.reshape(3, 2, 3, 5, 7), (2, 3, 4), 1, 0).reshape(x.shape) * of(scale) + of(shift)
    close(run("group_normed(x, (s, t), 2)", x=x, s=scale, t=shift), grouped, 1e-4)
    close(run("instance_normed(x, (s, t))", x=x, s=scale, t=shift), normed(x, (2, 3), of(scale), of(shift)), 1e-4)


def attended(x, memory, weights, heads, mask=0.0):
    b, l, d = x.shape
    split = lambda v: v.reshape(b, -1, heads, d // heads).transpose(0, 2, 1, 3)
    q, k, v = (split(x @ w + bias) for x, (w, bias) in zip((x, memory, memory), weights))
    likely = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(d // heads) + mask)
    return (likely @ v).transpose(0, 2, 1, 3).reshape(b, l, d) @ weights[3][0] + weights[3][1]


@pytest.mark.parametrize("heads", [1, 3])
def test_attention(run, rng, heads):
    b, l, m, d = int(rng.integers(1, 4)), int(rng.integers(2, 9)), int(rng.integers(2, 9)), 12
    x, memory = normal(rng, b, l, d), normal(rng, b, m, d)
    weights = [(normal(rng, d, d) / 3, normal(rng, d)) for _ in range(4)]
    named = {f"{part}{i}": pair[j] for i, pair in enumerate(weights) for j, part in enumerate("wb")}
    text = "(" + ", ".join(f"(w{i}, b{i})" for i in range(4)) + ")"
    close(run(f"self_attention(x, {text}, {heads})", x=x, **named), attended(x, x, weights, heads), 1e-4)
    close(run(f"cross_attention(x, memory, {text}, {heads})", x=x, memory=memory, **named), attended(x, memory, weights, heads), 1e-4)
    causal = np.where(np.tri(l, dtype=bool), 0, -np.inf)
    close(run(f"causal_attention(x, {text}, {heads})", x=x, **named), attended(x, x, weights, heads, causal), 1e-4)
    mask = rng.random((b, l)) < 0.6
    mask[:, 0] = True
    close(run(f"masked_attention(x, mask, {text}, {heads})", x=x, mask=mask, **named),
          attended(x, x, weights, heads, np.where(mask, 0, -np.inf)[:, None, None]), 1e-4)


def test_encoder_layers(run, rng):
    x, d, wide = normal(rng, 2, 5, 8), 8, 20
    attention = [(normal(rng, d, d) / 3, normal(rng, d)) for _ in range(4)]
    norm, last = (normal(rng, d), normal(rng, d)), (normal(rng, d), normal(rng, d))
    forward = [(normal(rng, d, wide) / 3, normal(rng, wide)), (normal(rng, wide, d) / 3, normal(rng, d))]
    named = {f"{part}{i}": pair[j] for i, pair in enumerate([*attention, norm, *forward, last]) for j, part in enumerate("wb")}
    pair = lambda i: f"(w{i}, b{i})"
    text = f"(({pair(0)}, {pair(1)}, {pair(2)}, {pair(3)}), {pair(4)}, ({pair(5)}, {pair(6)}), {pair(7)})"
    layer = lambda v, n: normed(v, (-1,), *n)
    fed = lambda v: ACTIVATIONS["gelu"](v @ forward[0][0] + forward[0][1]) @ forward[1][0] + forward[1][1]
    post = layer(x + attended(x, x, attention, 2), norm)
    call = f"(x, {text}, fn(v, w) => self_attention(v, w, 2), gelu)"
    close(run(f"encoder_layer{call}", x=x, **named), layer(post + fed(post), last), 1e-4)
    pre = x + attended(layer(x, norm), layer(x, norm), attention, 2)
    close(run(f"prenorm_layer{call}", x=x, **named), pre + fed(layer(pre, last)), 1e-4)


def test_positions(run, rng):
    l, d = int(rng.integers(3, 40)), 2 * int(rng.integers(2, 9))
    angle = np.arange(l)[:, None] / 10000 ** (2 * np.arange(d // 2) / d)
    close(run(f"x + sinusoids({l}, {d})", x=np.zeros((l, d), np.float32)), np.stack([np.sin(angle), np.cos(angle)], -1).reshape(l, d), 1e-4)
    x = normal(rng, 2, 3, l, d)
    a, b = np.split(x, 2, -1)
    turned = np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)
    close(run("rotary(x)", x=x), turned, 1e-4)


def test_halves_have_as_many_places(run, rng):
    """Breaks if places are counted in float16, where 2049 is 2048 and angles are rounded."""
    x = rng.standard_normal((1, 1, 3000, 8)).astype(np.float16)
    close(run("rotary(x)", x=x).astype(np.float32), run("rotary(x)", x=x.astype(np.float32)), 5e-3)


@pytest.mark.parametrize("call, shape", [("rotary(x)", (2, 3, 4, 7)), ("x + sinusoids(4, 7)", (4, 7))])
def test_odd_widths_are_refused(run, call, shape):
    with pytest.raises(Exception, match=r"program\.tsm:\d+:\d+: .*(7\], found|differ: 24 and 28)"):
        run(call, x=np.zeros(shape, np.float32))


def lstm_step(state, x, w, bias):
    i, f, g, o = np.split(np.concatenate([x, state[0]], 1) @ w + bias, 4, 1)
    cell = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def gru_step(hidden, x, w, w_bias, u, u_bias):
    a, b = np.split(x @ w + w_bias, 3, 1), np.split(hidden @ u + u_bias, 3, 1)
    r, z = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
    return (1 - z) * np.tanh(a[2] + r * b[2]) + z * hidden


def test_cells(run, rng):
    b, n, h = rng.integers(1, 9, 3)
    x, hidden, cell = normal(rng, b, n), normal(rng, b, h), normal(rng, b, h)
    w, u, bias = normal(rng, n, h), normal(rng, h, h), normal(rng, h)
    close(run("rnn_cell(h, x, (w, u, b))", x=x, h=hidden, w=w, u=u, b=bias), np.tanh(x @ w + hidden @ u + bias))
    w, bias = normal(rng, n + h, 4 * h), normal(rng, 4 * h)
    for got, expected in zip(run("lstm_cell((h, c), x, (w, b))", x=x, h=hidden, c=cell, w=w, b=bias), lstm_step((hidden, cell), x, w, bias)):
        close(got, expected)
    w, w_bias, u, u_bias = normal(rng, n, 3 * h), normal(rng, 3 * h), normal(rng, h, 3 * h), normal(rng, 3 * h)
    close(run("gru_cell(h, x, ((w, a), (u, b)))", x=x, h=hidden, w=w, a=w_bias, u=u, b=u_bias), gru_step(hidden, x, w, w_bias, u, u_bias))


def test_states_of_a_list(run, rng):
    x, w = normal(rng, 1, 4), normal(rng, 4, 4)
    first, second = run("match states(fn(h, x) => tanh(h @ w + x), x, [x, x + 1.0]) { Cons(a, Cons(b, Nil)) => (a, b), _ => (x, x) }", x=x, w=w)
    close(first, np.tanh(x @ w + x))
    close(second, np.tanh(np.tanh(x @ w + x) @ w + x + 1))


def test_sequences(run, rng):
    l, b, n, h = int(rng.integers(2, 9)), 3, 4, 5
    x = normal(rng, l, b, n)
    gate = lambda count: (normal(rng, 1, count * h, n), normal(rng, 1, count * h, h), normal(rng, 1, 2 * count * h))
    w, r, bias = gate(4)
    reordered = lambda v: np.concatenate([np.split(v, 4)[i] for i in (0, 2, 3, 1)])  # i, o, f, c to i, f, g, o
    joined = np.concatenate([reordered(w[0]).T, reordered(r[0]).T])
    state, expected = (np.zeros((b, h)), np.zeros((b, h))), []
    for one in x:
        state = lstm_step(state, one, joined, reordered(bias[0, :4 * h]) + reordered(bias[0, 4 * h:]))
        expected.append(state[0])
    close(run("lstm_sequence(x, (w, r, b))", x=x, w=w, r=r, b=bias), np.stack(expected), 1e-4)
    w, r, bias = gate(3)
    reordered = lambda v: np.concatenate([np.split(v, 3)[i] for i in (1, 0, 2)])  # z, r, h to r, z, n
    hidden, expected = np.zeros((b, h)), []
    for one in x:
        hidden = gru_step(hidden, one, reordered(w[0]).T, reordered(bias[0, :3 * h]), reordered(r[0]).T, reordered(bias[0, 3 * h:]))
        expected.append(hidden)
    close(run("gru_sequence(x, (w, r, b))", x=x, w=w, r=r, b=bias), np.stack(expected), 1e-4)


def test_losses(run, rng):
    scores, labels = normal(rng, 7, 5), rng.integers(0, 5, 7)
    close(run("cross_entropy(s, l)", s=scores, l=labels), -np.log(softmax(scores))[np.arange(7), labels].mean())
    x, y = normal(rng, 3, 4), normal(rng, 3, 4)
    close(run("mean_squared_error(x, y)", x=x, y=y), ((x - y) ** 2).mean())
    close(run("mean_absolute_error(x, y)", x=x, y=y), np.abs(x - y).mean())
    likely = rng.random((3, 4)).astype(np.float32)
    close(run("binary_cross_entropy(x, y)", x=x, y=likely), -(likely * np.log(sigmoid(x)) + (1 - likely) * np.log(sigmoid(-x))).mean())


# Breaks if the sum behind a mean, or the count, is rounded to f16, where it is beyond it.
@pytest.mark.parametrize("count", [512, 70000])
def test_means_of_halves(run, count):
    x = np.full((2, count // 2), 20, np.float16)
    close(run("mean_squared_error(x, -x * 0.0)", x=x), np.float16(400))
    got = run("mean_of_rows(x)", x=x.astype(np.float64) + 1e-9)
    assert got.dtype == np.float64 and got == pytest.approx(20 + 1e-9, rel=1e-13)


# ---- first values ----

WEIGHTS = {
    "dense_weights(300, 70)": [((300, 70), 2 / 300), ((70,), 0)],
    "conv2d_weights(30, 40, 5)": [((40, 30, 5, 5), 2 / 750), ((40,), 0)],
    "conv1d_weights(30, 40, 5)": [((40, 30, 5), 2 / 150), ((40,), 0)],
    "depthwise_weights(400, 5)": [((400, 1, 5, 5), 2 / 25), ((400,), 0)],
    "projection(100)": [((100, 100), 1 / 100), ((100,), 0)],
    "rnn_cell_weights(60, 50)": [((60, 50), 1 / 60), ((50, 50), 1 / 50), ((50,), 0)],
    "lstm_cell_weights(40, 50)": [((90, 200), 1 / 90), ((200,), 0)],
    "lstm_sequence_weights(40, 50)": [((1, 200, 40), 1 / 40), ((1, 200, 50), 1 / 50), ((1, 400), 0)],
    "gru_sequence_weights(40, 50)": [((1, 150, 40), 1 / 40), ((1, 150, 50), 1 / 50), ((1, 300), 0)],
}


@pytest.mark.parametrize("call", WEIGHTS)
def test_first_values(run, call):
    for got, (shape, variance) in zip(run(call, none=np.zeros(1, np.float32)), WEIGHTS[call]):
        assert got.shape == shape
        assert got.var() == pytest.approx(variance, rel=0.1, abs=1e-9) and abs(got.mean()) <= 5 * math.sqrt(variance / got.size)


# ---- gradients ----

GRADIENTS = [
    ("conv2d(x, (w, b), 2, 1)", 4, {"x": (2, 4, 5, 6), "w": (6, 2, 3, 3), "b": (6,)}),
    ("group_normed(x, (w, b), 2)", 4, {"x": (2, 4, 3, 2), "w": (4,), "b": (4,)}),
    ("layer_normed(x, (w, b))", 3, {"x": (2, 3, 7), "w": (7,), "b": (7,)}),
    ("causal_attention(x, ((w, b), (w, b), (w, b), (w, b)), 2)", 3, {"x": (2, 3, 4), "w": (4, 4), "b": (4,)}),
    ("rotary(x)", 4, {"x": (1, 2, 3, 4)}),
    ("lstm_cell((x, x), y, (w, b))", 2, {"x": (2, 3), "y": (2, 4), "w": (7, 12), "b": (12,)}),
    ("gru_cell(x, y, ((w, b), (u, b)))", 2, {"x": (2, 3), "y": (2, 4), "w": (4, 9), "u": (3, 9), "b": (9,)}),
    ("gelu(dense(x, (w, b)))", 2, {"x": (3, 5), "w": (5, 4), "b": (4,)}),
]


@pytest.mark.parametrize("call, rank, shapes", GRADIENTS)
def test_gradients(tmp_path, call, rank, shapes):
    """In f64, along a random direction, against central differences."""
    rng = np.random.default_rng(3)
    values = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    parameters = ", ".join(f"{name}: f64[{', '.join(map(str, shape))}]" for name, shape in shapes.items())
    path = tmp_path / "program.tsm"
    value = "{ let (y, _) = " + call + "; y }" if call.startswith("lstm") else call
    path.write_text(f"{IMPORTS}\nfn main({parameters}) = {{ let y = {value}; reduce_sum(y * y * y, axes = {list(range(rank))}) }}\n")
    forward, backward = ts.compile(path, threads=1), ts.grad(str(path), wrt=list(shapes), of="result", threads=1)
    direction = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    at = lambda step: forward.run(**{name: v + step * direction[name] for name, v in values.items()})[0]
    gradients = backward.run(**values)
    got = sum(np.vdot(g, direction[name]) for g, name in zip(gradients[-len(shapes):], shapes))
    assert got == pytest.approx((at(1e-5) - at(-1e-5)) / 2e-5, rel=1e-6)
