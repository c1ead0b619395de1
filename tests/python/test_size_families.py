"""Small kernels that differ by their sizes alone have one code, which takes the sizes."""

import numpy
from onnx import helper

import tensmith
from small_models import model_of

MANY = 40


def compiled(*of):
    return tensmith.compile(model_of(*of), threads=1)


def test_products_of_many_sizes():
    generator = numpy.random.default_rng(1)
    sizes = generator.integers(98, 128, 2 * MANY)  # two panels of 64 columns
    x = generator.standard_normal((5, sizes[0])).astype("f")
    weights = {f"w{n}": generator.standard_normal(sizes[n : n + 2]).astype("f") / 10 for n in range(MANY)}
    nodes = [
        node
        for n in range(MANY)
        for node in (helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"p{n}"]), helper.make_node("Tanh", [f"p{n}"], [f"x{n + 1}"]))
    ]
    model = compiled(nodes, {"x0": list(x.shape)}, weights, [f"x{MANY}"])
    expected = x.astype("d")
    for weight in weights.values():
        expected = numpy.tanh(expected @ weight)
    numpy.testing.assert_allclose(next(iter(model.run(x0=x))), expected, rtol=1e-4, atol=1e-5)
    assert len(model.describe()["kernels"]) == 1


def test_rows_of_many_lengths():
    """Sizes that are equal in some members and not in others are different symbols."""
    generator = numpy.random.default_rng(2)
    inputs = {f"x{n}": generator.standard_normal((3 + n % 5, 7 + n)).astype("f") for n in range(MANY)}
    inputs |= {f"y{n}": generator.standard_normal((3 + n % 5, 1)).astype("f") for n in range(MANY)}
    nodes = []
    for n in range(MANY):
        nodes += [helper.make_node("Sub", [f"x{n}", f"y{n}"], [f"s{n}"]), helper.make_node("Softmax", [f"s{n}"], [f"z{n}"], axis=-1)]
    outputs = [f"z{n}" for n in range(MANY)]
    model = compiled(nodes, {name: list(value.shape) for name, value in inputs.items()}, {}, outputs)
    for n, z in enumerate(model.run(**inputs)):
        scores = numpy.exp(inputs[f"x{n}"].astype("d") - inputs[f"x{n}"].max(axis=1, keepdims=True))
        numpy.testing.assert_allclose(z, scores / scores.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7)
    assert len(model.describe()["kernels"]) == 1
