"""Losses of one's own: differentiated twice and compiled, against closed forms; and forests that are trained by them.

Without the second derivative, or with that of another row, the closed forms differ; without the compiled loss in training, so do
the forests that a built-in objective and the same loss in the language give.
"""

import numpy
import pytest

trees = pytest.importorskip("tensmith.trees")

FOCAL = """
fn loss(output, label) = {
  let margin = (2.0 * label - 1.0) * output;
  pow(1.0 - sigmoid(margin), 2.0) * log1p(exp(-margin))
}
"""
PINBALL = "fn pinball(output, label) = max(0.9 * (label - output), -0.1 * (label - output))\n"


def focal(output, label):
    margin = (2 * label - 1) * output
    return (1 - 1 / (1 + numpy.exp(-margin))) ** 2 * numpy.log1p(numpy.exp(-margin))


def closed_focal(output, label, gamma=2.0):
    sign = 2.0 * label - 1
    q = 1 / (1 + numpy.exp(-sign * output.astype(float)))
    first = sign * (1 - q) ** gamma * (gamma * q * numpy.log(q) + q - 1)
    second = (1 - q) ** gamma * q * (gamma * (1 - q) * numpy.log(q) - gamma**2 * q * numpy.log(q) + (2 * gamma + 1) * (1 - q))
    return first, second


def rows(count=2000, seed=0):
    draw = numpy.random.default_rng(seed)
    x = draw.standard_normal((count, 6)).astype(numpy.float32)
    return x, (x[:, 0] * x[:, 1] + 0.3 * draw.standard_normal(count) > 0).astype(numpy.float32)


@pytest.mark.parametrize("loss", [FOCAL, focal], ids=["language", "python"])
def test_focal_loss_against_its_closed_form(loss):
    output = numpy.linspace(-8, 8, 401).astype(numpy.float32)
    label = (numpy.arange(401) % 2).astype(numpy.float32)
    each, first, second = trees.loss_derivatives(loss, output, label)
    numpy.testing.assert_allclose(each, focal(output.astype(float), label), atol=1e-6, rtol=1e-6)
    for got, wanted in zip((first, second), closed_focal(output, label)):
        numpy.testing.assert_allclose(got, wanted, atol=1e-6, rtol=0)


def test_a_pinball_loss_in_a_file(tmp_path):
    (tmp_path / "losses.tsm").write_text(PINBALL)
    output, label = rows()[0][:, 0], rows()[0][:, 1]
    _, first, second = trees.loss_derivatives(f"{tmp_path}/losses.tsm:pinball", output, label)
    numpy.testing.assert_allclose(first, numpy.where(output < label, -0.9, 0.1), atol=1e-6)
    assert not second.any()


def test_each_class_has_its_own_diagonal():
    draw = numpy.random.default_rng(1)
    output, label = draw.standard_normal((50, 3)).astype(numpy.float32), draw.integers(3, size=50).astype(numpy.float32)
    shares = numpy.exp(output.astype(float)) / numpy.exp(output.astype(float)).sum(axis=1, keepdims=True)
    loss = lambda output, label: numpy.log(numpy.exp(output).sum(axis=1)) - (output * numpy.array([1, 2, 3], numpy.float32)).sum(axis=1)
    _, first, second = trees.loss_derivatives(loss, output, label)
    numpy.testing.assert_allclose(first, shares - numpy.array([1, 2, 3]), atol=1e-5)
    numpy.testing.assert_allclose(second, shares * (1 - shares), atol=1e-6)


def test_a_loss_trains_the_forest_that_the_built_in_one_does(tmp_path):
    x, y = rows()
    own = tmp_path / "own.tsm"
    own.write_text("fn half(output, label) = 0.5 * (output - label) * (output - label)\n")
    settings = {"max_depth": 4, "base_score": 0, "threads": 1}
    built_in = trees.train(settings | {"objective": "squared"}, trees.Matrix(x, y), 10)
    results = {}
    for objective in (f"{own}:half", lambda output, label: 0.5 * (output - label) ** 2):
        forest = trees.train(settings | {"objective": objective}, trees.Matrix(x, y), 10, evals=[(trees.Matrix(x, y), "same")], results=results)
        numpy.testing.assert_allclose(forest.predict(x), built_in.predict(x), atol=1e-5)
        wanted = 0.5 * numpy.mean((built_in.predict(x) - y) ** 2)
        numpy.testing.assert_allclose(results["same"]["loss"][-1], wanted, rtol=1e-4)


def test_a_loss_of_straight_pieces_and_weights(tmp_path):
    """Its Hessian is 0, and taken for 1."""
    (tmp_path / "losses.tsm").write_text(PINBALL)
    x, _ = rows(4000)
    y = (x[:, 0] + numpy.random.default_rng(5).standard_normal(4000)).astype(numpy.float32)
    forest = trees.train({"objective": f"{tmp_path}/losses.tsm:pinball", "max_depth": 3}, trees.Matrix(x, y), 60)
    assert abs(numpy.mean(y <= forest.predict(x)) - 0.9) < 0.02


def test_an_estimator_keeps_probabilities():
    x, y = rows()
    model = trees.TreesClassifier(20, objective=FOCAL, max_depth=4).fit(x, y)
    probabilities = model.predict_proba(x)
    numpy.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert model.score(x, y) > 0.85
    assert model.forest_.objective == "logistic"


@pytest.mark.parametrize("loss,message", [
    ("nowhere.tsm:focal", "nowhere.tsm: No such file"),
    ("fn loss(output, label) = reduce_sum(output, axes = [0])", r"expected f32\[n\], found f32\[\]"),
    ("fn other(output, label) = output", "'loss'"),
    ("fn loss(output, label) = output +", "the loss.tsm"),
])  # fmt: skip
def test_a_loss_that_is_none(loss, message):
    x, y = rows(50)
    with pytest.raises(ValueError, match=message):
        trees.train({"objective": loss}, trees.Matrix(x, y), 1)


def test_python_that_has_no_derivative():
    x, y = rows(50)
    for loss, message in [(lambda output, label: output if output > 0 else label, "numpy.where"), (lambda output, label: 1.0, "does not depend"),
                          (lambda output, label: numpy.arctan2(output, label), "arctan2")]:  # fmt: skip
        with pytest.raises(TypeError, match=message):
            trees.train({"objective": loss}, trees.Matrix(x, y), 1)
    with pytest.raises(ValueError, match="one of squared"):
        trees.train({"objective": "focal"}, trees.Matrix(x, y), 1)
