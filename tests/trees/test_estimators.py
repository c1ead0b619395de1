"""The estimators keep scikit-learn's conventions, and training by dictionaries does what it says.

scikit-learn's own checks are run on each estimator; the rest are the ways in which people use them.
"""

import json
import os
import pickle
import subprocess
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy
import pytest

trees = pytest.importorskip("tensmith.trees")
pytest.importorskip("sklearn")
from sklearn import calibration, datasets, metrics, model_selection, pipeline, preprocessing  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402


@estimator_checks.parametrize_with_checks([trees.TreesClassifier(n_estimators=20), trees.TreesRegressor(n_estimators=20)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def small(name):
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return model_selection.train_test_split(x.astype(numpy.float32), y, random_state=0)


def test_classifier_on_two_and_ten_classes():
    for name, least in [("breast_cancer", 0.95), ("digits", 0.94)]:
        x, x_test, y, y_test = small(name)
        model = trees.TreesClassifier(60, max_depth=4).fit(x, y)
        assert model.score(x_test, y_test) > least
        probabilities = model.predict_proba(x_test)
        assert probabilities.shape == (len(x_test), len(model.classes_))
        numpy.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
        assert (pickle.loads(pickle.dumps(model)).predict(x_test) == model.predict(x_test)).all()


def test_names_of_classes_and_features_come_back():
    pandas = pytest.importorskip("pandas")
    x, x_test, y, _ = small("breast_cancer")
    names = numpy.array(["bad", "good"])
    frame = pandas.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])])
    model = trees.TreesClassifier(10).fit(frame, names[y])
    assert set(model.predict(pandas.DataFrame(x_test, columns=frame.columns))) == {"bad", "good"}
    assert model.forest_.feature_names == list(frame.columns)


def test_pandas_and_arrow_categories_are_split_as_sets():
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    draw = numpy.random.default_rng(0)
    codes, noise = draw.integers(0, 20, 500), draw.standard_normal(500)
    frame = pandas.DataFrame({"colour": pandas.Categorical.from_codes(codes, [f"c{i}" for i in range(20)]), "noise": noise})
    y = (codes % 3 == 0).astype(float)
    model = trees.TreesRegressor(30, max_depth=3).fit(frame, y)
    assert numpy.abs(model.predict(frame) - y).max() < 0.05
    assert any(any(tree["categories"]) for tree in map(model.forest_.tree, range(3)))
    table = arrow.table({"colour": arrow.DictionaryArray.from_arrays(codes.astype(numpy.int32), [f"c{i}" for i in range(20)]), "noise": noise})
    numpy.testing.assert_array_equal(model.predict(table), model.predict(frame))


def test_categories_keep_their_numbers():
    pandas = pytest.importorskip("pandas")
    codes = numpy.arange(60) % 4
    frame = pandas.DataFrame({"colour": pandas.Categorical.from_codes(codes, list("abcd")), "size": numpy.zeros(60)})
    y = (codes == 0).astype(float)
    # The missing number is of numbers: category 0 is one like others.
    rows = trees.Matrix(frame, y, missing=0)
    assert (rows.rows_.dense[:, 0] == codes).all() and numpy.isnan(rows.rows_.dense[:, 1]).all()
    forest = trees.train({"min_child_weight": 0}, rows, 10)
    others = frame.assign(colour=pandas.Categorical(["b"] * 60))
    for model in (forest, pickle.loads(pickle.dumps(forest))):
        with pytest.raises(ValueError, match="set_categories"):
            model.predict(others)
    same = others.assign(colour=others["colour"].cat.set_categories(frame["colour"].cat.categories))
    numpy.testing.assert_allclose(forest.predict(same), forest.predict(frame)[1], rtol=1e-6)
    with pytest.raises(ValueError, match="set_categories"):
        trees.train({}, rows, 1, evals=[(trees.Matrix(others, y), "valid")])


def test_pipeline_search_and_calibration():
    x, x_test, y, y_test = small("breast_cancer")
    steps = pipeline.make_pipeline(preprocessing.StandardScaler(), trees.TreesClassifier(15))
    search = model_selection.GridSearchCV(steps, {"treesclassifier__max_depth": [2, 4]}, cv=2).fit(x, y)
    assert search.score(x_test, y_test) > 0.92
    calibrated = calibration.CalibratedClassifierCV(trees.TreesClassifier(15), cv=2).fit(x, y)
    assert metrics.log_loss(y_test, calibrated.predict_proba(x_test)) < 0.25


def test_early_stopping_keeps_the_best_round():
    x, x_test, y, y_test = small("diabetes")
    model = trees.TreesRegressor(300, early_stopping_rounds=5).fit(x, y, eval_set=[(x_test, y_test)])
    values = model.evals_result_["validation_0"]["rmse"]
    assert model.best_iteration_ == int(numpy.argmin(values)) and len(values) == model.best_iteration_ + 6
    error = numpy.sqrt(numpy.mean((model.predict(x_test) - y_test) ** 2))
    assert error == pytest.approx(min(values), rel=1e-4)


def test_ranker_orders_rows_of_a_query():
    draw = numpy.random.default_rng(0)
    x = draw.standard_normal((600, 5)).astype(numpy.float32)
    relevance = numpy.digitize(x[:, 0] + 0.3 * draw.standard_normal(600), [-0.5, 0.5, 1.2])
    model = trees.TreesRanker(30, max_depth=3).fit(x, relevance, group=[20] * 30)
    again = trees.TreesRanker(30, max_depth=3).fit(x, relevance, qid=numpy.repeat(numpy.arange(30), 20))
    scores = model.predict(x)
    assert (scores == again.predict(x)).all()
    ndcg = metrics.ndcg_score(relevance.reshape(30, 20), scores.reshape(30, 20))
    assert ndcg > 0.95
    with pytest.raises(ValueError, match="either group or qid"):
        trees.TreesRanker().fit(x, relevance)


def test_train_takes_names_of_both_systems_and_callbacks():
    x, x_test, y, y_test = small("diabetes")
    data, valid = trees.Matrix(x, y), trees.Matrix(x_test, y_test)
    seen = []
    ours = trees.train({"learning_rate": 0.1, "lambda": 2, "method": "exact"}, data, 12)
    theirs = trees.train({"eta": 0.1, "reg_lambda": 2, "tree_method": "exact"}, data, 12, evals=[(valid, "valid")],
                         callbacks=[lambda number, metrics: seen.append(metrics["valid"]["rmse"])])  # fmt: skip
    assert ours.dump() == theirs.dump() and len(seen) == 12 and seen[-1] < seen[0]
    stopped = trees.train({}, data, 12, callbacks=[lambda number, metrics: number < 4])
    assert stopped.rounds == 5
    longer = trees.train({"learning_rate": 0.1, "lambda": 2, "method": "exact"}, data, 3, continued=ours)
    assert longer.rounds == 15
    with pytest.raises(ValueError, match="learning_rate"):
        trees.train({"learning_rate": -1}, data)


def test_own_loss_is_that_of_the_objective():
    x, _, y, _ = small("diabetes")
    y = y / 100
    data = trees.Matrix(x, y)

    def squared(outputs, labels, weights):
        return outputs - labels, numpy.ones_like(outputs)

    own = trees.train({"base_score": float(y.mean())}, data, 5, loss=squared)
    usual = trees.train({"base_score": float(y.mean())}, data, 5)
    numpy.testing.assert_allclose(own.predict(x), usual.predict(x), rtol=1e-5)


def test_works_without_scikit_learn():
    """In a process that can't import it."""
    program = """
import sys
sys.modules["sklearn"] = None
import numpy, tensmith.trees as trees
x = numpy.random.default_rng(0).standard_normal((200, 4))
model = trees.TreesClassifier(5).set_params(max_depth=2).fit(x, x[:, 0] > 0)
assert model.get_params()["max_depth"] == 2 and model.score(x, x[:, 0] > 0) > 0.9
print(trees.TreesRegressor(5).fit(x, x[:, 1]).score(x, x[:, 1]) > 0.5)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


def test_parameters_have_a_help_and_a_default():
    for name, (other, default, text) in trees.parameters().items():
        assert text and json.dumps(default) is not None, name
