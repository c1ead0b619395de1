"""Products with the Hessian against JAX's, of the same functions with the same values, in double precision."""

import numpy
import pytest

import tensmith
from test_gradients import loop, mlp, values_of

jax = pytest.importorskip("jax", reason="needs jax, which bench/requirements.txt names")
from jax import numpy as jnp  # noqa: E402


def weighed(y):
    """Graph.loss of test_gradients."""
    return (y * jnp.sin(y)).sum()


def mlp_in_jax(p):
    y = jax.nn.relu(p["x"] @ p["w0"].T + p["b0"])
    y = jax.nn.gelu(y @ p["w1"].T + p["b1"], approximate=False)
    return weighed(jax.nn.log_softmax(y @ p["w2"].T + p["b2"]))


def loop_in_jax(p):
    def body(h, row):
        following = jnp.tanh(h @ p["w"] + row)
        return following, following * h

    last, all_ = jax.lax.scan(body, p["x"], p["rows"])
    return weighed(last) + weighed(all_)


@pytest.mark.parametrize("build, function", [(mlp, mlp_in_jax), (loop, loop_in_jax)], ids=["mlp", "loop"])
def test_products_with_the_hessian_are_those_of_jax(build, function):
    graph, output = build("float64")
    wrt, given = values_of(graph)
    compiled = tensmith.hvp(graph.model(output).SerializeToString(), wrt, "loss", cache_dir="")
    with jax.enable_x64(True):
        values = {name: jnp.asarray(given[name]) for name in wrt}
        gradient = jax.grad(function)
        for _ in range(3):
            directions = {name: graph.random.standard_normal(given[name].shape) for name in wrt}
            outputs = compiled.run(**given, **{f"tangent.{name}": d for name, d in directions.items()})
            gradients, products = outputs[1 : 1 + len(wrt)], outputs[1 + len(wrt) :]
            expected, tangents = jax.jvp(gradient, (values,), ({n: jnp.asarray(d) for n, d in directions.items()},))
            for name, ours, curved in zip(wrt, gradients, products):
                assert numpy.allclose(ours, expected[name], rtol=1e-9, atol=1e-11), name
                assert numpy.allclose(curved, tangents[name], rtol=1e-8, atol=1e-10), name
