"""Training of trees against XGBoost, whose splits exact and histogram growth must find, and on scikit-learn's data.

XGBoost's own cuts are given to histogram growth, so that both see the same bins. Of a tree every split is compared: its
feature, its threshold, where missing values go; and every leaf's value.
"""

import json

import numpy
import pytest

pytest.importorskip("tensmith")
trees = pytest.importorskip("tensmith._trees")
xgboost = pytest.importorskip("xgboost")
datasets = pytest.importorskip("sklearn.datasets")


def synthetic(rows=4000):
    """28 columns, half of the values missing in half of them."""
    draw = numpy.random.default_rng(1)
    x = draw.normal(size=(rows, 28)).astype(numpy.float32)
    y = x[:, 0] * x[:, 1] + numpy.sin(2 * x[:, 2]) + x[:, 3] + 0.5 * draw.normal(size=rows) > 0
    x[:, ::2][draw.random((rows, 14)) < 0.5] = numpy.nan
    return x, y


DATA = {
    "digits": (lambda: datasets.load_digits(return_X_y=True), "multi:softprob", 3),
    "breast cancer": (lambda: datasets.load_breast_cancer(return_X_y=True), "binary:logistic", 30),
    "diabetes": (lambda: datasets.load_diabetes(return_X_y=True), "reg:squarederror", 30),
    "synthetic": (synthetic, "binary:logistic", 10),
}


def matrix_of(x, y=None, weights=None, groups=None, features=()):
    matrix = trees.Matrix.dense(numpy.ascontiguousarray(x, numpy.float32))
    f32 = lambda values: None if values is None else numpy.ascontiguousarray(values, numpy.float32)
    matrix.describe(f32(y), f32(weights), None if groups is None else numpy.asarray(groups, numpy.int64), None, [(*feature, 0, []) for feature in features])
    return matrix


def train(parameters, matrix, **others):
    return trees.train(json.dumps(parameters), matrix, **others)


def xgboost_trees(booster):
    return json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]


def count_same(theirs, ours):
    """(splits that are the same, splits) of a tree; leaves are held to 1e-5 where the structure is the same."""
    left = numpy.array(theirs["left_children"])
    is_leaf = left < 0
    if len(left) != len(ours["left"]) or not numpy.array_equal(is_leaf, ours["left"] < 0):
        return 0, int((~is_leaf).sum())
    values = numpy.array(theirs["split_conditions"], numpy.float32)
    numpy.testing.assert_allclose(ours["value"][is_leaf], values[is_leaf], rtol=1e-5, atol=1e-5)
    same = numpy.array(theirs["split_indices"]) == ours["feature"]
    same &= numpy.abs(values - ours["threshold"]) <= 1e-5 * numpy.maximum(1, numpy.abs(values))
    same &= numpy.array(theirs["default_left"]) == ours["missing_left"]
    return int((same & ~is_leaf).sum()), int((~is_leaf).sum())


def same_splits(x, y, objective, method, rounds):
    """What count_same says of each tree."""
    x, y = numpy.ascontiguousarray(x, numpy.float32), numpy.ascontiguousarray(y, numpy.float32)
    parameters = {"objective": objective, "max_depth": 6, "eta": 0.3, "tree_method": method, "nthread": 2}
    theirs = parameters | ({"num_class": int(y.max()) + 1} if objective.startswith("multi") else {})
    data = xgboost.QuantileDMatrix(x, y) if method == "hist" else xgboost.DMatrix(x, y)
    booster = xgboost.train(theirs, data, rounds)
    cuts = None
    if method == "hist":
        begin, values = data.get_quantile_cut()
        cuts = begin.astype(numpy.int64), values.astype(numpy.float32)
    forest = train(parameters | {"rounds": rounds}, matrix_of(x, y), cuts=cuts)
    expected = xgboost_trees(booster)
    assert trees.trained_facts(forest)["trees"] == len(expected)
    return [count_same(tree, forest.tree(number)) for number, tree in enumerate(expected)]


@pytest.mark.parametrize("method", ["exact", "hist"])
@pytest.mark.parametrize("name", DATA)
def test_trees_are_xgboosts(name, method):
    load, objective, rounds = DATA[name]
    same, splits = map(sum, zip(*same_splits(*load(), objective, method, rounds)))
    assert splits > 100
    assert same >= (0.99 if method == "hist" else 1) * splits


@pytest.mark.parametrize("change", [
    {"alpha": 0.5, "lambda": 3}, {"gamma": 1.0}, {"min_child_weight": 20}, {"max_delta_step": 0.3}, {"max_leaves": 9},
    {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 12}, {"scale_pos_weight": 3}, {"monotone_constraints": [1, -1] + [0] * 26},
    {"base_score": 0.3},
], ids=str)
def test_parameters_mean_what_they_mean_in_xgboost(change):
    x, y = synthetic()
    x, y = x[:1500], y[:1500].astype(numpy.float32)
    parameters = {"objective": "binary:logistic", "max_depth": 5, "eta": 0.2, "tree_method": "hist"} | change
    data = xgboost.QuantileDMatrix(x, y)
    theirs = dict(parameters)
    if "monotone_constraints" in change:
        theirs["monotone_constraints"] = tuple(change["monotone_constraints"])
    booster = xgboost.train(theirs, data, 8)
    begin, values = data.get_quantile_cut()
    forest = train(parameters | {"rounds": 8}, matrix_of(x, y), cuts=(begin.astype(numpy.int64), values.astype(numpy.float32)))
    counts = [count_same(tree, forest.tree(number)) for number, tree in enumerate(xgboost_trees(booster))]
    same, splits = map(sum, zip(*counts))
    assert splits > 20
    assert same >= 0.97 * splits


@pytest.mark.parametrize("objective,metric", [
    ("reg:absoluteerror", "mae"), ("reg:pseudohubererror", "mphe"), ("reg:quantileerror", "quantile"), ("count:poisson", "poisson-nloglik"),
    ("reg:tweedie", "tweedie-nloglik@1.5"), ("survival:cox", "cox-nloglik"), ("rank:pairwise", "ndcg"), ("rank:ndcg", "ndcg"),
])
def test_objectives_reach_what_xgboost_reaches(objective, metric):
    """The metric of a validation set, after as many rounds, to two per cent."""
    draw = numpy.random.default_rng(2)
    x = draw.normal(size=(3000, 6)).astype(numpy.float32)
    signal = x[:, 0] + numpy.sin(2 * x[:, 1]) + x[:, 2] * x[:, 3]
    labels = {
        "count:poisson": lambda: draw.poisson(numpy.exp(0.5 * signal)), "reg:tweedie": lambda: draw.poisson(numpy.exp(0.5 * signal)),
        "survival:cox": lambda: draw.exponential(numpy.exp(-signal)) * numpy.where(draw.random(3000) < 0.3, -1, 1),
        "rank:pairwise": lambda: numpy.clip(signal + 2, 0, 4).astype(int), "rank:ndcg": lambda: numpy.clip(signal + 2, 0, 4).astype(int),
    }.get(objective, lambda: signal + 0.5 * draw.normal(size=3000))()
    ranking = objective.startswith("rank")
    parameters = {"objective": objective, "max_depth": 4, "eta": 0.2, "eval_metric": metric}
    theirs = parameters | ({"quantile_alpha": 0.7} if "quantile" in objective else {}) | ({"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 20} if ranking else {})
    make = lambda rows, kind=xgboost.DMatrix: kind(x[rows], labels[rows], **({"group": [20] * (len(x[rows]) // 20)} if ranking else {}))
    fit, held = slice(0, 2000), slice(2000, 3000)
    results = {}
    data = make(fit, xgboost.QuantileDMatrix)
    begin, values = data.get_quantile_cut()
    xgboost.train(theirs, data, 30, evals=[(make(held), "held")], evals_result=results, verbose_eval=False)
    ours = []
    groups = lambda rows: [20] * (len(x[rows]) // 20) if ranking else None
    train(parameters | {"rounds": 30} | ({"quantile": 0.7} if "quantile" in objective else {}), matrix_of(x[fit], labels[fit], groups=groups(fit)),
          cuts=(begin.astype(numpy.int64), values.astype(numpy.float32)), validation=[("held", matrix_of(x[held], labels[held], groups=groups(held)))], watch=lambda number, metrics, seconds: ours.append(metrics[0][2]))
    expected = list(results["held"].values())[0][-1]
    assert len(ours) == 30
    better = ours[-1] >= expected if ranking else ours[-1] <= expected
    assert better or ours[-1] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("proposals", ["global", "local"])
def test_approximate_growth_is_nearly_exact(proposals):
    x, y = datasets.load_diabetes(return_X_y=True)
    scores = {}
    for method in ("exact", "approx"):
        parameters = {"objective": "squared", "method": method, "rounds": 20, "max_depth": 3, "proposals": proposals, "max_bins": 32}
        seen = []
        train(parameters, matrix_of(x, y), validation=[("same", matrix_of(x, y))], watch=lambda *round: seen.append(round[1][0][2]))
        scores[method] = seen[-1]
    assert scores["approx"] == pytest.approx(scores["exact"], rel=0.05)


def test_a_loss_of_ones_own_is_the_objective():
    x, y = datasets.load_breast_cancer(return_X_y=True)

    def logistic(outputs, labels, weights):
        share = 1 / (1 + numpy.exp(-outputs))
        return (share - labels).astype(numpy.float32), numpy.maximum(share * (1 - share), 1e-16).astype(numpy.float32)

    parameters = {"objective": "logistic", "rounds": 10, "base_score": 0.5}
    built_in, own = train(parameters, matrix_of(x, y)), train(parameters | {"base_score": 0}, matrix_of(x, y), loss=logistic)
    for number in range(10):
        ours, theirs = own.tree(number), built_in.tree(number)
        numpy.testing.assert_array_equal(ours["feature"], theirs["feature"])
        numpy.testing.assert_allclose(ours["value"], theirs["value"], atol=1e-4)


def test_exceptions_of_callbacks_are_raised():
    x, y = datasets.load_diabetes(return_X_y=True)

    def fails(*arguments):
        raise KeyError("mine")

    for callback in ("watch", "loss"):
        with pytest.raises(KeyError, match="mine"):
            train({"rounds": 3}, matrix_of(x, y), **{callback: fails})
    with pytest.raises(ValueError, match="as many gradients"):
        train({"rounds": 3}, matrix_of(x, y), loss=lambda *arguments: (numpy.zeros(2, numpy.float32),) * 2)


def test_watch_ends_training():
    x, y = datasets.load_diabetes(return_X_y=True)
    forest = train({"rounds": 50}, matrix_of(x, y), watch=lambda number, metrics, seconds: number < 4)
    assert trees.trained_facts(forest)["trees"] == 5


@pytest.mark.parametrize("parameters,message", [
    ({"eta": -1}, "learning_rate is -1"), ({"no_such": 1}, "no parameter 'no_such'"), ({"objective": "best"}, "one of squared"),
    ({"eval_metric": "best"}, "no metric 'best'"), ({"max_depth": 0}, "limit one of them"), ({"max_depth": 2.5}, "a whole number"),
])
def test_wrong_parameters_are_told(parameters, message):
    with pytest.raises(ValueError, match=message):
        train(parameters, matrix_of([[1.0], [2.0]], [0, 1]))
