"""Forests in and out of files, and what is predicted by them: held against XGBoost, LightGBM, scikit-learn and ONNX Runtime.

Each case trains a model there, reads it here, and compares predictions; the other way round XGBoost and ONNX Runtime load what was
written here. A reader that swaps a split's sides, loses a base score or takes < for <= fails on one of them.
"""

import json
import os
import pickle

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the others: their threads wait for each other busily

import numpy
import pytest

trees = pytest.importorskip("tensmith.trees")
xgboost = pytest.importorskip("xgboost")
onnxruntime = pytest.importorskip("onnxruntime")
tensmith = pytest.importorskip("tensmith")

ROWS, FEATURES = 700, 6


def table(seed=0, categories=0):
    draw = numpy.random.default_rng(seed)
    x = draw.standard_normal((ROWS, FEATURES)).astype(numpy.float32)
    x[draw.random(x.shape) < 0.1] = numpy.nan
    if categories:
        x[:, 0] = draw.integers(0, categories, ROWS)
        x[draw.random(ROWS) < 0.1, 0] = numpy.nan
    y = numpy.nan_to_num(x[:, 1]) + numpy.nan_to_num(x[:, 0]) % 3 + 0.1 * draw.standard_normal(ROWS)
    return x, y


def xgboost_model(objective, categories=0, rounds=8, labels=None, **parameters):
    x, y = table(categories=categories)
    y = y if labels is None else labels(y)
    types = ["c" if categories and i == 0 else "float" for i in range(FEATURES)]
    data = xgboost.DMatrix(x, y, feature_types=types, enable_categorical=True)
    return x, xgboost.train(dict(objective=objective, **{"max_depth": 5, "nthread": 1, **parameters}), data, rounds), data


def two(y):
    return (y > 1).astype(int)


def three(y):
    return numpy.digitize(y, [0.5, 1.5])


def counts(y):
    return numpy.abs(y)


CASES = {
    "numbers": dict(objective="reg:squarederror"),
    "medians": dict(objective="reg:absoluteerror"),
    "two classes": dict(objective="binary:logistic", labels=two),
    "three classes": dict(objective="multi:softprob", num_class=3, labels=three),
    "counts": dict(objective="count:poisson", labels=counts),
    "dart": dict(objective="binary:logistic", labels=two, booster="dart", rate_drop=0.5),
    "categories, one against the rest": dict(objective="reg:squarederror", categories=5, max_cat_to_onehot=10),
    "categories, sets": dict(objective="binary:logistic", labels=two, categories=40, max_cat_to_onehot=2),
    "by loss": dict(objective="reg:squarederror", grow_policy="lossguide", max_leaves=20, max_depth=0),
    "given base score": dict(objective="binary:logistic", labels=two, base_score=0.2),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys(), scope="module")
def model(request):
    return xgboost_model(**request.param)


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_reads_xgboost(model, form, tmp_path):
    x, booster, data = model
    booster.save_model(tmp_path / f"model.{form}")
    forest = trees.load(tmp_path / f"model.{form}")
    numpy.testing.assert_allclose(forest.predict(x), booster.predict(data), rtol=2e-5, atol=2e-6)
    numpy.testing.assert_allclose(forest.outputs(x)[:, 0], booster.predict(data, output_margin=True).reshape(ROWS, -1)[:, 0], rtol=2e-5, atol=5e-6)
    assert (forest.apply(x) == booster.predict(data, pred_leaf=True).reshape(ROWS, -1)).all()


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_writes_xgboost(model, form, tmp_path):
    """Also where a category that training has not seen goes left: the set that XGBoost gets is the other one."""
    x, booster, data = model
    forest = trees.Forest.from_bytes(bytes(booster.save_raw("ubj")))
    forest.save(tmp_path / f"again.{form}")
    again = xgboost.Booster(model_file=tmp_path / f"again.{form}")
    numpy.testing.assert_allclose(again.predict(data), booster.predict(data), rtol=1e-6, atol=1e-6)


def test_contributions_are_those_of_xgboost(model):
    x, booster, data = model
    forest = trees.Forest.from_bytes(bytes(booster.save_raw("json")))
    ours = forest.contributions(x[:100])
    theirs = booster.predict(data, pred_contribs=True)[:100]
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    numpy.testing.assert_allclose(ours.sum(-1).reshape(100, -1), forest.outputs(x[:100]), rtol=1e-5, atol=1e-5)


def test_own_file_and_pickle_are_the_same_forest(model, tmp_path):
    x, booster, _ = model
    forest = trees.Forest.from_bytes(bytes(booster.save_raw("json")))
    forest.save(tmp_path / "model.forest")
    for again in (trees.load(tmp_path / "model.forest"), pickle.loads(pickle.dumps(forest))):
        assert (again.outputs(x) == forest.outputs(x)).all() and again.dump() == forest.dump()
    assert (tmp_path / "model.forest").stat().st_size < len(forest.to_bytes("json")) / 3


def run_onnx(contents, x):
    return onnxruntime.InferenceSession(contents, providers=["CPUExecutionProvider"]).run(None, {"x": x})


def test_onnx_runtime_runs_what_is_written(model):
    x, booster, data = model
    forest = trees.Forest.from_bytes(bytes(booster.save_raw("json")))
    (y,) = run_onnx(forest.to_onnx("predictions"), x)
    numpy.testing.assert_allclose(y.reshape(forest.predict(x).shape), forest.predict(x), rtol=1e-5, atol=2e-6)
    if len(forest.classes):
        label, probabilities = run_onnx(forest.to_onnx(), x)
        assert probabilities.shape == (ROWS, len(forest.classes))
        assert (label == probabilities.argmax(1)).all()
    again = trees.Forest.from_bytes(forest.to_onnx())
    numpy.testing.assert_allclose(again.outputs(x), forest.outputs(x), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("case", ["three classes", "dart", "categories, one against the rest"])
def test_compiled_forest_predicts_the_same(case):
    x, booster, _ = xgboost_model(**CASES[case])
    forest = trees.Forest.from_bytes(bytes(booster.save_raw("json")))
    compiled = forest.compile(threads=1)
    for rows in (1, 20, ROWS):
        numpy.testing.assert_allclose(compiled.predict(x[:rows]), forest.predict(x[:rows]), rtol=1e-5, atol=2e-6)


def test_sparse_rows_are_dense_ones_with_what_is_absent_missing():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    x, booster, _ = xgboost_model("reg:squarederror")
    forest = trees.Forest.from_bytes(bytes(booster.save_raw("json")))
    filled = numpy.nan_to_num(x)
    sparse = scipy_sparse.csr_matrix(filled)
    dense = numpy.where(filled == 0, numpy.float32("nan"), filled)
    assert (forest.outputs(sparse) == forest.outputs(dense)).all()
    assert (forest.apply(sparse) == forest.apply(dense)).all()
    assert (forest.outputs(sparse, threads=2) == forest.outputs(sparse, threads=1)).all()


LIGHTGBM = {
    "numbers": dict(objective="regression"),
    "two classes": dict(objective="binary"),
    "steep": dict(objective="binary", sigmoid=2.0),
    "three classes": dict(objective="multiclass", num_class=3),
    "one against all": dict(objective="multiclassova", num_class=3),
    "counts": dict(objective="poisson"),
    "a random forest": dict(objective="regression", boosting="rf", bagging_fraction=0.6, bagging_freq=1),
    "zeros are missing": dict(objective="regression", zero_as_missing=True),
    "no missing values": dict(objective="regression", use_missing=False),
    "categories": dict(objective="regression", categories=30, min_data_per_group=5, cat_smooth=1),
}


@pytest.mark.parametrize("case", LIGHTGBM.values(), ids=LIGHTGBM.keys())
def test_reads_lightgbm(case):
    lightgbm = pytest.importorskip("lightgbm")
    case = dict(case)
    categories = case.pop("categories", 0)
    x, y = table(categories=categories)
    x[::7, 2:4] = 0
    y = {"binary": two, "multiclass": three, "multiclassova": three, "poisson": counts}.get(case["objective"], lambda y: y)(y)
    data = lightgbm.Dataset(x, y, categorical_feature=[0] if categories else [])
    booster = lightgbm.train(dict(num_leaves=15, verbose=-1, num_threads=1, **case), data, 8)
    forest = trees.Forest.from_bytes(booster.model_to_string().encode())
    x[3] = numpy.nan
    x[4] = 0
    numpy.testing.assert_allclose(forest.predict(x), booster.predict(x), rtol=2e-5, atol=2e-6)
    (y,) = run_onnx(forest.to_onnx("predictions"), x)
    numpy.testing.assert_allclose(y.reshape(forest.predict(x).shape), forest.predict(x), rtol=1e-5, atol=2e-6)


def test_reads_scikit_learn_by_onnx():
    ensemble = pytest.importorskip("sklearn.ensemble")
    convert = pytest.importorskip("skl2onnx")
    x, y = table()
    x = numpy.nan_to_num(x)
    for model, labels in [
        (ensemble.GradientBoostingRegressor(n_estimators=9), y),
        (ensemble.RandomForestRegressor(n_estimators=5), y),
        (ensemble.GradientBoostingClassifier(n_estimators=9), two(y)),
        (ensemble.GradientBoostingClassifier(n_estimators=9), three(y)),
        (ensemble.RandomForestClassifier(n_estimators=5), two(y)),
        (ensemble.RandomForestClassifier(n_estimators=5), three(y)),
    ]:
        model.fit(x, labels)
        contents = convert.to_onnx(model, x[:1], options={type(model): {"zipmap": False}} if hasattr(model, "classes_") else None, target_opset={"": 18, "ai.onnx.ml": 3})
        forest = trees.Forest.from_bytes(contents.SerializeToString())
        wanted = model.predict_proba(x) if hasattr(model, "classes_") else model.predict(x)
        ours = forest.predict(x)
        if hasattr(model, "classes_") and ours.ndim == 1:
            ours = numpy.stack([1 - ours, ours], 1)
        numpy.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5, err_msg=type(model).__name__)


def test_importances_are_those_of_xgboost():
    _, booster, _ = xgboost_model("reg:squarederror", rounds=15)
    forest = trees.Forest.from_bytes(bytes(booster.save_raw("json")))
    for kind in ("weight", "gain", "cover", "total_gain", "total_cover"):
        wanted = booster.get_score(importance_type=kind)
        ours = {name: value for name, value in forest.importances(kind).items() if value > 0}
        assert ours == pytest.approx(wanted, rel=1e-4)


def test_drawings_and_dump_say_each_split():
    _, booster, _ = xgboost_model("reg:squarederror", rounds=2)
    forest = trees.Forest.from_bytes(bytes(booster.save_raw("json")))
    tree = forest.tree(1)
    drawing = str(forest.plot_tree(1))
    assert drawing.count("<rect") == len(tree["feature"]) and drawing.startswith("<svg")
    assert forest.dump().count("value") == sum((forest.tree(i)["left"] < 0).sum() for i in range(2))
    assert str(forest.page(1)).count("<svg") == 2
    with pytest.raises(tensmith.Error, match="there is no tree 2"):
        forest.plot_tree(2)


def test_early_stopped_models_predict_by_the_best_rounds():
    x, y = table()
    data, valid = xgboost.DMatrix(x[:300], y[:300]), xgboost.DMatrix(x[300:], y[300:])
    booster = xgboost.train(dict(eta=1, nthread=1), data, 60, evals=[(valid, "v")], early_stopping_rounds=3, verbose_eval=False)
    forest = trees.Forest.from_bytes(bytes(booster.save_raw("json")))
    best = booster.best_iteration + 1
    assert best < forest.rounds == booster.num_boosted_rounds()
    numpy.testing.assert_allclose(forest.predict(x), booster.predict(xgboost.DMatrix(x), iteration_range=(0, best)), rtol=2e-5, atol=2e-6)
    numpy.testing.assert_allclose(forest.predict(x, rounds=forest.rounds), booster.predict(xgboost.DMatrix(x)), rtol=2e-5, atol=2e-6)


def hostile_documents():
    _, booster, _ = xgboost_model("reg:squarederror", rounds=1)
    document = json.loads(bytes(booster.save_raw("json")))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    split = tree["left_children"].index(max(tree["left_children"]))

    def changed(change):
        copy = json.loads(json.dumps(document))
        change(copy["learner"], copy["learner"]["gradient_booster"]["model"]["trees"][0])
        return json.dumps(copy).encode()

    def set_at(key, place, value):
        return lambda learner, tree: tree[key].__setitem__(place, value)

    return {
        "a node that leads back": (changed(set_at("left_children", split, 0)), "reached twice"),
        "a child that is not there": (changed(set_at("right_children", 0, 10**6)), "there are"),
        "a feature that is not there": (changed(set_at("split_indices", 0, 99)), "tests the feature 99"),
        "lists of different lengths": (changed(lambda learner, tree: tree["sum_hessian"].pop()), "sum_hessian"),
        "a channel that is not there": (changed(lambda learner, tree: learner["gradient_booster"]["model"].update(tree_info=[7])), "channel"),
        "no trees": (changed(lambda learner, tree: learner["gradient_booster"]["model"].pop("trees")), "'trees'"),
        "linear": (changed(lambda learner, tree: learner["gradient_booster"].update(name="gblinear")), "gblinear"),
        "millions of features": (changed(lambda learner, tree: learner["learner_model_param"].update(num_feature="1e18")), "num_feature"),
        "nested": (b'{"learner":' + b"[" * 100000, "nested"),
        "cut off": (json.dumps(document).encode()[:-100], "cut off"),
        "2^60 nulls": (b"{L\0\0\0\0\0\0\0\1a[$Z#L\x10\0\0\0\0\0\0\0", "bytes|damaged"),
        "nothing": (b"", "no ONNX|ensemble"),
    }


@pytest.mark.parametrize("contents, message", hostile_documents().values(), ids=hostile_documents().keys())
def test_hostile_files_are_errors_in_words(contents, message):
    with pytest.raises(tensmith.Error, match=message):
        trees.Forest.from_bytes(contents)


def test_xgboost_finds_categories_by_our_lists(tmp_path):
    """Fails where `cats` are not as XGBoost reads them: it numbers a frame's categories anew, by its names."""
    pandas = pytest.importorskip("pandas")
    draw = numpy.random.default_rng(0)
    texts, years = draw.choice(["red", "blue", "green"], 300), draw.choice([2001, 7, -3], 300)
    frame = pandas.DataFrame({"x": draw.standard_normal(300), "text": pandas.Categorical(texts, ["red", "green", "blue"]),
                              "year": pandas.Categorical(years, [7, 2001, -3])})  # fmt: skip
    y = (texts == "green") + 2.0 * (years == 7)
    forest = trees.train({"max_depth": 3}, trees.Matrix(frame, y), 8)
    other = frame.assign(text=pandas.Categorical(texts, ["blue", "green", "red"]), year=pandas.Categorical(years, [-3, 7, 2001]))
    for ending in ("json", "ubj"):
        forest.save(tmp_path / f"a.{ending}")
        theirs = xgboost.Booster(model_file=str(tmp_path / f"a.{ending}"))
        for rows in (frame, other):
            answers = theirs.predict(xgboost.DMatrix(rows, enable_categorical=True))
            numpy.testing.assert_allclose(answers, forest.predict(frame), rtol=1e-5, atol=1e-5)
    # (Texts are ASCII: XGBoost 3.2 cuts off others where it writes them.)
    theirs = xgboost.train({"max_depth": 3}, xgboost.DMatrix(frame, y, enable_categorical=True), 8)
    theirs.save_model(tmp_path / "b.json")
    ours = trees.load(tmp_path / "b.json")
    assert ours.levels == {"x": None, "text": ["red", "green", "blue"], "year": [7, 2001, -3]}
    numpy.testing.assert_allclose(ours.predict(frame), theirs.predict(xgboost.DMatrix(frame, enable_categorical=True)), rtol=1e-5, atol=1e-5)
