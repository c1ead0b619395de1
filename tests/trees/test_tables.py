"""Tables with named columns: what their names, types and order decide, and what is refused."""

import numpy
import pytest

trees = pytest.importorskip("tensmith.trees")

DRAW = numpy.random.default_rng(0)
X = DRAW.standard_normal((300, 3)).astype(numpy.float32)
Y = X[:, 0] - 2 * X[:, 1]
NAMES = ["a", "b", "c"]


def table(names=NAMES, x=X):
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({name: x[:, NAMES.index(name) if name in NAMES else 0] for name in names})


def test_columns_of_another_order_or_name_are_refused():
    """Breaks if a table's columns are taken by their places whatever they are called."""
    forest = trees.train({}, trees.Matrix(table(), labels=Y), 3)
    wanted = forest.predict(table())
    numpy.testing.assert_array_equal(forest.predict(X), wanted)  # an array goes by places
    for other in (table(["b", "a", "c"]), table(["a", "b", "other"])):
        for use in (forest.predict, forest.apply, forest.contributions):
            with pytest.raises(ValueError, match=r"column . is '.*', and was '.*' in the training data.*feature_names"):
                use(other)
        with pytest.raises(ValueError, match="in the training data"):
            trees.train({}, trees.Matrix(table(), labels=Y), 3, evals=[(trees.Matrix(other, labels=Y), "valid")])
        with pytest.raises(ValueError, match="in the training data"):
            trees.train({}, trees.Matrix(other, labels=Y), 3, continued=forest)
        with pytest.raises(ValueError, match="in the training data"):
            trees.TreesRegressor(3).fit(table(), Y, eval_set=[(other, Y)])
        with pytest.raises(ValueError, match="in the training data"):
            trees.TreesRegressor(3).fit(table(), Y).predict(other)
    numpy.testing.assert_array_equal(trees.Forest.from_bytes(forest.to_bytes()).predict(table()), wanted)


def test_a_forest_of_an_array_takes_tables_of_any_names():
    forest = trees.train({}, trees.Matrix(X, labels=Y), 3)
    numpy.testing.assert_array_equal(forest.predict(table()), forest.predict(X))


def test_names_are_of_one_feature_each():
    with pytest.raises(ValueError, match="two features are called 'a'"):
        trees.Matrix(X, labels=Y, names=["a", "b", "a"])
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="two features are called 'a'"):
        trees.Matrix(pandas.DataFrame(X, columns=["a", "b", "a"]), labels=Y)


@pytest.mark.parametrize("type_", ["timestamp", "date32", "duration"])
def test_dates_are_refused(type_):
    """Breaks if nanoseconds since 1970 are rounded to f32 without a word."""
    arrow = pytest.importorskip("pyarrow")
    types = {"timestamp": arrow.timestamp("ns"), "date32": arrow.date32(), "duration": arrow.duration("s")}
    with pytest.raises(ValueError, match="column 'when' is of .*; cast it to numbers"):
        trees.Matrix(arrow.table({"when": arrow.array([1, 2], types[type_])}), labels=[0, 1])


def test_constraints_name_features():
    """Breaks if a name is taken for another feature than the one that has it."""
    arrow = pytest.importorskip("pyarrow")
    data = trees.Matrix(arrow.table({name: X[:, i] for i, name in enumerate(NAMES)}), labels=Y)
    for named, numbered in (({"monotone": {"b": -1}}, {"monotone": [0, -1, 0]}),
                            ({"interaction_constraints": [["a", "c"], ["b"]]}, {"interactions": [[0, 2], [1]]})):  # fmt: skip
        one, other = (trees.train({"max_depth": 4} | constraint, data, 5).dump() for constraint in (named, numbered))
        assert one == other != trees.train({"max_depth": 4}, data, 5).dump()
    with pytest.raises(ValueError, match="names the feature 'z', which the training data has not"):
        trees.train({"monotone": {"z": 1}}, data, 1)
