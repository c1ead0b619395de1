"""Parameters and losses that contradict themselves or the data are refused, with what to do; and what early stopping keeps of DART."""

import numpy
import pytest

trees = pytest.importorskip("tensmith.trees")

DRAW = numpy.random.default_rng(0)
X = DRAW.standard_normal((400, 4)).astype(numpy.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(numpy.float32)


@pytest.mark.parametrize("parameters, said", [
    ({"learning_rate": 1, "eta": 0.5}, "'learning_rate' and 'eta' are one parameter"),
    ({"base_score": float("nan")}, "base_score is nan; a finite number is expected"),
    ({"alpha": float("inf")}, "alpha is inf; a finite number is expected"),
    ({"objective": "logistic", "base_score": 5}, "base_score is 5, which objective logistic never predicts"),
    ({"objective": "poisson", "base_score": -1}, "base_score is -1, which objective poisson never predicts"),
])  # fmt: skip
def test_parameters_that_contradict_are_refused(parameters, said):
    with pytest.raises(ValueError, match=said):
        trees.train(parameters, trees.Matrix(X, labels=Y), 2)


def test_categories_have_no_order_to_be_monotone_in():
    """Breaks if a constraint is taken and not held."""
    data = trees.Matrix(numpy.floor(numpy.abs(X)), labels=Y, categorical=[1])
    with pytest.raises(ValueError, match="order of feature 1, whose categories have none"):
        trees.train({"monotone": [1, 1]}, data, 2)
    trees.train({"monotone": [1, 0]}, data, 2)


@pytest.mark.parametrize("loss", [lambda o, y, w: (o - y,), lambda o, y, w: o - y, lambda o, y, w: None])
def test_a_loss_by_hand_returns_two_arrays(loss):
    """Breaks if the second of one array is read."""
    with pytest.raises(ValueError, match="must return a tuple of two arrays, gradients and Hessians"):
        trees.train({}, trees.Matrix(X, labels=Y), 2, loss=loss)


def test_queries_are_numbers():
    with pytest.raises(ValueError, match="qid is not one ascending number for each row"):
        trees.TreesRanker(2).fit(X, Y, qid=["a"] * 200 + ["b"] * 200)


@pytest.mark.parametrize("channels", [1, 3])
def test_dart_that_stops_early_keeps_the_forest_that_was_best(channels):
    """Breaks if trees keep the scales that rounds after the best one gave them."""
    noisy = X[:, 0] * X[:, 1] + numpy.random.default_rng(1).standard_normal(400)
    y = (noisy > 0).astype(int) if channels == 1 else numpy.digitize(noisy, [-0.4, 0.4])
    parameters = {"booster": "dart", "drop_rate": 0.3, "eta": 0.5, "objective": "logistic" if channels == 1 else "softmax"}
    first = trees.train(parameters, trees.Matrix(X[:300], labels=y[:300]), 2)
    for continued in (None, first):
        results = {}
        forest = trees.train(parameters, trees.Matrix(X[:300], labels=y[:300]), 60, evals=[(trees.Matrix(X[300:], labels=y[300:]), "v")],
                             early_stopping_rounds=8, results=results, continued=continued)  # fmt: skip
        values = next(iter(results["v"].values()))
        before = 2 if continued else 0
        assert forest.best_round == before + numpy.argmin(values)
        assert len(values) < 60
        predicted = forest.predict(X[300:])
        chosen = numpy.where(y[300:] > 0, predicted, 1 - predicted) if channels == 1 else predicted[numpy.arange(100), y[300:]]
        numpy.testing.assert_allclose(-numpy.log(chosen).mean(), min(values), rtol=1e-4)
        assert len(forest) == channels * (forest.best_round + 1)


def test_constraints_are_for_features_that_there_are():
    """Breaks if a constraint of no feature, or of one twice, is dropped without a word."""
    data = trees.Matrix(X, labels=X[:, 0])
    for given, said in [({"monotone": {99: 1}}, "the feature 99, and the training data has"), ({"monotone": {"f1": 1, 1: -1}}, "two directions"),
                        ({"interactions": [[0, 99]]}, "the feature 99")]:  # fmt: skip
        with pytest.raises(ValueError, match=said):
            trees.train(given, data, 1)


def test_an_estimators_other_parameters_have_either_name():
    """Breaks if XGBoost's name for a parameter stands beside the estimator's default for it."""
    model = trees.TreesRegressor(3, other={"reg_lambda": 2.0, "eta": 0.5, "nthread": 1}).fit(X, X[:, 0])
    same = trees.TreesRegressor(3, reg_lambda=2.0, learning_rate=0.5, n_jobs=1).fit(X, X[:, 0])
    assert numpy.array_equal(model.predict(X), same.predict(X))
