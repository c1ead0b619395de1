"""The networks of `bench/train` written for JAX, with the parameters of PyTorch's.

Pictures have their channels last, which XLA takes faster on a CPU; the network that is given parameters and a batch is jitted
together with its gradient and plain gradient descent, and old parameters are donated to it. Running statistics are left out.
"""

import jax
import jax.numpy as jnp
from jax import lax


def linear(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def conv(p, name, x, stride=1, padding=0, groups=1):
    y = lax.conv_general_dilated(x, p[f"{name}.weight"], (stride, stride), [(padding, padding)] * 2,
                                 dimension_numbers=("NHWC", "OIHW", "NHWC"), feature_group_count=groups)  # fmt: skip
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def max_pool(x, size, stride, padding=0):
    sides = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), sides)


def normalised(x, axes, epsilon=1e-5):
    centred = x - x.mean(axes, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(axes, keepdims=True) + epsilon)


def batch_norm(p, name, x):
    return normalised(x, (0, 1, 2)) * p[f"{name}.weight"] + p[f"{name}.bias"]


def layer_norm(p, name, x):
    return normalised(x, -1) * p[f"{name}.weight"] + p[f"{name}.bias"]


def mlp(p, x):
    return linear(p, "4", jax.nn.relu(linear(p, "2", jax.nn.relu(linear(p, "0", x)))))


def lenet(p, x):
    x = max_pool(jax.nn.relu(conv(p, "0", x.transpose(0, 2, 3, 1))), 2, 2)
    x = max_pool(jax.nn.relu(conv(p, "3", x)), 2, 2)
    return linear(p, "9", jax.nn.relu(linear(p, "7", x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1))))


def resnet18(p, x):
    x = jax.nn.relu(batch_norm(p, "1", conv(p, "0", x.transpose(0, 2, 3, 1), 2, 3)))
    x = max_pool(x, 3, 2, 1)
    for block in range(4, 12):
        stride = 2 if block in (6, 8, 10) else 1
        y = jax.nn.relu(batch_norm(p, f"{block}.norm1", conv(p, f"{block}.conv1", x, stride, 1)))
        y = batch_norm(p, f"{block}.norm2", conv(p, f"{block}.conv2", y, 1, 1))
        if f"{block}.side.0.weight" in p:
            x = batch_norm(p, f"{block}.side.1", conv(p, f"{block}.side.0", x, stride))
        x = jax.nn.relu(x + y)
    return linear(p, "14", x.mean((1, 2)))


def mobilenet(p, x):
    x = jax.nn.relu6(batch_norm(p, "1", conv(p, "0", x.transpose(0, 2, 3, 1), 2, 1)))
    for block in range(3, 8):
        x = conv(p, f"{block}.0", x, 2 if block in (4, 6) else 1, 1, x.shape[-1])
        x = jax.nn.relu6(batch_norm(p, f"{block}.1", x))
        x = jax.nn.relu6(batch_norm(p, f"{block}.4", conv(p, f"{block}.3", x)))
    return linear(p, "10", x.mean((1, 2)))


def bert_4x256(p, ids, heads=4):
    x = layer_norm(p, "norm", p["tokens.weight"][ids] + p["places.weight"])
    batch, length, size = x.shape
    for layer in range(4):
        at = f"layers.{layer}"
        q, k, v = linear(p, f"{at}.qkv", x).reshape(batch, length, 3, heads, size // heads).transpose(2, 0, 3, 1, 4)
        weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) * (size // heads) ** -0.5)
        y = (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, size)
        x = layer_norm(p, f"{at}.norm1", x + linear(p, f"{at}.out", y))
        y = linear(p, f"{at}.second", jax.nn.gelu(linear(p, f"{at}.first", x), approximate=False))
        x = layer_norm(p, f"{at}.norm2", x + y)
    return linear(p, "head", x[:, 0])


bert_4x256_long = bert_4x256  # of longer texts


def lstm_lm(p, ids):
    x = p["words.weight"][ids]
    for layer in range(2):
        def cell(state, gates, layer=layer):
            hidden, memory = state
            gates = gates + hidden @ p[f"cells.weight_hh_l{layer}"].T + p[f"cells.bias_hh_l{layer}"]
            i, f, g, o = jnp.split(gates, 4, -1)
            memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
            return (hidden, memory), hidden

        zero = jnp.zeros((x.shape[1], x.shape[2]))
        gates = x @ p[f"cells.weight_ih_l{layer}"].T + p[f"cells.bias_ih_l{layer}"]
        x = lax.scan(cell, (zero, zero), gates)[1]
    return linear(p, "scores", x).reshape(-1, p["scores.bias"].shape[0])


def step_of(name, net, x, target, rate):
    """A function of nothing that makes one step of the network from the parameters of PyTorch's module, and gives the loss."""
    scores_of = globals()[name]

    def loss_of(p, x, target):
        return -jnp.take_along_axis(jax.nn.log_softmax(scores_of(p, x)), target[:, None], 1).mean()

    def updated(p, x, target):
        loss, gradients = jax.value_and_grad(loss_of)(p, x, target)
        return jax.tree.map(lambda value, gradient: value - rate * gradient, p, gradients), loss

    jitted = jax.jit(updated, donate_argnums=0)
    held = {key: jnp.array(value.detach().numpy()) for key, value in net.named_parameters()}
    x, target = jnp.asarray(x.numpy()), jnp.asarray(target.numpy())

    def step():
        nonlocal held
        held, loss = jitted(held, x, target)
        return loss.block_until_ready()

    return step
