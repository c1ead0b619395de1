"""Layers that a converter has unrolled: each part of a tensor is read by the same kernel, which takes where it begins."""

import numpy
import pytest
from onnx import helper

import tensmith
from small_models import model_of

STEPS = 10


def sliced(number, start, end, axes, steps):
    names = [f"{word}{number}" for word in ("start", "end", "axes", "step")]
    constants = {name: numpy.array(value, "int64") for name, value in zip(names, (start, end, axes, steps))}
    return helper.make_node("Slice", ["x", *names], [f"s{number}"]), constants


@pytest.mark.parametrize("batch", [3, "batch"])
def test_a_dense_layer_over_steps(batch):
    generator = numpy.random.default_rng(1)
    constants = {"w": generator.standard_normal((6, 5)).astype("f"), "b": generator.standard_normal(5).astype("f")}
    nodes = []
    for step in range(STEPS):
        node, more = sliced(step, [step], [step + 1], [1], [1])
        constants |= more
        nodes += [
            node,
            helper.make_node("Squeeze", [f"s{step}", f"axes{step}"], [f"q{step}"]),
            helper.make_node("MatMul", [f"q{step}", "w"], [f"m{step}"]),
            helper.make_node("Add", [f"m{step}", "b"], [f"a{step}"]),
            helper.make_node("Tanh", [f"a{step}"], [f"y{step}"]),
        ]
    outputs = [f"y{step}" for step in range(STEPS)]
    model = tensmith.compile(model_of(nodes, {"x": [batch, STEPS, 6]}, constants, outputs), threads=1)
    x = generator.standard_normal((3, STEPS, 6)).astype("f")
    for step, y in enumerate(model.run(x=x)):
        numpy.testing.assert_allclose(y, numpy.tanh(x[:, step] @ constants["w"] + constants["b"]), rtol=1e-5, atol=1e-6)
    assert len(model.describe()["kernels"]) < STEPS


# Breaks where another element than the first is read: by steps, backwards, and in two dimensions at a time.
@pytest.mark.parametrize("step, count", [(1, 1), (1, 3), (2, 3), (-1, 3), (-3, 2)])
def test_parts_of_two_dimensions(step, count):
    generator = numpy.random.default_rng(2)
    x = generator.standard_normal((4, 24, 21, 3)).astype("f")
    nodes, constants, expected = [], {}, []
    for number in range(STEPS):
        row, column = number % 3, number * 2
        span = slice(row, row + count * step, step) if step > 0 else slice(row + 9, row + 9 + count * step, step)
        node, more = sliced(number, [span.start, column], [span.stop, column + 2], [1, 2], [step, 1])
        constants |= more
        nodes += [node, helper.make_node("Exp", [f"s{number}"], [f"y{number}"])]
        expected.append(numpy.exp(x[:, span, column : column + 2]))
    outputs = [f"y{number}" for number in range(STEPS)]
    model = tensmith.compile(model_of(nodes, {"x": list(x.shape)}, constants, outputs), threads=1)
    for y, wanted in zip(model.run(x=x), expected):
        numpy.testing.assert_allclose(y, wanted, rtol=1e-5)
    assert len(model.describe()["kernels"]) == 1
